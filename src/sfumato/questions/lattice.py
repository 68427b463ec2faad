"""Linear questions on a lattice: coefficients that are whole multiples of a unit.

Noise is drawn in whole steps of the unit, and privacy is proved in integers for these steps. A
workload of rational coefficients lies on such a lattice as it is. Where that would need too many
steps, coefficients are rounded first, and `off` states the largest rounding error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.arrays import Floats
from sfumato.errors import QuestionError, TooLargeError
from sfumato.exact import positive, rational
from sfumato.questions.workload import MOST_ENTRIES, Workload, is_sparse

MOST_STEPS = 1 << 24
ROUNDED_STEPS = 1 << 20
_FARTHEST = 1 << 52
_SPARSE_FROM = 1 << 22  # entries from which a matrix of few nonzero ones is kept sparse
_SPARSE_SHARE = 8
_ROWS_AT_ONCE_ENTRIES = 1 << 22

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """Rows of whole steps: row k of the questions is ``steps[k] * units[k]``.

    Attributes:
        steps: Whole numbers, one row per question and one column per cell: an int64 array, or a
            `scipy.sparse.csr_array` where there are many and most are zero.
        units: The exact size of a step of each row.
        off: The largest rounding error of a coefficient of each row; 0 where none was rounded.
        labels: What the questions are called, for error messages.

    Example:
        >>> import sfumato as sf
        >>> held = sf.questions.Lattice.of([[0.5, 1, 0.25], [3, 0, 6]])
        >>> held.steps, held.units, held.off
        (array([[2, 4, 1],
               [1, 0, 2]]), (Fraction(1, 4), Fraction(3, 1)), array([0., 0.]))
    """

    steps: Any
    units: tuple[Fraction, ...]
    off: Floats
    labels: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Check the lengths, and make the arrays read-only."""
        rows = self.steps.shape[0]
        if len(self.units) != rows or self.off.shape != (rows,):
            raise ValueError("a lattice needs one unit and one number in off per row")
        for array in (self.steps.data if self.is_sparse else self.steps, self.off):
            array.setflags(write=False)

    @classmethod
    def of(cls, queries: Any, granularity: Any = None) -> Lattice:
        """Put questions on a lattice; a float means the shortest decimal that prints it.

        Args:
            queries: A `Workload`, a dense or sparse matrix, or rows of exact numbers.
            granularity: The unit of each row, to which coefficients are rounded. By default it is
                the greatest common divisor of the row, or, where that needs more than 2^24 steps,
                the 2^20th part of the row's range.

        Raises:
            QuestionError: If some numbers are not finite.
            TooLargeError: If there are too many entries, or a coefficient has too many steps.
        """
        if isinstance(queries, Lattice):
            return queries
        unit = None if granularity is None else positive(granularity, "granularity")
        matrix, labels = matrix_of(queries), getattr(queries, "labels", None)
        if is_sparse(matrix):
            return _of_sparse(matrix, unit, labels)
        steps = np.empty(matrix.shape, dtype=np.int64)
        units: list[Fraction] = []
        off = np.zeros(len(matrix))
        step = max(1, _ROWS_AT_ONCE_ENTRIES // matrix.shape[1])
        for start in range(0, matrix.shape[0], step):
            part = _whole(matrix[start : start + step]) if unit is None else None
            if part is not None:
                steps[start : start + step] = part[0]
                units += part[1]
                continue
            for number, row in enumerate(matrix[start : start + step], start=start):
                steps[number], size, off[number] = _row(row, unit, number)
                units.append(size)
        return cls(steps, tuple(units), off, labels)

    @property
    def shape(self) -> tuple[int, int]:
        """Questions and cells."""
        return int(self.steps.shape[0]), int(self.steps.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether the steps are a sparse matrix."""
        return is_sparse(self.steps)

    @property
    def is_exact(self) -> bool:
        """Whether no coefficient was rounded."""
        return not self.off.any()

    def __len__(self) -> int:
        return self.shape[0]

    def row(self, number: int) -> Integers:
        """The steps of one question, cell by cell."""
        row = self.steps[[number]]
        found: Integers = np.asarray(row.toarray() if self.is_sparse else row, dtype=np.int64)[0]
        return found

    def select(self, which: Any) -> Lattice:
        """Some of the rows, by number."""
        chosen = np.atleast_1d(np.asarray(which, dtype=np.intp))
        units = tuple(self.units[int(number)] for number in chosen)
        return Lattice(self.steps[chosen], units, self.off[chosen])

    def matrix(self) -> Any:
        """The coefficients as floats; sparse if the steps are."""
        sizes = np.array([float(unit) for unit in self.units])
        if self.is_sparse:
            return sparse.csr_array(sparse.diags_array(sizes) @ self.steps.astype(np.float64))
        return self.steps * sizes[:, None]

    def totals(self, counts: Any) -> Integers:
        """The sum of steps over all people, in exact integers; noise is added to these.

        Args:
            counts: Number of people in each cell.
        """
        held = np.asarray(counts)
        if not np.issubdtype(held.dtype, np.integer) or held.shape != (self.shape[1],):
            raise QuestionError(
                f"counts must be {self.shape[1]} whole numbers, one per cell, got shape "
                f"{held.shape}"
            )
        most = int(abs(self.steps).max())
        if most * int(np.abs(held).sum(dtype=object)) >= 2**63:
            raise TooLargeError(
                f"sums of up to {most:,} steps per person do not fit 64-bit integers for this "
                "number of people; give a coarser granularity"
            )
        return np.asarray(self.steps @ held.astype(np.int64), dtype=np.int64)


def matrix_of(queries: Any) -> Any:
    """Coefficients as a dense float or object matrix, or a sparse one if that is much smaller."""
    if isinstance(queries, Workload):
        entries = queries.questions * queries.cells
        if entries < _SPARSE_FROM:
            return queries.dense()
        held = queries.sparse()
        if held.nnz * _SPARSE_SHARE <= entries or entries > MOST_ENTRIES:
            return held
        return held.toarray()
    if is_sparse(queries):
        matrix: Any = sparse.csr_array(queries, copy=True)
        matrix.sum_duplicates()
        matrix = matrix if np.prod(matrix.shape) >= _SPARSE_FROM else matrix.toarray()
    else:
        try:
            matrix = np.atleast_2d(np.asarray(queries))
        except ValueError:
            matrix = np.zeros(0)
        matrix = matrix.astype(object) if matrix.dtype.kind == "U" else matrix
    if matrix.ndim != 2 or 0 in matrix.shape or matrix.dtype.kind not in "biufO":
        raise QuestionError(
            "queries must be a matrix of numbers with one row per question and one column per "
            f"cell, got {type(queries).__name__}"
        )
    return matrix


def _whole(matrix: NDArray[Any]) -> tuple[Integers, list[Fraction]] | None:
    """Rows of small whole numbers in units of their common divisors; None for other numbers."""
    if matrix.dtype == object:
        return None
    with np.errstate(invalid="ignore"):
        steps = matrix.astype(np.int64)
    if (
        not np.array_equal(steps, matrix)
        or not -MOST_STEPS <= steps.min() <= steps.max() <= MOST_STEPS
    ):
        return None
    units = np.gcd.reduce(steps, axis=1)
    units[units == 0] = 1
    if np.any(units > 1):
        steps //= units[:, None]
    return steps, [Fraction(int(unit)) for unit in units]


def _row(row: NDArray[Any], unit: Fraction | None, number: int) -> tuple[Integers, Fraction, float]:
    """Steps, unit and rounding error of one row of any numbers."""
    if row.dtype == object:
        exact = [rational(value, f"row {number}") for value in row]
        places: Any = range(len(exact))
    else:
        distinct, places = np.unique(row, return_inverse=True)
        if not np.isfinite(distinct).all():
            raise QuestionError(f"queries must hold finite numbers; row {number} does not")
        exact = [rational(value, f"row {number}") for value in distinct.tolist()]
    steps, size, most = _steps(exact, unit, number)
    return np.array(steps, dtype=np.int64)[np.asarray(places, dtype=np.intp)], size, most


def _steps(
    exact: list[Fraction], unit: Fraction | None, number: int
) -> tuple[list[int], Fraction, float]:
    """Steps, unit and rounding error of given numbers."""
    if unit is None:
        unit = _common_unit(exact)
        steps = [int(value / unit) for value in exact]
        if max(map(abs, steps)) <= MOST_STEPS:
            return steps, unit, 0.0
        unit = (max(exact) - min(exact)) / ROUNDED_STEPS
    steps = [round(value / unit) for value in exact]
    if max(map(abs, steps)) > _FARTHEST:
        raise TooLargeError(
            f"row {number} of the queries has coefficients of more than 2^52 steps of {unit}; "
            "take a constant off the row, or give a coarser granularity"
        )
    most = max(abs(value - step * unit) for value, step in zip(exact, steps, strict=True))
    return steps, unit, math.nextafter(float(most), math.inf) if most else 0.0


def _common_unit(exact: list[Fraction]) -> Fraction:
    """The largest unit of which all numbers are whole multiples; 1 if all are 0."""
    below = math.lcm(*(value.denominator for value in exact))
    above = math.gcd(*(int(value * below) for value in exact))
    return Fraction(above, below) if above else Fraction(1)


def _of_sparse(matrix: Any, unit: Fraction | None, labels: Sequence[str] | None) -> Lattice:
    """The same for a sparse matrix, row by row over the nonzero entries."""
    if matrix.nnz > MOST_ENTRIES:
        raise TooLargeError(
            f"queries have {matrix.nnz:,} entries that are not zero; the limit is {MOST_ENTRIES:,}"
        )
    starts, count = matrix.indptr, matrix.shape[0]
    data = np.zeros(matrix.nnz, dtype=np.int64)
    units = [Fraction(1) if unit is None else unit] * count
    off = np.zeros(count)
    if matrix.nnz and unit is None and np.array_equal(np.unique(matrix.data), [1]):
        data[:] = 1
    else:
        for number in range(count):
            part = slice(starts[number], starts[number + 1])
            if part.start < part.stop:
                row = np.append(matrix.data[part], 0)  # for the cells that are not stored
                steps, units[number], off[number] = _row(row, unit, number)
                data[part] = steps[:-1]
    whole = sparse.csr_array((data, matrix.indices.copy(), starts.copy()), shape=matrix.shape)
    return Lattice(whole, tuple(units), off, labels)
