"""The expected total variation of a distribution: simulated, exact, and below the proved bound."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from helpers_planning import CONTEXTS, STUDIES, K, context_study, exact_variance_of, people_of, zipf
from helpers_statistics import histogram

import sfumato as sf
from sfumato.errors import StudyError
from sfumato.metrics.distance import LineMetric
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.planning.total_variation import tv_bound

ONE = Fraction(1)
PEOPLE, RUNS = 20_000, 240


@pytest.mark.slow
@pytest.mark.parametrize("kind", CONTEXTS)
def test_simulated_distance_is_the_predicted_one_and_below_the_bound(kind: str) -> None:
    """The mean of 240 runs, whose standard error is read from them: 5 % is 4 of it or more."""
    study, law = context_study(kind), zipf(K)
    rng = np.random.default_rng(11)
    found = []
    for seed in range(RUNS):
        counts = rng.multinomial(PEOPLE, law)
        tally = study.simulate_counts(counts, seed=seed)
        found.append(sf.tv_error(tally.estimate("unbiased"), law))
    plan = sf.expected_tv(study, PEOPLE, prior=law)
    mean, error = float(np.mean(found)), float(np.std(found)) / math.sqrt(RUNS)
    assert 4 * error < 0.05 * plan.tv
    assert abs(mean / plan.tv - 1) < 0.05
    assert plan.bound is not None
    assert mean < plan.bound
    # The twin: a prediction for another ε, off by a tenth, would not pass.
    for factor in (0.9, 1.1):
        assert abs(mean / (factor * plan.tv) - 1) > 0.05


@pytest.mark.parametrize("kind", CONTEXTS)
def test_predicted_variances_are_exact_sums(kind: str) -> None:
    study, law = context_study(kind), zipf(K)
    (channel,) = study.channels
    read, seen = channel.coefficients(np.eye(K)), law @ channel.likelihood()
    second = read**2 @ seen
    for population, taken in ((True, law**2), (False, law)):
        plan = sf.expected_tv(study, 1_000, prior=law, population=population)
        variance_of = (second - taken) / 1_000
        assert plan.l2 == pytest.approx(math.sqrt(variance_of.sum()))
        assert plan.tv == pytest.approx(np.sqrt(variance_of * 2 / np.pi).sum() / 2)


def test_bounds_are_those_of_the_paper() -> None:
    c = (math.e + 1) / (math.e - 1)
    assert tv_bound(BlockMetric(ONE, np.array([0, 0, 1, 1, 1])), 100) == pytest.approx(
        2 * c * math.sqrt(3 * 13 / 100)
    )
    assert tv_bound(UniformMetric(ONE, 5), 100) == pytest.approx(2 * c * math.sqrt(3 * 25 / 100))
    found = math.sqrt(3 * 4 / 100) * c + math.sqrt(c * 5 / 100)
    assert tv_bound(
        HighLowMetric(ONE, np.array([1, 1, 0, 0, 0], dtype=bool)), 100
    ) == pytest.approx(found)
    assert tv_bound(LineMetric.equal(ONE, 5), 100) is None


@pytest.mark.parametrize("kind", CONTEXTS)
def test_people_for_a_distance_is_the_inverse_of_the_distance(kind: str) -> None:
    axis = context_study(kind).axes[0]
    people = sf.people_for_tv(axis, 0.1)
    assert sf.expected_tv(axis, people).tv <= 0.1 < sf.expected_tv(axis, people - 1).tv
    proved = sf.people_for_tv(axis, 0.1, proved=True)
    assert sf.expected_tv(axis, proved).bound == pytest.approx(0.1)
    assert proved > people


def test_plans_of_distributions_refuse_what_they_do_not_know() -> None:
    study = context_study("blocks")
    with pytest.raises(StudyError, match=r"between 0 and 1, got 2"):
        sf.people_for_tv(study, 2)
    with pytest.raises(StudyError, match="people; allow a larger"):
        sf.people_for_tv(study, 1e-9)
    with pytest.raises(StudyError, match="worst"):
        sf.expected_tv(study, 10, prior="worst")
    with pytest.raises(StudyError, match="must be a Study or an axis, got str"):
        sf.expected_tv("study", 10)  # type: ignore[arg-type]
    ages = sf.integers("age", 0, 9, protect=sf.Distance(1), channel=sf.Geometric())
    assert sf.expected_tv(ages, 100).bound is None
    with pytest.raises(StudyError, match="nothing is proved"):
        sf.people_for_tv(ages, 0.1, proved=True)
    bits = sf.integers("age", 0, 9, protect=sf.Distance(1), channel=sf.Thermometer())
    with pytest.raises(StudyError, match="sends bits"):
        sf.expected_tv(bits, 100)
    assert "proved at most" in str(sf.expected_tv(study, 100))
    assert "proved" not in str(sf.expected_tv(ages, 100))


@pytest.mark.parametrize("name", ["records", "mixed"])
def test_predicted_variances_of_blocks_are_exact_sums(name: str) -> None:
    study = STUDIES[name]()
    counts = histogram(study, people_of(study, 400, 1))
    law = counts / counts.sum()
    plan = sf.expected_tv(study, 400, prior=law, population=False)
    variances = []
    for cell in np.ndindex(*study.shape):
        asked = [np.eye(size)[place] for size, place in zip(study.shape, cell, strict=True)]
        variances.append(exact_variance_of(study, asked, law) / 400)
    assert plan.l2 == pytest.approx(math.sqrt(sum(variances)))
    assert plan.tv == pytest.approx(np.sqrt(np.array(variances) * 2 / np.pi).sum() / 2)
