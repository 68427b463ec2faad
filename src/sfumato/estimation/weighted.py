"""Unbiased estimates from reports with public weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from sfumato.arrays import Floats
from sfumato.collect.weighted import WeightedTally
from sfumato.errors import StudyError
from sfumato.estimation.answers import Answer, Answers
from sfumato.estimation.readings import row_covariance
from sfumato.estimation.rows import BlockRows, Rows
from sfumato.estimation.unbiased import UnbiasedEstimate
from sfumato.questions.language import Question

WEIGHTED = "weighted: people count for their public weights"


class WeightedEstimate(UnbiasedEstimate):
    """Unbiased answers in which every person counts with a public weight."""

    unit: ClassVar[str] = "weight"

    @property
    def whole(self) -> float:
        """The total weight, known exactly."""
        return self.statistic.sum([None] * len(self.study.blocks))

    def _knows_whole(self, population: bool) -> bool:
        """Whether the total weight is a known divisor: not for other people, nor if it is zero."""
        return not population and self.whole > 0

    def row_moments(
        self, asked: Question, rows: dict[int, Rows], *, population: bool, conditional: bool
    ) -> tuple[Floats, Floats]:
        """Values and variances of every combination of rows; shares are NaN if all weights are 0.

        Args:
            asked: The condition on people.
            rows: Rows of weights by axis, for the axes asked about.
            population: Add the variance of sampling people from a population.
            conditional: Return shares of the people who satisfy the condition, not counts.
        """
        if conditional and self.n and not self.whole:
            shape = tuple(len(row.weights) for row in rows.values())
            return np.full(shape, np.nan), np.full(shape, np.inf)
        return super().row_moments(asked, rows, population=population, conditional=conditional)

    def row_covariance(
        self, asked: Question, rows: dict[int, Rows], *, population: bool, conditional: bool
    ) -> Floats | None:
        """Covariance matrix of rows on one axis; None for shares and for populations.

        Args:
            asked: The condition on people.
            rows: Rows of weights by axis, for the axes asked about.
            population: Add the variance of sampling people from a population.
            conditional: Return shares of the people who satisfy the condition, not counts.
        """
        if population or conditional or self._squared is None:
            return None
        parts = BlockRows.of(self.study.blocks, asked.weights, rows)
        ((place, table),) = parts.tables.items()
        return row_covariance(self._squared, self._channels, parts.where, place, table, False)

    def _finish(self, answer: Answer, asked: Question) -> Answer:
        """Add the note that people are weighted."""
        found = super()._finish(answer, asked)
        return replace(found, notes=(*found.notes, WEIGHTED))

    def _answers(self, *parts: Any) -> Answers:
        """Add the note that people are weighted."""
        found = super()._answers(*parts)
        return replace(found, notes=(*found.notes, WEIGHTED), unit=self.unit)


def weighted_estimate_of(tally: WeightedTally, method: str, via: str) -> WeightedEstimate:
    """Weighted answers from a tally; see `WeightedTally.estimate`.

    Args:
        tally: The reports and their weights.
        method: Only "unbiased".
        via: How sums are computed.
    """
    if method != "unbiased":
        raise StudyError(
            f"weighted answers are unbiased only, got method={method!r}; leave it out, or "
            "tally groups of equal weight and estimate each by likelihood"
        )
    return WeightedEstimate(tally.study, tally.statistic, via=via, squared=tally.squared)
