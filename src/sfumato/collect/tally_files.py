"""Tallies as Arrow tables and Parquet files: what every tally of one study writes and reads.

Equal tallies have equal bytes: the rows of a table stand in an order that depends on nothing but
what they hold. So a file does not show in which order reports arrived.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
from sfumato.collect.term_sums import TermSums, shape_of
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
    if isinstance(statistic, TermSums):
        beside, more["terms"] = _term_columns(statistic, names), len(statistic.terms)
        return to_table("tally of questions", *head, (), beside, reports=statistic.count, **more)
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
        kind: Kind = "tally"
        found = kind_of(file.schema_arrow)
        if found == "tally of sums" or found == "tally of questions":
            kind = found
        sums = kind == "tally of sums"
        head, names, layouts = _front(file, what, kind, form)
        people = free_name("people", names)
        bits = any(layout.kind == "bits" for layout in layouts)
        wanted: dict[str, Column] = dict.fromkeys(_SUM_COLUMNS, "people")
        if kind == "tally of questions":
            wanted = dict.fromkeys((*names, free_name("sum", names)), "people")
        elif not sums:
            wanted = dict(zip(names, layouts, strict=True))
            wanted |= {} if bits else {people: "people"}
        table = read_columns(file, source, wanted)
    statistic: AnyStatistic
    if sums:
        statistic = _read_sums(table, head.get("reports"), layouts, what)
    elif kind == "tally of questions":
        statistic = _read_terms(table, head, names, layouts, what)
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


def _term_columns(statistic: TermSums, names: Sequence[str]) -> dict[str, NDArray[np.int64]]:
    """All terms as rows: of each block the bit or symbol, counted from 1, or 0; and the sum."""
    rows, sums = [np.zeros((0, len(names)), dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for term, held in zip(statistic.terms, statistic.sums, strict=True):
        part = np.tile(np.array(term), (held.size, 1))
        split = [d for d, number in enumerate(term) if number and _is_symbols(statistic, d)]
        for place, symbols in zip(
            split, np.indices(held.shape).reshape(held.ndim, held.size), strict=True
        ):
            part[:, place] = symbols + 1
        rows.append(part)
        sums.append(held.reshape(-1))
    columns = dict(zip(names, np.concatenate(rows).T, strict=True))
    return {**columns, free_name("sum", names): np.concatenate(sums)}


def _is_symbols(statistic: TermSums, place: int) -> bool:
    """Whether a block sends symbols."""
    return statistic.layouts[place].kind == "symbols"


def _read_terms(
    table: pa.Table,
    head: dict[str, Any],
    names: Sequence[str],
    layouts: tuple[Layout, ...],
    what: str,
) -> TermSums:
    """The sums of terms in a table, each term with all of its symbols in order."""
    reports = head.get("reports")
    if type(reports) is not int or not 0 <= reports <= MOST_PEOPLE:
        raise _damaged(what)
    numbers = np.stack([read_whole(table, name, what) for name in names], axis=1)
    name = free_name("sum", names)
    if table.column(name).null_count:
        raise _wrong(what)
    sums = table.column(name).to_numpy().astype(np.int64)
    counts = np.array([layout.count for layout in layouts])
    if np.any(numbers > counts) or np.any(np.abs(sums) > reports):
        raise _wrong(what)
    symbols = np.array([layout.kind == "symbols" for layout in layouts])
    marked = np.where(symbols, np.minimum(numbers, 1), numbers)
    starts = np.flatnonzero(np.any(np.diff(marked, axis=0, prepend=-1), axis=1))
    parts = np.split(sums, starts[1:]) if len(starts) else []
    terms = tuple(tuple(row) for row in marked[starts].tolist())
    shapes = [shape_of(layouts, term) for term in terms]
    sizes = [math.prod(shape) for shape in shapes]
    if (
        len(terms) != head.get("terms")
        or sorted(set(terms)) != list(terms)
        or [len(part) for part in parts] != sizes
    ):
        raise _wrong(what)
    held = tuple(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))
    found = TermSums(layouts, terms, held, reports)
    again = np.stack(list(_term_columns(found, names).values())[:-1], axis=1)
    everybody = [int(held) for term, held in zip(terms, held, strict=True) if not any(term)]
    if not np.array_equal(again, numbers) or everybody not in ([], [reports]):
        raise _wrong(what)
    return found


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
