"""What smoothness leaves out, against matrices written out, quadrature and simulated people."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers_decoding import (
    explicit_information,
    explicit_precision,
    humps,
    law_of,
    line,
    reports,
    whitened,
)
from helpers_statistics import LIMIT
from numpy.typing import NDArray

from sfumato.estimation.decoding import doubt as doubt_module
from sfumato.estimation.decoding.doubt import UNSEEN, Doubt, _log_between, _mean_variance
from sfumato.estimation.decoding.field import Field, Strengths
from sfumato.estimation.decoding.fitting import Fit, fit
from sfumato.estimation.decoding.heaps import Heaps
from sfumato.estimation.decoding.mixture import Mixture
from sfumato.estimation.decoding.standing_out import StandingOut

Floats = NDArray[np.float64]


def drawn(seed: int, spiky: float) -> tuple[Mixture, Fit, Floats]:
    """Reports of people whose θ is drawn from a smooth prior, its fit, and M = F − F·H⁻¹·F.

    Args:
        seed: Of the people and their reports.
        spiky: The standard deviation of independent changes of θ on top.
    """
    size, people = 60, 400_000
    strengths = Strengths(0.0, ((0.1, 300.0),))
    rng = np.random.default_rng(seed)
    theta = whitened((size,), strengths) @ rng.standard_normal(size - 1)
    law = law_of(theta + spiky * rng.standard_normal(size))
    mixture = reports([line(size, 0.5)], law, people, seed)
    found = fit(mixture, Field((size,), strengths))
    information = explicit_information(mixture, found.law)
    prior = explicit_precision((size,), strengths)
    # H is singular along the constants, which F does not see.
    curved = prior + information + 1.0
    passed = information - information @ np.linalg.solve(curved, information)
    return mixture, found, passed


def exactly_unexplained(mixture: Mixture, found: Fit, passed: Floats) -> float:
    """(|g|² − tr M)/√(2·tr M²)."""
    slope = mixture.matrix @ (mixture.counts / found.mixed)
    score = found.law * (slope - found.law @ slope)
    spread = math.sqrt(2 * float(np.sum(passed**2)))
    return (float(score @ score) - float(np.trace(passed))) / spread


@pytest.mark.slow
def test_what_a_smooth_fit_leaves_is_as_expected_under_its_own_prior() -> None:
    """Mean 0 and variance 1; the figure itself, from eight probes, is within its probes' error.

    A probe misses tr M with the variance 2·Σ_{i≠j} M_ij². |g|² is a sum of squares, so that the
    variance of N figures is known to √((2 + 12·tr M⁴/(tr M²)²)/N).
    """
    exact, kurtosis = [], []
    for seed in range(200):
        mixture, found, passed = drawn(seed, 0.0)
        exact.append(exactly_unexplained(mixture, found, passed))
        square = passed @ passed
        kurtosis.append(12 * np.sum(square**2) / np.sum(passed**2) ** 2)
        if seed < 10:
            spread = math.sqrt(2 * float(np.sum(passed**2)))
            off = passed - np.diag(np.diag(passed))
            probed = math.sqrt(2 * float(np.sum(off**2)) / 8) / spread
            # The spread is estimated too, within some 25 %.
            got = Doubt(mixture, found).terms[0].z
            assert abs(got - exact[-1]) < LIMIT * (probed + 0.25 * abs(exact[-1]))
    assert abs(np.mean(exact)) < LIMIT / math.sqrt(200)
    stderr = math.sqrt((2 + float(np.mean(kurtosis))) / 200)
    assert abs(np.var(exact) - 1) < LIMIT * stderr


def test_spiky_people_are_not_explained_by_a_smooth_fit() -> None:
    """The twin: shares vary by a factor of about e^½ from cell to cell."""
    for seed in range(5):
        mixture, found, passed = drawn(seed, 0.5)
        assert Doubt(mixture, found).terms[0].z > 2 * LIMIT
        assert exactly_unexplained(mixture, found, passed) > 2 * LIMIT


# Terms of several kinds


def test_terms_of_an_axis_are_sums_over_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """With many probes, z is (|g|² − tr M)/√(2·tr M²) of the summed g and M."""
    monkeypatch.setattr(doubt_module, "_PROBES", ((1 << 14, 4_000),))
    shape = (6, 5)
    mixture = reports([line(size, 0.8) for size in shape], humps(shape), 200_000, seed=3)
    field = Field(shape, Strengths(0.0, ((0.1, 30.0), (1.0, 0.0))))
    found = fit(mixture, field)
    information = explicit_information(mixture, found.law)
    curved = explicit_precision(shape, field.strengths) + information + 1.0
    passed = information - information @ np.linalg.solve(curved, information)
    slope = mixture.slope(found.mixed)
    score = found.law * (slope - np.sum(found.law * slope))
    kinds = [np.eye(30), np.kron(np.eye(6), np.ones(5)), np.kron(np.ones(6), np.eye(5))]
    terms = Doubt(mixture, found).terms
    assert [term.summed for term in terms] == [(), (1,), (0,)]
    assert Doubt(mixture, found).is_rough == max(term.z for term in terms)
    for term, rows in zip(terms, kinds, strict=True):
        summed = rows @ passed @ rows.T
        off = summed - np.diag(np.diag(summed))
        spread = math.sqrt(2 * float(np.sum(summed**2)))
        exact = (float(np.sum((rows @ score.ravel()) ** 2)) - np.trace(summed)) / spread
        probed = math.sqrt(2 * float(np.sum(off**2)) / 4_000) / spread
        # The spread, a mean of 4,000 squares, is known to some 2 %.
        assert abs(term.z - exact) < LIMIT * (probed + 0.02 * abs(exact))


def test_terms_add_the_variance_that_the_fit_does_not_take_from_the_reports() -> None:
    """Σ τ²·|h − F·H⁻¹h|², summed over the cells of a term."""
    shape = (6, 5)
    mixture = reports([line(size, 0.8) for size in shape], humps(shape), 200_000, seed=3)
    field = Field(shape, Strengths(0.0, ((0.1, 30.0), (1.0, 0.0))))
    found = fit(mixture, field)
    doubt = Doubt(mixture, found)
    h = np.random.default_rng(4).standard_normal((3, *shape))
    h -= h.mean(axis=(1, 2), keepdims=True)
    solved = found.curvature.solve(h)
    left = h.reshape(3, -1) - solved.reshape(3, -1) @ explicit_information(mixture, found.law)
    cells = left.reshape(3, *shape)
    parts = [np.sum(left**2, axis=1), *(np.sum(cells.sum(axis=a) ** 2, axis=1) for a in (2, 1))]
    exact = sum(term.variance * part for term, part in zip(doubt.terms, parts, strict=True))
    assert not any(np.any(term.unseen) for term in doubt.terms)
    inner, found_left = found.curvature.respond(h)
    np.testing.assert_allclose(found_left, cells, rtol=1e-8, atol=1e-8 * np.abs(cells).max())
    np.testing.assert_allclose(inner, np.sum((h * solved).reshape(3, -1), axis=1), rtol=1e-9)
    np.testing.assert_allclose(doubt.variance(h, h, found_left), exact, rtol=1e-7)
    assert np.all(doubt.variance(h, h, found_left) > 0)


def cosines(size: int) -> Floats:
    """The waves of a line, one row each, of length 1."""
    waves = np.cos(np.pi * np.outer(np.arange(size), np.arange(size) + 0.5) / size)
    result: Floats = waves / np.linalg.norm(waves, axis=1, keepdims=True)
    return result


@pytest.mark.parametrize("apart", [0.0, 0.3, 2.0])
def test_waves_that_no_report_can_show_have_a_stated_variance(
    apart: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Σ over cosines of information below 1 of (UNSEEN − τ²)·(cᵀl)², beside τ²·|l|².

    On short axes there would be room for heaps instead.
    """
    monkeypatch.setattr(StandingOut, "variance", lambda *_: 0.0)
    monkeypatch.setattr(Heaps, "are_judged", staticmethod(lambda _: False))
    mixture = reports([line(40, 0.2)], humps((40,)), 5_000, seed=5)
    found = fit(mixture, Field((40,), Strengths(0.0, ((0.1, 1000.0),), apart)))
    doubt = Doubt(mixture, found)
    (term,) = doubt.terms
    law = line(40, 0.2).likelihood()
    waves = cosines(40)
    told = np.sum((waves @ law) ** 2 / law.mean(axis=0), axis=1) * 5_000 / 40**2
    np.testing.assert_array_equal(term.unseen, np.where(told < 1, UNSEEN, 0.0))
    assert 0 < np.count_nonzero(told < 1) < 40
    assert term.variance < UNSEEN
    left = np.random.default_rng(6).standard_normal((4, 40))
    hidden = np.sum((left @ waves[told < 1].T) ** 2, axis=1)
    unseen = max(UNSEEN - term.variance - apart, 0.0)
    exact = term.variance * np.sum(left**2, axis=1) + unseen * hidden
    np.testing.assert_allclose(doubt.variance(left, left, left), exact, rtol=1e-9)


@pytest.mark.parametrize("error", [1e-3, 0.05, 1.0, 50.0])
@pytest.mark.parametrize("z", [-5.0, -1.0, 0.0, 2.0, 8.0])
def test_the_variance_of_terms_is_a_posterior_mean(z: float, error: float) -> None:
    """By quadrature: none with probability one half, otherwise even up to 1, or twice what is seen.

    The estimate z·error is normal around τ² with the given standard error.
    """
    most = max(1.0, 2 * z * error)
    grid = np.linspace(0.0, most, 2_000_001)
    density = np.exp(-((grid / error - z) ** 2) / 2)
    weight = np.trapezoid(density, grid) / most
    none = math.exp(-(z**2) / 2)
    mean = np.trapezoid(grid * density, grid) / most / (weight + none)
    assert _mean_variance(z, error) == pytest.approx(mean, rel=1e-4)


def test_what_is_certain_is_taken_as_it_is() -> None:
    assert _mean_variance(40.0, 0.1) == pytest.approx(4.0)
    assert _mean_variance(-40.0, 0.1) == 0.0
    assert _mean_variance(29.0, 0.1) == pytest.approx(2.9, rel=0.01)
    assert _mean_variance(0.0, math.inf) == 0.25


def test_probabilities_between_far_numbers_keep_their_digits() -> None:
    assert _log_between(-1.0, 2.0) == pytest.approx(math.log(0.8185946141203637))
    # P(10 < x < 11) from the tail's expansion, 7.6198530241e-24 − 1.9106595745e-28.
    assert math.exp(_log_between(10.0, 11.0)) == pytest.approx(7.61966195806e-24, rel=1e-6)
    assert _log_between(-11.0, -10.0) == pytest.approx(_log_between(10.0, 11.0))
