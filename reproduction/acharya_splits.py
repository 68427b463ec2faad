"""Table 1 of Acharya et al. 2020 under other splits of the same totals.

``python -m reproduction.acharya_splits --data FOLDER`` adds them to results/soak/acharya.json and
to docs/context.md; run it after Table 1 itself, ``python -m reproduction.acharya --data FOLDER``.

Of the check-ins in the reconstruction, one in four was *observed* in its cell. Of the others only
the total of a coarse cell, some 25 cells, is true, and their split is an estimate. So here the
observed ones stay where they are and the others of each coarse cell are split anew, from smooth to
clumped. For each split ε is again the one that fits the plain column.

Where a coarse cell has any observed check-ins, the others may be split as these are: that takes no
parameter. It leans to clumps, since no cell with fewer than 52 observed ones is in the file.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reproduction import records
from reproduction.acharya import (
    DATA,
    GRID,
    PARTS,
    PRINTED,
    RESULTS,
    Counts,
    distances,
    gowalla,
    write,
)

Floats = NDArray[np.float64]

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


def main() -> None:
    """Split, fit, and add the results to the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help=f"folder with {DATA}")
    folder = parser.parse_args().data
    known = Known(gowalla(folder), gowalla(folder, "of_which_observed"))
    record = records.held(RESULTS)
    at = str(record["table 1"]["epsilon that fits the plain column"])  # there by more runs
    rows = []
    for said, how in SPLITS.items():
        rows.append(row(said, known.whole(how(known)), at if said == SAME else None))
        print(rows[-1], flush=True)
    record["table 1"]["observed"] = int(known.observed.sum())
    record["table 1"]["splits"] = rows
    command = "python -m reproduction.acharya_splits --data FOLDER"
    write(record, "table 1, other splits", command)


if __name__ == "__main__":
    main()
