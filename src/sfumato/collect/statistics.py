"""The statistics of reports that a tally keeps, and sums over people computed from them.

Every answer is a sum over people of a product over blocks of a function of that block's output. The
function is a vector of coefficients, called *features*: one per symbol, or for bits, read as +1 and
−1, the constant and one per bit. In this module "axis" means the column of one block. Six classes
compute such sums; they differ in what they store and what a sum costs:

- `SymbolCounts`: a sparse contingency table of distinct outputs, if every output is a symbol;
- `BitReports`: the reports themselves as packed columns, if some outputs are bits;
- `block_sums.BlockSums`: sums for each block by itself, for questions about one block;
- `term_sums.TermSums`: sums for questions that are known beforehand, and for nothing else;
- `sums.CellSums` and `sums.PrefixSums`: dense tables made from either, if they are small enough.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import BitColumns, Floats, Layout, Outputs, join_outputs, popcount, words_for
from sfumato.collect.counting import histogram
from sfumato.errors import TooLargeError

Vectors: TypeAlias = Sequence[Floats | None]
_Term: TypeAlias = tuple[NDArray[np.uint64] | None, float]
_Group: TypeAlias = tuple[int, float, NDArray[np.uint64] | None, int]

MOST_GRID = 1 << 24
_MOST_KEYS = 1 << 62
_MOST_GROUPS = 64
_PEOPLE_AT_ONCE = 1 << 16


class Statistic(Protocol):
    """Anything that can sum products of functions of the outputs over people."""

    @property
    def count(self) -> int:
        """Number of reports."""
        ...

    def sum(self, vectors: Vectors) -> float:
        """Sum over people of the product over axes; None stands for the constant one."""
        ...

    def cost(self, vectors: Vectors) -> float:
        """Roughly how many memory accesses `sum` would take."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class SymbolCounts:
    """Sparse contingency table: how many people sent each combination of symbols.

    Args:
        layouts: How each axis' output is written.
        symbols: The combinations that occur, one column per axis.
        people: How many people sent each, or the sum of their weights in floats.
        count: Number of reports.
    """

    layouts: tuple[Layout, ...]
    symbols: tuple[NDArray[np.integer[Any]], ...]
    people: NDArray[np.int64] | Floats
    count: int

    @classmethod
    def of(
        cls,
        layouts: tuple[Layout, ...],
        columns: Sequence[NDArray[np.integer[Any]]],
        people: NDArray[np.int64] | Floats | None = None,
        count: int | None = None,
    ) -> SymbolCounts:
        """Count the distinct combinations among rows of symbols.

        Args:
            layouts: How each axis' output is written.
            columns: The symbols, one column per axis.
            people: How many people each row stands for, or their weight in floats; left out, one.
            count: Number of reports, where `people` are weights.
        """
        shape = tuple(layout.count for layout in layouts)
        if people is not None and people.dtype.kind == "f":
            # A report of weight zero counts in `count` only.
            columns, people = [c[people > 0] for c in columns], people[people > 0]
        rows = len(columns[0])
        if is_dense(layouts, rows):
            if people is None:
                dense: NDArray[Any] = histogram(columns, shape)
            else:
                dense = np.zeros(math.prod(shape), dtype=people.dtype)
                np.add.at(dense, np.ravel_multi_index(tuple(columns), shape), people)
            return cls.of_dense(layouts, dense, count)
        symbols, totals = _distinct(shape, columns, people)
        return cls._packed(layouts, symbols, totals, count)

    @classmethod
    def of_dense(
        cls,
        layouts: tuple[Layout, ...],
        dense: NDArray[np.int64] | Floats,
        count: int | None = None,
    ) -> SymbolCounts:
        """The combinations that occur, from a table of all.

        Args:
            layouts: How each axis' output is written.
            dense: How many people sent each combination, in C order, or their weights.
            count: Number of reports, where they are weights.
        """
        found = np.flatnonzero(dense)
        symbols = np.unravel_index(found, tuple(layout.count for layout in layouts))
        return cls._packed(layouts, symbols, dense[found], count)

    @classmethod
    def _packed(
        cls,
        layouts: tuple[Layout, ...],
        symbols: Sequence[NDArray[Any]],
        people: NDArray[np.int64] | Floats,
        count: int | None,
    ) -> SymbolCounts:
        """Symbols as the smallest numbers that hold them."""
        kinds = [np.min_scalar_type(layout.count - 1) for layout in layouts]
        packed = tuple(s.astype(kind) for s, kind in zip(symbols, kinds, strict=True))
        return cls(layouts, packed, people, int(people.sum()) if count is None else count)

    def sum(self, vectors: Vectors) -> float:
        """One pass over the distinct combinations."""
        return float(self._weights(vectors).sum())

    def cost(self, vectors: Vectors) -> float:
        """Memory accesses: distinct combinations times axes asked about."""
        return 2.0 * len(self.people) * (1 + sum(v is not None for v in vectors))

    def _weights(self, vectors: Vectors) -> Floats:
        """Each combination's people times the product of the functions."""
        weights = self.people.astype(np.float64)
        for symbol, vector in zip(self.symbols, vectors, strict=True):
            if vector is not None:
                weights *= vector[symbol]
        return weights

    def profile(self, axes: Sequence[int], vectors: Vectors) -> Floats:
        """Sums split by the outputs of some axes.

        Args:
            axes: The axes to split by.
            vectors: The functions to multiply on the other axes; None is the constant one.

        Returns:
            A dense array with one dimension per entry of `axes`, one entry per symbol.
        """
        shape = tuple(self.layouts[axis].count for axis in axes)
        _refuse_grid(shape)
        weights = self._weights([None if d in axes else v for d, v in enumerate(vectors)])
        key = np.ravel_multi_index(tuple(self.symbols[axis] for axis in axes), shape)
        split = np.bincount(key, weights, minlength=math.prod(shape))
        return split.astype(np.float64).reshape(shape)

    def profile_cost(self, axes: Sequence[int]) -> float:
        """Memory accesses of `profile`: one pass over the combinations, and the array."""
        return len(self.people) * 3.0 + math.prod(self.layouts[axis].count for axis in axes)

    def digest(self) -> str:
        """A SHA-256 that differs for other counts."""
        columns = [symbols.astype("<u8") for symbols in self.symbols]
        kind = "<f8" if self.people.dtype.kind == "f" else "<i8"
        return digest_of(self.layouts, self.count, [*columns, self.people.astype(kind)])

    def __add__(self, other: SymbolCounts) -> SymbolCounts:
        columns = [np.concatenate(pair) for pair in zip(self.symbols, other.symbols, strict=True)]
        people = np.concatenate([self.people, other.people])
        return SymbolCounts.of(self.layouts, columns, people, self.count + other.count)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, SymbolCounts)
            and self.layouts == other.layouts
            and self.count == other.count
            and _same(self.people, other.people)
            and all(np.array_equal(a, b) for a, b in zip(self.symbols, other.symbols, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, eq=False)
class BitReports:
    """All reports as columns, for studies in which some axis sends bits.

    Args:
        layouts: How each axis' output is written.
        columns: Packed bits where an axis sends bits, an array of symbols where it does not.
        count: Number of reports.
        weights: The weight of each report; None if all are one.
    """

    layouts: tuple[Layout, ...]
    columns: tuple[Outputs, ...]
    count: int
    weights: Floats | None = None

    def sum(self, vectors: Vectors) -> float:
        """Expand the product into monomials of ±1 bits: a parity of columns and a popcount each."""
        terms = self._terms(vectors)
        by_parity = math.prod(len(t) for t in terms) * words_for(self.count)
        by_person = 3.0 * self.count * sum(len(t) for t in terms)
        if terms and by_parity > by_person:
            return self._sum_by_person(vectors)
        return float(self._collect((), vectors, [terms])[()])

    def cost(self, vectors: Vectors) -> float:
        """Memory accesses: monomials times words."""
        monomials = math.prod(len(terms) for terms in self._terms(vectors))
        return monomials * words_for(self.count) * 3.0

    def profile(self, axes: Sequence[int], vectors: Vectors) -> Floats:
        """Sums split by the features of some axes: symbols, or the constant and each bit.

        Args:
            axes: The axes to split by.
            vectors: The functions to multiply on the other axes; None is the constant one.

        Returns:
            A dense array with one dimension per entry of `axes`, one entry per feature.
        """
        layouts = [self.layouts[axis] for axis in axes]
        _refuse_grid(tuple(layout.features for layout in layouts))
        bits = [axis for axis in axes if self.layouts[axis].kind == "bits"]
        others = self._terms([None if d in axes else v for d, v in enumerate(vectors)])
        features: list[list[_Term]] = []
        for axis in bits:
            every = np.ones(self.layouts[axis].features)
            features += self._terms([every if d == axis else None for d in range(len(vectors))])
        questions = [[*([term] for term in p), *others] for p in itertools.product(*features)]
        symbols = tuple(axis for axis in axes if axis not in bits)
        split = self._collect(symbols, vectors, questions)
        # Bits stand first, symbols last: put the axes back in the order asked for.
        wide = split.reshape(
            *(self.layouts[axis].features for axis in bits),
            *(self.layouts[axis].count for axis in symbols),
        )
        return np.transpose(wide, [[*bits, *symbols].index(axis) for axis in axes])

    def profile_cost(self, axes: Sequence[int]) -> float:
        """Memory accesses of `profile`: one sum per combination of features."""
        return math.prod(self.layouts[axis].features for axis in axes) * words_for(self.count) * 4.0

    def _collect(
        self, symbols: tuple[int, ...], vectors: Vectors, questions: Sequence[list[list[_Term]]]
    ) -> Floats:
        """For each question about bits, its sum over people, split by some symbol axes."""
        shape = tuple(self.layouts[axis].count for axis in symbols)
        cells = math.prod(shape)
        out = np.zeros((len(questions), cells))
        key, weights = self._symbol_key(symbols), self._symbol_weights(vectors, symbols)
        groups = _groups(key, weights, self.count)
        for row, terms in zip(out, questions, strict=True):
            for coefficient, parity, degree in _walk(terms):
                if groups is not None:
                    for cell, level, mask, people in groups:
                        row[cell] += coefficient * level * _signed(parity, mask, degree, people)
                else:
                    signs = self._signs(parity, degree)
                    signed = signs if weights is None else signs * weights
                    at = np.zeros(self.count, dtype=np.int64) if key is None else key
                    row += coefficient * np.bincount(at, signed, minlength=cells)
        return out.reshape(len(questions), *shape) if symbols or len(questions) > 1 else out[0, 0]

    def _terms(self, vectors: Vectors) -> list[list[_Term]]:
        """For each bit axis asked about, columns with coefficients; None is the constant."""
        found = []
        for column, vector in zip(self.columns, vectors, strict=True):
            if vector is None or not isinstance(column, BitColumns):
                continue
            terms: list[_Term] = [(None, float(vector[0]))] if vector[0] else []
            places = np.flatnonzero(vector[1:]).tolist()
            terms += [(column.words[k], float(vector[k + 1])) for k in places]
            found.append(terms)
        return found

    def _symbol_key(self, axes: Sequence[int]) -> NDArray[np.int64] | None:
        """Each person's combination of symbols on some axes, as one number."""
        if not axes:
            return None
        shape = tuple(self.layouts[axis].count for axis in axes)
        columns = [self.columns[axis] for axis in axes]
        return np.ravel_multi_index([np.asarray(column) for column in columns], shape)

    def _symbol_weights(
        self, vectors: Vectors, left_out: Sequence[int] = (), rows: slice = slice(None)
    ) -> Floats | None:
        """Each person's weight times the product over the symbol axes asked about, or None."""
        weights = None if self.weights is None else self.weights[rows]
        for axis, (column, vector) in enumerate(zip(self.columns, vectors, strict=True)):
            if vector is None or isinstance(column, BitColumns) or axis in left_out:
                continue
            values = vector[column[rows]]
            weights = values if weights is None else weights * values
        return weights

    def _signs(self, parity: NDArray[np.uint64] | None, degree: int) -> Floats:
        """Each person's product of signs."""
        if parity is None:
            return np.ones(self.count)
        odd = BitColumns(parity[None, :], self.count).to_matrix()[:, 0]
        return np.where(odd == (degree % 2 == 0), -1.0, 1.0)

    def _sum_by_person(self, vectors: Vectors) -> float:
        """Evaluate the product for each person, chunk by chunk."""
        total = 0.0
        for start in range(0, self.count, _PEOPLE_AT_ONCE):
            rows = slice(start, min(start + _PEOPLE_AT_ONCE, self.count))
            weights = self._symbol_weights(vectors, rows=rows)
            product = np.ones(rows.stop - start) if weights is None else weights
            for column, vector in zip(self.columns, vectors, strict=True):
                if vector is not None and isinstance(column, BitColumns):
                    matrix = column[rows].to_matrix()
                    product = product * (vector[0] - vector[1:].sum() + 2 * (matrix @ vector[1:]))
            total += float(product.sum())
        return total

    def digest(self) -> str:
        """A SHA-256 that differs for other reports, but not for another order of them."""
        rows = np.ascontiguousarray(self._rows())
        return digest_of(
            self.layouts, self.count, [np.sort(rows.view(f"V{rows.shape[1]}"), axis=0)]
        )

    def __add__(self, other: BitReports) -> BitReports:
        columns = [
            join_outputs(layout, pair)
            for layout, *pair in zip(self.layouts, self.columns, other.columns, strict=True)
        ]
        weights = (
            None
            if self.weights is None or other.weights is None
            else np.concatenate([self.weights, other.weights])
        )
        return BitReports(self.layouts, tuple(columns), self.count + other.count, weights)

    def __eq__(self, other: object) -> bool:
        """The same reports in any order."""
        return (
            isinstance(other, BitReports)
            and self.layouts == other.layouts
            and self.count == other.count
            and np.array_equal(self._sorted_rows(), other._sorted_rows())
        )

    __hash__ = None  # type: ignore[assignment]

    def _sorted_rows(self) -> NDArray[np.uint8]:
        """Every report as a row of bytes, in order."""
        rows = self._rows()
        return rows[np.lexsort(rows.T)]

    def _rows(self) -> NDArray[np.uint8]:
        """Every report as a row of bytes."""
        parts = [
            column.to_rows()
            if isinstance(column, BitColumns)
            else column.astype("<u8")[:, None].view(np.uint8)
            for column in self.columns
        ]
        parts += [] if self.weights is None else [self.weights[:, None].view(np.uint8)]
        return np.concatenate(parts, axis=1)


def is_dense(layouts: Sequence[Layout], rows: int) -> bool:
    """Whether a table of all combinations is quicker than sorting, and not much larger than rows.

    Args:
        layouts: How each axis' output is written.
        rows: How many rows are counted.
    """
    return math.prod(layout.count for layout in layouts) <= max(4 * rows, 1 << 12)


def statistic_of(
    layouts: tuple[Layout, ...], outputs: Sequence[Outputs], weights: Floats | None = None
) -> SymbolCounts | BitReports:
    """Reduce outputs to the smallest statistic that answers can be computed from.

    Args:
        layouts: How each block's output is written.
        outputs: One column per block.
        weights: The weight of each report; left out, one.
    """
    symbols = [column for column in outputs if not isinstance(column, BitColumns)]
    if len(symbols) == len(outputs):
        return SymbolCounts.of(layouts, symbols, weights, len(outputs[0]))
    return BitReports(layouts, tuple(outputs), len(outputs[0]), weights)


def merged(parts: Sequence[Any]) -> Any:
    """The sum of statistics of one kind, added pairwise so that reports are copied O(log) times."""
    found = list(parts)
    while len(found) > 1:
        pairs = zip(found[::2], found[1::2], strict=False)
        added = [a + b for a, b in pairs]
        found = added + ([found[-1]] if len(found) % 2 else [])
    return found[0]


def digest_of(layouts: Sequence[Layout], count: int, arrays: Sequence[NDArray[Any]]) -> str:
    """A SHA-256 of what a statistic holds.

    Args:
        layouts: How each block's output is written.
        count: Number of reports.
        arrays: Its numbers, in a byte order that is the same on every machine.
    """
    found = hashlib.sha256(repr(([(held.kind, held.count) for held in layouts], count)).encode())
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def _distinct(
    shape: tuple[int, ...],
    columns: Sequence[NDArray[np.integer[Any]]],
    people: NDArray[np.int64] | Floats | None,
) -> tuple[tuple[NDArray[Any], ...], NDArray[np.int64] | Floats]:
    """Distinct rows in order, and how many people each stands for."""
    if math.prod(shape) < _MOST_KEYS:
        key = np.ravel_multi_index(tuple(columns), shape)
        keys, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
        symbols: tuple[NDArray[Any], ...] = np.unravel_index(keys, shape)
    else:
        stacked = np.stack([column.astype(np.int64) for column in columns], axis=1)
        found, inverse, counts = np.unique(stacked, axis=0, return_inverse=True, return_counts=True)
        symbols = tuple(found.T)
    if people is None:
        return symbols, counts
    totals: NDArray[Any] = np.zeros(len(counts), dtype=people.dtype)
    np.add.at(totals, inverse.reshape(-1), people)
    return symbols, totals


def _same(a: NDArray[np.int64] | Floats, b: NDArray[np.int64] | Floats) -> bool:
    """Whether counts are equal; sums of weights may differ by rounding."""
    if a.dtype.kind != b.dtype.kind or len(a) != len(b):
        return False
    return bool(np.array_equal(a, b) if a.dtype.kind == "i" else np.allclose(a, b, 1e-9, 0.0))


def _walk(terms: Sequence[list[_Term]]) -> Iterator[tuple[float, NDArray[np.uint64] | None, int]]:
    """Every monomial: its coefficient, the parity of its columns, and its degree."""
    if not terms:
        yield 1.0, None, 0
        return
    for coefficient, parity, degree in _walk(terms[:-1]):
        for column, factor in terms[-1]:
            if column is None:
                yield coefficient * factor, parity, degree
            else:
                joint = column if parity is None else parity ^ column
                yield coefficient * factor, joint, degree + 1


def _groups(
    key: NDArray[np.int64] | None, weights: Floats | None, count: int
) -> list[_Group] | None:
    """People by cell and weight: cell, weight, mask and size of each group; None if too many."""
    if key is None and weights is None:
        return [(0, 1.0, None, count)]
    levels, level = (
        (np.ones(1), np.zeros(count, dtype=np.int64))
        if weights is None
        else np.unique(weights, return_inverse=True)
    )
    cell = np.zeros(count, dtype=np.int64) if key is None else key
    found, group = np.unique(cell * len(levels) + level, return_inverse=True)
    if len(found) > _MOST_GROUPS:
        return None
    masks = BitColumns.from_matrix(group[:, None] == np.arange(len(found))).words
    return [
        (int(f) // len(levels), float(levels[int(f) % len(levels)]), mask, popcount(mask))
        for f, mask in zip(found, masks, strict=True)
    ]


def _signed(
    parity: NDArray[np.uint64] | None, mask: NDArray[np.uint64] | None, degree: int, people: int
) -> int:
    """Sum over people of a product of `degree` signs, from the parity of their bits."""
    if parity is None:
        return people
    odd = popcount(parity if mask is None else parity & mask)
    balance = people - 2 * odd
    return balance if degree % 2 == 0 else -balance


def _refuse_grid(shape: tuple[int, ...]) -> None:
    """Refuse dense tables of more than `MOST_GRID` entries."""
    if math.prod(shape) > MOST_GRID:
        raise TooLargeError(
            f"a table of {' × '.join(map(str, shape))} entries needs "
            f"{math.prod(shape) * 8 / 2**30:.1f} GiB; the limit is {MOST_GRID} entries. "
            "Ask about fewer axes at once, or about groups of cells (bins=...)"
        )
