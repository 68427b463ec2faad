"""Half-widths of many sums of noise at once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import sfumato as sf
from sfumato import central
from sfumato.central.measurements import Measurements, quick_reaches
from sfumato.randomness.laplace import sum_quantile

# Intervals


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_many_intervals_at_once_are_hardly_wider_than_exact_ones(level: float) -> None:
    rng = np.random.default_rng(2)
    sums = [rng.exponential(size=k) ** power for k in (1, 2, 5, 30) for power in (0.2, 1, 3)]
    scales = np.zeros((len(sums), 30))
    for place, row in enumerate(sums):
        scales[place, : len(row)] = row
    rate = Fraction(1, 1000)  # so fine a lattice that the noise is continuous
    exact = np.array([sum_quantile(row * float(rate), [rate] * len(row), level) for row in sums])
    found = quick_reaches(scales, level)
    spread = np.sqrt(2 * (scales**2).sum(axis=1))
    assert (found >= exact - 0.005 * spread).all()  # the exact ones are up to 0.4 % too wide
    assert (found <= exact * 1.03).all()


def test_intervals_of_many_questions_agree_with_those_of_few() -> None:
    study = sf.Study("line", [sf.integers("x", 0, 29, protect=sf.Distance("1/2"))])
    space = central.Space(study, "1/8")
    many = central.Laplace("ranges of x", "hierarchical").prepare(space, 100)
    some = [0, 17, 200, 464]
    reading = many.design.reading
    assert reading is not None
    exact = many.design.measurements.reaches(reading[some][:, :-1], 0.95)
    assert (many.reach[some] >= exact * 0.999).all()
    assert (many.reach[some] <= exact * 1.05).all()


def test_quick_intervals_of_coarse_noise_are_never_too_narrow() -> None:
    """Beside the exact quantile of sums in whole steps, whose noise is a few steps wide at most."""
    rng = np.random.default_rng(1)
    rates = tuple(Fraction(int(rate), 4) for rate in rng.integers(2, 16, 6))
    rows = rng.integers(0, 4, (300, 6)).astype(float)
    rows[:, 0] += 1
    measured = Measurements(sf.questions.Lattice.of(np.eye(6)), rates)
    found = measured.reaches(rows, 0.95)
    exact = np.array([sum_quantile(row, rates, 0.95) for row in rows])
    assert (found >= exact).all()
    # Half a step is not too much: without it some would be too narrow.
    assert (found - rows.max(axis=1) / 2 < exact).any()
    assert np.median(found / exact) < 1.25
