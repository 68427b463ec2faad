"""Hadamard response: a random column of a Hadamard matrix, more likely with +1 in the cell's row.

For plain local privacy, within blocks, and for sensitive cells alone (Acharya et al. 2020).

Guarantee:
    One ε for all pairs, or within blocks, or from sensitive cells, exact for the integer table and
    tight. Between blocks, and from cells that are not sensitive, E is infinite: reports reveal the
    block, and often a cell that is not sensitive. A cell alone in its block is reported as it is.

Estimator:
    With c = (e^ε + 1)/(e^ε − 1), a row H[x] of a matrix of order K for every cell of a block, and
    w̃ the weights less their mean m in the block, f(y) = m + c·Σ_x w̃[x]·H[x, y]. This is the
    paper's reading (15), (16), (19) but for m, which it lacks: as the block is known, f is unbiased
    with any m, and with the mean the block as a whole is read without error. With sensitive cells,
    another cell with a symbol of its own reads c·w − (c − 1)·m, m their mean weight.

References:
    Acharya et al. 2020, (13)–(16) and (19), with the all-ones row of (13) left out and the others
    scattered over cells; Acharya, Sun and Zhang 2019 for one block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import DENSE_CELLS, Cells, Floats, Outputs, words_for
from sfumato.channels.base import SymbolChannel, as_symbols, claimed_tightness, refuse_dense
from sfumato.channels.choice import Choice, Trial, uniform_trials
from sfumato.channels.code import Code, Value
from sfumato.channels.every import Spread, even_peaks, even_squares
from sfumato.channels.flips import flips_within
from sfumato.channels.hadamard_blocks import Matrices, matrices_of
from sfumato.channels.odds import Bound, Findings
from sfumato.channels.transforms import walsh_hadamard
from sfumato.errors import StudyError
from sfumato.exact import exp_floor
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.labelled import BlockMetric, HighLowMetric, same_marks
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import BitSource
from sfumato.randomness.draws import Flips, Lane, Steps
from sfumato.randomness.tables import FlipTable

Context = UniformMetric | BlockMetric | HighLowMetric

MOST_CELLS = 1 << 30  # a column is sent in four bytes
_PEOPLE_AT_ONCE = 1 << 16  # a multiple of 64
_MOST_LISTED = 1 << 24  # entries of a matrix of cells by outputs


@dataclass(frozen=True, slots=True)
class Hadamard(Choice):
    """Choose Hadamard response; it fits `Uniform`, `Blocks` and `HighLow`, with millions of cells.

    A report is a column's number, ⌈log2⌉ of at most twice as many symbols as there are cells. Where
    only places within a city must be hidden, or only some answers, the error is that of the city,
    or of these answers alone.

    Example:
        >>> import sfumato as sf
        >>> towns = sf.Blocks(epsilon=1, blocks=[["Leith", "Niddrie", "Granton"], ["Govan"]])
        >>> names = ["Leith", "Niddrie", "Granton", "Govan"]
        >>> home = sf.categories("home", names, protect=towns, channel=sf.Hadamard())
        >>> study = sf.Study("towns", [home])
        >>> study.channels[0].outputs
        5
        >>> tally = study.simulate({"home": ["Leith"] * 3_000 + ["Govan"] * 1_000}, seed=5)
        >>> est = tally.estimate("unbiased")
        >>> print(est.count({"home": "Govan"}))
        1,000 ± 0
        >>> leith = est.count({"home": "Leith"})
        >>> leith.low < 3_000 < leith.high
        True
    """

    id: ClassVar[str] = "hadamard"
    revision: ClassVar[int] = 2

    def misfit(self, metric: CellMetric) -> str | None:
        """It needs one ε, for all pairs, within blocks, or from sensitive cells."""
        if not isinstance(metric, Context):
            return "it needs protect=Uniform(...), Blocks(...) or HighLow(...)"
        if metric.size > MOST_CELLS:
            return f"it takes up to {MOST_CELLS} cells, and there are {metric.size}"
        return None

    def bind(
        self, metric: CellMetric, *, precision: int = 64, resolution: int = 0
    ) -> HadamardChannel:
        """Build the chance of a column without the cell's +1.

        Args:
            metric: E between the cells.
            precision: How many bits of a random word take part.
            resolution: Bits of a value's place between two cells; 0 without stochastic rounding.
        """
        self.refuse_misfit(metric, resolution)
        if not isinstance(metric, Context):
            raise StudyError(f"Hadamard does not fit this axis: {self.misfit(metric)}")
        return HadamardChannel(metric=metric, precision=precision)

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """One ε for all; blocks of several sizes and of one cell; sensitive cells, all or some."""
        eps = Fraction(1)
        contexts: tuple[Context, ...] = (
            BlockMetric(eps, np.array([0, 1, 0, 2, 1, 1, 0, 1])),
            BlockMetric(eps, np.array([0, 1, 2])),
            HighLowMetric(eps, np.array([True, False, True, False, True])),
            HighLowMetric(eps, np.array([False, True, False])),
            HighLowMetric(eps, np.array([True, True, True])),
        )
        return (
            *uniform_trials(cls(), (2, 5), (2, 3)),
            *uniform_trials(cls(), (4,), epsilon="1/10"),
            *(Trial(choice=cls(), metric=metric) for metric in contexts),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class HadamardChannel(SymbolChannel):
    """Outputs are the columns of every block's matrix, then a symbol for each cell without one."""

    id: ClassVar[str] = "hadamard"
    metric: Context
    precision: int = 64
    matrices: Matrices = field(init=False, repr=False)
    flips: int = field(init=False)
    _flips: FlipTable = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Round the chance of a wrong column up, so that the odds stay within bounds."""
        matrices = matrices_of(self.metric)
        flips = flips_within(self.metric.epsilon, self.precision) if matrices.hides else 0
        chances = [flips, 2 * flips] if matrices.covered else [flips]
        object.__setattr__(self, "matrices", matrices)
        object.__setattr__(self, "flips", flips)
        object.__setattr__(self, "_flips", FlipTable(chances, self.precision))

    @property
    def tightness(self) -> float:  # type: ignore[override]
        """Pairs with finite E spend all of ε, except for the rounding of a probability."""
        if not self.matrices.hides:
            return 0.0
        return claimed_tightness(exp_floor(self.metric.epsilon), self.precision)

    @property
    def outputs(self) -> int:
        """Columns of all matrices, and cells that have a symbol of their own."""
        return self.matrices.outputs

    @property
    def gain(self) -> float:
        """1/c = (e^ε − 1)/(e^ε + 1), of the integer table."""
        total = 1 << self.precision
        return (total - 2 * self.flips) / total

    def encode(self, cells: Cells, bits: BitSource) -> NDArray[np.integer[Any]]:
        """A random column; where it has the wrong sign for the cell, one bit of it is changed.

        Changing a bit that is set in the row's number changes the sign there and pairs columns up,
        so that every column of the wanted sign is equally likely.

        Args:
            cells: One cell per person.
            bits: Where randomness comes from.
        """
        out = np.empty(len(cells), dtype=self.symbol_type())
        matrices = self.matrices
        for start in range(0, len(cells), _PEOPLE_AT_ONCE):
            part = np.asarray(cells[start : start + _PEOPLE_AT_ONCE], dtype=np.int64)
            place = matrices.place[part]
            if not matrices.hides:
                out[start : start + len(part)] = place
                continue
            row = matrices.row[part]
            column = _lanes(bits, len(part), matrices.largest) & matrices.mask[part]
            flips = self._flips.draw(bits, slice(0, 1 + matrices.covered), words_for(len(part)))
            packed = flips.astype("<u8", copy=False).view(np.uint8)
            flip = np.unpackbits(packed, count=len(part), bitorder="little", axis=1)
            wrong = (np.bitwise_count(row & column) & 1) ^ flip[0]
            column ^= (row & (~row + np.uint32(1))) * wrong
            symbol = place - row + column
            if matrices.covered:
                # Without luck in the second draw, any column of the sensitive cells' matrix.
                told = (row == 0) & (flip[1] == 0)
                symbol = np.where(told, place, np.where(row == 0, column, symbol))
            out[start : start + len(part)] = symbol
        return out

    def steps(self, cells: NDArray[np.int64]) -> Steps:
        """A column of the cell's matrix, moved to the wanted sign; or any, or the cell's own."""
        matrices = self.matrices
        place, row = matrices.place[cells], matrices.row[cells].astype(np.int64)
        if not matrices.hides:
            return place
        drawn = yield Lane(*_lane_bits(matrices.largest), low=True)
        column = drawn & matrices.mask[cells]
        chances = [self.flips, 2 * self.flips] if matrices.covered else [self.flips]
        flip = yield Flips(chances, self.precision)
        wrong = (np.bitwise_count(row & column) & 1) ^ flip[:, 0]
        told = place - row + (column ^ (row & -row) * wrong)
        if matrices.covered:
            told = np.where(row > 0, told, np.where(flip[:, 1] > 0, column, place))
        return told

    def device_code(self, code: Code, cell: Value) -> Value:
        """A column of the cell's matrix, moved to the wanted sign; or any, or the cell's own.

        Args:
            code: Where instructions are added.
            cell: The cell.
        """
        matrices = self.matrices
        if not matrices.hides:
            return code.take(matrices.place.tolist(), cell)
        if isinstance(self.metric, UniformMetric):  # one matrix for all: no table is needed
            place = row = code.scattered(cell + 1, matrices.largest)
            column = code.bits(_lane_bits(matrices.largest)[0])
        else:
            place = code.take(matrices.place.tolist(), cell)
            row = code.take(matrices.row.tolist(), cell)
            mask = code.take(matrices.mask.tolist(), cell)
            column = code.bits(_lane_bits(matrices.largest)[0]) & mask
        wrong = code.parity(row & column) ^ code.below(self.flips, self.precision)
        told = place - row + (column ^ (code.lowest_bit(row) * wrong))
        if matrices.covered:
            covered = code.select(code.below(2 * self.flips, self.precision), column, place)
            told = code.select(row, told, covered)
        return told

    def words(self) -> tuple[list[list[int]], int]:
        """Exact word counts; half a matrix's columns together stand for 2^precision of them."""
        self._refuse_large()
        matrices, each = self.matrices, 1 << self.precision
        scale = max(1, matrices.largest // 2)
        rows = []
        for x in range(self.size):
            words = [0] * self.outputs
            place, row = int(matrices.place[x]), int(matrices.row[x])
            if row:
                order = int(matrices.mask[x]) + 1
                for y in range(order):
                    wrong = (row & y).bit_count() & 1
                    share = self.flips if wrong else each - self.flips
                    words[place - row + y] = share * (2 * scale // order)
            elif matrices.covered:
                words[: matrices.largest] = [self.flips] * matrices.largest
                words[place] = scale * (each - 2 * self.flips)
            else:
                words[place] = scale * each
            rows.append(words)
        return rows, scale * each

    def likelihood(self) -> Floats:
        """P(output | cell)."""
        self._refuse_large()
        return self.mix(np.eye(self.size))

    def report_likelihood(self, outputs: Outputs) -> Floats:
        """The chance of the column's sign, or of the symbol; none in other blocks."""
        matrices, symbols = self.matrices, as_symbols(outputs)[:, None]
        start = matrices.place - matrices.row
        column = symbols - start
        inside = (column >= 0) & (column <= matrices.mask)
        odd = np.bitwise_count(column & matrices.row) & 1
        found = np.where(inside, 1 + self.gain * np.where(odd, -1.0, 1.0), 0.0)
        if matrices.covered:
            own = np.where(symbols == matrices.place, self.gain, 0.0)
            low = np.where(symbols < matrices.largest, 1 - self.gain, own)
            found = np.where(matrices.row == 0, low, found)
        return found

    def coefficients(self, weights: Floats) -> Floats:
        """Block by block c·(transform of the centred weights) about their mean."""
        matrices = self.matrices
        result = np.zeros((*weights.shape[:-1], self.outputs))
        centre = matrices.means(weights)
        result[..., matrices.place] = weights - centre[..., matrices.block]
        self._transform(result, 1 / self.gain)
        if matrices.hides:
            result[..., : matrices.columns] += matrices.spread(centre)
        alone = weights[..., matrices.lone]
        if matrices.covered:
            alone = (alone - (1 - self.gain) * centre) / self.gain
        result[..., matrices.columns :] = alone
        return result

    def gather(self, profile: Floats) -> Floats:
        """The transforms of what columns got; cells of a block together count all of it."""
        matrices = self.matrices
        told = profile[..., matrices.columns :]
        if not matrices.hides:
            return self._to_cells(profile)
        along = np.array(profile)
        self._transform(along, 1 / self.gain)
        if matrices.covered:
            along[..., matrices.columns :] = told / self.gain
        found = self._to_cells(along)
        inside = matrices.row != 0
        left = matrices.sums(profile[..., : matrices.columns]) - matrices.totals(found)
        if matrices.covered:
            left -= (1 / self.gain - 1) * told.sum(axis=-1, keepdims=True)
        found += (left / matrices.counts)[..., matrices.block] * inside
        return found

    def all_squares(self, profile: Floats, *, upto: bool) -> Floats:
        """Cells exactly; prefixes under one ε over the gathered cells, by `_even`.

        Args:
            profile: Sums by output along the last axis.
            upto: Whether rows are prefixes 0..x rather than single cells x.
        """
        if not upto:
            return self.cell_squares(profile)
        if not isinstance(self.metric, UniformMetric) or self.size <= DENSE_CELLS:
            return super().all_squares(profile, upto=True)
        return even_squares(self.gather(profile), self._even, upto=True)

    def all_peaks(self, *, upto: bool) -> tuple[Floats, Floats]:
        """Those of a cell's own block, or prefixes under one ε, by `_even`.

        Args:
            upto: Whether rows are prefixes 0..x rather than single cells x.
        """
        if self.size <= DENSE_CELLS or (upto and not isinstance(self.metric, UniformMetric)):
            return super().all_peaks(upto=upto)
        if upto:
            return even_peaks(self.size, self._even, upto=True)
        matrices = self.matrices
        share = 1 / matrices.counts[matrices.block] if matrices.hides else np.ones(self.size)
        among = share * (2 - share) + self._even.others * (1 - share)
        alone = 1 / self.gain if matrices.covered else 1.0
        return np.where(matrices.row != 0, among, alone), np.ones(self.size)

    @property
    def _even(self) -> Spread:
        """The constants of E[f² | x] for rows that are scattered over the matrix.

        Weights w̃ also add c·Σ_y w̃[y]·w̃[y'] over cells y, y' with the rows r(y) ^ r(y') = r(x): for
        many cells in scattered rows, a share of about 1/√cells of c²·Σ w̃².
        """
        return Spread(0.0, 1 / self.gain**2)

    def cell_squares(self, profile: Floats) -> Floats:
        """Σ_y profile[y]·f_x(y)² for every cell x, f_x the reading of the cell alone.

        Within a block of s cells with R = Σ_x H[x], f_x = (1 − c·R)/s + c·H[x], so that the
        square is a constant and one transform.
        """
        matrices, c = self.matrices, 1 / self.gain
        if not matrices.hides:
            return self._to_cells(profile)
        off = np.zeros(self.outputs)
        off[matrices.place[matrices.row != 0]] = 1.0
        self._transform(off, -c)
        counts = matrices.spread(matrices.counts.astype(np.float64))
        off[: matrices.columns] = (off[: matrices.columns] + 1.0) / counts
        seen, told = profile[..., : matrices.columns], profile[..., matrices.columns :]
        even = matrices.sums(seen * (off[: matrices.columns] ** 2 + c**2))
        along = profile * off
        self._transform(along, 2 * c)
        if matrices.covered:
            even += ((c - 1) / matrices.counts) ** 2 * told.sum(axis=-1, keepdims=True)
            along[..., matrices.columns :] = c**2 * told
        else:
            along[..., matrices.columns :] = told
        found = self._to_cells(along)
        found += even[..., matrices.block] * (matrices.row != 0)
        return found

    def mix(self, law: Floats) -> Floats:
        """Every column of a block with the same chance, and signs from the transform of the law."""
        matrices = self.matrices
        result = np.zeros((*law.shape[:-1], self.outputs))
        result[..., matrices.place] = law
        self._transform(result, self.gain)
        alone = law[..., matrices.lone]
        if matrices.hides:
            mass = matrices.totals(law)
            if matrices.covered:
                mass += (1 - self.gain) * alone.sum(axis=-1, keepdims=True)
                alone = self.gain * alone
            result[..., : matrices.columns] += matrices.spread(mass)
            result[..., : matrices.columns] /= matrices.orders
        result[..., matrices.columns :] = alone
        return result

    def expect(self, table: Floats) -> Floats:
        """The mean over all columns of the block, and what the signs add at each cell."""
        matrices = self.matrices
        if not matrices.hides:
            return self._to_cells(table)
        along = np.array(table)
        along[..., : matrices.columns] /= matrices.orders
        mean = matrices.sums(along[..., : matrices.columns])
        self._transform(along, self.gain)
        if matrices.covered:
            along[..., matrices.columns :] = (
                self.gain * table[..., matrices.columns :] + (1 - self.gain) * mean
            )
        found = self._to_cells(along)
        found += mean[..., matrices.block] * (matrices.row != 0)
        return found

    def sampler_problems(self) -> Iterator[str]:
        """Rows must differ, columns be shared only by cells with finite E, and flips agree."""
        matrices, metric = self.matrices, self.metric
        chances = [self.flips, 2 * self.flips] if matrices.covered else [self.flips]
        if self._flips.chances(self.precision) != chances:
            yield "the sampler changes columns with another chance than the channel shows"
        inside = matrices.row != 0
        if len(np.unique(matrices.place)) < self.size or np.any(matrices.row > matrices.mask):
            yield "two cells have one row or symbol, or a row is beyond its matrix"
        start = matrices.place - matrices.row
        if isinstance(metric, BlockMetric):
            names, block = np.unique(metric.block, return_inverse=True)
            pairs = len(np.unique(block * self.outputs + start))
            alone = len(names) == pairs == len(np.unique(start))
        else:
            high = metric.sensitive if isinstance(metric, HighLowMetric) else True
            alone = bool(np.all(inside == high)) and not np.any(start[inside])
        if not alone:
            yield "some cells share columns with others than those they must be hidden among"

    def worst_ratio(self) -> Fraction | None:
        """A column of the cell's sign against one of the other; None where nothing is hidden."""
        return Fraction((1 << self.precision) - self.flips, self.flips) if self.flips else None

    def check_structure(self, metric: CellMetric, found: Findings) -> None:
        """Cells that share a matrix differ in the signs of columns, always with the same odds.

        That only those share one that must be hidden from each other is in `sampler_problems`.

        Args:
            metric: E between the cells.
            found: Where findings are added.
        """
        if not isinstance(metric, UniformMetric) and not same_marks(metric, self.metric):
            found.problems.append("the channel was made for other blocks or sensitive cells")
        elif not self.matrices.hides:  # all cells are told as they are, as E allows
            found.by_structure(2 * (metric.size - 1))
        elif isinstance(metric, BlockMetric | HighLowMetric):
            worst = (1 << self.precision) - self.flips
            found.exact(metric.pairs()[0], worst, self.flips, Bound(metric.epsilon))
            found.by_structure(2 * (metric.size - 1))
        else:
            super().check_structure(metric, found)

    def _to_cells(self, table: Floats) -> Floats:
        """What stands at each cell's row, or at its own symbol."""
        found: Floats = table[..., self.matrices.place]
        return found

    def _transform(self, table: Floats, factor: float) -> None:
        """Transform every block in place, and multiply; symbols of single cells stay."""
        for start, count, order in self.matrices.groups:
            span = slice(start, start + count * order)
            split = table[..., span].reshape(*table.shape[:-1], count, order)
            found = walsh_hadamard(split).reshape(*table.shape[:-1], count * order)
            np.multiply(found, factor, out=table[..., span])

    def _refuse_large(self) -> None:
        """Refuse a matrix of cells by outputs beyond the stated size."""
        if self.size * self.outputs > _MOST_LISTED:
            refuse_dense(self.size, "the likelihood")


def _lanes(bits: BitSource, count: int, order: int) -> NDArray[np.uint32]:
    """Uniform numbers of at least as many bits as columns of the largest matrix have."""
    _, width = _lane_bits(order)
    words = bits.words(-(-count * width // 64)).astype("<u8", copy=False)
    return words.view(f"<u{width // 8}")[:count].astype(np.uint32)


def _lane_bits(order: int) -> tuple[int, int]:
    """Bits that a column of the largest matrix needs, and of the lane that it is drawn from."""
    needed = order.bit_length() - 1
    return needed, 8 if needed <= 8 else 16 if needed <= 16 else 32
