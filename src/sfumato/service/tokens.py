"""Tokens: who may do what. Only their hashes are stored."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Any, Literal

from sfumato.checks import one_of
from sfumato.errors import SfumatoError, near, shown
from sfumato.service.stores.base import Store

#: What a token allows: all; to ask and to see figures; to upload.
Role = Literal["admin", "analyst", "uploader"]
ROLES = ("admin", "analyst", "uploader")
_START = "sfumato_"  # by which tools that look for secrets recognise a token
_BYTES = 32
_LONGEST = 64


class TokenError(SfumatoError, ValueError):
    """A token that cannot be created or revoked."""


@dataclass(frozen=True, slots=True)
class Token:
    """What is known about a token; the token itself is not.

    Attributes:
        name: What it is called, which the log of questions shows.
        role: What it allows.
        day: When it was created, counted from 1970-01-01.
        revoked: When it was revoked, or None.
    """

    name: str
    role: Role
    day: int
    revoked: int | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "name": self.name,
            "role": self.role,
            "created": self.day,
            "revoked": self.revoked,
        }


def create(store: Store, name: str, role: Role, day: int) -> str:
    """Make a token; it is shown this once.

    Args:
        store: Where its hash is kept.
        name: What it is called.
        role: What it allows.
        day: Today.

    Raises:
        TokenError: If there is a token of that name already, even a revoked one.
    """
    one_of(role, "role", ROLES)
    if not (name.strip() and name.isprintable() and len(name) <= _LONGEST):
        raise TokenError(
            f"a token's name must have 1 to {_LONGEST} printable letters, got {shown(name)}"
        )
    token = _START + secrets.token_urlsafe(_BYTES)
    with store.change() as run:
        if run("SELECT 1 FROM tokens WHERE name = ?", (name,)):
            raise TokenError(
                f"there is a token {name!r} already, or was; names stand in the log of questions, "
                "so each is given once: choose another"
            )
        run("INSERT INTO tokens VALUES (?, ?, ?, ?, NULL)", (name, role, _hash(token), day))
    return token


def every(store: Store) -> list[Token]:
    """All tokens, also revoked ones, by name."""
    with store.look() as run:
        rows = run("SELECT name, role, day, revoked FROM tokens ORDER BY name")
    return [Token(*row) for row in rows]


def revoke(store: Store, name: str, day: int) -> None:
    """Revoke a token at once and for good.

    Args:
        store: Where its hash is kept.
        name: What it is called.
        day: Today.

    Raises:
        TokenError: If there is no such token, or it was revoked before.
    """
    with store.change() as run:
        row = run.one("SELECT revoked FROM tokens WHERE name = ?", (name,))
        if row is None:
            names = [one for (one,) in run("SELECT name FROM tokens")]
            raise TokenError(f"there is no token {shown(name)}; {near(name, names)}")
        if row[0] is not None:
            raise TokenError(f"the token {name!r} was revoked before")
        run("UPDATE tokens SET revoked = ? WHERE name = ?", (day, name))


@dataclass(frozen=True, slots=True)
class Holders:
    """The tokens that are valid, as they were when they were read.

    Attributes:
        hashes: The hash of each, and what is known about it.
    """

    hashes: tuple[tuple[bytes, Token], ...]

    @classmethod
    def read(cls, store: Store) -> Holders:
        """Those of a store."""
        with store.look() as run:
            rows = run("SELECT hash, name, role, day, revoked FROM tokens WHERE revoked IS NULL")
        return cls(tuple((bytes(kept), Token(*facts)) for kept, *facts in rows))

    def of(self, token: str) -> Token | None:
        """Whose token this is, if anybody's: every hash is compared, each in constant time."""
        wanted, found = _hash(token), None
        for kept, holder in self.hashes:
            if hmac.compare_digest(kept, wanted):
                found = holder
        return found


def _hash(token: str) -> bytes:
    """What is stored of a token: 256 random bits need neither salt nor a slow hash."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
