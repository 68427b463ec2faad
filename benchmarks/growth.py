"""How the time to the first answer grows with cells and with people, and the slopes."""

from __future__ import annotations

import argparse
import json
import statistics
from typing import Any

import numpy as np

import sfumato as sf
from benchmarks.answers import POPULATION, Case, answered, line, warm_up
from benchmarks.imports import OWN
from benchmarks.recording import Measurement, progress
from benchmarks.versions import run

GUARANTEES = {"Distance(0.2)": sf.Distance(0.2), "Uniform(1)": sf.Uniform(1)}
CELLS = {
    "Distance(0.2)": (128, 256, 512, 1_024, 2_048, 4_096, 8_192),
    "Uniform(1)": (128, 256, 512, 1_024, 2_048),
}
PEOPLE = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
REPEAT = 3  # runs of each; the median counts


def _timed(guarantee: str, cells: int, people: int) -> dict[str, Any]:
    """One count, in fresh processes."""
    progress(f"{guarantee}, {cells:,} cells, {people:,} people")
    given = (guarantee, str(cells), str(people))
    found = [run(OWN, "benchmarks.growth", *given) for _ in range(REPEAT)]
    return {
        "guarantee": guarantee,
        "cells": cells,
        "people": people,
        "answer": found[0]["outcome"],
        "seconds": statistics.median(one["seconds"] for one in found),
    }


def slope(rows: list[dict[str, Any]], name: str) -> float:
    """The exponent b of seconds ≈ c·size^b, by least squares of logarithms.

    Args:
        rows: Figures.
        name: Which of them is the size.
    """
    size, seconds = (np.log([row[key] for row in rows]) for key in (name, "seconds"))
    return float(np.polyfit(size, seconds, 1)[0])


def measure() -> Measurement:
    """Against cells for 100,000 people, then against people for 256 cells."""
    rows, notes = [], []
    for guarantee, sizes in CELLS.items():
        by_cells = [_timed(guarantee, cells, 100_000) for cells in sizes]
        by_people = [_timed(guarantee, 256, people) for people in PEOPLE]
        rows += by_cells + by_people
        notes.append(
            f"{guarantee}: seconds grow as cells^{slope(by_cells, 'cells'):.2f} and as "
            f"people^{slope(by_people, 'people'):.2f}"
        )
    return Measurement(
        "processor seconds to the first answer, a count, as cells and people grow",
        rows,
        [*notes, f"medians of {REPEAT} fresh processes, as in `answers`", POPULATION],
    )


def main() -> None:
    """One count, for `measure`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth")
    parser.add_argument("guarantee", choices=GUARANTEES)
    parser.add_argument("cells", type=int)
    parser.add_argument("people", type=int)
    given = parser.parse_args()
    warm_up()
    study = line(given.cells, GUARANTEES[given.guarantee])
    print(json.dumps(answered(Case("", study, budget=0.0, people=given.people))))


if __name__ == "__main__":
    main()
