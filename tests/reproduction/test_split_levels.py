"""Splitting ε over the levels of a tree: exact by enumeration, and beside sampling one level."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import sfumato as sf
from sfumato.arrays import Floats
from sfumato.exact import at_most_exp
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import SeededBits
from sfumato.reproduction.split_levels import SplitLevels

ONE = Fraction(1)


def ranges(size: int) -> Floats:
    cells = np.arange(size)
    ends = itertools.combinations(range(size + 1), 2)
    return np.array([(cells >= a) & (cells < b) for a, b in ends], dtype=np.float64)


def sampled(epsilon: Fraction, size: int, branching: int, consistency: bool) -> Floats:
    """Var(f | x) of the library's own channel, which draws one level."""
    choice = sf.Hierarchical(branching, "oue", consistency=consistency)
    asked = ranges(size)
    return choice.bind(UniformMetric(epsilon, size)).second_moment(asked) - asked**2


@pytest.mark.parametrize("consistency", [True, False])
def test_it_is_private_unbiased_and_as_exact_as_it_says(consistency: bool) -> None:
    """Over all outputs of both levels together."""
    split = SplitLevels(ONE, 4, 2, consistency)
    laws = [part.at_cells(part.inner.likelihood().T).T for part in split.levels]
    joint = np.einsum("xa,xb->xab", *laws).reshape(4, -1)
    assert (joint[:, None] / joint[None]).max() == pytest.approx(math.e, rel=1e-12)
    rates = [part.inner.worst_ratio() for part in split.levels]
    assert at_most_exp(math.prod(rates), ONE)
    asked = ranges(4)
    centre, *parts = split.parts(asked)
    values = [
        np.array([np.asarray(part.inner.functional(row)) for row in b])
        for part, b in zip(split.levels, parts, strict=True)
    ]
    f = (values[0][:, :, None] + values[1][:, None, :]).reshape(len(asked), -1) + centre
    np.testing.assert_allclose(f @ joint.T, asked, atol=1e-9)
    np.testing.assert_allclose(f**2 @ joint.T - asked**2, split.variance(asked), atol=1e-9)


def test_answers_are_near_the_truth() -> None:
    split = SplitLevels(Fraction(3), 16, 4)
    people = np.repeat(np.arange(16), 500)
    asked = ranges(16)[[3, 20, 70]]
    found = split.answers(split.encode(people, SeededBits(1)), asked)
    stderr = np.sqrt(500 * split.variance(asked).sum(axis=1))
    assert np.all(np.abs(found - 500 * asked.sum(axis=1)) <= 5 * stderr)


@pytest.mark.parametrize("consistency", [True, False])
@pytest.mark.parametrize(("branching", "size"), [(2, 4), (2, 16), (2, 64), (4, 64), (8, 64)])
def test_splitting_costs_h_times_as_much_where_epsilon_is_small(
    branching: int, size: int, consistency: bool
) -> None:
    """§4.4: h² against h. The worst and the mean over all ranges, with people spread evenly."""
    epsilon = Fraction(1, 50)
    split = SplitLevels(epsilon, size, branching, consistency)
    h = split.tree.depth
    asked = ranges(size)[:-1]
    by_split = split.variance(asked).mean(axis=1)
    by_sampling = sampled(epsilon, size, branching, consistency)[: len(asked)].mean(axis=1)
    # V(ε) is 1/sinh²(ε/2): the draw of the level adds at most 2h to h·V(ε), which is h·10^4 here.
    for found in (by_split.mean() / by_sampling.mean(), by_split.max() / by_sampling.max()):
        assert h * (1 - 1e-3) <= found <= h * (1 + 1e-3)


@pytest.mark.parametrize("epsilon", ["1/10", "1/2", "1", "2"])
def test_sampling_has_the_smaller_error_at_epsilons_of_the_paper(epsilon: str) -> None:
    for size, branching in itertools.product((16, 64), (2, 4)):
        split = SplitLevels(Fraction(epsilon), size, branching)
        asked = ranges(size)
        found = split.variance(asked).mean()
        assert found > 1.2 * sampled(Fraction(epsilon), size, branching, True).mean()


def test_splitting_has_the_smaller_error_where_epsilon_is_large() -> None:
    """There the draw of a level costs more than all flips: the claim is one about small ε."""
    split = SplitLevels(Fraction(16), 16, 4)
    assert split.variance(ranges(16)).mean() < 0.5 * sampled(Fraction(16), 16, 4, True).mean()
