"""Stochastic rounding before a channel: every pair of real values is protected, not only bins.

A value is read to a fine grid of 2^−20 of a step, and goes up or down to a grid point with chances
in proportion to its place between them. If neighbouring grid points have odds of at most 1 + ε·h,
the law of the output is linear between them, so its logarithm changes by at most ε per unit: the
guarantee is E = ε·|a − b| for all read values a, b, and not only for grid points.

Under one ε for all pairs nothing is lost. At a value a the chance of an output y is an average of
those at two grid points, so P(y | a) <= max_k P(y | k) <= e^ε·min_k P(y | k) <= e^ε·P(y | b): odds
of e^ε between grid points are enough for all values. On an axis of one bin this is the private
weight of Xiang et al. 2020, §4.3.2: a weight in [0, Δ] becomes 0 or Δ, then binary response.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Cells, Floats
from sfumato.randomness.bits import BitSource
from sfumato.randomness.draws import Below, Steps
from sfumato.randomness.tables import leading


def grid_points(codes: Cells, resolution: int, bits: BitSource) -> Cells:
    """Round fine codes to one of the two nearest grid points at random; unbiased.

    Args:
        codes: Grid points times 2^resolution, plus the place on the way to the next.
        resolution: Bits of that place; with 0, codes are grid points and come back as they are.
        bits: Where randomness comes from: one word per person.
    """
    if not resolution:
        return codes
    fine = np.asarray(codes, dtype=np.int64)
    part = (fine & ((1 << resolution) - 1)).astype(np.uint64)
    # The chance part/2^resolution is exact: only that many leading bits decide.
    up = leading(bits.words(len(fine)), resolution) < part
    return (fine >> resolution) + up


def rounding_steps(codes: NDArray[np.int64], resolution: int) -> Steps:
    """The draw of `grid_points`, as `Channel.steps` lists draws.

    Args:
        codes: As `grid_points` takes them.
        resolution: Bits of a place between two grid points.
    """
    if not resolution:
        return codes
    part = (codes & ((1 << resolution) - 1)).astype(np.uint64)
    up = yield Below(part, resolution)
    return (codes >> resolution) + up


def rounding_excess(w: Floats, v: Floats) -> Floats:
    """The most that rounding can add to w·v beyond the product of the means, per grid point.

    Between grid points t(1 − t)·Δw·Δv of the product is rounding, at most a quarter of Δw·Δv. Both
    neighbours of a step carry that quarter, so their average never understates it.

    Args:
        w: Weights, one per grid point along the last axis.
        v: Other weights, of a shape that can be broadcast.
    """
    steps = np.diff(w, axis=-1) * np.diff(v, axis=-1) / 4
    excess = np.zeros(np.broadcast_shapes(w.shape, v.shape))
    excess[..., :-1] += steps
    excess[..., 1:] += steps
    return excess
