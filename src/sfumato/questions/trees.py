"""Tree-structured workloads over the cells of one axis: hierarchical sums and Haar wavelets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.errors import TooLargeError
from sfumato.questions.lines import MOST_LISTED, RowOfCells, Words, checked_row, runs
from sfumato.questions.workload import Labels, checked_size


class Hierarchy(RowOfCells):
    """A hierarchy of sums: all cells, runs of them, runs of those, down to single cells.

    Runs at height h have branching^h cells; the last run of a level may have fewer. A run with the
    same cells as its only child is left out, so that no row appears twice.

    Args:
        m: Number of cells in a row.
        branching: Number of children per node.
        size: Number of all cells; m by default.
        words: Names of the cells; numbers by default.

    Example:
        >>> import sfumato as sf
        >>> sf.questions.Hierarchy(3, 2).dense()
        array([[1., 1., 1.],
               [1., 1., 0.],
               [1., 0., 0.],
               [0., 1., 0.],
               [0., 0., 1.]])
    """

    def __init__(
        self, m: int, branching: int = 2, *, size: int | None = None, words: Words | None = None
    ) -> None:
        m, size = checked_row(m, size)
        self.branching = checked_size(branching, "branching", 2)
        first, last = _nodes(m, self.branching)
        names = words or Words()
        labels = Labels(len(first), lambda row: names.span(int(first[row]), int(last[row])))
        super().__init__(m, size, labels)
        self._first, self._last = first, last

    def _forward(self, X: Floats) -> Floats:
        below = np.concatenate([np.zeros((1, X.shape[1])), np.cumsum(X, axis=0)])
        found: Floats = below[self._last + 1] - below[self._first]
        return found

    def _backward(self, Y: Floats) -> Floats:
        steps = np.zeros((self.values + 1, Y.shape[1]))
        np.add.at(steps, self._first, Y)
        np.subtract.at(steps, self._last + 1, Y)
        return np.cumsum(steps[:-1], axis=0)

    def _rows(self, chosen: NDArray[np.intp]) -> Floats:
        return runs(self._first[chosen], self._last[chosen], self.cells)

    def _inner_gram(self) -> Floats:
        gram = np.zeros((self.values, self.values))
        for first, last in zip(self._first, self._last, strict=True):
            gram[first : last + 1, first : last + 1] += 1.0
        return gram


class Haar(RowOfCells):
    """The Haar wavelet basis: the total, and for each halving its left half minus its right half.

    Halves have 2^h cells; the last ones may have fewer, and a run without a right half is not
    halved. The m rows are linearly independent, so every question can be read from them.

    Args:
        m: Number of cells in a row.
        size: Number of all cells; m by default.
        words: Names of the cells; numbers by default.

    Example:
        >>> import sfumato as sf
        >>> sf.questions.Haar(3).dense()
        array([[ 1.,  1.,  1.],
               [ 1.,  1., -1.],
               [ 1., -1.,  0.]])
    """

    def __init__(self, m: int, *, size: int | None = None, words: Words | None = None) -> None:
        m, size = checked_row(m, size)
        names = words or Words()
        first, middle, last = _halvings(m)

        def label(row: int) -> str:
            if row == 0:
                return names.span(0, m - 1)
            low, half, high = (int(end[row - 1]) for end in (first, middle, last))
            return f"{names.span(low, half - 1)} less {names.span(half, high)}"

        super().__init__(m, size, Labels(m, label))
        self._first, self._middle, self._last = first, middle, last

    def _forward(self, X: Floats) -> Floats:
        below = np.concatenate([np.zeros((1, X.shape[1])), np.cumsum(X, axis=0)])
        found = np.empty((self.values, X.shape[1]))
        found[0] = below[-1]
        found[1:] = 2 * below[self._middle] - below[self._first] - below[self._last + 1]
        return found

    def _backward(self, Y: Floats) -> Floats:
        steps = np.zeros((self.values + 1, Y.shape[1]))
        steps[0] = Y[0]
        np.add.at(steps, self._first, Y[1:])
        np.subtract.at(steps, self._middle, 2 * Y[1:])
        np.add.at(steps, self._last + 1, Y[1:])
        return np.cumsum(steps[:-1], axis=0)

    def _rows(self, chosen: NDArray[np.intp]) -> Floats:
        place = np.arange(self.cells)
        ends = [
            np.concatenate([[whole], end])[chosen][:, None]
            for whole, end in ((0, self._first), (self.values, self._middle))
        ]
        stop = np.concatenate([[self.values], self._last + 1])[chosen][:, None]
        left = (place >= ends[0]) & (place < ends[1])
        right = (place >= ends[1]) & (place < stop)
        return left.astype(np.float64) - right

    def _inner_gram(self) -> Floats:
        gram = np.ones((self.values, self.values))
        for low, half, end in zip(self._first, self._middle, self._last + 1, strict=True):
            gram[low:half, low:half] += 1.0
            gram[half:end, half:end] += 1.0
            gram[low:half, half:end] -= 1.0
            gram[half:end, low:half] -= 1.0
        return gram


def _nodes(m: int, branching: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first and last cell of each run, the longest runs first, without repetition."""
    if m > MOST_LISTED:
        raise TooLargeError(
            f"a hierarchy over {m:,} cells has too many nodes: it may have up to {MOST_LISTED:,} "
            "cells; use coarser ones"
        )
    run, firsts, lasts = 1, [], []
    while True:
        first = np.arange(0, m, run, dtype=np.intp)
        last = np.minimum(first + run, m) - 1
        # Only the last run of a level can be short; it may then repeat the last run below.
        kept = slice(None) if run == 1 or last[-1] - first[-1] >= run // branching else slice(-1)
        firsts.append(first[kept])
        lasts.append(last[kept])
        if run >= m:
            break
        run *= branching
    return np.concatenate(firsts[::-1]), np.concatenate(lasts[::-1])


def _halvings(m: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Of each run with two halves: the first cell, the first of the right half, the last."""
    run = 1 << (m - 1).bit_length()
    firsts, middles, lasts = [], [], []
    while run > 1:
        first = np.arange(0, m, run, dtype=np.intp)
        first = first[first + run // 2 < m]
        firsts.append(first)
        middles.append(first + run // 2)
        lasts.append(np.minimum(first + run, m) - 1)
        run //= 2
    none = np.zeros(0, dtype=np.intp)
    return (
        np.concatenate([none, *firsts]),
        np.concatenate([none, *middles]),
        np.concatenate([none, *lasts]),
    )
