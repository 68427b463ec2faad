"""Exact exponential choices: borders and tables are held against e^x to many digits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from helpers_channels import Stream
from helpers_statistics import LIMIT, share_score

from sfumato.errors import StudyError
from sfumato.randomness import exponential as choosing
from sfumato.randomness.bits import SeededBits
from sfumato.randomness.exponential import choose_by_exp, choose_by_scores


def given(words: Sequence[int]) -> Stream:
    """A source of given words; asking for more is an error."""
    return Stream(np.array(words, dtype=np.uint64))


def to_mpf(x: Fraction) -> Any:
    return mp.mpf(x.numerator) / x.denominator


WEIGHTS = (
    (Fraction(0), Fraction(0)),
    (Fraction(0), Fraction(1), Fraction(-2), Fraction(1)),
    (Fraction(1, 3), Fraction(-50), Fraction(22, 7), Fraction(3), Fraction(-(10**6))),
    tuple(Fraction(k, 10) for k in range(30)),
)


@pytest.mark.parametrize("weights", WEIGHTS, ids=len)
def test_a_choice_changes_exactly_at_the_true_borders(weights: tuple[Fraction, ...]) -> None:
    """The words next to every border between options fall on the right side of it."""
    with mp.workdps(120):
        chances = [mp.exp(to_mpf(w)) for w in weights]
        ends = [end / sum(chances) for end in itertools.accumulate(chances)]
        for option, end in enumerate(ends[:-1]):
            border = int(mp.floor(end * mp.mpf(2) ** 192))
            for number in (border - 2**40, border + 2**40):
                if not 0 <= number < 2**192:
                    continue
                words = [number >> shift & (2**64 - 1) for shift in (128, 64, 0)]
                right = sum(1 for other in ends if mp.mpf(number) / mp.mpf(2) ** 192 > other)
                assert choose_by_exp(weights, given([*words, 1, 1, 1])) == right
            assert option < len(weights)


def test_scores_choose_as_weights_do() -> None:
    scores, unit = [3, -5, 10, 10, 0], Fraction(-2, 7)
    for seed in range(200):
        by_score = choose_by_scores(scores, unit, SeededBits(seed))
        by_weight = choose_by_exp([unit * s for s in scores], SeededBits(seed))
        assert by_score == by_weight


def test_choices_have_their_frequencies() -> None:
    weights = [Fraction(0), Fraction(1)]
    runs, bits = 4_000, SeededBits(3)
    second = sum(choose_by_exp(weights, bits) for _ in range(runs))
    true = math.e / (1 + math.e)
    assert abs(share_score(second, runs, true)) <= LIMIT
    assert abs(share_score(second, runs, true + 0.07)) > LIMIT  # 0.07 is ten standard errors
    # A tie is settled by digits as well, and a sole option needs none of them to be right.
    assert choose_by_exp([Fraction(5)], SeededBits(1)) == 0
    for nothing in ([], ()):
        with pytest.raises(StudyError, match="at least one option"):
            choose_by_exp(nothing, SeededBits(1))
        with pytest.raises(StudyError, match="at least one option"):
            choose_by_scores(nothing, Fraction(1), SeededBits(1))


@pytest.mark.parametrize("precision", [64, 98, 130, 200])
def test_integer_tables_bound_the_true_weights(precision: int) -> None:
    rng = np.random.default_rng(precision)
    x = [Fraction(int(n), 10**6) for n in rng.integers(0, 10**8, 200)] + [Fraction(0), Fraction(1)]
    cut = np.array([(e.numerator << precision) // e.denominator for e in x], dtype=object)
    lows, slack = choosing._exp_table(cut, precision)
    assert slack < 100
    with mp.workdps(100):
        for exponent, low in zip(x, lows, strict=True):
            true = mp.exp(-to_mpf(exponent)) * mp.mpf(2) ** precision
            assert low <= true <= low + slack


# Quantiles of sums
