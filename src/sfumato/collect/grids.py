"""Tables of all products of features, from which sums over people are read.

- `Grid`: all products of features, summed over people (Xiang et al. Table 1, "single values");
- `PrefixGrid`: the same, summed up along the axes, so that a range is a handful of look-ups.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.arrays import Floats, Layout
from sfumato.collect.statistics import BitReports, SymbolCounts, Vectors

LOOK_UP_COST = float(1 << 15)  # what finding the places of a look-up costs, however few there are


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Sums over people of all products of features: small enough grids only."""

    table: Floats
    count: int
    bits: tuple[bool, ...]

    def sum(self, vectors: Vectors) -> float:
        """Contract the array with one vector an axis."""
        table = self.table
        for axis in reversed(range(table.ndim)):
            table = table @ _or_constant(vectors[axis], table.shape[axis], self.bits[axis])
        return float(table)

    def cost(self, vectors: Vectors) -> float:
        """Every entry once."""
        return float(self.table.size)


@dataclass(frozen=True, slots=True, eq=False)
class PrefixGrid:
    """A grid summed up along its symbol axes: a function that changes at few symbols costs few."""

    table: Floats
    count: int
    bits: tuple[bool, ...]

    @classmethod
    def of(cls, grid: Grid) -> PrefixGrid:
        """Sum up along every symbol axis."""
        table = grid.table
        for axis, is_bits in enumerate(grid.bits):
            if not is_bits:
                table = np.cumsum(table, axis=axis)
        return cls(table, grid.count, grid.bits)

    def sum(self, vectors: Vectors) -> float:
        """Look up the table where the functions change, and nowhere else."""
        changes = self._changes(vectors)
        places = [np.flatnonzero(change) for change in changes]
        corner = self.table[np.ix_(*places)]
        for change, place in zip(reversed(changes), reversed(places), strict=True):
            corner = corner @ change[place]
        return float(corner)

    def cost(self, vectors: Vectors) -> float:
        """The look-ups, and finding them."""
        changes = self._changes(vectors)
        places = math.prod(np.count_nonzero(change) for change in changes)
        return LOOK_UP_COST + float(places + sum(len(change) for change in changes))

    def _changes(self, vectors: Vectors) -> list[Floats]:
        """By how much each function falls from one symbol to the next; bits are not summed up."""
        changes = []
        for vector, size, bits in zip(vectors, self.table.shape, self.bits, strict=True):
            full = _or_constant(vector, size, bits)
            changes.append(full if bits else full - np.append(full[1:], 0.0))
        return changes


def build_grid(statistic: SymbolCounts | BitReports) -> Grid:
    """All products of features, summed over people."""
    axes = range(len(statistic.layouts))
    table = statistic.profile(list(axes), [None] * len(statistic.layouts))
    bits = tuple(layout.kind == "bits" for layout in statistic.layouts)
    return Grid(table, statistic.count, bits)


def grid_size(layouts: Sequence[Layout]) -> int:
    """How many entries `build_grid` would hold."""
    return math.prod(layout.features for layout in layouts)


def _or_constant(vector: Floats | None, size: int, bits: bool) -> Floats:
    """A vector, or the one that stands for the constant one."""
    if vector is not None:
        return vector
    return _unit(size, 0) if bits else np.ones(size)


def _unit(size: int, place: int) -> Floats:
    """A vector that is one at a single place."""
    unit = np.zeros(size)
    unit[place] = 1.0
    return unit
