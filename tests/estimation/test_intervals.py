"""Intervals hold cell by cell: the dominant, the median and the emptiest, each for itself.

A cell is rejected if so few of its intervals hold the truth that a coverage of 93 % would give so
few with a chance below SIGNIFICANCE; with RUNS = 300 runs these are 87 % and less. The twin shrinks
every interval to SHRUNK of its length: intervals of 95 % then hold the truth with chance
2·Φ(0.6·1.96) − 1 = 76 %, which 300 runs bring above 87 % once in a million times. `make soak`
measures all settings by both methods with 2,000 runs each.
"""

from __future__ import annotations

import pytest
from helpers_coverage import SETTINGS, Setting, measure

RUNS, SIGNIFICANCE, SHRUNK, DEVIATIONS = 300, 1e-4, 0.6, 4.0
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
def test_shorter_intervals_are_found_out() -> None:
    setting = next(one for one in SETTINGS if one.name == "uniform, 40 people")
    found = measure(setting, "unbiased", runs=RUNS, seed=SEED, scale=SHRUNK)
    assert all(figures.too_low(SIGNIFICANCE) for figures in found.values())


@pytest.mark.slow
def test_longer_intervals_are_found_out() -> None:
    setting = next(one for one in SETTINGS if one.name == "uniform, 40 people")
    found = measure(setting, "unbiased", runs=RUNS, seed=SEED, scale=2.0)
    assert found["dominant"].too_wide(DEVIATIONS)
