"""What the reports on one pair of axes say, as scores: their mean is linear in the shares of cells.

With q̄ the law of outputs for people spread evenly and F the frequencies of outputs, the score of a
wave c is Σ_y (Qᵀc)(y)·F(y)/q̄(y). Its mean is c·M·p with M = Q diag(1/q̄) Qᵀ, for any population p:
no channel need be inverted, and one that cannot see some detail simply says nothing about it. The
covariance of scores is M along the waves, per report, where people are spread evenly; it is scaled
to what the reports themselves show.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.channels.base import SymbolChannel

_ROWS_AT_ONCE = 32
_LEAST = 1e-300
_WATCHED = 2  # waves up to this one, and their products, show how widely scores spread


@dataclass(frozen=True, slots=True, eq=False)
class Eye:
    """How a channel on a grid of two axes sees products of waves.

    Attributes:
        inner: The channel.
        even: q̄.
        waves: The waves of each axis behind the constant, shape (cells, waves + 1).
        places: Which wave of each axis a product has, 0 for the constant; shape (products, 2).
        information: M along the products.
        watched: (Qᵀc)(y)/q̄(y)/cells for a few products, and their entries of M.
    """

    inner: SymbolChannel
    even: Floats
    waves: tuple[Floats, Floats]
    places: NDArray[np.intp]
    information: Floats
    watched: tuple[Floats, Floats]

    @classmethod
    def of(cls, inner: SymbolChannel, waves: tuple[Floats, Floats], few: tuple[int, int]) -> Eye:
        """Look at every wave of either axis, and at products of the first few.

        Args:
            inner: The channel of the pair.
            waves: Of each axis, shape (cells, waves).
            few: How many waves of each axis are multiplied with each other.
        """
        counts = [one.shape[1] for one in waves]
        places = [(j, 0) for j in range(1, counts[0] + 1)]
        places += [(0, k) for k in range(1, counts[1] + 1)]
        limits = [min(most, count) for most, count in zip(few, counts, strict=True)]
        places += [(j, k) for j in range(1, limits[0] + 1) for k in range(1, limits[1] + 1)]
        at = np.array(places, dtype=np.intp).reshape(-1, 2)
        one, other = (np.column_stack([np.ones(len(w)), w]) for w in waves)
        cells = len(one) * len(other)
        even = np.maximum(inner.mix(np.full(cells, 1 / cells)), _LEAST)
        back = np.empty((len(at), cells))
        rows = np.empty((len(at), cells))
        near = np.flatnonzero(at.max(axis=1, initial=0) <= _WATCHED)
        watched = np.empty((len(near), len(even)))
        for start in range(0, len(at), _ROWS_AT_ONCE):
            here = slice(start, min(start + _ROWS_AT_ONCE, len(at)))
            grid = one[:, at[here, 0]].T[:, :, None] * other[:, at[here, 1]].T[:, None, :]
            rows[here] = grid.reshape(len(grid), -1)
            seen = inner.mix(rows[here]) / even / cells
            back[here] = inner.expect(seen)
            mine = (near >= here.start) & (near < here.stop)
            watched[mine] = seen[near[mine] - here.start]
        information = back @ rows.T / cells
        information = (information + information.T) / 2
        return cls(inner, even, (one, other), at, information, (watched, information[near, near]))

    def read(self, counts: Floats) -> tuple[Floats, float, float]:
        """Scores of reports, their number, and how much wider they spread than M says.

        Args:
            counts: Reports by output.
        """
        people = float(counts.sum())
        if not people:
            return np.zeros(len(self.places)), 0.0, 1.0
        one, other = self.waves
        back = self.inner.expect(counts / people / self.even) / (len(one) * len(other))
        grid = one.T @ back.reshape(len(one), len(other)) @ other
        seen, least = self.watched
        square = (seen**2) @ counts / people
        wide = float(np.sum(square) / np.sum(least)) if np.sum(least) > 0 else 1.0
        return grid[self.places[:, 0], self.places[:, 1]], people, max(wide, 1.0)
