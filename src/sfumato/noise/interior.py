"""An interior-point method for: minimise Σ a_k/x_k² subject to G·x ≤ 1, with G ≥ 0.

With multipliers λ ≥ 0 and ν = Gᵀλ, the best x has ν_k·x_k³ = 2a_k and λ_j·(1 − G·x)_j = 0. Both
are products of positive numbers, as in a linear programme, and Newton steps towards them, with
Mehrotra's corrector, keep everything positive and Gx ≤ 1. How near the end is, is read off the
dual function at λ, which bounds the least value from below whatever λ is.
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
_PATIENCE = 12  # steps without a better gap, after which rounding has the last word
_FINEST = 1e-11  # gap that is aimed at, as rates are only as sure as its root
_INSIDE = 0.995  # of the way to the nearest bound
_SPARSE_FROM = 256  # variables
_MOST_VARIABLES = 8192  # of a system that is solved in full
_SPARSE = 0.05  # share of entries below which a system is solved as a sparse one
_LEAST_SLACK = 1e-3  # of what it was, where rounding takes more away
_LEAST_PRODUCT = 1e-3  # of their mean: products of slacks and multipliers must not drift apart
_ABREAST = 0.1  # of what is left to do on the other conditions, which slacks may not run ahead of
_LEAST_CURVATURES = (1e-14, 1e-12, 1e-10, 1e-8)  # added to a diagonal of ones, as rounding asks
_CENTRED = 3.0  # power by which a good first step lowers the target, from Mehrotra


def minimise(matrix: Any, cost: Floats, tolerance: float) -> tuple[Floats, Floats, float]:
    """An x with Gx ≤ 1 up to rounding, multipliers λ ≥ 0, and the relative gap they prove.

    Args:
        matrix: G, shape (constraints, variables); every variable has a positive entry.
        cost: a, positive.
        tolerance: Relative gap to reach; while steps keep helping it goes on to 1e-11.
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
    """A lower bound of Σ a_k/x_k² under Gx ≤ 1, proved by any λ ≥ 0.

    The Lagrangian is at least Σ_k 3·2^(−2/3)·a_k^(1/3)·(Gᵀλ)_k^(2/3) − Σλ; the best multiple of λ
    makes that 4/27·F³/(Σλ)², with F the first sum. The last factor outweighs all rounding.
    """
    used = np.maximum(multipliers, 0.0)
    total = float(used.sum())
    if not total > 0:
        return 0.0
    lagrange = 3 * 2 ** (-2 / 3) * float(np.cbrt(cost * (matrix.T @ used) ** 2).sum())
    return 4 / 27 * lagrange**3 / total**2 * (1 - 1e-12)


def _gap(G: Any, a: Floats, x: Floats, multipliers: Floats) -> float:
    """How far above the bound the value is, once x is scaled to touch a constraint."""
    value = float((a / x**2).sum()) * float((G @ x).max()) ** 2
    return value / lower_bound(G, a, multipliers) - 1


def _step(
    G: Any, a: Floats, x: Floats, s: Floats, multiplier: Floats
) -> tuple[Floats, Floats, Floats]:
    """One step of Newton's method with predictor and corrector."""
    nu = G.T @ multiplier
    solve = _factor(G, 3 * nu / x, multiplier / s)
    missing = np.log(2 * a / (nu * x**3))
    mean = float(multiplier @ s) / len(s)

    def direction(products: Floats | float, logs: Floats) -> tuple[Floats, Floats, Floats]:
        """Towards given products λ·s, and a change of log(ν·x³), to first order."""
        off = products - multiplier * s
        dx = solve(nu * logs - G.T @ (off / s))
        ds = -(G @ dx)
        return dx, ds, (off - multiplier * ds) / s

    dx, ds, dm = direction(0.0, missing)
    primal, dual = _length(x, dx, s, ds), _length(multiplier, dm)
    after = float((multiplier + dual * dm) @ (s + primal * ds)) / len(s)
    target = mean * min(1.0, max(after / mean, 0.0)) ** _CENTRED
    target = max(target, min(mean, _ABREAST * float(nu @ (x * np.abs(missing))) / len(s)))
    bent = ((G.T @ dm / nu) ** 2 + 3 * (dx / x) ** 2) / 2  # of the logarithms, to second order
    dx, ds, dm = direction(target - ds * dm, missing + np.minimum(bent, 1.0))
    length = _INSIDE * min(_length(x, dx, s, ds), _length(multiplier, dm))
    length = min(1.0, length)
    x = x + length * dx
    # Not s + length·ds, whose rounding would add up.
    s = np.maximum(1 - G @ x, _LEAST_SLACK * s)
    multiplier = np.maximum(multiplier + length * dm, np.finfo(float).tiny)
    mean = float(multiplier @ s) / len(s)
    return x, s, np.maximum(multiplier, _LEAST_PRODUCT * mean / s)


def _length(*values: Floats) -> float:
    """The largest step, at most 1, along which pairs of values and directions stay positive."""
    longest = 1.0
    for value, change in zip(values[::2], values[1::2], strict=True):
        falling = change < 0
        if falling.any():
            longest = min(longest, float((value[falling] / -change[falling]).min()))
    return longest


def _is_dense(matrix: Any) -> bool:
    """Whether a matrix is better kept in full."""
    if not is_sparse(matrix):
        return True
    rows, columns = matrix.shape
    return bool(columns < _SPARSE_FROM or matrix.nnz > 2 * _SPARSE * rows * columns)


def _factor(G: Any, diagonal: Floats, weights: Floats) -> Callable[[Floats], Floats]:
    """A solver of (diag + Gᵀ·diag(weights)·G)·dx = right."""
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
        except linalg.LinAlgError:  # rounding took what made it positive
            continue
        return lambda right: scale * linalg.cho_solve(factor, scale * right, check_finite=False)
    raise ArithmeticError("the system of a step is not positive definite: entries are not finite")


def _refuse(size: int) -> None:
    """Refuse a system that would not fit."""
    raise TooLargeError(
        f"{size:,} queries that bear on each other are beyond the {_MOST_VARIABLES:,} of an exact "
        f"allocation: use fewer, or method='psa'"
    )
