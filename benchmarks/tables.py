"""Ten thousand ranges: straight from the tally, over the grid, and by the summed-area table."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import sfumato as sf
from benchmarks.recording import Measurement, progress
from sfumato.questions.language import Question, weights

RANGES = 10_000
SLOW = 500  # ranges measured where ten thousand would take minutes
SETTINGS: list[tuple[Any, int, int]] = [
    (sf.Geometric(), 64, 1_000_000),
    (sf.Geometric(), 256, 1_000_000),
    (sf.Thermometer(), 64, 100_000),
]


def measure() -> Measurement:
    """The same questions by every way: values alone, and with standard errors."""
    rows: list[dict[str, Any]] = []
    for choice, size, people in SETTINGS:
        study, asked = _setting(choice, size)
        rng = np.random.default_rng(2)
        held = {name: (rng.beta(2, 3, people) * size).astype(np.int64) for name in "ab"}
        tally = study.simulate(held, seed=1)
        answers: dict[str, np.ndarray] = {}
        for way in ("direct", "cells", "prefix", "auto"):
            progress(f"{choice.id}, m = {size}, {way}")
            some = asked if way in ("prefix", "auto") else asked[:SLOW]
            estimate, value = _timed(tally, way, some, lambda e, q: e.value_of(q))
            answers[way] = np.array([estimate.value_of(q) for q in asked[:SLOW]])
            _, both = _timed(tally, way, some, lambda e, q: (e.value_of(q), e.covariance_of(q, q)))
            rows.append(
                {
                    "channel": choice.id,
                    "m": size,
                    "people": people,
                    "via": way,
                    "ranges": len(some),
                    "value µs": value,
                    "value and error µs": both,
                }
            )
        for row in rows[-4:]:
            for what in ("value", "value and error"):
                row[f"{what}: faster than direct ×"] = rows[-4][f"{what} µs"] / row[f"{what} µs"]
        for found in answers.values():
            np.testing.assert_allclose(found, answers["direct"], rtol=1e-9, atol=1e-6)
    return Measurement(
        f"{RANGES:,} ranges on 2 axes, time a range, building the table included",
        rows,
        [f"direct and cells: the first {SLOW:,} ranges, whose time a range is the same."],
    )


def _timed(
    tally: sf.Tally, way: str, asked: list[Question], work: Callable[[sf.Estimate, Question], Any]
) -> tuple[sf.Estimate, float]:
    """A fresh estimate asked everything, and microseconds per range."""
    start = time.process_time()
    estimate = tally.estimate("unbiased", via=way)
    for question in asked:
        work(estimate, question)
    return estimate, (time.process_time() - start) / len(asked) * 1e6


def _setting(choice: Any, size: int) -> tuple[sf.Study, list[Question]]:
    """A study and random ranges on it, read once."""
    axes = [
        sf.integers(name, 0, size - 1, protect=sf.Distance(1.0), channel=choice) for name in "ab"
    ]
    study = sf.Study("tables", axes)
    ends = np.sort(np.random.default_rng(3).integers(0, size, (RANGES, 2, 2)), axis=2).tolist()
    return study, [weights(study.axes, {"a": tuple(a), "b": tuple(b)}) for a, b in ends]
