"""Which channel serves the decoder under one ε: the default beside a comb and a tree, in hindsight.

Likelihood answers to 500 random ranges about people of eight shapes, two of each kind, one of which
was not used to choose anything. Only values are computed, no errors of answers, so that there is
time for enough seeds: with a few, ratios are mostly chance. How many there are, and which, was
fixed before any of them was looked at.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import sfumato as sf
from benchmarks.pages import digits, markdown, refilled
from benchmarks.recording import FOLDER, Measurement, progress
from benchmarks.shape_people import HELD_OUT, SHAPES, UNIFORM, Setting
from benchmarks.shape_reading import rmse
from benchmarks.shapes import CHANNELS, best_of, ratio
from sfumato.estimation.likelihood import LikelihoodEstimate

KINDS = ("smooth", "heaped", "spiky", "sparse")
NAMES = tuple(name for name in SHAPES if name.startswith(KINDS))
SEEDS = range(100, 110)
#: Fewer and more people on the shorter axes, to see whether the better channel depends on them.
OTHER_PEOPLE = tuple(
    replace(setting, people=people)
    for people in (1_000, 10_000, 1_000_000)
    for setting in UNIFORM
    if setting.shape == (256,)
)
SEEDS_OF_PEOPLE = range(103, 109)
WORKERS = 2
PAGE = Path("docs/plain-ldp.md")

Errors = dict[str, float]  # RMSE by channel


def decoded_error(study: sf.Study, setting: Setting, shape: str, seed: int) -> float:
    """RMSE of shares × 1000 over all ranges, by the decoded population.

    Args:
        study: The study.
        setting: Its guarantee, cells and people.
        shape: The name of the shape.
        seed: For people, questions and reports.
    """
    counts, rows = setting.draw(shape, seed)
    found = LikelihoodEstimate(study, study.simulate_counts(counts, seed=seed).statistic)
    shares = found.decoder((0,)).counts().ravel() / setting.people
    return rmse(rows @ (shares - counts / setting.people))


def collect(shape: str, setting: Setting, seed: int) -> Errors:
    """The errors of the default, of the comb and of the tree on the same people.

    Args:
        shape: The name of the shape.
        setting: The setting.
        seed: For people, questions and reports.
    """
    studies = {"default": setting.study()}
    studies |= {name: setting.study(channel) for name, channel in CHANNELS.items()}
    distinct = {study.fingerprint: study for study in studies.values()}
    errors = {key: decoded_error(study, setting, shape, seed) for key, study in distinct.items()}
    return {name: errors[study.fingerprint] for name, study in studies.items()}


def row(shape: str, setting: Setting, found: list[Errors]) -> dict[str, Any]:
    """The figures of one shape in one setting.

    Args:
        shape: The name of the shape.
        setting: The setting.
        found: Errors of all seeds.
    """
    errors = {name: [one[name] for one in found] for name in found[0]}
    better = best_of(errors, tuple(CHANNELS))
    over, error = ratio(errors["default"], errors[better])
    means = {name: sum(each) / len(each) for name, each in errors.items()}
    return {
        "shape": shape,
        "held out": shape in HELD_OUT,
        "ε": setting.epsilon,
        "cells": setting.shape[0],
        "people": setting.people,
        "seeds": len(found),
        **means,
        "better": better,
        "default/better": over,
        "±": error,
    }


def measure() -> Measurement:
    """Every shape in every setting under one ε."""
    return _measured(UNIFORM, SEEDS)


def measure_people() -> Measurement:
    """The same with other numbers of people."""
    return _measured(OTHER_PEOPLE, SEEDS_OF_PEOPLE)


def _measured(settings: Sequence[Setting], seeds: Sequence[int]) -> Measurement:
    """Every shape in some settings."""
    os.environ.setdefault("SFUMATO_CACHE", "build/bench-cache")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    rows = []
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        for setting, shape in product(settings, NAMES):
            progress(f"{shape}, {setting}")
            each = pool.map(collect, *zip(*((shape, setting, s) for s in seeds), strict=True))
            rows.append(row(shape, setting, list(each)))
    return Measurement(
        "the default channel under one ε beside a comb and a tree: RMSE of shares × 1000",
        rows,
        [
            "likelihood answers to 500 random ranges; all channels see the same people and "
            "questions, drawn anew with every seed; ± standard errors of the ratio by pairs",
            "held out: not used to choose anything; the tree is Hierarchical(4, 'best')",
        ],
    )


def page_tables(figures: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The tables of the page: comb and tree on every shape, and the worst ratio of the default.

    Args:
        figures: The rows of the record.
    """
    found = {
        (row["shape"], row["cells"], row["ε"]): f"{digits(row['comb'])} / {digits(row['tree'])}"
        for row in figures
    }
    columns = dict.fromkeys((cells, epsilon) for _, cells, epsilon in found)
    head = ["people", *(f"{cells:,} cells, ε = {epsilon:g}" for cells, epsilon in columns)]
    rows = [[shape, *(found[shape, *column] for column in columns)] for shape in NAMES]
    worst = max(figures, key=lambda row: float(row["default/better"]))
    told = (
        f"At worst, the default's error is {worst['default/better']:.2f} ± {worst['±']:.2f} times "
        f"that of the better one ({worst['shape']}, {worst['cells']:,} cells, ε = {worst['ε']:g})."
    )
    return {"comb and tree": markdown(head, rows), "worst choice": told}


if __name__ == "__main__":
    held = json.loads((FOLDER / "channels.json").read_text(encoding="utf-8"))["figures"]
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(refilled(text, page_tables(held)), encoding="utf-8")
