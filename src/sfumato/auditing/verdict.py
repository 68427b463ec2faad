"""What the poisoning check says: the tests that were made, and what none of them can find."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from sfumato.text import percent, visible

_LIARS = (
    "Clients that keep to the protocol with made-up values look like people who have these values, "
    "however many they are; no check of reports can find them."
)
_HIDDEN = (
    "However many reports there are, these also look like people, if all others are spread evenly:"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """One comparison of a tally with all populations.

    Attributes:
        axes: Which axes it is about.
        kind: "frequency": single reports, or runs of them. "bits": columns of bits. "identical":
            whole reports that are the same. "mixture": all counts against the nearest population.
        p_value: Its p-value times the number of tests, at most 1.
        words: What was seen that is most unlike any population.
    """

    axes: tuple[str, ...]
    kind: str
    p_value: float
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindSpot:
    """What the check cannot find in the reports of one block, computed from its channel.

    Attributes:
        axes: Which axes the block covers.
        channel: Id of its channel.
        alike: The largest share of all clients who may send one and the same report and still look
            like a population, if the others are spread evenly; None where it is not computed.
        weight: For how many people, at least, one client may count by sending what no honest client
            would, and still look like a population that is spread evenly but for that; None where
            it is not computed.
    """

    axes: tuple[str, ...]
    channel: str
    alike: float | None
    weight: float | None

    def __str__(self) -> str:
        parts = []
        if self.alike is not None:
            share = f"up to {percent(self.alike)} of" if self.alike > 0 else "no"
            parts.append(f"{share} clients that all send the same report")
        if self.weight is not None and math.isfinite(self.weight):
            many = f"{self.weight:.2g} people each, or more" if self.weight >= 1.05 else "one each"
            parts.append(f"clients that count for {many}")
        words = "; ".join(parts) or "not computed, as there are too many cells or kinds of reports"
        return f"{', '.join(self.axes)} ({self.channel}): {words}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Whether some population explains the reports of a tally, and what that cannot tell.

    Attributes:
        study: Name of the study.
        fingerprint: Its fingerprint.
        reports: Number of reports.
        significance: The chance of an alarm, at most, if all clients are honest.
        tests: The tests that were made; their p-values are multiplied by their number already.
        blind: What hides from them, by block.
        left_out: What was not tested, and why.
    """

    study: str
    fingerprint: str
    reports: int
    significance: float
    tests: tuple[Tested, ...]
    blind: tuple[BlindSpot, ...]
    left_out: tuple[str, ...] = field(default=())

    @property
    def p_value(self) -> float:
        """The chance, at most, that honest clients send reports as unlike any population."""
        return min((test.p_value for test in self.tests), default=1.0)

    @property
    def alarm(self) -> bool:
        """Whether no population explains the reports."""
        return self.p_value <= self.significance

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; what is infinite is None."""
        found = {**asdict(self), "p_value": self.p_value, "alarm": self.alarm, "unseen": _LIARS}
        for spot in found["blind"]:
            if spot["weight"] is not None and not math.isfinite(spot["weight"]):
                spot["weight"] = None
        return found

    def __str__(self) -> str:
        chance = said(self.p_value)
        verdict = (
            f"NO POPULATION EXPLAINS THEM ({chance}): not all come from honest clients."
            if self.alarm
            else f"some population explains them ({chance})."
        )
        lines = [f"{self.reports:,} reports of study {self.study!r}: {verdict}"]
        many = f"{len(self.tests)} test{'' if len(self.tests) == 1 else 's'}"
        lines.append(
            f"{many}; honest clients of any population give an alarm in at most "
            f"{percent(self.significance)} of checks."
        )
        for test in sorted(self.tests, key=lambda test: test.p_value):
            if test.p_value <= self.significance:
                lines.append(
                    f"  {', '.join(test.axes)}, {test.kind}, {said(test.p_value)}: {test.words}."
                )
        lines += [f"Not tested: {words}." for words in self.left_out]
        lines += [f"What it cannot find: {_LIARS}", _HIDDEN]
        lines += [f"  {spot}." for spot in self.blind]
        return "\n".join(map(visible, lines))


def said(p: float) -> str:
    """A p-value for people.

    Example:
        >>> said(0.034), said(0.0), said(1.0)
        ('p = 0.034', 'p < 1e-300', 'p = 1')
    """
    return f"p = {p:.2g}" if p >= 1e-300 else "p < 1e-300"
