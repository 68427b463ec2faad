"""A primal-dual interior-point method: minimise Σ a_k/x_k² subject to G·x ≤ 1, with G ≥ 0.

With slacks s = 1 − G·x, multipliers λ ≥ 0 and ν = Gᵀλ, the Karush–Kuhn–Tucker conditions are

    stationarity      ν_k·x_k³ = 2a_k     for each variable k,
    complementarity   λ_j·s_j = 0         for each constraint j.

Both are products of positive numbers, as in linear programming. Newton steps towards them, with the
predictor and corrector of Mehrotra (1992), keep x, s and λ positive. Convergence is measured by the
dual function at λ, a lower bound of the optimum for every λ ≥ 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import splu

from sfumato.arrays import Floats
from sfumato.errors import TooLargeError
from sfumato.questions.workload import is_sparse

_MOST_STEPS = 200
_PATIENCE = 12  # steps without a smaller gap before rounding is taken to be the limit
_FINEST = 1e-11  # the gap aimed at: the error of the rates is of the order of its square root
_INSIDE = 0.995  # share of the way to the nearest bound that a step may go
_SPARSE_FROM = 256  # variables
_MOST_VARIABLES = 8192  # of a system that is solved as a dense one
_SPARSE = 0.05  # share of nonzero entries below which a system is solved as a sparse one
_LEAST_SLACK = 1e-3  # relative to the slack before the step: guards against rounding
_LEAST_PRODUCT = 1e-3  # relative to the mean of λ·s: no product may fall far behind the others
_ABREAST = 0.1  # λ·s may not fall below this share of the residual of stationarity
_LEAST_CURVATURES = (1e-14, 1e-12, 1e-10, 1e-8)  # added to a unit diagonal until Cholesky succeeds
_CENTRED = 3.0  # exponent of Mehrotra's centring parameter


def minimise(matrix: Any, cost: Floats, tolerance: float) -> tuple[Floats, Floats, float]:
    """An x with Gx ≤ 1 up to rounding, multipliers λ ≥ 0, and the relative gap they prove.

    Args:
        matrix: G, of shape (constraints, variables); each variable has a positive entry.
        cost: a, positive.
        tolerance: Relative gap to reach; while steps still help, it continues down to 1e-11.
    """
    G = matrix.toarray() if _is_dense(matrix) and is_sparse(matrix) else matrix
    a = cost / cost.sum()
    x = np.full(G.shape[1], 0.7 / float(np.asarray(G.sum(axis=1)).max()))
    s = 1 - G @ x
    multiplier = np.full(G.shape[0], 2 * float((a / x**2).sum()) / float((1 - s).sum()))
    best = (np.inf, x, multiplier)
    since = 0
    for _ in range(_MOST_STEPS):
        gap = _gap(G, a, x, multiplier)
        if gap < best[0]:
            since = 0 if gap < 0.9 * best[0] else since + 1
            best = (gap, x, multiplier)
        else:
            since += 1
        if best[0] <= _FINEST or since > (1 if best[0] <= tolerance else _PATIENCE):
            break
        x, s, multiplier = _step(G, a, x, s, multiplier)
    gap, x, multiplier = best
    return x / float((G @ x).max()), multiplier, gap


def lower_bound(matrix: Any, cost: Floats, multipliers: Floats) -> float:
    """A lower bound of Σ a_k/x_k² under Gx ≤ 1, proved by any λ ≥ 0 (weak duality).

    With ν = Gᵀλ, a/x² + ν·x is smallest at x³ = 2a/ν, so the dual function is
    g(λ) = F − Σλ with F = Σ_k 3·2^(−2/3)·a_k^(1/3)·ν_k^(2/3). Along the ray t·λ it is
    t^(2/3)·F − t·Σλ, with the maximum 4/27·F³/(Σλ)². The last factor covers all rounding.

    Args:
        matrix: G.
        cost: a, positive.
        multipliers: λ; negative entries count as 0.
    """
    used = np.maximum(multipliers, 0.0)
    total = float(used.sum())
    if not total > 0:
        return 0.0
    lagrange = 3 * 2 ** (-2 / 3) * float(np.cbrt(cost * (matrix.T @ used) ** 2).sum())
    return 4 / 27 * lagrange**3 / total**2 * (1 - 1e-12)


def _gap(G: Any, a: Floats, x: Floats, multipliers: Floats) -> float:
    """The relative distance of the value at x, scaled to touch a constraint, from the bound."""
    value = float((a / x**2).sum()) * float((G @ x).max()) ** 2
    return value / lower_bound(G, a, multipliers) - 1


def _step(
    G: Any, a: Floats, x: Floats, s: Floats, multiplier: Floats
) -> tuple[Floats, Floats, Floats]:
    """One predictor-corrector step (Mehrotra 1992; Nocedal and Wright 2006, Algorithm 14.3).

    Stationarity is linearised in logarithms: Gᵀdλ/ν + 3·dx/x = log(2a/(ν·x³)).
    Complementarity with the target products τ: s·dλ + λ·ds = τ − λ·s, where ds = −G·dx.
    Eliminating dλ and ds leaves one positive definite system for dx:

        (diag(3ν/x) + Gᵀ·diag(λ/s)·G)·dx = ν·log(2a/(ν·x³)) − Gᵀ((τ − λ·s)/s).
    """
    nu = G.T @ multiplier
    solve = _factor(G, 3 * nu / x, multiplier / s)
    missing = np.log(2 * a / (nu * x**3))
    mean = float(multiplier @ s) / len(s)

    def direction(products: Floats | float, logs: Floats) -> tuple[Floats, Floats, Floats]:
        """The Newton step towards given products λ·s and a given change of log(ν·x³)."""
        off = products - multiplier * s
        dx = solve(nu * logs - G.T @ (off / s))
        ds = -(G @ dx)
        return dx, ds, (off - multiplier * ds) / s

    # Predictor: aim at λ·s = 0. How much of the way it gets sets the target of the corrector.
    dx, ds, dm = direction(0.0, missing)
    primal, dual = _length(x, dx, s, ds), _length(multiplier, dm)
    after = float((multiplier + dual * dm) @ (s + primal * ds)) / len(s)
    target = mean * min(1.0, max(after / mean, 0.0)) ** _CENTRED
    target = max(target, min(mean, _ABREAST * float(nu @ (x * np.abs(missing))) / len(s)))
    # Corrector: the second-order terms of the predictor, ds·dλ and those of the logarithms.
    bent = ((G.T @ dm / nu) ** 2 + 3 * (dx / x) ** 2) / 2
    dx, ds, dm = direction(target - ds * dm, missing + np.minimum(bent, 1.0))
    length = _INSIDE * min(_length(x, dx, s, ds), _length(multiplier, dm))
    length = min(1.0, length)
    x = x + length * dx
    # Computed anew: in s + length·ds rounding errors would accumulate.
    s = np.maximum(1 - G @ x, _LEAST_SLACK * s)
    multiplier = np.maximum(multiplier + length * dm, np.finfo(float).tiny)
    mean = float(multiplier @ s) / len(s)
    return x, s, np.maximum(multiplier, _LEAST_PRODUCT * mean / s)


def _length(*values: Floats) -> float:
    """The largest step length, at most 1, at which all values stay nonnegative.

    Values and their directions alternate in the arguments.
    """
    longest = 1.0
    for value, change in zip(values[::2], values[1::2], strict=True):
        falling = change < 0
        if falling.any():
            longest = min(longest, float((value[falling] / -change[falling]).min()))
    return longest


def _is_dense(matrix: Any) -> bool:
    """Whether a matrix is better stored as a dense one."""
    if not is_sparse(matrix):
        return True
    rows, columns = matrix.shape
    return bool(columns < _SPARSE_FROM or matrix.nnz > 2 * _SPARSE * rows * columns)


def _factor(G: Any, diagonal: Floats, weights: Floats) -> Callable[[Floats], Floats]:
    """A function that solves (diag(diagonal) + Gᵀ·diag(weights)·G)·dx = right for dx."""
    size = len(diagonal)
    if size > _MOST_VARIABLES and not is_sparse(G):
        _refuse(size)
    if is_sparse(G):
        normal = (G.T @ sparse.diags_array(weights) @ G + sparse.diags_array(diagonal)).tocsc()
        if normal.nnz < _SPARSE * size * size:
            scale = 1 / np.sqrt(normal.diagonal())
            even = sparse.csc_matrix(sparse.diags_array(scale) @ normal @ sparse.diags_array(scale))
            found = splu(even, permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
            return lambda right: scale * found.solve(scale * right)
        if size > _MOST_VARIABLES:
            _refuse(size)
        full = normal.toarray()
    else:
        full = G.T @ (weights[:, None] * G)
        full[np.diag_indices(size)] += diagonal
    scale = 1 / np.sqrt(full.diagonal())
    full *= scale[:, None] * scale
    for least in _LEAST_CURVATURES:
        full[np.diag_indices(size)] = 1 + least
        try:
            factor = linalg.cho_factor(full, check_finite=False)
        except linalg.LinAlgError:  # no longer positive definite, because of rounding
            continue
        return lambda right: scale * linalg.cho_solve(factor, scale * right, check_finite=False)
    raise ArithmeticError("the system of a step is not positive definite: entries are not finite")


def _refuse(size: int) -> None:
    """Refuse a system that is too large."""
    raise TooLargeError(
        f"{size:,} queries that share constraints are beyond the {_MOST_VARIABLES:,} of an exact "
        f"allocation: use fewer, or method='psa'"
    )
