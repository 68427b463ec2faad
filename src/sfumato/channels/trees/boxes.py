"""The boxes of one level on each axis, each told by a frequency oracle."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Cells, Floats
from sfumato.channels.hashing import LARGEST_DEFAULT, OLHChannel, primes
from sfumato.channels.hrr import HRRChannel
from sfumato.channels.response import KaryResponseChannel
from sfumato.channels.trees.levels import Level, axis_codes
from sfumato.channels.trees.tree import Levels, Tree
from sfumato.errors import StudyError
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import BitSource

#: Channels that can tell the node of a level.
Oracle: TypeAlias = KaryResponseChannel | OLHChannel | HRRChannel

#: This many kinds of reports of hashes are decoded in a minute or two (`estimation.decoding`).
MOST_KINDS = 1 << 17


def nodes_of(trees: Sequence[Tree], levels: Levels) -> int:
    """How many boxes there are at some levels.

    Args:
        trees: One per axis.
        levels: The level on each axis.
    """
    return math.prod(tree.nodes(level) for tree, level in zip(trees, levels, strict=True))


def best_oracle(metric: UniformMetric, most: int, precision: int) -> Oracle:
    """The oracle with the smallest σ² for these nodes, hashes of any prime among them.

    Args:
        metric: One ε, and the number of nodes.
        most: How many kinds of reports hashes may have; the others have few.
        precision: Bits of a random word.
    """
    bound: list[Oracle] = [HRRChannel(metric=metric, precision=precision)]
    with contextlib.suppress(StudyError):  # words too coarse for these nodes and this ε
        bound.insert(0, KaryResponseChannel(metric=metric, precision=precision))
    for prime in primes(LARGEST_DEFAULT)[1:]:
        hashes = OLHChannel(metric=metric, prime=prime, precision=precision)
        if hashes.outputs <= most:
            bound.append(hashes)
    return min(bound, key=lambda oracle: oracle.node_variance)


def kinds_of_level(nodes: int, cells: int, axes: int) -> int:
    """How many kinds of reports the hashes of a level may have, so that all levels can be decoded.

    As the root of the nodes: halved from each level of a tree of four to the one above, which adds
    up to twice the last level's on every axis.

    Args:
        nodes: Nodes of the level.
        cells: Cells of the grid.
        axes: How many axes there are.
    """
    return math.isqrt((MOST_KINDS >> axes) ** 2 * nodes // cells)


@dataclass(frozen=True, eq=False)
class BoxLevel(Level):
    """The box at some level on each axis, told by an oracle."""

    levels: Levels
    trees: tuple[Tree, ...]
    inner: Oracle

    @property
    def spread(self) -> float:
        """σ² of a node."""
        return self.inner.node_variance

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
