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

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import PEOPLE_AT_ONCE, Cells, Floats
from sfumato.channels.base import Choice, SymbolChannel, Trial
from sfumato.errors import StudyError
from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.closure import closure
from sfumato.metrics.distance import CappedLineMetric, LineMetric
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import BitSource
from sfumato.randomness.tables import leading

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
        """Build and check the integer table."""
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
class ExponentialChannel(SymbolChannel):
    """A table of words, one row a cell, certified against the metric."""

    id: ClassVar[str] = "exponential"
    most_ratios: ClassVar[int] = 1 << 30  # its odds are seldom tight, so that floats decide
    metric: CellMetric
    precision: int = 64
    _rows: tuple[tuple[int, ...], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Round the ideal law to words with as little slack as passes the check."""
        distance = symmetric(self.metric.matrix())
        object.__setattr__(self, "_rows", _certified_rows(distance, self.precision))
        condition = float(np.linalg.cond(self.likelihood()))
        if not condition < _WORST_CONDITION:
            raise StudyError(
                "the exponential channel of this metric cannot be inverted: some cells can hardly "
                f"be told apart (condition {condition:.1e}); use a larger epsilon or merge cells"
            )

    def encode(self, cells: Cells, bits: BitSource) -> Cells:
        """Search each person's word in the row of their cell."""
        out = np.empty(len(cells), dtype=self.symbol_type())
        last = self._last
        for start in range(0, len(cells), PEOPLE_AT_ONCE):
            part = np.asarray(cells[start : start + PEOPLE_AT_ONCE], dtype=np.int64)
            word = leading(bits.words(len(part)), self.precision)
            low = np.zeros(len(part), dtype=np.int64)
            # Binary search, all people in step: the answer is how many bounds are <= the word.
            for stride in self._strides:
                probe = low + stride
                bound = self._bounds[part, np.minimum(probe, self.size - 1) - 1]
                low = np.where((probe <= last[part]) & (bound <= word), probe, low)
            out[start : start + len(part)] = low
        return out

    @cached_property
    def _bounds(self) -> NDArray[np.uint64]:
        """Cumulative words of each row; sums that do not fit a word are never looked at."""
        rows = np.array([[word % (1 << 64) for word in row] for row in self._rows], dtype=np.uint64)
        return np.cumsum(rows[:, :-1], axis=1, dtype=np.uint64)

    @cached_property
    def _last(self) -> NDArray[np.int64]:
        """The last output each cell can have; all words are used up there."""
        return np.array([max(np.flatnonzero(row)) for row in self._rows], dtype=np.int64)

    @cached_property
    def _strides(self) -> list[int]:
        """Powers of two that reach every output."""
        return [1 << k for k in reversed(range((self.size - 1).bit_length()))]

    def words(self) -> tuple[list[list[int]], int]:
        """Exact word counts."""
        return [list(row) for row in self._rows], 1 << self.precision

    def sampler_problems(self) -> Iterator[str]:
        """The sampler must search the sums of the rows shown."""
        bounds = [[s % (1 << 64) for s in accumulate(row[:-1])] for row in self._rows]
        last = [max((y for y, word in enumerate(row) if word), default=0) for row in self._rows]
        if self._bounds.tolist() != bounds or self._last.tolist() != last:
            yield "the sampler searches other bounds than the channel shows"

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
