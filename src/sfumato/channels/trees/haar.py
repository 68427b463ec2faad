"""HaarHRR: Haar coefficients of one random level, reported by Hadamard randomised response.

The cells of an axis are halved again and again. At every level a cell lies in one node, and in its
left half (+1) or its right half (−1): that signed node is what people tell.

Guarantee:
    E(x, x') = ε for every pair, exact for the integer tables, and tight (see `levels`). A signed
    node goes through HRR with the sign turned for the right half: the chance of a flip is the same.

Estimator:
    With β[v] half the difference of the mean weights on both sides of node v, w(x) = c + Σ ±β[v]
    over the nodes of x, and f = c ± s·Σ_v β[v]·H[v, j]/p is unbiased, the only reading there is.
    E[(f − c)² | x] = Σ s²·Σβ²/p over all levels, for every x. Where a node has no right half its β
    is zero. Over several axes the basis is the product of theirs; an axis without neighbours has
    its mean, and what single cells differ from it.

References:
    Cormode et al. 2019, §4.6; c_0 there is 1/D for fractions, and the variance lacks the sampling
    of levels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import Cells, Floats
from sfumato.channels.base import as_weights
from sfumato.channels.choice import Trial, uniform_trials
from sfumato.channels.code import Code, Value
from sfumato.channels.hrr import HRRChannel
from sfumato.channels.trees.chances import (
    checked_chances,
    range_energies,
    rounded_chances,
    settled_chances,
    words_of,
    written_chances,
)
from sfumato.channels.trees.levels import (
    Level,
    LevelsChoice,
    SymbolLevels,
    axis_codes,
    checked_tuples,
    level_words,
    refuse_outputs,
)
from sfumato.channels.trees.paths import halved_paths
from sfumato.channels.trees.tree import Levels, Tree, grid_trees
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import BitSource
from sfumato.randomness.draws import Steps


@dataclass(frozen=True, slots=True)
class HaarHRR(LevelsChoice):
    """Choose Haar coefficients by Hadamard response; it fits `Uniform`, on axes with neighbours.

    Args:
        levels: The chance of each level, the coarsest first; by default all equal. "optimised" has
            the smallest mean variance over random ranges.

    Example:
        >>> import sfumato as sf
        >>> axis = sf.integers("age", 0, 255, protect=sf.Uniform(1), channel=sf.HaarHRR())
        >>> study = sf.Study("ages", [axis])
        >>> tally = study.simulate({"age": [30] * 6_000 + [70] * 4_000}, seed=3)
        >>> answer = tally.estimate("unbiased").count({"age": (25, 60)})
        >>> answer.low < 6_000 < answer.high
        True
    """

    id: ClassVar[str] = "haar-hrr"
    revision: ClassVar[int] = 2
    levels: Any = None

    def __post_init__(self) -> None:
        """Check the chances."""
        object.__setattr__(self, "levels", checked_chances(self.levels))

    def bind_grid(
        self,
        metric: UniformMetric,
        shape: tuple[int, ...],
        ordered: tuple[bool, ...],
        *,
        precision: int = 64,
    ) -> HaarChannel:
        """Products of the axes' bases: some level on every axis.

        Args:
            metric: One ε for any two cells of the grid.
            shape: Cells along every axis.
            ordered: Which axes have neighbouring cells.
            precision: How many bits of a random word take part.
        """
        self._check_grid(metric, shape, ordered)
        trees = grid_trees(shape, ordered, 2)
        axes = tuple(HaarAxis(tree, halves) for tree, halves in zip(trees, ordered, strict=True))
        parts = []
        for levels in checked_tuples(trees):
            nodes = math.prod(axis.nodes(level) for axis, level in zip(axes, levels, strict=True))
            here = UniformMetric(metric.epsilon, nodes)
            parts.append(HaarLevel(levels, axes, HRRChannel(metric=here, precision=precision)))
        outputs = sum(part.outputs for part in parts)
        refuse_outputs("HaarHRR", metric.size, outputs, "Use HRR(), or fewer cells")
        chances = settled_chances(self.levels, len(parts), level_words(trees, shape))
        if chances is None:
            # Σβ² is a level's energy over the cells of a node; p ∝ √Σβ² has the least Σ Σβ²/p.
            energies = range_energies(trees, ordered)
            roots = [math.sqrt(energies[part.levels] / part.cells_of_node) for part in parts]
            total = 0.0
            for root in roots:
                total += root
            chances = rounded_chances([root / total for root in roots])
        return HaarChannel(
            metric=metric,
            precision=precision,
            parts=tuple(parts),
            level_words=tuple(words_of(chances, precision)),
        )

    def options(self) -> dict[str, Any]:
        """The chances, where they are given."""
        return {} if self.levels is None else {"levels": written_chances(self.levels)}

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """Whole trees and others, even and optimised levels, small ε, and grids."""
        return (
            *uniform_trials(cls(), (2, 5, 8), (3, 2), (2, 2, 3)),
            *uniform_trials(cls(levels="optimised"), (6,), (4, 2)),
            *uniform_trials(cls(), (4,), epsilon="1/10"),
        )


@dataclass(frozen=True, slots=True)
class HaarAxis:
    """One axis: level 0 its mean, then differences of halves, or without order of single cells."""

    tree: Tree
    halves: bool

    def nodes(self, level: int) -> int:
        """Nodes of a level, filled up to a power of two."""
        if not level:
            return 1
        fine = 1 << (self.tree.nodes(level) - 1).bit_length()
        return self.tree.runs[0] // self.tree.runs[level] // 2 if self.halves else fine

    def place(self, codes: NDArray[np.int64], level: int) -> tuple[Any, Any]:
        """Node, and 1 in its right half.

        Args:
            codes: Cells along this axis.
            level: The level.
        """
        if not level:
            return 0, 0
        fine = codes // self.tree.runs[level]
        return (fine >> 1, fine & 1) if self.halves else (fine, 0)

    def sums(self, values: Floats, level: int, axis: int) -> Floats:
        """Over the nodes of a level, right halves counted negative; zero where there is none.

        Args:
            values: Values at cells along one axis of the array.
            level: The level.
            axis: Which axis of the array.
        """
        if not level:
            return self.tree.join(values, 0, axis)
        fine = _along(self.tree.join(values, level, axis), axis)
        if self.halves:
            fine = _filled(fine, 2 * self.nodes(level))
            return np.moveaxis(fine[..., 0::2] - fine[..., 1::2], -1, axis)
        return np.moveaxis(_filled(fine, self.nodes(level)), -1, axis)

    def at_cells(self, values: Floats, level: int, axis: int) -> Floats:
        """Every node's value at its cells, negative in right halves.

        Args:
            values: Values of nodes along one axis of the array.
            level: The level.
            axis: Which axis of the array.
        """
        if not level:
            return np.repeat(values, self.tree.size, axis=axis)
        last = _along(values, axis)
        if self.halves:
            last = np.stack([last, -last], axis=-1).reshape(*last.shape[:-1], -1)
        kept = np.moveaxis(last[..., : self.tree.nodes(level)], -1, axis)
        wide: Floats = self.tree.spread(kept, level, axis)
        return wide

    def details(self, values: Floats, axis: int) -> list[Floats]:
        """The mean, and what each level adds to it, by nodes.

        Args:
            values: Weights at cells along one axis of the array.
            axis: Which axis of the array.
        """
        means = _along(values, axis)
        if not self.halves:
            centre = means.mean(axis=-1, keepdims=True)
            found = [_filled(means - centre, self.nodes(1)), centre]
        else:
            found = []
            for level in range(self.tree.depth, 0, -1):
                left, right = means[..., 0::2], means[..., 1::2]
                if right.shape[-1] < left.shape[-1]:  # the last node has no right half
                    right = np.concatenate([right, left[..., -1:]], axis=-1)
                found.append(_filled((left - right) / 2, self.nodes(level)))
                means = (left + right) / 2
            found.append(means)
        return [np.moveaxis(part, -1, axis) for part in reversed(found)]

    def gathered(self, parts: Sequence[Floats], axis: int) -> Floats:
        """The transpose of `details`: cells from what was gathered at every level.

        Args:
            parts: What was gathered, by level.
            axis: Which axis of the arrays.
        """
        cells, *finer = (_along(part, axis) for part in parts)
        for level, part in enumerate(finer, start=1):
            count = self.tree.nodes(level)
            if not self.halves:
                part = part[..., :count]
                cells = part + (cells - part.sum(axis=-1, keepdims=True)) / count
                continue
            part = part[..., : cells.shape[-1]]
            both = np.stack([cells + part, cells - part], axis=-1) / 2
            both = both.reshape(*part.shape[:-1], -1)
            cells = both[..., :count]
            if count < both.shape[-1]:  # the last node has no right half
                cells[..., -1] += both[..., -1]
        return np.moveaxis(cells, -1, axis)


def _along(values: Floats, axis: int) -> Floats:
    """The axis to work on, put last."""
    return np.moveaxis(values, axis, -1)


def _filled(values: Floats, size: int) -> Floats:
    """Zeros after the last entry."""
    if values.shape[-1] == size:
        return values
    result = np.zeros((*values.shape[:-1], size))
    result[..., : values.shape[-1]] = values
    return result


@dataclass(frozen=True, eq=False)
class HaarLevel(Level):
    """Signed nodes of some level on each axis, by HRR with the sign turned in right halves."""

    levels: Levels
    axes: tuple[HaarAxis, ...]
    inner: HRRChannel

    @property
    def shape(self) -> tuple[int, ...]:
        """Nodes along each axis."""
        return tuple(a.nodes(level) for a, level in zip(self.axes, self.levels, strict=True))

    @property
    def cells_of_node(self) -> int:
        """Cells of a whole node."""
        result = 1
        for axis, level in zip(self.axes, self.levels, strict=True):
            result *= axis.tree.runs[level] * (2 if axis.halves and level else 1)
        return result

    def places(self, cells: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Each cell's node, and 1 where its sign is turned."""
        node, turned = np.zeros_like(cells), np.zeros_like(cells)
        codes = axis_codes(cells, [axis.tree.size for axis in self.axes])
        for code, axis, level in zip(codes, self.axes, self.levels, strict=True):
            here, side = axis.place(code, level)
            node = node * axis.nodes(level) + here
            turned ^= side
        return node, turned

    def encode(self, cells: NDArray[np.int64], bits: BitSource) -> Cells:
        """The node's symbol, its last bit being the sign.

        Args:
            cells: One cell per person.
            bits: Where randomness comes from.
        """
        node, turned = self.places(cells)
        return self.inner.encode(node, bits).astype(np.int64) ^ turned

    def steps(self, cells: NDArray[np.int64]) -> Steps:
        """Those of HRR for the node, with the sign turned in right halves."""
        node, turned = self.places(cells)
        symbols = yield from self.inner.steps(node)
        return symbols ^ turned

    def device_code(self, code: Code, cell: Value) -> Value:
        """That of HRR for the node, with the sign turned in right halves.

        Args:
            code: Where instructions are added.
            cell: The cell of the grid.
        """
        node, turned = code.constant(0), code.constant(0)
        places = code.unravelled(cell, [axis.tree.size for axis in self.axes])
        for place, axis, level in zip(places, self.axes, self.levels, strict=True):
            node = node * axis.nodes(level)
            if level:
                fine = place // axis.tree.runs[level]
                node = node + (fine >> 1 if axis.halves else fine)
                turned = turned ^ fine % 2 if axis.halves else turned
        return self.inner.device_code(code, node) ^ turned

    def mix(self, law: Floats) -> Floats:
        """Every column with the same chance, and its sign from the transform of the signed law."""
        lead = law.shape[:-1]
        held = law.reshape(*lead, *(axis.tree.size for axis in self.axes))
        for place, (axis, level) in enumerate(zip(self.axes, self.levels, strict=True)):
            held = axis.sums(held, level, len(lead) + place)
        signed = held.reshape(*lead, -1)
        everyone = law.sum(axis=-1, keepdims=True) - signed.sum(axis=-1, keepdims=True)
        result: Floats = self.inner.mix(signed) + everyone / self.outputs
        return result

    def expect(self, table: Floats) -> Floats:
        """The mean over all outputs, and what the sign adds or takes at each cell."""
        mean = table.mean(axis=-1, keepdims=True)
        result: Floats = mean + self._at_cells(self.inner.expect(table) - mean)
        return result

    def rows(self) -> tuple[list[list[int]], int]:
        """Those of HRR, with the two signs of each column exchanged where the sign is turned."""
        rows, total = self.inner.words()
        cells = np.arange(math.prod(axis.tree.size for axis in self.axes))
        node, turned = self.places(cells)
        exchanged = [[row[place ^ 1] for place in range(len(row))] for row in rows]
        pairs = zip(node.tolist(), turned.tolist(), strict=True)
        return [(exchanged if side else rows)[here] for here, side in pairs], total

    def report_likelihood(self, symbols: NDArray[np.int64]) -> Floats:
        """The chance of the sign, whatever the chance of its column."""
        both = self.inner.report_likelihood(symbols)
        middle = 0.5  # the two signs' chances add up to one
        result: Floats = middle + self._at_cells(both - middle)
        return result

    def _at_cells(self, values: Floats) -> Floats:
        """Values of nodes along the last axis, at each cell with its sign."""
        lead = values.shape[:-1]
        wide: Floats = values.reshape(*lead, *self.shape)
        for place, (axis, level) in enumerate(zip(self.axes, self.levels, strict=True)):
            wide = axis.at_cells(wide, level, len(lead) + place)
        return wide.reshape(*lead, -1)


@dataclass(frozen=True, kw_only=True, eq=False)
class HaarChannel(SymbolLevels):
    """Signed nodes of all levels."""

    id: ClassVar[str] = "haar-hrr"
    metric: UniformMetric
    precision: int = 64
    parts: tuple[HaarLevel, ...]
    level_words: tuple[int, ...]

    def node_parts(self, weights: Floats) -> tuple[Floats, dict[Levels, Floats]]:
        """c, and β of every node: together they are the weights at each cell.

        Args:
            weights: One row per question, one column per cell.
        """
        axes: Sequence[HaarAxis] = self.parts[0].axes
        grid = weights.reshape(len(weights), *(axis.tree.size for axis in axes))
        parts: dict[Levels, Floats] = {(): grid}
        for place, axis in enumerate(axes):
            parts = {
                (*levels, level): part
                for levels, held in parts.items()
                for level, part in enumerate(axis.details(held, 1 + place))
            }
        flat = {levels: part.reshape(len(weights), -1) for levels, part in parts.items()}
        return flat.pop((0,) * len(axes)), flat

    def gather(self, profile: Floats) -> Floats:
        """Every level's transform, and the levels put together from the coarsest on."""
        flat = profile.reshape(-1, self.outputs)
        result = np.empty((len(flat), self.size))
        for rows in self.batches(len(flat)):
            result[rows] = self._put_together(flat[rows])
        return result.reshape(*profile.shape[:-1], self.size)

    def _put_together(self, profile: Floats) -> Floats:
        """Gathered cells, one row per profile."""
        axes: Sequence[HaarAxis] = self.parts[0].axes
        parts: dict[Levels, Floats] = {}
        parts[(0,) * len(axes)] = profile.sum(axis=-1).reshape(-1, *(1 for _ in axes))
        for number, (part, chance) in enumerate(zip(self.parts, self.chances, strict=True)):
            symbols = profile[:, self._symbols(number)]
            along = part.inner.to_cells(symbols[:, 0::2] - symbols[:, 1::2])
            parts[part.levels] = (along * (part.inner.scale / chance)).reshape(-1, *part.shape)
        for place in range(len(axes) - 1, -1, -1):
            above = dict.fromkeys(levels[:-1] for levels in parts)
            depth = axes[place].tree.depth
            parts = {
                levels: axes[place].gathered(
                    [parts[*levels, level] for level in range(depth + 1)], 1 + place
                )
                for levels in above
            }
        return parts[()].reshape(len(profile), -1)

    def _readings(self, weights: Floats) -> Iterator[Floats]:
        """Both signs of a column side by side: c ± s·(transform of β)/p."""
        centre, parts = self.node_parts(weights)
        for part, chance in zip(self.parts, self.chances, strict=True):
            along = part.inner.to_columns(parts[part.levels]) * (part.inner.scale / chance)
            yield np.stack([centre + along, centre - along], axis=-1).reshape(len(along), -1)

    def second_moment(self, weights: ArrayLike) -> Floats:
        """(f − c)² has the same mean for everyone, so only 2c(f − c) + c² tells cells apart."""
        w = as_weights(weights, self.size)
        flat = w.reshape(-1, self.size)
        result = np.empty_like(flat)
        for rows in self.batches(len(flat)):
            centre, parts = self.node_parts(flat[rows])
            spread = np.zeros_like(centre)
            for part, chance in zip(self.parts, self.chances, strict=True):
                squares = np.sum(parts[part.levels] ** 2, axis=-1, keepdims=True)
                spread += part.inner.scale**2 / chance * squares
            result[rows] = spread + centre * (2 * (flat[rows] - centre) + centre)
        return result.reshape(w.shape)

    def all_squares(self, profile: Floats, *, upto: bool) -> Floats:
        """On one tree over the gathered cells, by the exact second moment.

        Args:
            profile: Sums by output along the last axis.
            upto: Whether rows are prefixes 0..x rather than single cells x.
        """
        if not self._has_paths:
            return super().all_squares(profile, upto=upto)
        people = self.gather(profile)
        centre, spread = self._path_moments(upto)
        everyone = people.sum(axis=-1, keepdims=True)
        inside = np.cumsum(people, axis=-1) if upto else people
        result: Floats = everyone * (spread - centre**2) + 2 * centre * inside
        return result

    def all_peaks(self, *, upto: bool) -> tuple[Floats, Floats]:
        """On one tree exact: everyone inside has the same second moment, all others a smaller one.

        Args:
            upto: Whether rows are prefixes 0..x rather than single cells x.
        """
        if not self._has_paths:
            return super().all_peaks(upto=upto)
        centre, spread = self._path_moments(upto)
        return spread + centre * (2 - centre), np.ones(self.size)

    @property
    def _has_paths(self) -> bool:
        """Whether squares have a formula: on one ordered axis."""
        axes = self.parts[0].axes
        return len(axes) == 1 and axes[0].halves

    def _path_moments(self, upto: bool) -> tuple[Floats, Floats]:
        """c, and Σ of squared parts, of every cell or prefix."""
        shares = zip(self.parts, self.chances, strict=True)
        scales = [part.inner.scale**2 / chance for part, chance in shares]
        return halved_paths(self.size, scales, upto=upto)
