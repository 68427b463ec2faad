"""The protocol of mechanisms: prepare from public facts alone, then run on the counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.central.space import Margin, Space
from sfumato.estimation.answers import Answers
from sfumato.randomness.bits import BitSource

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Expected:
    """The error to expect of each question, known before the data are touched.

    Attributes:
        labels: The questions.
        stderr: Standard error of each; NaN where a mechanism promises only an interval.
        reach: Half the width of each interval.
        level: Share of intervals that hold the truth.
        unit: What the numbers count.
        simultaneous: Whether all intervals hold at once with that chance.
        how: Where the numbers come from: "exact", or the theorem that bounds them.
    """

    labels: tuple[str, ...]
    stderr: Floats
    reach: Floats
    level: float = 0.95
    unit: str = "people"
    simultaneous: bool = False
    how: str = "exact"

    @property
    def total(self) -> float:
        """Root of the mean squared error over the questions; NaN where there is no variance."""
        return float(np.sqrt(np.mean(self.stderr**2)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """What a mechanism gives back, all of it fit to be published.

    Attributes:
        answers: The answers with their errors.
        synthetic: People in each cell of a synthetic table, where the mechanism makes one.
        details: Public numbers about the run, such as noise scales.
    """

    answers: Answers
    synthetic: Floats | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Prepared(Protocol):
    """A mechanism bound to a space and a number of people; nothing private is in it."""

    def expected(self) -> Expected:
        """The error to expect of each question."""
        ...

    def run(self, counts: Counts, bits: BitSource) -> Outcome:
        """Answer d-privately.

        Args:
            counts: People in each cell of the study, flat in C order.
            bits: Where randomness comes from.
        """
        ...


@runtime_checkable
class Mechanism(Protocol):
    """A way to answer questions from a table that a trusted curator holds."""

    def prepare(self, space: Space, n: int) -> Prepared:
        """Check everything and choose the noise, from public facts alone.

        Args:
            space: The cells, and the distances that this release may spend.
            n: Number of people, which is public.

        Raises:
            StudyError: If the questions cannot be answered under this guarantee.
        """
        ...

    def describe(self) -> str:
        """The mechanism in a few words, as the ledger records it."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class FromMargins(ABC):
    """A prepared mechanism that looks at some axes only, so that the others cost nothing.

    Attributes:
        shape: Cells of every axis of the study.
        n: Number of people.
        level: Share of intervals that hold the truth.
    """

    shape: tuple[int, ...]
    n: int
    level: float

    @property
    @abstractmethod
    def margins(self) -> tuple[tuple[int, ...], ...]:
        """For each histogram it needs, the numbers of its axes."""

    @property
    def charged(self) -> frozenset[int]:
        """Numbers of the axes that it learns about."""
        return frozenset(axis for axes in self.margins for axis in axes)

    def run(self, counts: Counts, bits: BitSource) -> Outcome:
        """Answer d-privately.

        Args:
            counts: People in each cell of the study, flat in C order.
            bits: Where randomness comes from.
        """
        return self.run_margins([margins_of(counts, self.shape, m) for m in self.margins], bits)

    @abstractmethod
    def run_margins(self, counts: Sequence[Counts], bits: BitSource) -> Outcome:
        """Answer d-privately from the axes that are needed.

        Args:
            counts: For each of `margins`, people in each cell of its axes, flat in C order.
            bits: Where randomness comes from.
        """


@dataclass(frozen=True, kw_only=True, eq=False)
class AboutQuestions(FromMargins):
    """A prepared mechanism that answers questions from the one histogram they are about.

    Attributes:
        asked: The questions and the axes they are about.
    """

    asked: Margin

    @property
    def margins(self) -> tuple[tuple[int, ...], ...]:
        """The one histogram that is needed."""
        return (self.asked.axes,)

    @property
    def charged(self) -> frozenset[int]:
        """The axes of the histogram; none where the questions are the same for everybody."""
        return frozenset() if self.asked.free else super().charged

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The questions in words."""
        return tuple(self.asked.workload.labels)


def margins_of(counts: Counts, shape: Sequence[int], axes: Sequence[int]) -> Counts:
    """The histogram of some axes, in their order, from that of all cells.

    Args:
        counts: People in each cell, flat in C order.
        shape: Cells of every axis.
        axes: Numbers of the axes to keep.

    Example:
        >>> margins_of(np.array([1, 2, 3, 4]), (2, 2), (1,))
        array([4, 6])
    """
    table = np.asarray(counts).reshape(tuple(shape))
    others = tuple(axis for axis in range(len(shape)) if axis not in axes)
    left = sorted(axes)
    found = table.sum(axis=others)
    return np.transpose(found, [left.index(axis) for axis in axes]).reshape(-1)


def question_answers(
    labels: Sequence[str],
    values: Floats,
    stderr: Floats,
    *,
    n: int,
    reach: Floats | None = None,
    bounds: tuple[Floats, Floats] | None = None,
    limits: tuple[Floats, Floats] | None = None,
    level: float = 0.95,
    method: str,
    unit: str = "people",
    notes: tuple[str, ...] = (),
) -> Answers:
    """Answers to a list of questions, with intervals that need not be those of a normal law.

    Args:
        labels: The questions.
        values: Their answers.
        stderr: Their standard errors; NaN where only intervals are known.
        n: Number of people.
        reach: Half the width of each interval, where `bounds` are not given.
        bounds: Lower and upper ends of the intervals.
        limits: What the truth cannot be below or above, where the intervals are cut.
        level: Share of intervals that hold the truth.
        method: What the answers were made by.
        unit: What they count.
        notes: What should be known about them.
    """
    if bounds is None and reach is not None:
        bounds = (values - reach, values + reach)
    return Answers(
        values=np.asarray(values, dtype=np.float64),
        stderr=np.asarray(stderr, dtype=np.float64),
        n=n,
        kind="release",
        axes=("question",),
        all_labels=(list(labels),),
        all_edges=(None,),
        level=level,
        method=method,
        notes=notes,
        unit=unit,
        bounds=bounds,
        limits=limits,
        counted="people",
    )
