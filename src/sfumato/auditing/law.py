"""The law of a channel's steps, summed over all outcomes, against what it shows and claims.

`Channel.words` is the law that is checked against E, and `worst_ratio` what a channel claims of it.
The steps are what `encode` was seen to do. Wherever all combinations of outcomes of a cell can be
listed, its row is summed up in integers: it must be the one shown, and no odds may be beyond those
claimed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.auditing.paths import Path, paths_of, run
from sfumato.channels.base import Channel
from sfumato.channels.odds import Bound
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.distance import LineMetric
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.draws import Draw, Flips

_MOST_LEAVES = 1 << 17  # combinations of outcomes of all cells whose rows are summed up
_MOST_SHOWN = 1 << 20  # entries of the law that are listed for it
_MOST_CELLS = 1 << 8


Rows = Mapping[int, tuple[list[int], int]]


def law_problems(channel: Channel, metric: CellMetric, rows: Rows) -> Iterator[str]:
    """What is wrong with the law that a channel shows, or with the odds that it claims.

    Args:
        channel: What is checked.
        metric: E between its cells.
        rows: What `encode` does at some codes: words by output, and their sum.
    """
    outputs = channel.layout.count if channel.layout.kind == "symbols" else 2**channel.layout.count
    places = 1 << channel.resolution
    if rows and channel.size * outputs <= _MOST_SHOWN:
        shown, total = channel.words()
        for code, (row, common) in rows.items():
            cell, part = divmod(code, places)
            pairs = zip(shown[cell], shown[cell + bool(part)], strict=True)
            law = [(places - part) * low + part * high for low, high in pairs]
            if [word * total * places for word in row] != [word * common for word in law]:
                yield f"the law that is checked for cell {cell} is not the one that encode follows"
                return
    at_cells = {code // places: row for code, (row, _) in rows.items() if code % places == 0}
    yield from _claim_problems(channel, metric, at_cells)


def some_codes(channel: Channel, most: int) -> list[int]:
    """Cells as `encode` takes them, all or at both ends and in the middle, and places in between.

    Args:
        channel: Whose cells they are.
        most: How many cells at most.
    """
    size, places = channel.size, 1 << channel.resolution
    cells = list(range(min(size, most)))
    if size > most:
        third = most // 3
        middle = (size - third) // 2
        cells = [*range(third), *range(middle, middle + third), *range(size - third, size)]
    parts = sorted({0, 1, places // 2, places - 1}) if places > 1 else [0]
    last = (size - 1) * places
    return sorted({min(cell * places + part, last) for cell in cells for part in parts})


def listed_rows(channel: Channel) -> Rows:
    """The law of the steps at as many cells as can be listed."""
    paths = list(paths_of(channel.steps))
    leaves = sum(path.leaves for path in paths)
    codes = some_codes(channel, min(_MOST_CELLS, _MOST_LEAVES // leaves))
    return {code: row_of(channel, code, paths) for code in codes}


def row_of(channel: Channel, code: int, paths: Sequence[Path]) -> tuple[list[int], int]:
    """The exact law of the steps at a cell or a place between two: words by output, and their sum.

    Args:
        channel: Whose steps they are.
        code: A cell, as `encode` takes it.
        paths: The paths of its reports.
    """
    parts = [_part(channel, code, path) for path in paths]
    common = math.lcm(*(total for *_, total in parts))
    bits = channel.layout.kind == "bits"
    row = [0] * (1 << channel.layout.count if bits else channel.layout.count)
    for outputs, words, total in parts:
        for output, word in zip(outputs, words, strict=True):
            row[output] += word * (common // total)
    return row, common


def _part(channel: Channel, code: int, path: Path) -> tuple[list[int], list[int], int]:
    """The outputs of one path, one for each combination of outcomes, and their words."""
    sizes = [draw.outcomes for draw in path.draws if not draw.branches]
    each = iter(np.unravel_index(np.arange(path.leaves), sizes or (1,)))
    branches = iter(path.branches)
    words: NDArray[Any] = np.ones(path.leaves, dtype=object)
    total = 1

    def follow(draw: Draw) -> Any:
        nonlocal words, total
        total *= draw.total
        if draw.branches:
            branch = next(branches)
            words = words * draw.weights(np.array([branch]))[0]
            return branch
        outcomes: Any = next(each)
        if isinstance(draw, Flips):
            outcomes = (outcomes[:, None] >> np.arange(len(draw.chances)) & 1).astype(np.uint8)
        words = words * np.array(draw.weights(outcomes), dtype=object)
        return outcomes

    made = run(channel.steps(np.full(path.leaves, code)), follow)
    if channel.layout.kind == "bits":
        made = made.astype(np.int64) @ (1 << np.arange(made.shape[1]))
    return made.tolist(), words.tolist(), total


def _claim_problems(
    channel: Channel, metric: CellMetric, rows: dict[int, list[int]]
) -> Iterator[str]:
    """No two neighbours may show odds beyond those that the channel claims, nor may these exceed E.

    All rows have the same sum.
    """
    claimed = channel.worst_ratio()
    if claimed is None:
        return
    step = metric.equal_step if isinstance(metric, LineMetric) else None
    if isinstance(metric, UniformMetric | BlockMetric | HighLowMetric):
        step = metric.epsilon
    if step is not None and not Bound(step, linear=channel.rounds).allows(
        claimed.numerator, claimed.denominator
    ):
        yield "the channel claims odds beyond its bound (worst_ratio)"
        return
    for low, high in pairwise(sorted(rows)):
        if high > low + 1 and not isinstance(metric, UniformMetric):
            continue
        for x, y in ((low, high), (high, low)):
            if metric.exact(x, y) is not None and _exceeds(rows[x], rows[y], claimed):
                yield (
                    f"the odds of cell {x} against cell {y} are larger than the channel claims "
                    "(worst_ratio)"
                )
                return


def _exceeds(row: Sequence[int], other: Sequence[int], odds: Fraction) -> bool:
    """Whether some output has larger odds than these between two rows."""
    more, less = odds.numerator, odds.denominator
    return any(a * less > more * b for a, b in zip(row, other, strict=True))
