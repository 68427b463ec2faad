"""Error and coverage of default answers on twelve shapes, beside other methods in hindsight.

`python -m benchmarks shapes` keeps the figures. `python -m benchmarks.shapes --help` tells how to
run some of them, and how to compare with an older commit on the same tallies.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sfumato as sf
from benchmarks.recording import Measurement, progress
from benchmarks.shape_peers import adaptive_tree, plain_em, square_wave
from benchmarks.shape_people import (
    DISTANCE,
    FEW_PEOPLE,
    HELD_OUT,
    SETTINGS,
    SHAPES,
    UNIFORM,
    WRITTEN,
    Counts,
    Setting,
)
from benchmarks.shape_reading import Reading, keep, read, rmse
from benchmarks.versions import checked_out, folders, run

Floats = NDArray[np.float64]
Errors = dict[str, list[float]]  # RMSE of every seed, by method

SEEDS = 4
FEWER_FOR_LONG = 2  # times as few seeds on axes of more than …
LONG = 600  # … so many cells
MORE_FOR_FEW = 4  # times as many seeds where few people take part, and only coverage is asked
QUICK = (UNIFORM[1], DISTANCE[1], FEW_PEOPLE[1])
REACH = 1.959963984540054  # standard errors to each side of a 95 % interval
TENTHS = 10
DEFAULT = "default"
PEERS = ("plain EM", "SW+EM", "SW+EMS", "adaptive tree")
CHANNELS = {"comb": sf.Comb(), "tree": sf.Hierarchical(4, "best")}


# ---- one collection --------------------------------------------------------------------------


def peers(tally: sf.Tally, setting: Setting, counts: Counts, seed: int) -> dict[str, Floats]:
    """Shares of cells by the other methods that this guarantee allows, from the same people.

    Args:
        tally: The default's reports.
        setting: The setting.
        counts: People by cell.
        seed: For the reports of the others.
    """
    found = {"plain EM": plain_em(tally)}
    if setting.guarantee == "Uniform":
        rng = np.random.default_rng([seed, 1])
        found |= square_wave(counts, setting.epsilon, rng)
        found["adaptive tree"] = adaptive_tree(counts, setting.epsilon, rng)
    return found


def collect(shape: str, setting: Setting, seed: int) -> tuple[Reading, dict[str, float]]:
    """The default's reading of one collection, and the RMSE of every method on the same people.

    Args:
        shape: The name of the shape.
        setting: The setting.
        seed: For people, questions and reports.
    """
    counts, rows = setting.draw(shape, seed)
    study = setting.study()
    tally = study.simulate_counts(counts, seed=seed)
    default = read(tally, counts, rows)
    errors = {DEFAULT: default.rmse}
    if setting in FEW_PEOPLE:
        return default, errors
    for name, law in peers(tally, setting, counts, seed).items():
        errors[name] = rmse(rows @ (law - counts / setting.people).ravel())
    if setting.guarantee == "Uniform":
        for name, channel in CHANNELS.items():
            other = setting.study(channel)
            if other.fingerprint == study.fingerprint:
                errors[name] = default.rmse
            else:
                tally = other.simulate_counts(counts, seed=seed)
                errors[name] = read(tally, counts, rows).rmse
    return default, errors


# ---- figures ---------------------------------------------------------------------------------


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float | None]:
    """A ratio of means and its standard error, from pairs; None where there is one pair.

    Args:
        ours: The numerator of each seed.
        theirs: The denominator.
    """
    a, b = np.array(ours), np.array(theirs)
    found = float(a.mean() / b.mean())
    if len(a) == 1:
        return found, None
    return found, float((a - found * b).std(ddof=1) / math.sqrt(len(a)) / b.mean())


def best_of(errors: Errors, names: Sequence[str]) -> str:
    """The method with the smallest mean error, in hindsight.

    Args:
        errors: RMSE by method.
        names: Methods; those that were not run are left out.
    """
    return min((name for name in names if name in errors), key=lambda name: np.mean(errors[name]))


def coverage(readings: Sequence[Reading]) -> dict[str, float]:
    """What intervals hold, in all and in the worst of ten groups of questions by width; how long.

    Args:
        readings: The default's readings.
    """
    hits, cells, reach, errors = (
        np.concatenate([getattr(one, name) for one in readings])
        for name in ("hits", "cells", "reach", "errors")
    )
    parts = np.array_split(np.argsort(cells, kind="stable"), TENTHS)
    return {
        "covered": float(hits.mean()),
        "worst tenth": float(min(hits[part].mean() for part in parts)),
        "half-width": float(reach.mean() / (REACH * np.sqrt(np.mean(errors**2)))),
    }


def row(shape: str, setting: Setting, seeds: int) -> dict[str, Any]:
    """All figures of one shape in one setting.

    Args:
        shape: The name of the shape.
        setting: The setting.
        seeds: How many collections.
    """
    found = [collect(shape, setting, seed) for seed in range(seeds)]
    readings = [default for default, _ in found]
    errors: Errors = {name: [one[name] for _, one in found] for name in found[0][1]}
    result: dict[str, Any] = _head(shape, setting, seeds)
    for name in (DEFAULT, *PEERS, *CHANNELS):
        result[name] = float(np.mean(errors[name])) if name in errors else None
    for title, names in (("best", PEERS), ("better channel", tuple(CHANNELS))):
        one = best_of(errors, names) if set(names) & set(errors) else None
        over, error = ratio(errors[DEFAULT], errors[one]) if one else (None, None)
        result |= {title: one, f"default/{title}": over, f"default/{title} ±": error}
    result |= coverage(readings)
    result["seconds"] = float(np.mean([one.seconds for one in readings]))
    result["answer"] = "/".join(sorted({one.method for one in readings}))
    return result


def _head(shape: str, setting: Setting, seeds: int) -> dict[str, Any]:
    """What a row is about."""
    return {
        "shape": shape,
        "held out": shape in HELD_OUT,
        "guarantee": setting.guarantee,
        "ε": setting.epsilon,
        "cells": " × ".join(map(str, setting.shape)),
        "people": setting.people,
        "seeds": seeds,
    }


# ---- all together ----------------------------------------------------------------------------


def chosen(only: str, quick: bool, tuning: bool = False) -> list[tuple[str, Setting]]:
    """Shapes and settings.

    Args:
        only: Words, all of which the shape and the setting contain.
        quick: Whether three settings will do.
        tuning: Whether shapes that are held out are left out.
    """
    return [
        (shape, setting)
        for setting in (QUICK if quick else SETTINGS)
        for shape in SHAPES
        if all(word in f"{shape}, {setting}" for word in only.split())
        and not (tuning and shape in HELD_OUT)
    ]


def _seeds(setting: Setting, seeds: int) -> int:
    """How many collections a row takes."""
    if setting in FEW_PEOPLE:
        return seeds * MORE_FOR_FEW
    return max(1, seeds // FEWER_FOR_LONG) if max(setting.shape) > LONG else seeds


def measure(pairs: Sequence[tuple[str, Setting]] | None = None, seeds: int = SEEDS) -> Measurement:
    """Every shape in every setting.

    Args:
        pairs: Shapes and settings, if not all of them.
        seeds: How many collections of each.
    """
    os.environ.setdefault("SFUMATO_CACHE", "build/bench-cache")  # channels optimised once
    rows = []
    for shape, setting in chosen("", quick=False) if pairs is None else pairs:
        progress(f"{shape}, {setting}")
        rows.append(row(shape, setting, _seeds(setting, seeds)))
    return Measurement(
        "default answers on twelve shapes: RMSE of shares × 1000 over 500 random ranges",
        rows,
        [
            "all methods see the same people and questions, drawn anew with every seed; RMSE are "
            "means over seeds, ± standard errors of their ratio by pairs",
            f"held out: written on {WRITTEN} to be measured, not to tune anything on",
            "SW+EM and SW+EMS stop as Li et al. 2020 recommend; plain EM reads the default's own "
            "reports, 2,000 steps or a change below 1e-7; comb and tree, Hierarchical(4, 'best'), "
            "are read as the default is",
            "covered: share of the default's 95 % intervals that hold the truth; worst tenth: the "
            "least of ten groups of ranges by width; half-width: mean over 1.96 RMSE; seconds: "
            "processor time to all answers",
        ],
    )


def against(commit: str, pairs: Sequence[tuple[str, Setting]], seeds: int) -> list[dict[str, Any]]:
    """Default answers by an older commit and by this one, from the same tallies.

    The channels are those that this version chooses; the older one gets them in the study's file.

    Args:
        commit: The older commit.
        pairs: Shapes and settings.
        seeds: How many collections of each.
    """
    rows = []
    with checked_out(commit) as before:
        for shape, setting in pairs:
            progress(f"{shape}, {setting}")
            rows.append(_against(shape, setting, _seeds(setting, seeds), before))
    return rows


def _against(shape: str, setting: Setting, seeds: int, before: Path) -> dict[str, Any]:
    """One row of `against`."""
    study = setting.study()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(seeds):
            counts, rows = setting.draw(shape, seed)
            tally = study.simulate_counts(counts, seed=seed)
            keep(Path(folder) / f"{seed:04}", tally, counts, rows)
        found = {
            name: [
                Reading(**one)
                for one in run(src, "benchmarks.shape_reading", folder).get("readings", [])
            ]
            for name, src in folders(before)
        }
    errors = {name: [one.rmse for one in readings] for name, readings in found.items()}
    both = all(errors.values())
    over, error = ratio(errors["new"], errors["old"]) if both else (None, None)
    result = _head(shape, setting, seeds) | {"new/old": over, "new/old ±": error}
    for name, readings in found.items():
        result |= {f"{name} {title}": figure for title, figure in _figures(readings).items()}
    return result


def _figures(readings: Sequence[Reading]) -> dict[str, float | None]:
    """What `against` tells of one version; nothing where it failed."""
    if not readings:
        return dict.fromkeys(("RMSE", "covered", "worst tenth", "half-width", "seconds"))
    return {
        "RMSE": float(np.mean([one.rmse for one in readings])),
        **coverage(readings),
        "seconds": float(np.mean([one.seconds for one in readings])),
    }


def main() -> None:
    """Measure and print a table, of all methods or of two commits."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shapes", description=__doc__)
    parser.add_argument(
        "--only", default="", metavar="WORDS", help="rows that contain all, as 'heaped 1,024'"
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help="collections of each")
    parser.add_argument("--quick", action="store_true", help="three settings only")
    parser.add_argument("--tuning", action="store_true", help="without shapes that are held out")
    parser.add_argument("--against", metavar="COMMIT", help="compare with an older commit instead")
    given = parser.parse_args()
    pairs = chosen(given.only, given.quick, given.tuning)
    if not pairs:
        parser.error(f"no row contains {given.only!r}")
    if given.against:
        rows = against(given.against, pairs, given.seeds)
        print(Measurement(f"this version and {given.against}", rows).table())
    else:
        print(measure(pairs, given.seeds).table())


if __name__ == "__main__":
    main()
