"""Optional answers on distance axes: errors and times beside the same axis without `optional`.

Errors are exact, of a random range with 10,000 people spread evenly.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import sfumato as sf
from benchmarks.recording import Measurement, progress, seconds

PEOPLE = 10_000
#: Cells, ε and the distance of "no answer", in cells; at half the axis, nearer, and very near.
CASES: tuple[tuple[int, str, int], ...] = (
    (100, "1/2", 50),
    (100, "6/100", 50),
    (20, "3/10", 10),
    (1_000, "1/100", 500),
    (5_000, "1/2", 2_500),
    (100, "1/2", 10),
    (50, "1/5", 10),
    (50, "1/2", 5),
    (20, "1", 2),
    (50, "1/2", 3),
    (100_000, "1/2", 50_000),
    (100_000, "1/2", 8),
)
MOST_ASKED = 5_000  # cells up to which errors are computed; beyond, only times


def optional(size: int, epsilon: str, no_answer: int) -> sf.Study:
    """An axis that may be left unanswered.

    Args:
        size: How many cells.
        epsilon: ε per cell.
        no_answer: How many cells away "no answer" is.
    """
    protect = sf.Distance(epsilon, no_answer=no_answer)
    axis = sf.integers("x", 0, size - 1, protect=protect, optional=True, channel=sf.Extended())
    return sf.Study("optional", [axis])


def answered(size: int, epsilon: str, no_answer: int) -> sf.Study:
    """The same axis, always answered, with the cap on E that "no answer" brings.

    Args:
        size: How many cells.
        epsilon: ε per cell.
        no_answer: How many cells away "no answer" would be.
    """
    cap = None if 2 * no_answer >= size - 1 else 2 * Fraction(epsilon) * no_answer
    protect = sf.Distance(epsilon, cap=cap)
    axis = sf.integers("x", 0, size - 1, protect=protect, channel=sf.Geometric())
    return sf.Study("answered", [axis])


def measure() -> Measurement:
    """Errors, their ratio, and seconds."""
    rows = []
    for case in CASES:
        progress(f"{case[0]:,} cells, no answer at {case[2]:,}")
        rows.append(_row(case))
    return Measurement(
        f"optional answers, {PEOPLE:,} people: the error of a random range",
        rows,
        ['where 2·"no answer" is shorter than the axis, both have that cap on E'],
    )


def _row(case: tuple[int, str, int]) -> dict[str, Any]:
    """One axis with and without optional answers."""
    size, epsilon, no_answer = case
    found: dict[str, Any] = {"cells": size, "ε": epsilon, "no answer": no_answer}
    errors: list[Any] = ["", ""]
    if size <= MOST_ASKED:
        made = (optional(*case), answered(*case))
        errors = [study.expected_error(PEOPLE).rows[0].stderr for study in made]
    times = [seconds(partial(make, *case), repeat=3)[0] for make in (optional, answered)]
    return found | {
        "optional": errors[0],
        "answered": errors[1],
        "ratio": errors[0] / errors[1] if size <= MOST_ASKED else "",
        "made s": times[0],
        "made s, answered": times[1],
    }
