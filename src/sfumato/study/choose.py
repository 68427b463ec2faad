"""The automatic choice of a channel for axes that name none.

Distance metrics. Under the geometric channel only people near an end of a range add noise to its
count; under the thermometer everyone adds the same, smaller noise. Which is better depends on ε,
the number of cells m, and the decoder. Unbiased variances are known exactly and cross at
ε²·m ≈ 1.8, for any number of people n. Likelihood answers trade the reports off against
smoothness: with few people only slow changes along the axis can be seen, which geometric reports
show best; with many, single cells can be seen, and below the crossing thermometer reports show
those best. The two were measured to be equally good at n ≈ 16·m^2.5, and with the smallest ε at
n·ε² ≈ 30 (`python -m benchmarks choice`; docs/mathematics.md).

Uniform metrics. Typical questions are ranges along ordered axes and single cells elsewhere. The
unbiased variances for an evenly spread population are known in closed form: k-ary response is best
while cells are few or ε is large; combs are best for ranges of many cells, and local hashing for
single cells without order. Where there would be too many combs, a hierarchy is chosen; where there
are too many cells or axes for it, Hadamard randomised response, and in the end k-ary response.

Likelihood answers gain more from combs than from k-ary response. Measured with 10,000 people on
humps, spikes and a Zipf law (m = 8 to 64, ε = 1 to 5), the two were equally good where combs had
1.8 times the unbiased variance; at four cells, where they had the same.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np

from sfumato.arrays import MOST_ROW_ENTRIES, Floats, most_outputs
from sfumato.channels.choice import Choice
from sfumato.channels.comb import Comb, CombChannel
from sfumato.channels.comb_tables import too_many
from sfumato.channels.exponential import Exponential
from sfumato.channels.geometric import Geometric
from sfumato.channels.hadamard import Hadamard
from sfumato.channels.hashing import LARGEST_DEFAULT, OLH, OLHChannel, primes
from sfumato.channels.hashing import MOST_OUTPUTS as OUTPUTS_OF_HASHES
from sfumato.channels.hrr import HRR
from sfumato.channels.response import Binary, KaryResponse
from sfumato.channels.searched.extremal import Extremal
from sfumato.channels.thermometer import MOST_CELLS as MOST_BITS
from sfumato.channels.thermometer import Thermometer
from sfumato.channels.trees.hierarchy import Hierarchical
from sfumato.errors import StudyError, TooLargeError, shown
from sfumato.exact import whole
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.distance import CappedLineMetric, LineMetric
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.uniform import UniformMetric

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
    method: str = PLANNED_FOR,
    people: int | None = None,
) -> tuple[Choice, str]:
    """The channel that the planner chooses for a metric, and the reason in words.

    Args:
        metric: E between cells.
        shape: Number of cells of every axis that the channel covers; left out, there is one axis.
        ordered: For each axis, whether its cells have an order, so that ranges will be asked.
        method: How answers will be found, "likelihood" or "unbiased".
        people: How many reports to expect, which matters to likelihood answers; left out, 10,000
            are assumed.

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
        return choose_uniform(metric, shape or (metric.size,), ordered, method=method)
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
    """The choice where the metric is neither uniform nor a distance."""
    if metric.size == 2:
        return Binary(), "for two cells no channel with this guarantee is better"
    if isinstance(metric, BlockMetric):
        return Hadamard(), "it hides cells within their blocks, and reveals the block"
    if isinstance(metric, HighLowMetric):
        return Hadamard(), "it hides sensitive cells, and often reports the others truthfully"
    # The result of a search differs in its last bits between machines, and so would the
    # fingerprints of studies with the same definition: Extremal must be asked for by name.
    better = "; Extremal() has smaller errors, see compare" if not Extremal().misfit(metric) else ""
    return Exponential(), f"it fits any finite metric{better}"


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
        f"people or more), and unbiased ones have a variance {above:.2g} times below the "
        "geometric channel's"
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


_FAR_BELOW = 1e6
_LEAST_EPSILON, _MOST_EPSILON = 1e-100, 350.0
_SAME, _NONE = 1e-6, 1e-9  # relative and absolute tolerance for equal variances
#: Cells times axes up to which combs are made within seconds.
_MOST_COMBED = 1 << 21
#: For likelihood answers combs are better up to this multiple of k-ary response's variance …
_LEVEL = 1.8
#: … from this number of cells on.
_SEVERAL_CELLS = 8


def choose_uniform(
    metric: UniformMetric,
    shape: tuple[int, ...],
    ordered: tuple[bool, ...],
    *,
    method: str = "likelihood",
) -> tuple[Choice, str]:
    """The channel for a uniform metric on a grid of cells, and the reason in words.

    Args:
        metric: One ε, and the number of cells of the whole grid.
        shape: Number of cells of every axis.
        ordered: For each axis, whether its cells have an order.
        method: How answers will be found, "likelihood" or "unbiased".

    Example:
        >>> from fractions import Fraction
        >>> choose_uniform(UniformMetric(Fraction(1), 100), (100,), (True,))[0]
        Comb()
        >>> choose_uniform(UniformMetric(Fraction(1), 4), (4,), (False,))[0]
        KaryResponse()
        >>> choose_uniform(UniformMetric(Fraction(1), 40), (40,), (False,))[0]
        OLH(g=None)
    """
    truth = kary_variance(metric, shape, ordered)
    if not any(ordered):
        if HRR().misfit(metric):
            return KaryResponse(), "there are too many cells for hashes"
        hashes, hashed = _hashes(metric, method)
        if truth <= hashed:
            return KaryResponse(), _because("single cells", truth, hashed, "hashes")
        return hashes, _because("single cells", hashed, truth, "k-ary response")
    if too_many(shape) or metric.size * len(shape) > _MOST_COMBED:
        return _beyond_combs(metric, shape, ordered)
    combs = comb_variance(Comb().bind_grid(metric, shape, ordered))
    if abs(truth - combs) <= _SAME * truth + _NONE:
        # With teeth of one step and a prime number of cells, every comb is k-ary response with
        # its outputs in another order. Rounding errors must not decide between the two.
        return KaryResponse(), "combs would be equally accurate, with more kinds of reports"
    level = _LEVEL if method == "likelihood" and metric.size >= _SEVERAL_CELLS else 1.0
    if level * truth <= combs:
        return KaryResponse(), _because("ranges", truth, combs, "combs")
    if truth <= combs:
        return Comb(), (
            "likelihood answers to ranges are more accurate with it, though unbiased ones have "
            f"{combs / truth:.3g} times the variance of k-ary response"
        )
    return Comb(), _because("ranges", combs, truth, "k-ary response")


def _beyond_combs(
    metric: UniformMetric, shape: tuple[int, ...], ordered: tuple[bool, ...]
) -> tuple[Choice, str]:
    """The best channel that can serve a grid of too many cells for combs, and the reason."""
    for choice in (Hierarchical(4, "best", "optimised"), HRR()):
        with contextlib.suppress(StudyError, TooLargeError):
            choice.bind_grid(metric, shape, ordered)
            return choice, "there are too many cells for combs"
    return KaryResponse(), "there are too many cells for other channels"


def _because(of: str, smaller: float, larger: float, other: str) -> str:
    """The reason for the channel of smaller variance, in words."""
    if smaller <= 0 or larger / smaller > _FAR_BELOW:
        return f"for {of} its variance is far below that of {other}"
    return (
        f"for {of} and people spread evenly its variance is {larger / smaller:.3g} times below "
        f"that of {other}"
    )


def question_power(size: int, ordered: bool) -> Floats:
    """Mean squared Fourier coefficients of typical questions along an axis: ranges, or cells.

    A range of r cells has sin²(πjr/m)/sin²(πj/m) at frequency j and r² at zero; m − r + 1 of the
    m(m + 1)/2 ranges have r cells.

    Args:
        size: Number of cells, m.
        ordered: Whether the typical questions are all ranges (True) or all single cells (False).

    Returns:
        The power at frequencies 0 to m − 1, shape (m,).
    """
    if not ordered:
        return np.ones(size)
    r = np.arange(1, size + 1)
    share = (size - r + 1) / (size * (size + 1) / 2)
    j = np.arange(1, size)
    # Σ_r share·sin²(πjr/m), with 2·sin² = 1 − cos and Σ share·cos by one Fourier transform.
    waves = np.fft.fft(np.append(0.0, share[:-1])).real + share[-1]
    power = (1 - waves[1:]) / 2 / np.sin(np.pi * j / size) ** 2
    return np.append(np.sum(share * r**2), power)


def comb_variance(channel: CombChannel) -> float:
    """Mean variance, per person, of typical questions under combs and a flat population."""
    shape, moduli = channel.shape, channel.moduli
    grid: Floats = np.ones(())
    for size, ordered in zip(moduli, channel.ordered, strict=True):
        grid = np.multiply.outer(grid, question_power(size, ordered))
    flat = grid.ravel()
    cells = math.prod(moduli)
    spread = float(np.sum(flat[1:] / channel.information[1:])) / cells**2
    return spread + float(flat[0]) / cells**2 - _mean_square(shape, channel.ordered)


def kary_variance(
    metric: UniformMetric, shape: tuple[int, ...], ordered: tuple[bool, ...]
) -> float:
    """Mean variance, per person, of typical questions under k-ary response and a flat population.

    The estimator of weights w is f = (w − q·Σw)/(p − q), with p and q the probabilities of
    reporting the true cell and any one of the others.

    Args:
        metric: One ε, and the number of cells of the whole grid.
        shape: Number of cells of every axis.
        ordered: For each axis, whether its cells have an order.
    """
    more, cells = _odds_beyond_one(metric), metric.size
    wrong = 1 / (more + cells)
    gap = more * wrong
    square = _mean_square(shape, ordered)
    # The mean of (Σw)²: that of r² over all ranges, and 1 for a single cell.
    total = math.prod(
        (size + 1) * (size + 2) / 6 if o else 1.0 for size, o in zip(shape, ordered, strict=True)
    )
    # Outputs are uniform: the mean of (w − qΣw)² over cells is mean w² − 2q(Σw)²/N + q²(Σw)².
    spread = square - 2 * wrong * total / cells + wrong**2 * total
    return spread / gap**2 - square


def hash_variance(metric: UniformMetric, values: int | None = None) -> float:
    """Mean variance, per person, of one cell under local hashing and a flat population.

    (e^ε + g − 1)²/((g − 1)(e^ε − 1)²), plus 1/m for a cell's own share.

    Args:
        metric: One ε, and the number of cells m.
        values: Number of hash values g; left out, the optimum e^ε + 1.
    """
    more = _odds_beyond_one(metric)
    others = more + 1 if values is None else values - 1
    return (1 + (1 + others) / more) ** 2 / others + 1 / metric.size


def _hashes(metric: UniformMetric, method: str) -> tuple[Choice, float]:
    """The best local hashing that the method can decode, and its variance."""
    fits = OLH().misfit(metric) is None
    most = most_outputs(metric.size) if method == "likelihood" else OUTPUTS_OF_HASHES
    if fits and OLH().bind(metric).outputs <= most:
        return OLH(), hash_variance(metric)
    found: tuple[Choice, float] = HRR(), hash_variance(metric, 2)
    for prime in primes(LARGEST_DEFAULT)[1:]:
        variance = hash_variance(metric, prime)
        fits = OLHChannel(metric=metric, prime=prime).outputs <= min(most, OUTPUTS_OF_HASHES)
        if fits and variance < found[1]:
            found = OLH(prime), variance
    return found


def _odds_beyond_one(metric: UniformMetric) -> float:
    """e^ε − 1, with ε clamped so that its square neither underflows nor overflows."""
    epsilon = _MOST_EPSILON if metric.epsilon > _MOST_EPSILON else float(metric.epsilon)
    return math.expm1(max(epsilon, _LEAST_EPSILON))


def _mean_square(shape: tuple[int, ...], ordered: tuple[bool, ...]) -> float:
    """The mean of w² over typical questions and cells: that of r/m for ranges, 1/m for cells."""
    return math.prod(
        (size + 2) / 3 / size if o else 1 / size for size, o in zip(shape, ordered, strict=True)
    )
