"""The exact check of the planar channel's tables: each step of its proof, for every class of noise.

Exponentials and roots are bounded here by other means than those by which the tables were made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.odds import Bound, Findings
from sfumato.channels.planar_tables import Falling, PlanarTables, least_fixed, signed_words
from sfumato.exact import at_most_exp, exp_bounds
from sfumato.metrics.norm_grids import NormGridMetric
from sfumato.metrics.norms import GRID

_BITS = 192  # of bounds of exponentials
_LOW = 9  # binary digits of an exponent in the finer of two factors
_FINE = 1 << _LOW
_WORD = 64


def check_tables(
    metric: NormGridMetric, tables: PlanarTables, precision: int, found: Findings
) -> None:
    """Follow the proof for these tables; what fails is a problem.

    Args:
        metric: E between the cells.
        tables: The tables from which reports are drawn.
        precision: How many bits of a random word take part.
        found: Where findings are added.
    """
    falling = tables.falling
    noise: NDArray[Any] = np.array(tables.weights[: tables.classes], dtype=object)
    noise = noise.reshape(falling.sides)
    found.problems += _exponent_problems(metric, falling)
    found.problems += _tail_problems(metric, falling)
    low, high = _exact_words(falling, tables.scale)
    if (noise < 0).any() or (noise << _WORD > low).any():
        found.problems.append("the words of some noise are more than its exact weight")
    found.problems += _reach_problems(metric, noise)
    found.problems += _fixed_problems(metric, tables, noise, high - (noise << _WORD), precision)
    if not found.problems:
        _nearest_pair(metric, tables, noise, found)
    found.by_structure(metric.size * (metric.size - 1))


def _exponent_problems(metric: NormGridMetric, falling: Falling) -> Iterator[str]:
    """Whether exponents are the nearest multiples of the unit, with room for their rounding."""
    unit, share = falling.unit, falling.share
    if falling.metric != metric:
        yield "the noise is made for another metric"
    if share <= 0 or unit + Fraction(1, GRID) > (1 - share) * min(metric.steps):
        yield "rounded exponents may grow faster than E"
    twice = 2 * falling.exponents.astype(object)
    lengths = [
        [2 * share * step / unit * gap for gap in range(side)]
        for step, side in zip(metric.steps, falling.sides, strict=True)
    ]
    power = 2 if metric.order == 2 else 1
    common = math.lcm(*((length**power).denominator for line in lengths for length in line))
    join = np.maximum if metric.order == math.inf else np.add
    exact: NDArray[Any] = np.zeros((), dtype=object)
    for line in lengths:
        own = np.array([int(length**power * common) for length in line], dtype=object)
        exact = join.outer(exact, own)
    if metric.order == math.inf:  # flat beyond the shortest axis
        exact = np.minimum(exact, min(int(line[-1] * common) for line in lengths))
    above = np.maximum(twice - 1, 0) ** power * common > exact
    below = (twice + 1) ** power * common < exact
    if above.any() or (below & (twice < 2 * falling.most)).any():
        yield "an exponent is not that of its distance"


def _tail_problems(metric: NormGridMetric, falling: Falling) -> Iterator[str]:
    """Whether noise beyond the reach falls no faster than E allows."""
    ratios = [slope / step for slope, step in zip(falling.slopes, metric.steps, strict=True)]
    share = falling.share
    if metric.order == 1:
        steep = any(ratio > share for ratio in ratios)
    elif metric.order == math.inf:
        steep = sum(ratios, Fraction(0)) > share
    else:
        corner = [step * far for step, far in zip(metric.steps, falling.reach, strict=True)]
        square = sum((length**2 for length in corner), Fraction(0))
        pairs = zip(ratios, corner, strict=True)
        steep = any(ratio**2 * square > share**2 * length**2 for ratio, length in pairs)
    if steep or min(ratios) <= 0:
        yield "the noise beyond the reach falls too fast"
    for tail, slope in zip(falling.tails, falling.slopes, strict=True):
        ratio = 1 - 1 / tail
        if not 0 < ratio < 1 or not at_most_exp(1 / ratio, slope):
            yield "a tail is not that of its slope"


def _exact_words(falling: Falling, scale: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Bounds of the exact weight of every class, in units of 2^-64 words."""
    multiples, common = falling.multiples
    flat = falling.exponents.ravel()
    parts = [np.unique(part, return_inverse=True) for part in (flat >> _LOW << _LOW, flat % _FINE)]
    grown = [[exp_bounds(falling.unit * int(part), _BITS) for part in kinds] for kinds, _ in parts]
    bounds = []
    for side in (1, 0):  # the larger e^φ gives the smaller weight
        factor: NDArray[Any] = np.full(len(flat), common, dtype=object)
        for pairs, (_, place) in zip(grown, parts, strict=True):
            factor = factor * np.array([pair[side] for pair in pairs], dtype=object)[place]
        above = scale * multiples << (_WORD + 2 * _BITS)
        exact = above // factor if side else -(-above // factor)
        bounds.append(exact.reshape(falling.sides))
    return bounds[0], bounds[1]


def _reach_problems(metric: NormGridMetric, noise: NDArray[Any]) -> Iterator[str]:
    """Whether noise that stands for all beyond reaches across the grid, or never comes."""
    for axis, (side, size) in enumerate(zip(noise.shape, metric.shape, strict=True)):
        if side < size and np.take(noise, side - 1, axis=axis).any():
            yield "noise at the reach stops within the grid"


def _fixed_problems(
    metric: NormGridMetric,
    tables: PlanarTables,
    noise: NDArray[Any],
    lacking: NDArray[Any],
    precision: int,
) -> Iterator[str]:
    """Whether every cell has the words of the fixed law that it needs."""
    axes, total = len(metric.shape), 1 << precision
    down = np.array(tables.weights[tables.classes :], dtype=object)
    across = np.array(tables.across, dtype=object)
    cells = math.prod(metric.shape[1:])
    if len(down) != metric.shape[0] or len(across) != cells or sum(across) << axes != total:
        yield "the fixed law has other cells than the grid"
        return
    if sum(tables.weights) != total:
        yield "the words of the first table are not those of all words"
    needed = least_fixed(metric, noise, lacking).reshape(len(down), -1)
    if (np.multiply.outer(down, across << axes) < needed << precision).any():
        yield "the fixed law gives a cell fewer words than it needs"


def _nearest_pair(
    metric: NormGridMetric, tables: PlanarTables, noise: NDArray[Any], found: Findings
) -> None:
    """What two neighbours spend on the report of one of them, by the table itself."""
    axis = metric.steps.index(min(metric.steps))
    middle = [size // 2 for size in metric.shape]
    other = list(middle)
    other[axis] = middle[axis] - 1
    signs = 1 << len(metric.shape)
    row = tables.weights[tables.classes + middle[0]]
    place = int(np.ravel_multi_index(middle[1:], metric.shape[1:]))
    total = signs * sum(tables.across)
    fixed = row * tables.across[place] * signs
    words = signed_words(noise)
    here, there = [0] * len(middle), [0] * len(middle)
    there[axis] = 1
    if any(y in (0, size - 1) for y, size in zip(middle, metric.shape, strict=True)):
        return  # on two cells every output is at an edge
    more, less = (int(words[tuple(gap)]) * total + signs * fixed for gap in (here, there))
    one, two = (int(np.ravel_multi_index(cell, metric.shape)) for cell in (middle, other))
    found.exact((one, two), more, less, Bound(metric.exact(one, two)))
