"""Questions that wait for their answer, and how far they are."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeAlias

from sfumato.service.published import Published
from sfumato.service.refusals import RefusedError
from sfumato.service.tokens import Token
from sfumato.service.worker import Work, Written

_KEPT_SECONDS = 600.0  # for which an answer waits to be fetched
_MOST_KEPT = 256


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer that may leave.

    Attributes:
        written: The answer.
        version: The version of the tally it was computed from.
        reports: How many reports that tally has.
        entry: The number of its entry in the log.
    """

    written: Written
    version: int
    reports: int
    entry: int

    def to_json(self) -> bytes:
        """The answer in JSON, with where it came from."""
        facts = {"tally": self.version, "reports": self.reports, "entry": self.entry}
        return b'{"answer": ' + self.written.data + b", " + json.dumps(facts).encode()[1:]


#: What becomes of a question.
Outcome: TypeAlias = Answered | RefusedError


class Job:
    """A question that somebody asked.

    Args:
        study: The study.
        who: Who asked.
        asked: The question, as the log shows it.
        work: Answers it from the tally.
        form: How the answer is written.
    """

    def __init__(
        self, study: Published, who: Token, asked: dict[str, Any], work: Work, form: str
    ) -> None:
        self.id = secrets.token_urlsafe(16)
        self.study, self.who, self.asked, self.work, self.form = study, who, asked, work, form
        self.key = (json.dumps(asked, sort_keys=True), form)
        self.progress = 0.0
        self.is_cancelled = False
        self.settled_at: float | None = None
        self.future: Future[Outcome] = Future()
        self.future.set_running_or_notify_cancel()  # whoever waits cannot cancel it by going away

    def advance(self, share: float) -> None:
        """Note the share of the work done, which never falls."""
        self.progress = max(self.progress, min(1.0, share))

    def settle(self, outcome: Outcome) -> None:
        """Say what became of it."""
        self.settled_at = time.monotonic()
        self.future.set_result(outcome)

    def cancel(self) -> None:
        """Ask for its end."""
        self.is_cancelled = True

    def result(self) -> Answered:
        """The answer, once there is one.

        Raises:
            RefusedError: If it is not answered.
        """
        found = self.future.result()
        if isinstance(found, RefusedError):
            raise found
        return found

    def may_see(self, who: Token) -> bool:
        """Whether somebody may see the answer."""
        return who.role == "admin" or who.name == self.who.name


class Jobs:
    """The questions whose answers are fetched later.

    Args:
        clock: Gives seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}

    def add(self, job: Job) -> None:
        """Keep a question; those whose answers nobody fetched make room."""
        with self._lock:
            self._jobs[job.id] = job
            now, spare = self._clock(), len(self._jobs) - _MOST_KEPT
            settled = [(one.settled_at, one) for one in self._jobs.values()]
            done = [(at, one) for at, one in settled if at is not None]
            for place, (at, one) in enumerate(done):
                if place < spare or now - at > _KEPT_SECONDS:
                    del self._jobs[one.id]

    def find(self, name: str, who: Token) -> Job:
        """A question by its id.

        Args:
            name: The id.
            who: Who wants to see it.

        Raises:
            RefusedError: If there is none that this one may see.
        """
        with self._lock:
            job = self._jobs.get(name)
        if job is None or not job.may_see(who):
            raise RefusedError(
                404,
                "job",
                "there is no such question of yours, or its answer was not fetched for "
                f"{_KEPT_SECONDS / 60:g} minutes; ask again",
            )
        return job

    def cancel(self, job: Job) -> None:
        """End a question and forget it."""
        job.cancel()
        with self._lock:
            self._jobs.pop(job.id, None)
