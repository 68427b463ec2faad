"""The statistical audit: sound channels pass it, and faults large enough for a sample are found."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

import sfumato as sf
from sfumato.arrays import BitColumns
from sfumato.auditing.sampling import (
    SIGNIFICANCE,
    SampleAudit,
    _Findings,
    _least,
    checked_sample,
    sample_audit,
)
from sfumato.channels.base import Channel
from sfumato.channels.choice import REGISTRY, Choice
from sfumato.channels.flips import BitChannel
from sfumato.errors import StudyError
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.distance import LineMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import BitSource, SeededBits

# All seeds are fixed: with these a sound channel passes, and would fail once in a million others.
REPORTS = 80_000


def sampled(channel: Channel, metric: CellMetric | None = None, **options: Any) -> SampleAudit:
    known = {"sample": REPORTS, "bits": SeededBits(5), "pair": None, **options}
    e = channel.metric if metric is None else metric
    return sample_audit(channel, e, significance=SIGNIFICANCE, label=str, **known)


def with_encode(channel: Channel, encode: Callable[[Any, BitSource], Any]) -> Channel:
    """The channel with another `encode`: law, tables and checks stay as they are."""
    object.__setattr__(channel, "encode", encode)
    return channel


@pytest.mark.slow
@pytest.mark.parametrize("kind", REGISTRY)
def test_sound_channels_pass_and_cells_off_by_one_do_not(kind: str) -> None:
    for trial in REGISTRY[kind].trials():
        channel = trial.bind()
        exact = channel.check(trial.metric)
        found = sampled(channel, pair=exact.pair)
        assert found.problems == ()
        assert found.least_p > SIGNIFICANCE
        assert 0 <= found.spent_at_least <= exact.spent
        assert found.reports > REPORTS - 10
        honest, top = channel.encode, channel.size << channel.resolution
        off = with_encode(
            channel,
            lambda cells, bits: honest((cells + (1 << channel.resolution)) % top, bits),  # noqa: B023
        )
        assert sampled(off, pair=exact.pair).problems != ()


@pytest.mark.parametrize("factor", ["11/10", "10/11"])
@pytest.mark.parametrize(
    ("choice", "metric"),
    [
        (sf.KaryResponse(), UniformMetric(Fraction(1), 5)),
        (sf.Geometric(), LineMetric.equal(Fraction(1), 12)),
        (sf.Thermometer(), LineMetric.equal(Fraction(1), 16)),
        (sf.OUE(), UniformMetric(Fraction(1), 30)),
        (sf.HRR(), UniformMetric(Fraction(1), 200)),
        (sf.Comb(), UniformMetric(Fraction(1), 60)),
    ],
    ids=lambda value: getattr(value, "id", ""),
)
def test_encode_that_draws_at_another_epsilon_is_found(
    choice: Choice, metric: CellMetric, factor: str
) -> None:
    """Ten percent more or less than the law shows, among symbols and bits, few and many."""
    assert sampled(choice.bind(metric)).problems == ()
    other = choice.bind(_times(metric, Fraction(factor)))
    reports = 4 * REPORTS if choice == sf.HRR() else REPORTS
    found = sampled(with_encode(choice.bind(metric), other.encode), sample=reports)
    assert "by the law" in found.problems[0]


def _times(metric: CellMetric, factor: Fraction) -> CellMetric:
    if isinstance(metric, UniformMetric):
        return replace(metric, epsilon=metric.epsilon * factor)
    assert isinstance(metric, LineMetric)
    return LineMetric(tuple(step * factor for step in metric.steps))


@pytest.mark.parametrize("choice", [sf.KaryResponse(), sf.OUE()], ids=lambda c: c.id)
def test_a_channel_that_spends_more_than_e_is_found_by_its_odds(choice: Choice) -> None:
    """Law and `encode` agree, on a tenth more than the axis is promised."""
    promised = UniformMetric(Fraction(1), 5)
    bound = choice.bind(_times(promised, Fraction(11, 10)))
    found = sampled(bound, promised, sample=10**6)
    assert any("more than their E of 1" in problem for problem in found.problems)
    assert 1 < found.spent_at_least < 1.1
    assert sampled(bound, sample=10**6).problems == ()


@pytest.mark.parametrize("choice", [sf.Geometric(), sf.Thermometer()], ids=lambda c: c.id)
@pytest.mark.parametrize("cells", [6, 16])
def test_values_that_are_not_rounded_at_random_are_found(choice: Choice, cells: int) -> None:
    """Only a place between two grid points shows it."""
    metric = LineMetric.equal(Fraction(1, 2), cells)
    channel = choice.bind(metric, resolution=4)
    assert sampled(channel).problems == ()
    honest = channel.encode
    found = sampled(with_encode(channel, lambda cells, bits: honest(cells >> 4 << 4, bits)))
    assert "by the law" in found.problems[0]


def test_bits_that_are_copied_from_their_neighbours_are_found() -> None:
    """Every bit alone follows its law; together they are not independent."""
    metric = UniformMetric(Fraction(1), 30)
    channel = sf.OUE().bind(metric)
    assert isinstance(channel, BitChannel)
    honest = channel.encode

    def encode(cells: Any, bits: BitSource) -> BitColumns:
        words = honest(cells, bits).words.copy()  # type: ignore[union-attr]
        if cells[0] < 20:
            words[25] = words[24]
        return BitColumns(words, len(cells))

    assert "by the law" in sampled(with_encode(channel, encode)).problems[0]


def test_outputs_that_do_not_exist_are_found() -> None:
    metric = UniformMetric(Fraction(1), 5)
    symbols = with_encode(sf.KaryResponse().bind(metric), lambda cells, bits: cells + 1)
    short = with_encode(sf.OUE().bind(replace(metric, size=30)), lambda cells, bits: cells)
    for channel in (symbols, short):
        assert sampled(channel).problems == ("encode drew outputs that the channel does not have",)


def test_lower_bounds_of_chances_are_missed_as_seldom_as_they_say() -> None:
    """Exactly: the chance that the bound of Clopper and Pearson exceeds the truth."""
    total, level = 60, 0.01
    bounds = _least(np.arange(total + 1), total, level)
    for chance in np.linspace(0.001, 0.999, 499):
        missed = stats.binom.pmf(np.arange(total + 1), total, chance)[bounds > chance].sum()
        assert missed <= level * (1 + 1e-9)
    assert bounds[0] == 0
    assert 0.9 < bounds[-1] < 1


def test_frequencies_are_judged_by_exact_tails() -> None:
    total, chance = 1_000, 0.03
    for count in (0, 5, 30, 60, 1_000):
        found = _Findings(["x"], comparisons=1)
        found.frequencies(0, np.array([count]), np.array([chance]), total, 1e-4)
        law = stats.binom(total, chance)
        tail = 2 * min(law.cdf(count), law.sf(count - 1), 0.5)
        assert found.least_p == pytest.approx(tail, rel=1e-5)
        assert bool(found.problems) == (tail < 1e-4)
    impossible = _Findings(["x"], comparisons=1)
    impossible.frequencies(0, np.array([2]), np.array([0.0]), total, 1e-12)
    assert impossible.problems != []


def people() -> sf.Study:
    return sf.Study(
        "people",
        [
            sf.integers("age", 0, 99, protect=sf.Distance(0.2)),
            sf.categories("region", ["north", "south"], protect=sf.Uniform(1)),
        ],
    )


def test_the_audit_of_a_study_draws_a_sample_for_each_block() -> None:
    found = sf.audit(people(), sample=20_000, bits=SeededBits(1))
    assert found.holds
    for axis in found.axes:
        assert axis.sample is not None
        assert axis.sample.significance == SIGNIFICANCE / 2
        assert f"{axis.axis}: 20,000 reports drawn at random" in str(found)
    assert "A sample is no proof" in str(found)
    assert found.axes[1].sample is not None
    assert found.axes[1].sample.cells == ("north", "south")
    assert json.loads(json.dumps(found.to_dict()))["axes"][0]["sample"]["reports"] == 20_000
    again = sf.audit(people(), sample=20_000, bits=SeededBits(1))
    assert again == found
    assert sf.audit(people()).axes[0].sample is None


def test_a_sample_that_disagrees_fails_the_audit() -> None:
    study = people()
    with_encode(study.channels[1], lambda cells, bits: np.asarray(cells))
    found = sf.audit(study, sample=20_000)
    assert not found.holds
    sample = found.axes[1].sample
    assert sample is not None
    assert set(sample.problems) <= set(found.axes[1].problems)
    assert any("may" not in problem and "log odds" in problem for problem in sample.problems)
    assert "DISAGREE" in str(sample)


def test_where_everything_may_be_told_apart_no_odds_are_compared() -> None:
    alone = sf.categories("x", ["a", "b"], protect=sf.Blocks(1, [["a"], ["b"]]))
    (axis,) = sf.audit(sf.Study("s", [alone]), sample=10_000).axes
    assert axis.sample is not None
    assert (axis.sample.between, axis.sample.spent_at_least) == (None, 0.0)
    assert "told apart" not in str(axis.sample)


@pytest.mark.parametrize("sample", [0, 999, 10**9 + 1, 1e6, True, "many", math.nan])
def test_a_sample_must_be_a_sensible_number(sample: Any) -> None:
    with pytest.raises(StudyError, match=r"sample must be a whole number of reports from 1,000"):
        sf.audit(people(), sample=sample)
    assert checked_sample(np.int64(1_000)) == 1_000
