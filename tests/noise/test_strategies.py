"""Strategies: named ones over axes, rates and readings by turns, and the search among rows."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import sfumato as sf  # noqa: E402
from benchmarks import strategies  # noqa: E402
from sfumato.errors import StudyError  # noqa: E402
from sfumato.metrics.cells import TableMetric  # noqa: E402
from sfumato.metrics.distance import LineMetric  # noqa: E402
from sfumato.metrics.edges import edges_of  # noqa: E402
from sfumato.noise.allocate import check  # noqa: E402
from sfumato.noise.search import search  # noqa: E402
from sfumato.noise.strategies import (  # noqa: E402
    FIXED,
    fit,
    over_axes,
    rows_of,
    squares_of,
    strategy,
    variances,
)
from sfumato.questions.lines import Ranges  # noqa: E402

HALF = Fraction(1, 2)


@pytest.mark.parametrize("name", FIXED)
def test_a_cell_beside_the_line_has_a_row_of_its_own(name: str) -> None:
    line, wide = strategy(name, 6).dense(), strategy(name, 6, size=7).dense()
    assert np.array_equal(wide[:-1], np.pad(line, [(0, 0), (0, 1)]))
    assert np.array_equal(wide[-1], np.eye(7)[-1])


def test_axes_without_an_order_are_measured_cell_by_cell() -> None:
    axes = [sf.integers("age", 0, 3), sf.categories("sex", ["f", "m"], optional=True)]
    both = over_axes("haar", axes).dense()
    assert np.array_equal(both, np.kron(strategy("haar", 4).dense(), np.eye(3)))


def test_rows_that_are_the_same_for_all_cells_are_left_out() -> None:
    assert len(rows_of("prefix", 5)) == 4
    assert len(rows_of("hierarchical", 8, 2)) == 14
    with pytest.raises(StudyError, match="did you mean 'prefix'"):
        rows_of("prefixes", 5)


@pytest.mark.slow
def test_a_search_is_never_worse_than_what_it_starts_from() -> None:
    metric, asked = strategies.searches(8)["points in the plane, cells"]
    found = search(asked, metric, bits=True)
    assert found.best.error <= min(found.fixed.values())
    assert found.gain > 2  # places on a map have no order, and single cells cost much
    assert check(found.best.lattice, metric, found.best.rates)
    line = LineMetric.equal(HALF, 7)
    prefixes = search(Ranges(7), line, bits=True)
    assert prefixes.gain == pytest.approx(1, abs=1e-6)
    assert prefixes.best.error == pytest.approx(prefixes.fixed["prefix"])


def test_taking_turns_lowers_the_error_and_suits_the_flips() -> None:
    """With rates this large the noise falls faster than 1/rate²: it pays to take that in."""
    apart = 24 - 12 * np.eye(4, dtype=int)
    apart[0] = apart[:, 0] = 12
    np.fill_diagonal(apart, 0)
    metric, rows, gram = TableMetric(apart, 1, 4), np.eye(4), np.eye(4)
    made = fit(rows, gram, edges_of(metric), bits=True)
    rates = sf.allocate(rows, metric).rates
    speed = np.array([float(rate or 0) for rate in rates])
    noise = variances(speed, np.ones(4), bits=True)
    plain = float(squares_of(rows, noise, gram) @ noise)
    assert made.error < 0.9 * plain
