"""The curvature of the posterior of θ at a point: H = P + F, by the structure of the problem.

P is the precision of the prior (`sfumato.estimation.decoding.field`).

F = J·Q·diag(w)·Qᵀ·J is the information of the reports about θ, where Q is the channel, w are the
weights of `Mixture.weight` and J = diag(p) − ppᵀ is ∂p/∂θ. Constants added to θ change nothing:
J·1 = 0. All forms solve with the *completed* curvature H' = H + n·ppᵀ, which is never singular:
1ᵀH' = λ₀·1ᵀ + n·pᵀ turns its solutions into those of H (`_Completed`).

- `BandedCurvature`: geometric noise on a line. The inverse T of Q is tridiagonal. With D = diag(p)
  and M = Tᵀ·diag(q/n)·T, H' = Λ + D·M⁻¹·D is the Schur complement of [[Λ, D], [D, −M]], which has
  nine bands if the two halves are interleaved: everything is exact in O(cells). Where cells have
  terms of their own, θ = s + τ·t with s smooth and t standard, there are three unknowns per cell,
  and the system is [[Λ, 0, D], [0, I, τ·D], [D, τ·D, −M]].
- `DenseCurvature`: a matrix over all cells; for small grids.
- `ReducedCurvature`: a matrix over the waves of low frequency that the reports can tell; for
  smooth priors on grids of any size (`Waves`).
- `ProductCurvature`: products only; for rough priors on large grids. Few directions have F large
  relative to P, so conjugate gradients converge fast. Under a rough prior it is large in as many
  directions as there are cells with people; its diagonal, estimated from a few probes (Bekas2007),
  then serves as preconditioner.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve, lapack

from sfumato.arrays import Floats
from sfumato.channels.geometric_noise import NoiseLine
from sfumato.estimation.decoding.field import Field, Strengths
from sfumato.estimation.decoding.mixture import Likelihood, SymbolMixture
from sfumato.estimation.decoding.solvers import conjugate_gradients, log_determinant
from sfumato.estimation.decoding.waves import Waves

_CG_TOLERANCE = 1e-2
_ROUGH_TOLERANCE = 1e-1
_ANSWER_TOLERANCE = 1e-3
LARGE, LARGEST = 1 << 14, 1 << 18
_MOST_CG = 200


class Point(NamedTuple):
    """Where the curvature is taken.

    Args:
        mixture: The counts of outputs, and the channels.
        field: The prior.
        law: The distribution p over cells.
        mixed: The distribution of outputs, q = pQ.
    """

    mixture: Likelihood
    field: Field
    law: Floats
    mixed: Floats

    @property
    def people(self) -> float:
        """n, the number of people."""
        return self.mixture.people

    def centred(self, v: Floats) -> Floats:
        """J·v = p·(v − Σpv), the derivative of p in direction v, for any number of v."""
        axes = tuple(range(-self.law.ndim, 0))
        mean = np.sum(self.law * v, axis=axes, keepdims=True)
        result: Floats = self.law * (v - mean)
        return result


class Foreseen(NamedTuple):
    """A fit under another prior, as it is foreseen.

    Args:
        gain: By how much its evidence is larger, in nats.
        theta: Its mode.
    """

    gain: float
    theta: Floats


class Curvature(Protocol):
    """H at a point: solutions and the determinant."""

    #: Whether it is worth using one factorisation for several steps.
    reusable: ClassVar[bool]

    def solve(self, h: Floats) -> Floats:
        """H⁻¹·h, for one h of the shape of the grid or several along leading axes.

        Where λ₀ is 0, h must sum to zero, as all derivatives by θ do.
        """
        ...

    def respond(self, h: Floats) -> tuple[Floats, Floats]:
        """hᵀH⁻¹h of every row, and P·H⁻¹h = h − F·H⁻¹h: what is not taken from the reports.

        Args:
            h: Right-hand sides, shape (rows, *cells).
        """
        ...

    def log_determinant(self) -> float:
        """Log det H − log det P, without the constants where λ₀ is 0."""
        ...


class _Completed:
    """Solutions and determinant of H from those of H' = H + n·ppᵀ.

    With y = H'⁻¹·p, 1ᵀH' = λ₀·1ᵀ + n·pᵀ gives 1 − n·pᵀy = λ₀·Σy, which does not cancel. Where λ₀ is
    0, a solution of H' whose right-hand side sums to zero is one of H.
    """

    reusable: ClassVar[bool] = True

    def __init__(self, at: Point) -> None:
        self._at = at
        self._ridge = at.field.strengths.cells

    def _solve(self, h: Floats) -> Floats:
        """H'⁻¹·h for rows h, shape (rows, cells)."""
        raise NotImplementedError

    def _log_determinant(self) -> float:
        """Log det H'."""
        raise NotImplementedError

    def _prior_log_determinant(self) -> float:
        """Log det P, without the constants where λ₀ is 0."""
        return self._at.field.log_determinant

    @cached_property
    def _constant(self) -> tuple[Floats, float]:
        """Y = H'⁻¹·p and λ₀·Σy."""
        y = self._solve(self._at.law.reshape(1, -1))[0]
        return y, self._ridge * float(y.sum())

    def solve(self, h: Floats) -> Floats:
        """H⁻¹·h, for one h of the shape of the grid or several along leading axes."""
        flat = h.reshape(-1, self._at.law.size)
        found = self._solve(flat)
        if self._ridge:
            y, rest = self._constant
            share = flat.sum(axis=1) - self._ridge * found.sum(axis=1)
            found = found + np.multiply.outer(share / rest, y)
        return found.reshape(h.shape)

    def respond(self, h: Floats) -> tuple[Floats, Floats]:
        """hᵀH⁻¹h of every row, and P·H⁻¹h.

        Args:
            h: Right-hand sides, shape (rows, *cells).
        """
        solved = self.solve(h)
        return np.sum((h * solved).reshape(len(h), -1), axis=1), self._at.field.pull(solved)

    def log_determinant(self) -> float:
        """Log det H − log det P, without the constants where λ₀ is 0."""
        whole = self._log_determinant() - self._prior_log_determinant()
        if self._ridge:
            return whole + math.log(self._constant[1])
        return whole - math.log(self._at.people / self._at.law.size)


class BandedCurvature(_Completed):
    """H for geometric noise on a line: a banded system of two unknowns per cell.

    A capped channel is the noise with a fixed chance s: q = s·pQ + fixed, and J·Q is s times that
    of the noise. Then D·Q·diag(w)·Qᵀ·p is no longer n·p, and H' has a correction of rank two.

    Args:
        at: Where it is taken.
        mixture: The counts of outputs.
        line: The noise.
    """

    def __init__(self, at: Point, mixture: SymbolMixture, line: NoiseLine) -> None:
        super().__init__(at)
        self._mixture = mixture
        size, law = at.law.size, at.law
        spread = at.mixed / at.people
        bands = at.field.bands
        inner = _squared_bands(line.inverse_bands(size), spread) / line.share**2
        # The last unknown is scaled so that all are of the same size.
        scale = math.sqrt(float(np.median(bands[0])) / float(np.median(inner[0])))
        self._parts = [1.0]  # θ as a sum of the unknowns of a cell, without the last
        blocks = [bands]
        if at.field.strengths.apart:
            self._parts.append(math.sqrt(at.field.strengths.apart))
            blocks.append(np.concatenate([np.ones((1, size)), np.zeros((2, size))]))
        beside = [scale * part * law for part in self._parts]
        system = _interleaved([*blocks, -(scale**2) * inner], beside)
        self._factor, self._pivots, problem = lapack.dgbtrf(system, *self._band)
        if problem:
            raise np.linalg.LinAlgError("the curvature is singular")
        determinant = float(np.sum(np.log(np.abs(self._factor[2 * self._band[0]]))))
        known = size * 2 * math.log(scale / line.share) + 2 * line.log_determinant(size)
        self._whole = determinant - known - float(np.sum(np.log(spread)))
        self._sides: tuple[Floats, Floats, Floats] | None = None
        if line.share < 1:
            self._correct(line)

    def _correct(self, line: NoiseLine) -> None:
        """Add U·S·Uᵀ with U = (p, b), b = D·A·p, S = [[c + n, −1], [−1, 0]] and c = pᵀAp."""
        at = self._at
        own = self._mixture.weight(at.mixed) * (at.mixed - line.fixed)
        beside = at.law * (self._mixture.backward(own) - float(own @ line.fixed))
        total = float(beside.sum()) + at.people
        columns: Floats = np.array([at.law, beside])
        solved = self._banded(columns)
        core = np.array([[0.0, -1.0], [-1.0, -total]]) + columns @ solved.T
        inverse: Floats = np.linalg.inv(core).astype(np.float64, copy=False)
        self._sides = columns, solved, inverse
        self._whole += math.log(abs(float(np.linalg.det(core))))

    def _banded(self, h: Floats) -> Floats:
        """Solutions of the banded system."""
        kinds = len(self._parts) + 1
        right = np.zeros((kinds * h.shape[1], len(h)), order="F")
        for kind, part in enumerate(self._parts):
            right[kind::kinds] = part * h.T
        found, _ = lapack.dgbtrs(self._factor, *self._band, right, self._pivots, overwrite_b=True)
        solved: Floats = sum(part * found[kind::kinds] for kind, part in enumerate(self._parts)).T
        return solved

    @property
    def _band(self) -> tuple[int, int]:
        """Diagonals on each side of the interleaved system: Λ and M have two."""
        on_each_side = 2 * (len(self._parts) + 1)
        return on_each_side, on_each_side

    def _solve(self, h: Floats) -> Floats:
        """H'⁻¹·h for rows h."""
        found = self._banded(h)
        if self._sides is not None:
            columns, solved, core = self._sides
            found = found - (found @ columns.T) @ core @ solved
        return found

    def _log_determinant(self) -> float:
        """Log det H'. The system's own is that with Λ and I instead of P."""
        field = self._at.field
        return self._whole - field.smooth_log_determinant + field.log_determinant


def _interleaved(own: list[Floats], beside: list[Floats]) -> Floats:
    """A symmetric system of several unknowns per cell, as `dgbtrf` takes it.

    Args:
        own: For each unknown, the bands of its own block, as `precision_bands` has them.
        beside: For each unknown but the last, its diagonal block with the last.
    """
    kinds, size = len(own), own[0].shape[1]
    band = 2 * kinds
    system = np.zeros((3 * band + 1, kinds * size))
    middle = 2 * band
    for kind, bands in enumerate(own):
        for k, part in enumerate(bands):
            system[middle - kinds * k, kind + kinds * k :: kinds] = part[: size - k]
            system[middle + kinds * k, kind : kinds * (size - k) : kinds] = part[: size - k]
    last = kinds - 1
    for kind, part in enumerate(beside):
        system[middle - (last - kind), last::kinds] = part
        system[middle + (last - kind), kind::kinds] = part
    return system


def _squared_bands(inverse: Floats, weight: Floats) -> Floats:
    """The bands of Tᵀ·diag(v)·T for a tridiagonal T, shape (3, cells).

    Args:
        inverse: T by bands: below the diagonal, on it and above it, each from its first entry on.
        weight: v.
    """
    below, own, above = inverse
    found = np.zeros((3, len(own)))
    found[0] = own**2 * weight
    found[0, 1:] += above[:-1] ** 2 * weight[:-1]
    found[0, :-1] += below[:-1] ** 2 * weight[1:]
    found[1, :-1] = own[:-1] * above[:-1] * weight[:-1] + below[:-1] * own[1:] * weight[1:]
    found[2, :-2] = below[:-2] * above[1:-1] * weight[1:-1]
    return found


class DenseCurvature(_Completed):
    """H as a matrix over all cells of a small grid.

    Args:
        at: Where it is taken.
    """

    def __init__(self, at: Point) -> None:
        super().__init__(at)
        law = at.law.reshape(-1)
        matrix = at.mixture.information(at.law, at.mixed)
        matrix += at.people * np.multiply.outer(law, law)
        matrix += at.field.matrix
        self._factor = _factorised(matrix)

    def _solve(self, h: Floats) -> Floats:
        """H'⁻¹·h for rows h."""
        solved: Floats = cho_solve(self._factor, h.T, check_finite=False).T
        return solved

    def _log_determinant(self) -> float:
        """Log det H'."""
        return _log_determinant(self._factor)


def _log_determinant(factor: tuple[Floats, bool]) -> float:
    """Of a matrix with this Cholesky factor."""
    return 2.0 * float(np.log(np.diag(factor[0])).sum())


def _factorised(matrix: Floats) -> tuple[Floats, bool]:
    """A Cholesky factor; the matrix is damped if the prior is lost in rounding."""
    try:
        found = cho_factor(matrix, lower=True)
    except np.linalg.LinAlgError:
        damping = len(matrix) * np.finfo(np.float64).eps * float(np.max(np.diag(matrix)))
        found = cho_factor(matrix + damping * np.eye(len(matrix)), lower=True)
    factor: tuple[Floats, bool] = found
    return factor


class ProductCurvature:
    """H by products, for rough priors on large grids, and wherever no other form fits.

    With θ = B·u, which makes the prior standard normal, H becomes I + K for K = BᵀFB.

    Args:
        at: Where it is taken.
    """

    reusable: ClassVar[bool] = False

    def __init__(self, at: Point) -> None:
        self._at = at
        self._map = at.field.standardised

    def _times(self, u: Floats) -> Floats:
        """(I + K)·u, by one forward and one backward pass through the channels."""
        at = self._at
        curved = at.mixture.curve(at.centred(self._map.theta(u)), at.mixed)
        return u + self._map.coordinates(at.centred(curved))

    def solve(self, h: Floats, *, exact: bool = True) -> Floats:
        """H⁻¹·h.

        Args:
            h: One right-hand side of the shape of the grid, or several along a leading axis.
            exact: False: as exact as a Newton step needs.
        """
        if h.ndim > self._at.law.ndim:
            return np.array([self.solve(part, exact=exact) for part in h])
        wanted = _ANSWER_TOLERANCE if exact else work_for(self._at.field).tolerance
        return self._map.theta(self._solve(self._map.coordinates(h), wanted))

    def _solve(self, u: Floats, tolerance: float) -> Floats:
        """(I + K)⁻¹·u by conjugate gradients."""
        # Without a preconditioner the steps move the cells with most people first. On grids where
        # many products are affordable, that was measured to reach better maxima.
        large = self._at.law.size > LARGE
        diagonal = self._diagonal if large else np.ones(self._at.law.shape)
        most = work_for(self._at.field).products
        return conjugate_gradients(self._times, u, diagonal, tolerance, most)

    @cached_property
    def _diagonal(self) -> Floats:
        """The estimated diagonal of I + K under a rough prior; ones under any other."""
        at = self._at
        if not at.field.is_rough:
            return np.ones(at.law.shape)
        return 1 + at.mixture.diagonal(at.law, at.mixed) / at.field.strengths.cells

    def respond(self, h: Floats) -> tuple[Floats, Floats]:
        """hᵀH⁻¹h of every row, and P·H⁻¹h.

        Args:
            h: Right-hand sides, shape (rows, *cells).
        """
        solved = self.solve(h)
        return np.sum((h * solved).reshape(len(h), -1), axis=1), self._at.field.pull(solved)

    def log_determinant(self) -> float:
        """Log det(I + K) by stochastic Lanczos quadrature."""
        probes = max(2, min(8, (1 << 14) // self._at.law.size))
        rng = np.random.Generator(
            np.random.PCG64(0)
        )  # fixed: all strengths are compared with the same probes
        return log_determinant(self._times, self._diagonal, probes, rng)


class Work(NamedTuple):
    """Most Newton steps, most products per step, and the tolerance of a direction."""

    steps: int
    products: int
    tolerance: float


def work_for(field: Field) -> Work:
    """How much work to spend on products: larger grids get fewer and less exact steps.

    Under a rough prior, more and less exact steps gain more for the same number of products.
    """
    cells = math.prod(field.shape)
    if cells <= LARGE:
        return Work(60, _MOST_CG, _CG_TOLERANCE)
    if field.is_rough:
        return Work(*((40, 60) if cells <= LARGEST else (25, 40)), _ROUGH_TOLERANCE)
    return Work(*((25, 40) if cells <= LARGEST else (4, 25)), _CG_TOLERANCE)


class ReducedCurvature(_Completed):
    """H as a matrix over the waves that the reports can tell, for a smooth prior on a grid.

    Args:
        at: Where it is taken.
        waves: The basis; it contains the constants.
    """

    def __init__(self, at: Point, waves: Waves) -> None:
        super().__init__(at)
        self._waves = waves
        self._told = at.mixture.bend(at.centred(waves.all()), at.mixed)
        self._factor = _factorised(self._completed + np.diag(waves.precision))

    @property
    def _completed(self) -> Floats:
        """F + n·ppᵀ over the waves."""
        shares = self._waves.read(self._at.law[None])
        return self._told + self._at.people * (shares.T @ shares)

    def foresee(self, theta: Floats, strengths: Strengths) -> Foreseen:
        """The fit under another prior, by the log-likelihood to second order in θ.

        It takes no pass through the channels. θ is confined to the same waves; what the others add
        to the evidence is that of cosines.

        Args:
            theta: The mode under this prior, a sum of the waves.
            strengths: The other prior; λ₀ is the same.
        """
        waves, at = self._waves, self._at
        held = waves.read(theta[None])[0]
        score = waves.precision * held
        transfer = at.mixture.transfer(tuple(basis is not None for basis in waves.bases))
        bent = self._told if self._ridge else self._completed
        values: list[float] = []
        for own, prior in (
            (at.field.strengths, np.diag(waves.precision)),
            (strengths, waves.precision_under(strengths)),
        ):
            factor = _factorised(bent + prior)
            mode = cho_solve(factor, self._told @ held + score)
            step = mode - held
            value = float(step @ (score - self._told @ step / 2) - mode @ prior @ mode / 2)
            known = _factorised(prior if self._ridge else prior[1:, 1:])
            whole = _log_determinant(factor) - _log_determinant(known)
            beyond = waves.left_out_under(own, at.people / at.law.size * transfer, at.law)
            values.append(value - (whole + beyond) / 2)
        before, after = values
        return Foreseen(after - before, waves.write(mode[None])[0])

    def _solve(self, h: Floats) -> Floats:
        """The solution among sums of waves."""
        rows = self._waves.read(h.reshape(-1, *self._at.law.shape))
        solved = cho_solve(self._factor, rows.T, check_finite=False).T
        return self._waves.write(solved).reshape(h.shape)

    def respond(self, h: Floats) -> tuple[Floats, Floats]:
        """hᵀH⁻¹h of every row, and P·H⁻¹h among the waves with all of h beyond them.

        Args:
            h: Right-hand sides, shape (rows, *cells).
        """
        read = self._waves.read(h)
        if self._ridge:
            solved = self._waves.read(self.solve(h))
        else:
            solved = cho_solve(self._factor, read.T, check_finite=False).T
        left = h - self._waves.write(read - self._waves.precision * solved)
        return np.sum(read * solved, axis=1), left

    def _log_determinant(self) -> float:
        """Log det H' over the waves, and that of the waves that are left out."""
        whole = _log_determinant(self._factor)
        return whole + self._waves.left_out(self._at.law)

    def _prior_log_determinant(self) -> float:
        """Log det of the precision of waves; the first wave is the constant."""
        held = self._waves.precision if self._ridge else self._waves.precision[1:]
        return float(np.log(held).sum())
