"""Workloads: many linear questions at once, as implicit linear operators.

A workload W has one row per question and one column per cell, in C order of the axes. Products use
its structure, so no matrix is stored unless one is asked for. Its Gram matrix WᵀW, which decides
the total error of every strategy, has a closed form for most kinds.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, SupportsIndex, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from sfumato.arrays import Floats
from sfumato.checks import numbers, several, whole
from sfumato.errors import QuestionError, StudyError, TooLargeError

Which = slice | ArrayLike

MOST_GRAM_CELLS = 4096
_MOST_CELLS = 1 << 31
MOST_ENTRIES = 1 << 26
ENTRIES_AT_ONCE = 1 << 22


class Labels(Sequence[str]):
    """Names of questions, each built when it is asked for.

    Args:
        count: Number of questions.
        name: Gives the name of a question by its number.

    Example:
        >>> names = Labels(1_000_000, lambda row: f"cell {row}")
        >>> len(names), names[-1], names[1:3]
        (1000000, 'cell 999999', ['cell 1', 'cell 2'])
    """

    __slots__ = ("_count", "_name")

    def __init__(self, count: int, name: Callable[[int], str]) -> None:
        self._count = count
        self._name = name

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: SupportsIndex) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> list[str]: ...

    def __getitem__(self, place: SupportsIndex | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self._name(row) for row in range(*place.indices(self._count))]
        row = range(self._count)[place]
        return self._name(row)

    def __repr__(self) -> str:
        shown = ", ".join(repr(name) for name in self[:3])
        return f"<{self._count:,} labels: {shown}{', …' if self._count > 3 else ''}>"


class Workload(LinearOperator[np.float64]):
    """Linear questions about the cells of a study: rows are questions, columns are cells.

    It is a `scipy.sparse.linalg.LinearOperator`, so ``W @ counts`` answers every question about a
    histogram, and ``W.T @ y`` goes back.

    Args:
        questions: Number of rows.
        shape_of_cells: Number of cells of each axis; columns are cells in C order of the axes.
        labels: The questions in words; their numbers by default.
        prorated: Names of axes on which some question cuts a bin.

    Example:
        >>> import numpy as np
        >>> import sfumato as sf
        >>> ranges = sf.questions.Ranges(4)
        >>> ranges.shape, ranges.labels[1]
        ((10, 4), 'cells 0..1')
        >>> ranges @ np.array([5, 1, 0, 2])
        array([5., 6., 6., 8., 1., 1., 3., 0., 2., 2.])
    """

    def __init__(
        self,
        questions: int,
        shape_of_cells: Sequence[int],
        labels: Sequence[str] | None = None,
        prorated: Sequence[str] = (),
    ) -> None:
        cells = tuple(int(size) for size in shape_of_cells)
        super().__init__(np.dtype(np.float64), (int(questions), math.prod(cells)))  # type: ignore[call-arg]  # the stubs leave __init__ out
        self.shape_of_cells: tuple[int, ...] = cells
        self.labels: Sequence[str] = Labels(int(questions), str) if labels is None else labels
        self.prorated: tuple[str, ...] = tuple(dict.fromkeys(prorated))
        if len(self.labels) != questions:
            raise StudyError(
                f"there must be one label per question, got {len(self.labels)} labels for "
                f"{questions} questions"
            )

    @property
    def questions(self) -> int:
        """Number of rows."""
        return self.shape[0]

    @property
    def cells(self) -> int:
        """Number of columns."""
        return self.shape[1]

    @abstractmethod
    def _matmat(self, X: Any) -> Any:
        """Answers to all questions, for every column of X."""

    @abstractmethod
    def _rmatmat(self, X: Any) -> Any:
        """The transpose times every column of X."""

    def rows(self, which: Which) -> Floats:
        """Some questions as rows of weights.

        Args:
            which: A slice, or numbers of rows.

        Example:
            >>> import sfumato as sf
            >>> sf.questions.Prefixes(4).rows([0, 2])
            array([[1., 0., 0., 0.],
                   [1., 1., 1., 0.]])
        """
        chosen = self._chosen(which)
        if len(chosen) * self.cells > MOST_ENTRIES:
            raise TooLargeError(
                f"{len(chosen):,} rows of {self.cells:,} cells are more than "
                f"{MOST_ENTRIES:,} numbers; ask for fewer rows at a time"
            )
        return self._rows(chosen)

    def _rows(self, chosen: NDArray[np.intp]) -> Floats:
        """Rows from the transpose: correct for every kind, and fast enough for a few rows."""
        units = np.zeros((self.questions, len(chosen)))
        units[chosen, np.arange(len(chosen))] = 1.0
        return np.ascontiguousarray(self._rmatmat(units).T)

    def _chosen(self, which: Which) -> NDArray[np.intp]:
        """The numbers of some rows, checked."""
        if isinstance(which, slice):
            return np.arange(*which.indices(self.questions), dtype=np.intp)
        chosen = np.atleast_1d(np.asarray(which))
        if chosen.dtype == np.bool_:
            chosen = np.flatnonzero(chosen)
        if not np.issubdtype(chosen.dtype, np.integer) and chosen.size:
            raise QuestionError(f"rows are chosen by whole numbers or a slice, got {chosen.dtype}")
        outside = chosen[(chosen < -self.questions) | (chosen >= self.questions)]
        if outside.size:
            raise QuestionError(
                f"a workload of {self.questions:,} questions has no row {outside[0]}"
            )
        return np.asarray(np.where(chosen < 0, chosen + self.questions, chosen), dtype=np.intp)

    def chunks(self, entries: int = ENTRIES_AT_ONCE) -> Iterator[tuple[slice, Floats]]:
        """All rows in order, in blocks of at most `entries` numbers."""
        step = max(1, entries // max(1, self.cells))
        for start in range(0, self.questions, step):
            part = slice(start, min(start + step, self.questions))
            yield part, self._rows(np.arange(part.start, part.stop, dtype=np.intp))

    def span(self) -> tuple[Floats, Floats]:
        """The least and the largest weight of a person in each question; in a cut bin, 0 to 1.

        Example:
            >>> import sfumato as sf
            >>> sf.questions.Given([[1, 0, -2], [0, 3, 3]]).span()
            (array([-2.,  0.]), array([1., 3.]))
        """
        ends = [(rows.min(axis=1), rows.max(axis=1)) for _, rows in self.chunks()]
        low, high = (np.concatenate(part) for part in zip(*ends, strict=True))
        if self.prorated:
            return np.minimum(low, 0.0), np.maximum(high, 1.0)
        return low, high

    def gram(self) -> Floats:
        """WᵀW, cell by cell.

        Raises:
            TooLargeError: Above 4,096 cells.

        Example:
            >>> import sfumato as sf
            >>> sf.questions.Ranges(3).gram()
            array([[3., 2., 1.],
                   [2., 4., 2.],
                   [1., 2., 3.]])
        """
        if self.cells > MOST_GRAM_CELLS:
            raise TooLargeError(
                f"the Gram matrix of {self.cells:,} cells is beyond the limit of "
                f"{MOST_GRAM_CELLS:,}; merge cells, or ask about fewer axes"
            )
        return self._gram()

    def _gram(self) -> Floats:
        """WᵀW by summation over rows."""
        total = np.zeros((self.cells, self.cells))
        for _, rows in self.chunks():
            total += rows.T @ rows
        return total

    def squares(self) -> tuple[Floats, Floats]:
        """Rows V and weights c with WᵀW = Vᵀ·diag(c)·V, as few as the structure allows.

        A sum of a quadratic form over all questions is the sum over the rows of V, weighted by c.
        """
        return self.dense(), np.ones(self.questions)

    @property
    def asked_axes(self) -> tuple[int, ...]:
        """Numbers of the axes on which the questions differ, as far as the structure shows.

        Example:
            >>> import sfumato as sf
            >>> sf.questions.Marginals((4, 3, 2), [(0,), (2,)]).asked_axes
            (0, 2)
        """
        return tuple(range(len(self.shape_of_cells)))

    def dense(self) -> Floats:
        """The whole matrix.

        Raises:
            TooLargeError: Above 2^26 entries.
        """
        if self.questions * self.cells > MOST_ENTRIES:
            raise TooLargeError(
                f"a matrix of {self.questions:,} questions × {self.cells:,} cells is beyond the "
                f"limit of {MOST_ENTRIES:,} entries; use it as an operator, or some rows(...)"
            )
        return self._rows(np.arange(self.questions, dtype=np.intp))

    def sparse(self) -> Any:
        """The whole matrix as a `scipy.sparse.csr_array`, built in blocks of rows.

        Raises:
            TooLargeError: Above 2^26 entries that are not zero.
        """
        parts, held = [], 0
        for _, rows in self.chunks():
            parts.append(sparse.csr_array(rows))
            held += parts[-1].nnz
            refuse_nonzero(self, held)
        return sparse.vstack(parts, format="csr")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The whole matrix, so that NumPy functions accept a workload."""
        return np.asarray(self.dense(), dtype=dtype)

    def __repr__(self) -> str:
        over = " × ".join(str(size) for size in self.shape_of_cells)
        many = "question" if self.questions == 1 else "questions"
        return f"<{type(self).__name__}: {self.questions:,} {many} about {over} cells>"


def is_sparse(matrix: Any) -> bool:
    """Whether something is a sparse matrix or array of SciPy."""
    return bool(sparse.issparse(matrix))


def as_dense(matrix: Any) -> Floats:
    """A dense or sparse matrix as an array of floats."""
    return np.asarray(matrix.toarray() if is_sparse(matrix) else matrix, dtype=np.float64)


def row_products(left: Floats, right: Floats) -> Floats:
    """The Kronecker product of each row with the same row of another matrix.

    Args:
        left: Shape (rows, m).
        right: Shape (rows, k); the result has shape (rows, m·k).
    """
    products = left[:, :, None] * right[:, None, :]
    return products.reshape(len(left), left.shape[1] * right.shape[1])


def refuse_nonzero(workload: Workload, held: int) -> None:
    """Refuse a sparse matrix with too many nonzero entries.

    Args:
        workload: Whose matrix it is.
        held: Number of nonzero entries.

    Raises:
        TooLargeError: Above 2^26 of them.
    """
    if held > MOST_ENTRIES:
        raise TooLargeError(
            f"a matrix of {workload.questions:,} questions × {workload.cells:,} cells has more "
            f"than {MOST_ENTRIES:,} entries that are not zero; use it as an operator"
        )


def checked_size(value: Any, what: str, least: int = 1) -> int:
    """A whole number that is not too small.

    Args:
        value: The number.
        what: Its name, for the message.
        least: The smallest number allowed.

    Raises:
        StudyError: If it is anything else.
    """
    return whole(value, what, least=least, most=_MOST_CELLS)


class Given(Workload):
    """A workload given as a matrix, dense or sparse.

    Args:
        matrix: One row per question, one column per cell.
        labels: The questions in words; their numbers by default.
        shape_of_cells: Number of cells of each axis; a single axis by default.

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
                f"a workload must have {math.prod(shape)} columns, one per cell "
                f"({' × '.join(map(str, shape))}), got shape {held.shape}"
            )
        names = None
        if labels is not None:
            names = tuple(map(str, several(labels, "labels", error=QuestionError)))
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
    """A read-only copy of a matrix as floats, dense or sparse."""
    held: Any
    if is_sparse(matrix):
        held = sparse.csr_array(matrix, dtype=np.float64, copy=True)
        held.sum_duplicates()
        entries: Any = held.data
    else:
        rule = "a matrix of numbers, one row per question and one column per cell"
        held = np.array(numbers(matrix, "a workload", rule, error=QuestionError), ndmin=2)
        entries = held
    if held.ndim != 2 or 0 in held.shape:
        raise QuestionError(
            "a workload must be a matrix with one row per question and one column per cell, "
            f"got shape {held.shape}"
        )
    if not np.isfinite(entries).all():
        raise QuestionError("a workload must hold finite numbers; some are not")
    entries.setflags(write=False)
    return held
