"""The distribution of people along one axis, from all pairs that the axis is in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.arrays import Floats
from sfumato.estimation.pairs.bases import Basis
from sfumato.estimation.pairs.fitting import best_fit

#: Variances of the log-density's coarsest detail that are tried, and how they fall with its rank.
STRENGTHS = 10.0 ** np.arange(-2.0, 4.5, 0.5)
FALLS = (1.0, 2.0, 3.0)
_LEAST = 1e-12  # share of a cell


@dataclass(frozen=True, slots=True, eq=False)
class Margin:
    """The shares of people in the cells of one axis.

    Attributes:
        law: The shares.
        basis: The functions that the log-density is a sum of.
        root: R with R·Rᵀ the covariance of their coefficients.
    """

    law: Floats
    basis: Basis
    root: Floats

    def slopes(self, rows: Floats) -> Floats:
        """What rows of weights gain from one standard error of each independent error.

        Args:
            rows: Functions of the cells, shape (rows, cells).
        """
        centred = rows - (rows @ self.law)[:, None]
        return (centred * self.law) @ self.basis.values @ self.root


def margin_of(basis: Basis, told: Floats, score: Floats, information: Floats) -> Margin:
    """The likeliest distribution along an axis.

    Args:
        basis: What the log-density is a sum of.
        told: The waves of the axis, shape (cells, waves).
        score: Their scores, in units of people.
        information: Of the scores: their mean is information·shares along the waves.
    """

    def law(at: Floats) -> Floats:
        height = basis.values @ at
        found = np.exp(height - height.max())
        result: Floats = found / found.sum()
        return result

    def likelihood(at: Floats) -> tuple[float, Floats, Floats]:
        people = law(at)
        shares = told.T @ people
        left = score - information @ shares
        slope = told.T @ (people[:, None] * (basis.values - people @ basis.values))
        value = float(shares @ (score + left)) / 2
        return value, slope.T @ left, slope.T @ information @ slope

    falls = FALLS if basis.rank.max(initial=1.0) > 1 else FALLS[:1]
    fits = [best_fit(likelihood, [s / basis.rank ** (2 * f) for s in STRENGTHS]) for f in falls]
    fit = max(fits, key=lambda one: one.evidence)
    found = np.maximum(law(fit.mode), _LEAST)
    return Margin(found / found.sum(), basis, fit.root)
