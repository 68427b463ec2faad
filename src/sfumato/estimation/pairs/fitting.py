"""The likeliest log-density under a Gaussian prior, its spread, and the prior's strength.

The log-likelihood of scores is quadratic in the shares of cells, and these are smooth functions of
the coefficients of the log-density: Newton's method with the Gauss–Newton curvature finds the mode.
The strength of the prior is the one with the largest evidence, by Laplace's approximation
(MacKay1992). Errors are those under a prior that is weaker by `DOUBT`: a population may be rougher
than the likeliest prior says, and its roughness is then in what that prior holds down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.arrays import Floats

#: From coefficients to the log-likelihood, its gradient and the Gauss–Newton curvature.
Likelihood = Callable[[Floats], tuple[float, Floats, Floats]]

#: How many times larger the variances of the prior are taken for errors than for the mode.
DOUBT = 10.0
#: How much wider errors are stated than the model says: sums of few smooth shapes cannot follow
#: kinks and cusps, and on a Laplace law of a million people errors were larger by up to this.
ROOM = 1.5

_STEPS = 25
_SMALL = 1e-4  # a gain of the log-posterior that is not worth another step
_LEAST_STEP = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A mode.

    Attributes:
        mode: The coefficients.
        root: A matrix R with R·Rᵀ the covariance of the coefficients.
        evidence: The logarithm of the evidence of the prior, up to a constant.
    """

    mode: Floats
    root: Floats
    evidence: float


def best_fit(likelihood: Likelihood, priors: Sequence[Floats]) -> Fit:
    """The mode under the prior with the largest evidence.

    Args:
        likelihood: Of the coefficients.
        priors: Variances of the coefficients, the weakest last; each starts from the mode before.
    """
    found: Fit | None = None
    mode = np.zeros(len(priors[0]))
    for variances in priors:
        fit = fitted(likelihood, variances, mode)
        mode = fit.mode
        if found is None or fit.evidence > found.evidence:
            found = fit
    assert found is not None  # noqa: S101 - there is a prior
    return found


def fitted(likelihood: Likelihood, variances: Floats, start: Floats) -> Fit:
    """The mode under one prior.

    Args:
        likelihood: Of the coefficients.
        variances: Of the coefficients under the prior.
        start: Where to begin.
    """
    precision = 1 / variances
    at = start
    value, gradient, curvature = likelihood(at)
    value -= float(precision @ at**2) / 2
    for _ in range(_STEPS):
        step = np.linalg.solve(curvature + np.diag(precision), gradient - precision * at)
        size = 1.0
        while size > _LEAST_STEP:
            there = at + size * step
            new, new_gradient, new_curvature = likelihood(there)
            new -= float(precision @ there**2) / 2
            if new > value:
                break
            size /= 2
        else:
            break
        gain = new - value
        at, value, gradient, curvature = there, new, new_gradient, new_curvature
        if gain < _SMALL:
            break
    # Scaled by the prior, the curvature has eigenvalues of 1 and more.
    scale = np.sqrt(variances)
    told, vectors = np.linalg.eigh(scale[:, None] * curvature * scale)
    told = np.maximum(told, 0.0)
    root = ROOM * scale[:, None] * vectors / np.sqrt(1 / DOUBT + told)
    return Fit(at, root, value - float(np.log1p(told).sum()) / 2)
