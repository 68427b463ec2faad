"""Reports and tallies as Arrow tables and Parquet files, with version and study in the metadata."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sfumato.arrays import BitColumns, Floats, Layout, Outputs
from sfumato.collect.stores import file_size, is_url, open_file, refuse_unreachable
from sfumato.errors import FormatError, TooLargeError, shown
from sfumato.files import as_path, read_json, write_whole
from sfumato.study.reports import Reports

VERSION = 1
#: The most people that a tally may count: sums of counts stay exact in doubles.
MOST_PEOPLE = 1 << 53
#: Where a file's metadata are.
KEY = b"sfumato"
_MOST_SYMBOLS = 1 << 62
# A file may fill this much memory, or a hundred times its size: noise cannot be squeezed further.
_FREE_BYTES = 1 << 27
_MOST_SQUEEZED = 100

#: How Parquet files are written. Noise has no structure that would show damage: checksums do.
WRITING: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True}
#: What readers of Parquet raise where a file is damaged.
READER_ERRORS = (pa.ArrowException, OSError, ValueError)

#: Where a Parquet file is: on the disk or in a store, or in memory.
Source: TypeAlias = str | Path | pa.Buffer
Kind = Literal[
    "reports", "tally", "tally of sums", "tally of questions", "weighted tally", "estimate"
]
#: What a column holds: outputs, numbers of people, or sums of weights.
Column = Layout | Literal["people", "weights"]

# What each kind is called, and what to do with a file of another kind.
_CALLED: dict[str, str] = {
    "reports": "reports",
    "tally": "a tally",
    "tally of sums": "a tally of sums",
    "tally of questions": "a tally of questions",
    "weighted tally": "a weighted tally",
    "estimate": "a decoded estimate",
}
_REMEDY: dict[str, str] = {
    "reports": "use a file that 'sfumato encode' wrote",
    "tally": "make a tally of the reports with 'sfumato tally'",
    "tally of sums": "make one of the reports with 'sfumato tally --sums'",
    "tally of questions": "make one of the reports with 'sfumato tally --question'",
    "weighted tally": "make one of the reports with 'sfumato tally --weights'",
    "estimate": "save one with est.save() or --keep",
}
_WRITERS: dict[str, str] = {
    "reports": "'sfumato encode'",
    "tally": "'sfumato tally'",
    "tally of sums": "'sfumato tally'",
    "tally of questions": "'sfumato tally'",
    "weighted tally": "'sfumato tally'",
    "estimate": "est.save()",
}


def to_table(
    kind: Kind,
    fingerprint: str,
    names: Sequence[str],
    layouts: Sequence[Layout],
    columns: Sequence[Outputs],
    beside: Mapping[str, NDArray[Any]] | None = None,
    **more: Any,
) -> pa.Table:
    """An Arrow table with one row per report, or one row per distinct combination of outputs.

    Args:
        kind: "reports", "tally" or "weighted tally".
        fingerprint: The study's fingerprint.
        names: Names of the columns, one per block.
        layouts: How each block's output is written.
        columns: The outputs of each block, all of the same length; none in a tally of sums.
        beside: More columns by name: how many people sent each row, or weights.
        **more: More entries of the metadata.
    """
    arrays = [_to_arrow(layout, column) for layout, column in zip(layouts, columns, strict=False)]
    fields = [
        pa.field(name, array.type, nullable=False)
        for name, array in zip(names, arrays, strict=False)
    ]
    for name, numbers in (beside or {}).items():
        arrays.append(pa.array(numbers))
        fields.append(pa.field(name, arrays[-1].type, nullable=False))
    head = {
        "version": VERSION,
        "kind": kind,
        "study": fingerprint,
        "axes": [
            {"name": name, "outputs": layout.kind, "count": layout.count}
            for name, layout in zip(names, layouts, strict=True)
        ],
        **more,
    }
    metadata = {KEY: json.dumps(head, ensure_ascii=False).encode()}
    return pa.table(arrays, schema=pa.schema(fields, metadata=metadata))


def reports_to_arrow(reports: Reports) -> pa.Table:
    """An Arrow table with one row per report; its metadata names the study's fingerprint."""
    return to_table("reports", reports.fingerprint, reports.names, reports.layouts, reports.outputs)


def reports_from_arrow(table: pa.Table, what: str) -> Reports:
    """Read reports from an Arrow table; damaged ones are refused.

    Args:
        table: A table made by `reports_to_arrow`.
        what: What messages call it.
    """
    if not isinstance(table, pa.Table):
        raise FormatError(f"{what} must be an Arrow table, got {shown(table)}")
    head = read_head(table.schema, "reports", what)
    names, layouts = read_layouts(head, what)
    outputs = read_outputs(table, names, layouts, what)
    return Reports(head["study"], tuple(names), tuple(layouts), tuple(outputs))


def load_reports(path: str | Path) -> Reports:
    """Read reports from a Parquet file; a damaged one is refused."""
    what = repr(str(path))
    with open_parquet(path) as file:
        names, layouts = read_layouts(read_head(file.schema_arrow, "reports", what), what)
        table = read_columns(file, path, dict(zip(names, layouts, strict=True)))
    return reports_from_arrow(table, what)


def free_name(name: str, names: Sequence[str]) -> str:
    """The name of a column beside those of the blocks, changed if a block has that name.

    Args:
        name: What it should be called, such as "people".
        names: Names of the blocks' columns.
    """
    while name in names:
        name += "_"
    return name


def read_head(schema: pa.Schema, kind: Kind, what: str) -> dict[str, Any]:
    """Read a table's metadata; a foreign or newer table is refused.

    Args:
        schema: The table's schema.
        kind: What it must hold.
        what: What messages call it.
    """
    head = _head(schema)
    if head is None:
        raise FormatError(
            f"{what} holds no sfumato {kind}: its metadata is missing or damaged; "
            f"use a file that {_WRITERS[kind]} wrote"
        )
    if head["version"] > VERSION:
        raise FormatError(
            f"{what} has format version {head['version']}, newer than this package's {VERSION}; "
            "update sfumato"
        )
    if head["kind"] != kind:
        raise FormatError(
            f"{what} holds {_CALLED[head['kind']]}, but {_CALLED[kind]} must be given; "
            f"{_REMEDY[kind]}"
        )
    return head


def kind_of(schema: pa.Schema) -> Kind | None:
    """What a table holds by its metadata, such as "reports"; None if it does not say."""
    head = _head(schema)
    return None if head is None else cast("Kind", head["kind"])


def _head(schema: pa.Schema) -> dict[str, Any] | None:
    """A table's metadata; None if it is missing or damaged."""
    raw = (schema.metadata or {}).get(KEY)
    try:
        head = read_json(raw) if raw else None
        good = (
            isinstance(head, dict)
            and type(head["version"]) is int
            and head["version"] >= 1
            and isinstance(head["study"], str)
            and isinstance(head["axes"], list)
            and isinstance(head["kind"], str)
            and head["kind"] in _CALLED
        )
    except (ValueError, KeyError):
        return None
    return dict(head) if head is not None and good else None


def read_layouts(head: dict[str, Any], what: str) -> tuple[list[str], list[Layout]]:
    """Names and layouts of the columns, from a table's metadata.

    Args:
        head: The metadata, from `read_head`.
        what: What messages call the table.
    """
    try:
        names = [axis["name"] for axis in head["axes"]]
        layouts = [Layout(axis["outputs"], axis["count"]) for axis in head["axes"]]
    except (KeyError, TypeError):
        raise FormatError(f"{what} has damaged metadata; write it again") from None
    good = all(
        isinstance(name, str)
        and layout.kind in ("symbols", "bits")
        and type(layout.count) is int
        and 1 <= layout.count <= _MOST_SYMBOLS
        for name, layout in zip(names, layouts, strict=True)
    )
    if not good or not names or len(set(names)) < len(names):
        raise FormatError(f"{what} has damaged metadata; write it again")
    return names, layouts


def read_outputs(
    table: pa.Table, names: Sequence[str], layouts: Sequence[Layout], what: str
) -> list[Outputs]:
    """The outputs of every block, each checked against its layout.

    Args:
        table: The table.
        names: Names of the columns, one per block.
        layouts: How each block's output is written.
        what: What messages call the table.
    """
    return [
        _from_arrow(layout, _column(table, name, layout, what), f"column {name!r} of {what}")
        for name, layout in zip(names, layouts, strict=True)
    ]


def read_people(table: pa.Table, name: str, what: str) -> NDArray[np.int64]:
    """How many people each row of a tally stands for.

    Args:
        table: The table.
        name: Name of the column.
        what: What messages call the table.
    """
    people = read_whole(table, name, what, least=1)
    if people.sum(dtype=np.float64) > MOST_PEOPLE:
        raise FormatError(
            f"column {name!r} of {what} must hold at most {MOST_PEOPLE:,} people in all, and holds "
            "more"
        )
    return people


def read_whole(table: pa.Table, name: str, what: str, *, least: int = 0) -> NDArray[np.int64]:
    """Whole numbers, such as those of people.

    Args:
        table: The table.
        name: Name of the column.
        what: What messages call the table.
        least: The smallest that may be there.
    """
    found: NDArray[np.integer[Any]] = _column(table, name, "people", what).to_numpy()
    if found.size and (found.min() < least or found.max() > MOST_PEOPLE):
        raise FormatError(
            f"column {name!r} of {what} must hold whole numbers from {least} to {MOST_PEOPLE:,}; "
            "some are not"
        )
    return found.astype(np.int64)


def read_sums(table: pa.Table, name: str, what: str) -> Floats:
    """Weights, or sums of them: finite numbers, zero or more.

    Args:
        table: The table.
        name: Name of the column.
        what: What messages call the table.
    """
    sums: Floats = _column(table, name, "weights", what).to_numpy().astype(np.float64)
    if not np.all(np.isfinite(sums) & (sums >= 0)):
        raise FormatError(
            f"column {name!r} of {what} must hold finite weights, zero or more; some are not"
        )
    return sums


def _column(table: pa.Table, name: str, holds: Column, what: str) -> pa.ChunkedArray:
    """A column of the type that its numbers are written in; it has no empty cells."""
    _check_field(table.schema, name, holds, what)
    column = table.column(name)
    if column.null_count:
        raise FormatError(
            f"column {name!r} of {what} must hold a number or bits in every row, and has empty "
            "cells; write it again"
        )
    return column


def check_columns(schema: pa.Schema, columns: Mapping[str, Column], what: str) -> int:
    """The bytes per row of some columns, once their types are those of what they hold.

    Args:
        schema: The table's schema.
        columns: What each column holds.
        what: What messages call the table.
    """
    return sum(_check_field(schema, name, holds, what) for name, holds in columns.items())


def _check_field(schema: pa.Schema, name: str, holds: Column, what: str) -> int:
    """The bytes per row of a column, once its type is that of what it holds."""
    found = schema.get_all_field_indices(name)
    if not found:
        raise FormatError(f"{what} lacks the column {name!r}; write it again")
    if len(found) > 1:
        raise FormatError(
            f"{what} must have one column {name!r}, and has {len(found)}; write it again"
        )
    kind = schema.field(found[0]).type
    words = "a nested type" if kind.num_fields else kind
    if isinstance(holds, Layout) and holds.kind == "bits":
        width = (holds.count + 7) // 8
        if not pa.types.is_fixed_size_binary(kind) or kind.byte_width != width:
            raise FormatError(
                f"column {name!r} of {what} must hold {width} bytes per report, got {words}"
            )
    elif holds == "weights":
        if not pa.types.is_float64(kind):
            raise FormatError(f"column {name!r} of {what} must hold weights, got {words}")
    elif not pa.types.is_integer(kind):
        raise FormatError(f"column {name!r} of {what} must hold whole numbers, got {words}")
    return int(kind.bit_width) // 8


def _to_arrow(layout: Layout, column: Outputs) -> pa.Array:
    """The outputs of one block as an Arrow array."""
    if isinstance(column, BitColumns):
        width = (layout.count + 7) // 8
        data = pa.py_buffer(np.ascontiguousarray(column.to_rows()))
        return pa.Array.from_buffers(pa.binary(width), len(column), [None, data])
    return pa.array(column.astype(np.min_scalar_type(layout.count - 1), copy=False))


def _from_arrow(layout: Layout, column: pa.ChunkedArray, what: str) -> Outputs:
    """The outputs of one block from an Arrow column, checked."""
    merged = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(merged, pa.ChunkedArray):  # no chunk at all, or too long for one
        merged = pa.concat_arrays(merged.chunks) if merged.num_chunks else pa.array([], merged.type)
    if layout.kind == "bits":
        width = merged.type.byte_width
        raw = np.frombuffer(merged.buffers()[1] or b"", dtype=np.uint8)
        rows = raw[merged.offset * width :][: len(merged) * width].reshape(len(merged), width)
        return BitColumns.from_rows(rows, layout.count)
    symbols: NDArray[np.integer[Any]] = merged.to_numpy(zero_copy_only=False)
    # One pass less where no number of the type is out of range.
    fits = symbols.dtype.kind == "u" and np.iinfo(symbols.dtype).max < layout.count
    if not fits and symbols.size and (symbols.min() < 0 or symbols.max() >= layout.count):
        raise FormatError(f"{what} must hold numbers from 0 to {layout.count - 1}; some do not")
    return symbols.astype(np.min_scalar_type(layout.count - 1), copy=False)


def write_parquet(table: pa.Table, path: str | Path) -> None:
    """Write a Parquet file atomically: a failure leaves no partial file.

    Args:
        table: The table.
        path: The file.
    """
    write_whole(path, lambda file: _write(table, file))


def parquet_bytes(table: pa.Table) -> bytes:
    """The bytes of the file that `write_parquet` writes."""
    sink = pa.BufferOutputStream()
    _write(table, sink)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def _write(table: pa.Table, where: Path | pa.NativeFile) -> None:
    """Write the bytes of a Parquet file."""
    pq.write_table(table, where, **WRITING)


def called(source: Source) -> str:
    """What messages call a Parquet file: by its path, if it has one."""
    return "the data" if isinstance(source, pa.Buffer) else repr(str(source))


def open_parquet(source: Source) -> pq.ParquetFile:
    """Open a Parquet file; a missing or damaged one is a `FormatError`."""
    given: Any
    if isinstance(source, pa.Buffer):
        given = pa.BufferReader(source)
    else:
        given = open_file(source) if is_url(source) else as_path(source)
    try:
        # A store answers a few long requests sooner than many short ones.
        found = pq.ParquetFile(given, pre_buffer=is_url(source), page_checksum_verification=True)
        _ = found.schema_arrow  # damage there shows now
    except FileNotFoundError:
        raise FormatError(f"there is no file {called(source)}; check the path") from None
    except READER_ERRORS:
        refuse_unreachable(source)
        raise FormatError(f"{called(source)} is damaged or not a Parquet file") from None
    return found


def read_columns(file: pq.ParquetFile, source: Source, columns: Mapping[str, Column]) -> pa.Table:
    """Read columns of a Parquet file, once its schema and its size are as they should be.

    Args:
        file: The file.
        source: Where it is.
        columns: What each column holds.

    Raises:
        TooLargeError: If a small file would fill the memory.
    """
    what = called(source)
    width = check_columns(file.schema_arrow, columns, what)
    size = source.size if isinstance(source, pa.Buffer) else file_size(source)
    rows = file.metadata.num_rows
    if rows * width > max(_FREE_BYTES, _MOST_SQUEEZED * size):
        raise TooLargeError(
            f"{what} states {rows:,} rows and would fill {rows * width / 2**30:.1f} GiB, from "
            f"{size:,} bytes: no file of noise is as small; if it is yours all the same, reduce it "
            "with 'sfumato tally', which reads in parts"
        )
    try:
        return file.read(columns=list(columns))
    except READER_ERRORS:
        refuse_unreachable(source)
        raise FormatError(f"{what} is damaged; write it again") from None


def read_any(path: str | Path) -> pa.Table:
    """All columns of a Parquet file that another program wrote."""
    with open_parquet(path) as file:
        try:
            return file.read()
        except READER_ERRORS:
            raise FormatError(f"{called(path)} is damaged; write it again") from None


def read_parts(
    file: pq.ParquetFile,
    path: str | Path,
    names: Sequence[str],
    rows: int,
    groups: Sequence[int] | None = None,
) -> Iterator[pa.Table]:
    """Read columns of a Parquet file, a bounded number of rows at a time.

    Args:
        file: The file.
        path: Its path.
        names: The columns.
        rows: The most rows of a part.
        groups: The row groups to read; left out, all.
    """
    metadata = file.schema_arrow.metadata
    parts = file.iter_batches(rows, row_groups=groups, columns=list(names), use_threads=False)
    while True:
        try:
            part = next(parts, None)
        except READER_ERRORS:
            refuse_unreachable(path)
            raise FormatError(f"{str(path)!r} is damaged; write it again") from None
        if part is None:
            return
        table = pa.Table.from_batches([part])
        yield table.replace_schema_metadata(metadata)
