"""Typical questions about an axis, by which channels are compared: all ranges, or all single cells.

Where there are many, some stand for all. Ends of ranges are spread over the axis at uneven steps,
so that they do not fall on the nodes of a tree. Ends and single cells are taken from every kind of
cell that the metric knows, and count as many times as there are cells of the kind.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.channels.base import Channel
from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.labelled import BlockMetric, HighLowMetric

#: Rows of weights that stand for all questions, and entries of them all: few cells get more rows.
_MOST_ROWS, _FEW_ROWS, _FEWEST_ROWS = 513, 33, 3
_ENTRIES, _MOST_ENTRIES = 1 << 16, 1 << 21
Cells = NDArray[np.intp]
_UNEVEN = 0.7548776662466927  # one over the plastic number: multiples of it fill (0, 1) evenly


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """All ranges of an ordered axis, or all single cells, as far as they concern some cells.

    Attributes:
        places: Where these cells lie on the axis.
        values: How many cells of the axis hold values; those behind them are never asked for.
        ordered: Whether ranges are asked for.
    """

    places: Cells
    values: int
    ordered: bool

    @classmethod
    def of(cls, values: int, size: int, *, ordered: bool) -> Asked:
        """About a whole axis.

        Args:
            values: Number of cells that hold values.
            size: Number of all cells, "no answer" included.
            ordered: Whether cells have an order.
        """
        return cls(np.arange(size), values, ordered)

    @property
    def words(self) -> str:
        """What they are called."""
        return "ranges" if self.ordered else "single cells"

    @property
    def workload(self) -> str:
        """What searched channels call them."""
        return "ranges" if self.ordered else "cells"

    def at(self, cells: Cells) -> Asked:
        """The same questions about some of the cells."""
        return Asked(self.places[cells], self.values, self.ordered)

    def rows(self, metric: CellMetric) -> tuple[Floats, Floats]:
        """Rows of weights on the cells, and the share of each row's square in the mean of all.

        Args:
            metric: E between these cells, which tells what kinds of cells there are.
        """
        size = len(self.places)
        many, few = min(_MOST_ROWS, _ENTRIES // size), min(_FEW_ROWS, _MOST_ENTRIES // size)
        most = max(many, few, _FEWEST_ROWS)
        asked = np.flatnonzero(self.places < self.values)
        asked = asked[np.argsort(self.places[asked])]
        kinds = np.unique(_kinds(metric)[asked], return_inverse=True)[1]
        return self._ranges(asked, kinds, most) if self.ordered else self._cells(asked, kinds, most)

    def _ranges(self, cells: Cells, kinds: Cells, most: int) -> tuple[Floats, Floats]:
        """All differences of prefixes: K·Σ_a F_aᵀF_a − (Σ_a F_a)ᵀ(Σ_a F_a), F_a the cells below a.

        There are K = values + 1 places a where a range may end. Cells that lie apart, as those of a
        block, do not tell all of them apart, so that a prefix of them counts several times.
        """
        held = self.places[cells]
        chosen, times = _standing(np.diff(np.append(held, self.values)), kinds, most)
        below = (self.places <= held[chosen, None]).astype(np.float64)
        ends = self.values + 1
        shares = np.append(2.0 * times, -2.0 * ends) / (ends - 1)
        return np.vstack([below, times @ below / ends]), shares

    def _cells(self, cells: Cells, kinds: Cells, most: int) -> tuple[Floats, Floats]:
        """Single cells."""
        chosen, times = _standing(np.ones(len(cells), dtype=np.int64), kinds, most)
        rows = (np.arange(len(self.places)) == cells[chosen, None]).astype(np.float64)
        return rows, times / max(1, len(cells))


def _standing(times: Cells, kinds: Cells, most: int) -> tuple[Cells, Cells]:
    """Some of many things that stand for all of their kind, and how many each stands for.

    Args:
        times: How often each thing counts.
        kinds: The kind of each, from 0 on.
        most: How many are wanted at most, but for one of every kind.
    """
    several = int(kinds.max(initial=0)) + 1
    if 2 * several > most:  # nearly every one is of a kind of its own
        several, kinds = 1, np.zeros_like(kinds)
    chosen, counted = [], []
    for kind in range(several):
        alike = np.flatnonzero(kinds == kind)
        few = min(len(alike), most // several)
        edges = np.arange(few + 1) * len(alike) // max(few, 1)
        inside = np.arange(few) * _UNEVEN % 1 * np.diff(edges)
        chosen.append(alike[edges[:-1] + inside.astype(np.intp)])
        counted.append(np.add.reduceat(times[alike], edges[:-1]) if few else times[alike])
    return np.concatenate(chosen), np.concatenate(counted)


def variance(channel: Channel, rows: Floats, shares: Floats) -> float:
    """Mean variance, per person, of unbiased answers if people are spread evenly.

    Args:
        channel: The channel.
        rows: Weights, one row per question and one column per cell.
        shares: The share of each row in the mean.
    """
    spread = channel.second_moment(rows) - rows**2
    return float(shares @ spread.mean(axis=1))


def _kinds(metric: CellMetric) -> NDArray[np.int64]:
    """A number for every cell: cells that are told apart from others alike share it."""
    if isinstance(metric, HighLowMetric):
        return metric.sensitive.astype(np.int64)
    if isinstance(metric, BlockMetric):
        _, block, sizes = np.unique(metric.block, return_inverse=True, return_counts=True)
        return np.asarray(sizes[block], dtype=np.int64)
    if isinstance(metric, TableMetric):
        entries = metric.numerators.astype(np.float64)
        there, back = np.sort(entries, axis=1).sum(axis=1), np.sort(entries, axis=0).sum(axis=0)
        return np.unique(there + 1j * back, return_inverse=True)[1].astype(np.int64)
    return np.zeros(metric.size, dtype=np.int64)
