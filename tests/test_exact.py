"""Rationals as people write them, and certified bounds on e^x against many-digit arithmetic."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import StudyError
from sfumato.exact import at_most_exp, exp_bounds, exp_floor, log, positive, rational, to_plain

ARGUMENTS = [
    Fraction(text)
    for text in (
        "1/1000000000000",
        "1e-6",
        "1/1000",
        "0.2",
        "1/3",
        "1/2",
        "0.9999999999",
        "1",
        "1.0000000001",
        "2",
        "3.7",
        "16",
        "99.5",
        "700",
        "1234567/891",
    )
]


def true_exp(x: Fraction, bits: int) -> tuple[int, int]:
    """e^x in units of 2^-bits, rounded down and up, from arithmetic with far more digits."""
    with mpmath.workprec(bits + 4 * math.ceil(x) + 200):
        scaled = mpmath.exp(mpmath.mpf(x.numerator) / x.denominator) * mpmath.mpf(2) ** bits
        below = int(mpmath.floor(scaled))
    return below, below + 1


@pytest.mark.parametrize("bits", [8, 40, 64, 96, 200, 1000])
@pytest.mark.parametrize("x", ARGUMENTS, ids=str)
def test_bounds_enclose_the_exponential_closely(x: Fraction, bits: int) -> None:
    low, high = exp_bounds(x, bits)
    below, above = true_exp(x, bits)
    # 32 spare bits are far more than the series and the squarings lose, so that the two bounds
    # are the nearest integers, unless one of those is within 2^-16 of e^x in these units.
    assert below - 1 <= low <= below
    assert above <= high <= above + 1


@given(st.fractions(0, 60, max_denominator=10**9), st.integers(1, 300))
def test_bounds_enclose_any_rational(x: Fraction, bits: int) -> None:
    low, high = exp_bounds(x, bits)
    below, above = true_exp(x, bits)
    if x == 0:
        assert low == high == 1 << bits
    else:
        assert low <= below < above <= high
        assert high - low <= 3


def test_negative_arguments_have_no_bounds() -> None:
    with pytest.raises(ValueError, match="x >= 0"):
        exp_bounds(Fraction(-1), 10)


@pytest.mark.parametrize("x", ARGUMENTS, ids=str)
def test_floor_is_below_and_within_a_unit_of_the_exponential(x: Fraction) -> None:
    floor = exp_floor(x)
    below, _ = true_exp(min(x, Fraction(128)), 96)  # larger odds than e^128 are never needed
    assert floor.denominator <= 1 << 96
    assert Fraction(below - 1, 1 << 96) <= floor <= Fraction(below, 1 << 96)
    assert at_most_exp(floor, x)


@pytest.mark.parametrize("x", ARGUMENTS, ids=str)
@pytest.mark.parametrize("bits", [10, 70, 300])
def test_ratios_on_either_side_of_the_exponential_are_told_apart(x: Fraction, bits: int) -> None:
    """At 300 bits the first two rounds of refinement cannot decide, and must not guess."""
    below, above = true_exp(x, bits)
    assert at_most_exp(Fraction(below, 1 << bits), x)
    assert not at_most_exp(Fraction(above, 1 << bits), x)


def test_at_zero_only_one_itself_is_allowed() -> None:
    assert at_most_exp(Fraction(1), Fraction(0))
    assert not at_most_exp(1 + Fraction(1, 10**30), Fraction(0))


@given(st.fractions(min_value=Fraction(1, 10**12), max_value=10**12))
def test_logarithm_is_that_of_many_digits(ratio: Fraction) -> None:
    with mpmath.workprec(200):
        true = float(mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator))
    # Away from 1 a difference of two logarithms of at most 28 each, near 1 a single rounding.
    assert log(ratio) == pytest.approx(true, rel=2.0**-50, abs=2.0**-46 if abs(true) > 0.2 else 0)


def test_logarithm_near_one_and_of_huge_numbers() -> None:
    assert log(1 + Fraction(1, 1 << 80)) == 2.0**-80
    assert log(Fraction(1)) == 0
    assert log(Fraction(3**5000, 2**5000)) == pytest.approx(5000 * math.log(1.5), rel=1e-12)


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        (0.1, Fraction(1, 10)),
        (1e-300, Fraction(1, 10**300)),
        (np.float64(0.2), Fraction(1, 5)),
        (np.float32(0.5), Fraction(1, 2)),
        (np.int16(-3), Fraction(-3)),
        (np.uint64(2**64 - 1), Fraction(2**64 - 1)),
        (Decimal("0.30"), Fraction(3, 10)),
        (Fraction(2, 7), Fraction(2, 7)),
        ("1/3", Fraction(1, 3)),
        ("2.50", Fraction(5, 2)),
        (10**40, Fraction(10**40)),
    ],
)
def test_numbers_mean_what_they_print(value: object, exact: Fraction) -> None:
    assert rational(value, "epsilon") == exact


@pytest.mark.parametrize(
    "value",
    [
        True,
        None,
        "",
        "one",
        "1/0",
        float("nan"),
        float("inf"),
        -float("inf"),
        Decimal("NaN"),
        Decimal("Infinity"),
        [1],
        1j,
    ],
)
def test_what_is_no_finite_number_is_refused(value: object) -> None:
    with pytest.raises(StudyError, match="epsilon must be a finite number"):
        rational(value, "epsilon")


@pytest.mark.parametrize("value", [0, -1, 0.0, "-1/3", float("nan"), float("inf"), "x", False])
def test_what_is_not_positive_is_refused_by_name_and_value(value: object) -> None:
    with pytest.raises(StudyError, match="per must be positive and finite, got per="):
        positive(value, "per")


@given(st.fractions())
def test_plain_form_is_read_back_exactly(number: Fraction) -> None:
    plain = to_plain(number)
    assert isinstance(plain, int | float | str)
    assert rational(plain, "x") == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_survive_as_themselves(value: float) -> None:
    assert float(to_plain(rational(value, "x"))) == value


def test_plain_form_of_numbers_beyond_floats() -> None:
    for number in (Fraction(10**400), Fraction(2**53), Fraction(1, 10**400)):
        assert rational(to_plain(number), "x") == number
