"""Ordinary local DP: the default compared with the known methods, on ranges and boxes.

All methods of a round see the same people and the same questions, drawn again with every seed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sfumato as sf
from benchmarks.decoding import PLANES, REACH, SIDE, TENTHS
from benchmarks.pages import digits, markdown, refilled
from benchmarks.plain_methods import (
    DEFAULT,
    EPSILON,
    FEW_METHODS,
    GOALS,
    LIKELIHOOD,
    MAIN,
    METHODS,
    PEOPLE,
    PLANE_GOALS,
    PLANE_METHODS,
    PUBLISHED,
    PUBLISHED_PLANE,
    QUESTIONS,
    SHAPES,
    SIZE,
    TREE,
    UNBIASED,
    Method,
    line_study,
    plane_study,
    ranges,
)
from benchmarks.recording import FOLDER, Measurement, progress
from sfumato.estimation.likelihood import LikelihoodEstimate

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

SEEDS = 10
FEW_SEEDS = 3  # for what only stands beside the main figures
OTHER_EPSILONS = (0.5, 2.0)


@dataclass(frozen=True)
class Round:
    """Errors of shares in one collection, and, where they were asked for, standard errors."""

    errors: Floats
    stderr: Floats
    cells: Floats  # that each question is about
    seconds: float

    @property
    def square(self) -> float:
        """Mean square error over questions."""
        return float(np.mean(self.errors**2))

    @property
    def covered(self) -> NDArray[np.bool_]:
        """Which 95 % intervals hold the truth; that of everybody is a point."""
        return np.abs(self.errors) <= REACH * self.stderr + 1e-9


def read(tally: sf.Tally, way: str, counts: Counts, rows: Floats) -> Round:
    """Ask everything of one tally.

    Args:
        tally: The tally.
        way: How answers are found.
        counts: The true counts.
        rows: The questions, one row of weights each.
    """
    start = time.process_time()
    found = tally.estimate(way).linear(rows)
    took = time.process_time() - start
    errors = (found.values - rows @ counts.ravel()) / tally.n
    return Round(errors, found.stderr / tally.n, rows.sum(axis=1), took)


def read_counts(tally: sf.Tally, counts: Counts, rows: Floats) -> Round:
    """Decode a grid of two axes without standard errors, which would take as long again.

    Args:
        tally: The tally.
        counts: The true counts.
        rows: The questions, one row of weights each.
    """
    start = time.process_time()
    estimate = tally.estimate("likelihood")
    assert isinstance(estimate, LikelihoodEstimate)
    off = (estimate.decoder((0, 1)).counts() - counts).ravel()
    took = time.process_time() - start
    return Round(rows @ off / tally.n, np.empty(0), rows.sum(axis=1), took)


def line_round(
    name: str, epsilon: float, seed: int, methods: dict[str, Method]
) -> dict[tuple[str, str], Round]:
    """One population, reported through every method.

    Args:
        name: The population.
        epsilon: ε between any two cells.
        seed: For the people, the questions and the noise.
        methods: Those compared.
    """
    rng = np.random.default_rng([seed, list(SHAPES).index(name)])
    counts, rows = SHAPES[name](rng), ranges(rng)
    found = {}
    for label, method in methods.items():
        tally = line_study(method.choice, epsilon).simulate_counts(counts, seed=seed)
        for way in method.ways:
            found[label, way] = read(tally, way, counts, rows)
    return found


def plane_round(name: str, seed: int, *, others: bool) -> dict[tuple[str, str], Round]:
    """The same on two axes, with boxes as questions.

    Args:
        name: The population.
        seed: For the people, the questions and the noise.
        others: Whether to run more than the default.
    """
    rng = np.random.default_rng([seed, 100 + list(PLANES).index(name)])
    counts = PLANES[name](rng)
    sides = ranges(rng, SIDE)[:, :, None] * ranges(rng, SIDE)[:, None, :]
    rows = sides.reshape(QUESTIONS, -1)
    found = {}
    for label, method in PLANE_METHODS.items():
        if label != DEFAULT and not others:
            continue
        tally = plane_study(method.choice).simulate_counts(counts, seed=seed)
        for way in method.ways:
            if way == LIKELIHOOD:
                found[label, way] = read_counts(tally, counts, rows)
            elif others:
                found[label, way] = read(tally, way, counts, rows)
    return found


def line_rows(
    name: str, epsilon: float, seeds: int, methods: dict[str, Method]
) -> list[dict[str, Any]]:
    """All methods on one population.

    Args:
        name: The population.
        epsilon: ε between any two cells.
        seeds: One round each.
        methods: Those compared.
    """
    progress(f"{name}, ε = {epsilon:g}")
    rounds = [line_round(name, epsilon, seed, methods) for seed in range(seeds)]
    return _rows(rounds, people=name, cells=str(SIZE), epsilon=epsilon)


def plane_rows(name: str, seeds: int = SEEDS) -> list[dict[str, Any]]:
    """The same on two axes.

    Args:
        name: The population.
        seeds: One round each.
    """
    rounds = []
    for seed in range(seeds):
        progress(f"{SIDE} × {SIDE} {name}, {seed + 1} of {seeds}")
        rounds.append(plane_round(name, seed, others=seed < FEW_SEEDS))
    return _rows(rounds, people=name, cells=f"{SIDE} × {SIDE}", epsilon=EPSILON)


def _rows(
    rounds: Sequence[dict[tuple[str, str], Round]], *, people: str, cells: str, epsilon: float
) -> list[dict[str, Any]]:
    """One row per method and way of reading it."""
    result = []
    for method, way in rounds[0]:
        held = [found for found in rounds if (method, way) in found]
        runs = [found[method, way] for found in held]
        errors = 1e3 * np.sqrt([run.square for run in runs])
        row = {
            "people": people,
            "cells": cells,
            "ε": epsilon,
            "method": method,
            "read": way,
            "seeds": len(runs),
            "RMSE": float(np.sqrt(np.mean(errors**2))),
            "mean of RMSE": float(errors.mean()),
            "sd of RMSE": float(errors.std(ddof=1)),
        }
        plain = [found[method, UNBIASED] for found in held if (method, UNBIASED) in found]
        seconds = {"seconds": float(np.mean([run.seconds for run in runs]))}
        result.append(row | _intervals(runs, plain) | seconds)
    return result


def _intervals(runs: Sequence[Round], plain: Sequence[Round]) -> dict[str, Any]:
    """How often intervals contain the truth, overall and in the worst tenth, and their length."""
    if not runs[0].stderr.size:
        return dict.fromkeys(("covered", "worst tenth", "width"), "")
    hits = np.concatenate([run.covered for run in runs])
    order = np.argsort(np.concatenate([run.cells for run in runs]), kind="stable")
    widths = [a.stderr.mean() / b.stderr.mean() for a, b in zip(runs, plain, strict=False)]
    return {
        "covered": float(hits.mean()),
        "worst tenth": min(float(hits[part].mean()) for part in np.array_split(order, TENTHS)),
        "width": float(np.mean(widths)) if widths else "",
    }


def measure() -> Measurement:
    """The main figures, other shapes, other ε, then two axes."""
    os.environ.setdefault("SFUMATO_CACHE", "build/bench-cache")  # channels optimised once
    rows = [row for name in MAIN for row in line_rows(name, EPSILON, SEEDS, METHODS)]
    for name in SHAPES:
        if name not in MAIN:
            rows += line_rows(name, EPSILON, FEW_SEEDS, FEW_METHODS)
    for epsilon in OTHER_EPSILONS:
        for name in MAIN:
            rows += line_rows(name, epsilon, FEW_SEEDS, FEW_METHODS)
    for name in PLANES:
        rows += plane_rows(name)
    return report(rows)


def report(rows: Sequence[dict[str, Any]]) -> Measurement:
    """The rows under their title, beside published figures and goals."""
    return Measurement(
        f"{PEOPLE:,} people, {QUESTIONS} random ranges or boxes, Uniform(ε): RMSE of shares × 1000",
        [row | _aims(row) for row in rows],
        [
            "RMSE: root of the mean square over seeds and questions; 'mean of RMSE' and 'sd of "
            "RMSE' are over seeds. People, questions and noise are drawn for every seed, and "
            "all methods see the same people and questions.",
            "default: no channel or mechanism named. published: prototypes of the methods as "
            "published, on people of the same kinds.",
            "covered: share of 95 % intervals that hold the truth; worst tenth: the same in the "
            "worst of ten groups of questions by width; width: mean standard error over that of "
            "the method's unbiased answers.",
        ],
    )


def _aims(row: dict[str, Any]) -> dict[str, Any]:
    """What the figure of a row stands beside, where there is such a thing."""
    line = row["cells"] == str(SIZE)
    goals, published = (GOALS, PUBLISHED) if line else (PLANE_GOALS, PUBLISHED_PLANE)
    if row["ε"] != EPSILON or row["people"] not in goals:
        return {"published": "", "goal": ""}
    way = (row["method"], row["read"])
    known = dict(zip(goals, published.get(way, ()), strict=False))
    goal = goals[row["people"]] if way == (DEFAULT, LIKELIHOOD) else ""
    return {"published": known.get(row["people"], ""), "goal": goal}


# The page

PAGE = Path("docs/plain-ldp.md")
Figures = Sequence[dict[str, Any]]


def page_tables(figures: Figures) -> dict[str, str]:
    """Recorded figures as the tables of the page, by their names there."""
    line = [row for row in figures if row["cells"] == str(SIZE)]
    main = [row for row in line if row["ε"] == EPSILON and row["people"] in MAIN]
    rest = [row for row in line if row["ε"] != EPSILON or row["people"] not in MAIN]
    plane = [row for row in figures if row["cells"] != str(SIZE)]
    return {
        "one axis": _beside(main, GOALS, PUBLISHED),
        "two axes": _beside(plane, PLANE_GOALS, PUBLISHED_PLANE),
        "other people": _others(rest),
        "intervals": _coverage([row for row in main if row["method"] == DEFAULT]),
    }


def _beside(
    figures: Figures, goals: dict[str, float], published: dict[tuple[str, str], tuple[float, float]]
) -> str:
    """A row per method and reading, a column per population, then the published figures."""
    found = {(row["method"], row["read"], row["people"]): digits(row["RMSE"]) for row in figures}
    methods = dict.fromkeys((row["method"], row["read"]) for row in figures)
    rows = []
    for method, way in [*methods, *(key for key in published if key not in methods)]:
        ours = [found.get((method, way, people), "") for people in goals]
        known = [digits(value) for value in published.get((method, way), ())] or [""] * len(goals)
        shown = [f"**{cell}**" for cell in ours] if (method, way) == (DEFAULT, LIKELIHOOD) else ours
        rows.append([method, way, *shown, *known])
    return markdown(["method", "read by", *goals, *(f"{p}, published" for p in goals)], rows)


def _others(figures: Figures) -> str:
    """Default and hierarchy where they only stand beside the main figures."""
    found = {(r["people"], r["ε"], r["method"], r["read"]): digits(r["RMSE"]) for r in figures}
    columns = [(method, way) for method in (DEFAULT, TREE) for way in (LIKELIHOOD, UNBIASED)]
    rows = [
        [people, f"{epsilon:g}", *(found[people, epsilon, *column] for column in columns)]
        for people, epsilon in dict.fromkeys((row["people"], row["ε"]) for row in figures)
    ]
    return markdown(["people", "ε", *(f"{method}: {way}" for method, way in columns)], rows)


def _coverage(figures: Figures) -> str:
    """How often intervals of the default contain the truth."""
    rows = [
        [
            row["people"],
            row["read"],
            *(f"{100 * row[name]:.1f} %" for name in ("covered", "worst tenth")),
            f"{row['width']:.2f}",
        ]
        for row in figures
    ]
    return markdown(["people", "read by", "covered", "worst tenth", "width"], rows)


if __name__ == "__main__":
    held = json.loads((FOLDER / "plain.json").read_text(encoding="utf-8"))["figures"]
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(refilled(text, page_tables(held)), encoding="utf-8")
