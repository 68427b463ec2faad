"""A population seen through channels: the law of outputs for a law of cells, and its gradient.

Two shapes of data: a dense table of output symbols over some axes, where each axis is mixed by its
own channel; or distinct reports as rows, where thermometer bits take part with their full
likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.bitcolumns import BitColumns, take_people
from sfumato.channels import Channel
from sfumato.errors import TooLargeError
from sfumato.mechanisms.statistics import BitReports, SymbolCounts

Floats = NDArray[np.float64]

MOST_CELLS = 1 << 22
MOST_ROW_ENTRIES = 1 << 26
_TINY = 1e-300
_DENSE_AXIS = 256  # up to this many cells a matrix product is faster than a recursive filter


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
class SymbolMixture:
    """Output symbols in a dense table; each axis has a matrix, or its channel if it is long."""

    factors: tuple[Floats | Channel, ...]
    counts: Floats

    @classmethod
    def of(cls, channels: Sequence[Channel], counts: Floats) -> SymbolMixture:
        """Axes of moderate size use their likelihood matrix, longer ones their own filter."""
        return cls(tuple(c.likelihood() if c.size <= _DENSE_AXIS else c for c in channels), counts)

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

    def coarsened(self, groups: Sequence[int]) -> SymbolMixture:
        """The same with cells and outputs joined in groups, cells alike within a group."""
        factors: list[Floats | Channel] = []
        counts = self.counts
        for axis, (factor, group) in enumerate(zip(self.factors, groups, strict=True)):
            law = _law_of(factor)
            starts = np.arange(0, len(law), group)
            sizes = np.diff(np.append(starts, len(law)))
            joined = np.add.reduceat(law, starts, axis=0) / sizes[:, None]
            factors.append(np.add.reduceat(joined, np.arange(0, law.shape[1], group), axis=1))
            counts = np.add.reduceat(counts, np.arange(0, counts.shape[axis], group), axis=axis)
        return SymbolMixture(tuple(factors), counts)


def _law_of(factor: Floats | Channel) -> Floats:
    """An axis' likelihood matrix."""
    return factor if isinstance(factor, np.ndarray) else factor.likelihood()


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
    if cells > MOST_CELLS:
        raise TooLargeError(
            f"decoding {' × '.join(str(c.size) for c in chosen)} cells jointly needs about "
            f"{cells * 8 * 16 / 2**30:.1f} GiB; the limit is {MOST_CELLS:,} cells. Ask about fewer "
            'axes at once, or use estimate(method="unbiased"), which needs no grid'
        )
    if all(channel.layout.kind == "symbols" for channel in chosen):
        nothing = [None] * len(channels)
        return SymbolMixture.of(chosen, statistic.profile(list(axes), nothing))
    assert isinstance(statistic, BitReports)  # noqa: S101 - bits are only kept as reports
    return _rows_of(statistic, chosen, axes, cells)


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
