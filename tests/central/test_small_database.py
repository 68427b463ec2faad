"""The small database mechanism: exactly private, with bounds that hold."""

from __future__ import annotations

import math
from fractions import Fraction

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
    table_distances,
    tables,
    worst_log_ratio,
)

import sfumato as sf
from sfumato.central import accuracy
from sfumato.central.multiplicative_weights import MWEM
from sfumato.central.small_database import PreparedSmallDB, SmallDB, small_databases
from sfumato.central.space import Space
from sfumato.errors import StudyError, TooLargeError
from sfumato.questions.lattice import Lattice
from sfumato.randomness.bits import SeededBits

SPACES = {
    "flat": flat(3, 1),
    "flat, a share": flat(3, 1, "1/3"),
    "line": line(3, 0.5),
    "strong": flat(3, 0.01),
    "weak": line(3, 4),
}


def database_law(prepared: PreparedSmallDB, counts: Counts) -> Law:
    return law_of([-prepared.step_rate * int(error) for error in prepared.errors(counts)])


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
    qif = pytest.importorskip("qif")
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


def test_intervals_are_not_cut_below_what_rounding_took_off() -> None:
    """Coefficients on no lattice are rounded; the truth may lie that far beyond."""
    rows = np.array([[1 / 3, np.sqrt(2) / 1e3, np.pi]])
    rows = np.vstack([rows, -rows])
    n = 10**9
    prepared = MWEM(sf.questions.Given(rows), 1, check="1/2").prepare(line(3, 50), n)
    held = prepared.lattice.matrix()
    beyond = n * np.abs(rows - held)[:, 2]  # of the largest and of the smallest coefficient
    assert beyond.min() > 100
    for cell in range(3):
        counts = np.zeros(3, dtype=np.int64)
        counts[cell] = n
        answers = prepared.run(counts, sf.SeededBits(5)).answers
        truth = n * rows[:, cell]
        assert (answers.low <= truth).all()
        assert (truth <= answers.high).all()


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
