"""People's tables in parts: each part becomes reports, and errors name rows of the whole file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.collect.parquet import WRITING
from sfumato.errors import DataError
from sfumato.randomness.bits import BitSource
from sfumato.study.reports import Reports
from sfumato.study.study import PEOPLE_AT_ONCE, Study


def encode_batches(
    study: Study, pieces: Iterator[pa.RecordBatch], bits: BitSource, *, before: int = 0
) -> Iterator[Reports]:
    """Reports for the people in record batches, in the order of their rows.

    Args:
        study: The study.
        pieces: The rows, with a column for every axis.
        bits: Where randomness comes from.
        before: How many rows of the file come before them.

    Raises:
        DataError: If a value does not fit; row 1 is the first person in the file, and no value is
            shown.
    """
    names = [axis.name for axis in study.axes]
    # As many as Study.encode takes at once, so that a seed gives the same reports either way.
    chunks = in_chunks(pieces, PEOPLE_AT_ONCE)
    for chunk in chunks:
        try:
            yield study.encode(chunk, bits=bits)
        except DataError as error:
            message = shift_rows(str(error), before, names)
            if next(chunks, None) is not None:
                message += f" (rows after {before + len(chunk)} were not looked at)"
            raise DataError(message) from None
        before += len(chunk)


def reports_writer(study: Study, where: Path | Any) -> pq.ParquetWriter:
    """A writer of Parquet files of a study's reports.

    Args:
        study: The study.
        where: The file, or what is written to like one.
    """
    # The shape of a report does not depend on whose it is: an empty table shows it.
    names = [axis.name for axis in study.axes]
    schema = study.encode({name: pa.array([], pa.string()) for name in names}).to_arrow().schema
    return pq.ParquetWriter(where, schema, **WRITING)


def in_chunks(pieces: Iterator[pa.RecordBatch], size: int) -> Iterator[pa.Table]:
    """The same rows in tables of exactly `size`, the last one excepted.

    Args:
        pieces: Record batches of any size.
        size: Rows per table.

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
    """A message about rows of a part, with the row numbers of the whole; names are left alone.

    Args:
        message: The message.
        by: How many rows come before the part.
        names: Names of axes, which may look like row numbers.

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
