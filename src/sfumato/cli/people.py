"""People's values and counts from a file; errors name rows of the whole file."""

from __future__ import annotations

import csv
import gzip
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sfumato.cli.options import suffix
from sfumato.cli.showing import Seen
from sfumato.domains.reading import read_numbers
from sfumato.domains.tables import columns, read_table
from sfumato.errors import DataError, TooLargeError, rows
from sfumato.randomness.bits import BitSource
from sfumato.study.axis import Axis
from sfumato.study.reports import Reports
from sfumato.study.study import PEOPLE_AT_ONCE, Study

if TYPE_CHECKING:
    pass


CSV_BLOCK = 1 << 23
_PARQUET_ROWS = 1 << 16
_MOST_CELLS = 1 << 26
# Whatever a reader says is dropped, since it may quote a cell.
_READER_ERRORS = (pa.ArrowException, OSError, EOFError, UnicodeDecodeError, csv.Error)


def encode_file(study: Study, path: Path, bits: BitSource, seen: Seen) -> Iterator[Reports]:
    """Reports for the people in a CSV or Parquet file, in the order of its rows.

    Args:
        study: The study.
        path: A file that ends in .csv, .csv.gz or .parquet.
        bits: Where randomness comes from.
        seen: Told how much of the file has been read.

    Raises:
        DataError: If the file cannot be read or a value does not fit; row 1 is the first person
            in the file, and no value is shown.
    """
    names = [axis.name for axis in study.axes]
    before = 0
    # As many as Study.encode takes at once, so that a seed gives the same reports either way.
    chunks = in_chunks(batches(path, names, seen), PEOPLE_AT_ONCE)
    for chunk in chunks:
        try:
            yield study.encode(chunk, bits=bits)
        except DataError as error:
            message = shift_rows(str(error), before, names)
            if next(chunks, None) is not None:
                message += f" (rows after {before + len(chunk)} were not looked at)"
            raise DataError(message) from None
        before += len(chunk)


def batches(path: Path, names: Sequence[str], seen: Seen) -> Iterator[pa.RecordBatch]:
    """The named columns of a file, piece by piece; cells of CSV stay text, for the axis to read."""
    suffix(path, "table of people", ".csv", ".csv.gz", ".parquet")
    if not path.is_file():
        raise DataError(f"there is no file {str(path)!r}; check the path")
    read = _parquet_batches if path.name.lower().endswith(".parquet") else _csv_batches
    return read(path, list(names), seen)


def in_chunks(pieces: Iterator[pa.RecordBatch], size: int) -> Iterator[pa.Table]:
    """The same rows in tables of exactly `size`, the last one excepted.

    Example:
        >>> pieces = [pa.record_batch({"age": [1, 2, 3]}), pa.record_batch({"age": [4, 5]})]
        >>> [table["age"].to_pylist() for table in in_chunks(iter(pieces), 2)]
        [[1, 2], [3, 4], [5]]
    """
    held: list[pa.RecordBatch] = []
    count = 0
    for piece in pieces:
        held.append(piece)
        count += len(piece)
        while count >= size:
            table = pa.Table.from_batches(held)
            yield table.slice(0, size)
            held = table.slice(size).to_batches()
            count -= size
    if count:
        yield pa.Table.from_batches(held)


def shift_rows(message: str, by: int, names: Sequence[str]) -> str:
    """A message about rows of a part, speaking of rows of the whole; names are left alone.

    Example:
        >>> shift_rows("axis 'row 1' has none (rows 3, 8 and 2 more)", 100, ["row 1"])
        "axis 'row 1' has none (rows 103, 108 and 2 more)"
    """
    kept = "|".join(re.escape(repr(name)) for name in names)
    pattern = re.compile(rf"({kept})|\b(rows? )(\d+(?:, \d+)*)")

    def shifted(found: re.Match[str]) -> str:
        if found[1]:
            return found[1]
        return found[2] + ", ".join(str(int(row) + by) for row in found[3].split(", "))

    return pattern.sub(shifted, message)


def _parquet_batches(path: Path, names: list[str], seen: Seen) -> Iterator[pa.RecordBatch]:
    """Row batches of a Parquet file."""
    try:
        with pq.ParquetFile(path) as file:
            _require(names, file.schema_arrow.names, path)
            total, done = file.metadata.num_rows, 0
            for batch in file.iter_batches(_PARQUET_ROWS, columns=names):
                done += len(batch)
                seen(done, total)
                yield batch.select(names)
    except _READER_ERRORS:
        raise DataError(f"file {str(path)!r} must be Parquet, and cannot be read as such") from None


def _csv_batches(path: Path, names: list[str], seen: Seen) -> Iterator[pa.RecordBatch]:
    """Blocks of a CSV file; a row with too many or too few cells is refused by its number."""
    width = _check_header(path, names)
    ragged: list[int] = []

    def note(row: Any) -> str:
        ragged.append(row.number - 1)
        return "skip"

    total = path.stat().st_size
    try:
        with path.open("rb", buffering=0) as raw:
            reader = pa.csv.open_csv(
                pa.input_stream(raw, compression="gzip" if _is_gzip(path) else None),
                read_options=pa.csv.ReadOptions(block_size=CSV_BLOCK, use_threads=False),
                parse_options=pa.csv.ParseOptions(
                    newlines_in_values=True, invalid_row_handler=note
                ),
                convert_options=pa.csv.ConvertOptions(
                    include_columns=names,
                    column_types=dict.fromkeys(names, pa.string()),
                    strings_can_be_null=True,
                    null_values=[""],
                ),
            )
            for batch in reader:
                # Before the rows are used: those after a ragged one would be numbered wrongly.
                _refuse_ragged(ragged, width, path)
                seen(min(raw.tell(), total), total)
                yield batch
            _refuse_ragged(ragged, width, path)
    except _READER_ERRORS:
        raise DataError(
            f"file {str(path)!r} must be CSV in UTF-8, and cannot be read as such"
        ) from None


def _check_header(path: Path, names: list[str]) -> int:
    """The number of columns, once all that are needed are there."""
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8-sig", newline="")
            if _is_gzip(path)
            else path.open(encoding="utf-8-sig", newline="")
        ) as lines:
            header = next(csv.reader(lines), [])
    except _READER_ERRORS:
        raise DataError(
            f"file {str(path)!r} must be CSV in UTF-8, and cannot be read as such"
        ) from None
    if not set(names) & set(header):
        # Without a header the first line is a person: it must not be shown.
        raise DataError(
            f"the first line of file {str(path)!r} must name its columns, and none is "
            f"{' or '.join(map(repr, names))}; add a header line or correct it"
        )
    _require(names, header, path)
    return len(header)


def _require(names: list[str], there: Sequence[str], path: Path) -> None:
    """Refuse a file that lacks a column, or has one twice."""
    empty = pa.Table.from_arrays([pa.array([], pa.string())] * len(there), names=list(there))
    try:
        columns(empty, names)
    except DataError as error:
        raise DataError(f"file {str(path)!r}: {error}") from None


def _refuse_ragged(found: list[int], width: int, path: Path) -> None:
    """Refuse rows that do not have a cell for each column."""
    if found:
        raise DataError(
            f"every row of file {str(path)!r} must have {width} cells, one for each column, but "
            f"{rows(found)} {'has' if len(found) == 1 else 'have'} more or fewer; quote cells "
            "that contain commas"
        )


def _is_gzip(path: Path) -> bool:
    """Whether a file's name says that it is compressed."""
    return path.name.lower().endswith(".gz")


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
    bad = np.flatnonzero(missing | (numbers < 0) | (numbers > 2**53))
    if bad.size:
        raise DataError(
            f"column {name!r} takes {rule}, and {rows((bad + 1).tolist())} "
            f"{'has' if bad.size == 1 else 'have'} none; correct the file"
        )
    return numbers.astype(np.int64)
