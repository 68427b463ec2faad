"""The exponential channel, P(y | x) ∝ e^(−E(x,y)/2), for any finite metric.

Guarantee:
    P(y | x) ∝ e^(−d(x,y)/2), where d is E made symmetric by the smaller direction and closed again.
    Weights and normalisers each change by at most e^(d/2) between cells, so the odds stay within
    e^d <= e^E. Cells at infinite distance share no output. The integer table is checked pair by
    pair when it is built; nothing is left to rounding.

Estimator:
    The inverse of the likelihood matrix, unbiased.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from sfumato.arrays import Floats
from sfumato.channels.choice import Choice, Trial
from sfumato.channels.least_squares import TableChannel
from sfumato.errors import StudyError
from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.closure import closure
from sfumato.metrics.distance import CappedLineMetric, LineMetric
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.uniform import UniformMetric

MOST_CELLS = 1024
_WORST_CONDITION = 1e12
_FEWER = "wider bins or fewer categories"


@dataclass(frozen=True, slots=True)
class Exponential(Choice):
    """Choose the exponential channel; it fits every metric of up to 1024 cells."""

    id: ClassVar[str] = "exponential"

    def misfit(self, metric: CellMetric) -> str | None:
        """It builds a table of cells by cells."""
        if metric.size > MOST_CELLS:
            capped = isinstance(metric, CappedLineMetric)
            return (
                f"its table would have {metric.size}² entries; the limit is {MOST_CELLS} cells. "
                f"Use {'equal or fewer bins, or leave out cap' if capped else _FEWER}"
            )
        return None

    def bind(
        self, metric: CellMetric, *, precision: int = 64, resolution: int = 0
    ) -> ExponentialChannel:
        """Build and check the integer table.

        Args:
            metric: E between the cells.
            precision: How many bits of a random word take part.
            resolution: Bits of a value's place between two cells; 0 without stochastic rounding.
        """
        self.refuse_misfit(metric, resolution)
        return ExponentialChannel(metric=metric, precision=precision)

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """Metrics of every kind: lines, one ε, blocks, one-sided, and tables with any entries."""
        half, one = Fraction(1, 2), Fraction(1)
        unequal = LineMetric((Fraction(3, 4), Fraction(3, 2), Fraction(5, 4)))
        ring = [[min((i - j) % 5, (j - i) % 5) for j in range(5)] for i in range(5)]
        uneven = [[0, 3, 2, -1], [1, 0, 2, -1], [4, 2, 0, -1], [3, 5, 4, 0]]
        metrics: tuple[CellMetric, ...] = (
            LineMetric.equal(half, 4),
            unequal,
            CappedLineMetric(unequal, Fraction(2)),
            UniformMetric(one, 3),
            BlockMetric(one, np.array([0, 1, 0, 2, 1, 1])),
            HighLowMetric(one, np.array([True, False, True, False])),
            TableMetric(np.array(ring), 2, 5),
            TableMetric(np.array(uneven), 3, 4),
        )
        return tuple(Trial(choice=cls(), metric=metric, spends=0.49) for metric in metrics)


@dataclass(frozen=True, kw_only=True, eq=False)
class ExponentialChannel(TableChannel):
    """A table of words, one row per cell, certified against the metric."""

    id: ClassVar[str] = "exponential"
    most_ratios: ClassVar[int] = 1 << 30  # its odds are seldom tight, so that floats decide
    metric: CellMetric
    precision: int = 64
    table: tuple[tuple[int, ...], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Round the ideal law to words with as little slack as passes the check."""
        distance = symmetric(self.metric.matrix())
        object.__setattr__(self, "table", _certified_rows(distance, self.precision))
        condition = float(np.linalg.cond(self.likelihood()))
        if not condition < _WORST_CONDITION:
            raise StudyError(
                "the exponential channel of this metric cannot be inverted: some cells can hardly "
                f"be told apart (condition {condition:.1e}); use a larger epsilon or merge cells"
            )

    @cached_property
    def _inverse(self) -> Floats:
        """Inverse of the likelihood matrix."""
        return np.linalg.inv(self.likelihood()).astype(np.float64)

    def coefficients(self, weights: Floats) -> Floats:
        """Solve for the function of the output with the wanted means."""
        return weights @ self._inverse.T

    def gather(self, profile: Floats) -> Floats:
        """The transposed solution."""
        return profile @ self._inverse


def symmetric(distance: Floats) -> Floats:
    """The largest symmetric metric below E: the smaller direction, closed again."""
    closed, _ = closure(np.minimum(distance, distance.T))
    return closed


def _certified_rows(distance: Floats, precision: int) -> tuple[tuple[int, ...], ...]:
    """Words whose log odds are certified to stay within the distance."""
    for spare in range(min(36, precision - 4), 0, -1):
        rows = _rounded_rows(distance * (1 - 2.0**-spare), precision)
        if rows is not None and _within(rows, distance):
            return tuple(tuple(row) for row in rows)
    raise StudyError(
        f"a table of 2^{precision} words is too coarse for this metric; use a larger epsilon"
    )


def _rounded_rows(distance: Floats, precision: int) -> list[list[int]] | None:
    """The ideal law in words: a floor keeps every reachable output likely enough to round well."""
    size = len(distance)
    near = np.isfinite(distance)
    weight = np.where(near, np.exp(-np.where(near, distance, 0.0) / 2), 0.0)
    law = weight / weight.sum(axis=1, keepdims=True)
    # The same rare event for all cells of a component puts out a uniform choice: E is kept.
    floor = 2.0 ** -max(2, precision // 3)
    law = (1 - floor) * law + floor * near / near.sum(axis=1, keepdims=True)
    rows = []
    for x in range(size):
        row = [int(p) for p in np.ldexp(law[x], precision)]
        row[x] += (1 << precision) - sum(row)
        if row[x] <= 0:
            return None
        rows.append(row)
    return rows


def _within(rows: list[list[int]], distance: Floats) -> bool:
    """Whether every log ratio is below its distance, with the error of the logarithms to spare."""
    words = np.array(rows, dtype=np.float64)
    possible = words > 0
    log = np.log(np.where(possible, words, 1.0))
    # Logs of numbers up to 2^64 and the rounding of words and distances err by under 2^-44.
    allowed = distance * (1 - 2.0**-50) - 2.0**-44
    for x in range(len(rows)):
        reach = np.isfinite(distance[x])
        others = log[reach][:, possible[x]]
        if not possible[reach][:, possible[x]].all():
            return False
        worst = (log[x, possible[x]] - others).max(axis=1)
        mine = np.flatnonzero(reach) == x
        if np.any(worst[~mine] > allowed[x, reach][~mine]):
            return False
    return True
