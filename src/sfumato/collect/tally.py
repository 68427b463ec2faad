"""Tallies: the collector's state. Tallies of one study can be added; others are refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.arrays import Outputs, no_outputs
from sfumato.collect.parquet import (
    MOST_PEOPLE,
    Column,
    Kind,
    Source,
    called,
    free_name,
    open_parquet,
    parquet_bytes,
    read_columns,
    read_head,
    read_layouts,
    read_outputs,
    read_people,
    reports_from_arrow,
    to_table,
    write_parquet,
)
from sfumato.collect.statistics import BitReports, SymbolCounts, merged, statistic_of
from sfumato.errors import (
    DataError,
    FormatError,
    MismatchError,
    StudyError,
    TooLargeError,
    shown,
)
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
        if self.n + other.n > MOST_PEOPLE:
            raise TooLargeError(
                f"a tally counts at most {MOST_PEOPLE:,} people, and these two have "
                f"{self.n + other.n:,}; check where they come from"
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
        write_parquet(self._table(), path)

    def to_bytes(self) -> bytes:
        """The bytes of the Parquet file that `save` writes, for a database or a message.

        Example:
            >>> import sfumato as sf
            >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
            >>> tally = study.simulate({"age": [31] * 50}, seed=1)
            >>> Tally.from_bytes(tally.to_bytes(), study) == tally
            True
        """
        return parquet_bytes(self._table())

    def _table(self) -> pa.Table:
        """The Arrow table of the tally."""
        statistic = self.statistic
        names = self.study.columns
        columns: Sequence[Outputs]
        if isinstance(statistic, SymbolCounts):
            columns, beside = statistic.symbols, {free_name("people", names): statistic.people}
        else:
            columns, beside = statistic.columns, {}
        return to_table("tally", self.study.fingerprint, names, statistic.layouts, columns, beside)

    @classmethod
    def load(cls, path: str | Path, study: Study) -> Tally:
        """Read a Parquet file; a tally of another study is refused.

        Args:
            path: A file written by `save`.
            study: The study that the tally belongs to.

        Raises:
            FormatError: If the file is missing, damaged, newer, or holds something else.
            MismatchError: If it holds a tally of another study.
        """
        return cls._read(path, study)

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview, study: Study) -> Tally:
        """Read what `to_bytes` gave, or the bytes of a file, as strictly as `load` does.

        Args:
            data: The bytes.
            study: The study that the tally belongs to.

        Raises:
            FormatError: If the bytes are damaged, newer, or hold something else.
            MismatchError: If they hold a tally of another study.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise FormatError(f"a tally must be read from bytes, got {shown(data)}")
        return cls._read(pa.py_buffer(bytes(data)), study)

    @classmethod
    def _read(cls, source: Source, study: Study) -> Tally:
        """The tally in a Parquet file, wherever that is."""
        bits = sends_bits(study)
        people = free_name("people", study.columns)
        _, table = load_table(source, study, "tally", {} if bits else {people: "people"})
        columns = read_outputs(table, study.columns, study.layouts, called(source))
        if bits:
            return cls(study, BitReports(study.layouts, tuple(columns), table.num_rows))
        counts = read_people(table, people, called(source))
        return cls(study, SymbolCounts.of(study.layouts, columns, counts))  # type: ignore[arg-type]


def sends_bits(study: Study) -> bool:
    """Whether some block of a study sends bits, so that its tallies keep all reports."""
    if not isinstance(study, Study):
        raise StudyError(f"study must be a Study, got {type(study).__name__}; load it first")
    return any(layout.kind == "bits" for layout in study.layouts)


def load_table(
    source: Source, study: Study, kind: Kind, beside: Mapping[str, Column]
) -> tuple[dict[str, Any], pa.Table]:
    """The metadata and the columns of a file that holds a tally; one of another study is refused.

    Args:
        source: Where the file is.
        study: The study that the tally belongs to.
        kind: What the file must hold.
        beside: Columns beside the outputs, and what they hold.
    """
    what = called(source)
    with open_parquet(source) as file:
        head = read_head(file.schema_arrow, kind, what)
        study.refuse_other(head["study"], what)
        names, layouts = read_layouts(head, what)
        if (tuple(names), tuple(layouts)) != (study.columns, study.layouts):
            raise FormatError(f"{what} has damaged metadata; write it again")
        wanted = dict[str, Column](zip(names, layouts, strict=True))
        return head, read_columns(file, source, {**wanted, **beside})


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
    one = isinstance(reports, (Reports, pa.Table))
    for part in [reports] if one else _many(reports):
        held = reports_from_arrow(part, "the table") if isinstance(part, pa.Table) else part
        if not isinstance(held, Reports):
            raise DataError(
                f"tally() takes Reports or their Arrow tables, got {type(held).__name__}"
            )
        study.refuse_other(held.fingerprint, "this set of reports")
        if (held.names, held.layouts) != (study.columns, study.layouts):
            raise FormatError("these reports have damaged metadata; encode them again")
        yield held


def _many(reports: Any) -> Iterator[Any]:
    """Several parts, one after another: they may be more than the memory holds at once."""
    try:
        parts: Iterator[Any] = iter(reports)
        return parts
    except TypeError:
        raise DataError(
            f"tally() takes Reports or their Arrow tables, got {type(reports).__name__}"
        ) from None
