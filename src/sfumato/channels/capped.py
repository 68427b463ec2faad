"""Geometric noise under a cap: with a fixed chance, report from a fixed law instead.

Guarantee:
    E(x, x') = min(ε·|x − x'|, cap) on equally spaced cells, exact for the integer table. Output y
    has N(y | x) + k(y) words: N is the geometric table with neighbouring odds of at most r <= e^ε,
    and k is the same for all cells. So neighbouring odds stay at most r, as (a + k)/(b + k) <= a/b
    for a >= b; and with c <= e^cap a certified bound, k(y) >= (max N − c·min N)/(c − 1) makes
    max N + k <= c·(min N + k), which is the cap, for every pair at once. Words that are left over
    go to k, where they only help.

    Stochastic rounding keeps both: between grid points the law is an average of theirs, so it lies
    between the same largest and smallest chances, and neighbours keep their odds of 1 + ε.

Estimator:
    Unbiased, in O(cells). With f the geometric channel's function for weights w, s the share of
    words that go to the noise and φ the fixed law's chances, (f − Σ φ·f)/s has mean w.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from sfumato.arrays import PEOPLE_AT_ONCE, Cells, Floats
from sfumato.channels.base import SymbolChannel, refuse_dense
from sfumato.channels.noise import (
    averaged,
    gathered,
    moved_rows,
    noise_words,
    sharpened,
    spread,
    worst_neighbours,
)
from sfumato.errors import StudyError
from sfumato.exact import exp_floor, to_plain
from sfumato.metrics.distance import CappedLineMetric
from sfumato.randomness.bits import BitSource
from sfumato.randomness.tables import WordTable


@dataclass(frozen=True, kw_only=True, eq=False)
class CappedGeometricChannel(SymbolChannel):
    """Clamped geometric noise or a fixed law, decided by one word against one table.

    `odds` is the largest ratio between neighbouring cells the noise may show: a certified lower
    bound of e^ε, or 1 + ε under stochastic rounding.
    """

    id: ClassVar[str] = "capped-geometric"
    metric: CappedLineMetric
    odds: Fraction
    precision: int = 64
    _table: WordTable = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Build the table once: first the noise, −(size−1)..size−1, then the fixed outputs."""
        half, fixed = _capped_words(self.odds, self.metric, self.precision)
        table = WordTable((*half[:0:-1], *half, *fixed), self.precision)
        object.__setattr__(self, "_table", table)

    @property
    def alpha(self) -> float:
        """e^−ε as the table has it."""
        return float(1 / self.odds)

    def encode(self, cells: Cells, bits: BitSource) -> Cells:
        """Add noise to cells and clamp to the axis, or put out what the word says by itself."""
        reach = self.size - 1
        out = np.empty(len(cells), dtype=self.symbol_type())
        for start in range(0, len(cells), PEOPLE_AT_ONCE):
            part = np.asarray(cells[start : start + PEOPLE_AT_ONCE], dtype=np.int64)
            drawn = self._table.draw(bits, len(part)).astype(np.int64)
            noisy = np.clip(drawn + (part - reach), 0, reach)
            fixed = drawn - (2 * reach + 1)
            out[start : start + len(part)] = np.where(fixed < 0, noisy, fixed)
        return out

    def half_table(self) -> tuple[int, ...]:
        """Words of noise 0, 1, …, size−1; the last one includes the tail beyond."""
        return self._table.weights[self.size - 1 : 2 * self.size - 1]

    def fixed_table(self) -> tuple[int, ...]:
        """Words that put out 0, 1, …, size−1 whatever the cell."""
        return self._table.weights[2 * self.size - 1 :]

    def words(self) -> tuple[list[list[int]], int]:
        """Exact word counts: the noise's, and the fixed ones in every row."""
        refuse_dense(self.size, "the likelihood")
        fixed = self.fixed_table()
        rows = [
            [noise + always for noise, always in zip(row, fixed, strict=True)]
            for row in moved_rows(self.half_table())
        ]
        return rows, 1 << self.precision

    def worst_ratio(self) -> Fraction:
        """The largest odds between neighbouring cells of the noise; fixed words only lower them."""
        return worst_neighbours(self.half_table())

    def worst_pair_ratio(self) -> Fraction:
        """The largest odds between any two cells, fixed words included."""
        ends = zip(extremes(self.half_table()), self.fixed_table(), strict=True)
        return max(Fraction(most + fixed, least + fixed) for (most, least), fixed in ends)

    def likelihood(self) -> Floats:
        """P(output | cell), rounded from the exact words."""
        rows, total = self.words()
        return np.array([[word / total for word in row] for row in rows])

    @cached_property
    def share(self) -> float:
        """The chance that the noise decides."""
        half = self.half_table()
        return (2 * sum(half) - half[0]) / (1 << self.precision)

    @cached_property
    def fixed_law(self) -> Floats:
        """The chance of every output by way of the fixed law."""
        total = 1 << self.precision
        return np.array([word / total for word in self.fixed_table()])

    def coefficients(self, weights: Floats) -> Floats:
        """The geometric channel's function less its mean under the fixed law, over the share."""
        plain = sharpened(weights, self.alpha)
        result: Floats = (plain - (plain @ self.fixed_law)[..., None]) / self.share
        return result

    def gather(self, profile: Floats) -> Floats:
        """What the fixed law sends of everybody taken off, then the geometric channel's."""
        everyone = np.sum(profile, axis=-1, keepdims=True)
        return gathered(profile - everyone * self.fixed_law, self.alpha) / self.share

    def expect(self, table: Floats) -> Floats:
        """The noise as a recursive filter, and the fixed law's mean. O(cells)."""
        always = (np.asarray(table, dtype=np.float64) @ self.fixed_law)[..., None]
        result: Floats = self.share * averaged(table, self.alpha) + always
        return result

    def mix(self, law: Floats) -> Floats:
        """The transpose of `expect`. O(cells)."""
        people = np.sum(law, axis=-1, keepdims=True)
        result: Floats = self.share * spread(law, self.alpha) + people * self.fixed_law
        return result


def extremes(half: Sequence[int]) -> list[tuple[int, int]]:
    """The most and the least words that any cell gives each output, by noise alone.

    Weights fall with the distance. Inside, the output's own cell has the most and the farther end
    of the axis the least; at the two ends tails take the place of weights.
    """
    last = len(half) - 1
    end = sum(half), half[last]
    return [end, *((half[0], half[max(y, last - y)]) for y in range(1, last)), end]


def least_fixed(half: Sequence[int], odds: Fraction) -> list[int]:
    """The fewest fixed words with which no output's odds exceed the given ones.

    Example:
        >>> least_fixed((8, 2, 1), Fraction(3))
        [4, 1, 4]
    """
    top, bottom = odds.numerator, odds.denominator
    return [
        max(0, -((least * top - most * bottom) // (top - bottom))) for most, least in extremes(half)
    ]


def _capped_words(
    odds: Fraction, metric: CappedLineMetric, precision: int
) -> tuple[tuple[int, ...], list[int]]:
    """Words of the noise on one side, and the fixed words of every output."""
    total, size = 1 << precision, metric.size
    limit = exp_floor(metric.cap)
    if limit <= 1:
        raise StudyError(_too_coarse(metric, precision))
    kept = total
    while True:
        try:
            half = noise_words(odds, size - 1, kept)
        except StudyError:
            if kept == total:
                raise
            raise StudyError(_too_coarse(metric, precision)) from None
        fixed = least_fixed(half, limit)
        needed = sum(fixed)
        if kept + needed <= total:
            break
        # What is needed is in proportion to the noise but for rounding: a step or two are enough.
        kept = min(total * kept // (kept + needed), kept - 1) & ~1
        if not kept:
            raise StudyError(_too_coarse(metric, precision))
    fixed[size // 2] += total - kept - needed
    return half, fixed


def _too_coarse(metric: CappedLineMetric, precision: int) -> str:
    """What to say where rounding leaves nothing to the noise."""
    return (
        f"a table of 2^{precision} words is too coarse for a cap of {to_plain(metric.cap)} on "
        f"{metric.size} cells at this epsilon; use a larger cap or fewer cells"
    )
