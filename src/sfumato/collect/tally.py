"""Tallies: the collector's state. Tallies of one study can be added; others are refused.

Reports may have public weights, which the collector knows.

Estimator:
    Σ_i w_i·f(y_i) is unbiased for the total weight of the people asked about, and its variance
    given the data is Σ_i w_i²·(Π_b E[f_b² | x_b] − Π_b w_b(x_b)²): sums of the same kind with
    squared weights. So a weighted tally keeps two statistics, one with the weights and one with
    their squares, instead of one group per distinct weight as in Xiang et al. 2020, §4.3.2.

A weight that must be hidden is a protected axis instead: see `Estimate.total`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import Floats, Layout, no_outputs
from sfumato.checks import numbers
from sfumato.collect.parquet import (
    MOST_PEOPLE,
    count_name,
    open_parquet,
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
from sfumato.errors import DataError, FormatError, MismatchError, StudyError, TooLargeError, rows
from sfumato.study.reports import Reports
from sfumato.study.study import Study
from sfumato.verbs import SomeReports, TallyVerbs, WeightedTallyVerbs


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
        if not isinstance(study, Study):
            raise StudyError(f"study must be a Study, got {type(study).__name__}; load it first")
        what = repr(str(path))
        with open_parquet(path) as file:
            head = read_head(file.schema_arrow, "tally", what)
            study.refuse_other(head["study"], what)
            names, layouts = read_layouts(head, what)
            if (tuple(names), tuple(layouts)) != (study.columns, study.layouts):
                raise FormatError(f"{what} has damaged metadata; write it again")
            wanted: dict[str, Layout | None] = dict(zip(names, layouts, strict=True))
            bits = any(layout.kind == "bits" for layout in layouts)
            last = count_name(names)
            table = read_columns(file, path, wanted if bits else {**wanted, last: None})
        columns = read_outputs(table, names, layouts, what)
        if bits:
            return cls(study, BitReports(study.layouts, tuple(columns), table.num_rows))
        people = read_people(table, last, what)
        return cls(study, SymbolCounts.of(study.layouts, columns, people))  # type: ignore[arg-type]


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


# Within these bounds squares of weights, and sums of them, neither underflow nor overflow.
LEAST_WEIGHT, MOST_WEIGHT = 1e-100, 1e100


@dataclass(frozen=True, slots=True, eq=False)
class WeightedTally(WeightedTallyVerbs):
    """Reports of one study with public weights, reduced to two statistics.

    Made by `Study.tally(reports, weights=...)`. Weighted tallies of one study can be added. They
    have no file format: keep the reports and their weights.

    Args:
        study: The study.
        statistic: Sums of weights.
        squared: Sums of squared weights.
        heaviest: The largest weight.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
        >>> reports = study.encode({"age": [31, 42, 77] * 1_000}, bits=sf.SeededBits(1))
        >>> tally = study.tally(reports, weights=[2.0, 0.5, 1.5] * 1_000)
        >>> tally.weight
        4000.0
        >>> print(tally.estimate().count(age=(30, 50)))
        2,280 ± 130
    """

    study: Study
    statistic: SymbolCounts | BitReports
    squared: SymbolCounts | BitReports
    heaviest: float

    @property
    def n(self) -> int:
        """Number of reports."""
        return self.statistic.count

    @property
    def weight(self) -> float:
        """The total weight of all reports."""
        return self.statistic.sum([None] * len(self.study.blocks))

    def __len__(self) -> int:
        return self.n

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return (
            f"<weighted tally of {self.n:,} reports of study {self.study.name!r}, "
            f"weight {self.weight:,.6g}>"
        )

    def __add__(self, other: WeightedTally) -> WeightedTally:
        if not isinstance(other, WeightedTally):
            return NotImplemented
        self.study.refuse_other(other.study.fingerprint, "the other tally")
        return WeightedTally(
            self.study,
            merged([self.statistic, other.statistic]),
            merged([self.squared, other.squared]),
            max(self.heaviest, other.heaviest),
        )

    def __radd__(self, other: object) -> WeightedTally:
        """Let `sum(tallies)` start from 0."""
        return self if other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        """The same reports and weights; sums of weights are equal up to rounding."""
        return (
            isinstance(other, WeightedTally)
            and self.study.fingerprint == other.study.fingerprint
            and self.statistic == other.statistic
            and self.squared == other.squared
        )

    __hash__ = None  # type: ignore[assignment]


def weighted_tally(study: Study, reports: SomeReports, weights: ArrayLike) -> WeightedTally:
    """Tally reports with one weight each.

    Args:
        study: The study that the reports belong to.
        reports: Reports, their Arrow table, or several of these.
        weights: One weight per report, in the order of the reports.
    """
    given = read_weights(weights)
    nobody = statistic_of(study.layouts, no_outputs(study.layouts), np.zeros(0))
    first, second = [nobody], [nobody]
    seen = 0
    for part in checked(study, reports):
        share = given[seen : seen + len(part)]
        seen += len(part)
        if len(share) == len(part):  # otherwise the lengths differ, which is reported below
            first.append(statistic_of(study.layouts, part.outputs, share))
            second.append(statistic_of(study.layouts, part.outputs, share**2))
    if seen != len(given):
        raise DataError(
            f"weights must be one per report, got {len(given):,} weights for {seen:,} reports; "
            "give them in the order of the reports"
        )
    return WeightedTally(study, merged(first), merged(second), float(given.max(initial=0.0)))


def read_weights(weights: ArrayLike) -> Floats:
    """Weights as floats; values that are not weights are refused by row number.

    Example:
        >>> read_weights([1, 2.5]).tolist()
        [1.0, 2.5]
    """
    rule = "a list of numbers, one per report"
    given = numbers(weights, "weights", rule, error=DataError)
    if given.ndim != 1 or np.asarray(weights).dtype.kind == "b":
        raise DataError(f"weights must be {rule}, got an array with {given.ndim} axes")
    found = given + 0.0  # a copy of our own, without negative zeros
    _refuse(~np.isfinite(found), "must be finite numbers", "leave these reports out, or weigh them")
    _refuse(found < 0, "must not be negative", "tally such reports by themselves and subtract")
    outside = (found > 0) & ((found < LEAST_WEIGHT) | (found > MOST_WEIGHT))
    rule = f"must be 0 or lie between {LEAST_WEIGHT:g} and {MOST_WEIGHT:g}"
    _refuse(outside, rule, "use other units")
    return found


def _refuse(bad: NDArray[np.bool_], rule: str, remedy: str) -> None:
    """Refuse weights that break a rule, by row number."""
    if bad.any():
        found = (np.flatnonzero(bad) + 1).tolist()
        raise DataError(
            f"weights {rule}, and {len(found)} of {len(bad)} break this ({rows(found)}); {remedy}"
        )
