"""Questions that are given: as a matrix, or one by one as products of weights over axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.arrays import Floats
from sfumato.errors import QuestionError
from sfumato.questions.language import Question
from sfumato.questions.words import EVERYONE
from sfumato.questions.workload import Workload, as_dense, is_sparse, row_products

_ENTRIES_AT_ONCE = 1 << 22


class Given(Workload):
    """Any matrix, dense or sparse.

    Args:
        matrix: A row a question, a column a cell.
        labels: The questions in words; left out, their numbers.
        shape_of_cells: Cells of every axis; left out, one axis.

    Raises:
        QuestionError: If it is not a matrix of finite numbers.

    Example:
        >>> import numpy as np
        >>> import sfumato as sf
        >>> mean = sf.questions.Given([[0, 1, 2, 3]], labels=["sum of scores"])
        >>> mean @ np.array([1, 0, 2, 1])
        array([7.])
    """

    def __init__(
        self,
        matrix: Any,
        labels: Sequence[str] | None = None,
        *,
        shape_of_cells: Sequence[int] | None = None,
    ) -> None:
        held = _checked_matrix(matrix)
        shape = (held.shape[1],) if shape_of_cells is None else tuple(shape_of_cells)
        if math.prod(shape) != held.shape[1]:
            raise QuestionError(
                f"a workload must have {math.prod(shape)} columns, one a cell "
                f"({' × '.join(map(str, shape))}), got shape {held.shape}"
            )
        names = None if labels is None else tuple(str(label) for label in labels)
        super().__init__(held.shape[0], shape, names)
        self._matrix = held

    def _matmat(self, X: Any) -> Any:
        return np.asarray(self._matrix @ np.asarray(X, dtype=np.float64))

    def _rmatmat(self, X: Any) -> Any:
        return np.asarray(self._matrix.T @ np.asarray(X, dtype=np.float64))

    def _rows(self, chosen: NDArray[np.intp]) -> Floats:
        return as_dense(self._matrix[chosen])

    def _gram(self) -> Floats:
        return as_dense(self._matrix.T @ self._matrix)

    def sparse(self) -> Any:
        """The matrix as a `scipy.sparse.csr_array`."""
        return sparse.csr_array(self._matrix)


def _checked_matrix(matrix: Any) -> Any:
    """A float matrix of our own that nobody can change, or a sparse one."""
    held: Any
    if is_sparse(matrix):
        held = sparse.csr_array(matrix, dtype=np.float64, copy=True)
        held.sum_duplicates()
        numbers: Any = held.data
    else:
        try:
            held = np.array(matrix, dtype=np.float64, ndmin=2)
        except (TypeError, ValueError):
            raise QuestionError(
                "a workload must be a matrix of numbers, one row a question and one column a cell, "
                f"got {type(matrix).__name__}"
            ) from None
        numbers = held
    if held.ndim != 2 or 0 in held.shape:
        raise QuestionError(
            "a workload must be a matrix with a row a question and a column a cell, "
            f"got shape {held.shape}"
        )
    if not np.isfinite(numbers).all():
        raise QuestionError("a workload must hold finite numbers; some are not")
    numbers.setflags(write=False)
    return held


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Questions about the same axes: where they stand, and their weights on each axis."""

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
    """Questions one by one, each a product of weights over axes.

    Those about the same axes are answered together from the marginal of these axes.

    Args:
        questions: What `sfumato.questions.weights` makes of them.
        shape_of_cells: Cells of every axis.

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
            _Group(
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
            step = max(1, _ENTRIES_AT_ONCE // len(marginal))
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
            step = max(1, _ENTRIES_AT_ONCE // len(marginal))
            for start in range(0, len(group.places), step):
                part = slice(start, start + step)
                marginal += group.rows(part).T @ Y[group.places[part]]
            total += marginal.reshape(*self._spread(group.axes), Y.shape[1])
        return total.reshape(self.cells, -1)

    def _spread(self, axes: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of a marginal that is the same along all other axes."""
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
