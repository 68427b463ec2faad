"""Simpler metrics below E: nowhere above it, and as large as they can be."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.distance import CappedLineMetric, LineMetric
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.stricter import caps_of, is_within, line_within, uniform_within
from sfumato.metrics.uniform import UniformMetric


def random_metric(size: int, seed: int, *, infinite: bool = False) -> TableMetric:
    rng = np.random.default_rng(seed)
    entries = rng.integers(5, 60, (size, size))
    if infinite:
        entries[rng.random((size, size)) < 0.2] = -1
    np.fill_diagonal(entries, 0)
    return TableMetric(entries, 7, size)


METRICS: dict[str, CellMetric] = {
    **{f"random {seed}": random_metric(6, seed) for seed in range(4)},
    "infinite": random_metric(6, 9, infinite=True),
    "line": LineMetric((Fraction(1, 2), Fraction(2), Fraction(1, 3))),
    "capped": CappedLineMetric(LineMetric.equal(Fraction(1, 2), 6), Fraction(3, 2)),
    "blocks": BlockMetric(Fraction(1), np.array([0, 1, 0, 2, 1])),
    "high-low": HighLowMetric(Fraction(1), np.array([True, False, True])),
}


def below(stricter: CellMetric, metric: CellMetric) -> bool:
    """E' <= E, pair by pair."""
    pairs = [(i, j) for i in range(metric.size) for j in range(metric.size)]
    return all(
        e is None or ((s := stricter.exact(i, j)) is not None and s <= e)
        for i, j in pairs
        for e in [metric.exact(i, j)]
    )


@pytest.mark.parametrize("name", METRICS)
def test_one_epsilon_is_the_least_e(name: str) -> None:
    metric = METRICS[name]
    found = uniform_within(metric)
    assert found is not None
    assert below(found, metric)
    assert is_within(found, metric)
    more = UniformMetric(found.epsilon * Fraction(101, 100), metric.size)
    assert not below(more, metric)
    assert not is_within(more, metric)


@pytest.mark.parametrize("capped", [False, True])
@pytest.mark.parametrize("name", METRICS)
def test_a_line_is_as_long_as_it_can_be(name: str, capped: bool) -> None:
    metric = METRICS[name]
    for cap in caps_of(metric) if capped else [None]:
        line = line_within(metric, cap)
        assert line is not None
        assert line.equal_step is not None
        assert below(line, metric)
        assert is_within(line, metric)
        longer = LineMetric.equal(line.equal_step * Fraction(101, 100), metric.size)
        more = longer if cap is None else CappedLineMetric(longer, cap)
        # A line no longer than its cap at every step is one ε, and cannot be longer.
        assert line.equal_step == cap or not below(more, metric)
        assert is_within(more, metric) == below(more, metric)


def test_nothing_to_keep_has_no_stricter_metric() -> None:
    told = TableMetric(np.array([[0, -1], [-1, 0]]), 1, 2)
    assert uniform_within(told) is None
    assert line_within(told) is None


def test_an_infinite_e_is_within_nothing_finite() -> None:
    told = BlockMetric(Fraction(1), np.array([0, 1, 0]))
    assert not is_within(told, UniformMetric(Fraction(5), 3))
    assert is_within(UniformMetric(Fraction(1), 3), told)
    assert not is_within(UniformMetric(Fraction(1), 4), told)
