"""Files written whole or not at all, and results kept between runs."""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from sfumato.errors import FormatError


def write_whole(path: str | Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in place in one step.

    Args:
        path: The file to write.
        write: Called with the path of the temporary file.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FormatError(
            f"cannot write {str(path)!r}: there is no folder {str(target.parent)!r}; make it first"
        )
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def as_path(path: str | Path) -> Path:
    """A path as the caller gave it; what cannot be one is refused."""
    try:
        found = Path(path)
    except TypeError:
        found = Path("\0")
    if "\0" in str(found):
        raise FormatError(f"a path must be a text or a Path, got {path!r}; name a file")
    return found


def read_json(text: str | bytes) -> Any:
    """Read JSON that comes from outside.

    Raises:
        ValueError: If it is not JSON, also where it is nested too deeply for a parser, has numbers
            that are not finite, or text that no file could hold.

    Example:
        >>> read_json('{"a": [1, 2.5]}')
        {'a': [1, 2.5]}
    """
    try:
        found = json.loads(text, parse_constant=_not_json, parse_float=_finite)
        json.dumps(found, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return found


def _finite(text: str) -> float:
    """A number that a double can hold."""
    number = float(text)
    return number if math.isfinite(number) else _not_json(text)


def _not_json(text: str) -> NoReturn:
    """Refuse a number that is not finite."""
    raise ValueError(f"a number must be finite, got {text}")


def _umask() -> int:
    """The process' file mode mask, which can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


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
