"""Error and coverage of likelihood answers, beside plain EM, unbiased and published ones."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sfumato as sf
from benchmarks.pages import digits, markdown, refilled
from benchmarks.recording import FOLDER, Measurement, progress
from sfumato.estimation.decoding.em import decode
from sfumato.estimation.likelihood import LikelihoodEstimate

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Run = dict[str, Floats]

SIZE = 100
SIDE = 64
PEOPLE = 100_000
RANGES = 500
SEEDS = 10
FEW_SEEDS = 3  # for the shapes that only stand beside the two main ones
EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0)
REACH = 1.959963984540054  # standard errors to each side of a 95 % interval
TENTHS = 10


def two_bumps(rng: np.random.Generator) -> Counts:
    """60 % normal(35, 8), 30 % normal(70, 5), 10 % uniform; clipped, then truncated."""
    parts = [rng.normal(35, 8, 60_000), rng.normal(70, 5, 30_000), rng.integers(0, SIZE, 10_000)]
    cells = np.clip(np.concatenate(parts), 0, SIZE - 1).astype(np.int64)
    return np.bincount(cells, minlength=SIZE)


def spiky(rng: np.random.Generator) -> Counts:
    """Everybody in 10 cells drawn at random, shares drawn evenly."""
    share = np.zeros(SIZE)
    share[rng.choice(SIZE, 10, replace=False)] = rng.dirichlet(np.ones(10))
    return rng.multinomial(PEOPLE, share)


def _drawn(share: Floats) -> Callable[[np.random.Generator], Counts]:
    """People drawn from fixed shares."""
    return lambda rng: rng.multinomial(PEOPLE, share / share.sum())


_CELLS = np.arange(SIZE)
_AGES = np.exp(-(((_CELLS - 38) / 24.0) ** 2))
MAIN = ("two bumps", "spiky")
SHAPES: dict[str, Callable[[np.random.Generator], Counts]] = {
    "two bumps": two_bumps,
    "spiky": spiky,
    "uniform": _drawn(np.ones(SIZE)),
    "zipf": _drawn(1.0 / (_CELLS + 1) ** 1.1),
    "exponential": _drawn(np.exp(-_CELLS / 15.0)),
    "steps": _drawn(np.repeat([4.0, 1.0, 8.0, 0.5], SIZE // 4)),
    "heaped ages": _drawn(
        _AGES * np.where(_CELLS % 10 == 0, 4.0, np.where(_CELLS % 5 == 0, 2.5, 1.0))
    ),
    "narrow": _drawn(np.exp(-(((_CELLS - 50) / 1.5) ** 2) / 2)),
}


def correlated(rng: np.random.Generator) -> Counts:
    """Two normal axes with correlation 0.7."""
    spread = [[100.0, 70.0], [70.0, 100.0]]
    drawn = rng.multivariate_normal([SIDE / 2, SIDE / 2], spread, PEOPLE)
    cells = np.clip(drawn, 0, SIDE - 1).astype(np.int64)
    return np.bincount(cells @ [SIDE, 1], minlength=SIDE**2).reshape(SIDE, SIDE)


def spiky_pairs(rng: np.random.Generator) -> Counts:
    """Everybody in 20 pairs of cells drawn at random."""
    share = np.zeros(SIDE**2)
    share[rng.choice(SIDE**2, 20, replace=False)] = rng.dirichlet(np.ones(20))
    return rng.multinomial(PEOPLE, share).reshape(SIDE, SIDE)


PLANES = {"correlated normal": correlated, "spiky": spiky_pairs}


def measure() -> Measurement:
    """One axis in eight shapes, then two axes in two."""
    rows = []
    for name in SHAPES:
        for epsilon in EPSILONS:
            progress(f"{name}, ε = {epsilon}")
            rows.append(line_row(name, epsilon, range(SEEDS if name in MAIN else FEW_SEEDS)))
    for name in PLANES:
        for epsilon in (0.2, 1.0):
            progress(f"{SIDE} × {SIDE} {name}, ε = {epsilon}")
            rows.append(plane_row(name, epsilon))
    return Measurement(
        f"{PEOPLE:,} people, {RANGES} random ranges: RMSE of shares × 1000 and what intervals hold",
        rows,
        [
            "default, plain EM and unbiased read the same geometric reports; published is the "
            "thermometer of Xiang et al. 2020 as printed, for the same guarantee.",
            "RMSE are means over seeds, 'sd' their spread; people, ranges and noise are drawn anew "
            "with every seed. Plain EM: from a flat start, 2,000 steps or a change below 1e-7.",
            "covered: share of 95 % intervals of the default that hold the truth; worst tenth: "
            "the same in the worst of ten groups of ranges by width; width: mean over unbiased's.",
        ],
    )


def run_line(name: str, epsilon: float, seed: int, *, published: bool = True) -> Run:
    """One collection on one axis: errors of shares by method, standard errors, and widths.

    Args:
        name: The population.
        epsilon: ε per cell.
        seed: For the people and the noise.
        published: Whether the published thermometer is run too.
    """
    rng = np.random.default_rng([seed, list(SHAPES).index(name)])
    counts = SHAPES[name](rng)
    ends = np.sort(rng.integers(0, SIZE, (RANGES, 2)), axis=1)
    rows = ((ends[:, :1] <= _CELLS) & (ends[:, 1:] >= _CELLS)).astype(np.float64)
    found = _run([SIZE], counts, rows, epsilon, seed)
    if published:
        found["published"] = _published([SIZE], counts, rows, epsilon, seed)
    return found | {"width": ends[:, 1] - ends[:, 0] + 1.0}


def _study(shape: list[int], epsilon: float, channel: Any) -> sf.Study:
    """Equal axes."""
    axes = [
        sf.integers(d, 0, size - 1, protect=sf.Distance(epsilon), channel=channel)
        for d, size in zip("ab", shape, strict=False)
    ]
    return sf.Study("decoding", axes)


def _run(shape: list[int], counts: Counts, rows: Floats, epsilon: float, seed: int) -> Run:
    """The same reports read in three ways."""
    truth = rows @ counts.ravel()
    tally = _study(shape, epsilon, sf.Geometric()).simulate_counts(counts, seed=seed)
    start = time.process_time()
    estimate = tally.estimate(method="likelihood")
    assert isinstance(estimate, LikelihoodEstimate)
    decoder = estimate.decoder(tuple(range(len(shape))))
    took = time.process_time() - start
    default = estimate.linear(rows)
    plain = decode(decoder.posterior.mixture, accelerate=False).law.ravel() * PEOPLE
    unbiased = tally.estimate(method="unbiased").linear(rows)
    return {
        "default": (default.values - truth) / PEOPLE,
        "plain EM": (rows @ plain - truth) / PEOPLE,
        "unbiased": (unbiased.values - truth) / PEOPLE,
        "stderr": default.stderr / PEOPLE,
        "unbiased stderr": unbiased.stderr / PEOPLE,
        "seconds": np.array([took]),
    }


def _published(shape: list[int], counts: Counts, rows: Floats, epsilon: float, seed: int) -> Floats:
    """The same people by the thermometer as published: errors of shares."""
    study = _study(shape, epsilon, sf.Thermometer("published"))
    found = study.simulate_counts(counts, seed=seed).estimate(method="unbiased").linear(rows)
    result: Floats = (found.values - rows @ counts.ravel()) / PEOPLE
    return result


WAYS = ("default", "plain EM", "unbiased", "published")


def line_row(name: str, epsilon: float, seeds: Any) -> dict[str, Any]:
    """Means over seeds for one population and guarantee.

    Args:
        name: The population.
        epsilon: ε per cell.
        seeds: One collection each.
    """
    return _row(name, str(SIZE), epsilon, [run_line(name, epsilon, seed) for seed in seeds])


def plane_row(name: str, epsilon: float, seed: int = 0) -> dict[str, Any]:
    """One collection on two axes.

    Args:
        name: The population.
        epsilon: ε per cell.
        seed: For the people and the noise.
    """
    rng = np.random.default_rng([seed, 100 + list(PLANES).index(name)])
    counts = PLANES[name](rng)
    ends = np.sort(rng.integers(0, SIDE, (RANGES, 2, 2)), axis=2)
    cells = np.arange(SIDE)
    inside = (ends[:, :, :1] <= cells) & (cells <= ends[:, :, 1:])
    rows = (inside[:, 0, :, None] & inside[:, 1, None, :]).reshape(RANGES, -1).astype(np.float64)
    found = _run([SIDE, SIDE], counts, rows, epsilon, seed)
    found["published"] = _published([SIDE, SIDE], counts, rows, epsilon, seed)
    return _row(name, f"{SIDE} × {SIDE}", epsilon, [found | {"width": rows.sum(axis=1)}])


def rmse(found: Run, way: str) -> float:
    """Root mean squared error of shares over ranges, times 1000.

    Args:
        found: Collections.
        way: The method.
    """
    return float(1e3 * np.sqrt(np.mean(found[way] ** 2)))


def covered(found: Run) -> NDArray[np.bool_]:
    """Which intervals of the default contain the truth; that of everybody is a point."""
    return np.abs(found["default"]) <= REACH * found["stderr"] + 1e-9


def by_tenths(runs: list[Run]) -> list[float]:
    """Share of intervals that contain the truth, in ten groups of ranges from narrow to wide."""
    hits = np.concatenate([covered(found) for found in runs])
    order = np.argsort(np.concatenate([found["width"] for found in runs]), kind="stable")
    return [float(hits[part].mean()) for part in np.array_split(order, TENTHS)]


def _row(name: str, cells: str, epsilon: float, runs: list[Run]) -> dict[str, Any]:
    """All figures of one setting."""
    errors = {way: np.array([rmse(found, way) for found in runs]) for way in WAYS}
    widths = [found["stderr"].mean() / found["unbiased stderr"].mean() for found in runs]
    hits = np.array([covered(found).mean() for found in runs])
    return {
        "people": name,
        "cells": cells,
        "ε": epsilon,
        "seeds": len(runs),
        **{way: float(errors[way].mean()) for way in WAYS},
        "default sd": _spread(errors["default"]),
        "default/plain EM": float(errors["default"].mean() / errors["plain EM"].mean()),
        "published/default MSE": float(
            np.mean(errors["published"] ** 2) / np.mean(errors["default"] ** 2)
        ),
        "covered": float(hits.mean()),
        "covered sd": _spread(hits),
        "worst tenth": min(by_tenths(runs)),
        "width": float(np.mean(widths)),
        "seconds": float(np.mean([found["seconds"][0] for found in runs])),
    }


def _spread(values: Floats) -> float | None:
    """The standard deviation over seeds, if there are several."""
    return float(values.std(ddof=1)) if len(values) > 1 else None


# The page

PAGE = Path("docs/likelihood.md")


def page_tables(figures: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Recorded figures as the tables of the page, by their names there."""
    line = [
        [
            row["people"],
            f"{row['ε']:g}",
            *(digits(row[way]) for way in WAYS),
            *(f"{100 * row[name]:.1f} %" for name in ("covered", "worst tenth")),
            f"{row['width']:.2f}",
        ]
        for row in figures
        if row["cells"] == str(SIZE)
    ]
    plane = [
        [
            row["people"],
            f"{row['ε']:g}",
            *(digits(row[way]) for way in WAYS),
            digits(row["published/default MSE"]),
            *(f"{100 * row[name]:.1f} %" for name in ("covered", "worst tenth")),
        ]
        for row in figures
        if row["cells"] != str(SIZE)
    ]
    heads = ["people", "ε per cell", *WAYS]
    return {
        "one axis": markdown([*heads, "covered", "worst tenth", "width"], line),
        "two axes": markdown([*heads, "published/default, MSE", "covered", "worst tenth"], plane),
    }


def with_tables(page: str, figures: Sequence[dict[str, Any]]) -> str:
    """The page with current tables between its marks.

    Args:
        page: Its text.
        figures: The recorded rows.
    """
    return refilled(page, page_tables(figures))


if __name__ == "__main__":
    held = json.loads((FOLDER / "decoding.json").read_text(encoding="utf-8"))["figures"]
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), held), encoding="utf-8")
