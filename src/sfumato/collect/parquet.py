"""Reports and tallies as Arrow tables and Parquet files, with version and study in the metadata."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sfumato.arrays import BitColumns, Layout, Outputs
from sfumato.errors import FormatError
from sfumato.files import write_whole
from sfumato.study.reports import Reports

VERSION = 1
_KEY = b"sfumato"

Kind = Literal["reports", "tally"]


def to_table(
    kind: Kind,
    fingerprint: str,
    names: Sequence[str],
    layouts: Sequence[Layout],
    columns: Sequence[Outputs],
    people: Any = None,
) -> pa.Table:
    """An Arrow table with one row per report, or one row per distinct combination of outputs.

    Args:
        kind: "reports" or "tally".
        fingerprint: The study's fingerprint.
        names: Names of the columns, one per block.
        layouts: How each block's output is written.
        columns: The outputs of each block, all of the same length.
        people: How many people sent each row, where rows are distinct combinations.
    """
    arrays = [_to_arrow(layout, column) for layout, column in zip(layouts, columns, strict=True)]
    fields = [
        pa.field(name, array.type, nullable=False)
        for name, array in zip(names, arrays, strict=True)
    ]
    if people is not None:
        arrays.append(pa.array(people, type=pa.int64()))
        fields.append(pa.field(count_name(names), pa.int64(), nullable=False))
    head = {
        "version": VERSION,
        "kind": kind,
        "study": fingerprint,
        "axes": [
            {"name": name, "outputs": layout.kind, "count": layout.count}
            for name, layout in zip(names, layouts, strict=True)
        ],
    }
    metadata = {_KEY: json.dumps(head, ensure_ascii=False).encode()}
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
    head = read_head(table, "reports", what)
    names, layouts = read_layouts(head, what)
    outputs = read_outputs(table, names, layouts, what)
    return Reports(head["study"], tuple(names), tuple(layouts), tuple(outputs))


def count_name(names: Sequence[str]) -> str:
    """The name of the column of counts in a tally: "people", unless a block has that name."""
    name = "people"
    while name in names:
        name += "_"
    return name


def read_head(table: pa.Table, kind: Kind, what: str) -> dict[str, Any]:
    """Read a table's metadata; a foreign or newer table is refused.

    Args:
        table: The table.
        kind: What it must hold, "reports" or "tally".
        what: What messages call it.
    """
    raw = (table.schema.metadata or {}).get(_KEY)
    try:
        head = json.loads(raw) if raw else None
        good = (
            isinstance(head, dict)
            and isinstance(head["version"], int)
            and isinstance(head["study"], str)
            and isinstance(head["axes"], list)
            and head["kind"] in ("reports", "tally")
        )
    except (ValueError, KeyError):
        head, good = None, False
    if head is None or not good:
        raise FormatError(
            f"{what} holds no sfumato {kind}: its metadata is missing or damaged; "
            f"use a file that 'sfumato {'encode' if kind == 'reports' else 'tally'}' wrote"
        )
    if head["version"] > VERSION:
        raise FormatError(
            f"{what} has format version {head['version']}, newer than this package's {VERSION}; "
            "update sfumato"
        )
    if head["kind"] != kind:
        found, needed, remedy = (
            ("reports", "a tally", "make a tally of them with 'sfumato tally'")
            if kind == "tally"
            else ("a tally", "reports", "use a file that 'sfumato encode' wrote")
        )
        raise FormatError(f"{what} holds {found}, but {needed} must be given; {remedy}")
    return dict(head)


def read_layouts(head: dict[str, Any], what: str) -> tuple[list[str], list[Layout]]:
    """Names and layouts of the columns, from a table's metadata.

    Args:
        head: The metadata, from `read_head`.
        what: What messages call the table.
    """
    try:
        names = [str(axis["name"]) for axis in head["axes"]]
        layouts = [Layout(axis["outputs"], int(axis["count"])) for axis in head["axes"]]
    except (KeyError, TypeError, ValueError):
        raise FormatError(f"{what} has damaged metadata; write it again") from None
    if any(layout.kind not in ("symbols", "bits") or layout.count < 1 for layout in layouts):
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
    outputs = []
    for name, layout in zip(names, layouts, strict=True):
        if name not in table.column_names:
            raise FormatError(f"{what} lacks the column {name!r}; write it again")
        column = table.column(name)
        if column.null_count:
            raise FormatError(f"column {name!r} of {what} has empty cells; write it again")
        outputs.append(_from_arrow(layout, column, f"column {name!r} of {what}"))
    return outputs


def _to_arrow(layout: Layout, column: Outputs) -> pa.Array:
    """The outputs of one block as an Arrow array."""
    if isinstance(column, BitColumns):
        width = (layout.count + 7) // 8
        data = pa.py_buffer(np.ascontiguousarray(column.to_rows()))
        return pa.Array.from_buffers(pa.binary(width), len(column), [None, data])
    return pa.array(column.astype(np.min_scalar_type(layout.count - 1), copy=False))


def _from_arrow(layout: Layout, column: pa.ChunkedArray, what: str) -> Outputs:
    """The outputs of one block from an Arrow column, checked."""
    merged = column.combine_chunks()
    if isinstance(merged, pa.ChunkedArray):  # no chunk at all, or too long for one
        merged = pa.concat_arrays(merged.chunks) if merged.num_chunks else pa.array([], merged.type)
    if layout.kind == "bits":
        width = (layout.count + 7) // 8
        if merged.type != pa.binary(width):
            raise FormatError(f"{what} must hold {width} bytes per report, got {merged.type}")
        raw = np.frombuffer(merged.buffers()[1] or b"", dtype=np.uint8)
        rows = raw[merged.offset * width :][: len(merged) * width].reshape(len(merged), width)
        return BitColumns.from_rows(rows, layout.count)
    if not pa.types.is_integer(merged.type):
        raise FormatError(f"{what} must hold whole numbers, got {merged.type}")
    symbols: NDArray[np.integer[Any]] = merged.to_numpy(zero_copy_only=False)
    if symbols.size and (symbols.min() < 0 or symbols.max() >= layout.count):
        raise FormatError(f"{what} must hold numbers from 0 to {layout.count - 1}; some do not")
    return symbols.astype(np.min_scalar_type(layout.count - 1), copy=False)


def write_parquet(table: pa.Table, path: str | Path) -> None:
    """Write a Parquet file atomically: a failure leaves no partial file.

    Args:
        table: The table.
        path: The file.
    """
    write_whole(path, lambda file: pq.write_table(table, file, compression="zstd"))


def read_parquet(path: str | Path) -> pa.Table:
    """Read a Parquet file; a missing or damaged one is a `FormatError`."""
    try:
        return pq.read_table(path)
    except FileNotFoundError:
        raise FormatError(f"there is no file {str(path)!r}; check the path") from None
    except (pa.ArrowInvalid, OSError):
        raise FormatError(f"{str(path)!r} is damaged or not a Parquet file") from None
