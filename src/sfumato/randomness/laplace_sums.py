"""The law of a sum of independent discrete Laplace numbers: its variance and its quantiles.

An answer of a matrix mechanism is Σ b_k·z_k away from the truth, z_k of law ∝ e^(−rate_k·|z|). A
normal law is a poor guide to its tails when few terms matter, so intervals come from the sum's own
characteristic function, Π_k 1/(1 + V_k·(1 − cos(b_k·t))) with V_k the variance of z_k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from sfumato.arrays import Floats
from sfumato.errors import QuestionError

Terms = tuple[tuple[float, float, int], ...]  # coefficient, rate, how many times

_TAIL = 1e-13  # mass that wraps around: what the inversion leaves out, added to the level
_MOST_POINTS = 1 << 21
_MOST_STEPS = 1 << 12  # whole steps a coefficient may have on a common lattice
_MARGIN = 0.004  # the smoothing's reach, in standard errors: what the interval is too wide by
_MARGIN_OF_MANY = 0.02  # the same where many laws are inverted
_MANY = 64
_POINTS = 1 << 14  # worked on at once
_NOTHING = 1e-17
_LOG_NOTHING = math.log(_NOTHING)


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
    """The half-width h that holds Σ b_k·z_k with at least the given chance, and hardly more.

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
    _check_level(level)
    terms = _terms(coefficients, rates)
    return terms[0] * _half_width(terms[1], level, _MARGIN) if terms[1] else 0.0


def sum_quantiles(
    coefficients: Floats, rates: Sequence[Fraction | float | None], level: float
) -> Floats:
    """`sum_quantile` for every row of a matrix of coefficients; equal laws are inverted once.

    Where more than 64 laws differ, intervals may be too wide by 2 % of a standard error.

    Example:
        >>> sum_quantiles(np.eye(2), [0.1, None], 0.95).tolist()
        [30.0, 0.0]
    """
    _check_level(level)
    found = [_terms(row, rates) for row in np.asarray(coefficients)]
    margin = _MARGIN if len({terms for _, terms in found}) <= _MANY else _MARGIN_OF_MANY
    return np.array(
        [size * _half_width(terms, level, margin) if terms else 0.0 for size, terms in found]
    )


def _check_level(level: float) -> None:
    """Refuse what is no chance, or too near to certainty to be computed."""
    if not 0 < level <= 1 - 1e-9:
        raise QuestionError(f"level must lie between 0 and 1 − 10⁻⁹, got level={level}")


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
def _half_width(terms: Terms, level: float, margin: float) -> float:
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
    return _smoothed(b, variance, times, reach, level, margin)


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
    margin: float,
) -> float:
    """The quantile of the sum plus a narrow normal number, widened by that number's reach."""
    spread = math.sqrt(float(times @ (b**2 * variance)))
    wide = margin * spread
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
    found = brentq(missing, 0.0, reach, xtol=1e-6 * spread)
    return float(found) + 1e-6 * spread + wide
