"""Which channel an axis gets when it names none.

On a line the geometric channel is noisy only near the ends of a range, the thermometer everywhere
but with fewer bits' worth of noise each: which is better depends on ε, the number of cells m, and
how answers are found. Unbiased errors are known exactly and cross at ε²·m ≈ 1.8. Likelihood errors
were measured over all ranges on flat, sloping, two-humped and spiky populations together: with
1,000 people m = 8 to 64 and ε²·m = 0.05 to 12; with 10,000 the same up to m = 16, and only below
the crossing beyond. From 32 cells on the geometric channel's root mean square was smaller on both
sides, by a factor of 1.1 to 2.2; with 100,000 people and 32 cells the two were level (spiky ones
favoured the thermometer, 0.7, the others not, 1.5 to 1.8). Below 32 cells neither is clearly ahead:
under the crossing the thermometer's was 0.6 to 1.3 times the geometric one's, the smaller the more
people and the fewer cells.
"""

from __future__ import annotations

import numpy as np

from sfumato.channels import Choice, Exponential, Geometric, KaryResponse, Thermometer
from sfumato.channels.thermometer import MOST_CELLS as MOST_BITS
from sfumato.metrics import CappedLineMetric, CellMetric, LineMetric, UniformMetric

#: The decoder that studies are planned for, unless told otherwise: the default one.
PLANNED_FOR = "likelihood"
#: From so many cells on, likelihood answers are as a rule surer from geometric reports at any ε.
MANY_CELLS = 32


def choose_channel(metric: CellMetric, *, method: str = PLANNED_FOR) -> tuple[Choice, str]:
    """The channel for a metric, and why.

    Args:
        metric: E between cells.
        method: How answers will be found, "likelihood" or "unbiased".

    Example:
        >>> from fractions import Fraction
        >>> choose_channel(LineMetric.equal(Fraction(1, 5), 100))[0]
        Geometric()
        >>> choose_channel(LineMetric.equal(Fraction(1, 10), 8))[0]
        Thermometer(variant='exact')
    """
    if isinstance(metric, UniformMetric):
        return KaryResponse(), "every pair is protected alike"
    if isinstance(metric, CappedLineMetric):
        if metric.equal_step is None:
            return Exponential(), "the cells are not equally far apart, and E has a cap"
        return Geometric(), "it can hold a cap on E"
    if not isinstance(metric, LineMetric):
        return Exponential(), "it fits any finite metric"
    if metric.equal_step is None:
        return Thermometer(), "the cells are not equally far apart"
    if metric.size > MOST_BITS:
        return Geometric(), "a thermometer report would be too long"
    geometric, thermometer = threshold_variances(float(metric.equal_step), metric.size)
    if method == "likelihood" and metric.size >= MANY_CELLS and geometric > thermometer:
        return Geometric(), (
            f"from {MANY_CELLS} cells on likelihood answers are as a rule surer from it, though "
            f"unbiased ones have {geometric / thermometer:.2g} times the thermometer's variance"
        )
    if geometric <= thermometer:
        return Geometric(), (
            "over all thresholds and people spread evenly its variance is "
            f"{thermometer / geometric:.3g} times below the thermometer's"
        )
    return Thermometer(), (
        "over all thresholds and people spread evenly its variance is "
        f"{geometric / thermometer:.3g} times below the geometric channel's"
    )


def threshold_variances(epsilon: float, size: int) -> tuple[float, float]:
    """Variance a person of "at most t" under the geometric channel and the thermometer.

    The mean over all thresholds t and a flat population. With d the steps from a person to the
    threshold, the geometric channel has α^d·α(1−α+α²)/(1−α)³ before clamping; the thermometer has
    (s²−1)/4 = α/(1−α)² everywhere.
    """
    alpha = np.exp(-min(epsilon, 300.0))  # beyond that both are zero but for rounding
    near = np.arange(size - 1)
    # A person d steps below or above a threshold: size−1−d thresholds on each side have one.
    share = np.sum((size - 1 - near) * alpha**near) * 2 / ((size - 1) * size)
    peak = alpha * (1 - alpha + alpha**2) / (1 - alpha) ** 3
    return float(share * peak), float(alpha / (1 - alpha) ** 2)
