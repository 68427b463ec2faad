"""Sums over all reports for each block by itself: a statistic that does not grow with the reports.

An unbiased answer about one block, and its variance, are linear in the block's features (see
`sfumato.collect.statistics`). So both need only how many reports sent each symbol, or had each bit
set. How the blocks of one report go together is lost: questions about several blocks, and decoding
of bits, need the reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import BitColumns, Floats, Layout, Outputs
from sfumato.collect.counting import histogram
from sfumato.collect.statistics import (
    BitReports,
    SymbolCounts,
    Vectors,
    digest_of,
    statistic_of,
)
from sfumato.collect.term_sums import Term, TermSums
from sfumato.errors import MismatchError, QuestionError

_REMEDY = 'tally the reports with keep="reports" (sfumato tally without --sums)'
#: Why bits are not decoded from sums.
UNDECODED = (
    "this tally keeps sums of bits, and decoding needs the reports; to decode them, " + _REMEDY
)


@dataclass(frozen=True, slots=True, eq=False)
class BlockSums:
    """For each block by itself, how many reports sent each symbol, or had each bit set.

    Args:
        layouts: How each block's output is written.
        sums: One array per block, with one entry per symbol or bit.
        count: Number of reports.
    """

    layouts: tuple[Layout, ...]
    sums: tuple[NDArray[np.int64], ...]
    count: int

    @classmethod
    def of(cls, statistic: SymbolCounts | BitReports | BlockSums) -> BlockSums:
        """The sums of a statistic that keeps more."""
        if isinstance(statistic, BlockSums):
            return statistic
        columns: Sequence[Outputs]
        if isinstance(statistic, SymbolCounts):
            columns, people = statistic.symbols, statistic.people
        else:
            columns, people = statistic.columns, None
        pairs = zip(statistic.layouts, columns, strict=True)
        sums = tuple(_sums(layout, column, people) for layout, column in pairs)
        return cls(statistic.layouts, sums, statistic.count)

    def sum(self, vectors: Vectors) -> float:
        """Sum over people of a function of one block's output; None stands for the constant one."""
        asked = [place for place, vector in enumerate(vectors) if vector is not None]
        if not asked:
            return float(self.count)
        vector = vectors[asked[0]]
        if len(asked) > 1 or vector is None:
            self._refuse()
        used = np.flatnonzero(vector)
        # One term after another, as reports are summed, so that rounding is the same.
        terms = vector[used] * self._features(asked[0])[used]
        return float(np.add.accumulate(terms)[-1]) if len(terms) else 0.0

    def cost(self, vectors: Vectors) -> float:
        """Memory accesses: the features of the block asked about."""
        return 2.0 * sum(len(vector) for vector in vectors if vector is not None)

    def profile(self, axes: Sequence[int], vectors: Vectors) -> Floats:
        """The sums of one block, by its features.

        Args:
            axes: The block.
            vectors: The functions to multiply on the others, which must be None.
        """
        others = [v for place, v in enumerate(vectors) if v is not None and place not in axes]
        if len(axes) > 1 or others:
            self._refuse()
        return self._features(axes[0])

    def profile_cost(self, axes: Sequence[int]) -> float:
        """Memory accesses of `profile`; infinite where it is refused."""
        return float(self.layouts[axes[0]].features) if len(axes) == 1 else np.inf

    def digest(self) -> str:
        """A SHA-256 that differs for other sums."""
        return digest_of(self.layouts, self.count, [held.astype("<i8") for held in self.sums])

    def _features(self, place: int) -> Floats:
        """The sum of each feature of a block: symbols, or the constant and each bit as ±1."""
        held = self.sums[place]
        if self.layouts[place].kind == "symbols":
            return held.astype(np.float64)
        return np.concatenate(([self.count], 2 * held - self.count)).astype(np.float64)

    def _refuse(self) -> NoReturn:
        raise QuestionError(
            "this tally keeps sums for each axis by itself, and a question about several axes "
            f"needs the reports; ask about one axis, or {_REMEDY}"
        )

    def __add__(self, other: BlockSums) -> BlockSums:
        sums = tuple(a + b for a, b in zip(self.sums, other.sums, strict=True))
        return BlockSums(self.layouts, sums, self.count + other.count)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BlockSums)
            and self.layouts == other.layouts
            and self.count == other.count
            and all(np.array_equal(a, b) for a, b in zip(self.sums, other.sums, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]


AnyStatistic: TypeAlias = SymbolCounts | BitReports | BlockSums | TermSums
#: What a tally keeps: "reports" for all that answers can be computed from, "sums" for each block by
#: itself, or the terms that some questions need.
Kept: TypeAlias = str | tuple[Term, ...]


def _sums(layout: Layout, column: Outputs, people: NDArray[Any] | None = None) -> NDArray[np.int64]:
    """How many reports sent each symbol of a block, or had each of its bits set."""
    if isinstance(column, BitColumns):
        ones: NDArray[np.int64] = np.bitwise_count(column.words).sum(axis=1, dtype=np.int64)
        return ones
    if people is None:
        return histogram([column], (layout.count,))
    found = np.zeros(layout.count, dtype=np.int64)
    np.add.at(found, column, people)
    return found


def reduced(layouts: tuple[Layout, ...], outputs: Sequence[Outputs], keep: Kept) -> AnyStatistic:
    """The statistic of outputs that a tally keeps.

    Args:
        layouts: How each block's output is written.
        outputs: One column per block.
        keep: What it keeps.
    """
    if keep == "reports":
        return statistic_of(layouts, outputs)
    if isinstance(keep, tuple):
        return TermSums.of(statistic_of(layouts, outputs), keep)
    pairs = zip(layouts, outputs, strict=True)
    return BlockSums(layouts, tuple(_sums(*pair) for pair in pairs), len(outputs[0]))


def is_sum(layouts: Sequence[Layout]) -> bool:
    """Whether counts of the outputs are themselves sums of one block, so that nothing is lost."""
    return len(layouts) == 1 and layouts[0].kind == "symbols"


def kept_by(statistic: AnyStatistic) -> Kept:
    """What a statistic keeps."""
    if isinstance(statistic, TermSums):
        return statistic.terms
    return "sums" if isinstance(statistic, BlockSums) else "reports"


def narrowed(statistic: AnyStatistic, keep: Kept, what: str) -> AnyStatistic:
    """The part of a statistic that a tally keeps; one that has less is refused.

    Args:
        statistic: The statistic.
        keep: What the tally keeps.
        what: What messages call the statistic.
    """
    if keep == "sums" and not isinstance(statistic, TermSums):
        return BlockSums.of(statistic)
    if isinstance(keep, tuple) and not isinstance(statistic, BlockSums):
        return TermSums.of(statistic, keep)
    if keep == "reports" and kept_by(statistic) == "reports":
        return statistic
    if isinstance(statistic, TermSums):
        raise MismatchError(
            f"{what} keeps sums for questions that were named beforehand, which cannot be added to "
            "more than that; keep the same for all, or tally its reports again"
        )
    raise sums_error(what)


def sums_error(what: str) -> MismatchError:
    """The refusal of sums where more is kept."""
    return MismatchError(
        f"{what} keeps sums, which cannot be added to reports; keep sums of all with "
        'keep="sums" (sfumato tally --sums), or tally its reports again'
    )
