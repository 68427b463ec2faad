"""Noise is right for the queries as they are given, however unlike their numbers are."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import sfumato as sf
from sfumato.noise.allocate import allocate, check
from sfumato.noise.given import Given
from sfumato.questions.lattice import Lattice

FLAT = [[0, 1, 1], [1, 0, 1], [1, 1, 0]]


def binary(value: Any) -> Fraction:
    return Fraction(value)


def decimal(value: Any) -> Fraction:
    return Fraction(repr(float(value))) if isinstance(value, float) else Fraction(value)


def overspent(queries: Any, distances: Any, scales: Any) -> bool:
    """Whether some pair spends more than its distance in exact arithmetic, by either reading."""
    for reading in (binary, decimal):
        rows = [[reading(value) for value in row] for row in queries]
        for i in range(len(distances)):
            for j in range(i):
                if math.isinf(distances[i][j]):
                    continue
                spent = Fraction(0)
                for row, scale in zip(rows, scales, strict=True):
                    apart = abs(row[i] - row[j])
                    if apart and not scale:
                        return True
                    spent += apart / Fraction(scale) if apart else 0
                if spent > decimal(distances[i][j]):
                    return True
    return False


CASES = {
    # Rounded to a millionth of its range, the row would not tell cells 1 and 2 apart.
    "needs four": ([[0.0, 1.0, 1 + 2.0**-28]], [[0, 1, 1], [1, 0, 2.0**-30], [1, 2.0**-30, 0]]),
    "close where distances are finite": (
        [[0.0, 1e-9, 1.0]],
        [[0, 1, math.inf], [1, 0, math.inf], [math.inf, math.inf, 0]],
    ),
    "next to each other": ([[1.1, math.nextafter(1.1, 2), 1.1]], FLAT),
    "a large constant": ([[1e9 + 0.1, 1e9 + 0.3, 1e9]], FLAT),
    "small beside large": ([[1e-300, 0.0, 1.0], [1.0, 1 - 2.0**-53, 0.0]], FLAT),
    "small and large rows": ([[1e-300, 0.0, 2e-300], [0.0, 1e300, 0.0]], FLAT),
    "large rows": ([[1e300, 0.0, 3e299], [0.0, 1e300, 0.0]], FLAT),
    "small rows": ([[1e-300, 0.0, 3e-300], [0.0, 5e-324, 0.0]], FLAT),
    "thirds": ([[1 / 3, 2 / 3, 0.0]], FLAT),
    "a scale that no double is": ([[Fraction(1, 3), Fraction(0), Fraction(0)]], FLAT),
}


@pytest.mark.parametrize("name", CASES)
def test_no_pair_spends_more_than_its_distance(name: str) -> None:
    queries, distances = CASES[name]
    found = sf.allocate(queries, distances)
    assert not overspent(queries, distances, found.scales.tolist())
    assert not overspent(queries, distances, [rate and 1 / rate for rate in found.rates])
    assert check(queries, distances, found.rates)


def test_the_noise_is_no_larger_than_it_must_be() -> None:
    queries, distances = CASES["needs four"]
    assert sf.allocate(queries, distances).scales == pytest.approx([4], rel=1e-7)
    queries, distances = CASES["close where distances are finite"]
    assert sf.allocate(queries, distances).scales == pytest.approx([1e-9], rel=1e-7)


def test_the_check_sees_what_rounding_would_hide() -> None:
    queries, distances = CASES["needs four"]
    assert not check(queries, distances, [Fraction(1)])
    assert not check(queries, distances, [Fraction(1, 4) * (1 + Fraction(1, 2**40))])
    assert check(queries, distances, [Fraction(1, 4) * (1 - Fraction(1, 2**20))])
    queries, distances = CASES["close where distances are finite"]
    assert not check(queries, distances, [None])
    assert overspent(queries, distances, [0.0])  # nor does the one above


def test_cells_at_distance_0_may_not_be_told_apart_however_slightly() -> None:
    with pytest.raises(sf.StudyError, match=r"cell 0 and cell 1 are at distance 0.*query 0"):
        sf.allocate([[0.0, 1e-9, 1.0]], [[0, 0, 1], [0, 0, 1], [1, 1, 0]])


def test_a_scale_beyond_all_doubles_is_refused() -> None:
    with pytest.raises(sf.TooLargeError, match=r"a scale beyond 1e308.*larger units"):
        sf.allocate([[1e308, 0.0, 0.0], [0.0, 1.0, 0.0]], np.array(FLAT) * 1e-3)


def test_queries_too_unlike_for_a_published_method_are_refused() -> None:
    with pytest.raises(sf.TooLargeError, match=r"1e100 times.*method='shared'.*'exact'"):
        sf.allocate([[1e-300, 0.0, 0.0], [0.0, 1.0, 0.0]], FLAT, method="shared")


def test_numbers_that_are_not_finite_are_refused() -> None:
    with pytest.raises(sf.QuestionError, match="row 1"):
        sf.allocate([[0.5, 0, 0], [math.nan, 0, 0]], FLAT)


NUMBERS = st.one_of(
    st.sampled_from([0.0, 1.0, 0.1, 1 / 3, 1e-300, 1e300, 5e-324, 1 + 2.0**-52, 1 - 2.0**-53]),
    st.floats(-1e300, 1e300),
    st.floats(0, 1),
    st.integers(-5, 5).map(float),
    st.integers(0, 3).map(lambda k: 0.7 + k * 2.0**-53),
)


@pytest.mark.parametrize("times", [1e-300, 1e-150, 1e150, 1e300])
def test_distances_of_any_size_are_kept(times: float) -> None:
    queries = [[1 / 3, 0.0, 0.1], [0.0, 0.75, 0.0]]
    distances = (np.array(FLAT) * times).tolist()
    found = sf.allocate(queries, distances)
    assert not overspent(queries, distances, found.scales.tolist())
    assert found.scales * times == pytest.approx(sf.allocate(queries, FLAT).scales, rel=1e-6)


DISTANCES = st.sampled_from([0.3, 1.0, 2.0, 1e-6, math.inf])


@settings(max_examples=60)
@given(st.data(), st.integers(2, 4), st.integers(1, 3))
def test_the_promise_holds_exactly_for_any_numbers(data: st.DataObject, n: int, k: int) -> None:
    queries = [[data.draw(NUMBERS) for _ in range(n)] for _ in range(k)]
    distances = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i):
            distances[i][j] = distances[j][i] = data.draw(DISTANCES)
    try:
        found = allocate(queries, distances)
    except sf.TooLargeError:  # a scale beyond all doubles
        return
    assert not overspent(queries, distances, found.scales.tolist())
    assert check(queries, distances, found.rates)


class TestLattices:
    def test_whole_numbers_and_lattices_are_taken_as_they_are(self) -> None:
        held = Lattice.of([[1 / 3, 0], [2, 4]])
        assert Given.of(held).lattice is held
        assert not any(Given.of(held).off)
        read = Given.of([[3, 0, 6], [0, 0, 0]])
        assert (read.lattice.units, read.off) == ((3, 1), (0, 0))
        halves = Given.of([[0.5, 0.25], [1, 3]])  # read the same either way
        assert (halves.lattice.units, halves.off) == ((Fraction(1, 4), 1), (0, 0))

    def test_a_decimal_is_off_by_its_binary_reading(self) -> None:
        read = Given.of([[0.1, 0.2]])
        assert read.lattice.units == (Fraction(1, 10),)
        assert read.off == (Fraction(0.2) - Fraction(1, 5),)

    def test_different_numbers_stay_different(self) -> None:
        row = [0.0, 1e-300, 2e-300, 1 - 2.0**-53, 1.0]
        steps = Given.of([row]).lattice.row(0).tolist()
        assert steps == sorted(set(steps))
        assert steps[:3] == [0, 1, 2]

    def test_sparse_rows_keep_their_zeros(self) -> None:
        rng = np.random.default_rng(3)
        full = np.where(rng.uniform(size=(2**6, 2**16)) < 1e-3, 1 / 3, 0.0)
        full[0, :4] = [-1.0, 1e-300, 2e-300, 1.0]
        read = Given.of(sparse.csr_array(full))
        assert read.lattice.is_sparse
        assert read.lattice.row(0)[:4].tolist() == [-(2**49), 1, 2, 2**49]
        whole = read.lattice.matrix().toarray()
        assert np.abs(whole - full).max() <= float(max(read.off))
        assert not whole[full == 0].any()
