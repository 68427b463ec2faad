"""The channel chosen on a line is near the best, for the decoder and the number of people."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers_planning import ROOT, chosen_id, linear_ratio, near_the_best, unbiased_regret

import sfumato as sf
from benchmarks import choice
from sfumato.study.choose import choose_channel

GRID_SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256)
GRID_CURVES = (0.02, 0.1, 0.3, 0.7, 1.2, 1.5, 1.8, 2.2, 3.0, 6.0, 20.0)


@pytest.mark.slow
@pytest.mark.parametrize("size", GRID_SIZES)
def test_unbiased_choice_is_within_a_tenth_of_the_best(size: int) -> None:
    # n is a common factor of unbiased errors, so one stands for all.
    for curve, axes in itertools.product(GRID_CURVES, (1, 2, 3)):
        regret = unbiased_regret(size, math.sqrt(curve / size), axes, "unbiased")
        assert regret <= 1.10, (size, curve, axes, regret)


def test_always_taking_one_channel_would_not_be_within_a_tenth() -> None:
    assert unbiased_regret(8, 0.1, 2, "geometric") > 1.5
    assert unbiased_regret(64, 0.5, 2, "thermometer") > 1.5


CHOICE = json.loads((ROOT / "results/bench/choice.json").read_text(encoding="utf-8"))["figures"]


def measured_at(size: int, curve: float, n: int) -> dict[str, Any]:
    where = (1, size, curve, n)
    (row,) = (r for r in CHOICE if (r["axes"], r["m"], r["ε²·m"], r["people"]) == where)
    return row


def recorded(row: dict[str, Any]) -> choice.Ratio:
    ratio = row["thermometer/geometric"]
    return choice.Ratio(math.log(ratio), row["standard error"] / ratio, row["rounds"])


def test_likelihood_choice_is_within_a_tenth_of_the_best_wherever_it_was_measured() -> None:
    assert {(row["axes"], row["m"], row["ε²·m"], row["people"]) for row in CHOICE} >= {
        *choice.grid()
    }
    for row in CHOICE:
        epsilon = choice.epsilon_at(row["m"], row["ε²·m"])
        chosen = chosen_id(row["m"], epsilon, "likelihood", row["people"])
        assert chosen == row["chosen"], "run: python -m benchmarks choice"
        assert near_the_best(recorded(row), chosen), row


def test_a_choice_that_ignores_the_number_of_people_would_not_be() -> None:
    at_few = recorded(measured_at(12, 0.4, 1_000))
    epsilon = choice.epsilon_at(12, 0.4)
    for ignoring in (
        chosen_id(12, epsilon, "unbiased"),
        chosen_id(12, epsilon, "likelihood"),  # planned for the typical number
    ):
        assert ignoring == "thermometer"
        assert not near_the_best(at_few, ignoring)
    assert not near_the_best(recorded(measured_at(12, 0.4, 100_000)), "geometric")


@pytest.mark.slow
@pytest.mark.parametrize(("size", "curve", "n"), [(12, 0.4, 1_000), (8, 0.4, 10_000)])
def test_recorded_ratios_of_likelihood_errors_are_reproduced(
    size: int, curve: float, n: int, record_property: Callable[[str, object], None]
) -> None:
    # 12 rounds of 4 populations: a standard error of about 8 %, so 4 of them tell 1.3 from 1/1.3.
    again = choice.measured(size, choice.epsilon_at(size, curve), n, count=12, seed=1)
    record_property("ratio", math.exp(again.log))
    known = recorded(measured_at(size, curve, n))
    limit = 4 * math.hypot(again.stderr, known.stderr)
    assert abs(again.log - known.log) <= limit
    assert abs(again.log - known.log + math.copysign(0.55, known.log)) > limit  # the other way


def test_linear_theory_explains_the_measured_ratios() -> None:
    rows = [row for row in CHOICE if row["axes"] == 1]

    def unexplained(people: int | None) -> float:
        """Root mean square of what neither theory nor the errors of measuring account for."""
        squares = []
        for row in rows:
            known, n = recorded(row), people or row["people"]
            theory = linear_ratio(row["m"], choice.epsilon_at(row["m"], row["ε²·m"]), n)
            squares.append((known.log - theory.log) ** 2 - known.stderr**2)
        return math.sqrt(np.mean(squares))

    assert unexplained(None) < 0.10
    assert unexplained(10_000) > 0.15  # the number of people is what matters


@pytest.mark.slow
@pytest.mark.parametrize("size", [3, 4, 6, 8, 12, 16, 24, 32, 48])
def test_the_choice_is_near_the_best_in_theory_beyond_what_was_measured(size: int) -> None:
    # The theory is off by up to a tenth itself, so 1.15 here; ignoring people costs more than 1.4.
    worst = dict.fromkeys(("stated", "geometric", "thermometer"), 0.0)
    for curve, n in itertools.product(
        (0.01, 0.03, 0.1, 0.4, 1.2, 1.6, 2.0, 5.0), (30, 300, 3_000, 30_000, 300_000, 1_000_000)
    ):
        epsilon = choice.epsilon_at(size, curve)
        theory = linear_ratio(size, epsilon, n)
        chosen = chosen_id(size, epsilon, "likelihood", n)
        takes = {"stated": chosen, "geometric": "geometric", "thermometer": "thermometer"}
        for name, taken in takes.items():
            worst[name] = max(worst[name], theory.regret(taken))
    assert worst["stated"] <= 1.15
    assert max(worst["geometric"], worst["thermometer"]) > 1.4


def test_the_page_shows_the_recorded_ratios() -> None:
    text = (ROOT / choice.PAGE).read_text(encoding="utf-8")
    assert text == choice.with_table(text, CHOICE), "run: python -m benchmarks.choice"
    other = [row | {"thermometer/geometric": 2 * row["thermometer/geometric"]} for row in CHOICE]
    assert text != choice.with_table(text, other)


def test_a_ratio_knows_its_regret_and_its_error() -> None:
    rng = np.random.default_rng(1)
    scale = np.array([[1.0, 2.0], [2.25, 4.5]])  # errors 1.5 times as large
    many = [choice.Ratio.of(scale * rng.chisquare(2, (40, 2, 2))) for _ in range(400)]
    logs = np.array([one.log for one in many])
    assert logs.mean() == pytest.approx(math.log(1.5), abs=4 * logs.std() / 20)
    # The spread of 400 draws is known to 1/√800 = 3.5 %; 4 of those.
    assert np.mean([one.stderr for one in many]) == pytest.approx(logs.std(), rel=0.15)
    one = choice.Ratio(math.log(1.5), 0.01, 40)
    assert one.regret("thermometer") == pytest.approx(1.5)
    assert one.regret("geometric") == 1
    assert near_the_best(one, "geometric")
    assert not near_the_best(one, "thermometer")


def metric_of(cells: int, epsilon: float = 0.1) -> Any:
    return sf.integers("a", 0, cells - 1, protect=sf.Distance(epsilon)).metric()


def test_the_choice_depends_on_decoder_and_people() -> None:
    assert choose_channel(metric_of(64))[0] == sf.Geometric()
    assert choose_channel(metric_of(64), method="unbiased")[0] == sf.Thermometer()
    assert choose_channel(metric_of(64), method="unbiased", people=1)[0] == sf.Thermometer()
    assert choose_channel(metric_of(8))[0] == sf.Thermometer()
    assert choose_channel(metric_of(8, 0.2), people=2_896)[0] == sf.Geometric()
    assert choose_channel(metric_of(8, 0.2), people=2_897)[0] == sf.Thermometer()
    assert choose_channel(metric_of(4, 0.05), people=11_999)[0] == sf.Geometric()
    assert choose_channel(metric_of(4, 0.05), people=12_000)[0] == sf.Thermometer()
    assert choose_channel(metric_of(8, 1.0), people=10**9)[0] == sf.Geometric()
    # 2^26 numbers are decoded at most: 64 cells times a million people fit, two million do not.
    assert choose_channel(metric_of(64), people=1_000_000)[0] == sf.Thermometer()
    chosen = choose_channel(metric_of(64), people=2_000_000)
    assert chosen.choice == sf.Geometric()
    assert "2,000,000 people thermometer reports are too many to decode" in chosen.reason


def test_the_reason_gives_the_exact_ratio_of_unbiased_variances() -> None:
    reason = choose_channel(metric_of(64))[1]
    g, t = (
        np.mean(
            [
                s.channels[0].second_moment(np.arange(64) <= k) - (np.arange(64) <= k)
                for k in range(63)
            ]
        )
        for s in (choice.line_study(64, 0.1, channel) for channel in choice.CHANNELS.values())
    )
    assert f"{g / t:.2g} times the thermometer's variance" in reason
    study = sf.Study("s", [sf.integers("a", 0, 63, protect=sf.Distance(0.1))])
    assert reason in " ".join(study.explain().split())


def test_explain_states_the_number_of_people_assumed() -> None:
    axis = sf.integers("a", 0, 7, protect=sf.Distance(0.1))
    silent, few, many = (sf.Study("s", [axis], people=n) for n in (None, 1_000, 50_000))
    assert "for 10,000 people, assumed as no number is stated" in " ".join(silent.explain().split())
    assert "Made for" not in silent.explain()
    assert few.explain().splitlines()[1] == "Made for about 1,000 people."
    assert "because for 1,000 people likelihood answers" in " ".join(few.explain().split())
    assert [s.blocks[0].choice.id for s in (silent, few, many)] == [
        "thermometer",
        "geometric",
        "thermometer",
    ]
    assert silent.fingerprint == many.fingerprint != few.fingerprint


def test_mean_square_of_ranges_is_the_mean_over_each_of_them() -> None:
    off = np.random.default_rng(1).normal(size=(4, 3))
    squares = [
        off[a : b + 1, c : d + 1].sum() ** 2
        for a, b in itertools.combinations_with_replacement(range(4), 2)
        for c, d in itertools.combinations_with_replacement(range(3), 2)
    ]
    assert choice.mean_square_of_ranges(off) == pytest.approx(np.mean(squares))
