"""People asked about who differ from their surroundings, whatever the prior says of them.

Terms of one size are no model of what stands out, and people ask about what stands out: the fullest
cells, the group next door. So the people asked about may differ from their surroundings by any
factor: θ + δ·w for the weights w of a question, with no prior on δ. With g the derivative of the
log-likelihood by θ at the mode and M = F − F·H⁻¹·F its covariance under the prior, the score wᵀg
has the precision wᵀMw. So δ is estimated as wᵀg/wᵀMw, with the variance 1/wᵀMw, and the sum moves
by c·δ with c = wᵀ(h − F·H⁻¹h) for its derivative h by θ.

Under a smooth prior on one axis that adds c²/wᵀMw to the variance, or the square of the move itself
if it is larger. Of one cell the field takes next to nothing from the reports, and the error is
nearly that of an unbiased answer. Of a wide range it takes nearly all, and what is left, the share
f = c/wᵀh, is at the two ends: there the room is for a step exactly where the question ends. The
more the reports deny such steps, the less likely it is, so of the room the share

    1 − (1 − f)·(1 − u)·s²·wᵀMw/(1 + s²·wᵀMw),  s = `FACTOR`,

is kept: all of it if the reports cannot tell a factor of e^s, and f of it if they can; unless they
contradict the fit in single cells, by more than chance (`_contradicted`, u), which no fit of one
smoothness explains.

Where no axis has an order, the prior pulls cells towards each other, and a sum over the fullest of
many cells is too low by many times its own error, though every cell is too low by little. There the
sum itself moves. With z = wᵀg/√(wᵀMw), the standard errors by which the reports contradict the fit
about these people, it moves by c·δ·max(0, 1 − (`CONTRADICTED`/z)⁴): not at all where the reports
agree with the fit, and nearly to the unbiased answer where they clearly do not. Single cells stay
where they are, so that all cells add up to the number of people.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.special import ndtr

from sfumato.arrays import Floats
from sfumato.estimation.decoding.curvature import Point
from sfumato.estimation.decoding.fitting import Fit, is_line
from sfumato.estimation.decoding.mixture import LOOSE_CELLS, Likelihood
from sfumato.estimation.decoding.solvers import times_rows

CONTRADICTED = 3.0  # standard errors from which reports move a sum over unordered cells
FACTOR = 3.0  # the standard deviation of δ beforehand, where it may be small
_JUDGED = 128  # cells in which the reports may contradict the fit
_CLEARLY = 2.0  # standard errors of their mean z² by which they do so with probability one half
_ROUNDING = 1e-12  # of wᵀFw: a precision below it is none
_MANY_ROWS = 16  # from which F as a matrix is faster than by products


class StandingOut:
    """What reports say about the people asked about beyond a fit.

    Args:
        mixture: The log-likelihood.
        fitted: The fit.
    """

    def __init__(self, mixture: Likelihood, fitted: Fit) -> None:
        self._mixture, self._fit = mixture, fitted
        self._at = Point(mixture, fitted.field, fitted.law, fitted.mixed)

    def informed(self, v: Floats) -> Floats:
        """F·v for one v or several along a leading axis."""
        at = self._at
        many = len(v) >= _MANY_ROWS and v.ndim == 2 and v.shape[1] <= LOOSE_CELLS
        if many and not is_line(self._mixture):
            return times_rows(v, self._information)
        return at.centred(self._mixture.curve(at.centred(v), at.mixed))

    @cached_property
    def _information(self) -> Floats:
        """F as a matrix, which is faster for many v."""
        return self._mixture.information(self._at.law, self._at.mixed)

    @cached_property
    def score(self) -> Floats:
        """The derivative of the log-likelihood by θ."""
        slope = self._mixture.slope(self._fit.mixed)
        result: Floats = self._fit.law * (slope - np.sum(self._fit.law * slope))
        return result

    def _steps(self, rows: Floats, left: Floats) -> tuple[Floats, Floats, Floats]:
        """C/√(wᵀMw), z and wᵀMw of every row; inf, inf and 0 where reports say nothing.

        Args:
            rows: Weights w of the sums, shape (rows, *cells).
            left: h − F·H⁻¹h for the derivatives h of the sums by θ, likewise.
        """
        flat = rows.reshape(len(rows), -1)
        informed = self.informed(rows)
        _, own = self._fit.curvature.respond(informed)
        precision = np.sum(flat * own.reshape(flat.shape), axis=1)
        seen = precision > _ROUNDING * np.abs(np.sum(flat * informed.reshape(flat.shape), axis=1))
        root = np.sqrt(np.where(seen, precision, 1.0))
        change = np.sum(flat * left.reshape(flat.shape), axis=1) / root
        z = flat @ self.score.ravel() / root
        return np.where(seen, change, np.inf), np.where(seen, z, np.inf), root**2 * seen

    @cached_property
    def _contradicted(self) -> float:
        """The probability u that reports contradict the fit in single cells, on one axis.

        Under the fit their z² have the mean 1, and the covariances 2·ρ² for the correlations ρ of
        their scores.
        """
        size = self._fit.law.size
        cells = np.arange(0, size, -(-size // _JUDGED))
        rows = (cells[:, None] == np.arange(size)).astype(np.float64)
        _, passed = self._fit.curvature.respond(self.informed(rows))
        covariance = passed[:, cells]
        precision = np.diag(covariance)
        seen = precision > _ROUNDING * precision.max()
        root = np.sqrt(precision[seen])
        correlation = covariance[np.ix_(seen, seen)] / np.multiply.outer(root, root)
        excess = np.mean((self.score[cells][seen] / root) ** 2) - 1
        error = np.sqrt(2 * np.sum(correlation**2)) / len(root)
        return float(ndtr(excess / error - _CLEARLY))

    def variance(self, rows: Floats, sensitive: Floats, left: Floats) -> Floats:
        """What it adds that the people asked about may differ from their surroundings.

        Infinite where reports say nothing about them; unbiased errors are smaller then.

        Args:
            rows: Weights w of the sums, shape (rows, cells).
            sensitive: The derivatives h of the sums by θ, likewise.
            left: h − F·H⁻¹h, likewise.
        """
        change, z, precision = self._steps(rows, left)
        whole = np.sum(rows * sensitive, axis=1)
        part = np.sum(rows * left, axis=1)
        share = np.divide(part, whole, out=np.ones_like(part), where=whole > 0)
        told = FACTOR**2 * precision
        kept = 1 - (1 - np.clip(share, 0.0, 1.0)) * (1 - self._contradicted) * told / (1 + told)
        added: Floats = kept * change**2 * np.maximum(z**2, 1.0)
        return added

    def move(self, rows: Floats, left: Floats) -> Floats:
        """How far reports that contradict the fit move sums.

        Args:
            rows: Weights w of the sums, shape (rows, *cells).
            left: h − F·H⁻¹h for the derivatives h of the sums by θ, likewise.
        """
        change, z, _ = self._steps(rows, left)
        clear = np.isfinite(z) & (np.abs(z) > CONTRADICTED)
        z = np.where(clear, z, CONTRADICTED)
        moved: Floats = np.where(clear, change, 0.0) * z * (1 - (CONTRADICTED / z) ** 4)
        return moved
