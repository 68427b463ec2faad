"""Rows of questions about axes, and the estimated CDF along an ordered axis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.checks import several, whole
from sfumato.domains.base import Domain, Ordered
from sfumato.errors import QuestionError, TooLargeError, shown
from sfumato.questions.language import Question
from sfumato.study.axis import Axis
from sfumato.study.blocks import Block

#: Groups of cells of an axis: their number, or their edges; None for single cells.
Bins: TypeAlias = int | Sequence[Any] | None

#: Beyond this many rows, rows of single cells and of prefixes are not written out as weights.
MOST_ROWS = 4096
_TABLE_ENTRIES = 1 << 22  # most entries of a table of weights that is built at once


@dataclass(frozen=True, slots=True, eq=False)
class EveryCell:
    """One row of weights per cell of an axis, or per prefix, which is never written out.

    Args:
        asked: The condition's weight of every cell; one up to the last row's cell if `upto`.
        cells: The cells that have a row.
        upto: Whether a row is everything up to its cell, and not the cell alone.
    """

    asked: Floats
    cells: NDArray[np.int64]
    upto: bool

    def __len__(self) -> int:
        return len(self.cells)

    def read(self, by_cell: Floats) -> Floats:
        """Sums over the cells of every row, along the last axis."""
        weighted = by_cell * self.asked
        upto = np.cumsum(weighted, axis=-1) if self.upto else weighted
        return upto[..., self.cells]

    def squared(self, by_row: Floats) -> Floats:
        """Numbers of all rows of weight one, times the squared weight of each row."""
        found = by_row[..., self.cells]
        return found if self.upto else found * self.asked[self.cells] ** 2


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Questions about one axis, with labels and edges for plots.

    Args:
        weights: One row per question, shape (rows, cells of the axis), or all cells at once.
        labels: The name of every row.
        edges: Edges of the groups of cells in the axis' units; None where they are not adjacent.
        cut: Whether a row takes a share of a bin only.
    """

    weights: Floats | EveryCell
    labels: list[str]
    edges: NDArray[Any] | None
    cut: bool = False

    @classmethod
    def of(cls, axis: Axis, asked: Floats | None, bins: Bins) -> Rows:
        """One row per cell or group of cells that a condition leaves; "no answer" is the last.

        Args:
            axis: The axis.
            asked: The condition's weight of every cell; None is one for all.
            bins: The number of groups of neighbouring cells, or their edges; None for single cells.

        Raises:
            TooLargeError: If there would be more than 4,096 rows.
        """
        limit = np.ones(axis.size) if asked is None else asked
        keep = np.flatnonzero(limit)
        values, apart = keep[keep < axis.domain.size], keep[keep >= axis.domain.size]
        edged = _edges(axis, bins)
        number = None
        if edged is None and bins is not None:
            number = whole(bins, "bins", least=1, error=QuestionError)
        count = len(edged) - 1 if edged is not None else min(number or len(values), len(values))
        if count + len(apart) > MOST_ROWS:
            raise TooLargeError(
                f"axis {axis.name!r} has {count + len(apart)} groups of cells to show here; the "
                f"limit is {MOST_ROWS}. Ask for groups of cells with bins={MOST_ROWS} or fewer"
                + ("" if bins is None else ", or leave bins out for single cells")
            )
        if edged is None:
            groups = np.array_split(values, count)
            table = np.zeros((count, axis.size))
            for row, group in enumerate(groups):
                table[row, group] = 1.0
            labels, cut = group_labels(axis, groups), False
        else:
            table, labels, cut = _edged(axis, edged)
            groups = [np.flatnonzero(row * limit) for row in table]
            groups = [] if cut or not all(map(len, groups)) else groups
        if len(apart):
            table = np.vstack([table, np.arange(axis.size) == apart[0]])
            labels, groups = [*labels, axis.labels()[-1]], [*groups, apart]
        return cls(table * limit, labels, group_edges(axis, groups), cut)

    @property
    def table(self) -> Floats:
        """The weights, which must be written out."""
        if isinstance(self.weights, EveryCell):
            raise TypeError("the weights of all cells of an axis are not written out")
        return self.weights

    def row(self, place: int) -> Floats:
        """The weights of one row."""
        if not isinstance(self.weights, EveryCell):
            found: Floats = self.weights[place]
            return found
        cells = np.arange(len(self.weights.asked))
        cell = self.weights.cells[place]
        alone: Floats = self.weights.asked * (cells <= cell if self.weights.upto else cells == cell)
        return alone

    def part(self, rows: slice) -> Rows:
        """Some of the rows, without labels and edges."""
        return Rows(self.table[rows], [], None)


@dataclass(frozen=True, slots=True, eq=False)
class BlockRows:
    """A condition and rows of questions about axes, as weights over the cells of each block.

    Args:
        where: The condition's weights on every block; None is one for everybody.
        tables: By block asked about, one row of weights per combination of its axes' rows.
        counts: Number of rows of every axis asked about, in the order of the blocks.
        order: For each axis, in the order it was asked about, its position in `counts`.
    """

    where: list[Floats | None]
    tables: dict[int, Floats | EveryCell]
    counts: tuple[int, ...]
    order: tuple[int, ...]

    @classmethod
    def of(
        cls, blocks: Sequence[Block], where: Sequence[Floats | None], rows: Mapping[int, Rows]
    ) -> BlockRows:
        """Combine the rows of the axes of every block.

        Args:
            blocks: The blocks of the study.
            where: The condition's weights on every axis.
            rows: The rows, by axis.
        """
        tables: dict[int, Floats | EveryCell] = {}
        stands: list[int] = []
        for place, block in enumerate(blocks):
            asked = [axis for axis in block.axes if axis in rows]
            if not asked:
                continue
            stands += asked
            every = rows[asked[0]].weights
            if isinstance(every, EveryCell) and len(block.axes) == 1:
                tables[place] = every
                continue
            table: Floats = np.ones((1, 1))
            for axis, size in zip(block.axes, block.shape, strict=True):
                w = where[axis]
                if axis in rows:
                    part = rows[axis].table
                else:
                    part = (np.ones(size) if w is None else w)[None, :]
                table = table[:, None, :, None] * part[None, :, None, :]
                table = table.reshape(table.shape[0] * table.shape[1], -1)
            tables[place] = table
        counts = tuple(len(rows[axis].weights) for axis in stands)
        order = tuple(stands.index(axis) for axis in rows)
        return cls([block.weights(where) for block in blocks], tables, counts, order)

    def arranged(self, found: Floats) -> Floats:
        """Answers to all combinations of rows, one dimension per axis in the order asked about."""
        return np.transpose(found.reshape(self.counts), self.order)


def row_count(rows: Mapping[int, Rows]) -> int:
    """How many answers rows of weights ask for; all cells of a large axis are read as one."""
    tables = [row.weights for row in rows.values()]
    return math.prod(1 if isinstance(table, EveryCell) else len(table) for table in tables)


def outer(question: Question, axes: Sequence[int], shape: Sequence[int]) -> Floats:
    """A question's weights over the grid of some axes.

    Args:
        question: The question.
        axes: Positions of the axes in the study.
        shape: Number of cells of every axis of the study.
    """
    grid: Floats = np.ones(())
    for axis in axes:
        w = question.weights[axis]
        grid = np.multiply.outer(grid, np.ones(shape[axis]) if w is None else w)
    return grid


def row_tables(
    asked: Question, rows: dict[int, Rows], axes: Sequence[int], shape: Sequence[int]
) -> Iterator[Floats]:
    """Every combination of rows as weights over the grid of some axes, a chunk at a time.

    Args:
        asked: The condition on people, for the axes without rows.
        rows: Rows of weights by axis.
        axes: Positions of the axes of the grid in the study; they include those of `rows`.
        shape: Number of cells of every axis of the study.

    Yields:
        Weights, shape (combinations, *cells of each of `axes`).
    """
    sizes = [len(row.weights) for row in rows.values()]
    cells = math.prod(shape[axis] for axis in axes)
    count = math.prod(sizes)
    at_once = max(1, _TABLE_ENTRIES // cells)
    for start in range(0, count, at_once):
        places = np.unravel_index(np.arange(start, min(start + at_once, count)), sizes)
        row_of = dict(zip(rows, places, strict=True))
        table: Floats = np.ones(len(places[0]))
        for axis in axes:
            w = asked.weights[axis]
            if axis in rows:
                part = rows[axis].table[row_of[axis]]
            else:
                part = (np.ones(shape[axis]) if w is None else w)[None, :]
            table = table[..., None] * part.reshape(
                len(part), *(1,) * (table.ndim - 1), part.shape[1]
            )
        yield table


def _edges(axis: Axis, bins: Any) -> list[Any] | None:
    """The edges of groups of cells; None where they are not given by edges."""
    if hasattr(bins, "__array__"):
        listed = getattr(bins, "ndim", 1) == 1
    else:
        listed = isinstance(bins, Sequence) and not isinstance(bins, (str, bytes, bytearray))
    if not listed:
        return None
    if len(bins) < 2:
        raise QuestionError(
            "bins must be a whole number of at least 1, or a list of two edges or more, got "
            f"bins={shown(bins)}"
        )
    if len(bins) > MOST_ROWS + 1:
        raise TooLargeError(
            f"bins of axis {axis.name!r} must have at most {MOST_ROWS + 1:,} edges, got "
            f"{len(bins):,}; leave some out"
        )
    return several(bins, "bins", error=QuestionError)


def _edged(axis: Axis, edges: Sequence[Any]) -> tuple[Floats, list[str], bool]:
    """Weights of the groups of cells between edges, their labels, and whether a bin is cut."""
    domain = axis.domain
    if not isinstance(domain, Ordered):
        raise QuestionError(
            f"axis {axis.name!r} has no order, so its bins have no edges; leave bins out, and ask "
            f"for several values together as {axis.name}=a|b"
        )
    table, labels, cut = np.zeros((len(edges) - 1, axis.size)), [], False
    step = 1 if domain.kind in ("integers", "dates") else 0  # what is whole ends before an edge
    for row, (low, high) in enumerate(pairwise(edges)):
        first, last = domain.span(low, high, axis=axis.name)
        if first is None or last is None or first == last:
            raise QuestionError(
                f"bins of axis {axis.name!r} must be edges that rise, and edge {row + 2} does not"
            )
        last -= step if row < len(table) - 1 else 0
        weights, was_cut = domain.weigh((first, last))
        table[row, : domain.size] = weights
        labels.append(
            domain.write(first) if first == last else f"{domain.write(first)}..{domain.write(last)}"
        )
        cut = cut or was_cut
    return table, labels, cut


def group_labels(axis: Axis, groups: Sequence[NDArray[np.int64]]) -> list[str]:
    """Labels of groups of cells: the cell's own label, or "first..last".

    Args:
        axis: The axis.
        groups: The numbers of the cells in each group.
    """
    labels = axis.labels()
    return [
        labels[group[0]]
        if len(group) == 1
        else f"{labels[group[0]].split('..')[0]}..{labels[group[-1]].split('..')[-1]}"
        for group in groups
    ]


def group_edges(axis: Axis, groups: Sequence[NDArray[np.int64]]) -> NDArray[Any] | None:
    """Edges of groups of cells in the axis' units; None where the groups are not adjacent.

    Args:
        axis: The axis.
        groups: The numbers of the cells in each group.
    """
    edges = axis.domain.edges()
    held = [group for group in groups if group[-1] < axis.domain.size]
    if edges is None or not held or len(held) < len(groups):
        return None
    cells = np.concatenate(held)
    if np.any(np.diff(cells) != 1):
        return None
    return edges[[group[0] for group in held] + [held[-1][-1] + 1]]


@dataclass(frozen=True, slots=True, eq=False)
class Ruler:
    """The cells of an ordered axis in base units (numbers, days or seconds).

    Args:
        starts: Where each cell begins.
        ends: Where each cell ends.
        lows: The lower end of an interval whose first cell it is.
        highs: The upper end of an interval whose last cell it is.
        whole: Whether values are whole numbers.
    """

    starts: Floats
    ends: Floats
    lows: Floats
    highs: Floats
    whole: bool

    @classmethod
    def of(cls, domain: Domain) -> Ruler:
        """The cells of a domain; whole numbers and days have cells of one or more steps."""
        if domain.kind in ("integers", "dates"):
            step = float(domain.spacing or 1)
            centres = domain.numbers()
            if centres is None:
                centres = np.array([float(place) for place in domain.positions()])
            first = centres - (step - 1) / 2
            return cls(first, first + step, first, first + step - 1, True)
        edges = np.asarray(domain.edges())
        edges = edges.astype(np.int64 if edges.dtype.kind == "M" else np.float64).astype(np.float64)
        starts, ends = edges[:-1], edges[1:]
        if not domain.rounding_bits:
            return cls(starts, ends, starts, ends, False)
        # With stochastic rounding a value between two grid points may be reported at either, so the
        # share up to one point bounds F at the next.
        points = np.array([float(place) for place in domain.positions()])
        lows, highs = np.append(points[:1], points[:-1]), np.append(points[1:], points[-1:])
        return cls(starts, ends, lows, highs, False)

    def within(self, cells: NDArray[np.int64]) -> Ruler:
        """Some of the cells only."""
        return Ruler(
            self.starts[cells], self.ends[cells], self.lows[cells], self.highs[cells], self.whole
        )

    def value(self, cell: int, share: float) -> float:
        """The value at a given share of the way through a cell.

        Args:
            cell: Number of the cell.
            share: From 0, its start, to 1, its end.
        """
        start, end = float(self.starts[cell]), float(self.ends[cell])
        place = min(start + min(max(share, 0.0), 1.0) * (end - start), end)
        return min(float(math.floor(place)), float(self.highs[cell])) if self.whole else place


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Estimated numbers of people at or below each cell and in all, with their errors.

    Args:
        counts: People at or below each cell.
        base: People in all.
        variance: Variances of `counts`.
        shared: Covariances of `counts` with `base`.
        spread: Variance of `base`.
        centre: The middles of the intervals of `counts` where these are not the counts.
    """

    counts: Floats
    base: float
    variance: Floats
    shared: Floats | float = 0.0
    spread: float = 0.0
    centre: Floats | None = None

    def error(self, q: float) -> Floats:
        """Standard error of count − q·base, whose mean is zero where the share is q."""
        variance = self.variance - 2 * q * self.shared + q**2 * self.spread
        return np.sqrt(np.maximum(variance, 0.0))

    def error_at(self, number: int, q: float) -> float:
        """The same for one cell.

        Args:
            number: Number of the cell.
            q: The share.
        """
        shared = float(np.broadcast_to(self.shared, self.counts.shape)[number])
        variance = float(self.variance[number]) - 2 * q * shared + q**2 * self.spread
        return math.sqrt(max(variance, 0.0))

    def monotone(self) -> Floats:
        """Shares at or below each cell, made non-decreasing by isotonic regression, ending at 1."""
        return self._rising(self.counts)

    def middle(self) -> Floats | None:
        """The middles of the intervals of these shares; None where they are the shares."""
        return None if self.centre is None else self._rising(self.centre)

    def _rising(self, counts: Floats) -> Floats:
        """Counts as shares that never decrease."""
        raw = counts / self.base
        variance = self.variance - 2 * raw * self.shared + raw**2 * self.spread
        # Weights differ by a factor of at most a million: beyond that, differences are rounding.
        least = max(1e-6 * float(np.max(variance)), 1e-300)
        if len(raw) > 1:
            weights = 1.0 / np.maximum(variance[:-1] / least, 1.0)
            from scipy.optimize import isotonic_regression

            raw[:-1] = isotonic_regression(raw[:-1], weights=weights).x
        raw[-1] = 1.0
        return np.clip(raw, 0.0, 1.0)
