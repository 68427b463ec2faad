"""E on a grid of ordered axes: a norm of the steps between two cells along every axis, or a cap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import StudyError
from sfumato.exact import positive
from sfumato.metrics.cells import (
    ROUNDED,
    CellMetric,
    check_cells,
    refuse_extreme,
    refuse_large_table,
)
from sfumato.metrics.distance import LineMetric, capped_line
from sfumato.metrics.norms import GRID, exact_root, root_down

#: The norms under which noise on a lattice is known.
ORDERS: tuple[Fraction | float, ...] = (Fraction(1), Fraction(2), math.inf)


@dataclass(frozen=True, kw_only=True)
class NormGridMetric(CellMetric):
    """E on a grid of equally spaced cells: the norm of the steps along its axes, at most a cap.

    Where the norm is irrational, E is rounded down to a multiple of 2^-40. It need not be closed:
    a channel that keeps the norm itself keeps the rounded one of every pair.

    Args:
        shape: Number of cells along every axis; cells are counted in C order.
        steps: E between neighbours along every axis.
        order: 1, 2 or infinity: which norm.
        cap: The most that E may be for any pair; None if there is no cap.
        notes: What binding changed in the statement.

    Example:
        >>> metric = NormGridMetric(shape=(4, 5), steps=(Fraction(1), Fraction(1)))
        >>> metric.size, metric.exact(0, 19)
        (20, Fraction(5, 1))
    """

    shape: tuple[int, ...]
    steps: tuple[Fraction, ...]
    order: Fraction | float = Fraction(2)
    cap: Fraction | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse axes of one cell, steps that are not positive, and other norms."""
        if len(self.shape) != len(self.steps) or len(self.shape) < 2 or min(self.shape) < 2:
            raise StudyError(
                "a norm needs two ordered axes or more, with two cells or more and a step each, "
                f"got shape={self.shape}"
            )
        for step in self.steps:
            positive(step, "the step of an axis")
        if self.order not in ORDERS:
            raise StudyError(f"the order of the norm must be 1, 2 or inf, got {self.order}")
        if self.cap is not None:
            positive(self.cap, "cap")
        refuse_extreme(self.least(), self.largest())
        if self.order == 2 and ROUNDED not in self.notes:
            object.__setattr__(self, "notes", (*self.notes, ROUNDED))

    @property
    def size(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    def of(self, apart: Sequence[int]) -> Fraction:
        """E of two cells that are so many cells apart along every axis."""
        lengths = [step * abs(int(gap)) for step, gap in zip(self.steps, apart, strict=True)]
        if self.order == math.inf:
            norm = max(lengths)
        elif self.order == 1:
            norm = sum(lengths, Fraction(0))
        else:
            square = sum((length**2 for length in lengths), Fraction(0))
            root = exact_root(square, 2)
            norm = Fraction(root_down(square, 2), GRID) if root is None else root
        return norm if self.cap is None else min(norm, self.cap)

    def exact(self, i: int, j: int) -> Fraction:
        """E(i, j).

        Args:
            i: The cell that changes.
            j: The cell it changes to.
        """
        check_cells(i, j, self.size)
        first, second = (np.unravel_index(int(cell), self.shape) for cell in (i, j))
        return self.of([int(a) - int(b) for a, b in zip(first, second, strict=True)])

    def margin(self, axes: Sequence[int]) -> CellMetric:
        """E between cells of some of the axes, for reports that depend on these alone."""
        if len(axes) > 1:
            return NormGridMetric(
                shape=tuple(self.shape[axis] for axis in axes),
                steps=tuple(self.steps[axis] for axis in axes),
                order=self.order,
                cap=self.cap,
            )
        line = LineMetric.equal(self.steps[axes[0]], self.shape[axes[0]])
        return line if self.cap is None else capped_line(line, self.cap)

    def least(self) -> Fraction:
        """The smallest E between two cells."""
        step = min(self.steps)
        return step if self.cap is None else min(step, self.cap)

    def largest(self) -> Fraction:
        """E between opposite corners."""
        return self.of([size - 1 for size in self.shape])

    def integers(self) -> tuple[NDArray[Any], int]:
        """All of E as Python integers over one denominator."""
        refuse_large_table(self.size)
        held = {gaps: self.of(gaps) for gaps in np.ndindex(*self.shape)}
        common = math.lcm(*(e.denominator for e in held.values()))
        by_gap = np.empty(self.shape, dtype=object)
        for gaps, e in held.items():
            by_gap[gaps] = int(e * common)
        places = np.unravel_index(np.arange(self.size), self.shape)
        apart = tuple(np.abs(np.subtract.outer(place, place)) for place in places)
        return by_gap[apart], common
