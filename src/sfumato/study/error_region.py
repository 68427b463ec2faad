"""What a guarantee means for someone who guesses: which errors no test of a report can avoid.

A test looks at a report and says which of two records it came from. With E the guarantee, its rate
of false alarms (says x, and it is y) and of misses (says y, and it is x) satisfy, whatever the
test, e^E(x,y) · alarms + misses >= 1 and alarms + e^E(y,x) · misses >= 1; and a mechanism for which
that holds for all pairs and tests keeps E.

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
    """The rates of false alarms and misses that are possible between two records.

    Args:
        there: E(x, y): how much likelier a report may be from x than from y.
        back: E(y, x).
        names: What x and y are called.

    Raises:
        StudyError: If an E is below 0 or no number.

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
        """Refuse what is no E."""
        for name, e in (("there", self.there), ("back", self.back)):
            if not e >= 0:
                raise StudyError(f"{name} must be an E of 0 or more, or infinite, got {name}={e!r}")
        if len(self.names) != 2:
            raise StudyError(f"names must be two, of x and of y, got names={self.names!r}")

    @property
    def corner(self) -> tuple[float, float]:
        """False alarms and misses of the best test that errs as evenly as E lets it."""
        both = -math.expm1(-(self.there + self.back))
        if both == 0:  # nothing is told: any way of guessing is as good
            return 0.5, 0.5
        alarms = math.exp(-self.there) * -math.expm1(-self.back) / both
        misses = math.exp(-self.back) * -math.expm1(-self.there) / both
        return alarms, misses

    @property
    def boundary(self) -> tuple[tuple[float, float], ...]:
        """The least misses for all rates of false alarms, as the corners of a broken line."""
        return (0.0, 1.0), self.corner, (1.0, 0.0)

    @property
    def least_error(self) -> float:
        """How often the best test errs where both records are as likely."""
        return sum(self.corner) / 2

    def allows(self, alarms: float, misses: float) -> bool:
        """Whether a test may have these rates, as far as E goes; up to rounding.

        Saying the opposite is a test as well, so none errs much more often than a coin either.
        """
        return self._within(alarms, misses) and self._within(1 - alarms, 1 - misses)

    def _within(self, alarms: float, misses: float) -> bool:
        """Both inequalities of Theorem 1, divided by their powers of e."""
        slack = 1e-12
        first = (1 - misses) * math.exp(-self.there) <= alarms + slack
        return first and (1 - alarms) * math.exp(-self.back) <= misses + slack

    def __str__(self) -> str:
        """What it comes to, in two lines."""
        first, second = self.names
        return textwrap.fill(
            f"Who must say from one report whether it is {first} or {second}, either as likely, "
            f"errs at least {100 * self.least_error:.3g}% of the time; by a coin it would be 50%.",
            88,
        )
