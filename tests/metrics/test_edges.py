from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.domains.categories import Categories
from sfumato.errors import StudyError, TooLargeError
from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.distance import AsideMetric, CappedLineMetric, LineMetric
from sfumato.metrics.edges import (
    MOST_PAIRS,
    Cliques,
    Edges,
    Lookup,
    edges_of,
    edges_of_matrix,
    grid_edges,
    read_edges,
)
from sfumato.metrics.graphs import PolicyGraph
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.uniform import UniformMetric

Table = list[list[Fraction | None]]


def closed(table: Table) -> Table:
    """Shortest paths over the smaller of both directions, in rationals."""
    size = len(table)
    best = {
        (i, j): min((e for e in (table[i][j], table[j][i]) if e is not None), default=None)
        for i, j in itertools.product(range(size), repeat=2)
    }
    for z, i, j in itertools.product(range(size), repeat=3):
        to, onward, straight = best[i, z], best[z, j], best[i, j]
        if to is not None and onward is not None:
            best[i, j] = to + onward if straight is None else min(straight, to + onward)
    return [[best[i, j] if i != j else Fraction(0) for j in range(size)] for i in range(size)]


def table_of(metric: CellMetric) -> Table:
    return [[metric.exact(i, j) for j in range(metric.size)] for i in range(metric.size)]


def table_of_edges(edges: Edges) -> Table:
    table: Table = [[None] * edges.size for _ in range(edges.size)]
    listed = edges.listed()
    for i, j, length in zip(listed.first, listed.second, listed.lengths, strict=True):
        known = table[i][j]
        table[i][j] = table[j][i] = length if known is None else min(known, length)
    return table


METRICS = {
    "line": LineMetric.equal(Fraction(1, 5), 7),
    "uneven line": LineMetric([Fraction(1, 3), Fraction(2), Fraction(1, 7)]),
    "capped": CappedLineMetric(LineMetric.equal(Fraction(1, 2), 8), Fraction(5, 4)),
    "aside": AsideMetric(LineMetric.equal(Fraction(1, 2), 6), Fraction(7, 3)),
    "near aside": AsideMetric(LineMetric.equal(Fraction(1, 2), 6), Fraction(2, 3)),
    "capped, aside": AsideMetric(
        CappedLineMetric(LineMetric.equal(Fraction(1, 2), 6), Fraction(5, 4)), Fraction(1)
    ),
    "uniform": UniformMetric(Fraction(3, 2), 5),
    "blocks": BlockMetric(Fraction(1), np.array([2, 0, 2, 1, 0, 2])),
    "high and low": HighLowMetric(Fraction(1), np.array([False, True, False, True])),
    "all high": HighLowMetric(Fraction(1), np.array([True, True, True])),
    "none high": HighLowMetric(Fraction(1), np.array([False, False, False])),
    "one way": TableMetric(np.array([[0, 4, -1], [1, 0, 2], [-1, -1, 0]]), 3, 3),
}


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS.keys())
def test_the_pairs_imply_the_whole_metric_in_its_smaller_direction(metric: CellMetric) -> None:
    wanted = closed(table_of(metric))
    edges = edges_of(metric)
    assert closed(table_of_edges(edges)) == wanted
    floats = [[math.inf if e is None else float(e) for e in row] for row in wanted]
    assert edges.distances() == pytest.approx(np.array(floats), rel=1e-12)
    assert edges.pairs == len(edges.listed().first)


def test_edges_of_a_user_defined_metric_are_read_pair_by_pair() -> None:
    class Own(CellMetric):
        size = 3
        notes = ()

        def exact(self, i: int, j: int) -> Fraction | None:
            return None if {i, j} == {0, 2} else Fraction(abs(i - j), 3)

    assert Own().matrix().tolist() == [[0, 1 / 3, np.inf], [1 / 3, 0, 1 / 3], [np.inf, 1 / 3, 0]]
    assert edges_of(Own()).lengths == (Fraction(1, 3), Fraction(1, 3))


integer_tables = st.integers(2, 7).flatmap(
    lambda size: st.lists(
        st.lists(st.sampled_from([-1, 1, 2, 3, 5, 8]), min_size=size, max_size=size),
        min_size=size,
        max_size=size,
    )
)


@given(integer_tables)
def test_any_table_is_implied_and_no_pair_of_a_closed_one_has_a_cell_between(rows) -> None:
    numbers = np.array(rows)
    np.fill_diagonal(numbers, 0)
    given_table: Table = [[None if n < 0 else Fraction(int(n), 4) for n in row] for row in numbers]
    wanted = closed(given_table)
    floats = np.where(numbers < 0, np.inf, numbers / 4)
    assert closed(table_of_edges(edges_of_matrix(floats))) == wanted
    finite = np.array([[math.inf if e is None else float(e) for e in row] for row in wanted])
    edges = edges_of_matrix(finite)
    assert closed(table_of_edges(edges)) == wanted
    for i, j in zip(edges.first.tolist(), edges.second.tolist(), strict=True):
        for z in set(range(len(wanted))) - {i, j}:
            legs = wanted[i][z], wanted[z][j]
            assert None in legs or sum(legs) > wanted[i][j]  # type: ignore[arg-type]


def test_large_tables_are_thinned_out_where_that_helps_and_listed_where_not() -> None:
    names = [f"c{k}" for k in range(90)]
    graph = PolicyGraph(epsilon=1, edges=[(names[k], names[(k + 1) % 90]) for k in range(90)])
    ring = graph.bind(Categories(names), optional=False)
    assert edges_of(ring).pairs == 90
    rng = np.random.default_rng(3)
    points = rng.uniform(size=(90, 2))
    apart = np.sqrt(((points[:, None] - points) ** 2).sum(axis=-1))
    edges = edges_of_matrix(apart)
    assert edges.pairs == 90 * 89 // 2
    given = apart[edges.first, edges.second]
    exact = np.array([float(length) for length in edges.lengths])
    assert (exact <= given).all()  # never weaker
    assert exact == pytest.approx(given, rel=1e-9)


def test_numbers_are_read_as_the_decimals_that_print_them() -> None:
    edges = edges_of_matrix([[0, 0.1, np.inf], [0.3, 0, 0.7], [np.inf, 0.7, 0]])
    assert edges.lengths == (Fraction(1, 10), Fraction(7, 10))


def test_zeros_keep_every_pair_that_matters() -> None:
    edges = edges_of_matrix([[0, 0, 2], [0, 0, 2], [2, 2, 0]])
    assert closed(table_of_edges(edges)) == closed(
        [[Fraction(e) for e in row] for row in [[0, 0, 2], [0, 0, 2], [2, 2, 0]]]
    )
    assert edges.distances().tolist() == [[0, 0, 2], [0, 0, 2], [2, 2, 0]]
    assert edges_of_matrix(np.zeros((3, 3))).distances().tolist() == np.zeros((3, 3)).tolist()


@pytest.mark.parametrize(
    "parts",
    [
        ("line", "uniform"),
        ("blocks", "uneven line"),
        ("capped", "high and low"),
        ("one way", "uniform", "uneven line"),
    ],
)
def test_a_grid_adds_its_axes(parts: tuple[str, ...]) -> None:
    metrics = [METRICS[part] for part in parts]
    shape = tuple(metric.size for metric in metrics)
    sums = np.zeros(shape + shape)
    axes = len(shape)
    for axis, metric in enumerate(metrics):
        own = edges_of(metric).distances()
        spread = [1] * (2 * axes)
        spread[axis] = spread[axes + axis] = metric.size
        sums = sums + own.reshape(spread)
    size = math.prod(shape)
    assert grid_edges(metrics).distances() == pytest.approx(sums.reshape(size, size))


def test_a_uniform_metric_is_one_clique_at_any_size() -> None:
    edges = grid_edges([UniformMetric(Fraction(1, 2), 10**6)])
    assert edges.pairs == 10**6 * (10**6 - 1) // 2
    assert edges.cliques[0].length == Fraction(1, 2)


def test_scaling_is_exact() -> None:
    for metric in METRICS.values():
        edges = edges_of(metric)
        third = table_of_edges(edges.scaled(Fraction(1, 3)))
        wanted = [[None if e is None else e / 3 for e in row] for row in table_of_edges(edges)]
        assert third == wanted
    with pytest.raises(StudyError, match="factor must be positive"):
        edges.scaled(Fraction(0))


def test_single_pairs_are_looked_up_exactly() -> None:
    edges = edges_of(METRICS["capped"])
    lookup = Lookup(edges)
    first, second = np.array([0, 1, 7]), np.array([1, 0, 0])
    assert lookup.exact(first, second) == [Fraction(1, 2), Fraction(1, 2), Fraction(5, 4)]
    assert lookup.floats(first, second).tolist() == [0.5, 0.5, 1.25]
    line = Lookup(edges_of(METRICS["line"]))
    assert line.exact(np.array([0]), np.array([2])) == [None]
    assert Lookup(edges_of(METRICS["none high"])).floats(first[:1], second[:1]).tolist() == [np.inf]
    twice = Edges([0, 1], [1, 0], [Fraction(2), Fraction(1)], 2)
    assert Lookup(twice).exact(np.array([0]), np.array([1])) == [Fraction(1)]


def test_any_form_of_distances_is_read() -> None:
    edges = edges_of(METRICS["line"])
    assert read_edges(edges) is edges
    assert read_edges(METRICS["line"]).lengths == edges.lengths
    assert read_edges([[0, 1], [1, 0]]).lengths == (Fraction(1),)


def test_bad_pairs_are_refused_by_name() -> None:
    one = [Fraction(1)]
    with pytest.raises(StudyError, match="two cells and a length, got 1, 2 and 1"):
        Edges([0], [1, 2], one, 3)
    with pytest.raises(StudyError, match=r"numbered 0\.\.1"):
        Edges([0], [2], one, 2)
    with pytest.raises(StudyError, match="0 or more"):
        Edges([0], [1], [Fraction(-1)], 2)
    with pytest.raises(StudyError, match="mark every one of the 2 cells"):
        Edges([0], [1], one, 2, [Cliques(np.zeros(3, dtype=np.intp), Fraction(1))])
    with pytest.raises(StudyError, match="too unlike"):
        edges_of_matrix(_unlike())
    with pytest.raises(StudyError, match="square"):
        edges_of_matrix([[0, 1]])
    with pytest.raises(StudyError, match="0 or more"):
        edges_of_matrix([[0, -1], [1, 0]])


def _unlike() -> np.ndarray:
    """More kinds of numbers than are read one by one, over 60 orders of two."""
    rng = np.random.default_rng(0)
    apart = rng.uniform(1, 2, (100, 100))
    apart[0, 1] = 2.0**-70
    return apart


def test_too_many_pairs_are_refused_with_their_number() -> None:
    cells = 2 * math.isqrt(MOST_PAIRS)
    edges = edges_of(UniformMetric(Fraction(1), cells))
    with pytest.raises(TooLargeError, match="pairs of cells are beyond"):
        edges.listed()
    with pytest.raises(TooLargeError, match="beyond the 4096 cells"):
        edges.distances()
    half = HighLowMetric(Fraction(1), np.arange(cells) % 2 == 0)
    with pytest.raises(TooLargeError, match="pairs with a sensitive cell"):
        edges_of(half)
