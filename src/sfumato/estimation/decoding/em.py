"""Plain maximum likelihood by EM, accelerated, never going down.

One EM step multiplies every cell's share by how much likelier its people make the reports. Steps
are extrapolated two at a time (SQUAREM, Varadhan and Roland 2008); an extrapolation that would
lower the likelihood is dropped for the plain steps. Before stopping, the gap to the best possible
likelihood is known: with r the largest multiplier, it is at most n·(r − 1).
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
_MOST_WORK = 1 << 29  # cells times steps: large grids stop earlier, and say so
_FEWEST_STEPS = 100


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """A law of cells, and how it was reached."""

    law: Floats
    log_likelihood: float
    steps: int
    converged: bool
    gap: float


def decode(
    mixture: Mixture,
    *,
    tolerance: float = TOLERANCE,
    most_steps: int = MOST_STEPS,
    accelerate: bool = True,
    progress: Progress | None = None,
    trace: list[float] | None = None,
) -> Decoded:
    """The law of cells under which the reports are likeliest.

    Args:
        mixture: The counts of outputs and the channels between.
        tolerance: Stop when one plain step moves less than this share of people.
        most_steps: Stop after so many steps in any case; sooner beyond 2^29 cell updates.
        accelerate: Extrapolate; False gives textbook EM.
        progress: Called with the share of `most_steps` done.
        trace: If given, the log-likelihood of every accepted law is appended.
    """
    people = float(mixture.counts.sum())
    most_steps = min(most_steps, max(_FEWEST_STEPS, _MOST_WORK // math.prod(mixture.shape)))
    law = np.full(mixture.shape, 1.0 / np.prod(mixture.shape))
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
    """One EM step; also the log-likelihood before it and the gap to the best possible."""
    mixed = mixture.forward(law)
    multiplier = mixture.backward(posterior_ratio(mixture, mixed)) / people
    after = law * multiplier
    gap = people * max(float(multiplier.max()) - 1.0, 0.0)
    return after / after.sum(), log_likelihood(mixture, mixed), gap


def _leap(mixture: Mixture, law: Floats, first: Floats, people: float) -> tuple[Floats, int]:
    """Extrapolate two steps, and keep the result only if it is at least as likely as they are."""
    second, _, _ = _step(mixture, first, people)
    change = first - law
    bend = second - first - change
    size = float(np.linalg.norm(bend))
    if size == 0.0:
        return second, 1
    length = max(1.0, float(np.linalg.norm(change)) / size)
    far = law + 2 * length * change + length**2 * bend
    far = np.maximum(far, second * 1e-3)  # stay inside: a share of zero could never grow again
    far /= far.sum()
    stable, _, _ = _step(mixture, far, people)
    plain = log_likelihood(mixture, mixture.forward(second))
    leapt = log_likelihood(mixture, mixture.forward(stable))
    return (stable, 4) if leapt >= plain else (second, 3)
