"""How fast reports become a histogram, beside pure-ldp and multi-freq-ldpy.

Each of these gets an environment of its own in build/peers, made once, and one process that stays
(`peer_runner.py`). We and they take turns on the same people, so that a busy moment of the machine
affects all of them equally. Processor time, one core; the time to set up a study or a client is not
counted.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sfumato as sf
from benchmarks.floors import floor_of
from benchmarks.pages import digits, markdown, refilled
from benchmarks.recording import FOLDER, Measurement, progress
from sfumato.channels.choice import Choice

HERE = Path(__file__).parent
ENVIRONMENTS = Path("build/peers")
PAGE = Path("docs/speed.md")

PEOPLE = 100_000
FEWER = 2_000  # where hashing every cell for everybody would take minutes
SIZES = (256, 1024)
EPSILON = 1.0
ROUNDS = 5
OURS = "sfumato"
ANSWERED = "sfumato, answered"
LIBRARIES = ("pure-ldp", "multi-freq-ldpy")


@dataclass(frozen=True)
class Theirs:
    """One way of another library to do what a method does."""

    library: str
    name: str
    people: int = PEOPLE
    same: bool = True  # the method itself, not a relative that trades something away


METHODS: dict[str, tuple[Choice, float, tuple[Theirs, ...]]] = {  # ours, the goal, theirs
    "OUE": (sf.OUE(), 20, (Theirs("pure-ldp", "UE"), Theirs("multi-freq-ldpy", "UE"))),
    "HRR": (
        sf.HRR(),
        100,
        (Theirs("pure-ldp", "HadamardMech"), Theirs("pure-ldp", "HadamardResponse")),
    ),
    "Hadamard": (sf.Hadamard(), 100, (Theirs("pure-ldp", "HadamardResponse"),)),
    "OLH": (
        sf.OLH(),
        50,
        (
            Theirs("pure-ldp", "LH", FEWER),
            Theirs("multi-freq-ldpy", "LH", FEWER),
            Theirs("pure-ldp", "FastLH", same=False),
        ),
    ),
}


class Peer:
    """A library in its own process, asked one question at a time."""

    def __init__(self, process: subprocess.Popen[str], library: str) -> None:
        self._process = process
        self._library = library
        self.versions = self._ask({"library": library})

    def run(self, name: str, size: int, cells: NDArray[np.int64]) -> tuple[float, NDArray[Any]]:
        """Seconds from values to a histogram, and the histogram.

        Args:
            name: The method.
            size: How many cells.
            cells: Everybody's cell.
        """
        asked = {"method": name, "size": size, "epsilon": EPSILON, "cells": cells.tolist()}
        found = self._ask(asked)
        return found["seconds"], np.array(found["counts"])

    def _ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        """One line there, one line back."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._library} stopped; what it said is above")
        answer: dict[str, Any] = json.loads(line)
        return answer


def environment(library: str) -> Path:
    """The interpreter of a library's own environment, made if it is missing or out of date."""
    wanted = HERE / f"peers-{library}.txt"
    folder = ENVIRONMENTS / library
    python, made = folder / "bin" / "python", folder / "made-from.txt"
    recipe = f"{sys.version}\n{wanted.read_text(encoding='utf-8')}"
    if made.exists() and made.read_text(encoding="utf-8") == recipe:
        return python
    progress(f"an environment for {library}, once, in {folder}")
    install = ["-m", "pip", "install", "-qq", "--disable-pip-version-check", "-r", str(wanted)]
    for step in ([sys.executable, "-m", "venv", "--clear", str(folder)], [str(python), *install]):
        if subprocess.run(step, check=False).returncode:
            raise SystemExit(
                f"the environment for {library} could not be made from {wanted.name}: "
                f"{' '.join(step)} failed. Its packages must be in reach of pip; the other "
                "measurements do not need them and can be named one by one"
            )
    made.write_text(recipe, encoding="utf-8")
    return python


@contextmanager
def running(library: str) -> Iterator[Peer]:
    """A library's process, warm and waiting; it ends with the block."""
    command = [str(environment(library)), str(HERE / "peer_runner.py")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        yield Peer(process, library)
        assert process.stdin is not None
        process.stdin.close()


class Ours:
    """A study with one axis, from values to unbiased counts of all cells."""

    def __init__(self, choice: Choice, size: int) -> None:
        protect = sf.Uniform(EPSILON)
        axis = sf.integers("x", 0, size - 1, protect=protect, channel=choice)
        self.study = sf.Study("bench", [axis])
        channel, one = self.study.channels[0], np.eye(size)[0]
        self._bits = channel.layout.kind == "bits"
        if self._bits:
            self._slope = np.subtract(*channel.coefficients(one)[1:3])
        else:
            self._slope = 1 / np.subtract(*channel.expect(channel.mix(one))[:2])

    def histogram(self, tally: sf.Tally) -> NDArray[Any]:
        """Unbiased counts in one transform, since these channels treat all cells equally.

        The reading of a cell is affine in the mean of the outputs' counts over what that cell would
        send, with one slope for all cells; together they count everybody.
        """
        sums = tally.statistic.profile([0], [None])
        back = sums[1:] if self._bits else self.study.channels[0].expect(sums)
        values: NDArray[Any] = tally.n / len(back) + self._slope * (back - back.mean())
        return values

    def run(self, cells: NDArray[np.int64]) -> tuple[dict[str, float], NDArray[Any]]:
        """Seconds for each stage and up to it, secure bits, and the histogram."""
        marks = [time.process_time()]
        reports = self.study.encode({"x": cells})
        marks.append(time.process_time())
        tally = self.study.tally(reports)
        values = self.histogram(tally)
        marks.append(time.process_time())
        found = tally.estimate("unbiased").histogram("x")
        marks.append(time.process_time())
        encoded, tallied, answered = np.diff(marks).tolist()
        np.testing.assert_allclose(values, found.values, rtol=1e-9, atol=1e-6)
        split = {
            "encode": encoded,
            "tally": tallied,
            OURS: encoded + tallied,
            ANSWERED: encoded + tallied + answered,
        }
        return split, values


def measure() -> Measurement:
    """Every method and size: our turn, then theirs, some rounds of it."""
    rows: list[dict[str, Any]] = []
    notes = [
        f"{OURS}: study.encode with secure bits, study.tally, and unbiased counts of all cells by "
        f"one transform, checked against the histogram. {ANSWERED}: the same, and "
        'estimate("unbiased").histogram, which adds the standard errors and is mostly work '
        "over cells, not people. The others: clients, aggregation, and the estimated histogram, "
        "which has no errors.",
        "The time of a method that hashes every cell for everybody grows with people: it is "
        f"measured on {FEWER:,} of them, and people/s says the rest.",
        "The faster other is one of those that have the method itself. FastLH is not OLH: all "
        "share 1,024 hash functions, under which some pairs of cells collide more often than "
        "others, a bias that people do not average out. It stands beside for comparison: the "
        "functions that sfumato shares collide evenly for every pair.",
        "RMSE/expected: error of the histograms of all rounds over the standard error of the "
        "method itself; below one where a library cuts off negative counts.",
        "floor: the random bytes that encode draws, from os.urandom, and one popcount pass over "
        "the packed bits or one np.bincount over the symbols, in the same run.",
    ]
    with ExitStack() as open_until_the_end:
        peers = {name: open_until_the_end.enter_context(running(name)) for name in LIBRARIES}
        for size in SIZES:
            for method in METHODS:
                rows += _compared(method, size, peers)
        for peer in peers.values():
            notes.append(", ".join(f"{name} {held}" for name, held in peer.versions.items()))
    title = f"{PEOPLE:,} people, one axis, ε = {EPSILON:g}, one core, values to histogram"
    return Measurement(title, rows, notes)


def people(size: int) -> NDArray[np.int64]:
    """A hump to the left of the middle."""
    drawn: NDArray[np.int64] = (np.random.default_rng(1).beta(2, 3, PEOPLE) * size).astype(np.int64)
    return drawn


def _compared(method: str, size: int, peers: dict[str, Peer]) -> list[dict[str, Any]]:
    """One method at one size: everybody's times, and how much faster we are."""
    choice, goal, others = METHODS[method]
    cells, ours = people(size), Ours(choice, size)
    ours.run(cells)
    for other in others:  # imports, and what is compiled on first use
        peers[other.library].run(other.name, size, cells[:2])
    names = [OURS, ANSWERED, *(f"{other.library} {other.name}" for other in others)]
    counted = dict(zip(names, [PEOPLE, PEOPLE, *(other.people for other in others)], strict=True))
    times: dict[str, list[float]] = {name: [] for name in (*names, "encode", "tally")}
    squares: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(ROUNDS):
        progress(f"{method}, k = {size}, round {turn + 1} of {ROUNDS}")
        split, found = ours.run(cells)
        for name, seconds in split.items():
            times[name].append(seconds)
        squares[OURS].append(_error(method, found, cells, size))
        for name, other in zip(names[2:], others, strict=True):
            some = cells[: other.people]
            seconds, found = peers[other.library].run(other.name, size, some)
            times[name].append(seconds)
            squares[name].append(_error(method, found, some, size))
    rates = {name: counted[name] / min(times[name]) for name in names}
    values = {"x": cells}
    floor = floor_of(ours.study, values, ours.study.encode(values)).together
    over_floor = (min(times["encode"]) + min(times["tally"])) / floor
    fastest = max(rates[n] for n, other in zip(names[2:], others, strict=True) if other.same)
    return [
        {
            "method": method,
            "k": size,
            "what": name,
            "people": counted[name],
            "best s": min(times[name]),
            "median s": statistics.median(times[name]),
            "encode s": min(times["encode"]) if name == OURS else "",
            "tally s": min(times["tally"]) if name == OURS else "",
            "people/s": rates[name],
            "× the faster other": rates[name] / fastest,
            "goal ×": goal if name == OURS else "",
            "encode + tally / floor": over_floor if name == OURS else "",
            "RMSE/expected": float(np.sqrt(np.mean(squares[name]))) if squares[name] else "",
        }
        for name in names
    ]


def _error(method: str, found: NDArray[Any], cells: NDArray[np.int64], size: int) -> float:
    """Mean squared error of counts over the method's variance for an empty cell."""
    odds = np.exp(EPSILON)
    one = (odds + 1) ** 2 if method in ("HRR", "Hadamard") else 4 * odds
    off = found - np.bincount(cells, minlength=size)
    return float(np.mean(off**2) * (odds - 1) ** 2 / (one * len(cells)))


# The page


def page_tables(figures: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Recorded figures as the table of the page, by its name there."""
    head = ["method", "cells", "who", "people per second", "× the faster other", "time / floor"]
    rows = [
        [
            row["method"],
            f"{row['k']:,}",
            row["what"],
            f"{float(format(row['people/s'], '.3g')):,.0f}",
            digits(row["× the faster other"]),
            row["encode + tally / floor"] and digits(row["encode + tally / floor"]),
        ]
        for row in figures
    ]
    return {"peers": markdown(head, rows)}


if __name__ == "__main__":
    held = json.loads((FOLDER / "peers.json").read_text(encoding="utf-8"))["figures"]
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(refilled(text, page_tables(held)), encoding="utf-8")
