"""The boxes of one level on each axis, each told by a frequency oracle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.base import Cells, Floats, SymbolChannel
from sfumato.channels.hadamard import HRRChannel
from sfumato.channels.hashing import OLHChannel
from sfumato.channels.levels import Level, axis_codes
from sfumato.channels.response import KaryResponseChannel
from sfumato.channels.trees import Levels, Tree
from sfumato.randomness import BitSource


def nodes_of(trees: Sequence[Tree], levels: Levels) -> int:
    """How many boxes there are at some levels."""
    return math.prod(tree.nodes(level) for tree, level in zip(trees, levels, strict=True))


def node_spread(channel: SymbolChannel) -> float:
    """σ²: a reading's mean square is σ²·Σb² for parts b with mean zero, people spread evenly.

    Computed by divisions and products only, so that both ends find the same chances of levels.
    """
    total = 1 << channel.precision
    if isinstance(channel, HRRChannel):
        return channel.scale * channel.scale
    if isinstance(channel, OLHChannel):
        g = channel.prime
        gap = (g * channel.response.right - total) / (g * total)
        return (g - 1) / (g * g) / (gap * gap)
    if isinstance(channel, KaryResponseChannel):
        gap = (channel.right - channel.wrong) / total
        return 1 / (channel.size * gap * gap)
    raise TypeError(f"{channel.id} is no oracle of a hierarchy")


@dataclass(frozen=True, eq=False)
class BoxLevel(Level):
    """The box at some level on each axis, told by an oracle."""

    levels: Levels
    trees: tuple[Tree, ...]
    inner: SymbolChannel

    @property
    def spread(self) -> float:
        """σ² of a node."""
        return node_spread(self.inner)

    @property
    def shape(self) -> tuple[int, ...]:
        """Nodes along each axis."""
        pairs = zip(self.trees, self.levels, strict=True)
        return tuple(tree.nodes(level) for tree, level in pairs)

    def nodes(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of each cell's box."""
        result = np.zeros_like(cells)
        codes = axis_codes(cells, [tree.size for tree in self.trees])
        for code, tree, level in zip(codes, self.trees, self.levels, strict=True):
            result = result * tree.nodes(level) + code // tree.runs[level]
        return result

    def encode(self, cells: NDArray[np.int64], bits: BitSource) -> Cells:
        """The oracle's symbol for the box."""
        found = self.inner.encode(self.nodes(cells), bits)
        if not isinstance(found, np.ndarray):
            raise TypeError("an oracle of a hierarchy puts out symbols")
        return found

    def mix(self, law: Floats) -> Floats:
        """Sum over boxes, then the oracle."""
        return self.inner.mix(self.joined(law))

    def expect(self, table: Floats) -> Floats:
        """The oracle's mean at the cell's box."""
        return self.at_cells(self.inner.expect(table))

    def rows(self) -> tuple[list[list[int]], int]:
        """The oracle's rows, one for every cell of a box."""
        rows, total = self.inner.words()
        cells = np.arange(math.prod(tree.size for tree in self.trees))
        return [rows[node] for node in self.nodes(cells).tolist()], total

    def report_likelihood(self, symbols: NDArray[np.int64]) -> Floats:
        """The oracle's, at the cell's box."""
        return self.at_cells(self.inner.report_likelihood(symbols))

    def joined(self, values: Floats) -> Floats:
        """Sums over the cells of every box, along the last axis."""
        lead = values.shape[:-1]
        grid: Floats = values.reshape(*lead, *(tree.size for tree in self.trees))
        for place, (tree, level) in enumerate(zip(self.trees, self.levels, strict=True)):
            grid = tree.join(grid, level, len(lead) + place)
        return grid.reshape(*lead, -1)

    def at_cells(self, values: Floats) -> Floats:
        """Values of boxes along the last axis, at each cell."""
        lead = values.shape[:-1]
        wide: Floats = values.reshape(*lead, *self.shape)
        for place, (tree, level) in enumerate(zip(self.trees, self.levels, strict=True)):
            wide = tree.spread(wide, level, len(lead) + place)
        return wide.reshape(*lead, -1)
