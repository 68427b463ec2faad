"""The guarantee, in integers: every channel, every metric that fits it, every pair and output."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate, pairwise

import pytest
from helpers_channels import (
    CASES,
    EPSILONS,
    TIGHT,
    Case,
    exceeding_pair,
    is_tight,
    worst_odds,
)

import sfumato as sf
from sfumato.channels.base import Choice
from sfumato.channels.exponential import ExponentialChannel
from sfumato.channels.geometric import GeometricChannel
from sfumato.channels.thermometer import ThermometerChannel
from sfumato.errors import StudyError
from sfumato.exact import at_most_exp
from sfumato.metrics.cells import TableMetric
from sfumato.metrics.distance import LineMetric
from sfumato.metrics.uniform import UniformMetric

# Patterns of bits double with each cell: all pairs of up to so many cells are listed.
MOST_LISTED = 10
# Here E is a singular matrix, so the exponential channel's condition grows with 1/ε², not 1/ε.
HARDLY_APART = {("high-low", 6), ("points, Linf", 6)}


def sizes(case: Case) -> range:
    sends_bits = case.choice.id in ("thermometer", "oue", "matrix-response")
    return range(2, (MOST_LISTED if sends_bits else 16) + 1)


@pytest.mark.parametrize("eps", EPSILONS, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_odds_exceed_the_guarantee(case: Case, eps: Fraction) -> None:
    for size in sizes(case):
        channel = case.channel(size, eps)
        rows, total = channel.words()
        assert all(sum(row) == total and min(row) >= 0 for row in rows)
        assert exceeding_pair(rows, channel.metric) is None, size
        if channel.tightness:
            assert channel.tightness == float(TIGHT)
            assert is_tight(rows, channel.metric), size


@pytest.mark.parametrize("eps", ["1e-6", "1e-4", "10", "40", "700"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_extreme_epsilons_keep_the_guarantee(case: Case, eps: str) -> None:
    for size in (2, 3, 6):
        inverted = case.choice.id == "exponential" and (case.kind, size) in HARDLY_APART
        if eps == "1e-6" and inverted:
            with pytest.raises(StudyError, match="cannot be inverted"):
                case.channel(size, Fraction(eps))
            continue
        channel = case.channel(size, Fraction(eps))
        rows, total = channel.words()
        assert all(sum(row) == total and min(row) >= 0 for row in rows)
        assert exceeding_pair(rows, channel.metric) is None


@pytest.mark.parametrize("case", CASES, ids=str)
def test_coarse_tables_keep_the_guarantee_or_are_refused(case: Case) -> None:
    """Rounding is then no longer small: whatever binds must still be within E."""
    bound = 0
    for precision in (2, 5, 8, 11):
        for eps in EPSILONS:
            for size in (2, 3, 5):
                try:
                    channel = case.channel(size, eps, precision=precision)
                except StudyError:
                    continue
                bound += 1
                rows, total = channel.words()
                assert all(sum(row) == total and min(row) >= 0 for row in rows)
                assert exceeding_pair(rows, channel.metric) is None
    assert bound >= 9


def test_the_checker_itself_sees_a_single_word_too_many() -> None:
    """The tests above could not fail if this one did not pass."""
    metric = UniformMetric(Fraction(1), 2)
    total = 1 << 64
    wrong = sf.KaryResponse().bind(metric).wrong
    assert exceeding_pair([[total - wrong, wrong], [wrong, total - wrong]], metric) is None
    less = wrong - 1
    assert exceeding_pair([[total - less, less], [less, total - less]], metric) == (0, 1)
    assert exceeding_pair([[total, 0], [1, total - 1]], metric) == (0, 1)
    one_sided = TableMetric([[0, 1], [-1, 0]], 1, 2)
    assert exceeding_pair([[1, 1], [2, 0]], one_sided) == (0, 1)
    assert exceeding_pair([[2, 0], [1, 1]], one_sided) is None


@pytest.mark.parametrize("published", [False, True])
def test_thermometer_of_sixteen_cells_by_neighbours(published: bool) -> None:
    """E adds along the line, so that neighbours decide; here the first, middle and last.

    The published variant has one bit more than it needs, and one cell less here.
    """
    choice = sf.Thermometer(variant="published" if published else "exact")
    last = 14 if published else 15
    channel = Case("unequal bins", choice).channel(last + 1, Fraction(1, 3))
    rows, total = channel.words()
    assert len(rows[0]) == 2**15
    for x, y in ((0, 1), (7, 8), (last - 1, last)):
        assert sum(rows[x]) == total
        for pair in ((x, y), (y, x)):
            e = channel.metric.exact(*pair)
            more, less = worst_odds(rows, *pair)
            assert at_most_exp(Fraction(more, less), e)
            assert not at_most_exp(Fraction(more, less), TIGHT * e)


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


@pytest.mark.parametrize("eps", EPSILONS, ids=str)
@pytest.mark.parametrize("choice", [sf.Geometric(), sf.Thermometer()], ids=lambda c: c.id)
def test_rounded_channels_keep_odds_of_one_plus_step(choice: Choice, eps: Fraction) -> None:
    """Between grid points the law is a straight line, so 1 + E there is E for every value."""
    for bins in (2, 3, 8):
        axis = sf.reals(
            "x",
            0,
            bins,
            bins=bins,
            rounding="stochastic",
            protect=sf.Distance(eps),
            channel=choice,
        )
        channel = axis.bind(axis.metric())
        assert isinstance(channel, GeometricChannel | ThermometerChannel)
        assert channel.rounds
        rows, total = channel.words()
        worst = Fraction(0)
        for x in range(bins):
            for pair in ((x, x + 1), (x + 1, x)):
                worst = max(worst, Fraction(*worst_odds(rows, *pair)))
        assert worst <= 1 + eps
        assert worst > 1 + TIGHT * eps
        assert all(sum(row) == total for row in rows)


def test_cells_at_infinite_distance_may_share_no_output_and_isolated_cells_are_open() -> None:
    axis = sf.categories("x", ["a", "b", "c"], protect=sf.Blocks(1, [["a"], ["b", "c"]]))
    channel = sf.Exponential().bind(axis.metric())
    assert isinstance(channel, ExponentialChannel)
    rows, total = channel.words()
    assert rows[0] == [total, 0, 0]
    assert rows[1][0] == rows[2][0] == 0
    assert exceeding_pair(rows, channel.metric) is None
