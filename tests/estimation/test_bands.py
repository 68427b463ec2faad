"""Simultaneous bands: exact covariances, and joint coverage at the stated level.

Joint coverage of 400 collections has a standard error of √(0.95·0.05/400) = 1.1 %; the limit is
LIMIT of those to each side, and half a percent more for the simulated critical value (its own
chance errs by √(0.95·0.05/20,000) = 0.15 %) and the normal law. The twin: pointwise intervals of 11
unsure cells hold jointly far less often.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers_statistics import LIMIT, PEOPLE, collections
from scipy.special import ndtri

import sfumato as sf
from sfumato.estimation.bands import DRAWS, correlation, critical_value, sidak
from sfumato.estimation.readings import row_covariance
from sfumato.questions.language import weights

LINE = {
    "geometric": sf.integers("a", 0, 7, protect=sf.Distance(0.8), channel=sf.Geometric()),
    "thermometer": sf.integers("a", 0, 7, protect=sf.Distance(0.8), channel=sf.Thermometer()),
    "published": sf.integers(
        "a", 0, 7, protect=sf.Distance(0.8), channel=sf.Thermometer("published")
    ),
    "exponential": sf.integers(
        "a", 0, 6, protect=sf.Distance(0.8, no_answer=2), optional=True, channel=sf.Exponential()
    ),
    "rounded": sf.reals("a", 0, 7, bins=7, rounding="stochastic", protect=sf.Distance(0.8)),
}
OTHERS = {
    "response": sf.categories("b", ["n", "s", "e"], protect=sf.Uniform(1.0)),
    "bits": sf.integers("b", 0, 3, protect=sf.Distance(1.0), channel=sf.Thermometer()),
    "rounded": sf.reals("b", 0, 3, bins=3, rounding="stochastic", protect=sf.Distance(1.5)),
}
WHERE = {"response": {"b": ["n", "e"]}, "bits": {"b": (1, 2)}, "rounded": {"b": (0, 1.5)}}


def _estimate(line: str, other: str) -> sf.Estimate:
    study = sf.Study("two", [LINE[line], OTHERS[other]])
    share = np.random.default_rng(1).dirichlet(np.full(math.prod(study.shape), 0.8))
    counts = np.random.default_rng(2).multinomial(2_000, share)
    return study.simulate_counts(counts, seed=3).estimate(method="unbiased")


@pytest.mark.slow
@pytest.mark.parametrize("line", LINE)
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("population", [False, True])
def test_the_covariance_is_that_of_every_pair_of_questions(
    line: str, other: str, population: bool
) -> None:
    estimate: Any = _estimate(line, other)
    study = estimate.study
    table = np.random.default_rng(4).normal(size=(4, study.shape[0]))
    for where in (None, WHERE[other]):
        asked = weights(study.axes, where)
        found = row_covariance(
            estimate.statistic, study.channels, asked.weights, 0, table, population
        )
        for i, w in enumerate(table):
            for j, v in enumerate(table):
                pair = [replace(asked, weights=(row, asked.weights[1])) for row in (w, v)]
                exact = estimate.covariance_of(*pair, population=population)
                assert found[i, j] == pytest.approx(exact, rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("line", LINE)
@pytest.mark.parametrize("conditional", [False, True])
def test_its_diagonal_is_the_variance_of_the_answers(line: str, conditional: bool) -> None:
    estimate = _estimate(line, "response")
    where = WHERE["response"] if conditional else None
    for answers in (
        estimate.histogram("a", where=where, fraction=conditional),
        estimate.cdf("a", where=where, fraction=conditional),
    ):
        assert answers.errors is not None
        covariance = answers.errors.covariance()
        assert covariance is not None
        variance, unsure = answers.stderr**2, answers.stderr > 1e-6 * answers.stderr.max()
        scale = covariance[0, 0] / variance[0]  # shares are divided by their base
        assert np.diag(covariance)[unsure] == pytest.approx(scale * variance[unsure], rel=1e-6)


def _joint_coverage(
    study: sf.Study, people: Any, ask: Any, truth: Any, method: str, runs: int
) -> tuple[float, float]:
    """The share of runs in which all intervals hold: of the band, and of pointwise intervals."""
    both = []
    for tally in collections(study, {"a": people}, runs=runs, seed=95):
        answers = ask(tally.estimate(method=method))
        both.append(
            [
                np.all((part.low <= truth + 1e-9) & (truth - 1e-9 <= part.high))
                for part in (answers.band(), answers)
            ]
        )
    banded, pointwise = np.mean(both, axis=0)
    return float(banded), float(pointwise)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("choice", "kind"), [(sf.Geometric(), "cdf"), (sf.Thermometer(), "histogram")]
)
def test_bands_hold_jointly_and_pointwise_intervals_do_not(choice: Any, kind: str) -> None:
    study = sf.Study("s", [sf.integers("a", 0, 11, protect=sf.Distance(1.0), channel=choice)])
    people = np.minimum((np.random.default_rng(5).beta(2, 3, PEOPLE) * 12).astype(int), 11)
    counts = np.bincount(people, minlength=12)
    truth = np.cumsum(counts) / PEOPLE if kind == "cdf" else counts
    runs = 400
    banded, pointwise = _joint_coverage(
        study, people, lambda estimate: getattr(estimate, kind)("a"), truth, "unbiased", runs
    )
    off = LIMIT * math.sqrt(0.95 * 0.05 / runs) + 0.005
    assert 0.95 - off < banded < 0.95 + off
    assert pointwise < 0.95 - 2 * off


@pytest.mark.slow
def test_likelihood_bands_hold_jointly() -> None:
    axis = sf.integers("a", 0, 11, protect=sf.Distance(1.0), channel=sf.Geometric())
    study, runs = sf.Study("s", [axis]), 50
    people = np.minimum((np.random.default_rng(6).beta(2, 3, PEOPLE) * 12).astype(int), 11)
    truth = np.cumsum(np.bincount(people, minlength=12)) / PEOPLE
    banded, _ = _joint_coverage(
        study, people, lambda estimate: estimate.cdf("a"), truth, "likelihood", runs
    )
    assert banded > 0.95 - LIMIT * math.sqrt(0.95 * 0.05 / runs)


class TestCriticalValue:
    @pytest.mark.parametrize("line", LINE)
    @pytest.mark.parametrize("kind", ["cdf", "histogram"])
    @pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
    def test_lies_between_pointwise_and_bonferroni(
        self, line: str, kind: str, level: float
    ) -> None:
        answers = getattr(_estimate(line, "bits"), kind)("a", where=WHERE["bits"], level=0.9)
        band = answers.band(level)
        unsure = answers.stderr > 1e-6 * answers.stderr.max()
        reach = float(band.notes[-1].split("; ")[1].split(" ")[0])
        assert ndtri(0.5 + level / 2) <= reach + 5e-4  # it is written to three digits
        assert reach <= ndtri(1 - (1 - level) / 2 / np.sum(unsure)) + 5e-4
        if kind == "histogram":
            errors = np.hypot(answers.stderr, answers.room)
            assert np.allclose(band.uncut[1] - band.values, reach * errors, rtol=1e-3)
        assert band.level == level
        assert band.kind == answers.kind
        assert band.notes[-1].startswith("simultaneous band")
        assert np.array_equal(band.values, answers.values)

    def test_is_exact_for_independent_and_for_equal_errors(self) -> None:
        """Independent errors need Šidák's value, equal ones the pointwise one."""
        for factor, exact in ((np.eye(10), sidak(0.95, 10)), (np.ones((10, 1)), sidak(0.95, 1))):
            found, error = critical_value(factor, 0.95)
            assert error < 0.03
            assert abs(found - exact) < LIMIT * error
            assert abs(found - 1.05 * exact) > LIMIT * error
        assert DRAWS == 20_000

    def test_an_indefinite_covariance_is_repaired(self) -> None:
        wrong = np.array([[1.0, 1.2], [1.2, 1.0]])
        factor = correlation(wrong, np.array([1.0, 1.0]))
        assert np.sum(factor**2, axis=1) == pytest.approx([1.0, 1.0])

    def test_correlated_errors_need_less_than_bonferroni(self) -> None:
        """Sampling of people ties a CDF's errors together as a Brownian bridge does."""
        axis = sf.integers("a", 0, 49, protect=sf.Distance(6.0), channel=sf.Geometric())
        tally = sf.Study("s", [axis]).simulate({"a": list(range(50)) * 40}, seed=1)
        band = tally.estimate(method="unbiased").cdf("a", population=True).band()
        reach = float(band.notes[-1].split("; ")[1].split(" ")[0])
        assert 2.5 < reach < sidak(0.95, 49) - 0.2


class TestElsewhere:
    def test_heat_maps_and_workloads_have_sidaks(self) -> None:
        estimate = _estimate("geometric", "response")
        heat = estimate.heatmap("a", "b")
        errors = np.hypot(heat.stderr, heat.room)
        assert heat.band().uncut[1] - heat.values == pytest.approx(sidak(0.95, 24) * errors)
        rows = estimate.linear(np.eye(24)[:3])
        errors = np.hypot(rows.stderr, rows.room)
        assert rows.band().uncut[1] - rows.values == pytest.approx(sidak(0.95, 3) * errors)

    def test_quantiles_and_impossible_levels_are_refused(self) -> None:
        estimate = _estimate("geometric", "response")
        with pytest.raises(sf.QuestionError, match="band of the cdf"):
            estimate.quantile("a", [0.1, 0.5]).band()
        with pytest.raises(sf.QuestionError, match="level=1"):
            estimate.cdf("a").band(level=1)

    def test_without_reports_there_is_no_band(self) -> None:
        estimate = (
            sf.Study("s", [LINE["geometric"]]).simulate({"a": []}, seed=1).estimate("unbiased")
        )
        band = estimate.cdf("a").band()
        assert np.all(np.isnan(band.low))
        assert band.notes == ("no reports",)

    def test_certain_cells_stay_certain(self) -> None:
        cdf = _estimate("geometric", "response").cdf("a")
        band = cdf.band()
        assert band.low[-1] == band.high[-1] == 1.0
        assert float(np.max(band.to_dict()["high"])) == band.high.max()
