"""Tallies of reports with public weights, which the collector knows.

Estimator:
    Σ_i w_i·f(y_i) is unbiased for the total weight of the people asked about, and its variance
    given the data is Σ_i w_i²·(Π_b E[f_b² | x_b] − Π_b w_b(x_b)²): sums of the same kind with
    squared weights. So a weighted tally keeps two statistics, one with the weights and one with
    their squares, instead of one group per distinct weight as in Xiang et al. 2020, §4.3.2.

A weight that must be hidden is a protected axis instead: see `Estimate.total`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import BitColumns, Floats, Outputs, no_outputs
from sfumato.channels.pairs import many_pairs
from sfumato.checks import numbers
from sfumato.collect.parquet import (
    MOST_PEOPLE,
    Column,
    free_name,
    read_outputs,
    read_sums,
    to_table,
    write_parquet,
)
from sfumato.collect.statistics import BitReports, SymbolCounts, merged, statistic_of
from sfumato.collect.tally import checked_part, in_parts, sends_bits
from sfumato.collect.tally_files import load_table
from sfumato.errors import DataError, FormatError, StudyError, rows
from sfumato.study.study import Study
from sfumato.verbs import SomeReports, WeightedTallyVerbs

# Within these bounds squares of weights, and sums of them, neither underflow nor overflow.
LEAST_WEIGHT, MOST_WEIGHT = 1e-100, 1e100


@dataclass(frozen=True, slots=True, eq=False)
class WeightedTally(WeightedTallyVerbs):
    """Reports of one study with public weights, reduced to two statistics.

    Made by `Study.tally(reports, weights=...)`. Weighted tallies of one study can be added.

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

    def save(self, path: str | Path) -> None:
        """Write a Parquet file."""
        statistic, squared, names = self.statistic, self.squared, self.study.columns
        weight, square = _columns_of(self.study)
        beside, columns = {weight: _weights(statistic)}, _outputs(statistic)
        if not sends_bits(self.study):  # squares are sums of their own
            beside[square] = _weights(squared)
        table = to_table(
            "weighted tally",
            self.study.fingerprint,
            names,
            statistic.layouts,
            columns,
            beside,
            reports=self.n,
            heaviest=self.heaviest,
        )
        write_parquet(table, path)

    @classmethod
    def load(cls, path: str | Path, study: Study) -> WeightedTally:
        """Read a Parquet file; a tally of another study, or without weights, is refused.

        Args:
            path: A file written by `save`.
            study: The study that the tally belongs to.
        """
        what, bits = repr(str(path)), sends_bits(study)
        names = _columns_of(study)[: 1 if bits else 2]
        beside: dict[str, Column] = dict.fromkeys(names, "weights")
        head, table = load_table(path, study, "weighted tally", beside)
        count, heaviest = head.get("reports"), head.get("heaviest")
        most = table.num_rows if bits else MOST_PEOPLE
        if (
            type(count) is not int
            or not table.num_rows <= count <= most
            or type(heaviest) is not float
            or not 0 <= heaviest <= MOST_WEIGHT
        ):
            raise FormatError(f"{what} has damaged metadata; write it again")
        columns = tuple(read_outputs(table, study.columns, study.layouts, what))
        sums = [read_sums(table, name, what) for name in names]
        if bits:
            sums.append(sums[0] ** 2)
        statistic, squared = (_loaded(study, columns, people, count) for people in sums)
        return cls(study, statistic, squared, heaviest)


def _columns_of(study: Study) -> tuple[str, str]:
    """The names of the columns of weights and of squared weights in a file."""
    names = study.columns
    return free_name("weight", names), free_name("squared weight", names)


def _weights(statistic: SymbolCounts | BitReports) -> Floats:
    """The weights of a statistic: sums of them by combination of symbols, or one per report."""
    held = statistic.people if isinstance(statistic, SymbolCounts) else statistic.weights
    return np.asarray(held, dtype=np.float64)


def _outputs(statistic: SymbolCounts | BitReports) -> Sequence[Outputs]:
    """The outputs that the weights belong to, one column per block."""
    return statistic.symbols if isinstance(statistic, SymbolCounts) else statistic.columns


def _loaded(
    study: Study, columns: tuple[Outputs, ...], weights: Floats, count: int
) -> SymbolCounts | BitReports:
    """A statistic of weights, from the columns of a file."""
    symbols = [column for column in columns if not isinstance(column, BitColumns)]
    if len(symbols) < len(columns):
        return BitReports(study.layouts, columns, count, weights)
    return SymbolCounts.of(study.layouts, symbols, weights, count)


def weighted_tally(study: Study, reports: SomeReports, weights: ArrayLike) -> WeightedTally:
    """Tally reports with one weight each.

    Args:
        study: The study that the reports belong to.
        reports: Reports, their Arrow table or bytes, or several of these.
        weights: One weight per report, in the order of the reports.
    """
    if any(map(many_pairs, study.channels)):
        raise StudyError(
            "reports on pairs of axes cannot be weighted; make the weight an axis of the study"
        )
    given = read_weights(weights)
    nobody = statistic_of(study.layouts, no_outputs(study.layouts), np.zeros(0))
    first, second = [nobody], [nobody]
    seen = 0
    for part in (checked_part(study, part) for part in in_parts(reports)):
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
