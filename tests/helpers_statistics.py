"""What statistical tests share: exact variances, repeated collections, and derived tolerances.

The rule of all sampled tests: a figure is compared with its exact expectation in units of its own
standard error, and LIMIT of those is too much. A true normal figure is beyond 4 standard errors
once in 15,800 times; seeds are fixed, so a test that passes once passes always. A twin of each
test shifts the expectation by a stated amount that is at least 2 × LIMIT standard errors, so
that it is missed as rarely as the test fails by accident.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import sfumato as sf
from sfumato.channels.base import Channel
from sfumato.questions.language import weights

Floats = NDArray[np.float64]

LIMIT = 4.0
RUNS = 2_000
# A multiple of 64, so that the reports of one run are whole words of packed bits.
PEOPLE = 2_048


def exact_variance(
    channels: Sequence[Channel], asked: Sequence[ArrayLike | None], counts: ArrayLike
) -> float:
    """Σ_x c(x)·(Π_d E[f_d² | x_d] − w(x)²), by brute force over all cells.

    An axis not asked about has weight one everywhere and adds no noise.
    """
    people = np.asarray(counts, dtype=np.float64)
    moment = square = np.ones(())
    for channel, w in zip(channels, asked, strict=True):
        one = w is None
        given = np.ones(channel.size) if w is None else np.asarray(w, dtype=np.float64)
        moment = np.multiply.outer(moment, given if one else channel.second_moment(given))
        square = np.multiply.outer(square, given**2)
    return float(np.sum(people * (moment - square)))


def exact_count(asked: Sequence[ArrayLike | None], counts: ArrayLike) -> float:
    """Σ_x c(x)·Π_d w_d(x_d)."""
    result = np.asarray(counts, dtype=np.float64)
    for axis, w in enumerate(asked):
        if w is not None:
            shape = [1] * result.ndim
            shape[axis] = -1
            result = result * np.reshape(w, shape)
    return float(result.sum())


def histogram(study: sf.Study, cells: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """People in each cell of all axes."""
    counts = np.zeros(study.shape, dtype=np.int64)
    np.add.at(counts, tuple(cells), 1)
    return counts


def mean_score(sample: ArrayLike, expected: float, variance: float | None = None) -> float:
    """How many standard errors a mean is off; the variance is the sample's own unless it is known.

    The standard error of a mean of N values is √(variance/N).
    """
    values = np.asarray(sample, dtype=np.float64)
    spread = float(values.var(ddof=1)) if variance is None else variance
    return float((values.mean() - expected) / math.sqrt(spread / len(values)))


def variance_stderr(sample: ArrayLike) -> float:
    """The standard error of a sample variance: √((μ4 − μ2²)/N), with the sample's moments.

    For a normal sample μ4 = 3·μ2², which gives the familiar μ2·√(2/N).
    """
    values = np.asarray(sample, dtype=np.float64)
    off = values - values.mean()
    return math.sqrt(float(np.mean(off**4) - np.mean(off**2) ** 2) / len(values))


def variance_score(sample: ArrayLike, expected: float) -> float:
    """How many standard errors a sample variance is off."""
    values = np.asarray(sample, dtype=np.float64)
    return float((values.var(ddof=1) - expected) / variance_stderr(values))


def share_score(hits: int, runs: int, chance: float) -> float:
    """How many standard errors √(p(1 − p)/N) a share of successes is off."""
    return (hits / runs - chance) / math.sqrt(chance * (1 - chance) / runs)


def share_covered(
    values: ArrayLike, stderr: ArrayLike, truth: float, *, scale: float = 1.0, level: float = 0.95
) -> float:
    """The share of intervals, their standard errors scaled, that hold the truth."""
    reach = scale * sf.Answer(value=0.0, stderr=1.0, n=1, level=level).high
    off = np.abs(np.asarray(values, dtype=np.float64) - truth)
    return float(np.mean(off <= reach * np.asarray(stderr, dtype=np.float64)))


def collections(
    study: sf.Study, people: Mapping[str, Any], *, runs: int, seed: int
) -> Iterator[sf.Tally]:
    """The same people asked again and again, each time with fresh noise: one tally a run.

    All runs are encoded a few at a time and cut apart, which is much faster than one by one.
    """
    count = len(next(iter(people.values())))
    at_once = max(1, (1 << 18) // count)
    bits = sf.SeededBits(seed)
    for start in range(0, runs, at_once):
        now = min(at_once, runs - start)
        table = {name: np.tile(np.asarray(column), now) for name, column in people.items()}
        reports = study.encode(table, bits=bits)
        for run in range(now):
            yield study.tally(reports[run * count : (run + 1) * count])


def ask_all(
    study: sf.Study, tallies: Iterator[sf.Tally], questions: Sequence[Any], population: bool = False
) -> tuple[Floats, Floats]:
    """Values and standard errors of every question in every run, each (runs, questions).

    Questions are read once and put to each estimate as `count` does it, which the first run checks.
    """
    read = [weights(study.axes, question) for question in questions]
    values, errors = [], []
    for tally in tallies:
        estimate = tally.estimate("unbiased")
        values.append([estimate.value_of(asked) for asked in read])
        variances = [estimate.covariance_of(a, a, population=population) for a in read]
        errors.append(np.sqrt(np.maximum(variances, 0.0)))
        if len(values) == 1:
            answers = [estimate.count(asked, population=population) for asked in questions]
            assert np.allclose([answer.value for answer in answers], values[0], rtol=1e-9)
            assert np.allclose([answer.stderr for answer in answers], errors[0], rtol=1e-9)
    return np.array(values), np.array(errors)


def zipf(size: int, exponent: float = 1.1) -> Floats:
    """Shares in proportion to 1/rank^exponent."""
    share = 1.0 / np.arange(1, size + 1) ** exponent
    return share / share.sum()


def random_ranges(size: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Closed intervals of cells between two uniform ends, sorted: shape (count, 2)."""
    return np.sort(rng.integers(0, size, (count, 2)), axis=1)


def range_weights(ranges: NDArray[np.int64], size: int) -> Floats:
    """One row of 0/1 weights a range."""
    cells = np.arange(size)
    return ((ranges[:, :1] <= cells) & (cells <= ranges[:, 1:])).astype(np.float64)
