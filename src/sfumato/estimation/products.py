"""Symmetric positive definite operators known by their products alone: solutions, determinants.

Both are quick where the operator is near the identity. `scale`, a diagonal that is about the
operator's own, brings it there: what is solved is D^(−1/2)·A·D^(−1/2), and det A is that
operator's determinant times det D. A wrong diagonal costs products and never the answer.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal

Floats = NDArray[np.float64]
Product = Callable[[Floats], Floats]

_LANCZOS = 25


def conjugate_gradients(
    times: Product, target: Floats, scale: Floats, tolerance: float, most: int
) -> Floats:
    """Solve A·x = target with at most so many products."""
    x = np.zeros_like(target)
    residual = target.copy()
    scaled = residual / scale
    direction = scaled.copy()
    size = float(np.sum(residual * scaled))
    enough = tolerance**2 * size
    for _ in range(most):
        if size <= enough:
            break
        image = times(direction)
        length = size / float(np.sum(direction * image))
        x += length * direction
        residual -= length * image
        scaled = residual / scale
        after = float(np.sum(residual * scaled))
        direction = scaled + (after / size) * direction
        size = after
    return x


def log_determinant(times: Product, scale: Floats, probes: int, rng: np.random.Generator) -> float:
    """The logarithm of det A by stochastic Lanczos quadrature: the mean of a few probes of random signs."""
    root = np.sqrt(scale)
    found = [
        _lanczos_log(lambda v: times(v / root) / root, rng.choice([-1.0, 1.0], size=scale.shape))
        for _ in range(probes)
    ]
    return float(np.mean(found)) * scale.size + float(np.sum(np.log(scale)))


def _lanczos_log(times: Product, start: Floats) -> float:
    """Mean over one probe of the logarithm of the operator's spectrum."""
    basis = [start / np.linalg.norm(start)]
    diagonal, beside = [], []
    for _ in range(min(_LANCZOS, start.size)):
        image = times(basis[-1])
        diagonal.append(float(np.sum(image * basis[-1])))
        for known in basis:  # full orthogonalisation: few steps, and it keeps the rule exact
            image = image - np.sum(image * known) * known
        size = float(np.linalg.norm(image))
        if size < 1e-10:
            break
        beside.append(size)
        basis.append(image / size)
    inner = len(diagonal)
    values, vectors = eigh_tridiagonal(np.array(diagonal), np.array(beside[: inner - 1]))
    return float(np.sum(vectors[0] ** 2 * np.log(np.maximum(values, 1e-300))))
