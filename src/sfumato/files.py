"""Files written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

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


def _umask() -> int:
    """The process' file mode mask, which can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
