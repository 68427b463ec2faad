"""Time to allocate a guarantee to a hundred queries over a thousand cells."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pages import digits, markdown, refilled
from benchmarks.recording import FOLDER, Measurement, progress
from sfumato import questions
from sfumato.metrics.distance import LineMetric
from sfumato.metrics.edges import edges_of_matrix
from sfumato.metrics.uniform import UniformMetric
from sfumato.noise.allocate import Allocation, allocate, check

PAGE = Path("docs/speed.md")
CELLS = 1_000
QUERIES = 100
TOLERANCE = 1e-6
LONGEST = 30.0  # seconds, on two cores


def measure() -> Measurement:
    """Regular and irregular queries and metrics, each to a proved gap."""
    rows = []
    for metric, queries, work in _cases():
        progress(f"{queries}, {metric}")
        rows.append(_row(metric, queries, work))
    return Measurement(
        f"rates for {QUERIES} queries on {CELLS:,} cells, to a relative gap of {TOLERANCE:g}",
        rows,
        [
            "'proved gap' follows from multipliers, not from the solver's word; every pair is then "
            "checked in exact arithmetic, which is part of the time, as is reading the distances. "
            "'used' are the pairs that were generated as constraints, of 'pairs' that imply all."
        ],
    )


def _cases() -> Iterator[tuple[str, str, Callable[[], Allocation]]]:
    """Points that are spread at random or evenly, one ε for all, and a line."""
    rng = np.random.default_rng(20_200_101)
    scattered = rng.uniform(0, 100, (CELLS, 2))
    side = int(np.ceil(np.sqrt(CELLS)))
    corners = np.stack(np.divmod(np.arange(CELLS), side), axis=1)
    even = corners + rng.uniform(-0.3, 0.3, (CELLS, 2))
    waves = rng.normal(size=(QUERIES, 2)) * 2 * np.pi / side
    kinds = {
        "coefficients in [0, 1]": rng.uniform(size=(QUERIES, CELLS)),
        "coefficients 0 or 1": rng.integers(0, 2, (QUERIES, CELLS)),
        "half-planes": (
            rng.normal(size=(QUERIES, 2)) @ (even - side / 2).T > 4 * rng.normal(size=(QUERIES, 1))
        ).astype(np.int64),
        "waves": np.sin(waves @ even.T + rng.uniform(0, 6, (QUERIES, 1))).round(6),
    }
    flat = UniformMetric(Fraction(1), CELLS)
    for name, rows in kinds.items():
        for metric, points in (("points at random", scattered), ("points, even", even)):
            yield metric, name, _solver(rows, lambda points=points: edges_of_matrix(_apart(points)))
        yield "one ε for all", name, _solver(rows, lambda: flat)
    line = LineMetric.equal(Fraction(1, 5), CELLS)
    yield "line", "all prefixes", _solver(questions.Prefixes(CELLS), lambda: line)
    yield "line", "binary tree", _solver(questions.Hierarchy(CELLS, 2), lambda: line)
    yield "one ε for all", "all cells", _solver(questions.Identity(CELLS), lambda: flat)


def _solver(queries: Any, distances: Callable[[], Any]) -> Callable[[], Allocation]:
    """The whole work: read the distances, solve, certify; then the check once more, apart."""

    def work() -> Allocation:
        near = distances()
        found = allocate(queries, near, tolerance=TOLERANCE)
        work.again = lambda: check(queries, near, found.rates)  # type: ignore[attr-defined]
        return found

    return work


def _apart(points: np.ndarray) -> np.ndarray:
    """Euclidean distances."""
    return np.sqrt(((points[:, None] - points) ** 2).sum(axis=-1))


def _row(metric: str, queries: str, work: Callable[[], Allocation]) -> dict[str, Any]:
    """One case, timed once, as it is long and runs from nothing."""
    wall, processor = time.perf_counter(), time.process_time()
    found = work()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    assert found.gap is not None
    assert found.gap <= TOLERANCE
    assert processor < LONGEST
    assert work.again()  # type: ignore[attr-defined]
    return {
        "metric": metric,
        "queries": queries,
        "K": len(found.rates),
        "pairs": found.pairs,
        "used": found.constraints,
        "rounds": found.rounds,
        "proved gap": found.gap,
        "processor s": processor,
        "wall s": wall,
    }


def page_tables(figures: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Recorded figures as the table of the page, by its name there."""
    rows = [
        [
            row["metric"],
            row["queries"],
            *(f"{row[key]:,}" for key in ("K", "pairs", "used", "rounds")),
            f"{row['proved gap']:.0e}",
            digits(row["processor s"]),
        ]
        for row in figures
    ]
    head = ["metric", "queries", "K", "pairs", "generated", "rounds", "proved gap", "processor s"]
    return {"allocation": markdown(head, rows)}


if __name__ == "__main__":
    held = json.loads((FOLDER / "allocation.json").read_text(encoding="utf-8"))["figures"]
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(refilled(text, page_tables(held)), encoding="utf-8")
