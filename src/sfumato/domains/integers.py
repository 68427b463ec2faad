"""Whole numbers between two bounds, one cell each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.domains.base import Ordered, Span, check_size, exact_text
from sfumato.domains.columns import finish, read_numbers
from sfumato.domains.parsing import bound_number, parse_number
from sfumato.errors import QuestionError, StudyError, shown
from sfumato.exact import rational

# Every whole number up to here is a double of its own, in NumPy and in a browser.
_FARTHEST = 2**53 - 1


@dataclass(frozen=True, slots=True)
class Integers(Ordered):
    """Whole numbers from low to high, both included.

    Args:
        low: The smallest value.
        high: The largest value.

    Raises:
        StudyError: If a bound is not whole, or there are fewer than 2 or more than 2^24 values.

    Example:
        >>> import pyarrow as pa
        >>> age = Integers(18, 99)
        >>> age.size, age.read(pa.array([18, None, 99]), axis="age", clip=False).tolist()
        (82, [0, -1, 81])
    """

    low: int
    high: int

    kind: ClassVar[str] = "integers"

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            number = rational(getattr(self, name), name)
            if number.denominator != 1 or abs(number) > _FARTHEST:
                raise StudyError(
                    f"{name} must be a whole number within ±(2^53 − 1), got "
                    f"{name}={shown(getattr(self, name))}; for fractions declare the axis as reals"
                )
            object.__setattr__(self, name, int(number))
        check_size(
            self.high - self.low + 1,
            f"integers from low={self.low} to high={self.high}",
            "low must be below high",
        )

    @property
    def size(self) -> int:
        """Number of values."""
        return self.high - self.low + 1

    @property
    def ordered(self) -> bool:
        """Whole numbers lie in a row."""
        return True

    @property
    def spacing(self) -> Fraction:
        """Neighbours are 1 apart."""
        return Fraction(1)

    @property
    def rounding_bits(self) -> int:
        """A value is its cell: nothing is rounded."""
        return 0

    def positions(self) -> tuple[Fraction, ...]:
        """The values themselves."""
        return tuple(Fraction(value) for value in range(self.low, self.high + 1))

    def length(self, quantity: object, what: str) -> Fraction:
        """A number, exactly.

        Args:
            quantity: A number, or a duration as text.
            what: What it is called in a message.
        """
        return rational(quantity, what)

    def read(self, column: Any, *, axis: str, clip: bool) -> NDArray[np.int64]:
        """Cell of each value of a column, −1 where missing.

        Args:
            column: Whole numbers of any type, or text that spells them.
            axis: Name of the axis, for messages.
            clip: Whether values out of range move to the nearest end.

        Raises:
            DataError: If a value is out of range, not whole or no number; rows are named.
        """
        rule = f"whole numbers from {self.low} to {self.high}"
        values, missing = read_numbers(column, axis=axis, rule=rule, whole=True)
        if values.dtype.kind == "f":
            # Saturated, infinity too: 2^53 lies outside every domain.
            values = np.clip(values.astype(np.float64), -(2.0**53), 2.0**53)
        elif values.dtype == np.uint64:
            values = np.minimum(values, np.uint64(2**53))
        numbers = values.astype(np.int64, copy=False)
        inside = np.clip(numbers, self.low, self.high)
        outside = inside != numbers
        return finish(inside - self.low, outside, missing, axis=axis, rule=rule, clip=clip)

    def labels(self) -> list[str]:
        """The values as text."""
        return [str(value) for value in range(self.low, self.high + 1)]

    def edges(self) -> NDArray[np.float64]:
        """Half-way points, from low − ½ to high + ½."""
        return np.arange(self.low, self.high + 2, dtype=np.float64) - 0.5

    def numbers(self) -> NDArray[np.float64]:
        """The values as floats."""
        return np.arange(self.low, self.high + 1, dtype=np.float64)

    def place(self, value: object, *, axis: str, upper: bool = False) -> Fraction:
        """A bound as an exact number; infinity is beyond the end.

        Args:
            value: A number.
            axis: Name of the axis, for messages.
            upper: Whether it is the upper bound of an interval.
        """
        return bound_number(value, self.low - 1, self.high + 1, axis=axis)

    def _bounds(self) -> tuple[Fraction, Fraction]:
        """The smallest and the largest value."""
        return Fraction(self.low), Fraction(self.high)

    def _shown(self) -> tuple[str, str]:
        """The same for messages."""
        return str(self.low), str(self.high)

    def span(self, low: object, high: object, *, axis: str) -> Span:
        """A closed interval that holds at least one whole number.

        Args:
            low: The lower end; None for an open one.
            high: The upper end.
            axis: Name of the axis, for messages.

        Raises:
            QuestionError: If no whole number of the domain lies in it.
        """
        # Of a class with slots, super() without arguments would name the one before them.
        span = Ordered.span(self, low, high, axis=axis)
        first, last = self._whole(span)
        if first > last:
            raise QuestionError(
                f"axis {axis!r} takes whole numbers, and there is none in "
                f"{low}..{high}: ask for a whole number or a wider interval"
            )
        return span

    def weigh(self, span: Span) -> tuple[NDArray[np.float64], bool]:
        """Weight 1 for every value within the span.

        Example:
            >>> Integers(0, 4).interval(1, 2.5, axis="children")[0].tolist()
            [0.0, 1.0, 1.0, 0.0, 0.0]
        """
        first, last = self._whole(span)
        weights = np.zeros(self.size)
        weights[first - self.low : last - self.low + 1] = 1.0
        return weights, False

    def _whole(self, span: Span) -> tuple[int, int]:
        """The first and the last whole number within a span."""
        below, above = span
        first = self.low if below is None else max(math.ceil(below), self.low)
        return first, self.high if above is None else min(math.floor(above), self.high)

    def parse(self, text: str, *, axis: str) -> Fraction:
        """A number of the question language.

        Args:
            text: As written.
            axis: Name of the axis, for messages.
        """
        return parse_number(text, axis=axis)

    def write(self, place: Fraction) -> str:
        """A number of the question language, exactly."""
        return exact_text(place)

    def to_dict(self) -> dict[str, Any]:
        """Kind and bounds."""
        return {"kind": self.kind, "low": self.low, "high": self.high}
