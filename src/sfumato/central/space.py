"""The cells of a study under what one release may spend of its E."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.central.data import refuse_rounding
from sfumato.central.spending import Spend, Spending
from sfumato.errors import StudyError
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.edges import Edges, grid_edges

if TYPE_CHECKING:
    from sfumato.questions.workload import Workload
    from sfumato.study.study import Study


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

    study: Study
    spend: Spend
    metrics: tuple[CellMetric, ...]
    #: What the distances of `metrics` are multiplied by.
    share: Fraction

    def __init__(self, study: Study, spend: Spending = Fraction(1)) -> None:
        refuse_rounding(study)
        object.__setattr__(self, "study", study)
        object.__setattr__(self, "spend", Spend.of(spend, study))
        metrics, share = self.spend.metrics(study)
        object.__setattr__(self, "metrics", metrics)
        object.__setattr__(self, "share", share)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells of every axis."""
        return self.study.shape

    @property
    def size(self) -> int:
        """Number of cells in all."""
        return math.prod(self.shape)

    @cached_property
    def edges(self) -> Edges:
        """The pairs of cells whose distances imply all others."""
        return self.margin_edges(range(len(self.shape)))

    def margin_edges(self, axes: Sequence[int]) -> Edges:
        """The same for the cells of some axes, where nothing is learnt about the others."""
        metrics = [self.metrics[axis] for axis in axes]
        shape = [self.shape[axis] for axis in axes]
        found = grid_edges(metrics, shape, joint=self.study.is_joint)
        return found.zeros_listed().scaled(self.share)

    def exact(self, i: int, j: int) -> Fraction | None:
        """The distance from cell i to cell j; None where it is infinite."""
        places = np.unravel_index([i, j], self.shape)
        parts = [
            metric.exact(int(pair[0]), int(pair[1]))
            for metric, pair in zip(self.metrics, places, strict=True)
        ]
        found = [part for part in parts if part is not None]
        if len(found) < len(parts):
            return None
        return self.share * (max(found) if self.study.is_joint else sum(found, Fraction(0)))

    def workload(self, questions: str | Mapping[str, Any] | Sequence[Any] | Workload) -> Workload:
        """Questions in the study's own language as rows over the cells."""
        from sfumato.questions.compose import parse
        from sfumato.questions.workload import Workload

        if isinstance(questions, Workload):
            if questions.shape[1] != self.size:
                raise StudyError(
                    f"a workload must have one column for each of the {self.size:,} cells of study "
                    f"{self.study.name!r}, got {questions.shape[1]:,}"
                )
            return questions
        return parse(self.study, questions)

    def refuse_unpaid(self, axes: Iterable[int], what: str) -> None:
        """Refuse to learn about axes on which nothing is spent."""
        for name in (self.study.axes[axis].name for axis in axes):
            if not self.spend.on(name):
                raise StudyError(
                    f"{what} axis {name!r}, on which this release spends nothing: name it in "
                    f"spend, as in {{{name!r}: '1/4'}}, or leave it out"
                )

    def label(self, cell: int) -> str:
        """A cell in the study's own words."""
        places = np.unravel_index(cell, self.shape)
        return ", ".join(
            f"{axis.name} {axis.labels()[int(place)]}"
            for axis, place in zip(self.study.axes, places, strict=True)
        )
