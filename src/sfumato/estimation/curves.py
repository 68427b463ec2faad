"""Cells along an ordered axis and the estimated CDF over them, for quantiles."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.domains.base import Domain


@dataclass(frozen=True, slots=True, eq=False)
class Ruler:
    """The cells of an ordered axis in base units (numbers, days or seconds).

    Args:
        starts: Where each cell begins.
        ends: Where each cell ends.
        lows: The lower end of an interval whose first cell it is.
        highs: The upper end of an interval whose last cell it is.
        whole: Whether values are whole numbers.
    """

    starts: Floats
    ends: Floats
    lows: Floats
    highs: Floats
    whole: bool

    @classmethod
    def of(cls, domain: Domain) -> Ruler:
        """The cells of a domain; whole numbers and days have cells of one or more steps."""
        if domain.kind in ("integers", "dates"):
            step = float(domain.spacing or 1)
            centres = np.array([float(place) for place in domain.positions()])
            first = centres - (step - 1) / 2
            return cls(first, first + step, first, first + step - 1, True)
        edges = np.asarray(domain.edges())
        edges = edges.astype(np.int64 if edges.dtype.kind == "M" else np.float64).astype(np.float64)
        starts, ends = edges[:-1], edges[1:]
        if not domain.rounding_bits:
            return cls(starts, ends, starts, ends, False)
        # With stochastic rounding a value between two grid points may be reported at either, so the
        # share up to one point bounds F at the next.
        points = np.array([float(place) for place in domain.positions()])
        lows, highs = np.append(points[:1], points[:-1]), np.append(points[1:], points[-1:])
        return cls(starts, ends, lows, highs, False)

    def within(self, cells: NDArray[np.int64]) -> Ruler:
        """Some of the cells only."""
        return Ruler(
            self.starts[cells], self.ends[cells], self.lows[cells], self.highs[cells], self.whole
        )

    def value(self, cell: int, share: float) -> float:
        """The value at a given share of the way through a cell.

        Args:
            cell: Number of the cell.
            share: From 0, its start, to 1, its end.
        """
        start, end = float(self.starts[cell]), float(self.ends[cell])
        place = min(start + min(max(share, 0.0), 1.0) * (end - start), end)
        return min(float(math.floor(place)), float(self.highs[cell])) if self.whole else place


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Estimated numbers of people at or below each cell and in all, with their errors.

    Args:
        counts: People at or below each cell.
        base: People in all.
        variance: Variances of `counts`.
        shared: Covariances of `counts` with `base`.
        spread: Variance of `base`.
    """

    counts: Floats
    base: float
    variance: Floats
    shared: Floats | float = 0.0
    spread: float = 0.0

    def error(self, q: float) -> Floats:
        """Standard error of count − q·base, whose mean is zero where the share is q."""
        variance = self.variance - 2 * q * self.shared + q**2 * self.spread
        return np.sqrt(np.maximum(variance, 0.0))

    def monotone(self) -> Floats:
        """Shares at or below each cell, made non-decreasing by isotonic regression, ending at 1."""
        raw = self.counts / self.base
        variance = self.variance - 2 * raw * self.shared + raw**2 * self.spread
        # Weights differ by a factor of at most a million: beyond that, differences are rounding.
        least = max(1e-6 * float(np.max(variance)), 1e-300)
        if len(raw) > 1:
            weights = 1.0 / np.maximum(variance[:-1] / least, 1.0)
            from scipy.optimize import isotonic_regression

            raw[:-1] = isotonic_regression(raw[:-1], weights=weights).x
        raw[-1] = 1.0
        return np.clip(raw, 0.0, 1.0)
