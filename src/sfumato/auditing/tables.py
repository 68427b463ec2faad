"""Whether the tables a channel shows are laws, and the ones its sampler really draws from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np

from sfumato.channels.base import Channel
from sfumato.channels.capped import CappedGeometricChannel
from sfumato.channels.exponential import ExponentialChannel
from sfumato.channels.geometric import GeometricChannel
from sfumato.channels.hadamard import HadamardChannel
from sfumato.channels.hrr import HRRChannel
from sfumato.channels.rounding import RoundedChannel
from sfumato.channels.searched.flipped_codes import MatrixResponseChannel
from sfumato.channels.thermometer import ThermometerChannel
from sfumato.channels.trees.levels import LevelsChannel
from sfumato.channels.unary import OUEChannel
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.distance import CappedLineMetric, LineMetric
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.randomness.tables import WordTable
from sfumato.study.axis import Axis


def misfits(axis: Axis, channel: Channel, metric: CellMetric) -> Iterator[str]:
    """Whether the channel speaks of the same cells as the axis."""
    if channel.size != metric.size:
        yield f"the channel has {channel.size} cells, the axis {metric.size}"
    resolution = channel.resolution if isinstance(channel, RoundedChannel) else 0
    if resolution != axis.domain.rounding_bits:
        yield (
            f"values are read to {axis.domain.rounding_bits} bits between grid points, but the "
            f"channel rounds {resolution}"
        )
    if resolution and not isinstance(metric, LineMetric | CappedLineMetric):
        yield "values between grid points need a distance along a line"


def row_problems(rows: Sequence[Sequence[int]], total: int, size: int) -> Iterator[str]:
    """Whether the words are a law: none negative, and every row uses all of them."""
    if len(rows) != size:
        yield f"the table has {len(rows)} rows for {size} cells"
    for x, row in enumerate(rows):
        if len(row) != len(rows[0]):
            yield f"the row of cell {x} has {len(row)} outputs, the first has {len(rows[0])}"
        if min(row) < 0:
            yield f"the row of cell {x} has a negative number of words"
        if sum(row) != total:
            yield f"the row of cell {x} sums to {sum(row)} words, not to {total}"


def sampler_problems(channel: Channel) -> Iterator[str]:
    """Whether what `encode` looks up is the table that the channel shows."""
    if isinstance(channel, GeometricChannel):
        noise = channel._noise
        if len(noise.weights) != 2 * channel.size - 1 or noise._precision != channel.precision:
            yield "the noise table has another size or precision than the channel"
        elif noise.weights != noise.weights[::-1]:
            yield "the noise table is not the same on both sides"
        else:
            yield from _word_table_problems(noise)
    elif isinstance(channel, CappedGeometricChannel):
        table, width = channel._table, 2 * channel.size - 1
        if len(table.weights) != width + channel.size or table._precision != channel.precision:
            yield "the table has another size or precision than the channel"
        elif table.weights[:width] != table.weights[:width][::-1]:
            yield "the noise table is not the same on both sides"
        else:
            yield from _word_table_problems(table)
    elif isinstance(channel, ThermometerChannel):
        if len(channel.flip_words) != channel.width or channel.width < channel.size - 1:
            yield f"the channel has {len(channel.flip_words)} chances for {channel.size - 1} bits"
        elif _flip_chances(channel) != list(channel.flip_words):
            yield "the sampler flips bits with other chances than the channel shows"
    elif isinstance(channel, MatrixResponseChannel):
        if channel.code.members.shape != (channel.width, channel.size):
            yield f"the code has another shape than {channel.width} bits of {channel.size} cells"
        elif _flip_chances(channel) != list(channel.flip_words):
            yield "the sampler flips bits with other chances than the channel shows"
    elif isinstance(channel, OUEChannel | HRRChannel):
        if _flip_chances(channel) != [channel.flips]:
            yield "the sampler flips bits with another chance than the channel shows"
    elif isinstance(channel, HadamardChannel):
        yield from _hadamard_problems(channel)
    elif isinstance(channel, LevelsChannel):
        if channel._draw.weights != channel.level_words:
            yield "the sampler draws levels with other chances than the channel shows"
        else:
            yield from _word_table_problems(channel._draw)
        for part in channel.parts:
            yield from sampler_problems(part.inner)
    elif isinstance(channel, ExponentialChannel):
        bounds = [[s % (1 << 64) for s in accumulate(row[:-1])] for row in channel._rows]
        last = [max((y for y, word in enumerate(row) if word), default=0) for row in channel._rows]
        if channel._bounds.tolist() != bounds or channel._last.tolist() != last:
            yield "the sampler searches other bounds than the channel shows"


def _hadamard_problems(channel: HadamardChannel) -> Iterator[str]:
    """Whether rows differ, columns are shared with those alone who must be hidden, flips agree."""
    matrices, metric = channel.matrices, channel.metric
    chances = [channel.flips, 2 * channel.flips] if matrices.covered else [channel.flips]
    if _flip_chances(channel) != chances:
        yield "the sampler changes columns with another chance than the channel shows"
    inside = matrices.row != 0
    if len(np.unique(matrices.place)) < channel.size or np.any(matrices.row > matrices.mask):
        yield "two cells have one row or symbol, or a row is beyond its matrix"
    start = matrices.place - matrices.row
    if isinstance(metric, BlockMetric):
        names, block = np.unique(metric.block, return_inverse=True)
        pairs = len(np.unique(block * channel.outputs + start))
        alone = len(names) == pairs == len(np.unique(start))
    else:
        high = metric.sensitive if isinstance(metric, HighLowMetric) else True
        alone = bool(np.all(inside == high)) and not np.any(start[inside])
    if not alone:
        yield "some cells share columns with others than those they must be hidden among"


def _word_table_problems(table: WordTable) -> Iterator[str]:
    """Whether a table's bounds and guide give every outcome its weight."""
    if min(table.weights) < 0 or sum(table.weights) != 1 << table._precision:
        yield f"the noise table sums to {sum(table.weights)} words, not to 2^{table._precision}"
        return
    last = max(place for place, weight in enumerate(table.weights) if weight)
    if table._bounds.tolist() != list(accumulate(table.weights[:last])):
        yield "the sampler's bounds are not the sums of the noise table"
        return
    lead = len(table._guide).bit_length() - 1
    cell = np.uint64(1 << (table._precision - lead))
    first = np.arange(len(table._guide), dtype=np.uint64) * cell
    sure = np.flatnonzero(table._guide >= 0)
    outcome = table._guide[sure]
    start = np.concatenate([np.zeros(1, dtype=np.uint64), table._bounds])[outcome]
    end = np.concatenate([table._bounds, np.full(1, (1 << table._precision) - 1, dtype=np.uint64)])
    reach = first[sure] + (cell - np.uint64(1))
    beyond = np.where(outcome == len(table._bounds), reach > end[-1], reach >= end[outcome])
    if np.any(first[sure] < start) or np.any(beyond):
        yield "the sampler's guide points to outcomes that its bounds do not"


def _flip_chances(
    channel: ThermometerChannel | MatrixResponseChannel | OUEChannel | HRRChannel | HadamardChannel,
) -> list[int]:
    """The chances that the sampler's binary digits spell; -1 where a digit is neither 0 nor 1."""
    digits, certain = channel._flips._digits, channel._flips._certain
    ones = np.uint64((1 << 64) - 1)
    if not np.all((digits == 0) | (digits == ones)) or digits.shape[0] != channel.precision:
        return [-1]
    spelled = [int("".join("1" if d else "0" for d in column), 2) for column in digits.T]
    return [s + (int(bool(c)) << channel.precision) for s, c in zip(spelled, certain, strict=True)]


def disagreements(channel: Channel, rows: Sequence[Sequence[int]]) -> Iterator[str]:
    """Whether the law that is shown is the one that the sampler's table gives."""
    if isinstance(channel, GeometricChannel | CappedGeometricChannel):
        last = channel.size - 1
        if isinstance(channel, GeometricChannel):
            noise, fixed = channel._noise.weights, (0,) * channel.size
        else:
            noise = channel._table.weights[: 2 * last + 1]
            fixed = channel._table.weights[2 * last + 1 :]
        for x, row in enumerate(rows):
            drawn = list(noise[last - x : 2 * last - x + 1])
            drawn[0] += sum(noise[: last - x])
            drawn[-1] += sum(noise[2 * last - x + 1 :])
            if [a + b for a, b in zip(drawn, fixed, strict=True)] != list(row):
                yield f"the row of cell {x} is not the noise table moved and clamped"
    elif isinstance(channel, ThermometerChannel | MatrixResponseChannel):
        total = 1 << channel.precision
        for x, row in enumerate(rows):
            law = [1]
            for k, flip in enumerate(channel.flip_words):
                is_one = x <= k
                if isinstance(channel, MatrixResponseChannel):
                    is_one = bool(channel.code.members[k, x])
                one = total - flip if is_one else flip
                law = [word * (total - one) for word in law] + [word * one for word in law]
            if law != list(row):
                yield f"the row of cell {x} is not the product of its bits' chances"
