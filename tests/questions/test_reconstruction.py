"""Questions read from a strategy: unbiased, with the smallest variance, and refused by name."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import StudyError, TooLargeError
from sfumato.questions.compose import parse
from sfumato.questions.lattice import Lattice
from sfumato.questions.lines import Identity, Prefixes, Ranges, Total
from sfumato.questions.products import Kronecker, Stacked
from sfumato.questions.reconstruction import Reader, question_variances, reconstruct, total_error
from sfumato.questions.trees import Haar, Hierarchy
from sfumato.questions.workload import Given

RNG = np.random.default_rng


def dense(matrix: Any, known_total: bool) -> np.ndarray[Any, Any]:
    rows = np.asarray(matrix, dtype=float)
    return np.vstack([rows, np.ones(rows.shape[1])]) if known_total else rows


def check_best(W: Any, A: Any, variances: Any, known_total: bool = False) -> None:
    """B·A = W, and no direction along which B could move lowers the variance of any question.

    B is the minimum of a convex function on {B·A = W} exactly if B·D is orthogonal to the left
    null space of A: every other B' differs from B by a combination of null vectors.
    """
    W = np.asarray(W, dtype=float)
    B = reconstruct(W, A, variances, known_total=known_total)
    rows = dense(A, known_total)
    noise = np.append(np.asarray(variances, dtype=float), [0.0] * known_total)
    scale = max(1.0, np.abs(B).max())
    assert B.shape == (len(W), len(rows))
    assert np.allclose(B @ rows, W, atol=1e-9 * scale)
    left, values, _ = np.linalg.svd(rows)
    rank = int((values > 1e-9 * values.max()).sum())
    null = left[:, rank:]
    finite = np.where(np.isfinite(noise), noise, 0.0)
    assert np.allclose(
        (B * finite) @ null, 0, atol=1e-8 * scale * max(1.0, finite.max(initial=0.0))
    )
    spread = np.sum(B**2 * finite, axis=1)
    assert np.allclose(question_variances(W, A, variances, known_total=known_total), spread)
    total = total_error(W, A, variances, known_total=known_total)
    assert total == pytest.approx(spread.sum(), abs=1e-9)


# The best there is


@pytest.mark.parametrize("known_total", [False, True])
@pytest.mark.parametrize(
    "strategy",
    [Identity(7), Prefixes(7), Hierarchy(7, 2), Haar(7), Ranges(7), Stacked([Haar(7), Ranges(7)])],
    ids=repr,
)
def test_least_squares_is_the_best_reading(strategy: Any, known_total: bool) -> None:
    rng = RNG(1)
    variances = rng.uniform(0.1, 5, strategy.questions)
    check_best(Ranges(7).dense(), strategy.dense(), variances, known_total)


@settings(max_examples=60)
@given(st.integers(0, 10**9), st.integers(1, 6), st.integers(1, 9), st.booleans())
def test_random_strategies_of_any_rank(seed: int, cells: int, rows: int, known_total: bool) -> None:
    rng = RNG(seed)
    A = rng.integers(-2, 3, (rows, cells)).astype(float)
    W = rng.integers(-3, 4, (4, rows + known_total)) @ dense(A, known_total)
    variances = rng.choice([0.0, 0.5, 1.0, 3.0], rows)
    check_exact_rows(W, A, variances, known_total)


def check_exact_rows(W: Any, A: Any, variances: Any, known_total: bool) -> None:
    """With exact rows the same holds for those null vectors that exact rows alone do not make."""
    B = reconstruct(W, A, variances, known_total=known_total)
    rows = dense(A, known_total)
    noise = np.append(variances, [0.0] * known_total)
    assert np.allclose(B @ rows, W, atol=1e-8)
    left, values, _ = np.linalg.svd(rows)
    rank = int((values > 1e-9 * max(values.max(initial=0.0), 1e-300)).sum())
    assert np.allclose((B * noise) @ left[:, rank:], 0, atol=1e-7)
    assert np.allclose(
        question_variances(W, A, variances, known_total=known_total),
        np.sum(B**2 * noise, axis=1),
        atol=1e-9,
    )


def test_rows_of_no_use_are_not_used() -> None:
    A = np.vstack([np.eye(3), np.ones((1, 3))])
    B = reconstruct(np.eye(3), A, [1, 1, 1, np.inf])
    assert np.allclose(B, np.eye(3, 4))
    with pytest.raises(StudyError, match="cannot express 1 of 3"):
        reconstruct(np.eye(3), np.eye(3), [1, np.inf, 1])


def test_scales_of_many_magnitudes_keep_their_digits() -> None:
    # Rows with noise from 1e−8 to 1e8: an oracle of 60 digits, by the formula as it is written.
    rng = RNG(5)
    A = np.vstack([Identity(6).dense(), Prefixes(6).dense(), Hierarchy(6, 2).dense()])
    variances = 10.0 ** rng.uniform(-8, 8, len(A))
    W = Ranges(6).dense()
    mpmath.mp.dps = 60
    precise = mpmath.matrix(A.tolist())
    weights = mpmath.diag([1 / mpmath.mpf(v) for v in variances.tolist()])
    inverse = (precise.T * weights * precise) ** -1
    wanted = mpmath.matrix(W.tolist()) * inverse * precise.T * weights
    B = reconstruct(W, A, variances)
    assert np.allclose(B @ A, W, atol=1e-9)
    assert np.allclose(B, np.array(wanted.tolist(), dtype=float), atol=1e-9)
    exact = mpmath.matrix(W.tolist()) * inverse * mpmath.matrix(W.T.tolist())
    found = question_variances(W, A, variances)
    assert np.allclose(found, [float(exact[q, q]) for q in range(len(W))], rtol=1e-7)


# Known results


def test_prefixes_read_all_ranges_by_two_of_them() -> None:
    # Xiang et al. 2020, §3.3, with s = 1/ε and the last prefix known: a range that touches no end
    # is the difference of two prefixes, the others need one, the whole none.
    m, epsilon = 12, 0.5
    variance = 2 / epsilon**2
    found = question_variances(
        Ranges(m), Prefixes(m).dense()[:-1], [variance] * (m - 1), known_total=True
    )
    first, last = Ranges(m).ends()
    needed = (first > 0).astype(int) + (last < m - 1)
    assert np.allclose(found, needed * variance)
    # Σ over all ranges is 2m(m − 1)/ε² a person.
    assert found.sum() == pytest.approx(2 * m * (m - 1) / epsilon**2)


def test_a_known_total_is_worth_a_row_without_noise() -> None:
    W, A, variances = Ranges(5), Haar(5), np.arange(1.0, 6.0)
    stacked = np.vstack([A.dense(), np.ones(5)])
    assert np.allclose(
        reconstruct(W, A, variances, known_total=True),
        reconstruct(W, stacked, np.append(variances, 0.0)),
    )
    with_total = total_error(W, A, variances, known_total=True)
    assert with_total < total_error(W, A, variances)


@pytest.mark.slow
def test_the_gram_matrix_is_enough_for_the_total() -> None:
    ranges, strategy = Ranges(600), Hierarchy(600, 4)
    variances = RNG(2).uniform(1, 3, strategy.questions)
    reader = Reader.of(strategy, variances)
    assert reader.total(ranges) == pytest.approx(reader.variances(ranges).sum(), rel=1e-10)


def test_answers_are_those_of_the_matrix() -> None:
    rng = RNG(8)
    strategy, ranges = Hierarchy(20, 3), Ranges(20)
    variances = rng.uniform(1, 3, strategy.questions)
    noisy = rng.normal(size=strategy.questions)
    reader = Reader.of(strategy, variances)
    assert np.allclose(reader.answers(ranges, noisy), reader.matrix(ranges) @ noisy)
    counts = rng.integers(0, 100, 20)
    assert np.allclose(reader.answers(ranges, strategy @ counts), ranges @ counts)


def test_strategies_come_as_workloads_lattices_or_matrices() -> None:
    workload = Hierarchy(6, 2)
    variances = np.linspace(1, 2, workload.questions)
    wanted = reconstruct(Ranges(6), workload, variances)
    for strategy in (workload.dense(), workload.sparse(), Lattice.of(workload), Given(workload)):
        assert np.allclose(reconstruct(Ranges(6), strategy, variances), wanted)
    assert np.allclose(reconstruct(Lattice.of(Ranges(6)), workload, variances), wanted)


def test_few_questions_about_many_cells_need_no_gram_matrix() -> None:
    shape = (60, 50, 3)  # 9,000 cells
    study = sf.Study(
        "large",
        [
            sf.integers(name, 0, size - 1, protect=sf.Distance(1))
            for name, size in zip("abc", shape, strict=True)
        ],
    )
    workload = parse(study, ["cells of c", "a=3..7", "b=..9, c=1", "total"])
    B = reconstruct(workload, workload, np.ones(workload.questions))
    assert B.shape == (6, 6)
    assert np.allclose(B @ workload.dense(), workload.dense())
    assert total_error(workload, workload, np.ones(6)) < 6
    with pytest.raises(StudyError, match=r"'a=4' \(residual"):
        reconstruct(parse(study, ["a=4"]), workload, np.ones(6))


# What is refused


def test_questions_that_the_strategy_cannot_express_are_named() -> None:
    study = sf.Study(
        "ages",
        [
            sf.integers("age", 0, 3, protect=sf.Distance(1)),
            sf.categories("sex", ["f", "m"], protect=sf.Uniform(1)),
        ],
    )
    asked = parse(study, ["cells of age", "sex=f", "age=1, sex=m"])
    with pytest.raises(StudyError) as refusal:
        reconstruct(asked, parse(study, "prefixes of age"), np.ones(4))
    message = str(refusal.value)
    assert "cannot express 2 of 6 questions" in message
    # What is left of sex=f is ±1/2 on 8 cells; of one cell of a pair, ±1/2 on 2.
    assert f"'sex=f' (residual {np.sqrt(8) / 2:.3g})" in message
    assert f"'age=1, sex=m' (residual {np.sqrt(2) / 2:.3g})" in message
    for refused in (total_error, question_variances):
        with pytest.raises(StudyError, match="cannot express 2 of 6 questions"):
            refused(asked, parse(study, "prefixes of age"), np.ones(4))
    assert reconstruct(asked.rows(slice(4)), parse(study, "prefixes of age"), np.ones(4)).shape == (
        4,
        4,
    )


def test_many_refused_questions_are_counted_and_the_first_named() -> None:
    with pytest.raises(StudyError, match=r"cannot express 9 of 10 .*'cell 0'.* and 4 more; add"):
        reconstruct(Ranges(4), Total(4), [1.0])


def test_a_hair_outside_is_outside_and_rounding_is_not() -> None:
    A = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
    W = np.array([[1 / 3, 1 / 3 + 1 / 7, 1 / 7]])
    assert np.allclose(reconstruct(W, A, [1, 1]), [[1 / 3, 1 / 7]])
    with pytest.raises(StudyError, match="residual"):
        reconstruct(W + np.array([[0, 0, 1e-6]]), A, [1, 1])
    with pytest.raises(StudyError, match="residual"):
        total_error(W + np.array([[0, 0, 1e-6]]), A, [1, 1])


def test_one_question_lost_among_many_is_found() -> None:
    # The Gram matrix of many questions hides a small one; the rows do not.
    many = np.tile(np.array([[1e4, 1e4, 0.0]]), (1000, 1))
    W = np.vstack([many, [[1e-3, -1e-3, 0.0]]])
    with pytest.raises(StudyError, match="cannot express 1 of 1001"):
        total_error(W, [[1.0, 1.0, 0.0]], [1.0])


@pytest.mark.parametrize(
    ("W", "A", "variances", "says"),
    [
        (np.eye(3), np.eye(3), [1, 1], r"variances must be 3 numbers .* got shape \(2,\)"),
        (np.eye(3), np.eye(3), [1, -1, 1], "of at least 0"),
        (np.eye(3), np.eye(3), [1, np.nan, 1], "of at least 0"),
        (np.eye(4), np.eye(3), [1, 1, 1], "about the same cells, got 4 and 3"),
    ],
)
def test_bad_input(W: Any, A: Any, variances: Any, says: str) -> None:
    for use in (reconstruct, total_error, question_variances):
        with pytest.raises(StudyError, match=says):
            use(W, A, variances)


def test_what_is_too_large_is_refused() -> None:
    with pytest.raises(TooLargeError, match=r"8,002,000 questions × 9 rows"):
        Reader.of(np.ones((9, 4000)), np.ones(9)).matrix(Ranges(4000))
    with pytest.raises(TooLargeError, match=r"4,200 rows over 4,200 cells"):
        reconstruct(np.ones((1, 4200)), Identity(4200), np.ones(4200))


def test_products_of_strategies() -> None:
    strategy = Kronecker([Prefixes(4), Identity(3)])
    asked = Kronecker([Ranges(4), Identity(3)])
    check_best(asked.dense(), strategy.dense(), RNG(3).uniform(1, 2, 12))
