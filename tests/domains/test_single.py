"""One value is read without Arrow to the cell, or the error, of an Arrow column of one."""

from __future__ import annotations

import datetime as dt
import math
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sfumato.domains.base import Domain
from sfumato.domains.calendar import Dates, Times
from sfumato.domains.categories import Categories
from sfumato.domains.columns import Single, single
from sfumato.domains.integers import Integers
from sfumato.domains.reals import Reals
from sfumato.domains.tables import columns
from sfumato.errors import DataError

DOMAINS: dict[str, Domain] = {
    "integers": Integers(-3, 99),
    "large integers": Integers(2**53 - 9, 2**53 - 1),
    "reals": Reals.equal_bins("-0.1", "1.3", 14),
    "edges": Reals.from_edges([-5, "0.1", "0.7", 31, 1000]),
    "rounding": Reals.equal_bins(-1, 100, 7, rounding="stochastic"),
    "days": Dates.every("2023-12-30", "2024-03-31"),
    "weeks": Dates.every("1969-12-25", "1970-01-21", "1 week"),
    "clock": Times.every("06:00", "24:00", "15 minutes"),
    "moments": Times.every("1969-12-31T00:00", "2024-01-08T00:00", "1 hour"),
    "categories": Categories(("north", "south", "7", "-1", "0.7", " a ")),
}

near_numbers = st.one_of(
    st.integers(-5, 105),
    st.sampled_from([0.1, 0.7, 1.3, -0.1, 31.0, 0.5, 99.5, 2.0**53, -5.0]),
    st.sampled_from([2**53 - 5, 2**53, 2**63 - 1, -(2**63), 2**63, 2**64, 10**30]),
)
numbers = st.one_of(
    near_numbers,
    st.integers(),
    st.floats(width=64),
    st.floats(-5, 105),
    st.decimals(),
    st.decimals(-5, 105, places=2),
    st.sampled_from([Decimal("0.7"), Decimal("31.0"), Decimal("1E+10"), Decimal("0.05")]),
)
space = st.sampled_from(["", " ", "\t", "\u00a0", "\u2003", "\x1c", "\u200b", "\ufeff"])
spelled = st.one_of(
    numbers.map(str),
    st.sampled_from(["inf", "-Infinity", "NaN", "+5", "1e400", "5e-400", "007", "1.", ".5", "1_0"]),
    st.sampled_from(["north", "South", "", "7", "٣", "1,5", "\u0131nf", "x", "\ud800", "a\0"]),
    st.sampled_from(["2024-01-05", "2024-01-05T06:30", "2024-02-30", "06:30", "24:00", "6:30"]),
    st.sampled_from(["2024-01-05 06:30:01.5", "06:30:59.999", "2024-01-05T06:30+01:00"]),
    st.dates().map(str),
    st.datetimes().map(lambda moment: moment.isoformat()),
    st.times().map(str),
    st.text(max_size=4),
)
texts = st.tuples(space, spelled, space).map("".join)
moments = st.one_of(
    st.dates(),
    st.dates(dt.date(2023, 12, 1), dt.date(2024, 4, 30)),
    st.datetimes(),
    st.datetimes(dt.datetime(1969, 12, 30), dt.datetime(1970, 1, 2)),
    st.datetimes(timezones=st.just(dt.UTC)),
    st.times(),
    st.times(timezones=st.just(dt.UTC)),
    st.timedeltas(),
)
units = st.sampled_from(["D", "W", "h", "m", "s", "ms", "us", "ns", "M", "Y", "3D", "10ms", "ps"])
in_numpy = st.one_of(
    st.tuples(st.integers(-128, 127), st.sampled_from([np.int8, np.int32, np.int64])).map(
        lambda pair: pair[1](pair[0])
    ),
    st.tuples(st.integers(0, 255), st.sampled_from([np.uint8, np.uint64])).map(
        lambda pair: pair[1](pair[0])
    ),
    st.integers(0, 2**64 - 1).map(np.uint64),
    st.floats(width=32).map(np.float32),
    st.floats(width=16).map(np.float16),
    st.floats().map(np.float64),
    st.floats(-5, 105).map(np.longdouble),
    st.sampled_from([np.float32("0.7"), np.float16("0.1"), np.float32("nan")]),
    st.booleans().map(np.bool_),
    st.text(max_size=4).map(np.str_),
    st.tuples(st.integers(-(2**40), 2**40), units).map(lambda pair: np.datetime64(*pair)),
    units.map(lambda unit: np.datetime64("NaT", unit)),
    st.sampled_from(
        [
            *(np.timedelta64(3, "D"), np.complex128(1), np.bytes_(b"7"), np.array(7)),
            *(np.array("7"), np.array(7, dtype=object), np.array(np.nan), np.ma.masked),
            np.datetime64("NaT"),
        ]
    ),
)
others = st.sampled_from(
    [
        *(None, True, False, b"7", Fraction(7, 2), 7j, object(), dt.timedelta(1), math),
        *(pd.NA, pd.NaT, pd.Timestamp("2024-01-05T06:30")),
        *(Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Decimal("1E+60")),
    ]
)
values = st.one_of(numbers, texts, moments, in_numpy, others)


def outcome(domain: Domain, table: Any, *, clip: bool) -> tuple[str, Any]:
    """The cell, or what is said instead of one."""
    try:
        codes = domain.read(columns(table, ["thing"])["thing"], axis="thing", clip=clip)
    except DataError as error:
        return "refused", str(error)
    assert codes.dtype == np.int64
    return "cell", codes.tolist()


def column_of_one(value: Any) -> Any:
    """The value as the only row of a table, which is read through Arrow."""
    in_numpy = isinstance(value, (np.generic, np.ndarray))
    return np.asanyarray(value)[np.newaxis] if in_numpy else [value]


@pytest.mark.slow
@pytest.mark.parametrize("name", DOMAINS)
@given(value=values, clip=st.booleans())
@example(value=Decimal("0.7"), clip=False)
@example(value=Decimal("-4.07E-13"), clip=False)
@example(value=Decimal("30.99999999999999999999"), clip=False)
@example(value=np.datetime64("2024-01-05", "3D"), clip=True)
def test_one_value_has_the_cell_and_the_errors_of_a_column_of_one(
    name: str, value: Any, clip: bool
) -> None:
    domain = DOMAINS[name]
    assert outcome(domain, {"thing": value}, clip=clip) == outcome(
        domain, {"thing": column_of_one(value)}, clip=clip
    )


@pytest.mark.parametrize(
    "value",
    [
        *(None, 31, 0.5, math.nan, "31", True, Decimal("1.5"), dt.date(2024, 1, 5), dt.time(6)),
        *(dt.datetime(2024, 1, 5), np.int8(3), np.float32(0.5), np.str_("7"), np.array(7)),
        *(np.True_, np.float64("nan"), np.datetime64("2024-01-05"), np.datetime64(9, "h")),
    ],
    ids=repr,
)
def test_common_values_need_no_arrow(value: Any) -> None:
    assert isinstance(single(value), Single)


def test_a_masked_value_is_missing() -> None:
    column = columns({"thing": np.ma.masked}, ["thing"])["thing"]
    assert DOMAINS["integers"].read(column, axis="thing", clip=False).tolist() == [-1]


def test_reading_one_value_of_every_domain_loads_no_heavy_library() -> None:
    code = """
import sys
from sfumato.domains.registry import domain_from_dict
from sfumato.domains.tables import columns
for domain, value in [
    ({"kind": "integers", "low": 0, "high": 9}, 3),
    ({"kind": "reals", "low": 0, "high": 9, "bins": 3}, "2.5"),
    ({"kind": "reals", "low": 0, "high": 9, "bins": 3, "rounding": "stochastic"}, 2.5),
    ({"kind": "dates", "start": "2024-01-01", "end": "2024-01-09"}, "2024-01-05"),
    ({"kind": "times", "start": "06:00", "end": "09:00", "step": "1 hour"}, "06:30"),
    ({"kind": "categories", "labels": ["car", "bus"]}, "bus"),
]:
    found = columns({"a": value}, ["a"])["a"]
    domain_from_dict(domain).read(found, axis="a", clip=False)
print({"pyarrow", "pandas", "polars", "scipy", "matplotlib"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
