"""The base of tree channels: each person reports one random level, with all of ε.

The cells are seen at several levels of detail. Each person draws a level, with chances that do not
depend on their cell, and tells the node of their cell at that level by a channel of its own.

Guarantee:
    E(x, x') = ε for every pair, exact for the integer tables. The level is part of the report, but
    it is drawn without looking at the cell, so it costs nothing: P(level, y | x) is the level's
    chance times P(y | node of x), and the first factor is the same for all cells.

References:
    Cormode et al. 2019, §4, whose level l has B^l nodes (printed as 2^l).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Cells, Floats, Outputs
from sfumato.channels.base import FEW_RATIOS, Channel, SymbolChannel, as_symbols, refuse_entries
from sfumato.channels.choice import Choice, needs_grid, needs_uniform, uniform_fitted
from sfumato.channels.code import Code, Value, runs
from sfumato.channels.odds import Findings
from sfumato.channels.trees.tree import Levels, Tree, level_tuples
from sfumato.errors import TooLargeError
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import BitSource
from sfumato.randomness.draws import Pick, Steps
from sfumato.randomness.tables import WordTable

MOST_CELLS = 1 << 22
MOST_TUPLES = 1 << 10
MOST_OUTPUTS = 1 << 24
ENTRIES_AT_ONCE = 1 << 22
_PEOPLE_AT_ONCE = 1 << 17


class LevelsChoice(Choice):
    """A channel of levels, not yet bound to an axis: it fits `Uniform`, on one axis or several."""

    def misfit(self, metric: CellMetric) -> str | None:
        """It needs one ε for all pairs, and no more cells than can be read."""
        if not isinstance(metric, UniformMetric):
            return needs_uniform(metric)
        return None if metric.size <= MOST_CELLS else self._too_large(metric.size)

    def bind(
        self, metric: CellMetric, *, precision: int = 64, resolution: int = 0
    ) -> LevelsChannel:
        """The channel of one ordered axis.

        Args:
            metric: E between the cells.
            precision: How many bits of a random word take part.
            resolution: Bits of a value's place between two cells; 0 without stochastic rounding.
        """
        if metric.size > MOST_CELLS:
            raise TooLargeError(self._too_large(metric.size))
        held = uniform_fitted(self, metric, resolution)
        return self.bind_grid(held, (held.size,), (True,), precision=precision)

    @abstractmethod
    def bind_grid(
        self,
        metric: UniformMetric,
        shape: tuple[int, ...],
        ordered: tuple[bool, ...],
        *,
        precision: int = 64,
    ) -> LevelsChannel:
        """Build the channel of every level, and the chances of levels.

        Args:
            metric: One ε for any two cells of the grid.
            shape: Cells along every axis.
            ordered: Which axes have neighbouring cells.
            precision: How many bits of a random word take part.
        """

    def _check_grid(
        self, metric: UniformMetric, shape: Sequence[int], ordered: Sequence[bool]
    ) -> None:
        """Whether shape and order speak of the metric's cells, and these can be read."""
        needs_grid(metric, shape, ordered)
        if metric.size > MOST_CELLS:
            raise TooLargeError(self._too_large(metric.size))

    def _too_large(self, cells: int) -> str:
        """Why there are too many cells, and what would do."""
        return (
            f"{type(self).__name__} on {cells:,} cells needs about {cells * 8 * 16 / 2**30:.0f} "
            f"GiB to read one answer; the limit is {MOST_CELLS:,} cells. Use fewer cells "
            "(bins=..., step=...), or KaryResponse(), which takes more at a larger error"
        )


class AnyLevel:
    """The channel of one level: from all cells, through their nodes at that level.

    Attributes:
        levels: The level on each axis.
        inner: The channel that nodes go through.
    """

    levels: Levels
    inner: Channel


class Level(AnyLevel, ABC):
    """The channel of one level, if it sends symbols."""

    inner: SymbolChannel

    @property
    def outputs(self) -> int:
        """Symbols of this level."""
        return self.inner.outputs

    @abstractmethod
    def encode(self, cells: NDArray[np.int64], bits: BitSource) -> Cells:
        """Symbols, counted from this level's first.

        Args:
            cells: One cell per person.
            bits: Where randomness comes from.
        """

    @abstractmethod
    def steps(self, cells: NDArray[np.int64]) -> Steps:
        """As `Channel.steps`, for this level's symbols."""

    @abstractmethod
    def device_code(self, code: Code, cell: Value) -> Value:
        """As `Channel.device_code`, for this level's symbols.

        Args:
            code: Where instructions are added.
            cell: The cell of the grid.
        """

    @abstractmethod
    def mix(self, law: Floats) -> Floats:
        """The law of this level's symbols."""

    @abstractmethod
    def expect(self, table: Floats) -> Floats:
        """The mean at every cell of a function of this level's symbols."""

    @abstractmethod
    def rows(self) -> tuple[list[list[int]], int]:
        """The exact law of this level's symbols, one row per cell, and its total."""

    @abstractmethod
    def report_likelihood(self, symbols: NDArray[np.int64]) -> Floats:
        """P(symbol | cell) up to a factor per report."""


class LevelsChannel(Channel):
    """A level that is drawn without looking at the cell, and then the channel of that level.

    Attributes:
        parts: The levels.
        level_words: Of 2^precision words, how many draw each level.
    """

    most_ratios: ClassVar[int] = FEW_RATIOS
    parts: tuple[AnyLevel, ...]
    level_words: tuple[int, ...]

    @property
    def chances(self) -> list[float]:
        """With which chance each level is drawn."""
        total = 1 << self.precision
        return [words / total for words in self.level_words]

    @cached_property
    def _draw(self) -> WordTable:
        """The sampler of levels."""
        return WordTable(self.level_words, self.precision)

    @property
    def tightness(self) -> float:  # type: ignore[override]
        """Some pair spends all that the sharpest level claims."""
        return max(part.inner.tightness for part in self.parts)

    def sampler_problems(self) -> Iterator[str]:
        """Levels must be drawn with the chances shown, and every level's sampler be sound."""
        if self._draw.weights != self.level_words:
            yield "the sampler draws levels with other chances than the channel shows"
        else:
            yield from self._draw.problems()
        for part in self.parts:
            yield from part.inner.sampler_problems()

    def worst_ratio(self) -> Fraction | None:
        """That of the sharpest level: its chance is the same for all cells."""
        ratios = [part.inner.worst_ratio() for part in self.parts]
        return None if None in ratios else max(ratio for ratio in ratios if ratio is not None)

    def check_structure(self, metric: CellMetric, found: Findings) -> None:
        """The chance of a level is the same for all cells: its own odds are those of the report.

        Args:
            metric: E between the cells.
            found: Where findings are added.
        """
        for part in self.parts:
            part.inner.check_structure(metric, found)

    def drawn(
        self, cells: Cells, bits: BitSource
    ) -> Iterator[tuple[slice, NDArray[np.int64], int, NDArray[np.intp]]]:
        """One word per person draws the level; then come each level's people, level by level.

        Args:
            cells: One cell per person.
            bits: Where randomness comes from.

        Yields:
            For some people at a time: who they are, their cells, a level, and who of them drew it.
        """
        for start in range(0, len(cells), _PEOPLE_AT_ONCE):
            held = np.asarray(cells[start : start + _PEOPLE_AT_ONCE], dtype=np.int64)
            level = self._draw.draw(bits, len(held))
            for number in range(len(self.parts)):
                people = np.flatnonzero(level == number)
                if people.size:
                    yield slice(start, start + len(held)), held, number, people

    @property
    def _row_entries(self) -> int:
        """How many numbers one question takes."""
        return max(self.layout.features, self.size)

    def batches(self, count: int) -> Iterator[slice]:
        """Rows to work on at once, so that memory is bounded."""
        at_once = max(1, ENTRIES_AT_ONCE // self._row_entries)
        for start in range(0, count, at_once):
            yield slice(start, min(start + at_once, count))


class SymbolLevels(LevelsChannel, SymbolChannel):
    """Symbols of all levels one after the other."""

    parts: tuple[Level, ...]

    @cached_property
    def outputs(self) -> int:
        """Symbols of all levels."""
        return sum(part.outputs for part in self.parts)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The first symbol of each level, and one past the last of all."""
        return np.cumsum([0, *(part.outputs for part in self.parts)])

    def encode(self, cells: Cells, bits: BitSource) -> NDArray[np.integer[Any]]:
        """Each level's people by their own channel.

        Args:
            cells: One cell per person.
            bits: Where randomness comes from.
        """
        out = np.empty(len(cells), dtype=self.symbol_type())
        for here, held, number, people in self.drawn(cells, bits):
            symbols = self.parts[number].encode(held[people], bits).astype(np.int64, copy=False)
            out[here][people] = symbols + self.starts[number]
        return out

    def steps(self, cells: NDArray[np.int64]) -> Steps:
        """A level, and the steps of its own channel."""
        level = yield Pick(self.level_words, self.precision, branches=True)
        symbols = yield from self.parts[level].steps(cells)
        return symbols + self.starts[level]

    def device_code(self, code: Code, cell: Value) -> Value:
        """A level, and the code of its own channel.

        Args:
            code: Where instructions are added.
            cell: The cell of the grid.
        """

        def told(part: Level, start: int) -> Value:
            return part.device_code(code, cell) + start

        level = code.pick(runs(self.level_words), self.precision)
        pairs = zip(self.parts, self.starts, strict=False)
        return code.branch(level, [partial(told, part, int(start)) for part, start in pairs])

    def words(self) -> tuple[list[list[int]], int]:
        """Exact word counts: those of the level times those of its symbol."""
        refuse_entries(self.size, self.outputs)
        found = [part.rows() for part in self.parts]
        common = math.lcm(*(total for _, total in found))
        rows: list[list[int]] = [[] for _ in range(self.size)]
        for chance, (inner, total) in zip(self.level_words, found, strict=True):
            factor = chance * (common // total)
            for row, words in zip(rows, inner, strict=True):
                row += [factor * word for word in words]
        return rows, common << self.precision

    def likelihood(self) -> Floats:
        """P(output | cell)."""
        refuse_entries(self.size, self.outputs)
        return self.mix(np.eye(self.size))

    def report_likelihood(self, outputs: Outputs) -> Floats:
        """Each report's by its own level."""
        symbols = as_symbols(outputs)
        level = np.searchsorted(self.starts, symbols, side="right") - 1
        result = np.empty((len(symbols), self.size))
        for number, part in enumerate(self.parts):
            reports = np.flatnonzero(level == number)
            if reports.size:
                inside = symbols[reports] - self.starts[number]
                result[reports] = part.report_likelihood(inside)
        return result

    def mix(self, law: Floats) -> Floats:
        """Level by level, each with its chance."""
        result = np.empty((*law.shape[:-1], self.outputs))
        for number, (part, chance) in enumerate(zip(self.parts, self.chances, strict=True)):
            result[..., self._symbols(number)] = chance * part.mix(law)
        return result

    def expect(self, table: Floats) -> Floats:
        """Level by level, each with its chance."""
        total: Floats = np.zeros((*table.shape[:-1], self.size))
        for number, (part, chance) in enumerate(zip(self.parts, self.chances, strict=True)):
            total += chance * part.expect(table[..., self._symbols(number)])
        return total

    def coefficients(self, weights: Floats) -> Floats:
        """Level by level, a few questions at a time."""
        flat = weights.reshape(-1, self.size)
        result = np.empty((len(flat), self.outputs))
        for rows in self.batches(len(flat)):
            for number, values in enumerate(self._readings(flat[rows])):
                result[rows, self._symbols(number)] = values
        return result.reshape(*weights.shape[:-1], self.outputs)

    @abstractmethod
    def _readings(self, weights: Floats) -> Iterator[Floats]:
        """The values of f at the symbols of each level, one row per question."""

    def _symbols(self, number: int) -> slice:
        """The symbols of one level."""
        return slice(int(self.starts[number]), int(self.starts[number + 1]))


def checked_tuples(trees: Sequence[Tree]) -> list[Levels]:
    """All tuples of levels, if they are not too many."""
    count = math.prod(tree.depth + 1 for tree in trees) - 1
    if count > MOST_TUPLES:
        raise TooLargeError(
            f"{len(trees)} axes have {count:,} combinations of levels, and each person speaks "
            f"about one of them; the limit is {MOST_TUPLES:,}. Use a larger branching or fewer axes"
        )
    return level_tuples(trees)


def level_words(trees: Sequence[Tree], shape: Sequence[int]) -> str:
    """What levels are counted for, in a message.

    Args:
        trees: One per axis.
        shape: Cells along every axis.
    """
    if len(trees) == 1:
        return f"{shape[0]:,} cells"
    grid = " × ".join(f"{size:,}" for size in shape)
    return f"the combinations of levels of {grid} cells, that of all roots left out"


def refuse_outputs(name: str, cells: int, outputs: int, remedy: str) -> None:
    """Refuse reports of more kinds than can be counted.

    Args:
        name: The channel.
        cells: How many cells it has.
        outputs: How many kinds of reports.
        remedy: What would do instead.
    """
    if outputs > MOST_OUTPUTS:
        raise TooLargeError(
            f"{name} on {cells:,} cells has reports of {outputs:,} kinds, whose counts and "
            f"readings need {3 * 8 * outputs / 2**30:.1f} GiB; the limit is {MOST_OUTPUTS:,} "
            f"kinds. {remedy}"
        )


def axis_codes(cells: NDArray[np.int64], shape: Sequence[int]) -> list[NDArray[np.int64]]:
    """The place along every axis of cells that are flat in C order.

    Args:
        cells: Cells of the grid.
        shape: Cells along every axis.
    """
    codes = []
    for size in reversed(shape[1:]):
        above = cells // size
        codes.append(cells - above * size)
        cells = above
    return [cells, *reversed(codes)]
