"""The measurement of first answers: its questions have the truths it states, its limits hold."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sfumato as sf

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:  # for the benchmarks, which are tested here
    sys.path.insert(0, str(ROOT))

from benchmarks import answers, growth, versions  # noqa: E402
from benchmarks.imports import OWN  # noqa: E402


def labelled() -> sf.Study:
    kinds = sf.categories("b", ["k0", "k1", "k2"], protect=sf.Uniform(9))
    return sf.Study("s", [sf.integers("a", 0, 19, protect=sf.Distance(3)), kinds])


def calendar() -> sf.Study:
    days = sf.dates("a", "2024-01-01", "2024-01-20", protect=sf.Distance(3))
    return sf.Study("s", [days, sf.reals("b", 0, 12, bins=12, protect=sf.Distance(3))])


_NEAR = sf.Distance(3)


@pytest.mark.parametrize(
    "case",
    [
        answers.Case("", answers.line(20, _NEAR), 1),
        answers.Case("", answers.line(20, _NEAR), 1, kind="quantile"),
        answers.Case("", answers.line(20, _NEAR), 1, kind="histogram"),
        answers.Case("", answers.grid((20, 15), _NEAR), 1, about=(0, 1)),
        answers.Case("", answers.grid((20, 15), _NEAR), 1, kind="heatmap"),
        answers.Case("", labelled, 1, kind="histogram"),
        answers.Case("", calendar, 1, about=(0, 1)),
    ],
)
def test_the_truth_is_that_of_the_question(case: answers.Case) -> None:
    """With weak guarantees the unbiased answer is near; the truth of other people is not."""
    study = case.study()
    cells = answers.two_bumps(np.random.default_rng(1), study.shape, 20_000)
    tally = answers.tally_of(study, cells)
    ask, truth = answers.asked(case, study, cells)
    answer = ask(tally.estimate("unbiased"))
    if case.kind == "quantile":
        assert answer.value == truth
        return
    values, stderr = (
        (answer.value, answer.stderr)
        if isinstance(answer, sf.Answer)
        else (answer.values, answer.stderr)
    )
    assert np.all(np.abs(values - truth) <= 5 * stderr)
    _, other = answers.asked(case, study, (cells + 1) % study.shape)
    assert not np.all(np.abs(values - other) <= 5 * stderr)


def test_people_are_drawn_alike_from_a_histogram_and_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    study = answers.grid((6, 5), sf.Distance(8))()
    cells = np.array([[0, 4]] * 30 + [[5, 1]] * 20)
    counted = answers.tally_of(study, cells)
    monkeypatch.setattr(answers, "MOST_COUNTED", 1)
    drawn = answers.tally_of(study, cells)
    for tally in (counted, drawn):
        values = tally.estimate("unbiased").heatmap("a", "b").values
        assert tally.n == 50
        assert np.unravel_index(values.argmax(), values.shape) == (0, 4)


def test_a_row_says_whether_the_budget_holds() -> None:
    case = answers.CASES[0]
    runs = [{"outcome": "likelihood", "seconds": s, "stderr": 1.0, "error": 2.0} for s in (1, 3, 2)]
    fast = [run | {"seconds": case.budget} for run in runs]
    slow = answers.row(case, {"old": fast, "new": runs})
    assert (slow["new, s"], slow["within"]) == (2, False)
    assert slow["times as fast"] == case.budget / 2
    assert answers.row(case, {"old": runs, "new": fast})["within"]
    ended = answers.row(case, {"old": [{"outcome": "too long"}], "new": fast})
    assert (ended["old, s"], ended["times as fast"], ended["old answer"]) == (
        None,
        None,
        "too long",
    )
    assert not answers.row(case, {"new": [{"outcome": "too long"}]})["within"]


def test_names_of_cases_are_different() -> None:
    assert len({case.name for case in answers.CASES}) == len(answers.CASES)


def test_a_slope_is_the_exponent() -> None:
    rows = [{"cells": size, "seconds": 0.3 * size**1.7} for size in (8, 64, 500)]
    assert growth.slope(rows, "cells") == pytest.approx(1.7)


@pytest.mark.slow
def test_a_process_is_ended_after_its_processor_seconds() -> None:
    program = "from benchmarks.versions import limit_seconds\nlimit_seconds(0)\nwhile True: pass"
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False, timeout=60)
    assert ended.returncode == -signal.SIGXCPU


def test_a_run_that_fails_says_so() -> None:
    assert versions.run(OWN, "benchmarks.growth", "no guarantee") == {"outcome": "failed"}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="there is no history here")
def test_a_commit_is_checked_out_and_removed() -> None:
    with versions.checked_out("HEAD") as src:
        assert (src / "sfumato" / "__init__.py").is_file()
    assert not src.exists()
