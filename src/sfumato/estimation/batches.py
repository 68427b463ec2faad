"""Unbiased counts of many questions over reports of bits, from one pass over the reports.

The readings of all questions are computed together, block by block; then the terms of all of them
are summed in one pass (`collect.term_sums`); then values and variances are put together. They are
those of `UnbiasedEstimate.count`, up to rounding of the variances.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from sfumato.arrays import Floats
from sfumato.channels.base import Channel
from sfumato.collect.statistics import BitReports
from sfumato.collect.term_sums import Term, TermSums
from sfumato.estimation.answers import Answer, Combination, Moments, Terms, Told
from sfumato.estimation.intervals import Estimated
from sfumato.estimation.readings import plain_of, product_of, value_of, with_steps
from sfumato.questions.language import Question

#: Features with their coefficients, of which one takes part in each term.
Support: TypeAlias = list[tuple[int, float]]
_ENTRIES_AT_ONCE = 1 << 22  # of weights of questions
_CONSTANT: Support = [(0, 1.0)]


@dataclass(frozen=True)
class _Reading:
    """What a question reads from one block.

    Args:
        weights: Its weights.
        supports: The features of its value, its square and its squared weights.
        top: E[f² | x] of the worst cell x, with room for those who are counted.
        at: The squared weight of that cell.
    """

    weights: Floats
    supports: tuple[Support, Support, Support]
    top: float
    at: float


@dataclass(frozen=True)
class _Known:
    """An estimate whose only sum is known already.

    Args:
        source: The estimate.
        found: The sum.
    """

    source: Any
    found: Estimated[float]

    @property
    def n(self) -> int:
        """Number of reports."""
        return int(self.source.n)

    def most(self, population: bool) -> float:
        """The number of people."""
        return float(self.source.most(population))

    def told(self, terms: Terms) -> Told:
        """How questions are answered."""
        told: Told = self.source.told(terms)
        return told

    def moments(
        self, terms: Terms, *, population: bool = False, beside: Terms = ()
    ) -> Estimated[float]:
        """The sum."""
        return self.found

    @property
    def ways(self) -> Sequence[Any]:
        """The one way of reading it."""
        return (self.moments,)


def fits(channels: Sequence[Channel], weights: Sequence[Floats | None]) -> bool:
    """Whether a question can be answered here: it asks about bits alone, none behind rounding.

    Args:
        channels: The channel of every block.
        weights: The question's weights on the cells of every block.
    """
    pairs = zip(channels, weights, strict=True)
    asked = [channel for channel, w in pairs if w is not None]
    return bool(asked) and not any(c.rounds or c.layout.kind == "symbols" for c in asked)


def answers_of(
    source: Any,
    statistic: BitReports,
    channels: Sequence[Channel],
    asked: Sequence[tuple[Question, Sequence[Floats | None]]],
    *,
    level: float,
    population: bool,
    room: float,
) -> list[Answer]:
    """Counts of questions that `fits` allows.

    Args:
        source: The estimate that answers.
        statistic: The reports.
        channels: The channel of every block.
        asked: The questions, each with its weights on the cells of every block.
        level: Confidence level of the intervals.
        population: Add the variance of sampling people from a population.
        room: How many people of the worst cell an interval has room for.
    """
    readings = list(_readings(channels, [weights for _, weights in asked]))
    terms: set[Term] = set()
    for parts in readings:
        for which in range(3):
            terms.update(term for term, _ in _products(parts, which))
    sums = TermSums.of(statistic, tuple(terms))
    people = {term: int(held) for term, held in zip(sums.terms, sums.sums, strict=True)}
    answers = []
    for (question, _), parts in zip(asked, readings, strict=True):
        value, square, base = (
            sum(factor * people[term] for term, factor in _products(parts, which))
            for which in range(3)
        )
        given = [(place, part) for place, part in enumerate(parts) if part is not None]
        one = math.prod(p.top for _, p in given) - math.prod(p.at for _, p in given)
        less = value * value / statistic.count if population else base
        variance = max(square - less, one)
        if len(given) == 1:
            ((place, part),) = given
            one = float(with_steps(one, variance, channels[place], part.weights[None])[0])
        known: Moments = _Known(source, Estimated.symmetric(value, variance, room * one))
        answer = Combination(known, ((1.0, question),), population).answer(level=level)
        combination = Combination(source, ((1.0, question),), population)
        answers.append(replace(answer, combination=combination))
    return answers


def _products(parts: Sequence[_Reading | None], which: int) -> Iterator[tuple[Term, float]]:
    """The terms of a product over blocks with their coefficients, in the order of other sums."""
    supports = [_CONSTANT if part is None else part.supports[which] for part in parts]
    for chosen in itertools.product(*supports):
        yield tuple(k for k, _ in chosen), math.prod(factor for _, factor in chosen)


def _readings(
    channels: Sequence[Channel], asked: Sequence[Sequence[Floats | None]]
) -> Iterator[list[_Reading | None]]:
    """What each question reads from each block; the same weights are read once per part."""
    step = max(1, _ENTRIES_AT_ONCE // sum(c.size + c.layout.features for c in channels))
    for start in range(0, len(asked), step):
        part = asked[start : start + step]
        columns = [
            _of_block(channel, [weights[place] for weights in part])
            for place, channel in enumerate(channels)
        ]
        yield from map(list, zip(*columns, strict=True))


def _of_block(channel: Channel, given: Sequence[Floats | None]) -> list[_Reading | None]:
    """What each question reads from one block."""
    places: dict[bytes, int] = {}
    rows: list[Floats] = []
    which: list[int | None] = []
    for w in given:
        key = b"" if w is None else w.tobytes()
        if w is not None and key not in places:
            places[key] = len(rows)
            rows.append(w)
        which.append(None if w is None else places[key])
    if not rows:
        return [None] * len(given)
    table = np.array(rows)
    supports = [_supports(read(channel, table, table)) for read in (value_of, product_of, plain_of)]
    top, at = channel.peaks(table, lean=True)
    made = [
        _Reading(w, tuple(three), t, a)
        for w, three, t, a in zip(
            rows, zip(*supports, strict=True), top.tolist(), at.tolist(), strict=True
        )
    ]
    return [None if place is None else made[place] for place in which]


def _supports(coefficients: Floats) -> list[Support]:
    """The features of every row that are not zero, with their coefficients."""
    found: list[Support] = [[] for _ in coefficients]
    at, features = np.nonzero(coefficients)
    values = coefficients[at, features].tolist()
    for row, feature, value in zip(at.tolist(), features.tolist(), values, strict=True):
        found[row].append((feature, value))
    return found
