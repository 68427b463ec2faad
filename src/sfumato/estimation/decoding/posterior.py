"""Posterior mean and variance of sums over people, given the reports and a fitted prior.

For weights w over cells the answer is Σ_x w(x)·c(x), with c the true counts. Given the distribution
of cells p and the reports, c has the mean c̄(x) = p(x)·Σ_y Q(y | x)·N(y)/q(y), q = pQ, and

    Var = Σ_x w²·c̄ − Σ_y N(y)·m(y)²  +  hᵀ·B(I + K)⁻¹Bᵀ·h,

with m(y) = Σ_x p·w·Q(y | x)/q(y) the mean weight of people with output y, and h = ∂(Σ w·c̄)/∂θ,
which is w·c̄ − p·Σ_y Q(y | x)·m(y)·N(y)/q(y). The first part is the variance within outputs; the
second is the uncertainty of θ (law of total variance, to first order). It is the error of the
perturbation alone, without the sampling of people.

The estimate may rely on smoothness; its interval does not. Rough fits, in which cells vary
independently, widen it to where they would have put the answer, plus their own variance. Where that
would be wider than the interval of the unbiased estimate, which assumes nothing, and wherever cells
have no order to be smooth along, the unbiased interval is taken, extended to contain the answer
(docs/likelihood.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from sfumato.arrays import Floats
from sfumato.estimation.decoding.curvature import ProductCurvature
from sfumato.estimation.decoding.em import Decoded, decode
from sfumato.estimation.decoding.evidence import Posterior, Progress, fit_by_evidence
from sfumato.estimation.decoding.fitting import DENSE_CELLS, Fit
from sfumato.estimation.decoding.mixture import Mixture, posterior_ratio

_SAMPLES = 64
_FEW_ROWS = 8
_ENTRIES_AT_ONCE = 1 << 22
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
    _cache: dict[str, Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, mixture: Mixture, fitted: Fit) -> CountPosterior:
        """The posterior of the counts under a fit.

        Args:
            mixture: The counts of outputs, and the channels.
            fitted: The fitted prior.
        """
        ratio = posterior_ratio(mixture, fitted.mixed)
        return cls(mixture, fitted, fitted.law * mixture.backward(ratio), ratio)

    def moments(self, rows: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of Σ w·c for rows of weights, shape (rows, *cells)."""
        parts = [self._moments(part) for part in self._batches(rows)]
        values, variances = (np.concatenate(part) for part in zip(*parts, strict=True))
        return values, variances

    def _batches(self, rows: Floats) -> list[Floats]:
        """As many rows at once as memory allows."""
        at_once = max(1, _ENTRIES_AT_ONCE // max(self.counts.size, self.mixture.counts.size))
        return [rows[start : start + at_once] for start in range(0, len(rows), at_once)]

    def _moments(self, rows: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of a batch of rows."""
        flat = rows.reshape(len(rows), -1)
        values = flat @ self.counts.ravel()
        share = self.mixture.forward(self.fit.law * rows) / np.maximum(self.fit.mixed, 1e-300)
        people = self.mixture.counts.ravel()
        within = flat**2 @ self.counts.ravel() - share.reshape(len(rows), -1) ** 2 @ people
        curvature = self.fit.curvature
        if isinstance(curvature, ProductCurvature) and len(rows) > _FEW_ROWS:
            return values, np.maximum(within, 0.0) + self._sampled(curvature, flat)
        back = self.mixture.backward(share * self.ratio)
        sensitive = rows * self.counts - self.fit.law * back
        solved = curvature.solve(sensitive)
        between = np.sum((sensitive * solved).reshape(len(rows), -1), axis=1)
        return values, np.maximum(within, 0.0) + np.maximum(between, 0.0)

    def _sampled(self, curvature: ProductCurvature, flat: Floats) -> Floats:
        """Variance due to θ for many rows at once, from samples of its posterior."""
        if "draws" not in self._cache:
            draws = [self._draw(curvature, seed) for seed in range(_SAMPLES)]
            self._cache["draws"] = np.array(draws)
        variance: Floats = np.mean((flat @ self._cache["draws"].T) ** 2, axis=1)
        return variance

    def _draw(self, curvature: ProductCurvature, seed: int) -> Floats:
        """The first-order change of the mean counts under one sample of θ from its posterior."""
        theta = curvature.draw(np.random.Generator(np.random.PCG64(seed)))
        moved = self.mixture.forward(self.fit.law * theta) / np.maximum(self.fit.mixed, 1e-300)
        back = self.mixture.backward(moved * self.ratio)
        change: Floats = self.counts * theta - self.fit.law * back
        return change.ravel()


class Decoder:
    """Answers from the best fit, with variances that do not rely on the prior."""

    def __init__(self, posterior: Posterior) -> None:
        self.posterior = posterior
        self._best = CountPosterior.of(posterior.mixture, posterior.best)
        self._rough = [CountPosterior.of(posterior.mixture, f) for f in posterior.rough]

    def counts(self) -> Floats:
        """Mean counts of every cell."""
        return self._best.counts

    def moments(self, rows: Floats) -> tuple[Floats, Floats]:
        """Values, and their variances under the best fit, widened by the rough fits.

        Without rough fits, for a rough best fit on several axes or many cells, and for few people,
        only unbiased intervals have the coverage they state: variances are infinite then.
        """
        mixture = self.posterior.mixture
        many = len(mixture.shape) > 1 or self._best.counts.size > DENSE_CELLS
        few = mixture.counts.sum() < _FEW_PEOPLE
        if not self._rough or few or (self.posterior.is_rough and many):
            return without_errors(self.counts(), rows)
        value, wide = self._best.moments(rows)
        for opened in self._rough:
            theirs, spread = opened.moments(rows)
            wide = np.maximum(wide, spread + (theirs - value) ** 2)
        return value, wide


class PlainDecoder:
    """Answers from maximum likelihood without smoothing; their intervals are the unbiased ones.

    Args:
        mixture: The counts of outputs, and the channels.
        decoded: The result of EM.
    """

    def __init__(self, mixture: Mixture, decoded: Decoded) -> None:
        self.decoded = decoded
        self._counts: Floats = decoded.law * mixture.counts.sum()

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


AnyDecoder: TypeAlias = Decoder | PlainDecoder | ScaledDecoder


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
    if chosen.is_rough and not chosen.best.is_converged:
        return PlainDecoder(mixture, decode(mixture))
    return Decoder(chosen)
