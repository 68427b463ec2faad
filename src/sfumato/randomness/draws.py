"""Draws as data: which number a person reads from random words, and the outcome it decides.

A channel lists its draws in `Channel.steps`, so that a check can spell the words on both sides of
every boundary and follow what `encode` makes of them. Samplers do not use this module.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.randomness.bits import WORD_BITS, Words

Numbers = NDArray[Any]

#: Draws one after the other: each is yielded and answered by everybody's outcome, or by the one
#: outcome of all where it branches; at the end come the outputs, bits as a matrix of 0 and 1.
Steps = Generator["Draw", Any, Any]


class Draw(ABC):
    """One number below 2^bits for each person, all equally likely, and the outcome it decides.

    Attributes:
        bits: Binary digits of the number.
        branches: Whether the outcome decides what is drawn next: people of one outcome then draw
            together, apart from all others.
    """

    bits: int
    branches: bool = False

    @property
    @abstractmethod
    def outcomes(self) -> int:
        """How many outcomes there are, from 0 on."""

    @abstractmethod
    def first(self, outcomes: Numbers) -> Words:
        """The lowest number of each person's outcome; where it has none, of the next outcome.

        Numbers are counted modulo 2^bits: below the lowest of all comes the highest.
        """

    @abstractmethod
    def outcome(self, numbers: Words) -> Numbers:
        """The outcome that each person's number decides."""

    @abstractmethod
    def weights(self, outcomes: Numbers) -> list[int]:
        """How many of the 2^bits numbers decide each person's outcome."""

    @property
    def total(self) -> int:
        """What the weights of all outcomes sum to."""
        return 1 << self.bits

    def spell(self, numbers: Words) -> list[Words]:
        """The words in which these numbers are read, request by request: one word per person.

        The bits that are not read are ones.
        """
        unread = WORD_BITS - self.bits
        if not unread:
            return [numbers]
        return [numbers << np.uint64(unread) | np.uint64((1 << unread) - 1)]


class Pick(Draw):
    """One of several outcomes, in the order of a table: outcome i has weights[i] numbers.

    Args:
        weights: Non-negative integers that sum to 2^bits.
        bits: Leading bits of a word that take part.
        counts: How many outcomes in a row have each weight; left out, one.
        branches: Whether the outcome decides what is drawn next.
    """

    def __init__(
        self,
        weights: Sequence[int],
        bits: int,
        counts: Sequence[int] | None = None,
        branches: bool = False,
    ) -> None:
        self.bits, self.branches, self._weights = bits, branches, weights
        runs = np.ones(len(weights), dtype=np.int64) if counts is None else np.array(counts)
        most = (1 << WORD_BITS) - 1  # numbers are modulo 2^64, which is the one weight beyond
        step = np.array(weights if max(weights) <= most else [w & most for w in weights], np.uint64)
        # One entry more for the end of all.
        self._step = np.append(step, np.uint64(0))
        self._place = np.append(0, np.cumsum(runs))
        self._start = np.append(np.uint64(0), np.cumsum(step * runs.astype(np.uint64)))
        # Where outcomes begin: those without a number begin with the next.
        filled = (step > 0) if step.any() else np.array(weights, dtype=object) > 0
        self._used = np.flatnonzero(filled & (runs > 0))

    @property
    def outcomes(self) -> int:
        """The entries of the table."""
        return int(self._place[-1])

    def first(self, outcomes: Numbers) -> Words:
        """The sum of all weights before."""
        run = np.searchsorted(self._place, outcomes, side="right") - 1
        within = (outcomes - self._place[run]).astype(np.uint64)
        found: Words = self._start[run] + within * self._step[run]
        return found

    def outcome(self, numbers: Words) -> Numbers:
        """The last outcome that starts at or below the number."""
        run = self._used[np.searchsorted(self._start[self._used], numbers, side="right") - 1]
        single = np.maximum(self._step[run], np.uint64(1))  # 2^64 wraps to 0: all numbers are its
        within = np.where(self._step[run] > 0, (numbers - self._start[run]) // single, 0)
        return self._place[run] + within.astype(np.int64)

    def weights(self, outcomes: Numbers) -> list[int]:
        """Entries of the table."""
        run = np.searchsorted(self._place, outcomes, side="right") - 1
        return [self._weights[k] for k in run.tolist()]


class PickRow(Draw):
    """One of several outcomes, in the order of that row of a table that each person has.

    Args:
        tables: The tables by row, all with as many outcomes.
        rows: Each person's row.
    """

    def __init__(self, tables: Mapping[int, Pick], rows: Numbers) -> None:
        self._tables, self._rows = tables, rows
        self._any = next(iter(tables.values()))
        self.bits = self._any.bits

    @property
    def outcomes(self) -> int:
        """The entries of a row."""
        return self._any.outcomes

    def _each(self, method: str, given: Numbers, dtype: Any) -> Numbers:
        """A method of every person's own table."""
        found = np.empty(len(given), dtype=dtype)
        for row in np.unique(self._rows).tolist():
            here = self._rows == row
            found[here] = getattr(self._tables[row], method)(given[here])
        return found

    def first(self, outcomes: Numbers) -> Words:
        """By each person's row."""
        return self._each("first", outcomes, np.uint64)

    def outcome(self, numbers: Words) -> Numbers:
        """By each person's row."""
        return self._each("outcome", numbers, np.int64)

    def weights(self, outcomes: Numbers) -> list[int]:
        """By each person's row."""
        found: list[int] = self._each("weights", outcomes, object).tolist()
        return found


@dataclass(frozen=True)
class Below(Draw):
    """Outcome 1 where the number is below each person's limit, else 0.

    Args:
        limits: One whole number below 2^bits per person.
        bits: Leading bits of a word that take part.
    """

    limits: Words
    bits: int

    @property
    def outcomes(self) -> int:
        """Below, or not."""
        return 2

    def first(self, outcomes: Numbers) -> Words:
        """The limit for 0, and 0 for 1."""
        return np.where(outcomes == 0, self.limits, np.uint64(0))

    def outcome(self, numbers: Words) -> Numbers:
        """Whether the number is below the limit."""
        return (numbers < self.limits).astype(np.int64)

    def weights(self, outcomes: Numbers) -> list[int]:
        """The limit for 1, what is left for 0."""
        pairs = zip(outcomes.tolist(), self.limits.tolist(), strict=True)
        return [limit if outcome else (1 << self.bits) - limit for outcome, limit in pairs]


@dataclass(frozen=True)
class Remainder(Draw):
    """The remainder of the number, divided by a modulus.

    Args:
        modulus: How many remainders there are.
        bits: Leading bits of a word that take part.
    """

    modulus: int
    bits: int

    @property
    def outcomes(self) -> int:
        """One for each remainder."""
        return self.modulus

    def first(self, outcomes: Numbers) -> Words:
        """The remainder itself, or with every other person the highest number that has it."""
        highest = [
            outcome + ((1 << self.bits) - 1 - outcome) // self.modulus * self.modulus
            for outcome in outcomes[1::2].tolist()
        ]
        found = outcomes.astype(np.uint64)
        found[1::2] = highest
        return found

    def outcome(self, numbers: Words) -> Numbers:
        """The remainder."""
        return (numbers % np.uint64(self.modulus)).astype(np.int64)

    def weights(self, outcomes: Numbers) -> list[int]:
        """Nearly the same for all."""
        each, more = divmod(1 << self.bits, self.modulus)
        return [each + (outcome < more) for outcome in outcomes.tolist()]


@dataclass(frozen=True)
class Lane(Draw):
    """A number of few bits from one lane of a word; several people share the word.

    Args:
        taken: How many bits of the lane decide.
        bits: Width of a lane: 1, 8, 16 or 32.
        low: Whether the lowest bits decide, and not the leading ones.
    """

    taken: int
    bits: int
    low: bool = False

    @property
    def outcomes(self) -> int:
        """All numbers of the bits that decide."""
        return 1 << self.taken

    @property
    def _unread(self) -> np.uint64:
        return np.uint64(self.bits - self.taken)

    def first(self, outcomes: Numbers) -> Words:
        """Zeros in the bits that do not decide."""
        numbers = outcomes.astype(np.uint64)
        return numbers if self.low else numbers << self._unread

    def outcome(self, numbers: Words) -> Numbers:
        """The bits that decide."""
        if self.low:
            return (numbers & np.uint64(self.outcomes - 1)).astype(np.int64)
        return (numbers >> self._unread).astype(np.int64)

    def weights(self, outcomes: Numbers) -> list[int]:
        """All outcomes are equally likely."""
        return [1 << (self.bits - self.taken)] * len(outcomes)

    def spell(self, numbers: Words) -> list[Words]:
        """Lanes side by side, the first person's lowest; lanes that nobody has are zero."""
        if self.bits == 1:
            lanes = np.packbits(numbers.astype(np.bool_), bitorder="little")
        else:
            lanes = numbers.astype(f"<u{self.bits // 8}").view(np.uint8)
        padded = np.pad(lanes, (0, -len(lanes) % 8))
        return [padded.view("<u8").astype(np.uint64)]


class Flips(Draw):
    """Bits that are each 1 where their own number is below their chance; 64 people share a word.

    Numbers and outcomes have one column per bit. The binary digits of the numbers come one per
    request, the highest first. A word is asked for until all its lanes are settled, so of every
    full word one person, the last, must have the chances themselves as numbers: then no lane is
    settled before its last digit.

    Args:
        chances: One integer below 2^bits per bit.
        bits: Binary digits of the comparison.
    """

    def __init__(self, chances: Sequence[int], bits: int) -> None:
        self.bits = bits
        self.chances = np.array(chances, dtype=np.uint64)

    @property
    def outcomes(self) -> int:
        """All patterns of bits."""
        return 1 << len(self.chances)

    @property
    def total(self) -> int:
        """All combinations of the bits' numbers."""
        return 1 << self.bits * len(self.chances)

    def first(self, outcomes: Numbers) -> Words:
        """The chance for a 0, and 0 for a 1."""
        return np.where(outcomes == 0, self.chances, np.uint64(0))

    def outcome(self, numbers: Words) -> Numbers:
        """Which numbers are below their chance."""
        return (numbers < self.chances).astype(np.uint8)

    def weights(self, outcomes: Numbers) -> list[int]:
        """Products over the bits."""
        return [int(word) for word in self._law[outcomes @ (1 << np.arange(len(self.chances)))]]

    @cached_property
    def _law(self) -> NDArray[Any]:
        """Products of all patterns, bit 0 changing fastest."""
        law = np.ones(1, dtype=object)
        for chance in self.chances.tolist():
            law = np.concatenate([law * ((1 << self.bits) - chance), law * chance])
        return law

    def spell(self, numbers: Words) -> list[Words]:
        """One plane of digits per request: all words of bit 0, then all words of bit 1 and so on.

        Lanes that nobody has hold the chances.
        """
        unused = -len(numbers) % WORD_BITS
        filled = np.concatenate(
            [numbers, np.broadcast_to(self.chances, (unused, numbers.shape[1]))]
        )
        across = np.ascontiguousarray(filled.T)
        planes = []
        for digit in range(self.bits - 1, -1, -1):
            ones = (across >> np.uint64(digit) & np.uint64(1)).astype(np.bool_)
            packed = np.packbits(ones, axis=1, bitorder="little")
            planes.append(packed.view("<u8").astype(np.uint64).ravel())
        return planes
