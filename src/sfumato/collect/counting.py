"""Counting symbols in place: a table with an entry for every combination, as fast as it is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 1 << 16  # so that indices stay in the cache
_PAIRS = 1 << 16  # of two symbols of a byte each
_MOST_PAIRS = 1 << 32

Symbols = NDArray[np.integer[Any]]


class Table:
    """How many reports sent each combination of symbols, for combinations that are not too many.

    Args:
        shape: How many symbols each axis has.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self._people = np.zeros(math.prod(shape), dtype=np.int64)
        # Of neighbours, where symbols are bytes: half as large as in 64 bits, for the cache.
        self._pairs: NDArray[np.uint32] | None = None
        self._room = 0  # reports until an entry of the pairs could overflow

    def add(self, columns: Sequence[Symbols]) -> None:
        """Count more reports.

        Args:
            columns: Their symbols, one column per axis, each below its number in the shape.
        """
        (first, *others), start = columns, 0
        if not others and first.itemsize == 1 and len(first) >= _PAIRS and first.flags.c_contiguous:
            if self._pairs is None or len(first) > self._room:
                self._unpair()
                self._pairs, self._room = np.zeros(_PAIRS, dtype=np.uint32), _MOST_PAIRS
            self._room -= len(first)
            start = len(first) // 2 * 2
            # Two neighbours at once, as one number of 16 bits: half as many to count.
            _count(self._pairs, first[:start].view(np.uint16))
        kind = np.min_scalar_type(len(self._people) - 1)
        for at in range(start, len(first), _AT_ONCE):
            number = first[at : at + _AT_ONCE]
            if others:
                number = number.astype(kind)
            for count, column in zip(self.shape[1:], others, strict=True):
                number *= kind.type(count)
                number += column[at : at + _AT_ONCE].astype(kind, copy=False)
            _count(self._people, number)

    def people(self) -> NDArray[np.int64]:
        """How many reports sent each combination, in C order."""
        self._unpair()
        return self._people

    def _unpair(self) -> None:
        """Count the symbols of all pairs so far."""
        if self._pairs is not None:
            pairs = self._pairs.reshape(256, 256)
            both = pairs.sum(axis=0, dtype=np.int64) + pairs.sum(axis=1, dtype=np.int64)
            self._people += both[: len(self._people)]
            self._pairs = None


def _count(people: NDArray[np.int64] | NDArray[np.uint32], numbers: Symbols) -> None:
    """Add one to an entry for every number: quicker than np.bincount, which reads them twice."""
    one = people.dtype.type(1)
    for at in range(0, len(numbers), _AT_ONCE):
        np.add.at(people, numbers[at : at + _AT_ONCE].astype(np.intp), one)


def histogram(columns: Sequence[Symbols], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """How often each combination of symbols occurs, in C order.

    Args:
        columns: The symbols, one column per axis, each below its number in `shape`.
        shape: How many symbols each axis has.
    """
    found = Table(shape)
    found.add(columns)
    return found.people()
