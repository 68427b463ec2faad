"""Predicted errors are those that come, for single axes, whole records and mixed studies."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_planning import (
    DISTANCE,
    QUESTIONS,
    STUDIES,
    exact_variance_of,
    line,
    people_of,
)
from helpers_statistics import LIMIT, collections, exact_variance, histogram, variance_stderr

import sfumato as sf
from benchmarks import choice
from sfumato.estimation.unbiased import UnbiasedEstimate
from sfumato.planning.expected_error import own, typical_of
from sfumato.planning.simulate import QuestionRows, simulate
from sfumato.planning.variances import Prior, Terms, combined, prior_of, variance
from sfumato.questions.language import weights
from sfumato.questions.lines import Ranges
from sfumato.questions.typical import deciles

# Unbiased answers


@pytest.mark.parametrize("name", STUDIES)
def test_predicted_error_is_the_exact_variance_for_any_joint_prior(name: str) -> None:
    study = STUDIES[name]()
    counts = histogram(study, people_of(study, 500, 3))
    question = QUESTIONS.get(name, "a=2..4")
    row = study.expected_error(500, question, prior=counts)[question]
    asked = weights(study.axes, question).weights
    assert row.stderr == pytest.approx(math.sqrt(exact_variance_of(study, asked, counts)))
    assert row.share == pytest.approx(row.stderr / 500)
    assert row.how == "exact"


# A standard error from N runs has itself a relative standard error of about √(κ/4N), κ = 2 for
# normal answers: with 3,600 runs 5 % is 4.2 of them.
RUNS = 3_600
PEOPLE = 128


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in STUDIES if name != "published"])
def test_predicted_error_is_within_five_percent_of_the_simulated_one(name: str, seed: int) -> None:
    study = STUDIES[name]()
    cells = people_of(study, PEOPLE, 4)
    question = QUESTIONS.get(name, "a=2..4")
    predicted = study.expected_error(PEOPLE, question, prior=histogram(study, cells))[question]
    labels = [axis.labels() for axis in study.axes]
    table = {
        axis.name: [names[c] if not axis.domain.ordered else int(c) for c in column]
        for axis, names, column in zip(study.axes, labels, cells, strict=True)
    }
    asked = weights(study.axes, question)
    answers = []
    for tally in collections(study, table, runs=RUNS, seed=seed):
        estimate = tally.estimate("unbiased")
        assert isinstance(estimate, UnbiasedEstimate)
        answers.append(estimate.value_of(asked))
    simulated = float(np.std(answers, ddof=1))
    assert variance_stderr(answers) / (2 * simulated**2) * LIMIT <= 0.05
    assert abs(predicted.stderr / simulated - 1) <= 0.05
    # The twin: a prediction that is off by a tenth would not pass.
    assert abs(1.1 * predicted.stderr / simulated - 1) > 0.05
    assert abs(0.9 * predicted.stderr / simulated - 1) > 0.05


def rounded() -> sf.Study:
    axis = sf.reals("a", 0, 5, bins=5, rounding="stochastic", protect=DISTANCE)
    return sf.Study("s", [axis])


def optional() -> sf.Study:
    protect = sf.Distance(0.8, no_answer=4)
    return sf.Study("s", [sf.integers("a", 0, 5, protect=protect, optional=True)])


@pytest.mark.parametrize("name", ["geometric", "thermometer", "published", "exponential"])
def test_mean_over_ranges_is_the_mean_over_each_of_them(name: str) -> None:
    study = STUDIES[name]()
    counts = np.arange(1, study.shape[0] + 1)
    check_ranges(study, counts)


@pytest.mark.parametrize("make", [rounded, optional])
def test_mean_over_ranges_holds_with_rounding_and_no_answer(make: Callable[[], sf.Study]) -> None:
    study = make()
    check_ranges(study, np.arange(1, study.shape[0] + 1))


def check_ranges(study: sf.Study, counts: Any) -> None:
    size, values = study.shape[0], study.axes[0].domain.size
    channel = study.channels[0]
    total = []
    for low, high in itertools.combinations_with_replacement(range(values), 2):
        w = ((np.arange(size) >= low) & (np.arange(size) <= high)).astype(float)
        more = float(channel.rounding_excess(w, w) @ counts)
        total.append(exact_variance([channel], [w], counts) + more)
    plan = study.expected_error(int(counts.sum()), prior=counts)
    assert plan["a: a random range"].stderr == pytest.approx(math.sqrt(np.mean(total)))


def test_channels_are_named_once_per_block() -> None:
    plan = STUDIES["mixed"]().expected_error(10, "a=1, c=2")
    assert plan["a: one cell"].channel == plan["a × b: a random range of both"].channel == "comb"
    assert plan["a=1, c=2"].channel == "comb, geometric"


def test_joint_ranges_are_the_mean_over_pairs_of_ranges() -> None:
    study = STUDIES["two"]()
    counts = histogram(study, people_of(study, 400, 5))
    rows = [Ranges(size).dense() for size in study.shape]
    assert [len(row) for row in rows] == [28, 15]
    total = [exact_variance(study.channels, [w, v], counts) for w, v in itertools.product(*rows)]
    plan = study.expected_error(400, prior=counts)
    assert plan["a × b: a random range of both"].stderr == pytest.approx(math.sqrt(np.mean(total)))


def test_a_reported_error_is_near_the_planned_one_with_stochastic_rounding() -> None:
    study = rounded()
    values = np.random.default_rng(2).uniform(0, 5, 60_000)
    answer = study.simulate({"a": values}, seed=1).estimate("unbiased").count(a=(1, 3))
    cells = np.histogram(values, bins=np.array([0, 0.5, 1.5, 2.5, 3.5, 4.5, 5]))[0]
    planned = study.expected_error(60_000, "a=1..3", prior=cells)["a=1..3"]
    assert planned.stderr == pytest.approx(answer.stderr, rel=0.05)


def test_deciles_cells_and_means_are_what_they_say() -> None:
    study = sf.Study("s", [sf.integers("a", 1, 40, protect=DISTANCE, unit="years")])
    law = np.random.default_rng(7).random(40)
    plan = study.expected_error(1_000, prior=law)
    counts = 1_000 * law / law.sum()
    upto = np.cumsum(law) / law.sum()
    thresholds = [int(np.searchsorted(upto, k / 10)) for k in range(1, 10)]
    channel = study.channels
    rows = [(np.arange(40) <= t).astype(float) for t in thresholds]
    np.testing.assert_array_equal(deciles(law / law.sum(), 40).dense(), rows)
    mean = np.mean([exact_variance(channel, [row], counts) for row in rows])
    assert plan["a: at or below a decile"].stderr == pytest.approx(math.sqrt(mean))
    mean = np.mean([exact_variance(channel, [row], counts) for row in np.eye(40)])
    assert plan["a: one cell"].stderr == pytest.approx(math.sqrt(mean))
    whole = exact_variance(channel, [np.arange(1, 41)], counts)
    assert plan["a: mean"].stderr == pytest.approx(math.sqrt(whole) / 1_000)
    assert (plan["a: mean"].unit, plan["a: mean"].share) == ("years", None)


@pytest.mark.slow
def test_mean_with_no_answers_is_of_those_who_answer() -> None:
    study = optional()
    counts = np.array([300, 500, 700, 800, 600, 400, 2_000])
    planned = study.expected_error(int(counts.sum()), prior=counts)["a: mean"]
    answers = []
    for seed in range(200):
        answer = study.simulate_counts(counts, seed=seed).estimate("unbiased").mean("a")
        answers.append(answer.value)
    # 200 runs: 4 standard errors of a standard error are 4/√400 = 20 %.
    assert np.std(answers) == pytest.approx(planned.stderr, rel=0.2)


def test_what_is_not_exact_says_so() -> None:
    plan = rounded().expected_error(100)
    assert {row.how for row in plan} == {"bound"}
    assert "errors marked ≤ are upper bounds" in plan.caption()
    assert all(plan.cells(row)[1].startswith("≤ ") for row in plan)
    plan = optional().expected_error(100)
    assert [row.how for row in plan] == ["exact", "exact", "exact", "first order"]
    assert plan.cells(plan["a: mean"])[1].startswith("~ ")
    assert plan.caption().endswith("errors are exact; errors marked ~ are exact to first order.")
    long = sf.Study("s", [sf.integers("a", 0, 2_999, protect=DISTANCE)]).expected_error(100)
    assert [row.how for row in long] == ["sampled", "exact", "sampled", "exact"]


def test_the_mean_of_a_channel_that_does_not_know_how_many_is_read_as_answers_read_it() -> None:
    """The published thermometer counts everybody with noise, and its mean is not free of it."""
    study = STUDIES["published"]()
    counts = np.arange(1, 10)
    planned = study.expected_error(45, prior=counts)["a: mean"].stderr
    answer = study.simulate_counts(counts, seed=1).estimate("unbiased").mean("a")
    assert planned == pytest.approx(answer.stderr)


def test_a_mean_whose_error_is_not_known_is_left_out_and_said_why() -> None:
    cases: list[tuple[sf.Study, Any, str]] = [
        (optional(), "worst", "has no bound, since in the worst population hardly anybody answers"),
        (optional(), [0] * 6 + [1], "is not defined, since nobody answers"),
    ]
    channel = sf.Hierarchical(2, consistency=False)
    nodes = sf.integers("a", 0, 5, protect=sf.Uniform(1), channel=channel, optional=True)
    cases.append((sf.Study("s", [nodes]), "flat", "is not known: the sum and the number"))
    for study, prior, words in cases:
        plan = study.expected_error(100, prior=prior)
        assert "mean" not in {row.kind for row in plan}
        (note,) = plan.notes
        assert words in note
        assert note in str(plan)


@pytest.mark.parametrize("name", STUDIES)
def test_worst_is_the_largest_error_of_all_populations(name: str) -> None:
    study = STUDIES[name]()
    question = QUESTIONS.get(name, "a=2..4")
    asked = weights(study.axes, question).weights
    n = 50
    planned = study.expected_error(n, question, prior="worst")[question].stderr
    errors = []
    for cell in np.ndindex(*study.shape):
        counts = np.zeros(study.shape)
        counts[cell] = n
        errors.append(math.sqrt(exact_variance_of(study, asked, counts)))
    assert planned == pytest.approx(max(errors))
    rng = np.random.default_rng(3)
    for _ in range(20):
        law = rng.dirichlet(np.full(math.prod(study.shape), 0.1)).reshape(study.shape)
        mixed = math.sqrt(exact_variance_of(study, asked, n * law))
        assert mixed <= planned * (1 + 1e-12)


def test_worst_case_of_averages_counts_rounding_too() -> None:
    study = rounded()
    channel = study.channels[0]
    terms = Terms.mean(channel, [Ranges(6)])
    bracket = terms.moment - terms.square + terms.excess
    flat = prior_of(study, "flat")
    worst = Prior(flat.laws, None, True, "worst")
    assert terms.excess.max() > 0
    assert variance(worst, {(0,): terms}) == pytest.approx(bracket.max())
    assert variance(flat, {(0,): terms}) == pytest.approx(bracket.mean())


@pytest.mark.slow
def test_many_cells_are_planned_without_squares_of_them() -> None:
    study = sf.Study("s", [sf.integers("a", 0, 199_999, protect=sf.Distance(0.5))])
    row = study.expected_error(1_000, "a=1000..90000")["a=1000..90000"]
    # Away from the ends two thresholds add up: 2·Σα^d·peak / m for people spread evenly.
    alpha = math.exp(-0.5)
    peak = alpha * (1 - alpha + alpha**2) / (1 - alpha) ** 3
    assert row.stderr == pytest.approx(
        math.sqrt(1_000 * 4 * peak / (1 - alpha) / 200_000), rel=1e-6
    )


def test_terms_of_several_questions_stand_in_leading_axes() -> None:
    channel = STUDIES["thermometer"]().channels[0]
    rows = np.eye(9)[:3]
    together, alone = Terms.of(channel, rows), Terms.of(channel, rows[1])
    np.testing.assert_allclose(together.moment[1], alone.moment)


# Likelihood answers


@pytest.mark.slow
def test_likelihood_plan_says_what_is_simulated_and_what_reported() -> None:
    study = sf.Study("s", [line("a", 12, sf.Geometric())])
    law = choice.two_bumps(12) / choice.two_bumps(12).sum()
    plan = study.expected_error(2_000, "a=3..6", prior=law, method="likelihood")
    row = plan["a=3..6"]
    assert (row.how, plan.method) == ("simulated", "likelihood")
    only = study.expected_error(2_000, "a=3..6", prior=law, method="likelihood", runs=0)["a=3..6"]
    assert (only.how, only.stderr) == ("reported", only.reported)
    assert only.reported == row.reported
    rng = np.random.default_rng(11)
    off, told = [], []
    for seed in range(40):
        counts = rng.multinomial(2_000, law)
        answer = study.simulate_counts(counts, seed=seed).estimate("likelihood").count(a=(3, 6))
        off.append((answer.value - counts[3:7].sum()) ** 2)
        told.append(answer.stderr)
    # A root mean square over 20 runs against one over 40: 4·√(1/40 + 1/80) = 0.77 in logarithm.
    assert abs(math.log(row.stderr / math.sqrt(np.mean(off)))) < 0.77
    assert row.reported is not None
    # What is reported at the expected tally is about what is reported at those that come.
    assert abs(math.log(row.reported / math.sqrt(np.mean(np.square(told))))) < math.log(1.5)


def test_likelihood_plan_covers_bits_and_two_axes() -> None:
    study = sf.Study("s", [line("a", 4, sf.Thermometer()), line("b", 3, sf.Geometric())])
    shares: list[float] = []
    plan = study.expected_error(300, method="likelihood", runs=2, progress=shares.append)
    assert [row.how for row in plan] == ["simulated"] * len(plan)
    assert all(row.reported is not None and row.reported > 0 for row in plan)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    with pytest.raises(sf.StudyError, match="runs must be at least 1"):
        study.expected_error(300, method="likelihood", runs=0)


@pytest.mark.parametrize("name", ["records", "mixed", "mixed bits"])
def test_questions_laid_out_by_block_are_those_on_the_whole_grid(name: str) -> None:
    study = STUDIES[name]()
    (asked,) = own(study, QUESTIONS[name])
    rows = QuestionRows.of(study, range(len(study.axes)), asked.workloads, np.random.default_rng(1))
    weighed = weights(study.axes, QUESTIONS[name]).weights
    grid = np.ones(())
    for size, w in zip(study.shape, weighed, strict=True):
        grid = np.multiply.outer(grid, np.ones(size) if w is None else w)
    np.testing.assert_array_equal(rows.measured, [grid.ravel()])
    np.testing.assert_array_equal(rows.reported, [grid.ravel()])
    np.testing.assert_array_equal(combined(rows.by_block), [grid.ravel()])


@pytest.mark.parametrize("name", ["mixed", "mixed bits"])
def test_likelihood_answers_about_one_block_are_planned_as_if_it_were_alone(name: str) -> None:
    study = STUDIES[name]()
    prior = prior_of(study, histogram(study, people_of(study, 300, 2)))
    for block, part in zip(study.blocks, study.parts, strict=True):
        alone = sf.Study("s", [part])
        found = [
            simulate(made, [typical_of(made, axes).workloads], law, 200, runs=1, seed=3)[0]
            for made, axes, law in (
                (study, block.axes, prior),
                (alone, range(len(block.axes)), prior.on(block.axes)),
            )
        ]
        assert found[0].stderr == pytest.approx(found[1].stderr)
        assert found[0].reported == pytest.approx(found[1].reported)


@pytest.mark.slow
def test_a_likelihood_plan_of_a_mixed_study_is_what_answers_report() -> None:
    study = STUDIES["mixed"]()
    law = histogram(study, people_of(study, 2_000, 2))
    prior = prior_of(study, law)
    (asked,) = own(study, "a=1..2, c=1..3")
    (planned,) = simulate(study, [asked.workloads], prior, 2_000, runs=0, seed=0)
    told = [
        study.simulate_counts(law, seed=seed).estimate("likelihood").count(asked.text).stderr
        for seed in range(4)
    ]
    assert planned.how == "reported"
    # What is reported at the expected tally is about what is reported at those that come.
    assert abs(math.log(planned.stderr / math.sqrt(np.mean(np.square(told))))) < math.log(1.5)


# Bad input


@pytest.mark.parametrize("n", [0, -5])
def test_a_plan_needs_somebody(n: int) -> None:
    for call in (STUDIES["geometric"]().expected_error, STUDIES["geometric"]().compare):
        with pytest.raises(sf.StudyError, match=f"at least one person, got n={n}"):
            call(n)


@pytest.mark.parametrize("n", [1.5, math.nan, math.inf, "many", None, True])
def test_people_are_whole(n: Any) -> None:
    with pytest.raises(sf.StudyError, match="whole number of people"):
        STUDIES["geometric"]().expected_error(n)
    assert STUDIES["geometric"]().expected_error(np.int64(7)).n == 7


@pytest.mark.parametrize(
    ("prior", "words"),
    [
        ("round", "prior must be 'flat', 'worst'"),
        (np.ones(4), "one entry per cell, shape 9"),
        (np.ones((3, 3)), "one entry per cell"),
        (-np.ones(9), "zero or more"),
        (np.zeros(9), "not all zero"),
        (np.full(9, np.nan), "finite"),
        ({"b": np.ones(9)}, "names an axis 'b'"),
        ({"a": np.ones(3)}, "each of its 9 cells"),
        ({"a": [1, -1, *[1] * 7]}, "zero or more"),
        (["many"] * 9, "array of numbers"),
    ],
)
def test_priors_that_are_none_are_refused(prior: Any, words: str) -> None:
    with pytest.raises(sf.StudyError, match=words):
        STUDIES["geometric"]().expected_error(10, prior=prior)


def test_questions_levels_and_methods_are_checked() -> None:
    study = STUDIES["geometric"]()
    with pytest.raises(sf.QuestionError, match="no axis 'z'"):
        study.expected_error(10, "z=1")
    with pytest.raises(sf.QuestionError, match="level"):
        study.expected_error(10, level=1.5)
    with pytest.raises(sf.StudyError, match="method must be"):
        study.expected_error(10, method="magic")  # type: ignore[arg-type]
    with pytest.raises(sf.StudyError, match="unbiased answers only"):
        study.expected_error(10, method="likelihood", prior="worst")
    with pytest.raises(sf.QuestionError, match="did you mean 'a: one cell'"):
        study.expected_error(10)["a: one cel"]
    with pytest.raises(sf.StudyError, match="typical_width"):
        sf.plan_bins(0, 1, DISTANCE, 10, typical_width=2)
    with pytest.raises(sf.StudyError, match="prior must be 'hills'"):
        sf.plan_bins(0, 1, DISTANCE, 10, prior="worst")
    with pytest.raises(sf.StudyError, match="at least one person"):
        sf.plan_bins(0, 1, DISTANCE, 0)


# Tables and pictures


def test_priors_by_axis_are_their_product() -> None:
    study = STUDIES["two"]()
    first, second = np.arange(1.0, 8.0), np.array([5.0, 1, 1, 1, 2])
    joint = np.multiply.outer(first, second)
    by_axis = study.expected_error(100, "a=2..3, b=1", prior={"a": first, "b": second})
    for row, other in zip(
        by_axis, study.expected_error(100, "a=2..3, b=1", prior=joint), strict=True
    ):
        assert row.stderr == pytest.approx(other.stderr)


def test_a_plan_is_a_table_a_document_and_a_picture(tmp_path: Path) -> None:
    study = STUDIES["two"]()
    plan = study.expected_error(1_000, ["a=2..3", {"b": (1, 2)}], level=0.9)
    text = str(plan)
    assert "90% interval" in text
    assert "b=1..2" in text
    document = json.loads(json.dumps(plan.to_dict()))
    assert document["people"] == 1_000
    row = document["rows"][-1]
    assert row["reach"] == pytest.approx(1.6448536 * row["stderr"])
    drawn = plan.plot()
    bars = drawn.axes[0].containers[0]
    shares = [r.share for r in plan if r.share is not None]
    assert [bar.get_width() for bar in bars] == pytest.approx(shares)
    for name in ("plan.png", "plan.html"):
        plan.save_plot(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1_000
    with pytest.raises(sf.StudyError, match="must end in"):
        plan.save_plot(tmp_path / "plan.doc")
