"""The statistical model of the reports: a mixture of the channel's output distributions.

With p the distribution of people over cells and Q(y | x) the channel, outputs have the distribution
q = pQ. `forward` computes q from p and `backward` Σ_y Q(y | x)·v(y) from v; likelihood decoding
uses nothing else of the channels. Two forms: a dense table of output symbols, where each block has
its own channel (`SymbolMixture`); or distinct reports as rows, for blocks that send bits
(`RowMixture`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import (
    DENSE_CELLS,
    MOST_ROW_ENTRIES,
    BitColumns,
    Floats,
    most_outputs,
    take_people,
)
from sfumato.channels.base import Channel, SymbolChannel
from sfumato.collect.statistics import BitReports, SymbolCounts
from sfumato.errors import TooLargeError
from sfumato.study.blocks import Block

MOST_CELLS = 1 << 22
_TINY = 1e-300
_MOST_ENTRIES = 1 << 25
_DENSE_AXIS = 256  # up to this many cells a matrix product is faster than a recursive filter
_DENSE_ENTRIES = 1 << 20


class Mixture(Protocol):
    """Counts of outputs, and the channels from cells to outputs."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells of each axis."""
        ...

    @property
    def counts(self) -> Floats:
        """People with each output."""
        ...

    def forward(self, law: Floats) -> Floats:
        """Q = pQ: probabilities of outputs for a distribution p over cells.

        Each may be off by a constant factor per output, the same in `backward`.
        """
        ...

    def backward(self, values: Floats) -> Floats:
        """Σ_y Q(y | x)·v(y) for every cell x, with the factors of `forward`."""
        ...

    def information(self, mixed: Floats) -> Floats:
        """Weights w(y) of the information about q: n/q(y) expected, or N(y)/q(y)² observed."""
        ...

    @property
    def matrix(self) -> Floats:
        """Q as a matrix, shape (cells, outputs); for small grids."""
        ...


@dataclass(frozen=True, eq=False)
class Runs:
    """A channel with runs of neighbouring symbols joined into one output.

    Args:
        channel: The channel.
        starts: The first symbol of every run.
    """

    channel: SymbolChannel
    starts: NDArray[np.intp]

    @classmethod
    def of(cls, channel: Channel) -> Runs | None:
        """The runs that a channel joins for decoding; None if it joins none."""
        starts = channel.joined() if isinstance(channel, SymbolChannel) else None
        return None if starts is None else cls(channel, starts)  # type: ignore[arg-type]

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.channel.size

    @cached_property
    def lengths(self) -> NDArray[np.intp]:
        """Number of symbols in every run."""
        return np.diff(np.append(self.starts, self.channel.outputs))

    def mix(self, law: Floats) -> Floats:
        """Probabilities of runs for a distribution over cells, along the last axis."""
        result: Floats = np.add.reduceat(self.channel.mix(law), self.starts, axis=-1)
        return result

    def expect(self, table: Floats) -> Floats:
        """The mean of a function of the run for every cell, along the last axis."""
        return self.channel.expect(np.repeat(table, self.lengths, axis=-1))

    def likelihood(self) -> Floats:
        """P(run | cell)."""
        return self.channel.joined_likelihood(self.starts)


def coarse_shape(shape: Sequence[int], groups: Sequence[int]) -> tuple[int, ...]:
    """Number of groups along every axis.

    Args:
        shape: Number of cells of every axis.
        groups: Number of neighbouring cells in a group, for every axis.
    """
    return tuple(-(-size // group) for size, group in zip(shape, groups, strict=True))


@dataclass(frozen=True, eq=False)
class Grouped:
    """A channel with neighbouring cells joined into groups, equally likely within a group.

    Args:
        channel: The channel.
        shape: Number of cells of every axis that it covers.
        groups: Number of neighbouring cells in a group, for every axis.
    """

    channel: Channel | Runs
    shape: tuple[int, ...]
    groups: tuple[int, ...]

    @property
    def coarse(self) -> tuple[int, ...]:
        """Number of groups along every axis."""
        return coarse_shape(self.shape, self.groups)

    @property
    def size(self) -> int:
        """Number of groups."""
        return math.prod(self.coarse)

    @cached_property
    def _people(self) -> Floats:
        """Number of cells in every group, flat."""
        total: Floats = np.ones(())
        for size, group in zip(self.shape, self.groups, strict=True):
            total = np.multiply.outer(total, np.diff(np.append(np.arange(0, size, group), size)))
        return total.ravel()

    def mix(self, law: Floats) -> Floats:
        """Probabilities of outputs for a distribution over groups, along the last axis."""
        grid = (law / self._people).reshape(*law.shape[:-1], *self.coarse)
        for axis, (size, group) in enumerate(zip(self.shape, self.groups, strict=True)):
            place = axis - len(self.shape)
            grid = np.repeat(grid, group, axis=place)
            grid = np.take(grid, np.arange(size), axis=place)
        return self.channel.mix(grid.reshape(*law.shape[:-1], -1))

    def expect(self, table: Floats) -> Floats:
        """The mean of a function of the output for every group, along the last axis."""
        cells = self.channel.expect(table)
        grid = cells.reshape(*cells.shape[:-1], *self.shape)
        for axis, (size, group) in enumerate(zip(self.shape, self.groups, strict=True)):
            place = axis - len(self.shape)
            grid = np.add.reduceat(grid, np.arange(0, size, group), axis=place)
        result: Floats = grid.reshape(*cells.shape[:-1], -1) / self._people
        return result

    def likelihood(self) -> Floats:
        """P(output | group)."""
        return self.mix(np.eye(self.size))


Factor: TypeAlias = "Floats | Channel | Runs | Grouped"


@dataclass(frozen=True, eq=False)
class SymbolMixture:
    """Counts of output symbols in a dense table with one dimension per block.

    Args:
        factors: For each block, its likelihood matrix, or its channel where that is faster.
        counts: People with each combination of symbols.
        shapes: For each block, the number of cells of each axis that it covers.
    """

    factors: tuple[Factor, ...]
    counts: Floats
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(
        cls,
        channels: Sequence[Channel],
        counts: Floats,
        shapes: Sequence[tuple[int, ...]] | None = None,
    ) -> SymbolMixture:
        """Choose a likelihood matrix for single axes of moderate size, the channel for others.

        Args:
            channels: The channel of every block.
            counts: People with each combination of outputs.
            shapes: Number of cells of the axes of every block; left out, each covers one axis.
        """
        held_shapes = tuple(shapes or [(channel.size,) for channel in channels])
        factors: list[Factor] = []
        for place, (channel, shape) in enumerate(zip(channels, held_shapes, strict=True)):
            runs = Runs.of(channel)
            if runs is not None:
                counts = np.add.reduceat(counts, runs.starts, axis=place)
            held = channel if runs is None else runs
            entries = channel.size * counts.shape[place]
            dense = channel.size <= _DENSE_AXIS and entries <= _DENSE_ENTRIES
            dense |= (
                runs is not None and entries <= _MOST_ENTRIES
            )  # cheaper than mixing single symbols
            factors.append(held.likelihood() if dense and len(shape) == 1 else held)
        return cls(tuple(factors), counts, held_shapes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells of each axis."""
        return tuple(itertools.chain.from_iterable(self.shapes))

    def forward(self, law: Floats) -> Floats:
        """Q = pQ, block by block."""
        law = law.reshape([math.prod(shape) for shape in self.shapes])
        for factor in self.factors:
            # Each step puts the first dimension last, so after all blocks the order is as before.
            first = np.moveaxis(law, 0, -1)
            law = first @ factor if isinstance(factor, np.ndarray) else factor.mix(first)
        return law

    def backward(self, values: Floats) -> Floats:
        """Σ_y Q(y | x)·v(y), block by block."""
        for factor in self.factors:
            first = np.moveaxis(values, 0, -1)
            values = first @ factor.T if isinstance(factor, np.ndarray) else factor.expect(first)
        return values.reshape(self.shape)

    def information(self, mixed: Floats) -> Floats:
        """Expected counts over squared probabilities: n·q/q² = n/q."""
        result: Floats = self.counts.sum() / np.maximum(mixed, _TINY)
        return result

    @cached_property
    def matrix(self) -> Floats:
        """The Kronecker product of the blocks' likelihood matrices."""
        full: Floats = np.ones((1, 1))
        for factor in self.factors:
            full = np.kron(full, _law_of(factor)).astype(np.float64, copy=False)
        return full

    def _is_long(self, place: int) -> bool:
        """Whether a block has too many cells and outputs for a likelihood matrix."""
        cells = math.prod(self.shapes[place])
        return cells > DENSE_CELLS or cells * self.counts.shape[place] > _MOST_ENTRIES

    def coarsened(self, groups: Sequence[int]) -> SymbolMixture:
        """The mixture with neighbouring cells joined into groups, equally likely within a group.

        Outputs that correspond to cells are joined as well. Others, such as hashes, would lose
        their information and are kept.

        Args:
            groups: Number of neighbouring cells to join, for every axis.
        """
        factors: list[Factor] = []
        shapes: list[tuple[int, ...]] = []
        counts, sizes = self.counts, iter(groups)
        for place, (factor, shape) in enumerate(zip(self.factors, self.shapes, strict=True)):
            by_axis = tuple(itertools.islice(sizes, len(shape)))
            shapes.append(coarse_shape(shape, by_axis))
            if not isinstance(factor, np.ndarray) and (len(shape) > 1 or self._is_long(place)):
                assert not isinstance(factor, Grouped)  # noqa: S101 - cells are joined once
                factors.append(Grouped(factor, shape, by_axis))
                continue
            law, (group,) = _law_of(factor), by_axis
            starts = np.arange(0, len(law), group)
            joined = np.add.reduceat(law, starts, axis=0)
            joined /= np.diff(np.append(starts, len(law)))[:, None]
            if law.shape[1] == len(law):
                joined = np.add.reduceat(joined, starts, axis=1)
                counts = np.add.reduceat(counts, starts, axis=place)
            factors.append(joined)
        return SymbolMixture(tuple(factors), counts, tuple(shapes))


def _law_of(factor: Factor) -> Floats:
    """A block's likelihood matrix."""
    return factor if isinstance(factor, np.ndarray) else factor.likelihood()


@dataclass(frozen=True, eq=False)
class RowMixture:
    """Distinct reports as rows.

    Args:
        shape: Number of cells of every axis.
        counts: How often each report came.
        rows: Likelihood of each report at each cell, shape (reports, cells).
    """

    shape: tuple[int, ...]
    counts: Floats
    rows: Floats

    def forward(self, law: Floats) -> Floats:
        """The likelihood of each report under a distribution over cells."""
        mixed: Floats = np.dot(self.rows, law.ravel())
        return mixed

    def backward(self, values: Floats) -> Floats:
        """Σ over reports of their likelihood at each cell times a value."""
        summed: Floats = np.dot(values, self.rows)
        return summed.reshape(self.shape)

    def information(self, mixed: Floats) -> Floats:
        """Observed counts over squared probabilities, N/q²; only reports that came have rows."""
        result: Floats = self.counts / np.maximum(mixed, _TINY) ** 2
        return result

    @property
    def matrix(self) -> Floats:
        """The likelihoods, shape (cells, reports)."""
        transposed: Floats = self.rows.T
        return transposed


def mixture_of(
    statistic: SymbolCounts | BitReports, blocks: Sequence[Block], chosen: Sequence[int]
) -> Mixture:
    """The mixture for some blocks of a tally, summed over the others.

    Args:
        statistic: The tally.
        blocks: All blocks of the study.
        chosen: Positions of the blocks to decode.
    """
    held = [blocks[place] for place in chosen]
    channels, shapes = [block.channel for block in held], [block.shape for block in held]
    shape = tuple(itertools.chain.from_iterable(shapes))
    _refuse_cells(shape)
    if all(channel.layout.kind == "symbols" for channel in channels):
        for channel in channels:
            _refuse_outputs(channel)
        profile = statistic.profile(list(chosen), [None] * len(blocks))
        return SymbolMixture.of(channels, profile, shapes)
    assert isinstance(statistic, BitReports)  # noqa: S101 - bits are only kept as reports
    return _rows_of(statistic, channels, chosen, shape)


def _refuse_outputs(channel: Channel) -> None:
    """Refuse channels with far more kinds of reports than cells, if both are many."""
    runs = Runs.of(channel)
    outputs = channel.layout.count if runs is None else len(runs.starts)
    most = most_outputs(channel.size)
    if outputs > most:
        raise TooLargeError(
            f"decoding {channel.size:,} cells from {outputs:,} kinds of reports would take very "
            f'long; the limit is {most:,} kinds. Use estimate(method="unbiased"), '
            "or fewer cells"
        )


def _refuse_cells(shape: Sequence[int]) -> None:
    """Refuse grids of more than `MOST_CELLS` cells."""
    cells = math.prod(shape)
    if cells > MOST_CELLS:
        raise TooLargeError(
            f"decoding {' × '.join(map(str, shape))} cells jointly needs about "
            f"{cells * 8 * 16 / 2**30:.1f} GiB; the limit is {MOST_CELLS:,} cells. Ask about fewer "
            'axes at once, or use estimate(method="unbiased"), which needs no grid'
        )


def _rows_of(
    statistic: BitReports,
    channels: Sequence[Channel],
    chosen: Sequence[int],
    shape: tuple[int, ...],
) -> RowMixture:
    """Distinct reports of some blocks and their likelihood at every combination of cells."""
    cells = math.prod(shape)
    parts = []
    for place in chosen:
        column = statistic.columns[place]
        parts.append(
            column.to_rows()
            if isinstance(column, BitColumns)
            else column.astype("<u8")[:, None].view(np.uint8)
        )
    table = np.ascontiguousarray(np.concatenate(parts, axis=1))
    keys = table.view(np.dtype((np.void, table.shape[1])))[:, 0]
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    counts = np.bincount(inverse.reshape(-1), statistic.weights, minlength=len(first))
    if len(first) * cells > MOST_ROW_ENTRIES:
        raise TooLargeError(
            f"{len(first):,} distinct reports by {cells:,} cells need "
            f"{len(first) * cells * 8 / 2**30:.1f} GiB for their likelihood; the limit is "
            f'{MOST_ROW_ENTRIES * 8 / 2**30:.1f} GiB. Use estimate(method="unbiased"), or the '
            "geometric channel, whose reports need no such table"
        )
    rows = np.ones((len(first), 1))
    for place, channel in zip(chosen, channels, strict=True):
        single = channel.report_likelihood(take_people(statistic.columns[place], first))
        rows = (rows[:, :, None] * single[:, None, :]).reshape(len(first), -1)
    return RowMixture(shape, counts.astype(np.float64), rows)


def log_likelihood(mixture: Mixture, mixed: Floats) -> float:
    """Σ_y N(y)·log q(y), the log-likelihood of the counts.

    Args:
        mixture: The counts of outputs, and the channels.
        mixed: q, the probabilities of outputs, as `forward` gives them.
    """
    seen = mixture.counts > 0
    return float(np.sum(mixture.counts[seen] * np.log(mixed[seen])))


def posterior_ratio(mixture: Mixture, mixed: Floats) -> Floats:
    """N/q for every output, 0 where nobody sent it.

    `backward` of it is n times the factor by which an EM step multiplies each cell.

    Args:
        mixture: The counts of outputs, and the channels.
        mixed: q, the probabilities of outputs, as `forward` gives them.
    """
    seen = mixture.counts > 0
    ratio = np.zeros_like(mixture.counts)
    np.divide(mixture.counts, mixed, out=ratio, where=seen)
    return ratio
