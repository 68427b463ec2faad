"""Allocation of noise: closed forms, refusals, and many queries."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from helpers_noise import points
from scipy import sparse

from sfumato import questions
from sfumato.errors import StudyError, TooLargeError
from sfumato.metrics.distance import LineMetric
from sfumato.metrics.edges import Cliques, Edges, edges_of_matrix
from sfumato.metrics.labelled import BlockMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.noise import interior, problem
from sfumato.noise.allocate import allocate, check

# ---- closed forms ------------------------------------------------------------------------------


@pytest.mark.parametrize("cells", [2, 7, 100])
def test_prefixes_on_a_line_get_all_of_every_step(cells: int) -> None:
    found = allocate(questions.Prefixes(cells), LineMetric.equal(Fraction(1, 5), cells))
    noisy = [rate for rate in found.rates if rate is not None]
    assert noisy == [Fraction(1, 5)] * (cells - 1)  # Xiang et al. 2020, §3.3: s = 1/ε
    assert found.rates.count(None) == 1  # the last prefix is everyone
    assert found.objective == pytest.approx(25 * (cells - 1))
    assert len(found.binding) == cells - 1


def test_uneven_steps_are_recovered_as_rationals() -> None:
    steps = [Fraction(1, 3), Fraction(2), Fraction(1, 7), Fraction(5, 11)]
    found = allocate(questions.Prefixes(5), LineMetric(steps))
    assert found.rates == (*steps, None)


@pytest.mark.parametrize("cells", [3, 30, 300])
def test_single_cells_under_one_epsilon_get_half_each(cells: int) -> None:
    found = allocate(questions.Identity(cells), UniformMetric(Fraction(1, 3), cells))
    assert set(found.rates) == {Fraction(1, 6)}
    assert found.gap is not None
    assert found.gap < 1e-11


def test_a_single_query_has_the_published_closed_form() -> None:
    rng = np.random.default_rng(0)
    d = points(rng, 50)
    for _ in range(20):
        q = rng.uniform(size=50).round(6)
        np.fill_diagonal(d, np.inf)
        c = (np.abs(q[:, None] - q) / d).max()  # Kamalaruban et al. 2020, §4.1
        np.fill_diagonal(d, 0)
        found = allocate(q, d)
        assert found.scales[0] == pytest.approx(c, rel=1e-8)
        assert found.scales[0] >= c * (1 - 1e-13)  # distances are rounded down, never up


def test_weights_move_the_noise_as_the_cube_root() -> None:
    # Two queries that share one pair: u_1 + u_2 ≤ 1 gives u ∝ w^(1/3).
    found = allocate([[0, 1], [0, 1]], [[0, 1], [1, 0]], weights=[8, 1])
    assert [float(rate or 0) for rate in found.rates] == pytest.approx([2 / 3, 1 / 3], rel=1e-6)
    assert found.objective == pytest.approx(8 * 9 / 4 + 9, rel=1e-8)


def test_a_query_without_weight_is_left_out() -> None:
    found = allocate([[0, 1], [0, 1]], [[0, 1], [1, 0]], weights=[0, 1])
    assert found.rates == (0, 1)
    assert found.scales.tolist() == [math.inf, 1.0]
    assert found.objective == 1.0


def test_distances_scale_the_rates() -> None:
    rng = np.random.default_rng(8)
    Q = rng.integers(0, 2, (4, 12))
    edges = edges_of_matrix(points(rng, 12))
    once, thrice = allocate(Q, edges), allocate(Q, edges.scaled(Fraction(3)))
    assert once.scales == pytest.approx(3 * thrice.scales, rel=1e-4)
    assert once.objective == pytest.approx(9 * thrice.objective, rel=1e-7)


# ---- what needs no noise, and what cannot be ---------------------------------------------------


def test_constant_queries_and_infinite_distances_need_no_noise() -> None:
    apart = [[0, 1, np.inf], [1, 0, np.inf], [np.inf, np.inf, 0]]
    found = allocate([[5, 5, 5], [1, 1, 0], [1, 0, 0]], apart)
    assert found.rates == (None, None, Fraction(1))
    assert found.scales.tolist() == [0, 0, 1]
    assert found.step_rates == (None, None, Fraction(1))
    nothing = allocate([[1, 1, 0]], apart)
    assert (nothing.rates, nothing.objective, nothing.gap) == ((None,), 0.0, 0.0)
    assert "0 of 1 queries" in str(nothing)
    alone = allocate([[1, 0]], [[0, np.inf], [np.inf, 0]])
    assert alone.rates == (None,)


def test_cells_at_distance_0_that_a_query_tells_apart_are_named() -> None:
    zero = [[0, 0, 1], [0, 0, 1], [1, 1, 0]]
    assert allocate([[1, 1, 0]], zero).rates == (Fraction(1),)
    with pytest.raises(StudyError, match=r"cell 0 and cell 1 are at distance 0.*query 1"):
        allocate([[1, 1, 0], [1, 0, 0]], zero)
    with pytest.raises(StudyError, match="'red' and 'blue'"):
        allocate([[1, 0, 0]], zero, cells=["red", "blue", "green"])
    with pytest.raises(StudyError, match="query 'in red'"):
        allocate(questions.Given([[1, 0, 0]], labels=["in red"]), zero)


def test_a_zero_reached_by_way_of_others_counts() -> None:
    chain = [[0, 0, np.inf], [0, 0, 0], [np.inf, 0, 0]]
    with pytest.raises(StudyError, match="distance 0"):
        allocate([[1, 1, 0]], chain)


def test_bad_options_are_refused() -> None:
    flat = [[0, 1], [1, 0]]
    with pytest.raises(StudyError, match="method must be known, got 'exat': did you mean 'exact'"):
        allocate([[1, 0]], flat, method="exat")
    with pytest.raises(StudyError, match="tolerance must be between 0 and 1, got tolerance=0"):
        allocate([[1, 0]], flat, tolerance=0)
    with pytest.raises(StudyError, match="same cells, got 3 and 2"):
        allocate([[1, 0, 0]], flat)
    with pytest.raises(StudyError, match=r"weights must be one for each of 1 queries"):
        allocate([[1, 0]], flat, weights=[1, 2])
    with pytest.raises(StudyError, match="weights must be 0 or more and finite"):
        allocate([[1, 0]], flat, weights=[-1])
    with pytest.raises(StudyError, match="rates must be one for each of 1 queries, got 2"):
        check([[1, 0]], flat, [1, 1])
    with pytest.raises(StudyError, match="rates must be 0 or more"):
        check([[1, 0]], flat, [-1])


# ---- many queries that are mostly zero ---------------------------------------------------------


@pytest.mark.parametrize("values", [(1,), (-1, 1, 3)])
@pytest.mark.parametrize("method", ["exact", "psa"])
def test_queries_kept_sparse_are_the_same_queries(values: tuple[int, ...], method: str) -> None:
    rng = np.random.default_rng(6)
    cells, K = 40, 25
    steps = np.where(rng.uniform(size=(K, cells)) < 0.08, rng.choice(values, (K, cells)), 0)
    steps[np.arange(K), np.arange(K)] = 1
    units = tuple(Fraction(1, 1 + k % 3) for k in range(K))
    held = questions.Lattice(sparse.csr_array(steps), units, np.zeros(K))
    full = questions.Lattice(steps.copy(), units, np.zeros(K))
    for metric in (
        LineMetric.equal(Fraction(1, 2), cells),
        UniformMetric(Fraction(1), cells),
        BlockMetric(Fraction(1), np.arange(cells) // 6),
    ):
        one, other = allocate(held, metric, method=method), allocate(full, metric, method=method)
        assert one.objective == pytest.approx(other.objective, rel=2e-7)
        assert check(full, metric, one.rates)
        assert check(held, metric, other.rates)
        assert [r is None for r in one.rates] == [r is None for r in other.rates]


def test_what_is_too_large_is_refused_with_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    flat = UniformMetric(Fraction(1), 5)
    far = questions.Lattice(np.array([[0, 2**53]]), (Fraction(1),), np.zeros(1))
    with pytest.raises(TooLargeError, match="coarser granularity"):
        allocate(far, [[0, 1], [1, 0]])
    monkeypatch.setattr(interior, "_MOST_VARIABLES", 4)
    with pytest.raises(TooLargeError, match="5 queries that share constraints"):
        allocate(questions.Identity(5), flat)
    monkeypatch.setattr(problem, "_MOST_ENTRIES", 4)
    steps = sparse.csr_array(np.diag([2, 1, 1, 1, 1]))
    spread = questions.Lattice(steps, (Fraction(1),) * 5, np.zeros(5))
    with pytest.raises(TooLargeError, match="5 queries on 5 cells that are all near"):
        check(spread, flat, [Fraction(1, 3)] * 5)


# ---- size, and what is said on the way ---------------------------------------------------------


def test_a_few_pairs_are_generated_of_many() -> None:
    rng = np.random.default_rng(3)
    said: list[float] = []
    d = points(rng, 300)
    Q = (rng.normal(size=(30, 2)) @ rng.normal(size=(2, 300)) > 0).astype(int)
    found = allocate(Q, d, progress=said.append)
    assert found.pairs == 300 * 299 // 2
    assert found.constraints < found.pairs / 10
    assert found.gap is not None
    assert found.gap < 1e-7
    assert said
    assert said[-1] == 1.0
    assert f"{found.constraints:,} of 44,850 pairs" in str(found)


@pytest.mark.slow
def test_many_cells_on_a_line_take_no_table() -> None:
    cells = 2000
    found = allocate(questions.Prefixes(cells), LineMetric.equal(Fraction(1, 100), cells))
    assert set(found.rates) == {Fraction(1, 100), None}
    assert found.pairs == cells - 1


@pytest.mark.parametrize("method", ["exact", "equal", "shared", "psa"])
def test_groups_at_distance_0_are_told_apart_by_nobody(method: str) -> None:
    """As on an axis on which nothing is spent, beside pairs that have a distance."""
    alike = Cliques(np.array([0, 0, 1, 1]), Fraction(0))
    edges = Edges([1], [2], [Fraction(1, 2)], 4, [alike])
    found = allocate([[1, 1, 0, 0], [2, 2, 5, 5]], edges, method=method)
    assert check([[1, 1, 0, 0], [2, 2, 5, 5]], edges, found.rates)
    assert all(found.rates)
    with pytest.raises(StudyError, match=r"cell 2 and cell 3 are at distance 0.*query 1"):
        allocate([[1, 1, 0, 0], [2, 2, 5, 6]], edges, method=method)
    assert check([[1, 1, 0, 0]], edges, [Fraction(1, 2)])
    assert check([[1, 1, 0, 1]], edges, [Fraction(1, 2)]).pair == (2, 3)
    assert check([[1, 1, 0, 1]], edges, [None]).pair is not None


def test_rates_are_short_enough_for_exact_samplers() -> None:
    """Rates that are no simple fractions keep 30 bits, however long the doubles are."""
    rng = np.random.default_rng(4)
    places = rng.uniform(0, 10, (12, 2))
    apart = np.hypot(*(places[:, None] - places).transpose(2, 0, 1))
    found = allocate(rng.integers(0, 9, (5, 12)), apart)
    assert all(found.step_rates)
    numerators = [rate.numerator for rate in found.step_rates if rate is not None]
    assert max(number.bit_length() for number in numerators) <= 31
