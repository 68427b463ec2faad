"""How much of a guarantee has been spent, exactly: the worst pair of cells decides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from sfumato.metrics.cells import CellMetric, refuse_large_table
from sfumato.metrics.distance import CappedLineMetric, LineMetric
from sfumato.metrics.uniform import UniformMetric


def worst_share(parts: Sequence[CellMetric], whole: CellMetric) -> Fraction | None:
    """The least c for which the parts together stay within c times the whole, for every pair.

    A sum of metrics keeps the triangle inequality. So on a line neighbours decide, and below a cap
    or a constant the two cells that are furthest apart; elsewhere all pairs are looked at.

    Args:
        parts: What was spent on the axis, each a metric on its cells or zero for all of them.
        whole: E of the axis.

    Returns:
        The share; None where a part is infinite and the whole is not.

    Example:
        >>> whole = LineMetric.equal(Fraction(1, 2), 10)
        >>> worst_share(
        ...     [LineMetric.equal(Fraction(1, 8), 10), UniformMetric(Fraction(1, 4), 10)], whole
        ... )
        Fraction(3, 4)
    """
    spent = [part for part in parts if not _is_zero(part)]
    if not spent:
        return Fraction(0)
    straight = all(isinstance(p, LineMetric | CappedLineMetric | UniformMetric) for p in spent)
    last = whole.size - 1
    if isinstance(whole, LineMetric):
        return _between_neighbours(spent, whole)
    if straight and isinstance(whole, CappedLineMetric):
        near, far = _between_neighbours(spent, whole.line), _total(spent, 0, last)
        return None if near is None or far is None else max(near, far / whole.cap)
    if straight and isinstance(whole, UniformMetric):
        far = _total(spent, 0, last)
        return None if far is None else far / whole.epsilon
    return _over_all_pairs(spent, whole)


def _is_zero(metric: CellMetric) -> bool:
    """Whether nothing is spent."""
    return isinstance(metric, UniformMetric) and metric.epsilon == 0


def _total(parts: Sequence[CellMetric], i: int, j: int) -> Fraction | None:
    """What was spent on one pair, in the direction from i to j."""
    found = [part.exact(i, j) for part in parts]
    finite = [e for e in found if e is not None]
    return sum(finite, Fraction(0)) if len(finite) == len(found) else None


def _between_neighbours(parts: Sequence[CellMetric], line: LineMetric) -> Fraction | None:
    """The worst share over neighbours on a line, in both directions."""
    even = line.equal_step is not None and all(
        isinstance(part, UniformMetric)
        or (isinstance(part, LineMetric | CappedLineMetric) and part.equal_step is not None)
        for part in parts
    )
    worst = Fraction(0)
    for i in range(1 if even else line.size - 1):
        step = line.exact(i, i + 1)
        for pair in ((i, i + 1), (i + 1, i)):
            total = _total(parts, *pair)
            if total is None:
                return None
            worst = max(worst, total / step)
    return worst


def _over_all_pairs(parts: Sequence[CellMetric], whole: CellMetric) -> Fraction | None:
    """The worst share over all pairs of a table, in integers."""
    refuse_large_table(whole.size)
    tables = [part.integers() for part in parts]
    limit, limit_denominator = whole.integers()
    common = math.lcm(*(denominator for _, denominator in tables))
    checked = ~np.eye(whole.size, dtype=bool) & np.asarray(limit >= 0, dtype=bool)
    if any(bool((numerators[checked] < 0).any()) for numerators, _ in tables):
        return None
    total = sum(numerators * (common // denominator) for numerators, denominator in tables)
    spent, allowed = np.asarray(total)[checked], limit[checked]
    if not len(spent):
        return Fraction(0)
    shares = np.array(spent / allowed, dtype=np.float64)  # each the nearest double
    close = shares >= shares.max() * (1 - 2.0**-40)
    pairs = set(zip(spent[close].tolist(), allowed[close].tolist(), strict=True))
    return max(Fraction(a * limit_denominator, b * common) for a, b in pairs)
