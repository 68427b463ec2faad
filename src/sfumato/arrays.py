"""Array types, packed columns of bits, layouts of outputs, and sizes of chunks, defined once.

Column k of packed bits holds bit k of every report, 64 people to a word; lanes beyond the last
person are zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import FormatError

LANES = 64
_ROWS_AT_ONCE = 1 << 13


@dataclass(frozen=True, slots=True, eq=False)
class BitColumns:
    """Packed bits of `count` people; `words` has shape (bits per person, words).

    Args:
        words: The bits, 64 people per word.
        count: Number of people.
    """

    words: NDArray[np.uint64]
    count: int

    def __len__(self) -> int:
        return self.count

    @property
    def width(self) -> int:
        """Bits per person."""
        return len(self.words)

    @classmethod
    def from_matrix(cls, matrix: NDArray[np.bool_]) -> BitColumns:
        """Pack a (people, bits) matrix of truth values."""
        count, width = matrix.shape
        padded = np.zeros((width, words_for(count) * LANES), dtype=np.bool_)
        padded[:, :count] = matrix.T
        packed = np.packbits(padded, axis=1, bitorder="little")
        return cls(packed.view("<u8").astype(np.uint64, copy=False), count)

    def to_matrix(self) -> NDArray[np.bool_]:
        """The (people, bits) matrix of truth values; eight times the packed size."""
        raw = self.words.astype("<u8", copy=False).view(np.uint8)
        lanes = np.unpackbits(raw, axis=1, count=self.count, bitorder="little")
        return lanes.T.astype(np.bool_)

    @classmethod
    def from_rows(cls, rows: NDArray[np.uint8], width: int) -> BitColumns:
        """Read one packed row of bytes per person, as `to_rows` writes them.

        Args:
            rows: Bytes, shape (people, ⌈bits/8⌉).
            width: Bits per person.
        """
        spare = rows.shape[1] * 8 - width
        if rows.shape[1] != (width + 7) // 8 or (
            spare and rows.size and np.any(rows[:, -1] >> (8 - spare))
        ):
            raise FormatError(f"a report must hold {width} bits and zeros up to the byte's end")
        parts = [
            cls.from_matrix(
                np.unpackbits(part, axis=1, count=width, bitorder="little").astype(np.bool_)
            )
            for part in np.split(rows, range(_ROWS_AT_ONCE, len(rows), _ROWS_AT_ONCE))
        ]
        return cls.concatenate(parts, width)

    def to_rows(self) -> NDArray[np.uint8]:
        """One packed row of bytes per person, shape (people, ⌈bits/8⌉)."""
        out = np.empty((self.count, (self.width + 7) // 8), dtype=np.uint8)
        for start in range(0, self.count, _ROWS_AT_ONCE):
            part = self[start : start + _ROWS_AT_ONCE]
            out[start : start + len(part)] = np.packbits(
                part.to_matrix(), axis=1, bitorder="little"
            )
        return out

    def __getitem__(self, rows: slice) -> BitColumns:
        start, stop, step = rows.indices(self.count)
        if step == 1 and start % LANES == 0:
            stop = max(start, stop)
            words = self.words[:, start // LANES : words_for(stop)].copy()
            if stop % LANES and words.size:
                words[:, -1] &= np.uint64((1 << (stop % LANES)) - 1)
            return BitColumns(words, stop - start)
        return BitColumns.from_matrix(self.to_matrix()[rows])

    @classmethod
    def concatenate(cls, parts: Sequence[BitColumns], width: int) -> BitColumns:
        """Concatenate the people of all parts.

        Args:
            parts: Columns of the same width.
            width: Bits per person, also where there are no parts.
        """
        total = sum(len(part) for part in parts)
        words = np.zeros((width, words_for(total)), dtype=np.uint64)
        at = 0
        for part in parts:
            _place(words, at, part)
            at += len(part)
        return cls(words, total)

    def parity(self, columns: Iterable[int]) -> NDArray[np.uint64]:
        """The exclusive or of some columns, packed."""
        total = np.zeros(self.words.shape[1], dtype=np.uint64)
        for column in columns:
            total ^= self.words[column]
        return total


def _place(words: NDArray[np.uint64], at: int, part: BitColumns) -> None:
    """Write a part's lanes into `words` from lane `at` on, shifting across word boundaries."""
    size = part.words.shape[1]
    first, shift = divmod(at, LANES)
    if not size:
        return
    if shift == 0:
        words[:, first : first + size] = part.words
        return
    words[:, first : first + size] |= part.words << np.uint64(shift)
    spill = part.words >> np.uint64(LANES - shift)
    room = words.shape[1] - (first + 1)
    words[:, first + 1 : first + 1 + size] |= spill[:, : min(size, room)]


def take_people(outputs: Any, people: NDArray[np.intp]) -> Any:
    """Select the outputs of some people.

    Args:
        outputs: Symbols, or packed bits.
        people: Row numbers of the people.
    """
    if isinstance(outputs, BitColumns):
        return BitColumns.from_matrix(outputs.to_matrix()[people])
    return outputs[people]


def alike(a: Any, b: Any) -> bool:
    """Whether two values are equal: arrays entry by entry, records field by field, NaN as NaN.

    Args:
        a: A number, text, array, tuple or dataclass; fields that are not compared are left out.
        b: The other one.

    Example:
        >>> alike((1.0, math.nan, np.arange(3)), (1.0, math.nan, np.arange(3)))
        True
    """
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        one, other = np.asarray(a), np.asarray(b)
        is_number = one.dtype.kind == "f" and other.dtype.kind == "f"
        return np.array_equal(one, other, equal_nan=is_number)
    if type(a) is not type(b):
        return False
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(alike, a, b))
    if is_dataclass(a):
        names = [one.name for one in fields(a) if one.compare]
        return all(alike(getattr(a, name), getattr(b, name)) for name in names)
    both_nan = isinstance(a, float) and math.isnan(a) and math.isnan(b)
    return bool(both_nan or a == b)


def words_for(count: int) -> int:
    """Number of 64-bit words that hold `count` people."""
    return -(-count // LANES)


def popcount(words: NDArray[np.uint64]) -> int:
    """Number of bits that are set."""
    return int(np.bitwise_count(words).sum(dtype=np.int64))


Floats: TypeAlias = NDArray[np.float64]

Cells = NDArray[np.integer[Any]]
Outputs: TypeAlias = NDArray[np.integer[Any]] | BitColumns

DENSE_CELLS = 4096  # beyond this many cells no matrix of cells by outputs is built
PEOPLE_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class Layout:
    """How an output is written: one of `count` symbols, or `count` bits."""

    kind: Literal["symbols", "bits"]
    count: int

    @property
    def features(self) -> int:
        """Length of a coefficient vector: one per symbol, or the constant and one per bit."""
        return self.count if self.kind == "symbols" else self.count + 1


#: The most entries of a matrix of reports by cells that likelihood decoding builds.
MOST_ROW_ENTRIES = 1 << 26
_MOST_OUTPUTS = 1 << 18
_MANY_OUTPUTS = 1 << 22


def most_outputs(cells: int) -> int:
    """The largest number of distinct outputs that likelihood decoding handles for these cells.

    It allows for the 16 outputs per cell of hierarchies.
    """
    return max(_MOST_OUTPUTS, 4 * cells, min(16 * cells, _MANY_OUTPUTS))


def join_outputs(layout: Layout, parts: Sequence[Outputs]) -> Outputs:
    """Concatenate the outputs of one block over groups of people.

    Args:
        layout: How an output is written.
        parts: The outputs of each group of people.
    """
    if layout.kind == "bits":
        packed = [part for part in parts if isinstance(part, BitColumns)]
        return BitColumns.concatenate(packed, layout.count)
    return np.concatenate([part for part in parts if not isinstance(part, BitColumns)])


def one_output(layout: Layout, result: int) -> Outputs:
    """The output of one block for one person.

    Args:
        layout: How it is written.
        result: The symbol, or the bits as one number, bit 0 the lowest.
    """
    if layout.kind == "symbols":
        return np.array([result])
    row = result.to_bytes(-(-layout.count // 8), "little")
    return BitColumns.from_rows(np.frombuffer(row, dtype=np.uint8)[None, :], layout.count)


def no_outputs(layouts: Sequence[Layout]) -> list[Outputs]:
    """The outputs of no people: an empty column per block."""
    return [
        np.zeros(0, dtype=np.int64)
        if layout.kind == "symbols"
        else BitColumns(np.zeros((layout.count, 0), dtype=np.uint64), 0)
        for layout in layouts
    ]
