"""The posterior mode of θ for given strengths, by Newton's method, and its evidence.

With P the precision of the prior, N(y) the counts of outputs, Q the channel and q = pQ, `fit`
maximises Σ_y N(y)·log q(y) − ½θᵀPθ. The gradient of the first part is p·(Q·(N/q) − n); the
curvature H is that of `sfumato.estimation.decoding.curvature`.

Evidence: the likelihood of the strengths (λ₀, λ₁, λ₂, τ²) with θ integrated out by Laplace's method
(Tierney1986; MacKay1992): log-likelihood − ½θᵀPθ − ½·(log det H − log det P), at the mode.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sfumato.arrays import Floats
from sfumato.estimation.decoding.curvature import (
    BandedCurvature,
    Curvature,
    DenseCurvature,
    Point,
    ProductCurvature,
    ReducedCurvature,
    work_for,
)
from sfumato.estimation.decoding.field import Field
from sfumato.estimation.decoding.mixture import LOOSE_CELLS, Likelihood, SymbolMixture
from sfumato.estimation.decoding.waves import Waves

DENSE_CELLS = 600
_SMALL_CELLS = 256  # up to this many cells a matrix over all of them is as fast as one over waves
_MOST_WAVES = 900
_CROWDED = 4.0  # how much denser people are than if spread evenly, at least
_LARGE = 1 << 13  # cells beyond which waves are left out rather than used by products …
_NEEDED = 1.0  # … unless reports have this much information about them
_MOST_WORK = 1 << 30  # waves² × outputs
_LONGEST_STEP = 4.0
_GAIN_SHARE = 1e-8  # nats per person, where that is more
_FRESH = 0.05  # nats gained since the curvature was computed: it is still accurate
_STALE = 2.0  # nats gained since the curvature was computed: compute it again
_CONVERGED_SHARE = 1e-5  # nats per person: a step that promises more is not near the maximum


class Effort(NamedTuple):
    """How exact a fit is.

    Args:
        gain: In nats; a step that gains less ends the fit, if the curvature is up to date.
        waves: Waves about which reports have less information, relative to the prior's precision,
            are left out; None: nothing is left out.
    """

    gain: float
    waves: float | None


FULL = Effort(gain=1e-3, waves=0.02)
#: For comparing strengths: evidence is off by a nat or two, the same for all of them.
SEARCH = Effort(gain=2e-2, waves=0.2)
SEARCH_ALL = SEARCH._replace(waves=None)


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """The posterior mode of θ for given strengths, and their evidence.

    Args:
        field: The prior.
        theta: The mode: the logarithms of the shares, up to a constant.
        law: The distribution p over cells at the mode.
        mixed: The distribution of outputs, q = pQ.
        evidence: Log evidence of the strengths, in nats; NaN if it was not asked for.
        curvature: H at the mode.
        steps: Newton steps taken.
        is_converged: False if a step might still have gained much when the steps ran out.
    """

    field: Field
    theta: Floats
    law: Floats
    mixed: Floats
    evidence: float
    curvature: Curvature
    steps: int
    is_converged: bool = True


def curvature_at(at: Point, waves: Waves | None) -> Curvature:
    """The curvature in the form that suits the problem.

    Args:
        at: Where it is taken.
        waves: The basis that θ is confined to, if it is.
    """
    mixture, law = at.mixture, at.law
    if waves is not None:
        return ReducedCurvature(at, waves)
    if isinstance(mixture, SymbolMixture) and mixture.line is not None:
        return BandedCurvature(at, mixture, mixture.line)
    if law.size <= (LOOSE_CELLS if law.ndim == 1 else DENSE_CELLS):
        return DenseCurvature(at)
    return ProductCurvature(at)


def _waves_for(mixture: Likelihood, field: Field, effort: Effort, law: Floats) -> Waves | None:
    """The basis of a smooth prior on a large grid, if the reports can tell few enough waves.

    Args:
        mixture: The log-likelihood.
        field: The prior.
        effort: How exact the fit is.
        law: A distribution over cells; where people are dense, reports tell more.
    """
    cells = math.prod(field.shape)
    if effort.waves is None or cells <= _SMALL_CELLS or is_line(mixture):
        return None
    if not field.strengths.is_smooth:
        return None
    ordered = tuple(any(along) for along in field.strengths.along)
    most = min(_MOST_WAVES, cells // 2, math.isqrt(_MOST_WORK // max(cells, mixture.outputs)))
    crowd = max(_CROWDED, cells * float(np.sum(law**2)))
    return Waves.told(
        field.strengths,
        mixture.transfer(ordered),
        mixture.people,
        ordered,
        least=effort.waves / crowd,
        most=most,
        needed=_NEEDED / crowd if cells > _LARGE else effort.waves / crowd,
    )


def is_line(mixture: Likelihood) -> bool:
    """Whether the channel is geometric noise on a line, for which every fit takes O(cells).

    Args:
        mixture: The log-likelihood.
    """
    return isinstance(mixture, SymbolMixture) and mixture.line is not None


def fit(
    mixture: Likelihood,
    field: Field,
    start: Floats | None = None,
    *,
    effort: Effort = FULL,
    weigh: bool = True,
) -> Fit:
    """Maximise log-likelihood − ½θᵀPθ by Newton's method with a line search.

    Every accepted step increases it. The curvature is reused while it is accurate enough.

    Args:
        mixture: The counts of outputs, and the channels.
        field: The prior.
        start: θ to start from; left out, equal shares.
        effort: How exact the fit is.
        weigh: Also compute the evidence of the strengths; otherwise it is NaN.
    """
    people = mixture.people
    enough = max(effort.gain, people * _GAIN_SHARE)
    here = _Point.at(mixture, field, np.zeros(field.shape) if start is None else start)
    waves = _waves_for(mixture, field, effort, here.law)
    if waves is not None and start is not None:
        here = _Point.at(mixture, field, waves.write(waves.read(start[None]))[0])
    curvature = curvature_at(Point(mixture, field, here.law, here.mixed), waves)
    steps, since, promised = 0, 0.0, 0.0
    most_steps = work_for(field).steps
    while steps < most_steps:
        steps += 1
        slope = mixture.slope(here.mixed)
        gradient = here.law * (slope - np.sum(here.law * slope)) - field.pull(here.theta)
        direction = (
            curvature.solve(gradient, exact=False)
            if isinstance(curvature, ProductCurvature)
            else curvature.solve(gradient)
        )
        promised = float(np.sum(gradient * direction)) / 2
        found = _line_search(mixture, field, here, direction)
        if found is None:
            if not since:
                break
            gain = 0.0
        else:
            gain, here = found.value - here.value, found
        since += gain
        if gain < enough and since < max(_FRESH, enough):
            break
        if gain < enough or since > (_STALE if curvature.reusable else 0.0):
            # The old curvature no longer gives good steps.
            at = Point(mixture, field, here.law, here.mixed)
            curvature, since = curvature_at(at, waves), 0.0
    if since or (effort is FULL and curvature.reusable):
        mixture.settle()
        curvature = curvature_at(Point(mixture, field, here.law, here.mixed), waves)
    evidence = here.value - curvature.log_determinant() / 2 if weigh else math.nan
    is_converged = promised <= max(enough, people * _CONVERGED_SHARE)
    return Fit(field, here.theta, here.law, here.mixed, evidence, curvature, steps, is_converged)


def is_weak(mixture: Likelihood, law: Floats, field: Field, effort: Effort = SEARCH) -> bool:
    """Whether reports can tell more waves under a smooth prior than a matrix has room for.

    Args:
        mixture: The counts of outputs, and the channels.
        law: The distribution over cells of a fit with a prior nearby.
        field: The prior.
        effort: How exact a fit would be.
    """
    large = math.prod(field.shape) > DENSE_CELLS and not is_line(mixture)
    return large and _waves_for(mixture, field, effort, law) is None


def fit_at(mixture: Likelihood, field: Field, law: Floats) -> Fit:
    """The fit whose mode is known; its evidence is not computed.

    Args:
        mixture: The counts of outputs, and the channels.
        field: The prior.
        law: The distribution over cells at the mode.
    """
    mixture.settle()
    mixed = mixture.forward(law)
    waves = _waves_for(mixture, field, FULL, law)
    curvature = curvature_at(Point(mixture, field, law, mixed), waves)
    theta = np.log(np.maximum(law, np.finfo(np.float64).tiny))
    return Fit(field, theta, law, mixed, math.nan, curvature, 0)


@dataclass(frozen=True, slots=True, eq=False)
class _Point:
    """A point of the search: θ, its value, and the distributions of cells and outputs."""

    theta: Floats
    value: float
    law: Floats
    mixed: Floats

    @classmethod
    def at(cls, mixture: Likelihood, field: Field, theta: Floats) -> _Point:
        """The value is log-likelihood − ½θᵀPθ."""
        law = np.exp(theta - theta.max())
        law /= law.sum()
        mixed = mixture.forward(law)
        return cls(theta, mixture.value(mixed) - field.penalty(theta), law, mixed)


def _line_search(
    mixture: Likelihood, field: Field, here: _Point, direction: Floats
) -> _Point | None:
    """Backtracking line search: the first halved step that does not lower the value, or None."""
    reach = float(np.abs(direction).max())
    length = min(1.0, _LONGEST_STEP / reach) if reach > 0 else 0.0
    while length > 1e-6:
        there = _Point.at(mixture, field, here.theta + length * direction)
        if there.value >= here.value:
            return there
        length /= 2
    return None
