"""Exact numbers: rationals as people write them, and certified bounds on e^x.

Privacy must not rest on floating point. Every ε is a rational number, and wherever e^ε is needed
an integer bound on the safe side takes its place.
"""

from __future__ import annotations

import math
import operator
import re
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from numbers import Integral, Rational, Real
from typing import Any

from sfumato.errors import StudyError, shown

# A number as text: decimal, with an exponent, or a fraction; digits 0 to 9, no spaces between.
_TEXT = re.compile(
    r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE](?P<exponent>[+-]?[0-9]++))?"
    r"|[+-]?[0-9]++/[0-9]++"
)
_MOST_DIGITS = 1000
_MOST_EXPONENT = 999
_TOO_LARGE = 10**_MOST_DIGITS
#: The largest ε or length; a few hundred steps of it are still a double.
LARGEST = Fraction(10**305)
_SIZE = (
    f"at most {_MOST_DIGITS:,} digits and an exponent from -{_MOST_EXPONENT} to {_MOST_EXPONENT}"
)


def rational(value: Any, what: str) -> Fraction:
    """Read a number exactly; a float means the shortest decimal that prints it.

    Every number that comes from outside is read here: parameters, files, questions and options.

    Args:
        value: An int, float, Fraction, Decimal, or text such as ``"0.2"``, ``"1e-3"`` or ``"1/3"``.
        what: Name of the parameter, for the error message.

    Raises:
        StudyError: If the value is not a finite number, or is one of more than 1,000 digits.

    Example:
        >>> rational(0.2, "epsilon")
        Fraction(1, 5)
    """
    return _checked(value, what, "a finite number")


def _checked(value: Any, what: str, rule: str) -> Fraction:
    """A number exactly, refused with the rule that it breaks."""
    try:
        number = _read(value)
    except (ValueError, TypeError, OverflowError, ZeroDivisionError):
        raise StudyError(f"{what} must be {rule}, got {what}={shown(value)}") from None
    if number is None or max(abs(number.numerator), number.denominator) >= _TOO_LARGE:
        raise StudyError(f"{what} must be {rule}, with {_SIZE}, got {what}={shown(value)}")
    return number


def _read(value: Any) -> Fraction | None:
    """A number exactly, None if it would be too large to work with; ValueError if it is none."""
    if isinstance(value, Decimal):
        value = str(value)
    if isinstance(value, str):
        found = _TEXT.fullmatch(value)
        if found is None:
            raise ValueError
        exponent = found["exponent"] or "0"
        if len(value) > 2 * _MOST_DIGITS + 2 or len(exponent.lstrip("+-0")) > 3:
            return None
        return Fraction(value)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError
    if isinstance(value, Integral):
        return Fraction(operator.index(value))
    if isinstance(value, Rational):
        return Fraction(value)
    return Fraction(repr(float(value)))


def positive(value: Any, what: str) -> Fraction:
    """Read a number exactly and require it to be above zero.

    Args:
        value: A number in any form.
        what: What it is called in a message.

    Example:
        >>> positive(-1.0, "epsilon")
        Traceback (most recent call last):
        ...
        sfumato.errors.StudyError: epsilon must be positive and finite, got epsilon=-1.0
    """
    number = _checked(value, what, "positive and finite")
    if number <= 0:
        raise StudyError(f"{what} must be positive and finite, got {what}={shown(value)}")
    if not 1 / LARGEST <= number <= LARGEST:
        raise StudyError(f"{what} must lie between 1e-305 and 1e305, got {what}={shown(value)}")
    return number


def nearest_float(number: Fraction) -> float:
    """The nearest float, infinite where there is none.

    Example:
        >>> nearest_float(Fraction(1, 4)), nearest_float(Fraction(-(10**400)))
        (0.25, -inf)
    """
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def whole(value: Any) -> int | None:
    """A Python or NumPy integer as it is; None for anything else, booleans included.

    Example:
        >>> whole(7), whole(7.0), whole(True)
        (7, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        return None
    try:
        return operator.index(value)
    except TypeError:  # durations of NumPy
        return None


def to_plain(number: Fraction) -> int | float | str:
    """The form in which a file holds a rational, read back exactly by `rational`.

    Example:
        >>> to_plain(Fraction(3)), to_plain(Fraction(1, 5)), to_plain(Fraction(1, 3))
        (3, 0.2, '1/3')
    """
    if number.denominator == 1 and abs(number.numerator) < 2**53:
        return int(number)
    try:
        shortest = float(number)
    except OverflowError:
        return str(number)
    return shortest if Fraction(repr(shortest)) == number else str(number)


@lru_cache(maxsize=4096)
def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers lo, hi with lo/2^bits <= e^x <= hi/2^bits, for x >= 0.

    The argument is halved until it is below 1, summed as a Taylor series in integers with the
    remainder bounded by the geometric series of its last term, and squared back, rounding every
    step down for lo and up for hi.

    Args:
        x: The exponent, 0 or more.
        bits: Binary digits after the point.

    Example:
        >>> low, high = exp_bounds(Fraction(1), 40)
        >>> high - low <= 1, abs(low / 2**40 - 2.718281828459045) < 2**-39
        (True, True)
    """
    if x < 0:
        raise ValueError("exp_bounds takes x >= 0")
    if x == 0:
        return 1 << bits, 1 << bits
    halvings = max(0, math.floor(x).bit_length())
    # e^x < 2^(1.45 x + 1): that many bits stand before the point, and squaring doubles the error.
    work = bits + math.ceil(x * 3 / 2) + 2 * halvings + 32
    reduced = x / (1 << halvings)
    low_term = high_term = low = high = 1 << work
    order = 0
    while high_term > 1:
        order += 1
        scale = reduced.denominator * order
        low_term = low_term * reduced.numerator // scale
        high_term = -(-high_term * reduced.numerator // scale)
        low += low_term
        high += high_term
    high += 2  # the tail is below twice its first term, and that term is below one unit
    for _ in range(halvings):
        low = (low * low) >> work
        high = -((-high * high) >> work)
    shift = work - bits
    return low >> shift, -((-high) >> shift)


def exp_floor(x: Fraction, bits: int = 96) -> Fraction:
    """A rational number r <= e^x with denominator 2^bits: the odds a sampler may really use.

    Beyond x = 128 it stays at e^128.

    Args:
        x: The exponent, 0 or more.
        bits: Binary digits after the point.

    Example:
        >>> float(exp_floor(Fraction(1, 2)))
        1.6487212707001282
    """
    # Any lower bound is safe, and beyond e^128 no table of words can tell the difference.
    return Fraction(exp_bounds(min(x, Fraction(128)), bits)[0], 1 << bits)


def exp_minus_floor(x: Fraction, bits: int = 64) -> int:
    """The whole part of 2^bits · e^-x, for x >= 0, decided exactly by refining the bounds.

    Args:
        x: What e^-x is asked of, 0 or more.
        bits: Binary digits after the point.

    Example:
        >>> exp_minus_floor(Fraction(0), 4), exp_minus_floor(Fraction(1), 4)
        (16, 5)
    """
    if x > bits:  # e^-x < 2^-x
        return 0
    extra = bits
    while True:
        low, high = exp_bounds(x, extra)
        most, least = (1 << (bits + extra)) // low, (1 << (bits + extra)) // high
        if most == least:
            return most
        extra *= 2


def far_below_exp(more: int, less: int, x: Fraction) -> bool:
    """Whether more/less <= e^x can be seen from the lengths of the integers alone.

    It keeps e^x from being computed where x is much too large for that.

    Args:
        more: An integer, 0 or more.
        less: A positive integer.
        x: The exponent, 0 or more.
    """
    size = more.bit_length() - less.bit_length()
    return (size + 1) * 7 < x * 10  # more/less < 2^(size + 1) < e^(0.7·(size + 1))


def at_most_exp(ratio: Fraction, x: Fraction) -> bool:
    """Whether ratio <= e^x, decided exactly by refining the bounds.

    e^x is irrational for rational x > 0, so the refinement always ends.

    Args:
        ratio: A rational number.
        x: The exponent, 0 or more.

    Example:
        >>> at_most_exp(Fraction(27, 10), Fraction(1)), at_most_exp(Fraction(28, 10), Fraction(1))
        (True, False)
    """
    if x == 0:
        return ratio <= 1
    if far_below_exp(ratio.numerator, ratio.denominator, x):
        return True
    bits = 64
    while True:
        low, high = exp_bounds(x, bits)
        scaled = ratio * (1 << bits)
        if scaled <= low:
            return True
        if scaled > high:
            return False
        bits *= 2


def log(ratio: Fraction) -> float:
    """The natural logarithm of a positive rational of any size, to double precision.

    Example:
        >>> log(Fraction(2**5000)) / 5000
        0.6931471805599453
    """
    numerator, denominator = ratio.numerator, ratio.denominator
    if max(numerator.bit_length(), denominator.bit_length()) < 1000:
        near_one = Fraction(numerator - denominator, denominator)
        if abs(near_one) < Fraction(1, 4):
            return math.log1p(float(near_one))
    return math.log(numerator) - math.log(denominator)
