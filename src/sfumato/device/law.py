"""The exact law of a device program: every outcome of every draw, weighed in integers.

The interpreter itself is run, once for each combination of outcomes; only its draws are replaced.
What is found is the law that a device follows, so it can be checked against E.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any

from sfumato.device.interpreter import Machine
from sfumato.device.program import Program
from sfumato.errors import TooLargeError

_MOST_PATHS = 1 << 20


class _Path(Machine):
    """A machine whose draws have given outcomes; draws beyond them have the first possible one."""

    def __init__(self, tables: Any, outcomes: list[int]) -> None:
        super().__init__(tables, lambda: 0)
        self._given = outcomes
        self.outcomes: list[int] = []
        self.chance = Fraction(1)
        self._later: list[list[int]] = []

    def draw(self, name: str, held: Any, bits: int) -> int:
        """The next outcome; all others are noted for later."""
        if name == "flips":
            found = 0
            for place, chance in enumerate(held):
                found |= self.draw("below", chance, bits) << place
            return found
        weights = list(_weights(name, held, bits))
        at = len(self.outcomes)
        if at < len(self._given):
            chosen = self._given[at]
        else:
            possible = [outcome for outcome, weight in weights if weight]
            chosen = possible[0]
            self._later += [[*self.outcomes, other] for other in possible[1:]]
        self.chance *= Fraction(dict(weights)[chosen], 1 << bits)
        self.outcomes.append(chosen)
        return chosen

    @property
    def later(self) -> list[list[int]]:
        """Other combinations of outcomes that begin as this one."""
        return self._later


def _weights(name: str, held: Any, bits: int) -> Iterator[tuple[int, int]]:
    """The outcomes of a draw, and how many of the 2^bits numbers decide for each."""
    total = 1 << bits
    if name == "below":
        ones = min(max(held, 0), total)
        yield from ((0, total - ones), (1, ones))
    elif name == "bits":
        yield from ((number, 1) for number in range(total))
    elif name == "remainder":
        each, more = divmod(total, held)
        yield from ((left, each + (left < more)) for left in range(held))
    else:
        yield from enumerate(high - low for low, high in pairwise((0, *held)))


def law(program: Program, block: int, cell: int) -> dict[int, Fraction]:
    """The chance of every result of a block, exactly.

    Args:
        program: The program.
        block: The number of the block.
        cell: The cell of the block, or its code with stochastic rounding.

    Raises:
        TooLargeError: If there are too many combinations of outcomes to list.
    """
    found: dict[int, Fraction] = {}
    waiting: list[list[int]] = [[]]
    paths = 0
    while waiting:
        machine = _Path(program.tables, waiting.pop())
        result = machine.run(program.blocks[block].code, cell)
        found[result] = found.get(result, Fraction(0)) + machine.chance
        waiting += machine.later
        paths += 1
        if paths + len(waiting) > _MOST_PATHS:
            raise TooLargeError(
                f"the law of this block has more than {_MOST_PATHS:,} combinations of draws; check "
                "a study with fewer cells"
            )
    return found
