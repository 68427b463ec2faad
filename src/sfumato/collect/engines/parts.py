"""Partial tallies: what workers make of loads of splits, and how these merge.

A file counts once all of its splits are tallied, and not at all if one of them is damaged. So what
is tallied of a file whose other splits are elsewhere is kept apart. Loads are merged in the order
of the files, and then no partial tally keeps more than two files apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeAlias

from sfumato.collect.accumulator import Accumulator
from sfumato.collect.engines.splits import DamagedError, Split, add_split
from sfumato.errors import EngineError, SfumatoError

#: What a worker tallies at a time.
Load: TypeAlias = tuple[Split, ...]


@dataclass
class Begun:
    """What is tallied of a file whose other splits are elsewhere.

    Args:
        done: How many splits are tallied.
        of: How many the file has.
        found: Their tally; None if one of them is damaged.
    """

    done: int
    of: int
    found: Accumulator | None


@dataclass
class Part:
    """A partial tally, which travels as bytes and without the study.

    Args:
        found: The tally of whole files.
        files: The names of these files.
        planned: How many reports all splits so far have, as the files state.
        begun: What is tallied of other files, by name.
        damaged: Files that turned out to be damaged, with the reason.
        refused: Why the work cannot be done at all.
    """

    found: Accumulator
    files: list[str] = field(default_factory=list)
    planned: int = 0
    begun: dict[str, Begun] = field(default_factory=dict)
    damaged: dict[str, str] = field(default_factory=dict)
    refused: SfumatoError | None = None

    def merge(self, other: Part) -> None:
        """Add another part."""
        self.found.merge(other.found)
        self.files += other.files
        self.planned += other.planned
        self.damaged |= other.damaged
        self.refused = self.refused or other.refused
        for path, more in other.begun.items():
            self._add((path,), more)

    def add(self, split: Split) -> None:
        """Tally a split; files that turn out to be damaged are left out."""
        self.planned += split.reports
        paths = split.paths
        while paths:
            found = fresh(self.found)
            try:
                add_split(found, replace(split, paths=paths))
            except DamagedError as error:
                self.damaged[error.path] = str(error)
                # Batches are read together: once more without this one.
                paths = tuple(path for path in paths if path != error.path)
            else:
                self._add(paths, Begun(1, split.of, found))
                return
        self._add(split.paths, Begun(1, split.of, None))

    def _add(self, paths: tuple[str, ...], more: Begun) -> None:
        """Add what is tallied of a file; with its last split, the file counts."""
        before = self.begun.pop(paths[0], None)
        if before is not None:
            more.done += before.done
            if before.found is None:
                more.found = None
            elif more.found is not None:
                more.found.merge(before.found)
        if more.done < more.of:
            self.begun[paths[0]] = more
        elif more.found is not None:
            self.found.merge(more.found)
            self.files += paths


def fresh(like: Accumulator) -> Accumulator:
    """An accumulator like another one, with nothing in it and without its study."""
    return Accumulator(like.fingerprint, like.columns, like.layouts, like.keep)


@lru_cache(maxsize=1)
def _form(empty: bytes) -> Accumulator:
    """The empty accumulator that bytes hold; a worker reads it once."""
    return Accumulator.from_bytes(empty)


def tally_load(empty: bytes, load: Load) -> Part:
    """The tally of a load: the one function that engines run, wherever the files are read.

    Args:
        empty: The bytes of an empty accumulator of the study, which say what to keep.
        load: Splits, from `plan`.

    Raises:
        EngineError: If a file is not there for this worker, or its store cannot be reached. All
            that would fail again is in the part.
    """
    found = Part(fresh(_form(empty)))
    try:
        for split in load:
            found.add(split)
    except EngineError:
        raise
    except SfumatoError as error:
        found.refused = error
    return found


def merge_parts(parts: Sequence[Part]) -> Part:
    """One part of several, the one merge that engines run."""
    found = Part(fresh(parts[0].found))
    for part in parts:
        found.merge(part)
    return found
