"""People of twelve shapes, and the settings in which `shapes` asks about them.

A shape gives the share of every cell of an axis of any size; where it has random parts, they are
drawn anew with every seed. Six shapes are held out: nothing may be tuned on them. They were written
on 2026-11-18 and first looked at on that day, with the decoder of commit 5fcde83, to see that the
measurement works.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sfumato as sf

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Rng = np.random.Generator
Shape = Callable[[int, Rng], Floats]

RANGES = 500
WRITTEN = "2026-11-18"


def _hump(cells: int, centre: float, spread: float) -> Floats:
    """A normal bump that adds up to 1; centre and spread as parts of the axis."""
    places = (np.arange(cells) + 0.5) / cells
    height = np.exp(-0.5 * ((places - centre) / spread) ** 2)
    found: Floats = height / height.sum()
    return found


def _spikes(cells: int, shares: Floats, rng: Rng) -> Floats:
    """These shares in cells drawn at random."""
    found = np.zeros(cells)
    found[rng.choice(cells, len(shares), replace=False)] = shares
    return found


def _heaps(cells: int, by_step: dict[int, float]) -> Floats:
    """Factors at multiples of some steps, the largest step first."""
    numbers = np.arange(cells)
    return np.select([numbers % k == 0 for k in by_step], list(by_step.values()), 1.0)


def _two_bumps(cells: int, rng: Rng) -> Floats:
    """60 % and 30 % in two normal bumps, 10 % anywhere."""
    return 0.6 * _hump(cells, 0.35, 0.08) + 0.3 * _hump(cells, 0.7, 0.05) + 0.1 / cells


def _skewed(cells: int, rng: Rng) -> Floats:
    """A log-normal, as incomes: steep on the left, a long tail on the right."""
    places = (np.arange(cells) + 0.5) / cells
    return np.exp(-0.5 * (np.log(places / 0.2) / 0.6) ** 2) / places


def _ages(cells: int, rng: Rng) -> Floats:
    """A broad hump with heaps at multiples of ten and of five."""
    return _hump(cells, 0.38, 0.17) * _heaps(cells, {10: 4.0, 5: 2.5})


def _rounded(cells: int, rng: Rng) -> Floats:
    """An exponential decay with strong heaps at multiples of 24 and weak ones of 12."""
    return np.exp(-4.0 * np.arange(cells) / cells) * _heaps(cells, {24: 12.0, 12: 3.0})


def _quarters(cells: int, rng: Rng) -> Floats:
    """Four plateaus of equal width."""
    return np.repeat([4.0, 1.0, 8.0, 0.5], cells // 4)


def _plateaus(cells: int, rng: Rng) -> Floats:
    """Nine plateaus of random ends and heights, one of them empty."""
    ends = np.sort(rng.choice(np.arange(1, cells), 8, replace=False))
    heights = np.append(rng.exponential(1.0, 8), 0.0)
    return rng.permutation(heights)[np.searchsorted(ends, np.arange(cells), side="right")]


def _twenty(cells: int, rng: Rng) -> Floats:
    """20 random cells, at most half of all, shares drawn evenly."""
    return _spikes(cells, rng.dirichlet(np.ones(min(20, cells // 2))), rng)


def _zipf(cells: int, rng: Rng) -> Floats:
    """40 random cells, at most half of all, the k-th with 1/k of the first; 5 % anywhere."""
    shares = 1.0 / np.arange(1, min(40, cells // 2) + 1)
    return 0.95 * _spikes(cells, shares / shares.sum(), rng) + 0.05 / cells


def _narrow(cells: int, rng: Rng) -> Floats:
    """One narrow hump: nearly all cells are empty."""
    return _hump(cells, 0.5, 0.012)


def _clusters(cells: int, rng: Rng) -> Floats:
    """Four clusters of a random place, each of three neighbouring cells."""
    starts = rng.choice(cells // 4 - 1, 4, replace=False) * 4
    found = np.zeros(cells)
    for start, share in zip(starts, (0.4, 0.3, 0.2, 0.1), strict=True):
        found[start : start + 3] = share * np.array([0.25, 0.5, 0.25])
    return found


def _hump_and_spikes(cells: int, rng: Rng) -> Floats:
    """70 % in a broad hump, 30 % in five random cells."""
    return 0.7 * _hump(cells, 0.45, 0.15) + _spikes(cells, 0.3 * rng.dirichlet(np.ones(5)), rng)


def _patchwork(cells: int, rng: Rng) -> Floats:
    """A plateau, a narrow hump, two spikes, and a right end where nobody is."""
    plateau = np.where(np.arange(cells) < 0.4 * cells, 1.0, 0.0)
    spikes = _spikes(cells, np.array([0.12, 0.06]), rng)
    found: Floats = 0.5 * plateau / plateau.sum() + 0.32 * _hump(cells, 0.6, 0.02) + spikes
    return found


SHAPES: dict[str, Shape] = {
    "smooth: two bumps": _two_bumps,
    "heaped: ages": _ages,
    "stepped: four plateaus": _quarters,
    "spiky: 20 cells": _twenty,
    "sparse: one narrow hump": _narrow,
    "mixed: hump and spikes": _hump_and_spikes,
    "smooth: skewed": _skewed,
    "heaped: rounded decay": _rounded,
    "stepped: nine plateaus": _plateaus,
    "spiky: zipf": _zipf,
    "sparse: clusters": _clusters,
    "mixed: patchwork": _patchwork,
}
HELD_OUT = tuple(SHAPES)[6:]


@dataclass(frozen=True)
class Setting:
    """A guarantee, a grid and a number of people.

    Args:
        guarantee: "Uniform", or "Distance" for each axis.
        epsilon: ε, per cell under "Distance".
        shape: Cells of each axis, all alike.
        people: How many take part.
    """

    guarantee: str
    epsilon: float
    shape: tuple[int, ...]
    people: int = 100_000

    def __str__(self) -> str:
        cells = " × ".join(f"{size:,}" for size in self.shape)
        return f"{self.guarantee}({self.epsilon:g}), {cells} cells, {self.people:,} people"

    def study(self, channel: Any = None) -> sf.Study:
        """The study.

        Args:
            channel: The channel; None for the planner's.
        """
        protect = getattr(sf, self.guarantee)(self.epsilon)
        named = list(zip("ab", self.shape, strict=False))
        axes = [sf.integers(d, 0, m - 1, protect=protect, channel=channel) for d, m in named]
        return sf.Study("shapes", axes)

    def draw(self, shape: str, seed: int) -> tuple[Counts, Floats]:
        """People by cell, and ranges or boxes as rows of weights; both the same for every ε.

        On two axes the shape is that of the first, and of the second within two halves of the
        people: one half has it turned around, so that the axes depend on each other.

        Args:
            shape: The name of the shape.
            seed: For the people and the questions.
        """
        place = list(SHAPES).index(shape)
        rng = np.random.default_rng([seed, place, self.people, *self.shape])
        size, axes = self.shape[0], len(self.shape)
        share = SHAPES[shape](size, rng)
        if axes == 2:
            left = np.where(np.arange(size) < size // 2, share, 0.0)
            share = np.outer(left, share) + np.outer(share - left, share[::-1])
        counts = rng.multinomial(self.people, (share / share.sum()).ravel()).reshape(self.shape)
        ends, cells = np.sort(rng.integers(0, size, (RANGES, axes, 2)), axis=2), np.arange(size)
        inside = ((ends[:, :, :1] <= cells) & (cells <= ends[:, :, 1:])).astype(np.float64)
        rows = inside[:, 0]
        if axes == 2:
            rows = (rows[:, :, None] * inside[:, 1, None, :]).reshape(RANGES, -1)
        return counts, rows


UNIFORM = tuple(Setting("Uniform", eps, (m,)) for m in (256, 1_024) for eps in (0.5, 1.0, 2.0))
DISTANCE = (
    *(Setting("Distance", epsilon, (128,)) for epsilon in (0.1, 0.2)),
    Setting("Distance", 0.2, (32, 32)),
)
FEW_PEOPLE = tuple(
    Setting(guarantee, epsilon, (cells,), people)
    for guarantee, epsilon, cells in (("Uniform", 1.0, 256), ("Distance", 0.2, 128))
    for people in (200, 1_000)
)
SETTINGS = (*UNIFORM, *DISTANCE, *FEW_PEOPLE)
