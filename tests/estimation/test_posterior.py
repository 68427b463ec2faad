"""People behind the reports: against enumerated people, quadrature and other forms."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from helpers_decoding import (
    FIELDS,
    hump,
    humps,
    line,
    noiseless,
    problem,
    reports,
    thermometer_tally,
)
from numpy.typing import NDArray

from sfumato.estimation.decoding import fitting as fitting_module
from sfumato.estimation.decoding.curvature import Point, ProductCurvature
from sfumato.estimation.decoding.doubt import Doubt
from sfumato.estimation.decoding.em import decode
from sfumato.estimation.decoding.evidence import Beside, Posterior, _Done, _Tried, fit_by_evidence
from sfumato.estimation.decoding.field import Field, Strengths
from sfumato.estimation.decoding.fitting import SEARCH_ALL, Fit, fit
from sfumato.estimation.decoding.mixture import Mixture, SymbolMixture, mixture_of
from sfumato.estimation.decoding.posterior import CountPosterior, Decoder, answering
from sfumato.estimation.decoding.state import decoder_of, state_of
from sfumato.estimation.intervals import Estimated, around
from sfumato.estimation.likelihood import narrower

Floats = NDArray[np.float64]


class Certain:
    """The curvature if θ were known; it keeps what it is asked to solve for."""

    reusable: ClassVar[bool] = False

    def __init__(self) -> None:
        self.asked: list[Floats] = []

    def solve(self, h: Floats) -> Floats:
        return np.zeros_like(h)

    def respond(self, h: Floats) -> tuple[Floats, Floats]:
        self.asked.append(h)
        return np.zeros(len(h)), np.zeros_like(h)

    def log_determinant(self) -> float:
        return math.inf


def few_people() -> tuple[SymbolMixture, Floats, list[int]]:
    """Six reports on three cells, a law that is not their maximum, and the outputs."""
    sent = [0, 0, 1, 2, 2, 2]
    counts = np.bincount(sent, minlength=3).astype(np.float64)
    return SymbolMixture.of([line(3, 0.9)], counts), np.array([0.2, 0.5, 0.3]), sent


def posterior_at(mixture: Mixture, law: Floats, curvature: Any) -> CountPosterior:
    """The posterior of the counts if this distribution, however scaled, were the fit."""
    law = law / law.sum()
    field = Field(law.shape, Strengths(0.8, ((0.0, 0.0),)))
    mixed = mixture.forward(law)
    return CountPosterior.of(mixture, Fit(field, np.log(law), law, mixed, 0.0, curvature, 0))


def test_counts_given_the_law_are_those_of_all_ways_people_may_sit() -> None:
    """Mean and variance of Σ w·c over all 3⁶ ways, each with its posterior chance."""
    mixture, law, sent = few_people()
    chance = law[:, None] * mixture.matrix
    chance /= chance.sum(axis=0)
    weights = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.3, -2.0, 1.7]])
    known = Certain()
    values, variances = posterior_at(mixture, law, known).moments(weights)
    (slopes,) = known.asked
    for w, value, found, slope in zip(weights, values, variances, slopes, strict=True):
        ways = list(itertools.product(range(3), repeat=len(sent)))
        share = np.array(
            [math.prod(chance[x, y] for x, y in zip(way, sent, strict=True)) for way in ways]
        )
        total = np.array([sum(w[x] for x in way) for way in ways])
        mean = float(share @ total)
        variance = float(share @ (total - mean) ** 2)
        assert share.sum() == pytest.approx(1.0)
        assert value == pytest.approx(mean, rel=1e-12)
        assert found == pytest.approx(variance, rel=1e-12)
        for place in range(3):
            up, down = (
                posterior_at(mixture, law * np.exp(e * np.eye(3)[place]), known).counts @ w
                for e in (1e-6, -1e-6)
            )
            assert slope[place] == pytest.approx((up - down) / 2e-6, abs=1e-8)


@pytest.mark.parametrize("name", FIELDS)
def test_the_uncertainty_of_the_law_adds_its_part(name: str) -> None:
    """hᵀ·H⁻¹·h, with h as asked of the curvature."""
    mixture, field = problem(name)
    found = fit(mixture, field)
    rows = np.random.default_rng(2).random((4, *field.shape))
    _, whole = CountPosterior.of(mixture, found).moments(rows)
    known = Certain()
    _, within = posterior_at(mixture, found.law, known).moments(rows)
    (h,) = known.asked
    between = np.sum((h * found.curvature.solve(h)).reshape(4, -1), axis=1)
    np.testing.assert_allclose(whole, within + between, rtol=1e-9)
    assert np.all(between > 0)


def test_the_whole_variance_is_that_of_the_posterior_by_quadrature() -> None:
    """Two cells, θ integrated out by brute force.

    Laplace puts the mean where the top is: off by the skewness, a share of a standard deviation
    that falls as 1/√n, so a quarter is left with sixteen times the people; the variance's relative
    error falls as 1/n.
    """
    off, ratio = [], []
    for people in (400, 6_400):
        mixture = noiseless([line(2, 1.0)], np.array([0.7, 0.3]), people)
        found = fit(mixture, Field((2,), Strengths(0.5, ((0.0, 0.0),))))
        value, variance = CountPosterior.of(mixture, found).moments(np.array([[1.0, 0.0]]))
        mean, spread = _count_of_two_cells(mixture, 0.5)
        off.append(abs(value[0] - mean) / math.sqrt(spread))
        ratio.append(abs(variance[0] / spread - 1))
    assert off[0] < 0.25
    assert off[1] < 0.4 * off[0]
    assert ratio[1] < 0.02


def _count_of_two_cells(mixture: SymbolMixture, strength: float) -> tuple[float, float]:
    """Mean and variance of the first cell's count over its whole posterior."""
    # θ₀ − θ₁ is normal with variance 2/λ₀; the level does not matter.
    d = np.linspace(-12, 12, 20_001)
    p = 1 / (1 + np.exp(-d))
    mixed = np.stack([p, 1 - p], axis=1) @ mixture.matrix
    height = np.log(mixed) @ mixture.counts - d**2 * strength / 4
    weight = np.exp(height - height.max())
    weight /= weight.sum()
    chance = p[:, None] * mixture.matrix[0] / mixed
    mean, within = chance @ mixture.counts, (chance * (1 - chance)) @ mixture.counts
    exact = float(weight @ mean)
    return exact, float(weight @ (within + (mean - exact) ** 2))


@pytest.mark.parametrize("name", FIELDS)
def test_people_are_conserved(name: str) -> None:
    mixture, field = problem(name)
    opened = CountPosterior.of(mixture, fit(mixture, field))
    assert opened.counts.sum() == pytest.approx(2_000, rel=1e-12)
    value, variance = opened.moments(np.ones((1, *field.shape)))
    assert value[0] == pytest.approx(2_000, rel=1e-12)
    assert variance[0] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("name", ["plane", "rough"])
def test_large_grids_find_the_same_variances(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By products instead of matrices."""
    shape = (7, 6)
    rough = Strengths(0.7, ((0.0, 0.0), (0.0, 0.0)))
    strengths = FIELDS["plane"][1] if name == "plane" else rough
    mixture = reports([line(size, 0.6) for size in shape], humps(shape), 5_000, seed=24)
    found = fit(mixture, Field(shape, strengths))
    rows = np.random.default_rng(25).random((30, *shape)).round()
    values, exact = CountPosterior.of(mixture, found).moments(rows)
    monkeypatch.setattr(fitting_module, "curvature_at", lambda at, _: ProductCurvature(at))
    implicit = fitting_module.fit_at(mixture, found.field, found.law)
    again, variances = CountPosterior.of(mixture, implicit).moments(rows)
    np.testing.assert_allclose(again, values, rtol=1e-9)
    # Conjugate gradients stop at 1e-3; the matrix may be that of outputs within 3 %.
    np.testing.assert_allclose(variances, exact, rtol=0.03)


def test_rows_in_batches_are_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    mixture, field = problem("plane")
    opened = CountPosterior.of(mixture, fit(mixture, field))
    rows = np.random.default_rng(3).random((7, *field.shape))
    values, variances = opened.moments(rows)
    monkeypatch.setattr("sfumato.estimation.decoding.posterior._ENTRIES_AT_ONCE", 24)
    assert len(opened._batches(rows, mixture.counts.size)) == 4
    again = opened.moments(rows)
    np.testing.assert_allclose(again[0], values, rtol=1e-12)
    np.testing.assert_allclose(again[1], variances, rtol=1e-9)


def test_many_rows_pass_through_a_matrix_over_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are many outputs; the moments are the same."""
    tally = thermometer_tally(8, 3_000)
    mixture = mixture_of(tally.statistic, tally.study.blocks, [0])
    opened = CountPosterior.of(mixture, fit(mixture, Field((8,), Strengths(0.0, ((1.0, 0.0),)))))
    rows = np.random.default_rng(5).random((9, 8))
    assert opened._are_many(rows)
    assert not opened._are_many(rows[:1])
    found = opened.moments(rows)
    monkeypatch.setattr(CountPosterior, "_are_many", lambda *_: False)
    for one, other in zip(found, opened.moments(rows), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


# Intervals


def test_intervals_leave_room_for_what_smoothness_leaves_out() -> None:
    mixture = reports([line(8, 0.7)], hump(8), 3_000, seed=26)
    best = fit(mixture, Field((8,), Strengths(0.0, ((10.0, 0.0),))))
    doubt = Doubt(mixture, best)
    rows = np.tri(8)[:-1]
    value, wide = Decoder(Posterior(mixture, best, is_ordered=True)).moments(rows)
    alone, variance = CountPosterior.of(mixture, best).moments(rows)
    np.testing.assert_array_equal(value, alone)
    known = Certain()
    posterior_at(mixture, best.law, known).moments(rows)
    (h,) = known.asked
    more = doubt.variance(rows, h, best.curvature.respond(h)[1])
    np.testing.assert_allclose(wide, variance + more, rtol=1e-9)
    assert np.any(wide > 1.01 * variance)


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_maximum_likelihood_moves_answers_and_widens_intervals_by_as_much(share: float) -> None:
    shape = (6, 5)
    mixture = reports([line(size, 0.7) for size in shape], humps(shape), 3_000, seed=28)
    best = fit(mixture, Field(shape, Strengths(0.0, ((10.0, 0.0), (3.0, 1.0)))))
    law = decode(mixture).law
    alone = Decoder(Posterior(mixture, best, is_ordered=True))
    both = Decoder(Posterior(mixture, best, True, beside=Beside(law, share)))
    rows = np.random.default_rng(4).random((7, *shape))
    (value, variance), (moved, wide) = alone.moments(rows), both.moments(rows)
    plain = rows.reshape(7, -1) @ law.ravel() * 3_000
    np.testing.assert_allclose(moved, (1 - share) * value + share * plain, rtol=1e-12)
    np.testing.assert_allclose(wide, variance + (share * (plain - value)) ** 2, rtol=1e-9)
    assert np.any(wide > 1.01 * variance)
    assert both.counts().sum() == pytest.approx(3_000)
    state = state_of(both)
    again = decoder_of(mixture, state, is_ordered=True)
    for one, other in zip(both.moments(rows), again.moments(rows), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-7)


def test_many_answers_beside_maximum_likelihood_use_a_matrix_or_unbiased_errors() -> None:
    shape = (6, 5)
    mixture = reports([line(size, 0.7) for size in shape], humps(shape), 3_000, seed=28)
    best = fit(mixture, Field(shape, Strengths(0.0, ((10.0, 0.0), (3.0, 1.0)))))
    at = Point(mixture, best.field, best.law, best.mixed)
    slow = replace(best, curvature=ProductCurvature(at))
    beside = Beside(decode(mixture).law, 0.5)
    rows = np.random.default_rng(4).random((3, *shape))
    exact = Decoder(Posterior(mixture, best, True, beside=beside)).moments(rows)
    found = Decoder(Posterior(mixture, slow, True, beside=beside)).moments(rows)
    np.testing.assert_allclose(found[1], exact[1], rtol=1e-9)
    assert isinstance(answering(Posterior(mixture, slow, True)).curvature, ProductCurvature)
    wide = (40, 30)  # more cells than a matrix has room for
    mixture = reports([line(size, 0.7) for size in wide], humps(wide), 3_000, seed=28)
    rough = fit(mixture, Field(wide, Strengths(0.0, ((1e-3, 0.0), (1e-3, 0.0)))), effort=SEARCH_ALL)
    assert isinstance(rough.curvature, ProductCurvature)
    beside = Beside(rough.law, 0.5)
    with_products = Decoder(Posterior(mixture, rough, True, beside=beside))
    assert np.all(np.isinf(with_products.moments(np.ones((1, *wide)))[1]))


def test_fits_of_nearly_the_same_evidence_widen_intervals() -> None:
    """By the square of how far the most distant of them moves an answer; values stay."""
    mixture = reports([line(60, 0.2)], hump(60), 400, seed=31)
    posterior = replace(fit_by_evidence(mixture, [True]), beside=None)
    assert posterior.nearby is not None
    assert len(posterior.nearby) > 3
    np.testing.assert_allclose(posterior.nearby.sum(axis=1), 1)
    rows = np.vstack([np.arange(60) < 20, np.arange(60) == 30]).astype(np.float64)
    alone = Decoder(replace(posterior, nearby=None)).moments(rows)
    found = Decoder(posterior).moments(rows)
    np.testing.assert_array_equal(found[0], alone[0])
    moved = 400 * (posterior.nearby @ rows.T - posterior.nearby[0] @ rows.T)
    np.testing.assert_allclose(found[1] - alone[1], np.max(moved**2, axis=0), atol=1e-6)
    assert np.abs(moved).max() > 1
    kept = decoder_of(mixture, state_of(Decoder(posterior)), is_ordered=True)
    np.testing.assert_allclose(kept.moments(rows)[1], found[1], rtol=1e-6)


def test_terms_of_cells_that_reports_leave_open_have_a_share_in_the_answers() -> None:
    """Answers are a mean of both kinds; the interval has room for either by the fits nearby."""
    law = 1 / np.arange(1.0, 61) ** 1.1
    mixture = reports([line(60, 0.2)], law / law.sum(), 20_000, seed=31)
    posterior = fit_by_evidence(mixture, [True])
    assert posterior.beside is not None
    assert posterior.nearby is not None
    share = posterior.beside.share
    assert 0.01 < share < 0.5
    other = np.abs(posterior.nearby - posterior.beside.law).sum(axis=1)
    assert other.min() < 1e-12 < other[0]
    rows = np.tri(60)[:-1]
    alone = Decoder(replace(posterior, beside=None)).moments(rows)
    found = Decoder(posterior).moments(rows)
    wanted = (1 - share) * alone[0] + share * 20_000 * rows @ posterior.beside.law
    np.testing.assert_allclose(found[0], wanted, rtol=1e-9)
    np.testing.assert_array_equal(found[1], alone[1])
    kept = decoder_of(mixture, state_of(Decoder(posterior)), is_ordered=True)
    np.testing.assert_allclose(kept.moments(rows), found, rtol=1e-6)


def test_the_share_of_the_other_kind_is_that_of_its_evidence() -> None:
    """Kept from an earlier climb if the last saw one kind only, and dropped if that is the best."""
    done, theta = _Done(None), np.zeros(3)
    done.tried = [_Tried(-3.0, theta, True), _Tried(-1.5, theta, False), _Tried(-5.0, theta, False)]
    done.compare()
    assert done.other == _Tried(-1.5, theta, True)
    done.tried = [_Tried(-8.0, theta, False)]
    done.compare()
    assert done.other == _Tried(-1.5, theta, True)
    done.tried = [_Tried(-7.0, theta, True)]
    done.compare()
    assert done.other is None


def test_one_strength_that_stands_alone_widens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.estimation.decoding.evidence._NEARLY_AS_GOOD", 0.0)
    mixture = reports([line(60, 0.2)], hump(60), 400, seed=31)
    assert fit_by_evidence(mixture, [True]).nearby is None


def test_the_narrower_interval_is_taken_and_the_unbiased_one_keeps_its_middle() -> None:
    values, wide = np.array([10.0, 20.0, 30.0]), np.array([1.0, 9.0, math.inf])
    unbiased = Estimated.symmetric(np.array([11.0, 22.0, 36.0]), np.array([4.0, 4.0, 4.0]))
    found = narrower(values, wide, unbiased)
    np.testing.assert_array_equal(found.value, values)
    np.testing.assert_array_equal(found.variance, [1.0, 4.0, 4.0])
    np.testing.assert_array_equal(found.centre, [10.0, 22.0, 36.0])


def test_an_interval_is_extended_to_contain_the_value() -> None:
    low, high = around(np.array([30.0, 20.0]), np.array([36.0, 20.0]), np.array([4.0, 4.0]))
    np.testing.assert_array_equal([low, high], [[30.0, 16.0], [40.0, 24.0]])


def test_without_order_intervals_are_unbiased_ones() -> None:
    mixture = reports([line(8, 0.7)], hump(8), 3_000, seed=26)
    posterior = fit_by_evidence(mixture, [False])
    assert posterior.doubt is None
    assert fit_by_evidence(mixture, [True]).doubt is not None
    assert np.all(np.isinf(Decoder(posterior).moments(np.eye(8))[1]))


def test_few_people_have_unbiased_intervals() -> None:
    few = reports([line(8, 0.7)], hump(8), 99, seed=26)
    assert np.all(np.isinf(Decoder(fit_by_evidence(few, [True])).moments(np.eye(8))[1]))
    more = reports([line(8, 0.7)], hump(8), 100, seed=26)
    assert np.all(np.isfinite(Decoder(fit_by_evidence(more, [True])).moments(np.eye(8))[1]))


def test_what_is_kept_gives_the_same_moments() -> None:
    """On a line, where every curvature is exact."""
    mixture = reports([line(30, 0.4)], hump(30), 5_000, seed=27)
    before = Decoder(fit_by_evidence(mixture, [True]))
    state = state_of(before)
    fresh = SymbolMixture.of([line(30, 0.4)], mixture.counts)
    after = decoder_of(fresh, state, is_ordered=True)
    rows = np.tri(30)[:-1]
    for one, other in zip(before.moments(rows), after.moments(rows), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-9)
