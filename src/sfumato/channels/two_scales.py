"""Geometric noise at two scales: now and then fine, else coarse, and the report says which.

Fine noise shows where people are to within a few cells, coarse noise on which side of the axis they
are. Together they tell less than fine noise alone: Σ_y max_x P(y | x) is the mean of both. That is
what a cell for "no answer" near the values leaves to them (`channels/extended.py`).

Guarantee:
    Which noise is used does not depend on the cell, and each keeps E: the fine one spends all of it
    between neighbours, the coarse one a fraction.

Estimator:
    For any split of the weights into w = v₁ + v₂, reading v₁/p₁ from fine reports and v₂/p₂ from
    coarse ones is unbiased, p₁ and p₂ the shares of both. For people spread evenly, the mean square
    under noise k is ‖B_k v_k‖², where B_k has three diagonals. The split with the least sum is
    found in time linear in the cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import PEOPLE_AT_ONCE, Cells, Floats
from sfumato.channels.base import FEW_RATIOS, SymbolChannel
from sfumato.channels.choice import Choice, Trial
from sfumato.channels.code import Code, Value
from sfumato.channels.geometric import CappedGeometricChannel, Geometric, GeometricChannel
from sfumato.channels.odds import Findings
from sfumato.errors import StudyError
from sfumato.exact import positive, to_plain
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.distance import CappedLineMetric, LineMetric
from sfumato.randomness.bits import BitSource
from sfumato.randomness.draws import Pick, Steps
from sfumato.randomness.tables import RowTable

_LEAST_STEP = Fraction(1, 1 << 20)  # of the coarse noise, which is inverted in doubles
_REACH = 5  # diagonals on each side of a system of three unknowns per cell


@dataclass(frozen=True, slots=True)
class TwoScales(Choice):
    """Choose geometric noise at two scales; it fits `Distance` with equal steps.

    With a chance of `share` a person adds noise with E's own step ε, and otherwise with `coarse`·ε.
    Inside `Extended` it serves axes where "no answer" is near the values.

    Args:
        share: The chance of fine noise, above 0 and below 1.
        coarse: The step of the coarse noise over that of the fine one, above 0 and below 1.

    Example:
        >>> import sfumato as sf
        >>> protect = sf.Distance(epsilon=0.5, no_answer=8)
        >>> made = sf.Extended(sf.TwoScales("1/8", "1/30"))
        >>> age = sf.integers("age", 0, 499, protect=protect, optional=True, channel=made)
        >>> study = sf.Study("ages", [age])
        >>> round(study.expected_error(10_000, "age=130..349").rows[-1].stderr)
        138
    """

    id: ClassVar[str] = "two-scales"
    share: Fraction
    coarse: Fraction

    def __post_init__(self) -> None:
        """Read both numbers exactly."""
        for name in ("share", "coarse"):
            given = getattr(self, name)
            value = positive(given, name)
            if value >= 1:
                raise StudyError(f"{name} must be below 1, got {name}={to_plain(value)}")
            object.__setattr__(self, name, value)

    @property
    def title(self) -> str:
        """What `explain` calls it."""
        return "geometric noise at two scales,"

    def misfit(self, metric: CellMetric) -> str | None:
        """It needs equal steps, the coarse ones not too short."""
        problem = Geometric().misfit(metric)
        if problem is not None or not isinstance(metric, LineMetric | CappedLineMetric):
            return problem or "it needs protect=Distance(...)"
        step = metric.equal_step
        if step is not None and step * self.coarse < _LEAST_STEP:
            return (
                "noise with coarse steps below 2^-20 cannot be inverted, got steps of "
                f"{float(step * self.coarse):.2g}; use a larger epsilon"
            )
        return None

    def bind(
        self, metric: CellMetric, *, precision: int = 64, resolution: int = 0
    ) -> TwoScalesChannel:
        """Bind both kinds of noise.

        Args:
            metric: E between the cells.
            precision: How many bits of a random word take part.
            resolution: Bits of a value's place between two cells; 0 without stochastic rounding.
        """
        self.refuse_misfit(metric, resolution)
        if not isinstance(metric, LineMetric | CappedLineMetric) or metric.equal_step is None:
            raise StudyError(f"TwoScales does not fit this axis: {self.misfit(metric)}")
        level: LineMetric | CappedLineMetric
        level = LineMetric.equal(metric.equal_step * self.coarse, metric.size)
        if isinstance(metric, CappedLineMetric) and level.largest() > metric.cap:
            level = CappedLineMetric(level, metric.cap)
        fine, rough = (Geometric().bind(line, precision=precision) for line in (metric, level))
        words = math.floor(self.share * (1 << precision))
        return TwoScalesChannel(
            metric=metric, fine=fine, rough=rough, often=words, precision=precision
        )

    def options(self) -> dict[str, Any]:
        """The share and the steps."""
        return {"share": to_plain(self.share), "coarse": to_plain(self.coarse)}

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """Lines with a cap and without; coarse noise under the cap, and beyond it."""
        one = Fraction(1)
        near = CappedLineMetric(LineMetric.equal(one / 2, 6), Fraction(4, 5))
        return (
            Trial(choice=cls(one / 2, one / 4), metric=LineMetric.equal(one, 5)),
            Trial(choice=cls(one / 5, one / 2), metric=near),
            Trial(choice=cls(one * 2 / 3, one / 10), metric=near),
        )


Noise = GeometricChannel | CappedGeometricChannel


@dataclass(frozen=True, kw_only=True, eq=False)
class TwoScalesChannel(SymbolChannel):
    """Reports of the fine noise come first, then those of the coarse one.

    Attributes:
        fine: The noise with E's own steps.
        rough: The noise with shorter steps.
        often: Of 2^precision words, those with which the fine noise is used.
    """

    id: ClassVar[str] = "two-scales"
    most_ratios: ClassVar[int] = FEW_RATIOS
    metric: LineMetric | CappedLineMetric
    fine: Noise
    rough: Noise
    often: int
    precision: int = 64
    _first: RowTable = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse a share that is none, and keep the first draw."""
        if not 0 < self.often < 1 << self.precision:
            raise StudyError(
                f"a table of 2^{self.precision} words is too coarse for this share of fine noise; "
                "use one further from 0 and 1"
            )
        object.__setattr__(self, "_first", RowTable([self._words], self.precision))

    @property
    def _words(self) -> tuple[int, int]:
        """Words with which each noise is used."""
        return self.often, (1 << self.precision) - self.often

    @property
    def tightness(self) -> float:  # type: ignore[override]
        """As the fine noise."""
        return self.fine.tightness

    @property
    def outputs(self) -> int:
        """Every cell, with fine noise and with coarse."""
        return 2 * self.size

    @cached_property
    def shares(self) -> tuple[float, float]:
        """p₁ and p₂."""
        fine, rough = self._words
        return fine / (fine + rough), rough / (fine + rough)

    def encode(self, cells: Cells, bits: BitSource) -> Cells:
        """Draw which noise counts, then both.

        Args:
            cells: One cell per person.
            bits: Where randomness comes from.
        """
        out = np.empty(len(cells), dtype=self.symbol_type())
        for start in range(0, len(cells), PEOPLE_AT_ONCE):
            part = np.asarray(cells[start : start + PEOPLE_AT_ONCE], dtype=np.int64)
            first = self._first.draw(bits, np.zeros(len(part), dtype=np.int64))
            fine, rough = (
                np.asarray(noise.encode(part, bits), dtype=np.int64)
                for noise in (self.fine, self.rough)
            )
            out[start : start + len(part)] = np.where(first == 0, fine, self.size + rough)
        return out

    def steps(self, cells: NDArray[np.int64]) -> Steps:
        """Which noise counts, then both."""
        first = yield self._pick
        fine = yield from self.fine.steps(cells)
        rough = yield from self.rough.steps(cells)
        return np.where(first == 0, fine, self.size + rough)

    @cached_property
    def _pick(self) -> Pick:
        """The first draw."""
        return Pick(self._words, self.precision)

    def device_code(self, code: Code, cell: Value) -> Value:
        """Which noise counts, then both.

        Args:
            code: Where instructions are added.
            cell: The cell.
        """
        first = code.pick([str(word) for word in self._words], self.precision)
        fine = self.fine.device_code(code, cell)
        rough = self.rough.device_code(code, cell)
        return code.select(first, rough + self.size, fine)

    def words(self) -> tuple[list[list[int]], int]:
        """Exact word counts: of the first draw, times those of each noise."""
        (fine, total), (rough, _) = self.fine.words(), self.rough.words()
        often, rest = self._words
        rows = [
            [often * word for word in near] + [rest * word for word in far]
            for near, far in zip(fine, rough, strict=True)
        ]
        return rows, (often + rest) * total

    def envelope(self) -> tuple[list[tuple[int, int]], int]:
        """Those of both kinds of noise."""
        (fine, total), (rough, _) = self.fine.envelope(), self.rough.envelope()
        pairs = zip((fine, rough), self._words, strict=True)
        found = [(w * most, w * least) for each, w in pairs for most, least in each]
        return found, sum(self._words) * total

    def likelihood(self) -> Floats:
        """P(output | cell)."""
        both = zip(self.shares, (self.fine, self.rough), strict=True)
        return np.hstack([share * noise.likelihood() for share, noise in both])

    @cached_property
    def _splitting(self) -> Splitting:
        """How weights are split."""
        noises = zip((self.fine, self.rough), self.shares, strict=True)
        return Splitting(*(_scaled_reading(noise, share) for noise, share in noises))

    def coefficients(self, weights: Floats) -> Floats:
        """The rough part of the weights read from coarse reports, the rest from fine ones."""
        smooth = self._splitting.rough(weights)
        fine = self.fine.coefficients(weights - smooth) / self.shares[0]
        rough = self.rough.coefficients(smooth) / self.shares[1]
        return np.concatenate([fine, rough], axis=-1)

    def gather(self, profile: Floats) -> Floats:
        """The transpose of `coefficients`."""
        fine = self.fine.gather(profile[..., : self.size]) / self.shares[0]
        rough = self.rough.gather(profile[..., self.size :]) / self.shares[1]
        return fine + self._splitting.back(rough - fine)

    def expect(self, table: Floats) -> Floats:
        """The means of both, by their shares."""
        fine = self.fine.expect(table[..., : self.size])
        return self.shares[0] * fine + self.shares[1] * self.rough.expect(table[..., self.size :])

    def mix(self, law: Floats) -> Floats:
        """The transpose of `expect`."""
        both = zip(self.shares, (self.fine, self.rough), strict=True)
        return np.concatenate([share * noise.mix(law) for share, noise in both], axis=-1)

    def sampler_problems(self) -> Iterator[str]:
        """Those of both kinds of noise, and whether the first draw is that shown."""
        yield from self.fine.sampler_problems()
        yield from self.rough.sampler_problems()
        yield from self._first.problems([self._words])

    def check_structure(self, metric: CellMetric, found: Findings) -> None:
        """Each kind of noise must keep E by itself.

        Args:
            metric: E between the cells.
            found: Where findings are added.
        """
        for noise in (self.fine, self.rough):
            found.merge(noise.check(metric), range(self.size))
        found.by_structure(found.pairs)


class Splitting:
    """The part v of weights w with the least ‖B₁(w − v)‖² + ‖B₂v‖², in time linear in the cells.

    With the residuals r as further unknowns it is one symmetric system with few diagonals, which is
    solved as it stands: squares of B would lose half of all digits where steps are short.

    Args:
        fine: B₁, which has three diagonals, as `NoiseLine.inverse_bands` writes them.
        rough: B₂.
    """

    def __init__(self, fine: Floats, rough: Floats) -> None:
        from scipy.linalg.lapack import dgbtrf

        self._fine, self._size = fine, fine.shape[1]
        # Unknowns of a cell side by side: r₁, r₂, v. The first row of bands is the fifth above the
        # diagonal; five more rows above are for the factor.
        bands = np.zeros((3 * _REACH + 1, 3 * self._size))
        entries = bands[_REACH:]
        entries[_REACH, 0::3] = entries[_REACH, 1::3] = 1 / math.sqrt(self._size)
        for first, (below, own, above) in enumerate((fine, rough)):
            for step, diagonal in ((1, below), (0, own), (-1, above)):
                rows = np.arange(self._size - abs(step)) + max(step, 0)
                held = 3 * rows + first, 3 * (rows - step) + 2
                for row, column in (held, held[::-1]):
                    entries[_REACH + row - column, column] = diagonal[: len(rows)]
        self._factor, self._pivots, _ = dgbtrf(bands, _REACH, _REACH)

    def rough(self, weights: Floats) -> Floats:
        """The part v of weights."""
        below, own, above = self._fine
        read = own * weights
        read[..., 1:] += below[:-1] * weights[..., :-1]
        read[..., :-1] += above[:-1] * weights[..., 1:]
        return self._solved(0, read, 2)

    def back(self, weights: Floats) -> Floats:
        """The transpose of `rough`."""
        below, own, above = self._fine
        left = self._solved(2, weights, 0)
        found: Floats = own * left
        found[..., :-1] += below[:-1] * left[..., 1:]
        found[..., 1:] += above[:-1] * left[..., :-1]
        return found

    def _solved(self, given: int, rows: Floats, asked: int) -> Floats:
        """One unknown of every cell, from the right side of one."""
        from scipy.linalg.lapack import dgbtrs

        right = np.zeros((rows.size // self._size, 3 * self._size))
        right[:, given::3] = rows.reshape(-1, self._size)
        found, _ = dgbtrs(self._factor, _REACH, _REACH, right.T, self._pivots)
        result: Floats = found.T[:, asked::3].reshape(rows.shape)
        return result


def _scaled_reading(noise: Noise, share: float) -> Floats:
    """B: the mean square of the reading of weights is ‖Bv‖², for people spread evenly.

    The fixed law of a cap moves readings by a constant, which is left out.
    """
    line = noise.noise_line()
    size = noise.size
    weight = np.sqrt(noise.mix(np.full(size, 1 / size)) / share) / line.share
    below, own, above = line.inverse_bands(size)
    return np.array([below * np.roll(weight, -1), own * weight, above * weight])
