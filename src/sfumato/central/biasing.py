"""Rows that are slightly wrong and need less noise: how far to bend a question, at best.

Kamalaruban et al. 2020, problem (6), measures P = c ⊙ Q′ in the place of Q. Over n people in any
cells the answer is then off by at most n·δ, δ = max |P − Q| (the paper bounds it by the Euclidean
norm, which is larger), and the noise has variance 2c²: the sum n²δ² + 2c² is made least. How many
people there are is public, so a constant added to a row costs nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from sfumato.arrays import Floats
from sfumato.errors import TooLargeError
from sfumato.metrics.edges import Edges
from sfumato.noise.allocate import allocate

MOST_CELLS = 2048
MOST_TERMS = 1 << 22
_ROUNDS = 8
_SETTLED = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class Bent:
    """Rows to measure instead of the given ones.

    Attributes:
        rows: The rows P, shape (questions, cells).
        scales: The scale of the noise on each, before it is certified.
        objective: Σ w·(n²δ² + 2c²).
    """

    rows: Floats
    scales: Floats
    objective: float


def bend(rows: Floats, edges: Edges, n: int, weights: Floats, scales: Floats) -> Bent:
    """The rows and scales with the least worst squared error.

    Args:
        rows: The questions Q, shape (questions, cells).
        edges: The distances.
        n: Number of people.
        weights: How much each question counts.
        scales: Scales of noise under which Q itself is private.

    Raises:
        TooLargeError: If the problem is too large to be solved so.
    """
    if edges.size > MOST_CELLS:
        raise TooLargeError(
            f"bias='optimised' compares all pairs of {edges.size:,} cells, for at most "
            f"{MOST_CELLS:,}: use coarser bins, fewer axes, or bias='none'"
        )
    if len(rows) == 1:
        return bend_one(rows[0], edges.distances(), n, float(weights[0]))
    return _bend_many(rows, edges, n, weights, scales)


def bend_one(row: Floats, distances: Floats, n: int, weight: float = 1.0) -> Bent:
    """One question, exactly: a convex function of one number.

    For a scale c the nearest row that is c-Lipschitz lies δ(c) = max_ij (|q_i − q_j| − c·d_ij)/2
    away, and min_j (q_j + c·d_ij) + δ is one such (McShane); δ is convex in c.

    Example:
        >>> steep = np.array([0.0, 0.0, 1.0])
        >>> line = np.abs(np.subtract.outer(np.arange(3.0), np.arange(3.0)))
        >>> bent = bend_one(steep, line, n=2)
        >>> bent.rows.round(3), bent.scales.round(3)
        (array([[0.333, 0.333, 0.667]]), array([0.333]))
    """
    apart = np.abs(np.subtract.outer(row, row))
    finite = np.isfinite(distances)
    near, length = apart[finite], distances[finite]

    def off(c: float) -> float:
        return max(0.0, float((near - c * length).max(initial=0.0)) / 2)

    def cost(c: float) -> float:
        return float(weight * (n**2 * off(c) ** 2 + 2 * c**2))

    told = length > 0
    most = float((near[told] / length[told]).max(initial=0.0))
    if most == 0.0:
        return Bent(_lipschitz(row, distances, 0.0, off(0.0)), np.zeros(1), cost(0.0))
    found = minimize_scalar(cost, bounds=(0.0, most), method="bounded", options={"xatol": 1e-10})
    c = min((most, float(found.x)), key=cost)
    return Bent(_lipschitz(row, distances, c, off(c)), np.array([c]), cost(c))


def _lipschitz(row: Floats, distances: Floats, c: float, off: float) -> Floats:
    """The row at most `off` away that moves by at most c times the distance."""
    reach = np.where(np.isfinite(distances), c * np.where(np.isfinite(distances), distances, 0), 0)
    held = np.where(np.isfinite(distances), row[None, :] + reach, math.inf)
    return np.asarray(held.min(axis=1) + off)[None, :]


def _bend_many(rows: Floats, edges: Edges, n: int, weights: Floats, scales: Floats) -> Bent:
    """Several questions: by turns each in what the others leave of the distances, then all scales.

    What is left is closed under shortest paths, as a row keeps to it exactly when it keeps to its
    closure; then each turn is one convex problem and none raises the objective.
    """
    if len(rows) * edges.size**2 > MOST_TERMS:
        raise TooLargeError(
            f"bias='optimised' for {len(rows)} questions over {edges.size} cells compares "
            f"{len(rows) * edges.size**2:,} differences, for at most {MOST_TERMS:,}: ask fewer "
            "questions, or use bias='none'"
        )
    distances = edges.distances()
    bent, c = rows.copy(), scales.copy()
    best = Bent(bent.copy(), c.copy(), _cost(rows, bent, c, n, weights))
    for _ in range(_ROUNDS):
        for k in range(len(rows)):
            others = [_told(bent[j], c[j]) for j in range(len(rows)) if j != k]
            left = _closed(np.maximum(distances - sum(others), 0.0))
            one = bend_one(rows[k], left, n)
            bent[k], c[k] = one.rows[0], one.scales[0]
        c = allocate(bent, edges, weights=weights).scales
        value = _cost(rows, bent, c, n, weights)
        if not value < best.objective * (1 - _SETTLED):
            break
        best = Bent(bent.copy(), c.copy(), value)
    return best


def _cost(rows: Floats, bent: Floats, c: Floats, n: int, weights: Floats) -> float:
    """Σ w·(n²δ² + 2c²)."""
    off = np.ptp(bent - rows, axis=1) / 2
    return float(weights @ (n**2 * off**2 + 2 * c**2))


def _told(row: Floats, c: float) -> Floats:
    """How well a noisy row tells each pair of cells apart."""
    apart: Floats = np.abs(np.subtract.outer(row, row))
    return apart / c if c > 0 else np.zeros_like(apart)


def _closed(distances: Floats) -> Floats:
    """Shortest paths, where zeros are distances too."""
    held = distances.copy()
    for k in range(len(held)):
        np.minimum(held, held[:, k, None] + held[None, k, :], out=held)
    return held
