"""Shares and steps of geometric noise at two scales, where "no answer" is near the values.

E from "no answer" to any value, c, bounds what all values tell together: Σ_y max_x P(y | x) <= e^c.
Fine noise is used as often as that allows beside coarse noise, whose steps have the least error by
a formula: under noise with share p the cosine of frequency ω has information p·h(ω)², with
h(ω) = (1−α)²/(1 − 2α·cos ω + α²), and a prefix count has the power 1/sin²(ω/2) there. All is
rounded to coarse grids, so that the same words give the same fingerprint on every machine.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from sfumato.arrays import Floats
from sfumato.channels.extended import TOLD, Extended, widest_core
from sfumato.channels.two_scales import TwoScales
from sfumato.metrics.distance import AsideMetric, CappedLineMetric

_COARSE = tuple(Fraction(1, 1 << k) for k in range(1, 13))
_SHARES = 1 << 12  # of this many parts
_WORTH = 0.99  # the last bits of machines differ, and must not decide between coarse steps
_MOST_E = 300.0  # beyond, nothing is told too well


def at_two_scales(metric: AsideMetric) -> Extended | None:
    """The channel, if fine noise alone would tell too much, and coarse noise helps.

    Args:
        metric: The line and the cell aside.

    Example:
        >>> from sfumato.metrics.distance import LineMetric
        >>> at_two_scales(AsideMetric(LineMetric.equal(Fraction(1, 2), 300), Fraction(4)))
        Extended(inner=TwoScales(share=Fraction(2565, 4096), coarse=Fraction(1, 8)))
    """
    core = widest_core(metric)
    if core.equal_step is None or metric.aside > _MOST_E:
        return None
    step, cap = float(core.equal_step), math.inf
    if isinstance(core, CappedLineMetric):
        cap = float(core.cap)
    most = 1 + float(TOLD) * math.expm1(float(metric.aside))
    waves = np.pi * np.arange(1, core.size) / core.size
    fine, clear = _noise(step, cap, waves)
    best: tuple[float, TwoScales] | None = None
    for coarse in _COARSE:
        told, seen = _noise(step * float(coarse), cap, waves)
        if not told < most < fine:
            continue
        share = math.floor(_SHARES * (most - told) / (fine - told)) / _SHARES
        made = TwoScales(Fraction(share), coarse) if share else None
        if made is None or made.misfit(core):
            continue
        error = float(np.sum(1 / (share * clear + (1 - share) * seen) / np.sin(waves / 2) ** 2))
        if best is None or error < _WORTH * best[0]:
            best = error, made
    return None if best is None else Extended(best[1])


def _noise(step: float, cap: float, waves: Floats) -> tuple[float, Floats]:
    """What geometric noise under a cap tells, Σ_y max_x P(y | x), and its information by wave."""
    size, alpha = len(waves) + 1, math.exp(-step)
    place = np.arange(size)
    peak = np.full(size, (1 - alpha) / (1 + alpha))
    peak[[0, -1]] = 1 / (1 + alpha)
    least = peak * alpha ** np.maximum(place, size - 1 - place)
    odds = math.exp(min(cap, 2 * _MOST_E))
    fixed = np.maximum(0, peak - odds * least).sum() / (odds - 1)
    noise = (1 - alpha) ** 2 / (1 - 2 * alpha * np.cos(waves) + alpha**2)
    return float((peak.sum() + fixed) / (1 + fixed)), (noise / (1 + fixed)) ** 2
