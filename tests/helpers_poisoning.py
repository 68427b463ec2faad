"""Populations at the edges of what people may be, and clients who all send one report."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sfumato as sf

Floats = NDArray[np.float64]

#: The figures of the requirement: cells, people, and the share that sends one report.
CELLS, PEOPLE, SHARE = 256, 100_000, 0.05


def _bump(cells: int) -> Floats:
    return np.exp(-0.5 * ((np.arange(cells) - 0.4 * cells) / (0.07 * cells)) ** 2) + 1e-9


#: Shares of people by cell, before they are divided by their sum.
EXTREMES: dict[str, Callable[[int], Floats]] = {
    "even": np.ones,
    "first": lambda cells: np.eye(cells)[0],
    "last": lambda cells: np.eye(cells)[-1],
    "middle": lambda cells: np.eye(cells)[cells // 2],
    "ends": lambda cells: np.eye(cells)[0] + np.eye(cells)[-1],
    "neighbours": lambda cells: np.eye(cells)[cells // 2] + np.eye(cells)[cells // 2 - 1],
    "bump": _bump,
    "sparse": lambda cells: (np.arange(cells) % 5 == 1).astype(np.float64),
}
#: Those in which nobody's neighbours are a fifth of all people.
SMOOTH = ("even", "bump", "sparse")


@cache
def _study(protect: Any, channel: Any, cells: int, axes: int) -> sf.Study:
    names = "xyz"[:axes]
    return sf.Study(
        "poisoned",
        [sf.integers(name, 0, cells - 1, protect=protect, channel=channel) for name in names],
    )


def study_of(protect: Any, channel: Any, cells: int, *, axes: int = 1) -> sf.Study:
    """A study of some axes that are alike."""
    return _study(protect, channel, cells, axes)


def lumped(population: str | Floats, cell: int, *, seed: int, share: float = SHARE) -> sf.Tally:
    """Reports of geometric noise (ε = 0.5), some of which all say one cell."""
    study = study_of(sf.Distance(0.5), sf.Geometric(), CELLS)
    shares = EXTREMES[population](CELLS) if isinstance(population, str) else population
    fakes = int(PEOPLE * share)
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(PEOPLE - fakes, shares / shares.sum())
    sent = (np.full(fakes, cell),)
    made_up = sf.Reports(study.fingerprint, study.columns, study.layouts, sent)
    return study.simulate_counts(counts, seed=seed) + study.tally(made_up)


def most_alarms(runs: int, level: float) -> float:
    """How many runs may have a p-value of at most this: 4 standard errors above the mean."""
    return runs * level + 4 * math.sqrt(runs * level * (1 - level))
