"""Values on a device: every kind of axis gives the code that whole columns get."""

from __future__ import annotations

import math
from datetime import date, datetime, time, timedelta
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

import sfumato as sf
from sfumato.device.values import DeviceAxis

D, U = sf.Distance, sf.Uniform

AXES: dict[str, Any] = {
    "integers": sf.integers("x", -3, 40, protect=D(1)),
    "clipped integers": sf.integers("x", -3, 40, protect=D(1), outside="clip"),
    "optional integers": sf.integers("x", 0, 9, protect=U(1), optional=True),
    "far integers": sf.integers("x", 2**53 - 20, 2**53 - 1, protect=D(1), outside="clip"),
    "reals": sf.reals("x", 0, 1, bins=7, protect=U(1)),
    "tenths": sf.reals("x", "-0.3", "0.7", bins=10, protect=D(1, per=1), outside="clip"),
    "thirds": sf.reals("x", 0, 100, bins=3, protect=D(1, per=1)),
    "unequal": sf.reals("x", edges=[0, 1, 10, 100], protect=U(1), outside="clip"),
    "rounded": sf.reals("x", 0, 10, bins=3, protect=D(1), rounding="stochastic"),
    "rounded unequal": sf.reals("x", edges=[0, 1, 10], protect=U(1), rounding="stochastic"),
    "dates": sf.dates("x", "2023-12-25", "2024-03-03", step="1 week", protect=D(1, per="7 days")),
    "clipped dates": sf.dates("x", "2024-02-01", "2024-03-01", protect=U(1), outside="clip"),
    "times": sf.times("x", "06:00", "22:00", step="15 minutes", protect=U(1), outside="clip"),
    "moments": sf.times("x", "2024-02-28T00:00", "2024-03-02T00:00", step="1 hour", protect=U(1)),
    "categories": sf.categories("x", ["é", "a b", "A", "1"], protect=U(1)),
    "optional categories": sf.categories("x", ["yes", "no"], protect=U(1), optional=True),
}


def pair(name: str) -> tuple[sf.Study, DeviceAxis]:
    """A study with this axis alone, and the axis as its device has it."""
    study = sf.Study("one", [AXES[name]])
    return study, study.device_program().axes[0]


def bulk(study: sf.Study, value: Any) -> int | None:
    """The code of a value as a column of one person; None where it is refused."""
    try:
        return int(study._codes({"x": [value]})[0][0])
    except sf.DataError:
        return None


def alone(axis: DeviceAxis, value: Any) -> int | None:
    """The code of a value on the device; None where it is refused."""
    try:
        return axis.code(value)
    except sf.DataError:
        return None


NUMBERS = st.one_of(
    st.integers(-60, 60),
    st.integers(2**53 - 40, 2**53 + 40),
    st.floats(-2, 101),
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(-30, 1010).map(lambda k: k / 10),
    st.sampled_from([0.1, 0.3, 0.7, 0.6999999999999998, 1 / 3, 100 / 3, -0.0, 1e308, 10, 1, 9.5]),
    st.none(),
)
MOMENTS = st.datetimes(datetime(2023, 12, 20), datetime(2024, 3, 10))
TEXTS = st.one_of(
    MOMENTS.map(datetime.isoformat),
    MOMENTS.map(lambda m: m.isoformat(" ", "minutes")),
    MOMENTS.map(lambda m: m.date().isoformat()),
    MOMENTS.map(lambda m: m.time().isoformat()),
    MOMENTS.map(lambda m: m.strftime("%H:%M")),
    st.sampled_from(["24:00", "2024-02-29T24:00", "2024-02-30", "2023-02-29", "06:60", "6:00",
                     "06:00:60", "21:59:59.999", "24:00:00.000", "24:00:00.1", "0000-01-01", "",
                     "9999-12-31", "9999-12-31T24:00", "2024-02-29T10:00Z",
                     "2024-02-29T10:00+01:00",
                     "é", "a b", "A", "a", " A", "yes", "no answer", "2024-02-29T1", "06:00\n"]),
)  # fmt: skip


@pytest.mark.parametrize("name", [n for n, axis in AXES.items() if hasattr(axis.domain, "high")])
@given(value=NUMBERS)
@example(value=math.nan)
@example(value=math.inf)
@example(value=-math.inf)
def test_numbers(name: str, value: Any) -> None:
    study, axis = pair(name)
    assert alone(axis, value) == bulk(study, value)


@pytest.mark.parametrize("name", ["dates", "clipped dates", "times", "moments", "categories",
                                  "optional categories"])  # fmt: skip
@given(value=TEXTS)
def test_texts(name: str, value: str) -> None:
    study, axis = pair(name)
    assert alone(axis, value) == bulk(study, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dates", date(2024, 2, 29)),
        ("dates", datetime(2024, 2, 29, 23, 59)),
        ("times", time(6, 14, 59, 999_999)),
        ("moments", datetime(2024, 2, 29, 23, 59, 59)),
        ("dates", datetime(2024, 2, 29).astimezone() + timedelta(0)),
    ],
)
def test_python_dates_and_times(name: str, value: Any) -> None:
    study, axis = pair(name)
    assert alone(axis, value) == bulk(study, value)


@pytest.mark.parametrize("name", AXES)
def test_other_types_are_refused_and_no_value_is_shown(name: str) -> None:
    _, axis = pair(name)
    for value in (True, b"31415", [31415], {"31415": 1}, object(), "31415.5 years"):
        with pytest.raises(sf.DataError) as refused:
            axis.code(value)
        assert "31415" not in str(refused.value)


def test_a_missing_answer_is_the_last_cell_or_refused() -> None:
    assert pair("optional integers")[1].code(None) == 10
    with pytest.raises(sf.DataError, match="must have an answer"):
        pair("integers")[1].code(None)


def test_edges_by_rule_are_the_stored_ones() -> None:
    """The rule and the list must be the same doubles, or the rule would move people."""
    for name in ("tenths", "thirds", "reals", "rounded"):
        study, axis = pair(name)
        assert axis._edges == study.axes[0].domain.float_cuts().tolist()  # type: ignore[attr-defined]
