"""Integer tables of noise on a lattice, whose weight falls with a norm: the planar channel's.

A *class* is a displacement up to its signs: how many cells along every axis, from 0 to `reach`. Its
weight is share · Π factors, rounded down, which devices compute in the same way. The proof is in
`sfumato.channels.planar`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import StudyError
from sfumato.exact import exp_floor, exp_minus_floor, to_plain
from sfumato.metrics.norm_grids import NormGridMetric
from sfumato.metrics.norms import GRID, root_floor

#: Beyond this E a weight is below one word in 2^64, whatever the rest of the table.
_VANISHED = 52
_FACTOR_BITS = 64  # binary digits of a factor after the point
_DIGIT = 6  # binary digits of an exponent that one factor stands for
#: Classes up to which exponents have four digits of 64; beyond, three keep programs short.
_FINE_CLASSES = 1 << 17
#: Classes that a table may have on the smallest grid.
_ROOMY_CLASSES = 1 << 6

Whole = NDArray[Any]  # Python's integers, of any size


@dataclass(frozen=True)
class Falling:
    """The law of the noise before it is scaled to words: e^−φ on every class, φ in whole units.

    Attributes:
        metric: E between the cells.
        reach: The largest displacement that is kept apart along every axis; noise at the reach
            stands for all that is beyond.
        unit: φ is a multiple of it, a power of two.
        digits: How many factors a weight has.
    """

    metric: NormGridMetric
    reach: tuple[int, ...]
    unit: Fraction
    digits: int

    @classmethod
    def of(cls, metric: NormGridMetric) -> Falling:
        """As fine as a short program allows."""
        reach = reach_of(metric)
        classes = math.prod(far + 1 for far in reach)
        digits = 4 if classes <= _FINE_CLASSES else 3
        lengths = [step * far for step, far in zip(metric.steps, reach, strict=True)]
        # No norm is larger than the sum; beyond `_VANISHED` exponents need not grow.
        most = min(sum(lengths, Fraction(0)), Fraction(_VANISHED))
        levels = (1 << _DIGIT * digits) - 1
        power = 0
        while Fraction(1, 1 << power) * levels < most:
            power -= 1
        while Fraction(1, 1 << (power + 1)) * levels >= most:
            power += 1
        return cls(metric, reach, Fraction(1, 1 << power), digits)

    @property
    def most(self) -> int:
        """The largest exponent, in units."""
        return (1 << _DIGIT * self.digits) - 1

    @property
    def sides(self) -> tuple[int, ...]:
        """Number of classes along every axis."""
        return tuple(far + 1 for far in self.reach)

    @cached_property
    def share(self) -> Fraction:
        """1 − η: how much of E the exponents spend; the rest covers their rounding."""
        loss = (self.unit + Fraction(1, GRID)) / min(self.metric.steps)
        if loss >= Fraction(1, 2):
            raise StudyError(
                f"the steps of {', '.join(str(to_plain(s)) for s in self.metric.steps)} are too "
                "small against the size of the grid for the table of the planar channel; use "
                "fewer cells or a larger epsilon"
            )
        return 1 - loss

    @cached_property
    def exponents(self) -> NDArray[np.int64]:
        """Φ of every class in units, the nearest whole number, cut where weights vanish."""
        rate, order = self.share / self.unit, self.metric.order
        power = 2 if order == 2 else 1
        lengths = [
            [(2 * rate * step * gap) ** power for gap in range(side)]
            for step, side in zip(self.metric.steps, self.sides, strict=True)
        ]
        common = math.lcm(*(length.denominator for line in lengths for length in line[:2]))
        whole = [[int(length * common) for length in line] for line in lengths]
        join = np.maximum if order == math.inf else np.add
        joined: Whole = np.zeros((), dtype=object)
        for line in whole:
            joined = join.outer(joined, np.array(line, dtype=object))
        if order == math.inf:  # φ is flat beyond the shortest axis of the window
            joined = np.minimum(joined, min(line[-1] for line in whole))
        # Of 2t the root, or 2t itself: t is rounded to the nearest whole number.
        twice = [number // common for number in joined.ravel().tolist()]
        flat = [(1 + (math.isqrt(t) if power == 2 else t)) // 2 for t in twice]
        top = self.most
        return np.array([min(number, top) for number in flat], dtype=np.int64).reshape(self.sides)

    @cached_property
    def factors(self) -> list[list[int]]:
        """2^64·e^−t for the values t of every digit of an exponent, rounded down."""
        return [
            [
                exp_minus_floor(self.unit * (digit << _DIGIT * place), _FACTOR_BITS)
                for digit in range(1 << _DIGIT)
            ]
            for place in range(self.digits)
        ]

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """The digits of the exponent of every class, the lowest first; shape (classes, digits)."""
        shifts = _DIGIT * np.arange(self.digits)
        return (self.exponents.ravel()[:, None] >> shifts) & ((1 << _DIGIT) - 1)

    @cached_property
    def decay(self) -> Whole:
        """Π of the factors of every class, flat."""
        found: Whole = np.ones(len(self.places), dtype=object)
        for place, factor in enumerate(self.factors):
            found = found * np.array(factor, dtype=object)[self.places[:, place]]
        return found

    @property
    def shift(self) -> int:
        """Binary digits of `decay` after the point."""
        return _FACTOR_BITS * self.digits

    @cached_property
    def tails(self) -> tuple[Fraction, ...]:
        """For every axis, what noise at the reach and beyond weighs, against that at the reach.

        Beyond the reach the noise falls by ρ per cell, ρ >= e^−κ: the tail is 1/(1 − ρ).
        """
        found = []
        for slope in self.slopes:
            ratio = Fraction(exp_minus_floor(slope) + 1, 1 << 64)
            if ratio >= 1:
                raise StudyError(
                    "the steps are too small for the table of the planar channel; use fewer cells "
                    "or a larger epsilon"
                )
            found.append(1 / (1 - ratio))
        return tuple(found)

    @cached_property
    def slopes(self) -> tuple[Fraction, ...]:
        """For every axis a κ so small that φ, going on straight beyond the reach, keeps E."""
        steps, share = self.metric.steps, self.share
        if self.metric.order == 1:
            return tuple(share * step for step in steps)
        if self.metric.order == math.inf:
            return tuple(share * step / len(steps) for step in steps)
        corner = [step * far for step, far in zip(steps, self.reach, strict=True)]
        square = sum((length**2 for length in corner), Fraction(0))
        # ‖corner‖, rounded up at 2^-64.
        norm = Fraction(math.isqrt((square.numerator << 128) // square.denominator) + 1, 1 << 64)
        return tuple(
            share * step * length / norm for step, length in zip(steps, corner, strict=True)
        )

    @cached_property
    def multiples(self) -> tuple[Whole, int]:
        """What every class stands for, in numerators over one denominator, flat.

        That is how many displacements it has, and beyond the reach the tail's weight.
        """
        found: Whole = np.ones((), dtype=object)
        common = 1
        for side, tail in zip(self.sides, self.tails, strict=True):
            own = np.full(side, 2 * tail.denominator, dtype=object)
            own[0] = tail.denominator
            own[-1] = 2 * tail.numerator
            found = np.multiply.outer(found, own)
            common *= tail.denominator
        return found.ravel(), common


def reach_of(metric: NormGridMetric) -> tuple[int, ...]:
    """The largest displacements that are kept apart: across the grid, or until weights vanish.

    Short axes reach as far as long ones in terms of E, and on small grids all reach further than
    they must, so that the noise beyond, which is spread wider, is next to nothing. The norm 1 needs
    neither.
    """
    spans = [step * (size - 1) for step, size in zip(metric.steps, metric.shape, strict=True)]
    roomy = root_floor(math.floor(_ROOMY_CLASSES * math.prod(metric.steps)), len(spans))
    longest = min(max(*spans, Fraction(roomy)), Fraction(_VANISHED))
    found = []
    for step, size in zip(metric.steps, metric.shape, strict=True):
        even = size - 1 if metric.order == 1 else max(size - 1, math.ceil(longest / step))
        found.append(max(1, min(even, math.ceil(_VANISHED / step))))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class PlanarTables:
    """The tables from which a report is drawn.

    Attributes:
        falling: The law of the noise.
        scale: Words of noise 0.
        weights: Words of every class, flat; then those of every row of the fixed law.
        across: Words of every cell of a row of the fixed law, for one of 2^axes signs.
    """

    falling: Falling
    scale: int
    weights: tuple[int, ...]
    across: tuple[int, ...]

    @property
    def classes(self) -> int:
        """Number of classes of noise."""
        return math.prod(self.falling.sides)


def planar_tables(metric: NormGridMetric, precision: int) -> PlanarTables:
    """The tables with the least fixed law that keeps E and the cap.

    Args:
        metric: E between the cells.
        precision: How many bits of a random word take part.
    """
    falling = Falling.of(metric)
    total = 1 << precision
    kept = total
    for _ in range(_MOST_ROUNDS):
        scale = _scale(falling, kept)
        if scale < 1:
            break
        noise, missing = class_words(falling, scale)
        needed = least_fixed(metric, noise, missing)
        across = _across(needed, precision, len(metric.shape))
        rows = _rows(needed, across, precision)
        spent = int(noise.sum()) + sum(rows)
        if spent <= total:
            rows[-1] += total - spent
            return PlanarTables(falling, scale, (*noise.ravel().tolist(), *rows), across)
        kept = min(kept * total // spent, kept - 1)
        if kept < 1:
            break
    raise _too_coarse(precision)


_MOST_ROUNDS = 64


def _too_coarse(precision: int) -> StudyError:
    """What to say of words that are too short."""
    return StudyError(
        f"a table of 2^{precision} words is too coarse for the planar channel on these cells; use "
        "fewer cells or a larger epsilon"
    )


def _scale(falling: Falling, kept: int) -> int:
    """The most words of noise 0 with which all classes certainly fit."""
    multiples, common = falling.multiples
    above = falling.decay + (falling.digits << (falling.shift - _FACTOR_BITS))
    return int(kept * (common << falling.shift) // int((multiples * above).sum()))


def class_words(falling: Falling, scale: int) -> tuple[Whole, Whole]:
    """Words of every class, and by how much each may fall short of its exact weight.

    Args:
        falling: The law of the noise.
        scale: Words of noise 0.

    Returns:
        The words, of the shape of the classes; and what lacks, in units of 2^-64, rounded up.
    """
    multiples, common = falling.multiples
    words = shares_of(falling, scale) * falling.decay >> falling.shift
    # Factors are rounded down by less than one unit each, and none is above 1.
    above = falling.decay + (falling.digits << (falling.shift - _FACTOR_BITS))
    exact = -(-(scale * multiples * above << _FACTOR_BITS) // (common << falling.shift))
    lacking = exact - (words << _FACTOR_BITS)
    return words.reshape(falling.sides), lacking.reshape(falling.sides)


def shares_of(falling: Falling, scale: int) -> Whole:
    """What the decay of every class is multiplied by, flat.

    Args:
        falling: The law of the noise.
        scale: Words of noise 0.
    """
    multiples, common = falling.multiples
    result: Whole = scale * multiples // common
    return result


def least_fixed(metric: NormGridMetric, noise: Whole, lacking: Whole) -> Whole:
    """Words of the fixed law that every cell needs at least, of the shape of the grid.

    Args:
        metric: E between the cells.
        noise: Words of every class.
        lacking: By how much each may fall short of its exact weight, in units of 2^-64.
    """
    error = gathered_errors(metric.shape, lacking)
    least = exp_floor(metric.least())
    # k >= δ/(1 − e^−E), with r <= e^E in place of e^E.
    top, bottom = least.numerator, least.numerator - least.denominator
    needed: Whole = np.maximum(-(-error * top // bottom), 1)
    if metric.cap is None:
        return needed
    cap = exp_floor(metric.cap)
    near = far = signed_words(noise)
    for axis, size in enumerate(metric.shape):
        near, far = _nearest(near, axis, size), _farthest(far, axis, size)
    signs = 1 << len(metric.shape)
    # Words are in parts of `signs` here. The exact weight lies up to `error` above the words.
    most, fewest = near + signs * error, np.maximum(far - signs * error, 0)
    over = cap.denominator * most - cap.numerator * fewest
    by_cap = -(-over // (signs * (cap.numerator - cap.denominator)))
    result: Whole = np.maximum(needed, by_cap)
    return result


def gathered_errors(shape: Sequence[int], lacking: Whole) -> Whole:
    """By how many words each output may fall short, at any cell, of the shape of the grid.

    An output inside stands for one class, one at an edge for at most all along that axis.

    Args:
        shape: Cells along every axis.
        lacking: By how much each class may fall short, in units of 2^-64.
    """
    found = lacking
    for axis, size in enumerate(shape):
        inside = found.max(axis=axis, keepdims=True)
        edge = found.sum(axis=axis, keepdims=True)
        found = np.concatenate([edge, *[inside] * (size - 2), edge], axis=axis)
    result: Whole = -(-found // (1 << _FACTOR_BITS))
    return result


def signed_words(noise: Whole) -> Whole:
    """Words of single displacements 0, 1, … along every axis, times 2^axes."""
    found = noise
    for axis, side in enumerate(noise.shape):
        own = np.ones(side, dtype=object)
        own[0] = 2
        found = found * own.reshape([-1 if a == axis else 1 for a in range(found.ndim)])
    return found


def _nearest(words: Whole, axis: int, size: int) -> Whole:
    """Along one axis: the words of each output at its own cell."""
    first = np.take(words, [0], axis=axis)
    whole = words.sum(axis=axis, keepdims=True)
    parts = [whole, *[first] * (size - 2), whole]
    return np.concatenate(parts, axis=axis)


def _farthest(words: Whole, axis: int, size: int) -> Whole:
    """Along one axis: the words of each output at the cell farthest from it."""
    side = words.shape[axis]

    def beyond(gap: int) -> Whole:
        held: Whole = np.take(words, range(min(gap, side), side), axis=axis)
        result: Whole = held.sum(axis=axis, keepdims=True)
        return result

    def at(gap: int) -> Whole:
        return np.take(words, [gap], axis=axis) if gap < side else beyond(side)

    last = size - 1
    parts = [beyond(last), *(at(max(y, last - y)) for y in range(1, last)), beyond(last)]
    return np.concatenate(parts, axis=axis)


def _across(needed: Whole, precision: int, axes: int) -> tuple[int, ...]:
    """The law of the fixed law's cells within a row, in words for each of 2^axes signs.

    It is the same in all rows: in proportion to the most that any row needs, against its middle.
    """
    flat = needed.reshape(len(needed), -1).tolist()
    rows: Whole = np.array(sorted(set(map(tuple, flat))), dtype=object)
    middle = rows[:, rows.shape[1] // 2]
    shares = [
        max(Fraction(int(n), int(m)) for n, m in zip(column, middle, strict=True))
        for column in rows.T.tolist()
    ]
    total = 1 << max(precision - axes, 0)
    everything = sum(shares, Fraction(0))
    found = [int(share * total / everything) for share in shares]
    found[len(found) // 2] += total - sum(found)
    if min(found) < 1 or precision <= axes:
        raise _too_coarse(precision)
    return tuple(found)


def _rows(needed: Whole, across: Sequence[int], precision: int) -> list[int]:
    """The fewest words of every row of the fixed law that give all its cells what they need."""
    signs = needed.ndim
    held = np.array(across, dtype=object) << signs
    rows = -(-(needed.reshape(len(needed), -1) << precision) // held)
    return [int(row) for row in rows.max(axis=1)]


def signs_of(axes: int) -> NDArray[np.int64]:
    """All patterns of signs, one row each: +1 or −1 along every axis."""
    return np.array(list(itertools.product((1, -1), repeat=axes)), dtype=np.int64)
