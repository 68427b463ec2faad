"""A million cells, ten million people, by context: encoded and decoded, beside pure-ldp.

From values to the shares of all cells with their standard errors. Everybody's value is reported by
Hadamard response, plain, within a thousand blocks, or with a thousand sensitive cells. pure-ldp has
the plain one; one person at a time, so it gets as many people as take it some twenty seconds. It is
also given as many cells as it can do in two minutes and 8 GiB: its transform calls itself for every
cell, so time runs out long before memory does.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sfumato as sf
from benchmarks.pages import digits, markdown, refilled
from benchmarks.peers import EPSILON, running
from benchmarks.recording import FOLDER, Measurement, progress
from sfumato.metrics.base import Metric

PAGE = Path("docs/speed.md")
CELLS = 1_000_000
PEOPLE = 10_000_000
FEWER = 1_000_000  # for pure-ldp, and for us beside it
LARGEST = (1 << 24) - 1  # cells of an axis here, but for one
THEIR_LARGEST = (1 << 25) - 1  # cells that pure-ldp can do; one more doubles its transform
FEWEST = 100_000  # people there
THEIR_SECONDS = 120
BLOCK = 1000
MOST_SECONDS, MOST_GIB = 60, 4
TIMES = ("encode s", "decode s", "seconds", "wall s")
THEIRS = "pure-ldp HadamardResponse"


def contexts(size: int) -> dict[str, Metric]:
    """Plain, blocks, sensitive cells."""
    blocks = [range(start, min(start + BLOCK, size)) for start in range(0, size, BLOCK)]
    return {
        "plain": sf.Uniform(EPSILON),
        f"{len(blocks):,} blocks": sf.Blocks(EPSILON, blocks),
        f"{BLOCK:,} sensitive cells": sf.HighLow(EPSILON, sensitive=range(BLOCK)),
    }


def people(count: int, size: int) -> NDArray[np.int64]:
    """People of whom most are in few cells, as with places and words.

    Args:
        count: How many people.
        size: How many cells.
    """
    drawn = np.random.default_rng(1).random(count)
    return np.minimum(size**drawn - 1, size - 1).astype(np.int64)


def ours(
    what: str,
    protect: Metric,
    cells: NDArray[np.int64],
    size: int,
    bits: sf.SeededBits | None = None,
) -> dict[str, Any]:
    """Times of the two halves, the whole on the wall, and the error over what is planned.

    Bits are secure ones unless a test gives others.

    Args:
        what: The name of the row.
        protect: The metric.
        cells: Everybody's cell.
        size: How many cells.
        bits: Where randomness comes from.
    """
    axis = sf.integers("x", 0, size - 1, protect=protect, channel=sf.Hadamard())
    study = sf.Study("context", [axis])
    law = np.bincount(cells, minlength=size)
    start, marks = time.perf_counter(), [time.process_time()]
    reports = study.encode({"x": cells}, bits=bits)
    marks.append(time.process_time())
    found = sf.distribution(study.tally(reports).estimate("unbiased"))
    marks.append(time.process_time())
    wall = time.perf_counter() - start
    encode, decode = np.diff(marks).tolist()
    planned = sf.expected_tv(study, len(cells), prior=law, population=False)
    return _row(f"sfumato, {what}", size, len(cells), encode, decode) | {
        "wall s": wall,
        "L2/expected": sf.l2_error(found, law) / planned.l2,
    }


def theirs(cells: NDArray[np.int64], size: int) -> tuple[dict[str, Any], str]:
    """Processor time from values to the histogram, and what is installed.

    Args:
        cells: Everybody's cell.
        size: How many cells.
    """
    with running("pure-ldp") as peer:
        name = THEIRS.split()[1]
        peer.run(name, 256, cells[:2] % 256)  # imports
        seconds, found = peer.run(name, size, cells)
        held = ", ".join(f"{name} {version}" for name, version in peer.versions.items())
    law = np.bincount(cells, minlength=size) / len(cells)
    planned = ((np.exp(EPSILON) + 1) / (np.exp(EPSILON) - 1)) * np.sqrt(size / len(cells))
    row = _row(THEIRS, size, len(cells), None, None, seconds)
    off = float(np.linalg.norm(found / len(cells) - law) / planned)
    return row | {"wall s": "", "L2/expected": off}, held


def _row(
    what: str,
    size: int,
    count: int,
    encode: float | None,
    decode: float | None,
    total: float | None = None,
) -> dict[str, Any]:
    """Rates by all of the time."""
    whole = total if total is not None else (encode or 0.0) + (decode or 0.0)
    return {
        "what": what,
        "cells": size,
        "people": count,
        "encode s": "" if encode is None else encode,
        "decode s": "" if decode is None else decode,
        "seconds": whole,
        "people/s": count / whole,
    }


def measure() -> Measurement:
    """Ours first, so that the peak of memory is that of the large runs; then pure-ldp."""
    cells = people(PEOPLE, CELLS)
    rows = []
    for what, protect in contexts(CELLS).items():
        progress(f"{what}, {PEOPLE:,} people")
        rows.append(ours(what, protect, cells, CELLS))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    few = cells[:FEWER]
    progress(f"plain, {FEWER:,} people")
    rows.append(ours("plain", contexts(CELLS)["plain"], few, CELLS))
    progress(THEIRS)
    other, installed = theirs(few, CELLS)
    rows.append(other)
    wide = people(FEWEST, LARGEST)
    progress(f"plain, {LARGEST:,} cells")
    rows.append(ours("plain", sf.Uniform(EPSILON), wide, LARGEST))
    progress(f"{THEIRS}, {LARGEST:,} cells")
    rows.append(theirs(wide, LARGEST)[0])
    progress(f"{THEIRS}, {THEIR_LARGEST:,} cells")
    rows.append(theirs(people(FEWEST, THEIR_LARGEST), THEIR_LARGEST)[0])
    return Measurement(
        f"{CELLS:,} cells and more, ε = {EPSILON:g}: values to the shares of all cells",
        rows,
        [
            f"sfumato: secure bits, the channel's tables, shares with their standard errors; peak "
            f"memory of the process at {CELLS:,} cells {peak:.2f} GiB, values included",
            f"{THEIRS}: shares without errors; {FEWER:,} people, as its time is in proportion to "
            "them but for one transform",
            "processor seconds, and the whole on the wall",
            f"{THEIR_LARGEST:,} cells: the most that {THEIRS} can do in {THEIR_SECONDS} s and 8 "
            f"GiB; it is time that runs out. {LARGEST:,}: the most of an axis here, but for one",
            "L2/expected: Euclidean distance of the shares from the truth over its exact "
            "expectation",
            installed,
        ],
    )


# The page


def page_tables(figures: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Recorded figures as the table of the page, by its name there."""
    rows = [
        [
            row["what"],
            f"{row['cells']:,}",
            f"{row['people']:,}",
            *(digits(row[key]) if row[key] != "" else "" for key in TIMES),
            f"{float(format(row['people/s'], '.3g')):,.0f}",
        ]
        for row in figures
    ]
    times = ["encode, s", "decode, s", "together, s", "on the wall, s"]
    return {"context": markdown(["who", "cells", "people", *times, "people per second"], rows)}


if __name__ == "__main__":
    held = json.loads((FOLDER / "context.json").read_text(encoding="utf-8"))["figures"]
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(refilled(text, page_tables(held)), encoding="utf-8")
