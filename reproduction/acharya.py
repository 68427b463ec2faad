"""Figure 2 and Table 1 of Acharya et al. 2020: whole distributions, plain and within blocks.

``python -m reproduction.acharya`` draws Figure 2 again: 1,000 cells, ε = 1, 1,000 to 512,000
people, four populations, plain and 10 to 100 blocks, beside the predicted errors. ``--data FOLDER``
makes Table 1 instead, from gowalla_us_cells_RECONSTRUCTED.csv.gz there, and ``--likelihood none``
with it the likelihood rows. What is not made anew stays as recorded in results/soak/acharya.json;
tables go to docs/context.md and the picture to docs/images.

What the paper leaves open, and what is taken here:

- ε of Table 1: the one at which the plain column agrees; and 1, that of Figure 2, beside it.
- The estimate: (19) alone would have an error of 20 in Table 1, where 1 is the most that a
  distribution can have, so estimates were made distributions. Of the nearest one (projection onto
  the simplex) and cutting off negative shares, only the first comes near the printed values.
- Zipf's exponent, here 1. The geometric law is printed as p(i) ∝ (1 − λ)^i·λ with λ = 0.95, which
  puts all but everybody into two cells; as the text speaks of heavy cells in several blocks, it is
  0.95^i here.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import sfumato as sf
from benchmarks.pages import markdown
from reproduction import records
from sfumato.metrics.base import Metric

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Part = tuple[int, int] | None

RESULTS = Path("results/soak/acharya.json")
PAGE = Path("docs/context.md")
PICTURE = Path("docs/images/acharya-figure-2.png")
DATA = "gowalla_us_cells_RECONSTRUCTED.csv.gz"
PAGE_TABLES = ("figure 2", "table 1", "table 1, other splits")

SEED = 2020
CELLS = 1000
PEOPLE = tuple(1000 << i for i in range(10))
BLOCKS = (1, 10, 20, 50, 100)  # one block is plain local privacy
RUNS = 20

GRID = sf.Grid(south=25, west=-130, north=50, east=-60, rows=125, columns=350)
PARTS: tuple[Part, ...] = (None, (5, 7), (25, 35), (25, 70))
PRINTED = (0.591, 0.298, 0.108, 0.082)
TABLE_RUNS = 20
SEARCHED = ("0.7", "0.82")  # ε on either side of the one that fits


# Figure 2


def populations(cells: int, seed: int = SEED) -> dict[str, Floats]:
    """The shares of people in each cell, for the four panels.

    Args:
        cells: Number of cells.
        seed: Seed of the permutation in the last panel.
    """
    place = np.arange(cells)
    fall = 0.95**place
    made = {
        "uniform": np.ones(cells),
        "Zipf(1)": 1 / (place + 1),
        "Geo(0.95)": fall,
        "Geo(0.95)*": np.random.default_rng(seed).permutation(fall),
    }
    return {name: share / share.sum() for name, share in made.items()}


def study_of(cells: int, blocks: int, epsilon: float = 1) -> sf.Study:
    """A study with equal blocks of neighbouring cells, or with plain local privacy.

    Args:
        cells: Number of cells.
        blocks: Number of blocks; 1 for plain local privacy.
        epsilon: ε within a block.
    """
    parts = np.array_split(np.arange(cells), blocks)
    protect: Metric = (
        sf.Uniform(epsilon)
        if blocks == 1
        else sf.Blocks(epsilon, [range(int(part[0]), int(part[-1]) + 1) for part in parts])
    )
    axis = sf.integers("cell", 0, cells - 1, protect=protect, channel=sf.Hadamard())
    return sf.Study(f"{blocks} blocks", [axis])


def curve(
    name: str, law: Floats, blocks: int, people: Sequence[int], runs: int, seed: int
) -> dict[str, Any]:
    """One curve: the predicted and the measured distance for each number of people.

    Args:
        name: Name of the population.
        law: Share of people in each cell.
        blocks: Number of blocks.
        people: Numbers of people.
        runs: Number of runs for each of them.
        seed: Seed of the randomness.
    """
    study = study_of(len(law), blocks)
    rng = np.random.default_rng([seed, blocks, sum(map(ord, name))])
    names = ("predicted", "bound", "unbiased", "standard error", "projected")
    found: dict[str, list[float]] = {key: [] for key in names}
    for n in people:
        plan = sf.expected_tv(study, n, prior=law)
        found["predicted"].append(plan.tv)
        found["bound"].append(plan.bound or np.inf)
        errors = []
        for _ in range(runs):
            tally = study.simulate_counts(rng.multinomial(n, law), seed=int(rng.integers(1 << 32)))
            shares = sf.distribution(tally.estimate("unbiased"))
            errors.append([sf.tv_error(shares, law), sf.tv_error(shares.simplex(), law)])
        plain, projected = np.mean(errors, axis=0).tolist()
        found["unbiased"].append(plain)
        found["standard error"].append(float(np.std(errors, axis=0, ddof=1)[0] / np.sqrt(runs)))
        found["projected"].append(projected)
    rounded = {key: [float(f"{v:.4g}") for v in values] for key, values in found.items()}
    return {"population": name, "blocks": blocks, "people": list(people), **rounded}


def figure_2(
    cells: int = CELLS,
    people: Sequence[int] = PEOPLE,
    blocks: Sequence[int] = BLOCKS,
    runs: int = RUNS,
    seed: int = SEED,
) -> list[dict[str, Any]]:
    """All curves of the four panels.

    Args:
        cells: Number of cells.
        people: Numbers of people.
        blocks: Numbers of blocks.
        runs: Number of runs.
        seed: Seed of the randomness.
    """
    return [
        curve(name, law, m, people, runs, seed)
        for name, law in populations(cells).items()
        for m in blocks
    ]


def picture(curves: Sequence[dict[str, Any]]) -> Figure:
    """The four panels: projected estimates as lines, predictions without projection as dots."""
    figure = Figure(figsize=(10, 7), layout="constrained")
    grid: Any = figure.subplots(2, 2, sharex=True, sharey=True)
    names = list(dict.fromkeys(held["population"] for held in curves))
    colours = ("#2b2b2b", "#c8642a", "#c9a227", "#3f8f5f", "#0b5c8a")
    for panel, name in zip(grid.ravel(), names, strict=True):
        for held, colour in zip(
            (c for c in curves if c["population"] == name), colours, strict=True
        ):
            label = "plain" if held["blocks"] == 1 else f"{held['blocks']} blocks"
            panel.plot(
                held["people"], held["projected"], "o-", ms=3, lw=1.4, color=colour, label=label
            )
            panel.plot(held["people"], held["predicted"], ":", lw=0.9, color=colour)
        panel.set_title(name, fontsize=10, loc="left")
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_ylim(0.02, 1.2)
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=8)
    for panel in grid[1]:
        panel.set_xlabel("people", fontsize=9)
    figure.supylabel("total variation distance", fontsize=9)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower left", ncols=len(labels), frameon=False, fontsize=9
    )
    return figure


# Table 1


def gowalla(folder: Path, column: str = "count") -> Counts:
    """The check-ins of the reconstruction, as rows from the south and columns from the west.

    Args:
        folder: Folder with the file.
        column: Which column of the file to read.
    """
    path = folder / DATA
    if not path.exists():
        raise SystemExit(
            f"{path.name} is not in the folder given by --data: Table 1 needs it and is left as "
            "recorded; without --data only Figure 2 is made"
        )
    counts = np.zeros((GRID.rows, GRID.columns), dtype=np.int64)
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            up = round((float(row["lat_bin"]) - float(GRID.south)) / 0.2)
            across = round((float(row["lon_bin"]) - float(GRID.west)) / 0.2)
            counts[up, across] += int(row[column])
    return counts


def grid_study(part: Part, epsilon: str) -> sf.Study:
    """The study of one column of the table.

    Args:
        part: The column.
        epsilon: ε within a block.
    """
    protect = sf.Uniform(epsilon) if part is None else GRID.blocks(epsilon, *part)
    return sf.Study("check-ins", [GRID.axis("cell", protect=protect, channel=sf.Hadamard())])


def distances(
    counts: Counts, part: Part, epsilon: str, runs: int, *, by_block: bool = False
) -> Floats:
    """The distance of the projected estimate from the check-ins, one per run.

    Args:
        counts: Check-ins per cell.
        part: The column of the table.
        epsilon: ε.
        runs: Number of runs.
        by_block: Whether the projection keeps the sum of each block.
    """
    study, truth = grid_study(part, epsilon), counts.ravel()
    result = np.empty(runs)
    for run in range(runs):
        shares = sf.distribution(study.simulate_counts(truth, seed=SEED + run).estimate("unbiased"))
        near = shares.simplex().values
        if by_block and part is not None:
            near = within_blocks(shares.values, part)
        result[run] = sf.tv_error(near, truth)
    return result


def within_blocks(shares: Floats, part: tuple[int, int]) -> Floats:
    """The nearest nonnegative shares that keep the sum of each block, which is public.

    Args:
        shares: Estimated shares.
        part: The column of the table.
    """
    rows, columns = GRID.rows // part[0], GRID.columns // part[1]
    boxes = shares.reshape(part[0], rows, part[1], columns).swapaxes(1, 2)
    flat = boxes.reshape(-1, rows * columns)
    told = np.maximum(flat.sum(axis=1, keepdims=True), 0.0)
    falling = -np.sort(-flat, axis=1)
    off = (np.cumsum(falling, axis=1) - told) / np.arange(1, flat.shape[1] + 1)
    last = np.maximum(np.sum(falling > off, axis=1) - 1, 0)  # how many stay above zero, less one
    near = np.maximum(flat - np.take_along_axis(off, last[:, None], axis=1), 0.0)
    result: Floats = near.reshape(boxes.shape).swapaxes(1, 2).ravel()
    return result


def fitted(of: Callable[[str], float], wanted: float, searched: Sequence[str] = SEARCHED) -> str:
    """The ε between two tried values at which a distance is reached, by linear interpolation.

    Args:
        of: Gives the distance at an ε.
        wanted: The distance.
        searched: The two values of ε.
    """
    low, high = (of(epsilon) for epsilon in searched)
    first, last = map(float, searched)
    return f"{first + (low - wanted) / (low - high) * (last - first):.2f}"


def column(counts: Counts, part: Part, epsilon: str, printed: float, runs: int) -> dict[str, Any]:
    """One entry of the table, beside the printed one.

    Args:
        counts: Check-ins per cell.
        part: The column of the table.
        epsilon: ε.
        printed: The printed distance.
        runs: Number of runs.
    """
    found = distances(counts, part, epsilon, runs)
    plan = sf.expected_tv(
        grid_study(part, epsilon), int(counts.sum()), prior=counts.ravel(), population=False
    )
    return {
        "blocks": "plain" if part is None else f"({part[0]}, {part[1]})",
        "epsilon": float(epsilon),
        "runs": runs,
        "printed": printed,
        "projected": round(float(found.mean()), 4),
        "standard error": round(float(found.std(ddof=1) / np.sqrt(runs)), 5),
        "ours/printed": round(float(found.mean() / printed), 3),
        "unbiased, predicted": round(plan.tv, 4),
    }


def decoded(counts: Counts, part: Part, epsilon: str, smoothing: str) -> dict[str, float]:
    """The distance of the likelihood shares of the first run from the truth, and processor time.

    Args:
        counts: Check-ins per cell.
        part: The column of the table.
        epsilon: ε.
        smoothing: How the decoder smooths.
    """
    tally = grid_study(part, epsilon).simulate_counts(counts.ravel(), seed=SEED)
    start = time.process_time()
    shares = sf.distribution(tally.estimate("likelihood", smoothing=smoothing))
    seconds = time.process_time() - start
    distance = sf.tv_error(shares, counts.ravel())
    return {"likelihood": round(distance, 4), "seconds": round(seconds, 1)}


def table_1(counts: Counts, runs: int = TABLE_RUNS) -> dict[str, Any]:
    """The four columns at the fitted ε and at ε = 1.

    Args:
        counts: Check-ins per cell.
        runs: Number of runs.
    """
    epsilon = fitted(lambda e: float(distances(counts, None, e, runs).mean()), PRINTED[0])
    print(f"the plain column fits at ε = {epsilon}", flush=True)
    columns = [
        column(counts, part, e, printed, runs)
        for e in (epsilon, "1")
        for part, printed in zip(PARTS, PRINTED, strict=True)
    ]
    return {
        "data": f"{DATA}, a reconstruction: totals of coarse cells are true, their split is not",
        "people": int(counts.sum()),
        "epsilon that fits the plain column": float(epsilon),
        "columns": columns,
        "likelihood": [],
    }


def likelihood(
    record: dict[str, Any], counts: Counts, smoothing: str, parts: Sequence[int]
) -> None:
    """Add likelihood decoding at ε = 1, one run; other recorded columns are kept.

    Args:
        record: The record so far.
        counts: Check-ins per cell.
        smoothing: How the decoder smooths.
        parts: The columns to compute.
    """
    for number in parts:
        part = PARTS[number]
        key = {"blocks": "plain" if part is None else f"({part[0]}, {part[1]})"}
        key["smoothing"] = smoothing
        tally = distances(counts, part, "1", 1)[0]
        found = key | {
            "epsilon": 1.0,
            "projected": round(float(tally), 4),
            **decoded(counts, part, "1", smoothing),
        }
        held = record["table 1"]["likelihood"]
        record["table 1"]["likelihood"] = [
            *(row for row in held if any(row[k] != v for k, v in key.items())),
            found,
        ]
        print(found, flush=True)
        command = f"python -m reproduction.acharya --data FOLDER --likelihood {smoothing}"
        write(record, f"table 1, likelihood, smoothing {smoothing}", command)


# Putting together


def tables(record: dict[str, Any]) -> dict[str, str]:
    """The tables of the page."""
    curves, result = record["figure 2"], {}
    last = [
        [
            held["population"],
            "plain" if held["blocks"] == 1 else str(held["blocks"]),
            f"{held['projected'][0]:.3f}",
            f"{held['projected'][5]:.3f}",
            f"{held['projected'][-1]:.3f}",
            f"{held['unbiased'][-1]:.3f}",
            f"{held['predicted'][-1]:.3f}",
        ]
        for held in curves
    ]
    head = ["population", "blocks", "1,000 people", "32,000", "512,000"]
    result["figure 2"] = markdown([*head, "512,000, unbiased", "predicted"], last)
    table = record.get("table 1")
    if table is None:
        return result
    names = ["plain", "(5, 7)", "(25, 35)", "(25, 70)"]
    rows = [["printed", "", *(f"{value:.3f}" for value in PRINTED)]]
    for epsilon in dict.fromkeys(held["epsilon"] for held in table["columns"]):
        here = [held for held in table["columns"] if held["epsilon"] == epsilon]
        shown = [f"{h['projected']:.3f} ({100 * (h['ours/printed'] - 1):+.0f} %)" for h in here]
        rows.append(["ours, as the paper reads", f"{epsilon:g}", *shown])
    for smoothing in ("none", "auto"):
        by = {h["blocks"]: h for h in table["likelihood"] if h["smoothing"] == smoothing}
        if by:
            shown = [f"{by[name]['likelihood']:.3f}" if name in by else "" for name in names]
            rows.append([f'likelihood, `smoothing="{smoothing}"`', "1", *shown])
    result["table 1"] = markdown(["", "ε", *names], rows)
    others = []
    for held in table.get("splits", []):
        shown = ["projected"]
        if held["split"] in ("as reconstructed", "as observed"):
            shown.append("projected within each block")
        for reading in shown:
            values = [
                f"{v:.3f} ({100 * (v / printed - 1):+.0f} %)"
                for v, printed in zip(held[reading], PRINTED, strict=True)
            ]
            said = held["split"] + reading.removeprefix("projected").replace(" within", ", within")
            others.append([said, f"{held['epsilon']:.2f}", *values])
    result["table 1, other splits"] = markdown(["split", "ε", *names], others)
    return result


def write(record: dict[str, Any], part: str, command: str) -> None:
    """Write the results, how this part was made, and the tables of the page.

    Args:
        record: The results.
        part: The part that was made.
        command: The command that made it.
    """
    records.stamp(record, part, command)
    records.keep(RESULTS, record, PAGE, tables)


def main() -> None:
    """Draw Figure 2, or read the data and make Table 1, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help=f"folder with {DATA}, for Table 1")
    parser.add_argument("--likelihood", choices=["none", "auto"], help="decode only, from --data")
    parser.add_argument("--columns", nargs="*", type=int, default=[0, 1, 2, 3], choices=range(4))
    asked = parser.parse_args()
    record = records.held(RESULTS)
    counts = None if asked.data is None else gowalla(asked.data)
    if asked.likelihood:
        if counts is None or "table 1" not in record:
            parser.error("--likelihood needs --data, and Table 1 to be made before")
        likelihood(record, counts, asked.likelihood, asked.columns)
        return
    if counts is None:
        record["figure 2"] = figure_2()
        picture(record["figure 2"]).savefig(PICTURE, dpi=100)
        write(record, "figure 2", "python -m reproduction.acharya")
    else:
        old = record.get("table 1", {})
        kept = {key: old[key] for key in ("likelihood", "observed", "splits") if key in old}
        record["table 1"] = table_1(counts) | kept
        write(record, "table 1", "python -m reproduction.acharya --data FOLDER")


if __name__ == "__main__":
    main()
