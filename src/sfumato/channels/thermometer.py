"""The thermometer: one bit per threshold, each flipped independently (Xiang et al. 2020, §4).

Guarantee:
    E(x, x') = Σ ε_k over the thresholds k between x and x', exact and tight; equal or unequal
    steps.

Estimator:
    With b_k(x) = +1 if x <= k else −1 and s_k = (1+α_k)/(1−α_k), any weights are
    w[x] = β_0 + Σ β_k·b_k(x), β_k = (w[k] − w[k+1])/2, and f = β_0 + Σ s_k·β_k·r_k is unbiased.
    Its variance is Σ (s_k² − 1)·β_k² for every x.

The published variant also sends the last bit, which is +1 for everyone, with noise, and reads β_0
from it; that noise buys nothing, so the default leaves the bit out (a correction to the paper).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Cells, Floats, Outputs
from sfumato.channels.base import claimed_tightness
from sfumato.channels.choice import Choice, Trial
from sfumato.channels.code import Code, Value
from sfumato.channels.flips import FlippedCode, as_bits
from sfumato.channels.odds import Bound, Findings
from sfumato.errors import StudyError, shown
from sfumato.exact import exp_floor
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.distance import CappedLineMetric, LineMetric

MOST_CELLS = 1 << 16


@dataclass(frozen=True, slots=True)
class Thermometer(Choice):
    """Choose the thermometer channel; it fits every `Distance`.

    Args:
        variant: "exact" leaves out the constant last bit; "published" sends it with noise, as
            Xiang et al. do, for reproduction only.
    """

    id: ClassVar[str] = "thermometer"
    variant: Literal["exact", "published"] = "exact"

    def __post_init__(self) -> None:
        """Refuse unknown variants."""
        if not isinstance(self.variant, str) or self.variant not in ("exact", "published"):
            raise StudyError(
                f"variant must be 'exact' or 'published', got variant={shown(self.variant)}"
            )

    def misfit(self, metric: CellMetric) -> str | None:
        """It needs cells along a line, without a cap."""
        if isinstance(metric, CappedLineMetric):
            return (
                "its bits are flipped one by one, so the odds of far values grow beyond any cap; "
                "use Geometric, or leave out cap"
            )
        if not isinstance(metric, LineMetric):
            return "it needs a Distance along an ordered axis without a 'no answer' cell"
        if metric.size > MOST_CELLS:
            return f"a report would have {metric.size - 1} bits; the limit is {MOST_CELLS} cells"
        return None

    def bind(
        self, metric: CellMetric, *, precision: int = 64, resolution: int = 0
    ) -> ThermometerChannel:
        """Build the flip chances for the metric's steps.

        Args:
            metric: E between the cells.
            precision: How many bits of a random word take part.
            resolution: Bits of a value's place between two cells; 0 without stochastic rounding.
        """
        if not isinstance(metric, LineMetric) or self.misfit(metric):
            raise StudyError(f"Thermometer does not fit this axis: {self.misfit(metric)}")
        odds = [1 + step if resolution else exp_floor(step) for step in metric.steps]
        published = self.variant == "published"
        if published:
            odds.append(odds[-1])
        return ThermometerChannel(
            metric=metric,
            odds=tuple(odds),
            precision=precision,
            published=published,
            resolution=resolution,
        )

    def options(self) -> dict[str, Any]:
        """The variant, where it is not the default."""
        return {} if self.variant == "exact" else {"variant": self.variant}

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """Equal and unequal steps, both variants; behind rounding."""
        equal = LineMetric.equal(Fraction(1), 5)
        pair = LineMetric.equal(Fraction(1, 3), 2)
        unequal = LineMetric((Fraction(3, 4), Fraction(3, 2), Fraction(5, 4)))
        return (
            *(
                Trial(choice=cls(variant=variant), metric=metric)
                for variant in ("exact", "published")
                for metric in (equal, pair, unequal)
            ),
            *(Trial(choice=cls(), metric=metric, resolution=2) for metric in (equal, pair)),
            Trial(choice=cls(variant="published"), metric=equal, resolution=2),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class ThermometerChannel(FlippedCode):
    """Independent flips of a unary code; `odds[k]` bounds the odds of bit k."""

    id: ClassVar[str] = "thermometer"
    cell_type = np.int32
    metric: LineMetric
    odds: tuple[Fraction, ...]
    published: bool = False

    def __post_init__(self) -> None:
        """Derive the chance of a flip, rounded up so that the odds stay within bounds."""
        self.set_flips(self.odds, "a larger epsilon or wider cells")

    @property
    def tightness(self) -> float:  # type: ignore[override]
        """Neighbouring cells spend all of E, except for the rounding of one probability."""
        return 0.0 if self.rounds else claimed_tightness(max(self.odds), self.precision)

    def ones(self, cells: Cells, bits: slice) -> NDArray[np.bool_]:
        """One for every threshold at or above the cell.

        Args:
            cells: One cell per person.
            bits: Which bits of the code.
        """
        thresholds = np.arange(bits.start, bits.stop, dtype=np.int32)
        below: NDArray[np.bool_] = cells <= thresholds[:, None]
        return below

    def code_of(self, cell: int) -> list[bool]:
        """One for every threshold at or above the cell."""
        return [cell <= threshold for threshold in range(self.width)]

    def written(self, code: Code, point: Value) -> Value:
        """One for every threshold at or above the cell.

        Args:
            code: Where instructions are added.
            point: The cell.
        """
        return (1 << self.width) - (1 << point)

    def spread(self, weights: Floats) -> Floats:
        """β of each bit along the last axis, without the noise-free constant."""
        half = -np.diff(weights, axis=-1) / 2
        if not self.published:
            return half
        middle = (weights[..., :1] + weights[..., -1:]) / 2
        return np.concatenate([half, middle], axis=-1)

    def report_likelihood(self, outputs: Outputs) -> Floats:
        """The full likelihood of all bits together, each row scaled to have largest entry one.

        From cell x to x + 1 only bit x changes its meaning, so logarithms are sums along the code.
        """
        bits = as_bits(outputs)[:, : self.size - 1]
        total = 1 << self.precision
        odds = np.array([np.log((total - f) / f) for f in self.flip_words[: self.size - 1]])
        steps = np.where(bits, -odds, odds)
        log = np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1)
        result: Floats = np.exp(log - log.max(axis=1, keepdims=True))
        return result

    def coefficients(self, weights: Floats) -> Floats:
        """The constant and one coefficient per bit, along the last axis."""
        middle = (weights[..., :1] + weights[..., -1:]) / 2
        constant = np.zeros_like(middle) if self.published else middle
        return np.concatenate([constant, self.spread(weights) * self.scale], axis=-1)

    def gather(self, profile: Floats) -> Floats:
        """What every bit says of the cells up to its threshold against those beyond."""
        bits = profile[..., 1:] * self.scale / 2
        middle = bits[..., -1] if self.published else profile[..., 0] / 2
        result = np.zeros((*profile.shape[:-1], self.size))
        result[..., 0] += middle
        result[..., -1] += middle
        result[..., :-1] += bits[..., : self.size - 1]
        result[..., 1:] -= bits[..., : self.size - 1]
        return result

    def sampler_problems(self) -> Iterator[str]:
        """There must be a chance for every threshold, and the sampler must use it."""
        if self.width < self.size - 1:
            yield f"the channel has {self.width} chances for {self.size - 1} bits"
        else:
            yield from super().sampler_problems()

    def worst_ratio(self) -> Fraction:
        """The largest odds of a single bit: that is all that changes between neighbours."""
        total = 1 << self.precision
        sent = self.flip_words[: self.size - 1]
        return max(Fraction(total - flip, flip) for flip in sent)

    def check_structure(self, metric: CellMetric, found: Findings) -> None:
        """Neighbouring cells differ in one bit, and along a line neighbours decide.

        Args:
            metric: E between the cells.
            found: Where findings are added.
        """
        if not isinstance(metric, LineMetric):
            super().check_structure(metric, found)
            return
        total = 1 << self.precision
        for x, (step, flip) in enumerate(zip(metric.steps, self.flip_words, strict=False)):
            more, less = max(flip, total - flip), min(flip, total - flip)
            found.exact((x, x + 1), more, less, Bound(step, linear=self.rounds))
        found.by_structure(2 * (metric.size - 1))
