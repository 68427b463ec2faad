"""Confidence intervals contain the truth at their stated level.

2,000 collections from the same people: the share of 95 % intervals that hold the truth has a
standard error of √(0.95·0.05/2,000) = 0.49 %, so the band from 93 % to 97 % is 4.1 standard errors
to each side. The twin scales every standard error by 0.85: such intervals hold the truth with
chance 2·Φ(0.85·1.96) − 1 = 90.4 %, 3.9 standard errors below the band's lower end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers_statistics import (
    PEOPLE,
    RUNS,
    ask_all,
    collections,
    exact_count,
    histogram,
    share_covered,
    share_score,
)

import sfumato as sf
from sfumato.questions.language import weights

LOW, HIGH, TOO_SMALL = 0.93, 0.97, 0.85
SIZES = (12, 9, 7)
NAMES = ("a", "b", "c")

# Intervals by axis; left out is full.
QUESTIONS: dict[int, dict[str, dict[str, Any]]] = {
    1: {"interior": {"a": (3, 7)}, "edge": {"a": (0, 5)}},
    2: {
        "interior": {"a": (3, 7), "b": (2, 5)},
        "edge": {"a": (0, 5), "b": (2, 5)},
        "full on one": {"a": (None, None), "b": (2, 5)},
    },
    3: {
        "interior": {"a": (3, 7), "b": (2, 5), "c": (1, 4)},
        "edge": {"a": (0, 5), "b": (2, 5), "c": (3, 6)},
        "full on one": {"a": (3, 7), "b": (None, None), "c": (1, 4)},
    },
}


LINES = [sf.Geometric(), sf.Thermometer()]
ORACLES = [sf.OUE(), sf.OLH(), sf.HRR()]


def _study(choice: Any, dimensions: int, epsilon: float = 1.0) -> sf.Study:
    """ε by channel: larger under a uniform metric, where it covers the whole axis."""
    protect = sf.Uniform(3 * epsilon) if choice in ORACLES else sf.Distance(epsilon)
    axes = [
        sf.integers(name, 0, size - 1, protect=protect, channel=choice)
        for name, size in zip(NAMES[:dimensions], SIZES, strict=False)
    ]
    return sf.Study("coverage", axes)


def _people(study: sf.Study, rng: np.random.Generator) -> dict[str, Any]:
    """People with one hump per axis, correlated with the previous axis."""
    people: dict[str, Any] = {}
    lean = rng.random(PEOPLE)
    for axis in study.axes:
        lean = 0.4 * lean + 0.6 * rng.beta(2, 3, PEOPLE)
        people[axis.name] = np.minimum((lean * axis.size).astype(np.int64), axis.size - 1)
    return people


CHOICES = [*((c, d) for c in LINES for d in (1, 2, 3)), *((c, d) for c in ORACLES for d in (1, 2))]


@pytest.mark.slow
@pytest.mark.parametrize(("choice", "dimensions"), CHOICES, ids=lambda c: getattr(c, "id", c))
def test_intervals_hold_the_truth_as_often_as_they_say(choice: Any, dimensions: int) -> None:
    study = _study(choice, dimensions)
    people = _people(study, np.random.default_rng(dimensions))
    counts = histogram(study, study._codes(people))
    questions = list(QUESTIONS[dimensions].values())
    values, stderr = ask_all(
        study, collections(study, people, runs=RUNS, seed=95), [*questions, {}]
    )
    for name, question, v, e in zip(
        QUESTIONS[dimensions], questions, values.T, stderr.T, strict=False
    ):
        truth = exact_count(weights(study.axes, question).weights, counts)
        assert LOW < share_covered(v, e, truth) < HIGH, name
        assert share_covered(v, e, truth, scale=TOO_SMALL) < LOW, name
    # Full on all axes: everyone, and no error at all.
    assert np.all(values[:, -1] == PEOPLE)
    assert np.all(stderr[:, -1] == 0)


@pytest.mark.slow
@pytest.mark.parametrize("choice", LINES, ids=lambda c: c.id)
def test_intervals_of_a_population_hold_its_share(choice: Any) -> None:
    """People drawn afresh each time: population=True covers their share, without it too few do.

    At ε = 3 the people's own variance is more than the perturbation's, so the twin has power.
    """
    study = _study(choice, 2, epsilon=3.0)
    rng = np.random.default_rng(96)
    share = np.outer(rng.dirichlet(np.full(SIZES[0], 3.0)), rng.dirichlet(np.full(SIZES[1], 3.0)))
    question = {"a": (3, None), "b": (2, 6)}
    asked = weights(study.axes, question)
    truth = exact_count(asked.weights, share) * PEOPLE
    values, widened, plain = [], [], []
    for run in range(RUNS):
        counts = rng.multinomial(PEOPLE, share.ravel())
        estimate = study.simulate_counts(counts, seed=run).estimate("unbiased")
        values.append(estimate.value_of(asked))
        widened.append(estimate.covariance_of(asked, asked, population=True) ** 0.5)
        plain.append(estimate.covariance_of(asked, asked) ** 0.5)
    answer = estimate.fraction(question, population=True)
    assert answer.stderr == pytest.approx(widened[-1] / PEOPLE, rel=1e-9)
    assert LOW < share_covered(values, widened, truth) < HIGH
    assert share_covered(values, widened, truth, scale=TOO_SMALL) < LOW
    assert share_covered(values, plain, truth) < LOW


def test_the_band_is_four_standard_errors_wide() -> None:
    assert share_score(round(LOW * RUNS), RUNS, 0.95) < -4
    assert share_score(round(HIGH * RUNS), RUNS, 0.95) > 4
