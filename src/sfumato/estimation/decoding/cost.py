"""What likelihood decoding costs, counted before it starts, and whether it can pay.

Processor seconds are counted operations divided by stated rates. Nothing is timed, so the same
tally gives the same decision on every machine. The operations are those of one fit in the form
that the problem takes (`curvature`), times the number of fits that a search for the strengths
makes. They follow from numbers that are known beforehand: cells, kinds of reports (or distinct
reports, where these are bits), and whether a channel is a matrix, geometric noise on a line, or a
transform. All constants are in one table below. Over 28 studies from 50 to 60,000 cells the count
was mostly within a factor of two of the time on one core, and always within four.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.arrays import MOST_ROW_ENTRIES, most_outputs
from sfumato.channels.base import SymbolChannel
from sfumato.collect.block_sums import UNDECODED, AnyStatistic, BlockSums
from sfumato.collect.statistics import MOST_GRID
from sfumato.collect.term_sums import TermSums
from sfumato.estimation.decoding.fitting import DENSE_CELLS as FACTORISED_CELLS
from sfumato.estimation.decoding.joining import Runs
from sfumato.estimation.decoding.mixture import MOST_CELLS
from sfumato.study.blocks import Block

# The table of constants. Rates are per processor second of one core.
MATRIX_RATE = 3.5e10  # multiplications and additions in products of matrices
TABLE_RATE = 2e9  # entries of a table that is read from memory for one product with a vector
MAKING_RATE = 3e7  # entries of a likelihood matrix that is made
ENTRY_RATE = 5e7  # cells or outputs that pass through a recursive filter or a transform
CALL_SECONDS = 3e-5  # of one pass through a channel, however small
STEP_SECONDS = 3e-4  # of one step of a fit, however small

LINE_CELL = 5e-7  # seconds per step and cell, where geometric noise on a line is solved by bands
LINE_STEPS = 250  # of a search on a line …
LONG_LINE_STEPS = 90  # … and on one so long that rough priors are seldom tried
LONG_LINE_CELLS = 1 << 12
EVEN_CELL = 4e-4  # seconds per cell of a search by an expansion in Fourier space

STEPS = 200  # of a search on few cells
FACTORS = 120  # matrices over all cells that are factorised in it
UNORDERED_FACTORS = 36  # the same without an ordered axis
SECONDS = 8  # second derivatives by all cells that are made from all outputs
FITS = 17  # by a search on a grid
CURVATURES = 4  # that are made in a fit
WAVES = 200  # that reports can tell on a grid …
LINE_WAVES = 80  # … or along one axis
PRODUCTS = 100  # with the curvature in a fit, where waves do not help
ROUGH_PRODUCTS = 1000  # by a search for a rough prior
SEVERAL_PRODUCTS = 2000  # in a search on more than two axes, of which few waves can be left out
LAST_PRODUCTS = 200  # in the only fit on all cells of the largest grids
EM_STEPS = 2000  # without smoothing

JOINED_CELLS = 1 << 12  # strengths are chosen on at most this many groups of cells, or fewer …
LINE_JOINED_CELLS = 1 << 8  # … or along one axis on this many
WAVE_WORK = 1 << 30  # waves² × outputs
LARGEST_WAVES = 1 << 18  # cells beyond which waves do not help
MATRIX_AXIS = 256  # up to this many cells of an axis its channel is a matrix
MATRIX_ENTRIES = 1 << 20
JOINED_ENTRIES = 1 << 25  # the same where kinds of reports are joined

_FEW_AXES = 2

#: Unbiased standard errors below this many people leave nothing to gain.
LEAST_ERROR = 0.5


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of decoding some blocks.

    Args:
        shape: Number of cells of every axis.
        outputs: Kinds of reports, or distinct reports where some are bits.
        seconds: Processor seconds, counted; infinite if it is refused.
        refused: Why it is refused whatever time it may take; None if it is not.
    """

    shape: tuple[int, ...]
    outputs: int
    seconds: float
    refused: str | None = None

    @property
    def grid(self) -> str:
        """The cells in words, such as "64 × 64 cells"."""
        return f"{' × '.join(f'{size:,}' for size in self.shape)} cells"


def cost_of(
    statistic: AnyStatistic,
    blocks: Sequence[Block],
    ordered: Sequence[bool],
    *,
    smoothing: str = "auto",
) -> Cost:
    """Count what decoding some blocks of a tally jointly costs.

    Args:
        statistic: The tally.
        blocks: The blocks to decode.
        ordered: For each axis of these blocks, whether it may be smoothed.
        smoothing: "auto" or "none", as in `Tally.estimate`.
    """
    shape = tuple(size for block in blocks for size in block.shape)
    parts = [_Part.of(block) for block in blocks]
    if any(part.outputs is None for part in parts):
        return _cost_of_rows(statistic, blocks, shape, ordered, smoothing)
    outputs = math.prod(part.outputs or 1 for part in parts)
    refused = _refused_symbols(blocks, parts, shape)
    if refused is not None:
        return Cost(shape, outputs, math.inf, refused)
    if smoothing == "auto" and len(parts) == 1 and parts[0].is_filter:
        return Cost(shape, outputs, _line_seconds(shape[0]))
    if smoothing == "auto" and len(parts) == 1 and parts[0].is_even:
        return Cost(shape, outputs, STEPS * STEP_SECONDS + EVEN_CELL * math.prod(shape))
    making = sum(part.cells * (part.outputs or 1) for part in parts if part.is_matrix)
    calls = len(parts) * CALL_SECONDS
    work = _Work(shape, outputs, _pass_seconds(parts) + calls, _pass_seconds(parts, several=True))
    seconds = making / MAKING_RATE + work.seconds(ordered, smoothing)
    return Cost(shape, outputs, seconds)


def _line_seconds(cells: int) -> float:
    """Processor seconds of a search on a line of geometric noise."""
    steps = LINE_STEPS if cells <= LONG_LINE_CELLS else LONG_LINE_STEPS
    return max(
        steps * (STEP_SECONDS + LINE_CELL * cells),
        LINE_STEPS * (STEP_SECONDS + LINE_CELL * min(cells, LONG_LINE_CELLS)),
    )


def reason_against(
    statistic: AnyStatistic,
    blocks: Sequence[Block],
    ordered: Sequence[bool],
    *,
    smoothing: str,
    seconds: float,
) -> str | None:
    """Why decoding some blocks of a tally is not worth its cost, in words; None if it is.

    Args:
        statistic: The tally.
        blocks: The blocks to decode.
        ordered: For each axis of these blocks, whether it may be smoothed.
        smoothing: "auto" or "none", as in `Tally.estimate`.
        seconds: The most processor seconds that it may take.
    """
    sends_bits = any(block.channel.layout.kind == "bits" for block in blocks)
    if isinstance(statistic, TermSums):
        return "unbiased, since this tally keeps sums for questions that were named beforehand"
    if sends_bits and isinstance(statistic, BlockSums):
        return f"unbiased, since {UNDECODED}"
    cost = cost_of(statistic, blocks, ordered, smoothing=smoothing)
    if cost.refused is not None:
        return f"unbiased, since decoding {cost.grid} {cost.refused}"
    if cost.seconds > seconds:
        return (
            f"unbiased, since decoding {cost.grid} would take about {_rounded(cost.seconds)} s, "
            f"more than {seconds:g} s; allow more with seconds=..., or insist with "
            'method="likelihood"'
        )
    if typical_error(blocks, statistic.count) < LEAST_ERROR:
        return "unbiased, since that is exact to half a person here: decoding would gain nothing"
    return None


def typical_error(blocks: Sequence[Block], people: float) -> float:
    """The standard error of an unbiased count: of the lower half of the cells of every block.

    It is the plan's figure for people who are spread evenly.

    Args:
        blocks: The blocks asked about.
        people: Number of people.
    """
    second = first = 1.0
    for block in blocks:
        half = (np.arange(block.size) < max(1, block.size // 2)).astype(np.float64)
        second *= float(np.mean(block.channel.second_moment(half)))
        first *= float(np.mean(half))
    return math.sqrt(people * max(second - first, 0.0))


@dataclass(frozen=True, slots=True)
class _Part:
    """One block in the count.

    Args:
        cells: Number of its cells.
        outputs: Kinds of reports after joining; None where reports are bits.
        is_matrix: Whether decoding uses its channel as a matrix.
        is_filter: Whether its channel is geometric noise along a line.
        is_even: Whether its channel covers several axes and knows its information by transforms.
    """

    cells: int
    outputs: int | None
    is_matrix: bool = False
    is_filter: bool = False
    is_even: bool = False

    @classmethod
    def of(cls, block: Block) -> _Part:
        """Read the numbers off a block."""
        channel = block.channel
        if not isinstance(channel, SymbolChannel):
            return cls(block.size, None)
        runs = Runs.of(channel)
        outputs = channel.layout.count if runs is None else len(runs.starts)
        entries = block.size * outputs
        dense = block.size <= MATRIX_AXIS and entries <= MATRIX_ENTRIES
        dense |= runs is not None and entries <= JOINED_ENTRIES
        one_axis = len(block.shape) == 1
        even = channel.knows_even_information and not one_axis
        return cls(block.size, outputs, dense and one_axis, channel.noise_line() is not None, even)


@dataclass(frozen=True, slots=True)
class _Work:
    """The numbers from which the work of a search is counted.

    Args:
        shape: Number of cells of every axis.
        outputs: Number of outputs.
        one_pass: Processor seconds of one pass from cells to outputs or back.
        one_of_many: The same for one of many distributions that pass together.
    """

    shape: tuple[int, ...]
    outputs: int
    one_pass: float
    one_of_many: float

    @property
    def cells(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    def seconds(self, ordered: Sequence[bool], smoothing: str) -> float:
        """Processor seconds of a search, or of EM without smoothing.

        Args:
            ordered: For each axis, whether it may be smoothed.
            smoothing: "auto" or "none".
        """
        if smoothing == "none":
            return EM_STEPS * 2 * self.one_pass
        if not any(ordered):
            rough = ROUGH_PRODUCTS * 2 * self.one_pass
            return self._small(UNORDERED_FACTORS) if self.cells <= FACTORISED_CELLS else rough
        if self.cells <= FACTORISED_CELLS:
            return self._small(FACTORS)
        if len(self.shape) == 1:
            return self._joined(LINE_JOINED_CELLS)._small(FACTORS) + self._last(LINE_WAVES)
        search = self._joined(JOINED_CELLS)
        total = FITS * CURVATURES * search._waves(min(WAVES, search.cells // 2))
        if search.cells < self.cells:
            total += self._last(min(WAVES, math.isqrt(WAVE_WORK // self.cells)))
        if len(self.shape) > _FEW_AXES:
            total += SEVERAL_PRODUCTS * 2 * self.one_pass
        return total

    def _joined(self, most: int) -> _Work:
        """The same with cells joined to at most so many groups, and outputs where they match."""
        share = min(1.0, most / self.cells)
        groups = max(1, math.floor(self.cells * share))
        matching = self.outputs <= 2 * self.cells
        outputs = math.ceil(self.outputs * share) if matching else self.outputs
        one, many = self.one_pass * share + CALL_SECONDS, self.one_of_many * share
        return _Work((groups,), outputs, one, many)

    def _small(self, factors: int) -> float:
        """Processor seconds of a search with matrices over all cells."""
        flops = factors * (self.cells**3 + 20.0 * self.cells**2)
        flops += SECONDS * 2.0 * self.cells**2 * self.outputs
        return flops / MATRIX_RATE + STEPS * (STEP_SECONDS + self.one_pass)

    def _waves(self, waves: int) -> float:
        """Processor seconds of one curvature over waves, and of the step that it is for."""
        passes = 1.5 * waves * self.one_of_many + 4 * self.one_pass
        return passes + waves**2 * self.outputs / MATRIX_RATE + STEP_SECONDS

    def _last(self, waves: int) -> float:
        """Processor seconds of the only fit on all cells."""
        if self.cells > LARGEST_WAVES:
            return LAST_PRODUCTS * 2 * self.one_pass
        return CURVATURES * self._waves(waves)


def _pass_seconds(parts: Sequence[_Part], *, several: bool = False) -> float:
    """Processor seconds of one pass through the channels of all blocks, one after another.

    Args:
        parts: The blocks.
        several: Whether many distributions pass together, of which this is one.
    """
    total = 0.0
    sizes = [part.cells for part in parts]
    for place, part in enumerate(parts):
        outputs = part.outputs or 1
        beside = math.prod(sizes) / part.cells
        if part.is_matrix and (several or beside > 1):
            total += 2.0 * part.cells * outputs * beside / MATRIX_RATE
        elif part.is_matrix:
            total += part.cells * outputs / TABLE_RATE
        elif part.is_filter:
            total += part.cells * beside / ENTRY_RATE
        else:
            total += (part.cells + outputs) * beside / ENTRY_RATE
        total += part.cells * beside / TABLE_RATE  # arrays are copied on the way
        sizes[place] = outputs
    return total


def _cost_of_rows(
    statistic: AnyStatistic,
    blocks: Sequence[Block],
    shape: tuple[int, ...],
    ordered: Sequence[bool],
    smoothing: str,
) -> Cost:
    """The cost where reports are bits: a table of distinct reports by cells."""
    cells = math.prod(shape)
    kinds = sum(
        block.channel.layout.count
        if block.channel.layout.kind == "bits"
        else math.log2(block.channel.layout.count)
        for block in blocks
    )
    reports = statistic.count if kinds > 60 else min(statistic.count, math.ceil(2**kinds))
    if cells > MOST_CELLS or reports * cells > MOST_ROW_ENTRIES:
        words = f"needs a table of {reports:,} reports by {cells:,} cells, which is too large"
        return Cost(shape, reports, math.inf, words)
    many = 2.0 * reports * cells / MATRIX_RATE
    work = _Work(shape, reports, reports * cells / TABLE_RATE + CALL_SECONDS, many)
    seconds = work.seconds(ordered, smoothing)
    if smoothing == "auto" and any(ordered) and cells > FACTORISED_CELLS:
        # Reports are not joined: waves pass through all of them.
        flops = FITS * CURVATURES * 2.0 * LINE_WAVES * reports * cells
        seconds = flops / MATRIX_RATE + STEPS * 2 * work.one_pass
    return Cost(shape, reports, reports * cells / MAKING_RATE / 10 + seconds)


def _refused_symbols(
    blocks: Sequence[Block], parts: Sequence[_Part], shape: tuple[int, ...]
) -> str | None:
    """Why symbols are refused, in the words of `reason_against`; None if they are not."""
    cells = math.prod(shape)
    if cells > MOST_CELLS:
        return f"jointly is beyond the limit of {MOST_CELLS:,} cells"
    for block, part in zip(blocks, parts, strict=True):
        if (part.outputs or 1) > most_outputs(block.size):
            return f"from {part.outputs:,} kinds of reports is beyond the limit of kinds"
    table = math.prod(block.channel.layout.count for block in blocks)
    if table > MOST_GRID:
        return f"needs a table of {table:,} kinds of reports; the limit is {MOST_GRID:,}"
    return None


def _rounded(seconds: float) -> str:
    """Seconds to two digits."""
    digits = max(0, math.floor(math.log10(seconds)) - 1)
    return f"{round(seconds, -digits):,.0f}" if seconds >= 10 else f"{seconds:.2g}"
