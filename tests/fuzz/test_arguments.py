"""Every public call with the wrong thing in the place of an argument: refused by name."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_fuzz_mutate import SIMPLE, THINGS
from helpers_fuzz_targets import CALLS, make_call

import sfumato as sf
from sfumato import central, questions

STUDY = sf.Study("ages", [sf.integers("age", 0, 9, protect=sf.Distance(0.5))])
TALLY = STUDY.simulate({"age": [1, 2, 3, 7] * 25}, seed=1)
EST = TALLY.estimate("unbiased")


@pytest.mark.slow
@pytest.mark.parametrize("owner", ["likely", "weighted", *CALLS])
def test_every_call_with_every_thing_is_answered_or_refused(owner: str, tmp_path: Path) -> None:
    calls = CALLS["est" if owner in ("likely", "weighted") else owner]
    things = [*SIMPLE, *(make() for make in THINGS)]
    with contextlib.chdir(tmp_path):
        for place, held in itertools.product(range(len(calls)), things):
            with contextlib.suppress(sf.SfumatoError):
                make_call((owner, place, [held] * 4), tmp_path)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("x", r"a workload must be a matrix of numbers, one row per .*, got 'x'"),
        (None, r"matrix of numbers"),
        ({1, 2}, r"matrix of numbers"),
        ([[1, 2], [3]], r"matrix of numbers"),
        ([["a"] * 10], r"matrix of numbers"),
        (np.ones(9), r"must have 10 columns, one per cell \(10\), got shape \(1, 9\)"),
        (np.ones((2, 2, 2)), r"one row per question and one column per cell, got shape"),
        (np.full((1, 10), np.nan), r"must hold finite numbers"),
        (np.full((1, 10), np.inf), r"must hold finite numbers"),
        ([10**400] * 10, r"matrix of numbers"),
    ],
)
def test_linear_takes_a_matrix_of_numbers(given: Any, message: str) -> None:
    with pytest.raises(sf.QuestionError, match=message):
        EST.linear(given)


@pytest.mark.parametrize(
    "q",
    [
        *([(1, 2), None], [None], None, "0.5", "x", True, 1.5, -0.1, [0.5, 2]),
        *({0.5}, {0.5: 1}, [[0.5]], np.ones((2, 2)), float("nan"), float("inf"), 10**400, []),
    ],
)
def test_quantiles_take_shares(q: Any) -> None:
    with pytest.raises(sf.QuestionError, match="share"):
        EST.quantile("age", q)


@pytest.mark.parametrize("level", [2, 0, 1, -1, True, None, "0.95", float("nan"), [0.9], {0.9}])
def test_levels_lie_between_0_and_1(level: Any) -> None:
    histogram = EST.histogram("age")
    for ask in (
        lambda: EST.count(age=5, level=level),
        lambda: EST.histogram("age", level=level),
        lambda: EST.linear(np.eye(10), level=level),
        lambda: EST.quantile("age", 0.5, level=level),
        lambda: EST.mean("age", level=level),
        lambda: histogram.band(level),
        lambda: central.Laplace(["age=1"], level=level),
    ):
        with pytest.raises(sf.QuestionError, match="level must lie between 0 and 1, got level="):
            ask()


@pytest.mark.parametrize("bins", [-1, 0, True, 1.5, "4", [4], {4}, float("nan"), 10**400])
def test_bins_are_whole_numbers(bins: Any) -> None:
    for ask in (EST.histogram, EST.cdf):
        with pytest.raises(sf.QuestionError, match="bins must be a whole number of at least 1"):
            ask("age", bins=bins)


@pytest.mark.parametrize("axis", [None, 7, b"age", ["age"], {"age"}, np.array(["age", "age"])])
def test_axes_are_given_by_name(axis: Any) -> None:
    for ask in (EST.histogram, EST.cdf, EST.mean, EST.variance, EST.total):
        with pytest.raises(sf.QuestionError, match="axis"):
            ask(axis)
    with pytest.raises(sf.QuestionError, match="axis"):
        EST.quantile(axis, 0.5)
    with pytest.raises(sf.QuestionError, match="axis"):
        EST.heatmap(axis, axis)


@pytest.mark.parametrize("given", [None, 7, "x", ["unbiased"], np.ones(3), {"auto"}])
def test_ways_are_named_with_all_there_are(given: Any) -> None:
    with pytest.raises(
        sf.StudyError, match="method must be 'auto', 'likelihood' or 'unbiased', got"
    ):
        TALLY.estimate(given)
    with pytest.raises(sf.StudyError, match="smoothing must be 'auto' or 'none', got smoothing="):
        TALLY.estimate(smoothing=given)
    with pytest.raises(sf.StudyError, match="via must be 'auto', 'direct', 'cells' or 'prefix'"):
        TALLY.estimate("unbiased", via=given)


@pytest.mark.parametrize("counts", [[10**30] * 10, [2**60] * 10, [1.5] * 10, ["a"] * 10, 7, None])
def test_counts_are_people(counts: Any) -> None:
    with pytest.raises(sf.SfumatoError, match="counts must"):
        STUDY.simulate_counts(counts, seed=1)


def test_ranges_without_bounds_are_too_many() -> None:
    with pytest.raises(sf.TooLargeError, match="give ends="):
        questions.Ranges(1 << 30)
    with pytest.raises(sf.StudyError, match="m must be a whole number of at least 1 and at most"):
        questions.Ranges(1 << 64)


def test_an_argument_of_any_length_is_shown_in_a_line() -> None:
    for given in ("x" * 10**6, 10**10_000, list(range(10**5)), -(10**5_000)):
        with pytest.raises(sf.SfumatoError) as caught:
            EST.count(age=5, level=given)
        assert len(str(caught.value)) < 200
