"""Expectation and maximisation against closed forms, longer runs and its own bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers_decoding import hump, line, noiseless, reports, thermometer_tally

import sfumato as sf
from sfumato.estimation.decoding.em import decode
from sfumato.estimation.decoding.mixture import Mixture, SymbolMixture, mixture_of

PROBLEMS: dict[str, Mixture] = {
    "hump": reports([line(30, 0.5)], hump(30), 20_000, seed=11),
    "spikes": reports([line(30, 0.3)], np.eye(30)[[3, 17]].mean(axis=0), 5_000, seed=12),
    "plane": reports([line(9, 0.7), line(8, 0.4)], np.outer(hump(9), hump(8)), 9_000, seed=13),
    "bits": mixture_of((t := thermometer_tally(6, 800)).statistic, t.study.blocks, [0]),
}


@pytest.mark.parametrize("accelerate", [True, False])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_likelihood_never_falls(name: str, accelerate: bool) -> None:
    trace: list[float] = []
    found = decode(PROBLEMS[name], accelerate=accelerate, most_steps=400, trace=trace)
    assert len(trace) > 20
    # A sum of n logarithms is known to about n roundings.
    assert np.all(np.diff(trace) >= -1e-13 * abs(trace[-1]) * len(trace))
    assert trace[-1] > trace[0]
    assert found.log_likelihood == trace[-1]
    assert found.law.sum() == pytest.approx(1.0, abs=1e-12)
    assert found.law.min() >= 0


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_gap_bounds_the_distance_to_the_best_likelihood(name: str) -> None:
    """A much longer accelerated run gains no more than the short run's bound."""
    long = decode(PROBLEMS[name], tolerance=1e-14, most_steps=4_000)
    for steps in (1, 5, 20, 200):
        short = decode(PROBLEMS[name], tolerance=0.0, most_steps=steps, accelerate=False)
        assert short.steps == steps
        assert long.log_likelihood - short.log_likelihood <= short.gap
        assert short.gap < PROBLEMS[name].counts.sum() * math.prod(PROBLEMS[name].shape)
    assert long.gap < short.gap


def test_acceleration_reaches_the_same_maximum() -> None:
    mixture = reports([line(12, 1.5)], hump(12), 10_000, seed=14)
    plain = decode(mixture, tolerance=1e-12, most_steps=100_000, accelerate=False)
    fast = decode(mixture, tolerance=1e-12, most_steps=100_000)
    assert plain.converged
    assert fast.converged
    assert fast.steps < plain.steps
    np.testing.assert_allclose(fast.law, plain.law, atol=1e-9)
    assert abs(fast.log_likelihood - plain.log_likelihood) <= fast.gap + plain.gap + 1e-8


@pytest.mark.parametrize(("yes", "share"), [(700, None), (100, 0.0), (990, 1.0)])
def test_two_cells_have_the_textbook_solution(yes: int, share: float | None) -> None:
    """Randomised response: (share of yes − q)/(1 − 2q), and at the border where that is outside."""
    axis = sf.categories("c", ["no", "yes"], protect=sf.Uniform(1.2))
    channel = sf.Study("coin", [axis]).channels[0]
    q = float(channel.likelihood()[0, 1])
    mixture = SymbolMixture.of([channel], np.array([1_000.0 - yes, yes]))
    found = decode(mixture, tolerance=1e-13, most_steps=200_000)
    exact = (yes / 1_000 - q) / (1 - 2 * q) if share is None else share
    assert found.law[1] == pytest.approx(exact, abs=1e-6)


def test_reports_as_a_law_has_them_give_that_law_back() -> None:
    law = np.array([0.5, 0.2, 0.3])
    found = decode(noiseless([line(3, 1.0)], law, 5_000), tolerance=1e-14, most_steps=100_000)
    np.testing.assert_allclose(found.law, law, atol=1e-8)
    assert found.gap < 1e-6


def test_large_grids_say_that_they_stopped_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.estimation.decoding.em._MOST_WORK", 150 * 30)
    told: list[float] = []
    found = decode(PROBLEMS["hump"], tolerance=0.0, accelerate=False, progress=told.append)
    assert found.steps == 150
    assert not found.converged
    assert told[-1] == 1.0
    assert told == sorted(told)
