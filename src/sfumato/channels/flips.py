"""Bit flips with exact probabilities: the base of all channels that flip bits."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import LANES, BitColumns, Cells, Floats, Layout, Outputs, words_for
from sfumato.channels.base import FEW_RATIOS, Channel, as_weights, claimed_tightness, signs
from sfumato.channels.code import Code, Value
from sfumato.channels.odds import Bound, Findings
from sfumato.channels.rounding import grid_points, rounding_steps
from sfumato.errors import StudyError, TooLargeError
from sfumato.exact import exp_floor
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import BitSource
from sfumato.randomness.draws import Flips, Steps
from sfumato.randomness.tables import FlipTable

MOST_PATTERN_BITS = 20
WORDS_AT_ONCE = 1 << 15


def flips_within(epsilon: Fraction, precision: int) -> int:
    """Of 2^precision words, how many flip a bit: as few as keep its odds within e^ε.

    Args:
        epsilon: ε.
        precision: How many bits of a random word take part.
    """
    total = 1 << precision
    flips = math.ceil(total / (1 + exp_floor(epsilon)))
    if 2 * flips >= total:
        raise StudyError(
            f"a table of 2^{precision} words is too coarse for this epsilon; use a larger epsilon"
        )
    return flips


def check_alike(right: int, wrong: int, metric: UniformMetric, found: Findings) -> None:
    """Check a channel whose odds are the same for every two cells.

    Args:
        right: Words of the true answer.
        wrong: Words of any one wrong answer.
        metric: One ε for all pairs.
        found: What is found is added here.
    """
    if min(right, wrong) < 0:
        found.problems.append(f"{wrong} words for each wrong answer are more than there are")
        return
    found.exact((0, 1), max(right, wrong), min(right, wrong), Bound(metric.epsilon))
    found.by_structure(2 * (metric.size - 1))


@dataclass(frozen=True, kw_only=True, eq=False)
class UniformFlips(Channel):
    """A channel with one flip probability: `flips` of 2^precision words flip a bit.

    Guarantee:
        With q the chance of a flip, the odds between any two cells are at most (1 − q)/q <= e^ε,
        exact for the integer table, and tight.
    """

    most_ratios: ClassVar[int] = FEW_RATIOS
    metric: UniformMetric
    precision: int = 64
    flips: int = field(init=False)
    _flips: FlipTable = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Round the chance of a flip up, so that the odds stay within bounds."""
        flips = flips_within(self.metric.epsilon, self.precision)
        object.__setattr__(self, "flips", flips)
        object.__setattr__(self, "_flips", FlipTable([flips], self.precision))

    @property
    def tightness(self) -> float:  # type: ignore[override]
        """Every pair spends all of ε, except for the rounding of one probability."""
        return claimed_tightness(exp_floor(self.metric.epsilon), self.precision)

    def sampler_problems(self) -> Iterator[str]:
        """The sampler must flip with the chance shown."""
        if self._flips.chances(self.precision) != [self.flips]:
            yield "the sampler flips bits with another chance than the channel shows"

    def worst_ratio(self) -> Fraction:
        """The chance of the truth over that of a flip."""
        return Fraction((1 << self.precision) - self.flips, self.flips)

    def check_structure(self, metric: CellMetric, found: Findings) -> None:
        """The only odds between two cells are those of the truth against a flip, (1 − q)/q.

        Args:
            metric: E between the cells.
            found: Where findings are added.
        """
        if isinstance(metric, UniformMetric):
            check_alike((1 << self.precision) - self.flips, self.flips, metric, found)
        else:
            super().check_structure(metric, found)


class BitChannel(Channel):
    """A channel that sends `width` bits, packed."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Bits per report."""

    @property
    def layout(self) -> Layout:
        """`width` bits, packed."""
        return Layout("bits", self.width)

    def bit_chances(self, cell: int) -> Floats | None:
        """P(bit is one | cell) of every bit; None unless the bits are independent."""
        return None

    def bit_rates(self) -> Floats | None:
        """P(bit is one | cell), one row per cell; None unless the bits are independent.

        A family whose bits are not independent may write it nevertheless.
        """
        first = self.bit_chances(0)
        if first is None:
            return None
        rows = [self.bit_chances(cell) for cell in range(self.size)]
        return np.array([row for row in rows if row is not None])

    def refuse_patterns(self) -> None:
        """Refuse to list all patterns of a long report."""
        if self.width > MOST_PATTERN_BITS:
            raise TooLargeError(
                f"a report of {self.width} bits has 2^{self.width} values; all of them are listed "
                f"up to {MOST_PATTERN_BITS} bits. Use functional() and second_moment()"
            )


def pattern_words(ones: Sequence[int], total: int) -> list[int]:
    """Words of all patterns of independent bits, read with bit 0 lowest.

    Args:
        ones: Of `total` words, how many make each bit a one.
        total: Words of one bit.

    Example:
        >>> pattern_words([1, 3], 4)
        [3, 1, 9, 3]
    """
    law = [1]
    for one in ones:
        law = [word * (total - one) for word in law] + [word * one for word in law]
    return law


def flip_steps(chances: Sequence[int], precision: int) -> Steps:
    """The flips of all bits, as many at once as samplers draw together.

    Args:
        chances: Of 2^precision words, how many flip each bit.
        precision: How many bits of a random word take part.
    """
    parts = []
    for top in range(0, len(chances), WORDS_AT_ONCE):
        parts.append((yield Flips(chances[top : top + WORDS_AT_ONCE], precision)))
    return np.concatenate(parts, axis=1)


def as_bits(outputs: Outputs) -> NDArray[np.bool_]:
    """Outputs that must be bits, as one row per report and one column per bit."""
    if not isinstance(outputs, BitColumns):
        raise TypeError("the outputs of this channel are bits")
    return outputs.to_matrix()


@dataclass(frozen=True, kw_only=True, eq=False)
class FlippedCode(BitChannel):
    """The bits of each cell's code; each flips independently in `flip_words` of 2^precision cases.

    Estimator:
        With β the coefficients of the bits, +1 and −1, in the weights, and s_k = 1/(1 − 2·chance of
        a flip), f = β_0 + Σ s_k·β_k·r_k is unbiased and has the variance Σ (s_k² − 1)·β_k² for
        every cell.
    """

    #: What cells are held as while they are encoded.
    cell_type: ClassVar[type[np.signedinteger[Any]]] = np.int64
    most_ratios: ClassVar[int] = FEW_RATIOS

    precision: int = 64
    resolution: int = 0
    flip_words: tuple[int, ...] = field(init=False, repr=False)
    _flips: FlipTable = field(init=False, repr=False)

    def set_flips(self, odds: Sequence[Fraction | None], remedy: str) -> None:
        """Derive the chances of flips, rounded up so that odds stay within bounds.

        Args:
            odds: The largest odds of each bit; None for one that is never flipped.
            remedy: What would help where words are too coarse.
        """
        total = 1 << self.precision
        flips = tuple(0 if odd is None else math.ceil(total / (1 + odd)) for odd in odds)
        if max(flips) * 2 >= total:
            raise StudyError(
                f"a table of 2^{self.precision} words is too coarse for this epsilon; use {remedy}"
            )
        object.__setattr__(self, "flip_words", flips)
        object.__setattr__(self, "_flips", FlipTable(flips, self.precision))

    @abstractmethod
    def ones(self, cells: Cells, bits: slice) -> NDArray[np.bool_]:
        """Some bits of the codes of cells, one row per bit and one column per person.

        Args:
            cells: One cell per person.
            bits: Which bits of the code.
        """

    @abstractmethod
    def spread(self, weights: Floats) -> Floats:
        """β of each bit along the last axis, without the noise-free constant."""

    @property
    def width(self) -> int:
        """Bits per report."""
        return len(self.flip_words)

    @cached_property
    def scale(self) -> Floats:
        """s_k = 1/(1 − 2·chance of a flip), for each bit."""
        total = 1 << self.precision
        return np.array([total / (total - 2 * flip) for flip in self.flip_words])

    @cached_property
    def noise(self) -> Floats:
        """s_k² − 1, the variance of s_k times a bit; computed without cancellation."""
        total = 1 << self.precision
        return np.array(
            [4 * flip * (total - flip) / (total - 2 * flip) ** 2 for flip in self.flip_words]
        )

    def encode(self, cells: Cells, bits: BitSource) -> BitColumns:
        """Write each person's code and flip every bit independently.

        Args:
            cells: One cell per person.
            bits: Where randomness comes from.
        """
        cells = grid_points(cells, self.resolution, bits)
        count = len(cells)
        words = np.zeros((self.width, words_for(count)), dtype=np.uint64)
        across = min(words.shape[1], WORDS_AT_ONCE) or 1
        down = max(1, WORDS_AT_ONCE // across)
        for left in range(0, words.shape[1], across):
            part = np.asarray(cells[left * LANES : (left + across) * LANES], dtype=self.cell_type)
            lanes = words_for(len(part)) * LANES
            for top in range(0, self.width, down):
                rows = slice(top, min(top + down, self.width))
                code = np.packbits(self.ones(part, rows), axis=1, bitorder="little")
                if code.shape[1] < lanes // 8:
                    code = np.pad(code, ((0, 0), (0, lanes // 8 - code.shape[1])))
                noisy = code.view("<u8") ^ self._flips.draw(bits, rows, lanes // LANES)
                words[rows, left : left + lanes // LANES] = noisy
        if count % LANES and words.size:
            words[:, -1] &= np.uint64((1 << (count % LANES)) - 1)
        return BitColumns(words, count)

    def steps(self, cells: NDArray[np.int64]) -> Steps:
        """The code by definition, and the flips of all its bits."""
        points = yield from rounding_steps(cells, self.resolution)
        flips = yield from flip_steps(self.flip_words, self.precision)
        cell, place = np.unique(points, return_inverse=True)
        codes = np.array([self.code_of(x) for x in cell.tolist()])
        return codes[place] ^ flips

    def device_code(self, code: Code, cell: Value) -> Value:
        """The bits of the cell's code, flipped.

        Args:
            code: Where instructions are added.
            cell: The cell, as `encode` takes it.
        """
        point = code.grid_point(cell, self.resolution)
        flips = code.flips(self.flip_words, self.precision)
        return self.written(code, point) ^ flips

    def written(self, code: Code, point: Value) -> Value:
        """The bits of a cell's code, bit 0 lowest; from a table, where there is no rule.

        Args:
            code: Where instructions are added.
            point: The cell.
        """
        codes = (self.code_of(cell) for cell in range(self.size))
        return code.take(
            (sum(1 << k for k, one in enumerate(bits) if one) for bits in codes), point
        )

    def bit_chances(self, cell: int) -> Floats:
        """The bits of the cell's code, flipped."""
        flips = np.array(self.flip_words, dtype=np.float64) / 2.0**self.precision
        return np.where(self.code_of(cell), 1 - flips, flips)

    def bit_rates(self) -> Floats:
        """The bits of all codes, flipped."""
        flips = np.array(self.flip_words, dtype=np.float64) / 2.0**self.precision
        return np.where(self.codes(), 1 - flips, flips)

    def codes(self) -> NDArray[np.bool_]:
        """The code of every cell, one row per cell."""
        return self.ones(np.arange(self.size), slice(0, self.width)).T

    def words(self) -> tuple[list[list[int]], int]:
        """Exact word counts of all patterns of bits."""
        self.refuse_patterns()
        rows = [self._law(code) for code in self.codes().tolist()]
        return rows, (1 << self.precision) ** self.width

    def _law(self, code: Sequence[bool]) -> list[int]:
        """Words of all patterns, given the bits of a cell's code."""
        total = 1 << self.precision
        pairs = zip(code, self.flip_words, strict=True)
        return pattern_words([total - flip if one else flip for one, flip in pairs], total)

    def likelihood(self) -> Floats:
        """P(pattern of bits | cell), for short codes only."""
        self.refuse_patterns()
        total = 1 << self.precision
        flipped = np.array([flip / total for flip in self.flip_words])
        kept = np.array([(total - flip) / total for flip in self.flip_words])
        patterns = signs(self.width) > 0
        rows = [np.prod(np.where(patterns == c, kept, flipped), axis=1) for c in self.codes()]
        return np.array(rows)

    def product_coefficients(self, w: Floats, v: Floats) -> Floats:
        """An unbiased reading of w·v, plus what the flips of shared bits add for everyone.

        Args:
            w: Weights on the cells, along the last axis.
            v: Weights of the other factor.
        """
        result = self.coefficients(w * v)
        result[..., 0] += (self.spread(w) * self.spread(v)) @ self.noise
        return result

    def products(self, profile: Floats, w: Floats, v: Floats) -> Floats:
        """As `product_coefficients`, without writing them out.

        Args:
            profile: Sums by feature along the last axis.
            w: One row of weights per question.
            v: The other factor: as many rows, or one row for all.
        """
        there, everyone = self.gather(profile), profile[..., :1]
        found = np.empty((*profile.shape[:-1], len(w)))
        for rows in self.batches(len(w)):
            one, other = w[rows], v[rows] if v.ndim > 1 else v
            flips = (self.spread(one) * self.spread(other)) @ self.noise
            found[..., rows] = there @ (one * other).T + everyone * flips
        return found

    def second_moment(self, weights: ArrayLike) -> Floats:
        """w² plus the flips' variance, which is the same for everyone."""
        w = as_weights(weights, self.size)
        flips: Floats = (self.spread(w) ** 2) @ self.noise
        return w**2 + flips[..., None]

    def flip_spread(self, weights: Floats) -> Floats:
        """The standard deviation of each bit in f."""
        return self.spread(weights) * np.sqrt(self.noise)

    def sampler_problems(self) -> Iterator[str]:
        """The sampler must flip every bit with the chance shown."""
        if self._flips.chances(self.precision) != list(self.flip_words):
            yield "the sampler flips bits with other chances than the channel shows"

    @abstractmethod
    def code_of(self, cell: int) -> list[bool]:
        """The bits of a cell's code by definition, without `ones`, for the check."""

    def law_problems(self, rows: Sequence[Sequence[int]]) -> Iterator[str]:
        """Every row must be the product of the chances of its bits."""
        for x, row in enumerate(rows):
            if self._law(self.code_of(x)) != list(row):
                yield f"the row of cell {x} is not the product of its bits' chances"
