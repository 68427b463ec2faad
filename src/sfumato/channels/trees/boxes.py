"""Boxes, the nodes of hierarchies: how they are reported, and how questions are read from them.

A box is one node of some level on each axis. A frequency oracle tells it; questions are read from
the boxes of all levels by generalised least squares, or from the largest that make them up.
"""

from __future__ import annotations

import contextlib
import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Cells, Floats
from sfumato.channels.base import with_known_total
from sfumato.channels.code import Code, Value
from sfumato.channels.hashing import LARGEST_DEFAULT, OLHChannel, primes
from sfumato.channels.hrr import HRRChannel
from sfumato.channels.response import KaryResponseChannel
from sfumato.channels.trees.levels import AnyLevel, Level, LevelsChannel, axis_codes
from sfumato.channels.trees.tree import Levels, Tree, least_grid_parts, least_parts, plain_parts
from sfumato.channels.unary import OUEChannel
from sfumato.errors import StudyError
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import BitSource
from sfumato.randomness.draws import Steps

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
    with contextlib.suppress(StudyError):  # the same, for larger primes
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
class Boxes(AnyLevel):
    """The boxes at some level on each axis, told by a frequency oracle."""

    levels: Levels
    trees: tuple[Tree, ...]
    inner: Oracle | OUEChannel

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

    def steps(self, cells: NDArray[np.int64]) -> Steps:
        """The oracle's, for the box."""
        return self.inner.steps(self.nodes(cells))

    def device_code(self, code: Code, cell: Value) -> Value:
        """The oracle's, for the box.

        Args:
            code: Where instructions are added.
            cell: The cell of the grid.
        """
        node = code.constant(0)
        places = code.unravelled(cell, [tree.size for tree in self.trees])
        for place, tree, level in zip(places, self.trees, self.levels, strict=True):
            node = node * tree.nodes(level) + place // tree.runs[level]
        return self.inner.device_code(code, node)

    def rows(self) -> tuple[list[list[int]], int]:
        """The oracle's rows, one for every cell of a box."""
        rows, total = self.inner.words()
        cells = np.arange(math.prod(tree.size for tree in self.trees))
        return [rows[node] for node in self.nodes(cells).tolist()], total


@dataclass(frozen=True, eq=False)
class BoxLevel(Boxes, Level):
    """Boxes whose oracle sends symbols."""

    inner: Oracle

    def encode(self, cells: NDArray[np.int64], bits: BitSource) -> Cells:
        """The oracle's symbol for the box.

        Args:
            cells: One cell per person.
            bits: Where randomness comes from.
        """
        found = self.inner.encode(self.nodes(cells), bits)
        if not isinstance(found, np.ndarray):
            raise TypeError("the outputs of a hierarchy's oracle must be symbols")
        return found

    def mix(self, law: Floats) -> Floats:
        """Sum over boxes, then the oracle."""
        return self.inner.mix(self.joined(law))

    def expect(self, table: Floats) -> Floats:
        """The oracle's mean at the cell's box."""
        return self.at_cells(self.inner.expect(table))

    def report_likelihood(self, symbols: NDArray[np.int64]) -> Floats:
        """The oracle's, at the cell's box."""
        return self.at_cells(self.inner.report_likelihood(symbols))


@dataclass(frozen=True, kw_only=True, eq=False)
class BoxesChannel(LevelsChannel):
    """Boxes of all levels, read by least squares.

    Attributes:
        trees: One per axis.
        consistency: Whether all levels are read together.
    """

    metric: UniformMetric
    precision: int = 64
    trees: tuple[Tree, ...]
    parts: tuple[Boxes, ...]
    level_words: tuple[int, ...]
    consistency: bool = True
    level_precision: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """How precisely a node of every level is known: its chance over σ²."""
        known = np.zeros([tree.depth + 1 for tree in self.trees])
        for part, chance in zip(self.parts, self.chances, strict=True):
            known[part.levels] = chance / part.spread
        object.__setattr__(self, "level_precision", known)

    @property
    def linear(self) -> bool:
        """Which nodes make up a question depends on it, unless all of them are read together."""
        return self.consistency

    @property
    def _row_entries(self) -> int:
        """Least squares over several axes works on whole trees, in a few copies."""
        filled = math.prod(tree.runs[0] for tree in self.trees)
        return max(self.layout.features, self.size if len(self.trees) == 1 else 4 * filled)

    def node_parts(self, weights: Floats) -> tuple[Floats, dict[Levels, Floats]]:
        """c, and what is read from every box: together they are the weights at each cell.

        Args:
            weights: One row per question, one column per cell.
        """
        shape = tuple(tree.size for tree in self.trees)
        if not self.consistency:
            centre, parts = plain_parts(self.trees, weights.reshape(-1, *shape))
        elif len(shape) == 1:
            middle, found = least_parts(self.trees[0], self.level_precision[1:].tolist(), weights)
            centre, parts = middle, {(k,): part for k, part in enumerate(found, start=1)}
        else:
            grid = weights.reshape(-1, *shape)
            centre, parts = least_grid_parts(self.trees, self.level_precision, grid)
        flat = {levels: part.reshape(len(weights), -1) for levels, part in parts.items()}
        return centre.reshape(-1, 1), flat

    def centred_parts(self, weights: Floats) -> tuple[Floats, Iterator[Floats]]:
        """What is read of everyone, and of the boxes of each level, where it has mean zero.

        Args:
            weights: One row per question, one column per cell.
        """
        centre, parts = self.node_parts(weights)
        means = {k: part.mean(axis=-1, keepdims=True) for k, part in parts.items()}
        everyone = centre + sum(means.values())
        return everyone, (parts[part.levels] - means[part.levels] for part in self.parts)

    @abstractmethod
    def _level_profiles(self, profile: Floats) -> tuple[Floats, Iterator[Floats]]:
        """The number of people, and what each level's oracle gathers from, one row per profile."""

    def gather(self, profile: Floats) -> Floats:
        """The nodes of all levels as their oracles count them, combined by least squares.

        The parts of w are b = τ·Au, where u solves a symmetric system for w; so cells get what the
        same system gives for the sum over all nodes of τ times what is gathered there.
        """
        if not self.consistency:
            raise TypeError("a reading by the largest nodes is not linear and has no transpose")
        flat = profile.reshape(-1, profile.shape[-1])
        result = np.empty((len(flat), self.size))
        for rows in self.batches(len(flat)):
            result[rows] = self._solved(flat[rows])
        return result.reshape(*profile.shape[:-1], self.size)

    def _solved(self, profile: Floats) -> Floats:
        """Gathered cells, one row per profile."""
        everyone, profiles = self._level_profiles(profile)
        even = everyone[:, None] / self.size
        there = np.zeros((len(profile), self.size))
        for part, chance, held in zip(self.parts, self.chances, profiles, strict=True):
            counts = part.inner.gather(held) / chance
            known = self.level_precision[part.levels]
            there += known * part.at_cells(
                with_known_total(counts, everyone) - even * part.joined(np.ones(self.size))
            )
        _, parts = self.node_parts(there)
        finest = tuple(tree.depth for tree in self.trees)
        result: Floats = even + parts[finest] / self.level_precision[finest]
        return result
