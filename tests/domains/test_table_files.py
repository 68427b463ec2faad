"""People's tables in CSV and Parquet files: every row counted, damage named by row."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.domains import tables as table_files
from sfumato.domains.tables import read_table
from sfumato.errors import DataError


def test_csv_cells_stay_text_and_only_empty_ones_are_missing(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text('shoe,region,age\n41,NA,034\n42,"a, ""b""\nc",\n43,,"NaN"\n')
    table = read_table(file, ["age", "region"])
    assert table.column_names == ["age", "region"]
    assert table["age"].to_pylist() == ["034", None, "NaN"]
    assert table["region"].to_pylist() == ["NA", 'a, "b"\nc', None]


def test_compressed_csv_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    file = tmp_path / "people.csv.gz"
    file.write_bytes(gzip.compress("\ufeffage,région\n34,sud\n".encode()))
    assert read_table(str(file), ["age"])["age"].to_pylist() == ["34"]
    assert read_table(file, ["région"])["région"].to_pylist() == ["sud"]


def test_parquet_keeps_its_types_and_reads_only_what_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "people.parquet"
    pq.write_table(pa.table({"a.ge": [34, None], "shoe": [1, 2], "age": [1.5, 2.5]}), file)
    table = read_table(file, ["age", "a.ge"])
    assert table.to_pydict() == {"age": [1.5, 2.5], "a.ge": [34, None]}
    with pytest.raises(DataError, match=r"people\.parquet' must have a column 'agee'.*mean 'age'"):
        read_table(file, ["agee"])


def file_refusal(file: Path, text: str | bytes, names: list[str]) -> str:
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(DataError) as caught:
        read_table(file, names)
    assert caught.value.__context__ is None
    assert file.name in str(caught.value)
    return str(caught.value).replace(str(file), file.name)  # the folder's name may hold digits


def test_ragged_rows_are_named_by_number_and_not_quoted(tmp_path: Path) -> None:
    text = "age,region\n71,a\n72,b,secret\n\n73,c\n74\n"
    message = file_refusal(tmp_path / "p.csv", text, ["age"])
    assert "must have 2 cells" in message
    assert "rows 2, 4" in message
    assert not any(cell in message for cell in ("72", "74", "secret"))


def test_a_missing_csv_column_is_named_but_a_headless_first_row_is_not_shown(
    tmp_path: Path,
) -> None:
    message = file_refusal(tmp_path / "p.csv", "age,regoin\n71,a\n", ["age", "region"])
    assert "must have a column 'region'" in message
    assert "did you mean 'regoin'" in message
    message = file_refusal(tmp_path / "p.csv", "71,secret\n72,b\n", ["age", "region"])
    assert "first line" in message
    assert "'age' or 'region'" in message
    assert "71" not in message
    assert "secret" not in message


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.csv", b"age\n\xff\xfe\n"),
        ("p.csv", b"\xff\xfeage\n"),
        ("p.csv.gz", b"age\n71\n"),
        ("p.parquet", b"age\n71\n"),
    ],
)
def test_damaged_files_are_refused_by_name(tmp_path: Path, name: str, content: bytes) -> None:
    assert "cannot be read as such" in file_refusal(tmp_path / name, content, ["age"])


def test_an_empty_file_has_no_header(tmp_path: Path) -> None:
    assert "first line" in file_refusal(tmp_path / "p.csv", "", ["age"])
    (tmp_path / "q.csv").write_text("age\n")
    assert len(read_table(tmp_path / "q.csv", ["age"])) == 0


def test_missing_files_and_unknown_suffixes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no file .*nobody\.csv"):
        read_table(tmp_path / "nobody.csv", ["age"])
    with pytest.raises(
        DataError, match=r"must end in \.csv, \.csv\.gz or \.parquet, got .*p\.xlsx'"
    ):
        read_table(tmp_path / "p.xlsx", ["age"])


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["p.csv", "p.csv.gz"])
@pytest.mark.parametrize("block", [1 << 23, 16])
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["mode", "car", "", "bus", ""], ["car", None, "bus"]),
        (["mode", "", "car", ""], [None, "car"]),
        (["mode", "car", "", ""], ["car", None]),
        (["mode", "car", ""], ["car"]),
        (["mode", "car"], ["car"]),
        (["mode", '""', '"a', 'b"', "", ""], [None, "a?b", None]),
        (["mode", *["bus", ""] * 50, ""], ["bus", None] * 50),
        (["mode,age", "car,1", "", "bus,2", "", ""], ["car", "bus"]),
    ],
)
def test_a_blank_line_is_a_person_where_there_is_one_column(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lines: list[str],
    expected: list[str | None],
    ending: str,
    name: str,
    block: int,
) -> None:
    monkeypatch.setattr(table_files, "CSV_BLOCK", block)
    content = ending.join(lines).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    found = read_table(tmp_path / name, ["mode"])["mode"].to_pylist()
    assert found == [cell and cell.replace("?", ending) for cell in expected]


def test_a_process_ends_while_the_reader_still_reads_ahead(tmp_path: Path) -> None:
    """The reader's thread must not need an interpreter that is ending.

    While 15 of many blocks are taken, the thread resumes reading ahead. The interpreter holds on
    to its lock and then ends: a thread that called Python would be killed in the middle of a
    block, and the process would wait for it for ever, or abort.
    """
    file = tmp_path / "people.csv"
    file.write_text("age\n" + "34\n" * 300_000)
    program = """
import sys, time
from sfumato.domains import tables

class Late:
    def __del__(self, sleep=time.sleep):
        sleep(0.02)

tables.CSV_BLOCK = 1 << 12
sys.late = Late()
sys.setswitchinterval(0.2)
pieces = tables.read_batches(sys.argv[1], ["age"])
for _ in range(15):
    next(pieces)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(file)], check=False, timeout=30, capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_file_whose_name_is_not_text_is_read(tmp_path: Path) -> None:
    file = tmp_path / "people\udcff.csv"
    file.write_text("age\n34\n")
    assert read_table(file, ["age"])["age"].to_pylist() == ["34"]
