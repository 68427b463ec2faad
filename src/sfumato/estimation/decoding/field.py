"""Gaussian prior on the logarithms of the cells' shares, its posterior mode and its evidence.

Model (docs/likelihood.md): the distribution over cells is p ∝ e^θ, and θ has a Gaussian prior with
precision λ₀·I + Σ_axes (λ₁·D₁ᵀD₁ + λ₂·D₂ᵀD₂), with D₁ and D₂ first and second differences along an
ordered axis. A *rough* prior has λ₀ only: all cells vary independently.

Coordinates: θ = B·u makes the prior standard normal. With N(y) the counts of outputs, Q the channel
and q = pQ, `fit` maximises Σ_y N(y)·log q(y) − ½|u|² by Newton's method. The gradient in θ is
p·(Q·(N/q) − n). The curvature is I + K with K = Bᵀ·F·B and F = J·Q·diag(w)·Qᵀ·J, where
J = diag(p) − ppᵀ is ∂p/∂θ and w are the weights of `Mixture.information`.

Evidence: the likelihood of the strengths (λ₀, λ₁, λ₂) with θ integrated out by Laplace's method
(Tierney1986; MacKay1992): log-likelihood − ½|u|² − ½·log det(I + K), at the mode.

Numerics: up to `DENSE_CELLS` cells I + K is factorised. Beyond, it is used by products: few
directions have K large, so conjugate gradients converge fast. Under a rough prior K is large in as
many directions as there are cells with people, by factors of a million; its diagonal, estimated
from a few probes (Bekas2007), then serves as preconditioner, always for the determinant and on
large grids also for steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

import numpy as np
from scipy import fft
from scipy.linalg import cho_factor, cho_solve, eigh_tridiagonal

from sfumato.arrays import Floats
from sfumato.estimation.decoding.mixture import Mixture, log_likelihood, posterior_ratio
from sfumato.estimation.decoding.solvers import conjugate_gradients, log_determinant

DENSE_CELLS = 600
_LONG_AXIS = 1024  # beyond this many cells cosines approximate the eigenvectors
_MOST_NEWTON = 60
_LONGEST_STEP = 4.0
_GAIN = 1e-3  # nats: a step that gains less ends the search, if the curvature is up to date
_GAIN_SHARE = 1e-8  # nats per person, where that is more
_FRESH = 0.05  # nats gained since the curvature was computed: it is still accurate
_STALE = 2.0  # nats gained since the curvature was computed: compute it again
_CG_TOLERANCE = 1e-2
_ROUGH_TOLERANCE = 1e-1
_EXACT_TOLERANCE = 1e-4
_MOST_CG = 200
_LARGE, _LARGEST = 1 << 14, 1 << 18
_DIAGONAL_PROBES = 8
_CONVERGED_SHARE = 1e-5  # nats per person: a step that promises more is not near the maximum


@dataclass(frozen=True, slots=True)
class Strengths:
    """The strengths of the prior.

    Args:
        cells: λ₀.
        along: (λ₁, λ₂) for each axis; unordered axes have (0, 0).
    """

    cells: float
    along: tuple[tuple[float, float], ...]


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
    if not second:
        # First differences alone: a tridiagonal matrix.
        diagonal = np.full(size, 2.0 * first)
        diagonal[[0, -1]] = first
        values, vectors = eigh_tridiagonal(diagonal, np.full(size - 1, -first))
        return np.maximum(values, 0.0), vectors.astype(np.float64, copy=False)
    one = np.diff(np.eye(size), 1, axis=0)
    two = np.diff(np.eye(size), 2, axis=0)
    values, vectors = np.linalg.eigh(first * one.T @ one + second * two.T @ two)
    return np.maximum(values, 0.0), vectors.astype(np.float64, copy=False)


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


class Field:
    """The prior on θ for given strengths, as the linear map θ = B·u from standard coordinates.

    Args:
        shape: Number of cells of every axis.
        strengths: λ₀, λ₁ and λ₂.
    """

    def __init__(self, shape: Sequence[int], strengths: Strengths) -> None:
        self.shape = tuple(shape)
        self.strengths = strengths
        total = np.full(self.shape, strengths.cells)
        self._bases: list[Floats | Literal["cosines"] | None] = []
        for axis, (size, (first, second)) in enumerate(zip(shape, strengths.along, strict=True)):
            if not first and not second:
                self._bases.append(None)
                continue
            if size > _LONG_AXIS:
                values = cosine_roughness(size, first, second)
                self._bases.append("cosines")
            else:
                values, vectors = roughness(size, first, second)
                self._bases.append(vectors)
            total = total + values.reshape([-1 if d == axis else 1 for d in range(len(shape))])
        # A constant added to θ changes nothing, as p is normalised: any precision will do for it.
        self._scale = 1.0 / np.sqrt(np.where(total > 1e-9, total, 1.0))

    @property
    def is_rough(self) -> bool:
        """Whether the prior has λ₀ only: all cells vary independently."""
        return all(basis is None for basis in self._bases)

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

    def from_theta(self, theta: Floats) -> Floats:
        """The coordinates u = B⁻¹·θ of a given θ."""
        return self.coordinates(theta) / self._scale**2

    def conjugate(self, matrix: Floats) -> Floats:
        """Bᵀ·F·B for a matrix F over the cells of a small grid; B is diagonal if it is rough."""
        if self.is_rough:
            scale = self._scale.ravel()
            return matrix * np.multiply.outer(scale, scale)
        return self.matrix.T @ matrix @ self.matrix

    @cached_property
    def matrix(self) -> Floats:
        """B as a matrix, for small grids."""
        cells = math.prod(self.shape)
        columns = [self.theta(unit.reshape(self.shape)).ravel() for unit in np.eye(cells)]
        return np.array(columns).T


class Curvature:
    """The negative Hessian I + K in coordinates u: products, solutions, log-determinant, samples.

    Args:
        mixture: The counts of outputs, and the channels.
        field: The prior.
        law: The distribution p over cells at which it is taken.
        mixed: The distribution of outputs, q = pQ.
    """

    def __init__(self, mixture: Mixture, field: Field, law: Floats, mixed: Floats) -> None:
        self._mixture, self._field = mixture, field
        self._law, self._weight = law, mixture.information(mixed)
        self._factor = None
        if law.size <= DENSE_CELLS:
            curved = field.conjugate(self._information(mixed))
            self._factor = _factorised(curved)

    @property
    def is_dense(self) -> bool:
        """Whether I + K is factorised, which is worth reusing for several steps."""
        return self._factor is not None

    def _information(self, mixed: Floats) -> Floats:
        """F as a matrix: Σ_y w(y)·c_y·c_yᵀ, with c_y(x) = p(x)·(Q(y | x) − q(y))."""
        law, weight = self._law.reshape(-1), self._weight.reshape(-1)
        # A product of a matrix and its transpose is never indefinite, however it is rounded.
        centred = law[:, None] * (self._mixture.matrix - mixed.reshape(-1)) * np.sqrt(weight)
        result: Floats = centred @ centred.T
        return result

    def times(self, u: Floats) -> Floats:
        """(I + K)·u, by one forward and one backward pass through the channels."""
        through = self._mixture.forward(self._centre(self._field.theta(u)))
        back = self._mixture.backward(through * self._weight)
        return u + self._field.coordinates(self._centre(back))

    def _centre(self, v: Floats) -> Floats:
        """J·v = p·(v − Σpv), the derivative of p in direction v; J is symmetric."""
        result: Floats = self._law * (v - np.sum(self._law * v))
        return result

    def solve(self, u: Floats, *, tolerance: float | None = None) -> Floats:
        """(I + K)⁻¹·u.

        Args:
            u: One right-hand side of the shape of the grid, or several along a leading axis.
            tolerance: For conjugate gradients; left out, what a Newton step needs.
        """
        if self._factor is not None:
            flat = u.reshape(-1, self._law.size)
            solved: Floats = cho_solve(self._factor, flat.T).T.reshape(u.shape)
            return solved
        if u.ndim > self._law.ndim:
            return np.array([self.solve(part, tolerance=tolerance) for part in u])
        effort = _effort_for(self._field)
        wanted = effort.tolerance if tolerance is None else tolerance
        # Without a preconditioner the steps move the cells with most people first. On grids where
        # many products are affordable, that was measured to reach better maxima.
        diagonal = self._diagonal if self._law.size > _LARGE else np.ones(self._law.shape)
        return conjugate_gradients(self.times, u, diagonal, wanted, effort.products)

    @cached_property
    def _diagonal(self) -> Floats:
        """The estimated diagonal of I + K under a rough prior; ones under any other.

        With K = R·Rᵀ and random signs s, the squares of R·s have the mean diag(K) (cf. Bekas2007).
        """
        found = np.ones(self._law.shape)
        if not self._field.is_rough:
            return found
        rng = np.random.Generator(np.random.PCG64(1))  # fixed: the same reports, the same answer
        for _ in range(_DIAGONAL_PROBES):
            signs = rng.choice([-1.0, 1.0], size=self._weight.shape)
            found += self._root_times(signs) ** 2 / _DIAGONAL_PROBES
        return found

    def _root_times(self, values: Floats) -> Floats:
        """R·values for R = Bᵀ·J·Q·diag(√w), so that K = R·Rᵀ; one column per output."""
        back = self._mixture.backward(np.sqrt(self._weight) * values)
        return self._field.coordinates(self._centre(back))

    def draw(self, rng: np.random.Generator) -> Floats:
        """A sample of θ − mean from its posterior, Gaussian with covariance B(I + K)⁻¹Bᵀ."""
        # z + R·z' has covariance I + K; (I + K)⁻¹ times that has covariance (I + K)⁻¹.
        noise = rng.standard_normal(self._law.shape)
        source = noise + self._root_times(rng.standard_normal(self._weight.shape))
        return self._field.theta(self.solve(source, tolerance=_EXACT_TOLERANCE))

    def log_determinant(self) -> float:
        """Log det(I + K): exact from the factor, or by stochastic Lanczos quadrature."""
        if self._factor is not None:
            return 2.0 * float(np.log(np.diag(self._factor[0])).sum())
        probes = max(2, min(8, (1 << 14) // self._law.size))
        rng = np.random.Generator(
            np.random.PCG64(0)
        )  # fixed: all strengths are compared with the same probes
        return log_determinant(self.times, self._diagonal, probes, rng)


def _factorised(matrix: Floats) -> tuple[Floats, bool]:
    """The Cholesky factor of I + K; K is damped if it is so large that I is lost in rounding."""
    cells = np.eye(len(matrix))
    try:
        found = cho_factor(matrix + cells, lower=True)
    except np.linalg.LinAlgError:
        damping = len(matrix) * np.finfo(np.float64).eps * float(np.max(np.diag(matrix)))
        found = cho_factor(matrix + (1 + damping) * cells, lower=True)
    factor: tuple[Floats, bool] = found
    return factor


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """The posterior mode of θ for given strengths, and their evidence.

    Args:
        field: The prior.
        law: The distribution p over cells at the mode.
        mixed: The distribution of outputs, q = pQ.
        u: The mode in standard coordinates.
        evidence: Log evidence of the strengths, in nats; NaN if it was not asked for.
        curvature: I + K at the mode.
        steps: Newton steps taken.
        is_converged: False if a step might still have gained much when the steps ran out.
    """

    field: Field
    law: Floats
    mixed: Floats
    u: Floats
    evidence: float
    curvature: Curvature
    steps: int
    is_converged: bool = True

    def theta(self) -> Floats:
        """The logarithms of the shares, up to a constant."""
        return self.field.theta(self.u)


def fit(mixture: Mixture, field: Field, start: Floats | None = None, *, weigh: bool = True) -> Fit:
    """Maximise log-likelihood − ½|u|² by Newton's method with a line search.

    Every accepted step increases it. The curvature is reused while it is accurate enough.

    Args:
        mixture: The counts of outputs, and the channels.
        field: The prior.
        start: θ to start from; left out, equal shares.
        weigh: Also compute the evidence of the strengths; otherwise it is NaN.
    """
    people = float(mixture.counts.sum())
    enough = max(_GAIN, people * _GAIN_SHARE)
    u = np.zeros(field.shape) if start is None else field.from_theta(start)
    value, law, mixed = _objective(mixture, field, u)
    curvature = Curvature(mixture, field, law, mixed)
    steps, since, promised = 0, 0.0, 0.0
    most_steps = _effort_for(field).steps
    while steps < most_steps:
        steps += 1
        multiplier = mixture.backward(posterior_ratio(mixture, mixed))
        # Bᵀ·p·(Q·(N/q) − n) − u; Newton's direction is (I + K)⁻¹ times that.
        gradient = field.coordinates(law * (multiplier - people)) - u
        direction = curvature.solve(gradient)
        promised = float(np.sum(gradient * direction)) / 2
        found = _line_search(mixture, field, u, value, direction)
        if found is None:
            if not since:
                break
            gain = 0.0
        else:
            u, law, mixed = found.u, found.law, found.mixed
            gain, value = found.value - value, found.value
        since += gain
        if gain < enough and since < max(_FRESH, enough):
            break
        if gain < enough or since > (
            _STALE if curvature.is_dense else 0.0
        ):  # the old curvature no longer gives good steps
            curvature, since = Curvature(mixture, field, law, mixed), 0.0
    if since:
        curvature = Curvature(mixture, field, law, mixed)
    # Laplace's method; the prior's own determinant is 1 in coordinates u.
    evidence = value - curvature.log_determinant() / 2 if weigh else math.nan
    is_converged = promised <= max(enough, people * _CONVERGED_SHARE)
    return Fit(field, law, mixed, u, evidence, curvature, steps, is_converged)


class _Effort(NamedTuple):
    """Most Newton steps, most products per step, and the tolerance of a direction."""

    steps: int
    products: int
    tolerance: float


def _effort_for(field: Field) -> _Effort:
    """How much work to spend on a grid: larger ones get fewer and less exact steps.

    Under a rough prior, more and less exact steps gain more for the same number of products.
    """
    cells = math.prod(field.shape)
    if cells <= _LARGE:
        return _Effort(_MOST_NEWTON, _MOST_CG, _CG_TOLERANCE)
    if field.is_rough:
        return _Effort(*((40, 60) if cells <= _LARGEST else (25, 40)), _ROUGH_TOLERANCE)
    return _Effort(*((25, 40) if cells <= _LARGEST else (12, 25)), _CG_TOLERANCE)


@dataclass(frozen=True, slots=True, eq=False)
class _Point:
    """An accepted point of the line search."""

    u: Floats
    value: float
    law: Floats
    mixed: Floats


def _line_search(
    mixture: Mixture, field: Field, u: Floats, value: float, direction: Floats
) -> _Point | None:
    """Backtracking line search: the first halved step that does not lower the value, or None."""
    reach = float(np.abs(field.theta(direction)).max())
    length = min(1.0, _LONGEST_STEP / reach) if reach > 0 else 0.0
    while length > 1e-6:
        after = u + length * direction
        new_value, law, mixed = _objective(mixture, field, after)
        if new_value >= value:
            return _Point(after, new_value, law, mixed)
        length /= 2
    return None


def _objective(mixture: Mixture, field: Field, u: Floats) -> tuple[float, Floats, Floats]:
    """Log-likelihood − ½|u|², and the distributions of cells and outputs."""
    theta = field.theta(u)
    law = np.exp(theta - theta.max())
    law /= law.sum()
    mixed = mixture.forward(law)
    return log_likelihood(mixture, mixed) - float(np.sum(u * u)) / 2, law, mixed
