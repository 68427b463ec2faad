"""The search behind the optimised channel: descent over sets of cells and their weights.

Under one ε for all pairs an output says "the cell is in S" and nothing more: P(y | x) is z times
e^ε inside S and z outside. For given questions W, with G = WᵀW/rows and D the law of the output
when all cells are equally likely, the mean square of the least-squares answers is
tr[(Q D⁻¹ Qᵀ)⁻¹ G], the objective of McKenna2020. It is lowered over Q = z·(1 + (e^ε − 1)·s)
with memberships s = sin²θ between 0 and 1 and weights z = e^ζ, in which nothing is bound; that all
rows have one sum is kept by multipliers. Memberships end up near 0 or 1, are rounded, and the
weights, for which alone the problem is convex, are settled once more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from sfumato.arrays import Floats
from sfumato.channels.searched.codec import Sets
from sfumato.channels.searched.settling import Progress

STEPS = 200  # of each of the rounds below
_ROUNDS = (10.0, 100.0, 100.0, 100.0)  # how strongly unequal row sums are punished, in turn
_POLISH_STEPS = 60
_POLISH = (1e3, 1e4, 1e5)
_MOST_STARTS = 4
_HOPELESS = 1e9  # beyond any logarithm of a loss, but finite: a line search turns back from it


def known(size: int, odds: float) -> Iterator[Sets]:
    """Channels from the literature as sets: no result of `fit` is worse than any of them.

    Args:
        size: The number of cells.
        odds: e^ε.
    """
    from scipy import linalg

    yield Sets(np.eye(size, dtype=np.bool_), np.ones(size))
    for branching in (2, 4, 8):
        yield hierarchy(size, branching, odds)
    order = 1 << (size - 1).bit_length()
    signs = linalg.hadamard(order)[1:, :size] > 0
    yield Sets(np.concatenate([signs, ~signs]), np.ones(2 * order - 2))


def hierarchy(size: int, branching: int, odds: float) -> Sets:
    """One random level per person, and its node reported by k-ary response.

    Args:
        size: The number of cells.
        branching: Children of a node.
        odds: e^ε.

    Example:
        >>> hierarchy(4, 2, 2.0).members.astype(int).tolist()[:2]
        [[1, 1, 0, 0], [0, 0, 1, 1]]
    """
    members, weights = [], []
    width = branching ** max(0, math.ceil(math.log(size, branching) - 1e-9) - 1)
    while width:
        node = np.arange(size) // width
        nodes = int(node[-1]) + 1
        members.append(node == np.arange(nodes)[:, None])
        weights.append(np.full(nodes, 1 / (odds + nodes - 1)))
        width //= branching
    return Sets(np.concatenate(members), np.concatenate(weights))


def objective(table: Floats, gram: Floats) -> float:
    """Mean square of the answers, one person's report each: tr[(Q D⁻¹ Qᵀ)⁻¹ G].

    Infinite where some cells cannot be told apart.

    Args:
        table: Q, one row per cell and one column per output.
        gram: G.
    """
    return _loss(table, gram)[0]


def fit(
    gram: Floats,
    odds: float,
    outputs: int,
    *,
    seed: int = 0,
    steps: int = STEPS,
    progress: Progress | None = None,
) -> Sets:
    """Sets and weights with a small error on the workload, never larger than that of `known`.

    Args:
        gram: G, positive definite, one row per cell.
        odds: e^ε.
        outputs: How many sets.
        seed: For the random starts.
        steps: Of descent, in each of four rounds.
        progress: Called with the share done.
    """
    size = len(gram)
    best = min(known(size, odds), key=lambda sets: objective(sets.table(odds), gram))
    starts = _starts(size)
    done, total = 0, starts * (len(_ROUNDS) * steps + len(_POLISH) * _POLISH_STEPS)

    def count(_: object) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(min(done / total, 1.0))

    for start in range(starts):
        sets = _descend(_random(outputs, size, seed + start), gram, odds, steps, count)
        best = min((best, sets), key=lambda held: objective(held.table(odds), gram))
    if progress is not None:
        progress(1.0)
    return best


def _starts(size: int) -> int:
    """Number of random starts: small problems have worse local minima, and cost little."""
    return max(1, min(_MOST_STARTS, 64 // size))


def _random(outputs: int, size: int, seed: int) -> tuple[Floats, Floats]:
    """θ and ζ of memberships anywhere between 0 and 1."""
    rng = np.random.Generator(np.random.PCG64(seed))
    return rng.random((size, outputs)) * (np.pi / 2), np.full(outputs, -math.log(outputs))


def _descend(
    start: tuple[Floats, Floats], gram: Floats, odds: float, steps: int, count: Callable[..., None]
) -> Sets:
    """Lower memberships and weights together, round the former, and settle the latter."""
    angles, logs = start
    shape = angles.shape
    held = angles.size
    gap = odds - 1

    def table(flat: Floats) -> tuple[Floats, Floats, Floats]:
        theta, weight = flat[:held].reshape(shape), np.exp(flat[held:])
        return theta, weight, weight * (1 + gap * np.sin(theta) ** 2)

    def build(flat: Floats) -> Floats:
        return table(flat)[2]

    def pull(flat: Floats, gradient: Floats) -> Floats:
        theta, weight, held_table = table(flat)
        turned = gradient * (weight * gap) * np.sin(2 * theta)
        return np.concatenate([turned.ravel(), (gradient * held_table).sum(axis=0)])

    flat = np.concatenate([angles.ravel(), logs])
    flat = _lower(flat, build, pull, gram, _ROUNDS, steps, count)
    members = np.sin(flat[:held].reshape(shape)) ** 2 > 0.5
    fixed = np.where(members, odds, 1.0)
    logs = _lower(
        flat[held:],
        lambda log: fixed * np.exp(log),
        lambda log, gradient: (gradient * fixed).sum(axis=0) * np.exp(log),
        gram,
        _POLISH,
        _POLISH_STEPS,
        count,
    )
    return Sets(members.T.copy(), _level(fixed, np.exp(logs)))


def _lower(
    flat: Floats,
    build: Callable[[Floats], Floats],
    pull: Callable[[Floats, Floats], Floats],
    gram: Floats,
    strengths: tuple[float, ...],
    steps: int,
    count: Callable[..., None],
) -> Floats:
    """Augmented Lagrangian: log of the loss, with row sums pressed towards their mean."""
    from scipy import optimize

    size = len(gram)
    multipliers: Floats = np.zeros(size)
    for strength in strengths:
        value = partial(_value, build, pull, gram, strength / size, multipliers)
        found = optimize.minimize(
            value,
            flat,
            jac=True,
            method="L-BFGS-B",
            callback=count,
            options={"maxiter": steps, "maxfun": 2 * steps, "ftol": 1e-12, "gtol": 1e-9},
        )
        flat = np.asarray(found.x, dtype=np.float64)
        sums = build(flat).sum(axis=1)
        multipliers = multipliers + strength / size * (sums / sums.mean() - 1)
    return flat


def _value(
    build: Callable[[Floats], Floats],
    pull: Callable[[Floats, Floats], Floats],
    gram: Floats,
    strength: float,
    multipliers: Floats,
    point: Floats,
) -> tuple[float, Floats]:
    """What is lowered, and its gradient."""
    table = build(point)
    loss, gradient = _loss(table, gram)
    if not math.isfinite(loss):
        return _HOPELESS, np.zeros_like(point)
    sums = table.sum(axis=1)
    mean = sums.mean()
    off = sums / mean - 1
    force = multipliers + strength * off
    # The loss of Q/c is c times that of Q: the mean in the logarithm makes the value free of scale.
    row = (force + 1 / len(gram)) / mean - (force @ sums) / (len(gram) * mean**2)
    total = math.log(loss * mean) + multipliers @ off + strength / 2 * (off @ off)
    return float(total), pull(point, gradient / loss + row[:, None])


def _loss(table: Floats, gram: Floats) -> tuple[float, Floats]:
    """The objective and its gradient with respect to every entry of Q."""
    from scipy import linalg

    scaled = table / table.mean(axis=0)
    try:
        factor = linalg.cho_factor(scaled @ table.T, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return math.inf, np.zeros_like(table)
    half = linalg.cho_solve(factor, gram, check_finite=False)
    whole = linalg.cho_solve(factor, half.T, check_finite=False)
    pulled = (whole + whole.T) / 2 @ scaled
    gradient: Floats = (scaled * pulled).sum(axis=0) / len(table) - 2 * pulled
    loss = float(np.trace(half))
    return (loss, gradient) if loss > 0 else (math.inf, np.zeros_like(table))


def _level(table: Floats, weights: Floats) -> Floats:
    """The weights nearest to these, relatively, with equal row sums where that is possible."""
    weights = weights / (table @ weights).mean()
    for _ in range(20):
        short = 1 - table @ weights
        if np.abs(short).max() < 1e-14:
            break
        scaled = table * weights**2
        change = np.linalg.lstsq(scaled @ table.T, short, rcond=1e-12)[0] @ scaled
        weights = np.maximum(weights + change, weights / 10)
    return weights
