"""The same files of reports tallied by every engine, beside a bare read and other ways to do it.

Wall clocks, since the engines work in other processes, on both cores. In each round all of them
take turns, and the best round of each counts. All tallies must be the same.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sfumato as sf
from benchmarks.files import GROUP, MOST, one_axis
from benchmarks.pages import digits, markdown, refilled
from benchmarks.recording import FOLDER, Measurement, progress
from sfumato.randomness.bits import SeededBits
from tests.helpers_java import java_home

PAGE = Path("docs/speed.md")
CELLS = 256
FILES = 16
ROUNDS = 4


def measure() -> Measurement:
    """Geometric reports of one byte in 16 Parquet files, on two cores."""
    cores = pa.cpu_count()
    pa.set_cpu_count(os.cpu_count() or 1)
    with tempfile.TemporaryDirectory(prefix="sfumato-bench-") as held, ExitStack() as ends:
        folder, study = Path(held), one_axis(CELLS)
        paths = _write(folder, study)
        few = _write(folder / "few", study, 1_000)
        if "JAVA_HOME" not in os.environ:
            os.environ["JAVA_HOME"] = str(java_home(folder / "java"))
        progress("starting Dask and Spark")
        by_dask = ends.enter_context(sf.engines.dask())
        by_spark = ends.enter_context(sf.engines.spark())
        client, session = by_dask.client, by_spark.session  # type: ignore[attr-defined]
        ways: dict[str, Callable[[list[str]], Any]] = {
            "bare PyArrow read, both cores": _bare,
            "local": lambda files: _counts(sf.engines.local().tally(study, files)),
            "Dask": lambda files: _counts(by_dask.tally(study, files)),
            "Spark": lambda files: _counts(by_spark.tally(study, files)),
            "Dask data frame, groupby": lambda files: _by_frame(client, files),
            "Spark mapInArrow": lambda files: _by_arrow(session, files),
            "Spark SQL, GROUP BY": lambda files: _by_sql(session, files),
        }
        best = dict.fromkeys(ways, np.inf)
        found: dict[str, Any] = {}
        for number in range(ROUNDS):
            for name, work in ways.items():
                progress(f"{name}, round {number}")
                start = time.perf_counter()
                found[name] = work(few if number == 0 else paths)
                if number:  # in the first round workers load what they need
                    best[name] = min(best[name], time.perf_counter() - start)
    pa.set_cpu_count(cores)
    assert found.pop("bare PyArrow read, both cores") == MOST
    truth = found["local"]
    assert truth.sum() == MOST
    assert all(np.array_equal(counts, truth) for counts in found.values())
    rows = [
        {
            "way": name,
            "reports": MOST,
            "seconds": seconds,
            "million reports per second": MOST / seconds / 1e6,
            "bare read / this": best["bare PyArrow read, both cores"] / seconds,
        }
        for name, seconds in best.items()
    ]
    notes = [
        "All tallies are equal.",
        "Wall clocks of the best of three rounds on two cores, after one with small files in which "
        "workers load their libraries; starting a cluster is not counted.",
    ]
    return Measurement(f"{MOST:,} geometric reports tallied by every engine", rows, notes)


def _write(folder: Path, study: sf.Study, reports: int = MOST) -> list[str]:
    """Files of so many reports in all."""
    folder.mkdir(exist_ok=True)
    source, bits = np.random.default_rng(1), SeededBits(1)
    for number in range(FILES):
        people = {"x": source.integers(0, CELLS, reports // FILES)}
        table = study.encode(people, bits=bits).to_arrow()
        path = folder / f"{number:02}.parquet"
        pq.write_table(table, path, compression="zstd", row_group_size=GROUP)
    return [str(path) for path in sorted(folder.glob("*.parquet"))]


def _bare(files: list[str]) -> int:
    """The same columns read and let go of, file by file."""
    return sum(pq.read_table(path, columns=["x"]).num_rows for path in files)


def _counts(tally: sf.Tally) -> Any:
    """How many reports sent each symbol."""
    return np.bincount(tally.statistic.symbols[0], tally.statistic.people, CELLS).astype(int)


def _by_frame(client: Any, files: list[str]) -> Any:
    """A Dask data frame, as its users would count."""
    import dask.dataframe

    frame = dask.dataframe.read_parquet(files, columns=["x"])
    found = client.compute(frame.groupby("x").size()).result()
    return found.reindex(range(CELLS), fill_value=0).to_numpy()


def _by_arrow(session: Any, files: list[str]) -> Any:
    """Spark hands record batches to Python."""

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = np.zeros(256, dtype=np.int64)
        for batch in batches:
            found += np.bincount(batch.column(0).to_numpy(), minlength=256)
        yield pa.record_batch({"x": np.arange(256), "n": found})

    frame = session.read.parquet(*files).select("x").mapInArrow(counted, "x long, n long")
    return _summed(frame.groupBy("x").sum("n").collect())


def _by_sql(session: Any, files: list[str]) -> Any:
    """Spark's own columns, in the JVM."""
    return _summed(session.read.parquet(*files).groupBy("x").count().collect())


def _summed(rows: list[Any]) -> Any:
    """Counts by symbol."""
    found = np.zeros(CELLS, dtype=int)
    for symbol, count in rows:
        found[symbol] = count
    return found


def page_tables(figures: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The table for the page."""
    head = ["way", "seconds", "million reports per second", "bare read / this"]
    rows = [[row["way"], *(digits(float(row[name])) for name in head[1:])] for row in figures]
    return {"engines": markdown(head, rows)}


if __name__ == "__main__":
    held = json.loads((FOLDER / "engines.json").read_text(encoding="utf-8"))["figures"]
    PAGE.write_text(refilled(PAGE.read_text(encoding="utf-8"), page_tables(held)), encoding="utf-8")
