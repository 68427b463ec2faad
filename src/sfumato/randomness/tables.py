"""Exact samplers over finite tables: one random word decides one outcome."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from sfumato.randomness.bits import WORD_BITS, BitSource, Words

_GUIDE_BITS = 16
_FULL_ROUNDS = 8  # digits after which under a quarter of the words still have an open lane


class WordTable:
    """An exact sampler: outcome i has probability weights[i] / 2^precision.

    One word decides one outcome. A guide over the word's leading bits answers nearly all draws
    with a single look-up; the rest are searched, so the law is exactly that of the weights.

    Args:
        weights: Non-negative integers that sum to 2^precision.
        precision: Bits of a word that take part, at most 64.
    """

    __slots__ = ("_bounds", "_guide", "precision", "weights")

    def __init__(self, weights: Sequence[int], precision: int) -> None:
        if sum(weights) != 1 << precision:
            raise ValueError("weights must sum to 2**precision")
        self.weights = tuple(weights)
        self.precision = precision
        # Bounds below the last possible outcome's: that one is 2^precision and may not fit a word.
        top = max(place for place, weight in enumerate(self.weights) if weight)
        self._bounds = np.cumsum(np.array(self.weights[:top], dtype=np.uint64), dtype=np.uint64)
        lead = min(_GUIDE_BITS, precision)
        first = np.arange(1 << lead, dtype=np.uint64) << np.uint64(precision - lead)
        last = first + np.uint64((1 << (precision - lead)) - 1)
        low = np.searchsorted(self._bounds, first, side="right")
        high = np.searchsorted(self._bounds, last, side="right")
        self._guide = np.where(low == high, low, -1).astype(np.int32)

    def draw(self, bits: BitSource, count: int) -> NDArray[np.int32]:
        """Draw `count` independent outcomes.

        Args:
            bits: Where randomness comes from.
            count: How many outcomes.
        """
        words = leading(bits.words(count), self.precision)
        lead = min(_GUIDE_BITS, self.precision)
        found = self._guide.take((words >> np.uint64(self.precision - lead)).astype(np.uint16))
        unsure = np.flatnonzero(found < 0)
        if unsure.size:
            found[unsure] = np.searchsorted(self._bounds, words[unsure], side="right")
        return found

    def problems(self) -> Iterator[str]:
        """What is wrong with the sampler: whether bounds and guide give every outcome its weight.

        This checks the arrays that `draw` looks up, not what the constructor should have made.
        """
        if min(self.weights) < 0 or sum(self.weights) != 1 << self.precision:
            yield f"the noise table sums to {sum(self.weights)} words, not to 2^{self.precision}"
            return
        last = max(place for place, weight in enumerate(self.weights) if weight)
        if self._bounds.tolist() != list(accumulate(self.weights[:last])):
            yield "the sampler's bounds are not the sums of the noise table"
            return
        lead = len(self._guide).bit_length() - 1
        cell = np.uint64(1 << (self.precision - lead))
        first = np.arange(len(self._guide), dtype=np.uint64) * cell
        sure = np.flatnonzero(self._guide >= 0)
        outcome = self._guide[sure]
        start = np.concatenate([np.zeros(1, dtype=np.uint64), self._bounds])[outcome]
        top = np.full(1, (1 << self.precision) - 1, dtype=np.uint64)
        end = np.concatenate([self._bounds, top])
        reach = first[sure] + (cell - np.uint64(1))
        beyond = np.where(outcome == len(self._bounds), reach > end[-1], reach >= end[outcome])
        if np.any(first[sure] < start) or np.any(beyond):
            yield "the sampler's guide points to outcomes that its bounds do not"


class RowTable:
    """Exact samplers side by side: in row x, outcome i has probability rows[x][i] / 2^precision.

    One word decides one outcome, by a search in the cumulative sums of the row.

    Args:
        rows: Non-negative integers; every row sums to 2^precision.
        precision: Bits of a word that take part, at most 64.
    """

    __slots__ = ("_bounds", "precision")

    def __init__(self, rows: Sequence[Sequence[int]], precision: int) -> None:
        self.precision = precision
        # Up to the last possible outcome: its own bound is 2^precision and may not fit a word.
        self._bounds = [np.array(bounds, dtype=np.uint64) for bounds in map(_bounds_of, rows)]

    def draw(self, bits: BitSource, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Draw one outcome per entry, from the row that it names.

        Args:
            bits: Where randomness comes from: one word per entry.
            rows: Numbers of rows.
        """
        words = leading(bits.words(len(rows)), self.precision)
        found = np.empty(len(rows), dtype=np.int64)
        # Numbers of two bytes are sorted by radix, which is several times faster.
        short = rows.astype(np.min_scalar_type(len(self._bounds)), copy=False)
        order = np.argsort(short, kind="stable")
        counts = np.bincount(rows, minlength=len(self._bounds))
        ends = np.cumsum(counts)
        for row in np.flatnonzero(counts):
            here = order[ends[row] - counts[row] : ends[row]]
            found[here] = np.searchsorted(self._bounds[row], words[here], side="right")
        return found

    def problems(self, rows: Sequence[Sequence[int]]) -> Iterator[str]:
        """What is wrong with the sampler: whether it searches the sums of these rows."""
        if [bounds.tolist() for bounds in self._bounds] != [_bounds_of(row) for row in rows]:
            yield "the sampler searches other bounds than the channel shows"


def _bounds_of(weights: Sequence[int]) -> list[int]:
    """Cumulative sums below that of the last outcome with any weight, as far as words reach."""
    last = max((place for place, weight in enumerate(weights) if weight), default=0)
    return [total % (1 << WORD_BITS) for total in accumulate(weights[:last])]


def leading(words: Words, precision: int) -> Words:
    """The leading `precision` bits of each word, as an integer.

    Args:
        words: 64-bit words.
        precision: How many of their bits to keep.
    """
    return words if precision == WORD_BITS else words >> np.uint64(WORD_BITS - precision)


class FlipTable:
    """Packed random flips, 64 to a word: row k's bits are 1 with chance chances[k]/2^precision.

    In every lane a random number, one binary digit per word, is compared with the chance's digits.
    A lane is settled at its first differing digit, so eight words settle most of 64 lanes and the
    few open words go on alone. Each lane's law is exact.

    Args:
        chances: One integer in 0..2^precision per row.
        precision: Binary digits of the comparison.
    """

    __slots__ = ("_certain", "_digits", "_same")

    def __init__(self, chances: Sequence[int], precision: int) -> None:
        # A digit or a certainty becomes a word: all ones or all zeros.
        self._digits = np.array(
            [[-((c >> (precision - 1 - j)) & 1) for c in chances] for j in range(precision)],
            dtype=np.int64,
        ).view(np.uint64)
        self._certain = np.array([-(c >> precision) for c in chances], dtype=np.int64).view(
            np.uint64
        )
        self._same = len(set(chances)) == 1

    def chances(self, precision: int) -> list[int]:
        """The chances that the sampler's binary digits spell; [-1] if they are no such digits."""
        ones = np.uint64((1 << WORD_BITS) - 1)
        if not np.all((self._digits == 0) | (self._digits == ones)):
            return [-1]
        if self._digits.shape[0] != precision:
            return [-1]
        spelled = [int("".join("1" if d else "0" for d in column), 2) for column in self._digits.T]
        pairs = zip(spelled, self._certain, strict=True)
        return [digits + (int(bool(certain)) << precision) for digits, certain in pairs]

    def draw(self, bits: BitSource, rows: slice, width: int) -> Words:
        """Flips for some of the rows, shape (rows, width).

        Args:
            bits: Where randomness comes from.
            rows: Which rows.
            width: Words per row.
        """
        certain, digits = self._certain[rows], self._digits[:, rows]
        row = np.repeat(np.arange(0 if self._same else len(certain)), width)
        result = np.repeat(certain, width)
        place: NDArray[np.intp] | None = None  # which words are still open; None: all of them
        open_result, open_lanes = result, ~result
        for round_, digit_row in enumerate(digits, start=1):
            plane = bits.words(open_lanes.size)
            if not self._same:
                digit = digit_row[row]
                open_result |= open_lanes & digit & ~plane
                open_lanes &= ~(plane ^ digit)
            elif digit_row[0]:  # lanes with a zero are below the chance, those with a one open
                plane &= open_lanes
                open_lanes ^= plane
                open_result |= open_lanes
                open_lanes = plane
            else:  # lanes with a one are above it
                np.invert(plane, out=plane)
                open_lanes &= plane
            if round_ < _FULL_ROUNDS:
                continue
            if place is None:
                place = np.arange(result.size)
            else:
                result[place] = open_result
            keep = np.flatnonzero(open_lanes)
            if not keep.size:
                break
            place = place[keep]
            if not self._same:
                row = row[keep]
            open_result, open_lanes = result[place], open_lanes[keep]
        return result.reshape(len(certain), width)
