"""What a channel claims of its odds (`worst_ratio`), against the law that `encode` follows.

Where rows can be listed, all outputs are compared. Bits that are flipped independently multiply
their odds, so that no pattern need be listed. Of other channels with many outputs, some are
compared: those at the ends of their tables, where the rarest and the likeliest are, and others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from sfumato.auditing.law import Rows, chances_at, outputs_by, some_codes
from sfumato.auditing.paths import Path, run
from sfumato.channels.base import Channel
from sfumato.channels.odds import Bound
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.distance import CappedLineMetric, LineMetric
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.draws import Draw, Flips, Lane

_MOST_CELLS = 12  # of which every two are compared, where cells have no order
_FEWEST_CELLS = 6  # neighbours at both ends and in the middle
_MOST_LEAVES = 1 << 22  # combinations of outcomes at one cell
_SOME_OUTPUTS = 64

#: From two cells to the largest odds found of the first against the second.
Odds = Callable[[int, int], Fraction | float]


def claim_problems(
    channel: Channel, metric: CellMetric, rows: Rows, paths: Sequence[Path]
) -> Iterator[str]:
    """Odds beyond those that a channel claims, or a claim beyond E.

    Args:
        channel: What is checked.
        metric: E between its cells.
        rows: Its law at some codes, where that can be listed.
        paths: The paths of its reports; none where it lists no steps.
    """
    claimed = channel.worst_ratio()
    if claimed is None:
        return
    step = metric.equal_step if isinstance(metric, LineMetric | CappedLineMetric) else None
    if isinstance(metric, UniformMetric | BlockMetric | HighLowMetric):
        step = metric.epsilon
    linear = channel.rounds and not isinstance(metric, UniformMetric)
    bound = None if step is None else Bound(step, linear=linear)
    if bound is not None and not bound.allows(claimed.numerator, claimed.denominator):
        yield "the channel claims odds beyond its bound (worst_ratio)"
        return
    places = 1 << channel.resolution
    cells = sorted(code // places for code in rows if code % places == 0)
    odds: Odds | None = _by_rows(rows, places)
    if len(cells) < min(_FEWEST_CELLS, channel.size):  # too few to have neighbours among them
        codes = some_codes(channel, _FEWEST_CELLS)
        cells = [code // places for code in codes if code % places == 0]
        odds = _by_bits(channel, paths) or _by_outputs(channel, cells, paths)
    if odds is None:
        return
    for x, y in _pairs(cells, metric):
        if metric.exact(x, y) is not None and odds(x, y) > claimed:
            yield (
                f"the odds of cell {x} against cell {y} are larger than the channel claims "
                "(worst_ratio)"
            )
            return


def _pairs(cells: list[int], metric: CellMetric) -> Iterator[tuple[int, int]]:
    """Neighbours on a line; otherwise any two of a few cells, spread over all."""
    if isinstance(metric, LineMetric | CappedLineMetric):
        for low, high in itertools.pairwise(cells):
            if high == low + 1:
                yield from ((low, high), (high, low))
        return
    few = np.unique(np.linspace(0, len(cells) - 1, _MOST_CELLS).round().astype(int))
    yield from itertools.permutations([cells[k] for k in few], 2)


def _by_rows(rows: Rows, places: int) -> Odds:
    """Odds over all outputs; all rows have the same sum."""

    def odds(x: int, y: int) -> Fraction | float:
        (row, _), (other, _) = rows[x * places], rows[y * places]
        more, less = 0, 1
        for a, b in zip(row, other, strict=True):
            if a * less > more * b:
                more, less = a, b
        return Fraction(more, less) if less else math.inf

    return odds


def _by_bits(channel: Channel, paths: Sequence[Path]) -> Odds | None:
    """Products of the odds of bits that are each flipped by itself; None where they are not.

    A fair coin may stand in for a bit. Where draws branch, each path has bits of its own that are
    flipped, and the others are constant; a path is as likely at every cell.
    """
    if channel.layout.kind != "bits" or not paths or not all(path.flips for path in paths):
        return None
    ones = cache(lambda cell, number: _ones(channel, cell, paths[number]))
    if any(ones(0, number) is None for number in range(len(paths))):
        return None

    def odds(x: int, y: int) -> Fraction | float:
        return max(along(number, x, y) for number in range(len(paths)))

    def along(number: int, x: int, y: int) -> Fraction | float:
        total, found = 2 << channel.precision, Fraction(1)
        mine, others = ones(x, number), ones(y, number)
        if mine is None or others is None:
            return math.inf
        for a, b in zip(mine, others, strict=True):
            if a != b:
                if not 0 < b < total:
                    return math.inf
                found *= max(Fraction(a, b), Fraction(total - a, total - b))
        return found

    return odds


def _ones(channel: Channel, cell: int, path: Path) -> list[int] | None:
    """Of 2^(precision + 1) words, how many make each bit a one: by flips, and by a fair coin.

    None unless as many bits move as are flipped.
    """
    chances: list[int] = []
    branches = iter(path.branches)

    def follow(draw: Draw) -> Any:
        """Four people: no flip, or all, and either side of the coin."""
        if draw.branches:
            return next(branches)
        if isinstance(draw, Flips):
            chances.extend(draw.chances.tolist())
            return np.repeat([0, 1, 0, 1], len(draw.chances)).reshape(4, -1)
        if isinstance(draw, Lane):
            return np.array([0, 0, 1, 1])
        return draw.outcome(np.zeros(4, dtype=np.uint64))

    made = run(channel.steps(np.full(4, cell << channel.resolution)), follow).astype(int)
    moved = np.flatnonzero((made != made[0]).any(axis=0)).tolist()
    if len(moved) != len(chances):
        return None
    total, flips = 1 << channel.precision, dict(zip(moved, chances, strict=True))
    pairs = zip((made[0] + made[2]).tolist(), (made[1] + made[3]).tolist(), strict=True)
    return [
        (total - flips.get(bit, 0)) * kept + flips.get(bit, 0) * flipped
        for bit, (kept, flipped) in enumerate(pairs)
    ]


def _by_outputs(channel: Channel, cells: list[int], paths: Sequence[Path]) -> Odds | None:
    """Odds over some outputs of a channel with many; None where its outcomes are too many."""
    if channel.layout.kind != "symbols" or not paths:
        return None
    if sum(path.leaves for path in paths) > _MOST_LEAVES:
        return None
    finest = max(paths, key=lambda path: path.leaves)
    some = np.random.default_rng(0).integers(finest.leaves, size=_SOME_OUTPUTS)
    leaves = np.concatenate([np.arange(-4, 4) % finest.leaves, some])
    codes = {cell: cell << channel.resolution for cell in cells}
    telling = [outputs_by(channel, code, finest, leaves) for code in codes.values()]
    outputs = np.unique(np.concatenate(telling))
    law = {cell: chances_at(channel, code, paths, outputs) for cell, code in codes.items()}

    def odds(x: int, y: int) -> Fraction | float:
        pairs = [(a, b) for a, b in zip(law[x], law[y], strict=True) if a]
        return max(a / b if b else math.inf for a, b in pairs)

    return odds
