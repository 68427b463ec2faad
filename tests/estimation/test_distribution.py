"""The distribution over all cells, and its distance from the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers_planning import CONTEXTS, K, context_study

import sfumato as sf
from sfumato.errors import QuestionError


@pytest.mark.parametrize("kind", CONTEXTS)
def test_a_distribution_equals_the_histogram(kind: str) -> None:
    tally = context_study(kind).simulate_counts(np.arange(K) * 10, seed=1)
    for method in ("unbiased", "likelihood"):
        est = tally.estimate(method)
        whole, cells = sf.distribution(est), est.histogram("x", fraction=True)
        np.testing.assert_allclose(whole.values, cells.values, atol=1e-12)
        assert whole.labels == cells.labels
        if method == "unbiased":
            # A histogram's errors are no smaller than one person's in the worst place.
            low = np.sqrt(1.1 * 8) / tally.n
            np.testing.assert_allclose(whole.stderr, cells.stderr, rtol=1e-9, atol=low)
            assert whole.simplex().values.min() >= 0
            drawn = sf.distribution(est, population=True).stderr
            wanted = est.histogram("x", fraction=True, population=True).stderr
            np.testing.assert_allclose(drawn, wanted, rtol=1e-9, atol=low)
            assert np.any(drawn > 1.001 * whole.stderr)


def test_a_distribution_over_several_axes_is_the_heat_map() -> None:
    axes = [
        sf.integers("a", 0, 4, protect=sf.Distance(1), channel=sf.Geometric()),
        sf.integers("b", 0, 3, protect=sf.Distance(1), channel=sf.Thermometer()),
    ]
    study = sf.Study("s", axes)
    est = study.simulate({"a": [0, 1, 2, 4] * 500, "b": [3, 2, 0, 1] * 500}, seed=2).estimate(
        "unbiased"
    )
    whole, cells = sf.distribution(est), est.heatmap("a", "b", fraction=True)
    np.testing.assert_allclose(whole.values, cells.values, atol=1e-12)
    np.testing.assert_allclose(whole.stderr, cells.stderr, rtol=1e-6)
    truth = np.zeros((5, 4))
    truth[[0, 1, 2, 4], [3, 2, 0, 1]] = 1
    assert sf.tv_error(est, truth) == pytest.approx(sf.tv_error(cells, truth))


def test_distances_from_the_truth_are_what_they_say() -> None:
    truth, found = np.array([3, 1, 0]), np.array([0.5, 0.625, -0.125])
    assert sf.tv_error(found, truth) == 0.375
    assert sf.tv_error(found * 800, truth) == 0.375
    assert sf.l2_error(found, truth) == pytest.approx(math.sqrt(0.0625 + 0.140625 + 0.015625))
    with pytest.raises(QuestionError, match=r"shape \(3,\), got shape \(2,\)"):
        sf.tv_error(found, [1, 1])
    for bad in ([1, -1, 3], [0, 0, 0], [math.nan, 1, 1]):
        with pytest.raises(QuestionError, match="truth must hold"):
            sf.tv_error(found, bad)
    with pytest.raises(QuestionError, match="found must hold"):
        sf.tv_error([0, 0, 0], truth)
    with pytest.raises(QuestionError, match="truth must be numbers, one per cell, got "):
        sf.tv_error(found, 3)
    with pytest.raises(QuestionError, match="found must be numbers, one per cell, got "):
        sf.l2_error("abc", truth)


def test_distances_refuse_answers_that_are_no_distribution() -> None:
    study = context_study("uniform")
    est = study.simulate_counts(np.full(K, 10), seed=1).estimate("unbiased")
    assert sf.tv_error(est.histogram("x"), np.ones(K)) == pytest.approx(
        sf.tv_error(est, np.ones(K))
    )
    with pytest.raises(QuestionError, match="this is a cdf"):
        sf.tv_error(est.cdf("x"), np.ones(K))
    with pytest.raises(QuestionError, match="where"):
        sf.tv_error(est.histogram("x", where={"x": (0, 4)}), np.ones(5))
    with pytest.raises(QuestionError, match="no reports"):
        sf.distribution(study.empty_tally().estimate("unbiased"))
    weighted = study.tally(study.encode({"x": [1, 2, 3]}), weights=[1.0, 2.0, 0.5])
    with pytest.raises(QuestionError, match="does not take weights"):
        sf.distribution(weighted.estimate("unbiased"))
