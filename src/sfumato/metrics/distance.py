"""Distance (metric) privacy on a line, with or without a cap or a cell for "no answer"."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.domains.base import NO_ANSWER, Domain
from sfumato.errors import StudyError
from sfumato.exact import nearest_float, positive, to_plain
from sfumato.metrics.base import Metric, set_fields
from sfumato.metrics.cells import (
    CellMetric,
    check_cells,
    joined_notes,
    refuse_extreme,
    refuse_large_matrix,
    refuse_large_table,
)
from sfumato.metrics.words import (
    Number,
    Quantity,
    gap,
    length,
    plain,
    ratio,
    read_quantity,
)


@dataclass(frozen=True, slots=True, init=False)
class LineMetric(CellMetric):
    """E on a line: the sum of the steps between two cells.

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
        steps = (equal_step,) if equal_step is not None else [b - a for a, b in pairwise(places)]
        refuse_extreme(min(steps), places[-1] if places else steps[0] * (size - 1))
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "equal_step", equal_step)
        object.__setattr__(self, "notes", tuple(notes))
        object.__setattr__(self, "_places", places)

    @classmethod
    def equal(cls, step: Fraction, size: int, notes: Sequence[str] = ()) -> LineMetric:
        """A line of `size` cells, all the same step apart.

        Args:
            step: E between neighbours.
            size: Number of cells.
            notes: What binding changed in the statement.
        """
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
        """E(i, j).

        Args:
            i: The cell that changes.
            j: The cell it changes to.
        """
        check_cells(i, j, self.size)
        if self.equal_step is not None:
            return self.equal_step * abs(int(i) - int(j))
        return abs(self._places[i] - self._places[j])

    def largest(self) -> Fraction:
        """E between the two ends."""
        return self.exact(0, self.size - 1)

    def matrix(self) -> NDArray[np.float64]:
        """All of E, shape (size, size)."""
        refuse_large_matrix(self.size)
        if self.equal_step is not None:
            by_gap = np.array([float(self.equal_step * gap) for gap in range(self.size)])
            cells = np.arange(self.size)
            return by_gap[np.abs(np.subtract.outer(cells, cells))]
        return CellMetric.matrix(self)

    def integers(self) -> tuple[NDArray[Any], int]:
        """All of E as Python integers over one denominator."""
        places = [self.exact(0, cell) for cell in range(self.size)]
        common = math.lcm(*(place.denominator for place in places))
        line = np.array([int(place * common) for place in places], dtype=object)
        return np.abs(np.subtract.outer(line, line)), common

    def plus(self, others: Sequence[CellMetric]) -> LineMetric | None:
        """The sum with other lines: their steps add."""
        lines = [self, *(other for other in others if isinstance(other, LineMetric))]
        if len(lines) <= len(others):
            return None
        notes = joined_notes(*lines)
        equal = [line.equal_step for line in lines if line.equal_step is not None]
        if len(equal) == len(lines):
            return LineMetric.equal(sum(equal, Fraction(0)), self.size, notes)
        columns = zip(*(line.steps for line in lines), strict=True)
        return LineMetric([sum(steps, Fraction(0)) for steps in columns], notes)


@dataclass(frozen=True, slots=True)
class CappedLineMetric(CellMetric):
    """E on a line with a cap: min(sum of the steps between two cells, cap).

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
        """Read the cap exactly, and refuse one that is not positive."""
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
        """E(i, j).

        Args:
            i: The cell that changes.
            j: The cell it changes to.
        """
        return min(self.line.exact(i, j), self.cap)

    def largest(self) -> Fraction:
        """E between the two ends."""
        return self.exact(0, self.size - 1)

    def matrix(self) -> NDArray[np.float64]:
        """All of E, shape (size, size)."""
        return np.minimum(self.line.matrix(), float(self.cap))

    def integers(self) -> tuple[NDArray[Any], int]:
        """All of E as Python integers over one denominator."""
        line, denominator = self.line.integers()
        common = math.lcm(denominator, self.cap.denominator)
        return np.minimum(line * (common // denominator), int(self.cap * common)), common


@dataclass(frozen=True, slots=True)
class AsideMetric(CellMetric):
    """E on a line, and from all of its cells to one more cell, the last, which lies aside.

    It is closed: a detour by the last cell costs twice its distance, so that is a cap on the line.

    Args:
        line: E between all cells but the last.
        aside: E between the last cell and any other.
        notes: What was changed on the way from the statement; closing adds its own.

    Example:
        >>> metric = AsideMetric(LineMetric.equal(Fraction(1), 100_000), Fraction(20))
        >>> metric.exact(0, 30), metric.exact(0, 50), metric.exact(0, 100_000)
        (Fraction(30, 1), Fraction(40, 1), Fraction(20, 1))
    """

    line: LineMetric | CappedLineMetric
    aside: Fraction
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Close the line, and say how many pairs came nearer by that."""
        object.__setattr__(self, "aside", positive(self.aside, "aside"))
        detour, fell = 2 * self.aside, pairs_beyond(self.line, 2 * self.aside)
        refuse_extreme(self.aside, max(self.aside, self.line.exact(0, self.line.size - 1)))
        if fell:
            straight = self.line.line if isinstance(self.line, CappedLineMetric) else self.line
            object.__setattr__(self, "line", CappedLineMetric(straight, detour))
            pairs = self.size * (self.size - 1)
            note = f"closed: {fell} of {pairs} pairs are nearer by way of another cell"
            object.__setattr__(self, "notes", (*self.notes, note))

    @property
    def size(self) -> int:
        """Number of cells, with the one aside."""
        return self.line.size + 1

    def exact(self, i: int, j: int) -> Fraction:
        """E(i, j).

        Args:
            i: The cell that changes.
            j: The cell it changes to.
        """
        check_cells(i, j, self.size)
        if self.line.size not in (i, j):
            return self.line.exact(i, j)
        return Fraction(0) if i == j else self.aside

    def largest(self) -> Fraction:
        """Along the line, or to the cell aside."""
        return max(self.line.largest(), self.aside)

    def matrix(self) -> NDArray[np.float64]:
        """All of E, shape (size, size)."""
        refuse_large_matrix(self.size)
        found = np.full((self.size, self.size), nearest_float(self.aside))
        found[:-1, :-1] = self.line.matrix()
        found[-1, -1] = 0.0
        return found

    def integers(self) -> tuple[NDArray[Any], int]:
        """All of E as Python integers over one denominator."""
        refuse_large_table(self.size)
        line, denominator = self.line.integers()
        common = math.lcm(denominator, self.aside.denominator)
        found = np.full((self.size, self.size), int(self.aside * common), dtype=object)
        found[:-1, :-1] = line * (common // denominator)
        found[-1, -1] = 0
        return found, common


def pairs_beyond(line: LineMetric | CappedLineMetric, e: Fraction) -> int:
    """How many ordered pairs of cells on a line are further apart than a given E.

    Args:
        line: E between the cells.
        e: A positive number.

    Example:
        >>> pairs_beyond(LineMetric.equal(Fraction(1), 4), Fraction(2))
        2
    """
    if isinstance(line, CappedLineMetric):
        return pairs_beyond(line.line, e) if line.cap > e else 0
    if line.equal_step is not None:
        longer = max(0, line.size - 1 - e // line.equal_step)  # how many gaps are too long
        return longer * (longer + 1)
    places = [line.exact(0, cell) for cell in range(line.size)]
    return 2 * sum(len(places) - bisect_right(places, place + e) for place in places)


def capped_line(line: LineMetric, cap: Fraction) -> LineMetric | CappedLineMetric:
    """A line with a cap, or the line itself where no pair is far enough apart to reach it.

    Args:
        line: E without the cap.
        cap: The most that E may be.

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
            f"the cap of {to_plain(cap)} is within one step, so all pairs are protected equally:"
            f" Uniform(epsilon={to_plain(cap)}) says the same and costs less noise"
        )
        notes = (*notes, note)
    return CappedLineMetric(line, cap, notes)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Distance(Metric):
    """E = ε·|a − b|/per: distance privacy, which protects near values more than far ones.

    With a cap, E = min(ε·|a − b|/per, cap): the odds of a report never change by more than e^cap,
    for any pair of values.

    Args:
        epsilon: E for two values that are `per` apart.
        per: Unit of distance, in the axis' own units; a duration such as "7 days" on dates.
        no_answer: Distance of "no answer" from every value, required on an optional axis. Values
            more than twice as far apart are then nearer on the path through it.
        cap: The most E may be for any pair, in the same units as E.

    Raises:
        StudyError: If a number is not positive and finite.

    Example:
        >>> Distance(epsilon=0.2, per=10).between(20, 70)
        1.0
        >>> Distance(epsilon=0.2, cap=3).between(20, 70)
        3.0
    """

    kind: ClassVar[str] = "distance"
    epsilon: Fraction
    per: Fraction | str
    no_answer: Fraction | str | None
    cap: Fraction | None

    def __init__(
        self,
        epsilon: Number,
        per: Quantity = 1,
        no_answer: Quantity | None = None,
        *,
        cap: Number | None = None,
    ) -> None:
        """Read the numbers exactly."""
        set_fields(
            self,
            epsilon=positive(epsilon, "epsilon"),
            per=read_quantity(per, "per"),
            no_answer=None if no_answer is None else read_quantity(no_answer, "no_answer"),
            cap=None if cap is None else positive(cap, "cap"),
        )

    def between(self, x: Any, y: Any) -> float:
        """E(x, y) for two numbers, dates or times; None stands for no answer.

        Args:
            x: One value as people write it.
            y: The other.
        """
        missing = [
            value is None or (isinstance(value, str) and value == NO_ANSWER) for value in (x, y)
        ]
        if not any(missing):
            return self._within_cap(self.epsilon * gap(x, y, self.per))
        if all(missing):
            return 0.0
        if self.no_answer is None:
            raise StudyError(_NO_ANSWER_NEEDED)
        return self._within_cap(self.epsilon * ratio(self.no_answer, self.per))

    def _within_cap(self, e: Fraction) -> float:
        """The smaller of E and the cap."""
        return nearest_float(e if self.cap is None else min(e, self.cap))

    def bind(self, domain: Domain, *, optional: bool) -> CellMetric:
        """Cells on a line; "no answer" lies aside.

        Args:
            domain: What the values of the axis may be.
            optional: Whether "no answer" is one more cell, the last.
        """
        if not domain.ordered:
            raise StudyError(
                f"Distance needs an axis with distances, and {domain.kind} have none: use Uniform, "
                f"Blocks, PolicyGraph, Points (labels at places) or Matrix"
            )
        rate = self.epsilon / length(domain, self.per, "per")
        line: LineMetric | CappedLineMetric
        if domain.spacing is not None:
            line = LineMetric.equal(rate * domain.spacing, domain.size)
        else:
            line = LineMetric([rate * (b - a) for a, b in pairwise(domain.positions())])
        if not optional:
            return line if self.cap is None else capped_line(line, self.cap)
        if self.no_answer is None:
            raise StudyError(_NO_ANSWER_NEEDED)
        aside = rate * length(domain, self.no_answer, "no_answer")
        if self.cap is None:
            return AsideMetric(line, aside)
        if self.cap < line.exact(0, line.size - 1):
            line = CappedLineMetric(line, self.cap)
        return AsideMetric(line, min(aside, self.cap))

    def describe(self) -> str:
        """The statement in plain words."""
        per = "" if self.per == 1 else f" / {plain(self.per)}"
        aside = self.no_answer
        extra = "" if aside is None else f"; no answer lies {plain(aside)} from every value"
        most = "" if self.cap is None else f", at most {to_plain(self.cap)}"
        return f"E = {to_plain(self.epsilon)} · distance{per}{most}{extra}"

    def to_dict(self) -> dict[str, Any]:
        """The statement as a file holds it, exactly."""
        data: dict[str, Any] = {"kind": self.kind, "epsilon": to_plain(self.epsilon)}
        if self.per != 1:
            data["per"] = plain(self.per)
        if self.no_answer is not None:
            data["no_answer"] = plain(self.no_answer)
        if self.cap is not None:
            data["cap"] = to_plain(self.cap)
        return data


_NO_ANSWER_NEEDED = (
    "Distance on an optional axis must say how far 'no answer' lies from the values, got "
    "no_answer=None: give no_answer in the units of the axis, such as half its length"
)
