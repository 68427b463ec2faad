"""Axes of a study: a name, the possible values, their protection and the channel.

Write a study with `integers`, `reals`, `dates`, `times` and `categories`; `together` puts several
axes under one guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.choice import Choice
from sfumato.domains.base import NO_ANSWER, Domain
from sfumato.domains.calendar import Dates, Times
from sfumato.domains.categories import Categories
from sfumato.domains.integers import Integers
from sfumato.domains.reals import Reals
from sfumato.errors import DataError, StudyError, TooLargeError, rows, shown
from sfumato.metrics.base import Metric
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.distance import CappedLineMetric, LineMetric
from sfumato.metrics.recognise import recognised
from sfumato.metrics.uniform import Uniform, UniformMetric
from sfumato.text import refuse_name

Outside = Literal["refuse", "clip"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One attribute that every person reports, such as an age or a region.

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
            raise StudyError(f"an axis needs a name that is not blank, got name={shown(self.name)}")
        if not isinstance(self.unit, str):
            raise StudyError(f"axis {self.name!r}: unit must be a text, got {shown(self.unit)}")
        if not isinstance(self.optional, bool):
            raise StudyError(
                f"axis {self.name!r}: optional must be True or False, got {shown(self.optional)}"
            )
        refuse_name(self.name, "the name of an axis")
        refuse_name(self.unit, "the unit of an axis")
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
        if not isinstance(self.outside, str | None) or self.outside not in (None, "refuse", "clip"):
            raise StudyError(
                f"axis {self.name!r}: outside must be 'refuse' or 'clip', got {shown(self.outside)}"
            )
        if self.optional and self.domain.rounding_bits:
            raise StudyError(
                f"axis {self.name!r}: rounding='stochastic' and optional=True do not go together; "
                "remove one of the two"
            )
        if self.optional and not self.domain.ordered and NO_ANSWER in self.domain.labels():
            raise StudyError(
                f"axis {self.name!r} is optional, so the label {NO_ANSWER!r} is taken; rename it"
            )

    @property
    def size(self) -> int:
        """Number of cells; on an optional axis the last one is "no answer"."""
        return self.domain.size + self.optional

    def labels(self) -> list[str]:
        """The name of every cell."""
        return self.domain.labels() + ([NO_ANSWER] if self.optional else [])

    def metric(self) -> CellMetric:
        """E between the cells of this axis, under its own guarantee."""
        return Together.alone(self).metric()

    def to_dict(self) -> dict[str, Any]:
        """The entries of a study file for this axis, without guarantee and channel."""
        return {
            "name": self.name,
            "optional": self.optional,
            "outside": self.outside,
            "unit": self.unit,
            "domain": self.domain.to_dict(),
        }

    def codes(self, column: Any) -> NDArray[np.int64]:
        """The cell of every value; a missing value becomes "no answer", or is refused.

        Args:
            column: The values of this axis, as `sfumato.domains.tables.columns` returns them.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Axes under one guarantee, perturbed by one channel; made by `together`.

    A single axis is a group of one: `Together.alone(axis)`.

    Args:
        axes: The axes, in the order of the study.
        protect: E between any two combinations of their values; None if the study says it.
        channel: How the combination is perturbed; None lets the planner choose.
    """

    axes: tuple[Axis, ...]
    protect: Metric | None = None
    channel: Choice | None = None

    def __post_init__(self) -> None:
        """Check what can be checked before the study is complete."""
        if self.channel is not None and not isinstance(self.channel, Choice):
            raise StudyError(
                f"{self.words}: channel must be a choice such as Geometric(), "
                f"got {type(self.channel).__name__}"
            )
        if len(self.axes) == 1:
            return
        for axis in self.axes:
            for what, held in (("protect", axis.protect), ("channel", axis.channel)):
                if held is not None:
                    raise StudyError(
                        f"{self.words} share one guarantee, so axis {axis.name!r} must not "
                        f"name {what}=... of its own: remove one of the two"
                    )
            if axis.domain.rounding_bits:
                raise StudyError(
                    f"axis {axis.name!r}: rounding='stochastic' needs a guarantee of its own, "
                    "protect=Distance(...) or Uniform(...); take the axis out of the group"
                )

    @classmethod
    def alone(cls, axis: Axis) -> Together:
        """A single axis, with its own guarantee and channel."""
        bare = replace(axis, protect=None, channel=None)
        return cls(axes=(bare,), protect=axis.protect, channel=axis.channel)

    @property
    def words(self) -> str:
        """The names of the axes for messages: "axis 'age'", or "axes 'row', 'column'"."""
        names = ", ".join(repr(axis.name) for axis in self.axes)
        return f"axis {names}" if len(self.axes) == 1 else f"axes {names}"

    @property
    def size(self) -> int:
        """Number of combinations of cells."""
        return math.prod(axis.size for axis in self.axes)

    @property
    def statement(self) -> Metric:
        """The stated guarantee; a missing one is refused."""
        if self.protect is None:
            raise StudyError(
                f"{self.words} {'says' if len(self.axes) == 1 else 'say'} nothing about "
                "protection, and there is no default: add protect=Distance(epsilon=...) or another "
                "metric"
            )
        return self.protect

    def metric(self) -> CellMetric:
        """E between combinations of cells, flat in C order."""
        statement = self.statement
        if len(self.axes) > 1:
            if isinstance(statement, Uniform):
                return UniformMetric(statement.epsilon, self.size)
            for axis in self.axes:
                if axis.optional:
                    raise StudyError(
                        f"axis {axis.name!r} is optional, and {type(statement).__name__} does not "
                        "say how far 'no answer' lies from the values; use Uniform, or leave out "
                        "optional=True"
                    )
            try:
                return statement.bind_together([axis.domain for axis in self.axes])
            except (StudyError, TooLargeError) as error:
                raise type(error)(f"{self.words}: {error}") from None
        (axis,) = self.axes
        try:
            metric = statement.bind(axis.domain, optional=axis.optional)
        except (StudyError, TooLargeError) as error:
            raise type(error)(f"{self.words}: {error}") from None
        if not axis.domain.rounding_bits:
            return recognised(metric)
        # What holds between grid points says nothing of the values between them, unless it is
        # stated as a distance or as one ε: a table is not recognised here.
        if not isinstance(metric, LineMetric | CappedLineMetric | UniformMetric):
            raise StudyError(
                f"{self.words}: rounding='stochastic' needs protect=Distance(...) or Uniform(...) "
                "alone; remove one of the two"
            )
        if isinstance(metric, CappedLineMetric) and metric.equal_step is None:
            raise StudyError(
                f"{self.words}: rounding='stochastic' under a cap needs equal bins; use low, high "
                "and bins instead of edges, or leave out cap"
            )
        return metric

    def with_outside(self, outside: Outside) -> Together:
        """The same axes, with `outside` filled in where an axis leaves it open."""
        axes = tuple(replace(axis, outside=axis.outside or outside) for axis in self.axes)
        return replace(self, axes=axes)


def together(
    axes: Sequence[Axis], *, protect: Metric | None = None, channel: Choice | None = None
) -> Together:
    """Several axes under one guarantee, so that ε is not divided among them.

    Args:
        axes: Axes that state neither protect nor channel of their own.
        protect: E between any two combinations of their values: `Uniform`, or `Lp` with p = 1, 2
            or infinity on ordered axes.
        channel: How combinations are perturbed; left out, the planner chooses.

    Example:
        >>> import sfumato as sf
        >>> place = sf.together(
        ...     [sf.integers("row", 0, 7), sf.integers("column", 0, 7)],
        ...     protect=sf.Uniform(epsilon=1),
        ... )
        >>> age = sf.integers("age", 0, 99, protect=sf.Distance(epsilon=0.2))
        >>> study = sf.Study("seats", [place, age])
        >>> study.guarantee.between(
        ...     {"row": 1, "column": 1, "age": 30}, {"row": 7, "column": 2, "age": 35}
        ... )
        2.0
    """
    held = list(axes) if isinstance(axes, Sequence) else []
    if not held or not all(isinstance(axis, Axis) for axis in held):
        raise StudyError(
            "together needs a list of one or more axes, such as integers(...), got "
            f"{type(axes).__name__}"
        )
    if len(held) == 1:
        (axis,) = held
        for what, inner, outer in (
            ("protect", axis.protect, protect),
            ("channel", axis.channel, channel),
        ):
            if inner is not None and outer is not None:
                raise StudyError(
                    f"axis {axis.name!r} and together both name {what}=...: leave out one of them"
                )
        return Together.alone(
            replace(axis, protect=protect or axis.protect, channel=channel or axis.channel)
        )
    return Together(axes=tuple(held), protect=protect, channel=channel)


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
    """An axis of whole numbers from low to high, both included, with one cell per number.

    Args:
        name: What the axis is called in tables and questions.
        low: The smallest value.
        high: The largest value.
        protect: How well each pair of values is hidden; None if the study states it for all axes.
        channel: How values are perturbed; None lets the planner choose.
        optional: Whether "no answer" is one more, protected, answer.
        outside: What happens to values out of bounds, "refuse" or "clip"; None if the study says.
        unit: What the numbers count, such as "years"; shown in explanations and plots.

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
    """An axis of real numbers in bins: equal bins from low to high, or bins between given edges.

    Values are protected by bin. With rounding="stochastic" they are rounded at random to the bins'
    edges instead, and every pair of values is protected: under `Distance` by its own distance,
    under `Uniform` by ε. One bin with `Uniform` is the best way to sum a private number.

    Args:
        name: What the axis is called in tables and questions.
        low: The smallest value; for equal bins.
        high: The largest value; for equal bins.
        bins: Number of equal bins.
        edges: Edges of the bins in increasing order, instead of `low`, `high` and `bins`.
        rounding: "stochastic" to round at random to the edges of the bins; None to use the bins.
        protect: How well each pair of values is hidden; None if the study states it for all axes.
        channel: How values are perturbed; None lets the planner choose.
        optional: Whether "no answer" is one more, protected, answer.
        outside: What happens to values out of bounds, "refuse" or "clip"; None if the study says.
        unit: What the numbers count, such as "years"; shown in explanations and plots.

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
    """An axis of calendar days from start to end, both included, with one cell per step.

    Args:
        name: What the axis is called in tables and questions.
        start: The first day, such as "2024-01-01".
        end: The last day.
        step: Width of a cell in whole days, such as "1 week".
        protect: How well each pair of values is hidden; None if the study states it for all axes.
        channel: How values are perturbed; None lets the planner choose.
        optional: Whether "no answer" is one more, protected, answer.
        outside: What happens to values out of bounds, "refuse" or "clip"; None if the study says.

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
    """An axis of times of day or of dates with times, from start up to end, one cell per step.

    Times are read off the wall clock, without a time zone.

    Args:
        name: What the axis is called in tables and questions.
        start: The first moment, such as "00:00" or "2024-01-01 00:00".
        end: The end of the last cell, which is not included itself.
        step: Width of a cell, such as "15 min".
        protect: How well each pair of values is hidden; None if the study states it for all axes.
        channel: How values are perturbed; None lets the planner choose.
        optional: Whether "no answer" is one more, protected, answer.
        outside: What happens to values out of bounds, "refuse" or "clip"; None if the study says.

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
    """An axis of labels without order, with one cell per label.

    Args:
        name: What the axis is called in tables and questions.
        labels: The possible values, all different.
        protect: How well each pair of values is hidden; None if the study states it for all axes.
        channel: How values are perturbed; None lets the planner choose.
        optional: Whether "no answer" is one more, protected, answer.

    Example:
        >>> import sfumato as sf
        >>> sf.categories(
        ...     "region", ["north", "south"], protect=sf.Uniform(1), optional=True
        ... ).labels()
        ['north', 'south', 'no answer']
    """
    return Axis(
        name=name,
        domain=Categories(labels),
        protect=protect,
        channel=channel,
        optional=optional,
    )
