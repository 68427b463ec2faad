"""MWEM: every step exactly private, the corrected update, honest intervals, and Theorem 8."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from helpers_central import Counts, flat, keeps, law_of, line, moves, tables, worst_log_ratio
from helpers_statistics import LIMIT, share_score
from numpy.typing import NDArray

import sfumato as sf
from benchmarks import census
from sfumato.central import accuracy
from sfumato.central import multiplicative_weights as file
from sfumato.central.multiplicative_weights import MWEM, PreparedMWEM
from sfumato.central.space import Space
from sfumato.errors import StudyError, TooLargeError
from sfumato.randomness.bits import SeededBits

Floats = NDArray[np.float64]


ROWS = sf.questions.Given([[1, 0, 0], [1, 1, 0], [0, 0.5, 0.25], [0, 0, 3]])


SPACES = {"flat": flat(3, 1), "line": line(3, 0.5, "1/3"), "weak": line(3, 4)}


def prepared_for(space: Space, n: int = 4, rounds: int = 2, **options: Any) -> PreparedMWEM:
    return MWEM(ROWS, rounds, **options).prepare(space, n)


class Tape:
    """Stands in for the samplers: writes down what is asked of them, and gives chosen outcomes."""

    def __init__(self, outcomes: list[int], noises: list[int]) -> None:
        self.outcomes, self.noises = outcomes, [*noises, 0]
        self.rates: list[tuple[str, Fraction]] = []
        self.scores: list[list[int]] = []

    def choose(self, scores: Any, unit: Fraction, bits: Any) -> int:
        self.rates.append(("choose", unit))
        self.scores.append(np.asarray(scores).tolist())
        return self.outcomes[len(self.scores) - 1]

    def noise(self, rate: Fraction, count: int, bits: Any) -> NDArray[np.int64]:
        assert count == 1
        self.rates.append(("noise", rate))
        return np.array([self.noises.pop(0)])


def by_hand(rows: Floats, n: int, learnt: list[tuple[int, float]]) -> Floats:
    """Algorithm 2 with the correction, in as few words as possible: the average over t < T."""
    y = np.full(rows.shape[1], n / rows.shape[1])
    total = np.zeros_like(y)
    size = np.abs(rows).max()
    for question, m in learnt:
        total += y
        q = rows[question] / size
        y = y * np.exp(q * (m / size - q @ y) / (2 * n))
        y *= n / y.sum()
    return np.asarray(total / len(learnt))


# Accuracy


def ages() -> tuple[Space, Counts, Any]:
    study = sf.Study("ages", [sf.integers("age", 0, 31, protect=sf.Distance(0.5))])
    rng = np.random.default_rng(7)
    people = np.clip(rng.normal(10, 4, 5_000), 0, 31).astype(int)
    return Space(study), np.bincount(people, minlength=32), "ranges of age"


@pytest.mark.parametrize("rounds", [2.5, "3", True, 0, 1001])
def test_rounds_are_whole(rounds: Any) -> None:
    with pytest.raises(StudyError, match="rounds must be a whole number from 1 to 1000"):
        MWEM("identity", rounds)


@pytest.mark.slow
@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())
@pytest.mark.parametrize("variant", ["published", "replayed"])
def test_every_step_keeps_its_share_of_every_distance(space: Space, variant: Any) -> None:
    """Choices by exact laws over all tables, measurements and the check by exact sensitivities."""
    prepared = prepared_for(space, variant=variant, check="1/5")
    assert 2 * prepared.rounds * prepared.share + prepared.check == 1
    rng = np.random.default_rng(1)
    made = [prepared.rounded(4 * rng.dirichlet(np.ones(3))) for _ in range(4)]
    made.append(prepared.rounded(np.full(3, 4 / 3)))
    worst = 0.0
    for counts in tables(3, 4):
        truth = np.asarray(prepared.steps @ counts)
        for i, j, moved in moves(counts):
            distance, other = space.exact(i, j), np.asarray(prepared.steps @ moved)
            assert distance is not None
            for synthetic in made:
                here, there = (prepared.scores(t, synthetic) for t in (truth, other))
                laws = [
                    law_of([prepared.choice_rate * int(score) for score in scores])
                    for scores in (here, there)
                ]
                assert keeps(*laws, prepared.share * distance)
                ratio = worst_log_ratio(*laws) / float(prepared.share * distance)
                worst = max(worst, ratio)
                change = abs(int(here.max()) - int(there.max()))
                assert prepared.check_rate * change <= prepared.check * distance
            for question in range(4):
                one = prepared.lattice.select([question])
                apart = abs(int(one.totals(counts)[0]) - int(one.totals(moved)[0]))
                rate = prepared.measurement_rate(question)
                assert rate * apart <= prepared.share * distance
    assert worst > 0.3


def test_questions_spend_all_that_they_may() -> None:
    """For the question with the largest c, and in the replayed variant for all of them."""
    space = line(3, "1/2")
    for variant in ("published", "replayed"):
        prepared = prepared_for(space, variant=variant, check="1/5")
        assert prepared.rate == Fraction(1, 6)  # the last question steps by 3 between neighbours
        tight = []
        for question in range(4):
            row = np.asarray(prepared.lattice.row(question))
            rate = prepared.measurement_rate(question)
            tight.append(max(rate * abs(int(step)) for step in np.diff(row)) * 2)
        share = prepared.share
        assert tight[3] == share
        assert all(t == share for t in tight) == (variant == "replayed")


@pytest.mark.parametrize("variant", ["published", "replayed"])
def test_nothing_but_the_draws_depends_on_the_table(
    variant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tables whose choices and noisy numbers come out alike give the same release."""
    prepared = prepared_for(flat(3, 1), n=6, rounds=3, variant=variant, check="1/5")
    questions, noisy = [3, 0, 2], [11, -4, 7]
    outcomes = []
    for counts in (np.array([6, 0, 0]), np.array([1, 2, 3])):
        exact = [int(prepared.lattice.select([q]).totals(counts)[0]) for q in questions]
        noises = [goal - true for goal, true in zip(noisy, exact, strict=True)]
        tape = Tape(questions, noises)
        monkeypatch.setattr(file, "choose_by_scores", tape.choose)
        monkeypatch.setattr(file, "discrete_laplace", tape.noise)
        outcome = prepared.run(counts, SeededBits(1))
        expected = [
            (kind, rate)
            for q in questions
            for kind, rate in (
                ("choose", prepared.choice_rate),
                ("noise", prepared.measurement_rate(q)),
            )
        ]
        assert tape.rates == [*expected, ("noise", prepared.check_rate)]
        outcomes.append((outcome, tape))
    first, second = outcomes
    assert np.array_equal(first[0].synthetic, second[0].synthetic)  # type: ignore[arg-type]
    assert np.array_equal(first[0].answers.values, second[0].answers.values)
    assert first[0].details["measurements"] == second[0].details["measurements"]
    assert first[1].scores != second[1].scores


@pytest.mark.parametrize("epsilon", ["1/10", "1", "10"])
def test_the_update_is_the_corrected_one_and_does_not_depend_on_c(epsilon: str) -> None:
    prepared = prepared_for(flat(3, epsilon), n=50, rounds=6)
    outcome = prepared.run(np.array([30, 15, 5]), SeededBits(3))
    labels = list(ROWS.labels)
    learnt = [
        (labels.index(name), value)
        for name, value in zip(
            outcome.details["measured"], outcome.details["measurements"], strict=True
        )
    ]
    made = by_hand(ROWS.dense(), 50, learnt)
    assert outcome.synthetic is not None
    assert outcome.synthetic == pytest.approx(made, abs=2.0**-12)
    assert outcome.answers.values == pytest.approx(ROWS.dense() @ outcome.synthetic)
    # The published step, which forgets c, would be another one.
    c = float(1 / prepared.rate)
    if c != 1:
        wrong = by_hand(ROWS.dense() / c, 50, learnt)
        assert np.abs(wrong - made).max() > 0.1


def test_errors_stay_below_theorem_8_and_replaying_helps() -> None:
    space, counts, asked = ages()
    n = int(counts.sum())
    truth = space.workload(asked) @ counts
    errors: dict[str, list[float]] = {"published": [], "replayed": []}
    for variant, found in errors.items():
        prepared = MWEM(asked, 10, variant=variant, check="1/10").prepare(space, n)  # type: ignore[arg-type]
        bound = accuracy.multiplicative_weights_error(n, 32, len(truth), 10, 2 / 0.9)
        assert prepared.theorem < 1.1 * bound
        for seed in range(8):
            outcome = prepared.run(counts, SeededBits(seed))
            found.append(float(np.abs(outcome.answers.values - truth).max()))
            assert found[-1] <= min(bound, prepared.theorem)
    assert max(errors["replayed"]) < min(errors["published"]) / 2


@pytest.mark.slow
def test_the_check_makes_an_honest_interval() -> None:
    """It holds for all questions at once as often as it says, and no less often than that."""
    space, counts, _ = ages()
    asked = "prefixes of age"
    truth = space.workload(asked) @ counts
    level, runs = 0.8, 400
    mechanism = MWEM(asked, 2, variant="replayed", check="1/10", level=level)
    prepared = mechanism.prepare(space, int(counts.sum()))
    bits, held, tighter = SeededBits(5), 0, 0
    for _ in range(runs):
        outcome = prepared.run(counts, bits)
        off = float(np.abs(outcome.answers.values - truth).max())
        measured = outcome.details["largest error"]
        held += off <= max(0.0, measured + prepared.check_reach()) + 1e-9
        tighter += off <= max(0.0, measured)
        if off <= measured + prepared.check_reach():
            assert np.all(outcome.answers.low <= truth + 1e-9)
            assert np.all(truth <= outcome.answers.high + 1e-9)
    assert abs(share_score(held, runs, level)) <= LIMIT
    assert share_score(tighter, runs, level) < -LIMIT  # without its reach it would not hold
    assert prepared.check_reach() < prepared.theorem / 10


def test_the_reach_of_the_check_is_the_exact_one_sided_quantile() -> None:
    prepared = MWEM(ROWS, 2, check="1/4").prepare(flat(3, 1), 5)
    steps = prepared.check_reach() / float(prepared.score_unit)
    assert steps == pytest.approx(round(steps))
    alpha = math.exp(-float(prepared.check_rate))
    missed = [alpha ** (h + 1) / (1 + alpha) for h in (round(steps), round(steps) - 1)]
    assert missed[0] <= 0.05 * (1 + 1e-9) < missed[1] * (1 + 1e-6)


def test_theorem_8_for_any_chance_includes_the_published_one() -> None:
    n, cells, questions, rounds, c = 10**5, 50, 400, 8, 3.0
    published = accuracy.multiplicative_weights_error(n, cells, questions, rounds, c)
    chance = accuracy.multiplicative_weights_chance(questions, rounds)
    assert chance == 1 - 16 / 400
    same = accuracy.multiplicative_weights_error(
        n, cells, questions, rounds, c, beta=2 * rounds / questions
    )
    assert same == pytest.approx(published)
    best = accuracy.multiplicative_weights_rounds(n, cells, questions, c)
    at_best = accuracy.multiplicative_weights_error(n, cells, questions, best, c)
    corollary = 20 / 5 ** (2 / 3) * (n**2 * math.log(cells) * math.log(questions) * c) ** (1 / 3)
    assert at_best == pytest.approx(corollary, rel=0.01)


def test_rounds_left_out_are_those_of_the_theorem() -> None:
    space, counts, asked = ages()
    prepared = MWEM(asked).prepare(space, int(counts.sum()))
    questions = space.workload(asked).shape[0]
    found = accuracy.multiplicative_weights_rounds(5_000, 32, questions, 2.0)
    assert prepared.rounds == min(found, questions)
    assert prepared.expected().simultaneous
    assert np.all(prepared.expected().reach <= 5_000)


def test_answers_without_a_check_carry_the_theorem() -> None:
    space, counts, asked = ages()
    n = int(counts.sum())
    prepared = MWEM(asked, 3).prepare(space, n)
    outcome = prepared.run(counts, SeededBits(1))
    assert outcome.details["largest error"] is None
    assert np.isnan(outcome.answers.stderr).all()
    truth = space.workload(asked) @ counts
    assert np.all((outcome.answers.low <= truth) & (truth <= outcome.answers.high))
    assert outcome.answers.low.min() >= 0
    assert outcome.answers.high.max() <= n
    assert "all questions at once" in outcome.answers.notes[-1]


def test_other_axes_cost_nothing() -> None:
    study = sf.Study(
        "two",
        [
            sf.integers("a", 0, 7, protect=sf.Distance(1)),
            sf.categories("b", ["u", "v"], protect=sf.Uniform(1)),
        ],
    )
    prepared = MWEM("prefixes of a", 2).prepare(Space(study), 16)
    assert prepared.margins == ((0,),)
    counts = np.ones((8, 2), dtype=np.int64)
    both = prepared.run(counts.reshape(-1), SeededBits(1))
    one = prepared.run_margins([counts.sum(axis=1)], SeededBits(1))
    assert np.array_equal(both.answers.values, one.answers.values)
    assert both.details["axes"] == [0]


def test_the_grid_gives_way_to_many_people_and_then_work_is_refused() -> None:
    space = flat(3, 1)
    assert MWEM(ROWS, 1).prepare(space, 10).bits == 12
    fewer = MWEM(ROWS, 1).prepare(space, 2**53).bits
    assert 0 <= fewer < 12
    assert 2 * 12 * 2**53 << fewer < 2**62
    with pytest.raises(TooLargeError, match="64 bits"):
        MWEM(ROWS, 1).prepare(space, 2**60)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MWEM(ROWS, 0), "rounds=0"),
        (lambda: MWEM(ROWS, 5000), "rounds=5000"),
        (lambda: MWEM(ROWS, 2, variant="best"), "variant='best'"),  # type: ignore[arg-type]
        (lambda: MWEM(ROWS, 2, check=1), "check=1"),
        (lambda: MWEM(ROWS, 2, check="-1/10"), "check=-1/10"),
        (lambda: MWEM(ROWS, 2, variant="replayed"), "needs check"),
        (lambda: MWEM(sf.questions.Total(3), 2).prepare(flat(3, 1), 4), "central.Laplace"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, words: str) -> None:
    with pytest.raises(StudyError, match=words):
        make()


def test_axes_on_which_nothing_is_spent_may_not_be_asked_about() -> None:
    study = sf.Study(
        "two",
        [
            sf.integers("a", 0, 3, protect=sf.Distance(1)),
            sf.categories("b", ["u", "v"], protect=sf.Uniform(1)),
        ],
    )
    space = Space(study, {"a": sf.Distance(1)})
    assert MWEM("cells of a", 2).prepare(space, 4).rate == 1
    with pytest.raises(StudyError, match="spends nothing"):
        MWEM(["a=0", "b=u"], 2).prepare(space, 4)


def test_descriptions_say_what_was_done() -> None:
    assert MWEM("cells of x", 3).describe() == "MWEM (published) for 'cells of x', 3 rounds"
    text = MWEM("cells of x", variant="replayed", check="1/8").describe()
    assert text == "MWEM (replayed) for 'cells of x', 1/8 of it to check"
    assert dataclasses.is_dataclass(MWEM)


@pytest.mark.slow
def test_the_census_comparison_runs_in_small() -> None:
    """The code of benchmarks/census.py on made-up people; its figures are in results/soak."""
    rng = np.random.default_rng(1)
    table = {
        "age": rng.integers(17, 91, 2_000),
        "hours": np.clip(rng.normal(40, 9, 2_000), 1, 99).astype(int),
        "sex": rng.choice(["Female", "Male"], 2_000),
    }
    asked = census.questions(20, seed=1)
    assert len(set(asked)) == 20
    assert asked == census.questions(30, seed=1)[:20]
    record = census.compare(sf.central.Data(census.study(), table), asked, "1", runs=3)
    for row in record["mechanisms"]:
        assert row["largest error"] <= row["worst run"] <= row.get("published bound", 2_000)
    found = record["ratios to laplace"]["mwem, replayed"]
    assert found["low"] < found["ratio"] < found["high"]
