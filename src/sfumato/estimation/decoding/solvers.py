"""Symmetric positive definite operators known by their products alone: solutions, determinants.

Both are quick where the operator is near the identity, or near the diagonal that is given with it.
A diagonal that is somewhat off costs products, or exactness of the determinant, and no more.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh_tridiagonal

from sfumato.arrays import Floats

Product = Callable[[Floats], Floats]

_LANCZOS = 25


def conjugate_gradients(
    times: Product, target: Floats, diagonal: Floats, tolerance: float, most: int
) -> Floats:
    """Solve A·x = target with at most so many products, A's diagonal about known."""
    x = np.zeros_like(target)
    residual = target.copy()
    scaled = residual / diagonal
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
        scaled = residual / diagonal
        after = float(np.sum(residual * scaled))
        direction = scaled + (after / size) * direction
        size = after
    return x


def log_determinant(
    times: Product, diagonal: Floats, probes: int, rng: np.random.Generator
) -> float:
    """The logarithm of A's determinant, by Lanczos quadrature at a few probes of random signs.

    What is probed is D^(−½)·A·D^(−½): few products see the whole of its narrow spectrum.
    """
    root = np.sqrt(diagonal)
    found = [
        _lanczos_log(lambda v: times(v / root) / root, rng.choice([-1.0, 1.0], size=root.shape))
        for _ in range(probes)
    ]
    return float(np.mean(found)) * diagonal.size + float(np.sum(np.log(diagonal)))


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
