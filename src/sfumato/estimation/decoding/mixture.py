"""A population seen through channels: the law of outputs for a law of cells, and its gradient.

Three shapes of data: a dense table of output symbols over some axes, where each axis is mixed by
its own channel; the symbols of one channel for whole records; or distinct reports as rows, where
bits take part with their full likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import DENSE_CELLS, Floats
from sfumato.bitcolumns import BitColumns, take_people
from sfumato.channels.base import Channel, SymbolChannel
from sfumato.collect.statistics import BitReports, SymbolCounts
from sfumato.errors import TooLargeError

MOST_CELLS = 1 << 22
MOST_ROW_ENTRIES = 1 << 26
_TINY = 1e-300
_MOST_ENTRIES = 1 << 25
_MOST_OUTPUTS = 1 << 18
_MANY_OUTPUTS = 1 << 22
_DENSE_AXIS = 256  # up to this many cells a matrix product is faster than a recursive filter
_DENSE_ENTRIES = 1 << 20


class Mixture(Protocol):
    """Counts of outputs and how cells give rise to them."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells of each axis."""
        ...

    @property
    def counts(self) -> Floats:
        """People with each output."""
        ...

    def forward(self, law: Floats) -> Floats:
        """Law of outputs, up to a factor an output, for a law of cells."""
        ...

    def backward(self, values: Floats) -> Floats:
        """For a function of the output, its mean at every cell, with the same factors."""
        ...

    def information(self, mixed: Floats) -> Floats:
        """What one output says about its own law: people over its share, squared where seen."""
        ...

    @property
    def matrix(self) -> Floats:
        """`backward` as a matrix, one row a cell; for small grids."""
        ...


@dataclass(frozen=True, eq=False)
class Runs:
    """A channel with runs of its symbols joined, as it allows when reports are decoded."""

    channel: SymbolChannel
    starts: NDArray[np.intp]

    @classmethod
    def of(cls, channel: Channel) -> Runs | None:
        """None where every symbol stands by itself."""
        starts = channel.joined() if isinstance(channel, SymbolChannel) else None
        return None if starts is None else cls(channel, starts)  # type: ignore[arg-type]

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.channel.size

    @cached_property
    def lengths(self) -> NDArray[np.intp]:
        """Symbols in every run."""
        return np.diff(np.append(self.starts, self.channel.outputs))

    def mix(self, law: Floats) -> Floats:
        """The law of runs for a law of cells."""
        result: Floats = np.add.reduceat(self.channel.mix(law), self.starts, axis=-1)
        return result

    def expect(self, table: Floats) -> Floats:
        """The mean of a function of the run at every cell."""
        return self.channel.expect(np.repeat(table, self.lengths, axis=-1))

    def likelihood(self) -> Floats:
        """P(run | cell)."""
        return self.channel.joined_likelihood(self.starts)


@dataclass(frozen=True, eq=False)
class Grouped:
    """A channel, over an axis or a grid, with neighbouring cells joined: alike within a group."""

    channel: Channel | Runs
    shape: tuple[int, ...]
    groups: tuple[int, ...]

    @property
    def coarse(self) -> tuple[int, ...]:
        """Groups along every axis."""
        return tuple(-(-size // group) for size, group in zip(self.shape, self.groups, strict=True))

    @property
    def size(self) -> int:
        """Number of groups."""
        return math.prod(self.coarse)

    @cached_property
    def _people(self) -> Floats:
        """Cells in every group, flat."""
        total: Floats = np.ones(())
        for size, group in zip(self.shape, self.groups, strict=True):
            total = np.multiply.outer(total, np.diff(np.append(np.arange(0, size, group), size)))
        return total.ravel()

    def mix(self, law: Floats) -> Floats:
        """Spread every group evenly over its cells, then mix those."""
        grid = (law / self._people).reshape(*law.shape[:-1], *self.coarse)
        for axis, (size, group) in enumerate(zip(self.shape, self.groups, strict=True)):
            place = axis - len(self.shape)
            grid = np.repeat(grid, group, axis=place)
            grid = np.take(grid, np.arange(size), axis=place)
        return self.channel.mix(grid.reshape(*law.shape[:-1], -1))

    def expect(self, table: Floats) -> Floats:
        """The mean over the cells of every group."""
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


@dataclass(frozen=True, eq=False)
class SymbolMixture:
    """Output symbols in a dense table; each axis has a matrix, or its channel if it is long."""

    factors: tuple[Floats | Channel | Runs | Grouped, ...]
    counts: Floats

    @classmethod
    def of(cls, channels: Sequence[Channel], counts: Floats) -> SymbolMixture:
        """Axes of moderate size use their likelihood matrix, longer ones their own filter."""
        factors: list[Floats | Channel | Runs | Grouped] = []
        for axis, channel in enumerate(channels):
            runs = Runs.of(channel)
            if runs is not None:
                counts = np.add.reduceat(counts, runs.starts, axis=axis)
            held = channel if runs is None else runs
            entries = channel.size * counts.shape[axis]
            dense = channel.size <= _DENSE_AXIS and entries <= _DENSE_ENTRIES
            dense |= runs is not None and entries <= _MOST_ENTRIES  # cheaper than all single turns
            factors.append(held.likelihood() if dense else held)
        return cls(tuple(factors), counts)

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells of each axis."""
        return tuple(len(f) if isinstance(f, np.ndarray) else f.size for f in self.factors)

    def forward(self, law: Floats) -> Floats:
        """Mix axis after axis."""
        for factor in self.factors:
            # The first axis is mixed and put last, so after all axes the order is as before.
            first = np.moveaxis(law, 0, -1)
            law = first @ factor if isinstance(factor, np.ndarray) else factor.mix(first)
        return law

    def backward(self, values: Floats) -> Floats:
        """Average over outputs axis after axis."""
        for factor in self.factors:
            first = np.moveaxis(values, 0, -1)
            values = first @ factor.T if isinstance(factor, np.ndarray) else factor.expect(first)
        return values

    def information(self, mixed: Floats) -> Floats:
        """Expected counts over the squared law."""
        result: Floats = self.counts.sum() / np.maximum(mixed, _TINY)
        return result

    @cached_property
    def matrix(self) -> Floats:
        """The product of the axes' likelihoods."""
        full: Floats = np.ones((1, 1))
        for factor in self.factors:
            full = np.kron(full, _law_of(factor)).astype(np.float64, copy=False)
        return full

    def _is_long(self, axis: int) -> bool:
        """Whether an axis has too many cells and outputs for a matrix."""
        cells = self.shape[axis]
        return cells > DENSE_CELLS or cells * self.counts.shape[axis] > _MOST_ENTRIES

    def coarsened(self, groups: Sequence[int]) -> SymbolMixture:
        """The same with cells joined in groups, alike within a group, and outputs that are cells.

        Outputs of other kinds, such as those of hashes, say nothing once joined: they stay.
        """
        factors: list[Floats | Channel | Runs | Grouped] = []
        counts = self.counts
        for axis, (factor, group) in enumerate(zip(self.factors, groups, strict=True)):
            if not isinstance(factor, np.ndarray) and self._is_long(axis):
                assert not isinstance(factor, Grouped)  # noqa: S101 - cells are joined once
                factors.append(Grouped(factor, (factor.size,), (group,)))
                continue
            law = _law_of(factor)
            starts = np.arange(0, len(law), group)
            sizes = np.diff(np.append(starts, len(law)))
            joined = np.add.reduceat(law, starts, axis=0) / sizes[:, None]
            if law.shape[1] == len(law):
                joined = np.add.reduceat(joined, starts, axis=1)
                counts = np.add.reduceat(counts, starts, axis=axis)
            factors.append(joined)
        return SymbolMixture(tuple(factors), counts)


def _law_of(factor: Floats | Channel | Runs | Grouped) -> Floats:
    """An axis' likelihood matrix."""
    return factor if isinstance(factor, np.ndarray) else factor.likelihood()


@dataclass(frozen=True, eq=False)
class JointMixture:
    """Symbols of one channel for whole records, whose cells are the grid of all axes."""

    channel: Channel | Runs | Grouped
    shape: tuple[int, ...]
    counts: Floats

    @classmethod
    def of(cls, channel: Channel, shape: tuple[int, ...], counts: Floats) -> JointMixture:
        """Join runs of symbols where the channel allows it."""
        runs = Runs.of(channel)
        if runs is None:
            return cls(channel, shape, counts)
        return cls(runs, shape, np.add.reduceat(counts, runs.starts))

    def forward(self, law: Floats) -> Floats:
        """Mix all cells at once."""
        return self.channel.mix(law.reshape(-1))

    def backward(self, values: Floats) -> Floats:
        """Average over outputs."""
        return self.channel.expect(values).reshape(self.shape)

    def information(self, mixed: Floats) -> Floats:
        """Expected counts over the squared law."""
        result: Floats = self.counts.sum() / np.maximum(mixed, _TINY)
        return result

    @cached_property
    def matrix(self) -> Floats:
        """The likelihood, one row a cell of the grid."""
        return self.channel.likelihood()

    def coarsened(self, groups: Sequence[int]) -> JointMixture:
        """The same with cells joined in groups, alike within a group; outputs stay."""
        assert not isinstance(self.channel, Grouped)  # noqa: S101 - cells are joined once
        grouped = Grouped(self.channel, self.shape, tuple(groups))
        return JointMixture(grouped, grouped.coarse, self.counts)


@dataclass(frozen=True, eq=False)
class RowMixture:
    """Distinct reports as rows: likelihood of every report at every cell, and how often it came."""

    shape: tuple[int, ...]
    counts: Floats
    rows: Floats

    def forward(self, law: Floats) -> Floats:
        """Each report's likelihood under the law."""
        mixed: Floats = np.dot(self.rows, law.ravel())
        return mixed

    def backward(self, values: Floats) -> Floats:
        """Sum over reports."""
        summed: Floats = np.dot(values, self.rows)
        return summed.reshape(self.shape)

    def information(self, mixed: Floats) -> Floats:
        """Observed counts over the squared law: reports that did not come are not listed."""
        result: Floats = self.counts / np.maximum(mixed, _TINY) ** 2
        return result

    @property
    def matrix(self) -> Floats:
        """The reports' likelihoods."""
        transposed: Floats = self.rows.T
        return transposed


def mixture_of(
    statistic: SymbolCounts | BitReports, channels: Sequence[Channel], axes: Sequence[int]
) -> Mixture:
    """What the tally says about some axes, the others summed over."""
    chosen = [channels[axis] for axis in axes]
    cells = math.prod(channel.size for channel in chosen)
    _refuse_cells([channel.size for channel in chosen])
    if all(channel.layout.kind == "symbols" for channel in chosen):
        for channel in chosen:
            _refuse_outputs(channel)
        nothing = [None] * len(channels)
        return SymbolMixture.of(chosen, statistic.profile(list(axes), nothing))
    assert isinstance(statistic, BitReports)  # noqa: S101 - bits are only kept as reports
    return _rows_of(statistic, chosen, axes, cells)


def joint_mixture(
    statistic: SymbolCounts | BitReports, channel: Channel, shape: tuple[int, ...]
) -> Mixture:
    """What the tally says about whole records, sent by one channel over the grid of all axes."""
    _refuse_cells(shape)
    if channel.layout.kind == "symbols":
        _refuse_outputs(channel)
        return JointMixture.of(channel, shape, statistic.profile([0], [None]))
    assert isinstance(statistic, BitReports)  # noqa: S101 - bits are only kept as reports
    return replace(_rows_of(statistic, [channel], [0], channel.size), shape=shape)


def most_outputs(cells: int) -> int:
    """From how many kinds of reports so many cells are decoded: up to 16 a cell, as trees have."""
    return max(_MOST_OUTPUTS, 4 * cells, min(16 * cells, _MANY_OUTPUTS))


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
    """Refuse grids beyond the stated size."""
    cells = math.prod(shape)
    if cells > MOST_CELLS:
        raise TooLargeError(
            f"decoding {' × '.join(map(str, shape))} cells jointly needs about "
            f"{cells * 8 * 16 / 2**30:.1f} GiB; the limit is {MOST_CELLS:,} cells. Ask about fewer "
            'axes at once, or use estimate(method="unbiased"), which needs no grid'
        )


def _rows_of(
    statistic: BitReports, channels: Sequence[Channel], axes: Sequence[int], cells: int
) -> RowMixture:
    """Distinct reports on some axes and their likelihood at every combination of cells."""
    parts = []
    for axis in axes:
        column = statistic.columns[axis]
        parts.append(
            column.to_rows()
            if isinstance(column, BitColumns)
            else column.astype("<u8")[:, None].view(np.uint8)
        )
    table = np.ascontiguousarray(np.concatenate(parts, axis=1))
    keys = table.view(np.dtype((np.void, table.shape[1])))[:, 0]
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    if len(first) * cells > MOST_ROW_ENTRIES:
        raise TooLargeError(
            f"{len(first):,} distinct reports by {cells:,} cells need "
            f"{len(first) * cells * 8 / 2**30:.1f} GiB for their likelihood; the limit is "
            f'{MOST_ROW_ENTRIES * 8 / 2**30:.1f} GiB. Use estimate(method="unbiased"), or the '
            "geometric channel, whose reports need no such table"
        )
    rows = np.ones((len(first), 1))
    for axis, channel in zip(axes, channels, strict=True):
        single = channel.report_likelihood(take_people(statistic.columns[axis], first))
        rows = (rows[:, :, None] * single[:, None, :]).reshape(len(first), -1)
    return RowMixture(tuple(c.size for c in channels), counts.astype(np.float64), rows)


def log_likelihood(mixture: Mixture, mixed: Floats) -> float:
    """Log-likelihood of the counts, given the law of outputs."""
    seen = mixture.counts > 0
    return float(np.sum(mixture.counts[seen] * np.log(mixed[seen])))


def posterior_ratio(mixture: Mixture, mixed: Floats) -> Floats:
    """Counts over their expected law: what one step of EM multiplies each cell by, times n."""
    seen = mixture.counts > 0
    ratio = np.zeros_like(mixture.counts)
    np.divide(mixture.counts, mixed, out=ratio, where=seen)
    return ratio
