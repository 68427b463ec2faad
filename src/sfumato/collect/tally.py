"""A tally: the collector's state. Tallies of the same study add up; anything else is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sfumato.collect import parquet as wire
from sfumato.collect.statistics import BitReports, SymbolCounts
from sfumato.errors import FormatError, MismatchError, StudyError
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.joint import JointUnbiasedEstimate
from sfumato.estimation.likelihood import LikelihoodEstimate
from sfumato.estimation.unbiased import UnbiasedEstimate

if TYPE_CHECKING:
    from sfumato.study.study import Study


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """Reports of one study, reduced to what answers need.

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
        merged = self.study.mechanism.merge([self.statistic, other.statistic])
        return Tally(self.study, merged)

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

    def estimate(
        self,
        method: str = "likelihood",
        *,
        via: str = "auto",
        smoothing: str = "auto",
        progress: Callable[[float], None] | None = None,
    ) -> Estimate:
        """What the population looks like, ready to be asked.

        Args:
            method: "likelihood": the population under which the reports are likeliest, smoothed
                as much as they ask for; the best answer from the same reports, never negative.
                "unbiased": assumes nothing, needs no grid, right on average.
            via: How unbiased sums are found: "direct" over the tally, "cells" over the grid of
                single values, "prefix" by a summed-area table, or "auto", which starts directly
                and builds the table once that would have been cheaper.
            smoothing: For "likelihood": "auto", or "none" for plain maximum likelihood by EM.
            progress: For "likelihood": called with the share done while a grid is decoded.
        """
        if method == "unbiased":
            if self.study.is_joint:
                return JointUnbiasedEstimate(self.study, self.statistic)
            return UnbiasedEstimate(self.study, self.statistic, via=via)
        if method == "likelihood":
            return LikelihoodEstimate(
                self.study, self.statistic, via=via, smoothing=smoothing, progress=progress
            )
        raise StudyError(f"method must be 'likelihood' or 'unbiased', got method={method!r}")

    def save(self, path: str | Path) -> None:
        """Write a Parquet file."""
        statistic = self.statistic
        names = self.study.columns
        if isinstance(statistic, SymbolCounts):
            columns, people = statistic.symbols, statistic.people
        else:
            columns, people = statistic.columns, None  # type: ignore[assignment]
        table = wire.to_table(
            "tally", self.study.fingerprint, names, statistic.layouts, columns, people
        )
        wire.write_parquet(table, path)

    @classmethod
    def load(cls, path: str | Path, study: Study) -> Tally:
        """Read a Parquet file; a tally of another study is refused."""
        what = repr(str(path))
        table = wire.read_parquet(path)
        head = wire.read_head(table, "tally", what)
        study.refuse_other(head["study"], what)
        names, layouts = wire.read_layouts(head, what)
        if tuple(layouts) != study.mechanism.layouts:
            raise FormatError(f"{what} has damaged metadata; write it anew")
        columns = wire.read_outputs(table, names, layouts, what)
        if any(layout.kind == "bits" for layout in layouts):
            return cls(study, BitReports(tuple(layouts), tuple(columns), table.num_rows))
        last = wire.count_name(names)
        if last not in table.column_names or table.column(last).null_count:
            raise FormatError(f"{what} lacks the column {last!r}; write it anew")
        people = table.column(last).to_numpy().astype(np.int64)
        if people.size and people.min() < 1:
            raise FormatError(f"column {last!r} of {what} must hold positive whole numbers")
        return cls(study, SymbolCounts.of(tuple(layouts), columns, people))  # type: ignore[arg-type]
