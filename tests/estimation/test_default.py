"""The default: likelihood where it is worth its cost, unbiased with a reason elsewhere."""

from __future__ import annotations

import math
import signal
from functools import cache
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import QuestionError, TooLargeError
from sfumato.estimation import likelihood as module
from sfumato.estimation.decoding import cost
from sfumato.estimation.decoding import evidence as evidence_module
from sfumato.estimation.likelihood import LikelihoodEstimate


def grid(name: str, sizes: list[int], protect: Any, **options: Any) -> sf.Study:
    """A study of ordered axes a, b, c and so on."""
    axes = [
        sf.integers(letter, 0, size - 1, protect=protect, **options)
        for letter, size in zip("abcdefgh", sizes, strict=False)
    ]
    return sf.Study(name, axes)


def people(study: sf.Study, n: int, seed: int = 1) -> sf.Tally:
    """Humps that are correlated."""
    rng = np.random.default_rng(seed)
    common = rng.normal(0, 0.1, n)
    table = {}
    for axis in study.axes:
        places = (0.5 + common + rng.normal(0, 0.1, n)) * axis.size
        table[axis.name] = places.clip(0, axis.size - 1).astype(int)
    return study.simulate(table, seed=seed)


@cache
def pair() -> sf.Tally:
    """Two axes of which each is cheap, and both together are not within a tenth of a second."""
    return people(grid("pair", [40, 40], sf.Distance(0.5)), 2_000)


def equal(one: Any, other: Any) -> None:
    """The same answers but for notes."""
    for name in ("values", "stderr", "low", "high"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.method == other.method


# Studies that the default used to refuse


@pytest.mark.slow
def test_four_axes_of_a_thousand_cells_are_answered() -> None:
    tally = people(grid("four", [1_000] * 4, sf.Distance(0.2)), 300)
    question = "a=200..600, b=200..600, c=200..600, d=200..600"
    answer = tally.estimate().count(question)
    expected = tally.estimate("unbiased").count(question)
    assert (answer.value, answer.stderr, answer.low, answer.high) == (
        expected.value,
        expected.stderr,
        expected.low,
        expected.high,
    )
    assert answer.method == "unbiased"
    assert "1,000 × 1,000 × 1,000 × 1,000 cells" in answer.notes[0]
    assert "limit of 4,194,304 cells" in answer.notes[0]
    with pytest.raises(TooLargeError, match="limit is 4,194,304 cells"):
        tally.estimate("likelihood").count(question)


def test_five_axes_with_the_channel_of_the_planner_are_answered() -> None:
    tally = people(grid("five", [8] * 5, sf.Uniform(1)), 300)
    est = tally.estimate()
    question = ", ".join(f"{letter}=0..3" for letter in "abcde")
    answer = est.count(question)
    assert answer.value == tally.estimate("unbiased").count(question).value
    assert answer.method == "unbiased"
    assert "33,554,432 kinds of reports" in answer.notes[0]
    with pytest.raises(TooLargeError):
        tally.estimate("likelihood").count(question)
    single = est.count("a=0..3")
    assert (single.method, single.notes) == ("likelihood", ())
    assert est.method == "likelihood, unbiased"
    assert est.why == answer.notes[0]
    assert est.why in repr(est)


def test_too_many_answers_at_once_are_unbiased(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROW_ENTRIES", 40 * 39)
    est = people(grid("one", [40], sf.Distance(0.5)), 500).estimate()
    found = est.histogram("a")
    assert found.method == "unbiased"
    assert "40 answers about 40 cells are too many" in found.notes[0]
    assert est.count("a=3..9").method == "likelihood"
    with pytest.raises(TooLargeError, match="ask for fewer groups"):
        people(grid("one", [40], sf.Distance(0.5)), 500).estimate("likelihood").histogram("a")


# The decision


def test_an_estimate_within_its_time_decodes() -> None:
    tally = people(grid("one", [60], sf.Distance(0.5)), 500)
    est = tally.estimate()
    assert (est.method, est.why) == ("likelihood", "")
    assert "likelihood estimate" in repr(est)
    assert est.count("a=3..30") == tally.estimate("likelihood").count("a=3..30")


def test_the_decision_is_per_set_of_axes() -> None:
    one = cost.cost_of(pair().statistic, pair().study.blocks[:1], [True]).seconds
    both = cost.cost_of(pair().statistic, pair().study.blocks, [True, True]).seconds
    assert one < both
    est = pair().estimate(seconds=(one + both) / 2)
    assert est.method == "likelihood, unbiased"
    assert est.count("a=3..30").method == "likelihood"
    assert est.count("b=3..30").method == "likelihood"
    joint = est.count("a=3..30, b=3..30")
    assert joint.method == "unbiased"
    assert joint.notes[0].startswith("unbiased, since decoding 40 × 40 cells would take about")
    assert 'insist with method="likelihood"' in joint.notes[0]
    # A difference is answered from both axes jointly, so it is unbiased too.
    assert (est.count("a=3..30") - est.count("b=3..30")).method == "unbiased"
    assert pair().estimate(seconds=2 * both).method == "likelihood"
    assert pair().estimate(seconds=one / 2).method == "unbiased"


def test_it_is_not_decided_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time may stand still or fly: the same operations are counted."""
    found = cost.cost_of(pair().statistic, pair().study.blocks, [True, True])
    for clock in (lambda: 0.0, lambda: 1e9):
        monkeypatch.setattr("time.process_time", clock)
        monkeypatch.setattr("time.perf_counter", clock)
        assert cost.cost_of(pair().statistic, pair().study.blocks, [True, True]) == found


def test_unbiased_answers_of_the_default_are_those_of_the_unbiased_estimate() -> None:
    est, plain = pair().estimate(seconds=1e-9), pair().estimate("unbiased")
    for where in (None, "b=0..20"):
        equal(est.histogram("a", where=where), plain.histogram("a", where=where))
        equal(
            est.histogram("a", where=where, fraction=True),
            plain.histogram("a", where=where, fraction=True),
        )
        equal(est.cdf("a", where=where), plain.cdf("a", where=where))
        equal(est.cdf("a", where=where).band(), plain.cdf("a", where=where).band())
        equal(
            est.quantile("a", [0.1, 0.5], where=where), plain.quantile("a", [0.1, 0.5], where=where)
        )
        for name in ("mean", "variance", "total"):
            one = getattr(est, name)("a", where=where)
            other = getattr(plain, name)("a", where=where)
            assert (one.value, one.stderr, one.low, one.high) == pytest.approx(
                (other.value, other.stderr, other.low, other.high), rel=1e-12
            )
    equal(est.heatmap("a", "b", bins=5), plain.heatmap("a", "b", bins=5))
    every = np.ones((1, 1600))
    equal(est.linear(every), plain.linear(every))
    equal(sf.distribution(est), sf.distribution(plain))
    area = est.auc("a", "b", positive=(0, 19))
    assert area.value == plain.auc("a", "b", positive=(0, 19)).value
    assert area.notes[0].startswith("unbiased, since")
    answer = sf.NaiveBayes(est, "b", bins=4).predict({"a": [3]})[0].log_odds
    assert (answer.method, answer.notes[0][:15]) == ("unbiased", "unbiased, since")


def test_every_kind_of_answer_says_why() -> None:
    est = pair().estimate(seconds=1e-9)
    why = est.why
    assert why
    found = [
        est.count("a=3"),
        est.fraction("a=3", where="b=0..20"),
        est.mean("a"),
        est.quantile("a", 0.5),
        est.histogram("a"),
        est.cdf("a"),
        est.quantile("a", [0.5]),
    ]
    for answer in found:
        assert answer.method == "unbiased"
        assert any(note.startswith("unbiased, since decoding 40") for note in answer.notes)
        assert "unbiased, since" in answer._repr_html_()
        assert answer.to_dict()["notes"] == list(answer.notes)


def test_nothing_is_decoded_where_unbiased_answers_are_exact() -> None:
    study = grid("sure", [6], sf.Distance(40))
    est = people(study, 50).estimate()
    answer = est.count("a=0..2")
    assert (answer.method, answer.stderr < 0.5) == ("unbiased", True)
    assert "exact to half a person" in answer.notes[0]
    # The twin: with more noise, decoding has something to gain.
    assert people(grid("less", [6], sf.Distance(4)), 50).estimate().method == "likelihood"


def test_the_error_of_the_plan_decides() -> None:
    study = grid("plan", [10, 6], sf.Distance(0.7))
    planned = study.expected_error(1_000, "a=0..4, b=0..2").rows[-1].stderr
    assert cost.typical_error(study.blocks, 1_000) == pytest.approx(planned, rel=1e-9)


@pytest.mark.parametrize(
    "seconds", [0, -1, -0.0, math.nan, math.inf, "3", None, True, [3], 10**400]
)
@pytest.mark.parametrize("method", ["auto", "likelihood", "unbiased"])
def test_seconds_are_a_positive_number(seconds: Any, method: str) -> None:
    with pytest.raises(QuestionError, match="seconds must be a positive number"):
        pair().estimate(method, seconds=seconds)


@pytest.mark.parametrize("method", ["auto", "likelihood"])
def test_nobody_is_not_decoded(method: str) -> None:
    est = pair().study.empty_tally().estimate(method)
    answer = est.count("a=3, b=4")
    assert math.isnan(answer.value)
    assert answer.notes == ("no reports",)
    assert est.histogram("a").notes == ("no reports",)
    assert est.decodings == 0


# Costs


def seconds_of(sizes: list[int], n: int = 1_000, protect: Any = None, **options: Any) -> float:
    study = grid("cost", sizes, protect or sf.Distance(0.2), **options)
    tally = study.simulate({axis.name: [0] * n for axis in study.axes}, seed=1)
    return cost.cost_of(tally.statistic, study.blocks, [True] * len(sizes)).seconds


def test_costs_grow_with_cells_and_with_distinct_reports() -> None:
    sizes = [10, 100, 500, 2_000, 5_000, 50_000]
    found = [seconds_of([size]) for size in sizes]
    assert found == sorted(found)
    assert seconds_of([64, 64]) > seconds_of([32, 32]) > seconds_of([32])
    bits = [seconds_of([100], n, channel=sf.Thermometer()) for n in (10, 1_000, 100_000)]
    assert bits == sorted(bits)
    assert bits[0] < bits[2] / 10
    # Of symbols only the kinds count, not the people.
    assert seconds_of([100], 10) == seconds_of([100], 10_000)


def test_costs_without_an_order_or_smoothing_are_their_own() -> None:
    study, statistic = pair().study, pair().statistic
    smooth = cost.cost_of(statistic, study.blocks, [True, True]).seconds
    assert cost.cost_of(statistic, study.blocks, [False, False]).seconds < smooth
    plain = cost.cost_of(statistic, study.blocks, [True, True], smoothing="none").seconds
    assert plain < smooth
    est = pair().estimate(seconds=(plain + smooth) / 2, smoothing="none")
    assert est.count("a=3, b=3").method == "likelihood"


def test_tables_that_are_too_large_are_refused_beforehand() -> None:
    study = grid("bits", [900, 900], sf.Distance(0.2), channel=sf.Thermometer())
    statistic = people(study, 100).statistic
    found = cost.cost_of(statistic, study.blocks, [True, True])
    assert found.seconds == math.inf
    assert found.refused == "needs a table of 100 reports by 810,000 cells, which is too large"
    assert "too large" in people(study, 100).estimate().count("a=3..400, b=3..9").notes[0]


def test_what_the_count_overlooks_is_unbiased_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal that is found only later does not reach the user of the default."""

    def refuse(*_: Any) -> None:
        raise TooLargeError("no room")

    monkeypatch.setattr(module, "mixture_of", refuse)
    answer = pair().estimate().count("a=3")
    assert (answer.method, answer.notes) == ("unbiased", ("unbiased, since no room",))
    with pytest.raises(TooLargeError, match="no room"):
        pair().estimate("likelihood").count("a=3")


# Interrupts


class Stop:
    """A progress function that interrupts the decoding after some calls."""

    def __init__(self, after: int = 1) -> None:
        self.left = after

    def __call__(self, share: float) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def interrupt(*_: Any) -> None:
    """Interrupted at once."""
    raise KeyboardInterrupt


ASKED: list[tuple[str, Any]] = [
    ("count", lambda est: est.count("a=3..30")),
    ("fraction", lambda est: est.fraction("a=3..30", where="a=1..35")),
    ("histogram", lambda est: est.histogram("a")),
    ("shares", lambda est: est.histogram("a", where="a=1..35", fraction=True)),
    ("quantile", lambda est: est.quantile("a", 0.5)),
    ("quantiles", lambda est: est.quantile("a", [0.5], where="a=1..35")),
    ("linear", lambda est: est.linear(np.ones((1, 40)))),
]


@pytest.mark.parametrize("method", ["auto", "likelihood"])
@pytest.mark.parametrize(("name", "ask"), ASKED)
def test_an_interrupt_gives_the_best_so_far_with_the_unbiased_error(
    name: str, ask: Any, method: str
) -> None:
    tally = people(grid("one", [40], sf.Distance(0.5)), 500)
    before = tally.statistic.digest()
    late = tally.estimate(method, progress=Stop(after=20))
    found, plain, whole = (
        ask(est) for est in (late, tally.estimate("unbiased"), tally.estimate(method))
    )
    assert found.method == "likelihood"
    assert module.STOPPED in found.notes
    assert (late.method, late.why) == ("likelihood", module.STOPPED)
    if name in ("count", "histogram"):
        # After twenty fits nearly nothing is missing; the interval is the unbiased one, extended.
        ours, theirs = (x.value if name == "count" else x.values for x in (found, whole))
        np.testing.assert_allclose(ours, theirs, rtol=0.05, atol=1.0)
        low, high = plain.uncut
        np.testing.assert_allclose(found.uncut[0], np.minimum(low, ours), rtol=1e-9)
        np.testing.assert_allclose(found.uncut[1], np.maximum(high, ours), rtol=1e-9)
    # The tally is intact, the next question has the same fit, and a new estimate decodes.
    assert tally.statistic.digest() == before
    assert module.STOPPED in late.count("a=1..20").notes
    assert late.decodings == 0
    assert not tally.estimate(method).count("a=3").notes


def test_the_best_so_far_may_be_that_of_joined_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits of groups of cells are spread over their cells."""
    monkeypatch.setattr(evidence_module, "COARSE_CELLS", (100,))
    tally = people(grid("two", [20, 15], sf.Distance(1.0)), 3_000)
    stopped = tally.estimate("likelihood", progress=Stop(after=3))
    found = stopped.histogram("a", where="b=0..7")
    assert module.STOPPED in found.notes
    assert stopped.count("a=0..19").value == pytest.approx(3_000)
    whole = tally.estimate("likelihood").histogram("a", where="b=0..7").values
    assert np.abs(found.values - whole).sum() < 0.2 * whole.sum()


@pytest.mark.parametrize("smoothing", ["auto", "none"])
@pytest.mark.parametrize("method", ["auto", "likelihood"])
@pytest.mark.parametrize(("name", "ask"), ASKED)
def test_an_interrupt_before_any_fit_gives_the_unbiased_answer(
    name: str, ask: Any, method: str, smoothing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if smoothing == "auto":
        monkeypatch.setattr(evidence_module, "_best_of", interrupt)
    tally = people(grid("one", [40], sf.Distance(0.5)), 500)
    before = tally.statistic.digest()
    est = tally.estimate(method, smoothing=smoothing, progress=Stop())
    found, plain = ask(est), ask(tally.estimate("unbiased"))
    np.testing.assert_allclose(found.low, plain.low, rtol=1e-12)
    np.testing.assert_allclose(found.high, plain.high, rtol=1e-12)
    assert found.method == "unbiased"
    assert module.INTERRUPTED in found.notes
    assert (est.method, est.why) == ("unbiased", module.INTERRUPTED)
    monkeypatch.undo()
    # The tally is intact, the next question is answered, and a new estimate decodes.
    assert tally.statistic.digest() == before
    assert est.count("a=1..20").value == tally.estimate("unbiased").count("a=1..20").value
    assert tally.estimate(method, smoothing=smoothing).count("a=3").method == "likelihood"


def test_the_signal_of_control_c_is_an_interrupt() -> None:
    tally = people(grid("one", [40], sf.Distance(0.5)), 500)
    est = tally.estimate("likelihood", progress=lambda _: signal.raise_signal(signal.SIGINT))
    # Jobs in the background may have been started to ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert module.STOPPED in est.count("a=3..30").notes
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_leaves_other_axes_decoded() -> None:
    stop = Stop(after=10**9)
    est = pair().estimate("likelihood", progress=stop)
    before = est.count("a=3..30")
    stop.left = 1
    assert module.STOPPED in est.count("b=3..30").notes
    assert est.count("a=3..30") == before
    assert est.method == "likelihood"
    assert est.decodings == 1


def test_progress_moves_with_every_fit() -> None:
    told: list[float] = []
    pair().estimate("likelihood", progress=told.append).count("a=3")
    assert len(told) > 10
    assert told == sorted(told)
    assert max(np.diff([0.0, *told])) < 0.5
    assert told[-1] == 1.0


def test_other_errors_of_a_progress_function_are_its_own() -> None:
    def fail(share: float) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        pair().estimate("likelihood", progress=fail).count("a=3")


def test_weighted_reports_follow_the_same_rules() -> None:
    study = grid("one", [40], sf.Distance(0.5))
    reports = study.encode({"a": [3, 20, 30] * 100}, bits=sf.SeededBits(1))
    tally = study.tally(reports, weights=[1.0, 2.0, 0.5] * 100)
    assert tally.estimate().method == "unbiased"
    assert tally.estimate("auto").count("a=3..30").method == "likelihood"
    short = tally.estimate("auto", seconds=1e-9).count("a=3..30")
    assert short.method == "unbiased"
    assert short.value == tally.estimate().count("a=3..30").value
    stopped = tally.estimate("likelihood", progress=Stop()).count("a=3..30")
    assert module.STOPPED in stopped.notes
    with pytest.raises(QuestionError, match="seconds must be"):
        tally.estimate(seconds=0)


def test_the_default_is_a_likelihood_estimate() -> None:
    """Planning and classifiers rely on the unbiased estimate that it holds."""
    est = pair().estimate()
    assert isinstance(est, LikelihoodEstimate)
    assert est.unbiased.method == "unbiased"
