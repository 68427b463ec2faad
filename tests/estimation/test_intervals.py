"""Intervals hold cell by cell: the dominant, the median and the emptiest, each for itself.

A cell is rejected if so few of its intervals hold the truth that a coverage of 93 % would give so
few with a chance below SIGNIFICANCE; with RUNS = 300 runs these are 87 % and less. The twin shrinks
every interval to SHRUNK of its length. With few people, intervals are up to 1.15 × 1.96 standard
errors long each way; they then hold the truth with chance 2·Φ(0.5·1.15·1.96) − 1 = 74 %, which
300 runs bring above 87 % once in a million times. `make soak` measures all settings by both methods
with 2,000 runs each.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers_coverage import (
    DETERMINED,
    FEW,
    ROUNDED,
    SETTINGS,
    WEIGHTED,
    Questions,
    Setting,
    measure,
)

import sfumato as sf

RUNS, SIGNIFICANCE, SHRUNK, DEVIATIONS = 300, 1e-4, 0.5, 4.0
SEED = 93
PULLED = {"uniform, 40 people", "uniform, everyone in one of 50"}
QUICK = [setting for setting in SETTINGS if setting.counts.sum() <= 5_000]


@pytest.mark.slow
@pytest.mark.parametrize("setting", QUICK, ids=lambda setting: setting.name)
def test_unbiased_intervals_hold_cell_by_cell(setting: Setting) -> None:
    for name, figures in measure(setting, "unbiased", runs=RUNS, seed=SEED).items():
        assert not figures.too_low(SIGNIFICANCE), (name, figures)
        assert not figures.too_wide(DEVIATIONS), (name, figures)


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting", [one for one in QUICK if one.name in PULLED], ids=lambda setting: setting.name
)
def test_likelihood_intervals_hold_where_the_prior_pulls(setting: Setting) -> None:
    for name, figures in measure(setting, "likelihood", runs=RUNS, seed=SEED).items():
        assert not figures.too_low(SIGNIFICANCE), (name, figures)


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting", [*FEW[:2], ROUNDED[0], *WEIGHTED], ids=lambda setting: setting.name
)
def test_intervals_hold_among_few_people_with_rounding_and_with_weights(
    setting: Questions,
) -> None:
    for name, figures in measure(setting, "unbiased", runs=RUNS, seed=SEED).items():
        assert not figures.too_low(SIGNIFICANCE), (name, figures)
        assert not figures.too_wide(DEVIATIONS), (name, figures)


@pytest.mark.slow
def test_a_rare_label_among_60_people_is_held_under_high_low() -> None:
    """Coverage was 81 to 90 in 100 in these cells."""
    labels = [f"label {number}" for number in range(6)]
    for epsilon, sensitive in ((0.5, labels[3:]), (1.0, labels[:3]), (3.0, labels[:3])):
        axis = sf.categories("x", labels, protect=sf.HighLow(epsilon, sensitive))
        counts = np.array([20, 20, 10, 6, 4, 0])
        cells = {f"cell {cell}": cell for cell in range(6)}
        found = measure(Setting("rare", axis, counts, cells), "unbiased", runs=500, seed=SEED)
        for name, figures in found.items():
            assert not figures.too_low(SIGNIFICANCE), (epsilon, name, figures)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["40 alike", "200 in blocks", "60 high and low"])
def test_likelihood_intervals_hold_and_are_no_longer_than_their_error(name: str) -> None:
    setting = next(one for one in DETERMINED if one.name == name)
    for cell, figures in measure(setting, "likelihood", runs=RUNS, seed=SEED).items():
        assert not figures.too_low(SIGNIFICANCE), (cell, figures)
        assert not figures.too_wide(DEVIATIONS), (cell, figures)


@pytest.mark.slow
def test_shorter_intervals_are_found_out() -> None:
    setting = next(one for one in SETTINGS if one.name == "uniform, 40 people")
    found = measure(setting, "unbiased", runs=RUNS, seed=SEED, scale=SHRUNK)
    assert all(figures.too_low(SIGNIFICANCE) for figures in found.values())


@pytest.mark.slow
def test_longer_intervals_are_found_out() -> None:
    setting = next(one for one in SETTINGS if one.name == "uniform, 40 people")
    found = measure(setting, "unbiased", runs=RUNS, seed=SEED, scale=2.0)
    assert found["dominant"].too_wide(DEVIATIONS)


@pytest.mark.parametrize("seed", [13704340300329408574, 5190189305036183308])
def test_the_interval_of_a_ratio_is_read_in_one_way(seed: int) -> None:
    # Near this ratio the decoding is more certain of some sums and the unbiased estimate of others:
    # variances of both kinds are no quadratic form, and their interval had no end.
    (spread,) = (one for one in FEW if one.name.startswith("25 of 325 in the condition, spread"))
    for method in ("likelihood", "unbiased"):
        _, low, high = spread.ask(spread.tally(seed).estimate(method))
        assert np.isfinite(low).all(), method
        assert np.isfinite(high).all(), method
