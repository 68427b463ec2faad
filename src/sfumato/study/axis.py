"""An axis: a name, what its values may be, how each pair is protected, and by what channel.

The five makers `integers`, `reals`, `dates`, `times` and `categories` are how studies are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.base import Channel, Choice
from sfumato.domains.base import NO_ANSWER, Domain
from sfumato.domains.calendar import Dates, Times
from sfumato.domains.categories import Categories
from sfumato.domains.integers import Integers
from sfumato.domains.reals import Reals
from sfumato.errors import DataError, StudyError, TooLargeError, rows
from sfumato.metrics.base import Metric
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.distance import CappedLineMetric, LineMetric

Outside = Literal["refuse", "clip"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One question put to a person.

    Args:
        name: What the axis is called in tables and questions.
        domain: What a value may be.
        protect: How well each pair of values is hidden; None if the study says it for all axes.
        channel: How it is perturbed; None lets the planner choose.
        optional: Whether "no answer" is one more, protected, answer.
        outside: What happens to values out of bounds; None if the study says it.
        unit: What the numbers count, such as "years"; shown in explanations and plots.
    """

    name: str
    domain: Domain
    protect: Metric | None = None
    channel: Choice | None = None
    optional: bool = False
    outside: Outside | None = None
    unit: str = ""

    def __post_init__(self) -> None:
        """Check what can be checked before the study is complete."""
        if not isinstance(self.name, str) or not self.name.strip():
            raise StudyError(f"an axis needs a name that is not blank, got name={self.name!r}")
        if self.protect is not None and not isinstance(self.protect, Metric):
            raise StudyError(
                f"axis {self.name!r}: protect must be a metric such as Distance(epsilon=0.2), "
                f"got {type(self.protect).__name__}"
            )
        if self.channel is not None and not isinstance(self.channel, Choice):
            raise StudyError(
                f"axis {self.name!r}: channel must be a choice such as Geometric(), "
                f"got {type(self.channel).__name__}"
            )
        if self.outside not in (None, "refuse", "clip"):
            raise StudyError(
                f"axis {self.name!r}: outside must be 'refuse' or 'clip', got {self.outside!r}"
            )
        if self.optional and self.domain.rounding_bits:
            raise StudyError(
                f"axis {self.name!r}: rounding='stochastic' and optional=True do not go together; "
                "leave out one of them"
            )
        if self.optional and NO_ANSWER in self.domain.labels():
            raise StudyError(
                f"axis {self.name!r} is optional, so the label {NO_ANSWER!r} is taken; rename it"
            )

    @property
    def size(self) -> int:
        """Number of cells, "no answer" included; that one is the last."""
        return self.domain.size + self.optional

    def labels(self) -> list[str]:
        """The name of every cell."""
        return self.domain.labels() + ([NO_ANSWER] if self.optional else [])

    @property
    def statement(self) -> Metric:
        """What the axis says about protection, which must not be left out."""
        if self.protect is None:
            raise StudyError(
                f"axis {self.name!r} says nothing about protection, and there is no default: "
                "give it protect=Distance(epsilon=...) or another metric"
            )
        return self.protect

    @property
    def choice(self) -> Choice:
        """The channel's name and options, once the study has settled it."""
        if self.channel is None:
            raise StudyError(f"axis {self.name!r} has no channel yet; make a Study of it")
        return self.channel

    def metric(self) -> CellMetric:
        """E between cells."""
        statement = self.statement
        try:
            return statement.bind(self.domain, optional=self.optional)
        except StudyError as error:
            raise StudyError(f"axis {self.name!r}: {error}") from None

    def settled(self, metric: CellMetric) -> Axis:
        """This axis with its channel's choice as a study holds it."""
        try:
            return replace(self, channel=self.choice.settled(metric))
        except TooLargeError as error:
            raise TooLargeError(f"axis {self.name!r}: {error}") from None

    def bind(self, metric: CellMetric) -> Channel:
        """The channel proper, behind stochastic rounding if the domain asks for it."""
        if self.domain.rounding_bits and not isinstance(metric, LineMetric | CappedLineMetric):
            raise StudyError(
                f"axis {self.name!r}: rounding='stochastic' needs protect=Distance(...) alone; "
                "leave out one of them"
            )
        problem = self.choice.misfit(metric)
        if problem:
            name = type(self.choice).__name__
            raise StudyError(f"axis {self.name!r}: {name} does not fit: {problem}")
        try:
            return self.choice.bind(metric, resolution=self.domain.rounding_bits)
        except StudyError as error:
            raise StudyError(f"axis {self.name!r}: {error}") from None

    def codes(self, column: Any) -> NDArray[np.int64]:
        """The cell of every value; a missing one is "no answer" or an error.

        Args:
            column: What `sfumato.domains.tables.columns` gives for this axis.
        """
        codes = self.domain.read(column, axis=self.name, clip=self.outside == "clip")
        missing = np.flatnonzero(codes < 0)
        if missing.size and not self.optional:
            raise DataError(
                f"axis {self.name!r} must have an answer in every row, but "
                f"{rows((missing + 1).tolist())} "
                f"{'has' if missing.size == 1 else 'have'} none; "
                "leave these rows out or make the axis optional=True"
            )
        codes[missing] = self.domain.size
        return codes

    def with_defaults(self, *, channel: Choice | None, outside: Outside, protect: Any) -> Axis:
        """This axis with what the study says where it says nothing itself."""
        return replace(
            self,
            protect=self.protect or protect,
            channel=self.channel or channel,
            outside=self.outside or outside,
        )


def integers(
    name: str,
    low: int,
    high: int,
    *,
    protect: Metric | None = None,
    channel: Choice | None = None,
    optional: bool = False,
    outside: Outside | None = None,
    unit: str = "",
) -> Axis:
    """Whole numbers from low to high, both included, one cell each.

    Example:
        >>> import sfumato as sf
        >>> sf.integers("age", 0, 99, protect=sf.Distance(epsilon=0.2)).size
        100
    """
    return Axis(
        name=name,
        domain=Integers(low, high),
        protect=protect,
        channel=channel,
        optional=optional,
        outside=outside,
        unit=unit,
    )


def reals(
    name: str,
    low: float | None = None,
    high: float | None = None,
    *,
    bins: int | None = None,
    edges: Sequence[float] | None = None,
    rounding: Literal["stochastic"] | None = None,
    protect: Metric | None = None,
    channel: Choice | None = None,
    optional: bool = False,
    outside: Outside | None = None,
    unit: str = "",
) -> Axis:
    """Real numbers in bins: so many equal ones from low to high, or between given edges.

    Values are protected by bin. With rounding="stochastic" they are rounded at random to the bins'
    edges instead, and every pair of values is protected by its own distance.

    Example:
        >>> import sfumato as sf
        >>> sf.reals("income", 0, 200_000, bins=64, protect=sf.Distance(1.0, per=10_000)).size
        64
    """
    if edges is None and low is not None and high is not None and bins is not None:
        domain = Reals.equal_bins(low, high, bins, rounding=rounding)
    elif edges is not None and low is None and high is None and bins is None:
        domain = Reals.from_edges(edges, rounding=rounding)
    else:
        raise StudyError(
            f"axis {name!r} needs either low, high and bins (equal bins), or edges=[...] alone"
        )
    return Axis(
        name=name,
        domain=domain,
        protect=protect,
        channel=channel,
        optional=optional,
        outside=outside,
        unit=unit,
    )


def dates(
    name: str,
    start: str | date,
    end: str | date,
    *,
    step: str | timedelta = "1 day",
    protect: Metric | None = None,
    channel: Choice | None = None,
    optional: bool = False,
    outside: Outside | None = None,
) -> Axis:
    """Calendar days from start to end, both included, one cell a step.

    Example:
        >>> import sfumato as sf
        >>> sf.dates(
        ...     "visit",
        ...     "2024-01-01",
        ...     "2024-01-28",
        ...     step="1 week",
        ...     protect=sf.Distance(epsilon=1, per="1 week"),
        ... ).labels()[0]
        '2024-01-01..2024-01-07'
    """
    return Axis(
        name=name,
        domain=Dates.every(start, end, step),
        protect=protect,
        channel=channel,
        optional=optional,
        outside=outside,
    )


def times(
    name: str,
    start: str | datetime | time,
    end: str | datetime | time,
    *,
    step: str | timedelta,
    protect: Metric | None = None,
    channel: Choice | None = None,
    optional: bool = False,
    outside: Outside | None = None,
) -> Axis:
    """Moments on the wall clock from start up to end, one cell a step; or times of day.

    Example:
        >>> import sfumato as sf
        >>> sf.times(
        ...     "pickup",
        ...     "00:00",
        ...     "24:00",
        ...     step="15 min",
        ...     protect=sf.Distance(epsilon=1, per="1 hour"),
        ... ).size
        96
    """
    return Axis(
        name=name,
        domain=Times.every(start, end, step),
        protect=protect,
        channel=channel,
        optional=optional,
        outside=outside,
    )


def categories(
    name: str,
    labels: Sequence[str],
    *,
    protect: Metric | None = None,
    channel: Choice | None = None,
    optional: bool = False,
) -> Axis:
    """One of a list of labels.

    Example:
        >>> import sfumato as sf
        >>> sf.categories(
        ...     "region", ["north", "south"], protect=sf.Uniform(1), optional=True
        ... ).labels()
        ['north', 'south', 'no answer']
    """
    return Axis(
        name=name,
        domain=Categories(tuple(labels)),
        protect=protect,
        channel=channel,
        optional=optional,
    )
