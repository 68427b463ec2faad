"""The tables of a store, and how those of an earlier version become those of this one.

The statements are the same for all databases but for two words: `{bytes}` is the type of a text of
bytes, and `{number}` that of a number which the database counts up by itself and never gives out
twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from sfumato.errors import FormatError

#: The statements that lead from each version to the next; a store of version k has had the first k.
MIGRATIONS: tuple[str, ...] = (
    """
CREATE TABLE studies (
  number {number}, fingerprint TEXT NOT NULL UNIQUE, file TEXT NOT NULL, program TEXT NOT NULL,
  explanation TEXT NOT NULL, audit TEXT NOT NULL, minimum BIGINT NOT NULL, keep TEXT NOT NULL,
  day BIGINT NOT NULL, version BIGINT NOT NULL DEFAULT 0, reports BIGINT NOT NULL DEFAULT 0
);
CREATE TABLE segments (
  number {number}, study BIGINT NOT NULL, expires BIGINT NOT NULL, reports BIGINT NOT NULL,
  data {bytes} NOT NULL
);
CREATE INDEX segments_of_study ON segments (study, number);
CREATE TABLE ids (
  study BIGINT NOT NULL, id {bytes} NOT NULL, expires BIGINT NOT NULL, PRIMARY KEY (study, id)
){rowless};
CREATE TABLE tallies (
  number {number}, study BIGINT NOT NULL, reports BIGINT NOT NULL, data {bytes} NOT NULL
);
CREATE INDEX tallies_of_study ON tallies (study, number);
CREATE TABLE counters (
  study BIGINT NOT NULL, reason TEXT NOT NULL, count BIGINT NOT NULL, PRIMARY KEY (study, reason)
){rowless};
CREATE TABLE quarantine (
  number {number}, study BIGINT NOT NULL, reason TEXT NOT NULL, day BIGINT NOT NULL,
  data {bytes} NOT NULL
);
CREATE TABLE tokens (
  name TEXT PRIMARY KEY, role TEXT NOT NULL, hash {bytes} NOT NULL, day BIGINT NOT NULL,
  revoked BIGINT
){rowless};
CREATE TABLE questions (number BIGINT PRIMARY KEY, entry TEXT NOT NULL)
""",
)

#: The columns of every table, in the order in which a backup copies them.
COLUMNS: dict[str, tuple[str, ...]] = {
    "facts": ("name", "value"),
    "studies": (
        "number",
        "fingerprint",
        "file",
        "program",
        "explanation",
        "audit",
        "minimum",
        "keep",
        "day",
        "version",
        "reports",
    ),
    "segments": ("number", "study", "expires", "reports", "data"),
    "ids": ("study", "id", "expires"),
    "tallies": ("number", "study", "reports", "data"),
    "counters": ("study", "reason", "count"),
    "quarantine": ("number", "study", "reason", "day", "data"),
    "tokens": ("name", "role", "hash", "day", "revoked"),
    "questions": ("number", "entry"),
}
#: The columns that tell the rows of every table apart.
KEYS: dict[str, tuple[str, ...]] = {
    "facts": ("name",),
    "studies": ("number",),
    "segments": ("number",),
    "ids": ("study", "id"),
    "tallies": ("number",),
    "counters": ("study", "reason"),
    "quarantine": ("number",),
    "tokens": ("name",),
    "questions": ("number",),
}
#: Tables whose number the database counts up.
NUMBERED = ("studies", "segments", "tallies", "quarantine")


class Executes(Protocol):
    """Runs single statements."""

    def __call__(self, statement: str, values: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        """Run one statement."""
        ...


def prepare(
    run: Executes, tables: Iterable[str], words: dict[str, str], what: str, *, make: bool = True
) -> None:
    """Make the tables of a new store, or bring those of an older one up to date.

    Args:
        run: Runs statements in one transaction.
        tables: The names of the tables that are there.
        words: The database's own words for what stands in braces.
        what: What messages call the store.
        make: Whether to make tables where there are none.

    Raises:
        FormatError: If the store is newer than this package, or of another program.
    """
    found = set(tables)
    if "facts" not in found:
        if found & set(COLUMNS) or not make:
            raise FormatError(f"{what} is not the store of a collector; name another one")
        run("CREATE TABLE facts (name TEXT PRIMARY KEY, value BIGINT NOT NULL)")
        run("INSERT INTO facts VALUES ('version', 0)")
    rows = run("SELECT value FROM facts WHERE name = 'version'")
    version = rows[0][0] if rows else None
    if not isinstance(version, int):
        raise FormatError(f"{what} is not the store of a collector; name another one")
    if version > len(MIGRATIONS):
        raise FormatError(
            f"{what} has version {version}, newer than this package's {len(MIGRATIONS)}; update "
            "sfumato"
        )
    for statements in MIGRATIONS[version:]:
        for statement in statements.format(**words).split(";"):
            run(statement)
    if version < len(MIGRATIONS):
        run("UPDATE facts SET value = ? WHERE name = 'version'", (len(MIGRATIONS),))
