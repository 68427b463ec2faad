"""Simulated tallies of a known population, for experiments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import DENSE_CELLS, Layout, no_outputs
from sfumato.channels.base import Channel
from sfumato.channels.flips import BitChannel
from sfumato.checks import numbers, one_of
from sfumato.collect.accumulator import KEEPS
from sfumato.collect.block_sums import BlockSums, Kept, is_sum, reduced
from sfumato.collect.parquet import MOST_PEOPLE
from sfumato.collect.statistics import BitReports, SymbolCounts, merged
from sfumato.collect.tally import Tally
from sfumato.errors import StudyError, TooLargeError
from sfumato.randomness.bits import SeededBits
from sfumato.study.study import Study

_PEOPLE_AT_ONCE = 1 << 20
_MOST_ENTRIES = 1 << 27  # of one block's matrix of cells by outputs
# A multinomial draw of one cell costs about as much as this many people encoded one by one.
_DRAW_COST = 4.0


def as_counts(counts: ArrayLike, shape: Sequence[int]) -> NDArray[np.int64]:
    """A true histogram over all cells, checked.

    Args:
        counts: People in each cell, shaped like the axes or flat in C order.
        shape: Number of cells of every axis.

    Returns:
        The counts with the given shape.
    """
    whole = numbers(counts, "counts")
    given = np.asarray(counts)
    if given.size != math.prod(shape) or (given.ndim > 1 and given.shape != tuple(shape)):
        raise StudyError(
            f"counts must have one entry per cell, shape {' × '.join(map(str, shape))} or flat in "
            f"C order, got shape {given.shape}"
        )
    if not np.isfinite(whole).all() or (whole < 0).any() or (whole != np.floor(whole)).any():
        raise StudyError("counts must be whole numbers of people, zero or more; some are not")
    if whole.max(initial=0) >= 1 << 64:
        refuse_many()
    return given.astype(np.int64).reshape(tuple(shape))


def simulated_tally(study: Study, counts: ArrayLike, seed: int, keep: str = "reports") -> Tally:
    """Draw the tally of a known population.

    Args:
        study: The study.
        counts: People in each cell, shaped like the axes or flat in C order.
        seed: Any integer.
        keep: What the tally keeps, "reports" or "sums".
    """
    one_of(keep, "keep", KEEPS)
    people = as_counts(counts, study.shape)
    if people.sum(dtype=np.float64) > MOST_PEOPLE or people.min(initial=0) < 0:  # as if with a sign
        refuse_many()
    if keep == "sums" and not is_sum(study.layouts):
        return Tally(study, draw_sums(study.channels, people, seed))
    return Tally(study, draw_tally(study.channels, people, seed))


def refuse_many() -> NoReturn:
    """Refuse more people than a tally can count."""
    raise TooLargeError(f"counts must be of at most {MOST_PEOPLE:,} people in all, got more")


def draw_tally(
    channels: Sequence[Channel], counts: NDArray[np.int64], seed: int
) -> SymbolCounts | BitReports:
    """Draw a tally from its exact distribution: by cell where that is cheaper, else by person.

    Args:
        channels: The channel of every block.
        counts: People in every cell of the grid of all blocks, in C order.
        seed: Any integer.
    """
    people = int(counts.sum())
    layouts = _layouts(channels)
    symbols = all(layout.kind == "symbols" for layout in layouts)
    sizes = [channel.size for channel in channels]
    counts = counts.reshape(sizes)
    draws = sum(math.prod(sizes) * layout.count for layout in layouts)
    entries = [channel.size * channel.layout.count for channel in channels]
    small = max(sizes) <= DENSE_CELLS and max(entries) <= _MOST_ENTRIES
    if symbols and small and draws < _DRAW_COST * people:
        return _draw_by_cell(channels, counts, seed)
    found: SymbolCounts | BitReports = _draw_by_person(channels, counts, seed)
    return found


def draw_sums(channels: Sequence[Channel], counts: NDArray[np.int64], seed: int) -> BlockSums:
    """Draw the sums of a tally from their exact distribution, block by block.

    Given the records, the outputs of different blocks are independent, and so are their sums.

    Args:
        channels: The channel of every block.
        counts: People in every cell of the grid of all blocks, in C order.
        seed: Any integer.
    """
    counts = counts.reshape([channel.size for channel in channels])
    seeds = SeededBits(seed).words(len(channels)).tolist()
    sums = []
    for place, (channel, own) in enumerate(zip(channels, seeds, strict=True)):
        others = tuple(axis for axis in range(len(channels)) if axis != place)
        sums.append(_block_sums(channel, counts.sum(axis=others), own))
    return BlockSums(_layouts(channels), tuple(sums), int(counts.sum()))


def _block_sums(channel: Channel, counts: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """How many people send each symbol, or have each bit set."""
    if not isinstance(channel, BitChannel):
        return BlockSums.of(draw_tally([channel], counts, seed)).sums[0]
    rng = np.random.Generator(np.random.PCG64(seed))
    sums = np.zeros(channel.width, dtype=np.int64)
    for cell in np.flatnonzero(counts).tolist():
        chances = channel.bit_chances(cell)
        if chances is None:  # a report's bits depend on each other
            found: BlockSums = _draw_by_person([channel], counts, seed, "sums")
            return found.sums[0]
        # Of the people of one cell, those with a bit set are binomial, independently of others.
        sums += rng.binomial(counts[cell], chances)
    return sums


def _draw_by_cell(
    channels: Sequence[Channel], counts: NDArray[np.int64], seed: int
) -> SymbolCounts:
    """Draw how the people of every cell spread over the outputs (multinomial), block by block."""
    rng = np.random.Generator(np.random.PCG64(seed))
    table = counts
    for axis, channel in enumerate(channels):
        law = channel.likelihood()
        law /= law.sum(axis=1, keepdims=True)
        cells = np.moveaxis(table, axis, -1)
        out = np.zeros((*cells.shape[:-1], law.shape[1]), dtype=np.int64)
        for cell in range(channel.size):
            out += rng.multinomial(cells[..., cell], law[cell])
        table = np.moveaxis(out, -1, axis)
    found = np.nonzero(table)
    return SymbolCounts.of(_layouts(channels), found, table[found])


def _draw_by_person(
    channels: Sequence[Channel], counts: NDArray[np.int64], seed: int, keep: Kept = "reports"
) -> Any:
    """Encode every person, a chunk at a time."""
    bits, layouts = SeededBits(seed), _layouts(channels)
    cells = np.flatnonzero(counts)
    people = counts.ravel()[cells]
    ends = np.cumsum(people)
    parts: list[Any] = []
    total = int(ends[-1]) if len(ends) else 0
    for start in range(0, total, _PEOPLE_AT_ONCE):
        which = np.arange(start, min(start + _PEOPLE_AT_ONCE, total))
        chunk = cells[np.searchsorted(ends, which, side="right")]
        places = np.unravel_index(chunk, counts.shape)
        codes = [_code(c, p) for c, p in zip(channels, places, strict=True)]
        outputs = [c.encode(code, bits) for c, code in zip(channels, codes, strict=True)]
        parts.append(reduced(layouts, outputs, keep))
    return merged(parts or [reduced(layouts, no_outputs(layouts), keep)])


def _layouts(channels: Sequence[Channel]) -> tuple[Layout, ...]:
    """How each channel's output is written."""
    return tuple(channel.layout for channel in channels)


def _code(channel: Channel, cells: NDArray[np.intp]) -> NDArray[np.int64]:
    """Codes of the grid points themselves, which stochastic rounding leaves unchanged."""
    return cells.astype(np.int64) << channel.resolution
