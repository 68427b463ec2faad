"""What likelihood decoding costs, counted before it starts, and whether it can pay.

Processor seconds are counted operations divided by stated rates. Nothing is timed, so the same
tally gives the same decision on every machine. The operations are those of one fit, times the
number of fits that a search for the strengths makes, and follow from numbers that are known
beforehand: cells, kinds of reports (or distinct reports, where these are bits), and whether a
channel is a matrix, a recursive filter or a transform. All constants are in one table below; they
were measured on one core, and the count is right within a factor of about four.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.arrays import DENSE_CELLS, MOST_ROW_ENTRIES, most_outputs
from sfumato.channels.geometric import CappedGeometricChannel, GeometricChannel
from sfumato.collect.statistics import MOST_GRID, BitReports, SymbolCounts
from sfumato.estimation.decoding.fitting import DENSE_CELLS as FACTORISED_CELLS
from sfumato.estimation.decoding.joining import Runs
from sfumato.estimation.decoding.mixture import MOST_CELLS
from sfumato.study.blocks import Block

# The table of constants. Rates are per processor second of one core.
MATRIX_RATE = 3.5e10  # multiplications and additions in products of matrices
TABLE_RATE = 2e9  # entries of a table that is read from memory for one product with a vector
ENTRY_RATE = 5e7  # cells or outputs that pass through a recursive filter or a transform
CALL_SECONDS = 3e-5  # of one pass through a channel, however small

FITS = 18  # by a search on ordered axes
FITS_PER_AXIS = 6  # and more for each of these
UNORDERED_FITS = 9  # by a search without an ordered axis
FACTORS = 4  # matrices I + K that are made and factorised in a fit, on few cells
PRODUCTS = 800  # with I + K in a fit, on more cells
LARGE_PRODUCTS = 1500  # in the only fit on all cells, where strengths are chosen on joined cells
LONG_LINE_PRODUCTS = 50  # the same on one long axis with a matrix, where the fit starts close by
EM_STEPS = 2000  # without smoothing

WHOLE_CELLS = 1 << 14  # beyond this many cells strengths are chosen on joined cells
JOINED_CELLS = 1 << 12
LONG_LINE_CELLS = 1 << 8  # to which one long axis with a matrix is joined
MATRIX_AXIS = 256  # up to this many cells of an axis its channel is a matrix
MATRIX_ENTRIES = 1 << 20
COSINE_CELLS = 1 << 10  # beyond this many cells of an axis its prior is a cosine transform
JOINED_ENTRIES = 1 << 25  # the same where kinds of reports are joined

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
    statistic: SymbolCounts | BitReports,
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
    one_pass = _pass_seconds(parts) + _basis_seconds(shape)
    work = _Work(math.prod(shape), outputs, one_pass, len(parts) * CALL_SECONDS)
    long_line = len(shape) == 1 and parts[0].is_matrix
    small = all(part.is_matrix or part.cells <= DENSE_CELLS for part in parts)
    seconds = work.seconds(ordered, smoothing, long_line=long_line, shrinks=small)
    return Cost(shape, outputs, seconds)


def reason_against(
    statistic: SymbolCounts | BitReports,
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
        is_filter: Whether its channel is a recursive filter along the cells.
    """

    cells: int
    outputs: int | None
    is_matrix: bool = False
    is_filter: bool = False

    @classmethod
    def of(cls, block: Block) -> _Part:
        """Read the numbers off a block."""
        channel = block.channel
        if channel.layout.kind != "symbols":
            return cls(block.size, None)
        runs = Runs.of(channel)
        outputs = channel.layout.count if runs is None else len(runs.starts)
        entries = block.size * outputs
        dense = block.size <= MATRIX_AXIS and entries <= MATRIX_ENTRIES
        dense |= runs is not None and entries <= JOINED_ENTRIES
        filters = isinstance(channel, (GeometricChannel, CappedGeometricChannel))
        return cls(block.size, outputs, dense and len(block.shape) == 1, filters)


@dataclass(frozen=True, slots=True)
class _Work:
    """The numbers from which the work of a search is counted.

    Args:
        cells: Number of cells.
        outputs: Number of outputs.
        entries: Processor seconds of one pass from cells to outputs or back, by its entries.
        calls: Those of its calls, however few entries there are.
    """

    cells: int
    outputs: int
    entries: float
    calls: float

    @property
    def one_pass(self) -> float:
        """Processor seconds of one pass from cells to outputs or back."""
        return self.entries + self.calls

    def seconds(
        self,
        ordered: Sequence[bool],
        smoothing: str,
        *,
        long_line: bool = False,
        shrinks: bool = True,
    ) -> float:
        """Processor seconds of a search, or of EM without smoothing.

        Args:
            ordered: For each axis, whether it may be smoothed.
            smoothing: "auto" or "none".
            long_line: Whether it is one axis whose channel is a matrix.
            shrinks: Whether a pass gets cheaper when cells are joined.
        """
        if smoothing == "none":
            return EM_STEPS * 2 * self.one_pass
        fits = FITS + FITS_PER_AXIS * sum(ordered) if any(ordered) else UNORDERED_FITS
        few = LONG_LINE_CELLS if long_line else JOINED_CELLS
        many = self.cells > (FACTORISED_CELLS if long_line else WHOLE_CELLS)
        if many and any(ordered):
            share = few / self.cells
            entries = self.entries * (share if shrinks else 1.0)
            outputs = math.ceil(self.outputs * (1.0 if long_line else share))
            last = LONG_LINE_PRODUCTS if long_line else LARGE_PRODUCTS
            joined = _Work(few, outputs, entries, self.calls)
            return fits * joined.fit() + last * 2 * self.one_pass
        return fits * self.fit()

    def fit(self) -> float:
        """Processor seconds of one fit."""
        if self.cells <= FACTORISED_CELLS:
            flops = 2.0 * self.cells**2 * self.outputs + 5.0 * self.cells**3
            return FACTORS * flops / MATRIX_RATE + 30 * self.one_pass
        return PRODUCTS * 2 * self.one_pass


def _pass_seconds(parts: Sequence[_Part]) -> float:
    """Processor seconds of one pass through the channels of all blocks, one after another."""
    total = 0.0
    sizes = [part.cells for part in parts]
    for place, part in enumerate(parts):
        outputs = part.outputs or 1
        beside = math.prod(sizes) / part.cells
        if part.is_matrix and beside > 1:
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


def _basis_seconds(shape: tuple[int, ...]) -> float:
    """Processor seconds of going over to the coordinates of the prior, or back."""
    cells = math.prod(shape)
    total = 0.0
    for size in shape:
        if size > COSINE_CELLS:
            total += cells / ENTRY_RATE
        elif cells == size:
            total += size**2 / TABLE_RATE
        else:
            total += 2.0 * size * cells / MATRIX_RATE
    return total


def _cost_of_rows(
    statistic: SymbolCounts | BitReports,
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
    work = _Work(cells, reports, reports * cells / TABLE_RATE + _basis_seconds(shape), CALL_SECONDS)
    return Cost(shape, reports, work.seconds(ordered, smoothing))


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
