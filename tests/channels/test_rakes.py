"""Rakes: their teeth and words, the best reading, the guarantee, and where they are the default."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.channels.geometric import Geometric
from sfumato.channels.rakes import Rakes, all_teeth, distances, turn_words
from sfumato.errors import StudyError
from sfumato.exact import exp_floor
from sfumato.metrics.distance import AsideMetric, CappedLineMetric, LineMetric
from sfumato.study import rakes as choosing
from sfumato.study.asked import Asked, variance
from sfumato.study.rakes import with_rakes

HALF = Fraction(1, 2)


def aside(size: int, step: Fraction, e: Fraction) -> AsideMetric:
    return AsideMetric(LineMetric.equal(step, size), e)


def test_gaps_are_no_shorter_than_stated_and_as_often_longer_as_the_law_says() -> None:
    gaps = np.diff(all_teeth(1 << 18, 10)[0])
    assert gaps.min() == 10
    for times in (2, 4, 8):  # P(gap > t) = (10/t)^(3/2)
        expected = times**-1.5
        seen = np.mean(gaps > 10 * times)
        error = np.sqrt(expected / len(gaps))
        assert abs(seen - expected) < 4 * error + 1 / 64  # of strata
        assert abs(seen - times**-1.0) > 4 * error + 1 / 64


def test_words_fall_by_e_to_the_epsilon_at_most_and_by_nearly_that() -> None:
    odds, cap = exp_floor(HALF), exp_floor(Fraction(4))
    away = distances(all_teeth(30, 2)[0], 50)
    words = turn_words(away, odds, cap, 64)
    assert sum(words) == 1 << 64
    ratios = [Fraction(max(pair), min(pair)) for pair in pairwise([*words, words[0]])]
    assert 1 - 1e-9 < float(max(ratios) / odds) <= 1
    assert max(ratios) <= odds
    assert 1 - 1e-9 < float(Fraction(max(words), min(words)) / cap) <= 1
    assert Fraction(max(words), min(words)) <= cap


def test_no_unbiased_reading_is_better_for_people_spread_evenly() -> None:
    channel = Rakes(8, 2, HALF).bind(LineMetric.equal(HALF, 12))
    law = channel.likelihood()
    rows = np.vstack([np.tri(12), np.eye(12)])
    seen = law.mean(axis=0)
    best = np.linalg.solve((law / seen) @ law.T, rows.T)  # f = D⁻¹Qᵀ(QD⁻¹Qᵀ)⁻¹w
    least = np.sum(best.T * rows, axis=1)
    found = (channel.coefficients(rows) ** 2) @ seen
    np.testing.assert_allclose(found, least, rtol=1e-9)
    worse = rows @ np.linalg.pinv(law).T  # unbiased too, and blind to how often outputs come
    np.testing.assert_allclose(law @ worse.T, rows.T, atol=1e-9)
    assert ((worse**2) @ seen).sum() > 1.02 * least.sum()


def test_readings_of_long_axes_are_unbiased_to_the_last_digits() -> None:
    channel = Rakes(1_000, 1, HALF).bind(
        CappedLineMetric(LineMetric.equal(HALF, 3_000), Fraction(8))
    )
    rows = np.tri(3_000)[::250]
    read = channel.expect(channel.coefficients(rows))
    assert np.abs(read - rows).max() < 1e-12 * np.abs(channel.coefficients(rows)).max()


def test_noise_beyond_e_is_found() -> None:
    line, wide = LineMetric.equal(HALF, 3_000), LineMetric.equal(Fraction(3, 5), 3_000)
    near = CappedLineMetric(line, Fraction(3))
    for metric in (line, near):
        channel = Rakes(500, 2, HALF).bind(metric)
        found = channel.check(metric)
        assert (found.problems, found.method) == ([], "by structure")
        assert 0.99 < found.spent <= 1
    assert replace(channel, metric=line).check(line).spent <= 1
    beyond = Rakes(500, 2, HALF).bind(wide)
    assert replace(channel, laid=beyond.laid).check(line).spent > 1
    far = Rakes(500, 2, HALF).bind(CappedLineMetric(line, Fraction(4)))
    assert replace(channel, laid=far.laid).check(near).spent > 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((0, 1, 1), "reach must be a whole number of cells from 1, got reach=0"),
        ((5, 1.5, 1), "gap must be a whole number of cells from 1, got gap=1.5"),
        ((5, 1, 0), "narrower must be positive and finite, got narrower=0"),
        ((5, 1, "3/2"), "narrower must be at most 1, got narrower=1.5"),
    ],
)
def test_what_is_no_rake_is_refused(given: Any, told: str) -> None:
    with pytest.raises(StudyError, match=told):
        Rakes(*given)


def test_rakes_wider_than_the_axis_are_refused() -> None:
    line = LineMetric.equal(HALF, 20)
    assert Rakes(19, 2, HALF).misfit(line) is None
    assert "reach=20 cells needs an axis of more cells" in str(Rakes(20, 2, HALF).misfit(line))
    with pytest.raises(StudyError, match="too coarse for rakes on 20 cells"):
        Rakes(5, 2, HALF).bind(line, precision=4)


@pytest.mark.parametrize(("size", "step", "e"), [(300, "1/2", 4), (300, "1/5", 2)])
def test_the_formula_finds_nearly_the_best_rakes(
    size: int, step: str, e: int, monkeypatch: Any
) -> None:
    metric = aside(size, Fraction(step), Fraction(e))
    rows, shares = Asked.of(size, size + 1, ordered=True).rows(metric)
    chosen = with_rakes(metric)
    assert chosen is not None
    mine = variance(chosen.bind(metric), rows, shares)
    for reach in list(choosing._reaches(size))[::2]:
        monkeypatch.setattr(choosing, "_reaches", lambda _, reach=reach: iter([reach]))
        other = with_rakes(metric)
        if other is not None:
            assert mine <= 1.15 * variance(other.bind(metric), rows, shares)
    one = variance(sf.Extended(sf.Geometric()).bind(metric), rows, shares)
    assert mine < 0.5 * one


def test_geometric_noise_alone_serves_a_cell_far_away() -> None:
    assert with_rakes(aside(100, HALF, Fraction(25))) is None
    assert with_rakes(aside(100, HALF, Fraction(1_000))) is None
    unequal = AsideMetric(LineMetric((HALF, Fraction(1))), HALF)
    assert with_rakes(unequal) is None


@pytest.mark.parametrize(
    ("e", "most"), [(1, 0.3), (2, 0.9), (3, 1.9), (4, 2.0), (5, 1.3), (6, 1.1)]
)
def test_an_answer_near_the_values_costs_little_on_a_long_axis(e: int, most: float) -> None:
    """Beside the same axis, always answered, under the cap that "no answer" implies."""
    protect = sf.Distance("1/2", no_answer=2 * e)
    study = sf.Study("near", [sf.integers("x", 0, 999, protect=protect, optional=True)])
    metric = CappedLineMetric(LineMetric.equal(HALF, 1_000), Fraction(2 * e))
    asked = Asked.of(1_000, 1_001, ordered=True)
    rows, shares = asked.rows(metric)
    capped = variance(Geometric().bind(metric), rows[:, :-1], shares)
    assert variance(study.channels[0], rows, shares) < most**2 * capped
