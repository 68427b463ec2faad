"""How far a choice of channel is from the best, exactly or by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import sfumato as sf
from sfumato.planning import choose_channel

Floats = NDArray[np.float64]

CHANNELS = {"geometric": sf.Geometric(), "thermometer": sf.Thermometer()}


def _bumps(size: int) -> Floats:
    x = np.arange(size) / size
    near = 0.6 * np.exp(-0.5 * ((x - 0.35) / 0.08) ** 2) / 0.08
    far = 0.3 * np.exp(-0.5 * ((x - 0.7) / 0.05) ** 2) / 0.05
    return (near + far + 0.25) / (near + far + 0.25).sum()


def _spikes(size: int) -> Floats:
    law = np.random.default_rng(size).permutation(1 / np.arange(1, size + 1) ** 1.1)
    return law / law.sum()


POPULATIONS: dict[str, Callable[[int], Floats]] = {
    "flat": lambda size: np.full(size, 1 / size),
    "slope": lambda size: np.arange(1, size + 1) / (size * (size + 1) / 2),
    "bumps": _bumps,
    "spikes": _spikes,
}


def study_of(size: int, epsilon: float, axes: int, name: str) -> sf.Study:
    """Axes alike, each with a named channel, or the one chosen for a decoder."""
    protect = sf.Distance(epsilon)
    metric = sf.integers("a", 0, size - 1, protect=protect).metric()
    channel = CHANNELS[name] if name in CHANNELS else choose_channel(metric, method=name)[0]
    names = "abc"[:axes]
    return sf.Study(
        "s", [sf.integers(n, 0, size - 1, protect=protect, channel=channel) for n in names]
    )


def unbiased_regret(size: int, epsilon: float, axes: int, name: str) -> float:
    """Error of random ranges over all axes together, over the best of all mixes of channels."""
    from sfumato.planning.priors import prior_of
    from sfumato.planning.workloads import Ranges, variance

    def error(chosen: str) -> float:
        study = study_of(size, epsilon, axes, chosen)
        terms = Ranges(size, size).terms(study.channels[0])
        return math.sqrt(variance(prior_of(study, "flat"), dict.fromkeys(range(axes), terms)))

    return error(name) / min(error("geometric"), error("thermometer"))


def likelihood_errors(
    size: int, epsilon: float, n: int, *, runs: int, seed: int, axes: int = 1
) -> dict[str, Floats]:
    """For each channel and population, squared errors of ranges, the mean over all of them."""
    found = {}
    for name in CHANNELS:
        study = study_of(size, epsilon, axes, name)
        rows = []
        for law in (make(size) for make in POPULATIONS.values()):
            rng = np.random.default_rng(seed)
            joint = law if axes == 1 else np.multiply.outer(law, law)
            counts = rng.multinomial(n, joint.ravel()).reshape(study.shape)
            squares = []
            for run in range(runs):
                tally = study.simulate_counts(counts, seed=seed * 1_000 + run)
                decoder = tally.estimate("likelihood").decoder(tuple(range(axes)))  # type: ignore[attr-defined]
                squares.append(mean_square_of_ranges(decoder.counts() - counts) / n**2)
            rows.append(squares)
        found[name] = np.array(rows)
    return found


def mean_square_of_ranges(off: Floats) -> float:
    """The mean over all ranges of the squared sum of errors inside, exactly."""
    total = off
    for axis in range(off.ndim):
        start = np.zeros_like(np.take(total, [0], axis=axis))
        total = np.cumsum(np.concatenate([start, total], axis=axis), axis=axis)
    form = total
    pairs = 1.0
    for axis in range(off.ndim):
        ends = total.shape[axis]
        # Σ_{a<b} (F_b − F_a)² is the quadratic form of ends·I − 1.
        form = ends * form - form.sum(axis=axis, keepdims=True)
        pairs *= ends * (ends - 1) / 2
    return float(np.sum(total * form) / pairs)


def likelihood_regret(
    size: int, epsilon: float, n: int, *, runs: int, seed: int, axes: int = 1
) -> float:
    """The chosen channel's root mean square over ranges and populations, over the best one's."""
    errors = likelihood_errors(size, epsilon, n, runs=runs, seed=seed, axes=axes)
    pooled = {name: math.sqrt(float(np.mean(squares))) for name, squares in errors.items()}
    chosen = study_of(size, epsilon, 1, "likelihood").axes[0].choice.id
    return pooled[chosen] / min(pooled.values())
