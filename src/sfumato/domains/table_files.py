"""People's tables in CSV and Parquet files, read a bounded number of rows at a time.

Cells of CSV stay text, for the domain to read; empty ones are missing, and nothing else is. Errors
name rows of the file, row 1 being the first person, and never quote a cell: what the readers
beneath say is dropped, since theirs do.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from sfumato.domains.tables import require
from sfumato.errors import DataError, rows

if TYPE_CHECKING:
    import pyarrow as pa

CSV_BLOCK = 1 << 23  # bytes
_PARQUET_ROWS = 1 << 16

Seen = Callable[[int, int], None]


def read_batches(
    path: str | PathLike[str], names: Sequence[str], *, seen: Seen | None = None
) -> Iterator[pa.RecordBatch]:
    """The named columns of a CSV or Parquet file, piece by piece.

    Args:
        path: A file that ends in ``.csv``, ``.csv.gz`` or ``.parquet``.
        names: The columns wanted; others are not read.
        seen: Told how much has been read, and how much there is.

    Raises:
        DataError: If the file or a column is missing, or a row has too many or too few cells.
    """
    file = Path(path)
    kind = file.name.lower()
    if not kind.endswith((".csv", ".csv.gz", ".parquet")):
        raise DataError(f"a table file must end in .csv, .csv.gz or .parquet, got {str(file)!r}")
    if not file.is_file():
        raise DataError(f"there is no file {str(file)!r}; check the path")
    read = _parquet_batches if kind.endswith(".parquet") else _csv_batches
    return read(file, list(names), seen or (lambda done, total: None))


def read_table(
    path: str | PathLike[str], names: Sequence[str], *, seen: Seen | None = None
) -> pa.Table:
    r"""The named columns of a CSV or Parquet file, as one Arrow table.

    Args:
        path: A file that ends in ``.csv``, ``.csv.gz`` or ``.parquet``.
        names: The columns wanted; others are not read.
        seen: Told how much has been read, and how much there is.

    Raises:
        DataError: If the file or a column is missing, or a row has too many or too few cells.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     file = Path(folder, "people.csv")
        ...     _ = file.write_text("name,age\nAnn,34\nBob,\n")
        ...     read_table(file, ["age"])["age"].to_pylist()
        ['34', None]
    """
    import pyarrow as pa

    pieces = list(read_batches(path, names, seen=seen))
    empty = pa.schema([(name, pa.string()) for name in names])
    return pa.Table.from_batches(pieces, schema=None if pieces else empty)


def _parquet_batches(file: Path, names: list[str], seen: Seen) -> Iterator[pa.RecordBatch]:
    """Row batches of a Parquet file."""
    import pyarrow.parquet as pq

    failed = False
    try:
        with pq.ParquetFile(file) as source:
            require(names, source.schema_arrow.names, where=f"file {str(file)!r}")
            total, done = source.metadata.num_rows, 0
            for batch in source.iter_batches(_PARQUET_ROWS, columns=names):
                done += len(batch)
                seen(done, total)
                yield batch.select(names)
    except _reader_errors():
        failed = True
    if failed:  # outside, so that the error does not carry the reader's
        raise DataError(f"file {str(file)!r} must be Parquet, and cannot be read as such")


def _csv_batches(file: Path, names: list[str], seen: Seen) -> Iterator[pa.RecordBatch]:
    """Blocks of a CSV file; a row with too many or too few cells is refused by its number."""
    import pyarrow as pa
    import pyarrow.csv

    width = _checked_width(file, names)
    ragged: list[int] = []

    def note(row: Any) -> str:
        ragged.append(row.number - 1)
        return "skip"

    total, failed = file.stat().st_size, False
    try:
        with file.open("rb", buffering=0) as raw:
            reader = pa.csv.open_csv(
                pa.input_stream(raw, compression="gzip" if _is_gzip(file) else None),
                # With threads, rows go unnumbered.
                read_options=pa.csv.ReadOptions(block_size=CSV_BLOCK, use_threads=False),
                parse_options=pa.csv.ParseOptions(
                    newlines_in_values=True,
                    invalid_row_handler=note,
                    # In a file of one column a blank line is a person without an answer.
                    ignore_empty_lines=width > 1,
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
                _refuse_ragged(ragged, width, file)
                seen(min(raw.tell(), total), total)
                yield batch
            _refuse_ragged(ragged, width, file)
    except _reader_errors():
        failed = True
    if failed:
        raise _not_csv(file)


def _checked_width(file: Path, names: list[str]) -> int:
    """The number of columns, once the header names all that are needed."""
    header = None
    try:
        with _open(file) as lines:
            header = next(csv.reader(lines), [])
    except _reader_errors():
        pass
    if header is None:
        raise _not_csv(file)
    if names and not set(names) & set(header):
        # Without a header the first line is a person: it must not be shown.
        raise DataError(
            f"the first line of file {str(file)!r} must name its columns, and none is "
            f"{' or '.join(map(repr, names))}; add a header line or correct it"
        )
    require(names, header, where=f"file {str(file)!r}")
    return len(header)


def _refuse_ragged(found: list[int], width: int, file: Path) -> None:
    """Refuse rows that do not have a cell for each column."""
    if found:
        raise DataError(
            f"every row of file {str(file)!r} must have {width} cells, one for each column, but "
            f"{rows(found)} {'has' if len(found) == 1 else 'have'} more or fewer; quote cells "
            "that contain commas"
        )


def _not_csv(file: Path) -> DataError:
    """The error for a file that is damaged or of another kind."""
    return DataError(f"file {str(file)!r} must be CSV in UTF-8, and cannot be read as such")


def _reader_errors() -> tuple[type[Exception], ...]:
    """What readers raise where a file is not what its name says."""
    import pyarrow as pa

    return (pa.ArrowException, OSError, EOFError, UnicodeDecodeError, csv.Error)


def _open(file: Path) -> TextIO:
    """A text file, compressed or not."""
    if _is_gzip(file):
        return gzip.open(file, "rt", encoding="utf-8-sig", newline="")
    return file.open(encoding="utf-8-sig", newline="")


def _is_gzip(file: Path) -> bool:
    """Whether a file's name says that it is compressed."""
    return file.name.lower().endswith(".gz")
