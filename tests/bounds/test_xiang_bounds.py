"""Theorems 2 to 5 of Xiang et al. 2020 beside the exact errors of the thermometer."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

import sfumato as sf
from sfumato import bounds
from sfumato.arrays import Floats
from sfumato.bounds.scale import scale
from sfumato.channels.base import Channel
from sfumato.errors import StudyError
from sfumato.metrics.distance import LineMetric

EPSILONS = ("1/20", "1/2", "1", "3")
CELLS = 5
VARIANTS = ("exact", "published")


@cache
def channel(variant: str, epsilon: str, cells: int = CELLS) -> Channel:
    return sf.Thermometer(variant).bind(LineMetric.equal(Fraction(epsilon), cells))


def intervals() -> dict[str, Floats]:
    """One interval of each kind on an axis."""
    cells = np.arange(CELLS)
    return {
        "inner": ((cells >= 1) & (cells <= 3)).astype(float),
        "ends": (cells <= 2).astype(float),
        "full": np.ones(CELLS),
    }


def exact_variances(variant: str, epsilon: str, kinds: tuple[str, ...]) -> Floats:
    """One person's variance at every cell of the grid: products of second moments."""
    one, held = channel(variant, epsilon), intervals()
    moment: Floats = np.ones(())
    square: Floats = np.ones(())
    for kind in kinds:
        moment = np.multiply.outer(moment, one.second_moment(held[kind]))
        square = np.multiply.outer(square, held[kind] ** 2)
    return moment - square


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_corrected_bound_is_the_largest_exact_variance(variant: str, epsilon: str) -> None:
    for axes in (1, 2, 3):
        for kinds in itertools.combinations_with_replacement(("inner", "ends", "full"), axes):
            counts = {kind: kinds.count(kind) for kind in ("inner", "ends", "full")}
            found = bounds.thermometer_variance(
                epsilon, 7, **counts, published=variant == "published"
            )
            exact = 7 * exact_variances(variant, epsilon, kinds).max()
            assert found == pytest.approx(exact, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_theorems_2_and_3_hold_on_one_axis(epsilon: str) -> None:
    """And are reached by the published code; the exact last bit stays below."""
    for kinds, cut in ((("inner",), 1), (("ends",), 1), (("full",), 0)):
        bound = bounds.xiang_theorem_3(epsilon, 1, nontrivial=cut)
        published = exact_variances("published", epsilon, kinds).max()
        assert published == pytest.approx(bound, rel=1e-9)
        assert exact_variances("exact", epsilon, kinds).max() <= bound * (1 + 1e-9)
    assert bounds.xiang_theorem_2(epsilon, 1) == bounds.xiang_theorem_3(epsilon, 1)


def test_theorems_2_and_3_fail_on_more_axes_as_the_erratum_says() -> None:
    """ε = 0.5, everybody at the queried value: 77.1·n against 69.2·n, 53,800·n against 40,200·n."""
    for axes, exact, printed in ((2, 77.1, 69.2), (5, 53_800, 40_200)):
        assert bounds.xiang_theorem_2("0.5", 1, axes, as_printed=True) == pytest.approx(
            printed, rel=2e-3
        )
        corrected = bounds.thermometer_variance("0.5", 1, inner=axes, published=True)
        assert corrected == pytest.approx(exact, rel=2e-3)
        assert corrected > 1.1 * bounds.xiang_theorem_3("0.5", 1, axes, as_printed=True)
    assert exact_variances("published", "0.5", ("inner", "inner")).max() > 77
    # Even with the exact last bit, where no box touches an end.
    assert exact_variances("exact", "0.5", ("inner", "inner")).max() > 69.3


def weighted(variant: str, epsilon: str, kinds: tuple[str, ...], u: float) -> Floats:
    """One person's variance of a private weight u of 1, rounded to 0 or 1, over a box."""
    rounded = channel(variant, epsilon, 2).second_moment(np.array([0.0, 1.0]))
    held = intervals()
    moment = np.array((1 - u) * rounded[0] + u * rounded[1])
    mean: Floats = np.array(u)
    for kind in kinds:
        moment = np.multiply.outer(moment, channel(variant, epsilon).second_moment(held[kind]))
        mean = np.multiply.outer(mean, held[kind])
    return moment - mean**2


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_corrected_bound_of_weights_is_the_largest_exact_variance(
    variant: str, epsilon: str
) -> None:
    published = variant == "published"
    for kinds in (("inner",), ("ends",), ("full",), ("inner", "ends")):
        counts = {kind: kinds.count(kind) for kind in ("inner", "ends", "full")}
        found = bounds.weighted_thermometer_variance(
            epsilon, 1, 3, **counts, private=True, published=published
        )
        exact = [weighted(variant, epsilon, kinds, u).max() for u in np.linspace(0, 1, 101)]
        assert 9 * max(exact) <= found * (1 + 1e-9)
        assert 9 * max(exact) >= found * (1 - 1e-4)  # on a grid of weights
        public = bounds.weighted_thermometer_variance(epsilon, 1, 3, **counts, published=published)
        assert public == 9 * bounds.thermometer_variance(epsilon, 1, **counts, published=published)


def test_theorem_4_holds_for_public_weights_on_one_axis_and_never_for_private_ones() -> None:
    for epsilon in EPSILONS:
        public = bounds.xiang_theorem_4(epsilon, 1, 2)
        assert public == 4 * bounds.xiang_theorem_3(epsilon, 1)
        printed = bounds.xiang_theorem_4(epsilon, 1, 1, private=True, as_printed=True)
        assert weighted("published", epsilon, ("inner",), 1.0).max() > printed
        cut = bounds.xiang_theorem_4(epsilon, 1, 1, nontrivial=0, private=True, as_printed=True)
        assert weighted("published", epsilon, ("full",), 1.0).max() > cut


@pytest.mark.parametrize("epsilon", ["1/4", "1", "3"])
@pytest.mark.parametrize("n", [20, 200])
def test_lemma_1_holds_exactly(epsilon: str, n: int) -> None:
    """The published estimate adds two noisy bits a person: flips are binomial, k of them below."""
    s, q = scale(epsilon), 1 / (1 + math.exp(float(Fraction(epsilon))))
    for below in (0, n // 3, n):
        # Ones among the bits at the threshold, by people below it and above, and last bits.
        at = np.convolve(
            stats.binom(below, 1 - q).pmf(np.arange(below + 1)),
            stats.binom(n - below, q).pmf(np.arange(n - below + 1)),
        )
        law = np.convolve(at, stats.binom(n, 1 - q).pmf(np.arange(n + 1)))
        error = s * (2 * np.arange(2 * n + 1) - 2 * n) / (2 * n) - below / n
        for delta in (0.5, 0.2, 0.01):
            bound = bounds.xiang_lemma_1(epsilon, n, delta)
            assert law[np.abs(error) > bound].sum() <= delta
        if epsilon != "3":  # not for nothing: a third of the bound fails where bits are flipped
            assert law[np.abs(error) > bounds.xiang_lemma_1(epsilon, n, 0.01) / 3].sum() > 0.01


def test_theorem_5_is_lemma_1_at_every_threshold_of_a_bisection() -> None:
    for cells, steps in ((2, 1), (8, 3), (9, 4), (200, 8)):
        assert bounds.xiang_theorem_5(1, 500, cells, 0.1) == pytest.approx(
            2 * bounds.xiang_lemma_1(1, 500, 0.1 / (2 * steps))
        )


REFUSED: list[tuple[Any, str]] = [
    (lambda: bounds.xiang_theorem_2(1, 10, 2), r"Theorem 2 of Xiang.*one axis.*dimensions=2.*Use"),
    (lambda: bounds.xiang_theorem_3(1, 10, 3), r"Theorem 3 of Xiang.*dimensions=3.*as_printed"),
    (lambda: bounds.xiang_theorem_4(1, 10, 1, 2), r"Theorem 4\(1\).*dimensions=2"),
    (lambda: bounds.xiang_theorem_4(1, 10, 1, private=True), r"Theorem 4\(2\).*no bound.*Use"),
    (lambda: bounds.xiang_theorem_2(0, 10), "epsilon must be positive and finite, got epsilon=0"),
    (lambda: bounds.xiang_theorem_2(1, 0), "n must be a whole number of at least 1, got n=0"),
    (lambda: bounds.xiang_theorem_3(1, 10, nontrivial=2), "nontrivial must be"),
    (lambda: bounds.thermometer_variance(1, 10, inner=0), "a box needs an axis"),
    (lambda: bounds.xiang_lemma_1(1, 10, 0.6), r"Lemma 1.*0 < δ <= 1/2, got delta=0.6"),
    (lambda: bounds.xiang_theorem_5(1, 10, 8, 0.9), r"Theorem 5.*got delta=0.9"),
    (lambda: bounds.xiang_theorem_5(1, 10, 1, 0.1), "cells must be a whole number of at least 2"),
    (lambda: bounds.xiang_theorem_4(1, 10, -1.0), "largest must be positive"),
]


@pytest.mark.parametrize(("call", "told"), REFUSED, ids=[told for _, told in REFUSED])
def test_a_bound_is_refused_where_its_theorem_does_not_hold(call: Any, told: str) -> None:
    with pytest.raises(StudyError, match=told):
        call()


def test_limits_are_infinite_or_one_and_never_an_overflow() -> None:
    assert bounds.thermometer_variance(1e-300, 1) == math.inf
    assert bounds.thermometer_variance(1e-10, 1, inner=100) == math.inf
    assert bounds.thermometer_variance(1e5, 1, inner=100) == 0
