"""What the structure of a channel shows where its odds are too many to be compared one by one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import TypeAlias

import numpy as np

from sfumato.auditing.odds import Bound, Findings, logs_of
from sfumato.channels.base import Channel
from sfumato.channels.capped import CappedGeometricChannel
from sfumato.channels.geometric import GeometricChannel
from sfumato.channels.hadamard import HadamardChannel
from sfumato.channels.hashing import OLHChannel
from sfumato.channels.hrr import HRRChannel
from sfumato.channels.response import KaryResponseChannel
from sfumato.channels.searched.flipped_codes import MatrixResponseChannel
from sfumato.channels.thermometer import ThermometerChannel
from sfumato.channels.trees.levels import LevelsChannel
from sfumato.channels.unary import OUEChannel
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.distance import CappedLineMetric, LineMetric
from sfumato.metrics.edges import edges_of
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.noise.allocate import check

# Channels that tell every two cells apart alike.
Alike: TypeAlias = KaryResponseChannel | OUEChannel | OLHChannel | HRRChannel


def by_structure(channel: Channel, metric: CellMetric, found: Findings, *, linear: bool) -> None:
    """What neighbours show, where all pairs follow from them."""
    if isinstance(channel, GeometricChannel) and _equal_line(metric):
        _geometric(channel._noise.weights, metric.exact(0, 1), found, linear=linear)
    elif isinstance(channel, CappedGeometricChannel) and isinstance(metric, CappedLineMetric):
        _capped(channel, metric, found, linear=linear)
    elif isinstance(channel, ThermometerChannel) and isinstance(metric, LineMetric):
        total = 1 << channel.precision
        for x, (step, flip) in enumerate(zip(metric.steps, channel.flip_words, strict=False)):
            more, less = max(flip, total - flip), min(flip, total - flip)
            found.exact((x, x + 1), more, less, Bound(step, linear))
    elif isinstance(channel, MatrixResponseChannel):
        _flipped(channel, metric, found)
        return
    elif isinstance(channel, Alike) and isinstance(metric, UniformMetric):
        right, wrong = _truth_and_other(channel)
        if min(right, wrong) < 0:
            found.problems.append(f"{wrong} words for each wrong answer are more than there are")
            return
        found.exact((0, 1), max(right, wrong), min(right, wrong), Bound(metric.epsilon))
    elif isinstance(channel, LevelsChannel) and isinstance(metric, UniformMetric):
        # The chance of a level is the same for all cells, so its own odds are those of the report.
        for part in channel.parts:
            if not isinstance(part.inner, Alike):
                _by_own_word(channel, metric, found, linear=linear)
                return
            right, wrong = _truth_and_other(part.inner)
            found.exact((0, 1), max(right, wrong), min(right, wrong), Bound(metric.epsilon))
    else:
        _by_own_word(channel, metric, found, linear=linear)
        return
    found.method = "by structure"
    found.pairs = 2 * (metric.size - 1)


def _flipped(channel: MatrixResponseChannel, metric: CellMetric, found: Findings) -> None:
    """Every bit is within its rate, and the rates of all bits that differ are within E."""
    total = 1 << channel.precision
    for bit, (rate, flip) in enumerate(zip(channel.code.rates, channel.flip_words, strict=True)):
        within = flip == 0 if rate is None else Bound(rate).allows(total - flip, flip)
        if not within or 2 * flip > total:
            found.problems.append(f"bit {bit} is flipped more seldom than its rate allows")
            return
    kept = check(channel.code.members.astype(np.int64), edges_of(metric), channel.code.rates)
    if not kept:
        found.problems.append(f"the bits that differ between cells {kept.pair} spend more than E")
        return
    found.method = "by structure"
    found.pairs = metric.size * (metric.size - 1)
    odds = np.array(
        [math.log((total - flip) / flip) if flip else 0.0 for flip in channel.flip_words]
    )
    ones = channel.code.members.astype(np.float64)
    apart = (ones.T * odds) @ (1 - ones)
    e = metric.matrix()
    np.fill_diagonal(e, math.inf)
    share = (apart + apart.T) / e
    x, y = (int(place) for place in np.unravel_index(share.argmax(), share.shape))
    between = metric.exact(x, y)
    if between is None:
        return  # everything may be told apart
    differ = np.flatnonzero(channel.code.members[:, x] != channel.code.members[:, y]).tolist()
    flips = [channel.flip_words[bit] for bit in differ]
    more, less = math.prod(total - flip for flip in flips), math.prod(flips)
    found.exact((x, y), more, less, Bound(between))


def _truth_and_other(channel: Alike) -> tuple[int, int]:
    """The words whose odds tell any two cells apart, the same for every pair.

    Of OUE's bits it is a one at one cell with a zero at the other against the reverse, which is
    (1 − q)/q, as the own bit is fair; a hash and a column say nothing of the cell by themselves.
    """
    if isinstance(channel, OUEChannel | HRRChannel):
        return (1 << channel.precision) - channel.flips, channel.flips
    response = channel.response if isinstance(channel, OLHChannel) else channel
    return response.right, response.wrong


def _equal_line(metric: CellMetric) -> bool:
    """Whether cells are equally far apart on a line."""
    return isinstance(metric, LineMetric) and metric.equal_step is not None


def _geometric(
    noise: Sequence[int], step: Fraction | None, found: Findings, *, linear: bool
) -> None:
    """Neighbouring weights decide inside, neighbouring tails at the two ends.

    Args:
        noise: Words of −(size−1) … size−1.
        step: E between neighbours.
        found: What is found is added here.
        linear: Whether odds may be 1 + E, not e^E.
    """
    size = (len(noise) + 1) // 2
    assert step is not None  # noqa: S101
    bound = Bound(step, linear)
    # The last weight on either side is a tail, and never stands for a single output inside.
    inside = noise[1:-1]
    _consecutive(inside, lambda k: max(0, size - 2 - k), bound, found)
    below = list(accumulate(noise[:size]))[::-1]  # P(0 | x), x = 0, 1, …
    _consecutive(below, lambda k: k, bound, found)
    above = list(accumulate(noise[: size - 2 : -1]))  # P(size−1 | x), x = 0, 1, …
    _consecutive(above, lambda k: k, bound, found)


def _consecutive(
    words: Sequence[int], cell: Callable[[int], int], bound: Bound, found: Findings
) -> None:
    """The odds of neighbours, where each of these words is what the next cell has of the same."""
    (logs,), slack = logs_of([words])
    with np.errstate(invalid="ignore"):
        gap = np.nan_to_num(np.abs(np.diff(logs)), nan=0.0, posinf=math.inf)
    limit = bound.log * (1 - 2.0**-50) - slack
    for k in np.flatnonzero(gap > limit).tolist():
        more, less = max(words[k : k + 2]), min(words[k : k + 2])
        found.exact((cell(k), cell(k) + 1), more, less, bound)
    if gap.size and not np.any(gap > limit):
        k = int(gap.argmax())
        found.rough((cell(k), cell(k) + 1), float(gap[k]), bound)


def _capped(
    channel: CappedGeometricChannel, metric: CappedLineMetric, found: Findings, *, linear: bool
) -> None:
    """Neighbours decide up to the cap; beyond it, every output's likeliest and unlikeliest cell.

    Fixed words, the same for all cells, only lower odds: where the noise keeps E, both together do.
    """
    last, step = metric.size - 1, metric.exact(0, 1)
    noise, fixed = channel._table.weights[: 2 * last + 1], channel._table.weights[2 * last + 1 :]
    alone = Findings()
    _geometric(noise, metric.equal_step, alone, linear=linear)
    found.problems += alone.problems
    # The last weight is a tail; all before it must fall for the ends to be the unlikeliest cells.
    if any(a < b for a, b in pairwise(noise[last:-1])):
        found.problems.append("the noise does not fall with the distance")
    half = noise[last:]
    below = list(accumulate(noise[: last + 1]))[::-1]  # P(0 | x), x = 0, 1, …
    within = Bound(step, linear)
    for y, always in enumerate(fixed):
        far = 0 if 2 * y >= last else last
        words = below if y in (0, last) else half
        if metric.line.exact(y, far) <= metric.cap:  # neighbours decide for all pairs
            found.exact((y, abs(y - 1)), words[0] + always, words[1] + always, within)
        else:
            less = words[abs(y - far)] + always
            found.exact((y, far), words[0] + always, less, Bound(metric.cap))


def _by_own_word(channel: Channel, metric: CellMetric, found: Findings, *, linear: bool) -> None:
    """What a channel says of its odds, where one number is enough; its tables were looked at."""
    worst, pair = channel.worst_ratio(), (0, 1)
    if isinstance(channel, HadamardChannel) and not channel.matrices.hides:
        found.method = "by structure"  # everybody is told as they are, and nobody asked to hide
        found.pairs = 2 * (metric.size - 1)
        return
    if isinstance(metric, BlockMetric | HighLowMetric) and isinstance(channel, HadamardChannel):
        least, pair = metric.epsilon, metric.pairs()[0]
    elif isinstance(metric, LineMetric | UniformMetric):
        least = min(metric.steps) if isinstance(metric, LineMetric) else metric.epsilon
    else:
        worst = None
    if worst is None:
        found.problems.append(
            f"the {channel.id} channel of {metric.size} cells is too large to be checked pair by "
            "pair, and it shows no structure; use fewer cells"
        )
        return
    found.exact(pair, worst.numerator, worst.denominator, Bound(least, linear))
    found.method = "by structure"
    found.pairs = 2 * (metric.size - 1)
