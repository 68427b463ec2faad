"""An estimate is asked questions and gives answers with their errors, whatever its method."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import Floats
from sfumato.collect.statistics import BitReports, SymbolCounts
from sfumato.errors import QuestionError, TooLargeError, near
from sfumato.estimation import averages, quantiles
from sfumato.estimation.answers import (
    PRORATED,
    Answer,
    Answers,
    Combination,
    Terms,
    normal_quantile,
)
from sfumato.estimation.bands import Joint
from sfumato.estimation.rows import Rows, group_edges, group_labels
from sfumato.questions.language import Question, weights
from sfumato.questions.tokens import quoted
from sfumato.questions.workload import Given, Workload
from sfumato.study.axis import Axis
from sfumato.study.study import Study

Ask = str | Mapping[str, Any] | None

MOST_ROWS = 4096


class Estimate(ABC):
    """Answers from one tally. How they are found is a subclass' business."""

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

    def share_moments(
        self, asked: Question, rows: dict[int, Rows], *, population: bool
    ) -> quantiles.Curve:
        """Rows as shares of those asked about, for tests that a share has some value."""
        within = any(w is not None for w in asked.weights)
        share, variance = self.row_moments(asked, rows, population=population, conditional=within)
        base = 1.0 if within else self.whole
        return quantiles.Curve(share, base, variance)

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

    # Questions

    def count(
        self,
        question: Ask = None,
        /,
        *,
        where: Ask = None,
        level: float = 0.95,
        population: bool = False,
        **by_axis: Any,
    ) -> Answer:
        """How many people satisfy a conjunction of conditions.

        Args:
            question: Text such as ``"age=18..30, region=north|south"``, or a dict by axis.
            where: More conditions, joined by "and".
            level: Share of intervals that hold the truth.
            population: Add the sampling of people to the error.
            **by_axis: Conditions by axis name: a value, a (low, high) interval, a set.

        Example:
            >>> import sfumato as sf
            >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
            >>> est = study.simulate({"age": list(range(100)) * 100}, seed=1).estimate()
            >>> print(est.count(age=(18, 30)))
            1,299 ± 50
        """
        asked = self._ask(question, where, by_axis)
        return self._answer(((1.0, asked),), asked, level, population)

    def fraction(
        self,
        question: Ask = None,
        /,
        *,
        where: Ask = None,
        level: float = 0.95,
        population: bool = False,
        **by_axis: Any,
    ) -> Answer:
        """The share of people who satisfy conditions, of all or of those in `where`.

        Example:
            >>> import sfumato as sf
            >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
            >>> est = study.simulate({"age": list(range(100)) * 100}, seed=1).estimate()
            >>> print(est.fraction(age=(18, 30)))
            0.1299 ± 0.0050
        """
        both = self._ask(question, where, by_axis)
        if where is None and self._knows_whole(population):
            return self._answer(((1.0 / (self.whole or 1), both),), both, level, population)
        base = self._ask(None, where, {})
        top = Combination(self, ((1.0, both),), population)
        bottom = Combination(self, ((1.0, base),), population)
        return self._finish(top.ratio(bottom, level=level), both)

    mean = averages.mean
    variance = averages.variance
    total = averages.total
    quantile = quantiles.quantile

    def histogram(
        self,
        axis: str,
        *,
        where: Ask = None,
        bins: int | None = None,
        fraction: bool = False,
        level: float = 0.95,
        population: bool = False,
    ) -> Answers:
        """How many people are in each cell of an axis, or in each of `bins` groups of cells.

        With fraction=True, shares of those who satisfy `where`.
        """
        place = self._place(axis)
        rows = self._cell_rows(place, where, bins)
        return self._rows("histogram", {place: rows}, where, fraction, level, population)

    def cdf(
        self,
        axis: str,
        *,
        where: Ask = None,
        bins: int | None = None,
        fraction: bool = True,
        level: float = 0.95,
        population: bool = False,
    ) -> Answers:
        """How many people are at or below each cell of an ordered axis."""
        place = self._place(axis)
        held = self.study.axes[place]
        if not held.domain.ordered:
            raise QuestionError(f"axis {axis!r} has no order; ask for its histogram instead")
        if held.optional:
            where = self._and_answered(held, where)
        rows = self._cell_rows(place, where, bins)
        upto = replace(rows, weights=np.cumsum(rows.weights, axis=0))
        return self._rows("cdf", {place: upto}, where, fraction, level, population)

    def heatmap(
        self,
        first: str,
        second: str,
        *,
        where: Ask = None,
        bins: int | tuple[int | None, int | None] | None = None,
        fraction: bool = False,
        level: float = 0.95,
        population: bool = False,
    ) -> Answers:
        """How many people are in each pair of cells of two axes."""
        one, two = self._place(first), self._place(second)
        if one == two:
            raise QuestionError(f"a heat map needs two different axes, got {first!r} twice")
        pair = bins if isinstance(bins, tuple) else (bins, bins)
        rows = {
            one: self._cell_rows(one, where, pair[0]),
            two: self._cell_rows(two, where, pair[1]),
        }
        return self._rows("heatmap", rows, where, fraction, level, population)

    def linear(
        self, workload: Workload | ArrayLike, *, level: float = 0.95, population: bool = False
    ) -> Answers:
        """Any linear questions: rows are questions, columns are cells in C order of the axes.

        Args:
            workload: A `Workload`, whose labels the answers take, or a matrix.
            level: Share of intervals that hold the truth.
            population: Add the sampling of people to the error.
        """
        shape = tuple(axis.size for axis in self.study.axes)
        asked = workload if isinstance(workload, Workload) else Given(workload)
        if asked.cells != math.prod(shape):
            raise QuestionError(
                f"a workload must have {math.prod(shape)} columns, one per cell "
                f"({' × '.join(map(str, shape))}), got shape {asked.shape}"
            )
        values, variance = np.empty(asked.questions), np.empty(asked.questions)
        for part, rows in asked.chunks():
            grids = rows.reshape(-1, *shape)
            values[part], variance[part] = self.grid_moments(grids, population=population)
        names, labels = ("question",), (list(asked.labels),)
        found = self._answers("linear", values, variance, names, labels, (None,), level)
        notes = found.notes + tuple(PRORATED.format(name) for name in asked.prorated)
        return replace(found, notes=notes)

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

    def _cell_rows(self, place: int, where: Ask, bins: int | None) -> Rows:
        """One row of weights a cell or group of cells, within what `where` leaves of the axis."""
        axis = self.study.axes[place]
        asked = self._ask(None, where, {}).weights[place]
        keep = np.flatnonzero(asked) if asked is not None else np.arange(axis.size)
        values = keep[keep < axis.domain.size]
        if bins is not None and (isinstance(bins, bool) or bins < 1):
            raise QuestionError(f"bins must be a positive whole number, got bins={bins}")
        groups = np.array_split(values, min(bins or len(values), len(values)))
        groups += [keep[keep >= axis.domain.size]] if len(values) < len(keep) else []
        if len(groups) > MOST_ROWS:
            raise TooLargeError(
                f"axis {axis.name!r} has {len(groups)} cells to show; the limit is {MOST_ROWS}. "
                f"Ask for groups of cells with bins={MOST_ROWS} or fewer"
            )
        table = np.zeros((len(groups), axis.size))
        for row, group in enumerate(groups):
            table[row, group] = 1.0 if asked is None else asked[group]
        return Rows(table, group_labels(axis, groups), group_edges(axis, groups))

    # Putting answers together

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

    def _rows(
        self,
        kind: str,
        rows: dict[int, Rows],
        where: Ask,
        fraction: bool,
        level: float,
        population: bool,
    ) -> Answers:
        """Every combination of rows at once."""
        asked = self._ask(None, where, {})
        conditional = fraction and (bool(asked.text) or not self._knows_whole(population))
        values, variance = self.row_moments(
            asked, rows, population=population, conditional=conditional
        )
        if fraction and not conditional:
            values, variance = values / (self.whole or 1), variance / (self.whole or 1) ** 2
        names = tuple(self.study.axes[place].name for place in rows)
        found = self._answers(
            kind,
            values,
            variance,
            names,
            tuple(row.labels for row in rows.values()),
            tuple(row.edges for row in rows.values()),
            level,
        )
        notes = found.notes + tuple(PRORATED.format(name) for name in asked.prorated)
        unit = "fraction" if fraction else self.unit
        units = tuple(self.study.axes[place].unit for place in rows)
        joint = Joint(self, asked, rows, population, conditional)
        return replace(found, notes=notes, unit=unit, question=asked.text, units=units, joint=joint)

    def _answers(
        self,
        kind: str,
        values: Floats,
        variance: Floats,
        names: tuple[str, ...],
        labels: tuple[list[str], ...],
        edges: tuple[NDArray[Any] | None, ...],
        level: float,
    ) -> Answers:
        """Arrays with their errors; without reports there are no numbers."""
        normal_quantile(level)
        empty = not self.n
        return Answers(
            values=np.full_like(values, math.nan) if empty else values,
            stderr=np.full_like(values, math.nan) if empty else np.sqrt(np.maximum(variance, 0)),
            n=self.n,
            kind=kind,
            axes=names,
            all_labels=labels,
            all_edges=edges,
            level=level,
            method=self.method,
            notes=("no reports",) if empty else (),
        )


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
