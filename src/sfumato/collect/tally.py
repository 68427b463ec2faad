"""Tallies: the collector's state. Tallies of one study can be added; others are refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from sfumato.arrays import no_outputs
from sfumato.collect.parquet import (
    count_name,
    read_head,
    read_layouts,
    read_outputs,
    read_parquet,
    reports_from_arrow,
    to_table,
    write_parquet,
)
from sfumato.collect.statistics import BitReports, SymbolCounts, merged, statistic_of
from sfumato.errors import DataError, FormatError, MismatchError
from sfumato.study.reports import Reports
from sfumato.study.study import Study
from sfumato.verbs import SomeReports, TallyVerbs


@dataclass(frozen=True, slots=True, eq=False)
class Tally(TallyVerbs):
    """Reports of one study, reduced to a statistic from which answers are computed.

    Args:
        study: The study.
        statistic: Counts of symbols, or the reports themselves if some are bits.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
        >>> first, second = study.simulate({"age": [31] * 50}, seed=1), study.empty_tally()
        >>> (first + second) == first
        True
    """

    study: Study
    statistic: SymbolCounts | BitReports

    @property
    def n(self) -> int:
        """Number of reports."""
        return self.statistic.count

    def __len__(self) -> int:
        return self.n

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<tally of {self.n:,} reports of study {self.study.name!r}>"

    def __add__(self, other: Tally) -> Tally:
        if not isinstance(other, Tally):
            return NotImplemented
        if other.study.fingerprint != self.study.fingerprint:
            raise MismatchError(
                f"a tally of study {other.study.name!r} ({other.study.fingerprint[:12]}) cannot be "
                f"added to one of {self.study.name!r} ({self.study.fingerprint[:12]}): "
                "only tallies of one study add up"
            )
        return Tally(self.study, merged([self.statistic, other.statistic]))

    def __radd__(self, other: object) -> Tally:
        """Let `sum(tallies)` start from 0."""
        return self if other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Tally)
            and self.study.fingerprint == other.study.fingerprint
            and self.statistic == other.statistic
        )

    __hash__ = None  # type: ignore[assignment]

    def save(self, path: str | Path) -> None:
        """Write a Parquet file."""
        statistic = self.statistic
        names = self.study.columns
        if isinstance(statistic, SymbolCounts):
            columns, people = statistic.symbols, statistic.people
        else:
            columns, people = statistic.columns, None  # type: ignore[assignment]
        table = to_table("tally", self.study.fingerprint, names, statistic.layouts, columns, people)
        write_parquet(table, path)

    @classmethod
    def load(cls, path: str | Path, study: Study) -> Tally:
        """Read a Parquet file; a tally of another study is refused.

        Args:
            path: A file written by `save`.
            study: The study that the tally belongs to.
        """
        what = repr(str(path))
        table = read_parquet(path)
        head = read_head(table, "tally", what)
        study.refuse_other(head["study"], what)
        names, layouts = read_layouts(head, what)
        if tuple(layouts) != study.layouts:
            raise FormatError(f"{what} has damaged metadata; write it anew")
        columns = read_outputs(table, names, layouts, what)
        if any(layout.kind == "bits" for layout in layouts):
            return cls(study, BitReports(tuple(layouts), tuple(columns), table.num_rows))
        last = count_name(names)
        if last not in table.column_names or table.column(last).null_count:
            raise FormatError(f"{what} lacks the column {last!r}; write it anew")
        people = table.column(last).to_numpy().astype(np.int64)
        if people.size and people.min() < 1:
            raise FormatError(f"column {last!r} of {what} must hold positive whole numbers")
        return cls(study, SymbolCounts.of(tuple(layouts), columns, people))  # type: ignore[arg-type]


def tally_of(study: Study, reports: SomeReports) -> Tally:
    """Reduce reports of a study to a tally.

    Args:
        study: The study that the reports belong to.
        reports: Reports, their Arrow table, or several of these.
    """
    nobody = statistic_of(study.layouts, no_outputs(study.layouts))
    parts = [statistic_of(study.layouts, part.outputs) for part in checked(study, reports)]
    return Tally(study, merged(parts or [nobody]))


def checked(study: Study, reports: SomeReports) -> Iterator[Reports]:
    """Iterate over batches of reports; those of another study are refused.

    Args:
        study: The study that the reports must belong to.
        reports: Reports, their Arrow table, or several of these.
    """
    several = [reports] if isinstance(reports, (Reports, pa.Table)) else reports
    for part in several:
        held = reports_from_arrow(part, "the table") if isinstance(part, pa.Table) else part
        if not isinstance(held, Reports):
            raise DataError(
                f"tally() takes Reports or their Arrow tables, got {type(held).__name__}"
            )
        study.refuse_other(held.fingerprint, "these reports")
        if held.layouts != study.layouts:
            raise FormatError("these reports have damaged metadata; encode them anew")
        yield held
