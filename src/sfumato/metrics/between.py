"""Which pairs of a table of distances imply all others.

A pair may be left out when some cell lies between, d(i, z) + d(z, j) ≤ d(i, j): both legs are
shorter than it, so going from short to long every pair left out follows from those that are kept.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import StudyError
from sfumato.exact import rational
from sfumato.metrics.closing import read_matrix

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
