"""Synthetic tables that learn: weights of cells, multiplied up or down by each measurement.

They see measurements only, never the data: whatever they do is post-processing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np

from sfumato.arrays import Floats

_PASSES = 10  # over all measurements after each round of replay
_LAST_PASSES = 100  # after the last one
_TOLERANCE = 1.0  # scales of its noise by which a replayed measurement may be missed
_SETTLED = 1e-4  # of n people: closer than this a measurement need not be fitted


class Table(ABC):
    """n people spread over cells, evenly at first.

    Args:
        cells: Number of cells.
        n: Number of people.
        rounds: How many measurements there will be.
    """

    def __init__(self, cells: int, n: int, rounds: int) -> None:
        self.n, self.rounds, self.learnt = n, rounds, 0
        self.current: Floats = np.full(cells, n / cells)
        self._logs: Floats = np.zeros(cells)

    def _move(self, exponents: Floats) -> None:
        """y_i ∝ y_i·e^(exponent i), scaled to n people."""
        self._logs += exponents
        self._logs -= self._logs.max()
        grown = np.exp(self._logs)
        self.current = self.n * grown / grown.sum()

    @abstractmethod
    def learn(self, row: Floats, value: float, scale: float) -> None:
        """Reweight towards the measurement of a question.

        Args:
            row: The question's weight of every cell.
            value: What was measured.
            scale: Scale of the noise in it.
        """

    @abstractmethod
    def result(self) -> Floats:
        """The table to be published."""


class Averaged(Table):
    """One step a measurement, and the average of the tables before each: as published.

    Kamalaruban et al. 2020, Algorithm 2, corrected: m_t measures c·q′(x), so that the step is
    c·q′_i·(m_t − c·q′(y))/2n, with c in both places; else it would depend on c. Questions beyond
    the paper's |q| ≤ 1 are scaled by their largest coefficient.

    Args:
        cells: Number of cells.
        n: Number of people.
        rounds: How many measurements there will be.
        size: The largest absolute coefficient of any question.
    """

    def __init__(self, cells: int, n: int, rounds: int, size: float) -> None:
        super().__init__(cells, n, rounds)
        self._size = size
        self._sum: Floats = np.zeros(cells)

    def learn(self, row: Floats, value: float, scale: float) -> None:
        """Take one step."""
        self.learnt += 1
        self._sum += self.current
        away = value - float(row @ self.current)
        self._move(row * (away / (2 * self.n * self._size**2)))

    def result(self) -> Floats:
        """The average over t < T."""
        return np.asarray(self._sum / self.learnt)


class Replayed(Table):
    """All measurements fitted again whenever there is a new one, each to within its noise.

    In the limit this is the table of largest entropy that misses no measurement by more than the
    scale of its noise, if there is one.
    """

    def __init__(self, cells: int, n: int, rounds: int) -> None:
        super().__init__(cells, n, rounds)
        self._known: list[tuple[Floats, float, float]] = []

    def learn(self, row: Floats, value: float, scale: float) -> None:
        """Go over all measurements, the latest first."""
        self.learnt += 1
        self._known.insert(0, (row, value, scale))
        for _ in range(_LAST_PASSES if self.learnt == self.rounds else _PASSES):
            moved = [self._fit(*known) for known in self._known]
            if not any(moved):
                break

    def _fit(self, row: Floats, value: float, scale: float) -> bool:
        """Step towards one measurement, unless it is missed by no more than its noise."""
        away, spread = value - float(row @ self.current), float(np.ptp(row))
        away = math.copysign(max(0.0, abs(away) - _TOLERANCE * scale), away)
        if not spread or abs(away) < _SETTLED * self.n * spread:
            return False
        # A step of 1/(bound on the variance of q over cells) never overshoots.
        self._move(row * (4 * away / (self.n * spread**2)))
        return True

    def result(self) -> Floats:
        """The last table."""
        return self.current
