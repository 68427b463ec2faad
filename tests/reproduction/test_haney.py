"""Ranges by the edges that leave them: exact privacy, exact errors, and how they grow."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import StudyError
from sfumato.metrics.distance import LineMetric
from sfumato.randomness.bits import SeededBits
from sfumato.randomness.laplace import laplace_variance
from sfumato.reproduction.haney import Box, EdgeRanges, middle_box, published_rate
from sfumato.reproduction.matrix_mechanism import MatrixMechanism

HALF = Fraction(1, 2)


def all_boxes(shape: tuple[int, ...]) -> tuple[Box, ...]:
    sides = [[(low, high) for low in range(size) for high in range(low, size)] for size in shape]
    return tuple(itertools.product(*sides))


@pytest.mark.parametrize("shape", [(5,), (4, 3), (5, 6), (2, 3, 4)])
@pytest.mark.parametrize("branching", [2, 3])
def test_a_step_shifts_the_answers_by_the_noise_of_few_nodes(
    shape: tuple[int, ...], branching: int
) -> None:
    """W(h_x − h_x') is B·A·e for every pair of neighbours, and |A·e| times the rate is ε.

    All boxes at once, in integers: a report of x is as likely as one of x' with that noise shifted.
    """
    mechanism = EdgeRanges(HALF, shape, all_boxes(shape), branching)
    cells = list(itertools.product(*map(range, shape)))
    for axis, x in itertools.product(range(len(shape)), cells):
        if x[axis] + 1 == shape[axis]:
            continue
        after = tuple(k + (d == axis) for d, k in enumerate(x))
        moved = mechanism.truth([x])[0] - mechanism.truth([after])[0]
        trees = mechanism.others(axis)
        rest = [k for d, k in enumerate(x) if d != axis]
        holding = []
        for levels in itertools.product(*(range(tree.depth + 1) for tree in trees)):
            node = 0
            for tree, level, place in zip(trees, levels, rest, strict=True):
                node = node * tree.nodes(level) + place // tree.runs[level]
            holding.append((axis, x[axis], levels, node))
        assert len(holding) * mechanism.rate(axis) == HALF
        shifted = np.zeros_like(moved)
        for held in holding:
            for place, sign in mechanism.nodes.get(held, {}).items():
                shifted[place] += sign
        np.testing.assert_array_equal(shifted, moved)


def test_a_range_of_one_axis_is_that_of_the_matrix_mechanism() -> None:
    """Prefixes with noise: §3.3 of Xiang et al., the first column of Table 2."""
    size, epsilon = 9, Fraction(1, 3)
    mechanism = EdgeRanges(epsilon, (size,), all_boxes((size,)))
    prefixes = MatrixMechanism(
        LineMetric.equal(epsilon, size), sf.questions.Prefixes(size), sf.questions.Ranges(size)
    )
    ordered = np.sort(prefixes.expected_error(1) ** 2)
    np.testing.assert_allclose(np.sort(mechanism.variance()), ordered, rtol=1e-9, atol=1e-9)


def test_answers_have_the_variance_that_is_stated() -> None:
    mechanism = EdgeRanges(Fraction(1), (6, 5), (middle_box((6, 5)), ((0, 2), (1, 4))))
    people = np.array(list(itertools.product(range(6), range(5))) * 400)
    noise = mechanism.encode(people, SeededBits(3)) - mechanism.truth(people)
    n, variance = len(people), mechanism.variance()
    assert np.all(np.abs(noise.mean(axis=0)) <= 5 * np.sqrt(variance / n))
    # A sum of k Laplace numbers has kurtosis at most 6: its square strays by at most √5 of itself.
    assert np.all(np.abs(noise.var(axis=0) / variance - 1) <= 5 * math.sqrt(5 / n))


def of_middle(axes: int, cells: int, epsilon: Fraction = Fraction(1, 100)) -> float:
    shape = (cells,) * axes
    return float(EdgeRanges(epsilon, shape, (middle_box(shape),)).variance()[0])


def test_on_one_axis_the_error_does_not_grow_with_the_cells() -> None:
    """Table 2: O(n/ε²), about 4n/ε² for small ε."""
    found = [of_middle(1, 1 << k) for k in range(2, 12)]
    assert len(set(found)) == 1
    assert found[0] == pytest.approx(2 * laplace_variance(Fraction(1, 100)))
    assert found[0] == pytest.approx(4 * published_rate(1, 1, 8, 0.01), rel=1e-4)


@pytest.mark.parametrize(("axes", "bits"), [(2, (4, 8, 10)), (3, (3, 5, 7))])
def test_on_more_axes_it_grows_by_a_power_of_the_logarithm(
    axes: int, bits: tuple[int, ...]
) -> None:
    """The middle box in closed form: 2D faces of (2(k − 1))^(D−1) nodes, k + 1 levels per axis.

    So the power of k = log2 m is 3(D − 1), that of Haney et al.; the 2(D − 1) of Table 2 is not
    reached by noise that is split over levels, and its ratio to the error grows without bound.
    """
    epsilon, ratios = Fraction(1, 100), []
    for k in bits:
        nodes = 2 * axes * (2 * (k - 1)) ** (axes - 1)
        exact = nodes * laplace_variance(epsilon / (k + 1) ** (axes - 1))
        assert of_middle(axes, 1 << k) == pytest.approx(exact, rel=1e-12)
        ratios.append(exact / published_rate(1, axes, 1 << k, float(epsilon)))
    assert np.all(np.diff(ratios) > 0)
    # In the limit ratios grow as k^(D−1); for small ε the variance is 2·(levels/ε)².
    for k, ratio in zip(bits, ratios, strict=True):
        limit = 4 * (2 * (k - 1)) ** (axes - 1) * ((k + 1) / k) ** (2 * (axes - 1))
        assert ratio == pytest.approx(limit, rel=1e-4)


def test_the_thermometer_beats_it_where_there_are_many_cells() -> None:
    """What the paper compares it for: two axes, ε = 1, exact errors of the same box."""
    s2 = (math.e + 1) ** 2 / (math.e - 1) ** 2
    thermometer = ((s2 + 1) / 2) ** 2  # a bound for every population, whatever the cells
    assert of_middle(2, 1 << 4, Fraction(1)) > thermometer


def test_a_box_outside_the_grid_is_refused() -> None:
    with pytest.raises(StudyError, match="within the cells"):
        EdgeRanges(HALF, (4,), (((1, 4),),))
