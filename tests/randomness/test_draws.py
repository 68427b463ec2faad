"""Draws as data: their weights, boundaries and spelling, over all numbers of a few bits."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.randomness.draws import Below, Draw, Flips, Lane, Pick, PickRow, Remainder
from sfumato.randomness.tables import FlipTable, WordTable

BITS = 6
ALL = np.arange(1 << BITS, dtype=np.uint64)


class Given:
    """A source of these words, one request after the other."""

    secure = False

    def __init__(self, requests: list[np.ndarray]) -> None:
        self.requests = iter(requests)

    def words(self, count: int) -> np.ndarray:
        found = next(self.requests)
        assert len(found) == count
        return found.copy()


DRAWS: dict[str, Draw] = {
    "table": Pick([3, 0, 10, 51, 0], BITS),
    "runs": Pick([2, 7, 9], BITS, counts=[5, 0, 6]),
    "one outcome": Pick([64], BITS),
    "row": PickRow({2: Pick([3, 61], BITS)}, np.full(64, 2)),
    "below": Below(np.full(64, 17, dtype=np.uint64), BITS),
    "remainder": Remainder(7, BITS),
    "leading bits": Lane(4, BITS),
    "low bits": Lane(4, BITS, low=True),
}


@pytest.mark.parametrize("name", DRAWS)
def test_each_outcome_has_as_many_numbers_as_it_weighs(name: str) -> None:
    draw = DRAWS[name]
    found = np.bincount(draw.outcome(ALL), minlength=draw.outcomes)
    people = np.arange(64) % draw.outcomes
    assert draw.weights(people) == found[people].tolist()
    assert sum(found) == draw.total


@pytest.mark.parametrize("name", [name for name in DRAWS if name not in ("remainder", "low bits")])
def test_outcomes_begin_at_their_first_number(name: str) -> None:
    draw = DRAWS[name]
    made = draw.outcome(ALL)
    people = np.arange(64) % draw.outcomes
    for outcome, first in zip(people.tolist(), draw.first(people).tolist(), strict=True):
        if outcome in made:
            assert first == made.tolist().index(outcome)


def test_remainders_are_tried_at_both_ends() -> None:
    first = Remainder(7, BITS).first(np.array([3, 3, 0, 0]))
    assert first.tolist() == [3, 59, 0, 63]


def test_weights_of_all_words_are_one_outcome() -> None:
    whole = Pick([0, 1 << 64, 0], 64)
    ends = np.array([0, (1 << 64) - 1], dtype=np.uint64)
    assert whole.outcome(ends).tolist() == [1, 1]
    assert whole.first(np.array([1, 2])).tolist() == [0, 0]


def test_words_are_spelled_as_tables_read_them() -> None:
    weights = [3, 0, 10, 51]
    draw = Pick(weights, BITS)
    found = WordTable(weights, BITS).draw(Given(draw.spell(ALL)), 64)
    assert found.tolist() == draw.outcome(ALL).tolist()


def test_flips_are_spelled_as_samplers_read_them() -> None:
    """Two bits and two words: the last person of the full word keeps all its lanes open."""
    draw = Flips([5, 40], BITS)
    numbers = np.stack([np.arange(70) % 64, np.arange(70) * 11 % 64], axis=1).astype(np.uint64)
    numbers[63] = draw.chances
    table = FlipTable([5, 40], BITS)
    drawn = table.draw(Given(draw.spell(numbers)), slice(0, 2), 2)
    bits = np.unpackbits(drawn.astype("<u8").view(np.uint8), axis=1, bitorder="little")
    assert bits[:, :70].T.tolist() == draw.outcome(numbers).tolist()
    patterns = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    assert draw.weights(patterns) == [59 * 24, 5 * 24, 59 * 40, 5 * 40]
    assert sum(draw.weights(patterns)) == draw.total


def test_lanes_are_spelled_side_by_side() -> None:
    (words,) = Lane(8, 8).spell(np.arange(1, 11, dtype=np.uint64))
    assert words.view(np.uint8)[:10].tolist() == list(range(1, 11))
    (coins,) = Lane(1, 1).spell(np.array([1, 0, 1], dtype=np.uint64))
    assert coins.tolist() == [5]
