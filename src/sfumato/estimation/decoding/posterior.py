"""Posterior mean and variance of sums over people, given the reports and a fitted prior.

For weights w over cells the answer is Σ_x w(x)·c(x), with c the true counts. Given the distribution
of cells p and the reports, c has the mean c̄(x) = p(x)·Σ_y Q(y | x)·N(y)/q(y), q = pQ, and

    Var = Σ_x w²·c̄ − Σ_y N(y)·m(y)²  +  hᵀ·H⁻¹·h,

with m(y) = Σ_x p·w·Q(y | x)/q(y) the mean weight of people with output y, and h = ∂(Σ w·c̄)/∂θ,
which is w·c̄ − p·Σ_y Q(y | x)·m(y)·N(y)/q(y). The first part is the variance within outputs; the
second is the uncertainty of θ (law of total variance, to first order), with H the curvature of its
posterior. Under a smooth prior, what smoothness may leave out is added (`doubt`). It is the error
of the perturbation alone, without the sampling of people.

Under a rough prior the unbiased interval is taken, extended to contain the answer, unless there is
one ordered axis of few cells (docs/likelihood.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
from threadpoolctl import threadpool_limits

from sfumato.arrays import Floats
from sfumato.estimation.decoding.curvature import (
    LARGE,
    DenseCurvature,
    Point,
    ProductCurvature,
)
from sfumato.estimation.decoding.doubt import Doubt
from sfumato.estimation.decoding.em import Decoded, decode
from sfumato.estimation.decoding.evidence import Posterior, Progress, fit_by_evidence
from sfumato.estimation.decoding.fitting import Fit
from sfumato.estimation.decoding.labels import LabelDecoder
from sfumato.estimation.decoding.mixture import LOOSE_CELLS, Mixture, posterior_ratio
from sfumato.estimation.decoding.solvers import times_rows
from sfumato.estimation.decoding.standing_out import StandingOut

_ENTRIES_AT_ONCE = 1 << 18
_MANY_OUTPUTS = 2  # per cell, and …
_MANY_ROWS = 4  # … one row for so many cells, from which a matrix over cells pays
_SHARED_CELLS = 1 << 11  # and of which there are at most so many …
_MOST_SHARED = 1 << 25  # … and so many entries of the likelihood
_FEW_ROWS = 16  # which are answered by products on large grids; more take the unbiased errors
_FEW_PEOPLE = 100  # below this, Laplace's method is not accurate


@dataclass(frozen=True, slots=True, eq=False)
class CountPosterior:
    """Posterior mean of the counts, and of any weighted sum of them, under one fit.

    Args:
        mixture: The counts of outputs, and the channels.
        fit: The fitted prior.
        counts: c̄, the posterior mean of the counts, of the shape of the grid.
        ratio: N/q, counts of outputs over their probabilities.
    """

    mixture: Mixture
    fit: Fit
    counts: Floats
    ratio: Floats

    @classmethod
    def of(cls, mixture: Mixture, fitted: Fit) -> CountPosterior:
        """The posterior of the counts under a fit.

        Args:
            mixture: The counts of outputs, and the channels.
            fitted: The fitted prior.
        """
        ratio = posterior_ratio(mixture, fitted.mixed)
        return cls(mixture, fitted, fitted.law * mixture.backward(ratio), ratio)

    def moments(self, rows: Floats, doubt: Doubt | None = None) -> tuple[Floats, Floats]:
        """Mean and variance of Σ w·c.

        Args:
            rows: Weights w, shape (rows, *cells).
            doubt: What smoothness may leave out.
        """
        shared = self._shared() if self._are_many(rows) else None
        size = self.counts.size if shared is not None else self.mixture.counts.size
        parts = [self._moments(part, doubt, shared) for part in self._batches(rows, size)]
        values, variances = (np.concatenate(part) for part in zip(*parts, strict=True))
        return values, variances

    def _batches(self, rows: Floats, outputs: int) -> list[Floats]:
        """As many rows at once as memory allows, which pass through so many outputs."""
        at_once = max(1, _ENTRIES_AT_ONCE // max(self.counts.size, outputs))
        return [rows[start : start + at_once] for start in range(0, len(rows), at_once)]

    def _are_many(self, rows: Floats) -> bool:
        """Whether a matrix over cells is faster than passing all rows through many outputs."""
        cells, outputs = self.counts.size, self.mixture.outputs
        few = cells <= _SHARED_CELLS and cells * outputs <= _MOST_SHARED
        return few and outputs >= _MANY_OUTPUTS * cells and len(rows) >= cells // _MANY_ROWS

    def _shared(self) -> Floats:
        """Q·diag(N/q²)·Qᵀ: how many people two cells share by their reports, over both shares."""
        root = np.sqrt(self.mixture.counts) / np.maximum(self.fit.mixed, 1e-300)
        passed = self.mixture.matrix * root.ravel()
        result: Floats = passed @ passed.T
        return result

    def _moments(
        self, rows: Floats, doubt: Doubt | None, shared: Floats | None
    ) -> tuple[Floats, Floats]:
        """Mean and variance of a batch of rows."""
        values, within, sensitive = self._sensitive(rows, shared)
        between, left = self.fit.curvature.respond(sensitive)
        variance = np.maximum(within, 0.0) + np.maximum(between, 0.0)
        if doubt is not None:
            variance += doubt.variance(rows, sensitive, left)
        return values, variance

    def _sensitive(
        self, rows: Floats, shared: Floats | None = None
    ) -> tuple[Floats, Floats, Floats]:
        """Mean, variance within outputs, and derivative h by θ, of a batch of rows."""
        flat = rows.reshape(len(rows), -1)
        weighted = self.fit.law * rows
        if shared is None:
            share = self.mixture.forward(weighted) / np.maximum(self.fit.mixed, 1e-300)
            back = self.mixture.backward(share * self.ratio)
        else:
            back = times_rows(weighted.reshape(len(rows), -1), shared).reshape(rows.shape)
        # Σ_y N(y)·m(y)² is the same sum by cells.
        within = flat**2 @ self.counts.ravel()
        within -= np.sum((weighted * back).reshape(len(rows), -1), axis=1)
        return flat @ self.counts.ravel(), within, rows * self.counts - self.fit.law * back

    def moved(self, rows: Floats, asked: StandingOut) -> Floats:
        """Means of Σ w·c, moved where reports contradict the fit; those of single cells are not.

        Args:
            rows: Weights w, shape (rows, *cells).
            asked: What reports say about the people asked about.
        """
        flat = rows.reshape(len(rows), -1)
        values: Floats = flat @ self.counts.ravel()
        several = np.count_nonzero(flat, axis=1) > 1
        moves = []
        for part in self._batches(rows[several], self.mixture.counts.size):
            _, _, sensitive = self._sensitive(part)
            _, left = self.fit.curvature.respond(sensitive)
            moves.append(asked.move(part, left))
        if moves:
            ends = flat[several].min(axis=1), flat[several].max(axis=1)
            people = self.mixture.people
            moved = values[several] + np.concatenate(moves)
            values[several] = np.clip(moved, people * ends[0], people * ends[1])
        return values


class Decoder:
    """Answers from the best fit, with variances that leave room for what smoothness leaves out."""

    def __init__(self, posterior: Posterior) -> None:
        self.posterior = replace(posterior, best=answering(posterior))
        self._best = CountPosterior.of(posterior.mixture, self.posterior.best)
        self._rivals = [CountPosterior.of(posterior.mixture, f) for f in posterior.rivals]

    @cached_property
    def _moved(self) -> Floats:
        """How far what is beside the best fit moves the counts, by its share in them, and heaps."""
        beside, people = self.posterior.beside, self.posterior.mixture.people
        share = 0.0 if beside is None else beside.share
        result: Floats = (1 - share) * (self._heaped - self._best.counts)
        if beside is not None:
            result = result + share * (beside.law * people - self._best.counts)
        return result

    @cached_property
    def _heaped(self) -> Floats:
        """The counts by the best fit, with the heaps of which reports are clear."""
        doubt, mixture = self.posterior.doubt, self.posterior.mixture
        law = None if doubt is None or doubt.heaps is None else doubt.heaps.followed
        if law is None:
            return self._best.counts
        result: Floats = law * mixture.slope(mixture.forward(law))
        return result

    @cached_property
    def _asked(self) -> StandingOut:
        """What reports say about the people asked about, beyond the best fit."""
        return StandingOut(self.posterior.mixture, self.posterior.best)

    def counts(self) -> Floats:
        """Mean counts of every cell."""
        result: Floats = self._best.counts + self._moved
        return result

    def moments(self, rows: Floats) -> tuple[Floats, Floats]:
        """Values and their variances, widened to reach those of rivals and of the best fit alone.

        For few people, and under a rough prior, only unbiased intervals have the coverage they
        state: variances are infinite then. So they are where each would take long.
        """
        posterior = self.posterior
        many = self._best.counts.size > LARGE and len(rows) > _FEW_ROWS
        slow = (posterior.beside is not None or many) and isinstance(
            self._best.fit.curvature, ProductCurvature
        )
        few = posterior.mixture.counts.sum() < _FEW_PEOPLE
        if not posterior.is_ordered:
            values = self._best.moved(rows, self._asked)
            return values, np.full_like(values, np.inf)
        if not posterior.has_errors or few or slow:
            return without_errors(self.counts(), rows)
        with threadpool_limits(1):  # products of small matrices are faster with one thread
            values, wide = self._best.moments(rows, posterior.doubt)
            for rival in self._rivals:
                theirs, spread = rival.moments(rows)
                wide = np.maximum(wide, spread + (theirs - values) ** 2)
            wide = wide + self._unsure(rows)
        moved = rows.reshape(len(rows), -1) @ self._moved.ravel()
        # On one axis `_unsure` has room for it: what is beside is one of the fits nearby.
        return values + moved, wide if posterior.nearby is not None else wide + moved**2

    def _unsure(self, rows: Floats) -> Floats:
        """The square of how far fits of nearly the same evidence would move sums, at most."""
        nearby = self.posterior.nearby
        if nearby is None:
            return np.zeros(len(rows))
        off = (nearby[1:] - nearby[0]).reshape(len(nearby) - 1, -1) * self.posterior.mixture.people
        found: Floats = np.max((rows.reshape(len(rows), -1) @ off.T) ** 2, axis=1)
        return found


def answering(posterior: Posterior) -> Fit:
    """The best fit with a curvature that answers many questions, where a matrix has room.

    Searches by products need no matrix, but every answer would take as many products as a step.

    Args:
        posterior: The fits.
    """
    best = posterior.best
    if not isinstance(best.curvature, ProductCurvature):
        return best
    small = posterior.beside is not None and best.law.size <= LOOSE_CELLS
    even = posterior.mixture.even_second is not None and best.law.size <= _SHARED_CELLS
    if not small and not even:
        return best
    at = Point(posterior.mixture, best.field, best.law, best.mixed)
    return replace(best, curvature=DenseCurvature(at))


class PlainDecoder:
    """Answers from maximum likelihood without smoothing; their intervals are the unbiased ones.

    Args:
        mixture: The counts of outputs, and the channels.
        decoded: The result of EM.
    """

    def __init__(self, mixture: Mixture, decoded: Decoded) -> None:
        self.decoded = decoded
        self._counts: Floats = decoded.law * mixture.counts.sum()

    @classmethod
    def of(cls, mixture: Mixture, law: Floats) -> PlainDecoder:
        """The decoder for a distribution over cells that was found before, or not to the end.

        Args:
            mixture: The counts of outputs, and the channels.
            law: The distribution.
        """
        return cls(mixture, Decoded(law, math.nan, 0, True, math.nan))

    def counts(self) -> Floats:
        """Counts of every cell."""
        return self._counts

    def moments(self, rows: Floats) -> tuple[Floats, Floats]:
        """Values, with infinite variances."""
        return without_errors(self._counts, rows)


@dataclass(frozen=True, slots=True, eq=False)
class ScaledDecoder:
    """A decoded population in which so many people stand for a weight; it has no errors itself.

    Args:
        decoder: The decoded population.
        weight: The weight that one of its people stands for.
    """

    decoder: AnyDecoder
    weight: float

    def counts(self) -> Floats:
        """The weight in every cell."""
        return self.weight * self.decoder.counts()

    def moments(self, rows: Floats) -> tuple[Floats, Floats]:
        """Values, with infinite variances."""
        return without_errors(self.counts(), rows)


AnyDecoder: TypeAlias = Decoder | PlainDecoder | LabelDecoder | ScaledDecoder


def without_errors(counts: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """Values of rows, with infinite variances, so that unbiased intervals are taken.

    Args:
        counts: Mean counts of every cell.
        rows: Weights, shape (rows, *cells).
    """
    value: Floats = rows.reshape(len(rows), -1) @ counts.ravel()
    return value, np.full_like(value, np.inf)


def smoothed_decoder(
    mixture: Mixture, ordered: Sequence[bool], *, progress: Progress | None = None
) -> Decoder | PlainDecoder:
    """Decode a population with the smoothing of largest evidence.

    If the best prior is a rough one and its fit did not converge within the affordable steps, plain
    EM is used instead.

    Args:
        mixture: The counts of outputs, and the channels.
        ordered: For each axis, whether it may be smoothed.
        progress: Called with the share of the work done, from 0 to 1.
    """
    chosen = fit_by_evidence(mixture, ordered, progress=progress)
    if chosen.best.field.is_rough and not chosen.best.is_converged:
        return PlainDecoder(mixture, decode(mixture))
    return Decoder(chosen)
