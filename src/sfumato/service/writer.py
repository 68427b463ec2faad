"""The writer: commits all uploads that wait in one transaction, and only then answers them.

One thread writes. While it commits, further uploads wait; the next commit takes all of them. So the
disk is synced once for many uploads, and an upload waits for at most two commits.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from sfumato.errors import StoreError
from sfumato.service.receiving import Outcome, Upload, expired, first_day
from sfumato.service.refusals import RefusedError
from sfumato.service.stores.base import FullError, Run, Store

Done = Outcome | RefusedError

LOG = logging.getLogger("sfumato.service")
_MOST_RECENT = 1 << 18  # ids that are remembered, twice
_QUARANTINE_ROWS = 1_000
_QUARANTINE_BYTES = 1 << 24
_QUARANTINE_WAITING = 100
_SECONDS = 1.0  # between looks at whether damaged batches wait


@dataclass(eq=False, slots=True)
class Pending:
    """An upload that waits.

    Attributes:
        upload: What is to be stored.
        settle: Called with what became of it, from the writer's thread.
    """

    upload: Upload
    settle: Callable[[Done], object]


@dataclass(frozen=True, slots=True)
class Damaged:
    """A batch that could not be read.

    Attributes:
        study: The number of the study it was sent to.
        reason: The code of what is wrong.
        data: Its bytes, or the first of them.
    """

    study: int
    reason: str
    data: bytes


class Recent:
    """The ids that were stored lately, to tell clients what was repeated.

    What it has forgotten is answered as accepted, stored again, and dropped when it is tallied.
    """

    def __init__(self, most: int = _MOST_RECENT) -> None:
        self._most = most
        self._new: set[bytes] = set()
        self._old: set[bytes] = set()

    def __contains__(self, key: bytes) -> bool:
        return key in self._new or key in self._old

    def disjoint(self, keys: Iterable[bytes]) -> bool:
        """Whether none of these is known."""
        found = list(keys)
        return self._new.isdisjoint(found) and self._old.isdisjoint(found)

    def add(self, keys: Iterable[bytes]) -> None:
        """Remember ids, and forget the oldest."""
        self._new.update(keys)
        if len(self._new) >= self._most:
            self._new, self._old = set(), self._new


class Writer:
    """The thread that stores uploads.

    Args:
        store: Where.
        today: Gives today.
        most_bytes: How many bytes may wait.
        reserve: How many bytes of the disk uploads leave free, so that questions can still be
            entered in the log.
    """

    def __init__(
        self,
        store: Store,
        today: Callable[[], int],
        *,
        most_bytes: int,
        reserve: int,
    ) -> None:
        self._store, self._today = store, today
        self._most_bytes, self._reserve = most_bytes, reserve
        self.recent = Recent()
        self._waiting: list[Pending] = []
        self._bytes = 0
        self._damaged: list[Damaged] = []
        self._wake = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="sfumato writer", daemon=True)
        self._thread.start()

    @property
    def waiting_bytes(self) -> int:
        """How many bytes wait."""
        return self._bytes

    @property
    def alive(self) -> bool:
        """Whether uploads are still taken."""
        return self._thread.is_alive() and not self._stopping

    def put(self, pending: Pending) -> None:
        """Let an upload wait until it is stored.

        Raises:
            RefusedError: If too much waits already, or if the collector stops.
        """
        size = len(pending.upload.data)
        with self._wake:
            if self._stopping:
                raise RefusedError(
                    503, "stopping", "the collector stops; try again later", retry_after=5
                )
            if self._waiting and self._bytes + size > self._most_bytes:
                raise RefusedError(
                    429, "busy", "too much waits; try again in a second", retry_after=1
                )
            self._waiting.append(pending)
            self._bytes += size
            self._wake.notify()

    def quarantine(self, damaged: Damaged) -> None:
        """Keep a damaged batch with the next commit; none if many wait already."""
        with self._wake:
            if len(self._damaged) < _QUARANTINE_WAITING:
                self._damaged.append(damaged)

    def stop(self) -> None:
        """Store all that waits, and stop."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        """Commit what waits, again and again."""
        while True:
            with self._wake:
                while not (self._waiting or self._damaged or self._stopping):
                    self._wake.wait(_SECONDS)
                taken, self._waiting = self._waiting, []
                damaged, self._damaged = self._damaged, []
                if not taken and not damaged:
                    return
            done = self._committed(taken, damaged)
            with self._wake:
                self._bytes -= sum(len(pending.upload.data) for pending in taken)
            for pending, outcome in done:
                _tell(pending, outcome)

    def _committed(
        self, taken: list[Pending], damaged: list[Damaged]
    ) -> list[tuple[Pending, Done]]:
        """Commit uploads in one transaction; what became of each."""
        free = self._store.free_bytes()
        if free is not None and free < self._reserve:
            return [(pending, _full("the collector's disk is full")) for pending in taken]
        commit = _Commit(self.recent, self._today())
        try:
            with self._store.change() as run:
                commit.store(run, taken)
                _keep_damaged(run, damaged, self._today())
        except FullError as error:
            return [(pending, _full(str(error))) for pending in taken]
        except StoreError as error:
            failed = RefusedError(500, "store", f"{error}; try again later, with the same ids")
            return [(pending, failed) for pending in taken]
        self.recent.add(commit.keys)
        return commit.done


def _tell(pending: Pending, outcome: Done) -> None:
    """Tell an upload what became of it; whoever has gone since need not know."""
    try:
        pending.settle(outcome)
    except RuntimeError:  # the loop that it came from has ended
        LOG.warning("an upload was settled after its request had ended")


def _full(reason: str) -> RefusedError:
    """The refusal of an upload for which there is no room."""
    return RefusedError(
        507, "full", f"{reason}; nothing was stored, try again later", retry_after=60
    )


class _Commit:
    """The uploads of one commit."""

    def __init__(self, recent: Recent, today: int) -> None:
        self._recent, self._today = recent, today
        self.keys: set[bytes] = set()
        self.done: list[tuple[Pending, Done]] = []

    def store(self, run: Run, taken: list[Pending]) -> None:
        """Write the segments of uploads, and count what became of them."""
        groups: defaultdict[tuple[int, int, int], list[bytes]] = defaultdict(list)
        counts: defaultdict[int, Counter[str]] = defaultdict(Counter)
        there: dict[int, bool] = {}
        first = first_day(run, self._today)
        for pending in taken:
            upload = pending.upload
            if upload.study not in there:
                there[upload.study] = _is_there(run, upload.study)
            if not there[upload.study]:
                self.done.append((pending, RefusedError(404, "unknown", "this study was deleted")))
            elif upload.expires < first:
                self.done.append((pending, expired(upload.expires)))
                counts[upload.study]["expired"] += upload.count
            else:
                rows = self._new_rows(upload)
                if rows:
                    groups[upload.study, upload.expires, upload.step].append(rows)
                accepted = len(rows) // upload.step
                outcome = Outcome(accepted, upload.count - accepted, upload.refused)
                self.done.append((pending, outcome))
                count = counts[upload.study]
                count["accepted"] += outcome.accepted
                count["repeated"] += outcome.repeated
                count.update(one["code"] for one in upload.refused)
        for (study, expires, step), rows_of in groups.items():
            data = shuffled(b"".join(rows_of), step)
            run(
                "INSERT INTO segments (study, expires, reports, data) VALUES (?, ?, ?, ?)",
                (study, expires, len(data) // step, data),
            )
        for study, count in counts.items():
            run.count(study, count)

    def _new_rows(self, upload: Upload) -> bytes:
        """The rows of an upload whose ids were not stored lately."""
        start = upload.study.to_bytes(8, "little") + upload.expires.to_bytes(4, "little")
        keys = [start + one for one in upload.ids()] if upload.data else []
        if self.keys.isdisjoint(keys) and self._recent.disjoint(keys):
            self.keys.update(keys)
            return upload.data
        rows = []
        for place, key in enumerate(keys):
            if key not in self.keys and key not in self._recent:
                self.keys.add(key)
                rows.append(upload.data[place * upload.step : (place + 1) * upload.step])
        return b"".join(rows)


def _is_there(run: Run, study: int) -> bool:
    """Whether a study has not been deleted, nor will be until the transaction ends."""
    lock = run.lock and " FOR SHARE"
    return run.one(f"SELECT 1 FROM studies WHERE number = ?{lock}", (study,)) is not None  # noqa: S608


def shuffled(data: bytes, step: int) -> bytes:
    """Rows in a random order, so that it does not say in which order they came.

    Args:
        data: The rows, one after another.
        step: How many bytes each takes.
    """
    if len(data) == step:
        return data
    rows = np.frombuffer(data, dtype=np.uint8).reshape(-1, step)
    order = np.random.Generator(np.random.PCG64(secrets.randbits(128))).permutation(len(rows))
    return rows[order].tobytes()


def _keep_damaged(run: Run, damaged: list[Damaged], today: int) -> None:
    """Keep damaged batches, and drop the oldest if there are too many."""
    if not damaged:
        return
    for one in damaged:
        run.count(one.study, {one.reason: 1})
        run(
            "INSERT INTO quarantine (study, reason, day, data) VALUES (?, ?, ?, ?)",
            (one.study, one.reason, today, one.data),
        )
    kept = run("SELECT number, length(data) FROM quarantine ORDER BY number DESC")
    size = 0
    for place, (number, length) in enumerate(kept):
        size += length
        if place >= _QUARANTINE_ROWS or size > _QUARANTINE_BYTES:
            run("DELETE FROM quarantine WHERE number <= ?", (number,))
            break
