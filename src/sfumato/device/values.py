"""From one value to its code on a device: the axes of a device program.

The standard library is enough. The same codes come from the axes of a study, for whole columns;
"Device programs" in the documentation says what each kind of axis takes.
"""

from __future__ import annotations

import math
import re
import struct
from bisect import bisect_right
from collections.abc import Mapping
from datetime import date, datetime, time
from itertools import pairwise
from typing import Any

from sfumato.errors import DataError, FormatError

ROUNDING_BITS = 20
MOST_EDGES = (1 << 24) + 1

_EXACT = 1 << 53
_DAY = 86400
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_CLOCK = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.[0-9]+)?)?")
_EPOCH = date(1970, 1, 1).toordinal()


class DeviceAxis:
    """How a value becomes a code, as a device program states it.

    Attributes:
        name: What the axis is called in a record.
        kind: "integers", "reals", "categories", "dates" or "times".
        optional: Whether "no answer" is one more answer.
        rule: What the axis takes, in words.
        cells: How many cells stand for values; the one of "no answer" comes after them.
        places: Codes from one cell to the next: 2^20 with stochastic rounding, otherwise 1.
    """

    def __init__(self, held: Mapping[str, Any]) -> None:
        self.name: str = held["name"]
        self.optional: bool = held["optional"]
        self._clip = held["outside"] == "clip"
        self.kind: str = held["kind"]
        self.rule: str
        self.places = 1
        if self.kind == "integers":
            self._low, high = int(held["low"]), int(held["high"])
            self.cells = high - self._low + 1
            self.rule = f"whole numbers from {self._low} to {high}"
        elif self.kind == "reals":
            self._edges = _edges(held["edges"])
            rounds = held["rounding"] != 0
            self.places = 1 << ROUNDING_BITS if rounds else 1
            self.cells = len(self._edges) - 1 + rounds
            self.rule = f"numbers from {self._edges[0]:g} to {self._edges[-1]:g}"
        elif self.kind == "categories":
            self._places = {label: place for place, label in enumerate(held["labels"])}
            self.cells = len(self._places)
            self.rule = f"one of {self.cells} labels"
        else:
            self._first, self._step, self.cells = held["first"], held["step"], held["cells"]
            self._of_day = held.get("of_day", False)
            self.rule = "times within the bounds of the study, without a time zone"
            if self.kind == "dates":
                self.rule = "dates within the bounds of the study, without a time zone"
        if self.cells < 1:
            raise FormatError(
                f"axis {self.name!r} of a device program must have cells, and it has none"
            )

    @property
    def size(self) -> int:
        """Cells, with that of "no answer"."""
        return self.cells + self.optional

    def code(self, value: object) -> int:
        """The code of a value.

        Raises:
            DataError: If the value is missing or does not fit; it is never shown.
        """
        if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
            if self.optional:
                return self.cells
            raise DataError(
                f"axis {self.name!r} must have an answer, got none; give one, or make the axis "
                "optional in the study"
            )
        found = self._found(value)
        if found is None:
            raise DataError(
                f"axis {self.name!r} takes {self.rule}, and got something else (not shown); "
                "correct the value before it is encoded"
            )
        return found

    def _found(self, value: object) -> int | None:
        """The code, or None if the value does not fit."""
        if self.kind == "integers":
            return self._integer(value)
        if self.kind == "reals":
            return self._real(value)
        if self.kind == "categories":
            return self._places.get(value) if isinstance(value, str) else None
        return self._calendar(value)

    def _inside(self, code: int) -> int | None:
        """A cell within the axis."""
        if 0 <= code < self.cells:
            return code
        return min(max(code, 0), self.cells - 1) if self._clip else None

    def _integer(self, value: object) -> int | None:
        """A whole number, also as a double."""
        if isinstance(value, float):
            if math.isinf(value):
                return self._inside(self.cells if value > 0 else -1)
            value = int(value) if value.is_integer() else None
        if not isinstance(value, int) or isinstance(value, bool):
            return None
        return self._inside(value - self._low)

    def _real(self, value: object) -> int | None:
        """A double between the edges."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        try:
            number = float(value)
        except OverflowError:
            number = math.inf if value > 0 else -math.inf
        edges = self._edges
        within = min(max(number, edges[0]), edges[-1])
        if within != number and not self._clip:
            return None
        place = bisect_right(edges, within, 1, len(edges) - 1) - 1
        if self.places == 1:
            return place
        share = (within - edges[place]) / (edges[place + 1] - edges[place])
        return place * self.places + round(min(max(share, 0.0), 1.0) * self.places)

    def _calendar(self, value: object) -> int | None:
        """A date, a time of day or a moment: as text, or as Python's own types."""
        if isinstance(value, date | time):  # a datetime is a date
            if getattr(value, "tzinfo", None) is not None:
                return None
            value = value.isoformat()
        if not isinstance(value, str):
            return None
        if self._of_day:
            second = clock_second(value)
            place = None if second == _DAY else second
        else:
            place = _moment(value)
            if self.kind == "dates":
                place = _day(value) if place is None else place // _DAY
        return None if place is None else self._inside((place - self._first) // self._step)


def clock_second(text: str) -> int | None:
    """The second of the day that a text spells, rounded down, 24:00 included; None if bad."""
    found = _CLOCK.fullmatch(text)
    if found is None:
        return None
    hours, minutes, seconds = int(found[1]), int(found[2]), int(found[3] or 0)
    total = (hours * 60 + minutes) * 60 + seconds
    whole = total < _DAY or (total == _DAY and not text.partition(".")[2].strip("0"))
    return total if minutes < 60 and seconds < 60 and whole else None


def _day(text: str) -> int | None:
    """The day number of an ISO date, counted from 1970-01-01; None if bad."""
    found = _DATE.fullmatch(text)
    try:
        return None if found is None else date(*map(int, found.groups())).toordinal() - _EPOCH
    except ValueError:
        return None


def _moment(text: str) -> int | None:
    """The wall-clock second of an ISO date and time, rounded down; None if bad."""
    if len(text) < 12 or text[10] not in "T ":
        return None
    day, second = _day(text[:10]), clock_second(text[11:])
    if day is None or second is None:
        return None
    past = day == datetime.max.toordinal() - _EPOCH and second == _DAY
    return None if past else day * _DAY + second


def _edges(held: Any) -> list[float]:
    """The edges of bins: listed, or by their rule."""
    if isinstance(held, Mapping):
        first, step, below = int(held["first"]), int(held["step"]), int(held["below"])
        count: int = held["count"]
        reach = max(abs(first), abs(first + step * count), below)
        if not (0 < count < MOST_EDGES and min(below, step) > 0 and reach < _EXACT):
            raise FormatError("the rule of edges in a device program must stay within ±2^53")
        # A quotient of two integers that are exact doubles is correctly rounded.
        found = [float(first + step * k) / float(below) for k in range(count + 1)]
    else:
        found = [struct.unpack(">d", bytes.fromhex(edge))[0] for edge in held]
    rising = all(left < right for left, right in pairwise(found))
    if len(found) < 2 or not rising or not all(map(math.isfinite, found)):
        raise FormatError("the edges in a device program must be finite and rise")
    return found
