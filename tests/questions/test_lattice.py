"""Lattices hold questions exactly, or say by how much they are off."""

from __future__ import annotations

import time
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import sfumato as sf
from sfumato.errors import QuestionError, StudyError, TooLargeError
from sfumato.exact import rational
from sfumato.questions.compose import parse
from sfumato.questions.lattice import MOST_STEPS, ROUNDED_STEPS, Lattice
from sfumato.questions.lines import Identity, Prefixes, Ranges
from sfumato.questions.products import KWay


def distance(held: Lattice, exact: Any) -> list[Fraction]:
    """By how much each row is off at most, in exact arithmetic."""
    return [
        max(
            abs(Fraction(value) - int(step) * unit)
            for value, step in zip(row, held.row(number), strict=True)
        )
        for number, (row, unit) in enumerate(zip(exact, held.units, strict=True))
    ]


def is_tight(held: Lattice) -> bool:
    """Whether no larger unit would do: the steps of a row have no common divisor."""
    return all(np.gcd.reduce(held.row(number)) in (0, 1) for number in range(len(held)))


# What is exact


@pytest.mark.parametrize("workload", [Identity(7), Ranges(9), Prefixes(5), KWay((2, 3, 4), 2)])
def test_counts_of_people_are_on_the_lattice_of_whole_numbers(workload: Any) -> None:
    held = Lattice.of(workload)
    assert held.units == (Fraction(1),) * workload.questions
    assert held.is_exact
    assert held.steps.dtype == np.int64
    assert np.array_equal(held.steps, workload.dense())
    assert np.array_equal(held.matrix(), workload.dense())
    assert Lattice.of(held) is held


def test_units_are_greatest_common_divisors() -> None:
    held = Lattice.of([[0.2, 0.3, 0.0], [6, 9, -12], [0, 0, 0], [5, 5, 5], ["1/3", "1/2", 2]])
    # The last row makes this a matrix of texts, which are read as exactly as numbers.
    assert held.units == (Fraction(1, 10), Fraction(3), Fraction(1), Fraction(5), Fraction(1, 6))
    assert held.steps.tolist() == [[2, 3, 0], [2, 3, -4], [0, 0, 0], [1, 1, 1], [2, 3, 12]]
    assert held.is_exact
    assert held.shape == (5, 3)


@pytest.mark.slow
@given(
    st.lists(
        st.lists(st.fractions(-5, 5, max_denominator=60), min_size=3, max_size=3),
        min_size=1,
        max_size=4,
    )
)
def test_rationals_are_held_exactly_in_the_largest_unit(rows: list[list[Fraction]]) -> None:
    held = Lattice.of(np.array(rows, dtype=object))
    # Sixty different denominators could need more steps than allowed; three cannot.
    assert distance(held, rows) == [0] * len(rows)
    assert held.is_exact
    assert is_tight(held)


@given(st.lists(st.floats(-1e3, 1e3, width=16), min_size=2, max_size=6))
def test_a_float_is_the_decimal_that_prints_it(row: list[float]) -> None:
    held = Lattice.of([row])
    exact = [rational(value, "value") for value in row]
    (off,) = distance(held, [exact])
    assert off <= Fraction(float(held.off[0]))
    assert (off == 0) == (held.off[0] == 0)


@given(st.lists(st.integers(-(2**40), 2**40), min_size=2, max_size=5))
def test_large_whole_numbers_keep_their_word(row: list[int]) -> None:
    held = Lattice.of([row])
    (off,) = distance(held, [row])
    assert off <= Fraction(float(held.off[0]))
    if max(map(abs, row)) <= MOST_STEPS:
        assert held.is_exact


def test_whole_numbers_beyond_floats_are_read_exactly() -> None:
    big = 2**53 + 1
    held = Lattice.of([[big, 0, 2 * big]])
    assert held.units == (Fraction(big),)
    assert held.steps.tolist() == [[1, 0, 2]]


# What is rounded


def test_numbers_of_many_digits_are_rounded_and_say_so() -> None:
    row = np.random.default_rng(3).uniform(-1, 3, 40)
    held = Lattice.of([row, np.arange(40)])
    exact = [[rational(value, "value") for value in row.tolist()], list(range(40))]
    assert not held.is_exact
    assert held.off[1] == 0.0
    spans = max(exact[0]) - min(exact[0])
    assert held.units[0] == spans / ROUNDED_STEPS
    off = distance(held, exact)
    assert 0 < off[0] <= Fraction(float(held.off[0])) <= held.units[0] * Fraction(501, 1000)
    assert np.ptp(held.steps[0]) == ROUNDED_STEPS
    assert np.abs(held.matrix()[0] - row).max() <= held.off[0] * (1 + 1e-9)


def test_a_constant_row_is_exact_however_many_digits_it_has() -> None:
    held = Lattice.of([[1 / 3] * 4])
    assert held.is_exact
    assert held.steps.tolist() == [[1, 1, 1, 1]]


def test_a_given_granularity_rounds_to_it() -> None:
    held = Lattice.of([[0.24, 0.26, 1.0], [1, 2, 3]], granularity="1/4")
    assert held.units == (Fraction(1, 4),) * 2
    assert held.steps.tolist() == [[1, 1, 4], [4, 8, 12]]
    assert 0.01 <= held.off[0] <= 0.01 + 1e-12
    assert held.off[1] == 0.0


def test_prorated_questions_are_near_what_they_say() -> None:
    study = sf.Study("income", [sf.reals("income", 0, 30, bins=3, protect=sf.Distance(1, per=10))])
    workload = parse(study, ["income=0..15", "income=..3.3333333", "ranges of income"])
    held = Lattice.of(workload)
    assert held.units[0] == Fraction(1, 2)
    assert held.off[0] == 0.0
    assert np.all(np.abs(held.matrix() - workload.dense()) <= held.off[:, None] + 1e-15)


# Size


@pytest.mark.slow
def test_a_matrix_of_zeros_and_ones_is_quick() -> None:
    workload = Ranges(300)  # 45,150 questions, 13.5 million entries
    begin = time.process_time()
    held = Lattice.of(workload)
    # Building the matrix and checking it takes 0.4 s; number by number it would take minutes.
    assert time.process_time() - begin < 20
    assert held.shape == workload.shape
    assert held.row(12_345).sum() == workload.rows([12_345]).sum()


def test_few_entries_of_many_stay_sparse() -> None:
    held = Lattice.of(Identity(20_000))
    assert held.is_sparse
    assert held.steps.nnz == 20_000
    assert held.row(7)[7] == 1
    assert held.matrix().nnz == 20_000
    counts = np.arange(20_000)
    assert np.array_equal(held.totals(counts), counts)
    chosen = held.select([3, 5])
    assert np.flatnonzero(chosen.row(1)).tolist() == [5]


@pytest.mark.slow
def test_sparse_and_dense_agree() -> None:
    rng = np.random.default_rng(4)
    dense = np.zeros((3000, 1500))
    for row in dense[:50]:
        row[rng.integers(0, 1500, 4)] = rng.choice([0.5, 2, 3, 0.1, 1 / 3], 4)
    dense[50:, 0] = 1.0
    held, same = Lattice.of(sparse.csr_array(dense)), Lattice.of(dense)
    assert held.is_sparse
    assert not same.is_sparse
    assert held.units == same.units
    assert np.array_equal(held.steps.toarray(), same.steps)
    assert np.array_equal(held.off, same.off)
    rounded = Lattice.of(sparse.csr_array(dense), granularity=0.25)
    assert np.array_equal(rounded.steps.toarray(), Lattice.of(dense, granularity=0.25).steps)


def test_sums_over_people_are_whole_and_exact() -> None:
    held = Lattice.of([[0.5, 1.5, 2.0], [1, 0, 1]])
    assert held.totals(np.array([3, 4, 5])).tolist() == [3 * 1 + 4 * 3 + 5 * 4, 8]
    with pytest.raises(QuestionError, match="counts must be 3 whole numbers"):
        held.totals(np.array([1.0, 2.0, 3.0]))
    with pytest.raises(QuestionError, match=r"got shape \(2,\)"):
        held.totals(np.array([1, 2]))
    with pytest.raises(TooLargeError, match="coarser granularity"):
        held.totals(np.array([2**62, 2**62, 0]))


def test_nobody_can_change_what_was_checked() -> None:
    held = Lattice.of(np.eye(3))
    with pytest.raises(ValueError, match="read-only"):
        held.steps[0, 0] = 2
    loose = Lattice.of(Identity(5000))
    with pytest.raises(ValueError, match="read-only"):
        loose.steps.data[0] = 2


@pytest.mark.parametrize(
    ("queries", "granularity", "error", "says"),
    [
        ([[1, np.inf]], None, QuestionError, "finite numbers; row 0 does not"),
        ([[1.5, 2], [0.5, np.nan]], None, QuestionError, "finite numbers; row 1 does not"),
        ([[1, 2j]], None, QuestionError, "matrix of numbers"),
        (np.zeros((0, 3)), None, QuestionError, "matrix of numbers"),
        ([[1, 2], [3]], None, QuestionError, "matrix of numbers"),
        (np.array([[None, 1]]), None, StudyError, "row 0 must be a finite number"),
        ([[1, 2]], 0, StudyError, "granularity must be positive and finite"),
        ([[1e30, 1e30 + 1e15]], None, TooLargeError, r"more than 2\^52 steps"),
        ([[1e9, 0]], 1e-12, TooLargeError, r"more than 2\^52 steps"),
    ],
)
def test_bad_queries(queries: Any, granularity: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        Lattice.of(queries, granularity)
