"""Sums over all reports for questions that are known beforehand, found in one pass.

An unbiased answer and its variance are linear in a few *terms*. A term is a product of bits, read
as +1 and −1, at most one of each block, and may be split by the symbols of other blocks. Its sum
over people is a whole number, so that sums of parts add up exactly, in any order. A range on each
of D thermometer axes has at most 3^D terms, many of which it shares with other ranges.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import BitColumns, Floats, Layout, popcount
from sfumato.collect.statistics import (
    MOST_GRID,
    BitReports,
    SymbolCounts,
    Vectors,
    digest_of,
)
from sfumato.errors import QuestionError, TooLargeError

#: One number per block: 0 where everybody counts alike. Of bits, k + 1 is bit k as ±1; of symbols,
#: 1 keeps them apart.
Term: TypeAlias = tuple[int, ...]
_WORDS_AT_ONCE = 1 << 15  # of a column: what stays in nearer memory is faster


@dataclass(frozen=True, eq=False)
class TermSums:
    """The sums of some terms over all reports.

    Args:
        layouts: How each block's output is written.
        terms: The terms, in order.
        sums: The sum of each, with one dimension per block whose symbols it keeps apart.
        count: Number of reports.
    """

    layouts: tuple[Layout, ...]
    terms: tuple[Term, ...]
    sums: tuple[NDArray[np.int64], ...]
    count: int

    @classmethod
    def of(cls, statistic: SymbolCounts | BitReports | TermSums, terms: Sequence[Term]) -> TermSums:
        """The sums of some terms, from a statistic that has them.

        Args:
            statistic: Reports without weights, or sums of these terms and others.
            terms: The terms.
        """
        listed, layouts = tuple(sorted(set(terms))), statistic.layouts
        refuse_large(layouts, listed)
        found: dict[Term, NDArray[np.int64]] = {}
        if isinstance(statistic, TermSums):
            found = {term: statistic.sum_of(term) for term in listed}
            return cls(layouts, listed, tuple(found.values()), statistic.count)
        signs = [term for term in listed if any(term) and not _split(layouts, term)]
        if isinstance(statistic, BitReports):
            odd = _odd_sums(statistic.columns, statistic.count, signs)
            for term, people in zip(signs, odd, strict=True):
                balance = statistic.count - 2 * people
                degree = np.count_nonzero(term)
                found[term] = np.array(balance if degree % 2 == 0 else -balance)
        for term in listed:
            if term not in found:
                found[term] = _split_sum(statistic, term)
        sums = tuple(found[term] for term in listed)
        return cls(layouts, listed, sums, statistic.count)

    @cached_property
    def _places(self) -> dict[Term, int]:
        return {term: place for place, term in enumerate(self.terms)}

    def sum_of(self, term: Term) -> NDArray[np.int64]:
        """The sum of a term; one that is not kept is refused."""
        if not any(term):
            return np.array(self.count)
        place = self._places.get(term)
        if place is None:
            raise QuestionError(
                "this tally keeps sums for questions that were named beforehand, and this is none "
                "of them; name it too, or tally the reports with keep='reports'"
            )
        return self.sums[place]

    def sum(self, vectors: Vectors) -> float:
        """Sum over people of the product over axes; None stands for the constant one."""
        return float(self.profile((), vectors))

    def cost(self, vectors: Vectors) -> float:
        """Memory accesses: one look-up per term."""
        return float(sum(1 for _ in terms_of(self.layouts, vectors)))

    def profile(self, axes: Sequence[int], vectors: Vectors) -> Floats:
        """Sums split by the features of some axes: symbols, or the constant and each bit.

        Args:
            axes: The axes to split by.
            vectors: The functions to multiply on the other axes; None is the constant one.

        Returns:
            A dense array with one dimension per entry of `axes`, one entry per feature.
        """
        found = np.zeros([self.layouts[axis].features for axis in axes])
        for term, coefficient in _weighed(self.layouts, vectors, axes):
            part: Floats = self.sum_of(term).astype(np.float64)
            split = _split(self.layouts, term)
            for place in reversed(range(len(split))):
                vector = vectors[split[place]]
                if split[place] not in axes and vector is not None:
                    part = np.tensordot(part, vector, axes=(place, 0))
            kept = [axis for axis in split if axis in axes]
            wanted = [axis for axis in axes if axis in kept]
            part = np.transpose(part, [kept.index(axis) for axis in wanted])
            here = tuple(slice(None) if axis in kept else term[axis] for axis in axes)
            found[here] += coefficient * part
        return found

    def profile_cost(self, axes: Sequence[int]) -> float:
        """Infinite: no grid is to be built from these sums."""
        return math.inf

    def digest(self) -> str:
        """A SHA-256 that differs for other sums."""
        numbers = np.array(self.terms, dtype="<i8")
        return digest_of(self.layouts, self.count, [numbers, *(s.astype("<i8") for s in self.sums)])

    def __add__(self, other: TermSums) -> TermSums:
        sums = tuple(a + b for a, b in zip(self.sums, other.sums, strict=True))
        return TermSums(self.layouts, self.terms, sums, self.count + other.count)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TermSums)
            and (self.layouts, self.terms, self.count) == (other.layouts, other.terms, other.count)
            and all(np.array_equal(a, b) for a, b in zip(self.sums, other.sums, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]


class Recorder:
    """A statistic of nobody that notes which terms are asked for; all sums are zero.

    An estimate over it computes everything but the sums over people. So whatever a question reads,
    its value, its variance or the width of its interval, is known before any report is read.

    Args:
        layouts: How each block's output is written.
    """

    #: As many as an error needs to be defined.
    count = 2

    def __init__(self, layouts: tuple[Layout, ...]) -> None:
        self.layouts = layouts
        self.terms: set[Term] = set()

    def sum(self, vectors: Vectors) -> float:
        """Note the terms of a sum."""
        self.terms.update(terms_of(self.layouts, vectors))
        return 0.0

    def cost(self, vectors: Vectors) -> float:
        """Nothing is read."""
        return 0.0

    def profile(self, axes: Sequence[int], vectors: Vectors) -> Floats:
        """Note the terms of sums that are split by features.

        Args:
            axes: The axes to split by.
            vectors: The functions to multiply on the other axes; None is the constant one.
        """
        self.terms.update(terms_of(self.layouts, vectors, axes))
        return np.zeros([self.layouts[axis].features for axis in axes])

    def profile_cost(self, axes: Sequence[int]) -> float:
        """Infinite: no grid is to be built."""
        return math.inf


def terms_of(layouts: Sequence[Layout], vectors: Vectors, axes: Sequence[int] = ()) -> list[Term]:
    """The terms that a sum of a product of functions needs.

    Args:
        layouts: How each block's output is written.
        vectors: The functions; None is the constant one.
        axes: Axes by whose features the sum is split.
    """
    return [term for term, _ in _weighed(layouts, vectors, axes)]


def _weighed(
    layouts: Sequence[Layout], vectors: Vectors, axes: Sequence[int] = ()
) -> Iterator[tuple[Term, float]]:
    """The terms with their coefficients, in the order in which reports are summed too."""
    choices: list[list[tuple[int, float]]] = []
    for place, (layout, vector) in enumerate(zip(layouts, vectors, strict=True)):
        if layout.kind == "symbols":
            choices.append([(int(vector is not None or place in axes), 1.0)])
        elif place in axes:
            choices.append([(feature, 1.0) for feature in range(layout.features)])
        elif vector is None:
            choices.append([(0, 1.0)])
        else:
            choices.append([(int(k), float(vector[k])) for k in np.flatnonzero(vector)])
    for chosen in itertools.product(*choices):
        yield tuple(number for number, _ in chosen), math.prod(factor for _, factor in chosen)


def _split(layouts: Sequence[Layout], term: Term) -> list[int]:
    """The blocks whose symbols a term keeps apart."""
    pairs = enumerate(zip(layouts, term, strict=True))
    return [place for place, (layout, number) in pairs if number and layout.kind == "symbols"]


def shape_of(layouts: Sequence[Layout], term: Term) -> tuple[int, ...]:
    """The shape of a term's sums: one dimension per block whose symbols it keeps apart.

    Args:
        layouts: How each block's output is written.
        term: The term.
    """
    return tuple(layouts[place].count for place in _split(layouts, term))


def refuse_large(layouts: Sequence[Layout], terms: Iterable[Term]) -> None:
    """Refuse terms with more sums than memory should hold.

    Args:
        layouts: How each block's output is written.
        terms: The terms.
    """
    size = sum(math.prod(shape_of(layouts, term)) for term in terms)
    if size > MOST_GRID:
        raise TooLargeError(
            f"these questions need {size:,} sums, and a tally keeps at most {MOST_GRID:,}; ask "
            "about fewer of them, or about fewer axes at once"
        )


def _split_sum(statistic: SymbolCounts | BitReports, term: Term) -> NDArray[np.int64]:
    """The sums of a term that keeps symbols apart, or has no bits."""
    split = _split(statistic.layouts, term)
    if not any(term):
        return np.array(statistic.count)
    vectors: list[Floats | None] = [None] * len(term)
    for place, number in enumerate(term):
        if number and place not in split:
            vectors[place] = np.zeros(statistic.layouts[place].features)
            vectors[place][number] = 1.0  # type: ignore[index]
    return np.rint(statistic.profile(split, vectors)).astype(np.int64)


def _odd_sums(columns: Sequence[Any], count: int, terms: Sequence[Term]) -> NDArray[np.int64]:
    """For each term of bits alone, how many people have an odd number of its bits set.

    The exclusive or of the first columns of a term is kept for the next one, which may share them.
    """
    found = np.zeros(len(terms), dtype=np.int64)
    paths = [[(d, number - 1) for d, number in enumerate(term) if number] for term in terms]
    bits = [column for column in columns if isinstance(column, BitColumns)]
    words = bits[0].words.shape[1] if bits else 0
    buffers = np.empty((len(columns), _WORDS_AT_ONCE), dtype=np.uint64)
    for start in range(0, words, _WORDS_AT_ONCE):
        part = slice(start, min(start + _WORDS_AT_ONCE, words))
        before: list[tuple[int, int]] = []
        parities: list[NDArray[np.uint64]] = []
        for number, path in enumerate(paths):
            same = 0
            while same < min(len(before), len(path)) and before[same] == path[same]:
                same += 1
            del parities[same:]
            for depth in range(same, len(path)):
                block, bit = path[depth]
                column = columns[block].words[bit, part]
                if depth:
                    out = buffers[depth, : len(column)]
                    column = np.bitwise_xor(parities[depth - 1], column, out=out)
                parities.append(column)
            before = path
            found[number] += popcount(parities[-1])
    return found
