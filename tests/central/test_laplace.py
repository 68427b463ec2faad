"""Laplace noise: exactly private, unbiased, with the error that it states."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from helpers_central import STUDIES, SURVEY, flat, line, moves, one_axis, tables, two_axes

import sfumato as sf
from sfumato import central
from sfumato.central.data import Data
from sfumato.central.laplace import Laplace, PreparedLaplace
from sfumato.central.ledger import Ledger
from sfumato.central.space import Space
from sfumato.errors import StudyError
from sfumato.exact import at_most_exp, exp_bounds
from sfumato.randomness.bits import SeededBits
from sfumato.randomness.laplace import laplace_variance, sum_quantile

SPACES = {"flat": flat(3, 1), "line": line(3, 0.5, "1/3"), "weak": line(3, 4)}


ROWS = sf.questions.Given([[1, 0, 0], [1, 1, 0], [0, 0.5, 0.25]])


def tail(rate: Fraction, least: int, bits: int = 256) -> tuple[Fraction, Fraction]:
    """Bounds on P(z ≥ least) of discrete Laplace noise, α^k/(1+α) for k > 0, in rationals."""
    if least <= 0:
        low, high = tail(rate, 1 - least)
        return 1 - high, 1 - low
    one = 1 << bits
    low_e, high_e = exp_bounds(rate, bits)
    low_p, high_p = exp_bounds(rate * least, bits)
    # α^k/(1 + α) = e^rate/(e^(rate·k)·(1 + e^rate)), which grows with e^rate.
    return (
        Fraction(low_e * one, high_p * (one + low_e)),
        Fraction(high_e * one, low_p * (one + high_e)),
    )


def noisy_rates(prepared: PreparedLaplace) -> list[Fraction]:
    rates = prepared.design.measurements.rates
    assert all(rates)
    return [Fraction(rate) for rate in rates if rate is not None]


# Laplace


def test_a_single_question_has_the_noise_of_its_steepest_pair() -> None:
    study = one_axis(sf.Distance("2/3"), ordered=True)
    prepared = central.Laplace(["x=2.."]).prepare(central.Space(study, "1/2"), 50)
    assert prepared.design.measurements.rates == (Fraction(1, 3),)
    assert prepared.stderr[0] == pytest.approx(math.sqrt(laplace_variance(Fraction(1, 3))))
    assert prepared.reach[0] == sum_quantile([1], [Fraction(1, 3)], 0.95)


@pytest.mark.parametrize("axes", [2, 3])
def test_one_coordinate_costs_the_same_however_many_axes_are_together(axes: int) -> None:
    """Under L∞ a change of one coordinate by k is E = ε·k: axes together pay for no more.

    Stated for the whole study, each axis has ε/D, so that the noise is D times as large.
    """
    names = "xyz"[:axes]

    def study(*, together: bool) -> sf.Study:
        numbers = [sf.integers(name, 0, 3) for name in names]
        norm = sf.Lp(1, "inf")
        if together:
            return sf.Study("whole", [sf.together(numbers, protect=norm)])
        return sf.Study("whole", numbers, protect=norm)

    asked = central.Laplace("x=..1", "questions")
    exact, split = (central.Space(study(together=together), 1) for together in (True, False))
    cells = 4**axes
    assert exact.exact(0, cells - 1) == 3  # all coordinates move by three
    assert exact.exact(0, 3 * cells // 4) == 3  # the first one alone
    assert split.exact(0, cells - 1) == 3
    assert split.exact(0, 3 * cells // 4) == Fraction(3, axes)
    # One person moves the count by one, which E = 1 or 1/D must cover.
    (least,) = asked.prepare(exact, 1_000).stderr
    (larger,) = asked.prepare(split, 1_000).stderr
    law = central.Laplace("x=..1", "questions").prepare(
        central.Space(sf.Study("one", [sf.integers("x", 0, 3, protect=sf.Distance(1))]), 1), 1_000
    )
    assert least == pytest.approx(law.stderr[0])
    assert larger > (axes - 0.1) * least


def test_what_the_study_does_not_protect_is_told_exactly() -> None:
    study = STUDIES["blocks"]
    data = central.Data.from_counts(study, [5, 6, 7, 8])
    prepared = central.Laplace(["x=a|b", "x=a"]).prepare(central.Space(study), data.n)
    answers = prepared.run(data.counts(), SeededBits(3)).answers
    assert (answers.values[0], answers.stderr[0]) == (11, 0)
    assert answers.stderr[1] > 0


def test_everyone_is_known_without_noise() -> None:
    study = two_axes()
    data = central.Data.from_counts(study, np.arange(18))
    prepared = central.Laplace(["age=..", "mode=car|bus|bike"]).prepare(
        central.Space(study), data.n
    )
    answers = prepared.run(data.counts(), SeededBits(1)).answers
    assert answers.values.tolist() == [data.n, data.n]
    assert answers.stderr.tolist() == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two", "together"])
def test_strategies_answer_without_bias_and_with_the_error_they_state(name: str) -> None:
    study, other = STUDIES[name], {"two": "mode=bus", "together": "x=1..2, y=1"}[name]
    truth = np.arange(18) * 3
    space = central.Space(study, 1)
    runs = 250
    for strategy in ("questions", "identity", "prefix", "hierarchical", "haar"):
        mechanism = central.Laplace(["ranges of age", f"age=2.., {other}"], strategy)
        prepared = mechanism.prepare(space, int(truth.sum()))
        exact = prepared.asked.workload @ truth.astype(float)
        bits = SeededBits(11)
        found = np.array([prepared.run(truth, bits).answers.values for _ in range(runs)])
        stderr = prepared.stderr
        z = (found.mean(axis=0) - exact) / (np.where(stderr > 0, stderr, 1) / math.sqrt(runs))
        assert np.abs(z).max() < 5  # of 22 questions
        # A mean square of numbers with kurtosis up to 6 has relative error sqrt(5/runs); that of
        # several questions, however correlated, no more.
        spread = np.square(found - exact).mean(axis=0)[stderr > 0] / stderr[stderr > 0] ** 2
        assert abs(spread.mean() - 1) < 4 * math.sqrt(5 / runs)
        assert abs(2 * spread.mean() - 1) > 4 * math.sqrt(5 / runs)  # the twin
        shifted = (found.mean(axis=0) + 0.5 * stderr - exact) / np.where(stderr > 0, stderr, 1)
        assert np.abs(shifted * math.sqrt(runs)).max() > 5  # the twin: half an error off is seen


TEN = [sf.integers(name, 0, 9) for name in "xy"]
THOUSAND = {
    "one axis": [sf.integers("x", 0, 999, protect=sf.Uniform(1))],
    "two together": [
        sf.together(TEN, protect=sf.Uniform(1)),
        sf.integers("z", 0, 9, protect=sf.Uniform(1)),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("axes", THOUSAND.values(), ids=THOUSAND.keys())
def test_intervals_hold_the_truth_as_often_as_they_say(axes: Any) -> None:
    study = sf.Study("many", axes)
    prepared = central.Laplace("identity", level=0.9).prepare(central.Space(study), 5000)
    counts = np.zeros(1000, dtype=np.int64)
    counts[0] = 5000
    answers = prepared.run(counts, SeededBits(5)).answers
    off = np.abs(answers.values - counts)
    held = float(np.mean(off <= prepared.reach))
    rate = prepared.design.measurements.rates[0]
    assert rate is not None
    exact = 1 - 2 * math.exp(-float(rate) * (prepared.reach[0] + 1)) / (1 + math.exp(-float(rate)))
    error = math.sqrt(exact * (1 - exact) / 1000)
    assert exact >= 0.9
    assert abs(held - exact) < 4 * error
    assert abs(np.mean(off <= 0.8 * prepared.reach) - exact) > 4 * error  # the twin: too narrow
    variance = float(np.mean(off**2))
    wanted = laplace_variance(rate)
    kurtosis = 6.0  # of Laplace noise, a little less on a lattice
    assert abs(variance / wanted - 1) < 4 * math.sqrt((kurtosis - 1) / 1000)
    assert abs(variance * 1.5 / wanted - 1) > 4 * math.sqrt((kurtosis - 1) / 1000)


def test_the_same_seed_gives_the_same_release() -> None:
    prepared = central.Laplace("2-way", "hierarchical").prepare(central.Space(two_axes()), 153)
    counts = np.arange(18)
    first, second, third = (prepared.run(counts, SeededBits(k)).answers.values for k in (1, 1, 2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, third)


def test_weights_move_noise_from_one_question_to_another() -> None:
    space = central.Space(one_axis(sf.Uniform(1)), "1/4")
    plain = central.Laplace(["x=a", "x=b"]).prepare(space, 10).stderr
    heavy = central.Laplace(["x=a", "x=b"], weights=[10, 1]).prepare(space, 10).stderr
    assert plain[0] == pytest.approx(plain[1])
    assert heavy[0] < plain[0] < heavy[1]


def test_coefficients_that_are_rounded_are_counted_in_the_error() -> None:
    study = one_axis(sf.Uniform(1))
    rows = sf.questions.Given([[0.1234567890123, 1 / 3, 0.7, 0.0]])
    prepared = central.Laplace(rows).prepare(central.Space(study), 1000)
    assert 0 < prepared.bias[0] < 1000 * 2**-20
    assert "off by up to" in prepared.notes[0]
    counts = np.array([1000, 0, 0, 0])
    measured = prepared.design.measurements.lattice.matrix() @ counts + prepared.shift
    assert abs(measured[0] - 123.4567890123) <= prepared.bias[0] * (1 + 1e-9)


def test_an_axis_on_which_nothing_is_spent_may_not_be_asked_about() -> None:
    study = two_axes()
    space = central.Space(study, {"age": "1/2"})
    central.Laplace("ranges of age").prepare(space, 10)
    with pytest.raises(sf.StudyError, match="axis 'mode', on which this release spends nothing"):
        central.Laplace(["age=2.., mode=bus"]).prepare(space, 10)
    rows = sf.questions.parse(study, ["age=2.., mode=bus"])
    with pytest.raises(sf.StudyError, match=r"mode car' and .* are at distance 0") as caught:
        central.Laplace(rows).prepare(space, 10)
    assert "mode=bus" in str(caught.value)


def test_a_strategy_that_cannot_express_a_question_names_it() -> None:
    study = one_axis(sf.Uniform(1))
    strategy = sf.questions.Given([[1, 1, 0, 0], [0, 0, 1, 0]])
    mechanism = central.Laplace(["x=a|b", "x=a", "x=d"], strategy)
    with pytest.raises(sf.StudyError, match=r"cannot express 1 of 3 questions: 'x=a' \(residual"):
        mechanism.prepare(central.Space(study), 10)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"strategy": "prefixes"}, "did you mean 'prefix'"),
        ({"allocation": "best"}, "allocation must be 'exact'"),
        ({"bias": "some"}, "bias must be"),
        ({"bias": "optimised", "strategy": "prefix"}, "strategy must be left out"),
        ({"weights": [1, 2]}, "one per question"),
        ({"weights": [0]}, "weights must be positive and finite"),
        ({"strategy": sf.questions.Identity(7)}, "one column for each of 4 cells, got 7"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(sf.StudyError, match=words):
        central.Laplace(["x=a"], **options).prepare(central.Space(one_axis(sf.Uniform(1))), 10)


class TestOfTheWrongKind:
    def test_a_strategy_that_is_a_bare_matrix(self) -> None:
        with pytest.raises(StudyError, match=r"got ndarray: .*questions\.Given\(matrix\)"):
            Laplace("cells of sex", strategy=np.eye(20))  # type: ignore[arg-type]
        given = Laplace("cells of sex", strategy=sf.questions.Given(np.eye(20)))
        assert given.prepare(Space(SURVEY), 30).details()["strategy"] == "a given strategy"

    def test_a_path_for_a_study(self, tmp_path: Path) -> None:
        with pytest.raises(StudyError, match=r"must be a Study, got str: .*Study\.load"):
            Ledger.create(tmp_path / "b.ledger", "a.toml")  # type: ignore[arg-type]
        assert not list(tmp_path.iterdir())
        with pytest.raises(StudyError, match="must be a Study, got NoneType"):
            Data(None, {})  # type: ignore[arg-type]

    def test_a_statement_that_knows_no_cells(self) -> None:
        rows = np.eye(3)
        for unlike in (sf.Uniform(1), sf.categories("x", ["a", "b", "c"], protect=sf.Uniform(1))):
            with pytest.raises(StudyError, match=rf"axis\.metric\(\).*{type(unlike).__name__}"):
                sf.allocate(rows, unlike)  # type: ignore[arg-type]
        assert sf.allocate(rows, unlike.metric()).scales.tolist() == [2.0] * 3

    def test_a_matrix_of_questions_is_not_written_out_in_the_ledger(self) -> None:
        assert Laplace(np.ones((4, 20))).describe() == "Laplace noise on a matrix of 4 × 20"


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())
@pytest.mark.parametrize("strategy", ["questions", "identity", "prefix"])
def test_lattice_noise_keeps_every_distance_by_formula(space: Space, strategy: str) -> None:
    """log P(o | x) − log P(o | x′) = Σ_k rate_k·(|o − a′_k| − |o − a_k|), a rational number."""
    prepared = Laplace(ROWS, strategy).prepare(space, 3)
    measured = prepared.design.measurements
    rates = [rate or Fraction(0) for rate in measured.rates]
    spent = []
    for counts in tables(3, 3):
        here = measured.lattice.totals(counts).tolist()
        for i, j, moved in moves(counts):
            there = measured.lattice.totals(moved).tolist()
            distance = space.exact(i, j)
            assert distance is not None
            # Outputs at and beyond both ends; in between the difference is between those.
            worst = sum(
                max(rate * (abs(o - b) - abs(o - a)) for o in (a, b, a + 50, a - 50))
                for rate, a, b in zip(rates, here, there, strict=True)
            )
            assert worst <= distance
            spent.append(worst / distance)
    assert max(spent) > 1 - Fraction(1, 10**6)  # all that may be spent is spent somewhere


@pytest.mark.slow
@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())
def test_events_keep_every_distance_by_exact_sums(space: Space) -> None:
    """P(first ≥ s, second ≥ t, third ≥ u), summed in rationals, for all tables and thresholds."""
    prepared = Laplace(ROWS, "questions").prepare(space, 2)
    measured, rates = prepared.design.measurements, noisy_rates(prepared)
    thresholds = (-3, 0, 1, 4)
    grids = np.array(np.meshgrid(*[thresholds] * 3)).reshape(3, -1).T.tolist()
    for counts in tables(3, 2):
        here = measured.lattice.totals(counts).tolist()
        for i, j, moved in moves(counts):
            there = measured.lattice.totals(moved).tolist()
            distance = space.exact(i, j)
            assert distance is not None
            for event in grids:
                upper, lower = Fraction(1), Fraction(1)
                for rate, a, b, t in zip(rates, here, there, event, strict=True):
                    upper *= tail(rate, t - a)[1]
                    lower *= tail(rate, t - b)[0]
                assert at_most_exp(upper / lower, distance + Fraction(1, 2**200))


def test_exact_sums_are_those_of_the_law() -> None:
    """The helper above against direct summation, and a rate 5 % off would be seen."""
    with mp.workdps(40):
        for rate, least in ((Fraction(1, 3), 4), (Fraction(1, 3), -2), (Fraction(2), 0)):
            alpha = mp.exp(-mp.mpf(rate.numerator) / rate.denominator)
            law = (1 - alpha) / (1 + alpha)
            direct = law * mp.nsum(lambda z, a=alpha: a ** abs(z), [least, mp.inf])
            low, high = tail(rate, least)
            assert float(low) <= float(direct) * (1 + 1e-12)
            assert float(high) >= float(direct) * (1 - 1e-12)
            assert high - low < Fraction(1, 2**200)
            other = tail(rate * Fraction(105, 100), least)
            assert not other[0] <= (low + high) / 2 <= other[1]
