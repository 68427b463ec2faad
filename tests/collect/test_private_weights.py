"""Private weights under one ε: rounded to 0 or Δ at random, then the best binary channel.

The weight is in [0, Δ] and any two weights have odds of at most e^ε (Xiang et al. 2020, §4.3.2).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from helpers_statistics import LIMIT, RUNS, collections, share_covered, share_score
from test_weighted import all_reports, rounded_law

import sfumato as sf
from sfumato.channels.response import KaryResponseChannel
from sfumato.exact import at_most_exp
from sfumato.metrics.distance import LineMetric
from sfumato.metrics.labelled import BlockMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.study.axis import Axis

TOP = 8
EXACT = 1e-9
LOW, HIGH, TOO_SMALL = 0.93, 0.97, 0.85  # as tests/estimation/test_coverage.py derives them


def spend(epsilon: str = "1", bins: int = 1, **options: object) -> Axis:
    protect = options.pop("protect", sf.Uniform(epsilon))
    return sf.reals("spend", 0, TOP, bins=bins, rounding="stochastic", protect=protect, **options)  # type: ignore[arg-type]


# What the paper's own mechanism has: its range estimate on {1, 2}, with s = (e^ε + 1)/(e^ε − 1).
# Of [2, 2] it is (s·r[2] − s·r[1])/2, and with the last bit known (1 − s·r[1])/2.


def published_moment(epsilon: float, share: float) -> float:
    """E[f²]/Δ² at the weight share·Δ, with two noisy bits: (s² − 1)/2 + w/Δ."""
    s = 1 / math.tanh(epsilon / 2)
    return (s**2 - 1) / 2 + share


def corrected_moment(epsilon: float, share: float) -> float:
    """E[f²]/Δ² with the last bit known, which the paper's bound leaves out: (s² − 1)/4 + w/Δ."""
    s = 1 / math.tanh(epsilon / 2)
    return (s**2 - 1) / 4 + share


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1", "2", "4"])
def test_a_total_is_as_accurate_as_the_papers_own_mechanism(epsilon: str) -> None:
    """Exact variances of one person: no larger than the paper's, below those of 1 + ε odds."""
    best = sf.Study("s", [spend(epsilon)]).channels[0]
    by_distance = sf.Study("s", [spend(protect=sf.Distance(epsilon, per=TOP))]).channels[0]
    w = np.array([0.0, TOP])
    for share in (0.0, 0.1, 0.5, 0.9, 1.0):
        at = np.array([1 - share, share])
        own, linear = (float(channel.second_moment(w) @ at) for channel in (best, by_distance))
        mean = (share * TOP) ** 2
        paper = TOP**2 * corrected_moment(float(epsilon), share)
        assert own - mean <= (paper - mean) * (1 + 1e-12)
        assert own == pytest.approx(paper, rel=1e-12)
        assert own < TOP**2 * published_moment(float(epsilon), share)
        assert own < linear


def test_the_figures_of_a_thousand_people() -> None:
    """ε = 1, weights spread evenly: the standard deviation of a total, in units of Δ."""
    share = (np.arange(1_000) + 0.5) / 1_000
    ends = np.array([1 - share, share])

    def deviation(axis: Axis) -> float:
        moments = sf.Study("s", [axis]).channels[0].second_moment(np.array([0.0, 1.0])) @ ends
        return float(np.sqrt(np.sum(moments - share**2)))

    assert deviation(spend("1")) == pytest.approx(32.98, abs=0.01)
    assert deviation(spend(protect=sf.Distance(1, per=TOP))) == pytest.approx(46.55, abs=0.01)


def test_every_pair_of_weights_keeps_epsilon_in_integers() -> None:
    """The laws at many weights are mixtures of two rows; the worst odds are those of the ends."""
    channel = sf.Study("s", [spend("1/2")]).channels[0]
    (low, high), _ = channel.words()
    places = 1 << channel.resolution
    parts = [0, 1, 2, 3, 12_345, places // 2, places - 2, places - 1, places]
    laws = [[(places - k) * a + k * b for a, b in zip(low, high, strict=True)] for k in parts]
    worst = max(Fraction(p[y], q[y]) for p in laws for q in laws for y in range(2))
    assert worst == Fraction(low[0], high[0])
    assert at_most_exp(worst, Fraction(1, 2))
    assert not at_most_exp(worst, Fraction(1, 2) * (1 - Fraction(1, 1 << 40)))


def test_the_check_refuses_more_than_epsilon_and_other_metrics() -> None:
    channel = sf.KaryResponse().bind(UniformMetric(Fraction(11, 10), 2), resolution=20)
    assert isinstance(channel, KaryResponseChannel)
    assert not channel.check(UniformMetric(Fraction(11, 10), 2)).problems
    assert "exceed their bound" in channel.check(UniformMetric(Fraction(1), 2)).problems[0]
    # Under a distance, odds of e^E between grid points are not enough: 1 + E are.
    assert channel.check(LineMetric.equal(Fraction(11, 10), 2)).problems
    blocks = BlockMetric(Fraction(2), np.array([0, 0]))
    assert "or one ε for all pairs" in channel.check(blocks).problems[0]


@pytest.mark.parametrize("bins", [1, 3])
def test_it_is_chosen_explained_saved_and_audited(bins: int) -> None:
    one = sf.Study("shop", [spend("1", bins)])
    assert one.channels[0].id == "kary-response"
    assert "every pair of values is protected equally" in " ".join(one.explain().split())
    assert one.guarantee.between({"spend": 3.1}, {"spend": 3.2}) == 1.0
    assert one.guarantee.between({"spend": 3.1}, {"spend": 3.1}) == 0.0
    assert sf.Study.from_toml(one.to_toml()) == one
    audit = sf.audit(one)
    assert audit.holds
    assert audit.axes[0].spent == pytest.approx(1, abs=1e-9)
    with pytest.raises(sf.StudyError, match="cannot be combined with stochastic rounding"):
        sf.Study("shop", [spend("1", bins, channel=sf.Comb())])


@pytest.mark.parametrize("places", [("0", "1"), ("1/2", "1/2"), ("1/8", "5/8")])
def test_totals_are_unbiased_and_errors_not_below_the_truth(places: tuple[str, str]) -> None:
    """Two people, all their reports, with and without a condition on another axis."""
    group = sf.categories("group", ["a", "b"], protect=sf.Uniform(2))
    one = sf.Study("s", [spend(), group])
    values, groups = [Fraction(place) for place in places], (1, 0)
    laws = [
        [rounded_law(one.channels[0], x, 1), one.channels[1].likelihood()[g]]
        for x, g in zip(values, groups, strict=True)
    ]
    for where, truth in (({"group": "b"}, values[0]), (None, sum(values))):
        mean = square = reported = 0.0
        for chance, reports in all_reports(one, laws):
            answer = one.tally(reports).estimate("unbiased").total("spend", where=where)
            mean += chance * answer.value
            square += chance * answer.value**2
            reported += chance * answer.stderr**2
        assert mean == pytest.approx(float(truth) * TOP, abs=EXACT)
        assert reported >= (square - mean**2) * (1 - EXACT)


@pytest.mark.slow
def test_the_interval_of_a_total_holds() -> None:
    """All weights equal, where the stated error is exact; by both methods.

    At ε = 4 most of the error is rounding, which likelihood answers must not leave out.
    """
    people = 256
    one = sf.Study("s", [spend("4")])
    table = {"spend": np.full(people, 0.15 * TOP)}
    truth = 0.15 * TOP * people
    tallies = list(collections(one, table, runs=RUNS, seed=12))
    found = [tally.estimate("unbiased").total("spend") for tally in tallies]
    values, errors = [a.value for a in found], [a.stderr for a in found]
    assert LOW < share_covered(values, errors, truth) < HIGH
    assert share_covered(values, errors, truth, scale=TOO_SMALL) < LOW
    few = [tally.estimate("likelihood").total("spend") for tally in tallies[:200]]
    held = sum(a.low <= truth <= a.high for a in few)
    assert share_score(held, len(few), 0.95) > -LIMIT


def test_the_error_is_that_of_the_weights_and_not_a_bound_for_all() -> None:
    """Far from Δ/2 a quarter of Δ² for rounding would be far too much, at a large ε above all."""
    share, people = 0.05, 4_000
    one = sf.Study("s", [spend("6")])
    est = one.simulate({"spend": [share * TOP] * people}, seed=3).estimate("unbiased")
    exact = TOP**2 * people * (corrected_moment(6.0, share) - share**2)
    # The estimated variance errs by about the relative error of a count of 0.05·4,000 people.
    assert est.total("spend").stderr == pytest.approx(
        math.sqrt(exact), rel=0.5 * 4 / math.sqrt(200)
    )
    assert math.sqrt(exact + people * TOP**2 * (0.5 - share) ** 2) > 2 * math.sqrt(exact)
