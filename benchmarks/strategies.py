"""How much a search among rows gains over the best fixed strategy (Xiang et al. 2020, §3.1).

``python -m benchmarks.strategies`` writes results/soak/xiang.json.
"""

from __future__ import annotations

import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import sfumato as sf
from benchmarks import records
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.distance import CappedLineMetric, LineMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.noise.search import search
from sfumato.reproduction.xiang import sensitive

RESULTS = Path("results/soak/xiang.json")
SEARCHED = 32
SEED = 2020


def searches(cells: int = SEARCHED) -> dict[str, tuple[CellMetric, sf.questions.Workload]]:
    """Metrics and questions for which a strategy is searched."""
    half = Fraction(1, 2)
    names = [f"place {k}" for k in range(cells)]
    at = np.random.default_rng(SEED).uniform(0, 4, (cells, 2)).round(3).tolist()
    places = sf.Points(1, at=dict(zip(names, map(tuple, at), strict=True)))
    ring = [(names[k], names[(k + 1) % cells]) for k in range(cells)]
    points = sf.categories("x", names, protect=places).metric()
    circle = sf.categories("x", names, protect=sf.PolicyGraph(half, ring)).metric()
    every, ranges = sf.questions.Identity(cells), sf.questions.Ranges(cells)
    return {
        "distance, ranges": (LineMetric.equal(half, cells), ranges),
        "distance capped at 2, ranges": (
            CappedLineMetric(LineMetric.equal(half, cells), Fraction(2)),
            ranges,
        ),
        "uniform, ranges": (UniformMetric(Fraction(1), cells), ranges),
        "E_S, cells": (sensitive(cells // 10, cells), every),
        "points in the plane, cells": (points, every),
        "a ring, ranges": (circle, ranges),
    }


def search_row(name: str, metric: CellMetric, asked: sf.questions.Workload) -> dict[str, Any]:
    """The error per person of flipped bits, for fixed strategies and the one found.

    Args:
        name: Name of the case.
        metric: E.
        asked: The questions.
    """
    start = time.process_time()
    found = search(asked, metric, bits=True)
    return {
        "case": name,
        "cells": metric.size,
        "fixed": found.fixed,
        "searched": found.best.error,
        "gain": found.gain,
        "rows": len(found.best.rates),
        "seconds": round(time.process_time() - start, 1),
    }


def main() -> None:
    """Search, and keep what was found."""
    held = records.held(RESULTS)
    held["search"] = [search_row(name, *case) for name, case in searches().items()]
    records.stamp(held, "search", "python -m benchmarks.strategies")
    for row in held["search"]:
        print(row)
    records.keep(RESULTS, held)


if __name__ == "__main__":
    main()
