"""Tables of people that cannot be read are refused, and no message shows what is in them."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.cli.people import encode_file, read_counts

STUDY = sf.Study(
    "s",
    [
        sf.integers("age", 0, 99, protect=sf.Distance(0.5)),
        sf.categories("mode", ["car", "bus"], protect=sf.Uniform(1), optional=True),
    ],
)
SECRET = "8675309"


def refused(error: pytest.ExceptionInfo[sf.DataError]) -> None:
    assert SECRET not in str(error.value)
    assert SECRET not in repr(error.value.__cause__) + repr(error.value.__context__)


def read(path: Path) -> int:
    return sum(map(len, encode_file(STUDY, path, sf.SeededBits(1), lambda done, total: None)))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([{"a": SECRET}]),
        pa.array([[SECRET]]),
        pa.array([SECRET.encode()]),
        pa.array([SECRET.encode()], pa.binary(7)),
        pa.array([True]),
        pa.array([[(SECRET, 1)]], pa.map_(pa.string(), pa.int64())),
        pa.array([SECRET]).dictionary_encode(),
        pa.array([pd.Timestamp("2024-01-01")]),
        pa.array([2**64 - 1], pa.uint64()),
        pa.array([float("inf")]),
        pa.array([1e300]),
        [10**30],
        [object()],
        [{SECRET: 1}],
        [[SECRET]],
        [b"\xff"],
        [1j],
        ["\ud800"],
        ["9" * 100_000],
        np.zeros((1, 1)),
        np.zeros(1, dtype="m8[s]"),
        np.zeros(1, dtype="V4"),
    ],
    ids=lambda held: str(getattr(held, "type", None) or getattr(held, "dtype", "list")),
)
def test_columns_of_any_type_are_read_or_refused(column: Any, tmp_path: Path) -> None:
    for table in ({"age": column, "mode": ["car"]}, {"age": [30], "mode": column}):
        with pytest.raises(sf.DataError) as error:
            STUDY.encode(table)
        refused(error)
    if isinstance(column, pa.Array):
        path = tmp_path / "people.parquet"
        pq.write_table(pa.table({"age": column, "mode": ["car"]}), path)
        with pytest.raises(sf.DataError) as error:
            read(path)
        refused(error)


def test_columns_that_are_there_twice_are_refused(tmp_path: Path) -> None:
    twice = pa.table([pa.array([1]), pa.array(["car"]), pa.array([2])], ["age", "mode", "age"])
    frame = pd.DataFrame([[1, "car", 2]], columns=["age", "mode", "age"])
    pq.write_table(twice, tmp_path / "twice.parquet")
    (tmp_path / "twice.csv").write_text(f"age,mode,age\n1,car,{SECRET}\n")
    for table in (twice, frame, twice.to_batches()[0]):
        with pytest.raises(sf.DataError, match="one column 'age', and has 2"):
            STUDY.encode(table)
    for name in ("twice.parquet", "twice.csv"):
        with pytest.raises(sf.DataError, match="one column 'age', and has 2"):
            read(tmp_path / name)


@pytest.mark.parametrize(
    "raw",
    [
        b"age,mode\n1,car\n\0\0\0,car\n",
        b"age,mode\n1,c\0ar\n",
        "age,mode\n1,car\n".encode("utf-16"),
        b"age,mode\n1,c\xe9r\n",
        b"age,mode\n1,car\n" + SECRET.encode() + b"\n",
        b"age,mode\n1,car," + SECRET.encode() + b"\n",
        b'age,mode\n"' + SECRET.encode() + b"\n1,car\n",
        b"age,mode\n1," + b"x" * 10_000_000 + b"\n",
        b"age,mode\n" + b"9" * 1_000_000 + b",car\n",
        b"\0" * 100,
        b"age\0,mode\n1,car\n",
        b"age;mode\n1;car\n",
        b"\n\n\nage,mode\n1,car\n",
        b"age,mode\n1e300000000,car\n",
        b"age,mode\n" + b"," * 1000 + b"\n",
    ],
)
def test_csv_that_breaks_readers_is_refused(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_bytes(raw)
    with pytest.raises(sf.DataError) as error:
        read(tmp_path / "people.csv")
    refused(error)


def test_a_first_line_without_end_is_not_read_into_memory(tmp_path: Path) -> None:
    """Some 60 kB of gzip that are 64 MB of one line."""
    path = tmp_path / "people.csv.gz"
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=9) as packed:
        for _ in range(64):
            packed.write(b"a" * (1 << 20))
    path.write_bytes(buffer.getvalue())
    tracemalloc.start()
    try:
        with pytest.raises(sf.DataError, match="must be CSV"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "count", ["1.5", "-1", "nan", "inf", "1e30", "x", str(2**54), SECRET + "x"]
)
def test_counts_in_a_file_are_whole_numbers_of_people(count: str, tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text(f"age,mode,count\n1,car,5\n2,car,{count}\n")
    with pytest.raises(sf.DataError, match=r"row 2|values? is|values? are") as error:
        read_counts(STUDY, path)
    refused(error)


def test_counts_that_add_up_to_too_many_people_are_refused(tmp_path: Path) -> None:
    """Together 2^64, which is 0 in 64 bits."""
    path = tmp_path / "counts.csv"
    path.write_text("age,mode,count\n" + f"1,car,{2**53}\n" * 2_048)
    with pytest.raises(sf.DataError, match="at most 9,007,199,254,740,992 people"):
        read_counts(STUDY, path)
