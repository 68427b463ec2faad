"""The cells of a study, with the distances that one release may spend."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias, cast

import numpy as np

from sfumato.central.data import without_rounding
from sfumato.central.spend import Spend, Spending, group_names
from sfumato.errors import QuestionError, StudyError
from sfumato.estimation.answers import PRORATED
from sfumato.metrics.edges import Edges, grid_edges
from sfumato.questions.compose import parse
from sfumato.questions.workload import Labels, Workload, is_sparse
from sfumato.study.axis import Axis
from sfumato.study.schema import Group, Schema
from sfumato.study.study import Study

#: Questions in the study's own language, one or several, or a workload.
Questions: TypeAlias = "str | Mapping[str, Any] | Sequence[Any] | Workload"


@dataclass(frozen=True, init=False, eq=False)
class Space:
    """Cells of a study, flat in C order of its axes, and the distance between any two.

    Guarantee:
        A release over this space is d-private for d = `exact`: among tables of the same number of
        people that differ in one person's cell, i in one and j in the other, the odds of any
        outcome change by at most e^d(i, j). How many people there are is public.

    Args:
        study: Whose cells they are.
        spend: A share of its E such as "1/4", or a metric by axis name.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
        >>> space = Space(study, "1/5")
        >>> space.size, space.exact(30, 40), space.label(30)
        (100, Fraction(1, 1), 'age 30')
    """

    schema: Schema
    spend: Spend
    #: The groups of axes under one guarantee, with the E that is spent on each.
    groups: tuple[Group, ...]
    #: What all their distances are multiplied by.
    share: Fraction

    def __init__(self, study: Study | Schema, spend: Spending = Fraction(1)) -> None:
        schema = without_rounding(study)
        read = Spend.of(spend, schema)
        groups, share = read.groups(schema)
        fields = {"schema": schema, "spend": read, "groups": groups, "share": share}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells of every axis."""
        return self.schema.shape

    @property
    def size(self) -> int:
        """Number of cells in all."""
        return math.prod(self.shape)

    @cached_property
    def edges(self) -> Edges:
        """The pairs of cells whose distances imply all others."""
        return self.margin_edges(range(len(self.shape)))

    def margin_edges(self, axes: Sequence[int]) -> Edges:
        """The same for the cells of some axes, where nothing is learnt about the others.

        Args:
            axes: Numbers of the axes, in their order.
        """
        parts = [(group, [axis for axis in group.axes if axis in axes]) for group in self.groups]
        metrics = [group.margin(held, self.shape) for group, held in parts if held]
        return grid_edges(metrics).zeros_listed().scaled(self.share)

    def exact(self, i: int, j: int) -> Fraction | None:
        """The distance from cell i to cell j, summed over groups; None where it is infinite.

        Args:
            i: A cell, by its number in C order.
            j: Another.
        """
        places = np.unravel_index([i, j], self.shape)
        total = Fraction(0)
        for group in self.groups:
            shape = [self.shape[axis] for axis in group.axes]
            ends = np.ravel_multi_index([places[axis] for axis in group.axes], shape)
            part = group.metric.exact(int(ends[0]), int(ends[1]))
            if part is None:
                return None
            total += part
        return self.share * total

    def workload(self, questions: Questions) -> Workload:
        """Questions in the study's own language as rows over the cells."""
        if isinstance(questions, Workload):
            if questions.shape[1] != self.size:
                raise StudyError(
                    f"a workload must have one column for each of the {self.size:,} cells of study "
                    f"{self.schema.name!r}, got {questions.shape[1]:,}"
                )
            return questions
        return parse(self.schema, questions)

    def margin(self, questions: Questions, *, whole: bool = False, unpaid: bool = False) -> Margin:
        """Questions over the cells of the axes that they are about.

        Args:
            questions: In the study's own language, or a workload.
            whole: Keep all axes, whatever the questions are about.
            unpaid: Whether they may be about axes on which nothing is spent.
        """
        workload = self.workload(questions)
        every = tuple(range(len(self.shape)))
        single = isinstance(questions, (str, Mapping, Workload)) or is_sparse(questions)
        listed: list[Any] = [questions] if single else list(cast("Sequence[Any]", questions))
        axes = every
        if not whole and all(isinstance(asked, (str, Mapping)) for asked in listed):
            told = workload.asked_axes
            if not unpaid:
                self.refuse_unpaid(told, "the questions are about")
            axes = told or every[:1]
        if axes != every:
            try:
                workload = parse(_Some(tuple(self.schema.axes[axis] for axis in axes)), listed)
            except QuestionError:  # an axis is named without being asked about, as in "mode=.."
                axes = every
        own = tuple(self.schema.axes[axis] for axis in axes)
        return Margin(axes, own, workload, self.margin_edges(axes))

    def refuse_unpaid(self, axes: Iterable[int], what: str) -> None:
        """Refuse to learn about axes on which nothing is spent.

        Args:
            axes: Numbers of the axes.
            what: What is about them, for the message.
        """
        names = group_names(self.schema)
        for axis in axes:
            own = next(n for n, g in zip(names, self.groups, strict=True) if axis in g.axes)
            if not self.spend.on(own):
                raise StudyError(
                    f"{what} axis {self.schema.axes[axis].name!r}, on which this release spends "
                    f"nothing: name it in spend, as in {{{own!r}: '1/4'}}, or leave it out"
                )

    def label(self, cell: int) -> str:
        """A cell in the study's own words."""
        return cell_names(self.schema.axes)[cell]


@dataclass(frozen=True, eq=False)
class Margin:
    """Questions over the cells of the axes they are about.

    Attributes:
        axes: Numbers of these axes in the study.
        own: The axes themselves.
        workload: The questions, with one column per cell of these axes in C order.
        edges: The distances between these cells.
    """

    axes: tuple[int, ...]
    own: tuple[Axis, ...]
    workload: Workload
    edges: Edges

    @property
    def names(self) -> Labels:
        """What these cells are called in an error."""
        return cell_names(self.own)

    @property
    def free(self) -> bool:
        """Whether every question counts everybody alike, which says nothing but how many."""
        return not self.workload.asked_axes

    @property
    def notes(self) -> tuple[str, ...]:
        """What should be known about the questions."""
        return tuple(PRORATED.format(name) for name in self.workload.prorated)


@dataclass(frozen=True, slots=True)
class _Some:
    """Some axes of a study, as far as questions go."""

    axes: tuple[Axis, ...]


def cell_names(axes: Sequence[Axis]) -> Labels:
    """Cells of some axes in the study's own words, each made when it is asked for.

    Example:
        >>> import sfumato as sf
        >>> names = cell_names([sf.integers("age", 0, 9), sf.categories("mode", ["car", "bus"])])
        >>> len(names), names[3]
        (20, 'age 1, mode bus')
    """
    shape = tuple(axis.size for axis in axes)

    def name(cell: int) -> str:
        places = zip(axes, np.unravel_index(cell, shape), strict=True)
        return ", ".join(f"{axis.name} {axis.labels()[int(place)]}" for axis, place in places)

    return Labels(math.prod(shape), name)


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
