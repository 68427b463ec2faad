"""Which axes questions are about: the others cost nothing and need no cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sfumato.central.base import FromMargins
from sfumato.central.space import Space
from sfumato.errors import QuestionError
from sfumato.estimation.answers import PRORATED
from sfumato.metrics.edges import Edges
from sfumato.questions.compose import parse
from sfumato.questions.lines import Total
from sfumato.questions.products import Asked, Kronecker, Stacked
from sfumato.questions.workload import Workload
from sfumato.study.axis import Axis

_MOST_NAMED = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Margin:
    """Questions over the cells of the axes they are about.

    Attributes:
        axes: Numbers of these axes in the study.
        workload: The questions, a column a cell of these axes in C order.
        edges: The distances between these cells.
        names: What these cells are called in an error; None where they are very many.
    """

    axes: tuple[int, ...]
    workload: Workload
    edges: Edges
    names: list[str] | None

    @property
    def notes(self) -> tuple[str, ...]:
        """What should be known about the questions."""
        return tuple(PRORATED.format(name) for name in self.workload.prorated)


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

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The questions in words."""
        return tuple(self.asked.workload.labels)


@dataclass(frozen=True, slots=True)
class _Some:
    """Some axes of a study, as far as questions go."""

    axes: tuple[Axis, ...]


def margin(space: Space, questions: Any, *, whole: bool = False, unpaid: bool = False) -> Margin:
    """Questions over the axes they are about.

    Args:
        space: The cells of the study.
        questions: In its own language, or a workload.
        whole: Keep all axes, whatever the questions are about.
        unpaid: Whether they may be about axes on which nothing is spent.
    """
    workload = space.workload(questions)
    every = tuple(range(len(space.shape)))
    listed = [questions] if isinstance(questions, (str, Mapping, Workload)) else list(questions)
    axes = every
    if not whole and all(isinstance(asked, (str, Mapping)) for asked in listed):
        told = asked_axes(workload)
        if not unpaid:
            space.refuse_unpaid(told, "the questions are about")
        axes = told or every[:1]
    if axes != every:
        try:
            workload = parse(_Some(tuple(space.study.axes[axis] for axis in axes)), listed)
        except QuestionError:  # an axis is named without being asked about, as in "mode=.."
            axes = every
    return Margin(axes, workload, space.margin_edges(axes), _names(space, axes))


def asked_axes(workload: Workload) -> tuple[int, ...]:
    """Numbers of the axes on which the questions differ, as far as their structure shows it.

    Example:
        >>> import sfumato as sf
        >>> asked_axes(sf.questions.Marginals((4, 3, 2), [(0,), (2,)]))
        (0, 2)
    """
    every = range(len(workload.shape_of_cells))
    if isinstance(workload, Total):
        return ()
    if isinstance(workload, Stacked):
        return tuple(sorted({axis for part in workload.parts for axis in asked_axes(part)}))
    if isinstance(workload, Asked):
        return tuple(sorted({axis for group in workload._groups for axis in group.axes}))
    if isinstance(workload, Kronecker):
        found: list[int] = []
        first = 0
        for factor in workload.factors:
            found += [first + axis for axis in asked_axes(factor)]
            first += len(factor.shape_of_cells)
        return tuple(found)
    return tuple(every)


def _names(space: Space, axes: tuple[int, ...]) -> list[str] | None:
    """Cells of some axes in the study's own words."""
    names = [""]
    for axis in axes:
        held = space.study.axes[axis]
        if len(names) * held.size > _MOST_NAMED:
            return None
        own = [f"{held.name} {label}" for label in held.labels()]
        names = [f"{before}, {label}" if before else label for before in names for label in own]
    return names


def in_words(questions: Any) -> str:
    """What is asked, as the ledger records it.

    Example:
        >>> in_words(["age=1", "age=2", "age=3", "ranges of age"])
        "'age=1'; 'age=2'; 'age=3' and 1 more"
    """
    if isinstance(questions, str):
        return repr(questions)
    if isinstance(questions, (Workload, Mapping)):
        return repr(questions) if isinstance(questions, Workload) else repr(dict(questions))
    if hasattr(questions, "shape"):
        return f"a matrix of {' × '.join(map(str, questions.shape))}"
    listed = [asked if isinstance(asked, str) else repr(asked) for asked in questions]
    shown = "; ".join(repr(asked) for asked in listed[:3])
    return shown if len(listed) <= 3 else f"{shown} and {len(listed) - 3} more"
