"""People asked about who stand out: against matrices written out, and simulated people."""

from __future__ import annotations

import math
import statistics
import tracemalloc

import numpy as np
import pytest
from helpers_decoding import explicit_information, explicit_precision, humps, line, reports
from numpy.typing import NDArray

import sfumato as sf
from sfumato.estimation.decoding.evidence import Posterior
from sfumato.estimation.decoding.field import Field, Strengths
from sfumato.estimation.decoding.fitting import Fit, fit
from sfumato.estimation.decoding.mixture import Mixture
from sfumato.estimation.decoding.posterior import CountPosterior, Decoder
from sfumato.estimation.decoding.standing_out import CONTRADICTED, FACTOR, StandingOut

Floats = NDArray[np.float64]
RIDGE = 40.0


def smooth_people() -> tuple[Mixture, Fit]:
    """Reports on a line, and a fit with a smooth prior."""
    mixture = reports([line(60, 0.5)], humps((60,)), 20_000, seed=7)
    return mixture, fit(mixture, Field((60,), Strengths(0.0, ((0.1, 300.0),))))


def labelled(people: int = 4_000) -> tuple[Mixture, Fit]:
    """Reports on 40 labels, ten of which have most people, and a fit in which all are alike."""
    law = np.where(np.arange(40) < 10, 8.0, 1.0)
    mixture = reports([line(40, 1.0, sf.Exponential())], law / law.sum(), people, seed=3)
    return mixture, fit(mixture, Field((40,), Strengths(RIDGE, ((0.0, 0.0),))))


def score_of(mixture: Mixture, found: Fit) -> Floats:
    """The derivative of the log-likelihood by θ, written out."""
    slope = mixture.matrix @ (mixture.counts / found.mixed)
    result: Floats = found.law * (slope - found.law @ slope)
    return result


def test_the_people_asked_about_may_differ_from_their_surroundings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The variance is that of a fit with one more parameter: a factor of the people asked about.

    Written out: θ = s + δ·w, s under the smooth prior, δ under a normal one of variance 1e6. Of it
    the share of the formula is kept: less for the wide range than for the cell.
    """
    mixture, found = smooth_people()
    rows = np.zeros((3, 60))
    rows[0, 20], rows[1, 20:26], rows[2, 10:50] = 1.0, 1.0, 1.0
    information = explicit_information(mixture, found.law)
    curved = explicit_precision((60,), found.field.strengths) + information
    h = rows * found.law - np.outer(rows @ found.law, found.law)  # the derivative of a share
    score = score_of(mixture, found)
    asked = StandingOut(mixture, found)
    left = found.curvature.respond(h)[1]
    monkeypatch.setattr(StandingOut, "_contradicted", 1.0)
    whole = asked.variance(rows, h, left)
    monkeypatch.setattr(StandingOut, "_contradicted", 0.25)
    part = asked.variance(rows, h, left)
    kept = []
    for w, one, more, less in zip(rows, h, whole, part, strict=True):
        both = np.block(
            [[curved, (information @ w)[:, None]], [w @ information, w @ information @ w + 1e-6]]
        )
        both[:60, :60] += 1.0  # for the constants, which F does not see
        wide = np.append(one, one @ w)
        smooth = one @ np.linalg.solve(curved + 1.0, one)
        grown = wide @ np.linalg.solve(both, wide) - smooth
        along = information @ w
        precision = w @ along - along @ np.linalg.solve(curved + 1.0, along)
        z = (w @ score) / math.sqrt(precision)
        assert more == pytest.approx(grown * max(1.0, z**2), rel=1e-4)
        share = (w @ one - along @ np.linalg.solve(curved + 1.0, one)) / (w @ one)
        told = FACTOR**2 * precision
        kept.append(1 - 0.75 * (1 - share) * told / (1 + told))
        assert less == pytest.approx(more * kept[-1], rel=1e-4)
    assert kept[2] < 0.5 < 0.8 < kept[0]


def test_what_no_report_is_about_has_no_bound() -> None:
    """Everybody is asked about: no report tells a factor of all, and unbiased errors are 0."""
    mixture, found = smooth_people()
    rows = np.vstack([np.ones(60), np.zeros(60)])
    added = StandingOut(mixture, found).variance(rows, np.zeros((2, 60)), np.zeros((2, 60)))
    assert not np.any(np.isnan(added))
    assert added[1] == np.inf


def test_reports_contradict_a_fit_by_the_scores_of_single_cells() -> None:
    """Written out, for every cell; smooth people do not contradict it, and spiky ones do."""
    mixture, found = smooth_people()
    information = explicit_information(mixture, found.law)
    curved = explicit_precision((60,), found.field.strengths) + information
    passed = information - information @ np.linalg.solve(curved + 1.0, information)
    root = np.sqrt(np.diag(passed))
    correlation = passed / np.outer(root, root)
    mean = np.mean((score_of(mixture, found) / root) ** 2)
    error = math.sqrt(2 * np.sum(correlation**2)) / 60
    exact = statistics.NormalDist(2.0).cdf((mean - 1) / error)
    assert StandingOut(mixture, found)._contradicted == pytest.approx(exact, rel=1e-4)
    assert exact < 0.3
    spiky = humps((60,)) * np.where(np.arange(60) % 9 == 4, 6.0, 1.0)
    heaped = reports([line(60, 0.5)], spiky / spiky.sum(), 20_000, seed=7)
    smooth = fit(heaped, Field((60,), Strengths(0.0, ((0.1, 300.0),))))
    assert StandingOut(heaped, smooth)._contradicted > 0.99


def test_sums_move_by_the_score_where_reports_contradict_the_fit() -> None:
    """Written out: c·δ·(1 − (3/z)⁴), with δ = wᵀg/wᵀMw and c = wᵀ(h − F·H⁻¹h)."""
    mixture, found = labelled()
    rows = np.zeros((3, 40))
    rows[0, :10], rows[1, 5:25], rows[2, [0, 20, 21, 22]] = 1.0, 1.0, 2.0
    information = explicit_information(mixture, found.law)
    curved = RIDGE * np.eye(40) + information
    h = np.random.default_rng(1).standard_normal((3, 40))
    left = h - h @ np.linalg.solve(curved, information)
    score = score_of(mixture, found)
    passed = information - information @ np.linalg.solve(curved, information)
    moves = StandingOut(mixture, found).move(rows, left)
    zs = []
    for w, one, move in zip(rows, left, moves, strict=True):
        precision = w @ passed @ w
        zs.append(z := (w @ score) / math.sqrt(precision))
        kept = max(0.0, 1 - (CONTRADICTED / z) ** 4)
        wanted = (w @ one) * (w @ score) / precision * kept
        assert move == pytest.approx(wanted, rel=1e-6, abs=1e-12)
    assert abs(zs[0]) > CONTRADICTED
    assert abs(zs[2]) < CONTRADICTED


def test_sums_over_unordered_cells_move_and_single_cells_do_not() -> None:
    mixture, found = labelled()
    decoder = Decoder(Posterior(mixture, found, is_ordered=False))
    plain = CountPosterior.of(mixture, found).counts
    rows = np.vstack([np.eye(40), np.arange(40) < 10, np.arange(40) >= 10, np.ones(40)])
    values, variances = decoder.moments(rows.astype(np.float64))
    np.testing.assert_allclose(values[:40], plain, rtol=1e-12)
    assert values[40] > plain[:10].sum() + 100
    assert values[40] + values[41] == pytest.approx(4_000)
    assert values[42] == pytest.approx(4_000)
    assert np.all(np.isinf(variances))
    # Where cells have an order, smoothness has its own errors and nothing moves.
    ordered = Decoder(Posterior(mixture, found, is_ordered=True))
    np.testing.assert_allclose(ordered.moments(rows.astype(np.float64))[0], rows @ plain)


def test_moved_sums_stay_where_they_can_be() -> None:
    """Everybody has one of three labels of 40, and the prior is much too strong."""
    law = np.where(np.arange(40) < 3, 1.0, 0.0)
    mixture = reports([line(40, 1.0, sf.Exponential())], law / law.sum(), 300, seed=5)
    found = fit(mixture, Field((40,), Strengths(1e3, ((0.0, 0.0),))))
    decoder = Decoder(Posterior(mixture, found, is_ordered=False))
    rows = np.vstack([np.arange(40) < 3, np.arange(40) >= 3]).astype(np.float64)
    values, _ = decoder.moments(rows)
    np.testing.assert_array_equal(values, [300.0, 0.0])  # the step alone would go beyond
    assert CountPosterior.of(mixture, found).counts[:3].sum() < 200


@pytest.mark.slow
def test_sums_over_the_fullest_of_many_labels_are_less_low() -> None:
    """The prior makes them too low by many times their error; the moved ones are much nearer.

    A fifth of all labels at random is as before: there reports do not contradict the fit.
    """
    labels = [f"k{k}" for k in range(300)]
    study = sf.Study("labels", [sf.categories("a", labels, protect=sf.Uniform(2.0))])
    law = 1.0 / np.arange(1, 301)
    rows = np.zeros((2, 300))
    rows[0, :30] = 1.0
    rows[1, np.random.default_rng(4).permutation(300)[:60]] = 1.0
    off, before = [], []
    for seed in range(4):
        counts = np.random.default_rng([seed, 9]).multinomial(3_000, law / law.sum())
        estimate = study.simulate_counts(counts, seed=seed).estimate("likelihood")
        off.append(estimate.linear(rows).values - rows @ counts)
        before.append(rows @ (estimate.histogram("a").values - counts))
    assert np.mean(before, axis=0)[0] < -400
    assert abs(np.mean(off, axis=0)[0]) < 0.6 * abs(np.mean(before, axis=0)[0])
    np.testing.assert_allclose(np.array(off)[:, 1], np.array(before)[:, 1])


@pytest.mark.slow
def test_contradictions_are_looked_for_in_few_cells_of_a_long_axis() -> None:
    """A table of all cells by all cells, here 128 MB, would not fit where an axis is long."""
    law = humps((4_000,))
    mixture = reports([line(4_000, 0.2)], law, 20_000, seed=8)
    found = fit(mixture, Field((4_000,), Strengths(0.0, ((1.0, 1e6),))))
    asked = StandingOut(mixture, found)
    tracemalloc.start()
    assert 0 <= asked._contradicted <= 1
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 90e6, peak
