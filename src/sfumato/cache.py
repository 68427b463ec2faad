"""Results that took long to compute, kept between runs; losing them costs only time."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from sfumato.errors import FormatError
from sfumato.files import write_whole


def folder() -> Path:
    """`$SFUMATO_CACHE`, or `sfumato` in `$XDG_CACHE_HOME`, by default `~/.cache`."""
    own = os.environ.get("SFUMATO_CACHE")
    if own:
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path("~/.cache").expanduser()) / "sfumato"


def read(name: str) -> str | None:
    """A text kept earlier, or None; whoever reads it must check that it is whole."""
    try:
        return (folder() / name).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return None


def keep(name: str, text: str) -> None:
    """Keep a text, whole or not at all; where nothing can be written, nothing is kept.

    Args:
        name: Name of the file in the cache.
        text: What to keep, in ASCII.
    """
    with contextlib.suppress(OSError, FormatError):
        folder().mkdir(parents=True, exist_ok=True)
        write_whole(folder() / name, lambda file: file.write_text(text, encoding="ascii"))
