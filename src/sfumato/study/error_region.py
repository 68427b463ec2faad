"""Hypothesis-testing view of a guarantee: the error rates that no test of a report can beat.

A test looks at a report and says which of two records it came from. Under the guarantee E its rates
of false alarms (it says x, and the truth is y) and misses (it says y, and the truth is x) satisfy
e^E(x,y) · alarms + misses >= 1 and alarms + e^E(y,x) · misses >= 1, for every test. Conversely, a
channel for which this holds for all pairs and tests keeps E.

References:
    Acharya et al. 2020, Theorem 1.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass

from sfumato.errors import StudyError
from sfumato.verbs import RegionVerbs


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRegion(RegionVerbs):
    """The rates of false alarms and misses that a test between two records can have.

    Args:
        there: E(x, y): log of the largest ratio P(report | x) / P(report | y).
        back: E(y, x).
        names: What x and y are called.

    Raises:
        StudyError: If an E is negative or not a number.

    Example:
        >>> region = ErrorRegion(there=math.log(3), back=math.log(3), names=("yes", "no"))
        >>> [round(rate, 9) for rate in region.corner], round(region.least_error, 9)
        ([0.25, 0.25], 0.25)
        >>> region.allows(0.25, 0.25), region.allows(0.2, 0.25)
        (True, False)
    """

    there: float
    back: float
    names: tuple[str, ...] = ("x", "y")

    def __post_init__(self) -> None:
        """Check both values of E, and the names."""
        for name, e in (("there", self.there), ("back", self.back)):
            if not e >= 0:
                raise StudyError(f"{name} must be an E of 0 or more, or infinite, got {name}={e!r}")
        if len(self.names) != 2:
            raise StudyError(f"names must hold two names, for x and y, got names={self.names!r}")

    @property
    def corner(self) -> tuple[float, float]:
        """Rates of false alarms and misses where both inequalities hold with equality."""
        both = -math.expm1(-(self.there + self.back))
        if both == 0:  # reports carry no information: all ways of guessing are equally good
            return 0.5, 0.5
        alarms = math.exp(-self.there) * -math.expm1(-self.back) / both
        misses = math.exp(-self.back) * -math.expm1(-self.there) / both
        return alarms, misses

    @property
    def boundary(self) -> tuple[tuple[float, float], ...]:
        """The smallest miss rate for each false alarm rate, as the corners of a broken line."""
        return (0.0, 1.0), self.corner, (1.0, 0.0)

    @property
    def least_error(self) -> float:
        """Error rate of the best test when both records are equally likely."""
        return sum(self.corner) / 2

    def allows(self, alarms: float, misses: float) -> bool:
        """Whether the guarantee allows a test with these error rates, up to rounding.

        The reverse of a test is a test too, so rates far above those of a coin are impossible as
        well.

        Args:
            alarms: Rate of false alarms, from 0 to 1.
            misses: Rate of misses, from 0 to 1.
        """
        return self._within(alarms, misses) and self._within(1 - alarms, 1 - misses)

    def _within(self, alarms: float, misses: float) -> bool:
        """Both inequalities of Theorem 1, divided by their powers of e."""
        slack = 1e-12
        first = (1 - misses) * math.exp(-self.there) <= alarms + slack
        return first and (1 - alarms) * math.exp(-self.back) <= misses + slack

    def __str__(self) -> str:
        """The smallest possible error rate in words."""
        first, second = self.names
        return textwrap.fill(
            f"Guessing from one report whether the record is {first} or {second}, when both are "
            f"equally likely, is wrong at least {100 * self.least_error:.3g}% of the time; a coin "
            "toss is wrong 50% of the time.",
            88,
        )
