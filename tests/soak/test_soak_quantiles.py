"""Quantiles and bands with fresh people and fresh noise, many times: `make soak`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers_statistics import LIMIT, collections
from scipy.special import ndtr, ndtri

import sfumato as sf

pytestmark = pytest.mark.soak

SHRUNK = float(2 * ndtr(0.7 * ndtri(0.975)) - 1)
LINES = {"geometric": sf.Geometric(), "thermometer": sf.Thermometer()}


def _people(size: int, count: int, seed: int) -> Any:
    lean = np.random.default_rng(seed).beta(2, 2, count)
    return np.minimum((lean * size).astype(np.int64), size - 1)


@pytest.mark.parametrize("method", ["unbiased", "likelihood"])
@pytest.mark.parametrize("channel", LINES)
def test_quantiles_at_boundaries(
    method: str, channel: str, seed: int, record_property: Callable[[str, Any], None]
) -> None:
    """97.5 % of intervals hold a quantile at a boundary, 91.5 % with errors scaled by 0.7."""
    if (method, channel) == ("likelihood", "thermometer"):
        pytest.skip("decoding bits anew in every run takes hours")
    runs = 10_000 if method == "unbiased" else 600
    axis = sf.integers("a", 0, 7, protect=sf.Distance(2.0), channel=LINES[channel])
    study = sf.Study("soak", [axis])
    people = _people(8, 2_048, seed)
    cdf = np.cumsum(np.bincount(people, minlength=8)) / len(people)
    shares, truth = cdf[2:5].tolist(), np.arange(2, 5)
    full, shrunk = [], []
    for tally in collections(study, {"a": people}, runs=runs, seed=seed):
        estimate = tally.estimate(method=method)
        for kept, level in ((full, 0.95), (shrunk, SHRUNK)):
            found = estimate.quantile("a", shares, level=level)
            kept.append((found.low <= truth) & (truth <= found.high))
    record_property("covered", np.mean(full, axis=0).tolist())
    least = 0.975 - (LIMIT + 1) * math.sqrt(0.975 * 0.025 / runs) - 0.003
    assert np.all(np.mean(full, axis=0) > least)
    assert np.mean(shrunk) < least


@pytest.mark.parametrize("method", ["unbiased", "likelihood"])
@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0])
def test_quantiles_of_fine_axes(
    method: str, epsilon: float, seed: int, record_property: Callable[[str, Any], None]
) -> None:
    runs = 1_000 if method == "unbiased" else 100
    axis = sf.integers("a", 0, 59, protect=sf.Distance(epsilon), channel=sf.Geometric())
    people = _people(60, 8_192, seed)
    shares = np.arange(1, 20) / 20
    truth = np.quantile(people, shares, method="inverted_cdf")
    hits = []
    for tally in collections(sf.Study("soak", [axis]), {"a": people}, runs=runs, seed=seed):
        found = tally.estimate(method=method).quantile("a", shares)
        hits.append((found.low <= truth) & (truth <= found.high))
    record_property("covered", float(np.mean(hits)))
    assert np.mean(hits) >= 0.93


@pytest.mark.parametrize("kind", ["cdf", "histogram"])
@pytest.mark.parametrize("channel", LINES)
def test_bands_hold_jointly(
    kind: str, channel: str, seed: int, record_property: Callable[[str, Any], None]
) -> None:
    runs, size = 4_000, 20
    axis = sf.integers("a", 0, size - 1, protect=sf.Distance(1.0), channel=LINES[channel])
    people = _people(size, 4_096, seed)
    counts = np.bincount(people, minlength=size)
    truth = np.cumsum(counts) / len(people) if kind == "cdf" else counts
    hits = []
    for tally in collections(sf.Study("soak", [axis]), {"a": people}, runs=runs, seed=seed):
        answers = getattr(tally.estimate(method="unbiased"), kind)("a")
        hits.append(
            [
                np.all((part.low <= truth + 1e-9) & (truth - 1e-9 <= part.high))
                for part in (answers.band(), answers)
            ]
        )
    banded, pointwise = np.mean(hits, axis=0)
    record_property("covered", [float(banded), float(pointwise)])
    off = (LIMIT + 1) * math.sqrt(0.95 * 0.05 / runs) + 0.007
    assert abs(banded - 0.95) < off
    assert pointwise < 0.95 - 2 * off
