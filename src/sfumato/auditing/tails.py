"""Tails over the worst population: how often honest clients send a report, or set a bit.

Guarantee:
    Clients with cells x_1..x_n send an event independently, each with a chance between the least
    and the most that any cell has, `low` and `high`. So its count lies stochastically between the
    binomial counts of n and `low`, and of n and `high`: P(Bin(n, high) >= count) and
    P(Bin(n, low) <= count) are p-values for every population, exact up to rounding.

    For sums Σ_i Σ_k c_k·b_ik of independent bits, P(sum >= s) is at most e^(−λs)·Π_i M(x_i, λ),
    with M(x, λ) the mean of e^(λ Σ_k c_k·b_k) at cell x, for every λ > 0 (Chernoff). The largest M
    over all cells holds for all populations, and the smallest bound over several λ is again a
    p-value, since as a function of s it only falls.

    For reports r with the weights w(r) = max_x P(r | x)/W and W at least the sum of these maxima
    over all r, the smallest P(Bin(n, max_x P(r | x)) >= count of r)/w(r) is a p-value (Bonferroni
    with weights), however many reports there are.

References:
    Chernoff1952.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats

_TRUSTED = 1e-12  # to which chances are known as doubles, relative to themselves
_SAME = 1e-12  # chances of a run of outputs that differ by less over cells are the same
_SLOPES = np.geomspace(1e-6, 16, 80)  # λ of Chernoff's bound
_MOST_PAIRS = 512  # bits up to which all pairs are compared; neighbours beyond
_MOST_BOUNDS = 64  # pairs of bits, the most unlike ones, for which a bound is computed

Counts = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class Tail:
    """The least likely of several events, as honest clients go.

    Attributes:
        p_value: Its p-value times the number of events, at most 1.
        words: What happened.
    """

    p_value: float
    words: str


def at_least(counts: Counts, total: int, chances: Floats) -> Floats:
    """P(Bin(total, chance) >= count), a little more where chances may be rounded.

    Args:
        counts: How often events happened.
        total: Out of how many reports.
        chances: The chance of each.
    """
    from scipy import special

    k, most = np.asarray(counts, dtype=np.float64), np.minimum(chances * (1 + _TRUSTED), 1.0)
    found: Floats = np.where(k > 0, special.betainc(np.maximum(k, 1), total - k + 1, most), 1.0)
    return found


def at_most(counts: Counts, total: int, chances: Floats) -> Floats:
    """P(Bin(total, chance) <= count), a little more where chances may be rounded.

    Args:
        counts: How often events happened.
        total: Out of how many reports.
        chances: The chance of each.
    """
    from scipy import special

    k, least = np.asarray(counts, dtype=np.float64), chances * (1 - _TRUSTED)
    found: Floats = np.where(
        k < total, special.betaincc(k + 1, np.maximum(total - k, 1), least), 1.0
    )
    return found


def frequencies(
    counts: Counts, total: int, low: Floats, high: Floats, name: Callable[[int], str]
) -> Tail:
    """Whether some event came more often, or less often, than any population makes it.

    Args:
        counts: How often each came.
        total: Out of how many reports.
        low: The least chance of each, over all cells.
        high: The most.
        name: What each is called.
    """
    many, few = at_least(counts, total, high), at_most(counts, total, low)
    place = int(np.argmin(np.minimum(many, few)))
    more = bool(many[place] <= few[place])
    bound = (high if more else low)[place] * total
    p = 2 * len(counts) * float(min(many[place], few[place]))
    words = (
        f"{name(place)} came {int(counts[place]):,} times in {total:,} reports; any population "
        f"makes it {'at most' if more else 'at least'} {bound:,.6g} on average"
    )
    return Tail(min(1.0, p), words)


def runs(likelihood: Floats) -> list[tuple[int, int]]:
    """Runs of neighbouring outputs whose chance together is the same at every cell.

    Such are the outputs of one level, hash or comb, which devices draw without looking at the
    value.

    Args:
        likelihood: P(output | cell).

    Example:
        >>> runs(np.array([[0.4, 0.1, 0.3, 0.2], [0.1, 0.4, 0.2, 0.3]]))
        [(0, 2), (2, 4)]
    """
    upto = np.cumsum(likelihood, axis=1)
    same = np.flatnonzero(np.ptp(upto, axis=0) < _SAME).tolist()
    ends = [0, *(place + 1 for place in same)]
    return [(a, b) for a, b in pairwise(ends) if 1 < b - a < likelihood.shape[1]]


def columns(ones: Counts, total: int, rates: Floats, code: NDArray[np.bool_] | None) -> Tail:
    """Whether sums over columns of bits are beyond what any population makes them.

    Compared are, for bits that are independent, all of them together, and pairs of which the
    second is true wherever the first is.

    Args:
        ones: How many reports have each bit set.
        total: Out of how many reports.
        rates: P(bit is one | cell), one row per cell.
        code: What each bit is before noise, one row per cell, if pairs are to be compared.
    """
    least = min(_chernoff(sign * float(ones.sum()), total, sign, rates) for sign in (1, -1))
    count, means = 2, total * rates.sum(axis=1)
    words = (
        f"the reports have {int(ones.sum()):,} bits set; any population makes it "
        f"{means.min():,.6g} to {means.max():,.6g} on average"
    )
    pairs = np.zeros((0, 2), dtype=np.intp) if code is None else _implied(code)
    count += len(pairs)
    apart = ones[pairs[:, 0]] - ones[pairs[:, 1]]
    for place in np.argsort(-apart)[:_MOST_BOUNDS].tolist():
        a, b = pairs[place].tolist()
        chance = _pair(int(apart[place]), total, rates[:, a], rates[:, b])
        if chance < least:
            least = chance
            words = (
                f"bit {a} is set in {int(ones[a]):,} reports and bit {b} in {int(ones[b]):,}; in "
                "any population whoever should set the first should set the second too"
            )
    return Tail(min(1.0, count * least), words)


def _implied(code: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Pairs of bits of which the second is true at every cell where the first is."""
    bits = code.shape[1]
    if bits > _MOST_PAIRS:
        pairs = np.stack([np.arange(bits - 1), np.arange(1, bits)], axis=1)
        pairs = np.concatenate([pairs, pairs[:, ::-1]])
        kept: NDArray[np.intp] = pairs[
            ~np.any(code[:, pairs[:, 0]] & ~code[:, pairs[:, 1]], axis=0)
        ]
        return kept
    held = code.astype(np.float64)
    broken = held.T @ (1 - held)
    np.fill_diagonal(broken, 1)
    found: NDArray[np.intp] = np.argwhere(broken == 0)
    return found


def _chernoff(sum_of_bits: float, total: int, sign: int, rates: Floats) -> float:
    """Chernoff's bound for the sum of all bits, times a sign."""
    best, up = 0.0, np.expm1(sign * _SLOPES)
    for slope, rise in zip(_SLOPES, up, strict=True):
        log = _more(float(np.log1p(rates * rise).sum(axis=1).max()))
        best = min(best, total * log - slope * sum_of_bits)
    return math.exp(best)


def _more(log: Any) -> Any:
    """A little more than a sum of logarithms that may be rounded."""
    return log + _TRUSTED * (1 + np.abs(log))


def _pair(apart: int, total: int, first: Floats, second: Floats) -> float:
    """Chernoff's bound for how much oftener one bit is set than another."""
    both = np.unique(np.stack([first, second], axis=1), axis=0)
    up, down = np.expm1(_SLOPES), np.expm1(-_SLOPES)
    log = np.log1p(both[:, :1] * up) + np.log1p(both[:, 1:] * down)
    bound = total * _more(log.max(axis=0)) - _SLOPES * apart
    return math.exp(min(0.0, float(bound.min())))


def identical(people: Counts, total: int, log_most: Floats, log_sum: float) -> Tail:
    """Whether the very same report came oftener than any population makes it.

    Args:
        people: How often each of some distinct reports came.
        total: How many reports there are.
        log_most: The logarithm of max_x P(report | x) for each.
        log_sum: The logarithm of a bound on the sum of these maxima over all reports there are.
    """
    tails = at_least(people, total, np.exp(log_most))
    # Far below the smallest double: n·(n·q)^(k − 1) bounds the tail over q.
    with np.errstate(divide="ignore"):
        logs = np.log(tails)
    small = people * (math.log(total) + log_most)
    logs = np.where(tails > 0, logs, np.minimum(small, -700.0)) + log_sum - log_most
    place = int(np.argmin(logs))
    words = (
        f"one and the same report came {int(people[place]):,} times in {total:,}; any population "
        f"makes it at most {math.exp(min(700.0, log_most[place] + math.log(total))):.3g} on average"
    )
    return Tail(math.exp(min(0.0, float(logs[place]))), words)
