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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeAlias

import numpy as np

from sfumato.arrays import (
    DENSE_CELLS,
    MOST_ROW_ENTRIES,
    BitColumns,
    Floats,
    most_outputs,
    take_people,
)
from sfumato.channels.base import Channel, SymbolChannel
from sfumato.channels.geometric_noise import NoiseLine
from sfumato.collect.block_sums import UNDECODED, AnyStatistic
from sfumato.collect.statistics import BitReports
from sfumato.collect.term_sums import TermSums
from sfumato.errors import QuestionError, TooLargeError
from sfumato.estimation.decoding.joining import Grouped, Runs, coarse_shape
from sfumato.estimation.decoding.waves import measured_transfer
from sfumato.study.blocks import Block

MOST_CELLS = 1 << 22
LOOSE_CELLS = 1100  # of one axis up to which a matrix over all cells is used
_TINY = 1e-300
_DIAGONAL_PROBES = 8
_NEARLY = 0.03  # by how much the probabilities of outputs may differ for a second derivative
_MOST_ENTRIES = 1 << 25
_GROUPED_CELLS = 1 << 10  # groups of cells of several axes up to which their channel is a matrix
_DENSE_AXIS = 256  # up to this many cells a matrix product is faster than a recursive filter
_DENSE_ENTRIES = 1 << 20


class Likelihood(Protocol):
    """The log-likelihood of the reports as a function of the distribution p over cells."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells of each axis."""
        ...

    @property
    def people(self) -> float:
        """Number of people."""
        ...

    @property
    def outputs(self) -> int:
        """Number of entries of `forward` of one distribution."""
        ...

    def forward(self, law: Floats) -> Floats:
        """What the log-likelihood sees of a distribution p over cells, or of several; linear in p.

        For reports it is q = pQ, the probabilities of outputs. Each may be off by a constant factor
        per output, the same wherever it is used.
        """
        ...

    def value(self, mixed: Floats) -> float:
        """The log-likelihood, given `forward` of p."""
        ...

    def slope(self, mixed: Floats) -> Floats:
        """Its derivative by every cell's share, given `forward` of p."""
        ...

    def curve(self, changes: Floats, mixed: Floats) -> Floats:
        """A·s, with A the negative second derivative by p.

        Args:
            changes: One change s of p, or several along leading axes.
            mixed: Where, as `forward` gives it.
        """
        ...

    def bend(self, changes: Floats, mixed: Floats) -> Floats:
        """sᵀ·A·t for all pairs of changes s and t of p, shape (changes, changes).

        Args:
            changes: Changes of p.
            mixed: Where, as `forward` gives it.
        """
        ...

    def information(self, law: Floats, mixed: Floats) -> Floats:
        """J·A·J with J = diag(p) − ppᵀ: the information about θ, as a matrix over all cells.

        Args:
            law: p.
            mixed: `forward` of p.
        """
        ...

    def settle(self) -> None:
        """Compute `information` anew when it is asked for next, and not from a p nearby."""
        ...

    def diagonal(self, law: Floats, mixed: Floats) -> Floats:
        """The diagonal of `information`, at least roughly.

        Args:
            law: p.
            mixed: `forward` of p.
        """
        ...

    def transfer(self, ordered: tuple[bool, ...]) -> Floats:
        """How much information about every wave over the cells passes; see `waves`.

        Args:
            ordered: For each axis, whether its waves are cosines.
        """
        ...


class Mixture(Likelihood, Protocol):
    """Counts of outputs, and the channels from cells to outputs."""

    @property
    def counts(self) -> Floats:
        """People with each output."""
        ...

    def backward(self, values: Floats) -> Floats:
        """Σ_y Q(y | x)·v(y) for every cell x, for one v or several, as `forward`."""
        ...

    def weight(self, mixed: Floats) -> Floats:
        """Information about every output's probability: n/q(y) expected, N(y)/q(y)² observed."""
        ...

    @property
    def matrix(self) -> Floats:
        """Q as a matrix, shape (cells, outputs); for small grids."""
        ...

    def second(self, mixed: Floats) -> Floats:
        """A = Q·diag(w)·Qᵀ, the negative second derivative by p, on small grids."""
        ...

    @property
    def even_second(self) -> Callable[[Floats], Floats] | None:
        """V → A·v for people spread evenly, where that is fast and near enough; else None."""
        ...


class _Counted:
    """The log-likelihood Σ_y N(y)·log q(y) of counts of outputs, and its derivatives."""

    @property
    def people(self: Mixture) -> float:
        """Number of people."""
        return float(self.counts.sum())

    @property
    def outputs(self: Mixture) -> int:
        """Kinds of reports."""
        return self.counts.size

    def value(self: Mixture, mixed: Floats) -> float:
        """Σ_y N(y)·log q(y)."""
        return log_likelihood(self, mixed)

    def slope(self: Mixture, mixed: Floats) -> Floats:
        """Σ_y Q(y | x)·N(y)/q(y)."""
        return self.backward(posterior_ratio(self, mixed))

    def curve(self: Mixture, changes: Floats, mixed: Floats) -> Floats:
        """Q·diag(w)·Qᵀ·s."""
        if self.even_second is not None:
            return self.even_second(changes)
        return self.backward(self.forward(changes) * self.weight(mixed))

    def bend(self: Mixture, changes: Floats, mixed: Floats) -> Floats:
        """Σ_y w(y)·s(y)·t(y), with s and t the changes of q."""
        if self.even_second is not None:
            return paired(changes, self.even_second(changes))
        root = np.sqrt(self.weight(mixed))
        return _squared((self.forward(changes) * root).reshape(len(changes), -1))

    def information(self: Mixture, law: Floats, mixed: Floats) -> Floats:
        """J·A·J with A = Q·diag(w)·Qᵀ."""
        return around(self.second(mixed), law)

    def diagonal(self: Mixture, law: Floats, mixed: Floats) -> Floats:
        """From a few probes: with F = R·Rᵀ and random signs s, (R·s)² has the mean diag F.

        Cf. Bekas2007.
        """
        rng = np.random.Generator(np.random.PCG64(1))  # fixed: the same reports, the same answer
        root, found = np.sqrt(self.weight(mixed)), np.zeros(law.shape)
        for _ in range(_DIAGONAL_PROBES):
            back = self.backward(root * rng.choice([-1.0, 1.0], size=mixed.shape))
            found += (law * (back - np.sum(law * back))) ** 2 / _DIAGONAL_PROBES
        return found


def _squared(rows: Floats) -> Floats:
    """A product of a matrix and its transpose: never indefinite, however it is rounded."""
    product: Floats = rows @ rows.T
    return product


def paired(one: Floats, other: Floats) -> Floats:
    """Inner products of all pairs of rows.

    Args:
        one: Rows over the cells.
        other: Other rows.
    """
    product: Floats = one.reshape(len(one), -1) @ other.reshape(len(other), -1).T
    return product


def around(matrix: Floats, law: Floats) -> Floats:
    """J·A·J with J = diag(p) − ppᵀ, in a few operations per entry.

    Args:
        matrix: A, over all cells.
        law: p.
    """
    flat = law.ravel()
    beside = matrix @ flat
    centred = matrix - beside - beside[:, None] + float(flat @ beside)
    centred *= flat
    centred *= flat[:, None]
    return centred


@dataclass(slots=True)
class _Second:
    """A = Q·diag(w)·Qᵀ, kept while the probabilities of outputs stay nearly the same."""

    mixed: Floats | None = None
    matrix: Floats | None = None

    def at(self, mixture: Mixture, mixed: Floats) -> Floats:
        """A at these probabilities of outputs, or where they differed by at most `_NEARLY`."""
        even = mixture.even_second
        if even is not None:
            cells = math.prod(mixture.shape)
            return even(np.eye(cells).reshape(cells, *mixture.shape)).reshape(cells, cells)
        held, matrix = self.mixed, self.matrix
        if held is None or matrix is None or np.any(np.abs(mixed - held) > _NEARLY * held):
            matrix = _squared(mixture.matrix * np.sqrt(mixture.weight(mixed)).reshape(-1))
            self.mixed, self.matrix = mixed, matrix
        return matrix


Factor: TypeAlias = "Floats | SymbolChannel | Runs | Grouped"  # of blocks that send symbols


@dataclass(frozen=True, eq=False)
class SymbolMixture(_Counted):
    """Counts of output symbols in a dense table with one dimension per block.

    Args:
        factors: For each block, its likelihood matrix, or its channel where that is faster.
        counts: People with each combination of symbols.
        shapes: For each block, the number of cells of each axis that it covers.
        alone: The channel, if there is a single block and its cells are not joined.
    """

    factors: tuple[Factor, ...]
    counts: Floats
    shapes: tuple[tuple[int, ...], ...]
    alone: SymbolChannel | None = None
    _second: _Second = field(default_factory=_Second)
    _transfers: dict[tuple[bool, ...], Floats] = field(default_factory=dict)

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
            assert isinstance(channel, SymbolChannel)  # noqa: S101 - bits are kept as rows
            held = channel if runs is None else runs
            entries = channel.size * counts.shape[place]
            dense = channel.size <= _DENSE_AXIS and entries <= _DENSE_ENTRIES
            dense |= (
                runs is not None and entries <= _MOST_ENTRIES
            )  # cheaper than mixing single symbols
            factors.append(held.likelihood() if dense and len(shape) == 1 else held)
        (first, *others) = channels
        alone = first if isinstance(first, SymbolChannel) and not others else None
        return cls(tuple(factors), counts, held_shapes, alone)

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells of each axis."""
        return tuple(itertools.chain.from_iterable(self.shapes))

    @cached_property
    def line(self) -> NoiseLine | None:
        """The channel as geometric noise on a line, if it is that."""
        return None if self.alone is None else self.alone.noise_line()

    def forward(self, law: Floats) -> Floats:
        """Q = pQ, block by block; for several p, along leading axes."""
        several = law.shape[: law.ndim - len(self.shape)]
        law = law.reshape(*several, *(math.prod(shape) for shape in self.shapes))
        for factor in self.factors:
            # Each step puts the first dimension last, so after all blocks the order is as before.
            first = np.moveaxis(law, len(several), -1)
            law = first @ factor if isinstance(factor, np.ndarray) else factor.mix(first)
        return law

    def backward(self, values: Floats) -> Floats:
        """Σ_y Q(y | x)·v(y), block by block; for several v, along leading axes."""
        several = values.shape[: values.ndim - self.counts.ndim]
        for factor in self.factors:
            first = np.moveaxis(values, len(several), -1)
            values = first @ factor.T if isinstance(factor, np.ndarray) else factor.expect(first)
        return values.reshape(*several, *self.shape)

    def weight(self, mixed: Floats) -> Floats:
        """Expected counts over squared probabilities: n·q/q² = n/q."""
        result: Floats = self.counts.sum() / np.maximum(mixed, _TINY)
        return result

    def second(self, mixed: Floats) -> Floats:
        """A, or one that is nearly the same."""
        return self._second.at(self, mixed)

    def settle(self) -> None:
        """Compute A anew when it is asked for next."""
        self._second.mixed = None

    @cached_property
    def even_second(self) -> Callable[[Floats], Floats] | None:
        """That of a single channel which knows it, such as combs, where a matrix has no room.

        Under one ε, outputs are never far from equally likely, so that A hardly depends on p.
        """
        channel, shape, people = self.alone, self.shape, self.people
        small = len(shape) == 1 and math.prod(shape) <= LOOSE_CELLS
        if channel is None or small or not channel.knows_even_information:
            return None

        def times(v: Floats) -> Floats:
            several = v.shape[: v.ndim - len(shape)]
            found: Floats = people * channel.even_information(v.reshape(*several, -1))
            return found.reshape(v.shape)

        return times

    def transfer(self, ordered: tuple[bool, ...]) -> Floats:
        """The product of that of all blocks.

        Args:
            ordered: For each axis, whether its waves are cosines.
        """
        if ordered not in self._transfers:
            axes = iter(ordered)
            found: Floats = np.ones(())
            for factor, shape in zip(self.factors, self.shapes, strict=True):
                own = tuple(itertools.islice(axes, len(shape)))
                found = np.multiply.outer(found, _transfer_of(factor, shape, own))
            self._transfers[ordered] = found
        return self._transfers[ordered]

    @cached_property
    def matrix(self) -> Floats:
        """The Kronecker product of the blocks' likelihood matrices."""
        full, *others = (_law_of(factor) for factor in self.factors)
        for other in others:
            full = np.kron(full, other).astype(np.float64, copy=False)
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
            if (
                isinstance(factor, SymbolChannel)
                and factor.moves_cells
                and math.prod(shapes[-1]) <= _GROUPED_CELLS
            ):
                factors.append(factor.grouped(by_axis))
                counts = _grouped(counts, place, shape, by_axis)
                continue
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


def _grouped(counts: Floats, place: int, shape: Sequence[int], groups: Sequence[int]) -> Floats:
    """Counts of outputs of which those of one block are cells of a grid, and are joined."""
    before, after = counts.shape[:place], counts.shape[place + 1 :]
    found = counts.reshape(*before, *shape, *after)
    for axis, (size, group) in enumerate(zip(shape, groups, strict=True), start=place):
        found = np.add.reduceat(found, np.arange(0, size, group), axis=axis)
    return found.reshape(*before, -1, *after)


def _transfer_of(factor: Factor, shape: tuple[int, ...], ordered: tuple[bool, ...]) -> Floats:
    """How much information about every wave passes one block."""
    if not isinstance(factor, np.ndarray) and all(ordered):
        known = factor.transfer()
        if known is not None:
            return known

    def forward(law: Floats) -> Floats:
        flat = law.reshape(len(law), -1)
        mixed: Floats = flat @ factor if isinstance(factor, np.ndarray) else factor.mix(flat)
        return mixed

    return measured_transfer(forward, lambda q: 1 / np.maximum(q, _TINY), 1.0, shape, ordered)


def _law_of(factor: Factor) -> Floats:
    """A block's likelihood matrix."""
    return factor if isinstance(factor, np.ndarray) else factor.likelihood()


@dataclass(frozen=True, eq=False)
class RowMixture(_Counted):
    """Distinct reports as rows.

    Args:
        shape: Number of cells of every axis.
        counts: How often each report came.
        rows: Likelihood of each report at each cell, shape (reports, cells).
    """

    shape: tuple[int, ...]
    counts: Floats
    rows: Floats
    even_second: None = None
    _second: _Second = field(default_factory=_Second)

    def forward(self, law: Floats) -> Floats:
        """The likelihood of each report under a distribution over cells, or under several."""
        several = law.shape[: law.ndim - len(self.shape)]
        mixed: Floats = law.reshape(*several, -1) @ self.rows.T
        return mixed

    def backward(self, values: Floats) -> Floats:
        """Σ over reports of their likelihood at each cell times a value."""
        summed: Floats = values @ self.rows
        return summed.reshape(*values.shape[:-1], *self.shape)

    def weight(self, mixed: Floats) -> Floats:
        """Observed counts over squared probabilities, N/q²; only reports that came have rows."""
        result: Floats = self.counts / np.maximum(mixed, _TINY) ** 2
        return result

    def second(self, mixed: Floats) -> Floats:
        """A, or one that is nearly the same."""
        return self._second.at(self, mixed)

    def settle(self) -> None:
        """Compute A anew when it is asked for next."""
        self._second.mixed = None

    def transfer(self, ordered: tuple[bool, ...]) -> Floats:
        """Measured with the reports that came.

        Args:
            ordered: For each axis, whether its waves are cosines.
        """
        return measured_transfer(self.forward, self.weight, self.people, self.shape, ordered)

    @property
    def matrix(self) -> Floats:
        """The likelihoods, shape (cells, reports)."""
        transposed: Floats = self.rows.T
        return transposed


def mixture_of(statistic: AnyStatistic, blocks: Sequence[Block], chosen: Sequence[int]) -> Mixture:
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
    if isinstance(statistic, TermSums):
        raise QuestionError(
            "this tally keeps sums for questions that were named beforehand, and decoding needs "
            'the reports; use method="unbiased"'
        )
    if all(channel.layout.kind == "symbols" for channel in channels):
        for channel in channels:
            _refuse_outputs(channel)
        profile = statistic.profile(list(chosen), [None] * len(blocks))
        return SymbolMixture.of(channels, profile, shapes)
    if not isinstance(statistic, BitReports):
        raise QuestionError(f'{UNDECODED}, or use method="unbiased"')
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
