"""Choices and small databases: exact privacy over all tables, and accuracy beside the theorems."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest
import qif
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
from numpy.typing import NDArray

import sfumato as sf
from sfumato.central import accuracy
from sfumato.central.exponential import (
    Exponential,
    PreparedExponential,
    alone,
    common_steps,
    least_rate,
)
from sfumato.central.small_database import PreparedSmallDB, SmallDB, small_databases
from sfumato.central.space import Space
from sfumato.errors import StudyError, TooLargeError
from sfumato.metrics.edges import Edges
from sfumato.questions.lattice import Lattice
from sfumato.randomness.bits import SeededBits
from sfumato.randomness.laplace import discrete_laplace

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


def database_law(prepared: PreparedSmallDB, counts: Counts) -> Law:
    return law_of([-prepared.step_rate * int(error) for error in prepared.errors(counts)])


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


# Small databases


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())
def test_small_databases_keep_every_distance(space: Space) -> None:
    questions = Lattice.of([[1, 0, 0], [0, 1, 0], [1, 0.5, 0]]).matrix()
    prepared = SmallDB(sf.questions.Given(questions), alpha=0.7).prepare(space, 4)
    assert prepared.records == 3
    everyone = tables(3, 4)
    laws = {tuple(counts): database_law(prepared, counts) for counts in everyone}
    worst = 0.0
    for counts in everyone:
        for i, j, moved in moves(counts):
            distance = space.exact(i, j)
            assert keeps(laws[tuple(counts)], laws[tuple(moved)], distance)
            assert distance is not None
            ratio = worst_log_ratio(laws[tuple(counts)], laws[tuple(moved)])
            worst = max(worst, ratio / float(distance))
    assert 0.2 < worst <= 1
    matrix = np.array([[float(low) for low, _ in laws[tuple(c)]] for c in everyone])
    metric = qif.metric.from_distance_matrix(table_distances(space, everyone))
    found = qif.measure.d_privacy.smallest_epsilon(matrix, metric)
    assert found == pytest.approx(worst, rel=1e-9)


def test_a_rate_three_times_as_high_would_be_caught() -> None:
    """The twin: the same check refuses what is not private."""
    prepared = SmallDB("cells of x", alpha=0.7).prepare(flat(3, 1), 4)
    broken = [
        law_of([-3 * prepared.step_rate * int(error) for error in prepared.errors(counts)])
        for counts in (np.array([4, 0, 0]), np.array([3, 1, 0]))
    ]
    assert not keeps(*broken, Fraction(1))


def test_databases_are_scaled_before_they_are_compared() -> None:
    prepared = SmallDB("cells of x", alpha=0.7).prepare(flat(3, 1), 300)
    everyone = small_databases(3, prepared.records)
    counts = np.array([200, 100, 0])
    by_hand = [np.abs(counts - table * 300 / prepared.records).max() for table in everyone]
    found = prepared.errors(counts) / prepared.records
    assert found.tolist() == pytest.approx(by_hand)
    outcome = prepared.run(counts, SeededBits(4))
    assert outcome.synthetic is not None
    assert outcome.synthetic.sum() == pytest.approx(300)
    assert outcome.answers.values.tolist() == pytest.approx(outcome.synthetic.tolist())
    assert outcome.details["databases"] == math.comb(prepared.records + 2, 2)


def test_all_tables_are_listed_once() -> None:
    for cells, records in ((1, 5), (2, 3), (4, 3), (3, 0)):
        found = small_databases(cells, records)
        assert len({tuple(table) for table in found}) == len(found)
        assert len(found) == math.comb(cells + records - 1, records)
        assert (found.sum(axis=1) == records).all()
        assert (found >= 0).all()


def test_too_many_databases_are_refused_with_their_number() -> None:
    space = line(100, 1)
    with pytest.raises(TooLargeError, match=r"4,421,275 small databases of 4 records in 100") as no:
        SmallDB(["x=0..9", "x=0..4"], alpha=0.45).prepare(space, 10)
    assert "central.MWEM" in str(no.value)
    with pytest.raises(TooLargeError, match=r"about 10\^\d+ small databases"):
        SmallDB("ranges of x", alpha=0.1).prepare(space, 10)
    for alpha in (0, -1, 1.5, math.nan):
        with pytest.raises(StudyError, match=f"alpha={alpha}"):
            SmallDB("cells of x", alpha=alpha)


def test_questions_that_need_no_noise_get_the_best_database() -> None:
    blocks = sf.Blocks(1, blocks=[["p"], ["q"]])
    study = sf.Study("towns", [sf.categories("x", ["p", "q"], protect=blocks)])
    prepared = SmallDB("cells of x", alpha=0.5).prepare(Space(study), 30)
    outcome = prepared.run(np.array([10, 20]), SeededBits(1))
    assert outcome.answers.values.tolist() == pytest.approx([10, 20])
    assert prepared.rate is None


# Accuracy beside the theorems


def test_theorem_4_holds_and_its_sharp_form_is_attained() -> None:
    options, rate, delta = 20, 0.25, 0.1
    published = accuracy.exponential_shortfall(options, 1 / (2 * rate), delta=delta)
    sharp = accuracy.worst_shortfall(options, rate, delta=delta)
    assert sharp < published
    # All others exactly so far below: missed with chance delta, no more and no less.
    weights = np.exp(rate * np.append(0.0, np.full(options - 1, -sharp)))
    assert weights[1:].sum() / weights.sum() == pytest.approx(delta)
    rng = np.random.default_rng(1)
    for _ in range(50):
        scores = rng.normal(0, 1 / rate * rng.integers(1, 9), options)
        law = np.exp(rate * (scores - scores.max()))
        law /= law.sum()
        assert law[scores < scores.max() - sharp - 1e-9].sum() <= delta
    assert accuracy.worst_shortfall(1, rate, delta=delta) == 0
    # The gap between the scores meant and those used is lost, not won.
    assert accuracy.exponential_shortfall(
        5, 1, delta=0.1, misfit=2
    ) > accuracy.exponential_shortfall(5, 1, delta=0.1)


def test_small_database_bounds_hold_for_every_table() -> None:
    space, n, level = line(3, 2), 12, 0.9
    prepared = SmallDB("ranges of x", alpha=0.6, level=level).prepare(space, n)
    reach = prepared.expected().reach[0]
    published = accuracy.small_database_error(
        n, 3, 6, float(1 / (2 * prepared.rate or 1)), 0.6, beta=1 - level
    )
    assert reach < published
    for counts in tables(3, n):
        errors = prepared.errors(counts) * float(prepared.unit) / prepared.records
        law = np.array([float(low) for low, _ in database_law(prepared, counts)])
        assert errors.min() <= 0.6 * n  # Theorem 9
        assert law[errors > reach].sum() <= 1 - level


def test_theorem_6_is_proposition_1_at_its_best() -> None:
    n, cells, questions, c, beta = 10**7, 8, 50, 3.0, 0.05
    bound = accuracy.small_database_largest_error(n, cells, questions, c, beta=beta)
    alphas = np.geomspace(1e-4, 1, 400)
    best = min(
        accuracy.small_database_error(n, cells, questions, c, alpha, beta=beta) for alpha in alphas
    )
    assert best <= bound <= 2 * best


def simulated(scales: NDArray[np.float64], runs: int) -> NDArray[np.float64]:
    noise = [
        discrete_laplace(Fraction(1 / scale).limit_denominator(1000), runs, SeededBits(k))
        for k, scale in enumerate(scales.tolist())
    ]
    return np.array(noise, dtype=np.float64)


def test_theorems_2_and_11_bound_what_noise_does() -> None:
    scales, runs = np.array([5.0, 20.0, 40.0]), 20_000
    noise = simulated(scales, runs)
    squared = (noise**2).sum(axis=0)
    exact = 2 * float((scales**2).sum())
    assert abs(squared.mean() - exact) <= LIMIT * squared.std() / math.sqrt(runs)
    assert accuracy.laplace_squared_error(scales, 10) == pytest.approx(2 * exact)
    for p, norms in ((1, np.abs(noise).sum(axis=0)), (2, np.sqrt(squared))):
        slack = LIMIT * float(norms.std()) / math.sqrt(runs)
        assert norms.mean() <= accuracy.laplace_norm_error(scales, 10, p=p) + slack
    largest = np.abs(noise).max(axis=0)
    assert largest.mean() <= accuracy.laplace_norm_error(scales, 10, p=math.inf)
    bound = accuracy.laplace_largest_error(scales, 10, delta=0.05)
    assert float((largest > bound).mean()) <= 0.05
    # Not for nothing: half the bound fails.
    assert float((largest > bound / 2).mean()) > 0.05
    assert accuracy.mean_squared_error(scales, [0.5]) == accuracy.laplace_squared_error(
        scales, 1, [0.5]
    )
    assert accuracy.mean_norm_error(scales) == accuracy.laplace_norm_error(scales, 1)
    assert accuracy.mean_largest_error(scales, delta=0.1) == accuracy.laplace_largest_error(
        scales, 1, delta=0.1
    )
    assert accuracy.laplace_largest_error([1], 100, [0.5, -0.2], delta=0.05) == pytest.approx(
        50 + math.log(20)
    )
    with pytest.raises(StudyError, match="p=3"):
        accuracy.laplace_norm_error(scales, 1, p=3)
    with pytest.raises(StudyError, match="delta=0"):
        accuracy.laplace_largest_error(scales, 1, delta=0)
