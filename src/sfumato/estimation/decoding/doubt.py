"""How much rougher than a smooth prior the population may be, and what that adds to an error.

A smooth fit explains the reports by a field that varies slowly. Real populations may vary more:
cells may differ from their neighbours each on its own, or all cells of one value of an axis
together (ages that are rounded to tens, whatever the second axis says). So θ may be the field plus
independent terms of variance τ², one per cell, or one per value of an axis. For each kind of term:

With g the derivative of the log-likelihood by θ at the mode and M = F − F·H⁻¹·F its covariance
under the prior, both summed over the cells of a term, the log evidence changes with τ² at 0 by
½·(|g|² − tr M), and |g|² has the mean tr M + τ²·tr M² and, at τ = 0, the variance 2·tr M². So
(|g|² − tr M)/tr M² estimates τ² with the standard error √(2/tr M²). Beforehand there is no such
term with probability one half, and otherwise any τ² up to 1 is as likely as any other; the
posterior mean is used. Traces are estimated with random signs.

A sum with derivative h by θ then has, to first order in τ², the further variance τ²·|h − F·H⁻¹h|²,
again summed over the cells of a term: what the smooth fit does not take from the reports.

That judges fine detail by coarser detail. Of waves so fine that the channel hides them, the
reports say nothing: ages may be rounded to tens, and noise much wider than ten years will not
show it. On one axis of moderate length such detail is heaps (`heaps`), of which reports tell more
than of detail of any kind. Elsewhere waves about which the reports have an information of less
than 1 get the variance `UNSEEN`, whatever τ² is along the others.

On one axis there is also room for people who stand out, whom no terms of one size describe
(`standing_out`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import fft
from scipy.special import expit
from scipy.stats import norm

from sfumato.arrays import Floats
from sfumato.estimation.decoding.curvature import LARGE, LARGEST
from sfumato.estimation.decoding.fitting import Fit
from sfumato.estimation.decoding.heaps import Heaps
from sfumato.estimation.decoding.mixture import MOST_CELLS, Likelihood
from sfumato.estimation.decoding.standing_out import StandingOut

UNSEEN = 1.0  # the variance of log shares along waves that no report can show
_PROBES = ((LARGE, 8), (LARGEST, 2), (MOST_CELLS, 1))  # random signs, on grids of so many cells
_CERTAIN = 30.0  # standard errors
_MOST = 1.0  # the largest τ² that is expected beforehand


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """Independent terms of one kind.

    Args:
        summed: The axes whose cells share a term; none where every cell has its own.
        z: Standard errors by which the reports are rougher than the smooth fit explains.
        variance: τ², the posterior mean of the variance of a term.
        unseen: The variance along waves over the terms about which the reports say next to nothing;
            0 along the others.
    """

    summed: tuple[int, ...]
    z: float
    variance: float
    unseen: Floats


class Doubt:
    """What smoothness may leave out of a fit.

    Args:
        mixture: The log-likelihood.
        fitted: A fit with a smooth prior.
    """

    def __init__(self, mixture: Likelihood, fitted: Fit) -> None:
        self._mixture, self._fit = mixture, fitted
        self._asked = StandingOut(mixture, fitted)

    @cached_property
    def heaps(self) -> Heaps | None:
        """Heaps that the fit leaves out; None where they are not judged."""
        judged = Heaps.are_judged(self._fit)
        return Heaps(self._mixture, self._fit, self._asked) if judged else None

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """Terms of single cells, and on several axes those of every value of an axis."""
        axes = range(self._fit.law.ndim)
        kinds = [()] if len(axes) == 1 else [(), *(tuple(d for d in axes if d != a) for a in axes)]
        return tuple(self._term(summed) for summed in kinds)

    @property
    def is_rough(self) -> float:
        """The most standard errors by which reports are rougher than smoothness explains."""
        return max(term.z for term in self.terms)

    def _term(self, summed: tuple[int, ...]) -> Term:
        """One kind of term."""
        # Fixed: the same reports, the same answer.
        rng = np.random.Generator(np.random.PCG64(2))
        shape = self._fit.law.shape
        kept = [1 if axis in summed else size for axis, size in enumerate(shape)]
        probes = next(few for cells, few in _PROBES if math.prod(shape) <= cells)
        signs = rng.choice([-1.0, 1.0], size=(probes, *kept))
        once = self._asked.informed(np.broadcast_to(signs, (probes, *shape)))
        _, left = self._fit.curvature.respond(once)
        left = left.sum(axis=tuple(axis + 1 for axis in summed), keepdims=True)
        mean, square = float(np.sum(signs * left)) / probes, float(np.sum(left**2)) / probes
        found = float(np.sum(self._asked.score.sum(axis=summed, keepdims=True) ** 2))
        z = (found - mean) / math.sqrt(2 * square) if square > 0 else 0.0
        variance = _mean_variance(z, math.sqrt(2 / square) if square > 0 else math.inf)
        return Term(summed, z, variance, self._unseen(summed))

    def _unseen(self, summed: tuple[int, ...]) -> Floats:
        """The variance along waves over the terms of one kind that have an information below 1.

        Along unordered axes there are no waves: every label has its own.
        """
        if self.heaps is not None:
            return np.zeros(self._fit.law.shape)
        told = self._mixture.transfer(self._ordered)
        for axis in reversed(summed):
            told = np.asarray(told.take(0, axis=axis))
            if not self._ordered[axis]:
                told = told / float(told.flat[0])  # the constants over labels are not attenuated
        told = self._mixture.people / told.size * told
        return np.where(told < 1, UNSEEN, 0.0)

    @property
    def _ordered(self) -> tuple[bool, ...]:
        """For each axis, whether it is smoothed."""
        return tuple(any(along) for along in self._fit.field.strengths.along)

    def variance(self, rows: Floats, sensitive: Floats, left: Floats) -> Floats:
        """The variance that the terms add to sums, one per row.

        Args:
            rows: Weights w of the sums, shape (rows, *cells).
            sensitive: The derivatives h of the sums by θ, likewise.
            left: h − F·H⁻¹h, likewise.
        """
        total = np.zeros(len(left))
        if left.ndim == 2:
            total = self._asked.variance(rows, sensitive, left)
        if self.heaps is not None:
            total = total + self.heaps.variance(left)
        for term in self.terms:
            part = left.sum(axis=tuple(axis + 1 for axis in term.summed))
            total += term.variance * np.sum(part.reshape(len(left), -1) ** 2, axis=1)
            unseen = term.unseen - term.variance - self._fit.field.strengths.apart
            is_unseen = unseen > 0
            if np.any(is_unseen):
                kept = [o for axis, o in enumerate(self._ordered) if axis not in term.summed]
                along = tuple(place for place, o in enumerate(kept, start=1) if o)
                waves = fft.dctn(part, axes=along, norm="ortho") if along else part
                total += waves[:, is_unseen] ** 2 @ unseen[is_unseen]
        return total


def _mean_variance(z: float, error: float) -> float:
    """The posterior mean of τ² from an estimate of z standard errors, and the standard error."""
    if not math.isfinite(error):
        return _MOST / 4
    if abs(z) > _CERTAIN:
        return max(z, 0.0) * error
    most = max(_MOST, 2 * z * error)
    low, high = -z, most / error - z
    inside = _log_between(low, high)
    chance = float(expit(math.log(error / most) + inside - norm.logpdf(z)))  # that there is a term
    ends = math.exp(norm.logpdf(low) - inside) - math.exp(norm.logpdf(high) - inside)
    return chance * error * max(z + ends, 0.0)


def _log_between(low: float, high: float) -> float:
    """The logarithm of the probability that a standard normal variable is between two numbers."""
    if low > 0:
        low, high = -high, -low
    upper, lower = float(norm.logcdf(high)), float(norm.logcdf(low))
    return upper + math.log(-math.expm1(lower - upper)) if lower < upper else -math.inf
