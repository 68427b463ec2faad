"""Extended channels: optional answers on distance axes, and sensitive cells among others."""

from __future__ import annotations

import copy
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

import sfumato as sf
from sfumato.channels.base import Channel, SymbolChannel
from sfumato.channels.choice import Choice
from sfumato.channels.extended import capped_core
from sfumato.channels.lift import ExtendedChannel
from sfumato.cli.language import parse_choice
from sfumato.errors import FormatError, StudyError, TooLargeError
from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.distance import AsideMetric, CappedLineMetric, LineMetric
from sfumato.metrics.labelled import HighLowMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.tables import RowTable
from sfumato.study.choose import choose_channel

PEOPLE = 10_000
LABELS = [f"c{k}" for k in range(8)]


def optional(size: int, epsilon: object, no_answer: object, channel: object = None) -> sf.Study:
    """Whole numbers that need not be answered."""
    protect = sf.Distance(epsilon, no_answer=no_answer)
    axis = sf.integers("x", 0, size - 1, protect=protect, optional=True, channel=channel)
    return sf.Study("optional", [axis])


def answered(size: int, epsilon: object, cap: object = None) -> sf.Study:
    """The same for people who all answer, with geometric noise."""
    protect = sf.Distance(epsilon, cap=cap)
    axis = sf.integers("x", 0, size - 1, protect=protect, channel=sf.Geometric())
    return sf.Study("answered", [axis])


def range_error(study: sf.Study) -> float:
    """The exact standard error of a random range, for people spread evenly."""
    found = study.expected_error(PEOPLE).rows[0]
    assert "range" in found.question
    return found.stderr


def aside(size: int, step: str, distance: str) -> AsideMetric:
    return AsideMetric(LineMetric.equal(Fraction(step), size), Fraction(distance))


@pytest.mark.slow
def test_a_missing_answer_costs_next_to_nothing() -> None:
    """No answer at half the axis or further, and at E = 3 or more: at most 1.1 times the error."""
    cases = [(8, "1"), (20, "3/10"), (50, "1/2"), (100, "6/100"), (100, "1/2"), (500, "1/10")]
    for size, epsilon in cases:
        half = Fraction(size, 2)
        assert half * Fraction(epsilon) >= 3
        study = optional(size, epsilon, half)
        assert range_error(study) <= 1.1 * range_error(answered(size, epsilon))


def test_a_near_missing_answer_costs_what_its_cap_costs() -> None:
    for size, epsilon, no_answer in [(20, "1", 4), (50, "1/5", 10), (100, "1/2", 10), (8, "1", 2)]:
        cap = 2 * Fraction(epsilon) * no_answer
        study = optional(size, epsilon, no_answer, sf.Extended())
        assert range_error(study) <= 1.1 * range_error(answered(size, epsilon, cap))


@pytest.mark.parametrize(("size", "optimum", "reached"), [(6, 1.1, 1.7), (8, 1.1, 1.8)])
def test_a_very_near_missing_answer_must_cost_more(
    size: int, optimum: float, reached: float
) -> None:
    """At E = 1 from cells that are 1 apart, the best channel there is costs more than 1.1 times.

    `Extremal` is within 1 % of the optimum; the variance is that over which it was searched.
    """
    i, j = np.triu_indices(size)
    ranges = np.array([[a <= k <= b for k in range(size + 1)] for a, b in zip(i, j, strict=True)])
    weights = ranges.astype(np.float64)

    def error(channel: Channel, w: NDArray[np.float64]) -> float:
        return math.sqrt(np.mean(channel.second_moment(w) - w**2))

    usual = error(answered(size, 1, 2).channels[0], weights[:, :-1])
    extremal = sf.Extremal(ranges.astype(int).tolist())
    best = optional(size, 1, 1, extremal).channels[0]
    assert best.gap < 0.01  # type: ignore[attr-defined]
    assert error(best, weights) * math.sqrt(0.99) > optimum * usual
    assert error(optional(size, 1, 1, sf.Extended()).channels[0], weights) < reached * usual


def test_one_sensitive_answer_has_mangats_response() -> None:
    protect = sf.HighLow(1, LABELS[:1])
    axis = sf.categories("x", LABELS, protect=protect, channel=sf.Extended())
    study = sf.Study("one", [axis])
    assert round(study.expected_error(PEOPLE, "x=c0").rows[-1].stderr) == 71
    law = study.channels[0].likelihood()
    assert law[0, 0] == 1
    assert law[1:, 0] == pytest.approx(np.full(7, math.exp(-1)))
    assert law[1:, 1:] == pytest.approx((1 - math.exp(-1)) * np.eye(7))


def test_sensitive_answers_have_the_utility_optimised_response() -> None:
    """The law of Murakami and Kawamoto 2019, with one mechanism for all sensitive values."""
    protect = sf.HighLow(4, LABELS[:4])
    axis = sf.categories("x", LABELS, protect=protect, channel=sf.Extended(sf.KaryResponse()))
    study = sf.Study("four", [axis])
    assert round(study.expected_error(PEOPLE, "x=c0").rows[-1].stderr, 1) == 15.6
    law, odds = study.channels[0].likelihood(), math.exp(4)
    assert law[:4, :4] == pytest.approx((np.ones((4, 4)) + (odds - 1) * np.eye(4)) / (odds + 3))
    assert law[4:, :4] == pytest.approx(np.full((4, 4), 1 / (odds + 3)))
    assert law[4:, 4:] == pytest.approx((odds - 1) / (odds + 3) * np.eye(4))


@pytest.mark.parametrize("epsilon", ["1", "1e-9", "1e-17"])
def test_an_own_symbol_that_is_rare_counts_in_the_error(epsilon: str) -> None:
    """Other cells' symbols have the variance 1/(1 − e^−ε) − 1; 1 − (1 − ε) would lose ε."""
    protect = sf.HighLow(epsilon, LABELS[:1])
    study = sf.Study("used", [sf.categories("x", LABELS[:3], protect=protect)])
    found = study.channels[0].second_moment(np.array([0.0, 1.0, 0.0]))
    own = -1 / math.expm1(-float(epsilon))
    np.testing.assert_allclose(found, [0, own, 0], rtol=1e-2 if own > 1e12 else 1e-6)


def test_outputs_are_numbered_as_the_cells_where_they_can_be() -> None:
    metric = HighLowMetric(Fraction(1), np.array([False, True, False, True, True]))
    law = sf.Extended().bind(metric).likelihood()
    assert law.argmax(axis=1).tolist() == [0, 1, 2, 3, 4]
    assert sf.Extended(sf.Hadamard()).bind(metric).outputs == 4 + 2


STRUCTURED = [
    (sf.Extended(), aside(4, "1", "2")),
    (sf.Extended(), aside(9, "1", "1")),
    (sf.Extended(), aside(12, "1/10", "1/2")),
    (
        sf.Extended(sf.Exponential()),
        AsideMetric(LineMetric((Fraction(1), Fraction(2))), Fraction(2)),
    ),
    (
        sf.Extended(sf.Geometric()),
        AsideMetric(LineMetric((Fraction(2), Fraction(1), Fraction(3, 2))), Fraction(2)),
    ),
    (sf.Extended(), HighLowMetric(Fraction(1), np.array([False, True, False, True, True]))),
    (sf.Extended(), HighLowMetric(Fraction(1), np.array([False, True, False]))),
    (sf.Extended(sf.Hadamard()), HighLowMetric(Fraction(2), np.array([True, True, False]))),
]


@pytest.mark.parametrize(("choice", "metric"), STRUCTURED)
def test_structure_finds_what_all_pairs_do(
    choice: sf.Extended, metric: CellMetric, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = choice.bind(metric)
    by_pairs = channel.check(metric)
    monkeypatch.setattr(ExtendedChannel, "most_ratios", 0)
    by_structure = channel.check(metric)
    assert by_structure.method == "by structure"
    assert not by_pairs.problems
    assert not by_structure.problems
    assert by_structure.spent == pytest.approx(by_pairs.spent, rel=1e-9)


@pytest.mark.parametrize("by_structure", [False, True])
@pytest.mark.parametrize(("choice", "metric"), STRUCTURED)
def test_a_single_word_too_many_is_found(
    choice: sf.Extended, metric: CellMetric, by_structure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One word more for the own symbol, and one less for an output of the inner channel."""
    if by_structure:
        monkeypatch.setattr(ExtendedChannel, "most_ratios", 0)
    wrong = copy.copy(choice.bind(metric))
    object.__setattr__(wrong, "stay", wrong.stay + 1)
    object.__setattr__(wrong, "covering", (wrong.covering[0] - 1, *wrong.covering[1:]))
    object.__setattr__(wrong, "_first", RowTable(wrong._rows, wrong.precision))
    assert any("exceed their bound" in problem for problem in wrong.check(metric).problems)


def test_a_core_under_a_larger_e_is_found_by_structure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExtendedChannel, "most_ratios", 0)
    some = HighLowMetric(Fraction(1), np.array([False, True, True]))
    wide, low = sf.Extended().bind(aside(5, "1", "2")), sf.Extended().bind(some)
    for channel, metric in [
        (wide, aside(5, "1/2", "2")),
        (wide, AsideMetric(CappedLineMetric(wide.metric.line, Fraction(1)), Fraction(2))),
        (wide, HighLowMetric(Fraction(1), np.ones(6, dtype=bool))),
        (low, HighLowMetric(Fraction(1, 2), some.sensitive)),
        (low, HighLowMetric(Fraction(1), ~some.sensitive)),
        (low, UniformMetric(Fraction(1), 3)),
    ]:
        assert any("keeps another E" in problem for problem in channel.check(metric).problems)


@pytest.mark.slow
def test_an_axis_of_many_cells_is_read_without_tables() -> None:
    size = 20_001
    channel = optional(size - 1, "1/2", 60).channels[0]
    cells = np.arange(size)
    weights = np.stack([cells < 4_000, (cells > 7) & (cells < 9_000), cells == size - 1])
    asked = weights.astype(np.float64)
    read = channel.coefficients(asked)
    assert channel.expect(read) == pytest.approx(asked, abs=1e-9)
    people = np.random.default_rng(1).dirichlet(np.ones(size))
    mixed = channel.mix(people)
    assert mixed.sum() == pytest.approx(1)
    assert read @ mixed == pytest.approx(asked @ people, abs=1e-9)
    assert channel.gather(mixed) @ asked.T == pytest.approx(asked @ people, abs=1e-9)
    assert not channel.check(channel.metric).problems


@pytest.mark.slow
def test_likelihood_finds_values_and_missing_answers() -> None:
    study = optional(1_000, "1/2", 500)
    values: list[int | None] = [300 + k % 200 for k in range(9_000)]
    tally = study.simulate({"x": values + [None] * 1_000}, seed=3)
    estimate = tally.estimate("likelihood")
    for question, truth in [("x=300..499", 9_000), ("x=no answer", 1_000), ("x=..399", 4_500)]:
        answer = estimate.count(question)
        assert abs(answer.value - truth) <= 5 * answer.stderr + 1e-6 * PEOPLE
        assert abs(answer.value - 1.1 * truth) > 5 * answer.stderr


def test_the_inner_cap_shrinks_only_where_the_core_would_tell_too_much() -> None:
    far, near = aside(50, "1/2", "25"), aside(50, "1/2", "3/2")
    assert isinstance(sf.Extended().bind(far).inner.metric, LineMetric)
    inner = sf.Extended().bind(near).inner.metric
    assert isinstance(inner, CappedLineMetric)
    assert inner.cap < capped_core(near, 64).exact(0, 49) < 3
    told = Fraction(sum(m for m, _ in sf.Extended().bind(near).inner.envelope()[0]), 1 << 64)
    assert 1 < told <= 1 + Fraction(9, 10) * (Fraction(math.exp(1.5)) - 1)


def test_exponential_means_the_same_on_either_form_of_the_metric() -> None:
    """Study files with optional axes name it, and were made when E was a table."""
    for metric in (aside(9, "1/2", "2"), aside(9, "1/2", "1"), aside(6, "1/7", "1/3")):
        numerators, denominator = metric.integers()
        table = TableMetric(numerators, denominator, metric.size)
        assert sf.Exponential().bind(metric).table == sf.Exponential().bind(table).table


@pytest.mark.slow
def test_the_planner_takes_another_channel_where_geometric_noise_is_too_wide() -> None:
    far, near = aside(60, "1/2", "30"), aside(10, "1/100", "1/20")
    assert choose_channel(far, values=60)[0] == sf.Extended(sf.Geometric())
    mixed = choose_channel(aside(5_000, "1/2", "4"))[0]
    assert isinstance(mixed, sf.Extended)
    assert isinstance(mixed.inner, sf.Rakes)
    assert choose_channel(aside(5_000, "1/100", "1/100"))[0].id == "stricter"
    assert choose_channel(near, values=10)[0] != sf.Extended(sf.Geometric())


@pytest.mark.parametrize("seed", range(20))
def test_geometric_noise_inside_takes_unequal_steps_as_the_shortest(seed: int) -> None:
    rng = np.random.default_rng(seed)
    line = LineMetric([Fraction(int(step), 8) for step in rng.integers(1, 40, 6)])
    metric = AsideMetric(line, Fraction(int(rng.integers(6, 60)), 8))
    channel = sf.Extended(sf.Geometric()).bind(metric)
    inner = channel.inner.metric
    assert isinstance(inner, LineMetric | CappedLineMetric)
    assert inner.equal_step == min(line.steps)
    assert not channel.check(metric).problems
    law = channel.likelihood()
    np.testing.assert_allclose(law @ channel.coefficients(np.eye(8)).T, np.eye(8), atol=1e-9)


@pytest.mark.slow
def test_optional_axes_of_many_unequal_cells_have_a_channel() -> None:
    edges = np.cumsum(1.0 + np.arange(301) % 3).tolist()
    protect = sf.Distance("1/20", no_answer=edges[-1] / 2)
    optional = sf.reals("x", edges=edges, protect=protect, optional=True)
    study = sf.Study("unequal", [optional])
    assert study.blocks[0].choice == sf.Extended(sf.Geometric())
    line = sf.Stricter("line", sf.Geometric())
    usual = sf.reals("x", edges=edges, protect=sf.Distance("1/20"), channel=line)
    assert range_error(study) < 1.01 * range_error(sf.Study("usual", [usual]))


def test_what_does_not_fit_is_refused() -> None:
    none = HighLowMetric(Fraction(1), np.zeros(3, dtype=bool))
    for choice, metric, said in [
        (sf.Extended(), UniformMetric(Fraction(1), 3), "needs protect=HighLow"),
        (sf.Extended(), none, "no cell is sensitive"),
        (sf.Extended(sf.KaryResponse()), aside(4, "1", "2"), "KaryResponse inside does not"),
    ]:
        with pytest.raises(StudyError, match=said):
            choice.bind(metric)
    with pytest.raises(StudyError, match="cannot be combined with stochastic rounding"):
        sf.Extended().bind(aside(4, "1", "2"), resolution=3)
    for inner in (3, sf.Extended(), [sf.Geometric()]):
        with pytest.raises(StudyError, match="inner must be a"):
            sf.Extended(inner)  # type: ignore[arg-type]
    with pytest.raises(FormatError, match="unknown channel 'gometric'"):
        sf.Extended("gometric")


def test_an_inner_channel_without_structure_takes_some_thousand_cells() -> None:
    metric = HighLowMetric(Fraction(1), np.arange(2_100) < 2_049)
    with pytest.raises(TooLargeError, match="at most 2048 cells, and there are 2049"):
        sf.Extended(sf.Hadamard()).bind(metric)
    assert sf.Extended(sf.KaryResponse()).bind(metric).outputs == 2_100


@pytest.mark.parametrize("size", [2, 3, 7, 8, 20])
@pytest.mark.parametrize(
    "choice",
    [
        sf.HRR(),
        sf.KaryResponse(),
        sf.Hierarchical(2, "hrr", "optimised"),
        sf.Hierarchical(2, "best", "optimised"),
        sf.Hierarchical(3, "olh"),
    ],
)
def test_the_envelope_by_structure_is_that_of_the_law(choice: Choice, size: int) -> None:
    channel = choice.bind(UniformMetric(Fraction(1), size))
    assert isinstance(channel, SymbolChannel)
    listed, total = SymbolChannel.envelope(channel)
    found, among = channel.envelope()
    assert [(m * total, n * total) for m, n in found] == [(m * among, n * among) for m, n in listed]


def test_the_inner_channel_can_be_named_on_the_command_line() -> None:
    assert parse_choice("extended inner=hadamard", "channel") == sf.Extended(sf.Hadamard())
    assert parse_choice("extended", "channel") == sf.Extended()


def test_closing_is_that_of_the_table() -> None:
    """The line, its cap and the cell aside, against the closure of all pairs."""
    lines = [
        LineMetric.equal(Fraction(1, 2), 6),
        LineMetric((Fraction(1), Fraction(2), Fraction(1))),
    ]
    held: list[LineMetric | CappedLineMetric] = [*lines, CappedLineMetric(lines[0], Fraction(3, 2))]
    for line, distance in itertools.product(held, ("1/4", "1/2", "3/4", "2")):
        metric = AsideMetric(line, Fraction(distance))
        size = metric.size
        given = np.array([[4 * line.exact(i, j) for j in range(size - 1)] for i in range(size - 1)])
        numerators = np.full((size, size), int(4 * metric.aside), dtype=object)
        numerators[:-1, :-1] = [[int(e) for e in row] for row in given]
        numerators[-1, -1] = 0
        table = TableMetric(numerators, 4, size)
        pairs = itertools.product(range(size), repeat=2)
        assert all(metric.exact(i, j) == table.exact(i, j) for i, j in pairs)
        assert metric.notes == table.notes
        assert np.array_equal(metric.matrix(), table.matrix())
