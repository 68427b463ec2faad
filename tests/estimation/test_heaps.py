"""Heaps against normal laws written out, and on people who have some or none."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pytest
from helpers_decoding import explicit_information, explicit_precision, hump, line, reports
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import multivariate_normal

from sfumato.estimation.decoding.doubt import Doubt
from sfumato.estimation.decoding.evidence import Posterior
from sfumato.estimation.decoding.field import Field, Strengths
from sfumato.estimation.decoding.fitting import Fit, fit
from sfumato.estimation.decoding.heaps import CLEAR, PERIODS, SIZES, Heaps
from sfumato.estimation.decoding.mixture import Mixture
from sfumato.estimation.decoding.posterior import Decoder

Floats = NDArray[np.float64]
CELLS = 40
STRENGTHS = Strengths(0.0, ((0.1, 1000.0),))
HEAPED = np.where(np.arange(CELLS) % 5 == 2, 3.0, 1.0)


def law(heaps: Floats | float = 1.0) -> Floats:
    """A hump, with heaps or without."""
    found: Floats = (np.exp(-(((np.arange(CELLS) / CELLS - 0.4) / 0.2) ** 2)) + 0.1) * heaps
    return found / found.sum()


def fitted(people: int, heaps: Floats | float = 1.0, apart: float = 0.0) -> tuple[Mixture, Fit]:
    """Reports of people with heaps or without, and their smooth fit."""
    mixture = reports([line(CELLS, 0.5)], law(heaps), people, seed=5)
    strengths = Strengths(0.0, STRENGTHS.along, apart)
    return mixture, fit(mixture, Field((CELLS,), strengths))


def judged(mixture: Mixture, found: Fit) -> Heaps:
    """The heaps of a fit."""
    heaps = Doubt(mixture, found).heaps
    assert heaps is not None
    return heaps


class Explicit:
    """Odds, means and variances of heaps from matrices over all cells.

    Args:
        mixture: The counts of outputs.
        found: The fit.
    """

    def __init__(self, mixture: Mixture, found: Fit) -> None:
        information = explicit_information(mixture, found.law)
        # H is singular along the constants, which F does not see.
        curved = explicit_precision((CELLS,), STRENGTHS) + information + 1.0
        self.passed = information - information @ np.linalg.solve(curved, information)
        slope = mixture.matrix @ (mixture.counts / found.mixed)
        self.score = found.law * (slope - found.law @ slope)
        self.rows = {
            k: (np.arange(CELLS) % k == np.arange(k)[:, None]).astype(float)
            for k in PERIODS
            if 3 * k <= CELLS
        }

    @cached_property
    def log_odds(self) -> dict[tuple[int, float], float]:
        """Of normal laws of the scores of all residues but one: all of them add up to zero."""
        found = {}
        for k, rows in self.rows.items():
            passed, score = (rows @ self.passed @ rows.T)[1:, :], (rows @ self.score)[1:]
            for size in SIZES:
                heaped = passed[:, 1:] + size * passed @ passed.T
                found[k, size] = multivariate_normal(cov=heaped, allow_singular=False).logpdf(
                    score
                ) - multivariate_normal(cov=passed[:, 1:]).logpdf(score)
        return found

    @property
    def probability(self) -> float:
        """That there are heaps."""
        mean = np.mean([np.exp(odds) for odds in self.log_odds.values()])
        return float(expit(np.log(mean)))

    def moments(self, left: Floats) -> tuple[Floats, Floats]:
        """The mean and the mean square of what heaps change, given that there are any.

        Args:
            left: What sums take from them, one row each.
        """
        odds = np.array(list(self.log_odds.values()))
        shares = np.exp(odds) / np.exp(odds).sum()
        mean, square = np.zeros(len(left)), np.zeros(len(left))
        for (k, size), share in zip(self.log_odds, shares, strict=True):
            rows = self.rows[k]
            spread = np.linalg.inv(np.eye(k) / size + rows @ self.passed @ rows.T)
            taken = left @ rows.T
            moved = taken @ spread @ (rows @ self.score)
            mean += share * moved
            square += share * (np.einsum("ij,jk,ik->i", taken, spread, taken) + moved**2)
        return mean, square


@pytest.mark.parametrize("heaps", [1.0, HEAPED], ids=["smooth", "heaped"])
def test_odds_are_those_of_normal_laws(heaps: Floats | float) -> None:
    mixture, found = fitted(3_000, heaps)
    assert judged(mixture, found).probability == pytest.approx(
        Explicit(mixture, found).probability, rel=1e-6
    )


@pytest.mark.parametrize(
    ("people", "heaps"),
    [(300, 1.0), (20_000, 1.0), (20_000, HEAPED)],
    ids=["few", "smooth", "heaped"],
)
def test_the_variance_is_the_mean_square_as_far_as_reports_allow(
    people: int, heaps: Floats | float
) -> None:
    """Where answers follow heaps, without the square of how far they do."""
    mixture, found = fitted(people, heaps)
    seen, exact = judged(mixture, found), Explicit(mixture, found)
    left = np.random.default_rng(1).standard_normal((6, CELLS))
    mean, square = exact.moments(left)
    wanted = min(1.0, 2 * exact.probability) * square
    follows = seen.followed is not None
    assert follows == (exact.probability > CLEAR) == (people > 300 and heaps is HEAPED)
    if follows:
        wanted -= (exact.probability * mean) ** 2
    np.testing.assert_allclose(seen.variance(left), wanted, rtol=1e-5)
    np.testing.assert_allclose(left @ seen.terms, exact.probability * mean, rtol=1e-5, atol=1e-12)


def test_reports_speak_for_heaps_and_against_them() -> None:
    """With few people neither; with many, heaps of their period only where there are any.

    Period ten can follow the same heaps, and keeps a small share.
    """
    assert 0.3 < judged(*fitted(100)).probability < 0.7
    assert judged(*fitted(200_000)).probability < 0.2
    heaps = judged(*fitted(200_000, HEAPED))
    assert heaps.probability > 0.999
    by_residue = heaps.terms[:5]
    np.testing.assert_allclose(heaps.terms, np.tile(by_residue, CELLS // 5), atol=1e-3)
    assert np.argmax(by_residue) == 2


def test_answers_follow_heaps_that_are_clear() -> None:
    """They stay counts of as many people, and come nearer to the truth; smooth ones stay put."""
    for heaps, follows in ((HEAPED, True), (1.0, False)):
        mixture, found = fitted(20_000, heaps)
        decoder = Decoder(Posterior(mixture, found, is_ordered=True))
        counts, without = decoder.counts(), decoder._best.counts
        assert counts.min() >= 0
        assert counts.sum() == pytest.approx(20_000)
        truth = 20_000 * law(heaps)
        if follows:
            assert np.abs(counts - truth).sum() < 0.5 * np.abs(without - truth).sum()
        else:
            np.testing.assert_array_equal(counts, without)
        rows = (np.arange(CELLS) <= np.arange(CELLS)[:, None]).astype(float)
        values, _ = decoder.moments(rows)
        np.testing.assert_allclose(values, np.cumsum(counts), rtol=1e-9)


def test_heaps_smaller_than_the_cells_own_terms_are_left_to_those() -> None:
    left = np.random.default_rng(1).standard_normal((3, CELLS))
    none = judged(*fitted(20_000, HEAPED, apart=1.0))
    assert none.probability == 0
    assert not np.any(none.variance(left))
    assert np.all(judged(*fitted(20_000, HEAPED, apart=0.5)).variance(left) > 0)


def test_heaps_need_an_axis_that_holds_them() -> None:
    for size, holds in ((5, False), (6, True)):
        mixture = reports([line(size, 0.5)], hump(size), 1_000, seed=1)
        found = fit(mixture, Field((size,), STRENGTHS))
        assert (Doubt(mixture, found).heaps is not None) == holds


def test_heaps_that_reports_deny_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the expansion foresees what is not there: three times the terms overshoot."""
    heaps = judged(*fitted(20_000, HEAPED))
    assert heaps.followed is not None
    monkeypatch.setattr(Heaps, "terms", 3 * heaps.terms)
    assert judged(*fitted(20_000, HEAPED)).followed is None
