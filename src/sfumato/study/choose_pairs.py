"""The automatic choice of what people report about two of many axes, and how often each pair.

On the grid of a pair people report a node of a hierarchy: one axis in some groups of cells, or both
in coarser groups. Fine groups show detail and are noisy; coarse ones are sure and show none. The
best chances of levels have the smallest expected squared error of a random range, where the
population is known beforehand to be about as smooth as a bell curve: detail that so many reports
could never tell from noise is hardly asked for, though never left out, so that every question about
two axes keeps an unbiased answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sfumato.arrays import Floats
from sfumato.channels.choice import Choice
from sfumato.channels.pairs import Pairs, pairs_of
from sfumato.channels.trees.chances import (
    nearest_chances,
    range_energies,
    rounded_chances,
)
from sfumato.channels.trees.hierarchy import BEST, Hierarchical
from sfumato.channels.trees.levels import MOST_CELLS
from sfumato.channels.trees.tree import Levels, Tree, grid_trees
from sfumato.errors import StudyError, TooLargeError
from sfumato.metrics.uniform import UniformMetric
from sfumato.text import percent

#: The number of people assumed where a study states none.
TYPICAL_PEOPLE = 100_000
BRANCHING = 4
#: The expected population: a bell curve with this standard deviation of each axis, correlated.
SPREAD, CORRELATION = 1 / 8, 0.6
#: A level gets at least this share of what it would have if all levels had the same.
_LEAST = 1 / 20
#: Reports that lower the error of a range by less than this tell next to nothing.
_HARDLY = 0.1
_SHARES = 100
_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Expected:
    """What reports on one pair of axes are expected to tell.

    Attributes:
        chances: Of every level.
        error: The standard error of a random range of both axes, as a share of people.
        blind: The same without any reports.
    """

    chances: tuple[Fraction, ...]
    error: float
    blind: float


def filled(
    choice: Pairs,
    metric: UniformMetric,
    shape: tuple[int, ...],
    ordered: tuple[bool, ...],
    people: int | None,
) -> Pairs:
    """Reports on pairs with the channel of every pair, and how often each is drawn.

    Args:
        choice: What the study says of them.
        metric: One ε for all axes together.
        shape: Cells along every axis.
        ordered: Which axes have neighbours.
        people: About how many people will answer, if that is known.

    Raises:
        StudyError: If so many people could tell next to nothing about so many axes.
        TooLargeError: If two axes have too many cells together.
    """
    if len(shape) < 2 or choice.channels:
        return choice
    pairs = pairs_of(len(shape))
    everyone = TYPICAL_PEOPLE if people is None else people
    made: dict[tuple[tuple[int, ...], tuple[bool, ...]], Expected] = {}
    grids = [
        (tuple(shape[axis] for axis in pair), tuple(ordered[axis] for axis in pair))
        for pair in pairs
    ]
    largest = max(math.prod(sizes) for sizes, _ in grids)
    if largest > MOST_CELLS:
        raise TooLargeError(
            f"each person reports on two axes, and there are two with {largest:,} cells together; "
            f"the limit is {MOST_CELLS:,}. Use fewer cells (bins=..., step=...), or give each axis "
            "a guarantee of its own; guarantees add"
        )
    for grid in grids:
        if grid not in made:
            each = everyone / len(pairs)
            made[grid] = expected(metric.epsilon, *grid, each, len(shape) - 1)
    worst = max(made.values(), key=lambda one: one.error / max(one.blind, _TINY))
    if people is not None and worst.error > (1 - _HARDLY) * worst.blind:
        raise StudyError(
            f"{len(shape)} axes are more than {people:,} people can carry at epsilon="
            f"{float(metric.epsilon):g}: the standard error of a random range of two axes would "
            f"be about {percent(worst.error)} of all people, and without any report it is "
            f"{percent(worst.blind)}. Use fewer axes, a larger epsilon, or ask more people"
        )
    channels: list[Choice] = [Hierarchical(BRANCHING, BEST, made[grid].chances) for grid in grids]
    if all(channel == channels[0] for channel in channels):
        channels = channels[:1]
    shares = choice.shares
    errors = [made[grid].error for grid in grids]
    if not shares and min(errors) < max(errors) * (1 - 1 / _SHARES):
        shares = tuple(max(1, round(_SHARES * error / max(errors))) for error in errors)
    return replace(choice, channels=tuple(channels), shares=shares)


def expected(
    epsilon: Fraction,
    shape: tuple[int, ...],
    ordered: tuple[bool, ...],
    people: float,
    partners: int,
) -> Expected:
    """The best chances of levels on the grid of one pair, and the error that they leave.

    Args:
        epsilon: ε of a report.
        shape: Cells along both axes.
        ordered: Which of them have neighbours.
        people: How many are expected to draw the pair.
        partners: In how many pairs each axis is: all of them tell its own distribution.
    """
    trees = grid_trees(shape, ordered, BRANCHING)
    channel = Hierarchical(BRANCHING, BEST).bind_grid(
        UniformMetric(epsilon, math.prod(shape)), shape, ordered
    )
    spreads = {part.levels: part.spread for part in channel.parts}
    energies = range_energies(trees, ordered)
    detail = _expected_detail(trees, shape)
    # What one axis tells by itself is told by all its pairs.
    times = {levels: partners if 0 in levels else 1 for levels in energies}
    found = nearest_chances(
        trees,
        {levels: energy / times[levels] for levels, energy in energies.items()},
        spreads,
        {levels: 1 / (people * times[levels] * detail[levels]) for levels in energies},
    )
    chances, errors = found
    floor = _LEAST / len(chances)
    kept = [max(chance, floor) for chance in chances]
    total = sum(kept)
    return Expected(
        tuple(rounded_chances([chance / total for chance in kept])),
        math.sqrt(errors / people),
        math.sqrt(sum(energies[levels] * detail[levels] for levels in energies)),
    )


def _expected_detail(trees: Sequence[Tree], shape: Sequence[int]) -> dict[Levels, float]:
    """The mean square of what each tuple of levels adds to the expected population."""
    places = [((np.arange(size) + 0.5) / size - 0.5) / SPREAD for size in shape]
    x, y = np.meshgrid(*places, indexing="ij")
    bell: Floats = np.exp(-(x * x - 2 * CORRELATION * x * y + y * y) / (2 * (1 - CORRELATION**2)))
    bell /= bell.sum()
    energy = np.zeros([tree.depth + 1 for tree in trees])
    count = np.zeros(energy.shape)
    for levels in np.ndindex(*energy.shape):
        part, cells = bell, 1
        for axis, (tree, level) in enumerate(zip(trees, levels, strict=True)):
            part = tree.join(part, level, axis)
            cells *= tree.runs[level]
        energy[levels] = float(np.sum(part**2)) / cells
        count[levels] = part.size
    for axis in range(energy.ndim):  # what a level adds to the one above
        energy = np.diff(energy, axis=axis, prepend=0.0)
        count = np.diff(count, axis=axis, prepend=0.0)
    found = np.maximum(energy, _TINY) / np.maximum(count, 1.0)
    return {levels: float(found[levels]) for levels in np.ndindex(*energy.shape) if any(levels)}
