"""Error regions: the error rates that no test of a report can beat, in numbers and words."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

import sfumato as sf

RATES = [0.0, 1e-9, 0.3, 1.0, 2.5, 40.0, 2000.0, math.inf]


@pytest.mark.parametrize(("there", "back"), list(product(RATES, repeat=2)))
def test_the_corner_is_where_both_inequalities_meet(there: float, back: float) -> None:
    region = sf.ErrorRegion(there=there, back=back)
    alarms, misses = region.corner
    assert 0 <= alarms <= 1
    assert 0 <= misses <= 1
    # e^E(x,y)·alarms + misses = 1 and alarms + e^E(y,x)·misses = 1, over their powers of e.
    assert (1 - misses) * math.exp(-there) == pytest.approx(alarms, rel=1e-6, abs=1e-12)
    assert (1 - alarms) * math.exp(-back) == pytest.approx(misses, rel=1e-6, abs=1e-12)
    assert region.least_error == pytest.approx((alarms + misses) / 2)
    assert all(region.allows(*corner) for corner in region.boundary)
    assert region.allows(0.5, 0.5)
    if region.least_error > 1e-6:
        assert not region.allows(0.999 * alarms - 1e-9, 0.999 * misses - 1e-9)
        assert not region.allows(1 - alarms + 1e-6, 1 - misses + 1e-6)  # nor by the opposite
    mirrored = sf.ErrorRegion(there=back, back=there).corner
    assert mirrored == pytest.approx((misses, alarms))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"there": -0.5}, r"there must be an E of 0 or more, or infinite, got there=-0\.5"),
        ({"back": math.nan}, "back must be an E of 0 or more, or infinite, got back=nan"),
        ({"names": ("x",)}, "names must hold two names"),
    ],
)
def test_impossible_values_of_e_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(sf.StudyError, match=message):
        sf.ErrorRegion(**({"there": 1.0, "back": 1.0} | change))


def study() -> sf.Study:
    uneven = sf.Matrix([[0, 1, 2], [2, 0, 1], ["inf", 1, 0]], labels=["a", "b", "c"])
    return sf.Study("s", [sf.categories("v", ["a", "b", "c"], protect=uneven)])


def test_no_test_of_a_real_report_leaves_the_region() -> None:
    (channel,) = study().channels
    rows, total = channel.words()
    chance = [[Fraction(word, total) for word in row] for row in rows]
    for x, y in ((0, 1), (1, 0), (1, 2), (0, 2)):
        labels = [{"v": "abc"[cell]} for cell in (x, y)]
        region = study().guarantee.error_region(*labels)
        assert (region.there, region.back) == (
            channel.metric.between(x, y),
            channel.metric.between(y, x),
        )
        for says_x in product([False, True], repeat=len(chance[x])):
            alarms = sum(p for p, yes in zip(chance[y], says_x, strict=True) if yes)
            misses = sum(p for p, yes in zip(chance[x], says_x, strict=True) if not yes)
            assert region.allows(float(alarms), float(misses))


def test_the_binary_optimum_reaches_the_corner_and_leaves_a_smaller_region() -> None:
    protect = sf.Matrix([[0, "1/2"], [2, 0]], labels=["yes", "no"])
    axis = sf.categories("v", ["yes", "no"], protect=protect, channel=sf.Binary())
    made = sf.Study("two", [axis])
    rows, total = made.channels[0].words()
    region = made.guarantee.error_region({"v": "yes"}, {"v": "no"})
    reached = (rows[1][0] / total, rows[0][1] / total)
    assert reached == pytest.approx(region.corner, abs=1e-12)
    assert region.allows(*reached)
    for there, back in ((0.45, 2), (0.5, 1.8)):
        assert not sf.ErrorRegion(there=there, back=back).allows(*reached)


def test_several_axes_add_up_and_words_name_both_records() -> None:
    made = sf.Study(
        "shop",
        [
            sf.integers("age", 0, 99, protect=sf.Distance(0.2)),
            sf.categories("member", ["yes", "no"], protect=sf.Uniform(1), optional=True),
        ],
    )
    region = made.guarantee.error_region({"age": 30, "member": "yes"}, {"age": 35, "member": None})
    assert region.there == region.back == pytest.approx(2)
    assert region.least_error == pytest.approx(1 / (1 + math.exp(2)))
    assert "age 30, member yes or age 35, member no answer" in " ".join(str(region).split())
    assert "11.9%" in str(region)
    with pytest.raises(sf.QuestionError, match="both records must mention"):
        made.guarantee.error_region({"age": 30}, {"member": "yes"})


# Words


def test_explain_reads_uneven_guarantees_as_posterior_odds() -> None:
    text = " ".join(study().explain().split())
    assert (
        "Whatever someone believed before, a report raises the odds of a against b at most 2.7 "
        "times, and those of b against a at most 7.4 times." in text
    )
    even = sf.Study("s", [sf.categories("v", ["a", "b"], protect=sf.Uniform(1))])
    assert "believed before" not in even.explain()
    for sensitive in ([], ["a", "b"]):
        both = sf.HighLow(epsilon=1, sensitive=sensitive)
        flat = sf.Study("s", [sf.categories("v", ["a", "b"], protect=both)])
        assert "believed before" not in flat.explain()


def test_posterior_odds_of_a_real_report_stay_within_the_words() -> None:
    made = study()
    (channel,) = made.channels
    rows, _ = channel.words()
    prior = [Fraction(1, 10), Fraction(7, 10), Fraction(2, 10)]
    for x, y in product(range(3), repeat=2):
        e = channel.metric.between(x, y)
        for symbol in range(len(rows[0])):
            if rows[y][symbol] == 0:
                assert rows[x][symbol] == 0 or e == math.inf
                continue
            after = prior[x] * rows[x][symbol] / (prior[y] * rows[y][symbol])
            assert float(after) <= math.exp(e) * float(prior[x] / prior[y]) * (1 + 1e-12)
