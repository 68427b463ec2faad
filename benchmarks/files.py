"""Files of reports tallied, against a bare read of the same columns: time and memory by size.

The system tells processor time and peak memory. Slopes are those of least squares on logarithmic
axes: 1 is in proportion, 0 means that size does not matter.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import sfumato as sf
from benchmarks.pages import digits, markdown
from benchmarks.recording import Measurement, progress
from sfumato.collect.parquet import WRITING
from sfumato.randomness.bits import SeededBits

PICTURE = Path("docs/images/files.png")
#: $SFUMATO_BENCH_MOST=100000000 measures up to 10^8 reports.
MOST = int(os.environ.get("SFUMATO_BENCH_MOST", 10_000_000))
CELLS = 256
GROUP = 1 << 20
REPEAT = 15
PLAIN: dict[str, Any] = {"compression": "zstd"}  # without checksums

# What a process of its own does: works with so many threads in turns, or one for its peak memory.
_RUN = """
import json, sys, time
import pyarrow as pa, pyarrow.parquet as pq
import sfumato as sf
from sfumato.collect.engines.tallying import tally_files
study, works, repeat, *paths = sys.argv[1:]
empty = sf.Study.load(study).accumulator()
columns = list(empty.columns)
def run(work, threads, paths):
    pa.set_cpu_count(threads)
    if work == "tally":
        tally_files(sf.engines.local(threads), empty, paths)
    for path in paths:
        if work == "parts":
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                for part in file.iter_batches(1 << 19, columns=columns, use_threads=False):
                    pass
        elif work in ("checked", "plain"):
            pq.read_table(path, columns=columns, page_checksum_verification=work == "checked")
found = {}
for number in range(int(repeat) + 1):
    for work, threads in json.loads(works):
        start, used = time.perf_counter(), time.process_time()
        # The smallest file first: what is loaded once is not counted.
        run(work, threads, paths[1:] if number else paths[:1])
        clocks = time.perf_counter() - start, time.process_time() - used
        if number:
            found.setdefault((work, threads), []).append(clocks)
status = open("/proc/self/status").read()  # what the parent held before does not count here
peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
print(json.dumps([[list(map(min, zip(*clocks))) for clocks in found.values()], peak]))
"""


def measure() -> Measurement:
    """Geometric reports of one byte, and of several axes, in files of up to 10^7 reports each."""
    rows: list[dict[str, Any]] = []
    some = min(MOST, 10_000_000)
    with tempfile.TemporaryDirectory(prefix="sfumato-bench-") as held:
        folder = Path(held)
        for reports in (10**k for k in range(5, 10) if 10**k <= MOST):
            rows.append(_tallied(folder, one_axis(CELLS), reports, "n"))
        for cells in (16, 1_024, 65_536):
            rows.append(_tallied(folder, one_axis(cells), some, "m"))
        rows.append(_tallied(folder, three_axes(), some, "D"))
        rows.append(_tallied(folder, one_axis(CELLS), MOST, "no checksums", PLAIN))
    notes = [
        *slopes_text(rows),
        "Files are as 'sfumato encode' writes them, with a checksum for every page, except in the "
        "last row. A read that checks them is pq.read_table of the same columns of the same files "
        "with page_checksum_verification=True, file by file; a plain read is pq.read_table as it "
        "comes. The tally checks them always.",
        f"All works take {REPEAT} turns in one process, and the best turn of each counts; memory "
        "is that of processes of their own. Files are in the system's cache.",
        "The machine was busy with other work, which lengthens all times and those of the tally "
        "most, as it shares the caches: of several runs the one with the least load is kept.",
        "Processor seconds are those of one thread. Wall clocks are those of both processors, and "
        "are longer where other work runs on them.",
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


def _tallied(
    folder: Path, study: sf.Study, reports: int, swept: str, writing: dict[str, Any] = WRITING
) -> dict[str, Any]:
    """Write files of so many reports, tally them, and remove them."""
    cells = int(np.prod(study.shape))
    progress(f"{reports:,} reports of {cells:,} cells")
    study.save(folder / "study.toml")
    paths = _write(folder, study, reports, writing)
    size = sum(path.stat().st_size for path in paths)
    (first,) = _write(folder / "first", study, 1_000, writing)
    works = [("parts", 1)]
    works += [(work, threads) for work in ("checked", "plain", "tally") for threads in (1, 2)]
    given = [first, *paths]
    best, _ = _run(folder, works, REPEAT, given)
    clocks = dict(zip(works, best, strict=True))
    idle, peak = (_run(folder, [(work, 2)], 1, given)[1] for work in ("nothing", "tally"))
    for path in paths:
        path.unlink()
    one, two = clocks["tally", 1], clocks["tally", 2]
    return {
        "swept": swept,
        "reports": reports,
        "cells": cells,
        "axes": len(study.axes),
        "file MB": size / 1e6,
        "seconds, 2 threads": two[0],
        "seconds, 1 thread": one[0],
        "speed-up of 2 threads": one[0] / two[0],
        "processor seconds": one[1],
        "million reports per processor second": reports / one[1] / 1e6,
        "read that checks, processor seconds": clocks["checked", 1][1],
        "MB above an idle process": (peak - idle) / 1e6,
        "peak MB": peak / 1e6,
        "read that checks / tally": clocks["checked", 1][1] / one[1],
        "plain read / tally": clocks["plain", 1][1] / one[1],
        "read in parts / tally": clocks["parts", 1][1] / one[1],
        "read that checks / tally, wall, 2 threads": clocks["checked", 2][0] / two[0],
        "plain read / tally, wall, 2 threads": clocks["plain", 2][0] / two[0],
    }


def _write(folder: Path, study: sf.Study, reports: int, writing: dict[str, Any]) -> list[Path]:
    """Files of at most 10^7 reports each."""
    folder.mkdir(exist_ok=True)
    source, bits, paths = np.random.default_rng(1), SeededBits(1), []
    for number, start in enumerate(range(0, reports, 10_000_000)):
        paths.append(folder / f"{number:03}.parquet")
        left = min(10_000_000, reports - start)
        schema = study.encode({axis.name: [0] for axis in study.axes}).to_arrow().schema
        with pq.ParquetWriter(paths[-1], schema, **writing) as writer:
            for at in range(0, left, GROUP):
                count = min(GROUP, left - at)
                people = {axis.name: source.integers(0, axis.size, count) for axis in study.axes}
                writer.write_table(study.encode(people, bits=bits).to_arrow())
    return paths


def _run(
    folder: Path, works: Sequence[tuple[str, int]], repeat: int, paths: list[Path]
) -> tuple[list[tuple[float, float]], int]:
    """The best wall clock and processor time of each work and its threads, and the peak memory."""
    command = [sys.executable, "-c", _RUN, str(folder / "study.toml"), json.dumps(works)]
    done = subprocess.run(
        [*command, str(repeat), *map(str, paths)], capture_output=True, check=True, text=True
    )
    best, peak = json.loads(done.stdout)
    return best, peak


# Slopes and the page

#: What grows, and over which rows; the last two decades of reports.
SWEEPS = {"n": ("reports n, from 10^6 on", "reports"), "m": ("cells m", "cells")}
GROWN = ("processor seconds", "MB above an idle process")


def swept(figures: Sequence[dict[str, Any]], which: str) -> list[dict[str, Any]]:
    """The rows of a sweep, in order; those by cells have as many reports.

    Args:
        figures: Recorded rows.
        which: "n" or "m".
    """
    rows = [row for row in figures if row["swept"] == which]
    if which == "m":
        some = rows[0]["reports"]
        rows += [row for row in figures if row["swept"] == "n" and row["reports"] == some]
    return sorted(rows, key=itemgetter(SWEEPS[which][1]))


def slope(figures: Sequence[dict[str, Any]], which: str, name: str) -> float:
    """The exponent b of figure ≈ c·size^b, by least squares of logarithms.

    Args:
        figures: Recorded rows.
        which: "n" or "m".
        name: The figure.
    """
    rows = [row for row in swept(figures, which) if which == "m" or row["reports"] >= 10**6]
    at = [row[SWEEPS[which][1]] for row in rows]
    return float(np.polyfit(np.log(at), np.log([max(row[name], 1e-3) for row in rows]), 1)[0])


def slopes_text(figures: Sequence[dict[str, Any]]) -> list[str]:
    """Slopes of time and memory on logarithmic axes, in words."""
    return [
        f"Slopes against {what}, on logarithmic axes: "
        + " and ".join(f"{slope(figures, which, name):.2f} for {name}" for name in GROWN)
        + "."
        for which, (what, _) in SWEEPS.items()
    ]


def page_tables(figures: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The tables for the page."""
    columns = {
        "file MB": "MB",
        "processor seconds": "processor s",
        "million reports per processor second": "million reports per processor s",
        "seconds, 2 threads": "s, two threads",
        "speed-up of 2 threads": "speed-up",
        "MB above an idle process": "memory, MB",
        "read that checks / tally": "read that checks / tally",
        "plain read / tally": "plain read / tally",
        "plain read / tally, wall, 2 threads": "plain read / tally, wall",
    }
    rows = [
        [
            f"{row['reports']:,}" + (" without checksums" if "no" in row["swept"] else ""),
            f"{row['cells']:,}" + (f" on {row['axes']} axes" if row["axes"] > 1 else ""),
            *(digits(float(row[name])) for name in columns),
        ]
        for row in figures
    ]
    grown = [
        [what, *(f"{slope(figures, which, name):.2f}" for name in GROWN)]
        for which, (what, _) in SWEEPS.items()
    ]
    return {
        "files": markdown(["reports", "cells", *columns.values()], rows),
        "files, slopes": markdown(["against", "time", "memory"], grown),
    }


def draw(figures: Sequence[dict[str, Any]], path: Path) -> None:
    """The picture of the page: time and memory against reports and cells.

    Args:
        figures: Recorded rows.
        path: Where it is written.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained", sharey="row")
    for column, (which, (_, size)) in zip(axes.T, SWEEPS.items(), strict=True):
        rows = swept(figures, which)
        at = [row[size] for row in rows]
        time_axis, memory_axis = column
        for name, label, style in (
            ("processor seconds", "tally", "o-C0"),
            ("read that checks, processor seconds", "bare read that checks", "s--C1"),
        ):
            time_axis.loglog(at, [row[name] for row in rows], style, label=label)
        memory_axis.loglog(at, [row["peak MB"] for row in rows], "o-C0", label="whole process")
        above = [row["MB above an idle process"] for row in rows]
        memory_axis.loglog(at, above, "^--C2", label="above an idle process")
        time_axis.set_title(f"processor s, by {size}", fontsize=10)
        memory_axis.set_title(f"MB, by {size}", fontsize=10)
        memory_axis.set_xlabel(size)
        memory_axis.set_ylim(10, 1_000)
        for axis in column:
            axis.grid(alpha=0.3)
            axis.legend(fontsize=8)
    figure.savefig(path, dpi=90)
    plt.close(figure)
