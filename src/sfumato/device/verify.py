"""The check of a device program: E between every two cells, recomputed from its tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.channels.odds import Bound
from sfumato.device.interpreter import DRAWS, Constant
from sfumato.device.law import law
from sfumato.device.program import Program
from sfumato.device.values import ROUNDING_BITS
from sfumato.errors import FormatError

#: How a block with stochastic rounding begins; the grid point is then in register 4.
_ROUNDING = [
    ("mod", 0, Constant(1 << ROUNDING_BITS)),
    ("below", 1, ROUNDING_BITS),
    ("div", 0, Constant(1 << ROUNDING_BITS)),
    ("add", 3, 2),
]


@dataclass(frozen=True, slots=True)
class BlockOdds:
    """The odds that the code of a block gives, exactly.

    Attributes:
        odds: For cells x and y, the largest ratio P(result | x) / P(result | y); None where some
            result of x never comes from y.
        axes: The names of the block's axes.
    """

    odds: tuple[tuple[Fraction | None, ...], ...]
    axes: tuple[str, ...]

    @property
    def largest(self) -> Fraction | None:
        """The largest odds between two cells; None if some are infinite."""
        every = [odds for row in self.odds for odds in row]
        return None if None in every else max(odds for odds in every if odds is not None)

    def between(self, x: int, y: int) -> float:
        """E between two cells, as the code has it.

        Args:
            x: The cell that changes.
            y: The cell it changes to.
        """
        odds = self.odds[x][y]
        return math.inf if odds is None else math.log(odds)


@dataclass(frozen=True, slots=True)
class Verified:
    """What checking a device program found.

    Attributes:
        blocks: The odds of every block.
        holds: Whether all odds together stay within e^E for the largest E that the program states.
    """

    blocks: tuple[BlockOdds, ...]
    holds: bool

    def __str__(self) -> str:
        parts = []
        for block in self.blocks:
            most = block.largest
            said = "without bound" if most is None else f"at most {float(most):.4g}"
            parts.append(f"{', '.join(block.axes)}: odds {said}")
        return f"{'holds' if self.holds else 'DOES NOT HOLD'} ({'; '.join(parts)})"


def verify(program: Program) -> Verified:
    """Recompute the odds between every two cells from a program's code and tables.

    The interpreter is run for all outcomes of all draws, in integers, so the result is exact. It is
    meant for programs of up to a few hundred cells per block. With stochastic rounding the cells
    are the grid points: a value between two of them has a mixture of their laws, so no odds are
    larger.

    Raises:
        FormatError: If a block rounds in another way than "Device programs" states.
        TooLargeError: If there are too many combinations of draws to list.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 9, protect=sf.Distance(0.5))])
        >>> found = verify(study.device_program())
        >>> print(found)
        holds (age: odds at most 90.02)
        >>> round(found.blocks[0].between(0, 9), 6)
        4.5
    """
    blocks = []
    for number, block in enumerate(program.blocks):
        axes = [program.axes[place] for place in block.axes]
        if axes[0].places > 1:
            _refuse_other_rounding(block.code, axes[0].name)
        codes = range((math.prod(block.sizes) - 1) * axes[0].places + 1)[:: axes[0].places]
        laws = _in_words([law(program, number, code) for code in codes])
        odds = tuple(tuple(_odds(one, other) for other in laws) for one in laws)
        blocks.append(BlockOdds(odds, tuple(axis.name for axis in axes)))
    return Verified(tuple(blocks), _within(blocks, program.most))


def _refuse_other_rounding(code: Sequence[Sequence[Any]], axis: str) -> None:
    """Refuse code that uses a value for more than the draw of one of its two grid points."""
    if code[: len(_ROUNDING)] != _ROUNDING or min(_read(code[len(_ROUNDING) :]), default=4) < 4:
        raise FormatError(
            f"axis {axis!r} of this device program must round to a grid point first and use "
            "nothing else of a value, and it does not, so that its odds cannot be recomputed; get "
            "the program again"
        )


def _read(code: Sequence[Sequence[Any]]) -> Iterator[int]:
    """The registers that code reads."""
    for name, *given in code:
        if name == "branch":
            for way in given.pop():
                yield from _read(way)
        elif name in ("take", "row", "pick", "flips"):
            del given[0]  # the table
        elif name in DRAWS:
            del given[-1]  # the number of bits
        yield from (each for each in given if type(each) is not Constant)


def _in_words(laws: Sequence[Mapping[int, Fraction]]) -> list[dict[int, int]]:
    """Laws as whole numbers of words, with one total for all."""
    total = math.lcm(*(chance.denominator for held in laws for chance in held.values()))
    return [{result: int(chance * total) for result, chance in held.items()} for held in laws]


def _odds(one: Mapping[int, int], other: Mapping[int, int]) -> Fraction | None:
    """The largest ratio of two laws; None where it is infinite."""
    if not one.keys() <= other.keys():
        return None
    more, less = 0, 1
    for result, words in one.items():
        if words * less > more * other[result]:
            more, less = words, other[result]
    return Fraction(more, less)


def _within(blocks: list[BlockOdds], most: Fraction | None) -> bool:
    """Whether the odds of all blocks together are at most e^E; without a largest E they may be."""
    if most is None:
        return True
    largest = [block.largest for block in blocks]
    if None in largest:
        return False
    product = math.prod(odds for odds in largest if odds is not None)
    return Bound(most).allows(product.numerator, product.denominator)
