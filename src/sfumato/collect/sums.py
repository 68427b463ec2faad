"""Sums of products over people, computed in the cheapest way.

Xiang et al. 2020 (Table 1) list three ways to keep reports, and `Sums` offers all of them:

- directly over the tally;
- `CellSums`: the product of features for every combination, summed over people ("single values");
- `PrefixSums`: a summed-area table of it, so that a range takes a handful of look-ups.

By default it works directly on the tally and builds the summed-area table once the work already
done directly would have paid for it, so it costs at most twice as much as the better choice in
hindsight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.arrays import Floats, Layout
from sfumato.checks import one_of
from sfumato.collect.block_sums import AnyStatistic
from sfumato.collect.statistics import MOST_GRID, Statistic, Vectors

LOOK_UP_COST = float(1 << 15)  # fixed cost of finding the places to look up, in memory accesses


@dataclass(frozen=True, slots=True, eq=False)
class CellSums:
    """Sums over people of the product of features, one entry per combination of features.

    Args:
        table: The sums, shape (features of block 1, features of block 2, …).
        count: Number of reports.
        bits: For each block, whether it sends bits.
    """

    table: Floats
    count: int
    bits: tuple[bool, ...]

    def sum(self, vectors: Vectors) -> float:
        """Contract the table with one vector per axis."""
        table = self.table
        for axis in reversed(range(table.ndim)):
            table = table @ _or_constant(vectors[axis], table.shape[axis], self.bits[axis])
        return float(table)

    def cost(self, vectors: Vectors) -> float:
        """Memory accesses: every entry once."""
        return float(self.table.size)


@dataclass(frozen=True, slots=True, eq=False)
class PrefixSums:
    """Summed-area table: a grid with running sums along its symbol axes.

    A function that changes at k symbols costs k look-ups. The fields are those of `CellSums`.
    """

    table: Floats
    count: int
    bits: tuple[bool, ...]

    @classmethod
    def of(cls, grid: CellSums) -> PrefixSums:
        """Build the running sums of a grid."""
        table = grid.table
        for axis, is_bits in enumerate(grid.bits):
            if not is_bits:
                table = np.cumsum(table, axis=axis)
        return cls(table, grid.count, grid.bits)

    def sum(self, vectors: Vectors) -> float:
        """Sum by parts: look the table up where the functions change."""
        changes = self._changes(vectors)
        places = [np.flatnonzero(change) for change in changes]
        corner = self.table[np.ix_(*places)]
        for change, place in zip(reversed(changes), reversed(places), strict=True):
            corner = corner @ change[place]
        return float(corner)

    def cost(self, vectors: Vectors) -> float:
        """Memory accesses: the look-ups, and finding their places."""
        changes = self._changes(vectors)
        places = math.prod(np.count_nonzero(change) for change in changes)
        return LOOK_UP_COST + float(places + sum(len(change) for change in changes))

    def _changes(self, vectors: Vectors) -> list[Floats]:
        """Differences of each function between successive symbols; functions of bits unchanged."""
        changes = []
        for vector, size, bits in zip(vectors, self.table.shape, self.bits, strict=True):
            full = _or_constant(vector, size, bits)
            changes.append(full if bits else full - np.append(full[1:], 0.0))
        return changes


def build_cell_sums(statistic: AnyStatistic) -> CellSums:
    """The grid of a tally; refused where it would be too large."""
    axes = range(len(statistic.layouts))
    table = statistic.profile(list(axes), [None] * len(statistic.layouts))
    bits = tuple(layout.kind == "bits" for layout in statistic.layouts)
    return CellSums(table, statistic.count, bits)


def grid_size(layouts: Sequence[Layout]) -> int:
    """Number of entries of the grid that `build_cell_sums` makes."""
    return math.prod(layout.features for layout in layouts)


def _or_constant(vector: Floats | None, size: int, bits: bool) -> Floats:
    """The coefficients of a function; those of the constant 1 for None."""
    if vector is not None:
        return vector
    return _unit(size, 0) if bits else np.ones(size)


def _unit(size: int, place: int) -> Floats:
    """A unit vector."""
    unit = np.zeros(size)
    unit[place] = 1.0
    return unit


WAYS = ("auto", "direct", "cells", "prefix")


class Sums:
    """Sums of products over people, in the way asked for or the cheapest.

    Args:
        statistic: The reports.
        via: "direct", "cells", "prefix" or "auto".
    """

    def __init__(self, statistic: AnyStatistic, via: str) -> None:
        one_of(via, "via", WAYS)
        self.statistic = statistic
        self.via = via
        self._grid: CellSums | None = None
        self._prefix: PrefixSums | None = None
        self._spent = 0.0

    def sum(self, vectors: Vectors) -> float:
        """Sum over people of the product over axes."""
        return self._choose(vectors).sum(vectors)

    def _choose(self, vectors: Vectors) -> Statistic:
        """The statistic or table from which to compute this sum."""
        if self.via == "cells":
            return self._cells()
        if self.via == "prefix":
            return self._summed()
        if self.via == "direct":
            return self.statistic
        direct = self.statistic.cost(vectors)
        if self._prefix is None:
            self._spent += direct
            if not self._affordable() or self._spent < self._build_cost():
                return self.statistic
        if direct <= LOOK_UP_COST:  # no table can be cheaper
            return self.statistic
        table = self._summed()
        return table if table.cost(vectors) < direct else self.statistic

    def _affordable(self) -> bool:
        """Whether the table is small enough to be built."""
        return grid_size(self.statistic.layouts) <= MOST_GRID // 4

    def _build_cost(self) -> float:
        """Memory accesses for building the summed-area table."""
        axes = list(range(len(self.statistic.layouts)))
        return self.statistic.profile_cost(axes) + 3.0 * grid_size(self.statistic.layouts)

    def _cells(self) -> CellSums:
        """The grid of single values, built once."""
        if self._grid is None:
            self._grid = build_cell_sums(self.statistic)
        return self._grid

    def _summed(self) -> PrefixSums:
        """The summed-area table, built once."""
        if self._prefix is None:
            self._prefix = PrefixSums.of(self._cells())
        return self._prefix
