"""Blocks: which channel covers which axes.

A study perturbs a record block by block. A block is a group of neighbouring axes and one channel
bound to the grid of their cells: one axis, several, or all of them. Blocks are perturbed
independently, so their guarantees add and their unbiased functions multiply.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.arrays import Cells, Floats
from sfumato.channels.base import Channel
from sfumato.channels.choice import Choice
from sfumato.channels.pairs import Pairs
from sfumato.errors import StudyError, TooLargeError
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.study.axis import Together
from sfumato.study.candidates import Chosen
from sfumato.study.choose import choose_channel
from sfumato.study.choose_pairs import filled

#: What the column of reports is called where one block covers all of several axes.
RECORD = "record"


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Neighbouring axes and the one channel that perturbs them.

    Args:
        axes: Positions of the axes in the study.
        shape: Number of cells of each of these axes.
        choice: The channel by name and options.
        channel: The channel bound to the grid of cells, flat in C order.
        column: Name of the block's column in tables of reports.
    """

    axes: tuple[int, ...]
    shape: tuple[int, ...]
    choice: Choice
    channel: Channel
    column: str

    @property
    def size(self) -> int:
        """Number of cells of the grid."""
        return math.prod(self.shape)

    def cells(self, codes: Sequence[Cells]) -> Cells:
        """The cell of every person on the block's grid, from the codes on all axes of the study."""
        if len(self.axes) == 1:
            return codes[self.axes[0]]
        return np.ravel_multi_index(tuple(codes[axis] for axis in self.axes), self.shape)

    def weights(self, by_axis: Sequence[Floats | None]) -> Floats | None:
        """A question's weights on the block's grid, flat: the product of its weights by axis.

        None stands for the weight one everywhere.
        """
        if all(by_axis[axis] is None for axis in self.axes):
            return None
        if len(self.axes) == 1:
            return by_axis[self.axes[0]]
        grid: Floats = np.ones(())
        for axis, size in zip(self.axes, self.shape, strict=True):
            w = by_axis[axis]
            grid = np.multiply.outer(grid, np.ones(size) if w is None else w)
        return grid.ravel()


def planned(part: Together, metric: CellMetric, people: int | None) -> Chosen:
    """The channel that the planner chooses for a group of axes, and why.

    Args:
        part: The axes.
        metric: E between their cells.
        people: About how many people will answer, if that is known.
    """
    ordered = tuple(axis.domain.ordered for axis in part.axes)
    shape = tuple(axis.size for axis in part.axes)
    chosen = choose_channel(
        metric,
        shape=shape,
        ordered=ordered,
        values=part.axes[0].domain.size if len(part.axes) == 1 else None,
        people=people,
        rounds=part.axes[0].domain.rounding_bits > 0,
        held=part.channel,
    )
    return chosen._replace(choice=_filled(chosen.choice, part, metric, people))


def _filled(choice: Choice, part: Together, metric: CellMetric, people: int | None) -> Choice:
    """The choice; of reports on pairs of axes, with what the planner chooses for every pair."""
    if not isinstance(choice, Pairs) or not isinstance(metric, UniformMetric):
        return choice
    shape = tuple(axis.size for axis in part.axes)
    return filled(choice, metric, shape, tuple(a.domain.ordered for a in part.axes), people)


def settled(
    part: Together, metric: CellMetric, people: int | None
) -> tuple[Choice, Channel | None]:
    """The channel of a group of axes with all options filled in: the named one or the planner's.

    Args:
        part: The axes, and the channel where one is named.
        metric: E between the cells of their grid.
        people: About how many people will answer, if that is known.

    Returns:
        The choice, and its channel where the planner had to bind it.

    Raises:
        StudyError: If no channel can serve the metric.
        TooLargeError: If there are too many cells for the channel.
    """
    try:
        if part.channel is not None:
            return _filled(part.channel, part, metric, people).settled(metric), None
        chosen = planned(part, metric, people)
        return chosen.choice.settled(metric), chosen.channel
    except (StudyError, TooLargeError) as error:
        raise type(error)(f"{part.words}: {error}") from None


def bound(part: Together, choice: Choice, metric: CellMetric) -> Channel:
    """The channel bound to the cells of its axes, behind stochastic rounding where asked for.

    Args:
        part: The axes.
        choice: The settled channel.
        metric: E between the cells of the grid.

    Raises:
        StudyError: If the channel does not fit the metric.
        TooLargeError: If the axes have too many cells together.
    """
    try:
        if part.size > choice.most_cells:
            raise TooLargeError(
                f"{type(choice).__name__} takes up to {choice.most_cells:,} cells, and together "
                f"they have {part.size:,}. Use fewer cells (bins=..., step=...), or give each axis "
                "a guarantee of its own; guarantees add"
            )
        if len(part.axes) > 1 and isinstance(metric, UniformMetric):
            ordered = tuple(axis.domain.ordered for axis in part.axes)
            shape = tuple(axis.size for axis in part.axes)
            return choice.bind_grid(metric, shape, ordered)
        problem = choice.misfit(metric)
        if problem:
            named = " (without a channel, one that fits is chosen)" if part.channel else ""
            raise StudyError(f"{type(choice).__name__} does not fit: {problem}{named}")
        return choice.bind(metric, resolution=part.axes[0].domain.rounding_bits)
    except (StudyError, TooLargeError) as error:
        raise type(error)(f"{part.words}: {error}") from None


def columns_of(parts: Sequence[Together]) -> tuple[str, ...]:
    """The name of every block's column: its axis, the record, or its axes joined by "+"."""
    if len(parts) == 1 and len(parts[0].axes) > 1:
        return (RECORD,)
    found: list[str] = []
    alone = [part.axes[0].name for part in parts if len(part.axes) == 1]
    for part in parts:
        name = "+".join(axis.name for axis in part.axes)
        while len(part.axes) > 1 and (name in alone or name in found):
            name += "_"
        found.append(name)
    return tuple(found)
