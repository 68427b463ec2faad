"""Unbiased answers with exact variances, without any assumption about the population.

Every answer is a sum over people of f = Π_b f_b(y_b), a product over blocks with
E[f_b | x_b] = w_b[x_b]. Its variance given the data is
Σ_x c(x)·(Π_b E[f_b² | x_b] − Π_b w_b(x_b)²): two more sums of the same kind, so the variance is
estimated from the same tally, without a grid, and is itself unbiased.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from sfumato.arrays import Floats
from sfumato.channels.base import leaning
from sfumato.checks import several
from sfumato.collect.block_sums import AnyStatistic
from sfumato.collect.statistics import BitReports, Vectors
from sfumato.collect.sums import Sums
from sfumato.collect.term_sums import Recorder, TermSums
from sfumato.errors import QuestionError
from sfumato.estimation.answers import Answer, Terms
from sfumato.estimation.batches import answers_of, fits
from sfumato.estimation.estimate import Estimate, Found
from sfumato.estimation.intervals import MORE_PEOPLE, Estimated, fieller
from sfumato.estimation.readings import (
    excess_of,
    grid_rows,
    mean_square,
    plain_of,
    product_of,
    product_rows,
    read_pairs,
    row_covariance,
    with_steps,
)
from sfumato.estimation.rows import BlockRows, Curve, EveryCell, Rows
from sfumato.estimation.source import Ask
from sfumato.questions.language import Question
from sfumato.study.study import Study

#: Most entries of a table of weights that is built at once for a block of several axes.
MOST_TABLE_ENTRIES = 1 << 22


class UnbiasedEstimate(Estimate):
    """Unbiased answers from one tally.

    Args:
        study: The study.
        statistic: Its reports.
        via: How sums are computed; see `Tally.estimate`.
        squared: For weighted reports, the same reports with squared weights.
        heaviest: The largest weight of a report.
        notes: What to know about the tally, for every answer.
    """

    def __init__(
        self,
        study: Study,
        statistic: AnyStatistic,
        *,
        via: str = "auto",
        squared: AnyStatistic | None = None,
        heaviest: float = 1.0,
        notes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(study, statistic, notes)
        self._via = via
        self._more = max(MORE_PEOPLE * mean_square(statistic, squared), heaviest**2)
        self._channels = study.channels
        self._squared = squared
        self._sums = Sums(statistic, via)
        self._squares = self._sums if squared is None else Sums(squared, via)

    @property
    def options(self) -> tuple[Any, ...]:
        """How sums are computed, and squared weights if there are any."""
        return (self._via, self._squared)

    @property
    def method(self) -> str:
        """Unbiased, whatever the question."""
        return "unbiased"

    def counts(
        self, questions: Iterable[Ask], *, level: float = 0.95, population: bool = False
    ) -> list[Answer]:
        """The answers that `count` gives to many questions, from one pass over reports of bits.

        Args:
            questions: Questions as text or by axis.
            level: Confidence level of the intervals.
            population: Add the variance of sampling people from a population.
        """
        if self._bits is None:
            return super().counts(questions, level=level, population=population)
        asked = [
            self._ask(q, None, {}) for q in several(questions, "questions", error=QuestionError)
        ]
        over = [self._over_blocks(question) for question in asked]
        together = [k for k, weights in enumerate(over) if fits(self._channels, weights)]
        found = answers_of(
            self,
            self._bits,
            self._channels,
            [(asked[k], over[k]) for k in together],
            level=level,
            population=population,
            room=self._more,
        )
        answers = dict(zip(together, found, strict=True))
        return [
            self._finish(answers[k], question)
            if k in answers
            else self.count(question.text, level=level, population=population)
            for k, question in enumerate(asked)
        ]

    @property
    def _bits(self) -> BitReports | None:
        """The reports, if some send bits and none has a weight."""
        held = self.statistic
        return held if isinstance(held, BitReports) and self._squared is None and self.n else None

    def _in_one_pass(self, ask: Callable[[Estimate], list[Found]]) -> list[Found]:
        """What questions find; reports with bits are read once for all of them.

        Args:
            ask: Asks an estimate all of them. It is called twice: first nobody is asked, which
                shows the sums that the answers need.
        """
        if self._bits is None:
            return ask(self)
        recorder = Recorder(self._bits.layouts)
        nobody: Any = recorder  # which has all that unbiased answers read
        with np.errstate(invalid="ignore", divide="ignore"):  # shares of nobody
            ask(UnbiasedEstimate(self.study, nobody, via="direct"))
        sums = TermSums.of(self._bits, tuple(recorder.terms))
        return ask(UnbiasedEstimate(self.study, sums, via="direct", notes=self.notes))

    def has_curves(self, axes: Iterable[int]) -> bool:
        """Cumulative counts have the errors of single ones."""
        return True

    def moments(
        self, terms: Terms, *, population: bool = False, beside: Terms = ()
    ) -> Estimated[float]:
        """Estimate Σ factor·question, from all values and covariances.

        Args:
            terms: Pairs of a factor and a question.
            population: Add the variance of sampling people from a population.
            beside: Not used: unbiased answers need no common decoding.
        """
        value = sum(factor * self.value_of(question) for factor, question in terms)
        variance = sum(
            f * g * self.covariance_of(q, r, population=population)
            for f, q in terms
            for g, r in terms
        )
        if len(terms) == 1 and not population and self._rounds_to_ends(terms[0][1]):
            ((factor, question),) = terms
            spread = self.covariance_of(question, question, population=True)
            variance = factor**2 * spread * self.n / (self.n - 1)
        allowance = self._more * self._one_person_of(terms, variance)
        return Estimated.symmetric(float(value), float(variance), allowance)

    def row_moments(
        self, asked: Question, rows: dict[int, Rows], *, population: bool, conditional: bool
    ) -> Estimated[Floats]:
        """Estimate every combination of rows, from one split of the tally.

        Variances of shares include the covariance with their divisor (delta method).

        Args:
            asked: The condition on people.
            rows: Rows of weights by axis, for the axes asked about.
            population: Add the variance of sampling people from a population.
            conditional: Return shares of the people who satisfy the condition, not counts.
        """
        values, variance, shared, one = self._product_rows(
            asked, rows, population, shared=conditional
        )
        if not conditional or not self.n:
            return Estimated.symmetric(values, variance, self._more * one)
        base = self.value_of(asked)
        share = values / base
        spread = self.covariance_of(asked, asked, population=population)
        relative = variance - 2 * share * shared + share**2 * spread
        return Estimated.symmetric(share, relative / base**2)

    def row_covariance(
        self, asked: Question, rows: dict[int, Rows], *, population: bool, conditional: bool
    ) -> Floats | None:
        """Covariance matrix of rows on one axis; None if it needs too large a table.

        That of shares includes the covariance with their divisor (delta method).

        Args:
            asked: The condition on people.
            rows: Rows of weights by axis, for the axes asked about.
            population: Add the variance of sampling people from a population.
            conditional: Return shares of the people who satisfy the condition, not counts.
        """
        parts = BlockRows.of(self.study.blocks, asked.weights, rows)
        ((place, table),) = parts.tables.items()
        if isinstance(table, EveryCell) or table.size > MOST_TABLE_ENTRIES:
            return None
        found = row_covariance(
            self.statistic, self._channels, parts.where, place, table, population
        )
        if not conditional:
            return found
        values, _, shared, _ = self._product_rows(asked, rows, population)
        share = values / self.value_of(asked)
        spread = self.covariance_of(asked, asked, population=population)
        crossed = np.multiply.outer(share, shared)
        return found - crossed - crossed.T + spread * np.multiply.outer(share, share)

    def share_moments(self, asked: Question, rows: dict[int, Rows], *, population: bool) -> Curve:
        """Cumulative counts and their divisor, with variances and covariances.

        Args:
            asked: The condition on people.
            rows: Rows of weights by axis, for the axes asked about.
            population: Add the variance of sampling people from a population.
        """
        known = all(w is None for w in asked.weights) and self._knows_whole(population)
        values, variance, shared, _ = self._product_rows(asked, rows, population, shared=not known)
        if known:
            return Curve(values, self.whole, variance)
        spread = self.covariance_of(asked, asked, population=population)
        return Curve(values, self.value_of(asked), variance, shared, spread)

    def share_ends(
        self,
        found: Estimated[Floats],
        asked: Question,
        rows: dict[int, Rows],
        z: float,
        *,
        population: bool,
    ) -> tuple[Floats, Floats]:
        """Intervals of shares of the people who satisfy a condition (Fieller's method).

        Args:
            found: The estimated shares.
            asked: The condition on people.
            rows: Rows of weights by axis, for the axes asked about.
            z: Standard errors each way.
            population: Add the variance of sampling people from a population.
        """
        curve = self.share_moments(asked, rows, population=population)
        share, base, spread = found.value, curve.base, curve.spread
        constant = curve.variance - 2 * share * curve.shared + share**2 * spread
        slope = 2 * (share * spread - curve.shared)
        low, high = fieller(0.0, base, constant, slope, spread, z)
        return share + low, share + high

    def _product_rows(
        self, asked: Question, rows: dict[int, Rows], population: bool, *, shared: bool = True
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Values, variances, covariances with the condition, and the variance of one person.

        By tables of bounded size.
        """
        for number, (axis, held) in enumerate(rows.items()):
            block = next(block for block in self.study.blocks if axis in block.axes)
            count = math.prod(len(rows[a].weights) for a in block.axes if a in rows)
            half = len(held.weights) // 2
            if len(block.axes) > 1 and half and count * block.size > MOST_TABLE_ENTRIES:
                halves = [
                    self._product_rows(
                        asked, {**rows, axis: held.part(part)}, population, shared=shared
                    )
                    for part in (slice(half), slice(half, None))
                ]
                first, second, third, fourth = (
                    np.concatenate(pair, axis=number) for pair in zip(*halves, strict=True)
                )
                return first, second, third, fourth
        parts = BlockRows.of(self.study.blocks, asked.weights, rows)
        found = product_rows(
            self.statistic,
            self._channels,
            parts.where,
            parts.tables,
            population,
            self._squared,
            shared=shared,
        )
        values, variance, covariance, one = (parts.arranged(part) for part in found)
        return values, variance, covariance, one

    def grid_moments(self, grids: Floats, *, population: bool) -> Estimated[Floats]:
        """Estimate questions given as arrays over all cells.

        Args:
            grids: Weights, shape (questions, *cells of every axis).
            population: Add the variance of sampling people from a population.
        """
        shaped = grids.reshape(len(grids), *(block.size for block in self.study.blocks))
        values, variance, one = grid_rows(
            self.statistic, self._channels, shaped, population, squared=self._squared
        )
        return Estimated.symmetric(values, variance, self._more * one)

    def value_of(self, question: Question) -> float:
        """The estimated sum of a question's weights over people."""
        if not self.n:
            return math.nan
        return self._sums.sum(self._vectors(question))

    def covariance_of(self, a: Question, b: Question, *, population: bool = False) -> float:
        """The estimated covariance of the estimates of two questions.

        Args:
            a: A question.
            b: Another question; the same object gives the variance.
            population: Add the covariance due to sampling people from a population.
        """
        if not self.n:
            return math.nan
        pairs = list(zip(self._over_blocks(a), self._over_blocks(b), strict=True))
        channels = self._channels
        second = self._squares.sum(read_pairs(channels, pairs, product_of))
        least = -math.inf
        if a is b:
            least = self._one_person(a) * mean_square(self.statistic, self._squared)
        if population:
            return max(second - self.value_of(a) * self.value_of(b) / self.n, least)
        base = self._squares.sum(read_pairs(channels, pairs, plain_of))
        for place, channel in enumerate(channels):
            if channel.rounds and any(part is not None for part in pairs[place]):
                vectors = read_pairs(channels, pairs, plain_of)
                vectors[place] = excess_of(channel, *pairs[place])
                base -= self._squares.sum(vectors)
        return max(second - base, least)

    def _rounds_to_ends(self, question: Question) -> bool:
        """Whether a question is about private weights alone, which are rounded to two ends.

        Their sample variance n/(n − 1)·Σ (f − mean)² is not below the variance on average, and
        exact if all weights are equal. It is closer than the bound on what rounding adds, Δ²/4 per
        person: they differ by Σ (w − mean)² and by Σ (w − Δ/2)², of which the first is smaller.
        """
        pairs = zip(self._channels, self._over_blocks(question), strict=True)
        asked = [channel for channel, w in pairs if w is not None]
        return self.n > 1 and bool(asked) and all(c.rounds and c.size == 2 for c in asked)

    def _one_person_of(self, terms: Terms, variance: float) -> float:
        """The variance that one person more has in the interval of Σ factor·question.

        It is that of the worst cell, or a bound on it, with room for steps of the sum. Questions
        that differ on one block only are one question; otherwise standard errors add.
        """
        weights = [self._over_blocks(question) for _, question in terms]
        differ = [d for d, parts in enumerate(zip(*weights, strict=True)) if not _all_equal(parts)]
        if len(differ) > 1:
            roots = [abs(factor) * math.sqrt(self._one_person(q)) for factor, q in terms]
            return sum(roots) ** 2
        asked = [d for d, w in enumerate(weights[0]) if w is not None]
        place = [*differ, *asked, 0][0]
        row = np.zeros(self._channels[place].size)
        for (factor, _), parts in zip(terms, weights, strict=True):
            w = parts[place]
            row += factor if w is None else factor * w
        blocks = [*weights[0][:place], row, *weights[0][place + 1 :]]
        one = self._worst_spread(blocks)
        if self._squared is not None or any(d != place for d in asked):
            return one
        return float(with_steps(one, variance, self._channels[place], row[None])[0])

    def _one_person(self, question: Question) -> float:
        """The variance of one person of weight one in the worst cell."""
        return self._worst_spread(self._over_blocks(question))

    def _worst_spread(self, blocks: Sequence[Floats | None]) -> float:
        """The variance of one person in the worst cell, by the weights on each block."""
        moment = square = 1.0
        for channel, w in zip(self._channels, blocks, strict=True):
            if w is not None:
                moments = channel.second_moment(w)
                worst = int(np.argmax(moments))
                moment *= float(moments[worst] + leaning(moments, w))
                square *= float(w[worst] ** 2)
        return moment - square

    def _vectors(self, question: Question) -> Vectors:
        """The coefficients of each block's output whose product a question sums over people."""
        return [
            None if w is None else channel.coefficients(w)
            for channel, w in zip(self._channels, self._over_blocks(question), strict=True)
        ]

    def _over_blocks(self, question: Question) -> list[Floats | None]:
        """A question's weights over the cells of every block."""
        return [block.weights(question.weights) for block in self.study.blocks]


def _all_equal(parts: Sequence[Floats | None]) -> bool:
    """Whether all of several weights on a block are the same."""
    first = parts[0]
    return all(
        w is first or (w is not None and first is not None and np.array_equal(w, first))
        for w in parts
    )
