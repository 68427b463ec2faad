"""Files of reports tallied, against a bare read of the same columns: time and memory by size.

Every run is a process of its own, whose processor time and peak memory the system tells. Slopes are
those of least squares on logarithmic axes: 1 is in proportion, 0 means that size does not matter.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import sfumato as sf
from benchmarks.recording import Measurement, progress
from sfumato.randomness.bits import SeededBits

#: $SFUMATO_BENCH_MOST=100000000 measures up to 10^8 reports.
MOST = int(os.environ.get("SFUMATO_BENCH_MOST", 10_000_000))
CELLS = 256
GROUP = 1 << 20

# What a process of its own does: its work, then its processor time and its peak memory.
_RUN = """
import json, sys, time
import pyarrow as pa, pyarrow.parquet as pq
import sfumato as sf
from sfumato.collect.engines.tallying import tally_files
study, work, threads, *paths = sys.argv[1:]
pa.set_cpu_count(int(threads))
empty = sf.Study.load(study).accumulator()
def run(paths):
    if work == "bare":
        for path in paths:
            for part in pq.ParquetFile(path).iter_batches(1 << 20, columns=list(empty.columns)):
                pass
    elif work == "whole":
        for path in paths:
            pq.read_table(path, columns=list(empty.columns))
    elif work == "tally":
        tally_files(sf.engines.local(int(threads)), empty, paths)
run(paths[:1])  # the smallest file: what is loaded once is not counted
start, used = time.perf_counter(), time.process_time()
run(paths[1:])
wall, processor = time.perf_counter() - start, time.process_time() - used
status = open("/proc/self/status").read()  # what the parent held before does not count here
peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
print(json.dumps([wall, processor, peak]))
"""


def measure() -> Measurement:
    """Geometric reports of one byte, and of three axes, in files of up to 10^7 reports each."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="sfumato-bench-") as held:
        folder = Path(held)
        ladder = [10**k for k in range(5, 10) if 10**k <= MOST]
        by_n = [_tallied(folder, one_axis(CELLS), n) for n in ladder]
        by_m = [_tallied(folder, one_axis(m), MOST // 10) for m in (16, 1_024, 65_536)]
        three = [_tallied(folder, three_axes(), min(MOST, 10_000_000))]
        rows = [*by_n, *by_m, *three]
    notes = [
        _slopes(
            "reports n, the last two decades", [row["reports"] for row in by_n[-3:]], by_n[-3:]
        ),
        _slopes("cells m", [row["cells"] for row in by_m], by_m),
        "Ratios are processor seconds of the bare read to those of the tally, and wall clocks "
        "likewise on two threads each; a bare read takes the same columns from the same files.",
    ]
    return Measurement(f"Parquet files of up to {MOST:,} reports tallied", rows, notes)


def one_axis(cells: int) -> sf.Study:
    """One axis of geometric noise."""
    return sf.Study("a", [sf.integers("x", 0, cells - 1, protect=sf.Distance("0.5"))])


def three_axes() -> sf.Study:
    """Three axes, 7,200 combinations of symbols."""
    return sf.Study(
        "b",
        [
            sf.integers("x", 0, 99, protect=sf.Distance("0.5")),
            sf.integers("y", 0, 23, protect=sf.Distance("0.5")),
            sf.integers("z", 0, 2, protect=sf.Distance(1)),
        ],
    )


def _tallied(folder: Path, study: sf.Study, reports: int) -> dict[str, Any]:
    """Write files of so many reports, tally them, and remove them."""
    cells = int(np.prod(study.shape))
    progress(f"{reports:,} reports of {cells:,} cells")
    study.save(folder / "study.toml")
    paths = _write(folder, study, reports)
    size = sum(path.stat().st_size for path in paths)
    (first,) = _write(folder / "first", study, 1_000)
    runs = {
        (work, threads): _best(folder, work, threads, [first, *paths])
        for work, threads in (
            ("nothing", 2), ("bare", 1), ("whole", 1), ("whole", 2), ("tally", 1), ("tally", 2),
        )
    }  # fmt: skip
    for path in paths:
        path.unlink()
    one, two = runs["tally", 1], runs["tally", 2]
    return {
        "reports": reports,
        "cells": cells,
        "axes": len(study.axes),
        "file MB": size / 1e6,
        "seconds, 2 threads": two[0],
        "processor seconds": one[1],
        "million reports per processor second": reports / one[1] / 1e6,
        "MB above an idle process": (two[2] - runs["nothing", 2][2]) / 1e6,
        "peak MB": two[2] / 1e6,
        "bare read in parts / tally": runs["bare", 1][1] / one[1],
        "pq.read_table / tally": runs["whole", 1][1] / one[1],
        "pq.read_table / tally, wall, 2 threads": runs["whole", 2][0] / two[0],
    }


def _write(folder: Path, study: sf.Study, reports: int) -> list[Path]:
    """Files of at most 10^7 reports each."""
    folder.mkdir(exist_ok=True)
    source, bits, paths = np.random.default_rng(1), SeededBits(1), []
    for number, start in enumerate(range(0, reports, 10_000_000)):
        paths.append(folder / f"{number:03}.parquet")
        left = min(10_000_000, reports - start)
        schema = study.encode({axis.name: [0] for axis in study.axes}).to_arrow().schema
        with pq.ParquetWriter(paths[-1], schema, compression="zstd") as writer:
            for at in range(0, left, GROUP):
                count = min(GROUP, left - at)
                people = {axis.name: source.integers(0, axis.size, count) for axis in study.axes}
                writer.write_table(study.encode(people, bits=bits).to_arrow())
    return paths


def _best(folder: Path, work: str, threads: int, paths: list[Path]) -> tuple[float, float, int]:
    """The least wall clock, processor time and peak memory of two processes."""
    command = [sys.executable, "-c", _RUN, str(folder / "study.toml"), work, str(threads)]
    found = []
    for _ in range(2):
        done = subprocess.run(
            [*command, *map(str, paths)], capture_output=True, check=True, text=True
        )
        found.append(json.loads(done.stdout))
        time.sleep(0.05)
    wall, processor, peak = (min(column) for column in zip(*found, strict=True))
    return wall, processor, peak


def _slopes(what: str, at: list[int], rows: list[dict[str, Any]]) -> str:
    """Slopes of time and memory on logarithmic axes."""
    slopes = {
        name: np.polyfit(np.log(at), np.log([max(row[name], 1e-3) for row in rows]), 1)[0]
        for name in ("processor seconds", "peak MB")
    }
    shown = " and ".join(f"{slope:.2f} for {name}" for name, slope in slopes.items())
    return f"Slopes against {what}, on logarithmic axes: {shown}."
