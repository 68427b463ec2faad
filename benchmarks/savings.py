"""The tables of docs/central.md on how much a metric saves, from what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pages import digits, markdown
from sfumato.reproduction.kamalaruban import NAMES, PRINTED_ELEVATION

RESULTS = Path("results/soak/kamalaruban.json")
PAGE = Path("docs/central.md")


def _of_several(rows: Sequence[dict[str, Any]]) -> str:
    """Factors by number of queries."""
    head = ["queries", "coefficients", *NAMES, "strategy 3 over optimum, mean (most)"]
    lines = []
    for row in rows:
        over = row["strategy 3 over optimum"]
        lines.append(
            [
                str(row["k"]),
                "0 or 1" if row["binary"] else "[0, 1]",
                *(f"{row['factor'][name]:.2f}" for name in NAMES),
                f"{over['mean']:.2f} ({over['most']:.2f})",
            ]
        )
    return markdown(head, lines)


def _of_thresholds(rows: Sequence[dict[str, Any]]) -> str:
    """Mean error and factors by reach."""
    head = ["form", "reach", "pairs within", "mean RMSE", "ordinary RMSE", "median factor"]
    lines = [
        [
            row["form"],
            str(row["reach"]),
            str(row["pairs within reach"]),
            digits(row["mean error"]),
            digits(row["ordinary error"]),
            digits(float(np.median(row["factors"]))),
        ]
        for row in rows
    ]
    return markdown(head, lines)


def _of_cities(found: dict[str, Any]) -> str:
    """Figure 3 beside the printed values."""
    factors = np.array(found["factors"])
    lines = [
        ["cities", f"{found['cities']}", "741"],
        ["mean factor of random queries", f"{factors.mean():.2f}", "between 2 and 3"],
        ["largest factor", f"{factors.max():.2f}", "more than 7.5"],
        ["factor of the mean elevation", f"{found['elevation']:.0f}", f"{PRINTED_ELEVATION}"],
    ]
    return markdown(["", "here", "printed"], lines)


def tables(record: Mapping[str, Any]) -> dict[str, str]:
    """The tables of the page, from the record."""
    makers: dict[str, tuple[str, Callable[[Any], str]]] = {
        "several queries": ("figure 2", lambda found: _of_several(found["together"])),
        "cities": ("figure 3", _of_cities),
        "thresholds": ("figures 4 and 5", _of_thresholds),
    }
    return {name: make(record[key]) for name, (key, make) in makers.items() if key in record}
