"""Searched channels: their error, the time of the search and the size of what it finds.

`SFUMATO_BEFORE`, the `src` folder of an earlier version, adds what the search for extremal rows
found there, up to 24 cells.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import sfumato as sf
from benchmarks.recording import Measurement, progress
from sfumato.channels.searched.codec import Code, OutputRows
from sfumato.channels.searched.extremal import ExtremalChannel
from sfumato.channels.searched.extreme_rows import exponential, mean_square
from sfumato.channels.searched.settling import cells_gram
from sfumato.metrics.cells import CellMetric
from sfumato.noise.strategies import squares_of, variances

SIZES = (5, 8, 12, 16, 24)
LARGE = (64, 100, 128)
KINDS = ("line", "ring", "one ε", "places", "any", "uneven", "sensitive set", "tree", "high, low")
LARGE_KINDS = ("places", "uneven", "sensitive set", "tree")
FAR = 12.0  # what an earlier version takes for infinite distances

_EARLIER = """
import json, sys, time
import numpy as np
from sfumato.channels.searched.extreme_rows import fit
distance = np.array(json.load(sys.stdin))
start = time.process_time()
found = fit(np.eye(len(distance)) / len(distance), distance)
print(json.dumps([found.value, time.process_time() - start]))
"""


def measure() -> Measurement:
    """Mean squares of single cells, a person, under metrics of many kinds."""
    rows = []
    for kind, metric in cases():
        progress(f"{kind}, {metric.size} cells")
        rows.append(_row(kind, metric))
    return Measurement(
        "searched channels: the mean square of a cell, a person, and the seconds of the search",
        rows,
        [
            "'extremal' and 'identity' are the mean squares of `Extremal()` and "
            "`MatrixResponse('identity')` for people spread evenly, as the channels have them "
            "after all rounding, 'exponential' that of the exponential channel before it; 'gap' is "
            "how far the first may be above the least there can be; 'kB' is the length of its "
            "text. "
            "'before' is the mean square that the earlier search found, in 'before s'."
        ],
    )


def cases() -> Iterator[tuple[str, CellMetric]]:
    """Metrics by kind and size."""
    for sizes, kinds in ((SIZES, KINDS), (LARGE, LARGE_KINDS)):
        for size in sizes:
            for kind in kinds:
                labels = [f"c{k}" for k in range(size)]
                yield kind, sf.categories("x", labels, protect=_metric(kind, size)).metric()


def _metric(kind: str, size: int) -> sf.Metric:
    """One metric; those drawn at random are the same in every run."""
    rng = np.random.default_rng(size)
    place = np.arange(size)
    apart = np.abs(place[:, None] - place)
    if kind == "one ε":
        return sf.Uniform(1)
    if kind == "places":
        at = (3 * rng.random((size, 2))).round(4).tolist()
        return sf.Points(1, at=[(f"c{k}", tuple(map(str, two))) for k, two in enumerate(at)])
    if kind == "sensitive set":
        return sf.SensitiveSet(1, [f"c{k}" for k in range(max(1, size // 10))])
    if kind == "tree":
        return sf.PolicyGraph("0.7", [(f"c{(k - 1) // 2}", f"c{k}") for k in range(1, size)])
    if kind == "high, low":
        return sf.HighLow(1, [f"c{k}" for k in range(max(1, size // 4))])
    eighths = rng.integers(2, 24, (size, size))
    halves = 4 * (apart if kind == "line" else np.minimum(apart, size - apart))
    values = {"any": np.minimum(eighths, eighths.T), "uneven": eighths}.get(kind, halves) / 8
    np.fill_diagonal(values, 0)
    return sf.Matrix(values.tolist())


def _row(kind: str, metric: CellMetric) -> dict[str, Any]:
    """All channels under one metric, and the earlier search."""
    gram = cells_gram(metric.size)
    near = np.minimum(metric.matrix(), FAR)
    start = time.process_time()
    rows = sf.Extremal()._search(metric, None)
    taken = time.process_time() - start
    channel = ExtremalChannel(metric=metric, rows=OutputRows.from_text(rows.to_text()))
    found = mean_square(channel.likelihood(), gram)
    start = time.process_time()
    code = sf.MatrixResponse("identity", workload="cells")._search(metric, None)
    coding = time.process_time() - start
    before, slow = _before(near) if metric.size <= max(SIZES) else (None, None)
    return {
        "metric": kind,
        "cells": metric.size,
        "extremal": found,
        "gap": rows.gap,
        "outputs": len(rows.shares),
        "seconds": taken,
        "kB": len(rows.to_text()) / 1_000,
        "identity": _of_bits(code),
        "identity s": coding,
        "exponential": exponential(gram, near).value,
        "before": before,
        "before s": slow,
        "found / before": found / before if before else None,
    }


def _of_bits(code: Code) -> float:
    """The mean square of a cell from flipped bits: their variance, and that of the cell itself."""
    rates = np.array([np.inf if rate is None else float(rate) for rate in code.rates])
    noise = variances(rates, np.ones(len(rates)), bits=True)
    members = code.members.astype(np.float64)
    kept = squares_of(members, noise, cells_gram(code.cells))
    return float(kept @ noise) + 1 / code.cells


def _before(distance: np.ndarray[Any, Any]) -> tuple[float | None, float | None]:
    """What the search of an earlier version finds, and its seconds."""
    source = os.environ.get("SFUMATO_BEFORE")
    if source is None:
        return None, None
    done = subprocess.run(
        [sys.executable, "-c", _EARLIER],
        input=json.dumps(distance.tolist()),
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )
    value, taken = json.loads(done.stdout)
    return value, taken
