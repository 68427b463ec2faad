"""Half-widths of many sums of Laplace noise at once: a little too wide, never too narrow.

`sfumato.laplace_sums` finds each exactly, in up to a third of a second. Here scales are rounded up
to a grid of ratios, so that a sum's law depends on how many terms fall on each point, and thousands
of characteristic functions are one matrix product. What is rounded widens intervals by 1 to 2 %.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from sfumato.arrays import Floats
from sfumato.errors import QuestionError
from sfumato.estimation.answers import normal_quantile

LEVELS = (0.5, 0.9999)
_RATIO = 0.02  # of the grid of scales, in logarithms
_LEAST = 1e-3  # the smallest scale that is told from others, as a share of the sum's spread
_REACH = 30.0  # in spreads: beyond it no sum of these has any mass to speak of
_HIGHEST = 300.0  # frequency, in spreads, at which even a single term's function is spent
_MARGIN = 1e-5  # of the level: more than the inversion is off by
_ROWS = 1024


@lru_cache(maxsize=1)
def _tables() -> tuple[Floats, Floats, Floats]:
    """Frequencies t, log(1 + (scale·t)²) for every scale of the grid, and the weight of every t."""
    scales = np.exp(np.arange(math.log(_LEAST), 2 * _RATIO, _RATIO))
    step = math.pi / _REACH
    t: Floats = step * np.arange(1, math.ceil(_HIGHEST / step), dtype=np.float64)
    weights: Floats = 2 * step / math.pi / t
    return t, np.log1p(np.multiply.outer(scales, t) ** 2), weights


def quick_reaches(scales: Floats, level: float) -> Floats:
    """Half-widths that hold sums of independent Laplace numbers with at least a given chance.

    Args:
        scales: The scale of every term, a row a sum; 0 for none.
        level: The chance, from 0.5 to 0.9999.

    Raises:
        QuestionError: If the level is beyond these.

    Example:
        >>> quick_reaches(np.array([[1.0, 0.0], [3.0, 4.0]]), 0.95).round(2)  # exactly 3.00, 14.56
        array([ 3.06, 14.65])
    """
    if not LEVELS[0] <= level <= LEVELS[1]:
        raise QuestionError(
            f"many intervals at once have a level from {LEVELS[0]} to {LEVELS[1]}, got "
            f"level={level}"
        )
    found = np.zeros(len(scales))
    for start in range(0, len(scales), _ROWS):
        part = np.abs(np.asarray(scales[start : start + _ROWS], dtype=np.float64))
        found[start : start + _ROWS] = _part(part, level)
    return found


def _part(terms: Floats, level: float) -> Floats:
    """The same for some sums: P(|S| <= h) = step/π·(h + 2·Σ φ(t)·sin(t·h)/t), by Gil-Pelaez."""
    t, logs, weights = _tables()
    spread = np.sqrt(2 * np.square(terms).sum(axis=1))
    unit = np.where(spread > 0, spread, 1.0)
    shares = np.maximum(terms / unit[:, None], _LEAST)
    bins = np.ceil((np.log(shares) - math.log(_LEAST)) / _RATIO - 1e-9)
    rows, columns = np.nonzero(terms)
    many = np.zeros((len(terms), len(logs)))
    np.add.at(many, (rows, bins[rows, columns].astype(np.intp)), 1.0)
    characteristic = np.exp(-(many @ logs))
    # A normal law and a single term are the two ends of what a sum may be.
    ends = normal_quantile(level), -math.log(1 - level) / math.sqrt(2)
    reaches = np.geomspace(0.9 * min(ends), 1.15 * max(ends), 192)
    waves = np.sin(np.multiply.outer(t, reaches)) * weights[:, None]
    held = characteristic @ waves + reaches / _REACH
    place = np.argmax(held >= level + _MARGIN * (1 - level) / 0.05, axis=1)
    return np.where(spread > 0, reaches[place] * unit, 0.0)
