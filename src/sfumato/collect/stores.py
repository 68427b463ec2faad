"""Files by path or by URL: on this machine, or in an object store that PyArrow knows."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from glob import glob
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from sfumato.errors import EngineError, FormatError
from sfumato.files import as_path, write_whole

#: A path, a URL, a pattern of these, or several.
Paths: TypeAlias = str | Path | Iterable[str | Path]
_SCHEMES = "s3://, gs://, hdfs:// or file://"
_AT_ONCE = 1 << 22  # bytes
#: Stores where what is written appears once it is whole.
_WHOLE = ("s3", "gcs", "abfs")


def is_url(path: object) -> bool:
    """Whether a path is the URL of a file in a store."""
    return isinstance(path, str) and "://" in path


def find_files(paths: Paths) -> list[str]:
    """The files that paths, URLs and patterns such as ``reports/*.parquet`` name, each once.

    Args:
        paths: One or several of them. In a URL, ``*`` and ``[...]`` stand for parts of names.

    Raises:
        FormatError: If a pattern fits no file, or if a file is named twice.
    """
    found: list[str] = []
    for path in [paths] if isinstance(paths, str | Path) else paths:
        text = str(as_path(path)) if isinstance(path, Path) else path
        plain = "*" not in text and "[" not in text
        if plain or (not is_url(text) and Path(text).exists()):
            matches = [text]
        else:
            matches = _listed(text) if is_url(text) else sorted(glob(text, recursive=True))
        if not matches:
            raise FormatError(f"no file fits {text!r}; check the path")
        found += matches
    seen: set[str] = set()
    for text in found:
        if (one := whole_path(text)) in seen:
            raise FormatError(
                f"{text!r} is named twice, so its people would count twice; name it once"
            )
        seen.add(one)
    return found


def _listed(pattern: str) -> list[str]:
    """The URLs in a store that fit a pattern, sorted."""
    store, wanted = located(pattern)
    parts = wanted.split("/")
    first = next(k for k, part in enumerate(parts) if "*" in part or "[" in part)
    base = "/".join(parts[:first])
    selector = fs.FileSelector(base, recursive=first < len(parts) - 1, allow_not_found=True)
    try:
        files = [info.path for info in store.get_file_info(selector) if info.is_file]
    except OSError as error:
        raise _unreachable(pattern, error) from None
    fitting = [path for path in files if _fits(path.split("/"), parts)]
    head, _, query = pattern.partition("?")
    start = head[: len(head) - len(wanted)]  # such as s3://
    return [f"{start}{path}{'?' if query else ''}{query}" for path in sorted(fitting)]


def _fits(parts: list[str], pattern: list[str]) -> bool:
    """Whether every part of a path fits the one of the pattern."""
    pairs = zip(parts, pattern, strict=False)
    return len(parts) == len(pattern) and all(fnmatchcase(*pair) for pair in pairs)


def whole_path(path: str) -> str:
    """A path as seen from anywhere: absolute, or a URL."""
    return path if is_url(path) else str(Path(path).resolve())


def located(url: str) -> tuple[fs.FileSystem, str]:
    """The store of a URL, and the path in it; the part after ``?`` has options of the store."""
    parts = urlsplit(url.partition("?")[0])
    store, base = _store(parts.scheme, parts.netloc, url.partition("?")[2])
    return (
        store,
        f"{base.rstrip('/')}{url.partition('?')[0].partition('://')[2][len(parts.netloc) :]}",
    )


@lru_cache(maxsize=64)
def _store(scheme: str, place: str, query: str) -> tuple[fs.FileSystem, str]:
    """A store, and the path of its root or bucket."""
    url = f"{scheme}://{place}{'' if place else '/'}{'?' if query else ''}{query}"
    try:
        store, base = fs.FileSystem.from_uri(url)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise EngineError(
            f"{scheme}://{place} must be the URL of a store, {_SCHEMES}, and cannot be used: "
            f"{reason}"
        ) from None
    except OSError as error:
        raise _unreachable(f"{scheme}://{place}", error) from None
    return store, base


def _unreachable(path: str, error: OSError) -> EngineError:
    """The error for a store that does not answer, or does not let us in."""
    reason = str(error).splitlines()[0]
    return EngineError(
        f"cannot reach {path!r}: {reason}; check the address and what the store asks of you "
        "(for S3, AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)"
    )


def open_file(path: str | Path) -> BinaryIO:
    """Open a file for reading, wherever it is.

    Raises:
        FormatError: If there is none.
        EngineError: If its store cannot be reached.
    """
    try:
        if is_url(path):
            store, place = located(str(path))
            return cast("BinaryIO", store.open_input_file(place))
        return as_path(path).open("rb")
    except FileNotFoundError:
        raise FormatError(f"there is no file {str(path)!r}; check the path") from None
    except OSError as error:
        if is_url(path):
            raise _unreachable(str(path), error) from None
        raise FormatError(f"cannot read {str(path)!r}: {error.strerror}") from None


def refuse_absent(path: str) -> None:
    """Refuse a file that was there when the work was planned, and is not there for this worker."""
    if not is_url(path) and not Path(path).exists():
        raise EngineError(
            f"{path!r} is gone, or is not there for a worker; put the files where every worker "
            "finds them by the same path, or into an object store"
        )


def refuse_unreachable(path: object) -> None:
    """Refuse a file of a store that cannot be read to its end: then it need not be damaged.

    Args:
        path: What could not be understood: a path, a URL, or bytes.
    """
    if is_url(path):
        with open_file(str(path)) as file:
            try:
                while file.read(_AT_ONCE):
                    pass
            except OSError as error:
                raise _unreachable(str(path), error) from None


def refuse_missing(path: str) -> None:
    """Refuse a file that is not there."""
    if is_url(path):
        store, place = located(path)
        try:
            found = bool(store.get_file_info(place).is_file)
        except OSError as error:
            raise _unreachable(path, error) from None
    else:
        found = Path(path).is_file()
    if not found:
        raise FormatError(f"there is no file {path!r}; check the path")


def file_size(path: str | Path) -> int:
    """The size of a file in bytes, wherever it is."""
    if is_url(path):
        store, place = located(str(path))
        return int(store.get_file_info(place).size)
    return as_path(path).stat().st_size


def identity(path: str, *, digest: bool) -> dict[str, Any]:
    """What shows whether a file has changed: its size, and its SHA-256 or when it was written.

    Args:
        path: The file.
        digest: Whether a file on this machine is read for its SHA-256.
    """
    if is_url(path):
        store, place = located(path)
        info = store.get_file_info(place)
        return {"size": info.size, "modified": info.mtime_ns}
    with Path(path).open("rb") as file:
        if digest:
            found = hashlib.file_digest(file, "sha256").hexdigest()
            return {"size": file.tell(), "sha256": found}
    held = Path(path).stat()
    return {"size": held.st_size, "modified": held.st_mtime_ns}


class Folder:
    """A folder of files that are written whole or not at all, here or in a store.

    Args:
        path: Its path or URL.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._store: fs.FileSystem | None = None
        self._place = path
        if is_url(path):
            self._store, self._place = located(path)

    def path_of(self, name: str) -> str:
        """The path or URL of a file in it."""
        if self._store is None:
            return str(Path(self.path, name))
        head, mark, query = self.path.partition("?")
        return f"{head.rstrip('/')}/{name}{mark}{query}"

    def make(self) -> None:
        """Make the folder, unless it is there."""
        if self._store is None:
            try:
                Path(self.path).mkdir(parents=True, exist_ok=True)
            except FileExistsError:
                raise EngineError(f"{self.path!r} is a file; name a folder") from None
        else:
            self._ask(lambda store: store.create_dir(self._place))

    def names(self) -> list[str]:
        """The names of what is in it; none if it is not there."""
        if self._store is None:
            return sorted(os.listdir(self.path)) if Path(self.path).is_dir() else []
        selector = fs.FileSelector(self._place, allow_not_found=True)
        found = self._ask(lambda store: store.get_file_info(selector))
        return sorted(info.base_name for info in found)

    def has(self, name: str) -> bool:
        """Whether a file is there."""
        if self._store is None:
            return Path(self.path, name).is_file()
        place = f"{self._place.rstrip('/')}/{name}"
        return bool(self._ask(lambda store: store.get_file_info(place)).is_file)

    def write(self, name: str, write: Callable[[Path], object]) -> None:
        """Let `write` fill a new file; if there is one of this name already, that one stays.

        Args:
            name: The name of the file.
            write: Called with the path of a file of this machine, which is put there once it is
                whole.
        """
        if self._store is None:
            with contextlib.suppress(FileExistsError):
                write_whole(Path(self.path, name), write, replace=False)
            return
        with tempfile.TemporaryDirectory(prefix="sfumato-") as held:
            file = Path(held, name)
            write(file)
            if not self.has(name):
                self._ask(lambda store: self._send(store, file, name))

    def _send(self, store: fs.FileSystem, file: Path, name: str) -> None:
        """Put a file into the store: there it has its name once it is whole."""
        place = f"{self._place.rstrip('/')}/{name}"
        whole = store.type_name in _WHOLE
        path = place if whole else f"{self._place.rstrip('/')}/.{name}.{secrets.token_hex(8)}.part"
        with file.open("rb") as source, store.open_output_stream(path) as stream:
            shutil.copyfileobj(source, stream, _AT_ONCE)
        if not whole:
            store.move(path, place)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        if self._store is None:
            Path(self.path, name).unlink(missing_ok=True)
        elif self.has(name):
            self._ask(lambda store: store.delete_file(f"{self._place.rstrip('/')}/{name}"))

    def _ask(self, work: Callable[[fs.FileSystem], Any]) -> Any:
        """Ask the store for something."""
        try:
            return work(self._store)
        except OSError as error:
            raise _unreachable(self.path, error) from None
