"""Exact mean squared error of random ranges for several methods under the same guarantee."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import sfumato as sf
from benchmarks.recording import Measurement, progress

RANGES = 1_000
CHOICES: dict[str, Any] = {
    "published": sf.Thermometer("published"),
    "thermometer": sf.Thermometer(),
    "geometric": sf.Geometric(),
}


def measure() -> Measurement:
    """Σ_x p(x)·(Π_d E[f_d² | x_d] − w(x)), averaged over ranges; p is a product over axes."""
    rows = []
    for size in (64, 256):
        progress(f"m = {size}")
        for spread in ("uniform", "zipf"):
            for epsilon in (0.1, 0.2, 0.5, 1.0, 2.0):
                found = {name: _moments(name, size, spread, epsilon) for name in CHOICES}
                for dimensions in (1, 2, 3):
                    rows.append(_row(size, spread, epsilon, dimensions, found))
    return Measurement(
        f"variance a person over {RANGES:,} random ranges, exact; ratios for equal guarantees",
        rows,
        ["published: Xiang et al. 2020 as printed; zipf: shares 1/rank^1.1, axes independent."],
    )


def _moments(name: str, size: int, spread: str, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """For three axes, a row each: every range's mean of f² and of w over the population."""
    axis = sf.integers("a", 0, size - 1, protect=sf.Distance(epsilon), channel=CHOICES[name])
    channel = sf.Study("error", [axis]).channels[0]
    share = 1.0 / np.arange(1, size + 1) ** (1.1 if spread == "zipf" else 0.0)
    share /= share.sum()
    rng = np.random.default_rng(size)
    cells = np.arange(size)
    second, mean = [], []
    for _ in range(3):
        ends = np.sort(rng.integers(0, size, (RANGES, 2)), axis=1)
        rows = ((ends[:, :1] <= cells) & (cells <= ends[:, 1:])).astype(np.float64)
        moments = channel.second_moment(rows)
        second.append(moments @ share)
        mean.append(rows @ share)
    return np.array(second), np.array(mean)


def _row(
    size: int,
    spread: str,
    epsilon: float,
    dimensions: int,
    found: dict[str, tuple[np.ndarray, np.ndarray]],
) -> dict[str, Any]:
    """Variances per person and their ratios."""
    error = {
        name: float(np.mean(np.prod(m[:dimensions], axis=0) - np.prod(w[:dimensions], axis=0)))
        for name, (m, w) in found.items()
    }
    return {
        "m": size,
        "D": dimensions,
        "ε": epsilon,
        "people": spread,
        **error,
        "published/geometric ×": error["published"] / error["geometric"],
        "thermometer/geometric ×": error["thermometer"] / error["geometric"],
        "RMSE of a share, n = 100,000, geometric": math.sqrt(error["geometric"] / 100_000),
    }
