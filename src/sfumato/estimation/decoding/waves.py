"""The waves that reports can tell: a small basis for smooth priors on grids of any size.

A channel attenuates fine detail, and a smooth prior expects little of it. So θ is confined to the
products of waves along ordered axes (single cells along others) for which the information of the
reports is more than a small share of the prior's precision. The waves of an axis are the
eigenvectors of its prior: cosines under first differences alone; under second differences the ends
are free, and the first wave is nearly a straight line, which no few cosines can follow.

With people spread evenly, the information about a cosine c of unit length is (n/m)·h(c), with
h(c) = Σ_y (Qᵀc)(y)²/q̄(y)/m and q̄ the mean law of outputs; h is the product of its values along the
blocks. That of wave k is taken to be that of cosine k, which has as many changes of sign. Waves
that are left out enter the evidence as if they were independent, with the information at the
density of people around.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.estimation.decoding.field import Strengths, cosine_roughness, cosines

_FEW_MODES = 32  # up to this many waves along an axis are all measured; of more, as many
_MORE_COSINES = 8  # than waves of a line with free ends, which they are sums of
_PLACES = 12
_MOST_MEASURED = 1 << 24


@dataclass(frozen=True, slots=True, eq=False)
class Waves:
    """Products of waves along the axes of a grid.

    Args:
        shape: Number of cells of every axis.
        bases: For each axis, its waves as columns; None where they are single cells.
        places: One row per wave: its number along every axis.
        precision: The prior's precision of every wave; between two waves it is 0.
        rest: Information over precision of the waves that are left out, for people spread evenly.
        hidden: Which of all waves are left out, of the shape of the grid.
    """

    shape: tuple[int, ...]
    bases: tuple[Floats | None, ...]
    places: NDArray[np.intp]
    precision: Floats
    rest: Floats
    hidden: NDArray[np.bool_]

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
            transfer: h of every cosine, of the shape of the grid.
            people: Number of people.
            ordered: For each axis, whether it has waves.
            least: Information over precision, for people spread evenly, of the waves that are kept.
            most: Most waves; those with less information are left out …
            needed: … unless their information over precision is this.
        """
        shape = transfer.shape
        information = people / transfer.size * transfer
        steps = [
            cosine_roughness(size, *along)
            for size, along in zip(shape, strengths.along, strict=True)
        ]
        # Free ends take away two squared differences: wave k has at least the precision of cosine
        # k − 2.
        lowest = [one[np.maximum(np.arange(len(one)) - 2, 0)] for one in steps]
        likely = information > least * _summed(strengths.cells, lowest)
        bases: list[Floats | None] = []
        for axis, (size, along) in enumerate(zip(shape, strengths.along, strict=True)):
            if not ordered[axis]:
                bases.append(None)
                continue
            others = tuple(a for a in range(len(shape)) if a != axis)
            modes = max(1, int(np.sum(likely.any(axis=others))))
            values, vectors = line_waves(size, min(modes, most), *along)
            steps[axis][: len(values)] = values
            bases.append(vectors)
        precision = _summed(strengths.cells, steps)
        ratio = information / np.maximum(precision, 1e-12)
        if int(np.sum(ratio > least)) > most:
            least = float(np.partition(ratio, -most, axis=None)[-most])
            if least > needed:
                return None
        kept = ratio > least
        # The constants, which along unordered axes are sums over their cells.
        kept[tuple(0 if o else slice(None) for o in ordered)] = True
        for axis, basis in enumerate(bases):
            if basis is not None:
                np.moveaxis(kept, axis, 0)[basis.shape[1] :] = False
        places = np.argwhere(kept)
        used = tuple(
            None if basis is None else basis[:, : int(column.max()) + 1]
            for basis, column in zip(bases, places.T, strict=True)
        )
        return cls(shape, used, places, precision[kept], ratio[~kept], ~kept)

    def left_out(self, law: Floats) -> float:
        """What the waves that are left out add to the log-determinant, for people spread by p.

        Where people are m·p(x) times as dense as if they were spread evenly, reports tell that much
        more of a wave: Σ_waves mean_x log(1 + m·p(x)·ratio), by `_PLACES` quantiles of p.

        Args:
            law: p.
        """
        return _told_at(law, self.rest)

    def left_out_under(self, strengths: Strengths, information: Floats, law: Floats) -> float:
        """The same for the waves of another prior, whose precisions are taken to be of cosines.

        Args:
            strengths: The other prior.
            information: The information about every wave, for people spread evenly.
            law: p.
        """
        steps = [
            cosine_roughness(size, *a) for size, a in zip(self.shape, strengths.along, strict=True)
        ]
        precision = _summed(strengths.cells, steps)[self.hidden]
        return _told_at(law, information[self.hidden] / np.maximum(precision, 1e-12))

    def precision_under(self, strengths: Strengths) -> Floats:
        """The precision of these waves under another prior, as a matrix.

        Args:
            strengths: The other prior.
        """
        found: Floats = strengths.cells * np.eye(len(self))
        for axis, (basis, (first, second)) in enumerate(
            zip(self.bases, strengths.along, strict=True)
        ):
            if basis is not None:
                step = np.diff(basis, axis=0)
                bend = np.diff(step, axis=0)
                along = first * step.T @ step + second * bend.T @ bend
                own, others = self.places[:, axis], np.delete(self.places, axis, axis=1)
                _, line = np.unique(others, axis=0, return_inverse=True)
                line = line.reshape(-1)
                found += np.where(line[:, None] == line, along[own[:, None], own], 0.0)
        return found

    def read(self, values: Floats) -> Floats:
        """The inner products with all waves, shape (rows, waves).

        Args:
            values: Functions of the cells, shape (rows, *cells).
        """
        for axis, basis in enumerate(self.bases, start=1):
            if basis is not None:
                values = np.moveaxis(np.moveaxis(values, axis, -1) @ basis, -1, axis)
        found: Floats = values[(slice(None), *self.places.T)]
        return found

    def write(self, coefficients: Floats) -> Floats:
        """Sums of the waves, shape (rows, *cells).

        Args:
            coefficients: One per wave, shape (rows, waves).
        """
        modes = [
            size if basis is None else basis.shape[1]
            for size, basis in zip(self.shape, self.bases, strict=True)
        ]
        values = np.zeros((len(coefficients), *modes))
        values[(slice(None), *self.places.T)] = coefficients
        for axis, basis in enumerate(self.bases, start=1):
            if basis is not None:
                values = np.moveaxis(np.moveaxis(values, axis, -1) @ basis.T, -1, axis)
        return values

    def all(self) -> Floats:
        """All waves as functions of the cells, shape (waves, *cells)."""
        return self.write(np.eye(len(self)))


def line_waves(size: int, modes: int, first: float, second: float) -> tuple[Floats, Floats]:
    """The smoothest waves of a line, and the precision λ₁·D₁ᵀD₁ + λ₂·D₂ᵀD₂ of each.

    Under second differences they are sums of cosines, a straight line and a parabola, which take
    care of the ends (Rayleigh and Ritz): orthonormal, and with no precision between two of them.

    Args:
        size: Number of cells.
        modes: Number of waves.
        first: λ₁.
        second: λ₂.

    Returns:
        Precisions, shape (modes,), and waves as columns, shape (size, modes).
    """
    if not second:
        return cosine_roughness(size, first, second)[:modes], cosines(size, np.arange(modes))
    span = cosines(size, np.arange(min(size, modes + _MORE_COSINES)))
    if size > span.shape[1] + 2:
        place = np.linspace(-1.0, 1.0, size)
        ends = np.array([place, place**2]).T
        for _ in range(2):  # twice, since most of them lies among the cosines
            ends = np.linalg.qr(ends - span @ (span.T @ ends))[0]
        span = np.hstack([span, ends])
    elif size > span.shape[1]:
        span = cosines(size, np.arange(size))
    step = np.diff(span, axis=0)
    bend = np.diff(step, axis=0)
    values, turned = np.linalg.eigh(first * step.T @ step + second * bend.T @ bend)
    # The constants come first, exactly.
    vectors: Floats = span @ turned[:, :modes]
    vectors[:, 0] = math.sqrt(1 / size)
    values[0] = 0.0
    return np.maximum(values[:modes], 0.0), vectors


def _told_at(law: Floats, ratio: Floats) -> float:
    """Σ_waves mean_x log(1 + m·p(x)·ratio), by `_PLACES` quantiles of p."""
    groups = np.array_split(np.sort(law, axis=None) * law.size, min(_PLACES, law.size))
    parts = [len(one) * float(np.log1p(one.mean() * ratio).sum()) for one in groups]
    return sum(parts) / law.size


def _summed(cells: float, steps: Sequence[Floats]) -> Floats:
    """λ₀ and one term per axis, for all combinations."""
    total: Floats = np.full((), cells)
    for one in steps:
        total = np.add.outer(total, one)
    return total


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
    if math.prod(len(modes) for modes in measured) * cells > _MOST_MEASURED:
        return np.ones(shape)  # the most that can pass: too many waves for a matrix in any case
    rows: Floats = np.ones((1, 1))
    for size, modes, o in zip(shape, measured, ordered, strict=True):
        one = cosines(size, modes).T if o else np.eye(size)
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
