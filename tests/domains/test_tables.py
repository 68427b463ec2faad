from __future__ import annotations

import datetime as dt
import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.domains.integers import Integers
from sfumato.domains.tables import columns, read_table
from sfumato.errors import DataError

AGES = [34, None, 61]
REGIONS = ["north", "south", None]


def structured() -> np.ndarray:
    people = np.zeros(3, dtype=[("shoe", ">f4"), ("age", ">i2"), ("region", "U5")])
    people["age"] = [34, 0, 61]
    people["region"] = ["north", "south", ""]
    return people


TABLES: dict[str, Any] = {
    "dict of lists": {"age": AGES, "region": REGIONS, "shoe": [object()] * 3},
    "dict of tuples": {"age": tuple(AGES), "region": tuple(REGIONS)},
    "dict of series": {"age": pd.Series(AGES), "region": pl.Series(REGIONS)},
    "dict of arrow": {
        "age": pa.array(AGES),
        "region": pa.chunked_array([REGIONS[:1], REGIONS[1:]]),
    },
    "dict of numpy": {"age": np.array([34, np.nan, 61]), "region": np.array(REGIONS, dtype=object)},
    "list of dicts": [{"age": 34, "region": "north"}, {"region": "south"}, {"age": 61}],
    "pandas": pd.DataFrame({"age": AGES, "region": REGIONS}),
    "pandas nullable": pd.DataFrame({"age": pd.array(AGES, dtype="Int8"), "region": REGIONS}),
    "pandas objects": pd.DataFrame({"age": AGES, "region": REGIONS}, dtype=object),
    "pandas categorical": pd.DataFrame({"age": AGES, "region": pd.Categorical(REGIONS)}),
    "polars": pl.DataFrame({"age": AGES, "region": REGIONS}),
    "arrow table": pa.table({"age": AGES, "region": REGIONS}),
    "arrow batch": pa.record_batch({"age": AGES, "region": REGIONS}),
    "arrow stream": pa.table({"age": AGES, "region": REGIONS}).to_reader(),
}


def refusal(table: Any, names: list[str]) -> str:
    with pytest.raises(DataError) as caught:
        columns(table, names)
    assert caught.value.__context__ is None  # the error beneath may quote a value
    return str(caught.value)


@pytest.mark.parametrize("kind", TABLES)
def test_every_kind_of_table_gives_the_same_columns(kind: str) -> None:
    found, one_person = columns(TABLES[kind], ["region", "age"])
    assert not one_person
    assert list(found) == ["region", "age"]
    assert all(isinstance(column, (pa.Array, pa.ChunkedArray)) for column in found.values())
    assert found["region"].to_pylist() == REGIONS
    codes = Integers(0, 99).read(found["age"], axis="age", clip=False)
    assert codes.tolist() == [34, -1, 61]


def test_structured_arrays_give_their_fields() -> None:
    found, one_person = columns(structured(), ["age", "region"])
    assert not one_person
    assert found["age"].to_pylist() == [34, 0, 61]
    assert found["region"].to_pylist() == ["north", "south", ""]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (34, 34),
        (34.5, 34.5),
        (None, None),
        (float("nan"), None),
        (pd.NA, None),
        (pd.NaT, None),
        ("north", "north"),
        (np.int8(34), 34),
        (np.array(34), 34),
        (np.datetime64("2024-01-05"), dt.date(2024, 1, 5)),
        (dt.date(2024, 1, 5), dt.date(2024, 1, 5)),
        (pd.Timestamp("2024-01-05T06:30"), dt.datetime(2024, 1, 5, 6, 30)),
        (dt.time(6, 30), dt.time(6, 30)),
    ],
)
def test_a_dict_of_scalars_is_one_person(value: Any, expected: Any) -> None:
    found, one_person = columns({"thing": value, "other": [1, 2]}, ["thing"])
    assert one_person
    assert found["thing"].to_pylist() == [expected]


def test_a_dict_of_lists_with_one_row_is_not_one_person() -> None:
    assert columns({"age": [34]}, ["age"])[1] is False


@pytest.mark.parametrize(
    "kind", ["dict of lists", "list of dicts", "pandas", "polars", "arrow table"]
)
def test_a_missing_column_is_named_with_its_near_match(kind: str) -> None:
    message = refusal(TABLES[kind], ["age", "regoin"])
    assert "must have a column 'regoin'" in message
    assert "did you mean 'region'" in message
    assert "'age'" in message
    assert "north" not in message


def test_a_missing_field_of_a_structured_array_is_named() -> None:
    assert "did you mean 'region'" in refusal(structured(), ["regions"])


def test_a_column_that_occurs_twice_is_refused() -> None:
    frame = pd.DataFrame([[1, 2]], columns=["age", "age"])
    assert "must have one column 'age', and has 2" in refusal(frame, ["age"])
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["age", "age"])
    assert "must have one column 'age', and has 2" in refusal(table, ["age"])


def test_columns_of_unequal_length_are_refused() -> None:
    message = refusal({"age": [71, 72, 73], "region": ["a", "b"]}, ["age", "region"])
    assert "one length" in message
    assert "'age' has 3, 'region' has 2" in message


def test_scalars_beside_columns_are_refused() -> None:
    message = refusal({"age": [71, 72], "region": "north"}, ["age", "region"])
    assert "'region' is a scalar and 'age' a column" in message
    assert "north" not in message


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([71, None, "many"], "mixes number and text (row 3 is the first to differ)"),
        (["many", 71], "mixes text and number (row 2"),
        ([71, True], "mixes number and true/false (row 2"),
        ([71.5, False], "mixes number and true/false (row 2"),
        ([None, dt.date(2024, 1, 5), dt.datetime(2024, 1, 5)], "mixes date and moment (row 3"),
        (
            [dt.datetime(2024, 1, 5), dt.datetime(2024, 1, 5, tzinfo=dt.UTC)],
            "mixes moment and moment with a time zone (row 2",
        ),
        (["many", {"a": 71}], "mixes text and something else (row 2"),
    ],
)
@pytest.mark.parametrize("form", ["list", "numpy", "pandas", "frame"])
def test_mixed_columns_are_refused_by_row(values: list[Any], words: str, form: str) -> None:
    series = pd.Series(values, dtype=object)
    table = {
        "list": {"thing": values},
        "numpy": {"thing": series.to_numpy()},
        "pandas": {"thing": series},
        "frame": pd.DataFrame({"thing": series}),
    }[form]
    message = refusal(table, ["thing"])
    assert "column 'thing' must hold one type" in message
    assert words in message
    for value in ("71", "many", "2024"):
        assert value not in message


def test_missing_marks_of_every_kind_mix_with_anything() -> None:
    values = ["north", None, float("nan"), pd.NA, pd.NaT]
    assert columns({"thing": values}, ["thing"])[0]["thing"].to_pylist() == ["north"] + [None] * 4


@pytest.mark.parametrize(
    "values",
    [
        [2**71],
        [object()],
        {1, 2},
        np.array([1 + 2j]),
        np.array([["a", "b"]]),
    ],
    ids=["huge", "object", "set", "complex", "two-dimensional"],
)
def test_columns_without_an_arrow_form_are_refused_by_name(values: Any) -> None:
    message = refusal({"thing": values}, ["thing"])
    assert "column 'thing' must" in message
    assert str(2**71) not in message


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.arange(6)[::2], [0, 2, 4]),
        (np.array([1, 2], dtype=">u4"), [1, 2]),
        (np.array([1.5], dtype=np.longdouble), [1.5]),
        (np.ma.array([1, 2], mask=[False, True]), [1, None]),
        (np.array(["2024-01-05T06", "NaT"], dtype="M8[h]"), [dt.datetime(2024, 1, 5, 6), None]),
        (range(2), [0, 1]),
        (pd.Index([3, 4]), [3, 4]),
    ],
    ids=["strided", "byte order", "long double", "masked", "hours", "range", "index"],
)
def test_arrays_of_unusual_layout_are_read(values: Any, expected: list[Any]) -> None:
    assert columns({"thing": values}, ["thing"])[0]["thing"].to_pylist() == expected


def test_columns_that_nobody_asked_for_do_no_harm() -> None:
    frame = pd.DataFrame({"age": [34], "junk": [object()]})
    assert columns(frame, ["age"])[0]["age"].to_pylist() == [34]
    assert columns({"age": [34], "junk": [1, "a", 3]}, ["age"])[0]["age"].to_pylist() == [34]


@pytest.mark.parametrize(
    "table", [34, "ages.csv", np.zeros((2, 2)), pl.LazyFrame({"age": [1]}), None]
)
def test_what_is_no_table_is_refused_by_its_type(table: Any) -> None:
    assert f"got {type(table).__name__}" in refusal(table, ["age"])


def test_a_list_must_hold_dicts() -> None:
    message = refusal([{"age": 71}, 72], ["age"])
    assert "row 2" in message
    assert "72" not in message
    assert columns([], ["age"])[0]["age"].to_pylist() == []


def test_polars_objects_are_left_to_the_domain_to_refuse() -> None:
    found, _ = columns(pl.DataFrame({"age": pl.Series([object()])}), ["age"])
    with pytest.raises(DataError, match=r"'age' takes whole numbers .* has type"):
        Integers(0, 99).read(found["age"], axis="age", clip=False)


def test_data_frame_libraries_are_not_imported() -> None:
    code = "import sys, sfumato.domains.tables; print({'pandas', 'polars'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# ---- files


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
    with pytest.raises(DataError, match=r"'people\.parquet' must have a column 'agee'.*mean 'age'"):
        read_table(file, ["agee"])


def file_refusal(file: Path, text: str | bytes, names: list[str]) -> str:
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(DataError) as caught:
        read_table(file, names)
    assert caught.value.__context__ is None
    assert file.name in str(caught.value)
    return str(caught.value)


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
        DataError, match=r"must end in \.csv, \.csv\.gz or \.parquet, got 'p\.xlsx'"
    ):
        read_table(tmp_path / "p.xlsx", ["age"])
