"""Bands: intervals for many cells that hold all at once, not each by itself.

Estimator:
    Answers are values ± c·stderr. The errors of unbiased rows are jointly Gaussian to first order,
    with a covariance that the tally itself gives: for rows of weights W on one axis whose readings
    are C, Cov = C·diag(v₂)·Cᵀ − W·diag(ĉ)·Wᵀ, v₂ the tally split by output with the other axes'
    readings squared and ĉ the estimated people a cell with the other axes' weights squared. Where
    an axis sends bits, readings share the flips of bits: instead of C·diag(v₂)·Cᵀ it is
    W·diag(ĉ₂)·Wᵀ + v₂[0]·S·Sᵀ, S the flips' spread and ĉ₂ the people that v₂ reads, and
    O·diag(ĉ₂)·Oᵀ more where the bit of a person's own cell varies by O more than others. c is the
    level's quantile of the largest |error/stderr|, by simulation with a fixed seed.

    Where that law is not known (likelihood answers, heat maps, many cells) c is Šidák's: centred
    Gaussian errors, however they hang together, are jointly within their intervals at least as
    often as independent ones would be. It is always the larger one, and below Bonferroni's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.arrays import Floats
from sfumato.channels.base import Channel
from sfumato.errors import QuestionError
from sfumato.estimation.answers import Answers, normal_quantile
from sfumato.estimation.rows import (
    Reading,
    Rows,
    Statistics,
    excess_of,
    plain_of,
    product_of,
    value_of,
)
from sfumato.questions.language import Question

if TYPE_CHECKING:
    from sfumato.estimation.estimate import Estimate


MOST_SIMULATED = 1024
DRAWS = 20_000
_AT_ONCE = 2_000
_SEED = 7
# Below this share of the largest variance an error is rounding: such a cell is certain.
_CERTAIN = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """Where rows of answers come from, so that their joint law can be found when asked for."""

    source: Estimate
    asked: Question
    rows: dict[int, Rows]
    population: bool
    conditional: bool

    def covariance(self) -> Floats | None:
        """Covariances of all answers, up to a factor; None where only the variances are known."""
        if len(self.rows) != 1 or len(next(iter(self.rows.values())).weights) > MOST_SIMULATED:
            return None
        return self.source.row_covariance(
            self.asked, self.rows, population=self.population, conditional=self.conditional
        )


def band(answers: Answers, level: float) -> Answers:
    """The same answers with intervals that all hold the truth at once, with the given chance."""
    pointwise = normal_quantile(level)
    if answers.kind == "quantile":
        raise QuestionError(
            "intervals of quantiles have no standard errors to widen; ask for the band of the cdf, "
            "which holds for all quantiles at once"
        )
    if not answers.n:
        return replace(answers, level=level)
    variance = np.ravel(answers.stderr) ** 2
    unsure = np.flatnonzero(variance > _CERTAIN * np.max(variance, initial=0.0))
    most = sidak(level, len(unsure))
    covariance = answers.joint.covariance() if answers.joint and len(unsure) > 1 else None
    if covariance is None:
        critical, how = most, "Šidák's, which holds however the errors hang together"
    else:
        part = covariance[np.ix_(unsure, unsure)]
        found, error = critical_value(correlation(part, variance[unsure]), level)
        critical = min(max(found, pointwise), most)
        how = f"simulated from the joint law, ± {error:.3f}"
    reach = critical * answers.stderr
    note = (
        f"simultaneous band: all {answers.values.size} intervals hold at once with {level:.4g} "
        f"chance; {critical:.3f} standard errors each way ({how}; one by one {pointwise:.3f})"
    )
    return replace(
        answers,
        level=level,
        bounds=(answers.values - reach, answers.values + reach),
        notes=(*answers.notes, note),
    )


def sidak(level: float, count: int) -> float:
    """Standard errors each way that suffice for so many Gaussian errors, whatever their covariance.

    Example:
        >>> round(sidak(0.95, 1), 2), round(sidak(0.95, 100), 2)
        (1.96, 3.47)
    """
    return normal_quantile(level ** (1 / max(count, 1)))


def correlation(covariance: Floats, variance: Floats) -> Floats:
    """A factor L, rows of length one, with L·Lᵀ the correlation of the errors.

    An estimated covariance may be slightly indefinite, and a variance may have been raised to its
    least value: what is raised counts as an error by itself.
    """
    whole = (covariance + covariance.T) / 2
    whole[np.diag_indices_from(whole)] = variance
    scale = np.sqrt(variance)
    values, vectors = np.linalg.eigh(whole / np.multiply.outer(scale, scale))
    factor = vectors * np.sqrt(np.maximum(values, 0.0))
    result: Floats = factor / np.linalg.norm(factor, axis=1, keepdims=True)
    return result


def critical_value(factor: Floats, level: float) -> tuple[float, float]:
    """The level's quantile of the largest |Z|, Z = L·standard normals, and its Monte Carlo error.

    The error is one standard error of the simulated quantile: √(p(1 − p)/DRAWS) of chance, which
    at 95 % is 0.15 %, read off the simulated law itself.
    """
    rng = np.random.Generator(np.random.PCG64(_SEED))
    largest = np.concatenate(
        [
            np.abs(rng.standard_normal((_AT_ONCE, factor.shape[1])) @ factor.T).max(axis=1)
            for _ in range(DRAWS // _AT_ONCE)
        ]
    )
    off = math.sqrt(level * (1 - level) / DRAWS)
    low, mid, high = np.quantile(largest, [max(level - off, 0.0), level, min(level + off, 1.0)])
    return float(mid), float(high - low) / 2


def row_covariance(
    statistic: Statistics,
    channels: Sequence[Channel],
    where: Sequence[Floats | None],
    place: int,
    table: Floats,
    population: bool,
) -> Floats:
    """Covariances of the unbiased sums of rows of weights on one axis, under a condition.

    Args:
        statistic: The reports.
        channels: One an axis.
        where: The condition's weights on the other axes; what it says of this one is not looked at.
        place: The axis of the rows.
        table: One row of weights a question.
        population: Whether people vary too.
    """
    channel = channels[place]
    others = [None if d == place else w for d, w in enumerate(where)]

    def split(read: Reading, rounding: int | None = None) -> Floats:
        readings = [excess_of if d == rounding else read for d in range(len(channels))]
        vectors = [r(c, w, w) for r, c, w in zip(readings, channels, others, strict=True)]
        return statistic.profile([place], vectors)

    cells = np.eye(channel.size)
    second = split(product_of)
    found: Floats
    if channel.layout.kind == "bits":
        spread, own = channel.flip_spread(table), channel.own_spread(table)
        there = channel.sums(second, cells)
        found = (table * there) @ table.T + second[0] * (spread @ spread.T)
        if own is not None:
            found += (own * there) @ own.T
    elif channel.linear:
        parts = channel.batches(len(table))
        found = np.concatenate(
            [channel.sums(channel.coefficients(table[part]) * second, table) for part in parts]
        )
    else:
        read = channel.coefficients(table)
        found = (read * second) @ read.T
    if population:
        values = channel.sums(split(value_of), table)
        centred: Floats = found - np.multiply.outer(values, values) / statistic.count
        return centred
    people = channel.sums(split(plain_of), cells)
    less = people.copy()
    for d, w in enumerate(others):
        if w is not None and channels[d].rounds:
            less -= channel.sums(split(plain_of, d), cells)
    found = found - (table * less) @ table.T
    if channel.rounds:
        # What rounding adds depends on products of steps: a step up at each place tells how much.
        steps = np.tri(channel.size - 1, channel.size, 0) - 1.0
        change = np.diff(table, axis=-1)
        found += (change * (channel.rounding_excess(steps, steps) @ people)) @ change.T
    return found
