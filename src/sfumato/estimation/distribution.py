"""The estimated distribution over all cells, and its distance from a known truth.

`distribution` estimates all cells of all axes by a few fast transforms, where a histogram asks
about each cell. `tv_error` and `l2_error` compare a distribution with the truth, in experiments
where it is known.

Estimator:
    Unbiased shares, with Var = Σ_y N(y)·f(y)²/n² − share/n: the same as `Estimate.histogram`, cell
    by cell.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sfumato.arrays import DENSE_CELLS, Floats
from sfumato.channels.base import Channel, refuse_dense
from sfumato.channels.hadamard import HadamardChannel
from sfumato.checks import numbers
from sfumato.errors import QuestionError, shown
from sfumato.estimation.answers import Answers
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.likelihood import LikelihoodEstimate


def distribution(estimate: Estimate, *, population: bool = False) -> Answers:
    """Estimate the share of people in every cell of the grid of all axes.

    Args:
        estimate: The result of `tally.estimate(...)`, unbiased or by likelihood.
        population: Add the variance of sampling people from a population.

    Returns:
        Answers with one share per cell; `.simplex()` makes them a distribution. Standard errors of
        likelihood shares are those of the unbiased ones, which are seldom smaller.

    Example:
        >>> import sfumato as sf
        >>> protect = sf.Blocks(epsilon=1, blocks=[range(0, 5_000), range(5_000, 9_000)])
        >>> study = sf.Study("codes", [sf.integers("code", 0, 8_999, protect=protect)])
        >>> tally = study.simulate({"code": [7] * 6_000 + [8_000] * 4_000}, seed=1)
        >>> found = distribution(tally.estimate("unbiased"))
        >>> found.values.shape, bool(abs(found.values[7] - 0.6) < 4 * found.stderr[7])
        ((9000,), True)
    """
    if not isinstance(estimate, Estimate):
        raise QuestionError(f"an estimate is needed, tally.estimate(), got {shown(estimate)}")
    study = estimate.study
    channels = study.channels
    if not estimate.n:
        raise QuestionError("there are no reports yet, so there is no distribution to estimate")
    if estimate.whole != estimate.n:
        raise QuestionError("distribution() does not take weights; ask for a histogram instead")
    every = tuple(range(len(channels)))
    profile = estimate.statistic.profile(every, [None] * len(channels))
    values = _along(profile, channels, _cell_sums)
    second = _along(profile, channels, cell_squares)
    share = values.reshape(study.shape) / estimate.n
    square = second.reshape(study.shape) / estimate.n
    variance = np.maximum(square - (share**2 if population else share), 0.0) / estimate.n
    axes = tuple(range(len(study.axes)))
    if isinstance(estimate, LikelihoodEstimate):
        decoder = estimate.decoded(axes)
        share = share if decoder is None else decoder.counts() / estimate.n
    told = estimate.told_about(axes)
    return Answers(
        share.reshape(study.shape),
        np.sqrt(variance),
        estimate.n,
        kind="histogram" if len(study.axes) == 1 else "heatmap",
        axes=tuple(axis.name for axis in study.axes),
        all_labels=tuple(axis.labels() for axis in study.axes),
        all_edges=tuple(None if axis.optional else axis.domain.edges() for axis in study.axes),
        method=told.method,
        notes=told.notes,
        unit="fraction",
        units=tuple(axis.unit for axis in study.axes),
        limits=(0.0, 1.0),
    )


def _cell_sums(channel: Channel, profile: Floats) -> Floats:
    """Σ_y profile[y]·f_x(y) for every cell x."""
    if channel.linear:
        return channel.gather(profile)
    refuse_dense(channel.size, "the reading of all cells")
    return channel.sums(profile, np.eye(channel.size))


def cell_squares(channel: Channel, profile: Floats) -> Floats:
    """Σ_y profile[y]·f_x(y)² for every cell x, with f_x the unbiased estimator of its indicator.

    Args:
        channel: The channel.
        profile: A tally by features of the output along the last axis.

    Returns:
        The sums, with cells along the last axis.
    """
    if channel.size > DENSE_CELLS or isinstance(channel, HadamardChannel):
        return channel.all_squares(profile, upto=False)
    return Channel.all_squares(channel, profile, upto=False)


def _along(profile: Floats, channels: Any, step: Any) -> Floats:
    """Apply a step that turns features into cells, block by block."""
    for place, channel in enumerate(channels):
        last = np.moveaxis(profile, place, -1)
        profile = np.moveaxis(step(channel, np.ascontiguousarray(last)), -1, place)
    return profile


def tv_error(found: Estimate | Answers | ArrayLike, truth: ArrayLike) -> float:
    """Total variation distance of a distribution from the truth: ½·Σ |found − true|.

    Args:
        found: An estimate, a histogram or heat map, or an array with one entry per cell.
        truth: People, or shares, in every cell. Both are compared as shares.

    Example:
        >>> tv_error([0.5, 0.75, -0.25], [1, 1, 0])
        0.25
    """
    apart = _apart(found, truth)
    return math.fsum(np.abs(apart).ravel()) / 2


def l2_error(found: Estimate | Answers | ArrayLike, truth: ArrayLike) -> float:
    """Euclidean distance of a distribution from the truth: √Σ (found − true)².

    Args:
        found: An estimate, a histogram or heat map, or an array with one entry per cell.
        truth: People, or shares, in every cell. Both are compared as shares.

    Example:
        >>> l2_error([0.5, 0.875, 0.125, -0.5], [1, 1, 0, 0])
        0.6373774391990981
    """
    return float(np.linalg.norm(_apart(found, truth).ravel()))


def _apart(found: Estimate | Answers | ArrayLike, truth: ArrayLike) -> Floats:
    """The difference in shares."""
    true = _numbers(truth, "truth")
    if not np.isfinite(true).all() or np.any(true < 0) or not true.sum() > 0:
        raise QuestionError(
            "truth must hold finite numbers of people or shares, zero or more and not all zero"
        )
    shares = _shares(found)
    if shares.shape != true.shape and not shares.size == true.size == max(true.shape):
        raise QuestionError(
            f"truth must have one entry per cell, shape {shares.shape}, got shape {true.shape}"
        )
    result: Floats = shares.ravel() - true.ravel() / true.sum()
    return result


def _shares(found: Estimate | Answers | ArrayLike) -> Floats:
    """Shares of all people; those of an array are normalised to the sum one."""
    if isinstance(found, Estimate):
        found = distribution(found)
    if isinstance(found, Answers):
        if found.kind not in ("histogram", "heatmap") or found.question:
            raise QuestionError(
                f"found must be a histogram or heat map of everybody, and this is a {found.kind}"
                + (f" where {found.question}" if found.question else "")
            )
        return found.values if found.unit == "fraction" else found.values / found.n
    array = _numbers(found, "found")
    if not np.isfinite(array).all() or not array.sum() > 0:
        raise QuestionError("found must hold finite numbers with a sum above zero")
    shares: Floats = array / array.sum()
    return shares


def _numbers(given: ArrayLike, what: str) -> Floats:
    """Numbers as an array of one dimension or more."""
    rule = "numbers, one per cell"
    array = numbers(given, what, rule, error=QuestionError)
    if array.ndim == 0:
        raise QuestionError(f"{what} must be {rule}, got {shown(given)}")
    return array
