"""The protocol of all domains, and what they share."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import QuestionError, StudyError
from sfumato.exact import to_plain

MOST_CELLS = 2**24
NO_ANSWER = "no answer"  # the label of the cell that an optional axis adds

# A closed interval in the base units of its domain; None is an open end.
Span = tuple[Fraction | None, Fraction | None]


class Domain(Protocol):
    """What a value may be: a finite number of cells, and the map from a value to its cell.

    Positions, lengths and spacings are in base units: the number itself, days for dates, seconds
    for times. The "no answer" cell belongs to the axis, not to the domain.
    """

    kind: ClassVar[str]

    @property
    def size(self) -> int:
        """Number of cells that stand for values."""

    @property
    def ordered(self) -> bool:
        """Whether the cells lie in a row, so that intervals and distances make sense."""

    @property
    def spacing(self) -> Fraction | None:
        """Distance between neighbouring cells in base units, where all are equal."""

    @property
    def rounding_bits(self) -> int:
        """Bits of the place between two grid points that `read` keeps; 0 for whole cells."""

    def positions(self) -> tuple[Fraction, ...]:
        """Place of each cell in base units."""

    def length(self, quantity: object, what: str) -> Fraction:
        """A quantity as the user states it, in base units.

        Args:
            quantity: A number, or a duration as text.
            what: What it is called in a message.
        """

    def read(self, column: Any, *, axis: str, clip: bool) -> NDArray[np.int64]:
        """The cell of each value of a column, −1 where it is missing.

        Args:
            column: An Arrow column, or a `Single`: one person's value, read without Arrow.
            axis: Name of the axis, for messages.
            clip: Whether values out of range move to the nearest end.
        """

    def labels(self) -> list[str]:
        """The name of each cell."""

    def edges(self) -> NDArray[Any] | None:
        """The size + 1 edges of the cells for plotting; None where they have none."""

    def numbers(self) -> NDArray[np.float64] | None:
        """The number each cell stands for in a mean; None where that makes no sense."""

    def span(self, low: object, high: object, *, axis: str) -> Span:
        """A closed interval in base units, refused if it is reversed or nobody can be in it.

        Args:
            low: The lower end as a value; None for an open one.
            high: The upper end.
            axis: Name of the axis, for messages.
        """

    def weigh(self, span: Span) -> tuple[NDArray[np.float64], bool]:
        """Share of each cell in a span, and whether a bin was cut."""

    def cell_of(self, value: object, *, axis: str) -> int:
        """The cell that holds a value of a question; the first one where there are several.

        Args:
            value: The label or value.
            axis: Name of the axis, for messages.
        """

    def parse(self, text: str, *, axis: str) -> object:
        """A bound as written in the question language, as a value for `span`.

        Args:
            text: As written.
            axis: Name of the axis, for messages.
        """

    def write(self, place: Fraction) -> str:
        """A place as text, which `parse` and `span` turn back into this place."""

    def to_dict(self) -> dict[str, Any]:
        """The domain in a form that a TOML file holds exactly."""


def check_size(size: int, what: str, remedy: str) -> None:
    """Refuse a domain with fewer than two cells or too many of them.

    Args:
        size: Number of cells.
        what: What the domain is called in a message.
        remedy: What to do about it, for the message.
    """
    if size < 2:
        raise StudyError(f"{what} must have at least 2 cells, got {max(size, 0)}; {remedy}")
    if size > MOST_CELLS:
        raise StudyError(
            f"{what} may have at most {MOST_CELLS} cells, got {size}; choose wider cells"
        )


class Ordered:
    """Questions about cells in a row: values become places in base units, and places weights."""

    __slots__ = ()
    half_open: ClassVar[bool] = False  # whether the last place itself lies outside

    def place(self, value: object, *, axis: str, upper: bool = False) -> Fraction:
        """A bound of a question in base units, so that bounds can be compared.

        Args:
            value: A bound of a question.
            axis: Name of the axis, for messages.
            upper: Whether it is the upper bound of an interval.
        """
        raise NotImplementedError

    def weigh(self, span: Span) -> tuple[NDArray[np.float64], bool]:
        """Share of each cell in a span, and whether a bin was cut."""
        raise NotImplementedError

    def _bounds(self) -> tuple[Fraction, Fraction]:
        """The first and the last place of the domain."""
        raise NotImplementedError

    def _shown(self) -> tuple[str, str]:
        """The same for messages."""
        raise NotImplementedError

    def span(self, low: object, high: object, *, axis: str) -> Span:
        """A closed interval in base units.

        Args:
            low: The lower end as a value; None for an open one.
            high: The upper end.
            axis: Name of the axis, for messages.

        Raises:
            QuestionError: If the ends are no values, reversed, or both outside the domain.
        """
        below = None if low is None else self.place(low, axis=axis)
        above = None if high is None else self.place(high, axis=axis, upper=True)
        if below is not None and above is not None and below > above:
            raise QuestionError(
                f"an interval on axis {axis!r} must run from low to high, and the one given is "
                "reversed: swap its ends, or ask for a union of two intervals"
            )
        first, last = self._bounds()
        beyond = below is not None and (below > last or (self.half_open and below == last))
        if beyond or (above is not None and above < first):
            shown = self._shown()
            raise QuestionError(
                f"axis {axis!r} runs from {shown[0]} to {shown[1]}, and the question lies wholly "
                "outside: nobody can be there; ask within these bounds"
            )
        return below, above

    def interval(self, low: object, high: object, *, axis: str) -> tuple[NDArray[np.float64], bool]:
        """Share of each cell in the closed interval, and whether a bin was cut.

        Args:
            low: The lower end as a value; None for an open one.
            high: The upper end.
            axis: Name of the axis, for messages.
        """
        return self.weigh(self.span(low, high, axis=axis))

    def cell_of(self, value: object, *, axis: str) -> int:
        """The first cell that holds a value.

        Args:
            value: The value.
            axis: Name of the axis, for messages.
        """
        self.place(value, axis=axis)  # None is an open end, but no value
        return int(self.interval(value, value, axis=axis)[0].argmax())


def one_cell(size: int, cell: int) -> NDArray[np.float64]:
    """Weight 1 on one cell.

    Args:
        size: Number of cells.
        cell: The cell that gets the weight.
    """
    weights = np.zeros(size)
    weights[cell] = 1.0
    return weights


def bin_weights(
    edges: NDArray[np.float64], low: float, high: float
) -> tuple[NDArray[np.float64], bool]:
    """Share of each bin between low and high, and whether one was cut.

    Args:
        edges: Edges of the bins, rising.
        low: The lower end.
        high: The upper end.
    """
    covered = np.minimum(edges[1:], high) - np.maximum(edges[:-1], low)
    weights = np.clip(covered / np.diff(edges), 0.0, 1.0)
    cut = bool(np.any((weights > 0.0) & (weights < 1.0)))
    # An interval that only touches a bin has share 0 of it by the model, not by count: say so.
    return weights, cut or not weights.any()


def number_text(number: Fraction) -> str:
    """A number for a label: whole ones plainly, others as the nearest float prints.

    Example:
        >>> number_text(Fraction(3125)), number_text(Fraction(1, 5)), number_text(Fraction(1, 3))
        ('3125', '0.2', '0.3333333333333333')
    """
    if number.denominator == 1:
        return str(number.numerator)
    return repr(float(number))


def exact_text(number: Fraction) -> str:
    """A number for the question language, read back exactly by `rational`."""
    return str(to_plain(number))
