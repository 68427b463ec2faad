"""Noise on a lattice whose weight falls with the distance: places on a map, moved to a near cell.

Guarantee:
    E(x, x') = ‖x − x'‖ on a grid of ordered axes, for the norms 2, 1 and infinity of the steps
    along them, with a cap or without; exact for the integer tables, and tight but for their
    rounding. The factor ½ of the exponential channel is not needed.

Noise z is drawn on the whole lattice with weights that fall with ‖z‖. Their sum is the same at
every cell, so only ‖x − x'‖ ≥ |‖y − x‖ − ‖y − x'‖| counts. What falls outside of the grid moves to
the nearest cell, axis by axis, which cannot tell more.

Proof for the tables. Let φ be a function on the lattice with |φ(z) − φ(z')| <= E(z − z'), and
M(z) = A·e^−φ(z). Then M(y − x) <= e^E(x,x')·M(y − x') for all y, and sums over the y that move to
one cell keep that. Here φ(z) is (1 − η)·‖z‖ up to the table's reach, rounded to the nearest
multiple of a unit u; it goes on with slopes κ beyond, so that tails are geometric series:

- Before rounding φ changes by at most (1 − η)·E: within the reach by the triangle inequality;
  beyond it because the slopes are those of the norm at the corner, and the norm's own slopes at an
  edge are no larger along the other axes. (For the norm infinity φ is flat where one axis is beyond
  the others' reach, and the slopes share 1.) Rounding adds at most u, and u + 2^−40 <= η·E for the
  least E, where 2^−40 covers that E itself is rounded down.
- Words N(z) are M(z) rounded down: e^−φ is a product of factors for the digits of φ/u, each rounded
  down. What N lacks is known from bounds of the factors. An output inside stands for one z, one at
  an edge for a row of them, one in a corner for a quarter of the plane. So an output has between
  P − δ and P words, where P is its exact weight and δ the sum of what all these may lack.
- With k words an event that does not depend on x puts out the same output. From k >= δ/(1 − e^−E)
  for the least E follows (N(y|x) + k) <= e^E·(N(y|x') + δ) + k <= e^E·(N(y|x') + k) for all pairs.
- Under a cap c also k >= (max P − e^c·min N)/(e^c − 1), which is the cap for all pairs at once. The
  largest P is that of the output's own cell, the smallest N that of the farthest one, since φ grows
  along every axis.

Two words decide a report: the first picks a class of noise or a row of the event, the second the
signs, and with them the cell in that row.

Estimator:
    The inverse of the law: a matrix for few cells; for many an iteration with Fourier transforms,
    which ends where what is left is nothing beside a reading's own spread.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import PEOPLE_AT_ONCE, Cells, Floats
from sfumato.channels.base import SymbolChannel, refuse_dense
from sfumato.channels.choice import Choice, Trial
from sfumato.channels.code import Code, RowProducts, Value, runs
from sfumato.channels.lattice_noise import LatticeNoise
from sfumato.channels.odds import Findings
from sfumato.channels.planar_check import check_tables
from sfumato.channels.planar_tables import (
    PlanarTables,
    planar_tables,
    reach_of,
    shares_of,
    signs_of,
)
from sfumato.errors import StudyError
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.norm_grids import NormGridMetric
from sfumato.randomness.bits import BitSource
from sfumato.randomness.draws import Pick, Steps
from sfumato.randomness.tables import WordTable

#: Classes of noise, so that a device program stays below a megabyte.
MOST_CLASSES = 1 << 18


@dataclass(frozen=True, slots=True)
class Planar(Choice):
    """Choose noise on the plane; it fits distances of places and of records of ordered axes.

    Example:
        >>> import sfumato as sf
        >>> seat = sf.together(
        ...     [sf.integers("row", 0, 15), sf.integers("column", 0, 15)],
        ...     protect=sf.Lp(epsilon=1, p=2),
        ...     channel=sf.Planar(),
        ... )
        >>> sf.Study("seats", [seat]).guarantee.between(
        ...     {"row": 1, "column": 1}, {"row": 4, "column": 5}
        ... )
        5.0
    """

    id: ClassVar[str] = "planar"

    def misfit(self, metric: CellMetric) -> str | None:
        """It needs a norm of steps along ordered axes, and a table of moderate size."""
        if not isinstance(metric, NormGridMetric):
            return "it needs several ordered axes together under protect=Lp(...)"
        classes = math.prod(far + 1 for far in reach_of(metric))
        if classes > MOST_CLASSES:
            return (
                f"its table would have {classes:,} entries; the limit is {MOST_CLASSES:,}, which "
                "512 × 512 cells need. Use fewer cells or a larger epsilon"
            )
        return None

    def bind(
        self, metric: CellMetric, *, precision: int = 64, resolution: int = 0
    ) -> PlanarChannel:
        """Build the tables.

        Args:
            metric: E between the cells.
            precision: How many bits of a random word take part.
            resolution: Bits of a value's place between two cells; 0 without stochastic rounding.
        """
        self.refuse_misfit(metric, resolution)
        if not isinstance(metric, NormGridMetric):
            raise StudyError(f"Planar does not fit this axis: {self.misfit(metric)}")
        return PlanarChannel(metric=metric, precision=precision)

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """Grids of two and three axes, all norms, equal and unequal steps, with and without cap."""
        one, half = Fraction(1), Fraction(1, 2)
        records = NormGridMetric(shape=(2, 3), steps=(one, half))
        metrics = (
            NormGridMetric(shape=(3, 4), steps=(one, half)),
            NormGridMetric(shape=(2, 2), steps=(2 * one, 2 * one)),
            NormGridMetric(shape=(4, 3), steps=(half, half), order=math.inf),
            NormGridMetric(shape=(3, 3), steps=(one, one), order=Fraction(1)),
            NormGridMetric(shape=(5, 2), steps=(half, one), cap=Fraction(6, 5)),
            NormGridMetric(shape=(2, 2, 2), steps=(2 * one, 2 * one, one)),
        )
        return (
            *(Trial(choice=cls(), metric=metric, spends=0.85) for metric in metrics),
            Trial(choice=cls(), metric=records, shape=records.shape, ordered=(True, True)),
        )


@lru_cache(maxsize=4)  # a study binds what its planner has just tried
def _tables(metric: NormGridMetric, precision: int) -> PlanarTables:
    """The tables, computed once."""
    return planar_tables(metric, precision)


@dataclass(frozen=True, kw_only=True, eq=False)
class PlanarChannel(SymbolChannel):
    """Noise from integer tables, moved into the grid; with a small chance a cell by a fixed law."""

    id: ClassVar[str] = "planar"
    moves_cells: ClassVar[bool] = True
    metric: NormGridMetric
    precision: int = 64
    tables: PlanarTables = field(init=False, repr=False)
    _first: WordTable = field(init=False, repr=False)
    _second: WordTable = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Build the tables once; both ends of the channel read them."""
        tables = _tables(self.metric, self.precision)
        object.__setattr__(self, "tables", tables)
        object.__setattr__(self, "_first", WordTable(tables.weights, self.precision))
        signs = 1 << len(self.shape)
        object.__setattr__(self, "_second", WordTable(tables.across * signs, self.precision))

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells along every axis."""
        return self.metric.shape

    @cached_property
    def _moves(self) -> list[NDArray[np.int32]]:
        """How far every outcome of the first word moves along every axis, 0 for fixed rows."""
        sides = self.tables.falling.sides
        places = np.unravel_index(np.arange(self.tables.classes), sides)
        spare = np.zeros(self.shape[0], dtype=np.int32)
        return [np.concatenate([place.astype(np.int32), spare]) for place in places]

    @cached_property
    def _signs(self) -> NDArray[np.int32]:
        """The sign of every outcome of the second word, one row per axis."""
        signs = signs_of(len(self.shape)).astype(np.int32)
        return np.repeat(signs, len(self.tables.across), axis=0).T.copy()

    def encode(self, cells: Cells, bits: BitSource) -> Cells:
        """Move cells by noise, or put out what the words alone determine.

        Args:
            cells: One cell per person.
            bits: Where randomness comes from.
        """
        out = np.empty(len(cells), dtype=self.symbol_type())
        for start in range(0, len(cells), PEOPLE_AT_ONCE):
            part = np.asarray(cells[start : start + PEOPLE_AT_ONCE], dtype=np.int64)
            first = self._first.draw(bits, len(part))
            second = self._second.draw(bits, len(part))
            out[start : start + len(part)] = self._moved(part, first, second)
        return out

    def _moved(
        self, cells: NDArray[np.int64], first: NDArray[Any], second: NDArray[Any]
    ) -> NDArray[np.int64]:
        """The outputs of two outcomes."""
        left, found = cells, np.zeros(len(cells), dtype=np.int64)
        stride = 1
        for axis in range(len(self.shape) - 1, -1, -1):
            size = self.shape[axis]
            left, place = np.divmod(left, size) if axis else (left, left)
            moved = self._moves[axis].take(first) * self._signs[axis].take(second) + place
            found += np.clip(moved, 0, size - 1) * stride
            stride *= size
        fixed = np.flatnonzero(first >= self.tables.classes)
        if fixed.size:
            rest = len(self.tables.across)
            row = first[fixed].astype(np.int64) - self.tables.classes
            found[fixed] = row * rest + second[fixed] % rest
        return found

    def steps(self, cells: NDArray[np.int64]) -> Steps:
        """A class of noise or a fixed row; then the signs, and the cell in such a row."""
        first, second = self._picks
        one = yield first
        other = yield second
        return self._moved(cells, one, other)

    @cached_property
    def _picks(self) -> tuple[Pick, Pick]:
        """The two draws; made once, since the tables may be long."""
        return (
            Pick(self._first.weights, self.precision),
            Pick(self._second.weights, self.precision),
        )

    def device_code(self, code: Code, cell: Value) -> Value:
        """Two draws, of which the first is given by its rule.

        Args:
            code: Where instructions are added.
            cell: The cell.
        """
        tables, falling = self.tables, self.tables.falling
        rows = [int(word) for word in tables.weights[tables.classes :]]
        shares = [*(int(share) for share in shares_of(falling, tables.scale)), *rows[:-1]]
        spare = np.zeros((len(rows) - 1, falling.digits), dtype=np.int64)
        table = RowProducts(
            bits=self.precision,
            base=0,
            shares=shares,
            factors=falling.factors,
            shift=falling.shift,
            digits=np.concatenate([falling.places, spare])[:, None],
        )
        first = code.row_of_products(table, code.constant(0))
        second = code.pick(runs(self._second.weights), self.precision)
        rest, classes = len(tables.across), tables.classes
        signs = second // rest
        places = code.unravelled(cell, self.shape)
        moves = code.unravelled(first, falling.sides)
        found: Value | None = None
        for axis, (size, place, move) in enumerate(zip(self.shape, places, moves, strict=True)):
            minus = (signs >> (len(self.shape) - 1 - axis)) & 1
            moved = code.clamp(code.select(minus, place - move, place + move), 0, size - 1)
            found = moved if found is None else found * size + moved
        assert found is not None  # noqa: S101 - there are axes
        fixed = (first - classes) * rest + second % rest
        return code.select(code.less(first, classes), found, fixed)

    @cached_property
    def noise(self) -> LatticeNoise:
        """The law in floats, with its transforms and its inverse."""
        total = float(1 << self.precision)
        words = np.array([int(word) for word in self.tables.weights], dtype=np.float64) / total
        across = np.array([int(word) for word in self.tables.across], dtype=np.float64)
        noise = words[: self.tables.classes].reshape(self.tables.falling.sides)
        rest = float(sum(self.tables.across))
        fixed = np.multiply.outer(words[self.tables.classes :], across / rest)
        return LatticeNoise(shape=self.shape, classes=noise, fixed=fixed.ravel())

    def words(self) -> tuple[list[list[int]], int]:
        """Exact word counts of two words: the noise moved and gathered at edges, the fixed law."""
        refuse_dense(self.size, "the likelihood")
        noise, fixed = self.exact_words()
        rows = []
        for cell in np.ndindex(*self.shape):
            held = noise
            for axis, (size, place) in enumerate(zip(self.shape, cell, strict=True)):
                held = _gathered(held, axis, size, place)
            rows.append([int(word) for word in (held + fixed).ravel()])
        return rows, 1 << 2 * self.precision

    def exact_words(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Words of every displacement from −reach to reach, and of the fixed law, of two words."""
        tables, axes = self.tables, len(self.shape)
        noise: NDArray[Any] = np.array(tables.weights[: tables.classes], dtype=object)
        # With the second word each pattern of signs has the same share.
        noise = noise.reshape(tables.falling.sides) << (self.precision - axes)
        for axis, side in enumerate(tables.falling.sides):
            both = [*range(side - 1, 0, -1), *range(side)]
            own = np.ones(len(both), dtype=object)
            own[side - 1] = 2
            turned = [-1 if a == axis else 1 for a in range(axes)]
            noise = np.take(noise, both, axis=axis) * own.reshape(turned)
        down = np.array(tables.weights[tables.classes :], dtype=object)
        across = np.array(tables.across, dtype=object) << axes
        return noise, np.multiply.outer(down, across).reshape(self.shape)

    def likelihood(self) -> Floats:
        """P(output | cell)."""
        refuse_dense(self.size, "the likelihood")
        return self.noise.matrix()

    def expect(self, table: Floats) -> Floats:
        """E[g(output) | x], by Fourier transforms."""
        return self.noise.expect(table)

    def mix(self, law: Floats) -> Floats:
        """The law of the output for a law of cells, by Fourier transforms."""
        return self.noise.mix(law)

    def grouped(self, groups: tuple[int, ...]) -> Floats:
        """From the kernel of the noise, in few products.

        Args:
            groups: How many neighbouring cells of every axis are joined.
        """
        return self.noise.grouped(groups)

    def coefficients(self, weights: Floats) -> Floats:
        """The inverse of the law."""
        return self.noise.solve(weights)

    def gather(self, profile: Floats) -> Floats:
        """The transposed inverse."""
        return self.noise.solve_transposed(profile)

    def sampler_problems(self) -> Iterator[str]:
        """The samplers must look up the tables."""
        signs = 1 << len(self.shape)
        if self._first.weights != self.tables.weights:
            yield "the sampler's noise is not that of the tables"
        if self._second.weights != self.tables.across * signs:
            yield "the sampler's signs are not equally likely"
        for table in (self._first, self._second):
            if table.precision != self.precision:
                yield "a table has another precision than the channel"
            yield from table.problems()

    def check_structure(self, metric: CellMetric, found: Findings) -> None:
        """The proof above, step by step, for the words of every class and of the fixed law.

        Args:
            metric: E between the cells.
            found: Where findings are added.
        """
        if metric != self.metric:
            super().check_structure(metric, found)
            return
        check_tables(self.metric, self.tables, self.precision, found)


def _gathered(words: NDArray[Any], axis: int, size: int, place: int) -> NDArray[Any]:
    """Along one axis: displacements become outputs, and those outside move to the edges."""
    reach = (words.shape[axis] - 1) // 2
    parts = []
    for y in range(size):
        low, high = y - place + reach, y - place + reach + 1
        low = 0 if y == 0 else min(max(low, 0), 2 * reach + 1)
        high = 2 * reach + 1 if y == size - 1 else min(max(high, 0), 2 * reach + 1)
        held = np.take(words, range(low, max(low, high)), axis=axis)
        parts.append(held.sum(axis=axis, keepdims=True))
    return np.concatenate(parts, axis=axis)
