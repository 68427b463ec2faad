"""Exact variances of unbiased answers: means over many questions, from channels and a prior.

Where a channel's reading is linear, E[f² | x], w² and what stochastic rounding adds are quadratic
forms of the weights w, so their sum over all questions of a workload W depends on WᵀW alone:
`Workload.squares` gives a few weighted rows with the same sum. For all ranges between K ends these
are K + 1 rows instead of K(K − 1)/2. Where it is not linear, each question is read by itself. If
there are too many rows, a sample of the questions stands for all, and `Terms.whole` says so. Blocks
are perturbed independently, so the forms of a question about several blocks are products over
blocks, and so are their means over all combinations of questions. The prior is the assumed
distribution of people over cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sfumato.arrays import Floats
from sfumato.channels.base import Channel
from sfumato.checks import numbers
from sfumato.errors import StudyError, TooLargeError, near
from sfumato.questions.lines import Total
from sfumato.questions.typical import most_rows, rows_of_squares, thinned
from sfumato.questions.workload import Workload, row_products
from sfumato.study.axis import Axis
from sfumato.study.blocks import Block
from sfumato.study.study import Study

MOST_CELLS = 1 << 24


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """A distribution of people over cells: one per axis, or one over all axes together.

    Attributes:
        laws: The distribution on each axis.
        joint: The distribution over all axes where it is not the product of `laws`.
        worst: Whether errors are for the population that makes them largest; `laws` are flat then.
        text: "flat", "worst" or "given".
    """

    laws: tuple[Floats, ...]
    joint: Floats | None
    worst: bool
    text: str

    def on(self, axes: Sequence[int]) -> Prior:
        """The prior of a study of some of the axes alone, in increasing order."""
        joint = None if self.joint is None or len(axes) == 1 else self.over(axes)
        laws = tuple(self.laws[axis] for axis in axes)
        return Prior(laws, joint, self.worst, self.text)

    def over(self, axes: Sequence[int]) -> Floats:
        """The distribution over some axes, in increasing order, with the others summed out."""
        if self.joint is not None:
            left_out = tuple(d for d in range(self.joint.ndim) if d not in axes)
            summed: Floats = self.joint.sum(axis=left_out)
            return summed
        refuse_large([len(self.laws[axis]) for axis in axes])
        law: Floats = np.ones(())
        for axis in axes:
            law = np.multiply.outer(law, self.laws[axis])
        return law


def prior_of(study: Study, given: str | ArrayLike | Mapping[str, ArrayLike]) -> Prior:
    """Read a prior.

    Args:
        study: The study.
        given: "flat", "worst", a histogram over all cells, or histograms by axis name.

    Raises:
        StudyError: If it names an unknown axis, has another shape, or is not a histogram.
    """
    flat = tuple(np.full(size, 1.0 / size) for size in study.shape)
    if isinstance(given, str):
        if given not in ("flat", "worst"):
            raise StudyError(
                f"prior must be 'flat', 'worst', a histogram, or histograms by axis, got {given!r}"
            )
        return Prior(flat, None, given == "worst", given)
    if isinstance(given, Mapping):
        return _by_axis(study.axes, flat, given)
    table = _law(given, "prior")
    shape = study.shape
    if table.shape != shape and (table.ndim != 1 or table.size != math.prod(shape)):
        raise StudyError(
            f"prior must have one entry per cell, shape {' × '.join(map(str, shape))} or flat in C "
            f"order, got shape {table.shape}"
        )
    joint = table.reshape(shape)
    laws = tuple(
        joint.sum(axis=tuple(d for d in range(joint.ndim) if d != axis))
        for axis in range(joint.ndim)
    )
    return Prior(laws, joint if joint.ndim > 1 else None, False, "given")


def refuse_large(shape: Sequence[int]) -> None:
    """Refuse grids with more cells than are planned together."""
    if math.prod(shape) > MOST_CELLS:
        raise TooLargeError(
            f"planning over {' × '.join(map(str, shape))} cells jointly is beyond the limit of "
            f"{MOST_CELLS:,}; ask about fewer axes at once"
        )


def _by_axis(axes: Sequence[Axis], flat: tuple[Floats, ...], given: Mapping[str, Any]) -> Prior:
    """One histogram per axis; axes that are not named are flat."""
    names = [axis.name for axis in axes]
    laws = list(flat)
    for name, histogram in given.items():
        if name not in names:
            raise StudyError(f"the prior names an axis {name!r}: {near(str(name), names)}")
        place = names.index(name)
        law = _law(histogram, f"the prior of axis {name!r}")
        if law.shape != flat[place].shape:
            raise StudyError(
                f"the prior of axis {name!r} must have one entry for each of its "
                f"{len(flat[place])} cells, got shape {law.shape}"
            )
        laws[place] = law
    return Prior(tuple(laws), None, False, "given")


def _law(given: Any, what: str) -> Floats:
    """A histogram as shares that sum to one."""
    table = numbers(given, what, "an array of numbers, one per cell")
    if not np.isfinite(table).all() or (table < 0).any() or not table.sum() > 0:
        raise StudyError(
            f"{what} must hold finite numbers, zero or more and not all zero; some are not"
        )
    law: Floats = table / table.sum()
    return law


_ENTRIES_AT_ONCE = 1 << 21
# Rows that are laid out one by one: at most so many entries, and beyond that a sample of questions.
_MOST_ENTRIES, _MOST_SAMPLED, _FEWEST_SAMPLED = 1 << 26, 512, 16


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """At every cell of one block: E[f² | x], w², and what stochastic rounding may add.

    Attributes:
        moment: E[f² | x].
        square: w².
        excess: The most that stochastic rounding can add.
        whole: Whether they are those of all questions, not of a sample.
    """

    moment: Floats
    square: Floats
    excess: Floats
    whole: bool = True

    @classmethod
    def of(cls, channel: Channel, weights: Floats) -> Terms:
        """The terms of given weights.

        Args:
            channel: The block's channel.
            weights: One weight per cell; several questions stand in leading axes.
        """
        return cls(
            channel.second_moment(weights), weights**2, channel.rounding_excess(weights, weights)
        )

    @classmethod
    def mean(cls, channel: Channel, workloads: Sequence[Workload]) -> Terms:
        """The mean over all combinations of questions about the axes of one block.

        Args:
            channel: The block's channel.
            workloads: The questions about each axis of the block.
        """
        rows, shares, whole = _laid_out(channel, workloads)
        counts = [len(share) for share in shares]
        step = max(1, _ENTRIES_AT_ONCE // max(channel.size, channel.layout.features))
        total = np.zeros((3, channel.size))
        for start in range(0, math.prod(counts), step):
            chosen = np.arange(start, min(start + step, math.prod(counts)))
            places = np.unravel_index(chosen, counts)
            found = cls.of(channel, combined([r[at] for r, at in zip(rows, places, strict=True)]))
            share = math.prod(s[at] for s, at in zip(shares, places, strict=True))
            total += [share @ each for each in (found.moment, found.square, found.excess)]
        moment, square, excess = total
        return cls(moment, square, excess, whole)


def _laid_out(
    channel: Channel, workloads: Sequence[Workload]
) -> tuple[list[Floats], list[Floats], bool]:
    """Rows of weights by axis, whose combinations have the mean forms of all questions.

    Returns:
        The rows of each axis, the share of each row in the mean, and whether these are all
        questions.
    """
    size = max(channel.size, channel.layout.features)
    if channel.linear and len(workloads) == 1:
        (asked,) = workloads
        few = thinned(asked, most_rows(max(channel.size, channel.layout.features // 8)))
        rows, counts = few.squares()
        return [rows], [counts / few.questions], few is asked
    laid = [rows_of_squares(w) if channel.linear else w.questions for w in workloads]
    if math.prod(laid) * size <= _MOST_ENTRIES:
        pairs = [
            w.squares() if channel.linear else (w.dense(), np.ones(w.questions)) for w in workloads
        ]
        shares = [counts / w.questions for (_, counts), w in zip(pairs, workloads, strict=True)]
        return [rows for rows, _ in pairs], shares, True
    rng = np.random.Generator(np.random.PCG64(0))
    most = max(_FEWEST_SAMPLED, min(_MOST_SAMPLED, _MOST_ENTRIES // size))
    drawn = [w.rows(rng.integers(w.questions, size=most)) for w in workloads]
    return [combined(drawn)], [np.full(most, 1 / most)], False


def mean_terms(
    blocks: Sequence[Block], workloads: Mapping[int, Workload]
) -> dict[tuple[int, ...], Terms]:
    """For each block that is asked about, by its axes, the mean terms over all questions.

    Args:
        blocks: The blocks of the study.
        workloads: The questions by axis; each asks about all these axes at once. On a block's axes
            that have none, everybody counts.
    """
    return {
        block.axes: Terms.mean(
            block.channel,
            [
                workloads.get(axis, Total(cells))
                for axis, cells in zip(block.axes, block.shape, strict=True)
            ],
        )
        for block in blocks
        if not workloads.keys().isdisjoint(block.axes)
    }


def combined(parts: Sequence[Floats]) -> Floats:
    """Weights on the grid of several axes, flat in C order: products of the axes' weights.

    Args:
        parts: For each axis, one row of weights per question.
    """
    table: Floats = np.ones((len(parts[0]), 1))
    for part in parts:
        table = row_products(table, part)
    return table


def variance(prior: Prior, terms: Mapping[tuple[int, ...], Terms]) -> float:
    """Variance, per person, of the mean question: Σ_x p(x)·(Π_b E[f_b² | x_b] − Π_b w_b²(x_b)).

    For the worst population it is the largest bracket, since a mean never exceeds it.

    Args:
        prior: Where people are expected to be.
        terms: For each block that is asked about, by its axes, the terms of its questions.
    """
    blocks = sorted(terms)
    held = [terms[axes] for axes in blocks]
    if prior.worst:
        return _largest(held)
    if prior.joint is not None:
        return _over(prior.over([axis for axes in blocks for axis in axes]), held)
    laws = [prior.over(axes).ravel() for axes in blocks]
    return float(
        _bracket(
            held,
            lambda parts: math.prod(
                float(law @ part) for law, part in zip(laws, parts, strict=True)
            ),
        )
    )


def row_variances(channels: Sequence[Channel], law: Floats, rows: Sequence[Floats]) -> Floats:
    """Variances, per person, of many questions: row k on every block together is question k.

    Args:
        channels: One channel per block.
        law: The share of people in each cell of the grid of all blocks.
        rows: For each block, one row of weights per question.
    """
    questions = zip(*rows, strict=True)
    return np.array(
        [
            _over(law, [Terms.of(channel, w) for channel, w in zip(channels, parts, strict=True)])
            for parts in questions
        ]
    )


def _over(law: Floats, terms: Sequence[Terms]) -> float:
    """The mean bracket under any law over the cells of all blocks."""
    whole = law.reshape([len(t.moment) for t in terms])

    def mean(parts: Sequence[Floats]) -> float:
        table = whole
        for part in reversed(parts):
            table = table @ part
        return float(table)

    return float(_bracket(terms, mean))


def _bracket(terms: Sequence[Terms], product: Callable[[Sequence[Floats]], Any]) -> Any:
    """Second moment less squared mean, plus what rounding adds on each single block."""
    total = product([t.moment for t in terms]) - product([t.square for t in terms])
    for place, one in enumerate(terms):
        if one.excess.any():
            parts = [one.excess if d == place else t.square for d, t in enumerate(terms)]
            total = total + product(parts)
    return total


def _largest(terms: Sequence[Terms]) -> float:
    """The largest bracket over all cells of the grid of all blocks."""
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
