"""Simulated tallies have the same distribution by cell and by person."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from helpers_statistics import LIMIT, exact_count, exact_variance, mean_score, variance_score

import sfumato as sf
from sfumato.collect.simulation import _draw_by_cell, _draw_by_person, draw_tally
from sfumato.collect.tally import Tally
from sfumato.questions.language import weights

RUNS = 2_000
OFF = 0.25  # of the variance: 8 standard errors at 2,000 runs, as in test_variance.py

STUDIES = {
    "two axes": sf.Study(
        "sim",
        [
            sf.integers("a", 0, 5, protect=sf.Distance(0.8), channel=sf.Geometric()),
            sf.categories("r", ["n", "s", "e"], protect=sf.Uniform(1.0)),
        ],
    ),
    "exponential": sf.Study(
        "sim",
        [
            sf.integers("a", 0, 4, protect=sf.Distance(1.0), channel=sf.Exponential()),
            sf.integers("b", 0, 3, protect=sf.Distance(1.2), channel=sf.Geometric()),
        ],
    ),
}
QUESTIONS: dict[str, dict[str, Any]] = {
    "two axes": {"a": (1, 3), "r": {"n", "e"}},
    "exponential": {"a": (2, None), "b": (1, 2)},
}


def _counts(study: sf.Study) -> np.ndarray:
    return np.random.default_rng(11).integers(0, 60, study.shape)


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("draw", [_draw_by_cell, _draw_by_person], ids=["by cell", "by person"])
def test_both_ways_have_the_exact_mean_and_variance(name: str, draw: Any) -> None:
    study, counts = STUDIES[name], _counts(STUDIES[name])
    asked = weights(study.axes, QUESTIONS[name])
    truth = exact_count(asked.weights, counts)
    variance = exact_variance(study.channels, asked.weights, counts)
    sample = [
        Tally(study, draw(study.channels, counts, seed)).estimate("unbiased").value_of(asked)
        for seed in range(RUNS)
    ]
    assert abs(mean_score(sample, truth, variance)) < LIMIT
    assert abs(variance_score(sample, variance)) < LIMIT
    for factor in (1 - OFF, 1 + OFF):
        assert abs(variance_score(sample, variance * factor)) > LIMIT
    assert abs(mean_score(sample, truth + OFF * math.sqrt(variance), variance)) > LIMIT


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("draw", [_draw_by_cell, _draw_by_person], ids=["by cell", "by person"])
def test_every_combination_is_as_frequent_as_the_likelihood_says(name: str, draw: Any) -> None:
    """One large draw against Σ_x c(x)·Π_d P(y_d | x_d), combination by combination.

    A combination's count is a sum of independent indicators, so its variance is
    Σ c·P·(1 − P) <= its mean; scores use the mean. With at most 20 combinations, 4 standard
    errors are exceeded by accident once in 800 draws.
    """
    study = STUDIES[name]
    counts = _counts(study) * 100
    counts[1, 1] += 400_000
    laws = [channel.likelihood() for channel in study.channels]
    expected = np.einsum("xy,xu,yv->uv", counts, *laws)
    found = _dense(study, draw(study.channels, counts, 4))
    assert found.sum() == counts.sum()
    assert np.all(np.abs(found - expected) < LIMIT * np.sqrt(expected))
    # Twin: one person in ten moved one cell up is seen.
    moved = expected + 0.1 * (np.roll(expected, 1, axis=0) - expected)
    assert np.max(np.abs(moved - expected) / np.sqrt(expected)) > 2 * LIMIT
    assert np.any(np.abs(found - moved) > LIMIT * np.sqrt(expected))


def _dense(study: sf.Study, statistic: Any) -> np.ndarray:
    table = np.zeros(study.shape, dtype=np.int64)
    table[tuple(statistic.symbols)] = statistic.people
    return table


class TestChoiceOfWay:
    def test_many_people_are_drawn_by_cell_and_few_by_person(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        study, used = STUDIES["two axes"], []
        for name in ("_draw_by_cell", "_draw_by_person"):
            monkeypatch.setattr(
                f"sfumato.collect.simulation.{name}", lambda *rest, way=name: used.append(way)
            )
        few, many = np.ones(study.shape, dtype=np.int64), np.full(study.shape, 10**6)
        draw_tally(study.channels, few, 1)
        draw_tally(study.channels, many, 1)
        assert used == ["_draw_by_person", "_draw_by_cell"]

    def test_bits_are_always_drawn_by_person(self) -> None:
        axis = sf.integers("a", 0, 3, protect=sf.Distance(1), channel=sf.Thermometer())
        tally = sf.Study("bits", [axis]).simulate_counts([5_000, 0, 1, 4_999], seed=1)
        assert (tally.n, tally.statistic.count) == (10_000, 10_000)

    @pytest.mark.parametrize("people", [0, 1, 70, 1 << 20, (1 << 20) + 1])
    def test_everyone_is_drawn_once(self, people: int) -> None:
        study = STUDIES["two axes"]
        counts = np.zeros(study.shape, dtype=np.int64)
        counts[0, 1], counts[5, 2] = people // 3, people - people // 3
        for draw in (_draw_by_cell, _draw_by_person):
            statistic = draw(study.channels, counts, 2)
            assert statistic.count == people
            assert int(statistic.people.sum()) == people

    def test_by_person_is_what_encode_does(self) -> None:
        study = STUDIES["two axes"]
        counts = _counts(study)
        cells = np.repeat(np.arange(counts.size), counts.ravel())
        a, r = np.unravel_index(cells, counts.shape)
        people = {"a": a, "r": [["n", "s", "e"][k] for k in r]}
        drawn = Tally(study, _draw_by_person(study.channels, counts, 9))
        assert drawn == study.simulate(people, seed=9)


class TestCounts:
    def test_flat_and_shaped_counts_are_the_same(self) -> None:
        study = STUDIES["two axes"]
        counts = _counts(study)
        one = study.simulate_counts(counts, seed=1)
        assert one == study.simulate_counts(counts.ravel(), seed=1)
        assert one == study.simulate_counts(counts.astype(float).tolist(), seed=1)

    @pytest.mark.parametrize(
        ("counts", "message"),
        [
            (np.ones(17), "one entry per cell"),
            (np.ones((3, 6)), "shape 6 × 3"),
            (np.full(18, 0.5), "whole numbers"),
            (np.full(18, -1), "whole numbers"),
            (np.full(18, np.nan), "whole numbers"),
        ],
    )
    def test_impossible_counts_are_refused(self, counts: np.ndarray, message: str) -> None:
        with pytest.raises(sf.StudyError, match=message):
            STUDIES["two axes"].simulate_counts(counts, seed=1)

    def test_people_of_rounded_axes_are_at_grid_points(self) -> None:
        axis = sf.reals("x", 0, 4, bins=4, rounding="stochastic", protect=sf.Distance(2.0))
        study = sf.Study("rounded", [axis])
        counts = np.array([100, 200, 300, 200, 200])
        for draw in (_draw_by_cell, _draw_by_person):
            estimate = Tally(study, draw(study.channels, counts * 1_000, 3)).estimate("unbiased")
            answers = estimate.histogram("x")
            exact = [
                math.sqrt(exact_variance(study.channels, [point], counts * 1_000))
                for point in np.eye(5)
            ]
            assert np.all(np.abs(answers.values - counts * 1_000) < LIMIT * np.array(exact))
