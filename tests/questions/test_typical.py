"""Typical questions: all of them where they are few, evenly spaced or drawn where they are many."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.questions.lines import Identity, Ranges
from sfumato.questions.typical import cells, deciles, most_rows, rows_of_squares, sample, thinned
from sfumato.questions.workload import Workload


def test_single_cells_leave_out_no_answer() -> None:
    assert np.array_equal(cells(6, 7).dense(), np.eye(7)[:6])


def test_on_a_long_axis_evenly_spaced_ones_stand_for_all() -> None:
    size = 1 << 18
    most = most_rows(size)
    asked = thinned(Ranges(size - 1, size=size), most)
    assert isinstance(asked, Ranges)
    assert asked.boundaries == most < size
    first, last = asked.ends()
    assert (first.min(), last.max()) == (0, size - 2)
    steps = np.diff(np.unique(first))
    assert steps.max() - steps.min() <= 1
    chosen = thinned(cells(size - 1, size), most).dense().argmax(axis=1)
    assert len(chosen) == most
    assert (chosen[0], chosen[-1]) == (0, size - 2)


def test_what_is_short_enough_is_left_whole() -> None:
    asked = Ranges(9, size=10)
    assert thinned(asked, 10) is asked
    assert np.array_equal(thinned(asked, 4).dense(), Ranges(9, size=10, ends=4).dense())
    cell = Identity(9)
    assert thinned(cell, 9) is cell
    assert np.array_equal(thinned(cell, 3).dense(), np.eye(9)[[0, 4, 8]])


@pytest.mark.parametrize("asked", [Ranges(5, size=6), Identity(4), cells(4, 5)], ids=repr)
def test_rows_of_squares_are_counted_without_laying_them_out(asked: Workload) -> None:
    rows, counts = asked.squares()
    assert rows_of_squares(asked) == len(rows) == len(counts)
    assert np.allclose(rows.T @ (counts[:, None] * rows), asked.gram())


def test_deciles_are_the_first_cells_that_reach_each_tenth() -> None:
    law = np.array([0.05, 0.05, 0.3, 0.2, 0.2, 0.2, 1.0])  # the last gave no answer
    places = deciles(law, 6).dense().sum(axis=1) - 1
    assert places.tolist() == [1, 2, 2, 2, 3, 3, 4, 4, 4]


@pytest.mark.parametrize("most", [3, 20, 45])
def test_a_sample_is_of_different_questions(most: int) -> None:
    asked = Ranges(9)
    rows = sample(asked, most, np.random.default_rng(2))
    assert len(rows) == min(most, asked.questions)
    assert len(np.unique(rows, axis=0)) == len(rows)
    every = {row.tobytes() for row in asked.dense()}
    assert {row.tobytes() for row in rows} <= every
