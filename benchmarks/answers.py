"""Processor seconds to the first answer, by an older commit and by this one in one run.

`python -m benchmarks answers` keeps the figures. `python -m benchmarks.answers --help` tells how to
run some of the cases, another commit, or the case that takes long.

Every case runs in fresh processes, old and new in turns. A process imports the package, answers
questions about a few people, draws the tally, and only then starts the clock: from `estimate()` to
the answer with its interval, in processor seconds of all threads.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sfumato as sf
from benchmarks.recording import Measurement, progress
from benchmarks.versions import (
    BEFORE,
    assert_version,
    checked_out,
    folders,
    limit_seconds,
    run,
)

Cells = NDArray[np.int64]
Floats = NDArray[np.float64]

PEOPLE = 100_000
REPEAT = 3  # runs of each version; the median counts
REPEAT_UP_TO = 5.0  # seconds: what takes longer is run once
CAP = 60  # processor seconds after which a run is ended, or twice the budget if that is more
MOST_COUNTED = 1 << 20  # cells of a grid whose people are drawn as one histogram
REACH = statistics.NormalDist().inv_cdf(0.975)  # standard errors to each side of an interval
DEFAULT = 3.0  # seconds that a default answer may take


@dataclass(frozen=True)
class Case:
    """A study, a question, and how long its first answer may take.

    Args:
        name: The study and the question in words.
        study: Makes the study.
        budget: Processor seconds.
        people: How many take part.
        kind: "count", "histogram", "heatmap" or "quantile" (the median).
        about: Axes that the question is about: the range of a count or condition covers cells from
            3/10 to half of each.
        insists: Whether it asks `estimate("likelihood")`, where the default would not decode.
        long: Whether it runs only on request.
    """

    name: str
    study: Callable[[], sf.Study]
    budget: float
    people: int = PEOPLE
    kind: str = "count"
    about: tuple[int, ...] = (0,)
    insists: bool = False
    long: bool = False


# ---- studies ---------------------------------------------------------------------------------


def line(size: int, protect: Any, channel: Any = None) -> Callable[[], sf.Study]:
    """One axis of integers.

    Args:
        size: How many cells.
        protect: The guarantee.
        channel: The channel; None for the planner's.
    """
    return lambda: sf.Study("s", [sf.integers("a", 0, size - 1, protect=protect, channel=channel)])


def grid(sizes: Sequence[int], protect: Any) -> Callable[[], sf.Study]:
    """Axes of integers, each with this guarantee.

    Args:
        sizes: How many cells each has.
        protect: The guarantee.
    """
    named = list(zip("abcde", sizes, strict=False))
    return lambda: sf.Study("s", [sf.integers(d, 0, m - 1, protect=protect) for d, m in named])


def whole(side: int) -> Callable[[], sf.Study]:
    """Two axes under one joint guarantee."""
    axes = [sf.integers(name, 0, side - 1) for name in "ab"]
    return lambda: sf.Study("s", axes, protect=sf.Uniform(1))


def labelled() -> sf.Study:
    """An ordered axis of 100 cells beside five categories."""
    kinds = sf.categories("b", [f"k{k}" for k in range(5)], protect=sf.Uniform(1))
    return sf.Study("s", [sf.integers("a", 0, 99, protect=sf.Distance(0.2)), kinds])


def calendar(protect: Any) -> Callable[[], sf.Study]:
    """367 days beside 50 bins of a real number.

    Args:
        protect: The guarantee of each.
    """
    days = sf.dates("a", "2024-01-01", "2025-01-01", protect=protect)
    return lambda: sf.Study("s", [days, sf.reals("b", 0, 50, bins=50, protect=protect)])


def optional_calendar() -> sf.Study:
    """366 days or no answer, beside 50 bins of a real number."""
    protect = sf.Distance(0.1, no_answer=100)
    days = sf.dates("a", "2024-01-01", "2024-12-31", protect=protect, optional=True)
    return sf.Study("s", [days, sf.reals("b", 0, 50, bins=50, protect=sf.Distance(0.2))])


_NEAR, _ANY = sf.Distance(0.2), sf.Uniform(1)
CASES = (
    Case("Distance(0.2), 100 cells: a count", line(100, _NEAR), 0.15),
    Case("Distance(0.2), 256 cells: a count", line(256, _NEAR), 0.15),
    Case("Distance(0.2), 1,024 cells: a count", line(1_024, _NEAR), 0.3),
    Case("Distance(0.2), 5,000 cells: a count", line(5_000, _NEAR), 3),
    Case("Distance(0.2), 60,000 cells: a count", line(60_000, _NEAR), 5),
    Case("Distance(0.2), 60,000 cells: the median", line(60_000, _NEAR), 5, kind="quantile"),
    Case("Distance(0.2), 64 × 64: a count", grid((64, 64), _NEAR), 1, about=(0, 1)),
    Case("Distance(0.2), 64 × 64: a heat map", grid((64, 64), _NEAR), 2, kind="heatmap"),
    Case("Uniform(1), 256 cells: a count", line(256, _ANY), 1),
    Case("Uniform(1), 1,024 cells: a count", line(1_024, _ANY), 1),
    Case("Uniform(1), 1,024 cells: a histogram", line(1_024, _ANY), 1, kind="histogram"),
    Case("Uniform(1), 5,000 cells: a count", line(5_000, _ANY), 3),
    Case("Uniform(1) whole records, 32 × 32: a count", whole(32), 3, about=(0, 1)),
    Case("Uniform(1) whole records, 64 × 64: a count", whole(64), 3, about=(0, 1)),
    Case("100 cells × 5 categories: a histogram with where=", labelled, 0.5, kind="histogram"),
    *(
        Case(
            f"{name}, five axes of 10 cells: a count on all",
            grid((10,) * 5, protect),
            DEFAULT,
            people=1_000,
            about=(0, 1, 2, 3, 4),
        )
        for name, protect in (
            ("Distance(0.2)", _NEAR),
            ("Distance(0.5)", sf.Distance(0.5)),
            ("Uniform(1)", _ANY),
        )
    ),
    Case(
        "thermometer, Distance(0.2), 1,000 cells: a count",
        line(1_000, _NEAR, sf.Thermometer()),
        DEFAULT,
        people=5_000,
    ),
    *(
        Case(f"{name} × 50 bins: a count", study, DEFAULT, people=50_000, about=(0, 1))
        for name, study in (
            ("Distance(0.2), 367 days", calendar(_NEAR)),
            ("Distance(0.1), 366 days or no answer,", optional_calendar),
            ("Uniform(1), 367 days", calendar(_ANY)),
        )
    ),
    Case(
        "Distance(0.2), four axes of 1,000 cells: a count on two",
        grid((1_000,) * 4, _NEAR),
        DEFAULT,
        about=(0, 1),
    ),
    Case(
        "Distance(0.2), four axes of 1,000 cells: a count on all",
        grid((1_000,) * 4, _NEAR),
        DEFAULT,
        about=(0, 1, 2, 3),
    ),
    Case(
        "Distance(0.2), five axes of 8 cells: a count on all",
        grid((8,) * 5, _NEAR),
        DEFAULT,
        about=(0, 1, 2, 3, 4),
    ),
    Case(
        "Distance(0.1), 1000 × 1000, ten million people: a likelihood count",
        grid((1_000, 1_000), sf.Distance(0.1)),
        60,
        people=10_000_000,
        about=(0, 1),
        insists=True,
        long=True,
    ),
)
POPULATION = (
    "people: 60 % in a bump at 0.35 of each axis (standard deviation 0.08 of it), 30 % at 0.7 "
    "(0.05), 10 % anywhere; all axes share the bump, and are independent within it"
)


# ---- one run ---------------------------------------------------------------------------------


def two_bumps(rng: np.random.Generator, shape: Sequence[int], people: int) -> Cells:
    """The cells of people, one row each; see `POPULATION`.

    Args:
        rng: Where they are drawn from.
        shape: How many cells each axis has.
        people: How many.
    """
    sizes = (people * 6 // 10, people * 3 // 10)
    parts = [
        rng.normal(0.35, 0.08, (sizes[0], len(shape))),
        rng.normal(0.7, 0.05, (sizes[1], len(shape))),
        rng.random((people - sum(sizes), len(shape))),
    ]
    places = np.concatenate(parts) * shape
    return np.clip(places, 0, np.array(shape) - 1).astype(np.int64)


def tally_of(study: sf.Study, cells: Cells) -> sf.Tally:
    """The tally of people: drawn from their histogram, or of each report where that is too large.

    Args:
        study: The study; its axes are integers where the histogram is too large.
        cells: The cells of people, one row each.
    """
    total = int(np.prod(study.shape))
    if total > MOST_COUNTED:
        values = {axis.name: cells[:, d] for d, axis in enumerate(study.axes)}
        return study.simulate(values, seed=1)
    flat = np.ravel_multi_index(tuple(cells.T), study.shape)
    counts = np.bincount(flat, minlength=total).reshape(study.shape)
    return study.simulate_counts(counts, seed=1)


def asked(case: Case, study: sf.Study, cells: Cells) -> tuple[Callable[[Any], Any], Floats]:
    """The question as a function of an estimate, and the true answer.

    Args:
        case: The case.
        study: Its study.
        cells: The cells of people, one row each.
    """
    if case.kind == "quantile":
        return lambda est: est.quantile("a", 0.5), np.median(cells[:, :1], axis=0)
    if case.kind == "heatmap":
        flat = np.bincount(cells @ [study.shape[1], 1], minlength=int(np.prod(study.shape)))
        return lambda est: est.heatmap("a", "b"), flat.reshape(study.shape).astype(np.float64)
    if case.kind == "histogram":
        where = None
        if len(study.shape) > 1:
            where, cells = {"b": {"k1"}}, cells[cells[:, 1] == 1]
        truth = np.bincount(cells[:, 0], minlength=study.shape[0]).astype(np.float64)
        return lambda est: est.histogram("a", where=where), truth
    condition, inside = {}, np.ones(len(cells), dtype=bool)
    for d in case.about:
        low, high = 3 * study.shape[d] // 10, study.shape[d] // 2
        inside &= (cells[:, d] >= low) & (cells[:, d] <= high)
        condition[study.axes[d].name] = _values(study.axes[d], low, high)
    return lambda est: est.count(condition), np.array([inside.sum()], dtype=np.float64)


def _values(axis: Any, low: int, high: int) -> tuple[Any, Any]:
    """The values from the start of one cell to the end of another."""
    kind = type(axis.domain).__name__
    if kind == "Dates":
        first = np.datetime64("2024-01-01")
        return str(first + low), str(first + high)
    return (low, high + 1) if kind == "Reals" else (low, high)


def answered(case: Case, cap: int | None = None) -> dict[str, Any]:
    """The first answer of one case by the version that is loaded: how, how well, how fast.

    Args:
        case: The case.
        cap: Processor seconds after which the process is ended, if any.
    """
    study = case.study()
    cells = two_bumps(np.random.default_rng(1), study.shape, case.people)
    tally = tally_of(study, cells)
    ask, truth = asked(case, study, cells)
    if cap is not None:
        limit_seconds(cap)
    start = time.process_time()
    try:
        answer = ask(tally.estimate("likelihood") if case.insists else tally.estimate())
        low, high = np.atleast_1d(answer.low), np.atleast_1d(answer.high)
    except sf.TooLargeError:
        return {"outcome": "refused"}
    took = time.process_time() - start
    values = answer.value if isinstance(answer, sf.Answer) else answer.values
    stderr = (high - low) / (2 * REACH) if case.kind == "quantile" else np.asarray(answer.stderr)
    return {
        "outcome": answer.method,
        "seconds": took,
        "stderr": float(np.sqrt(np.mean(stderr**2))),
        "error": float(np.sqrt(np.mean((np.asarray(values) - truth) ** 2))),
    }


def warm_up() -> None:
    """Load what is loaded when first used: small studies of every kind, with other numbers."""
    whole_records = sf.Study("w", [sf.integers(d, 0, 3) for d in "ab"], protect=sf.Uniform(2))
    for study in (
        line(11, sf.Distance(0.3))(),
        line(12, sf.Distance(0.3), sf.Geometric())(),
        line(13, sf.Uniform(2))(),
        grid((5, 4), sf.Distance(0.3))(),
        whole_records,
    ):
        estimate = tally_of(study, np.ones((200, len(study.shape)), dtype=np.int64)).estimate()
        estimate.count(a=(1, 2))
        assert estimate.histogram("a").high is not None
        estimate.quantile("a", 0.5)
        if len(study.shape) > 1:
            assert estimate.heatmap("a", "b").high is not None


# ---- all together ----------------------------------------------------------------------------


def in_turns(case: Case, before: Path | None, cap: int) -> dict[str, list[dict[str, Any]]]:
    """Runs of a case by version.

    Args:
        case: The case.
        before: The folder with the package of the older commit; None to leave it out.
        cap: Processor seconds after which a run is ended, or twice the budget if that is more.
    """
    found: dict[str, list[dict[str, Any]]] = {name: [] for name, _ in folders(before)}
    for turn in range(REPEAT):
        for name, src in folders(before):
            if not turn or found[name][0].get("seconds", np.inf) <= REPEAT_UP_TO:
                most = max(cap, round(2 * case.budget))
                found[name].append(run(src, "benchmarks.answers", "--answer", case.name, str(most)))
    return found


def row(case: Case, found: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The figures of a case.

    Args:
        case: The case.
        found: Runs by version.
    """
    seconds = {
        name: statistics.median(one["seconds"] for one in runs) if "seconds" in runs[0] else None
        for name, runs in found.items()
    }
    old, new = seconds.get("old"), seconds["new"]
    result: dict[str, Any] = {
        "case": case.name,
        "people": case.people,
        "old, s": old,
        "new, s": new,
        "budget, s": float(case.budget),
        "within": new is not None and new <= case.budget,
        "times as fast": old / new if old and new else None,
    }
    for name, what in (("outcome", "answer"), ("stderr", "±"), ("error", "off by")):
        result |= {f"{version} {what}": runs[0].get(name) for version, runs in found.items()}
    return result


def measure(
    only: str = "", before: str | None = BEFORE, cap: int = CAP, long: bool = True
) -> Measurement:
    """Every case by both versions.

    Args:
        only: Part of the names of the cases to run.
        before: The older commit; None to leave it out.
        cap: Processor seconds after which a run is ended.
        long: Whether the case that takes long is run too.
    """
    chosen = [case for case in CASES if only in case.name and (long or not case.long)]
    rows = []
    with checked_out(before) if before else nullcontext() as folder:
        for case in chosen:
            progress(case.name)
            rows.append(row(case, in_turns(case, folder, cap)))
    return Measurement(
        "processor seconds to the first answer",
        rows,
        [
            *([f"old: commit {before}"] if before else []),
            f"medians of {REPEAT} fresh processes each, in turns, one where it takes over "
            f"{REPEAT_UP_TO:g} s; 'too long': over {cap} s, or twice the budget",
            "from estimate() to the answer with its interval; imports, the study and the tally are "
            "there before, and nothing is cached",
            POPULATION,
            "±, off by: standard error and error against the truth, in people (of a quantile: in "
            "cells); of arrays, roots of mean squares",
        ],
    )


def main() -> None:
    """Run some cases and print a table, or one case for `in_turns`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.answers", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="cases with this in their name")
    parser.add_argument("--before", default=BEFORE, metavar="COMMIT", help="the older commit")
    parser.add_argument("--new-only", action="store_true", help="without the older commit")
    parser.add_argument("--cap", type=int, default=CAP, help="processor seconds for one run")
    parser.add_argument("--long", action="store_true", help="the case that takes long, too")
    parser.add_argument("--answer", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.answer:
        assert_version()
        warm_up()
        name, cap = given.answer
        case = next(case for case in CASES if case.name == name)
        print(json.dumps(answered(case, int(cap))))
        return
    if not any(given.only in case.name for case in CASES):
        parser.error(f"no case has {given.only!r} in its name")
    before = None if given.new_only else given.before
    print(measure(given.only, before, given.cap, given.long).table())


if __name__ == "__main__":
    main()
