"""Answers from reports on pairs of axes: unbiased, by likelihood, and about many axes at once."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import QuestionError
from sfumato.estimation.pairs.estimate import ASSUMED, PairsEstimate
from sfumato.estimation.pairs.joining import groups_of, joined, nearest_pairs

SIZE, PEOPLE = 8, 40_000
NAMES = ("a", "b", "c", "d")


@cache
def people() -> dict[str, np.ndarray]:
    """Correlated people on four axes."""
    rng = np.random.default_rng(5)
    shared = rng.normal(size=(PEOPLE, 1))
    values = 0.8 * shared + 0.6 * rng.normal(size=(PEOPLE, 4))
    codes = np.clip(((values + 3) / 6 * SIZE).astype(int), 0, SIZE - 1)
    return {name: codes[:, k] for k, name in enumerate(NAMES)}


@cache
def study() -> sf.Study:
    axes = [sf.integers(name, 0, SIZE - 1) for name in NAMES]
    return sf.Study("s", axes, protect=sf.Uniform(2), channel=sf.Pairs())


@cache
def tally(seed: int = 1) -> sf.Tally:
    return study().simulate(people(), seed=seed)


def share(**ranges: tuple[int, int]) -> float:
    """The true share of people within ranges."""
    inside = np.ones(PEOPLE, dtype=bool)
    for name, (low, high) in ranges.items():
        inside &= (people()[name] >= low) & (people()[name] <= high)
    return float(inside.mean())


QUESTIONS = [
    {"a": (2, 4)},
    {"d": (4, 7)},
    {"a": (0, 3), "b": (0, 3)},
    {"b": (3, 5), "d": (1, 4)},
]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["unbiased", "likelihood"])
def test_answers_about_one_and_two_axes_hold(method: str) -> None:
    """Some runs: means within 4.5 of their standard errors (unbiased), intervals cover."""
    runs = 12 if method == "unbiased" else 6
    found = np.array(
        [
            [
                (a.value, a.stderr, a.low, a.high)
                for a in tally(seed).estimate(method).counts(QUESTIONS)
            ]
            for seed in range(runs)
        ]
    )
    true = np.array([share(**q) for q in QUESTIONS]) * PEOPLE
    errors = found[..., 0] - true
    if method == "unbiased":
        z = errors.mean(axis=0) / (found[..., 1].mean(axis=0) / math.sqrt(runs))
        assert np.abs(z).max() < 4.5
        # The stated error is the spread: a χ² of 48 has a relative deviation of 20 %.
        ratio = np.mean(errors**2 / found[..., 1] ** 2)
        assert 0.2 < ratio < 1.8
    # Of 48 intervals at 95 %, fewer than 38 hold once in 100,000 times; of 24, fewer than 17.
    held = (found[..., 2] <= true) & (true <= found[..., 3])
    assert held.sum() >= (38 if method == "unbiased" else 17)


def test_unbiased_answers_refuse_three_axes() -> None:
    with pytest.raises(QuestionError, match="a, b, c has no unbiased answer"):
        tally().estimate("unbiased").count({"a": (0, 3), "b": (0, 3), "c": (0, 3)})


def test_answers_agree_with_each_other() -> None:
    """Pairs share their margins, and parts add up to the whole."""
    estimate = tally().estimate()
    alone = estimate.histogram("a").values
    assert alone.sum() == pytest.approx(PEOPLE)
    for other in "bcd":
        table = estimate.heatmap("a", other).values
        assert table.min() > 0
        assert table.sum(axis=1) == pytest.approx(alone, rel=1e-6)
    low = estimate.count({"a": (0, 3), "b": (0, 3), "c": (0, 3)})
    high = estimate.count({"a": (0, 3), "b": (0, 3), "c": (4, 7)})
    both = estimate.count({"a": (0, 3), "b": (0, 3)})
    assert (low + high).value == pytest.approx(both.value, rel=0.01)


def test_answers_about_three_axes_name_their_assumption() -> None:
    estimate = tally().estimate()
    two = estimate.count({"a": (0, 3), "b": (0, 3)})
    three = estimate.count({"a": (0, 3), "b": (0, 3), "c": (0, 3)})
    four = estimate.count(dict.fromkeys(NAMES, (0, 3)))
    assert ASSUMED not in two.notes
    assert ASSUMED in three.notes
    assert ASSUMED in four.notes
    true = PEOPLE * share(a=(0, 3), b=(0, 3), c=(0, 3))
    assert abs(three.value - true) < 5 * three.stderr
    assert three.stderr < 0.05 * PEOPLE


def test_covariances_are_those_of_one_population() -> None:
    """A count and its complement have opposite errors: their sum is known exactly."""
    estimate = tally().estimate()
    rest = estimate.count({"a": (0, 3)}) + estimate.count({"a": (4, 7)})
    assert rest.value == pytest.approx(PEOPLE)
    assert rest.stderr < 1e-6 * PEOPLE


def test_shares_within_a_group_have_errors() -> None:
    estimate = tally().estimate()
    found = estimate.histogram("a", where={"b": (0, 3)}, fraction=True)
    assert found.values.sum() == pytest.approx(1)
    one = estimate.fraction({"a": (0, 0)}, where={"b": (0, 3)})
    assert one.value == pytest.approx(found.values[0], rel=1e-6)
    assert one.stderr == pytest.approx(found.stderr[0], rel=1e-3)


def test_nobody_gives_no_number() -> None:
    estimate = study().empty_tally().estimate()
    assert isinstance(estimate, PairsEstimate)
    assert math.isnan(estimate.count({"a": (0, 3)}).value)


def test_workloads_over_all_cells_are_refused() -> None:
    with pytest.raises(QuestionError, match="ask with count"):
        tally().estimate().linear(np.ones((1, SIZE**4)))


def test_joined_table_has_its_pairs_and_no_further_interaction() -> None:
    """Of a table that is a product of functions of two axes each, the pairs are enough."""
    rng = np.random.default_rng(2)
    parts = [rng.normal(size=(2, 3, 1)), rng.normal(size=(2, 1, 2)), rng.normal(size=(1, 3, 2))]
    table = np.exp(sum(parts))
    table /= table.sum()
    pairs = {(0, 1): table.sum(axis=2), (0, 2): table.sum(axis=1), (1, 2): table.sum(axis=0)}
    assert joined(pairs, table.shape) == pytest.approx(table, rel=1e-4)


def test_sums_of_pairs_follow_a_joined_table() -> None:
    """A small change of one pair moves the answer as the nearest sum of pairs says."""
    rng = np.random.default_rng(3)
    table = rng.uniform(0.5, 1, size=(2, 2, 2))
    table /= table.sum()
    pairs = {(0, 1): table.sum(axis=2), (0, 2): table.sum(axis=1), (1, 2): table.sum(axis=0)}
    base = joined(pairs, (2, 2, 2))
    function = np.zeros((2, 2, 2))
    function[1, 1, 1] = 1
    sums = nearest_pairs(base, function)
    step = 1e-4 * np.array([[1, -1], [-1, 1]])  # which keeps both margins
    moved = joined({**pairs, (0, 1): pairs[0, 1] + step}, (2, 2, 2))
    expected = float(np.sum(sums[0, 1] * step))
    assert float(moved[1, 1, 1] - base[1, 1, 1]) == pytest.approx(expected, rel=0.02)


def test_groups_keep_the_weights_of_a_question() -> None:
    weights = np.array([0.0, 0.0, 1.0, 1.0, 0.5, 0.0, 0.0, 0.0])
    (groups, *_) = groups_of([weights] * 3, [np.full(8, 1 / 8)] * 3, [True] * 3)
    for group in range(groups.max() + 1):
        assert len(set(weights[groups == group])) == 1
