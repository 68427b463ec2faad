"""Gaussian prior on the logarithms of the cells' shares.

Model (docs/likelihood.md): the distribution over cells is p ∝ e^θ, and θ has a Gaussian prior with
precision Λ = λ₀·I + Σ_axes (λ₁·D₁ᵀD₁ + λ₂·D₂ᵀD₂), with D₁ and D₂ first and second differences along
an ordered axis. A *rough* prior has λ₀ only: all cells vary independently.

On a single ordered axis cells may stand apart from their neighbours, as heaps and spikes do: θ is
then a smooth field plus a term of every cell's own, of variance τ². The precision of the sum is
P = (Λ⁻¹ + τ²·I)⁻¹ = (I + τ²·Λ)⁻¹·Λ. Elsewhere P is Λ itself.

Differences are banded, so Λ·θ and P·θ take a few operations per cell. In the eigenvectors of every
axis Λ is diagonal (`Field.standardised`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.linalg import cho_solve_banded, cholesky_banded, eig_banded, eigh_tridiagonal

from sfumato.arrays import Floats

_LONG_AXIS = 1024  # beyond this many cells cosines approximate the eigenvectors
_CONSTANT = 1e-9  # precisions below this are those of the constants, which change nothing


@dataclass(frozen=True, slots=True)
class Strengths:
    """The strengths of the prior.

    Args:
        cells: λ₀.
        along: (λ₁, λ₂) for each axis; unordered axes have (0, 0).
        apart: τ², the variance of every cell's own term; only on a single ordered axis.
    """

    cells: float
    along: tuple[tuple[float, float], ...]
    apart: float = 0.0

    @property
    def is_rough(self) -> bool:
        """Whether the prior has λ₀ only: all cells vary independently."""
        return not any(first or second for first, second in self.along)

    @property
    def is_smooth(self) -> bool:
        """Whether no cell has a term of its own."""
        return not self.is_rough and not self.apart


def precision_bands(size: int, first: float, second: float) -> Floats:
    """The bands of λ₁·D₁ᵀD₁ + λ₂·D₂ᵀD₂ on a line: row k holds the entries (i, i + k), shape (3, m).

    Args:
        size: Number of cells, m.
        first: λ₁.
        second: λ₂.
    """
    bands = np.zeros((3, size))
    if size > 1:
        bands[0, :-1] += first
        bands[0, 1:] += first
        bands[1, :-1] -= first
    if size > 2:
        bands[0, :-2] += second
        bands[0, 1:-1] += 4 * second
        bands[0, 2:] += second
        bands[1, :-2] -= 2 * second
        bands[1, 1:-1] -= 2 * second
        bands[2, :-2] += second
    return bands


@lru_cache(maxsize=64)
def roughness(size: int, first: float, second: float) -> tuple[Floats, Floats]:
    """Eigenvalues and eigenvectors of λ₁·D₁ᵀD₁ + λ₂·D₂ᵀD₂ on a line of cells.

    Args:
        size: Number of cells.
        first: λ₁.
        second: λ₂.

    Returns:
        Eigenvalues, shape (size,), and eigenvectors as columns, shape (size, size).
    """
    bands = precision_bands(size, first, second)
    if not second:
        values, vectors = eigh_tridiagonal(bands[0], bands[1, :-1])
    else:
        values, vectors = eig_banded(bands[: min(3, size)], lower=True)
    return np.maximum(values, 0.0), vectors.astype(np.float64, copy=False)


@lru_cache(maxsize=256)
def roughness_values(size: int, first: float, second: float) -> Floats:
    """Eigenvalues of λ₁·D₁ᵀD₁ + λ₂·D₂ᵀD₂; beyond 1,024 cells those of a line mirrored at its ends.

    Args:
        size: Number of cells.
        first: λ₁.
        second: λ₂.
    """
    if size > _LONG_AXIS or not second:
        return cosine_roughness(size, first, second)
    bands = precision_bands(size, first, second)
    found = eig_banded(bands[: min(3, size)], lower=True, eigvals_only=True)
    values: Floats = np.maximum(found, 0.0)
    return values


def cosine_roughness(size: int, first: float, second: float) -> Floats:
    """Eigenvalues of λ₁·D₁ᵀD₁ + λ₂·D₂ᵀD₂ on a long line, for the cosine (DCT-II) basis.

    Exact for first differences; second differences are those of the line mirrored at its ends.

    Args:
        size: Number of cells.
        first: λ₁.
        second: λ₂.
    """
    steps: Floats = 4 * np.sin(np.pi * np.arange(size) / (2 * size)) ** 2
    return first * steps + second * steps**2


def cosines(size: int, numbers: NDArray[np.intp]) -> Floats:
    """Cosines of a line as orthonormal columns (DCT-II), shape (size, len(numbers)).

    Args:
        size: Number of cells.
        numbers: Which ones: their numbers of half turns.
    """
    angles = np.pi * np.multiply.outer(np.arange(size) + 0.5, numbers) / size
    waves: Floats = np.cos(angles) * math.sqrt(2 / size)
    waves[:, numbers == 0] = math.sqrt(1 / size)
    return waves


def _step_precisions(size: int, first: float, second: float) -> Floats:
    """Eigenvalues of the precision of the steps between neighbours, λ₁·I + λ₂·EᵀE."""
    return first + cosine_roughness(size - 1, second, 0.0)


class Field:
    """The prior on θ for given strengths.

    Args:
        shape: Number of cells of every axis.
        strengths: λ₀, λ₁ and λ₂.
    """

    def __init__(self, shape: Sequence[int], strengths: Strengths) -> None:
        self.shape = tuple(shape)
        self.strengths = strengths

    @property
    def is_rough(self) -> bool:
        """Whether the prior has λ₀ only: all cells vary independently."""
        return self.strengths.is_rough

    def pull(self, theta: Floats) -> Floats:
        """P·θ for one θ or several along leading axes."""
        smooth = self._smooth_pull(theta)
        if not self.strengths.apart:
            return smooth
        result: Floats = cho_solve_banded((self._loosened, True), smooth.T).T
        return result

    def _smooth_pull(self, theta: Floats) -> Floats:
        """Λ·θ, by differences along every axis."""
        out = self.strengths.cells * theta
        for place, (first, second) in enumerate(self.strengths.along):
            axis = place - len(self.shape)
            if first or second:
                along = np.moveaxis(out, axis, -1)
                step = np.diff(np.moveaxis(theta, axis, -1), axis=-1)
                bend = second * np.diff(step, axis=-1)
                step = first * step
                step[..., 1:] += bend
                step[..., :-1] -= bend
                along[..., 1:] += step
                along[..., :-1] -= step
        return out

    @cached_property
    def _loosened(self) -> Floats:
        """Cholesky factor of I + τ²·Λ, by bands."""
        bands = self.strengths.apart * self.bands
        bands[0] += 1.0
        factor: Floats = cholesky_banded(bands, lower=True, check_finite=False)
        return factor

    def penalty(self, theta: Floats) -> float:
        """½·θᵀPθ."""
        return float(np.sum(theta * self.pull(theta))) / 2

    @cached_property
    def log_determinant(self) -> float:
        """Log det P; without the constants, which have no precision where λ₀ is 0."""
        if not self.strengths.apart:
            return self.smooth_log_determinant
        return self.smooth_log_determinant - 2 * float(np.log(self._loosened[0]).sum())

    @cached_property
    def smooth_log_determinant(self) -> float:
        """Log det Λ, likewise.

        On a line Λ = D₁ᵀ·M·D₁ for M = λ₁·I + λ₂·EᵀE, where E are the first differences of one cell
        less. Without the constants its determinant is det M times that of D₁·D₁ᵀ, which is m.
        """
        if len(self.shape) == 1 and not self.strengths.cells:
            (size,), (along,) = self.shape, self.strengths.along
            return math.log(size) + float(np.sum(np.log(_step_precisions(size, *along))))
        total = self._precisions
        return float(np.sum(np.log(total[total > _CONSTANT])))

    @cached_property
    def _precisions(self) -> Floats:
        """The eigenvalues of Λ on the grid of the axes' eigenvectors."""
        total = np.full(self.shape, self.strengths.cells)
        for axis, (size, along) in enumerate(zip(self.shape, self.strengths.along, strict=True)):
            if any(along):
                values = roughness_values(size, *along)
                total = total + values.reshape([-1 if d == axis else 1 for d in range(total.ndim)])
        return total

    @cached_property
    def bands(self) -> Floats:
        """The bands of Λ on a single axis, shape (3, cells)."""
        (size,), (along,) = self.shape, self.strengths.along
        found = precision_bands(size, *along)
        found[0] += self.strengths.cells
        return found

    @cached_property
    def matrix(self) -> Floats:
        """P as a matrix over the cells of a small grid."""
        apart = self.strengths.apart
        if not apart:
            return self._smooth_matrix
        unit = np.eye(self.shape[0])
        result: Floats = (unit - cho_solve_banded((self._loosened, True), unit)) / apart
        return result

    @cached_property
    def _smooth_matrix(self) -> Floats:
        """Λ as a matrix."""
        cells = math.prod(self.shape)
        found: Floats = self.strengths.cells * np.eye(cells)
        for axis, (size, along) in enumerate(zip(self.shape, self.strengths.along, strict=True)):
            if any(along):
                bands = precision_bands(size, *along)
                one = np.diag(bands[0])
                for k in (1, 2):
                    off = np.diag(bands[k, : max(size - k, 0)], k) if size > k else 0.0
                    one = one + off + np.transpose(off)
                before, after = math.prod(self.shape[:axis]), math.prod(self.shape[axis + 1 :])
                found += np.kron(np.kron(np.eye(before), one), np.eye(after))
        return found

    @cached_property
    def standardised(self) -> Standardised:
        """The linear map from coordinates in which the prior is standard normal."""
        return Standardised(self)


class Standardised:
    """The map θ = B·u from coordinates u in which the prior is standard normal.

    Args:
        field: The prior.
    """

    def __init__(self, field: Field) -> None:
        total = np.full(field.shape, field.strengths.cells)
        self._bases: list[Floats | Literal["cosines"] | None] = []
        for axis, (size, along) in enumerate(zip(field.shape, field.strengths.along, strict=True)):
            if not any(along):
                self._bases.append(None)
                continue
            if size > _LONG_AXIS:
                values = cosine_roughness(size, *along)
                self._bases.append("cosines")
            else:
                values, vectors = roughness(size, *along)
                self._bases.append(vectors)
            total = total + values.reshape([-1 if d == axis else 1 for d in range(total.ndim)])
        # A constant added to θ changes nothing, as p is normalised: any precision will do for it.
        variance = 1.0 / np.where(total > _CONSTANT, total, 1.0)
        self._scale = np.sqrt(variance + field.strengths.apart)

    def theta(self, u: Floats) -> Floats:
        """θ = B·u, from standard coordinates."""
        out = u * self._scale
        for axis, basis in enumerate(self._bases):
            if isinstance(basis, str):
                out = fft.idct(out, axis=axis, norm="ortho")
            elif basis is not None:
                out = np.moveaxis(np.tensordot(basis, out, axes=([1], [axis])), 0, axis)
        return out

    def coordinates(self, gradient: Floats) -> Floats:
        """Bᵀ·g: from gradients in θ to gradients in u."""
        out = gradient
        for axis, basis in enumerate(self._bases):
            if isinstance(basis, str):
                out = fft.dct(out, axis=axis, norm="ortho")
            elif basis is not None:
                out = np.moveaxis(np.tensordot(basis, out, axes=([0], [axis])), 0, axis)
        return out * self._scale
