"""Files in parts that are tallied apart: any engine reads a part, and merges what it gives.

`plan` looks at every file before any work starts, and `add_split` adds a part of a file to an
accumulator. Neither needs the study: an empty accumulator says how its reports are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import BinaryIO, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.collect.accumulator import Accumulator
from sfumato.collect.packing import HEADER, layout_of, packed_count, unpack
from sfumato.collect.packing import MAGIC as PACKED
from sfumato.collect.parquet import (
    check_columns,
    kind_of,
    open_parquet,
    read_head,
    read_layouts,
    read_outputs,
    read_parts,
)
from sfumato.collect.stores import (
    is_url,
    open_file,
    refuse_absent,
    refuse_missing,
    refuse_unreachable,
)
from sfumato.collect.tally_files import read_tally
from sfumato.device.wire import HEADER_BYTES, ID_BYTES, batch_count, read_front
from sfumato.device.wire import MAGIC as BATCH
from sfumato.errors import FormatError
from sfumato.study.reports import Reports

_ROWS_AT_ONCE = 1 << 19  # so that they are counted while they are in the cache
#: The most reports that a split has, or one row group: opening a file for fewer takes its time too.
ROWS_OF_SPLIT = 1 << 23
_ASKED_AT_ONCE = 16  # files of a store

Kind: TypeAlias = Literal["reports", "tally", "packed", "batches"]


@dataclass(frozen=True, slots=True)
class Split:
    """A part of the work: some row groups of a Parquet file, some packed reports, or whole files.

    Args:
        paths: The file. Batches of devices are all in one split, since a report that came twice
            counts once.
        kind: What it holds.
        start: The first row group, or the first packed report; 0 for whole files.
        stop: The one after the last.
        reports: How many reports it has, as the file states.
        of: How many splits the file has.
    """

    paths: tuple[str, ...]
    kind: Kind
    start: int
    stop: int
    reports: int
    of: int = 1


class DamagedError(FormatError):
    """A file that turned out to be damaged while it was read.

    Args:
        path: The file.
        message: What is wrong with it, with its name.
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(path, message)
        self.path, self.message = path, message

    def __str__(self) -> str:
        return self.message


class Plan(NamedTuple):
    """The work that a tally of files takes.

    Args:
        files: The splits of each file, or of files that belong together.
        damaged: Files that cannot be read, with the reason.
    """

    files: list[list[Split]]
    damaged: dict[str, str]

    @property
    def reports(self) -> int:
        """How many reports there are, as the files state."""
        return sum(split.reports for splits in self.files for split in splits)


def plan(empty: Accumulator, paths: Sequence[str], *, skip_damaged: bool = False) -> Plan:
    """Look at every file, and cut the work into splits.

    Args:
        empty: An accumulator of the study.
        paths: Reports or tallies, .parquet; packed reports; batches of devices; or URLs of these.
        skip_damaged: Leave damaged files out, instead of refusing them.

    Raises:
        MismatchError: If a file belongs to another study, or is a tally that cannot be added.
        DamagedError: If a file is damaged or holds something else; it is named.
        FormatError: If a file is not there.
    """
    files: list[list[Split]] = []
    batches: list[Split] = []
    damaged: dict[str, str] = {}
    for path, splits in zip(paths, _looked_at(empty, paths), strict=True):
        if isinstance(splits, FormatError):
            if not skip_damaged:
                raise DamagedError(path, str(splits))
            damaged[path] = str(splits)
        elif splits[0].kind == "batches":
            batches += splits
        else:
            files.append([replace(split, of=len(splits)) for split in splits])
    if batches:
        together = tuple(split.paths[0] for split in batches)
        files.append([Split(together, "batches", 0, 1, sum(split.reports for split in batches))])
    return Plan(files, damaged)


def _looked_at(empty: Accumulator, paths: Sequence[str]) -> Iterator[list[Split] | FormatError]:
    """The splits of every file, or what is wrong with it; stores are asked for several at once."""

    def look(path: str) -> list[Split] | FormatError:
        refuse_missing(path)
        try:
            return _splits_of(empty, path)
        except FormatError as error:
            return error

    if not any(map(is_url, paths)):
        yield from map(look, paths)
        return
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        yield from pool.map(look, paths)


def _splits_of(empty: Accumulator, path: str) -> list[Split]:
    """The splits of one file, once its first bytes and its metadata are those of the study."""
    with _reading(path) as file:
        front = file.read(max(HEADER, HEADER_BYTES))
        size = file.seek(0, 2)
        if front[:4] == PACKED:
            count = packed_count(front, size, empty, repr(path))
            most = _even(count)
            pairs = [(start, min(start + most, count)) for start in range(0, max(count, 1), most)]
            return [Split((path,), "packed", a, b, b - a) for a, b in pairs]
        if front[:4] == BATCH:
            empty.refuse_other(read_front(front, BATCH, HEADER_BYTES, "a batch"), repr(path))
            row = ID_BYTES + layout_of(empty.layouts).size
            return [Split((path,), "batches", 0, 1, size // row)]
    return _parquet_splits(empty, path)


def _parquet_splits(empty: Accumulator, path: str) -> list[Split]:
    """The splits of a Parquet file, by row groups."""
    what = repr(path)
    with open_parquet(path) as file:
        schema, metadata = file.schema_arrow, file.metadata
        kind = kind_of(schema)
        if kind == "tally of sums":
            empty.refuse_other(read_head(schema, "tally of sums", what)["study"], what)
            empty.refuse_sums(what)
            return [Split((path,), "tally", 0, 1, metadata.num_rows)]
        if kind == "tally" or kind == "tally of questions":
            empty.refuse_other(read_head(schema, kind, what)["study"], what)
            return [Split((path,), "tally", 0, 1, metadata.num_rows)]
        _check_reports(empty, schema, what)
        return [Split((path,), "reports", *span) for span in spans(metadata)]


def spans(metadata: pq.FileMetaData) -> Iterator[tuple[int, int, int]]:
    """Row groups that are read together: the first, the one after the last, and their rows."""
    start = held = 0
    most, last = _even(metadata.num_rows), metadata.num_row_groups - 1
    for group in range(last + 1):
        held += metadata.row_group(group).num_rows
        if held >= most or group == last:
            yield start, group + 1, held
            start, held = group + 1, 0
    if last < 0:
        yield 0, 0, 0


def _even(rows: int) -> int:
    """How many rows a split has, so that all splits of a file have about as many."""
    return -(-rows // max(1, -(-rows // ROWS_OF_SPLIT))) or 1


def _check_reports(empty: Accumulator, schema: pa.Schema, what: str) -> None:
    """Refuse a Parquet file that does not hold reports of the study, by its metadata and types."""
    head = read_head(schema, "reports", what)
    empty.refuse_other(head["study"], what)
    names, layouts = read_layouts(head, what)
    if (tuple(names), tuple(layouts)) != (empty.columns, empty.layouts):
        raise FormatError(f"{what} has damaged metadata; write it again")
    check_columns(schema, dict(zip(names, layouts, strict=True)), what)


def add_split(found: Accumulator, split: Split) -> None:
    """Add a part of a file to an accumulator, a bounded number of reports at a time.

    Args:
        found: The accumulator.
        split: A part of the work.

    Raises:
        DamagedError: If a file is damaged; some of its reports may have been added.
        EngineError: If a file is not there for a worker, or its store cannot be reached.
    """
    for path in split.paths:
        refuse_absent(path)
        try:
            _READERS[split.kind](found, path, split)
        except FormatError as error:
            raise DamagedError(path, str(error)) from None


def _add_reports(found: Accumulator, path: str, split: Split) -> None:
    """Add row groups of a Parquet file."""
    what = repr(path)
    with open_parquet(path) as file:
        _check_reports(found, file.schema_arrow, what)
        groups = range(split.start, min(split.stop, file.metadata.num_row_groups))
        for part in read_parts(file, path, found.columns, _ROWS_AT_ONCE, groups):
            outputs = read_outputs(part, found.columns, found.layouts, what)
            found.add(Reports(found.fingerprint, found.columns, found.layouts, tuple(outputs)))


def _add_tally(found: Accumulator, path: str, split: Split) -> None:
    """Add a tally."""
    held = read_tally(path, found)
    found.merge_held(held, repr(path))


def _add_packed(found: Accumulator, path: str, split: Split) -> None:
    """Add packed reports."""
    size = layout_of(found.layouts).size
    with _reading(path) as file:
        file.seek(HEADER + split.start * size)
        for start in range(split.start, split.stop, _ROWS_AT_ONCE):
            count = min(_ROWS_AT_ONCE, split.stop - start)
            raw = file.read(count * size)
            if len(raw) < count * size:
                raise FormatError("it was cut while it was read; write it again")
            rows = np.frombuffer(raw, dtype=np.uint8).reshape(count, size)
            found.add(unpack(rows, found.fingerprint, found.columns, found.layouts))


def _add_batches(found: Accumulator, path: str, split: Split) -> None:
    """Add batches of devices, of which a file has one or several, one after another."""
    row = ID_BYTES + layout_of(found.layouts).size
    with _reading(path) as file:
        while front := file.read(HEADER_BYTES):
            count = batch_count(front, found.fingerprint)
            found.add(front + file.read(count * row))


_READERS = {
    "reports": _add_reports,
    "tally": _add_tally,
    "packed": _add_packed,
    "batches": _add_batches,
}


@contextmanager
def _reading(path: str) -> Iterator[BinaryIO]:
    """An open file; what is wrong with its bytes is told with its name."""
    with open_file(path) as file:
        try:
            yield file
        except OSError as error:
            refuse_unreachable(path)
            raise FormatError(f"cannot read {path!r}: {error.strerror or error}") from None
        except FormatError as error:
            raise FormatError(f"{path!r}: {error}") from None
