"""The cosines that reports can tell: a small basis for smooth priors on grids of any size.

A channel attenuates fine detail, and a smooth prior expects little of it. So θ is confined to the
products of cosines along ordered axes (single cells along others) for which the information of the
reports is more than a small share of the prior's precision. With people spread evenly, the
information about a wave c of unit length is (n/m)·h(c), with h(c) = Σ_y (Qᵀc)(y)²/q̄(y)/m and q̄ the
mean law of outputs; h is the product of its values along the blocks. Waves that are left out enter
the evidence as if they were independent, with the information at the density of people around.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.estimation.decoding.field import (
    Strengths,
    cosine_precision,
    cosine_roughness,
    cosines,
)

_FEW_MODES = 32  # up to this many waves along an axis are all measured; of more, as many
_PLACES = 12


@dataclass(frozen=True, slots=True, eq=False)
class Waves:
    """Products of cosines along the axes of a grid.

    Args:
        shape: Number of cells of every axis.
        ordered: For each axis, whether its waves are cosines; along others they are single cells.
        modes: For each axis, the waves along it that occur, counted from the longest.
        places: One row per wave: its number along every axis.
        rest: Information over precision of the waves that are left out, for people spread evenly.
    """

    shape: tuple[int, ...]
    ordered: tuple[bool, ...]
    modes: tuple[int, ...]
    places: NDArray[np.intp]
    rest: Floats

    def __len__(self) -> int:
        return len(self.places)

    @classmethod
    def told(
        cls,
        strengths: Strengths,
        transfer: Floats,
        people: float,
        ordered: Sequence[bool],
        *,
        least: float,
        most: int,
        needed: float,
    ) -> Waves | None:
        """The waves that reports can tell under a prior; None if there are too many for a matrix.

        Args:
            strengths: The prior.
            transfer: h of every wave, of the shape of the grid.
            people: Number of people, times how much denser they are than if spread evenly.
            ordered: For each axis, whether its waves are cosines.
            least: Information over precision from which waves are kept.
            most: Most waves; those with less information are left out …
            needed: … unless their information over precision is this.
        """
        shape = transfer.shape
        precision = np.full(shape, strengths.cells)
        for axis, (size, along) in enumerate(zip(shape, strengths.along, strict=True)):
            if any(along):
                steps = cosine_roughness(size, *along)
                precision = precision + steps.reshape(_along(axis, len(shape)))
        ratio = people / transfer.size * transfer / np.maximum(precision, 1e-12)
        if int(np.sum(ratio > least)) > most:
            least = float(np.partition(ratio, -most, axis=None)[-most])
            if least > needed:
                return None
        kept = ratio > least
        # The constants, which along unordered axes are sums over their cells.
        kept[tuple(0 if o else slice(None) for o in ordered)] = True
        places = np.argwhere(kept)
        modes = tuple(
            int(column.max()) + 1 if o else size
            for column, size, o in zip(places.T, shape, ordered, strict=True)
        )
        return cls(shape, tuple(ordered), modes, places, ratio[~kept])

    def left_out(self, law: Floats) -> float:
        """What the waves that are left out add to the log-determinant, for people spread by p.

        Where people are m·p(x) times as dense as if they were spread evenly, reports tell that much
        more of a wave: Σ_waves mean_x log(1 + m·p(x)·ratio), by `_PLACES` quantiles of p.

        Args:
            law: p.
        """
        dense = np.sort(law, axis=None) * law.size
        groups = np.array_split(dense, min(_PLACES, len(dense)))
        total = 0.0
        for group in groups:
            total += len(group) * float(np.log1p(group.mean() * self.rest).sum())
        return total / law.size

    def read(self, values: Floats) -> Floats:
        """The inner products with all waves, shape (rows, waves).

        Args:
            values: Functions of the cells, shape (rows, *cells).
        """
        for axis, (size, modes, o) in enumerate(
            zip(self.shape, self.modes, self.ordered, strict=True)
        ):
            if o:
                last = np.moveaxis(values, axis + 1, -1) @ cosines(size, modes)
                values = np.moveaxis(last, -1, axis + 1)
        found: Floats = values[(slice(None), *self.places.T)]
        return found

    def write(self, coefficients: Floats) -> Floats:
        """Sums of the waves, shape (rows, *cells).

        Args:
            coefficients: One per wave, shape (rows, waves).
        """
        values = np.zeros((len(coefficients), *self.modes))
        values[(slice(None), *self.places.T)] = coefficients
        for axis, (size, modes, o) in enumerate(
            zip(self.shape, self.modes, self.ordered, strict=True)
        ):
            if o:
                last = np.moveaxis(values, axis + 1, -1) @ cosines(size, modes).T
                values = np.moveaxis(last, -1, axis + 1)
        return values

    def all(self) -> Floats:
        """All waves as functions of the cells, shape (waves, *cells)."""
        return self.write(np.eye(len(self)))

    def precision(self, strengths: Strengths) -> Floats:
        """The prior's precision between waves, shape (waves, waves)."""
        found: Floats = strengths.cells * np.eye(len(self))
        for axis, (size, along) in enumerate(zip(self.shape, strengths.along, strict=True)):
            if any(along):
                own = self.places[:, axis]
                one = cosine_precision(size, self.modes[axis], *along)[np.ix_(own, own)]
                others = np.delete(self.places, axis, axis=1)
                if others.shape[1]:
                    _, group = np.unique(others, axis=0, return_inverse=True)
                    group = group.reshape(-1)
                    one = np.where(group[:, None] == group, one, 0.0)
                found += one
        return found


def _along(axis: int, axes: int) -> list[int]:
    """The shape of a vector that is broadcast along one axis of a grid."""
    return [-1 if d == axis else 1 for d in range(axes)]


def measured_transfer(
    forward: Callable[[Floats], Floats],
    weight: Callable[[Floats], Floats],
    people: float,
    shape: tuple[int, ...],
    ordered: Sequence[bool],
) -> Floats:
    """H of every wave, by passing waves through a channel: a few along each axis.

    The others are interpolated.

    Args:
        forward: From distributions over cells, shape (rows, *cells), to those of outputs.
        weight: The information about the probability of every output.
        people: Number of people that the information is of.
        shape: Number of cells of every axis.
        ordered: For each axis, whether its waves are cosines.

    Returns:
        h, of the shape of the grid.
    """
    cells = math.prod(shape)
    few = max(2, int(_FEW_MODES ** (1 / len(shape)))) if len(shape) > 1 else _FEW_MODES
    measured = [
        _spread(size, few) if o else np.arange(size) for size, o in zip(shape, ordered, strict=True)
    ]
    rows: Floats = np.ones((1, 1))
    for size, modes, o in zip(shape, measured, ordered, strict=True):
        one = cosines(size, int(modes[-1]) + 1)[:, modes].T if o else np.eye(size)
        rows = np.kron(rows, one).astype(np.float64, copy=False)
    flat = np.full((1, *shape), 1 / cells)
    seen = weight(forward(flat)[0]).ravel()
    passed = forward(rows.reshape(-1, *shape)).reshape(len(rows), -1)
    found = (passed**2 @ seen / cells / people).reshape([len(modes) for modes in measured])
    for axis, (size, modes) in enumerate(zip(shape, measured, strict=True)):
        if len(modes) < size:
            logs = np.log(np.maximum(np.moveaxis(found, axis, -1), 1e-300))
            every = [np.interp(np.arange(size), modes, one) for one in logs.reshape(-1, len(modes))]
            full = np.exp(every).reshape(*logs.shape[:-1], size)
            found = np.moveaxis(full, -1, axis)
    return found


def _spread(size: int, few: int) -> NDArray[np.intp]:
    """Numbers of waves to measure: all of a short axis, else fewer and fewer towards the end."""
    if size <= few:
        return np.arange(size)
    return np.unique(np.rint(np.geomspace(1, size, few)).astype(np.intp)) - 1
