"""Cells laid along a line: where each begins and ends, in the base units of its axis."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.domains.base import Domain


@dataclass(frozen=True, slots=True, eq=False)
class Ruler:
    """Cells in base units: where each begins and ends, and how far an interval with it reaches."""

    starts: Floats
    ends: Floats
    lows: Floats
    highs: Floats
    whole: bool

    @classmethod
    def of(cls, domain: Domain) -> Ruler:
        """Read off a domain; whole numbers and days are cells of one or more steps."""
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
        # People between two grid points go to either: a share at a point bounds F at the next.
        points = np.array([float(place) for place in domain.positions()])
        lows, highs = np.append(points[:1], points[:-1]), np.append(points[1:], points[-1:])
        return cls(starts, ends, lows, highs, False)

    def within(self, cells: NDArray[np.int64]) -> Ruler:
        """Some of the cells only."""
        return Ruler(
            self.starts[cells], self.ends[cells], self.lows[cells], self.highs[cells], self.whole
        )

    def value(self, cell: int, share: float) -> float:
        """The place so far into a cell."""
        start, end = float(self.starts[cell]), float(self.ends[cell])
        place = min(start + min(max(share, 0.0), 1.0) * (end - start), end)
        return min(float(math.floor(place)), float(self.highs[cell])) if self.whole else place
