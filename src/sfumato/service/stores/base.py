"""What every store does: transactions, and the few statements that databases write differently."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

from sfumato.errors import StoreError

Row = tuple[Any, ...]


class FullError(StoreError):
    """The disk of the store is full; nothing was written."""


class Run(ABC):
    """A transaction. Statements write `?` for their values.

    Attributes:
        lock: What follows a SELECT so that no other transaction changes its rows until this ends.
    """

    lock: str

    @abstractmethod
    def __call__(self, statement: str, values: tuple[Any, ...] = ()) -> list[Row]:
        """Run one statement, and return its rows.

        Args:
            statement: The statement.
            values: Its values.
        """

    @abstractmethod
    def many(self, statement: str, rows: Iterable[Row]) -> None:
        """Run one statement for each of many rows of values.

        Args:
            statement: The statement.
            rows: The values of each.
        """

    @abstractmethod
    def known(self, study: int, ids: bytes) -> list[int]:
        """The places of the ids that have been counted.

        Args:
            study: The study's number.
            ids: Ids one after another, in the order of their bytes.
        """

    @abstractmethod
    def enter(self, study: int, ids: bytes, expires: int) -> bool:
        """Enter ids; none of them if one has been counted before, which costs less than to look.

        Args:
            study: The study's number.
            ids: Ids one after another, in the order of their bytes.
            expires: Until which day to keep them.

        Returns:
            Whether they were entered.
        """

    def one(self, statement: str, values: tuple[Any, ...] = ()) -> Row | None:
        """The first row of a statement, or None.

        Args:
            statement: The statement.
            values: Its values.
        """
        rows = self(statement, values)
        return rows[0] if rows else None

    def fact(self, name: str) -> int:
        """A number that the store keeps by its name; 0 if it was never set."""
        row = self.one("SELECT value FROM facts WHERE name = ?", (name,))
        return 0 if row is None else int(row[0])

    def set_fact(self, name: str, value: int) -> None:
        """Keep a number.

        Args:
            name: Its name.
            value: The number.
        """
        self(
            "INSERT INTO facts (name, value) VALUES (?, ?) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (name, value),
        )

    def count(self, study: int, reasons: dict[str, int]) -> None:
        """Add to the counters of a study.

        Args:
            study: The study's number.
            reasons: How many to add for each reason.
        """
        for reason, many in reasons.items():
            if many:
                self(
                    "INSERT INTO counters (study, reason, count) VALUES (?, ?, ?) "
                    "ON CONFLICT (study, reason) DO UPDATE "
                    "SET count = counters.count + excluded.count",
                    (study, reason, many),
                )


class Store(ABC):
    """A database with the tables of a collector, which threads and processes can share.

    Attributes:
        name: What messages call it; never a password.
    """

    name: str

    @abstractmethod
    def change(self) -> AbstractContextManager[Run]:
        """A transaction that writes; it is durable once the block has ended.

        Raises:
            FullError: If the disk is full.
            StoreError: If the database fails otherwise.
        """

    @abstractmethod
    def look(self) -> AbstractContextManager[Run]:
        """A transaction that reads one state of the store, and waits for no writer."""

    @abstractmethod
    def free_bytes(self) -> int | None:
        """How much room is left on the disk; None where that cannot be known."""

    @abstractmethod
    def size_bytes(self) -> int:
        """How much room the store takes."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""

    @abstractmethod
    def renumber(self, run: Run) -> None:
        """Let numbers be counted up from the highest there is, after rows were copied in.

        Args:
            run: The transaction that copied them.
        """
