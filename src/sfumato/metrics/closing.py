"""Shortest-path closure: what a matrix of bounds really promises.

A report that changes its odds by at most e^E(x, z) on the way to z and by at most e^E(z, y) from
there changes them by at most the product, so every E may be replaced by its shortest paths.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import StudyError, TooLargeError

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
    closed[infinite] = beyond
    shortest(closed, np.add)
    closed[closed >= beyond] = -1
    return closed


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
            f"matrix must be square, one row and one column a cell, got shape {values.shape}"
        )
    bad = np.argwhere(~(values >= 0))
    if len(bad):
        row, column = (int(place) for place in bad[0])
        raise StudyError(
            f"matrix entries must be 0 or more (inf is allowed), got {float(values[row, column])} "
            f"at row {row + 1}, column {column + 1} (counted from 1)"
        )
    return values
