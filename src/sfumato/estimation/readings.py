"""Unbiased estimates from a tally: values, variances and covariances of many questions at once.

A *reading* of weights w is the function f of the output with E[f | x] = w[x], as the vector of its
coefficients on the output's features. Values are sums of readings over people; variances are
Σ_x c(x)·(Π_b E[f_b² | x_b] − Π_b w_b(x_b)²), found from readings of f² and w² (docs/mathematics.md,
"Several axes").
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sfumato.arrays import Floats
from sfumato.channels.base import Channel
from sfumato.collect.block_sums import AnyStatistic
from sfumato.estimation.intervals import MORE_PEOPLE, STEPS_FELT, step_room
from sfumato.estimation.rows import EveryCell

Reading = Callable[[Channel, Floats | None, Floats | None], Any]
Part = tuple[tuple[int, ...], Floats]
Parts = Sequence[Part]


def product_rows(
    statistic: AnyStatistic,
    channels: Sequence[Channel],
    where: Sequence[Floats | None],
    tables: Mapping[int, Floats | EveryCell],
    population: bool,
    squared: AnyStatistic | None = None,
    *,
    shared: bool = True,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Values and variances of every combination of rows, under a condition on the other blocks.

    The tally is split once by the outputs of the blocks asked about; what follows are transforms
    of these splits and products of small matrices.

    Args:
        statistic: The reports.
        channels: The channel of every block.
        where: The condition's weights on every block.
        tables: By block asked about, one row of weights per question, shape (rows, cells), or all
            of its cells.
        population: Add the variance of sampling people from a population.
        squared: For weighted reports, the same reports with squared weights.
        shared: Whether the covariances are needed; otherwise they have no meaning.

    Returns:
        Values, variances, covariances of each answer with the condition itself, and the variance
        that one person more has in an interval (`with_steps`); each has one dimension per block
        asked about.
    """
    squares = statistic if squared is None else squared
    axes = list(tables)
    shape = tuple(len(table) for table in tables.values())
    if not statistic.count:
        nothing = np.full(shape, np.nan)
        return nothing, nothing, nothing, nothing
    others = [None if d in tables else w for d, w in enumerate(where)]
    conditions = [d for d, w in enumerate(others) if w is not None]
    splits: dict[tuple[Any, ...], Floats] = {}

    def split(of: AnyStatistic, readings: Sequence[Reading]) -> Floats:
        """The tally by the outputs asked about; kept for questions with the same other readings."""
        key = (of is statistic, *(readings[d] for d in conditions))
        if key not in splits:
            vectors: list[Any] = [None] * len(channels)
            for d in conditions:
                vectors[d] = readings[d](channels[d], others[d], others[d])
            splits[key] = of.profile(axes, vectors)
        return splits[key]

    def contract(
        of: AnyStatistic,
        read: Reading,
        second: Mapping[int, Floats | EveryCell | None],
        rounding: int | None = None,
    ) -> Floats:
        readings = [excess_of if d == rounding else read for d in range(len(channels))]
        result = split(of, readings)
        for place in axes:  # each step takes the first axis and puts its rows last
            profile = np.moveaxis(result, 0, -1)
            result = _summed(
                readings[place], channels[place], profile, tables[place], second[place]
            )
        return result

    asked = [d for d, w in enumerate(others) if w is not None or d in tables]
    rounding = [d for d in asked if channels[d].rounds]
    values = contract(statistic, value_of, tables)
    found = []
    seconds: list[Mapping[int, Floats | EveryCell | None]] = [tables]
    if shared:
        seconds.append({place: where[place] for place in axes})
    for second in seconds:
        if population:
            whole = statistic.sum([value_of(c, w) for c, w in zip(channels, where, strict=True)])
            base = values * (values if second is tables else whole) / statistic.count
        else:
            base = contract(squares, plain_of, second)
            for d in rounding:
                base = base - contract(squares, plain_of, second, d)
        found.append(contract(squares, product_of, second) - base)
    one = np.broadcast_to(_floor(channels, others, tables), shape)
    variance = np.maximum(found[0], one * mean_square(statistic, squared))
    if squared is None and len(asked) == 1:
        (rows,) = tables.values()
        one = with_steps(one, variance, channels[axes[0]], rows)
    return values, variance, found[1] if shared else np.empty(shape), one


def with_steps(one: Any, variance: Any, channel: Channel, rows: Floats | EveryCell) -> Any:
    """The variance that one of `MORE_PEOPLE` has in intervals, with room for steps of their sums.

    A reading f with the values a and b has the variance (w − a)(b − w) at a cell of weight w. From
    the least to the largest weight it gains a + b − (least + largest) per unit of weight.

    Args:
        one: The variance of one person in the worst cell.
        variance: The estimated variance of each sum.
        channel: The only channel asked about.
        rows: One row of weights per question, or all cells, for which there is no such room.
    """
    if isinstance(rows, EveryCell):
        return one
    least, largest = rows.min(axis=-1), rows.max(axis=-1)
    span = np.where(largest > least, largest - least, 1.0)
    # At the least weight the variance is at least (least − a)·span, and one or less; so for b.
    step = span + 2 * one / span
    near = np.flatnonzero(variance < (STEPS_FELT * step) ** 2)
    result = np.array(np.broadcast_to(one, span.shape))
    if len(near):
        low, high = channel.two_values(rows[near])
        slope = low + high - (least + largest)[near]
        known = np.broadcast_to(variance, span.shape)[near]
        few = step_room(low, high, slope, known) / MORE_PEOPLE
        result[near] = np.maximum(result[near], few)
    return result


def mean_square(statistic: AnyStatistic, squared: AnyStatistic | None) -> float:
    """The mean squared weight of a report; 1 without weights.

    Args:
        statistic: The reports.
        squared: The same reports with squared weights; None without weights.
    """
    if squared is None or not statistic.count:
        return 1.0
    return squared.sum([None] * len(squared.layouts)) / statistic.count


def value_of(channel: Channel, w: Floats | None, _: Floats | None = None) -> Any:
    """The reading of w: f with E[f | x] = w[x]; None for the constant one.

    Args:
        channel: The channel.
        w: Weights over its cells, shape (..., cells); None is one for everybody.
    """
    return None if w is None else channel.coefficients(w)


def product_of(channel: Channel, w: Floats | None, v: Floats | None) -> Any:
    """The product of the readings of w and v, as a reading; that of one alone if the other is None.

    Args:
        channel: The channel.
        w: Weights over its cells, shape (..., cells); None is one for everybody.
        v: Other weights of the same kind.
    """
    if w is None or v is None:
        return value_of(channel, v if w is None else w)
    return channel.product_coefficients(w, v)


def plain_of(channel: Channel, w: Floats | None, v: Floats | None) -> Any:
    """The reading of the product w·v.

    Args:
        channel: The channel.
        w: Weights over its cells, shape (..., cells); None is one for everybody.
        v: Other weights of the same kind.
    """
    if w is None or v is None:
        return value_of(channel, v if w is None else w)
    return channel.coefficients(w * v)


def excess_of(channel: Channel, w: Floats | None, v: Floats | None) -> Any:
    """The reading of the most that stochastic rounding may add to the mean of w·v.

    Args:
        channel: The channel.
        w: Weights over its cells, shape (..., cells); None is one for everybody.
        v: Other weights of the same kind.
    """
    one = np.ones(channel.size)
    return channel.coefficients(
        channel.rounding_excess(one if w is None else w, one if v is None else v)
    )


def _summed(
    read: Reading,
    channel: Channel,
    profile: Floats,
    w: Floats | EveryCell,
    v: Any,
) -> Floats:
    """Sums of a reading of rows w (and v) against the last axis of a profile."""
    if isinstance(w, EveryCell):
        return _summed_all(read, channel, profile, w, v)
    if read is product_of and v is not None:
        return channel.products(profile, w, v)
    if read is excess_of:
        return channel.sums(
            profile, channel.rounding_excess(w, np.ones(channel.size) if v is None else v)
        )
    return channel.sums(profile, w * v if read is plain_of and v is not None else w)


def _summed_all(read: Reading, channel: Channel, profile: Floats, w: EveryCell, v: Any) -> Floats:
    """Sums of a reading of all cells or prefixes w, and of the same (v is w) or of one row v."""
    twice = v is w
    if read is product_of and twice:
        return w.squared(channel.all_squares(profile, upto=w.upto))
    if read is product_of and v is not None:
        profile = profile * channel.coefficients(v)
    people = channel.gather(profile)
    if read is plain_of and v is not None:
        people = people * (w.asked if twice else v)
    if read is not excess_of:
        return w.read(people)
    # Rounding adds per step from a cell to the next; none is before the first or after the last.
    step = np.zeros((*people.shape[:-1], channel.size + 1))
    step[..., 1:-1] = (people[..., :-1] + people[..., 1:]) / 4
    if twice:
        before: Floats = np.zeros_like(people) if w.upto else step[..., :-1]
        return w.squared(step[..., 1:] + before)
    step[..., 1:-1] *= 0.0 if v is None else np.diff(v)
    return w.read(step[..., :-1] - step[..., 1:])


def read_pairs(
    channels: Sequence[Channel],
    pairs: Sequence[tuple[Floats | None, Floats | None]],
    read: Reading,
) -> list[Any]:
    """One reading per block.

    Args:
        channels: The channel of every block.
        pairs: Two vectors of weights per block; None is one for everybody.
        read: Which reading: `value_of`, `product_of`, `plain_of` or `excess_of`.
    """
    return [read(c, w, v) for c, (w, v) in zip(channels, pairs, strict=True)]


def _floor(
    channels: Sequence[Channel],
    others: Sequence[Floats | None],
    tables: Mapping[int, Floats | EveryCell],
) -> Floats:
    """The variance of one person in the worst cell, for every combination of rows."""
    moment: Floats = np.ones(())
    square: Floats = np.ones(())
    asked = [(place, w) for place, w in enumerate(others) if w is not None]
    for place, w in (*asked, *tables.items()):  # the rows last, in the order they are asked for
        if isinstance(w, EveryCell):
            top, at = (w.squared(part) for part in channels[place].all_peaks(upto=w.upto))
        else:
            top, at = channels[place].peaks(np.atleast_2d(w), lean=True)
            if w.ndim == 1:
                top, at = top[0], at[0]
        moment, square = np.multiply.outer(moment, top), np.multiply.outer(square, at)
    return moment - square


def grid_rows(
    statistic: AnyStatistic,
    channels: Sequence[Channel],
    grids: Floats,
    population: bool,
    squared: AnyStatistic | None = None,
) -> tuple[Floats, Floats, Floats]:
    """Values and variances of questions given as arrays over the cells of all blocks.

    Let f be the reading of a question on the whole grid. On blocks that send symbols f and f² are
    functions of the output. On blocks that send bits the flips are independent: the flips on a set
    S of such blocks contribute the squares of f's coefficients along S, scaled by the spread of
    the flips, for all cells on S; the sum over all S, the empty set included, is the second
    moment E[f²]. Where the bit of a person's own cell has a larger spread, it counts as a further
    question.

    Args:
        statistic: The reports.
        channels: The channel of every block.
        grids: Weights, shape (questions, *cells of every block).
        population: Add the variance of sampling people from a population.
        squared: For weighted reports, the same reports with squared weights.

    Returns:
        Values, variances, and the variance that one person more has in an interval
        (`with_steps`), (questions,) each.
    """
    axes = list(range(len(channels)))
    if not statistic.count:
        nothing = np.full(len(grids), np.nan)
        return nothing, nothing, nothing
    table = statistic.profile(axes, [None] * len(axes))
    squares = table if squared is None else squared.profile(axes, [None] * len(axes))
    weight = mean_square(statistic, squared)
    value = _reader(channels, table)
    base = value if squares is table else _reader(channels, squares)
    values = value(grids)
    less = values**2 / statistic.count if population else base(_baseline(channels, grids))
    if len(channels) == 1:
        (channel,) = channels
        found, moments = channel.squares(squares, grids)
        one = np.max(moments - grids**2, axis=-1)
        variance = np.maximum(found - less, weight * one)
        if squared is None:
            one = with_steps(one, variance, channel, grids)
        return values, variance, one
    found, one = np.empty(len(grids)), np.empty(len(grids))
    for number, grid in enumerate(grids):
        parts = list(_squares(channels, grid))
        found[number] = _second_moment(squares, channels, parts)
        one[number] = _one_person(channels, grid, parts)
    return values, np.maximum(found - less, weight * one), one


def _reader(channels: Sequence[Channel], table: Floats) -> Callable[[Floats], Floats]:
    """A function from grids of weights to estimated sums over people."""
    axes = list(range(len(channels)))
    if len(channels) == 1:
        return lambda grids: channels[0].sums(table, grids)
    if all(channel.linear for channel in channels):
        people = table
        for d, channel in enumerate(channels):
            people = _along(channel.gather, people, d)
        return lambda grids: np.array([np.sum(people * grid) for grid in grids])
    return lambda grids: np.array([np.sum(table * _apply(channels, g, axes)) for g in grids])


def _second_moment(table: Floats, channels: Sequence[Channel], parts: Parts) -> float:
    """Estimated sum over people of the squared function of their output."""
    total = 0.0
    for flipped, square in parts:
        bits = [d for d in _bit_axes(channels) if d not in flipped]
        # The flips do not depend on the cell there: the constant feature counts everybody.
        corner = tuple(slice(1) if d in flipped else slice(None) for d in range(len(channels)))
        total += float(np.sum(table[corner] * _apply(channels, square, bits)))
    return total


def _one_person(channels: Sequence[Channel], grid: Floats, parts: Parts) -> float:
    """The variance that one person in the worst cell would add."""
    moment: Floats = np.zeros_like(grid)
    for _, square in parts:
        for d, channel in enumerate(channels):
            if channel.layout.kind == "symbols":
                square = _along(channel.expect, square, d)
        moment = moment + square
    return float(np.max(moment - grid**2))


def _squares(channels: Sequence[Channel], grid: Floats) -> Iterator[Part]:
    """For each set S of bit axes, the squared coefficients of the flips on S, on the other axes.

    It includes the squares of the extra spread of own cells on the bit axes outside S.
    """
    bits = _bit_axes(channels)
    partly = _apply(channels, grid, [d for d in range(len(channels)) if d not in bits])
    for size in range(len(bits) + 1):
        for flipped in itertools.combinations(bits, size):
            spread = partly
            for d in flipped:
                spread = _along(channels[d].flip_spread, spread, d)
            total: Floats = np.zeros(())
            for part in _own_parts(channels, spread, [d for d in bits if d not in flipped]):
                total = total + np.sum(part**2, axis=flipped, keepdims=True)
            yield flipped, total


def _own_parts(channels: Sequence[Channel], grid: Floats, axes: Sequence[int]) -> Iterator[Floats]:
    """The grid, and its extra spread of own cells along each set of axes that have one."""
    if not axes:
        yield grid
        return
    first, rest = axes[0], axes[1:]
    yield from _own_parts(channels, grid, rest)
    for own in channels[first].own_spread(np.moveaxis(grid, first, -1)):
        yield from _own_parts(channels, np.moveaxis(own, -1, first), rest)


def _bit_axes(channels: Sequence[Channel]) -> list[int]:
    """The axes that send bits."""
    return [d for d, channel in enumerate(channels) if channel.layout.kind == "bits"]


def _apply(channels: Sequence[Channel], grid: Floats, axes: Sequence[int]) -> Floats:
    """Turn weights into coefficients along some axes."""
    for d in axes:
        grid = _along(channels[d].coefficients, grid, d)
    return grid


def _along(change: Callable[[Floats], Floats], grid: Floats, axis: int) -> Floats:
    """Apply a function of the last axis along another axis."""
    return np.moveaxis(change(np.moveaxis(grid, axis, -1)), -1, axis)


def _baseline(channels: Sequence[Channel], grids: Floats) -> Floats:
    """The squared weights, less what stochastic rounding may add on each axis."""
    lowered = grids**2
    for d, channel in enumerate(channels, start=1):
        if channel.rounds:
            last = np.moveaxis(grids, d, -1)
            lowered = lowered - np.moveaxis(channel.rounding_excess(last, last), -1, d)
    return lowered


def row_covariance(
    statistic: AnyStatistic,
    channels: Sequence[Channel],
    where: Sequence[Floats | None],
    place: int,
    table: Floats,
    population: bool,
) -> Floats:
    """Covariance matrix of unbiased sums of rows of weights on one block, under a condition.

    The formula is in `sfumato.estimation.bands`.

    Args:
        statistic: The reports.
        channels: The channel of every block.
        where: The condition's weights on the other blocks; those on this block are not used.
        place: The block of the rows.
        table: One row of weights per question, shape (k, cells).
        population: Add the variance of sampling people from a population.

    Returns:
        The matrix, shape (k, k).
    """
    channel = channels[place]
    others = [None if d == place else w for d, w in enumerate(where)]

    def split(read: Reading, rounding: int | None = None) -> Floats:
        readings = [excess_of if d == rounding else read for d in range(len(channels))]
        vectors = [r(c, w, w) for r, c, w in zip(readings, channels, others, strict=True)]
        return statistic.profile([place], vectors)

    cells = np.eye(channel.size)
    second = split(product_of)
    found: Floats
    if channel.layout.kind == "bits":
        spread = channel.flip_spread(table)
        there = channel.sums(second, cells)
        found = (table * there) @ table.T + second[0] * (spread @ spread.T)
        for own in channel.own_spread(table):
            found += (own * there) @ own.T
    elif channel.linear:
        parts = channel.batches(len(table))
        found = np.concatenate(
            [channel.sums(channel.coefficients(table[part]) * second, table) for part in parts]
        )
    else:
        read = channel.coefficients(table)
        found = (read * second) @ read.T
    if population:
        values = channel.sums(split(value_of), table)
        centred: Floats = found - np.multiply.outer(values, values) / statistic.count
        return centred
    people = channel.sums(split(plain_of), cells)
    less = people.copy()
    for d, w in enumerate(others):
        if w is not None and channels[d].rounds:
            less -= channel.sums(split(plain_of, d), cells)
    found = found - (table * less) @ table.T
    if channel.rounds:
        # The excess of rounding is bilinear in the steps between neighbouring cells: it is found
        # for one step up at each place.
        steps = np.tri(channel.size - 1, channel.size, 0) - 1.0
        change = np.diff(table, axis=-1)
        found += (change * (channel.rounding_excess(steps, steps) @ people)) @ change.T
    return found
