"""Many questions at once: one a cell, one a pair of cells, or one a row of a workload."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.channels import Channel
from sfumato.mechanisms.statistics import BitReports, SymbolCounts

if TYPE_CHECKING:
    from sfumato.axes import Axis

Floats = NDArray[np.float64]
Statistics = SymbolCounts | BitReports
Reading = Callable[[Channel, Floats | None, Floats | None], Any]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Questions about one axis, one row of weights each, with names and edges for showing them."""

    weights: Floats
    labels: list[str]
    edges: NDArray[Any] | None


def product_rows(
    statistic: Statistics,
    channels: Sequence[Channel],
    where: Sequence[Floats | None],
    rows: Mapping[int, Rows],
    population: bool,
    squared: Statistics | None = None,
) -> tuple[Floats, Floats, Floats]:
    """Values and variances of every combination of rows, under a condition on the other axes.

    The tally is split once by the outputs of the axes asked about; everything else is products of
    small matrices. The third array is each answer's covariance with the condition itself.
    Where reports have weights, variances come from `squared`, the same reports with squared ones.
    """
    squares = statistic if squared is None else squared
    axes = list(rows)
    shape = tuple(len(row.weights) for row in rows.values())
    if not statistic.count:
        return np.full(shape, np.nan), np.full(shape, np.nan), np.full(shape, np.nan)
    others = [None if d in rows else w for d, w in enumerate(where)]
    tables = {place: row.weights for place, row in rows.items()}

    def contract(
        of: Statistics,
        read: Reading,
        second: Mapping[int, Floats | None],
        rounding: int | None = None,
    ) -> Floats:
        def reading(place: int) -> Reading:
            return excess_of if place == rounding else read

        vectors = [
            reading(d)(c, w, w) for d, (c, w) in enumerate(zip(channels, others, strict=True))
        ]
        result = of.profile(axes, vectors)
        for place in axes:  # each step takes the first axis and puts its rows last
            matrix = reading(place)(channels[place], tables[place], second[place])
            result = np.tensordot(result, matrix, axes=([0], [1]))
        return result

    asked = [d for d, w in enumerate(others) if w is not None or d in rows]
    rounding = [d for d in asked if channels[d].rounds]
    values = contract(statistic, value_of, tables)
    found = []
    for second in (tables, {place: where[place] for place in axes}):
        if population:
            whole = statistic.sum([value_of(c, w) for c, w in zip(channels, where, strict=True)])
            base = values * (values if second is tables else whole) / statistic.count
        else:
            base = contract(squares, plain_of, second)
            for d in rounding:
                base = base - contract(squares, plain_of, second, d)
        found.append(contract(squares, product_of, second) - base)
    least = _floor(channels, others, tables) * mean_square(statistic, squared)
    return values, np.maximum(found[0], least), found[1]


def mean_square(statistic: Statistics, squared: Statistics | None) -> float:
    """The mean squared weight of a report: one where there are no weights."""
    if squared is None or not statistic.count:
        return 1.0
    return squared.sum([None] * len(squared.layouts)) / statistic.count


def value_of(channel: Channel, w: Floats | None, _: Floats | None = None) -> Any:
    """Coefficients that read weights; None, which is one for everybody, needs no reading."""
    return None if w is None else channel.coefficients(w)


def product_of(channel: Channel, w: Floats | None, v: Floats | None) -> Any:
    """Coefficients for the product of two readings; without the other, a reading is itself."""
    if w is None or v is None:
        return value_of(channel, v if w is None else w)
    return channel.product_coefficients(w, v)


def plain_of(channel: Channel, w: Floats | None, v: Floats | None) -> Any:
    """Coefficients that read the product of two weights."""
    if w is None or v is None:
        return value_of(channel, v if w is None else w)
    return channel.coefficients(w * v)


def excess_of(channel: Channel, w: Floats | None, v: Floats | None) -> Any:
    """Coefficients that read what stochastic rounding may add to the product of two weights."""
    one = np.ones(channel.size)
    return channel.coefficients(
        channel.rounding_excess(one if w is None else w, one if v is None else v)
    )


def read_pairs(
    channels: Sequence[Channel],
    pairs: Sequence[tuple[Floats | None, Floats | None]],
    read: Reading,
) -> list[Any]:
    """One reading an axis."""
    return [read(c, w, v) for c, (w, v) in zip(channels, pairs, strict=True)]


def _floor(
    channels: Sequence[Channel], others: Sequence[Floats | None], tables: Mapping[int, Floats]
) -> Floats:
    """The variance of one person in the worst place, for every combination of rows."""
    moment: Floats = np.ones(())
    square: Floats = np.ones(())
    asked = [(place, w) for place, w in enumerate(others) if w is not None]
    for place, w in (*asked, *tables.items()):  # the rows last, in the order they are asked for
        moments = channels[place].second_moment(w)
        worst = np.argmax(moments, axis=-1)[..., None]
        top = np.take_along_axis(moments, worst, axis=-1)[..., 0]
        at = np.take_along_axis(np.asarray(w), worst, axis=-1)[..., 0] ** 2
        moment, square = np.multiply.outer(moment, top), np.multiply.outer(square, at)
    return moment - square


def grid_rows(
    statistic: Statistics,
    channels: Sequence[Channel],
    grids: Floats,
    population: bool,
    squared: Statistics | None = None,
) -> tuple[Floats, Floats]:
    """Values and variances of questions given as arrays over all cells.

    On axes that send symbols the question becomes a function of the output, and its square is
    again one. On axes that send bits flips are independent: those on a set S of such axes add the
    squares of the question's coefficients along S, scaled by the flips' spread, wherever people
    are on S; summed over all S, the empty one included, this is the second moment. Where reports
    have weights, it comes from `squared`, the same reports with squared ones.
    """
    axes = list(range(len(channels)))
    if not statistic.count:
        return np.full(len(grids), np.nan), np.full(len(grids), np.nan)
    table = statistic.profile(axes, [None] * len(axes))
    squares = table if squared is None else squared.profile(axes, [None] * len(axes))
    weight = mean_square(statistic, squared)
    values, variance = np.empty(len(grids)), np.empty(len(grids))
    for number, grid in enumerate(grids):
        values[number] = np.sum(table * _apply(channels, grid, axes))
        if population:
            base = values[number] ** 2 / statistic.count
        else:
            base = np.sum(squares * _apply(channels, _baseline(channels, grid), axes))
        found = _second_moment(squares, channels, grid) - base
        variance[number] = max(found, weight * _one_person(channels, grid))
    return values, variance


def _second_moment(table: Floats, channels: Sequence[Channel], grid: Floats) -> float:
    """Estimated sum over people of the squared function of their output."""
    total = 0.0
    for flipped, square in _squares(channels, grid):
        bits = [d for d in _bit_axes(channels) if d not in flipped]
        # Wherever people are on the flipped axes: the constant feature counts them all.
        corner = tuple(slice(1) if d in flipped else slice(None) for d in range(len(channels)))
        total += float(np.sum(table[corner] * _apply(channels, square, bits)))
    return total


def _one_person(channels: Sequence[Channel], grid: Floats) -> float:
    """The variance that one person in the worst place would add."""
    moment: Floats = np.zeros_like(grid)
    for _, square in _squares(channels, grid):
        for d, channel in enumerate(channels):
            if channel.layout.kind == "symbols":
                square = _along(channel.expect, square, d)
        moment = moment + square
    return float(np.max(moment - grid**2))


def _squares(channels: Sequence[Channel], grid: Floats) -> Iterator[tuple[tuple[int, ...], Floats]]:
    """For each set of axes with flips, the squared function of symbols and cells elsewhere."""
    bits = _bit_axes(channels)
    partly = _apply(channels, grid, [d for d in range(len(channels)) if d not in bits])
    for size in range(len(bits) + 1):
        for flipped in itertools.combinations(bits, size):
            spread = partly
            for d in flipped:
                spread = _along(channels[d].flip_spread, spread, d)
            yield flipped, np.sum(spread**2, axis=flipped, keepdims=True)


def _bit_axes(channels: Sequence[Channel]) -> list[int]:
    """The axes that send bits."""
    return [d for d, channel in enumerate(channels) if channel.layout.kind == "bits"]


def _apply(channels: Sequence[Channel], grid: Floats, axes: Sequence[int]) -> Floats:
    """Turn weights into coefficients along some axes."""
    for d in axes:
        grid = _along(channels[d].coefficients, grid, d)
    return grid


def _along(change: Callable[[Floats], Floats], grid: Floats, axis: int) -> Floats:
    """Let a function that works along the last axis work along another."""
    return np.moveaxis(change(np.moveaxis(grid, axis, -1)), -1, axis)


def _baseline(channels: Sequence[Channel], grid: Floats) -> Floats:
    """The square of the mean, lowered by what rounding may add on each axis."""
    lowered = grid**2
    for d, channel in enumerate(channels):
        if channel.rounds:
            last = np.moveaxis(grid, d, -1)
            lowered = lowered - np.moveaxis(channel.rounding_excess(last, last), -1, d)
    return lowered


def group_labels(axis: Axis, groups: Sequence[NDArray[np.int64]]) -> list[str]:
    """A cell's own label, or from the first to the last of a group."""
    labels = axis.labels()
    return [
        labels[group[0]]
        if len(group) == 1
        else f"{labels[group[0]].split('..')[0]}..{labels[group[-1]].split('..')[-1]}"
        for group in groups
    ]


def group_edges(axis: Axis, groups: Sequence[NDArray[np.int64]]) -> NDArray[Any] | None:
    """Where groups of neighbouring cells begin and end; None where they do not lie side by side."""
    edges = axis.domain.edges()
    held = [group for group in groups if group[-1] < axis.domain.size]
    if edges is None or not held or len(held) < len(groups):
        return None
    cells = np.concatenate(held)
    if np.any(np.diff(cells) != 1):
        return None
    return edges[[group[0] for group in held] + [held[-1][-1] + 1]]
