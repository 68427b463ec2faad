"""The poisoning check: what it finds on every kind of channel, what hides, and what it costs.

Some clients all send the report that is most typical of one cell in the middle; all others are
honest people spread evenly. The smallest share that is found is searched on a grid of shares.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import sfumato as sf
from benchmarks.recording import Measurement, progress, seconds
from sfumato.arrays import BitColumns

PEOPLE, CELLS = 100_000, 64
RUNS, FOUND = 10, 9
SHARES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
CHANNELS: dict[str, tuple[Any, Any]] = {
    "geometric": (sf.Distance(0.5), sf.Geometric()),
    "thermometer": (sf.Distance(0.5), sf.Thermometer()),
    "k-ary response": (sf.Uniform(1), sf.KaryResponse()),
    "exponential": (sf.Uniform(1), sf.Exponential()),
    "OUE": (sf.Uniform(1), sf.OUE()),
    "OLH": (sf.Uniform(1), sf.OLH()),
    "HRR": (sf.Uniform(1), sf.HRR()),
    "Hadamard": (sf.Uniform(1), sf.Hadamard()),
    "comb": (sf.Uniform(1), sf.Comb()),
    "hierarchical": (sf.Uniform(1), sf.Hierarchical()),
    "Haar": (sf.Uniform(1), sf.HaarHRR()),
    "square wave": (sf.Uniform(1), sf.SquareWave()),
}


def measure() -> Measurement:
    """The smallest share found, what hides, and the time of one check."""
    rows = []
    for name, (protect, channel) in CHANNELS.items():
        progress(name)
        axis = sf.integers("x", 0, CELLS - 1, protect=protect, channel=channel)
        study = sf.Study("poisoned", [axis])
        honest = _poisoned(study, 0.0, 1)
        (spot,) = honest.check().blind
        rows.append(
            {
                "channel": name,
                "found": _smallest(study),
                "alike": spot.alike,
                "weight": None if spot.weight is None else round(spot.weight, 3),
                "seconds": seconds(lambda tally=honest: tally.check(), repeat=3)[0],
            }
        )
    notes = [
        f"{PEOPLE:,} reports, {CELLS} cells, ε = 1 (or 0.5 per cell); found in at least {FOUND} of "
        f"{RUNS} runs."
    ]
    return Measurement("What the poisoning check finds, and what hides", rows, notes)


def _smallest(study: sf.Study) -> float:
    """The smallest share of the grid that is found; infinite if none is."""
    low, high = 0, len(SHARES)
    while low < high:
        middle = (low + high) // 2
        alarms = [_poisoned(study, SHARES[middle], seed).check().alarm for seed in range(RUNS)]
        if sum(alarms) >= FOUND:
            high = middle
        else:
            low = middle + 1
    return SHARES[low] if low < len(SHARES) else math.inf


def _poisoned(study: sf.Study, share: float, seed: int) -> sf.Tally:
    """Reports of people spread evenly, and of clients who all send the same."""
    fakes = round(PEOPLE * share)
    counts = np.full(CELLS, (PEOPLE - fakes) // CELLS)
    tally = study.simulate_counts(counts, seed=seed)
    if not fakes:
        return tally
    (one,) = study.encode({"x": [CELLS // 2]}, bits=sf.SeededBits(seed)).outputs
    if isinstance(one, BitColumns):
        same: Any = BitColumns.from_matrix(np.repeat(one.to_matrix(), fakes, axis=0))
    else:
        same = np.full(fakes, one[0])
    made_up = sf.Reports(study.fingerprint, study.columns, study.layouts, (same,))
    return tally + study.tally(made_up)
