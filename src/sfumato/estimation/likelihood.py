"""Answers by likelihood: the population that makes the reports likeliest, smoothed as they ask.

Only the axes that a question mentions are decoded, jointly, and kept for the next question.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

import numpy as np

from sfumato.arrays import Floats
from sfumato.collect.statistics import BitReports, SymbolCounts
from sfumato.collect.tally import Tally
from sfumato.errors import StudyError, TooLargeError
from sfumato.estimation.answers import Terms
from sfumato.estimation.decoding.em import decode
from sfumato.estimation.decoding.mixture import mixture_of
from sfumato.estimation.decoding.posterior import Decoder, PlainDecoder, settle, smoothed
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.rows import Rows, outer, row_tables
from sfumato.estimation.unbiased import UnbiasedEstimate
from sfumato.questions.language import Question
from sfumato.study.study import Study

Progress = Callable[[float], None]

MOST_ROW_ENTRIES = 1 << 30


class LikelihoodEstimate(Estimate):
    """Likelihood answers from one tally."""

    method: ClassVar[str] = "likelihood"

    def __init__(
        self,
        study: Study,
        statistic: SymbolCounts | BitReports,
        *,
        via: str = "auto",
        smoothing: str = "auto",
        progress: Progress | None = None,
    ) -> None:
        super().__init__(study, statistic)
        if smoothing not in ("auto", "none"):
            raise StudyError(f"smoothing must be 'auto' or 'none', got smoothing={smoothing!r}")
        self.unbiased = UnbiasedEstimate(study, statistic, via=via)
        self.smoothing = smoothing
        self._progress = progress
        self._decoders: dict[tuple[int, ...], Decoder | PlainDecoder] = {}

    def decoder(self, axes: tuple[int, ...]) -> Decoder | PlainDecoder:
        """The population on some axes, decoded once."""
        if axes not in self._decoders:
            blocks = self.study.blocks
            chosen = [place for place, block in enumerate(blocks) if set(block.axes) & set(axes)]
            mixture = mixture_of(self.statistic, blocks, chosen)
            if self.smoothing == "none":
                plain = decode(mixture, progress=self._progress)
                self._decoders[axes] = PlainDecoder(mixture, plain)
            else:
                ordered = [self._ordered(axis) for axis in axes]
                self._decoders[axes] = smoothed(mixture, ordered, progress=self._progress)
        return self._decoders[axes]

    def _decoded(self, mentioned: Iterable[int]) -> tuple[int, ...]:
        """The axes to decode for questions about some: all those of their blocks."""
        asked = set(mentioned)
        blocks = [block for block in self.study.blocks if asked & set(block.axes)]
        return tuple(axis for block in blocks for axis in block.axes)

    def _ordered(self, axis: int) -> bool:
        """Whether neighbouring cells of an axis are alike: not where one of them is "no answer"."""
        held = self.study.axes[axis]
        return held.domain.ordered and not held.optional

    def moments(
        self, terms: Terms, *, population: bool = False, beside: Terms = ()
    ) -> tuple[float, float]:
        """The sum of all terms as one question about the axes that any of them mentions."""
        if not self.n:
            return math.nan, math.nan
        mentioned = _mentioned([question for _, question in (*terms, *beside)])
        if not mentioned:
            return float(sum(factor for factor, _ in terms)) * self.n, 0.0
        axes = self._decoded(mentioned)
        decoder = self.decoder(axes)
        row = np.zeros(tuple(self.study.shape[axis] for axis in axes))
        for factor, question in terms:
            row += factor * outer(question, axes, self.study.shape)
        value, variance, wide = decoder.moments(row[None])
        _, unbiased = self.unbiased.moments(terms)
        settled = settle(variance, wide, np.array([unbiased]))
        if population:
            settled = settled + self._sampling(decoder, row[None], value)
        return float(value[0]), float(settled[0])

    def row_moments(
        self, asked: Question, rows: dict[int, Rows], *, population: bool, conditional: bool
    ) -> tuple[Floats, Floats]:
        """All rows as questions about one grid."""
        shape = tuple(len(row.weights) for row in rows.values())
        if not self.n:
            return np.full(shape, np.nan), np.full(shape, np.nan)
        axes = self._decoded({*rows, *_mentioned([asked])})
        self._refuse_many(math.prod(shape), axes)
        decoder = self.decoder(axes)
        base = outer(asked, axes, self.study.shape)
        total = float(np.sum(base * decoder.counts()))
        found = []
        for table in row_tables(asked, rows, axes, self.study.shape):
            share = (table.reshape(len(table), -1) @ decoder.counts().ravel()) / total
            if conditional:
                # To first order a share errs as (its count − share·base) / base does.
                table = (table - np.multiply.outer(share, base)) / total
            values, variance, wide = decoder.moments(table)
            extra = self._sampling(decoder, table, values) if population else 0.0 * values
            found.append((share if conditional else values, variance, wide, extra))
        values, variance, wide, extra = (np.concatenate(part) for part in zip(*found, strict=True))
        _, unbiased = self.unbiased.row_moments(
            asked, rows, population=False, conditional=conditional
        )
        settled = settle(variance, wide, unbiased.ravel()) + extra
        return values.reshape(shape), settled.reshape(shape)

    def _refuse_many(self, count: int, axes: tuple[int, ...]) -> None:
        """Refuse, before anything is decoded, more answers than their errors can be found for."""
        cells = math.prod(self.study.shape[axis] for axis in axes)
        if count * cells > MOST_ROW_ENTRIES:
            raise TooLargeError(
                f"{count:,} answers about {cells:,} cells are too many to find the errors of "
                f"(the limit is {MOST_ROW_ENTRIES:,} pairs); ask for fewer groups with bins=..., "
                'or use method="unbiased"'
            )

    def grid_moments(self, grids: Floats, *, population: bool) -> tuple[Floats, Floats]:
        """Questions about all axes together."""
        if not self.n:
            return np.full(len(grids), np.nan), np.full(len(grids), np.nan)
        decoder = self.decoder(tuple(range(len(self.study.axes))))
        values, variance, wide = decoder.moments(grids)
        _, unbiased = self.unbiased.grid_moments(grids, population=False)
        settled = settle(variance, wide, unbiased)
        if population:
            settled = settled + self._sampling(decoder, grids, values)
        return values, settled

    def _sampling(self, decoder: Decoder | PlainDecoder, rows: Floats, values: Floats) -> Floats:
        """The variance that drawing people from a population adds to sums over them."""
        squares = (rows.reshape(len(rows), -1) ** 2) @ decoder.counts().ravel()
        result: Floats = np.maximum(squares - values**2 / self.n, 0.0)
        return result


def _mentioned(questions: Sequence[Question]) -> tuple[int, ...]:
    """The axes that any of the questions says something about."""
    return tuple(sorted({d for q in questions for d, w in enumerate(q.weights) if w is not None}))


def estimate_of(
    tally: Tally, method: str, *, via: str, smoothing: str, progress: Progress | None
) -> Estimate:
    """The estimate of a tally by the method asked for; see `Tally.estimate`.

    Args:
        tally: The reports.
        method: "likelihood" or "unbiased".
        via: How unbiased sums are found.
        smoothing: "auto" or "none", for "likelihood".
        progress: Called with the share done, for "likelihood".
    """
    if method == "unbiased":
        return UnbiasedEstimate(tally.study, tally.statistic, via=via)
    if method == "likelihood":
        return LikelihoodEstimate(
            tally.study, tally.statistic, via=via, smoothing=smoothing, progress=progress
        )
    raise StudyError(f"method must be 'likelihood' or 'unbiased', got method={method!r}")
