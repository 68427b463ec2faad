"""Exact samplers of unlimited range, for noise that no finite table holds.

A device's channel has finitely many outputs, and one word against one table decides. The noise of
a matrix mechanism and of every central release ranges over all integers. Its law is exact here too:
every decision compares a random binary number, digit by digit and as many digits as it takes, with
an irrational chance whose digits are certified by integer bounds on e^x. Nothing is rounded, so the
law is the formula itself, and a guarantee proved for the formula holds for the draw.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import StudyError
from sfumato.exact import exp_bounds
from sfumato.randomness.bits import WORD_BITS, BitSource

Integers = NDArray[np.int64]

_MASK = (1 << WORD_BITS) - 1
_SMALLEST_RATE = Fraction(1, 1 << 48)  # beyond 2^63 with a chance below e^-32768


class _Chance:
    """An irrational chance in (0, 1) whose binary digits are found, and kept, as they are asked."""

    __slots__ = ("_bounds", "_size", "_words")

    def __init__(self, bounds: Callable[[int], tuple[int, int]], size: Fraction) -> None:
        self._bounds = bounds
        self._size = size  # the chance is below e^-size
        self._words: dict[int, int] = {}  # by place, so that threads may ask at once

    def word(self, place: int) -> int:
        """Binary digits 64·place .. 64·place + 63 after the point, as an integer."""
        if place not in self._words:
            self._words[place] = self._found(WORD_BITS * (place + 1)) & _MASK
        return self._words[place]

    def _found(self, digits: int) -> int:
        """The first so many binary digits."""
        if self._size > digits:  # below e^-digits < 2^-digits: all zeros so far
            return 0
        work = digits + 32
        while True:
            low, high = (bound >> (work - digits) for bound in self._bounds(work))
            if low == high:
                return low
            work *= 2

    def draw(self, count: int, bits: BitSource) -> NDArray[np.bool_]:
        """`count` independent events that each happen with exactly this chance."""
        words = bits.words(count)
        first = np.uint64(self.word(0))
        happened = words < first
        tied = np.flatnonzero(words == first)
        place = 0
        while tied.size:
            place += 1
            words = bits.words(tied.size)
            next_ = np.uint64(self.word(place))
            happened[tied] = words < next_
            tied = tied[words == next_]
        return happened


@lru_cache(maxsize=8192)
def _exp_chance(x: Fraction) -> _Chance:
    """The chance e^-x, for x > 0."""

    def bounds(work: int) -> tuple[int, int]:
        low, high = exp_bounds(x, work)
        return (1 << (2 * work)) // high, -((-1 << (2 * work)) // low)

    return _Chance(bounds, x)


@lru_cache(maxsize=8192)
def _digit_chance(x: Fraction) -> _Chance:
    """The chance 1/(1 + e^x), for x > 0: that of a geometric number's binary digit being 1."""

    def bounds(work: int) -> tuple[int, int]:
        low, high = (bound + (1 << work) for bound in exp_bounds(x, work))
        return (1 << (2 * work)) // high, -((-1 << (2 * work)) // low)

    return _Chance(bounds, x)


def bernoulli_exp(x: Fraction, count: int, bits: BitSource) -> NDArray[np.bool_]:
    """Independent events of chance e^-x exactly.

    Args:
        x: The exponent, x >= 0.
        count: How many events.
        bits: Where randomness comes from.

    Example:
        >>> from sfumato.randomness.bits import SeededBits
        >>> int(bernoulli_exp(Fraction(1), 100_000, SeededBits(2)).sum())  # 100,000/e = 36,788
        36858
    """
    if x < 0:
        raise StudyError(f"e^-x is a chance for x >= 0 only, got x={x}")
    if x == 0:
        return np.ones(count, dtype=np.bool_)
    return _exp_chance(x).draw(count, bits)


def uniform_below(bound: int, count: int, bits: BitSource) -> Integers:
    """Independent integers 0..bound−1, all equally likely.

    Leading bits of a word that reach the bound or pass it are thrown away and drawn again.

    Example:
        >>> from sfumato.randomness.bits import SeededBits
        >>> uniform_below(6, 5, SeededBits(1)).tolist()
        [5, 3, 5, 2, 0]
    """
    if not 1 <= bound <= 1 << 63:
        raise StudyError(f"bound must be 1..2^63, got bound={bound}")
    if bound == 1:
        return np.zeros(count, dtype=np.int64)
    shift = np.uint64(WORD_BITS - (bound - 1).bit_length())
    drawn = np.empty(count, dtype=np.uint64)
    missing = np.arange(count)
    while missing.size:
        words = bits.words(missing.size) >> shift
        drawn[missing] = words
        missing = missing[words >= np.uint64(bound)]
    return drawn.astype(np.int64)


def geometric(rate: Fraction, count: int, bits: BitSource) -> Integers:
    """Independent integers g >= 0 of law (1 − e^-rate)·e^(−rate·g) exactly.

    The binary digits of a geometric number are independent: digit i is 1 with chance
    1/(1 + e^(rate·2^i)). The low digits are drawn so; what stands above them is geometric again,
    with a rate of at least 1, and is counted up one success at a time.
    """
    if rate < _SMALLEST_RATE:
        raise StudyError(
            f"the rate of exact noise must be at least 2^-48, got rate={float(rate):.3g}; "
            "use a coarser lattice (granularity)"
        )
    low = max(0, math.ceil(1 / rate) - 1).bit_length()  # the least with rate·2^low >= 1
    drawn = np.zeros(count, dtype=np.int64)
    for place in range(low):
        drawn |= _digit_chance(rate * (1 << place)).draw(count, bits).astype(np.int64) << place
    chance, alive = _exp_chance(rate * (1 << low)), np.arange(count)
    while alive.size:
        alive = alive[chance.draw(alive.size, bits)]
        drawn[alive] += 1 << low
    return drawn


def discrete_laplace(rate: Fraction, count: int, bits: BitSource) -> Integers:
    """Independent integers z of law (1−α)/(1+α)·α^|z| exactly, α = e^-rate.

    Guarantee:
        Adding z to an integer that differs by s between two inputs changes the odds of every
        output by at most e^(rate·|s|), and by exactly that beyond both.

    Estimator:
        Mean 0, variance `laplace_variance(rate)`.

    Args:
        rate: The noise's rate per lattice step, a positive rational.
        count: How many.
        bits: Where randomness comes from.

    Raises:
        StudyError: If the rate is below 2^-48, where an int64 might overflow.

    Example:
        >>> from sfumato.randomness.bits import SeededBits
        >>> discrete_laplace(Fraction(1, 10), 6, SeededBits(7)).tolist()
        [-3, -14, 5, -1, -5, -32]
    """
    both = geometric(rate, 2 * count, bits)
    return both[:count] - both[count:]  # the difference of two geometric numbers


def discrete_laplaces(rates: Sequence[Fraction | None], bits: BitSource) -> Integers:
    """One exact discrete Laplace number for each rate; None stands for no noise, and gives 0.

    Example:
        >>> from sfumato.randomness.bits import SeededBits
        >>> discrete_laplaces([Fraction(1, 2), None, Fraction(50)], SeededBits(3))[1:].tolist()
        [0, 0]
    """
    drawn = np.zeros(len(rates), dtype=np.int64)
    places: dict[Fraction, list[int]] = {}
    for place, rate in enumerate(rates):
        if rate is not None:
            places.setdefault(rate, []).append(place)
    for rate, where in places.items():
        drawn[where] = discrete_laplace(rate, len(where), bits)
    return drawn
