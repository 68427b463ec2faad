"""Ranges on a grid by its edges: the method of Haney et al. 2015, extended to the local model.

Xiang et al. 2020 compare with it in Table 2, as "Extending [26]", under E = ε·‖x − x'‖_1. E is the
distance in the grid whose neighbouring cells are joined, a policy graph of Blowfish privacy, and a
count is read from the edges that leave its range: a box of D axes has 2·D faces, each of them a box
of D − 1 axes among the parallel edges between two layers of cells. Every face is made of the
largest nodes of a tree over the D − 1 axes, and each node has noise of its own.

Guarantee:
    E(x, x') = ε·‖x − x'‖_1, exactly. A report is W·h_x + B·Z: the true answers to all boxes W, and
    the noise Z of nodes, added with the sign of the face (B). Between neighbours along axis i the
    true answers change by W·(h_x − h_x') = B·A·e, where A·e are the nodes that hold the edge e
    between them: every face with e has exactly one of them. So the law of reports is shifted by
    the noise of these nodes alone, h_i = Π_{d≠i} (levels of axis d), each of them of rate ε/h_i,
    whose product of odds is e^ε. Farther cells are joined by paths of neighbours.

Estimator:
    The sum of reports, unbiased; its variance is n·Σ_i (nodes of both faces along axis i)·2α/(1−α)²
    with α = e^(−ε/h_i), the same for every population.

On one axis faces are single edges: the variance is about 4n/ε², whatever m is, as in Table 2. On D
axes it grows as n·D·(log m)^(3(D−1))/ε², the rate of Haney et al. times n: the number of nodes,
times the square of the levels among which ε is split. Table 2 prints n·D·(log m)^(2(D−1))/ε² and
gives no mechanism. To save the factor, each person would have to report one level and not all, as
in Cormode et al. 2019. But the part of a range that belongs to one level is a function of the edges
on a path to the cell, not of the cell; it changes by more than one edge where the path does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import Floats
from sfumato.channels.trees.tree import Tree, plain_parts
from sfumato.errors import StudyError
from sfumato.randomness.bits import BitSource
from sfumato.randomness.laplace import discrete_laplace, laplace_variance

#: An interval on each axis: the first cell and the last.
Box = tuple[tuple[int, int], ...]
#: Axis, position of the layer of edges along it, levels on the other axes, number of the node.
Node = tuple[int, int, tuple[int, ...], int]


def published_rate(n: int, axes: int, cells: int, epsilon: float) -> float:
    """The rate of Table 2 without its constant: n·D·(log2 m)^(2(D−1))/ε².

    Args:
        n: Number of people.
        axes: D.
        cells: m, the cells of every axis.
        epsilon: ε per step.
    """
    return n * axes * math.log2(cells) ** (2 * (axes - 1)) / epsilon**2


@dataclass(frozen=True, eq=False)
class EdgeRanges:
    """Answer boxes from the edges that leave them.

    Args:
        epsilon: ε of one step along an axis.
        shape: Cells of every axis.
        boxes: The ranges that are asked for, all known before anyone reports.
        branching: Children of a node.
    """

    epsilon: Fraction
    shape: tuple[int, ...]
    boxes: tuple[Box, ...]
    branching: int = 2

    def __post_init__(self) -> None:
        """Every box must lie on the grid."""
        for box in self.boxes:
            pairs = zip(box, self.shape, strict=True)
            if not all(0 <= low <= high < size for (low, high), size in pairs):
                raise StudyError(f"a box must lie within the cells {self.shape}, got {box}")

    def others(self, axis: int) -> tuple[Tree, ...]:
        """Trees over the axes of a face."""
        sizes = [size for d, size in enumerate(self.shape) if d != axis]
        return tuple(Tree.branching(size, self.branching) for size in sizes)

    def rate(self, axis: int) -> Fraction:
        """1/scale of the noise on nodes of edges along an axis: ε over the nodes of one edge."""
        return self.epsilon / math.prod(tree.depth + 1 for tree in self.others(axis))

    def face(self, axis: int, box: Box) -> list[tuple[tuple[int, ...], int]]:
        """The nodes that make up both faces of a box along an axis: levels and number of each.

        Args:
            axis: Along which axis the faces lie opposite each other.
            box: The box.
        """
        trees = self.others(axis)
        sides = [side for d, side in enumerate(box) if d != axis]
        if not sides:
            return [((), 0)]
        weights: Floats = np.ones((1,))
        for (low, high), tree in zip(sides, trees, strict=True):
            cells = np.arange(tree.size)
            weights = np.multiply.outer(weights, ((cells >= low) & (cells <= high)).astype(float))
        root, parts = plain_parts(trees, weights)
        held = {(0,) * len(trees): root, **parts}
        return [
            (levels, int(node))
            for levels, part in held.items()
            for node in np.flatnonzero(part.reshape(-1))
        ]

    def signs(self, box: Box) -> dict[Node, int]:
        """The nodes whose noise an answer has, and the sign of each: the row of B."""
        found: dict[Node, int] = {}
        for axis, (low, high) in enumerate(box):
            ends = ((low - 1, -1), (high, 1))
            for levels, node in self.face(axis, box):
                for layer, sign in ends:
                    if 0 <= layer < self.shape[axis] - 1:  # beyond the grid there are no edges
                        found[axis, layer, levels, node] = sign
        return found

    @cached_property
    def nodes(self) -> dict[Node, dict[int, int]]:
        """All nodes that some box needs, with the sign in each box that does."""
        found: dict[Node, dict[int, int]] = {}
        for place, box in enumerate(self.boxes):
            for node, sign in self.signs(box).items():
                found.setdefault(node, {})[place] = sign
        return found

    def variance(self) -> Floats:
        """Of each answer, for one person: the same at every cell."""
        each = [laplace_variance(self.rate(axis)) for axis in range(len(self.shape))]
        return np.array([sum(each[node[0]] for node in self.signs(box)) for box in self.boxes])

    def truth(self, cells: ArrayLike) -> NDArray[np.int64]:
        """Whether each person is in each box, one row per person: W·h_x.

        Args:
            cells: One row per person, one column per axis.
        """
        held = np.asarray(cells)[:, None, :]
        low, high = np.moveaxis(np.array(self.boxes), -1, 0)
        inside: NDArray[np.bool_] = ((held >= low) & (held <= high)).all(axis=-1)
        return inside.astype(np.int64)

    def encode(self, cells: ArrayLike, bits: BitSource) -> NDArray[np.int64]:
        """Each person's noisy answer to every box, one row per person.

        Args:
            cells: One row per person, one column per axis.
            bits: Where randomness comes from.
        """
        out = self.truth(cells)
        for node, boxes in self.nodes.items():
            noise = discrete_laplace(self.rate(node[0]), len(out), bits)
            for place, sign in boxes.items():
                out[:, place] += sign * noise
        return out


def middle_box(shape: Sequence[int]) -> Box:
    """A box that needs many nodes: all but the first and the last cell of every axis."""
    return tuple((1, size - 2) for size in shape)
