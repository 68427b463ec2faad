"""The table that opens the README: what is best here beside the papers' own, at equal guarantee.

``python -m benchmarks.beyond`` writes it from recorded results; nothing is measured here. Bytes are
those of the reports of each study.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import sfumato as sf
from benchmarks.pages import markdown, refilled
from sfumato.channels.choice import Choice
from sfumato.collect.packing import layout_of

PAGE = Path("README.md")
RESULTS = Path("results")
NAME = "beyond the papers"
#: Populations, cells and ε of ranges under a metric.
SHOWN = (("two bumps", "100", 0.2), ("two bumps", "100", 1.0), ("spiky", "100", 0.2))
HEAD = (
    "task, at equal guarantee",
    "error here",
    "the paper's own, times ours",
    "best other, times ours",
    "bytes per report, here and the paper's",
    "processor time here",
)


def held(name: str, root: Path = Path()) -> Any:
    """A recorded document.

    Args:
        name: The file below results/.
        root: The folder of the project.
    """
    return json.loads((root / RESULTS / name).read_text(encoding="utf-8"))


def times(theirs: float, ours: float, relative: float | None) -> str:
    """A ratio of errors with its 95 % interval.

    Args:
        theirs: Their error.
        ours: Ours.
        relative: The relative standard error of the ratio; None for exact errors or single runs.
    """
    ratio = theirs / ours
    if relative is None:
        return f"{ratio:.3g}"
    ends = [ratio * math.exp(sign * 1.96 * relative) for sign in (-1, 1)]
    return f"{ratio:.3g} ({ends[0]:.2g} to {ends[1]:.2g})"


def size(protect: Any, shape: tuple[int, ...], choice: Choice | None) -> int:
    """Bytes of a report.

    Args:
        protect: The guarantee of every axis.
        shape: Cells of the axes.
        choice: The channel; the default one if it is None.
    """
    axes = [
        sf.integers(f"x{d}", 0, cells - 1, protect=protect, channel=choice)
        for d, cells in enumerate(shape)
    ]
    return layout_of(sf.Study("bytes", axes).layouts).size


def ranges(root: Path) -> list[list[str]]:
    """Ranges on a line under a metric: the thermometer of Xiang et al."""
    rows = []
    for row in held("bench/decoding.json", root)["figures"]:
        if (row["people"], row["ε"]) not in (
            ("two bumps", 0.2),
            ("spiky", 0.2),
            ("two bumps", 1.0),
        ):
            continue
        if row["cells"] != "100":
            continue
        protect = sf.Distance(str(row["ε"]))
        sizes = [size(protect, (100,), c) for c in (None, sf.Thermometer("published"))]
        spread = row["default sd"] / row["default"] / math.sqrt(row["seeds"])
        rows.append(
            [
                f"ranges of 100 cells, ε = {row['ε']:g} per cell, {row['people']}",
                f"{row['default'] / 10:.2g} %",
                f"thermometer: {times(row['published'], row['default'], spread)}",
                "none known",
                f"{sizes[0]}, {sizes[1]}",
                f"{row['seconds']:.2f} s",
            ]
        )
    return rows


def boxes(root: Path) -> list[str]:
    """A box of two axes under a metric, by exact errors."""
    parts = held("reproduction.json", root)["exhibits"]
    table = next(part for part in parts if part["id"] == "xiang-table-2-full-version")
    row = next(r for r in table["data"]["standard errors"] if (r["axes"], r["cells"]) == (2, 64))
    protect = sf.Distance(row["epsilon"])
    sizes = [size(protect, (64, 64), c) for c in (None, sf.Thermometer("published"))]
    ours = row["default"]
    return [
        f"a box of 64 × 64 cells, ε = {row['epsilon']} per cell, unbiased",
        f"{ours / 100:.2g} %",
        f"thermometer: {times(row['thermometer, published'], ours, None)}",
        f"Haney et al.: {times(row['Haney et al., extended'], ours, None)}",
        f"{sizes[0]}, {sizes[1]}",
        "",
    ]


def plain(root: Path) -> list[list[str]]:
    """Ranges under one ε: the methods of Cormode et al., and the best of others."""
    figures = held("bench/plain.json", root)["figures"]
    rows = []
    for people in ("smooth", "spiky"):
        here = [r for r in figures if (r["people"], r["cells"], r["ε"]) == (people, "256", 1.0)]
        ours = next(r for r in here if (r["method"], r["read"]) == ("default", "likelihood"))

        def beside(methods: tuple[str, ...], here: Any = here, ours: Any = ours) -> str:
            read = [r for r in here if r["method"] in methods]
            own = [r for r in read if r["read"] == "unbiased" or r["method"] == "Square Wave"]
            best = min(own, key=lambda r: float(r["mean of RMSE"]))
            spread = math.sqrt(
                sum((r["sd of RMSE"] / r["mean of RMSE"]) ** 2 / r["seeds"] for r in (best, ours))
            )
            ratio = times(best["mean of RMSE"], ours["mean of RMSE"], spread)
            return f"{best['method']}: {ratio}"

        protect = sf.Uniform(1)
        sizes = [size(protect, (256,), c) for c in (None, sf.HaarHRR())]
        rows.append(
            [
                f"ranges of 256 cells, ε = 1 for all pairs, {people}",
                f"{ours['mean of RMSE'] / 10:.2g} %",
                beside(("HH₄, consistent", "HaarHRR")),
                beside(("Square Wave", "optimised for ranges", "flat OUE")),
                f"{sizes[0]}, {sizes[1]}",
                f"{ours['seconds']:.2g} s",
            ]
        )
    return rows


def checkins(root: Path) -> list[str]:
    """A whole distribution: the estimate of Acharya et al., and the same reports by likelihood."""
    likelihood = held("soak/acharya.json", root)["table 1"]["likelihood"]
    row = next(r for r in likelihood if (r["blocks"], r["smoothing"]) == ("plain", "auto"))
    context = held("bench/context.json", root)["figures"]
    ours = next(r for r in context if (r["what"], r["people"]) == ("sfumato, plain", 1_000_000))
    other = next(
        r
        for r in context
        if r["what"].startswith("pure-ldp")
        and (r["cells"], r["people"]) == (ours["cells"], ours["people"])
    )
    both = size(sf.Uniform(1), (43_750,), sf.Hadamard())
    return [
        "shares of 43,750 places, ε = 1 for all pairs, one run",
        f"{row['likelihood']:.3f} in total variation",
        f"projected: {times(row['projected'], row['likelihood'], None)}",
        f"pure-ldp: the paper's estimate, {other['seconds'] / ours['seconds']:.0f} times the time",
        f"{both}, {both}",
        f"{row['seconds']:.2g} s",
    ]


def curator(root: Path) -> list[str]:
    """Ten queries of a curator: Strategy 3 of Kamalaruban et al. beside the exact optimum."""
    parts = held("reproduction.json", root)["exhibits"]
    figure = next(part for part in parts if part["id"] == "kamalaruban-figure-2")
    row = next(r for r in figure["data"]["together"] if r["binary"] and r["k"] == 10)
    over = row["strategy 3 over optimum"]
    ends = [over[name] ** 0.5 for name in ("mean", "least", "most")]
    return [
        "10 counts by a curator, 50 places in the plane",
        "1 (exact optimum)",
        f"strategy 3: {ends[0]:.3g} ({ends[1]:.2g} to {ends[2]:.2g} over {row['matrices']} sets)",
        "",
        "",
        "",
    ]


def table(root: Path = Path()) -> str:
    """The table.

    Args:
        root: The folder of the project.
    """
    rows = [*ranges(root), boxes(root), *plain(root), checkins(root), curator(root)]
    return markdown(HEAD, rows)


def main() -> None:
    """Write the table into the README."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(refilled(text, {NAME: table()}), encoding="utf-8")


if __name__ == "__main__":
    main()
