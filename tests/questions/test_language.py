from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sfumato.domains.base import Domain
from sfumato.domains.calendar import Dates, Times
from sfumato.domains.categories import Categories
from sfumato.domains.integers import Integers
from sfumato.domains.reals import Reals
from sfumato.errors import QuestionError
from sfumato.questions.language import Question, weights


@dataclass(frozen=True)
class Axis:
    name: str
    domain: Domain
    optional: bool = False

    @property
    def size(self) -> int:
        return self.domain.size + self.optional


AWKWARD = ("north", "St. Gallen", "a, b", "x=y", "p|q", "it's", 'say "hi"', "18..30", "..", " pad")
AGE = Axis("age", Integers(0, 99))
INCOME = Axis("income", Reals.equal_bins(0, 400, 4), optional=True)
REGION = Axis("region", Categories(("north", "south", "east")), optional=True)
DAY = Axis("first day", Dates.every("2024-01-01", "2024-03-31"))
WEEK = Axis("week", Dates.every("2024-01-01", "2024-03-31", "1 week"))
HOUR = Axis("hour", Times.every("00:00", "24:00", "1 hour"), optional=True)
MOMENT = Axis("when", Times.every("2024-01-01T00:00", "2024-01-08T00:00", "1 hour"))
CHANGE = Axis("change", Integers(-50, 50))
GRID = Axis("grid", Reals.equal_bins(-2, 2, 8, rounding="stochastic"))
PLACE = Axis("it's a, place=", Categories(AWKWARD), optional=True)
AXES = [AGE, INCOME, REGION, DAY, WEEK, HOUR, MOMENT, CHANGE, GRID, PLACE]


def vector(axis: Axis, *asked: Any, **by_axis: Any) -> list[float]:
    found = weights([axis], *asked, **by_axis).weights[0]
    assert found is not None
    assert found.shape == (axis.size,)
    return found.tolist()


def same(first: Question, second: Question) -> bool:
    return (
        all(
            (a is None and b is None) or (a is not None and b is not None and np.array_equal(a, b))
            for a, b in zip(first.weights, second.weights, strict=True)
        )
        and first.prorated == second.prorated
        and first.text == second.text
    )


def span(size: int, first: int, last: int) -> list[float]:
    return [float(first <= cell <= last) for cell in range(size)]


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("age=18..30, region=north|south", {"age": (18, 30), "region": {"north", "south"}}),
        ("age=18..", {"age": (18, None)}),
        ("age=..30", {"age": (None, 30)}),
        ("age=..", {"age": (None, None)}),
        ("age=7", {"age": 7}),
        (" age = 7 | 9 ", {"age": [7, 9]}),
        ("age=7|20..30", {"age": [7, (20, 30)]}),
        ("change=-10..-5", {"change": (-10, -5)}),
        ("grid=-1.5..0.25", {"grid": (-1.5, 0.25)}),
        ("income=.5..1e2", {"income": (0.5, 100.0)}),
        ("income=1/3..2", {"income": (Fraction(1, 3), 2)}),
        ("region=no answer", {"region": None}),
        ("region='no answer'|east", {"region": ["no answer", "east"]}),
        ("region=..", {"region": (None, None)}),
        ("first day=2024-01-05..2024-02-01", {"first day": (dt.date(2024, 1, 5), "2024-02-01")}),
        ("'first day'='2024-01-05'..'2024-02-01'", {"first day": ("2024-01-05", "2024-02-01")}),
        ("hour=06:30..24:00", {"hour": (dt.time(6, 30), "24:00")}),
        ("when=2024-01-02", {"when": dt.date(2024, 1, 2)}),
        ("when=2024-01-02 06:00..", {"when": (dt.datetime(2024, 1, 2, 6), None)}),
        ("'it''s a, place='='a, b'|\"it's\"", {"it's a, place=": {"a, b", "it's"}}),
        (
            "\"it's a, place=\"=it's|18..30|St. Gallen|'..'",
            {PLACE.name: ["it's", "18..30", "St. Gallen", ".."]},
        ),
    ],
)
def test_text_and_keywords_ask_the_same(text: str, asked: dict[str, Any]) -> None:
    written = weights(AXES, text)
    assert same(written, weights(AXES, asked))
    assert same(written, weights(AXES, **asked))
    assert same(written, weights(AXES, written.text))
    assert [axis.name for axis, w in zip(AXES, written.weights, strict=True) if w is not None] == [
        axis.name for axis in AXES if axis.name in asked
    ]


def test_intervals_are_closed_and_never_hold_no_answer() -> None:
    assert vector(AGE, age=(18, 30)) == span(100, 18, 30)
    assert vector(AGE, age=(18, None)) == span(100, 18, 99)
    assert vector(AGE, age=(-5, 3)) == span(100, 0, 3)
    assert vector(AGE, age=(90, float("inf"))) == span(100, 90, 99)
    assert vector(INCOME, income=(None, None)) == [1, 1, 1, 1, 0]
    assert vector(REGION, region=(None, None)) == [1, 1, 1, 0]


def test_no_answer_is_the_last_cell() -> None:
    assert vector(REGION, region=None) == [0, 0, 0, 1]
    assert vector(REGION, region={None, "east"}) == [0, 0, 1, 1]
    assert vector(INCOME, "income=..100|no answer") == [1, 0, 0, 0, 1]
    with pytest.raises(QuestionError, match="'age' is not optional"):
        weights([AGE], age=None)


def test_axes_that_are_not_mentioned_have_no_weights() -> None:
    for question in (weights(AXES), weights(AXES, ""), weights(AXES, {}), weights(AXES, None)):
        assert question.weights == (None,) * len(AXES)
        assert (question.text, question.prorated) == ("", ())


def test_the_canonical_text_follows_the_order_of_the_axes() -> None:
    question = weights(AXES, "region=south|north, age=30..40|18..35|7|'3'")
    assert question.text == "age=18..40|3|7, region=north|south"
    assert weights(AXES, region=[None, "east", "south", "north"]).text == "region=..|no answer"


@pytest.mark.parametrize(
    ("asked", "expected", "prorated"),
    [
        ([(0, 50), (50, 100)], [1, 0, 0, 0, 0], False),
        ([(0, 25), (50, 100)], [0.75, 0, 0, 0, 0], True),
        ([(0, 60), (40, 100)], [1, 0, 0, 0, 0], False),
        ([(0, 50), (0, 50)], [0.5, 0, 0, 0, 0], True),
        ([(0, 50), (10, 20)], [0.5, 0, 0, 0, 0], True),
        ([(0, 50), 70], [1, 0, 0, 0, 0], True),
        ([(None, 50), (300, None), None], [0.5, 0, 0, 1, 1], True),
        ([(150, None), (None, 150)], [1, 1, 1, 1, 0], False),
        ([(150, None), (160, 170)], [0, 0.5, 1, 1, 0], True),
    ],
)
def test_a_union_weighs_the_set_it_covers(asked: Any, expected: Any, prorated: bool) -> None:
    question = weights([INCOME], income=asked)
    assert question.weights[0].tolist() == expected  # type: ignore[union-attr]
    assert question.prorated == (("income",) if prorated else ())
    assert same(question, weights([INCOME], question.text))


def test_days_of_a_week_are_shared_out_and_said_so() -> None:
    question = weights(AXES, "week=2024-01-01..2024-01-03|2024-01-04..2024-01-07, age=3")
    assert question.weights[4].tolist()[:2] == [1.0, 0.0]  # type: ignore[union-attr]
    assert question.prorated == ("week",)


def test_weights_cannot_be_changed() -> None:
    found = weights([AGE], age=3).weights[0]
    assert found is not None
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 5.0


def test_axes_may_be_called_like_parameters() -> None:
    axes = [
        Axis("axes", Integers(0, 1)),
        Axis("text", Integers(0, 1)),
        Axis("self", Integers(0, 1)),
    ]
    assert weights(axes, axes=0, text=1, self=0).text == "axes=0, text=1, self=0"


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        ("agee=3", r"no axis 'agee': did you mean 'age'\? Available are 'age', 'income'"),
        ("age>=18", r"no axis 'age>'"),
        ("age", "must have one =, got 'age'"),
        ("age=3,", "must have one =, got ''"),
        ("age=3=4", "must have one ="),
        ("age=", "'age' must be asked for something"),
        ("age=3|", "'age' must be asked for something"),
        ("age=3, age=4", "'age' must be mentioned once"),
        ("age=1..2..3", "'age' must have two ends"),
        ("age=old", "'age' takes numbers, got 'old'"),
        ("age=30..18", "'age'.*reversed"),
        ("age=120..130", "'age' runs from 0 to 99.*outside"),
        ("age=5..9|120..130", "'age' runs from 0 to 99.*outside"),
        ("age=90..150|120..130", "'age' runs from 0 to 99.*outside"),
        ("age=120", "'age' runs from 0 to 99.*outside"),
        ("age=3.5", "'age' takes whole numbers"),
        ("age=no answer", "'age' is not optional"),
        ("region=nroth", "no label 'nroth': did you mean 'north'"),
        ("region=north..south", "no label 'north..south'"),
        ("region='north", "quote must be closed"),
        ("region='north'x", "must end at its quote"),
        ("first day=05.01.2024", "'first day' takes dates"),
        ("hour=6pm", "'hour' takes times of day"),
        ({"age": (1, 2, 3)}, "'age' must have two ends, got 3"),
        ({"age": set()}, "'age' must be asked for something, got an empty set"),
        ({"age": "18"}, "'age' takes numbers, got '18'"),
        ({"age": True}, "'age' takes numbers, got True"),
        ({"age": {"low": 3}}, "'age' takes numbers"),
        ({"age": (float("nan"), 3)}, "'age' takes numbers"),
        ({"region": ("north", "south")}, "without an order"),
        ({"first day": 5}, "'first day' takes dates"),
        ({"region": 1.5}, "no label 1.5"),
        ({7: 1}, "no axis 7"),
        (17, "must be a text or a mapping, got int"),
    ],
)
def test_questions_that_cannot_be_asked_are_refused(asked: Any, match: str) -> None:
    with pytest.raises(QuestionError, match=match):
        weights(AXES, asked)


def test_an_axis_is_mentioned_once_across_text_and_keywords() -> None:
    assert weights(AXES, "age=3", region="east").text == "age=3, region=east"
    with pytest.raises(QuestionError, match="'age' must be mentioned once"):
        weights(AXES, "age=3", age=4)


def test_numpy_values_and_arrays_are_asked_like_others() -> None:
    assert vector(AGE, age=np.array([3, 5])) == vector(AGE, age={3, 5})
    assert vector(AGE, age=(np.int16(3), np.float32(5))) == vector(AGE, age=(3, 5))
    days = np.array(["2024-01-05", "2024-01-06"], dtype="M8[D]")
    assert sum(vector(DAY, {"first day": days})) == 2.0


# ---- properties


def _interval(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.tuples(values, values).map(lambda ends: tuple(sorted(ends)))


def _choices(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    one = st.one_of(
        values,
        _interval(values),
        values.map(lambda low: (low, None)),
        values.map(lambda high: (None, high)),
    )
    return st.lists(one, min_size=1, max_size=4)


ASKED = st.fixed_dictionaries(
    {},
    optional={
        "age": _choices(st.integers(0, 99)),
        "income": _choices(st.fractions(0, 400) | st.floats(0, 400)),
        "region": st.sets(st.sampled_from(["north", "south", "east", None]), min_size=1),
        "first day": _choices(st.dates(dt.date(2024, 1, 1), dt.date(2024, 3, 31))),
        "week": _choices(st.dates(dt.date(2024, 1, 1), dt.date(2024, 3, 31))),
        "hour": _choices(st.times()),
        "when": _choices(st.datetimes(dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 7))),
        "change": _choices(st.integers(-50, 50)),
        "grid": _choices(st.floats(-2, 2)),
        PLACE.name: st.sets(st.sampled_from([*AWKWARD, None]), min_size=1),
    },
)


@pytest.mark.slow
@given(ASKED)
def test_the_text_of_a_question_asks_for_the_same_weights(asked: dict[str, Any]) -> None:
    question = weights(AXES, asked)
    assert same(question, weights(AXES, question.text))
    for found in question.weights:
        assert found is None or (found.min() >= 0 and found.max() <= 1)


@pytest.mark.slow
@given(st.text(min_size=1, max_size=8), st.text(min_size=1, max_size=8), st.text(max_size=8))
def test_names_and_labels_of_any_letters_survive_the_text(
    name: str, label: str, other: str
) -> None:
    assume(label.strip() and label != "no answer")
    axis = Axis(name, Categories((label, label + other + "'")))
    question = weights([axis], {name: label})
    assert question.weights[0].tolist() == [1.0, 0.0]  # type: ignore[union-attr]
    assert same(question, weights([axis], question.text))


@pytest.mark.slow
@given(st.lists(_interval(st.fractions(0, 400)), min_size=1, max_size=5))
def test_a_union_of_intervals_weighs_its_measure(spans: list[tuple[Fraction, Fraction]]) -> None:
    spans = [(low, high) for low, high in spans if low < high]
    assume(spans)
    ends = sorted(
        {Fraction(0), Fraction(100), Fraction(200), Fraction(300), Fraction(400)}.union(*spans)
    )
    expected = [0.0] * 4
    for left, right in pairwise(ends):
        if any(low <= left and right <= high for low, high in spans):
            expected[int(left // 100)] += float((right - left) / 100)
    np.testing.assert_allclose(vector(INCOME, income=spans)[:4], expected, rtol=0, atol=1e-12)


@given(st.text(alphabet="age=18.|,'\" north", max_size=20))
def test_any_text_is_either_understood_or_refused_as_a_question(text: str) -> None:
    try:
        question = weights(AXES, text)
    except QuestionError:
        return
    assert same(question, weights(AXES, question.text))
