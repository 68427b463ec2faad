"""Every cell of a large axis: histogram, CDF and quantiles, before and after errors by formula.

Both versions answer from the same tallies, in one process each, one after the other.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import sfumato as sf
from benchmarks.pages import digits, markdown, refilled
from benchmarks.recording import FOLDER, Measurement, progress

PAGE = Path("docs/speed.md")
_ANSWER = "--answer"  # how the version before is run
CELLS = 1 << 20
PEOPLE = 100_000
#: The last version that asked about each cell and threshold by itself.
BEFORE = "1d90ac5"
CHANNELS: dict[str, tuple[Any, Any]] = {
    "Geometric, ε = 0.01 per cell": (sf.Distance(0.01), sf.Geometric()),
    "default, Uniform(1)": (sf.Uniform(1), None),
    "HRR, ε = 1": (sf.Uniform(1), sf.HRR()),
    "HaarHRR, ε = 1": (sf.Uniform(1), sf.HaarHRR()),
    "Hadamard, ε = 1": (sf.Uniform(1), sf.Hadamard()),
    "OLH, ε = 1": (sf.Uniform(1), sf.OLH()),
    "k-ary, ε = 10": (sf.Uniform(10), sf.KaryResponse()),
}


def timed(work: Callable[[], Any]) -> float | None:
    """Processor seconds of one run; None where it is refused."""
    start = time.process_time()
    try:
        work()
    except sf.TooLargeError:
        return None
    return time.process_time() - start


def answer() -> dict[str, dict[str, float | None]]:
    """Seconds of each answer with the version that is loaded, by channel."""
    rng = np.random.default_rng(1)
    cells = np.clip(rng.normal(CELLS / 2, CELLS / 8, PEOPLE), 0, CELLS - 1).astype(np.int64)
    deciles = [k / 10 for k in range(1, 10)]
    found = {}
    for name, (protect, channel) in CHANNELS.items():
        axis = sf.integers("x", 0, CELLS - 1, protect=protect, channel=channel)
        tally = sf.Study("leaves", [axis]).simulate({"x": cells}, seed=1)
        estimate = tally.estimate("unbiased")
        estimate.count({"x": (1, 5)})  # loads what is loaded when first used
        found[name] = {
            "histogram": timed(lambda est=estimate: est.histogram("x").high),
            "cdf": timed(lambda est=estimate: est.cdf("x").high),
            "median": timed(lambda est=estimate: est.quantile("x", 0.5)),
        }
        if found[name]["histogram"] is not None:  # else nine times as long as the median
            found[name]["deciles"] = timed(lambda est=estimate: est.quantile("x", deciles))
    return found


def measure() -> Measurement:
    """Processor seconds in one thread, of this version and of the one before."""
    progress("the version before")
    archive = subprocess.run(
        ["git", "archive", BEFORE, "src"],
        check=True,
        capture_output=True,
    ).stdout
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
            packed.extractall(folder, filter="data")
        run = subprocess.run(
            [sys.executable, "-m", "benchmarks.leaves", _ANSWER],
            check=True,
            capture_output=True,
            env={**os.environ, "PYTHONPATH": os.path.join(folder, "src")},
        )
    before = json.loads(run.stdout)
    progress("this version")
    after = answer()
    rows = [
        {
            "channel": name,
            "histogram": after[name]["histogram"],
            "cdf": after[name]["cdf"],
            "deciles": after[name]["deciles"],
            "median": after[name]["median"],
            "median before": before[name]["median"],
            "times as fast": (before[name]["median"] or 0.0) / (after[name]["median"] or 1.0),
        }
        for name in CHANNELS
    ]
    refused = all(one["histogram"] is None and one["cdf"] is None for one in before.values())
    return Measurement(
        f"{CELLS:,} cells, {PEOPLE:,} people, method='unbiased': every cell with its error",
        rows,
        [
            "processor seconds of one run in one thread",
            f"before: commit {BEFORE}, which {'refused' if refused else 'gave'} histograms and "
            "CDFs of so many cells",
        ],
    )


def page_tables(figures: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Recorded figures as the table of the page, by its name there."""
    names = ["histogram", "cdf", "deciles", "median", "median before", "times as fast"]
    rows = [[row["channel"], *(digits(row[name]) for name in names)] for row in figures]
    head = ["channel", *(f"{name}, s" for name in names[:-1]), names[-1]]
    return {"leaves": markdown(head, rows)}


if __name__ == "__main__":
    if sys.argv[1:] == [_ANSWER]:
        json.dump(answer(), sys.stdout)
    else:
        held = json.loads((FOLDER / "leaves.json").read_text(encoding="utf-8"))["figures"]
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(refilled(text, page_tables(held)), encoding="utf-8")
