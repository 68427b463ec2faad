"""Optimised local hashing (OLH): k-ary randomised response on a random hash of the cell.

The family of hashes is finite and belongs to the study: g is a prime, every cell x has a place r(x)
of its own, written with s digits in base g, s the fewest that suffice, and the hash of number a,
itself s digits, takes x to Σ a_i·r_i mod g. Two different cells have the same value under exactly
one in g of the g^s hashes, since their digits' difference is not zero and g is prime. Places are
`scattered` over cells. With r(x) = x most hashes would have about as many cells of a wide range at
each value, so that it would be read from the few people who drew one of the others.

Guarantee:
    E(x, x') = ε for every pair, exact for the integer table, and tight. The hash is drawn without
    looking at the cell (a word modulo g^s, so that the words of two hashes differ by one at most);
    its value goes through k-ary response, which puts out one of the *other* g − 1 values where it
    does not tell the truth. "Any value" in Cormode et al. 2019, §3, would break the bound.

Estimator:
    With c the mean of the weights and p the chance of the truth, f(a, v) = c + Σ_x (w[x] − c)·
    (1[h_a(x) = v] − 1/g)/(p − 1/g); its mean is off by less than 2^−40 of the weights' spread, as
    2^64 words do not divide evenly. For one cell among many its variance is about
    (e^ε + g − 1)²/((g − 1)(e^ε − 1)²) per person elsewhere, least for g near e^ε + 1.

References:
    Wang et al. 2017; Cormode et al. 2019, §3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import PEOPLE_AT_ONCE, Cells, Floats, Outputs
from sfumato.channels.base import (
    FEW_RATIOS,
    as_symbols,
    refuse_entries,
    with_known_total,
)
from sfumato.channels.choice import Choice, Trial, needs_uniform, uniform_fitted, uniform_trials
from sfumato.channels.code import Code, Value
from sfumato.channels.every import EvenChannel, Spread
from sfumato.channels.hrr import MOST_CELLS
from sfumato.channels.odds import Findings
from sfumato.channels.response import KaryResponse, KaryResponseChannel
from sfumato.channels.transforms import digit_products, scattered
from sfumato.errors import StudyError, shown
from sfumato.exact import exp_floor
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import BitSource
from sfumato.randomness.draws import Remainder, Steps
from sfumato.randomness.tables import leading

MOST_OUTPUTS = 1 << 22
LARGEST_PRIME = 251
LARGEST_DEFAULT = 61
_TABLE = 1 << 16  # a table of this many products of digits stays in the cache
_ENTRIES_AT_ONCE = 1 << 22
_TRANSFORMED_AT_ONCE = 1 << 17  # so that all stages of a transform stay in nearer memory
_MATRIX = 1 << 18  # cells times outputs up to which a matrix product beats the transform


def primes(most: int) -> list[int]:
    """All primes up to a number.

    Example:
        >>> primes(20)
        [2, 3, 5, 7, 11, 13, 17, 19]
    """
    return [n for n in range(2, most + 1) if all(n % d for d in range(2, int(n**0.5) + 1))]


@dataclass(frozen=True, slots=True)
class OLH(Choice):
    """Choose optimised local hashing; it fits `Uniform`.

    A report is the number of a random hash and one noisy value of it. For many cells its answers
    have the smallest error that ε allows, as those of `OUE` do, from reports of a few bytes.

    Args:
        g: How many values a hash has, a prime up to 251. By default the prime up to 61 with the
            smallest error at this ε, of those whose reports take at most 2^22 values.

    Example:
        >>> import sfumato as sf
        >>> axis = sf.integers("code", 0, 999, protect=sf.Uniform(2), channel=sf.OLH())
        >>> study = sf.Study("codes", [axis])
        >>> study.channels[0].prime
        7
        >>> tally = study.simulate({"code": [7] * 6_000 + [400] * 4_000}, seed=1)
        >>> answer = tally.estimate("unbiased").count({"code": 7})
        >>> answer.low < 6_000 < answer.high
        True
    """

    id: ClassVar[str] = "olh"
    revision: ClassVar[int] = 2
    g: int | None = None

    def __post_init__(self) -> None:
        """Only a prime makes every two cells collide equally often."""
        if self.g is None:
            return
        known = primes(LARGEST_PRIME)
        whole = isinstance(self.g, int) and not isinstance(self.g, bool)
        if not whole or self.g not in known:
            near = _nearest(self.g, known) if whole else ""
            raise StudyError(
                f"g must be a prime from 2 to {LARGEST_PRIME}, got g={shown(self.g)}{near}"
            )

    def misfit(self, metric: CellMetric) -> str | None:
        """It needs one ε for all pairs, and a family of hashes that is not too large."""
        if not isinstance(metric, UniformMetric):
            return needs_uniform(metric)
        least = 2 if self.g is None else self.g
        outputs = least ** (_digits(metric.size, least) + 1)
        if outputs > MOST_OUTPUTS:
            return (
                f"with g={least} reports on {metric.size} cells would take more than "
                f"{MOST_OUTPUTS:,} values, and {outputs * 8 / 2**30:.2g} GiB to read one answer; "
                f"use HRR() up to {MOST_CELLS:,} cells, or fewer cells"
                f"{'' if self.g is None else ' or less g'}"
            )
        return None

    def bind(self, metric: CellMetric, *, precision: int = 64, resolution: int = 0) -> OLHChannel:
        """Settle g, and build the chance of each wrong value.

        Args:
            metric: E between the cells.
            precision: How many bits of a random word take part.
            resolution: Bits of a value's place between two cells; 0 without stochastic rounding.
        """
        held = uniform_fitted(self, metric, resolution)
        prime = best_prime(held.epsilon, held.size) if self.g is None else self.g
        return OLHChannel(metric=held, prime=prime, precision=precision)

    def options(self) -> dict[str, Any]:
        """How many values, where they are given."""
        return {} if self.g is None else {"g": self.g}

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """The default g at several ε, others by name, and a grid."""
        return (
            *uniform_trials(cls(), (2, 5), (2, 3)),
            *uniform_trials(cls(), (4,), epsilon="1/10"),
            *uniform_trials(cls(), (6,), epsilon="2"),
            *uniform_trials(cls(g=2), (5,)),
            *uniform_trials(cls(g=5), (7,)),
        )


def best_prime(epsilon: Fraction, size: int) -> int:
    """The prime with the smallest variance, decided exactly so that both ends find the same.

    Args:
        epsilon: ε.
        size: The number of cells.

    Example:
        >>> [best_prime(Fraction(e), 1000) for e in (0, 1, 2, 4)]
        [2, 3, 7, 53]
    """
    odds = exp_floor(epsilon)
    fitting = [g for g in primes(LARGEST_DEFAULT) if g ** (_digits(size, g) + 1) <= MOST_OUTPUTS]
    return min(fitting, key=lambda g: (odds + g - 1) ** 2 / (g - 1))


@dataclass(frozen=True, kw_only=True, eq=False)
class OLHChannel(EvenChannel):
    """Symbol a·g + v: hash a of the family, and the noisy hash value v.

    Attributes:
        prime: g.
        digits: s, so that there are g^s hashes.
        response: Randomised response over the g values of a hash.
    """

    id: ClassVar[str] = "olh"
    most_ratios: ClassVar[int] = FEW_RATIOS
    metric: UniformMetric
    prime: int
    precision: int = 64
    digits: int = field(init=False)
    response: KaryResponseChannel = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Count digits and build the response to hash values."""
        values = UniformMetric(self.metric.epsilon, self.prime)
        response = KaryResponse().bind(values, precision=self.precision)
        object.__setattr__(self, "response", response)
        object.__setattr__(self, "digits", _digits(self.size, self.prime))
        if self.hashes > 1 << self.precision:
            raise StudyError(
                f"a table of 2^{self.precision} words is too coarse for {self.size} cells; "
                "use fewer cells"
            )

    @property
    def tightness(self) -> float:  # type: ignore[override]
        """Every pair spends all of ε, except for the rounding of one probability."""
        return self.response.tightness

    @property
    def hashes(self) -> int:
        """Size of the family, g^s."""
        return int(self.prime**self.digits)

    @property
    def outputs(self) -> int:
        """One for each hash and value."""
        return self.hashes * self.prime

    @property
    def node_variance(self) -> float:
        """σ²: E[f²] is σ²·Σw² for weights w of mean zero, if people are spread evenly.

        A cell's own people share its value with chance p, all others with chance 1/g, which adds
        (1 − 2/g)/(p − 1/g) over the number of cells: little if these are many, nearly all of σ² if
        they are fewer than g. It is exact if no three cells collide more often than 1/g².
        Computed by divisions and products only, so that both ends find the same number.
        """
        g = self.prime
        own = (g - 2) / (g * self.size * self.gap)
        return (g - 1) / (g * g) / (self.gap * self.gap) + own

    def encode(self, cells: Cells, bits: BitSource) -> NDArray[np.integer[Any]]:
        """One word per person draws the hash, a second one the answer about its value.

        Args:
            cells: One cell per person.
            bits: Where randomness comes from.
        """
        out = np.empty(len(cells), dtype=self.symbol_type())
        family = np.uint64(self.hashes)
        for start in range(0, len(cells), PEOPLE_AT_ONCE):
            part = np.asarray(cells[start : start + PEOPLE_AT_ONCE], dtype=np.int64)
            word = leading(bits.words(len(part)), self.precision)
            number = (word - word // family * family).astype(np.int64)
            value = self.response.encode(self.hashed(number, part), bits)
            out[start : start + len(part)] = number * self.prime + value
        return out

    def steps(self, cells: NDArray[np.int64]) -> Steps:
        """A hash, and the response to the cell's value, the sum of products of its digits."""
        number = yield Remainder(self.hashes, self.precision)
        value = np.zeros_like(cells)
        for digit in range(self.digits):
            unit = self.prime**digit
            value += number // unit % self.prime * (self.place[cells] // unit % self.prime)
        told = yield from self.response.steps(value % self.prime)
        return number * self.prime + told

    def device_code(self, code: Code, cell: Value) -> Value:
        """A hash, and the response to the cell's value, the sum of products of its digits.

        Args:
            code: Where instructions are added.
            cell: The cell.
        """
        number = code.remainder(self.hashes, self.precision)
        place, value = code.scattered(cell, self.hashes), code.constant(0)
        for digit in range(self.digits):
            unit = self.prime**digit
            value = value + number // unit % self.prime * (place // unit % self.prime)
        told = self.response.device_code(code, value % self.prime)
        return number * self.prime + told

    def hashed(self, numbers: NDArray[np.int64], cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """h_a(x) for hashes and cells by number, several digits at a time from a table.

        Args:
            numbers: Hashes, by number.
            cells: Cells, of a shape that can be broadcast.
        """
        table, base = self._products
        packed, rounds = self._packed
        places: NDArray[np.integer[Any]] = np.take(packed, cells)
        total: NDArray[np.int64] = np.zeros((), dtype=np.int64)
        for _ in range(rounds):
            higher = numbers // base
            total = total + table[(numbers - higher * base) * base + (places & 255)]
            numbers, places = higher, places >> 8
        return total % self.prime

    @cached_property
    def place(self) -> NDArray[np.int64]:
        """For every cell the number, from 0 to g^s − 1, whose digits stand for it."""
        found = scattered(np.arange(self.size), np.array(self.hashes))
        found.setflags(write=False)
        return found

    @cached_property
    def _packed(self) -> tuple[NDArray[np.uint32], int]:
        """Every cell's place, a byte for as many digits as `_products` takes, and how many bytes.

        They are four at most, as g^(s + 1) is at most `MOST_OUTPUTS`.
        """
        _, base = self._products
        rounds = -(-self.digits // _digits(base, self.prime))
        packed = np.zeros(self.size, dtype=np.uint32)
        for place in range(rounds):
            packed |= (self.place // base**place % base << 8 * place).astype(np.uint32)
        return packed, rounds

    @cached_property
    def _products(self) -> tuple[NDArray[np.uint8], int]:
        """Σ a_i·x_i mod g for all numbers of a few digits, and how many such numbers there are."""
        several = 1
        while several < self.digits and self.prime ** (2 * several + 2) <= _TABLE:
            several += 1
        several = -(-self.digits // -(-self.digits // several))  # as few rounds, of equal length
        digit = np.array(list(product(range(self.prime), repeat=several)))
        table = digit @ digit.T % self.prime
        return table.astype(np.uint8).ravel(), self.prime**several

    def words(self) -> tuple[list[list[int]], int]:
        """Exact word counts: those of the hash times those of its value."""
        refuse_entries(self.size, self.outputs)
        each, more = divmod(1 << self.precision, self.hashes)
        right, wrong = self.response.right, self.response.wrong
        rows = []
        for values in self._all_values().tolist():
            row = []
            for number, value in enumerate(values):
                drawn = each + (number < more)
                row += [drawn * (right if v == value else wrong) for v in range(self.prime)]
            rows.append(row)
        return rows, 1 << (2 * self.precision)

    def likelihood(self) -> Floats:
        """P(output | cell)."""
        refuse_entries(self.size, self.outputs)
        right, wrong = self.response.chances
        result = np.full((self.size, self.hashes, self.prime), wrong / self.hashes)
        np.put_along_axis(result, self._all_values()[..., None], right / self.hashes, axis=-1)
        return result.reshape(self.size, self.outputs)

    def report_likelihood(self, outputs: Outputs) -> Floats:
        """The chance of the value, whatever the chance of its hash."""
        symbols = as_symbols(outputs)
        right, wrong = self.response.chances
        result = np.full((len(symbols), self.size), wrong)
        at_once = max(1, _ENTRIES_AT_ONCE // self.size)
        for start in range(0, len(symbols), at_once):
            number, value = np.divmod(symbols[start : start + at_once, None], self.prime)
            agrees = self.hashed(number, np.arange(self.size)) == value
            result[start : start + at_once][agrees] = right
        return result

    def coefficients(self, weights: Floats) -> Floats:
        """The centred weights of all cells with a hash value, divided by p − 1/g."""
        centre = weights.mean(axis=-1, keepdims=True)
        result: Floats = centre + self._sums(weights - centre) / self.gap
        return result

    @property
    def gap(self) -> float:
        """How much more likely the true hash value is than a random one, p − 1/g."""
        total = 1 << self.precision
        return (self.prime * self.response.right - total) / (self.prime * total)

    def gather(self, profile: Floats) -> Floats:
        """Everyone whose value is the cell's, over p − 1/g; cells together count everybody."""
        return with_known_total(self._picks(profile) / self.gap, profile.sum(axis=-1))

    @property
    def spread(self) -> Spread:
        """The constants of E[f² | x] if no three cells collide more often than 1/g²."""
        g = self.prime
        return Spread((g - 2) / (g * self.gap), (g - 1) / (g * self.gap) ** 2)

    @property
    def evenly(self) -> bool:
        """Three cells on a line of g^s points collide as often as two; for g = 2 there are none."""
        return self.prime == 2

    def mix(self, law: Floats) -> Floats:
        """Every hash with the same chance, and mostly the value that the law gives it."""
        right, wrong = self.response.chances
        everyone = law.sum(axis=-1, keepdims=True)
        result: Floats = ((right - wrong) * self._sums(law) + wrong * everyone) / self.hashes
        return result

    def expect(self, table: Floats) -> Floats:
        """Over all hashes, mostly the entry of the true value."""
        right, wrong = self.response.chances
        everything = table.sum(axis=-1, keepdims=True)
        mean: Floats = ((right - wrong) * self._picks(table) + wrong * everything) / self.hashes
        return mean

    def sampler_problems(self) -> Iterator[str]:
        """Hashes of a single digit must tell that digit of every cell's place."""
        cells = np.arange(self.size)
        for digit in range(self.digits):
            unit = self.prime**digit
            told = self.hashed(np.array(unit), cells)
            if not np.array_equal(told, self.place // unit % self.prime):
                yield "the sampler hashes cells by other digits than the channel shows"
                return

    def worst_ratio(self) -> Fraction:
        """The true value of a hash against any other."""
        return self.response.worst_ratio()

    def check_structure(self, metric: CellMetric, found: Findings) -> None:
        """The hash alone says nothing about the cell: the response to its value decides.

        Args:
            metric: E between the cells.
            found: Where findings are added.
        """
        self.response.check_structure(metric, found)

    def _picks(self, table: Floats) -> Floats:
        """Σ over hashes a of the entry (a, h_a(x)), one per cell."""
        if self.size * self.outputs <= _MATRIX:
            return table @ self._matrix.T
        flat = table.reshape(-1, self.hashes, self.prime)
        result = np.empty((len(flat), self.size))
        for part in self._chunks(len(flat)):
            turned = np.moveaxis(flat[part], -1, -2)
            result[part] = digit_products(turned, self.prime, sign=-1)[:, 0, self.place]
        return result.reshape(*table.shape[:-1], self.size)

    def _sums(self, weights: Floats) -> Floats:
        """Σ of the weights of all cells x with h_a(x) = v, one entry per output (a, v)."""
        if self.size * self.outputs <= _MATRIX:
            return weights @ self._matrix
        flat = weights.reshape(-1, self.size)
        result = np.empty((len(flat), self.hashes, self.prime))
        for part in self._chunks(len(flat)):
            table = np.zeros((len(flat[part]), self.prime, self.hashes))
            table[:, 0, self.place] = flat[part]
            result[part] = np.moveaxis(digit_products(table, self.prime), -1, -2)
        return result.reshape(*weights.shape[:-1], self.outputs)

    @cached_property
    def _matrix(self) -> Floats:
        """Whether cell x has value v under hash a: a row per cell, a column per output (a, v)."""
        held = self._all_values()[..., None] == np.arange(self.prime)
        matrix: Floats = held.reshape(self.size, self.outputs).astype(np.float64)
        return matrix

    def _chunks(self, count: int) -> list[slice]:
        """Rows to transform at once, so that memory is bounded."""
        at_once = max(1, _TRANSFORMED_AT_ONCE // self.outputs)
        return [slice(start, start + at_once) for start in range(0, count, at_once)]

    def _all_values(self) -> NDArray[np.int64]:
        """The value of every cell, one row each, under every hash."""
        return self.hashed(np.arange(self.hashes), np.arange(self.size)[:, None])


def _digits(size: int, base: int) -> int:
    """The fewest digits in which `size` numbers can be written."""
    digits = 1
    while base**digits < size:
        digits += 1
    return digits


def _nearest(g: int, known: list[int]) -> str:
    """The primes on both sides of a number."""
    below = [p for p in known if p < g][-1:]
    above = [p for p in known if p > g][:1]
    return f"; {' and '.join(map(str, below + above))} would do"
