"""Example pairs of records, near and far, and how much a report may tell of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.arrays import Floats
from sfumato.domains.base import NO_ANSWER
from sfumato.metrics.cells import CellMetric
from sfumato.study.axis import Axis
from sfumato.study.guarantee import (
    ErrorRegion,
    example_gaps,
    example_pairs,
    pair_words,
)
from sfumato.study.schema import Group, Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two people, by what they answer on axes under one guarantee.

    Args:
        axes: Names of the axes.
        words: The two people in words.
        first: What one of them answers, by the name of the axis.
        second: What the other answers.
        there: E from the first to the second.
        back: E from the second to the first.
    """

    axes: tuple[str, ...]
    words: str
    first: Mapping[str, Any]
    second: Mapping[str, Any]
    there: float
    back: float

    @property
    def e(self) -> float:
        """The larger E of both directions."""
        return max(self.there, self.back)

    @property
    def right(self) -> float:
        """How often the best guess is right, if both are equally likely."""
        return guessed(self.there, self.back)


def guessed(there: float, back: float) -> float:
    """How often the best guess is right which of two equally likely people sent a report.

    Args:
        there: E from one to the other.
        back: E the other way round.

    Example:
        >>> import math
        >>> guessed(0.0, 0.0), guessed(math.log(3), math.log(3)), guessed(math.inf, math.inf)
        (0.5, 0.75, 1.0)
    """
    return 1.0 - ErrorRegion(there=there, back=back).least_error


def pairs(schema: Schema) -> list[Pair]:
    """Pairs near, middling and far on every axis, or on axes under one guarantee.

    Args:
        schema: The axes and their guarantees.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
        >>> [(pair.words, pair.e) for pair in pairs(study.schema)][:2]
        [('Two people whose age differs by 1', 0.5), ('Two people whose age differs by 5', 2.5)]
    """
    return [pair for group in schema.groups for pair in _of(schema, group)]


def _of(schema: Schema, group: Group) -> list[Pair]:
    """Pairs of one group."""
    axes = [schema.axes[place] for place in group.axes]
    shape = [axis.size for axis in axes]
    names = tuple(axis.name for axis in axes)
    labels = [axis.labels() for axis in axes]
    ends: list[tuple[tuple[int, ...], tuple[int, ...]]]
    if len(axes) == 1:
        (axis,) = axes
        alone = example_pairs(axis, group.metric)
        ends = [((i,), (j,)) for i, j in alone]
        words = [pair_words(axis, labels[0], i, j, group.protect) for i, j in alone]
    else:
        ends = example_gaps(shape)
        words = [
            " and ".join(
                f"someone with {_record(axes, labels, places)}" for places in pair
            ).capitalize()
            for pair in ends
        ]
    found = []
    for (start, end), said in zip(ends, words, strict=True):
        i, j = (int(np.ravel_multi_index(places, shape)) for places in (start, end))
        found.append(
            Pair(
                axes=names,
                words=said,
                first=_values(axes, labels, start),
                second=_values(axes, labels, end),
                there=group.metric.between(i, j),
                back=group.metric.between(j, i),
            )
        )
    return found


def _record(axes: Sequence[Axis], labels: Sequence[list[str]], places: Sequence[int]) -> str:
    """A record in words."""
    named = zip(axes, labels, places, strict=True)
    return ", ".join(f"{axis.name} {names[place]}" for axis, names, place in named)


def _values(
    axes: Sequence[Axis], labels: Sequence[list[str]], places: Sequence[int]
) -> dict[str, Any]:
    """A record that another study can read as well: the middle of a cell stands for it."""
    found: dict[str, Any] = {}
    for axis, names, place in zip(axes, labels, places, strict=True):
        label = names[place]
        ordered = axis.domain.ordered and label != NO_ANSWER
        found[axis.name] = None if label == NO_ANSWER else label
        if ordered:
            found[axis.name] = axis.domain.write(axis.domain.positions()[place])
    return found


_MOST_STEPS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Haze:
    """How well each value of an axis can be told from one of them.

    Args:
        axis: Name of the axis.
        value: The one value.
        right: For values in order, how often the best guess between the two is right.
        places: The first, middle and last of these values; or all labels of a short list.
    """

    axis: str
    value: str
    right: Floats
    places: tuple[str, ...]


def hazes(schema: Schema) -> list[Haze]:
    """For every axis, how well its values can be told from the one in the middle.

    Of axes under one guarantee the others stay where they are.

    Args:
        schema: The axes and their guarantees.
    """
    found = []
    for group in schema.groups:
        shape = [schema.axes[place].size for place in group.axes]
        middle = [_middle(schema.axes[place]) for place in group.axes]
        for k, place in enumerate(group.axes):
            axis = schema.axes[place]
            cells = np.unique(
                np.linspace(0, axis.size - 1, min(axis.size, _MOST_STEPS)).astype(int)
            )
            right = [_right(group.metric, shape, middle, k, int(cell)) for cell in cells]
            labels = axis.labels()
            shown = [0, axis.size // 2, axis.size - 1] if axis.size > 6 else range(axis.size)
            found.append(
                Haze(
                    axis=axis.name,
                    value=labels[middle[k]],
                    right=np.array(right),
                    places=tuple(labels[cell] for cell in shown),
                )
            )
    return found


def _middle(axis: Axis) -> int:
    """The middle cell of an axis in order, and the first of one that has none."""
    return axis.domain.size // 2 if axis.domain.ordered else 0


def _right(
    metric: CellMetric, shape: Sequence[int], middle: Sequence[int], k: int, cell: int
) -> float:
    """How often the best guess is right between the middle and another cell on axis k."""
    other = [cell if at == k else place for at, place in enumerate(middle)]
    i, j = (int(np.ravel_multi_index(places, shape)) for places in (middle, other))
    return guessed(metric.between(i, j), metric.between(j, i)) if i != j else 0.5
