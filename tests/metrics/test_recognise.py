"""Tables are recognised for what they are, with E unchanged for every pair; and split in blocks."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import sfumato as sf
from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.distance import CappedLineMetric, LineMetric
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.recognise import blocks_of, recognised
from sfumato.metrics.uniform import UniformMetric

KNOWN: dict[str, CellMetric] = {
    "uniform": UniformMetric(Fraction(2, 3), 5),
    "line": LineMetric.equal(Fraction(1, 2), 6),
    "unequal line": LineMetric((Fraction(1, 2), Fraction(2), Fraction(1, 3))),
    "capped line": CappedLineMetric(LineMetric.equal(Fraction(1, 2), 6), Fraction(3, 2)),
    "unequal capped line": CappedLineMetric(
        LineMetric((Fraction(1, 2), Fraction(2), Fraction(1, 3))), Fraction(9, 4)
    ),
    "blocks": BlockMetric(Fraction(1), np.array([0, 1, 0, 2, 1])),
    "high-low": HighLowMetric(Fraction(1), np.array([True, False, True, False])),
}


def table_of(metric: CellMetric) -> TableMetric:
    numerators, denominator = metric.integers()
    return TableMetric(numerators, denominator, metric.size)


@pytest.mark.parametrize("name", KNOWN)
def test_a_table_is_recognised(name: str) -> None:
    metric = KNOWN[name]
    found = recognised(table_of(metric))
    assert type(found) is type(metric)
    cells = range(metric.size)
    assert all(found.exact(i, j) == metric.exact(i, j) for i in cells for j in cells)


@pytest.mark.parametrize("name", KNOWN)
def test_one_other_entry_is_noticed(name: str) -> None:
    # E from cell 0 to cell 1 alone a little smaller: closed still, and of no kind.
    metric = KNOWN[name]
    numerators, denominator = metric.integers()
    changed = np.where(numerators < 0, -1, numerators * 10)
    changed[0, 1] = 7 * denominator if changed[0, 1] < 0 else changed[0, 1] - 1
    found = recognised(TableMetric(changed, 10 * denominator, metric.size))
    assert isinstance(found, TableMetric)


def test_marks_that_say_one_epsilon() -> None:
    block = BlockMetric(Fraction(1), np.array([3, 3, 3]))
    high = HighLowMetric(Fraction(1), np.array([True, True, True]))
    for metric in (block, high):
        assert recognised(metric) == UniformMetric(Fraction(1), 3)


def test_large_numbers_do_not_overflow() -> None:
    step = Fraction(1 << 60, 3)
    found = recognised(table_of(LineMetric.equal(step, 40)))
    assert isinstance(found, LineMetric)
    assert found.equal_step == step


def test_a_path_graph_is_a_line_for_all_that_follows() -> None:
    names = [f"stop {k}" for k in range(30)]
    path = sf.PolicyGraph(Fraction(1, 2), list(itertools.pairwise(names)))
    study = sf.Study("path", [sf.categories("stop", names, protect=path)])
    assert isinstance(study.schema.groups[0].metric, LineMetric)
    assert sf.audit(study).holds


def test_groups_that_need_not_hide_from_each_other_are_blocks() -> None:
    edges = [("a", "b"), ("b", "c"), ("x", "y"), ("y", "z"), ("z", "x")]
    names = ["x", "c", "a", "alone", "y", "b", "z"]
    axis = sf.categories("place", names, protect=sf.PolicyGraph(1, edges))
    metric = axis.metric()
    found = [([names[cell] for cell in cells], inside) for cells, inside in blocks_of(metric)]
    assert [cells for cells, _ in found] == [["x", "y", "z"], ["c", "b", "a"], ["alone"]]
    assert [type(inside) for _, inside in found] == [UniformMetric, LineMetric, type(None)]


def test_one_way_out_keeps_cells_in_one_block() -> None:
    one_way = TableMetric(np.array([[0, 1, -1], [-1, 0, -1], [-1, -1, 0]]), 1, 3)
    assert [cells.tolist() for cells, _ in blocks_of(one_way)] == [[0, 1], [2]]
