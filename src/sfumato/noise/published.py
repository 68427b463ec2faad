"""The three strategies of Kamalaruban et al. 2020, §4.2, to compare with the exact optimum."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from sfumato.arrays import Floats
from sfumato.metrics.edges import as_floats
from sfumato.noise.interior import is_sparse
from sfumato.noise.problem import Problem, as_row
from sfumato.noise.solve import overspent

_EXHAUSTED = 1e-12  # share of a pair's distance below which nothing is left of it


def equal(problem: Problem, caps: Floats, units: Floats) -> tuple[Floats, int]:
    """Strategy 1: every query gets 1/K of every distance."""
    return caps / problem.queries, 1


def shared(problem: Problem, caps: Floats, units: Floats) -> tuple[Floats, int]:
    """Strategy 2: one scale for all queries, in their own units."""
    return units / overspent(problem, units)[0], 1


def psa(problem: Problem, caps: Floats, units: Floats) -> tuple[Floats, int]:
    """Strategy 3, Algorithm 3: shares by need, again and again on what is left.

    Pairs on which no query differs, or only exhausted ones, are left out, where the paper divides
    0 by 0; a pair counts as used up within 10^-12 of its distance. It runs over the pairs that
    imply all others: what fits each of them fits their sums. For points in general position these
    are all pairs, as in the paper.
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
    """For every query the least, over pairs on which it differs, of what is left over its need.

    The need is the query's own difference, or with rates what all queries together would spend.
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
