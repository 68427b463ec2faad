"""Files written whole or not at all, and results kept between runs."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from sfumato.errors import FormatError, shown

if TYPE_CHECKING:
    import pyarrow as pa

try:
    import fcntl
except ImportError:  # a system without them, where nothing is swept up after a writer that died
    fcntl = None  # type: ignore[assignment]

#: What the system says where a disk, or a user's share of it, is full.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NEW = 0o666  # less what the process' mask takes away
_DESCRIPTORS = Path("/proc/self/fd")


def write_whole(path: str | Path, write: Callable[[Path], object], *, replace: bool = True) -> None:
    """Let `write` fill a new file, then put it in the place of `path` in one step.

    A file that is there keeps its mode and, where the system lets it, its group; a link leads to
    its file. The new file has no name until it is whole, so that a writer that is killed leaves
    nothing behind. Where the system needs a name, the next writer of the same path removes it.

    Args:
        path: The file to write.
        write: Called with a path under which the new file can be opened.
        replace: Whether a file that is there already may be replaced.

    Raises:
        FormatError: If there is no such folder, or if the file may not be written.
        FileExistsError: If a file is there that may not be replaced.
        OSError: If the disk is full, with the path as its `filename`.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FormatError(
            f"cannot write {str(path)!r}: there is no folder {str(target.parent)!r}; make it first"
        )
    old = target.stat() if target.exists() else None
    if old is not None:
        refuse_read_only(path, old)
    _sweep(target)
    with contextlib.ExitStack() as ends:
        handle, name = _new(target, _NEW if old is None else 0o600)
        ends.callback(os.close, handle)
        if name is not None:
            ends.callback(_remove, name)
        try:
            write(_DESCRIPTORS / str(handle) if name is None else name)
            if old is not None:
                _keep_mode(handle, old)
            os.fsync(handle)
        except OSError as error:
            if error.errno in FULL:  # other libraries say so in their own words, without the name
                raise OSError(error.errno, os.strerror(error.errno), str(path)) from None
            raise
        try:
            _link(handle, name, target)
        except FileExistsError:
            if not replace:
                raise
            if name is None:
                name = _beside(target)
                ends.callback(_remove, name)
                _link(handle, None, name)
            name.replace(target)


def to_csv(table: pa.Table, path: str | Path | None = None) -> str | None:
    """An Arrow table as CSV in UTF-8: written to a file, or returned as text without one.

    Args:
        table: The table.
        path: The file.
    """
    from pyarrow import BufferOutputStream, csv

    if path is not None:
        write_whole(path, lambda file: csv.write_csv(table, file))
        return None
    held = BufferOutputStream()
    csv.write_csv(table, held)
    return bytes(held.getvalue()).decode()


def refuse_read_only(path: str | Path, found: os.stat_result) -> None:
    """Refuse to write what is not a file, or what its owner has made read-only.

    Args:
        path: The file.
        found: What the system says about it.
    """
    if not stat.S_ISREG(found.st_mode):
        raise FormatError(f"cannot write {str(path)!r}: it is not a file; name another one")
    if not found.st_mode & 0o222 or not os.access(path, os.W_OK):
        raise FormatError(
            f"cannot write {str(path)!r}: the file is read-only (mode "
            f"{stat.S_IMODE(found.st_mode):04o}); allow writing with chmod, or name another file"
        )


def _new(target: Path, mode: int) -> tuple[int, Path | None]:
    """A new file beside the target, open and locked, without a name where the system can do that.

    The lock says that its writer lives; the system frees it when the writer ends.
    """
    if hasattr(os, "O_TMPFILE") and _DESCRIPTORS.is_dir():
        with contextlib.suppress(OSError):  # some file systems cannot
            handle = os.open(target.parent, os.O_TMPFILE | os.O_RDWR, mode)
            _lock(handle)
            return handle, None
    while True:
        name = _beside(target)
        handle = os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)
        _lock(handle)
        if name.exists():
            return handle, name
        os.close(handle)  # another writer swept it away before it was locked


def _lock(handle: int) -> None:
    """Hold the lock of an open file, where the system has locks."""
    if fcntl is not None:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)


def _link(handle: int, name: Path | None, target: Path) -> None:
    """Give an open file one more name, or its first."""
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        # By a folder's descriptor, since only then does the system follow a descriptor's link.
        os.link(name or _DESCRIPTORS / str(handle), target.name, dst_dir_fd=folder)
    finally:
        os.close(folder)


def _keep_mode(handle: int, old: os.stat_result) -> None:
    """Give a file the group and the mode of the one that it replaces; no other group gets in."""
    mode = stat.S_IMODE(old.st_mode)
    if os.fstat(handle).st_gid != old.st_gid:
        try:
            os.fchown(handle, -1, old.st_gid)
        except OSError:
            mode &= ~0o2070
    os.fchmod(handle, mode)


def _beside(target: Path) -> Path:
    """A new name beside the target."""
    return target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")


def _sweep(target: Path) -> None:
    """Remove what writers of the target left behind who were killed; the living hold a lock."""
    ours = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{16}}\.part")
    if fcntl is None:
        return
    for name in os.listdir(target.parent):
        if ours.fullmatch(name):
            with contextlib.suppress(OSError):
                handle = os.open(target.with_name(name), os.O_RDWR | os.O_NOFOLLOW)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(target.with_name(name))
                finally:
                    os.close(handle)


def _remove(name: Path) -> None:
    """Remove a file, if it is there."""
    name.unlink(missing_ok=True)


def as_path(path: str | Path) -> Path:
    """A path as the caller gave it; what cannot be one is refused."""
    try:
        found = Path(path)
    except TypeError:
        found = Path("\0")
    if "\0" in str(found):
        raise FormatError(f"a path must be a text or a Path, got {shown(path)}; name a file")
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
