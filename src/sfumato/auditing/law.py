"""The law of a channel's steps, summed up over all outcomes, against the law that it shows.

`Channel.words` is the law that is checked against E; the steps are what `encode` was seen to do.
Wherever all combinations of outcomes at a cell can be listed, its row is summed up in integers, and
must be the one shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.auditing.paths import Path, run
from sfumato.channels.base import Channel
from sfumato.randomness.draws import Draw, Flips

_MOST_LEAVES = 1 << 17  # combinations of outcomes of all cells whose rows are summed up
_MOST_SHOWN = 1 << 20  # entries of the law that are listed for it
_MOST_CELLS = 1 << 8
_LEAVES_AT_ONCE = 1 << 20

Rows = Mapping[int, tuple[list[int], int]]


def law_problems(channel: Channel, rows: Rows) -> Iterator[str]:
    """Where the law that a channel shows is not the one that `encode` follows.

    Args:
        channel: What is checked.
        rows: What `encode` does at some codes: words by output, and their sum.
    """
    outputs = channel.layout.count if channel.layout.kind == "symbols" else 2**channel.layout.count
    places = 1 << channel.resolution
    if not rows or channel.size * outputs > _MOST_SHOWN:
        return
    shown, total = channel.words()
    for code, (row, common) in rows.items():
        cell, part = divmod(code, places)
        pairs = zip(shown[cell], shown[cell + bool(part)], strict=True)
        law = [(places - part) * low + part * high for low, high in pairs]
        if [word * total * places for word in row] != [word * common for word in law]:
            yield f"the law that is checked for cell {cell} is not the one that encode follows"
            return


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


def listed_rows(channel: Channel, paths: Sequence[Path]) -> Rows:
    """The law of the steps at as many cells as can be listed.

    Args:
        channel: Whose steps they are.
        paths: The paths of its reports.
    """
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
    cell = code >> channel.resolution
    mine = [path for path in paths if path.is_of(cell)]
    parts = [_part(channel, code, path, np.arange(path.leaves)) for path in mine]
    common = math.lcm(*(total for *_, total in parts))
    bits = channel.layout.kind == "bits"
    row = [0] * (1 << channel.layout.count if bits else channel.layout.count)
    for outputs, words, total in parts:
        for output, word in zip(outputs, words, strict=True):
            if word:  # at the last grid point, the way up has no words and leads nowhere
                row[output] += word * (common // total)
    return row, common


def chances_at(
    channel: Channel, code: int, paths: Sequence[Path], outputs: NDArray[np.int64]
) -> list[Fraction]:
    """The exact chances of a few of many symbols at a cell.

    Args:
        channel: Whose steps they are.
        code: A cell, as `encode` takes it.
        paths: The paths of its reports.
        outputs: Distinct symbols.
    """
    found = dict.fromkeys(outputs.tolist(), Fraction(0))
    for path in paths:
        total, words_of = 1, dict.fromkeys(found, 0)
        for start in range(0, path.leaves, _LEAVES_AT_ONCE):
            leaves = np.arange(start, min(start + _LEAVES_AT_ONCE, path.leaves))
            made = outputs_by(channel, code, path, leaves)
            some, words, total = _part(channel, code, path, leaves[np.isin(made, outputs)])
            for output, word in zip(some, words, strict=True):
                words_of[output] += word
        for output, word in words_of.items():
            found[output] += Fraction(word, total)
    return list(found.values())


def outputs_by(
    channel: Channel, code: int, path: Path, leaves: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The outputs of a path by some combinations of outcomes; bits as one number, bit 0 lowest.

    Args:
        channel: Whose steps they are.
        code: A cell, as `encode` takes it.
        path: The branches that are taken.
        leaves: Combinations, by number.
    """
    answers = iter(_answers(path, leaves))
    made = run(channel.steps(np.full(len(leaves), code)), lambda draw: next(answers))
    if channel.layout.kind == "bits":
        made = made.astype(np.int64) @ (1 << np.arange(made.shape[1]))
    return np.asarray(made, dtype=np.int64)


def _part(
    channel: Channel, code: int, path: Path, leaves: NDArray[np.int64]
) -> tuple[list[int], list[int], int]:
    """Outputs by some combinations of outcomes, the words of each, and those of all."""
    words: NDArray[Any] = np.ones(len(leaves), dtype=object)
    total = 1
    answers = iter(_answers(path, leaves))

    def weigh(draw: Draw) -> Any:
        nonlocal words, total
        answer = next(answers)
        words = words * np.array(draw.weights(np.atleast_1d(answer)), dtype=object)
        total *= draw.total
        return answer

    run(channel.steps(np.full(len(leaves), code)), weigh)
    return outputs_by(channel, code, path, leaves).tolist(), words.tolist(), total


def _answers(path: Path, leaves: NDArray[np.int64]) -> Iterator[Any]:
    """What each draw of a path is answered, for combinations of outcomes by number."""
    branches = iter(path.branches)
    sizes = [draw.outcomes for draw in path.draws if not draw.branches]
    split = iter(np.unravel_index(leaves, sizes or (1,)))
    for draw in path.draws:
        if draw.branches:
            yield next(branches)
            continue
        outcomes = next(split)
        if isinstance(draw, Flips):
            outcomes = (outcomes[:, None] >> np.arange(len(draw.chances)) & 1).astype(np.uint8)
        yield outcomes
