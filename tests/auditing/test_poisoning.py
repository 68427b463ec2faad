"""The poisoning check: honest reports of any population pass, and reports of none are found."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from helpers_contract import TRIALS, Subject
from helpers_contract_study import Case
from helpers_poisoning import CELLS, EXTREMES, PEOPLE, SHARE, SMOOTH, lumped, most_alarms, study_of
from scipy import stats

import sfumato as sf
from sfumato.arrays import BitColumns
from sfumato.auditing import poisoning, tails
from sfumato.auditing.reachable import Reach
from sfumato.collect.statistics import BitReports, SymbolCounts
from sfumato.errors import DataError, QuestionError, StudyError

Counts = Any


def tallied(study: sf.Study, counts: Counts) -> sf.Tally:
    """A tally of one block with these counts of outputs; bits as patterns, bit 0 lowest."""
    counts = np.asarray(counts, dtype=np.int64)
    (layout,) = study.layouts
    sent = np.arange(len(counts))
    if layout.kind == "symbols":
        return sf.Tally(study, SymbolCounts.of(study.layouts, [sent], counts))
    rows = np.repeat(sent, counts)[:, None] >> np.arange(layout.count) & 1
    bits = BitColumns.from_matrix(rows.astype(np.bool_))
    return sf.Tally(study, BitReports(study.layouts, (bits,), len(rows)))


# Honest reports

HONEST = {
    "geometric": study_of(sf.Distance(0.5), sf.Geometric(), 16),
    "k-ary": study_of(sf.Uniform(1), sf.KaryResponse(), 6),
    "thermometer": study_of(sf.Distance(0.3), sf.Thermometer(), 16),
    "OUE": study_of(sf.Uniform(1), sf.OUE(), 14),
    "HRR": study_of(sf.Uniform(1), sf.HRR(), 12),
    "levels": study_of(sf.Uniform(1), sf.Hierarchical(), 12),
    "two": study_of(sf.Distance(0.5), sf.Geometric(), 6, axes=2),
}
#: Levels at which p-values are compared with the share of runs that fall below.
LEVELS = (0.2, 0.05, 0.01)
RUNS = 3  # of each population and number of people


def least_p(study: sf.Study, people: int, seed: int) -> list[float]:
    """p-values of honest reports of each extreme population, in turn."""
    found = []
    for number, population in enumerate(EXTREMES.values()):
        shares = population(math.prod(study.shape))
        counts = np.floor(people * shares / shares.sum()).astype(np.int64)
        tally = study.simulate_counts(counts.reshape(study.shape), seed=seed * 100 + number)
        found.append(tally.check().p_value)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize("people", [100, 20_000])
def test_honest_reports_of_any_population_pass(name: str, people: int) -> None:
    found = np.array([least_p(HONEST[name], people, seed) for seed in range(RUNS)])
    for level in LEVELS:
        assert (found <= level).sum() <= most_alarms(found.size, level), level


@pytest.mark.slow
def test_honest_reports_of_a_million_people_pass() -> None:
    study = study_of(sf.Distance(0.5), sf.Geometric(), CELLS)
    assert min(least_p(study, 1_000_000, seed=1)) > 0.01


@pytest.mark.slow
def test_the_test_of_false_alarms_finds_one_without_halves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Learning h from the reports it is applied to makes honest reports look impossible."""
    right = Reach._values
    monkeypatch.setattr(
        Reach,
        "_values",
        lambda self, learn, test, law, steps: right(self, test, test, law, steps),
    )
    study = study_of(sf.Uniform(1), sf.HRR(), 64)
    found = np.array([least_p(study, 20_000, seed) for seed in range(RUNS)])
    assert (found <= 0.01).sum() > most_alarms(found.size, 0.01)


def test_the_test_of_false_alarms_finds_one_that_knows_the_population(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Chances of people spread evenly in place of the most of any cell."""
    right = poisoning._frequency
    monkeypatch.setattr(
        poisoning,
        "_frequency",
        lambda law, counts, total: right(law.mean(axis=0, keepdims=True), counts, total),
    )
    assert min(least_p(HONEST["k-ary"], 20_000, seed=1)) < 0.01


# Clients that all send one report


@pytest.mark.slow
@pytest.mark.parametrize("population", SMOOTH)
@pytest.mark.parametrize("cell", [0, 1, 2, 77, CELLS // 2, CELLS - 2, CELLS - 1])
def test_one_report_from_5_percent_is_found(cell: int, population: str) -> None:
    found = lumped(population, cell, seed=cell).check()
    assert found.alarm
    (mixture,) = (test for test in found.tests if test.kind == "mixture")
    assert mixture.p_value < 1e-6
    # At an end the reports beside it are missing even more than those at the end are too many.
    beside = {0: 1, CELLS - 1: CELLS - 2}.get(cell, cell)
    assert any(f"report {one} is the least like" in mixture.words for one in (cell, beside))


def test_one_report_hides_where_both_neighbours_have_many_people() -> None:
    """One fake at y looks like 1 + 2a people at y and −a at both sides, a = α/(1 − α)²."""
    (channel,) = study_of(sf.Distance(0.5), sf.Geometric(), CELLS).channels
    alpha = math.exp(-0.5)
    a = alpha / (1 - alpha) ** 2
    told = channel.gather(np.eye(CELLS)[100])
    assert told[98:103] == pytest.approx([0, -a, 1 + 2 * a, -a, 0], abs=1e-9)
    needed = SHARE * a / (1 - SHARE)  # of the others, in each neighbouring cell
    assert needed == pytest.approx(0.206, abs=5e-4)
    for share, hidden in ((needed * 1.05, True), (needed * 0.75, False)):
        people = np.full(CELLS, (1 - 2 * share) / (CELLS - 2))
        people[[99, 101]] = share
        assert lumped(people, 100, seed=5).check().alarm != hidden
    # At an end a fake looks like 1/(1 − α) people there and −α/(1 − α) beside it.
    assert channel.gather(np.eye(CELLS)[0])[:3] == pytest.approx(
        [1 / (1 - alpha), -alpha / (1 - alpha), 0], abs=1e-9
    )


# Every registered channel


@cache
def case(name: str) -> tuple[sf.Study, Any]:
    """The study of a trial, and the law of its outputs."""
    subject = Subject.of(TRIALS[name])
    return Case.of(subject).study, subject.cell_law


def sends_bits(name: str) -> bool:
    return case(name)[0].layouts[0].kind == "bits"


@pytest.mark.parametrize("name", TRIALS)
def test_honest_reports_of_every_channel_pass(name: str) -> None:
    study, law = case(name)
    for number, row in enumerate((law[0], law[-1], law.mean(axis=0), (law[0] + law[-1]) / 2)):
        rng = np.random.default_rng(number)
        # A p-value of 1e-4 has a chance of 1e-4: in about 700 checks, one in 14 times for a seed.
        found = tallied(study, rng.multinomial(3_000, row)).check()
        assert found.p_value > 1e-4
        assert not found.left_out


@pytest.mark.parametrize("name", TRIALS)
def test_what_every_channel_says_hides_does(name: str) -> None:
    study, law = case(name)
    even, outputs = law.mean(axis=0), law.shape[1]
    (spot,) = tallied(study, even * 1e5).check().blind
    assert spot.alike is not None
    assert spot.weight is not None
    if spot.alike > 0:
        # As many people as reports can be kept of, sent exactly as expected: no noise can help.
        hidden = [
            p_of_mixture(law, (1 - spot.alike) * even + spot.alike * np.eye(outputs)[y])
            for y in range(outputs)
        ]
        assert max(hidden) > 0.1
    if math.isfinite(spot.weight):
        share = 0.2 / spot.weight  # of clients, who pass for 20 % of people at one cell
        reached = [0.2 * row + 0.8 * even - (1 - share) * even for row in law]
        assert max(sent.min() for sent in reached) > -1e-9  # the rest is what they send


@pytest.mark.parametrize("name", TRIALS)
def test_more_than_hides_is_found_on_every_channel(name: str) -> None:
    """Everybody sends one report that not all people send: some such report is always found."""
    study, law = case(name)
    even, outputs = law.mean(axis=0), law.shape[1]
    (spot,) = tallied(study, even * 1e5).check().blind
    assert spot.alike is not None
    share = (1 + spot.alike) / 2
    if spot.alike > 0.9:
        return  # nearly all people may send it, for all that is known of them
    if law.max() > 1 - 1e-4:
        return  # people of some cell nearly always send the same: it takes more reports than here
    for y in range(min(outputs, 2)):
        if law[:, y].max() <= 0:
            continue
        sent = (1 - share) * even + share * np.eye(outputs)[y]
        assert tallied(study, np.rint(sent * 1e5)).check().alarm, y


def p_of_mixture(law: Any, sent: Any) -> float:
    """The p-value of counts that are exactly as expected of a law, for a million reports."""
    reach = Reach((law,), (len(law),))
    return reach.evidence(np.rint(sent * 1e6).astype(np.int64), 500).p_value


@pytest.mark.parametrize(
    "name", [name for name in TRIALS if case(name)[0].layouts[0].kind == "bits"]
)
def test_rates_of_bits_are_those_of_the_law(name: str) -> None:
    study, law = case(name)
    (channel,) = study.channels
    ones = np.arange(law.shape[1])[:, None] >> np.arange(channel.width) & 1
    assert channel.bit_rates() == pytest.approx(law @ ones, rel=1e-12)


# Attacks on the levels, the columns and the pairs


def test_levels_drawn_unlike_the_protocol_are_found() -> None:
    """Honest signs, but every client prefers one column of the Hadamard matrix."""
    study = study_of(sf.Uniform(1), sf.HRR(), 16)
    counts = study.simulate_counts(np.full(16, 1_000), seed=3).statistic.people.copy()
    counts[10:12] += 200
    found = tallied(study, counts).check()
    assert found.alarm
    assert tails.runs(study.channels[0].likelihood()) == [(2 * k, 2 * k + 2) for k in range(1, 16)]


def bits_of(study: sf.Study, cells: Any, seed: int) -> Any:
    """Honest bits, one row per client."""
    (found,) = study.encode({"x": cells}, bits=sf.SeededBits(seed)).outputs
    return found.to_matrix()


def checked_bits(study: sf.Study, rows: Any, keep: Any = "reports") -> sf.Check:
    """The check of rows of bits."""
    reports = sf.Reports(
        study.fingerprint, study.columns, study.layouts, (BitColumns.from_matrix(rows),)
    )
    made = study.accumulator(keep)
    made.add(reports)
    return made.freeze().check()


LONG = {
    "thermometer": study_of(sf.Distance(0.1), sf.Thermometer(), 40),
    "OUE": study_of(sf.Uniform(1), sf.OUE(), 40),
    "tree": study_of(sf.Uniform(1), sf.Hierarchical(oracle="oue"), 40),
}


@pytest.mark.parametrize("keep", ["reports", "sums"])
@pytest.mark.parametrize("name", LONG)
def test_bits_without_noise_are_found(name: str, keep: str) -> None:
    """A tenth of the clients send what has the largest chance, and no noise."""
    study = LONG[name]
    honest = bits_of(study, np.arange(4_000) % 40, seed=1)
    assert not checked_bits(study, honest, keep).alarm
    (channel,) = study.channels
    typical = channel.bit_rates()[7] > channel.bit_rates().mean(axis=0) + 0.01
    faked = np.concatenate([honest[:3_600], np.tile(typical, (400, 1))])
    assert checked_bits(study, faked, keep).alarm


def test_thermometers_that_fall_are_found() -> None:
    """Bit 30 set more often than bit 31: nobody is above 30 and not above 31."""
    study = LONG["thermometer"]
    rows = bits_of(study, np.arange(20_000) % 40, seed=2)
    rows[:1_500, 30], rows[:1_500, 31] = True, False
    found = checked_bits(study, rows, "sums")
    assert found.alarm
    assert "bit 30 is set in" in found.tests[0].words


def test_one_long_report_sent_by_some_is_found() -> None:
    study = LONG["thermometer"]
    rows = bits_of(study, np.arange(4_000) % 40, seed=4)
    rows[:40] = rows[40]  # a thousandth part would do
    found = checked_bits(study, rows)
    assert found.alarm
    assert "one and the same report came 41 times in 4,000" in str(found)
    assert not checked_bits(study, rows, "sums").alarm  # which the result says
    assert "reports that are the same" in str(checked_bits(study, rows, "sums"))


def test_noise_that_two_axes_share_is_found() -> None:
    """Each axis by itself is as if from people; the clients sent the same noise twice."""
    study = study_of(sf.Distance(0.5), sf.Geometric(), 12, axes=2)
    one = study.encode({"x": [5] * 5_000, "y": [5] * 5_000}, bits=sf.SeededBits(1)).outputs[0]
    same = sf.Reports(study.fingerprint, study.columns, study.layouts, (one, one))
    found = study.tally(same).check()
    assert {test.axes for test in found.tests if test.p_value <= 0.01} == {("x", "y")}


# Bounds


def test_tails_are_those_of_the_binomial() -> None:
    counts, chances = np.arange(21), np.linspace(0.02, 0.98, 21)
    at_least = tails.at_least(counts, 20, chances)
    assert at_least == pytest.approx(stats.binom.sf(counts - 1, 20, chances), rel=1e-9)
    at_most = tails.at_most(counts, 20, chances)
    assert at_most == pytest.approx(stats.binom.cdf(counts, 20, chances), rel=1e-9)


def test_bounds_of_sums_of_bits_are_above_the_exact_tails() -> None:
    """Two bits of few people, all patterns of all of them listed."""
    rates = np.array([[0.7, 0.4], [0.3, 0.6], [0.4, 0.4]])
    code = np.array([[True, False], [False, True], [False, False]])
    for first, second in ((8, 2), (9, 9), (1, 0), (10, 1)):
        found = tails.columns(np.array([first, second]), 10, rates, code)
        for row in rates:
            ones = np.convolve(*(stats.binom.pmf(np.arange(11), 10, rate) for rate in row))
            exact = min(ones[first + second :].sum(), ones[: first + second + 1].sum())
            assert found.p_value >= exact * (1 - 1e-9)


def test_reports_that_are_the_same_are_bounded_for_any_number_of_kinds() -> None:
    """Each client sends one of 2^40 reports with the same chance: two alike are no wonder at 10^7.

    The expected number of pairs is n²/2^41, and the bound is n²·2^39/2^80 of it.
    """
    log_most = np.full(1, -40 * math.log(2))
    few = tails.identical(np.array([2]), 1_000, log_most, 0.0)
    assert few.p_value == pytest.approx(math.comb(1_000, 2) / 2**40, rel=1e-3)
    many = tails.identical(np.array([2]), 10_000_000, log_most, 0.0)
    assert many.p_value == 1.0
    # Far below the smallest double.
    tiny = tails.identical(np.array([3]), 1_000, np.full(1, -1e4), 5.0)
    assert 0 <= tiny.p_value < 1e-300


# What is said


def test_it_says_what_it_found_and_what_it_cannot_find() -> None:
    tally = lumped("even", 31, seed=1)
    found = tally.check()
    assert found == tally.check()
    text = str(found)
    assert text.startswith("100,000 reports of study 'poisoned': NO POPULATION EXPLAINS THEM (p ")
    assert "x (geometric): up to 0.25% of clients that all send the same report" in text
    assert "made-up values look like people" in text
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["alarm"] is True
    assert told["p_value"] == found.p_value <= told["significance"] == 0.01
    assert told["fingerprint"] == tally.study.fingerprint
    assert [test["kind"] for test in told["tests"]] == ["frequency", "mixture"]
    assert told["blind"][0]["channel"] == "geometric"
    assert not tally.study.simulate_counts(np.full(CELLS, 10), seed=1).check().alarm


def test_p_values_are_multiplied_by_the_number_of_tests() -> None:
    study = study_of(sf.Uniform(1), sf.KaryResponse(), 4)
    counts = np.array([0, 0, 0, 60])
    found = tallied(study, counts).check()
    right = study.channels[0].likelihood().max()
    least = stats.binom.sf(59, 60, right)
    few = stats.binom.cdf(0, 60, study.channels[0].likelihood().min())
    assert found.tests[0].p_value == pytest.approx(2 * 8 * min(least, few), rel=1e-6)


def named(study: sf.Study) -> sf.Tally:
    """A tally that keeps sums for one question."""
    made = study.accumulator(["x=1"])
    made.add(study.encode({"x": [1, 2]}))
    return made.freeze()


@pytest.mark.parametrize(
    ("made", "error", "words"),
    [
        (lambda study: study.empty_tally(), DataError, "has none"),
        (
            lambda study: study.tally(study.encode({"x": [1]}), weights=[2.0]),
            DataError,
            "without weights",
        ),
        (named, QuestionError, "named questions"),
    ],
)
def test_what_cannot_be_checked_is_refused(
    made: Callable[[sf.Study], Any], error: type[Exception], words: str
) -> None:
    study = LONG["thermometer"]
    with pytest.raises(error, match=words):
        poisoning.check(made(study))


@pytest.mark.parametrize("significance", [0, 1, -0.1, 2, True, "0.1", math.nan])
def test_a_significance_is_a_chance(significance: Any) -> None:
    with pytest.raises(StudyError, match="between 0 and 1"):
        lumped("even", 3, seed=1).check(significance=significance)


@pytest.mark.slow
def test_what_is_too_large_is_left_out_and_said() -> None:
    study = study_of(sf.Uniform(5), sf.KaryResponse(), (1 << 18) + 1)
    honest = study.simulate({"x": np.arange(2_000)}, seed=1)
    found = honest.check()
    assert [test.kind for test in found.tests] == ["frequency"]
    assert "x but for single reports, as there are too many" in str(found)
    same = sf.Reports(study.fingerprint, study.columns, study.layouts, (np.full(8_000, 9),))
    assert (honest + study.tally(same)).check().p_value < 1e-6
    assert PEOPLE == 100_000
