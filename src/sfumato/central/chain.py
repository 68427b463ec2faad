"""Append-only files: each event carries a digest of all earlier ones; one writer at a time."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from sfumato.errors import LedgerError

WAIT_SECONDS = 10.0
_POLL_SECONDS = 0.02
_NO_LOCKS = frozenset({errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP})


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


def verified(document: Mapping[str, Any]) -> bool:
    """Whether a document is as it was written, to its last event."""
    last = start({key: held for key, held in document.items() if key not in ("events", "last")})
    for event in document["events"]:
        if seal(last, {k: held for k, held in event.items() if k != "digest"}) != event:
            return False
        last = event["digest"]
    return bool(last == document["last"])


@contextmanager
def locked(file: Path, *, wait: float | None = None) -> Iterator[None]:
    """Hold the lock of a file: the operating system's own, on an empty file beside it.

    The system frees the lock when its holder ends, in whatever way. The empty file stays. Threads
    of one process exclude each other too, and a holder that asks again is refused like any other.

    Args:
        file: The file to be written.
        wait: Seconds to wait for another holder; left out, `WAIT_SECONDS`.

    Raises:
        LedgerError: If someone else holds it for too long, or if it cannot be had at all.
    """
    real = Path(os.path.realpath(file))  # one lock, whatever link the file is reached by
    lock = real.with_name(f"{real.name}.lock")
    seconds = WAIT_SECONDS if wait is None else wait
    try:
        if not real.parent.is_dir():  # which the library would make
            raise LedgerError(
                f"cannot write {str(file)!r}: there is no folder {str(real.parent)!r}; make it "
                "first"
            )
        held = FileLock(
            lock,
            timeout=seconds,
            poll_interval=_POLL_SECONDS,
            mode=_mode(real.parent),
            fallback_to_soft=False,  # which would outlive its holder
        )
        held.acquire()
    except Timeout:
        raise LedgerError(
            f"another writer has held {str(lock)!r} for {seconds:g} seconds, and only one at a "
            f"time may write {real.name!r}; try again when it has ended, which frees the lock even "
            "if it is killed"
        ) from None
    except OSError as error:
        raise LedgerError(_no_lock(lock, error)) from None
    try:
        yield
    finally:
        held.release()


def _mode(folder: Path) -> int:
    """The lock file's mode: whoever may write in the folder may open it, and so hold the lock."""
    writers = folder.stat().st_mode & 0o022
    return 0o600 | writers | writers << 1


def _no_lock(lock: Path, error: OSError) -> str:
    """Why a lock cannot be had, and what to do."""
    folder = str(lock.parent)
    if error.errno in _NO_LOCKS:
        return (
            f"the file system of {folder!r} knows no locks ({error.strerror}), without which two "
            "writers could spend the same E; keep the ledger on one that does, such as a local disk"
        )
    return (
        f"cannot open {str(lock)!r} ({error.strerror}), without whose lock the ledger beside it is "
        f"not written; let this account write that file and in the folder {folder!r}"
    )
