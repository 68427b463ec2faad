"""Workloads over several axes: Kronecker products, stacks, marginals and conjunctions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from sfumato.arrays import Floats
from sfumato.errors import StudyError
from sfumato.questions.language import Question
from sfumato.questions.lines import EVERYONE, Identity, Total, Words
from sfumato.questions.workload import (
    ENTRIES_AT_ONCE,
    Labels,
    Workload,
    checked_size,
    refuse_nonzero,
    row_products,
)


class Kronecker(Workload):
    """The Kronecker product of workloads: every combination of questions about different axes.

    Args:
        factors: One workload per axis, or per group of neighbouring axes, in order.

    Example:
        >>> import numpy as np
        >>> import sfumato as sf
        >>> both = sf.questions.Kronecker([sf.questions.Prefixes(3), sf.questions.Identity(2)])
        >>> both.shape, both.labels[2]
        ((6, 6), 'cells ..1, cell 0')
        >>> both @ np.array([[1, 2], [3, 4], [5, 6]]).ravel()
        array([ 1.,  2.,  4.,  6.,  9., 12.])
    """

    def __init__(self, factors: Sequence[Workload]) -> None:
        self.factors = _checked_parts(factors, "factors")
        counts = tuple(factor.questions for factor in self.factors)

        def label(row: int) -> str:
            places = np.unravel_index(row, counts)
            pairs = zip(self.factors, places, strict=True)
            return joined([factor.labels[int(place)] for factor, place in pairs])

        super().__init__(
            math.prod(counts),
            [size for factor in self.factors for size in factor.shape_of_cells],
            Labels(math.prod(counts), label),
            [name for factor in self.factors for name in factor.prorated],
        )

    def _matmat(self, X: Any) -> Any:
        return self._along(X, False)

    def _rmatmat(self, X: Any) -> Any:
        return self._along(X, True)

    def _along(self, X: Any, back: bool) -> Floats:
        """Apply each factor, or its transpose, along its axis; those that shrink it most first."""
        table = np.asarray(X, dtype=np.float64)
        columns = table.shape[1]
        sizes = [f.questions if back else f.cells for f in self.factors]
        table = table.reshape(*sizes, columns)
        order = sorted(range(len(sizes)), key=lambda d: _growth(self.factors[d], back))
        for d in order:
            factor = self.factors[d]
            moved = np.moveaxis(table, d, 0)
            flat = np.ascontiguousarray(moved).reshape(moved.shape[0], -1)
            done = factor._rmatmat(flat) if back else factor._matmat(flat)
            table = np.moveaxis(done.reshape(-1, *moved.shape[1:]), 0, d)
        return np.ascontiguousarray(table).reshape(-1, columns)

    def _rows(self, chosen: NDArray[np.intp]) -> Floats:
        places = np.unravel_index(chosen, tuple(f.questions for f in self.factors))
        rows = np.ones((len(chosen), 1))
        for factor, place in zip(self.factors, places, strict=True):
            rows = row_products(rows, factor._rows(np.asarray(place, dtype=np.intp)))
        return rows

    def _gram(self) -> Floats:
        gram: Floats = np.ones((1, 1))
        for factor in self.factors:
            gram = np.asarray(np.kron(gram, factor._gram()), dtype=np.float64)
        return gram

    @property
    def asked_axes(self) -> tuple[int, ...]:
        """The axes that any factor asks about."""
        found: list[int] = []
        first = 0
        for factor in self.factors:
            found += [first + axis for axis in factor.asked_axes]
            first += len(factor.shape_of_cells)
        return tuple(found)

    def sparse(self) -> Any:
        """The product of the factors' sparse matrices."""
        held = [factor.sparse() for factor in self.factors]
        refuse_nonzero(self, math.prod(matrix.nnz for matrix in held))
        found = held[0]
        for matrix in held[1:]:
            found = sparse.kron(found, matrix, format="csr")
        return sparse.csr_array(found)


def _growth(factor: Workload, back: bool) -> float:
    """The factor by which an axis becomes longer."""
    ratio = factor.questions / factor.cells
    return 1 / ratio if back else ratio


class Stacked(Workload):
    """Several workloads about the same cells, stacked row by row.

    Args:
        parts: The workloads.
        weights: Factors for the rows of each part; 1 by default.

    Example:
        >>> import sfumato as sf
        >>> sf.questions.Stacked([sf.questions.Total(2), sf.questions.Identity(2)]).dense()
        array([[1., 1.],
               [1., 0.],
               [0., 1.]])
    """

    def __init__(self, parts: Sequence[Workload], weights: ArrayLike | None = None) -> None:
        self.parts = _checked_parts(parts, "parts")
        shape = self.parts[0].shape_of_cells
        for part in self.parts:
            if part.cells != math.prod(shape):
                raise StudyError(
                    "stacked workloads must ask about the same cells, got "
                    f"{' × '.join(map(str, shape))} and {' × '.join(map(str, part.shape_of_cells))}"
                )
        self.weights = _checked_weights(weights, len(self.parts))
        stops = np.cumsum([part.questions for part in self.parts])
        self._starts = np.concatenate([[0], stops])

        def label(row: int) -> str:
            part = int(np.searchsorted(stops, row, side="right"))
            return self.parts[part].labels[row - int(self._starts[part])]

        super().__init__(
            int(stops[-1]),
            shape,
            Labels(int(stops[-1]), label),
            [name for part in self.parts for name in part.prorated],
        )

    def _matmat(self, X: Any) -> Any:
        pairs = zip(self.parts, self.weights, strict=True)
        return np.concatenate([weight * part._matmat(X) for part, weight in pairs])

    def _rmatmat(self, X: Any) -> Any:
        total = np.zeros((self.cells, X.shape[1]))
        for number, (part, weight) in enumerate(zip(self.parts, self.weights, strict=True)):
            rows = X[self._starts[number] : self._starts[number + 1]]
            total += weight * part._rmatmat(rows)
        return total

    def _rows(self, chosen: NDArray[np.intp]) -> Floats:
        rows = np.empty((len(chosen), self.cells))
        owner = np.searchsorted(self._starts[1:], chosen, side="right")
        for number, (part, weight) in enumerate(zip(self.parts, self.weights, strict=True)):
            mine = np.flatnonzero(owner == number)
            if len(mine):
                rows[mine] = weight * part._rows(chosen[mine] - self._starts[number])
        return rows

    def _gram(self) -> Floats:
        total = np.zeros((self.cells, self.cells))
        for part, weight in zip(self.parts, self.weights, strict=True):
            total += weight**2 * part._gram()
        return total

    @property
    def asked_axes(self) -> tuple[int, ...]:
        """The axes that any part asks about."""
        return tuple(sorted({axis for part in self.parts for axis in part.asked_axes}))

    def sparse(self) -> Any:
        """The parts' sparse matrices, one above the other."""
        pairs = zip(self.parts, self.weights, strict=True)
        return sparse.vstack([part.sparse() * weight for part, weight in pairs], format="csr")


class Marginals(Stacked):
    """Marginal tables: counts of people by some axes, summed over the others.

    Args:
        shape: Number of cells of each axis.
        axes: Numbers of axes: ``(0, 2)`` for one table, ``[(0, 2), (1,)]`` for several; an empty
            set is the total.
        words: Names of the cells of each axis; numbers by default.

    Example:
        >>> import sfumato as sf
        >>> tables = sf.questions.Marginals((2, 3), [(0,), (1,)])
        >>> tables.dense()
        array([[1., 1., 1., 0., 0., 0.],
               [0., 0., 0., 1., 1., 1.],
               [1., 0., 0., 1., 0., 0.],
               [0., 1., 0., 0., 1., 0.],
               [0., 0., 1., 0., 0., 1.]])
    """

    def __init__(
        self,
        shape: Sequence[int],
        axes: Iterable[int] | Iterable[Iterable[int]],
        *,
        words: Sequence[Words] | None = None,
    ) -> None:
        sizes = tuple(checked_size(size, "shape") for size in shape)
        self.tables = _checked_tables(axes, len(sizes))
        names = [None] * len(sizes) if words is None else list(words)
        super().__init__(
            [
                Kronecker(
                    [
                        Identity(size, words=names[d]) if d in table else Total(size)
                        for d, size in enumerate(sizes)
                    ]
                )
                for table in self.tables
            ]
        )


class KWay(Marginals):
    """All k-way marginals: the table of every k axes.

    Args:
        shape: Number of cells of each axis.
        k: Number of axes per table.
        words: Names of the cells of each axis; numbers by default.

    Example:
        >>> import sfumato as sf
        >>> sf.questions.KWay((4, 3, 2), 2)
        <KWay: 26 questions about 4 × 3 × 2 cells>
    """

    def __init__(
        self, shape: Sequence[int], k: int, *, words: Sequence[Words] | None = None
    ) -> None:
        self.k = checked_size(k, "k", 0)
        if self.k > len(shape):
            raise StudyError(f"k must be at most the number of axes, {len(shape)}, got k={k}")
        super().__init__(
            shape, list(itertools.combinations(range(len(shape)), self.k)), words=words
        )


def _checked_parts(parts: Sequence[Workload], what: str) -> tuple[Workload, ...]:
    """At least one workload, and nothing else."""
    held = tuple(parts)
    if not held:
        raise StudyError(f"{what} must hold at least one workload, got none")
    for part in held:
        if not isinstance(part, Workload):
            raise StudyError(
                f"{what} must be workloads, got {type(part).__name__}; wrap a matrix in Given(...)"
            )
    return held


def _checked_weights(weights: ArrayLike | None, count: int) -> tuple[float, ...]:
    """One finite number per part."""
    if weights is None:
        return (1.0,) * count
    held = np.asarray(weights, dtype=np.float64)
    if held.shape != (count,) or not np.isfinite(held).all():
        raise StudyError(
            f"weights must be {count} finite numbers, one per part, got shape {held.shape}"
        )
    return tuple(float(weight) for weight in held)


def _checked_tables(
    axes: Iterable[int] | Iterable[Iterable[int]], count: int
) -> tuple[tuple[int, ...], ...]:
    """Sets of axes, each in order."""
    held: list[Any] = list(axes)
    if not held or all(isinstance(axis, (int, np.integer)) for axis in held):
        held = [held]
    tables = []
    for table in held:
        places = sorted(int(axis) for axis in table)
        if len(set(places)) < len(places) or any(not 0 <= axis < count for axis in places):
            raise StudyError(
                f"axes must be different numbers from 0 to {count - 1}, got axes={table!r}"
            )
        tables.append(tuple(places))
    return tuple(tables)


def joined(parts: list[str]) -> str:
    """Conditions on several axes as one question."""
    return ", ".join(part for part in parts if part != EVERYONE) or EVERYONE


@dataclass(frozen=True, slots=True, eq=False)
class _SameAxes:
    """Questions about the same axes: their row numbers, and their weights on each axis."""

    axes: tuple[int, ...]
    places: NDArray[np.intp]
    weights: tuple[Floats, ...]

    def rows(self, chosen: Any) -> Floats:
        """Rows over the cells of these axes alone."""
        rows = np.ones((len(self.places[chosen]), 1))
        for table in self.weights:
            rows = row_products(rows, table[chosen])
        return rows


class Asked(Workload):
    """A list of conjunctive questions, each a product of weights over axes.

    Questions about the same axes are answered together, from the marginal of these axes.

    Args:
        questions: The questions, as `sfumato.questions.language.weights` reads them.
        shape_of_cells: Number of cells of each axis.

    Example:
        >>> import sfumato as sf
        >>> from sfumato.questions.language import weights
        >>> axes = [sf.integers("age", 0, 2), sf.categories("sex", ["f", "m"])]
        >>> asked = Asked([weights(axes, "age=1.., sex=f"), weights(axes, "sex=m")], (3, 2))
        >>> asked.dense()
        array([[0., 0., 1., 0., 1., 0.],
               [0., 1., 0., 1., 0., 1.]])
    """

    def __init__(self, questions: Sequence[Question], shape_of_cells: Sequence[int]) -> None:
        shape = tuple(shape_of_cells)
        cut = [name for question in questions for name in question.prorated]
        labels = tuple(question.text or EVERYONE for question in questions)
        super().__init__(len(labels), shape, labels, cut)
        by_axes: dict[tuple[int, ...], list[int]] = {}
        for place, question in enumerate(questions):
            axes = tuple(
                axis
                for axis, w in enumerate(question.weights)
                if w is not None and not np.all(w == 1.0)
            )
            by_axes.setdefault(axes, []).append(place)
        self._groups = tuple(
            _SameAxes(
                axes,
                np.array(places, dtype=np.intp),
                tuple(
                    np.array([questions[place].weights[axis] for place in places]) for axis in axes
                ),
            )
            for axes, places in by_axes.items()
        )

    def _matmat(self, X: Any) -> Any:
        table = np.asarray(X, dtype=np.float64).reshape(*self.shape_of_cells, -1)
        found = np.empty((self.questions, table.shape[-1]))
        for group in self._groups:
            others = tuple(d for d in range(len(self.shape_of_cells)) if d not in group.axes)
            marginal = table.sum(axis=others).reshape(-1, table.shape[-1])
            step = max(1, ENTRIES_AT_ONCE // len(marginal))
            for start in range(0, len(group.places), step):
                part = slice(start, start + step)
                found[group.places[part]] = group.rows(part) @ marginal
        return found

    def _rmatmat(self, X: Any) -> Any:
        Y = np.asarray(X, dtype=np.float64)
        total = np.zeros((*self.shape_of_cells, Y.shape[1]))
        for group in self._groups:
            sizes = [self.shape_of_cells[d] for d in group.axes]
            marginal = np.zeros((math.prod(sizes), Y.shape[1]))
            step = max(1, ENTRIES_AT_ONCE // len(marginal))
            for start in range(0, len(group.places), step):
                part = slice(start, start + step)
                marginal += group.rows(part).T @ Y[group.places[part]]
            total += marginal.reshape(*self._spread(group.axes), Y.shape[1])
        return total.reshape(self.cells, -1)

    @property
    def asked_axes(self) -> tuple[int, ...]:
        """The axes on which any question has a condition."""
        return tuple(sorted({axis for group in self._groups for axis in group.axes}))

    def _spread(self, axes: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of a marginal, with length 1 along all other axes."""
        return tuple(size if d in axes else 1 for d, size in enumerate(self.shape_of_cells))

    def _rows(self, chosen: NDArray[np.intp]) -> Floats:
        rows = np.empty((len(chosen), self.cells))
        wide = rows.reshape(-1, *self.shape_of_cells)
        for group in self._groups:
            order = np.searchsorted(group.places, chosen)
            order = np.minimum(order, len(group.places) - 1)
            mine = np.flatnonzero(group.places[order] == chosen)
            wide[mine] = group.rows(order[mine]).reshape(-1, *self._spread(group.axes))
        return rows
