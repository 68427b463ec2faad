"""The recommended number of bins is the best, by brute force."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.planning.bins import binned, fine_laws, perturbation, prorating


def brute_force_total(bins: int, law: Any, n: int, protect: sf.Distance) -> tuple[float, float]:
    """Mean squared errors over ranges from a grid of ends, noise and rounding by their meaning."""
    axis = sf.reals("x", 0, 100, bins=bins, protect=protect)
    channel = sf.Study("s", [axis]).channels[0]
    ends = (np.arange(90) + 0.5) / 90 * 100
    rng = np.random.default_rng(1)
    fine = np.linspace(0, 100, len(law) + 1)
    people = np.histogram((fine[:-1] + fine[1:]) / 2, bins=bins, range=(0, 100), weights=law)[0]
    rows, pairs = [], list(itertools.combinations(ends, 2))
    for low, high in pairs:
        rows.append(axis.domain.interval(float(low), float(high), axis="x")[0])
    table = np.array(rows)
    noise = np.mean((channel.second_moment(table) - table**2) @ people) / n
    squares = []
    for _ in range(30):
        values = rng.choice((fine[:-1] + fine[1:]) / 2, size=n, p=law)
        upto = np.searchsorted(np.sort(values), ends, side="right")
        cells = np.histogram(values, bins=bins, range=(0, 100))[0]
        first, second = np.triu_indices(len(ends), 1)
        squares.append(np.mean((table @ cells - (upto[second] - upto[first])) ** 2) / n**2)
    return float(noise), float(np.mean(squares))


@pytest.mark.slow
def test_recommended_bins_are_the_best_by_brute_force() -> None:
    law = fine_laws([1, 2, 6, 12, 8, 4, 3, 9, 5, 1])[0][0]
    protect = sf.Distance(1.0, per=8)
    n = 20_000
    tried = (4, 8, 16, 32, 64)
    plan = sf.plan_bins(0, 100, protect, n, prior=[1, 2, 6, 12, 8, 4, 3, 9, 5, 1], grid=tried)
    totals = {}
    for row in plan:
        noise, rounding = brute_force_total(row.bins, law, n, protect)
        # Different ends: the pairs of a finite grid leave out the diagonal, a share of 1/90.
        assert row.perturbation**2 == pytest.approx(noise, rel=0.04)
        assert row.rounding**2 == pytest.approx(rounding, rel=0.15)
        totals[row.bins] = noise + rounding
    assert plan.bins == min(totals, key=totals.__getitem__)
    assert plan.bins not in (4, 64)


@pytest.mark.slow
def test_more_people_and_more_epsilon_ask_for_more_bins() -> None:
    weak = sf.plan_bins(0, 1, sf.Distance(1.0, per=0.1), 1_000).bins
    many = sf.plan_bins(0, 1, sf.Distance(1.0, per=0.1), 1_000_000).bins
    strong = sf.plan_bins(0, 1, sf.Distance(4.0, per=0.1), 1_000).bins
    assert weak < many
    assert weak < strong


def test_prorating_is_chance_alone_where_people_are_spread_evenly() -> None:
    law = fine_laws("flat")[0][0]
    # Each end cuts a bin at a place θ: n·p·θ(1 − θ) has the mean n·p/6, p = 1/bins.
    assert prorating(law, 16, 1_000, None) == pytest.approx(2 / (6 * 16 * 1_000), rel=1e-3)


def test_ranges_of_one_width_are_asked_at_every_place() -> None:
    law = fine_laws("hills")[0][0]
    axis = sf.reals("x", 0, 1, bins=12, protect=sf.Distance(1.0, per=0.1))
    channel = sf.Study("s", [axis]).channels[0]
    low = (np.arange(2_000) + 0.5) / 2_000 * 0.7
    rows = np.array([axis.domain.interval(a, a + 0.3, axis="x")[0] for a in low.tolist()])
    brute = np.mean((channel.second_moment(rows) - rows**2) @ binned(law, 12))
    assert perturbation(channel, law, 0.3) == pytest.approx(float(brute), rel=1e-3)


def test_bins_for_likelihood_answers_are_simulated() -> None:
    plan = sf.plan_bins(
        0, 1, sf.Distance(1.0, per=0.1), 2_000, method="likelihood", grid=(2, 16, 32), prior="hills"
    )
    assert plan.method == "likelihood"
    assert [row.bins for row in plan] == [16, 32]  # rounding alone rules out 2
    assert plan.best.total == min(row.total for row in plan)
