"""The collector without HTTP: a store, the writer, and a thread that tallies and deletes."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.checks import whole
from sfumato.collect.accumulator import Accumulator, Keep, accumulator_of
from sfumato.device.wire import MOST_REPORTS, WireError
from sfumato.errors import SfumatoError, StudyError, shown
from sfumato.service import published, tokens
from sfumato.service.answering import Answering
from sfumato.service.published import Published
from sfumato.service.rates import Rates
from sfumato.service.receiving import Outcome, Upload, first_day, longest, read_upload
from sfumato.service.refusals import RefusedError
from sfumato.service.stores.base import Store
from sfumato.service.stores.postgres import PostgresStore
from sfumato.service.stores.sqlite import FILE, SqliteStore
from sfumato.service.tallying import DAY, purge, tally_pending
from sfumato.service.worker import Worker
from sfumato.service.writer import LOG, Damaged, Done, Pending, Writer

_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_MOST_QUARANTINED = 1 << 16  # bytes of one damaged batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a collector behaves.

    Attributes:
        most_reports: How many reports a batch may have.
        most_waiting: How many bytes of uploads may wait to be stored.
        reserve: How many bytes of the disk uploads leave free.
        upload_token: Whether uploads need a token.
        rate: How many requests per second an address may make; 0 sets no limit.
        burst: How many it may make at once.
        body_seconds: How long the body of a request may take to come.
        store_seconds: How long an upload may wait to be stored.
        tally_seconds: How long reports wait to be tallied.
        answer_seconds: How long an answer may take.
        most_questions: How many questions may wait for their answers.
    """

    most_reports: int = 10_000
    most_waiting: int = 1 << 26
    reserve: int = 1 << 26
    upload_token: bool = False
    rate: float = 100.0
    burst: float = 1_000.0
    body_seconds: float = 30.0
    store_seconds: float = 20.0
    tally_seconds: float = 1.0
    answer_seconds: float = 600.0
    most_questions: int = 64

    def __post_init__(self) -> None:
        whole(self.most_reports, "most_reports", least=1, most=MOST_REPORTS)
        whole(self.most_waiting, "most_waiting", least=1)
        whole(self.reserve, "reserve")
        whole(self.most_questions, "most_questions", least=1)
        names = ("rate", "burst", "body_seconds", "store_seconds", "tally_seconds")
        for name in (*names, "answer_seconds"):
            value = getattr(self, name)
            least = 0 if name == "rate" else 1e-9
            if not least <= value < 1e9:
                raise StudyError(f"{name} must be a positive number, got {name}={shown(value)}")


def open_store(place: str | Path, *, make: bool = True) -> Store:
    """The store in a folder, or in a PostgreSQL database.

    Args:
        place: The folder, or the address of the database: "postgresql://…".
        make: Whether to make what is not there.
    """
    if isinstance(place, str) and place.startswith(("postgresql://", "postgres://")):
        return PostgresStore(place)
    return SqliteStore(Path(place) / FILE, make=make)


class Collector:
    """Takes reports, tallies them and answers questions.

    Args:
        store: Where everything is kept.
        settings: How it behaves.
        clock: Gives the seconds since 1970-01-01.
        worker: The process that answers questions; left out, one of its own.

    Example:
        >>> import sfumato as sf
        >>> from tempfile import TemporaryDirectory
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
        >>> with TemporaryDirectory() as folder, Collector(open_store(folder)) as collector:
        ...     held, new = collector.publish(study.to_toml())
        ...     print(new, held.fingerprint == study.fingerprint)
        True True
    """

    def __init__(
        self,
        store: Store,
        settings: Settings | None = None,
        clock: Callable[[], float] = time.time,
        worker: Worker | None = None,
    ) -> None:
        self.store = store
        self.settings = settings or Settings()
        self._clock = clock
        self._studies: dict[str, Published] = {}
        self._first_day = (0, 0)  # as of which day it was read, and what it is
        self._started = time.monotonic()
        self.rates = Rates()
        self.answering = Answering(
            store,
            clock,
            worker,
            most_waiting=self.settings.most_questions,
            seconds=self.settings.answer_seconds,
        )
        self.writer = Writer(
            store,
            self.today,
            most_bytes=self.settings.most_waiting,
            reserve=self.settings.reserve,
        )
        self._stopping = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="sfumato keeper", daemon=True)
        self._keeper.start()

    def __enter__(self) -> Collector:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Store all that waits, stop, and close the store."""
        self.answering.stop()
        self.writer.stop()
        self._stopping.set()
        self._keeper.join()
        self.store.close()

    # Days

    def now(self) -> float:
        """The seconds since 1970-01-01."""
        return self._clock()

    def today(self) -> int:
        """The days since 1970-01-01."""
        return int(self._clock() // DAY)

    def first_day(self) -> int:
        """The day before which batches have expired."""
        today = self.today()
        if self._first_day[0] != today:
            with self.store.look() as run:
                self._first_day = (today, first_day(run, today))
        return self._first_day[1]

    @property
    def seconds(self) -> int:
        """How long it has run."""
        return int(time.monotonic() - self._started)

    # Studies

    def publish(
        self, text: str, *, minimum: int = published.MINIMUM, keep: Keep = "reports"
    ) -> tuple[Published, bool]:
        """Publish a study, as `published.publish` does.

        Args:
            text: The text of the study file.
            minimum: How many reports there must be before any answer.
            keep: What its tally keeps.
        """
        return published.publish(self.store, text, self.today(), minimum=minimum, keep=keep)

    def known(self, fingerprint: str) -> Published | None:
        """A study that was served before, without looking into the store."""
        return self._studies.get(fingerprint)

    def find(self, fingerprint: str) -> Published:
        """A published study.

        Raises:
            RefusedError: If there is none.
        """
        found = self._studies.get(fingerprint)
        if found is None and _FINGERPRINT.fullmatch(fingerprint):
            found = published.one(self.store, fingerprint)
        if found is None:
            raise RefusedError(
                404,
                "unknown",
                "no study of this fingerprint is published here; check the address, or ask the "
                "collector's owner to publish it",
            )
        # Computed and loaded now, not while an upload waits for it.
        _ = found.layout
        Accumulator.from_bytes(accumulator_of(found.study, found.keep).to_bytes())
        self._studies[fingerprint] = found
        return found

    def warm(self) -> None:
        """Load all published studies, so that no upload waits for that."""
        for study in published.every(self.store):
            self.find(study.fingerprint)

    def delete(self, study: Published) -> None:
        """Delete a study with all that was collected for it."""
        published.delete(self.store, study)
        self.forget(study)

    def forget(self, study: Published) -> None:
        """Forget a study that was deleted, perhaps by another process."""
        self._studies.pop(study.fingerprint, None)
        self.answering.forget(study)

    def counts(self, study: Published) -> dict[str, Any]:
        """How many reports of a study came, by what became of them, and how many are tallied."""
        with self.store.look() as run:
            row = run.one("SELECT version, reports FROM studies WHERE number = ?", (study.number,))
            rows = run(
                "SELECT reason, count FROM counters WHERE study = ? ORDER BY reason",
                (study.number,),
            )
        version, reports = row or (0, 0)
        return {"tally": version, "reports": reports, "counters": dict(rows)}

    # Reports

    def read(self, study: Published, data: bytes) -> Upload:
        """Read the body of an upload; a damaged one goes into quarantine.

        Args:
            study: The study it was sent to.
            data: The body.

        Raises:
            WireError: If it is damaged.
            RefusedError: If it has expired, expires too late, or has too many reports.
        """
        try:
            return read_upload(
                data, study, self.first_day(), self.today(), self.settings.most_reports
            )
        except WireError as error:
            self.writer.quarantine(Damaged(study.number, error.code, data[:_MOST_QUARANTINED]))
            raise

    def longest(self, study: Published) -> int:
        """How many bytes the body of an upload may have."""
        return longest(study, self.settings.most_reports)

    def put(self, upload: Upload, settle: Callable[[Done], object]) -> None:
        """Store an upload, and tell what became of it once that is durable.

        Args:
            upload: What to store.
            settle: Told what became of it.
        """
        self.writer.put(Pending(upload, settle))

    def upload(self, fingerprint: str, data: bytes) -> Outcome:
        """Take one batch, and return once it is durable.

        Args:
            fingerprint: The study.
            data: The bytes of the batch.

        Raises:
            RefusedError: If it is not taken.
            WireError: If it is damaged.
        """
        future: Future[Done] = Future()
        self.put(self.read(self.find(fingerprint), data), future.set_result)
        found = future.result(self.settings.store_seconds)
        if isinstance(found, RefusedError):
            raise found
        return found

    def tally(self) -> int:
        """Tally all that waits; how many reports were new."""
        with self.store.look() as run:
            rows = run(
                "SELECT fingerprint FROM studies WHERE EXISTS "
                "(SELECT 1 FROM segments WHERE segments.study = studies.number)"
            )
        total = 0
        for (fingerprint,) in rows:
            with contextlib.suppress(RefusedError):  # it was deleted meanwhile
                total += tally_pending(self.store, self.find(fingerprint))
        return total

    def purge(self) -> None:
        """Delete what has expired, once a day."""
        purge(self.store, published.every(self.store), self._clock())
        self._first_day = (0, 0)

    def sample(self) -> None:
        """Note how many reports have been accepted, for the rates."""
        with self.store.look() as run:
            rows = run("SELECT study, count FROM counters WHERE reason = 'accepted'")
        self.rates.note(dict(rows))

    def _keep(self) -> None:
        """Tally and delete, until the collector stops."""
        purged, said = -1, ""
        while not self._stopping.wait(self.settings.tally_seconds):
            try:
                self.tally()
                if self.rates.due:
                    self.sample()
                hour = int(self._clock() // 3_600)
                if hour != purged:
                    self.purge()
                    purged = hour
                said = ""
            except SfumatoError as error:
                if said != str(error):  # once, however often it is tried
                    said = str(error)
                    LOG.error("cannot tally: %s", said)

    # Tokens

    def holders(self) -> tokens.Holders:
        """The tokens that are valid now."""
        return tokens.Holders.read(self.store)
