"""Functions of the cells of one axis: waves that reports are read by, and shapes of log-densities.

All are orthonormal for people spread evenly over the cells (mean square 1), the constant first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.study.axis import Axis


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """Functions of the cells of one axis, without the constant.

    Attributes:
        values: One function per column, shape (cells, functions).
        rank: How rough each is expected to be: 1 for the smoothest, more for finer detail.
    """

    values: Floats
    rank: Floats

    def __len__(self) -> int:
        return len(self.rank)

    def first(self, count: int) -> Basis:
        """The first of these functions."""
        return Basis(self.values[:, :count], self.rank[:count])


def waves(axis: Axis, order: NDArray[np.intp] | None = None) -> Basis:
    """Cosines of increasing frequency; along labels, any complete set of functions.

    Args:
        axis: The axis.
        order: Of labels, the most frequent first; left out, as they are listed.
    """
    if not axis.domain.ordered:
        return labels(axis.size, order)
    size = axis.domain.size
    angles = np.pi * np.outer(np.arange(size) + 0.5, np.arange(1, size)) / size
    return _with_no_answer(np.cos(angles), axis)


def shapes(axis: Axis, count: int, order: NDArray[np.intp] | None = None) -> Basis:
    """Polynomials of increasing degree, whose exponentials are smooth densities; or labels.

    Args:
        axis: The axis.
        count: How many at most.
        order: Of labels, the most frequent first; left out, as they are listed.
    """
    if not axis.domain.ordered:
        return labels(axis.size, order).first(count)
    size = axis.domain.size
    degree = min(count, size - 1)
    place = np.linspace(-1.0, 1.0, size) if size > 1 else np.zeros(1)
    powers: Floats = np.polynomial.legendre.legvander(place, degree)[:, 1:].astype(np.float64)
    return _with_no_answer(powers, axis)


def labels(size: int, order: NDArray[np.intp] | None = None) -> Basis:
    """Contrasts between labels that are all alike: each tells one label from those after it.

    Args:
        size: The number of labels.
        order: The labels in the order in which they are told; left out, as they are listed.
    """
    told = np.eye(size)[:, : size - 1]
    if order is not None:
        told = np.eye(size)[:, order[: size - 1]]
    return Basis(_orthonormal(told), np.ones(size - 1))


def _with_no_answer(functions: Floats, axis: Axis) -> Basis:
    """Functions of values; where there is "no answer", the last cell, it is told first."""
    rank = np.arange(1.0, functions.shape[1] + 1)
    if axis.optional:
        extended = np.zeros((axis.size, functions.shape[1] + 1))
        extended[-1, 0] = 1.0
        extended[:-1, 1:] = functions
        functions, rank = extended, np.append(1.0, rank)
    return Basis(_orthonormal(functions), rank)


def _orthonormal(functions: Floats) -> Floats:
    """Functions made orthogonal to the constant and to those before, with mean square one."""
    size = len(functions)
    full = np.column_stack([np.ones(size), functions])
    vectors, triangle = np.linalg.qr(full)
    result: Floats = (vectors * np.sign(np.diag(triangle)))[:, 1:] * np.sqrt(size)
    return result
