"""Linear counting with fresh seeds: samplers, central answers, exact privacy, and devices.

Every comparison with a law fails by accident with a chance below 1e-7, some 5.3 standard errors of
a normal figure, and there are fewer than 300: a soak in 30,000 raises a false alarm. Shares are
held against the exact binomial law, frequencies against χ² with hundreds expected in each class.
Each test says what its twin is: an error that the same comparison must see.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from helpers_central import (
    Counts,
    Law,
    flat,
    keeps,
    law_of,
    line,
    moves,
    tables,
    worst_log_ratio,
)
from helpers_statistics import collections
from numpy.typing import NDArray
from scipy import stats

import sfumato as sf
from sfumato import central
from sfumato.central.mechanism import margins_of
from sfumato.central.multiplicative_weights import PreparedMWEM
from sfumato.central.small_database import small_databases
from sfumato.exact import at_most_exp
from sfumato.questions.language import weights
from sfumato.randomness import laplace as sampling
from sfumato.randomness.bits import SeededBits
from sfumato.randomness.exponential import choose_by_exp, choose_by_scores

pytestmark = pytest.mark.soak

Floats = NDArray[np.float64]
Record = Callable[[str, Any], None]

CHANCE = 1e-7
LEAST = 200  # expected in each class of a χ² test


def fit(seen: Floats, law: Floats) -> float:
    """The chance of frequencies so far from their law, rare classes taken together."""
    count = float(seen.sum())
    order = np.argsort(law)
    expected = law[order] * count
    few = max(int((expected < LEAST).sum()), int((np.cumsum(expected) < LEAST).sum()) + 1)
    rare, rest = order[:few], order[few:]
    observed = np.append(seen[rest], seen[rare].sum())
    chances = np.append(law[rest], law[rare].sum())
    return float(stats.chisquare(observed, chances / chances.sum() * count).pvalue)


def too_few(hits: Any, runs: int, chance: float) -> bool:
    """Whether so few successes would be an accident of chance 1e-7."""
    return bool(np.min(stats.binom.cdf(hits, runs, chance)) < CHANCE)


def as_stated(hits: int, runs: int, chance: float) -> bool:
    """Whether successes are as many as their exact chance says."""
    tails = stats.binom.cdf(hits, runs, chance), stats.binom.sf(hits - 1, runs, chance)
    return bool(min(tails) > CHANCE / 2)


# ---- samplers ----------------------------------------------------------------------------------

RATES = ("2^-47", "2^-20", "1e-3", "1/7", "1/3", "1", "5/2", "6")


def laplace_below(z: Floats, rate: float) -> Floats:
    """P(noise ≤ z) of the discrete Laplace law, for whole z."""
    tail = np.exp(-rate * (np.where(z < 0, -z, z + 1))) / (1 + math.exp(-rate))
    return np.where(z < 0, tail, 1 - tail)


def laplace_classes(drawn: NDArray[np.int64], rate: float, actual: float) -> tuple[Floats, Floats]:
    """How often noise fell in some hundred classes, and how often it should at a rate."""
    part = np.arange(1, 100) / 100
    reach = np.floor(-np.log(2 * np.minimum(part, 1 - part)) / actual)
    ends = np.unique(np.where(part < 0.5, -reach - 1, reach))
    seen = np.bincount(np.searchsorted(ends, drawn, side="left"), minlength=len(ends) + 1)
    below = laplace_below(ends, rate)
    return seen.astype(float), np.diff(np.concatenate([[0.0], below, [1.0]]))


@pytest.mark.parametrize("text", RATES)
def test_noise_has_its_law(text: str, seed: int, record_property: Record) -> None:
    """The twin: a rate 2 % off, which is 28 standard errors of the scale of two million numbers."""
    rate = Fraction(1, 2 ** int(text[3:])) if "^" in text else Fraction(text)
    drawn = sampling.discrete_laplace(rate, 2_000_000, SeededBits(seed))
    chances = {
        factor: fit(*laplace_classes(drawn, factor * float(rate), float(rate)))
        for factor in (1.0, 0.98, 1.02)
    }
    record_property("chance", chances[1.0])
    assert chances[1.0] > CHANCE
    assert max(chances[0.98], chances[1.02]) < CHANCE
    # Where noise is wide, classes are too: the last digit by itself, and a fifth more as the twin.
    odd, chance = int((drawn & 1).sum()), 1 / (1 + math.cosh(float(rate)))
    assert as_stated(odd, len(drawn), chance)
    assert not as_stated(odd, len(drawn), 1.2 * chance)


CHOICES: dict[str, tuple[Fraction, ...]] = {
    "few": tuple(Fraction(k, 3) for k in (0, -9, -1, -22, 5)),
    "one against many": (Fraction(0), *[Fraction(-2)] * 8, *[Fraction(-4)] * 60),
    "far down": (Fraction(10**9), Fraction(10**9) - 5, *[Fraction(10**9) - 6] * 9, Fraction(0)),
}


@pytest.mark.parametrize("name", CHOICES)
def test_choices_have_their_law(name: str, seed: int, record_property: Record) -> None:
    """By weights and by scores; the twin: exponents 20 % off."""
    options, bits, runs = CHOICES[name], SeededBits(seed), 16_000
    scores = [int((3 * x).numerator) for x in options]
    ways: dict[str, Callable[[], int]] = {
        "weights": lambda: choose_by_exp(options, bits),
        "scores": lambda: choose_by_scores(scores, Fraction(1, 3), bits),
    }
    least = max(options)
    for way, choose in ways.items():
        drawn = np.bincount([choose() for _ in range(runs)], minlength=len(options)).astype(float)
        chances = {}
        for factor in (1.0, 0.8, 1.2):
            law = np.exp([factor * float(x - least) for x in options])
            chances[factor] = fit(drawn, law / law.sum())
        record_property(way, chances[1.0])
        assert chances[1.0] > CHANCE
        assert max(chances[0.8], chances[1.2]) < CHANCE


# ---- intervals of central answers --------------------------------------------------------------

NARROW = 0.7  # of a reach, the twin: of Laplace noise 5 % becomes 12.3 %, of normal noise 17 %


def held(prepared: Any, counts: Counts, truth: Floats, runs: int, seed: int) -> tuple[Any, Any]:
    """How many intervals of each question hold the truth, and how many of the twin's."""
    bits, full, narrow = SeededBits(seed), np.zeros(len(truth), int), np.zeros(len(truth), int)
    for _ in range(runs):
        answers = prepared.run(counts, bits).answers
        low, high = answers.uncut
        full += (low <= truth + 1e-9) & (truth - 1e-9 <= high)
        middle, reach = (low + high) / 2, (high - low) / 2
        narrow += np.abs(middle - truth) <= NARROW * reach
    return full, narrow


def surveyed(rng: np.random.Generator) -> tuple[sf.Study, Counts]:
    """Two axes with noise of some thirty people, and fresh people."""
    distance, uniform = (Fraction(int(k), 500) for k in rng.integers(20, 40, 2))
    axes = [
        sf.integers("age", 0, 5, protect=sf.Distance(distance)),
        sf.categories("mode", ["car", "bus", "bike"], protect=sf.Uniform(uniform)),
    ]
    return sf.Study("soak", axes), rng.multinomial(700, rng.dirichlet(np.ones(18)))


def test_single_questions_are_covered_exactly_as_often(seed: int, record_property: Record) -> None:
    """The chance is 1 − 2α^(h+1)/(1+α) for a reach of h people: neither more nor less often."""
    rng, runs = np.random.default_rng(seed), 8_000
    for question, level in (("age=2..", 0.95), ("age=1..3, mode=bus", 0.8), ("mode=car|bike", 0.5)):
        study, counts = surveyed(rng)
        mechanism = central.Laplace([question], "questions", level=level)
        prepared = mechanism.prepare(central.Space(study), 700)
        truth = prepared.asked.workload @ margins_of(
            counts, study.shape, prepared.asked.axes
        ).astype(float)
        full, narrow = held(prepared, counts, truth, runs, seed)
        rate = prepared.design.measurements.rates[0]
        alpha = math.exp(-float(rate or 0))
        chance = 1 - 2 * alpha ** (prepared.reach[0] + 1) / (1 + alpha)
        record_property(question, [full[0] / runs, chance])
        assert 1 - 2 * alpha ** prepared.reach[0] / (1 + alpha) < level <= chance  # no wider
        assert as_stated(int(full[0]), runs, chance)
        assert not as_stated(int(narrow[0]), runs, chance)


@pytest.mark.parametrize("strategy", ["identity", "prefix", "hierarchical", "haar", "best"])
def test_sums_through_strategies_are_covered(
    strategy: str, seed: int, record_property: Record
) -> None:
    """The twin: every question that has noise is missed too often at seven tenths."""
    rng, runs = np.random.default_rng(seed), 3_000
    study, counts = surveyed(rng)
    asked = ["ranges of age", "age=2.., mode=bus", "mode=car"]
    prepared = central.Laplace(asked, strategy).prepare(central.Space(study), 700)
    assert prepared.asked.axes == (0, 1)
    truth = prepared.asked.workload @ counts.astype(float)
    full, narrow = held(prepared, counts, truth, runs, seed)
    noisy = prepared.stderr > 0
    record_property("covered", [float(full[noisy].min()) / runs, float(full[noisy].max()) / runs])
    assert (full[~noisy] == runs).all()
    assert not too_few(full, runs, 0.95)
    assert all(too_few(hits, runs, 0.95) for hits in narrow[noisy])


def test_means_are_covered(seed: int, record_property: Record) -> None:
    rng, runs = np.random.default_rng(seed), 6_000
    study, counts = surveyed(rng)
    values = rng.uniform(0, 9, 6)
    functions = {"a": ("age", values.tolist()), "m": ("mode", lambda mode: mode == "car")}
    prepared = central.Means(functions).prepare(central.Space(study), 700)
    table = counts.reshape(6, 3)
    truth = np.array([table.sum(axis=1) @ values, table.sum(axis=0)[0]]) / 700
    full, narrow = held(prepared, counts, truth, runs, seed)
    record_property("covered", (full / runs).tolist())
    assert not too_few(full, runs, 0.95)
    assert all(too_few(hits, runs, 0.95) for hits in narrow)


def test_means_that_are_bent_are_covered_where_they_are_most_wrong(
    seed: int, record_property: Record
) -> None:
    """Few people, all where the bias is largest. The twin: the reach of the noise alone."""
    rng, runs, n = np.random.default_rng(seed), 6_000, 9
    study, _ = surveyed(rng)
    values = np.sort(rng.uniform(0, 9, 6))
    mechanism = central.Means({"a": ("age", values.tolist())}, bias="optimised")
    prepared = mechanism.prepare(central.Space(study), n)
    bent = np.asarray(prepared.parts[0].measurements.lattice.matrix())[0]
    counts = np.zeros((6, 3), dtype=np.int64)
    counts[int(np.argmax(bent - values)), 0] = n
    truth = float(counts.sum(axis=1) @ values) / n
    bias, bits, full, bare = float(prepared._off[1][0]), SeededBits(seed), 0, 0
    for _ in range(runs):
        off = abs(float(prepared.run(counts.reshape(-1), bits).answers.values[0]) - truth)
        full += off <= prepared.reach[0] + 1e-9
        bare += off <= prepared.reach[0] - bias
    record_property("covered", [full / runs, bare / runs])
    record_property("bias and reach", [bias, float(prepared.reach[0])])
    assert bias > 0
    assert not too_few(full, runs, 0.95)
    assert too_few(bare, runs, 0.95)


@pytest.mark.parametrize("variant", ["published", "replayed"])
def test_the_check_of_mwem_holds_as_often_as_it_says(
    variant: Any, seed: int, record_property: Record
) -> None:
    """For all questions at once; the twin: half the reach above the measurement."""
    rng, runs, level = np.random.default_rng(seed), 4_000, 0.9
    study, counts = surveyed(rng)
    mechanism = central.MWEM("prefixes of age", 2, variant=variant, check="1/5", level=level)
    prepared = mechanism.prepare(central.Space(study), 700)
    truth = prepared.asked.workload @ counts.reshape(6, 3).sum(axis=1).astype(float)
    bits, hits, narrow, shown = SeededBits(seed), 0, 0, 0
    for _ in range(runs):
        outcome = prepared.run(counts, bits)
        answers = outcome.answers
        off = float(np.abs(answers.values - truth).max())
        measured = outcome.details["largest error"]
        shown += bool(np.all((answers.low <= truth + 1e-9) & (truth - 1e-9 <= answers.high)))
        hits += off <= measured + prepared.check_reach() + 1e-9
        narrow += off <= measured + prepared.check_reach() / 2
    steps, rate = prepared.check_reach() / float(prepared.score_unit), float(prepared.check_rate)
    chance = 1 - math.exp(-rate * (steps + 1)) / (1 + math.exp(-rate))
    record_property("covered", [shown / runs, hits / runs, chance])
    assert as_stated(hits, runs, chance)
    assert shown >= hits
    assert not as_stated(narrow, runs, chance)


def test_small_databases_have_their_law_and_are_covered(seed: int, record_property: Record) -> None:
    """The twins: a rate 15 % off, and answers without their reach."""
    rng, runs, n = np.random.default_rng(seed), 16_000, 60
    counts = rng.multinomial(n, rng.dirichlet(np.ones(3)))
    prepared = central.SmallDB("cells of x", alpha=0.35, level=0.5).prepare(flat(3, "1/5"), n)
    everyone = small_databases(3, prepared.records)
    place = {tuple(table): number for number, table in enumerate(everyone.tolist())}
    seen, full, bare = np.zeros(len(everyone)), 0, 0
    bits = SeededBits(seed)
    for _ in range(runs):
        outcome = prepared.run(counts, bits)
        made = np.rint(np.asarray(outcome.synthetic) * prepared.records / n).astype(int)
        seen[place[tuple(made.tolist())]] += 1
        low, high = outcome.answers.low, outcome.answers.high
        full += bool(np.all((low <= counts + 1e-9) & (counts - 1e-9 <= high)))
        bare += bool(np.all(np.abs(outcome.answers.values - counts) < 1e-9))
    chances = {}
    for factor in (1.0, 0.85, 1.15):
        law = np.exp(-factor * float(prepared.step_rate) * prepared.errors(counts))
        chances[factor] = fit(seen, law / law.sum())
    record_property("covered", full / runs)
    record_property("chance", chances[1.0])
    assert chances[1.0] > CHANCE
    assert max(chances[0.85], chances[1.15]) < CHANCE
    assert not too_few(full, runs, 0.5)
    assert too_few(bare, runs, 0.5)


# ---- exact privacy over all tables of few people -----------------------------------------------


def fresh_space(rng: np.random.Generator, cells: int) -> central.Space:
    """Cells in a row or all alike, at a fresh distance."""
    make = line if rng.random() < 0.5 else flat
    return make(cells, Fraction(int(rng.integers(1, 60)), 20), Fraction(1, int(rng.integers(1, 4))))


def worst_of(laws: dict[tuple[int, ...], Law], space: central.Space) -> tuple[bool, float]:
    """Whether all tables keep their distances, and the largest part of one that is spent."""
    kept, worst = True, 0.0
    for table, law in laws.items():
        for i, j, moved in moves(np.array(table)):
            distance, other = space.exact(i, j), laws[tuple(moved.tolist())]
            assert distance is not None
            kept = kept and keeps(law, other, distance)
            worst = max(worst, worst_log_ratio(law, other) / float(distance))
    return kept, worst


def test_choices_keep_every_distance(seed: int, record_property: Record) -> None:
    """Five cells and five people: 126 tables, fresh scores. The twin: three times the rate."""
    rng, spent, caught = np.random.default_rng(seed), [], 0
    for _ in range(8):
        space = fresh_space(rng, 5)
        scores = rng.integers(-8, 9, (6, 5)) / 4
        prepared = central.Exponential(list("abcdef"), scores).prepare(space, 5)
        assert prepared.rate is not None
        found = {}
        for factor in (1, 3):
            rate = factor * prepared.rate * prepared.unit
            laws = {
                tuple(c.tolist()): law_of([rate * int(s) for s in prepared.scores(c)])
                for c in tables(5, 5)
            }
            found[factor] = worst_of(laws, space)
        assert found[1][0]
        spent.append(found[1][1])
        caught += not found[3][0]
    record_property("spent", [round(part, 3) for part in spent])
    assert max(spent) <= 1 + 1e-9
    assert caught >= 4


def test_small_databases_keep_every_distance(seed: int, record_property: Record) -> None:
    """Four cells and five people, 56 tables and 84 databases. The twin: six times the rate."""
    rng = np.random.default_rng(seed)
    space = fresh_space(rng, 4)
    questions = sf.questions.Given(rng.integers(0, 3, (4, 4)) + np.eye(4, dtype=int))
    prepared = central.SmallDB(questions, alpha=0.49).prepare(space, 5)
    assert prepared.records == 6
    found = {}
    for factor in (1, 6):
        laws = {
            tuple(c.tolist()): law_of(
                [-factor * prepared.step_rate * int(e) for e in prepared.errors(c)]
            )
            for c in tables(4, 5)
        }
        found[factor] = worst_of(laws, space)
    record_property("spent", found[1][1])
    assert found[1][0]
    assert found[1][1] <= 1 + 1e-9
    assert not found[6][0]


def within(odds: Fraction, x: Fraction) -> bool:
    """Whether odds are at most e^x, for x of either sign."""
    return at_most_exp(odds, x) if x >= 0 else not at_most_exp(1 / odds, -x)


def one_round_keeps(
    prepared: PreparedMWEM, space: central.Space, n: int, factor: int
) -> tuple[bool, float]:
    """Whether a whole release of one round keeps every distance: choice, measurement and check.

    What is learnt depends on the question and its noisy number alone, and is made anew for each;
    noise beyond both tables' answers changes the odds as it does just beyond them.
    """
    everyone = tables(prepared.lattice.shape[1], n)
    key = {tuple(c.tolist()): number for number, c in enumerate(everyone)}
    truths = [np.asarray(prepared.steps @ c, dtype=np.int64) for c in everyone]
    own = [prepared.lattice.totals(c).tolist() for c in everyone]
    start = prepared.rounded(prepared._table().current)
    laws = [
        law_of([factor * prepared.choice_rate * int(s) for s in prepared.scores(truth, start)])
        for truth in truths
    ]
    largest: dict[tuple[int, int], list[int]] = {}
    for question in range(len(prepared.lattice)):
        row, unit = prepared.lattice.row(question), prepared.lattice.units[question]
        rate, answers = prepared.measurement_rate(question), [o[question] for o in own]
        for noisy in range(min(answers) - 1, max(answers) + 2):
            table = prepared._table()
            table.learn(row * float(unit), float(noisy * unit), float(unit / rate))
            made = prepared.rounded(table.result())
            largest[question, noisy] = [int(prepared.scores(t, made).max()) for t in truths]
    kept, worst = True, 0.0
    for here, counts in enumerate(everyone):
        for i, j, moved in moves(counts):
            there, distance = key[tuple(moved.tolist())], space.exact(i, j)
            assert distance is not None
            for (question, noisy), most in largest.items():
                a, b = own[here][question], own[there][question]
                told = prepared.measurement_rate(question) * (abs(noisy - b) - abs(noisy - a))
                told += prepared.check_rate * abs(most[here] - most[there])
                odds = laws[here][question][1] / laws[there][question][0]
                kept = kept and within(odds, distance - factor * told)
                worst = max(worst, (math.log(odds) + factor * float(told)) / float(distance))
    return kept, worst


@pytest.mark.parametrize("variant", ["published", "replayed"])
def test_one_round_of_mwem_keeps_every_distance(
    variant: Any, seed: int, record_property: Record
) -> None:
    """Four cells and four people, 35 tables. The twin: twice the rates."""
    rng, spent = np.random.default_rng(seed), []
    for _ in range(2):
        space = fresh_space(rng, 4)
        rows = sf.questions.Given(rng.integers(0, 3, (3, 4)) + np.eye(3, 4, dtype=int))
        prepared = central.MWEM(rows, 1, variant=variant, check="1/5").prepare(space, 4)
        kept, worst = one_round_keeps(prepared, space, 4, 1)
        assert kept
        spent.append(worst)
        assert not one_round_keeps(prepared, space, 4, 2)[0]
    record_property("spent", [round(part, 3) for part in spent])
    assert max(spent) <= 1 + 1e-9


# ---- devices -----------------------------------------------------------------------------------


def covered(values: Floats, stderr: Floats, truth: Floats, scale: float = 1.0) -> Floats:
    """How many normal intervals of each question hold the truth."""
    reach = scale * sf.Answer(value=0.0, stderr=1.0, n=1).high
    return np.asarray((np.abs(values - truth) <= reach * stderr + 1e-9).sum(axis=0))


def normal_as_stated(hits: Sequence[int], runs: int, off: float) -> bool:
    """Whether shares are 95 % up to what a normal law may be off by."""
    return all(
        stats.binom.cdf(h, runs, 0.95 - off) > CHANCE
        and stats.binom.sf(h - 1, runs, 0.95 + off) > CHANCE
        for h in hits
    )


def flipped(strategy: Any) -> sf.Study:
    """An axis of places, whose bits are flipped."""
    at = {f"p{k}": (1.5 * (k % 3), 1.5 * (k // 3)) for k in range(6)}
    axis = sf.categories(
        "x", list(at), protect=sf.Points(1, at=at), channel=sf.MatrixResponse(strategy)
    )
    return sf.Study("soak", [axis])


@pytest.mark.parametrize("strategy", ["identity", "hierarchical", "searched"])
def test_matrix_responses_are_covered(strategy: str, seed: int, record_property: Record) -> None:
    """Errors are estimated from 1,024 people's bits, for which 0.5 % is allowed.

    The twin: errors 15 % smaller.
    """
    people, runs = 1_024, 4_000
    study, rng = flipped(strategy), np.random.default_rng(seed)
    places = rng.choice(6, people, p=rng.dirichlet(np.full(6, 3.0)))
    table = {"x": np.array([f"p{k}" for k in range(6)])[places]}
    names = (["p0"], ["p1", "p4"], ["p0", "p1", "p2"], ["p5"])
    asked = [weights(study.axes, {"x": some}) for some in names]
    shown, stderr = [], []
    for tally in collections(study, table, runs=runs, seed=seed):
        estimate = tally.estimate("unbiased")
        shown.append([estimate.value_of(one) for one in asked])
        stderr.append([math.sqrt(max(0.0, estimate.covariance_of(one, one))) for one in asked])
    counts = np.bincount(places, minlength=6)
    truth = np.array([float(np.asarray(one.weights[0]) @ counts) for one in asked])
    hits = covered(np.array(shown), np.array(stderr), truth)
    record_property("covered", (hits / runs).tolist())
    assert normal_as_stated(hits, runs, 0.005)
    narrow = covered(np.array(shown), np.array(stderr), truth, 0.85)
    assert not any(normal_as_stated([h], runs, 0.005) for h in narrow)
