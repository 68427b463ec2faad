"""Exact variances: against the formula, against simulation, and against the numbers of the paper.

Simulated: RUNS = 2,000 collections from the same PEOPLE = 2,048 people. A sample variance of a sum
over thousands of people is nearly normal, so its standard error is √(2/2,000) = 3.2 % of it, and
the limit of 4 catches an error of 8 standard errors, 25 %, as surely as it passes the truth; the
twins use 25 %. `tests/soak` repeats this with 20,000 runs and 10 %.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers_statistics import (
    LIMIT,
    PEOPLE,
    RUNS,
    ask_all,
    collections,
    exact_count,
    exact_variance,
    histogram,
    mean_score,
    random_ranges,
    range_weights,
    share_covered,
    share_score,
    variance_score,
    variance_stderr,
    zipf,
)

import sfumato as sf
from sfumato.questions.language import weights

OFF = 0.25


def _ages(name: str, size: int, epsilon: float, channel: Any) -> sf.Axis:
    return sf.integers(name, 0, size - 1, protect=sf.Distance(epsilon), channel=channel)


def _codes(name: str, size: int, epsilon: float, channel: Any) -> sf.Axis:
    return sf.integers(name, 0, size - 1, protect=sf.Uniform(epsilon), channel=channel)


def _regions() -> sf.Axis:
    return sf.categories("r", ["n", "s", "e", "w"], protect=sf.Uniform(1.5), optional=True)


STUDIES = {
    "geometric × geometric": sf.Study(
        "gg", [_ages("a", 9, 0.8, sf.Geometric()), _ages("b", 16, 0.6, sf.Geometric())]
    ),
    "thermometer × thermometer": sf.Study(
        "tt", [_ages("a", 9, 0.8, sf.Thermometer()), _ages("b", 16, 0.6, sf.Thermometer())]
    ),
    "published × published": sf.Study(
        "pp",
        [
            _ages("a", 9, 0.8, sf.Thermometer("published")),
            _ages("b", 6, 0.9, sf.Thermometer("published")),
        ],
    ),
    "geometric × thermometer × response": sf.Study(
        "gtr",
        [_ages("a", 9, 0.8, sf.Geometric()), _ages("b", 7, 1.0, sf.Thermometer()), _regions()],
    ),
    "unary × Hadamard": sf.Study(
        "oh", [_codes("a", 5, 2.0, sf.OUE()), _codes("b", 6, 2.0, sf.HRR())]
    ),
    "hashed × unary": sf.Study(
        "ho", [_codes("a", 5, 2.0, sf.OLH()), _codes("b", 6, 2.0, sf.OUE())]
    ),
    "three geometric": sf.Study(
        "ggg", [_ages(n, s, 1.0, sf.Geometric()) for n, s in (("a", 5), ("b", 9), ("c", 12))]
    ),
    "three thermometers": sf.Study(
        "ttt", [_ages(n, s, 1.0, sf.Thermometer()) for n, s in (("a", 5), ("b", 9), ("c", 12))]
    ),
}
QUESTIONS = (
    {"a": (1, 3), "b": (2, 4)},
    {"a": (0, 2), "b": (3, 5)},  # touches an end
    {"b": (1, 3)},  # says nothing about the others
    {"a": [(0, 1), 4], "b": (None, 2)},  # a union
)


class Simulated(NamedTuple):
    values: np.ndarray
    stderr: np.ndarray
    truth: list[float]
    variance: list[float]


def _people(study: sf.Study, seed: int) -> dict[str, Any]:
    """Skewed and correlated across axes, so that no factor of the formula can be swapped."""
    rng = np.random.default_rng(seed)
    shared = rng.random(PEOPLE)
    people: dict[str, Any] = {}
    for axis in study.axes:
        mixed = 0.6 * shared + 0.4 * rng.random(PEOPLE) ** 2
        cells = np.minimum((mixed * axis.size).astype(np.int64), axis.size - 1)
        people[axis.name] = (
            cells
            if axis.domain.kind == "integers"
            else [None if cell == 4 else "nsew"[cell] for cell in cells]
        )
    return people


def _simulated(name: str) -> Simulated:
    """Every question's answers in every run, and what they should be."""
    study = STUDIES[name]
    people = _people(study, seed=len(name))
    cells = study._codes(people)
    counts = histogram(study, cells)
    questions: list[dict[str, Any]] = [dict(question) for question in QUESTIONS]
    if study.axes[-1].name == "r":
        questions[0]["r"] = {"n", "s"}
        questions[2]["r"] = {None, "w"}
    elif len(study.axes) == 3:
        questions[0]["c"], questions[3]["c"] = (4, 8), (6, None)
    held = [weights(study.axes, question).weights for question in questions]
    values, stderr = ask_all(study, collections(study, people, runs=RUNS, seed=20_201), questions)
    return Simulated(
        values,
        stderr,
        [exact_count(w, counts) for w in held],
        [exact_variance(study.channels, w, counts) for w in held],
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_simulated_answers_have_the_exact_mean_and_variance(name: str) -> None:
    run = _simulated(name)
    everything = zip(run.values.T, run.stderr.T**2, run.truth, run.variance, strict=True)
    for values, reported, truth, variance in everything:
        assert abs(mean_score(values, truth, variance)) < LIMIT
        assert abs(variance_score(values, variance)) < LIMIT
        # Twins: a bias of a quarter of one run's standard error is 11 of the mean's.
        biased = truth + OFF * math.sqrt(variance)
        assert abs(mean_score(values, biased, variance)) > LIMIT
        assert abs(variance_score(values, variance * (1 + OFF))) > LIMIT
        assert abs(variance_score(values, variance * (1 - OFF))) > LIMIT
        if np.ptp(reported) < 1e-9 * variance:  # the error does not depend on the reports
            np.testing.assert_allclose(reported, variance, rtol=1e-9)
            continue
        assert abs(mean_score(reported, variance)) < LIMIT
        # Twin: reported variances scatter far less than answers, so 5 % is plenty.
        assert np.std(reported) / math.sqrt(RUNS) * 2 * LIMIT < 0.05 * variance
        assert abs(mean_score(reported, 1.05 * variance)) > LIMIT
        assert abs(mean_score(reported, 0.95 * variance)) > LIMIT


class TestNumbersOfThePaper:
    """Xiang et al. 2020, as corrected in the notes on the paper, 1 and 2; exact, no simulation."""

    @staticmethod
    def _axes(variant: Any, dimensions: int, epsilon: float, size: int = 8) -> sf.Study:
        axes = [_ages(f"x{d}", size, epsilon, sf.Thermometer(variant)) for d in range(dimensions)]
        return sf.Study("paper", axes)

    @pytest.mark.parametrize(("dimensions", "per_person"), [(2, 77.1), (5, 53_800.0)])
    def test_all_people_at_the_queried_value(self, dimensions: int, per_person: float) -> None:
        study = self._axes("published", dimensions, 0.5)
        point = np.zeros(8)
        point[3] = 1.0
        moments = [channel.second_moment(point)[3] for channel in study.channels]
        found = math.prod(moments) - 1
        assert found == pytest.approx(per_person, rel=0.5 / 538)  # three digits
        s = (math.exp(0.5) + 1) / (math.exp(0.5) - 1)
        assert found == pytest.approx(((s**2 + 1) / 2) ** dimensions - 1, rel=1e-12)

    def test_the_papers_bound_is_no_bound(self) -> None:
        study = self._axes("published", 2, 0.5)
        point = np.zeros(8)
        point[3] = 1.0
        moments = [channel.second_moment(point)[3] for channel in study.channels]
        assert math.prod(moments) - 1 > 69.2

    @pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0])
    def test_second_moments_of_intervals(self, epsilon: float) -> None:
        s = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
        published = self._axes("published", 1, epsilon).channels[0]
        exact = self._axes("exact", 1, epsilon).channels[0]
        inside = np.zeros(8)
        inside[2:5] = 1.0
        edge = np.zeros(8)
        edge[:3] = 1.0
        half = {1.0: (s**2 + 1) / 2, 0.0: (s**2 - 1) / 2}
        quarter = {1.0: (s**2 + 3) / 4, 0.0: (s**2 - 1) / 4}
        for channel, w, wanted in (
            (published, inside, half),
            (exact, inside, half),
            (published, edge, half),
            (exact, edge, quarter),
            (exact, edge[::-1], quarter),
            (published, np.ones(8), {1.0: s**2}),
            (exact, np.ones(8), {1.0: 1.0}),
        ):
            expected = [wanted[float(value)] for value in w]
            np.testing.assert_allclose(channel.second_moment(w), expected, rtol=1e-12)

    def test_a_second_moment_is_the_sum_over_all_patterns(self) -> None:
        for variant in ("exact", "published"):
            channel = self._axes(variant, 1, 0.7, size=5).channels[0]
            for w in (np.eye(5)[1], np.array([0.0, 1, 1, 1, 0]), np.array([0.2, -1, 3, 0, 0.5])):
                f = np.asarray(channel.functional(w))
                np.testing.assert_allclose(channel.likelihood() @ f, w, atol=1e-12)
                np.testing.assert_allclose(
                    channel.likelihood() @ f**2, channel.second_moment(w), rtol=1e-12
                )


class TestSameGuaranteeSmallerError:
    """m = 64, D = 2, ε = 1, 1,000 random ranges: geometric against the published thermometer."""

    SIZE, RANGES, N, EPSILON = 64, 1_000, 100_000, 1.0

    def _setting(self, spread: str) -> tuple[np.ndarray, list[np.ndarray], list[dict[str, Any]]]:
        rng = np.random.default_rng(64)
        share = zipf(self.SIZE) if spread == "zipf" else np.full(self.SIZE, 1 / self.SIZE)
        counts = rng.multinomial(self.N, np.outer(share, share).ravel())
        ranges = [random_ranges(self.SIZE, self.RANGES, rng) for _ in "ab"]
        asked = [
            {"a": tuple(a), "b": tuple(b)}
            for a, b in zip(ranges[0].tolist(), ranges[1].tolist(), strict=True)
        ]
        rows = [range_weights(r, self.SIZE) for r in ranges]
        return counts.reshape(self.SIZE, self.SIZE), rows, asked

    def _study(self, choice: Any) -> sf.Study:
        axes = [_ages(name, self.SIZE, self.EPSILON, choice) for name in "ab"]
        return sf.Study("contest", axes)

    @staticmethod
    def _covariance(study: sf.Study, rows: list[np.ndarray], counts: np.ndarray) -> np.ndarray:
        """How all ranges' answers vary together: Σ_x c(x)·(Π_d E[f_q f_r | x_d] − w_q·w_r).

        For ranges q, r the first term is a contraction of the counts with E[f_q f_r | x_d]; rows
        of one q at a time keep it small.
        """
        result = np.empty((len(rows[0]), len(rows[0])))
        first, second = study.channels
        for q, (w, v) in enumerate(zip(*rows, strict=True)):
            one = _product_moments(first, w, rows[0])
            two = _product_moments(second, v, rows[1])
            joint = np.einsum("rx,xy,ry->r", one, counts, two, optimize=True)
            means = np.einsum("rx,xy,ry->r", w * rows[0], counts, v * rows[1], optimize=True)
            result[q] = joint - means
        return result

    @pytest.mark.parametrize("spread", ["uniform", "zipf"])
    def test_by_the_variance_formula(self, spread: str) -> None:
        counts, rows, _ = self._setting(spread)
        error = {}
        for choice in (sf.Geometric(), sf.Thermometer("published")):
            channels = self._study(choice).channels
            moments = [c.second_moment(w) for c, w in zip(channels, rows, strict=True)]
            first = np.einsum("qx,xy,qy->q", moments[0], counts, moments[1], optimize=True)
            base = np.einsum("qx,xy,qy->q", rows[0], counts, rows[1], optimize=True)
            error[choice.id] = float(np.mean(first - base))
            pair = [rows[0][0], rows[1][0]]
            assert first[0] - base[0] == pytest.approx(
                exact_variance(channels, pair, counts), rel=1e-9
            )
        ratio = error["thermometer"] / error["geometric"]
        assert ratio >= 30
        assert {"uniform": 45, "zipf": 70}[spread] < ratio < {"uniform": 65, "zipf": 100}[spread]

    @pytest.mark.slow
    @pytest.mark.parametrize("spread", ["uniform", "zipf"])
    def test_by_one_simulation(self, spread: str) -> None:
        counts, rows, asked = self._setting(spread)
        truth = np.einsum("qx,xy,qy->q", rows[0], counts, rows[1], optimize=True)
        error, fits = {}, {}
        for choice in (sf.Geometric(), sf.Thermometer("published")):
            study = self._study(choice)
            estimate = study.simulate_counts(counts, seed=1_964).estimate("unbiased")
            off = np.array([estimate.count(question).value for question in asked]) - truth
            error[choice.id] = float(np.mean(off**2))
            # Errors e are nearly normal with covariance S, so the mean of e² over Q ranges has
            # mean tr S/Q and standard error √(2·tr S²)/Q: ranges share noise, and this counts it.
            # The first 200 ranges will do, the matrix being quadratic in their number.
            some = 200
            together = self._covariance(study, [row[:some] for row in rows], counts)
            expected = np.trace(together) / some
            stderr = math.sqrt(2 * float(np.sum(together**2))) / some
            fits[choice.id] = (float(np.mean(off[:some] ** 2)), expected, LIMIT * stderr)
            found, expected, most = fits[choice.id]
            assert abs(found - expected) < most
        # Twin: neither channel's error passes for the other's.
        for one, other in (("geometric", "thermometer"), ("thermometer", "geometric")):
            assert abs(fits[one][0] - fits[other][1]) > fits[other][2]
        assert error["thermometer"] / error["geometric"] >= 30


def _product_moments(channel: Any, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """E[f_w·f_v | x] for one w and many v, by polarisation of second moments."""
    plus, minus = channel.second_moment(w + rows), channel.second_moment(w - rows)
    return (plus - minus) / 4


class TestHelpers:
    def test_the_error_of_a_variance_is_the_textbook_one_for_normal_samples(self) -> None:
        sample = np.random.default_rng(5).normal(0, 3, 1_000_000)
        # μ4 − μ2² = 2σ⁴ within the 0.5 % that a million values leave open.
        assert variance_stderr(sample) == pytest.approx(9 * math.sqrt(2 / 1e6), rel=0.02)

    def test_scores_of_a_sample_with_known_moments(self) -> None:
        sample = np.tile([-1.0, 1.0, 3.0, 5.0], 25)  # mean 2, variance 5·100/99, μ4 = 41, μ2 = 5
        assert mean_score(sample, 1.0, variance=4.0) == pytest.approx(5.0)
        assert mean_score(sample, 2.0) == 0.0
        assert variance_stderr(sample) == pytest.approx(math.sqrt((41 - 25) / 100))
        assert variance_score(sample, 5 * 100 / 99 - 0.8) == pytest.approx(2.0)

    def test_scores_of_variances_are_standard_over_many_samples(self) -> None:
        rng = np.random.default_rng(6)
        scores = [variance_score(rng.normal(0, 2, 2_000), 4.0) for _ in range(400)]
        # 400 standard normal scores: mean within 4/√400, spread within 4·√(1/800).
        assert abs(np.mean(scores)) < 4 / 20
        assert abs(np.std(scores) - 1) < 4 * math.sqrt(1 / 800)

    def test_share_score_and_coverage(self) -> None:
        assert share_score(60, 100, 0.5) == pytest.approx(2.0)
        assert share_covered([0, 1, 2, 3], [1, 1, 1, 1], 0.0) == 0.5
        assert share_covered([0, 1, 2, 3], [1, 1, 1, 1], 0.0, scale=0.5) == 0.25

    def test_exact_variance_of_one_axis_by_hand(self) -> None:
        study = sf.Study("yes", [sf.categories("v", ["no", "yes"], protect=sf.Uniform(1.0))])
        p = math.e / (1 + math.e)
        per_person = p * (1 - p) / (2 * p - 1) ** 2
        found = exact_variance(study.channels, [np.array([0.0, 1.0])], [30, 70])
        assert found == pytest.approx(100 * per_person, rel=1e-12)

    def test_exact_variance_ignores_axes_that_are_not_asked_about(self) -> None:
        study = STUDIES["published × published"]
        one = sf.Study("one", [study.axes[0]])
        counts = np.arange(54).reshape(9, 6)
        w = range_weights(np.array([[2, 5]]), 9)[0]
        assert exact_variance(study.channels, [w, None], counts) == pytest.approx(
            exact_variance(one.channels, [w], counts.sum(axis=1)), rel=1e-12
        )

    def test_exact_count_is_a_plain_sum(self) -> None:
        counts = np.arange(12).reshape(3, 4)
        assert exact_count([np.array([1.0, 0, 0.5]), None], counts) == 6 + 19

    def test_collections_repeat_the_same_people_with_fresh_noise(self) -> None:
        study = STUDIES["geometric × geometric"]
        people = {"a": np.arange(64) % 9, "b": np.arange(64) % 16}
        first, second = collections(study, people, runs=2, seed=1)
        again = next(iter(collections(study, people, runs=2, seed=1)))
        assert first.n == second.n == 64
        assert first == again
        assert first != second
