"""Unbiased answers about one or two axes, from reports on pairs of axes, with exact variances.

Given how many people drew each pair, those who drew it are a random sample of all: n times their
mean reading is unbiased. A question about two axes is read from their own pair; one about a single
axis from every pair that it is in, each in proportion to its people over the variance of its
readings where people are spread evenly. With s² the variance of the readings within a pair, the
variance of the sum is Σ n²·w²·s²/n_pair. For given people it is smaller by n·Var(question): so much
of it is the drawing of people who are all there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from sfumato.arrays import Floats
from sfumato.channels.pairs import PairLevel, PairsChannel
from sfumato.collect.block_sums import AnyStatistic
from sfumato.errors import QuestionError
from sfumato.estimation.answers import Terms
from sfumato.estimation.intervals import MORE_PEOPLE, Estimated
from sfumato.estimation.pairs.estimate import PairsAnswers, asked_of
from sfumato.estimation.rows import Rows
from sfumato.questions.language import Question
from sfumato.study.study import Study

BEYOND = (
    "each person reports on two axes, so a question about {} has no unbiased answer; use "
    'method="likelihood", which names what it assumes, or ask about two axes'
)


class UnbiasedPairs(PairsAnswers):
    """Unbiased answers from reports on pairs of axes.

    Args:
        study: The study, whose only block sends reports on pairs.
        statistic: Its reports.
        notes: What to know about the tally, for every answer.
    """

    def __init__(
        self, study: Study, statistic: AnyStatistic, *, notes: tuple[str, ...] = ()
    ) -> None:
        super().__init__(study, statistic, notes)
        (channel,) = study.channels
        if not isinstance(channel, PairsChannel):
            raise TypeError("these are not reports on pairs of axes")
        self._parts = channel.parts
        counts = statistic.profile([0], [None])
        ends = [int(start) for start in channel.starts]
        self._counts = [counts[start:end] for start, end in itertools.pairwise(ends)]
        self._people = [float(held.sum()) for held in self._counts]

    @property
    def method(self) -> str:
        """Unbiased, whatever the question."""
        return "unbiased"

    def moments(
        self, terms: Terms, *, population: bool = False, beside: Terms = ()
    ) -> Estimated[float]:
        """Estimate Σ factor·question, with the exact variance of the sum.

        Args:
            terms: Pairs of a factor and a question.
            population: Add the variance of sampling people from a population.
            beside: Not used: unbiased answers need no common decoding.
        """
        if not self.n:
            return Estimated.symmetric(math.nan, math.nan)
        readings: dict[int, Floats] = {}
        base, plain = 0.0, 0.0
        for factor, question in terms:
            weights = asked_of(question)
            if not weights:
                base += factor
            for number, read in self._readings(weights):
                readings[number] = readings.get(number, 0.0) + factor * read
        value, variance = base, 0.0
        for number, read in readings.items():
            mean, square = self._spread(number, read)
            value += mean
            variance += square / self._people[number]
        if not population and len(terms) == 1:
            plain = self._variance_of(*terms[0])
        # A few people more would add as much as others do.
        allowance = MORE_PEOPLE * variance * self.n
        total = max(variance * self.n**2 - plain * self.n, 0.0)
        return Estimated.symmetric(value * self.n, total, allowance)

    def row_moments(
        self, asked: Question, rows: dict[int, Rows], *, population: bool, conditional: bool
    ) -> Estimated[Floats]:
        """Estimate every combination of rows, one by one.

        Args:
            asked: The condition on people.
            rows: Rows of weights by axis, for the axes asked about.
            population: Add the variance of sampling people from a population.
            conditional: Return shares of the people who satisfy the condition, not counts.
        """
        shape = tuple(len(row.weights) for row in rows.values())
        if not self.n:
            return Estimated.symmetric(np.full(shape, np.nan), np.full(shape, np.nan))
        found = []
        below = self.moments(((1.0, asked),), population=population) if conditional else None
        for place in np.ndindex(*shape):
            weights = list(asked.weights)
            for (axis, row), at in zip(rows.items(), place, strict=True):
                weights[axis] = row.table[at]
            question = Question(tuple(weights), asked.prorated, asked.text)
            one = self.moments(((1.0, question),), population=population)
            if below is not None:
                share = one.value / below.value
                left = self.moments(((1.0, question), (-share, asked)), population=population)
                one = Estimated.symmetric(share, left.variance / below.value**2)
            found.append(one)
        return Estimated(*(np.array(part).reshape(shape) for part in zip(*found, strict=True)))

    def _readings(self, weights: dict[int, Floats]) -> Iterator[tuple[int, Floats]]:
        """The pairs that a question is read from, each with its part of the reading."""
        if len(weights) > 2:
            names = ", ".join(self.study.axes[axis].name for axis in sorted(weights))
            raise QuestionError(BEYOND.format(names))
        if not weights:
            return
        found: list[tuple[int, Floats, float]] = []
        for number, part in enumerate(self._parts):
            if set(weights) <= set(part.axes) and self._people[number]:
                w = on_pair(part, weights)
                spread = float(np.mean(part.inner.second_moment(w))) - float(w.mean()) ** 2
                found.append((number, part.inner.coefficients(w), max(spread, 1e-300)))
        if not found:
            raise QuestionError(
                "nobody reported on these axes yet, so there is no unbiased answer; wait for more "
                'reports, or use method="likelihood"'
            )
        sure = [self._people[number] / spread for number, _, spread in found]
        for (number, read, _), weight in zip(found, sure, strict=True):
            yield number, read * (weight / sum(sure))

    def _spread(self, number: int, read: Floats) -> tuple[float, float]:
        """The mean of a reading among the people of a pair, and its variance."""
        counts, people = self._counts[number], self._people[number]
        mean = float(counts @ read) / people
        least = people / (people - 1) if people > 1 else 1.0
        return mean, float(counts @ (read - mean) ** 2) / people * least

    def _variance_of(self, factor: float, question: Question) -> float:
        """The variance of a question's weight over people, estimated without bias."""
        weights = asked_of(question)
        squares = {axis: w**2 for axis, w in weights.items()}
        first = sum(self._spread(number, read)[0] for number, read in self._readings(weights))
        second = sum(self._spread(number, read)[0] for number, read in self._readings(squares))
        return factor**2 * max(second - first**2, 0.0)


def on_pair(part: PairLevel, weights: dict[int, Floats]) -> Floats:
    """A question's weights over the cells of a pair's grid, flat.

    Args:
        part: The pair.
        weights: By axis, one weight per cell.
    """
    grid: Floats = np.ones(())
    for axis, size in zip(part.axes, part.sizes, strict=True):
        grid = np.multiply.outer(grid, weights.get(axis, np.ones(size)))
    return grid.ravel()
