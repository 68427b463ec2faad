"""How long one range over a million reports takes, without any grid."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import sfumato as sf
from benchmarks.recording import Measurement, progress, seconds
from sfumato.questions.language import weights

PEOPLE = 1_000_000
DIMENSIONS = 3


def measure() -> Measurement:
    """Three-dimensional ranges, value and standard error, straight from the tally."""
    rows = []
    for choice, size in (
        (sf.Thermometer(), 64),
        (sf.Thermometer(), 256),
        *((sf.Geometric(), size) for size in (4, 8, 16, 32, 64, 128)),
    ):
        progress(f"{choice.id}, m = {size}")
        rows.append(_row(choice, size))
    return Measurement(
        f"one range on {DIMENSIONS} axes over {PEOPLE:,} reports, via='direct', after loading",
        rows,
        [
            "'count ms' is est.count(...) with its standard error, reading the question included; "
            "'value ms' is the estimate alone."
        ],
    )


def _row(choice: Any, size: int) -> dict[str, Any]:
    """One study: a middle range on every axis."""
    names = "abc"[:DIMENSIONS]
    axes = [
        sf.integers(name, 0, size - 1, protect=sf.Distance(1.0), channel=choice) for name in names
    ]
    study = sf.Study("ranges", axes)
    rng = np.random.default_rng(size)
    people = {
        name: np.minimum((rng.beta(2, 3, PEOPLE) * size).astype(np.int64), size - 1)
        for name in names
    }
    tally = study.simulate(people, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tally.parquet"
        tally.save(path)
        tally = sf.Tally.load(path, study)
        stored = path.stat().st_size
    estimate = tally.estimate("unbiased", via="direct")
    question = dict.fromkeys(names, (size // 4, size // 2))
    asked = weights(study.axes, question)
    whole, _ = seconds(lambda: estimate.count(question), repeat=20)
    value, _ = seconds(lambda: estimate.value_of(asked), repeat=20)
    truth = sum(np.all([(v >= size // 4) & (v <= size // 2) for v in people.values()], axis=0))
    answer = estimate.count(question)
    assert abs(answer.value - truth) < 6 * answer.stderr
    statistic = tally.statistic
    return {
        "channel": choice.id,
        "m": size,
        "distinct cells": len(statistic.people) if hasattr(statistic, "people") else "",
        "count ms": whole * 1e3,
        "value ms": value * 1e3,
        "tally MiB on disk": stored / 2**20,
    }
