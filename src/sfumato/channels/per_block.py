"""A channel for each group of cells that need not hide from the others.

Where E is infinite between groups, a report may tell the group. Within a group any channel will do
that keeps E there: each group gets the one that suits its size, its ε and its order.

Guarantee:
    Cells of different groups have no output in common, which E allows: it is infinite between them
    in both directions, decided exactly. Within a group it is the guarantee of the group's channel.

Estimator:
    The readings of the groups' channels side by side: the group is known without error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import Cells, Floats, Outputs
from sfumato.channels.base import SymbolChannel, as_symbols, as_weights
from sfumato.channels.choice import Choice, Trial, choice_to_dict, read_choice
from sfumato.channels.code import Code, Value
from sfumato.channels.comb import Comb
from sfumato.channels.geometric import Geometric
from sfumato.channels.odds import Findings
from sfumato.channels.response import Binary, KaryResponse
from sfumato.errors import StudyError, shown
from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.labelled import BlockMetric
from sfumato.metrics.recognise import blocks_of
from sfumato.randomness.bits import BitSource
from sfumato.randomness.draws import Steps


@dataclass(frozen=True, slots=True)
class PerBlock(Choice):
    """Choose a channel for each block of cells; it fits `Blocks`, and any E with infinite entries.

    Blocks are the groups of cells between which E is infinite in both directions, in the order of
    their first cells. A cell by itself is reported as it is. If the cells of a block lie on a line
    in another order than on the axis, its channel sees them in the order of that line.

    Args:
        channels: One channel for all blocks of two cells or more, or one for each of them.

    Example:
        >>> import sfumato as sf
        >>> towns = sf.Blocks(epsilon=3, blocks=[["Leith", "Niddrie", "Granton"], ["Govan"]])
        >>> made = sf.PerBlock([sf.KaryResponse()])
        >>> names = ["Leith", "Niddrie", "Granton", "Govan"]
        >>> study = sf.Study("towns", [sf.categories("home", names, protect=towns, channel=made)])
        >>> sf.audit(study).holds, study.channels[0].outputs
        (True, 4)
    """

    id: ClassVar[str] = "per-block"
    channels: tuple[Choice, ...]

    def __init__(self, channels: Choice | Sequence[Choice]) -> None:
        """Take one choice or several, or what a file holds of them."""
        several = list(channels) if isinstance(channels, list | tuple) else [channels]
        held = [read_choice(choice, "channels") for choice in several]
        if not held:
            raise StudyError("channels must name one channel or more, got none: add one")
        object.__setattr__(self, "channels", tuple(held))

    @property
    def title(self) -> str:
        """What `explain` calls it."""
        return f"a channel per block ({', '.join(dict.fromkeys(c.id for c in self.channels))})"

    def misfit(self, metric: CellMetric) -> str | None:
        """Each channel must fit the block that it is for."""
        hiding = [inside for _, inside in blocks_of(metric) if inside is not None]
        if len(self.channels) not in (1, len(hiding)):
            return (
                f"it has {len(self.channels)} channels, and the number of blocks of two cells or "
                f"more is {len(hiding)}; give it one channel, or one for each block"
            )
        for number, (choice, inside) in enumerate(self._paired(hiding), 1):
            problem = choice.misfit(inside)
            if problem:
                return f"{type(choice).__name__} does not fit block {number}: {problem}"
        return None

    def _paired(self, hiding: Sequence[CellMetric]) -> Iterator[tuple[Choice, CellMetric]]:
        """The channel of each block of two cells or more, and E there."""
        one = len(self.channels) == 1
        channels = self.channels * len(hiding) if one else self.channels
        return zip(channels, hiding, strict=True)

    def bind(
        self, metric: CellMetric, *, precision: int = 64, resolution: int = 0
    ) -> PerBlockChannel:
        """Bind each channel to its block.

        Args:
            metric: E between the cells.
            precision: How many bits of a random word take part.
            resolution: Bits of a value's place between two cells; 0 without stochastic rounding.
        """
        self.refuse_misfit(metric, resolution)
        blocks = list(blocks_of(metric))
        pairs = self._paired([inside for _, inside in blocks if inside is not None])
        made: dict[tuple[Choice, CellMetric], SymbolChannel] = {}  # equal blocks share a channel
        parts = []
        for cells, inside in blocks:
            if inside is None:
                parts.append(Part(cells, None))
                continue
            pair = next(pairs)
            if pair not in made:
                made[pair] = _symbols(pair[0], pair[1], precision)
            parts.append(Part(cells, made[pair]))
        return PerBlockChannel(metric=metric, parts=tuple(parts), precision=precision)

    def settled(
        self, metric: CellMetric, *, progress: Callable[[float], None] | None = None
    ) -> PerBlock:
        """With all its channels settled.

        Args:
            metric: E between the cells.
            progress: Called with the share done.
        """
        if self.misfit(metric):
            return self
        hiding = [inside for _, inside in blocks_of(metric) if inside is not None]
        made: dict[tuple[Choice, CellMetric], Choice] = {}
        found = []
        for pair in self._paired(hiding):
            if pair not in made:
                made[pair] = pair[0].settled(pair[1], progress=progress)
            found.append(made[pair])
        alike = found and all(one == found[0] for one in found)
        return PerBlock(found[:1] if alike else found) if found else self

    def options(self) -> dict[str, Any]:
        """The channels."""
        return {"channels": [choice_to_dict(choice) for choice in self.channels]}

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """Blocks of several sizes, one channel or several, and a line in another order."""
        eps = Fraction(1)
        mixed = BlockMetric(eps, np.array([0, 1, 0, 2, 1, 1, 0, 1]))
        entries = [[0, 2, 1, -1], [2, 0, 1, -1], [1, 1, 0, -1], [-1, -1, -1, 0]]
        path = TableMetric(np.array(entries), 2, 4)
        return (
            Trial(choice=cls(KaryResponse()), metric=mixed),
            Trial(choice=cls([Comb(), KaryResponse()]), metric=mixed),
            Trial(choice=cls(Binary()), metric=BlockMetric(eps, np.array([0, 1, 0, 1, 2]))),
            Trial(choice=cls(Geometric()), metric=path),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Some cells and their channel; None for one cell that is reported as it is."""

    cells: NDArray[np.intp]
    inner: SymbolChannel | None

    @property
    def outputs(self) -> int:
        """Number of symbols."""
        return 1 if self.inner is None else self.inner.outputs


@dataclass(frozen=True, kw_only=True, eq=False)
class PerBlockChannel(SymbolChannel):
    """The symbols of all blocks, one block after the other."""

    id: ClassVar[str] = "per-block"
    metric: CellMetric
    parts: tuple[Part, ...] = field(repr=False)
    precision: int = 64

    @cached_property
    def _starts(self) -> list[int]:
        """The first symbol of every block, and the number of all."""
        return [0, *np.cumsum([part.outputs for part in self.parts]).tolist()]

    @cached_property
    def _home(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The block of every cell, and its place there."""
        block, place = np.empty((2, self.size), dtype=np.int64)
        for number, part in enumerate(self.parts):
            block[part.cells] = number
            place[part.cells] = np.arange(len(part.cells))
        return block, place

    def _each(self) -> Iterator[tuple[Part, slice]]:
        """Every block, and its symbols."""
        for part, start in zip(self.parts, self._starts, strict=False):
            yield part, slice(start, start + part.outputs)

    @property
    def tightness(self) -> float:  # type: ignore[override]
        """What the block that spends most claims."""
        return max((part.inner.tightness for part in self.parts if part.inner), default=0.0)

    @property
    def outputs(self) -> int:
        """Symbols of all blocks."""
        return int(self._starts[-1])

    @property
    def linear(self) -> bool:
        """Whether the readings of all blocks are."""
        return all(part.inner is None or part.inner.linear for part in self.parts)

    def encode(self, cells: Cells, bits: BitSource) -> NDArray[np.integer[Any]]:
        """Block by block, by the block's own channel.

        Args:
            cells: One cell per person.
            bits: Where randomness comes from.
        """
        codes = np.asarray(cells, dtype=np.int64)
        block, place = self._home
        mine, there = block[codes], place[codes]
        out = np.empty(len(codes), dtype=self.symbol_type())
        for number in np.unique(mine).tolist():
            people = np.flatnonzero(mine == number)
            channel = self.parts[number].inner
            start = self._starts[number]
            if channel is None:
                out[people] = start
            else:
                out[people] = start + as_symbols(channel.encode(there[people], bits))
        return out

    def alike(self) -> Sequence[NDArray[np.intp]]:
        """The cells of each block: they draw alike."""
        return [part.cells for part in self.parts]

    def steps(self, cells: NDArray[np.int64]) -> Steps | None:
        """The steps of the block's channel; all cells must be of one block."""
        block, place = self._home
        number = int(block[cells[0]])
        channel, start = self.parts[number].inner, self._starts[number]
        if channel is None:
            return _always(np.full(len(cells), start))
        steps = channel.steps(place[cells])
        return None if steps is None else _shifted(steps, start)

    def device_code(self, code: Code, cell: Value) -> Value:
        """The code of the block's channel.

        Args:
            code: Where instructions are added.
            cell: The cell.
        """
        block, place = self._home
        there = code.take(place.tolist(), cell)

        def told(channel: SymbolChannel | None, start: int) -> Value:
            if channel is None:
                return code.constant(start)
            return channel.device_code(code, there) + start

        pairs = zip(self.parts, self._starts, strict=False)
        ways = [partial(told, part.inner, int(start)) for part, start in pairs]
        return code.branch(code.take(block.tolist(), cell), ways)

    def words(self) -> tuple[list[list[int]], int]:
        """The laws of all blocks over one number of words."""
        laws = [([[1]], 1) if p.inner is None else p.inner.words() for p in self.parts]
        common = math.lcm(*(total for _, total in laws))
        rows = [[0] * self.outputs for _ in range(self.size)]
        for (law, total), (part, symbols) in zip(laws, self._each(), strict=True):
            for cell, row in zip(part.cells.tolist(), law, strict=True):
                rows[cell][symbols] = [word * (common // total) for word in row]
        return rows, common

    def likelihood(self) -> Floats:
        """P(output | cell), block by block."""
        return self._by_part(np.zeros((self.size, self.outputs)), "likelihood")

    def _by_part(self, found: Floats, method: str) -> Floats:
        """Fill a matrix of cells by outputs from those of the blocks."""
        for part, symbols in self._each():
            own = np.ones((1, 1)) if part.inner is None else getattr(part.inner, method)()
            found[part.cells[:, None], np.arange(symbols.start, symbols.stop)] = own
        return found

    def coefficients(self, weights: Floats) -> Floats:
        """The readings of all blocks side by side."""
        found = np.empty((*weights.shape[:-1], self.outputs))
        for part, symbols in self._each():
            inside = weights[..., part.cells]
            found[..., symbols] = part.inner.coefficients(inside) if part.inner else inside
        return found

    def gather(self, profile: Floats) -> Floats:
        """The transposed readings."""
        return self._to_cells(profile, "gather")

    def expect(self, table: Floats) -> Floats:
        """E[g(output) | x], block by block."""
        return self._to_cells(table, "expect")

    def _to_cells(self, table: Floats, method: str) -> Floats:
        """From symbols to cells by a method of the blocks' channels."""
        found = np.empty((*table.shape[:-1], self.size))
        for part, symbols in self._each():
            inside = table[..., symbols]
            found[..., part.cells] = getattr(part.inner, method)(inside) if part.inner else inside
        return found

    def mix(self, law: Floats) -> Floats:
        """The law of the output for a law of cells."""
        found = np.empty((*law.shape[:-1], self.outputs))
        for part, symbols in self._each():
            inside = law[..., part.cells]
            found[..., symbols] = part.inner.mix(inside) if part.inner else inside
        return found

    def second_moment(self, weights: ArrayLike) -> Floats:
        """E[f² | x], block by block."""
        w = as_weights(weights, self.size)
        flat = w.reshape(-1, self.size)
        found = np.empty_like(flat)
        for part in self.parts:
            inside = flat[:, part.cells]
            if part.inner is None:
                found[:, part.cells] = inside**2
                continue
            # Many ranges hold all of a block, or none of it.
            seen: dict[bytes, int] = {}
            alike = [seen.setdefault(row.tobytes(), number) for number, row in enumerate(inside)]
            distinct, place = np.unique(alike, return_inverse=True)
            found[:, part.cells] = part.inner.second_moment(inside[distinct])[place]
        return found.reshape(w.shape)

    def all_squares(self, profile: Floats, *, upto: bool) -> Floats:
        """Of single cells, block by block: a cell's reading is 0 for reports of other blocks.

        Args:
            profile: Sums by feature along the last axis; any axes before it stay where they are.
            upto: Whether rows are prefixes 0..x rather than single cells x.
        """
        if upto:
            return super().all_squares(profile, upto=True)
        found = np.empty((*profile.shape[:-1], self.size))
        for part, symbols in self._each():
            inside = profile[..., symbols]
            found[..., part.cells] = (
                part.inner.all_squares(inside, upto=False) if part.inner else inside
            )
        return found

    def all_peaks(self, *, upto: bool) -> tuple[Floats, Floats]:
        """Of single cells, block by block.

        Args:
            upto: Whether rows are prefixes 0..x rather than single cells x.
        """
        if upto:
            return super().all_peaks(upto=True)
        top, at = np.ones(self.size), np.ones(self.size)
        for part in self.parts:
            if part.inner is not None:
                top[part.cells], at[part.cells] = part.inner.all_peaks(upto=False)
        return top, at

    def report_likelihood(self, outputs: Outputs) -> Floats:
        """The likelihood of each report in its own block; none in others."""
        symbols = as_symbols(outputs)
        found = np.zeros((len(symbols), self.size))
        for part, own in self._each():
            here = np.flatnonzero((symbols >= own.start) & (symbols < own.stop))
            inside = symbols[here] - own.start
            law = part.inner.report_likelihood(inside) if part.inner else np.ones((len(here), 1))
            found[here[:, None], part.cells] = law
        return found

    def sampler_problems(self) -> Iterator[str]:
        """What the channels of the blocks say of their samplers."""
        for number, part in enumerate(self.parts, 1):
            if part.inner is not None:
                for problem in part.inner.sampler_problems():
                    yield f"block {number}: {problem}"

    def check_structure(self, metric: CellMetric, found: Findings) -> None:
        """Blocks must be those of the metric, and each channel must keep E within its own.

        Args:
            metric: E between the cells.
            found: Where findings are added.
        """
        held = {tuple(part.cells.tolist()): part for part in self.parts}
        for cells, inside in blocks_of(metric):
            part = held.pop(tuple(cells.tolist()), None)
            if part is None or (inside is None) != (part.inner is None):
                found.problems.append(f"the blocks are not those of E, which has {shown(cells)}")
                return
            if inside is not None and part.inner is not None:
                found.merge(part.inner.check(inside), cells.tolist())
        if held:
            found.problems.append("some cells have more than one channel")
        found.by_structure(found.pairs)


def _symbols(choice: Choice, metric: CellMetric, precision: int) -> SymbolChannel:
    """The channel of a block, which must send one symbol."""
    channel = choice.bind(metric, precision=precision)
    if not isinstance(channel, SymbolChannel):
        raise StudyError(
            f"{type(choice).__name__} sends bits, and blocks need channels that send one symbol, "
            "such as KaryResponse() or Hadamard()"
        )
    return channel


def _always(outputs: NDArray[np.int64]) -> Steps:
    """Steps without a draw."""
    return outputs
    yield


def _shifted(steps: Steps, start: int) -> Steps:
    """The same steps, with outputs counted from another start."""
    return start + (yield from steps)
