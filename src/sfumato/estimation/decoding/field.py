"""How cells hang together: a Gaussian field on the logarithms of their shares.

The law of cells is p ∝ e^θ. Before any report, θ is Gaussian: unordered cells vary by themselves
(strength λ₀), and along an ordered axis first and second differences are kept small (λ₁, λ₂). Given
the reports, the likeliest θ is found by Newton's method; the likelihood of the strengths
themselves, with θ integrated out to second order (Laplace), says how much smoothing the reports
want. Spiky populations get none, smooth ones much, and nothing is set by hand.

Everything happens in coordinates u in which the prior is standard: θ = B·u, and the curvature is
I + K with K = Bᵀ F B, F the information that the reports carry about θ. Few directions have K
large, so conjugate gradients are quick; grids of up to a few hundred cells use matrices instead.
Where cells vary by themselves K is large in as many directions as there are people's cells, by
factors of a million: there its diagonal, found from a few probes, is divided out first, for the
determinant always and for steps on large grids.
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
_LONG_AXIS = 1024  # beyond so many cells cosines stand for an axis' own vectors
_MOST_NEWTON = 60
_LONGEST_STEP = 4.0
_GAIN = 1e-3  # nats: a step that gains less ends the search, if the curvature is fresh
_GAIN_SHARE = 1e-8  # of a nat a person, where that is more
_FRESH = 0.05  # nats gained since the curvature was found: it is still right
_STALE = 2.0  # nats gained since: it is time to find it anew
_CG_TOLERANCE = 1e-2
_ROUGH_TOLERANCE = 1e-1
_EXACT_TOLERANCE = 1e-4
_MOST_CG = 200
_LARGE, _LARGEST = 1 << 14, 1 << 18
_DIAGONAL_PROBES = 8
_SETTLED_SHARE = 1e-5  # of a nat a person: a step that promises more is not near the top


@dataclass(frozen=True, slots=True)
class Strengths:
    """λ₀, and (λ₁, λ₂) for each axis; unordered axes have (0, 0)."""

    cells: float
    along: tuple[tuple[float, float], ...]


@lru_cache(maxsize=64)
def roughness(size: int, first: float, second: float) -> tuple[Floats, Floats]:
    """Eigenvalues and eigenvectors of λ₁·D₁ᵀD₁ + λ₂·D₂ᵀD₂ on a line of cells."""
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
    """The same eigenvalues along a long line, where the vectors are cosines.

    For first differences that is exact; second ones are those of the line mirrored at its ends.
    """
    steps: Floats = 4 * np.sin(np.pi * np.arange(size) / (2 * size)) ** 2
    return first * steps + second * steps**2


class Field:
    """The prior on θ for given strengths, as a change of coordinates."""

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
        # The level of θ means nothing (p is normalised): any precision will do for it.
        self._scale = 1.0 / np.sqrt(np.where(total > 1e-9, total, 1.0))

    @property
    def is_rough(self) -> bool:
        """Whether every cell varies by itself."""
        return all(basis is None for basis in self._bases)

    def theta(self, u: Floats) -> Floats:
        """From standard coordinates to θ."""
        out = u * self._scale
        for axis, basis in enumerate(self._bases):
            if isinstance(basis, str):
                out = fft.idct(out, axis=axis, norm="ortho")
            elif basis is not None:
                out = np.moveaxis(np.tensordot(basis, out, axes=([1], [axis])), 0, axis)
        return out

    def coordinates(self, gradient: Floats) -> Floats:
        """The transpose of `theta`: from gradients in θ to gradients in u."""
        out = gradient
        for axis, basis in enumerate(self._bases):
            if isinstance(basis, str):
                out = fft.dct(out, axis=axis, norm="ortho")
            elif basis is not None:
                out = np.moveaxis(np.tensordot(basis, out, axes=([0], [axis])), 0, axis)
        return out * self._scale

    def from_theta(self, theta: Floats) -> Floats:
        """The coordinates of a given θ."""
        return self.coordinates(theta) / self._scale**2

    @cached_property
    def matrix(self) -> Floats:
        """`theta` as a matrix, for small grids."""
        cells = math.prod(self.shape)
        columns = [self.theta(unit.reshape(self.shape)).ravel() for unit in np.eye(cells)]
        return np.array(columns).T


class Curvature:
    """I + K at a law p: products, solutions and the logarithm of its determinant."""

    def __init__(self, mixture: Mixture, field: Field, law: Floats, mixed: Floats) -> None:
        self._mixture, self._field = mixture, field
        self._law, self._weight = law, mixture.information(mixed)
        self._factor = None
        if law.size <= DENSE_CELLS:
            curved = field.matrix.T @ self._information(mixed) @ field.matrix
            self._factor = cho_factor(curved + np.eye(law.size), lower=True)

    @property
    def is_dense(self) -> bool:
        """Whether matrices are kept, which are worth using for more than one step."""
        return self._factor is not None

    def _information(self, mixed: Floats) -> Floats:
        """F as a matrix: Σ weight·cᵀc over outputs, c = p·(likelihood − mixed)."""
        matrix, weight = self._mixture.matrix, self._weight.reshape(-1)
        law, output = self._law.reshape(-1), mixed.reshape(-1)
        scaled = matrix * np.sqrt(weight)
        raw = scaled @ scaled.T
        cross = matrix @ (weight * output)
        raw -= cross[:, None] + cross[None, :]
        raw += float(np.sum(weight * output**2))
        result: Floats = law[:, None] * raw * law[None, :]
        return result

    def times(self, u: Floats) -> Floats:
        """(I + K)·u, by passing once through the channels and back."""
        through = self._mixture.forward(self._centre(self._field.theta(u)))
        back = self._mixture.backward(through * self._weight)
        return u + self._field.coordinates(self._centre(back))

    def _centre(self, v: Floats) -> Floats:
        """The derivative of p in direction v, which is its own transpose: p·(v − Σpv)."""
        result: Floats = self._law * (v - np.sum(self._law * v))
        return result

    def solve(self, u: Floats, *, tolerance: float | None = None) -> Floats:
        """(I + K)⁻¹·u, to what a step needs; several right-hand sides stand in leading axes."""
        if self._factor is not None:
            flat = u.reshape(-1, self._law.size)
            solved: Floats = cho_solve(self._factor, flat.T).T.reshape(u.shape)
            return solved
        if u.ndim > self._law.ndim:
            return np.array([self.solve(part, tolerance=tolerance) for part in u])
        effort = _affordable(self._field)
        wanted = effort.tolerance if tolerance is None else tolerance
        # Undivided, products turn to the heaviest cells first: on grids where there is time for
        # many, that leads to better tops.
        diagonal = self._diagonal if self._law.size > _LARGE else np.ones(self._law.shape)
        return conjugate_gradients(self.times, u, diagonal, wanted, effort.products)

    @cached_property
    def _diagonal(self) -> Floats:
        """About the diagonal of I + K where cells vary by themselves; elsewhere that of I.

        Squares of a root of K times random signs have the diagonal of K as their mean.
        """
        found = np.ones(self._law.shape)
        if not self._field.is_rough:
            return found
        rng = np.random.Generator(np.random.PCG64(1))  # fixed: the same reports, the same answer
        for _ in range(_DIAGONAL_PROBES):
            signs = rng.choice([-1.0, 1.0], size=self._weight.shape)
            found += self._seen(signs) ** 2 / _DIAGONAL_PROBES
        return found

    def _seen(self, values: Floats) -> Floats:
        """A root of K, one column an output, times values: K is this times its transpose."""
        back = self._mixture.backward(np.sqrt(self._weight) * values)
        return self._field.coordinates(self._centre(back))

    def draw(self, rng: np.random.Generator) -> Floats:
        """θ less its mean, drawn from its posterior: Gaussian with covariance B(I + K)⁻¹Bᵀ."""
        # (I + K)⁻¹ applied to a vector of covariance I + K has covariance (I + K)⁻¹.
        noise = rng.standard_normal(self._law.shape)
        source = noise + self._seen(rng.standard_normal(self._weight.shape))
        return self._field.theta(self.solve(source, tolerance=_EXACT_TOLERANCE))

    def log_determinant(self) -> float:
        """log|I + K|: exactly from the factor, or by stochastic Lanczos quadrature."""
        if self._factor is not None:
            return 2.0 * float(np.log(np.diag(self._factor[0])).sum())
        probes = max(2, min(8, (1 << 14) // self._law.size))
        rng = np.random.Generator(np.random.PCG64(0))  # fixed: strengths are compared alike
        return log_determinant(self.times, self._diagonal, probes, rng)


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """The likeliest θ for given strengths, and how likely the strengths themselves are."""

    field: Field
    law: Floats
    mixed: Floats
    u: Floats
    evidence: float
    curvature: Curvature
    steps: int
    is_settled: bool = True  # or a step might still have gained much when steps ran out

    def theta(self) -> Floats:
        """The logarithms of the shares, up to a constant."""
        return self.field.theta(self.u)


def fit(mixture: Mixture, field: Field, start: Floats | None = None, *, weigh: bool = True) -> Fit:
    """Newton's method on log-likelihood − ½|u|²; every accepted step goes up.

    Args:
        mixture: Counts and channels.
        field: The prior.
        start: θ to start from; left out, all cells alike.
        weigh: Also find the evidence of the strengths; without, it is NaN.
    """
    people = float(mixture.counts.sum())
    enough = max(_GAIN, people * _GAIN_SHARE)
    u = np.zeros(field.shape) if start is None else field.from_theta(start)
    value, law, mixed = _objective(mixture, field, u)
    curvature = Curvature(mixture, field, law, mixed)
    steps, since, promised = 0, 0.0, 0.0
    most_steps = _affordable(field).steps
    while steps < most_steps:
        steps += 1
        multiplier = mixture.backward(posterior_ratio(mixture, mixed))
        gradient = field.coordinates(law * (multiplier - people)) - u
        direction = curvature.solve(gradient)
        promised = float(np.sum(gradient * direction)) / 2
        found = _uphill(mixture, field, u, value, direction)
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
        ):  # the old curvature no longer leads uphill quickly
            curvature, since = Curvature(mixture, field, law, mixed), 0.0
    if since:
        curvature = Curvature(mixture, field, law, mixed)
    evidence = value - curvature.log_determinant() / 2 if weigh else math.nan
    is_settled = promised <= max(enough, people * _SETTLED_SHARE)
    return Fit(field, law, mixed, u, evidence, curvature, steps, is_settled)


class _Effort(NamedTuple):
    """The most Newton steps, the most products for each, and how exact a direction must be."""

    steps: int
    products: int
    tolerance: float


def _affordable(field: Field) -> _Effort:
    """On larger grids a rough direction is enough, and all that can be afforded.

    Where cells vary by themselves, more and rougher steps go up further for the same products.
    """
    cells = math.prod(field.shape)
    if cells <= _LARGE:
        return _Effort(_MOST_NEWTON, _MOST_CG, _CG_TOLERANCE)
    if field.is_rough:
        return _Effort(*((40, 60) if cells <= _LARGEST else (25, 40)), _ROUGH_TOLERANCE)
    return _Effort(*((25, 40) if cells <= _LARGEST else (12, 25)), _CG_TOLERANCE)


@dataclass(frozen=True, slots=True, eq=False)
class _Point:
    """A place on the way up."""

    u: Floats
    value: float
    law: Floats
    mixed: Floats


def _uphill(
    mixture: Mixture, field: Field, u: Floats, value: float, direction: Floats
) -> _Point | None:
    """The longest of ever shorter steps that does not go down, or None."""
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
    """Log-likelihood less the prior's penalty, with the laws of cells and outputs."""
    theta = field.theta(u)
    law = np.exp(theta - theta.max())
    law /= law.sum()
    mixed = mixture.forward(law)
    return log_likelihood(mixture, mixed) - float(np.sum(u * u)) / 2, law, mixed
