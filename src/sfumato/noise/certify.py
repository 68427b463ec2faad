"""Certified rates: rational numbers under which every pair keeps its distance, checked exactly.

The solver returns doubles. They become rationals, simple ones where the optimum has them, and
Σ_k v_k·|steps_ki − steps_kj| ≤ d_ij is then verified for every pair: in doubles where the margin is
larger than all rounding errors, and in integers otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.arrays import Floats
from sfumato.metrics.closure import Indices
from sfumato.metrics.edges import Lookup
from sfumato.noise.problem import Problem, Weighted
from sfumato.noise.solve import overspent

_EPS = 2.0**-52
_EXACT = 1 << 52  # integers below it, and their sums, are exact as doubles
_WIDEST = 48  # bits of a sum of steps up to which 64-bit arithmetic is used
_UNDECIDED = 1 << 14  # pairs that are decided in integers at a time

RATE_BITS = 30  # of a rate that is not a simple fraction: few enough for exact samplers
COARSE_BITS = 12  # of a rate in a study file, which every machine should find alike
_EXACT_DENOMINATOR = 1 << 20
_LARGEST = 1 << 31, 1 << 62  # numerator and denominator of a simple rate
_ALIKE = 1e-5  # relative: the error of a rate is of the order of the root of the solver's gap
_SIMPLE = ((64, _ALIKE), (4096, 1e-10))  # largest denominator, and the relative distance allowed
_MOST_RETREATS = 8
_LOST = 4e-9  # relative: how much rounding to `RATE_BITS` may add to the total variance


@dataclass(frozen=True, slots=True)
class Check:
    """Whether every pair of cells keeps its distance, decided exactly.

    Attributes:
        holds: Whether all pairs do; also the truth value of the object.
        pair: The first pair found that does not.
    """

    holds: bool
    pair: tuple[int, int] | None = None

    def __bool__(self) -> bool:
        """Whether all pairs hold."""
        return self.holds


HOLDS = Check(True)


def verify(problem: Problem, rates: Sequence[Fraction | None]) -> Check:
    """Whether Σ_k v_k·|steps_ki − steps_kj| ≤ d_ij for every pair, in exact arithmetic.

    Args:
        problem: The queries and pairs.
        rates: Rates per step; None for a query that is answered without noise, which must be
            constant wherever cells are at a finite distance.
    """
    silent = np.array([k for k, rate in enumerate(rates) if rate is None], dtype=np.intp)
    noisy = np.array([k for k, rate in enumerate(rates) if rate], dtype=np.intp)
    found = _constant(problem.only(silent)) if len(silent) else HOLDS
    if found and len(noisy):
        sums = RationalSums([rate for rate in rates if rate])
        chosen = problem.only(noisy)
        found = _listed(chosen, sums)
        if found and problem.edges.cliques:
            found = _grouped(chosen, sums)
    return found


class RationalSums:
    """Σ_k v_k·n_k over whole numbers n_k: in doubles with an error bound, or exactly.

    Args:
        rates: The rationals v_k.
    """

    def __init__(self, rates: Sequence[Fraction]) -> None:
        """Put the rates over a common denominator."""
        self.denominator = math.lcm(*(rate.denominator for rate in rates))
        self.numerators = [int(rate * self.denominator) for rate in rates]
        self.floats = np.array([float(rate) for rate in rates])
        self.error = (len(rates) + 8) * _EPS  # relative error of a sum of terms of one sign

    def exactly(self, apart: Any) -> list[int]:
        """The sum for each row of whole numbers, times the denominator.

        The numerators are split into digits small enough for each partial sum to fit 64 bits.
        """
        widest = int(np.asarray(apart.sum(axis=1)).max(initial=0)).bit_length()
        if widest > _WIDEST:
            rows = apart.toarray() if hasattr(apart, "toarray") else apart
            pairs = [zip(row, self.numerators, strict=True) for row in rows.tolist()]
            return [sum(int(steps) * number for steps, number in pair) for pair in pairs]
        whole = apart.astype(np.int64)
        digit = 62 - widest
        totals = [0] * whole.shape[0]
        for shift in range(0, max(n.bit_length() for n in self.numerators), digit):
            digits = [number >> shift & (1 << digit) - 1 for number in self.numerators]
            part = (whole @ np.array(digits, dtype=np.int64)).tolist()
            totals = [total + (value << shift) for total, value in zip(totals, part, strict=True)]
        return totals

    def as_doubles(self, spread: Floats) -> Floats | None:
        """The numerators as doubles, if all sums over differences up to `spread` are exact."""
        total = sum(n * int(most) for n, most in zip(self.numerators, spread, strict=True))
        return np.array(self.numerators, dtype=np.float64) if 4 * total < _EXACT else None


def _listed(problem: Problem, sums: RationalSums) -> Check:
    """Check the listed pairs."""
    unit = problem.edges.unit
    for i, j, lengths, apart in problem.listed():
        spent = (apart @ sums.floats) * (1 + sums.error)
        allowed = lengths.astype(np.float64) * float(unit) * (1 - 4 * _EPS)
        doubtful = np.flatnonzero(~(spent <= allowed))
        for start in range(0, len(doubtful), _UNDECIDED):
            part = doubtful[start : start + _UNDECIDED]
            bad = _beyond(sums, apart[part], [int(n) * unit for n in lengths[part]])
            if bad is not None:
                return Check(False, (int(i[part[bad]]), int(j[part[bad]])))
    return HOLDS


def _grouped(problem: Problem, sums: RationalSums) -> Check:
    """Check the pairs within cliques, block by block."""
    whole = sums.as_doubles(problem.spread(np.arange(problem.edges.size)))
    weighted = Weighted.of(problem, sums.floats if whole is None else whole)
    for clique in problem.edges.cliques:
        for part, cells, spent in weighted.tiles(clique):
            if whole is not None:  # integers without rounding: this decides
                a, b = np.nonzero(spent > min(_EXACT, math.floor(clique.length * sums.denominator)))
            else:
                sizes = weighted.sums[part][:, None] + weighted.sums[cells]
                least = float(clique.length) * (1 - 4 * _EPS)
                a, b = np.nonzero(~(spent + 2 * sums.error * sizes <= least))
            for start in range(0, len(a), _UNDECIDED):
                i, j = part[a[start : start + _UNDECIDED]], cells[b[start : start + _UNDECIDED]]
                bad = _beyond(sums, problem.differences(i, j), [clique.length] * len(i))
                if bad is not None:
                    return Check(False, (int(i[bad]), int(j[bad])))
    return HOLDS


def _beyond(sums: RationalSums, apart: Any, lengths: Sequence[Fraction]) -> int | None:
    """The first row whose sum exceeds its length, in integers."""
    for row, (total, length) in enumerate(zip(sums.exactly(apart), lengths, strict=True)):
        if total * length.denominator > length.numerator * sums.denominator:
            return row
    return None


def _constant(problem: Problem) -> Check:
    """Check that the queries distinguish no two cells at a finite distance."""
    for i, j, _, apart in problem.listed():
        rows = apart.nonzero()[0]
        if len(rows):
            return Check(False, (int(i[rows[0]]), int(j[rows[0]])))
    for clique in problem.edges.cliques:
        for cells in clique.members():
            differs = np.flatnonzero(problem.spread(cells))
            if len(differs):
                some = problem.steps[cells][:, differs[:1]]
                values = some.toarray() if hasattr(some, "toarray") else some
                return Check(False, (int(cells[values.argmax()]), int(cells[values.argmin()])))
    return HOLDS


def exact_caps(problem: Problem, first: Indices, second: Indices) -> list[Fraction]:
    """The largest rate each query could have alone, as a rational.

    Args:
        problem: Queries and distances.
        first: The first cell of the pair that limits each query.
        second: The second cell.
    """
    lengths = Lookup(problem.edges).exact(first, second)
    steps = problem.steps
    found = []
    for k, length in enumerate(lengths):
        if length is None:
            raise ValueError("a pair that binds must be listed or in a clique")
        found.append(length / int(abs(steps[first[k], k] - steps[second[k], k])))
    return found


def even_out(problem: Problem, rates: Floats, caps: Floats, weights: Floats) -> Floats:
    """Make rates equal that differ by no more than the solver's error, to restore symmetry.

    The result is used only if the total variance rises by at most 1e-9, relatively.

    Args:
        problem: Queries and distances.
        rates: Rates per step from the solver.
        caps: The largest rate each query could have alone.
        weights: How much the variance of each query counts.
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
    """Rational rates per step close to given ones, under which every pair keeps its distance.

    A rate close to a simple multiple of its cap is replaced by that multiple. Where pairs then
    overspend or the total variance rises, and for all other rates, the rate is rounded down to
    `RATE_BITS` bits.

    Args:
        problem: Queries that all need noise.
        rates: Rates per step that hold up to rounding.
        caps: The largest rate each query could have alone.
        weights: How much the variance of each query counts, in steps; all the same by default.

    Raises:
        ArithmeticError: If the given rates are far from keeping the distances.
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


def round_down(rate: float | Fraction, bits: int = RATE_BITS) -> Fraction:
    """The largest rational with a given number of binary digits that is not above a number.

    Args:
        rate: The number.
        bits: Number of digits.

    Example:
        >>> round_down(0.3, 4)
        Fraction(9, 32)
    """
    exact = Fraction(rate)
    digits = exact.numerator.bit_length() - exact.denominator.bit_length()
    if exact >= Fraction(2) ** digits:
        digits += 1
    unit = Fraction(2) ** (digits - bits)
    return math.floor(exact / unit) * unit


def coarsened(rate: Fraction) -> Fraction:
    """A rate rounded down to `COARSE_BITS`, in which the rounding errors of a solver disappear.

    It cannot be promised for a rate within such an error of a boundary. Rates with a small
    denominator are exact, and stay as they are.

    Example:
        >>> coarsened(Fraction(1, 3)), coarsened(round_down(1 / 3))
        (Fraction(1, 3), Fraction(1365, 4096))
    """
    return rate if rate.denominator < _EXACT_DENOMINATOR else round_down(rate, COARSE_BITS)


def _simple(rate: float, cap: Fraction) -> Fraction | None:
    """A simple multiple of the cap close to a rate, with few enough digits for samplers."""
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
    """Drop simple rates above the given ones that contribute to a pair that overspends."""
    _, i, j = overspent(problem, values * (1 + 1e-12), per_cell=problem.edges.size)
    apart = problem.differences(i, j)
    parts = np.asarray(apart.sum(axis=0)).reshape(-1) > 0
    drop = parts & (values > rates)
    if not drop.any():
        drop = parts if parts.any() else np.ones(len(values), dtype=bool)
    return [None if gone else found for gone, found in zip(drop.tolist(), simple, strict=True)]
