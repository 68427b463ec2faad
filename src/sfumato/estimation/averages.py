"""Means, variances and totals of numeric axes, over the people who answered."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import overload

import numpy as np

from sfumato.errors import QuestionError
from sfumato.estimation.answers import Answer, Answers, Combination
from sfumato.estimation.groups import groups
from sfumato.estimation.rows import Bins
from sfumato.estimation.source import Ask, Source, with_weights
from sfumato.questions.language import Question


class Averages(Source):
    """Means, variances and totals of axes whose cells are numbers; by group with `by`."""

    @overload
    def mean(
        self,
        axis: str,
        *,
        by: str,
        bins: Bins = None,
        where: Ask = None,
        level: float = 0.95,
        population: bool = False,
    ) -> Answers: ...

    @overload
    def mean(
        self, axis: str, *, where: Ask = None, level: float = 0.95, population: bool = False
    ) -> Answer: ...

    def mean(
        self,
        axis: str,
        *,
        where: Ask = None,
        level: float = 0.95,
        population: bool = False,
        by: str | None = None,
        bins: Bins = None,
    ) -> Answer | Answers:
        """The mean of an axis' numbers, among those who answered and satisfy `where`.

        Args:
            axis: An axis whose cells are numbers.
            where: Conditions on the people, as text or a dict by axis.
            level: Confidence level of the intervals.
            population: Add the variance of sampling people from a population.
            by: An axis: one answer for each of its cells, about the people in it.
            bins: With `by`, groups of its cells, as in `histogram`.

        Example:
            >>> import sfumato as sf
            >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
            >>> est = study.simulate({"age": list(range(100)) * 100}, seed=1).estimate()
            >>> print(est.mean("age"))
            49.479 ± 0.027
        """
        if by is not None or bins is not None:
            return self._each(self.mean, axis, by, bins, where, level, population)
        return self._average(axis, where, "mean", level, population)

    @overload
    def variance(
        self,
        axis: str,
        *,
        by: str,
        bins: Bins = None,
        where: Ask = None,
        level: float = 0.95,
        population: bool = False,
    ) -> Answers: ...

    @overload
    def variance(
        self, axis: str, *, where: Ask = None, level: float = 0.95, population: bool = False
    ) -> Answer: ...

    def variance(
        self,
        axis: str,
        *,
        where: Ask = None,
        level: float = 0.95,
        population: bool = False,
        by: str | None = None,
        bins: Bins = None,
    ) -> Answer | Answers:
        """The variance of an axis' numbers, among those who answered and satisfy `where`.

        It is the mean squared distance from the estimated mean, whose own error is of second order.

        Args:
            axis: An axis whose cells are numbers.
            where: Conditions on the people, as text or a dict by axis.
            level: Confidence level of the intervals.
            population: Add the variance of sampling people from a population.
            by: An axis: one answer for each of its cells, about the people in it.
            bins: With `by`, groups of its cells, as in `histogram`.

        Example:
            >>> import sfumato as sf
            >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
            >>> est = study.simulate({"age": list(range(100)) * 100}, seed=1).estimate()
            >>> print(est.variance("age"))  # the truth is 833.25
            834.7 ± 1.5
        """
        if by is not None or bins is not None:
            return self._each(self.variance, axis, by, bins, where, level, population)
        self._numbers(axis, where, "variance")  # so that an error says "variance", not "mean"
        centre = self.mean(axis, where=where).value
        return self._average(axis, where, "variance", level, population, centre)

    def _each(
        self,
        ask: Callable[..., Answer],
        axis: str,
        by: str | None,
        bins: Bins,
        where: Ask,
        level: float,
        population: bool,
    ) -> Answers:
        """The same about the people in each cell of another axis."""

        def among(who: Question) -> Answer:
            return ask(axis, where=who, level=level, population=population)

        return groups(self, self._grouped(by), among, where=where, bins=bins)

    def _average(
        self,
        axis: str,
        where: Ask,
        what: str,
        level: float,
        population: bool,
        centre: float | None = None,
    ) -> Answer:
        """The mean of an axis' numbers, or of their squared distances from a centre."""
        base, answered, top, limits = self._numbers(axis, where, what, centre)
        if base.text or answered is not base or not self._knows_whole(population):
            bottom = Combination(self, ((1.0, answered),), population)
            over = Combination(self, ((1.0, top),), population)
            found = self._finish(over.ratio(bottom, level=level, limits=limits), base)
        else:
            found = self._answer(((1.0 / (self.whole or 1), top),), base, level, population)
        return replace(found, question=_of(f"{what} of {axis}", base), limits=limits)

    @overload
    def total(
        self,
        axis: str,
        *,
        by: str,
        bins: Bins = None,
        where: Ask = None,
        level: float = 0.95,
        population: bool = False,
    ) -> Answers: ...

    @overload
    def total(
        self, axis: str, *, where: Ask = None, level: float = 0.95, population: bool = False
    ) -> Answer: ...

    def total(
        self,
        axis: str,
        *,
        where: Ask = None,
        level: float = 0.95,
        population: bool = False,
        by: str | None = None,
        bins: Bins = None,
    ) -> Answer | Answers:
        """The sum of an axis' numbers over those who answered and satisfy `where`.

        With rounding="stochastic" the numbers are people's own on average; otherwise each counts as
        the centre of its bin. An axis of one bin under `Uniform` is the private weight of Xiang et
        al. 2020, §4.3.2 (corrected: its second moment is Δ²·(w/Δ + (s² − 1)/4), which their bound
        leaves out).

        Args:
            axis: An axis whose cells are numbers.
            where: Conditions on the people, as text or a dict by axis.
            level: Confidence level of the intervals.
            population: Add the variance of sampling people from a population.
            by: An axis: one answer for each of its cells, about the people in it.
            bins: With `by`, groups of its cells, as in `histogram`.

        Example:
            >>> import sfumato as sf
            >>> spend = sf.reals(
            ...     "spend", 0, 50, bins=1, rounding="stochastic", protect=sf.Uniform(2)
            ... )
            >>> tally = sf.Study("shop", [spend]).simulate({"spend": [10, 25] * 5_000}, seed=1)
            >>> print(tally.estimate("unbiased").total("spend"))
            171,700 ± 3,200
        """
        if by is not None or bins is not None:
            return self._each(self.total, axis, by, bins, where, level, population)
        base, _, top, _ = self._numbers(axis, where, "total")
        found = self._answer(((1.0, top),), base, level, population)
        return replace(found, question=_of(f"total of {axis}", base))

    def _numbers(
        self, axis: str, where: Ask, what: str, centre: float | None = None
    ) -> tuple[Question, Question, Question, tuple[float, float]]:
        """Three questions: the condition; it and an answer on the axis; that times the numbers.

        The fourth part is the range of their average.
        """
        place = self._place(axis)
        held = self.study.axes[place]
        numbers = held.domain.numbers()
        if numbers is None:
            raise QuestionError(
                f"axis {axis!r} holds {held.domain.kind}, which have no {what}; ask for its "
                "histogram"
            )
        if centre is not None:
            numbers = (numbers - centre) ** 2
        base = self._ask(None, where, {})
        answered = np.append(np.ones(held.domain.size), np.zeros(int(held.optional)))
        limit = base.weights[place]
        answered = answered if limit is None else answered * limit
        values = answered * np.append(numbers, np.zeros(int(held.optional)))
        known = with_weights(base, place, answered) if held.optional or limit is not None else base
        left = numbers[answered[: held.domain.size] > 0]
        least = math.inf if centre is None else 0.0  # about its own mean, a variance may be smaller
        limits = (float(np.min(left, initial=least)), float(np.max(left, initial=-math.inf)))
        return base, known, with_weights(base, place, values), limits


def _of(what: str, base: Question) -> str:
    """The question in words, with its condition."""
    return what + (f" where {base.text}" if base.text else "")
