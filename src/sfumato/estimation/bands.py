"""Simultaneous confidence bands: intervals for many cells that all hold at once.

Estimator:
    Intervals are values ± c·stderr. The errors of unbiased rows are jointly Gaussian to first
    order, with a covariance that is estimated from the tally. For rows of weights W on one axis,
    read by coefficients C, Cov = C·diag(v₂)·Cᵀ − W·diag(ĉ)·Wᵀ, with v₂ the tally split by output
    with the other axes' coefficients squared, and ĉ the estimated people per cell with the other
    axes' weights squared. Where an axis sends bits, rows share the flips of bits, and the first
    term is W·diag(ĉ₂)·Wᵀ + v₂[0]·S·Sᵀ + O·diag(ĉ₂)·Oᵀ, with S the spread of the flips, ĉ₂ the
    people per cell estimated from v₂, and O the extra spread of the bit of a person's own cell,
    if any (see `readings.row_covariance`). c is the level's quantile of max |error/stderr|,
    simulated with a fixed seed.

    Where the covariance is not known (likelihood answers, heat maps, many cells) c is Šidák's:
    Gaussian errors of any correlation are jointly within their intervals at least as often as
    independent ones. Šidák's c is never smaller than the simulated one, and is below Bonferroni's.

References:
    Sidak1967.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sfumato.arrays import Floats
from sfumato.errors import QuestionError
from sfumato.estimation.answers import Answers
from sfumato.estimation.intervals import normal_quantile

DRAWS = 20_000
_AT_ONCE = 2_000
_SEED = 7
# An answer whose variance is below this share of the largest has no error but rounding.
_CERTAIN = 1e-12


def band(answers: Answers, level: float) -> Answers:
    """The same answers with intervals that all contain the truth at once, at the given level.

    Args:
        answers: A histogram, CDF, heat map or list of questions, before any post-processing.
        level: Probability that all intervals contain the truth.
    """
    if answers.steps:
        raise QuestionError(
            f"band() is for answers before post-processing, and {answers.steps[-1]} was applied: "
            f"take the band first, as in answers.band().{answers.steps[-1]}(...)"
        )
    pointwise = normal_quantile(level)
    if answers.kind == "quantile":
        raise QuestionError(
            "quantiles have no standard errors that a band could widen; ask for the band of the "
            "cdf, which holds for all quantiles at once"
        )
    if not answers.n:
        return replace(answers, level=level)
    variance = np.ravel(answers.stderr) ** 2
    unsure = np.flatnonzero(variance > _CERTAIN * np.max(variance, initial=0.0))
    most = sidak(level, len(unsure))
    covariance = answers.errors.covariance() if answers.errors and len(unsure) > 1 else None
    if covariance is None:
        critical, how = most, "Šidák's, which holds for any correlation between the errors"
    else:
        part = covariance[np.ix_(unsure, unsure)]
        found, error = critical_value(correlation(part, variance[unsure]), level)
        critical = min(max(found, pointwise), most)
        how = f"simulated from the joint law, ± {error:.3f}"
    ends = answers.errors.ends(critical) if answers.errors else None
    note = (
        f"simultaneous band: all {answers.values.size} intervals hold at once with {level:.4g} "
        f"chance; {critical:.3f} standard errors each way ({how}; one by one {pointwise:.3f})"
    )
    return replace(
        answers,
        level=level,
        bounds=ends or answers.ends(critical),
        notes=(*answers.notes, note),
    )


def sidak(level: float, count: int) -> float:
    """Šidák's critical value: standard errors each way for `count` Gaussian errors at once.

    It holds for any correlation between the errors.

    Args:
        level: Probability that all intervals contain the truth.
        count: Number of errors.

    Example:
        >>> round(sidak(0.95, 1), 2), round(sidak(0.95, 100), 2)
        (1.96, 3.47)
    """
    return normal_quantile(level ** (1 / max(count, 1)))


def correlation(covariance: Floats, variance: Floats) -> Floats:
    """A factor L with rows of length one such that L·Lᵀ is the correlation matrix of the errors.

    An estimated covariance may be slightly indefinite: negative eigenvalues count as zero. The
    diagonal is replaced by the reported variances, which may have been raised to a least value.

    Args:
        covariance: Estimated covariance matrix, shape (k, k).
        variance: Reported variances, shape (k,).
    """
    whole = (covariance + covariance.T) / 2
    whole[np.diag_indices_from(whole)] = variance
    scale = np.sqrt(variance)
    values, vectors = np.linalg.eigh(whole / np.multiply.outer(scale, scale))
    factor = vectors * np.sqrt(np.maximum(values, 0.0))
    result: Floats = factor / np.linalg.norm(factor, axis=1, keepdims=True)
    return result


def critical_value(factor: Floats, level: float) -> tuple[float, float]:
    """The level's quantile of max |Z| for Z = L·(standard normals), and its Monte Carlo error.

    The error is one standard error of the simulated quantile: √(p(1 − p)/DRAWS) in probability,
    which is 0.15 % at level 95 %, converted by the simulated distribution.

    Args:
        factor: L, from `correlation`, shape (k, r).
        level: The level p, between 0 and 1.
    """
    rng = np.random.Generator(np.random.PCG64(_SEED))
    largest = np.concatenate(
        [
            np.abs(rng.standard_normal((_AT_ONCE, factor.shape[1])) @ factor.T).max(axis=1)
            for _ in range(DRAWS // _AT_ONCE)
        ]
    )
    level = float(level)
    off = math.sqrt(level * (1 - level) / DRAWS)
    low, mid, high = np.quantile(largest, [max(level - off, 0.0), level, min(level + off, 1.0)])
    return float(mid), float(high - low) / 2
