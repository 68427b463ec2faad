"""The reach of rakes, their gaps and shares, where "no answer" is near the values.

E from "no answer" to any value, c, bounds what all values tell together: Σ_y max_x P(y | x) <= e^c.
Every reach, with a few gaps, is tried with narrower rakes as often as that allows, and the least
error is found by a formula: rakes have information h(ω) = Σ p_j·|â_j(ω)|² at every frequency of the
circle, and ranges the power 1/sin²(ω/2) there. All is rounded to coarse grids, so that the same
words give the same fingerprint on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from sfumato.arrays import Floats
from sfumato.channels.extended import TOLD, Extended, widest_core
from sfumato.channels.rakes import Rakes, all_teeth, distances
from sfumato.metrics.distance import AsideMetric, CappedLineMetric

_SHARES = 32  # of this many parts
_GAPS = (0.6, 0.8, 1.0)  # times 1/ε
_WORTH = 0.99  # the last bits of machines differ, and must not decide
_ROOM = 1 - 1e-9  # of what may be told, for rounding
_MOST_E = 22.0  # beyond, nothing is told too well


def with_rakes(metric: AsideMetric) -> Extended | None:
    """The channel, if geometric noise would tell too much.

    Args:
        metric: The line and the cell aside.

    Example:
        >>> from sfumato.metrics.distance import LineMetric
        >>> with_rakes(AsideMetric(LineMetric.equal(Fraction(1, 2), 300), Fraction(4)))
        Extended(inner=Rakes(reach=10, gap=2, narrower=Fraction(27, 32)))
    """
    core = widest_core(metric)
    if core.equal_step is None or metric.aside > _MOST_E or core.size < 2:
        return None
    step, cap = float(core.equal_step), 2 * _MOST_E
    if isinstance(core, CappedLineMetric):
        cap = min(cap, float(core.cap))
    most = 1 + float(TOLD) * math.expm1(float(metric.aside))
    if _told(np.exp(-np.minimum(cap, step * distances([0], core.size)))) < most:
        return None
    ranges = 1 / np.sin(np.pi * np.arange(1, core.size // 2 + 1) / core.size) ** 2
    best: tuple[float, Rakes] | None = None
    for gap in sorted({max(1, round(times / step)) for times in _GAPS}):
        known: dict[int, tuple[float, Floats]] = {}
        for reach in _reaches(core.size):
            laid = all_teeth(reach, gap)
            for halved, teeth in enumerate(laid):
                if reach >> halved not in known:
                    away = distances(teeth, core.size)
                    known[reach >> halved] = _seen(np.exp(-np.minimum(cap, step * away)))
            told, seen = zip(*(known[reach >> halved] for halved in range(len(laid))), strict=True)
            made = _shared(np.array(told), most * _ROOM)
            if made is None:
                continue
            share, chances = made
            error = float(np.sum(ranges / (chances @ np.array(seen))))
            if best is None or error < _WORTH * best[0]:
                best = error, Rakes(reach, gap, share)
    return None if best is None else Extended(best[1])


def _reaches(size: int) -> Iterator[int]:
    """Nearly all of the axis, and on by half-octaves."""
    reach = size * 9 // 10
    while reach:
        yield reach
        reach = math.isqrt(reach * reach // 2)


def _shared(told: Floats, most: float) -> tuple[Fraction, Floats] | None:
    """The largest share of narrower rakes under which no more is told, and all chances."""
    for parts in range(_SHARES, 0, -1):
        often = np.power(parts / _SHARES, np.arange(len(told)))
        chances: Floats = often / often.sum()
        if chances @ told <= most:
            return Fraction(parts, _SHARES), chances
    return None


def _told(law: Floats) -> float:
    """Σ_y max_x P(y | x) of all turns of a rake."""
    return float(len(law) * law.max() / law.sum())


def _seen(law: Floats) -> tuple[float, Floats]:
    """What a rake tells, and its information at every frequency but zero."""
    from scipy import fft

    return _told(law), np.abs(fft.rfft(law)[1:] / law.sum()) ** 2
