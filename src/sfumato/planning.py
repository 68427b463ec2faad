"""Which channel an axis gets when it names none.

On a line the geometric channel is noisy only near the ends of a range, the thermometer everywhere
but with fewer bits' worth of noise each: which is better depends on ε and the number of cells.
"""

from __future__ import annotations

import numpy as np

from sfumato.channels import Choice, Exponential, Geometric, KaryResponse, Thermometer
from sfumato.channels.thermometer import MOST_CELLS as MOST_BITS
from sfumato.metrics import CellMetric, LineMetric, UniformMetric


def choose_channel(metric: CellMetric) -> tuple[Choice, str]:
    """The channel for a metric, and why.

    Example:
        >>> from fractions import Fraction
        >>> choose_channel(LineMetric.equal(Fraction(1, 5), 100))[0]
        Geometric()
        >>> choose_channel(LineMetric.equal(Fraction(1, 10), 8))[0]
        Thermometer(variant='exact')
    """
    if isinstance(metric, UniformMetric):
        return KaryResponse(), "every pair is protected alike"
    if not isinstance(metric, LineMetric):
        return Exponential(), "it fits any finite metric"
    if metric.equal_step is None:
        return Thermometer(), "the cells are not equally far apart"
    if metric.size > MOST_BITS:
        return Geometric(), "a thermometer report would be too long"
    geometric, thermometer = threshold_variances(float(metric.equal_step), metric.size)
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
    alpha = np.exp(-epsilon)
    near = np.arange(size - 1)
    # A person d steps below or above a threshold: size−1−d thresholds on each side have one.
    share = np.sum((size - 1 - near) * alpha**near) * 2 / ((size - 1) * size)
    peak = alpha * (1 - alpha + alpha**2) / (1 - alpha) ** 3
    return float(share * peak), float(alpha / (1 - alpha) ** 2)
