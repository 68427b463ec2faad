"""Which channel an axis gets when it names none.

On a line the geometric channel is noisy only near the ends of a range, the thermometer everywhere
but with fewer bits' worth of noise each: which is better depends on ε, the number of cells m, and
how answers are found. Unbiased errors are known exactly and cross at ε²·m ≈ 1.8, whatever the
number of people n. Likelihood answers are a bargain between the reports and smoothness: with few
people only slow changes along the axis can be seen at all, which geometric reports show best; with
many, single cells can, and below the crossing thermometer reports show those best. The two were
measured to be level at n ≈ 16·m^2.5, and with the smallest ε at n·ε² ≈ 30 (`python -m benchmarks
choice`; docs/mathematics.md).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sfumato.channels.base import Choice
from sfumato.channels.exponential import Exponential
from sfumato.channels.geometric import Geometric
from sfumato.channels.hadamard import Hadamard
from sfumato.channels.response import Binary
from sfumato.channels.searched.extremal import Extremal
from sfumato.channels.thermometer import MOST_CELLS as MOST_BITS
from sfumato.channels.thermometer import Thermometer
from sfumato.errors import StudyError
from sfumato.estimation.decoding.mixture import MOST_ROW_ENTRIES
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.distance import CappedLineMetric, LineMetric
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.study.choose_uniform import choose_uniform

#: The decoder that studies are planned for, unless told otherwise: the default one.
PLANNED_FOR = "likelihood"
#: The number of people that studies are planned for where they state none.
TYPICAL_PEOPLE = 10_000
#: From so many people times m^2.5 on, likelihood answers can make use of single cells …
LEVEL = 16
#: … provided that n·ε² is at least this: with less, nothing but the slowest change is seen.
SEEN = 30


def choose_channel(
    metric: CellMetric,
    *,
    method: str = PLANNED_FOR,
    people: int | None = None,
    ordered: bool = True,
) -> tuple[Choice, str]:
    """The channel for a metric, and why.

    Args:
        metric: E between cells.
        method: How answers will be found, "likelihood" or "unbiased".
        people: How many reports to expect, which matters to likelihood answers; left out, 10,000
            are assumed.
        ordered: Whether neighbouring cells are alike, so that ranges will be asked for.

    Example:
        >>> from fractions import Fraction
        >>> choose_channel(LineMetric.equal(Fraction(1, 5), 100))[0]
        Geometric()
        >>> choose_channel(LineMetric.equal(Fraction(1, 10), 8))[0]
        Thermometer(variant='exact')
        >>> choose_channel(LineMetric.equal(Fraction(1, 10), 8), people=1_000)[0]
        Geometric()
    """
    expected = checked_expected(people)
    if isinstance(metric, UniformMetric):
        return choose_uniform(metric, (metric.size,), (ordered,), method=method)
    if isinstance(metric, CappedLineMetric):
        if metric.equal_step is None:
            return Exponential(), "the cells are not equally far apart, and E has a cap"
        return Geometric(), "it can hold a cap on E"
    if not isinstance(metric, LineMetric):
        return _by_context(metric)
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
    above = geometric / thermometer
    if method != "likelihood":
        return Thermometer(), (
            "over all thresholds and people spread evenly its variance is "
            f"{above:.3g} times below the geometric channel's"
        )
    return _by_people(metric.size, float(metric.equal_step), expected, above)


def _by_context(metric: CellMetric) -> tuple[Choice, str]:
    """The choice where E is neither one number nor a distance."""
    if metric.size == 2:
        return Binary(), "for two cells no channel with this guarantee is better"
    if isinstance(metric, BlockMetric):
        return Hadamard(), "it hides cells within their blocks, and tells the block"
    if isinstance(metric, HighLowMetric):
        return Hadamard(), "it hides sensitive cells, and lets others often tell the truth"
    # What a search finds differs in its last bits between machines, and so would the fingerprints
    # of studies made from the same words: Extremal is for those who ask for it, and keep the file.
    better = "; Extremal() has smaller errors, see compare" if not Extremal().misfit(metric) else ""
    return Exponential(), f"it fits any finite metric{better}"


def enough_people(epsilon: float, size: int) -> int:
    """From how many people on the thermometer is chosen, if its unbiased answers are surer too."""
    return max(math.ceil(LEVEL * size**2 * math.sqrt(size)), math.ceil(SEEN / epsilon**2))


def _by_people(size: int, epsilon: float, stated: int | None, above: float) -> tuple[Choice, str]:
    """The choice for likelihood answers where the thermometer's unbiased ones are surer."""
    people = TYPICAL_PEOPLE if stated is None else stated
    assumed = ", assumed as no number is stated," if stated is None else ""
    told = f"for {people:,} people{assumed}"
    enough = enough_people(epsilon, size)
    though = f"though unbiased answers have {above:.2g} times the thermometer's variance"
    if people < enough:
        return Geometric(), (
            f"{told} likelihood answers are surer from it (on {size:,} cells with fewer than "
            f"{enough:,} people), {though}"
        )
    if size * min(people, 2 ** (size - 1)) > MOST_ROW_ENTRIES:
        return Geometric(), f"{told} thermometer reports are too many to decode, {though}"
    return Thermometer(), (
        f"{told} likelihood answers are surer from it (on {size:,} cells with {enough:,} people or "
        f"more), and unbiased ones have a variance {above:.2g} times below the geometric channel's"
    )


def checked_expected(people: Any) -> int | None:
    """How many people a study expects; None where it does not say."""
    if people is None:
        return None
    whole = isinstance(people, (int, np.integer)) and not isinstance(people, bool)
    if not whole or people < 1:
        raise StudyError(
            f"people must be a whole number of at least 1, got people={people!r}; leave it out if "
            "nobody knows how many will answer"
        )
    return int(people)


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
