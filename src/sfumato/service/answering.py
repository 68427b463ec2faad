"""Answering questions from the newest tally, each entered in the log before its answer leaves."""

from __future__ import annotations

import json
import queue
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Set
from datetime import UTC, datetime
from typing import Any

from sfumato.central.chain import chained, seal, start
from sfumato.errors import FormatError, SfumatoError
from sfumato.service.asking import read_question
from sfumato.service.jobs import Answered, Job, Jobs
from sfumato.service.published import Published
from sfumato.service.refusals import RefusedError, place_of, refusal
from sfumato.service.rendering import Form, answered
from sfumato.service.stores.base import Store
from sfumato.service.tallying import Parts, read_parts, tally_what_fits
from sfumato.service.tokens import Token
from sfumato.service.worker import CancelledError, Work, Worker, WorkError, Written
from sfumato.service.writer import LOG

_HEAD = {"kind": "sfumato questions", "format": 1}
_PAGE = 1_000

_MOST_CACHED = 1 << 24  # bytes of answers
_EACH_CACHED = 1 << 10  # bytes that an answer takes beside its own
_STOPPING = "the collector stops; ask again once it is back"


class Answering:
    """Answers questions from the newest tally, one after another, in a process of their own.

    Args:
        store: Where tallies and the log are.
        clock: Gives the seconds since 1970-01-01.
        worker: The process; left out, one of its own.
        most_waiting: How many questions may wait.
        seconds: How long an answer may take.
    """

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float] = time.time,
        worker: Worker | None = None,
        *,
        most_waiting: int = 64,
        seconds: float = 600.0,
    ) -> None:
        self._store, self._clock, self._seconds = store, clock, seconds
        self._worker, self._owns = worker or Worker(), worker is None
        self._me = secrets.token_hex(8)  # among those that share a worker
        self._queue: queue.Queue[Job | None] = queue.Queue(most_waiting)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._cache: OrderedDict[Hashable, Written] = OrderedDict()
        self._cached = 0
        self._stopping = False
        self.jobs = Jobs()

    def put(
        self, study: Published, who: Token, asked: Mapping[str, Any], work: Work, form: str = "json"
    ) -> Job:
        """Ask a question of all reports that have been acknowledged.

        Args:
            study: The study.
            who: Who asks.
            asked: The question, as the log shows it.
            work: Answers it from the tally; the same for the same question and form.
            form: How the answer is written.

        Returns:
            The question, perhaps answered already.

        Raises:
            RefusedError: If there are too few reports, or too many questions wait.
        """
        tally_what_fits(self._store, study)
        version, reports = newest(self._store, study)
        refuse_few(study, reports)
        job = Job(study, who, dict(asked), work, form)
        known = self._known(job, version)
        if known is not None:
            job.settle(self._entered(job, known, version, reports))
            return job
        with self._lock:
            if self._stopping:
                raise RefusedError(503, "stopping", _STOPPING, retry_after=5)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._answer_all, name="sfumato answers", daemon=True
                )
                self._thread.start()
            try:
                self._queue.put_nowait(job)
            except queue.Full:
                raise RefusedError(
                    429, "busy", "too many questions wait; ask again later", retry_after=10
                ) from None
        return job

    def answer(
        self, study: Published, who: Token, asked: Mapping[str, Any], form: Form = "json"
    ) -> Answered:
        """Ask a question, and wait for its answer.

        Args:
            study: The study.
            who: Who asks.
            asked: The question, as `asking.read_question` takes it.
            form: How the answer is written.

        Raises:
            RefusedError: If it is not answered.
        """
        work = (answered, (read_question(asked), form))
        return self.put(study, who, asked, work, form).result()

    def _answer_all(self) -> None:
        """Answer questions until the collector stops."""
        while (job := self._queue.get()) is not None:
            try:
                job.settle(self._found(job))
            except RefusedError as error:
                job.settle(error)
            except SfumatoError as error:
                job.settle(refusal(error))
            except CancelledError:
                job.settle(self._why(job))
            except Exception as error:  # noqa: BLE001 - the next question is answered
                where = str(error) if isinstance(error, WorkError) else place_of(error)
                LOG.error("a question failed: %s", where)
                job.settle(
                    RefusedError(500, "internal", "this question failed; ask it in another way")
                )

    def _found(self, job: Job) -> Answered:
        """The answer to a question, from the cache or the worker."""
        study, started = job.study, time.monotonic()

        def wanted() -> bool:
            late = time.monotonic() - started > self._seconds
            return not (self._stopping or job.is_cancelled or late)

        def read(held: Set[int]) -> Parts:
            parts = read_parts(self._store, study, held)
            refuse_few(study, parts.reports)
            return parts

        version, reports = newest(self._store, study)
        known = self._known(job, version) if wanted() else None
        if known is None:
            parts, known = self._worker.run(
                (self._me, study.number),
                (study.file, study.keep),
                read,
                job.work,
                progress=job.advance,
                wanted=wanted,
            )
            version, reports = parts.version, parts.reports
            self._keep(job, version, known)
        return self._entered(job, known, version, reports)

    def _entered(self, job: Job, written: Written, version: int, reports: int) -> Answered:
        """An answer whose question has been entered in the log."""
        entry = entry_of(self._clock(), job.who, job.study, job.asked, version, reports)
        return Answered(written, version, reports, enter(self._store, entry))

    def _why(self, job: Job) -> RefusedError:
        """Why a question was given up."""
        if self._stopping:
            return RefusedError(503, "stopping", _STOPPING, retry_after=5)
        if job.is_cancelled:
            return RefusedError(404, "job", "this question was cancelled")
        return RefusedError(
            503,
            "long",
            f"this answer takes longer than {self._seconds:g} seconds, the most that the "
            "collector gives one; ask with method unbiased, smaller seconds or fewer bins",
        )

    # Answers that were given before

    def _known(self, job: Job, version: int) -> Written | None:
        """The answer that was given to a question before, from the same tally."""
        key = (job.study.number, version, job.key)
        with self._lock:
            found = self._cache.get(key)
            if found is not None:
                self._cache.move_to_end(key)
        return found

    def _keep(self, job: Job, version: int, written: Written) -> None:
        """Keep an answer; those that were not asked for lately make room."""
        with self._lock:
            self._cache[job.study.number, version, job.key] = written
            self._cached += len(written.data) + _EACH_CACHED
            while self._cached > _MOST_CACHED:
                _, old = self._cache.popitem(last=False)
                self._cached -= len(old.data) + _EACH_CACHED

    # The end

    def forget(self, study: Published) -> None:
        """Forget a study that was deleted."""
        self._worker.forget((self._me, study.number))

    def close(self) -> None:
        """Give up the questions that wait, soon; this takes no lock, so signals may call it."""
        self._stopping = True

    def stop(self) -> None:
        """Give up the questions that wait, and end the worker."""
        self.close()
        with self._lock:
            thread = self._thread
        if thread is not None:
            self._queue.put(None)
            thread.join()
        if self._owns:
            self._worker.stop()


def newest(store: Store, study: Published) -> tuple[int, int]:
    """The version of the newest tally of a study, and how many reports it has.

    Args:
        store: Where it is.
        study: The study.
    """
    with store.look() as run:
        row = run.one("SELECT version, reports FROM studies WHERE number = ?", (study.number,))
    return (0, 0) if row is None else (int(row[0]), int(row[1]))


def refuse_few(study: Published, reports: int) -> None:
    """Refuse to answer from too few reports.

    Args:
        study: The study.
        reports: How many there are.
    """
    if reports < study.minimum:
        raise RefusedError(
            409,
            "few",
            f"this study answers once it has {study.minimum:,} reports, and it has fewer; "
            "ask again later",
            more={"minimum": study.minimum},
        )


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
