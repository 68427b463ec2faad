"""Hierarchical histograms by unary codes (TreeOUE): one noisy bit per node of one random level.

A report has one bit for every level, of which the drawn one is set, and one bit for every node. The
nodes of the drawn level are sent by optimised unary encoding, all others are zero. So reports of
all levels have the same length, and a reading is a sum over bits.

Guarantee:
    As `levels`: the level is drawn without looking at the cell, bits of other levels are constant,
    and those of the drawn level keep E = ε by `OUEChannel`, exactly and tightly.

Estimator:
    With L_l the bit of level l, p_l its chance, and b_l what is read from its nodes, of mean zero,
    f = c + Σ_l L_l·f_l(b_l)/p_l with f_l of OUE. The variance at cell x, whose node at level l has
    b_l(x), is V·Σ_l |b_l|²/p_l + 2·Σ_l b_l(x)²/p_l − (Σ_l b_l(x))², V = 4e^ε/(e^ε − 1)²: the flips,
    the own bit and the draw of the level.

References:
    Cormode et al. 2019, §4.4 and §5 (TreeOUE, and TreeOUECI with `consistency`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate, pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import LANES, BitColumns, Cells, Floats, Outputs, words_for
from sfumato.channels.base import as_weights
from sfumato.channels.code import Code, Value, runs
from sfumato.channels.flips import BitChannel, as_bits
from sfumato.channels.trees.boxes import Boxes, BoxesChannel, nodes_of
from sfumato.channels.trees.tree import Levels, Tree
from sfumato.channels.unary import OUEChannel
from sfumato.errors import TooLargeError
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import BitSource
from sfumato.randomness.draws import Pick, Steps

MOST_BITS = 1 << 17
_LANES_AT_ONCE = 1 << 24


@dataclass(frozen=True, eq=False)
class UnaryLevel(Boxes):
    """Boxes that are told by one bit each."""

    inner: OUEChannel


def unary_levels(
    metric: UniformMetric, trees: tuple[Tree, ...], tuples: Sequence[Levels], precision: int
) -> tuple[UnaryLevel, ...]:
    """The levels of a hierarchy, if their reports are not too long to be kept.

    Args:
        metric: One ε for any two cells of the grid.
        trees: One per axis.
        tuples: The levels on all axes that a person may draw.
        precision: How many bits of a random word take part.
    """
    nodes = [nodes_of(trees, levels) for levels in tuples]
    if len(nodes) + sum(nodes) > MOST_BITS:
        raise TooLargeError(
            f"Hierarchical(oracle='oue') on {metric.size:,} cells would send "
            f"{len(nodes) + sum(nodes):,} bits, one for every level and every node; the limit is "
            f"{MOST_BITS:,} bits. Use oracle='olh', which has the same error at a few bytes, or "
            "fewer cells"
        )
    inner = [
        OUEChannel(metric=UniformMetric(metric.epsilon, count), precision=precision)
        for count in nodes
    ]
    return tuple(
        UnaryLevel(levels, trees, oracle) for levels, oracle in zip(tuples, inner, strict=True)
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class UnaryHierarchyChannel(BoxesChannel, BitChannel):
    """For each level in turn its own bit and those of its nodes; only the drawn level has any."""

    id: ClassVar[str] = "hierarchical"
    parts: tuple[UnaryLevel, ...]

    @cached_property
    def starts(self) -> list[int]:
        """The bit of each level, and one past the last bit of all."""
        return list(accumulate((1 + part.inner.width for part in self.parts), initial=0))

    @property
    def width(self) -> int:
        """One bit per level and one per node."""
        return self.starts[-1]

    def encode(self, cells: Cells, bits: BitSource) -> BitColumns:
        """The bit of the drawn level, and its nodes by unary encoding.

        Args:
            cells: One cell per person.
            bits: Where randomness comes from.
        """
        words = np.zeros((self.width, words_for(len(cells))), dtype=np.uint64)
        for here, held, number, people in self.drawn(cells, bits):
            part, start = self.parts[number], self.starts[number]
            told = part.inner.encode(part.nodes(held[people]), bits)
            into = words[:, here.start // LANES : words_for(here.stop)]
            lanes = into.shape[1] * LANES
            mine = np.zeros((1, lanes), dtype=np.bool_)
            mine[0, people] = True
            into[start] |= _packed(mine)[0]
            down = max(1, _LANES_AT_ONCE // lanes)
            for top in range(0, part.inner.width, down):
                some = BitColumns(told.words[top : top + down], len(people)).to_matrix()
                wide = np.zeros((some.shape[1], lanes), dtype=np.bool_)
                wide[:, people] = some.T
                into[start + 1 + top : start + 1 + top + len(wide)] |= _packed(wide)
        return BitColumns(words, len(cells))

    def steps(self, cells: NDArray[np.int64]) -> Steps:
        """A level, and the steps of unary encoding for its nodes."""
        level = yield Pick(self.level_words, self.precision, branches=True)
        told = yield from self.parts[level].steps(cells)
        out = np.zeros((len(cells), self.width), dtype=told.dtype)
        out[:, self.starts[level]] = 1
        out[:, self.starts[level] + 1 : self.starts[level + 1]] = told
        return out

    def device_code(self, code: Code, cell: Value) -> Value:
        """A level, and the code of unary encoding for its nodes.

        Args:
            code: Where instructions are added.
            cell: The cell of the grid.
        """

        def told(part: UnaryLevel, start: int) -> Value:
            return ((part.device_code(code, cell) << 1) + 1) << start

        level = code.pick(runs(self.level_words), self.precision)
        pairs = zip(self.parts, self.starts, strict=False)
        return code.branch(level, [partial(told, part, start) for part, start in pairs])

    def words(self) -> tuple[list[list[int]], int]:
        """Exact word counts of all patterns: those of the level times those of its bits."""
        self.refuse_patterns()
        found = [part.rows() for part in self.parts]
        common = math.lcm(*(total for _, total in found))
        rows = [[0] * (1 << self.width) for _ in range(self.size)]
        for start, chance, (inner, total) in zip(
            self.starts, self.level_words, found, strict=False
        ):
            factor = chance * (common // total)
            for row, told in zip(rows, inner, strict=True):
                for pattern, word in enumerate(told):
                    row[1 << start | pattern << start + 1] = factor * word
        return rows, common << self.precision

    def bit_rates(self) -> Floats:
        """The chance of each level, and that of a one at its nodes times it."""
        found = np.empty((self.size, self.width))
        for number, (part, chance) in enumerate(zip(self.parts, self.chances, strict=True)):
            start, end = self.starts[number], self.starts[number + 1]
            rates = part.inner.bit_rates()
            assert rates is not None  # noqa: S101 - unary encoding has independent bits
            found[:, start] = chance
            found[:, start + 1 : end] = chance * part.at_cells(rates.T).T
        return found

    def coefficients(self, weights: Floats) -> Floats:
        """The constant, and each level's reading divided by the level's probability."""
        flat = weights.reshape(-1, self.size)
        result = np.empty((len(flat), self.layout.features))
        for rows in self.batches(len(flat)):
            everyone, levels = self._levels(flat[rows])
            told = [part.inner.coefficients(held) / chance for part, chance, held in levels]
            result[rows] = self._side_by_side(told)
            result[rows, :1] += everyone
        return result.reshape(*weights.shape[:-1], -1)

    def product_coefficients(self, w: Floats, v: Floats) -> Floats:
        """Those of each level where it is drawn: there f is the reading of c + b/p by OUE.

        Args:
            w: Weights on the cells, along the last axis.
            v: Weights of the other factor.
        """
        one, other = np.broadcast_arrays(w, v)
        (c, levels), (d, others) = (
            self._levels(held.reshape(-1, self.size)) for held in (one, other)
        )
        told = [
            part.inner.product_coefficients(c + b / chance, d + e / chance)
            for (part, chance, b), (_, _, e) in zip(levels, others, strict=True)
        ]
        return self._side_by_side(told).reshape(*one.shape[:-1], -1)

    def second_moment(self, weights: ArrayLike) -> Floats:
        """The mean over levels of that of OUE, which reads c + b/p where the level is drawn."""
        w = as_weights(weights, self.size)
        flat = w.reshape(-1, self.size)
        result = np.zeros_like(flat)
        for rows in self.batches(len(flat)):
            everyone, levels = self._levels(flat[rows])
            for part, chance, held in levels:
                moment = part.inner.second_moment(everyone + held / chance)
                result[rows] += chance * part.at_cells(moment)
        return result.reshape(w.shape)

    def flip_spread(self, weights: Floats) -> Floats:
        """The standard deviation of each node's bit in f, but for the draw of the level."""
        _, levels = self._levels(weights.reshape(-1, self.size))
        spread = [part.inner.flip_spread(b) / math.sqrt(chance) for part, chance, b in levels]
        return np.concatenate(spread, axis=-1).reshape(*weights.shape[:-1], -1)

    def own_spread(self, weights: Floats) -> tuple[Floats, ...]:
        """One per level: own bits and the draw add 2·Σ b²/p − (Σb)² to the variance.

        With z_l = b_l/√p_l and the unit vector u_l = √p_l this is 2|z|² − (u·z)², the squared norm
        of √2·z − (√2 − 1)·(u·z)·u.
        """
        flat = weights.reshape(-1, self.size)
        everyone, levels = self._levels(flat)
        less = (math.sqrt(2) - 1) * (flat - everyone)  # the parts of all levels add up to this
        return tuple(
            (part.at_cells(b) * math.sqrt(2 / chance) - less * math.sqrt(chance)).reshape(
                weights.shape
            )
            for part, chance, b in levels
        )

    def report_likelihood(self, outputs: Outputs) -> Floats:
        """OUE's at the cell's node of the level that is told; a report without one says nothing."""
        ones = as_bits(outputs)
        result = np.ones((len(ones), self.size))
        for number, part in enumerate(self.parts):
            start, end = self.starts[number], self.starts[number + 1]
            told = ones[:, start]
            if told.any():
                nodes = BitColumns.from_matrix(ones[told, start + 1 : end])
                result[told] = part.at_cells(part.inner.report_likelihood(nodes))
        return result

    def _levels(self, weights: Floats) -> tuple[Floats, Iterator[tuple[UnaryLevel, float, Floats]]]:
        """What is read of everyone, and for each level its chance and what is read from nodes."""
        everyone, parts = self.centred_parts(weights)
        return everyone, zip(self.parts, self.chances, parts, strict=True)

    def _side_by_side(self, told: Sequence[Floats]) -> Floats:
        """Coefficients of Σ_l L_l·g_l from those of each g_l, where bits of other levels are zero.

        A constant k and slopes β of bits ±1 are k − Σβ and 2β of bits 0 and 1, and so the first
        belongs to the level's bit; written with ±1 again, both leave a constant behind.
        """
        slopes = [g[..., 1:].sum(axis=-1, keepdims=True) for g in told]
        constant = sum((g[..., :1] + b) / 2 for g, b in zip(told, slopes, strict=True))
        parts = [
            np.concatenate([(g[..., :1] - b) / 2, g[..., 1:]], axis=-1)
            for g, b in zip(told, slopes, strict=True)
        ]
        return np.concatenate([constant, *parts], axis=-1)

    def _level_profiles(self, profile: Floats) -> tuple[Floats, Iterator[Floats]]:
        """The transpose of `_side_by_side`, and the number of people."""
        everyone = profile[:, :1]
        starts = [1 + start for start in self.starts]
        held = (profile[:, start:end] for start, end in pairwise(starts))
        return everyone[:, 0], (
            np.concatenate(
                [(everyone + h[:, :1]) / 2, h[:, 1:] + (everyone - h[:, :1]) / 2], axis=1
            )
            for h in held
        )


def _packed(lanes: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Rows of truth values as words, 64 to a word."""
    packed: NDArray[np.uint64] = np.packbits(lanes, axis=1, bitorder="little").view("<u8")
    return packed
