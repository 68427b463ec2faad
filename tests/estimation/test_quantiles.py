"""Quantiles: exact where noise is negligible, monotone always, and intervals that hold the truth.

Coverage: if q is exactly the share at or below a cell, and the next cell's share is many standard
errors away, the interval misses the quantile only when the test at that cell rejects from one
side: chance 2.5 %. So 97.5 % of intervals hold it, with standard error √(0.975·0.025/N). The twin
takes the interval of standard errors scaled by 0.7, level 2·Φ(0.7·1.96) − 1: Φ(1.372) = 91.5 %.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from helpers_statistics import LIMIT, PEOPLE, collections, share_score
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

import sfumato as sf
from sfumato.estimation import quantiles
from sfumato.estimation.rows import Curve

QuestionError = sf.QuestionError
SHRUNK = float(2 * ndtr(0.7 * ndtri(0.975)) - 1)
ONE_SIDE, ONE_SIDE_SHRUNK = 0.975, float(ndtr(0.7 * ndtri(0.975)))
RUNS = 1_000
METHODS = ("unbiased", "likelihood")
LINES = [sf.Geometric(), sf.Thermometer()]
CERTAIN = 40.0  # an ε at which no report differs from the value
by_channel = pytest.mark.parametrize("choice", LINES, ids=lambda c: c.id)
by_method = pytest.mark.parametrize("method", METHODS)


def _line(size: int, epsilon: float, choice: Any = None, **more: Any) -> sf.Study:
    axis = sf.integers("a", 0, size - 1, protect=sf.Distance(epsilon), channel=choice, **more)
    return sf.Study("line", [axis])


def _hump(size: int, people: int, seed: int) -> NDArray[np.int64]:
    lean = np.random.default_rng(seed).beta(2, 2, people)
    return np.minimum((lean * size).astype(np.int64), size - 1)


def _true_cells(counts: NDArray[np.int64], shares: Any) -> NDArray[np.int64]:
    """The first cell at which the cumulative count reaches q·n, by counting."""
    total, found = int(counts.sum()), []
    for q in shares:
        cell, below = 0, int(counts[0])
        while below < q * total - 1e-9:
            cell += 1
            below += int(counts[cell])
        found.append(cell)
    return np.array(found)


def _boundaries(counts: NDArray[np.int64]) -> list[float]:
    """The shares at or below each cell but the last."""
    return [float(share) for share in np.cumsum(counts)[:-1] / counts.sum()]


def _limits(trials: int) -> tuple[float, float]:
    """Four standard errors around 97.5 %."""
    off = LIMIT * math.sqrt(ONE_SIDE * (1 - ONE_SIDE) / trials)
    return ONE_SIDE - off, ONE_SIDE + off


def _hits(answers: sf.Answers, truth: NDArray[np.int64]) -> NDArray[np.bool_]:
    return (answers.low <= truth) & (truth <= answers.high)


class TestCoverage:
    @pytest.mark.slow
    @by_channel
    def test_unbiased_intervals_hold_the_quantile(self, choice: Any) -> None:
        study = _line(8, 2.0, choice)
        people = _hump(8, PEOPLE, 1)
        counts = np.bincount(people, minlength=8)
        edge = _boundaries(counts)[3]
        shares = [0.1, 0.25, edge, 0.5, 0.9]
        truth = _true_cells(counts, shares)
        full, shrunk = [], []
        for tally in collections(study, {"a": people}, runs=RUNS, seed=95):
            estimate = tally.estimate(method="unbiased")
            full.append(_hits(estimate.quantile("a", shares), truth))
            shrunk.append(_hits(estimate.quantile("a", shares, level=SHRUNK), truth))
        covered = np.mean(full, axis=0)
        assert np.all(covered >= 0.93)
        low, high = _limits(RUNS)
        assert low < covered[2] < high
        assert np.mean(shrunk, axis=0)[2] < low

    @pytest.mark.slow
    def test_likelihood_intervals_hold_the_quantile(self) -> None:
        """Seven boundaries in 80 runs: their tests are at different cells, nearly independent."""
        study, runs = _line(8, 2.0, sf.Geometric()), 80
        counts = np.bincount(_hump(8, PEOPLE, 2), minlength=8)
        shares = _boundaries(counts)
        truth = _true_cells(counts, shares)
        full, shrunk = [], []
        for run in range(runs):
            estimate = study.simulate_counts(counts, seed=run).estimate(method="likelihood")
            full.append(_hits(estimate.quantile("a", shares), truth))
            shrunk.append(_hits(estimate.quantile("a", shares, level=SHRUNK), truth))
        low, _ = _limits(runs * len(shares))
        assert low > 0.93
        assert np.mean(full) > low
        assert np.mean(shrunk) < low

    @pytest.mark.slow
    def test_a_population_drawn_afresh_needs_the_wider_interval(self) -> None:
        """With almost no perturbation, the sampling of people is nearly all of the error.

        The quantile is at a boundary, and the cell before is 0.01/√(0.25/500) = 0.45 standard
        errors away: intervals hold it with chance Φ(1.96) − Φ(−1.96 − 0.45) = 96.7 %, and those
        scaled by 0.7 with Φ(1.372) − Φ(−1.372 − 0.45) = 88.1 %.
        """
        size, people, runs = 100, 500, 400
        study, rng = _line(size, 5.0, sf.Geometric()), np.random.default_rng(3)
        share = np.full(size, 1 / size)
        truth = np.array([size // 2 - 1])
        hits: dict[str, list[Any]] = {"wide": [], "shrunk": [], "plain": []}
        for run in range(runs):
            drawn = rng.multinomial(people, share)
            estimate = study.simulate_counts(drawn, seed=run).estimate(method="unbiased")
            for name, options in {
                "wide": {"population": True},
                "shrunk": {"population": True, "level": SHRUNK},
                "plain": {},
            }.items():
                hits[name].append(_hits(estimate.quantile("a", [0.5], **options), truth))
        off = LIMIT * math.sqrt(0.967 * 0.033 / runs)
        low = 0.967 - off
        assert low < np.mean(hits["wide"]) < 0.967 + off
        assert np.mean(hits["shrunk"]) < low
        assert np.mean(hits["plain"]) < low

    @pytest.mark.slow
    def test_a_condition_keeps_the_coverage(self) -> None:
        region = sf.categories("r", ["n", "s"], protect=sf.Uniform(3.0))
        axis = sf.integers("a", 0, 5, protect=sf.Distance(2.0), channel=sf.Geometric())
        study, rng = sf.Study("two", [axis, region]), np.random.default_rng(4)
        counts = rng.multinomial(8_000, rng.dirichlet(np.full(12, 5.0))).reshape(6, 2)
        north = counts[:, 0]
        shares = [_boundaries(north)[2]]
        truth, runs = _true_cells(north, shares), 500
        full, shrunk = [], []
        for run in range(runs):
            estimate = study.simulate_counts(counts, seed=run).estimate(method="unbiased")
            full.append(_hits(estimate.quantile("a", shares, where={"r": "n"}), truth))
            shrunk.append(
                _hits(estimate.quantile("a", shares, where={"r": "n"}, level=SHRUNK), truth)
            )
        low, high = _limits(runs)
        assert low < np.mean(full) < high
        assert np.mean(shrunk) < low

    def test_stochastic_rounding_keeps_the_true_value_inside(self) -> None:
        """People between grid points: the interval reaches to the points around."""
        axis = sf.reals("x", 0, 6, bins=6, rounding="stochastic", protect=sf.Distance(2.0))
        study = sf.Study("rounded", [axis])
        people = np.sort(6 * np.random.default_rng(5).beta(2, 3, 1_024))
        shares = [0.1, 0.3, 0.5, 0.7, 0.9]
        truth = np.quantile(people, shares, method="inverted_cdf")
        hits = [
            _hits(tally.estimate(method="unbiased").quantile("x", shares), truth)
            for tally in collections(study, {"x": people}, runs=300, seed=6)
        ]
        assert np.mean(hits, axis=0).min() >= 0.93


class TestExactWhereNothingIsPerturbed:
    shares = tuple(k / 100 for k in range(1, 100))

    @by_channel
    def test_integers(self, choice: Any) -> None:
        people = _hump(9, 500, 7)
        estimate = _line(9, CERTAIN, choice).simulate({"a": people}, seed=1).estimate("unbiased")
        found = estimate.quantile("a", self.shares)
        assert (
            found.values.tolist()
            == np.quantile(people, self.shares, method="inverted_cdf").tolist()
        )
        assert found.labels[:2] == ["1%", "2%"]
        assert np.all(np.isnan(found.stderr))

    @by_method
    def test_ends(self, method: str) -> None:
        people = [2, 2, 3, 5] * 50
        estimate = (
            _line(8, CERTAIN, sf.Geometric())
            .simulate({"a": people}, seed=1)
            .estimate(method=method)
        )
        assert estimate.quantile("a", 0.5).value == 2
        assert estimate.quantile("a", 0.75).value == 3
        if method == "unbiased":
            assert estimate.quantile("a", [0, 1]).values.tolist() == [2, 5]

    def test_bins_are_interpolated(self) -> None:
        """10 people in 0..10, 30 in 10..30, 60 in 30..100."""
        axis = sf.reals("x", edges=[0, 10, 30, 100], protect=sf.Distance(CERTAIN))
        study = sf.Study("bins", [axis])
        estimate = study.simulate({"x": [5] * 10 + [20] * 30 + [50] * 60}, seed=1).estimate(
            "unbiased"
        )
        found = estimate.quantile("x", [0.0, 0.05, 0.1, 0.25, 0.4, 0.7, 1.0])
        assert found.values == pytest.approx([0, 5, 10, 20, 30, 65, 100])
        one = estimate.quantile("x", 0.25)
        assert (one.low, one.high) == (10, 30)
        assert str(one) == "20 (10 to 30)"

    def test_dates_and_times_are_written_out(self) -> None:
        day = sf.dates(
            "d", "2024-01-01", "2024-01-28", step="1 week", protect=sf.Distance(CERTAIN, "1 week")
        )
        clock = sf.times(
            "t", "06:00", "10:00", step="1 hour", protect=sf.Distance(CERTAIN, "1 hour")
        )
        dates = ["2024-01-03"] * 50 + ["2024-01-09"] * 50
        times = ["06:30"] * 25 + ["08:10"] * 75
        estimate = sf.Study("when", [day, clock]).simulate({"d": dates, "t": times}, seed=1)
        estimate = estimate.estimate("unbiased")
        # Of the week of the 8th half the people, 3.5 days, are counted: the 11th is running.
        third = estimate.quantile("d", 0.75)
        assert third.written == ("2024-01-11", "2024-01-08", "2024-01-14")
        assert np.datetime64(int(third.value), "D") == np.datetime64("2024-01-11")
        assert estimate.quantile("d", [0.75]).labels == ["75% (2024-01-11)"]
        assert str(estimate.quantile("t", 0.625)) == "08:30 (08:00 to 09:00)"
        assert third.to_dict()["written"][0] == "2024-01-11"

    def test_optional_axes_are_among_those_who_answered(self) -> None:
        protect = sf.Distance(CERTAIN, no_answer=1)
        study = sf.Study("maybe", [sf.integers("o", 0, 4, protect=protect, optional=True)])
        people = [1] * 30 + [3] * 30 + [None] * 940
        estimate = study.simulate({"o": people}, seed=1).estimate("unbiased")
        assert estimate.quantile("o", [0.5, 0.51]).values.tolist() == [1, 3]
        both = estimate.quantile("o", 0.9, where={"o": [1, None]})
        assert both.value == 1
        with pytest.raises(QuestionError, match="with an answer"):
            estimate.quantile("o", 0.5, where={"o": None})

    def test_a_condition_on_the_axis_itself(self) -> None:
        study = _line(10, CERTAIN, sf.Geometric())
        estimate = study.simulate({"a": list(range(10)) * 10}, seed=1).estimate("unbiased")
        assert estimate.quantile("a", 0.5, where={"a": [2, 3, 7, 8]}).value == 3
        assert estimate.quantile("a", 0.5, where={"a": 4}).value == 4

    def test_scaling_an_answer_scales_its_interval(self) -> None:
        estimate = _line(9, 1.0).simulate({"a": [1, 2, 5] * 100}, seed=1).estimate("unbiased")
        one = estimate.quantile("a", 0.5)
        turned = one * -2
        assert (turned.low, turned.high) == (-2 * one.high, -2 * one.low)


class TestShape:
    numbers = st.floats(-0.5, 1.5, allow_nan=False)

    @settings(max_examples=80)
    @given(st.lists(st.tuples(numbers, st.floats(0.01, 2.0)), min_size=1, max_size=7))
    def test_isotonic_regression_is_the_max_min_of_weighted_means(self, cells: Any) -> None:
        raw, variance = (np.array(part) for part in zip(*cells, strict=True))
        counts = np.append(raw, 1.0)
        rising = Curve(counts, 1.0, np.append(variance, 0.0)).monotone()
        weights = 1 / variance

        def mean(i: int, j: int) -> float:
            return float(np.average(raw[i : j + 1], weights=weights[i : j + 1]))

        size = len(raw)
        for k in range(size):
            exact = max(min(mean(i, j) for j in range(k, size)) for i in range(k + 1))
            assert rising[k] == pytest.approx(min(max(exact, 0.0), 1.0), abs=1e-9)
        assert rising[-1] == 1.0

    @pytest.mark.slow
    @by_method
    @pytest.mark.parametrize("epsilon", [0.1, 1.0])
    def test_rises_with_q_and_lies_in_its_interval(self, method: str, epsilon: float) -> None:
        shares = np.linspace(0, 1, 201)
        for seed in range(4 if method == "likelihood" else 30):
            tally = _line(20, epsilon, LINES[seed % 2]).simulate(
                {"a": _hump(20, 300, 8)}, seed=seed
            )
            found = tally.estimate(method=method).quantile("a", shares)
            assert all(left <= right for left, right in pairwise(found.values.tolist()))
            assert np.all(found.low <= found.values)
            assert np.all(found.values <= found.high)

    def test_the_interval_is_every_cell_that_the_test_accepts(self) -> None:
        tally = _line(30, 0.5, sf.Thermometer()).simulate({"a": _hump(30, 800, 9)}, seed=2)
        estimate = tally.estimate(method="unbiased")
        cdf = estimate.cdf("a")
        rising = Curve(cdf.values.copy(), 1.0, cdf.stderr**2).monotone()
        reach = 1.959963984540054 * cdf.stderr
        for q in (0.02, 0.3, 0.5, 0.97):
            accepted = [
                t
                for t in range(30)
                if (t == 29 or rising[t] + reach[t] >= q)
                and (t == 0 or rising[t - 1] - reach[t - 1] <= q)
            ]
            one = estimate.quantile("a", q)
            assert (one.low, one.high) == (accepted[0], accepted[-1])

    def test_wide_axes_are_searched(self) -> None:
        study = _line(5_000, 0.5, sf.Geometric())
        people = _hump(5_000, 20_000, 10)
        estimate = study.simulate({"a": people}, seed=1).estimate(method="unbiased")
        found = estimate.quantile("a", [0.1, 0.5, 0.9])
        truth = np.quantile(people, [0.1, 0.5, 0.9], method="inverted_cdf")
        assert found.notes == ("found by bisection",)
        assert np.all(np.abs(found.values - truth) < 100)
        assert np.all(found.low <= found.values) & np.all(found.values <= found.high)


class TestBisection:
    @pytest.fixture(autouse=True)
    def by_bisection(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Search on axes of any width."""
        monkeypatch.setattr(quantiles, "MOST_CELLS", 0)

    def test_always_ends_at_a_crossing_where_the_published_search_finds_none(self) -> None:
        """All 2,000 people in the last of 20 cells, ε = 0.3: only the last share can reach 0.98.

        Read from its noisy bit it has mean 1 and variance (s² − 1)/n, s = 6.72, so in
        Φ(−0.02/0.1485) = 44.6 % of runs there is no crossing, and a search for one must fail.
        """
        study, runs, without = _line(20, 0.3, sf.Thermometer("published")), 40, 0
        for seed in range(runs):
            estimate = study.simulate({"a": [19] * 2_000}, seed=seed).estimate(method="unbiased")
            one = estimate.quantile("a", 0.98)
            assert one.low <= one.value == one.high == 19
            shares = [estimate.fraction(a=(None, t)).value for t in range(19)]
            noisy = estimate.study.channels[0].coefficients(np.ones(20))
            last = estimate.statistic.sum([noisy]) / 2_000
            without += all(share < 0.98 for share in [*shares, last])
        assert abs(share_score(without, runs, 0.446)) < LIMIT
        assert abs(share_score(0, runs, 0.446)) > LIMIT

    def test_agrees_with_the_regression_where_nothing_is_perturbed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        people, shares = _hump(33, 700, 12), [0.0, 0.01, 0.5, 0.77, 1.0]
        estimate = (
            _line(33, CERTAIN, sf.Thermometer())
            .simulate({"a": people}, seed=1)
            .estimate("unbiased")
        )
        found = estimate.quantile("a", shares)
        assert found.notes == ("found by bisection",)
        monkeypatch.setattr(quantiles, "MOST_CELLS", 33)
        assert found.values.tolist() == estimate.quantile("a", shares).values.tolist()


class TestRefusals:
    @pytest.mark.parametrize("q", [-0.1, 1.5, math.nan, "0.5", True, None])
    def test_an_impossible_share_is_refused_with_its_value(self, q: Any) -> None:
        estimate = _line(5, 1.0).simulate({"a": [1, 2]}, seed=1).estimate("unbiased")
        for asked in (q, [0.5, q]):
            with pytest.raises(QuestionError, match="from 0 to 1") as caught:
                estimate.quantile("a", asked)
            assert repr(q) in str(caught.value)

    def test_missing_shares_unordered_and_unknown_axes_and_bad_levels_are_refused(self) -> None:
        study = sf.Study("r", [sf.categories("r", ["n", "s"], protect=sf.Uniform(1.0))])
        estimate = study.simulate({"r": ["n"]}, seed=1).estimate("unbiased")
        with pytest.raises(QuestionError, match="'r' has no order"):
            estimate.quantile("r", 0.5)
        with pytest.raises(QuestionError, match="no axis 'x'"):
            estimate.quantile("x", 0.5)
        line = _line(5, 1.0).simulate({"a": [1, 2]}, seed=1).estimate("unbiased")
        with pytest.raises(QuestionError, match="at least one share"):
            line.quantile("a", [])
        with pytest.raises(QuestionError, match="level=2"):
            line.quantile("a", 0.5, level=2)

    @by_method
    def test_an_empty_tally_has_no_number(self, method: str) -> None:
        estimate = _line(5, 1.0).simulate({"a": []}, seed=1).estimate(method=method)
        one, several = estimate.quantile("a", 0.5), estimate.quantile("a", [0.1, 0.9])
        assert math.isnan(one.value)
        assert math.isnan(one.low)
        assert str(one) == "no reports"
        assert one.notes == several.notes == ("no reports",)
        assert np.all(np.isnan(several.values))

    def test_a_condition_that_nobody_meets_has_no_number_but_the_whole_axis(self) -> None:
        region = sf.categories("r", ["n", "s"], protect=sf.Uniform(0.2))
        axis = sf.integers("a", 0, 5, protect=sf.Distance(2.0), channel=sf.Geometric())
        study = sf.Study("two", [axis, region])
        unsure = 0
        for seed in range(20):
            estimate = study.simulate({"a": [3] * 300, "r": ["s"] * 300}, seed=seed).estimate(
                method="unbiased"
            )
            one = estimate.quantile("a", 0.5, where={"r": "n"})
            assert any("divisor" in note for note in one.notes)
            if math.isnan(one.value):
                unsure += 1
                assert (one.low, one.high) == (0, 5)
        assert unsure
