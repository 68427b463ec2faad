"""Exact variances of unbiased answers: means over many questions, from channels and a prior.

E[f² | x], w² and what stochastic rounding adds are quadratic forms B of the weights w, so their sum
over all questions of a workload W depends on WᵀW alone: `Workload.squares` gives a few weighted
rows with the same sum. For all ranges between K ends these are K + 1 rows instead of K(K − 1)/2.
Questions about several axes are products, and so are their means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.arrays import Floats
from sfumato.channels.base import Channel
from sfumato.planning.priors import Prior, refuse_large
from sfumato.questions.typical import most_rows, thinned
from sfumato.questions.workload import Workload

_ENTRIES_AT_ONCE = 1 << 21


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """At every cell of one axis: E[f² | x], w², and what stochastic rounding may add."""

    moment: Floats
    square: Floats
    excess: Floats

    @classmethod
    def of(cls, channel: Channel, weights: Floats) -> Terms:
        """Of given weights; several questions stand in leading axes."""
        return cls(
            channel.second_moment(weights), weights**2, channel.rounding_excess(weights, weights)
        )

    @classmethod
    def mean(cls, channel: Channel, workload: Workload) -> Terms:
        """The mean over all questions of a workload about one axis.

        Args:
            channel: The axis' channel.
            workload: The questions; ranges are thinned where the channel has many features.
        """
        asked = thinned(workload, most_rows(max(workload.cells, channel.layout.features // 8)))
        rows, counts = asked.squares()
        step = max(1, _ENTRIES_AT_ONCE // max(rows.shape[1], channel.layout.features))
        total = np.zeros((3, rows.shape[1]))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            found = cls.of(channel, rows[part])
            total += [counts[part] @ each for each in (found.moment, found.square, found.excess)]
        return cls(*(total / asked.questions))


def variance(prior: Prior, terms: Mapping[int, Terms]) -> float:
    """Variance, per person, of the mean question: Σ_x p(x)·(Π_d E[f_d² | x_d] − Π_d w_d²(x_d)).

    For the worst population it is the largest bracket, since a mean never exceeds it.

    Args:
        prior: Where people are expected to be.
        terms: For each axis that is asked about, the terms of its questions.
    """
    axes = sorted(terms)
    if prior.worst:
        return _largest([terms[axis] for axis in axes])
    law = None if prior.joint is None else prior.over(axes)

    def mean(parts: Sequence[Floats]) -> float:
        if law is None:
            return math.prod(
                float(prior.laws[axis] @ part) for axis, part in zip(axes, parts, strict=True)
            )
        table = law
        for part in reversed(parts):
            table = table @ part
        return float(table)

    return float(_bracket([terms[axis] for axis in axes], mean))


def row_variances(channels: Sequence[Channel], law: Floats, rows: Sequence[Floats]) -> Floats:
    """Variances, per person, of many questions: row k of every axis together is question k.

    Args:
        channels: One channel per axis.
        law: The share of people in each cell of the grid.
        rows: For each axis, one row of weights per question.
    """
    found = []
    for parts in zip(*rows, strict=True):
        terms = {
            axis: Terms.of(channel, w)
            for axis, (channel, w) in enumerate(zip(channels, parts, strict=True))
        }
        found.append(variance(Prior((), law, False, ""), terms))
    return np.array(found)


def _bracket(terms: Sequence[Terms], product: Callable[[Sequence[Floats]], Any]) -> Any:
    """Second moment less squared mean, plus what rounding adds on each axis by itself."""
    total = product([t.moment for t in terms]) - product([t.square for t in terms])
    for place, one in enumerate(terms):
        if one.excess.any():
            parts = [one.excess if d == place else t.square for d, t in enumerate(terms)]
            total = total + product(parts)
    return total


def _largest(terms: Sequence[Terms]) -> float:
    """The largest bracket over all cells; cells alike but for the moment need only its largest."""
    kept = [_topmost(t) for t in terms]
    refuse_large([len(t.moment) for t in kept])

    def grid(parts: Sequence[Floats]) -> Floats:
        table: Floats = np.ones(())
        for part in parts:
            table = np.multiply.outer(table, part)
        return table

    return float(np.max(_bracket(kept, grid)))


def _topmost(terms: Terms) -> Terms:
    """Of the cells with the same square and excess, the one with the largest moment."""
    pairs = np.stack([terms.square, terms.excess], axis=1)
    order = np.lexsort((-terms.moment, pairs[:, 1], pairs[:, 0]))
    first = np.ones(len(order), dtype=bool)
    first[1:] = (pairs[order][1:] != pairs[order][:-1]).any(axis=1)
    keep = order[first]
    return Terms(terms.moment[keep], terms.square[keep], terms.excess[keep])
