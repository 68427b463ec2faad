"""Post-processing steps: each is the projection it claims, is recorded, and is idempotent."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

import sfumato as sf
from sfumato.arrays import BitColumns
from sfumato.errors import QuestionError
from sfumato.estimation.answers import Answers
from sfumato.estimation.estimate import Estimate

Floats = NDArray[np.float64]

TRUTH = np.array([[0, 4, 0, 30], [0, 0, 60, 6]])
SLACK = 1e-9

cells = hnp.arrays(np.float64, st.integers(1, 8), elements=st.floats(-100, 100))


def study() -> sf.Study:
    return sf.Study(
        "steps",
        [
            sf.categories("side", ["left", "right"], protect=sf.Uniform(0.5)),
            sf.integers("age", 0, 3, protect=sf.Distance(0.4)),
        ],
    )


@pytest.fixture(scope="module")
def unbiased() -> Estimate:
    return study().simulate_counts(TRUTH, seed=4).estimate("unbiased")


@pytest.fixture(scope="module")
def likelihood() -> Estimate:
    return study().simulate_counts(TRUTH, seed=4).estimate("likelihood")


def answers(values: Floats, variance: Floats | float = 1.0, kind: str = "histogram") -> Answers:
    size = len(values)
    return Answers(
        values=np.asarray(values, dtype=np.float64),
        stderr=np.sqrt(np.broadcast_to(variance, size)),
        n=100,
        kind=kind,
        axes=("age",),
        all_labels=([str(k) for k in range(size)],),
        all_edges=(None,),
    )


# What each step is


def test_nonnegative_clips_and_nothing_else() -> None:
    found = answers(np.array([-3.0, 0.0, 2.5])).nonnegative()
    assert found.values.tolist() == [0.0, 0.0, 2.5]
    assert found.stderr.tolist() == [1.0, 1.0, 1.0]


@given(values=cells, total=st.floats(0, 200))
def test_simplex_is_the_nearest_point(values: Floats, total: float) -> None:
    """p is nearest to v in a convex set iff (v − p)·(y − p) <= 0 at every corner y of the set."""
    p = answers(values).simplex(total).values
    assert p.min() >= 0
    assert p.sum() == pytest.approx(total, abs=1e-6)
    for corner in total * np.eye(len(values)):
        assert (values - p) @ (corner - p) <= 1e-6 * (1 + total)


def test_a_point_beside_the_nearest_one_fails_that_criterion() -> None:
    values, p = np.array([-1.0, 3.0, 5.0]), np.array([0.0, 1.5, 2.5])  # rescaled, not projected
    assert max((values - p) @ (corner - p) for corner in 4 * np.eye(3)) > 0.1


@given(values=cells, data=st.data())
def test_isotonic_is_the_weighted_regression(values: Floats, data: st.DataObject) -> None:
    """By the max-min formula over all blocks, then the bounds."""
    size = len(values)
    variance = data.draw(hnp.arrays(np.float64, size, elements=st.floats(0.1, 10)))
    found = answers(values, variance, "cdf").isotonic().values

    def mean(j: int, k: int) -> float:
        return float(np.average(values[j : k + 1], weights=1 / variance[j : k + 1]))

    expected = [
        max(min(mean(j, k) for k in range(i, size)) for j in range(i + 1)) for i in range(size)
    ]
    assert np.allclose(found, np.clip(expected, 0, 100), rtol=0, atol=1e-9)


def test_weights_matter_to_isotonic_regression() -> None:
    even = answers(np.array([9.0, 3.0]), np.array([1.0, 1.0]), "cdf").isotonic().values
    sure = answers(np.array([9.0, 3.0]), np.array([1.0, 5.0]), "cdf").isotonic().values
    assert even.tolist() == [6.0, 6.0]
    assert sure == pytest.approx([8.0, 8.0])


def test_a_certain_end_stays_and_bounds_the_rest() -> None:
    cdf = answers(np.array([-5.0, 130.0, 120.0, 100.0]), np.array([4.0, 4.0, 4.0, 0.0]), "cdf")
    assert cdf.isotonic().values.tolist() == [0.0, 100.0, 100.0, 100.0]


def test_with_total_shifts_in_proportion_to_variances() -> None:
    found = answers(np.array([1.0, -2.0, 3.0]), np.array([1.0, 2.0, 1.0])).with_total(10)
    assert found.values == pytest.approx([3, 2, 5])  # missing 8, a quarter, a half, a quarter


@given(values=cells, total=st.floats(0, 200))
def test_with_total_is_the_nearest_answer_with_that_sum(values: Floats, total: float) -> None:
    """Among all with the sum: (p − v)/variance is the same for every cell."""
    variance = 1.0 + np.arange(len(values))
    found = answers(values, variance).with_total(total).values
    assert found.sum() == pytest.approx(total, abs=1e-6)
    assert np.ptp((found - values) / variance) <= 1e-7


def test_with_total_keeps_unbiasedness_exactly_where_variances_are_constant() -> None:
    """All 16 reports of two people: the thermometer's variance does not depend on them."""
    axis = sf.integers("age", 0, 2, protect=sf.Distance(1), channel=sf.Thermometer())
    one = sf.Study("s", [axis])
    channel = one.channels[0]
    law = channel.likelihood()
    people = (0, 0)
    mean, biased = np.zeros(2), np.zeros(2)
    for patterns in itertools.product(range(4), repeat=2):
        bits = np.array([[bool(p >> k & 1) for k in range(2)] for p in patterns])
        outputs = BitColumns.from_matrix(bits)
        reports = sf.Reports(one.fingerprint, ("age",), one.layouts, (outputs,))
        chance = law[people[0], patterns[0]] * law[people[1], patterns[1]]
        part = one.tally(reports).estimate("unbiased").histogram("age", where={"age": (0, 1)})
        mean += chance * part.with_total(2).values
        biased += chance * part.simplex(2).values
    assert mean == pytest.approx([2.0, 0.0], abs=1e-9)
    assert biased[1] > 0.1  # the projection is biased, and this way shows it


# Records, intervals and errors


def test_every_step_is_on_record_in_order(unbiased: Estimate) -> None:
    histogram = unbiased.histogram("age")
    assert histogram.steps == ()
    assert "steps" not in histogram.to_dict()
    found = histogram.with_total(100).nonnegative().simplex()
    assert found.steps == ("with_total", "nonnegative", "simplex")
    assert found.to_dict()["steps"] == list(found.steps)
    assert [note.split(":")[0] for note in found.notes[-3:]] == list(found.steps)
    assert "unbiased if that is the true sum" in found.notes[-3]
    assert all("biases" in note and "those before" in note for note in found.notes[-2:])
    assert np.array_equal(found.stderr, histogram.stderr)


def test_projections_are_never_farther_from_the_truth(seed: int) -> None:
    truth = TRUTH.sum(axis=0)
    moved = 0
    for k in range(20):
        est = study().simulate_counts(TRUTH, seed=seed + k).estimate("unbiased")
        histogram, cdf = est.histogram("age"), est.cdf("age", fraction=False)
        before = histogram.values - truth
        assert np.all(np.abs(histogram.nonnegative().values - truth) <= np.abs(before) + SLACK)
        after = histogram.simplex().values - truth
        assert np.sum(after**2) <= np.sum(before**2) + SLACK
        weights = 1 / np.maximum(cdf.stderr[:-1], 1e-9) ** 2
        near, far = (
            np.sum(weights * (part.values - np.cumsum(truth))[:-1] ** 2)
            for part in (cdf.isotonic(), cdf)
        )
        assert near <= far + SLACK
        moved += bool(np.sum(after**2) < 0.9 * np.sum(before**2))
    assert moved >= 5  # the test has something to show


@pytest.mark.parametrize("step", ["nonnegative", "simplex"])
def test_intervals_hold_what_they_held_within_the_bounds(unbiased: Estimate, step: str) -> None:
    before = unbiased.heatmap("side", "age")
    after = getattr(before, step)()
    truth = TRUTH.astype(np.float64)
    held = (before.low <= truth) & (truth <= before.high)
    assert held.any()
    assert np.all((after.low <= truth)[held] & (truth <= after.high)[held])
    assert np.all((after.low <= after.values) & (after.values <= after.high))
    assert after.low.min() >= 0
    assert after.values.shape == before.values.shape


def test_a_band_comes_first(unbiased: Estimate) -> None:
    wide = unbiased.histogram("age").band()
    assert np.all(wide.nonnegative().high == np.maximum(wide.high, 0))
    moved = wide.with_total(120)
    assert np.allclose(moved.uncut[1] - moved.values, wide.uncut[1] - wide.values)
    with pytest.raises(QuestionError, match=r"answers\.band\(\)\.simplex"):
        unbiased.histogram("age").simplex().band()


# Totals


def test_the_total_is_the_number_of_reports_unless_a_condition_was_asked(
    unbiased: Estimate,
) -> None:
    assert unbiased.histogram("age").simplex().values.sum() == pytest.approx(100)
    assert unbiased.heatmap("side", "age").simplex().values.sum() == pytest.approx(100)
    shares = unbiased.histogram("age", where="side=left", fraction=True)
    assert shares.simplex().values.sum() == pytest.approx(1)
    left = unbiased.histogram("age", where="side=left")
    assert left.simplex(34).values.sum() == pytest.approx(34)
    with pytest.raises(QuestionError, match=r"how many people satisfy 'side=left'.*give total="):
        left.simplex()


@pytest.mark.parametrize("total", [-1, float("nan"), float("inf"), "40", True, None])
def test_impossible_totals_are_refused(unbiased: Estimate, total: object) -> None:
    histogram = unbiased.histogram("age")
    with pytest.raises(QuestionError, match="total must be a finite number"):
        histogram.with_total(total)  # type: ignore[arg-type]
    if total is not None:
        with pytest.raises(QuestionError, match="total must be a finite number"):
            histogram.simplex(total)  # type: ignore[arg-type]


def test_certain_answers_are_not_shifted() -> None:
    sure = answers(np.array([40.0, 60.0]), 0.0)
    assert sure.with_total(100).values.tolist() == [40.0, 60.0]
    with pytest.raises(QuestionError, match="certain and do not sum to total=90"):
        sure.with_total(90)


def test_steps_are_refused_where_they_make_no_sense(unbiased: Estimate) -> None:
    histogram, cdf = unbiased.histogram("age"), unbiased.cdf("age")
    quantiles, linear = unbiased.quantile("age", [0.1, 0.5]), unbiased.linear(np.eye(8)[:2])
    for found in (quantiles, linear):
        for step in (found.nonnegative, found.simplex, lambda f=found: f.with_total(1)):
            with pytest.raises(QuestionError, match=f"this is a {found.kind}"):
                step()
    with pytest.raises(QuestionError, match=r"isotonic.*this is a histogram.*est\.cdf"):
        histogram.isotonic()
    with pytest.raises(QuestionError, match=r"with_total.*this is a cdf"):
        cdf.with_total(1)
    with pytest.raises(QuestionError, match=r"simplex.*this is a cdf.*histogram"):
        cdf.simplex()


# Nothing to do


def test_likelihood_answers_are_left_as_they_are(likelihood: Estimate) -> None:
    histogram, heatmap = likelihood.histogram("age"), likelihood.heatmap("side", "age")
    for found in (histogram, heatmap, likelihood.histogram("age", fraction=True)):
        assert np.array_equal(found.nonnegative().values, found.values)
        assert np.array_equal(found.simplex().values, found.values)
    assert np.array_equal(histogram.with_total(100).values, histogram.values)
    for fraction in (True, False):
        cdf = likelihood.cdf("age", fraction=fraction)
        assert np.allclose(cdf.isotonic().values, cdf.values, rtol=1e-12, atol=1e-12)


def test_unbiased_answers_are_not(unbiased: Estimate) -> None:
    heatmap = unbiased.heatmap("side", "age")
    assert heatmap.values.min() < -1
    assert np.abs(heatmap.simplex().values - heatmap.values).max() > 1


@given(values=cells)
def test_a_step_done_twice_is_done_once(values: Floats) -> None:
    found = answers(values)
    for step in ("nonnegative", "simplex"):
        once = getattr(found, step)()
        assert np.allclose(getattr(once, step)().values, once.values, rtol=0, atol=1e-9)
    cdf = replace(found, kind="cdf").isotonic()
    assert np.allclose(cdf.isotonic().values, cdf.values, rtol=0, atol=1e-9)


def test_without_reports_steps_change_nothing() -> None:
    est = study().empty_tally().estimate("unbiased")
    histogram, cdf = est.histogram("age"), est.cdf("age")
    found = (histogram.nonnegative(), histogram.simplex(), histogram.with_total(0), cdf.isotonic())
    assert all(np.isnan(part.values).all() for part in found)
