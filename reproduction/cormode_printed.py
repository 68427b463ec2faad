"""The printed figures of Cormode et al. 2019, ours beside them, and the tables of the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pages import markdown
from reproduction import records

Cells = dict[str, list[float]]

RESULTS = Path("results/soak/cormode.json")
PAGE = Path("docs/plain-ldp.md")
PEOPLE = 1 << 26
SIZES = (1 << 8, 1 << 16)
EPSILONS = ("0.2", "0.4", "0.6", "0.8", "1.0", "1.1", "1.2", "1.4")
NAMES = ("HH_2", "HH_4", "HH_16", "HaarHRR")

# What is asked as the text says it, and as the program seems to have done it.
SHOWN = {
    "ranges at 2^8": ("all ranges", "all ranges", 1 << 8),
    "ranges at 2^16": ("all ranges", "ranges from every 128 cells", 1 << 16),
    "prefixes at 2^8": ("all prefixes", "all prefixes", 1 << 8),
    "prefixes at 2^16": ("all prefixes", "all prefixes", 1 << 16),
}

# As printed, by figure and D: one row an ε, in the order of NAMES.
PRINTED: dict[str, dict[int, list[list[float]]]] = {
    "ranges": {
        1 << 8: [
            [4.269, 4.037, 4.176, 3.684],
            [2.024, 2.193, 2.590, 1.831],
            [1.388, 1.341, 1.535, 1.278],
            [1.002, 0.950, 1.130, 0.987],
            [0.844, 0.744, 0.844, 0.811],
            [0.722, 0.667, 0.820, 0.748],
            [0.684, 0.658, 0.642, 0.732],
            [0.571, 0.542, 0.592, 0.601],
        ],
        1 << 16: [
            [6.745, 7.129, 8.692, 6.666],
            [3.616, 3.424, 4.648, 3.526],
            [2.333, 2.360, 2.793, 2.342],
            [1.644, 1.728, 2.075, 1.711],
            [1.356, 1.377, 1.642, 1.484],
            [1.303, 1.270, 1.597, 1.345],
            [1.090, 1.140, 1.433, 1.201],
            [0.922, 0.995, 1.158, 1.130],
        ],
    },
    "prefixes": {
        1 << 8: [
            [4.306, 2.968, 4.282, 2.857],
            [1.859, 1.439, 1.828, 1.377],
            [1.366, 0.957, 1.758, 1.031],
            [0.937, 0.778, 0.896, 0.758],
            [0.802, 0.561, 0.637, 0.613],
            [0.684, 0.533, 0.666, 0.626],
            [0.658, 0.437, 0.670, 0.568],
            [0.573, 0.420, 0.478, 0.494],
        ],
        1 << 16: [
            [7.701, 6.172, 7.014, 5.870],
            [3.266, 3.101, 3.744, 2.880],
            [2.402, 2.176, 2.426, 2.018],
            [1.663, 1.503, 1.834, 1.511],
            [1.338, 1.220, 1.426, 1.244],
            [1.202, 1.051, 1.259, 1.120],
            [1.080, 0.978, 1.147, 1.054],
            [0.973, 0.848, 0.981, 0.973],
        ],
    },
}


def off(ours: Sequence[float], printed: Sequence[float]) -> float:
    """The mean of |ours/printed − 1| over a column.

    Args:
        ours: Our values.
        printed: The printed values.
    """
    return float(np.mean(np.abs(np.array(ours) / np.array(printed) - 1)))


def column(asked: str, said: str, size: int, name: str, ours: Sequence[float]) -> dict[str, Any]:
    """One column beside the printed one.

    Args:
        asked: "ranges" or "prefixes".
        said: The questions in words, as recorded.
        size: Number of cells.
        name: Name of the method.
        ours: Our values by ε.
    """
    printed = [row[NAMES.index(name)] for row in PRINTED[asked][size]]
    return {
        "figure": 4 if asked == "ranges" else 5,
        "queries": said,
        "D": size,
        "method": name,
        "epsilon": [float(epsilon) for epsilon in EPSILONS],
        "printed": printed,
        "expected": [round(float(value), 4) for value in ours],
        "mean |ours/printed - 1|": round(off(ours, printed), 4),
        "mean ours/printed": round(float(np.mean(np.array(ours) / printed)), 4),
    }


def conclusions(ours: Cells) -> dict[str, str]:
    """The best method at each ε."""
    return {
        epsilon: min(NAMES, key=lambda name: ours[name][place])
        for place, epsilon in enumerate(EPSILONS)
    }


def as_run(record: dict[str, Any], said: str, size: int, start: str) -> list[dict[str, Any]]:
    """The columns of trees with a given start of the engines, and HaarHRR's, in the order of NAMES.

    Args:
        record: The results.
        said: The questions.
        size: Number of cells.
        start: How the engines of the levels start.
    """
    found = [c for c in record.get("as run", []) if c["levels start"] == start] + [
        c for c in record["columns"] if c["method"] == "HaarHRR"
    ]
    return [c for c in found if (c["queries"], c["D"]) == (said, size)]


def tables(record: dict[str, Any]) -> dict[str, str]:
    """The tables of the page: by the text, by the program, and as printed."""
    result = {}
    for name, (text, program, size) in SHOWN.items():
        by_text = [c for c in record["columns"] if (c["queries"], c["D"]) == (text, size)]
        run = as_run(record, program, size, "alike")
        pairs = list(zip(by_text, run, strict=True))
        rows = [
            [
                epsilon,
                *(
                    f"{t['expected'][k]:.3f} / {r['expected'][k]:.3f} / {t['printed'][k]:.3f}"
                    for t, r in pairs
                ),
            ]
            for k, epsilon in enumerate(EPSILONS)
        ]
        for what, key, sign in (
            ("ours over printed", "mean ours/printed", "+"),
            ("off by", "mean |ours/printed - 1|", ""),
        ):
            less = 1 if sign else 0
            both = [[100 * (c[key] - less) for c in pair] for pair in pairs]
            rows.append([what, *(f"{t:{sign}.1f} % / {r:{sign}.1f} %" for t, r in both)])
        result[name] = markdown(["ε", *NAMES], rows)
    result["levels apart"] = apart(record)
    return result


def apart(record: dict[str, Any]) -> str:
    """The distance of the printed values from the program, with engines started alike and apart."""
    rows = []
    for name, (_, program, size) in SHOWN.items():
        for start in ("alike", "apart"):
            held = as_run(record, program, size, start)[: len(NAMES) - 1]
            key = "standard error of that, five runs"
            cells = [f"{c['mean printed/ours']:.2f} ± {c[key]:.2f}" for c in held]
            rows.append([name, start, *cells])
    return markdown(["printed over ours", "levels start", *NAMES[:-1]], rows)


def write(record: dict[str, Any], part: str, command: str) -> None:
    """Write the results, how this part was made, and the tables of the page.

    Args:
        record: The results.
        part: The part that was made.
        command: The command that made it.
    """
    record["simulated"].sort(key=lambda s: (s["D"], NAMES.index(s["method"]), s["epsilon"]))
    records.stamp(record, part, command)
    if record.get("as run"):
        records.keep(RESULTS, record, PAGE, tables)
    else:
        records.keep(RESULTS, record)
