"""Two-sided geometric noise, clamped to the axis: one small number a report.

Guarantee:
    E(x, x') = ε·|x − x'| on equally spaced cells, exact for the integer table, and tight.

Estimator:
    Unbiased with a tridiagonal inverse. With α = e^−ε, a = α/(1−α)² and d[y] = w[y] − w[y+1], the
    unclamped functional is f(y) = w[y] + a·(d[y] − d[y−1]); at the two ends clamping averages it
    with the tail. Only people near an end of a range add noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from scipy.signal import lfilter

from sfumato.channels.base import (
    PEOPLE_AT_ONCE,
    Cells,
    Choice,
    Floats,
    SymbolChannel,
    refuse_dense,
)
from sfumato.errors import StudyError
from sfumato.exact import exp_floor
from sfumato.metrics import CellMetric, LineMetric
from sfumato.randomness import BitSource, WordTable


@dataclass(frozen=True, slots=True)
class Geometric(Choice):
    """Choose the geometric channel; it fits `Distance` on equally spaced cells.

    Example:
        >>> import sfumato as sf
        >>> sf.integers("age", 0, 99, protect=sf.Distance(0.2), channel=sf.Geometric()).name
        'age'
    """

    id: ClassVar[str] = "geometric"

    def misfit(self, metric: CellMetric) -> str | None:
        """It needs equal steps along a line."""
        if isinstance(metric, LineMetric) and metric.equal_step is not None:
            return None
        return "it needs a Distance on equally spaced cells; Thermometer takes unequal ones"

    def bind(
        self, metric: CellMetric, *, precision: int = 64, rounded: bool = False
    ) -> GeometricChannel:
        """Build the noise table for the metric's step."""
        if not isinstance(metric, LineMetric) or metric.equal_step is None:
            raise StudyError(f"Geometric does not fit this metric: {self.misfit(metric)}")
        step = metric.equal_step
        odds = 1 + step if rounded else exp_floor(step)
        return GeometricChannel(metric=metric, odds=odds, precision=precision, rounded=rounded)


@dataclass(frozen=True, kw_only=True, eq=False)
class GeometricChannel(SymbolChannel):
    """Clamped two-sided geometric noise from an integer table.

    `odds` is the largest ratio between neighbouring cells the table may show: a certified lower
    bound of e^ε, or 1 + ε under stochastic rounding.
    """

    id: ClassVar[str] = "geometric"
    metric: LineMetric
    odds: Fraction
    precision: int = 64
    rounded: bool = False
    _noise: WordTable = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Build the table once; both ends of the channel read it."""
        half = noise_words(self.odds, self.size - 1, self.precision)
        table = WordTable((*half[:0:-1], *half), self.precision)
        object.__setattr__(self, "_noise", table)

    @property
    def tightness(self) -> float:  # type: ignore[override]
        """Neighbouring cells are told apart by all of E but for the table's rounding."""
        return 0.0 if self.rounded or self.precision < 64 else 1 - 2.0**-30

    @property
    def alpha(self) -> float:
        """e^−ε as the table has it."""
        return float(1 / self.odds)

    def encode(self, cells: Cells, bits: BitSource) -> Cells:
        """Add noise to cells and clamp to the axis."""
        reach = self.size - 1
        out = np.empty(len(cells), dtype=self.symbol_type())
        for start in range(0, len(cells), PEOPLE_AT_ONCE):
            part = np.asarray(cells[start : start + PEOPLE_AT_ONCE], dtype=np.int64)
            noisy = self._noise.draw(bits, len(part)) + (part - reach)
            out[start : start + len(part)] = np.clip(noisy, 0, reach)
        return out

    def words(self) -> tuple[list[list[int]], int]:
        """Exact word counts: a shifted row of the noise table, its tails summed at the ends."""
        refuse_dense(self.size, "the likelihood")
        half = self.half_table()
        last = self.size - 1
        tails = [0] * (last + 2)  # tails[j] = words with noise at or beyond j on one side
        for j in range(last, -1, -1):
            tails[j] = tails[j + 1] + half[j]
        rows = []
        for x in range(self.size):
            row = [half[abs(y - x)] for y in range(self.size)]
            row[0] = tails[x] if x else half[0] + tails[1]
            row[last] = tails[last - x] if x < last else half[0] + tails[1]
            rows.append(row)
        return rows, 1 << self.precision

    def half_table(self) -> tuple[int, ...]:
        """Words of noise 0, 1, …, size−1; the last one includes the tail beyond."""
        return self._noise.weights[self.size - 1 :]

    def worst_ratio(self) -> Fraction:
        """Largest odds between neighbouring cells: of adjacent weights, or adjacent tails."""
        half = self.half_table()
        worst = Fraction(1)
        tail = 0
        for j in range(len(half) - 1, 0, -1):
            tail += half[j]
            ratio = Fraction(half[j - 1] + tail, tail)
            if j < len(half) - 1:
                ratio = max(ratio, Fraction(half[j - 1], half[j]))
            worst = max(worst, ratio)
        return worst

    def likelihood(self) -> Floats:
        """P(output | cell), rounded from the exact words."""
        rows, total = self.words()
        return np.array([[word / total for word in row] for row in rows])

    def coefficients(self, weights: Floats) -> Floats:
        """The tridiagonal inverse, in O(cells)."""
        alpha = self.alpha
        drop = -np.diff(weights, axis=-1)
        values = np.array(weights, dtype=np.float64)
        gain = alpha / (1 - alpha) ** 2
        ends = alpha / (1 - alpha)
        values[..., 1:-1] += gain * np.diff(drop, axis=-1)
        values[..., 0] += ends * drop[..., 0]
        values[..., -1] -= ends * drop[..., -1]
        return values

    def expect(self, table: Floats) -> Floats:
        """The noise as a recursive filter; the ends stand for their tails. O(cells)."""
        return self._blur(self._lift_ends(np.array(table, dtype=np.float64)))

    def mix(self, law: Floats) -> Floats:
        """The transpose of `expect`: the ends collect their tails. O(cells)."""
        return self._lift_ends(self._blur(np.asarray(law, dtype=np.float64)))

    def _lift_ends(self, values: Floats) -> Floats:
        """Weigh both ends by the geometric series of the tail that is clamped to them, in place."""
        values[..., 0] /= 1 - self.alpha
        values[..., -1] /= 1 - self.alpha
        return values

    def _blur(self, values: Floats) -> Floats:
        """Two-sided geometric noise without clamping, as two first-order recursive filters."""
        alpha = self.alpha
        ahead = lfilter([1.0], [1.0, -alpha], values, axis=-1)
        behind = lfilter([1.0], [1.0, -alpha], values[..., ::-1], axis=-1)[..., ::-1]
        result: Floats = (ahead + behind - values) * ((1 - alpha) / (1 + alpha))
        return result


@lru_cache(maxsize=256)
def noise_words(odds: Fraction, reach: int, precision: int) -> tuple[int, ...]:
    """Words for noise 0, 1, …, reach on one side, the last including the tail.

    Both sides together, zero counted once, use all 2^precision words. Neighbouring weights, and
    neighbouring tails, differ by at most the given odds; see "Exactness" in the documentation for
    the proof.
    """
    total = 1 << precision
    centre = _largest_centre(odds, reach, precision)
    half = _half(odds, reach, centre)
    spare = total - _full(half)
    half[-1] += spare // 2
    return tuple(half)


def _largest_centre(odds: Fraction, reach: int, precision: int) -> int:
    """The largest even weight of zero noise with which the table still fits."""
    total = 1 << precision
    alpha = 1 / odds
    guess = int((1 - alpha) / (1 + alpha) * total) // 2
    low, high = 0, 1

    def fits(half_centre: int) -> bool:
        return _full(_half(odds, reach, 2 * half_centre)) <= total

    # The ideal weight is off by little: gallop from it instead of halving the whole range.
    stride = 1
    if guess and fits(guess):
        low = guess
        while fits(low + stride):
            low, stride = low + stride, 2 * stride
        high = low + stride
    else:
        high = max(guess, 1)
        while high - stride > 0 and not fits(high - stride):
            high, stride = high - stride, 2 * stride
        low = max(high - stride, 0)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    if low == 0:
        raise StudyError(
            f"a table of 2^{precision} words is too coarse for {reach + 1} cells at this epsilon; "
            "use fewer cells or a larger epsilon"
        )
    return 2 * low


def _half(odds: Fraction, reach: int, centre: int) -> list[int]:
    """Weights of noise 0..reach from the weight of zero, each at least its neighbour over odds."""
    numerator, denominator = odds.numerator, odds.denominator
    half = [centre]
    while len(half) < reach:
        weight = -(-half[-1] * denominator // numerator)
        if weight == half[-1]:  # rounding up has stalled the decay: it stays so
            half.extend([weight] * (reach - len(half)))
        else:
            half.append(weight)
    half.append(-(-half[-1] * denominator // (numerator - denominator)))
    return half


def _full(half: list[int]) -> int:
    """Words of both sides, zero counted once."""
    return 2 * sum(half) - half[0]
