"""Append-only files: each event carries a digest of all earlier ones; one writer at a time.

The first line holds the kind, the format and the length, in bytes, of all that has been written;
the second the facts that the chain begins with; each further line an event. An event is appended
and brought to the disk before the length is raised. So a file that lost its end is shorter than it
says, and what a writer left half written when it was killed is beyond the length: the next writer
cuts it off.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sfumato.errors import FormatError, LedgerError
from sfumato.files import read_json

try:
    import fcntl
except ImportError:  # a system without them
    fcntl = None  # type: ignore[assignment]

WAIT_SECONDS = 10.0
_POLL_SECONDS = 0.02
_NO_LOCKS = frozenset({errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP})
_TOP = ("kind", "format")
_WIDTH = 16  # digits of the length, so that it can be written over in place


def _digest(before: str, part: Mapping[str, Any]) -> str:
    """The digest of a part and of all that came before."""
    text = json.dumps(part, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


def start(head: Mapping[str, Any]) -> str:
    """The digest that the first event is chained to."""
    return _digest("", head)


def seal(last: str, event: Mapping[str, Any]) -> dict[str, Any]:
    """An event with its digest.

    Args:
        last: The digest of what came before.
        event: The event.

    Example:
        >>> event = seal(start({"total": 1}), {"id": 1})
        >>> verified({"total": 1, "events": [event], "last": event["digest"]})
        True
        >>> verified({"total": 2, "events": [event], "last": event["digest"]})
        False
    """
    return {**event, "digest": _digest(last, event)}


def chained(last: str, event: Mapping[str, Any]) -> bool:
    """Whether an event is as it was sealed.

    Args:
        last: The digest of what came before.
        event: The event with its digest.
    """
    return seal(last, {k: held for k, held in event.items() if k != "digest"}) == event


def verified(document: Mapping[str, Any]) -> bool:
    """Whether a document is as it was written, to its last event."""
    last = start({key: held for key, held in document.items() if key not in ("events", "last")})
    for event in document["events"]:
        if not chained(last, event):
            return False
        last = event["digest"]
    return bool(last == document["last"])


def encode(head: Mapping[str, Any], events: list[dict[str, Any]]) -> bytes:
    """A whole file.

    Args:
        head: What the chain begins with.
        events: The events, not sealed yet.
    """
    lines, last = [_line({k: held for k, held in head.items() if k not in _TOP})], start(head)
    for event in events:
        sealed = seal(last, event)
        lines.append(_line(sealed))
        last = sealed["digest"]
    whole = b"".join(lines)
    return _top(head, len(_top(head, 0)) + len(whole)) + whole


def decode(data: bytes) -> tuple[dict[str, Any], int]:
    """The document in a file, not verified yet, and how many of its bytes count.

    Events beyond the stated length count if they are whole: they may have been acted upon.

    Raises:
        ValueError: If it is not such a file, or shorter than it says.
    """
    first = data.partition(b"\n")[0]
    top = read_json(first)
    size = top.pop("length")
    if not len(first) < size <= len(data):
        raise ValueError("shorter than it says")
    whole = data[:size].split(b"\n")
    if whole.pop():
        raise ValueError("the last line has no end")
    facts, *events = (read_json(line) for line in whole[1:])
    head = {**top, **facts}
    last = events[-1]["digest"] if events else start(head)
    for line in data[size:].splitlines(keepends=True):
        with contextlib.suppress(ValueError, AttributeError):
            event = read_json(line)
            if line.endswith(b"\n") and chained(last, event):
                events.append(event)
                last, size = event["digest"], size + len(line)
                continue
        break
    return {**head, "events": events, "last": last}, size


def _line(part: Mapping[str, Any]) -> bytes:
    """One line of a file."""
    return json.dumps(part, ensure_ascii=False).encode() + b"\n"


def _top(head: Mapping[str, Any], size: int) -> bytes:
    """The first line of a file, always as long."""
    kind, version = (json.dumps(head[name]) for name in _TOP)
    return f'{{"kind": {kind}, "format": {version}, "length": {size:{_WIDTH}}}}\n'.encode()


def read(handle: int) -> bytes:
    """All bytes of an open file."""
    parts, at = [], 0
    while part := os.pread(handle, 1 << 20, at):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def append(file: Path, handle: int, document: Mapping[str, Any], size: int) -> None:
    """Append the last event of a document to its file, and make sure that it is on the disk.

    Args:
        file: The file, whose name must lead to what was locked to the end.
        handle: Its descriptor, as `locked` gives it.
        document: The document with the new event.
        size: How many bytes of the file count.

    Raises:
        OSError: If it cannot be written; the file then stays as it was.
        LedgerError: If another file has taken its place, which the event is not in.
    """
    line = _line(document["events"][-1])
    try:
        os.ftruncate(handle, size)
        _put(handle, line, size)
        _put(handle, _top(document, size + len(line)), 0)
    except OSError:
        with contextlib.suppress(OSError):
            os.pwrite(handle, _top(document, size), 0)
            os.ftruncate(handle, size)
        raise
    if not _leads_to(file, handle):
        raise LedgerError(
            f"{str(file)!r} was removed or replaced while an entry was written, so that the entry "
            "is not in it and nothing was released; bring back the ledger that was there, and do "
            "not move it while it is in use"
        )


def _put(handle: int, data: bytes, at: int) -> None:
    """Write bytes at a place, all of them, to the disk."""
    while data:
        done = os.pwrite(handle, data, at)
        data, at = data[done:], at + done
    os.fsync(handle)


def _leads_to(file: Path, handle: int) -> bool:
    """Whether a name leads to an open file, and not to another that has taken its place."""
    try:
        return os.path.samestat(os.stat(file), os.fstat(handle))
    except FileNotFoundError:
        return False


@contextmanager
def locked(file: Path, *, wait: float | None = None) -> Iterator[int]:
    """Open a file for writing, and hold the operating system's lock on it.

    The system frees the lock when its holder ends, in whatever way. It is a lock on the file itself
    and not on its name, so that links lead to the same lock. Threads of one process exclude each
    other too, and a holder that asks again is refused like any other.

    Args:
        file: The file to be written.
        wait: Seconds to wait for another holder; left out, `WAIT_SECONDS`.

    Yields:
        The file's descriptor.

    Raises:
        LedgerError: If someone else holds it for too long, or if it cannot be had at all.
        FormatError: If there is no such file.
    """
    seconds = WAIT_SECONDS if wait is None else wait
    until = time.monotonic() + seconds
    try:
        while (handle := _take(file)) is None:
            if time.monotonic() >= until:
                raise LedgerError(
                    f"another writer has held {str(file)!r} for {seconds:g} seconds, and only one "
                    "at a time may write it; try again when it has ended, which frees the lock "
                    "even if it is killed"
                )
            time.sleep(_POLL_SECONDS)
    except FileNotFoundError:
        raise missing(file) from None
    except OSError as error:
        raise LedgerError(_no_lock(file, error)) from None
    try:
        yield handle
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)  # also where a child of this process has it open
        os.close(handle)


def _take(file: Path) -> int | None:
    """The descriptor of a file whose lock is taken; None while another has it."""
    if fcntl is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    mode = stat.S_IMODE(os.stat(file).st_mode)
    if not mode & 0o222:  # which an administrator's account could write all the same
        raise PermissionError(errno.EACCES, f"it is read-only, mode {mode:04o}")
    handle = os.open(file, os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _leads_to(file, handle):
            taken, handle = handle, -1
            return taken
    except BlockingIOError:
        pass
    finally:
        if handle >= 0:
            os.close(handle)
    return None


def missing(file: Path) -> FormatError:
    """The error that there is no such ledger."""
    return FormatError(
        f"there is no ledger {str(file)!r}; make one with Ledger.create(path, study) or "
        "'sfumato ledger new'"
    )


def _no_lock(file: Path, error: OSError) -> str:
    """Why a lock cannot be had, and what to do."""
    if error.errno in _NO_LOCKS:
        return (
            f"the file system of {str(file)!r} knows no locks ({error.strerror}), without which "
            "two writers could spend the same E; keep the ledger on one that does, such as a local "
            "disk of Linux or macOS"
        )
    return (
        f"cannot write {str(file)!r} ({error.strerror}), and the ledger stays as it was; let this "
        "account write the file"
    )
