"""Pairs: each person reports on two of many axes, drawn at random, with all of the guarantee.

A grid of all axes soon has more cells than any channel can serve: six axes of 64 cells have 64^6.
Here a report says which two axes it is about, and carries the output of a channel on the grid of
these two alone.

Guarantee:
    The pair is drawn without looking at the values, so it costs nothing: P(pair, y | x) is the
    pair's chance times P(y | x on the pair), and the first factor is the same for all records. The
    second keeps E on the pair, hence E on records. Exact for the integer tables.

Estimator:
    Every question about one or two axes has an unbiased reading: those who drew a pair are a random
    sample of all people. Questions about three axes or more have none, since nobody reports on
    three axes; `sfumato.estimation.pairs` answers them under a stated assumption.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Cells, Floats
from sfumato.channels.base import SymbolChannel
from sfumato.channels.choice import (
    Choice,
    Trial,
    choice_to_dict,
    needs_grid,
    needs_uniform,
    read_choice,
    uniform_fitted,
    uniform_trials,
)
from sfumato.channels.code import Code, Value
from sfumato.channels.comb import Comb
from sfumato.channels.odds import Findings
from sfumato.channels.response import KaryResponse
from sfumato.channels.trees.levels import Level, SymbolLevels, axis_codes
from sfumato.errors import QuestionError, StudyError, TooLargeError, shown
from sfumato.exact import whole
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import BitSource
from sfumato.randomness.draws import Steps

#: Of the grid of all axes: devices number its cells in doubles.
MOST_CELLS = 1 << 53
MOST_AXES = 32
MOST_OUTPUTS = 1 << 24
MOST_SHARE = 1 << 30
_NOT_READ = 1e-9  # of the weights: what is left of a question beyond pairs is rounding


@dataclass(frozen=True, slots=True)
class Pairs(Choice):
    """Choose reports on two of many axes; it fits one `Uniform` guarantee over three axes or more.

    Each person's device draws a pair of axes and reports on these alone, with all of ε. Answers
    about one or two axes rest on the reports alone. Answers about three or more rest on an
    assumption that they name: that axes interact in pairs only.

    Args:
        channels: One channel for the grids of all pairs, or one for each pair, in the order (0, 1),
            (0, 2), ..., (1, 2), ...; left out, the planner chooses one for each.
        shares: How often each pair is drawn, as whole numbers in the same order; left out, the
            planner draws pairs more often that are harder to read.

    Example:
        >>> import sfumato as sf
        >>> names = ("age", "income", "hours", "rooms", "distance", "children")
        >>> axes = [sf.integers(name, 0, 63) for name in names]
        >>> study = sf.Study("survey", axes, protect=sf.Uniform(1), channel=sf.Pairs())
        >>> len(study.encode({name: 31 for name in names}))
        1
    """

    id: ClassVar[str] = "pairs"
    most_cells: ClassVar[int] = MOST_CELLS
    channels: tuple[Choice, ...] = ()
    shares: tuple[int, ...] = ()

    def __init__(
        self, channels: Choice | Sequence[Choice] = (), shares: Sequence[int] = ()
    ) -> None:
        """Take one channel or several, or what a file holds of them."""
        several = list(channels) if isinstance(channels, list | tuple) else [channels]
        held = tuple(read_choice(choice, "channels") for choice in several)
        if any(isinstance(choice, Pairs) for choice in held):
            raise StudyError("channels are those of two axes each, and must not be Pairs() again")
        given = list(shares) if isinstance(shares, list | tuple) else [shares]
        read = [whole(share) for share in given]
        if any(share is None or not 1 <= share <= MOST_SHARE for share in read):
            raise StudyError(
                f"shares must be whole numbers from 1 to {MOST_SHARE:,}, one for each pair, got "
                f"shares={shown(shares)}"
            )
        object.__setattr__(self, "channels", held)
        object.__setattr__(self, "shares", tuple(share for share in read if share is not None))

    @property
    def title(self) -> str:
        """What `explain` calls it."""
        inner = ", ".join(dict.fromkeys(choice.id for choice in self.channels))
        return "a report on two axes drawn at random" + (f" ({inner} channel)" if inner else "")

    def misfit(self, metric: CellMetric) -> str | None:
        """It needs one ε for all pairs of cells."""
        problem = needs_uniform(metric)
        if problem or len(self.channels) != 1:
            return problem
        return self.channels[0].misfit(metric)

    def bind(self, metric: CellMetric, *, precision: int = 64, resolution: int = 0) -> PairsChannel:
        """Bind to a single axis, on which everybody reports.

        Args:
            metric: E between the cells.
            precision: How many bits of a random word take part.
            resolution: Bits of a value's place between two cells; 0 without stochastic rounding.
        """
        held = uniform_fitted(self, metric, resolution)
        (choice,) = self._for_pairs(1)
        part = PairLevel((0,), (held.size,), _symbols(choice.bind(held, precision=precision)))
        return PairsChannel(metric=held, parts=(part,), precision=precision)

    def bind_grid(
        self, metric: UniformMetric, shape: tuple[int, ...], ordered: tuple[bool, ...]
    ) -> PairsChannel:
        """Bind a channel to the grid of every pair of axes.

        Args:
            metric: One ε for any two cells of the grid of all axes.
            shape: Cells along every axis.
            ordered: Which axes have neighbouring cells.
        """
        needs_grid(metric, shape, ordered)
        pairs = pairs_of(len(shape))
        made: dict[Any, SymbolChannel] = {}  # pairs of equal grids share a channel
        parts = []
        for pair, choice in zip(pairs, self._for_pairs(len(pairs)), strict=True):
            sizes = tuple(shape[axis] for axis in pair)
            orders = tuple(ordered[axis] for axis in pair)
            key = (choice, sizes, orders)
            if key not in made:
                inside = UniformMetric(metric.epsilon, math.prod(sizes))
                made[key] = _symbols(choice.bind_grid(inside, sizes, orders))
            parts.append(PairLevel(pair, shape, made[key]))
        outputs = sum(part.outputs for part in parts)
        if outputs > MOST_OUTPUTS:
            cells = sum(part.inner.size for part in parts)  # as many kinds as k-ary response has
            other = "fewer axes"
            if cells <= MOST_OUTPUTS:
                other += ", or channel=Pairs(KaryResponse()), which takes more at a larger error"
            raise TooLargeError(
                f"reports on {len(parts)} pairs of axes are of {outputs:,} kinds; the limit is "
                f"{MOST_OUTPUTS:,}. Use fewer cells (bins=..., step=...), {other}"
            )
        return PairsChannel(metric=metric, parts=tuple(parts), shares=self.shares)

    def _for_pairs(self, count: int) -> list[Choice]:
        """The channel of every pair."""
        channels = list(self.channels) or [KaryResponse()]
        for what, given in (("channels", channels), ("shares", self.shares)):
            allowed = (1, count) if what == "channels" else (0, count)
            if len(given) not in allowed:
                raise StudyError(
                    f"{what} must have one entry for each of {count} pairs of axes, got "
                    f"{len(given)}; leave them out and the planner fills them in"
                )
        return channels * count if len(channels) == 1 else channels

    def options(self) -> dict[str, Any]:
        """Channels and shares, where they are given."""
        return {
            **({"channels": [choice_to_dict(c) for c in self.channels]} if self.channels else {}),
            **({"shares": list(self.shares)} if self.shares else {}),
        }

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """Single axes, and grids of one pair, whose every question can be read."""
        return (
            *uniform_trials(cls(KaryResponse()), (2, 5), (3, 4), (4, 2)),
            *uniform_trials(cls(Comb(), shares=[3]), (6,), (2, 3)),
        )


@dataclass(frozen=True, eq=False)
class PairLevel(Level):
    """A report about some axes of a grid.

    Args:
        axes: Which axes: one or two.
        shape: Cells along every axis of the grid.
        inner: The channel of the grid of these axes.
    """

    axes: tuple[int, ...]
    shape: tuple[int, ...]
    inner: SymbolChannel

    @property
    def sizes(self) -> tuple[int, ...]:
        """Cells along the axes that are reported."""
        return tuple(self.shape[axis] for axis in self.axes)

    def seen(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """The cells of the pair's grid that people of these cells have."""
        codes = axis_codes(cells, self.shape)
        found = codes[self.axes[0]]
        for axis in self.axes[1:]:
            found = found * self.shape[axis] + codes[axis]
        return found

    def encode(self, cells: NDArray[np.int64], bits: BitSource) -> Cells:
        """As the pair's channel does.

        Args:
            cells: One cell of the whole grid per person.
            bits: Where randomness comes from.
        """
        found: Cells = np.asarray(self.inner.encode(self.seen(cells), bits))
        return found

    def steps(self, cells: NDArray[np.int64]) -> Steps | None:  # type: ignore[override]
        """The steps of the pair's channel."""
        return self.inner.steps(self.seen(cells))

    def device_code(self, code: Code, cell: Value) -> Value:
        """The code of the pair's channel.

        Args:
            code: Where instructions are added.
            cell: The cell of the whole grid.
        """
        found: Value | None = None
        for axis in self.axes:
            below = math.prod(self.shape[axis + 1 :])
            place = cell // below
            place = place % self.shape[axis] if axis else place
            found = place if found is None else found * self.shape[axis] + place
        assert found is not None  # noqa: S101 - there is at least one axis
        return self.inner.device_code(code, found)

    @cached_property
    def _home(self) -> NDArray[np.int64]:
        """The pair's cell of every cell of a small grid."""
        return self.seen(np.arange(math.prod(self.shape)))

    def rows(self) -> tuple[list[list[int]], int]:
        """The law of the pair's channel at the pair's cell of every cell."""
        rows, total = self.inner.words()
        return [rows[place] for place in self._home.tolist()], total

    def margin(self, table: Floats) -> Floats:
        """Sums over the axes that are not reported, for a table over the cells of a small grid."""
        others = tuple(axis - len(self.shape) for axis in range(len(self.shape)))
        others = tuple(axis for k, axis in enumerate(others) if k not in self.axes)
        grid = table.reshape(*table.shape[:-1], *self.shape)
        found: Floats = grid.sum(axis=others).reshape(*table.shape[:-1], -1)
        return found

    def mix(self, law: Floats) -> Floats:
        """The law of reports for a law of cells."""
        return self.inner.mix(self.margin(law))

    def expect(self, table: Floats) -> Floats:
        """The mean at every cell of a function of this pair's symbols."""
        found: Floats = self.inner.expect(table)[..., self._home]
        return found

    def report_likelihood(self, symbols: NDArray[np.int64]) -> Floats:
        """P(symbol | cell) up to a factor per report."""
        found: Floats = self.inner.report_likelihood(symbols)[..., self._home]
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class PairsChannel(SymbolLevels):
    """The symbols of all pairs one after the other; cells are flat in C order of the shape."""

    id: ClassVar[str] = "pairs"
    metric: UniformMetric
    parts: tuple[PairLevel, ...] = field(repr=False)
    shares: tuple[int, ...] = ()
    precision: int = 64

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells along every axis."""
        return self.parts[0].shape

    @cached_property
    def level_words(self) -> tuple[int, ...]:  # type: ignore[override]
        """Of 2^precision words, how many draw each pair."""
        shares = self.shares or (1,) * len(self.parts)
        total = 1 << self.precision
        words = [share * total // sum(shares) for share in shares]
        words[0] += total - sum(words)
        return tuple(words)

    def steps(self, cells: NDArray[np.int64]) -> Steps | None:  # type: ignore[override]
        """A pair, and the steps of its channel; None where there is but one, which lists none."""
        if any(part.inner.steps(np.zeros(1, np.int64)) is None for part in self.parts):
            return None
        return super().steps(cells)

    def check_structure(self, metric: CellMetric, found: Findings) -> None:
        """The chance of a pair is the same for all records, so its channel must keep E there.

        Args:
            metric: E between the cells.
            found: Where findings are added.
        """
        if not isinstance(metric, UniformMetric):
            super(SymbolLevels, self).check_structure(metric, found)
            return
        checked: set[int] = set()
        for part in self.parts:
            if id(part.inner) in checked:
                continue
            checked.add(id(part.inner))
            inside = UniformMetric(metric.epsilon, part.inner.size)
            codes: list[Any] = [0] * len(self.shape)
            for axis, places in zip(
                part.axes, np.unravel_index(np.arange(part.inner.size), part.sizes), strict=True
            ):
                codes[axis] = places
            cells = sum(code * math.prod(self.shape[axis + 1 :]) for axis, code in enumerate(codes))
            found.merge(part.inner.check(inside), np.atleast_1d(cells).tolist())
        found.by_structure(self.size * (self.size - 1))

    @property
    def _row_entries(self) -> int:
        """How many numbers one question takes."""
        return max(self.layout.features, self.size)

    def _readings(self, weights: Floats) -> Iterator[Floats]:
        """Every pair reads its part of a question: what is beyond one axis, and shares of axes."""
        for number, inside in enumerate(self._split(weights)):
            part = self.parts[number]
            yield part.inner.coefficients(inside) / self.chances[number]

    def _split(self, weights: Floats) -> list[Floats]:
        """Weights of every pair that sum to those of the question, over the cells of its grid.

        A question is split into its mean, what each axis adds and what each pair adds to that.

        Raises:
            QuestionError: If that is not all of it.
        """
        if len(self.parts) == 1:
            return [weights]
        count = len(self.shape)
        grid = weights.reshape(-1, *self.shape)
        mean = grid.mean(axis=tuple(range(1, count + 1)), keepdims=True)
        every = set(range(1, count + 1))
        alone = [
            grid.mean(axis=tuple(every - {axis}), keepdims=True) - mean
            for axis in range(1, count + 1)
        ]
        left, found = grid - mean - sum(alone), []
        for number, part in enumerate(self.parts):
            a, b = (axis + 1 for axis in part.axes)
            both = grid.mean(axis=tuple(every - {a, b}), keepdims=True)
            both = both - mean - alone[a - 1] - alone[b - 1]
            left = left - both
            own = both + (alone[a - 1] + alone[b - 1]) / (count - 1) + mean * self.chances[number]
            found.append(own.reshape(len(grid), -1))
        if np.abs(left).max(initial=0.0) > _NOT_READ * np.abs(grid).max(initial=0.0):
            raise QuestionError(
                "each person reports on two axes, so questions about three or more have no "
                'unbiased answer; use method="likelihood", which names what it assumes'
            )
        return [part.reshape(*weights.shape[:-1], -1) for part in found]


def many_pairs(channel: object) -> bool:
    """Whether reports are on one of several pairs of axes, so that none tells of all axes."""
    return isinstance(channel, PairsChannel) and len(channel.parts) > 1


def pairs_of(axes: int) -> list[tuple[int, ...]]:
    """All pairs of axes in the order in which they are numbered; of one axis, the axis itself."""
    return list(itertools.combinations(range(axes), 2)) if axes > 1 else [(0,)]


def _symbols(channel: Any) -> SymbolChannel:
    """A channel, which must send symbols."""
    if not isinstance(channel, SymbolChannel) or not channel.linear:
        raise StudyError(
            f"the {channel.id} channel sends bits or is not linear, and Pairs needs a linear "
            "channel of symbols for every pair; use KaryResponse(), OLH() or Comb()"
        )
    return channel
