"""The search behind the extremal channel: column generation over the extreme rays of E's cone.

An output y has a row q_y, one number per cell, and a share θ_y of all outputs when all cells are
equally likely: P(y | x) = θ_y·q_y(x), with q_y of mean 1. E holds if q_y(x) <= e^E(x,x')·q_y(x'):
such rows form a cone, and the best channel needs only its extreme rays, which are log-linear with
slopes ±E. For questions W with G = WᵀW/rows, least squares has the mean square f = tr[G·M⁻¹] with
M = Σ θ_y q_y q_yᵀ. This is convex in θ, under θ >= 0 and Σ θ_y q_y = 1.

θ is found for a family of rows by Newton's method with a barrier, whose multipliers λ price all
other rows: with K = M⁻¹GM⁻¹, a row with qᵀKq > λᵀq lowers f. Such rows are searched for and join
the family, until none is found.

Bound:
    For any channel under E, with v the largest qᵀKq − λᵀq of any row of mean 1, f' >= f²/(Σλ + v)
    by convexity and duality. v is known only as far as the search goes.

References:
    Kairouz2016, Theorem 2, for the extreme rays under one ε; McKenna2020 for the objective;
    Boyd2004, §10.3 and §11.3, for Newton's method with equality constraints and a barrier. The
    derivation is in "Extremal channel" of the documentation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.metrics.closure import closure

Progress = Callable[[float], None]

_ROUNDS = 60
_PATIENCE = 8  # rounds without a gain worth mentioning
_PASSES = 20  # of the search over all cells
_STARTS, _MORE_STARTS = 8, 64  # random starts of a search, a cell
_MORE_ROWS = 4  # a cell: how many rows join the family at most in a round
_LEAST_SHARE = 1e-5  # over the number of cells: rows put out more seldom are dropped
_LITTLE = 0.1  # of a row's mean: below it sums are not carried on
_GOOD_ENOUGH = 1e-3  # relative distance from the bound at which the search ends
_BARRIER = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)


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
    rounds: int = _ROUNDS,
    progress: Progress | None = None,
) -> Found:
    """Rows and shares with a small error on the workload, never larger than the exponential's.

    Args:
        gram: G, positive definite, one row per cell.
        distance: E between all cells, finite, closed under shortest paths.
        seed: For the random starts of the search.
        rounds: How often rows are searched for at most; few are quick and leave a wide gap.
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
    rounds: int,
    progress: Progress | None,
) -> Found:
    """Generate rows: weigh a family, look for rows that would lower f, take them in, repeat.

    Each turn solves for θ on the family, which gives λ and K, searches for rows with
    qᵀKq > λᵀq, and drops rows whose share has become negligible.
    """
    size = len(gram)
    family = np.concatenate([np.exp(usual.logs), _scaled(-distance), _scaled(distance.T)])
    shares = np.concatenate([0.8 * usual.shares, np.full(2 * size, 0.1 / size)])
    values: list[float] = []
    for turn in range(rounds):
        shares, lam, spread = _weigh(family, gram, shares)
        value = float(np.sum(spread * gram))
        values.append(value)
        kernel = spread @ gram @ spread
        price = partial(_search, kernel=kernel, lam=lam, distance=distance)
        kicked = _extended(np.log(family), distance, rng)
        random = _random(distance, _STARTS * size, rng)
        found, gain = price(np.concatenate([family, kicked, random]))
        if gain[0] <= _GOOD_ENOUGH * value:  # nothing found: look harder before believing it
            found, gain = price(_random(distance, _MORE_STARTS * size, rng))
        most = max(float(gain[0]), float(_gain(family, kernel, lam).max()), 0.0)
        bound = value**2 / (float(lam.sum()) + most)
        if progress is not None:
            progress((turn + 1) / rounds)
        late = len(values) > _PATIENCE and value > (1 - _GOOD_ENOUGH) * values[-1 - _PATIENCE]
        if value - bound <= _GOOD_ENOUGH * value or late or turn == rounds - 1:
            break  # with the shares just weighed: further rows would come in unweighed
        keep = shares > _LEAST_SHARE / size
        family, shares = family[keep], shares[keep]
        better = _distinct(found[gain > 1e-3 * most], family)[: _MORE_ROWS * size]
        family = np.concatenate([family, better])
        fresh = np.full(len(better), 0.1 / max(len(better), 1))
        shares = np.concatenate([(1 - fresh.sum()) * shares, fresh])
    used = shares > _LEAST_SHARE / size
    return Found(np.log(family[used]), level(family[used], shares[used]), value, bound)


def level(rows: Floats, shares: Floats) -> Floats:
    """The shares nearest to these, relatively, with Σ θ_y q_y = 1.

    Each step is the change δ of least Σ (δ_y/θ_y)² with Σ δ_y q_y = 1 − Σ θ_y q_y, which is
    δ = Θ²Q·(QᵀΘ²Q)⁻¹·(1 − Qᵀθ); it is repeated where it had to stop short of zero.

    Args:
        rows: q, one row per output and one column per cell.
        shares: θ, one per output.
    """
    for _ in range(20):
        short = 1 - shares @ rows
        if np.abs(short).max() < 1e-14:
            break
        scaled = rows.T * shares**2
        change = np.linalg.lstsq(scaled @ rows, short, rcond=1e-12)[0] @ scaled
        shares = np.maximum(shares + change, shares / 10)
    return shares


def _scaled(logs: Floats) -> Floats:
    """Rows of mean 1 from logarithms."""
    rows = np.exp(logs - logs.max(axis=1, keepdims=True))
    scaled: Floats = rows / rows.mean(axis=1, keepdims=True)
    return scaled


def _extended(logs: Floats, distance: Floats, rng: np.random.Generator) -> Floats:
    """Rows kept on random cells only, and from there as high or as low as they may be."""
    kept = rng.random(logs.shape) < rng.uniform(0.2, 0.9, (len(logs), 1))
    kept[np.arange(len(logs)), rng.integers(0, logs.shape[1], len(logs))] = True
    high = np.where(kept[:, None, :], logs[:, None, :] + distance, np.inf).min(axis=2)
    low = np.where(kept[:, None, :], logs[:, None, :] - distance.T, -np.inf).max(axis=2)
    return _scaled(np.where(rng.random((len(logs), 1)) < 0.5, high, low))


def _random(distance: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Rows that are log-linear around random sets of cells."""
    size = len(distance)
    chosen = rng.random((count, size)) < rng.uniform(1 / size, 0.6, (count, 1))
    chosen[np.arange(count), rng.integers(0, size, count)] = True
    there = np.where(chosen[:, None, :], distance, np.inf).min(axis=2)  # from a cell to the set
    back = np.where(chosen[:, None, :], distance.T, np.inf).min(axis=2)
    return _scaled(np.where(rng.random((count, 1)) < 0.5, -back, there))


def _weigh(family: Floats, gram: Floats, shares: Floats) -> tuple[Floats, Floats, Floats]:
    """θ for a family of rows, the multipliers of Σ θ_y q_y = 1, and M⁻¹.

    Minimises tr[G·M(θ)⁻¹] − μ·Σ log θ_y under Qᵀθ = 1 for a falling μ, by Newton's method from a θ
    that need not satisfy the constraint (Boyd2004, §10.3). With K = M⁻¹GM⁻¹,

        gradient   g_y = −q_yᵀKq_y − μ/θ_y
        Hessian    H_yz = 2·(q_yᵀM⁻¹q_z)(q_yᵀKq_z) + μ/θ_y² on the diagonal,

    and the step Δ solves HΔ − Qν = −g, QᵀΔ = 1 − Qᵀθ: ν from the Schur complement QᵀH⁻¹Q, then
    Δ = H⁻¹(Qν − g). λ = −ν. All of it is done in units of θ, Δ_y = θ_y·move_y.
    """
    from scipy import linalg

    ones = np.ones(family.shape[1])
    multipliers = ones
    scale = 1.0
    for level, part in enumerate(_BARRIER):
        for step in range(60):
            spread = linalg.inv((family.T * shares) @ family)
            whole = spread @ gram @ spread
            if level == 0 and step == 0:
                scale = float(np.sum(spread * gram)) / len(family)
            mu = part * scale
            read, held = family @ spread, family @ whole
            first = np.einsum("ij,ij->i", held, family)
            gradient = -first - mu / shares
            hessian = 2 * (read @ family.T) * (held @ family.T)
            hessian[np.diag_indices_from(hessian)] += mu / shares**2
            off = ones - shares @ family
            # In units of θ the matrix is well scaled: D·H·D with D = diag(θ).
            scaled = hessian * shares[:, None] * shares
            factor = linalg.cho_factor(scaled + 1e-14 * np.trace(scaled) * np.eye(len(shares)))
            rows = family * shares[:, None]
            inner = linalg.cho_solve(factor, np.column_stack([rows, shares * gradient]))
            schur = rows.T @ inner[:, :-1]
            target = off + rows.T @ inner[:, -1]
            multipliers = linalg.lstsq(schur, target, cond=1e-13)[0]
            move = inner[:, :-1] @ multipliers - inner[:, -1]
            length = min(1.0, 0.95 / max(-float(move.min()), 1e-300))  # θ stays positive
            shares = shares * (1 + length * move)
            if length == 1.0 and np.abs(move).max() < 1e-3:
                break
    spread = linalg.inv((family.T * shares) @ family)
    return shares, -multipliers, spread


def _gain(rows: Floats, kernel: Floats, lam: Floats) -> Floats:
    """qᵀKq − λᵀq for rows of mean 1."""
    result: Floats = np.einsum("ij,ij->i", rows @ kernel, rows) - rows @ lam
    return result


def _search(starts: Floats, kernel: Floats, lam: Floats, distance: Floats) -> tuple[Floats, Floats]:
    """Raise the gain qᵀKq − λᵀq from every start, by coordinate ascent over the cells.

    Along one entry the gain of the row scaled to mean 1 is a ratio of quadratics, whose maximum
    over what E leaves the entry, max_z q(z)/e^E(z,x) to min_z q(z)·e^E(x,z), is taken at an end:
    rows with no better end are log-linear with slopes ±E. Rows come back best first.
    """
    odds = np.exp(distance)
    rows = starts.copy()
    size = rows.shape[1]
    pulled = rows @ kernel
    square = np.einsum("ij,ij->i", pulled, rows)
    linear = rows @ lam
    gain = square - linear
    for _ in range(_PASSES):
        before = gain.copy()
        for cell in range(size):
            others = np.arange(size) != cell
            top = (rows[:, others] * odds[cell, others]).min(axis=1)
            bottom = (rows[:, others] / odds[others, cell]).max(axis=1)
            best = np.zeros(len(rows))
            for end in (top, bottom):
                step = end - rows[:, cell]
                reached = _after(step, cell, pulled, kernel, lam, (square, linear))
                better = reached > gain
                best, gain = np.where(better, step, best), np.where(better, reached, gain)
            pulled += best[:, None] * kernel[cell]
            rows[:, cell] += best
            # Back to mean 1 at once; where little is left of a row, its sums must be found anew.
            mean = rows.mean(axis=1)
            rows /= mean[:, None]
            pulled /= mean[:, None]
            pulled[mean < _LITTLE] = rows[mean < _LITTLE] @ kernel
            square, linear = np.einsum("ij,ij->i", pulled, rows), rows @ lam
        if np.all(gain <= before + 1e-6 * np.abs(before)):
            break
    rows = rows / rows.mean(axis=1, keepdims=True)
    gain = _gain(rows, kernel, lam)
    order = np.argsort(-gain)
    return rows[order], gain[order]


def _after(
    step: Floats,
    cell: int,
    pulled: Floats,
    kernel: Floats,
    lam: Floats,
    held: tuple[Floats, Floats],
) -> Floats:
    """The gain once one entry of every row has changed, scaled to mean 1."""
    square, linear = held
    mean = 1 + step / len(kernel)
    square = square + 2 * step * pulled[:, cell] + step**2 * kernel[cell, cell]
    result: Floats = square / mean**2 - (linear + step * lam[cell]) / mean
    return result


def _distinct(rows: Floats, family: Floats) -> Floats:
    """Rows that differ from each other and from the family."""
    kept: list[NDArray[np.float64]] = []
    known = list(np.round(np.log(family), 7))
    seen = {entry.tobytes() for entry in known}
    for row in rows:
        key = np.round(np.log(row), 7).tobytes()
        if key not in seen:
            seen.add(key)
            kept.append(row)
    return np.array(kept).reshape(-1, rows.shape[1])
