"""Recognise a table of E as a line, one ε for all, blocks or sensitive cells; and its blocks.

The same E can be stated in several ways. A policy graph may be a path, a matrix may be one ε for
all pairs. Recognised, it gets the channels and the proofs made for its kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.distance import CappedLineMetric, LineMetric
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.uniform import UniformMetric

Cells = NDArray[np.intp]


def recognised(metric: CellMetric) -> CellMetric:
    """The same E as one of the kinds that channels are made for, if it is of such a kind.

    Args:
        metric: E between cells; only tables and marks are looked at.

    Example:
        >>> recognised(TableMetric(np.array([[0, 1, 2], [1, 0, 1], [2, 1, 0]]), 2, 3)).equal_step
        Fraction(1, 2)
    """
    if isinstance(metric, BlockMetric) and (metric.block == metric.block[0]).all():
        return UniformMetric(metric.epsilon, metric.size, metric.notes)
    if isinstance(metric, HighLowMetric) and metric.sensitive.all():
        return UniformMetric(metric.epsilon, metric.size, metric.notes)
    if not isinstance(metric, TableMetric):
        return metric
    for kind in (_uniform, _line, _blocks, _high_low):
        found = kind(metric)
        if found is not None:
            return found
    return metric


def _between(metric: TableMetric) -> NDArray[Any]:
    """E of all pairs of different cells, as a flat array of numerators."""
    found: NDArray[Any] = metric.numerators[~np.eye(metric.size, dtype=bool)]
    return found


def _uniform(metric: TableMetric) -> UniformMetric | None:
    """One finite E for all pairs."""
    between = _between(metric)
    if between[0] < 0 or (between != between[0]).any():
        return None
    epsilon = Fraction(int(between[0]), metric.denominator)
    return UniformMetric(epsilon, metric.size, metric.notes)


def _line(metric: TableMetric) -> LineMetric | CappedLineMetric | None:
    """Steps that add up along the order of the cells, up to a cap."""
    held = metric.numerators
    steps = np.diagonal(held, 1)
    if (steps < 0).any():
        return None
    line = _along(steps)
    cap = held.max()
    if (held < 0).any() or (np.minimum(line, cap) != held).any():
        return None
    exact = [Fraction(int(step), metric.denominator) for step in steps]
    found = LineMetric(exact, metric.notes)
    if line.max() <= cap:
        return found
    return CappedLineMetric(found, Fraction(int(cap), metric.denominator), metric.notes)


def _blocks(metric: TableMetric) -> BlockMetric | None:
    """One finite E within blocks, and infinite between them."""
    between = _between(metric)
    finite = between[between >= 0]
    if not len(finite) or (finite != finite[0]).any():
        return None
    marks = np.argmax(metric.numerators >= 0, axis=1)  # the first cell that hides each cell
    inside = marks[:, None] == marks
    if ((metric.numerators >= 0) != inside).any():
        return None
    number = np.unique(marks, return_inverse=True)[1]
    return BlockMetric(Fraction(int(finite[0]), metric.denominator), number, metric.notes)


def _high_low(metric: TableMetric) -> HighLowMetric | None:
    """One finite E from some cells to all others, and infinite from the rest."""
    off = np.where(np.eye(metric.size, dtype=bool), -2, metric.numerators)
    most, finite = off.max(axis=1), (off != -1).all(axis=1)
    epsilon = most.max()
    wrong = np.where(finite[:, None], off != epsilon, off != -1)
    if epsilon < 0 or (wrong & (off != -2)).any():
        return None
    return HighLowMetric(Fraction(int(epsilon), metric.denominator), finite, metric.notes)


def blocks_of(metric: CellMetric) -> Iterator[tuple[Cells, CellMetric | None]]:
    """Groups of cells that need not hide from each other, with E among the cells of each.

    The cells of a group that lie on a line come in the order of that line.

    Args:
        metric: E between cells.

    Yields:
        The cells of a group, and E between them; None for a cell by itself.

    Example:
        >>> metric = BlockMetric(Fraction(1), np.array([0, 1, 0]))
        >>> [(cells.tolist(), inside) for cells, inside in blocks_of(metric)]
        [([0, 2], UniformMetric(epsilon=Fraction(1, 1), size=2, notes=())), ([1], None)]
    """
    if isinstance(metric, BlockMetric):
        order = np.argsort(metric.block, kind="stable")
        ends = np.flatnonzero(np.diff(metric.block[order])) + 1
        for cells in sorted(np.split(order, ends), key=lambda cells: int(cells[0])):
            yield cells, UniformMetric(metric.epsilon, len(cells)) if len(cells) > 1 else None
        return
    if not isinstance(metric, TableMetric):
        yield np.arange(metric.size), metric
        return
    linked = (metric.numerators >= 0) | (metric.numerators.T >= 0)
    left = np.ones(metric.size, dtype=bool)
    while left.any():
        group: NDArray[Any] = np.zeros(metric.size, dtype=bool)
        group[left.argmax()] = True
        while (grown := np.any(linked[group], axis=0)).sum() > group.sum():
            group = grown
        left &= ~group
        cells = np.flatnonzero(group)
        if len(cells) == 1:
            yield cells, None
            continue
        inside = metric.numerators[np.ix_(cells, cells)]
        order = _line_order(inside)
        if len(cells) == metric.size and (np.diff(order) > 0).all():
            yield cells, metric
            return
        held = TableMetric(inside[np.ix_(order, order)], metric.denominator, len(cells))
        yield cells[order], recognised(held)


def _line_order(inside: NDArray[Any]) -> Cells:
    """The order of cells along a line from one end; as they are, if they lie on none."""
    start = int(inside[0].argmax())
    along = np.argsort(inside[start], kind="stable")
    along = along if along[0] < along[-1] else along[::-1]
    held = inside[np.ix_(along, along)]
    on_a_line = (inside >= 0).all() and (_along(np.diagonal(held, 1)) == held).all()
    return along if on_a_line else np.arange(len(inside))


def _along(steps: NDArray[Any]) -> NDArray[Any]:
    """Distances along a line of whole steps, without overflow."""
    if len(steps) * int(steps.max()) >= 1 << 62:
        steps = steps.astype(object)
    places = np.concatenate([np.zeros(1, dtype=steps.dtype), np.cumsum(steps)])
    found: NDArray[Any] = np.abs(np.subtract.outer(places, places))
    return found
