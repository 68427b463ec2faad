"""The search behind the extremal channel: column generation over the extreme rays of E's cone.

An output y has a row q_y, one number per cell, and a share θ_y of all outputs when all cells are
equally likely: P(y | x) = θ_y·q_y(x), with q_y of mean 1. E holds if q_y(x) <= e^E(x,x')·q_y(x'):
such rows form a cone, and the best channel needs only its extreme rays, which are log-linear with
slopes ±E. The mean square f of a family of rows is least for shares that `shares.weigh` finds. Its
multipliers λ price all other rows: with K = M⁻¹GM⁻¹, a row with qᵀKq > λᵀq lowers f. Such rows are
searched for and join the family, until none is found or the rounds are used up.

Bound:
    For any channel under E, with v the largest qᵀKq − λᵀq of any row of mean 1, f' >= f²/(Σλ + v)
    by convexity and duality. v is known only as far as the search goes.

Repeatable:
    Ties are decided by the cells' order, and shares are rounded after every round, so that other
    rounding errors, as another processor makes them, end in the same rows and shares. It cannot be
    proved that no number ever lies within a rounding error of a boundary.

References:
    Kairouz2016, Theorem 2, for the extreme rays under one ε; McKenna2020 for the objective. The
    derivation is in "Extremal channel" of the documentation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.channels.searched.shares import coarse, in_units, squares, weigh
from sfumato.metrics.closure import closure

Progress = Callable[[float], None]

_ROUNDS, _FEWEST_ROUNDS, _ROUNDS_TIMES_CELLS = 50, 6, 1500  # so that a search takes seconds
_PATIENCE, _LITTLE = 10, 2e-4  # rounds with a smaller relative gain than this end the search
_STEPS, _FEWEST_STEPS, _STEPS_TIMES_CELLS = 30, 10, 1000  # of the shares in a round
_LAST_STEPS = 60  # of the shares at the end
_PASSES = 2  # of the search over all cells
_POOL = 10  # random rows in the first family, a cell
_STARTS, _FEWEST_STARTS, _STARTS_TIMES_CELLS = 300, 150, 7200  # rows of the family to be changed
_RANDOM = 50  # random rows to be changed
_MORE_ROWS = 400  # rows that join the family at most in a round
_FRESH = 0.005  # share of the rows that have just joined
_LEAST_LEVERAGE = 1e-2  # rows below are dropped
_GOOD_ENOUGH = 1e-3  # relative distance from the bound at which the search ends
_TIE = 1e-7  # of f: gains that differ by less are the same
_ALIKE = 20  # binary places of a logarithm that tell rows apart


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What was found.

    Attributes:
        logs: Logarithms of rows, one row per output and one column per cell.
        shares: θ, one per output.
        value: The mean square f.
        bound: What no channel can be below, if no row was overlooked.
    """

    logs: Floats
    shares: Floats
    value: float
    bound: float


def fit(
    gram: Floats,
    distance: Floats,
    *,
    seed: int = 0,
    rounds: int | None = None,
    progress: Progress | None = None,
) -> Found:
    """Rows and shares with a small error on the workload, never larger than the exponential's.

    Args:
        gram: G, positive definite, one row per cell.
        distance: E between all cells, finite, closed under shortest paths.
        seed: For the random starts of the search.
        rounds: How often rows are searched for at most; by default as many as about a second
            allows.
        progress: Called with the share done.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    usual = exponential(gram, distance)
    try:
        found = _descend(gram, distance, usual, rng, rounds, progress)
    except (np.linalg.LinAlgError, ValueError):  # too near to singular for doubles
        found = usual
    if progress is not None:
        progress(1.0)
    return found if found.value < usual.value else usual


def exponential(gram: Floats, distance: Floats) -> Found:
    """The exponential channel, P(y | x) ∝ e^(−d(x,y)/2), as rows and shares.

    Args:
        gram: G of the workload.
        distance: E between all cells.
    """
    near, _ = closure(np.minimum(distance, distance.T))
    law = np.exp(-near / 2)
    law /= law.sum(axis=1, keepdims=True)
    shares = law.mean(axis=0)
    return Found(np.log(law / shares).T, shares, mean_square(law, gram), 0.0)


def mean_square(law: Floats, gram: Floats) -> float:
    """tr[G·M⁻¹] of a channel, one row per cell and one column per output.

    Args:
        law: P(y | x), one row per cell and one column per output.
        gram: G of the workload.
    """
    # NumPy's solver: SciPy's warns of an M that is hardly invertible, as it is at a tiny ε.
    return float(np.trace(np.linalg.solve((law / law.mean(axis=0)) @ law.T, gram)))


def _descend(
    gram: Floats,
    distance: Floats,
    usual: Found,
    rng: np.random.Generator,
    rounds: int | None,
    progress: Progress | None,
) -> Found:
    """Generate rows: weigh a family, look for rows that would lower f, take them in, repeat."""
    size = len(gram)
    rounds = rounds or max(_FEWEST_ROUNDS, min(_ROUNDS, _ROUNDS_TIMES_CELLS // size))
    steps = max(_FEWEST_STEPS, min(_STEPS, _STEPS_TIMES_CELLS // size))
    many = max(_FEWEST_STARTS, min(_STARTS, _STARTS_TIMES_CELLS // size))
    search = _Search(distance)
    family = np.exp(usual.logs)
    others = np.concatenate(
        [_scaled(-distance), _scaled(distance.T), _random(distance, _POOL * size, rng)]
    )
    family, shares = _joined(family, usual.shares, _distinct(others, family), 0.5)
    values: list[float] = []
    for turn in range(rounds):
        now = weigh(family, gram, shares, steps)
        values.append(now.value)
        often = family[np.argsort(-coarse(now.shares, _ALIKE), kind="stable")[:many]]
        kicked = _extended(np.log(often), distance, rng)
        starts = np.concatenate([often, kicked, _random(distance, _RANDOM, rng)])
        found, gain = search.raised(starts, now.kernel, now.prices, now.value)
        own = squares(family, now.kernel) - family @ now.prices
        most = max(float(gain[0]), float(own.max()), 0.0)
        bound = now.value**2 / (float(now.prices.sum()) + most)
        if progress is not None:
            progress((turn + 1) / rounds)
        late = len(values) > _PATIENCE and now.value > (1 - _LITTLE) * values[-1 - _PATIENCE]
        if now.value - bound <= _GOOD_ENOUGH * now.value or late or turn == rounds - 1:
            break
        better = _distinct(found[gain > 1e-3 * most], family)[:_MORE_ROWS]
        keep = now.leverage > _LEAST_LEVERAGE
        family, shares = _joined(family[keep], now.shares[keep], better, _FRESH)
    keep = now.leverage > _LEAST_LEVERAGE
    family = family[keep]
    now = weigh(family, gram, now.shares[keep], _LAST_STEPS)
    return Found(np.log(family), now.shares, now.value, min(bound, now.value))


def _joined(family: Floats, shares: Floats, rows: Floats, fresh: float) -> tuple[Floats, Floats]:
    """A family with more rows, which have a part of all shares at first."""
    if not len(rows):
        return family, shares
    more = np.full(len(rows), fresh / len(rows))
    return np.concatenate([family, rows]), np.concatenate([(1 - fresh) * shares, more])


def _scaled(logs: Floats) -> Floats:
    """Rows of mean 1 from logarithms."""
    rows = np.exp(logs - logs.max(axis=1, keepdims=True))
    scaled: Floats = rows / rows.mean(axis=1, keepdims=True)
    return scaled


def _lowest(values: Floats, kept: NDArray[np.bool_], distance: Floats) -> Floats:
    """Minimum over kept cells z of values(z) + distance(x, z), for every row and cell x."""
    held = np.where(kept, values, np.inf)
    found = np.full_like(held, np.inf)
    for z in range(len(distance)):
        np.minimum(found, held[:, z, None] + distance[:, z], out=found)
    return found


def _extended(logs: Floats, distance: Floats, rng: np.random.Generator) -> Floats:
    """Rows kept on random cells only, and from there as high or as low as they may be."""
    kept = rng.random(logs.shape) < rng.uniform(0.2, 0.9, (len(logs), 1))
    kept[np.arange(len(logs)), rng.integers(0, logs.shape[1], len(logs))] = True
    up = rng.random(len(logs)) < 0.5
    result = np.empty_like(logs)
    result[up] = _lowest(logs[up], kept[up], distance)
    result[~up] = -_lowest(-logs[~up], kept[~up], distance.T)
    return _scaled(result)


def _random(distance: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Rows that are log-linear around random sets of cells."""
    size = len(distance)
    chosen = rng.random((count, size)) < rng.uniform(1 / size, 0.6, (count, 1))
    chosen[np.arange(count), rng.integers(0, size, count)] = True
    up = rng.random(count) < 0.5
    result = np.zeros(chosen.shape)
    result[up] = _lowest(result[up], chosen[up], distance)
    result[~up] = -_lowest(result[~up], chosen[~up], distance.T)
    return _scaled(result)


class _Search:
    """The search for rows with a large gain qᵀKq − λᵀq, for one E."""

    def __init__(self, distance: Floats) -> None:
        """Find the pairs of cells whose bounds imply all others."""
        self.odds = np.exp(distance)
        needed = _needed(distance)
        self.above = [np.flatnonzero(row) for row in needed]  # q(x) <= e^E(x,z)·q(z)
        self.below = [np.flatnonzero(column) for column in needed.T]  # q(x) >= q(z)/e^E(z,x)

    def raised(
        self, starts: Floats, kernel: Floats, prices: Floats, value: float
    ) -> tuple[Floats, Floats]:
        """Raise the gain from every start, by coordinate ascent over the cells.

        Along one entry the gain of the row scaled to mean 1 is a ratio of quadratics, whose maximum
        over what E leaves the entry, max_z q(z)/e^E(z,x) to min_z q(z)·e^E(x,z), is taken at an
        end: rows with no better end are log-linear with slopes ±E.

        Args:
            starts: Rows of mean 1.
            kernel: K.
            prices: λ.
            value: f.

        Returns:
            Rows of mean 1, best first, and their gains.
        """
        tie = _TIE * value
        rows = np.ascontiguousarray(starts.T)  # one column per row: entries of a cell side by side
        ended = []
        for _ in range(_PASSES):
            moved = self._pass(rows, kernel, prices, tie)
            ended.append(rows[:, ~moved])
            rows = rows[:, moved]
        found = np.concatenate([*ended, rows], axis=1).T
        found /= found.mean(axis=1, keepdims=True)
        gain = squares(found, kernel) - found @ prices
        keys = _keys(found)
        order = np.lexsort((*keys.T, -in_units(gain / value, _ALIKE)))
        return found[order], gain[order]

    def _pass(self, rows: Floats, kernel: Floats, prices: Floats, tie: float) -> NDArray[np.bool_]:
        """Move every cell of every row once, in place, and say which rows have moved."""
        size = len(rows)
        rows /= rows.mean(axis=0)
        pulled = kernel @ rows
        square, linear = np.einsum("ij,ij->j", pulled, rows), prices @ rows
        mean = np.ones(rows.shape[1])
        gain = square - linear
        before = gain + tie
        for cell in range(size):
            best = np.zeros_like(gain)
            for end in self._ends(rows, cell):
                step = end - rows[cell]
                scale = mean + step / size
                reached = (
                    square + step * (2 * pulled[cell] + step * kernel[cell, cell])
                ) / scale**2
                reached -= (linear + step * prices[cell]) / scale
                better = reached > gain + tie
                best, gain = np.where(better, step, best), np.where(better, reached, gain)
            changed = np.flatnonzero(best)
            step = best[changed]
            square[changed] += step * (2 * pulled[cell, changed] + step * kernel[cell, cell])
            linear[changed] += step * prices[cell]
            mean[changed] += step / size
            rows[cell, changed] += step
            if 2 * len(changed) > len(best):
                pulled += kernel[cell, :, None] * best
            elif len(changed):
                pulled[:, changed] += kernel[cell, :, None] * step
        moved: NDArray[np.bool_] = gain > before
        return moved

    def _ends(self, rows: Floats, cell: int) -> tuple[Floats, Floats]:
        """The largest and the smallest that an entry may be."""
        above, below = self.above[cell], self.below[cell]
        top = (rows[above] * self.odds[cell, above, None]).min(axis=0)
        return top, (rows[below] / self.odds[below, cell, None]).max(axis=0)


def _needed(distance: Floats) -> NDArray[np.bool_]:
    """Pairs x, z with no cell w between: E(x, w) + E(w, z) > E(x, z) for all w."""
    alone = np.where(np.eye(len(distance), dtype=bool), np.inf, distance)
    needed = np.array([(row[:, None] + alone).min(axis=0) > row * (1 + 1e-9) for row in alone])
    np.fill_diagonal(needed, False)
    return needed


def _keys(rows: Floats) -> NDArray[np.int64]:
    """Whole numbers that are the same for rows that differ by rounding alone."""
    logs = np.log(rows)
    return in_units(logs - logs.max(axis=1, keepdims=True), _ALIKE).astype(np.int64)


def _distinct(rows: Floats, family: Floats) -> Floats:
    """Rows that differ from each other and from the family."""
    seen = {key.tobytes() for key in _keys(family)}
    kept = []
    for place, key in enumerate(_keys(rows)):
        name = key.tobytes()
        if name not in seen:
            seen.add(name)
            kept.append(place)
    return rows[kept]
