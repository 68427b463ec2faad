"""Files of reports of every kind, and ways to damage them."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import sfumato as sf
from sfumato.collect.packing import pack
from sfumato.collect.parquet import WRITING
from sfumato.device.wire import Batch

SYMBOLS = sf.Study(
    "files",
    [
        sf.integers("age", 0, 99, protect=sf.Distance("0.5")),
        sf.categories("mode", ["car", "bus", "bike"], protect=sf.Uniform(1)),
    ],
)
BITS = sf.Study(
    "bits", [sf.integers("age", 0, 19, protect=sf.Distance(1), channel=sf.Thermometer())]
)
STUDIES = {"symbols": SYMBOLS, "bits": BITS}


def reports_of(study: sf.Study, count: int = 3_000, seed: int = 1) -> sf.Reports:
    rng = np.random.default_rng(seed)
    people: dict[str, Any] = {}
    for axis in study.axes:
        cells = rng.integers(0, axis.size, count)
        people[axis.name] = cells if axis.name == "age" else np.array(axis.labels())[cells]
    return study.encode(people, bits=sf.SeededBits(seed))


def write_groups(reports: sf.Reports, path: Path, rows: int) -> None:
    """A Parquet file with row groups of so many rows."""
    pq.write_table(reports.to_arrow(), path, row_group_size=rows, **WRITING)


def batch_of(reports: sf.Reports, ids: list[bytes]) -> bytes:
    rows = tuple(row.tobytes() for row in pack(reports))
    return Batch(reports.fingerprint, 20_000, tuple(ids), rows).to_bytes()


def mixture(study: sf.Study, folder: Path) -> tuple[list[Path], sf.Reports]:
    """Files of every kind, and all reports in them, each once."""
    reports = reports_of(study)
    write_groups(reports[:900], folder / "groups.parquet", 90)
    reports[900:901].save(folder / "one.parquet")
    reports[:0].save(folder / "none.parquet")
    (folder / "packed.sfmr").write_bytes(reports[901:1500].to_bytes())
    (folder / "nothing.sfmr").write_bytes(reports[:0].to_bytes())
    study.tally(reports[1500:2000]).save(folder / "tally.parquet")
    ids = [secrets.token_bytes(16) for _ in range(1000)]
    first = batch_of(reports[2000:2600], ids[:600])
    (folder / "first.batch").write_bytes(first + batch_of(reports[2600:2700], ids[600:700]))
    (folder / "again.batch").write_bytes(batch_of(reports[2500:], ids[500:]) + first)
    return sorted(folder.iterdir()), reports


def cut(path: Path) -> None:
    """Cut a file in the middle, as a copy that was stopped does."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def rot(path: Path) -> None:
    """Change one bit in the middle of a page; header and footer stay whole."""
    data = bytearray(path.read_bytes())
    column = pq.read_metadata(path).row_group(1).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    data[start + column.total_compressed_size // 2] ^= 1
    path.write_bytes(bytes(data))
