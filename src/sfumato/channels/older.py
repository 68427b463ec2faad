"""Laws of older revisions: studies that were made with them still load, and mean what they meant.

Words were rounded from floats then, so that their last digits are those of the processor. Every
table is checked against E where it is used, as it is today.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sfumato.arrays import Floats
from sfumato.channels.code import Code, Value
from sfumato.channels.exponential import Exponential, ExponentialChannel, too_coarse, unclear
from sfumato.channels.least_squares import TableChannel
from sfumato.channels.searched.codec import OutputRows
from sfumato.channels.searched.extremal import Extremal, ExtremalChannel, floor_bits
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.closure import closure


@dataclass(frozen=True, slots=True)
class FloatExponential(Exponential):
    """The exponential channel as it was first: weights by the processor's e^x."""

    revision: ClassVar[int] = 1

    def bind(
        self, metric: CellMetric, *, precision: int = 64, resolution: int = 0
    ) -> FloatExponentialChannel:
        """Build and check the integer table.

        Args:
            metric: E between the cells.
            precision: How many bits of a random word take part.
            resolution: Bits of a value's place between two cells; 0 without stochastic rounding.
        """
        self.refuse_misfit(metric, resolution)
        return FloatExponentialChannel(metric=metric, precision=precision)


@dataclass(frozen=True, kw_only=True, eq=False)
class FloatExponentialChannel(ExponentialChannel):
    """A table of words, one row per cell, certified against the metric."""

    def _rounded(self) -> tuple[tuple[int, ...], ...]:
        """Words with as little slack as passes the check."""
        given = self.metric.matrix()
        distance, _ = closure(np.minimum(given, given.T))
        for spare in range(min(36, self.precision - 4), 0, -1):
            rows = _rounded_rows(distance * (1 - 2.0**-spare), self.precision)
            if rows is not None and next(unclear(rows, distance), None) is None:
                return tuple(tuple(row) for row in rows)
        raise too_coarse(self.precision)


def _rounded_rows(distance: Floats, precision: int) -> list[list[int]] | None:
    """The ideal law in words: a floor keeps every reachable output likely enough to round well."""
    size = len(distance)
    near = np.isfinite(distance)
    weight = np.where(near, np.exp(-np.where(near, distance, 0.0) / 2), 0.0)
    law = weight / weight.sum(axis=1, keepdims=True)
    # The same rare event for all cells of a component puts out a uniform choice: E is kept.
    floor = 2.0 ** -max(2, precision // 3)
    law = (1 - floor) * law + floor * near / near.sum(axis=1, keepdims=True)
    rows = []
    for x in range(size):
        row = [int(p) for p in np.ldexp(law[x], precision)]
        row[x] += (1 << precision) - sum(row)
        if row[x] <= 0:
            return None
        rows.append(row)
    return rows


@dataclass(frozen=True, slots=True)
class FloatExtremal(Extremal):
    """The extremal channel as it was first: rows by the processor's e^x."""

    revision: ClassVar[int] = 1

    def bind(
        self, metric: CellMetric, *, precision: int = 64, resolution: int = 0
    ) -> FloatExtremalChannel:
        """Count the words of the rows and check them.

        Args:
            metric: E between the cells.
            precision: How many bits of a random word take part.
            resolution: Bits of a value's place between two cells; 0 without stochastic rounding.
        """
        rows = OutputRows.from_text(self._table_for(metric, resolution))
        return FloatExtremalChannel(metric=metric, rows=rows, precision=precision)


@dataclass(frozen=True, kw_only=True, eq=False)
class FloatExtremalChannel(ExtremalChannel):
    """One symbol per row, and a last one for the blank."""

    def _counted(self) -> list[list[int]]:
        """Words of every cell, the blank last."""
        logs = np.ldexp(self.rows.logs.astype(np.float64), -self.rows.unit)
        law = np.exp(logs).T * self.rows.shares
        floor = 2.0 ** -floor_bits(self.precision)
        law = (1 - floor) * law + floor / (law.shape[1] + 1)
        words = [[int(part) for part in np.ldexp(row, self.precision)] for row in law]
        return [[*row, (1 << self.precision) - sum(row)] for row in words]

    def device_code(self, code: Code, cell: Value) -> Value:
        """The words travel.

        Args:
            code: Where instructions are added.
            cell: The cell.
        """
        return TableChannel.device_code(self, code, cell)
