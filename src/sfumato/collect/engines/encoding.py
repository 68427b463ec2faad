"""Encoding files by any engine: each part of a file of people becomes one file of reports.

A person must not have two reports in the folder, whatever happens to a worker. So a file is written
whole or not at all, a task that is repeated writes the file of the same name, and the first one
that is complete stays. While work is going on, the folder has a file `_UNFINISHED`; without it, no
task writes any more.
"""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.collect.engines.splits import spans
from sfumato.collect.engines.workers import Seen, Work, Workers
from sfumato.collect.parquet import open_parquet
from sfumato.collect.people import encode_batches, reports_writer
from sfumato.collect.stores import (
    Folder,
    is_url,
    open_file,
    refuse_absent,
    refuse_unreachable,
    whole_path,
)
from sfumato.domains.tables import parquet_batches, read_batches, stream_batches
from sfumato.errors import DataError, EngineError, SfumatoError
from sfumato.randomness.bits import SecureBits
from sfumato.study.study import Study

_MARK = "_UNFINISHED"
_WAVE = 4  # pieces for each worker of which progress is told at once
_GONE = "all files of this run are removed again"


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a file of people, which becomes one file of reports.

    Args:
        path: The file of people.
        groups: The row groups, of Parquet; None for a whole file.
        before: How many people of the file come before.
        folder: The folder of the reports.
        name: The name of the file of reports.
    """

    path: str
    groups: tuple[int, int] | None
    before: int
    folder: str
    name: str


@dataclass(frozen=True, slots=True)
class Encoded:
    """What became of some pieces.

    Args:
        files: How many files were written.
        people: How many people are in them.
        refused: Why the first of the others was not written.
    """

    files: int
    people: int
    refused: SfumatoError | None = None


def encode_files(
    engine: Workers, study: Study, paths: Sequence[str], out: str, *, seen: Seen
) -> int:
    """Encode the people in files into a folder of reports; see `Engine.encode`.

    Args:
        engine: Who reads and writes the files.
        study: The study.
        paths: Files of people, or their URLs.
        out: The folder, or its URL.
        seen: Told how many files have been written, and how many there will be.

    Returns:
        How many people there are.
    """
    if not engine.are_here:  # a worker elsewhere has another current folder
        out, paths = whole_path(out), list(map(whole_path, paths))
    pieces = list(_pieces(study, paths, out))
    folder = Folder(out)
    _begin(folder)
    done = people = 0
    task = Work(partial(encode_piece, study.to_toml()), _joined)
    found = engine.gather(task, pieces, _WAVE * engine.slots)
    try:
        with contextlib.closing(found):
            for part in found:
                if part.refused is not None:
                    raise part.refused
                done, people = done + part.files, people + part.people
                seen(done, len(pieces))
    except BaseException:
        # Nobody was told of these reports, so encoding the people again gives each one report.
        names = {piece.name for piece in pieces}
        for _ in range(2):  # without the mark no task writes; what one wrote before goes as well
            for name in names.intersection(folder.names()):
                folder.remove(name)
            folder.remove(_MARK)
        raise
    folder.remove(_MARK)
    return people


def _begin(folder: Folder) -> None:
    """Begin a folder, which must have nothing in it: someone might have two reports."""
    held = folder.names()
    if _MARK in held:
        raise EngineError(
            f"{folder.path!r} holds what an encoding that did not finish has left; delete the "
            "folder, unless anyone has seen these reports: then people in them would report twice"
        )
    if held:
        raise EngineError(
            f"the folder {folder.path!r} must be empty, and has {len(held):,} "
            f"file{'' if len(held) == 1 else 's'}: whoever is encoded twice reveals twice as much; "
            "name a new folder"
        )
    folder.make()
    folder.write(_MARK, lambda file: file.write_bytes(b"reports are being written\n"))


def _pieces(study: Study, paths: Sequence[str], out: str) -> Iterator[Piece]:
    """The parts of all files, which are looked at first."""
    count = 0
    for path in paths:
        for groups, before in _cuts(study, path):
            yield Piece(path, groups, before, out, f"part-{count:05}.parquet")
            count += 1


def _cuts(study: Study, path: str) -> Iterator[tuple[tuple[int, int] | None, int]]:
    """Where a file is cut: row groups, and how many people come before."""
    next(_rows(study, path, None), None)  # refuses a file that lacks a column
    if not _kind(path).endswith(".parquet"):
        yield None, 0
        return
    with open_file(path) as file:
        before = 0
        for start, stop, rows in spans(pq.ParquetFile(file).metadata):
            yield (start, stop), before
            before += rows


def _rows(study: Study, path: str, groups: tuple[int, int] | None) -> Iterator[pa.RecordBatch]:
    """The rows of a part of a file of people."""
    names, called = [axis.name for axis in study.axes], f"file {path!r}"
    kind = _kind(path)
    if not is_url(path) and not kind.endswith(".parquet"):
        yield from read_batches(path, names)
        return
    with open_file(path) as file:
        if kind.endswith(".parquet"):
            span = None if groups is None else range(*groups)
            yield from parquet_batches(file, names, called=called, groups=span)
        elif kind.endswith(".csv.gz"):
            with gzip.open(file) as plain:
                yield from stream_batches(cast("BinaryIO", plain), names, called=called)
        elif kind.endswith(".csv"):
            yield from stream_batches(file, names, called=called)
        else:
            raise DataError(f"a table file must end in .csv, .csv.gz or .parquet, got {path!r}")


def _kind(path: str) -> str:
    """What the end of a file's name says, whatever its case."""
    return (path.partition("?")[0] if is_url(path) else path).lower()


@lru_cache(maxsize=1)
def _study(text: str) -> Study:
    """The study of a file's text; a worker builds it once."""
    return Study.from_toml(text)


def encode_piece(text: str, piece: Piece) -> Encoded:
    """Encode a part of a file of people, unless that is done: the function that engines run.

    Args:
        text: The text of the study file.
        piece: The part.

    Raises:
        EngineError: If a file is not there for this worker, or a store cannot be reached. What
            would be refused again is in the result.
    """
    folder = Folder(piece.folder)
    try:
        if not folder.has(piece.name):  # else a worker was lost after it wrote the file
            refuse_absent(piece.path)
            folder.write(piece.name, partial(_write, _study(text), piece))
        with open_parquet(folder.path_of(piece.name)) as file:
            return Encoded(1, file.metadata.num_rows)
    except EngineError:
        raise
    except DataError as error:
        refuse_unreachable(piece.path)
        named = repr(piece.path) in str(error)
        refused: SfumatoError = error if named else DataError(f"in {piece.path!r}, {error}")
    except SfumatoError as error:
        refused = error
    except OSError as error:
        what = f"cannot write {piece.name!r} into {piece.folder!r}: {error.strerror or error}"
        refused = EngineError(f"{what}; {_GONE}; make room, and encode again")
    return Encoded(0, 0, refused)


def _write(study: Study, piece: Piece, where: Path) -> None:
    """Write the reports of a part of a file of people, unless the work was stopped meanwhile."""
    with reports_writer(study, where) as writer:
        rows = _rows(study, piece.path, piece.groups)
        for reports in encode_batches(study, rows, SecureBits(), before=piece.before):
            writer.write_table(reports.to_arrow())
    if not Folder(piece.folder).has(_MARK):
        raise EngineError(
            f"{piece.folder!r} has no file {_MARK!r} any more: the work was stopped, or the folder "
            "is not where every worker finds it by the same path"
        )


def _joined(parts: Sequence[Encoded]) -> Encoded:
    """One result of several."""
    refused = next((part.refused for part in parts if part.refused is not None), None)
    people = sum(part.people for part in parts)
    return Encoded(sum(part.files for part in parts), people, refused)
