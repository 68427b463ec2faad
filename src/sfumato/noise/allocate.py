"""Noise allocation: the least Laplace noise on several queries that keeps a guarantee E.

Minimise Σ w_k/u_k² subject to Σ_k u_k·|Q_ki − Q_kj| ≤ d_ij for all cells i, j, with u_k = 1/scale
of the Laplace noise on query k. The choice of s in Xiang et al. 2020, §3.1, and of c in Kamalaruban
et al. 2020, §4.2, are this one convex problem.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sfumato.arrays import Floats
from sfumato.errors import StudyError, TooLargeError, near
from sfumato.exact import rational
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.edges import Edges, read_edges
from sfumato.noise.certify import Check, certify, even_out, exact_caps, round_down, verify
from sfumato.noise.given import Given, slack
from sfumato.noise.problem import Problem, caps, read_problem
from sfumato.noise.solve import binding_pairs, equal, psa, shared, solve

_PUBLISHED = {"equal": equal, "shared": shared, "psa": psa}
_METHODS = ("exact", *_PUBLISHED)
_FAR = 256  # binary exponent beyond which the square of a number is not safely a double
_LEAST_UNIT = 1e-100  # share of the largest unit
_LEAST_COST = 1e-30  # share of the largest cost below which queries are not told apart


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """The rate of the noise on each query; every pair of cells keeps its distance exactly.

    Attributes:
        rates: 1/scale of the noise on each query; None where no noise is needed, because the query
            is constant or differs only between cells at an infinite distance; 0 where the query
            has no weight and must not be asked.
        scales: Scales of the Laplace noise: 0 where none is needed, infinite where the query must
            not be asked.
        units: The lattice step of each query: rates times units are rates per step.
        objective: Σ w_k·scale_k².
        gap: An upper bound on how far the objective is above the optimum, relatively. It is proved
            from multipliers, independently of the solver; None for a method that is not optimal.
        constraints: Number of pairs given to the solver.
        pairs: Number of pairs that imply all others.
        rounds: Number of rounds in which pairs were generated.
        binding: Pairs of cells that spend all but a millionth of their distance, at most 1,000.
        method: How the rates were chosen.
    """

    rates: tuple[Fraction | None, ...]
    scales: Floats
    units: tuple[Fraction, ...]
    objective: float
    gap: float | None
    constraints: int
    pairs: int
    rounds: int
    binding: tuple[tuple[int, int], ...]
    method: str

    @property
    def step_rates(self) -> tuple[Fraction | None, ...]:
        """Rates of the noise per lattice step, as `randomness.laplace.discrete_laplace` takes."""
        return tuple(
            None if rate is None else rate * unit
            for rate, unit in zip(self.rates, self.units, strict=True)
        )

    def __str__(self) -> str:
        """A summary in one line."""
        noisy = sum(rate is not None for rate in self.rates)
        near_ = "" if self.gap is None else f", within {self.gap:.1e} of the least possible"
        return (
            f"{noisy} of {len(self.rates)} queries with noise ({self.method}): sum of squared "
            f"scales {self.objective:.6g}{near_}; {self.constraints:,} of {self.pairs:,} pairs used"
        )


def allocate(
    queries: Any,
    distances: Edges | CellMetric | ArrayLike,
    *,
    weights: ArrayLike | None = None,
    method: str = "exact",
    tolerance: float = 1e-7,
    progress: Callable[[float], None] | None = None,
    cells: Sequence[str] | None = None,
) -> Allocation:
    """Choose the noise on each query so that all answers together keep every pair's distance.

    Guarantee:
        With Laplace noise of scale 1/rate on every query, discrete on its lattice or continuous,
        the odds of any answers change by at most e^d(i, j) when one record moves from cell i to
        cell j. This is checked in exact arithmetic for every pair before anything is returned. It
        holds for the queries as they are given, whether a float is read as the decimal that prints
        it or as the binary number that it is, and for `scales` as the doubles that they are. A
        distance that is a float means the decimal that prints it, as every ε does.

    Args:
        queries: A `Lattice`, a `Workload`, or a matrix with one row per query.
        distances: `Edges`, a metric of cells, or a square array; zeros and infinities are allowed,
            and distances that are not closed under shortest paths are closed first.
        weights: How much the variance of each query counts; 1 by default. 0 leaves it out.
        method: "exact" for the optimum; "equal", "shared" and "psa" for strategies 1, 2 and 3 of
            Kamalaruban et al. 2020 (corrected where they divide 0 by 0), for comparison.
        tolerance: Relative gap to the optimum at which "exact" stops.
        progress: Called with the share of the work done.
        cells: Names of the cells, for error messages.

    Raises:
        StudyError: If a query distinguishes two cells at distance 0, or shapes do not match.

    Example:
        >>> both = allocate([[1, 0, 0], [0, 1, 0]], [[0, 1, 1], [1, 0, 1], [1, 1, 0]])
        >>> both.rates, both.scales.tolist(), both.objective
        ((Fraction(1, 2), Fraction(1, 2)), [2.0, 2.0], 8.0)
    """
    if method not in _METHODS:
        raise StudyError(f"method must be known, got {method!r}: {near(method, _METHODS)}")
    if not 0 < tolerance < 1:
        raise StudyError(f"tolerance must be between 0 and 1, got tolerance={tolerance}")
    given = Given.of(queries)
    edges = read_edges(distances)
    times = _times([edges.shortest or Fraction(1)])  # so that squares of distances are doubles
    problem = _problem(given, queries, edges.scaled(times), cells)
    counts = _read_weights(weights, problem.queries)
    most, first, second = caps(problem)
    rates: list[Fraction | None] = [None if math.isinf(cap) else Fraction(0) for cap in most]
    asked = np.flatnonzero(np.isfinite(most) & (counts > 0))
    bound, constraints, rounds = 0.0, 0, 0
    binding: tuple[tuple[int, int], ...] = ()
    gap = 0.0
    if len(asked):
        part, alone, ends = problem.only(asked), most[asked], (first[asked], second[asked])
        own = [problem.units[k] for k in asked]
        even = _times(own)
        units = np.array([float(unit * even) for unit in own])
        cost = counts[asked] * units**2
        cost = np.maximum(cost, _LEAST_COST * float((cost / alone**2).max()) * alone**2)
        if method == "exact":
            found = solve(part, alone, ends, cost, tolerance, progress)
            bound, constraints, rounds = found.bound, found.constraints, found.rounds
            steps = even_out(part, found.rates, alone, cost)
        else:
            if units.min() < _LEAST_UNIT * units.max():
                raise TooLargeError(
                    f"queries must be less than 1e100 times as large as each other for "
                    f"method={method!r}: give them in other units, or use method='exact'"
                )
            steps, rounds = _PUBLISHED[method](part, alone, units)
        exact = certify(part, steps, exact_caps(part, *ends), cost)
        off = [given.off[k] for k in asked]
        more = slack([rate / unit for rate, unit in zip(exact, own, strict=True)], off, part.edges)
        if more > 1:
            exact = tuple(round_down(rate / more) for rate in exact)
        for k, rate in zip(asked.tolist(), exact, strict=True):
            rates[k] = rate / problem.units[k] / times
        held = np.array([float(rate) for rate in exact])
        binding = binding_pairs(part, held)
        gap = max(0.0, float((cost / held**2).sum()) / bound - 1) if bound else 0.0
    scales = np.array([_scale(rate) for rate in rates])
    with np.errstate(over="ignore"):
        objective = float((counts[asked] * scales[asked] ** 2).sum())
    return Allocation(
        rates=tuple(rates),
        scales=scales,
        units=problem.units,
        objective=objective,
        gap=gap if method == "exact" else None,
        constraints=constraints,
        pairs=problem.edges.pairs,
        rounds=rounds,
        binding=binding,
        method=method,
    )


def check(
    queries: Any,
    distances: Edges | CellMetric | ArrayLike,
    rates: Sequence[Fraction | None],
) -> Check:
    """Check in exact arithmetic whether noise at given rates keeps every pair's distance.

    Xiang et al. 2020, Proposition 2, and Kamalaruban et al. 2020, Theorem 2: the guarantee holds
    if and only if Σ_k u_k·|Q_ki − Q_kj| ≤ d_ij for every pair.

    Args:
        queries: A `Lattice`, a `Workload`, or a matrix with one row per query.
        distances: As in `allocate`.
        rates: 1/scale of each query; None where it is answered without noise.

    Example:
        >>> flat = [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
        >>> rows = [[1, 0, 0], [0, 1, 0]]
        >>> bool(check(rows, flat, [Fraction(1, 2)] * 2)), check(rows, flat, [1, 1]).pair
        (True, (0, 1))
    """
    given = Given.of(queries)
    problem = _problem(given, queries, read_edges(distances), None)
    if len(rates) != problem.queries:
        raise StudyError(
            f"rates must be one for each of {problem.queries} queries, got {len(rates)}"
        )
    exact = [None if rate is None else rational(rate, "rate") for rate in rates]
    if any(rate is not None and rate < 0 for rate in exact):
        raise StudyError("rates must be 0 or more, got a negative one")
    more = slack(exact, given.off, problem.edges)
    steps = [
        None if rate is None else rate * unit * more
        for rate, unit in zip(exact, problem.units, strict=True)
    ]
    return verify(problem, steps)


def _problem(given: Given, queries: Any, edges: Edges, cells: Sequence[str] | None) -> Problem:
    """Queries as they were read, under the names that they were given, with the distances."""
    return read_problem(given.lattice, edges, getattr(queries, "labels", None), cells)


def _times(numbers: Sequence[Fraction]) -> Fraction:
    """1, or a power of 2 that makes the largest number about 1 where it is far from that."""
    most = max(numbers)
    power = most.denominator.bit_length() - most.numerator.bit_length()
    return Fraction(2) ** power if abs(power) > _FAR else Fraction(1)


def _scale(rate: Fraction | None) -> float:
    """The scale of the noise at a rate: the least double that is not below it."""
    if not rate:
        return 0.0 if rate is None else math.inf
    try:
        scale = float(1 / rate)
    except OverflowError:
        raise TooLargeError(
            "the noise on a query would have a scale beyond 1e308: give the query in larger units"
        ) from None
    return scale if Fraction(scale) * rate >= 1 else math.nextafter(scale, math.inf)


def _read_weights(weights: ArrayLike | None, queries: int) -> Floats:
    """One nonnegative number per query."""
    if weights is None:
        return np.ones(queries)
    counts = np.asarray(weights, dtype=np.float64)
    if counts.shape != (queries,):
        raise StudyError(
            f"weights must be one for each of {queries} queries, got shape {counts.shape}"
        )
    bad = np.flatnonzero(~((counts >= 0) & np.isfinite(counts)))
    if len(bad):
        raise StudyError(
            f"weights must be 0 or more and finite, got {counts[bad[0]]} for query {bad[0]}"
        )
    return counts
