"""The lift of a channel on some "core" cells to further cells, with exact integer tables.

An inner channel Q perturbs the core cells, under the E that they have among themselves. Every other
cell has a symbol of its own, and all of them share a *cover*: a law R on the outputs of Q, in
proportion to the envelope M(y) = max_x Q(y | x). A core cell puts out the other cell's symbol with
chance a, and else Q(y | x). Another cell puts out its own symbol with chance b, and else R(y).

Guarantee:
    Among core cells it is that of Q, as a is the same for all. A cell aside, at E = c both ways,
    needs b <= e^c·a; a <= e^c·b; (1−a)·M(y) <= e^c·(1−b)·R(y); and (1−b)·R(y) <= e^c·(1−a)·Q(y | x)
    for every x. Let L <= e^c be a certified bound and κ = Σ M/L. Of 2^precision words, a has the
    share (1−κ)/(L−κ) and (1−b)·R(y) the share (1−a)·M(y)/L, all rounded up. So the third holds; the
    first, as b <= 1−(1−a)·κ = 1−κ+a·κ <= a·L; the second, as a < b. The fourth needs Q to be within
    2c, and is checked in integers when the channel is made. From sensitive cells E = ε and back it
    is infinite: the third is enough, and a = 0.

Estimator:
    With g the unbiased reading of Q and w the weights, f = ((1−a)·w − (1−b)·Σ R·g)/(b−a) at the
    symbol of another cell, and f(y) = (g(y) − a·f)/(1−a) at an output of Q. This is unbiased, and
    the only such reading if that of Q is.

References:
    Murakami and Kawamoto 2019, utility-optimised randomised response: k-ary response lifted, for
    `HighLow`. Mangat 1994: one sensitive cell. The lift to a cell aside is this package's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import chain, groupby, repeat
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import PEOPLE_AT_ONCE, Cells, Floats
from sfumato.channels.base import SymbolChannel, refuse_entries
from sfumato.channels.code import Code, Value, runs
from sfumato.channels.odds import Bound, Findings
from sfumato.errors import StudyError
from sfumato.exact import exp_floor
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.distance import AsideMetric, CappedLineMetric, LineMetric
from sfumato.metrics.labelled import HighLowMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import BitSource
from sfumato.randomness.draws import Pick, PickRow, Steps
from sfumato.randomness.tables import RowTable

Around = AsideMetric | HighLowMetric


@dataclass(frozen=True, kw_only=True, eq=False)
class SoleChannel(SymbolChannel):
    """The channel of a single core cell: it always puts out its one symbol."""

    id: ClassVar[str] = "sole"
    precision: int = 64

    @property
    def size(self) -> int:
        """One cell."""
        return 1

    def encode(self, cells: Cells, bits: BitSource) -> Cells:
        """The one symbol, without randomness.

        Args:
            cells: One cell per person.
            bits: Not used.
        """
        return np.zeros(len(cells), dtype=self.symbol_type())

    def steps(self, cells: NDArray[np.int64]) -> Steps:
        """No draw at all."""
        yield from ()
        return np.zeros_like(cells)

    def device_code(self, code: Code, cell: Value) -> Value:
        """No draw at all.

        Args:
            code: Where instructions are added.
            cell: The one cell.
        """
        return code.constant(0)

    def words(self) -> tuple[list[list[int]], int]:
        """All words have the one output."""
        return [[1]], 1

    def coefficients(self, weights: Floats) -> Floats:
        """The weight itself."""
        return weights

    def check_structure(self, metric: CellMetric, found: Findings) -> None:
        """There is no pair to be told apart.

        Args:
            metric: E between the cells.
            found: Where findings are added.
        """


@dataclass(frozen=True, kw_only=True, eq=False)
class ExtendedChannel(SymbolChannel):
    """An inner channel on the core, and a cover of it for every other cell.

    Outputs are numbered as the cells are, if the inner channel has as many as there are core cells;
    otherwise its outputs come first, and then the symbols of the other cells.

    Attributes:
        inner: The channel of the core cells.
        leave: Words with which a core cell puts out the symbol of the cell aside.
        stay: Words with which another cell puts out its own symbol.
        covering: Words with which another cell puts out each output of the inner channel.
    """

    id: ClassVar[str] = "extended"
    metric: Around
    inner: SymbolChannel
    precision: int = 64
    leave: int = field(init=False)
    stay: int = field(init=False)
    covering: tuple[int, ...] = field(init=False, repr=False)
    _first: RowTable = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Find the words for which the guarantee holds, or refuse a table that is too coarse."""
        words, odds = 1 << self.precision, exp_floor(self._e)
        envelope, total = self.inner.envelope()
        alike = [(*held, sum(1 for _ in group)) for held, group in groupby(envelope)]
        kappa = Fraction(sum(most * count for most, _, count in alike), total) / odds
        if kappa >= 1:
            raise StudyError(self._too_coarse())
        leave = math.ceil(words * (1 - kappa) / (odds - kappa)) if self._aside else 0
        top, bottom = (words - leave) * odds.denominator, total * odds.numerator
        covers = [-(-most * top // bottom) for most, _, _ in alike]
        stay = words - sum(part * held[2] for part, held in zip(covers, alike, strict=True))
        if not leave < stay:
            raise StudyError(self._too_coarse())
        if self._aside:
            left, right = total * odds.denominator, (words - leave) * odds.numerator
            rows = zip(alike, covers, strict=True)
            if any(left * part > right * least for (_, least, _), part in rows):
                raise StudyError(self._too_coarse())
        parts = (repeat(part, held[2]) for part, held in zip(covers, alike, strict=True))
        covering = tuple(chain.from_iterable(parts))
        object.__setattr__(self, "leave", leave)
        object.__setattr__(self, "stay", stay)
        object.__setattr__(self, "covering", covering)
        object.__setattr__(self, "_first", RowTable(self._rows, self.precision))

    @property
    def _rows(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Words of the first draw: for core cells, to go on or to leave; for others, all outputs.

        The last outcome of either is the symbol of another cell.
        """
        return ((1 << self.precision) - self.leave, self.leave), (*self.covering, self.stay)

    def _too_coarse(self) -> str:
        """What to say where rounding leaves nothing to tell the other cells by."""
        return (
            f"a table of 2^{self.precision} words is too coarse for the extended channel of "
            f"{self.size} cells at this epsilon; use a larger epsilon or fewer cells"
        )

    @property
    def _aside(self) -> bool:
        """Whether the other cell must be hidden too."""
        return isinstance(self.metric, AsideMetric)

    @property
    def _e(self) -> Fraction:
        """E from a core cell to another one."""
        return self.metric.aside if isinstance(self.metric, AsideMetric) else self.metric.epsilon

    @property
    def outputs(self) -> int:
        """Those of the inner channel, and one for every other cell."""
        return self.inner.outputs + self.size - self.inner.size

    @cached_property
    def _is_core(self) -> NDArray[np.bool_]:
        """Whether every cell belongs to the core."""
        if isinstance(self.metric, HighLowMetric):
            return self.metric.sensitive
        return np.arange(self.size) < self.metric.line.size

    @property
    def _core(self) -> NDArray[np.intp]:
        """The core cells."""
        return np.flatnonzero(self._is_core)

    @property
    def _others(self) -> NDArray[np.intp]:
        """The cells beside the core."""
        return np.flatnonzero(~self._is_core)

    @cached_property
    def _symbols(self) -> NDArray[np.intp]:
        """The outputs of the inner channel, as this channel numbers them."""
        return self._core if self._as_cells else np.arange(self.inner.outputs)

    @property
    def _own(self) -> NDArray[np.intp]:
        """The symbols of the other cells."""
        return self._others if self._as_cells else np.arange(self.inner.outputs, self.outputs)

    @property
    def _as_cells(self) -> bool:
        """Whether outputs are numbered as the cells are."""
        return self.inner.outputs == self.inner.size

    @cached_property
    def _inside(self) -> NDArray[np.intp]:
        """The cell of the inner channel for every cell; any for those beside the core."""
        inside: NDArray[np.intp] = np.maximum(np.cumsum(self._is_core) - 1, 0)
        return inside

    @cached_property
    def _told(self) -> NDArray[np.intp]:
        """The other cell's symbol that every cell may put out; for core cells, of the one aside."""
        told = np.full(self.size, self._own[0] if self._aside else 0)
        told[self._others] = self._own
        return told

    def encode(self, cells: Cells, bits: BitSource) -> Cells:
        """Put out a symbol of another cell, or perturb the core cell, or draw from the cover.

        Args:
            cells: One cell per person.
            bits: Where randomness comes from.
        """
        out = np.empty(len(cells), dtype=self.symbol_type())
        for start in range(0, len(cells), PEOPLE_AT_ONCE):
            part = np.asarray(cells[start : start + PEOPLE_AT_ONCE], dtype=np.int64)
            core = self._is_core[part]
            first = self._first.draw(bits, np.where(core, 0, 1))
            own = first == np.where(core, 1, len(self.covering))
            noisy = np.asarray(self.inner.encode(self._inside[part], bits), dtype=np.int64)
            drawn = self._symbols[np.where(core, noisy, np.where(own, 0, first))]
            told = np.where(own, self._told[part], drawn)
            out[start : start + len(part)] = told
        return out

    def steps(self, cells: NDArray[np.int64]) -> Steps:
        """Another cell's symbol or not, or an output at once; then what the inner channel draws."""
        core = self._is_core[cells]
        first = yield PickRow(self._picks, np.where(core, 0, 1))
        noisy: Any = yield from self.inner.steps(self._inside[cells]) or ()
        own = first == len(self.covering)
        drawn = self._symbols[np.where(core, noisy, np.where(own, 0, first))]
        return np.where(own, self._told[cells], drawn)

    @cached_property
    def _picks(self) -> dict[int, Pick]:
        """The first draw of core cells, and of others; made once, since tables may be long."""
        (goes_on, leaves), others = self._rows
        counts = (1, len(self.covering) - 1, 1)  # outcomes in between have no words
        core = Pick((goes_on, 0, leaves), self.precision, counts)
        return {0: core, 1: Pick(others, self.precision)}

    def device_code(self, code: Code, cell: Value) -> Value:
        """Another cell's symbol or not, or an output at once; then what the inner channel draws.

        Args:
            code: Where instructions are added.
            cell: The cell.
        """
        (goes_on, leaves), others = self._rows
        last = len(self.covering)
        between = [["0", last - 1]] if last > 1 else []
        core = code.take(self._is_core.tolist(), cell)
        rows = [[str(goes_on), *between, str(leaves)], runs(others)]
        first = code.row(rows, self.precision, code.equal(core, 0))
        noisy = self.inner.device_code(code, code.take(self._inside.tolist(), cell))
        own = code.equal(first, last)
        place = code.select(core, noisy, code.select(own, 0, first))
        drawn = code.take(self._symbols.tolist(), place)
        return code.select(own, code.take(self._told.tolist(), cell), drawn)

    def words(self) -> tuple[list[list[int]], int]:
        """Exact word counts: of the first draw, times those of the inner channel."""
        refuse_entries(self.size, self.outputs)
        rows, total = self.inner.words()
        each = 1 << self.precision
        symbols, own, inside = self._symbols.tolist(), self._told.tolist(), self._inside.tolist()
        found = []
        for cell, core in enumerate(self._is_core.tolist()):
            row, times = (rows[inside[cell]], each - self.leave) if core else (self.covering, total)
            words = [0] * self.outputs
            for symbol, word in zip(symbols, row, strict=True):
                words[symbol] = word * times
            words[own[cell]] += total * (self.leave if core else self.stay)
            found.append(words)
        return found, each * total

    @cached_property
    def cover(self) -> Floats:
        """R(y) for every output of the inner channel."""
        total = sum(self.covering)
        return np.array([word / total for word in self.covering])

    @property
    def _chances(self) -> tuple[float, float, float, float]:
        """a, b, 1 − b and b − a, without cancellation: b is tiny where ε is."""
        words, a, b = 1 << self.precision, self.leave, self.stay
        return a / words, b / words, (words - b) / words, (b - a) / words

    def likelihood(self) -> Floats:
        """P(output | cell)."""
        refuse_entries(self.size, self.outputs)
        a, b, covered, _ = self._chances
        found = np.zeros((self.size, self.outputs))
        found[np.ix_(self._core, self._symbols)] = (1 - a) * self.inner.likelihood()
        found[np.ix_(self._others, self._symbols)] = covered * self.cover
        found[self._others, self._own] = b
        if self._aside:
            found[self._core, self._own] = a
        return found

    def coefficients(self, weights: Floats) -> Floats:
        """The inner reading, with what the symbols of the other cells take from it."""
        a, _, covered, gap = self._chances
        read = self.inner.coefficients(weights[..., self._core])
        own = (1 - a) * weights[..., self._others] - covered * (read @ self.cover)[..., None]
        result = np.empty((*weights.shape[:-1], self.outputs))
        result[..., self._own] = own / gap
        if self._aside:
            read = (read - a * own / gap) / (1 - a)
        result[..., self._symbols] = read
        return result

    @property
    def linear(self) -> bool:
        """As the inner channel."""
        return self.inner.linear

    def gather(self, profile: Floats) -> Floats:
        """The transpose of `coefficients`."""
        a, _, covered, gap = self._chances
        seen, own = profile[..., self._symbols], profile[..., self._own]
        if self._aside:
            seen = seen / (1 - a)
            own = own - a * seen.sum(axis=-1, keepdims=True)
        own = own / gap
        result = np.empty((*profile.shape[:-1], self.size))
        result[..., self._others] = (1 - a) * own
        seen = seen - covered * own.sum(axis=-1, keepdims=True) * self.cover
        result[..., self._core] = self.inner.gather(seen)
        return result

    def expect(self, table: Floats) -> Floats:
        """The inner channel's means at core cells, those of symbol and cover at the others."""
        a, b, covered, _ = self._chances
        seen, own = table[..., self._symbols], table[..., self._own]
        result = np.empty((*table.shape[:-1], self.size))
        result[..., self._others] = b * own + covered * (seen @ self.cover)[..., None]
        result[..., self._core] = (1 - a) * self.inner.expect(seen)
        if self._aside:
            result[..., self._core] += a * own
        return result

    def mix(self, law: Floats) -> Floats:
        """The transpose of `expect`."""
        a, b, covered, _ = self._chances
        core, others = law[..., self._core], law[..., self._others]
        result = np.empty((*law.shape[:-1], self.outputs))
        result[..., self._own] = b * others
        if self._aside:
            result[..., self._own] += a * core.sum(axis=-1, keepdims=True)
        hidden = covered * others.sum(axis=-1, keepdims=True) * self.cover
        result[..., self._symbols] = (1 - a) * self.inner.mix(core) + hidden
        return result

    def joined(self) -> NDArray[np.intp] | None:
        """The runs of the inner channel; the symbols of other cells stay single."""
        starts = None if self._as_cells else self.inner.joined()
        return None if starts is None else np.concatenate([starts, self._own])

    def joined_likelihood(self, starts: NDArray[np.intp]) -> Floats:
        """P(run | cell), from the inner channel's runs."""
        if self._as_cells:
            return super().joined_likelihood(starts)
        a, b, covered, _ = self._chances
        inside = starts[starts < self.inner.outputs]
        found = np.zeros((self.size, len(starts)))
        found[self._core, : len(inside)] = (1 - a) * self.inner.joined_likelihood(inside)
        found[self._others, : len(inside)] = covered * np.add.reduceat(self.cover, inside)
        found[self._others, len(inside) + np.arange(len(self._own))] = b
        if self._aside:
            found[self._core, -1] = a
        return found

    def sampler_problems(self) -> Iterator[str]:
        """The inner channel's own, and whether the first draw is that shown."""
        yield from self.inner.sampler_problems()
        yield from self._first.problems(self._rows)

    def law_problems(self, rows: Sequence[Sequence[int]]) -> Iterator[str]:
        """The inner channel's own."""
        return self.inner.law_problems(self.inner.words()[0])

    def check_structure(self, metric: CellMetric, found: Findings) -> None:
        """The inner channel checks the core; each output's extremes decide for the other cells.

        Args:
            metric: E between the cells.
            found: Where findings are added.
        """
        if not isinstance(metric, Around) or not self._within(metric):
            found.problems.append(
                "the inner channel keeps another E than the axis has between its core cells"
            )
            return
        if self.inner.size > 1:
            core = self.inner.check(self.inner.metric)
            found.problems += core.problems
            if core.pair is not None:
                pair = int(self._core[core.pair[0]]), int(self._core[core.pair[1]])
                found.pair, found.spent = pair, core.spent
                found.log_ratio, found.allowed = core.log_ratio, core.allowed
        if len(self._others):
            self._check_others(metric, found)
        found.by_structure(2 * (metric.size - 1))

    def _within(self, metric: Around) -> bool:
        """Whether the E that the inner channel keeps is at most that between the core cells."""
        held = self.inner.metric if self.inner.size > 1 else None
        if isinstance(metric, HighLowMetric):
            if self._aside or not np.array_equal(metric.sensitive, self._is_core):
                return False
            return held is None or (
                isinstance(held, UniformMetric) and held.epsilon <= metric.epsilon
            )
        if not (self._aside and isinstance(held, LineMetric | CappedLineMetric)):
            return False
        cap = metric.line.cap if isinstance(metric.line, CappedLineMetric) else None
        if cap is not None and not (isinstance(held, CappedLineMetric) and held.cap <= cap):
            return False
        if held.equal_step is not None and metric.line.equal_step is not None:
            return held.equal_step <= metric.line.equal_step
        return all(a <= b for a, b in zip(held.steps, metric.line.steps, strict=True))

    def _check_others(self, metric: Around, found: Findings) -> None:
        """Compare the other cells with the most and the least likely core cell of each output."""
        words = 1 << self.precision
        envelope, total = self.inner.envelope()
        bound = Bound(metric.aside if isinstance(metric, AsideMetric) else metric.epsilon)
        core, other = int(self._core[0]), int(self._others[0])
        rows = list(zip(envelope, self.covering, strict=True))
        most, part = largest_ratio([(most, part) for (most, _), part in rows])
        found.exact((core, other), most * (words - self.leave), part * total, bound)
        if self._aside:
            part, least = largest_ratio([(part, least) for (_, least), part in rows])
            found.exact((other, core), part * total, least * (words - self.leave), bound)
            found.exact((other, core), self.stay, self.leave, bound)
            found.exact((core, other), self.leave, self.stay, bound)


def largest_ratio(pairs: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The pair with the largest ratio of its first number to its second, in integers.

    Example:
        >>> largest_ratio([(1, 2), (5, 6), (3, 4)])
        (5, 6)
    """
    most, least = pairs[0]
    for more, less in pairs:
        if more * least > most * less:
            most, least = more, less
    return most, least
