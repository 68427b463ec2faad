"""Many questions at once: one a cell, one a pair of cells, or one a row of a workload."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.channels import Channel
from sfumato.mechanisms.statistics import BitReports, SymbolCounts

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
) -> tuple[Floats, Floats, Floats]:
    """Values and variances of every combination of rows, under a condition on the other axes.

    The tally is split once by the outputs of the axes asked about; everything else is products of
    small matrices. The third array is each answer's covariance with the condition itself.
    """
    axes = list(rows)
    shape = tuple(len(row.weights) for row in rows.values())
    if not statistic.count:
        return np.full(shape, np.nan), np.full(shape, np.nan), np.full(shape, np.nan)
    others = [None if d in rows else w for d, w in enumerate(where)]
    tables = {place: row.weights for place, row in rows.items()}

    def contract(read: Reading, second: Mapping[int, Floats | None]) -> Floats:
        result = statistic.profile(
            axes, [read(c, w, w) for c, w in zip(channels, others, strict=True)]
        )
        for place in axes:  # each step takes the first axis and puts its rows last
            matrix = read(channels[place], tables[place], second[place])
            result = np.tensordot(result, matrix, axes=([0], [1]))
        return result

    values = contract(lambda c, w, v: value_of(c, w), tables)
    condition = {place: where[place] for place in axes}
    found = []
    for second in (tables, condition):
        if population:
            with_what = statistic.sum(
                [value_of(c, w) for c, w in zip(channels, where, strict=True)]
            )
            base = values * (values if second is tables else with_what) / statistic.count
        else:
            base = contract(baseline_of, second)
        found.append(contract(product_of, second) - base)
    return values, np.maximum(found[0], _floor(channels, others, tables)), found[1]


def value_of(channel: Channel, w: Floats | None) -> Floats | None:
    """Coefficients that read weights; None, which is one for everybody, needs no reading."""
    return None if w is None else channel.coefficients(w)


def product_of(channel: Channel, w: Floats | None, v: Floats | None) -> Any:
    """Coefficients for the product of two readings; without the other, a reading is itself."""
    if w is None or v is None:
        return value_of(channel, v if w is None else w)
    return channel.product_coefficients(w, v)


def baseline_of(channel: Channel, w: Floats | None, v: Floats | None) -> Any:
    """Coefficients for what is subtracted from the product: the product of the means."""
    if w is None or v is None:
        return value_of(channel, v if w is None else w)
    return channel.coefficients(channel.baseline(w, np.broadcast_to(v, w.shape)))


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
    statistic: Statistics, channels: Sequence[Channel], grids: Floats, population: bool
) -> tuple[Floats, Floats]:
    """Values and variances of questions given as arrays over all cells.

    On axes that send symbols the question becomes a function of the output, and its square is
    again one. On axes that send bits flips are independent: those on a set S of such axes add the
    squares of the question's coefficients along S, scaled by the flips' spread, wherever people
    are on S; summed over all S, the empty one included, this is the second moment.
    """
    axes = list(range(len(channels)))
    if not statistic.count:
        return np.full(len(grids), np.nan), np.full(len(grids), np.nan)
    table = statistic.profile(axes, [None] * len(axes))
    values, variance = np.empty(len(grids)), np.empty(len(grids))
    for number, grid in enumerate(grids):
        values[number] = np.sum(table * _apply(channels, grid, axes))
        if population:
            base = values[number] ** 2 / statistic.count
        else:
            base = np.sum(table * _apply(channels, _baseline(channels, grid), axes))
        variance[number] = _second_moment(table, channels, grid) - base
    return values, variance


def _second_moment(table: Floats, channels: Sequence[Channel], grid: Floats) -> float:
    """Estimated sum over people of the squared function of their output."""
    bits = [d for d, channel in enumerate(channels) if channel.layout.kind == "bits"]
    partly = _apply(channels, grid, [d for d in range(len(channels)) if d not in bits])
    total = 0.0
    for size in range(len(bits) + 1):
        for flipped in itertools.combinations(bits, size):
            spread = partly
            for d in flipped:
                spread = _along(channels[d].flip_spread, spread, d)
            square = np.sum(spread**2, axis=flipped, keepdims=True)
            kept = _apply(channels, square, [d for d in bits if d not in flipped])
            # Wherever people are on the flipped axes: the constant feature counts them all.
            corner = tuple(slice(1) if d in flipped else slice(None) for d in range(len(channels)))
            total += float(np.sum(table[corner] * kept))
    return total


def _apply(channels: Sequence[Channel], grid: Floats, axes: Sequence[int]) -> Floats:
    """Turn weights into coefficients along some axes."""
    for d in axes:
        grid = _along(channels[d].coefficients, grid, d)
    return grid


def _along(change: Callable[[Floats], Floats], grid: Floats, axis: int) -> Floats:
    """Let a function that works along the last axis work along another."""
    return np.moveaxis(change(np.moveaxis(grid, axis, -1)), -1, axis)


def _baseline(channels: Sequence[Channel], grid: Floats) -> Floats:
    """The square of the mean, lowered by what rounding adds on each axis."""
    square = grid**2
    lowered = square.copy()
    for d, channel in enumerate(channels):
        lowered += _along(lambda w, c=channel: c.baseline(w, w), grid, d) - square  # type: ignore[misc]
    return lowered
