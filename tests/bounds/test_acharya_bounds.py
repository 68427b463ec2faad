"""Theorems 3 and 4 of Acharya et al. 2020, and their propositions, beside exact variances."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato import bounds
from sfumato.arrays import Floats
from sfumato.errors import StudyError
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.labelled import BlockMetric, HighLowMetric

EPSILONS = ("1/10", "1", "3")
BLOCKS = ((12,), (6, 6), (4, 4, 4), (2, 3, 7), (1,) * 12)


def variances(metric: CellMetric) -> Iterator[Floats]:
    """Of every cell's share, for one person: for an even population, and for all in one cell."""
    channel = sf.Hadamard().bind(metric)
    moments = channel.second_moment(np.eye(metric.size))
    laws = [np.full(metric.size, 1 / metric.size), *np.eye(metric.size)]
    for law in laws:
        yield moments @ law - law**2  # people are drawn from the population


def in_blocks(epsilon: str, sizes: tuple[int, ...]) -> BlockMetric:
    return BlockMetric(Fraction(epsilon), np.repeat(np.arange(len(sizes)), sizes))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("sizes", BLOCKS)
def test_proposition_5_holds_for_every_population_that_is_tried(
    epsilon: str, sizes: tuple[int, ...]
) -> None:
    """E d_TV is at most half the sum of standard deviations, whatever the law of the errors."""
    bound = bounds.acharya_proposition_5(epsilon, 1, sizes)
    squared = bounds.acharya_proposition_5_squared(epsilon, 1, sizes)
    for found in variances(in_blocks(epsilon, sizes)):
        assert np.sqrt(found).sum() / 2 <= bound
        assert found.sum() <= squared


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("high", [1, 2, 5])
def test_proposition_4_holds_for_every_population_that_is_tried(epsilon: str, high: int) -> None:
    metric = HighLowMetric(Fraction(epsilon), np.arange(12) < high)
    bound = bounds.acharya_proposition_4(epsilon, 1, 12, high)
    for found in variances(metric):
        assert np.sqrt(found).sum() / 2 <= bound


def enough(of_one: float, distance: float) -> float:
    return (of_one / distance) ** 2


@pytest.mark.parametrize("epsilon", ["1/100", "1/10", "1/2", "1"])
def test_the_orders_of_theorems_3_and_4_are_those_of_the_propositions(epsilon: str) -> None:
    """For ε ≤ 1, 2/ε ≤ c ≤ 2.17/ε: the people that propositions ask for are a constant away."""
    for sizes in BLOCKS:
        people = enough(bounds.acharya_proposition_5(epsilon, 1, sizes), 0.1)
        order = bounds.acharya_theorem_4(epsilon, 0.1, sizes)
        assert 12 * 2**2 <= people / order * (1 + 1e-9) <= 12 * 2.17**2
    for cells, high in ((100, 1), (100, 49), (10_000, 10), (10_000, 4_000)):
        people = enough(bounds.acharya_proposition_4(epsilon, 1, cells, high), 0.1)
        order = bounds.acharya_theorem_3(epsilon, 0.1, cells, high)
        # (a + b)² lies between a² + b² and twice that, a² = 3c²s² and b² = ck.
        assert 2 <= people / order <= 2 * 3 * 2.17**2


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", ["1/10", "1"])
def test_the_people_that_are_needed_have_the_order_of_theorem_4(epsilon: str) -> None:
    """The prediction for an even population, over sizes and numbers of blocks: within 3 of it."""
    ratios = []
    for cells, blocks in ((64, 1), (64, 8), (256, 1), (256, 16)):
        sizes = (cells // blocks,) * blocks
        made = sf.integers("x", 0, cells - 1, protect=_towns(epsilon, sizes), channel=sf.Hadamard())
        found = sf.people_for_tv(made, 0.01)
        ratios.append(found / bounds.acharya_theorem_4(epsilon, 0.01, sizes))
    assert max(ratios) <= 3 * min(ratios)


def _towns(epsilon: str, sizes: tuple[int, ...]) -> Any:
    ends = np.cumsum((0, *sizes)).tolist()
    parts = [range(a, b) for a, b in itertools.pairwise(ends)]
    return sf.Blocks(epsilon=Fraction(epsilon), blocks=parts)


REFUSED: list[tuple[Any, str]] = [
    (lambda: bounds.acharya_theorem_3(1, 0.1, 10, 5), r"Theorem 3 of Acharya.*sensitive=5.*Use"),
    (lambda: bounds.acharya_theorem_3(0, 0.1, 10, 2), "epsilon must be positive"),
    (lambda: bounds.acharya_theorem_3(1, 1.5, 10, 2), "distance must lie between 0 and 1"),
    (lambda: bounds.acharya_theorem_4(1, 0.1, []), "at least one block"),
    (lambda: bounds.acharya_proposition_4(1, 10, 10, 11), "sensitive must be"),
    (lambda: bounds.acharya_proposition_5(1, 10, [2, 0]), "blocks must be a whole number"),
    (lambda: bounds.acharya_proposition_5_squared(1, 0, [2]), "n must be a whole number"),
]


@pytest.mark.parametrize(("call", "told"), REFUSED, ids=[told for _, told in REFUSED])
def test_a_bound_is_refused_where_it_does_not_hold(call: Any, told: str) -> None:
    with pytest.raises(StudyError, match=told):
        call()
