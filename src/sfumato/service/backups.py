"""Backups: a store copied into one SQLite file while it is in use, and back into an empty store.

The file is a store itself, whichever database it came from; so a backup of SQLite restores into
PostgreSQL too.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from sfumato.errors import FormatError, StoreError
from sfumato.service.stores.base import FullError, Row, Run, Store
from sfumato.service.stores.sqlite import SqliteStore
from sfumato.service.stores.tables import COLUMNS, KEYS

_AT_ONCE = 2_000  # rows

#: Told how many rows are copied.
Seen = Callable[[int], None]


def back_up(
    store: Store,
    path: Path,
    *,
    replace: bool = False,
    seen: Seen | None = None,
    clock: Callable[[], float] = time.time,
) -> int:
    """Write a backup: the state of the store at one moment, whole or not at all.

    Args:
        store: The store, which may be in use.
        path: The file.
        replace: Whether a file that is there may be replaced.
        seen: Told how many rows are copied, from time to time.
        clock: Gives the seconds since 1970-01-01.

    Returns:
        How many rows it has.
    """
    if not path.parent.is_dir():
        raise FormatError(f"cannot write {str(path)!r}: there is no such folder; make it first")
    if path.exists() and not replace:
        raise FormatError(f"{str(path)!r} exists; name another file")
    with TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        made = Path(folder) / path.name
        copy = SqliteStore(made)
        try:
            with store.look() as source, copy.change() as target:
                rows = _copied(source, target, seen)
        finally:
            copy.close()
        _finish(made)
        made.replace(path)
    # On another disk, the backup is there also where the store's own is full.
    with contextlib.suppress(FullError), store.change() as run:
        run.set_fact("backed_up", int(clock()))
    return rows


def restore(store: Store, path: Path, *, seen: Seen | None = None) -> int:
    """Fill an empty store from a backup.

    Args:
        store: The store.
        path: The backup.
        seen: Told how many rows are copied, from time to time.

    Returns:
        How many rows were restored.

    Raises:
        StoreError: If the store is not empty.
        FormatError: If the file is no backup.
    """
    if not path.is_file():
        raise FormatError(f"cannot read the backup {str(path)!r}: there is no such file")
    with TemporaryDirectory() as folder:
        copy = Path(folder) / path.name  # a backup of an older version is brought up to date here
        shutil.copyfile(path, copy)
        held = SqliteStore(copy, make=False)
        try:
            with held.look() as source, store.change() as target:
                for table in COLUMNS:
                    if table != "facts" and target(f"SELECT 1 FROM {table} LIMIT 1"):  # noqa: S608
                        raise StoreError(
                            "a backup is restored into an empty store only, and this one is not; "
                            "name a new folder or database"
                        )
                rows = _copied(source, target, seen)
                store.renumber(target)
        finally:
            held.close()
    return rows


def _copied(source: Run, target: Run, seen: Seen | None) -> int:
    """Copy all tables; how many rows they have."""
    total = 0
    target("DELETE FROM facts")
    for table, columns in COLUMNS.items():
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        for rows in _pages(source, table, columns):
            target.many(f"INSERT INTO {table} ({names}) VALUES ({marks})", rows)  # noqa: S608
            total += len(rows)
            if seen is not None:
                seen(total)
    return total


def _pages(source: Run, table: str, columns: tuple[str, ...]) -> Iterator[list[Row]]:
    """All rows of a table, some at a time, in the order of its key."""
    key = KEYS[table]
    names, order = ", ".join(columns), ", ".join(key)
    places = [columns.index(name) for name in key]
    marks = ", ".join("?" * len(key))
    after: Row = ()
    while True:
        where = f"WHERE ({order}) > ({marks}) " if after else ""
        rows = source(
            f"SELECT {names} FROM {table} {where}ORDER BY {order} LIMIT ?",  # noqa: S608
            (*after, _AT_ONCE),
        )
        if rows:
            yield rows
        if len(rows) < _AT_ONCE:
            return
        after = tuple(rows[-1][place] for place in places)


def _finish(path: Path) -> None:
    """Leave one file that is on the disk and needs no other beside it."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    with path.open("rb") as file:
        os.fsync(file.fileno())
