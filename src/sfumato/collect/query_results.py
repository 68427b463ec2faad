"""Results of SQL queries as statistics: every column and every number is checked.

`engines.sql` writes the queries; the names of their result columns are defined here. A result has
one of three shapes: a row per combination of outputs, a row per distinct report in packed bytes, or
a row per symbol and bit of each block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.arrays import BitColumns, Layout, Outputs
from sfumato.collect.block_sums import AnyStatistic, BlockSums
from sfumato.collect.packing import layout_of, unpack
from sfumato.collect.parquet import MOST_PEOPLE, free_name, read_outputs, read_people, read_whole
from sfumato.collect.statistics import BitReports, SymbolCounts, statistic_of
from sfumato.errors import FormatError, TooLargeError, rows, shown
from sfumato.study.study import Study

#: The column of a table, and of a result, that holds reports as packed bytes.
REPORT = "report"
#: Of sums: the block, the symbol or bit of it, how many reports sent or set it, the number of
#: reports in the table, and how many rows of it are no reports of the study.
SUMS = ("block", "output", "people", "reports", "damaged")
_MOST_BYTES = 1 << 34  # of reports that are kept, one by one
_WHAT = "the result"


def columns_beside(names: Sequence[str]) -> tuple[str, str, str]:
    """The result columns beside the outputs: the study's fingerprint, how many reports, and in all.

    Some warehouses do not tell "People" from "people", so neither do these names.

    Args:
        names: Names of the columns of outputs.
    """
    taken = [name.casefold() for name in names]
    return free_name("study", taken), free_name("people", taken), free_name("reports", taken)


def statistic_from_result(study: Study, table: pa.Table) -> AnyStatistic:
    """What a tally of the study keeps, from the result of one of its queries.

    Args:
        study: The study whose query was run.
        table: The result.

    Raises:
        FormatError: If columns are missing or unknown, or hold what no query gives.
        MismatchError: If it is the result of another study's query.
        TooLargeError: If the reports to be kept are too many.
    """
    if not isinstance(table, pa.Table):
        raise FormatError(f"{_WHAT} of a query must be an Arrow table, got {shown(table)}")
    bits = any(layout.kind == "bits" for layout in study.layouts)
    own, *numbers = columns_beside(study.columns)
    shapes: dict[tuple[str, ...], Callable[[Study, pa.Table], AnyStatistic]] = {
        (own, *study.columns, *numbers): _outputs_of,
        ("study", *SUMS): _sums_of,
    }
    if bits:
        own, *numbers = columns_beside([REPORT])
        shapes[own, REPORT, *numbers] = _packed_of
    found = sorted(table.column_names)
    for names, read in shapes.items():
        if sorted(names) == found:
            _check_study(study, table.column(names[0]))
            return read(study, table)
    wanted = ", or ".join(", ".join(map(repr, names)) for names in shapes)
    raise FormatError(
        f"{_WHAT} must have the columns of a query of study {study.name!r}: {wanted}; it has "
        f"{', '.join(map(repr, found)) or 'none'}. Run the query that 'sfumato sql' prints, and "
        "hand over all of its columns"
    )


def _check_study(study: Study, column: pa.ChunkedArray) -> None:
    """Refuse the result of another study's query."""
    if not _is_text(column.type) or column.null_count:
        raise FormatError(f"column 'study' of {_WHAT} must hold the study's fingerprint as text")
    for fingerprint in column.unique().to_pylist():
        study.refuse_other(fingerprint, _WHAT)


def _is_text(kind: pa.DataType) -> bool:
    """Whether a column holds text."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _outputs_of(study: Study, table: pa.Table) -> AnyStatistic:
    """Counts of combinations of outputs, or all reports if some are bits."""
    wanted = dict(zip(study.columns, study.layouts, strict=True))
    normal = pa.table({name: _normal(table, name, layout) for name, layout in wanted.items()})
    outputs = read_outputs(normal, study.columns, study.layouts, _WHAT)
    counts = _people_of(table, study.columns)
    symbols = [column for column in outputs if not isinstance(column, BitColumns)]
    if len(symbols) == len(outputs):
        found = SymbolCounts.of(study.layouts, symbols, counts)
        _refuse_twice(len(found.people), len(counts))
        return found
    packed = [
        column.to_rows() if isinstance(column, BitColumns) else column[:, None].astype("<u8")
        for column in outputs
    ]
    flat = np.concatenate([part.view(np.uint8) for part in packed], axis=1)
    _refuse_twice(len(np.unique(flat, axis=0)), len(counts))
    _refuse_bytes(study, counts)
    repeated = [
        _repeated(layout, column, counts)
        for layout, column in zip(study.layouts, outputs, strict=True)
    ]
    return BitReports(study.layouts, tuple(repeated), int(counts.sum()))


def _people_of(table: pa.Table, names: Sequence[str]) -> NDArray[np.int64]:
    """How many people each row stands for, once they are as many as the table has reports.

    Args:
        table: The result.
        names: Its columns of outputs.
    """
    _, people, reports = columns_beside(names)
    counts = read_people(pa.table({people: _normal(table, people, None)}), people, _WHAT)
    if np.any(_whole(table, reports) != counts.sum()):
        raise _wrong()
    return counts


def _repeated(layout: Layout, column: Outputs, counts: NDArray[np.int64]) -> Outputs:
    """Each output as many times as it was sent."""
    if isinstance(column, BitColumns):
        return BitColumns.from_rows(np.repeat(column.to_rows(), counts, axis=0), layout.count)
    return np.repeat(column, counts)


def _packed_of(study: Study, table: pa.Table) -> AnyStatistic:
    """All reports, from their packed bytes."""
    size = layout_of(study.layouts).size
    kind = Layout("bits", 8 * size)
    normal = pa.table({REPORT: _normal(table, REPORT, kind)})
    (packed,) = read_outputs(normal, [REPORT], [kind], _WHAT)
    counts = _people_of(table, [REPORT])
    raw = packed.to_rows() if isinstance(packed, BitColumns) else np.empty((0, size), np.uint8)
    _refuse_twice(len(np.unique(raw, axis=0)), len(counts))
    _refuse_bytes(study, counts)
    held = unpack(np.repeat(raw, counts, axis=0), study.fingerprint, study.columns, study.layouts)
    return statistic_of(study.layouts, held.outputs)


def _sums_of(study: Study, table: pa.Table) -> BlockSums:
    """Sums of every block by itself."""
    damaged = _whole(table, "damaged")
    if damaged.any():
        raise FormatError(
            f"{damaged.max():,} rows of the table are no reports of study {study.name!r}: they "
            "have another length or bits after the last one; find out what they are, and tally a "
            "table without them"
        )
    block, output, people, reports = (_whole(table, name) for name in SUMS[:-1])
    totals = np.unique(reports)
    if len(totals) > 1 or np.any(people > reports) or np.any(block >= len(study.layouts)):
        raise _wrong()
    total = int(totals[0]) if len(totals) else 0
    sums = []
    for place, layout in enumerate(study.layouts):
        here = block == place
        found, held = output[here], people[here]
        if np.any(found >= layout.count):
            raise FormatError(
                f"column 'output' of {_WHAT} must hold numbers from 0 to {layout.count - 1} for "
                f"block {place}; some are larger"
            )
        _refuse_twice(len(np.unique(found)), len(found))
        if len(found) < layout.count if layout.kind == "bits" else held.sum() != total:
            raise _wrong()
        sums.append(np.zeros(layout.count, dtype=np.int64))
        sums[-1][found] = held
    return BlockSums(study.layouts, tuple(sums), total)


def _whole(table: pa.Table, name: str) -> NDArray[np.int64]:
    """A column of whole numbers."""
    return read_whole(pa.table({name: _normal(table, name, None)}), name, _WHAT)


def _wrong() -> FormatError:
    return FormatError(
        f"{_WHAT} must hold all rows for one table of reports, and its numbers do not fit; run the "
        "query again, and hand over all of its rows"
    )


def _refuse_twice(distinct: int, found: int) -> None:
    """Refuse a result in which rows occur twice."""
    if distinct < found:
        raise FormatError(
            f"{_WHAT} must have one row per output, and {found - distinct:,} of its {found:,} rows "
            "repeat another; make a tally of each result, and add the tallies"
        )


def _refuse_bytes(study: Study, counts: NDArray[np.int64]) -> None:
    """Refuse to keep more reports than fit into memory."""
    needed = int(counts.sum()) * layout_of(study.layouts).size
    if needed > _MOST_BYTES:
        raise TooLargeError(
            f"a tally of these reports keeps all {int(counts.sum()):,} of them, "
            f"{needed / 2**30:.0f} GiB; the limit is {_MOST_BYTES / 2**30:.0f} GiB. Ask for sums "
            'with keep="sums" (sfumato sql --sums)'
        )


def _normal(table: pa.Table, name: str, layout: Layout | None) -> pa.ChunkedArray:
    """A column as reports have it: whole numbers, or bytes of the right length.

    Args:
        table: The result.
        name: Its column.
        layout: How the outputs in it are written; None for numbers of people.
    """
    column = table.column(name)
    if column.null_count:
        empty = np.flatnonzero(column.is_null().to_numpy()) + 1
        raise FormatError(
            f"column {name!r} of {_WHAT} must have no empty cells, and has some in "
            f"{rows(empty.tolist())}: the table holds rows that are no reports of this study; "
            "find out what they are, and tally a table without them"
        )
    kind, bits = column.type, layout is not None and layout.kind == "bits"
    if bits and layout is not None:
        width = math.ceil(layout.count / 8)
        rule, to = f"{width} bytes per report", pa.binary(width)
        good = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
        good = good or pa.types.is_fixed_size_binary(kind)
    else:
        most = MOST_PEOPLE if layout is None else layout.count - 1
        rule, to = f"whole numbers from 0 to {most:,}", pa.int64()
        good = pa.types.is_integer(kind) or pa.types.is_decimal(kind)
    if good:
        try:
            return column.cast(to)
        except pa.ArrowInvalid:
            pass  # another length, a fraction, or a number beyond all counts
    held = "others" if good else str(kind)
    raise FormatError(
        f"column {name!r} of {_WHAT} must hold {rule}, got {held}; run the query of this study on "
        "a table of its reports, and hand over its result as it is"
    )
