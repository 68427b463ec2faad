"""Solvers: the least total variance by constraint generation, and published strategies.

The problem is scaled so that each query alone could have the rate 1: v_k = cap_k·x_k, and minimise
Σ a_k/x_k² subject to G·x ≤ 1. Pairs are added to G until none is violated. The three strategies of
Kamalaruban et al. 2020, §4.2, are there for comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from sfumato.arrays import Floats
from sfumato.metrics.closure import Indices
from sfumato.metrics.edges import Lookup, as_floats
from sfumato.noise.interior import lower_bound, minimise
from sfumato.noise.problem import Problem, Weighted, as_row
from sfumato.questions.workload import is_sparse

_MOST_ROUNDS = 200
_LISTED = 1 << 21  # entries of a constraint matrix up to which all pairs are given at once
_PER_CELL = 4  # pairs of one cell that are added in one round
_JITTER = 1e-9  # breaks ties at random, of which regular problems have many
_INNER = 0.25  # share of the tolerance to which each round is solved

Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """Rates per step that hold for every pair up to rounding, and a lower bound of Σ w_k/v_k²."""

    rates: Floats
    bound: float
    constraints: int
    rounds: int


def solve(
    problem: Problem,
    caps: Floats,
    pairs: tuple[Indices, Indices],
    weights: Floats,
    tolerance: float,
    progress: Progress | None = None,
) -> Solved:
    """Minimise Σ w_k/v_k² over rates per step v, to a relative gap that is proved.

    Args:
        problem: Queries each of which differs on some pair.
        caps: The largest rate each could have alone.
        pairs: The pair that limits each alone.
        weights: Positive, one per query, for rates per step.
        tolerance: Relative gap at which to stop.
        progress: Called with the share of the work done.
    """
    if len(caps) == 1:  # alone, a query has its cap: Kamalaruban et al. 2020, §4.1
        return Solved(caps, float((weights / caps**2).sum()), 1, 0)
    rows = Constraints(problem, caps)
    if not problem.edges.cliques and problem.edges.pairs * problem.width <= _LISTED:
        rows.add(problem.edges.first, problem.edges.second)
    else:
        rows.add(*pairs)
    cost = weights / caps**2
    best, value, bound = np.ones(len(caps)), np.inf, 0.0
    rounds = 0
    while rounds < _MOST_ROUNDS:
        rounds += 1
        x, multipliers, _ = minimise(rows.matrix, cost, _INNER * tolerance)
        bound = max(bound, lower_bound(rows.matrix, cost, multipliers))
        worst, i, j = overspent(problem, x * caps, per_cell=_PER_CELL << min(4, rounds // 2))
        x = x / worst
        found = float((cost / x**2).sum())
        if found < value:
            best, value = x, found
        gap = value / bound - 1
        if progress is not None:
            progress(1.0 if gap <= tolerance else max(0.0, math.log(gap) / math.log(tolerance)))
        if gap <= tolerance or not rows.add(i, j):
            break
    return Solved(best * caps, bound, rows.count, rounds)


class Constraints:
    """The rows of G generated so far, one per pair.

    Args:
        problem: Queries and distances.
        caps: The largest rate each query could have alone.
    """

    def __init__(self, problem: Problem, caps: Floats) -> None:
        """Start without constraints."""
        self.problem, self.caps = problem, caps
        self._known = np.zeros(0, dtype=np.intp)
        self._parts: list[Any] = []
        self._lengths = Lookup(problem.edges)

    def add(self, first: Indices, second: Indices) -> bool:
        """Add pairs, and say whether any was new.

        Args:
            first: The first cell of each pair.
            second: The second cell of each pair.
        """
        size = self.problem.edges.size
        keys = np.minimum(first, second) * size + np.maximum(first, second)
        new = np.setdiff1d(keys, self._known)
        if not len(new):
            return False
        self._known = np.union1d(self._known, new)
        i, j = np.divmod(new, size)
        d = self._lengths.floats(i, j)
        i, j, d = i[d > 0], j[d > 0], d[d > 0]
        apart = sparse.csr_array(self.problem.differences(i, j))
        row = sparse.csr_array(sparse.diags_array(1 / d) @ apart @ sparse.diags_array(self.caps))
        # No rate is above 1, so a row that sums to less can never bind.
        self._parts.append(row[np.flatnonzero(row.sum(axis=1) > 1 - 1e-9)])
        return True

    @property
    def matrix(self) -> sparse.csr_array:
        """All constraints so far."""
        if len(self._parts) > 1:
            self._parts = [sparse.csr_array(sparse.vstack(self._parts))]
        found: sparse.csr_array = self._parts[0]
        return found

    @property
    def count(self) -> int:
        """The number of constraints."""
        return sum(part.shape[0] for part in self._parts)


def overspent(
    problem: Problem, rates: Floats, per_cell: int = _PER_CELL
) -> tuple[float, Indices, Indices]:
    """The largest share of its distance that any pair spends, and the pairs that overspend most.

    Of each cell only the worst pairs are returned, because nearby pairs give similar constraints.

    Args:
        problem: Queries and distances.
        rates: The rate per step of each query.
        per_cell: Largest number of pairs per cell.
    """
    worst = 0.0
    none = np.zeros(0, dtype=np.intp)
    kept: list[tuple[Floats, Indices, Indices]] = [(np.zeros(0), none, none)]
    rng = np.random.default_rng(0)  # only to break ties
    for i, j, lengths, apart in problem.listed():
        d = np.where(lengths == 0, np.inf, as_floats(lengths, problem.edges.unit))
        share = (apart @ rates) / d
        worst = max(worst, float(share.max(initial=0.0)))
        over = np.flatnonzero(share > 1)
        noise = rng.uniform(1 - _JITTER, 1, len(over))
        kept.append(_worst_of_cells(share[over] * noise, i[over], j[over], per_cell))
    if problem.edges.cliques:
        weighted = Weighted.of(problem, rates)
        for clique in problem.edges.cliques:
            for part, cells, spent in weighted.tiles(clique):
                share = spent / float(clique.length)
                worst = max(worst, float(share.max(initial=0.0)))
                if share.max(initial=0.0) > 1:
                    share *= rng.uniform(1 - _JITTER, 1, share.shape)
                    kept.append(_worst_of_rows(share, part, cells, per_cell))
    share, i, j = (np.concatenate(sides) for sides in zip(*kept, strict=True))
    _, i, j = _worst_of_cells(share, i, j, per_cell)
    return worst, i, j


def binding_pairs(
    problem: Problem, rates: Floats, share: float = 1e-6, most: int = 1000
) -> tuple[tuple[int, int], ...]:
    """Pairs that spend all but a small share of their distance.

    Args:
        problem: Queries and distances.
        rates: The rate per step of each query.
        share: The share that may be left.
        most: Largest number of pairs returned.
    """
    _, i, j = overspent(problem, rates / (1 - share))
    pairs = sorted({(min(a, b), max(a, b)) for a, b in zip(i.tolist(), j.tolist(), strict=True)})
    return tuple(pairs[:most])


def _worst_of_rows(
    share: Floats, rows: Indices, columns: Indices, per_row: int
) -> tuple[Floats, Indices, Indices]:
    """The pairs of each row of a table that overspend most."""
    keep = min(per_row, share.shape[1])
    b = np.argpartition(share, -keep, axis=1)[:, -keep:].reshape(-1)
    a = np.repeat(np.arange(len(rows)), keep)
    over = share[a, b] > 1
    a, b = a[over], b[over]
    return share[a, b], rows[a], columns[b]


def _worst_of_cells(
    share: Floats, first: Indices, second: Indices, per_cell: int
) -> tuple[Floats, Indices, Indices]:
    """Those pairs that are among the worst few of both their cells, roughly."""
    order = np.argsort(-share, kind="stable")
    share, first, second = share[order], first[order], second[order]
    keep = np.ones(len(share), dtype=bool)
    for cells in (first, second):
        keep[keep] = _rank(cells[keep]) < per_cell
    return share[keep], first[keep], second[keep]


def _rank(values: Indices) -> Indices:
    """How often each value has occurred before its place."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(values) else order
    lengths = np.diff(np.r_[starts, len(values)])
    rank = np.empty(len(values), dtype=np.intp)
    rank[order] = np.arange(len(values)) - np.repeat(starts, lengths)
    return rank


_EXHAUSTED = 1e-12  # share of a pair's distance below which nothing is left of it


def equal(problem: Problem, caps: Floats, units: Floats) -> tuple[Floats, int]:
    """Strategy 1: each of the K queries may spend 1/K of each distance.

    Args:
        problem: Queries that all need noise.
        caps: The largest rate per step each could have alone.
        units: The lattice step of each query.

    Returns:
        Rates per step, and the number of rounds.
    """
    return caps / problem.queries, 1


def shared(problem: Problem, caps: Floats, units: Floats) -> tuple[Floats, int]:
    """Strategy 2: one scale for all queries, in their own units.

    Args:
        problem: Queries that all need noise.
        caps: The largest rate per step each could have alone.
        units: The lattice step of each query.

    Returns:
        Rates per step, and the number of rounds.
    """
    return units / overspent(problem, units)[0], 1


def psa(problem: Problem, caps: Floats, units: Floats) -> tuple[Floats, int]:
    """Strategy 3 (PSA, Algorithm 3): shares by need, repeated on what is left of each distance.

    Corrected: pairs on which no query differs, or only exhausted queries do, are left out, where
    the paper divides 0 by 0; a pair is exhausted within 10^-12 of its distance. It runs over the
    pairs that imply all others: rates that respect these respect their sums. For points in general
    position these are all pairs, as in the paper.

    Args:
        problem: Queries that all need noise.
        caps: The largest rate per step each could have alone.
        units: The lattice step of each query.

    Returns:
        Rates per step, and the number of rounds.
    """
    listed = Problem(problem.steps, problem.units, problem.edges.listed())
    start = as_floats(listed.edges.numerators, listed.edges.unit)
    left = start.copy()
    rates = np.zeros(problem.queries)
    for rounds in range(1, problem.queries + 2):
        alone = _least(listed, left, None)  # 1/c' of step 1
        step = alone * _least(listed, left, alone)  # 1/c of steps 2 and 3
        if not step.any():
            return rates, rounds - 1
        rates += step
        at = 0
        for i, _, _, apart in listed.listed():
            part = slice(at, at + len(i))
            at += len(i)
            rest = left[part] - apart @ step  # step 4
            left[part] = np.where(rest > _EXHAUSTED * start[part], rest, 0.0)
    return rates, rounds


def _least(problem: Problem, left: Floats, rates: Floats | None) -> Floats:
    """For each query, the minimum over pairs on which it differs of (what is left) / (its need).

    The need is the query's own difference, or, with rates, what all queries together would spend.
    """
    least = np.full(problem.queries, np.inf)
    at = 0
    for i, _, _, apart in problem.listed():
        here = left[at : at + len(i)]
        at += len(i)
        spent = None if rates is None else apart @ rates
        np.minimum(least, _least_of(apart, here, spent), out=least)
    return np.where(np.isfinite(least), least, 0.0)


def _least_of(apart: Any, left: Floats, spent: Floats | None) -> Floats:
    """The same for some of the pairs."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if is_sparse(apart):
            table: Any = sparse.coo_array(apart)
            need = table.data if spent is None else spent[table.row]
            found = np.full(apart.shape[1], np.inf)
            np.minimum.at(found, table.col, np.where(need > 0, left[table.row] / need, 0.0))
            return found
        need = apart if spent is None else spent[:, None]
        ratio = np.where(need > 0, left[:, None] / need, 0.0)
        return as_row(np.where(apart > 0, ratio, np.inf).min(axis=0, initial=np.inf))
