"""The exponential channel, P(y | x) ∝ e^(−E(x,y)/2), for any finite metric.

Guarantee:
    P(y | x) ∝ e^(−d(x,y)/2), where d is E made symmetric by the smaller direction and closed again.
    Weights and normalisers each change by at most e^(d/2) between cells, so the odds stay within
    e^d <= e^E. Cells at infinite distance share no output. The table is computed in whole numbers,
    so that all machines have the same, and is checked pair by pair; nothing is left to rounding.

Estimator:
    The inverse of the likelihood matrix, unbiased.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.channels.choice import Choice, Trial
from sfumato.channels.least_squares import TableChannel
from sfumato.channels.odds import Bound
from sfumato.errors import StudyError
from sfumato.exact import exp_minus_floor
from sfumato.metrics.cells import CellMetric, TableMetric, divide
from sfumato.metrics.closure import close_integers
from sfumato.metrics.distance import CappedLineMetric, LineMetric
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.uniform import UniformMetric

MOST_CELLS = 1024
_WORST_CONDITION = 1e12
_LEAST_SLACK = 24  # distances are shortened by this binary part or a larger one, for rounding
_UNIT, _DIGIT = 42, 6  # exponents in units of 2^-42, exponentiated by six binary digits at a time
_NEVER = -1e9  # instead of the logarithm of 0 words
_FEWER = "wider bins or fewer categories"


@dataclass(frozen=True, slots=True)
class Exponential(Choice):
    """Choose the exponential channel; it fits every metric of up to 1024 cells."""

    id: ClassVar[str] = "exponential"
    revision: ClassVar[int] = 2

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
        """Round the ideal law to words, and refuse what cannot be read."""
        object.__setattr__(self, "table", self._rounded())
        condition = float(np.linalg.cond(self.likelihood()))
        if not condition < _WORST_CONDITION:
            raise StudyError(
                "the exponential channel of this metric cannot be inverted: some cells can hardly "
                f"be told apart (condition {condition:.1e}); use a larger epsilon or merge cells"
            )

    def _rounded(self) -> tuple[tuple[int, ...], ...]:
        """The table of words."""
        return _table(self.metric, self.precision)

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


def too_coarse(precision: int) -> StudyError:
    """What to say of words that are too short for a metric."""
    return StudyError(
        f"a table of 2^{precision} words is too coarse for this metric; use a larger epsilon"
    )


@lru_cache(maxsize=1)  # a study binds what its planner has just tried
def _table(metric: CellMetric, precision: int) -> tuple[tuple[int, ...], ...]:
    """Words with as little slack as keeps all odds within e^d: whole numbers decide."""
    given, denominator = metric.integers()
    numerators = _symmetric(given)
    distance = np.array([divide(row, denominator) for row in numerators])

    def within(x: int, y: int) -> bool:
        bound = Bound(Fraction(int(numerators[x, y]), denominator))
        return all(map(bound.allows, rows[x], rows[y]))

    for spare in range(min(_LEAST_SLACK, precision - 4), 0, -1):
        rows = _rows(numerators, Fraction(1, denominator), spare, precision)
        if rows and all(within(x, y) for x, y in unclear(rows, distance)):
            return tuple(map(tuple, rows))
    raise too_coarse(precision)


def _symmetric(numerators: NDArray[Any]) -> NDArray[Any]:
    """The largest symmetric metric below E: the smaller direction, closed again; -1: infinite."""
    other = numerators.T
    smaller = np.where(numerators < 0, other, np.minimum(numerators, other))
    smaller = np.where(other < 0, numerators, smaller)
    return numerators if (smaller == numerators).all() else close_integers(smaller)


def _rows(numerators: NDArray[Any], unit: Fraction, spare: int, precision: int) -> list[list[int]]:
    """The ideal law of the distances less a 2^spare-th part, in words; none if they run out.

    A weight is e^(−d/2) with d/2 rounded down to a multiple of 2^-42, as a product of table entries
    with 64 binary digits after the point. A cell itself takes what rounding leaves over.
    """
    near = np.asarray(numerators >= 0, dtype=bool)
    finite = numerators[near]
    if finite.max() < 1 << 63:
        finite = finite.astype(np.int64)  # which sorts faster
    kinds, place = np.unique(finite, return_inverse=True)
    half = unit * (1 - Fraction(1, 1 << spare)) / 2 * (1 << _UNIT)
    # Beyond e^-64 a weight is below 2^-92: zero.
    most = 64 << _UNIT
    halves = [min(int(kind) * half.numerator // half.denominator, most) for kind in kinds.tolist()]
    weights: NDArray[Any] = np.zeros(numerators.shape, dtype=object)
    weights[near] = _decay(np.array(halves, dtype=np.int64))[place]
    # The same rare event for all cells of a component puts out a uniform choice: E is kept.
    total = 1 << precision
    reserved = total >> max(2, precision // 3)
    rows: list[list[int]] = []
    for x, row in enumerate(weights):
        found = np.where(
            near[x], row * (total - reserved) // row.sum() + reserved // int(near[x].sum()), 0
        )
        found[x] += total - found.sum()
        if found[x] <= 0:
            return []
        rows.append(found.tolist())
    return rows


def _decay(halves: NDArray[np.int64]) -> NDArray[Any]:
    """2^64·e^-t of multiples t of 2^-42: digit by digit, every product rounded down."""
    found: NDArray[Any] = np.full(len(halves), 1 << 64, dtype=object)
    for start in range(0, _UNIT + 7, _DIGIT):
        digits = (halves >> start) & ((1 << _DIGIT) - 1)
        step = Fraction(1 << start, 1 << _UNIT)
        table = [exp_minus_floor(digit * step) for digit in range(int(digits.max()) + 1)]
        found = found * np.array(table, dtype=object)[digits] >> 64
    return found


def unclear(rows: Sequence[Sequence[int]], distance: Floats) -> Iterator[tuple[int, int]]:
    """Pairs of cells whose odds floats cannot tell to be within e^d.

    Args:
        rows: Words, one row per cell.
        distance: d between cells, infinite between components.
    """
    words = np.array(rows, dtype=np.float64)
    log = np.where(words > 0, np.log(np.maximum(words, 1.0)), _NEVER)
    # Logs of numbers up to 2^64 and the rounding of words and distances err by under 2^-44.
    allowed = distance * (1 - 2.0**-50) - 2.0**-44
    np.fill_diagonal(allowed, np.inf)
    left = np.ones(len(rows), dtype=bool)
    while left.any():
        cells = np.flatnonzero(np.isfinite(distance[left.argmax()]))  # a component
        left[cells] = False
        part = log[np.ix_(cells, cells)]
        gap = np.empty_like(part)
        for place, x in enumerate(cells.tolist()):
            np.subtract(part[place], part, out=gap)
            for y in cells[gap.max(axis=1) > allowed[x, cells]].tolist():
                yield x, y
