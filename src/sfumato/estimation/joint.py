"""Unbiased answers where one channel sent whole records: questions are weights over the grid."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.arrays import Floats
from sfumato.estimation.answers import Terms
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.rows import Rows, grid_rows
from sfumato.questions.language import Question

if TYPE_CHECKING:
    from sfumato.collect.statistics import BitReports, SymbolCounts
    from sfumato.study.study import Study


_ENTRIES_AT_ONCE = 1 << 22


class JointUnbiasedEstimate(Estimate):
    """Unbiased answers from one tally of whole records."""

    method: ClassVar[str] = "unbiased"

    def __init__(self, study: Study, statistic: SymbolCounts | BitReports) -> None:
        super().__init__(study, statistic)
        (self._channel,) = study.mechanism.channels

    def moments(
        self, terms: Terms, *, population: bool = False, beside: Terms = ()
    ) -> tuple[float, float]:
        """All terms as one question about the grid."""
        if not self.n:
            return math.nan, math.nan
        every = tuple(range(len(self.study.axes)))
        row = np.zeros(self.study.shape)
        for factor, question in terms:
            row += factor * outer(question, every, self.study.shape)
        values, variance = self.grid_moments(row[None], population=population)
        return float(values[0]), float(variance[0])

    def row_moments(
        self, asked: Question, rows: dict[int, Rows], *, population: bool, conditional: bool
    ) -> tuple[Floats, Floats]:
        """Every combination of rows as a question about the grid."""
        shape = tuple(len(row.weights) for row in rows.values())
        if not self.n:
            return np.full(shape, np.nan), np.full(shape, np.nan)
        every = tuple(range(len(self.study.axes)))
        base = outer(asked, every, self.study.shape)
        total = self.moments(((1.0, asked),))[0] if conditional else 1.0
        found = []
        for table in row_tables(asked, rows, every, self.study.shape):
            values, variance = self.grid_moments(table, population=population)
            if conditional:
                # To first order a share errs as (its count − share·base) / base does.
                values = values / total
                off = (table - np.multiply.outer(values, base)) / total
                _, variance = self.grid_moments(off, population=population)
            found.append((values, variance))
        values, variance = (np.concatenate(part) for part in zip(*found, strict=True))
        return values.reshape(shape), variance.reshape(shape)

    def grid_moments(self, grids: Floats, *, population: bool) -> tuple[Floats, Floats]:
        """By turning every question into a function of the output."""
        flat = grids.reshape(len(grids), -1)
        return grid_rows(self.statistic, [self._channel], flat, population)


def outer(question: Question, axes: Sequence[int], shape: Sequence[int]) -> Floats:
    """A question's weights over the grid of some axes."""
    grid: Floats = np.ones(())
    for axis in axes:
        w = question.weights[axis]
        grid = np.multiply.outer(grid, np.ones(shape[axis]) if w is None else w)
    return grid


def row_tables(
    asked: Question, rows: dict[int, Rows], axes: Sequence[int], shape: Sequence[int]
) -> Iterator[Floats]:
    """Every combination of rows as weights over the grid of some axes, a chunk at a time."""
    sizes = [len(row.weights) for row in rows.values()]
    cells = math.prod(shape[axis] for axis in axes)
    count = math.prod(sizes)
    at_once = max(1, _ENTRIES_AT_ONCE // cells)
    for start in range(0, count, at_once):
        places = np.unravel_index(np.arange(start, min(start + at_once, count)), sizes)
        row_of = dict(zip(rows, places, strict=True))
        table: Floats = np.ones(len(places[0]))
        for axis in axes:
            w = asked.weights[axis]
            if axis in rows:
                part = rows[axis].weights[row_of[axis]]
            else:
                part = (np.ones(shape[axis]) if w is None else w)[None, :]
            table = table[..., None] * part.reshape(
                len(part), *(1,) * (table.ndim - 1), part.shape[1]
            )
        yield table
