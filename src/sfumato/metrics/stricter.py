"""Simpler metrics that are stricter than E: a channel that keeps E' <= E keeps E.

One ε for all pairs at the least E, and lines of equal steps, with a cap or without. They let the
channels made for simple metrics serve every other one.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.distance import AsideMetric, CappedLineMetric, LineMetric
from sfumato.metrics.grids import GridMetric, sum_within_norm
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.norm_grids import NormGridMetric
from sfumato.metrics.uniform import UniformMetric

_MOST_CELLS = 2048  # of metrics that are compared pair by pair


def uniform_within(metric: CellMetric) -> UniformMetric | None:
    """One ε for all pairs: the least E between two cells; None if every E is infinite.

    Args:
        metric: E between cells.

    Example:
        >>> uniform_within(LineMetric((Fraction(2), Fraction(1)))).epsilon
        Fraction(1, 1)
    """
    if isinstance(metric, LineMetric | CappedLineMetric):
        least = metric.equal_step or min(metric.steps)
        cap = metric.cap if isinstance(metric, CappedLineMetric) else least
        return UniformMetric(min(least, cap), metric.size)
    if isinstance(metric, AsideMetric):
        within = uniform_within(metric.line)
        assert within is not None  # noqa: S101 - a line has an E for every pair
        return UniformMetric(min(within.epsilon, metric.aside), metric.size)
    if isinstance(metric, UniformMetric):
        return metric
    if isinstance(metric, BlockMetric | HighLowMetric):
        return UniformMetric(metric.epsilon, metric.size)
    if isinstance(metric, NormGridMetric):
        return UniformMetric(metric.least(), metric.size)
    numerators, denominator = _integers(metric)
    finite = numerators[(numerators >= 0) & ~np.eye(metric.size, dtype=bool)]
    if not len(finite):
        return None
    return UniformMetric(Fraction(int(finite.min()), denominator), metric.size)


def line_within(
    metric: CellMetric, cap: Fraction | None = None
) -> LineMetric | CappedLineMetric | None:
    """The line with the largest equal step, in the order of the cells, that never exceeds E.

    The step is the least E(i, j)/|i − j|; with a cap, over the pairs whose E is below the cap.

    Args:
        metric: E between cells.
        cap: The most that E' may be; left out, there is no cap.

    Returns:
        The line, or None if there is no cap and every E is infinite.

    Example:
        >>> line_within(LineMetric((Fraction(2), Fraction(1)))).equal_step
        Fraction(1, 1)
    """
    if isinstance(metric, LineMetric) and cap is None:
        return LineMetric.equal(metric.equal_step or min(metric.steps), metric.size)
    if isinstance(metric, CappedLineMetric) and cap == metric.cap:
        shortest = metric.equal_step or min(metric.steps)
        return CappedLineMetric(LineMetric.equal(shortest, metric.size), cap)
    if isinstance(metric, CappedLineMetric) and cap is None:
        shortest = min(metric.equal_step or min(metric.steps), metric.cap / (metric.size - 1))
        return LineMetric.equal(shortest, metric.size)
    numerators, denominator = _integers(metric)
    both = _smaller(numerators)
    below = int(both.max()) + 1 if cap is None else math.ceil(cap * denominator)
    ratios = []
    for gap in range(1, metric.size):
        apart = np.diagonal(both, gap)
        least = apart[(apart >= 0) & (apart < below)]
        if len(least):
            ratios.append(Fraction(int(least.min()), gap * denominator))
    if not ratios:
        return None if cap is None else CappedLineMetric(LineMetric.equal(cap, metric.size), cap)
    step = min(ratios)
    line = LineMetric.equal(step, metric.size)
    if cap is None or line.exact(0, metric.size - 1) <= cap:
        return line
    return CappedLineMetric(line, cap)


def caps_of(metric: CellMetric, most: int = 6) -> list[Fraction]:
    """Values of E at which a line could be cut: some of those between the least and the largest.

    Args:
        metric: E between cells.
        most: How many at most.
    """
    numerators, denominator = _integers(metric)
    finite = np.unique(_smaller(numerators)[numerators > 0])
    values = finite[finite > 0]
    chosen = np.unique(np.linspace(0, len(values) - 1, min(most, len(values))).round().astype(int))
    return [Fraction(int(values[place]), denominator) for place in chosen]


def _integers(metric: CellMetric) -> tuple[NDArray[Any], int]:
    """All of E over one denominator, in machine integers where a table holds such."""
    if isinstance(metric, TableMetric):
        return metric.numerators, metric.denominator
    return metric.integers()


def _smaller(numerators: NDArray[Any]) -> NDArray[Any]:
    """The smaller direction of every pair, -1 where both are infinite."""
    there, back = numerators, numerators.T
    found: NDArray[Any] = np.where(
        there < 0, back, np.where(back < 0, there, np.minimum(there, back))
    )
    return found


def is_within(stricter: CellMetric, metric: CellMetric) -> bool:
    """Whether one metric is at most another for all pairs; beyond 2,048 cells only if it is easy.

    Args:
        stricter: E'.
        metric: E.

    Example:
        >>> line = LineMetric.equal(Fraction(1), 3)
        >>> is_within(UniformMetric(Fraction(1), 3), line), is_within(line, line)
        (True, True)
    """
    if stricter.size != metric.size:
        return False
    if stricter is metric or stricter == metric:
        return True
    if isinstance(stricter, UniformMetric):
        within = uniform_within(metric)
        return within is None or stricter.epsilon <= within.epsilon
    if isinstance(stricter, LineMetric) and isinstance(metric, LineMetric):
        if stricter.equal_step is not None and metric.equal_step is not None:
            return stricter.equal_step <= metric.equal_step
        return all(a <= b for a, b in zip(stricter.steps, metric.steps, strict=True))
    if isinstance(stricter, LineMetric) and isinstance(metric, CappedLineMetric):
        return stricter.largest() <= metric.cap and is_within(stricter, metric.line)
    if (
        isinstance(stricter, CappedLineMetric)
        and isinstance(metric, CappedLineMetric)
        and stricter.cap <= metric.cap
        and is_within(stricter.line, metric.line)
    ):
        return True
    if isinstance(stricter, GridMetric) and isinstance(metric, NormGridMetric):
        return sum_within_norm(stricter, metric)
    if stricter.size > _MOST_CELLS:
        return False
    few, one = stricter.integers()
    many, other = metric.integers()
    beyond = (few < 0) | (few * other > many * one)
    return not bool((beyond & (many >= 0)).any())
