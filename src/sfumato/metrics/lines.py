"""Cells on a line: E adds up along it, as far as a cap allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import StudyError, TooLargeError
from sfumato.exact import positive, to_plain

_MOST_MATRIX_CELLS = 4096


@dataclass(frozen=True, slots=True, init=False)
class LineMetric:
    """Cells on a line: E is the sum of the steps between two of them.

    Equal steps are held as one number, whatever the size.

    Example:
        >>> LineMetric((Fraction(1), Fraction(2))).exact(0, 2)
        Fraction(3, 1)
        >>> LineMetric.equal(Fraction(1, 5), 1 << 24).exact(10, 4)
        Fraction(6, 5)
    """

    size: int
    equal_step: Fraction | None
    notes: tuple[str, ...]
    _places: tuple[Fraction, ...] = field(repr=False)

    def __init__(self, steps: Sequence[Fraction], notes: Sequence[str] = ()) -> None:
        """Take the step from each cell to the next, all above 0."""
        if not steps or min(steps) <= 0:
            raise StudyError("steps must be one or more positive numbers: cells at 0 are one cell")
        exact = [Fraction(step) for step in steps]
        equal = exact[0] if all(step == exact[0] for step in exact) else None
        places = () if equal is not None else tuple(accumulate(exact, initial=Fraction(0)))
        self._fill(len(exact) + 1, equal, places, notes)

    def _fill(
        self,
        size: int,
        equal_step: Fraction | None,
        places: tuple[Fraction, ...],
        notes: Sequence[str],
    ) -> None:
        """Set the fields, once."""
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "equal_step", equal_step)
        object.__setattr__(self, "notes", tuple(notes))
        object.__setattr__(self, "_places", places)

    @classmethod
    def equal(cls, step: Fraction, size: int, notes: Sequence[str] = ()) -> LineMetric:
        """A line of `size` cells, all the same step apart."""
        if size < 2 or step <= 0:
            raise StudyError(f"a line needs 2 cells and a step above 0, got size={size}, {step}")
        metric = cls.__new__(cls)
        metric._fill(size, Fraction(step), (), notes)
        return metric

    def noting(self, note: str) -> LineMetric:
        """The same with one more note."""
        metric = type(self).__new__(type(self))
        metric._fill(self.size, self.equal_step, self._places, (*self.notes, note))
        return metric

    @property
    def steps(self) -> tuple[Fraction, ...]:
        """The step from each cell to the next."""
        if self.equal_step is not None:
            return (self.equal_step,) * (self.size - 1)
        return tuple(b - a for a, b in pairwise(self._places))

    def exact(self, i: int, j: int) -> Fraction:
        """E(i, j)."""
        check_cells(i, j, self.size)
        if self.equal_step is not None:
            return self.equal_step * abs(int(i) - int(j))
        return abs(self._places[i] - self._places[j])

    def between(self, i: int, j: int) -> float:
        """E(i, j) as a double."""
        return float(self.exact(i, j))

    def matrix(self) -> NDArray[np.float64]:
        """All of E, shape (size, size)."""
        refuse_large_matrix(self.size)
        if self.equal_step is not None:
            by_gap = np.array([float(self.equal_step * gap) for gap in range(self.size)])
            cells = np.arange(self.size)
            return by_gap[np.abs(np.subtract.outer(cells, cells))]
        common = math.lcm(*(place.denominator for place in self._places))
        line = np.array([int(place * common) for place in self._places], dtype=object)
        return np.array([divide(np.abs(line - place), common) for place in line])


@dataclass(frozen=True, slots=True)
class CappedLineMetric:
    """Cells on a line, with a limit on E: min(sum of the steps between, cap).

    The smaller of a metric and a constant is a metric: the triangle inequality holds where neither
    way is capped, and where one is, the sum is at least the cap.

    Args:
        line: E without the cap.
        cap: The most that any pair is told apart by.
        notes: What was changed on the way from the statement.

    Example:
        >>> metric = CappedLineMetric(LineMetric.equal(Fraction(1, 5), 1 << 24), Fraction(3))
        >>> metric.exact(0, 5), metric.exact(0, 500)
        (Fraction(1, 1), Fraction(3, 1))
    """

    line: LineMetric
    cap: Fraction
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a cap under which all cells would be one."""
        object.__setattr__(self, "cap", positive(self.cap, "cap"))

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.line.size

    @property
    def equal_step(self) -> Fraction | None:
        """The step from each cell to the next before the cap, if all are equal."""
        return self.line.equal_step

    @property
    def steps(self) -> tuple[Fraction, ...]:
        """The step from each cell to the next, before the cap."""
        return self.line.steps

    def exact(self, i: int, j: int) -> Fraction:
        """E(i, j)."""
        return min(self.line.exact(i, j), self.cap)

    def between(self, i: int, j: int) -> float:
        """E(i, j) as a double."""
        return float(self.exact(i, j))

    def matrix(self) -> NDArray[np.float64]:
        """All of E, shape (size, size)."""
        return np.minimum(self.line.matrix(), float(self.cap))


def capped_line(line: LineMetric, cap: Fraction) -> LineMetric | CappedLineMetric:
    """A line with a cap, or the line itself where no pair is far enough apart to reach it.

    Example:
        >>> capped_line(LineMetric.equal(Fraction(1), 4), Fraction(5)).notes
        ('the cap of 5 is never reached: no two cells are further apart than E = 3',)
    """
    longest = line.exact(0, line.size - 1)
    if cap >= longest:
        note = (
            f"the cap of {to_plain(cap)} is never reached: no two cells are further apart than "
            f"E = {to_plain(longest)}"
        )
        return line.noting(note)
    notes = line.notes
    if cap <= (line.equal_step or min(line.steps)):
        note = (
            f"the cap of {to_plain(cap)} is within one step, so that all cells are protected alike:"
            f" Uniform(epsilon={to_plain(cap)}) says the same and costs less noise"
        )
        notes = (*notes, note)
    return CappedLineMetric(line, cap, notes)


def refuse_large_matrix(size: int) -> None:
    """Refuse a matrix beyond what a screen or a check could use."""
    if size > _MOST_MATRIX_CELLS:
        raise TooLargeError(
            f"a matrix of {size} by {size} is beyond the {_MOST_MATRIX_CELLS} cells that matrix() "
            f"gives: ask between(i, j) for single pairs"
        )


def divide(row: NDArray[Any], denominator: int) -> NDArray[np.float64]:
    """Integers over a denominator as the nearest doubles, -1 as infinity."""
    exact = max(int(row.max()), denominator) < 1 << 53
    numerators = row.astype(np.float64 if exact else object)
    values = np.array(numerators / denominator, dtype=np.float64)
    return np.where(np.asarray(row < 0, dtype=bool), math.inf, values)


def check_cells(i: int, j: int, size: int) -> None:
    """Refuse cells that are not there; a negative number would count from the end."""
    if not (0 <= i < size and 0 <= j < size):
        raise StudyError(f"cells are numbered 0..{size - 1}, got {i} and {j}")
