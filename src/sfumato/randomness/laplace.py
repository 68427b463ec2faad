"""Discrete Laplace noise over all integers: exact samplers, variance, and quantiles of sums.

A device's channel has finitely many outputs, and one word against one table decides. The noise of
a central release ranges over all integers. Its law is exact here too: every decision compares a
random binary number, digit by digit and as many digits as it takes, with an irrational chance whose
digits are certified by integer bounds on e^x. Nothing is rounded, so the law is the formula itself,
and a guarantee proved for the formula holds for the draw.

An answer is Σ b_k·z_k away from the truth, z_k of law ∝ e^(−rate_k·|z|). A normal law is a poor
guide to the tails when few terms matter, so intervals come from the sum's own characteristic
function, Π_k 1/(1 + V_k·(1 − cos(b_k·t))), where V_k is the variance of z_k.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.errors import QuestionError, StudyError
from sfumato.exact import exp_bounds
from sfumato.randomness.bits import WORD_BITS, BitSource

Integers = NDArray[np.int64]
Terms = tuple[tuple[float, float, int], ...]  # coefficient, rate, how many times

_MASK = (1 << WORD_BITS) - 1
_SMALLEST_RATE = Fraction(1, 1 << 48)  # beyond 2^63 with a chance below e^-32768
_TAIL = 1e-13  # mass that wraps around: what the inversion leaves out, added to the level
_MOST_POINTS = 1 << 21
_MOST_STEPS = 1 << 12  # whole steps a coefficient may have on a common lattice
_MARGIN = 0.004  # the smoothing's reach, in standard errors: what the interval is too wide by
_POINTS = 1 << 14  # worked on at once
_NOTHING = 1e-17
_LOG_NOTHING = math.log(_NOTHING)


class _Chance:
    """An irrational chance in (0, 1); its binary digits are computed when needed, and kept."""

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
        """The first binary digits, as an integer."""
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


def geometric(rate: Fraction, count: int, bits: BitSource) -> Integers:
    """Independent integers g >= 0 of law (1 − e^-rate)·e^(−rate·g) exactly.

    The binary digits of a geometric number are independent: digit i is 1 with chance
    1/(1 + e^(rate·2^i)). The low digits are drawn so; what stands above them is geometric again,
    with a rate of at least 1, and is counted up one success at a time.

    Args:
        rate: The rate, at least 2^-48.
        count: How many numbers.
        bits: Where randomness comes from.
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
        count: How many numbers.
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

    Args:
        rates: The rates.
        bits: Where randomness comes from.

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


def laplace_variance(rate: Fraction | float) -> float:
    """The variance 2α/(1−α)², α = e^-rate, of a discrete Laplace number.

    Example:
        >>> round(laplace_variance(Fraction(1)), 6), laplace_variance(Fraction(1, 10**6)) / 2e12
        (1.841347, 0.999999999999917)
    """
    half = float(rate) / 2
    if half > 300:  # sinh would overflow; e^-rate is what is left
        return 2 * math.exp(-min(2 * half, 1e300))
    return 0.5 / math.sinh(half) ** 2


def sum_quantile(
    coefficients: Sequence[float] | Floats, rates: Sequence[Fraction | float | None], level: float
) -> float:
    """The half-width h with P(|Σ b_k·z_k| <= h) >= level, exact or slightly too wide.

    A single term has a closed form. Terms on a common lattice give the sum's exact probabilities
    by a discrete Fourier transform, and h is their exact quantile. For other coefficients the sum
    is smoothed by a normal law of a thousandth of its spread, inverted, and the smoothing's reach
    is added: h is then too wide by 0.4 % of a standard error at most, never too narrow.

    Args:
        coefficients: The b_k.
        rates: The rates of the z_k; None is a term without noise.
        level: The chance, between 0 and 1.

    Returns:
        The half-width, in the units of the coefficients; 0 where there is no noise.

    Raises:
        QuestionError: If the level does not lie between 0 and 1 − 10⁻⁹.

    Example:
        >>> sum_quantile([1.0], [Fraction(1, 10)], 0.95), sum_quantile([1, 1], [0.1, 0.1], 0.95)
        (30.0, 41.0)
    """
    if not 0 < level <= 1 - 1e-9:
        raise QuestionError(f"level must lie between 0 and 1 − 10⁻⁹, got level={level}")
    largest, terms = _terms(coefficients, rates)
    return largest * _half_width(terms, level) if terms else 0.0


def _terms(
    coefficients: Sequence[float] | Floats, rates: Sequence[Fraction | float | None]
) -> tuple[float, Terms]:
    """The largest coefficient, and the distinct noisy terms relative to it, in order."""
    terms: dict[tuple[float, float], int] = {}
    for coefficient, rate in zip(coefficients, rates, strict=True):
        if rate is not None and coefficient != 0 and laplace_variance(rate) > 0:
            term = (abs(float(coefficient)), float(rate))
            terms[term] = terms.get(term, 0) + 1
    largest = max((b for b, _ in terms), default=0.0)
    return largest, tuple(sorted((b / largest, rate, times) for (b, rate), times in terms.items()))


@lru_cache(maxsize=4096)
def _half_width(terms: Terms, level: float) -> float:
    """The half-width for terms whose largest coefficient is 1."""
    if len(terms) == 1 and terms[0][2] == 1:
        return terms[0][0] * _single(terms[0][1], level)
    b = np.array([term[0] for term in terms])
    variance = np.array([laplace_variance(term[1]) for term in terms])
    times = np.array([term[2] for term in terms])
    reach = _reach(b, np.array([term[1] for term in terms]), times)
    step = _common_step(b)
    if step is not None and 2 * reach / step < _MOST_POINTS:
        return _on_lattice(np.rint(b / step), variance, times, reach / step, level) * step
    return _smoothed(b, variance, times, reach, level)


def _single(rate: float, level: float) -> float:
    """The least whole h with P(|z| <= h) = 1 − 2·e^(−rate·(h+1))/(1 + e^-rate) >= level."""
    outside = (1 - level) * (1 + math.exp(-rate)) / 2
    return float(max(0, math.ceil(-math.log(outside) / rate - 1 - 1e-12)))


def _reach(b: Floats, rates: Floats, times: NDArray[np.int64]) -> float:
    """A distance from 0 beyond which the sum has less than `_TAIL` of its mass (Chernoff)."""
    best = math.inf
    for share in (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95):
        slope = share * float((rates / b).min())
        # E e^(slope·b·z) = (1−α)²/((1−α·e^s)(1−α·e^−s)), s = slope·b < rate
        s = slope * b
        logs = (
            2 * np.log(-np.expm1(-rates))
            - np.log(-np.expm1(s - rates))
            - np.log1p(-np.exp(-s - rates))
        )
        best = min(best, (float(times @ logs) + math.log(2 / _TAIL)) / slope)
    return best


def _common_step(b: Floats) -> float | None:
    """The largest number of which all coefficients are whole multiples, if they have few steps."""
    denominator = 1
    for number in b:  # the largest is 1, so that a common step is 1 over a whole number
        fraction = Fraction(float(number)).limit_denominator(_MOST_STEPS)
        if abs(float(fraction) - number) > 1e-13:
            return None
        denominator = math.lcm(denominator, fraction.denominator)
        if denominator > _MOST_STEPS:
            return None
    return 1 / denominator


def _characteristic(
    t: Floats, b: Floats, variance: Floats, times: NDArray[np.int64], stop: bool = False
) -> Floats:
    """E e^(i·t·sum) at every t: real, since the law is symmetric.

    Points at which the terms so far make it nothing are left at 0. With `stop` the value falls
    along t, and what comes after nothing is left out.
    """
    order = np.argsort(-times * variance * b**2)
    parts = []
    for start in range(0, len(t), _POINTS):
        part = t[start : start + _POINTS]
        log, alive = np.zeros(len(part)), np.arange(len(part))
        for k in order:
            log[alive] -= times[k] * np.log1p(2 * variance[k] * np.sin(part[alive] * b[k] / 2) ** 2)
            alive = alive[log[alive] > _LOG_NOTHING]
            if not len(alive):
                break
        value = np.zeros(len(part))
        value[alive] = np.exp(log[alive])
        parts.append(value)
        if stop and not len(alive):
            break
    return np.concatenate(parts) if parts else np.zeros(0)


def _on_lattice(
    b: Floats, variance: Floats, times: NDArray[np.int64], reach: float, level: float
) -> float:
    """The exact quantile of a sum that takes whole values."""
    size = 1 << (2 * math.ceil(reach) + 2).bit_length()
    t = 2 * math.pi * np.arange(size // 2 + 1) / size
    mass = np.fft.irfft(_characteristic(t, b, variance, times), size)
    held = mass[0] + np.concatenate([[0.0], np.cumsum(2 * mass[1 : size // 2])])
    return float(np.searchsorted(held, min(level + 10 * _TAIL, float(held.max()))))


def _smoothed(
    b: Floats,
    variance: Floats,
    times: NDArray[np.int64],
    reach: float,
    level: float,
) -> float:
    """The quantile of the sum plus a narrow normal number, widened by that number's reach."""
    spread = math.sqrt(float(times @ (b**2 * variance)))
    wide = _MARGIN * spread
    narrow = wide / 6.5  # beyond `wide` with a chance of 8e-11
    step = math.pi / (reach + wide)
    points = math.ceil(7.5 / narrow / step)  # the normal factor ends there
    t: Floats = step * np.arange(1, points + 1, dtype=np.float64)
    falling = math.pi / float(b.max())  # all factors fall until there
    first = _characteristic(t[: int(falling / step)], b, variance, times, stop=True)
    rest = t[int(falling / step) :]
    value = np.concatenate([first, _characteristic(rest, b, variance, times)])
    t = np.concatenate([t[: len(first)], rest])
    value *= np.exp(-((narrow * t) ** 2) / 2) / t
    kept = value > _NOTHING
    t, value = t[kept], value[kept]
    wanted = min(level + 2e-10, 1 - 1e-12)

    def missing(h: float) -> float:
        """P(|smoothed sum| <= h) − level by Gil-Pelaez; the period is twice the reach."""
        return step / math.pi * (h + 2 * float(value @ np.sin(t * h))) - wanted

    if missing(0.0) >= 0:
        return wide
    from scipy.optimize import brentq

    found = brentq(missing, 0.0, reach, xtol=1e-6 * spread)
    return float(found) + 1e-6 * spread + wide
