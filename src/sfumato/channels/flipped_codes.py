"""Independent flips of the bits of a code: the channel behind `MatrixResponse`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sfumato.bitcolumns import LANES, BitColumns, words_for
from sfumato.channels.base import (
    BitFunctional,
    Cells,
    Channel,
    Floats,
    Layout,
    Outputs,
    as_weights,
    claimed_tightness,
    signs,
)
from sfumato.channels.codes import Code
from sfumato.errors import StudyError, TooLargeError
from sfumato.exact import exp_floor
from sfumato.metrics import CellMetric
from sfumato.metrics.edges import edges_of
from sfumato.randomness import BitSource, FlipTable

MOST_PATTERN_BITS = 20

_WORDS_AT_ONCE = 1 << 15


@dataclass(frozen=True, kw_only=True, eq=False)
class MatrixResponseChannel(Channel):
    """Independent flips of a code; bit k is flipped in `flip_words[k]` of 2^precision cases."""

    id: ClassVar[str] = "matrix-response"
    metric: CellMetric
    code: Code = field(repr=False)
    precision: int = 64
    flip_words: tuple[int, ...] = field(init=False, repr=False)
    _flips: FlipTable = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check Proposition 2 in rationals, and round the chances of flips up."""
        refuse_overspending(self.code, self.metric)
        total = 1 << self.precision
        odds = [None if rate is None else exp_floor(rate) for rate in self.code.rates]
        flips = tuple(0 if odd is None else math.ceil(total / (1 + odd)) for odd in odds)
        if max(flips) * 2 >= total:
            raise StudyError(
                f"a table of 2^{self.precision} words is too coarse for this epsilon; "
                "use a larger epsilon"
            )
        object.__setattr__(self, "flip_words", flips)
        object.__setattr__(self, "_flips", FlipTable(flips, self.precision))
        self._reading  # noqa: B018 - refuses codes that do not tell all cells apart

    @cached_property
    def tightness(self) -> float:  # type: ignore[override]
        """All of E but for rounding, where some neighbouring cells differ in bits that spend it."""
        for x in range(self.size - 1):
            e = self.metric.exact(x, x + 1)
            if e is None or self.code.spent(x, x + 1) != e:
                continue
            differ = self.code.members[:, x] != self.code.members[:, x + 1]
            rates = [self.code.rates[k] for k in np.flatnonzero(differ).tolist()]
            odds = [exp_floor(rate) for rate in rates if rate is not None]
            if all(claimed_tightness(odd, self.precision) for odd in odds):
                return claimed_tightness(max(odds), self.precision)
        return 0.0

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

    @cached_property
    def _reading(self) -> Floats:
        """For a unit weight of each cell, the constant and then β of every bit, +1 or -1."""
        from sfumato.workloads import Identity, reconstruct  # workloads build on channels

        code = np.where(self.code.members, 1.0, -1.0)
        found = reconstruct(Identity(self.size), code, self.noise, known_total=True)
        return np.roll(found, 1, axis=1)  # what the number of people says comes first

    def encode(self, cells: Cells, bits: BitSource) -> BitColumns:
        """Write each person's code and flip every bit by itself."""
        count = len(cells)
        words = np.zeros((self.width, words_for(count)), dtype=np.uint64)
        across = min(words.shape[1], _WORDS_AT_ONCE) or 1
        down = max(1, _WORDS_AT_ONCE // across)
        for left in range(0, words.shape[1], across):
            part = np.asarray(cells[left * LANES : (left + across) * LANES], dtype=np.int64)
            lanes = words_for(len(part)) * LANES
            for top in range(0, self.width, down):
                rows = slice(top, min(top + down, self.width))
                ones = np.zeros((rows.stop - rows.start, lanes), dtype=np.bool_)
                ones[:, : len(part)] = self.code.members[rows].take(part, axis=1)
                code = np.packbits(ones, axis=1, bitorder="little").view("<u8")
                noisy = code ^ self._flips.draw(bits, rows, lanes // LANES)
                words[rows, left : left + lanes // LANES] = noisy
        if count % LANES and words.size:
            words[:, -1] &= np.uint64((1 << (count % LANES)) - 1)
        return BitColumns(words, count)

    def words(self) -> tuple[list[list[int]], int]:
        """Exact word counts of all bit patterns; patterns are read with bit 0 lowest."""
        self._refuse_patterns()
        total = 1 << self.precision
        rows = []
        for code in self.code.members.T.tolist():
            row = [1]
            for is_one, flip in zip(code, self.flip_words, strict=True):
                one = total - flip if is_one else flip
                row = [r * (total - one) for r in row] + [r * one for r in row]
            rows.append(row)
        return rows, total**self.width

    def likelihood(self) -> Floats:
        """P(pattern of bits | cell), for short codes only."""
        self._refuse_patterns()
        total = 1 << self.precision
        flipped = np.array([flip / total for flip in self.flip_words])
        kept = np.array([(total - flip) / total for flip in self.flip_words])
        patterns = signs(self.width) > 0
        codes = self.code.members.T
        return np.array([np.prod(np.where(patterns == c, kept, flipped), axis=1) for c in codes])

    def functional(self, weights: ArrayLike) -> BitFunctional:
        """The constant, and s_k·β_k of every bit."""
        parts = self.coefficients(as_weights(weights, self.size))
        return BitFunctional(float(parts[0]), parts[1:])

    def coefficients(self, weights: Floats) -> Floats:
        """The constant and one coefficient a bit, along the last axis."""
        result: Floats = weights @ self._reading
        result[..., 1:] *= self.scale
        return result

    def spread(self, weights: Floats) -> Floats:
        """β of each bit along the last axis."""
        result: Floats = weights @ self._reading[:, 1:]
        return result

    def gather(self, profile: Floats) -> Floats:
        """The transposed reading."""
        scaled = np.concatenate([profile[..., :1], profile[..., 1:] * self.scale], axis=-1)
        result: Floats = scaled @ self._reading.T
        return result

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

    def report_likelihood(self, outputs: Outputs) -> Floats:
        """The likelihood of all bits together, each row scaled to have largest entry one."""
        if not isinstance(outputs, BitColumns):
            raise TypeError("this channel puts out bits")
        total = 1 << self.precision
        noisy = np.array(self.flip_words) > 0
        odds = [math.log((total - f) / f) / 2 for f in self.flip_words if f]
        ones = np.where(outputs.to_matrix(), 1.0, -1.0)
        code = np.where(self.code.members, 1.0, -1.0)
        log = (ones[:, noisy] * odds) @ code[noisy]
        if not noisy.all():  # bits without noise rule out all cells that have others
            wrong = np.count_nonzero(~noisy) - ones[:, ~noisy] @ code[~noisy]
            log[wrong > 0.5] = -math.inf
        result: Floats = np.exp(log - log.max(axis=1, keepdims=True))
        return result

    def expect(self, table: Floats) -> Floats:
        """Functions of whole bit patterns, for short codes only."""
        return table @ self.likelihood().T

    def mix(self, law: Floats) -> Floats:
        """Laws of whole bit patterns, for short codes only."""
        return law @ self.likelihood()

    @property
    def layout(self) -> Layout:
        """So many bits, packed."""
        return Layout("bits", self.width)

    def _refuse_patterns(self) -> None:
        """Refuse to list all patterns of a long code."""
        if self.width > MOST_PATTERN_BITS:
            raise TooLargeError(
                f"a report of {self.width} bits has 2^{self.width} values; all of them are listed "
                f"up to {MOST_PATTERN_BITS} bits. Use functional() and second_moment()"
            )


def refuse_overspending(code: Code, metric: CellMetric) -> None:
    """Refuse a code whose bits together tell two cells apart by more than E, exactly decided."""
    from sfumato.allocation import check  # allocations build on channels

    found = check(code.members.astype(np.int64), edges_of(metric), code.rates)
    if not found:
        raise StudyError(
            "the table of this matrix response does not keep the metric: the bits of cells "
            f"{found.pair} spend more than E between them; make the study anew"
        )
