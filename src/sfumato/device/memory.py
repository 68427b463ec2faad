"""What a device remembers: its reports, the queue of those not sent yet, and what is charged.

Everything is in one SQLite file per folder. A round of a person is charged in a transaction of its
own before the value is encoded; the report and its place in the queue are one more transaction. So
a process that is killed between the two leaves a round that is charged once and has no report yet,
and the next call makes it. The reports of many persons share these two transactions. The file holds
reports and what persons are called, never a value, a cell or a random word.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from sfumato.device.ledger import Account, Spent
from sfumato.errors import FormatError, MismatchError, SfumatoError, StoreError

FILE = "device.sqlite"
VERSION = 1
DAYS = 30  # from the day a report is made to the day it expires
WAIT_SECONDS = 10.0  # for another process that writes
_KIND = 0x53464D44  # "SFMD": marks the file as one of ours
_ID_BYTES = 16
_SECRET_BYTES = 32
_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE studies (
  fingerprint TEXT PRIMARY KEY, digest TEXT NOT NULL, name TEXT NOT NULL, most TEXT,
  tries INTEGER NOT NULL DEFAULT 0, tried REAL NOT NULL DEFAULT 0, wait REAL NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE rounds (
  study TEXT NOT NULL REFERENCES studies, person TEXT NOT NULL, round TEXT NOT NULL,
  state TEXT NOT NULL, report BLOB, id BLOB, expires INTEGER, code TEXT,
  PRIMARY KEY (study, person, round)
) WITHOUT ROWID;
CREATE INDEX queue ON rounds (study, state, expires, id);
"""


@dataclass(frozen=True, slots=True)
class Queued:
    """A report that waits to be sent.

    Attributes:
        id: Its 16 random bytes, the same however often it is sent.
        report: Its bytes.
        expires: The last day on which it counts, counted from 1970-01-01.
    """

    id: bytes
    report: bytes
    expires: int


@dataclass(frozen=True, slots=True)
class Backoff:
    """When a study's queue may be sent again.

    Attributes:
        tries: How many tries in a row have failed.
        tried: When the last one failed, in seconds since 1970-01-01.
        wait: How many seconds to wait after it.
    """

    tries: int = 0
    tried: float = 0.0
    wait: float = 0.0

    def left(self, now: float) -> float:
        """The seconds still to wait; none if the clock has gone back behind the last try."""
        return max(self.tried + self.wait - now, 0.0) if now >= self.tried else 0.0


class Memory:
    """The file of one device, as one study sees it.

    Processes exclude each other by SQLite's locks, threads of one process by a lock of its own.

    Args:
        folder: Where the file is; made with mode 0700 if it is not there.
        fingerprint: The study.
        digest: The digest of its device program.
        name: The study's name.
        most: The largest E between two records; None if it is unbounded.

    Raises:
        StoreError: If the file cannot be written.
        FormatError: If it is damaged, newer than this package, or not one of ours.
        MismatchError: If the study was reported with another device program.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        fingerprint: str,
        digest: str,
        name: str,
        most: Fraction | None,
    ) -> None:
        self.path = Path(folder) / FILE
        self._study = fingerprint
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._open()
        try:
            self._prepare(digest, name, most)
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        """Make the folder and the file if they are not there, and open the file."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            mode = stat.S_IMODE(self.path.stat().st_mode)
            if mode & 0o077:  # such as a copy that was put back
                self.path.chmod(mode & 0o700)
        except OSError as error:
            raise self._unwritten(str(error.strerror)) from None
        if not mode & 0o200:  # which an administrator's account could write all the same
            raise self._unwritten(f"it is read-only, mode {mode:04o}")
        with self._explained():
            self._connection = sqlite3.connect(
                self.path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False
            )
            # Also the folder is synced when a transaction ends; macOS needs telling to reach the
            # disk itself.
            self._connection.execute("PRAGMA synchronous = EXTRA")
            self._connection.execute("PRAGMA fullfsync = ON")

    def _prepare(self, digest: str, name: str, most: Fraction | None) -> None:
        """Make the tables in a new file, check those of an old one, and enter the study."""
        with self._change() as run:
            kind = run.execute("PRAGMA application_id").fetchone()[0]
            version = run.execute("PRAGMA user_version").fetchone()[0]
            tables = run.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if not (kind or version or tables):
                for statement in _TABLES.split(";")[:-1]:
                    run.execute(statement)
                run.execute(f"PRAGMA application_id = {_KIND}")
                run.execute(f"PRAGMA user_version = {VERSION}")
            elif kind != _KIND or version < 1:
                raise FormatError(
                    f"{str(self.path)!r} is a database of another program; name another folder"
                )
            elif version > VERSION:
                raise FormatError(
                    f"{str(self.path)!r} has version {version}, newer than this package's "
                    f"{VERSION}; update sfumato"
                )
            run.execute(
                "INSERT OR IGNORE INTO studies (fingerprint, digest, name, most) "
                "VALUES (?, ?, ?, ?)",
                (self._study, digest, name, None if most is None else str(most)),
            )
            (known,) = run.execute(
                "SELECT digest FROM studies WHERE fingerprint = ?", (self._study,)
            ).fetchone()
            if known != digest:
                raise MismatchError(
                    f"folder {str(self.path.parent)!r} knows study {name!r} with the device "
                    f"program {str(known)[:12]}, and the one given is {digest[:12]}; use the "
                    "program with which this device began the study"
                )

    # Reports

    def stored(self, name: str, persons: Iterable[str]) -> dict[str, bytes]:
        """The reports of a round that have been made, whether they are sent or not, by person.

        Args:
            name: The round.
            persons: Whose reports are wanted.
        """
        with self._change() as run:
            found = ((person, self._stored(run, name, person)[1]) for person in persons)
            return {person: report for person, report in found if report is not None}

    def charge(
        self, name: str, persons: Iterable[str], limit: Fraction | None, *, enter: bool = True
    ) -> None:
        """Charge a round to persons, once each; it is on the disk when this returns.

        Args:
            name: The round.
            persons: Who is charged: all of them, or nobody if one is refused.
            limit: The most that a person may spend in all studies together; None without a limit.
            enter: False to check the limit only.

        Raises:
            LedgerError: If the limit of a person does not cover the round.
        """
        with self._change() as run:
            for person in persons:
                if self._stored(run, name, person)[0] is not None:
                    continue
                if limit is not None:
                    accounts = self._accounts(run, person)
                    own = next(held for held in accounts if held.fingerprint == self._study)
                    Spent(accounts, limit).refuse_beyond(own.most)
                if enter:
                    run.execute(
                        "INSERT INTO rounds (study, person, round, state) "
                        "VALUES (?, ?, ?, 'charged')",
                        (self._study, person, name),
                    )

    def keep(self, name: str, reports: Mapping[str, bytes], day: int) -> dict[str, bytes]:
        """Keep the reports of a charged round, and queue them; the first one kept stays.

        Args:
            name: The round.
            reports: The report of each person.
            day: Today, counted from 1970-01-01.

        Returns:
            Each person's report of the round: this one, or that of a process which was faster.
        """
        kept = dict(reports)
        with self._change() as run:
            for person, report in reports.items():
                state, found = self._stored(run, name, person)
                if state is None:
                    raise StoreError(
                        f"the round is no longer charged in {str(self.path)!r}, and its report is "
                        "not kept; do not clear the folder while a client uses it"
                    )
                if found is not None:
                    kept[person] = found
                    continue
                mark = secrets.token_bytes(_ID_BYTES)
                run.execute(
                    "UPDATE rounds SET state = 'queued', report = ?, id = ?, expires = ? "
                    "WHERE study = ? AND person = ? AND round = ?",
                    (report, mark, day + DAYS, self._study, person, name),
                )
        return kept

    def _stored(
        self, run: sqlite3.Connection, name: str, person: str
    ) -> tuple[str | None, bytes | None]:
        """The state and the report of a person's round, None where there is none."""
        row = run.execute(
            "SELECT state, report FROM rounds WHERE study = ? AND person = ? AND round = ?",
            (self._study, person, name),
        ).fetchone()
        if row is None:
            return None, None
        state, report = row
        if (report is None) != (state == "charged") or not isinstance(report, bytes | None):
            raise self._damaged()
        return state, report

    def accounts(self, person: str) -> tuple[Account, ...]:
        """What every study on this device has cost a person."""
        with self._change() as run:
            return self._accounts(run, person)

    def _accounts(self, run: sqlite3.Connection, person: str) -> tuple[Account, ...]:
        """What every study on this device has cost a person, as one transaction sees it."""
        rows = run.execute(
            "SELECT name, fingerprint, count(round), most FROM studies LEFT JOIN rounds "
            "ON study = fingerprint AND person = ? GROUP BY fingerprint ORDER BY name",
            (person,),
        ).fetchall()
        try:
            return tuple(
                Account(str(name), str(mark), rounds, None if most is None else Fraction(most))
                for name, mark, rounds, most in rows
            )
        except (ValueError, TypeError, ZeroDivisionError):
            raise self._damaged() from None

    # The queue

    def due(self, most: int) -> list[Queued]:
        """The next reports to send, all of one expiry day; their order says nothing about them.

        Args:
            most: The largest number of reports.
        """
        with self._change() as run:
            rows = run.execute(
                "SELECT id, report, expires FROM rounds WHERE study = ? AND state = 'queued' "
                "AND expires = (SELECT min(expires) FROM rounds WHERE study = ? "
                "AND state = 'queued') ORDER BY id LIMIT ?",
                (self._study, self._study, most),
            ).fetchall()
        for mark, report, expires in rows:
            if not (type(mark) is type(report) is bytes and type(expires) is int):
                raise self._damaged()
        return [Queued(*row) for row in rows]

    def settle(
        self,
        batch: Sequence[Queued],
        *,
        refused: Mapping[int, str] | None = None,
        expired: bool = False,
    ) -> None:
        """Note what a collector did with a batch, and forget the ids.

        Args:
            batch: What was sent.
            refused: By place in the batch, why a report was refused; all others are stored.
            expired: Whether the whole batch came too late.
        """
        codes, end = refused or {}, "expired" if expired else "sent"
        ends = [
            (
                "refused" if place in codes else end,
                codes.get(place),
                self._study,
                held.expires,
                held.id,
            )
            for place, held in enumerate(batch)
        ]
        with self._change() as run:
            run.executemany(
                "UPDATE rounds SET state = ?, code = ?, id = NULL "
                "WHERE study = ? AND state = 'queued' AND expires = ? AND id = ?",
                ends,
            )
            self._set_backoff(run, Backoff())

    def expire(self, day: int) -> int:
        """Drop the reports whose last day is before a given one; how many they were."""
        with self._change() as run:
            return run.execute(
                "UPDATE rounds SET state = 'expired', id = NULL "
                "WHERE study = ? AND state = 'queued' AND expires < ?",
                (self._study, day),
            ).rowcount

    def waiting(self) -> int:
        """How many reports wait to be sent."""
        return self.states().get("queued", 0)

    def states(self) -> dict[str, int]:
        """How many rounds are charged only, queued, sent, refused or expired."""
        with self._change() as run:
            rows = run.execute(
                "SELECT state, count(*) FROM rounds WHERE study = ? GROUP BY state", (self._study,)
            )
            return dict(rows.fetchall())

    # Waiting between tries

    def backoff(self) -> Backoff:
        """When the queue may be sent again."""
        with self._change() as run:
            row = run.execute(
                "SELECT tries, tried, wait FROM studies WHERE fingerprint = ?", (self._study,)
            ).fetchone()
        return Backoff(*row)

    def back_off(self, until: Backoff) -> None:
        """Note that a try has failed."""
        with self._change() as run:
            self._set_backoff(run, until)

    def _set_backoff(self, run: sqlite3.Connection, until: Backoff) -> None:
        """Note when the queue may be sent again."""
        run.execute(
            "UPDATE studies SET tries = ?, tried = ?, wait = ? WHERE fingerprint = ?",
            (until.tries, until.tried, until.wait, self._study),
        )

    # Facts about the device

    def secret(self) -> bytes:
        """The device's 32 secret bytes, drawn when they are first needed."""
        with self._change() as run:
            return bytes(self._fact(run, "secret", secrets.token_bytes(_SECRET_BYTES)))

    def see_day(self, day: int, *, force: bool = False) -> int:
        """Note today's date; the latest day that this device has seen.

        Args:
            day: Today, counted from 1970-01-01.
            force: Whether today becomes the latest day even if a later one was seen.
        """
        with self._change() as run:
            latest = int(self._fact(run, "latest day", day))
            if day > latest or (force and day != latest):
                run.execute("UPDATE facts SET value = ? WHERE name = 'latest day'", (day,))
                return day
            return latest

    def _fact(self, run: sqlite3.Connection, name: str, new: Any) -> Any:
        """A fact about the device; the new one if there is none yet, or one of another type."""
        run.execute("INSERT OR IGNORE INTO facts VALUES (?, ?)", (name, new))
        (found,) = run.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        if type(found) is not type(new):
            raise self._damaged()
        return found

    # The file

    @contextlib.contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """One transaction, alone among threads and processes; on the disk when it ends."""
        with self._lock, self._explained():
            run = self._connection
            if run is None:
                raise StoreError("this client is closed; make a new one on the same folder")
            run.execute("BEGIN IMMEDIATE")
            try:
                yield run
                run.execute("COMMIT")
            finally:
                if run.in_transaction:
                    run.execute("ROLLBACK")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn SQLite's errors into the package's own."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._error(error) from None

    def _error(self, error: sqlite3.Error) -> SfumatoError:
        """The error in plain words: what SQLite says about a file, never what is in it."""
        code = (getattr(error, "sqlite_errorcode", None) or sqlite3.SQLITE_ERROR) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return StoreError(
                f"another process has held {str(self.path)!r} for {WAIT_SECONDS:g} seconds, and "
                "only one at a time may write it; try again when it has ended"
            )
        if code == sqlite3.SQLITE_NOTADB:
            return FormatError(
                f"{str(self.path)!r} is not a database of this package, or is damaged; name "
                "another folder, and mind that earlier reports have been spent all the same"
            )
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
            return self._damaged()
        return self._unwritten(str(error))

    def _damaged(self) -> FormatError:
        """The error that the file is not as it was written."""
        return FormatError(
            f"{str(self.path)!r} is damaged or has been edited; restore it from a copy, or name "
            "another folder, and mind that earlier reports have been spent all the same"
        )

    def _unwritten(self, why: str) -> StoreError:
        """The error that the file could not be written."""
        return StoreError(
            f"cannot write {str(self.path)!r} ({why}), and it stays as it was; let this account "
            f"write in the folder {str(self.path.parent)!r}, with room on its disk"
        )

    def close(self) -> None:
        """Close the file; closing again does nothing."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
