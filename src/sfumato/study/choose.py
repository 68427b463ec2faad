"""The automatic choice of a channel for axes that name none.

Distance metrics. Under the geometric channel only people near an end of a range add noise to its
count; under the thermometer everyone adds the same, smaller noise. Which is better depends on ε,
the number of cells m, and the decoder. Unbiased variances are known exactly and cross at
ε²·m ≈ 1.8, for any number of people n. Likelihood answers trade the reports off against
smoothness: with few people only slow changes along the axis can be seen, which geometric reports
show best; with many, single cells can be seen, and below the crossing thermometer reports show
those best. The two were measured to be equally good at n ≈ 16·m^2.5, and with the smallest ε at
n·ε² ≈ 30 (`python -m benchmarks choice`; docs/mathematics.md).

Uniform metrics: `study/choose_uniform.py`. All others: candidates compete by exact error
(`study/candidates.py`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sfumato.arrays import MOST_ROW_ENTRIES
from sfumato.channels.choice import Choice
from sfumato.channels.geometric import Geometric
from sfumato.channels.planar import Planar
from sfumato.channels.product import Product
from sfumato.channels.response import KaryResponse
from sfumato.channels.thermometer import MOST_CELLS as MOST_BITS
from sfumato.channels.thermometer import Thermometer
from sfumato.errors import StudyError, shown
from sfumato.exact import whole
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.distance import CappedLineMetric, LineMetric
from sfumato.metrics.norm_grids import NormGridMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.study.asked import Asked
from sfumato.study.candidates import Chosen, best_channel
from sfumato.study.choose_uniform import choose_uniform

#: The decoder that channels are chosen for by default.
PLANNED_FOR = "likelihood"
#: More people than there have ever been, and few enough to count in doubles.
MOST_PEOPLE = 10**15
#: The number of people assumed where a study states none.
TYPICAL_PEOPLE = 10_000
#: From n = LEVEL·m^2.5 people on, likelihood answers can resolve single cells …
LEVEL = 16
#: … provided that n·ε² ≥ SEEN: with fewer people only the slowest changes can be seen.
SEEN = 30


def choose_channel(
    metric: CellMetric,
    *,
    shape: tuple[int, ...] | None = None,
    ordered: tuple[bool, ...] = (True,),
    values: int | None = None,
    method: str = PLANNED_FOR,
    people: int | None = None,
    rounds: bool = False,
    held: Choice | None = None,
) -> Chosen:
    """The channel that the planner chooses for a metric, and the reason in words.

    Args:
        metric: E between cells.
        shape: Number of cells of every axis that the channel covers; left out, there is one axis.
        ordered: For each axis, whether its cells have an order, so that ranges will be asked.
        values: How many cells of a single axis hold values, if the last one is "no answer".
        method: How answers will be found, "likelihood" or "unbiased".
        people: How many reports to expect, which matters to likelihood answers; left out, 10,000
            are assumed.
        rounds: Whether values arrive by stochastic rounding.
        held: A channel that was found earlier, which need not be searched for again.

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
    if rounds and not (isinstance(metric, LineMetric) and metric.equal_step is not None):
        return Chosen(*_rounding(metric))
    if isinstance(metric, UniformMetric):
        return Chosen(*choose_uniform(metric, shape or (metric.size,), ordered, method=method))
    if isinstance(metric, NormGridMetric):
        return Chosen(*_on_a_grid(metric))
    if not (ordered[0] and isinstance(metric, LineMetric) and metric.equal_step is not None):
        asked = Asked.of(values or metric.size, metric.size, ordered=ordered[0])
        return best_channel(metric, asked, held=held)
    return Chosen(*_on_a_line(metric.size, float(metric.equal_step), method, expected))


def _on_a_line(size: int, epsilon: float, method: str, expected: int | None) -> tuple[Choice, str]:
    """The better of geometric and thermometer for cells that are equally far apart."""
    if size > MOST_BITS:
        return Geometric(), "a thermometer report would be too long"
    geometric, thermometer = threshold_variances(epsilon, size)
    if geometric <= thermometer:
        return Geometric(), (
            "over all thresholds and people spread evenly its variance is "
            f"{thermometer / geometric:.3g} times smaller than the thermometer's"
        )
    above = geometric / thermometer
    if method != "likelihood":
        return Thermometer(), (
            "over all thresholds and people spread evenly its variance is "
            f"{above:.3g} times smaller than the geometric channel's"
        )
    return _by_people(size, epsilon, expected, above)


def _on_a_grid(metric: NormGridMetric) -> tuple[Choice, str]:
    """Noise by the norm itself; two independent kinds of noise where that is the same, or simpler.

    Raises:
        StudyError: If there are too many cells.
    """
    two = len(metric.shape) == 2 and metric.cap is None
    product = Product((metric.shape[0], metric.shape[1]))
    if metric.order == 1 and two:
        return product, "under the L1 distance independent noise on both axes is the best known"
    problem = Planar().misfit(metric)
    if problem is None:
        return Planar(), "its noise follows the stated distance, with nothing lost between axes"
    if two and product.misfit(metric) is None:
        return product, "there are too many cells for a table of all displacements"
    raise StudyError(f"no channel can serve these axes together: {problem}")


def _rounding(metric: CellMetric) -> tuple[Choice, str]:
    """The channel that can be combined with stochastic rounding."""
    if isinstance(metric, UniformMetric):
        if metric.size == 2:
            return KaryResponse(), "for two cells no channel with this guarantee is better"
        return KaryResponse(), "under Uniform it alone can be combined with stochastic rounding"
    if isinstance(metric, CappedLineMetric):
        return Geometric(), "it can hold a cap on E"
    return Thermometer(), "the cells are not equally far apart"


def enough_people(epsilon: float, size: int) -> int:
    """The number of people from which likelihood answers are better from the thermometer.

    It applies where the thermometer has the smaller unbiased variance, too.

    Args:
        epsilon: ε per cell.
        size: Number of cells.
    """
    return max(math.ceil(LEVEL * size**2 * math.sqrt(size)), math.ceil(SEEN / epsilon**2))


def _by_people(size: int, epsilon: float, stated: int | None, above: float) -> tuple[Choice, str]:
    """The choice for likelihood answers if the thermometer has the smaller unbiased variance."""
    people = TYPICAL_PEOPLE if stated is None else stated
    assumed = ", assumed as no number is stated," if stated is None else ""
    told = f"for {people:,} people{assumed}"
    enough = enough_people(epsilon, size)
    though = f"though unbiased answers have {above:.2g} times the thermometer's variance"
    if people < enough:
        return Geometric(), (
            f"{told} likelihood answers are more accurate with it (on {size:,} cells with fewer "
            f"than {enough:,} people), {though}"
        )
    if size * min(people, 2 ** (size - 1)) > MOST_ROW_ENTRIES:
        return Geometric(), f"{told} thermometer reports are too many to decode, {though}"
    return Thermometer(), (
        f"{told} likelihood answers are more accurate with it (on {size:,} cells with {enough:,} "
        f"people or more), and unbiased ones have a variance {above:.2g} times "
        "smaller than the geometric channel's"
    )


def checked_expected(people: Any) -> int | None:
    """The number of people that a study expects, checked; None where it states none."""
    if people is None:
        return None
    number = whole(people)
    if number is None or not 1 <= number <= MOST_PEOPLE:
        raise StudyError(
            f"people must be a whole number from 1 to 10^15, got people={shown(people)}; leave it "
            "out if the number is not known"
        )
    return number


def threshold_variances(epsilon: float, size: int) -> tuple[float, float]:
    """Variance, per person, of the indicator x ≤ t under the geometric channel and the thermometer.

    The mean over all thresholds t and a flat population. With d the steps from a person to the
    threshold, the geometric channel has α^d·α(1−α+α²)/(1−α)³ before clamping; the thermometer has
    (s²−1)/4 = α/(1−α)² everywhere, with α = e^−ε.

    Args:
        epsilon: ε per cell.
        size: Number of cells.

    Returns:
        The variance under the geometric channel, and under the thermometer.
    """
    alpha = np.exp(-min(epsilon, 300.0))  # beyond that both are zero but for rounding
    near = np.arange(size - 1)
    # A person d steps below or above a threshold: size−1−d thresholds on each side have one.
    share = np.sum((size - 1 - near) * alpha**near) * 2 / ((size - 1) * size)
    peak = alpha * (1 - alpha + alpha**2) / (1 - alpha) ** 3
    return float(share * peak), float(alpha / (1 - alpha) ** 2)
