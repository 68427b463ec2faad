"""The guarantee of axes too long to list all pairs, by the structure of the tables."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate, pairwise

import pytest
from helpers_channels import worst_odds

import sfumato as sf
from sfumato.exact import at_most_exp
from sfumato.metrics.distance import LineMetric
from sfumato.metrics.uniform import UniformMetric

TIGHT = 1 - Fraction(1, 1 << 30)


@pytest.mark.slow
@pytest.mark.parametrize("published", [False, True])
def test_thermometer_of_sixteen_cells_by_neighbours(published: bool) -> None:
    """E adds along the line, so that neighbours decide; here the first, middle and last.

    The published variant has one bit more than it needs, and one cell less here.
    """
    choice = sf.Thermometer(variant="published" if published else "exact")
    last = 14 if published else 15
    steps = [Fraction(5 + k, 24) for k in range(last)]
    channel = choice.bind(LineMetric(steps))
    rows, total = channel.words()
    assert len(rows[0]) == 2**15
    for x, y in ((0, 1), (7, 8), (last - 1, last)):
        assert sum(rows[x]) == total
        for pair in ((x, y), (y, x)):
            e = channel.metric.exact(*pair)
            more, less = worst_odds(rows, *pair)
            assert at_most_exp(Fraction(more, less), e)
            assert not at_most_exp(Fraction(more, less), TIGHT * e)


@pytest.mark.slow
@pytest.mark.parametrize("eps", ["0.001", "0.1", "1", "3"])
@pytest.mark.parametrize("size", [1_000, 100_000])
def test_large_geometric_channels_by_structure(size: int, eps: str) -> None:
    """Adjacent weights decide inside, adjacent tails at the ends: no step may exceed e^ε."""
    step = Fraction(eps)
    channel = sf.Geometric().bind(LineMetric.equal(step, size))
    half = channel.half_table()
    assert len(half) == size
    assert 2 * sum(half) - half[0] == 1 << 64
    tails = list(accumulate(reversed(half)))[::-1]
    inside = {(a, b) for a, b in pairwise(half[:-1])}
    ends = {(a, b) for a, b in pairwise(tails)}
    assert all(a >= b > 0 for a, b in inside | ends)
    # Neighbours (a, b) with the largest odds, found in integers and decided once.
    more, less = 0, 1
    for a, b in inside | ends:
        if a * less > more * b:
            more, less = a, b
    assert at_most_exp(Fraction(more, less), step)
    assert not at_most_exp(Fraction(more, less), TIGHT * step)
    assert channel.worst_ratio() == Fraction(more, less)


def test_the_structure_of_a_thousand_cells_is_that_of_its_rows() -> None:
    channel = sf.Geometric().bind(LineMetric.equal(Fraction(1, 20), 1_000))
    rows, total = channel.words()
    assert all(sum(row) == total for row in rows)
    odds = [Fraction(*worst_odds(rows, x, x + 1)) for x in range(0, 999, 37)]
    assert max(odds) <= channel.worst_ratio()


@pytest.mark.slow
@pytest.mark.parametrize("size", [1_000, 20_000])
def test_large_responses_and_thermometers_by_structure(size: int) -> None:
    kary = sf.KaryResponse().bind(UniformMetric(Fraction(1, 3), size))
    assert kary.right + (size - 1) * kary.wrong == 1 << 64
    assert at_most_exp(kary.worst_ratio(), Fraction(1, 3))
    assert not at_most_exp(kary.worst_ratio(), TIGHT * Fraction(1, 3))
    steps = [Fraction(1 + k % 7, 50) for k in range(size - 1)]
    thermometer = sf.Thermometer().bind(LineMetric(steps))
    total = 1 << 64
    for step, flip in set(zip(steps, thermometer.flip_words, strict=True)):
        assert at_most_exp(Fraction(total - flip, flip), step)
        assert not at_most_exp(Fraction(total - flip, flip), TIGHT * step)
