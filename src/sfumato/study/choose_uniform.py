"""The automatic choice of a channel under one ε for all pairs, on one axis or several together.

Typical questions are ranges along ordered axes and single cells elsewhere. The unbiased variances
for an evenly spread population are known: k-ary response is best while cells are few or ε is large;
combs are best for ranges of many cells, trees from ε ≈ 3 on, and local hashing for single cells
without order. Where there would be too many combs, a hierarchy is chosen; where there are too many
cells or axes for it, Hadamard randomised response, and in the end k-ary response.

Likelihood answers gain more from combs than from k-ary response. Measured with 10,000 people on
humps, spikes and a Zipf law (m = 8 to 64, ε = 1 to 5), the two were equally good where combs had
1.8 times the unbiased variance; at four cells, where they had the same. Combs suit smooth
populations and trees sparse ones, and nobody knows beforehand which it will be. Wherever trees had
the smaller unbiased variance, even with equal chances of their levels, they were also better on
every shape tried; with chances that suit ranges, likelihood answers are as accurate.

The number of people does not decide between them: with 1,000, 10,000, 100,000 and a million people
on 256 cells, combs had the smaller error over eight shapes together at ε = 1/2 and 1, and at ε = 2
the two were alike (`python -m benchmarks channels people`).
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace

import numpy as np

from sfumato.arrays import Floats, most_outputs
from sfumato.channels.base import Channel
from sfumato.channels.choice import Choice
from sfumato.channels.comb import Comb, CombChannel
from sfumato.channels.comb_tables import too_many
from sfumato.channels.hashing import LARGEST_DEFAULT, OLH, OLHChannel, primes
from sfumato.channels.hashing import MOST_OUTPUTS as OUTPUTS_OF_HASHES
from sfumato.channels.hrr import HRR
from sfumato.channels.pairs import Pairs
from sfumato.channels.response import KaryResponse
from sfumato.channels.trees.hierarchy import Hierarchical
from sfumato.channels.trees.tree import fitting_branching
from sfumato.errors import StudyError, TooLargeError
from sfumato.metrics.uniform import UniformMetric

_FAR_BELOW = 1e6
_LEAST_EPSILON, _MOST_EPSILON = 1e-100, 350.0
_SAME, _NONE = 1e-6, 1e-9  # relative and absolute tolerance for equal variances
#: Cells times axes up to which combs are made within seconds.
_MOST_COMBED = 1 << 21
#: For likelihood answers combs are better up to this multiple of k-ary response's variance …
_LEVEL = 1.8
#: … from this number of cells on.
_SEVERAL_CELLS = 8
#: From this number of cells on, trees are considered.
_CELLS_OF_TREES = 16
_RANGES = 32  # by which trees are compared
_FEW_AXES = 2
#: From this number of axes on, people report on two of them where combs do not fit.
_MANY_AXES = 4


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
            return KaryResponse(), because("single cells", truth, hashed, "hashes")
        return hashes, because("single cells", hashed, truth, "k-ary response")
    if too_many(shape) or metric.size * len(shape) > _MOST_COMBED:
        return _beyond_combs(metric, shape, ordered)
    combs = comb_variance(Comb().bind_grid(metric, shape, ordered))
    if abs(truth - combs) <= _SAME * truth + _NONE:
        # With teeth of one step and a prime number of cells, every comb is k-ary response with
        # its outputs in another order. Rounding errors must not decide between the two.
        return KaryResponse(), "combs would be equally accurate, with more kinds of reports"
    likely, trees = method == "likelihood", math.inf
    tree = Hierarchical(fitting_branching(metric.size), "best", "optimised")
    if len(shape) == 1 and metric.size >= _CELLS_OF_TREES:
        judged = replace(tree, levels=None) if likely else tree
        trees = tree_variance(judged.bind_grid(metric, shape, ordered))
    best = min(combs, trees)
    level = _LEVEL if likely and metric.size >= _SEVERAL_CELLS else 1.0
    if level * truth <= best:
        other = "combs" if best == combs else "trees"
        return KaryResponse(), because("ranges", truth, best, other)
    if trees < combs:
        trees = tree_variance(tree.bind_grid(metric, shape, ordered))
        return tree, because("ranges", trees, combs, "combs")
    if truth <= combs:
        return Comb(), (
            "likelihood answers to ranges are more accurate with it, though unbiased ones have "
            f"{combs / truth:.3g} times the variance of k-ary response"
        )
    return Comb(), because("ranges", combs, truth, "k-ary response")


def _beyond_combs(
    metric: UniformMetric, shape: tuple[int, ...], ordered: tuple[bool, ...]
) -> tuple[Choice, str]:
    """The best channel that can serve a grid of too many cells for combs, and the reason.

    Unbiased answers, which such grids mostly get, were best from trees of two children on one axis
    of 3,000 to a million cells and on two axes, and of three on more axes, which have many
    combinations of levels (ε = 1/4 to 3). Likelihood answers were no worse with them, on average.
    Four axes or more, and three that no tree can serve, are reported in pairs: nobody asks about
    all of them at once, and each report then tells of few cells. On twenty axes of two cells,
    Hadamard randomised response has some 50 times the error on two of them.
    """
    if len(shape) >= _MANY_AXES:
        return Pairs(), "there are too many axes for one report to tell of all"
    few = 2 if len(shape) <= _FEW_AXES else 3
    trees = (Hierarchical(branching, "best", "optimised") for branching in (few, 4))
    others = trees if len(shape) > _FEW_AXES else (*trees, HRR())
    for choice in others:
        with contextlib.suppress(StudyError, TooLargeError):
            choice.bind_grid(metric, shape, ordered)
            return choice, "there are too many cells for combs"
    if len(shape) > _FEW_AXES:
        return Pairs(), "there are too many cells for one report to tell of all axes"
    return KaryResponse(), "there are too many cells for other channels"


def because(of: str, smaller: float, larger: float, other: str) -> str:
    """The reason for the channel of smaller variance, in words.

    Args:
        of: The questions.
        smaller: The variance of the channel that was chosen.
        larger: That of another channel.
        other: What the other channel is called.
    """
    if smaller <= 0 or larger / smaller > _FAR_BELOW:
        return f"for {of} its variance is far below that of {other}"
    return (
        f"for {of} and people spread evenly its variance is {larger / smaller:.3g} times smaller "
        f"than that of {other}"
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


def tree_variance(channel: Channel) -> float:
    """Mean variance, per person, of ranges of one axis, under a tree and a flat population.

    Ranges that end between nodes and ranges that do not differ, so the mean is over ranges whose
    ends are spread evenly over all pairs (multiples of powers of the plastic number, modulo 1).
    """
    steps = np.arange(1, _RANGES + 1)[:, None] * (0.7548776662466927, 0.5698402909980532) % 1
    ends = np.sort(np.floor(steps * channel.size), axis=1)
    cells = np.arange(channel.size)
    rows = ((ends[:, :1] <= cells) & (cells <= ends[:, 1:])).astype(np.float64)
    return float(np.mean(channel.second_moment(rows) - rows))


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
