"""`sfumato encode` on files and pipes, beside the library call on the same file.

The library call reads the whole table, encodes it and saves the reports. Every run is a process of
its own, whose processor time and peak memory the system tells.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import sfumato as sf
from benchmarks.pages import digits, markdown
from benchmarks.recording import Measurement, progress

#: How many people, and how often each process encodes them.
PEOPLE = {1_000_000: 8, 4_000_000: 3, 20_000_000: 1}
LEAST = 0.8
ROUNDS = 3

# What a process of its own does: its work, then its processor time and its peak memory.
_RUN = """
import json, os, sys, time
import sfumato as sf
from sfumato.cli import app
from sfumato.domains.tables import read_table
way, study, table, out, turns = sys.argv[1:]
def work(table, out):
    if way == "library":
        loaded = sf.Study.load(study)
        loaded.encode(read_table(table, [axis.name for axis in loaded.axes])).save(out)
    else:
        app(["encode", study, table, "--out", out, "--force"], standalone_mode=False)
work("one.csv", "one.parquet")  # what is loaded once is not counted
used = []
for _ in range(int(turns)):
    os.lseek(0, 0, os.SEEK_SET)  # standard input is a file, and begins again
    sys.stdin = os.fdopen(os.dup(0))
    start = time.process_time()
    work(table, out)
    used.append(time.process_time() - start)
status = open("/proc/self/status").read()  # what the parent held before does not count here
peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
print(json.dumps([min(used), peak]), file=sys.stderr)
"""


def measure() -> Measurement:
    """Geometric reports on two axes, from CSV and Parquet."""
    study = sf.Study(
        "streams",
        [
            sf.integers("age", 0, 99, protect=sf.Distance("0.5")),
            sf.integers("minutes", 0, 255, protect=sf.Distance("0.2")),
        ],
    )
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="sfumato-bench-") as held:
        folder = Path(held)
        study.save(folder / "study.toml")
        (folder / "one.csv").write_text("age,minutes\n31,20\n", encoding="utf-8")
        for people, turns in PEOPLE.items():
            source = np.random.default_rng(1)
            table = pa.table(
                {axis.name: source.integers(0, axis.size, people) for axis in study.axes}
            )
            pa.csv.write_csv(table, folder / "people.csv")
            pq.write_table(table, folder / "people.parquet")
            for name, given, out in (
                ("CSV to Parquet", "people.csv", "out.parquet"),
                ("Parquet to Parquet", "people.parquet", "out.parquet"),
                ("standard input to standard output", "-", "-"),
            ):
                progress(f"{people:,} people, {name}")
                file = "people.csv" if given == "-" else given
                library, command = _best(
                    folder, turns, [("library", file, "out.parquet"), ("command", given, out)]
                )
                rows.append(
                    {
                        "people": people,
                        "what": name,
                        "million people per processor second": people / command[0] / 1e6,
                        "speed / library call": library[0] / command[0],
                        "at least": LEAST,
                        "peak MB": command[1] / 1e6,
                        "peak MB of the library call": library[1] / 1e6,
                    }
                )
    return Measurement(
        "sfumato encode, streams larger than a block",
        rows,
        [
            "Processor seconds of processes of their own, three of each in turns, in which fewer "
            "than 20,000,000 people are encoded several times; the best counts. "
            "The library call reads the whole table, encodes it and saves the reports; beside "
            "standard input it reads the same CSV from its file.",
        ],
    )


def _best(
    folder: Path, turns: int, ways: Sequence[tuple[str, str, str]]
) -> list[tuple[float, int]]:
    """For each way, table and output, the least processor time and peak memory of its processes."""
    found: list[list[Any]] = [[] for _ in ways]
    for _ in range(ROUNDS):
        for (way, table, out), seen in zip(ways, found, strict=True):
            with (folder / "people.csv").open("rb") as given:
                done = subprocess.run(
                    [sys.executable, "-c", _RUN, way, "study.toml", table, out, str(turns)],
                    cwd=folder,
                    stdin=given,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    check=True,
                    text=True,
                )
            seen.append(json.loads(done.stderr.strip().splitlines()[-1]))
    best = [[min(column) for column in zip(*seen, strict=True)] for seen in found]
    return [(used, peak) for used, peak in best]


def page_tables(figures: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The table for the page."""
    names = {
        "million people per processor second": "million people per processor s",
        "speed / library call": "speed / library call",
        "peak MB": "memory, MB",
        "peak MB of the library call": "of the library call, MB",
    }
    rows = [
        [row["what"], f"{row['people']:,}", *(digits(float(row[name])) for name in names)]
        for row in sorted(figures, key=itemgetter("what", "people"))
    ]
    return {"streams": markdown(["encode", "people", *names.values()], rows)}
