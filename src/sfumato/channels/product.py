"""The product of two channels on a grid: rows go through one, columns through the other.

Guarantee:
    The channels draw independently, so their guarantees add: E1(r, r') + E2(c, c'), which is at
    most E for all pairs of cells, decided exactly.

Estimator:
    Unbiased functions multiply: weights are read column by column, and then row by row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Cells, Floats
from sfumato.channels.base import SymbolChannel, as_symbols, refuse_dense
from sfumato.channels.choice import Choice, Trial, choice_to_dict, read_choice
from sfumato.channels.code import Code, Value
from sfumato.channels.geometric import Geometric
from sfumato.channels.odds import Findings
from sfumato.errors import StudyError, shown
from sfumato.exact import whole
from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.distance import LineMetric
from sfumato.metrics.grids import GridMetric, grid_within
from sfumato.metrics.norm_grids import NormGridMetric
from sfumato.randomness.bits import BitSource
from sfumato.randomness.draws import Steps

MOST_CELLS = 2048


@dataclass(frozen=True, slots=True)
class Product(Choice):
    """Choose one channel that perturbs the rows and the columns of a grid independently.

    It fits every metric on cells that form a grid, row by row, such as places on a map: E is
    replaced by the sum of two lines, nowhere beyond it.

    Args:
        shape: The number of rows and of columns.
        channel: What rows and columns go through; a channel for `Distance` that sends symbols.

    Example:
        >>> import sfumato as sf
        >>> squares = {f"{row}{column}": (row, column) for row in range(4) for column in range(5)}
        >>> board = sf.categories(
        ...     "square", squares, protect=sf.Points(1, at=squares), channel=sf.Product((4, 5))
        ... )
        >>> sf.audit(sf.Study("board", [board])).holds
        True
    """

    id: ClassVar[str] = "product"
    shape: tuple[int, int]
    channel: Choice = field(default_factory=Geometric)

    def __post_init__(self) -> None:
        """Read the shape, and the channel where it comes from a file."""
        given: Any = self.shape
        several = given if isinstance(given, list | tuple) else []
        # The command line gives text.
        read = [
            int(s) if isinstance(s, str) and s.isdecimal() and len(s) < 5 else s for s in several
        ]
        sides = [side for side in map(whole, read) if side is not None and side >= 2]
        if len(several) != 2 or len(sides) != 2:
            raise StudyError(
                "shape must be the number of rows and of columns, two or more of each, such as "
                f"(3, 4); got shape={shown(given)}"
            )
        object.__setattr__(self, "shape", tuple(sides))
        object.__setattr__(self, "channel", read_choice(self.channel, "channel"))

    @property
    def title(self) -> str:
        """What `explain` calls it."""
        return (
            f"the {self.channel.id} channel on {self.shape[0]} rows and on {self.shape[1]} columns"
        )

    def misfit(self, metric: CellMetric) -> str | None:
        """Cells must form the grid, and the channel must fit lines."""
        rows, columns = self.shape
        if rows * columns != metric.size:
            return (
                f"shape ({rows}, {columns}) has {rows * columns} cells, and there are {metric.size}"
            )
        if metric.size > MOST_CELLS and not isinstance(metric, NormGridMetric):
            return f"it takes up to {MOST_CELLS} cells, and there are {metric.size}"
        within = grid_within(metric, self.shape)
        if within is None:
            return "no two rows, or no two columns, have to hide from each other; use PerBlock(...)"
        return self.channel.misfit(within.rows) or self.channel.misfit(within.columns)

    def bind(
        self, metric: CellMetric, *, precision: int = 64, resolution: int = 0
    ) -> ProductChannel:
        """Bind the channel to the rows and to the columns.

        Args:
            metric: E between the cells.
            precision: How many bits of a random word take part.
            resolution: Bits of a value's place between two cells; 0 without stochastic rounding.
        """
        self.refuse_misfit(metric, resolution)
        within = grid_within(metric, self.shape)
        assert within is not None  # noqa: S101 - misfit has refused it
        lines = (within.rows, within.columns)
        first, second = (self.channel.bind(line, precision=precision) for line in lines)
        if not isinstance(first, SymbolChannel) or not isinstance(second, SymbolChannel):
            raise StudyError(
                f"{type(self.channel).__name__} sends bits, and a product needs symbols; use "
                "Geometric()"
            )
        return ProductChannel(metric=within, first=first, second=second, precision=precision)

    def options(self) -> dict[str, Any]:
        """The shape, and the channel unless it is geometric noise."""
        usual = self.channel == Geometric()
        return {
            "shape": list(self.shape),
            **({} if usual else {"channel": choice_to_dict(self.channel)}),
        }

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """A grid of unequal sides, and one whose E is no sum."""
        city = GridMetric(LineMetric.equal(Fraction(1), 2), LineMetric.equal(Fraction(1, 2), 3))
        numerators, denominator = city.integers()
        bent = [[0, 10, 10, 14], [10, 0, 14, 10], [10, 14, 0, 10], [14, 10, 10, 0]]
        return (
            Trial(choice=cls((2, 3)), metric=TableMetric(numerators, denominator, 6)),
            Trial(choice=cls((2, 2)), metric=TableMetric(np.array(bent), 10, 4)),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class ProductChannel(SymbolChannel):
    """A symbol of the rows and one of the columns, as one number."""

    id: ClassVar[str] = "product"
    metric: GridMetric
    first: SymbolChannel = field(repr=False)
    second: SymbolChannel = field(repr=False)
    precision: int = 64

    @property
    def outputs(self) -> int:
        """Pairs of symbols."""
        return self.first.outputs * self.second.outputs

    @property
    def linear(self) -> bool:
        """Whether both readings are."""
        return self.first.linear and self.second.linear

    def encode(self, cells: Cells, bits: BitSource) -> NDArray[np.integer[Any]]:
        """Rows first, then columns.

        Args:
            cells: One cell per person.
            bits: Where randomness comes from.
        """
        row, column = np.divmod(np.asarray(cells, dtype=np.int64), self.second.size)
        down = as_symbols(self.first.encode(row, bits))
        across = as_symbols(self.second.encode(column, bits))
        return (down * self.second.outputs + across).astype(self.symbol_type())

    def steps(self, cells: NDArray[np.int64]) -> Steps | None:
        """The steps of the rows' channel, then of the columns'."""
        row, column = np.divmod(cells, self.second.size)
        down, across = self.first.steps(row), self.second.steps(column)
        if down is None or across is None:
            return None
        return _one_after_the_other(down, across, self.second.outputs)

    def device_code(self, code: Code, cell: Value) -> Value:
        """The code of the rows' channel, then of the columns'.

        Args:
            code: Where instructions are added.
            cell: The cell.
        """
        row, column = code.unravelled(cell, (self.first.size, self.second.size))
        down = self.first.device_code(code, row)
        return down * self.second.outputs + self.second.device_code(code, column)

    def words(self) -> tuple[list[list[int]], int]:
        """Products of the words of both."""
        refuse_dense(self.size, "the likelihood")
        (down, one), (across, other) = self.first.words(), self.second.words()
        rows = [[a * b for a in row for b in column] for row in down for column in across]
        return rows, one * other

    def likelihood(self) -> Floats:
        """P(output | cell)."""
        refuse_dense(self.size, "the likelihood")
        return np.kron(self.first.likelihood(), self.second.likelihood()).astype(np.float64)

    def coefficients(self, weights: Floats) -> Floats:
        """Columns are read within every row, then rows."""
        return self._along(weights, "coefficients", (self.first.size, self.second.size))

    def gather(self, profile: Floats) -> Floats:
        """The transposed readings."""
        return self._along(profile, "gather", (self.first.outputs, self.second.outputs))

    def expect(self, table: Floats) -> Floats:
        """E[g(output) | x], by columns and then by rows."""
        return self._along(table, "expect", (self.first.outputs, self.second.outputs))

    def mix(self, law: Floats) -> Floats:
        """The law of the output for a law of cells."""
        return self._along(law, "mix", (self.first.size, self.second.size))

    def _along(self, table: Floats, method: str, shape: tuple[int, int]) -> Floats:
        """A linear method of both channels, along the columns and then along the rows."""
        grid = table.reshape(*table.shape[:-1], *shape)
        across = getattr(self.second, method)(grid)
        down = getattr(self.first, method)(np.swapaxes(across, -1, -2))
        found = np.swapaxes(down, -1, -2)
        return np.ascontiguousarray(found).reshape(*table.shape[:-1], -1)

    def check_structure(self, metric: CellMetric, found: Findings) -> None:
        """Both channels must keep their lines, whose sum is within E.

        Args:
            metric: E between the cells.
            found: Where findings are added.
        """
        if metric != self.metric:
            super().check_structure(metric, found)
            return
        columns = self.second.size
        found.merge(self.first.check(self.metric.rows), range(0, self.size, columns))
        found.merge(self.second.check(self.metric.columns), range(columns))
        found.by_structure(self.size * (self.size - 1))


def _side(given: Any) -> int | None:
    """A whole number, which the command line gives as text; None if it is none."""
    text = isinstance(given, str) and given.isdecimal() and len(given) < 5
    return int(given) if text else whole(given)


def _one_after_the_other(down: Steps, across: Steps, columns: int) -> Steps:
    """Both kinds of steps, and the two symbols as one number."""
    first = yield from down
    second = yield from across
    return first * columns + second
