"""Tallies of files by any engine: what it finds is merged and kept, so that it can be resumed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from sfumato.collect.accumulator import Accumulator
from sfumato.collect.engines import splits
from sfumato.collect.engines.journal import Journal, StaleError
from sfumato.collect.engines.parts import Load, Part, fresh, merge_parts, tally_load
from sfumato.collect.engines.splits import DamagedError, Plan, Split, plan
from sfumato.collect.engines.workers import Seen, Work, Workers
from sfumato.collect.packing import layout_of
from sfumato.collect.stores import whole_path
from sfumato.collect.tally import joined_notes
from sfumato.errors import FormatError

#: Told in a line what is worth knowing.
Say = Callable[[str], None]
_REMEDY = (
    "write the file again, name the others only, or leave damaged files out with --skip-damaged "
    "(in Python, skip_damaged=True)"
)
_NAMED = 3  # damaged files that a note names
_LOADS = 32  # for each worker, where files are small: enough to share fairly
_LEAST = 1 << 20  # reports in a load for a cluster: fewer take less time than starting a task
_WAVE = 16  # loads for each worker that become one partial tally
_MOST_BYTES = 1 << 28  # of reports in a partial tally that keeps them


def tally_files(
    engine: Workers,
    empty: Accumulator,
    paths: Sequence[str],
    *,
    skip_damaged: bool = False,
    journal: Journal | None = None,
    seen: Seen = lambda done, total: None,
    say: Say = lambda line: None,
) -> Accumulator:
    """Tally files of one study: reports and tallies in Parquet, packed reports, and batches.

    Args:
        engine: Who reads the files.
        empty: An empty accumulator of the study, which says what to keep.
        paths: The files, or their URLs.
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
        EngineError: If the engine or a store fails.
    """
    # A worker elsewhere has another current folder.
    named = list(paths) if engine.are_here else list(map(whole_path, paths))
    try:
        work = plan(empty, named, skip_damaged=skip_damaged)
    except DamagedError as error:
        kept = journal is not None and journal.path.exists()
        before = " in this run, and what an earlier one tallied is kept" if kept else " yet"
        raise FormatError(f"{error}; nothing is tallied{before}; {_REMEDY}") from None
    run = _Run(empty, journal, work, seen, skip_damaged)
    loads = list(_loads(run.resume(work.files, say), engine))
    task = Work(partial(tally_load, fresh(empty).to_bytes()), merge_parts)
    found = engine.gather(task, loads, _wave(empty, engine.slots))
    try:
        with contextlib.closing(found):
            for part in found:
                run.add(part)
    except BaseException:
        run.keep()
        raise
    return run.result(len(paths))


def _loads(files: list[list[Split]], engine: Workers) -> Iterator[Load]:
    """The splits of all files in loads of like size; small files go together."""
    left = [split for file in files for split in file]
    total = sum(split.reports for split in left)
    least = 1 if engine.are_here else _LEAST
    most = min(splits.ROWS_OF_SPLIT, max(least, -(-total // (_LOADS * engine.slots))))
    held: list[Split] = []
    reports = 0
    for split in left:
        held.append(split)
        reports += split.reports
        if reports >= most:
            yield tuple(held)
            held, reports = [], 0
    if held:
        yield tuple(held)


def _wave(empty: Accumulator, slots: int) -> int:
    """How many loads become one partial tally, which bounds its size where reports are kept."""
    if empty.keep != "reports" or all(layout.kind == "symbols" for layout in empty.layouts):
        return _WAVE * slots
    load = splits.ROWS_OF_SPLIT * layout_of(empty.layouts).size
    return max(1, min(_WAVE * slots, _MOST_BYTES // load))


class _Run:
    """The state of one call of `tally_files`."""

    def __init__(
        self,
        empty: Accumulator,
        journal: Journal | None,
        work: Plan,
        seen: Seen,
        skip_damaged: bool,
    ) -> None:
        self.empty, self.journal, self.seen, self.skip_damaged = empty, journal, seen, skip_damaged
        self.reports = work.reports
        together = [file[0].paths for file in work.files if file[0].kind == "batches"]
        self.batches = {path for paths in together for path in paths}
        self.total = Part(fresh(empty), damaged=dict(work.damaged))
        self.finished: list[str] = []  # by absolute path

    def resume(self, files: list[list[Split]], say: Say) -> list[list[Split]]:
        """The files that are left to do, after what a journal keeps."""
        if self.journal is None:
            return files
        paths = {whole_path(path) for splits in files for path in splits[0].paths}
        try:
            found = self.journal.resume(self.empty, paths)
        except StaleError as why:
            say(f"{str(self.journal.path)!r} cannot be used, since {why}; starting over")
            return files
        if found is None:
            return files
        self.total.found.merge(found)
        self.finished = list(self.journal.files)
        done = {*self.finished}
        left = [file for file in files if not {whole_path(path) for path in file[0].paths} <= done]
        self.total.planned = self.reports - sum(s.reports for splits in left for s in splits)
        self.seen(self.total.planned, self.reports)
        say(f"resuming: {len(self.finished):,} of {len(paths):,} files are tallied already")
        return left

    def add(self, part: Part) -> None:
        """Add what an engine found."""
        self.total.merge(part)
        files, self.total.files = self.total.files, []
        self.finished += map(whole_path, files)
        if not self.batches.isdisjoint(files):
            # Their ids are not kept, so a repeated run must read them all again.
            self.journal = None
        self.seen(min(self.total.planned, self.reports), self.reports)
        if self.total.refused is not None:
            raise self.total.refused
        if self.total.damaged and not self.skip_damaged:
            raise FormatError(f"{next(iter(self.total.damaged.values()))}; {self._state()}")
        if self.journal is not None and self.journal.is_due():
            self.keep()

    def keep(self) -> None:
        """Write the journal; where that fails, what it held before stays."""
        if self.journal is not None and self.finished:
            with contextlib.suppress(OSError):
                self.journal.write(self.total.found, self.finished)

    def _state(self) -> str:
        """What was tallied before a file was found to be damaged, and what to do."""
        kept = " and kept for the next run" if self.journal is not None and self.finished else ""
        count, reports = len(self.finished), self.total.found.n
        done = f"{reports:,} reports of {count:,} file{'' if count == 1 else 's'} are tallied"
        return f"{done}{kept}; {_REMEDY}"

    def result(self, files: int) -> Accumulator:
        """The tally of all files; what was left out is noted."""
        found, damaged = self.total.found, self.total.damaged
        if damaged:
            names = sorted(repr(Path(path).name) for path in damaged)
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            verbs = "was damaged and is" if len(names) == 1 else "were damaged and are"
            named = f"{', '.join(names[:_NAMED])}{more}"
            note = f"{len(names):,} of {files:,} files {verbs} left out: {named}"
            found.notes = joined_notes(found.notes, (note,))
        return found
