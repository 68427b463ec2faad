"""Tallies as Arrow tables and Parquet files: what every tally of one study writes and reads.

Equal tallies have equal bytes: the rows of a table stand in an order that depends on nothing but
what they hold. So a file does not show in which order reports arrived.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sfumato.arrays import Layout
from sfumato.collect.block_sums import AnyStatistic, BlockSums, is_sum
from sfumato.collect.packing import Form
from sfumato.collect.parquet import (
    MOST_PEOPLE,
    Column,
    Kind,
    Source,
    called,
    free_name,
    kind_of,
    open_parquet,
    read_columns,
    read_head,
    read_layouts,
    read_outputs,
    read_people,
    read_whole,
    to_table,
)
from sfumato.collect.statistics import BitReports, SymbolCounts
from sfumato.errors import FormatError


class Held(NamedTuple):
    """What the bytes of a tally hold.

    Args:
        fingerprint: The study's fingerprint.
        columns: Names of the columns of reports, one per block.
        statistic: The statistic, which knows how each block's output is written.
        notes: What to know about the tally.
    """

    fingerprint: str
    columns: tuple[str, ...]
    statistic: AnyStatistic
    notes: tuple[str, ...]


def tally_table(held: Held) -> pa.Table:
    """The Arrow table of a tally; its metadata names the study's fingerprint."""
    statistic, names = held.statistic, held.columns
    more: dict[str, Any] = {"notes": list(held.notes)} if held.notes else {}
    head = (held.fingerprint, names, statistic.layouts)
    if isinstance(statistic, BlockSums):
        beside = dict(zip(_SUM_COLUMNS, _flat(statistic), strict=True))
        return to_table("tally of sums", *head, (), beside, reports=statistic.count, **more)
    if isinstance(statistic, SymbolCounts):
        people = {free_name("people", names): statistic.people}
        return to_table("tally", *head, statistic.symbols, people, **more)
    return _in_order(to_table("tally", *head, statistic.columns, **more))


def _in_order(table: pa.Table) -> pa.Table:
    """The same rows in the order of their bytes."""
    parts = []
    for column in table.itercolumns():
        (chunk,) = column.chunks
        width = chunk.type.bit_width // 8
        raw = np.frombuffer(chunk.buffers()[1] or b"", dtype=np.uint8)
        parts.append(raw[: len(chunk) * width].reshape(len(chunk), width))
    size = sum(part.shape[1] for part in parts)
    padded = np.zeros((len(table), -(-size // 8) * 8), dtype=np.uint8)
    padded[:, :size] = np.concatenate(parts, axis=1)
    return table.take(np.lexsort(padded.view("<u8").T))


# Of a tally of sums: which column of reports, which symbol or bit of it, how many reports.
_SUM_COLUMNS = ("column", "output", "reports")


def _flat(statistic: BlockSums) -> tuple[NDArray[np.int64], ...]:
    """All sums above zero as rows: the block, the symbol or bit, how many reports."""
    found = [np.flatnonzero(held) for held in statistic.sums]
    blocks = np.repeat(np.arange(len(found)), [len(places) for places in found])
    sums = [held[places] for held, places in zip(statistic.sums, found, strict=True)]
    return blocks, np.concatenate(found), np.concatenate(sums)


def read_tally(source: Source, form: Form | None = None) -> Held:
    """Read a tally from a Parquet file; a damaged one, or one of another study, is refused.

    Args:
        source: Where the file is.
        form: The study, or what else knows its reports; None takes a tally of any study.
    """
    what = called(source)
    with open_parquet(source) as file:
        sums = kind_of(file.schema_arrow) == "tally of sums"
        head, names, layouts = _front(file, what, "tally of sums" if sums else "tally", form)
        people = free_name("people", names)
        bits = any(layout.kind == "bits" for layout in layouts)
        wanted: dict[str, Column] = dict.fromkeys(_SUM_COLUMNS, "people")
        if not sums:
            wanted = dict(zip(names, layouts, strict=True))
            wanted |= {} if bits else {people: "people"}
        table = read_columns(file, source, wanted)
    statistic: AnyStatistic
    if sums:
        statistic = _read_sums(table, head.get("reports"), layouts, what)
    else:
        columns = read_outputs(table, names, layouts, what)
        if bits:
            statistic = BitReports(layouts, tuple(columns), table.num_rows)
        else:
            counts = read_people(table, people, what)
            statistic = SymbolCounts.of(layouts, columns, counts)  # type: ignore[arg-type]
    return Held(head["study"], names, statistic, _read_notes(head, what))


def load_table(
    source: Source, form: Form, kind: Kind, beside: Mapping[str, Column]
) -> tuple[dict[str, Any], pa.Table]:
    """The metadata and the columns of a file that holds a tally; one of another study is refused.

    Args:
        source: Where the file is.
        form: The study that the tally belongs to.
        kind: What the file must hold.
        beside: Columns beside the outputs, and what they hold.
    """
    with open_parquet(source) as file:
        head, names, layouts = _front(file, called(source), kind, form)
        wanted = dict[str, Column](zip(names, layouts, strict=True))
        return head, read_columns(file, source, {**wanted, **beside})


def _front(
    file: pq.ParquetFile, what: str, kind: Kind, form: Form | None
) -> tuple[dict[str, Any], tuple[str, ...], tuple[Layout, ...]]:
    """A file's metadata, and the names and layouts of the columns, once they are of the study."""
    head = read_head(file.schema_arrow, kind, what)
    if form is not None:
        form.refuse_other(head["study"], what)
    names, layouts = read_layouts(head, what)
    found = tuple(names), tuple(layouts)
    if form is not None and found != (form.columns, form.layouts):
        raise _damaged(what)
    return head, *found


def _read_sums(table: pa.Table, reports: Any, layouts: tuple[Layout, ...], what: str) -> BlockSums:
    """The sums in a table, which must be those of as many reports."""
    blocks, places, found = (read_whole(table, name, what) for name in _SUM_COLUMNS)
    if type(reports) is not int or not 0 <= reports <= MOST_PEOPLE or is_sum(layouts):
        raise _damaged(what)
    counts = np.array([layout.count for layout in layouts])
    sums = [np.zeros(count, dtype=np.int64) for count in counts]
    if np.any(blocks >= len(layouts)) or np.any(places >= counts[blocks]):
        raise _wrong(what)
    for block, held in enumerate(sums):
        here = blocks == block
        np.add.at(held, places[here], found[here])
        bits = layouts[block].kind == "bits"
        once = len(np.unique(places[here])) == np.count_nonzero(here)
        if not once or not (held.max() <= reports if bits else held.sum() == reports):
            raise _wrong(what)
    return BlockSums(layouts, tuple(sums), reports)


def _wrong(what: str) -> FormatError:
    return FormatError(
        f"{what} must hold the sums of its reports, and they do not fit; write it again"
    )


def _damaged(what: str) -> FormatError:
    return FormatError(f"{what} has damaged metadata; write it again")


def _read_notes(head: dict[str, Any], what: str) -> tuple[str, ...]:
    """What to know about a tally, from its metadata."""
    notes = head.get("notes", [])
    good = isinstance(notes, list) and all(isinstance(note, str) for note in notes)
    if not good or notes != sorted(set(notes)):
        raise _damaged(what)
    return tuple(notes)
