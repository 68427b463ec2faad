from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sfumato.domains.integers import Integers
from sfumato.domains.tables import columns
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
    found = columns(TABLES[kind], ["region", "age"])
    assert list(found) == ["region", "age"]
    assert all(isinstance(column, (pa.Array, pa.ChunkedArray)) for column in found.values())
    assert found["region"].to_pylist() == REGIONS
    codes = Integers(0, 99).read(found["age"], axis="age", clip=False)
    assert codes.tolist() == [34, -1, 61]


def test_structured_arrays_give_their_fields() -> None:
    found = columns(structured(), ["age", "region"])
    assert found["age"].to_pylist() == [34, 0, 61]
    assert found["region"].to_pylist() == ["north", "south", ""]


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
    assert columns({"thing": values}, ["thing"])["thing"].to_pylist() == ["north"] + [None] * 4


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
    assert columns({"thing": values}, ["thing"])["thing"].to_pylist() == expected


def test_columns_that_nobody_asked_for_do_no_harm() -> None:
    frame = pd.DataFrame({"age": [34], "junk": [object()]})
    assert columns(frame, ["age"])["age"].to_pylist() == [34]
    assert columns({"age": [34], "junk": [1, "a", 3]}, ["age"])["age"].to_pylist() == [34]


@pytest.mark.parametrize(
    "table", [34, "ages.csv", np.zeros((2, 2)), pl.LazyFrame({"age": [1]}), None]
)
def test_what_is_no_table_is_refused_by_its_type(table: Any) -> None:
    assert f"got {type(table).__name__}" in refusal(table, ["age"])


def test_a_list_must_hold_dicts() -> None:
    message = refusal([{"age": 71}, 72], ["age"])
    assert "row 2" in message
    assert "72" not in message
    assert columns([], ["age"])["age"].to_pylist() == []


def test_polars_objects_are_left_to_the_domain_to_refuse() -> None:
    found = columns(pl.DataFrame({"age": pl.Series([object()])}), ["age"])
    with pytest.raises(DataError, match=r"'age' takes whole numbers .* has type"):
        Integers(0, 99).read(found["age"], axis="age", clip=False)
