"""Channels defined by a table of words, and channels decoded by weighted least squares.

A channel with more outputs than cells leaves many functions f of the output with E[f | x] = w[x].
With Q the likelihood and D the diagonal of its column means, the law of the output when all cells
are equally likely, f = wᵀ(Q D⁻¹ Qᵀ)⁻¹ Q D⁻¹ has the smallest variance of them under that law.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import PEOPLE_AT_ONCE, Cells, Floats
from sfumato.channels.base import SymbolChannel
from sfumato.channels.code import Code, Value, runs
from sfumato.errors import StudyError
from sfumato.randomness.bits import BitSource
from sfumato.randomness.draws import Pick, PickRow, Steps
from sfumato.randomness.tables import RowTable

MOST_READ_CELLS = 2048
_WORST_CONDITION = 1e12


class TableChannel(SymbolChannel):
    """A symbol channel whose law is a table of words, drawn from row by row.

    Attributes:
        table: Words, one row per cell and one column per output; every row sums to 2^precision.
    """

    table: tuple[tuple[int, ...], ...]

    @property
    def outputs(self) -> int:
        """Columns of the table."""
        return len(self.table[0])

    def encode(self, cells: Cells, bits: BitSource) -> Cells:
        """Search each person's word in the row of their cell.

        Args:
            cells: One cell per person.
            bits: Where randomness comes from.
        """
        out = np.empty(len(cells), dtype=self.symbol_type())
        for start in range(0, len(cells), PEOPLE_AT_ONCE):
            part = np.asarray(cells[start : start + PEOPLE_AT_ONCE], dtype=np.int64)
            out[start : start + len(part)] = self._sampler.draw(bits, part)
        return out

    def steps(self, cells: NDArray[np.int64]) -> Steps:
        """An outcome of the cell's row is an output."""
        rows = {cell: Pick(self.table[cell], self.precision) for cell in np.unique(cells).tolist()}
        return (yield PickRow(rows, cells))

    @cached_property
    def _sampler(self) -> RowTable:
        """What `encode` searches."""
        return RowTable(self.table, self.precision)

    def device_code(self, code: Code, cell: Value) -> Value:
        """An outcome of the cell's row is an output.

        Args:
            code: Where instructions are added.
            cell: The cell.
        """
        return code.row(map(runs, self.table), self.precision, cell)

    def likelihood(self) -> Floats:
        """P(output | cell)."""
        law: Floats = np.array(self.table, dtype=np.float64) / 2.0**self.precision
        return law

    def words(self) -> tuple[list[list[int]], int]:
        """The table."""
        return [list(row) for row in self.table], 1 << self.precision

    def sampler_problems(self) -> Iterator[str]:
        """The sampler must search the sums of the rows shown."""
        return self._sampler.problems(self.table)


class LeastSquaresChannel(SymbolChannel):
    """A symbol channel whose outputs are read by least squares, from a matrix of moderate size.

    Estimator:
        Unbiased whatever the population; the variance is least for people spread evenly, and is
        exact for every population.
    """

    def coefficients(self, weights: Floats) -> Floats:
        """The least-squares function of the output with the wanted means."""
        return weights @ self._reading

    def gather(self, profile: Floats) -> Floats:
        """The transposed reading."""
        return profile @ self._reading.T

    @cached_property
    def _reading(self) -> Floats:
        """(Q D⁻¹ Qᵀ)⁻¹ Q D⁻¹, one row per cell and one column per output."""
        return reading_of(self.likelihood())


def reading_of(likelihood: Floats) -> Floats:
    """The least-squares reading of every single cell, one row each.

    By orthogonal factors of D^(−1/2) Qᵀ, so that the condition of Q is not squared.

    Raises:
        StudyError: If some cells cannot be told apart.

    Example:
        >>> law = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
        >>> bool(np.allclose(reading_of(law) @ law.T, np.eye(2)))
        True
    """
    mean = likelihood.mean(axis=0)
    scale = np.where(mean > 0, 1 / np.sqrt(np.where(mean > 0, mean, 1.0)), 0.0)
    factor, triangle = np.linalg.qr((likelihood * scale).T)
    inverse = _inverted(triangle)
    condition = float(np.linalg.norm(triangle, 1) * np.linalg.norm(inverse, 1))
    if not condition < _WORST_CONDITION:
        raise StudyError(
            "the outputs of this channel cannot be read: some cells can hardly be told apart "
            f"(condition {condition:.1e}); use a larger epsilon or fewer cells"
        )
    result: Floats = inverse @ factor.T * scale
    return result


def _inverted(triangle: Floats) -> Floats:
    """The inverse of an upper triangular matrix; infinite entries if it is singular."""
    try:
        return np.linalg.inv(triangle).astype(np.float64)
    except np.linalg.LinAlgError:
        return np.full_like(triangle, np.inf)
