"""The audit: passes what is sound, and catches every way of breaking a channel that we know."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.auditing.audit import Audit, audit
from sfumato.channels.base import Channel
from sfumato.channels.choice import REGISTRY, Choice
from sfumato.channels.exponential import ExponentialChannel
from sfumato.channels.geometric import CappedGeometricChannel, GeometricChannel
from sfumato.channels.least_squares import TableChannel
from sfumato.channels.thermometer import ThermometerChannel
from sfumato.exact import at_most_exp
from sfumato.metrics.distance import LineMetric
from sfumato.randomness.tables import FlipTable, WordTable
from sfumato.study.axis import Axis

TOTAL = 1 << 64


def study_of(axis: Axis, choice: Choice | None = None) -> sf.Study:
    return sf.Study("s", [axis], channel=choice)


def broken(study: sf.Study, *channels: Channel) -> sf.Study:
    """The study with other channels than it would bind itself."""
    pairs = zip(study.blocks, channels, strict=True)
    study._blocks = tuple(replace(block, channel=channel) for block, channel in pairs)
    return study


def put(channel: Channel, **fields: Any) -> None:
    """Tamper with a frozen channel."""
    for name, value in fields.items():
        object.__setattr__(channel, name, value)


def ages(cells: int = 10, eps: Any = "1/2", choice: Choice | None = None) -> sf.Study:
    return study_of(sf.integers("age", 0, cells - 1, protect=sf.Distance(eps)), choice)


def regions(cells: int = 5, eps: Any = 1, choice: Choice | None = None) -> sf.Study:
    names = [f"c{k}" for k in range(cells)]
    axis = sf.categories("region", names, protect=sf.Uniform(eps))
    return study_of(axis, choice or sf.KaryResponse())


def incomes(bins: int = 8, choice: Choice | None = None) -> sf.Study:
    axis = sf.reals("income", 0, 8, bins=bins, rounding="stochastic", protect=sf.Distance(1))
    return study_of(axis, choice)


def caught(study: sf.Study) -> Audit:
    found = audit(study)
    assert not found.holds
    assert found.axes[0].problems
    assert "DOES NOT HOLD" in str(found)
    return found


SLIGHTLY = 1 + Fraction(1, 10**9)


# Sound studies


@pytest.mark.slow
@pytest.mark.parametrize("choice", [sf.Geometric(), sf.Thermometer()], ids=lambda c: c.id)
def test_stochastic_rounding_passes_and_spends_all(choice: Choice) -> None:
    for bins in (2, 8, 300):
        (found,) = audit(incomes(bins, choice)).axes
        assert found.holds
        assert found.method == "by structure"
        assert 1 - 2.0**-30 <= found.spent <= 1
        assert found.allowed == pytest.approx(math.log1p(8 / bins))


@pytest.mark.slow
@pytest.mark.parametrize(
    "study",
    [
        ages(100_000),
        ages(5_000, "1/1000"),
        ages(400, 1, sf.Thermometer()),
        ages(30, 1, sf.Thermometer("published")),
        study_of(
            sf.reals(
                "r",
                edges=[k**1.5 for k in range(200)],
                protect=sf.Distance(0.1),
                channel=sf.Thermometer(),
            )
        ),
        regions(3_000),
    ],
    ids=lambda s: f"{s.channels[0].id}-{s.shape[0]}",
)
def test_large_channels_pass_by_structure(study: sf.Study) -> None:
    (found,) = audit(study).axes
    assert found.holds
    assert found.method == "by structure"
    assert 1 - 2.0**-30 <= found.spent <= 1


def capped(cells: int, cap: Any, eps: Any = "1/2") -> sf.Study:
    axis = sf.integers("age", 0, cells - 1, protect=sf.Distance(eps, cap=cap))
    return study_of(axis, sf.Geometric())


@pytest.mark.slow
@pytest.mark.parametrize("cells", [10, 20_000])
def test_capped_noise_is_checked_for_far_pairs_too(cells: int) -> None:
    (found,) = audit(capped(cells, 2)).axes
    assert found.holds
    assert 1 - 2.0**-30 <= found.spent <= 1
    loose = capped(cells, 2 * SLIGHTLY)
    assert 1 < caught(broken(capped(cells, 2), *loose.channels)).axes[0].spent < 1 + 1e-8
    plain = ages(cells, "1/2", sf.Geometric())
    caught(broken(capped(cells, 2), *plain.channels))


@pytest.mark.parametrize("cells", [10, 20_000])
def test_fixed_words_that_are_missing_are_caught(cells: int) -> None:
    study = capped(cells, 2)
    channel = study.channels[0]
    assert isinstance(channel, CappedGeometricChannel)
    weights = list(channel._table.weights)
    weights[cells - 1] += weights[-1]
    weights[-1] = 0
    put(channel, _table=WordTable(weights, 64))
    caught(study)


@pytest.mark.slow
def test_structure_and_all_pairs_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    studies = [
        ages(12, "1/3", sf.Geometric()),
        ages(12, "1/3", sf.Thermometer()),
        regions(12, "1/3"),
        incomes(11, sf.Geometric()),
    ]
    for study in studies:
        (by_pairs,) = audit(study).axes
        with monkeypatch.context() as patch:
            patch.setattr(type(study.channels[0]), "most_ratios", 0)
            (by_structure,) = audit(study).axes
        assert by_structure.method == "by structure"
        assert by_structure.holds
        assert by_structure.spent == pytest.approx(by_pairs.spent, rel=1e-12)


def test_table_of_a_few_hundred_cells_is_checked_pair_by_pair() -> None:
    protect = sf.Distance("1/50", no_answer=40)
    axis = sf.integers("x", 0, 198, protect=protect, optional=True, channel=sf.Exponential())
    (found,) = audit(study_of(axis)).axes
    assert found.holds
    assert (found.method, found.pairs_checked) == ("all pairs, exactly", 200 * 199)
    assert 0.5 < found.spent < 1


def test_infinite_pairs_are_open_and_not_counted_as_spent() -> None:
    names = ["a", "b", "c"]
    alone = sf.categories("x", names, protect=sf.Blocks(1, [[name] for name in names]))
    (found,) = audit(study_of(alone)).axes
    assert found.holds
    assert (found.tightest, found.spent, found.pairs_checked) == (None, 0.0, 6)
    assert math.isinf(found.allowed)


def test_the_tightest_pair_is_the_one_that_brute_force_finds() -> None:
    edges = [k + k * k / 8 for k in range(7)]
    axis = sf.reals("x", edges=edges, protect=sf.Distance(1, per=2))
    study = study_of(axis, sf.Exponential())
    (found,) = audit(study).axes
    law, e = study.channels[0].likelihood(), study.schema.groups[0].metric.matrix()
    logs = np.log(law)
    gaps = (logs[:, None, :] - logs[None, :, :]).max(axis=2)
    share = gaps / np.where(e > 0, e, np.inf)
    assert found.spent == pytest.approx(share.max(), rel=1e-9)
    labels = study.axes[0].labels()
    assert found.tightest is not None
    pair = tuple(labels.index(label) for label in found.tightest)
    assert share[pair] == pytest.approx(share.max(), rel=1e-9)
    assert found.log_ratio == pytest.approx(gaps[pair], rel=1e-9)
    assert found.allowed == pytest.approx(e[pair], rel=1e-12)


# Broken channels


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda eps: ages(10, eps, sf.Geometric()),
        lambda eps: ages(2, eps, sf.Geometric()),
        lambda eps: ages(10, eps, sf.Thermometer()),
        lambda eps: ages(10, eps, sf.Thermometer("published")),
        lambda eps: ages(5_000, eps, sf.Geometric()),
        lambda eps: ages(500, eps, sf.Thermometer()),
        lambda eps: regions(5, eps),
        lambda eps: regions(2, eps),
        lambda eps: regions(2_000, eps),
    ],
)
@pytest.mark.parametrize("eps", [Fraction(1, 100), Fraction(1), Fraction(3)])
def test_epsilon_larger_by_a_billionth_is_caught(
    make: Callable[[Fraction], sf.Study], eps: Fraction
) -> None:
    assert audit(make(eps)).holds
    found = caught(broken(make(eps), *make(eps * SLIGHTLY).channels))
    assert 1 < found.axes[0].spent < 1 + 1.1e-9
    assert audit(broken(make(eps * SLIGHTLY), *make(eps).channels)).holds


def test_a_single_word_too_few_is_caught() -> None:
    study = regions(4, 1)
    channel = study.channels[0]
    put(channel, wrong=channel.wrong - 1)  # type: ignore[attr-defined]
    found = caught(study)
    # The excess is beyond what floats can see: integers decide.
    assert found.axes[0].spent == pytest.approx(1, abs=1e-15)
    assert found.axes[0].spent > 1


@pytest.mark.parametrize("cells", [5, 2_000])
@pytest.mark.parametrize("wrong", [0, TOTAL // 4, TOTAL])
def test_responses_that_are_no_law_are_caught(cells: int, wrong: int) -> None:
    study = regions(cells, 1)
    put(study.channels[0], wrong=wrong)
    caught(study)


def rows_of(channel: Channel) -> list[list[int]]:
    assert isinstance(channel, ExponentialChannel)
    return [list(row) for row in channel.table]


def set_rows(channel: Channel, rows: list[list[int]]) -> None:
    put(channel, table=tuple(map(tuple, rows)))


def exponential() -> sf.Study:
    return regions(5, 1, sf.Exponential())


def test_a_zeroed_word_makes_the_odds_infinite() -> None:
    study = exponential()
    rows = rows_of(study.channels[0])
    rows[2][2] += rows[2][4]
    rows[2][4] = 0
    set_rows(study.channels[0], rows)
    found = caught(study)
    assert math.isinf(found.axes[0].spent)
    assert math.isinf(found.axes[0].log_ratio)
    assert found.axes[0].tightest is not None
    assert found.axes[0].tightest[1] == "c2"


@pytest.mark.parametrize("change", [1, -1, 1 << 60])
def test_a_row_that_does_not_use_all_words_is_caught(change: int) -> None:
    study = exponential()
    rows = rows_of(study.channels[0])
    rows[1][1] += change
    set_rows(study.channels[0], rows)
    assert "sums to" in caught(study).axes[0].problems[0]


def test_negative_words_are_caught() -> None:
    study = exponential()
    rows = rows_of(study.channels[0])
    rows[0] = [TOTAL + 5, -5, 0, 0, 0]
    set_rows(study.channels[0], rows)
    assert any("negative" in problem for problem in caught(study).axes[0].problems)


def test_rows_too_few_are_caught() -> None:
    study = exponential()
    set_rows(study.channels[0], rows_of(study.channels[0])[:-1])
    assert "4 rows for 5 cells" in caught(study).axes[0].problems[0]


@pytest.mark.parametrize("kind", ["exponential", "optimised", "extremal"])
def test_a_sampler_that_searches_other_bounds_is_caught(kind: str) -> None:
    """One word goes to the next output: the law that is shown is still sound."""
    trial = REGISTRY[kind].trials()[-1]
    channel = trial.bind()
    assert isinstance(channel, TableChannel)
    assert channel.check(trial.metric).problems == []
    channel._sampler._bounds[1][0] -= np.uint64(1)
    assert "other bounds" in channel.check(trial.metric).problems[0]


def with_noise(study: sf.Study, weights: list[int]) -> sf.Study:
    put(study.channels[0], _noise=WordTable(weights, 64))
    return study


def noise_of(study: sf.Study) -> list[int]:
    channel = study.channels[0]
    assert isinstance(channel, GeometricChannel)
    return list(channel._noise.weights)


@pytest.mark.parametrize("cells", [8, 3_000])
def test_a_missing_tail_is_caught(cells: int) -> None:
    """Noise cut off short of the far end: the far output would tell the farthest cell apart."""
    study = ages(cells, 1, sf.Geometric())
    weights = noise_of(study)
    weights[cells - 1] += weights[0] + weights[-1]
    weights[0] = weights[-1] = 0
    assert math.isinf(caught(with_noise(study, weights)).axes[0].spent)


@pytest.mark.parametrize("cells", [8, 3_000])
def test_noise_with_a_hole_is_caught(cells: int) -> None:
    """Some noise never comes: an output is then impossible for a cell, and not for the next."""
    study = ages(cells, 1, sf.Geometric())
    weights = noise_of(study)
    for place in (1, -2):
        weights[cells - 1] += weights[place]
        weights[place] = 0
    assert math.isinf(caught(with_noise(study, weights)).axes[0].spent)


@pytest.mark.parametrize("cells", [8, 3_000])
def test_a_tail_without_its_rest_is_caught(cells: int) -> None:
    """The usual slip: the far weight without what lies beyond it."""
    study = ages(cells, "1/10", sf.Geometric())
    weights = noise_of(study)
    spare = 0
    for end in (0, -1):
        rest = weights[end] - weights[end] // 11
        weights[end] -= rest
        spare += rest
    weights[cells - 1] += spare
    caught(with_noise(study, weights))


@pytest.mark.parametrize("cells", [8, 3_000])
def test_noise_that_is_lopsided_is_caught(cells: int) -> None:
    study = ages(cells, 1, sf.Geometric())
    weights = noise_of(study)
    weights[cells] -= 1
    weights[cells - 2] += 1
    assert "both sides" in caught(with_noise(study, weights)).axes[0].problems[0]


@pytest.mark.parametrize("cells", [8, 3_000])
def test_odds_that_rise_too_fast_are_caught(cells: int) -> None:
    """More noise at distance 2 than at distance 1 is as telling as too little."""
    study = ages(cells, "1/10", sf.Geometric())
    weights = noise_of(study)
    moved = weights[cells] // 4
    for near, far in ((cells, cells + 1), (cells - 2, cells - 3)):
        weights[near] -= moved
        weights[far] += moved
    caught(with_noise(study, weights))


def test_a_guide_that_points_elsewhere_is_caught() -> None:
    study = ages(8, 1, sf.Geometric())
    channel = study.channels[0]
    assert isinstance(channel, GeometricChannel)
    table = channel._noise
    sure = int(np.flatnonzero(table._guide >= 0)[5000])
    for wrong in (table._guide[sure] + 1, table._guide[sure] - 1):
        guide = table._guide.copy()
        guide[sure] = wrong
        table._guide = guide
        assert "guide" in caught(study).axes[0].problems[0]


def test_bounds_that_are_not_the_weights_are_caught() -> None:
    study = ages(8, 1, sf.Geometric())
    channel = study.channels[0]
    assert isinstance(channel, GeometricChannel)
    bounds = channel._noise._bounds.copy()
    bounds[4] += np.uint64(1)
    channel._noise._bounds = bounds
    assert "bounds" in caught(study).axes[0].problems[0]


def test_a_table_of_another_precision_is_caught() -> None:
    study = ages(8, 1, sf.Geometric())
    put(study.channels[0], precision=63)
    assert "precision" in caught(study).axes[0].problems[0]


class Shown(GeometricChannel):
    """A channel that shows a better law than it draws from."""

    def words(self) -> tuple[list[list[int]], int]:
        rows, total = super().words()
        return [[total // 8] * 8 for _ in rows], total


def test_a_law_for_show_is_caught() -> None:
    study = ages(8, 1, sf.Geometric())
    channel = study.channels[0]
    assert isinstance(channel, GeometricChannel)
    shown = Shown(metric=channel.metric, odds=channel.odds)
    assert "moved and clamped" in caught(broken(study, shown)).axes[0].problems[0]


@pytest.mark.parametrize("cells", [6, 400])
def test_flips_other_than_shown_are_caught(cells: int) -> None:
    study = ages(cells, 1, sf.Thermometer())
    channel = study.channels[0]
    assert isinstance(channel, ThermometerChannel)
    flips = list(channel.flip_words)
    flips[2] -= 1
    put(channel, _flips=FlipTable(flips, 64))
    assert "other chances" in caught(study).axes[0].problems[0]


@pytest.mark.parametrize("cells", [6, 400])
def test_one_flip_too_rare_is_caught(cells: int) -> None:
    study = ages(cells, 1, sf.Thermometer())
    channel = study.channels[0]
    assert isinstance(channel, ThermometerChannel)
    flips = list(channel.flip_words)
    flips[2] -= 1
    put(channel, _flips=FlipTable(flips, 64), flip_words=tuple(flips))
    found = caught(study).axes[0]
    assert found.tightest is not None
    assert int(found.tightest[0]) <= 2 < int(found.tightest[1])
    for never in (0, TOTAL):
        flips[2] = never
        put(channel, _flips=FlipTable(flips, 64), flip_words=tuple(flips))
        assert math.isinf(caught(study).axes[0].spent)


def test_a_missing_bit_is_caught() -> None:
    study = ages(6, 1, sf.Thermometer())
    channel = study.channels[0]
    assert isinstance(channel, ThermometerChannel)
    put(channel, odds=channel.odds[:-1], flip_words=channel.flip_words[:-1])
    caught(study)


@pytest.mark.slow
@pytest.mark.parametrize("choice", [sf.Geometric(), sf.Thermometer()], ids=lambda c: c.id)
@pytest.mark.parametrize("bins", [8, 300])
def test_rounding_before_a_channel_for_grid_points_is_caught(choice: Choice, bins: int) -> None:
    """Odds of e^step between grid points are too much: the line between them is then too steep."""
    study = incomes(bins, choice)
    metric = study.schema.groups[0].metric
    assert isinstance(metric, LineMetric)
    loose = choice.bind(metric)
    put(loose, resolution=study.axes[0].domain.rounding_bits)
    found = caught(broken(study, loose)).axes[0]
    step = float(metric.exact(0, 1))
    assert found.spent == pytest.approx(math.expm1(step) / step, rel=1e-9)
    assert audit(broken(study, *incomes(bins, choice).channels)).holds


def test_rounding_where_none_is_asked_for_and_the_reverse_are_caught() -> None:
    study = incomes(8, sf.Geometric())
    (channel,) = study.channels
    plain = sf.Geometric().bind(study.schema.groups[0].metric)
    assert "rounds 0" in caught(broken(study, plain)).axes[0].problems[0]
    caught(broken(ages(9, 1, sf.Geometric()), channel))
    coarse = sf.Geometric().bind(study.schema.groups[0].metric, resolution=3)
    assert "rounds 3" in caught(broken(incomes(8, sf.Geometric()), coarse)).axes[0].problems[0]


def test_channels_of_other_cells_are_caught() -> None:
    study = ages(9, 1, sf.Geometric())
    assert (
        "cells" in caught(broken(study, *ages(8, 1, sf.Geometric()).channels)).axes[0].problems[0]
    )


def test_a_channel_for_another_metric_is_caught() -> None:
    """E of the statement decides, not the metric that the channel was bound to."""
    study = regions(5, 1)
    other = ages(5, 1, sf.Geometric())
    found = caught(broken(study, *other.channels))
    assert found.axes[0].spent == pytest.approx(4)


def test_asymmetric_guarantees_are_read_in_the_right_direction() -> None:
    """From a to b E is 1, back it is infinite: the table may be open one way only."""
    protect = sf.Matrix([[0, 1], ["inf", 0]])
    axis = sf.categories("x", ["a", "b"], protect=protect, channel=sf.Exponential())
    study = study_of(axis)
    set_rows(study.channels[0], [[TOTAL // 2, TOTAL // 2], [TOTAL // 4, TOTAL - TOTAL // 4]])
    assert audit(study).holds
    study = study_of(axis)
    set_rows(study.channels[0], [[TOTAL // 2, TOTAL // 2], [TOTAL, 0]])
    study.channels[0].__dict__.pop("_sampler", None)
    found = caught(study)
    assert found.axes[0].tightest == ("a", "b")
    study = study_of(axis)
    set_rows(study.channels[0], [[TOTAL, 0], [TOTAL // 2, TOTAL // 2]])
    assert audit(study).holds


def test_one_broken_axis_breaks_the_study() -> None:
    study = sf.Study(
        "two",
        [
            sf.integers("age", 0, 9, protect=sf.Distance(1), channel=sf.Geometric()),
            sf.categories("region", ["a", "b"], protect=sf.Uniform(1)),
        ],
    )
    good = audit(study)
    assert good.holds
    assert [axis.axis for axis in good.axes] == ["age", "region"]
    channel = study.channels[1]
    put(channel, wrong=channel.wrong // 2)  # type: ignore[attr-defined]
    found = audit(study)
    assert not found.holds
    assert [axis.holds for axis in found.axes] == [True, False]


# A channel of somebody else's making


class Foreign(GeometricChannel):
    """A channel without a check of its own structure."""

    id = "foreign"
    most_ratios = Channel.most_ratios
    check_structure = Channel.check_structure


@pytest.fixture
def foreign() -> sf.Study:
    """A study of 40,000 cells whose channel is none of ours."""
    study = ages(40_000, 1, sf.Geometric())
    channel = study.channels[0]
    assert isinstance(channel, GeometricChannel)
    return broken(study, Foreign(metric=channel.metric, odds=channel.odds))


@pytest.mark.slow
def test_a_large_foreign_channel_is_taken_at_its_word(
    foreign: sf.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert audit(foreign).axes[0].method == "by structure"
    assert audit(foreign).holds
    worst = Fraction(28, 10)
    assert not at_most_exp(worst, Fraction(1))
    monkeypatch.setattr(Foreign, "worst_ratio", lambda self: worst)
    caught(foreign)


def test_what_cannot_be_checked_does_not_pass(
    foreign: sf.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Foreign, "worst_ratio", lambda self: None)
    found = caught(foreign).axes[0]
    assert found.method == "not checked"
    assert "use fewer cells" in found.problems[0]


# What it looks like


def test_table_in_plain_words() -> None:
    study = sf.Study(
        "commute",
        [
            sf.integers("age", 0, 99, protect=sf.Distance("1/5"), channel=sf.Geometric()),
            sf.categories("mode", ["car", "bus"], protect=sf.Blocks(1, [["car"], ["bus"]])),
        ],
    )
    lines = str(audit(study)).splitlines()
    assert lines[0] == (
        f"Study 'commute', fingerprint {study.fingerprint[:12]}: the guarantee holds."
    )
    assert lines[2].startswith("axis  channel    holds   spent of E  most between  checked")
    assert lines[4].startswith("age   geometric  yes    100.000000%       0 and 1  all pairs")
    assert "all pairs, exactly (9,900 pairs)  every boundary (" in lines[4]
    assert lines[4].endswith(" reports)")
    assert lines[5].split()[:4] == ["mode", "binary", "yes", "–"]


def test_plain_values_for_files() -> None:
    study = ages(10, "1/2", sf.Geometric())
    data = audit(study).to_dict()
    assert json.loads(json.dumps(data))["axes"][0]["tightest"] == ["0", "1"]
    assert data["holds"] is True
    assert data["study"] == "s"
    assert data["fingerprint"] == study.fingerprint
    assert data["axes"][0]["log_ratio"] == pytest.approx(0.5)
    assert data["axes"][0]["allowed"] == 0.5


def test_results_cannot_be_changed() -> None:
    found = audit(ages())
    with pytest.raises(AttributeError):
        found.axes[0].holds = True  # type: ignore[misc]
