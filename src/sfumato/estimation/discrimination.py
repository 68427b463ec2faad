"""How well a score tells two groups apart: the area under the ROC curve (AUC), with its error.

Estimator:
    With p and q the numbers of people of the two groups in each cell of the score, the AUC is
    pᵀKq/(P·N): P and N are the sums of p and q, and K is 1 where the first cell is the higher one
    and 1/2 where both are the same (Hanley1982). A value ρ is not rejected if pᵀ(K − ρ)q, whose
    mean is zero at the true AUC, is within z standard errors of zero. To first order its error is
    that of one linear question on both axes, with the weights (K − ρ)q for the first group and
    (K − ρ)ᵀp for the second, so its variance is that of any other question. Both sides are
    quadratic in ρ, and Fieller's method gives the interval. That a collector of such reports can
    find it is an application that Cormode2019 name.

References:
    Hanley1982, Cormode2019 (concluding remarks), Fieller1954.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sfumato.arrays import Floats
from sfumato.errors import QuestionError, TooLargeError
from sfumato.estimation.answers import UNSURE_DIVISOR, Answer
from sfumato.estimation.intervals import Estimated, normal_quantile, ratio_ends
from sfumato.estimation.rows import Rows
from sfumato.estimation.source import Ask, Source, mentioned, with_weights
from sfumato.questions.language import Question

_MOST_CELLS = 4096


class Discrimination(Source):
    """The area under the ROC curve of an ordered axis."""

    def auc(
        self,
        score: str,
        label: str,
        *,
        positive: Any,
        where: Ask = None,
        level: float = 0.95,
        population: bool = False,
    ) -> Answer:
        """The area under the ROC curve: how well a score tells one group from the others.

        It is the chance that a random person with a positive label has a higher score than a
        random other person who answered, where equal scores count as one half.

        Args:
            score: An ordered axis; high scores speak for the positive label.
            label: The axis of the groups, such as one with two categories.
            positive: A condition on that axis, such as "yes" or {"yes", "maybe"}; everybody else
                who answered is in the other group.
            where: Conditions on the people, as text or a dict by axis.
            level: Confidence level of the interval.
            population: Add the variance of sampling people from a population.

        Example:
            >>> import sfumato as sf
            >>> score = sf.integers("score", 0, 9, protect=sf.Distance(1))
            >>> bought = sf.categories("bought", ["yes", "no"], protect=sf.Uniform(2))
            >>> people = {"score": [6, 8, 5, 4, 7, 3] * 500, "bought": ["yes", "yes", "no"] * 1_000}
            >>> tally = sf.Study("shop", [score, bought]).simulate(people, seed=1)
            >>> print(tally.estimate().auc("score", "bought", positive="yes"))  # truth: 0.875
            0.847 ± 0.014
        """
        z = normal_quantile(level)
        one, other = self._groups(score, label, positive, where)
        place = self._place(score)
        table = self._score_rows(place, one)
        rows = {place: Rows(table, [], None)}
        p, q = (
            self.row_moments(group, rows, population=False, conditional=False).value
            for group in (one, other)
        )
        everyone = table.sum(axis=0)
        sizes = [
            self.moments(((1.0, with_weights(group, place, everyone)),)) for group in (one, other)
        ]
        told = self.told_about({place, *mentioned([one, other])}, len(table))
        text = f"AUC of {score} for {one.text}"
        answer = Answer(
            value=math.nan,
            stderr=math.inf,
            n=self.n,
            level=level,
            method=told.method,
            notes=told.notes,
            question=text,
            bounds=(-math.inf, math.inf),
            limits=(0.0, 1.0),
        )
        if not self.n or min(p.sum(), q.sum()) <= 0:
            return self._finish(answer, replace(one, text=text))

        def less(way: Callable[..., Estimated[float]], ratio: float) -> Estimated[float]:
            up, down = _placed(p, q, ratio)
            value = float(p @ up)
            weights = [w @ table for w in (up, down)]
            pair = (
                (1.0, with_weights(one, place, weights[0])),
                (1.0, with_weights(other, place, weights[1])),
            )
            found = way(pair, population=population)
            # The linear question has twice the value of the form it is the derivative of.
            return Estimated(value, found.variance, found.centre - value, found.allowance)

        pairs = float(p.sum() * q.sum())
        area = float(p @ _placed(p, q, 0.0)[0]) / pairs
        stderr = math.sqrt(max(less(self.moments, area).variance, 0.0)) / pairs
        unsure = any(size.value < 4 * math.sqrt(max(size.variance, 0.0)) for size in sizes)
        found = replace(
            answer,
            value=area,
            stderr=stderr,
            bounds=ratio_ends([partial(less, way) for way in self.ways], area, stderr, z),
            notes=told.notes + ((UNSURE_DIVISOR,) if unsure else ()),
        )
        return self._finish(found, replace(one, text=text))

    def _groups(
        self, score: str, label: str, positive: Any, where: Ask
    ) -> tuple[Question, Question]:
        """The questions of both groups; on an optional label, only of those who answered."""
        place, held = self._place(score), self.study.axes[self._place(label)]
        axis = self.study.axes[place]
        if score == label:
            raise QuestionError(f"score and label must be two different axes, got {score!r} twice")
        if not axis.domain.ordered:
            raise QuestionError(f"axis {score!r} has no order, so it cannot be a score")
        if axis.domain.size > _MOST_CELLS:
            raise TooLargeError(
                f"axis {score!r} has {axis.domain.size:,} cells; an AUC takes at most "
                f"{_MOST_CELLS:,}. Use wider cells"
            )
        one, base = self._ask(None, where, {label: positive}), self._ask(None, where, {})
        at = self._place(label)
        chosen, among = one.weights[at], base.weights[at]
        answered = np.append(np.ones(held.domain.size), np.zeros(int(held.optional)))
        among = answered if among is None else among * answered
        chosen = among if chosen is None else chosen * answered
        if not np.any(chosen) or not np.any(among - chosen > 0):
            raise QuestionError(
                f"positive={positive!r} must leave labels of {label!r} on both sides; choose some "
                "of them, but not all"
            )
        return with_weights(one, at, chosen), with_weights(one, at, among - chosen)

    def _score_rows(self, place: int, asked: Question) -> Floats:
        """One row per cell of the score that the condition leaves; not for "no answer"."""
        held = self.study.axes[place]
        rows = np.eye(held.domain.size, held.size)
        limit = asked.weights[place]
        return rows if limit is None else rows * limit


def _placed(p: Floats, q: Floats, ratio: float) -> tuple[Floats, Floats]:
    """(K − ρ)q and (K − ρ)ᵀp: for either group, the weight of each cell of the score."""
    below = np.cumsum(q) - q / 2
    above = p.sum() - np.cumsum(p) + p / 2
    return below - ratio * q.sum(), above - ratio * p.sum()
