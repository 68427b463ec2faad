"""Maximum likelihood without smoothing: accelerated EM that never lowers the likelihood.

With Q the channel, N(y) the counts of outputs, n their sum, and (pQ)(y) = Σ_x p(x)·Q(y | x), one EM
step is p(x) ← p(x)·r(x) with r(x) = Σ_y N(y)·Q(y | x)/(pQ)(y) / n. Steps are extrapolated two at a
time (SQUAREM: Varadhan2008, scheme S3); an extrapolation that would lower the likelihood is
replaced by the plain steps. The log-likelihood is concave in p with gradient n·r, so it is at most
n·(max_x r(x) − 1) below its maximum.

References:
    Varadhan2008; the EM of Li2020, without its smoothing step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato.arrays import Floats
from sfumato.estimation.decoding.mixture import Mixture, log_likelihood, posterior_ratio

Progress = Callable[[float], None]

TOLERANCE = 1e-7
MOST_STEPS = 2000
_MOST_WORK = 1 << 29  # cells times steps: large grids stop earlier, with converged=False
_FEWEST_STEPS = 100


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """The result of EM.

    Args:
        law: The distribution over cells.
        log_likelihood: Its log-likelihood, before the last step.
        steps: Number of EM steps taken.
        converged: Whether the last step moved less than the tolerance.
        gap: Upper bound on how far the log-likelihood is below its maximum, in nats.
    """

    law: Floats
    log_likelihood: float
    steps: int
    converged: bool
    gap: float


def decode(
    mixture: Mixture,
    *,
    start: Floats | None = None,
    tolerance: float = TOLERANCE,
    most_steps: int = MOST_STEPS,
    accelerate: bool = True,
    progress: Progress | None = None,
    trace: list[float] | None = None,
) -> Decoded:
    """The distribution over cells that maximises the likelihood of the reports.

    Args:
        mixture: The counts of outputs, and the channels.
        start: A distribution with people in all cells; left out, they are spread evenly.
        tolerance: Stop when one plain step moves less than this share of people.
        most_steps: Most steps; fewer where steps times cells would exceed 2^29.
        accelerate: Extrapolate (SQUAREM); False gives textbook EM.
        progress: Called with the share of `most_steps` done, from 0 to 1.
        trace: If given, the log-likelihood of every accepted law is appended.
    """
    people = float(mixture.counts.sum())
    most_steps = min(most_steps, max(_FEWEST_STEPS, _MOST_WORK // math.prod(mixture.shape)))
    law = np.full(mixture.shape, 1.0 / np.prod(mixture.shape)) if start is None else start
    steps, gap, best, moved = 0, np.inf, -np.inf, np.inf
    while steps < most_steps:
        first, best, gap = _step(mixture, law, people)
        steps += 1
        if trace is not None:
            trace.append(best)
        moved = float(np.abs(first - law).sum())
        if moved < tolerance:
            law = first
            break
        law, used = (first, 0) if not accelerate else _leap(mixture, law, first, people)
        steps += used
        if progress is not None:
            progress(min(1.0, steps / most_steps))
    return Decoded(law, best, steps, moved < tolerance, gap)


def _step(mixture: Mixture, law: Floats, people: float) -> tuple[Floats, float, float]:
    """One EM step; also the log-likelihood before it and the bound on its gap to the maximum."""
    mixed = mixture.forward(law)
    multiplier = mixture.backward(posterior_ratio(mixture, mixed)) / people
    after = law * multiplier
    gap = people * max(float(multiplier.max()) - 1.0, 0.0)
    return after / after.sum(), log_likelihood(mixture, mixed), gap


def _leap(mixture: Mixture, law: Floats, first: Floats, people: float) -> tuple[Floats, int]:
    """One SQUAREM step, or two plain EM steps if its likelihood is lower; and the steps used."""
    second, _, _ = _step(mixture, first, people)
    change = first - law  # r in Varadhan2008
    bend = second - first - change  # v
    size = float(np.linalg.norm(bend))
    if size == 0.0:
        return second, 1
    length = max(1.0, float(np.linalg.norm(change)) / size)  # −α, scheme S3: |r| / |v|
    far = law + 2 * length * change + length**2 * bend
    far = np.maximum(far, second * 1e-3)  # stay positive: EM cannot leave a share of zero
    far /= far.sum()
    stable, _, _ = _step(mixture, far, people)
    plain = log_likelihood(mixture, mixture.forward(second))
    leapt = log_likelihood(mixture, mixture.forward(stable))
    return (stable, 4) if leapt >= plain else (second, 3)
