"""A log-likelihood to second order: searches that need no pass through the outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato.arrays import Floats
from sfumato.estimation.decoding.mixture import LOOSE_CELLS, Mixture, around, paired


@dataclass(frozen=True, eq=False)
class Quadratic:
    """A log-likelihood to second order in p, around a distribution near its maximum.

    It needs no pass through the outputs, of which there may be many more than cells.

    Args:
        shape: Number of cells of every axis.
        people: Number of people.
        centre: The distribution around which it is expanded.
        top: The log-likelihood there.
        climb: Its derivative by every cell's share there.
        times: v → A·v for one v or several along leading axes, with −A the second derivative.
        own: The diagonal of A.
        transfer: How much information about every wave passes, as in `Likelihood`.
        matrix: A as a matrix over all cells, on small grids.
    """

    shape: tuple[int, ...]
    people: float
    centre: Floats
    top: float
    climb: Floats
    times: Callable[[Floats], Floats]
    own: Floats | float
    transfer: Callable[[tuple[bool, ...]], Floats]
    matrix: Floats | None = None

    @classmethod
    def of(cls, mixture: Mixture, law: Floats) -> Quadratic:
        """The expansion of a mixture, on a small grid or for a channel that knows `even_second`.

        Args:
            mixture: The counts of outputs, and the channels.
            law: The distribution around which it is expanded.
        """
        mixed = mixture.forward(law)
        held = (mixture.shape, mixture.people, law, mixture.value(mixed), mixture.slope(mixed))
        even = mixture.even_second
        if even is not None:
            unit = np.zeros(law.shape)
            unit.flat[0] = 1.0
            whole = mixture.second(mixed) if law.size <= LOOSE_CELLS else None
            return cls(*held, even, float(even(unit).flat[0]), mixture.transfer, whole)
        matrix = mixture.second(mixed)

        def times(v: Floats) -> Floats:
            return (v.reshape(-1, law.size) @ matrix).reshape(v.shape)

        own = np.diag(matrix).reshape(law.shape)
        return cls(*held, times, own, mixture.transfer, matrix)

    @property
    def outputs(self) -> int:
        """As many as cells."""
        return self.centre.size

    def forward(self, law: Floats) -> Floats:
        """The distribution itself."""
        return law

    def value(self, mixed: Floats) -> float:
        """To second order."""
        off = mixed - self.centre
        return self.top + float(np.sum(off * (self.climb - self.times(off) / 2)))

    def slope(self, mixed: Floats) -> Floats:
        """To first order."""
        result: Floats = self.climb - self.times(mixed - self.centre)
        return result

    def curve(self, changes: Floats, mixed: Floats) -> Floats:
        """A·s.

        Args:
            changes: One change s of p, or several.
            mixed: Where, as `forward` gives it.
        """
        return self.times(changes)

    def bend(self, changes: Floats, mixed: Floats) -> Floats:
        """sᵀ·A·t.

        Args:
            changes: Changes s and t of p.
            mixed: Where, as `forward` gives it.
        """
        return paired(changes, self.times(changes))

    def information(self, law: Floats, mixed: Floats) -> Floats:
        """J·A·J.

        Args:
            law: p.
            mixed: `forward` of p.
        """
        assert self.matrix is not None  # noqa: S101 - only small grids have a matrix over all cells
        return around(self.matrix, law)

    def settle(self) -> None:
        """A is the same anywhere."""

    def diagonal(self, law: Floats, mixed: Floats) -> Floats:
        """That of J·A·J.

        Args:
            law: p.
            mixed: `forward` of p.
        """
        beside = self.times(law)
        result: Floats = law**2 * (self.own - 2 * beside + float(np.sum(law * beside)))
        return result
