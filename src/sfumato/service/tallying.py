"""Tallying: segments become parts of a tally, each report counted once, at a cost of the new ones.

One transaction takes some segments, drops the rows whose ids were counted before, enters the other
ids, adds the reports to the tally and deletes the segments. So a collector that is killed has done
either all of it or nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.collect.accumulator import Accumulator, accumulator_of
from sfumato.collect.packing import Bytes, unpack
from sfumato.collect.tally import Tally
from sfumato.device.wire import ID_BYTES
from sfumato.service.published import Published
from sfumato.service.stores.base import FullError, Run, Store

_AT_ONCE = 50_000  # reports of one transaction, unless one segment has more
_MOST_SEGMENTS = 10_000
DAY = 86_400
Days = NDArray[np.integer[Any]]
#: How many seconds after its last day an id is deleted: by then all uploads that came in time have
#: been stored.
GRACE = 3_600
#: For how many days damaged batches are kept.
QUARANTINE_DAYS = 7


def tally_pending(store: Store, study: Published) -> int:
    """Tally all reports of a study that wait at this moment.

    Args:
        store: Where they are.
        study: The study.

    Returns:
        How many were new.
    """
    with store.look() as run:  # which waits for no writer
        ((last,),) = run("SELECT max(number) FROM segments WHERE study = ?", (study.number,))
    total = 0
    while last is not None:
        with store.change() as run:
            began = time.monotonic()
            found = _tally_some(run, study, last)
        if found is None:
            break
        total += found.new
        if found.last == last:
            break
        time.sleep(time.monotonic() - began)  # half of the time belongs to uploads
    return total


def tally_what_fits(store: Store, study: Published) -> None:
    """Tally the reports that wait, as far as the disk has room; the others wait for more.

    Args:
        store: Where they are.
        study: The study.
    """
    with contextlib.suppress(FullError):
        tally_pending(store, study)


@dataclass(frozen=True, slots=True)
class _Tallied:
    """What one transaction did.

    Attributes:
        new: How many reports were new.
        last: The number of the last segment that it took.
    """

    new: int
    last: int


def _tally_some(run: Run, study: Published, last: int) -> _Tallied | None:
    """Tally some segments up to the one with a number; None if none of them waits."""
    number = study.number
    lock = f"SELECT version FROM studies WHERE number = ?{run.lock}"  # noqa: S608 - of constants
    if not run(lock, (number,)):
        return None
    waiting = run(
        "SELECT number, reports FROM segments WHERE study = ? AND number <= ? "
        "ORDER BY number LIMIT ?",
        (number, last, _MOST_SEGMENTS),
    )
    if not waiting:
        return None
    ends = np.cumsum([reports for _, reports in waiting])
    last = waiting[max(int(np.searchsorted(ends, _AT_ONCE, "right")) - 1, 0)][0]
    segments = run(
        "SELECT number, expires, data FROM segments WHERE study = ? AND number <= ? "
        "ORDER BY number",
        (number, last),
    )
    step = ID_BYTES + study.layout.size
    rows = np.frombuffer(b"".join(data for *_, data in segments), dtype=np.uint8).reshape(-1, step)
    ids = np.ascontiguousarray(rows[:, :ID_BYTES])
    days = np.repeat(
        [expires for _, expires, _ in segments], [len(data) // step for *_, data in segments]
    )
    new = _entered(run, number, ids, days)
    if len(new):
        _added(run, study, np.ascontiguousarray(rows[new, ID_BYTES:]))
        run(
            "UPDATE studies SET version = version + 1, reports = reports + ? WHERE number = ?",
            (len(new), number),
        )
    run.many("DELETE FROM segments WHERE number = ?", [(one,) for one, *_ in segments])
    repeated = len(ids) - len(new)
    run.count(number, {"accepted": -repeated, "repeated": repeated})
    return _Tallied(len(new), last)


def _entered(run: Run, study: int, ids: Bytes, days: Days) -> Days:
    """The places of the ids that are new, each the first of its kind; all are kept long enough."""
    words = ids.view(">u8")
    order = np.lexsort((words[:, 1], words[:, 0]))  # stable: of equal ids the first comes first
    held = words[order]
    starts = np.flatnonzero(np.append(True, np.any(held[1:] != held[:-1], axis=1)))
    first = order[starts]
    latest = np.maximum.reduceat(days[order], starts)
    known = np.zeros(len(first), dtype=bool)
    for day in np.unique(latest).tolist():
        places = np.flatnonzero(latest == day)
        sent = ids[first[places]]
        if not run.enter(study, sent.tobytes(), day):
            known[places[run.known(study, sent.tobytes())]] = True
            rest = sent[~known[places]]
            if len(rest):
                run.enter(study, rest.tobytes(), day)
    again = zip(ids[first[known]], latest[known].tolist(), strict=True)
    run.many(
        "UPDATE ids SET expires = ? WHERE study = ? AND id = ? AND expires < ?",
        [(day, study, one.tobytes(), day) for one, day in again],
    )
    return first[~known]


def _added(run: Run, study: Published, reports: Bytes) -> None:
    """Add reports to a tally, and join its last parts while they are of like size."""
    held = study.study
    part = accumulator_of(held, study.keep)
    part.add(unpack(reports, held.fingerprint, held.columns, held.layouts))
    data = part.to_bytes()
    for number, size in run(
        "SELECT number, length(data) FROM tallies WHERE study = ? ORDER BY number DESC",
        (study.number,),
    ):
        if size > 2 * len(data):
            break
        part.merge(Accumulator.from_bytes(_data(run, number)))
        run("DELETE FROM tallies WHERE number = ?", (number,))
        data = part.to_bytes()
    run(
        "INSERT INTO tallies (study, reports, data) VALUES (?, ?, ?)",
        (study.number, part.n, data),
    )


def _data(run: Run, number: int) -> bytes:
    """The bytes of one part of a tally."""
    found: bytes = run("SELECT data FROM tallies WHERE number = ?", (number,))[0][0]
    return found


@dataclass(frozen=True, slots=True)
class Current:
    """The tally of a study, and which it is.

    Attributes:
        version: How often the tally has grown; the same version is the same tally.
        tally: The tally.
    """

    version: int
    tally: Tally


@dataclass(frozen=True, slots=True)
class Parts:
    """The tally of a study as the store keeps it.

    Attributes:
        version: How often the tally has grown.
        reports: How many reports it has.
        numbers: The numbers of all of its parts; a part never changes.
        new: The bytes of those that were not known.
    """

    version: int
    reports: int
    numbers: list[int]
    new: dict[int, bytes]


def read_parts(store: Store, study: Published, known: Set[int] = frozenset()) -> Parts:
    """The parts of the newest tally of a study, read at a cost of those that are new.

    Args:
        store: Where it is.
        study: The study.
        known: The numbers of parts that need not be read.
    """
    with store.look() as run:
        row = run.one("SELECT version, reports FROM studies WHERE number = ?", (study.number,))
        rows = run("SELECT number FROM tallies WHERE study = ? ORDER BY number", (study.number,))
        numbers = [number for (number,) in rows]
        new = {number: _data(run, number) for number in numbers if number not in known}
    version, reports = row or (0, 0)
    return Parts(version, reports, numbers, new)


def read_tally(store: Store, study: Published) -> Current:
    """The tally of all reports of a study that have been tallied.

    Args:
        store: Where it is.
        study: The study.
    """
    parts = read_parts(store, study)
    found = accumulator_of(study.study, study.keep)
    for data in parts.new.values():
        found.merge(Accumulator.from_bytes(data))
    return Current(parts.version, found.freeze())


def purge(store: Store, studies: Iterable[Published], now: float) -> None:
    """Delete what has expired: ids whose day has passed, and old damaged batches.

    All that waits is tallied first, since it could repeat an id that is about to be deleted. From
    then on batches of those days are refused, even if the clock goes backwards.

    Args:
        store: Where.
        studies: All studies.
        now: The time, in seconds since 1970-01-01.
    """
    day = int((now - GRACE) // DAY)
    with store.change() as run:
        if run.fact("cleared") >= day:
            return
        run.set_fact("purged", max(day, run.fact("purged")))
        run("DELETE FROM quarantine WHERE day < ?", (day - QUARANTINE_DAYS,))
    for study in studies:
        tally_pending(store, study)
        with store.look() as run:
            row = run.one("SELECT reports FROM studies WHERE number = ?", (study.number,))
        # A part at a time, so that uploads need not wait long.
        parts = 1 << min(8, (row[0] if row else 0) // _AT_ONCE)
        for first in range(0, 256, 256 // parts):
            last = first + 256 // parts - 1
            with store.change() as run:
                run(
                    "DELETE FROM ids WHERE study = ? AND id BETWEEN ? AND ? AND expires < ?",
                    (study.number, bytes([first]), bytes([last]) + b"\xff" * ID_BYTES, day),
                )
    with store.change() as run:
        run.set_fact("cleared", day)
