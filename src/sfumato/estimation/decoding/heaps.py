"""Heaps: people at multiples of a number, as ages that are rounded to fives or tens.

A channel that hides fine detail also hides heaps, and a smooth fit leaves them out. So on one
axis θ may be the smooth field plus heaps of some period k: one more term per residue of the
cell's number modulo k, of variance s. Whether there are any, with which of `PERIODS` and `SIZES`,
is judged by the reports. With g the derivative of the log-likelihood by θ at the mode, M = F −
F·H⁻¹·F its covariance under the prior, and both summed over the cells of each residue, g ~ N(0,
M) without heaps and N(0, M + s·M²) with them. In the eigenvectors of M, with eigenvalues μ, the
log odds are

    ½·Σ s·g²/(1 + s·μ) − ½·Σ log(1 + s·μ),

and the terms have the posterior mean s·g/(1 + s·μ) and the variance s/(1 + s·μ). Beforehand there
are heaps with probability one half, and all periods and sizes are equally likely.

What a sum takes from such terms is left = h − F·H⁻¹·h for its derivative h by θ, again summed
over the cells of each residue. An interval that is to hold wherever there may be heaps needs all
the room that they take, unless reports speak against them: so the mean square over periods and
sizes counts with the factor min(1, 2P), where P is the probability of heaps.

If reports are clear about them (P > `CLEAR`), answers follow: θ gets the mean of the terms. All
this is to second order around the fit, so they do not follow if that makes the reports likelier
by less than the log odds of heaps: where nearly all cells are empty, or where cells' own terms
have taken part of the heaps already.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit, logsumexp, softmax

from sfumato.arrays import Floats
from sfumato.estimation.decoding.fitting import Fit
from sfumato.estimation.decoding.mixture import LOOSE_CELLS, Likelihood
from sfumato.estimation.decoding.standing_out import StandingOut

PERIODS = (*range(2, 11), 12, 15, 20, 24, 25, 30, 50, 60, 100)
SIZES = (0.3, 1.0)  # variances of log shares
CLEAR = 0.98  # the probability of heaps from which answers follow them: 4 nats
_FEWEST_TURNS = 3  # of a period along the axis


@dataclass(frozen=True, slots=True, eq=False)
class _Period:
    """What reports say about terms of one period.

    Args:
        vectors: The eigenvectors of M by residue, as columns.
        values: Its eigenvalues μ.
        score: g along the eigenvectors.
    """

    vectors: Floats
    values: Floats
    score: Floats

    def log_odds(self, size: float) -> float:
        """Log odds of terms of this size against none.

        Args:
            size: s.
        """
        known = 1 + size * self.values
        return float(np.sum(size * self.score**2 / known - np.log(known))) / 2

    def mean(self, size: float) -> Floats:
        """The posterior means of the terms along the eigenvectors.

        Args:
            size: s.
        """
        result: Floats = size * self.score / (1 + size * self.values)
        return result


class Heaps:
    """Heaps of a population on one axis that a fit leaves out.

    Args:
        mixture: The log-likelihood.
        fitted: The fit; heaps that vary less than its cells' own terms are left to those.
        asked: What reports say beyond the fit.
    """

    def __init__(self, mixture: Likelihood, fitted: Fit, asked: StandingOut) -> None:
        self._mixture, self._fit, self._asked = mixture, fitted, asked
        cells = fitted.law.size
        self._sizes = tuple(size for size in SIZES if size > fitted.field.strengths.apart)
        self._periods = [k for k in PERIODS if _FEWEST_TURNS * k <= cells]

    @staticmethod
    def are_judged(fitted: Fit) -> bool:
        """Whether heaps are looked for: on one axis, long enough for some, of moderate length."""
        return fitted.law.ndim == 1 and _FEWEST_TURNS * PERIODS[0] <= fitted.law.size <= LOOSE_CELLS

    @cached_property
    def _told(self) -> list[_Period]:
        """What reports say about every period; all rows at once, which is faster."""
        cells = np.arange(self._fit.law.size)
        residues = [cells % k == np.arange(k)[:, None] for k in self._periods]
        rows = np.concatenate(residues).astype(np.float64)
        _, left = self._fit.curvature.respond(self._asked.informed(rows))
        ends = np.cumsum(self._periods)[:-1]
        parts = zip(np.split(rows, ends), np.split(left, ends), strict=True)
        return [self._period(own, passed) for own, passed in parts]

    def _period(self, rows: Floats, left: Floats) -> _Period:
        """What reports say about one period.

        Args:
            rows: 1 in the cells of each residue, shape (period, cells).
            left: F·v − F·H⁻¹·F·v of these rows v.
        """
        covariance = left @ rows.T
        values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
        score = vectors.T @ (rows @ self._asked.score)
        return _Period(vectors, np.maximum(values, 0.0), score)

    @cached_property
    def _log_odds(self) -> Floats:
        """Log odds of every period and size against no heaps, shape (periods, sizes)."""
        return np.array([[one.log_odds(size) for size in self._sizes] for one in self._told])

    @cached_property
    def _odds(self) -> float:
        """Log odds of heaps of any kind against none."""
        return float(logsumexp(self._log_odds)) - math.log(self._log_odds.size)

    @property
    def probability(self) -> float:
        """P, that there are heaps."""
        return float(expit(self._odds)) if self._sizes else 0.0

    def variance(self, left: Floats) -> Floats:
        """The variance that heaps add to sums, one per row.

        Args:
            left: h − F·H⁻¹h for the derivatives h of the sums by θ, shape (rows, cells).
        """
        square, mean = np.zeros(len(left)), np.zeros(len(left))
        if not self._sizes:
            return square
        for one, period, shares in zip(self._told, self._periods, self._shares, strict=True):
            sums = _by_residue(left, period) @ one.vectors
            for size, share in zip(self._sizes, shares, strict=True):
                change = sums @ one.mean(size)
                square += share * (sums**2 @ (size / (1 + size * one.values)) + change**2)
                mean += share * change
        moved = 0.0 if self.followed is None else self.probability * mean
        result: Floats = min(1.0, 2 * self.probability) * square - moved**2
        return result

    @cached_property
    def _shares(self) -> Floats:
        """Probabilities of periods and sizes, if there are heaps."""
        found: Floats = softmax(self._log_odds)
        return found

    @cached_property
    def followed(self) -> Floats | None:
        """The distribution over cells with heaps, if answers follow them."""
        if self.probability <= CLEAR:
            return None
        law: Floats = softmax(self._fit.theta + self.terms)
        gain = self._mixture.value(self._mixture.forward(law)) - self._mixture.value(
            self._fit.mixed
        )
        return law if gain > self._odds else None

    @property
    def terms(self) -> Floats:
        """The mean of the terms in every cell."""
        cells = np.arange(self._fit.law.size)
        found = np.zeros(len(cells))
        for one, period, shares in zip(self._told, self._periods, self._shares, strict=True):
            mean = sum(
                share * one.mean(size) for size, share in zip(self._sizes, shares, strict=True)
            )
            found += (one.vectors @ mean)[cells % period]
        return self.probability * found


def _by_residue(rows: Floats, period: int) -> Floats:
    """Sums over the cells of each residue, shape (rows, period)."""
    size = rows.shape[1]
    padded = np.pad(rows, ((0, 0), (0, -size % period)))
    result: Floats = padded.reshape(len(rows), -1, period).sum(axis=1)
    return result
