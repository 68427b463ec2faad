"""Optional answers on distance axes: errors and times beside the same axis without `optional`.

Errors are exact, of a random range with 10,000 people spread evenly: of the default channel, and of
`Extended()`, geometric noise lifted as it is. Beside them stands what no channel can be below
(`benchmarks/optional_bounds.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import sfumato as sf
from benchmarks.optional_bounds import least, told
from benchmarks.recording import Measurement, progress, seconds
from sfumato.channels.choice import described

PEOPLE = 10_000
#: Cells, ε and the distance of "no answer", in cells; at half the axis, nearer, and very near.
CASES: tuple[tuple[int, str, int], ...] = (
    (100, "1/2", 50),
    (100, "6/100", 50),
    (20, "3/10", 10),
    (1_000, "1/100", 500),
    (1_000, "1/2", 12),
    (1_000, "1/2", 8),
    (1_000, "1/2", 4),
    (1_000, "1/2", 10),
    (1_000, "1/2", 6),
    (1_000, "1/2", 2),
    (5_000, "1/2", 8),
    (5_000, "1/2", 2_500),
    (100, "1/2", 10),
    (50, "1/5", 10),
    (50, "1/2", 5),
    (20, "1", 2),
    (50, "1/2", 3),
    (100_000, "1/2", 50_000),
    (100_000, "1/2", 8),
    (300, "1/5", 10),
    (300, "1", 3),
    (8, "1", 1),
)
MOST_BOUND = 1_000  # cells up to which the first bound is computed
MOST_LISTED = 8  # cells up to which all channels are compared
MOST_ASKED = 5_000  # cells up to which errors are computed; beyond, only times


def optional(
    size: int, epsilon: str, no_answer: int, channel: sf.Extended | None = None
) -> sf.Study:
    """An axis that may be left unanswered.

    Args:
        size: How many cells.
        epsilon: ε per cell.
        no_answer: How many cells away "no answer" is.
        channel: The channel; the default where it is left out.
    """
    protect = sf.Distance(epsilon, no_answer=no_answer)
    axis = sf.integers("x", 0, size - 1, protect=protect, optional=True, channel=channel)
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
        [
            'where 2·"no answer" is shorter than the axis, both have that cap on E',
            "told: no channel is below, by what values may tell together; none below: no channel "
            "is below, by duality over all extreme rays of E's cone",
        ],
    )


def _row(case: tuple[int, str, int]) -> dict[str, Any]:
    """One axis with and without optional answers."""
    size, epsilon, no_answer = case
    found: dict[str, Any] = {"cells": size, "ε": epsilon, "no answer": no_answer}
    lifted = partial(optional, channel=sf.Extended())
    made = {"default": optional(*case), "extended": lifted(*case), "answered": answered(*case)}
    asked = size <= MOST_ASKED
    errors: dict[str, Any] = {
        name: study.expected_error(PEOPLE).rows[0].stderr if asked else ""
        for name, study in made.items()
    }
    makers: dict[str, Callable[..., sf.Study]] = {
        "default": optional,
        "extended": lifted,
        "answered": answered,
    }
    times = {name: seconds(partial(make, *case), repeat=3)[0] for name, make in makers.items()}
    e = Fraction(epsilon) * no_answer
    near = size <= MOST_BOUND and e < math.log(size)  # elsewhere all cells may be told apart
    bound = (PEOPLE * told(size, float(e))) ** 0.5 if near else ""
    listed = size <= MOST_LISTED and epsilon == "1"
    none_below = (PEOPLE * least(size, 1, no_answer)[1]) ** 0.5 if listed else ""
    return found | {
        "channel": described(made["default"].blocks[0].choice),
        **errors,
        "default/answered": errors["default"] / errors["answered"] if asked else "",
        "extended/answered": errors["extended"] / errors["answered"] if asked else "",
        "told": bound,
        "none below": none_below,
        "default/told": errors["default"] / bound if near else "",
        "none below/answered": none_below / errors["answered"] if listed else "",
        **{f"made s, {name}": time for name, time in times.items()},
    }
