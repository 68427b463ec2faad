from __future__ import annotations

import datetime as dt
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.domains.base import MOST_CELLS, Domain
from sfumato.domains.calendar import Dates, Times
from sfumato.domains.categories import Categories
from sfumato.domains.integers import Integers
from sfumato.domains.reals import Reals
from sfumato.domains.registry import domain_from_dict
from sfumato.errors import DataError, QuestionError, StudyError

AGE = Integers(18, 99)
INCOME = Reals.equal_bins(0, 200_000, 64)
STEPPED = Reals.from_edges([0, 10, 100, 1000])
GRID = Reals.equal_bins(0, 4, 4, rounding="stochastic")
DAY = Dates.every("2024-01-01", "2024-03-31")
WEEK = Dates.every("2024-01-01", "2024-12-29", "1 week")
CLOCK = Times.every("06:00", "10:00", "15 minutes")
MOMENT = Times.every("2024-01-01T00:00", "2024-01-08T00:00", "1 hour")
REGION = Categories(("north", "south", "east"))
EVERY = [AGE, INCOME, STEPPED, GRID, DAY, WEEK, CLOCK, MOMENT, REGION]
ORDERED = [domain for domain in EVERY if domain.ordered]


def name_of(domain: Any) -> str:
    return f"{domain.kind}-{domain.size}"


def read(domain: Domain, values: Any, *, clip: bool = False, **options: Any) -> list[int]:
    column = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values)
    return domain.read(column, axis="thing", clip=clip, **options).tolist()


def refusal(domain: Domain, values: Any, *, clip: bool = False) -> str:
    with pytest.raises(DataError) as caught:
        read(domain, values, clip=clip)
    assert caught.value.__context__ is None
    assert "'thing'" in str(caught.value)
    return str(caught.value)


# ---- what all kinds share


@pytest.mark.parametrize("domain", EVERY, ids=name_of)
def test_a_domain_survives_its_dictionary(domain: Domain) -> None:
    data = domain.to_dict()
    assert data["kind"] == domain.kind
    again = domain_from_dict(data)
    assert again == domain
    assert hash(again) == hash(domain)
    assert again.to_dict() == data


@pytest.mark.parametrize("domain", EVERY, ids=name_of)
def test_labels_are_distinct_and_as_many_as_cells(domain: Domain) -> None:
    assert len(set(domain.labels())) == len(domain.labels()) == domain.size


@pytest.mark.parametrize("domain", ORDERED, ids=name_of)
def test_positions_rise_by_the_spacing_that_is_stated(domain: Domain) -> None:
    positions = domain.positions()
    gaps = {right - left for left, right in pairwise(positions)}
    assert len(positions) == domain.size
    assert min(gaps) > 0
    assert domain.spacing == (gaps.pop() if len(gaps) == 1 else None)


@pytest.mark.parametrize("domain", ORDERED, ids=name_of)
def test_edges_rise_and_enclose_the_numbers(domain: Domain) -> None:
    edges = domain.edges()
    assert edges is not None
    assert len(edges) == domain.size + 1
    assert np.all(edges[1:] > edges[:-1])
    numbers = domain.numbers()
    if numbers is not None:
        assert np.all((edges[:-1] <= numbers) & (numbers <= edges[1:]))
        assert numbers.tolist() == [float(place) for place in domain.positions()]


@pytest.mark.parametrize("domain", ORDERED, ids=name_of)
def test_the_open_interval_is_everyone_and_is_not_prorated(domain: Domain) -> None:
    weights, cut = domain.interval(None, None, axis="thing")
    assert weights.tolist() == [1.0] * domain.size
    assert cut is False


@pytest.mark.parametrize("domain", [INCOME, STEPPED, DAY, WEEK, CLOCK, MOMENT], ids=name_of)
def test_the_label_of_a_cell_asks_for_exactly_that_cell(domain: Domain) -> None:
    for cell, label in enumerate(domain.labels()):
        low, _, high = label.partition("..")
        ends = [domain.parse(end, axis="thing") for end in (low, high or low)]
        weights, cut = domain.interval(*ends, axis="thing")
        assert weights.tolist() == [float(cell == k) for k in range(domain.size)]
        assert cut is False


@pytest.mark.parametrize("domain", ORDERED, ids=name_of)
def test_written_places_are_read_back(domain: Domain) -> None:
    for place in {domain.place(domain.parse(t, axis="a"), axis="a") for t in _bounds(domain)}:
        value = domain.parse(domain.write(place), axis="a")
        assert domain.place(value, axis="a") == place
        assert domain.place(value, axis="a", upper=True) == place


def _bounds(domain: Domain) -> list[str]:
    return [end for label in domain.labels() for end in label.split("..")]


@pytest.mark.parametrize("domain", EVERY, ids=name_of)
def test_empty_and_missing_columns_read_as_nothing(domain: Domain) -> None:
    assert read(domain, pa.array([], type=pa.string())) == []
    assert read(domain, pa.nulls(3)) == [-1, -1, -1]
    assert read(domain, pa.array([None, ""], type=pa.string())) == [-1, -1]


@pytest.mark.parametrize("domain", EVERY, ids=name_of)
@pytest.mark.parametrize(
    "values",
    [
        pa.array([True, False]),
        pa.array([[1], [2]]),
        pa.array([{"Ann": 1}]),
        pa.array([b"x"]),
        pa.array([dt.timedelta(days=1)]),
    ],
    ids=["bool", "list", "struct", "binary", "duration"],
)
def test_columns_of_the_wrong_type_are_refused(domain: Domain, values: pa.Array) -> None:
    message = refusal(domain, values)
    assert "has type" in message
    assert "convert it" in message
    assert "Ann" not in message


@pytest.mark.parametrize("domain", ORDERED, ids=name_of)
def test_reversed_intervals_are_refused(domain: Domain) -> None:
    low, high = (
        domain.parse(text, axis="thing") for text in (_bounds(domain)[0], _bounds(domain)[-1])
    )
    with pytest.raises(QuestionError, match=r"'thing'.*reversed"):
        domain.interval(high, low, axis="thing")


@pytest.mark.parametrize(
    ("domain", "inside", "below", "above"),
    [
        (AGE, 50, 3, 150),
        (INCOME, 5.0, -1.0, 200_001.0),
        (GRID, 1.0, -1.0, 5.0),
        (WEEK, dt.date(2024, 5, 1), dt.date(2023, 12, 31), dt.date(2024, 12, 30)),
        (CLOCK, dt.time(7), dt.time(5, 59, 59), dt.time(10)),
        (MOMENT, dt.datetime(2024, 1, 2), dt.datetime(2023, 12, 31), dt.datetime(2024, 1, 8)),
    ],
    ids=["integers", "reals", "grid", "dates", "times", "moments"],
)
def test_values_out_of_range_are_clipped_only_on_request(
    domain: Domain, inside: Any, below: Any, above: Any
) -> None:
    column = pa.array([inside, below, None, above, inside])
    message = refusal(domain, column)
    assert "2 values are out of range (rows 2, 4)" in message
    assert "outside='clip'" in message
    for value in (below, above):
        assert str(value) not in message
    codes = read(domain, column, clip=True)
    assert codes[1:4] == [
        0,
        -1,
        (domain.size - 1) << domain.rounding_bits if domain is GRID else domain.size - 1,
    ]
    assert codes[0] == codes[4] == read(domain, [inside])[0]
    for low, high in ((None, below), (above, None)):
        if domain not in (CLOCK, MOMENT) or low is not None:
            with pytest.raises(QuestionError, match=r"'thing' runs from .* outside"):
                domain.interval(low, high, axis="thing")


@pytest.mark.parametrize(
    ("domain", "good", "bad", "rule"),
    [
        (AGE, "18", "eighteen", "whole numbers from 18 to 99"),
        (AGE, "18.0", "18.5", "whole numbers from 18 to 99"),
        (INCOME, "1.5e3", "12,5", "numbers from 0 to 200000"),
        (DAY, "2024-02-29", "2024-02-30", "dates from 2024-01-01 to 2024-03-31"),
        (DAY, "2024-02-29T23:59", "2024-02-01T10:00Z", "dates from"),
        (DAY, "2024-02-29 23:59:59.5", "29.02.2024", "dates from"),
        (CLOCK, "06:30", "6:30pm", "times of day from 06:00 to before 10:00"),
        (CLOCK, "09:59:59.9", "24:00", "times of day"),
        (MOMENT, "2024-01-02T03:04:05", "2024-01-02", "moments from 2024-01-01T00:00"),
        (REGION, "north", "North", "one of 3 labels"),
    ],
)
def test_text_is_parsed_and_what_cannot_be_is_named_by_row(
    domain: Domain, good: str, bad: str, rule: str
) -> None:
    assert read(domain, [good, None, f"{good}"])[0] >= 0
    message = refusal(domain, [good, bad, "", bad])
    assert rule in message
    assert "rows 2, 4" in message
    assert bad not in message


def test_many_bad_rows_are_counted_and_only_the_first_are_listed() -> None:
    message = refusal(AGE, [7] * 1000)
    assert "1000 values" in message
    assert "rows 1, 2, 3, 4, 5 and 995 more" in message


@pytest.mark.parametrize("form", ["chunked", "dictionary", "runs", "large", "view"])
def test_every_layout_of_arrow_text_reads_the_same(form: str) -> None:
    plain = pa.array(["south", None, "north", "south"])
    column = {
        "chunked": lambda: pa.chunked_array([plain[:1], plain[1:]]),
        "dictionary": lambda: plain.dictionary_encode(),
        "runs": lambda: pa.RunEndEncodedArray.from_arrays([1, 2, 3, 4], plain),
        "large": lambda: plain.cast(pa.large_string()),
        "view": lambda: plain.cast(pa.string_view()),
    }[form]()
    assert read(REGION, column) == [1, -1, 0, 1]


# ---- integers


@pytest.mark.parametrize(
    "dtype", [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)
def test_integers_of_every_width_reach_their_cell(dtype: str) -> None:
    assert read(AGE, np.array([18, 19, 99], dtype=dtype)) == [0, 1, 81]
    limits = np.iinfo(dtype)
    assert read(AGE, np.array([limits.min, limits.max], dtype=dtype), clip=True) == [0, 81]


def test_integers_far_from_zero_do_not_overflow() -> None:
    far = 2**53 - 1
    assert read(Integers(far - 1, far), [far - 1, far]) == [0, 1]
    assert read(Integers(-far, -far + 1), [str(-far), str(-far + 1)]) == [0, 1]
    assert "rows 1, 2" in refusal(Integers(far - 1, far), [str(far + 1), str(far + 2)])
    assert read(Integers(far - 1, far), np.array([2**64 - 1], dtype=np.uint64), clip=True) == [1]


def test_whole_floats_are_integers_and_other_floats_are_not() -> None:
    assert read(AGE, pa.array([18, None, 99]).dictionary_encode()) == [0, -1, 81]
    assert read(AGE, [18.0, float("nan"), 99.0]) == [0, -1, 81]
    assert read(AGE, np.array([20.0], dtype=np.float16)) == [2]
    message = refusal(AGE, [18.0, 20.75], clip=True)
    assert "not whole (row 2)" in message
    assert "20.75" not in message
    assert "rows 1, 2" in refusal(AGE, [float("inf"), float("-inf")])
    assert read(AGE, [float("inf"), float("-inf")], clip=True) == [81, 0]


def test_decimals_are_integers_only_where_they_are_whole() -> None:
    assert read(AGE, [Decimal("20.00"), None]) == [2, -1]
    assert "row 2" in refusal(AGE, [Decimal("20"), Decimal("20.00000000000000000001")])


def test_integers_keep_only_whole_numbers_of_an_interval() -> None:
    weights, cut = AGE.interval(17.5, Fraction(61, 3), axis="age")
    assert (weights.sum(), weights[:3].tolist(), cut) == (3, [1, 1, 1], False)
    assert AGE.interval(np.int8(98), float("inf"), axis="age")[0].sum() == 2
    assert AGE.cell_of(np.int64(20), axis="age") == 2
    with pytest.raises(QuestionError, match=r"none in 20\.2\.\.20\.8"):
        AGE.interval(20.2, 20.8, axis="age")


@pytest.mark.parametrize("wrong", ["18", True, float("nan"), None, (1, 2), dt.date(2024, 1, 1)])
def test_numbers_are_asked_for_by_number(wrong: object) -> None:
    for domain in (AGE, INCOME, GRID):
        with pytest.raises(QuestionError, match="'age' takes numbers"):
            domain.cell_of(wrong, axis="age")
    with pytest.raises(QuestionError, match="'age' takes numbers"):
        AGE.parse("old", axis="age")


@pytest.mark.parametrize(
    ("low", "high", "match"),
    [
        (5, 5, "at least 2 cells, got 1.*low must be below high"),
        (5, 3, "at least 2 cells, got 0"),
        (0, MOST_CELLS, "at most 16777216 cells, got 16777217"),
        (0.5, 3, "low must be a whole number.*low=0.5"),
        (0, True, "high must be a finite number"),
        (0, 2**53, "high must be a whole number within"),
    ],
)
def test_invalid_integer_domains_are_refused(low: Any, high: Any, match: str) -> None:
    with pytest.raises(StudyError, match=match):
        Integers(low, high)


@given(st.integers(-(10**6), 10**6), st.integers(1, 300), st.data())
def test_an_integer_has_the_cell_that_carries_its_label(low: int, more: int, data: Any) -> None:
    domain = Integers(low, low + more)
    value = data.draw(st.integers(low, low + more))
    (cell,) = read(domain, [value])
    assert domain.labels()[cell] == str(value)
    assert domain.positions()[cell] == value
    assert domain.cell_of(value, axis="a") == cell


# ---- reals


def test_a_value_on_an_edge_belongs_to_the_bin_above_and_the_last_bin_is_closed() -> None:
    tenths = Reals.equal_bins(0, 1, 10)
    assert read(tenths, [k / 10 for k in range(11)]) == [*range(10), 9]
    assert read(tenths, np.nextafter(tenths.edges()[1:], -1)) == list(range(10))
    assert read(STEPPED, [0, 9.99, 10, 100, 1000]) == [0, 0, 1, 2, 2]
    assert read(tenths, ["0.3", " .7 ", "1.", "+1e-1", "nan"]) == [3, 7, 9, 1, -1]


@given(
    st.fractions(-1000, 1000),
    st.fractions(Fraction(1, 1000), 1000),
    st.integers(2, 200),
    st.data(),
)
def test_equal_bins_agree_with_the_edges_they_show(
    low: Fraction, span: Fraction, bins: int, data: Any
) -> None:
    domain = Reals.equal_bins(low, low + span, bins)
    edges = domain.edges()
    assert edges.tolist() == [float(low + k * span / bins) for k in range(bins + 1)]
    inside = st.floats(edges[0], edges[-1], allow_subnormal=False)
    values = np.concatenate([edges, data.draw(st.lists(inside, max_size=5))])
    values = np.clip(np.concatenate([values, np.nextafter(values, -np.inf)]), edges[0], edges[-1])
    expected = np.minimum(np.searchsorted(edges, values, side="right") - 1, bins - 1)
    assert read(domain, values) == expected.tolist()


def test_bins_only_a_few_floats_wide_are_still_exact() -> None:
    domain = Reals.equal_bins(2**40, 2**40 + Fraction(1, 64), 37)
    edges = domain.edges()
    values = np.linspace(edges[0], edges[-1], 400)
    expected = np.minimum(np.searchsorted(edges, values, side="right") - 1, 36)
    assert read(domain, values) == expected.tolist()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_coarse_floats_meet_edges_in_their_own_precision(dtype: Any) -> None:
    tenths = Reals.equal_bins(0, Fraction(3, 10), 3)
    assert read(tenths, np.array([0.0, 0.1, 0.2, 0.3], dtype=dtype)) == [0, 1, 2, 2]
    narrow = Reals.equal_bins(1000, Fraction(10001, 10), 2**12)  # edges coincide in both
    assert read(narrow, np.array([1000], dtype=dtype)) == [0]


def test_reals_read_integers_and_decimals() -> None:
    assert read(INCOME, np.array([0, 3124, 3125, 200_000], dtype=np.uint64)) == [0, 0, 1, 63]
    assert read(INCOME, [Decimal("3124.99"), Decimal("3125")]) == [0, 1]
    assert "row 2" in refusal(INCOME, [1.0, float("inf")])


def test_equal_edges_and_equal_bins_are_one_domain() -> None:
    given_edges = Reals.from_edges(["0", 0.1, Fraction(1, 5), Decimal("0.3")])
    assert given_edges == Reals.equal_bins(0, 0.3, 3)
    assert given_edges.to_dict() == {"kind": "reals", "low": 0, "high": 0.3, "bins": 3}
    assert given_edges.spacing == Fraction(1, 10)
    assert Reals.equal_bins(0, 1, 3).to_dict() == {"kind": "reals", "low": 0, "high": 1, "bins": 3}
    assert STEPPED.to_dict() == {"kind": "reals", "edges": [0, 10, 100, 1000]}


def test_unequal_bins_may_have_equally_spaced_centres() -> None:
    assert Reals.from_edges([0, 1, 3, 4, 6]).spacing == Fraction(3, 2)
    assert STEPPED.spacing is None
    assert Reals.from_edges([0, 1, 3, 4, 6], rounding="stochastic").spacing is None


def test_labels_of_bins_show_the_numbers_of_the_user() -> None:
    assert INCOME.labels()[:2] == ["0..3125", "3125..6250"]
    assert Reals.equal_bins(-0.5, 0.5, 2).labels() == ["-0.5..0", "0..0.5"]
    assert GRID.labels() == ["0", "1", "2", "3", "4"]


def test_an_interval_takes_its_share_of_the_bins_it_cuts() -> None:
    weights, cut = INCOME.interval(3125 / 2, 3125 * 3, axis="income")
    assert (weights[:4].tolist(), cut) == ([0.5, 1.0, 1.0, 0.0], True)
    assert INCOME.interval(-500, 3125, axis="income")[0].tolist() == [1.0] + [0.0] * 63
    weights, cut = INCOME.interval(5000, 5000, axis="income")
    assert (weights.argmax(), weights.sum(), cut) == (1, 1.0, False)
    weights, cut = INCOME.interval(200_000, None, axis="income")
    assert (weights.sum(), cut) == (0.0, True)
    assert INCOME.cell_of(200_000, axis="income") == INCOME.size - 1


@pytest.mark.slow
@given(st.lists(st.fractions(0, 1000), min_size=2, max_size=5, unique=True))
def test_adjacent_intervals_add_up_to_their_join(ends: list[Fraction]) -> None:
    ends.sort()
    for domain in (STEPPED, Reals.from_edges([0, 10, 100, 1000], rounding="stochastic")):
        parts = sum(domain.interval(a, b, axis="x")[0] for a, b in pairwise(ends))
        whole, _ = domain.interval(ends[0], ends[-1], axis="x")
        np.testing.assert_allclose(parts, whole, rtol=0, atol=1e-12)


def test_stochastic_rounding_reads_fine_places_and_weighs_by_hat_functions() -> None:
    assert (GRID.size, GRID.rounding_bits, GRID.spacing) == (5, 20, 1)
    unit = 2**20
    assert read(GRID, [0, 0.5, 1, 3.25, 4, None]) == [
        0,
        unit // 2,
        unit,
        13 * unit // 4,
        4 * unit,
        -1,
    ]
    assert read(GRID, np.array([0.1], dtype=np.float32)) == [round(0.1 * unit)]
    weights, cut = GRID.interval(1, 2, axis="x")
    assert (weights.tolist(), cut) == ([0, 0.5, 0.5, 0, 0], True)
    assert GRID.interval(0, 0.5, axis="x")[0].tolist() == [0.75, 0.125, 0, 0, 0]
    assert GRID.interval(1.6, 1.6, axis="x")[0].tolist() == [0, 0, 1, 0, 0]
    assert GRID.edges().tolist() == [0, 0.5, 1.5, 2.5, 3.5, 4]
    unequal = Reals.from_edges([0, 1, 3], rounding="stochastic")
    assert read(unequal, [2.0]) == [unit + unit // 2]
    assert unequal.interval(None, 1, axis="x")[0].tolist() == [1, pytest.approx(1 / 3), 0]


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: Reals.equal_bins(0, 1, 1), "bins must be a whole number of at least 2.*bins=1"),
        (lambda: Reals.equal_bins(0, 1, 2.5), "bins=2.5"),
        (lambda: Reals.equal_bins(1, 1, 4), "low must be below high, got low=1, high=1"),
        (lambda: Reals.equal_bins(0, float("inf"), 4), "high must be a finite number"),
        (lambda: Reals.equal_bins(0, 1, MOST_CELLS + 1), "at most 16777216 cells"),
        (lambda: Reals.equal_bins(1, 1 + Fraction(1, 2**50), 64), "distinct floating-point"),
        (lambda: Reals.equal_bins(0, 10**305, 4), "distinct floating-point"),
        (lambda: Reals.equal_bins(-(10**400), 1 - 10**400, 4), "distinct floating-point"),
        (lambda: Reals.from_edges([0, 1, 10**400]), "distinct floating-point"),
        (lambda: Reals.equal_bins(0, 1, 4, rounding="up"), "rounding must be None or 'stochastic'"),
        (lambda: Reals.from_edges([0, 1]), "at least 3, for 2 bins, got 2"),
        (lambda: Reals.from_edges([0, 5, 3, 10]), "edge 2 is 5 and edge 3 is 3"),
        (lambda: Reals.from_edges([3, 1, 2]), "edge 1 is 3 and edge 2 is 1"),
        (lambda: Reals.from_edges("0123"), "edges must be a list of numbers"),
    ],
)
def test_invalid_real_domains_are_refused(build: Any, match: str) -> None:
    with pytest.raises(StudyError, match=match):
        build()


# ---- dates and times


@pytest.mark.parametrize(
    "column",
    [
        pa.array([dt.date(2024, 1, 7), dt.date(2024, 1, 8), None]),
        pa.array([dt.datetime(2024, 1, 7, 23, 59), dt.datetime(2024, 1, 8), None]),
        pa.array(np.array(["2024-01-07", "2024-01-08", "NaT"], dtype="M8[D]")),
        pa.array(np.array(["2024-01-07T23:59:59.999", "2024-01-08", "NaT"], dtype="M8[ms]")),
        pa.array(["2024-01-07", "2024-01-08T01:00", ""]),
        pa.array([dt.date(2024, 1, 7), dt.date(2024, 1, 8), None], type=pa.date64()),
        pa.chunked_array(pd.Series(pd.to_datetime(["2024-01-07", "2024-01-08", None]))),
        pa.chunked_array(pl.Series([dt.date(2024, 1, 7), dt.date(2024, 1, 8), None])),
    ],
    ids=["date", "datetime", "numpy-day", "numpy-ms", "text", "date64", "pandas", "polars"],
)
def test_dates_of_every_form_reach_their_week(column: Any) -> None:
    assert read(WEEK, column) == [0, 1, -1]


def test_dates_before_1970_reach_their_day() -> None:
    old = Dates.every("1939-12-30", "1940-01-02")
    assert read(old, [dt.datetime(1939, 12, 30, 12), dt.datetime(1940, 1, 1, 23, 59, 59)]) == [0, 2]


@pytest.mark.parametrize("domain", [DAY, MOMENT], ids=name_of)
def test_time_zones_are_refused_with_the_remedy(domain: Domain) -> None:
    zoned = pa.array([dt.datetime(2024, 1, 2, tzinfo=dt.UTC)])
    assert "drop the zone" in refusal(domain, zoned)
    with pytest.raises(QuestionError, match="without a time zone"):
        domain.interval(dt.datetime(2024, 1, 2, tzinfo=dt.UTC), None, axis="when")
    with pytest.raises(StudyError, match="without a time zone"):
        type(domain).every(dt.datetime(2024, 1, 2, tzinfo=dt.UTC), "2024-01-09", "1 day")  # type: ignore[attr-defined]


def test_dates_share_out_the_days_of_a_week() -> None:
    weights, cut = WEEK.interval(dt.date(2024, 1, 5), "2024-01-14", axis="week")
    assert (weights[:3].tolist(), cut) == ([pytest.approx(3 / 7), 1.0, 0.0], True)
    weights, cut = WEEK.interval(
        np.datetime64("2024-01-10"), dt.datetime(2024, 1, 10, 9), axis="week"
    )
    assert (weights.argmax(), weights.sum(), cut) == (1, 1.0, False)
    assert DAY.interval("2024-01-02", "2024-01-03", axis="day")[0].sum() == 2.0
    assert WEEK.interval("2000-01-01", "2024-01-07", axis="week")[0].sum() == 1.0


def test_durations_become_base_units() -> None:
    for quantity in (
        "7 days",
        "1 week",
        "1w",
        dt.timedelta(days=7),
        np.timedelta64(7, "D"),
        7,
        "7",
    ):
        assert DAY.length(quantity, "per") == 7
    for quantity in ("90 minutes", "1.5 hours", "1.5h", dt.timedelta(minutes=90), 5400):
        assert CLOCK.length(quantity, "per") == 5400
    assert CLOCK.length(np.timedelta64(1500, "ms"), "per") == Fraction(3, 2)
    assert AGE.length("1/3", "per") == INCOME.length(Fraction(1, 3), "per") == Fraction(1, 3)
    for wrong in ("1 month", "soon", np.timedelta64(1, "M"), "-"):
        with pytest.raises(StudyError, match="per must"):
            DAY.length(wrong, "per")


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: Dates.every("2024-01-01", "2024-01-10", "1 week"), "fitting end is 2024-01-14"),
        (lambda: Dates.every("2024-01-01", "2024-02-01", "1 week"), "fitting end is 2024-02-04"),
        (lambda: Dates.every("2024-01-01", "2024-01-01"), "at least 2 cells, got 1"),
        (lambda: Dates.every("2024-01-02", "2024-01-01"), "at least 2 cells, got 0"),
        (lambda: Dates.every("2024-13-01", "2024-12-01"), "start must be a date.*'2024-13-01'"),
        (lambda: Dates.every("2024-01-01", "2024-12-01", "36 hours"), "whole number of days"),
        (lambda: Dates.every("2024-01-01", "2024-12-01", 0), "step must be positive"),
        (
            lambda: Times.every("06:00", "10:10", "15 minutes"),
            "fitting end is 10:15, got end=10:10",
        ),
        (lambda: Times.every("06:00", "2024-01-01T00:00", 60), "both be times of day"),
        (lambda: Times.every("06:00", "25:00", 60), "end='25:00'"),
        (lambda: Times.every("06:00", "06:01", 60), "at least 2 cells, got 1"),
        (lambda: Times.every("06:00", "07:00", 0.5), "whole number of seconds"),
    ],
)
def test_invalid_dates_and_times_are_refused(build: Any, match: str) -> None:
    with pytest.raises(StudyError, match=match):
        build()


@pytest.mark.parametrize(
    "column",
    [
        pa.array([dt.time(6, 14, 59, 999999), dt.time(6, 15), None]),
        pa.array([dt.time(6, 14, 59), dt.time(6, 15), None], type=pa.time32("s")),
        pa.array(["06:14:59.999", "06:15", None]),
        pa.chunked_array(pl.Series([dt.time(6, 14, 59, 999999), dt.time(6, 15), None])),
    ],
)
def test_times_of_day_of_every_form_reach_their_quarter(column: Any) -> None:
    assert read(CLOCK, column) == [0, 1, -1]


def test_times_of_day_and_moments_are_not_mixed() -> None:
    assert "takes times of day" in refusal(CLOCK, pa.array([dt.datetime(2024, 1, 1, 7)]))
    assert "takes moments" in refusal(MOMENT, pa.array([dt.time(7)]))
    assert "takes moments" in refusal(MOMENT, pa.array([dt.date(2024, 1, 2)]))


def test_times_up_to_midnight_are_half_open() -> None:
    late = Times.every(dt.time(22), "24:00", "30 minutes")
    assert late.labels() == ["22:00..22:30", "22:30..23:00", "23:00..23:30", "23:30..24:00"]
    assert read(late, [dt.time(23, 59, 59, 999999)]) == [3]
    assert late.interval("23:15", "24:00", axis="t")[0].tolist() == [0, 0, 0.5, 1]
    assert late.cell_of(dt.time(22, 30), axis="t") == 1
    assert "not written as such (row 1)" in refusal(late, ["24:00"], clip=True)
    with pytest.raises(QuestionError, match="outside"):
        late.cell_of("24:00", axis="t")


def test_moments_of_every_precision_reach_their_hour() -> None:
    for unit in ("s", "ms", "us", "ns"):
        column = np.array(
            ["2024-01-01T00:59:59", "2024-01-01T01:00:00", "NaT"], dtype=f"M8[{unit}]"
        )
        assert read(MOMENT, column) == [0, 1, -1]


def test_a_bare_date_on_an_axis_of_moments_means_its_whole_day() -> None:
    assert MOMENT.cell_of("2024-01-02", axis="when") == 24
    weights, _ = MOMENT.interval("2024-01-02", "2024-01-02", axis="when")
    assert weights.nonzero()[0].tolist() == list(range(24, 48))
    weights, cut = MOMENT.interval(dt.date(2024, 1, 7), None, axis="when")
    assert (weights.sum(), cut) == (24.0, False)
    weights, cut = MOMENT.interval(
        "2024-01-01T00:30", np.datetime64("2024-01-01T02:00"), axis="when"
    )
    assert (weights[:3].tolist(), cut) == ([0.5, 1.0, 0.0], True)


@given(st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)), st.integers(1, 30), st.data())
def test_a_date_has_the_cell_whose_label_spans_it(start: dt.date, step: int, data: Any) -> None:
    domain = Dates(start, start + dt.timedelta(days=5 * step - 1), step)
    day = data.draw(st.dates(domain.start, domain.end))
    (cell,) = read(domain, [day])
    first, _, last = domain.labels()[cell].partition("..")
    assert first <= day.isoformat() <= (last or first)
    assert domain.cell_of(day, axis="d") == cell


# ---- categories


def test_categories_know_their_labels_in_text_integers_and_dictionaries() -> None:
    assert read(REGION, ["east", "north", None, ""]) == [2, 0, -1, -1]
    assert read(Categories(("1", "2", "10")), np.array([10, 1], dtype=np.uint8)) == [2, 0]
    assert read(REGION, pa.chunked_array(pl.Series(["south", None]).cast(pl.Categorical))) == [
        1,
        -1,
    ]
    assert "has type double" in refusal(Categories(("1", "2")), [1.0])
    assert "clip" not in refusal(REGION, ["nowhere"], clip=True)


def test_an_unknown_label_in_a_question_is_answered_with_a_near_one() -> None:
    with pytest.raises(QuestionError, match=r"'region' has no label 'nroth': did you mean 'north'"):
        REGION.cell_of("nroth", axis="region")
    assert Categories(("1", "2")).cell_of(2, axis="r") == 1
    with pytest.raises(QuestionError, match="no label True"):
        Categories(("True", "x")).cell_of(True, axis="r")


def test_categories_have_neither_order_nor_distance() -> None:
    assert (REGION.ordered, REGION.spacing, REGION.edges(), REGION.numbers()) == (
        False,
        None,
        None,
        None,
    )
    with pytest.raises(QuestionError, match="without an order"):
        REGION.interval("north", None, axis="region")
    assert REGION.interval(None, None, axis="region")[0].tolist() == [1, 1, 1]
    with pytest.raises(StudyError, match="no positions"):
        REGION.positions()
    with pytest.raises(StudyError, match="per is a length"):
        REGION.length(1, "per")


@pytest.mark.parametrize(
    ("labels", "match"),
    [
        (("a",), "at least 2 cells, got 1"),
        ((), "at least 2 cells, got 0"),
        (("a", "b", "a"), "distinct, got 'a' 2 times"),
        (("a", 1), "every label must be a text that is not empty, got 1"),
        (("a", " "), "not empty"),
        (("a", "no answer"), "reserved.*optional=True"),
        ("abc", "must be a list of texts"),
    ],
)
def test_invalid_categories_are_refused(labels: Any, match: str) -> None:
    with pytest.raises(StudyError, match=match):
        Categories(labels)


# ---- files and speed


@pytest.mark.parametrize(
    ("data", "match"),
    [
        ({"kind": "integer", "low": 0, "high": 1}, "did you mean 'integers'"),
        ({"low": 0, "high": 1}, "kind of domain is unknown"),
        ({"kind": "integers", "low": 0}, "described by high, low, got low"),
        ({"kind": "integers", "low": 0, "high": 9, "step": 2}, "got high, low, step"),
        ({"kind": "reals", "edges": [0, 1, 2], "bins": 2}, "described by"),
        ({"kind": "times", "start": "06:00", "end": "07:00"}, "end, start, step"),
    ],
)
def test_unknown_or_incomplete_descriptions_are_refused(data: dict[str, Any], match: str) -> None:
    with pytest.raises(StudyError, match=match):
        domain_from_dict(data)


def test_dates_that_a_toml_file_holds_natively_are_understood() -> None:
    data = {
        "kind": "dates",
        "start": dt.date(2024, 1, 1),
        "end": dt.date(2024, 1, 14),
        "step": "1 week",
    }
    assert domain_from_dict(data) == Dates.every("2024-01-01", "2024-01-14", 7)


def test_a_million_values_take_no_python_loop() -> None:
    # A loop over rows takes 10 s and more; the bound leaves room for a busy machine.
    count = 10**6
    pattern = np.arange(count)
    for domain, column in [
        (AGE, pa.array(18 + pattern % 82)),
        (INCOME, pa.array(pattern / 5.0)),
        (STEPPED, pa.array(pattern / count)),
        (WEEK, pa.array(np.datetime64("2024-01-01") + pattern % 364)),
    ]:
        started = perf_counter()
        codes = domain.read(column, axis="thing", clip=False)
        assert perf_counter() - started < 1.0
        assert len(codes) == count
