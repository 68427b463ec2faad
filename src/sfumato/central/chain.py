"""Files that only grow: every event sealed with the digest of all before it, one writer a time."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sfumato.errors import LedgerError

WAIT_SECONDS = 10.0


def _digest(before: str, part: Mapping[str, Any]) -> str:
    """The digest of a part and of all that came before."""
    text = json.dumps(part, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


def start(head: Mapping[str, Any]) -> str:
    """The digest that the first event is chained to."""
    return _digest("", head)


def seal(last: str, event: Mapping[str, Any]) -> dict[str, Any]:
    """An event with its digest.

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
    """Hold the lock of a file, which is another file beside it.

    Raises:
        LedgerError: If someone else holds it for too long.
    """
    real = Path(os.path.realpath(file))  # one lock, whatever link the file is reached by
    lock = real.with_name(f"{real.name}.lock")
    until = time.monotonic() + (WAIT_SECONDS if wait is None else wait)
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            break
        except FileExistsError:
            if time.monotonic() > until:
                raise LedgerError(
                    f"another process holds {str(lock)!r}; wait for it to end, or remove that file "
                    "if none is running"
                ) from None
            time.sleep(0.02)
        except FileNotFoundError:
            raise LedgerError(
                f"cannot write {str(file)!r}: there is no folder {str(file.parent)!r}; make it "
                "first"
            ) from None
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
