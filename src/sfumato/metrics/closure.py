"""Shortest-path closure: the bounds that a matrix of bounds implies.

A report that changes its odds by at most e^E(x, z) on the way to z and by at most e^E(z, y) from
there changes them by at most the product, so every E may be replaced by its shortest paths.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import StudyError, TooLargeError
from sfumato.exact import rational

_BAND = 64  # pivots handled together, so that the rows at work stay in the processor's cache
_TILE = 128
_PASSES = 3  # of closing in doubles, before the last bits are dropped to end it
_MOST_BIG_INTEGERS = 512

_Adding = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]


def closure(matrix: ArrayLike) -> tuple[NDArray[np.float64], bool]:
    """Replace every entry by the shortest path between its two cells.

    The result keeps the triangle inequality exactly, read as real numbers: sums are rounded down.
    The diagonal becomes 0. Entries may be infinite, and the matrix need not be symmetric.

    Args:
        matrix: Nonnegative numbers, shape (cells, cells).

    Returns:
        The closed matrix, and whether any entry fell by more than the rounding of doubles (the
        number of cells times 2^-51 of the largest finite entry).

    Raises:
        StudyError: If the matrix is not square, or an entry is negative or NaN.

    Example:
        >>> closed, changed = closure([[0, 1, 5], [1, 0, 1], [5, 1, 0]])
        >>> closed.tolist(), changed
        ([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]], True)
    """
    given = read_matrix(matrix)
    closed = given.copy()
    np.fill_diagonal(closed, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        for passed in count():  # a sum rounded down may open a shorter way
            before = closed.copy()
            if passed == _PASSES:
                closed = _on_one_grid(closed)
            shortest(closed, _sum_down)
            if np.array_equal(before, closed):
                break
        largest = float(closed.max(where=np.isfinite(closed), initial=0.0))
        fell = np.isfinite(closed) & (given - closed > len(given) * 2.0**-51 * largest)
    return closed, bool(fell.any())


def close_integers(numerators: NDArray[Any]) -> NDArray[Any]:
    """Shortest paths of a square matrix of integers, where -1 stands for infinite."""
    size = len(numerators)
    infinite = numerators < 0
    top = max(int(numerators.max()), 0)
    beyond = (top * size if infinite.any() else top) + 1  # longer than any path
    fits = 2 * beyond < 1 << 63
    if not fits and size > _MOST_BIG_INTEGERS:
        raise TooLargeError(
            f"a table of {size} cells with E up to {top} units is beyond 64-bit arithmetic, which "
            f"is needed above {_MOST_BIG_INTEGERS} cells: use a smaller epsilon, a larger per, or "
            f"fewer cells"
        )
    closed = numerators.astype(np.int64 if fits else object)
    if _surely_closed(closed):
        return closed
    short = np.min_scalar_type(-2 * beyond - 1) if fits else np.dtype(object)
    paths = np.where(infinite, beyond, closed).astype(short)
    shortest(paths, np.add)
    return np.where(paths >= beyond, -1, paths).astype(closed.dtype)


def _surely_closed(numerators: NDArray[Any]) -> bool:
    """Whether no detour can be shorter, since the longest entry is at most twice the shortest."""
    finite = np.asarray(numerators >= 0, dtype=bool)
    apart = finite & ~np.eye(len(finite), dtype=bool)
    entries = numerators[apart]
    if len(entries) and entries.max() > 2 * entries.min():
        return False
    joined = finite.astype(np.float32)  # one product finds every pair joined by a detour
    return not bool(((joined @ joined > 0) & ~finite).any())


def shortest(distances: NDArray[Any], add: _Adding) -> None:
    """Floyd and Warshall's closure in place, pivots in bands.

    Once the rows of a band are closed among themselves, a path through the band is a step to its
    first pivot and that pivot's row, so the other rows can follow tile by tile.

    Args:
        distances: A square matrix, changed in place.
        add: How two lengths add.
    """
    size = len(distances)
    for first in range(0, size, _BAND):
        band = slice(first, min(first + _BAND, size))
        pivots = range(band.start, band.stop)
        for k in pivots:
            _relax(distances[band], distances[band, k], distances[k], add)
        for top in range(0, size, _TILE):
            tile = distances[top : top + _TILE]
            for k in pivots:
                _relax(tile, tile[:, k], distances[k], add)


def _relax(target: NDArray[Any], to: NDArray[Any], onward: NDArray[Any], add: _Adding) -> None:
    """Lower every entry of the target to the way through one pivot."""
    np.minimum(target, add(to[:, None], onward[None, :]), out=target)


def _sum_down(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """The sum of doubles rounded down: the error of the rounded sum is itself a double (Knuth)."""
    total: NDArray[Any] = a + b
    part = total - a
    error = (a - (total - part)) + (b - part)
    total.view(np.int64)[...] -= error < 0  # the next double below, for positive ones
    return total


def _on_one_grid(closed: NDArray[np.float64]) -> NDArray[np.float64]:
    """Entries rounded down so that all their sums are exact, save those that would vanish."""
    top = float(closed.max(where=np.isfinite(closed), initial=0.0))
    unit = math.ldexp(1.0, math.frexp(top)[1] - 52)
    floors = np.floor(closed / unit) * unit
    return np.where(floors > 0, floors, closed)


def read_matrix(matrix: ArrayLike) -> NDArray[np.float64]:
    """The matrix as doubles, square and nonnegative."""
    try:
        values = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise StudyError(
            "matrix must be a square array of numbers: its rows are uneven or hold something else"
        ) from None
    if values.ndim != 2 or values.shape[0] != values.shape[1] or not values.size:
        raise StudyError(
            f"matrix must be square, one row and one column per cell, got shape {values.shape}"
        )
    bad = np.argwhere(~(values >= 0))
    if len(bad):
        row, column = (int(place) for place in bad[0])
        raise StudyError(
            f"matrix entries must be 0 or more (inf is allowed), got {float(values[row, column])} "
            f"at row {row + 1}, column {column + 1} (counted from 1)"
        )
    return values


_PROBES = 256
_FEW = 0.1  # share of implied pairs below which they are not worth finding
_SMALL = 64  # cells, up to which they are found in any case
_MOST_KINDS = 4096  # different numbers that are read one by one as decimals
_BITS = 45  # kept of the smallest distance where numbers cannot be read exactly

Indices = NDArray[np.intp]


def edges_of_table(numerators: NDArray[Any]) -> tuple[Indices, Indices, NDArray[Any]]:
    """Pairs i < j that imply all others, and their lengths, from integers with -1 for infinite.

    The smaller direction of every pair counts.

    Example:
        >>> edges_of_table(np.array([[0, 1, 2], [1, 0, 1], [9, 1, 0]]))
        (array([0, 1]), array([1, 2]), array([1, 1]))
    """
    near = _smaller(np.asarray(numerators))
    i, j = _settled(near) if _worth_it(near) else np.nonzero(np.triu(near >= 0, 1))
    return i, j, near[i, j]


def table_of(distances: ArrayLike) -> tuple[NDArray[Any], Fraction]:
    """A square array of distances as whole numbers of a unit, -1 where infinite, never larger.

    Numbers are read as the decimals that print them, exactly, where few enough of them share a
    denominator of 62 bits; otherwise they are rounded down.

    Example:
        >>> table_of([[0, 0.5], [0.2, 0]])
        (array([[0, 5],
               [2, 0]]), Fraction(1, 10))
    """
    given = read_matrix(distances)
    np.fill_diagonal(given, 0.0)
    finite = np.isfinite(given)
    kinds = np.unique(given[finite])
    units, unit = _in_units(kinds)
    place = np.searchsorted(kinds, np.where(finite, given, 0.0))
    return np.where(finite, units[place], -1), unit


def _in_units(kinds: NDArray[np.float64]) -> tuple[NDArray[np.int64], Fraction]:
    """Sorted distances as whole numbers of one unit."""
    if len(kinds) <= _MOST_KINDS:
        exact = [rational(kind, "distance") for kind in kinds.tolist()]
        common = math.lcm(*(number.denominator for number in exact))
        if max(exact) * common < 1 << 62:
            return np.array([int(number * common) for number in exact]), Fraction(1, common)
    least, top = float(kinds[kinds > 0][0]), float(kinds[-1])
    bits = min(_BITS - math.frexp(least)[1], 61 - math.frexp(top)[1])
    floors = np.floor(np.ldexp(kinds, bits))
    if bool(((floors == 0) & (kinds > 0)).any()):
        raise StudyError(
            f"distances from {least:.3g} to {top:.3g} are too unlike for one table: scale the "
            f"small ones up, or set them to 0"
        )
    return floors.astype(np.int64), Fraction(2) ** -bits


def _smaller(numerators: NDArray[Any]) -> NDArray[Any]:
    """The smaller of both directions, where -1 is infinite."""
    other = numerators.T
    both = np.minimum(numerators, other)
    result: NDArray[Any] = np.where(both < 0, np.maximum(numerators, other), both)
    return result


def _settled(near: NDArray[Any]) -> tuple[Indices, Indices]:
    """Pairs i < j that are finite and have no cell between."""
    first, second = [], []
    for i, row in enumerate(near):
        left = row >= 0
        left[i] = False
        order = np.argsort(row, kind="stable")
        for j in order[left[order]]:  # those before it are kept, or behind one that is
            if left[j]:
                if i < j:
                    first.append(i)
                    second.append(j)
                if row[j] > 0:
                    left &= (near[j] <= 0) | (row < row[j] + near[j])
                    left[j] = False
    return np.array(first, dtype=np.intp), np.array(second, dtype=np.intp)


def _worth_it(near: NDArray[Any]) -> bool:
    """Whether more than a few of some pairs spread over the table have a cell between."""
    if len(near) <= _SMALL:
        return True
    i, j = np.nonzero(np.triu(near >= 0, 1))
    if not len(i):
        return False
    pick = np.unique(np.linspace(0, len(i) - 1, _PROBES).astype(np.intp))
    legs = (near[i[pick]], near[j[pick]])
    between = (legs[0] > 0) & (legs[1] > 0) & (legs[0] + legs[1] <= near[i[pick], j[pick], None])
    return bool(between.any(axis=1).mean() > _FEW)
