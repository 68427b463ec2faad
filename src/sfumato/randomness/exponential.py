"""Exact sampling of one of several options with probability ∝ e^x.

One random number of unlimited digits is laid on the line of the weights e^x. Integers bound where
one option ends and the next begins; digits and bounds are refined until they tell.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import StudyError
from sfumato.exact import exp_bounds
from sfumato.randomness.bits import WORD_BITS, BitSource

Integers = NDArray[np.int64]

_DIGIT = 10  # binary digits of an exponent that one table of e^-x covers


def choose_by_exp(log_weights: Sequence[Fraction], bits: BitSource) -> int:
    """An index i with chance e^(log_weights[i]) / Σ_j e^(log_weights[j]) exactly.

    One random number of unlimited digits is laid on the line of the weights. Integer bounds place
    the borders between options; where the digits drawn so far do not tell on which side of a
    border the number falls, both are refined until they do.

    Args:
        log_weights: One rational per option, of any size: only differences count.
        bits: Where randomness comes from.

    Raises:
        StudyError: If there is nothing to choose from.

    Example:
        >>> from sfumato.randomness.bits import SeededBits
        >>> choose_by_exp([Fraction(0), Fraction(100), Fraction(1)], SeededBits(1))
        1
    """
    _at_least_one(len(log_weights))
    top = max(log_weights)
    below = [top - weight for weight in log_weights]

    def cut(precision: int) -> NDArray[np.object_]:
        return np.array([(x.numerator << precision) // x.denominator for x in below], dtype=object)

    return _choose(len(below), cut, bits)


def choose_by_scores(scores: Sequence[int] | Integers, unit: Fraction, bits: BitSource) -> int:
    """An index i with chance ∝ e^(unit·scores[i]) exactly: `choose_by_exp` for many options.

    Args:
        scores: One whole number per option.
        unit: What a score of 1 adds to the logarithm of the weight; negative to prefer low scores.
        bits: Where randomness comes from.

    Example:
        >>> from sfumato.randomness.bits import SeededBits
        >>> choose_by_scores([500, 100, 400], Fraction(-1, 4), SeededBits(1))
        1
    """
    _at_least_one(len(scores))
    whole = np.array([int(score) for score in scores], dtype=object)
    if unit < 0:
        whole = -whole
    below = (whole.max() - whole) * abs(unit.numerator)

    def cut(precision: int) -> NDArray[np.object_]:
        return np.asarray((below << precision) // unit.denominator, dtype=object)

    return _choose(len(whole), cut, bits)


def _at_least_one(options: int) -> None:
    """Refuse a choice without options."""
    if not options:
        raise StudyError("there must be at least one option to choose from, got none")


def _choose(size: int, cut: Callable[[int], NDArray[np.object_]], bits: BitSource) -> int:
    """An index with chance ∝ e^-x, where `cut` gives x·2^precision, rounded down, for any one."""
    precision, digits, number = 64 + 2 * size.bit_length(), 0, 0
    while True:
        lows, slack = _exp_table(cut(precision), precision)
        ends = list(accumulate(lows))
        while digits < precision:
            number = number << WORD_BITS | int(bits.words(1)[0])
            digits += WORD_BITS
        # The number lies in [number, number + 1)/2^digits and end i in [ends[i], ends[i] +
        # (i + 1)·slack]: the point that the number marks on the line lies in [first, last].
        first = (number * ends[-1]) >> digits
        last = -(-(number + 1) * (ends[-1] + size * slack) >> digits)
        option = min(bisect_right(ends, first), size - 1)
        starts = option == 0 or ends[option - 1] + option * slack <= first
        stops = option == size - 1 or last <= ends[option]
        if starts and stops:
            return option
        precision *= 2


def _exp_table(cut: NDArray[np.object_], precision: int) -> tuple[list[int], int]:
    """Integers l with l <= e^-x·2^precision <= l + slack for every x, and the slack.

    `cut` is x·2^precision rounded down. e^-x is a product over groups of its binary digits, each
    factor looked up in a table of integers rounded down.
    """
    # From x = precision on e^-x is below one unit: 0 stands for it.
    near = np.flatnonzero(cut < precision << precision)
    rest = cut[near]
    value = _powers(Fraction(1), precision, precision)[(rest >> precision).astype(np.int64)]
    rest = rest & ((1 << precision) - 1)
    groups = -(-precision // _DIGIT)
    for group in range(groups):
        place = max(0, precision - _DIGIT * (group + 1))
        digit = (rest >> place).astype(np.int64)
        rest = rest & ((1 << place) - 1)
        table = _powers(Fraction(1, 1 << (precision - place)), precision, 1 << _DIGIT)
        value = (value * table[digit]) >> precision
    # What was cut off x raised the value by a factor below 1 + 2^-precision, less than one unit.
    lows = np.zeros(len(cut), dtype=object)
    lows[near] = np.maximum(value - 1, 0)
    # Rounding down cost two units per factor and one per product, with cross terms one more in all.
    return lows.tolist(), 3 * (groups + 1) + 2


@lru_cache(maxsize=256)
def _powers(step: Fraction, precision: int, count: int) -> NDArray[np.object_]:
    """⌊e^(−step·k)·2^precision⌋ or at most one less, for k = 0..count."""
    work = precision + 2 * count.bit_length() + 8
    low = (1 << (2 * work)) // exp_bounds(step, work)[1]
    powers, power = [1 << precision], 1 << work
    for _ in range(count):
        power = (power * low) >> work  # short by less than 3·count units of 2^-work in the end
        powers.append(power >> (work - precision))
    return np.array(powers, dtype=object)
