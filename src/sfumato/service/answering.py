"""Answering questions from the newest tally, each entered in the log before its answer leaves."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sfumato.central.chain import chained, seal, start
from sfumato.errors import FormatError
from sfumato.estimation.estimate import Estimate
from sfumato.service.published import Published
from sfumato.service.refusals import RefusedError
from sfumato.service.stores.base import Store
from sfumato.service.tallying import Current, read_tally, tally_what_fits
from sfumato.service.tokens import Token

_HEAD = {"kind": "sfumato questions", "format": 1}
_PAGE = 1_000

#: Asks an estimate, and gives the answer as JSON.
Ask = Callable[[Estimate], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer that may leave.

    Attributes:
        answer: The answer, as JSON.
        version: The version of the tally it was computed from.
        reports: How many reports that tally has.
        entry: The number of its entry in the log.
    """

    answer: dict[str, Any]
    version: int
    reports: int
    entry: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "answer": self.answer,
            "tally": self.version,
            "reports": self.reports,
            "entry": self.entry,
        }


class Answering:
    """Answers questions; one at a time, since estimates of one tally share what they decode.

    Args:
        store: Where tallies and the log are.
        clock: Gives the seconds since 1970-01-01.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock
        self._lock = threading.Lock()
        self._current: dict[str, Current] = {}
        self._estimates: dict[str, dict[str, Estimate]] = {}

    def answer(
        self, study: Published, who: Token, asked: Mapping[str, Any], method: str, ask: Ask
    ) -> Answered:
        """Answer a question from all reports that have been acknowledged.

        Args:
            study: The study.
            who: Who asks.
            asked: The question, as the log shows it.
            method: How to estimate, as in `Tally.estimate`.
            ask: Asks the estimate.

        Raises:
            RefusedError: If there are too few reports.
            QuestionError: If the study cannot be asked this.
        """
        tally_what_fits(self._store, study)
        with self._lock:
            current = self._newest(study)
            reports = current.tally.n
            if reports < study.minimum:
                raise RefusedError(
                    409,
                    "few",
                    f"this study answers once it has {study.minimum:,} reports, and it has fewer; "
                    "ask again later",
                    more={"minimum": study.minimum},
                )
            estimates = self._estimates[study.fingerprint]
            if method not in estimates:
                estimates[method] = current.tally.estimate(method)
            found = ask(estimates[method])
        entry = entry_of(self._clock(), who, study, asked, current.version, reports)
        return Answered(found, current.version, reports, enter(self._store, entry))

    def _newest(self, study: Published) -> Current:
        """The newest tally of a study."""
        known = self._current.get(study.fingerprint)
        current = read_tally(self._store, study, known)
        if current is not known:
            self._current[study.fingerprint] = current
            self._estimates[study.fingerprint] = {}
        return current

    def forget(self, study: Published) -> None:
        """Forget a study that was deleted."""
        with self._lock:
            self._current.pop(study.fingerprint, None)
            self._estimates.pop(study.fingerprint, None)


def entry_of(
    now: float, who: Token, study: Published, asked: Mapping[str, Any], version: int, reports: int
) -> dict[str, Any]:
    """What the log says about a question.

    Args:
        now: The time, in seconds since 1970-01-01.
        who: Who asks.
        study: The study.
        asked: The question.
        version: The version of the tally that answers it.
        reports: How many reports that tally has.
    """
    return {
        "time": f"{datetime.fromtimestamp(now, UTC):%Y-%m-%dT%H:%M:%SZ}",
        "who": who.name,
        "role": who.role,
        "study": study.fingerprint,
        "asked": dict(asked),
        "tally": version,
        "reports": reports,
    }


def enter(store: Store, entry: Mapping[str, Any]) -> int:
    """Enter a question in the log, sealed with a digest of all entries before; its number.

    Args:
        store: Where the log is.
        entry: What to enter.
    """
    with store.change() as run:
        run(f"SELECT value FROM facts WHERE name = 'version'{run.lock}")  # noqa: S608 - one at a time
        row = run.one("SELECT number, entry FROM questions ORDER BY number DESC LIMIT 1")
        number, last = (0, start(_HEAD)) if row is None else (row[0], json.loads(row[1])["digest"])
        sealed = seal(last, {"number": number + 1, **entry})
        run("INSERT INTO questions VALUES (?, ?)", (number + 1, json.dumps(sealed)))
    return int(sealed["number"])


def log(store: Store, after: int = 0) -> Iterator[dict[str, Any]]:
    """The entries of the log, in order, each as it was sealed.

    Args:
        store: Where the log is.
        after: Leave out this one and all before.

    Raises:
        FormatError: If one was changed, or some are missing.
    """
    last = start(_HEAD) if after == 0 else None
    while True:
        with store.look() as run:
            rows = run(
                "SELECT number, entry FROM questions WHERE number > ? ORDER BY number LIMIT ?",
                (after, _PAGE),
            )
        if not rows:
            return
        for number, text in rows:
            entry = json.loads(text)
            if number != after + 1 or (last is not None and not chained(last, entry)):
                raise FormatError(
                    f"entry {after + 1} of the log of questions is missing or was changed; restore "
                    "a backup"
                )
            after, last = number, entry["digest"]
            yield entry
