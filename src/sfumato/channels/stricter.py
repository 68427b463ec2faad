"""A channel made for a simpler, stricter metric than the one that an axis states.

Guarantee:
    E'(x, x') <= E(x, x') for all pairs, decided exactly, so that every channel that keeps E' keeps
    E. Some pairs are hidden better than E requires; in return channels made for E' are used,
    which may have the smaller error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sfumato.channels.base import Channel
from sfumato.channels.choice import Choice, Trial, choice_to_dict, read_choice
from sfumato.channels.geometric import Geometric
from sfumato.channels.response import KaryResponse
from sfumato.channels.unary import OUE
from sfumato.checks import one_of
from sfumato.errors import StudyError
from sfumato.exact import positive, to_plain
from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.distance import LineMetric
from sfumato.metrics.stricter import line_within, uniform_within

KINDS = ("uniform", "line")


@dataclass(frozen=True, slots=True)
class Stricter(Choice):
    """Choose a channel made for a simpler metric E' that is at most E for all pairs.

    Args:
        like: E' is the least E for all pairs ("uniform"), or a line of equal steps in the order of
            the cells ("line").
        channel: A channel that fits E'.
        cap: The most that E' may be, for a line: a cap lets its steps be longer.

    Example:
        >>> import sfumato as sf
        >>> near = sf.Within(1, 10)  # E = 1 for values up to 10 apart
        >>> made = sf.Stricter("uniform", sf.OUE())
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=near, channel=made)])
        >>> study.blocks[0].channel.id, sf.audit(study).holds
        ('oue', True)
    """

    id: ClassVar[str] = "stricter"
    like: str
    channel: Choice
    cap: Fraction | None = None

    def __post_init__(self) -> None:
        """Read the channel where it comes from a file, and the cap exactly."""
        one_of(self.like, "like", KINDS)
        object.__setattr__(self, "channel", read_choice(self.channel, "channel"))
        if self.cap is not None:
            if self.like != "line":
                raise StudyError(f"only a line has a cap, got like={self.like!r}; leave out cap")
            object.__setattr__(self, "cap", positive(self.cap, "cap"))

    def metric(self, metric: CellMetric) -> CellMetric | None:
        """E', or None if every E is infinite."""
        return line_within(metric, self.cap) if self.like == "line" else uniform_within(metric)

    @property
    def title(self) -> str:
        """What `explain` calls it."""
        return f"the {self.channel.id} channel, made for a stricter metric ({self.like}),"

    def misfit(self, metric: CellMetric) -> str | None:
        """Its channel must fit E'."""
        stricter = self.metric(metric)
        if stricter is None:
            return "no two cells have to hide from each other, so that there is nothing to keep"
        problem = self.channel.misfit(stricter)
        kind = type(self.channel).__name__
        return problem and f"{kind} does not fit the stricter metric, like={self.like!r}: {problem}"

    def bind(self, metric: CellMetric, *, precision: int = 64, resolution: int = 0) -> Channel:
        """The channel of E'.

        Args:
            metric: E between the cells.
            precision: How many bits of a random word take part.
            resolution: Bits of a value's place between two cells; 0 without stochastic rounding.
        """
        self.refuse_misfit(metric, resolution)
        stricter = self.metric(metric)
        assert stricter is not None  # noqa: S101 - misfit has refused it
        return self.channel.bind(stricter, precision=precision)

    def settled(
        self, metric: CellMetric, *, progress: Callable[[float], None] | None = None
    ) -> Stricter:
        """With its channel settled.

        Args:
            metric: E between the cells.
            progress: Called with the share done.
        """
        stricter = self.metric(metric)
        if stricter is None:
            return self
        return Stricter(self.like, self.channel.settled(stricter, progress=progress), self.cap)

    def options(self) -> dict[str, Any]:
        """The kind of E', its channel, and the cap."""
        cap = {} if self.cap is None else {"cap": to_plain(self.cap)}
        return {"like": self.like, "channel": choice_to_dict(self.channel), **cap}

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """One ε and lines below metrics of several kinds, with symbols and with bits."""
        around = [[0, 1, 1, 2], [1, 0, 1, 1], [1, 1, 0, 1], [2, 1, 1, 0]]
        far = [[0, 1, 2, 3], [1, 0, 1, 2], [2, 1, 0, 2], [3, 2, 2, 0]]
        near_by, beyond = (TableMetric(np.array(rows), 1, 4) for rows in (around, far))
        uneven = TableMetric(np.array([[0, 3, 2], [1, 0, 2], [4, 2, 0]]), 3, 3)
        told = TableMetric(np.array([[0, 2, -1], [2, 0, -1], [3, 3, 0]]), 2, 3)
        steps = LineMetric((Fraction(3, 4), Fraction(3, 2), Fraction(5, 4)))
        return (
            Trial(choice=cls("uniform", KaryResponse()), metric=near_by),
            Trial(choice=cls("uniform", OUE()), metric=uneven),
            Trial(choice=cls("uniform", KaryResponse()), metric=told),
            Trial(choice=cls("line", Geometric()), metric=steps),
            Trial(choice=cls("line", Geometric(), Fraction(2)), metric=beyond),
        )
