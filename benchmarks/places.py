"""Places on 32 × 32 cells: the errors of boxes by channel, and what a large map takes.

By itself it measures two invented maps. ``python -m benchmarks.places --data FILE`` adds a map of
counts: a CSV file with the columns lat_bin, lon_bin and count, which is not part of this.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import sfumato as sf
from benchmarks.recording import Measurement, write
from sfumato.arrays import Floats
from sfumato.estimation.decoding.em import decode
from sfumato.estimation.decoding.mixture import RowMixture

SIDE, PEOPLE, BOXES, EPSILON = 32, 100_000, 500, 1
COLUMNS = ("lat_bin", "lon_bin", "count")
_RUNS = 2
_FINE = 8  # parts of a cell, along each side, by which the plane's noise is summed
_LARGE, _MANY = 256, 1_000_000


def quarters(seed: int = 1) -> Floats:
    """Seven round quarters of a town, and a fifth of all people spread evenly."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:SIDE, :SIDE]
    found = np.full((SIDE, SIDE), 0.2 / SIDE**2)
    for share in rng.dirichlet(np.full(7, 2.0)) * 0.8:
        (y, x), width = rng.uniform(4, SIDE - 4, 2), rng.uniform(0.8, 3)
        hill = np.exp(-((rows - y) ** 2 + (columns - x) ** 2) / (2 * width**2))
        found += share * hill / hill.sum()
    return found / found.sum()


def coast(seed: int = 2) -> Floats:
    """Everybody lives within a few cells of a winding coast."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:SIDE, :SIDE]
    line = SIDE / 2 + 6 * np.sin(np.arange(SIDE) / 5) + rng.normal(size=SIDE).cumsum() / 4
    away = columns - line[rows]
    found = np.where(away >= 0, np.exp(-away / 1.5), 0.0) * rng.gamma(2.0, size=(SIDE, 1))
    return found / found.sum()


def from_file(path: Path) -> Floats:
    """A map of counts, its rows and columns joined until there are 32 of each."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        lines = list(csv.DictReader(file))
    table = np.array([[float(line[name]) for name in COLUMNS] for line in lines])
    low, high = table.min(axis=0), table.max(axis=0)
    places = [
        np.minimum((SIDE * (table[:, k] - low[k]) / (high[k] - low[k])).astype(int), SIDE - 1)
        for k in range(2)
    ]
    found = np.zeros((SIDE, SIDE))
    np.add.at(found, tuple(places), table[:, 2])
    return found / found.sum()


def boxes(rng: np.random.Generator) -> Floats:
    """Random boxes, one row of weights each."""
    found = np.zeros((BOXES, SIDE, SIDE))
    for box in found:
        (a, b), (c, d) = np.sort(rng.integers(0, SIDE, (2, 2)), axis=1)
        box[a : b + 1, c : d + 1] = 1
    return found.reshape(BOXES, -1)


def _axes(**own: Any) -> list[Any]:
    """Rows and columns."""
    return [sf.integers(name, 0, SIDE - 1, **own) for name in ("row", "column")]


def studies() -> dict[str, tuple[sf.Study, str]]:
    """Every channel under E = ε times the Euclidean distance, and how it is decoded."""
    norm = sf.Lp(EPSILON, 2)
    planar = sf.Study("planar", [sf.together(_axes(), protect=norm)])
    product = sf.Study("product", _axes(protect=norm.per_axis(2)), channel=sf.Geometric())
    names = [f"r{row}c{column}" for row in range(SIDE) for column in range(SIDE)]
    at = {name: divmod(place, SIDE) for place, name in enumerate(names)}
    cells = sf.categories(
        "cell", names, protect=sf.Points(EPSILON, at=at), channel=sf.Exponential()
    )
    return {
        "planar": (planar, "likelihood"),
        "planar, unbiased": (planar, "unbiased"),
        "product of geometrics": (product, "likelihood"),
        "exponential": (sf.Study("exponential", [cells]), "likelihood"),
    }


def laplace_law() -> Floats:
    """The planar Laplace mechanism on cells: continuous noise, moved to the nearest cell."""
    reach = SIDE + 8
    fine = (np.arange((2 * reach + 1) * _FINE) + 0.5) / _FINE - reach - 0.5
    density = np.exp(-EPSILON * np.hypot(fine[:, None], fine[None, :]))
    side = 2 * reach + 1
    kernel = density.reshape(side, _FINE, side, _FINE).sum(axis=(1, 3))
    kernel /= kernel.sum()
    starts = [np.append(0, reach - x + np.arange(1, SIDE)) for x in range(SIDE)]
    down = np.array([np.add.reduceat(kernel, start, axis=0) for start in starts])
    across = np.array([np.add.reduceat(down, start, axis=2) for start in starts])
    return across.transpose(1, 0, 2, 3).reshape(SIDE**2, SIDE**2)


def by_updates(law: Floats, counts: Floats, rng: np.random.Generator) -> Floats:
    """Reports of the planar Laplace mechanism, decoded by iterative Bayesian update."""
    seen = np.zeros(SIDE**2)
    for cell in np.flatnonzero(counts):
        seen += rng.multinomial(int(counts[cell]), law[cell] / law[cell].sum())
    kinds = np.flatnonzero(seen)
    mixture = RowMixture((SIDE**2,), seen[kinds], np.ascontiguousarray(law.T[kinds]))
    return decode(mixture).law * counts.sum()


def errors(maps: dict[str, Floats]) -> Iterator[dict[str, Any]]:
    """RMSE of boxes as shares of all people, per map and channel."""
    law, tried = laplace_law(), studies()
    for name, shares in maps.items():
        squares: dict[str, list[float]] = {}
        for run in range(_RUNS):
            rng = np.random.default_rng([run, len(name)])
            counts = rng.multinomial(PEOPLE, shares.ravel())
            asked = boxes(rng)
            truth = asked @ counts
            for what, (study, method) in tried.items():
                tally = study.simulate_counts(counts.reshape(study.shape), seed=run)
                found = tally.estimate(method=method).linear(asked).values
                squares.setdefault(what, []).append(float(np.mean((found - truth) ** 2)))
            found = asked @ by_updates(law, counts.astype(float), rng)
            what = "planar Laplace, iterative Bayesian update"
            squares.setdefault(what, []).append(float(np.mean((found - truth) ** 2)))
        for what, held in squares.items():
            yield {
                "map": name,
                "channel": what,
                "RMSE, thousandths of all people": 1000 * float(np.mean(held)) ** 0.5 / PEOPLE,
            }


def large() -> list[str]:
    """A large map in words: seconds of the processor to encode, tally and decode it."""
    rng = np.random.default_rng(3)
    middles = rng.integers(20, _LARGE - 20, (30, 2))
    at = middles[rng.integers(0, 30, _MANY)] + 6 * rng.normal(size=(_MANY, 2))
    people = np.clip(at.round(), 0, _LARGE - 1).astype(np.int64)
    axes = [sf.integers(name, 0, _LARGE - 1) for name in ("row", "column")]
    study = sf.Study("large", [sf.together(axes, protect=sf.Lp(1, 2))])
    (channel,) = study.channels
    cells = people[:, 0] * _LARGE + people[:, 1]
    bits = sf.SecureBits()
    channel.encode(cells[:1000], bits)
    start = time.process_time()
    channel.encode(cells, bits)
    encoded = time.process_time() - start
    tally = study.tally(study.encode({"row": people[:, 0], "column": people[:, 1]}))
    start = time.process_time()
    plain = tally.estimate(method="likelihood", smoothing="none").linear(np.ones((1, _LARGE**2)))
    decoded = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return [
        f"{_LARGE} × {_LARGE} places, {_MANY:,} people at ε = 1 per cell: "
        f"{_MANY / encoded / 1e6:.1f} million people a second encoded; decoded by maximum "
        f"likelihood without smoothing in {decoded:.1f} s of one processor, "
        f"{float(plain.values[0]):,.0f} people in all; {memory:.1f} GB at most."
    ]


def measure(data: Path | None = None) -> Measurement:
    """Errors of boxes, and what a large map takes."""
    maps = {"quarters": quarters(), "coast": coast()}
    if data is not None:
        maps["file"] = from_file(data)
    title = (
        f"{BOXES} random boxes on {SIDE} × {SIDE} cells, {PEOPLE:,} people, E = {EPSILON} × "
        "Euclidean distance in cells"
    )
    return Measurement(title, list(errors(maps)), large())


def main() -> None:
    """Measure with a map from a file beside the invented ones."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.places", description=__doc__)
    parser.add_argument("--data", type=Path, help="CSV with lat_bin, lon_bin and count")
    found = measure(parser.parse_args().data)
    print(found.table())
    print(f"\nwritten to {write('places', found)}")


if __name__ == "__main__":
    main()
