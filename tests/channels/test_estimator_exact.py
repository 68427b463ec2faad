"""Unbiased, with the stated second moment: by exact summation over all outputs of the table."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from helpers_channels import CASES, Case
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

import sfumato as sf
from sfumato.channels.base import Channel, signs
from sfumato.metrics.distance import LineMetric

Floats = NDArray[np.float64]

EPSILONS = tuple(Fraction(text) for text in ("1/10", "1/3", "1", "3"))
SIZES = (2, 3, 7)
ACCURACY = 1e-9


@cache
def bound(case: Case, size: int, eps: Fraction) -> Channel:
    return case.channel(size, eps)


@cache
def table(case: Case, size: int, eps: Fraction) -> tuple[list[list[int]], int]:
    return bound(case, size, eps).words()


def exact_mean(row: Sequence[int], total: int, values: Floats) -> float:
    """Σ P(y)·f(y) in rationals, rounded once."""
    parts = zip(row, values.tolist(), strict=True)
    return float(sum((word * Fraction(value) for word, value in parts), Fraction(0)) / total)


def tolerance(channel: Channel, values: Floats, weights: Floats) -> float:
    """1e-9 of the weights, and what rounding f alone can do.

    Each value of f is a sum of up to `size` terms no larger than the largest of f times the
    condition of the table (1 except for an inverse computed in floats), each rounded by 2^-52; and
    the integer table is within 2^-50 of the formula in total variation.
    """
    condition = np.linalg.cond(channel.likelihood()) if channel.id == "exponential" else 1.0
    rounding = 8 * channel.size * 2.0**-52 * condition * np.abs(values).max()
    return float(ACCURACY * np.abs(weights).max() + rounding)


def weight_vectors(size: int) -> st.SearchStrategy[Floats]:
    numbers = st.floats(-1e6, 1e6, allow_subnormal=False) | st.sampled_from([0.0, 1.0, -1.0])
    return hnp.arrays(np.float64, size, elements=numbers)


settings_here = settings(max_examples=4)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("eps", EPSILONS, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
@settings_here
@given(data=st.data())
def test_mean_is_the_weight_and_second_moment_is_the_sum(
    case: Case, eps: Fraction, size: int, data: st.DataObject
) -> None:
    channel = bound(case, size, eps)
    rows, total = table(case, size, eps)
    w = data.draw(weight_vectors(channel.size))
    values = np.asarray(channel.functional(w))
    squares = [exact_mean(row, total, values**2) for row in rows]
    means = [exact_mean(row, total, values) for row in rows]
    allowed = tolerance(channel, values, w)
    assert np.abs(np.array(means) - w).max() <= allowed
    # f is off by at most `allowed`, so f² by at most 2·|f|·allowed and a rounding.
    off = 2 * np.abs(values).max() * allowed + np.finfo(np.float64).tiny
    assert np.allclose(channel.second_moment(w), squares, rtol=0, atol=off)


@pytest.mark.parametrize("eps", EPSILONS, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
@settings_here
@given(data=st.data())
def test_products_have_the_mean_of_the_product(
    case: Case, eps: Fraction, data: st.DataObject
) -> None:
    """E[f_w·f_v | x] by summation is what `product_coefficients` reads without bias."""
    channel = bound(case, 5, eps)
    rows, total = table(case, 5, eps)
    w, v = data.draw(weight_vectors(channel.size)), data.draw(weight_vectors(channel.size))
    f, g = np.asarray(channel.functional(w)), np.asarray(channel.functional(v))
    product = on_outputs(channel, channel.product_coefficients(w, v))
    means = np.array([exact_mean(row, total, f * g) for row in rows])
    read = np.array([exact_mean(row, total, product) for row in rows])
    room = tolerance(channel, f, w) * np.abs(g).max() + tolerance(channel, g, v) * np.abs(f).max()
    room += tolerance(channel, product, w * v)
    assert np.abs(means - read).max() <= room


def on_outputs(channel: Channel, coefficients: Floats) -> Floats:
    """The value at every output of a function given by its coefficients."""
    if channel.layout.kind == "symbols":
        return coefficients
    return coefficients[0] + signs(channel.layout.count) @ coefficients[1:]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_coefficients_of_many_weights_are_those_of_each(case: Case, seed: int) -> None:
    channel = bound(case, 6, Fraction(1))
    many = np.random.default_rng(seed).normal(size=(3, 4, channel.size))
    together = channel.coefficients(many)
    assert together.shape == (3, 4, channel.layout.features)
    moments = channel.second_moment(many)
    products = channel.product_coefficients(many, many[::-1])
    for place in np.ndindex(3, 4):
        single = channel.functional(many[place])
        parts = single.coefficients
        # The same sums, perhaps in another order: some units in the last place of the largest.
        close = {"rtol": 0, "atol": 64 * 2.0**-52 * np.abs(parts).max()}
        assert np.allclose(together[place], parts, **close)
        assert np.allclose(np.asarray(single), on_outputs(channel, parts), **close)
        assert np.allclose(moments[place], channel.second_moment(many[place]), rtol=1e-12)
        other = channel.product_coefficients(many[place], many[::-1][place])
        assert np.allclose(products[place], other, rtol=0, atol=1e-12 * np.abs(other).max())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_likelihood_is_the_table_in_floats(case: Case) -> None:
    """Products of up to six chances, each within two roundings of 1: 16 units of those."""
    for eps in EPSILONS:
        channel = bound(case, 6, eps)
        rows, total = table(case, 6, eps)
        exact = np.array([[float(Fraction(word, total)) for word in row] for row in rows])
        assert np.allclose(channel.likelihood(), exact, rtol=0, atol=16 * 2.0**-53)


@pytest.mark.parametrize("choice", [sf.Geometric(), sf.Thermometer()], ids=str)
def test_behind_rounding_weights_are_read_as_straight_lines(choice: object) -> None:
    """A value between grid points has the mean of the line between their weights."""
    assert isinstance(choice, sf.Geometric | sf.Thermometer)
    metric = LineMetric.equal(Fraction(1, 2), 5)
    channel = choice.bind(metric, resolution=3)
    rows, total = channel.words()
    w = np.array([0.0, 1.0, 4.0, -2.0, 3.0])
    values = np.asarray(channel.functional(w))
    for part in range(9):
        mixed = [(8 - part) * a + part * b for a, b in zip(rows[1], rows[2], strict=True)]
        mean = exact_mean(mixed, 8 * total, values)
        assert mean == pytest.approx(1 + 3 * part / 8, abs=tolerance(channel, values, w))
        # What rounding adds may only be overstated, so that errors never are understated.
        square = exact_mean(mixed, 8 * total, values**2)
        read = channel.second_moment(w) - w**2 + channel.rounding_excess(w, w)
        line = (8 - part) / 8 * read[1] + part / 8 * read[2]
        assert line >= (square - mean**2) * (1 - ACCURACY)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_weights_of_another_length_are_refused(case: Case) -> None:
    with pytest.raises(ValueError, match="one entry for each of"):
        bound(case, 6, Fraction(1)).functional(np.ones(99))
