"""A journal of files that are tallied already, so that a run that was killed can be repeated.

It is a file beside the output: a line of JSON that names the study and every finished file with its
size and SHA-256, then the bytes of the accumulator of these files. Files of a store, and those that
a cluster reads, are known by size and time of modification. It is written whole or not at all, at
most every few seconds.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfumato.collect.accumulator import Accumulator
from sfumato.collect.stores import identity
from sfumato.errors import FormatError
from sfumato.files import read_json, write_whole

#: Seconds of work before the journal is written, and again until the next time.
EVERY = 5.0
#: Of so many seconds of work, writing the journal takes at most one.
_SHARE = 20
_VERSION = 1


class StaleError(Exception):
    """A journal that does not belong to this work, and why."""


@dataclass
class Journal:
    """What is kept of the files that are tallied.

    Args:
        path: Where it is kept.
        digest: Whether files of this machine are known by their SHA-256.
        files: The finished files by absolute path, each with what shows whether it has changed.
    """

    path: Path
    digest: bool = True
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    _due: float = field(default_factory=lambda: time.monotonic() + EVERY)

    def resume(self, empty: Accumulator, paths: Collection[str]) -> Accumulator | None:
        """The accumulator of the finished files; None if there is no journal.

        Args:
            empty: An empty accumulator of the same study.
            paths: The files that are to be tallied now, by absolute path.

        Raises:
            StaleError: If the journal is damaged, of another study, or of files that have changed.
        """
        try:
            line, _, data = self.path.read_bytes().partition(b"\n")
        except FileNotFoundError:
            return None
        try:
            head = read_json(line)
            files = {str(path): dict(held) for path, held in head["files"].items()}
            whole = head["version"] == _VERSION and head["digest"] == _sha256(data)
            found = Accumulator.from_bytes(data) if whole else None
        except (FormatError, ValueError, TypeError, KeyError, AttributeError):
            found = None
        if found is None:
            raise StaleError("it is damaged")
        if (found.fingerprint, found.keep) != (empty.fingerprint, empty.keep):
            raise StaleError("it is of another study, or keeps something else")
        for path, held in files.items():
            if path not in paths:
                raise StaleError(f"it includes {path!r}, which is not to be tallied now")
            if held != identity(path, digest="sha256" in held):
                raise StaleError(f"{path!r} has changed since")
        self.files = files
        return found

    def is_due(self) -> bool:
        """Whether the journal should be written now."""
        return time.monotonic() >= self._due

    def write(self, found: Accumulator, finished: Collection[str]) -> None:
        """Keep what has been tallied.

        Args:
            found: The accumulator of all finished files.
            finished: These files, by absolute path.
        """
        start = time.monotonic()
        files = {
            path: self.files.get(path) or identity(path, digest=self.digest) for path in finished
        }
        data = found.to_bytes()
        head = {"version": _VERSION, "digest": _sha256(data), "files": files}
        line = json.dumps(head, ensure_ascii=False).encode()
        write_whole(self.path, lambda file: file.write_bytes(line + b"\n" + data))
        self.files = files
        end = time.monotonic()
        self._due = end + max(EVERY, _SHARE * (end - start))

    def remove(self) -> None:
        """Remove the journal, once the tally is safe."""
        self.path.unlink(missing_ok=True)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
