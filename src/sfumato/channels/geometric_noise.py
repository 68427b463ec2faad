"""Two-sided geometric noise: its integer table, its filter along an axis, and the inverse."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np

from sfumato.arrays import Floats
from sfumato.channels.odds import Bound, Findings, compare_consecutive
from sfumato.errors import StudyError
from sfumato.randomness.tables import WordTable

_FEW_TRIES = 8  # in the search for the weight of zero noise


def sharpened(weights: Floats, alpha: float) -> Floats:
    """The function of the output whose mean at every cell is its weight, in O(cells).

    Args:
        weights: One weight per cell along the last axis.
        alpha: e^−ε as the table has it.
    """
    drop = -np.diff(weights, axis=-1)
    values = np.array(weights, dtype=np.float64)
    gain = alpha / (1 - alpha) ** 2
    ends = alpha / (1 - alpha)
    values[..., 1:-1] += gain * np.diff(drop, axis=-1)
    values[..., 0] += ends * drop[..., 0]
    values[..., -1] -= ends * drop[..., -1]
    return values


def gathered(profile: Floats, alpha: float) -> Floats:
    """The transpose of `sharpened`, in O(cells).

    Args:
        profile: Sums by output along the last axis.
        alpha: e^−ε as the table has it.
    """
    gives = np.array(profile, dtype=np.float64) * (alpha / (1 - alpha) ** 2)
    gives[..., 0] *= 1 - alpha
    gives[..., -1] *= 1 - alpha
    step = np.diff(gives, axis=-1)
    result = np.array(profile, dtype=np.float64)
    result[..., :-1] -= step
    result[..., 1:] += step
    return result


def averaged(table: Floats, alpha: float) -> Floats:
    """The mean of a function of the output at every cell; the ends stand for their tails.

    Args:
        table: The function, one value per output along the last axis.
        alpha: e^−ε as the table has it.
    """
    return _blurred(_lifted_ends(np.array(table, dtype=np.float64), alpha), alpha)


def spread(law: Floats, alpha: float) -> Floats:
    """The law of the output for a law of cells; the ends collect their tails.

    Args:
        law: People or chances, one entry per cell along the last axis.
        alpha: e^−ε as the table has it.
    """
    return _lifted_ends(_blurred(np.asarray(law, dtype=np.float64), alpha), alpha)


def _lifted_ends(values: Floats, alpha: float) -> Floats:
    """Both ends weighed by the geometric series of the tail that is clamped to them, in place."""
    values[..., 0] /= 1 - alpha
    values[..., -1] /= 1 - alpha
    return values


def _blurred(values: Floats, alpha: float) -> Floats:
    """Two-sided geometric noise without clamping: y_i = v_i + α·y_{i−1}, and the same backwards."""
    # A device does not need it. `scipy.signal` has such filters, and takes half a second to load.
    from scipy.linalg.lapack import dtbtrs

    bands = np.ones((2, values.shape[-1]))
    bands[1] = -alpha
    flat = values.reshape(-1, values.shape[-1]).T
    ahead, _ = dtbtrs(bands, flat, uplo="L", diag="U")
    behind, _ = dtbtrs(bands, flat, uplo="L", diag="U", trans="T")
    result: Floats = (ahead + behind - flat) * ((1 - alpha) / (1 + alpha))
    return result.T.reshape(values.shape)


@dataclass(frozen=True, slots=True, eq=False)
class NoiseLine:
    """The law of a channel that is clamped geometric noise, or with some chance a fixed law.

    Args:
        alpha: e^−ε as the table has it.
        share: The chance that the noise decides.
        fixed: The chance of every output by way of the fixed law; 0.0 if there is none.
    """

    alpha: float
    share: float = 1.0
    fixed: Floats | float = 0.0

    def inverse_bands(self, size: int) -> Floats:
        """The tridiagonal inverse of the noise: below, on and above the diagonal, shape (3, cells).

        Each diagonal starts with its first entry; the first and last have one entry less.

        Args:
            size: Number of cells.
        """
        gain, ends = self.alpha / (1 - self.alpha) ** 2, self.alpha / (1 - self.alpha)
        own = np.full(size, 1 + 2 * gain)
        own[[0, -1]] = 1 + ends
        below, above = np.full(size, -gain), np.full(size, -gain)
        above[0], below[-2] = -ends, -ends
        below[-1] = above[-1] = 0.0
        return np.array([below, own, above])

    def log_determinant(self, size: int) -> float:
        """Log det of the inverse: (1 + α)/(1 − α) for two cells, 1/(1 − α)² for each further one.

        Args:
            size: Number of cells.
        """
        return math.log1p(self.alpha) - (2 * size - 3) * math.log1p(-self.alpha)


def moved_rows(half: Sequence[int]) -> list[list[int]]:
    """Words of every output at every cell: the noise moved there, its tails summed at the ends."""
    last = len(half) - 1
    tails = [*accumulate(reversed(half))][::-1]  # words with noise at or beyond j on one side
    rows = []
    for x in range(len(half)):
        row = [half[abs(y - x)] for y in range(len(half))]
        row[0] = tails[x] if x else half[0] + tails[1]
        row[last] = tails[last - x] if x < last else half[0] + tails[1]
        rows.append(row)
    return rows


def worst_neighbours(half: Sequence[int]) -> Fraction:
    """The largest odds between neighbouring cells: of adjacent weights, or adjacent tails."""
    worst = Fraction(1)
    tail = 0
    for j in range(len(half) - 1, 0, -1):
        tail += half[j]
        ratio = Fraction(half[j - 1] + tail, tail)
        if j < len(half) - 1:
            ratio = max(ratio, Fraction(half[j - 1], half[j]))
        worst = max(worst, ratio)
    return worst


def table_problems(table: WordTable, size: int, fixed: int, precision: int) -> Iterator[str]:
    """What is wrong with a table of noise −(size−1)..size−1, followed by fixed outputs.

    Args:
        table: The sampler.
        size: The number of cells.
        fixed: How many outcomes follow the noise.
        precision: What the channel says of its words.
    """
    noise = table.weights[: 2 * size - 1]
    if len(table.weights) != 2 * size - 1 + fixed or table.precision != precision:
        yield "the noise table has another size or precision than the channel"
    elif noise != noise[::-1]:
        yield "the noise table is not the same on both sides"
    else:
        yield from table.problems()


def law_problems(
    rows: Sequence[Sequence[int]], noise: Sequence[int], fixed: Sequence[int]
) -> Iterator[str]:
    """Which rows are not the noise moved to the cell and clamped, with the fixed words added.

    Args:
        rows: The law that the channel shows.
        noise: Words of noise −(size−1)..size−1.
        fixed: Words that put out 0..size−1 whatever the cell.
    """
    last = len(fixed) - 1
    for x, row in enumerate(rows):
        drawn = list(noise[last - x : 2 * last - x + 1])
        drawn[0] += sum(noise[: last - x])
        drawn[-1] += sum(noise[2 * last - x + 1 :])
        if [a + b for a, b in zip(drawn, fixed, strict=True)] != list(row):
            yield f"the row of cell {x} is not the noise table moved and clamped"


def check_neighbours(noise: Sequence[int], bound: Bound, found: Findings) -> None:
    """Check neighbouring cells: their weights decide inside, their tails at the two ends.

    Args:
        noise: Words of −(size−1)..size−1.
        bound: What the odds of neighbours may be.
        found: What is found is added here.
    """
    size = (len(noise) + 1) // 2
    # The last weight on either side is a tail, and never stands for a single output inside.
    compare_consecutive(noise[1:-1], lambda k: max(0, size - 2 - k), bound, found)
    below = list(accumulate(noise[:size]))[::-1]  # P(0 | x), x = 0, 1, …
    compare_consecutive(below, lambda k: k, bound, found)
    above = list(accumulate(noise[: size - 2 : -1]))  # P(size−1 | x), x = 0, 1, …
    compare_consecutive(above, lambda k: k, bound, found)


@lru_cache(maxsize=256)
def noise_words(odds: Fraction, reach: int, total: int) -> tuple[int, ...]:
    """Words for noise 0, 1, …, reach on one side, the last including the tail.

    Both sides together, zero counted once, use all words, an even number. Neighbouring weights, and
    neighbouring tails, differ by at most the given odds; see "Exactness" in the documentation for
    the proof.

    Args:
        odds: The largest ratio of neighbours.
        reach: The largest noise.
        total: How many words there are.
    """
    centre = _largest_centre(odds, reach, total)
    falling, last = _falling(odds, reach, centre)
    half = [*falling, *[falling[-1]] * (reach - len(falling)), last]
    half[-1] += (total - _full(odds, reach, centre)) // 2
    return tuple(half)


def _largest_centre(odds: Fraction, reach: int, total: int) -> int:
    """The largest even weight of zero noise with which the table still fits."""
    alpha = 1 / odds
    per_word = (1 - alpha) / (1 + alpha) / 2  # what half of the weight gains by one more word
    low, high = 0, total  # half of the weight: `low` fits, `high` does not
    guess, tries = int(per_word * total), 0
    while high - low > 1:
        guess, tries = min(max(guess, low + 1), high - 1), tries + 1
        spare = total - _full(odds, reach, 2 * guess)
        low, high = (guess, high) if spare >= 0 else (low, guess)
        # Beside the answer, one step further closes the other side. Coarse tables need halving.
        step = int(per_word * spare) or (1 if spare >= 0 else -1)
        guess = guess + step if tries < _FEW_TRIES else (low + high) // 2
    if low == 0:
        raise StudyError(
            f"a table of {_power(total)} words is too coarse for {reach + 1} cells at this "
            "epsilon; use fewer cells or a larger epsilon"
        )
    return 2 * low


def _falling(odds: Fraction, reach: int, centre: int) -> tuple[list[int], int]:
    """Weights of noise 0, 1, …, each at least its neighbour over odds, and that of noise `reach`.

    The list ends where rounding up stalls the decay: from there to `reach` weights stay the same.
    """
    numerator, denominator = odds.numerator, odds.denominator
    half = [centre]
    while len(half) < reach:
        weight = -(-half[-1] * denominator // numerator)
        if weight == half[-1]:
            break
        half.append(weight)
    return half, -(-half[-1] * denominator // (numerator - denominator))


def _full(odds: Fraction, reach: int, centre: int) -> int:
    """Words of both sides, zero counted once."""
    falling, last = _falling(odds, reach, centre)
    return 2 * (sum(falling) + (reach - len(falling)) * falling[-1] + last) - centre


def _power(total: int) -> str:
    """A number of words as people read it."""
    exponent = total.bit_length() - 1
    return f"2^{exponent}" if total == 1 << exponent else f"about 2^{exponent}"
