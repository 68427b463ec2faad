"""Every pair is decided exactly, and rational rates keep every pair."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from helpers_noise import points
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from sfumato import questions
from sfumato.exact import rational
from sfumato.metrics.distance import LineMetric
from sfumato.metrics.edges import edges_of, edges_of_matrix, read_edges
from sfumato.metrics.labelled import BlockMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.noise import certify
from sfumato.noise.allocate import allocate, check
from sfumato.noise.certify import RationalSums
from sfumato.noise.problem import read_problem
from sfumato.questions.lattice import Lattice


def spent(queries: Any, rates: Any, i: int, j: int) -> Fraction:
    """Σ_k u_k·|Q_ki − Q_kj| in rationals, straight from the definition."""
    rows = [[rational(q, "q") for q in row] for row in np.asarray(queries).tolist()]
    return sum(
        (u * abs(row[i] - row[j]) for row, u in zip(rows, rates, strict=True) if u is not None),
        Fraction(0),
    )


# ---- certainty ---------------------------------------------------------------------------------


@given(st.integers(0, 10**6))
@settings(max_examples=40)
def test_every_pair_holds_in_rational_arithmetic(case: int) -> None:
    rng = np.random.default_rng(case)
    cells, K = int(rng.integers(2, 9)), int(rng.integers(1, 6))
    d = rng.choice([0.1, 0.3, 1, 2, 7, np.inf], (cells, cells))
    if case % 2:
        d = points(rng, cells)
    Q = rng.integers(-3, 4, (K, cells)) if case % 3 else rng.uniform(size=(K, cells)).round(5)
    method = ("exact", "psa", "equal", "shared")[case % 4]
    found = allocate(Q, d, method=method)
    assert check(Q, d, found.rates)
    for i, j in itertools.combinations(range(cells), 2):
        for length in (d[i, j], d[j, i]):
            if np.isfinite(length):
                exact = Fraction(float(length)) if case % 2 else rational(length, "d")
                assert spent(Q, found.rates, i, j) <= exact


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["list", "group", "table"])
def test_an_excess_beyond_all_rounding_is_found(kind: str) -> None:
    rng = np.random.default_rng(4)
    cells = 30
    Q = rng.integers(0, 9, (12, cells))
    metric: Any = {
        "list": LineMetric.equal(Fraction(1, 3), cells),
        "group": UniformMetric(Fraction(1, 3), cells),
        "table": points(rng, cells),
    }[kind]
    rates = list(allocate(Q, metric).rates)
    edges = metric if kind != "table" else edges_of_matrix(metric)
    edges = edges if kind == "table" else edges_of(edges)
    listed = edges.listed()
    # Raise one rate until its tightest pair is spent to the last, exactly.
    room = []
    for i, j, length in zip(listed.first, listed.second, listed.lengths, strict=True):
        apart = abs(int(Q[0, i]) - int(Q[0, j]))
        if apart:
            room.append((length - spent(Q, rates, int(i), int(j))) / apart)
    rates[0] += min(room)
    assert check(Q, metric, rates)
    rates[0] += Fraction(1, 10**30)
    beyond = check(Q, metric, rates)
    assert not beyond
    i, j = beyond.pair or (0, 0)
    length = next(
        length
        for a, b, length in zip(listed.first, listed.second, listed.lengths, strict=True)
        if {int(a), int(b)} == {i, j}
    )
    assert spent(Q, rates, i, j) > length


def test_whole_numbers_in_doubles_decide_where_they_are_exact() -> None:
    flat = UniformMetric(Fraction(1), 40)
    rows = questions.Identity(40)
    half = [Fraction(1, 2)] * 40
    assert check(rows, flat, half)
    assert not check(rows, flat, [*half[:-1], Fraction(2**30 + 1, 2**31)])


def test_answers_without_noise_must_be_the_same_for_all_that_are_near() -> None:
    assert check([[1, 1, 0]], BlockMetric(Fraction(1), np.array([0, 0, 1])), [None])
    assert check([[1, 0, 0]], BlockMetric(Fraction(1), np.array([0, 0, 1])), [None]).pair == (0, 1)
    assert check([[1, 0, 0]], LineMetric.equal(Fraction(1), 3), [None]).pair == (0, 1)
    assert check([[1, 0, 0]], LineMetric.equal(Fraction(1), 3), [0])


@pytest.mark.slow
@given(
    st.lists(st.integers(0, 2**40), min_size=1, max_size=4),
    st.lists(st.fractions(min_value=Fraction(1, 10**9), max_value=10**6), min_size=4, max_size=4),
)
def test_sums_are_exact_whatever_their_size(steps: list[int], rates: list[Fraction]) -> None:
    used = rates[: len(steps)]
    sums = RationalSums(used)
    wanted = sum((u * n for u, n in zip(used, steps, strict=True)), Fraction(0))
    row = np.array([steps], dtype=np.float64)
    for apart in (row, sparse.csr_array(row)):
        assert Fraction(sums.exactly(apart)[0], sums.denominator) == wanted
    far = np.array([[step * 2**12 for step in steps]], dtype=np.float64)
    assert Fraction(sums.exactly(far)[0], sums.denominator) == wanted * 2**12


def test_rates_suit_exact_samplers() -> None:
    rng = np.random.default_rng(2)
    found = allocate(rng.uniform(size=(6, 20)).round(4), points(rng, 20))
    for rate in found.step_rates:
        assert rate is not None
        assert rate.numerator < 2**31
        assert rate.denominator < 2**62
    assert certify.round_down(0.3) <= Fraction(3, 10)
    assert float(certify.round_down(0.3)) == pytest.approx(0.3, rel=2**-29)


def test_rates_far_from_holding_are_not_certified() -> None:
    single = read_problem(Lattice.of([[0, 1]]), read_edges([[0, 1], [1, 0]]), None, None)
    with pytest.raises(ArithmeticError, match="far from holding"):
        certify.certify(single, np.array([2.0]), [Fraction(1)])
    assert certify.verify(single, [Fraction(1)])


def test_simple_rates_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least is at u ∝ w^(1/3): 0.500004 must not become 1/2 while the others stay as they are.

    The twin: where any loss is taken, the total is 5e-6 above the least.
    """
    shares = np.array([0.500004, 0.286127, 0.213869])
    rows, flat = [[0, 1]] * 3, [[0, 1], [1, 0]]
    found = allocate(rows, flat, weights=shares**3)
    assert found.gap is not None
    assert found.gap < 1e-8
    assert [float(rate or 0) for rate in found.rates] == pytest.approx(shares, rel=1e-5)
    monkeypatch.setattr(certify, "_LOST", 1.0)
    simple = allocate(rows, flat, weights=shares**3)
    assert simple.rates[0] == Fraction(1, 2)
    assert simple.gap is not None
    assert simple.gap > 1e-6
