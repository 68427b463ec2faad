"""Choices and small databases: exact privacy over all tables, and accuracy beside the theorems."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest
from helpers_central import (
    Counts,
    Law,
    flat,
    keeps,
    law_of,
    line,
    moves,
    table_distances,
    tables,
    worst_log_ratio,
)
from helpers_statistics import LIMIT, share_score
from scipy import sparse

import sfumato as sf
from sfumato.central.data import Data
from sfumato.central.exponential import (
    Exponential,
    PreparedExponential,
    alone,
    common_steps,
    least_rate,
)
from sfumato.central.space import Space
from sfumato.errors import QuestionError, StudyError, TooLargeError
from sfumato.metrics.edges import Edges
from sfumato.questions.lattice import Lattice
from sfumato.randomness.bits import SeededBits

SCORES = np.array([[1, 0, 0], [0, 1, 0], [2, -1, 3], [0, 0.5, 0.25]])


SPACES = {
    "flat": flat(3, 1),
    "flat, a share": flat(3, 1, "1/3"),
    "line": line(3, 0.5),
    "strong": flat(3, 0.01),
    "weak": line(3, 4),
}


def chosen_law(prepared: PreparedExponential, counts: Counts) -> Law:
    assert prepared.rate is not None
    scores = prepared.scores(counts)
    if isinstance(scores, list):
        return law_of([prepared.rate * score for score in scores])
    return law_of([prepared.rate * prepared.unit * int(score) for score in scores])


# The exponential mechanism


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())
@pytest.mark.parametrize("kind", ["linear", "function"])
def test_choices_keep_every_distance(space: Space, kind: str) -> None:
    names = [f"r{k}" for k in range(len(SCORES))]
    if kind == "linear":
        mechanism = Exponential(names, SCORES)
    else:
        mechanism = Exponential(
            names,
            lambda counts: (SCORES @ counts).tolist(),
            sensitivity=lambda i, j: np.abs(SCORES[:, i] - SCORES[:, j]).max(),
        )
    prepared = mechanism.prepare(space, 4)
    everyone = tables(3, 4)
    laws = {tuple(counts): chosen_law(prepared, counts) for counts in everyone}
    worst = 0.0
    for counts in everyone:
        for i, j, moved in moves(counts):
            here, there = laws[tuple(counts)], laws[tuple(moved)]
            assert keeps(here, there, space.exact(i, j))
            distance = space.exact(i, j)
            assert distance is not None
            worst = max(worst, worst_log_ratio(here, there) / float(distance))
    # Some pair is told apart by a good part of what it may be; the next test has one that is by
    # nearly all of it.
    assert worst > 0.3
    # An independent library finds the same worst ratio in the channel matrix.
    matrix = np.array([[float(low) for low, _ in laws[tuple(c)]] for c in everyone])
    qif = pytest.importorskip("qif")
    metric = qif.metric.from_distance_matrix(table_distances(space, everyone))
    found = qif.measure.d_privacy.smallest_epsilon(matrix, metric)
    assert found == pytest.approx(worst, rel=1e-9)
    assert found <= 1


def test_choices_spend_all_that_they_may() -> None:
    space, n = flat(2, 3), 20
    prepared = Exponential(["a", "b"], ["x=c0", "x=c1"]).prepare(space, n)
    assert prepared.rate == Fraction(3, 2)
    laws = [chosen_law(prepared, np.array(counts)) for counts in ([20, 0], [19, 1])]
    assert keeps(*laws, Fraction(3))
    assert not keeps(*laws, Fraction(3) * (1 - Fraction(1, 10**12)))


def test_the_range_of_moves_counts_and_not_twice_the_largest() -> None:
    """Scores that only ever grow with a cell need half the noise of Theorem 3."""
    edges = flat(3, 1).edges
    rising = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    by_range = Exponential("abc", rising).prepare(flat(3, 1), 5).rate
    assert by_range == Fraction(1, 2)
    one_way = np.array([[0, 1, 1], [0, 0, 0]])
    assert Exponential("ab", one_way).prepare(flat(3, 1), 5).rate == 1
    assert alone(Lattice.of(one_way), edges)[0] == 1  # twice the largest move would give 1/2


def test_many_candidates_fall_back_to_twice_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    space = line(5, 0.5)
    scores = np.random.default_rng(2).integers(0, 9, (6, 5)) / 4
    exact = Exponential("abcdef", scores).prepare(space, 9)
    monkeypatch.setattr("sfumato.central.exponential._MOST_ENTRIES", 0)
    rough = Exponential("abcdef", scores).prepare(space, 9)
    assert exact.rate is not None
    assert rough.rate is not None
    assert exact.rate / 2 <= rough.rate <= exact.rate


@pytest.mark.slow
def test_what_is_chosen_follows_the_law_and_opendp_chooses_otherwise() -> None:
    """OpenDP's noisy max is permute-and-flip: it is at least as good, and not this mechanism."""
    prepared = Exponential(["a", "b"], ["x=c0", "x=c1"]).prepare(flat(2, 2), 3)
    assert prepared.rate == 1
    runs, bits, counts = 3_000, SeededBits(8), np.array([2, 1])
    ours = sum(prepared.run(counts, bits).details["chosen"] == "a" for _ in range(runs))
    e = math.e
    assert abs(share_score(ours, runs, e / (1 + e))) <= LIMIT  # 0.731
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int)
    theirs = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=1.0)
    flips = sum(theirs([2, 1]) == 0 for _ in range(runs))
    assert abs(share_score(flips, runs, 1 - 1 / (2 * e))) <= 5  # 0.816; secure draws have no seed
    assert abs(share_score(ours, runs, 1 - 1 / (2 * e))) > LIMIT


def test_the_answer_says_how_far_below_the_best_the_choice_may_be() -> None:
    prepared = Exponential(["a", "b", "c"], ["x=c0", "x=c1", "x=c2"]).prepare(flat(3, 1), 100)
    outcome = prepared.run(np.array([90, 10, 0]), SeededBits(1))
    assert outcome.details == {"chosen": "a", "number": 0, "rate": 0.5}
    assert outcome.synthetic is None
    reach = math.log(2 * 0.95 / 0.05) / 0.5
    assert outcome.answers.low[0] == 0
    assert outcome.answers.high[0] == pytest.approx(reach)
    assert prepared.expected().reach[0] == pytest.approx(reach)
    assert prepared.margins == ((0,),)


def test_scores_that_tell_only_infinitely_far_cells_apart_need_no_noise() -> None:
    blocks = sf.Blocks(1, blocks=[["p", "q"], ["r", "s"]])
    study = sf.Study("towns", [sf.categories("x", list("pqrs"), protect=blocks)])
    prepared = Exponential(["left", "right"], ["x=p|q", "x=r|s"]).prepare(Space(study), 9)
    assert prepared.rate is None
    assert prepared.shortfall == 0
    assert prepared.run(np.array([2, 2, 3, 2]), SeededBits(1)).details["chosen"] == "right"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Exponential([], []), "at least one candidate"),
        (lambda: Exponential(["a", "a"], ["x=c0", "x=c1"]), "different names"),
        (lambda: Exponential(["a"], lambda counts: [1]), "needs sensitivity"),
        (lambda: Exponential(["a"], ["x=c0"], sensitivity=1), "for a function only"),
        (lambda: Exponential(["a"], ["x=c0", "x=c1"]).prepare(flat(2, 1), 3), "each of 1 cand"),
        (
            lambda: Exponential(["a"], lambda c: [1], sensitivity=-1).prepare(flat(2, 1), 3),
            "sensitivity=-1",
        ),
        (
            lambda: (
                Exponential(["a"], lambda c: [1, 2], sensitivity=1)
                .prepare(flat(2, 1), 3)
                .run(np.array([1, 2]), SeededBits(1))
            ),
            "each of 1 candidates, got 2",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, words: str) -> None:
    with pytest.raises(StudyError, match=words):
        make()


def test_cells_at_distance_zero_must_have_equal_scores() -> None:
    edges = Edges([0, 1], [1, 2], [Fraction(0), Fraction(1)], 3)
    assert least_rate(edges, lambda i, j: (2 * i).tolist()) == Fraction(1, 2)
    with pytest.raises(StudyError, match="cell 0 and cell 1 are at distance 0"):
        least_rate(edges, lambda i, j: (j - i).tolist())
    with pytest.raises(StudyError, match="'b' and 'c' are at distance 0"):
        least_rate(edges, lambda i, j: (j - i).tolist(), cells=["b", "c", "d"])
    with pytest.raises(StudyError, match="distance 0"):
        alone(Lattice.of([[1, 0, 0]]), edges)
    assert alone(Lattice.of([[1, 1, 0]]), edges) == [1]


@pytest.mark.parametrize("seed", range(5))
def test_rates_alone_are_exact(seed: int) -> None:
    """Against all pairs in rationals, with lengths that doubles cannot tell apart."""
    rng = np.random.default_rng(seed)
    size = 6
    first, second = np.triu_indices(size, 1)
    lengths = [
        Fraction(int(n), 7) + Fraction(int(m), 10**19) for n, m in rng.integers(1, 4, (15, 2))
    ]
    edges = Edges(first, second, lengths, size)
    rows = rng.integers(-3, 4, (4, size))
    found = alone(Lattice.of(rows), edges)
    for row, rate in zip(rows.tolist(), found, strict=True):
        ratios = [
            length / abs(row[i] - row[j])
            for i, j, length in zip(first, second, lengths, strict=True)
            if row[i] != row[j]
        ]
        assert rate == (min(ratios) if ratios else None)


def test_rates_alone_see_groups_as_well() -> None:
    study = sf.Study(
        "grid",
        [
            sf.integers("a", 0, 3, protect=sf.Distance("1/3")),
            sf.categories("b", ["u", "v", "w"], protect=sf.Uniform("1/2")),
        ],
    )
    space = Space(study)
    lattice = Lattice.of(space.workload(["a=0..1", "b=u", "a=0..1, b=u|v"]))
    assert alone(lattice, space.edges) == [Fraction(1, 3), Fraction(1, 2), Fraction(1, 3)]


def test_questions_of_different_units_share_one() -> None:
    steps, unit = common_steps(Lattice.of([[0.5, 1, 0], [0, 3, 6], [0.2, 0, 0]]))
    assert unit == Fraction(1, 10)
    assert np.asarray(steps).tolist() == [[5, 10, 0], [0, 30, 60], [2, 0, 0]]
    far = Lattice(np.ones((2, 1), dtype=np.int64), (Fraction(1), Fraction(1, 2**50)), np.zeros(2))
    with pytest.raises(TooLargeError, match="no common unit"):
        common_steps(far)


def test_a_score_that_is_no_number_is_not_shown() -> None:
    choice = Exponential(["x", "y"], lambda counts: [0, f"{counts[0]} people"], sensitivity=1)
    with pytest.raises(StudyError, match="scores must be finite numbers") as caught:
        choice.prepare(flat(3, 1), 10).run(np.array([7, 2, 1]), sf.SeededBits(1))
    assert "7" not in str(caught.value)
    assert caught.value.__suppress_context__


class TestSumsFit:
    ROWS = np.array([[2.0**24 - 1, 0, 0], [0, 1e-6, 0], [0, 0, 0]])

    def test_scores_that_would_wrap_around_are_refused(self) -> None:
        """2^24 steps of a million parts for 4 million people are beyond 2^63."""
        choice = Exponential(["x", "y", "z"], self.ROWS)
        prepared = choice.prepare(flat(3, 1), 2**17)
        everyone = np.array([2**17, 0, 0])
        assert prepared.scores(everyone)[0] == (2**24 - 1) * 10**6 * 2**17
        with pytest.raises(TooLargeError, match="scores of 4,194,304 people do not fit"):
            choice.prepare(flat(3, 1), 2**22)

    @pytest.mark.parametrize(
        "counts",
        [
            [2**62, 2**62, 5],
            [2**62, 2**62, 2**63 - 1],
            np.array([2**63 + 5, 2, 5], dtype=np.uint64),
        ],
    )
    def test_more_people_than_can_be_summed_are_refused(self, counts: Any) -> None:
        with pytest.raises(TooLargeError, match=r"fewer than 2\^52 people"):
            Data.from_counts(flat(3, 1).schema, counts)

    def test_people_that_wrap_around_to_few_are_refused(self) -> None:
        with pytest.raises(TooLargeError, match=r"fewer than 2\^52 people"):
            Data.from_counts(flat(5, 1).schema, [2**62] * 4 + [7])


def test_a_stated_sensitivity_counts_in_both_directions() -> None:
    def one_way(i: int, j: int) -> int:
        return 3 if i > j else 1

    choice = Exponential(["x", "y"], lambda counts: [0, 1], sensitivity=one_way)
    assert choice.prepare(flat(3, 1), 10).rate == Fraction(1, 6)
    with pytest.raises(StudyError, match="sensitivity must be 0 or more, got sensitivity=-1"):
        Exponential(
            ["x", "y"], lambda counts: [0, 1], sensitivity=lambda i, j: 1 if i < j else -1
        ).prepare(flat(3, 1), 10)


def test_no_scores_are_refused() -> None:
    with pytest.raises(QuestionError, match="at least one question"):
        Exponential(["x", "y"], []).prepare(flat(3, 1), 10)


def test_scores_may_be_a_sparse_matrix() -> None:
    rows = [[1, 0, 0], [0, 1, 0]]
    made = [
        Exponential(["x", "y"], scores).prepare(flat(3, 1), 10)
        for scores in (rows, np.array(rows), sparse.csr_array(rows))
    ]
    assert {prepared.rate for prepared in made} == {Fraction(1, 2)}
