"""Which channel an axis gets when it names none.

On a line the geometric channel is noisy only near the ends of a range, the thermometer everywhere
but with fewer bits' worth of noise each: which is better depends on ε, the number of cells m, and
how answers are found. Unbiased errors are known exactly and cross at ε²·m ≈ 1.8, whatever the
number of people n. Likelihood answers are a bargain between the reports and smoothness: with few
people only slow changes along the axis can be seen at all, which geometric reports show best; with
many, single cells can, and below the crossing thermometer reports show those best. The two were
measured to be level at n ≈ 16·m^2.5, and with the smallest ε at n·ε² ≈ 30 (`python -m benchmarks
choice`; docs/mathematics.md).

Where every pair is to be hidden equally well, ranges are asked for along ordered axes and single
cells elsewhere. Errors of unbiased answers, people spread evenly, are known in closed form: k-ary
response tells the truth often enough while cells are few or ε is large; combs are better for ranges
of many cells, and hashes for single cells without order. Where combs would be too many, a hierarchy
takes over.

Likelihood answers gain more from combs than from k-ary response. Measured with 10,000 people on
humps, spikes and a Zipf law (m = 8 to 64, ε = 1 to 5), the two were level where combs had 1.8 times
the unbiased variance; at four cells where they had the same.
"""

from __future__ import annotations

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
from sfumato.errors import StudyError
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.distance import CappedLineMetric, LineMetric
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.uniform import UniformMetric

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
    shape: tuple[int, ...] | None = None,
    ordered: tuple[bool, ...] = (True,),
    method: str = PLANNED_FOR,
    people: int | None = None,
) -> tuple[Choice, str]:
    """The channel for a metric, and why.

    Args:
        metric: E between cells.
        shape: Number of cells of every axis that the channel covers; left out, there is one axis.
        ordered: Which axes have neighbours that resemble each other, so that ranges will be asked.
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


_FAR_BELOW = 1e6
_LEAST_EPSILON, _MOST_EPSILON = 1e-100, 350.0
_SAME, _NONE = 1e-6, 1e-9  # how far variances may differ by rounding, of themselves and at all
#: Up to so many times the unbiased variance of k-ary response, likelihood favours combs …
_LEVEL = 1.8
#: … from so many cells on.
_SEVERAL_CELLS = 8


def choose_uniform(
    metric: UniformMetric,
    shape: tuple[int, ...],
    ordered: tuple[bool, ...],
    *,
    method: str = "likelihood",
) -> tuple[Choice, str]:
    """The channel for one ε between any two cells of a grid, and why.

    Args:
        metric: One ε, and the number of cells of the whole grid.
        shape: Cells along every axis.
        ordered: Which axes have neighbours.
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
        hashes, hashed = _hashes(metric, method)
        if truth <= hashed:
            return KaryResponse(), _because("single cells", truth, hashed, "hashes")
        return hashes, _because("single cells", hashed, truth, "k-ary response")
    if too_many(shape):
        return Hierarchical(4, "best", "optimised"), "there are too many cells for combs"
    combs = comb_variance(Comb().bind_grid(metric, shape, ordered))
    if abs(truth - combs) <= _SAME * truth + _NONE:
        # So it is where a tooth has one step and cells are prime in number: every comb is k-ary
        # response, its outputs in another order. No rounding is to decide which one it is.
        return KaryResponse(), "combs would say the same, in more kinds of reports"
    level = _LEVEL if method == "likelihood" and metric.size >= _SEVERAL_CELLS else 1.0
    if level * truth <= combs:
        return KaryResponse(), _because("ranges", truth, combs, "combs")
    if truth <= combs:
        return Comb(), (
            "likelihood answers to ranges are surer from it, though unbiased ones have "
            f"{combs / truth:.3g} times the variance of k-ary response"
        )
    return Comb(), _because("ranges", combs, truth, "k-ary response")


def _because(of: str, smaller: float, larger: float, other: str) -> str:
    """A reason in words."""
    if smaller <= 0 or larger / smaller > _FAR_BELOW:
        return f"for {of} its variance is far below that of {other}"
    return (
        f"for {of} and people spread evenly its variance is {larger / smaller:.3g} times below "
        f"that of {other}"
    )


def question_power(size: int, ordered: bool) -> Floats:
    """Mean squared Fourier coefficients of typical questions along an axis: ranges, or cells.

    A range of r cells has sin²(πjr/m)/sin²(πj/m) at frequency j and r² at zero; ranges of r cells
    come m − r + 1 times among all.
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
    """Variance a person of typical questions under combs, people spread evenly."""
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
    """The same under k-ary response over all cells: f = (w − q·Σw)/(p − q)."""
    more, cells = _odds_beyond_one(metric), metric.size
    wrong = 1 / (more + cells)
    gap = more * wrong
    square = _mean_square(shape, ordered)
    total = math.prod(
        float(question_power(size, o)[0]) for size, o in zip(shape, ordered, strict=True)
    )  # the mean of (Σw)²
    # The output is flat: mean (w − qΣw)² over cells = mean w² − 2q(Σw)²/N + q²(Σw)².
    spread = square - 2 * wrong * total / cells + wrong**2 * total
    return spread / gap**2 - square


def hash_variance(metric: UniformMetric, values: int | None = None) -> float:
    """The same of one cell under hashes: (e^ε + g − 1)²/((g − 1)(e^ε − 1)²).

    Args:
        metric: One ε, and the number of cells.
        values: g; left out, the best there is, e^ε + 1.
    """
    more = _odds_beyond_one(metric)
    others = more + 1 if values is None else values - 1
    return (1 + (1 + others) / more) ** 2 / others + 1 / metric.size


def _hashes(metric: UniformMetric, method: str) -> tuple[Choice, float]:
    """The best hashes, of those that can be decoded if they are to be, and their variance."""
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
    """e^ε − 1, of any ε: kept where its square is a number neither zero nor infinite."""
    epsilon = _MOST_EPSILON if metric.epsilon > _MOST_EPSILON else float(metric.epsilon)
    return math.expm1(max(epsilon, _LEAST_EPSILON))


def _mean_square(shape: tuple[int, ...], ordered: tuple[bool, ...]) -> float:
    """The mean of w² over typical questions and cells: r/m for a range, 1/m for a cell."""
    return math.prod(
        (size + 2) / 3 / size if o else 1 / size for size, o in zip(shape, ordered, strict=True)
    )
