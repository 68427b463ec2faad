"""k-ary randomised response: tell the truth with some chance, else any other value.

Guarantee:
    E(x, x') = ε for every pair, exact for the integer table, and tight.

Estimator:
    With p the chance of the truth and q that of any one other value, f(y) = (w[y] − q·Σw)/(p − q),
    which is c + (w[y] − c)/(p − q) with c the mean of the weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np

from sfumato.arrays import PEOPLE_AT_ONCE, Cells, Floats
from sfumato.channels.base import (
    Choice,
    SymbolChannel,
    Trial,
    claimed_tightness,
    refuse_dense,
    uniform_fitted,
    uniform_trials,
)
from sfumato.errors import StudyError
from sfumato.exact import exp_floor
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import BitSource
from sfumato.randomness.tables import leading


@dataclass(frozen=True, slots=True)
class KaryResponse(Choice):
    """Choose k-ary randomised response; it fits `Uniform`."""

    id: ClassVar[str] = "kary-response"

    def misfit(self, metric: CellMetric) -> str | None:
        """It needs one ε for all pairs."""
        return None if isinstance(metric, UniformMetric) else "it needs protect=Uniform(...)"

    def bind(
        self, metric: CellMetric, *, precision: int = 64, rounded: bool = False
    ) -> KaryResponseChannel:
        """Build the chance of each wrong value."""
        return KaryResponseChannel(
            metric=uniform_fitted(self, metric, rounded), precision=precision
        )

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """A few cells, at small and large ε, and a grid."""
        return (
            *uniform_trials(cls(), (2, 5), (2, 3)),
            *uniform_trials(cls(), (3,), epsilon="1/10"),
            *uniform_trials(cls(), (4,), epsilon="4"),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class KaryResponseChannel(SymbolChannel):
    """Randomised response over `size` values."""

    id: ClassVar[str] = "kary-response"
    metric: UniformMetric
    precision: int = 64
    wrong: int = field(init=False)

    def __post_init__(self) -> None:
        """Round the chance of each wrong value up, so that the odds stay within bounds."""
        total = 1 << self.precision
        odds = exp_floor(self.metric.epsilon)
        wrong = math.ceil(total / (odds + self.size - 1))
        if total - (self.size - 1) * wrong <= wrong:
            raise StudyError(
                f"a table of 2^{self.precision} words is too coarse for {self.size} values at "
                "this epsilon; use a larger epsilon"
            )
        object.__setattr__(self, "wrong", wrong)

    @property
    def tightness(self) -> float:  # type: ignore[override]
        """Every pair is told apart by all of ε but for the rounding of one chance."""
        return claimed_tightness(exp_floor(self.metric.epsilon), self.precision)

    @property
    def right(self) -> int:
        """Words that put out the true value."""
        return (1 << self.precision) - (self.size - 1) * self.wrong

    @property
    def chances(self) -> tuple[float, float]:
        """P(the true value) and P(one given other value)."""
        total = 1 << self.precision
        return self.right / total, self.wrong / total

    @property
    def gap(self) -> float:
        """By how much likelier the truth is, p − q, without the difference of near numbers."""
        return (self.right - self.wrong) / (1 << self.precision)

    def encode(self, cells: Cells, bits: BitSource) -> Cells:
        """The low words choose one of the other values, all others the truth."""
        out = np.empty(len(cells), dtype=self.symbol_type())
        others = np.uint64(self.size - 1)
        for start in range(0, len(cells), PEOPLE_AT_ONCE):
            part = np.asarray(cells[start : start + PEOPLE_AT_ONCE], dtype=np.int64)
            word = leading(bits.words(len(part)), self.precision) // np.uint64(self.wrong)
            other = np.minimum(word, others).astype(np.int64)
            answer = np.where(word >= others, part, other + (other >= part))
            out[start : start + len(part)] = answer
        return out

    def words(self) -> tuple[list[list[int]], int]:
        """Exact word counts."""
        refuse_dense(self.size, "the likelihood")
        rows = [
            [self.right if y == x else self.wrong for y in range(self.size)]
            for x in range(self.size)
        ]
        return rows, 1 << self.precision

    def worst_ratio(self) -> Fraction:
        """The truth against any other value."""
        return Fraction(self.right, self.wrong)

    def likelihood(self) -> Floats:
        """P(output | cell)."""
        refuse_dense(self.size, "the likelihood")
        wrong = self.chances[1]
        return np.full((self.size, self.size), wrong) + np.eye(self.size) * self.gap

    def coefficients(self, weights: Floats) -> Floats:
        """What differs from the mean, raised; the mean itself is known without noise."""
        centre = weights.mean(axis=-1, keepdims=True)
        result: Floats = centre + (weights - centre) / self.gap
        return result

    def gather(self, profile: Floats) -> Floats:
        """The same as `coefficients`: the inverse is symmetric too."""
        return self.coefficients(profile)

    def mix(self, law: Floats) -> Floats:
        """The same as `expect`: the channel is symmetric."""
        return self.expect(law)

    def expect(self, table: Floats) -> Floats:
        """Mostly the value itself, and a share of the sum of all."""
        wrong = self.chances[1]
        result: Floats = self.gap * table + wrong * table.sum(axis=-1, keepdims=True)
        return result
