"""The variance of an axis' numbers: its value, and the error to first order."""

from __future__ import annotations

import numpy as np
import pytest

import sfumato as sf
from sfumato.estimation.unbiased import UnbiasedEstimate

CELLS = 12
NUMBERS = np.arange(CELLS, dtype=float)


def study() -> sf.Study:
    return sf.Study(
        "v",
        [
            sf.integers("x", 0, CELLS - 1, protect=sf.Distance(1.0), channel=sf.Geometric()),
            sf.categories("g", ["a", "b"], protect=sf.Uniform(2.0)),
        ],
    )


def test_it_is_the_second_moment_less_the_squared_mean() -> None:
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 400, size=(CELLS, 2))
    est = study().simulate_counts(counts, seed=4).estimate("unbiased")
    first, second = (
        float(est.linear(np.repeat(NUMBERS**power, 2)).values[0]) / est.n for power in (1, 2)
    )
    assert est.variance("x").value == pytest.approx(second - first**2, rel=1e-9)


def test_its_error_is_that_of_squared_distances_from_the_mean() -> None:
    counts = np.full((CELLS, 2), 50)
    est = study().simulate_counts(counts, seed=5).estimate("unbiased")
    centre = est.mean("x").value
    linear = est.linear(np.repeat((NUMBERS - centre) ** 2, 2))
    assert est.variance("x").stderr == pytest.approx(float(linear.stderr[0]) / est.n, rel=1e-9)


@pytest.mark.slow
def test_simulated_variances_spread_as_reported() -> None:
    counts = np.zeros((CELLS, 2), dtype=int)
    counts[2:9] = 300
    held = counts.sum(axis=1)
    centre = (held * NUMBERS).sum() / held.sum()
    truth = (held * (NUMBERS - centre) ** 2).sum() / held.sum()
    runs = 400
    found = [
        study().simulate_counts(counts, seed=seed).estimate("unbiased").variance("x")
        for seed in range(runs)
    ]
    z = np.array([(answer.value - truth) / answer.stderr for answer in found])
    # The mean of z errs by 1/√runs, its variance by about √(2/runs): four of each.
    assert abs(z.mean()) < 4 / np.sqrt(runs)
    assert abs(z.var() - 1) < 4 * np.sqrt(2 / runs)
    assert abs((z / 0.7).var() - 1) > 4 * np.sqrt(2 / runs)  # the twin: errors 30 % too small


def test_a_condition_and_both_methods_and_bad_axes() -> None:
    counts = np.zeros((CELLS, 2), dtype=int)
    counts[3, 0], counts[9, 0], counts[5, 1] = 4000, 4000, 8000
    tally = study().simulate_counts(counts, seed=1)
    for method in ("unbiased", "likelihood"):
        answer = tally.estimate(method).variance("x", where="g=a")
        assert answer.low < 9.0 < answer.high
        assert answer.question == "variance of x where g=a"
    assert isinstance(tally.estimate("unbiased"), UnbiasedEstimate)
    with pytest.raises(sf.QuestionError, match="have no variance"):
        tally.estimate().variance("g")
