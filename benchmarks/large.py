"""Decoding a large grid: 1000 × 1000 cells, ten million people, with and without smoothing."""

from __future__ import annotations

import resource
import time

import numpy as np

import sfumato as sf
from benchmarks.recording import Measurement, progress
from sfumato.estimation.decoding.em import decode
from sfumato.estimation.decoding.evidence import fit_by_evidence
from sfumato.estimation.decoding.mixture import mixture_of, posterior_ratio

SIDE = 1000
PEOPLE = 10_000_000
EPSILON = 0.1
BOX = (slice(400, 501), slice(300, 451))


def measure() -> Measurement:
    """Wall-clock time on all cores, and the peak memory of the whole process."""
    rng = np.random.default_rng(0)
    wide, high, joint = 150.0**2, 120.0**2, 0.6 * 150 * 120
    drawn = rng.multivariate_normal([500, 450], [[wide, joint], [joint, high]], PEOPLE)
    cells = np.clip(drawn, 0, SIDE - 1).astype(np.int64)
    del drawn
    axes = [
        sf.integers(name, 0, SIDE - 1, protect=sf.Distance(EPSILON), channel=sf.Geometric())
        for name in "xy"
    ]
    study = sf.Study("large", axes)
    inside = (cells[:, 0] >= 400) & (cells[:, 0] <= 500)
    inside &= (cells[:, 1] >= 300) & (cells[:, 1] <= 450)
    truth = int(inside.sum())
    tally = study.simulate({"x": cells[:, 0], "y": cells[:, 1]}, seed=1)
    mixture = mixture_of(tally.statistic, study.channels, (0, 1))

    progress("plain EM")
    start = time.perf_counter()
    plain = decode(mixture)
    plain_seconds = time.perf_counter() - start
    progress("the choice of smoothing")
    start = time.perf_counter()
    best = fit_by_evidence(mixture, [True, True]).best
    seconds = time.perf_counter() - start
    counts = best.law * mixture.backward(posterior_ratio(mixture, best.mixed))
    box = counts[BOX].sum()
    rows = [
        {
            "what": "smoothing='none'",
            "seconds": plain_seconds,
            "steps": plain.steps,
            "off by, of people in a box": plain.law[BOX].sum() * PEOPLE - truth,
        },
        {
            "what": "smoothing='auto'",
            "seconds": seconds,
            "steps": best.steps,
            "off by, of people in a box": box - truth,
        },
    ]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return Measurement(
        f"{SIDE} × {SIDE} cells, {PEOPLE:,} people, ε = {EPSILON}: decoding",
        rows,
        [
            f"wall-clock seconds; peak memory of the process {peak:.2f} GiB",
            f"the box holds {truth:,} people",
        ],
    )
