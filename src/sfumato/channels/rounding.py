"""Stochastic rounding before a channel: every pair of real values is protected, not only bins.

A value is read to a fine grid of 2^−20 of a step, and goes up or down to a grid point with chances
in proportion to its place between them. If neighbouring grid points have odds of at most 1 + ε·h,
the law of the output is linear between them, so its logarithm changes by at most ε per unit: the
guarantee is E = ε·|a − b| for all read values a, b, and not only for grid points.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sfumato.arrays import Cells, Floats, Layout, Outputs
from sfumato.channels.base import Channel, Functional
from sfumato.metrics.cells import CellMetric
from sfumato.randomness.bits import BitSource
from sfumato.randomness.tables import leading


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundedChannel(Channel):
    """A channel on grid points behind a random choice between the two nearest ones.

    Args:
        inner: The channel on grid points, bound with odds of 1 + ε per step.
        resolution: Bits of a value's place between two grid points.
    """

    id: ClassVar[str] = "rounded"
    inner: Channel
    resolution: int

    @property
    def metric(self) -> CellMetric:  # type: ignore[override]
        """E between grid points; between them it is the straight line."""
        return self.inner.metric

    @property
    def precision(self) -> int:  # type: ignore[override]
        """Bits of a random word that take part."""
        return self.inner.precision

    def encode(self, cells: Cells, bits: BitSource) -> Outputs:
        """Round fine codes to grid points at random, then perturb."""
        codes = np.asarray(cells, dtype=np.int64)
        part = (codes & ((1 << self.resolution) - 1)).astype(np.uint64)
        # The chance part/2^resolution is exact: only that many leading bits decide.
        up = leading(bits.words(len(codes)), self.resolution) < part
        return self.inner.encode((codes >> self.resolution) + up, bits)

    def words(self) -> tuple[list[list[int]], int]:
        """Exact word counts at grid points; between them the rows are averaged."""
        return self.inner.words()

    def worst_ratio(self) -> Fraction | None:
        """Largest odds between neighbouring grid points."""
        return self.inner.worst_ratio()

    def likelihood(self) -> Floats:
        """P(output | grid point)."""
        return self.inner.likelihood()

    def functional(self, weights: ArrayLike) -> Functional:
        """Unbiased for weights that are linear between grid points."""
        return self.inner.functional(weights)

    def product_coefficients(self, w: Floats, v: Floats) -> Floats:
        """As on grid points."""
        return self.inner.product_coefficients(w, v)

    def second_moment(self, weights: ArrayLike) -> Floats:
        """E[f² | grid point]."""
        return self.inner.second_moment(weights)

    def coefficients(self, weights: Floats) -> Floats:
        """As on grid points."""
        return self.inner.coefficients(weights)

    @property
    def linear(self) -> bool:
        """As on grid points."""
        return self.inner.linear

    def gather(self, profile: Floats) -> Floats:
        """As on grid points."""
        return self.inner.gather(profile)

    def products(self, profile: Floats, w: Floats, v: Floats) -> Floats:
        """As on grid points."""
        return self.inner.products(profile, w, v)

    def report_likelihood(self, outputs: Outputs) -> Floats:
        """As on grid points."""
        return self.inner.report_likelihood(outputs)

    def expect(self, table: Floats) -> Floats:
        """As on grid points."""
        return self.inner.expect(table)

    def mix(self, law: Floats) -> Floats:
        """As on grid points."""
        return self.inner.mix(law)

    def flip_spread(self, weights: Floats) -> Floats:
        """As on grid points."""
        return self.inner.flip_spread(weights)

    def own_spread(self, weights: Floats) -> Floats | None:
        """As on grid points."""
        return self.inner.own_spread(weights)

    @property
    def rounds(self) -> bool:
        """Always."""
        return True

    def rounding_excess(self, w: Floats, v: Floats) -> Floats:
        """Between grid points t(1 − t)·Δw·Δv of the product is rounding, at most a quarter.

        Both neighbours of a step carry that quarter, so their average never understates it.
        """
        steps = np.diff(w, axis=-1) * np.diff(v, axis=-1) / 4
        excess = np.zeros(np.broadcast_shapes(w.shape, v.shape))
        excess[..., :-1] += steps
        excess[..., 1:] += steps
        return excess

    @property
    def layout(self) -> Layout:
        """As the inner channel writes it."""
        return self.inner.layout
