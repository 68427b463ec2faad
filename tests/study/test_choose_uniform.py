"""The planner's choice under Uniform: recorded errors reach their goals, and a small run agrees.

The recorded figures are those of `python -m benchmarks plain` and `channels`.
"""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.channels.choice import Choice
from sfumato.estimation.likelihood import LikelihoodEstimate
from sfumato.metrics.uniform import UniformMetric
from sfumato.study.choose_uniform import choose_uniform

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:  # for the benchmarks, which also make the record
    sys.path.insert(0, str(ROOT))

from benchmarks import channels, pages, plain, plain_methods, shape_people  # noqa: E402
from benchmarks.choice import mean_square_of_ranges  # noqa: E402
from benchmarks.decoding import PLANES  # noqa: E402

PLANE = "64 × 64"
WAYS = (plain.LIKELIHOOD, plain.UNBIASED)


# The record


@cache
def record() -> dict[tuple[str, str, float, str, str], dict[str, Any]]:
    """Recorded figures by people, cells, ε, method and reading."""
    text = (ROOT / "results" / "bench" / "plain.json").read_text(encoding="utf-8")
    names = ("people", "cells", "ε", "method", "read")
    return {tuple(row[name] for name in names): row for row in json.loads(text)["figures"]}


def line(people: str, method: str, way: str, epsilon: float = 1.0) -> dict[str, Any]:
    return record()[people, "256", epsilon, method, way]


def test_the_default_reaches_its_goals_in_the_recorded_run() -> None:
    assert plain.GOALS == {"smooth": 13.0, "spiky": 12.0}
    for people, goal in plain.GOALS.items():
        row = line(people, plain.DEFAULT, plain.LIKELIHOOD)
        assert row["seeds"] == 10
        assert row["mean of RMSE"] <= row["RMSE"] <= goal == row["goal"]


def test_no_other_method_reaches_both_goals() -> None:
    """The twin: other methods miss the goals."""
    for method, held in plain.METHODS.items():
        if method != plain.DEFAULT and plain.UNBIASED in held.ways:
            rows = [line(people, method, plain.UNBIASED) for people in plain.MAIN]
            assert any(row["RMSE"] > plain.GOALS[row["people"]] for row in rows)
    for figures in plain.PUBLISHED.values():
        assert any(np.greater(figures, tuple(plain.GOALS.values())))


def test_methods_do_as_well_here_as_in_the_published_figures() -> None:
    """Within four standard errors of the difference: no method is put at a disadvantage."""
    for (method, way), figures in plain.PUBLISHED.items():
        if method not in plain.METHODS:
            continue
        for people, published in zip(plain.MAIN, figures, strict=True):
            row = line(people, method, way)
            spread = row["sd of RMSE"] * np.sqrt(2 / row["seeds"])
            assert row["mean of RMSE"] <= published + 4 * spread


def test_two_axes_reach_their_goals_in_the_recorded_run() -> None:
    assert plain.PLANE_GOALS == {"correlated normal": 25.7, "spiky": 22.3}
    for people, goal in plain.PLANE_GOALS.items():
        row = record()[people, PLANE, 1.0, plain.DEFAULT, plain.LIKELIHOOD]
        assert row["seeds"] == 10
        assert row["RMSE"] <= goal == row["goal"]
        for method in plain.PLANE_METHODS:
            assert row["RMSE"] < record()[people, PLANE, 1.0, method, plain.UNBIASED]["RMSE"]


def test_recorded_intervals_hold_the_truth_and_are_no_wider_than_unbiased_ones() -> None:
    rows = [row for row in record().values() if row["cells"] == "256"]
    default = [row for row in rows if row["method"] == plain.DEFAULT]
    for way in WAYS:
        main = [line(people, plain.DEFAULT, way) for people in plain.MAIN]
        assert np.mean([row["covered"] for row in main]) >= 0.93
    assert min(row["covered"] for row in default if row["read"] == plain.LIKELIHOOD) >= 0.93
    assert all(row["width"] <= 1.0 for row in default)
    assert all(row["width"] == 1.0 for row in rows if row["read"] == plain.UNBIASED)


def test_the_default_beats_the_hierarchy_on_other_people_and_at_other_epsilons() -> None:
    """By the mean square over all of them, so that no single kind of people decides."""
    others = [
        (row["people"], row["ε"])
        for row in record().values()
        if row["cells"] == "256" and row["seeds"] == plain.FEW_SEEDS
    ]
    assert {people for people, _ in others} == set(plain.SHAPES)
    assert {epsilon for _, epsilon in others} == {0.5, 1.0, 2.0}
    for way in WAYS:
        ratios = [
            line(people, plain.DEFAULT, way, epsilon)["RMSE"]
            / line(people, plain.TREE, way, epsilon)["RMSE"]
            for people, epsilon in dict.fromkeys(others)
        ]
        assert np.exp(np.mean(np.log(ratios))) < 1


def test_the_page_shows_the_recorded_figures() -> None:
    text = (ROOT / plain.PAGE).read_text(encoding="utf-8")
    figures = list(record().values())
    tables = plain.page_tables(figures)
    assert text == pages.refilled(text, tables), "run: python -m benchmarks.plain"
    other = plain.page_tables([row | {"RMSE": 2 * row["RMSE"]} for row in figures])
    assert text != pages.refilled(text, other)


# Comb and tree


def test_the_default_is_nearly_as_good_as_the_better_of_comb_and_tree() -> None:
    figures = json.loads((ROOT / "results/bench/channels.json").read_text("utf-8"))["figures"]
    kinds = {(row["shape"], row["cells"], row["ε"]) for row in figures}
    assert kinds == set(product(channels.NAMES, (256, 1_024), (0.5, 1.0, 2.0)))
    assert sum(name in channels.HELD_OUT for name in channels.NAMES) == 4
    for row in figures:
        assert row["seeds"] == len(channels.SEEDS)
        assert row["default/better"] <= 1.15
        assert row["default/better"] == pytest.approx(
            row["default"] / min(row["comb"], row["tree"])
        )
    text = (ROOT / channels.PAGE).read_text(encoding="utf-8")
    shown = pages.refilled(text, channels.page_tables(figures))
    assert text == shown, "run: python -m benchmarks.channels"
    other = channels.page_tables([row | {"comb": 2 * row["comb"]} for row in figures])
    assert text != pages.refilled(text, other)


@pytest.mark.parametrize("setting", shape_people.UNIFORM, ids=str)
def test_the_default_is_still_the_one_that_was_recorded(setting: shape_people.Setting) -> None:
    figures = json.loads((ROOT / "results/bench/channels.json").read_text("utf-8"))["figures"]
    (size,) = setting.shape
    rows = [row for row in figures if (row["cells"], row["ε"]) == (size, setting.epsilon)]
    assert all(row["default"] == row["comb"] != row["tree"] for row in rows)
    metric = UniformMetric(Fraction(setting.epsilon), size)
    assert choose_uniform(metric, (size,), (True,))[0] == sf.Comb()


@pytest.mark.slow
def test_trees_are_chosen_at_large_epsilon_and_their_levels_suit_ranges() -> None:
    """Likelihood answers gain more from combs, so that trees are chosen later for them."""

    def chosen(epsilon: str, method: str) -> Choice:
        return choose_uniform(
            UniformMetric(Fraction(epsilon), 256), (256,), (True,), method=method
        )[0]

    def error(channel: Choice | None) -> float:
        axis = sf.integers("x", 0, 255, protect=sf.Uniform(3), channel=channel)
        return sf.Study("ranges", [axis]).expected_error(10_000).rows[0].stderr

    tree = sf.Hierarchical(4, "best", "optimised")
    assert [chosen("3", method) for method in ("likelihood", "unbiased")] == [tree, tree]
    assert chosen("11/4", "likelihood") == sf.Comb()
    assert chosen("11/4", "unbiased") == tree
    others = [sf.Comb(), *(sf.Hierarchical(b, "best", "optimised") for b in (2, 4, 8))]
    least = min(map(error, others))
    assert error(None) <= 1.10 * least < error(sf.Hierarchical(4, "best"))


def test_channels_are_compared_on_the_same_people() -> None:
    setting = shape_people.Setting("Uniform", 1.0, (16,), 2_000)
    found = channels.collect("smooth: two bumps", setting, 5)
    assert found == channels.collect("smooth: two bumps", setting, 5)
    assert set(found) == {"default", "comb", "tree"}
    assert found["default"] == found["comb"] != found["tree"]


# A small run

SEEDS = range(20)
# Logarithms of ratios of errors, mean and standard deviation over 30 other seeds: likelihood over
# unbiased answers from the same reports −0.45 ± 0.22, and over likelihood answers from the
# hierarchy's −0.10 ± 0.41. Each limit is four standard errors of the mean over SEEDS beyond.
LIMITS = {
    (plain.DEFAULT, plain.UNBIASED): -0.45 + 4 * 0.22 / np.sqrt(len(SEEDS)),
    (plain.TREE, plain.LIKELIHOOD): -0.10 + 4 * 0.41 / np.sqrt(len(SEEDS)),
}


@cache
def small(seed: int) -> dict[tuple[str, str], float]:
    """Mean square errors over all ranges: 20,000 people in 64 cells, ε = 1."""
    rng = np.random.default_rng(seed)
    parts = [rng.normal(22.5, 6.25, 12_000), rng.normal(45.0, 3.75, 8_000)]
    counts = np.bincount(np.clip(np.concatenate(parts), 0, 63).astype(np.int64), minlength=64)
    found = {}
    for method, held in plain.FEW_METHODS.items():
        tally = plain.line_study(held.choice, 1.0, 64).simulate_counts(counts, seed=seed)
        decoded = tally.estimate("likelihood")
        assert isinstance(decoded, LikelihoodEstimate)
        plainly = tally.estimate("unbiased").histogram("x").values
        found[method, plain.LIKELIHOOD] = mean_square_of_ranges(
            decoded.decoder((0,)).counts() - counts
        )
        found[method, plain.UNBIASED] = mean_square_of_ranges(plainly - counts)
    return found


def within(method: str, way: str) -> list[bool]:
    """For each error of a method, whether it is within the limit for the default's."""
    return [
        np.mean([np.log(small(seed)[method, way] / small(seed)[other]) / 2 for seed in SEEDS])
        < limit
        for other, limit in LIMITS.items()
    ]


@pytest.mark.slow
def test_a_small_smooth_population_is_read_well() -> None:
    assert all(limit < 0.3 for limit in LIMITS.values())
    assert all(within(plain.DEFAULT, plain.LIKELIHOOD))


@pytest.mark.slow
def test_the_limits_would_catch_unbiased_answers() -> None:
    """The twin: the same reports read without bias, and the hierarchy's."""
    assert not all(within(plain.DEFAULT, plain.UNBIASED))
    assert not any(within(plain.TREE, plain.UNBIASED))


# How it is measured


def test_a_run_measures_every_setting_of_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    one = plain.Round(np.ones(20), np.ones(20), np.ones(20), 1.0)

    def line_round(*asked: Any) -> dict[tuple[str, str], plain.Round]:
        return {(name, way): one for name, held in asked[3].items() for way in held.ways}

    def plane_round(*_: Any, others: bool) -> dict[tuple[str, str], plain.Round]:
        found = line_round(0, 0, 0, plain.PLANE_METHODS)
        return found if others else {key: one for key in found if key == next(iter(found))}

    monkeypatch.setattr(plain, "line_round", line_round)
    monkeypatch.setattr(plain, "plane_round", plane_round)
    monkeypatch.setenv("SFUMATO_CACHE", "nowhere")
    rows = plain.measure().rows
    names = ("people", "cells", "ε", "method", "read")
    assert [tuple(row[name] for name in names) for row in rows] == list(record())
    for row, held in zip(rows, record().values(), strict=True):
        assert list(row) == list(held)
        assert (row["seeds"], row["goal"]) == (held["seeds"], held["goal"])
        assert row["published"] == held["published"]
        assert row["RMSE"] == row["mean of RMSE"] == 1_000


def test_people_are_those_of_the_record() -> None:
    for seed, make in enumerate(plain.SHAPES.values()):
        assert make(np.random.default_rng(seed)).sum() == plain.PEOPLE
    assert np.count_nonzero(plain_methods.spiky(np.random.default_rng(1))) <= 20
    drawn = plain_methods.smooth(np.random.default_rng(1))
    # Truncation takes half a cell off; four standard errors of the mean of 100,000 with sd 50.
    assert abs(drawn @ np.arange(256) / 100_000 + 0.5 - 126) < 4 * 50 / np.sqrt(100_000) + 0.01
    assert set(plain.PLANE_GOALS) == set(PLANES)


def test_ranges_are_between_two_cells_drawn_evenly() -> None:
    rows = plain.ranges(np.random.default_rng(2), 256)
    assert rows.shape == (plain.QUESTIONS, 256)
    assert set(np.unique(rows)) == {0.0, 1.0}
    assert np.abs(np.diff(rows, axis=1)).sum(axis=1).max() <= 2
    # Two even ends: the mean width is (m² − 1)/(3m) + 1, its sd over ranges about m/√18.
    expected = (256**2 - 1) / (3 * 256) + 1
    assert abs(rows.sum(axis=1).mean() - expected) < 4 * 256 / np.sqrt(18 * plain.QUESTIONS)


def test_the_default_names_no_channel() -> None:
    assert plain.METHODS[plain.DEFAULT].choice is None
    assert isinstance(plain.line_study(None, 1.0).blocks[0].choice, sf.Comb)
    assert isinstance(plain.plane_study(None).blocks[0].choice, sf.Comb)


def test_covered_counts_intervals_that_hold_the_truth() -> None:
    found = plain.Round(np.array([0.0, 0.019, -0.021]), np.full(3, 0.01), np.ones(3), 0.0)
    assert found.covered.tolist() == [True, True, False]
    assert found.square == pytest.approx((0.019**2 + 0.021**2) / 3)
