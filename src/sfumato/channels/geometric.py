"""Two-sided geometric noise, clamped to the axis: one small number per report.

Guarantee:
    E(x, x') = ε·|x − x'| on equally spaced cells, exact for the integer table, and tight.

Estimator:
    Unbiased with a tridiagonal inverse. With α = e^−ε, a = α/(1−α)² and d[y] = w[y] − w[y+1], the
    unclamped functional is f(y) = w[y] + a·(d[y] − d[y−1]); at the two ends clamping averages it
    with the tail. Only people near an end of a range add noise.

Under a cap, E = min(ε·|x − x'|, cap): with a fixed chance, a report comes from a fixed law instead.
Output y then has N(y | x) + k(y) words: N is the geometric table with neighbouring odds of at most
r <= e^ε, and k is the same for all cells. So neighbouring odds stay at most r, as (a + k)/(b + k)
<= a/b for a >= b; and with c <= e^cap a certified bound, k(y) >= (max N − c·min N)/(c − 1) makes
max N + k <= c·(min N + k), which is the cap, for every pair at once. Words that are left over go to
k, where they only help. With f the function above, s the share of words that go to the noise and φ
the chances of the fixed law, (f − Σ φ·f)/s is unbiased.

Stochastic rounding keeps both: between grid points the law is an average of theirs, so it lies
between the same largest and smallest chances, and neighbours keep their odds of 1 + ε.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import PEOPLE_AT_ONCE, Cells, Floats
from sfumato.channels.base import (
    FEW_RATIOS,
    SymbolChannel,
    claimed_tightness,
    refuse_dense,
    rows_between,
)
from sfumato.channels.choice import Choice, Trial
from sfumato.channels.code import Code, Value, runs
from sfumato.channels.every import (
    geometric_squares,
    like_few,
    short_line,
    split_peaks,
)
from sfumato.channels.geometric_noise import (
    NoiseLine,
    averaged,
    check_neighbours,
    gathered,
    law_problems,
    moved_rows,
    noise_words,
    sharpened,
    spread,
    table_problems,
    worst_neighbours,
)
from sfumato.channels.odds import Bound, Findings
from sfumato.channels.rounding import grid_points, rounding_steps
from sfumato.errors import StudyError
from sfumato.exact import exp_floor, to_plain
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.distance import CappedLineMetric, LineMetric
from sfumato.randomness.bits import BitSource
from sfumato.randomness.draws import Pick, Steps
from sfumato.randomness.tables import WordTable


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
        """It needs equal steps along a line; it can keep a cap."""
        if isinstance(metric, CappedLineMetric):
            unequal = metric.equal_step is None
            return "under a cap it needs equally spaced cells; use Exponential" if unequal else None
        if isinstance(metric, LineMetric) and metric.equal_step is not None:
            return None
        return "it needs a Distance on equally spaced cells; Thermometer takes unequal ones"

    def bind(
        self, metric: CellMetric, *, precision: int = 64, resolution: int = 0
    ) -> GeometricChannel | CappedGeometricChannel:
        """Build the noise table for the metric's step.

        Args:
            metric: E between the cells.
            precision: How many bits of a random word take part.
            resolution: Bits of a value's place between two cells; 0 without stochastic rounding.
        """
        self.refuse_misfit(metric)
        if not isinstance(metric, LineMetric | CappedLineMetric) or metric.equal_step is None:
            raise StudyError(f"Geometric does not fit this axis: {self.misfit(metric)}")
        odds = 1 + metric.equal_step if resolution else exp_floor(metric.equal_step)
        if isinstance(metric, CappedLineMetric):
            return CappedGeometricChannel(
                metric=metric, odds=odds, precision=precision, resolution=resolution
            )
        return GeometricChannel(
            metric=metric, odds=odds, precision=precision, resolution=resolution
        )

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """Lines short and long, at small and large steps; under a cap; behind rounding."""
        lines = [
            LineMetric.equal(Fraction(step), size)
            for step, size in (("1", 2), ("1/2", 3), ("1/10", 5), ("1", 7), ("3", 4))
        ]
        capped = [
            CappedLineMetric(LineMetric.equal(Fraction(step), size), Fraction(cap))
            for step, size, cap in (("1", 5, "2"), ("1/2", 6, "4/5"), ("1", 2, "1/2"))
        ]
        metrics: list[CellMetric] = [*lines, *capped]
        return (
            *(Trial(choice=cls(), metric=metric) for metric in metrics),
            *(Trial(choice=cls(), metric=metrics[k], resolution=2) for k in (1, 3, 5)),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class GeometricChannel(SymbolChannel):
    """Clamped two-sided geometric noise from an integer table.

    `odds` is the largest ratio between neighbouring cells the table may show: a certified lower
    bound of e^ε, or 1 + ε under stochastic rounding.
    """

    id: ClassVar[str] = "geometric"
    most_ratios: ClassVar[int] = FEW_RATIOS
    metric: LineMetric
    odds: Fraction
    precision: int = 64
    resolution: int = 0
    _noise: WordTable = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Build the table once; both ends of the channel read it."""
        half = noise_words(self.odds, self.size - 1, 1 << self.precision)
        table = WordTable((*half[:0:-1], *half), self.precision)
        object.__setattr__(self, "_noise", table)

    @property
    def tightness(self) -> float:  # type: ignore[override]
        """Neighbouring cells spend all of E, except for the table's rounding."""
        return 0.0 if self.rounds else claimed_tightness(self.odds, self.precision)

    @cached_property
    def alpha(self) -> float:
        """e^−ε as the table has it."""
        return float(1 / self.odds)

    def encode(self, cells: Cells, bits: BitSource) -> Cells:
        """Add noise to cells and clamp to the axis.

        Args:
            cells: One cell per person.
            bits: Where randomness comes from.
        """
        cells = grid_points(cells, self.resolution, bits)
        reach = self.size - 1
        out = np.empty(len(cells), dtype=self.symbol_type())
        for start in range(0, len(cells), PEOPLE_AT_ONCE):
            part = np.asarray(cells[start : start + PEOPLE_AT_ONCE], dtype=np.int64)
            noisy = self._noise.draw(bits, len(part)) + (part - reach)
            out[start : start + len(part)] = np.clip(noisy, 0, reach)
        return out

    def steps(self, cells: NDArray[np.int64]) -> Steps:
        """The noise, added and clamped."""
        part = yield from rounding_steps(cells, self.resolution)
        noise = yield self._pick
        return np.clip(part + noise - (self.size - 1), 0, self.size - 1)

    def device_code(self, code: Code, cell: Value) -> Value:
        """Noise added and clamped; the table is given by its rule.

        Args:
            code: Where instructions are added.
            cell: The cell, as `encode` takes it.
        """
        point = code.grid_point(cell, self.resolution)
        half, reach = self.half_table(), self.size - 1
        falling = [str(half[0]), str(self.odds.numerator), str(self.odds.denominator), reach]
        noise = code.pick([falling, str(half[-1])], self.precision, mirrored=True)
        return code.clamp(point + noise - reach, 0, reach)

    @cached_property
    def _pick(self) -> Pick:
        """The draw of the noise; made once, since the table may be long."""
        return Pick(self._noise.weights, self.precision)

    def words(self) -> tuple[list[list[int]], int]:
        """Exact word counts: a shifted row of the noise table, its tails summed at the ends."""
        refuse_dense(self.size, "the likelihood")
        return moved_rows(self.half_table()), 1 << self.precision

    def half_table(self) -> tuple[int, ...]:
        """Words of noise 0, 1, …, size−1; the last one includes the tail beyond."""
        return self._noise.weights[self.size - 1 :]

    def envelope(self) -> tuple[list[tuple[int, int]], int]:
        """By the distance to the farther end of the axis."""
        return extremes(self.half_table()), 1 << self.precision

    def coefficients(self, weights: Floats) -> Floats:
        """The tridiagonal inverse, in O(cells)."""
        return sharpened(weights, self.alpha)

    def gather(self, profile: Floats) -> Floats:
        """The transpose of the tridiagonal inverse, in O(cells)."""
        return gathered(profile, self.alpha)

    def all_squares(self, profile: Floats, *, upto: bool) -> Floats:
        """Exact, in O(cells): a reading differs from the weights at two or three outputs only.

        Args:
            profile: Sums by output along the last axis.
            upto: Whether rows are prefixes 0..x rather than single cells x.
        """
        return geometric_squares(profile, self.alpha, upto=upto)

    def all_peaks(self, *, upto: bool) -> tuple[Floats, Floats]:
        """Exact: but for the ends of the axis all rows are alike.

        Args:
            upto: Whether rows are prefixes 0..x rather than single cells x.
        """
        inside, outside = _noise_peaks(self.size, self.alpha, upto=upto)
        return np.maximum(inside, outside), (inside >= outside).astype(np.float64)

    def expect(self, table: Floats) -> Floats:
        """The noise as a recursive filter; the ends stand for their tails. O(cells)."""
        return averaged(table, self.alpha)

    def mix(self, law: Floats) -> Floats:
        """The transpose of `expect`: the ends collect their tails. O(cells)."""
        return spread(law, self.alpha)

    def noise_line(self) -> NoiseLine:
        """The noise alone."""
        return NoiseLine(self.alpha)

    def sampler_problems(self) -> Iterator[str]:
        """The sampler's noise must be one table, the same on both sides."""
        return table_problems(self._noise, self.size, 0, self.precision)

    def law_problems(self, rows: Sequence[Sequence[int]]) -> Iterator[str]:
        """Every row must be the noise moved and clamped."""
        return law_problems(rows, self._noise.weights, (0,) * self.size)

    def worst_ratio(self) -> Fraction:
        """Largest odds between neighbouring cells: of adjacent weights, or adjacent tails."""
        return worst_neighbours(self.half_table())

    def check_structure(self, metric: CellMetric, found: Findings) -> None:
        """On equal steps neighbouring cells decide; their odds are those of neighbouring words.

        Args:
            metric: E between the cells.
            found: Where findings are added.
        """
        if not isinstance(metric, LineMetric) or metric.equal_step is None:
            super().check_structure(metric, found)
            return
        bound = Bound(metric.equal_step, linear=self.rounds)
        check_neighbours(self._noise.weights, bound, found)
        found.by_structure(2 * (metric.size - 1))


@dataclass(frozen=True, kw_only=True, eq=False)
class CappedGeometricChannel(SymbolChannel):
    """Clamped geometric noise or a fixed law, decided by one word against one table.

    `odds` is the largest ratio between neighbouring cells the noise may show: a certified lower
    bound of e^ε, or 1 + ε under stochastic rounding.
    """

    id: ClassVar[str] = "capped-geometric"
    most_ratios: ClassVar[int] = FEW_RATIOS
    metric: CappedLineMetric
    odds: Fraction
    precision: int = 64
    resolution: int = 0
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
        """Add noise to cells and clamp to the axis, or output what the word alone determines.

        Args:
            cells: One cell per person.
            bits: Where randomness comes from.
        """
        cells = grid_points(cells, self.resolution, bits)
        reach = self.size - 1
        out = np.empty(len(cells), dtype=self.symbol_type())
        for start in range(0, len(cells), PEOPLE_AT_ONCE):
            part = np.asarray(cells[start : start + PEOPLE_AT_ONCE], dtype=np.int64)
            drawn = self._table.draw(bits, len(part)).astype(np.int64)
            noisy = np.clip(drawn + (part - reach), 0, reach)
            fixed = drawn - (2 * reach + 1)
            out[start : start + len(part)] = np.where(fixed < 0, noisy, fixed)
        return out

    def steps(self, cells: NDArray[np.int64]) -> Steps:
        """The noise, added and clamped; the outcomes after it are outputs, whatever the cell."""
        part = yield from rounding_steps(cells, self.resolution)
        drawn = yield self._pick
        reach = self.size - 1
        noisy = np.clip(part + drawn - reach, 0, reach)
        return np.where(drawn <= 2 * reach, noisy, drawn - 2 * reach - 1)

    def device_code(self, code: Code, cell: Value) -> Value:
        """Noise added and clamped; the outcomes after it are outputs, whatever the cell.

        Args:
            code: Where instructions are added.
            cell: The cell, as `encode` takes it.
        """
        point, reach = code.grid_point(cell, self.resolution), self.size - 1
        drawn = code.pick(runs(self._table.weights), self.precision)
        fixed = code.less(2 * reach, drawn)
        noisy = code.clamp(point + drawn - reach, 0, reach)
        return code.select(fixed, drawn - (2 * reach + 1), noisy)

    @cached_property
    def _pick(self) -> Pick:
        """The draw of noise or output; made once, since the table may be long."""
        return Pick(self._table.weights, self.precision)

    def noise_table(self) -> tuple[int, ...]:
        """Words of noise −(size−1)..size−1."""
        return self._table.weights[: 2 * self.size - 1]

    def half_table(self) -> tuple[int, ...]:
        """Words of noise 0, 1, …, size−1; the last one includes the tail beyond."""
        return self.noise_table()[self.size - 1 :]

    def fixed_table(self) -> tuple[int, ...]:
        """Words whose output is 0, 1, …, size−1 whatever the cell."""
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

    def envelope(self) -> tuple[list[tuple[int, int]], int]:
        """That of the noise, and the fixed words on top."""
        pairs = zip(extremes(self.half_table()), self.fixed_table(), strict=True)
        return [(most + f, least + f) for (most, least), f in pairs], 1 << self.precision

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
        """The geometric channel's `gather`, without the share of the fixed law."""
        everyone = np.sum(profile, axis=-1, keepdims=True)
        return gathered(profile - everyone * self.fixed_law, self.alpha) / self.share

    def all_squares(self, profile: Floats, *, upto: bool) -> Floats:
        """Exact, in O(cells): of the geometric reading less its mean under the fixed law.

        Args:
            profile: Sums by output along the last axis.
            upto: Whether rows are prefixes 0..x rather than single cells x.
        """
        square = geometric_squares(profile, self.alpha, upto=upto)
        plain, mean = (self._read_all(part, upto) for part in (profile, self.fixed_law))
        everyone = profile.sum(axis=-1, keepdims=True)
        result: Floats = (square - 2 * mean * plain + mean**2 * everyone) / self.share**2
        return result

    def all_peaks(self, *, upto: bool) -> tuple[Floats, Floats]:
        """Exact: the noise's own, and the same fixed law at every cell.

        Args:
            upto: Whether rows are prefixes 0..x rather than single cells x.
        """
        inside, outside = _noise_peaks(self.size, self.alpha, upto=upto)
        mean = self._read_all(self.fixed_law, upto)
        inside = inside - 2 * mean
        fixed = geometric_squares(self.fixed_law, self.alpha, upto=upto) - mean**2
        top = (self.share * np.maximum(inside, outside) + fixed) / self.share**2
        return top, (inside >= outside).astype(np.float64)

    def _read_all(self, profile: Floats, upto: bool) -> Floats:
        """The noise's readings of all cells or prefixes, summed over a profile."""
        cells = gathered(profile, self.alpha)
        return np.cumsum(cells, axis=-1) if upto else cells

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

    def noise_line(self) -> NoiseLine:
        """The noise, or with the remaining chance the fixed law."""
        return NoiseLine(self.alpha, self.share, self.fixed_law)

    def sampler_problems(self) -> Iterator[str]:
        """The sampler's noise must be one table, the same on both sides."""
        return table_problems(self._table, self.size, self.size, self.precision)

    def law_problems(self, rows: Sequence[Sequence[int]]) -> Iterator[str]:
        """Every row must be the noise moved and clamped, and the fixed words."""
        return law_problems(rows, self.noise_table(), self.fixed_table())

    def worst_ratio(self) -> Fraction:
        """The largest odds between neighbouring cells of the noise; fixed words only lower them."""
        return worst_neighbours(self.half_table())

    def worst_pair_ratio(self) -> Fraction:
        """The largest odds between any two cells, fixed words included."""
        return max(Fraction(most, least) for most, least in self.envelope()[0])

    def check_structure(self, metric: CellMetric, found: Findings) -> None:
        """Neighbours decide up to the cap; beyond, each output's most and least likely cell.

        Fixed words, the same for all cells, only lower odds: where the noise keeps E, so do both.

        Args:
            metric: E between the cells.
            found: Where findings are added.
        """
        if not isinstance(metric, CappedLineMetric) or metric.equal_step is None:
            super().check_structure(metric, found)
            return
        last, noise, fixed = metric.size - 1, self.noise_table(), self.fixed_table()
        alone = Findings()
        check_neighbours(noise, Bound(metric.equal_step, linear=self.rounds), alone)
        found.problems += alone.problems
        # The last weight is a tail; all before it must fall for the ends to be the least likely.
        if any(a < b for a, b in pairwise(noise[last:-1])):
            found.problems.append("the noise does not fall with the distance")
        half = noise[last:]
        below = list(accumulate(noise[: last + 1]))[::-1]  # P(0 | x), x = 0, 1, …
        within = Bound(metric.exact(0, 1), linear=self.rounds)
        for y, always in enumerate(fixed):
            far = 0 if 2 * y >= last else last
            words = below if y in (0, last) else half
            if metric.line.exact(y, far) <= metric.cap:  # neighbours decide for all pairs
                found.exact((y, abs(y - 1)), words[0] + always, words[1] + always, within)
            else:
                less = words[abs(y - far)] + always
                found.exact((y, far), words[0] + always, less, Bound(metric.cap))
        found.by_structure(2 * last)


def _noise_peaks(size: int, alpha: float, *, upto: bool) -> tuple[Floats, Floats]:
    """The largest E[f² | x] of all cells or prefixes, over cells inside and over those outside."""
    short = short_line(size)
    rows = rows_between(short, slice(0, short), upto=upto)
    moments = averaged(sharpened(rows, alpha) ** 2, alpha)
    inside, outside = (like_few(part, size) for part in split_peaks(moments, rows))
    return inside, outside


def extremes(half: Sequence[int]) -> list[tuple[int, int]]:
    """The most and the least words that any cell gives each output, by noise alone.

    Inside, these are the most and the least of the weights up to the farther end of the axis; at
    the two ends tails take the place of weights.

    Example:
        >>> extremes((8, 4, 2, 3))
        [(17, 3), (8, 2), (8, 2), (17, 3)]
    """
    last = len(half) - 1
    end = sum(half), half[last]
    most, least = list(accumulate(half, max)), list(accumulate(half, min))
    farther = [max(y, last - y) for y in range(1, last)]
    return [end, *((most[far], least[far]) for far in farther), end]


def least_fixed(half: Sequence[int], odds: Fraction) -> list[int]:
    """The fewest fixed words with which no output's odds exceed the given ones.

    Args:
        half: Words of noise 0, 1, … on one side, the tail last.
        odds: The largest ratio of two cells.

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
