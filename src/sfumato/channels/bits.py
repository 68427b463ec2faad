"""What channels that send bits share: patterns, and the bits of a code flipped one by one."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import Cells, Floats, Layout
from sfumato.bitcolumns import LANES, BitColumns, words_for
from sfumato.channels.base import BitFunctional, Channel, as_weights, signs
from sfumato.errors import StudyError, TooLargeError
from sfumato.randomness.bits import BitSource
from sfumato.randomness.tables import FlipTable

MOST_PATTERN_BITS = 20
WORDS_AT_ONCE = 1 << 15


class BitChannel(Channel):
    """A channel that sends `width` bits, packed."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Bits a report."""

    @property
    def layout(self) -> Layout:
        """So many bits, packed."""
        return Layout("bits", self.width)

    def functional(self, weights: ArrayLike) -> BitFunctional:
        """The constant and one coefficient a bit, as a function of the bits."""
        parts = self.coefficients(as_weights(weights, self.size))
        return BitFunctional(float(parts[0]), parts[1:])

    def expect(self, table: Floats) -> Floats:
        """Functions of whole bit patterns, for short reports only."""
        return table @ self.likelihood().T

    def mix(self, law: Floats) -> Floats:
        """Laws of whole bit patterns, for short reports only."""
        return law @ self.likelihood()

    def refuse_patterns(self) -> None:
        """Refuse to list all patterns of a long report."""
        if self.width > MOST_PATTERN_BITS:
            raise TooLargeError(
                f"a report of {self.width} bits has 2^{self.width} values; all of them are listed "
                f"up to {MOST_PATTERN_BITS} bits. Use functional() and second_moment()"
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class FlippedCode(BitChannel):
    """The bits of every cell's code, each flipped by itself in `flip_words` of 2^precision cases.

    Estimator:
        With β the coefficients of the bits, +1 and −1, in the weights, and s_k = 1/(1 − 2·chance of
        a flip), f = β_0 + Σ s_k·β_k·r_k is unbiased and has the variance Σ (s_k² − 1)·β_k² for
        every cell.
    """

    #: What cells are held as while they are encoded.
    cell_type: ClassVar[type[np.signedinteger[Any]]] = np.int64

    precision: int = 64
    flip_words: tuple[int, ...] = field(init=False, repr=False)
    _flips: FlipTable = field(init=False, repr=False)

    def set_flips(self, odds: Sequence[Fraction | None], remedy: str) -> None:
        """Derive the chances of flips, rounded up so that odds stay within bounds; None: never."""
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
        """Some bits of the codes of cells, one row a bit and one column a person."""

    @abstractmethod
    def spread(self, weights: Floats) -> Floats:
        """β of each bit along the last axis, without the noise-free constant."""

    @property
    def width(self) -> int:
        """Bits a report."""
        return len(self.flip_words)

    @cached_property
    def scale(self) -> Floats:
        """s_k = 1/(1 − 2·chance of a flip), for each bit."""
        total = 1 << self.precision
        return np.array([total / (total - 2 * flip) for flip in self.flip_words])

    @cached_property
    def noise(self) -> Floats:
        """s_k² − 1, the variance of s_k times a bit; without the difference of near numbers."""
        total = 1 << self.precision
        return np.array(
            [4 * flip * (total - flip) / (total - 2 * flip) ** 2 for flip in self.flip_words]
        )

    def encode(self, cells: Cells, bits: BitSource) -> BitColumns:
        """Write each person's code and flip every bit by itself."""
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

    def _codes(self) -> NDArray[np.bool_]:
        """The code of every cell, one row a cell."""
        return self.ones(np.arange(self.size), slice(0, self.width)).T

    def words(self) -> tuple[list[list[int]], int]:
        """Exact word counts of all bit patterns; patterns are read with bit 0 lowest."""
        self.refuse_patterns()
        total = 1 << self.precision
        rows = []
        for code in self._codes().tolist():
            row = [1]
            for is_one, flip in zip(code, self.flip_words, strict=True):
                one = total - flip if is_one else flip
                row = [r * (total - one) for r in row] + [r * one for r in row]
            rows.append(row)
        return rows, total**self.width

    def likelihood(self) -> Floats:
        """P(pattern of bits | cell), for short codes only."""
        self.refuse_patterns()
        total = 1 << self.precision
        flipped = np.array([flip / total for flip in self.flip_words])
        kept = np.array([(total - flip) / total for flip in self.flip_words])
        patterns = signs(self.width) > 0
        rows = [np.prod(np.where(patterns == c, kept, flipped), axis=1) for c in self._codes()]
        return np.array(rows)

    def product_coefficients(self, w: Floats, v: Floats) -> Floats:
        """An unbiased reading of w·v, plus what the flips of shared bits add for everyone."""
        result = self.coefficients(w * v)
        result[..., 0] += (self.spread(w) * self.spread(v)) @ self.noise
        return result

    def products(self, profile: Floats, w: Floats, v: Floats) -> Floats:
        """As `product_coefficients`, without writing them out."""
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
        """Each bit's standard deviation in f."""
        return self.spread(weights) * np.sqrt(self.noise)
