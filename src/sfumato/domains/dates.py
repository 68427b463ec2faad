"""Calendar days, or runs of days of equal length."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pyarrow.types as pt
from numpy.typing import NDArray

from sfumato.domains.base import Ordered, Span, bin_weights, check_size, one_cell
from sfumato.domains.reading import (
    finish,
    flatten,
    integers_of,
    is_missing,
    is_text,
    read_text,
    refuse_type,
)
from sfumato.domains.scales import DAY, day_text, epoch_day, seconds_in, whole_step
from sfumato.errors import QuestionError, StudyError

_PER_DAY = {"s": DAY, "ms": DAY * 10**3, "us": DAY * 10**6, "ns": DAY * 10**9}


@dataclass(frozen=True, slots=True)
class Dates(Ordered):
    """Days from start to end, both included, in cells of a fixed number of days.

    Args:
        start: The first day.
        end: The last day, a whole number of steps after the start.
        step_days: Days in a cell.

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
    step_days: int = 1

    kind: ClassVar[str] = "dates"

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            day = epoch_day(getattr(self, name))
            if day is None:
                raise StudyError(
                    f"{name} must be a date without a time zone, such as '2024-01-31', got "
                    f"{name}={getattr(self, name)!r}"
                )
            object.__setattr__(self, name, date(1970, 1, 1) + timedelta(days=day))
        step = whole_step(self.step_days, "step", unit=DAY, base="days")
        object.__setattr__(self, "step_days", step)
        days = (self.end - self.start).days + 1
        check_size(
            -(-days // step),
            f"dates from start={self.start} to end={self.end} in steps of {step} days",
            "end later or take shorter steps",
        )
        if days % step:
            cells = max(2, round(days / step))
            fitting = self.start + timedelta(days=cells * step - 1)
            raise StudyError(
                f"start..end must hold whole steps: {days} days are not a multiple of {step}; "
                f"the nearest fitting end is {fitting}, got end={self.end}"
            )

    @classmethod
    def every(cls, start: Any, end: Any, step: Any = "1 day") -> Dates:
        """Days from start to end in steps such as "1 week", however they are written."""
        return cls(start, end, step)

    @property
    def size(self) -> int:
        """Number of cells."""
        return ((self.end - self.start).days + 1) // self.step_days

    @property
    def ordered(self) -> bool:
        """Days lie in a row."""
        return True

    @property
    def spacing(self) -> Fraction:
        """Days from a cell to the next."""
        return Fraction(self.step_days)

    @property
    def rounding_bits(self) -> int:
        """A date has its cell: nothing is rounded at random."""
        return 0

    @property
    def _first(self) -> int:
        """Day number of the start."""
        return (self.start - date(1970, 1, 1)).days

    @property
    def _last(self) -> int:
        """Day number of the end."""
        return (self.end - date(1970, 1, 1)).days

    def positions(self) -> tuple[Fraction, ...]:
        """Middle of each cell in days since 1970-01-01."""
        middle = self._first + Fraction(self.step_days - 1, 2)
        return tuple(middle + cell * self.step_days for cell in range(self.size))

    def length(self, quantity: object, what: str) -> Fraction:
        """A duration or a number of days, in days.

        Example:
            >>> Dates.every("2024-01-01", "2024-01-31").length("1 week", "per")
            Fraction(7, 1)
        """
        return seconds_in(quantity, what, unit=DAY) / DAY

    def read(self, column: Any, *, axis: str, clip: bool) -> NDArray[np.int64]:
        """Cell of each date of an Arrow column, −1 where missing.

        Args:
            column: Dates, timestamps without a zone (their date counts), or ISO text.
            axis: Name of the axis, for messages.
            clip: Whether dates out of range move to the nearest end.

        Raises:
            DataError: If a date is out of range, no date, or carries a time zone.
        """
        rule = f"dates from {self.start} to {self.end}"
        days, missing = _read_days(flatten(column), axis=axis, rule=rule)
        inside = np.clip(days, self._first, self._last)
        codes = (inside - self._first) // self.step_days
        return finish(codes, inside != days, missing, axis=axis, rule=rule, clip=clip)

    def labels(self) -> list[str]:
        """ISO dates, or the first and last day of each cell."""
        starts = range(self._first, self._last + 1, self.step_days)
        if self.step_days == 1:
            return [day_text(day) for day in starts]
        return [f"{day_text(day)}..{day_text(day + self.step_days - 1)}" for day in starts]

    def edges(self) -> NDArray[np.datetime64]:
        """First day of each cell, and the day after the end."""
        days = np.arange(self._first, self._last + 2, self.step_days, dtype=np.int64)
        return days.astype("datetime64[D]")

    def numbers(self) -> None:
        """Dates have no mean here."""
        return None

    def place(self, value: object, *, axis: str, upper: bool = False) -> Fraction:
        """The day number of a bound."""
        day = epoch_day(value)
        if day is None:
            raise QuestionError(
                f"axis {axis!r} takes dates without a time zone, such as 2024-01-31, got {value!r}"
            )
        return Fraction(day)

    def _bounds(self) -> tuple[Fraction, Fraction]:
        """The first and the last day."""
        return Fraction(self._first), Fraction(self._last)

    def _shown(self) -> tuple[str, str]:
        """The same for messages."""
        return str(self.start), str(self.end)

    def weigh(self, span: Span) -> tuple[NDArray[np.float64], bool]:
        """Share of each cell's days in the span; a single day means its cell.

        Example:
            >>> week = Dates.every("2024-01-01", "2024-01-14", "1 week")
            >>> week.interval("2024-01-01", "2024-01-07", axis="week")
            (array([1., 0.]), False)
        """
        below, above = span
        if below is not None and below == above:
            return one_cell(self.size, (int(below) - self._first) // self.step_days), False
        edges = np.arange(self.size + 1, dtype=np.float64) * self.step_days
        first = 0 if below is None else max(int(below) - self._first, 0)
        past = edges[-1] if above is None else min(int(above) - self._first + 1, edges[-1])
        return bin_weights(edges, float(first), float(past))

    def parse(self, text: str, *, axis: str) -> str:
        """An ISO date of the question language, as it is: `place` reads it."""
        return text

    def write(self, place: Fraction) -> str:
        """The ISO date of a day number."""
        return day_text(int(place))

    def to_dict(self) -> dict[str, Any]:
        """Kind, bounds and step."""
        return {
            "kind": self.kind,
            "start": self.start.isoformat(),
            "end": self.end.isoformat(),
            "step": f"{self.step_days} days",
        }


def _read_days(array: Any, *, axis: str, rule: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Day numbers of an Arrow array, and where they are missing."""
    kind = array.type
    if pt.is_null(kind):
        return np.zeros(len(array), dtype=np.int64), np.ones(len(array), dtype=np.bool_)
    if is_text(kind):
        remedy = "write them as 2024-01-31, without a time zone, or leave the cell empty"
        return read_text(array, epoch_day, axis=axis, rule=rule, remedy=remedy)
    if pt.is_date32(kind):
        return integers_of(array), is_missing(array)
    if pt.is_date64(kind):
        return integers_of(array) // _PER_DAY["ms"], is_missing(array)
    if pt.is_timestamp(kind) and kind.tz is None:
        return integers_of(array) // _PER_DAY[kind.unit], is_missing(array)
    zoned = pt.is_timestamp(kind)
    remedy = (
        "the date depends on the zone: convert to local time and drop the zone"
        if zoned
        else "convert it to dates"
    )
    shown = "timestamp with a time zone" if zoned else kind
    raise refuse_type(shown, axis=axis, rule=rule, remedy=remedy)
