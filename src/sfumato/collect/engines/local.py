"""The local engine: files are tallied by threads of this machine, and the work can be resumed.

Threads and no processes: Arrow decodes without Python's lock, and what is counted under the lock
takes less time than decoding. A damaged file is left out as a whole, so the splits of a file are
merged apart before the file counts.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event, Lock

from sfumato.collect.accumulator import Accumulator
from sfumato.collect.engines.journal import Journal, StaleError
from sfumato.collect.engines.splits import DamagedError, Split, add_split, plan
from sfumato.collect.tally import joined_notes
from sfumato.errors import FormatError

#: Told how many reports have been tallied, and how many there are.
Seen = Callable[[int, int], None]
#: Told in a line what is worth knowing.
Say = Callable[[str], None]
_NAMED = 3  # damaged files that a note names


def tally_files(
    empty: Accumulator,
    paths: Sequence[str | Path],
    *,
    workers: int | None = None,
    skip_damaged: bool = False,
    journal: Journal | None = None,
    seen: Seen = lambda done, total: None,
    say: Say = lambda line: None,
) -> Accumulator:
    """Tally files of one study: reports and tallies in Parquet, packed reports, and batches.

    Args:
        empty: An empty accumulator of the study, which says what to keep.
        paths: The files.
        workers: How many threads read; left out, one per processor.
        skip_damaged: Leave damaged files out, which the tally and its answers then say.
        journal: What keeps the finished files, so that a run that was killed can be repeated. The
            caller removes it once the tally is safe.
        seen: Told how many reports have been tallied, and how many there are.
        say: Told in a line what is worth knowing.

    Returns:
        An accumulator that does not know its study: merge it into `study.accumulator()`.

    Raises:
        MismatchError: If a file belongs to another study; before any work.
        FormatError: If a file is damaged; it is named, and so is what was tallied.
    """
    work = plan(empty, paths, skip_damaged=skip_damaged)
    run = _Run(empty, journal, work.reports, seen, dict(work.damaged) if skip_damaged else None)
    files = run.resume(work.files, say)
    threads = workers or os.cpu_count() or 1
    with ThreadPoolExecutor(threads) as pool:
        # Few files ahead, so that few partial tallies are in memory.
        ahead: deque[tuple[list[Split], list[Future[Accumulator]]]] = deque()
        try:
            for splits in files:
                ahead.append((splits, [pool.submit(run.tally, split) for split in splits]))
                while sum(len(parts) for _, parts in ahead) > 2 * threads:
                    run.finish(pool, *ahead.popleft())
            while ahead:
                run.finish(pool, *ahead.popleft())
        except BaseException:
            run.stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            run.keep()
            raise
    return run.result(len(paths))


class _Run:
    """The state of one call of `tally_files`."""

    def __init__(
        self,
        empty: Accumulator,
        journal: Journal | None,
        reports: int,
        seen: Seen,
        damaged: dict[str, str] | None,
    ) -> None:
        self.empty, self.journal, self.reports, self.seen = empty, journal, reports, seen
        self.damaged = damaged  # by path, with the reason; None if they are refused
        self.total = _fresh(empty)
        self.finished: list[str] = []
        self.done = 0
        self.stopped = Event()
        self._lock = Lock()

    def resume(self, files: list[list[Split]], say: Say) -> list[list[Split]]:
        """The files that are left to do, after what a journal keeps."""
        if self.journal is None:
            return files
        paths = {_absolute(path) for splits in files for path in splits[0].paths}
        try:
            found = self.journal.resume(self.empty, paths)
        except StaleError as why:
            say(f"{str(self.journal.path)!r} cannot be used, since {why}; starting over")
            return files
        if found is None:
            return files
        self.total.merge(found)
        self.finished = list(self.journal.files)
        left = [
            f for f in files if not {_absolute(path) for path in f[0].paths} <= {*self.finished}
        ]
        self._add_done(self.reports - sum(split.reports for splits in left for split in splits))
        say(f"resuming: {len(self.finished):,} of {len(paths):,} files are tallied already")
        return left

    def tally(self, split: Split) -> Accumulator:
        """Tally a split, in a thread."""
        found, counted = _fresh(self.empty), 0
        for added in add_split(found, split):
            if self.stopped.is_set():
                break
            step = min(added, split.reports - counted)
            counted += step
            self._add_done(step)
        self._add_done(split.reports - counted)
        return found

    def _add_done(self, reports: int) -> None:
        with self._lock:
            self.done += reports
        self.seen(self.done, self.reports)

    def finish(
        self, pool: ThreadPoolExecutor, splits: list[Split], parts: list[Future[Accumulator]]
    ) -> None:
        """Add a file once all of its splits are tallied."""
        found = _fresh(self.empty)
        try:
            while parts:  # each is let go of once it is merged
                found.merge(parts.pop(0).result())
        except DamagedError as error:
            for part in parts:
                part.cancel()
            if self.damaged is None:
                raise FormatError(f"{error}; {self._state()}") from None
            self.damaged[error.path] = str(error)
            others = tuple(path for path in splits[0].paths if path != error.path)
            if others:  # batches, which are read together: once more without this one
                split = replace(splits[0], paths=others, reports=0)
                self.finish(pool, [split], [pool.submit(self.tally, split)])
            return
        self.total.merge(found)
        self.finished += map(_absolute, splits[0].paths)
        if splits[0].kind == "batches":
            # Their ids are not kept, so a repeated run must read them all again.
            self.journal = None
        if self.journal is not None and self.journal.is_due():
            self.keep()

    def keep(self) -> None:
        """Write the journal; where that fails, what it held before stays."""
        if self.journal is not None and self.finished:
            with contextlib.suppress(OSError):
                self.journal.write(self.total, self.finished)

    def _state(self) -> str:
        """What was tallied before a file was found to be damaged, and what to do."""
        kept = " and kept for the next run" if self.journal is not None and self.finished else ""
        count = len(self.finished)
        done = f"{self.total.n:,} reports of {count:,} file{'' if count == 1 else 's'} are tallied"
        return (
            f"{done}{kept}; write the file again, name the others only, or leave damaged files out "
            "with --skip-damaged"
        )

    def result(self, files: int) -> Accumulator:
        """The tally of all files; what was left out is noted."""
        if self.damaged:
            names = sorted(repr(Path(path).name) for path in self.damaged)
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            verbs = "was damaged and is" if len(names) == 1 else "were damaged and are"
            named = f"{', '.join(names[:_NAMED])}{more}"
            note = f"{len(names):,} of {files:,} files {verbs} left out: {named}"
            self.total.notes = joined_notes(self.total.notes, (note,))
        return self.total


def _fresh(empty: Accumulator) -> Accumulator:
    """An accumulator like another one, with nothing in it and without its study."""
    return Accumulator(empty.fingerprint, empty.columns, empty.layouts, empty.keep)


def _absolute(path: str) -> str:
    return str(Path(path).resolve())
