"""Optimised unary encoding (OUE): one noisy bit per cell, a fair coin for the person's own.

Guarantee:
    E(x, x') = ε for every pair, exact for the integer table, and tight. The own bit is one with
    chance p = 1/2, every other with chance q, rounded up; only the bits of x and x' tell the two
    apart, by odds of at most p(1 − q) / (q(1 − p)) = (1 − q)/q <= e^ε.

Estimator:
    With c the mean of the weights and b the bits, f = c + Σ_x (w[x] − c)·(b_x − q)/(p − q); how
    many people there are is known, so the mean needs no noise. With V = q(1 − q)/(1/2 − q)²,
    which is 4e^ε/(e^ε − 1)², Var(f | x) = V·Σ_y (w[y] − c)² + (w[x] − c)².

References:
    Wang et al. 2017; Cormode et al. 2019, §3, whose aggregation has a sign slip that is corrected
    here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import LANES, BitColumns, Cells, Floats, Outputs, words_for
from sfumato.channels.base import as_weights, signs, with_known_total
from sfumato.channels.choice import Choice, Trial, needs_uniform, uniform_fitted, uniform_trials
from sfumato.channels.code import Code, Value
from sfumato.channels.flips import (
    WORDS_AT_ONCE,
    BitChannel,
    UniformFlips,
    as_bits,
    flip_steps,
    pattern_words,
)
from sfumato.metrics.cells import CellMetric
from sfumato.randomness.bits import BitSource, Words
from sfumato.randomness.draws import Lane, Steps

MOST_CELLS = 1 << 16


@dataclass(frozen=True, slots=True)
class OUE(Choice):
    """Choose optimised unary encoding, a bit for every cell; it fits `Uniform`.

    For many cells its answers have the smallest error that ε allows, and so do those of `OLH`,
    whose reports are a few bytes; here a report has as many bits as there are cells.

    Example:
        >>> import sfumato as sf
        >>> fruit = ["apple", "pear", "plum", "fig"]
        >>> axis = sf.categories("fruit", fruit, protect=sf.Uniform(2), channel=sf.OUE())
        >>> study = sf.Study("fruit", [axis])
        >>> estimate = study.simulate({"fruit": ["pear"] * 6_000 + ["fig"] * 4_000}, seed=1)
        >>> answer = estimate.estimate("unbiased").count("fruit=pear")
        >>> answer.low < 6_000 < answer.high
        True
    """

    id: ClassVar[str] = "oue"

    def misfit(self, metric: CellMetric) -> str | None:
        """It needs one ε for all pairs, and not too long a report."""
        if metric.size > MOST_CELLS:
            return (
                f"a report would have {metric.size} bits; the limit is {MOST_CELLS} cells, as a "
                f"million reports take {metric.size * 1e6 / 8 / 2**30:.0f} GiB. Use HRR(), whose "
                "reports stay short, or fewer cells"
            )
        return needs_uniform(metric)

    def bind(self, metric: CellMetric, *, precision: int = 64, resolution: int = 0) -> OUEChannel:
        """Build the probability of a one at cells other than the person's own.

        Args:
            metric: E between the cells.
            precision: How many bits of a random word take part.
            resolution: Bits of a value's place between two cells; 0 without stochastic rounding.
        """
        return OUEChannel(metric=uniform_fitted(self, metric, resolution), precision=precision)

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """A few cells, at small and large ε, and a grid."""
        return (
            *uniform_trials(cls(), (2, 4), (2, 3)),
            *uniform_trials(cls(), (3,), epsilon="1/10"),
            *uniform_trials(cls(), (3,), epsilon="4"),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class OUEChannel(UniformFlips, BitChannel):
    """Independent bits: the own one fair, the others one in `flips` of 2^precision cases."""

    id: ClassVar[str] = "oue"

    @property
    def width(self) -> int:
        """One bit per cell."""
        return self.size

    @property
    def gap(self) -> float:
        """How much more likely a one is at the person's own cell than elsewhere, p − q."""
        total = 1 << self.precision
        return (total - 2 * self.flips) / (2 * total)

    @property
    def noise(self) -> float:
        """V = q(1 − q)/(p − q)², what a bit of weight one adds to the variance."""
        total = 1 << self.precision
        return 4 * self.flips * (total - self.flips) / (total - 2 * self.flips) ** 2

    @property
    def node_variance(self) -> float:
        """σ²: E[f²] is σ²·Σw² for weights w of mean zero, if people are spread evenly."""
        return self.noise + 2 / self.size

    def encode(self, cells: Cells, bits: BitSource) -> BitColumns:
        """Draw all bits with the chance of other cells, then the own ones by a fair coin.

        Args:
            cells: One cell per person.
            bits: Where randomness comes from.
        """
        count = len(cells)
        words = np.empty((self.size, words_for(count)), dtype=np.uint64)
        across = min(words.shape[1], WORDS_AT_ONCE) or 1
        down = max(1, WORDS_AT_ONCE // across)
        for left in range(0, words.shape[1], across):
            part = words[:, left : left + across]
            for top in range(0, self.size, down):
                rows = part[top : top + down]
                rows[:] = self._flips.draw(bits, slice(0, 1), rows.size).reshape(rows.shape)
            people = cells[left * LANES : (left + across) * LANES]
            _overwrite(words, left, people, bits.words(part.shape[1]))
        if count % LANES and words.size:
            words[:, -1] &= np.uint64((1 << (count % LANES)) - 1)
        return BitColumns(words, count)

    def steps(self, cells: NDArray[np.int64]) -> Steps:
        """All bits with the chance of other cells, then a fair coin for the own one."""
        ones = yield from flip_steps((self.flips,) * self.size, self.precision)
        ones[np.arange(len(cells)), cells] = yield Lane(1, 1)
        return ones

    def device_code(self, code: Code, cell: Value) -> Value:
        """All bits with the chance of other cells, then a fair coin for the own one.

        Args:
            code: Where instructions are added.
            cell: The cell.
        """
        ones = code.flips((self.flips,) * self.size, self.precision)
        own = (ones >> cell) % 2
        return ones ^ ((own ^ code.bits(1)) << cell)

    def bit_chances(self, cell: int) -> Floats:
        """A fair coin for the own bit, the chance of a flip for all others."""
        chances = np.full(self.size, self.flips / 2.0**self.precision)
        chances[cell] = 0.5
        return chances

    def words(self) -> tuple[list[list[int]], int]:
        """Exact word counts of all bit patterns; patterns are read with bit 0 lowest."""
        self.refuse_patterns()
        total = 1 << self.precision
        rows = []
        for x in range(self.size):
            ones = [total // 2 if y == x else self.flips for y in range(self.size)]
            rows.append(pattern_words(ones, total))
        return rows, total**self.size

    def likelihood(self) -> Floats:
        """P(pattern of bits | cell), for few cells only."""
        self.refuse_patterns()
        total = 1 << self.precision
        one = np.full((self.size, self.size), self.flips / total)
        zero = np.full((self.size, self.size), (total - self.flips) / total)
        np.fill_diagonal(one, 0.5)
        np.fill_diagonal(zero, 0.5)
        patterns = signs(self.size) > 0
        pairs = zip(one, zero, strict=True)
        return np.array([np.prod(np.where(patterns, o, z), axis=1) for o, z in pairs])

    def coefficients(self, weights: Floats) -> Floats:
        """The constant and one coefficient per bit: (b − q)/(p − q) is 1 ± 1/2(p − q)."""
        centre, off = _centred(weights)
        return np.concatenate([centre, off / (2 * self.gap)], axis=-1)

    def gather(self, profile: Floats) -> Floats:
        """Each cell's own bit over p − q; cells together count everybody."""
        return with_known_total(profile[..., 1:] / (2 * self.gap), profile[..., 0])

    def products(self, profile: Floats, w: Floats, v: Floats) -> Floats:
        """As `product_coefficients`, without writing them out.

        Args:
            profile: Sums by feature along the last axis.
            w: One row of weights per question.
            v: The other factor: as many rows, or one row for all.
        """
        there, everyone = self.gather(profile), self.noise * profile[..., :1]
        found = np.empty((*profile.shape[:-1], len(w)))
        for rows in self.batches(len(w)):
            one, other = w[rows], v[rows] if v.ndim > 1 else v
            shared = _centred(one)[1] * _centred(other)[1]
            found[..., rows] = there @ (one * other + shared).T + everyone * shared.sum(axis=-1)
        return found

    def product_coefficients(self, w: Floats, v: Floats) -> Floats:
        """An unbiased reading of w·v, plus what the own bit adds, plus what all bits do.

        Args:
            w: Weights on the cells, along the last axis.
            v: Weights of the other factor.
        """
        (_, w_off), (_, v_off) = _centred(w), _centred(v)
        result = self.coefficients(w * v + w_off * v_off)
        result[..., 0] += self.noise * np.sum(w_off * v_off, axis=-1)
        return result

    def second_moment(self, weights: ArrayLike) -> Floats:
        """w² plus the variance of all bits, plus what the own bit adds."""
        w = as_weights(weights, self.size)
        _, off = _centred(w)
        result: Floats = w**2 + off**2 + self.noise * np.sum(off**2, axis=-1, keepdims=True)
        return result

    def flip_spread(self, weights: Floats) -> Floats:
        """Each bit's standard deviation in f, at cells other than the person's own."""
        result: Floats = _centred(weights)[1] * math.sqrt(self.noise)
        return result

    def own_spread(self, weights: Floats) -> tuple[Floats, ...]:
        """A fair bit varies by 1/4 − q(1 − q) = (p − q)² more than any other."""
        return (_centred(weights)[1],)

    def report_likelihood(self, outputs: Outputs) -> Floats:
        """Each row scaled to have largest entry one: only the bit of a cell speaks for it."""
        ones = as_bits(outputs)
        against = self.flips / ((1 << self.precision) - self.flips)
        result: Floats = np.where(ones | ~ones.any(axis=1, keepdims=True), 1.0, against)
        return result


def _overwrite(words: Words, left: int, cells: Cells, fair: Words) -> None:
    """Put a fair bit in every person's own column, from word `left` on.

    People in the same lane of different words never share a word, so each lane is done at once.
    """
    flat = words.reshape(-1)
    places = np.arange(left, left + len(fair), dtype=np.int64)
    for lane in range(min(LANES, len(cells))):
        own = np.asarray(cells[lane::LANES], dtype=np.int64)
        at = own * words.shape[1] + places[: len(own)]
        held = flat[at]
        flat[at] = held ^ ((held ^ fair[: len(own)]) & np.uint64(1 << lane))


def _centred(weights: Floats) -> tuple[Floats, Floats]:
    """The mean of the weights, and how far each is from it."""
    centre = weights.mean(axis=-1, keepdims=True)
    return centre, weights - centre
