"""Places on 32 × 32 cells: the errors of boxes by channel, and what a large map takes.

By itself it measures two invented maps. ``python -m benchmarks.places --data FILE`` adds a map of
counts: a CSV file with the columns lat_bin, lon_bin and count, which is not part of this.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import math
import resource
import time
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

import sfumato as sf
from benchmarks.recording import Measurement, progress, write
from sfumato.arrays import Cells, Floats
from sfumato.channels.planar import PlanarChannel
from sfumato.estimation.decoding.em import decode
from sfumato.estimation.decoding.mixture import RowMixture
from sfumato.estimation.likelihood import LikelihoodEstimate

SIDE, PEOPLE, BOXES, EPSILON = 32, 100_000, 500, 1
COLUMNS = ("lat_bin", "lon_bin", "count")
RUNS = 8
_FEW_RUNS = 3
FEW = ("planar Laplace, iterative Bayesian update", "exponential")  # far behind, and slow
_FINE = 8  # parts of a cell, along each side, by which the plane's noise is summed
_GROUPS = 16
#: Cells along a side, and people: each grows while the other stays.
LARGE = ((64, 1_000_000), (128, 1_000_000), (256, 100_000), (256, 1_000_000), (512, 1_000_000))


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
        "product of geometrics, unbiased": (product, "unbiased"),
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


def same_noise(cells: Cells, study: sf.Study, numbers: Floats) -> sf.Reports:
    """Reports whose noise comes from given numbers by inversion: first along rows, then columns.

    Channels that read the same numbers err alike, so that few runs show which errs less.

    Args:
        cells: The cell of every person.
        study: Its channels add noise to rows and columns, by one channel or one for each.
        numbers: Two between 0 and 1 per person, shape (2, people).
    """
    laws = [_noise_of(channel) for channel in study.channels]
    law = laws[0] if len(laws) == 1 else np.multiply.outer(*laws)
    far = law.shape[0] // 2
    down = np.searchsorted(np.cumsum(law.sum(axis=1)), numbers[0])
    down = np.minimum(down, 2 * far)
    across = np.empty(len(cells), dtype=np.int64)
    for row in np.unique(down):
        held = down == row
        share = np.cumsum(law[row]) / law[row].sum()
        across[held] = np.minimum(np.searchsorted(share, numbers[1][held]), 2 * far)
    moved = [
        np.clip(place + step - far, 0, SIDE - 1)
        for place, step in zip(np.divmod(cells, SIDE), (down, across), strict=True)
    ]
    outputs = [np.array(part) for part in moved]
    if len(laws) == 1:
        outputs = [moved[0] * SIDE + moved[1]]
    one = study.encode({"row": [0], "column": [0]})
    kinds = [held.dtype for held in one.outputs]
    return replace(
        one, outputs=tuple(part.astype(kind) for part, kind in zip(outputs, kinds, strict=True))
    )


def _noise_of(channel: Any) -> Floats:
    """The chance of every displacement, up to twice the width of the map."""
    if isinstance(channel, PlanarChannel):
        found: Floats = channel.noise.classes
        for axis in range(2):
            found = np.moveaxis(found, axis, 0)
            found = np.concatenate([found[:0:-1] / 2, found[:1], found[1:] / 2])
            found = np.moveaxis(found, 0, axis)
        return _padded(found)
    alpha = math.exp(-float(channel.metric.exact(0, 1)))
    return alpha ** np.abs(np.arange(-2 * SIDE, 2 * SIDE + 1)) * (1 - alpha) / (1 + alpha)


def _padded(law: Floats) -> Floats:
    """A law of displacements with room for twice the width of the map."""
    beside = 2 * SIDE - law.shape[0] // 2
    return np.pad(law, beside) if beside >= 0 else law[-beside:beside, -beside:beside]


def errors(maps: dict[str, Floats], runs: int) -> Iterator[dict[str, Any]]:
    """RMSE of boxes as shares of all people, per map and channel, and beside that of planar."""
    law, tried = laplace_law(), studies()
    for name, shares in maps.items():
        squares: dict[str, list[float]] = {}
        for run in range(runs):
            progress(f"{name}, run {run + 1} of {runs}")
            rng = np.random.default_rng([run, len(name)])
            counts = rng.multinomial(PEOPLE, shares.ravel())
            asked = boxes(rng)
            truth = asked @ counts
            people = np.repeat(np.arange(SIDE**2), counts)
            numbers = rng.random((2, PEOPLE))
            for what, (study, method) in tried.items():
                if what in FEW and run >= _FEW_RUNS:
                    continue
                if len(study.axes) == 2:
                    tally = study.tally(same_noise(people, study, numbers))
                else:
                    tally = study.simulate_counts(counts.reshape(study.shape), seed=run)
                estimate = tally.estimate(method=method)
                if isinstance(estimate, LikelihoodEstimate):  # without errors, which take longer
                    axes = tuple(range(len(study.axes)))
                    found = asked @ estimate.decoder(axes).counts().ravel()
                else:
                    found = estimate.linear(asked).values
                squares.setdefault(what, []).append(float(np.mean((found - truth) ** 2)))
            if run < _FEW_RUNS:
                found = asked @ by_updates(law, counts.astype(float), rng)
                squares.setdefault(FEW[0], []).append(float(np.mean((found - truth) ** 2)))
        for what, held in squares.items():
            ours = squares["planar, unbiased" if "unbiased" in what else "planar"]
            off = np.array(held) - np.array(ours[: len(held)])
            spread = float(off.std(ddof=1)) / math.sqrt(len(off)) if len(off) > 1 else math.nan
            yield {
                "map": name,
                "channel": what,
                "runs": len(held),
                "RMSE, thousandths of all people": 1000 * float(np.mean(held)) ** 0.5 / PEOPLE,
                "over planar's": (float(np.mean(held)) / float(np.mean(ours[: len(held)]))) ** 0.5,
                "standard errors above planar": float(off.mean()) / spread if spread else 0.0,
            }


def large(side: int, people: int) -> str:
    """A large map in words: seconds of the processor to encode, to decode and to draw it."""
    progress(f"{side} × {side} places")
    rng = np.random.default_rng(3)
    middles = rng.integers(side // 12, side - side // 12, (30, 2))
    at = middles[rng.integers(0, 30, people)] + side / 43 * rng.normal(size=(people, 2))
    cells = np.clip(at.round(), 0, side - 1).astype(np.int64)
    size = 111_195 / 250  # metres of a cell: 250 to a degree
    box = (0, 0, side / 250, side / 250)
    near = sf.Distance(1, per=f"{size:g} m")
    home = sf.places("home", box, cell=size, protect=near)
    study = sf.Study("large", [home])
    (channel,) = study.channels
    flat = cells[:, 0] * side + cells[:, 1]
    bits = sf.SecureBits()
    channel.encode(flat[:1000], bits)
    start = time.process_time()
    channel.encode(flat, bits)
    encoded = time.process_time() - start
    where = (cells + 0.5) / 250
    tally = study.tally(study.encode({"home_lat": where[:, 0], "home_lon": where[:, 1]}))
    start = time.process_time()
    estimate = tally.estimate(method="likelihood")
    assert isinstance(estimate, LikelihoodEstimate)
    estimate.decoder((0, 1))
    decoded = time.process_time() - start
    start = time.process_time()
    heat = sf.PlaceMap(study, "home").heatmap(estimate, bins=_GROUPS)
    heat.plot().savefig(BytesIO())
    drawn = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return (
        f"{side} × {side} places, {people:,} people at ε = 1 per cell: "
        f"{people / encoded / 1e6:.1f} million people encoded per second; decoded in "
        f"{decoded:.1f} s of one processor, and drawn as {_GROUPS} × {_GROUPS} groups with their "
        f"errors in {drawn:.1f} s; {memory:.1f} GB at most so far."
    )


def measure(data: Path | None = None, runs: int = RUNS) -> Measurement:
    """Errors of boxes, and what a large map takes."""
    maps = {"quarters": quarters(), "coast": coast()}
    if data is not None:
        maps["file"] = from_file(data)
    title = (
        f"{BOXES} random boxes on {SIDE} × {SIDE} cells, {PEOPLE:,} people, E = {EPSILON} × "
        "Euclidean distance in cells"
    )
    notes = [large(*each) for each in LARGE]
    if data is not None:
        notes.append(f"The map called file is {data.name}, by python -m benchmarks.places --data.")
    return Measurement(title, list(errors(maps, runs)), notes)


def main() -> None:
    """Measure with a map from a file beside the invented ones."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.places", description=__doc__)
    parser.add_argument("--data", type=Path, help="CSV with lat_bin, lon_bin and count")
    found = measure(parser.parse_args().data)
    print(found.table())
    print(f"\nwritten to {write('places', found)}")


if __name__ == "__main__":
    main()
