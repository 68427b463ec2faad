"""From an Arrow column to NumPy values and a mask of the missing ones.

Whatever is refused is refused by row number; no message here may hold a value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from sfumato.errors import DataError, rows

_NUMBER = r"^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|(?i:inf|infinity|nan))$"
_WHOLE = r"^([+-]?[0-9]+(\.0*)?|(?i:[+-]?inf|[+-]?infinity|nan))$"


def flatten(column: Any) -> Any:
    """One plain Arrow array: chunks joined, dictionaries and run lengths decoded."""
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
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def is_missing(array: Any) -> NDArray[np.bool_]:
    """Where an array holds no value."""
    if not array.null_count:
        return np.zeros(len(array), dtype=np.bool_)
    mask: NDArray[np.bool_] = array.is_null().to_numpy(zero_copy_only=False)
    return mask


def integers_of(array: Any) -> NDArray[np.int64]:
    """The 64-bit integers behind dates, times and timestamps, 0 where missing."""
    kind = array.type
    if kind.bit_width == 32:
        array = array.cast(pa.int32())
    return to_numpy(array.cast(pa.int64())).astype(np.int64, copy=False)


def to_numpy(array: Any) -> NDArray[Any]:
    """The values of a numeric array, 0 where missing."""
    if array.null_count:
        array = pc.fill_null(array, pa.scalar(0, type=array.type))
    values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values


def trimmed(array: Any) -> Any:
    """Text without surrounding space; nothing but space counts as missing."""
    text = pc.utf8_trim_whitespace(array)
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, type=text.type), text)


def refuse_rows(bad: NDArray[np.bool_], *, axis: str, rule: str, fault: str, remedy: str) -> None:
    """Raise DataError for the rows marked bad, if there are any."""
    if not bad.any():
        return
    found = (np.flatnonzero(bad) + 1).tolist()
    verb = "value is" if len(found) == 1 else "values are"
    raise DataError(
        f"axis {axis!r} takes {rule}, but {len(found)} {verb} {fault} ({rows(found)}); {remedy}"
    )


def refuse_type(kind: Any, *, axis: str, rule: str, remedy: str) -> DataError:
    """The error for a column whose type can never fit."""
    # The names of nested fields may come from the data.
    shown = "a nested type" if isinstance(kind, pa.DataType) and pt.is_nested(kind) else str(kind)
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
    """Codes with −1 for the missing, once nothing out of range is left to refuse."""
    if not clip:
        refuse_rows(
            outside & ~missing,
            axis=axis,
            rule=rule,
            fault="out of range",
            remedy="correct or drop them, or state outside='clip' to move them to the nearest end",
        )
    codes[missing] = -1
    return codes


def read_numbers(
    column: Any, *, axis: str, rule: str, whole: bool
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Numbers in the column's own precision, and where they are missing."""
    array = flatten(column)
    kind = array.type
    if pt.is_null(kind):
        return np.zeros(len(array)), np.ones(len(array), dtype=np.bool_)
    if is_text(kind):
        array = _numbers_in_text(array, axis=axis, rule=rule, whole=whole)
    elif pt.is_decimal(kind):
        if whole:
            split = pc.fill_null(pc.not_equal(pc.floor(array), array), False)
            _refuse_parts(split.to_numpy(zero_copy_only=False), axis=axis, rule=rule)
        array = array.cast(pa.float64())
    elif not (pt.is_integer(kind) or pt.is_floating(kind)):
        raise refuse_type(kind, axis=axis, rule=rule, remedy="convert it to numbers")
    missing = is_missing(array)
    values = to_numpy(array)
    if values.dtype.kind == "f":
        nan = np.isnan(values)
        if nan.any():
            values = np.where(nan, values.dtype.type(0), values)
            missing = missing | nan
        if whole:
            _refuse_parts(values != np.floor(values), axis=axis, rule=rule)
    return values, missing


def _refuse_parts(bad: NDArray[np.bool_], *, axis: str, rule: str) -> None:
    """Refuse numbers that are not whole."""
    refuse_rows(
        bad,
        axis=axis,
        rule=rule,
        fault="not whole",
        remedy="round them on purpose, or declare the axis as reals",
    )


def _numbers_in_text(array: Any, *, axis: str, rule: str, whole: bool) -> Any:
    """Text as 64-bit floats; whole numbers beyond 2^53 are out of every range anyway."""
    text = trimmed(array)
    fits = pc.fill_null(pc.match_substring_regex(text, _WHOLE if whole else _NUMBER), True)
    refuse_rows(
        ~fits.to_numpy(zero_copy_only=False),
        axis=axis,
        rule=rule,
        fault="not written as such",
        remedy="correct them, or leave the cell empty for a missing value",
    )
    return text.cast(pa.float64())


def read_text(
    array: Any, convert: Callable[[str], int | None], *, axis: str, rule: str, remedy: str
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Text as integers by way of its distinct spellings, each converted once."""
    text = trimmed(array)
    missing = is_missing(text)
    coded = text.dictionary_encode()
    found = [convert(spelling) for spelling in coded.dictionary.to_pylist()]
    values = np.array([0 if value is None else value for value in found] or [0], dtype=np.int64)
    failed = np.array([value is None for value in found] or [False], dtype=np.bool_)
    spelling = to_numpy(coded.indices)
    refuse_rows(
        failed[spelling] & ~missing,
        axis=axis,
        rule=rule,
        fault="not written as such",
        remedy=remedy,
    )
    return values[spelling], missing
