"""Workloads against matrices written out by definition."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers_questions import agrees
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import sfumato as sf
from sfumato.errors import QuestionError, StudyError, TooLargeError
from sfumato.questions.compose import parse
from sfumato.questions.lines import Identity, Prefixes, Ranges, Total
from sfumato.questions.products import Kronecker, KWay, Marginals, Stacked
from sfumato.questions.trees import Haar, Hierarchy
from sfumato.questions.workload import MOST_ENTRIES, MOST_GRAM_CELLS, Given, Labels, Workload

SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 16, 17]


# Every kind by its definition, one row at a time


def prefixes_by_definition(m: int) -> list[list[int]]:
    return [[int(x <= t) for x in range(m)] for t in range(m)]


def ranges_by_definition(m: int) -> list[list[int]]:
    return [[int(a <= x <= b) for x in range(m)] for a in range(m) for b in range(a, m)]


def nodes(m: int, branching: int) -> list[set[int]]:
    """Sets of cells of a tree, level by level from the root, every set once."""
    height = 0
    while branching**height < m:
        height += 1
    found: list[set[int]] = []
    for h in range(height, -1, -1):
        run = branching**h
        level = [set(range(a, min(a + run, m))) for a in range(0, m, run)]
        finer = max(run // branching, 1)
        below = [set(range(a, min(a + finer, m))) for a in range(0, m, finer)]
        found += [node for node in level if h == 0 or node not in below]
    return found


def hierarchy_by_definition(m: int, branching: int) -> list[list[int]]:
    return [[int(x in node) for x in range(m)] for node in nodes(m, branching)]


def haar_by_definition(m: int) -> list[list[int]]:
    """Rows of the whole transform, cut to m cells; those that lost a half are left out."""
    order = 1
    while order < m:
        order *= 2
    rows = [[1] * m]
    run = order
    while run > 1:
        for a in range(0, order, run):
            row = [0] * order
            row[a : a + run // 2] = [1] * (run // 2)
            row[a + run // 2 : a + run] = [-1] * (run // 2)
            if -1 in row[:m]:
                rows.append(row[:m])
        run //= 2
    return rows


LINES: dict[str, tuple[Callable[..., Workload], Callable[[int], list[list[int]]]]] = {
    "identity": (Identity, lambda m: np.eye(m).tolist()),
    "total": (Total, lambda m: [[1] * m]),
    "prefixes": (Prefixes, prefixes_by_definition),
    "ranges": (Ranges, ranges_by_definition),
    "hierarchy 2": (Hierarchy, lambda m: hierarchy_by_definition(m, 2)),
    "hierarchy 3": (
        lambda m, **size: Hierarchy(m, 3, **size),
        lambda m: hierarchy_by_definition(m, 3),
    ),
    "haar": (Haar, haar_by_definition),
}


def spaced_by_definition(m: int) -> list[list[int]]:
    """Ranges between at most four boundaries, evenly spaced."""
    ends = sorted({round(m * k / 3) for k in range(4)}) if m > 3 else range(m + 1)
    pairs = itertools.combinations(ends, 2)
    return [[int(a <= x < b) for x in range(m)] for a, b in pairs]


LINES["spaced ranges"] = (
    lambda m, **size: Ranges(m, ends=4, **size),
    spaced_by_definition,
)
IN_A_ROW = [name for name in LINES if name not in ("identity", "total")]


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("m", SIZES)
def test_one_axis_is_what_it_says(name: str, m: int) -> None:
    make, by_definition = LINES[name]
    workload = make(m)
    agrees(workload, by_definition(m))
    assert len(set(workload.labels)) == workload.questions


@pytest.mark.parametrize("name", IN_A_ROW)
@pytest.mark.parametrize("m", [1, 5, 8])
def test_cells_behind_the_row_count_for_nothing(name: str, m: int) -> None:
    make, by_definition = LINES[name]
    wanted = np.hstack([np.array(by_definition(m)), np.zeros((len(by_definition(m)), 2))])
    agrees(make(m, size=m + 2), wanted)


def test_all_ranges_of_three_cells_are_the_six_of_the_paper() -> None:
    # Xiang et al. 2020, §3.3: W_3 has 6 rows, single cells included.
    assert Ranges(3).questions == 6
    assert Ranges(1000).questions == 500_500


@pytest.mark.parametrize("m", SIZES)
def test_strategies_can_express_everything(m: int) -> None:
    for workload in (Prefixes(m), Haar(m), Hierarchy(m, 2), Hierarchy(m, 4), Ranges(m)):
        assert np.linalg.matrix_rank(workload.dense()) == m
        assert len(np.unique(workload.dense(), axis=0)) == workload.questions


def test_the_tree_is_that_of_the_channels() -> None:
    from sfumato.channels.trees.tree import Tree

    for m, branching in itertools.product([2, 9, 10, 16, 30], [2, 3, 4]):
        tree = Tree.branching(m, branching)
        table = np.eye(m)
        wanted = {
            tuple(row) for level in range(tree.depth + 1) for row in tree.join(table, level, 0)
        }
        assert {tuple(row) for row in Hierarchy(m, branching).dense()} == wanted


def test_many_ranges_stay_an_operator() -> None:
    ranges = Ranges(4000)
    counts = np.arange(4000)
    answers = ranges @ counts
    first, last = ranges.ends([0, 12_345, ranges.questions - 1])
    for row, a, b in zip([0, 12_345, -1], first, last, strict=True):
        assert answers[row] == counts[a : b + 1].sum()
    assert ranges.labels[12_345] == f"cells {first[1]}..{last[1]}"
    assert ranges.rows([12_345]).sum() == last[1] - first[1] + 1


# Workloads made of others


def test_given_matrices_dense_and_sparse() -> None:
    matrix = np.random.default_rng(1).integers(-3, 4, (6, 5)).astype(float)
    agrees(Given(matrix), matrix)
    agrees(Given(sparse.csc_array(matrix)), matrix)
    agrees(Given(sparse.coo_matrix(matrix)), matrix)
    agrees(Given(matrix.tolist(), labels=list("abcdef")), matrix)
    agrees(Given(matrix[0]), matrix[:1])
    assert Given(matrix, labels=list("abcdef")).labels[2] == "c"


def test_given_matrices_cannot_be_changed_from_outside() -> None:
    matrix = np.eye(3)
    workload = Given(matrix)
    matrix[0, 0] = 5.0
    assert workload.dense()[0, 0] == 1.0
    held = sparse.csr_array(np.eye(3))
    kept = Given(held)
    held.data[:] = 5.0
    assert kept.dense()[0, 0] == 1.0


def test_products_over_axes() -> None:
    parts = [Ranges(3), Total(2), Prefixes(2, size=3), Given([[1, 2], [0, -1], [3, 0]])]
    for count in range(1, 5):
        factors = parts[:count]
        wanted = np.ones((1, 1))
        for factor in factors:
            wanted = np.kron(wanted, factor.dense())
        product = Kronecker(factors)
        agrees(product, wanted)
        assert product.shape_of_cells == tuple(f.cells for f in factors)
    nested = Kronecker([Kronecker(parts[:2]), parts[2]])
    agrees(nested, np.kron(np.kron(parts[0].dense(), parts[1].dense()), parts[2].dense()))
    assert nested.shape_of_cells == (3, 2, 3)


def test_stacks_and_their_weights() -> None:
    parts = [Identity(4), Ranges(4), Given([[1, 0, -2, 3]])]
    agrees(Stacked(parts), np.vstack([part.dense() for part in parts]))
    weighted = np.vstack(
        [weight * part.dense() for weight, part in zip([2, 1, 3], parts, strict=True)]
    )
    agrees(Stacked(parts, weights=[2, 1, 3]), weighted)
    assert Stacked(parts).labels[4] == "cell 0"
    assert Stacked(parts).labels[-1] == "0"


def test_marginals_are_sums_over_the_other_axes() -> None:
    shape = (3, 2, 4)
    counts = np.random.default_rng(2).integers(0, 50, shape)
    for size in range(4):
        for axes in itertools.combinations(range(3), size):
            others = tuple(d for d in range(3) if d not in axes)
            found = Marginals(shape, [axes]) @ counts.ravel()
            assert np.array_equal(found, counts.sum(axis=others).ravel())
            if axes:
                assert np.array_equal(
                    Marginals(shape, axes).dense(), Marginals(shape, [axes]).dense()
                )
        every = list(itertools.combinations(range(3), size))
        agrees(KWay(shape, size), Marginals(shape, every).dense())
    assert KWay(shape, 2).questions == 3 * 2 + 3 * 4 + 2 * 4
    assert KWay(shape, 0).labels[0] == "everyone"


def test_large_grids_need_no_matrix() -> None:
    shape = (200, 100, 20)
    counts = np.random.default_rng(3).integers(0, 9, shape)
    tables = KWay(shape, 2)
    answers = tables @ counts.ravel()
    assert np.array_equal(answers[: 200 * 100], counts.sum(axis=2).ravel())
    both = Kronecker([Ranges(200), Prefixes(100), Total(20)])
    found = (both @ counts.ravel()).reshape(-1, 100)
    assert found[0, -1] == counts[0].sum()
    assert found[199, 0] == counts[:, 0].sum()
    back = tables.rmatvec(np.ones(tables.questions))
    assert np.array_equal(back, np.full(math.prod(shape), 3.0))


@settings(max_examples=30)
@given(st.data())
def test_random_compositions_agree_with_their_matrices(data: st.DataObject) -> None:
    def one(cells: int) -> Workload:
        kind = data.draw(st.sampled_from([Identity, Total, Prefixes, Ranges, Hierarchy, Haar]))
        return kind(cells)

    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    stacked = [
        Kronecker([one(size) for size in shape]) for _ in range(data.draw(st.integers(1, 3)))
    ]
    wanted = []
    for product in stacked:
        dense = np.ones((1, 1))
        for factor in product.factors:
            dense = np.kron(dense, factor.dense())
        wanted.append(dense)
    agrees(Stacked(stacked), np.vstack(wanted))


def test_other_libraries_take_a_workload_as_it_is() -> None:
    ranges = Ranges(5)
    assert aslinearoperator(ranges) is ranges
    norm = sparse.linalg.svds(ranges, k=1, return_singular_vectors=False)[0]
    assert norm == pytest.approx(np.linalg.norm(ranges.dense(), 2))


def test_estimates_answer_workloads() -> None:
    study = sf.Study("ages", [sf.integers("age", 0, 4, protect=sf.Distance(1))])
    estimate = study.simulate({"age": [0, 1, 2, 3, 4] * 20}, seed=1).estimate("unbiased")
    answers = estimate.linear(parse(study, "ranges of age"))
    for label, value in zip(parse(study, "ranges of age").labels, answers.values, strict=True):
        assert float(estimate.count(label)) == pytest.approx(value)


# What is refused


def test_labels_are_made_when_asked_for() -> None:
    made: list[int] = []

    def name(row: int) -> str:
        made.append(row)
        return str(row)

    labels = Labels(10**9, name)
    assert len(labels) == 10**9
    assert (labels[5], labels[-1], labels[2:4]) == ("5", "999999999", ["2", "3"])
    assert len(made) == 4
    assert "…" in repr(labels)
    with pytest.raises(IndexError):
        labels[10**9]


def test_what_is_too_large_is_refused_with_its_size() -> None:
    with pytest.raises(TooLargeError, match=r"4,097 cells is beyond the limit of 4,096"):
        Identity(MOST_GRAM_CELLS + 1).gram()
    with pytest.raises(TooLargeError, match=r"500,500 questions × 1,000 cells"):
        Ranges(1000).dense()
    with pytest.raises(TooLargeError, match="ask for fewer rows"):
        Ranges(1000).rows(slice(0, MOST_ENTRIES // 1000 + 1))
    with pytest.raises(TooLargeError, match="entries that are not zero"):
        Kronecker([Total(1 << 10), Prefixes(1 << 10)]).sparse()
    assert Identity(1 << 15).sparse().nnz == 1 << 15


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: Identity(0), StudyError, r"m must be a whole number of at least 1, got m=0"),
        (lambda: Prefixes(2.5), StudyError, "m must be a whole number"),
        (lambda: Ranges(5, size=4), StudyError, "size must be at least m=5, got size=4"),
        (lambda: Hierarchy(5, 1), StudyError, "branching must be a whole number of at least 2"),
        (lambda: Given([[1, np.nan]]), QuestionError, "finite numbers"),
        (lambda: Given("text"), QuestionError, "matrix of numbers"),
        (lambda: Given(np.zeros((0, 3))), QuestionError, r"got shape \(0, 3\)"),
        (lambda: Given(np.zeros((2, 2, 2))), QuestionError, r"got shape \(2, 2, 2\)"),
        (lambda: Given([[1, 2]], labels=["a", "b"]), StudyError, "got 2 labels for 1 questions"),
        (lambda: Given([[1, 2]], shape_of_cells=(3,)), QuestionError, "must have 3 columns"),
        (lambda: Kronecker([]), StudyError, "at least one workload"),
        (lambda: Stacked([np.eye(2)]), StudyError, r"wrap a matrix in Given"),
        (lambda: Stacked([Total(2), Total(3)]), StudyError, "the same cells, got 2 and 3"),
        (lambda: Stacked([Total(2)], weights=[1, 2]), StudyError, "1 finite numbers"),
        (lambda: Stacked([Total(2)], weights=[np.inf]), StudyError, "1 finite numbers"),
        (lambda: Marginals((2, 2), [(0, 0)]), StudyError, r"different numbers from 0 to 1"),
        (lambda: Marginals((2, 2), [(2,)]), StudyError, r"different numbers from 0 to 1"),
        (lambda: KWay((2, 2), 3), StudyError, "at most the number of axes, 2, got k=3"),
        (lambda: Ranges(3).rows(6), QuestionError, "6 questions has no row 6"),
        (lambda: Ranges(3).rows([0.5]), QuestionError, "whole numbers or a slice"),
    ],
)
def test_bad_workloads(make: Callable[[], Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make()
