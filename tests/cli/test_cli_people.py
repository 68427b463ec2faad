"""Files of any length are read piece by piece, and errors speak of rows of the whole file."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.cli import people
from sfumato.collect import people as chunks
from sfumato.domains import tables as table_files
from sfumato.domains.tables import read_batches
from sfumato.errors import DataError
from sfumato.study.study import Study

COUNT = 5_000
Write = Callable[[list[str], Path], Path]


@pytest.fixture
def study() -> Study:
    return Study("s", [sf.integers("row 1", 0, 9, protect=sf.Distance(1))])


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "PEOPLE_AT_ONCE", 700)
    monkeypatch.setattr(table_files, "CSV_BLOCK", 1_000)
    monkeypatch.setattr(table_files, "_PARQUET_ROWS", 300)


def as_csv(values: list[str], folder: Path) -> Path:
    path = folder / "p.csv"
    lines = [f'"a\nb",{value}' for value in values]
    path.write_text("\n".join(["note,row 1", *lines]) + "\n")
    return path


def as_gzip(values: list[str], folder: Path) -> Path:
    path = folder / "p.csv.gz"
    path.write_bytes(gzip.compress(as_csv(values, folder).read_bytes()))
    return path


def as_parquet(values: list[str], folder: Path) -> Path:
    path = folder / "p.parquet"
    pq.write_table(pa.table({"row 1": [value or None for value in values]}), path)
    return path


def encode(study: Study, path: Path) -> list[sf.Reports]:
    return list(people.encode_file(study, path, sf.SeededBits(1), lambda done, total: None))


WRITERS = pytest.mark.parametrize("write", [as_csv, as_gzip, as_parquet])


@WRITERS
def test_every_person_is_encoded_once_in_order(study: Study, tmp_path: Path, write: Write) -> None:
    values = [str(k % 10) for k in range(COUNT)]
    # With an E this large a report is its value, so order and number can be read off.
    plain = Study("p", [sf.integers("row 1", 0, 9, protect=sf.Distance(60))])
    parts = encode(plain, write(values, tmp_path))
    assert [len(part) for part in parts] == [700] * 7 + [100]
    assert np.concatenate([p.outputs[0] for p in parts]).tolist() == [k % 10 for k in range(COUNT)]  # type: ignore[arg-type]


@WRITERS
@pytest.mark.parametrize("row", [1, 700, 701, 3_333, COUNT])
@pytest.mark.parametrize("bad", ["x77", "77", ""])
def test_the_row_of_a_bad_value_is_counted_over_the_whole_file(
    study: Study, tmp_path: Path, write: Write, row: int, bad: str
) -> None:
    values = ["5"] * COUNT
    values[row - 1] = bad
    with pytest.raises(DataError) as caught:
        encode(study, write(values, tmp_path))
    message = str(caught.value)
    assert message.startswith("axis 'row 1' ")
    assert f"row {row} has none" in message or f"(row {row})" in message
    assert "77" not in message.replace(str(row), "")
    last = min((row - 1) // 700 * 700 + 700, COUNT)
    assert (f"rows after {last} were not looked at" in message) == (last < COUNT)


def test_several_rows_are_all_shifted(study: Study, tmp_path: Path) -> None:
    values = ["5"] * COUNT
    for row in (1_402, 1_404, 1_500, 1_501, 1_502, 1_503, 1_504):
        values[row - 1] = "x"
    with pytest.raises(
        DataError, match=r"7 values .*\(rows 1402, 1404, 1500, 1501, 1502 and 2 more"
    ):
        encode(study, as_csv(values, tmp_path))


@pytest.mark.parametrize("row", [1, 2_000, COUNT])
def test_the_row_with_a_cell_too_many_is_named(study: Study, tmp_path: Path, row: int) -> None:
    values = ["5"] * COUNT
    values[row - 1] = "5,77"
    with pytest.raises(DataError) as caught:
        encode(study, as_csv(values, tmp_path))
    assert f"row {row} has more or fewer" in str(caught.value)
    assert "77" not in str(caught.value)


def test_rows_after_one_with_a_cell_too_many_are_never_misnumbered(
    study: Study, tmp_path: Path
) -> None:
    values = ["5"] * COUNT
    values[9], values[11] = "5,5", "x"
    with pytest.raises(DataError, match="row 10 has more or fewer"):
        encode(study, as_csv(values, tmp_path))


def test_progress_ends_at_the_end(study: Study, tmp_path: Path) -> None:
    for write in (as_csv, as_gzip, as_parquet):
        steps: list[tuple[int, int]] = []
        path = write(["5"] * COUNT, tmp_path)
        list(read_batches(path, ["row 1"], seen=lambda *step: steps.append(step)))  # noqa: B023
        assert steps[-1][0] == steps[-1][1]
        assert steps == sorted(steps)
        assert len(steps) > 1


def test_a_seed_gives_the_reports_of_one_python_call_however_long_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    axes = [sf.integers(name, 0, 9, protect=sf.Distance(1)) for name in ("a", "b")]
    study = Study("s", axes)
    table = pa.table({name: np.arange(1_200_000) % 10 for name in ("a", "b")})
    pq.write_table(table, tmp_path / "p.parquet")
    parts = encode(study, tmp_path / "p.parquet")
    expected = study.encode(table, bits=sf.SeededBits(1))
    assert len(parts) == 2
    assert sf.Reports.join(parts).to_arrow().equals(expected.to_arrow())


def test_a_blank_answer_in_a_file_of_one_column_is_a_person(tmp_path: Path) -> None:
    axis = sf.categories("mode", ["car", "bus"], protect=sf.Uniform(1), optional=True)
    (tmp_path / "p.csv").write_text("mode\ncar\n\nbus\n")
    assert [len(part) for part in encode(Study("s", [axis]), tmp_path / "p.csv")] == [3]
