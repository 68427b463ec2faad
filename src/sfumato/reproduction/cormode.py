"""Cormode et al. 2019: expected errors of ranges and prefixes as the text describes the methods.

The figures print root mean squared errors × 1000, though they say mean squared errors. Data are
"sampled from Cauchy distributions" whose parameters are not printed; the authors' program centres
them at 0.4·D with scale D/10, and so do we. People outside the domain are left out. That matters
little: at D = 2^8 no figure would move by more than 2 % if everybody were in one cell, and for
small ε the difference is negligible.

The paper's HH_B send unary codes (OUE), as `sf.Hierarchical(oracle="oue")` does. Hashes (OLH), the
default in a hierarchy, have the same variance where g = e^ε + 1 is a prime, and nearly so
elsewhere.

The baseline of §4.4, which splits ε over the levels, is in `reproduction/split_levels.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import sfumato as sf
from sfumato.channels.trees.haar import HaarChannel
from sfumato.channels.trees.hierarchy import HierarchicalChannel
from sfumato.channels.trees.tree import least_parts
from sfumato.metrics.uniform import UniformMetric
from sfumato.reproduction.cormode_printed import EPSILONS, NAMES, PEOPLE, Cells
from sfumato.reproduction.split_levels import SplitLevels

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

STRIDE = 37  # cells between the ends of ranges at 2^16; odd, so that all nodes are cut
MOST_AT_ONCE = 1 << 22  # weights
HASHED = 1 << 17  # cells up to which hashes tell nodes apart; what is read from a node is the same
CHOICES: dict[str, sf.Hierarchical | sf.HaarHRR] = {
    "HH_2": sf.Hierarchical(2),
    "HH_4": sf.Hierarchical(4),
    "HH_16": sf.Hierarchical(16),
    "HaarHRR": sf.HaarHRR(),
}


def cauchy(size: int) -> Floats:
    """The share of people in each cell."""
    share = np.diff(stats.cauchy(0.4 * size, size / 10).cdf(np.arange(size + 1)))
    result: Floats = share / share.sum()
    return result


def bound(name: str, size: int, epsilon: str) -> HierarchicalChannel | HaarChannel:
    """The channel of one column, bound to its cells.

    Args:
        name: Name of the column.
        size: Number of cells.
        epsilon: ε.
    """
    choice = CHOICES[name]
    if isinstance(choice, sf.Hierarchical) and size > HASHED:
        choice = replace(choice, oracle="hrr")
    found: Any = choice.bind(UniformMetric(Fraction(epsilon), size))
    bound_: HierarchicalChannel | HaarChannel = found
    return bound_


# What to expect


@dataclass(frozen=True)
class Queries:
    """Ranges from each of some starts to each later one of some ends, all with the same weight."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    @classmethod
    def prefixes(cls, size: int, stride: int = 1) -> Queries:
        """All ranges that begin at the first cell.

        Args:
            size: Number of cells.
            stride: Distance between neighbouring ends.
        """
        return cls(np.zeros(1, dtype=np.int64), np.arange(1, size + 1, stride))

    @classmethod
    def ranges(cls, size: int, stride: int = 1) -> Queries:
        """All ranges, or those that begin and end at multiples of a stride.

        Args:
            size: Number of cells.
            stride: Distance between neighbouring ends.
        """
        places = np.arange(0, size + 1, stride)
        return cls(places, places)

    @classmethod
    def spaced(cls, size: int, step: int, stride: int = 1) -> Queries:
        """Ranges that begin at multiples of a step, with any end.

        Args:
            size: Number of cells.
            step: Distance between neighbouring starts.
            stride: Distance between neighbouring ends.
        """
        return cls(np.arange(0, size, step), np.arange(1, size + 1, stride))


class Moments:
    """Means over questions, for all ε at once: what is read from a node does not depend on ε.

    A range is the difference of two prefixes. Going from the last place to the first, sums over all
    ends so far give the sum of (end − start)² for a start without going through the ends again.

    Attributes:
        squares: Σ over levels of Σb²/p, where b is what is read from a node.
        own: The same with each node counted by the share of people in it.
        between: The mean of (w(x) − c)² over people, c the share of cells: it is not noise.
    """

    def __init__(self, channel: Any, law: Floats, queries: Queries) -> None:
        size = channel.size
        places = np.union1d(queries.starts, queries.ends)[::-1]
        starts, ends = np.isin(places, queries.starts), np.isin(places, queries.ends)
        before: NDArray[np.int64] = np.cumsum(ends) - ends  # ends that come later on the axis
        first: dict[Any, Floats] = {}
        second: dict[Any, Floats] = {}
        self.squares: float = 0.0
        self.own: float = 0.0
        at_once = max(1, min(64, MOST_AT_ONCE // size))
        for here in range(0, len(places), at_once):
            rows = np.arange(size) < places[here : here + at_once, None]
            parts = channel.node_parts(rows.astype(np.float64))[1]
            for part, chance in zip(channel.parts, channel.chances, strict=True):
                b = parts[part.levels]
                share = np.add.reduceat(law, np.arange(0, size, size // b.shape[1]))
                one = first.setdefault(part.levels, np.zeros(b.shape[1]))
                two = second.setdefault(part.levels, np.zeros(b.shape[1]))
                for row, place in zip(b, range(here, len(places)), strict=False):
                    if starts[place] and before[place]:
                        gap = two - 2 * row * one + before[place] * row**2
                        self.squares += float(gap.sum()) / chance
                        self.own += float(gap @ share) / chance
                    if ends[place]:
                        one += row
                        two += row**2
        count = int(before[starts].sum())
        self.squares /= count
        self.own /= count
        self.between: float = self._between(law, places, starts, ends) / count

    @staticmethod
    def _between(law: Floats, places: NDArray[np.int64], starts: Flags, ends: Flags) -> float:
        """Σ over questions of T − 2cT + c², T the share of people and c that of cells."""
        held, cells = np.append(0.0, law.cumsum())[places], places / len(law)
        total = 0.0
        for place in np.flatnonzero(starts):
            later = np.flatnonzero(ends[:place])
            t, c = held[later] - held[place], cells[later] - cells[place]
            total += float(np.sum(t - 2 * c * t + c**2))
        return total

    def unary(self, epsilon: float) -> float:
        """N times the mean squared error by OUE: E[(f − c)²] = Σ (V·Σb² + 2·b(x)²)/p."""
        v = 4 * math.exp(epsilon) / (math.exp(epsilon) - 1) ** 2
        return v * self.squares + 2 * self.own - self.between

    def haar(self, epsilon: float) -> float:
        """N times the mean squared error of HaarHRR: E[(f − c)²] = Σ s²·Σβ²/p."""
        s = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
        return s**2 * self.squares - self.between


def expected(size: int, law: Floats, queries: Queries, names: Sequence[str] = NAMES) -> Cells:
    """Root mean squared error × 1000 in every case: HH_B with OUE, as in the paper, and HaarHRR.

    Args:
        size: Number of cells.
        law: Share of people in each cell.
        queries: The questions.
        names: The columns.
    """
    result: Cells = {}
    for name in names:
        moments = Moments(bound(name, size, "1.0"), law, queries)
        read = moments.haar if name == "HaarHRR" else moments.unary
        result[name] = [_rmse(read(float(epsilon)) / PEOPLE) for epsilon in EPSILONS]
    return result


def exact(name: str, size: int, epsilon: str, law: Floats) -> dict[str, tuple[float, float]]:
    """From the channel's own table: the error × 1000, and how far one run strays, in parts of it.

    The errors of all prefixes have a covariance matrix Σ; with M the matrix of the mean square over
    the questions, one run's mean squared error has mean tr(MΣ) and variance 2·tr((MΣ)²).

    Args:
        name: Name of the column.
        size: Number of cells.
        epsilon: ε.
        law: Share of people in each cell.
    """
    channel = bound(name, size, epsilon)
    each = channel.coefficients(np.eye(size))
    spread = np.zeros((size + 1, size + 1))
    noise = (each * channel.mix(law)) @ each.T - np.diag(law)
    spread[1:, 1:] = noise.cumsum(0).cumsum(1) / PEOPLE
    n = size + 1
    pairs = (n * np.eye(n) - 1) / (n * (n - 1) / 2)
    result = {}
    for asked, both in (("ranges", pairs @ spread), ("prefixes", spread / size)):
        mean = float(np.trace(both))
        stray = math.sqrt(2 * float(np.sum(both * both.T))) / mean
        result[asked] = (_rmse(mean), stray / 2)
    return result


def split(size: int, law: Floats) -> list[dict[str, Any]]:
    """The error × 1000 over all ranges if ε is split over the levels, and if a level is drawn.

    Args:
        size: Number of cells.
        law: Share of people in each cell.
    """
    rows, times = sf.questions.Ranges(size).squares()
    share = times / (size * (size + 1) / 2)
    found = []
    for epsilon, branching in product(EPSILONS, (2, 4, 16)):
        metric = UniformMetric(Fraction(epsilon), size)
        drawn = sf.Hierarchical(branching, "oue").bind(metric)
        variances = {
            "split": SplitLevels(metric.epsilon, size, branching).variance(rows),
            "drawn": drawn.second_moment(rows) - rows**2,
        }
        errors = {
            name: round(_rmse(float(share @ each @ law) / PEOPLE), 4)
            for name, each in variances.items()
        }
        found.append({"D": size, "B": branching, "epsilon": float(epsilon), **errors})
    return found


def _rmse(mean_square: float) -> float:
    return 1000 * math.sqrt(mean_square)


# Simulated people


def simulate(name: str, size: int, epsilon: str, seed: int) -> dict[str, float]:
    """2^26 people, each encoded by the channel: the error × 1000 over all ranges and prefixes.

    Args:
        name: Name of the column.
        size: Number of cells.
        epsilon: ε.
        seed: Seed of the randomness.
    """
    channel = bound(name, size, epsilon)
    people = np.random.default_rng(seed).multinomial(PEOPLE, cauchy(size))
    before = np.append(0, people.cumsum())
    counts = np.zeros(channel.outputs)
    bits = sf.SeededBits(seed)
    at_once = 1 << 20
    for start in range(0, PEOPLE, at_once):
        place = np.arange(start, min(start + at_once, PEOPLE))
        cells = np.searchsorted(before, place, side="right") - 1
        counts += np.bincount(channel.encode(cells, bits), minlength=channel.outputs)
    error = np.append(0.0, (cell_estimates(channel, counts) - people).cumsum()) / PEOPLE
    n = len(error)
    return {
        "ranges": _rmse(2 / (n - 1) * float(error @ error - error.sum() ** 2 / n)),
        "prefixes": _rmse(float(np.mean(error[1:] ** 2))),
    }


def cell_estimates(channel: HierarchicalChannel | HaarChannel, counts: Floats) -> Floats:
    """Unbiased counts of all cells at once, on whole trees: `coefficients` the other way round.

    An oracle reads parts b with mean zero as κ·Σ_v b_v·P(y | v), so Σ_y counts·P(y | v) says what
    is known of node v; least squares is its own transpose.

    Args:
        channel: A tree.
        counts: How often each output was reported.
    """
    total: Floats = np.full(channel.size, counts.sum() / channel.size)
    chances, starts = channel.chances, channel.starts
    if isinstance(channel, HaarChannel):
        for number, haar in enumerate(channel.parts):
            here = counts[starts[number] : starts[number + 1]]
            factor = haar.inner.scale**2 * haar.outputs / (chances[number] * haar.cells_of_node)
            total += factor * (haar.expect(here) - here.mean())
        return total
    pulled = np.zeros(channel.size)
    for number, box in enumerate(channel.parts):
        found = box.expect(counts[starts[number] : starts[number + 1]])
        factor = channel.level_precision[box.levels] * _kappa(box.inner) / chances[number]
        pulled += factor * (found - found.mean())
    precision = channel.level_precision[1:].tolist()
    _, parts = least_parts(channel.trees[0], precision, pulled[None, :])
    total += parts[-1][0] / precision[-1]
    return total


def _kappa(inner: Any) -> float:
    """The factor κ between an oracle's probabilities and its estimates."""
    b = np.zeros(inner.size)
    b[0], b[-1] = 1.0, -1.0
    mixed, read = inner.mix(b), inner.coefficients(b)
    at = int(np.argmax(np.abs(mixed)))
    return float(read[at] / mixed[at])
