"""Answers: all ways to them agree, and each is exact where it can be enumerated."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from helpers_statistics import LIMIT, exact_count, exact_variance, mean_score
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.arrays import BitColumns
from sfumato.channels.base import signs
from sfumato.channels.response import KaryResponse
from sfumato.collect.sums import PrefixSums
from sfumato.questions.language import weights
from sfumato.questions.workload import Workload
from sfumato.study.reports import Reports

WAYS = ("direct", "cells", "prefix", "auto")
PEOPLE = 3_000


def _line(name: str, size: int, epsilon: float, channel: Any, **more: Any) -> sf.Axis:
    return sf.integers(name, 0, size - 1, protect=sf.Distance(epsilon), channel=channel, **more)


def _bins(name: str, channel: Any) -> sf.Axis:
    return sf.reals(name, 0, 100, bins=10, protect=sf.Distance(1.0, per=10), channel=channel)


REGION = sf.categories("r", ["n", "s", "e"], protect=sf.Uniform(1.2), optional=True)
UNEQUAL = sf.reals("u", edges=[0, 1, 3, 7, 20, 50], protect=sf.Distance(0.4))
MAYBE = sf.integers(
    "o", 0, 6, protect=sf.Distance(0.8, no_answer=3), optional=True, channel=sf.Exponential()
)
MIXES = {
    "one geometric": [_line("a", 12, 0.7, sf.Geometric())],
    "one thermometer": [_line("a", 12, 0.7, sf.Thermometer())],
    "geometric × response": [_line("a", 9, 0.8, sf.Geometric()), REGION],
    "response × bins": [REGION, _bins("x", sf.Geometric())],
    "geometric × thermometer × response": [
        _line("a", 9, 0.8, sf.Geometric()),
        _bins("x", sf.Thermometer()),
        REGION,
    ],
    "thermometer × published": [UNEQUAL, _line("b", 7, 0.9, sf.Thermometer("published"))],
    "exponential × thermometer": [MAYBE, _line("b", 6, 0.9, sf.Thermometer())],
    "exponential × geometric": [MAYBE, _bins("x", sf.Geometric())],
    "three thermometers": [_line(n, s, 1.0, sf.Thermometer()) for n, s in zip("abc", (5, 6, 4))],  # noqa: B905
    "one rounded": [
        sf.reals("x", 0, 5, bins=5, rounding="stochastic", protect=sf.Distance(1.5)),
    ],
}
mixes = pytest.mark.parametrize("mix", MIXES)
# A workload reads the published variant's noisy last bit on every axis, where a question that
# leaves an axis out does not: they are alike only where all axes are asked about.
alike = pytest.mark.parametrize("mix", [mix for mix in MIXES if "published" not in mix])


def _study(mix: str) -> sf.Study:
    return sf.Study(mix, MIXES[mix])


@cache
def _tally(mix: str) -> sf.Tally:
    study = _study(mix)
    share = np.random.default_rng(8).dirichlet(np.full(math.prod(study.shape), 0.7))
    counts = np.random.default_rng(9).multinomial(PEOPLE, share)
    return study.simulate_counts(counts, seed=10)


@cache
def _estimates(mix: str) -> dict[str, sf.Estimate]:
    return {way: _tally(mix).estimate("unbiased", via=way) for way in WAYS}


def _points(axis: sf.Axis) -> st.SearchStrategy[Any]:
    """What can be asked of an axis by value."""
    domain = axis.domain
    if domain.kind == "categories":
        return st.sampled_from(domain.labels())
    edges = domain.edges()
    assert edges is not None
    if domain.kind == "integers":
        return st.integers(int(edges[0] + 0.5), int(edges[-1] - 0.5))
    tenths = st.integers(int(edges[0] * 10), int(edges[-1] * 10))
    return tenths.map(lambda tenth: tenth / 10)


def _asks(axis: sf.Axis) -> st.SearchStrategy[Any]:
    """Points, intervals, open ends, unions and "no answer"."""
    choices = [_points(axis)]
    if axis.domain.ordered:
        end = st.none() | _points(axis)
        choices.append(
            st.tuples(end, end).map(
                lambda ends: tuple(sorted(ends)) if None not in ends else tuple(ends)
            )
        )
    if axis.optional:
        choices.append(st.none())
    one = st.one_of(choices)
    return one | st.lists(one, min_size=1, max_size=3)


def _questions(axes: Sequence[sf.Axis]) -> st.SearchStrategy[dict[str, Any]]:
    """Conjunctions over some of the axes."""
    return st.fixed_dictionaries({}, optional={axis.name: _asks(axis) for axis in axes})


def _grid(study: sf.Study, question: dict[str, Any]) -> np.ndarray:
    """A question's weight of every cell."""
    total = np.ones(())
    for axis, w in zip(study.axes, weights(study.axes, question).weights, strict=True):
        total = np.multiply.outer(total, np.ones(axis.size) if w is None else w)
    return total


def _same(first: Any, second: Any) -> None:
    """The same value and error, up to 1e-9; a value near zero is measured by its error."""
    assert first.value == pytest.approx(second.value, rel=1e-9, abs=1e-9 * second.stderr + 1e-9)
    # Where the error is exactly zero, rounding leaves the root of 1e-16 times what was subtracted.
    assert first.stderr**2 == pytest.approx(second.stderr**2, rel=2e-9, abs=1e-9)


def _entries(answers: sf.Answers) -> Iterator[tuple[tuple[int, ...], sf.Answer]]:
    """Every entry of an array of answers as an answer of its own."""
    for place in np.ndindex(answers.values.shape):
        value, stderr = float(answers.values[place]), float(answers.stderr[place])
        yield place, sf.Answer(value=value, stderr=stderr, n=answers.n)


class TestAllWaysAgree:
    @pytest.mark.slow
    @mixes
    @settings(max_examples=25)
    @given(data=st.data())
    def test_on_any_conjunction(self, mix: str, data: st.DataObject) -> None:
        question = data.draw(_questions(MIXES[mix]))
        for population in (False, True):
            answers = [
                estimate.count(question, population=population)
                for estimate in _estimates(mix).values()
            ]
            for answer in answers[1:]:
                _same(answer, answers[0])

    @pytest.mark.slow
    @alike
    @settings(max_examples=25)
    @given(data=st.data())
    def test_a_workload_of_the_same_weights_gives_the_same_answers(
        self, mix: str, data: st.DataObject
    ) -> None:
        study, estimate = _study(mix), _estimates(mix)["direct"]
        asked = data.draw(st.lists(_questions(MIXES[mix]), min_size=1, max_size=3))
        rows = np.array([_grid(study, question).ravel() for question in asked])
        for population in (False, True):
            answers = estimate.linear(rows, population=population)
            for (place, answer), question in zip(_entries(answers), asked, strict=True):
                assert place[0] < len(asked)
                _same(answer, estimate.count(question, population=population))

    @pytest.mark.slow
    @alike
    @settings(max_examples=25)
    @given(data=st.data())
    def test_differences_have_the_exact_covariance(self, mix: str, data: st.DataObject) -> None:
        study, estimate = _study(mix), _estimates(mix)["direct"]
        one, two = data.draw(_questions(MIXES[mix])), data.draw(_questions(MIXES[mix]))
        a, b = _grid(study, one).ravel(), _grid(study, two).ravel()
        first, second = estimate.count(one), estimate.count(two)
        for found, row in ((first - second, a - b), (first + second, a + b), (0.5 * first, a / 2)):
            ((_, wanted),) = _entries(estimate.linear(row))
            # Variances add and cancel here: the tolerance is relative to what is added.
            size = first.stderr**2 + second.stderr**2
            assert found.value == pytest.approx(wanted.value, abs=1e-9 * PEOPLE)
            assert found.stderr**2 == pytest.approx(wanted.stderr**2, abs=1e-9 * size + 1e-9)
        ((_, minus),) = _entries(estimate.linear(a - b))
        ((_, plus),) = _entries(estimate.linear(a + b))
        if not np.array_equal(a, b) and min(first.stderr, second.stderr) > 0:
            # Twin: without the covariance, at least one of the two would be wrong.
            apart = math.hypot(first.stderr, second.stderr)
            both = abs(apart - minus.stderr) + abs(apart - plus.stderr)
            covariance = plus.stderr**2 - minus.stderr**2
            assert both > 0 or covariance == pytest.approx(0, abs=1e-9 * apart**2)

    @pytest.mark.slow
    @alike
    @settings(max_examples=25)
    @given(data=st.data())
    def test_ratios_follow_the_delta_method(self, mix: str, data: st.DataObject) -> None:
        """Var(A/B) ≈ Var(A − (A/B)·B)/B², and A − (A/B)·B is a linear question."""
        study, estimate = _study(mix), _estimates(mix)["direct"]
        one, two = data.draw(_questions(MIXES[mix])), data.draw(_questions(MIXES[mix]))
        top, bottom = estimate.count(one), estimate.count(two)
        if abs(bottom.value) < bottom.stderr or abs(bottom.value) < 1:
            return
        ratio = top / bottom
        row = _grid(study, one).ravel() - ratio.value * _grid(study, two).ravel()
        direct = float(estimate.linear(row).stderr[0]) / abs(bottom.value)
        assert ratio.value == pytest.approx(top.value / bottom.value, rel=1e-12, abs=1e-12)
        size = (top.stderr**2 + (ratio.value * bottom.stderr) ** 2) / bottom.value**2
        assert ratio.stderr**2 == pytest.approx(direct**2, abs=1e-9 * size + 1e-12)

    def test_the_published_variant_agrees_where_all_axes_are_asked_about(self) -> None:
        mix = "thermometer × published"
        study, estimate = _study(mix), _estimates(mix)["direct"]
        one, two = {"u": (1, 7), "b": (1, 4)}, {"u": (0, 20), "b": (0, 2)}
        a, b = _grid(study, one).ravel(), _grid(study, two).ravel()
        first, second = estimate.count(one), estimate.count(two)
        for found, row in ((first, a), (second, b), (first - second, a - b)):
            ((_, wanted),) = _entries(estimate.linear(row))
            _same(found, wanted)

    def test_the_published_variant_takes_what_is_not_asked_about_as_known(self) -> None:
        """The number of people has no error, so taking an answer from it leaves the error as is."""
        estimate = _estimates("thermometer × published")["direct"]
        for question in ({"b": (0, 2)}, {"u": (1, 7), "b": (2, 6)}):
            part = estimate.count(question)
            assert (estimate.count() - part).stderr == pytest.approx(part.stderr, rel=1e-9)


class TestTheTable:
    @pytest.mark.parametrize("channel", [sf.Geometric(), sf.Thermometer()], ids=lambda c: c.id)
    def test_auto_builds_it_once_it_pays(
        self, channel: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # As if a look-up cost nothing to prepare: on so small a grid no table would pay otherwise.
        monkeypatch.setattr("sfumato.collect.sums.LOOK_UP_COST", 0.0)
        monkeypatch.setattr("sfumato.collect.sums.LOOK_UP_COST", 0.0)
        axes = [_line("a", 90, 0.8, channel), _line("b", 40, 0.8, channel)]
        rng = np.random.default_rng(3)
        people = {"a": rng.integers(0, 90, 600), "b": rng.integers(0, 40, 600)}
        tally = sf.Study("grid", axes).simulate(people, seed=1)
        estimate, direct = tally.estimate("unbiased"), tally.estimate("unbiased", via="direct")
        built = []
        for _ in range(1_000):
            low, high = sorted(rng.integers(0, 90, 2).tolist())
            _same(estimate.count(a=(low, high)), direct.count(a=(low, high)))
            built.append(estimate._sums._prefix is not None)
            if built[-1] and len(built) > 20:
                break
        assert not built[0]  # one question does not pay for a table
        assert built[-1]
        assert isinstance(estimate._sums._prefix, PrefixSums)
        # Built once what was spent reached its price, and not before.
        assert estimate._sums._spent >= estimate._sums._build_cost()
        assert direct._sums._prefix is None

    def test_auto_stays_direct_where_a_look_up_costs_more(self) -> None:
        estimate = _tally("geometric × response").estimate("unbiased")
        for _ in range(300):
            estimate.count(a=(2, 5))
        assert estimate._sums._spent > estimate._sums._build_cost()
        assert estimate._sums._prefix is None

    def test_auto_never_builds_what_is_too_large(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sfumato.collect.sums.MOST_GRID", 8)
        estimate = _tally("geometric × response").estimate("unbiased")
        for _ in range(300):
            estimate.count(a=(2, 5))
        assert estimate._sums._prefix is None
        assert estimate._sums._spent > estimate._sums._build_cost()

    def test_ways_asked_for_by_name_keep_to_it(self) -> None:
        tally = _tally("geometric × thermometer × response")
        for way, grid, prefix in (
            ("direct", False, False),
            ("cells", True, False),
            ("prefix", True, True),
        ):
            estimate = tally.estimate("unbiased", via=way)
            estimate.count(a=(2, 5))
            assert (estimate._sums._grid is not None) == grid
            assert (estimate._sums._prefix is not None) == prefix

    def test_beyond_the_limit_a_table_is_refused_with_its_size(self) -> None:
        axes = [_line(name, 300, 1.0, sf.Geometric()) for name in "abc"]
        tally = sf.Study("wide", axes).simulate({n: [1, 2] for n in "abc"}, seed=1)
        with pytest.raises(sf.TooLargeError, match="300 × 300 × 300"):
            tally.estimate("unbiased", via="cells").count(a=3)
        assert tally.estimate("unbiased").count(a=(0, 5), b=(0, 5)).n == 2


class TestManyAtOnce:
    @pytest.mark.slow
    @pytest.mark.parametrize("mix", [mix for mix in MIXES if mix != "one rounded"])
    @pytest.mark.parametrize("population", [False, True])
    def test_histogram_entries_are_counts(self, mix: str, population: bool) -> None:
        estimate = _estimates(mix)["direct"]
        for axis in MIXES[mix]:
            for where in (None, *_conditions(mix, axis)):
                found = estimate.histogram(axis.name, where=where, population=population)
                assert found.labels == axis.labels()
                for (cell,), answer in _entries(found):
                    part = {axis.name: _cell(axis, cell)}
                    _same(answer, estimate.count(part, where=where, population=population))

    @pytest.mark.slow
    @pytest.mark.parametrize("mix", [mix for mix in MIXES if mix != "one rounded"])
    def test_cdf_entries_are_counts(self, mix: str) -> None:
        estimate = _estimates(mix)["direct"]
        for axis in MIXES[mix]:
            if not axis.domain.ordered:
                with pytest.raises(sf.QuestionError, match="has no order"):
                    estimate.cdf(axis.name)
                continue
            for where in (None, *_conditions(mix, axis)):
                found = estimate.cdf(axis.name, where=where, fraction=False)
                assert len(found) == axis.domain.size
                known = "published" in mix  # there the full range is noisy if read from the bits
                for (cell,), answer in list(_entries(found))[: -1 if known else None]:
                    upto = {axis.name: [_cell(axis, below) for below in range(cell + 1)]}
                    _same(answer, estimate.count(upto, where=where))
                # As shares they are of those who satisfy the condition, and have answered.
                base = dict(where or {})
                if axis.optional:
                    base[axis.name] = (None, None)
                shares = list(_entries(estimate.cdf(axis.name, where=where)))
                for (cell,), answer in shares[: -1 if known else None]:
                    upto = {axis.name: [_cell(axis, below) for below in range(cell + 1)]}
                    _same(answer, estimate.fraction(upto, where=base or None))

    @pytest.mark.slow
    @pytest.mark.parametrize("mix", [mix for mix, axes in MIXES.items() if len(axes) > 1])
    def test_heatmap_entries_are_counts(self, mix: str) -> None:
        estimate = _estimates(mix)["direct"]
        for one, two in itertools.permutations(MIXES[mix], 2):
            others = [axis for axis in MIXES[mix] if axis not in (one, two)]
            for where in (None, *(_some(axis) for axis in others)):
                found = estimate.heatmap(one.name, two.name, where=where)
                assert found.values.shape == (one.size, two.size)
                for (i, j), answer in _entries(found):
                    part = {one.name: _cell(one, i), two.name: _cell(two, j)}
                    _same(answer, estimate.count(part, where=where))

    @pytest.mark.parametrize("bins", [1, 2, 5, 12, 50])
    def test_groups_of_cells_are_counts_of_their_ranges(self, bins: int) -> None:
        estimate = _estimates("exponential × thermometer")["direct"]
        found = estimate.histogram("o", bins=bins)
        groups = np.array_split(np.arange(7), min(bins, 7))
        assert found.labels[-1] == "no answer"
        assert len(found) == len(groups) + 1
        for (_, answer), group in zip(_entries(found), groups, strict=False):
            _same(answer, estimate.count(o=(int(group[0]), int(group[-1]))))
        *_, (_, unanswered) = _entries(found)
        _same(unanswered, estimate.count(o=[None]))
        pairs = estimate.heatmap("o", "b", bins=(bins, None))
        for (i, j), answer in _entries(pairs):
            part = None if i == len(groups) else (int(groups[i][0]), int(groups[i][-1]))
            _same(answer, estimate.count(o=[part], b=j))

    def test_a_condition_on_the_same_axis_limits_what_is_shown(self) -> None:
        estimate = _estimates("response × bins")["direct"]
        found = estimate.histogram("x", where="x=15..40")
        assert found.labels == [MIXES["response × bins"][1].labels()[k] for k in (1, 2, 3)]
        assert any("prorated" in note for note in found.notes)
        for (row,), answer in _entries(found):
            _same(answer, estimate.count(x=(10 * row + 10, 10 * row + 20), where="x=15..40"))
        np.testing.assert_array_equal(found.edges, [10, 20, 30, 40])

    def test_fractions_of_all_and_of_some(self) -> None:
        estimate = _estimates("geometric × response")["direct"]
        whole, share = estimate.count(a=(2, 5)), estimate.fraction(a=(2, 5))
        assert share.value == pytest.approx(whole.value / PEOPLE, rel=1e-12)
        assert share.stderr == pytest.approx(whole.stderr / PEOPLE, rel=1e-12)
        some = estimate.fraction(a=(2, 5), where="r=n|s")
        ratio = estimate.count("a=2..5, r=n|s") / estimate.count("r=n|s")
        assert some.value == pytest.approx(ratio.value, rel=1e-12)
        assert some.stderr == pytest.approx(ratio.stderr, rel=1e-12)

    def test_the_mean_is_a_linear_question(self) -> None:
        study, estimate = (
            _study("geometric × response"),
            _estimates("geometric × response")["direct"],
        )
        numbers = np.multiply.outer(np.arange(9.0), np.ones(4)).ravel() / PEOPLE
        ((_, wanted),) = _entries(estimate.linear(numbers))
        _same(estimate.mean("a"), wanted)
        north = np.multiply.outer(np.ones(9), [1.0, 0, 0, 0]).ravel()
        base = float(estimate.linear(north).values[0])
        top = np.multiply.outer(np.arange(9.0), [1.0, 0, 0, 0]).ravel()
        mean = estimate.mean("a", where="r=n")
        assert mean.value == pytest.approx(float(estimate.linear(top).values[0]) / base, rel=1e-9)
        spread = float(estimate.linear(top - mean.value * north).stderr[0])
        assert mean.stderr == pytest.approx(spread / base, rel=1e-9)
        assert study.axes[0].name == "a"
        with pytest.raises(sf.QuestionError, match="no mean"):
            estimate.mean("r")

    def test_a_cut_bin_is_prorated_and_said_to_be(self) -> None:
        estimate = _estimates("response × bins")["direct"]
        answer = estimate.count(x=(0, 25))
        assert any("prorated" in note for note in answer.notes)
        whole, half = estimate.count(x=(0, 20)), estimate.count(x=(20, 30))
        assert answer.value == pytest.approx(whole.value + half.value / 2, rel=1e-9)
        assert not whole.notes

    @pytest.mark.parametrize("entries", [None, 1 << 8])
    def test_a_workload_and_its_matrix_give_the_same(
        self, entries: int | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also in blocks of a few rows."""
        estimate = _estimates("response × bins")["direct"]
        asked = sf.questions.parse(estimate.study, ["ranges of x", "x=0..25", "2-way"])
        dense = estimate.linear(asked.dense())
        if entries is not None:
            chunks = Workload.chunks
            monkeypatch.setattr(Workload, "chunks", lambda self: chunks(self, entries))
            assert len(list(asked.chunks())) > 3
        found = estimate.linear(asked)
        np.testing.assert_allclose(found.values, dense.values, rtol=1e-9)
        np.testing.assert_allclose(found.stderr, dense.stderr, rtol=1e-9)
        assert found.labels == list(asked.labels)
        assert dense.labels == [str(row) for row in range(asked.questions)]
        assert any("prorated" in note for note in found.notes)
        assert not dense.notes

    def test_wrong_workloads_are_refused(self) -> None:
        estimate = _estimates("geometric × response")["direct"]
        with pytest.raises(sf.QuestionError, match="36 columns"):
            estimate.linear(np.ones((2, 35)))
        with pytest.raises(sf.QuestionError, match="36 columns"):
            estimate.linear(sf.questions.Ranges(35))
        with pytest.raises(sf.QuestionError, match="finite"):
            estimate.linear(np.full(36, np.nan))
        with pytest.raises(sf.QuestionError, match="two different axes"):
            estimate.heatmap("a", "a")
        with pytest.raises(sf.QuestionError, match="bins must be"):
            estimate.histogram("a", bins=0)


def _cell(axis: sf.Axis, cell: int) -> Any:
    """What to ask for to count the people of one cell."""
    if cell == axis.domain.size:
        return None
    if axis.domain.kind == "categories":
        return axis.domain.labels()[cell]
    if axis.domain.kind == "integers":
        return cell
    edges = axis.domain.edges()
    assert edges is not None
    return (float(edges[cell]), float(edges[cell + 1]))


def _some(axis: sf.Axis) -> dict[str, Any]:
    """A condition on an axis."""
    if axis.domain.kind == "categories":
        return {axis.name: ["n", None]}
    return {axis.name: (2, 5) if axis.domain.kind == "integers" else (2, 33.5)}


def _conditions(mix: str, but: sf.Axis) -> list[dict[str, Any]]:
    """Conditions on every other axis."""
    return [_some(axis) for axis in MIXES[mix] if axis is not but]


# A dense oracle: everything that can happen, with its probability.

TINY = {
    "geometric × thermometer": (sf.Geometric(), sf.Thermometer()),
    "published × geometric": (sf.Thermometer("published"), sf.Geometric()),
    "exponential × published": (sf.Exponential(), sf.Thermometer("published")),
    "geometric × response": (sf.Geometric(), KaryResponse()),
}
TINY_QUESTIONS: list[dict[str, Any]] = [{"a": 1, "b": (1, 2)}, {"a": (0, 1)}, {"b": (1, 3)}, {}]


def _tiny(name: str) -> sf.Study:
    first, second = TINY[name]
    protect = sf.Uniform(0.9) if isinstance(second, KaryResponse) else sf.Distance(0.9)
    return sf.Study(
        name,
        [
            sf.integers("a", 0, 2, protect=sf.Distance(0.7), channel=first),
            sf.integers("b", 0, 3, protect=protect, channel=second),
        ],
    )


def _every_output(study: sf.Study) -> tuple[Reports, np.ndarray]:
    """One report of each kind there is, and P(report | cell) for every cell, flat in C order."""
    laws = [channel.likelihood() for channel in study.channels]
    kinds = list(itertools.product(*(range(law.shape[1]) for law in laws)))
    columns: list[Any] = []
    for place, layout in enumerate(study.layouts):
        symbols = np.array([kind[place] for kind in kinds])
        columns.append(
            symbols
            if layout.kind == "symbols"
            else BitColumns.from_matrix(signs(layout.count)[symbols] > 0)
        )
    names = tuple(axis.name for axis in study.axes)
    reports = Reports(study.fingerprint, names, study.layouts, tuple(columns))
    law = laws[0]
    for more in laws[1:]:
        law = np.einsum("xy,uv->xuyv", law, more).reshape(
            len(law) * len(more), law.shape[1] * more.shape[1]
        )
    return reports, law


@cache
def _every_pair(name: str) -> tuple[dict[tuple[int, int], sf.Tally], np.ndarray]:
    """The tally of every two reports, in either order, and P(report | cell)."""
    study = _tiny(name)
    reports, law = _every_output(study)
    pairs = itertools.combinations_with_replacement(range(len(reports)), 2)
    return {(i, j): study.tally([reports[i : i + 1], reports[j : j + 1]]) for i, j in pairs}, law


@pytest.mark.parametrize("name", TINY)
class TestDenseOracle:
    @pytest.mark.slow
    def test_all_outputs_of_two_people_have_the_exact_mean_and_variance(self, name: str) -> None:
        """Count and reported error over all pairs of reports, weighted by their probability."""
        study = _tiny(name)
        pairs, law = _every_pair(name)
        kinds = range(law.shape[1])
        for question in TINY_QUESTIONS:
            asked = weights(study.axes, question)
            values, reported = np.zeros((2, len(kinds), len(kinds)))
            for (i, j), tally in pairs.items():
                estimate = tally.estimate("unbiased")
                values[i, j] = values[j, i] = estimate.value_of(asked)
                # Asked as two questions: the error without its floor, which is what is unbiased.
                raw = estimate.covariance_of(asked, replace(asked))
                reported[i, j] = reported[j, i] = raw
                if i == 0:
                    answer = estimate.count(question)
                    assert answer.value == pytest.approx(values[i, j], abs=1e-9)
                    assert answer.stderr**2 >= max(raw, 0) - 1e-9
            for first, second in ((0, 0), (5, 5), (3, 10), (6, 1)):
                counts = np.zeros(12)
                np.add.at(counts, [first, second], 1)
                people = counts.reshape(3, 4)
                chance = np.multiply.outer(law[first], law[second])
                truth = exact_count(asked.weights, people)
                variance = exact_variance(study.channels, asked.weights, people)
                mean = np.sum(chance * values)
                assert chance.sum() == pytest.approx(1, rel=1e-12)
                assert mean == pytest.approx(truth, abs=1e-9)
                assert np.sum(chance * (values - mean) ** 2) == pytest.approx(variance, abs=1e-8)
                assert np.sum(chance * reported) == pytest.approx(variance, abs=1e-8)

    @pytest.mark.slow
    def test_people_drawn_at_random_add_their_own_variance(self, name: str) -> None:
        """E[reported] = (n − 1)·(E[f²] − E[f]²), by all outputs of n = 2 people drawn afresh.

        An answer's variance is n·(E[f²] − E[f]²): what is reported is its plug-in, short by 1/n.
        """
        study = _tiny(name)
        pairs, law = _every_pair(name)
        share = np.random.default_rng(4).dirichlet(np.ones(12))
        chance = np.multiply.outer(share @ law, share @ law)
        for question in TINY_QUESTIONS:
            asked = weights(study.axes, question)
            reported = np.empty(chance.shape)
            for (i, j), tally in pairs.items():
                found = tally.estimate("unbiased").covariance_of(
                    asked, replace(asked), population=True
                )
                reported[i, j] = reported[j, i] = found
            people = share.reshape(3, 4)
            mean = exact_count(asked.weights, people)
            square = exact_count([None if w is None else w**2 for w in asked.weights], people)
            noise = exact_variance(study.channels, asked.weights, people)
            assert np.sum(chance * reported) == pytest.approx(noise + square - mean**2, abs=1e-8)

    def test_a_population_adds_what_the_formula_says(self, name: str) -> None:
        """stderr² with population = stderr² + Σw² − (Σw)²/n, all of them estimates."""
        study = _tiny(name)
        counts = np.random.default_rng(2).integers(100, 300, (3, 4))
        estimate = study.simulate_counts(counts, seed=3).estimate("unbiased")
        for question in TINY_QUESTIONS:
            plain, wide = estimate.count(question), estimate.count(question, population=True)
            own = plain.value - plain.value**2 / plain.n  # 0/1 weights: Σw² is the count itself
            assert wide.value == pytest.approx(plain.value, rel=1e-12)
            assert wide.stderr**2 == pytest.approx(plain.stderr**2 + own, rel=1e-9, abs=1e-6)


class TestStochasticRounding:
    """A value between grid points goes to either; all laws can be written down."""

    PLACES = (0.0, 0.25, 0.5, 1.0, 1.75, 2.5, 3.0)

    @staticmethod
    def _study(channel: Any, dimensions: int) -> sf.Study:
        axes = [
            sf.reals(
                name,
                0,
                3,
                bins=3,
                rounding="stochastic",
                protect=sf.Distance(0.9),
                channel=channel,
            )
            for name in "xy"[:dimensions]
        ]
        return sf.Study("rounded", axes)

    @staticmethod
    def _law(channel: Any, place: float) -> np.ndarray:
        """P(output | value): the straight line between the rows of the two grid points."""
        below = min(int(place), channel.size - 2)
        up = place - below
        law = channel.likelihood()
        return (1 - up) * law[below] + up * law[below + 1]

    @pytest.mark.parametrize("channel", [sf.Geometric(), sf.Thermometer()], ids=lambda c: c.id)
    @pytest.mark.parametrize("dimensions", [1, 2])
    def test_hat_weights_are_unbiased_and_errors_not_understated(
        self, channel: Any, dimensions: int
    ) -> None:
        study = self._study(channel, dimensions)
        reports, _ = _every_output(study)
        singles = [
            study.tally(reports[k : k + 1]).estimate("unbiased") for k in range(len(reports))
        ]
        for question in ({"x": (1, 2)}, {"x": (0, 1)}, {"x": (2, 3)}):
            question = {**question, "y": (1, 2)} if dimensions == 2 else question
            asked = weights(study.axes, question)
            values = np.array([estimate.value_of(asked) for estimate in singles])
            reported = np.array([e.covariance_of(asked, replace(asked)) for e in singles])
            for person in itertools.product(self.PLACES, repeat=dimensions):
                chance = np.ones(1)
                truth = 1.0
                for held, place, w in zip(study.channels, person, asked.weights, strict=True):
                    assert w is not None
                    chance = np.multiply.outer(chance, self._law(held, place)).ravel()
                    truth *= float(np.interp(place, np.arange(held.size), w))
                mean = float(chance @ values)
                variance = float(chance @ (values - mean) ** 2)
                assert mean == pytest.approx(truth, abs=1e-9)
                assert float(chance @ reported) >= variance - 1e-9

    @pytest.mark.parametrize("channel", [sf.Geometric(), sf.Thermometer()], ids=lambda c: c.id)
    def test_encoding_rounds_with_these_chances(self, channel: Any) -> None:
        """End to end: the mean of 200,000 one-person answers, by its own standard error."""
        study, count = self._study(channel, 1), 200_000
        reports = study.encode({"x": np.full(count, 1.3)}, bits=sf.SeededBits(13))
        for w in np.eye(4):
            f = study.channels[0].functional(w)(reports.outputs[0])
            truth = float(np.interp(1.3, np.arange(4), w))
            assert abs(mean_score(f, truth)) < LIMIT
            # Twin: a place off by a tenth of a step.
            if truth:
                other = float(np.interp(1.4, np.arange(4), w))
                assert abs(mean_score(f, other)) > LIMIT

    def test_between_grid_points_every_pair_keeps_its_own_distance(self) -> None:
        """max log ratio of the mixed laws <= ε·|a − b| for a fine grid of values."""
        for choice in (sf.Geometric(), sf.Thermometer()):
            channel = self._study(choice, 1).channels[0]
            places = np.linspace(0, 3, 49)
            laws = np.log([self._law(channel, place) for place in places])
            spent = np.abs(laws[:, None, :] - laws[None, :, :]).max(axis=2)
            allowed = 0.9 * np.abs(places[:, None] - places[None, :])
            assert np.all(spent <= allowed + 1e-12)
            assert spent[0, -1] > 0.5 * allowed[0, -1]  # and is not vacuous

    def test_a_workload_gives_the_same_answers_on_two_axes(self) -> None:
        study = self._study(sf.Geometric(), 2)
        counts = np.random.default_rng(2).integers(50, 300, (4, 4))
        estimate = study.simulate_counts(counts, seed=3).estimate("unbiased")
        question = {"x": (1, 2), "y": (0, 2)}
        ((_, found),) = _entries(estimate.linear(_grid(study, question).ravel()))
        _same(found, estimate.count(question))
