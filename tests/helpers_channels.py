"""What exact tests of channels share: words in a given order, odds, and sets of any kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

import sfumato as sf
from sfumato.arrays import LANES, BitColumns
from sfumato.channels.base import Channel
from sfumato.channels.choice import Choice
from sfumato.channels.searched.codec import Sets
from sfumato.exact import at_most_exp
from sfumato.metrics.cells import CellMetric

Rows = Sequence[Sequence[int]]

TIGHT = 1 - Fraction(1, 1 << 30)


@dataclass(frozen=True)
class AnySets(Choice):
    """The optimised channel with sets and weights that nobody would choose, at any size.

    Rows differ widely, so that the blank has much to make up for; nothing is searched for.
    """

    id: ClassVar[str] = sf.Optimised.id

    def misfit(self, metric: CellMetric) -> str | None:
        return sf.Optimised().misfit(metric)

    def bind(self, metric: CellMetric, *, precision: int = 64, resolution: int = 0) -> Channel:
        rng = np.random.default_rng(metric.size)
        single = np.eye(metric.size, dtype=np.bool_)
        members = np.concatenate([single, rng.random((metric.size, metric.size)) < 0.5])
        weights = rng.integers(1, 20, len(members)).astype(np.float64)
        table = Sets(members, weights).to_text()
        return sf.Optimised(table=table).bind(metric, precision=precision, resolution=resolution)


ANY_SETS = AnySets()


def labels(size: int) -> list[str]:
    """As many category labels."""
    return [f"c{k}" for k in range(size)]


def worst_odds(rows: Rows, x: int, y: int) -> tuple[int, int]:
    """The largest odds of cell x against cell y over all outputs, exactly: more over less."""
    more, less = 0, 1
    for a, b in zip(rows[x], rows[y], strict=True):
        if a * less > more * b:
            more, less = a, b
    return more, less


def exceeding_pair(rows: Rows, metric: CellMetric) -> tuple[int, int] | None:
    """The first ordered pair whose odds exceed e^E for some output, decided exactly."""
    for x in range(metric.size):
        for y in range(metric.size):
            e = metric.exact(x, y)
            if x == y or e is None:
                continue
            more, less = worst_odds(rows, x, y)
            if less == 0 or not at_most_exp(Fraction(more, less), e):
                return x, y
    return None


def is_tight(rows: Rows, metric: CellMetric) -> bool:
    """Whether some pair of neighbouring numbers is told apart by nearly all of its E."""
    for x in range(metric.size - 1):
        e = metric.exact(x, x + 1)
        if e is not None and not at_most_exp(Fraction(*worst_odds(rows, x, x + 1)), TIGHT * e):
            return True
    return False


class Stream:
    """A bit source that gives the words it was handed, one after the other."""

    secure = False

    def __init__(self, *words: NDArray[np.uint64]) -> None:
        self.left = np.concatenate(words)

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next words; asking for more than there are is a failure."""
        assert count <= len(self.left), "the sampler wants more words than it should"
        found, self.left = self.left[:count], self.left[count:]
        return found.copy()


def all_words(precision: int, *, junk: int = 0) -> NDArray[np.uint64]:
    """Every pattern of leading bits once, with any bits below them."""
    spare = np.uint64(64 - precision)
    low = np.uint64(junk & ((1 << (64 - precision)) - 1))
    return (np.arange(1 << precision, dtype=np.uint64) << spare) | low


def planes(columns: int, precision: int) -> Iterator[NDArray[np.uint64]]:
    """Words for packed flips: lane i's digits, over columns and places, spell the number i.

    One array a binary digit, all words of column 0 first: the order in which `FlipTable` asks.
    """
    lane = np.arange(1 << (columns * precision), dtype=np.int64)
    for digit in range(precision):
        bits = np.stack([(lane >> (k * precision + digit)) & 1 for k in range(columns)], axis=1)
        yield BitColumns.from_matrix(bits.astype(np.bool_)).words.ravel()


def patterns(columns: BitColumns) -> NDArray[np.int64]:
    """Each person's bits as a number, bit 0 lowest: the order of a likelihood's columns."""
    return columns.to_matrix() @ (1 << np.arange(columns.width, dtype=np.int64))


assert LANES == 64
