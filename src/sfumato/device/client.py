"""The client: encodes on the device, remembers, queues on the disk and sends.

Only the standard library is loaded. What leaves the device is reports: a value is never sent, kept
in a file or shown in a message. What a person is called stays on the device, too.
"""

from __future__ import annotations

import contextlib
import hmac
import math
import secrets
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Literal, Protocol, Self, runtime_checkable

from sfumato.device.ledger import Spent
from sfumato.device.memory import Backoff, Memory, Queued
from sfumato.device.program import MOST_BYTES, Program
from sfumato.device.upload import Answer, Collector
from sfumato.device.wire import MEDIA_TYPE, Batch
from sfumato.errors import (
    DataError,
    FormatError,
    LedgerError,
    MismatchError,
    StoreError,
    StudyError,
    UploadError,
    shown,
)
from sfumato.exact import positive
from sfumato.files import as_path
from sfumato.text import MOST_LETTERS, is_writable, refuse_name

FIRST_WAIT = 1.0  # seconds after the first failure, doubled each time
LONGEST_WAIT = 600.0
MOST_REPORTS = 1_000  # in one batch
_AT_ONCE = 256  # reports that are charged, made and kept together
_DAY = 86_400
_BUSY = frozenset({0, 429, 500, 502, 503, 504, 507})
_STOPS = {
    400: "says that the batch is damaged",
    401: "asks for a token, or does not accept this one; give the right token",
    403: "does not accept this token; give the right one",
    404: "does not know this study; check the url, or ask the collector's owner to add the study",
    413: "does not even take a single report at a time",
    415: "takes another version of batches; update sfumato",
}


@runtime_checkable
class Compiled(Protocol):
    """Anything that can be compiled to a device program, such as a study."""

    def device_program(self) -> Program:
        """The device program."""
        ...


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of the queue.

    Attributes:
        accepted: How many reports the collector has stored now.
        repeated: How many it had stored before.
        refused: How many it has refused for good.
        expired: How many were dropped since their last day has passed.
        waiting: How many still wait.
        retry_after: After how many seconds to send again; None if none waits.
        reason: Why some wait, in words.
    """

    accepted: int = 0
    repeated: int = 0
    refused: int = 0
    expired: int = 0
    waiting: int = 0
    retry_after: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Made:
    """The reports of several persons in one round.

    Attributes:
        reports: The report of each person.
        made: How many of them are new.
        remembered: How many had been made before.
    """

    reports: Mapping[str, bytes]
    made: int
    remembered: int


class Client:
    """Makes and sends the reports of one person on one device, or of several who share it.

    By default there is one report per study, person and round, whatever the value. Asking again
    returns the stored report, so that repeating neither averages the noise away nor shows that a
    value has changed. Each new round is charged to the person before the value is encoded.

    With `memory="value"` the random words of a report are derived from a secret of the device, the
    program, the person and the value: the same value gives the same report in every round
    (permanent randomised response). The noise then cannot be averaged away over rounds while the
    value stays the same. It gives something away: a collector that can link the reports of a
    person sees when the value has changed, and when it has returned. Each round is charged all the
    same.

    The files in the folder protect against the collector only: whoever reads them sees the
    reports and whose they are, and with `memory="value"` the secret, with which each value can be
    tried. Clearing the folder loses memory, queue and ledger.

    Guarantee:
        Over k rounds the odds of all reports of a person in a study change by at most e^(k·E),
        where E is the program's `most`; over several studies these exponents add.

    Args:
        study: A study, or its device program: a `Program`, its text or the path of its file.
        url: Where the collector's routes begin, such as "https://collector.example"; without it,
            reports are made and queued, and cannot be sent.
        folder: Where the device's file is kept, one folder for all studies of its persons.
        digest: The digest that is pinned in the app, which a device program must have.
        memory: "round", or "value" for permanent randomised response.
        limit: The most that a person's reports of all studies in the folder may spend of E
            together. Every client in the folder states its own limit and compares the same sum
            with it.
        token: What the collector asks for, if anything.
        clock: Gives the seconds since 1970-01-01 (UTC).

    Raises:
        MismatchError: If the program's digest is not the pinned one, or none is pinned.
        FormatError: If the program or the folder's file is damaged, newer, or not one of ours.
        StoreError: If the folder cannot be written.

    Example:
        >>> import sfumato as sf
        >>> from tempfile import TemporaryDirectory
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.02))])
        >>> with TemporaryDirectory() as folder, Client(study, folder=folder) as client:
        ...     first = client.report({"age": 31}, round="May")
        ...     print(client.report({"age": 32}, round="May") == first)
        ...     print(client.spent())
        True
        The reports of this person have spent E = 1.98 in all.
        - 'ages': 1 round at E = 1.98 each, 1.98 together
        All reports together are at most 7.2 times likelier from one person than from any other.
    """

    def __init__(
        self,
        study: Compiled | Program | str | bytes | Path,
        url: str | None = None,
        *,
        folder: str | Path,
        digest: str | None = None,
        memory: Literal["round", "value"] = "round",
        limit: Fraction | float | str | None = None,
        token: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if memory not in ("round", "value"):
            raise StudyError(f"memory must be 'round' or 'value', got memory={shown(memory)}")
        self.program = _program(study, digest)
        self.limit = None if limit is None else positive(limit, "limit")
        self._collector = None if url is None else Collector(url, token)
        self._by_value = memory == "value"
        self._clock = clock
        self._most = MOST_REPORTS
        self._memory = Memory(
            as_path(folder),
            fingerprint=self.program.fingerprint,
            digest=self.program.digest,
            name=self.program.name,
            most=self.program.most,
        )

    def report(self, record: Mapping[str, object], *, round: str = "", person: str = "") -> bytes:
        """The report of a round: the stored one, or a new one, which is queued.

        The report is on the disk when this returns. A record that does not fit the study costs
        nothing and leaves no report, which a collector may notice; an axis that clips has no such
        values.

        Args:
            record: Values by axis name.
            round: What the round is called; it must not depend on the value.
            person: Whose report it is, where several persons share the device; it never leaves
                the device.

        Raises:
            DataError: If a value is missing or does not fit; values are never shown.
            LedgerError: If the limit does not cover one more round, whatever the value.
            StoreError: If the file cannot be written, or if the clock has gone backwards.
        """
        _refuse_person(person)
        return self.report_all({person: record}, round=round).reports[person]

    def report_all(
        self,
        records: Mapping[str, Mapping[str, object]],
        *,
        round: str = "",
        seen: Callable[[int, int], None] | None = None,
    ) -> Made:
        """The reports of several persons in one round, as `report` makes each of them.

        All limits and all records are checked before anybody is charged. Then 256 reports at a
        time are charged, made and kept, which is far faster than one by one. If the process ends
        before this returns, calling it again makes the rest.

        Args:
            records: The record of each person: values by axis name.
            round: What the round is called; it must not depend on the values.
            seen: Told how many persons are done, and how many there are.

        Raises:
            DataError: If a value is missing or does not fit; values are never shown.
            LedgerError: If a limit does not cover one more round, whatever the values.
            StoreError: If the file cannot be written, or if the clock has gone backwards.
        """
        if not isinstance(round, str):
            raise StudyError(f"round must be a text, got round={shown(round)}")
        refuse_name(round, "round")
        if not isinstance(records, Mapping):
            raise DataError(
                f"records must be a dict of records by person, got {type(records).__name__}"
            )
        for person in records:
            _refuse_person(person)
        total = len(records)
        found = self._memory.stored(round, records)
        remembered = len(found)
        new = {person: place for place, person in enumerate(records, 1) if person not in found}
        if new:
            day = self._today()
            self._check(new, records, round)
            persons = list(new)
            for start in range(0, len(persons), _AT_ONCE):
                chunk = {person: records[person] for person in persons[start : start + _AT_ONCE]}
                found |= self._made(chunk, round, day)
                if seen is not None:
                    seen(len(found), total)
        return Made({person: found[person] for person in records}, total - remembered, remembered)

    def _check(
        self, new: Mapping[str, int], records: Mapping[str, Mapping[str, object]], name: str
    ) -> None:
        """Refuse what a limit does not cover, before any value is looked at, or does not fit."""
        total = len(records)
        if self.limit is not None:
            for person, place in new.items():
                with _placed(place, total):
                    self._memory.charge(name, [person], self.limit, enter=False)
        for person, place in new.items():
            with _placed(place, total):
                self.program.codes(records[person])

    def _made(
        self, records: Mapping[str, Mapping[str, object]], name: str, day: int
    ) -> dict[str, bytes]:
        """New reports, charged before they are encoded."""
        held = {person: dict(record) for person, record in records.items()}
        codes = {person: self.program.codes(record) for person, record in held.items()}
        self._memory.charge(name, held, self.limit)
        secret = self._memory.secret() if self._by_value else None
        made = {}
        for person, record in held.items():
            words = None
            if secret is not None:
                words = _words(secret, self.program.digest, person, codes[person]).__next__
            made[person] = self.program.encode(record, words=words)
        return self._memory.keep(name, made, day)

    def send(self, *, wait: float = 0.0) -> Sent:
        """Send what is due: batches of one expiry day, with the same ids on every try.

        After a failure nothing is due for a while: 1 s, doubled each time up to 10 minutes, times
        a random factor from ½ to 1½, and never less than the collector asks for.

        Args:
            wait: For how many seconds to keep trying if something is left to send.

        Raises:
            UploadError: If the collector refuses for a reason that trying again does not mend; the
                queue is kept.
            StoreError: If the outcome cannot be written; the reports are sent again, with the same
                ids, and count once.
        """
        until = time.monotonic() + wait
        sums: Counter[str] = Counter()
        while True:
            pause, reason = self._pass(sums)
            if pause is None or pause > until - time.monotonic():
                return Sent(
                    **sums, waiting=self._memory.waiting(), retry_after=pause, reason=reason
                )
            _sleep(pause)

    def _pass(self, sums: Counter[str]) -> tuple[float | None, str]:
        """Send what is due, once; how long to wait if something is left, and why it is."""
        if self._collector is None:
            raise UploadError("this client has no address to send to; make it with url=")
        today = self._day()
        self._memory.see_day(today)
        sums["expired"] += self._memory.expire(today)
        while batch := self._memory.due(self._most):
            left = self._memory.backoff().left(self._clock())
            if left > 0:
                return left, "waiting after a failure"
            ids, reports = zip(*((held.id, held.report) for held in batch), strict=True)
            data = Batch(self.program.fingerprint, batch[0].expires, ids, reports).to_bytes()
            answer = self._collector.post(self.program.fingerprint, data, MEDIA_TYPE)
            if not self._settled(answer, batch, sums):
                return self._back_off(answer)
        return None, ""

    def _settled(self, answer: Answer, batch: list[Queued], sums: Counter[str]) -> bool:
        """Note what a collector did with a batch; False if that is not known yet."""
        if answer.status in (202, 207):
            refused = answer.refused(len(batch))
            if refused is None or (refused and answer.status == 202):
                return False  # not an answer of the protocol: the same ids go out again
            self._memory.settle(batch, refused=refused)
            sums["refused"] += len(refused)
            for name in ("accepted", "repeated"):
                sums[name] += answer.number(name) or 0
        elif answer.status == 410 and answer.body.get("code") == "expired":
            self._memory.settle(batch, expired=True)
            sums["expired"] += len(batch)
        elif answer.status == 413 and len(batch) > 1:
            self._most = max(1, min(len(batch) // 2, answer.number("most") or len(batch)))
        elif answer.status in _BUSY:
            return False
        else:
            why = _STOPS.get(answer.status, "gave an answer that the upload protocol does not know")
            raise UploadError(
                f"the collector {why} (status {answer.status}); all {self._memory.waiting()} "
                "reports stay in the queue, and sending again uses the same ids"
            )
        return True

    def _back_off(self, answer: Answer) -> tuple[float, str]:
        """Note a failure; how long to wait after it, and why."""
        tries = self._memory.backoff().tries
        wait = min(FIRST_WAIT * 2.0 ** min(tries, 30), LONGEST_WAIT)
        wait *= 0.5 + secrets.randbits(32) / 2**32
        wait = max(wait, answer.retry_after)
        self._memory.back_off(Backoff(tries + 1, self._clock(), wait))
        return wait, answer.reason or f"the collector answered with status {answer.status}"

    def spent(self, person: str = "") -> Spent:
        """What a person's reports of all studies in the folder have spent of E, in plain words.

        Args:
            person: Whose reports, as `report` was told.
        """
        _refuse_person(person)
        return Spent(self._memory.accounts(person), self.limit)

    def accept_clock(self) -> None:
        """Take today's date as right, if the clock was ahead before and has been set right."""
        self._memory.see_day(self._day(), force=True)

    def close(self) -> None:
        """Close the folder's file; what is queued stays."""
        self._memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<client of study {self.program.name!r} in {str(self._memory.path.parent)!r}>"

    # The clock

    def _day(self) -> int:
        """Today, counted from 1970-01-01."""
        return math.floor(self._clock() / _DAY)

    def _today(self) -> int:
        """Today; refused if this device has seen a day that is later by more than one."""
        day = self._day()
        latest = self._memory.see_day(day)
        if day < latest - 1:
            raise StoreError(
                f"the clock has gone back by {latest - day} days since this device last made or "
                "sent a report, so that a report would expire too early, and none is made; set "
                "the clock right, or call accept_clock() if it is right now and was ahead before"
            )
        return day


def _sleep(seconds: float) -> None:
    """Wait between tries."""
    time.sleep(seconds)


def _program(study: Compiled | Program | str | bytes | Path, digest: str | None) -> Program:
    """The device program, which has the pinned digest unless it was compiled here."""
    if not isinstance(study, Program):
        if isinstance(study, Compiled):
            program = study.device_program()
            return program if digest is None else Program.read(program.to_text(), digest=digest)
        if not isinstance(study, str | bytes | Path):
            raise StudyError(
                f"a client needs a study or a device program, got {shown(study)}; give a Study, a "
                "Program, its text or the path of its file"
            )
    if digest is None:
        raise MismatchError(
            "a device program must have the digest that is pinned in the app, and none is given; "
            "give digest=, which study.device_program().digest or 'sfumato program' states"
        )
    if isinstance(study, Program):
        return Program.read(study.to_text(), digest=digest)
    if isinstance(study, Path) or (isinstance(study, str) and not study.lstrip().startswith("{")):
        study = _read(as_path(study))
    return Program.read(study, digest=digest)


def _read(file: Path) -> bytes:
    """The text of a device program in a file; one that is too long is cut, and refused later."""
    try:
        with file.open("rb") as opened:
            return opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise FormatError(
            f"cannot read the device program {str(file)!r} ({error.strerror}); write one with "
            "'sfumato program'"
        ) from None


def _words(secret: bytes, digest: str, person: str, codes: tuple[int, ...]) -> Iterator[int]:
    """Random words that are the same for the same device, program, person and value."""
    # What a person is called may hold any letter, so it comes last: no two texts are the same.
    first, last = ("sfumato value of a person", f"\n{person}") if person else ("sfumato value", "")
    start = f"{first}\n{digest}\n{','.join(map(str, codes))}\n"
    for block in count():
        drawn = hmac.digest(secret, f"{start}{block}{last}".encode(), "sha256")
        yield from struct.unpack(">4Q", drawn)


@contextlib.contextmanager
def _placed(place: int, total: int) -> Iterator[None]:
    """Say which of several records is refused."""
    try:
        yield
    except (DataError, LedgerError) as error:
        if total == 1:
            raise
        message = f"record {place:,} of {total:,}, and so none is reported: {error}"
        raise type(error)(message) from None


def _refuse_person(person: str) -> None:
    """Refuse what cannot say whose report it is; it is not shown, since it may be a name."""
    if not isinstance(person, str):
        raise StudyError(f"person must be a text, got a {type(person).__name__}")
    if len(person) > MOST_LETTERS or not is_writable(person):
        raise StudyError(
            f"person must be a text of at most {MOST_LETTERS:,} characters that UTF-8 can write, "
            "and the one given (not shown) is not; shorten or correct it"
        )
