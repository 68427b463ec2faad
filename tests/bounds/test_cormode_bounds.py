"""Bounds of Cormode et al. 2019 beside the exact errors of hierarchies and HaarHRR."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato import bounds
from sfumato.arrays import Floats
from sfumato.channels.trees.tree import Tree, plain_parts
from sfumato.errors import StudyError
from sfumato.metrics.uniform import UniformMetric

EPSILONS = ("1/10", "1", "3", "8")
TREES = ((2, 16), (2, 64), (3, 27), (4, 64), (5, 25), (8, 64))
ORACLES = ("oue", "hrr")


@cache
def ranges(size: int) -> Floats:
    cells = np.arange(size)
    ends = itertools.combinations(range(size + 1), 2)
    return np.array([(cells >= a) & (cells < b) for a, b in ends], dtype=np.float64)


def largest(choice: Any, epsilon: str, size: int) -> tuple[Floats, dict[int, float]]:
    """One person's variance in the worst cell: of every range, and the largest of each length."""
    asked = ranges(size)
    channel = choice.bind(UniformMetric(Fraction(epsilon), size))
    found: Floats = (channel.second_moment(asked) - asked**2).max(axis=1)
    lengths = asked.sum(axis=1).astype(int)
    return found, {int(r): float(found[lengths == r].max()) for r in np.unique(lengths)}


@pytest.mark.parametrize(("branching", "size"), TREES)
def test_fact_3_fails_for_1_and_b_cells_alone_and_its_corrected_form_never(
    branching: int, size: int
) -> None:
    asked = ranges(size)
    _, parts = plain_parts((Tree.branching(size, branching),), asked)
    nodes = sum(np.count_nonzero(part, axis=1) for part in parts.values())
    for r in range(1, size):
        most = int(nodes[asked.sum(axis=1) == r].max())
        assert most <= bounds.range_nodes(r, branching)
        if r in (1, branching):
            with pytest.raises(StudyError, match=f"Fact 3 .* got length={r}"):
                bounds.cormode_fact_3(r, branching)
        else:
            assert most <= bounds.cormode_fact_3(r, branching)
    # What it says for these two lengths is less than what they need: 0 and B − 1 nodes.
    for r, printed in ((1, 1 - branching), (branching, branching - 1)):
        assert int(nodes[asked.sum(axis=1) == r].max()) > printed


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize(("branching", "size"), TREES)
def test_bounds_of_hierarchies_hold_for_every_range_and_person(
    branching: int, size: int, oracle: str, epsilon: str
) -> None:
    v = bounds.sampled_oracle_variance(epsilon, 1, oracle)
    height = Tree.branching(size, branching).depth
    every, worst = largest(sf.Hierarchical(branching, oracle, consistency=False), epsilon, size)
    _, consistent = largest(sf.Hierarchical(branching, oracle), epsilon, size)
    even = [Fraction(1, height)] * height
    for r in worst:
        assert worst[r] <= bounds.hierarchy_variance(v, r, size, branching)
        assert consistent[r] <= bounds.hierarchy_variance(v, r, size, branching)
        if r > 1:
            bound = bounds.cormode_equation_1(v, r, size, branching)
            assert worst[r] <= bound
            assert bounds.cormode_theorem_1(v, r, branching, even) == pytest.approx(bound)
        if r >= branching:
            assert consistent[r] <= bounds.cormode_equation_2(v, r, size, branching)
    assert every.mean() <= bounds.cormode_theorem_2(v, size, branching)
    if oracle == "hrr":  # not for nothing: a third of (1) fails somewhere
        assert any(
            worst[r] > bounds.cormode_equation_1(v, r, size, branching) / 3 for r in worst if r > 1
        )


@pytest.mark.parametrize("oracle", ORACLES)
def test_theorem_1_holds_for_uneven_levels(oracle: str) -> None:
    """The chances of levels are given from the leaves up there, and from the root down here."""
    up = ["1/2", "1/3", "1/6"]
    choice = sf.Hierarchical(4, oracle, levels=up[::-1], consistency=False)
    _, worst = largest(choice, "1", 64)
    v = bounds.sampled_oracle_variance(1, 1, oracle)
    for r in range(2, 64):
        assert worst[r] <= bounds.cormode_theorem_1(v, r, 4, up)
    # The other way round they do not bound short ranges.
    assert worst[48] > bounds.cormode_theorem_1(v, 4, 4, up)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("size", [2, 16, 20, 64])
def test_equation_3_holds_for_every_range_and_person(size: int, epsilon: str) -> None:
    every, _ = largest(sf.HaarHRR(), epsilon, size)
    v = bounds.sampled_oracle_variance(epsilon, 1, "hrr")
    assert every.max() <= bounds.cormode_equation_3(v, size)


def test_with_the_printed_variance_of_nodes_all_fail_for_large_epsilon() -> None:
    """It leaves out the draw of the level, whose variance does not vanish."""
    printed = bounds.cormode_oracle_variance(3, 1)
    every, worst = largest(sf.Hierarchical(2, "hrr", consistency=False), "3", 64)
    assert all(worst[r] > bounds.cormode_equation_1(printed, r, 64, 2) for r in range(2, 60))
    assert every.mean() > bounds.cormode_theorem_2(printed, 64, 2)
    _, consistent = largest(sf.Hierarchical(4, "hrr"), "3", 64)
    assert all(consistent[r] > bounds.cormode_equation_2(printed, r, 64, 4) for r in range(4, 40))
    haar, _ = largest(sf.HaarHRR(), "3", 64)
    assert haar.max() > 2 * bounds.cormode_equation_3(printed, 64)
    # And even at ε = 1, for two cells that lie in two nodes.
    _, worst = largest(sf.Hierarchical(2, "oue", consistency=False), "1", 16)
    assert worst[2] > bounds.cormode_equation_1(bounds.cormode_oracle_variance(1, 1), 2, 16, 2)


def test_counterexamples_where_lengths_are_refused() -> None:
    """r = 1 for (1), which would say 0; r < B for (2)."""
    v = bounds.sampled_oracle_variance("0.1", 1, "oue")
    _, worst = largest(sf.Hierarchical(8, "oue"), "0.1", 64)
    assert worst[1] > 0
    for r in (2, 4, 6):
        assert worst[r] > v * 9 / 2 * 2 * math.log(r, 8)


def test_the_variance_of_a_node_is_that_of_the_oracles() -> None:
    """Of one cell among many where nobody is, and what own people and the draw add."""
    for epsilon in EPSILONS:
        metric = UniformMetric(Fraction(epsilon), 4096)
        one = np.zeros(4096)
        one[0] = 1
        v = bounds.cormode_oracle_variance(epsilon, 1)
        assert sf.OUE().bind(metric).second_moment(one)[1] == pytest.approx(v, rel=1e-3, abs=1e-3)
        s2 = bounds.sampled_oracle_variance(epsilon, 1, "hrr")
        assert sf.HRR().bind(metric).node_variance == pytest.approx(s2, rel=1e-9)


REFUSED: list[tuple[Any, str]] = [
    (lambda: bounds.cormode_theorem_1(1.0, 1, 2, [1]), r"Theorem 1 of Cormode.*length=1. Use"),
    (lambda: bounds.cormode_theorem_1(1.0, 5, 2, ["1/2", "1/2"]), "at most 4 cells, got length=5"),
    (lambda: bounds.cormode_theorem_1(1.0, 2, 2, [1, 1]), "sum to 1 at most, got 2"),
    (lambda: bounds.cormode_equation_1(1.0, 1, 16, 2), r"Equation \(1\).*length=1.*Use hierarchy"),
    (lambda: bounds.cormode_equation_1(1.0, 17, 16, 2), "longer than the axis, got length=17"),
    (lambda: bounds.cormode_equation_2(1.0, 7, 64), r"Equation \(2\).*branching=8 only, got"),
    (lambda: bounds.hierarchy_variance(0.0, 7, 64, 2), "oracle_variance must be positive"),
    (lambda: bounds.cormode_theorem_2(1.0, 1, 2), "cells must be a whole number of at least 2"),
    (lambda: bounds.cormode_equation_3(1.0, 1), "cells must be a whole number of at least 2"),
    (lambda: bounds.range_nodes(3, 1), "branching must be a whole number of at least 2"),
    (lambda: bounds.cormode_oracle_variance(-1, 5), "epsilon must be positive and finite"),
    (lambda: bounds.sampled_oracle_variance(1, 5, "olh"), "oracle must be 'oue' or 'hrr'"),
]


@pytest.mark.parametrize(("call", "told"), REFUSED, ids=[told for _, told in REFUSED])
def test_a_bound_is_refused_where_its_theorem_does_not_hold(call: Any, told: str) -> None:
    with pytest.raises(StudyError, match=told):
        call()
