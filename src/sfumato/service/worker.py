"""The worker: a process of its own in which tallies are read and questions answered.

Uploads never wait for it, and it may fail without them. The collector sends it the parts of a tally
once, a piece of work, which is a function of the tally, and gets the result. The process is started
when it is first needed, and again when it has died. It ends with the collector, however that ends.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TypeAlias

from sfumato.collect.accumulator import Accumulator, Keep, accumulator_of
from sfumato.collect.tally import Tally
from sfumato.errors import SfumatoError
from sfumato.estimation.estimate import Estimate
from sfumato.service.refusals import RefusedError, place_of, refusal
from sfumato.service.tallying import Parts
from sfumato.study.study import Study

_PROGRESS_SECONDS = 0.1  # between two words about progress
_WATCH_SECONDS = 0.1  # between two looks at whether an answer is still wanted
_GRACE_SECONDS = 3.0  # in which work that is not wanted any more may end by itself
_STOP_SECONDS = 2.0
_MOST_BYTES = 1 << 30  # of parts that the worker holds, beyond those of the study asked about
_MOST_ESTIMATES = 4  # per study: they differ in method and seconds
_TRIES = 2


class CancelledError(Exception):
    """Work that is not wanted any more."""


@dataclass
class Holding:
    """The tally of a study, in the worker.

    Attributes:
        text: The study file.
        keep: What the tally keeps.
        version: The version of the tally.
        parts: The parts of the tally, by number.
        progress: Told the share of the work done.
    """

    text: str
    keep: Keep
    version: int = -1
    parts: dict[int, Accumulator] = field(default_factory=dict)
    progress: Callable[[float], None] = lambda share: None
    _tally: Tally | None = None
    _estimates: OrderedDict[tuple[str, float], Estimate] = field(default_factory=OrderedDict)

    @cached_property
    def study(self) -> Study:
        """The study."""
        return Study.from_toml(self.text, what="a published study")

    @property
    def tally(self) -> Tally:
        """The tally."""
        if self._tally is None:
            whole = accumulator_of(self.study, self.keep)
            for part in self.parts.values():
                whole.merge(part)
            self._tally = whole.freeze()
        return self._tally

    def estimate(self, method: str, seconds: float) -> Estimate:
        """An estimate from the tally, which keeps what it has decoded.

        Args:
            method: As in `Tally.estimate`.
            seconds: As in `Tally.estimate`.
        """
        key = (method, seconds)
        if key not in self._estimates:
            self._estimates[key] = self.tally.estimate(
                method, seconds=seconds, progress=lambda share: self.progress(share)
            )
        self._estimates.move_to_end(key)
        while len(self._estimates) > _MOST_ESTIMATES:
            self._estimates.popitem(last=False)
        return self._estimates[key]

    def become(self, version: int, numbers: list[int], new: Mapping[int, bytes]) -> None:
        """Hold a newer tally.

        Args:
            version: Its version.
            numbers: The numbers of all of its parts.
            new: Those that are not held yet, as bytes.
        """
        known = self.parts | {number: Accumulator.from_bytes(new[number]) for number in new}
        self.parts = {number: known[number] for number in numbers}
        self.version, self._tally = version, None
        self._estimates.clear()


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a piece of work, as it leaves the collector.

    Attributes:
        data: The answer as JSON, or in another form.
        method: How it was estimated, if it was.
    """

    data: bytes
    method: str = ""


#: A function at the top of a module, which gives what is written, and its arguments after the first
#: one, the holding.
Work: TypeAlias = tuple[Callable[..., Written], tuple[Any, ...]]


# In the process


def serve(connection: Connection) -> None:
    """Work until the collector closes the connection.

    Args:
        connection: Where work comes from, and results go.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the collector
    threading.Thread(target=_end_with_parent, daemon=True).start()
    holdings: dict[Hashable, Holding] = {}
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            message = connection.recv()
            if message is None:  # to cancel what has ended meanwhile
                continue
            forget, key, study, parts, work = message
            for one in forget:
                holdings.pop(one, None)
            held = holdings.setdefault(key, Holding(*study))
            result = _done(connection, held, parts, work)
            connection.send((*result, held.version))


def _done(connection: Connection, held: Holding, parts: Parts, work: Work) -> tuple[str, Any]:
    """What became of a piece of work."""
    function, arguments = work
    try:
        if held.version != parts.version:
            held.become(parts.version, parts.numbers, parts.new)
        held.progress = _Progress(connection)
        return "done", function(held, *arguments)
    except CancelledError:
        return "cancelled", None
    except SfumatoError as error:
        found = refusal(error)
        return "refused", (found.status, found.code, str(found), found.more, found.retry_after)
    except Exception as error:  # noqa: BLE001 - it goes on, and the collector's log says where
        return "failed", place_of(error)


class _Progress:
    """Tells the collector the share of the work done, and ends work that it does not want."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._next = connection, 0.0

    def __call__(self, share: float) -> None:
        if self._connection.poll():
            self._connection.recv()
            raise CancelledError
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _PROGRESS_SECONDS
            self._connection.send(("progress", share, None))


def _end_with_parent() -> None:
    """End when the collector has ended, however it did."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


# In the collector


class Worker:
    """The worker process, as the collector sees it; threads take turns."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None
        self._held: OrderedDict[Hashable, dict[int, int]] = OrderedDict()
        self._forgotten: list[Hashable] = []
        self._gone: deque[Hashable] = deque()  # which any thread may add to

    @property
    def pid(self) -> int | None:
        """The number of the process; None if there is none."""
        return None if self._process is None else self._process.pid

    def run(
        self,
        key: Hashable,
        study: tuple[str, Keep],
        read: Callable[[set[int]], Parts],
        work: Work,
        *,
        progress: Callable[[float], None],
        wanted: Callable[[], bool],
    ) -> tuple[Parts, Written]:
        """Do a piece of work on the newest tally of a study.

        Args:
            key: Names the study among all that this worker serves.
            study: The study file, and what its tally keeps.
            read: Reads the tally from the store, without the parts of the given numbers.
            work: What to do.
            progress: Told the share of the work done.
            wanted: Whether the result is still wanted.

        Returns:
            Which tally it was, and the result.

        Raises:
            CancelledError: If the result was not wanted any more.
            RefusedError: If the work refuses, fails, or ends the process twice.
        """
        with self._lock:
            for _ in range(_TRIES):
                if not wanted():
                    raise CancelledError
                try:
                    return self._run(key, study, read, work, progress, wanted)
                except (EOFError, OSError):
                    self._end()
        raise RefusedError(
            503,
            "worker",
            "the process that answers ended twice over this question, perhaps for want of memory; "
            "ask for less at once, or with method unbiased",
            retry_after=10,
        )

    def _run(
        self,
        key: Hashable,
        study: tuple[str, Keep],
        read: Callable[[set[int]], Parts],
        work: Work,
        progress: Callable[[float], None],
        wanted: Callable[[], bool],
    ) -> tuple[Parts, Written]:
        """As `run`, with the process there is."""
        connection = self._started()
        while self._gone:
            self._forget(self._gone.popleft())
        held = self._held.get(key, {})
        parts = read(set(held))
        connection.send((self._forgotten, key, study, parts, work))
        self._forgotten = []
        sizes = held | {number: len(data) for number, data in parts.new.items()}
        self._held[key] = {number: sizes[number] for number in parts.numbers}
        self._held.move_to_end(key)
        self._forget_old()
        parts.new.clear()
        unwanted_since: float | None = None
        while True:
            if connection.poll(_WATCH_SECONDS):
                what, found, version = connection.recv()
                if what == "progress":
                    progress(found)
                else:
                    if version != parts.version:  # a part could not be read
                        self._forget(key)
                    return parts, _result(what, found)
            if unwanted_since is None:
                if not wanted():
                    connection.send(None)
                    unwanted_since = time.monotonic()
            elif time.monotonic() - unwanted_since > _GRACE_SECONDS:
                self._end()
                raise CancelledError

    def _started(self) -> Connection:
        """The connection to the process, which is started if there is none."""
        if self._connection is None or self._process is None or not self._process.is_alive():
            self._end()
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe()
            self._process = context.Process(
                target=serve, args=(theirs,), name="sfumato worker", daemon=True
            )
            self._process.start()
            theirs.close()
        return self._connection

    def _forget_old(self) -> None:
        """Let the worker forget the tallies that were not asked for lately, if all are large."""
        while len(self._held) > 1 and sum(sum(parts.values()) for parts in self._held.values()) > (
            _MOST_BYTES
        ):
            self._forget(next(iter(self._held)))

    def _forget(self, key: Hashable) -> None:
        """Let the worker forget a tally with the next work that it gets."""
        if self._held.pop(key, None) is not None:
            self._forgotten.append(key)

    def forget(self, key: Hashable) -> None:
        """Forget the tally of a study that was deleted; this does not wait for work to be done."""
        self._gone.append(key)

    def stop(self) -> None:
        """End the process; work that is being done ends with it."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        """End the process, if there is one."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.join(_STOP_SECONDS)
            self._process.close()
        self._process, self._connection = None, None
        self._held.clear()
        self._forgotten = []


class WorkError(Exception):
    """Work that failed, and where."""


def _result(what: str, found: Any) -> Written:
    """The result of work, or why there is none."""
    if what == "cancelled":
        raise CancelledError
    if what == "refused":
        status, code, message, more, retry_after = found
        raise RefusedError(status, code, message, more=more, retry_after=retry_after)
    if what == "failed":
        raise WorkError(found)
    result: Written = found
    return result
