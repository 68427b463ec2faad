"""E between the cells of one axis, as exact rationals or infinite."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import StudyError, TooLargeError
from sfumato.exact import nearest_float
from sfumato.metrics.closure import close_integers
from sfumato.metrics.norms import GRID, GRID_BITS

MOST_TABLE_CELLS = 2048
_MOST = Fraction(10**308)  # near the largest double
_LEAST = Fraction(1, 1 << 50)  # below, e^E is 1 to doubles, and no answer could be computed
ROUNDED = f"rounded down to multiples of 2^-{GRID_BITS}: never weaker than stated"


class CellMetric(ABC):
    """E on cells 0..size-1: the odds of a report change by at most e^E(i, j) from cell i to j.

    A subclass needs `size`, `notes` and `exact`, which decides privacy. `between` and `matrix` give
    the nearest double, for people and plots. Where E has a shape, `integers`, `matrix` and `plus`
    are worth overriding for speed.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of cells."""

    @property
    @abstractmethod
    def notes(self) -> tuple[str, ...]:
        """What binding changed in the statement; a change never weakens the guarantee."""

    @abstractmethod
    def exact(self, i: int, j: int) -> Fraction | None:
        """E(i, j); None where it is infinite.

        Args:
            i: The cell that changes.
            j: The cell it changes to.
        """

    def between(self, i: int, j: int) -> float:
        """E(i, j) as a double.

        Args:
            i: The cell that changes.
            j: The cell it changes to.
        """
        value = self.exact(i, j)
        return math.inf if value is None else nearest_float(value)

    def integers(self) -> tuple[NDArray[Any], int]:
        """All of E as Python integers over one denominator, -1 where infinite."""
        refuse_large_table(self.size)
        cells = range(self.size)
        return _over_one_denominator([[self.exact(i, j) for j in cells] for i in cells])

    def matrix(self) -> NDArray[np.float64]:
        """All of E, shape (size, size)."""
        numerators, denominator = self.integers()
        return np.array([divide(row, denominator) for row in numerators])

    def largest(self) -> Fraction | None:
        """The largest E between two cells; None if some E is infinite."""
        numerators, denominator = self.integers()
        return None if (numerators < 0).any() else Fraction(int(numerators.max()), denominator)

    def plus(self, others: Sequence[CellMetric]) -> CellMetric | None:
        """The sum with other metrics on the same cells, if all have the shape of this one."""
        return None


@dataclass(frozen=True, slots=True, eq=False)
class TableMetric(CellMetric):
    """Any E: integers over one denominator, closed under shortest paths.

    Guarantee:
        Closing never raises an entry, so the closed E is at least as strict as the given one, and
        every channel that keeps the given one keeps it as well.

    Args:
        numerators: E times the denominator, -1 where infinite, 0 on the diagonal only.
        denominator: Positive integer.
        size: Number of cells, at most 2048.
        notes: What was done before; closing adds its own.

    Example:
        >>> table = TableMetric(np.array([[0, 1, 9], [1, 0, 1], [9, 1, 0]]), 2, 3)
        >>> table.exact(0, 2), table.notes
        (Fraction(1, 1), ('closed: 2 of 6 pairs are nearer by way of another cell',))
    """

    numerators: NDArray[Any]
    denominator: int
    size: int
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the entries, close them, and keep them from being written to."""
        given = np.asarray(self.numerators)
        refuse_large_table(self.size)
        if given.shape != (self.size, self.size) or self.size < 2:
            raise StudyError(
                f"numerators must be {self.size} by {self.size}, with 2 cells or more, got "
                f"shape {given.shape}"
            )
        if given.dtype.kind not in "iuO" or self.denominator < 1 or bool((given < -1).any()):
            raise StudyError(
                "numerators must be integers of -1 (infinite) or more, the denominator positive"
            )
        if bool((given.diagonal() != 0).any()):
            raise StudyError("the diagonal must be 0: a cell is at no distance from itself")
        _refuse_zeros(given, range(1, self.size + 1))
        closed = close_integers(given)
        closed.setflags(write=False)
        object.__setattr__(self, "numerators", closed)
        object.__setattr__(self, "notes", (*self.notes, *self._note_on_closing(given)))

    def _note_on_closing(self, given: NDArray[Any]) -> tuple[str, ...]:
        """How many pairs came nearer, apart from what rounding to the grid alone would do."""
        least = self.size if ROUNDED in self.notes else 1
        opened = (given < 0) & (self.numerators >= 0)
        fell = int(np.count_nonzero(opened | (given - self.numerators >= least)))
        pairs = self.size * (self.size - 1)
        note = f"closed: {fell} of {pairs} pairs are nearer by way of another cell"
        return (note,) if fell else ()

    def __eq__(self, other: object) -> bool:
        """Whether both say the same E."""
        if not isinstance(other, TableMetric):
            return NotImplemented
        return (
            self.denominator == other.denominator
            and self.notes == other.notes
            and np.array_equal(self.numerators, other.numerators)
        )

    def __hash__(self) -> int:
        """A hash that equal tables share."""
        return hash((self.denominator, self.size, tuple(int(n) for n in self.numerators[0])))

    def exact(self, i: int, j: int) -> Fraction | None:
        """E(i, j); None where it is infinite.

        Args:
            i: The cell that changes.
            j: The cell it changes to.
        """
        check_cells(i, j, self.size)
        numerator = int(self.numerators[i, j])
        return None if numerator < 0 else Fraction(numerator, self.denominator)

    def integers(self) -> tuple[NDArray[Any], int]:
        """All of E as Python integers over one denominator, -1 where infinite."""
        return self.numerators.astype(object), self.denominator


def table(
    numerators: NDArray[Any],
    denominator: int,
    *,
    names: Sequence[str],
    notes: Sequence[str] = (),
) -> TableMetric:
    """A table from integers of any size, rounded down to the grid where it must be.

    Args:
        numerators: E times the denominator, -1 where infinite.
        denominator: Positive integer.
        names: What to call each cell in an error.
        notes: What was done before.
    """
    infinite = numerators < 0
    exact = ROUNDED not in notes
    (_refuse_zeros if exact else _refuse_vanishing)(numerators, names)
    common = math.gcd(denominator, *numerators[~infinite].tolist()) if exact else 1
    rounded = denominator // common > GRID
    if rounded:
        finite = np.asarray(numerators.astype(object) * GRID // denominator)
        denominator = GRID
        _refuse_vanishing(finite, names)
    else:
        finite = np.asarray(numerators // common)
        denominator //= common
    most = Fraction(int(finite.max()), denominator)
    refuse_extreme(Fraction(1), max(most, Fraction(1)))
    said = (*notes, ROUNDED) if rounded and exact else tuple(notes)
    return TableMetric(np.where(infinite, -1, finite), denominator, len(names), said)


def fractions_table(
    entries: Sequence[Sequence[Fraction | None]],
    *,
    names: Sequence[str],
    notes: Sequence[str] = (),
) -> TableMetric:
    """A table from rationals, None where infinite.

    Args:
        entries: E of every pair, None where it is infinite.
        names: What to call each cell in an error.
        notes: What was done before.
    """
    common, beyond = 1, GRID << GRID_BITS
    for denominator in {e.denominator for row in entries for e in row if e is not None}:
        common = math.lcm(common, denominator)
        if common > beyond:  # many unlike fractions: round each, finely enough to be rounded once
            return _rounded_table(entries, names, notes)
    numerators, common = _over_one_denominator(entries)
    return table(numerators, common, names=names, notes=notes)


def _rounded_table(
    entries: Sequence[Sequence[Fraction | None]], names: Sequence[str], notes: Sequence[str]
) -> TableMetric:
    """A table from rationals, each rounded down to the grid separately."""
    _refuse_zeros(np.array([[-1 if e is None else int(e > 0) for e in r] for r in entries]), names)
    floors = np.array(
        [[-1 if e is None else math.floor(e * GRID) for e in row] for row in entries], dtype=object
    )
    _refuse_vanishing(floors, names)
    return table(floors, GRID, names=names, notes=(*notes, ROUNDED))


def refuse_extreme(least: Fraction, most: Fraction) -> None:
    """Refuse an E that no double can hold.

    Args:
        least: The smallest E between two cells.
        most: The largest one that is finite.
    """
    if not _LEAST <= least <= most <= _MOST:
        beyond = least if least < _LEAST else most
        got = Decimal(beyond.numerator) / beyond.denominator
        raise StudyError(
            f"E between two cells must lie between 2^-50 and 1e308, got {got:.3g}: change epsilon, "
            "or the unit of distance"
        )


def add_cells(parts: Sequence[CellMetric], *, names: Callable[[], Sequence[str]]) -> CellMetric:
    """The sum of metrics on the same cells (composition: Xiang et al. 2020, Proposition 5).

    Args:
        parts: One metric or more.
        names: Gives the label of every cell, for errors; asked only where a table is built.
    """
    total = parts[0].plus(parts[1:])
    if total is not None:
        return total
    refuse_large_table(parts[0].size)
    tables = [part.integers() for part in parts]
    common = math.lcm(*(denominator for _, denominator in tables))
    added = sum(numerators * (common // denominator) for numerators, denominator in tables)
    infinite = np.logical_or.reduce([numerators < 0 for numerators, _ in tables])
    return table(np.where(infinite, -1, added), common, names=names(), notes=joined_notes(*parts))


def joined_notes(*parts: CellMetric) -> tuple[str, ...]:
    """The notes of several metrics, each once."""
    return tuple(dict.fromkeys(note for part in parts for note in part.notes))


def refuse_large_table(size: int) -> None:
    """Refuse a table that would not fit."""
    if size > MOST_TABLE_CELLS:
        raise TooLargeError(
            f"this metric is kept as a table of all pairs, for at most {MOST_TABLE_CELLS} cells, "
            f"and the axis has {size}: use fewer cells, or Distance or Uniform, which need none"
        )


def _over_one_denominator(
    entries: Sequence[Sequence[Fraction | None]],
) -> tuple[NDArray[Any], int]:
    """Rationals as integers over their least common denominator, -1 for None."""
    common = math.lcm(1, *{e.denominator for row in entries for e in row if e is not None})
    numerators = [[-1 if e is None else int(e * common) for e in row] for row in entries]
    return np.array(numerators, dtype=object), common


def _refuse_zeros(numerators: NDArray[Any], names: Sequence[object]) -> None:
    """Refuse two cells at distance 0."""
    pair = _first_zero(numerators)
    if pair is not None:
        raise StudyError(
            f"E between {names[pair[0]]!r} and {names[pair[1]]!r} must be above 0, got 0: these "
            f"two could never be told apart, so merge them into one cell"
        )


def _refuse_vanishing(numerators: NDArray[Any], names: Sequence[object]) -> None:
    """Refuse a positive E that is below the grid."""
    pair = _first_zero(numerators)
    if pair is not None:
        raise StudyError(
            f"E between {names[pair[0]]!r} and {names[pair[1]]!r} is below 2^-{GRID_BITS}, the "
            f"least a table can hold: raise epsilon, or merge the two into one cell"
        )


def _first_zero(numerators: NDArray[Any]) -> tuple[int, int] | None:
    """The first pair of different cells with a zero between them."""
    zero = np.asarray(numerators == 0, dtype=bool)
    np.fill_diagonal(zero, False)
    found = np.argwhere(zero)
    return (int(found[0, 0]), int(found[0, 1])) if len(found) else None


_MOST_MATRIX_CELLS = 4096


def refuse_large_matrix(size: int) -> None:
    """Refuse a matrix beyond what a screen or a check could use."""
    if size > _MOST_MATRIX_CELLS:
        raise TooLargeError(
            f"a matrix of {size} by {size} is beyond the {_MOST_MATRIX_CELLS} cells that matrix() "
            f"gives: ask between(i, j) for single pairs"
        )


def divide(row: NDArray[Any], denominator: int) -> NDArray[np.float64]:
    """Integers over a denominator as the nearest doubles, -1 as infinity.

    Args:
        row: The numerators.
        denominator: A positive integer.
    """
    exact = max(int(row.max()), denominator) < 1 << 53
    numerators = row.astype(np.float64 if exact else object)
    values = np.array(numerators / denominator, dtype=np.float64)
    return np.where(np.asarray(row < 0, dtype=bool), math.inf, values)


def check_cells(i: int, j: int, size: int) -> None:
    """Refuse cells that are not there; a negative number would count from the end.

    Args:
        i: One cell.
        j: The other.
        size: Number of cells.
    """
    if not (0 <= i < size and 0 <= j < size):
        raise StudyError(f"cells are numbered 0..{size - 1}, got {i} and {j}")
