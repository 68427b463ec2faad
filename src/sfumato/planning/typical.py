"""Typical questions about one axis, and their exact error averaged over all of them.

E[f² | x], w² and what rounding adds are quadratic forms B of the weights w. For all ranges between
K ends F_0, …, F_{K−1} the sum is therefore Σ_{a<b} B(F_b − F_a) = K·ΣB(F_a) − B(ΣF_a): exact, from
K + 1 questions instead of K². Questions about several axes are products, and so are their means.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.channels.base import Channel
from sfumato.planning.priors import Prior, refuse_large

MOST_ENDS = 2049  # beyond this many ends of ranges, that many evenly spaced ones stand for all
_FEWEST_ROWS = 33
_MOST_ENTRIES = 1 << 23
_ENTRIES_AT_ONCE = 1 << 21


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """At every cell of one axis: E[f² | x], w², and what stochastic rounding may add."""

    moment: Floats
    square: Floats
    excess: Floats

    @classmethod
    def of(cls, channel: Channel, weights: Floats) -> Terms:
        """Of given weights; several questions stand in leading axes."""
        return cls(
            channel.second_moment(weights), weights**2, channel.rounding_excess(weights, weights)
        )

    def combine(self, other: Terms, mine: float, theirs: float) -> Terms:
        """A linear combination."""
        return Terms(
            mine * self.moment + theirs * other.moment,
            mine * self.square + theirs * other.square,
            mine * self.excess + theirs * other.excess,
        )

    def total(self) -> Terms:
        """The sum over questions."""
        return Terms(self.moment.sum(axis=0), self.square.sum(axis=0), self.excess.sum(axis=0))


class Workload(ABC):
    """Questions about one axis, all of the same kind."""

    @abstractmethod
    def terms(self, channel: Channel) -> Terms:
        """Means over all questions."""

    @abstractmethod
    def sample(self, most: int, rng: np.random.Generator) -> Floats:
        """All questions as rows of weights, or so many of them drawn at random."""


@dataclass(frozen=True, slots=True, eq=False)
class Listed(Workload):
    """Questions given one by one, a row of weights each."""

    rows: Floats

    def terms(self, channel: Channel) -> Terms:
        """By summation, some rows at a time."""
        return _summed(channel, self.rows, 1.0 / len(self.rows))

    def sample(self, most: int, rng: np.random.Generator) -> Floats:
        """The rows."""
        if len(self.rows) <= most:
            return self.rows
        return self.rows[rng.choice(len(self.rows), most, replace=False)]


@dataclass(frozen=True, slots=True)
class Ranges(Workload):
    """All ranges of neighbouring cells, single cells included.

    Args:
        values: How many cells hold values.
        size: How many cells there are, "no answer" included.
    """

    values: int
    size: int

    def ends(self) -> NDArray[np.int64]:
        """Where ranges may begin and end, as numbers of cells below."""
        return self._some_ends(_most_rows(self.size))

    def _some_ends(self, most: int) -> NDArray[np.int64]:
        """At most so many ends, evenly spaced."""
        count = min(self.values + 1, most)
        return np.round(np.linspace(0, self.values, count)).astype(np.int64)

    def terms(self, channel: Channel) -> Terms:
        """By K·ΣB(F_a) − B(ΣF_a)."""
        ends = self._some_ends(_most_rows(max(self.size, channel.layout.features // 8)))
        count = len(ends)
        each = _summed(channel, self._below(ends), 1.0)
        together = Terms.of(channel, self._below(ends).sum(axis=0))
        pairs = count * (count - 1) / 2
        return each.combine(together, count / pairs, -1.0 / pairs)

    def sample(self, most: int, rng: np.random.Generator) -> Floats:
        """Pairs of different ends."""
        ends = self.ends()
        low, high = np.triu_indices(len(ends), 1)
        if len(low) > most:
            chosen = rng.choice(len(low), most, replace=False)
            low, high = low[chosen], high[chosen]
        return self._below(ends[high]) - self._below(ends[low])

    def _below(self, ends: NDArray[np.int64]) -> Floats:
        """Weight one for the first cells, up to each end."""
        return (np.arange(self.size) < ends[:, None]).astype(np.float64)


def _most_rows(size: int) -> int:
    """How many rows of weights may be laid out at once."""
    return max(_FEWEST_ROWS, min(MOST_ENDS, _MOST_ENTRIES // size))


def cells(values: int, size: int) -> Listed:
    """Every cell that holds a value, by itself; evenly spaced ones where they are many."""
    count = min(values, _most_rows(size))
    chosen = np.round(np.linspace(0, values - 1, count)).astype(np.int64)
    rows = np.zeros((len(chosen), size))
    rows[np.arange(len(chosen)), chosen] = 1.0
    return Listed(rows)


def deciles(law: Floats, values: int) -> Listed:
    """Nine thresholds: at or below each tenth of those who answered."""
    upto = np.cumsum(law[:values])
    places = np.searchsorted(upto, upto[-1] * (np.arange(1, 10) / 10 - 1e-12))
    places = np.minimum(places, values - 2)  # "at or below the last" would be everybody
    return Listed((np.arange(len(law)) <= places[:, None]).astype(np.float64))


def variance(prior: Prior, terms: Mapping[int, Terms]) -> float:
    """Variance a person of the mean question: Σ_x p(x)·(Π_d E[f_d² | x_d] − Π_d w_d²(x_d)).

    For the worst population it is the largest bracket, since a mean never exceeds it.
    """
    axes = sorted(terms)
    if prior.worst:
        return _largest([terms[axis] for axis in axes])
    law = None if prior.joint is None else prior.over(axes)

    def mean(parts: Sequence[Floats]) -> float:
        if law is None:
            return math.prod(
                float(prior.laws[axis] @ part) for axis, part in zip(axes, parts, strict=True)
            )
        table = law
        for part in reversed(parts):
            table = table @ part
        return float(table)

    return float(_bracket([terms[axis] for axis in axes], mean))


def row_variances(channels: Sequence[Channel], law: Floats, rows: Sequence[Floats]) -> Floats:
    """Variances a person of many questions, the rows of all axes taken together one by one."""
    found = []
    for parts in zip(*rows, strict=True):
        terms = {
            axis: Terms.of(channel, w)
            for axis, (channel, w) in enumerate(zip(channels, parts, strict=True))
        }
        found.append(variance(Prior((), law, False, ""), terms))
    return np.array(found)


def _bracket(terms: Sequence[Terms], product: Callable[[Sequence[Floats]], Any]) -> Any:
    """Second moment less squared mean, plus what rounding adds on each axis by itself."""
    total = product([t.moment for t in terms]) - product([t.square for t in terms])
    for place, one in enumerate(terms):
        if one.excess.any():
            parts = [one.excess if d == place else t.square for d, t in enumerate(terms)]
            total = total + product(parts)
    return total


def _largest(terms: Sequence[Terms]) -> float:
    """The largest bracket over all cells; cells alike but for the moment need only its largest."""
    kept = [_topmost(t) for t in terms]
    refuse_large([len(t.moment) for t in kept])

    def grid(parts: Sequence[Floats]) -> Floats:
        table: Floats = np.ones(())
        for part in parts:
            table = np.multiply.outer(table, part)
        return table

    return float(np.max(_bracket(kept, grid)))


def _topmost(terms: Terms) -> Terms:
    """Of the cells with the same square and excess, the one with the largest moment."""
    pairs = np.stack([terms.square, terms.excess], axis=1)
    order = np.lexsort((-terms.moment, pairs[:, 1], pairs[:, 0]))
    first = np.ones(len(order), dtype=bool)
    first[1:] = (pairs[order][1:] != pairs[order][:-1]).any(axis=1)
    keep = order[first]
    return Terms(terms.moment[keep], terms.square[keep], terms.excess[keep])


def _summed(channel: Channel, rows: Floats, factor: float) -> Terms:
    """The sum over rows times a factor, some rows at a time."""
    step = max(1, _ENTRIES_AT_ONCE // max(rows.shape[1], channel.layout.features))
    total: Terms | None = None
    for start in range(0, len(rows), step):
        part = Terms.of(channel, rows[start : start + step]).total()
        total = part if total is None else total.combine(part, 1.0, 1.0)
    assert total is not None  # noqa: S101 - there is at least one row
    return total.combine(total, factor, 0.0)
