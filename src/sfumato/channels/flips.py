"""Channels whose law rests on one chance: that a bit is flipped, rounded up to words.

Guarantee:
    With q the chance of a flip, the odds between any two cells are at most (1 − q)/q <= e^ε, exact
    for the integer table, and tight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

from sfumato.channels.base import Channel, claimed_tightness
from sfumato.errors import StudyError
from sfumato.exact import exp_floor
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.tables import FlipTable


@dataclass(frozen=True, kw_only=True, eq=False)
class UniformFlips(Channel):
    """One chance for every cell: `flips` of 2^precision words flip a bit."""

    metric: UniformMetric
    precision: int = 64
    flips: int = field(init=False)
    _flips: FlipTable = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Round the chance of a flip up, so that the odds stay within bounds."""
        flips = flips_within(self.metric.epsilon, self.precision)
        object.__setattr__(self, "flips", flips)
        object.__setattr__(self, "_flips", FlipTable([flips], self.precision))

    @property
    def tightness(self) -> float:  # type: ignore[override]
        """Every pair is told apart by all of ε but for the rounding of one chance."""
        return claimed_tightness(exp_floor(self.metric.epsilon), self.precision)

    def worst_ratio(self) -> Fraction:
        """What is true against what is flipped."""
        return Fraction((1 << self.precision) - self.flips, self.flips)


def flips_within(epsilon: Fraction, precision: int) -> int:
    """Of 2^precision words, how many flip a bit: as few as keep its odds within e^ε."""
    total = 1 << precision
    flips = math.ceil(total / (1 + exp_floor(epsilon)))
    if 2 * flips >= total:
        raise StudyError(
            f"a table of 2^{precision} words is too coarse for this epsilon; use a larger epsilon"
        )
    return flips
