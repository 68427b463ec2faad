"""Lines along the rows and the columns of a grid, whose sum is at most E: what a product keeps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.distance import LineMetric
from sfumato.metrics.norm_grids import NormGridMetric
from sfumato.metrics.norms import GRID, share_of_axis


@dataclass(frozen=True, slots=True)
class GridMetric(CellMetric):
    """E on a grid: the sum of what two lines say of the rows and of the columns.

    Args:
        rows: E between rows.
        columns: E between columns; cells are counted row by row.
        notes: What binding changed in the statement.

    Example:
        >>> metric = GridMetric(LineMetric.equal(Fraction(1), 2), LineMetric.equal(Fraction(2), 3))
        >>> metric.size, metric.exact(0, 5)
        (6, Fraction(5, 1))
    """

    rows: LineMetric
    columns: LineMetric
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.rows.size * self.columns.size

    def exact(self, i: int, j: int) -> Fraction:
        """E(i, j).

        Args:
            i: The cell that changes.
            j: The cell it changes to.
        """
        (r, c), (s, d) = divmod(i, self.columns.size), divmod(j, self.columns.size)
        return self.rows.exact(r, s) + self.columns.exact(c, d)

    def largest(self) -> Fraction:
        """E between opposite corners."""
        return self.exact(0, self.size - 1)

    def integers(self) -> tuple[NDArray[Any], int]:
        """All of E as Python integers over one denominator."""
        (down, one), (across, other) = self.rows.integers(), self.columns.integers()
        common = math.lcm(one, other)
        down, across = down * (common // one), across * (common // other)
        whole = down[:, None, :, None] + across[None, :, None, :]
        return whole.reshape(self.size, self.size), common


def shapes_of(size: int) -> list[tuple[int, int]]:
    """The grids that a number of cells may form, no side more than eight times the other.

    Example:
        >>> shapes_of(12)
        [(2, 6), (3, 4), (4, 3), (6, 2)]
    """
    found = [(rows, size // rows) for rows in range(2, size // 2 + 1) if size % rows == 0]
    return [shape for shape in found if max(shape) <= 8 * min(shape)]


def grid_within(metric: CellMetric, shape: Sequence[int]) -> GridMetric | None:
    """Two lines of equal steps, along rows and columns, whose sum is nowhere beyond E.

    The steps are in proportion to the least E per row within a column, and per column within a row;
    then both are shortened until the sum is at most E for all pairs. Exact.

    Args:
        metric: E between cells, counted row by row.
        shape: The number of rows and of columns.

    Returns:
        The metric, or None if E is infinite along all rows or all columns.

    Example:
        >>> line = LineMetric.equal(Fraction(1), 2)
        >>> grid_within(GridMetric(line, line), (2, 2)) == GridMetric(line, line)
        True
    """
    rows, columns = shape
    if isinstance(metric, NormGridMetric) and metric.shape == (rows, columns) and not metric.cap:
        return _norm_within(metric)
    least, denominator = _by_gap(metric, rows, columns)
    down, across = (
        [Fraction(int(e), gap * denominator) for gap, e in enumerate(line) if gap and e >= 0]
        for line in (least[:, 0], least[0])
    )
    if not down or not across:
        return None
    steps = min(down), min(across)
    share = min(
        Fraction(int(least[r, c]), denominator) / (r * steps[0] + c * steps[1])
        for r in range(rows)
        for c in range(columns)
        if r + c and least[r, c] >= 0
    )
    return GridMetric(
        LineMetric.equal(share * steps[0], rows), LineMetric.equal(share * steps[1], columns)
    )


def _norm_within(metric: NormGridMetric) -> GridMetric:
    """The sum of two lines in proportion to the steps: Hölder's factor, and room for rounding E."""
    share = share_of_axis(Fraction(1), metric.order, 2)
    if metric.order == 2:
        share *= 1 - Fraction(2, GRID) / min(metric.steps)
    rows, columns = metric.shape
    down, across = metric.steps
    return GridMetric(
        LineMetric.equal(share * down, rows), LineMetric.equal(share * across, columns)
    )


def sum_within_norm(lines: GridMetric, metric: NormGridMetric) -> bool:
    """Whether the sum of two lines is at most a norm for all pairs: their dual norm is at most 1.

    Args:
        lines: E'.
        metric: E.
    """
    steps = (lines.rows.equal_step, lines.columns.equal_step)
    if metric.cap is not None or metric.shape != (lines.rows.size, lines.columns.size):
        return False
    pairs = zip(steps, metric.steps, strict=True)
    shares = [own / step for own, step in pairs if own is not None]
    if len(shares) < 2:
        return False
    if metric.order == 1:
        return max(shares) <= 1
    if metric.order == math.inf:
        return sum(shares) <= 1
    rounded = 1 - Fraction(1, GRID) / min(metric.steps)
    return rounded > 0 and sum(share**2 for share in shares) <= rounded**2


def _by_gap(metric: CellMetric, rows: int, columns: int) -> tuple[NDArray[Any], int]:
    """The least E of all pairs some rows and columns apart, -1 where all are infinite."""
    if isinstance(metric, TableMetric):
        held, denominator = metric.numerators, metric.denominator
    else:
        held, denominator = metric.integers()
    row, column = np.divmod(np.arange(rows * columns), columns)
    gaps = np.abs(np.subtract.outer(row, row)) * columns
    gaps += np.abs(np.subtract.outer(column, column))
    order = np.argsort(gaps, axis=None, kind="stable")
    sorted_gaps, values = gaps.ravel()[order], held.ravel()[order]
    beyond = held.max() + 1
    starts = np.searchsorted(sorted_gaps, np.arange(rows * columns))
    least = np.minimum.reduceat(np.where(values < 0, beyond, values), starts)
    return np.where(least == beyond, -1, least).reshape(rows, columns), denominator
