"""Pictures from real data: the truth, the published mechanism and the default answer.

``python -m benchmarks.real_data --data FOLDER`` reads adult.csv.gz and nyc_green_taxi_pickups.npz
from the folder and writes one picture for each of three columns. Nothing else of the data is kept.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

import sfumato as sf
from sfumato.channels.choice import Choice

Floats = NDArray[np.float64]

SEED = 2020
RANGES = 500
INK, TRUTH, DEFAULT, PUBLISHED = "#2b2b2b", "#c9c9c9", "#0b5c8a", "#c8642a"


@dataclass(frozen=True)
class Column:
    """One column: its cells, three guarantees, and how to show it."""

    name: str
    title: str
    unit: str
    values: NDArray[np.int64]
    size: int
    first: float
    step: float
    epsilons: tuple[float, float, float]
    per: str
    what: str = "people"


def adult(folder: Path) -> tuple[Column, Column]:
    """Ages and weekly hours of the census."""
    with gzip.open(folder / "adult.csv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = [(int(row["age"]), int(row["hours_per_week"])) for row in csv.DictReader(file)]
    ages, hours = np.array(rows, dtype=np.int64).T
    steps = (0.05, 0.2, 1.0)
    return (
        Column("ages", "Ages, UCI Adult", "age", ages - 17, 74, 17, 1, steps, "year"),
        Column(
            "hours", "Hours worked a week, UCI Adult", "hours", hours - 1, 99, 1, 1, steps, "hour"
        ),
    )


def pickups(folder: Path) -> Column:
    """Times of day at which green taxis start a trip, in steps of ten minutes."""
    with np.load(folder / "nyc_green_taxi_pickups.npz") as file:
        times = file["pickup"].astype(np.int64) % 86_400 // 600
    title = "Pickups by time of day, NYC green taxis"
    return Column(
        "pickups", title, "hour of the day", times, 144, 0, 1 / 6, (0.2, 1.0, 3.0), "hour"
    )


def estimate(column: Column, epsilon: float, channel: Choice, method: str) -> sf.Estimate:
    """Everybody's reports, decoded by one method.

    Args:
        column: The column.
        epsilon: ε.
        channel: The channel.
        method: How the reports are decoded.
    """
    protect = sf.Distance(epsilon * column.step)
    axis = sf.integers("cell", 0, column.size - 1, protect=protect, channel=channel)
    tally = sf.Study(column.name, [axis]).simulate({"cell": column.values}, seed=SEED)
    return tally.estimate(method=method)


def ranges_error(found: Floats, truth: Floats) -> float:
    """Root mean squared error of random ranges, in percent of all people.

    Args:
        found: Estimated counts per cell.
        truth: True counts per cell.
    """
    ends = np.sort(np.random.default_rng(SEED).integers(0, len(truth), (RANGES, 2)), axis=1)
    off = np.concatenate([[0.0], np.cumsum(found - truth)])
    return float(100 * np.sqrt(np.mean((off[ends[:, 1] + 1] - off[ends[:, 0]]) ** 2)))


def panels(upper: Axes, lower: Axes, column: Column, epsilon: float, truth: Floats) -> None:
    """Draw one guarantee: shares of cells above, cumulative shares below.

    Args:
        upper: The upper axes.
        lower: The lower axes.
        column: The column.
        epsilon: ε.
        truth: True counts per cell.
    """
    edges = column.first + column.step * np.arange(column.size + 1)
    if column.step == 1:
        edges = edges - 0.5
    printed = estimate(column, epsilon, sf.Thermometer("published"), "unbiased")
    published = printed.histogram("cell", fraction=True).values
    best = estimate(column, epsilon, sf.Geometric(), "likelihood")
    default = best.histogram("cell", fraction=True).values
    below = best.cdf("cell")
    upper.stairs(100 * truth, edges, fill=True, color=TRUTH, label="truth")
    upper.stairs(100 * published, edges, color=PUBLISHED, lw=0.6, alpha=0.45)
    upper.stairs(100 * default, edges, color=DEFAULT, lw=1.6)
    ends = edges[1:]
    lower.fill_between(ends, 100 * np.cumsum(truth), color=TRUTH, lw=0)
    lower.plot(
        ends, 100 * np.cumsum(published), color=PUBLISHED, lw=1.1, label="published mechanism"
    )
    lower.plot(ends, 100 * below.values, color=DEFAULT, lw=1.6, label="default answer")
    for bound, label in ((below.low, "its 95 % intervals"), (below.high, None)):
        inside = 100 * np.clip(bound, 0, 1)
        lower.plot(ends, inside, color=DEFAULT, lw=0.9, ls=(0, (2, 1.5)), label=label)
    top = 100 * float(truth.max())
    upper.set_ylim(-0.12 * top, 1.5 * top)
    lower.set_ylim(-15, 122)
    upper.set_title(f"ε = {epsilon:g} per {column.per}", fontsize=10, color=INK, loc="left")
    lower.text(
        0.98,
        0.15,
        "error of random ranges\n"
        f"default {ranges_error(default, truth):.2f} %\n"
        f"published {ranges_error(published, truth):.2f} %",
        transform=lower.transAxes,
        ha="right",
        va="bottom",
        fontsize=8,
        color=INK,
        linespacing=1.4,
    )
    lower.set_xlabel(column.unit, fontsize=9, color=INK)
    for axes in (upper, lower):
        axes.set_xlim(edges[0], edges[-1])
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8, colors=INK)


def picture(column: Column) -> Figure:
    """Three guarantees side by side."""
    truth = np.bincount(column.values, minlength=column.size) / len(column.values)
    figure = Figure(figsize=(11, 5.6), layout="constrained")
    grid: Any = figure.subplots(2, 3, sharex=True, sharey="row")
    for (upper, lower), epsilon in zip(grid.T, column.epsilons, strict=True):
        panels(upper, lower, column, epsilon, truth)
    for axes, label in zip(grid[:, 0], ("percent in a cell", "percent up to a cell"), strict=True):
        axes.set_ylabel(label, fontsize=9, color=INK)
    figure.suptitle(
        f"{column.title} ({len(column.values):,} {column.what})",
        fontsize=11,
        color=INK,
        x=0.01,
        ha="left",
    )
    handles = [handle for axes in grid[:, 0] for handle in axes.get_legend_handles_labels()[0]]
    figure.legend(handles=handles, loc="outside lower left", ncols=4, frameon=False, fontsize=9)
    return figure


def main() -> None:
    """Read, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with the two files")
    parser.add_argument("--out", type=Path, default=Path("docs/images"), help="folder for pictures")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for column in (*adult(given.data), pickups(given.data)):
        path = given.out / f"real-{column.name}.png"
        picture(column).savefig(path, dpi=100)
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
