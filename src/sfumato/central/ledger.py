"""The ledger: what releases have spent of a study's E, and what is left of it.

Releases compose by adding their metrics. The total is stated when the ledger is made, and every
release is entered before it touches the data.
"""

from __future__ import annotations

import contextlib
import json
import os
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from sfumato.central.chain import (
    append,
    decode,
    encode,
    locked,
    missing,
    read,
    seal,
    start,
    verified,
)
from sfumato.central.data import schema_of
from sfumato.central.spend import Spend, Spending, bound, group_names, worst_share
from sfumato.checks import whole
from sfumato.errors import FormatError, LedgerError, MismatchError, shown
from sfumato.exact import positive, to_plain
from sfumato.files import as_path, read_json, write_whole
from sfumato.metrics.base import Metric
from sfumato.study.files import schema_from_toml
from sfumato.study.schema import Schema
from sfumato.study.study import Study
from sfumato.text import visible

FORMAT = 2
_REPLACED = 1  # the format of a file that is replaced as a whole, by an earlier version
KIND = "sfumato ledger"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One release as the ledger knows it; nothing in it is private.

    Attributes:
        id: Its number, from 1.
        time: When it was entered, in UTC.
        mechanism: What was released, in words.
        spend: How much of E it costs.
        people: How many people the table had, which is public.
        state: "reserved" before it is known to have been released, which costs as much, then
            "released".
        table: The name of the table, or its keyed digest; None where neither was given.
    """

    id: int
    time: str
    mechanism: str
    spend: Spend
    people: int
    state: str
    table: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "id": self.id,
            "time": self.time,
            "mechanism": self.mechanism,
            "spend": self.spend.to_dict(),
            "people": self.people,
            "state": self.state,
            "table": self.table,
        }


class Ledger:
    """A file of all releases from one table, which refuses the one that would spend too much.

    Guarantee:
        Releases that the ledger has let pass are, together, private with `total` times the study's
        E (Kamalaruban et al. 2020, Fact 1): for every pair of cells of every axis the sum of what
        they spent is at most that, compared as exact fractions.

    Entries are appended to the file under the operating system's lock on it. Each event carries a
    digest of the ones before, so that a damaged or shortened file is refused. The digest is not
    secret: it guards against accidents, not against whoever keeps the file.

    Attributes:
        path: Where the file is.
        schema: The axes and guarantees of the study.
        fingerprint: That of the study that the ledger was made with.
        total: How many times its E all releases together may spend.
        entries: The releases, in their order.

    Example:
        >>> import sfumato as sf
        >>> from tempfile import TemporaryDirectory
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
        >>> with TemporaryDirectory() as folder:
        ...     ledger = sf.central.Ledger.create(f"{folder}/ages.ledger", study)
        ...     entry = ledger.reserve("1/4", mechanism="a histogram", people=1000)
        ...     print(ledger.remaining)
        3/4
    """

    def __init__(
        self, path: Path, document: Mapping[str, Any], known: Ledger | None = None
    ) -> None:
        """Used by `create` and `load`; `known` saves reading the same study again."""
        self.path = path
        self._document: Mapping[str, Any] = document
        if known is not None and known._document["study"] == document["study"]:
            self.schema: Schema = known.schema
        else:
            what = f"the study in {path.name!r}"
            self.schema, _ = schema_from_toml(document["study"], what=what)
        if not isinstance(document["fingerprint"], str):
            raise FormatError("the ledger's fingerprint must be a text")
        self.fingerprint: str = document["fingerprint"]
        self.total: Fraction = positive(document["total"], "total")
        self.entries: tuple[Entry, ...] = _entries(document["events"], self.schema)

    @classmethod
    def create(
        cls, path: str | Path, study: Study | Schema, total: Fraction | float | str = 1
    ) -> Ledger:
        """Begin a ledger in a new file.

        Args:
            path: Where; a file that is there already is refused.
            study: Whose E is spent.
            total: How many times its E all releases together may spend.
        """
        file = Path(path)
        group_names(schema_of(study))  # refuses names that one account would stand for twice
        head: dict[str, Any] = {
            "kind": KIND,
            "format": FORMAT,
            "study": study.to_toml(),
            "fingerprint": study.fingerprint,
            "total": to_plain(positive(total, "total")),
        }
        _write(file, encode(head, []), replace=False)
        return cls(file, {**head, "events": [], "last": start(head)})

    @classmethod
    def load(cls, path: str | Path) -> Ledger:
        """Read a ledger; a damaged, edited or newer file is refused.

        Raises:
            FormatError: If it is not as it was written.
        """
        return _read(as_path(path))

    # What is left

    def used(self) -> dict[str, Fraction]:
        """The share of E that is spent, by axis: for the pair of cells with the largest share."""
        return _used(self.schema, [entry.spend for entry in self.entries])

    def left(self) -> dict[str, Fraction]:
        """The share of E that is left, by axis."""
        return {name: self.total - used for name, used in self.used().items()}

    @property
    def remaining(self) -> Fraction:
        """The largest share of E that a release may still spend on all axes at once."""
        return min(self.left().values())

    def check(self, spend: Spending) -> Spend:
        """Refuse a cost that would go beyond the total; nothing is entered.

        Args:
            spend: A share of E, or by axis a share or a metric.

        Raises:
            LedgerError: If too little is left; the message says how much is.
        """
        wanted = Spend.of(spend, self.schema)
        after = _used(self.schema, [*(entry.spend for entry in self.entries), wanted])
        over = [name for name, used in after.items() if used > self.total]
        if over:
            left = self.left()
            shown = ", ".join(f"{name} has {left[name]} of E left" for name in over)
            raise LedgerError(
                f"this release would spend {wanted}, more than is left: {shown} of a total of "
                f"{self.total}; spend less, or ask nothing more of these people"
            )
        return wanted

    # What happens

    def reserve(
        self, spend: Spending, *, mechanism: str, people: int, table: str | None = None
    ) -> Entry:
        """Enter a release before it touches the data; from here on its cost is spent.

        Args:
            spend: A share of E, or by axis a share or a metric.
            mechanism: What is released, in words.
            people: Number of people in the table.
            table: The table's name or keyed digest, `Data.mark`.

        Raises:
            LedgerError: If too little is left.
            MismatchError: If earlier releases were made from another table.
        """
        if not isinstance(mechanism, str):
            raise LedgerError(f"mechanism must be a text in words, got {shown(mechanism)}")
        count = whole(people, "people", error=LedgerError)

        def event() -> dict[str, Any]:
            self.refuse_other_table(table)
            return {
                "event": "reserve",
                "id": len(self.entries) + 1,
                "time": _now(),
                "mechanism": mechanism,
                "spend": self.check(spend).to_dict(),
                "people": count,
                **({} if table is None else {"table": table}),
            }

        self._enter(event)
        return self.entries[-1]

    def settle(self, number: int) -> Entry:
        """Note that a reserved release has been made."""
        number = whole(number, "number", least=1, error=LedgerError)

        def event() -> dict[str, Any]:
            if number > len(self.entries):
                raise LedgerError(f"the ledger has no entry {number}; it has {len(self.entries)}")
            if self.entries[number - 1].state != "reserved":
                raise LedgerError(f"entry {number} of the ledger has been released already")
            return {"event": "settle", "id": number, "time": _now()}

        self._enter(event)
        return self.entries[number - 1]

    def refuse_other(self, study: Study | Schema) -> None:
        """Refuse data of a study with other axes or guarantees; its channels do not matter."""
        other = schema_of(study)
        if other.fingerprint != self.schema.fingerprint:
            raise MismatchError(
                f"ledger {self.path.name!r} belongs to study {self.schema.name!r} "
                f"({self.schema.fingerprint[:12]}), not to {other.name!r} "
                f"({other.fingerprint[:12]}); use the ledger of these people"
            )

    @property
    def table(self) -> str | None:
        """What the ledger knows its table by: a name, or a keyed digest; None before it is told."""
        return next((entry.table for entry in self.entries if entry.table is not None), None)

    def refuse_other_table(self, mark: str | None) -> None:
        """Refuse another table than that of earlier releases, where the ledger knows it.

        Args:
            mark: The name or keyed digest of the table, `Data.mark`.
        """
        if self.table is not None and mark != self.table:
            got = "has neither name nor key" if mark is None else f"is {_shown(mark)}"
            raise MismatchError(
                f"ledger {self.path.name!r} belongs to table {_shown(self.table)}, and the table "
                f"given {got}: use the ledger of this table, or give the name or key that "
                "earlier releases were made with. A table that has changed needs a new ledger, and "
                "what people in both have spent adds up"
            )

    def _enter(self, event: Callable[[], dict[str, Any]]) -> None:
        """Hold the lock, read the file anew, and append what `event` makes of it, or nothing."""
        if self._document["format"] == _REPLACED:
            _renew(self.path)
        with locked(self.path) as handle:
            data = read(handle)
            self._become(_parsed(self.path, data, self))
            if self._document["format"] == _REPLACED:
                raise LedgerError(
                    f"{str(self.path)!r} was replaced by a copy that an earlier version made; load "
                    "it again, and mind that releases missing from it have been spent all the same"
                )
            sealed = seal(self._document["last"], event())
            events = [*self._document["events"], sealed]
            document = {**self._document, "events": events, "last": sealed["digest"]}
            try:  # what cannot be read back must not be written
                grown = Ledger(self.path, read_json(json.dumps(document)), self)
            except UnicodeEncodeError:
                raise LedgerError(
                    "the words of a release must be text that a file can hold, got a character "
                    "that is half of another; leave it out"
                ) from None
            try:
                append(self.path, handle, grown._document, decode(data)[1])
            except OSError as error:
                raise _unwritten(self.path, error) from None
            self._become(grown)

    def _become(self, other: Ledger) -> None:
        """Take over what another reading of the file found, if it is about the same study."""
        self.refuse_other(other.schema)
        self.total, self.entries, self._document = other.total, other.entries, other._document

    # In words

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "study": self.schema.name,
            "fingerprint": self.fingerprint,
            "total": to_plain(self.total),
            "used": {name: to_plain(share) for name, share in self.used().items()},
            "remaining": to_plain(self.remaining),
            "table": self.table,
            "entries": [entry.to_dict() for entry in self.entries],
        }

    def __repr__(self) -> str:
        return (
            f"<ledger of study {self.schema.name!r}: {len(self.entries)} releases, "
            f"{self.remaining} of E left>"
        )

    def __str__(self) -> str:
        table = "" if self.table is None else f", table {_shown(self.table)}"
        may = f"{_times(self.total)} may be spent in all"
        lines = [f"Ledger of study {self.schema.name!r}{table}: {may}."]
        for entry in self.entries:
            state = "" if entry.state == "released" else f" ({entry.state})"
            text = f"{entry.id}. {entry.time}  {entry.mechanism}; spent {entry.spend}{state}"
            lines += textwrap.wrap(text, 96, subsequent_indent="   ")
        left = self.left()
        shown = ", ".join(f"{share} for {name}" for name, share in left.items())
        same = len(set(left.values())) == 1
        lines.append(f"Left of E: {self.remaining if same else shown}.")
        return "\n".join(map(visible, lines))


def _used(schema: Schema, spends: list[Spend]) -> dict[str, Fraction]:
    """The share of E that is spent, by group of axes."""
    used = {}
    for name, group in zip(group_names(schema), schema.groups, strict=True):
        parts = [spend.on(name) for spend in spends]
        shares = sum((part for part in parts if isinstance(part, Fraction)), Fraction(0))
        stated = [bound(part, group, schema) for part in parts if isinstance(part, Metric)]
        worst = worst_share(stated, group.metric)
        if worst is None:
            raise LedgerError(
                f"axis {name!r}: this release would tell values apart for certain that the "
                "study protects; spend a finite E on every pair that the study protects"
            )
        used[name] = shares + worst
    return used


def _shown(mark: str) -> str:
    """A table's name or digest, cut where it is long."""
    return repr(mark if len(mark) <= 40 else f"{mark[:36]}…")


def _times(total: Fraction) -> str:
    """A total in words."""
    return "E" if total == 1 else f"{total} times E"


def _now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _entries(events: list[dict[str, Any]], schema: Schema) -> tuple[Entry, ...]:
    """The releases that the events describe."""
    entries: list[dict[str, Any]] = []
    for event in events:
        _check_kinds(event)
        if event["event"] == "reserve" and event["id"] == len(entries) + 1:
            entries.append({key: event[key] for key in ("id", "time", "mechanism", "people")})
            entries[-1] |= {"spend": Spend.from_dict(event["spend"], schema), "state": "reserved"}
            entries[-1]["table"] = event.get("table")
        elif event["event"] == "settle" and 1 <= event["id"] <= len(entries):
            entries[event["id"] - 1]["state"] = "released"
        else:
            raise FormatError(f"the ledger has an event it cannot know: {event['event']!r}")
    return tuple(Entry(**entry) for entry in entries)


def _check_kinds(event: Mapping[str, Any]) -> None:
    """Refuse an event whose parts are not of their kind."""
    kinds = {"id": int, "time": str}
    kinds |= {"mechanism": str, "people": int} if event["event"] == "reserve" else {}
    kinds |= {"table": str} if "table" in event else {}
    wrong = [name for name, kind in kinds.items() if type(event[name]) is not kind]
    if wrong or event.get("people", 0) < 0:
        raise FormatError(f"the ledger has an event with a wrong {(wrong or ['people'])[0]}")


def _read(file: Path) -> Ledger:
    """The ledger in a file, whole and unchanged."""
    try:
        try:
            return _parsed(file, file.read_bytes())
        except FormatError:  # as it may be if a writer was met halfway
            return _parsed(file, file.read_bytes())
    except FileNotFoundError:
        raise missing(file) from None
    except OSError:
        raise FormatError(f"{str(file)!r} is not a readable ledger") from None


def _parsed(file: Path, data: bytes, known: Ledger | None = None) -> Ledger:
    """The ledger that a file holds; `known` saves reading the same study again."""
    what = repr(str(file))
    try:
        top = read_json(data if data.startswith(b"{\n") else data.partition(b"\n")[0])
    except ValueError:
        raise FormatError(f"{what} is not a readable ledger") from None
    version = top.get("format") if isinstance(top, dict) else None
    if type(version) is not int or version < 1 or top.get("kind") != KIND:
        raise FormatError(f"{what} is not a ledger; use a file that 'sfumato ledger new' wrote")
    if version > FORMAT:
        raise FormatError(
            f"{what} has format {version}, newer than this package's {FORMAT}; update sfumato"
        )
    with contextlib.suppress(KeyError, TypeError, AttributeError, ValueError, OverflowError):
        document = top if version == _REPLACED else decode(data)[0]
        if verified(document):
            return Ledger(file, document, known)
    raise FormatError(
        f"{what} is damaged or has been edited: its digests do not match. Restore it from a "
        "copy; releases that are missing from it have been spent all the same"
    )


def _renew(file: Path) -> None:
    """Bring a file of an earlier version into the form to which entries can be appended."""
    with locked(file) as handle:
        document = _parsed(file, read(handle))._document
        if document["format"] == _REPLACED:
            _refuse_hard_links(file)
            head = {key: held for key, held in document.items() if key not in ("events", "last")}
            plain = [{k: v for k, v in e.items() if k != "digest"} for e in document["events"]]
            _write(file, encode({**head, "format": FORMAT}, plain))


def _refuse_hard_links(file: Path) -> None:
    """Refuse a file with several names: it would be replaced under one of them only."""
    names = file.stat().st_nlink
    if names > 1:
        raise LedgerError(
            f"cannot write {str(file)!r}: an earlier version made it, and it has {names} names "
            "(hard links): under the others it would stay as it is, and its E could be spent "
            "again. Remove the other names, and let symbolic links lead to it instead"
        )


def _write(file: Path, data: bytes, *, replace: bool = True) -> None:
    """Write a whole ledger, and make sure that it is on the disk."""
    try:
        write_whole(file, lambda part: part.write_bytes(data), replace=replace)
    except FileExistsError:
        raise LedgerError(
            f"there is already a file {str(file)!r}; load that ledger, or name another file: a "
            "second ledger for the same people would spend E twice"
        ) from None
    except FormatError as error:
        raise LedgerError(str(error)) from None
    except OSError as error:
        raise _unwritten(file, error) from None
    with contextlib.suppress(OSError):  # not every system can: then the file alone must do
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _unwritten(file: Path, error: OSError) -> LedgerError:
    """The error that a ledger could not be written."""
    return LedgerError(
        f"cannot write {str(file)!r} ({error.strerror}), and the ledger stays as it was; let this "
        f"account write in the folder {str(file.parent)!r}, with room on its disk"
    )
