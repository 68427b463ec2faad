"""What room for heaps costs smooth people, and what heaped ones would miss without it.

`python -m benchmarks room` keeps the figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from benchmarks.recording import Measurement, progress
from benchmarks.shape_people import DISTANCE, Setting
from benchmarks.shape_reading import Reading, read
from benchmarks.shapes import coverage
from sfumato.channels.base import SymbolChannel
from sfumato.estimation.decoding.evidence import fit_by_evidence
from sfumato.estimation.decoding.heaps import Heaps
from sfumato.estimation.decoding.mixture import SymbolMixture

Floats = NDArray[np.float64]

SEEDS = range(500, 510)
ROOMS = (0.0, 0.25, 0.5, 1.0)
HEAPED = "heaped: ages"
SHAPES = ("smooth: two bumps", "smooth: skewed", HEAPED)
DRAWS = 20_000  # tallies by which the total variation is told within 0.004


@contextmanager
def scaled(room: float) -> Iterator[None]:
    """Intervals with more or less room for heaps.

    Args:
        room: The factor of its variance.
    """
    whole = Heaps.variance
    with mock.patch.object(Heaps, "variance", lambda heaps, left: room * whole(heaps, left)):
        yield


def told_apart(setting: Setting) -> tuple[float, float]:
    """How well tallies tell heaped ages from the smooth people whose tallies are most alike.

    Those are the most likely smooth people given the expected tally of the heaped ones.

    Args:
        setting: A guarantee on one axis.

    Returns:
        χ² between the laws of the tallies, and their total variation.
    """
    (channel,) = setting.study().channels
    assert isinstance(channel, SymbolChannel)
    counts = np.mean([setting.draw(HEAPED, seed)[0] for seed in SEEDS], axis=0)
    heaped = counts / counts.sum() @ channel.likelihood()
    mixture = SymbolMixture.of([channel], setting.people * heaped)
    alike = fit_by_evidence(mixture, [True]).best
    smooth: Floats = alike.law @ channel.likelihood()
    apart = setting.people * float(np.sum((heaped - smooth) ** 2 / smooth))
    rng = np.random.default_rng(1)
    tallies = rng.multinomial(setting.people, smooth / smooth.sum(), size=DRAWS)
    odds = tallies @ np.log(heaped / smooth)
    return apart, float(np.mean(np.maximum(0.0, 1 - np.exp(odds))))


def measure() -> Measurement:
    """Widths and coverage by the room for heaps."""
    rows: list[dict[str, Any]] = []
    for setting in DISTANCE:
        if len(setting.shape) > 1:
            continue
        apart, variation = told_apart(setting)
        for shape in SHAPES:
            progress(f"{shape}, {setting}")
            found: dict[float, list[Reading]] = {room: [] for room in ROOMS}
            for seed in SEEDS:
                counts, asked = setting.draw(shape, seed)
                tally = setting.study().simulate_counts(counts, seed=seed)
                for room in ROOMS:
                    with scaled(room):
                        found[room].append(read(tally, counts, asked))
            for room, readings in found.items():
                figures = coverage(readings)
                rows.append(
                    {"ε": setting.epsilon, "shape": shape, "room": room}
                    | figures
                    | {"χ²": apart, "total variation": variation}
                )
    return Measurement(
        "intervals by the room for heaps: 128 cells under Distance, 100,000 people",
        rows,
        [
            "room: factor of the variance for heaps, 1 by default; covered, worst tenth and "
            "half-width as in `shapes`",
            f"seeds {SEEDS.start} to {SEEDS.stop - 1}, used for nothing else",
            "χ² and total variation: between the laws of the tallies of heaped ages and of the "
            "smooth people whose tallies are most alike",
        ],
    )
