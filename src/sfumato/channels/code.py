"""Code of device programs: the instructions by which a channel perturbs one cell.

A channel writes its code in `Channel.device_code`, with the operations and draws of a `Code`.
Values stand for registers, so that formulas read as they do elsewhere: ``code.clamp(cell + noise -
reach, 0, reach)``. Nothing is computed here: a device does that, as "Device programs" in the
documentation says, and `sfumato.device.interpreter` in Python.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.text import DIGITS


@dataclass(frozen=True, slots=True, eq=False)
class RowProducts:
    """Rows of weights by a rule: base + (share · factors >> shift), and one more for the rest.

    Attributes:
        bits: The weights of a row sum to 2^bits.
        base: What all weights have in common.
        shares: One per outcome.
        factors: Tables of up to 64 numbers of 64 bits.
        shift: Binary digits that are dropped from a product.
        digits: Which entry of each table; shape (outcomes, rows, tables).
    """

    bits: int
    base: int
    shares: list[int]
    factors: list[list[int]]
    shift: int
    digits: NDArray[np.int64]

    def rows(self) -> list[list[int]]:
        """The weights of every row; the last takes the rest, and is negative if there is none."""
        product: NDArray[Any] = np.array(self.shares, dtype=object)[:, None]
        for place, factor in enumerate(self.factors):
            product = product * np.array(factor, dtype=object)[self.digits[..., place]]
        words = (self.base + (product >> self.shift)).T.tolist()
        return [[*row, (1 << self.bits) - sum(row)] for row in words]

    def written(self) -> dict[str, Any]:
        """As a table of a device program."""
        letters = np.array([ord(letter) for letter in DIGITS], dtype=np.uint8)[self.digits]
        return {
            "kind": "products",
            "bits": self.bits,
            "base": str(self.base),
            "shares": runs(self.shares),
            "factors": [runs(factor) for factor in self.factors],
            "shift": self.shift,
            "places": [row.tobytes().decode("ascii") for row in letters],
        }


class Value:
    """An integer that a device computes: a register of its code, or a constant.

    Args:
        code: The code that computes it.
        written: How instructions name it: the number of a register, or a constant as text.
    """

    __slots__ = ("_code", "written")

    def __init__(self, code: Code, written: int | str) -> None:
        self._code, self.written = code, written

    def _put(self, name: str, *given: Value | int) -> Value:
        return self._code.put(name, *given)

    def __add__(self, other: Value | int) -> Value:
        return self if other == 0 else self._put("add", self, other)

    def __radd__(self, other: int) -> Value:
        return self + other

    def __sub__(self, other: Value | int) -> Value:
        return self if other == 0 else self._put("sub", self, other)

    def __rsub__(self, other: int) -> Value:
        return self._put("sub", other, self)

    def __mul__(self, other: Value | int) -> Value:
        return self if other == 1 else self._put("mul", self, other)

    def __rmul__(self, other: int) -> Value:
        return self * other

    def __floordiv__(self, other: Value | int) -> Value:
        return self if other == 1 else self._put("div", self, other)

    def __mod__(self, other: Value | int) -> Value:
        return self._put("mod", self, other)

    def __and__(self, other: Value | int) -> Value:
        return self._put("and", self, other)

    def __xor__(self, other: Value | int) -> Value:
        return self._put("xor", self, other)

    def __lshift__(self, other: Value | int) -> Value:
        return self._put("shl", self, other)

    def __rlshift__(self, other: int) -> Value:
        return self._put("shl", other, self)

    def __rshift__(self, other: Value | int) -> Value:
        return self._put("shr", self, other)


class Code:
    """The instructions of a block, with those of its branches.

    Args:
        tables: Tables of the whole program, which grow as instructions need them.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._open: list[list[Any]] = []  # the piece that is being written
        self._filled = 1  # registers, with that of the cell

    @property
    def cell(self) -> Value:
        """The block's cell, in register 0."""
        return Value(self, 0)

    def constant(self, number: int) -> Value:
        """A number that does not depend on anything."""
        return Value(self, str(number))

    def put(self, name: str, *given: Any) -> Value:
        """Add an instruction; its value.

        Args:
            name: The operation.
            *given: Values and constants.
        """
        return self._append([name, *(_written(each) for each in given)])

    def _append(self, instruction: list[Any]) -> Value:
        self._open.append(instruction)
        self._filled += 1
        return Value(self, self._filled - 1)

    # Operations that have no sign of their own.

    def lowest_bit(self, a: Value) -> Value:
        """The lowest binary digit that is set, as a power of two."""
        return self.put("lowbit", a)

    def parity(self, a: Value) -> Value:
        """Whether the number of binary ones is odd."""
        return self.put("parity", a)

    def less(self, a: Value | int, b: Value | int) -> Value:
        """Whether a < b.

        Args:
            a: A number.
            b: Another.
        """
        return self.put("lt", a, b)

    def equal(self, a: Value | int, b: Value | int) -> Value:
        """Whether a = b.

        Args:
            a: A number.
            b: Another.
        """
        return self.put("eq", a, b)

    def select(self, condition: Value, a: Value | int, b: Value | int) -> Value:
        """The first where the condition is not 0, otherwise the second.

        Args:
            condition: A number.
            a: Where it is not 0.
            b: Where it is 0.
        """
        return self.put("select", condition, a, b)

    def clamp(self, a: Value, low: int, high: int) -> Value:
        """The nearest number from low to high.

        Args:
            a: A number.
            low: The lowest result.
            high: The highest result.
        """
        return self.put("clamp", a, low, high)

    def scattered(self, a: Value, order: int) -> Value:
        """The place of a under `sfumato.channels.transforms.scattered`.

        Args:
            a: A number below the order.
            order: How many places there are.
        """
        return self.put("scatter", a, order)

    def take(self, numbers: Iterable[int], at: Value) -> Value:
        """An entry of a table.

        Args:
            numbers: Non-negative integers.
            at: The place of the entry.
        """
        table = self._tables.add({"kind": "numbers", "runs": runs(numbers)})
        return self._append(["take", table, at.written])

    def unravelled(self, cell: Value, shape: Sequence[int]) -> list[Value]:
        """The place along every axis of a cell that is flat in C order.

        Args:
            cell: A cell of the grid.
            shape: Cells along every axis.
        """
        places = []
        for size in reversed(shape[1:]):
            places.append(cell % size)
            cell = cell // size
        return [cell, *reversed(places)]

    # Draws, in the order of `Channel.steps`.

    def bits(self, count: int) -> Value:
        """Leading bits of a random word; without any, the number 0 and no draw."""
        return self._append(["bits", count]) if count else self.constant(0)

    def below(self, limit: Value | int, precision: int) -> Value:
        """Whether a random number is below a limit.

        Args:
            limit: A number up to 2^precision.
            precision: How many leading bits of a word decide.
        """
        return self._append(["below", _written(limit), precision])

    def remainder(self, modulus: int, precision: int) -> Value:
        """A random number modulo another.

        Args:
            modulus: How many remainders there are.
            precision: How many leading bits of a word decide.
        """
        return self._append(["remainder", str(modulus), precision])

    def pick(self, weights: list[Any], precision: int, *, mirrored: bool = False) -> Value:
        """An outcome of a table of weights.

        Args:
            weights: The weights as `runs` writes them.
            precision: How many leading bits of a word decide.
            mirrored: Whether they are those of one side, the middle first.
        """
        table = {"kind": "weights", "bits": precision, "runs": weights, "mirrored": mirrored}
        return self._append(["pick", self._tables.add(table)])

    def row(self, rows: Iterable[list[Any]], precision: int, at: Value) -> Value:
        """An outcome of a row of weights.

        Args:
            rows: The weights of each row, as `runs` writes them.
            precision: How many leading bits of a word decide.
            at: Which row.
        """
        table = self._tables.add({"kind": "rows", "bits": precision, "rows": list(rows)})
        return self._append(["row", table, at.written])

    def row_of_products(self, table: RowProducts, at: Value) -> Value:
        """An outcome of a row of weights that a rule gives.

        Args:
            table: The rule.
            at: Which row.
        """
        return self._append(["row", self._tables.add(table.written()), at.written])

    def flips(self, chances: Iterable[int], precision: int) -> Value:
        """A number with random bits.

        Args:
            chances: Of 2^precision words, how many set each bit.
            precision: How many leading bits of a word decide.
        """
        table = {"kind": "chances", "bits": precision, "runs": runs(chances)}
        return self._append(["flips", self._tables.add(table)])

    def grid_point(self, cell: Value, resolution: int) -> Value:
        """The cell; behind stochastic rounding, one of its two neighbours at random.

        Args:
            cell: A cell, or a place between two.
            resolution: Bits of a place between two cells; 0 without rounding.
        """
        if not resolution:
            return cell
        up = self.below(cell % (1 << resolution), resolution)
        return cell // (1 << resolution) + up

    def branch(self, which: Value, ways: Sequence[Callable[[], Value]]) -> Value:
        """The value of one of several pieces of code.

        Args:
            which: The number of the piece.
            ways: What writes each piece.
        """
        return self._append(["branch", which.written, [self.piece(way) for way in ways]])

    def piece(self, way: Callable[[], Value]) -> list[Any]:
        """Instructions of their own, which leave what is open as it is.

        Args:
            way: What writes them; their last register holds its value.
        """
        around, filled = self._open, self._filled
        self._open = []
        result = way()
        if result.written != self._filled - 1:
            self.put("add", result, 0)
        found, self._open, self._filled = self._open, around, filled
        return found


class Tables:
    """The tables of a program; equal ones are held once."""

    def __init__(self) -> None:
        self.held: list[dict[str, Any]] = []
        self._places: dict[str, int] = {}

    def add(self, table: dict[str, Any]) -> int:
        """The number of a table."""
        place = self._places.setdefault(json.dumps(table, sort_keys=True), len(self.held))
        if place == len(self.held):
            self.held.append(table)
        return place


def runs(numbers: Iterable[int]) -> list[Any]:
    """Integers in the short form of device programs: repeats and equal steps are written once.

    Example:
        >>> runs([7, 7, 7, 3, 5, 7, 9, 2])
        [['7', 3], ['3', '2', 4], '2']
    """
    left = [int(number) for number in numbers]
    out: list[Any] = []
    at = 0
    while at < len(left):
        step = left[at + 1] - left[at] if at + 1 < len(left) else 0
        end = at + 1
        while end < len(left) and left[end] - left[end - 1] == step:
            end += 1
        count, first = end - at, str(left[at])
        if step == 0 and count > 1:
            out.append([first, count])
        elif count > 3:
            out.append([first, str(step), count])
        else:
            count = 1
            out.append(first)
        at += count
    return out


def _written(given: Value | int) -> int | str:
    """An argument of an instruction."""
    return given.written if isinstance(given, Value) else str(int(given))
