"""Fuzzing: hostile input for all that reads from outside, in processes that cannot do harm.

An input is made from the seed, the name of its target and its number, so that any can be made
again. It breaks a rule if it ends in anything but an answer or an error of this package, if it
takes more than 5 s of processor time or 500 MB of memory, or if a message shows a private value. A
worker is a process of its own: the kernel ends it where an input takes too long, whatever code is
running then, and another one goes on behind that input.

To repeat a finding: python tests/helpers_fuzz.py TARGET SEED NUMBER 1
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sfumato as sf

SECONDS = 5.0
MEGABYTES = 500
#: Values of people that the targets plant, and no message may show.
PRIVATE = ("8675309", "Xanadu")

_MOST_ADDRESSES = 4 * MEGABYTES << 20  # beyond the peak at rest: a bomb fails before it hurts
_STALLED = 300.0  # seconds of waiting, not of work: a deadlock
_KEPT = 3  # findings of one kind that are kept
_SHOWN = 2_000  # letters of an input that are kept

Make = Callable[[random.Random], Any]


@dataclass(frozen=True)
class Target:
    """Something that reads from outside.

    Args:
        make: An input, from randomness.
        run: Reads it, and uses what was read; the folder is the worker's own.
        weight: Its share of all inputs, in parts.
    """

    make: Make
    run: Callable[[Any, Path], object]
    weight: int = 1


class Leak(Exception):  # noqa: N818
    """A private value was shown."""


def refuse_private(text: str) -> None:
    """Refuse a text that shows a private value."""
    if any(value in text for value in PRIVATE):
        raise Leak


def _chain(error: BaseException | None) -> Iterable[BaseException]:
    """An error and those that it carries."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _outcome(run: Callable[[Any, Path], object], given: Any, folder: Path) -> str:
    """What became of an input: "answered", "refused", or what it did that it should not do."""
    try:
        try:
            run(given, folder)
        except sf.SfumatoError as error:
            for part in _chain(error):
                refuse_private(f"{part} {part.args}")
            return "refused"
    except MemoryError:
        return "memory"
    except BaseException as error:  # noqa: BLE001 - any error is a finding
        frames = [
            f"{Path(frame.filename).name}:{frame.lineno}"
            for frame in traceback.extract_tb(error.__traceback__)
            if "sfumato" in frame.filename
        ]
        return f"{type(error).__name__} at {frames[-1] if frames else 'the target'}"
    return "answered"


def _peak() -> int:
    """The most memory that this process has held, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # where it is in bytes


def _addresses() -> int:
    """The address space in use, in bytes."""
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[0]) * resource.getpagesize() if pages.exists() else 0


def _target(name: str) -> Target:
    """A target by its name."""
    from helpers_fuzz_targets import BROKEN, DEVICES, TARGETS

    return {**TARGETS, **DEVICES, **BROKEN}[name]


def _randomness(name: str, seed: int, number: int) -> random.Random:
    """What an input is made from."""
    return random.Random(f"{seed} {name} {number}")


def work(name: str, seed: int, first: int, count: int, seconds: float, mark: Path) -> None:
    """Run inputs one after another; findings and a summary go to the standard output.

    Args:
        name: The target.
        seed: The seed of the run.
        first: Number of the first input.
        count: How many.
        seconds: Processor time that an input may take.
        mark: A file that holds the number of the input at work.
    """
    target = _target(name)
    out = sys.stdout
    slowest, done, answered = 0.0, 0, 0
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    with tempfile.TemporaryDirectory() as home, mark.open("wb", buffering=0) as place:
        folder = Path(home)
        os.chdir(folder)
        target.make(random.Random(0))  # what inputs are made from is loaded
        _outcome(target.run, target.make(random.Random(0)), folder)
        rest = _peak()
        soft = _addresses() + _MOST_ADDRESSES
        resource.setrlimit(resource.RLIMIT_AS, (soft, resource.RLIM_INFINITY))
        for number in range(first, first + count):
            os.pwrite(place.fileno(), b"%-20d" % number, 0)
            given = target.make(_randomness(name, seed, number))
            begun = time.process_time()
            signal.setitimer(signal.ITIMER_PROF, seconds)
            fault = _outcome(target.run, given, folder)
            signal.setitimer(signal.ITIMER_PROF, 0)
            slowest = max(slowest, time.process_time() - begun)
            done += 1
            full = _peak() - rest > MEGABYTES << 20
            fault = "memory" if full else fault
            answered += fault == "answered"
            if fault not in ("answered", "refused"):
                found = {"number": number, "fault": fault, "input": repr(given)[:_SHOWN]}
                print(json.dumps(found), file=out, flush=True)
            if full:  # the peak of this process says nothing about further inputs
                break
        grown = (_peak() - rest) >> 20
    end = {"done": done, "answered": answered, "slowest": slowest, "grown": grown}
    print(json.dumps(end), file=out, flush=True)


def fuzz(name: str, seed: int, count: int, *, seconds: float = SECONDS) -> dict[str, Any]:
    """Run inputs of one target; what broke a rule, by kind.

    Args:
        name: The target.
        seed: The seed of the run.
        count: How many inputs.
        seconds: Processor time that an input may take.
    """
    here = Path(__file__)
    found: dict[str, list[dict[str, Any]]] = {}
    total = {"inputs": 0, "answered": 0, "slowest_seconds": 0.0, "most_megabytes": 0}
    # One thread each, and memory from the system, so that addresses tell what is used.
    calm = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    calm |= {"ARROW_DEFAULT_MEMORY_POOL": "system"}

    def note(number: int, fault: str, given: str) -> None:
        kind = found.setdefault(fault, [])
        if len(kind) < _KEPT:
            kind.append({"number": number, "input": given})

    with tempfile.TemporaryDirectory() as folder:
        mark = Path(folder, "mark")
        while total["inputs"] < count:
            first = int(total["inputs"])
            parts = (name, seed, first, count - first, seconds, mark)
            run = subprocess.run(
                [sys.executable, str(here), *map(str, parts)],
                check=False,
                capture_output=True,
                text=True,
                env={**os.environ, **calm},
                timeout=_STALLED + 10 * seconds + count,
            )
            lines = [json.loads(line) for line in run.stdout.splitlines()]
            for line in lines:
                if "fault" in line:
                    note(line["number"], line["fault"], line["input"])
            if lines and "done" in lines[-1]:
                end = lines[-1]
                total["inputs"] += end["done"]
                total["answered"] += end["answered"]
                total["slowest_seconds"] = max(total["slowest_seconds"], end["slowest"])
                total["most_megabytes"] = max(total["most_megabytes"], end["grown"])
                continue
            if not mark.exists():
                raise RuntimeError(f"no worker for {name!r}: {run.stderr[-2_000:]}")
            number = int(mark.read_bytes())
            mark.unlink()
            slow = run.returncode == -signal.SIGPROF
            given = repr(_target(name).make(_randomness(name, seed, number)))[:_SHOWN]
            note(number, "time" if slow else f"exit {run.returncode}", given)
            total["inputs"] = number + 1
    return {**total, "findings": found}


def shares(count: int, weights: dict[str, int]) -> dict[str, int]:
    """A number of inputs for each target, by weight; together at least `count`.

    Args:
        count: The number of all inputs.
        weights: The weight of each target.
    """
    return {name: -(-count * part // sum(weights.values())) for name, part in weights.items()}


if __name__ == "__main__":
    which, *numbers = sys.argv[1:]
    limit = float(numbers[3]) if len(numbers) > 3 else SECONDS
    held = Path(numbers[4]) if len(numbers) > 4 else Path(tempfile.mkdtemp(), "mark")
    work(which, int(numbers[0]), int(numbers[1]), int(numbers[2]), limit, held)
