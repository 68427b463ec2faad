"""Hadamard randomised response (HRR): a random column of a Hadamard matrix and a noisy sign.

Guarantee:
    E(x, x') = ε for every pair, exact for the integer table, and tight. The column is drawn without
    looking at the cell, and the sign is flipped with a chance rounded up.

Estimator:
    With r(x) the row of cell x, H[x, j] = (−1)^popcount(r(x) & j), s = (e^ε + 1)/(e^ε − 1), and w̃
    the weights less their mean c, f(j, ±) = c ± s·Σ_x w̃[x]·H[x, j] is unbiased, with
    E[(f − c)² | x] = s²·Σ_y w̃[y]² for every x. All values of f come from one fast transform. Rows
    are `scattered` over cells, so that no range is read from a few columns only.

References:
    Cormode et al. 2019, §3, whose aggregation lacks a factor K/N, and where r(x) = x.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import Cells, Floats, Outputs, words_for
from sfumato.channels.base import (
    as_symbols,
    as_weights,
    refuse_dense,
    with_known_total,
)
from sfumato.channels.choice import Choice, Trial, needs_uniform, uniform_fitted, uniform_trials
from sfumato.channels.code import Code, Value
from sfumato.channels.every import EvenChannel, Spread
from sfumato.channels.flips import UniformFlips
from sfumato.channels.transforms import scattered, walsh_hadamard
from sfumato.metrics.cells import CellMetric
from sfumato.randomness.bits import BitSource
from sfumato.randomness.draws import Flips, Lane, Steps

MOST_CELLS = 1 << 22
_PEOPLE_AT_ONCE = 1 << 17  # a multiple of 64: flips are drawn 64 to a word


@dataclass(frozen=True, slots=True)
class HRR(Choice):
    """Choose Hadamard randomised response; it fits `Uniform`.

    A report is one bit about a random column of a Hadamard matrix, and the column's number. For
    small ε its error is nearly the smallest there is, however many cells; encoding and reading are
    the fastest of the channels for many cells.

    Example:
        >>> import sfumato as sf
        >>> axis = sf.integers("code", 0, 65_535, protect=sf.Uniform(2), channel=sf.HRR())
        >>> study = sf.Study("codes", [axis])
        >>> tally = study.simulate({"code": [7] * 6_000 + [40_000] * 4_000}, seed=2)
        >>> answer = tally.estimate("unbiased").count({"code": 7})
        >>> answer.low < 6_000 < answer.high
        True
    """

    id: ClassVar[str] = "hrr"
    revision: ClassVar[int] = 2

    def misfit(self, metric: CellMetric) -> str | None:
        """It needs one ε for all pairs, and cells that one transform can take."""
        if metric.size > MOST_CELLS:
            return (
                f"it takes up to {MOST_CELLS} cells, and there are {metric.size}, which need about "
                f"{metric.size * 8 * 8 / 2**30:.1f} GiB to read one answer. Use KaryResponse(), "
                "which takes more at a larger error, or fewer cells (bins=..., step=...)"
            )
        return needs_uniform(metric)

    def bind(self, metric: CellMetric, *, precision: int = 64, resolution: int = 0) -> HRRChannel:
        """Build the chance of a flip.

        Args:
            metric: E between the cells.
            precision: How many bits of a random word take part.
            resolution: Bits of a value's place between two cells; 0 without stochastic rounding.
        """
        return HRRChannel(metric=uniform_fitted(self, metric, resolution), precision=precision)

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """As many cells as rows, and fewer; small and large ε; a grid."""
        return (
            *uniform_trials(cls(), (2, 5, 8), (2, 3)),
            *uniform_trials(cls(), (4,), epsilon="1/10"),
            *uniform_trials(cls(), (3,), epsilon="4"),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class HRRChannel(UniformFlips, EvenChannel):
    """Symbol 2·j + b: column j of `order`, and the sign there, b = 0 for +1 and 1 for −1."""

    id: ClassVar[str] = "hrr"

    @property
    def order(self) -> int:
        """K, the columns of the Hadamard matrix: a power of two, no fewer than cells."""
        return 1 << (self.size - 1).bit_length()

    @cached_property
    def row(self) -> NDArray[np.int64]:
        """Every cell's row."""
        found = scattered(np.arange(self.size), np.array(self.order))
        found.setflags(write=False)
        return found

    @property
    def outputs(self) -> int:
        """Two for each column."""
        return 2 * self.order

    @property
    def scale(self) -> float:
        """The factor of a sign: s = 1/(1 − 2·chance of a flip)."""
        total = 1 << self.precision
        return total / (total - 2 * self.flips)

    @property
    def node_variance(self) -> float:
        """σ²: E[f²] is σ²·Σw² for weights w of mean zero, if people are spread evenly."""
        return self.scale * self.scale

    def encode(self, cells: Cells, bits: BitSource) -> NDArray[np.integer[Any]]:
        """Columns from as many leading bits as they need, then packed flips of the signs.

        Args:
            cells: One cell per person.
            bits: Where randomness comes from.
        """
        out = np.empty(len(cells), dtype=self.symbol_type())
        for start in range(0, len(cells), _PEOPLE_AT_ONCE):
            part = cells[start : start + _PEOPLE_AT_ONCE]
            column = self._columns(bits, len(part))
            flips = self._flips.draw(bits, slice(0, 1), words_for(len(part)))
            packed = flips.astype("<u8", copy=False).view(np.uint8)
            sign = np.bitwise_count(self._rows(part) & column)
            sign &= 1
            sign ^= np.unpackbits(packed, count=len(part), bitorder="little", axis=1)[0]
            symbol = out[start : start + len(part)]
            np.left_shift(column, 1, out=symbol, dtype=out.dtype, casting="unsafe")
            symbol |= sign
        return out

    def steps(self, cells: NDArray[np.int64]) -> Steps:
        """A column, and its sign in the cell's row, flipped or not."""
        column = yield Lane(self.order.bit_length() - 1, 8 * self._lane.itemsize)
        flip = yield Flips([self.flips], self.precision)
        sign = np.bitwise_count(self.row[cells] & column) & 1
        return 2 * column + (sign ^ flip[:, 0])

    def device_code(self, code: Code, cell: Value) -> Value:
        """A column, and its sign in the cell's row, flipped or not.

        Args:
            code: Where instructions are added.
            cell: The cell.
        """
        column = code.bits(self.order.bit_length() - 1)
        flip = code.below(self.flips, self.precision)
        row = code.scattered(cell, self.order)
        return 2 * column + (code.parity(row & column) ^ flip)

    def _rows(self, cells: Cells) -> NDArray[np.unsignedinteger[Any]]:
        """The rows of people's cells, from a table where that is cheaper than to compute each."""
        if len(cells) < self.size:
            found = scattered(cells.astype(np.int64, copy=False), np.array(self.order))
            return found.astype(self._lane)
        return np.take(self._narrow_row, cells)

    @cached_property
    def _narrow_row(self) -> NDArray[np.unsignedinteger[Any]]:
        """Every cell's row in as few bytes as columns are drawn in."""
        return self.row.astype(self._lane)

    @property
    def _lane(self) -> np.dtype[np.unsignedinteger[Any]]:
        """The bytes that a column is drawn from: one, two or four."""
        needed = self.order.bit_length() - 1
        return np.dtype(f"<u{1 if needed <= 8 else 2 if needed <= 16 else 4}")

    def _columns(self, bits: BitSource, count: int) -> NDArray[np.unsignedinteger[Any]]:
        """Uniform columns: the leading bits of one lane per person."""
        lane = self._lane
        spare = 8 * lane.itemsize - (self.order.bit_length() - 1)
        words = bits.words(-(-count * lane.itemsize // 8)).astype("<u8", copy=False)
        lanes = words.view(lane)[:count]
        return lanes >> lane.type(spare) if spare else lanes

    def words(self) -> tuple[list[list[int]], int]:
        """Exact word counts; every column stands for 2^precision of them."""
        refuse_dense(self.size, "the likelihood")
        total = 1 << self.precision
        right = total - self.flips
        rows = []
        for odd in self._odd(np.arange(self.order)).T.tolist():
            row = []
            for minus in odd:
                row += [self.flips, right] if minus else [right, self.flips]
            rows.append(row)
        return rows, self.order * total

    def envelope(self) -> tuple[list[tuple[int, int]], int]:
        """A sign is likely for some cell if the column has it in some cell's row."""
        total = 1 << self.precision
        held = np.bincount(self.row, minlength=self.order).astype(np.float64)
        surplus = walsh_hadamard(held)  # plus signs less minus signs of every column
        found: list[tuple[int, int]] = []
        for has in np.stack([surplus > -self.size, surplus < self.size], axis=1).tolist():
            likely = [total - self.flips if one else self.flips for one in has]
            rare = [self.flips if one else total - self.flips for one in reversed(has)]
            found += zip(likely, rare, strict=True)
        return found, self.order * total

    def sampler_problems(self) -> Iterator[str]:
        """The sampler must flip with the chance shown, and take every cell's own row."""
        yield from super().sampler_problems()
        if not np.array_equal(self._narrow_row, self.row):
            yield "the sampler takes other rows for the cells than the channel shows"

    def likelihood(self) -> Floats:
        """P(output | cell)."""
        refuse_dense(self.size, "the likelihood")
        right, wrong = self._chances()
        minus = self._odd(np.arange(self.order)).T
        both = np.stack([np.where(minus, wrong, right), np.where(minus, right, wrong)], axis=-1)
        return both.reshape(self.size, self.outputs) / self.order

    def report_likelihood(self, outputs: Outputs) -> Floats:
        """The chance of the sign, whatever the chance of its column."""
        symbols = as_symbols(outputs)
        right, wrong = self._chances()
        agrees = self._odd(symbols >> 1) == (symbols & 1)[:, None]
        return np.where(agrees, right, wrong)

    def coefficients(self, weights: Floats) -> Floats:
        """Both signs of a column side by side: c ± s·(transform of the centred weights)."""
        centre = weights.mean(axis=-1, keepdims=True)
        along = self.scale * self.to_columns(weights - centre)
        return self._both(centre, along)

    def gather(self, profile: Floats) -> Floats:
        """The transform of plus less minus counts; all cells together count everybody."""
        along = self.scale * self.to_cells(profile[..., 0::2] - profile[..., 1::2])
        return with_known_total(along, profile.sum(axis=-1))

    def second_moment(self, weights: ArrayLike) -> Floats:
        """(f − c)² has the same mean for everyone, so only 2c(f − c) + c² tells cells apart."""
        w = as_weights(weights, self.size)
        centre = w.mean(axis=-1, keepdims=True)
        off = w - centre
        spread = self.scale**2 * np.sum(off**2, axis=-1, keepdims=True)
        result: Floats = spread + centre * (2 * off + centre)
        return result

    @property
    def spread(self) -> Spread:
        """The constants of E[f² | x]: one's own cell adds nothing."""
        return Spread(0.0, self.scale**2)

    def mix(self, law: Floats) -> Floats:
        """Every column with the same chance, and its sign from the transform of the law."""
        even = law.sum(axis=-1, keepdims=True) / self.outputs
        return self._both(even, self.to_columns(law) / (self.scale * self.outputs))

    def expect(self, table: Floats) -> Floats:
        """The mean over all outputs, and what the sign adds at each cell."""
        plus, minus = table[..., 0::2], table[..., 1::2]
        along = self.to_cells(plus - minus) / self.scale
        result: Floats = (table.sum(axis=-1, keepdims=True) + along) / self.outputs
        return result

    def _both(self, centre: Floats, along: Floats) -> Floats:
        """Values centre ± along, the two signs of each column side by side."""
        result = np.empty((*along.shape[:-1], self.outputs))
        np.add(centre, along, out=result[..., 0::2])
        np.subtract(centre, along, out=result[..., 1::2])
        return result

    def to_columns(self, values: Floats) -> Floats:
        """Σ_x values[x]·H[x, j] for every column j, along the last axis."""
        cell, nobodys = self._cell
        by_row = np.take(values, cell, axis=-1)
        by_row[..., nobodys] = 0.0
        return walsh_hadamard(by_row)

    def to_cells(self, values: Floats) -> Floats:
        """Σ_j values[j]·H[x, j] for every cell x, along the last axis."""
        return np.take(walsh_hadamard(values), self.row, axis=-1)

    @cached_property
    def _cell(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The cell of every row, any where it is nobody's, and the rows that are."""
        cell = np.full(self.order, -1)
        cell[self.row] = np.arange(self.size)
        return cell, np.flatnonzero(cell < 0)

    def _odd(self, columns: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Where the sign is −1: one row per column of the matrix, one entry per cell."""
        both = columns[:, None] & self.row
        odd: NDArray[np.uint8] = np.bitwise_count(both) & np.uint8(1)
        return odd

    def _chances(self) -> tuple[float, float]:
        """P(the true sign) and P(the other)."""
        total = 1 << self.precision
        return (total - self.flips) / total, self.flips / total
