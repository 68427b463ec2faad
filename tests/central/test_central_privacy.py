"""Noise on a lattice: privacy by formula and by exact sums, for every table of few people."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from helpers_central import flat, line, moves, tables

import sfumato as sf
from sfumato.central.laplace import Laplace, PreparedLaplace
from sfumato.central.space import Space
from sfumato.exact import at_most_exp, exp_bounds

SPACES = {"flat": flat(3, 1), "line": line(3, 0.5, "1/3"), "weak": line(3, 4)}
ROWS = sf.questions.Given([[1, 0, 0], [1, 1, 0], [0, 0.5, 0.25]])


def tail(rate: Fraction, least: int, bits: int = 256) -> tuple[Fraction, Fraction]:
    """Bounds on P(z ≥ least) of discrete Laplace noise, α^k/(1+α) for k > 0, in rationals."""
    if least <= 0:
        low, high = tail(rate, 1 - least)
        return 1 - high, 1 - low
    one = 1 << bits
    low_e, high_e = exp_bounds(rate, bits)
    low_p, high_p = exp_bounds(rate * least, bits)
    # α^k/(1 + α) = e^rate/(e^(rate·k)·(1 + e^rate)), which grows with e^rate.
    return (
        Fraction(low_e * one, high_p * (one + low_e)),
        Fraction(high_e * one, low_p * (one + high_e)),
    )


def noisy_rates(prepared: PreparedLaplace) -> list[Fraction]:
    rates = prepared.design.measurements.rates
    assert all(rates)
    return [Fraction(rate) for rate in rates if rate is not None]


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())
@pytest.mark.parametrize("strategy", ["questions", "identity", "prefix"])
def test_lattice_noise_keeps_every_distance_by_formula(space: Space, strategy: str) -> None:
    """log P(o | x) − log P(o | x′) = Σ_k rate_k·(|o − a′_k| − |o − a_k|), a rational number."""
    prepared = Laplace(ROWS, strategy).prepare(space, 3)
    measured = prepared.design.measurements
    rates = [rate or Fraction(0) for rate in measured.rates]
    spent = []
    for counts in tables(3, 3):
        here = measured.lattice.totals(counts).tolist()
        for i, j, moved in moves(counts):
            there = measured.lattice.totals(moved).tolist()
            distance = space.exact(i, j)
            assert distance is not None
            # Outputs at and beyond both ends; in between the difference is between those.
            worst = sum(
                max(rate * (abs(o - b) - abs(o - a)) for o in (a, b, a + 50, a - 50))
                for rate, a, b in zip(rates, here, there, strict=True)
            )
            assert worst <= distance
            spent.append(worst / distance)
    assert max(spent) > 1 - Fraction(1, 10**6)  # all that may be spent is spent somewhere


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())
def test_events_keep_every_distance_by_exact_sums(space: Space) -> None:
    """P(first ≥ s, second ≥ t, third ≥ u), summed in rationals, for all tables and thresholds."""
    prepared = Laplace(ROWS, "questions").prepare(space, 2)
    measured, rates = prepared.design.measurements, noisy_rates(prepared)
    thresholds = (-3, 0, 1, 4)
    grids = np.array(np.meshgrid(*[thresholds] * 3)).reshape(3, -1).T.tolist()
    for counts in tables(3, 2):
        here = measured.lattice.totals(counts).tolist()
        for i, j, moved in moves(counts):
            there = measured.lattice.totals(moved).tolist()
            distance = space.exact(i, j)
            assert distance is not None
            for event in grids:
                upper, lower = Fraction(1), Fraction(1)
                for rate, a, b, t in zip(rates, here, there, event, strict=True):
                    upper *= tail(rate, t - a)[1]
                    lower *= tail(rate, t - b)[0]
                assert at_most_exp(upper / lower, distance + Fraction(1, 2**200))


def test_exact_sums_are_those_of_the_law() -> None:
    """The helper above against direct summation, and a rate 5 % off would be seen."""
    with mp.workdps(40):
        for rate, least in ((Fraction(1, 3), 4), (Fraction(1, 3), -2), (Fraction(2), 0)):
            alpha = mp.exp(-mp.mpf(rate.numerator) / rate.denominator)
            law = (1 - alpha) / (1 + alpha)
            direct = law * mp.nsum(lambda z, a=alpha: a ** abs(z), [least, mp.inf])
            low, high = tail(rate, least)
            assert float(low) <= float(direct) * (1 + 1e-12)
            assert float(high) >= float(direct) * (1 - 1e-12)
            assert high - low < Fraction(1, 2**200)
            other = tail(rate * Fraction(105, 100), least)
            assert not other[0] <= (low + high) / 2 <= other[1]
