"""Least squares on a tree for all single cells, or all prefixes 0..x, along the path to each cell.

With weights of 0 and 1 that are a single cell or a prefix, every node off the path from the root to
cell x has equal weights on all of its cells. Least squares (`tree.least_parts`) then treats all
nodes of a level below such a node alike: where its parent stands d above its own weight, a node of
level l takes the part −d·z·τ and leaves (1 − z·τ)·d to its children, with τ the precision of the
level and z the size of the node in the pass upwards. So the squared parts of all of its
descendants are d² times a constant of the level, and one row takes a few steps per level.

The last node of a level may be shorter than the others. Nothing is beyond it, so it is either on
the path or has weight 0, and has constants of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.channels.every import Spread
from sfumato.channels.trees.tree import Tree

_ROWS_AT_ONCE = 1 << 15


@dataclass(frozen=True)
class _Nodes:
    """Constants of the nodes of one level, whole ones and the last one.

    Attributes:
        size: z, of a whole node and of the last one.
        shrink: What the pass upwards multiplies sums by, of a whole node and of the last one.
        nodes: Σ others·part² over a node and its descendants, for d = 1.
        person: Σ own·part² over the nodes of one person, for d = 1: of anyone in a whole node, and
            the most of anyone in the last one.
    """

    size: tuple[float, float]
    shrink: tuple[float, float]
    nodes: tuple[float, float]
    person: tuple[float, float]


@dataclass(frozen=True)
class _Row:
    """What is known of some rows when the path has reached the last level.

    Attributes:
        centre: c.
        nodes: Σ others·part² over all nodes.
        own: The largest Σ own·part² over the nodes of one person, inside and outside; only if
            people are not counted.
        people: Σ own·part² over the nodes of all people, if these are counted.
    """

    centre: Floats
    nodes: Floats
    own: tuple[Floats, Floats]
    people: Floats | None


@dataclass(frozen=True, eq=False)
class Paths:
    """The second moments of all cells and prefixes of a tree.

    Args:
        tree: The tree.
        precision: τ of levels 1 to the last.
        spreads: The constants of E[f² | x] of the same levels, over the chance of each.
    """

    tree: Tree
    precision: Sequence[float]
    spreads: Sequence[Spread]

    def squares(self, people: Floats, *, upto: bool) -> Floats:
        """Σ over people of E[f² | x], for the reading f of every cell or prefix.

        Args:
            people: People in every cell, along the last axis.
            upto: Whether rows are prefixes 0..x rather than single cells x.
        """
        everyone = people.sum(axis=-1, keepdims=True)
        below = np.zeros((*people.shape[:-1], people.shape[-1] + 1))
        np.cumsum(people, axis=-1, out=below[..., 1:])
        inside = below[..., 1:] if upto else people
        found = np.empty(people.shape)
        for rows, row in self._rows(upto, below):
            c = row.centre
            found[..., rows] = everyone * (row.nodes - c**2) + 2 * c * inside[..., rows]
            found[..., rows] += 0.0 if row.people is None else row.people
        return found

    def peaks(self, *, upto: bool) -> tuple[Floats, Floats]:
        """The largest E[f² | x] of every cell or prefix, and the squared weight at that cell.

        Args:
            upto: Whether rows are prefixes 0..x rather than single cells x.
        """
        top, at = np.empty(self.tree.size), np.empty(self.tree.size)
        for rows, row in self._rows(upto, None):
            inside = row.centre * (2 - row.centre) + row.own[0]
            outside = row.own[1] - row.centre**2
            top[rows] = row.nodes + np.maximum(inside, outside)
            at[rows] = inside >= outside
        return top, at

    @cached_property
    def _levels(self) -> list[_Nodes]:
        """The constants of levels 1 to the last, from the last one upwards."""
        depth = self.tree.depth
        found: list[_Nodes] = []
        whole = last = 1.0 / self.precision[-1]  # the sizes of the children together
        for level in range(depth, 0, -1):
            tau, spread = self.precision[level - 1], self.spreads[level - 1]
            shrink, size = (1.0, 1.0), (whole, last)
            nodes, person = (0.0, 0.0), (0.0, 0.0)
            if found:
                below = found[-1]
                ratio, short = self._children(level)
                joined = (
                    ratio * below.size[0],
                    (short - 1) * below.size[0] + below.size[1],
                )
                shrink = (1 / (1 + tau * joined[0]), 1 / (1 + tau * joined[1]))
                size = (joined[0] * shrink[0], joined[1] * shrink[1])
                nodes = (
                    ratio * below.nodes[0],
                    (short - 1) * below.nodes[0] + below.nodes[1],
                )
                # The last node may have no child but the last of the next level.
                person = below.person[0], max(below.person[0 if short > 1 else 1 :])
            taken = (size[0] * tau, size[1] * tau)
            left = ((1 - taken[0]) ** 2, (1 - taken[1]) ** 2)
            found.append(
                _Nodes(
                    size,
                    shrink,
                    (
                        spread.others * taken[0] ** 2 + left[0] * nodes[0],
                        spread.others * taken[1] ** 2 + left[1] * nodes[1],
                    ),
                    (
                        spread.own * taken[0] ** 2 + left[0] * person[0],
                        spread.own * taken[1] ** 2 + left[1] * person[1],
                    ),
                )
            )
        return found[::-1]

    def _children(self, level: int) -> tuple[int, int]:
        """Children of a whole node of a level, and of the last one."""
        ratio = self.tree.runs[level] // self.tree.runs[level + 1]
        return ratio, self.tree.nodes(level + 1) - (self.tree.nodes(level) - 1) * ratio

    def _last_people(self, below: Floats) -> list[Floats]:
        """Σ own·part² over all people in the last node of every level, for d = 1."""
        tree, depth = self.tree, self.tree.depth
        found: list[Floats] = []
        finer: Floats = np.zeros(below.shape[:-1])
        inside = np.zeros(below.shape[:-1])
        for level in range(depth, 0, -1):
            tau, held = self.precision[level - 1], self._levels[level - 1]
            here = below[..., -1] - below[..., (tree.nodes(level) - 1) * tree.runs[level]]
            taken = held.size[1] * tau
            person = self._levels[level].person[0] if level < depth else 0.0
            finer = self.spreads[level - 1].own * taken**2 * here + (1 - taken) ** 2 * (
                (here - inside) * person + finer
            )
            inside = here
            found.append(finer)
        return found[::-1]

    def _rows(self, upto: bool, below: Floats | None) -> Iterator[tuple[slice, _Row]]:
        """Rows by rows, the end of every path; with people where `below` counts them."""
        counted = None
        if below is not None and any(spread.own for spread in self.spreads):
            counted = below, self._last_people(below)
        for start in range(0, self.tree.size, _ROWS_AT_ONCE):
            rows = slice(start, min(start + _ROWS_AT_ONCE, self.tree.size))
            yield rows, self._down(np.arange(rows.start, rows.stop), upto, counted)

    def _up(self, cells: NDArray[np.int64], upto: bool) -> tuple[list[Floats], Floats]:
        """The sums of the nodes on each path, levels 1 to the last, and the centre."""
        tree, depth = self.tree, self.tree.depth
        sums = [np.full(len(cells), self._levels[-1].size[0])]
        for level in range(depth - 1, -1, -1):
            here, below = cells // tree.runs[level], cells // tree.runs[level + 1]
            before = below - here * (tree.runs[level] // tree.runs[level + 1])
            held = self._levels[level]  # of the level below
            joined = sums[-1] + (before * held.size[0] if upto else 0.0)
            if level == 0:
                _, last = self._children(0)
                return sums[::-1], joined / ((last - 1) * held.size[0] + held.size[1])
            nodes = self._levels[level - 1]
            sums.append(joined * np.where(here == tree.nodes(level) - 1, *nodes.shrink[::-1]))
        raise AssertionError("a tree has a root")

    def _down(
        self,
        cells: NDArray[np.int64],
        upto: bool,
        counted: tuple[Floats, list[Floats]] | None,
    ) -> _Row:
        """Parts along each path, and what the nodes beside it add."""
        tree = self.tree
        sums, centre = self._up(cells, upto)
        above = centre
        nodes, path = np.zeros(len(cells)), np.zeros(len(cells))
        inside, outside = np.zeros(len(cells)), np.full(len(cells), -np.inf)
        people = None if counted is None else np.zeros((*counted[0].shape[:-1], len(cells)))
        for level in range(1, tree.depth + 1):
            held, spread = self._levels[level - 1], self.spreads[level - 1]
            ratio, short = self._children(level - 1)
            parent, here = cells // tree.runs[level - 1], cells // tree.runs[level]
            is_last = here == tree.nodes(level) - 1
            at_end = parent == tree.nodes(level - 1) - 1
            before = here - parent * ratio
            after = np.where(at_end, short, ratio) - 1 - before
            beside_last = at_end & ~is_last  # the last node of the level is beside the path
            left, right = (above - 1.0 if upto else above) ** 2, above**2
            part = (sums[level - 1] - above * np.where(is_last, *held.size[::-1])) * (
                self.precision[level - 1]
            )
            nodes += held.nodes[0] * (before * left + (after - beside_last) * right)
            nodes += held.nodes[1] * beside_last * right + spread.others * part**2
            if counted is None:
                whole, last = (path + person * right for person in held.person)
                outside = np.maximum(outside, np.where(after > beside_last, whole, -np.inf))
                outside = np.maximum(outside, np.where(beside_last, last, -np.inf))
                sides = np.where(before > 0, path + held.person[0] * left, -np.inf)
                if upto:
                    inside = np.maximum(inside, sides)
                else:
                    outside = np.maximum(outside, sides)
            path += spread.own * part**2
            if counted is not None and people is not None:
                below, ends = counted
                run, wide, size = tree.runs[level], tree.runs[level - 1], tree.size
                first = below[..., here * run]
                end = below[..., np.minimum((here + 1) * run, size)]
                rest = below[..., np.minimum((parent + 1) * wide, size)] - end
                short_of = below[..., -1:] - below[..., (tree.nodes(level) - 1) * run, None]
                people += held.person[0] * (first - below[..., parent * wide]) * left
                people += held.person[0] * (rest - beside_last * short_of) * right
                people += ends[level - 1][..., None] * beside_last * right
                people += spread.own * part**2 * (end - first)
            above = above + part
        return _Row(centre, nodes, (np.maximum(inside, path), outside), people)


def halved_paths(size: int, scales: Sequence[float], *, upto: bool) -> tuple[Floats, Floats]:
    """The centre of every cell or prefix on a Haar tree, and Σ scale·β² over all its nodes.

    β is half the difference of a node's two halves, which is 0 off the path to the cell.

    Args:
        size: Number of cells.
        scales: The factor of β² at levels 1 to the last.
        upto: Whether rows are prefixes 0..x rather than single cells x.
    """
    here, count = np.arange(size), size
    mean, found = np.ones(size), np.zeros(size)
    for scale in reversed(scales):
        is_right = here % 2 == 1
        alone = (here % 2 == 0) & (here == count - 1)  # a last node without a right half
        left = np.where(is_right, float(upto), mean)
        right = np.where(is_right | alone, mean, 0.0)
        found += scale * ((left - right) / 2) ** 2
        mean = (left + right) / 2
        here, count = here // 2, -(-count // 2)
    return mean, found
