"""Discrete Laplace noise: decisions are held against e^x to sixty digits, quantiles to the law."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import opendp.prelude as dp
import pytest
from helpers_channels import Stream
from helpers_statistics import LIMIT
from numpy.typing import NDArray
from scipy import stats

from sfumato.errors import QuestionError, StudyError
from sfumato.randomness import laplace as sampling
from sfumato.randomness.bits import SeededBits
from sfumato.randomness.laplace import _Chance, laplace_variance, sum_quantile

EXPONENTS = tuple(Fraction(text) for text in ("1e-9", "1/1000", "0.3", "1", "7/3", "44", "1000"))
RATES = tuple(Fraction(text) for text in ("1e-3", "1/7", "1", "2.5", "60"))


def digits(chance: Any, words: int) -> list[int]:
    """The leading binary digits of an mpmath number, 64 to a word."""
    whole = int(mp.floor(chance * mp.mpf(2) ** (64 * words)))
    return [whole >> (64 * (words - 1 - place)) & (2**64 - 1) for place in range(words)]


def given(words: Sequence[int]) -> Stream:
    """A source of given words; asking for more is an error."""
    return Stream(np.array(words, dtype=np.uint64))


def to_mpf(x: Fraction) -> Any:
    return mp.mpf(x.numerator) / x.denominator


@pytest.mark.parametrize("x", EXPONENTS, ids=str)
def test_chances_have_the_binary_digits_of_the_true_number(x: Fraction) -> None:
    with mp.workdps(700):
        for chance, true in (
            (sampling._exp_chance(x), mp.exp(-to_mpf(x))),
            (sampling._digit_chance(x), 1 / (1 + mp.exp(to_mpf(x)))),
        ):
            assert [chance.word(place) for place in range(24)] == digits(true, 24)


@pytest.mark.parametrize("x", EXPONENTS, ids=str)
def test_an_event_is_decided_by_the_first_digits_that_differ(x: Fraction) -> None:
    chance = sampling._exp_chance(x)
    first, second = chance.word(0), chance.word(1)
    tried = [(first, second), (first, second + 1)]
    if second:
        tried.append((first, second - 1))
    outcomes = []
    for words in tried:
        third = chance.word(2)
        source = given([*words, third + 1])
        outcomes.append(bool(chance.draw(1, source)[0]))
        undecided = words == (first, second)
        assert len(source.left) == (0 if undecided else 1)
    assert outcomes == [False, False, True][: len(tried)]
    if first:
        assert chance.draw(1, given([first - 1]))[0]
    assert not chance.draw(1, given([first + 1]))[0]


@pytest.mark.parametrize("rate", RATES, ids=str)
def test_binary_digits_and_the_rest_make_a_geometric_number(rate: Fraction) -> None:
    """The product of the digits' chances is (1 − α)·α^g for every g."""
    low = max(0, math.ceil(1 / rate) - 1).bit_length()
    assert rate * 2**low >= 1
    assert low == 0 or rate * 2 ** (low - 1) < 1
    with mp.workdps(60):
        alpha = mp.exp(-to_mpf(rate))
        up = alpha ** (2**low)
        for g in (*range(20), 2**low, 3 * 2**low + 1):
            law = (1 - up) * up ** (g >> low)
            for place in range(low):
                one = 1 / (1 + alpha ** (-(2**place)))
                law *= one if g >> place & 1 else 1 - one
            assert abs(law / ((1 - alpha) * alpha**g) - 1) < mp.mpf(10) ** -50


def test_a_geometric_number_is_put_together_from_its_digits() -> None:
    rate = Fraction(1, 5)  # three digits, then steps of 8
    never, always = 2**64 - 1, 0
    drawn = sampling.geometric(rate, 1, given([always, never, always, always, always, never]))
    assert drawn.tolist() == [1 + 4 + 8 + 8]


@pytest.mark.parametrize("rate", RATES, ids=str)
def test_noise_follows_the_law(rate: Fraction) -> None:
    """Mean and variance to LIMIT standard errors; a variance 5 % off would be seen."""
    count = 200_000
    drawn = sampling.discrete_laplace(rate, count, SeededBits(11)).astype(np.float64)
    variance = laplace_variance(rate)
    with mp.workdps(40):
        alpha = mp.exp(-to_mpf(rate))
        true = 2 * alpha / (1 - alpha) ** 2
        # E z⁴ = 2α(1 + 10α + α²)/(1 − α)⁴
        fourth = float(2 * alpha * (1 + 10 * alpha + alpha**2) / (1 - alpha) ** 4)
        assert math.isclose(variance, float(true), rel_tol=1e-12)
    if variance < 1e-3:
        assert not drawn.any()
        return
    assert abs(drawn.mean()) <= LIMIT * math.sqrt(variance / count)
    error = math.sqrt((fourth - variance**2) / count)
    assert abs((drawn**2).mean() - variance) <= LIMIT * error
    assert 0.05 * variance > 2 * LIMIT * error or variance < 0.5


def test_noise_frequencies_agree_with_the_law_and_with_opendp() -> None:
    dp.enable_features("contrib")
    rate, count = Fraction(1, 2), 40_000
    ours = sampling.discrete_laplace(rate, count, SeededBits(5))
    alpha = math.exp(-0.5)
    values = np.arange(-8, 9)
    law = (1 - alpha) / (1 + alpha) * alpha ** np.abs(values)
    law = np.append(law, 1 - law.sum())

    def score(drawn: NDArray[np.int64], chances: NDArray[np.float64]) -> float:
        seen = np.array([(drawn == value).sum() for value in values])
        seen = np.append(seen, len(drawn) - seen.sum())
        return float(stats.chisquare(seen, chances * len(drawn)).pvalue)

    assert score(ours, law) > 1e-4
    off = math.exp(-0.55)
    wrong = (1 - off) / (1 + off) * off ** np.abs(values)
    assert score(ours, np.append(wrong, 1 - wrong.sum())) < 1e-6
    # The same law, drawn and accounted for by an independent library.
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    theirs = dp.m.make_laplace(*space, scale=2.0)
    assert theirs.map(3) == pytest.approx(float(rate * 3), rel=1e-9)
    assert score(np.array(theirs([0] * count)), law) > 1e-6


def test_each_rate_has_its_own_noise() -> None:
    rates = [Fraction(1, 100), None, Fraction(80), Fraction(1, 100)] * 500
    drawn = sampling.discrete_laplaces(rates, SeededBits(2)).reshape(-1, 4)
    assert not drawn[:, 1:3].any()
    spread = drawn[:, [0, 3]].astype(np.float64)
    variance = laplace_variance(Fraction(1, 100))
    # E z⁴ is 6·variance² nearly, so that the mean of 1,000 squares has an error of √(5/1000).
    assert abs((spread**2).mean() / variance - 1) <= LIMIT * math.sqrt(5 / 1000)
    with pytest.raises(StudyError, match=r"2\^-48"):
        sampling.discrete_laplace(Fraction(1, 2**49), 1, SeededBits(1))


def held(
    coefficients: Sequence[float], rates: Sequence[float], h: float, reach: int = 400
) -> float:
    """P(|Σ b_k·z_k| ≤ h) for two terms, by summing the joint law."""
    z = np.arange(-reach, reach + 1)
    laws = []
    for rate in rates:
        law = math.exp(-rate) ** np.abs(z)
        laws.append(law / law.sum())
    total = coefficients[0] * z[:, None] + coefficients[1] * z[None, :]
    return float(np.multiply.outer(laws[0], laws[1])[np.abs(total) <= h + 1e-9].sum())


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
@pytest.mark.parametrize(
    ("coefficients", "rates"),
    [((1, 1), (0.1, 0.1)), ((1, -0.5), (0.3, 1.0)), ((2, 3), (1.0, 2.0))],
    ids=str,
)
def test_on_a_lattice_the_quantile_is_exact(
    coefficients: tuple[float, float], rates: tuple[float, float], level: float
) -> None:
    h = sum_quantile(coefficients, rates, level)
    assert held(coefficients, rates, h) >= level - 1e-12
    assert held(coefficients, rates, h - 0.5) < level or h == 0


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("rates", [(0.1, 0.1), (0.05, 0.4)], ids=str)
def test_off_a_lattice_the_quantile_holds_and_hardly_more(
    rates: tuple[float, float], level: float
) -> None:
    coefficients = (1.0, 1 / math.pi)
    h = sum_quantile(coefficients, rates, level)
    spread = math.sqrt(
        sum(b**2 * laplace_variance(r) for b, r in zip(coefficients, rates, strict=True))
    )
    assert held(coefficients, rates, h) >= level - 1e-9
    # The smoothing reaches 0.4 % of a standard error on both sides, and atoms are that close.
    assert held(coefficients, rates, h - 0.02 * spread) < level


def test_the_normal_law_would_be_wrong_in_the_tails() -> None:
    """Why intervals come from the law itself: the twin of the tests above."""
    rate, level = 0.01, 0.999
    normal = 3.2905 * math.sqrt(laplace_variance(rate))
    alpha = math.exp(-rate)
    outside = 2 * alpha ** (math.floor(normal) + 1) / (1 + alpha)
    assert outside > 9 * (1 - level)
    assert sum_quantile([1.0], [rate], level) > 1.4 * normal


def test_single_terms_have_the_closed_form() -> None:
    for rate, level in itertools.product((0.01, 0.5, 3.0), (0.1, 0.9, 0.9999)):
        h = sum_quantile([-2.0], [rate], level) / 2
        alpha = math.exp(-rate)
        assert h == round(h)
        assert 1 - 2 * alpha ** (h + 1) / (1 + alpha) >= level - 1e-9
        assert h == 0 or 1 - 2 * alpha**h / (1 + alpha) < level


def test_many_terms_come_close_to_the_normal_law() -> None:
    rng = np.random.default_rng(4)
    b = rng.random(300) + 0.5
    h = sum_quantile(b, [0.3] * 300, 0.95)
    spread = math.sqrt(float((b**2).sum()) * laplace_variance(0.3))
    assert h / (1.959964 * spread) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("level", [0.0, 1.0, 1.5, -1.0])
def test_levels_must_be_chances(level: float) -> None:
    with pytest.raises(QuestionError, match=f"level={level}"):
        sum_quantile([1.0], [0.1], level)


def test_extreme_rates_have_stable_variances() -> None:
    assert laplace_variance(1e-12) == pytest.approx(2e24)
    assert laplace_variance(700) == pytest.approx(2 * math.exp(-700))
    assert laplace_variance(Fraction(10**6)) == 0
    assert sum_quantile([1.0], [Fraction(10**6)], 0.95) == 0


def test_threads_that_ask_at_once_find_the_same_digits() -> None:
    """A chance's digits are kept for all; a place that two threads fill at once must hold its own.

    The bounds of the one wait for those of the other, so that both have found nothing yet.
    """
    both = threading.Barrier(2)

    def bounds(work: int) -> tuple[int, int]:
        both.wait(timeout=5)
        third = (1 << work) // 3
        return third, third

    chance = _Chance(bounds, Fraction(1))
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(chance.word(0))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other = [threading.Thread(target=lambda: found.append(chance.word(1))) for _ in range(2)]
    for thread in other:
        thread.start()
    for thread in other:
        thread.join()
    third = (1 << 128) // 3
    assert found == [third >> 64] * 2 + [third & (1 << 64) - 1] * 2
