"""Wall-clock times, of one day or across days, in cells of equal length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from itertools import pairwise
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
from sfumato.domains.scales import (
    DAY,
    LAST_DAY,
    clock_second,
    clock_text,
    epoch_day,
    exact_second,
    moment_text,
    seconds_in,
    whole_step,
)
from sfumato.errors import QuestionError, StudyError

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True, slots=True)
class Times(Ordered):
    """Times from start up to, but not including, end, in cells of so many seconds.

    Start and end are both times of day ("06:30", "24:00") or both moments
    ("2024-01-01T00:00"), on the wall clock, without a time zone.

    Args:
        start: The first moment.
        end: The moment after the last, a whole number of steps after the start.
        step_seconds: Seconds in a cell.

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
    step_seconds: int

    kind: ClassVar[str] = "times"
    half_open: ClassVar[bool] = True

    def __post_init__(self) -> None:
        seconds = [clock_second(bound) for bound in (self.start, self.end)]
        text: Callable[[Fraction], str] = clock_text
        if None in seconds:
            seconds, text = [exact_second(bound) for bound in (self.start, self.end)], moment_text
        if not all(second is not None and second.denominator == 1 for second in seconds):
            raise StudyError(
                "start and end must both be times of day such as '06:30', or both moments such "
                "as '2024-01-01T06:30', in whole seconds and without a time zone, got "
                f"start={self.start!r}, end={self.end!r}"
            )
        for name, second in zip(("start", "end"), seconds, strict=True):
            object.__setattr__(self, name, text(second or Fraction(0)))
        step = whole_step(self.step_seconds, "step", unit=1, base="seconds")
        object.__setattr__(self, "step_seconds", step)
        span = self._past - self._first
        check_size(
            -(-span // step),
            f"times from start={self.start} to end={self.end} in steps of {step} seconds",
            "end later or take shorter steps",
        )
        if span % step:
            fitting = self.write(Fraction(self._first + max(2, round(span / step)) * step))
            raise StudyError(
                f"start..end must hold whole steps: {span} seconds are not a multiple of {step}; "
                f"the nearest fitting end is {fitting}, got end={self.end}"
            )

    @classmethod
    def every(cls, start: Any, end: Any, step: Any) -> Times:
        """Times from start to end in steps such as "15 minutes", however they are written."""
        return cls(start, end, step)

    @property
    def of_day(self) -> bool:
        """Whether these are times of day rather than moments."""
        return "T" not in self.start

    @property
    def size(self) -> int:
        """Number of cells."""
        return (self._past - self._first) // self.step_seconds

    @property
    def ordered(self) -> bool:
        """Times lie in a row."""
        return True

    @property
    def spacing(self) -> Fraction:
        """Seconds from a cell to the next."""
        return Fraction(self.step_seconds)

    @property
    def rounding_bits(self) -> int:
        """A time has its cell: nothing is rounded at random."""
        return 0

    @property
    def _first(self) -> int:
        """Second of the start."""
        return int(self._second(self.start) or 0)

    @property
    def _past(self) -> int:
        """Second of the end."""
        return int(self._second(self.end) or 0)

    def _second(self, value: object) -> Fraction | None:
        """The second of a time of day or moment; None if it is not the kind this axis has."""
        return clock_second(value) if self.of_day else exact_second(value)

    def positions(self) -> tuple[Fraction, ...]:
        """Middle of each cell in seconds, since midnight or since 1970-01-01."""
        middle = self._first + Fraction(self.step_seconds, 2)
        return tuple(middle + cell * self.step_seconds for cell in range(self.size))

    def length(self, quantity: object, what: str) -> Fraction:
        """A duration or a number of seconds, in seconds.

        Example:
            >>> Times.every("06:00", "10:00", "1 minute").length("1.5 hours", "per")
            Fraction(5400, 1)
        """
        return seconds_in(quantity, what, unit=1)

    def read(self, column: Any, *, axis: str, clip: bool) -> NDArray[np.int64]:
        """Cell of each time of an Arrow column, −1 where missing.

        Args:
            column: Times of day or timestamps without a zone, as the axis has it, or ISO text.
            axis: Name of the axis, for messages.
            clip: Whether times out of range move to the nearest end.

        Raises:
            DataError: If a time is out of range, no time, or carries a time zone.
        """
        what = "times of day" if self.of_day else "moments"
        rule = f"{what} from {self.start} to before {self.end}"
        seconds, missing = self._read_seconds(flatten(column), axis=axis, rule=rule)
        inside = np.clip(seconds, self._first, self._past - 1)
        codes = (inside - self._first) // self.step_seconds
        return finish(codes, inside != seconds, missing, axis=axis, rule=rule, clip=clip)

    def _read_seconds(
        self, array: Any, *, axis: str, rule: str
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Seconds of an Arrow array, rounded down, and where they are missing."""
        kind = array.type
        if pt.is_null(kind):
            return np.zeros(len(array), dtype=np.int64), np.ones(len(array), dtype=np.bool_)
        example = "06:30" if self.of_day else "2024-01-31T06:30"
        if is_text(kind):
            remedy = f"write them as {example}, without a time zone, or leave the cell empty"
            return read_text(array, self._text_second, axis=axis, rule=rule, remedy=remedy)
        fits = pt.is_time(kind) if self.of_day else pt.is_timestamp(kind) and kind.tz is None
        if fits:
            return integers_of(array) // _PER_SECOND[kind.unit], is_missing(array)
        zoned = pt.is_timestamp(kind) and kind.tz is not None
        remedy = (
            "convert to the local wall clock and drop the zone"
            if zoned
            else f"convert it to {'times of day' if self.of_day else 'timestamps'}"
        )
        shown = "timestamp with a time zone" if zoned else kind
        raise refuse_type(shown, axis=axis, rule=rule, remedy=remedy)

    def _text_second(self, text: str) -> int | None:
        """The second that text spells, rounded down; nobody is at 24:00."""
        second = self._second(text)
        if second is None or (self.of_day and second == DAY):
            return None
        return second.numerator // second.denominator

    def labels(self) -> list[str]:
        """First moment of each cell and of the next."""
        points = range(self._first, self._past + 1, self.step_seconds)
        texts = [self.write(Fraction(point)) for point in points]
        return [f"{left}..{right}" for left, right in pairwise(texts)]

    def edges(self) -> NDArray[np.datetime64]:
        """Edges of the cells; times of day lie on 1970-01-01, so that plots can show them."""
        seconds = np.arange(self._first, self._past + 1, self.step_seconds, dtype=np.int64)
        return seconds.astype("datetime64[s]")

    def numbers(self) -> None:
        """Times have no mean here."""
        return None

    def place(self, value: object, *, axis: str, upper: bool = False) -> Fraction:
        """The second of a bound; a bare date means its whole day, so its end where upper."""
        second = self._second(value)
        if second is None and not self.of_day and _is_date(value):
            day = epoch_day(value)
            second = None if day is None else Fraction(min(day + upper, LAST_DAY) * DAY)
        if second is None:
            example = "06:30" if self.of_day else "2024-01-31T06:30"
            what = "times of day" if self.of_day else "moments"
            raise QuestionError(
                f"axis {axis!r} takes {what} without a time zone, such as {example}, got {value!r}"
            )
        return second

    def _bounds(self) -> tuple[Fraction, Fraction]:
        """The first moment, and the one after the last."""
        return Fraction(self._first), Fraction(self._past)

    def _shown(self) -> tuple[str, str]:
        """The same for messages."""
        return self.start, self.end

    def weigh(self, span: Span) -> tuple[NDArray[np.float64], bool]:
        """Share of each cell in the span; a single moment means its cell.

        Example:
            >>> leave = Times.every("06:00", "07:00", "30 minutes")
            >>> leave.interval("06:00", "06:45", axis="leave")
            (array([1. , 0.5]), True)
        """
        below, above = span
        if below is not None and below == above:
            return one_cell(self.size, int((below - self._first) // self.step_seconds)), False
        edges = np.arange(self.size + 1, dtype=np.float64) * self.step_seconds
        start = 0.0 if below is None else float(max(below - self._first, Fraction(0)))
        end = edges[-1] if above is None else min(float(above - self._first), edges[-1])
        return bin_weights(edges, start, float(end))

    def parse(self, text: str, *, axis: str) -> str:
        """A time of the question language, as it is: `place` reads it."""
        return text

    def write(self, place: Fraction) -> str:
        """The time of day or moment at a second."""
        return clock_text(place) if self.of_day else moment_text(place)

    def to_dict(self) -> dict[str, Any]:
        """Kind, bounds and step."""
        return {
            "kind": self.kind,
            "start": self.start,
            "end": self.end,
            "step": f"{self.step_seconds} seconds",
        }


def _is_date(value: object) -> bool:
    """Whether a value is a date without a time."""
    if isinstance(value, str):
        return len(value) == 10
    if isinstance(value, np.datetime64):
        return np.datetime_data(value.dtype)[0] == "D"
    return isinstance(value, date) and not isinstance(value, datetime)
