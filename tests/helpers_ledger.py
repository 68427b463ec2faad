"""Writers of one ledger that are killed at any point, several at once, and what must hold then.

Run as a program, since only a process without threads may be forked. A writer notes a release in a
file of its own after the ledger has let it pass, as a curator would publish it, so that what was
released is known however the writer ends. It is killed at a random time, at a random line of the
modules that change the file, or between two pieces of a line of the file, which its system writes
one by one.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any

import sfumato as sf
from sfumato import central, files
from sfumato.central import chain
from sfumato.central import ledger as module

SHARES = tuple(Fraction(k, 37) for k in (1, 2, 5))
WRITERS = 8
SHUT_OUT = 8
_MOST_LINES = 4_000  # of a writer's life: some three releases
_MOST_SECONDS = 0.2
_MOST_PIECES = 40
_PIECE = 48  # bytes of a line that are written at once
_FILES = tuple(str(file.__file__) for file in (module, chain, files))

Break = Callable[[], object]


@contextlib.contextmanager
def _open(file: Path) -> Iterator[int]:
    """Open the file without a lock."""
    handle = os.open(file, os.O_RDWR)
    try:
        yield handle
    finally:
        os.close(handle)


def _unlocked() -> None:
    """Let writers work at once."""
    module.locked = _open  # type: ignore[assignment]


@contextlib.contextmanager
def _there_or_not(file: Path) -> Iterator[int]:
    """A lock that is held as long as its file is there, whoever made it."""
    lock = file.with_name(f"{file.name}.held")
    until = time.monotonic() + 1.0
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
            break
        except FileExistsError:
            if time.monotonic() > until:
                raise sf.LedgerError("another writer holds it") from None
            time.sleep(0.001)
    try:
        with _open(file) as handle:
            yield handle
    finally:
        lock.unlink()


def _left_behind() -> None:
    """Leave the lock of a dead writer where it is."""
    module.locked = _there_or_not  # type: ignore[assignment]


def _length_first() -> None:
    """Raise the length before the event is there."""

    def append(file: Path, handle: int, document: Any, size: int) -> None:
        line = chain._line(document["events"][-1])
        chain._put(handle, chain._top(document, size + len(line)), 0)
        chain._put(handle, line, size)

    module.append = append  # type: ignore[assignment]


def _uncut() -> None:
    """Append to what a dead writer left, whatever that is."""

    def append(file: Path, handle: int, document: Any, size: int) -> None:
        line, at = chain._line(document["events"][-1]), os.fstat(handle).st_size
        chain._put(handle, line, at)
        chain._put(handle, chain._top(document, at + len(line)), 0)

    module.append = append  # type: ignore[assignment]


def _replaced() -> None:
    """Replace the whole file by one with a name of its own."""

    def append(file: Path, handle: int, document: Any, size: int) -> None:
        head = {key: held for key, held in document.items() if key not in ("events", "last")}
        events = [{k: v for k, v in e.items() if k != "digest"} for e in document["events"]]
        part = file.with_name(f"{file.name}.{random.getrandbits(32)}")
        part.write_bytes(chain.encode(head, events))
        part.replace(file)

    module.append = append  # type: ignore[assignment]


#: Ways to be wrong that the kills must show.
BROKEN: dict[str, Break] = {
    "unlocked": _unlocked,
    "left behind": _left_behind,
    "length first": _length_first,
    "uncut": _uncut,
    "replaced": _replaced,
    "late": lambda: None,
}


def _in_pieces(left: int | None) -> None:
    """Let the system write a line in pieces; the length it writes at once, as a disk does.

    Args:
        left: The piece after which the process is killed; None if it is not.
    """
    whole, pieces = os.pwrite, itertools.count(1)

    def pwrite(handle: int, data: bytes, at: int) -> int:
        done = whole(handle, data[:_PIECE] if at else data, at)
        if next(pieces) == left:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    os.pwrite = pwrite  # type: ignore[assignment]


class _Line:
    """Kills the process at a given line of the ledger's modules."""

    def __init__(self, left: int) -> None:
        self._left = left

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code.co_filename not in _FILES:
            return None
        if event == "line":
            self._left -= 1
            if not self._left:
                os.kill(os.getpid(), signal.SIGKILL)
        return self


def _write(path: Path, notes: Path, seed: int, way: str, broken: str | None) -> None:
    """Release again and again until refused or dead."""
    rng = random.Random(seed)
    if broken is not None:
        BROKEN[broken]()
    _in_pieces(rng.randrange(1, _MOST_PIECES) if way == "piece" else None)
    log = os.open(notes, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    if way == "line":
        sys.settrace(_Line(rng.randrange(1, _MOST_LINES)))
    ledger = central.Ledger.load(path)
    while True:
        share = rng.choice(SHARES)
        if broken == "late":
            os.write(log, f"release {len(ledger.entries) + 1} {share}\n".encode())
        entry = ledger.reserve(share, mechanism="a crash", people=10)
        if broken != "late":
            os.write(log, f"release {entry.id} {share}\n".encode())
        if rng.random() < 0.8:
            ledger.settle(entry.id)
            os.write(log, f"settle {entry.id} {share}\n".encode())


def _born(path: Path, notes: Path, rng: random.Random, broken: str | None) -> tuple[int, float]:
    """A writer's process, and when it is to be killed."""
    seed, way = rng.getrandbits(32), rng.choice(("time", "line", "piece"))
    at = time.monotonic() + (rng.uniform(0, _MOST_SECONDS) if way == "time" else 60.0)
    process = os.fork()
    if not process:
        try:
            _write(path, notes, seed, way, broken)
        except sf.SfumatoError as error:
            os._exit(SHUT_OUT if "another writer" in str(error) else 0)
        finally:
            os._exit(1)
    return process, at


def _wave(path: Path, folder: Path, rng: random.Random, broken: str | None) -> list[int]:
    """Some writers at once; how each of them ended."""
    living = dict(
        _born(path, folder / f"notes-{rng.getrandbits(64)}", rng, broken) for _ in range(WRITERS)
    )
    ends: list[int] = []
    while living:
        for process, at in list(living.items()):
            if time.monotonic() > at:
                os.kill(process, signal.SIGKILL)
            found, status = os.waitpid(process, os.WNOHANG)
            if found:
                del living[process]
                ends.append(os.waitstatus_to_exitcode(status))
        time.sleep(0.0005)
    return ends


def violations(path: Path, folder: Path, before: tuple[central.Entry, ...]) -> list[str]:
    """What a ledger gets wrong about the releases that its writers noted, and what is beside it."""
    found = [f"left behind: {file.name}" for file in path.parent.iterdir() if file != path]
    try:
        ledger = central.Ledger.load(path)
    except sf.SfumatoError as error:
        return [*found, f"does not load: {str(error)[-60:]}"]
    noted: dict[int, Fraction] = {}
    for notes in folder.glob("notes-*"):
        for line in notes.read_text(encoding="utf-8").splitlines():
            kind, number, share = line.split()
            place, spent = int(number), Fraction(share)
            if place > len(ledger.entries) or ledger.entries[place - 1].spend.share != spent:
                found.append(f"release {place} is not in the ledger")
            elif kind == "settle" and ledger.entries[place - 1].state != "released":
                found.append(f"release {place} is not settled")
            if kind == "release" and place in noted:
                found.append(f"release {place} was made twice")
            noted[place] = spent
    if [e.spend for e in ledger.entries[: len(before)]] != [e.spend for e in before]:
        found.append("entries have changed")
    if max(ledger.used().values()) > ledger.total:
        found.append("more is spent than there was")
    if sum(noted.values(), Fraction(0)) > max(ledger.used().values()):
        found.append("less is spent than was released")
    return found


def kills(folder: Path, seed: int, least: int, broken: str | None = None) -> dict[str, Any]:
    """Kill writers until enough have died, or until the first violation."""
    rng = random.Random(seed)
    axes = [sf.integers("age", 0, 9, protect=sf.Distance(0.5))]
    study = sf.Study("kills", axes)
    done = {"killed": 0, "refused": 0, "ledgers": 0, "entries": 0, "full": 0, "cut": 0}
    while done["killed"] < least:
        done["ledgers"] += 1
        notes = folder / str(done["ledgers"])
        (notes / "home").mkdir(parents=True)
        path, before = notes / "home" / "a.ledger", ()
        central.Ledger.create(path, study)
        while done["killed"] < least:
            codes = _wave(path, notes, rng, broken)
            done["killed"] += codes.count(-signal.SIGKILL)
            done["refused"] += codes.count(0)
            found = violations(path, notes, before)
            found += ["a writer failed"] * codes.count(1)
            found += ["a writer was shut out"] * codes.count(SHUT_OUT)
            if found:
                return {**done, "violations": found}
            ledger = central.Ledger.load(path)
            before = ledger.entries
            done["cut"] += not path.read_bytes().endswith(b"}\n")
            if ledger.remaining < max(SHARES):
                done["full"] += 1
                break
        done["entries"] += len(before)
    return {**done, "violations": []}


def kills_apart(folder: Path, seed: int, least: int, *broken: str) -> dict[str, Any]:
    """The same in a process of its own, which has no threads and may be forked."""
    run = subprocess.run(
        [sys.executable, __file__, str(folder), str(seed), str(least), *broken],
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
    )
    found: dict[str, Any] = json.loads(run.stdout)
    return found


if __name__ == "__main__":
    where, number, many, *how = sys.argv[1:]
    print(json.dumps(kills(Path(where), int(number), int(many), *how)))
