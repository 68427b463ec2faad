"""Linear systems and log-determinants of symmetric positive definite operators given by products.

Preconditioned conjugate gradients (Hestenes1952) and stochastic Lanczos quadrature (Ubaru2017).
Both are fast where the operator A is near the diagonal D given with it: then D^(−½)·A·D^(−½) is
near the identity. An inaccurate D costs more products, or accuracy of the determinant. There are
also products with rows that are mostly empty.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse
from scipy.linalg import eigh_tridiagonal

from sfumato.arrays import Floats

Product = Callable[[Floats], Floats]

_LANCZOS = 25
_MOSTLY_EMPTY = 1 / 16  # of the entries


def times_rows(rows: Floats, matrix: Floats) -> Floats:
    """The product of rows and a matrix; rows of few cells by their entries alone.

    Args:
        rows: Weights, shape (rows, cells).
        matrix: A matrix over the cells.
    """
    if np.count_nonzero(rows) > _MOSTLY_EMPTY * rows.size:
        return rows @ matrix
    found: Floats = np.asarray(sparse.csr_array(rows) @ matrix)
    return found


def conjugate_gradients(
    times: Product, target: Floats, diagonal: Floats, tolerance: float, most: int
) -> Floats:
    """Solve A·x = target by conjugate gradients preconditioned with a diagonal.

    Args:
        times: The product v → A·v, for arrays of the shape of `target`.
        target: The right-hand side.
        diagonal: An approximate diagonal of A, of the same shape.
        tolerance: Stop when the residual's preconditioned norm has fallen by this factor.
        most: Most products with A.
    """
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
    """Log det A by stochastic Lanczos quadrature (Ubaru2017).

    log det A = log det D + tr log B for B = D^(−½)·A·D^(−½), and tr log B is the mean of zᵀ(log B)z
    over random signs z. The spectrum of B is narrow, so a few Lanczos steps suffice.

    Args:
        times: The product v → A·v.
        diagonal: D, an approximate diagonal of A; its shape is that of v.
        probes: Number of random sign vectors z.
        rng: Where the signs come from.
    """
    root = np.sqrt(diagonal)
    found = [
        _lanczos_log(lambda v: times(v / root) / root, rng.choice([-1.0, 1.0], size=root.shape))
        for _ in range(probes)
    ]
    return float(np.mean(found)) * diagonal.size + float(np.sum(np.log(diagonal)))


def _lanczos_log(times: Product, start: Floats) -> float:
    """zᵀ(log B)z / |z|² for one probe z, by Gauss quadrature from Lanczos steps."""
    basis = [start / np.linalg.norm(start)]
    diagonal, beside = [], []
    for _ in range(min(_LANCZOS, start.size)):
        image = times(basis[-1])
        diagonal.append(float(np.sum(image * basis[-1])))
        for known in basis:  # full reorthogonalisation: cheap for so few steps
            image = image - np.sum(image * known) * known
        size = float(np.linalg.norm(image))
        if size < 1e-10:
            break
        beside.append(size)
        basis.append(image / size)
    inner = len(diagonal)
    values, vectors = eigh_tridiagonal(np.array(diagonal), np.array(beside[: inner - 1]))
    return float(np.sum(vectors[0] ** 2 * np.log(np.maximum(values, 1e-300))))
