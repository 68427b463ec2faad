"""Weighted counts: public weights by sums of weights and their squares, private ones as an axis."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import sfumato as sf
from sfumato.arrays import BitColumns, Outputs
from sfumato.channels.choice import Choice
from sfumato.channels.thermometer import ThermometerChannel
from sfumato.collect.weighted import WeightedTally
from sfumato.errors import DataError, FormatError, MismatchError, QuestionError, StudyError
from sfumato.estimation.unbiased import UnbiasedEstimate
from sfumato.estimation.weighted import WEIGHTED
from sfumato.questions.language import weights as ask
from sfumato.study.axis import Axis

Floats = NDArray[np.float64]

EXACT = 1e-9
CHANNELS: dict[str, tuple[Choice, Choice]] = {
    "symbols": (sf.Geometric(), sf.Geometric()),
    "bits": (sf.Thermometer(), sf.Thermometer()),
    "both": (sf.Geometric(), sf.Thermometer()),
}
kinds = pytest.mark.parametrize("kind", list(CHANNELS))


def study(kind: str, sizes: tuple[int, int] = (3, 2)) -> sf.Study:
    axes = [
        sf.integers(name, 0, size - 1, protect=sf.Distance(1), channel=channel)
        for name, size, channel in zip("ab", sizes, CHANNELS[kind], strict=True)
    ]
    return sf.Study("weighted", axes)


def people(count: int, seed: int, sizes: tuple[int, int] = (3, 2)) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {name: rng.integers(0, size, count) for name, size in zip("ab", sizes, strict=True)}


def as_outputs(one: sf.Study, numbers: NDArray[np.int64]) -> tuple[Outputs, ...]:
    """Numbers of the outputs, one row per person, in the order of the likelihood's columns."""
    found: list[Outputs] = []
    for channel, column in zip(one.channels, numbers.T, strict=True):
        bits = (column[:, None] >> np.arange(channel.layout.count)) & 1
        is_bits = channel.layout.kind == "bits"
        found.append(BitColumns.from_matrix(bits.astype(bool)) if is_bits else column)
    return tuple(found)


def all_reports(one: sf.Study, laws: Sequence[Sequence[Floats]]) -> Iterator[tuple[float, Any]]:
    """Every outcome for some people, with its chance; laws[person][axis] is that of the output."""
    sizes = [len(law) for law in laws[0]]
    names = tuple(axis.name for axis in one.axes)
    each = [np.array(place) for place in itertools.product(*map(range, sizes))]
    for outcome in itertools.product(each, repeat=len(laws)):
        chance = math.prod(
            float(law[y])
            for person, ys in zip(laws, outcome, strict=True)
            for law, y in zip(person, ys, strict=True)
        )
        outputs = as_outputs(one, np.array(outcome))
        yield chance, sf.Reports(one.fingerprint, names, one.layouts, outputs)


def raw_variance(est: UnbiasedEstimate, question: Any) -> float:
    """The estimated variance without its least value, which is for a question against itself."""
    return est.covariance_of(question, replace(question))


# Public weights


@kinds
def test_value_and_variance_are_exact_over_all_reports(kind: str) -> None:
    """Two people, all their reports: mean, variance, and the mean of the estimated variance."""
    one = study(kind)
    cells, w = [(0, 1), (2, 1)], np.array([3.0, 0.5])
    question = ask(one.axes, {"a": (0, 1), "b": 1})
    moments = [
        channel.second_moment(part)
        for channel, part in zip(one.channels, question.weights, strict=True)
    ]
    truth, exact, wrong = 0.0, 0.0, 0.0
    for (a, b), weight in zip(cells, w, strict=True):
        inside = float(question.weights[0][a] * question.weights[1][b])
        truth += weight * inside
        exact += weight**2 * (moments[0][a] * moments[1][b] - inside**2)
        wrong += weight * (moments[0][a] * moments[1][b] - inside**2)
    laws = [[c.likelihood()[x] for c, x in zip(one.channels, cell, strict=True)] for cell in cells]
    mean = square = estimated = reported = 0.0
    for chance, reports in all_reports(one, laws):
        est = one.tally(reports, weights=w).estimate()
        answer = est.count(a=(0, 1), b=1)
        mean += chance * answer.value
        square += chance * answer.value**2
        estimated += chance * raw_variance(est, question)
        reported += chance * answer.stderr**2
    assert mean == pytest.approx(truth, abs=EXACT)
    assert square - mean**2 == pytest.approx(exact, rel=EXACT)
    assert estimated == pytest.approx(exact, rel=EXACT)
    assert reported >= exact * (1 - EXACT)
    assert abs(wrong - exact) > 0.1 * exact  # plain weights instead of squares would be seen


def every_answer(est: sf.Estimate, population: bool) -> list[tuple[Floats, Floats]]:
    """All kinds of questions: values and errors."""
    more = {"population": population}
    single = [
        est.count(a=(1, 2), **more),
        est.fraction(b=1, **more),
        est.fraction(a=0, where="b=1", **more),
        est.mean("a", **more),
        est.mean("a", where={"b": 0}, **more),
        est.total("a", where={"b": 0}, **more),
    ]
    many = [
        est.histogram("a", **more),
        est.histogram("a", fraction=True, **more),
        est.histogram("a", where="b=1", fraction=True, **more),
        est.cdf("a", where="b=1", **more),
        est.heatmap("a", "b", **more),
        est.linear(np.arange(18.0).reshape(3, 6), **more),
    ]
    found = [(np.array(one.value), np.array(one.stderr)) for one in single]
    found += [(one.values, one.stderr) for one in many]
    quantile = est.quantile("a", [0.2, 0.5], where={"b": (0, 1)}, **more)
    return [*found, (quantile.values, quantile.high - quantile.low)]


@kinds
@pytest.mark.parametrize("method", ["unbiased", "likelihood"])
def test_every_kind_of_answer_says_once_that_people_are_weighted(kind: str, method: str) -> None:
    one = study(kind)
    people = {"a": [0, 1, 2, 1, 0, 2], "b": [0, 1, 1, 0, 1, 0]}
    reports = one.encode(people, bits=sf.SeededBits(3))
    est = one.tally(reports, weights=np.arange(1.0, 7.0)).estimate(method)
    answers = [
        est.count(a=1),
        est.fraction(b=1),
        est.mean("a"),
        est.total("a"),
        est.auc("a", "b", positive=1),
        est.quantile("a", 0.5),
        est.quantile("a", [0.2, 0.5]),
        est.histogram("a"),
        est.linear(np.eye(6)),
    ]
    assert [answer.notes.count(WEIGHTED) for answer in answers] == [1] * len(answers)
    plain = one.tally(reports).estimate(method).quantile("a", 0.5)
    assert WEIGHTED not in plain.notes


@kinds
@pytest.mark.parametrize("population", [False, True])
def test_weights_of_one_change_nothing(kind: str, population: bool, seed: int) -> None:
    one = study(kind)
    reports = one.encode(people(700, seed), bits=sf.SeededBits(seed))
    plain = every_answer(one.tally(reports).estimate("unbiased"), population)
    weighted = every_answer(one.tally(reports, weights=np.ones(700)).estimate(), population)
    for (value, error), (same, alike) in zip(plain, weighted, strict=True):
        assert np.allclose(same, value, rtol=1e-9, atol=1e-9)
        assert np.allclose(alike, error, rtol=1e-7, atol=1e-7)


@kinds
def test_weights_of_two_double_counts_and_their_errors_and_no_share(kind: str, seed: int) -> None:
    one = study(kind)
    reports = one.encode(people(300, seed), bits=sf.SeededBits(seed))
    single = one.tally(reports, weights=np.ones(300)).estimate()
    double = one.tally(reports, weights=np.full(300, 2)).estimate()
    for ask_it, factor in [
        (lambda e: e.count(a=1, b=0), 2), (lambda e: e.total("a"), 2),
        (lambda e: e.fraction(a=1), 1), (lambda e: e.mean("a", where="b=0"), 1),
    ]:  # fmt: skip
        before, after = ask_it(single), ask_it(double)
        assert after.value == pytest.approx(factor * before.value)
        assert after.stderr == pytest.approx(factor * before.stderr)


@kinds
def test_the_same_as_one_group_per_distinct_weight(kind: str, seed: int) -> None:
    """The way of Xiang et al.: unweighted answers of each group, weighted and summed."""
    one = study(kind)
    table, w = people(900, seed), np.repeat([0.25, 1.0, 7.5], 300)
    reports = one.encode(table, bits=sf.SeededBits(seed))
    est = one.tally(reports, weights=w).estimate()
    question = ask(one.axes, {"a": (0, 1), "b": 1})
    value = variance = 0.0
    for group, weight in enumerate([0.25, 1.0, 7.5]):
        part = one.tally(reports[300 * group : 300 * (group + 1)]).estimate("unbiased")
        assert isinstance(part, UnbiasedEstimate)
        value += weight * part.value_of(question)
        variance += weight**2 * raw_variance(part, question)
    answer = est.count(a=(0, 1), b=1)
    assert answer.value == pytest.approx(value)
    assert answer.stderr**2 == pytest.approx(variance)
    heatmap = est.heatmap("a", "b")
    linear = est.linear(np.eye(6))
    assert np.allclose(heatmap.values.ravel(), linear.values)
    assert np.allclose(heatmap.stderr.ravel(), linear.stderr)
    assert (heatmap.unit, answer.n) == ("weight", 900)
    assert heatmap.values[:2, 1].sum() == pytest.approx(value)
    rows = est.histogram("a", where="b=1")
    singles = [est.count(a=cell, b=1) for cell in range(3)]
    assert rows.values == pytest.approx([one.value for one in singles])
    assert rows.stderr == pytest.approx([one.stderr for one in singles])


def test_many_distinct_weights_agree_with_the_sum_by_hand(seed: int) -> None:
    """Bits, 500 weights: beyond the groups that are counted bit by bit."""
    one = study("both", (4, 5))
    w = np.random.default_rng(seed).gamma(1.0, size=500)
    reports = one.encode(people(500, seed, (4, 5)), bits=sf.SeededBits(seed))
    question = ask(one.axes, {"a": (1, 2), "b": (0, 3)})
    f = np.ones(500)
    for channel, part, outputs in zip(one.channels, question.weights, reports.outputs, strict=True):
        f = f * channel.functional(part)(outputs)
    for via in ("direct", "cells", "prefix", "auto"):
        est = one.tally(reports, weights=w).estimate(via=via)
        assert est.count(a=(1, 2), b=(0, 3)).value == pytest.approx(w @ f)
    share = w @ f / w.sum()
    found = est.fraction(a=(1, 2), b=(0, 3), population=True)
    assert found.value == pytest.approx(share)


def test_population_errors_include_the_variation_of_the_total_weight(seed: int) -> None:
    """A ratio of sums over people: its variance is Σ w²(f − share)² / W²."""
    one = study("symbols")
    w = np.random.default_rng(seed).uniform(0, 3, 400)
    reports = one.encode(people(400, seed), bits=sf.SeededBits(seed))
    f = one.channels[0].functional([0.0, 1.0, 1.0])(reports.outputs[0])
    est = one.tally(reports, weights=w).estimate()
    share = w @ f / w.sum()
    expected = math.sqrt(np.sum((w * (f - share)) ** 2)) / w.sum()
    found = est.fraction(a=(1, 2), population=True)
    assert (found.value, found.stderr) == pytest.approx((share, expected))
    cdf = est.cdf("a", population=True)
    assert cdf.values[0] == pytest.approx(1 - share)
    assert cdf.stderr[0] == pytest.approx(expected)
    assert found.stderr != pytest.approx(est.fraction(a=(1, 2)).stderr, rel=0.01)


@kinds
def test_tallies_add_up_in_any_order(kind: str, seed: int) -> None:
    one = study(kind)
    w = np.random.default_rng(seed).gamma(0.3, size=200)
    w[::7] = 0.0
    reports = one.encode(people(200, seed), bits=sf.SeededBits(seed))
    cuts = [slice(0, 50), slice(50, 50), slice(50, 120), slice(120, 200)]
    parts = [one.tally(reports[cut], weights=w[cut]) for cut in cuts]
    whole = one.tally(reports, weights=w)
    assert sum(parts) == whole
    assert sum(reversed(parts)) == whole
    assert one.tally([reports[cut] for cut in cuts], weights=w) == whole
    assert one.tally([reports[:90].to_arrow(), reports[90:]], weights=pa.array(w)) == whole
    assert whole.n == len(whole) == 200
    assert whole.weight == pytest.approx(w.sum())
    assert whole != one.tally(reports, weights=w + 0.01)
    assert whole != parts[0]
    assert "200 reports" in repr(whole)
    assert whole.estimate().count().value == pytest.approx(w.sum())
    assert whole.estimate().count().stderr == 0


def test_reports_without_weight_leave_the_same_table_dense_or_sparse(seed: int) -> None:
    """3,000 reports fill a dense table of 100 × 100, parts of them a sparse one."""
    one = study("symbols", (100, 100))
    w = np.random.default_rng(seed).integers(0, 2, 3_000)
    w[2_000:] = 0
    reports = one.encode({"a": [50] * 3_000, "b": [50] * 3_000}, bits=sf.SeededBits(seed))
    parts = [one.tally(reports[k : k + 500], weights=w[k : k + 500]) for k in range(0, 3_000, 500)]
    assert sum(parts) == one.tally(reports, weights=w)


def test_only_weighted_tallies_of_one_study_add_up(seed: int) -> None:
    one, other = study("symbols"), study("bits")
    empty = one.tally([], weights=[])
    assert empty.n == 0
    assert math.isnan(empty.estimate().count(a=1).value)
    with pytest.raises(MismatchError, match="the other tally belongs to study"):
        empty + other.tally([], weights=[])
    with pytest.raises(TypeError):
        empty + one.empty_tally()  # type: ignore[operator]
    with pytest.raises(TypeError):
        one.empty_tally() + empty  # type: ignore[operator]


def test_weight_zero_is_allowed_and_shares_of_it_are_unknown() -> None:
    one = study("symbols")
    est = one.tally(one.encode(people(5, 1)), weights=np.zeros(5)).estimate()
    assert (est.count(a=1).value, est.n) == (0.0, 5)
    for found in (est.fraction(a=1), est.mean("a")):
        assert math.isnan(found.value)
        assert found.stderr == math.inf
    histogram = est.histogram("a", fraction=True)
    assert np.isnan(histogram.values).all()
    assert math.isnan(est.quantile("a", 0.5).value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1, 2], r"one per report, got 2 weights for 3 reports"),
        ([1, 2, 3, 4], r"one per report, got 4 weights for 3 reports"),
        ([1, -2, -0.5], r"must not be negative, and 2 of 3 break this \(rows 2, 3\)"),
        ([1, 2, float("nan")], r"must be finite numbers, and 1 of 3 break this \(row 3\)"),
        ([None, 2, 1], r"must be finite numbers.*row 1"),
        (pa.array([1.5, None, 2]), r"must be finite numbers.*row 2"),
        ([1, float("inf"), 1], r"must be finite numbers.*row 2"),
        ([1, 1e200, 1], r"between 1e-100 and 1e\+100.*row 2.*other units"),
        ([1, 1e-200, 1], r"must be 0 or lie between.*row 2"),
        (["1", "2", "x"], r"must be a list of numbers"),
        ([1, object(), 2], r"must be a list of numbers"),
        ([True, False, True], r"must be a list of numbers"),
        (np.ones((3, 1)), r"with 2 axes"),
        (1.0, r"with 0 axes"),
    ],
)  # fmt: skip
def test_bad_weights_are_refused(given: Any, message: str) -> None:
    one = study("symbols")
    reports = one.encode({"a": [0, 1, 2], "b": [0, 1, 0]})
    with pytest.raises(DataError, match=message) as caught:
        one.tally(reports, weights=given)
    assert "1e200" not in str(caught.value)
    assert "-0.5" not in str(caught.value)


def test_weights_are_copied_and_may_be_whole_numbers() -> None:
    one = study("bits")
    given = np.array([1.0, 2.0, 3.0])
    tally = one.tally(one.encode({"a": [0, 1, 2], "b": [0, 1, 0]}), weights=given)
    given[:] = 9.0
    assert tally.weight == 6.0
    assert isinstance(tally, WeightedTally)


@kinds
def test_likelihood_answers_of_equal_weights_are_the_plain_ones(kind: str, seed: int) -> None:
    """Any weight: scaled to as many people as there are, the decoding is the same."""
    one = study(kind, (6, 4))
    reports = one.encode(people(900, seed, (6, 4)), bits=sf.SeededBits(seed))
    plain = one.tally(reports).estimate("likelihood")
    est = one.tally(reports, weights=np.full(900, 2.5)).estimate("likelihood")
    for ask_it, factor in [
        (lambda e: e.count(a=(1, 3)), 2.5), (lambda e: e.count(a=(1, 3), b=2), 2.5),
        (lambda e: e.count(), 2.5), (lambda e: e.total("a"), 2.5),
        (lambda e: e.fraction(a=1), 1), (lambda e: e.mean("a", where="b=0"), 1),
    ]:  # fmt: skip
        assert ask_it(est).value == pytest.approx(factor * ask_it(plain).value, rel=1e-6)
        assert any("public weights" in note for note in ask_it(est).notes)
    assert est.histogram("a").values == pytest.approx(2.5 * plain.histogram("a").values, rel=1e-6)
    grid = np.arange(24.0)[None]
    assert est.linear(grid).values == pytest.approx(2.5 * plain.linear(grid).values, rel=1e-6)


@kinds
@pytest.mark.parametrize("population", [False, True])
def test_intervals_of_weighted_likelihood_answers_are_the_unbiased_ones(
    kind: str, population: bool, seed: int
) -> None:
    one = study(kind, (6, 4))
    w = np.random.default_rng(seed).gamma(0.5, size=600)
    reports = one.encode(people(600, seed, (6, 4)), bits=sf.SeededBits(seed))
    tally = one.tally(reports, weights=w)
    unbiased, likely = tally.estimate(), tally.estimate("likelihood")
    assert likely.count().value == pytest.approx(w.sum())
    for ask_it in (
        lambda e: e.count(a=(1, 3), population=population),
        lambda e: e.total("a", where="b=1", population=population),
        lambda e: e.histogram("b", population=population),
        lambda e: e.histogram("b", where="a=1..4", fraction=True, population=population),
        lambda e: e.linear(np.arange(48.0).reshape(2, 24), population=population),
    ):
        mine, theirs = ask_it(likely), ask_it(unbiased)
        assert mine.stderr == pytest.approx(theirs.stderr)
        # The interval of an estimate below zero is moved to begin there.
        kept = np.asarray(getattr(theirs, "values", theirs.low)) >= 0
        assert np.all((mine.low <= theirs.low + 1e-9) | ~kept)
        assert np.all((mine.high >= theirs.high - 1e-9) | ~kept)


def test_a_weighted_likelihood_estimate_needs_weight_and_reports() -> None:
    one = study("symbols")
    empty = one.tally([], weights=[]).estimate("likelihood")
    assert math.isnan(empty.count(a=1).value)
    weightless = one.tally(one.encode(people(5, 1)), weights=np.zeros(5)).estimate("likelihood")
    assert weightless.count(a=1).value == 0
    assert math.isnan(weightless.fraction(a=1).value)
    assert weightless.linear(np.ones((1, 6))).values == pytest.approx([0])
    with pytest.raises(StudyError, match="method must be"):
        one.tally([], weights=[]).estimate("guess")


def test_steps_and_bands_know_the_whole_weight(seed: int) -> None:
    one = study("symbols")
    reports = one.encode(people(60, seed), bits=sf.SeededBits(seed))
    est = one.tally(reports, weights=np.linspace(0, 4, 60)).estimate()
    histogram = est.histogram("a")
    assert histogram.simplex().values.sum() == pytest.approx(120)
    assert any("public weights" in note for note in histogram.notes)
    simulated, sidak = histogram.band(), est.histogram("a", population=True).band()
    assert "simulated from the joint law" in simulated.notes[-1]
    assert "Šidák" in sidak.notes[-1]


# Files


@kinds
def test_a_file_holds_all_of_a_weighted_tally(kind: str, tmp_path: Path, seed: int) -> None:
    one, path = study(kind), tmp_path / "t.parquet"
    w = np.random.default_rng(seed).gamma(0.3, size=200)
    w[::7] = 0.0
    tally = one.tally(one.encode(people(200, seed)), weights=w)
    for held in (tally, one.tally([], weights=[])):
        held.save(path)
        found = WeightedTally.load(path, one)
        assert found == held
        assert (found.n, found.heaviest) == (held.n, held.heaviest)
    tally.save(path)
    before, after = (t.estimate().count(a=(1, 2)) for t in (tally, WeightedTally.load(path, one)))
    assert (after.value, after.stderr) == pytest.approx((before.value, before.stderr))
    with pytest.raises(FormatError, match="holds a weighted tally, but a tally must be given"):
        sf.Tally.load(path, one)
    with pytest.raises(MismatchError, match="belongs to study"):
        WeightedTally.load(path, sf.Study("other", list(one.axes)))
    one.empty_tally().save(path)
    with pytest.raises(FormatError, match="holds a tally, but a weighted tally must be given"):
        WeightedTally.load(path, one)
    with pytest.raises(StudyError, match="study must be a Study"):
        WeightedTally.load(path, "study.toml")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["symbols", "bits"])
@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("reports", None), ("reports", -1), ("reports", 1), ("reports", 2.5), ("reports", 2**60),
        ("reports", True), ("heaviest", None), ("heaviest", "heavy"), ("heaviest", -1.0),
        ("heaviest", 1e300),
    ],
)  # fmt: skip
def test_damaged_metadata_is_refused(kind: str, entry: str, value: Any, tmp_path: Path) -> None:
    one, path = study(kind), tmp_path / "t.parquet"
    one.tally(one.encode(people(50, 1)), weights=np.full(50, 2.0)).save(path)
    table = pq.read_table(path)
    head = json.loads(table.schema.metadata[b"sfumato"]) | {entry: value}
    pq.write_table(table.replace_schema_metadata({b"sfumato": json.dumps(head)}), path)
    with pytest.raises(FormatError, match="damaged metadata"):
        WeightedTally.load(path, one)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("column", ["weight", "squared weight"])
def test_impossible_weights_in_a_file_are_refused(
    column: str, value: float, tmp_path: Path
) -> None:
    one, path = study("symbols"), tmp_path / "t.parquet"
    one.tally(one.encode(people(50, 1)), weights=np.full(50, 2.0)).save(path)
    table = pq.read_table(path)
    place = table.column_names.index(column)
    wrong = pa.array([value] * len(table))
    field = pa.field(column, pa.float64(), nullable=False)
    pq.write_table(table.set_column(place, field, wrong), path)
    with pytest.raises(FormatError, match=f"column '{column}' of .* must hold finite weights"):
        WeightedTally.load(path, one)
    words = pa.array([1] * len(table))
    pq.write_table(table.set_column(place, column, words), path)
    with pytest.raises(FormatError, match="must hold weights, got int64"):
        WeightedTally.load(path, one)


# Private weights


TOP = 8


def spend(bins: int, channel: Choice | None = None) -> Axis:
    metric = sf.Distance(1, per=TOP)
    return sf.reals(
        "spend", 0, TOP, bins=bins, rounding="stochastic", protect=metric, channel=channel
    )


def test_the_second_moment_of_a_private_weight_is_the_corrected_formula() -> None:
    """In rationals: E[f²] = Δ²·((s² − 1)/4 + w/Δ), for the table that is sampled from."""
    one = sf.Study("s", [spend(1, sf.Thermometer())])
    channel = one.channels[0]
    assert isinstance(channel, ThermometerChannel)
    assert channel.rounds
    rows, total = channel.words()
    s = Fraction(total, total - 2 * channel.flip_words[0])
    f = [Fraction(TOP, 2) * (1 + s), Fraction(TOP, 2) * (1 - s)]  # bit not set, bit set
    assert np.asarray(channel.functional([0.0, TOP])) == pytest.approx([float(x) for x in f])
    for w in (Fraction(0), Fraction(1), Fraction(13, 4), Fraction(4), Fraction(8)):
        up = w / TOP
        law = [(1 - up) * low + up * high for low, high in zip(*rows, strict=True)]
        mean = sum(p * x for p, x in zip(law, f, strict=True)) / total
        second = sum(p * x * x for p, x in zip(law, f, strict=True)) / total
        assert mean == w
        assert second == TOP**2 * ((s**2 - 1) / 4 + w / TOP)


def rounded_law(channel: Any, place: Fraction, steps: int) -> Floats:
    """The law of the output at a place on the axis, between two grid points."""
    table = channel.likelihood()
    below = min(int(place * steps), steps - 1)
    up = float(place * steps - below)
    law: Floats = (1 - up) * table[below] + up * table[below + 1]
    return law


@pytest.mark.slow
@pytest.mark.parametrize("bins", [1, 2])
@pytest.mark.parametrize("channel", [sf.Thermometer(), sf.Geometric()], ids=str)
@pytest.mark.parametrize("places", [("0", "1"), ("1/2", "1/2"), ("1/8", "5/8"), ("1/3", "1")])
def test_totals_are_unbiased_and_their_error_is_not_below_the_truth(
    bins: int, channel: Choice, places: tuple[str, str]
) -> None:
    """Two people, all their reports, with a condition on another axis."""
    group = sf.integers("group", 0, 1, protect=sf.Distance(2), channel=sf.Geometric())
    one = sf.Study("s", [spend(bins, channel), group])
    values, groups = [Fraction(place) for place in places], (1, 0)
    laws = [
        [rounded_law(one.channels[0], x, bins), one.channels[1].likelihood()[g]]
        for x, g in zip(values, groups, strict=True)
    ]
    mean = square = reported = raw = 0.0
    for chance, reports in all_reports(one, laws):
        est = one.tally(reports).estimate("unbiased")
        assert isinstance(est, UnbiasedEstimate)
        answer = est.total("spend", where={"group": 1})
        ((_, question),) = answer.combination.terms  # type: ignore[union-attr]
        mean += chance * answer.value
        square += chance * answer.value**2
        reported += chance * answer.stderr**2
        raw += chance * raw_variance(est, question)
    truth = square - mean**2
    assert mean == pytest.approx(float(values[0]) * TOP, abs=EXACT)
    assert raw >= truth * (1 - EXACT)
    assert reported >= raw * (1 - EXACT)


def test_the_error_is_exact_half_way_and_would_be_too_small_without_rounding() -> None:
    one = sf.Study("s", [spend(1, sf.Thermometer())])
    channel = one.channels[0]
    for place in (Fraction(1, 2), Fraction(1, 8)):
        mean = square = raw = 0.0
        for chance, reports in all_reports(one, [[rounded_law(channel, place, 1)]]):
            est = one.tally(reports).estimate("unbiased")
            assert isinstance(est, UnbiasedEstimate)
            answer = est.total("spend")
            ((_, question),) = answer.combination.terms  # type: ignore[union-attr]
            mean += chance * answer.value
            square += chance * answer.value**2
            raw += chance * raw_variance(est, question)
        quarter = (Fraction(1, 2) - place) ** 2 * TOP**2  # what w(Δ − w) falls short of Δ²/4
        assert raw - (square - mean**2) == pytest.approx(float(quarter), abs=EXACT)
    without = raw - TOP**2 / 4
    assert without < square - mean**2


def test_the_total_is_the_sum_of_numbers_over_the_histogram(seed: int) -> None:
    one = study("both", (4, 5))
    tally = one.simulate(people(500, seed, (4, 5)), seed=seed)
    for method in ("unbiased", "likelihood"):
        est = tally.estimate(method)
        for where in (None, {"b": (1, 3)}, {"a": (1, 2)}):
            cells = est.histogram("a", where=where)
            numbers = np.array([float(label) for label in cells.labels])
            total = est.total("a", where=where)
            # Conditions on another axis are decoded on both: the same up to the fit.
            assert total.value == pytest.approx(cells.values @ numbers, rel=1e-6)
            assert total.method == method
        mean = est.mean("a")
        assert est.total("a").value == pytest.approx(500 * mean.value)
        assert est.total("a").stderr == pytest.approx(500 * mean.stderr)
        assert est.total("a", population=True).stderr > est.total("a").stderr
        assert est.total("a", where={"b": 0}).question == "total of a where b=0"


def test_no_answer_counts_for_nothing_in_a_total(seed: int) -> None:
    rating = sf.integers("rating", 1, 5, protect=sf.Uniform(6), optional=True)
    tally = sf.Study("s", [rating]).simulate({"rating": [5, 5, None, 1] * 2_000}, seed=seed)
    est = tally.estimate("unbiased")
    total = est.total("rating")
    assert abs(total.value - 22_000) < 4 * total.stderr
    answered = est.count(rating=(None, None))
    assert est.mean("rating").value == pytest.approx(total.value / answered.value)


def test_a_private_weight_by_both_methods(seed: int) -> None:
    region = sf.categories("region", ["north", "south"], protect=sf.Uniform(2))
    one = sf.Study("shop", [spend(1), region])
    table = {"spend": [1.0, 6.5] * 4_000, "region": ["north", "south"] * 4_000}
    tally = one.simulate(table, seed=seed)
    for method in ("unbiased", "likelihood"):
        est = tally.estimate(method)
        for where, truth in ((None, 30_000), ({"region": "south"}, 26_000)):
            found = est.total("spend", where=where)
            assert abs(found.value - truth) < 4 * found.stderr
            assert 4 * found.stderr < truth / 2
    assert sf.audit(one).holds
    assert sf.Study.from_toml(one.to_toml()) == one
    assert [axis.size for axis in one.axes] == [2, 2]


def test_weights_beyond_the_axis_are_refused_or_clipped() -> None:
    one = sf.Study("s", [spend(1)])
    with pytest.raises(DataError, match=r"axis 'spend' takes numbers from 0 to 8.*rows 2, 3"):
        one.encode({"spend": [3.0, 8.5, -0.1]})
    clipped = sf.Study("s", [replace(spend(1), outside="clip")])
    assert len(clipped.encode({"spend": [3.0, 8.5, -0.1]})) == 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: sf.reals("x", 0, 1, bins=1, protect=sf.Distance(1)),
        lambda: sf.reals("x", edges=[0, 1], protect=sf.Distance(1)),
        lambda: sf.reals("x", 0, 1, bins=0, rounding="stochastic", protect=sf.Distance(1)),
        lambda: sf.reals("x", edges=[0], rounding="stochastic", protect=sf.Distance(1)),
    ],
)  # fmt: skip
def test_one_bin_is_for_stochastic_rounding_only(make: Callable[[], Axis]) -> None:
    with pytest.raises(StudyError, match="at least"):
        make()
    edges = sf.reals("x", edges=[0, 1], rounding="stochastic", protect=sf.Distance(1))
    assert edges.domain == sf.reals(
        "x", 0, 1, bins=1, rounding="stochastic", protect=sf.Distance(1)
    ).domain  # fmt: skip


def test_axes_without_numbers_have_no_total() -> None:
    one = sf.Study("s", [sf.categories("c", ["x", "y"], protect=sf.Uniform(1))])
    with pytest.raises(QuestionError, match="categories, which have no total; ask for its hist"):
        one.empty_tally().estimate("unbiased").total("c")
    with pytest.raises(QuestionError, match="there is no axis 'd'"):
        one.empty_tally().estimate("unbiased").total("d")
