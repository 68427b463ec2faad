"""The interpreter of device programs: from a cell and random words to the result of a block.

It is written for one record, over Python's integers, and needs the standard library only. What it
does is specified in "Device programs" in the documentation; `sfumato.device.program` has checked
the code before it runs.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sfumato.errors import FormatError

#: A source of random words: the next number below 2^64.
WordSource = Callable[[], int]

WORD_BITS = 64
MOST_DIGITS = 1 << 18  # binary digits of a value
MOST_ORDER = 1 << 31  # of places that are scattered
_WORDS_AT_ONCE = 32
_MULTIPLIERS = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F)


def secure_words() -> WordSource:
    """Random words from the operating system's secure source, each given out once."""
    drawn: Iterator[int] = _secure()
    return lambda: next(drawn)


def _secure() -> Iterator[int]:
    """Words, asked for a few at a time."""
    while True:
        held = os.urandom(8 * _WORDS_AT_ONCE)
        for start in range(0, len(held), 8):
            yield int.from_bytes(held[start : start + 8], "big")


class Machine:
    """What runs the code of blocks: the tables of a program, and a source of random words.

    Args:
        tables: The tables of the program, expanded: numbers, or cumulative sums of weights, or one
            such list per row, or chances; each with its number of leading bits.
        words: Where random words come from.
    """

    def __init__(self, tables: Sequence[tuple[Any, int]], words: WordSource) -> None:
        self._tables, self._words = tables, words

    def run(self, code: Sequence[Sequence[Any]], cell: int) -> int:
        """The result of a block's code.

        Args:
            code: The instructions.
            cell: The block's cell.
        """
        return self._piece(code, [cell])

    def _piece(self, code: Sequence[Sequence[Any]], registers: list[int]) -> int:
        """The last register, once all instructions have run."""
        for instruction in code:
            name = instruction[0]
            if name == "branch":
                way = _read(instruction[1], registers)
                ways = instruction[2]
                _require(0 <= way < len(ways), "a branch", f"0 to {len(ways) - 1}")
                value = self._piece(ways[way], registers.copy())
            elif name == "take":
                value = self._take(instruction[1], _read(instruction[2], registers))
            elif name in DRAWS:
                value = self.draw(name, *self._drawn(name, instruction, registers))
            else:
                value = OPERATIONS[name](*(_read(each, registers) for each in instruction[1:]))
            if value.bit_length() > MOST_DIGITS:
                raise FormatError(
                    f"a device program must not compute numbers of more than {MOST_DIGITS} binary "
                    "digits; it is damaged: get it again"
                )
            registers.append(value)
        return registers[-1]

    def _take(self, table: int, place: int) -> int:
        """An entry of a table of numbers."""
        numbers: list[int] = self._tables[table][0]
        _require(0 <= place < len(numbers), "the place in a table", f"0 to {len(numbers) - 1}")
        return numbers[place]

    def _drawn(
        self, name: str, instruction: Sequence[Any], registers: list[int]
    ) -> tuple[Any, ...]:
        """What decides the outcome of a draw: numbers or a table, and how many bits of a word."""
        if name == "bits":
            return (None, instruction[1])
        if name in ("below", "remainder"):
            number = _read(instruction[1], registers)
            _require(name == "below" or number > 0, "a modulus", "1 or more")
            return (number, instruction[2])
        held, bits = self._tables[instruction[1]]
        if name == "row":
            place = _read(instruction[2], registers)
            _require(0 <= place < len(held), "the row of a table", f"0 to {len(held) - 1}")
            held = held[place]
        return (held, bits)

    def draw(self, name: str, held: Any, bits: int) -> int:
        """The outcome of a draw, by one random word, or one per chance.

        Args:
            name: The operation.
            held: The limit, the modulus, cumulative sums or chances.
            bits: How many leading bits of a word decide.
        """
        if name == "flips":
            found = 0
            for place, chance in enumerate(held):
                found |= (self._number(bits) < chance) << place
            return found
        number = self._number(bits)
        if name == "below":
            return int(number < held)
        if name == "bits":
            return number
        return number % held if name == "remainder" else bisect_right(held, number)

    def _number(self, bits: int) -> int:
        """The number that the leading bits of the next word spell."""
        return self._words() >> (WORD_BITS - bits)


class Constant(int):
    """A number that stands for itself in code, not for a register."""


def _read(given: int, registers: Sequence[int]) -> int:
    """A register, or the number itself."""
    return given if type(given) is Constant else registers[given]


def _require(holds: bool, what: str, rule: str) -> None:
    """Refuse an operand outside its range; it may tell a value, so it is not shown."""
    if not holds:
        raise FormatError(
            f"{what} in a device program must be {rule}; the program is damaged: get it again"
        )


def _whole(name: str, a: int, b: int) -> None:
    """Refuse negative operands."""
    _require(a >= 0 and b >= 0, f"an operand of '{name}'", "0 or more")


def _div(a: int, b: int) -> int:
    _require(a >= 0 and b > 0, "an operand of 'div'", "0 or more, and what divides it 1 or more")
    return a // b


def _mod(a: int, b: int) -> int:
    _require(a >= 0 and b > 0, "an operand of 'mod'", "0 or more, and what divides it 1 or more")
    return a % b


def _and(a: int, b: int) -> int:
    _whole("and", a, b)
    return a & b


def _xor(a: int, b: int) -> int:
    _whole("xor", a, b)
    return a ^ b


def _shl(a: int, b: int) -> int:
    _whole("shl", a, b)
    _require(b <= MOST_DIGITS, "the shift of 'shl'", f"at most {MOST_DIGITS}")
    return a << b


def _shr(a: int, b: int) -> int:
    _whole("shr", a, b)
    return a >> b


def _lowbit(a: int) -> int:
    _whole("lowbit", a, 0)
    return a & -a


def _parity(a: int) -> int:
    _whole("parity", a, 0)
    return a.bit_count() & 1


def _clamp(a: int, low: int, high: int) -> int:
    _require(low <= high, "the bounds of 'clamp'", "in order")
    return min(max(a, low), high)


def _scatter(a: int, order: int) -> int:
    _require(0 <= a < order <= MOST_ORDER, "the operands of 'scatter'", "0 <= a < m <= 2^31")
    digits = (order - 1).bit_length()
    half, last = (digits + 1) // 2, (1 << digits) - 1
    while True:
        for multiplier in _MULTIPLIERS:
            a = ((a ^ a >> half) * multiplier) & last
        a ^= a >> half
        if a < order:
            return a


#: The operations that compute a number from others, and those that draw.
OPERATIONS: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _div,
    "mod": _mod,
    "and": _and,
    "xor": _xor,
    "shl": _shl,
    "shr": _shr,
    "lowbit": _lowbit,
    "parity": _parity,
    "lt": lambda a, b: int(a < b),
    "eq": lambda a, b: int(a == b),
    "select": lambda c, a, b: a if c else b,
    "clamp": _clamp,
    "scatter": _scatter,
}
DRAWS = ("bits", "below", "remainder", "pick", "row", "flips")
