"""The area under the ROC curve: against brute force, and its error and interval."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from helpers_statistics import LIMIT, share_score
from numpy.typing import NDArray

import sfumato as sf
from sfumato.errors import QuestionError

CELLS = 8
RUNS = 400


def study(epsilon: float, label: float, optional: bool = False) -> sf.Study:
    """At a very large ε reports are the truth."""
    return sf.Study(
        "s",
        [
            sf.integers("score", 0, CELLS - 1, protect=sf.Distance(epsilon, no_answer=epsilon)
                        if optional else sf.Distance(epsilon), optional=optional),
            sf.categories("bought", ["yes", "no"], protect=sf.Uniform(label), optional=optional),
            sf.categories("region", ["north", "south"], protect=sf.Uniform(label)),
        ],
    )  # fmt: skip


def brute_force(positive: NDArray[np.int64], negative: NDArray[np.int64]) -> float:
    """Over all pairs of a positive and a negative person."""
    wins = total = 0.0
    for i, p in enumerate(positive):
        for j, q in enumerate(negative):
            total += p * q
            wins += p * q * (1.0 if i > j else 0.5 if i == j else 0.0)
    return wins / total


def humps(people: int) -> NDArray[np.int64]:
    """Counts by score, label and region; the positive ones score higher."""
    cells = np.arange(CELLS)
    yes = np.exp(-((cells - 5.0) ** 2) / 6)
    no = np.exp(-((cells - 3.0) ** 2) / 8)
    share = np.stack([yes / yes.sum() * 0.3, no / no.sum() * 0.7], axis=1)
    return np.rint(people * share[:, :, None] * np.array([0.4, 0.6])).astype(np.int64)


def test_without_noise_it_is_brute_force(seed: int) -> None:
    counts = np.random.default_rng(seed).integers(0, 30, size=(CELLS, 2, 2))
    est = study(200.0, 200.0).simulate_counts(counts, seed=1).estimate("unbiased")
    both = counts.sum(axis=2)
    for positive, other, sign in (("yes", "no", 1), ("no", "yes", -1)):
        answer = est.auc("score", "bought", positive=positive)
        expected = brute_force(*both.T[::sign])
        assert answer.value == pytest.approx(expected, abs=1e-9)
        assert answer.stderr == pytest.approx(0, abs=1e-6)
        assert answer.question == f"AUC of score for bought={positive}"
        assert other not in answer.question
    north = counts[:, :, 0]
    answer = est.auc("score", "bought", positive={"yes"}, where="region=north")
    assert answer.value == pytest.approx(brute_force(*north.T), abs=1e-9)
    cut = est.auc("score", "bought", positive="yes", where={"score": (2, 5)})
    assert cut.value == pytest.approx(brute_force(*both[2:6].T), abs=1e-9)


def test_no_answer_is_in_neither_group(seed: int) -> None:
    counts = np.random.default_rng(seed).integers(0, 30, size=(CELLS + 1, 3, 2))
    est = study(200.0, 200.0, optional=True).simulate_counts(counts, seed=1).estimate("unbiased")
    answer = est.auc("score", "bought", positive="yes")
    truth = brute_force(*counts[:CELLS, :2].sum(axis=2).T)
    assert answer.value == pytest.approx(truth, abs=1e-6)


def test_the_error_is_that_of_the_derivative(seed: int) -> None:
    """One linear question over all cells: the gradient by finite differences."""
    tally = study(1.0, 2.0).simulate_counts(humps(4_000), seed=seed)
    est = tally.estimate("unbiased")
    answer = est.auc("score", "bought", positive="yes")
    cells = est.heatmap("score", "bought").values

    def area(held: Any) -> float:
        p, q = held.T
        return float(p @ (np.cumsum(q) - q / 2) / (p.sum() * q.sum()))

    assert answer.value == pytest.approx(area(cells), rel=1e-9)
    gradient = np.zeros((CELLS, 2))
    for place in np.ndindex(CELLS, 2):
        step = np.zeros((CELLS, 2))
        step[place] = 1.0
        gradient[place] = (area(cells + step) - area(cells - step)) / 2
    grid = np.repeat(gradient[:, :, None], 2, axis=2)
    linear = est.linear(grid.reshape(1, -1))
    assert answer.stderr == pytest.approx(float(linear.stderr[0]), rel=1e-4)
    wrong = est.linear(np.repeat((gradient * [1, 0])[:, :, None], 2, axis=2).reshape(1, -1))
    assert wrong.stderr[0] < 0.9 * answer.stderr  # one group alone would not be enough


@pytest.mark.slow
def test_its_spread_and_its_intervals_are_as_stated() -> None:
    """The share of 95 % intervals that hold, and the variance of the standardised errors."""
    counts = humps(3_000)
    truth = brute_force(*counts.sum(axis=2).T)
    one = study(1.0, 2.0)
    found = [
        one.simulate_counts(counts, seed=seed).estimate("unbiased").auc(
            "score", "bought", positive="yes"
        )
        for seed in range(RUNS)
    ]  # fmt: skip
    z = np.array([(answer.value - truth) / answer.stderr for answer in found])
    assert abs(z.mean()) < LIMIT / math.sqrt(RUNS)
    assert abs(z.var() - 1) < LIMIT * math.sqrt(2 / RUNS)
    assert abs((z / 0.7).var() - 1) > LIMIT * math.sqrt(2 / RUNS)  # errors 30 % too small
    held = sum(answer.low <= truth <= answer.high for answer in found)
    assert abs(share_score(held, RUNS, 0.95)) < LIMIT
    small = sum(abs(value) <= 0.8 * 1.96 for value in z)
    assert share_score(small, RUNS, 0.95) < -LIMIT


@pytest.mark.slow
def test_intervals_hold_for_a_rare_group_and_by_likelihood() -> None:
    """A divisor with a relative error of a third, where the delta method alone is not enough."""
    counts = humps(3_000)
    counts[:, 0] //= 4
    truth = brute_force(*counts.sum(axis=2).T)
    one, runs = study(1.0, 0.5), 120
    rare = [
        one.simulate_counts(counts, seed=seed).estimate("unbiased").auc(
            "score", "bought", positive="yes"
        )
        for seed in range(runs)
    ]  # fmt: skip
    held = sum(math.isnan(a.value) or a.low <= truth <= a.high for a in rare)
    assert share_score(held, runs, 0.95) > -LIMIT
    counts = humps(3_000)
    truth = brute_force(*counts.sum(axis=2).T)
    likely = [
        study(1.0, 2.0).simulate_counts(counts, seed=seed).estimate("likelihood").auc(
            "score", "bought", positive="yes"
        )
        for seed in range(30)
    ]  # fmt: skip
    held = sum(a.low <= truth <= a.high for a in likely)
    assert share_score(held, len(likely), 0.95) > -LIMIT


def test_a_population_adds_error_and_weights_count() -> None:
    one = study(1.0, 2.0)
    tally = one.simulate_counts(humps(2_000), seed=3)
    for method in ("unbiased", "likelihood"):
        est = tally.estimate(method)
        plain = est.auc("score", "bought", positive="yes")
        assert est.auc("score", "bought", positive="yes", population=True).stderr > plain.stderr
        assert 0 <= plain.low <= plain.value <= plain.high <= 1
        assert plain.method == method
    table = {"score": [1, 6, 3, 4] * 200, "bought": ["no", "yes", "yes", "no"] * 200,
             "region": ["north"] * 800}  # fmt: skip
    sure = study(200.0, 200.0)
    weighted = sure.tally(sure.encode(table), weights=[1.0, 3.0, 1.0, 2.0] * 200).estimate()
    # Pairs (yes, no) by score: 6 beats both, 3 beats 1 alone: (3·3 + 1·1)/(4·3).
    assert weighted.auc("score", "bought", positive="yes").value == pytest.approx(10 / 12)


def test_nobody_and_an_empty_group_have_no_area() -> None:
    one = study(1.0, 2.0)
    none = one.empty_tally().estimate("unbiased").auc("score", "bought", positive="yes")
    assert math.isnan(none.value)
    assert none.notes == ("no reports",)
    counts = np.zeros((CELLS, 2, 2), dtype=int)
    counts[3, 1] = 500
    found = [
        study(1.0, 8.0).simulate_counts(counts, seed=seed).estimate("unbiased").auc(
            "score", "bought", positive="yes"
        )
        for seed in range(4)
    ]  # fmt: skip
    assert all(math.isnan(a.value) or "not clearly above zero" in a.notes[0] for a in found)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"score": "region", "label": "bought", "positive": "yes"}, "'region' has no order"),
        ({"score": "score", "label": "score", "positive": 3}, "two different axes"),
        ({"score": "score", "label": "bought", "positive": {"yes", "no"}}, "on both sides"),
        ({"score": "score", "label": "bought", "positive": "maybe"}, "maybe"),
        ({"score": "points", "label": "bought", "positive": "yes"}, "no axis 'points'"),
    ],
)
def test_bad_questions_are_refused(words: dict[str, Any], message: str) -> None:
    est = study(1.0, 2.0).empty_tally().estimate("unbiased")
    with pytest.raises(QuestionError, match=message):
        est.auc(**words)
