"""Unbiased answers in which every report counts for a public weight."""

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
    """Unbiased answers in which everybody counts for a public weight."""

    unit: ClassVar[str] = "weight"

    @property
    def whole(self) -> float:
        """The weight of everybody, known exactly."""
        return self.statistic.sum([None] * len(self.study.blocks))

    def _knows_whole(self, population: bool) -> bool:
        """Whether it can divide: other people would have another, and zero divides nothing."""
        return not population and self.whole > 0

    def row_moments(
        self, asked: Question, rows: dict[int, Rows], *, population: bool, conditional: bool
    ) -> tuple[Floats, Floats]:
        """As without weights; there are no shares of no weight."""
        if conditional and self.n and not self.whole:
            shape = tuple(len(row.weights) for row in rows.values())
            return np.full(shape, np.nan), np.full(shape, np.inf)
        return super().row_moments(asked, rows, population=population, conditional=conditional)

    def row_covariance(
        self, asked: Question, rows: dict[int, Rows], *, population: bool, conditional: bool
    ) -> Floats | None:
        """From the squared weights alone; with a base that varies, bands do without."""
        if population or conditional or self._squared is None:
            return None
        parts = BlockRows.of(self.study.blocks, asked.weights, rows)
        ((place, table),) = parts.tables.items()
        return row_covariance(self._squared, self._channels, parts.where, place, table, False)

    def _finish(self, answer: Answer, asked: Question) -> Answer:
        """Say that people are weighted."""
        found = super()._finish(answer, asked)
        return replace(found, notes=(*found.notes, WEIGHTED))

    def _answers(self, *parts: Any) -> Answers:
        """Say that people are weighted."""
        found = super()._answers(*parts)
        return replace(found, notes=(*found.notes, WEIGHTED), unit=self.unit)


def weighted_estimate_of(tally: WeightedTally, method: str, via: str) -> WeightedEstimate:
    """Weighted answers from a tally; see `WeightedTally.estimate`.

    Args:
        tally: The reports and their weights.
        method: Only "unbiased".
        via: How sums are found.
    """
    if method != "unbiased":
        raise StudyError(
            f"weighted answers are unbiased only, got method={method!r}; leave it out, or "
            "tally groups of equal weight and estimate each by likelihood"
        )
    return WeightedEstimate(tally.study, tally.statistic, via=via, squared=tally.squared)
