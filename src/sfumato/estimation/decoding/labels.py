"""Many labels without an order: how large they are is learnt from all of them together.

Every label x has an unbiased count y(x), whose error is nearly normal and nearly independent of
those of others, with a variance that is a straight line in the true count. So the counts are
n draws from some distribution G of sizes, and G is the one under which the y are most likely
(Kiefer1956): no shape is assumed, so a few full labels among thousands of nearly empty ones
are no exception. The answer is the mean of a count given its y under G. Sums over labels that were
chosen by these answers are then nearly unbiased, however many there were to choose from
(Efron2014). That needs many labels: there are at least `FEWEST`.

G has weights on a grid of steps of a third of a standard error around the y that occur, found by EM
with extrapolation (Varadhan2008). Known beforehand is only that all counts add up to the number of
people. So G is tilted by e^(−λ·size) until the means do.

Sums over labels that were chosen for other reasons, such as the largest cities of a country, are
too low: every estimate that pulls labels towards others is. Such a sum is moved towards the
unbiased one where that contradicts it, by z standard errors, by 1 − (`CONTRADICTED`/z)⁴ of the way.
It is not if nine tenths of its labels are the fullest, or the emptiest, by the answers themselves:
then they were chosen by the answers, and y is too high because of that. So is the unbiased
interval; the interval is around the answer, with `OWN` times the unbiased standard error, which is
what such sums were measured to be off by.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import brentq

from sfumato.arrays import Floats

FEWEST = 128  # labels from which G can be told
_STEP, _BIN = 1 / 3, 0.1  # of sizes, and to which y are rounded, in standard errors
_REACH = 6.0  # standard errors beyond which a size is impossible
CONTRADICTED = 2.0  # standard errors from which unbiased sums move the answer
OWN = 0.97  # unbiased standard errors, of sums over labels that were chosen by the answers
_ROUNDS = 200
_MOVED = 1e-9  # of the weights in a round, at the end
_STEEPEST = 20.0  # λ, per standard error
_CHOSEN = 0.1  # the share of labels that are not the fullest up to which they were chosen by y


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """How likely every y is for every size, for the y and sizes near each other.

    Args:
        grid: The sizes.
        likely: One row per y, each up to a factor.
        off: Sizes less y, for the same pairs, in standard errors of an empty label.
    """

    grid: Floats
    likely: sparse.csr_array
    off: Floats

    @classmethod
    def of(cls, values: Floats, grid: Floats, variance: tuple[float, float], unit: float) -> Sizes:
        """The densities of normal errors.

        Args:
            values: y, rising.
            grid: Sizes, rising.
            variance: Its slope, and that of an empty label.
            unit: The standard error of an empty label.
        """
        width = _REACH * np.sqrt(np.polyval(variance, np.maximum(values, 0.0)))
        first = np.minimum(np.searchsorted(grid, values - width), len(grid) - 1)
        last = np.maximum(np.searchsorted(grid, values + width), first + 1)
        row = np.repeat(np.arange(len(values)), last - first)
        column = np.arange(len(row)) - np.repeat(
            np.cumsum(last - first) - (last - first), last - first
        )
        column += np.repeat(first, last - first)
        spread = np.polyval(variance, grid)[column]
        logs = -((values[row] - grid[column]) ** 2) / (2 * spread) - np.log(spread) / 2
        starts = np.concatenate([[0], np.cumsum(last - first)])
        logs -= np.repeat(np.maximum.reduceat(logs, starts[:-1]), last - first)
        shape = (len(values), len(grid))
        likely = sparse.csr_array((np.exp(logs), column, starts), shape=shape)
        return cls(grid, likely, (grid[column] - values[row]) / unit)

    def weights(self, often: Floats) -> Floats:
        """G: the weights of the sizes under which the y are most likely.

        Args:
            often: How many labels have each y.
        """
        back = self.likely.T.tocsr()

        def step(weights: Floats) -> Floats:
            found: Floats = weights * (back @ (often / (self.likely @ weights))) / often.sum()
            return found

        def value(weights: Floats) -> float:
            return float(often @ np.log(self.likely @ weights))

        weights = np.full(len(self.grid), 1 / len(self.grid))
        for _ in range(_ROUNDS):
            once = step(weights)
            twice = step(once)
            change, bend = once - weights, twice - 2 * once + weights
            if np.abs(change).sum() < _MOVED:
                break
            length = -np.sqrt(change @ change / max(bend @ bend, 1e-300))
            far = np.maximum(weights - 2 * length * change + length**2 * bend, 1e-300)
            far /= far.sum()
            weights = far if value(far) >= value(twice) else twice
        return weights

    def means(self, weights: Floats, tilt: float) -> Floats:
        """The mean size for every y under G, tilted.

        Args:
            weights: G.
            tilt: λ, per standard error of an empty label.
        """
        tilted = self.likely.copy()
        tilted.data *= np.exp(-tilt * self.off)
        result: Floats = (tilted @ (weights * self.grid)) / np.maximum(tilted @ weights, 1e-300)
        return result


def mean_counts(values: Floats, variances: Floats, people: float) -> Floats:
    """The mean count of every label, given its unbiased count.

    Args:
        values: Unbiased counts.
        variances: Of their errors.
        people: The number of people, whom all labels share.
    """
    slope, empty = np.polyfit(values, variances, 1) if np.ptp(variances) else (0.0, variances[0])
    line = (max(float(slope), 0.0), max(float(empty), 1e-12 * float(variances.max()), 1e-300))
    unit = float(np.sqrt(line[1]))
    rounded, place, often = np.unique(
        np.rint(values / (_BIN * unit)), return_inverse=True, return_counts=True
    )
    near: NDArray[np.float64] = np.unique(np.rint(values / (_STEP * unit)))
    near = np.unique(np.add.outer(near, np.arange(-3, 4)))
    grid = _STEP * unit * np.concatenate([[0.0], near[near > 0]])
    sizes = Sizes.of(_BIN * unit * rounded, grid, line, unit)
    weights = sizes.weights(often.astype(np.float64))

    def excess(tilt: float) -> float:
        return float(often @ sizes.means(weights, tilt)) - people

    is_between = excess(-_STEEPEST) > 0 > excess(_STEEPEST)
    found = sizes.means(weights, brentq(excess, -_STEEPEST, _STEEPEST) if is_between else 0.0)
    result: Floats = found[place] * (people / max(float(often @ found), 1e-300))
    return result


class LabelDecoder:
    """Answers about many labels; their intervals are the unbiased ones.

    Args:
        values: Unbiased counts.
        variances: Of their errors.
        people: The number of people.
    """

    def __init__(self, values: Floats, variances: Floats, people: float) -> None:
        self._unbiased, self._variances = values, variances
        self._counts = mean_counts(values, variances, people)
        self._rank = np.argsort(np.argsort(self._counts, kind="stable"), kind="stable")

    def counts(self) -> Floats:
        """Counts of every label."""
        return self._counts

    def moments(self, rows: Floats) -> tuple[Floats, Floats]:
        """Values, moved where the reports contradict them, and their variances.

        Where the answers did not choose the labels they are infinite, so that unbiased intervals
        are taken.

        Args:
            rows: Weights, shape (rows, labels).
        """
        value: Floats = rows @ self._counts
        centred = rows - rows.mean(axis=1, keepdims=True)
        error = np.sqrt(centred**2 @ self._variances)
        off = rows @ self._unbiased - value
        z = np.abs(off) / np.maximum(error, 1e-300)
        several = np.count_nonzero(rows, axis=1) > 1
        is_chosen = several & self._is_chosen(rows)
        moved = (z > CONTRADICTED) & several & ~is_chosen
        value = value + np.where(moved, off * (1 - (CONTRADICTED / np.maximum(z, 1e-300)) ** 4), 0)
        people = float(self._counts.sum())
        value = np.clip(value, people * rows.min(axis=1), people * rows.max(axis=1))
        return value, np.where(is_chosen, (OWN * error) ** 2, np.inf)

    def _is_chosen(self, rows: Floats) -> NDArray[np.bool_]:
        """Whether labels, or all others, are the fullest by the answers, up to a tenth of them."""
        size = rows.shape[1]
        inside = rows > (rows.min(axis=1) + rows.max(axis=1))[:, None] / 2
        count = inside.sum(axis=1)
        full = (inside & (self._rank >= size - count[:, None])).sum(axis=1)
        empty = (inside & (self._rank < count[:, None])).sum(axis=1)
        apart = count - np.maximum(full, empty)
        result: NDArray[np.bool_] = apart <= _CHOSEN * np.minimum(count, size - count)
        return result
