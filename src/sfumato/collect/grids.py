"""Dense tables of a tally, from which sums over people are read.

- `Grid`: the product of features for every combination, summed over people (Xiang et al. 2020,
  Table 1, "single values");
- `PrefixGrid`: a summed-area table of it, so that a range takes a handful of look-ups.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.arrays import Floats, Layout
from sfumato.collect.statistics import BitReports, SymbolCounts, Vectors

LOOK_UP_COST = float(1 << 15)  # fixed cost of finding the places to look up, in memory accesses


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
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
class PrefixGrid:
    """Summed-area table: a grid with running sums along its symbol axes.

    A function that changes at k symbols costs k look-ups. The fields are those of `Grid`.
    """

    table: Floats
    count: int
    bits: tuple[bool, ...]

    @classmethod
    def of(cls, grid: Grid) -> PrefixGrid:
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


def build_grid(statistic: SymbolCounts | BitReports) -> Grid:
    """The grid of a tally; refused where it would be too large."""
    axes = range(len(statistic.layouts))
    table = statistic.profile(list(axes), [None] * len(statistic.layouts))
    bits = tuple(layout.kind == "bits" for layout in statistic.layouts)
    return Grid(table, statistic.count, bits)


def grid_size(layouts: Sequence[Layout]) -> int:
    """Number of entries of the grid that `build_grid` makes."""
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
