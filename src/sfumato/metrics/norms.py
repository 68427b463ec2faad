"""Roots and norms in integer arithmetic; irrational ones are rounded down, provably."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import StudyError, shown
from sfumato.exact import rational

GRID_BITS = 40
GRID = 1 << GRID_BITS
_TERM_BITS = 96
_LARGEST_ORDER = 1000


def read_order(value: Any, what: str) -> Fraction | float:
    """The p of a norm: a rational of at least 1, or infinity.

    Args:
        value: A number, or "inf".
        what: What it is called in a message.
    """
    if (isinstance(value, str) and value == "inf") or (
        isinstance(value, float) and value == math.inf
    ):
        return math.inf
    order = rational(value, what)
    if order < 1:
        raise StudyError(
            f"{what} must be at least 1 (or inf) to be a norm, got {what}={shown(value)}"
        )
    if order.numerator > _LARGEST_ORDER:
        raise StudyError(
            f"{what} must be a fraction with a numerator of at most {_LARGEST_ORDER}, got "
            f"{what}={shown(value)}, which is {shown(order)}: round it, or use inf"
        )
    return order


def root_floor(number: int, order: int) -> int:
    """The largest integer whose power of this order is at most the number.

    Args:
        number: A whole number, 0 or more.
        order: Order of the root, 1 or more.

    Example:
        >>> root_floor(26, 3), root_floor(27, 3)
        (2, 3)
    """
    if order == 1 or number < 2:
        return number
    if order == 2:
        return math.isqrt(number)
    guess = 1 << -(-number.bit_length() // order)  # above the root, so Newton's steps fall
    while True:
        lower = ((order - 1) * guess + number // guess ** (order - 1)) // order
        if lower >= guess:
            return guess
        guess = lower


def root_down(number: Fraction, order: int, bits: int = GRID_BITS) -> int:
    """The root of this order in units of 2^-bits, rounded down.

    Args:
        number: A rational, 0 or more.
        order: Order of the root.
        bits: Binary digits after the point.

    Example:
        >>> root_down(Fraction(2), 2, bits=10), 2**0.5 * 2**10
        (1448, 1448.1546878700494)
    """
    return root_floor((number.numerator << (bits * order)) // number.denominator, order)


def exact_root(number: Fraction, order: int) -> Fraction | None:
    """The root of this order if it is rational.

    Args:
        number: A rational, 0 or more.
        order: Order of the root.

    Example:
        >>> exact_root(Fraction(9, 4), 2), exact_root(Fraction(2), 2)
        (Fraction(3, 2), None)
    """
    top, bottom = root_floor(number.numerator, order), root_floor(number.denominator, order)
    found = top**order == number.numerator and bottom**order == number.denominator
    return Fraction(top, bottom) if found else None


def share_of_axis(epsilon: Fraction, order: Fraction | float, axes: int) -> Fraction:
    """The largest epsilon' on the grid with axes^(1 - 1/p)·epsilon' <= epsilon; exact if rational.

    Args:
        epsilon: ε of the whole record.
        order: p of the norm, or infinity.
        axes: Number of axes.

    Example:
        >>> share_of_axis(Fraction(1), Fraction(2), 4), share_of_axis(Fraction(1), math.inf, 3)
        (Fraction(1, 2), Fraction(1, 3))
    """
    if order == math.inf:
        return epsilon / axes
    p = Fraction(order)
    a, b = p.numerator, p.denominator
    factor = exact_root(Fraction(axes ** (a - b)), a)
    if factor is not None:
        return epsilon / factor
    return Fraction(root_down(epsilon**a / axes ** (a - b), a), GRID)


def distance_table(
    places: Sequence[Sequence[Fraction]], rate: Fraction, order: Fraction | float
) -> tuple[NDArray[np.object_], int, bool]:
    """Rate times the distance of every two places: numerators, denominator, whether rounded.

    Coordinates are integers over one denominator here; `rate` takes that denominator up.

    Args:
        places: Coordinates of every place.
        rate: What distances are multiplied by.
        order: p of the norm, or infinity.
    """
    scale = math.lcm(*(number.denominator for place in places for number in place))
    units = [[int(number * scale) for number in place] for place in places]
    gaps = [
        np.abs(np.subtract.outer(axis, axis))
        for axis in (np.array(column, dtype=object) for column in zip(*units, strict=True))
    ]
    rate /= scale
    if order == math.inf:
        return np.maximum.reduce(gaps) * rate.numerator, rate.denominator, False
    if order == 1:
        return sum(gaps[1:], gaps[0]) * rate.numerator, rate.denominator, False
    if order == 2:
        squares = [gap * gap for gap in gaps]
        return _square_roots(sum(squares[1:], squares[0]), rate)
    return _roots(gaps, rate, Fraction(order)), GRID, True


def _square_roots(
    squares: NDArray[np.object_], rate: Fraction
) -> tuple[NDArray[np.object_], int, bool]:
    """Rate times the roots: exact where all are rational, otherwise rounded down to the grid."""
    whole = rate.numerator
    roots = _symmetric(squares, math.isqrt)
    if bool((roots * roots == squares).all()):
        return roots * whole, rate.denominator, False
    top, bottom = whole * whole << (2 * GRID_BITS), rate.denominator**2
    return _symmetric(squares, lambda square: math.isqrt(square * top // bottom)), GRID, True


def _roots(
    gaps: Sequence[NDArray[np.object_]], rate: Fraction, order: Fraction
) -> NDArray[np.object_]:
    """Rate times (sum of gap^p)^(1/p) in units of the grid, rounded down at every step."""
    a, b = order.numerator, order.denominator
    # gap^(a/b) is itself irrational where b > 1: its terms are rounded down much finer.
    shift = 0 if b == 1 else _TERM_BITS
    terms = [_symmetric(gap, lambda g: root_floor(g**a << (shift * b), b)) for gap in gaps]
    lift = rate**a / (1 << (shift * b))
    return _symmetric(sum(terms[1:], terms[0]), lambda total: root_down(lift * total**b, a))


def _symmetric(values: NDArray[np.object_], function: Any) -> NDArray[np.object_]:
    """A function of every entry of a symmetric matrix, computed once per pair."""
    result = np.zeros(values.shape, dtype=object)
    for row in range(1, len(values)):
        result[row, :row] = [function(value) for value in values[row, :row]]
    return result + result.T
