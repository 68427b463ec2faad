"""MWEM and Laplace noise on a census: 1,000 random marginal counts of age × hours × sex.

``python -m benchmarks.census --data FOLDER`` reads adult.csv.gz (UCI Adult, 48,842 people) from
the folder, releases the same 1,000 counts again and again by MWEM as published, by MWEM with replay
and by Laplace noise with the exact allocation, all under the same E, and writes the largest errors
to results/soak/adult.json. Nothing else of the data is kept.

A question picks any of the axes, an interval between two uniform ends of age (17..90) and of hours
a week (1..99), and a sex. E is 0.1 a year, 0.1 an hour and 1 for the sex, times the share that is
spent. A ratio of mean largest errors has a 95 % interval by the delta method on its logarithm.
Intervals of MWEM hold for all questions at once, those of Laplace noise one by one: of 1,000 some
always miss. How many rounds the replayed variant takes was tried out on the same table, which
flatters it.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sfumato as sf
from benchmarks import records
from benchmarks.pages import markdown
from sfumato import central
from sfumato.central.mechanism import Prepared

Floats = NDArray[np.float64]

RESULTS = Path("results/soak/adult.json")
PAGE = Path("docs/central.md")
DATA = "adult.csv.gz"
SEED = 2020
QUESTIONS = 1_000
RUNS = 20
SHARES = ("10", "1", "1/10")
REPLAYED_ROUNDS = {"10": 30, "1": 15, "1/10": 5}
CHECK = "1/10"


def study() -> sf.Study:
    """The three axes and how strongly each is protected."""
    return sf.Study(
        "adult",
        [
            sf.integers("age", 17, 90, protect=sf.Distance(0.1)),
            sf.integers("hours", 1, 99, protect=sf.Distance(0.1)),
            sf.categories("sex", ["Female", "Male"], protect=sf.Uniform(1)),
        ],
    )


def people(folder: Path) -> dict[str, list[Any]]:
    """The three columns of the census."""
    with gzip.open(folder / DATA, "rt", encoding="utf-8", newline="") as file:
        rows = [(r["age"], r["hours_per_week"], r["sex"]) for r in csv.DictReader(file)]
    ages, hours, sexes = zip(*rows, strict=True)
    return {"age": [int(a) for a in ages], "hours": [int(h) for h in hours], "sex": list(sexes)}


def questions(count: int, seed: int = SEED) -> list[str]:
    """Distinct random marginal counts, in the study's own language.

    Args:
        count: Number of questions.
        seed: Seed of the randomness.
    """
    rng, found = np.random.default_rng(seed), dict[str, None]()
    while len(found) < count:
        use = rng.integers(0, 2, 3)
        parts = []
        for place, (name, low, high) in enumerate((("age", 17, 90), ("hours", 1, 99))):
            a, b = np.sort(rng.integers(low, high + 1, 2)).tolist()
            parts += [f"{name}={a}..{b}"] if use[place] else []
        sex = ("Female", "Male")[int(rng.integers(2))]
        parts += [f"sex={sex}"] if use[2] else []
        if parts:
            found[", ".join(parts)] = None
    return list(found)


def largest_errors(
    prepared: Prepared, counts: NDArray[np.int64], truth: Floats, runs: int, seed: int
) -> tuple[Floats, float, float]:
    """The largest error of each run, the share of runs whose intervals all hold, and their width.

    Args:
        prepared: The mechanism, prepared for the questions.
        counts: Number of people in each cell.
        truth: The true answers.
        runs: Number of runs.
        seed: Seed of the randomness.
    """
    errors, held, widths = [], 0, []
    for run in range(runs):
        answers = prepared.run(counts, sf.SeededBits(seed + run)).answers
        errors.append(float(np.abs(answers.values - truth).max()))
        held += bool(np.all((answers.low <= truth) & (truth <= answers.high)))
        widths.append(float(np.mean(answers.high - answers.low) / 2))
    return np.array(errors), held / runs, float(np.mean(widths))


def ratio(ours: Floats, theirs: Floats) -> dict[str, float]:
    """The ratio of two means with its 95 % interval.

    Args:
        ours: Errors in the numerator.
        theirs: Errors in the denominator.
    """
    value = float(ours.mean() / theirs.mean())
    spread = math.sqrt(sum(float(e.var(ddof=1)) / len(e) / e.mean() ** 2 for e in (ours, theirs)))
    return {
        "ratio": value,
        "low": value * math.exp(-1.96 * spread),
        "high": value * math.exp(1.96 * spread),
    }


def compare(
    data: central.Data, asked: Sequence[str], share: str, runs: int, seed: int = SEED
) -> dict[str, Any]:
    """All three mechanisms at one share of E.

    Args:
        data: The table of people.
        asked: The questions.
        share: The share of E that is spent.
        runs: Number of runs.
        seed: Seed of the randomness.
    """
    space, counts = central.Space(data.schema, share), data.counts()
    truth = np.asarray(space.workload(asked) @ counts, dtype=np.float64)
    mechanisms: Mapping[str, Any] = {
        "mwem, published": central.MWEM(asked),
        "mwem, replayed": central.MWEM(
            asked, REPLAYED_ROUNDS[share], variant="replayed", check=CHECK
        ),
        "laplace": central.Laplace(asked),
    }
    record: dict[str, Any] = {"share": share, "mechanisms": []}
    found: dict[str, Floats] = {}
    for name, mechanism in mechanisms.items():
        prepared = mechanism.prepare(space, data.n)
        errors, held, width = largest_errors(prepared, counts, truth, runs, seed)
        found[name] = errors
        row: dict[str, Any] = {
            "mechanism": name,
            "largest error": float(errors.mean()),
            "standard error": float(errors.std(ddof=1) / math.sqrt(runs)),
            "worst run": float(errors.max()),
            "runs whose intervals all hold": held,
            "mean half-width": width,
        }
        if name != "laplace":
            c = float(1 / prepared.rate)
            bound = central.accuracy.multiplicative_weights_error(
                data.n, space.size, len(asked), prepared.rounds, c
            )
            row |= {
                "rounds": prepared.rounds,
                "c": c,
                "published bound": bound,
                "below it": bool(errors.max() < bound),
            }
        record["mechanisms"].append(row)
    record["ratios to laplace"] = {
        name: ratio(errors, found["laplace"]) for name, errors in found.items() if name != "laplace"
    }
    return record


def tables(record: Mapping[str, Any]) -> dict[str, str]:
    """The table of the page."""
    head = ["share of E", "mechanism", "rounds", "largest error", "over Laplace", "bound"]
    lines = []
    for share in record["shares"]:
        for row in share["mechanisms"]:
            over = share["ratios to laplace"].get(row["mechanism"])
            ends = f" ({over['low']:.2f} to {over['high']:.2f})" if over else ""
            lines.append(
                [
                    share["share"],
                    row["mechanism"],
                    str(row.get("rounds", "")),
                    f"{row['largest error']:,.0f} ± {row['standard error']:,.0f}",
                    f"{over['ratio']:.2f}{ends}" if over else "",
                    f"{row['published bound']:,.0f}" if "published bound" in row else "",
                ]
            )
    return {"census": markdown(head, lines)}


def main() -> None:
    """Compute the results again."""
    parser = argparse.ArgumentParser(description="MWEM beside Laplace noise on a census.")
    parser.add_argument("--data", type=Path, required=True, help=f"folder with {DATA}")
    parser.add_argument("--runs", type=int, default=RUNS)
    given = parser.parse_args()
    data = central.Data(study(), people(given.data))
    asked = questions(QUESTIONS)
    record = {
        "people": data.n,
        "cells": math.prod(data.schema.shape),
        "questions": len(asked),
        "runs": given.runs,
        "seed": SEED,
        "shares": [compare(data, asked, share, given.runs) for share in SHARES],
    }
    records.stamp(record, "all", "python -m benchmarks.census --data FOLDER")
    records.keep(RESULTS, record, PAGE, tables)


if __name__ == "__main__":
    main()
