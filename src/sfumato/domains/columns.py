"""Columns of values, or one person's value, as NumPy arrays and a mask of missing ones.

A column is an Arrow array; one person's value is a `Single`, which is read to the same values and
refused with the same errors without loading Arrow. What is refused is named by its row; no message
may hold a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.domains.parsing import DAY, clock_second, epoch_day, epoch_second
from sfumato.errors import DataError, rows

_NUMBER = r"^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|(?i:inf|infinity|nan))$"
_WHOLE = r"^([+-]?[0-9]+(\.0*)?|(?i:[+-]?inf|[+-]?infinity|nan))$"
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_FLOATS = {2: "halffloat", 4: "float", 8: "double"}
_MOST_DIGITS = 38  # of a decimal in 128 bits

Family = Literal["null", "number", "text", "date", "moment", "clock", "other"]
Read = tuple[NDArray[Any], NDArray[np.bool_]]


@dataclass(frozen=True, slots=True, eq=False)
class Single:
    """One person's value, with the name of the type that an Arrow column of it would have.

    Args:
        family: What it is.
        type: Name of the Arrow type.
        value: A NumPy array of one number; text; days or whole seconds, rounded down, of a date,
            moment or time of day; None if it is missing.
        whole: Whether it is a whole number, where its nearest double does not tell.
    """

    family: Family
    type: str
    value: Any
    whole: bool = True

    def __len__(self) -> int:
        return 1


def single(value: Any) -> Single | None:
    """A value that can be read without Arrow; None for a type that only Arrow can tell.

    Example:
        >>> single("31"), single(object())
        (Single(family='text', type='string', value='31', whole=True), None)
    """
    kind = type(value)
    nan = value.is_nan() if kind is Decimal else kind is float and value != value
    if value is None or nan:
        return Single("null", "null", None)
    if kind is int:
        return _number(np.int64(value), "int64") if -(1 << 63) <= value < 1 << 63 else None
    if kind is float:
        return _number(np.float64(value), "double")
    if kind is str:
        return _text(value)
    if kind is bool:
        return Single("other", "bool", None)
    if kind is Decimal:
        return _decimal(value)
    if kind is date:
        return Single("date", "date32[day]", epoch_day(value))
    if kind is datetime and value.tzinfo is None:
        return Single("moment", "timestamp[us]", epoch_second(value))
    if kind is time and value.tzinfo is None:
        return Single("clock", "time64[us]", int(clock_second(value) or 0))
    if kind is np.ndarray and value.ndim == 0 and value.dtype != object:
        return single(value[()])
    return _numpy(value) if isinstance(value, np.generic) else None


def _number(value: Any, kind: str) -> Single:
    """A number in its own precision; NaN is missing."""
    return Single("number", kind, None if np.isnan(value) else np.array([value]))


def _text(value: str) -> Single | None:
    """Text, if it is valid Unicode."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return None
    return Single("text", "string", value)


def _decimal(value: Decimal) -> Single | None:
    """A decimal that fits in 128 bits."""
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return None
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale)
    if precision > _MOST_DIGITS:
        return None
    whole = value == value.to_integral_value()
    kind = f"decimal128({precision}, {scale})"
    return Single("number", kind, np.array([float(value)]), whole)


def _numpy(value: np.generic) -> Single | None:
    """A NumPy scalar of a type that Arrow knows."""
    held = np.asarray(value)
    kind, size = held.dtype.kind, held.dtype.itemsize
    if kind in "iu":
        return _number(value, held.dtype.name)
    if kind == "f":
        return _number(value if size in _FLOATS else np.float64(value), _FLOATS.get(size, "double"))
    if kind == "U":
        return None if "\0" in held.item() else _text(held.item())  # where Arrow ends the text
    if kind == "b":
        return Single("other", "bool", None)
    return _numpy_moment(held) if kind == "M" else None


def _numpy_moment(held: NDArray[np.datetime64]) -> Single | None:
    """A NumPy datetime, in days or in seconds and their parts."""
    unit = np.datetime_data(plain_moments(held).dtype)[0]
    missing, number = bool(np.isnat(held)), int(plain_moments(held).astype(np.int64))
    if unit == "D" and (missing or abs(number) < 1 << 31):
        return Single("date", "date32[day]", None if missing else number)
    if unit in _PER_SECOND:
        seconds = None if missing else number // _PER_SECOND[unit]
        return Single("moment", f"timestamp[{unit}]", seconds)
    return None


def plain_moments(values: NDArray[Any]) -> NDArray[Any]:
    """NumPy datetimes in a unit that Arrow knows, where there is one."""
    unit, count = np.datetime_data(values.dtype)
    if unit in ("W", "h", "m"):
        return values.astype("datetime64[s]")
    return values if count == 1 or unit == "generic" else values.astype(f"datetime64[{unit}]")


def flatten(column: Any) -> Any:
    """One plain Arrow array: chunks joined, dictionaries and run lengths decoded."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as pt

    if pt.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if pt.is_dictionary(column.type):
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        # Not by cast, which does not know every type of text.
        decoded = [flatten(chunk.dictionary).take(chunk.indices) for chunk in chunks]
        column = pa.chunked_array(decoded, type=flatten(pa.array([], column.type.value_type)).type)
    if is_text(column.type):
        # 64-bit offsets: the joined text of all chunks may pass 2 GB.
        column = column.cast(pa.large_string())
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def is_text(kind: Any) -> bool:
    """Whether an Arrow type holds text."""
    import pyarrow.types as pt

    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def is_missing(array: Any) -> NDArray[np.bool_]:
    """Where an Arrow array holds no value."""
    if not array.null_count:
        return np.zeros(len(array), dtype=np.bool_)
    mask: NDArray[np.bool_] = array.is_null().to_numpy(zero_copy_only=False)
    return mask


def _integers_of(array: Any) -> NDArray[np.int64]:
    """The 64-bit integers behind dates, times and timestamps, 0 where missing."""
    import pyarrow as pa

    if array.type.bit_width == 32:
        array = array.cast(pa.int32())
    return _to_numpy(array.cast(pa.int64())).astype(np.int64, copy=False)


def _to_numpy(array: Any) -> NDArray[Any]:
    """The values of a numeric Arrow array, 0 where missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if array.null_count:
        array = pc.fill_null(array, pa.scalar(0, type=array.type))
    values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values


def _trimmed(array: Any) -> Any:
    """Text without surrounding space; nothing but space counts as missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pc.utf8_trim_whitespace(array)
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, type=text.type), text)


def refuse_rows(bad: NDArray[np.bool_], *, axis: str, rule: str, fault: str, remedy: str) -> None:
    """Raise DataError for the rows marked bad, if there are any.

    Args:
        bad: A mark for each row.
        axis: Name of the axis.
        rule: What it takes.
        fault: What the bad values are instead.
        remedy: What to do about them.
    """
    if not bad.any():
        return
    found = (np.flatnonzero(bad) + 1).tolist()
    verb = "value is" if len(found) == 1 else "values are"
    raise DataError(
        f"axis {axis!r} takes {rule}, but {len(found)} {verb} {fault} ({rows(found)}); {remedy}"
    )


def refuse_type(kind: Any, *, axis: str, rule: str, remedy: str) -> DataError:
    """The error for a column whose type can never fit.

    Args:
        kind: The Arrow type, or its name.
        axis: Name of the axis.
        rule: What it takes.
        remedy: What to do about it.
    """
    # The names of nested fields may come from the data.
    nested = not isinstance(kind, str) and getattr(kind, "num_fields", 0) > 0
    shown = "a nested type" if nested else str(kind)
    return DataError(f"axis {axis!r} takes {rule}, but its column has type {shown}; {remedy}")


def finish(
    codes: NDArray[np.int64],
    outside: NDArray[np.bool_],
    missing: NDArray[np.bool_],
    *,
    axis: str,
    rule: str,
    clip: bool,
) -> NDArray[np.int64]:
    """Codes with −1 for the missing, once nothing out of range is left to refuse.

    Args:
        codes: The cell of each value, moved to the nearest end where it is out of range.
        outside: Whether each value is out of range.
        missing: Whether each value is missing.
        axis: Name of the axis.
        rule: What it takes.
        clip: Whether values out of range may be moved.
    """
    if not clip:
        refuse_rows(
            outside & ~missing,
            axis=axis,
            rule=rule,
            fault="out of range",
            remedy="correct or drop every such row, or state outside='clip' to move such values to "
            "the nearest end",
        )
    codes[missing] = -1
    return codes


def read_numbers(column: Any, *, axis: str, rule: str, whole: bool) -> Read:
    """Numbers in the column's own precision, and where they are missing.

    Args:
        column: An Arrow column or a `Single`.
        axis: Name of the axis.
        rule: What it takes.
        whole: Whether the numbers must be whole.
    """
    read = _single_number if isinstance(column, Single) else _column_numbers
    values, missing = read(column, axis=axis, rule=rule, whole=whole)
    if values.dtype.kind == "f":
        nan = np.isnan(values)
        if nan.any():
            values = np.where(nan, values.dtype.type(0), values)
            missing = missing | nan
        if whole:
            _refuse_parts(values != np.floor(values), axis=axis, rule=rule)
    return values, missing


def _single_number(held: Single, *, axis: str, rule: str, whole: bool) -> Read:
    """One number, which may be NaN, and whether it is missing."""
    if held.family not in ("null", "number", "text"):
        raise refuse_type(held.type, axis=axis, rule=rule, remedy="convert it to numbers")
    value = held.value
    if held.family == "text":
        text = value.strip()
        fits = re.fullmatch(_WHOLE if whole else _NUMBER, text, re.ASCII)
        _refuse_spelling(np.array([bool(text) and not fits]), axis=axis, rule=rule)
        value = np.array([float(text)]) if text else None
    if whole:
        _refuse_parts(np.array([not held.whole]), axis=axis, rule=rule)
    return np.zeros(1) if value is None else value, np.array([value is None])


def _column_numbers(column: Any, *, axis: str, rule: str, whole: bool) -> Read:
    """The numbers of an Arrow column, which may be NaN, and where it has none."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as pt

    array = flatten(column)
    kind = array.type
    if pt.is_null(kind):
        return np.zeros(len(array)), np.ones(len(array), dtype=np.bool_)
    if is_text(kind):
        array = _trimmed(array)
        fits = pc.fill_null(pc.match_substring_regex(array, _WHOLE if whole else _NUMBER), True)
        _refuse_spelling(~fits.to_numpy(zero_copy_only=False), axis=axis, rule=rule)
        # Whole numbers beyond 2^53, which doubles round, are out of every range anyway.
        array = array.cast(pa.float64())
    elif pt.is_decimal(kind):
        if whole:
            # One digit more, without which 0.7 could not be rounded.
            roomy = array.cast(pa.decimal256(min(kind.precision + 1, 76), kind.scale))
            split = pc.fill_null(pc.not_equal(pc.floor(roomy), roomy), False)
            _refuse_parts(split.to_numpy(zero_copy_only=False), axis=axis, rule=rule)
        # By way of text, which is read to the nearest double; the direct cast is not.
        array = array.cast(pa.string()).cast(pa.float64())
    elif not (pt.is_integer(kind) or pt.is_floating(kind)):
        raise refuse_type(kind, axis=axis, rule=rule, remedy="convert it to numbers")
    return _to_numpy(array), is_missing(array)


def _refuse_parts(bad: NDArray[np.bool_], *, axis: str, rule: str) -> None:
    """Refuse numbers that are not whole."""
    remedy = "round them on purpose, or declare the axis as reals"
    refuse_rows(bad, axis=axis, rule=rule, fault="not whole", remedy=remedy)


def _refuse_spelling(
    bad: NDArray[np.bool_],
    *,
    axis: str,
    rule: str,
    remedy: str = "correct every such row, or leave the cell empty for a missing value",
) -> None:
    """Refuse text that does not spell what the axis takes."""
    refuse_rows(bad, axis=axis, rule=rule, fault="not written as such", remedy=remedy)


def read_calendar(
    column: Any,
    convert: Callable[[str], int | None],
    *,
    takes: Collection[Family],
    unit: int,
    axis: str,
    rule: str,
    written: str,
    zoned: str,
    remedy: str,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Dates or times as whole base units, rounded down, and where they are missing.

    Args:
        column: An Arrow column or a `Single`.
        convert: Base units that a text spells; None if it spells none.
        takes: Which of "date", "moment" and "clock" are accepted beside text.
        unit: Seconds in a base unit.
        axis: Name of the axis.
        rule: What it takes.
        written: What to do about text that spells none.
        zoned: What to do about moments with a time zone.
        remedy: What to do about other types.
    """
    spelling = {"axis": axis, "rule": rule, "remedy": written}
    if isinstance(column, Single):
        return _single_calendar(column, convert, takes, unit, spelling, remedy)
    import pyarrow.types as pt

    array = flatten(column)
    kind = array.type
    if pt.is_null(kind):
        return np.zeros(len(array), dtype=np.int64), np.ones(len(array), dtype=np.bool_)
    if is_text(kind):
        return _read_text(array, convert, spelling)
    if "date" in takes and pt.is_date32(kind):
        return _integers_of(array) * (DAY // unit), is_missing(array)
    if "date" in takes and pt.is_date64(kind):
        return _integers_of(array) // (unit * 1000), is_missing(array)
    has_zone = pt.is_timestamp(kind) and kind.tz is not None
    moment = "moment" in takes and pt.is_timestamp(kind) and not has_zone
    if moment or ("clock" in takes and pt.is_time(kind)):
        return _integers_of(array) // (unit * _PER_SECOND[kind.unit]), is_missing(array)
    shown = "timestamp with a time zone" if has_zone else kind
    raise refuse_type(shown, axis=axis, rule=rule, remedy=zoned if has_zone else remedy)


def _single_calendar(
    held: Single,
    convert: Callable[[str], int | None],
    takes: Collection[Family],
    unit: int,
    spelling: dict[str, str],
    remedy: str,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """One date or time as whole base units, and whether it is missing."""
    value = held.value
    if held.family == "text":
        text = value.strip()
        value = convert(text) if text else None
        _refuse_spelling(np.array([bool(text) and value is None]), **spelling)
    elif held.family in takes and value is not None:
        value = value * (DAY if held.family == "date" else 1) // unit
    elif held.family != "null" and held.family not in takes:
        raise refuse_type(held.type, axis=spelling["axis"], rule=spelling["rule"], remedy=remedy)
    return np.array([value or 0], dtype=np.int64), np.array([value is None])


def _read_text(
    array: Any, convert: Callable[[str], int | None], spelling: dict[str, str]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Text as integers; each distinct spelling is converted once."""
    text = _trimmed(array)
    missing = is_missing(text)
    coded = text.dictionary_encode()
    found = [convert(word) for word in coded.dictionary.to_pylist()]
    values = np.array([0 if value is None else value for value in found] or [0], dtype=np.int64)
    failed = np.array([value is None for value in found] or [False], dtype=np.bool_)
    places = _to_numpy(coded.indices)
    _refuse_spelling(failed[places] & ~missing, **spelling)
    return values[places], missing
