"""Channels with neighbouring outputs or neighbouring cells joined, so that there are fewer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.channels.base import Channel, SymbolChannel


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

    def transfer(self) -> Floats | None:
        """How much of every cosine passes, where the channel knows it."""
        return self.channel.transfer()

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

    def transfer(self) -> None:
        """Not known for groups."""
        return

    def likelihood(self) -> Floats:
        """P(output | group)."""
        return self.mix(np.eye(self.size))
