"""All single cells of an axis, or all its prefixes 0..x, at once: squared readings by formula.

Under one ε the usual channels read weights w of mean c as f = c + g(w − c), and with w̃ = w − c

    E[f² | x] = c² + 2c·w̃[x] + own·w̃[x]² + others·Σ w̃²

with two constants of the channel: what a person's own cell adds, and what all cells add together.
For 0/1 weights on k of m cells, Σ w̃² = k(1 − k/m), so the second moments of all cells or prefixes
follow from the number of people inside, in linear time.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from sfumato.arrays import DENSE_CELLS, Floats
from sfumato.channels.base import SymbolChannel

_FEW = 8  # cells of a line on which every kind of row occurs: both ends, and inside


class Spread(NamedTuple):
    """The constants in E[f² | x] = c² + 2c·w̃[x] + own·w̃[x]² + others·Σ w̃².

    Attributes:
        own: The factor of the squared weight at the person's own cell.
        others: The factor of the sum of all squared weights.
    """

    own: float
    others: float


class EvenChannel(SymbolChannel):
    """A channel whose second moments have two constants, `spread`."""

    @property
    @abstractmethod
    def spread(self) -> Spread:
        """The constants of E[f² | x]."""

    @property
    def evenly(self) -> bool:
        """Whether these constants are exact; if not, they hold for many cells only."""
        return True

    def all_squares(self, profile: Floats, *, upto: bool) -> Floats:
        """E[f² | x] summed over the gathered cells, by formula.

        Args:
            profile: Sums by output along the last axis.
            upto: Whether rows are prefixes 0..x rather than single cells x.
        """
        if not self.evenly and self.size <= DENSE_CELLS:
            return super().all_squares(profile, upto=upto)
        return even_squares(self.gather(profile), self.spread, upto=upto)

    def all_peaks(self, *, upto: bool) -> tuple[Floats, Floats]:
        """By formula.

        Args:
            upto: Whether rows are prefixes 0..x rather than single cells x.
        """
        if not self.evenly and self.size <= DENSE_CELLS:
            return super().all_peaks(upto=upto)
        return even_peaks(self.size, self.spread, upto=upto)


def even_squares(people: Floats, spread: Spread, *, upto: bool) -> Floats:
    """Σ over people of E[f² | x], for the reading f of every cell or prefix.

    Args:
        people: People in every cell, along the last axis.
        spread: The channel's constants.
        upto: Whether rows are prefixes 0..x rather than single cells x.
    """
    everyone = people.sum(axis=-1, keepdims=True)
    inside = np.cumsum(people, axis=-1) if upto else people
    count, c = _counts(people.shape[-1], upto)
    result: Floats = everyone * (spread.others * count * (1 - c) - c**2) + 2 * c * inside
    result += spread.own * (inside * (1 - 2 * c) + everyone * c**2)
    return result


def even_peaks(size: int, spread: Spread, *, upto: bool) -> tuple[Floats, Floats]:
    """The largest E[f² | x] of every cell or prefix, and the squared weight at that cell.

    Args:
        size: Number of cells.
        spread: The channel's constants.
        upto: Whether rows are prefixes 0..x rather than single cells x.
    """
    count, c = _counts(size, upto)
    inside = c * (2 - c) + spread.own * (1 - c) ** 2
    outside = np.where(count < size, (spread.own - 1) * c**2, -np.inf)
    at = (inside >= outside).astype(np.float64)
    top = np.maximum(inside, outside) + spread.others * count * (1 - c)
    return np.broadcast_to(top, size), np.broadcast_to(at, size)


def _counts(size: int, upto: bool) -> tuple[Floats, Floats]:
    """Cells of every row, and their share of all."""
    count = np.arange(1.0, size + 1) if upto else np.ones(1)
    return count, count / size


def geometric_squares(profile: Floats, alpha: float, *, upto: bool) -> Floats:
    """Σ_y profile[y]·f(y)² for readings of geometric noise, which are the weights but near steps.

    Args:
        profile: Sums by output along the last axis.
        alpha: e^−ε as the table has it.
        upto: Whether rows are prefixes 0..x rather than single cells x.
    """
    size = profile.shape[-1]
    beside = np.full(size, alpha / (1 - alpha) ** 2)  # what a step adds at the outputs beside it
    beside[[0, -1]] = alpha / (1 - alpha)
    off = profile * beside**2
    if upto:
        found: Floats = np.cumsum(profile, axis=-1)
        found[..., :-1] += (profile * (2 * beside))[..., :-1] + off[..., :-1] + off[..., 1:]
        return found
    twice = 2 * beside
    twice[[0, -1]] = beside[[0, -1]]  # the ends have one neighbour only
    found = profile * (1 + twice) ** 2
    found[..., :-1] += off[..., 1:]
    found[..., 1:] += off[..., :-1]
    return found


def like_few(few: Floats, size: int) -> Floats:
    """Values of all rows of a line from those of a short one: all rows inside are alike.

    Args:
        few: Values of the rows of `short_line(size)` cells.
        size: Number of cells.
    """
    if len(few) == size:
        return few
    half = len(few) // 2
    inside = np.full(size - 2 * half, few[half])
    return np.concatenate([few[:half], inside, few[half:]])


def short_line(size: int) -> int:
    """Cells of a line on which rows of every kind occur."""
    return min(size, _FEW)


def split_peaks(moments: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """The largest second moment of every 0/1 row, over cells inside and over those outside.

    Args:
        moments: E[f² | x], one row per question, one column per cell.
        rows: The weights.
    """
    inside = np.where(rows > 0, moments, -np.inf).max(axis=-1)
    outside = np.where(rows > 0, -np.inf, moments).max(axis=-1)
    return inside, outside
