"""Typical questions: all of them where they are few, evenly spaced or drawn where they are many."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.questions.lines import Identity, Ranges
from sfumato.questions.typical import cells, deciles, most_rows, ranges, sample, thinned


def test_on_a_short_axis_all_ranges_and_cells_are_asked() -> None:
    assert np.array_equal(ranges(6, 7).dense(), Ranges(6, size=7).dense())
    assert np.array_equal(cells(6, 7).dense(), np.eye(7)[:6])


def test_on_a_long_axis_evenly_spaced_ones_stand_for_all() -> None:
    size = 1 << 18
    most = most_rows(size)
    asked = ranges(size - 1, size)
    assert asked.boundaries == most < size
    first, last = asked.ends()
    assert (first.min(), last.max()) == (0, size - 2)
    steps = np.diff(np.unique(first))
    assert steps.max() - steps.min() <= 1
    assert cells(size - 1, size).questions == most


def test_thinning_leaves_what_is_short_enough_and_what_is_no_range() -> None:
    asked = Ranges(9, size=10)
    assert thinned(asked, 10) is asked
    assert np.array_equal(thinned(asked, 4).dense(), Ranges(9, size=10, ends=4).dense())
    cell = Identity(9)
    assert thinned(cell, 4) is cell


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
