"""Workloads over the cells of one axis: each cell, all cells, prefixes, and every range.

Kinds that need cells in a row take `size` besides the number m of cells that hold values: further
cells, such as "no answer", come last, and no question counts them. `Words` name the questions, in
the study's own language where there is one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.arrays import Floats
from sfumato.domains.base import NO_ANSWER
from sfumato.errors import StudyError, TooLargeError
from sfumato.questions.language import AxisLike, quoted
from sfumato.questions.workload import Labels, Workload, checked_size

EVERYONE = "everyone"
MOST_LISTED = 1 << 22  # of ends or nodes: beyond it they alone would fill the memory


class Words:
    """Names of the cells of one axis, and of runs of them; here by number.

    Example:
        >>> words = Words()
        >>> words.cell(3), words.span(2, 5), words.upto(4)
        ('cell 3', 'cells 2..5', 'cells ..4')
    """

    def cell(self, place: int) -> str:
        """One cell."""
        return f"cell {place}"

    def span(self, first: int, last: int) -> str:
        """All cells from the first to the last.

        Args:
            first: Number of the first cell.
            last: Number of the last cell.
        """
        return self.cell(first) if first == last else f"cells {first}..{last}"

    def upto(self, last: int) -> str:
        """All cells up to the last."""
        return f"cells ..{last}"


class AxisWords(Words):
    """Names of cells in the language of questions, so that a label can be asked again.

    Args:
        axis: The axis they are cells of.

    Example:
        >>> import sfumato as sf
        >>> words = AxisWords(sf.integers("age", 18, 99))
        >>> words.cell(0), words.span(0, 12), words.upto(12)
        ('age=18', 'age=18..30', 'age=..30')
    """

    def __init__(self, axis: AxisLike) -> None:
        self._name = quoted(axis.name)
        self._values = axis.domain.size
        labels = axis.domain.labels()
        self._labels = labels if axis.domain.ordered else [quoted(label) for label in labels]
        ends = [label.split("..") for label in labels]
        self._lows, self._highs = [end[0] for end in ends], [end[-1] for end in ends]
        # Between grid points an interval would be prorated, so runs of them are named one by one.
        self._grid = axis.domain.rounding_bits > 0

    def cell(self, place: int) -> str:
        """One cell, "no answer" included."""
        label = NO_ANSWER if place == self._values else self._labels[place]
        return f"{self._name}={label}"

    def span(self, first: int, last: int) -> str:
        """All cells from the first to the last.

        Args:
            first: Number of the first cell.
            last: Number of the last cell.
        """
        if first == last:
            return self.cell(first)
        if self._grid:
            return f"{self._name}={'|'.join(self._labels[first : last + 1])}"
        return f"{self._name}={self._lows[first]}..{self._highs[last]}"

    def upto(self, last: int) -> str:
        """All cells up to the last."""
        if self._grid:
            return self.span(0, last)
        return f"{self._name}=..{self._highs[last]}"


class Identity(Workload):
    """The identity workload: one question per cell.

    Args:
        m: Number of cells.
        words: Names of the cells; numbers by default.

    Example:
        >>> import sfumato as sf
        >>> sf.questions.Identity(3).dense()
        array([[1., 0., 0.],
               [0., 1., 0.],
               [0., 0., 1.]])
    """

    def __init__(self, m: int, *, words: Words | None = None) -> None:
        m = checked_size(m, "m")
        super().__init__(m, (m,), Labels(m, (words or Words()).cell))

    def _matmat(self, X: Any) -> Any:
        return np.array(X, dtype=np.float64)

    def _rmatmat(self, X: Any) -> Any:
        return np.array(X, dtype=np.float64)

    def _rows(self, chosen: NDArray[np.intp]) -> Floats:
        rows = np.zeros((len(chosen), self.cells))
        rows[np.arange(len(chosen)), chosen] = 1.0
        return rows

    def _gram(self) -> Floats:
        return np.eye(self.cells)

    def sparse(self) -> Any:
        """The identity matrix as a `scipy.sparse.csr_array`."""
        return sparse.eye_array(self.cells, format="csr")


class Total(Workload):
    """The total: one question that counts everyone.

    Args:
        m: Number of cells.

    Example:
        >>> import sfumato as sf
        >>> sf.questions.Total(3).dense()
        array([[1., 1., 1.]])
    """

    def __init__(self, m: int) -> None:
        m = checked_size(m, "m")
        super().__init__(1, (m,), (EVERYONE,))

    def _matmat(self, X: Any) -> Any:
        return np.sum(X, axis=0, dtype=np.float64, keepdims=True)

    def _rmatmat(self, X: Any) -> Any:
        return np.repeat(np.asarray(X, dtype=np.float64), self.cells, axis=0)

    def _gram(self) -> Floats:
        return np.ones((self.cells, self.cells))

    @property
    def asked_axes(self) -> tuple[int, ...]:
        """None: everybody counts."""
        return ()


class RowOfCells(Workload, ABC):
    """Workloads over cells in a row, followed by cells that no question counts.

    Args:
        values: Number of cells in the row.
        size: Number of all cells.
        labels: The questions in words.
    """

    def __init__(self, values: int, size: int, labels: Labels) -> None:
        super().__init__(len(labels), (size,), labels)
        self.values = values

    def _gram(self) -> Floats:
        gram = np.zeros((self.cells, self.cells))
        gram[: self.values, : self.values] = self._inner_gram()
        return gram

    @abstractmethod
    def _inner_gram(self) -> Floats:
        """The Gram matrix of the cells that count."""

    def _matmat(self, X: Any) -> Any:
        return self._forward(np.asarray(X, dtype=np.float64)[: self.values])

    def _rmatmat(self, X: Any) -> Any:
        Y = np.asarray(X, dtype=np.float64)
        back = np.zeros((self.cells, Y.shape[1]))
        back[: self.values] = self._backward(Y)
        return back

    @abstractmethod
    def _forward(self, X: Floats) -> Floats:
        """Answers from the cells that count."""

    @abstractmethod
    def _backward(self, Y: Floats) -> Floats:
        """The transpose, on the cells that count."""


def checked_row(m: Any, size: Any) -> tuple[int, int]:
    """The number of cells that count and the number of all cells, checked.

    Args:
        m: Number of cells that count.
        size: Number of all cells, or None for m.

    Raises:
        StudyError: If one of them is no whole number, or size is below m.
    """
    m = checked_size(m, "m")
    size = m if size is None else checked_size(size, "size")
    if size < m:
        raise StudyError(f"size must be at least m={m}, got size={size}")
    return m, size


def runs(first: NDArray[np.intp], last: NDArray[np.intp], size: int) -> Floats:
    """One row per run of cells: 1 from its first cell to its last, 0 elsewhere.

    Args:
        first: The first cell of each run.
        last: The last cell of each run.
        size: Number of all cells.
    """
    place = np.arange(size)
    return ((place >= first[:, None]) & (place <= last[:, None])).astype(np.float64)


class Prefixes(RowOfCells):
    """Prefix sums: all cells up to each one, the lower triangle L_m of Xiang et al. 2020, §3.3.

    Args:
        m: Number of cells in a row.
        size: Number of all cells; m by default.
        words: Names of the cells; numbers by default.

    Example:
        >>> import sfumato as sf
        >>> sf.questions.Prefixes(3).dense()
        array([[1., 0., 0.],
               [1., 1., 0.],
               [1., 1., 1.]])
    """

    def __init__(self, m: int, *, size: int | None = None, words: Words | None = None) -> None:
        m, size = checked_row(m, size)
        super().__init__(m, size, Labels(m, (words or Words()).upto))

    def _forward(self, X: Floats) -> Floats:
        return np.cumsum(X, axis=0)

    def _backward(self, Y: Floats) -> Floats:
        return np.cumsum(Y[::-1], axis=0)[::-1]

    def _rows(self, chosen: NDArray[np.intp]) -> Floats:
        return (np.arange(self.cells) <= chosen[:, None]).astype(np.float64)

    def _inner_gram(self) -> Floats:
        place = np.arange(self.values)
        return (self.values - np.maximum.outer(place, place)).astype(np.float64)


class Ranges(RowOfCells):
    """Every run of neighbouring cells, single ones included: m(m + 1)/2 questions.

    Ranges that begin at cell 0 come first, the shorter before the longer.

    Args:
        m: Number of cells in a row.
        size: Number of all cells; m by default.
        words: Names of the cells; numbers by default.
        ends: Only ranges between this many evenly spaced boundaries; all m + 1 by default.

    Example:
        >>> import sfumato as sf
        >>> list(sf.questions.Ranges(3).labels)
        ['cell 0', 'cells 0..1', 'cells 0..2', 'cell 1', 'cells 1..2', 'cell 2']
    """

    def __init__(
        self,
        m: int,
        *,
        size: int | None = None,
        words: Words | None = None,
        ends: int | None = None,
    ) -> None:
        m, size = checked_row(m, size)
        count = m + 1 if ends is None else min(m + 1, checked_size(ends, "ends", 2))
        if count > MOST_LISTED:
            raise TooLargeError(
                f"there are {count:,} places where a range may begin or end, more than "
                f"{MOST_LISTED:,}; give ends=, which spreads fewer of them over the cells"
            )
        # Boundary b lies before cell b; a range is everything between two boundaries.
        self._bounds = np.round(np.linspace(0, m, count)).astype(np.intp)
        self._starts = np.concatenate([[0], np.cumsum(np.arange(count - 1, 0, -1))])
        names = words or Words()

        def label(row: int) -> str:
            first, last = self._ends(np.array([row], dtype=np.intp))
            return names.span(int(first[0]), int(last[0]))

        super().__init__(m, size, Labels(count * (count - 1) // 2, label))

    @property
    def boundaries(self) -> int:
        """Number of places at which a range may begin or end."""
        return len(self._bounds)

    def ends(self, which: Any = slice(None)) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """First and last cell of some ranges, or of all."""
        return self._ends(self._chosen(which))

    def _ends(self, chosen: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        low = np.searchsorted(self._starts, chosen, side="right") - 1
        high = low + 1 + chosen - self._starts[low]
        return self._bounds[low], self._bounds[high] - 1

    def _forward(self, X: Floats) -> Floats:
        below = np.concatenate([np.zeros((1, X.shape[1])), np.cumsum(X, axis=0)])[self._bounds]
        found = np.empty((self.questions, X.shape[1]))
        for low in range(len(below) - 1):
            part = found[self._starts[low] : self._starts[low + 1]]
            np.subtract(below[low + 1 :], below[low], out=part)
        return found

    def _backward(self, Y: Floats) -> Floats:
        steps = np.zeros((len(self._bounds), Y.shape[1]))
        for low in range(len(steps) - 1):
            part = Y[self._starts[low] : self._starts[low + 1]]
            steps[low] += part.sum(axis=0)
            steps[low + 1 :] -= part
        spread = np.zeros((self.values + 1, Y.shape[1]))
        spread[self._bounds] = steps
        return np.cumsum(spread[:-1], axis=0)

    def _rows(self, chosen: NDArray[np.intp]) -> Floats:
        return runs(*self._ends(chosen), self.cells)

    def _inner_gram(self) -> Floats:
        # A range holds two cells if it begins at or before the first and ends after the last.
        place = np.arange(self.values)
        before = np.searchsorted(self._bounds, place, side="right").astype(np.float64)
        after = len(self._bounds) - before
        gram: Floats = np.minimum.outer(before, before) * np.minimum.outer(after, after)
        return gram

    def squares(self) -> tuple[Floats, Floats]:
        """WᵀW as K·Σ_a F_aᵀF_a − (ΣF_a)ᵀ(ΣF_a), F_a the cells below boundary a of K.

        The ranges are all differences F_b − F_a with a < b: K + 1 rows stand for K(K − 1)/2.
        """
        below = (np.arange(self.cells) < self._bounds[:, None]).astype(np.float64)
        count = float(len(below))
        return np.vstack([below, below.sum(axis=0)]), np.append(np.full(len(below), count), -1.0)
