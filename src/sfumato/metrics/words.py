"""Labels and distances in metrics, read and checked as people write them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.domains.base import NO_ANSWER, Domain
from sfumato.errors import StudyError, near, shown
from sfumato.exact import positive, rational, to_plain
from sfumato.metrics.cells import refuse_large_table


def label_of(value: object) -> str:
    """The name under which a value is known: its text, or "no answer"."""
    if isinstance(value, (list, tuple, set, dict, np.ndarray)):
        raise StudyError(f"a label must be a text or a number, got {shown(value)}")
    if isinstance(value, Rational) and not isinstance(value, bool):
        rational(value, "a label")  # of so many digits that Python will not write them out
    return NO_ANSWER if value is None else str(value)


def several(items: Any, what: str) -> list[Any]:
    """A list of one item or more; a single text is refused.

    Args:
        items: What was given.
        what: What it is called in a message.
    """
    if isinstance(items, str) or not isinstance(items, Iterable):
        raise StudyError(f"{what} must be a list, got {shown(items)}: put it into brackets")
    try:
        found = list(items)
    except TypeError:  # such as an array without dimensions
        raise StudyError(f"{what} must be a list, got {shown(items)}") from None
    if not found:
        raise StudyError(f"{what} must not be empty, got {shown(items)}: name at least one")
    return found


def read_labels(labels: Any, what: str) -> tuple[str, ...]:
    """Labels as text.

    Args:
        labels: What was given.
        what: What it is called in a message.
    """
    return tuple(label_of(label) for label in several(labels, what))


def distinct(labels: Sequence[str], what: str) -> tuple[str, ...]:
    """The labels, refused if one comes twice.

    Args:
        labels: Labels as text.
        what: What it is called in a message.
    """
    seen: set[str] = set()
    for label in labels:
        if label in seen:
            raise StudyError(f"{what} must name each label once, got {label!r} twice: drop one")
        seen.add(label)
    return tuple(labels)


def known(value: object, labels: Collection[str], what: str) -> str:
    """The label of a value, refused if the statement does not name it.

    Args:
        value: The value.
        labels: Labels that the statement names.
        what: What it is called in a message.
    """
    label = label_of(value)
    if label not in labels:
        raise StudyError(f"{what} must name the label, got {shown(label)}: {near(label, labels)}")
    return label


def cell_names(domain: Domain, *, optional: bool, table: bool = True) -> list[str]:
    """The label of every cell, refused before a table of them would be too large.

    Args:
        domain: What the values of the axis may be.
        optional: Whether "no answer" is one more cell, the last.
        table: Whether a table of all pairs is going to be built.
    """
    if table:
        refuse_large_table(domain.size + optional)
    names = [*domain.labels(), *([NO_ANSWER] if optional else [])]
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise StudyError(
            f"labels of one axis must differ, got {twice!r} twice: rename one"
            + (" (an optional axis has a 'no answer' cell of its own)" if optional else "")
        )
    return names


def inside(labels: Iterable[str], names: Sequence[str], what: str) -> None:
    """Refuse a label that the axis does not have.

    Args:
        labels: Labels that a statement names.
        names: Labels of the axis.
        what: What it is called in a message.
    """
    there = set(names)
    for label in labels:
        if label not in there:
            extra = "; set optional=True to have it" if label == NO_ANSWER else ""
            raise StudyError(
                f"{what} must name labels of the axis, got {shown(label)}: "
                f"{near(label, names)}{extra}"
            )


def cover(names: Sequence[str], labels: Collection[str], what: str, remedy: str) -> None:
    """Refuse labels that the axis does not have, and cells that are not mentioned.

    Args:
        names: Labels of the axis.
        labels: Labels that a statement names.
        what: What it is called in a message.
        remedy: What to do about a cell that is not mentioned.
    """
    inside(labels, names, what)
    missing = [name for name in names if name not in labels]
    if missing:
        raise StudyError(f"{what} must mention every cell, got none of {some(missing)}: {remedy}")


def marked(names: Sequence[str], sensitive: Collection[str]) -> NDArray[np.bool_]:
    """Which cells are sensitive.

    Args:
        names: Labels of the axis.
        sensitive: Labels that are sensitive.
    """
    inside(sensitive, names, "sensitive")
    chosen = set(sensitive)
    return np.array([name in chosen for name in names])


def some(labels: Sequence[str]) -> str:
    """The first few labels, for a sentence."""
    shown = ", ".join(repr(label) for label in labels[:5])
    return shown + (f" and {len(labels) - 5} more" if len(labels) > 5 else "")


Number = int | float | str | Decimal | Fraction
Quantity = Number | timedelta

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_SHORT = {"s": "second", "sec": "second", "min": "minute", "h": "hour", "d": "day", "w": "week"}
_METRES = {"m": Fraction(1), "km": Fraction(1000), "mile": Fraction("1609.344")}
_DURATION = re.compile(r"([0-9./]*)\s*([a-zA-Z]+)")


def read_quantity(value: Any, what: str) -> Fraction | str:
    """A positive number, or a duration or a length on the ground as text for the axis to read.

    Args:
        value: A number, a duration or a length as text, or a timedelta.
        what: What it is called in a message.

    Example:
        >>> read_quantity(0.5, "per"), read_quantity(timedelta(days=7), "per")
        (Fraction(1, 2), '7 days')
    """
    if isinstance(value, np.timedelta64):
        value = value.astype("timedelta64[us]").item()
    if isinstance(value, timedelta):
        number = positive(_seconds(value), what)
        amount, unit = (number / 86_400, "day") if number % 86_400 == 0 else (number, "second")
        return _duration(amount, unit)
    found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or found[2].lower() in {"inf", "infinity", "nan"}:
        return positive(value, what)
    unit = _SHORT.get(found[2], found[2].lower().removesuffix("s"))
    if unit in _METRES:
        return length_words(positive(found[1] or 1, what) * _METRES[unit])
    if unit not in _SECONDS:
        raise StudyError(
            f"{what} must be a number or a duration such as '7 days', got {what}={shown(value)}: "
            f"{near(unit, _SECONDS)} (months and years vary in length)"
        )
    return _duration(positive(found[1] or 1, what), unit)


def read_metres(value: Any, what: str) -> Fraction:
    """A length on the ground such as "1 km", in metres; a number without a unit counts metres.

    Args:
        value: What was given.
        what: What it is called in a message.

    Example:
        >>> read_metres("1 km", "per"), read_metres(250, "per")
        (Fraction(1000, 1), Fraction(250, 1))
    """
    found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or found[2].lower() in {"inf", "infinity", "nan"}:
        return positive(value, what)
    unit = found[2].lower().removesuffix("s")
    if unit not in _METRES:
        raise StudyError(
            f"{what} must be a length such as '1 km', got {what}={shown(value)}: "
            f"{near(unit, _METRES)}"
        )
    return positive(found[1] or 1, what) * _METRES[unit]


def length_words(metres: Fraction) -> str:
    """A length on the ground as text, which `read_metres` reads back.

    Example:
        >>> length_words(Fraction(1500)), length_words(Fraction(250))
        ('1.5 km', '250 m')
    """
    if metres >= 1000:
        return f"{to_plain(metres / 1000)} km"
    return f"{to_plain(metres)} m"


def plain(quantity: Fraction | str) -> int | float | str:
    """A quantity as a file holds it."""
    return quantity if isinstance(quantity, str) else to_plain(quantity)


def length(domain: Domain, quantity: Fraction | str, what: str) -> Fraction:
    """A quantity in the base units of an axis, above 0.

    Args:
        domain: What the values of the axis may be.
        quantity: A number, or a duration as text.
        what: What it is called in a message.
    """
    return positive(domain.length(quantity, what), what)


def ratio(quantity: Fraction | str, per: Fraction | str) -> Fraction:
    """One quantity over another of the same kind.

    Args:
        quantity: A number, or a duration as text.
        per: Another of the same kind.
    """
    if isinstance(quantity, str) != isinstance(per, str):
        raise StudyError(
            f"no_answer and per must both be numbers or both durations, got "
            f"no_answer={plain(quantity)!r}, per={plain(per)!r}: bind to an axis, which knows units"
        )
    return _in_seconds(quantity) / _in_seconds(per)


def gap(x: Any, y: Any, per: Fraction | str) -> Fraction:
    """How many times `per` two values lie apart; a plain `per` counts days or seconds of time.

    Args:
        x: One value as people write it.
        y: The other.
        per: Unit of distance: a number, or a duration as text.

    Example:
        >>> gap(date(2024, 1, 1), "2024-01-15", "7 days"), gap(0.1, 0.3, Fraction(1, 10))
        (Fraction(2, 1), Fraction(2, 1))
    """
    first, first_unit = _place(x)
    second, second_unit = _place(y)
    if first_unit != second_unit or (isinstance(per, str) and not first_unit):
        raise StudyError(
            f"values and per must be of one kind, all numbers, all dates or all times, got "
            f"{type(x).__name__}, {type(y).__name__} and per={plain(per)!r}"
        )
    apart = abs(first - second)
    return apart * first_unit / _in_seconds(per) if isinstance(per, str) else apart / per


def _duration(amount: Fraction, unit: str) -> str:
    """A duration as text, in the one form in which statements keep it."""
    return f"{to_plain(amount)} {unit}{'' if amount == 1 else 's'}"


def _in_seconds(quantity: Fraction | str) -> Fraction:
    """A duration in seconds; a number is left as it is."""
    if isinstance(quantity, Fraction):
        return quantity
    amount, unit = quantity.split()
    if unit in _METRES:
        raise StudyError(
            f"a length on the ground such as {quantity!r} is for places: use sf.places(...), or a "
            "plain number in the units of the axis"
        )
    return Fraction(amount) * _SECONDS[unit.removesuffix("s")]


def _place(value: Any) -> tuple[Fraction, int]:
    """Where a value lies, and the seconds in its unit: 0 for plain numbers."""
    if isinstance(value, str):
        value = _from_text(value)
    if isinstance(value, np.datetime64 | np.timedelta64):
        if isinstance(value.item(), int):  # nanoseconds are beyond datetime
            value = value.astype(value.dtype.str[1:3] + "[us]")
        value = value.item()
    if isinstance(value, datetime):
        return _seconds(value.replace(tzinfo=None) - datetime.min), 1
    if isinstance(value, date):
        return Fraction(value.toordinal()), 86_400
    if isinstance(value, time):
        return _seconds(datetime.combine(date.min, value.replace(tzinfo=None)) - datetime.min), 1
    if isinstance(value, timedelta):
        return _seconds(value), 1
    return rational(value, "a value"), 0


def _from_text(text: str) -> Any:
    """A date, time or number from text."""
    for read in (date.fromisoformat, datetime.fromisoformat, time.fromisoformat):
        if re.search(r"\d[-:]\d", text):
            try:
                return read(text)
            except ValueError:
                continue
    return text


def _seconds(duration: timedelta) -> Fraction:
    """A duration in seconds, exactly."""
    return Fraction(duration // timedelta(microseconds=1), 1_000_000)
