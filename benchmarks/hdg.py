"""HDG, hybrid-dimensional grids (Yang et al. 2020), as a method to compare with.

Every person is asked about one grid: one axis in g1 groups of cells, or two axes in g2 × g2, by
optimised local hashing with the whole ε. The grids are made consistent and non-negative, a full
table of every two axes is fitted to them (weighted update), and ranges of more axes are fitted to
the answers about all pairs of them in the same way. Granularities follow the paper's equations with
its constants, rounded to powers of two.

Under a random oracle the supports of different cells are independent, so counts are drawn as
binomials: that is exactly the law of OLH.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ALPHA_1, ALPHA_2 = 0.7, 0.03  # of the paper
_ROUNDS = 3  # of consistency and non-negativity, in turns
_STEPS = 100
_STILL = 1e-7


def granularity(people: int, axes: int, epsilon: float, size: int) -> tuple[int, int]:
    """The groups of cells along an axis, of grids of one axis and of two.

    Args:
        people: All people.
        axes: Number of axes.
        epsilon: ε of a report.
        size: Cells of an axis.
    """
    each = people / (axes + math.comb(axes, 2))
    more = math.expm1(epsilon)
    one = (each * more**2 * ALPHA_1**2 / (2 * math.exp(epsilon))) ** (1 / 3)
    two = math.sqrt(2 * ALPHA_2 * more * math.sqrt(each / math.exp(epsilon)))
    found = [2 ** round(math.log2(max(g, 2.0))) for g in (one, two)]
    first = min(max(found), size)
    return first, min(found[1], first)


class Hdg:
    """A fitted collection of grids.

    Args:
        codes: Everybody's cells, shape (people, axes).
        size: Cells of every axis.
        epsilon: ε of a report.
        rng: Draws who is asked about what, and the reports.
    """

    def __init__(
        self, codes: NDArray[np.int64], size: int, epsilon: float, rng: np.random.Generator
    ) -> None:
        people, self.axes = codes.shape
        self.size = size
        self.g1, self.g2 = granularity(people, self.axes, epsilon, size)
        self.pairs = list(itertools.combinations(range(self.axes), 2))
        grids: list[tuple[int, ...]] = [(a,) for a in range(self.axes)]
        grids += self.pairs
        order = rng.permutation(people)
        self.tables: dict[tuple[int, ...], Floats] = {}
        for grid, mine in zip(grids, np.array_split(order, len(grids)), strict=True):
            g = self.g1 if len(grid) == 1 else self.g2
            cells = np.ravel_multi_index(
                tuple(codes[mine, a] * g // size for a in grid), (g,) * len(grid)
            )
            true = np.bincount(cells, minlength=g ** len(grid))
            self.tables[grid] = hashed(true, epsilon, rng).reshape((g,) * len(grid))
        self._consistent()
        self.full = {pair: self._fitted(pair) for pair in self.pairs}

    def _consistent(self) -> None:
        """Make grids agree on the shares of g2 groups of every axis, and norm-sub."""
        for _ in range(_ROUNDS):
            for axis in range(self.axes):
                members = [grid for grid in self.tables if axis in grid]
                parts = [self._groups(grid, axis) for grid in members]
                # The variance of a group is proportional to the cells that it sums.
                cells = [t.size / self.g2 for t in (self.tables[g] for g in members)]
                weight = np.array([1 / c for c in cells])
                mean = np.einsum("k,kg->g", weight / weight.sum(), np.array(parts))
                for grid, part in zip(members, parts, strict=True):
                    table = self.tables[grid]
                    along = grid.index(axis)
                    fine = table.shape[along] // self.g2
                    step = np.repeat((mean - part) / (table.size / self.g2), fine)
                    shape = [1] * table.ndim
                    shape[along] = table.shape[along]
                    self.tables[grid] = table + step.reshape(shape)
            self.tables = {grid: norm_sub(table) for grid, table in self.tables.items()}

    def _groups(self, grid: tuple[int, ...], axis: int) -> Floats:
        """The shares of g2 groups of an axis by one grid."""
        table = self.tables[grid]
        along = np.moveaxis(table, grid.index(axis), 0)
        found: Floats = along.reshape(self.g2, -1).sum(axis=1)
        return found

    def _fitted(self, pair: tuple[int, int]) -> Floats:
        """The table of two axes, all cells, by weighted update."""
        a, b = pair
        size, one, two = self.size, self.size // self.g1, self.size // self.g2
        table = np.full((size, size), 1 / size**2)
        for _ in range(_STEPS):
            before = table.copy()
            sums = table.reshape(self.g1, one, size).sum(axis=(1, 2))
            table *= np.repeat(_ratio(self.tables[a,], sums), one)[:, None]
            sums = table.reshape(size, self.g1, one).sum(axis=(0, 2))
            table *= np.repeat(_ratio(self.tables[b,], sums), one)[None, :]
            sums = table.reshape(self.g2, two, self.g2, two).sum(axis=(1, 3))
            table *= np.kron(_ratio(self.tables[pair], sums), np.ones((two, two)))
            if np.abs(table - before).sum() < _STILL:
                break
        return table

    def share(self, ranges: dict[int, tuple[int, int]]) -> float:
        """The estimated share of people within ranges of cells, ends included."""
        asked = sorted(ranges)
        cuts = {a: slice(ranges[a][0], ranges[a][1] + 1) for a in asked}
        corners = {}
        for a, b in itertools.combinations(asked, 2):
            table = self.full[a, b]
            both = table[cuts[a], cuts[b]].sum()
            first, second = table[cuts[a]].sum(), table[:, cuts[b]].sum()
            rest = table.sum() - first - second + both
            corners[a, b] = np.array([[rest, second - both], [first - both, both]])
        if len(asked) == 2:
            return float(corners[asked[0], asked[1]][1, 1])
        table = np.full((2,) * len(asked), 2.0 ** -len(asked))
        for _ in range(_STEPS):
            before = table.copy()
            for (a, b), wanted in corners.items():
                keep = (asked.index(a), asked.index(b))
                others = tuple(k for k in range(len(asked)) if k not in keep)
                ratio = _ratio(wanted, table.sum(axis=others))
                table *= np.expand_dims(ratio, others)
            if np.abs(table - before).sum() < _STILL:
                break
        return float(table[(1,) * len(asked)])


def hashed(true: NDArray[np.int64], epsilon: float, rng: np.random.Generator) -> Floats:
    """Shares of all cells, estimated from reports by optimised local hashing.

    Args:
        true: People in every cell.
        epsilon: ε of a report.
        rng: Draws the reports.
    """
    people, values = int(true.sum()), max(2, round(math.exp(epsilon)) + 1)
    p, q = math.exp(epsilon) / (math.exp(epsilon) + values - 1), 1 / values
    support = rng.binomial(true, p) + rng.binomial(people - true, q)
    return (support / max(people, 1) - q) / (p - q)


def norm_sub(table: Floats) -> Floats:
    """Non-negative shares with the sum one: negative ones become 0, others lose the same."""
    found = table
    for _ in range(_STEPS):
        found = np.maximum(found, 0.0)
        over = found > 0
        excess = found.sum() - 1
        if abs(excess) < _STILL or not over.any():
            break
        found = np.where(over, found - excess / over.sum(), 0.0)
    return np.maximum(found, 0.0)


def _ratio(wanted: Floats, found: Floats) -> Floats:
    """Factors from sums that were found to those wanted."""
    return np.where(found > 0, np.maximum(wanted, 0.0) / np.where(found > 0, found, 1.0), 1.0)
