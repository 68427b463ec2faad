"""Square Wave: values near the true one are equally likely, and all others less likely.

For m cells the outputs are the places −b .. m−1+b. A place within b of the true cell has e^ε times
the chance of one further away. Reports stay near the truth, which suits a population that changes
slowly along the axis; likelihood answers (`estimate()`) make the most of them.

Guarantee:
    E(x, x') = ε for every pair, exact for the integer table, and tight.

Estimator:
    Weighted least squares (`channels/least_squares.py`), unbiased. No m or b makes the cells
    indistinguishable: the row sums of Q are 1, and without its constant part Qᵀ is a full
    convolution, which has no null vector.

References:
    Li2020, on the choice of b: with b = m·(εe^ε − e^ε + 1)/(2e^ε(e^ε − 1 − ε)) the window of 2b + 1
    outputs carries the most information by their bound; rounded down here, that window is the
    odd number nearest to the ideal width.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import PEOPLE_AT_ONCE, Cells, Floats
from sfumato.channels.base import claimed_tightness, refuse_dense
from sfumato.channels.choice import Choice, Trial, needs_uniform, uniform_fitted, uniform_trials
from sfumato.channels.code import Code, Value
from sfumato.channels.least_squares import MOST_READ_CELLS, LeastSquaresChannel
from sfumato.errors import StudyError, shown
from sfumato.exact import exp_bounds, exp_floor
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import BitSource
from sfumato.randomness.draws import Pick, Steps
from sfumato.randomness.tables import leading

_NEVER_BEYOND = 64  # e^64 against 1: no window pays, and exact numbers stay short


@dataclass(frozen=True, slots=True)
class SquareWave(Choice):
    """Choose Square Wave; it fits `Uniform` on an ordered axis of up to 2048 cells.

    Args:
        width: b, how many places on each side of the true cell count as near: 0 or more, below
            the number of cells. By default what the paper recommends for this ε and axis.

    Example:
        >>> import sfumato as sf
        >>> axis = sf.integers("age", 0, 99, protect=sf.Uniform(1), channel=sf.SquareWave())
        >>> study = sf.Study("ages", [axis])
        >>> study.channels[0].width, study.blocks[0].channel.outputs
        (25, 150)
        >>> tally = study.simulate({"age": [30] * 6_000 + [50] * 4_000}, seed=1)
        >>> answer = tally.estimate("unbiased").count({"age": (20, 40)})
        >>> answer.low < 6_000 < answer.high
        True
    """

    id: ClassVar[str] = "square-wave"
    width: int | None = None

    def __post_init__(self) -> None:
        """A width counts places."""
        if self.width is None:
            return
        if isinstance(self.width, bool) or not isinstance(self.width, int) or self.width < 0:
            raise StudyError(
                f"width must be a whole number of cells, 0 or more, got width={shown(self.width)}; "
                "leave it out for the recommended one"
            )

    def misfit(self, metric: CellMetric) -> str | None:
        """It needs one ε for all pairs, and answers are read from a matrix."""
        if not isinstance(metric, UniformMetric):
            return needs_uniform(metric)
        if metric.size > MOST_READ_CELLS:
            return (
                f"reading its answers takes a matrix of {metric.size}² entries, "
                f"{metric.size**2 * 8 / 2**30:.2g} GiB, a few times over; the limit is "
                f"{MOST_READ_CELLS} cells. Use Hierarchical(), which needs none, or wider bins"
            )
        if self.width is not None and self.width >= metric.size:
            return (
                f"width must be below the number of cells, {metric.size}, got width={self.width}; "
                "leave it out for the recommended one"
            )
        return None

    def bind(
        self, metric: CellMetric, *, precision: int = 64, resolution: int = 0
    ) -> SquareWaveChannel:
        """Settle b, and build the chance of each far place.

        Args:
            metric: E between the cells.
            precision: How many bits of a random word take part.
            resolution: Bits of a value's place between two cells; 0 without stochastic rounding.
        """
        held = uniform_fitted(self, metric, resolution)
        width = recommended_width(held.epsilon, held.size) if self.width is None else self.width
        return SquareWaveChannel(metric=held, width=width, precision=precision)

    def options(self) -> dict[str, Any]:
        """The width, where it is given."""
        return {} if self.width is None else {"width": self.width}

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """The recommended width at several ε, and others by name."""
        return (
            *uniform_trials(cls(), (2, 6)),
            *uniform_trials(cls(), (5,), epsilon="1/10"),
            *uniform_trials(cls(), (5,), epsilon="3"),
            *uniform_trials(cls(width=0), (4,)),
            *uniform_trials(cls(width=2), (5,)),
        )


def recommended_width(epsilon: Fraction, size: int) -> int:
    """The b of Li2020 for a number of cells, decided exactly so that both ends find the same.

    Args:
        epsilon: ε.
        size: The number of cells.

    Example:
        >>> [recommended_width(Fraction(e), 256) for e in ("1/1000", "1", "3", "10")]
        [127, 65, 16, 0]
    """
    eps = min(epsilon, Fraction(_NEVER_BEYOND))
    # Near 0 both sides of the fraction shrink like ε²: more bits are needed.
    bits = 128 + 3 * max(0, eps.denominator.bit_length() - eps.numerator.bit_length())
    odds = Fraction(exp_bounds(eps, bits)[0], 1 << bits)
    share = (eps * odds - odds + 1) / (2 * odds * (odds - 1 - eps))
    return math.floor(size * share)


@dataclass(frozen=True, kw_only=True, eq=False)
class SquareWaveChannel(LeastSquaresChannel):
    """Output y is the place y − b; those from x to x + 2b are near to cell x.

    Attributes:
        width: b.
        far: Words of each far output.
        near: Words of each near output, or one word less: the first `spare` of them have one more.
    """

    id: ClassVar[str] = "square-wave"
    metric: UniformMetric
    width: int
    precision: int = 64
    far: int = field(init=False)
    near: int = field(init=False)
    spare: int = field(init=False)

    def __post_init__(self) -> None:
        """Round the chance of far places up, so that the odds stay within bounds."""
        total = 1 << self.precision
        odds = exp_floor(self.metric.epsilon)
        far = math.ceil(total / (self.window * odds + self.size - 1))
        while -(-(total - (self.size - 1) * far) // self.window) > odds * far:
            far += 1
        near, spare = divmod(total - (self.size - 1) * far, self.window)
        if near <= far:
            raise StudyError(
                f"a table of 2^{self.precision} words is too coarse for {self.size} cells at "
                "this epsilon; use a larger epsilon"
            )
        object.__setattr__(self, "far", far)
        object.__setattr__(self, "near", near)
        object.__setattr__(self, "spare", spare)

    @property
    def window(self) -> int:
        """How many outputs are near to a cell, 2b + 1."""
        return 2 * self.width + 1

    @property
    def outputs(self) -> int:
        """The cells, and b places beyond each end."""
        return self.size + 2 * self.width

    @property
    def tightness(self) -> float:  # type: ignore[override]
        """Every pair spends all of ε, except for the rounding of probabilities."""
        return claimed_tightness(exp_floor(self.metric.epsilon), self.precision)

    def encode(self, cells: Cells, bits: BitSource) -> Cells:
        """The low words choose a near place, first those with a word more; all others a far one.

        Args:
            cells: One cell per person.
            bits: Where randomness comes from.
        """
        out = np.empty(len(cells), dtype=self.symbol_type())
        longer = np.uint64(self.spare * (self.near + 1))
        close = np.uint64((1 << self.precision) - (self.size - 1) * self.far)
        near, far = np.uint64(self.near), np.uint64(self.far)
        one_more = np.uint64(self.near + (self.spare > 0))  # without spare it would not fit a word
        for start in range(0, len(cells), PEOPLE_AT_ONCE):
            part = np.asarray(cells[start : start + PEOPLE_AT_ONCE], dtype=np.int64)
            word = leading(bits.words(len(part)), self.precision)
            first = np.where(word < longer, word, np.uint64(0)) // one_more
            later = np.where(word < longer, np.uint64(0), word - longer) // near
            inside = part + np.where(word < longer, first, later + np.uint64(self.spare)).astype(
                np.int64
            )
            place = (np.maximum(word, close) - close) // far
            outside = place.astype(np.int64)
            outside += np.where(outside < part, 0, self.window)
            out[start : start + len(part)] = np.where(word < close, inside, outside)
        return out

    def steps(self, cells: NDArray[np.int64]) -> Steps:
        """A near place, those with a word more first, or one of the others in their order."""
        counts = self.spare, self.window - self.spare, self.size - 1
        place = yield Pick((self.near + 1, self.near, self.far), self.precision, counts)
        outside = place - self.window
        return np.where(
            outside < 0, cells + place, np.where(outside < cells, outside, outside + self.window)
        )

    def device_code(self, code: Code, cell: Value) -> Value:
        """A near place, those with a word more first, or one of the others in their order.

        Args:
            code: Where instructions are added.
            cell: The cell.
        """
        counts = self.spare, self.window - self.spare, self.size - 1
        pairs = zip((self.near + 1, self.near, self.far), counts, strict=True)
        place = code.pick([[str(w), count] for w, count in pairs if count], self.precision)
        outside = place - self.window
        far = code.select(code.less(outside, cell), outside, place)
        return code.select(code.less(place, self.window), cell + place, far)

    def words(self) -> tuple[list[list[int]], int]:
        """Exact word counts."""
        refuse_dense(self.size, "the likelihood")
        close = [self.near + (place < self.spare) for place in range(self.window)]
        rows = [[self.far] * x + close + [self.far] * (self.size - 1 - x) for x in range(self.size)]
        return rows, 1 << self.precision

    def sampler_problems(self) -> Iterator[str]:
        """The words of all places must be all words."""
        total = self.window * self.near + self.spare + (self.size - 1) * self.far
        if total != 1 << self.precision or not 0 <= self.spare < self.window:
            yield f"the words of a row sum to {total}, not to 2^{self.precision}"

    def worst_ratio(self) -> Fraction:
        """A near place against a far one."""
        return Fraction(self.near + (self.spare > 0), self.far)

    def likelihood(self) -> Floats:
        """P(output | cell)."""
        refuse_dense(self.size, "the likelihood")
        place = np.arange(self.outputs) - np.arange(self.size)[:, None]
        close = (place >= 0) & (place < self.window)
        longer = (place >= 0) & (place < self.spare)
        words = float(self.far) + np.where(close, float(self.near - self.far), 0.0) + longer
        law: Floats = words / 2.0**self.precision
        return law

    def mix(self, law: Floats) -> Floats:
        """A share of all people, and those of the cells near to each place."""
        padding = [(0, 0)] * (law.ndim - 1) + [(self.window - 1, self.window - 1)]
        padded = np.pad(law, padding)
        everyone = law.sum(axis=-1, keepdims=True)
        return self._weigh(everyone, _sums(padded, self.window), self._latest(padded))

    def expect(self, table: Floats) -> Floats:
        """A share of the sum of all entries, and those of the near places."""
        everything = table.sum(axis=-1, keepdims=True)
        few = _sums(table[..., : self.size - 1 + self.spare], self.spare) if self.spare else 0.0
        return self._weigh(everything, _sums(table, self.window), few)

    def _latest(self, padded: Floats) -> Floats | float:
        """People of the cells for which a place is one of those with a word more."""
        if not self.spare:
            return 0.0
        return _sums(padded[..., self.window - self.spare :], self.spare)

    def _weigh(self, everything: Floats, close: Floats, longer: Floats | float) -> Floats:
        """Sums over all, the near and the slightly more likely near entries, with their chances."""
        total = 2.0**self.precision
        gap = float(self.near - self.far)
        result: Floats = (float(self.far) * everything + gap * close + longer) / total
        return result


def _sums(values: Floats, window: int) -> Floats:
    """Sums over every run of `window` entries along the last axis."""
    zero = np.zeros((*values.shape[:-1], 1))
    running = np.concatenate([zero, np.cumsum(values, axis=-1)], axis=-1)
    result: Floats = running[..., window:] - running[..., :-window]
    return result
