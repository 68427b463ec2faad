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
from dataclasses import replace

import numpy as np

from sfumato.arrays import Floats
from sfumato.errors import QuestionError
from sfumato.estimation.answers import Answers, normal_quantile

DRAWS = 20_000
_AT_ONCE = 2_000
_SEED = 7
# Below this share of the largest variance an error is rounding: such a cell is certain.
_CERTAIN = 1e-12


def band(answers: Answers, level: float) -> Answers:
    """The same answers with intervals that all hold the truth at once, with the given chance."""
    if answers.steps:
        raise QuestionError(
            f"a band is of answers as they were found, and {answers.steps[-1]} came after: take "
            f"the band first, as in answers.band().{answers.steps[-1]}(...)"
        )
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
    covariance = answers.errors.covariance() if answers.errors and len(unsure) > 1 else None
    if covariance is None:
        critical, how = most, "Šidák's, which holds for any correlation between the errors"
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
