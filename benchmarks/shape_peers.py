"""Other methods on the same people, each from its paper's description, in code of its own.

`square_wave` is SW with EM or EMS (Li et al. 2020, "Estimating Numerical Distributions under Local
Differential Privacy"); `adaptive_tree` follows the idea of AHEAD (Du et al. 2021, "AHEAD: Adaptive
Hierarchical Decomposition for Range Query under Local Differential Privacy"); `plain_em` reads the
default's own reports without any smoothing. All give the share of every cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import sfumato as sf
from sfumato.estimation.decoding.mixture import mixture_of

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Linear = Callable[[Floats], Floats]

MOST_STEPS = 10_000
PLAIN_STEPS = 2_000
PLAIN_MOVED = 1e-7


# ---- EM --------------------------------------------------------------------------------------


def em(
    law: Floats,
    counts: Floats,
    forward: Linear,
    backward: Linear,
    *,
    gain: float = 0.0,
    moved: float = 0.0,
    most_steps: int = MOST_STEPS,
    smooth: Linear | None = None,
) -> Floats:
    """Expectation maximisation from a given start.

    Args:
        law: The start.
        counts: How often each output was seen.
        forward: From shares of cells to probabilities of outputs.
        backward: Its transpose.
        gain: Stop when a step changes the log-likelihood by less than this.
        moved: Stop when a step moves less than this share of people.
        most_steps: Most steps.
        smooth: Applied after every step, as EMS does.
    """
    seen, people, before = counts > 0, counts.sum(), -np.inf
    for _ in range(most_steps):
        mixed = forward(law)
        likelihood = float(counts[seen] @ np.log(mixed[seen]))
        if abs(likelihood - before) < gain:
            break
        ratio = np.divide(counts, mixed, out=np.zeros_like(mixed), where=seen)
        after = law * backward(ratio) / people
        if smooth is not None:
            after = smooth(after)
            after /= after.sum()
        shift, law, before = float(np.abs(after - law).sum()), after, likelihood
        if shift < moved:
            break
    return law


def binomial_smoothing(law: Floats) -> Floats:
    """Weights 1/4, 1/2, 1/4; at the ends 2/3 and 1/3.

    Args:
        law: Shares of at least two cells.
    """
    found = law / 2
    found[1:] += law[:-1] / 4
    found[:-1] += law[1:] / 4
    found[0], found[-1] = (2 * law[0] + law[1]) / 3, (2 * law[-1] + law[-2]) / 3
    return found


def plain_em(tally: sf.Tally) -> Floats:
    """Maximum likelihood of a tally by EM from a flat start: 2,000 steps, or a change below 1e-7.

    Args:
        tally: The tally.
    """
    blocks = tally.study.blocks
    mixture = mixture_of(tally.statistic, blocks, range(len(blocks)))
    flat = np.full(mixture.shape, 1.0 / math.prod(mixture.shape))
    return em(
        flat,
        mixture.counts,
        mixture.forward,
        mixture.backward,
        moved=PLAIN_MOVED,
        most_steps=PLAIN_STEPS,
    )


# ---- Square Wave -----------------------------------------------------------------------------


class Wave:
    """Square Wave on cells: of m + 2b places, the 2b + 1 around a cell are e^ε times as likely.

    Args:
        cells: m.
        epsilon: ε.
    """

    def __init__(self, cells: int, epsilon: float) -> None:
        odds = math.exp(epsilon)
        best = (epsilon * odds - odds + 1) / (2 * odds * (odds - 1 - epsilon))  # Li2020
        self.cells = cells
        self.reach = int(best * cells)
        self.window = 2 * self.reach + 1
        self.places = cells + 2 * self.reach
        self.far = 1.0 / (self.window * odds + cells - 1)
        self.more = self.far * (odds - 1.0)  # of a near place

    def forward(self, law: Floats) -> Floats:
        """Probabilities of places.

        Args:
            law: Shares of cells.
        """
        padding = self.window - 1
        upto = np.concatenate([[0.0], np.cumsum(np.pad(law, padding))])
        near = upto[self.window :] - upto[: self.places]
        found: Floats = self.far * law.sum() + self.more * near
        return found

    def backward(self, values: Floats) -> Floats:
        """The transpose of `forward`.

        Args:
            values: A value of every place.
        """
        upto = np.concatenate([[0.0], np.cumsum(values)])
        near = upto[self.window :] - upto[: self.cells]
        found: Floats = self.far * values.sum() + self.more * near
        return found

    def reports(self, counts: Counts, rng: np.random.Generator) -> Floats:
        """How often each place is reported.

        Args:
            counts: People by cell.
            rng: Where reports are drawn from.
        """
        people = np.repeat(np.arange(self.cells), counts)
        near = people + rng.integers(0, self.window, len(people))
        anywhere = rng.integers(0, self.places, len(people))
        is_near = rng.random(len(people)) < self.more * self.window
        sent = np.where(is_near, near, anywhere)
        return np.bincount(sent, minlength=self.places).astype(np.float64)


def square_wave(counts: Counts, epsilon: float, rng: np.random.Generator) -> dict[str, Floats]:
    """Shares by SW+EM and by SW+EMS from the same reports.

    As the paper recommends, EM stops when a step changes the log-likelihood by less than e^ε/1000,
    and EMS when by less than 1/1000; after 10,000 steps in any case.

    Args:
        counts: People by cell.
        epsilon: ε.
        rng: Where reports are drawn from.
    """
    wave = Wave(len(counts), epsilon)
    seen, flat = wave.reports(counts, rng), np.full(len(counts), 1.0 / len(counts))
    rough = em(flat, seen, wave.forward, wave.backward, gain=1e-3 * math.exp(epsilon))
    smooth = em(flat, seen, wave.forward, wave.backward, gain=1e-3, smooth=binomial_smoothing)
    return {"SW+EM": rough, "SW+EMS": smooth}


# ---- adaptive tree ---------------------------------------------------------------------------


def adaptive_tree(counts: Counts, epsilon: float, rng: np.random.Generator) -> Floats:
    """Shares by a binary tree that is split only where people are.

    There is a group of people for each of ⌈log₂ m⌉ rounds. A round asks its group, by optimised
    unary encoding, in which part of the axis they are; parts whose share exceeds √3 standard
    errors, √(B + 1) for B = 2 children, are halved for the next round. In the end all rounds are
    read together by least squares, which weighs them alike as they have the same error, and
    negative shares are taken from the others.

    Args:
        counts: People by cell.
        epsilon: ε.
        rng: Where groups and reports are drawn from.
    """
    cells, rounds = len(counts), max(1, math.ceil(math.log2(len(counts))))
    groups = rng.permutation(np.repeat(np.arange(cells), counts))
    starts = np.unique([0, cells // 2])
    measured, found = [], []
    for group in np.array_split(groups, rounds):
        upto = np.append(starts, cells)
        inside = np.bincount(
            np.searchsorted(starts, group, side="right") - 1, minlength=len(starts)
        )
        shares = non_negative(_unary(inside, epsilon, rng))
        measured.append(starts)
        found.append(shares)
        halves = (starts + upto[1:]) // 2
        split = (shares > np.sqrt(3) * _unary_error(len(group), epsilon)) & (halves > starts)
        starts = np.sort(np.append(starts, halves[split]))
    leaves = measured[-1]
    design = np.concatenate([_within(parts, leaves) for parts in measured])
    shares = np.linalg.lstsq(design, np.concatenate(found), rcond=None)[0]
    sizes = np.diff(np.append(leaves, cells))
    return np.repeat(non_negative(shares) / sizes, sizes)


def _within(parts: Counts, leaves: Counts) -> Floats:
    """Which leaf lies in which part, one row per part; both are given by where they start."""
    owner = np.searchsorted(parts, leaves, side="right") - 1
    found: Floats = (owner == np.arange(len(parts))[:, None]).astype(np.float64)
    return found


def _unary(inside: Counts, epsilon: float, rng: np.random.Generator) -> Floats:
    """Unbiased shares by optimised unary encoding: bits are kept with 1/2, set with 1/(e^ε + 1)."""
    people, q = int(inside.sum()), 1.0 / (math.exp(epsilon) + 1.0)
    ones = rng.binomial(inside, 0.5) + rng.binomial(people - inside, q)
    found: Floats = (ones / people - q) / (0.5 - q)
    return found


def _unary_error(people: int, epsilon: float) -> float:
    """The standard error of a small share by optimised unary encoding."""
    return 2.0 * math.exp(epsilon / 2) / (math.exp(epsilon) - 1.0) / math.sqrt(people)


def non_negative(shares: Floats) -> Floats:
    """The nearest shares that are not negative and add up to 1.

    Args:
        shares: Shares.
    """
    falling = np.sort(shares)[::-1]
    excess = (np.cumsum(falling) - 1.0) / np.arange(1, len(falling) + 1)
    found: Floats = np.maximum(shares - excess[np.count_nonzero(falling > excess) - 1], 0.0)
    return found
