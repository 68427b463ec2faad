"""People's values, records and counts from a file; errors name rows of the whole file."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.cli.showing import Seen
from sfumato.collect.parquet import MOST_PEOPLE
from sfumato.collect.people import encode_batches
from sfumato.device.program import Program
from sfumato.device.values import DeviceAxis
from sfumato.domains.columns import read_numbers, refuse_rows
from sfumato.domains.tables import PLAIN, TableForm, read_batches, read_table, stream_batches
from sfumato.errors import DataError, TooLargeError, rows
from sfumato.randomness.bits import BitSource
from sfumato.study.axis import Axis
from sfumato.study.reports import Reports
from sfumato.study.study import Study
from sfumato.text import MOST_LETTERS

_MOST_CELLS = 1 << 26


def encode_file(
    study: Study, path: Path, bits: BitSource, seen: Seen, form: TableForm = PLAIN
) -> Iterator[Reports]:
    """Reports for the people in a CSV or Parquet file, in the order of its rows.

    Args:
        study: The study.
        path: A file that ends in .csv, .csv.gz or .parquet; "-" is CSV from standard input.
        bits: Where randomness comes from.
        seen: Told how much of the file has been read.
        form: How the file is written.

    Raises:
        DataError: If the file cannot be read or a value does not fit; row 1 is the first person
            in the file, and no value is shown.
    """
    names = [axis.name for axis in study.axes]
    return encode_batches(study, _pieces(path, names, seen, form), bits)


def _pieces(path: Path, names: list[str], seen: Seen, form: TableForm) -> Iterator[pa.RecordBatch]:
    """The named columns of a file, or of standard input."""
    if is_stream(path):
        return stream_batches(sys.stdin.buffer, names, form=form)
    return read_batches(path, names, form=form, seen=seen)


def read_people(path: Path, names: list[str], seen: Seen, form: TableForm) -> pa.Table:
    """The named columns of a file of people as one table; "-" is CSV from standard input.

    Args:
        path: A file that ends in .csv, .csv.gz or .parquet, or "-".
        names: The columns.
        seen: Told how much of the file has been read.
        form: How the file is written.
    """
    pieces = list(_pieces(path, names, seen, form))
    empty = pa.schema([(name, pa.string()) for name in names])
    return pa.Table.from_batches(pieces, schema=None if pieces else empty)


def is_stream(path: Path) -> bool:
    """Whether a path means standard input or output."""
    return str(path) == "-"


class Records(Mapping[str, Mapping[str, object]]):
    """The record of each person, by what the person is called, in the order of the file's rows.

    Args:
        persons: What each person is called, no two alike.
        columns: The values of each axis, one per person.
    """

    def __init__(self, persons: Sequence[str], columns: Mapping[str, Sequence[object]]) -> None:
        self._rows = {person: row for row, person in enumerate(persons)}
        self._columns = columns

    def __getitem__(self, person: str) -> dict[str, object]:
        row = self._rows[person]
        return {name: column[row] for name, column in self._columns.items()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def read_records(
    program: Program, path: Path, person: str | None, seen: Seen, form: TableForm = PLAIN
) -> Records:
    """The records in a CSV file, once every one of them fits the program.

    Args:
        program: The device program.
        path: A file that ends in .csv or .csv.gz.
        person: The column that says who a row is about; None calls people by their rows.
        seen: Told how much of the file has been read.
        form: How the file is written.

    Raises:
        DataError: If the file cannot be read, a value does not fit, or a person has two rows; row
            1 is the first person in the file, and no cell is shown.
    """
    names = [axis.name for axis in program.axes]
    wanted = names if person is None else [*names, person]
    table = read_people(path, wanted, seen, form)
    columns = {axis.name: _values(axis, table.column(axis.name)) for axis in program.axes}
    if person is None:
        return Records([f"row {row}" for row in range(1, len(table) + 1)], columns)
    return Records(_persons(table.column(person).to_pylist(), person), columns)


def _values(axis: DeviceAxis, column: pa.ChunkedArray) -> list[object]:
    """The values of an axis from the cells of a CSV file, all of which fit; None where missing."""
    values: list[object]
    if axis.kind in ("integers", "reals"):
        whole = axis.kind == "integers"
        numbers, gone = read_numbers(column, axis=axis.name, rule=axis.rule, whole=whole)
        pairs = zip(numbers.tolist(), gone.tolist(), strict=True)
        values = [None if missing else number for number, missing in pairs]
    elif axis.kind == "categories":
        values = column.to_pylist()  # case and spaces count
    else:
        values = [(cell or "").strip() or None for cell in column.to_pylist()]
    missing = [row for row, value in enumerate(values, 1) if value is None]
    if missing and not axis.optional:
        raise DataError(
            f"axis {axis.name!r} must have an answer in every row, but {rows(missing)} "
            f"{'has' if len(missing) == 1 else 'have'} none; leave these rows out or make the "
            "axis optional in the study"
        )
    refuse_rows(
        np.array([value is not None and not _fits(axis, value) for value in values], dtype=bool),
        axis=axis.name,
        rule=axis.rule,
        fault="something else",
        remedy="correct or drop every such row",
    )
    return values


def _fits(axis: DeviceAxis, value: object) -> bool:
    """Whether a value is one of an axis."""
    try:
        axis.code(value)
    except DataError:
        return False
    return True


def _persons(cells: Sequence[str | None], column: str) -> list[str]:
    """What people are called; every one of them has one row."""
    persons = ["" if cell is None else cell for cell in cells]
    blank = [row for row, person in enumerate(persons, 1) if not person.strip()]
    long = [row for row, person in enumerate(persons, 1) if len(person) > MOST_LETTERS]
    first: dict[str, int] = {}
    for row, person in enumerate(persons, 1):
        first.setdefault(person, row)
    twice = [row for row, person in enumerate(persons, 1) if first[person] < row]
    for found, rule in (
        (blank, "must say in every row who it is about"),
        (long, f"must hold at most {MOST_LETTERS:,} characters in every row"),
        (twice, "must name every person once"),
    ):
        if found:
            verb = "does" if len(found) == 1 else "do"
            why = "not: the same person has a row before" if found is twice else "not"
            raise DataError(
                f"column {column!r} {rule}, and {rows(found)} {verb} {why}; correct or drop every "
                "such row"
            )
    return persons


def read_counts(study: Study, path: Path) -> NDArray[np.int64]:
    """A true histogram over all cells, from a file with one row per combination of values.

    Args:
        study: The study.
        path: A table with a column per axis, and a column `count`.
    """
    if math.prod(study.shape) > _MOST_CELLS:
        raise TooLargeError(
            f"the study has {' × '.join(map(str, study.shape))} cells, and --counts works up to "
            f"{_MOST_CELLS:,}; list the people, one per row, and name that file instead"
        )
    names = [axis.name for axis in study.axes]
    column = "count"
    while column in names:
        column += "_"
    table = read_table(path, [*names, column])
    cells = [_cells(axis, table.column(axis.name)) for axis in study.axes]
    counts = np.zeros(study.shape, dtype=np.int64)
    np.add.at(counts, tuple(cells), _whole_counts(table.column(column), column))
    return counts


def read_weights(path: Path, column: str) -> Floats:
    """Public weights, one per row of a file; missing and impossible ones are refused by row.

    Args:
        path: A CSV or Parquet file.
        column: The column of the weights.
    """
    rule = "finite numbers, zero or more"
    held = read_table(path, [column]).column(column)
    numbers, missing = read_numbers(held, axis=column, rule=rule, whole=False)
    weights = np.asarray(numbers, dtype=np.float64)
    bad = np.flatnonzero(missing | ~np.isfinite(weights) | (weights < 0))
    if bad.size:
        raise DataError(
            f"column {column!r} of {str(path)!r} holds weights, which are {rule}, and "
            f"{rows((bad + 1).tolist())} {'has' if bad.size == 1 else 'have'} none; correct the "
            "file"
        )
    return weights


def _cells(axis: Axis, column: Any) -> NDArray[np.int64]:
    """The cell of each row; with stochastic rounding, the grid point it must lie on."""
    codes = axis.codes(column)
    bits = axis.domain.rounding_bits
    between = np.flatnonzero(codes & ((1 << bits) - 1))
    if between.size:
        raise DataError(
            f"axis {axis.name!r} is rounded to a grid, and counts are of its points, but "
            f"{rows((between + 1).tolist())} lies between two; list people one per row"
        )
    return codes >> bits


def _whole_counts(column: Any, name: str) -> NDArray[np.int64]:
    """How many people each row stands for."""
    rule = "whole numbers of people, zero or more"
    numbers, missing = read_numbers(column, axis=name, rule=rule, whole=True)
    bad = np.flatnonzero(missing | (numbers < 0) | (numbers > MOST_PEOPLE))
    if bad.size:
        raise DataError(
            f"column {name!r} takes {rule}, and {rows((bad + 1).tolist())} "
            f"{'has' if bad.size == 1 else 'have'} none; correct the file"
        )
    if numbers.sum(dtype=np.float64) > MOST_PEOPLE:
        raise DataError(
            f"column {name!r} must have at most {MOST_PEOPLE:,} people in all, and has more; "
            "correct the file"
        )
    return numbers.astype(np.int64)
