"""Two-sided geometric noise, clamped to the axis: one small number a report.

Guarantee:
    E(x, x') = ε·|x − x'| on equally spaced cells, exact for the integer table, and tight.

Estimator:
    Unbiased with a tridiagonal inverse. With α = e^−ε, a = α/(1−α)² and d[y] = w[y] − w[y+1], the
    unclamped functional is f(y) = w[y] + a·(d[y] − d[y−1]); at the two ends clamping averages it
    with the tail. Only people near an end of a range add noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from sfumato.arrays import PEOPLE_AT_ONCE, Cells, Floats
from sfumato.channels.base import Choice, SymbolChannel, Trial, claimed_tightness, refuse_dense
from sfumato.channels.capped import CappedGeometricChannel
from sfumato.channels.noise import (
    averaged,
    gathered,
    moved_rows,
    noise_words,
    sharpened,
    spread,
    worst_neighbours,
)
from sfumato.errors import StudyError
from sfumato.exact import exp_floor
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.distance import CappedLineMetric, LineMetric
from sfumato.randomness.bits import BitSource
from sfumato.randomness.tables import WordTable


@dataclass(frozen=True, slots=True)
class Geometric(Choice):
    """Choose the geometric channel; it fits `Distance` on equally spaced cells.

    Example:
        >>> import sfumato as sf
        >>> sf.integers("age", 0, 99, protect=sf.Distance(0.2), channel=sf.Geometric()).name
        'age'
    """

    id: ClassVar[str] = "geometric"

    def misfit(self, metric: CellMetric) -> str | None:
        """It needs equal steps along a line; a cap is no hindrance."""
        if isinstance(metric, CappedLineMetric):
            unequal = metric.equal_step is None
            return "under a cap it needs equally spaced cells; use Exponential" if unequal else None
        if isinstance(metric, LineMetric) and metric.equal_step is not None:
            return None
        return "it needs a Distance on equally spaced cells; Thermometer takes unequal ones"

    def bind(
        self, metric: CellMetric, *, precision: int = 64, rounded: bool = False
    ) -> GeometricChannel | CappedGeometricChannel:
        """Build the noise table for the metric's step."""
        if not isinstance(metric, LineMetric | CappedLineMetric) or metric.equal_step is None:
            raise StudyError(f"Geometric does not fit this metric: {self.misfit(metric)}")
        step = metric.equal_step
        odds = 1 + step if rounded else exp_floor(step)
        if isinstance(metric, CappedLineMetric):
            return CappedGeometricChannel(metric=metric, odds=odds, precision=precision)
        return GeometricChannel(metric=metric, odds=odds, precision=precision, rounded=rounded)

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """Lines short and long, at small and large steps; under a cap; behind rounding."""
        lines = [
            LineMetric.equal(Fraction(step), size)
            for step, size in (("1", 2), ("1/2", 3), ("1/10", 5), ("1", 7), ("3", 4))
        ]
        capped = [
            CappedLineMetric(LineMetric.equal(Fraction(step), size), Fraction(cap))
            for step, size, cap in (("1", 5, "2"), ("1/2", 6, "4/5"), ("1", 2, "1/2"))
        ]
        metrics: list[CellMetric] = [*lines, *capped]
        return (
            *(Trial(choice=cls(), metric=metric) for metric in metrics),
            *(Trial(choice=cls(), metric=metrics[k], rounded=True) for k in (1, 3, 5)),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class GeometricChannel(SymbolChannel):
    """Clamped two-sided geometric noise from an integer table.

    `odds` is the largest ratio between neighbouring cells the table may show: a certified lower
    bound of e^ε, or 1 + ε under stochastic rounding.
    """

    id: ClassVar[str] = "geometric"
    metric: LineMetric
    odds: Fraction
    precision: int = 64
    rounded: bool = False
    _noise: WordTable = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Build the table once; both ends of the channel read it."""
        half = noise_words(self.odds, self.size - 1, 1 << self.precision)
        table = WordTable((*half[:0:-1], *half), self.precision)
        object.__setattr__(self, "_noise", table)

    @property
    def tightness(self) -> float:  # type: ignore[override]
        """Neighbouring cells are told apart by all of E but for the table's rounding."""
        return 0.0 if self.rounded else claimed_tightness(self.odds, self.precision)

    @cached_property
    def alpha(self) -> float:
        """e^−ε as the table has it."""
        return float(1 / self.odds)

    def encode(self, cells: Cells, bits: BitSource) -> Cells:
        """Add noise to cells and clamp to the axis."""
        reach = self.size - 1
        out = np.empty(len(cells), dtype=self.symbol_type())
        for start in range(0, len(cells), PEOPLE_AT_ONCE):
            part = np.asarray(cells[start : start + PEOPLE_AT_ONCE], dtype=np.int64)
            noisy = self._noise.draw(bits, len(part)) + (part - reach)
            out[start : start + len(part)] = np.clip(noisy, 0, reach)
        return out

    def words(self) -> tuple[list[list[int]], int]:
        """Exact word counts: a shifted row of the noise table, its tails summed at the ends."""
        refuse_dense(self.size, "the likelihood")
        return moved_rows(self.half_table()), 1 << self.precision

    def half_table(self) -> tuple[int, ...]:
        """Words of noise 0, 1, …, size−1; the last one includes the tail beyond."""
        return self._noise.weights[self.size - 1 :]

    def worst_ratio(self) -> Fraction:
        """Largest odds between neighbouring cells: of adjacent weights, or adjacent tails."""
        return worst_neighbours(self.half_table())

    def likelihood(self) -> Floats:
        """P(output | cell), rounded from the exact words."""
        rows, total = self.words()
        return np.array([[word / total for word in row] for row in rows])

    def coefficients(self, weights: Floats) -> Floats:
        """The tridiagonal inverse, in O(cells)."""
        return sharpened(weights, self.alpha)

    def gather(self, profile: Floats) -> Floats:
        """The transpose of the tridiagonal inverse, in O(cells)."""
        return gathered(profile, self.alpha)

    def expect(self, table: Floats) -> Floats:
        """The noise as a recursive filter; the ends stand for their tails. O(cells)."""
        return averaged(table, self.alpha)

    def mix(self, law: Floats) -> Floats:
        """The transpose of `expect`: the ends collect their tails. O(cells)."""
        return spread(law, self.alpha)
