"""TreeOUE: its reports, its error beside that of other oracles, and its audit.

The laws of channels are checked by the contract suite, products with other axes by the tests of
frequency oracles.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.channels.trees.boxes import BoxesChannel
from sfumato.channels.trees.unary_hierarchy import UnaryHierarchyChannel
from sfumato.errors import TooLargeError
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import SeededBits


def bound(choice: sf.Hierarchical, size: int, epsilon: Any = "1") -> BoxesChannel:
    found = choice.bind(UniformMetric(Fraction(epsilon), size))
    assert isinstance(found, BoxesChannel)
    return found


def study(choice: sf.Hierarchical, size: int) -> sf.Study:
    axis = sf.integers("x", 0, size - 1, protect=sf.Uniform(1), channel=choice)
    return sf.Study("tree", [axis])


@pytest.mark.parametrize("consistency", [True, False])
def test_one_level_is_told_and_all_other_bits_are_zero(consistency: bool) -> None:
    """Beyond the number of people whose levels are drawn at once, too."""
    channel = bound(sf.Hierarchical(2, "oue", consistency=consistency), 5)
    assert isinstance(channel, UnaryHierarchyChannel)
    people = (1 << 17) + 70
    ones = channel.encode(np.arange(people) % 5, SeededBits(1)).to_matrix()
    told = ones[:, channel.starts[:-1]]
    assert np.all(told.sum(axis=1) == 1)
    for level, (start, end) in enumerate(zip(channel.starts, channel.starts[1:], strict=False)):
        assert not ones[~told[:, level], start:end].any()
        # The level has its chance, within 5 standard errors.
        share, chance = told[:, level].mean(), channel.chances[level]
        assert abs(share - chance) <= 5 * math.sqrt(chance / people)
        # So have its nodes: half of their own people send a one, and e^−ε/(1 + e^−ε) of others.
        nodes = channel.parts[level].nodes(np.arange(people) % 5)[told[:, level]]
        sent = ones[told[:, level], start + 1 : end]
        own = sent[np.arange(len(sent)), nodes]
        assert abs(own.mean() - 0.5) <= 5 * 0.5 / math.sqrt(len(sent))
        others = sent.sum() - own.sum()
        count, q = sent.size - len(sent), 1 / (1 + math.e)
        assert abs(others / count - q) <= 5 * math.sqrt(q / count)


@pytest.mark.parametrize(("branching", "size"), [(4, 16), (4, 64), (5, 30)])
def test_its_error_is_that_of_hashes_with_the_best_number_of_values(
    branching: int, size: int
) -> None:
    """At e^ε = 2, e^ε + 1 is the prime 3: a node's count has the variance of OUE."""
    epsilon = Fraction(math.log(2))
    unary = bound(sf.Hierarchical(branching, "oue"), size, epsilon)
    hashed = bound(sf.Hierarchical(branching, "olh"), size, epsilon)
    assert {part.inner.prime for part in hashed.parts} == {3}
    np.testing.assert_allclose(unary.level_precision, hashed.level_precision, rtol=1e-12)
    # Not for nothing: of many nodes, HRR knows each less precisely.
    other = bound(sf.Hierarchical(branching, "hrr"), size, epsilon)
    assert other.level_precision[-1] < 0.98 * unary.level_precision[-1]


def test_least_squares_is_the_best_reading_where_people_are_spread_evenly() -> None:
    """A little more or less of any level makes the mean variance over all prefixes larger."""
    size = 16
    best = bound(sf.Hierarchical(2, "oue"), size)
    prefixes = np.tri(size)

    def spread(channel: BoxesChannel) -> float:
        return float(channel.second_moment(prefixes).mean())

    least = spread(best)
    for level in range(1, 5):
        for factor in (0.8, 1.25):
            other = bound(sf.Hierarchical(2, "oue"), size)
            other.level_precision[level] *= factor
            assert spread(other) > least


@pytest.mark.slow
def test_the_audit_drives_long_reports_and_catches_a_level_that_looks_at_the_cell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sound = study(sf.Hierarchical(4, "oue"), 40)
    assert sound.channels[0].layout.count > 40
    found = sf.audit(sound)
    assert found.holds
    right = UnaryHierarchyChannel.encode

    def turned(self: Any, cells: Any, bits: Any) -> Any:
        made = right(self, cells, bits)
        made.words[0], made.words[self.starts[1]] = (
            made.words[self.starts[1]].copy(),
            made.words[0].copy(),
        )
        return made

    monkeypatch.setattr(UnaryHierarchyChannel, "encode", turned)
    assert not sf.audit(sound).holds


@pytest.mark.slow
def test_the_audit_refuses_a_claim_below_the_odds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a report too long to be listed: bits of each level, one after the other."""
    asked = study(sf.Hierarchical(4, "oue"), 40)
    less = Fraction(2)
    monkeypatch.setattr(UnaryHierarchyChannel, "worst_ratio", lambda self: less)
    told = sf.audit(asked)
    assert not told.holds
    assert "larger than the channel claims" in str(told)


@pytest.mark.slow
def test_both_estimates_find_the_people_and_tallies_add_up() -> None:
    made = study(sf.Hierarchical(2, "oue"), 8)
    values = [2] * 3_000 + [6] * 1_000
    first = made.tally(made.encode({"x": values[:3_500]}, bits=SeededBits(1)))
    tally = first + made.tally(made.encode({"x": values[3_500:]}, bits=SeededBits(2)))
    for method in ("unbiased", "likelihood"):
        answer = tally.estimate(method).count({"x": (0, 3)})
        assert abs(float(answer) - 3_000) <= 5 * answer.stderr
        assert answer.stderr < 300


def test_reports_that_are_too_long_are_refused_with_what_to_use() -> None:
    with pytest.raises(TooLargeError, match=r"131,072 bits. Use oracle='olh'"):
        study(sf.Hierarchical(2, "oue"), 1 << 17)
