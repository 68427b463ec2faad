"""What the reports leave open about the people who sent them.

For weights w over cells the answer is Σ w·c, c the true counts. Given the law of cells p and the
reports, c has mean c̄ = p·backward(N/mixed) and the variance within reports is known in closed form;
p itself is uncertain by the field's curvature. Both together are the error of the perturbation
alone: nothing is added for the sampling of people, who are as they are.

The estimate may lean on smoothness; its error bar does not. Rough fits, in which cells vary by
themselves, widen it to where they would have put the answer, give or take their own error, but
never beyond the unbiased estimate's error, which assumes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sfumato.arrays import Floats
from sfumato.estimation.decoding.em import Decoded, decode
from sfumato.estimation.decoding.evidence import Posterior, Progress, choose
from sfumato.estimation.decoding.field import DENSE_CELLS, Fit
from sfumato.estimation.decoding.mixture import Mixture, posterior_ratio

_SAMPLES = 64
_FEW_ROWS = 8


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """Mean counts and the uncertainty of any weighted sum of them, under one fit."""

    mixture: Mixture
    fit: Fit
    counts: Floats
    ratio: Floats
    _cache: dict[str, Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, mixture: Mixture, fitted: Fit) -> Opened:
        """Take the step from the law of cells to the people at hand."""
        ratio = posterior_ratio(mixture, fitted.mixed)
        return cls(mixture, fitted, fitted.law * mixture.backward(ratio), ratio)

    def moments(self, rows: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of Σ w·c for every row of weights over cells."""
        flat = rows.reshape(len(rows), -1)
        values = flat @ self.counts.ravel()
        if self.counts.size <= DENSE_CELLS:
            within, sensitive = self._dense(rows)
        elif len(rows) <= _FEW_ROWS:
            pairs = [self._one(row) for row in rows]
            within = np.array([pair[0] for pair in pairs])
            sensitive = np.array([pair[1] for pair in pairs])
        else:
            within = np.array([self._within(row) for row in rows])
            return values, within + self._sampled(flat)
        coordinates = np.array([self.fit.field.coordinates(h) for h in sensitive])
        solved = self.fit.curvature.solve(coordinates, tolerance=1e-3)
        between = np.sum((coordinates * solved).reshape(len(rows), -1), axis=1)
        return values, np.maximum(within, 0.0) + np.maximum(between, 0.0)

    def _dense(self, rows: Floats) -> tuple[Floats, Floats]:
        """Variance within reports and sensitivity to θ, by matrices."""
        flat = rows.reshape(len(rows), -1)
        law, mixed = self.fit.law.ravel(), self.fit.mixed.ravel()
        share = (flat * law) @ self.mixture.matrix / np.maximum(mixed, 1e-300)
        people = self.mixture.counts.ravel()
        within = flat**2 @ self.counts.ravel() - share**2 @ people
        back = (share * self.ratio.ravel()) @ self.mixture.matrix.T
        sensitive = flat * self.counts.ravel() - law * back
        return within, sensitive.reshape(rows.shape)

    def _share(self, row: Floats) -> Floats:
        """The mean weight of the people behind each output."""
        return self.mixture.forward(self.fit.law * row) / np.maximum(self.fit.mixed, 1e-300)

    def _within(self, row: Floats) -> float:
        """Variance of the weight of people who sent the same output, summed over all."""
        share = self._share(row)
        return float(np.sum(row**2 * self.counts) - np.sum(self.mixture.counts * share**2))

    def _one(self, row: Floats) -> tuple[float, Floats]:
        """The same as `_dense` for one row, through the channels."""
        back = self.mixture.backward(self._share(row) * self.ratio)
        return self._within(row), row * self.counts - self.fit.law * back

    def _sampled(self, flat: Floats) -> Floats:
        """Variance due to θ for many rows at once, from draws of its posterior."""
        if "draws" not in self._cache:
            self._cache["draws"] = np.array([self._draw(seed) for seed in range(_SAMPLES)])
        variance: Floats = np.mean((flat @ self._cache["draws"].T) ** 2, axis=1)
        return variance

    def _draw(self, seed: int) -> Floats:
        """How the mean counts would move under one draw of θ from its posterior."""
        theta = self.fit.curvature.draw(np.random.Generator(np.random.PCG64(seed)))
        moved = self.mixture.forward(self.fit.law * theta) / np.maximum(self.fit.mixed, 1e-300)
        back = self.mixture.backward(moved * self.ratio)
        change: Floats = self.counts * theta - self.fit.law * back
        return change.ravel()


class Decoder:
    """The answer of the best fit, and an error bar that does not lean on smoothness."""

    def __init__(self, posterior: Posterior) -> None:
        self.posterior = posterior
        self._best = Opened.of(posterior.mixture, posterior.best)
        self._rough = [Opened.of(posterior.mixture, f) for f in posterior.rough]

    def counts(self) -> Floats:
        """Mean counts of every cell."""
        return self._best.counts

    def moments(self, rows: Floats) -> tuple[Floats, Floats, Floats]:
        """Values, their variances as the fit sees them, and as wide as rough fits would have it."""
        value, variance = self._best.moments(rows)
        many = len(self.posterior.mixture.shape) > 1 or self._best.counts.size > DENSE_CELLS
        if not self._rough or (self.posterior.is_rough and many):
            # Without rough fits, or with several axes or many cells and no smoothness to go by,
            # only the unbiased error covers.
            return value, variance, np.full_like(value, np.inf)
        wide = variance
        for opened in self._rough:
            theirs, spread = opened.moments(rows)
            wide = np.maximum(wide, spread + (theirs - value) ** 2)
        return value, variance, wide


class PlainDecoder:
    """The maximum of the likelihood without any smoothing; its error is the unbiased one's."""

    def __init__(self, mixture: Mixture, decoded: Decoded) -> None:
        self.decoded = decoded
        self._counts: Floats = decoded.law * mixture.counts.sum()

    def counts(self) -> Floats:
        """Counts of every cell."""
        return self._counts

    def moments(self, rows: Floats) -> tuple[Floats, Floats, Floats]:
        """Values; how far off they may be is left to the unbiased error."""
        value: Floats = rows.reshape(len(rows), -1) @ self._counts.ravel()
        return value, np.zeros_like(value), np.full_like(value, np.inf)


def smoothed(
    mixture: Mixture, ordered: Sequence[bool], *, progress: Progress | None = None
) -> Decoder | PlainDecoder:
    """The population, as smooth as the reports ask for.

    Where cells vary by themselves and the steps that can be afforded did not reach the top, the
    fit is no answer: plain EM is.
    """
    chosen = choose(mixture, ordered, progress=progress)
    if chosen.is_rough and not chosen.best.is_settled:
        return PlainDecoder(mixture, decode(mixture))
    return Decoder(chosen)


def settle(variance: Floats, wide: Floats, unbiased: Floats) -> Floats:
    """The reported variance: as wide as doubt demands, but no wider than assuming nothing."""
    result: Floats = np.maximum(variance, np.minimum(wide, unbiased))
    return result
