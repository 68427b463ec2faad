"""A naive Bayes classifier from answers: against brute force, and the error of its log-odds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from helpers_statistics import LIMIT, share_score
from numpy.typing import NDArray

import sfumato as sf
from sfumato.errors import DataError, QuestionError
from sfumato.estimation.classify import TOO_FEW

AGES, REGIONS, CLASSES = 6, ["north", "south", "east"], ["yes", "no"]
SURE = 200.0  # reports are the truth
RUNS = 200


def study(epsilon: float, others: float, optional: bool = False) -> sf.Study:
    return sf.Study(
        "s",
        [
            sf.integers("age", 0, AGES - 1, protect=sf.Distance(epsilon)),
            sf.categories("region", REGIONS, protect=sf.Uniform(others), optional=optional),
            sf.categories("bought", CLASSES, protect=sf.Uniform(others), optional=optional),
        ],
    )


def people(count: int) -> NDArray[np.int64]:
    """Counts by age, region and class, which both axes speak about."""
    age = np.array([[1.0, 2, 3, 4, 3, 2], [4, 3, 3, 2, 1, 1]])
    region = np.array([[3.0, 1, 1], [1, 2, 2]])
    share = [
        weight * np.outer(a / a.sum(), r / r.sum())
        for weight, a, r in zip((0.4, 0.6), age, region, strict=True)
    ]
    return np.rint(count * np.stack(share, axis=2)).astype(np.int64)


def by_hand(counts: NDArray[Any], age: int, region: int) -> float:
    """The log-odds of the first class against the second."""
    sizes = counts.sum(axis=(0, 1))
    ages, regions = counts.sum(axis=1), counts.sum(axis=0)
    scores = np.log(sizes / sizes.sum())
    scores += np.log(ages[age] / sizes) + np.log(regions[region] / sizes)
    return float(scores[0] - scores[1])


def signed(found: Any) -> float:
    """The log-odds of the first class."""
    return float(found.log_odds.value) * (1 if found.label == CLASSES[0] else -1)


def test_without_noise_it_is_naive_bayes_by_hand() -> None:
    counts = people(5_000)
    est = study(SURE, SURE).simulate_counts(counts, seed=1).estimate("unbiased")
    model = sf.NaiveBayes(est, "bought")
    table = {"age": [0, 5, 3, 0], "region": ["south", "north", "east", "south"]}
    found = model.predict(table)
    assert found[0] == found[3]
    for prediction, age, region in zip(found, table["age"], (1, 0, 2, 1), strict=True):
        odds = by_hand(counts, age, region)
        assert signed(prediction) == pytest.approx(odds, abs=1e-6)
        assert prediction.probabilities["yes"] == pytest.approx(1 / (1 + math.exp(-odds)))
        assert sum(prediction.probabilities.values()) == pytest.approx(1)
        assert prediction.log_odds.stderr < 1e-6
        assert prediction.certain
    assert model.priors().values == pytest.approx(counts.sum(axis=(0, 1)) / counts.sum())
    within = counts[:, :, 0].sum(axis=1)
    assert model.shares("age", "yes").values == pytest.approx(within / within.sum())
    assert (
        repr(model) == f"<naive Bayes classifier of bought by age, region, from {est.n:,} reports>"
    )


def test_the_error_is_that_of_the_derivative(seed: int) -> None:
    """The gradient by finite differences in the counts of all cells, as one linear question."""
    est = study(1.0, 2.0).simulate_counts(people(20_000), seed=seed).estimate("unbiased")
    (found,) = sf.NaiveBayes(est, "bought").predict([{"age": 4, "region": "north"}])
    counts = est.linear(np.eye(AGES * 3 * 2)).values.reshape(AGES, 3, 2)
    assert signed(found) == pytest.approx(by_hand(counts, 4, 0), rel=1e-9)
    gradient = np.zeros(counts.shape)
    for place in np.ndindex(*counts.shape):
        step = np.zeros(counts.shape)
        step[place] = 0.5
        gradient[place] = by_hand(counts + step, 4, 0) - by_hand(counts - step, 4, 0)
    linear = est.linear(gradient.reshape(1, -1))
    assert found.log_odds.stderr == pytest.approx(float(linear.stderr[0]), rel=1e-4)
    # As if the shares of both classes were independent, it would not be the same.
    alone = [
        est.linear((gradient * [1, 0]).reshape(1, -1)),
        est.linear((gradient * [0, 1]).reshape(1, -1)),
    ]
    apart = math.hypot(*(float(part.stderr[0]) for part in alone))
    assert abs(apart - found.log_odds.stderr) > 0.02 * found.log_odds.stderr


@pytest.mark.slow
def test_the_intervals_of_log_odds_hold() -> None:
    counts = people(8_000)
    truth = by_hand(counts, 4, 0)
    held = z = 0.0
    squares, narrow = 0.0, 0
    for seed in range(RUNS):
        est = study(1.0, 2.0).simulate_counts(counts, seed=seed).estimate("unbiased")
        (found,) = sf.NaiveBayes(est, "bought").predict([{"age": 4, "region": "north"}])
        assert found.label == "yes"  # ten standard errors away
        held += found.log_odds.low <= truth <= found.log_odds.high
        off = (found.log_odds.value - truth) / found.log_odds.stderr
        z += off
        squares += off**2
        narrow += abs(off) <= 0.7 * 1.96
    assert abs(share_score(int(held), RUNS, 0.95)) < LIMIT
    assert share_score(narrow, RUNS, 0.95) < -LIMIT
    assert abs(z / RUNS) < LIMIT / math.sqrt(RUNS)
    assert abs(squares / RUNS - 1) < LIMIT * math.sqrt(2 / RUNS)


@pytest.mark.slow
def test_likelihood_predictions_hold_too() -> None:
    counts = people(8_000)
    truth = by_hand(counts, 4, 0)
    runs = 25
    found = []
    for seed in range(runs):
        est = study(1.0, 2.0).simulate_counts(counts, seed=seed).estimate("likelihood")
        found += sf.NaiveBayes(est, "bought").predict([{"age": 4, "region": "north"}])
    held = sum(p.log_odds.low <= truth <= p.log_odds.high for p in found)
    assert share_score(held, runs, 0.95) > -LIMIT
    assert {p.log_odds.method for p in found} == {"likelihood"}


def test_a_share_of_nothing_leaves_the_interval_open() -> None:
    counts = people(8_000)
    counts[5, :, 1] = 0  # nobody of this age did not buy
    est = study(1.0, 2.0).simulate_counts(counts, seed=2).estimate("unbiased")
    model = sf.NaiveBayes(est, "bought")
    (found,) = model.predict({"age": 5, "region": "north"})
    assert found.label == "yes"
    assert found.log_odds.notes == (TOO_FEW,)
    assert found.log_odds.high == math.inf
    assert found.certain
    # With few people nothing is certain, and the text says so.
    few = study(0.1, 0.1).simulate_counts(people(60), seed=3).estimate("unbiased")
    (unsure,) = sf.NaiveBayes(few, "bought").predict({"age": 3, "region": "east"})
    assert not unsure.certain
    assert str(unsure).endswith(", within the noise)")


def test_groups_no_answers_several_classes_and_rounded_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    axes = [
        sf.integers("age", 0, 99, protect=sf.Distance(SURE)),
        sf.categories("region", REGIONS, protect=sf.Uniform(SURE), optional=True),
        sf.reals("income", 0, 8, bins=4, rounding="stochastic", protect=sf.Uniform(SURE)),
        sf.categories("class", ["a", "b", "c"], protect=sf.Uniform(SURE), optional=True),
    ]
    table = {
        "age": rng.integers(0, 100, 2_000).tolist(),
        "region": rng.choice(np.array([*REGIONS, None], dtype=object), 2_000).tolist(),
        "income": rng.choice([0.0, 2.0, 4.0, 6.0, 8.0], 2_000).tolist(),
        "class": rng.choice(np.array(["a", "b", "c", None], dtype=object), 2_000).tolist(),
    }
    est = sf.Study("s", axes).simulate(table, seed=1).estimate("unbiased")
    model = sf.NaiveBayes(est, "class", bins=5)
    assert model.axes == ("age", "region", "income")
    assert model.priors().labels == ["a", "b", "c"]
    assert len(model.shares("age", "b").values) == 5
    (found,) = model.predict({"age": 37, "region": None, "income": 3.1})
    scores = {}
    labels = np.array(table["class"], dtype=object)
    for name in ("a", "b", "c"):
        size = np.sum(labels == name)
        age = np.sum((labels == name) & (np.array(table["age"]) // 20 == 1))
        none = np.sum((labels == name) & np.array([r is None for r in table["region"]]))
        income = np.sum((labels == name) & (np.array(table["income"]) == 4.0))
        scores[name] = math.log(age * none * income / size**2)
    best, second, _ = sorted(scores, key=lambda name: -scores[name])
    assert found.label == best
    assert found.log_odds.value == pytest.approx(scores[best] - scores[second], abs=1e-6)
    assert found.log_odds.question == f"log-odds of {best} against {second}"
    alone = sf.NaiveBayes(est, "class", ["region"])
    assert len(alone.predict([{"region": "north"}, {"region": None}])) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"label": "age", "axes": ["age"]}, "the label not among them"),
        ({"label": "bought", "axes": []}, "one or more different axes"),
        ({"label": "bought", "axes": "age"}, "one or more different axes"),
        ({"label": "bought", "axes": ["age", "age"]}, "one or more different axes"),
        ({"label": "bought", "axes": ["height"]}, "no axis 'height'"),
        ({"label": "sold"}, "no axis 'sold'"),
        ({"label": "bought", "bins": 0}, "bins"),
    ],
)
def test_bad_classifiers_are_refused(words: dict[str, Any], message: str) -> None:
    est = study(1.0, 1.0).simulate_counts(people(100), seed=1).estimate("unbiased")
    with pytest.raises(QuestionError, match=message):
        sf.NaiveBayes(est, **words)


def test_bad_records_and_estimates_are_refused() -> None:
    tally = study(1.0, 1.0).simulate_counts(people(100), seed=1)
    with pytest.raises(QuestionError, match=r"must come from tally.estimate\(\), got Tally"):
        sf.NaiveBayes(tally, "bought")  # type: ignore[arg-type]
    model = sf.NaiveBayes(tally.estimate("unbiased"), "bought")
    with pytest.raises(DataError, match="'region'"):
        model.predict([{"age": 3}])
    with pytest.raises(DataError, match=r"row 1"):
        model.predict([{"age": 77, "region": "north"}])
    with pytest.raises(QuestionError, match="does not use axis 'bought'"):
        model.shares("bought", "yes")
    with pytest.raises(QuestionError, match="level"):
        model.predict([{"age": 3, "region": "north"}], level=2)
    wide = sf.Study("w", [sf.integers("a", 0, 99, protect=sf.Distance(1)),
                          sf.integers("b", 0, 9, protect=sf.Distance(1))])  # fmt: skip
    with pytest.raises(QuestionError, match="100 cells, and a label has at most 64"):
        sf.NaiveBayes(wide.empty_tally().estimate("unbiased"), "a")
    empty = wide.empty_tally().estimate("unbiased")
    with pytest.raises(QuestionError, match="no reports"):
        sf.NaiveBayes(empty, "b")
