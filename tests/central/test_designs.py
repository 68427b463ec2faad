"""What is measured: the best strategy, and questions bent for few people."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from helpers_central import STUDIES, one_axis, told_apart, two_axes

import sfumato as sf
from sfumato import central
from sfumato.noise.strategies import FIXED


@pytest.mark.slow
def test_the_exact_allocation_is_never_beaten_by_the_published_ones() -> None:
    study = STUDIES["matrix"]
    rows = sf.questions.Given(np.random.default_rng(3).uniform(size=(4, 4)).round(3))
    space = central.Space(study, "1/4")
    error = {
        method: central.Laplace(rows, allocation=method).prepare(space, 10).expected().total
        for method in ("exact", "equal", "shared", "psa")
    }
    assert min(error.values()) > error["exact"] * (1 - 1e-6)
    assert error["exact"] < error["equal"]


def test_unless_told_otherwise_the_best_is_measured_where_cells_are_few() -> None:
    few = sf.Study("s", [sf.integers("x", 0, 30, protect=sf.Distance(1))])
    left_out = central.Laplace("ranges of x").prepare(central.Space(few), 10)
    assert left_out.details()["strategy"] == "prefix"
    many = sf.Study("s", [sf.integers("x", 0, 128, protect=sf.Distance(1))])
    left_out = central.Laplace(["x=3..9", "x=5..40"]).prepare(central.Space(many), 10)
    assert left_out.details()["strategy"] == "the questions themselves"


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_one_range_is_measured_itself_since_nothing_is_better(name: str) -> None:
    space = central.Space(STUDIES[name])
    axis = STUDIES[name].axes[0]
    asked = [f"{axis.name}={axis.labels()[1]}"]
    best = central.Laplace(asked).prepare(space, 100)
    assert best.design.name == "the questions themselves"
    for strategy in FIXED:
        other = central.Laplace(asked, strategy).prepare(space, 100)
        assert best.stderr[0] <= other.stderr[0] * (1 + 1e-9)


def test_one_question_on_a_fine_lattice_may_be_read_from_coarser_rows() -> None:
    """The twin: where a range cuts bins, noise in whole people beats noise in parts of them."""
    study = sf.Study("bins", [sf.reals("x", 0, 10, bins=5, protect=sf.Distance(3))])
    best = central.Laplace(["x=0.5..7.7"]).prepare(central.Space(study), 100)
    assert best.design.name == "prefix"


@pytest.mark.slow
def test_the_best_strategy_is_the_best_of_all() -> None:
    space = central.Space(one_axis(sf.Distance("1/2"), ordered=True), "1/4")
    errors = {
        name: central.Laplace("ranges of x", name).prepare(space, 10).expected().total
        for name in ("questions", "identity", "prefix", "hierarchical", "haar", "best", "searched")
    }
    assert errors["best"] == min(e for name, e in errors.items() if name != "searched")
    assert errors["searched"] <= errors["best"] * 1.001
    assert errors["prefix"] == errors["best"]


# Bias


def worst_error(prepared: Any, n: int) -> float:
    """The largest bias over people in any cells: they may as well all be in one."""
    rows = prepared.asked.workload.dense()
    held = prepared.design.measurements.lattice.matrix()
    return float(np.abs(n * (held - rows) + prepared.shift[:, None]).max())


@pytest.mark.parametrize("questions", [["x=3.."], ["x=3..", "x=1", "x=0..2"]])
def test_bent_questions_have_less_error_for_few_people(questions: list[str]) -> None:
    space = central.Space(one_axis(sf.Distance("2/3"), ordered=True), "1/4")
    for n in (1, 3, 10):
        plain = central.Laplace(questions, "questions").prepare(space, n)
        bent = central.Laplace(questions, bias="optimised").prepare(space, n)
        assert bent.expected().total < plain.expected().total
        assert worst_error(bent, n) <= bent.bias.max() * (1 + 1e-9)
        for i, j in itertools.combinations(range(5), 2):
            told = told_apart(bent.design.measurements, i, j)
            assert told is not None
            assert told <= (space.exact(i, j) or 0)


def test_a_single_question_is_bent_as_far_as_the_formula_says() -> None:
    # Two cells at distance d: measuring c·d of the step of 1 costs n²(1 − cd)²/4 + 2c².
    study = sf.Study("two", [sf.categories("x", ["a", "b"], protect=sf.Uniform("1/10"))])
    prepared = central.Laplace(["x=b"], bias="optimised").prepare(central.Space(study), 10)
    n, d = 10, 0.1
    c = n**2 * d / (n**2 * d**2 + 8)
    assert prepared.bias[0] == pytest.approx(n * (1 - c * d) / 2, rel=1e-4)
    # On its lattice of 2^20 steps the noise is continuous for all that can be seen.
    assert prepared.stderr[0] ** 2 - prepared.bias[0] ** 2 == pytest.approx(2 * c**2, rel=1e-3)


def test_many_people_leave_nothing_to_bend() -> None:
    space = central.Space(one_axis(sf.Distance("2/3"), ordered=True), "1/4")
    bent = central.Laplace(["x=3.."], bias="optimised").prepare(space, 10**6)
    plain = central.Laplace(["x=3.."], "questions").prepare(space, 10**6)
    assert bent.stderr[0] <= plain.stderr[0]
    assert bent.stderr[0] > 0.99 * plain.stderr[0]


def test_bending_answers_even_what_may_not_be_told() -> None:
    space = central.Space(two_axes(), {"age": "1/2"})
    mechanism = central.Laplace(["age=2.., mode=bus"], bias="optimised")
    prepared = mechanism.prepare(space, 8)
    assert prepared.bias[0] >= 8 * 0.5 - 1e-9  # bus or not cannot be known
    assert worst_error(prepared, 8) <= prepared.bias[0] * (1 + 1e-9)


def test_bending_too_many_cells_is_refused_with_their_number() -> None:
    study = sf.Study("long", [sf.integers("x", 0, 2999, protect=sf.Distance(1))])
    with pytest.raises(sf.TooLargeError, match="3,000 cells"):
        central.Laplace(["x=3.."], bias="optimised").prepare(central.Space(study), 3)


class TestWhatIsMeasured:
    def test_one_question_is_measured_itself_where_nothing_is_better(self) -> None:
        study = sf.Study("ages", [sf.integers("age", 18, 80, protect=sf.Distance("1/2"))])
        prepared = sf.central.Laplace("age=18..30").prepare(sf.central.Space(study, "1/4"), 100)
        assert prepared.details()["strategy"] == "the questions themselves"
        assert prepared.details()["measurements"] == 1

    @pytest.mark.slow
    def test_many_questions_are_read_from_few_rows_beyond_the_first_limit_too(self) -> None:
        study = sf.Study("ages", [sf.integers("age", 0, 129, protect=sf.Distance("1/2"))])
        prepared = sf.central.Laplace("ranges of age").prepare(sf.central.Space(study), 100)
        assert prepared.details()["strategy"] == "prefix"
        few = sf.central.Laplace("cells of age").prepare(sf.central.Space(study), 100)
        assert few.details()["strategy"] == "the questions themselves"
