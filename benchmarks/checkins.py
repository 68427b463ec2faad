"""Table 1 of Acharya et al. 2020 under other splits of the same totals, and by likelihood.

``python -m benchmarks.checkins --data FOLDER`` adds the splits to results/soak/acharya.json and to
docs/context.md; with ``--likelihood none`` or ``auto`` the likelihood answers.

Of the check-ins in the reconstruction, one in four was *observed* in its cell. Of the others only
the total of a coarse cell, some 25 cells, is true, and their split is an estimate. So here the
observed ones stay where they are and the others of each coarse cell are split anew, from smooth to
clumped. For each split ε is again the one that fits the plain column.

Where a coarse cell has any observed check-ins, the others may be split as these are: that takes no
parameter. It leans to clumps, since no cell with fewer than 52 observed ones is in the file.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import sfumato as sf
from benchmarks import records
from benchmarks.pages import markdown
from sfumato.arrays import Floats
from sfumato.reproduction.acharya import (
    DATA,
    GRID,
    PARTS,
    PRINTED,
    Counts,
    Part,
    distances,
    gowalla,
    grid_study,
)
from sfumato.reproduction.acharya import SEED as RUNS_FROM

RESULTS = Path("results/soak/acharya.json")
PAGE = Path("docs/context.md")
PAGE_TABLES = ("figure 2", "table 1", "table 1, other splits")
COARSE = 256  # rows and columns of the world within which the reconstruction splits true totals
RUNS = 8
SEARCHED = (0.55, 0.95)  # ε on either side of what fits
SEED = 7
SAME = "as reconstructed"


class Known:
    """What is known about the check-ins: the observed ones, and the rest of each coarse cell.

    Args:
        counts: Check-ins per cell, as reconstructed.
        observed: Check-ins that were observed in each cell.
    """

    def __init__(self, counts: Counts, observed: Counts) -> None:
        up = np.floor((GRID.latitudes.numbers() + 90) * COARSE / 180).astype(np.int64)
        across = np.floor((GRID.longitudes.numbers() + 180) * COARSE / 360).astype(np.int64)
        _, self.coarse, self.cells = np.unique(
            (up[:, None] * COARSE + across).ravel(), return_inverse=True, return_counts=True
        )
        self.observed = observed.ravel().astype(np.float64)
        self.others = (counts - observed).ravel().astype(np.float64)

    def total(self, values: Floats) -> Floats:
        """The sum over the coarse cell of each cell."""
        sums = np.bincount(self.coarse, weights=values).astype(np.float64)
        return sums[self.coarse]

    @cached_property
    def evenly(self) -> Floats:
        """The others, spread evenly over each coarse cell."""
        even: Floats = self.total(self.others) / self.cells[self.coarse]
        return even

    @cached_property
    def as_observed(self) -> Floats:
        """The others in proportion to those observed; as reconstructed where there are none."""
        return self.by(np.where(self.total(self.observed) > 0, self.observed, self.others))

    def by(self, weights: Floats) -> Floats:
        """The others in proportion to weights within each coarse cell."""
        within = self.total(weights)
        result: Floats = np.where(
            within > 0,
            weights * self.total(self.others) / np.where(within > 0, within, 1.0),
            self.others,
        )
        return result

    def whole(self, others: Floats) -> Counts:
        """Whole numbers of check-ins in all cells, with unchanged totals of the coarse cells."""
        down = np.floor(others + 1e-9)
        part = others - down
        lacking = np.rint(np.bincount(self.coarse, weights=part)).astype(np.int64)
        order = np.lexsort((-part, self.coarse))
        first = np.searchsorted(self.coarse[order], np.arange(len(lacking)))
        place = np.arange(len(order)) - first[self.coarse[order]]
        down[order] += place < lacking[self.coarse[order]]
        return (self.observed + down).astype(np.int64).reshape(GRID.rows, GRID.columns)


def _clumped(shape: float) -> Callable[[Known], Floats]:
    """The others of each cell times a random factor with relative spread 1/√shape."""

    def made(known: Known) -> Floats:
        factor = np.random.default_rng(SEED).gamma(shape, size=len(known.others))
        return known.by(known.others * factor)

    return made


SPLITS: dict[str, Callable[[Known], Floats]] = {  # from smooth to clumped
    "a tenth spread evenly": lambda known: 0.9 * known.others + 0.1 * known.evenly,
    SAME: lambda known: known.others,
    "times random factors, spread 1": _clumped(1.0),
    "times random factors, spread 2": _clumped(0.25),
    "to the power 5/4": lambda known: known.by(known.others**1.25),
    "to the power 3/2": lambda known: known.by(known.others**1.5),
    "half as observed": lambda known: 0.5 * known.others + 0.5 * known.as_observed,
    "as observed": lambda known: known.as_observed,
    "as observed; where none is, to the power 2": lambda known: known.by(
        np.where(known.total(known.observed) > 0, known.observed, known.others**2)
    ),
}


def fitted(of: Callable[[float], float], wanted: float) -> float:
    """The ε at which a distance is reached, by linear interpolation, repeated once.

    Args:
        of: Gives the distance at an ε.
        wanted: The distance.
    """
    low, high = (of(epsilon) for epsilon in SEARCHED)
    slope = (high - low) / (SEARCHED[1] - SEARCHED[0])
    first = SEARCHED[0] + (wanted - low) / slope
    return first + (wanted - of(first)) / slope


def row(said: str, counts: Counts, epsilon: str | None = None) -> dict[str, Any]:
    """One split: its ε, and the four columns with both ways of projecting.

    Args:
        said: Name of the split.
        counts: Check-ins per cell.
        epsilon: ε; fitted to the plain column by default.
    """

    def plain(epsilon: float) -> float:
        return float(distances(counts, None, f"{epsilon:.4f}", RUNS).mean())

    epsilon = epsilon or f"{fitted(plain, PRINTED[0]):.3f}"
    found: dict[str, Any] = {
        "split": said,
        "cells that are not empty": int((counts > 0).sum()),
        "epsilon": float(epsilon),
    }
    for name, by_block in (("projected", False), ("projected within each block", True)):
        values = [distances(counts, part, epsilon, RUNS, by_block=by_block) for part in PARTS]
        found[name] = [round(float(value.mean()), 4) for value in values]
    found["standard error, at most, in parts"] = round(
        max(float(v.std(ddof=1) / v.mean() / np.sqrt(RUNS)) for v in values), 4
    )
    return found


# Likelihood decoding, and the tables of the page


def decoded(counts: Counts, part: Part, epsilon: str, smoothing: str) -> dict[str, float]:
    """The distance of the likelihood shares of the first run from the truth, and processor time.

    Args:
        counts: Check-ins per cell.
        part: The column of the table.
        epsilon: ε.
        smoothing: How the decoder smooths.
    """
    tally = grid_study(part, epsilon).simulate_counts(counts.ravel(), seed=RUNS_FROM)
    start = time.process_time()
    shares = sf.distribution(tally.estimate("likelihood", smoothing=smoothing))
    seconds = time.process_time() - start
    distance = sf.tv_error(shares, counts.ravel())
    return {"likelihood": round(distance, 4), "seconds": round(seconds, 1)}


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
        command = f"python -m benchmarks.checkins --data FOLDER --likelihood {smoothing}"
        write(record, f"table 1, likelihood, smoothing {smoothing}", command)


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
    """Decode Table 1, or split the check-ins anew, and add what was found to the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help=f"folder with {DATA}")
    parser.add_argument("--likelihood", choices=["none", "auto"], help="decode only")
    parser.add_argument("--columns", nargs="*", type=int, default=[0, 1, 2, 3], choices=range(4))
    asked = parser.parse_args()
    known = Known(gowalla(asked.data), gowalla(asked.data, "of_which_observed"))
    record = records.held(RESULTS)
    if asked.likelihood:
        likelihood(record, gowalla(asked.data), asked.likelihood, asked.columns)
        return
    at = str(record["table 1"]["epsilon that fits the plain column"])  # there by more runs
    rows = []
    for said, how in SPLITS.items():
        rows.append(row(said, known.whole(how(known)), at if said == SAME else None))
        print(rows[-1], flush=True)
    record["table 1"]["observed"] = int(known.observed.sum())
    record["table 1"]["splits"] = rows
    command = "python -m benchmarks.checkins --data FOLDER"
    write(record, "table 1, other splits", command)


if __name__ == "__main__":
    main()
