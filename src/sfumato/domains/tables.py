"""People's tables as columns: dicts, lists of dicts, data frames, Arrow tables and files.

Data frame libraries are never imported: a table is recognised by what it can do. A dict of scalars
is one person, who is read without Arrow. Files are read a bounded number of rows at a time; cells
of CSV stay text, for the domain to read, and only empty ones are missing. Errors name rows, row 1
being the first person, and never quote a cell: what the readers beneath say is dropped, since
theirs do.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from decimal import Decimal
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

import numpy as np
from numpy.typing import NDArray

from sfumato.domains.columns import is_text, plain_moments, single
from sfumato.errors import DataError, near, rows, shown

if TYPE_CHECKING:
    import pyarrow as pa


def columns(table: Any, names: Sequence[str]) -> dict[str, Any]:
    """The named columns of a table, as Arrow arrays, or as `Single` values of one person.

    Args:
        table: A dict of columns or of scalars (one person), a list of dicts, a NumPy structured
            array, an Arrow table, or anything that exports an Arrow stream, such as a pandas or
            polars data frame.
        names: The columns wanted; others are ignored.

    Returns:
        The columns by name, all of one length, for `Domain.read`.

    Raises:
        DataError: If a column is missing, mixes types, or differs in length; no value is shown.

    Example:
        >>> columns({"age": [34, None], "shoe": [41, 42]}, ["age"])["age"].to_pylist()
        [34, None]
    """
    wanted = list(names)
    if isinstance(table, Mapping):
        return _from_mapping(table, wanted)
    import pyarrow as pa

    if isinstance(table, (pa.Table, pa.RecordBatch)):
        require(wanted, table.column_names)
        return {name: table.column(name) for name in wanted}
    if isinstance(table, np.ndarray) and table.dtype.names and table.ndim == 1:
        require(wanted, table.dtype.names)
        return {name: _array(table[name], name) for name in wanted}
    if isinstance(table, (list, tuple)):
        return _from_records(table, wanted)
    if hasattr(table, "__len__") and hasattr(table, "columns") and hasattr(table, "__getitem__"):
        # Column by column, so that one that nobody asked for cannot do harm.
        require(wanted, list(table.columns))
        return _same_length({name: _column(table[name], name) for name in wanted})
    if hasattr(table, "__arrow_c_stream__"):
        arrow = _attempt(lambda: pa.table(table))
        if arrow is not None:
            return columns(arrow, wanted)
    raise DataError(
        "a table must be a dict of columns, a list of dicts, a data frame, an Arrow table or a "
        f"NumPy structured array, got {type(table).__name__}"
    )


def _attempt(read: Callable[[], Any]) -> Any:
    """What a reader gives, or None where it fails; its message may quote a cell, so it is lost."""
    import pyarrow as pa

    try:
        return read()
    except (pa.lib.ArrowException, OverflowError, TypeError, ValueError, OSError):
        return None


def require(wanted: Sequence[str], there: Sequence[Any], *, where: str = "the table") -> None:
    """Refuse a table that lacks a column, or has one twice.

    Args:
        wanted: The columns needed.
        there: The columns it has.
        where: What the table is called in a message.
    """
    present = list(there)
    for name in wanted:
        if name not in present:
            hint = near(name, map(str, present)) if present else "it has no columns"
            raise DataError(f"{where} must have a column {name!r}, and has none: {hint}")
        if present.count(name) > 1:
            raise DataError(
                f"{where} must have one column {name!r}, and has {present.count(name)}; rename "
                "or drop the others"
            )


def _same_length(found: dict[str, Any]) -> dict[str, Any]:
    """Refuse columns of different lengths."""
    lengths = {name: len(column) for name, column in found.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name!r} has {count}" for name, count in lengths.items())
        raise DataError(f"columns must have one length, a row for each person: {shown}")
    return found


def _from_mapping(table: Mapping[Any, Any], wanted: list[str]) -> dict[str, Any]:
    """Columns of a dict, or the one person it describes."""
    require(wanted, list(table))
    scalars = [name for name in wanted if _is_scalar(table[name])]
    if scalars and len(scalars) < len(wanted):
        other = next(name for name in wanted if name not in scalars)
        raise DataError(
            "a dict must hold columns only, or the scalars of one person only: "
            f"{scalars[0]!r} is a scalar and {other!r} a column"
        )
    if scalars:
        return {name: _one_value(table[name], name) for name in wanted}
    return _same_length({name: _column(table[name], name) for name in wanted})


def _from_records(table: Sequence[Any], wanted: list[str]) -> dict[str, Any]:
    """Columns of a list of dicts; a key that a person lacks is a missing value."""
    strange = [row for row, person in enumerate(table, 1) if not isinstance(person, Mapping)]
    if strange:
        raise DataError(
            f"a list must hold a dict for each person, but {rows(strange)} is something else; "
            "give a dict of columns or a list of dicts"
        )
    if table:
        require(wanted, list({key: None for person in table for key in person}))
    return {name: _array([person.get(name) for person in table], name) for name in wanted}


def _is_scalar(value: Any) -> bool:
    """Whether a value is one person's rather than a column."""
    if isinstance(value, (str, bytes, np.generic)) or value is None:
        return True
    if isinstance(value, np.ndarray):
        return value.ndim == 0
    return not (hasattr(value, "__len__") or hasattr(value, "__arrow_c_stream__"))


def _one_value(value: Any, name: str) -> Any:
    """One person's value: a `Single`, or an Arrow column of one where only Arrow can tell."""
    found = single(value)
    if found is not None:
        return found
    in_numpy = isinstance(value, (np.generic, np.ndarray))
    return _array(np.asanyarray(value)[np.newaxis] if in_numpy else [value], name)


def _column(values: Any, name: str) -> Any:
    """A column in whatever form it comes."""
    import pyarrow as pa

    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    of_objects = str(getattr(values, "dtype", "")) == "object"
    if isinstance(values, (list, tuple, np.ndarray)) or of_objects:
        return _array(values, name)
    if hasattr(values, "__arrow_c_stream__"):
        found = _attempt(lambda: pa.chunked_array(values))
    elif hasattr(values, "__arrow_c_array__"):
        found = _attempt(lambda: pa.array(values))
    elif hasattr(values, "__array__"):
        return _array(np.asarray(values), name)
    elif isinstance(values, Sequence):
        return _array(list(values), name)
    else:
        found = None
    if found is None:
        raise _unreadable(name)
    return found


def _array(values: Any, name: str) -> Any:
    """A list or NumPy array as an Arrow array; NaN and NaT are missing."""
    import pyarrow as pa

    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise DataError(f"column {name!r} must have one dimension, got {values.ndim}")
    if isinstance(values, np.ndarray) and values.dtype != object:
        plain, mask = _plain(values)
        found = _attempt(lambda: pa.array(plain, mask=mask, from_pandas=True))
    else:
        listed = list(values)
        _refuse_mixture(listed, name)
        found = _attempt(lambda: pa.array(listed, from_pandas=True))
    if found is None:
        raise _unreadable(name)
    return found


def _plain(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """A NumPy array in a layout and type that Arrow knows, and its mask if it is masked."""
    mask = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
    plain = np.ascontiguousarray(np.ma.getdata(values))
    if plain.dtype.kind == "M":
        plain = plain_moments(plain)
    elif plain.dtype == np.longdouble:
        plain = plain.astype(np.float64)
    return plain.astype(plain.dtype.newbyteorder("="), copy=False), mask


def _unreadable(name: str) -> DataError:
    """The error for a column that has no Arrow form."""
    return DataError(
        f"column {name!r} must hold numbers, texts, dates or times of one type, with numbers "
        "that fit in 64 bits; convert it first"
    )


def _refuse_mixture(values: list[Any], name: str) -> None:
    """Refuse a list whose entries are of several kinds, even where Arrow would convert them."""
    kinds = {kind: _family(kind) for kind in set(map(type, values))}
    # Whether a moment has a zone is up to the entry, not to its type.
    if len(set(kinds.values()) - {None}) < 2 and "moment" not in kinds.values():
        return
    first: str | None = None
    for row, value in enumerate(values, 1):
        family = kinds[type(value)]
        if family is None or (isinstance(value, (float, Decimal, np.floating)) and value != value):
            continue
        if family == "moment" and getattr(value, "tzinfo", None) is not None:
            family = "moment with a time zone"
        first = first or family
        if family != first:
            raise DataError(
                f"column {name!r} must hold one type, but mixes {first} and {family} (row {row} "
                "is the first to differ); convert it first"
            )


def _family(kind: type) -> str | None:
    """What entries of a Python type are, in words; None for a type that means "missing"."""
    if kind is type(None) or kind.__name__ in ("NAType", "NaTType"):
        return None
    families: list[tuple[tuple[type, ...], str]] = [
        ((bool, np.bool_), "true/false"),
        ((Real, Decimal), "number"),
        ((str,), "text"),
        ((datetime, np.datetime64), "moment"),
        ((date,), "date"),
        ((time,), "time of day"),
    ]
    return next((words for types, words in families if issubclass(kind, types)), "something else")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableForm:
    """How a file of people is written, where it is not as usual.

    Args:
        delimiter: What stands between the cells of CSV.
        encoding: The encoding of CSV.
        missing: What cells of CSV hold, beside nothing, where there is no answer.
        columns: By what a column is called in the file, what it is called here.
    """

    delimiter: str = ","
    encoding: str = "utf-8"
    missing: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what no file can have."""
        if len(self.delimiter) != 1 or self.delimiter in '\r\n"':
            raise DataError(
                f"a delimiter must be one character and no quote, got {shown(self.delimiter)}"
            )
        try:
            codecs.lookup(self.encoding)
        except (LookupError, ValueError):
            raise DataError(
                f"an encoding must be a known one, such as utf-8 or latin-1, got "
                f"{shown(self.encoding)}"
            ) from None
        twice = [one for one in self.columns.values() if [*self.columns.values()].count(one) > 1]
        if twice:
            raise DataError(f"columns must get different names, got {twice[0]!r} twice; drop one")

    def there(self, names: Sequence[str]) -> list[str]:
        """What the named columns are called in the file.

        Args:
            names: What they are called here.

        Raises:
            DataError: If a column gets a name that nothing asks for.
        """
        back = {new: old for old, new in self.columns.items()}
        for old, new in self.columns.items():
            if new not in names:
                raise DataError(
                    f"column {old!r} is renamed to {new!r}, which is no column that is needed: "
                    f"{near(new, names)}"
                )
        return [back.get(name, name) for name in names]

    def named(self, pieces: Iterator[pa.RecordBatch], names: list[str]) -> Iterator[pa.RecordBatch]:
        """The pieces with their columns called as here.

        Args:
            pieces: Pieces of a table.
            names: What the columns are called.
        """
        import pyarrow as pa

        for piece in pieces:
            yield pa.RecordBatch.from_arrays(piece.columns, names=names) if self.columns else piece

    @property
    def is_utf8(self) -> bool:
        """Whether the encoding is UTF-8."""
        return codecs.lookup(self.encoding).name in ("utf-8", "ascii")


PLAIN = TableForm()
_OTHERS = (";", "\t", "|", ",")  # delimiters that a header may show
CSV_BLOCK = 1 << 21  # bytes; Arrow's reader may hold 32 blocks at once
_MOST_LINE = 1 << 20  # letters of the first line; csv refuses a longer cell
_PARQUET_ROWS = 1 << 16
_MOST_TEXT = 1 << 12  # bytes of a text in a Parquet file: a batch of them fills 256 MiB

Seen = Callable[[int, int], None]


def read_batches(
    path: str | PathLike[str],
    names: Sequence[str],
    *,
    form: TableForm = PLAIN,
    seen: Seen | None = None,
) -> Iterator[pa.RecordBatch]:
    """The named columns of a CSV or Parquet file, piece by piece.

    Args:
        path: A file that ends in ``.csv``, ``.csv.gz`` or ``.parquet``.
        names: The columns wanted; others are not read.
        form: How the file is written.
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
    there, told = form.there(names), seen or (lambda done, total: None)
    if kind.endswith(".parquet"):
        if replace(form, columns={}) != PLAIN:
            raise DataError(
                "a delimiter, an encoding and marks of missing answers are of CSV, and "
                f"{_file(file)} is Parquet; leave them out"
            )
        pieces = parquet_batches(file, there, called=_file(file), seen=told)
    elif form.is_utf8:
        pieces = _csv_batches(file, there, form, told)
    else:
        pieces = _recoded_batches(file, there, form)
    return form.named(pieces, list(names))


def read_table(
    path: str | PathLike[str],
    names: Sequence[str],
    *,
    form: TableForm = PLAIN,
    seen: Seen | None = None,
) -> pa.Table:
    r"""The named columns of a CSV or Parquet file, as one Arrow table.

    Args:
        path: A file that ends in ``.csv``, ``.csv.gz`` or ``.parquet``.
        names: The columns wanted; others are not read.
        form: How the file is written.
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

    pieces = list(read_batches(path, names, form=form, seen=seen))
    empty = pa.schema([(name, pa.string()) for name in names])
    return pa.Table.from_batches(pieces, schema=None if pieces else empty)


def _recoded_batches(file: Path, names: list[str], form: TableForm) -> Iterator[pa.RecordBatch]:
    """Blocks of a CSV file in another encoding than UTF-8."""
    with file.open("rb") as raw:
        stream: Any = gzip.GzipFile(fileobj=raw) if _is_gzip(file) else raw
        yield from _stream(stream, names, _file(file), form)


def parquet_batches(
    source: Any,
    names: list[str],
    *,
    called: str,
    groups: Sequence[int] | None = None,
    seen: Seen = lambda done, total: None,
) -> Iterator[pa.RecordBatch]:
    """The named columns of a Parquet file, piece by piece.

    Args:
        source: Its path, or an open file.
        names: The columns wanted; others are not read.
        called: What messages call it.
        groups: The row groups to read; left out, all.
        seen: Told how much has been read, and how much there is.

    Raises:
        DataError: If it is not Parquet, or a column is missing.
    """
    import pyarrow.parquet as pq

    failed = False
    try:
        schema = pq.ParquetFile(source).schema_arrow
        require(names, schema.names, where=called)
        # Text as a dictionary: a long one that is repeated is held once.
        texts = [name for name in names if _is_bytes(schema.field(name).type)]
        with pq.ParquetFile(source, read_dictionary=texts) as file:
            total, done = file.metadata.num_rows, 0
            for batch in file.iter_batches(_PARQUET_ROWS, row_groups=groups, columns=names):
                _refuse_long(batch)
                done += len(batch)
                seen(done, total)
                yield batch.select(names)
    except _reader_errors():
        failed = True
    if failed:  # outside, so that the error does not carry the reader's
        raise DataError(f"{called} must be Parquet, and cannot be read as such")


def _is_bytes(kind: Any) -> bool:
    """Whether an Arrow type holds bytes of any length."""
    import pyarrow.types as pt

    return is_text(kind) or bool(pt.is_binary(kind) or pt.is_large_binary(kind))


def _refuse_long(batch: pa.RecordBatch) -> None:
    """Refuse texts that would fill the memory once each row has its own."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if isinstance(column, pa.DictionaryArray) and len(column.dictionary):
            longest = pc.max(pc.binary_length(column.dictionary)).as_py()
            if longest is not None and longest > _MOST_TEXT:
                raise DataError(
                    f"column {name!r} must hold texts of at most {_MOST_TEXT:,} bytes, and has "
                    "longer ones; shorten them"
                )


def stream_batches(
    stream: BinaryIO,
    names: Sequence[str],
    *,
    called: str = "standard input",
    form: TableForm = PLAIN,
) -> Iterator[pa.RecordBatch]:
    r"""The named columns of CSV that comes as a stream and can be read only once, piece by piece.

    Args:
        stream: Where the bytes come from.
        names: The columns wanted; others are not read.
        called: What messages call it.
        form: How it is written.

    Raises:
        DataError: If a column is missing, or a row has too many or too few cells.

    Example:
        >>> import io
        >>> pieces = stream_batches(io.BytesIO(b"name,age\nAnn,34\nBob,\n"), ["age"])
        >>> [piece["age"].to_pylist() for piece in pieces]
        [['34', None]]
    """
    return form.named(_stream(stream, form.there(names), called, form), list(names))


class _Recoded:
    """A stream of bytes in UTF-8, of what comes in another encoding.

    Args:
        stream: Where the bytes come from.
        encoding: Their encoding.
        called: What messages call it.
    """

    def __init__(self, stream: BinaryIO, encoding: str, called: str) -> None:
        self._stream, self._called = stream, called
        self._decoder = codecs.getincrementaldecoder(encoding)()

    def read(self, size: int) -> bytes:
        """About as many bytes; none at the end."""
        with contextlib.suppress(UnicodeError):
            while block := self._stream.read(size):
                if text := self._decoder.decode(block):
                    return text.encode()
            return self._decoder.decode(b"", final=True).encode()
        raise DataError(f"{self._called} is in another encoding than was said; name the right one")


def _stream(
    stream: BinaryIO, names: list[str], called: str, form: TableForm
) -> Iterator[pa.RecordBatch]:
    """The columns of a stream as they are called there."""
    import pyarrow as pa
    import pyarrow.csv

    source: Any = stream if form.is_utf8 else _Recoded(stream, form.encoding, called)
    pieces = _whole_rows(source, called)
    line = next(pieces, b"")
    if line[:4] == b"PAR1":
        raise DataError(
            f"{called} must be CSV, and this is Parquet, which cannot be read in one pass; name "
            "the file instead"
        )
    try:
        lines = io.StringIO(line.decode("utf-8-sig"), newline="")
        header = next(csv.reader(lines, delimiter=form.delimiter), [])
    except (UnicodeDecodeError, csv.Error):
        raise _not_csv(called) from None
    _check_header(header, names, called, form)
    before = 0
    for piece in pieces:
        table = None
        with contextlib.suppress(*_reader_errors()):
            table = pa.csv.read_csv(
                pa.BufferReader(piece),
                read_options=pa.csv.ReadOptions(column_names=header, use_threads=False),
                parse_options=_parsing(len(header), form),
                convert_options=_converting(names, form),
            )
        if table is None:
            text = io.StringIO(piece.decode("utf-8", "replace"), newline="")
            _refuse_ragged(text, len(header), called, form, before + 1)
            raise _not_csv(called)
        yield from table.to_batches()
        before += len(table)


def _whole_rows(stream: BinaryIO, called: str) -> Iterator[bytes]:
    """The header line, then pieces of about `CSV_BLOCK` bytes that end where a row ends."""
    held, is_header = b"", True
    while True:
        block = stream.read(CSV_BLOCK)
        held += block
        if is_header and (held.find(b"\n") >= 0 or not block):
            end = _row_end(held, last=False) or len(held)
            yield held[:end]
            held, is_header = held[end:], False
        end = _row_end(held) if block else len(held)
        if end and not is_header:
            yield held[:end]
            held = held[end:]
        if not block:
            return
        if len(held) > 8 * CSV_BLOCK:
            raise _not_csv(called)  # a quote that is never closed


def _row_end(data: bytes, *, last: bool = True) -> int:
    """Where the last row ends, or the first: after a line break outside quotes; 0 if nowhere."""
    end = (data.rfind(b"\n") if last else data.find(b"\n")) + 1
    if data.count(b'"', 0, end) % 2 == 0:
        return end
    raw = np.frombuffer(data, dtype=np.uint8)
    inside = np.cumsum(raw == ord('"'), dtype=np.int64) % 2
    ends = np.flatnonzero((raw == ord("\n")) & (inside == 0))
    return int(ends[-1 if last else 0]) + 1 if len(ends) else 0


def _parsing(width: int, form: TableForm) -> Any:
    """How rows are told apart."""
    import pyarrow.csv

    # In a file of one column a blank line is a person without an answer.
    return pyarrow.csv.ParseOptions(
        delimiter=form.delimiter, newlines_in_values=True, ignore_empty_lines=width > 1
    )


def _converting(names: list[str], form: TableForm) -> Any:
    """How cells are read: as text, of which only empty ones and those that say so are missing."""
    import pyarrow as pa
    import pyarrow.csv

    return pa.csv.ConvertOptions(
        include_columns=names,
        column_types=dict.fromkeys(names, pa.string()),
        strings_can_be_null=True,
        null_values=["", *form.missing],
    )


def _csv_batches(
    file: Path, names: list[str], form: TableForm, seen: Seen
) -> Iterator[pa.RecordBatch]:
    """Blocks of a CSV file; a row with too many or too few cells is refused by its number."""
    import pyarrow as pa
    import pyarrow.csv

    width = _checked_width(file, names, form)
    total, failed = file.stat().st_size, False
    try:
        # Arrow's threads read ahead, and may still do so when the interpreter ends: they get a
        # file of Arrow's own and no function to call, since a thread that needs Python then kills
        # the process.
        raw = pa.OSFile(os.fsencode(file))
        reader = pa.csv.open_csv(
            pa.input_stream(raw, compression="gzip" if _is_gzip(file) else None),
            read_options=pa.csv.ReadOptions(block_size=CSV_BLOCK, use_threads=False),
            parse_options=_parsing(width, form),
            convert_options=_converting(names, form),
        )
        for batch in reader:
            seen(min(raw.tell(), total), total)
            yield batch
    except _reader_errors():
        failed = True
    if failed:
        with contextlib.suppress(*_reader_errors()), _open(file) as lines:
            _refuse_ragged(lines, width, _file(file), form)
        raise _not_csv(_file(file))


def _checked_width(file: Path, names: list[str], form: TableForm) -> int:
    """The number of columns, once the header names all that are needed."""
    header = None
    try:
        with _open(file) as lines:
            # Line by line, as csv asks for them, each up to a bound.
            short = iter(lambda: lines.readline(_MOST_LINE), "")
            header = next(csv.reader(short, delimiter=form.delimiter), [])
    except _reader_errors():
        pass
    if header is None:
        raise _not_csv(_file(file))
    _check_header(header, names, _file(file), form)
    return len(header)


def _file(file: Path) -> str:
    """What messages call a file."""
    return f"file {str(file)!r}"


def _check_header(header: list[str], names: list[str], where: str, form: TableForm) -> None:
    """Refuse a header that does not name all columns that are needed.

    What it holds is shown only if it holds a name that is needed, as far as that goes.
    """
    line = form.delimiter.join(header)
    for other in _OTHERS:
        if other != form.delimiter and len(_like(names, line.split(other))) > len(
            _like(names, header)
        ):
            word = "tab" if other == "\t" else repr(other)
            raise DataError(
                f"the columns of {where} seem to be separated by {word}, and it is read with "
                f"{form.delimiter!r}; say so with --delimiter {word}"
            )
    for name, there in _like(names, header).items():
        if there != name and name not in header:
            raise DataError(
                f"{where} must have a column {name!r}, and has {there!r}; rename it with --columns "
                f"{shlex.quote(f'{there}={name}')}"
            )
    if names and not set(names) & set(header):
        # Without a header the first line is a person: it must not be shown.
        raise DataError(
            f"the first line of {where} must name its columns, and none is "
            f"{' or '.join(map(repr, names))}; add a header line or correct it"
        )
    require(names, header, where=where)


def _like(names: Sequence[str], cells: Sequence[str]) -> dict[str, str]:
    """Cells that are a name but for case, quotes and white space around it, by that name."""
    known = {name.casefold().strip(): name for name in names}
    read = {cell.strip().strip('"').strip().casefold(): cell for cell in cells}
    return {known[key]: cell for key, cell in read.items() if key in known}


def _refuse_ragged(lines: TextIO, width: int, where: str, form: TableForm, first: int = 0) -> None:
    """Refuse rows that do not have a cell for each column, in what Arrow could not read.

    Args:
        lines: The rows.
        width: How many cells each must have.
        where: What messages call it.
        form: How they are written.
        first: The number of the first row; 0 is the header.
    """
    found: list[int] = []
    with contextlib.suppress(*_reader_errors()):
        # As Arrow does, count no blank lines unless they are people without an answer.
        read = csv.reader(lines, delimiter=form.delimiter)
        people = (cells for cells in read if cells or width == 1)
        found += (row for row, cells in enumerate(people, first) if max(len(cells), 1) != width)
    if found:
        raise DataError(
            f"every row of {where} must have {width} cells, one for each column, but "
            f"{rows(found)} {'has' if len(found) == 1 else 'have'} more or fewer; quote cells "
            f"that contain {'commas' if form.delimiter == ',' else repr(form.delimiter)}"
        )


def _not_csv(where: str) -> DataError:
    """The error for what is damaged or of another kind."""
    return DataError(
        f"{where} must be CSV in UTF-8, and cannot be read as such; if it has another encoding, "
        "say which: --encoding latin-1"
    )


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
