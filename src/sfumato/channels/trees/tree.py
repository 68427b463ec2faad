"""Trees over the cells of an axis, and questions spread over the nodes of all levels.

What people say about a node at one level says something about its ancestors and descendants too.
Weights w over cells may be read from any parts b that add up to them, w(x) = c + Σ b(node of x), a
sum over all levels; c, on the root, has no error as everyone is there. Generalised least squares
takes the parts with the smallest Σ |b|²/τ, where τ is how precisely a node of that level is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats

Levels = tuple[int, ...]

_RELATIVE = 1e-13
_MOST_STEPS = 1000


@dataclass(frozen=True, slots=True)
class Tree:
    """Runs of neighbouring cells: level 0 is the whole axis, the last level single cells.

    Attributes:
        size: Number of cells.
        runs: Cells of a node at each level, every one a multiple of the next; the last node of a
            level may be shorter.

    Example:
        >>> tree = Tree.branching(10, 4)
        >>> tree.runs, [tree.nodes(level) for level in range(3)]
        ((16, 4, 1), [1, 3, 10])
    """

    size: int
    runs: tuple[int, ...]

    @classmethod
    def branching(cls, size: int, branching: int) -> Tree:
        """The fewest levels that reach every cell with this many children per node.

        Args:
            size: Number of cells.
            branching: Children of a node.
        """
        runs = [1]
        while runs[-1] < size:
            runs.append(runs[-1] * min(branching, size))
        return cls(size, tuple(reversed(runs)))

    @classmethod
    def flat(cls, size: int) -> Tree:
        """All cells are children of the root: for cells without neighbours."""
        return cls(size, (size, 1))

    @property
    def depth(self) -> int:
        """Levels below the root."""
        return len(self.runs) - 1

    def nodes(self, level: int) -> int:
        """How many nodes a level has."""
        return -(-self.size // self.runs[level])

    def join(self, values: NDArray[Any], level: int, axis: int, *, fine: int = -1) -> NDArray[Any]:
        """Sums over the nodes of a level, from values at a finer one.

        Args:
            values: Values at nodes of the finer level.
            level: The coarser level.
            axis: Which axis of the array.
            fine: The finer level; by default single cells.
        """
        ratio = self.runs[level] // self.runs[fine]
        count = values.shape[axis]
        if ratio == 1:
            return values
        if ratio >= count:
            ratio = count
        joined: NDArray[Any] = np.add.reduceat(values, np.arange(0, count, ratio), axis=axis)
        return joined

    def spread(
        self, values: NDArray[Any], level: int, axis: int, *, fine: int = -1
    ) -> NDArray[Any]:
        """Every node's value at each of its descendants of a finer level.

        Args:
            values: Values at nodes of the coarser level.
            level: The coarser level.
            axis: Which axis of the array.
            fine: The finer level; by default single cells.
        """
        ratio = self.runs[level] // self.runs[fine]
        if ratio == 1:
            return values
        wide = np.repeat(values, min(ratio, self.nodes(fine)), axis=axis)
        kept = [slice(None)] * wide.ndim
        kept[axis] = slice(self.nodes(fine))
        return wide[tuple(kept)]


def grid_trees(shape: Sequence[int], ordered: Sequence[bool], branching: int) -> tuple[Tree, ...]:
    """One per axis: whole nodes where cells have neighbours, else roots and leaves.

    Args:
        shape: Cells along every axis.
        ordered: Which axes have neighbours.
        branching: Children of a node.
    """
    return tuple(
        Tree.branching(size, branching) if is_ordered else Tree.flat(size)
        for size, is_ordered in zip(shape, ordered, strict=True)
    )


def least_parts(
    tree: Tree, precision: Sequence[float], weights: NDArray[Any]
) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    """Least squares on one tree: c, and the parts of levels 1 to the last, in linear time.

    With τ the precision of a level, u solves (Σ τ·AᵀA)u + c = w, Σu = 0, where A sums over nodes,
    and b = τ·Au. A subtree's matrix is that of its children beside each other plus τ everywhere, so
    one pass up gives the sums of its inverse (Sherman–Morrison) and one pass down those of u.

    Args:
        tree: The tree.
        precision: τ of levels 1 to the last.
        weights: One per cell along the last axis.
    """
    depth = tree.depth
    tau = [0.0, *precision]
    sums, sizes = [weights / tau[depth]], [np.full(tree.size, 1.0 / tau[depth])]
    for level in range(depth - 1, 0, -1):
        size = tree.join(sizes[-1], level, -1, fine=level + 1)
        shrink = 1 / (1 + tau[level] * size)
        sums.append(tree.join(sums[-1], level, -1, fine=level + 1) * shrink)
        sizes.append(size * shrink)
    centre = sums[-1].sum(axis=-1, keepdims=True) / sizes[-1].sum()
    above, parts = centre, []
    for level in range(1, depth + 1):
        if level > 1:
            above = tree.spread(above, level - 1, -1, fine=level)
        part = (sums[depth - level] - above * sizes[depth - level]) * tau[level]
        above = above + part
        parts.append(part)
    return centre, parts


def least_grid_parts(
    trees: Sequence[Tree], precision: Floats, weights: Floats
) -> tuple[Floats, dict[Levels, Floats]]:
    """The same over several axes, where a node is a box: one node of some level on each axis.

    Conjugate gradients, helped by the inverse for axes filled up to whole trees, which is known in
    closed form: where all trees are whole one step is enough. What is left of w in the end is put
    on the single cells, so parts add up to the weights whatever the accuracy.

    Args:
        trees: One per axis.
        precision: τ by the level on each axis; the first entry, that of the root, does not count.
        weights: Any number of leading axes, then one axis a tree.
    """
    lead = weights.ndim - len(trees)
    axes = tuple(range(lead, weights.ndim))
    tau = precision.copy()
    tau[(0,) * len(trees)] = 0.0
    scale = _whole_eigenvalues(trees, tau)

    def centred(values: Floats) -> Floats:
        result: Floats = values - values.mean(axis=axes, keepdims=True)
        return result

    def gram(u: Floats) -> Floats:
        return _by_levels(trees, tau, u, lead, 0)

    def helped(values: Floats) -> Floats:
        return centred(_whole_inverse(trees, scale, values, lead))

    def dot(a: Floats, b: Floats) -> Floats:
        product_: Floats = (a * b).sum(axis=axes, keepdims=True)
        return product_

    left = centred(weights)
    u = np.zeros_like(left)
    most = dot(left, left) * _RELATIVE**2
    ahead = helped(left)
    step = ahead
    slope = dot(left, ahead)
    for _ in range(_MOST_STEPS):
        open_ = dot(left, left) > most
        if not open_.any():
            break
        pushed = centred(gram(step))
        bend = dot(step, pushed)
        length = np.divide(slope, bend, out=np.zeros_like(bend), where=open_ & (bend > 0))
        u = u + length * step
        left = left - length * pushed
        ahead = helped(left)
        turned = dot(left, ahead)
        ratio = np.divide(turned, slope, out=np.zeros_like(slope), where=open_ & (slope > 0))
        step, slope = ahead + ratio * step, turned
    parts: dict[Levels, Floats] = {}
    _by_levels(trees, tau, u, lead, 0, parts.__setitem__)
    rest = weights - _total(trees, parts, lead)
    centre = rest.mean(axis=axes, keepdims=True)
    parts[tuple(tree.depth for tree in trees)] += rest - centre
    return centre, parts


def plain_parts(trees: Sequence[Tree], weights: Floats) -> tuple[Floats, dict[Levels, Floats]]:
    """Without least squares: the largest nodes on which the weights do not vary, axis by axis.

    A range becomes the fewest nodes that make it up.

    Args:
        trees: One per axis.
        weights: Any number of leading axes, then one axis per tree.
    """
    lead = weights.ndim - len(trees)
    parts: dict[Levels, Floats] = {(): weights}
    for place, tree in enumerate(trees):
        parts = {
            (*levels, level): part
            for levels, held in parts.items()
            for level, part in enumerate(_largest_nodes(tree, held, lead + place))
        }
    return parts.pop((0,) * len(trees)), parts


def _largest_nodes(tree: Tree, values: Floats, axis: int) -> list[Floats]:
    """For one axis, what each level takes; equal means equal along all later axes."""
    later = tuple(range(axis + 1, values.ndim))
    held = [values]
    even = [np.ones_like(values, dtype=np.bool_).all(axis=later, keepdims=True)]
    for level in range(tree.depth - 1, -1, -1):
        starts = np.arange(0, held[-1].shape[axis], tree.runs[level] // tree.runs[level + 1])
        first = np.take(held[-1], starts, axis=axis)
        same = held[-1] == tree.spread(first, level, axis, fine=level + 1)
        alike = even[-1] & same.all(axis=later, keepdims=True)
        even.append(np.logical_and.reduceat(alike, starts, axis=axis))
        held.append(first)
    taken: list[Floats] = []
    above = np.zeros((1,) * values.ndim, dtype=np.bool_)
    for level in range(tree.depth + 1):
        if level:
            above = tree.spread(above, level - 1, axis, fine=level)
        here = even[tree.depth - level] & ~above
        taken.append(np.where(here, held[tree.depth - level], 0.0))
        above = np.broadcast_to(above | here, here.shape)
    return taken


def _by_levels(
    trees: Sequence[Tree],
    tau: Floats,
    values: Floats,
    lead: int,
    place: int,
    keep: Callable[[Levels, Floats], None] | None = None,
    levels: Levels = (),
) -> Floats:
    """Σ over all tuples of levels of τ·AᵀA; `keep` is handed every τ·A of the values."""
    if place == len(trees):
        held: Floats = values * tau
        if keep is not None and any(levels):
            keep(levels, held)
        return held
    tree, axis = trees[place], lead + place
    joined = [values]
    for level in range(tree.depth - 1, -1, -1):
        joined.append(tree.join(joined[-1], level, axis, fine=level + 1))
    result: Floats | None = None
    for level in range(tree.depth + 1):
        part = _by_levels(
            trees, tau[level], joined[tree.depth - level], lead, place + 1, keep, (*levels, level)
        )
        wide = None if result is None else tree.spread(result, level - 1, axis, fine=level)
        result = part if wide is None else wide + part
    assert result is not None  # noqa: S101 - every tree has a root
    return result


def _total(trees: Sequence[Tree], parts: dict[Levels, Floats], lead: int) -> Floats:
    """All parts at every cell."""
    total: Any = 0.0
    for levels, part in parts.items():
        wide = part
        for place, (tree, level) in enumerate(zip(trees, levels, strict=True)):
            wide = tree.spread(wide, level, lead + place)
        total = total + wide
    result: Floats = total
    return result


def _whole_eigenvalues(trees: Sequence[Tree], tau: Floats) -> Floats:
    """Of Σ τ·AᵀA over whole trees, on what a level on each axis adds to the level above."""
    result = tau * whole_counts(trees)
    for axis in range(result.ndim):
        result = np.flip(np.cumsum(np.flip(result, axis), axis=axis), axis)
    return result


def whole_counts(trees: Sequence[Tree]) -> Floats:
    """Cells of a whole node, by its levels."""
    result: Floats = np.ones(())
    for tree in trees:
        result = np.multiply.outer(result, np.array(tree.runs, dtype=np.float64))
    return result


def _whole_inverse(trees: Sequence[Tree], scale: Floats, values: Floats, lead: int) -> Floats:
    """Divide what each level adds to the level above by its eigenvalue; none for the root."""
    padding = [(0, 0)] * lead + [(0, tree.runs[0] - tree.size) for tree in trees]
    whole = [Tree(tree.runs[0], tree.runs) for tree in trees]
    padded = np.pad(values, padding) if any(after for _, after in padding) else values
    result = _divided(whole, scale, padded, lead, 0, root=True)
    for place, tree in enumerate(trees):
        result = np.moveaxis(np.moveaxis(result, lead + place, 0)[: tree.size], 0, lead + place)
    return result


def _divided(
    trees: Sequence[Tree], scale: Floats, values: Floats, lead: int, place: int, *, root: bool
) -> Floats:
    """One axis of the inverse: means of all levels, differences between them, and back."""
    if place == len(trees):
        divided: Floats = np.zeros_like(values) if root else values / scale
        return divided
    tree, axis = trees[place], lead + place
    means = [values]
    for level in range(tree.depth - 1, -1, -1):
        ratio = tree.runs[level] // tree.runs[level + 1]
        means.append(tree.join(means[-1], level, axis, fine=level + 1) / ratio)
    result = _divided(trees, scale[0], means[-1], lead, place + 1, root=root)
    for level in range(1, tree.depth + 1):
        above = tree.spread(means[tree.depth - level + 1], level - 1, axis, fine=level)
        added = means[tree.depth - level] - above
        part = _divided(trees, scale[level], added, lead, place + 1, root=False)
        result = tree.spread(result, level - 1, axis, fine=level) + part
    return result


def fitting_branching(size: int) -> int:
    """The branching from 3 to 7 whose tree has the fewest places beyond the cells.

    Trees of these branchings are about equally accurate where they are full, and lose where their
    highest levels have few nodes.

    Example:
        >>> [fitting_branching(size) for size in (16, 100, 256, 300, 2_048)]
        [4, 5, 4, 7, 3]
    """
    return min(range(3, 8), key=lambda branching: Tree.branching(size, branching).runs[0])


def level_tuples(trees: Sequence[Tree]) -> list[Levels]:
    """All combinations of levels but that of all roots, the last axis changing fastest."""
    found = product(*(range(tree.depth + 1) for tree in trees))
    return [levels for levels in found if any(levels)]
