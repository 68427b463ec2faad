"""People asked about who differ from their surroundings, whatever the prior says of them.

Terms of one size are no model of what stands out, and people ask about what stands out: the fullest
cells, the group next door. So the people asked about may differ from their surroundings by any
factor: θ + δ·w for the weights w of a question, with no prior on δ. With g the derivative of the
log-likelihood by θ at the mode and M = F − F·H⁻¹·F its covariance under the prior, the score wᵀg
has the precision wᵀMw. So δ is estimated as wᵀg/wᵀMw, with the variance 1/wᵀMw, and the sum moves
by c·δ with c = wᵀ(h − F·H⁻¹h) for its derivative h by θ.

Under a smooth prior on one axis that adds c²/wᵀMw to the variance, or the square of the move itself
if it is larger. A smooth field takes a wide range from the reports nearly whole, so c is small; of
one cell it takes next to nothing, and the error is nearly that of an unbiased answer.

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

from sfumato.arrays import Floats
from sfumato.estimation.decoding.curvature import Point
from sfumato.estimation.decoding.fitting import Fit, is_line
from sfumato.estimation.decoding.mixture import LOOSE_CELLS, Likelihood

CONTRADICTED = 3.0  # standard errors from which reports move a sum over unordered cells
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
            return v @ self._information
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

    def _steps(self, rows: Floats, left: Floats) -> tuple[Floats, Floats]:
        """C/√(wᵀMw) and z of every row; both infinite where reports say nothing about its people.

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
        return np.where(seen, change, np.inf), np.where(seen, z, np.inf)

    def variance(self, rows: Floats, left: Floats) -> Floats:
        """What it adds that the people asked about may differ from their surroundings.

        Infinite where reports say nothing about them; unbiased errors are smaller then.

        Args:
            rows: Weights w of the sums, shape (rows, *cells).
            left: h − F·H⁻¹h for the derivatives h of the sums by θ, likewise.
        """
        change, z = self._steps(rows, left)
        added: Floats = change**2 * np.maximum(z**2, 1.0)
        return added

    def move(self, rows: Floats, left: Floats) -> Floats:
        """How far reports that contradict the fit move sums.

        Args:
            rows: Weights w of the sums, shape (rows, *cells).
            left: h − F·H⁻¹h for the derivatives h of the sums by θ, likewise.
        """
        change, z = self._steps(rows, left)
        clear = np.isfinite(z) & (np.abs(z) > CONTRADICTED)
        z = np.where(clear, z, CONTRADICTED)
        moved: Floats = np.where(clear, change, 0.0) * z * (1 - (CONTRADICTED / z) ** 4)
        return moved
