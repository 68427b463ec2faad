"""Answers from reports on pairs of axes: by likelihood, for any number of axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from sfumato.arrays import Floats
from sfumato.channels.pairs import PairsChannel
from sfumato.collect.block_sums import AnyStatistic
from sfumato.errors import QuestionError
from sfumato.estimation.answers import Terms, Told
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.intervals import Estimated, around
from sfumato.estimation.pairs.model import Model, Slopes, model_of
from sfumato.estimation.rows import Rows
from sfumato.questions.language import Question
from sfumato.study.study import Study

Progress = Callable[[float], None]

#: What answers about three axes or more rest on.
ASSUMED = (
    "each person reported on two axes: three or more are read as if axes interacted in pairs only, "
    "and the error is that of the perturbation alone"
)
_ROWS_AT_ONCE = 512


class PairsAnswers(Estimate):
    """What unbiased and likelihood answers from reports on pairs have in common."""

    def share_ends(
        self,
        found: Estimated[Floats],
        asked: Question,
        rows: dict[int, Rows],
        z: float,
        *,
        population: bool,
    ) -> tuple[Floats, Floats]:
        """Intervals of shares, of z standard errors each way.

        Args:
            found: The estimated shares.
            asked: The condition on people.
            rows: Rows of weights by axis, for the axes asked about.
            z: Standard errors each way.
            population: Whether people are a sample.
        """
        low, high = around(found.value, None, z * np.sqrt(np.maximum(found.variance, 0.0)))
        return low, high

    def grid_moments(self, grids: Floats, *, population: bool) -> Estimated[Floats]:
        """Refused: reports are on two axes, and these questions on all.

        Args:
            grids: Weights, shape (questions, *cells of every axis).
            population: Whether people are a sample.
        """
        raise QuestionError(
            "each person reports on two axes, so a workload over the cells of all axes cannot be "
            "answered; ask with count(), marginals() or heatmap()"
        )


class PairsEstimate(PairsAnswers):
    """Likelihood answers from reports on pairs of axes.

    One population is found that all pairs agree on: a distribution along every axis, and an
    interaction of every two.

    Args:
        study: The study, whose only block sends reports on pairs.
        statistic: Its reports.
        progress: Called with the share of the work done, while the population is found.
        notes: What to know about the tally, for every answer.
    """

    def __init__(
        self,
        study: Study,
        statistic: AnyStatistic,
        *,
        progress: Progress | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(study, statistic, notes)
        self._progress = progress
        self._model: Model | None = None

    @property
    def method(self) -> str:
        """By likelihood, whatever the question."""
        return "likelihood"

    @property
    def decodings(self) -> int:
        """All axes are decoded together, once."""
        return int(self._model is not None)

    @property
    def model(self) -> Model:
        """The likeliest population; it is found only once."""
        if self._model is None:
            (channel,) = self.study.channels
            if not isinstance(channel, PairsChannel):
                raise TypeError("these are not reports on pairs of axes")
            counts = self.statistic.profile([0], [None])
            self._model = model_of(self.study.axes, channel, counts, self._progress)
        return self._model

    def told_about(self, axes: Iterable[int], answers: int = 1) -> Told:
        """How questions about some axes are answered, and what that rests on.

        Args:
            axes: Positions of the axes that they mention.
            answers: How many sums with errors are asked for at once.
        """
        assumed = (ASSUMED,) if len(set(axes)) > 2 and self.n else ()
        return Told(self.method, assumed + self.notes)

    def told(self, terms: Terms) -> Told:
        """The same for a sum of questions, each of which may be about other axes.

        Args:
            terms: Pairs of a factor and a question.
        """
        widest = max((asked_of(question) for _, question in terms), key=len, default={})
        return self.told_about(widest)

    def moments(
        self, terms: Terms, *, population: bool = False, beside: Terms = ()
    ) -> Estimated[float]:
        """Estimate Σ factor·question; errors that questions share are counted once.

        Args:
            terms: Pairs of a factor and a question.
            population: Whether people are a sample, which the errors here always allow for.
            beside: Not used: all questions are answered from one population.
        """
        if not self.n:
            return Estimated.symmetric(math.nan, math.nan)
        value = 0.0
        total: Slopes = {}
        for factor, question in terms:
            weights = asked_of(question)
            if not weights:
                value += factor
                continue
            found, slopes = self.model.rows({axis: w[None] for axis, w in weights.items()})
            value += factor * float(found[0])
            _add(total, slopes, factor)
        variance = float(_variance(total)[0]) if total else 0.0
        return Estimated.symmetric(value * self.n, variance * self.n**2)

    def row_moments(
        self, asked: Question, rows: dict[int, Rows], *, population: bool, conditional: bool
    ) -> Estimated[Floats]:
        """Estimate every combination of rows.

        Args:
            asked: The condition on people.
            rows: Rows of weights by axis, for the axes asked about.
            population: Whether people are a sample, which the errors here always allow for.
            conditional: Return shares of the people who satisfy the condition, not counts.
        """
        shape = tuple(len(row.weights) for row in rows.values())
        if not self.n:
            return Estimated.symmetric(np.full(shape, np.nan), np.full(shape, np.nan))
        base, under = 1.0, None
        if conditional:
            where = asked_of(asked)
            found, under = self.model.rows({axis: w[None] for axis, w in where.items()})
            base = float(found[0])
        others = {axis: w for axis, w in asked_of(asked).items() if axis not in rows}
        values, variances = np.empty(math.prod(shape)), np.empty(math.prod(shape))
        for start in range(0, len(values), _ROWS_AT_ONCE):
            part = np.arange(start, min(start + _ROWS_AT_ONCE, len(values)))
            places = dict(zip(rows, np.unravel_index(part, shape), strict=True))
            weights = {axis: rows[axis].table[place] for axis, place in places.items()}
            weights |= {axis: np.broadcast_to(w, (len(part), len(w))) for axis, w in others.items()}
            found, slopes = self.model.rows(weights)
            if under is not None:  # the delta method: of count − share·base, over the base
                found = found / base
                _add(slopes, {key: np.outer(found, row[0]) for key, row in under.items()}, -1.0)
                slopes = {key: row / base for key, row in slopes.items()}
            values[part], variances[part] = found, _variance(slopes)
        scale = 1.0 if conditional else float(self.n)
        return Estimated.symmetric(
            values.reshape(shape) * scale, variances.reshape(shape) * scale**2
        )


def asked_of(question: Question) -> dict[int, Floats]:
    """The weights of a question, by the axes that it mentions."""
    return {axis: w for axis, w in enumerate(question.weights) if w is not None}


def _add(total: Slopes, slopes: Mapping[tuple[int, ...], Floats], factor: float) -> None:
    """Add a multiple of slopes."""
    for key, row in slopes.items():
        total[key] = total[key] + factor * row if key in total else factor * row


def _variance(slopes: Mapping[tuple[int, ...], Any]) -> Floats:
    """The variance of every row: errors are independent and have variance one."""
    found: Floats = sum(np.sum(row**2, axis=1) for row in slopes.values())
    return found
