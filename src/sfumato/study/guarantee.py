"""The guarantee of a whole study: E between records, what it means, and how it is explained."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.domains.base import NO_ANSWER
from sfumato.domains.tables import columns
from sfumato.errors import QuestionError, StudyError
from sfumato.exact import to_plain
from sfumato.metrics.base import Metric
from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.distance import AsideMetric, CappedLineMetric, Distance, LineMetric
from sfumato.metrics.ground import Ground
from sfumato.metrics.labelled import BlockMetric, Blocks, HighLow, HighLowMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.metrics.words import label_of
from sfumato.study.axis import Axis
from sfumato.study.places import explain_places
from sfumato.text import odds, visible
from sfumato.verbs import RegionVerbs


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRegion(RegionVerbs):
    """The rates of false alarms and misses that a test between two records can have.

    A test looks at a report and says which of two records it came from. Under the guarantee E its
    rates of false alarms (it says x, and the truth is y) and misses (it says y, and the truth is x)
    satisfy e^E(x,y) · alarms + misses >= 1 and alarms + e^E(y,x) · misses >= 1, for every test.
    Conversely, a channel for which this holds for all pairs and tests keeps E (Acharya et al. 2020,
    Theorem 1).

    Args:
        there: E(x, y): log of the largest ratio P(report | x) / P(report | y).
        back: E(y, x).
        names: What x and y are called.

    Raises:
        StudyError: If an E is negative or not a number.

    Example:
        >>> region = ErrorRegion(there=math.log(3), back=math.log(3), names=("yes", "no"))
        >>> [round(rate, 9) for rate in region.corner], round(region.least_error, 9)
        ([0.25, 0.25], 0.25)
        >>> region.allows(0.25, 0.25), region.allows(0.2, 0.25)
        (True, False)
    """

    there: float
    back: float
    names: tuple[str, ...] = ("x", "y")

    def __post_init__(self) -> None:
        """Check both values of E, and the names."""
        for name, e in (("there", self.there), ("back", self.back)):
            if not e >= 0:
                raise StudyError(f"{name} must be an E of 0 or more, or infinite, got {name}={e!r}")
        if len(self.names) != 2:
            raise StudyError(f"names must hold two names, for x and y, got names={self.names!r}")

    @property
    def corner(self) -> tuple[float, float]:
        """Rates of false alarms and misses where both inequalities hold with equality."""
        both = -math.expm1(-(self.there + self.back))
        if both == 0:  # reports carry no information: all ways of guessing are equally good
            return 0.5, 0.5
        alarms = math.exp(-self.there) * -math.expm1(-self.back) / both
        misses = math.exp(-self.back) * -math.expm1(-self.there) / both
        return alarms, misses

    @property
    def boundary(self) -> tuple[tuple[float, float], ...]:
        """The smallest miss rate for each false alarm rate, as the corners of a broken line."""
        return (0.0, 1.0), self.corner, (1.0, 0.0)

    @property
    def least_error(self) -> float:
        """Error rate of the best test when both records are equally likely."""
        return sum(self.corner) / 2

    def allows(self, alarms: float, misses: float) -> bool:
        """Whether the guarantee allows a test with these error rates, up to rounding.

        The reverse of a test is a test too, so rates far above those of a coin are impossible as
        well.

        Args:
            alarms: Rate of false alarms, from 0 to 1.
            misses: Rate of misses, from 0 to 1.
        """
        return self._within(alarms, misses) and self._within(1 - alarms, 1 - misses)

    def _within(self, alarms: float, misses: float) -> bool:
        """Both inequalities of Theorem 1, divided by their powers of e."""
        slack = 1e-12
        first = (1 - misses) * math.exp(-self.there) <= alarms + slack
        return first and (1 - alarms) * math.exp(-self.back) <= misses + slack

    def __str__(self) -> str:
        """The smallest possible error rate in words."""
        first, second = map(visible, self.names)
        return textwrap.fill(
            f"Guessing from one report whether the record is {first} or {second}, when both are "
            f"equally likely, is wrong at least {100 * self.least_error:.3g}% of the time; a coin "
            "toss is wrong 50% of the time.",
            88,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Guarantee:
    """E on records: the odds of any report change by at most e^E between two records.

    Args:
        axes: The axes of the study.
        groups: For each group of axes under one guarantee, their positions in the study and E
            between the cells of their grid.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.2))])
        >>> round(study.guarantee.between({"age": 30}, {"age": 35}), 9)
        1.0
    """

    axes: tuple[Axis, ...]
    groups: tuple[tuple[tuple[int, ...], CellMetric], ...]

    def between(self, x: Mapping[str, Any], y: Mapping[str, Any]) -> float:
        """E between two records; infinite where a report may reveal which of them it came from.

        Args:
            x: A record: values by axis name. An axis that neither record mentions adds nothing.
            y: Another record, with the same axes.
        """
        return sum(self._between(axes, metric, x, y) for axes, metric in self.groups)

    def _between(
        self, axes: tuple[int, ...], metric: CellMetric, x: Mapping[str, Any], y: Mapping[str, Any]
    ) -> float:
        """E on one group of axes."""
        pairs = [self._codes(self.axes[axis], x, y) for axis in axes]
        held = self.axes[axes[0]]
        resolution = held.domain.rounding_bits
        if resolution and isinstance(metric, LineMetric | CappedLineMetric):
            return _between_codes(metric, *pairs[0], resolution)
        if resolution and isinstance(metric, UniformMetric):
            return 0.0 if len(set(pairs[0])) == 1 else float(metric.epsilon)
        shape = [self.axes[axis].size for axis in axes]
        one, other = (int(np.ravel_multi_index(cell, shape)) for cell in zip(*pairs, strict=True))
        return metric.between(one, other)

    def _codes(self, axis: Axis, x: Mapping[str, Any], y: Mapping[str, Any]) -> tuple[int, int]:
        """The codes of both records on an axis; the same ones where neither mentions it."""
        for record in (x, y):
            if not isinstance(record, Mapping):
                raise QuestionError(
                    f"a record must be a dict of values by axis name, got {type(record).__name__}"
                )
        if axis.name not in x and axis.name not in y:
            return 0, 0
        if axis.name not in x or axis.name not in y:
            raise QuestionError(f"both records must mention axis {axis.name!r}, or neither")
        pair = columns({axis.name: [x[axis.name], y[axis.name]]}, [axis.name])
        first, second = axis.codes(pair[axis.name]).tolist()
        return first, second

    def error_region(self, x: Mapping[str, Any], y: Mapping[str, Any]) -> ErrorRegion:
        """Error rates that no test between two records, given one report, can beat.

        Args:
            x: A record: values by axis name.
            y: Another record, with the same axes.

        Example:
            >>> import sfumato as sf
            >>> ill = sf.HighLow(epsilon=1, sensitive=["ill"])
            >>> health = sf.categories("health", ["well", "ill"], protect=ill)
            >>> study = sf.Study("health", [health])
            >>> print(study.guarantee.error_region({"health": "ill"}, {"health": "well"}))
            Guessing from one report whether the record is health ill or health well, when both are
            equally likely, is wrong at least 18.4% of the time; a coin toss is wrong 50% of the
            time.
        """
        return ErrorRegion(there=self.between(x, y), back=self.between(y, x), names=_named(x, y))

    def as_lp(self, p: float) -> float:
        """The factor by which ε grows when an L1 guarantee is read as an L^p one: D^(1 − 1/p).

        Raises:
            StudyError: If p < 1, or some axis is not protected by distance.
        """
        if not p >= 1:
            raise StudyError(f"p must be at least 1, got p={p}")
        for axes, metric in self.groups:
            if not isinstance(metric, LineMetric | CappedLineMetric):
                raise StudyError(
                    f"axis {self.axes[axes[0]].name!r} is not protected by distance, so there is "
                    "no L^p reading"
                )
        return float(len(self.axes) ** (1 - (0 if math.isinf(p) else 1 / p)))


def _named(*records: Mapping[str, Any]) -> tuple[str, ...]:
    """Names for two records: their axes and values."""
    return tuple(
        ", ".join(f"{axis} {label_of(value)}" for axis, value in record.items())
        for record in records
    )


def _between_codes(metric: LineMetric | CappedLineMetric, a: int, b: int, resolution: int) -> float:
    """E between two codes of the fine grid, linear between grid points and at most the cap."""
    line = metric.line if isinstance(metric, CappedLineMetric) else metric

    def place(code: int) -> Fraction:
        point, part = divmod(code, 1 << resolution)
        at = line.exact(0, point)
        return at + (line.steps[point] * part / (1 << resolution) if part else 0)

    apart = abs(place(a) - place(b))
    return float(min(apart, metric.cap) if isinstance(metric, CappedLineMetric) else apart)


def explain_axis(axis: Axis, statement: Metric, metric: CellMetric) -> list[str]:
    """The guarantee of one axis in plain words, with a few pairs as examples.

    Args:
        axis: The axis.
        statement: Its guarantee as stated.
        metric: E between its cells.
    """
    lines = [statement.describe()]
    labels = axis.labels()
    for i, j in example_pairs(axis, metric):
        lines.append(_odds_line(pair_words(axis, labels, i, j, statement), metric, labels, i, j))
    lines += _posterior_line(metric, labels)
    cap = statement.cap if isinstance(statement, Distance) else None
    if cap is not None and not isinstance(metric, LineMetric):
        lines.append(
            f"For any two people, however far apart, the odds change by at most e^{to_plain(cap)}: "
            f"a report is at most {odds(float(cap))} likelier from one than from the other."
        )
    if axis.domain.rounding_bits:
        own = "equally" if isinstance(metric, UniformMetric) else "by its own distance"
        lines.append(
            "Values are rounded at random between grid points, so every pair of values is "
            f"protected {own}, read to a millionth of a bin."
        )
    elif axis.domain.kind == "reals":
        lines.append(
            "Values are protected by bin: two values in one bin cannot be told apart at all, and "
            "the distance of two values is that of their bins."
        )
    if axis.optional:
        lines.append('Not answering is protected too: "no answer" is one of the answers.')
    lines += [f"Note: {note}." for note in metric.notes]
    return lines


def explain_together(axes: Sequence[Axis], statement: Metric, metric: CellMetric) -> list[str]:
    """The guarantee of several ordered axes in plain words, with pairs near and far.

    Args:
        axes: The axes.
        statement: Their guarantee as stated.
        metric: E between combinations of their cells.
    """
    if isinstance(statement, Ground):
        return explain_places(axes, statement, metric)
    lines = [statement.describe()]
    shape = [axis.size for axis in axes]
    labels = [axis.labels() for axis in axes]
    for start, end in example_gaps(shape):
        pair = [
            ", ".join(
                f"{axis.name} {names[place]}"
                for axis, names, place in zip(axes, labels, places, strict=True)
            )
            for places in (start, end)
        ]
        one, other = (int(np.ravel_multi_index(places, shape)) for places in (start, end))
        lines.append(
            f"Someone with {pair[0]} and someone with {pair[1]}: a report is at most "
            f"{odds(metric.between(one, other))} likelier from one than from the other."
        )
    lines += [f"Note: {note}." for note in metric.notes]
    return lines


def example_gaps(shape: Sequence[int]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Example pairs of cells of a grid: neighbours along its first and last axis, and far apart.

    Args:
        shape: Number of cells of every axis.
    """
    middle = [size // 2 - 1 for size in shape]
    found = []
    for gaps in dict.fromkeys(
        (
            (1, *[0] * (len(shape) - 1)),
            (*[0] * (len(shape) - 1), 1),
            tuple(max(1, size // 8) for size in shape),
            tuple(size - 1 for size in shape),
        )
    ):
        start = [min(at, size - 1 - gap) for at, size, gap in zip(middle, shape, gaps, strict=True)]
        end = [at + gap for at, gap in zip(start, gaps, strict=True)]
        found.append((tuple(start), tuple(end)))
    return found


def _odds_line(who: str, metric: CellMetric, labels: list[str], i: int, j: int) -> str:
    """The largest odds between two people in words; both directions where they differ."""
    there, back = metric.between(i, j), metric.between(j, i)
    if there == back:
        if math.isinf(there):
            return f"{who}: a report may tell which of the two it came from."
        return f"{who}: a report is at most {odds(there)} likelier from one than from the other."
    if math.isinf(there) or back < there:
        i, j, there, back = j, i, back, there
    other = f"is at most {odds(back)} likelier" if math.isfinite(back) else "may give itself away"
    return (
        f"{who}: a report is at most {odds(there)} likelier from {labels[i]} than from "
        f"{labels[j]}; the other way round it {other}."
    )


def _posterior_line(metric: CellMetric, labels: list[str]) -> list[str]:
    """For an asymmetric E: how far a report can move prior odds.

    References:
        Acharya et al. 2020, Proposition 3.
    """
    pair = _uneven_pair(metric)
    if pair is None:
        return []
    i, j = pair
    there, back = metric.between(i, j), metric.between(j, i)
    if back < there:
        i, j, there, back = j, i, back, there
    most = "at most " if math.isfinite(back) else ""
    return [
        f"Whatever someone believed before, a report raises the odds of {labels[i]} against "
        f"{labels[j]} at most {odds(there)}, and those of {labels[j]} against {labels[i]} "
        f"{most}{odds(back)}."
    ]


def _uneven_pair(metric: CellMetric) -> tuple[int, int] | None:
    """The first pair of cells with E(i, j) ≠ E(j, i); None if E is symmetric."""
    if isinstance(metric, HighLowMetric):
        uneven = [(i, j) for i, j in metric.pairs() if metric.exact(i, j) != metric.exact(j, i)]
        return uneven[0] if uneven else None
    if isinstance(metric, TableMetric):
        differ = metric.numerators != metric.numerators.T
        return _first_pair(differ) if differ.any() else None
    return None


def example_pairs(axis: Axis, metric: CellMetric) -> Sequence[tuple[int, int]]:
    """Example pairs of cells: near, middling and farthest apart; or one for each value of E.

    Args:
        axis: The axis.
        metric: E between its cells.
    """
    size = axis.domain.size
    if axis.domain.ordered and isinstance(metric, LineMetric | CappedLineMetric | AsideMetric):
        middle = size // 2
        apart = sorted({1, min(5, size - 1), max(1, size // 4), size - 1})
        starts = [min(middle, size - 1 - step) for step in apart]
        pairs = [(start, start + step) for start, step in zip(starts, apart, strict=True)]
        return [*pairs, (0, size)] if axis.optional else pairs
    if isinstance(metric, UniformMetric):
        return [(0, 1), (0, axis.size - 1)] if axis.optional and axis.size > 2 else [(0, 1)]
    pairs = metric.pairs() if isinstance(metric, BlockMetric | HighLowMetric) else _kinds(metric)
    if axis.optional and not any(axis.size - 1 in pair for pair in pairs):
        pairs.append((0, axis.size - 1))
    return pairs


def _kinds(metric: CellMetric) -> list[tuple[int, int]]:
    """One pair of cells for each of a few values of E, and one with infinite E if there is any."""
    e = np.maximum(metric.matrix(), metric.matrix().T)
    np.fill_diagonal(e, np.nan)
    finite = np.where(np.isfinite(e), e, np.nan)
    kinds = np.unique(finite[~np.isnan(finite)])
    picked = kinds if len(kinds) <= 4 else kinds[[0, len(kinds) // 2, -1]]
    pairs = [_first_pair(finite == kind) for kind in picked]
    if np.isinf(e).any():
        pairs.append(_first_pair(np.isinf(e)))
    return pairs


def _first_pair(which: NDArray[np.bool_]) -> tuple[int, int]:
    """The first marked pair of cells, the smaller cell first."""
    i, j = np.argwhere(which)[0].tolist()
    return min(i, j), max(i, j)


def pair_words(axis: Axis, labels: list[str], i: int, j: int, statement: Metric) -> str:
    """The two people compared, by how far apart they are or by their values.

    Args:
        axis: The axis.
        labels: Labels of its cells.
        i: The cell of one.
        j: The cell of the other.
        statement: The guarantee of the axis as stated.
    """
    by_gap = axis.domain.kind == "integers" and not isinstance(statement, Blocks | HighLow)
    if by_gap and labels[i] != NO_ANSWER and labels[j] != NO_ANSWER:
        apart = abs(int(labels[j]) - int(labels[i]))
        one = apart == 1 and axis.unit.isalpha() and axis.unit.endswith("s")
        unit = f" {axis.unit[:-1] if one else axis.unit}" if axis.unit else ""
        return f"Two people whose {axis.name} differs by {apart}{unit}"
    return f"Someone with {axis.name} {labels[i]} and someone with {labels[j]}"
