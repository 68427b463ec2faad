"""A store in one SQLite file, which needs no server: WAL, synced at every commit."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sfumato.device.wire import ID_BYTES
from sfumato.errors import FormatError, StoreError
from sfumato.service.stores.base import FullError, Row, Run, Store
from sfumato.service.stores.tables import prepare

FILE = "collector.sqlite"
WAIT_SECONDS = 30.0  # for another process that writes
_KIND = 0x53464D43  # "SFMC": marks the file as one of ours
#: The places of many ids that stand one after another in one value. One statement for all of them
#: lets other threads go on meanwhile.
_EACH = (
    "WITH RECURSIVE each (place) AS "
    "(VALUES (0) UNION ALL SELECT place + 1 FROM each WHERE place + 1 < ?)"
)
_WORDS = {
    "bytes": "BLOB",
    "number": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "rowless": " WITHOUT ROWID",
}


class SqliteStore(Store):
    """A store in a SQLite file.

    Threads share two connections: one writes, one reads. Processes exclude each other by SQLite's
    locks. Whatever is deleted is overwritten with zeros.

    Args:
        path: The file; it and its folder are made if they are not there.
        make: Whether to make the file.

    Raises:
        StoreError: If the file cannot be written.
        FormatError: If it is damaged, newer than this package, or not one of ours.
    """

    def __init__(self, path: Path, *, make: bool = True) -> None:
        self.path, self.name = path, str(path)
        self._write_lock, self._read_lock = threading.Lock(), threading.Lock()
        if not make and not path.is_file():
            raise StoreError(f"there is no store {str(path)!r}; name the collector's folder")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except OSError as error:
            raise StoreError(
                f"the store {str(path)!r} cannot be made ({error.strerror}); name another folder, "
                "or let this account write there"
            ) from None
        with _explained(path):
            self._writer, self._reader = self._connected(), self._connected()
        try:
            with self.change() as run:
                kind = run("PRAGMA application_id")[0][0]
                names = [name for (name,) in run("SELECT name FROM sqlite_master")]
                if kind != _KIND and (kind or names):
                    raise FormatError(
                        f"{str(path)!r} is a database of another program; name another folder"
                    )
                prepare(run, names, _WORDS, repr(str(path)))
                run(f"PRAGMA application_id = {_KIND}")
        except BaseException:
            self.close()
            raise

    def _connected(self) -> sqlite3.Connection:
        """A new connection."""
        made = sqlite3.connect(
            self.path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False
        )
        made.execute("PRAGMA journal_mode = WAL")
        made.execute("PRAGMA synchronous = FULL")
        made.execute("PRAGMA fullfsync = ON")  # macOS needs telling to reach the disk itself
        made.execute("PRAGMA secure_delete = ON")
        made.execute("PRAGMA cache_size = -65536")  # 64 MB
        made.execute("PRAGMA temp_store = MEMORY")
        return made

    @contextmanager
    def change(self) -> Iterator[Run]:
        """A transaction that writes."""
        with self._write_lock, _explained(self.path):
            yield from self._transaction(self._writer, "BEGIN IMMEDIATE")

    @contextmanager
    def look(self) -> Iterator[Run]:
        """A transaction that reads."""
        with self._read_lock, _explained(self.path):
            yield from self._transaction(self._reader, "BEGIN")

    def _transaction(self, connection: sqlite3.Connection, begin: str) -> Iterator[Run]:
        """One transaction of a connection."""
        connection.execute(begin)
        try:
            yield _SqliteRun(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def free_bytes(self) -> int | None:
        """How much room is left on the disk."""
        return shutil.disk_usage(self.path.parent).free

    def size_bytes(self) -> int:
        """How much room the file takes, with what has yet to be merged into it."""
        beside = self.path.with_name(f"{self.path.name}-wal")
        return sum(file.stat().st_size for file in (self.path, beside) if file.exists())

    def close(self) -> None:
        """Close both connections."""
        self._writer.close()
        self._reader.close()

    def renumber(self, run: Run) -> None:
        """SQLite raises its counters by itself."""


class _SqliteRun(Run):
    """A transaction in SQLite."""

    lock = ""  # a transaction that writes excludes all others

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __call__(self, statement: str, values: tuple[Any, ...] = ()) -> list[Row]:
        return self._connection.execute(statement, values).fetchall()

    def many(self, statement: str, rows: Iterable[Row]) -> None:
        """Run one statement for many rows."""
        self._connection.executemany(statement, rows)

    def known(self, study: int, ids: bytes) -> list[int]:
        """The places of the ids that have been counted."""
        found = self(
            f"{_EACH} SELECT place FROM each WHERE EXISTS "  # noqa: S608 - of constants
            "(SELECT 1 FROM ids WHERE study = ? AND id = substr(?, 16 * place + 1, 16))",
            (len(ids) // ID_BYTES, study, ids),
        )
        return [place for (place,) in found]

    def enter(self, study: int, ids: bytes, expires: int) -> bool:
        """Enter ids, if none of them has been counted."""
        try:
            self(
                f"{_EACH} INSERT INTO ids "  # noqa: S608 - of constants
                "SELECT ?, substr(?, 16 * place + 1, 16), ? FROM each",
                (len(ids) // ID_BYTES, study, ids, expires),
            )
        except sqlite3.IntegrityError:  # this statement is undone, and the transaction goes on
            return False
        return True


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Say what a failure of the database means."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_FULL:
            raise FullError(
                f"the disk of the store {str(path)!r} is full; make room, and it goes on by itself"
            ) from None
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            raise FormatError(
                f"{str(path)!r} is damaged or no store of a collector; restore a backup"
            ) from None
        raise StoreError(
            f"the store {str(path)!r} cannot be used ({error}); check its disk and its rights"
        ) from None
