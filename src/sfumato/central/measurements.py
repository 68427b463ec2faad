"""Exact measurements: integer sums over people, each with discrete Laplace noise.

Half-widths of sums of such noise are exact for a few sums, which takes up to a third of a second
each. For many at once, scales are rounded up to a grid of ratios, so that a sum's law depends on
how many terms fall on each point, and thousands of characteristic functions are one matrix product.
That widens intervals by 1 to 2 % and never narrows them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from sfumato.arrays import Floats
from sfumato.central.mechanism import Counts
from sfumato.checks import numbers
from sfumato.errors import QuestionError, StudyError, TooLargeError
from sfumato.estimation.intervals import normal_quantile
from sfumato.questions.lattice import Lattice
from sfumato.randomness.bits import BitSource
from sfumato.randomness.laplace import discrete_laplaces, laplace_variance, sum_quantile

MOST_EXACT = 512  # terms of different sums whose law is found exactly
_LEAST_RATE = Fraction(1, 1 << 48)
LEVELS = (0.5, 0.9999)
_RATIO = 0.02  # of the grid of scales, in logarithms
_LEAST = 1e-3  # the smallest scale that is told from others, as a share of the sum's spread
_REACH = 30.0  # in spreads: beyond it no sum of these has any mass to speak of
_HIGHEST = 300.0  # frequency, in spreads, at which even a single term's function is spent
_MARGIN = 1e-5  # of the level: more than the inversion is off by
_ROWS = 1024


@dataclass(frozen=True, eq=False)
class Measurements:
    """What is measured, and with how much noise.

    Guarantee:
        Whole numbers come out: a row's steps summed over people, plus noise of law ∝ e^(−rate·|z|),
        drawn exactly. All that is published follows from these numbers, so that rounding later can
        not weaken the guarantee, which is Σ_k rate_k·|steps_ki − steps_kj| ≤ d(i, j) for all cells.

    Attributes:
        lattice: The rows.
        rates: Rate of the noise per step; None for rows that need none, 0 for rows that are not
            measured at all.
    """

    lattice: Lattice
    rates: tuple[Fraction | None, ...]

    @cached_property
    def units(self) -> Floats:
        """Sizes of the steps."""
        return np.array([float(unit) for unit in self.lattice.units])

    @cached_property
    def variances(self) -> Floats:
        """Variance of each row's noise in its own units; infinite where nothing is measured."""
        held = [
            0.0 if rate is None else laplace_variance(rate) if rate else np.inf
            for rate in self.rates
        ]
        return np.array(held) * self.units**2

    def draw(self, counts: Counts, bits: BitSource) -> Floats:
        """The rows with noise, in their own units; NaN where nothing is measured.

        Args:
            counts: People in each cell.
            bits: Where randomness comes from.
        """
        exact = self.lattice.totals(counts)
        noise = discrete_laplaces([rate or None for rate in self.rates], bits)
        held = (exact + noise).astype(np.float64) * self.units
        held[[rate is not None and not rate for rate in self.rates]] = np.nan
        return held

    def reaches(self, coefficients: Floats, level: float) -> Floats:
        """Half-widths that hold sums of the rows' noise with at least a given chance.

        Exact for few sums or few different ones, else up to 2 % too wide.

        Args:
            coefficients: One row per sum and one column per measured row.
            level: The chance.
        """
        rates = np.array([float(rate) if rate else np.nan for rate in self.rates])
        steps = np.abs(np.asarray(coefficients)) * self.units
        laws: dict[tuple[tuple[float, float], ...], list[int]] = {}
        for place, row in enumerate(steps):
            used = np.flatnonzero((row > 0) & ~np.isnan(rates))
            law = tuple(sorted(zip(row[used].tolist(), rates[used].tolist(), strict=True)))
            laws.setdefault(law, []).append(place)
        work = sum(len(law) for law in laws if len(law) > 1)
        quick = [law for law in laws if len(law) > 1] if work > MOST_EXACT else []
        found = np.zeros(len(steps))
        if quick and LEVELS[0] <= level <= LEVELS[1]:
            scales = np.zeros((len(quick), max(map(len, quick))))
            for place, law in enumerate(quick):
                scales[place, : len(law)] = [step / rate for step, rate in law]
            # Noise in whole steps may be half a step further out than where it is continuous.
            for law, reach in zip(quick, quick_reaches(scales, level).tolist(), strict=True):
                found[laws.pop(law)] = reach + max(step for step, _ in law) / 2
        for law, places in laws.items():
            found[places] = sum_quantile(
                [step for step, _ in law], [rate for _, rate in law], level
            )
        return found

    def own_reaches(self, level: float) -> Floats:
        """Half-widths that hold the noise of each single row."""
        pairs = zip(self.rates, self.units.tolist(), strict=True)
        return np.array([u * sum_quantile([1.0], [rate or None], level) for rate, u in pairs])

    def check(self, n: int) -> None:
        """Refuse rows whose sums over n people, or whose noise, would not fit in 64 bits."""
        steps = self.lattice.steps
        most = int(abs(steps).max()) if min(steps.shape) else 0
        if most * n >= 1 << 62:
            raise TooLargeError(
                f"sums of up to {most:,} steps for each of {n:,} people do not fit in 64 bits: use "
                "coarser weights"
            )
        refuse_low_rates([rate for rate in self.rates if rate])


def refuse_low_rates(rates: Sequence[Fraction]) -> None:
    """Refuse rates that are too low for the exact sampler."""
    low = [rate for rate in rates if rate < _LEAST_RATE]
    if low:
        raise StudyError(
            f"a question would need noise at a rate of {float(min(low)):.3g} per step, below "
            "2^-48: spend more, or use coarser weights"
        )


def worst_bias(given: Floats, measured: Floats, n: int) -> tuple[Floats, Floats]:
    """How far rows that stand in for others can be off over n people, and what to add to centre it.

    Args:
        given: The rows that are asked about, shape (rows, cells).
        measured: The rows that are measured instead.
        n: Number of people, whose cells may be any.

    Returns:
        What to add to each measured row's answer, and the most that is then left.

    Example:
        >>> worst_bias(np.array([[0.0, 1.0]]), np.array([[0.25, 1.0]]), 10)
        (array([-1.25]), array([1.25]))
    """
    apart = np.asarray(measured - given)
    low, high = apart.min(axis=1), apart.max(axis=1)
    return -n * (low + high) / 2 + 0.0, n * (high - low) / 2


def checked_weights(weights: Sequence[float] | Floats | None, questions: int) -> Floats:
    """How much each question's variance counts.

    Args:
        weights: One positive number per question; None for 1 each.
        questions: Number of questions.
    """
    if weights is None:
        return np.ones(questions)
    held = numbers(weights, "weights")
    if held.shape != (questions,):
        raise StudyError(
            f"weights must be {questions} numbers, one per question, got shape {held.shape}"
        )
    if not np.isfinite(held).all() or (held <= 0).any():
        raise StudyError(
            "weights must be positive and finite: leave out questions that do not count"
        )
    return held


# ---- half-widths of many sums at once ----------------------------------------------------------


@lru_cache(maxsize=1)
def _tables() -> tuple[Floats, Floats, Floats]:
    """Frequencies t, log(1 + (scale·t)²) for every scale of the grid, and the weight of every t."""
    scales = np.exp(np.arange(math.log(_LEAST), 2 * _RATIO, _RATIO))
    step = math.pi / _REACH
    t: Floats = step * np.arange(1, math.ceil(_HIGHEST / step), dtype=np.float64)
    weights: Floats = 2 * step / math.pi / t
    return t, np.log1p(np.multiply.outer(scales, t) ** 2), weights


def quick_reaches(scales: Floats, level: float) -> Floats:
    """Half-widths that hold sums of independent Laplace numbers with at least a given chance.

    Args:
        scales: The scale of every term, one row per sum; 0 for none.
        level: The chance, from 0.5 to 0.9999.

    Raises:
        QuestionError: If the level is beyond these.

    Example:
        >>> quick_reaches(np.array([[1.0, 0.0], [3.0, 4.0]]), 0.95).round(2)  # exactly 3.00, 14.56
        array([ 3.06, 14.65])
    """
    if not LEVELS[0] <= level <= LEVELS[1]:
        raise QuestionError(
            f"many intervals at once have a level from {LEVELS[0]} to {LEVELS[1]}, got "
            f"level={level}"
        )
    found = np.zeros(len(scales))
    for start in range(0, len(scales), _ROWS):
        part = np.abs(np.asarray(scales[start : start + _ROWS], dtype=np.float64))
        found[start : start + _ROWS] = _part(part, level)
    return found


def _part(terms: Floats, level: float) -> Floats:
    """Half-widths by Gil-Pelaez: P(|S| <= h) = step/π·(h + 2·Σ φ(t)·sin(t·h)/t)."""
    t, logs, weights = _tables()
    spread = np.sqrt(2 * np.square(terms).sum(axis=1))
    unit = np.where(spread > 0, spread, 1.0)
    shares = np.maximum(terms / unit[:, None], _LEAST)
    bins = np.ceil((np.log(shares) - math.log(_LEAST)) / _RATIO - 1e-9)
    rows, columns = np.nonzero(terms)
    many = np.zeros((len(terms), len(logs)))
    np.add.at(many, (rows, bins[rows, columns].astype(np.intp)), 1.0)
    characteristic = np.exp(-(many @ logs))
    # A normal law and a single term are the two ends of what a sum may be.
    ends = normal_quantile(level), -math.log(1 - level) / math.sqrt(2)
    reaches = np.geomspace(0.9 * min(ends), 1.15 * max(ends), 192)
    waves = np.sin(np.multiply.outer(t, reaches)) * weights[:, None]
    held = characteristic @ waves + reaches / _REACH
    place = np.argmax(held >= level + _MARGIN * (1 - level) / 0.05, axis=1)
    return np.where(spread > 0, reaches[place] * unit, 0.0)
