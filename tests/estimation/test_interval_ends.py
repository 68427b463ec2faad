"""Ends of intervals stay where the truth can be; values, standard errors and sums do not change."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.special import erfinv
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli import app
from sfumato.estimation.intervals import normal_quantile

Z = normal_quantile(0.95)
LEVELS = (5e-324, 0.5, 0.95, 1 - 2**-53)  # the first and the last that lie between 0 and 1
PEOPLE = {"age": [1] * 70 + [8] * 10, "town": ["Ash"] * 75 + ["Elm"] * 5}


@pytest.fixture(scope="module")
def study() -> sf.Study:
    """Few people and much noise: many intervals reach beyond 0..n."""
    age = sf.integers("age", 0, 9, protect=sf.Distance(0.5))
    town = sf.categories("town", ["Ash", "Elm", "Oak"], protect=sf.Uniform(0.5))
    return sf.Study("ends", [age, town])


@pytest.fixture(scope="module", params=["unbiased", "likelihood"])
def estimate(request: pytest.FixtureRequest, study: sf.Study) -> Any:
    return study.simulate(PEOPLE, seed=3).estimate(request.param)


@pytest.fixture(scope="module")
def unbiased(study: sf.Study) -> Any:
    return study.simulate(PEOPLE, seed=3).estimate("unbiased")


def _tables(est: Any) -> list[tuple[Any, float]]:
    """Answers of every kind, with the largest that their truth can be."""
    return [
        (est.histogram("age"), 80),
        (est.histogram("age", fraction=True), 1),
        (est.histogram("age", where="town=Elm", fraction=True), 1),
        (est.histogram("town", where="age=3.."), 80),
        (est.histogram("age").band(), 80),
        (est.cdf("age"), 1),
        (est.cdf("age", fraction=False).band(), 80),
        (est.heatmap("age", "town"), 80),
        (est.heatmap("age", "town", fraction=True).band(), 1),
        (est.linear(np.eye(30)), 80),
        (est.linear(np.eye(30)).band(), 80),
        (sf.distribution(est), 1),
    ]


def test_tables_end_within_zero_and_everybody(estimate: Any) -> None:
    reaching = 0
    for found, most in _tables(estimate):
        assert np.all(found.low >= 0)
        assert np.all(found.high <= most)
        assert np.all(found.low <= found.high)
        low, high = found.uncut
        reaching += int(np.sum(low < 0) + np.sum(high > most))
        inside = (low >= 0) & (high <= most)
        assert np.array_equal(found.low[inside], low[inside])
        assert np.array_equal(found.high[inside], high[inside])
    assert reaching > 50  # otherwise nothing was tested


def test_single_answers_end_within_zero_and_everybody(estimate: Any) -> None:
    for cell in range(10):
        for town in ("Ash", "Elm", "Oak"):
            count = estimate.count(age=cell, town=town)
            share = estimate.fraction(age=cell, town=town)
            within = estimate.fraction(age=cell, where={"town": town})
            for answer, most in ((count, 80), (share, 1), (within, 1)):
                assert 0 <= answer.low <= answer.high <= most
                assert answer.to_dict()["low"] == answer.low
    assert estimate.mean("age", where="town=Oak").low >= 0
    assert estimate.mean("age", where="age=2..5, town=Oak").high <= 5
    assert estimate.total("age").high <= 9 * 80
    assert estimate.variance("age", where="town=Oak").low >= 0


def test_values_and_standard_errors_are_left_alone(unbiased: Any) -> None:
    found = unbiased.histogram("age")
    assert found.values.min() < 0
    assert np.allclose(found.uncut[0], found.values - Z * np.hypot(found.stderr, found.room))
    cell = int(np.argmin(found.values))
    answer = unbiased.count(age=cell)
    assert answer.value == pytest.approx(found.values[cell])
    assert answer.stderr == pytest.approx(found.stderr[cell])
    assert answer.uncut == pytest.approx((found.uncut[0][cell], found.uncut[1][cell]))


@pytest.mark.parametrize(
    ("value", "low", "high"), [(-50.0, 0.0, 10 * Z), (-5.0, 0.0, 10 * Z), (95.0, 80 - 10 * Z, 80.0)]
)
def test_a_value_outside_has_the_interval_of_the_nearest_possible_one(
    value: float, low: float, high: float
) -> None:
    answer = sf.Answer(value=value, stderr=10.0, n=80, limits=(0.0, 80.0))
    assert (answer.low, answer.high) == pytest.approx((low, high))
    assert answer.value == value


def test_sums_differences_and_multiples_start_from_uncut_intervals(unbiased: Any) -> None:
    a, b = unbiased.count(age=5), unbiased.count(age=6)
    assert a.uncut[0] < 0
    assert b.uncut[0] < 0
    both = unbiased.count(age=(5, 6))
    assert (a + b).value == pytest.approx(both.value)
    assert (a + b).stderr == pytest.approx(both.stderr)
    apart = a - b
    reach = Z * math.hypot(apart.stderr, apart.room)
    assert apart.uncut == pytest.approx((apart.value - reach, apart.value + reach))
    assert -80 <= apart.low < apart.high < 0  # a difference may be negative
    tripled = a * -3
    assert tripled.uncut == pytest.approx((-3 * a.uncut[1], -3 * a.uncut[0]))
    assert -240 <= tripled.low <= tripled.high <= 0
    other = sf.difference(a, b, independent=True)
    assert other.low == pytest.approx(max(other.uncut[0], -80))
    assert (a / unbiased.count(town="Ash")).low >= 0


def test_weighted_counts_end_at_the_total_weight(study: sf.Study) -> None:
    weights = np.linspace(0.1, 2.0, 80)
    tally = study.tally(study.encode(PEOPLE, bits=sf.SeededBits(5)), weights=weights)
    est = tally.estimate()
    whole = float(weights.sum())
    found = est.histogram("age")
    assert found.uncut[0].min() < 0 <= found.low.min()
    assert est.count("age=..7").high == pytest.approx(whole)
    assert est.count("age=..7", population=True).high > whole  # other people weigh something else


def test_linear_questions_end_where_their_weights_allow(unbiased: Any) -> None:
    rows = np.zeros((2, 30))
    rows[0, :15], rows[0, 15:], rows[1] = -1.0, 2.0, 4.0
    found = unbiased.linear(rows)
    assert found.low[0] >= -80
    assert found.high[0] <= 160
    assert (found.low[1], found.values[1], found.high[1]) == pytest.approx((320, 320, 320))


def test_a_cut_bin_leaves_room_for_all_of_its_people() -> None:
    axis = sf.reals("pay", 0, 100, bins=4, protect=sf.Distance(1, per=25))
    est = sf.Study("cut", [axis]).simulate({"pay": [10.0] * 50}, seed=1).estimate("unbiased")
    found = est.count(pay=(5, 15))
    assert found.limits == (0, 50)


def test_releases_end_within_zero_and_everybody(study: sf.Study, tmp_path: Path) -> None:
    data = sf.central.Data(study, PEOPLE)
    ledger = sf.central.Ledger.create(tmp_path / "ledger.json", study)
    made = sf.central.release(
        data,
        sf.central.Laplace(["age=5", "town=Oak", "age=..8"]),
        ledger=ledger,
        spend="1/2",
        bits=sf.SeededBits(1),
    )
    assert np.all(made.answers.low >= 0)
    assert np.all(made.answers.high <= 80)
    assert np.any(made.answers.uncut[0] < 0)


def test_the_command_line_prints_and_writes_the_cut_ends(study: sf.Study, tmp_path: Path) -> None:
    files = [str(tmp_path / "study.toml"), str(tmp_path / "tally.parquet")]
    study.save(files[0])
    study.simulate(PEOPLE, seed=3).save(files[1])

    def run(command: str, *words: str) -> str:
        return CliRunner().invoke(app, [command, *files, *words]).stdout

    for method in ("unbiased", "likelihood"):
        found = json.loads(run("histogram", "age", "--method", method, "--json"))
        assert min(found["low"]) >= 0
        assert max(found["high"]) <= 80
        (one,) = json.loads(run("ask", "age=5", "--method", method, "--json"))["answers"]
        assert one["low"] == 0 < one["high"]
        assert "-" not in run("ask", "age=5", "--method", method).split("±")[1]


def test_pictures_draw_the_interval_and_not_what_was_cut(unbiased: Any) -> None:
    found = unbiased.histogram("town", where="age=5..6")
    assert found.values.min() < 0  # this value lies outside its own interval
    drawn = found.plot()
    ends = [path.vertices[:, 0] for c in drawn.axes[0].collections for path in c.get_paths()]
    np.testing.assert_allclose(ends, np.c_[found.low, found.high])
    plt.close(drawn)


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_below_one_has_finite_ends(estimate: Any, level: float) -> None:
    count = estimate.count("age=1", level=level)
    assert math.isfinite(count.uncut[0])
    share = estimate.fraction("town=Ash", where="age=1", level=level)  # perhaps of nobody
    for answer in (count, share):
        assert answer.uncut[0] <= answer.value <= answer.uncut[1]
    assert normal_quantile(level) == pytest.approx(math.sqrt(2) * erfinv(level), rel=1e-12)


def test_levels_are_told_apart_up_to_the_last() -> None:
    found = [normal_quantile(level) for level in LEVELS]
    assert found == sorted(set(found))
    assert 8 < found[-1] < 9  # P(|Z| > z) is 2**-53
