"""Randomised response: the true value with some probability, otherwise another one.

k-ary response treats all pairs equally; the binary channel is the best there is for two cells under
any metric, whatever is to be measured.

Guarantee:
    k-ary: E(x, x') = ε for every pair, exact for the integer table, and tight. Binary: E(0, 1) and
    E(1, 0), each 0, positive or infinite, exact and tight. With both equal it is Warner's response;
    with one infinite it is Mangat's, in which one of the two answers is always true.

Estimator:
    k-ary: with p the chance of the truth and q that of any one other value,
    f(y) = (w[y] − q·Σw)/(p − q), which is c + (w[y] − c)/(p − q) with c the mean of the weights.
    Binary: the inverse of the 2 × 2 matrix. Every other channel with this guarantee is this one
    followed by further noise, so that no function of its reports can do better.

References:
    Acharya et al. 2020, Theorem 2 and (9), with its limit where an ε is 0: the report then says
    nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import PEOPLE_AT_ONCE, Cells, Floats
from sfumato.channels.base import FEW_RATIOS, SymbolChannel, claimed_tightness, refuse_dense
from sfumato.channels.choice import Choice, Trial, needs_uniform, uniform_fitted, uniform_trials
from sfumato.channels.code import Code, Value
from sfumato.channels.every import EvenChannel, Spread
from sfumato.channels.flips import check_alike
from sfumato.channels.odds import Findings
from sfumato.channels.rounding import grid_points, rounding_steps
from sfumato.errors import StudyError
from sfumato.exact import exp_floor, log, to_plain
from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.distance import LineMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import BitSource
from sfumato.randomness.draws import Below, Pick, Steps
from sfumato.randomness.tables import leading

_TIGHT = 1 - 2.0**-30


@dataclass(frozen=True, slots=True)
class KaryResponse(Choice):
    """Choose k-ary randomised response; it fits `Uniform`, also behind stochastic rounding."""

    id: ClassVar[str] = "kary-response"

    def misfit(self, metric: CellMetric) -> str | None:
        """It needs one ε for all pairs."""
        return needs_uniform(metric)

    def bind(
        self, metric: CellMetric, *, precision: int = 64, resolution: int = 0
    ) -> KaryResponseChannel:
        """Build the chance of each wrong value.

        Args:
            metric: E between the cells.
            precision: How many bits of a random word take part.
            resolution: Bits of a value's place between two cells; 0 without stochastic rounding.
        """
        fitted = uniform_fitted(self, metric, 0)
        return KaryResponseChannel(metric=fitted, precision=precision, resolution=resolution)

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """A few cells, at small and large ε, a grid, and values between grid points."""
        rounded = [
            Trial(choice=cls(), metric=UniformMetric(Fraction(1), size), resolution=3)
            for size in (2, 4)
        ]
        return (
            *uniform_trials(cls(), (2, 5), (2, 3)),
            *uniform_trials(cls(), (3,), epsilon="1/10"),
            *uniform_trials(cls(), (4,), epsilon="4"),
            *rounded,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class KaryResponseChannel(EvenChannel):
    """Randomised response over `size` values."""

    id: ClassVar[str] = "kary-response"
    most_ratios: ClassVar[int] = FEW_RATIOS
    metric: UniformMetric
    precision: int = 64
    resolution: int = 0
    wrong: int = field(init=False)

    def __post_init__(self) -> None:
        """Round the chance of each wrong value up, so that the odds stay within bounds."""
        total = 1 << self.precision
        odds = exp_floor(self.metric.epsilon)
        wrong = math.ceil(total / (odds + self.size - 1))
        if total - (self.size - 1) * wrong <= wrong:
            raise StudyError(
                f"a table of 2^{self.precision} words is too coarse for {self.size} values at "
                "this epsilon; use a larger epsilon"
            )
        object.__setattr__(self, "wrong", wrong)

    @property
    def tightness(self) -> float:  # type: ignore[override]
        """Every pair spends all of ε, except for the rounding of one probability."""
        return claimed_tightness(exp_floor(self.metric.epsilon), self.precision)

    @property
    def right(self) -> int:
        """Words whose output is the true value."""
        return (1 << self.precision) - (self.size - 1) * self.wrong

    @property
    def chances(self) -> tuple[float, float]:
        """P(the true value) and P(one given other value)."""
        total = 1 << self.precision
        return self.right / total, self.wrong / total

    @property
    def gap(self) -> float:
        """How much more likely the truth is than another value, p − q, without cancellation."""
        return (self.right - self.wrong) / (1 << self.precision)

    @property
    def node_variance(self) -> float:
        """σ²: E[f²] is σ²·Σw² for weights w of mean zero, if people are spread evenly."""
        return 1 / (self.size * self.gap * self.gap)

    def encode(self, cells: Cells, bits: BitSource) -> Cells:
        """The low words choose one of the other values, all other words the truth.

        Args:
            cells: One cell per person; with `resolution`, a code of a value between two.
            bits: Where randomness comes from.
        """
        points = grid_points(cells, self.resolution, bits)
        out = np.empty(len(cells), dtype=self.symbol_type())
        others = np.uint64(self.size - 1)
        for start in range(0, len(cells), PEOPLE_AT_ONCE):
            part = np.asarray(points[start : start + PEOPLE_AT_ONCE], dtype=np.int64)
            word = leading(bits.words(len(part)), self.precision) // np.uint64(self.wrong)
            other = np.minimum(word, others).astype(np.int64)
            answer = np.where(word >= others, part, other + (other >= part))
            out[start : start + len(part)] = answer
        return out

    def steps(self, cells: NDArray[np.int64]) -> Steps:
        """One of the other values in their order, or the truth at last."""
        points = yield from rounding_steps(cells, self.resolution)
        other = yield Pick((self.wrong, self.right), self.precision, counts=(self.size - 1, 1))
        return np.where(other == self.size - 1, points, other + (other >= points))

    def device_code(self, code: Code, cell: Value) -> Value:
        """One of the other values in their order, or the truth at last.

        Args:
            code: Where instructions are added.
            cell: The cell, as `encode` takes it.
        """
        point, others = code.grid_point(cell, self.resolution), self.size - 1
        other = code.pick([[str(self.wrong), others], str(self.right)], self.precision)
        moved = other + 1 - code.less(other, point)
        return code.select(code.equal(other, others), point, moved)

    def words(self) -> tuple[list[list[int]], int]:
        """Exact word counts."""
        refuse_dense(self.size, "the likelihood")
        rows = [
            [self.right if y == x else self.wrong for y in range(self.size)]
            for x in range(self.size)
        ]
        return rows, 1 << self.precision

    def likelihood(self) -> Floats:
        """P(output | cell)."""
        refuse_dense(self.size, "the likelihood")
        wrong = self.chances[1]
        return np.full((self.size, self.size), wrong) + np.eye(self.size) * self.gap

    def coefficients(self, weights: Floats) -> Floats:
        """Deviations from the mean, scaled up; the mean itself is known without noise."""
        centre = weights.mean(axis=-1, keepdims=True)
        result: Floats = centre + (weights - centre) / self.gap
        return result

    def gather(self, profile: Floats) -> Floats:
        """The same as `coefficients`: the inverse is symmetric too."""
        return self.coefficients(profile)

    @property
    def spread(self) -> Spread:
        """The constants of E[f² | x]."""
        return Spread(1 / self.gap, self.chances[1] / self.gap**2)

    def mix(self, law: Floats) -> Floats:
        """The same as `expect`: the channel is symmetric."""
        return self.expect(law)

    def expect(self, table: Floats) -> Floats:
        """Mostly the value itself, and a share of the sum of all."""
        wrong = self.chances[1]
        result: Floats = self.gap * table + wrong * table.sum(axis=-1, keepdims=True)
        return result

    def envelope(self) -> tuple[list[tuple[int, int]], int]:
        """Every value is most likely where it is the truth, and equally likely elsewhere."""
        return [(self.right, self.wrong)] * self.size, 1 << self.precision

    def worst_ratio(self) -> Fraction:
        """The truth against any other value."""
        return Fraction(self.right, self.wrong)

    def check_structure(self, metric: CellMetric, found: Findings) -> None:
        """The odds between two cells are those of the truth against a wrong value.

        Args:
            metric: E between the cells.
            found: Where findings are added.
        """
        if isinstance(metric, UniformMetric):
            check_alike(self.right, self.wrong, metric, found)
        else:
            super().check_structure(metric, found)


def lies(there: Fraction | None, back: Fraction | None, precision: int) -> tuple[int, int]:
    """Of 2^precision words, how many output the other cell: for cell 0, and for cell 1.

    With odds a <= e^E(0,1) and b <= e^E(1,0) the least chances of a lie are (a − 1)/(ab − 1) and
    (b − 1)/(ab − 1). The first is rounded up; the second is what a then asks for, rounded up: a
    first lie that is no rarer than its least chance leaves b satisfied.

    Args:
        there: E(0, 1); None where it is infinite.
        back: E(1, 0); None where it is infinite.
        precision: Bits of a word.

    Example:
        >>> lies(Fraction(1), Fraction(1), 8), lies(Fraction(1), None, 8)
        ((69, 69), (0, 95))
        >>> lies(None, None, 8), lies(Fraction(0), Fraction(1), 8)
        ((0, 0), (0, 256))
    """
    total = 1 << precision
    inverse = Fraction(0) if there is None else 1 / exp_floor(there)
    if back is None:
        return 0, math.ceil(total * inverse)
    odds = exp_floor(back)
    if odds == inverse:  # (9) is 0/0; both cells put out both symbols equally often
        return total >> 1, total >> 1
    first = math.ceil(total * (1 - inverse) / (odds - inverse))
    return first, math.ceil((total - first) * inverse)


@dataclass(frozen=True, slots=True)
class Binary(Choice):
    """Choose the best channel for two cells; it fits every metric, symmetric or not.

    Example:
        >>> import sfumato as sf
        >>> protect = sf.HighLow(epsilon=1, sensitive=["yes"])  # a no need not be hidden
        >>> study = sf.Study("survey", [sf.categories("used", ["yes", "no"], protect=protect)])
        >>> study.channels[0].id
        'binary'
        >>> study.channels[0].likelihood().round(3)
        array([[1.   , 0.   ],
               [0.368, 0.632]])
    """

    id: ClassVar[str] = "binary"

    def misfit(self, metric: CellMetric) -> str | None:
        """It needs two cells that may be told apart at all."""
        if metric.size != 2:
            return f"it is for two cells, and there are {metric.size}"
        if metric.exact(0, 1) == 0 or metric.exact(1, 0) == 0:
            return "E is 0, so that reports say nothing; use a larger epsilon"
        return None

    def bind(
        self, metric: CellMetric, *, precision: int = 64, resolution: int = 0
    ) -> BinaryChannel:
        """Build the two chances of a lie.

        Args:
            metric: E between the cells.
            precision: How many bits of a random word take part.
            resolution: Bits of a value's place between two cells; 0 without stochastic rounding.
        """
        self.refuse_misfit(metric, resolution)
        return BinaryChannel(metric=metric, precision=precision)

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """Equal directions, unequal ones, and one or both without a bound."""
        tables = ([[0, 1], [3, 0]], [[0, 2], [1, 0]], [[0, 1], [-1, 0]], [[0, -1], [-1, 0]])
        metrics: list[CellMetric] = [TableMetric(np.array(rows), 2, 2) for rows in tables]
        metrics += [UniformMetric(Fraction(1), 2), LineMetric.equal(Fraction(1, 10), 2)]
        return tuple(Trial(choice=cls(), metric=metric) for metric in metrics)


@dataclass(frozen=True, kw_only=True, eq=False)
class BinaryChannel(SymbolChannel):
    """Binary response: each of two cells outputs the other with its own probability."""

    id: ClassVar[str] = "binary"
    metric: CellMetric
    precision: int = 64
    lies: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        """Round the chances of a lie up, so that the odds stay within bounds."""
        there, back = self.metric.exact(0, 1), self.metric.exact(1, 0)
        found = lies(there, back, self.precision)
        if sum(found) >= 1 << self.precision:
            least = min(e for e in (there, back) if e is not None)
            raise StudyError(
                f"a table of 2^{self.precision} words is too coarse for E = {to_plain(least)}; "
                "use a larger epsilon"
            )
        object.__setattr__(self, "lies", found)

    @property
    def tightness(self) -> float:  # type: ignore[override]
        """Both directions spend all of E, except for the rounding of one probability."""
        shares = [log(odds) / float(e) for odds, e in self._spent()]
        return _TIGHT if max(shares, default=0.0) > 1 - 2.0**-32 else 0.0

    def _spent(self) -> list[tuple[Fraction, Fraction]]:
        """The odds of the truth against the other's lie, and E, where that is finite."""
        total = 1 << self.precision
        pairs = ((0, 1), (1, 0))
        bounds = [(self.lies[x], self.lies[y], self.metric.exact(x, y)) for x, y in pairs]
        return [(Fraction(total - own, other), e) for own, other, e in bounds if e is not None]

    def encode(self, cells: Cells, bits: BitSource) -> NDArray[np.integer[Any]]:
        """The low words choose the other cell.

        Args:
            cells: One cell per person.
            bits: Where randomness comes from.
        """
        out = np.empty(len(cells), dtype=self.symbol_type())
        bound = np.array(self.lies, dtype=np.uint64)
        for start in range(0, len(cells), PEOPLE_AT_ONCE):
            part = np.asarray(cells[start : start + PEOPLE_AT_ONCE], dtype=np.int64)
            word = leading(bits.words(len(part)), self.precision)
            out[start : start + len(part)] = part ^ (word < bound[part])
        return out

    def steps(self, cells: NDArray[np.int64]) -> Steps:
        """The other cell, if the word is below the cell's own bound."""
        lie = yield Below(np.array(self.lies, dtype=np.uint64)[cells], self.precision)
        return cells ^ lie

    def device_code(self, code: Code, cell: Value) -> Value:
        """The other cell, if the word is below the cell's own bound.

        Args:
            code: Where instructions are added.
            cell: The cell.
        """
        return cell ^ code.below(code.take(self.lies, cell), self.precision)

    def words(self) -> tuple[list[list[int]], int]:
        """Exact word counts."""
        total = 1 << self.precision
        first, second = self.lies
        return [[total - first, first], [second, total - second]], total

    @property
    def _inverse(self) -> Floats:
        """Inverse of the likelihood matrix, its determinant from integers."""
        (right, first), (second, true) = self.words()[0]
        left = (1 << self.precision) - first - second
        return np.array([[true / left, -first / left], [-second / left, right / left]])

    def coefficients(self, weights: Floats) -> Floats:
        """Solve for the function of the output with the wanted means."""
        return weights @ self._inverse.T

    def gather(self, profile: Floats) -> Floats:
        """The transposed solution."""
        return profile @ self._inverse
