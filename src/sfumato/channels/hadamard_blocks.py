"""Layout of Hadamard response: one matrix per block of cells, and each cell's row in it.

Blocks of k cells have a matrix of order K = 2^⌈log2(k + 1)⌉. Row 0, all ones, is nobody's; of the
others every cell has one. Neighbouring cells do not have neighbouring rows: rows in a row add up to
nearly nothing but in a few columns, so that a range of cells would be read from the few people who
put out one of those. `scattered` says which row it is.

Outputs are the columns of all matrices, the largest matrices first, blocks of one order in the
order of their numbers; then one symbol for each cell that is in no matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.channels.transforms import scattered
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.uniform import UniformMetric


@dataclass(frozen=True, slots=False, kw_only=True, eq=False)
class Matrices:
    """Every cell's place among the outputs.

    Attributes:
        place: Where a cell's row stands, counted in columns of its matrix from that matrix' first
            output; the cell's own symbol where it is in no matrix.
        row: The cell's row, 0 where it is in no matrix.
        mask: The last column of the cell's matrix: its order less one. Cells that hide among
            sensitive ones have that matrix' mask.
        block: The number of the cell's matrix, in the order of the outputs; 0 for cells in none.
        lone: Cells in no matrix, in the order of their symbols.
        groups: First output, number of blocks, and order, of all matrices of one order.
        counts: Cells of every matrix.
        covered: Whether cells in no matrix hide among the columns of the only one.
    """

    place: NDArray[np.int64]
    row: NDArray[np.uint32]
    mask: NDArray[np.uint32]
    block: NDArray[np.int64]
    lone: NDArray[np.int64]
    groups: tuple[tuple[int, int, int], ...]
    counts: NDArray[np.int64]
    covered: bool

    @property
    def columns(self) -> int:
        """Columns of all matrices together."""
        return sum(count * order for _, count, order in self.groups)

    @property
    def outputs(self) -> int:
        """All symbols."""
        return self.columns + len(self.lone)

    @property
    def hides(self) -> bool:
        """Whether there is any matrix at all."""
        return bool(self.groups)

    @property
    def largest(self) -> int:
        """The largest order, 0 where there is no matrix."""
        return max((order for *_, order in self.groups), default=0)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The first output of every matrix."""
        runs = [start + order * np.arange(count) for start, count, order in self.groups]
        return np.concatenate([np.zeros(0, dtype=np.int64), *runs]).astype(np.int64)

    @cached_property
    def orders(self) -> Floats:
        """The order of every column's matrix."""
        runs = [np.full(count * order, float(order)) for _, count, order in self.groups]
        return np.concatenate([np.zeros(0), *runs])

    @cached_property
    def _inside(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Cells of matrices, those of one matrix next to each other, and where each begins."""
        inside = np.flatnonzero(self.row)
        order = inside[np.argsort(self.block[inside], kind="stable")]
        return order, np.concatenate([[0], np.cumsum(self.counts)[:-1]]).astype(np.int64)

    def totals(self, values: Floats) -> Floats:
        """Sums over the cells of every matrix, along the last axis; a zero where there is none."""
        if not self.hides:
            return np.zeros((*values.shape[:-1], 1))
        order, starts = self._inside
        found: Floats = np.add.reduceat(values[..., order], starts, axis=-1)
        return found

    def means(self, values: Floats) -> Floats:
        """Means over the cells of every matrix; one zero where there is none."""
        totals = self.totals(values)
        return totals / self.counts if self.hides else totals

    def sums(self, table: Floats) -> Floats:
        """Sums over the columns of every matrix, along the last axis."""
        found: Floats = np.add.reduceat(table, self.starts, axis=-1)
        return found

    def spread(self, values: Floats) -> Floats:
        """A number per matrix, for each of its columns."""
        parts, first = [], 0
        for _, count, order in self.groups:
            parts.append(np.repeat(values[..., first : first + count], order, axis=-1))
            first += count
        return np.concatenate(parts, axis=-1)


def matrices_of(metric: UniformMetric | BlockMetric | HighLowMetric) -> Matrices:
    """Lay out the matrices of a metric: one for all, one per block, or one for sensitive cells.

    Example:
        >>> from fractions import Fraction
        >>> found = matrices_of(BlockMetric(Fraction(1), np.array([0, 1, 0, 2, 2, 2, 2])))
        >>> found.groups, found.lone.tolist(), found.outputs
        (((0, 1, 8), (8, 1, 4)), [1], 13)
    """
    block, count = _numbered(metric)
    inside = block >= 0
    order = np.array([1 << int(k).bit_length() for k in count], dtype=np.int64)
    by_order = np.argsort(-order, kind="stable")
    count, order = count[by_order], order[by_order]
    number = np.empty(len(count), dtype=np.int64)
    number[by_order] = np.arange(len(count))
    matrix = np.zeros(metric.size, dtype=np.int64)
    matrix[inside] = number[block[inside]]
    starts = np.concatenate([[0], np.cumsum(order)]).astype(np.int64)
    row = np.zeros(metric.size, dtype=np.int64)
    row[inside] = scattered(_ranks(block)[inside], order[matrix[inside]])
    lone = np.flatnonzero(~inside)
    place = np.empty(metric.size, dtype=np.int64)
    place[inside] = starts[matrix[inside]] + row[inside]
    place[lone] = starts[-1] + np.arange(len(lone))
    covered = isinstance(metric, HighLowMetric) and 0 < len(lone) < metric.size
    mask = np.zeros(metric.size, dtype=np.uint32)
    mask[inside] = order[matrix[inside]] - 1
    if covered:
        mask[lone] = order[0] - 1
    for array in (place, row, mask, matrix, lone, count):
        array.setflags(write=False)
    orders, first, blocks = np.unique(order, return_index=True, return_counts=True)
    groups = zip(starts[first], blocks, orders, strict=True)
    return Matrices(
        place=place,
        row=row.astype(np.uint32),
        mask=mask,
        block=matrix,
        lone=lone,
        groups=tuple((int(s), int(c), int(k)) for s, c, k in groups)[::-1],
        counts=count,
        covered=covered,
    )


def _numbered(
    metric: UniformMetric | BlockMetric | HighLowMetric,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The number of every cell's matrix, −1 where it has none, and how many cells each has."""
    if isinstance(metric, UniformMetric):
        return np.zeros(metric.size, dtype=np.int64), np.array([metric.size])
    if isinstance(metric, HighLowMetric):
        high = np.count_nonzero(metric.sensitive)
        return np.where(metric.sensitive, 0, -1), np.array([high] if high else [], dtype=np.int64)
    _, block, count = np.unique(metric.block, return_inverse=True, return_counts=True)
    shared = count > 1
    number = np.where(shared, np.cumsum(shared) - 1, -1)
    return number[block], count[shared]


def _ranks(block: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each cell's number within its block, counted from 1 in the order of cells."""
    by_block = np.argsort(block, kind="stable")
    sorted_blocks = block[by_block]
    first = np.searchsorted(sorted_blocks, sorted_blocks)
    ranks = np.empty(len(block), dtype=np.int64)
    ranks[by_block] = np.arange(len(block)) - first + 1
    return ranks
