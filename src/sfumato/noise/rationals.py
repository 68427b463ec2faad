"""From doubles that nearly hold to rationals that do, simple ones where the optimum has them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from sfumato.arrays import Floats
from sfumato.metrics.closure import Indices
from sfumato.metrics.edges import Lookup
from sfumato.noise.certify import verify
from sfumato.noise.problem import Problem
from sfumato.noise.solve import overspent

RATE_BITS = 30  # of a rate that is no simple fraction: small enough for exact samplers
_LARGEST = 1 << 31, 1 << 62  # numerator and denominator of a simple one
_ALIKE = 1e-5  # relative; rates are as sure as the root of the gap that the solver proves
_SIMPLE = ((64, _ALIKE), (4096, 1e-10))  # largest denominator, and how near it must be
_MOST_RETREATS = 8
_LOST = 4e-9  # of the total variance: what rounding down to `RATE_BITS` may cost


def exact_caps(problem: Problem, first: Indices, second: Indices) -> list[Fraction]:
    """The most each query could have alone, from the pair that binds it, as a rational."""
    lengths = Lookup(problem.edges).exact(first, second)
    steps = problem.steps
    found = []
    for k, length in enumerate(lengths):
        if length is None:
            raise ValueError("a pair that binds must be listed or in a group")
        found.append(length / int(abs(steps[first[k], k] - steps[second[k], k])))
    return found


def even_out(problem: Problem, rates: Floats, caps: Floats, weights: Floats) -> Floats:
    """Rates with those that differ by no more than the solver's error made equal.

    What is gained by symmetry is kept only if the total variance does not rise by more than 1e-9.
    """
    shares = rates / caps
    order = np.argsort(shares)
    ordered = shares[order]
    cluster = np.cumsum(np.r_[False, ordered[1:] > ordered[:-1] * (1 + _ALIKE)])
    means = np.bincount(cluster, ordered) / np.bincount(cluster)
    even = np.empty_like(shares)
    even[order] = means[cluster]
    even *= caps
    even /= overspent(problem, even)[0]
    worse = float((weights / even**2).sum()) > (1 + 1e-9) * float((weights / rates**2).sum())
    return rates if worse else even


def certify(
    problem: Problem, rates: Floats, caps: Sequence[Fraction], weights: Floats | None = None
) -> tuple[Fraction, ...]:
    """Rationals as good as given rates per step, but for rounding, for which every pair holds.

    Rates close to a simple multiple of what the query could have alone are tried as that; where
    pairs then overspend or the total variance rises, and for all others, `RATE_BITS` bits are kept
    and rounded down.

    Args:
        problem: Queries that all need noise.
        rates: Rates that hold up to rounding.
        caps: The most each could have alone.
        weights: How much the variance of every query counts, in steps; left out, all alike.
    """
    counts = np.ones(len(rates)) if weights is None else weights
    most = (1 + _LOST) * float((counts / rates**2).sum())
    down = [round_down(rate) for rate in rates.tolist()]
    simple = [_simple(rate, cap) for rate, cap in zip(rates.tolist(), caps, strict=True)]
    for _ in range(_MOST_RETREATS):
        if not any(simple):
            break
        tried = tuple(found or plain for found, plain in zip(simple, down, strict=True))
        values = np.array([float(rate) for rate in tried])
        if float((counts / values**2).sum()) > most:
            lower = (values < (1 - _LOST / 4) * rates).tolist()
            simple = [None if worse else s for worse, s in zip(lower, simple, strict=True)]
        elif verify(problem, tried):
            return tried
        else:
            simple = _retreat(problem, simple, values, rates)
    for margin in (0.0, *(2.0**-power for power in range(44, 8, -4))):
        tried = tuple(round_down(rate * (1 - margin)) for rate in rates.tolist())
        if verify(problem, tried):
            return tried
    raise ArithmeticError("the rates to be certified are far from holding")


def round_down(rate: float, bits: int = RATE_BITS) -> Fraction:
    """The largest rational of so many binary digits that is not above a double.

    Example:
        >>> round_down(0.3, 4)
        Fraction(9, 32)
    """
    mantissa, exponent = math.frexp(rate)
    return math.floor(math.ldexp(mantissa, bits)) * Fraction(2) ** (exponent - bits)


def _simple(rate: float, cap: Fraction) -> Fraction | None:
    """A simple multiple of the cap close to a rate, small enough for samplers."""
    share = rate / float(cap)
    for most, near in _SIMPLE:
        parts = Fraction(share).limit_denominator(most)
        if parts > 0 and abs(float(parts) - share) <= near * share:
            found = cap * parts
            if found.numerator < _LARGEST[0] and found.denominator < _LARGEST[1]:
                return found
    return None


def _retreat(
    problem: Problem, simple: list[Fraction | None], values: Floats, rates: Floats
) -> list[Fraction | None]:
    """Give up simple rates above the given ones that take part in a pair that overspends."""
    _, i, j = overspent(problem, values * (1 + 1e-12), per_cell=problem.edges.size)
    apart = problem.differences(i, j)
    parts = np.asarray(apart.sum(axis=0)).reshape(-1) > 0
    drop = parts & (values > rates)
    if not drop.any():
        drop = parts if parts.any() else np.ones(len(values), dtype=bool)
    return [None if gone else found for gone, found in zip(drop.tolist(), simple, strict=True)]
