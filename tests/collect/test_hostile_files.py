"""Files of reports and tallies that somebody meant to do harm with: refused, and read by nobody."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.collect import parquet

STUDY = sf.Study("ages", [sf.integers("age", 0, 9, protect=sf.Distance(0.5))])
TWO = sf.Study(
    "two",
    [
        sf.integers("age", 0, 9, protect=sf.Distance(0.5)),
        sf.integers("year", 0, 9, protect=sf.Distance(0.5)),
    ],
)
BITS = sf.Study(
    "bits", [sf.integers("age", 0, 9, protect=sf.Distance(0.5), channel=sf.Thermometer())]
)
PEOPLE = {"age": [1, 2, 3, 3], "year": [4, 5, 6, 6]}


def tally_table(study: sf.Study, folder: Path) -> pa.Table:
    study.simulate(PEOPLE, seed=1).save(folder / "tally.parquet")
    return pq.read_table(folder / "tally.parquet")


def load(table: pa.Table, study: sf.Study, folder: Path) -> sf.Tally:
    pq.write_table(table, folder / "changed.parquet")
    return sf.Tally.load(folder / "changed.parquet", study)


def read(path: Path, tally: bool) -> object:
    return sf.Tally.load(path, STUDY) if tally else sf.Reports.load(path)


def replaced(table: pa.Table, name: str, values: list[Any], kind: pa.DataType) -> pa.Table:
    place = table.column_names.index(name)
    return table.set_column(place, pa.field(name, kind), pa.array(values, type=kind))


def with_head(table: pa.Table, **changed: Any) -> pa.Table:
    head = json.loads(table.schema.metadata[b"sfumato"]) | changed
    return table.replace_schema_metadata({b"sfumato": json.dumps(head).encode()})


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1.9, pa.float64()),
        (1.0, pa.float64()),
        (float("inf"), pa.float64()),
        (float("nan"), pa.float64()),
        (1e30, pa.float64()),
        ("7", pa.string()),
        (b"7", pa.binary()),
        (True, pa.bool_()),
        (None, pa.null()),
        (None, pa.int64()),
        (datetime(2024, 1, 1), pa.timestamp("us")),
        (Decimal(7), pa.decimal128(5, 0)),
        ({"a": 1}, pa.struct([("a", pa.int64())])),
        ([1], pa.list_(pa.int64())),
        (0, pa.int64()),
        (-1, pa.int64()),
        (2**62, pa.int64()),
        (2**63, pa.uint64()),
        (2**53, pa.int64()),  # in each of several rows: together too many
    ],
)
def test_a_tally_takes_only_whole_numbers_of_people(
    value: Any, kind: pa.DataType, tmp_path: Path
) -> None:
    table = tally_table(STUDY, tmp_path)
    assert table.num_rows > 1
    bad = replaced(table, "people", [value] * table.num_rows, kind)
    with pytest.raises(sf.FormatError, match=r"'people' of .*changed.parquet' must hold"):
        load(bad, STUDY, tmp_path)


def test_counts_of_any_whole_type_are_read(tmp_path: Path) -> None:
    table = tally_table(STUDY, tmp_path)
    counts = table["people"].to_pylist()
    for kind in (pa.uint8(), pa.int32(), pa.uint64()):
        read = load(replaced(table, "people", counts, kind), STUDY, tmp_path)
        assert read == sf.Tally.load(tmp_path / "tally.parquet", STUDY)


def test_tallies_that_add_up_to_too_many_people_are_refused(tmp_path: Path) -> None:
    table = tally_table(STUDY, tmp_path).slice(0, 1)
    half = load(replaced(table, "people", [2**52 + 1], pa.int64()), STUDY, tmp_path)
    with pytest.raises(sf.TooLargeError, match=r"9,007,199,254,740,992"):
        _ = half + half


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1.0], pa.float64()),
        (["1"], pa.string()),
        ([b"1"], pa.binary()),
        ([None], pa.null()),
        ([{"a": 1}], pa.struct([("a", pa.int64())])),
        ([[1]], pa.list_(pa.int64())),
        ([-1], pa.int64()),
        ([2**64 - 1], pa.uint64()),
        ([10**6], pa.int64()),
    ],
)
@pytest.mark.parametrize("study", [STUDY, BITS])
def test_columns_of_reports_take_what_devices_send(
    study: sf.Study, values: list[Any], kind: pa.DataType, tmp_path: Path
) -> None:
    table = study.encode({"age": [1]}).to_arrow()
    bad = replaced(table, "age", values, kind)
    with pytest.raises(sf.FormatError, match="column 'age' of the table"):
        sf.Reports.from_arrow(bad)
    pq.write_table(bad, tmp_path / "reports.parquet")
    with pytest.raises(sf.FormatError, match="column 'age' of "):
        sf.Reports.load(tmp_path / "reports.parquet")


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    reports = STUDY.encode({"age": [1, 2]}).to_arrow()
    tally = tally_table(STUDY, tmp_path)
    for table in (reports, tally):
        for name in table.column_names:
            twice = table.append_column(name, table[name])
            pq.write_table(twice, tmp_path / "twice.parquet")
            with pytest.raises(sf.FormatError, match=f"one column {name!r}, and has 2"):
                read(tmp_path / "twice.parquet", table is tally)
    with pytest.raises(sf.FormatError, match="one column 'age', and has 2"):
        STUDY.tally(reports.append_column("age", reports["age"]))


@pytest.mark.parametrize(
    "changed",
    [
        {"version": 0},
        {"version": True},
        {"version": 1.0},
        {"version": 10**30},
        {"study": 7},
        {"study": ""},
        {"kind": ["tally"]},
        {"kind": None},
        {"axes": {}},
        {"axes": [7]},
        {"axes": []},
        {"axes": [{"name": 7, "outputs": "symbols", "count": 10}]},
        {"axes": [{"name": "age", "outputs": "symbols", "count": "10"}]},
        {"axes": [{"name": "age", "outputs": "symbols", "count": 10.0}]},
        {"axes": [{"name": "age", "outputs": "symbols", "count": True}]},
        {"axes": [{"name": "age", "outputs": "symbols", "count": -10}]},
        {"axes": [{"name": "age", "outputs": "symbols", "count": 10**30}]},
        {"axes": [{"name": "age", "outputs": "bits", "count": 10**30}]},
        {"axes": [{"name": "age", "outputs": ["symbols"], "count": 10}]},
        {"axes": [{"name": "people", "outputs": "symbols", "count": 10}]},
        {"axes": [{"name": "age", "outputs": "symbols", "count": 10}] * 2},
    ],
)
def test_tampered_metadata_is_refused(changed: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises((sf.FormatError, sf.MismatchError)):
        load(with_head(tally_table(STUDY, tmp_path), **changed), STUDY, tmp_path)
    with pytest.raises((sf.FormatError, sf.MismatchError)):
        STUDY.tally(with_head(STUDY.encode({"age": [1]}).to_arrow(), **changed))


def test_columns_named_in_another_order_than_the_study_has_are_refused(tmp_path: Path) -> None:
    """Both axes are written alike: only the names tell them apart."""
    head = [{"name": name, "outputs": "symbols", "count": 10} for name in ("year", "age")]
    with pytest.raises(sf.FormatError, match="damaged metadata"):
        load(with_head(tally_table(TWO, tmp_path), axes=head), TWO, tmp_path)
    with pytest.raises(sf.FormatError, match="damaged metadata"):
        TWO.tally(with_head(TWO.encode(PEOPLE).to_arrow(), axes=head))


@pytest.mark.parametrize(
    "raw", [b"[" * 100_000, b'{"version":' + b"9" * 10**6 + b"}", b"\xff", b"[NaN]", b'"\\ud800"']
)
def test_metadata_that_breaks_parsers_is_refused(raw: bytes, tmp_path: Path) -> None:
    table = STUDY.encode({"age": [1]}).to_arrow().replace_schema_metadata({b"sfumato": raw})
    with pytest.raises(sf.FormatError, match="metadata is missing or damaged"):
        sf.Reports.from_arrow(table)


@pytest.mark.parametrize("kind", ["reports", "tally"])
def test_a_file_cut_anywhere_is_refused(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "cut.parquet"
    if kind == "reports":
        STUDY.encode({"age": [1, 2, 3]}).save(file)
    else:
        STUDY.simulate(PEOPLE, seed=1).save(file)
    raw = file.read_bytes()
    for end in range(0, len(raw), 7):
        file.write_bytes(raw[:end])
        with pytest.raises(sf.FormatError):
            read(file, kind == "tally")
        if kind == "tally":
            with pytest.raises(sf.FormatError, match=r"^the data is damaged"):
                sf.Tally.from_bytes(raw[:end], STUDY)


def test_small_bytes_that_fill_the_memory_are_refused_before_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = pq.read_table(pa.BufferReader(STUDY.simulate(PEOPLE, seed=1).to_bytes())).slice(0, 1)
    count = 1 << 20
    columns = [pa.array(np.ones(count, dtype=str(field.type))) for field in one.schema]
    sink = pa.BufferOutputStream()
    bomb = pa.table(columns, schema=one.schema)
    pq.write_table(bomb, sink, compression="zstd")
    data = sink.getvalue().to_pybytes()
    assert sf.Tally.from_bytes(data, STUDY).n == count
    monkeypatch.setattr(parquet, "_FREE_BYTES", 1 << 20)
    with pytest.raises(sf.TooLargeError, match=r"^the data states 1,048,576 rows"):
        sf.Tally.from_bytes(data, STUDY)


def test_a_small_file_that_fills_the_memory_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = STUDY.encode({"age": [1]}).to_arrow()
    part = pa.table([pa.array(np.zeros(1 << 22, dtype=np.uint8))], schema=one.schema)
    pq.write_table(part, tmp_path / "bomb.parquet", use_dictionary=False, compression="zstd")
    assert len(sf.Reports.load(tmp_path / "bomb.parquet")) == 1 << 22
    monkeypatch.setattr(parquet, "_FREE_BYTES", 1 << 20)
    with pytest.raises(sf.TooLargeError, match=r"states 4,194,304 rows .* 'sfumato tally'"):
        sf.Reports.load(tmp_path / "bomb.parquet")


def test_columns_that_nobody_asked_for_are_not_read(tmp_path: Path) -> None:
    table = STUDY.encode({"age": [1]}).to_arrow()
    wide = table.append_column("note", pa.array([{"a": "x"}]))
    pq.write_table(wide, tmp_path / "reports.parquet")
    assert len(sf.Reports.load(tmp_path / "reports.parquet")) == 1


def test_what_is_no_study_or_no_path_is_named() -> None:
    with pytest.raises(sf.StudyError, match="study must be a Study, got str"):
        sf.Tally.load("tally.parquet", "ages.toml")  # type: ignore[arg-type]
    for path in (7, None, b"\xff", "\0"):
        with pytest.raises(sf.FormatError, match=r"a path|no file"):
            sf.Tally.load(path, STUDY)  # type: ignore[arg-type]
        with pytest.raises(sf.FormatError, match=r"a path|no file"):
            sf.Reports.load(path)  # type: ignore[arg-type]
