"""Dates and times: calendar days, times of day and moments, in cells of equal length."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.domains.base import Ordered, Span, bin_weights, check_size, one_cell
from sfumato.domains.columns import finish, read_calendar
from sfumato.domains.parsing import (
    DAY,
    LAST_DAY,
    clock_second,
    clock_text,
    day_text,
    epoch_day,
    exact_second,
    moment_text,
    seconds_in,
    whole_step,
)
from sfumato.errors import QuestionError, StudyError, shown

_EPOCH = date(1970, 1, 1)


class _Calendar(Ordered):
    """Cells of equal length from start to end, counted in base units: days or seconds."""

    __slots__ = ()
    start: Any
    end: Any
    step: int

    kind: ClassVar[str]
    half_open: ClassVar[bool] = True
    _unit: ClassVar[str]  # what base units are called
    _seconds: ClassVar[int]  # seconds in a base unit
    _closed: ClassVar[int]  # what a bound of an interval covers beyond its place, in base units

    @classmethod
    def every(cls, start: Any, end: Any, step: Any = "1 day") -> Self:
        """Cells from start to end in steps such as "1 week", in any form that can be read.

        Args:
            start: Where the first cell begins.
            end: Where the last cell ends.
            step: Length of a cell: a duration, or a number of base units.
        """
        return cls(start, end, step)  # type: ignore[call-arg]

    @property
    @abstractmethod
    def first(self) -> int:
        """Base units from 1970-01-01 or midnight to the start."""

    @property
    @abstractmethod
    def _past(self) -> int:
        """Base units from 1970-01-01 or midnight to the end of the last cell."""

    @abstractmethod
    def write(self, place: Fraction) -> str:
        """The text that `parse` and `place` turn back into this place."""

    def _check_steps(self) -> None:
        """Read the step, and require that whole steps fill the span."""
        step = whole_step(self.step, "step", unit=self._seconds, base=self._unit)
        object.__setattr__(self, "step", step)
        span = self._past - self.first
        check_size(
            -(-span // step),
            f"{self.kind} from start={self.start} to end={self.end} in steps of {step} "
            f"{self._unit}",
            "end later or take shorter steps",
        )
        if span % step:
            steps = max(2, round(span / step)) * step
            fitting = self.write(Fraction(self.first + steps - self._closed))
            raise StudyError(
                f"start..end must hold whole steps: {span} {self._unit} are not a multiple of "
                f"{step}; the nearest fitting end is {fitting}, got end={self.end}"
            )

    @property
    def size(self) -> int:
        """Number of cells."""
        return (self._past - self.first) // self.step

    @property
    def ordered(self) -> bool:
        """Dates and times have an order."""
        return True

    @property
    def spacing(self) -> Fraction:
        """Base units from one cell to the next."""
        return Fraction(self.step)

    @property
    def rounding_bits(self) -> int:
        """Dates and times are never rounded at random."""
        return 0

    def positions(self) -> tuple[Fraction, ...]:
        """Middle of each cell in base units."""
        middle = self.first + Fraction(self.step - self._closed, 2)
        return tuple(middle + cell * self.step for cell in range(self.size))

    def length(self, quantity: object, what: str) -> Fraction:
        """A duration in base units; a bare number counts base units.

        Args:
            quantity: Such as "1.5 hours", a timedelta or a number.
            what: What it is called in a message.

        Example:
            >>> Times.every("06:00", "10:00", "1 minute").length("1.5 hours", "per")
            Fraction(5400, 1)
        """
        return seconds_in(quantity, what, unit=self._seconds) / self._seconds

    def _cells(
        self,
        places: NDArray[np.int64],
        missing: NDArray[np.bool_],
        *,
        axis: str,
        rule: str,
        clip: bool,
    ) -> NDArray[np.int64]:
        """Cell of each place in base units, −1 where missing."""
        inside = np.clip(places, self.first, self._past - 1)
        codes = (inside - self.first) // self.step
        return finish(codes, inside != places, missing, axis=axis, rule=rule, clip=clip)

    def numbers(self) -> None:
        """Dates and times have no mean here."""
        return None

    def _edges(self) -> NDArray[np.int64]:
        """Edges of the cells in base units."""
        return np.arange(self.first, self._past + 1, self.step, dtype=np.int64)

    def _bounds(self) -> tuple[Fraction, Fraction]:
        """Where the first cell begins and the last one ends."""
        return Fraction(self.first), Fraction(self._past)

    def _shown(self) -> tuple[str, str]:
        """Start and end for messages."""
        return str(self.start), str(self.end)

    def weigh(self, span: Span) -> tuple[NDArray[np.float64], bool]:
        """Share of each cell in the span, and whether a cell was cut.

        A span of a single day or moment means the cell that holds it.

        Example:
            >>> week = Dates.every("2024-01-01", "2024-01-14", "1 week")
            >>> week.interval("2024-01-01", "2024-01-07", axis="week")
            (array([1., 0.]), False)
            >>> leave = Times.every("06:00", "07:00", "30 minutes")
            >>> leave.interval("06:00", "06:45", axis="leave")
            (array([1. , 0.5]), True)
        """
        below, above = span
        if below is not None and below == above:
            return one_cell(self.size, int((below - self.first) // self.step)), False
        edges = np.arange(self.size + 1, dtype=np.float64) * self.step
        start = 0.0 if below is None else float(max(below - self.first, Fraction(0)))
        past = edges[-1] if above is None else float(above + self._closed - self.first)
        return bin_weights(edges, start, min(past, edges[-1]))

    def parse(self, text: str, *, axis: str) -> str:
        """A date or time of the question language, as it is: `place` reads it.

        Args:
            text: Such as 2024-01-31 or 06:30.
            axis: Name of the axis, for messages.
        """
        return text

    def to_dict(self) -> dict[str, Any]:
        """Kind, bounds and step."""
        step = f"{self.step} {self._unit}"
        return {"kind": self.kind, "start": str(self.start), "end": str(self.end), "step": step}


@dataclass(frozen=True, slots=True)
class Dates(_Calendar):
    """Days from start to end, both included, in cells of a fixed number of days.

    Args:
        start: The first day.
        end: The last day, a whole number of steps after the start.
        step: Days in a cell.

    Raises:
        StudyError: If a bound is no date, or the days do not fill whole cells, at least 2.

    Example:
        >>> import pyarrow as pa
        >>> week = Dates.every("2024-01-01", "2024-12-29", "1 week")
        >>> week.size, week.labels()[0]
        (52, '2024-01-01..2024-01-07')
        >>> week.read(pa.array(["2024-01-07", "2024-01-08"]), axis="week", clip=False).tolist()
        [0, 1]
    """

    start: date
    end: date
    step: int = 1

    kind: ClassVar[str] = "dates"
    _unit: ClassVar[str] = "days"
    _seconds: ClassVar[int] = DAY
    _closed: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            day = epoch_day(getattr(self, name))
            if day is None:
                raise StudyError(
                    f"{name} must be a date without a time zone, such as '2024-01-31', got "
                    f"{name}={shown(getattr(self, name))}"
                )
            object.__setattr__(self, name, _EPOCH + timedelta(days=day))
        self._check_steps()

    @property
    def first(self) -> int:
        """Day number of the start."""
        return (self.start - _EPOCH).days

    @property
    def _past(self) -> int:
        """Day number of the day after the end."""
        return (self.end - _EPOCH).days + 1

    def read(self, column: Any, *, axis: str, clip: bool) -> NDArray[np.int64]:
        """Cell of each date of a column, −1 where missing.

        Args:
            column: Dates, timestamps without a zone (their date counts), or ISO text.
            axis: Name of the axis, for messages.
            clip: Whether dates out of range move to the nearest end.

        Raises:
            DataError: If a date is out of range, no date, or carries a time zone.
        """
        rule = f"dates from {self.start} to {self.end}"
        days, missing = read_calendar(
            column,
            epoch_day,
            takes=("date", "moment"),
            unit=DAY,
            axis=axis,
            rule=rule,
            written="write them as 2024-01-31, without a time zone, or leave the cell empty",
            zoned="the date depends on the zone: convert to local time and drop the zone",
            remedy="convert it to dates",
        )
        return self._cells(days, missing, axis=axis, rule=rule, clip=clip)

    def labels(self) -> list[str]:
        """ISO dates, or the first and last day of each cell."""
        starts = range(self.first, self._past, self.step)
        if self.step == 1:
            return [day_text(day) for day in starts]
        return [f"{day_text(day)}..{day_text(day + self.step - 1)}" for day in starts]

    def edges(self) -> NDArray[np.datetime64]:
        """First day of each cell, and the day after the end."""
        return self._edges().astype("datetime64[D]")

    def place(self, value: object, *, axis: str, upper: bool = False) -> Fraction:
        """The day number of a bound.

        Args:
            value: A date, a datetime or ISO text.
            axis: Name of the axis, for messages.
            upper: Whether it is the upper bound of an interval.
        """
        day = epoch_day(value)
        if day is None:
            raise QuestionError(
                f"axis {axis!r} takes dates without a time zone, such as 2024-01-31, got "
                f"{shown(value)}"
            )
        return Fraction(day)

    def write(self, place: Fraction) -> str:
        """The ISO date of a day number."""
        return day_text(int(place))


@dataclass(frozen=True, slots=True)
class Times(_Calendar):
    """Times from start up to, but not including, end, in cells of a fixed number of seconds.

    Start and end are both times of day ("06:30", "24:00") or both moments
    ("2024-01-01T00:00"), on the wall clock, without a time zone.

    Args:
        start: The first moment.
        end: The moment after the last, a whole number of steps after the start.
        step: Seconds in a cell.

    Raises:
        StudyError: If a bound is no time, or the steps do not fill the span, at least 2 of them.

    Example:
        >>> import pyarrow as pa
        >>> leave = Times.every("06:00", "10:00", "15 minutes")
        >>> leave.size, leave.labels()[0]
        (16, '06:00..06:15')
        >>> leave.read(pa.array(["06:14:59", "06:15"]), axis="leave", clip=False).tolist()
        [0, 1]
    """

    start: str
    end: str
    step: int

    kind: ClassVar[str] = "times"
    _unit: ClassVar[str] = "seconds"
    _seconds: ClassVar[int] = 1
    _closed: ClassVar[int] = 0

    def __post_init__(self) -> None:
        seconds = [clock_second(bound) for bound in (self.start, self.end)]
        text: Callable[[Fraction], str] = clock_text
        if None in seconds:
            seconds, text = [exact_second(bound) for bound in (self.start, self.end)], moment_text
        if not all(second is not None and second.denominator == 1 for second in seconds):
            raise StudyError(
                "start and end must both be times of day such as '06:30', or both moments such "
                "as '2024-01-01T06:30', in whole seconds and without a time zone, got "
                f"start={shown(self.start)}, end={shown(self.end)}"
            )
        for name, second in zip(("start", "end"), seconds, strict=True):
            object.__setattr__(self, name, text(second or Fraction(0)))
        self._check_steps()

    @property
    def of_day(self) -> bool:
        """Whether these are times of day rather than moments."""
        return "T" not in self.start

    @property
    def first(self) -> int:
        """Second of the start."""
        return int(self._second(self.start) or 0)

    @property
    def _past(self) -> int:
        """Second of the end."""
        return int(self._second(self.end) or 0)

    @property
    def _words(self) -> tuple[str, str]:
        """What the values are called, and an example of one."""
        return ("times of day", "06:30") if self.of_day else ("moments", "2024-01-31T06:30")

    def _second(self, value: object) -> Fraction | None:
        """The second of a time of day or moment; None if it is not the kind this axis has."""
        return clock_second(value) if self.of_day else exact_second(value)

    def read(self, column: Any, *, axis: str, clip: bool) -> NDArray[np.int64]:
        """Cell of each time of a column, −1 where missing.

        Args:
            column: Times of day or timestamps without a zone, as the axis has it, or ISO text.
            axis: Name of the axis, for messages.
            clip: Whether times out of range move to the nearest end.

        Raises:
            DataError: If a time is out of range, no time, or carries a time zone.
        """
        what, example = self._words
        rule = f"{what} from {self.start} to before {self.end}"
        seconds, missing = read_calendar(
            column,
            self._text_second,
            takes=("clock" if self.of_day else "moment",),
            unit=1,
            axis=axis,
            rule=rule,
            written=f"write them as {example}, without a time zone, or leave the cell empty",
            zoned="convert to the local wall clock and drop the zone",
            remedy=f"convert it to {'times of day' if self.of_day else 'timestamps'}",
        )
        return self._cells(seconds, missing, axis=axis, rule=rule, clip=clip)

    def _text_second(self, text: str) -> int | None:
        """The second that text spells, rounded down; 24:00 is a bound and no time of day."""
        second = self._second(text)
        if second is None or (self.of_day and second == DAY):
            return None
        return second.numerator // second.denominator

    def labels(self) -> list[str]:
        """First moment of each cell and of the next."""
        points = range(self.first, self._past + 1, self.step)
        texts = [self.write(Fraction(point)) for point in points]
        return [f"{left}..{right}" for left, right in pairwise(texts)]

    def edges(self) -> NDArray[np.datetime64]:
        """Edges of the cells; times of day lie on 1970-01-01, so that plots can show them."""
        return self._edges().astype("datetime64[s]")

    def place(self, value: object, *, axis: str, upper: bool = False) -> Fraction:
        """The second of a bound; a bare date means its whole day, so its end where upper.

        Args:
            value: A time of day, a moment, a date, or ISO text.
            axis: Name of the axis, for messages.
            upper: Whether it is the upper bound of an interval.
        """
        second = self._second(value)
        if second is None and not self.of_day and _is_date(value):
            day = epoch_day(value)
            second = None if day is None else Fraction(min(day + upper, LAST_DAY) * DAY)
        if second is None:
            what, example = self._words
            raise QuestionError(
                f"axis {axis!r} takes {what} without a time zone, such as {example}, got "
                f"{shown(value)}"
            )
        return second

    def write(self, place: Fraction) -> str:
        """The time of day or moment at a second."""
        return clock_text(place) if self.of_day else moment_text(place)


def _is_date(value: object) -> bool:
    """Whether a value is a date without a time."""
    if isinstance(value, str):
        return len(value) == 10
    if isinstance(value, np.datetime64):
        return np.datetime_data(value.dtype)[0] == "D"
    return isinstance(value, date) and not isinstance(value, datetime)
