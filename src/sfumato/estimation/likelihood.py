"""Likelihood answers: the distribution of people that maximises the likelihood of the reports.

It is smoothed by a prior whose strength is chosen from the reports (docs/likelihood.md). Only the
axes that a question mentions are decoded, jointly; the result is kept for the next question.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.arrays import Floats
from sfumato.channels.pairs import many_pairs
from sfumato.channels.rounding import rounding_excess
from sfumato.checks import is_number, one_of
from sfumato.collect.block_sums import AnyStatistic
from sfumato.collect.tally import Tally
from sfumato.errors import QuestionError, TooLargeError, shown
from sfumato.estimation.answers import Terms, Told
from sfumato.estimation.decoding.cost import reason_against
from sfumato.estimation.decoding.em import decode
from sfumato.estimation.decoding.evidence import Interrupted
from sfumato.estimation.decoding.labels import FEWEST, LabelDecoder
from sfumato.estimation.decoding.mixture import Mixture, mixture_of
from sfumato.estimation.decoding.posterior import (
    AnyDecoder,
    Decoder,
    PlainDecoder,
    smoothed_decoder,
)
from sfumato.estimation.decoding.state import decoder_of, state_of
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.intervals import Estimated, around
from sfumato.estimation.pairs.estimate import PairsEstimate
from sfumato.estimation.pairs.unbiased import UnbiasedPairs
from sfumato.estimation.rows import Curve, EveryCell, Rows, outer, row_count, row_tables
from sfumato.estimation.saved import States, read_estimate, write_estimate
from sfumato.estimation.source import mentioned
from sfumato.estimation.unbiased import UnbiasedEstimate
from sfumato.metrics.uniform import UniformMetric
from sfumato.questions.language import Question
from sfumato.study.study import Study

Progress = Callable[[float], None]

MOST_ROW_ENTRIES = 1 << 30
#: Processor seconds that decoding may take by default, by `cost.cost_of`.
SECONDS = 3.0
INTERRUPTED = (
    "unbiased, since decoding was interrupted; the tally is intact: estimate again to decode it"
)
STOPPED = (
    "decoding was interrupted: this is the best fit so far, with the unbiased error; the tally is "
    "intact: estimate again to decode it"
)


class LikelihoodEstimate(Estimate):
    """Likelihood answers from one tally.

    Questions whose axes are not decoded get unbiased answers, which say why: where decoding would
    not be worth its cost, and where it was interrupted.

    Args:
        study: The study.
        statistic: Its reports.
        via: How unbiased sums are computed, which standard errors need; see `Tally.estimate`.
        smoothing: "auto", or "none" for plain maximum likelihood by EM.
        progress: Called with the share of the work done, from 0 to 1, while a grid is decoded.
        seconds: The most processor seconds that a decoding may take, as counted beforehand; None
            decodes whatever it takes, and refuses what is too large.
        saved: A file of what was decoded from these reports before.
        notes: What to know about the tally, for every answer.
    """

    def __init__(
        self,
        study: Study,
        statistic: AnyStatistic,
        *,
        via: str = "auto",
        smoothing: str = "auto",
        progress: Progress | None = None,
        seconds: float | None = None,
        saved: str | Path | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(study, statistic, notes)
        one_of(smoothing, "smoothing", ("auto", "none"))
        self.unbiased = UnbiasedEstimate(study, statistic, via=via, notes=notes)
        self.smoothing = smoothing
        self._progress = progress
        self._reports = statistic
        self._seconds = seconds
        self._decoders: dict[tuple[int, ...], Decoder | PlainDecoder | LabelDecoder] = {}
        self._stopped: dict[tuple[int, ...], PlainDecoder] = {}
        self._against: dict[tuple[int, ...], str | None] = {}
        self._saved: States = {}
        if saved is not None:
            self._saved = read_estimate(saved, study, statistic.digest(), smoothing)

    @property
    def options(self) -> tuple[Any, ...]:
        """How it decodes, and for how long."""
        return (*self.unbiased.options, self.smoothing, self._seconds)

    @property
    def decodings(self) -> int:
        """Number of sets of axes that have been decoded, now or before they were saved."""
        return len({*self._decoders, *self._saved})

    def save(self, path: str | Path) -> None:
        """Write what has been decoded to a Parquet file, for `tally.estimate(saved=path)`.

        Args:
            path: The file. It holds estimates, which are protected like the tally.
        """
        states = {axes: state_of(decoder) for axes, decoder in self._decoders.items()}
        known = {**self._saved, **states}
        write_estimate(path, self.study, self.statistic.digest(), self.smoothing, known)

    @property
    def method(self) -> str:
        """The estimator: both, if some questions would not be worth decoding for."""
        return ", ".join(dict.fromkeys(told.method for told in self._all_told()))

    @property
    def why(self) -> str:
        """Why some or all answers are unbiased or decoded in part; empty if none are."""
        notes = (note for told in self._all_told() for note in told.notes)
        return next((note for note in notes if note not in self.notes), "")

    def _all_told(self) -> list[Told]:
        """How questions about single blocks, and about all axes together, are answered."""
        blocks = [block.axes for block in self.study.blocks]
        return [self.told_about(axes) for axes in (*blocks, range(len(self.study.axes)))]

    def __repr__(self) -> str:
        plain = super().__repr__()
        return f"{plain[:-1]}: {self.why}>" if self.why else plain

    def told_about(self, axes: Iterable[int], answers: int = 1) -> Told:
        """How questions about some axes are answered, and why if that is unbiased.

        Args:
            axes: Positions of the axes that they mention.
            answers: How many sums with errors are asked for at once.
        """
        decoded = self._decoded(axes)
        why = self._reason(decoded) if self.n and decoded else None
        if why is None and self._seconds is not None and self._are_many(answers, decoded):
            why = f"unbiased, since {self._many(answers, decoded)}"
        if why is not None:
            return Told("unbiased", (why, *self.notes))
        stopped = (STOPPED,) if decoded in self._stopped else ()
        return Told("likelihood", stopped + self.notes)

    def _reason(self, axes: tuple[int, ...]) -> str | None:
        """Why some axes are not decoded; None if they are, or will be."""
        if axes in self._decoders or axes in self._stopped or axes in self._saved:
            return None
        if axes not in self._against:
            against = None
            if self._seconds is not None:
                against = reason_against(
                    self._reports,
                    [block for block in self.study.blocks if set(block.axes) & set(axes)],
                    [self._ordered(axis) for axis in axes],
                    smoothing=self.smoothing,
                    seconds=math.inf if self._are_labels(axes) else self._seconds,
                )
            self._against[axes] = against
        return self._against[axes]

    def decoded(self, axes: tuple[int, ...], answers: int = 1) -> AnyDecoder | None:
        """The decoded population on some axes; None if answers are to be unbiased.

        Args:
            axes: Positions of the axes, all of those of their blocks.
            answers: How many sums with errors are asked for at once.
        """
        if self.told_about(axes, answers).method == "unbiased":
            return None
        if self._are_many(answers, axes):
            raise TooLargeError(
                f"{self._many(answers, axes)}; ask for fewer groups with bins=..., or use "
                'method="unbiased"'
            )
        if axes in self._stopped:
            return self._stopped[axes]
        try:
            return self.decoder(axes)
        except Interrupted as stopped:
            self._stopped[axes] = PlainDecoder.of(self._mixture(axes), stopped.law)
            return self._stopped[axes]
        except KeyboardInterrupt:
            self._against[axes] = INTERRUPTED
        except TooLargeError as error:
            if self._seconds is None:
                raise
            self._against[axes] = f"unbiased, since {error}"
        return None

    def decoder(self, axes: tuple[int, ...]) -> AnyDecoder:
        """The decoded population on some axes, whatever it takes; it is decoded only once."""
        if axes not in self._decoders and self._are_labels(axes):
            self._decoders[axes] = self._label_decoder(axes)
        elif axes not in self._decoders:
            mixture = self._mixture(axes)
            ordered = [self._ordered(axis) for axis in axes]
            if axes in self._saved:
                saved = self._saved[axes]
                self._decoders[axes] = decoder_of(mixture, saved, is_ordered=any(ordered))
            elif self.smoothing == "none":
                plain = decode(mixture, progress=self._progress)
                self._decoders[axes] = PlainDecoder(mixture, plain)
            else:
                self._decoders[axes] = smoothed_decoder(mixture, ordered, progress=self._progress)
        return self._decoders[axes]

    def _are_labels(self, axes: tuple[int, ...]) -> bool:
        """Whether an axis has many labels, of which the reports are all alike."""
        if len(axes) != 1 or self.smoothing == "none" or self.study.axes[axes[0]].domain.ordered:
            return False
        block = next(block for block in self.study.blocks if axes[0] in block.axes)
        return isinstance(block.channel.metric, UniformMetric) and block.size >= FEWEST

    def _label_decoder(self, axes: tuple[int, ...]) -> LabelDecoder:
        """The decoded population of many labels, from the unbiased counts of all of them."""
        (axis,) = axes
        size, everybody = self.study.shape[axis], (None,) * len(self.study.axes)
        every = EveryCell(np.ones(size), np.arange(size), upto=False)
        found = UnbiasedEstimate(self.study, self._reports).row_moments(
            Question(everybody, (), ""),
            {axis: Rows(every, [], None)},
            population=False,
            conditional=False,
        )
        return LabelDecoder(found.value, found.variance, self._reports.count)

    def _mixture(self, axes: tuple[int, ...]) -> Mixture:
        """The statistical model of the reports about some axes."""
        blocks = self.study.blocks
        chosen = [place for place, block in enumerate(blocks) if set(block.axes) & set(axes)]
        return mixture_of(self._reports, blocks, chosen)

    def _decoded(self, mentioned: Iterable[int]) -> tuple[int, ...]:
        """The axes to decode for a question: all axes of the blocks it mentions."""
        asked = set(mentioned)
        blocks = [block for block in self.study.blocks if asked & set(block.axes)]
        return tuple(axis for block in blocks for axis in block.axes)

    def _ordered(self, axis: int) -> bool:
        """Whether an axis is smoothed: it is ordered and has no "no answer" cell."""
        held = self.study.axes[axis]
        return held.domain.ordered and not held.optional

    def moments(
        self, terms: Terms, *, population: bool = False, beside: Terms = ()
    ) -> Estimated[float]:
        """Estimate Σ factor·question, from one decoding of all axes mentioned.

        Args:
            terms: Pairs of a factor and a question.
            population: Add the variance of sampling people from a population.
            beside: Questions that must be answered from the same decoding, but are not added.
        """
        summed = self._sum(terms, beside, population)
        if summed is None:
            return self.unbiased.moments(terms, population=population)
        own, extra = summed
        if not self.n:
            return own
        found = narrower(own.value, own.variance, self.unbiased.moments(terms))
        variance = float(found.variance + extra)
        return Estimated(own.value, variance, float(found.centre), float(found.allowance))

    @property
    def ways(self) -> Sequence[Callable[..., Estimated[float]]]:
        """By the decoding, and by the unbiased estimate."""
        return (self._own_moments, self.unbiased.moments)

    def _own_moments(self, terms: Terms, *, population: bool = False) -> Estimated[float]:
        """As `moments`, with the variance of the decoding whether or not it is the smaller one."""
        summed = self._sum(terms, (), population)
        if summed is None:
            return self.unbiased.moments(terms, population=population)
        own, extra = summed
        return own._replace(variance=own.variance + extra)

    def _sum(
        self, terms: Terms, beside: Terms, population: bool
    ) -> tuple[Estimated[float], float] | None:
        """Σ factor·question by one decoding, and the variance that sampling people adds.

        None if its axes are not decoded.
        """
        if not self.n:
            return Estimated.symmetric(math.nan, math.nan), 0.0
        axes = self._decoded(mentioned([question for _, question in (*terms, *beside)]))
        if not axes:
            whole = float(sum(factor for factor, _ in terms)) * self.whole
            return Estimated.symmetric(whole, 0.0), 0.0
        decoder = self.decoded(axes)
        if decoder is None:
            return None
        row = np.zeros(tuple(self.study.shape[axis] for axis in axes))
        for factor, question in terms:
            row += factor * outer(question, axes, self.study.shape)
        value, wide = decoder.moments(row[None])
        wide, extra = self._with_people(decoder, axes, row[None], value, wide, population)
        return Estimated.symmetric(float(value[0]), float(wide[0])), float(extra[0])

    def row_moments(
        self, asked: Question, rows: dict[int, Rows], *, population: bool, conditional: bool
    ) -> Estimated[Floats]:
        """Estimate every combination of rows, from one decoded grid.

        Args:
            asked: The condition on people.
            rows: Rows of weights by axis, for the axes asked about.
            population: Add the variance of sampling people from a population.
            conditional: Return shares of the people who satisfy the condition, not counts.
        """
        shape = tuple(len(row.weights) for row in rows.values())
        if not self.n:
            return Estimated.symmetric(np.full(shape, np.nan), np.full(shape, np.nan))
        axes = self._decoded({*rows, *mentioned([asked])})
        decoder = self.decoded(axes, row_count(rows))
        if decoder is None:
            return self.unbiased.row_moments(
                asked, rows, population=population, conditional=conditional
            )
        if any(isinstance(row.weights, EveryCell) for row in rows.values()):
            return self._all_rows_moments(decoder, asked, rows, axes, population, conditional)
        base = outer(asked, axes, self.study.shape)
        total = float(np.sum(base * decoder.counts()))
        found = []
        for table in row_tables(asked, rows, axes, self.study.shape):
            share = (table.reshape(len(table), -1) @ decoder.counts().ravel()) / total
            if conditional:
                # Delta method: the error of a share is that of (count − share·base) / base.
                table = (table - np.multiply.outer(share, base)) / total
            values, wide = decoder.moments(table)
            wide, extra = self._with_people(decoder, axes, table, values, wide, population)
            found.append((share if conditional else values, wide, extra))
        values, wide, extra = (
            np.concatenate(part).reshape(shape) for part in zip(*found, strict=True)
        )
        unbiased = self.unbiased.row_moments(asked, rows, population=False, conditional=conditional)
        best = narrower(values, wide, unbiased)
        return best._replace(variance=best.variance + extra)

    def _all_rows_moments(
        self,
        decoder: AnyDecoder,
        asked: Question,
        rows: dict[int, Rows],
        axes: tuple[int, ...],
        population: bool,
        conditional: bool,
    ) -> Estimated[Floats]:
        """All cells or prefixes of a large axis, with the errors of the unbiased answers."""
        ((place, row),) = rows.items()
        every = row.weights
        if not isinstance(every, EveryCell):
            raise TypeError("only all cells of an axis are read at once")
        weights = tuple(None if d == place else w for d, w in enumerate(asked.weights))
        others = replace(asked, weights=weights)
        grid = outer(others, axes, self.study.shape) * decoder.counts()
        kept = axes.index(place)
        by_cell = grid.sum(axis=tuple(d for d in range(grid.ndim) if d != kept))
        values = every.read(by_cell)
        if conditional:
            own = asked.weights[place]
            values = values / float(np.sum(by_cell if own is None else by_cell * own))
        found = self.unbiased.row_moments(
            asked, rows, population=population, conditional=conditional
        )
        return found._replace(value=values)

    def share_ends(
        self,
        found: Estimated[Floats],
        asked: Question,
        rows: dict[int, Rows],
        z: float,
        *,
        population: bool,
    ) -> tuple[Floats, Floats]:
        """Intervals of shares: their own, or the unbiased ones, extended to contain the values.

        Args:
            found: The estimated shares.
            asked: The condition on people.
            rows: Rows of weights by axis, for the axes asked about.
            z: Standard errors each way.
            population: Add the variance of sampling people from a population.
        """
        if self._is_unbiased(asked, rows):
            return self.unbiased.share_ends(found, asked, rows, z, population=population)
        own = around(found.value, None, z * np.sqrt(np.maximum(found.variance, 0.0)))
        middle = found._replace(value=found.centre)
        low, high = self.unbiased.share_ends(middle, asked, rows, z, population=population)
        taken = found.centre != found.value
        return (
            np.where(taken, np.minimum(low, found.value), own[0]),
            np.where(taken, np.maximum(high, found.value), own[1]),
        )

    def share_moments(self, asked: Question, rows: dict[int, Rows], *, population: bool) -> Curve:
        """Rows of cumulative counts with their errors, as shares of those asked about.

        Args:
            asked: The condition on people.
            rows: Rows of weights by axis, for the axes asked about.
            population: Add the variance of sampling people from a population.
        """
        if not self._is_unbiased(asked, rows):
            found = super().share_moments(asked, rows, population=population)
            if not self._is_unbiased(asked, rows):  # as it is after an interrupt
                return found
        return self.unbiased.share_moments(asked, rows, population=population)

    def row_covariance(
        self, asked: Question, rows: dict[int, Rows], *, population: bool, conditional: bool
    ) -> Floats | None:
        """Covariance matrix of rows on one axis where they are unbiased; None otherwise.

        Args:
            asked: The condition on people.
            rows: Rows of weights by axis, for the axes asked about.
            population: Add the variance of sampling people from a population.
            conditional: Return shares of the people who satisfy the condition, not counts.
        """
        if not self._is_unbiased(asked, rows):
            return None
        return self.unbiased.row_covariance(
            asked, rows, population=population, conditional=conditional
        )

    def has_curves(self, axes: Iterable[int]) -> bool:
        """Whether the errors of cumulative counts are those of unbiased ones."""
        return self.told_about(axes).method == "unbiased"

    def _is_unbiased(self, asked: Question, rows: dict[int, Rows]) -> bool:
        """Whether rows are answered without a decoding."""
        told = self.told_about({*rows, *mentioned([asked])}, row_count(rows))
        return told.method == "unbiased"

    def _are_many(self, answers: int, axes: tuple[int, ...]) -> bool:
        """Whether there are too many answers to compute errors for."""
        cells = math.prod(self.study.shape[axis] for axis in axes)
        return answers > 1 and answers * cells > MOST_ROW_ENTRIES

    def _many(self, answers: int, axes: tuple[int, ...]) -> str:
        """That there are too many answers, in words."""
        cells = math.prod(self.study.shape[axis] for axis in axes)
        return (
            f"{answers:,} answers about {cells:,} cells are too many to compute errors for "
            f"(the limit is {MOST_ROW_ENTRIES:,} pairs)"
        )

    def grid_moments(self, grids: Floats, *, population: bool) -> Estimated[Floats]:
        """Estimate questions given as arrays over all cells.

        Args:
            grids: Weights, shape (questions, *cells of every axis).
            population: Add the variance of sampling people from a population.
        """
        if not self.n:
            return Estimated.symmetric(np.full(len(grids), np.nan), np.full(len(grids), np.nan))
        axes = tuple(range(len(self.study.axes)))
        decoder = self.decoded(axes)
        if decoder is None:
            return self.unbiased.grid_moments(grids, population=population)
        values, wide = decoder.moments(grids)
        wide, extra = self._with_people(decoder, axes, grids, values, wide, population)
        found = narrower(values, wide, self.unbiased.grid_moments(grids, population=False))
        return found._replace(variance=found.variance + extra)

    def _with_people(
        self,
        decoder: AnyDecoder,
        axes: tuple[int, ...],
        rows: Floats,
        values: Floats,
        wide: Floats,
        population: bool,
    ) -> tuple[Floats, Floats]:
        """Variances with what stochastic rounding adds to them, and what sampling people adds.

        Decoding counts people where they were rounded to. Of given people that is random, and adds
        at most `rounding_excess`; of people from a population it is a part of the sampling.
        """
        counts = decoder.counts().ravel()
        if population:
            squares = (rows.reshape(len(rows), -1) ** 2) @ counts
            return wide, np.maximum(squares - values**2 / self.n, 0.0)
        for place, axis in enumerate(axes, start=1):
            if self.study.axes[axis].domain.rounding_bits:
                last = np.moveaxis(rows, place, -1)
                excess = np.moveaxis(rounding_excess(last, last), -1, place)
                wide = wide + excess.reshape(len(rows), -1) @ counts
        return wide, np.zeros_like(values)


def narrower(values: Any, wide: Any, unbiased: Estimated[Any]) -> Estimated[Any]:
    """Likelihood values with the narrower interval: their own, or that of the unbiased ones.

    Args:
        values: One likelihood value, or an array of them.
        wide: Their variances by the decoding.
        unbiased: The unbiased estimates of the same sums.
    """
    own = wide < unbiased.variance
    variance = np.where(own, wide, unbiased.variance)
    allowance = np.where(own, 0.0, unbiased.allowance)
    return Estimated(values, variance, np.where(own, values, unbiased.value), allowance)


def estimate_of(
    tally: Tally,
    method: str,
    *,
    seconds: float,
    via: str,
    smoothing: str,
    progress: Progress | None,
    saved: str | Path | None,
) -> Estimate:
    """Estimate the population of a tally; see `Tally.estimate`.

    Args:
        tally: The reports.
        method: "auto", "likelihood" or "unbiased".
        seconds: The most processor seconds that a decoding may take, for "auto".
        via: How unbiased sums are computed.
        smoothing: "auto" or "none", for likelihood answers.
        progress: Called with the share of the work done, for likelihood answers.
        saved: A file of what was decoded from this tally before.
    """
    allowed = allowed_seconds(method, seconds, saved)
    if any(map(many_pairs, tally.study.channels)):
        if method == "unbiased":
            return UnbiasedPairs(tally.study, tally.statistic, notes=tally.notes)
        return PairsEstimate(tally.study, tally.statistic, progress=progress, notes=tally.notes)
    if method == "unbiased":
        return UnbiasedEstimate(tally.study, tally.statistic, via=via, notes=tally.notes)
    return LikelihoodEstimate(
        tally.study,
        tally.statistic,
        via=via,
        smoothing=smoothing,
        progress=progress,
        seconds=allowed,
        saved=saved,
        notes=tally.notes,
    )


def allowed_seconds(method: str, seconds: float, saved: str | Path | None) -> float | None:
    """The most processor seconds that a decoding may take; None for no limit.

    Args:
        method: "auto", "likelihood" or "unbiased".
        seconds: The limit for "auto".
        saved: A file of what was decoded before, if there is one.
    """
    one_of(method, "method", ("auto", "likelihood", "unbiased"))
    if not is_number(seconds) or seconds <= 0:
        raise QuestionError(
            "seconds must be a positive number, the most that decoding may take, got "
            f'seconds={shown(seconds)}; for no decoding use method="unbiased"'
        )
    if method == "unbiased" and saved is not None:
        raise QuestionError(
            'method="unbiased" decodes nothing, so it has no use for saved=...; leave one of them '
            "out"
        )
    return float(seconds) if method == "auto" else None
