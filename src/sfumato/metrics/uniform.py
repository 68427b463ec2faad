"""Uniform protection: ordinary local differential privacy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.domains.base import Domain
from sfumato.exact import positive, to_plain
from sfumato.metrics.base import Metric, set_fields
from sfumato.metrics.cells import CellMetric, check_cells, joined_notes, refuse_large_matrix
from sfumato.metrics.words import Number, label_of


@dataclass(frozen=True, slots=True)
class UniformMetric(CellMetric):
    """E is ε between any two cells: ordinary local differential privacy.

    Example:
        >>> UniformMetric(Fraction(1), 4).exact(0, 3)
        Fraction(1, 1)
    """

    epsilon: Fraction
    size: int
    notes: tuple[str, ...] = ()

    def largest(self) -> Fraction:
        """ε."""
        return self.epsilon

    def exact(self, i: int, j: int) -> Fraction:
        """E(i, j).

        Args:
            i: The cell that changes.
            j: The cell it changes to.
        """
        check_cells(i, j, self.size)
        return Fraction(0) if i == j else self.epsilon

    def matrix(self) -> NDArray[np.float64]:
        """All of E, shape (size, size)."""
        refuse_large_matrix(self.size)
        return np.where(np.eye(self.size, dtype=bool), 0.0, float(self.epsilon))

    def integers(self) -> tuple[NDArray[Any], int]:
        """All of E as Python integers over one denominator."""
        full = np.full((self.size, self.size), self.epsilon.numerator, dtype=object)
        np.fill_diagonal(full, 0)
        return full, self.epsilon.denominator

    def plus(self, others: Sequence[CellMetric]) -> UniformMetric | None:
        """The sum with other uniform metrics."""
        parts = [self, *(other for other in others if isinstance(other, UniformMetric))]
        if len(parts) <= len(others):
            return None
        epsilon = sum((part.epsilon for part in parts), Fraction(0))
        return UniformMetric(epsilon, self.size, joined_notes(*parts))


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Uniform(Metric):
    """E is ε for any two values: ordinary local differential privacy.

    Example:
        >>> Uniform(epsilon=1).between("north", "south")
        1.0
    """

    kind: ClassVar[str] = "uniform"
    epsilon: Fraction

    def __init__(self, epsilon: Number) -> None:
        """Read the number exactly."""
        set_fields(self, epsilon=positive(epsilon, "epsilon"))

    def between(self, x: Any, y: Any) -> float:
        """E(x, y).

        Args:
            x: One value as people write it.
            y: The other.
        """
        return 0.0 if x == y or label_of(x) == label_of(y) else float(self.epsilon)

    def bind(self, domain: Domain, *, optional: bool) -> UniformMetric:
        """E between cells, "no answer" like any other.

        Args:
            domain: What the values of the axis may be.
            optional: Whether "no answer" is one more cell, the last.
        """
        return UniformMetric(self.epsilon, domain.size + optional)

    def describe(self) -> str:
        """The statement in plain words."""
        return f"E = {to_plain(self.epsilon)} for any two values"

    def to_dict(self) -> dict[str, Any]:
        """The statement as a file holds it, exactly."""
        return {"kind": self.kind, "epsilon": to_plain(self.epsilon)}
