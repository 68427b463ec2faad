"""`Source`, the base class of estimates: values and variances of sums over people.

Averages and quantiles build on it, and `Estimate` joins them all. Subclasses say how values and
variances are computed: without bias, or by likelihood.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from sfumato.arrays import Floats
from sfumato.collect.block_sums import AnyStatistic
from sfumato.errors import QuestionError, near, shown
from sfumato.estimation.answers import PRORATED, ROUNDED, Answer, Combination, Terms, Told
from sfumato.estimation.intervals import Estimated, normal_quantile
from sfumato.estimation.rows import MOST_ROWS, Bins, Curve, EveryCell, Rows
from sfumato.questions.language import Question, quoted, weights
from sfumato.study.axis import Axis
from sfumato.study.study import Study

#: A condition on people: text, conditions by axis name, one that was read before, or none.
Ask = str | Mapping[str, Any] | Question | None


class Source(ABC):
    """Values and variances of sums over the people of one tally.

    Args:
        study: The study.
        statistic: Its reports.
        notes: What to know about the tally, for every answer.
    """

    unit: ClassVar[str] = "people"

    def __init__(self, study: Study, statistic: AnyStatistic, notes: tuple[str, ...] = ()) -> None:
        self.study = study
        self.statistic = statistic
        self.notes = notes

    @property
    @abstractmethod
    def method(self) -> str:
        """The estimator: "unbiased", "likelihood", or both where it depends on the question."""

    def told(self, terms: Terms) -> Told:
        """How a sum of questions is answered.

        Args:
            terms: Pairs of a factor and a question.
        """
        return self.told_about(mentioned([question for _, question in terms]))

    def told_about(self, axes: Iterable[int], answers: int = 1) -> Told:
        """How questions about some axes are answered.

        Args:
            axes: Positions of the axes that they mention.
            answers: How many sums with errors are asked for at once.
        """
        return Told(self.method, self.notes)

    def has_curves(self, axes: Iterable[int]) -> bool:
        """Whether the errors of `share_moments` on large axes are those of `moments`."""
        return False

    @abstractmethod
    def moments(
        self, terms: Terms, *, population: bool = False, beside: Terms = ()
    ) -> Estimated[float]:
        """Estimate Σ factor·(sum of a question's weights over people).

        Args:
            terms: Pairs of a factor and a question.
            population: Add the variance of sampling people from a population.
            beside: Questions that must be answered from the same decoding, but are not added.
        """

    @property
    def ways(self) -> Sequence[Callable[..., Estimated[float]]]:
        """The ways of reading sums, each to be called as `moments` is."""
        return (self.moments,)

    @abstractmethod
    def row_moments(
        self, asked: Question, rows: dict[int, Rows], *, population: bool, conditional: bool
    ) -> Estimated[Floats]:
        """Estimate every combination of rows.

        Args:
            asked: The condition on people.
            rows: Rows of weights by axis, for the axes asked about.
            population: Add the variance of sampling people from a population.
            conditional: Return shares of the people who satisfy the condition, not counts.

        Returns:
            Arrays with one dimension per axis of `rows`.
        """

    @abstractmethod
    def grid_moments(self, grids: Floats, *, population: bool) -> Estimated[Floats]:
        """Estimate questions given as arrays over all cells.

        Args:
            grids: Weights, shape (questions, *cells of every axis).
            population: Add the variance of sampling people from a population.
        """

    def row_covariance(
        self, asked: Question, rows: dict[int, Rows], *, population: bool, conditional: bool
    ) -> Floats | None:
        """Covariance matrix of rows on one axis, up to a factor; None where it is not known.

        Args:
            asked: The condition on people.
            rows: Rows of weights by axis, for the axes asked about.
            population: Add the variance of sampling people from a population.
            conditional: Return shares of the people who satisfy the condition, not counts.
        """
        return None

    @abstractmethod
    def share_ends(
        self,
        found: Estimated[Floats],
        asked: Question,
        rows: dict[int, Rows],
        z: float,
        *,
        population: bool,
    ) -> tuple[Floats, Floats]:
        """Intervals of shares of the people who satisfy a condition.

        Args:
            found: The estimated shares.
            asked: The condition on people.
            rows: Rows of weights by axis, for the axes asked about.
            z: Standard errors each way.
            population: Add the variance of sampling people from a population.
        """

    def share_moments(self, asked: Question, rows: dict[int, Rows], *, population: bool) -> Curve:
        """Rows of cumulative counts with their errors, as shares of those asked about.

        Args:
            asked: The condition on people.
            rows: Rows of weights by axis, for the axes asked about.
            population: Add the variance of sampling people from a population.
        """
        within = any(w is not None for w in asked.weights)
        found = self.row_moments(asked, rows, population=population, conditional=within)
        base = 1.0 if within else self.whole
        return Curve(found.value, base, found.variance, centre=found.centre)

    @property
    def n(self) -> int:
        """Number of reports."""
        return self.statistic.count

    @property
    def whole(self) -> float:
        """Number of people, or their total weight."""
        return float(self.n)

    def _knows_whole(self, population: bool) -> bool:
        """Whether shares of everybody have a divisor that is known exactly."""
        return True

    def most(self, population: bool) -> float:
        """The number of people, or their total weight; infinite where it is not known."""
        return self.whole if self._knows_whole(population) else math.inf

    @property
    def options(self) -> tuple[Any, ...]:
        """How it was asked to estimate: equal estimates have equal options."""
        return ()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Source)
            and type(self) is type(other)
            and self.study == other.study
            and self.statistic == other.statistic
            and (self.notes, self.options) == (other.notes, other.options)
        )

    def __hash__(self) -> int:
        return hash((type(self), self.study, self.n))

    def __repr__(self) -> str:
        return f"<{self.method} estimate of study {self.study.name!r} from {self.n:,} reports>"

    def _ask(self, question: Ask, where: Ask, by_axis: Mapping[str, Any]) -> Question:
        """All conditions as one question."""
        asked = self._read(question, by_axis)
        if where is not None:
            asked = _both(asked, self._read(where, {}))
        trimmed = tuple(None if w is None or np.all(w == 1.0) else w for w in asked.weights)
        return replace(asked, weights=trimmed)

    def _read(self, asked: Ask, by_axis: Mapping[str, Any]) -> Question:
        """A condition as a question."""
        if not isinstance(asked, Question):
            return weights(self.study.axes, asked, **by_axis)
        return _both(asked, weights(self.study.axes, **by_axis)) if by_axis else asked

    def _every_cell(self, place: int, asked: Floats | None, upto: bool) -> EveryCell | None:
        """All cells of an axis that a condition on it leaves, or all prefixes, as implicit rows.

        None where there are few enough to be written out, or where they must be: cells of an axis
        that shares its block, bits, readings that are not linear, and prefixes with gaps.
        """
        axis = self.study.axes[place]
        block = next(block for block in self.study.blocks if place in block.axes)
        channel = block.channel
        symbols = channel.linear and channel.layout.kind == "symbols"
        weights = np.ones(axis.size) if asked is None else asked
        cells = np.flatnonzero(weights)
        if len(cells) <= MOST_ROWS or len(block.axes) > 1 or not symbols:
            return None
        if upto and not np.all(weights[: cells[-1] + 1] == 1.0):
            return None
        return EveryCell(weights, cells, upto)

    def _and_answered(self, axis: Axis, where: Ask) -> Ask:
        """The condition `where`, and that the axis has an answer."""
        everything = f"{quoted(axis.name)}=.."
        if isinstance(where, Question):
            return _both(where, weights(self.study.axes, everything))
        if where is None or where == "" or where == {}:
            return everything
        if isinstance(where, str):
            return where if _mentions(self.study.axes, where, axis) else f"{where}, {everything}"
        weights(self.study.axes, where)  # which refuses what is no question
        return {axis.name: (None, None), **where}

    def _cell_rows(self, place: int, where: Ask, bins: Bins) -> Rows:
        """One row of weights per cell or group of cells, of the cells that `where` leaves."""
        return Rows.of(self.study.axes[place], self._ask(None, where, {}).weights[place], bins)

    def _grouped(self, by: str | None) -> str:
        """The axis of a group-by; bins alone are refused."""
        if by is None:
            raise QuestionError("bins are groups of an axis: name it with by=")
        return by

    def _place(self, axis: str) -> int:
        """The position of an axis in the study, by its name."""
        names = [held.name for held in self.study.axes]
        if not isinstance(axis, str):
            raise QuestionError(f"an axis must be given by its name, got {shown(axis)}")
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
        """The answer to a linear combination of questions, with notes."""
        normal_quantile(level)
        return self._finish(Combination(self, terms, population).answer(level=level), asked)

    def _finish(self, answer: Answer, asked: Question) -> Answer:
        """Add notes and the question in words; without reports there is no number."""
        notes = answer.notes + self._cut_notes(asked.prorated)
        if not self.n:
            notes = ("no reports", *self.notes)
            answer = replace(answer, value=math.nan, stderr=math.nan)
        return replace(answer, notes=notes, question=asked.text)

    def _cut_notes(self, prorated: Sequence[str]) -> tuple[str, ...]:
        """What to know about questions that cut a bin."""
        rounded = {axis.name for axis in self.study.axes if axis.domain.rounding_bits}
        return tuple((ROUNDED if name in rounded else PRORATED).format(name) for name in prorated)

    def _extremes(self, asked: Question) -> tuple[Question, Question] | None:
        """Questions that count at most, and at least, the people asked about.

        On an axis with stochastic rounding a person counts for the mean weight of the grid points
        that their value may be rounded to. Where an end of the range is within their reach, that is
        right only if people are spread evenly there. The first question leaves these grid points
        out, and the second includes them. None if nothing is cut on such an axis.
        """
        places = [
            place
            for place, axis in enumerate(self.study.axes)
            if axis.domain.rounding_bits and axis.name in asked.prorated
        ]
        if not places:
            return None
        least, most = list(asked.weights), list(asked.weights)
        for place in places:
            w = asked.weights[place]
            if w is not None:
                least[place], most[place] = (w >= 1 - 1e-9).astype(float), (w > 0).astype(float)
        return replace(asked, weights=tuple(least)), replace(asked, weights=tuple(most))


def mentioned(questions: Iterable[Question]) -> tuple[int, ...]:
    """The axes on which any of the questions has a condition."""
    return tuple(sorted({d for q in questions for d, w in enumerate(q.weights) if w is not None}))


def _both(a: Question, b: Question) -> Question:
    """The conjunction of two conditions."""
    joint = tuple(
        v if w is None else w if v is None else w * v
        for w, v in zip(a.weights, b.weights, strict=True)
    )
    text = ", ".join(part for part in (a.text, b.text) if part)
    return Question(joint, tuple(dict.fromkeys(a.prorated + b.prorated)), text)


def _mentions(axes: Sequence[Axis], text: str, axis: Axis) -> bool:
    """Whether a question has a condition on an axis."""
    asked = weights(axes, text).weights
    return asked[[held.name for held in axes].index(axis.name)] is not None


def with_weights(question: Question, place: int, w: Floats) -> Question:
    """The same question with other weights on one axis.

    Args:
        question: The question.
        place: The position of the axis in the study.
        w: One weight per cell of the axis.
    """
    changed = (*question.weights[:place], w, *question.weights[place + 1 :])
    return replace(question, weights=changed)
