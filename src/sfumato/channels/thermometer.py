"""One bit a threshold, each flipped by itself: the mechanism of Xiang et al. 2020, §4.

Guarantee:
    E(x, x') = Σ ε_k over the thresholds k between x and x', exact and tight; equal or unequal
    steps.

Estimator:
    With b_k(x) = +1 if x <= k else −1 and s_k = (1+α_k)/(1−α_k), any weights are
    w[x] = β_0 + Σ β_k·b_k(x), β_k = (w[k] − w[k+1])/2, and f = β_0 + Σ s_k·β_k·r_k is unbiased.
    Its variance is Σ (s_k² − 1)·β_k² for every x.

The published variant also sends the last bit, which is +1 for everyone, with noise, and reads β_0
from it; that noise buys nothing, so the default leaves the bit out (a correction to the paper).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from sfumato.bitcolumns import LANES, BitColumns, words_for
from sfumato.channels.base import (
    BitFunctional,
    Cells,
    Channel,
    Choice,
    Floats,
    Layout,
    Outputs,
    as_weights,
    claimed_tightness,
    signs,
)
from sfumato.errors import StudyError, TooLargeError
from sfumato.exact import exp_floor
from sfumato.metrics import CappedLineMetric, CellMetric, LineMetric
from sfumato.randomness import BitSource, FlipTable

MOST_PATTERN_BITS = 20
MOST_CELLS = 1 << 16
_WORDS_AT_ONCE = 1 << 15


@dataclass(frozen=True, slots=True)
class Thermometer(Choice):
    """Choose the thermometer channel; it fits every `Distance`.

    Args:
        variant: "exact" leaves out the constant last bit; "published" sends it with noise, as
            Xiang et al. do, for reproduction only.
    """

    id: ClassVar[str] = "thermometer"
    variant: Literal["exact", "published"] = "exact"

    def __post_init__(self) -> None:
        """Refuse unknown variants."""
        if self.variant not in ("exact", "published"):
            raise StudyError(
                f"variant must be 'exact' or 'published', got variant={self.variant!r}"
            )

    def misfit(self, metric: CellMetric) -> str | None:
        """It needs cells along a line, without a cap."""
        if isinstance(metric, CappedLineMetric):
            return (
                "its bits are flipped one by one, so the odds of far values grow beyond any cap; "
                "use Geometric, or leave out cap"
            )
        if not isinstance(metric, LineMetric):
            return "it needs a Distance along an ordered axis without a 'no answer' cell"
        if metric.size > MOST_CELLS:
            return f"a report would have {metric.size - 1} bits; the limit is {MOST_CELLS} cells"
        return None

    def bind(
        self, metric: CellMetric, *, precision: int = 64, rounded: bool = False
    ) -> ThermometerChannel:
        """Build the flip chances for the metric's steps."""
        if not isinstance(metric, LineMetric) or self.misfit(metric):
            raise StudyError(f"Thermometer does not fit this metric: {self.misfit(metric)}")
        steps = metric.steps
        odds = [1 + step if rounded else exp_floor(step) for step in steps]
        published = self.variant == "published"
        if published:
            odds.append(odds[-1])
        return ThermometerChannel(
            metric=metric,
            odds=tuple(odds),
            precision=precision,
            published=published,
            rounded=rounded,
        )

    def options(self) -> dict[str, Any]:
        """The variant, where it is not the default."""
        return {} if self.variant == "exact" else {"variant": self.variant}


@dataclass(frozen=True, kw_only=True, eq=False)
class ThermometerChannel(Channel):
    """Independent flips of a unary code; `odds[k]` bounds the odds of bit k."""

    id: ClassVar[str] = "thermometer"
    metric: LineMetric
    odds: tuple[Fraction, ...]
    precision: int = 64
    published: bool = False
    rounded: bool = False
    flip_words: tuple[int, ...] = field(init=False, repr=False)
    _flips: FlipTable = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Derive the chance of a flip, rounded up so that the odds stay within bounds."""
        total = 1 << self.precision
        flips = tuple(math.ceil(total / (1 + odd)) for odd in self.odds)
        if max(flips) * 2 >= total:
            raise StudyError(
                f"a table of 2^{self.precision} words is too coarse for this epsilon; "
                "use a larger epsilon or wider cells"
            )
        object.__setattr__(self, "flip_words", flips)
        object.__setattr__(self, "_flips", FlipTable(flips, self.precision))

    @property
    def tightness(self) -> float:  # type: ignore[override]
        """Neighbouring cells are told apart by all of E but for the rounding of one chance."""
        return 0.0 if self.rounded else claimed_tightness(max(self.odds), self.precision)

    @property
    def width(self) -> int:
        """Bits a report."""
        return len(self.odds)

    @cached_property
    def scale(self) -> Floats:
        """s_k = 1/(1 − 2·chance of a flip), for each bit."""
        total = 1 << self.precision
        return np.array([total / (total - 2 * flip) for flip in self.flip_words])

    def encode(self, cells: Cells, bits: BitSource) -> BitColumns:
        """Write each person's unary code and flip every bit by itself."""
        count = len(cells)
        words = np.zeros((self.width, words_for(count)), dtype=np.uint64)
        across = min(words.shape[1], _WORDS_AT_ONCE) or 1
        down = max(1, _WORDS_AT_ONCE // across)
        for left in range(0, words.shape[1], across):
            part = cells[left * LANES : (left + across) * LANES]
            lanes = words_for(len(part)) * LANES
            padded = np.full(lanes, self.size, dtype=np.int32)  # beyond every threshold: all zeros
            padded[: len(part)] = part
            for top in range(0, self.width, down):
                rows = slice(top, min(top + down, self.width))
                thresholds = np.arange(rows.start, rows.stop, dtype=np.int32)
                code = np.packbits(padded <= thresholds[:, None], axis=1, bitorder="little")
                noisy = code.view("<u8") ^ self._flips.draw(bits, rows, lanes // LANES)
                words[rows, left : left + lanes // LANES] = noisy
        if count % LANES and words.size:
            words[:, -1] &= np.uint64((1 << (count % LANES)) - 1)
        return BitColumns(words, count)

    def words(self) -> tuple[list[list[int]], int]:
        """Exact word counts of all bit patterns; patterns are read with bit 0 lowest."""
        self._refuse_patterns()
        total = 1 << self.precision
        rows = []
        for x in range(self.size):
            row = [1]
            for k, flip in enumerate(self.flip_words):
                one = total - flip if x <= k else flip
                row = [r * (total - one) for r in row] + [r * one for r in row]
            rows.append(row)
        return rows, total**self.width

    def worst_ratio(self) -> Fraction:
        """The largest odds of a single bit: that is all that changes between neighbours."""
        total = 1 << self.precision
        sent = self.flip_words[: self.size - 1]
        return max(Fraction(total - flip, flip) for flip in sent)

    def likelihood(self) -> Floats:
        """P(pattern of bits | cell), for short codes only."""
        self._refuse_patterns()
        total = 1 << self.precision
        flipped = np.array([flip / total for flip in self.flip_words])
        kept = np.array([(total - flip) / total for flip in self.flip_words])
        patterns = signs(self.width)
        rows = [
            np.prod(np.where(patterns == self._code(x), kept, flipped), axis=1)
            for x in range(self.size)
        ]
        return np.array(rows)

    def functional(self, weights: ArrayLike) -> BitFunctional:
        """β_0 + Σ s_k β_k r_k; touches only the bits where the weights change."""
        parts = self.coefficients(as_weights(weights, self.size))
        return BitFunctional(float(parts[0]), parts[1:])

    def product_coefficients(self, w: Floats, v: Floats) -> Floats:
        """An unbiased reading of w·v, plus what the flips of shared bits add for everyone."""
        result = self.coefficients(w * v)
        result[..., 0] += (self.spread(w) * self.spread(v)) @ (self.scale**2 - 1)
        return result

    def second_moment(self, weights: ArrayLike) -> Floats:
        """w² plus the flips' variance, which is the same for everyone."""
        w = as_weights(weights, self.size)
        flips: Floats = (self.spread(w) ** 2) @ (self.scale**2 - 1)
        return w**2 + flips[..., None]

    def spread(self, weights: Floats) -> Floats:
        """β of each bit along the last axis, without the noise-free constant."""
        half = -np.diff(weights, axis=-1) / 2
        if not self.published:
            return half
        middle = (weights[..., :1] + weights[..., -1:]) / 2
        return np.concatenate([half, middle], axis=-1)

    def report_likelihood(self, outputs: Outputs) -> Floats:
        """The full likelihood of all bits together, each row scaled to have largest entry one.

        From cell x to x + 1 only bit x changes its meaning, so logarithms are sums along the code.
        """
        if not isinstance(outputs, BitColumns):
            raise TypeError("this channel puts out bits")
        total = 1 << self.precision
        odds = np.array([np.log((total - f) / f) for f in self.flip_words[: self.size - 1]])
        bits = outputs.to_matrix()[:, : self.size - 1]
        steps = np.where(bits, -odds, odds)
        log = np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1)
        result: Floats = np.exp(log - log.max(axis=1, keepdims=True))
        return result

    def expect(self, table: Floats) -> Floats:
        """Functions of whole bit patterns, for short codes only."""
        return table @ self.likelihood().T

    def mix(self, law: Floats) -> Floats:
        """Laws of whole bit patterns, for short codes only."""
        return law @ self.likelihood()

    def flip_spread(self, weights: Floats) -> Floats:
        """Each bit's standard deviation in f."""
        return self.spread(weights) * np.sqrt(self.scale**2 - 1)

    def coefficients(self, weights: Floats) -> Floats:
        """The constant and one coefficient a bit, along the last axis."""
        middle = (weights[..., :1] + weights[..., -1:]) / 2
        constant = np.zeros_like(middle) if self.published else middle
        return np.concatenate([constant, self.spread(weights) * self.scale], axis=-1)

    def gather(self, profile: Floats) -> Floats:
        """What every bit says of the cells up to its threshold against those beyond."""
        bits = profile[..., 1:] * self.scale / 2
        middle = bits[..., -1] if self.published else profile[..., 0] / 2
        result = np.zeros((*profile.shape[:-1], self.size))
        result[..., 0] += middle
        result[..., -1] += middle
        result[..., :-1] += bits[..., : self.size - 1]
        result[..., 1:] -= bits[..., : self.size - 1]
        return result

    def products(self, profile: Floats, w: Floats, v: Floats) -> Floats:
        """As `product_coefficients`, without writing them out."""
        there, everyone = self.gather(profile), profile[..., :1]
        found = np.empty((*profile.shape[:-1], len(w)))
        for rows in self.batches(len(w)):
            one, other = w[rows], v[rows] if v.ndim > 1 else v
            flips = (self.spread(one) * self.spread(other)) @ (self.scale**2 - 1)
            found[..., rows] = there @ (one * other).T + everyone * flips
        return found

    @property
    def layout(self) -> Layout:
        """So many bits, packed."""
        return Layout("bits", self.width)

    def _code(self, x: int) -> Floats:
        """The noiseless bits of a cell as +1 and -1."""
        return np.where(x <= np.arange(self.width), 1.0, -1.0)

    def _refuse_patterns(self) -> None:
        """Refuse to list all patterns of a long code."""
        if self.width > MOST_PATTERN_BITS:
            raise TooLargeError(
                f"a thermometer report of {self.width} bits has 2^{self.width} values; all of them "
                f"are listed up to {MOST_PATTERN_BITS} bits. Use functional() and second_moment()"
            )
