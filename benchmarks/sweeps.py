"""How the cost of some channels grows with cells m, with axes D and with ε."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import sfumato as sf
from benchmarks.pages import markdown
from benchmarks.recording import Measurement, progress
from sfumato.cli.benching import PER_REPORT, STEPS, measured, warm_up
from sfumato.collect.packing import layout_of

PICTURE = Path("docs/images/sweeps.png")
PEOPLE = 100_000
#: A guarantee by its ε, and a channel for it.
CHANNELS: dict[str, tuple[Callable[[str], Any], Callable[[], Any]]] = {
    "geometric": (sf.Distance, sf.Geometric),
    "thermometer": (sf.Distance, sf.Thermometer),
    "oue": (sf.Uniform, sf.OUE),
    "hadamard": (sf.Uniform, sf.Hadamard),
}
#: What is swept: cells of one axis, axes of 16 cells, and ε on one axis of 256 cells.
SWEEPS: dict[str, tuple[tuple[int, int, str], ...]] = {
    "m": tuple((cells, 1, "0.5") for cells in (16, 64, 256, 1_024, 4_096)),
    "D": tuple((16, axes, "0.5") for axes in (1, 2, 3, 4)),
    "ε": tuple((256, 1, epsilon) for epsilon in ("0.125", "0.25", "0.5", "1", "2", "4")),
}
_SIZES = {"m": "cells", "D": "axes", "ε": "epsilon"}


def study_of(channel: str, cells: int, axes: int, epsilon: str) -> sf.Study:
    """A study of axes that are alike.

    Args:
        channel: One of `CHANNELS`.
        cells: Cells of every axis.
        axes: How many axes there are.
        epsilon: The ε of every axis.
    """
    protect, choice = CHANNELS[channel]
    return sf.Study(
        "sweep",
        [
            sf.integers(f"x{k}", 0, cells - 1, protect=protect(epsilon), channel=choice())
            for k in range(axes)
        ],
    )


def measure() -> Measurement:
    """Every channel at every point of every sweep."""
    rows = [
        _row(swept, channel, *point)
        for swept, points in SWEEPS.items()
        for channel in CHANNELS
        for point in points
    ]
    return Measurement(
        f"cells, axes and ε of some channels, {PEOPLE:,} people",
        rows,
        [
            "Processor seconds on one core, best of three runs (answer and decode: one run); MiB: "
            "the most that a step held at once, its result included. ε is that of every axis; "
            "under Distance, per cell.",
            "answer: the unbiased histogram of the first axis; decode: the histogram that "
            "tally.estimate() gives, by the method named.",
        ],
    )


def _row(swept: str, channel: str, cells: int, axes: int, epsilon: str) -> dict[str, Any]:
    """All steps at one point."""
    progress(f"{channel}: {cells:,} cells, {axes} axes, ε = {epsilon}")
    study = study_of(channel, cells, axes, epsilon)
    warm_up(study)
    found: dict[str, Any] = {
        "swept": swept,
        "channel": channel,
        "cells": cells,
        "axes": axes,
        "epsilon": float(epsilon),
        "report bytes": layout_of(study.layouts).size,
        "people": PEOPLE,
    }
    for step in measured(study, PEOPLE, traced=PER_REPORT):
        found[f"{step.step} s"] = step.seconds
        if step.step in PER_REPORT:
            found[f"{step.step} MiB"] = None if step.peak is None else step.peak / 2**20
    return {**found, "decoded by": step.method}


# The page


def slope(figures: Sequence[Mapping[str, Any]], swept: str, channel: str, name: str) -> float:
    """The exponent b of figure ≈ c·size^b, by least squares of logarithms.

    Args:
        figures: Recorded rows.
        swept: "m", "D" or "ε".
        channel: Which channel.
        name: The figure.
    """
    rows = [row for row in figures if row["swept"] == swept and row["channel"] == channel]
    size, values = (np.log([row[key] for row in rows]) for key in (_SIZES[swept], name))
    return float(np.polyfit(size, values, 1)[0])


def page_tables(figures: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The slopes for the page."""
    names = ["report bytes", *(f"{step} s" for step in STEPS)]
    rows = [
        [swept, channel, *(f"{slope(figures, swept, channel, name):.2f}" for name in names)]
        for swept in SWEEPS
        for channel in CHANNELS
    ]
    return {"sweeps": markdown(["against", "channel", "report", *STEPS], rows)}


def draw(figures: Sequence[Mapping[str, Any]], path: Path) -> None:
    """The picture of the page: nanoseconds per person to encode and unpack, and seconds to answer.

    Args:
        figures: Recorded rows.
        path: Where it is written.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    panels = {"encode s": 1e9, "unpack s": 1e9, "answer s": None, "decode s": None}
    figure, axes = plt.subplots(
        len(panels), len(SWEEPS), figsize=(10, 11), layout="constrained", sharey="row"
    )
    for line, (name, scale) in zip(axes, panels.items(), strict=True):
        for axis, swept in zip(line, SWEEPS, strict=True):
            for number, channel in enumerate(CHANNELS):
                rows = [
                    row for row in figures if (row["swept"], row["channel"]) == (swept, channel)
                ]
                values = [row[name] * (scale / row["people"] if scale else 1.0) for row in rows]
                at = [row[_SIZES[swept]] for row in rows]
                axis.loglog(at, values, marker=".", color=f"C{number}", label=channel)
            step = name.removesuffix(" s")
            unit = "ns per person" if scale else f"s, {rows[0]['people']:,} people"
            axis.set_title(f"{step}, {unit}", fontsize=9)
            axis.set_xticks(at, [f"{size:g}" for size in at])
            axis.minorticks_off()
            axis.grid(alpha=0.3)
    for axis, label in zip(axes[-1], ("cells m", "axes D of 16 cells", "ε"), strict=True):
        axis.set_xlabel(label)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(path, dpi=90)
    plt.close(figure)
