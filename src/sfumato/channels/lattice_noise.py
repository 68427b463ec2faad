"""Noise on a lattice, moved into a grid, in floats: means, mixtures and the inverse of the law.

Convolutions go through Fourier transforms. The inverse of a large grid is found by iteration: away
from the edges the law is diagonal in cosines, so that a few dozen steps are enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.arrays import DENSE_CELLS, Floats
from sfumato.errors import TooLargeError

#: Cells up to which the law and its inverse are matrices.
MOST_DENSE = 1536
_MANY_ROWS = 32  # for which a matrix is worth its time on more cells
_UNSEEN = 2.0**-40  # of the norm of a law: a share that no number of people shows
_ENTRIES_AT_ONCE = 1 << 22  # of transforms side by side
_STEPS, _MOST_ROUNDS, _ROUGH = 60, 8, 1e-6  # of an iteration
_RESIDUAL = 1e-10  # of the largest value of a reading: what may be left


@dataclass(frozen=True, eq=False)
class LatticeNoise:
    """Noise that moves a cell of a grid, or with a small chance a fixed law.

    Args:
        shape: Cells along every axis.
        classes: The chance of every class of noise: displacements 0, 1, … up to their signs. The
            last class of an axis may stand for all beyond.
        fixed: The chance of every cell by the fixed law, flat.
    """

    shape: tuple[int, ...]
    classes: Floats
    fixed: Floats

    @cached_property
    def kernel(self) -> Floats:
        """The chance of every displacement; what reaches across the grid is at its ends."""
        found = self.classes
        for axis, size in enumerate(self.shape):
            found = np.moveaxis(found, axis, 0)
            if len(found) > size:
                found = np.concatenate([found[: size - 1], found[size - 1 :].sum(0)[None]])
            both = np.concatenate([found[:0:-1] / 2, found[:1], found[1:] / 2])
            found = np.moveaxis(both, 0, axis)
        result: Floats = np.ascontiguousarray(found)
        return result

    @cached_property
    def reach(self) -> tuple[int, ...]:
        """The largest displacement along every axis."""
        return tuple((side - 1) // 2 for side in self.kernel.shape)

    def matrix(self) -> Floats:
        """P(output | cell)."""
        return self._moved + self.fixed

    @cached_property
    def _small(self) -> bool:
        """Whether products with a matrix are as fast as transforms, and more exact."""
        return math.prod(self.shape) <= MOST_DENSE

    @cached_property
    def _moved(self) -> Floats:
        """The noise alone, moved and gathered at the edges."""
        kernel = np.pad(
            self.kernel,
            [(size - 1 - far,) * 2 for size, far in zip(self.shape, self.reach, strict=True)],
        )
        size = math.prod(self.shape)
        found = np.empty((size, size))
        for row, cell in enumerate(np.ndindex(*self.shape)):
            held = kernel
            for axis, (side, place) in enumerate(zip(self.shape, cell, strict=True)):
                starts = np.append(0, np.arange(side - place, 2 * side - place - 1))
                held = np.add.reduceat(held, starts, axis=axis)
            found[row] = held.ravel()
        return found

    def grouped(self, groups: Sequence[int]) -> Floats:
        """P(group of outputs | group of cells), cells of a group being equally likely.

        Args:
            groups: How many neighbouring cells of every axis are joined; the last may be fewer.
        """
        found, fixed = self.kernel, self.fixed.reshape(self.shape)
        for axis, (size, group, far) in enumerate(zip(self.shape, groups, self.reach, strict=True)):
            cells, starts = np.arange(size), np.arange(0, size, group)
            moved = np.clip(cells[:, None] + np.arange(-far, far + 1), 0, size - 1) // group
            share = 1 / np.diff(np.append(starts, size))
            steps = np.zeros((len(starts), len(starts), 2 * far + 1))
            np.add.at(
                steps,
                (cells[:, None] // group, moved, np.arange(2 * far + 1)),
                share[cells // group][:, None],
            )
            # The first axis of displacements becomes the last two: from a group, and to one.
            found = np.tensordot(found, steps, axes=(0, 2))
            fixed = np.add.reduceat(fixed, starts, axis=axis)
        axes = range(found.ndim)
        size = math.prod(found.shape[::2])
        both = found.transpose(*axes[::2], *axes[1::2]).reshape(size, size)
        result: Floats = both + fixed.ravel()
        return result

    @cached_property
    def _lengths(self) -> tuple[int, ...]:
        """Lengths of transforms that hold a grid with the reach on both sides."""
        from scipy.fft import next_fast_len

        pairs = zip(self.shape, self.reach, strict=True)
        return tuple(int(next_fast_len(size + 2 * far, real=True)) for size, far in pairs)

    @cached_property
    def _spectrum(self) -> Any:
        """The transform of the kernel."""
        from scipy.fft import rfftn

        return rfftn(self.kernel, s=self._lengths)

    def _convolved(self, grids: Floats) -> Floats:
        """Every grid with the reach on both sides, convolved with the kernel."""
        from scipy.fft import irfftn, rfftn

        axes = tuple(range(1, grids.ndim))
        spectra = rfftn(grids, s=self._lengths, axes=axes)
        spectra *= self._spectrum
        result: Floats = irfftn(spectra, s=self._lengths, axes=axes)
        return result

    def _each(self, table: Floats, work: Callable[[Floats], Floats]) -> Floats:
        """A linear map of grids, for all rows of a table, a few at a time."""
        flat = np.asarray(table, dtype=np.float64).reshape(-1, *self.shape)
        found = np.empty_like(flat)
        at_once = max(1, _ENTRIES_AT_ONCE // math.prod(self._lengths))
        for start in range(0, len(flat), at_once):
            found[start : start + at_once] = work(flat[start : start + at_once])
        return found.reshape(np.shape(table))

    def _expect_noise(self, table: Floats) -> Floats:
        """The mean of a function of the output under the noise alone."""
        if self._small:
            result: Floats = np.asarray(table, dtype=np.float64) @ self._moved.T
            return result
        return self._each(table, self._averaged)

    def _averaged(self, grids: Floats) -> Floats:
        """Outputs beyond an edge are those at the edge."""
        padded = np.pad(grids, [(0, 0), *((far, far) for far in self.reach)], mode="edge")
        found = self._convolved(padded)
        pairs = zip(self.shape, self.reach, strict=True)
        return found[(slice(None), *(slice(2 * far, 2 * far + size) for size, far in pairs))]

    def _mix_noise(self, law: Floats) -> Floats:
        """The law of the output under the noise alone."""
        if self._small:
            result: Floats = np.asarray(law, dtype=np.float64) @ self._moved
            return result
        return self._each(law, self._spread)

    def _spread(self, grids: Floats) -> Floats:
        """Outputs beyond an edge are gathered at the edge."""
        found = self._convolved(grids)
        for axis, (size, far) in enumerate(zip(self.shape, self.reach, strict=True), 1):
            held = np.take(found, range(size + 2 * far), axis=axis)
            starts = np.append(0, np.arange(far + 1, far + size))
            found = np.add.reduceat(held, starts, axis=axis)
        return found

    def expect(self, table: Floats) -> Floats:
        """E[g(output) | x] of functions g of the output, along the last axis."""
        always = (np.asarray(table, dtype=np.float64) @ self.fixed)[..., None]
        result: Floats = self._expect_noise(table) + always
        return result

    def mix(self, law: Floats) -> Floats:
        """The law of the output for laws of cells, along the last axis."""
        people = np.sum(law, axis=-1, keepdims=True)
        found = self._mix_noise(law)
        if not self._small and np.min(law) >= 0:
            # Transforms are exact to a part of the largest chances. Decoding divides by chances and
            # transforms what comes out, so those that nobody will ever see must not be tiny, and
            # none negative. Differences of laws have signs of their own.
            found = np.maximum(found, _UNSEEN * np.linalg.norm(law, axis=-1, keepdims=True))
        result: Floats = found + people * self.fixed
        return result

    # The inverse: the fixed law is the same at every cell, so that it only moves the mean.

    def solve(self, weights: Floats) -> Floats:
        """Functions of the output whose means at every cell are the weights."""
        plain = self._inverted(weights, transposed=False)
        result: Floats = plain - (plain @ self.fixed)[..., None]
        return result

    def solve_transposed(self, profile: Floats) -> Floats:
        """The transpose of `solve`."""
        everyone = np.sum(profile, axis=-1, keepdims=True)
        return self._inverted(profile - everyone * self.fixed, transposed=True)

    def _inverted(self, rows: Floats, *, transposed: bool) -> Floats:
        """Rows times the inverse of the noise, or of its transpose."""
        size = math.prod(self.shape)
        flat = np.asarray(rows, dtype=np.float64).reshape(-1, size)
        if self._small or (len(flat) > _MANY_ROWS and size <= DENSE_CELLS):
            result: Floats = rows @ (self._inverse if transposed else self._inverse.T)
            return result
        forward = self._mix_noise if transposed else self._expect_noise
        found = np.array([self._iterated(forward, row) for row in flat])
        return found.reshape(np.shape(rows))

    @cached_property
    def _inverse(self) -> Floats:
        """The inverse of the noise as a matrix."""
        return np.linalg.inv(self._moved).astype(np.float64)

    @cached_property
    def passed(self) -> Floats:
        """How much of every product of cosines the noise lets pass, away from the edges."""
        found = self.kernel
        for axis, (size, far) in enumerate(zip(self.shape, self.reach, strict=True)):
            waves = np.cos(np.pi / size * np.outer(np.arange(size), np.arange(-far, far + 1)))
            found = np.moveaxis(np.tensordot(waves, found, axes=(1, axis)), 0, axis)
        return found

    def _near_inverse(self, row: Floats) -> Floats:
        """The inverse as if the grid were reflected at its edges."""
        from scipy.fft import dctn, idctn

        waves = dctn(row.reshape(self.shape), norm="ortho") / self.passed
        result: Floats = idctn(waves, norm="ortho").ravel()
        return result

    def _iterated(self, forward: Callable[[Floats], Floats], row: Floats) -> Floats:
        """The solution of forward(f) = row by the method of generalised minimal residuals."""
        from scipy.sparse.linalg import LinearOperator, gmres

        size = row.size
        operator = LinearOperator((size, size), matvec=forward, dtype=np.float64)
        near = LinearOperator((size, size), matvec=self._near_inverse, dtype=np.float64)
        found: Floats = np.zeros(size)
        for _ in range(_MOST_ROUNDS):
            left = row - forward(found)
            # A reading's own spread is as large as its values: beside it this is nothing.
            if np.abs(left).max() <= _RESIDUAL * np.abs(found).max():
                return found
            step, _failed = gmres(operator, left, M=near, rtol=_ROUGH, restart=_STEPS, maxiter=1)
            found = found + step
        raise TooLargeError(
            f"unbiased answers on a grid of {' × '.join(map(str, self.shape))} cells at this "
            'epsilon cannot be computed; use method="likelihood", or fewer cells'
        )
