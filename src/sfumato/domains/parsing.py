"""Quantities on an axis as people state them: numbers, durations, dates and times of day."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.errors import QuestionError, StudyError, shown
from sfumato.exact import positive, rational

DAY = 86_400
_EPOCH = date(1970, 1, 1).toordinal()
FIRST_DAY, LAST_DAY = date.min.toordinal() - _EPOCH, date.max.toordinal() - _EPOCH
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_CLOCK = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(\.[0-9]{1,9})?)?")
_UNITS = {
    "s": 1, "second": 1, "seconds": 1,
    "min": 60, "minute": 60, "minutes": 60,
    "h": 3600, "hour": 3600, "hours": 3600,
    "d": DAY, "day": DAY, "days": DAY,
    "w": 7 * DAY, "week": 7 * DAY, "weeks": 7 * DAY,
}  # fmt: skip


def bound_number(
    value: object, below: int | Fraction, above: int | Fraction, *, axis: str
) -> Fraction:
    """A bound of a question as an exact number; infinities stand for below and above.

    Args:
        value: The bound as given in a question.
        below: What −∞ stands for.
        above: What +∞ stands for.
        axis: Name of the axis, for messages.
    """
    if isinstance(value, (float, np.floating)) and np.isinf(value):
        return Fraction(above if value > 0 else below)
    try:
        if isinstance(value, str):
            raise StudyError
        return rational(value, "bound")
    except StudyError:
        raise QuestionError(
            f"axis {axis!r} takes numbers, got {shown(value)}: ask for a number, or for an "
            "interval such as (18, 30) with None for an open end"
        ) from None


def parse_number(text: str, *, axis: str) -> Fraction:
    """A number of the question language.

    Args:
        text: As written.
        axis: Name of the axis, for messages.
    """
    try:
        return rational(text, "bound")
    except StudyError:
        raise QuestionError(
            f"axis {axis!r} takes numbers, got {shown(text)}: write a number such as 18 or an "
            "interval such as 18..30"
        ) from None


def seconds_in(quantity: Any, what: str, *, unit: int) -> Fraction:
    """A duration in seconds; a bare number counts base units of that many seconds.

    Args:
        quantity: A duration as text, timedelta or NumPy duration, or a number.
        what: What it is called in a message.
        unit: Seconds in a base unit.

    Example:
        >>> seconds_in("1 week", "step", unit=DAY) / DAY
        Fraction(7, 1)
    """
    if isinstance(quantity, timedelta):
        return Fraction(quantity // timedelta(microseconds=1), 10**6)
    if isinstance(quantity, np.timedelta64):
        return _numpy_duration(quantity, what)
    if not isinstance(quantity, str):
        return rational(quantity, what) * unit
    number, _, name = quantity.strip().rpartition(" ")
    if not number:
        glued = re.fullmatch(r"([0-9./]+)([a-z]*)", name)
        number, name = (glued[1], glued[2]) if glued else ("1", name)
        if glued and not name:
            return rational(number, what) * unit
    if name not in _UNITS:
        raise StudyError(
            f"{what} must be a duration such as '7 days' or '90 minutes', got {what}="
            f"{shown(quantity)}; units are seconds, minutes, hours, days and weeks (months and "
            "years vary in length)"
        )
    return rational(number, what) * _UNITS[name]


def whole_step(quantity: Any, what: str, *, unit: int, base: str) -> int:
    """A step as a positive whole number of base units.

    Args:
        quantity: A duration, or a number of base units.
        what: What it is called in a message.
        unit: Seconds in a base unit.
        base: What base units are called.
    """
    step = seconds_in(quantity, what, unit=unit) / unit
    positive(step, what)
    if step.denominator != 1:
        raise StudyError(f"{what} must be a whole number of {base}, got {what}={shown(quantity)}")
    return int(step)


def _numpy_duration(quantity: np.timedelta64, what: str) -> Fraction:
    """A NumPy duration in seconds, refused where it has no fixed length."""
    unit, count = np.datetime_data(quantity.dtype)
    scale = {"W": 7 * DAY, "D": DAY, "h": 3600, "m": 60, "s": 1}.get(unit)
    per_second = {"ms": 10**3, "us": 10**6, "ns": 10**9}.get(unit)
    if np.isnat(quantity) or (scale is None and per_second is None):
        raise StudyError(f"{what} must have a fixed length in days or seconds, got {quantity!r}")
    number = Fraction(int(quantity.astype(np.int64)) * count)
    return number * scale if scale is not None else number / (per_second or 1)


def epoch_day(value: object) -> int | None:
    """The day number of a date, a datetime or ISO text, counted from 1970-01-01; None if bad."""
    if isinstance(value, np.datetime64):
        unit = np.datetime_data(value.dtype)[0]
        if np.isnat(value) or unit in ("Y", "M", "generic"):
            return None
        day = int(value.astype("datetime64[D]").astype(np.int64))
        return day if FIRST_DAY <= day <= LAST_DAY else None
    if isinstance(value, datetime):
        return None if value.tzinfo is not None or value != value else value.toordinal() - _EPOCH
    if isinstance(value, date):
        return value.toordinal() - _EPOCH
    if isinstance(value, str):
        moment = epoch_second(value)
        return _text_day(value) if moment is None else moment // DAY
    return None


def epoch_second(value: object) -> int | None:
    """The wall-clock second of a datetime or ISO text, rounded down; None if it is neither."""
    exact = exact_second(value)
    return None if exact is None else exact.numerator // exact.denominator


def exact_second(value: object) -> Fraction | None:
    """The wall-clock second of a datetime or ISO text, exactly; None if it is neither."""
    if isinstance(value, np.datetime64):
        return _numpy_second(value)
    if isinstance(value, datetime):
        if value.tzinfo is not None or value != value:
            return None
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        day = value.toordinal() - _EPOCH
        return day * DAY + seconds + Fraction(value.microsecond, 10**6)
    if not isinstance(value, str) or len(value) < 12 or value[10] not in "T ":
        return None
    day_number, clock = _text_day(value[:10]), clock_second(value[11:])
    if day_number is None or clock is None or (day_number == LAST_DAY and clock == DAY):
        return None
    return day_number * DAY + clock


def clock_second(value: object) -> Fraction | None:
    """The second of the day of a time or text such as 06:30, 24:00 included; None if bad."""
    if isinstance(value, time):
        if value.tzinfo is not None:
            return None
        whole = (value.hour * 60 + value.minute) * 60 + value.second
        return whole + Fraction(value.microsecond, 10**6)
    found = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return None
    hours, minutes, seconds = int(found[1]), int(found[2]), int(found[3] or 0)
    total = (hours * 60 + minutes) * 60 + seconds + Fraction("0" + (found[4] or ""))
    return total if minutes < 60 and seconds < 60 and total <= DAY else None


def day_text(day: int) -> str:
    """The ISO date of a day number."""
    return date.fromordinal(day + _EPOCH).isoformat()


def clock_text(second: Fraction) -> str:
    """A second of the day as 06:30, with seconds and their decimals only where needed.

    Example:
        >>> clock_text(Fraction(6 * 3600 + 30 * 60)), clock_text(Fraction(3, 2))
        ('06:30', '00:00:01.5')
    """
    whole, part = divmod(second, 1)
    minutes, seconds = divmod(int(whole), 60)
    text = f"{minutes // 60:02}:{minutes % 60:02}"
    if part:
        return f"{text}:{seconds:02}." + f"{int(part * 10**9):09}".rstrip("0")
    return f"{text}:{seconds:02}" if seconds else text


def moment_text(second: Fraction) -> str:
    """A wall-clock second as ISO text."""
    day, clock = divmod(second, DAY)
    return f"{day_text(int(day))}T{clock_text(clock)}"


def _text_day(text: str) -> int | None:
    """The day number of an ISO date, None if it is not one."""
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    try:
        return date(int(found[1]), int(found[2]), int(found[3])).toordinal() - _EPOCH
    except ValueError:
        return None


def _numpy_second(value: np.datetime64) -> Fraction | None:
    """The second of a NumPy datetime that is fine enough to have one."""
    unit, count = np.datetime_data(value.dtype)
    scale = {"h": 3600, "m": 60, "s": 1}.get(unit)
    per_second = {"ms": 10**3, "us": 10**6, "ns": 10**9}.get(unit)
    if np.isnat(value) or (scale is None and per_second is None):
        return None
    number = int(value.astype(np.int64)) * count
    second = Fraction(number * scale) if scale is not None else Fraction(number, per_second or 1)
    return second if FIRST_DAY <= second // DAY <= LAST_DAY else None
