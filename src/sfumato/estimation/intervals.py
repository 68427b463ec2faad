"""Intervals: estimated sums over people, the ends of their intervals, and those of ratios.

Estimator:
    A ratio ρ of two sums a/b is not rejected if a − ρ·b, whose mean is zero at the true ratio, is
    within z standard errors of zero: (a − ρb)² <= z²·Var(a − ρb). Both sides are quadratic in ρ, so
    the ratios that are left are an interval, or, where b is not z standard errors away from zero,
    reach to infinity. The delta method, ρ ± z·stderr, takes the divisor as known; with few people
    in it, its intervals hold too rarely.

References:
    Agresti1998, Brown2001, Fieller1954, Wilson1927, Yates1934.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from sfumato.arrays import Floats
from sfumato.checks import is_number
from sfumato.errors import QuestionError, shown

#: An interval has room for this many people more, in the cell where they add the most noise: with
#: few people errors are not normal, and their variance may be estimated too small. It is the z² of
#: 95 % that Agresti1998 add to the trials of a binomial law.
MORE_PEOPLE = 4

#: Intervals of 95 % of a sum that moves in steps hold at least this often wherever the truth lies
#: between two steps, as far as its law is normal.
AT_ANY_STEP = 0.93

#: Steps that are smaller than one standard error by this factor need no room; see `step_room`.
STEPS_FELT = 4.7


def normal_quantile(level: float) -> float:
    """The z with P(|Z| <= z) = level for a standard normal Z."""
    if not is_number(level) or not 0 < level < 1:
        raise QuestionError(f"level must lie between 0 and 1, got level={shown(level)}")
    from scipy.special import ndtri

    return -float(ndtri((1 - float(level)) / 2))  # finite for every level below 1


Number = TypeVar("Number", float, Floats)


class Estimated(NamedTuple, Generic[Number]):
    """An estimated sum over people, or an array of them.

    Attributes:
        value: The estimate.
        variance: Its variance, or that of `centre`.
        centre: The middle of its interval: the value itself, or the unbiased estimate, where the
            interval is the unbiased one, extended to contain the value.
        allowance: Variance that the interval allows for beside its own; see `MORE_PEOPLE` and
            `step_room`.
    """

    value: Number
    variance: Number
    centre: Number
    allowance: Number

    @classmethod
    def symmetric(cls, value: Number, variance: Number, allowance: Any = 0.0) -> Estimated[Number]:
        """An estimate in the middle of its interval.

        Args:
            value: The estimate.
            variance: Its variance.
            allowance: Variance that the interval allows for beside its own.
        """
        return cls(value, variance, value, allowance + 0.0 * value)


def step_room(low: Floats, high: Floats, slope: Floats, variance: Floats) -> Floats:
    """Variance that an interval allows for beside its own, where its sum moves in steps of h.

    z standard errors σ each way hold their level on average over the places that the truth may have
    between two steps (Brown2001, section 2), but only 2Φ(z − h/2σ) − 1 at the worst place, where
    the steps at both ends are just outside. Yates1934 adds h/2, so that no place has less than the
    level. Here the level on average is kept, and no place may have less than `AT_ANY_STEP`: with z'
    for that share, z'σ + h/2 each way are enough.

    The variance moves with the sum. At the end of an interval it is larger by the slope times the
    distance; a symmetric interval, which does not move its middle as that of Wilson1927, takes it
    to be larger by the slope times one step. The slope is at most h, so z'√(σ² + h²) + h/2 <= zσ
    from σ = 4.7·h on, and there is no such room.

    Args:
        low: The smaller of the two values by which one person adds to the sum.
        high: The larger of the two; the same where there are no steps.
        slope: What the variance gains where the sum gains one.
        variance: The estimated variance of the sum.
    """
    step = high - low
    there = np.sqrt(np.maximum(variance, 0.0) + np.abs(slope) * step)
    reach = normal_quantile(AT_ANY_STEP) * there + step / 2
    result: Floats = np.where(step > 0, (reach / normal_quantile(0.95)) ** 2 - variance, 0.0)
    return np.maximum(result, 0.0)


def around(value: Any, centre: Any, reach: Any) -> tuple[Any, Any]:
    """Both ends of intervals of some half-width, extended to contain the values.

    Args:
        value: The values.
        centre: The middles of the intervals; None where they are the values.
        reach: Half their widths.
    """
    middle = value if centre is None else centre
    return np.minimum(value, middle - reach), np.maximum(value, middle + reach)


Limits: TypeAlias = tuple[Floats | float, Floats | float]


def cut(value: Floats | float, end: Floats | float, limits: Limits | None) -> Any:
    """An end of an interval, no farther out than the truth can be.

    The interval of an estimate outside the limits is that of the nearest possible value, so that
    it is as long as others are.

    Args:
        value: The estimate.
        end: The lower or the upper end of its interval.
        limits: The least and the largest that the truth can be; None where there are none.
    """
    return end if limits is None else np.clip(end + (np.clip(value, *limits) - value), *limits)


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


def ratio_ends(
    ways: Iterable[Callable[[float], Estimated[float]]], ratio: float, stderr: float, z: float
) -> tuple[float, float]:
    """The shortest of Fieller's intervals of a ratio, one per way of reading, that contain it.

    Args:
        ways: Each estimates a − ρ·b for a ratio ρ. Read in one way, mean and variance are linear
            and quadratic in ρ, so they are found from three ρ.
        ratio: The estimated ratio.
        stderr: The ratio's standard error, as a step.
        z: Standard errors each way.
    """
    step = z * stderr or 1.0
    found = []
    for less in ways:
        below, here, above = (less(ratio + d) for d in (-step, 0.0, step))
        low, high = fieller(
            here.centre,
            (below.centre - above.centre) / (2 * step),
            max(here.variance, 0.0),
            (above.variance - below.variance) / (2 * step),
            (above.variance + below.variance - 2 * here.variance) / (2 * step**2),
            z,
        )
        found.append((min(float(low), 0.0), max(float(high), 0.0)))
    shortest = min(found, key=lambda ends: ends[1] - ends[0])
    return ratio + shortest[0], ratio + shortest[1]
