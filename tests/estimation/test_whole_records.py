"""One block over all axes (whole records under one ε): files, words, answers, plans, audit."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import sfumato as sf
from sfumato.channels.choice import Choice
from sfumato.errors import DataError, FormatError, MismatchError, StudyError
from sfumato.exact import at_most_exp
from sfumato.planning import variances
from sfumato.questions.workload import Given

Counts = NDArray[np.int64]

SHAPE = (6, 4)
CHANNELS: tuple[Choice, ...] = (
    sf.Comb(),
    sf.Hierarchical(2),
    sf.Hierarchical(3, "hrr"),
    sf.HaarHRR(),
    sf.KaryResponse(),
    sf.OLH(),
    sf.HRR(),
    sf.OUE(),
)


def pair(channel: Choice | None = None, eps: float = 1.0, **options: Any) -> sf.Study:
    axes = [sf.integers("a", 0, 5), sf.integers("b", 0, 3)]
    return sf.Study("pair", axes, protect=sf.Uniform(eps), channel=channel, **options)


def three(channel: Choice | None = None) -> sf.Study:
    axes = [
        sf.integers("a", 0, 3),
        sf.categories("c", ["x", "y", "z"]),
        sf.reals("r", 0, 1, bins=2, optional=True),
    ]
    return sf.Study("three", axes, protect=sf.Uniform(2), channel=channel)


def crowd(n: int = 4_000) -> Counts:
    """More people at one corner, and an empty one at the other."""
    share = np.outer(np.arange(6, 0, -1), [4, 3, 2, 0]).astype(float)
    return np.random.default_rng(1).multinomial(n, share.ravel() / share.sum()).reshape(SHAPE)


# The guarantee


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda m: f"{m.id} {m.options()}")
@pytest.mark.parametrize("make", [pair, three])
def test_any_two_records_are_within_epsilon(make: Any, channel: Choice) -> None:
    study = make(channel)
    channel = study.channels[0]
    if channel.layout.kind == "bits" and channel.layout.count > 16:
        pytest.skip("too many patterns to list; the channel is checked by itself")
    rows, total = channel.words()
    assert all(sum(row) == total for row in rows)
    columns = np.array(rows, dtype=object)
    worst = max(Fraction(max(column), min(column)) for column in columns.T)
    epsilon = channel.metric.epsilon
    assert at_most_exp(worst, epsilon)
    assert not at_most_exp(worst, epsilon * Fraction(99, 100))
    found = sf.audit(study)
    assert found.holds
    assert found.axes[0].axis == ", ".join(axis.name for axis in study.axes)


def test_a_channel_that_reveals_too_much_is_caught() -> None:
    study = pair(sf.Comb())
    bold = sf.Comb().bind_grid(pair(eps=1.2).channels[0].metric, SHAPE, (True, True))
    study._blocks = (replace(study.blocks[0], channel=bold),)
    assert not sf.audit(study).holds


def test_records_differ_by_one_epsilon_however_many_axes_differ() -> None:
    guarantee = pair().guarantee
    assert guarantee.between({"a": 1, "b": 2}, {"a": 1, "b": 2}) == 0.0
    assert guarantee.between({"a": 1, "b": 2}, {"a": 2, "b": 2}) == 1.0
    assert guarantee.between({"a": 1, "b": 2}, {"a": 5, "b": 0}) == 1.0
    with pytest.raises(StudyError, match="not protected by distance"):
        guarantee.as_lp(2)


def test_it_is_explained_in_words() -> None:
    text = pair().explain()
    assert "a (integers, 6 cells) and b (integers, 4 cells), together" in text
    assert "E = 1 for any two records" in text
    assert "2.7 times" in text
    assert "Sent by the comb channel" in text
    assert "Not answering r is protected too" in three().explain()


# Files and reports


def test_a_study_survives_its_file(tmp_path: Path) -> None:
    for study in (pair(), pair(sf.Hierarchical(3)), three(), pair(people=500)):
        study.save(tmp_path / "study.toml")
        again = sf.Study.load(tmp_path / "study.toml")
        assert again == study
        assert again.blocks[0].choice == study.blocks[0].choice
        assert again.people == study.people
    assert pair() != pair(sf.HRR())
    assert pair() != pair(eps=2)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[mechanism]\nkind", "[mechanism]\nsort", "'mechanism' of the study must be a table"),
        ('kind = "comb"', 'kind = "rake"', "unknown channel 'rake'"),
        ("epsilon = 1", "epsilon = 2", "fingerprint does not match"),
    ],
)
def test_damaged_files_are_refused(old: str, new: str, says: str) -> None:
    text = pair().to_toml()
    assert old in text
    with pytest.raises(FormatError, match=says):
        sf.Study.from_toml(text.replace(old, new))


@pytest.mark.parametrize("channel", [sf.Comb(), sf.OUE()], ids=lambda m: m.id)
def test_reports_and_tallies_survive_their_files(tmp_path: Path, channel: Choice) -> None:
    study = pair(channel)
    table = {"a": [0, 5, 3, 3], "b": [3, 0, 1, 1]}
    reports = study.encode(table, bits=sf.SeededBits(3))
    assert reports.to_arrow().column_names == ["record"]
    reports.save(tmp_path / "reports.parquet")
    tally = study.tally(sf.Reports.load(tmp_path / "reports.parquet"))
    assert tally == study.tally(reports) == study.tally([reports[:1], reports[1:]])
    tally.save(tmp_path / "tally.parquet")
    assert sf.Tally.load(tmp_path / "tally.parquet", study) == tally
    with pytest.raises(MismatchError):
        pair(sf.HRR()).tally(reports)
    with pytest.raises(DataError, match="row"):
        study.encode({"a": [0, 9], "b": [0, 0]})
    assert len(study.encode({"a": 2, "b": 1})) == 1


# Answers


def expected(study: sf.Study, counts: Counts) -> sf.Tally:
    """The expected tally, in fractions of people."""
    channel = study.channels[0]
    law = channel.mix(counts.ravel().astype(float))
    tally = study.simulate_counts(counts, seed=1)
    statistic = type(tally.statistic)(
        tally.statistic.layouts, (np.arange(len(law)),), law, int(counts.sum())
    )
    return sf.Tally(study, statistic)


@pytest.mark.parametrize("channel", CHANNELS[:-1], ids=lambda m: f"{m.id} {m.options()}")
def test_unbiased_answers_of_the_expected_tally_are_the_truth(channel: Choice) -> None:
    counts = crowd()
    est = expected(pair(channel), counts).estimate("unbiased")
    n = counts.sum()
    assert float(est.count(a=(1, 3), b={0, 2})) == pytest.approx(counts[1:4, [0, 2]].sum())
    assert est.fraction(a=2, where="b=0..1").value == pytest.approx(
        counts[2, :2].sum() / counts[:, :2].sum()
    )
    assert np.allclose(est.histogram("a").values, counts.sum(axis=1))
    assert np.allclose(est.histogram("b", where="a=3").values, counts[3])
    assert np.allclose(est.heatmap("a", "b").values, counts)
    assert np.allclose(est.cdf("a").values, np.cumsum(counts.sum(axis=1)) / n)
    assert est.mean("a").value == pytest.approx(counts.sum(axis=1) @ np.arange(6) / n)
    assert np.allclose(est.linear(np.eye(24)[[0, 7]]).values, counts.ravel()[[0, 7]])
    assert est.quantile("b", 0.5).value == pytest.approx(1, abs=1)


@pytest.mark.parametrize("channel", CHANNELS[:-1], ids=lambda m: f"{m.id} {m.options()}")
def test_the_reported_error_of_the_expected_tally_is_exact(channel: Choice) -> None:
    """Given the people, the variance is Σ_x c(x)·(E[f² | x] − w(x)²)."""
    counts = crowd()
    study = pair(channel)
    channel = study.channels[0]
    weights = np.zeros(SHAPE)
    weights[1:4, :2] = 1.0
    flat = weights.ravel()
    variance = (channel.second_moment(flat) - flat**2) @ counts.ravel()
    answer = expected(study, counts).estimate("unbiased").count(a=(1, 3), b=(0, 1))
    assert answer.stderr == pytest.approx(np.sqrt(variance), rel=1e-9)


RUNS = 800
LOW, HIGH = 0.95 - 4 * np.sqrt(0.95 * 0.05 / RUNS), 0.95 + 4 * np.sqrt(0.95 * 0.05 / RUNS)


@pytest.mark.slow
@pytest.mark.parametrize("channel", [sf.Comb(), sf.Hierarchical(2)], ids=lambda m: m.id)
def test_intervals_hold_the_truth_as_often_as_they_say(channel: Choice) -> None:
    """800 collections: four standard errors of the share are 3.1 %; errors × 0.8 would be caught.

    Intervals of 0.8 times their width hold the truth with chance 88 %, below the band.
    """
    study, counts = pair(channel), crowd(1_000)
    truth = counts[1:4, 1:].sum()
    held = narrow = 0
    for seed in range(RUNS):
        answer = (
            study.simulate_counts(counts, seed=seed).estimate("unbiased").count("a=1..3,b=1..3")
        )
        off = abs(answer.value - truth) / answer.stderr
        held += off < 1.959964
        narrow += off < 0.8 * 1.959964
    assert LOW < held / RUNS < HIGH
    assert narrow / RUNS < LOW


def test_the_default_is_likelihood_of_whole_records() -> None:
    counts = crowd(50_000)
    tally = pair().simulate_counts(counts, seed=4)
    est, plain = tally.estimate("likelihood"), tally.estimate("unbiased")
    assert est.method == "likelihood"
    values = est.heatmap("a", "b").values
    assert (values >= 0).all()
    assert values.sum() == pytest.approx(50_000)
    error = np.mean((values - counts) ** 2)
    assert error < np.mean((plain.heatmap("a", "b").values - counts) ** 2)
    answer = est.count("a=1..3, b=0..1")
    assert answer.low < counts[1:4, :2].sum() < answer.high
    assert np.allclose(est.histogram("a").values, values.sum(axis=1), rtol=1e-6)
    plain_em = tally.estimate("likelihood", smoothing="none")
    assert plain_em.count(a=(0, 5)).value == pytest.approx(50_000)


def test_bits_of_whole_records_are_decoded_too() -> None:
    counts = crowd(3_000)
    est = pair(sf.OUE(), eps=3).simulate_counts(counts, seed=5).estimate("likelihood")
    answer = est.count("a=0..2")
    assert answer.low < counts[:3].sum() < answer.high


def test_an_empty_tally_has_no_answers() -> None:
    for method in ("unbiased", "likelihood"):
        answer = pair().empty_tally().estimate(method).count(a=1)
        assert "no reports" in answer.notes
        assert np.isnan(answer.value)


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda m: f"{m.id} {m.options()}")
def test_counts_are_in_the_cells_of_the_records(channel: Choice) -> None:
    """With ε = 40 nearly all noise comes from sampling levels, combs and hashes: six deviations."""
    counts = crowd()
    a, b = (np.repeat(place.ravel(), counts.ravel()) for place in np.indices(SHAPE))
    tally = pair(channel, 40.0).simulate({"a": a, "b": b}, seed=11)
    estimate = tally.estimate("unbiased")
    for k in range(6):
        for j in range(4):
            answer = estimate.count(a=k, b=j)
            assert abs(answer.value - counts[k, j]) <= 6 * answer.stderr + 1e-6


# Plans


@pytest.mark.parametrize("channel", [sf.Comb(), sf.Hierarchical(2), sf.HRR()], ids=str)
def test_the_plan_predicts_the_error(channel: Choice) -> None:
    """Of one question, against the exact sum over the prior."""
    study = pair(channel)
    channel = study.channels[0]
    flat = np.zeros(SHAPE)
    flat[:3, 1:] = 1.0
    weights = flat.ravel()
    prior = crowd() / crowd().sum()
    variance = (channel.second_moment(weights) - weights**2) @ prior.ravel()
    plan = study.expected_error(900, "a=0..2, b=1..3", prior=prior)
    assert plan.rows[-1].stderr == pytest.approx(np.sqrt(900 * variance), rel=1e-9)
    worst = study.expected_error(900, "a=0..2, b=1..3", prior="worst").rows[-1].stderr
    largest = np.max(channel.second_moment(weights) - weights**2)
    assert worst == pytest.approx(np.sqrt(900 * largest), rel=1e-9)
    half = {0: Given(np.array([[1.0, 1, 1, 0, 0, 0]]))}
    rows = np.outer([1, 1, 1, 0, 0, 0], np.ones(4)).ravel()
    alone = (channel.second_moment(rows) - rows**2).mean()
    spread = variances.variance(
        variances.prior_of(study, "flat"), variances.mean_terms(study.blocks, half)
    )
    assert spread == pytest.approx(alone)


def test_channels_are_compared_and_the_choice_is_the_best_of_them() -> None:
    found = pair().compare(5_000, methods=["unbiased"])
    errors = {row.channel: row.stderr for row in found.rows}
    assert {"comb", "hierarchical", "haar-hrr", "kary-response", "olh"} <= set(errors)
    (chosen,) = [row for row in found.rows if row.chosen]
    assert chosen.channel == "comb"
    assert chosen.stderr == min(errors.values())
    decoded = pair().compare(2_000, methods=["likelihood"], runs=1)
    assert all(row.stderr > 0 for row in decoded.rows if not row.note)


def test_epsilon_and_people_for_a_wanted_error() -> None:
    study = pair()
    factor = sf.epsilon_for(study, 10_000, 0.03, "a=1..3")
    assert study.expected_error(10_000, "a=1..3").rows[-1].share > 0.03
    bolder = pair(eps=factor)
    assert bolder.expected_error(10_000, "a=1..3").rows[-1].share <= 0.03 * 1.001
    people = sf.people_for(study, 0.03, "a=1..3")
    assert study.expected_error(people, "a=1..3").rows[-1].share <= 0.03


# Bad input


def test_contradictory_statements_are_refused() -> None:
    a, b = sf.integers("a", 0, 5), sf.integers("b", 0, 3)
    uniform = sf.Uniform(1)
    own = sf.integers("b", 0, 3, protect=uniform)
    with pytest.raises(StudyError, match="axis 'b' must not state its own"):
        sf.Study("s", [a, own], protect=uniform)
    named = sf.integers("b", 0, 3, channel=sf.HRR())
    with pytest.raises(StudyError, match="axis 'b' must not name its own"):
        sf.Study("s", [a, named], protect=uniform)
    rounded = sf.reals("r", 0, 1, bins=4, rounding="stochastic")
    with pytest.raises(StudyError, match="rounding='stochastic' needs a guarantee of its own"):
        sf.Study("s", [a, rounded], protect=uniform)
    with pytest.raises(StudyError, match="channel must be a choice"):
        sf.Study("s", [a, b], protect=uniform, channel="comb")  # type: ignore[arg-type]
    with pytest.raises(StudyError, match="for a whole study is not available"):
        sf.Study("s", [a, b], protect=sf.Distance(1))


def test_on_one_axis_it_is_the_axis_own_guarantee() -> None:
    axis = sf.integers("a", 0, 30)
    alone = sf.Study("s", [axis], protect=sf.Uniform(1))
    assert alone.blocks[0].axes == (0,)
    assert alone == sf.Study("s", [sf.integers("a", 0, 30, protect=sf.Uniform(1))])
    named = sf.Study("s", [axis], protect=sf.Uniform(1), channel=sf.HRR())
    assert named.blocks[0].choice == sf.HRR()


def test_public_weights_weigh_whole_records_too() -> None:
    study = pair()
    reports = study.encode({"a": [1, 2] * 200, "b": [0, 3] * 200}, bits=sf.SeededBits(3))
    twice = study.tally(reports, weights=[2.0] * 400).estimate()
    once = study.tally(reports).estimate("unbiased")
    asked = {"a": (0, 1), "b": (0, 2)}
    assert float(twice.count(asked)) == pytest.approx(2 * float(once.count(asked)), rel=1e-12)
    assert twice.count(asked).stderr == pytest.approx(2 * once.count(asked).stderr, rel=1e-12)
