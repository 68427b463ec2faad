"""What answers are made of: moments of sums over people, and questions put to a study.

`Source` is the lower half of an estimate. Averages and quantiles build on it, and `Estimate` joins
them all.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from sfumato.arrays import Floats
from sfumato.collect.statistics import BitReports, SymbolCounts
from sfumato.errors import QuestionError, near
from sfumato.estimation.answers import (
    PRORATED,
    Answer,
    Combination,
    Terms,
    normal_quantile,
)
from sfumato.estimation.curves import Curve
from sfumato.estimation.rows import Rows
from sfumato.questions.language import Question, weights
from sfumato.questions.tokens import quoted
from sfumato.study.axis import Axis
from sfumato.study.study import Study

Ask = str | Mapping[str, Any] | None


class Source(ABC):
    """Moments of sums over the people of one tally; how they are found is a subclass' business.

    Args:
        study: What was asked.
        statistic: The reports.
    """

    method: ClassVar[str]
    unit: ClassVar[str] = "people"

    def __init__(self, study: Study, statistic: SymbolCounts | BitReports) -> None:
        self.study = study
        self.statistic = statistic

    @abstractmethod
    def moments(
        self, terms: Terms, *, population: bool = False, beside: Terms = ()
    ) -> tuple[float, float]:
        """Value and variance of Σ factor·(sum of a question's weights over people).

        Questions in `beside` are not added, but where it matters are answered from one decoding.
        """

    @abstractmethod
    def row_moments(
        self, asked: Question, rows: dict[int, Rows], *, population: bool, conditional: bool
    ) -> tuple[Floats, Floats]:
        """Values and variances of every combination of rows, of all or of those asked about."""

    @abstractmethod
    def grid_moments(self, grids: Floats, *, population: bool) -> tuple[Floats, Floats]:
        """Values and variances of questions given as arrays over all cells."""

    def row_covariance(
        self, asked: Question, rows: dict[int, Rows], *, population: bool, conditional: bool
    ) -> Floats | None:
        """Covariances of rows on one axis, up to a factor; None where they are not known."""
        return None

    def share_moments(self, asked: Question, rows: dict[int, Rows], *, population: bool) -> Curve:
        """Rows as shares of those asked about, for tests that a share has some value."""
        within = any(w is not None for w in asked.weights)
        share, variance = self.row_moments(asked, rows, population=population, conditional=within)
        base = 1.0 if within else self.whole
        return Curve(share, base, variance)

    @property
    def n(self) -> int:
        """Number of reports."""
        return self.statistic.count

    @property
    def whole(self) -> float:
        """What everybody counts for together."""
        return float(self.n)

    def _knows_whole(self, population: bool) -> bool:
        """Whether shares of everybody have a divisor without error."""
        return True

    def __repr__(self) -> str:
        return f"<{self.method} estimate of study {self.study.name!r} from {self.n:,} reports>"

    def _ask(self, question: Ask, where: Ask, by_axis: Mapping[str, Any]) -> Question:
        """All conditions as one question."""
        asked = weights(self.study.axes, question, **by_axis)
        if where is not None:
            asked = _both(asked, weights(self.study.axes, where))
        trimmed = tuple(None if w is None or np.all(w == 1.0) else w for w in asked.weights)
        return replace(asked, weights=trimmed)

    def _and_answered(self, axis: Axis, where: Ask) -> dict[str, Any] | str:
        """The condition `where`, and that the axis has an answer."""
        everything = f"{quoted(axis.name)}=.."
        if where is None or where == "" or where == {}:
            return everything
        if isinstance(where, str):
            return where if _mentions(self.study.axes, where, axis) else f"{where}, {everything}"
        return {axis.name: (None, None), **where}

    def _place(self, axis: str) -> int:
        """The number of an axis by its name."""
        names = [held.name for held in self.study.axes]
        if axis not in names:
            raise QuestionError(f"there is no axis {axis!r}: {near(axis, names)}")
        return names.index(axis)

    def _answer(
        self,
        terms: tuple[tuple[float, Question], ...],
        asked: Question,
        level: float,
        population: bool,
    ) -> Answer:
        """A linear combination of questions, with its notes."""
        normal_quantile(level)
        return self._finish(Combination(self, terms, population).answer(level=level), asked)

    def _finish(self, answer: Answer, asked: Question) -> Answer:
        """Add what the reader should know."""
        notes = answer.notes + tuple(PRORATED.format(name) for name in asked.prorated)
        if not self.n:
            notes = ("no reports",)
            answer = replace(answer, value=math.nan, stderr=math.nan)
        return replace(answer, notes=notes, question=asked.text)


def _both(a: Question, b: Question) -> Question:
    """Both conditions at once."""
    joint = tuple(
        v if w is None else w if v is None else w * v
        for w, v in zip(a.weights, b.weights, strict=True)
    )
    text = ", ".join(part for part in (a.text, b.text) if part)
    return Question(joint, tuple(dict.fromkeys(a.prorated + b.prorated)), text)


def _mentions(axes: Sequence[Axis], text: str, axis: Axis) -> bool:
    """Whether a question says something about an axis."""
    asked = weights(axes, text).weights
    return asked[[held.name for held in axes].index(axis.name)] is not None
