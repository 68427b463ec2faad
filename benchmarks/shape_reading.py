"""The default's answers about one tally, beside the truth: by this version, or by another.

`versions.run` starts this module in the process of another version, on tallies kept in a folder.
Only public names are used here, so that any version can run it.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import sfumato as sf
from benchmarks.versions import assert_version

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
STUDY, QUESTIONS, TALLY = "study.toml", "questions.npz", "tally.parquet"


@dataclass(frozen=True)
class Reading:
    """Answers to all questions about one tally, as shares of people.

    Args:
        errors: Answer minus truth.
        reach: Half the length of each 95 % interval.
        hits: Whether each interval holds the truth, 1 or 0.
        cells: How many cells each question is about.
        seconds: Processor seconds, from `estimate()` to the last answer.
        method: How the answers were found.
    """

    errors: list[float]
    reach: list[float]
    hits: list[float]
    cells: list[float]
    seconds: float
    method: str

    @property
    def rmse(self) -> float:
        """Root mean squared error of shares over questions, times 1000."""
        return rmse(np.array(self.errors))


def rmse(errors: Floats) -> float:
    """Root mean square, times 1000.

    Args:
        errors: Errors of shares.
    """
    return float(1e3 * np.sqrt(np.mean(errors**2)))


def read(tally: sf.Tally, counts: Counts, rows: Floats) -> Reading:
    """Ask everything of one tally.

    Args:
        tally: The tally.
        counts: The true counts.
        rows: The questions, one row of weights each.
    """
    start = time.process_time()
    found = tally.estimate().linear(rows)
    low, high = found.low, found.high
    took = time.process_time() - start
    truth = rows @ counts.ravel()
    rounding = 1e-6  # an interval may be a point, such as that of everybody
    hits = (low - rounding <= truth) & (truth <= high + rounding)
    return Reading(
        errors=((found.values - truth) / tally.n).tolist(),
        reach=((high - low) / 2 / tally.n).tolist(),
        hits=hits.astype(np.float64).tolist(),
        cells=rows.sum(axis=1).tolist(),
        seconds=took,
        method=found.method,
    )


def keep(folder: Path, tally: sf.Tally, counts: Counts, rows: Floats) -> None:
    """Write what `read` needs to a folder.

    Args:
        folder: The folder, which is made.
        tally: The tally.
        counts: The true counts.
        rows: The questions, one row of weights each.
    """
    folder.mkdir()
    tally.study.save(folder / STUDY)
    tally.save(folder / TALLY)
    np.savez(folder / QUESTIONS, counts=counts, rows=rows)


def read_kept(folder: Path) -> Reading:
    """Read a tally that was kept.

    Args:
        folder: Where it was kept.
    """
    study = sf.Study.load(folder / STUDY)
    with np.load(folder / QUESTIONS) as held:
        return read(sf.Tally.load(folder / TALLY, study), held["counts"], held["rows"])


if __name__ == "__main__":
    assert_version()
    folders = sorted(Path(sys.argv[1]).iterdir())
    read_kept(folders[0])  # loads what is loaded when first used
    print(json.dumps({"readings": [asdict(read_kept(folder)) for folder in folders]}))
