"""The pairs of cells that imply all others, on which a bound on differences must be checked.

Noise is added alike in both directions, so E is read as the smaller of the two. A left side such as
Σ_k u_k·|Q_ki − Q_kj| keeps the triangle inequality, so it stays below E everywhere when it does on
every pair with no cell between, E(i, z) + E(z, j) = E(i, j).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from sfumato.errors import StudyError, TooLargeError
from sfumato.metrics.between import edges_of_table, table_of
from sfumato.metrics.cells import CellMetric, TableMetric, UniformMetric
from sfumato.metrics.contexts import BlockMetric, HighLowMetric
from sfumato.metrics.lines import CappedLineMetric, LineMetric
from sfumato.metrics.pairs import MOST_PAIRS, Edges, Group, Lookup, whole_numbers
from sfumato.metrics.statements import Metric

__all__ = [
    "Edges",
    "Group",
    "Lookup",
    "edges_of",
    "edges_of_matrix",
    "grid_edges",
    "read_edges",
]


def edges_of(metric: CellMetric) -> Edges:
    """The pairs of one axis that imply all others.

    Args:
        metric: E between cells; where it differs by direction the smaller one counts.

    Example:
        >>> edges_of(LineMetric.equal(Fraction(1, 5), 4)).lengths
        (Fraction(1, 5), Fraction(1, 5), Fraction(1, 5))
        >>> edges_of(UniformMetric(Fraction(1), 1000)).pairs
        499500
    """
    size = metric.size
    if isinstance(metric, LineMetric):
        cells = np.arange(size - 1)
        if metric.equal_step is not None:
            ones = np.ones(size - 1, dtype=np.int64)
            return Edges.of_integers(cells, cells + 1, ones, metric.equal_step, size)
        return Edges(cells, cells + 1, metric.steps, size)
    if isinstance(metric, CappedLineMetric):
        line = edges_of(metric.line)
        # No pair is further apart than the cap, so all may be held to it.
        return _with(line, Group(np.zeros(size, dtype=np.intp), metric.cap))
    if isinstance(metric, UniformMetric):
        return _only(Group(np.zeros(size, dtype=np.intp), metric.epsilon))
    if isinstance(metric, BlockMetric):
        _, marks = np.unique(metric.block, return_inverse=True)
        return _only(Group(marks.astype(np.intp), metric.epsilon))
    if isinstance(metric, HighLowMetric):
        return _high_low(metric)
    if isinstance(metric, TableMetric):
        first, second, lengths = edges_of_table(metric.numerators)
        return Edges.of_integers(first, second, lengths, Fraction(1, metric.denominator), size)
    entries = [[metric.exact(i, j) for j in range(size)] for i in range(size)]
    common = math.lcm(1, *(e.denominator for row in entries for e in row if e is not None))
    numbers = [[-1 if e is None else int(e * common) for e in row] for row in entries]
    first, second, lengths = edges_of_table(whole_numbers(numbers))
    return Edges.of_integers(first, second, lengths, Fraction(1, common), size)


def edges_of_matrix(distances: ArrayLike) -> Edges:
    """The pairs of a square array of distances, zeros and infinities among them, that imply all.

    Example:
        >>> edges_of_matrix([[0, 1, 5], [1, 0, 1], [5, 1, 0]]).pairs
        2
    """
    numerators, unit = table_of(distances)
    first, second, lengths = edges_of_table(numerators)
    return Edges.of_integers(first, second, lengths, unit, len(numerators))


def grid_edges(metrics: Sequence[CellMetric], shape: Sequence[int], joint: bool = False) -> Edges:
    """The pairs of a grid of cells, numbered in C order, that imply all others.

    Guarantees of axes add, so it is enough to change one axis at a time. Under a joint guarantee
    any two records are equally far apart.

    Args:
        metrics: E of every axis.
        shape: Cells of every axis.
        joint: Whether one uniform guarantee speaks about whole records.

    Example:
        >>> line, flat = LineMetric.equal(Fraction(1), 3), UniformMetric(Fraction(2), 2)
        >>> grid_edges([line, flat], (3, 2)).pairs, grid_edges([flat, flat], (2, 2), True).pairs
        (7, 6)
    """
    sizes = tuple(int(size) for size in shape)
    if tuple(metric.size for metric in metrics) != sizes:
        raise StudyError(
            f"shape must have the cells of every axis, {tuple(m.size for m in metrics)}, got "
            f"{sizes}"
        )
    size = math.prod(sizes)
    if joint:
        uniform = {metric.epsilon for metric in metrics if isinstance(metric, UniformMetric)}
        if len(uniform) != 1 or not all(isinstance(metric, UniformMetric) for metric in metrics):
            raise StudyError(
                "a joint guarantee must be one Uniform for whole records: give every axis the "
                "same epsilon, or protect the axes one by one"
            )
        return _only(Group(np.zeros(size, dtype=np.intp), uniform.pop()))
    parts = [edges_of(metric) for metric in metrics]
    common = math.lcm(*(part.unit.denominator for part in parts))
    cells = np.arange(size, dtype=np.intp).reshape(sizes)
    firsts, seconds, lengths, groups = [], [], [], []
    for axis, part in enumerate(parts):
        along = np.moveaxis(cells, axis, 0).reshape(sizes[axis], -1)
        others = along.shape[1]
        firsts.append(along[part.first].reshape(-1))
        seconds.append(along[part.second].reshape(-1))
        times = int(part.unit * common)
        small = not len(part.numerators) or int(part.numerators.max()) * times < 1 << 62
        units = part.numerators * times if small else part.numerators.astype(object) * times
        lengths.append(np.repeat(units, others))
        for group in part.groups:
            marks = np.empty(size, dtype=np.intp)
            marks[along] = group.marks[:, None] * others + np.arange(others)
            groups.append(Group(marks, group.length))
    return Edges.of_integers(
        np.concatenate(firsts),
        np.concatenate(seconds),
        np.concatenate(lengths),
        Fraction(1, common),
        size,
        groups,
    )


def read_edges(distances: Edges | CellMetric | ArrayLike) -> Edges:
    """Distances in any of their forms as the pairs that imply all."""
    if isinstance(distances, Edges):
        return distances
    if isinstance(distances, CellMetric):
        return edges_of(distances)
    if hasattr(distances, "metric") or isinstance(distances, Metric):
        raise StudyError(
            "distances must be between cells: axis.metric() of an axis with its protection, or a "
            f"square array, got {type(distances).__name__}"
        )
    return edges_of_matrix(distances)


def _only(group: Group) -> Edges:
    """Nothing but a group."""
    none = np.zeros(0, dtype=np.int64)
    return Edges.of_integers(none, none, none, Fraction(1), len(group.marks), (group,))


def _with(edges: Edges, group: Group) -> Edges:
    """One group more."""
    return Edges.of_integers(
        edges.first,
        edges.second,
        edges.numerators,
        edges.unit,
        edges.size,
        (*edges.groups, group),
    )


def _high_low(metric: HighLowMetric) -> Edges:
    """Every pair with a sensitive cell; others are near by way of one."""
    sensitive = np.flatnonzero(metric.sensitive)
    if len(sensitive) == metric.size:
        return _only(Group(np.zeros(metric.size, dtype=np.intp), metric.epsilon))
    if len(sensitive) * metric.size > MOST_PAIRS:
        raise TooLargeError(
            f"{len(sensitive) * metric.size:,} pairs with a sensitive cell are beyond the "
            f"{MOST_PAIRS:,} that are listed: use fewer cells"
        )
    cells = np.arange(metric.size)
    first, second = np.repeat(sensitive, metric.size), np.tile(cells, len(sensitive))
    keep = (first < second) | ~metric.sensitive[second]
    ones = np.ones(int(keep.sum()), dtype=np.int64)
    return Edges.of_integers(first[keep], second[keep], ones, metric.epsilon, metric.size)
