"""E between the cells of one axis, as exact rationals or infinite."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import StudyError, TooLargeError
from sfumato.metrics.closing import close_integers
from sfumato.metrics.contexts import BlockMetric, HighLowMetric
from sfumato.metrics.lines import (
    CappedLineMetric,
    LineMetric,
    check_cells,
    divide,
    refuse_large_matrix,
)
from sfumato.metrics.norms import GRID, GRID_BITS

MOST_TABLE_CELLS = 2048
ROUNDED = f"rounded down to multiples of 2^-{GRID_BITS}: never weaker than stated"


@runtime_checkable
class CellMetric(Protocol):
    """E on cells 0..size-1: the odds of a report change by at most e^E(i, j) from cell i to j.

    `exact` decides privacy; `between` and `matrix` give the nearest double, for people and plots.
    """

    @property
    def size(self) -> int:
        """Number of cells."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was changed on the way from the statement, never to its disadvantage."""

    def exact(self, i: int, j: int) -> Fraction | None:
        """E(i, j); None where it is infinite."""

    def between(self, i: int, j: int) -> float:
        """E(i, j) as a double."""

    def matrix(self) -> NDArray[np.float64]:
        """All of E, shape (size, size)."""


@dataclass(frozen=True, slots=True)
class UniformMetric:
    """Any two cells equally near: ordinary local differential privacy.

    Example:
        >>> UniformMetric(Fraction(1), 4).exact(0, 3)
        Fraction(1, 1)
    """

    epsilon: Fraction
    size: int
    notes: tuple[str, ...] = ()

    def exact(self, i: int, j: int) -> Fraction:
        """E(i, j)."""
        check_cells(i, j, self.size)
        return Fraction(0) if i == j else self.epsilon

    def between(self, i: int, j: int) -> float:
        """E(i, j) as a double."""
        return float(self.exact(i, j))

    def matrix(self) -> NDArray[np.float64]:
        """All of E, shape (size, size)."""
        refuse_large_matrix(self.size)
        return np.where(np.eye(self.size, dtype=bool), 0.0, float(self.epsilon))


@dataclass(frozen=True, slots=True, eq=False)
class TableMetric:
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
        """E(i, j); None where it is infinite."""
        check_cells(i, j, self.size)
        numerator = int(self.numerators[i, j])
        return None if numerator < 0 else Fraction(numerator, self.denominator)

    def between(self, i: int, j: int) -> float:
        """E(i, j) as a double."""
        value = self.exact(i, j)
        return math.inf if value is None else float(value)

    def matrix(self) -> NDArray[np.float64]:
        """All of E, shape (size, size)."""
        return np.array([divide(row, self.denominator) for row in self.numerators])


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
    said = (*notes, ROUNDED) if rounded and exact else tuple(notes)
    return TableMetric(np.where(infinite, -1, finite), denominator, len(names), said)


def fractions_table(
    entries: Sequence[Sequence[Fraction | None]],
    *,
    names: Sequence[str],
    notes: Sequence[str] = (),
) -> TableMetric:
    """A table from rationals, None where infinite."""
    common, beyond = 1, GRID << GRID_BITS
    for denominator in {e.denominator for row in entries for e in row if e is not None}:
        common = math.lcm(common, denominator)
        if common > beyond:  # many unlike fractions: round each, finely enough to be rounded once
            return _rounded_table(entries, names, notes)
    numerators = np.array(
        [[-1 if e is None else int(e * common) for e in row] for row in entries], dtype=object
    )
    return table(numerators, common, names=names, notes=notes)


def _rounded_table(
    entries: Sequence[Sequence[Fraction | None]], names: Sequence[str], notes: Sequence[str]
) -> TableMetric:
    """A table from rationals, each rounded down to the grid by itself."""
    _refuse_zeros(np.array([[-1 if e is None else int(e > 0) for e in r] for r in entries]), names)
    floors = np.array(
        [[-1 if e is None else math.floor(e * GRID) for e in row] for row in entries], dtype=object
    )
    _refuse_vanishing(floors, names)
    return table(floors, GRID, names=names, notes=(*notes, ROUNDED))


def add_cells(parts: Sequence[CellMetric], *, names: Sequence[str]) -> CellMetric:
    """The sum of metrics on the same cells (composition: Xiang et al. 2020, Proposition 5)."""
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    size = parts[0].size
    lines = [part for part in parts if isinstance(part, LineMetric)]
    if len(lines) == len(parts):
        equal = [line.equal_step for line in lines if line.equal_step is not None]
        if len(equal) == len(lines):
            return LineMetric.equal(sum(equal, Fraction(0)), size, notes)
        columns = zip(*(line.steps for line in lines), strict=True)
        return LineMetric([sum(steps, Fraction(0)) for steps in columns], notes)
    flat = [part.epsilon for part in parts if isinstance(part, UniformMetric)]
    if len(flat) == len(parts):
        return UniformMetric(sum(flat, Fraction(0)), size, notes)
    refuse_large_table(size)
    tables = [integer_table(part) for part in parts]
    common = math.lcm(*(denominator for _, denominator in tables))
    total = sum(numerators * (common // denominator) for numerators, denominator in tables)
    infinite = np.logical_or.reduce([numerators < 0 for numerators, _ in tables])
    return table(np.where(infinite, -1, total), common, names=names, notes=notes)


def refuse_large_table(size: int) -> None:
    """Refuse a table that would not fit."""
    if size > MOST_TABLE_CELLS:
        raise TooLargeError(
            f"this metric is kept as a table of all pairs, for at most {MOST_TABLE_CELLS} cells, "
            f"and the axis has {size}: use fewer cells, or Distance or Uniform, which need none"
        )


def integer_table(metric: CellMetric) -> tuple[NDArray[Any], int]:
    """E as big integers over one denominator, -1 where infinite."""
    if isinstance(metric, TableMetric):
        return metric.numerators.astype(object), metric.denominator
    if isinstance(metric, UniformMetric):
        full = np.full((metric.size, metric.size), metric.epsilon.numerator, dtype=object)
        np.fill_diagonal(full, 0)
        return full, metric.epsilon.denominator
    if isinstance(metric, BlockMetric | HighLowMetric):
        finite = np.isfinite(metric.matrix())
        full = np.where(finite, metric.epsilon.numerator, -1).astype(object)
        np.fill_diagonal(full, 0)
        return full, metric.epsilon.denominator
    if isinstance(metric, CappedLineMetric):
        line, denominator = integer_table(metric.line)
        common = math.lcm(denominator, metric.cap.denominator)
        return np.minimum(line * (common // denominator), int(metric.cap * common)), common
    places = [metric.exact(0, cell) or Fraction(0) for cell in range(metric.size)]
    common = math.lcm(*(place.denominator for place in places))
    line = np.array([int(place * common) for place in places], dtype=object)
    return np.abs(np.subtract.outer(line, line)), common


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
