"""Clients that are killed at any point, two at once on one folder, and what must hold then.

Run as a program, since only a process without threads may be forked. A client notes a report in a
file of its own after `report` has returned it, as an app would rely on it. It is killed at a random
time, or at a random line of the modules that write and send.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any

from sfumato.device import client, memory, upload
from sfumato.errors import SfumatoError

FINGERPRINT = "ab" * 32
SIZE = 16
ROUNDS = 400
PERSONS = ("", "Ann", "Bob")  # who share the device
_WRITERS = 2
_MOST_LINES = 2_500
_MOST_SECONDS = 0.15
_FILES = tuple(str(module.__file__) for module in (client, memory, upload))


class Random:
    """A study and its program at once, whose reports are random bytes: no two are the same."""

    name, fingerprint, digest = "kills", FINGERPRINT, "cd" * 32
    most: Fraction | None = Fraction(1, 2)
    report_size = SIZE

    def device_program(self) -> Any:
        return self

    def codes(self, record: Mapping[str, object]) -> tuple[int, ...]:
        return (0,)

    def encode(self, record: Mapping[str, object], *, words: object = None) -> bytes:
        return secrets.token_bytes(SIZE)


def _new_ids() -> None:
    """Send with a fresh id each time."""
    due = memory.Memory.due

    def fresh(self: memory.Memory, most: int) -> list[memory.Queued]:
        held = due(self, most)
        for one in held:
            new = secrets.token_bytes(16)
            with self._change() as run:
                run.execute("UPDATE rounds SET id = ? WHERE id = ?", (new, one.id))
        return due(self, most)

    memory.Memory.due = fresh  # type: ignore[method-assign]


def _settled_first() -> None:
    """Forget a batch before it is sent."""
    due = memory.Memory.due

    def forgotten(self: memory.Memory, most: int) -> list[memory.Queued]:
        held = due(self, most)
        self.settle(held)
        return held

    memory.Memory.due = forgotten  # type: ignore[method-assign]


def _kept_late() -> None:
    """Return a report before it is on the disk."""
    keep, late = memory.Memory.keep, []

    def postponed(
        self: memory.Memory, name: str, reports: Mapping[str, bytes], day: int
    ) -> dict[str, bytes]:
        for one in late:
            keep(self, *one)
        late[:] = [(name, reports, day)]
        return dict(reports)

    memory.Memory.keep = postponed  # type: ignore[method-assign]


#: Ways to be wrong that the kills must show.
BROKEN: dict[str, Callable[[], None]] = {
    "new ids": _new_ids,
    "settled first": _settled_first,
    "kept late": _kept_late,
}


class _Line:
    """Kills the process at a given line of the client's modules."""

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


def _live(folder: Path, url: str, notes: Path, rng: random.Random, way: str) -> None:
    """Report and send until done or dead."""
    log = os.open(notes, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    if way == "line":
        sys.settrace(_Line(rng.randrange(1, _MOST_LINES)))
    with client.Client(Random(), url, folder=folder) as held:
        for _ in range(40):
            name = str(rng.randrange(ROUNDS))
            persons = rng.sample(PERSONS, rng.choice((1, 1, 3)))
            made = held.report_all({person: {} for person in persons}, round=name).reports
            lines = [f"{name},{person} {report.hex()}\n" for person, report in made.items()]
            os.write(log, "".join(lines).encode())
            if rng.random() < 0.4:
                held.send()


def _born(folder: Path, url: str, notes: Path, rng: random.Random) -> tuple[int, float]:
    """A client's process, and when it is to be killed."""
    seed, way = rng.getrandbits(32), rng.choice(("time", "line"))
    at = time.monotonic() + (rng.uniform(0, _MOST_SECONDS) if way == "time" else 60.0)
    process = os.fork()
    if not process:
        code = 1
        try:
            _live(folder, url, notes, random.Random(seed), way)
            code = 0
        except SfumatoError as error:
            os.write(2, f"{error}\n".encode())
        finally:
            os._exit(code)
    return process, at


def _wave(folder: Path, url: str, notes: Path, rng: random.Random) -> list[int]:
    """Some clients at once; how each of them ended."""
    living = dict(
        _born(folder, url, notes / f"{rng.getrandbits(64)}", rng) for _ in range(_WRITERS)
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
        time.sleep(0.001)
    return ends


def _rounds(held: client.Client) -> int:
    """How many rounds are charged, over all persons."""
    return sum(held.spent(person).studies[0].rounds for person in PERSONS)


def violations(folder: Path, notes: Path, log: Path) -> list[str]:
    """What is wrong about the reports that clients noted and those that the collector stored."""
    found = []
    with client.Client(Random(), folder=folder) as held:  # rolls back what was left half written
        charged = _rounds(held)
    database = sqlite3.connect(folder / memory.FILE)
    rows = database.execute("SELECT round || ',' || person, report FROM rounds").fetchall()
    reports = dict(rows)
    database.close()
    for file in notes.iterdir():
        for line in file.read_text(encoding="ascii").splitlines():
            name, report = line.split()
            if reports.get(name) != bytes.fromhex(report):
                found.append("a report that was returned is lost")
    stored = [line.split() for line in log.read_text(encoding="ascii").splitlines()]
    if charged < len(stored):
        found.append("the ledger is below what was sent")
    if len({report for _, report in stored}) < len(stored):
        found.append("a report was sent under two ids")
    if not {bytes.fromhex(report) for _, report in stored} <= set(reports.values()):
        found.append("a report was sent that is not remembered")
    return found


def kills(
    folder: Path, url: str, log: Path, seed: int, least: int, broken: str | None
) -> dict[str, Any]:
    """Kill clients until enough have died, or until the first violation; then send the rest."""
    rng = random.Random(seed)
    client.FIRST_WAIT = 0.002
    if broken is not None:
        BROKEN[broken]()
    home, notes, killed = folder / "home", folder / "notes", 0
    notes.mkdir()
    while killed < least:
        ends = _wave(home, url, notes, rng)
        killed += ends.count(-signal.SIGKILL)
        found = violations(home, notes, log) + ["a client failed"] * ends.count(1)
        if found:
            return {"killed": killed, "violations": found}
    with client.Client(Random(), url, folder=home) as held:
        for name in map(str, range(ROUNDS)):  # rounds that are charged and have no report yet
            for person in PERSONS:
                if held._memory._stored(held._memory._connection, name, person)[0] == "charged":
                    held.report({}, round=name, person=person)
        left = held.send(wait=30)
        rounds = _rounds(held)
    found = violations(home, notes, log)
    stored = len(log.read_text(encoding="ascii").splitlines())
    if left.waiting or stored != rounds:
        found.append(f"{rounds} rounds are charged, {stored} stored, {left.waiting} wait")
    return {"killed": killed, "violations": found, "rounds": rounds}


def kills_apart(folder: Path, url: str, log: Path, seed: int, *rest: str) -> dict[str, Any]:
    """The same in a process of its own, which has no threads and may be forked."""
    run = subprocess.run(
        [sys.executable, __file__, str(folder), url, str(log), str(seed), *rest],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
    )
    found: dict[str, Any] = json.loads(run.stdout)
    return found


if __name__ == "__main__":
    where, address, ids, number, many, *how = sys.argv[1:]
    done = kills(Path(where), address, Path(ids), int(number), int(many), how[0] if how else None)
    print(json.dumps(done))
