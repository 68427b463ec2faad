"""Xiang et al. 2020: their figures recovered; privacy and errors of the matrix mechanism."""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import sfumato as sf  # noqa: E402
from benchmarks import strategies  # noqa: E402
from sfumato.errors import StudyError  # noqa: E402
from sfumato.estimation import quantiles  # noqa: E402
from sfumato.metrics.distance import LineMetric  # noqa: E402
from sfumato.metrics.edges import edges_of  # noqa: E402
from sfumato.metrics.labelled import BlockMetric  # noqa: E402
from sfumato.metrics.uniform import UniformMetric  # noqa: E402
from sfumato.noise.allocate import check  # noqa: E402
from sfumato.noise.strategies import (  # noqa: E402
    FIXED,
    fit,
    units_of,
)
from sfumato.questions.lines import (  # noqa: E402
    Identity,
    Ranges,
)
from sfumato.questions.trees import Haar  # noqa: E402
from sfumato.reproduction import xiang, xiang_ranges  # noqa: E402
from sfumato.reproduction.matrix_mechanism import MatrixMechanism  # noqa: E402

LIMIT = 4.0  # standard errors
LINE = LineMetric.equal(Fraction(1, 2), 8)
#: So far apart that no noise is drawn, but with a chance below 10^-80.
LOUD = LineMetric.equal(Fraction(10**6), 8)
PEOPLE = [0] * 3 + [2] * 5 + [5] * 4 + [7] * 2
COUNTS = np.bincount(PEOPLE, minlength=8)


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    held: dict[str, Any] = json.loads((ROOT / strategies.RESULTS).read_text(encoding="utf-8"))
    return held


# The paper's figures


@pytest.mark.parametrize(("cells", "eps"), [(3, "1"), (10, "1/2"), (24, "3")])
def test_scales_of_prefixes_are_found_by_the_solver(cells: int, eps: str) -> None:
    """§3.3: s = 1/ε, 0 for the row that everybody shares, and 2nm(m − 1)/ε² in all."""
    row = xiang.ranges_row(cells, eps, people=1_000)
    assert row["scales"] == [float(1 / Fraction(eps))]
    assert row["last scale"] == 0
    assert row["published"] == pytest.approx(row["formula"], rel=1e-9)
    assert row["flips"] == pytest.approx(row["on a lattice"] / 2, rel=1e-9)
    assert row["on a lattice"] < row["formula"]  # a lattice is never noisier


@pytest.mark.parametrize("inside", [1, 3, 8, 9, 10, 15, 20])
def test_figure_1b_small_is_the_closed_form(inside: int) -> None:
    row = xiang.figure_row(inside, cells=20)
    assert row["published"] == pytest.approx(xiang.best_error(inside, cells=20), rel=1e-7)
    assert (row["ratio"] < 0.99999) == (inside < 10)
    assert row["gap"] < 1e-7


def test_figure_1b_as_recorded_meets_plain_privacy_near_forty(record: dict[str, Any]) -> None:
    rows = record["figure"]
    assert [row["sensitive"] for row in rows] == list(range(1, 101))
    ratio = np.array([row["ratio"] for row in rows])
    found = np.array([row["published"] for row in rows])
    assert np.allclose(found, [xiang.best_error(inside) for inside in range(1, 101)], rtol=1e-6)
    assert (np.diff(ratio) > -1e-9).all()
    assert ratio[0] < 0.45
    assert ratio[9] < 0.75
    assert 0.98 < ratio[39] < 1
    assert np.allclose(ratio[49:], 1)
    assert max(row["gap"] for row in rows) < 1e-6
    for row in record["bits"]:
        assert row["flips"] < 0.5 * found[row["sensitive"] - 1]


def test_recorded_ranges_and_searches(record: dict[str, Any]) -> None:
    for row in record["ranges"]:
        assert row["published"] == pytest.approx(row["formula"], rel=1e-9)
        assert row["scales"] == [float(1 / Fraction(row["epsilon"]))]
    gains = {row["case"]: row["gain"] for row in record["search"]}
    assert set(gains) == set(strategies.searches(4))
    assert min(gains.values()) >= 1 - 1e-9
    assert gains["distance, ranges"] == pytest.approx(1)
    assert gains["a ring, ranges"] > 2


def hump(n: int, seed: int) -> Any:
    """People around the middle of 200 cells."""
    draws = np.random.default_rng(seed).normal(100, 35, n)
    return np.clip(draws, 0, 199).astype(int)


def test_the_bound_of_theorem_5(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantiles, "MOST_CELLS", 0)  # by bisection, as in the paper
    n, delta = 3_000, 0.1
    axis = sf.integers("a", 0, 199, protect=sf.Distance(1), channel=sf.Thermometer("published"))
    study, people = sf.Study("line", [axis]), hump(n, 13)
    bound = sf.bounds.xiang_theorem_5(1, n, 200, delta)
    cdf = np.append(0.0, np.cumsum(np.bincount(people, minlength=200)) / n)
    off = []
    for seed in range(40):
        estimate = study.simulate({"a": people}, seed=seed).estimate(method="unbiased")
        cell = int(estimate.quantile("a", 0.4).value)
        off.append(max(cdf[cell] - 0.4, 0.4 - cdf[cell + 1], 0.0))
    # At most 4 of 40 may be beyond it; in truth the bound is far from reached.
    assert np.mean(np.array(off) > bound) <= delta
    assert np.mean(np.array(off) > bound / 20) > delta


# Privacy


STRATEGIES: dict[str, Any] = {
    "identity": "identity",
    "prefix": "prefix",
    "hierarchical": "hierarchical",
    "haar": "haar",
    "real": np.random.default_rng(5).normal(size=(9, 8)).round(3),
    "workload": Ranges(8),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_rates_keep_every_pair_and_none_can_be_raised(name: str) -> None:
    """Proposition 2 for every pair of cells, in rational numbers."""
    mechanism = MatrixMechanism(LINE, STRATEGIES[name], Ranges(8))
    lattice, rates = mechanism.fitted.lattice, mechanism.rates
    steps = [lattice.row(k) for k in range(len(lattice))]
    spent = {
        (x, y): sum(
            rate * unit * abs(int(row[x]) - int(row[y]))
            for rate, unit, row in zip(rates, lattice.units, steps, strict=True)
            if rate is not None
        )
        for x in range(8)
        for y in range(x)
    }
    assert all(total <= LINE.exact(x, y) for (x, y), total in spent.items())
    assert max(float(total / LINE.exact(x, y)) for (x, y), total in spent.items()) > 1 - 1e-6
    assert check(lattice, LINE, rates)
    louder = [rate and rate * Fraction(1_000_001, 1_000_000) for rate in rates]
    assert not check(lattice, LINE, louder)


def test_rows_that_tell_nothing_secret_have_no_noise() -> None:
    blocks = BlockMetric(Fraction(1), np.array([0, 0, 1, 1]))
    rows = [[1, 0, 0, 0], [0, 0, 1, 0], [1, 1, 0, 0]]
    mechanism = MatrixMechanism(blocks, rows, Identity(4))
    assert mechanism.rates == (Fraction(1), Fraction(1), None)
    reports = mechanism.encode([0, 1, 2, 3], sf.SeededBits(1))
    assert reports[:, 2].tolist() == [1, 1, 0, 0]


# Estimates


@pytest.mark.parametrize("name", STRATEGIES)
def test_without_noise_to_speak_of_answers_are_the_truth(name: str) -> None:
    mechanism = MatrixMechanism(LOUD, STRATEGIES[name], Ranges(8))
    answers = mechanism.answers(mechanism.encode(PEOPLE, sf.SeededBits(1)))
    np.testing.assert_allclose(answers, Ranges(8) @ COUNTS, atol=1e-6)


def test_granularity_costs_no_bias() -> None:
    rows = np.random.default_rng(6).normal(size=(9, 8))
    mechanism = MatrixMechanism(LOUD, rows, granularity="1/8")
    assert mechanism.fitted.lattice.off.max() > 0.01
    assert set(mechanism.fitted.lattice.units) == {Fraction(1, 8)}
    answers = mechanism.answers(mechanism.encode(PEOPLE, sf.SeededBits(1)))
    np.testing.assert_allclose(answers, COUNTS, atol=1e-6)
    # Coarser noise is noisier, if only a little, and the stated error takes it in.
    fine = MatrixMechanism(LINE, "prefix", Ranges(8), granularity="1/16")
    usual = MatrixMechanism(LINE, "prefix", Ranges(8))
    assert usual.total_error(1) < fine.total_error(1) <= fine.published_error(1)


def spread_is(values: np.ndarray[Any, Any], variance: float) -> bool:
    """Whether the variance is as stated: sums of Laplace numbers have a kurtosis of 6 at most."""
    off = abs(float(np.var(values)) / variance - 1)
    return off < LIMIT * np.sqrt(5 / len(values))


@pytest.mark.parametrize("name", ["prefix", "haar", "hierarchical"])
def test_answers_vary_as_they_say(name: str, seed: int) -> None:
    """Each report is a tally of one person: thousands of answers with the law that is stated."""
    mechanism = MatrixMechanism(LINE, name, Ranges(8))
    reports = mechanism.encode(np.full(40_000, 3), sf.SeededBits(seed))
    units = units_of(mechanism.fitted.lattice)
    noisy = np.concatenate([reports * units, np.ones((len(reports), 1))], axis=1)
    asked = Ranges(8).rows([2, 12, 20])
    read = sf.questions.reconstruct(
        asked, mechanism.fitted.lattice, mechanism.fitted.noise, known_total=True
    )
    stated = mechanism.expected_error(1)[[2, 12, 20]]
    for values, row, error in zip(read @ noisy.T, asked, stated, strict=True):
        assert abs(values.mean() - row[3]) < LIMIT * error / np.sqrt(len(values))
        assert spread_is(values, error**2)
        assert not spread_is(values, 1.1 * error**2)
        assert not spread_is(values, error**2 / 1.1)


def test_errors_add_up_and_grow_with_people() -> None:
    mechanism = MatrixMechanism(LINE, "haar", Ranges(8))
    assert np.sum(mechanism.expected_error(50) ** 2) == pytest.approx(mechanism.total_error(50))
    np.testing.assert_allclose(mechanism.expected_error(400), 2 * mechanism.expected_error(100))
    # Proposition 3 on the reals is what a lattice tends to: within ε²/12 or so of 1.
    assert 0.9 < mechanism.total_error(1) / mechanism.published_error(1) < 1


def test_exact_allocation_is_no_worse_than_the_published_ones() -> None:
    rows = Haar(8).dense()
    metric = UniformMetric(Fraction(1), 8)
    errors = {
        how: MatrixMechanism(metric, rows, Identity(8), allocation=how).total_error(1)
        for how in ("exact", "equal", "shared", "psa")
    }
    assert all(errors["exact"] <= error * (1 + 1e-9) for error in errors.values())


def test_a_searched_strategy_is_never_worse() -> None:
    metric, asked = strategies.searches(6)["points in the plane, cells"]
    searched = MatrixMechanism(metric, "searched", asked)
    assert check(searched.fitted.lattice, metric, searched.rates)
    fixed = [MatrixMechanism(metric, name, asked).total_error(1) for name in FIXED]
    assert searched.total_error(1) <= min(fixed) * (1 + 1e-9)


def test_table_2_has_the_extension_of_haney_beside_both_noises() -> None:
    """On one axis 4n/ε², whatever m is; on two the published thermometer is far better."""
    alone, grid = xiang_ranges.errors_row(1, 32, "1/10"), xiang_ranges.errors_row(2, 8, "1/2")
    haney = "Haney et al., extended"
    assert alone[haney] == pytest.approx(2 * np.sqrt(xiang.PEOPLE) * 10, rel=0.01)
    assert alone[haney] == pytest.approx(2 * alone["its printed rate"], rel=0.01)
    assert grid["default"] < grid["thermometer, published"] < 0.5 * grid[haney]


# Bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"strategy": [[1] * 4 + [0] * 4]},
            r"cannot express 8 of 8 questions: 'cell 0' \(residual",
        ),
        ({"strategy": "prefixes"}, "did you mean 'prefix'"),
        ({"strategy": [[1, 0]]}, "same cells, got 8 and 2"),
        ({"workload": [[1, 0]]}, "same cells, got 2 and 8"),
        ({"allocation": "best"}, "method must be known"),
        ({"granularity": 0, "strategy": "prefix"}, "granularity must be positive"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError, match=message):
        MatrixMechanism(LINE, **options)


def test_questions_that_rows_express_need_not_tell_all_cells_apart() -> None:
    half = [[1] * 4 + [0] * 4]
    mechanism = MatrixMechanism(LINE, half, half)
    assert mechanism.scales == pytest.approx([2.0])
    fitted = fit(np.array(half), np.array(half).T @ np.array(half), edges_of(LINE))
    assert mechanism.total_error(1) == pytest.approx(fitted.error)
