"""Intervals of ratios whose divisor is itself an estimate (Fieller's method).

Estimator:
    A ratio ρ of two sums a/b is not rejected if a − ρ·b, whose mean is zero at the true ratio, is
    within z standard errors of zero: (a − ρb)² <= z²·Var(a − ρb). Both sides are quadratic in ρ, so
    the ratios that are left are an interval, or, where b is not z standard errors away from zero,
    reach to infinity. The delta method, ρ ± z·stderr, takes the divisor as known; with few people
    in it, its intervals hold too rarely.

References:
    Fieller1954.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.arrays import Floats


def fieller(
    rest: Any, divisor: Any, constant: Any, slope: Any, square: Any, z: float
) -> tuple[Floats, Floats]:
    """The changes d of a ratio ρ with (rest − d·divisor)² <= z²·(constant + slope·d + square·d²).

    Args:
        rest: a − ρ·b at the ratio itself.
        divisor: b.
        constant: Variance of a − ρ·b.
        slope: Its derivative with respect to ρ.
        square: Half its second derivative, the variance of b.
        z: Standard errors each way.

    Returns:
        The least and the largest d; infinite where the divisor may be zero.

    Example:
        >>> low, high = fieller(0.0, 100.0, 4.0, 0.0, 0.0, 2.0)
        >>> float(low), float(high)
        (-0.04, 0.04)
        >>> float(fieller(0.0, 100.0, 4.0, 0.0, 2500.0, 2.0)[1])
        inf
    """
    with np.errstate(invalid="ignore"):  # a divisor of zero has left NaN and infinity
        leading = np.asarray(divisor**2 - z**2 * square, dtype=np.float64)
        middle = rest * divisor + z**2 * slope / 2
        root = np.sqrt(np.maximum(middle**2 - leading * (rest**2 - z**2 * constant), 0.0))
        bounded = leading > 0
        safe = np.where(bounded, leading, 1.0)
        low = np.where(bounded, (middle - root) / safe, -np.inf)
        high = np.where(bounded, (middle + root) / safe, np.inf)
    return low, high
