"""Edges of a metric: the pairs of cells that imply all others, with their exact distances.

Noise has the same law in both directions, so E is read as the smaller of the two. A bound such as
Σ_k u_k·|Q_ki − Q_kj| satisfies the triangle inequality, so it stays below E everywhere if it does
on every pair with no cell between, E(i, z) + E(z, j) = E(i, j).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import StudyError, TooLargeError
from sfumato.exact import positive
from sfumato.metrics.base import Metric
from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.closure import Indices, edges_of_table, table_of
from sfumato.metrics.distance import AsideMetric, CappedLineMetric, LineMetric
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.uniform import UniformMetric

MOST_PAIRS = 1 << 25
_MOST_CELLS = 4096
_ROWS = 1 << 18  # pairs handed out at once


@dataclass(frozen=True, slots=True, eq=False)
class Cliques:
    """Cliques of cells: those with the same mark are all `length` apart, without a list of pairs.

    Args:
        marks: A number for every cell, the same within a clique.
        length: E between any two of them.
    """

    marks: Indices
    length: Fraction

    def members(self) -> list[Indices]:
        """The cells of every clique that has more than one."""
        order = np.argsort(self.marks, kind="stable")
        cuts = np.flatnonzero(np.diff(self.marks[order])) + 1
        return [cells for cells in np.split(order, cuts) if len(cells) > 1]

    @property
    def pairs(self) -> int:
        """How many pairs of cells it stands for."""
        _, many = np.unique(self.marks, return_counts=True)
        return int((many * (many - 1) // 2).sum())


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Edges:
    """Pairs of cells with the distance of each; where no path of pairs leads, E is infinite.

    Lengths are whole numbers of one rational unit. Pairs that are all equally far apart may stand
    as `Cliques` instead of a list.

    Args:
        first: One cell of every pair.
        second: The other.
        lengths: The distance of every pair, 0 or more.
        size: Number of cells.
        cliques: Cells that are all equally far apart, without a list of pairs.

    Example:
        >>> edges = Edges([0, 1], [1, 2], [Fraction(1, 2), Fraction(1, 3)], 3)
        >>> edges.pairs, edges.lengths, round(float(edges.distances()[0, 2]), 3)
        (2, (Fraction(1, 2), Fraction(1, 3)), 0.833)
    """

    first: Indices
    second: Indices
    numerators: NDArray[Any]
    unit: Fraction
    size: int
    cliques: tuple[Cliques, ...]

    def __init__(
        self,
        first: ArrayLike,
        second: ArrayLike,
        lengths: Sequence[Fraction],
        size: int,
        cliques: Sequence[Cliques] = (),
    ) -> None:
        """Bring the lengths over one denominator."""
        exact = [Fraction(length) for length in lengths]
        common = math.lcm(1, *{length.denominator for length in exact})
        numerators = whole_numbers([int(length * common) for length in exact])
        self._fill(first, second, numerators, Fraction(1, common), size, cliques)

    @classmethod
    def of_integers(
        cls,
        first: ArrayLike,
        second: ArrayLike,
        numerators: NDArray[Any],
        unit: Fraction,
        size: int,
        cliques: Sequence[Cliques] = (),
    ) -> Edges:
        """From lengths that are whole numbers of a unit already.

        Args:
            first: One cell of every pair.
            second: The other cell of every pair.
            numerators: Length of every pair, in units.
            unit: The unit.
            size: Number of cells.
            cliques: Cells that are all equally far apart, without a list of pairs.
        """
        edges = cls.__new__(cls)
        edges._fill(first, second, numerators, unit, size, cliques)
        return edges

    def _fill(
        self,
        first: ArrayLike,
        second: ArrayLike,
        numerators: NDArray[Any],
        unit: Fraction,
        size: int,
        cliques: Sequence[Cliques],
    ) -> None:
        """Check and set the fields, once."""
        ends = [np.asarray(end, dtype=np.intp).reshape(-1) for end in (first, second)]
        if not len(ends[0]) == len(ends[1]) == len(numerators):
            raise StudyError(
                f"every pair needs two cells and a length, got {len(ends[0])}, {len(ends[1])} and "
                f"{len(numerators)} of them"
            )
        if len(numerators) and (min(map(np.min, ends)) < 0 or max(map(np.max, ends)) >= size):
            raise StudyError(f"cells are numbered 0..{size - 1}, got a pair beyond them")
        if len(numerators) and bool((numerators < 0).any()):
            raise StudyError("lengths must be 0 or more: leave out pairs that are infinitely far")
        if any(len(clique.marks) != size for clique in cliques):
            raise StudyError(f"a clique must mark every one of the {size} cells")
        for array in (*ends, numerators):
            array.setflags(write=False)
        for name, value in zip(
            ("first", "second", "numerators", "unit", "size", "cliques"),
            (*ends, numerators, Fraction(unit), int(size), tuple(cliques)),
            strict=True,
        ):
            object.__setattr__(self, name, value)

    @property
    def lengths(self) -> tuple[Fraction, ...]:
        """The distance of every listed pair."""
        return tuple(int(numerator) * self.unit for numerator in self.numerators)

    @property
    def pairs(self) -> int:
        """How many pairs there are, listed or in cliques."""
        return len(self.first) + sum(clique.pairs for clique in self.cliques)

    @property
    def shortest(self) -> Fraction | None:
        """The smallest distance above 0; None if there is none."""
        above = self.numerators[self.numerators > 0]
        listed = [int(above.min()) * self.unit] if len(above) else []
        return min(
            [*listed, *(c.length for c in self.cliques if c.length and c.pairs)], default=None
        )

    def scaled(self, factor: Fraction) -> Edges:
        """The same pairs, every distance times a positive number.

        Example:
            >>> Edges([0], [1], [Fraction(1)], 2).scaled(Fraction(1, 4)).lengths
            (Fraction(1, 4),)
        """
        times = positive(factor, "factor")
        cliques = tuple(Cliques(clique.marks, clique.length * times) for clique in self.cliques)
        return Edges.of_integers(
            self.first, self.second, self.numerators, self.unit * times, self.size, cliques
        )

    def chunks(self, rows: int = _ROWS) -> Iterator[tuple[Indices, Indices, NDArray[Any]]]:
        """The listed pairs, at most `rows` at a time: cells, cells, and lengths in units."""
        for start in range(0, len(self.first), rows):
            part = slice(start, start + rows)
            yield self.first[part], self.second[part], self.numerators[part]

    def listed(self) -> Edges:
        """The same with every pair of the cliques listed."""
        if not self.cliques:
            return self
        if self.pairs > MOST_PAIRS:
            raise TooLargeError(
                f"{self.pairs:,} pairs of cells are beyond the {MOST_PAIRS:,} that are listed: use "
                f"fewer cells"
            )
        common = math.lcm(self.unit.denominator, *(g.length.denominator for g in self.cliques))
        times = int(self.unit * common)
        firsts, seconds = [self.first], [self.second]
        lengths = [self.numerators.astype(object) * times]
        for clique in self.cliques:
            for cells in clique.members():
                i, j = np.triu_indices(len(cells), 1)
                firsts.append(cells[i])
                seconds.append(cells[j])
                lengths.append(np.full(len(i), int(clique.length * common), dtype=object))
        numerators = whole_numbers(np.concatenate(lengths))
        return Edges.of_integers(
            np.concatenate(firsts),
            np.concatenate(seconds),
            numerators,
            Fraction(1, common),
            self.size,
        )

    def zeros_listed(self) -> Edges:
        """The same with cells at distance 0 tied to the first of them, which implies these pairs.

        Example:
            >>> Edges(
            ...     [], [], [], 3, [Cliques(np.zeros(3, dtype=int), Fraction(0))]
            ... ).zeros_listed().pairs
            2
        """
        tied = [cells for clique in self.cliques if not clique.length for cells in clique.members()]
        kept = [clique for clique in self.cliques if clique.length]
        if len(kept) == len(self.cliques):
            return self
        none = np.zeros(0, dtype=np.intp)
        first = np.concatenate([none, *(np.full(len(cells) - 1, cells[0]) for cells in tied)])
        second = np.concatenate([none, *(cells[1:] for cells in tied)])
        return Edges.of_integers(
            np.concatenate([self.first, first]),
            np.concatenate([self.second, second]),
            np.concatenate([self.numerators, np.zeros(len(first), dtype=self.numerators.dtype)]),
            self.unit,
            self.size,
            kept,
        )

    def distances(self) -> NDArray[np.float64]:
        """All distances as doubles, shape (size, size), infinite where nothing is promised."""
        if self.size > _MOST_CELLS:
            raise TooLargeError(
                f"all distances of {self.size} cells are beyond the {_MOST_CELLS} cells of a "
                f"matrix: use the pairs"
            )
        near: NDArray[np.float64] = np.full((self.size, self.size), math.inf)
        for clique in self.cliques:
            same = clique.marks[:, None] == clique.marks
            near[same] = np.minimum(near[same], float(clique.length))
        for first, second, numerators in self.chunks():
            np.minimum.at(near, (first, second), as_floats(numerators, self.unit))
        near = np.minimum(near, near.T)
        np.fill_diagonal(near, 0.0)
        if not len(self.first) and len(self.cliques) == 1:
            return near
        from scipy.sparse.csgraph import shortest_path

        # A graph takes 0 for no edge at all, so zeros stand in as the least double.
        raised = np.where(near == 0, np.nextafter(0, 1), near)
        found = shortest_path(np.ma.masked_invalid(raised), directed=False)
        return np.where(found < 1e-300, 0.0, found)


class Lookup:
    """Distances of single pairs, listed or in cliques; infinite where there is neither."""

    def __init__(self, edges: Edges) -> None:
        """Sort the listed pairs."""
        self.edges = edges
        keys = self._keys(edges.first, edges.second)
        # Of a pair that is listed twice the shorter comes first.
        self.order = np.lexsort((edges.numerators, keys)) if len(keys) else keys
        self.keys = keys[self.order]

    def _keys(self, first: Indices, second: Indices) -> Indices:
        """One number per pair, the same in both directions."""
        keys: Indices = np.minimum(first, second) * self.edges.size + np.maximum(first, second)
        return keys

    def places(self, first: Indices, second: Indices) -> Indices:
        """Where pairs are listed, -1 for those that are not.

        Args:
            first: One cell of every pair.
            second: The other cell of every pair.
        """
        if not len(self.keys):
            return np.full(len(first), -1, dtype=np.intp)
        wanted = self._keys(first, second)
        place = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[place] == wanted, self.order[place], -1)

    def floats(self, first: Indices, second: Indices) -> NDArray[np.float64]:
        """The distance of every pair as a double.

        Args:
            first: One cell of every pair.
            second: The other cell of every pair.
        """
        found = np.full(len(first), np.inf)
        place = self.places(first, second)
        here = place >= 0
        found[here] = as_floats(self.edges.numerators[place[here]], self.edges.unit)
        for clique in self.edges.cliques:
            same = clique.marks[first] == clique.marks[second]
            found[same] = np.minimum(found[same], float(clique.length))
        return found

    def exact(self, first: Indices, second: Indices) -> list[Fraction | None]:
        """The distance of every pair, None where it is infinite.

        Args:
            first: One cell of every pair.
            second: The other cell of every pair.
        """
        found = []
        for i, j, place in zip(first, second, self.places(first, second), strict=True):
            known = [int(self.edges.numerators[place]) * self.edges.unit] if place >= 0 else []
            cliques = self.edges.cliques
            known += [clique.length for clique in cliques if clique.marks[i] == clique.marks[j]]
            found.append(min(known) if known else None)
        return found


def whole_numbers(values: ArrayLike) -> NDArray[Any]:
    """Integers of any size, in 64 bits where they fit."""
    array = np.array(values, dtype=object)
    small = not array.size or max(abs(int(array.max())), abs(int(array.min()))) < 1 << 62
    return array.astype(np.int64) if small else array


def as_floats(numerators: NDArray[Any], unit: Fraction) -> NDArray[np.float64]:
    """Whole numbers of a unit as doubles, within two roundings.

    Args:
        numerators: Whole numbers of the unit.
        unit: The unit.
    """
    found: NDArray[np.float64] = numerators.astype(np.float64) * float(unit)
    return found


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
        return _with(line, Cliques(np.zeros(size, dtype=np.intp), metric.cap))
    if isinstance(metric, AsideMetric):
        return _aside(metric)
    if isinstance(metric, UniformMetric):
        return _only(Cliques(np.zeros(size, dtype=np.intp), metric.epsilon))
    if isinstance(metric, BlockMetric):
        _, marks = np.unique(metric.block, return_inverse=True)
        return _only(Cliques(marks.astype(np.intp), metric.epsilon))
    if isinstance(metric, HighLowMetric):
        return _high_low(metric)
    if isinstance(metric, TableMetric):
        first, second, lengths = edges_of_table(metric.numerators)
        return Edges.of_integers(first, second, lengths, Fraction(1, metric.denominator), size)
    numerators, common = metric.integers()
    first, second, lengths = edges_of_table(whole_numbers(numerators))
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


def grid_edges(metrics: Sequence[CellMetric]) -> Edges:
    """The pairs of a grid of cells, numbered in C order, that imply all others.

    Guarantees of groups of axes add, so it is enough to change one group at a time.

    Args:
        metrics: E between the cells of each group of axes.

    Example:
        >>> line, flat = LineMetric.equal(Fraction(1), 3), UniformMetric(Fraction(2), 2)
        >>> grid_edges([line, flat]).pairs
        7
    """
    sizes = tuple(metric.size for metric in metrics)
    size = math.prod(sizes)
    parts = [edges_of(metric) for metric in metrics]
    common = math.lcm(*(part.unit.denominator for part in parts))
    cells = np.arange(size, dtype=np.intp).reshape(sizes)
    firsts, seconds, lengths, cliques = [], [], [], []
    for axis, part in enumerate(parts):
        along = np.moveaxis(cells, axis, 0).reshape(sizes[axis], -1)
        others = along.shape[1]
        firsts.append(along[part.first].reshape(-1))
        seconds.append(along[part.second].reshape(-1))
        times = int(part.unit * common)
        small = not len(part.numerators) or int(part.numerators.max()) * times < 1 << 62
        units = part.numerators * times if small else part.numerators.astype(object) * times
        lengths.append(np.repeat(units, others))
        for clique in part.cliques:
            marks = np.empty(size, dtype=np.intp)
            marks[along] = clique.marks[:, None] * others + np.arange(others)
            cliques.append(Cliques(marks, clique.length))
    return Edges.of_integers(
        np.concatenate(firsts),
        np.concatenate(seconds),
        np.concatenate(lengths),
        Fraction(1, common),
        size,
        cliques,
    )


def read_edges(distances: Edges | CellMetric | ArrayLike) -> Edges:
    """Edges, a cell metric or a square array of distances, as the pairs that imply all others."""
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


def _only(clique: Cliques) -> Edges:
    """Edges that are one clique."""
    none = np.zeros(0, dtype=np.int64)
    return Edges.of_integers(none, none, none, Fraction(1), len(clique.marks), (clique,))


def _with(edges: Edges, clique: Cliques) -> Edges:
    """The same edges and one more clique."""
    return Edges.of_integers(
        edges.first,
        edges.second,
        edges.numerators,
        edges.unit,
        edges.size,
        (*edges.cliques, clique),
    )


def _aside(metric: AsideMetric) -> Edges:
    """The pairs of the line, and every cell of it with the one aside."""
    last, line = metric.line.size, edges_of(metric.line)
    unit = Fraction(1, math.lcm(line.unit.denominator, metric.aside.denominator))
    cells = np.arange(last)
    along = line.numerators.astype(object) * int(line.unit / unit)
    across = np.full(last, int(metric.aside / unit), dtype=object)
    # Cells as far apart as the way through the last one need no clique of their own.
    caps = [clique for clique in line.cliques if clique.length < 2 * metric.aside]
    return Edges.of_integers(
        np.concatenate([line.first, cells]),
        np.concatenate([line.second, np.full(last, last)]),
        whole_numbers(np.concatenate([along, across])),
        unit,
        metric.size,
        [Cliques(np.append(clique.marks, 1).astype(np.intp), clique.length) for clique in caps],
    )


def _high_low(metric: HighLowMetric) -> Edges:
    """Every pair with a sensitive cell; all others follow, by a path through one."""
    sensitive = np.flatnonzero(metric.sensitive)
    if len(sensitive) == metric.size:
        return _only(Cliques(np.zeros(metric.size, dtype=np.intp), metric.epsilon))
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
