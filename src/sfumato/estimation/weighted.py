"""Answers from reports with public weights: every person counts as often as their weight says.

Unbiased answers have exact variances, from the sums of squared weights. Likelihood answers decode
the weighted counts of outputs. Their weights are scaled to sum to (Σ w)²/Σ w² people, the number
whose unweighted shares would be as noisy (Kish1965), so that smoothing is as strong as so many
people allow. That they are a sample of as many people is an approximation, so their intervals are
the unbiased ones, extended to contain the values.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from sfumato.arrays import Floats
from sfumato.collect.statistics import BitReports, SymbolCounts
from sfumato.collect.weighted import WeightedTally
from sfumato.estimation.answers import Terms
from sfumato.estimation.decoding.posterior import ScaledDecoder
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.intervals import Estimated
from sfumato.estimation.likelihood import LikelihoodEstimate, Progress, allowed_seconds
from sfumato.estimation.readings import row_covariance
from sfumato.estimation.rows import BlockRows, EveryCell, Rows
from sfumato.estimation.unbiased import UnbiasedEstimate
from sfumato.questions.language import Question

WEIGHTED = "weighted: people count for their public weights"


class Weighted(Estimate):
    """What weighted estimates have in common: the whole is a weight, and answers say so."""

    unit: ClassVar[str] = "weight"

    @property
    def whole(self) -> float:
        """The total weight, known exactly."""
        return self.statistic.sum([None] * len(self.study.blocks))

    def _knows_whole(self, population: bool) -> bool:
        """Whether the total weight is a known divisor: not for other people, nor if it is zero."""
        return not population and self.whole > 0


class WeightedEstimate(Weighted, UnbiasedEstimate):
    """Unbiased answers in which every person counts with a public weight."""

    def row_moments(
        self, asked: Question, rows: dict[int, Rows], *, population: bool, conditional: bool
    ) -> Estimated[Floats]:
        """Estimate every combination of rows; shares are NaN if all weights are 0.

        Args:
            asked: The condition on people.
            rows: Rows of weights by axis, for the axes asked about.
            population: Add the variance of sampling people from a population.
            conditional: Return shares of the people who satisfy the condition, not counts.
        """
        if conditional and self.n and not self.whole:
            shape = tuple(len(row.weights) for row in rows.values())
            return Estimated.symmetric(np.full(shape, np.nan), np.full(shape, np.inf))
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
        if isinstance(table, EveryCell):
            return None
        return row_covariance(self._squared, self._channels, parts.where, place, table, False)


class WeightedLikelihoodEstimate(Weighted, LikelihoodEstimate):
    """Likelihood answers in which every person counts with a public weight.

    Args:
        tally: The reports and their weights.
        via: How unbiased sums are computed; see `Tally.estimate`.
        smoothing: "auto", or "none" for plain maximum likelihood by EM.
        progress: Called with the share of the work done, from 0 to 1, while a grid is decoded.
        seconds: The most processor seconds that a decoding may take; None for no limit.
        saved: A file of what was decoded from these reports before.
    """

    unbiased: WeightedEstimate

    def __init__(
        self,
        tally: WeightedTally,
        *,
        via: str = "auto",
        smoothing: str = "auto",
        progress: Progress | None = None,
        seconds: float | None = None,
        saved: str | Path | None = None,
    ) -> None:
        super().__init__(
            tally.study,
            tally.statistic,
            via=via,
            smoothing=smoothing,
            progress=progress,
            seconds=seconds,
            saved=saved,
            notes=(WEIGHTED,),
        )
        self.unbiased = unbiased_of(tally, via)
        squares = tally.squared.sum([None] * len(tally.study.blocks))
        self._weight = squares / self.whole if self.whole else 1.0
        self._reports = _scaled(tally.statistic, 1 / self._weight)

    def decoder(self, axes: tuple[int, ...]) -> ScaledDecoder:
        """The decoded population on some axes, in weights; it is decoded at the first call."""
        return ScaledDecoder(super().decoder(axes), self._weight)

    def moments(
        self, terms: Terms, *, population: bool = False, beside: Terms = ()
    ) -> Estimated[float]:
        """Estimate Σ factor·question, with the unbiased estimate's error.

        Args:
            terms: Pairs of a factor and a question.
            population: Add the variance of sampling people from a population.
            beside: Questions that must be answered from the same decoding, but are not added.
        """
        rough = self.unbiased.moments(terms, population=population)
        if not self.whole:
            return rough
        found = super().moments(terms, beside=beside)
        return rough._replace(value=found.value)

    def row_moments(
        self, asked: Question, rows: dict[int, Rows], *, population: bool, conditional: bool
    ) -> Estimated[Floats]:
        """Estimate every combination of rows, with the unbiased estimates' errors.

        Args:
            asked: The condition on people.
            rows: Rows of weights by axis, for the axes asked about.
            population: Add the variance of sampling people from a population.
            conditional: Return shares of the people who satisfy the condition, not counts.
        """
        rough = self.unbiased.row_moments(
            asked, rows, population=population, conditional=conditional
        )
        if not self.whole:
            return rough
        found = super().row_moments(asked, rows, population=False, conditional=conditional)
        return rough._replace(value=found.value)

    def grid_moments(self, grids: Floats, *, population: bool) -> Estimated[Floats]:
        """Estimate questions given as arrays over all cells, with the unbiased estimates' errors.

        Args:
            grids: Weights, shape (questions, *cells of every axis).
            population: Add the variance of sampling people from a population.
        """
        rough = self.unbiased.grid_moments(grids, population=population)
        if not self.whole:
            return rough
        return rough._replace(value=super().grid_moments(grids, population=False).value)


def _scaled(statistic: SymbolCounts | BitReports, factor: float) -> SymbolCounts | BitReports:
    """The same reports with all weights multiplied."""
    if isinstance(statistic, SymbolCounts):
        return replace(statistic, people=statistic.people.astype(np.float64) * factor)
    weights = np.ones(statistic.count) if statistic.weights is None else statistic.weights
    return replace(statistic, weights=weights * factor)


def unbiased_of(tally: WeightedTally, via: str) -> WeightedEstimate:
    """Unbiased answers from a weighted tally.

    Args:
        tally: The reports and their weights.
        via: How sums are computed.
    """
    return WeightedEstimate(
        tally.study,
        tally.statistic,
        via=via,
        squared=tally.squared,
        heaviest=tally.heaviest,
        notes=(WEIGHTED,),
    )


def weighted_estimate_of(
    tally: WeightedTally,
    method: str,
    *,
    seconds: float,
    via: str,
    smoothing: str,
    progress: Progress | None,
    saved: str | Path | None,
) -> Weighted:
    """Weighted answers from a tally; see `WeightedTally.estimate`.

    Args:
        tally: The reports and their weights.
        method: "unbiased", "auto" or "likelihood".
        seconds: The most processor seconds that a decoding may take, for "auto".
        via: How unbiased sums are computed.
        smoothing: "auto" or "none", for likelihood answers.
        progress: Called with the share of the work done, for likelihood answers.
        saved: A file of what was decoded from this tally before.
    """
    allowed = allowed_seconds(method, seconds, saved)
    if method == "unbiased":
        return unbiased_of(tally, via)
    return WeightedLikelihoodEstimate(
        tally, via=via, smoothing=smoothing, progress=progress, seconds=allowed, saved=saved
    )
