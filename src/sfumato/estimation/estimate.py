"""`Estimate`: counts, fractions, histograms and more, with their errors, by any method."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import Floats
from sfumato.checks import several
from sfumato.errors import QuestionError, shown
from sfumato.estimation.answers import EITHER_SIDE, Answer, Answers, Combination, Told
from sfumato.estimation.averages import Averages
from sfumato.estimation.discrimination import Discrimination
from sfumato.estimation.groups import groups
from sfumato.estimation.intervals import Estimated, normal_quantile
from sfumato.estimation.quantiles import Quantiles
from sfumato.estimation.rows import Bins, Rows, row_count
from sfumato.estimation.source import Ask, Source, mentioned, with_weights
from sfumato.questions.language import Question
from sfumato.questions.workload import Given, Workload

Found = TypeVar("Found")

#: Beyond this many rows their covariances are not computed.
MOST_SIMULATED = 1024


@dataclass(frozen=True, slots=True, eq=False)
class RowErrors:
    """The origin of rows of answers, from which covariances are computed when asked for.

    Args:
        source: The estimate.
        asked: The condition on people.
        rows: Rows of weights by axis.
        population: Whether errors include the sampling of people.
        conditional: Whether the answers are shares of those who satisfy the condition.
        found: The estimates.
        factor: What sums over people were multiplied by: one over their number, for shares.
    """

    source: Source
    asked: Question
    rows: dict[int, Rows]
    population: bool
    conditional: bool
    found: Estimated[Floats]
    factor: float = 1.0

    @property
    def whole(self) -> float:
        """Number of people, or their total weight."""
        return self.source.whole

    def covariance(self) -> Floats | None:
        """Covariance matrix of all answers, up to a factor; None where only variances are known."""
        if len(self.rows) != 1 or len(next(iter(self.rows.values())).weights) > MOST_SIMULATED:
            return None
        return self.source.row_covariance(
            self.asked, self.rows, population=self.population, conditional=self.conditional
        )

    def ends(self, z: float) -> tuple[Floats, Floats] | None:
        """Intervals of z standard errors each way where they are not symmetric: of ratios."""
        if not self.conditional or not self.source.n:
            return None
        return self.source.share_ends(
            self.found, self.asked, self.rows, z, population=self.population
        )

    def one(self, place: int) -> Combination | None:
        """One row as a combination of questions; None where it is none, as a share of some."""
        if self.conditional or len(self.rows) != 1:
            return None
        ((axis, rows),) = self.rows.items()
        question = with_weights(self.asked, axis, rows.row(place))
        return Combination(self.source, ((self.factor, question),), self.population)


class Estimate(Averages, Quantiles, Discrimination):
    """Answers from one tally: counts, fractions, histograms, heat maps, quantiles, averages."""

    @overload
    def count(
        self, question: Ask = None, /, *, by: str, bins: Bins = None, **options: Any
    ) -> Answers: ...

    @overload
    def count(
        self,
        question: Ask = None,
        /,
        *,
        where: Ask = None,
        level: float = 0.95,
        population: bool = False,
        **by_axis: Any,
    ) -> Answer: ...

    def count(
        self,
        question: Ask = None,
        /,
        *,
        where: Ask = None,
        level: float = 0.95,
        population: bool = False,
        by: str | None = None,
        bins: Bins = None,
        **by_axis: Any,
    ) -> Answer | Answers:
        """How many people satisfy a conjunction of conditions.

        Args:
            question: Text such as ``"age=18..30, region=north|south"``, or a dict by axis.
            where: More conditions, joined by "and".
            level: Confidence level of the intervals.
            population: Add the variance of sampling people from a population.
            by: An axis: one answer for each of its cells, about the people in it.
            bins: With `by`, groups of its cells, as in `histogram`.
            **by_axis: Conditions by axis name: a value, a (low, high) interval, a set.

        Example:
            >>> import sfumato as sf
            >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
            >>> est = study.simulate({"age": list(range(100)) * 100}, seed=1).estimate()
            >>> print(est.count(age=(18, 30)))
            1,299 ± 22
        """
        asked = self._ask(question, where, by_axis)
        if by is not None or bins is not None:
            return self.histogram(
                self._grouped(by), where=asked, bins=bins, level=level, population=population
            )
        return self._widened(
            lambda one, _: self._answer(((1.0, one),), asked, level, population), asked, asked
        )

    def counts(
        self,
        questions: Iterable[Ask],
        *,
        level: float = 0.95,
        population: bool = False,
    ) -> list[Answer]:
        """The answers that `count` gives to many questions, from one pass over reports of bits.

        Args:
            questions: Questions as text or by axis.
            level: Confidence level of the intervals.
            population: Add the variance of sampling people from a population.

        Example:
            >>> import sfumato as sf
            >>> axis = sf.integers("age", 0, 99, protect=sf.Distance(0.5), channel=sf.Thermometer())
            >>> study = sf.Study("ages", [axis])
            >>> est = study.simulate({"age": list(range(100)) * 100}, seed=1).estimate("unbiased")
            >>> [str(answer) for answer in est.counts(["age=18..30", "age=..49"])]
            ['1,400 ± 280', '5,280 ± 200']
        """
        asked = several(questions, "questions", error=QuestionError)
        return [self.count(question, level=level, population=population) for question in asked]

    def marginals(
        self,
        sets: Iterable[Sequence[str]],
        *,
        where: Ask = None,
        fraction: bool = False,
        level: float = 0.95,
        population: bool = False,
    ) -> list[Answers]:
        """How many people are in each combination of cells of some axes, for many sets of axes.

        All of them come from one pass over reports of bits. A set of one axis is its histogram, and
        one of two axes is their heat map.

        Args:
            sets: Names of axes, one sequence per marginal.
            where: Conditions on the people, as text or a dict by axis.
            fraction: Return shares of the people who satisfy `where`, not counts.
            level: Confidence level of the intervals.
            population: Add the variance of sampling people from a population.
        """
        listed = [self._axes_of(names) for names in several(sets, "sets", error=QuestionError)]

        def ask(one: Estimate) -> list[Answers]:
            return [
                one._rows(
                    "marginal",
                    {place: one._cell_rows(place, where, None) for place in places},
                    where,
                    fraction,
                    level,
                    population,
                )
                for places in listed
            ]

        return self._in_one_pass(ask)

    def _axes_of(self, names: Sequence[str]) -> list[int]:
        """The positions of some different axes."""
        if isinstance(names, str):
            raise QuestionError(
                f"a marginal is given by a tuple of axis names, such as ({names!r},), got "
                f"{shown(names)}"
            )
        places = [self._place(name) for name in several(names, "names", error=QuestionError)]
        if not places or len(set(places)) < len(places):
            raise QuestionError(
                f"a marginal needs one or more different axes, got {', '.join(map(repr, names))}"
            )
        return places

    def _in_one_pass(self, ask: Callable[[Estimate], list[Found]]) -> list[Found]:
        """What questions find.

        Args:
            ask: Asks an estimate all of them; it may be called more than once.
        """
        return ask(self)

    @overload
    def fraction(
        self, question: Ask = None, /, *, by: str, bins: Bins = None, **options: Any
    ) -> Answers: ...

    @overload
    def fraction(
        self,
        question: Ask = None,
        /,
        *,
        where: Ask = None,
        level: float = 0.95,
        population: bool = False,
        **by_axis: Any,
    ) -> Answer: ...

    def fraction(
        self,
        question: Ask = None,
        /,
        *,
        where: Ask = None,
        level: float = 0.95,
        population: bool = False,
        by: str | None = None,
        bins: Bins = None,
        **by_axis: Any,
    ) -> Answer | Answers:
        """The share of people who satisfy conditions, among all or among those in `where`.

        Args:
            question: Text such as ``"age=18..30, region=north|south"``, or a dict by axis.
            where: Conditions on the people who form the whole, as text or a dict by axis.
            level: Confidence level of the intervals.
            population: Add the variance of sampling people from a population.
            by: An axis: one answer for each of its cells, about the people in it.
            bins: With `by`, groups of its cells, as in `histogram`.
            **by_axis: Conditions by axis name: a value, a (low, high) interval, a set.

        Example:
            >>> import sfumato as sf
            >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
            >>> est = study.simulate({"age": list(range(100)) * 100}, seed=1).estimate()
            >>> print(est.fraction(age=(18, 30)))
            0.1299 ± 0.0022
        """
        if by is not None or bins is not None:
            asked, axis = self._ask(question, None, by_axis), self._grouped(by)

            def among(who: Question) -> Answer:
                return self.fraction(asked, where=who, level=level, population=population)

            return groups(self, axis, among, where=where, bins=bins)
        both, base = self._ask(question, where, by_axis), self._ask(None, where, {})

        def share(top: Question, bottom: Question) -> Answer:
            if where is None and self._knows_whole(population):
                return self._answer(((1.0 / (self.whole or 1), top),), both, level, population)
            over, under = (Combination(self, ((1.0, q),), population) for q in (top, bottom))
            return self._finish(over.ratio(under, level=level, limits=(0.0, 1.0)), both)

        return self._widened(share, both, base)

    def _widened(
        self, ask: Callable[[Question, Question], Answer], top: Question, bottom: Question
    ) -> Answer:
        """An answer whose interval has room for the least and the most people that may be meant.

        Args:
            ask: Gives the answer for the question and, of a share, that of its divisor.
            top: The question.
            bottom: The question of the divisor.
        """
        answer, extremes = ask(top, bottom), self._extremes(top)
        if extremes is None or not self.n:
            return answer
        under = self._extremes(bottom) or (bottom, bottom)
        low, high = ask(extremes[0], under[1]), ask(extremes[1], under[0])
        ends = (min(low.uncut[0], answer.value), max(high.uncut[1], answer.value))
        return replace(answer, bounds=ends, notes=(*answer.notes, EITHER_SIDE))

    def histogram(
        self,
        axis: str,
        *,
        where: Ask = None,
        bins: Bins = None,
        fraction: bool = False,
        level: float = 0.95,
        population: bool = False,
    ) -> Answers:
        """How many people are in each cell of an axis, or in each of some groups of cells.

        An axis may have millions of cells: beyond 4,096 all cells are read at once, and their
        errors come by formula.

        Args:
            axis: The axis.
            where: Conditions on the people, as text or a dict by axis.
            bins: Number of groups of neighbouring cells, or the edges of groups such as
                ``[0, 18, 65, 100]``: each runs up to the next edge without it, and the last one
                includes its end. Left out, single cells.
            fraction: Return shares of the people who satisfy `where`, not counts.
            level: Confidence level of the intervals.
            population: Add the variance of sampling people from a population.
        """
        place = self._place(axis)
        rows = self._all_rows(place, where, bins) or self._cell_rows(place, where, bins)
        return self._rows("histogram", {place: rows}, where, fraction, level, population)

    def cdf(
        self,
        axis: str,
        *,
        where: Ask = None,
        bins: Bins = None,
        fraction: bool = True,
        level: float = 0.95,
        population: bool = False,
    ) -> Answers:
        """The cumulative distribution: people at or below each cell of an ordered axis.

        Beyond 4,096 cells all of it is read at once, with errors by formula.

        Args:
            axis: An axis with an order.
            where: Conditions on the people, as text or a dict by axis.
            bins: Number of groups of neighbouring cells, or the edges of groups such as
                ``[0, 18, 65, 100]``: each runs up to the next edge without it, and the last one
                includes its end. Left out, single cells.
            fraction: Return shares of the people who satisfy `where`, not counts.
            level: Confidence level of the intervals.
            population: Add the variance of sampling people from a population.
        """
        place = self._place(axis)
        held = self.study.axes[place]
        if not held.domain.ordered:
            raise QuestionError(f"axis {axis!r} has no order; ask for its histogram instead")
        if held.optional:
            where = self._and_answered(held, where)
        upto = self._all_rows(place, where, bins, upto=True)
        if upto is None:
            rows = self._cell_rows(place, where, bins)
            upto = replace(rows, weights=np.cumsum(rows.table, axis=0))
        return self._rows("cdf", {place: upto}, where, fraction, level, population)

    def heatmap(
        self,
        first: str,
        second: str,
        *,
        where: Ask = None,
        bins: Bins | tuple[Bins, Bins] = None,
        fraction: bool = False,
        level: float = 0.95,
        population: bool = False,
    ) -> Answers:
        """How many people are in each pair of cells of two axes.

        Args:
            first: The axis of the rows.
            second: The axis of the columns.
            where: Conditions on the people, as text or a dict by axis.
            bins: Number or edges of groups of cells as in `histogram`, for both axes, or a tuple
                with one for each; left out, single cells.
            fraction: Return shares of the people who satisfy `where`, not counts.
            level: Confidence level of the intervals.
            population: Add the variance of sampling people from a population.
        """
        one, two = self._place(first), self._place(second)
        if one == two:
            raise QuestionError(f"a heat map needs two different axes, got {first!r} twice")
        pair = bins if isinstance(bins, tuple) else (bins, bins)
        if len(pair) != 2:
            raise QuestionError(
                f"bins must be a number for both axes, or one for each, got {len(pair)} numbers"
            )
        rows = {
            one: self._cell_rows(one, where, pair[0]),
            two: self._cell_rows(two, where, pair[1]),
        }
        return self._rows("heatmap", rows, where, fraction, level, population)

    def linear(
        self, workload: Workload | ArrayLike, *, level: float = 0.95, population: bool = False
    ) -> Answers:
        """Answer a workload of linear questions over the cells of all axes.

        Args:
            workload: A `Workload`, whose labels the answers take, or a matrix with one row per
                question and one column per cell, in C order of the axes.
            level: Confidence level of the intervals.
            population: Add the variance of sampling people from a population.
        """
        shape = tuple(axis.size for axis in self.study.axes)
        asked = workload if isinstance(workload, Workload) else Given(workload)
        if asked.cells != math.prod(shape):
            raise QuestionError(
                f"a workload must have {math.prod(shape)} columns, one per cell "
                f"({' × '.join(map(str, shape))}), got shape {asked.shape}"
            )
        found = [
            self.grid_moments(rows.reshape(-1, *shape), population=population)
            for _, rows in asked.chunks()
        ]
        estimated = Estimated(*map(np.concatenate, zip(*found, strict=True)))
        low, high = asked.span()
        with np.errstate(invalid="ignore"):  # where the number of people is not known, 0·∞
            limits = [np.nan_to_num(end * self.most(population)) for end in (low, high)]
        names, labels = ("question",), (list(asked.labels),)
        told = self.told_about(range(len(shape)))
        answers = self._answers("linear", estimated, names, labels, (None,), level, told)
        notes = answers.notes + self._cut_notes(asked.prorated)
        return replace(answers, notes=notes, limits=(limits[0], limits[1]))

    @property
    def why(self) -> str:
        """Why some or all answers are unbiased where nothing else was asked for; else empty."""
        return ""

    @property
    def decodings(self) -> int:
        """Number of sets of axes that have been decoded."""
        return 0

    def save(self, path: str | Path) -> None:
        """Write what has been decoded to a file; unbiased estimates have nothing to keep.

        Args:
            path: The file.
        """
        raise QuestionError(
            f"{self.method} answers are read from the tally at once, so there is nothing to save; "
            "save the tally instead"
        )

    def _all_rows(self, place: int, where: Ask, bins: Bins, *, upto: bool = False) -> Rows | None:
        """All cells of a large axis, or all prefixes; None where rows of weights can be written."""
        axis = self.study.axes[place]
        asked = self._ask(None, where, {}).weights[place]
        every = None if bins is not None else self._every_cell(place, asked, upto)
        if every is None:
            return None
        labels, edges = axis.labels(), axis.domain.edges()
        first, last = int(every.cells[0]), int(every.cells[-1])
        adjacent = last - first + 1 == len(every) and last < axis.domain.size
        return Rows(
            every,
            labels if len(every) == len(labels) else [labels[c] for c in every.cells.tolist()],
            edges[first : last + 2] if edges is not None and adjacent else None,
        )

    # Putting answers together

    def _rows(
        self,
        kind: str,
        rows: dict[int, Rows],
        where: Ask,
        fraction: bool,
        level: float,
        population: bool,
    ) -> Answers:
        """Answers to every combination of rows."""
        asked = self._ask(None, where, {})
        conditional = fraction and (bool(asked.text) or not self._knows_whole(population))
        estimated = self.row_moments(asked, rows, population=population, conditional=conditional)
        if fraction and not conditional:
            whole = self.whole or 1
            value, variance, centre, allowance = estimated
            estimated = Estimated(
                value / whole, variance / whole**2, centre / whole, allowance / whole**2
            )
        names = tuple(self.study.axes[place].name for place in rows)
        found = self._answers(
            kind,
            estimated,
            names,
            tuple(row.labels for row in rows.values()),
            tuple(row.edges for row in rows.values()),
            level,
            self.told_about({*rows, *mentioned([asked])}, row_count(rows)),
        )
        cut = [name for name, row in zip(names, rows.values(), strict=True) if row.cut]
        notes = found.notes + self._cut_notes(list(dict.fromkeys([*asked.prorated, *cut])))
        unit = "fraction" if fraction else self.unit
        units = tuple(self.study.axes[place].unit for place in rows)
        factor = 1.0 / (self.whole or 1) if fraction else 1.0
        errors = RowErrors(self, asked, rows, population, conditional, estimated, factor)
        return replace(
            found,
            notes=notes,
            unit=unit,
            question=asked.text,
            units=units,
            bounds=errors.ends(normal_quantile(level)),
            limits=(0.0, 1.0 if fraction else self.most(population)),
            errors=errors,
        )

    def _answers(
        self,
        kind: str,
        estimated: Estimated[Floats],
        names: tuple[str, ...],
        labels: tuple[list[str], ...],
        edges: tuple[NDArray[Any] | None, ...],
        level: float,
        told: Told,
    ) -> Answers:
        """Estimates as `Answers`; NaN if there are no reports."""
        normal_quantile(level)
        empty = not self.n
        values, variance, centres, allowance = estimated
        nothing = np.full_like(values, math.nan)
        return Answers(
            values=nothing if empty else values,
            stderr=nothing if empty else np.sqrt(np.maximum(variance, 0)),
            room=0.0 if empty else np.sqrt(np.maximum(allowance, 0.0)),
            centres=None if empty or np.array_equal(values, centres) else centres,
            n=self.n,
            kind=kind,
            axes=names,
            all_labels=labels,
            all_edges=edges,
            level=level,
            method=told.method,
            notes=("no reports", *self.notes) if empty else told.notes,
            unit=self.unit,
        )
