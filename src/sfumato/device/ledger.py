"""The ledger on a device: what a person's reports have spent of E, per study and in all.

A study costs its largest E once per round, and what several studies cost adds up. The ledger counts
the rounds themselves, which are charged before a value is encoded. Clearing the device's folder
clears its ledger too: the reports that were made have been spent all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.errors import LedgerError
from sfumato.exact import nearest_float, to_plain
from sfumato.text import odds, visible


@dataclass(frozen=True, slots=True)
class Account:
    """What one study has cost.

    Attributes:
        name: The name of the study.
        fingerprint: Its fingerprint.
        rounds: How many rounds are charged.
        most: The largest E between two records in one round; None if it is unbounded.
    """

    name: str
    fingerprint: str
    rounds: int
    most: Fraction | None

    @property
    def total(self) -> Fraction | None:
        """The cost of all rounds, k·E for k of them; None if it is unbounded."""
        if self.rounds == 0:
            return Fraction(0)
        return None if self.most is None else self.rounds * self.most


@dataclass(frozen=True, slots=True)
class Spent:
    """What a person's reports have spent of E, in numbers and, printed, in plain words.

    Guarantee:
        Whatever the values were and however they changed, the odds of all reports together change
        by at most e^total from one sequence of records to any other.

    Attributes:
        studies: One account per study.
        limit: The most that all studies together may spend; None without a limit.

    Example:
        >>> print(Spent((Account("ages", "ab12", 2, Fraction(3, 2)),), Fraction(4)))
        The reports of this person have spent E = 3 in all.
        - 'ages': 2 rounds at E = 1.5 each, 3 together
        All reports together are at most 20 times likelier from one person than from any other.
        The limit is E = 4, of which 1 is left.
    """

    studies: tuple[Account, ...]
    limit: Fraction | None = None

    @property
    def total(self) -> Fraction | None:
        """The sum over all studies; None if it is unbounded."""
        parts = [account.total for account in self.studies]
        known = [part for part in parts if part is not None]
        return sum(known, Fraction(0)) if len(known) == len(parts) else None

    @property
    def left(self) -> Fraction | None:
        """What is left of the limit, 0 at least; None without a limit."""
        if self.limit is None:
            return None
        total = self.total
        return Fraction(0) if total is None else max(self.limit - total, Fraction(0))

    def refuse_beyond(self, most: Fraction | None) -> None:
        """Refuse one more round that the limit does not cover.

        Args:
            most: The largest E between two records of the study; None if it is unbounded.

        Raises:
            LedgerError: If too little is left; the value plays no part in that.
        """
        left = self.left
        if left is None or (most is not None and self.total is not None and most <= left):
            return
        cost = "is unbounded" if most is None else f"costs E = {to_plain(most)}"
        raise LedgerError(
            f"one more report {cost}, and this person has spent {_amount(self.total)} of the limit "
            f"of E = {to_plain(self.limit or Fraction(0))}, so that no report is made; "
            "raise the limit only if the person agrees"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; an unbounded E is None."""
        return {
            "total": _plain(self.total),
            "limit": _plain(self.limit),
            "left": _plain(self.left),
            "studies": [
                {
                    "name": account.name,
                    "fingerprint": account.fingerprint,
                    "rounds": account.rounds,
                    "most": _plain(account.most),
                    "total": _plain(account.total),
                }
                for account in self.studies
            ],
        }

    def __str__(self) -> str:
        total, limit, left = self.total, self.limit, self.left
        lines = [f"The reports of this person have spent {_amount(total)} in all."]
        for account in self.studies:
            rounds = f"{account.rounds:,} round{'' if account.rounds == 1 else 's'}"
            each = _amount(account.most)
            sum_ = "" if account.total is None else f", {to_plain(account.total)} together"
            lines.append(f"- {account.name!r}: {rounds} at {each} each{sum_}")
        if total is None:
            lines.append("Some pairs of values can be told apart for certain.")
        elif total:
            most = odds(nearest_float(total))
            lines.append(
                f"All reports together are at most {most} likelier from one person than from any "
                "other."
            )
        if limit is not None and left is not None:
            lines.append(f"The limit is E = {to_plain(limit)}, of which {to_plain(left)} is left.")
        return "\n".join(map(visible, lines))


def _amount(e: Fraction | None) -> str:
    """An E in words."""
    return "an unbounded E" if e is None else f"E = {to_plain(e)}"


def _plain(e: Fraction | None) -> int | float | str | None:
    """An E for JSON."""
    return None if e is None else to_plain(e)
