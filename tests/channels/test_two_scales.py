"""Geometric noise at two scales: the best reading, its guarantee, and where it is the default."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.channels.geometric import Geometric
from sfumato.channels.two_scales import TwoScales
from sfumato.errors import StudyError
from sfumato.metrics.distance import AsideMetric, CappedLineMetric, LineMetric
from sfumato.study import two_scales
from sfumato.study.asked import Asked, variance
from sfumato.study.two_scales import at_two_scales

HALF = Fraction(1, 2)


def aside(size: int, step: Fraction, e: Fraction) -> AsideMetric:
    return AsideMetric(LineMetric.equal(step, size), e)


@pytest.mark.parametrize("coarse", [Fraction(1, 3), Fraction(1, 100), Fraction(1, 10_000)])
def test_no_unbiased_reading_is_better_for_people_spread_evenly(coarse: Fraction) -> None:
    channel = TwoScales(Fraction(1, 6), coarse).bind(LineMetric.equal(HALF, 12))
    law = channel.likelihood()
    rows = np.vstack([np.tri(12), np.eye(12)])
    seen = law.mean(axis=0)
    best = np.linalg.solve((law / seen) @ law.T, rows.T)  # f = D⁻¹Qᵀ(QD⁻¹Qᵀ)⁻¹w
    least = np.sum(best.T * rows, axis=1)
    found = (channel.coefficients(rows) ** 2) @ seen
    np.testing.assert_allclose(found, least, rtol=1e-6)
    worse = np.hstack([channel.fine.coefficients(rows) / channel.shares[0], np.zeros((24, 12))])
    assert ((worse**2) @ seen).sum() > 1.02 * least.sum()  # fine reports alone


def test_the_split_of_short_steps_keeps_half_of_all_digits() -> None:
    channel = TwoScales(HALF, Fraction(1, 1000)).bind(LineMetric.equal(Fraction(1, 500), 2_000))
    rows = np.tri(2_000)[::250]
    read = channel.expect(channel.coefficients(rows))
    size = np.abs(channel.coefficients(rows)).max()
    assert np.abs(read - rows).max() < 1e-12 * size


def test_noise_beyond_e_is_found() -> None:
    line, wide = LineMetric.equal(HALF, 3_000), LineMetric.equal(Fraction(3, 5), 3_000)
    channel = TwoScales(HALF, Fraction(1, 20)).bind(line)
    found = channel.check(line)
    assert (found.problems, found.method) == ([], "by structure")
    assert 0.99 < found.spent <= 1
    for wrong in (
        replace(channel, fine=Geometric().bind(wide)),
        replace(channel, rough=Geometric().bind(wide)),
    ):
        assert wrong.check(line).spent > 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((1, "1/2"), "share must be below 1, got share=1"),
        (("1/2", 0), "coarse must be positive and finite, got coarse=0"),
        (("1/2", "3/2"), "coarse must be below 1, got coarse=1.5"),
    ],
)
def test_what_is_no_share_is_refused(given: Any, told: str) -> None:
    with pytest.raises(StudyError, match=told):
        TwoScales(*given)


def test_steps_too_short_to_be_inverted_are_refused() -> None:
    short = LineMetric.equal(Fraction(1, 1 << 18), 5)
    assert TwoScales(HALF, Fraction(1, 4)).misfit(short) is None
    assert "below 2^-20 cannot be inverted" in str(TwoScales(HALF, Fraction(1, 5)).misfit(short))
    with pytest.raises(StudyError, match="too coarse for this share"):
        TwoScales(Fraction(1, 1 << 70), HALF).bind(LineMetric.equal(HALF, 5))


@pytest.mark.parametrize(
    ("size", "step", "e"),
    [(1_000, "1/2", 4), (300, "1/2", 4), (300, "1/2", 2), (300, "1", 3), (300, "1/5", 2)],
)
def test_the_formula_finds_nearly_the_best_step(
    size: int, step: str, e: int, monkeypatch: Any
) -> None:
    metric = aside(size, Fraction(step), Fraction(e))
    rows, shares = Asked.of(size, size + 1, ordered=True).rows(metric)
    chosen = at_two_scales(metric)
    assert chosen is not None
    mine = variance(chosen.bind(metric), rows, shares)
    for coarse in two_scales._COARSE:
        monkeypatch.setattr(two_scales, "_COARSE", (coarse,))
        other = at_two_scales(metric)
        if other is not None:
            assert mine <= 1.05 * variance(other.bind(metric), rows, shares)
    one = variance(sf.Extended(sf.Geometric()).bind(metric), rows, shares)
    assert mine < 0.6 * one


def test_fine_noise_alone_serves_a_cell_far_away() -> None:
    assert at_two_scales(aside(100, HALF, Fraction(25))) is None
    assert at_two_scales(aside(100, HALF, Fraction(1_000))) is None
    unequal = AsideMetric(LineMetric((HALF, Fraction(1))), HALF)
    assert at_two_scales(unequal) is None


@pytest.mark.parametrize(("e", "most"), [(2, 2.4), (3, 2.8), (4, 2.6), (5, 1.8), (6, 1.1)])
def test_an_answer_near_the_values_costs_little_on_a_long_axis(e: int, most: float) -> None:
    """Beside the same axis, always answered, under the cap that "no answer" implies."""
    protect = sf.Distance("1/2", no_answer=2 * e)
    study = sf.Study("near", [sf.integers("x", 0, 999, protect=protect, optional=True)])
    metric = CappedLineMetric(LineMetric.equal(HALF, 1_000), Fraction(2 * e))
    asked = Asked.of(1_000, 1_001, ordered=True)
    rows, shares = asked.rows(metric)
    capped = variance(Geometric().bind(metric), rows[:, :-1], shares)
    assert variance(study.channels[0], rows, shares) < most**2 * capped
