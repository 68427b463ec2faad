"""E by context, for any number of cells: blocks that hide within, and sensitive cells that hide.

Both are held as one number a cell, never as a table of pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import StudyError
from sfumato.exact import positive
from sfumato.metrics.lines import check_cells, refuse_large_matrix


@dataclass(frozen=True, slots=True, eq=False)
class BlockMetric:
    """E is ε between cells of one block and infinite between blocks.

    It is closed: a way round by another cell of the block is longer, by another block infinite.

    Args:
        epsilon: E within a block.
        block: The number of every cell's block.
        notes: What was changed on the way from the statement.

    Example:
        >>> metric = BlockMetric(Fraction(1), np.array([0, 1, 0]))
        >>> metric.exact(0, 2), metric.exact(0, 1)
        (Fraction(1, 1), None)
    """

    epsilon: Fraction
    block: NDArray[np.int64]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the numbers, and keep them from being written to."""
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "block", _held(self.block, np.int64, "a block number"))

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.block)

    def __eq__(self, other: object) -> bool:
        """Whether both say the same E in the same words."""
        if not isinstance(other, BlockMetric):
            return NotImplemented
        return (self.epsilon, self.notes) == (other.epsilon, other.notes) and np.array_equal(
            self.block, other.block
        )

    def __hash__(self) -> int:
        """A hash that equal metrics share."""
        return hash((self.epsilon, self.block.tobytes()))

    def exact(self, i: int, j: int) -> Fraction | None:
        """E(i, j); None where it is infinite."""
        check_cells(i, j, self.size)
        if i == j:
            return Fraction(0)
        return self.epsilon if self.block[i] == self.block[j] else None

    def between(self, i: int, j: int) -> float:
        """E(i, j) as a double."""
        value = self.exact(i, j)
        return math.inf if value is None else float(value)

    def matrix(self) -> NDArray[np.float64]:
        """All of E, shape (size, size)."""
        refuse_large_matrix(self.size)
        same = self.block[:, None] == self.block
        return _with_own(np.where(same, float(self.epsilon), math.inf))

    def pairs(self) -> list[tuple[int, int]]:
        """The first pair of cells within a block and the first apart, where there are such."""
        order = np.argsort(self.block, kind="stable")
        next_to = np.flatnonzero(np.diff(self.block[order]) == 0)
        within = [(int(order[next_to[0]]), int(order[next_to[0] + 1]))] if len(next_to) else []
        others = np.flatnonzero(self.block != self.block[0])
        return within + ([(0, int(others[0]))] if len(others) else [])


@dataclass(frozen=True, slots=True, eq=False)
class HighLowMetric:
    """E from a sensitive cell to any other is ε; from cells that are not sensitive, infinite.

    It is closed: any way from a sensitive cell begins with ε.

    Args:
        epsilon: E from a sensitive cell.
        sensitive: Whether each cell is sensitive; all or none may be.
        notes: What was changed on the way from the statement.

    Example:
        >>> metric = HighLowMetric(Fraction(1), np.array([True, False]))
        >>> metric.exact(0, 1), metric.exact(1, 0)
        (Fraction(1, 1), None)
    """

    epsilon: Fraction
    sensitive: NDArray[np.bool_]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the marks, and keep them from being written to."""
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "sensitive", _held(self.sensitive, np.bool_, "a mark"))

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.sensitive)

    def __eq__(self, other: object) -> bool:
        """Whether both say the same E in the same words."""
        if not isinstance(other, HighLowMetric):
            return NotImplemented
        return (self.epsilon, self.notes) == (other.epsilon, other.notes) and np.array_equal(
            self.sensitive, other.sensitive
        )

    def __hash__(self) -> int:
        """A hash that equal metrics share."""
        return hash((self.epsilon, self.sensitive.tobytes()))

    def exact(self, i: int, j: int) -> Fraction | None:
        """E(i, j); None where it is infinite."""
        check_cells(i, j, self.size)
        if i == j:
            return Fraction(0)
        return self.epsilon if self.sensitive[i] else None

    def between(self, i: int, j: int) -> float:
        """E(i, j) as a double."""
        value = self.exact(i, j)
        return math.inf if value is None else float(value)

    def matrix(self) -> NDArray[np.float64]:
        """All of E, shape (size, size)."""
        refuse_large_matrix(self.size)
        rows = np.where(self.sensitive, float(self.epsilon), math.inf)
        return _with_own(np.repeat(rows[:, None], self.size, axis=1))

    def pairs(self) -> list[tuple[int, int]]:
        """The first two sensitive cells, the first with another, and the first two others."""
        high, low = np.flatnonzero(self.sensitive)[:2], np.flatnonzero(~self.sensitive)[:2]
        chosen = [high, np.sort([*high[:1], *low[:1]]), low]
        return [(int(two[0]), int(two[1])) for two in chosen if len(two) == 2]


def _held(values: NDArray[Any], dtype: type[np.generic], what: str) -> NDArray[Any]:
    """One entry a cell, two cells or more, read-only."""
    array = np.array(values)
    kinds = "iu" if dtype is np.int64 else "b"
    if array.ndim != 1 or len(array) < 2 or array.dtype.kind not in kinds:
        raise StudyError(
            f"every one of 2 cells or more must have {what}, got shape {array.shape} of "
            f"{array.dtype}"
        )
    held = array.astype(dtype)
    held.setflags(write=False)
    return held


def _with_own(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Zero from every cell to itself."""
    np.fill_diagonal(matrix, 0.0)
    return matrix
