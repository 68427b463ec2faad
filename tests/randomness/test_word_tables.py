"""Samplers over tables: the law is exactly that of the table."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
import pytest
from helpers_channels import Stream, all_words, planes
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sfumato.arrays import BitColumns
from sfumato.randomness.bits import BitSource, SeededBits
from sfumato.randomness.tables import FlipTable, WordTable, leading


def test_leading_bits() -> None:
    words = np.array([0, 1 << 63, (1 << 64) - 1, 5], dtype=np.uint64)
    assert leading(words, 64).tolist() == words.tolist()
    assert leading(words, 1).tolist() == [0, 1, 1, 0]
    assert leading(words, 3).tolist() == [0, 4, 7, 0]


@given(
    st.integers(1, 18).flatmap(
        lambda k: st.tuples(st.just(k), st.lists(st.integers(0, 1 << k), min_size=0, max_size=12))
    )
)
def test_word_table_over_all_words(drawn: tuple[int, list[int]]) -> None:
    """Any weights, zeros among them, at precisions below and above the guide's 16 bits."""
    precision, cuts = drawn
    edges = [0, *sorted(cuts), 1 << precision]
    weights = [b - a for a, b in pairwise(edges)]
    table = WordTable(weights, precision)
    found = table.draw(Stream(all_words(precision, junk=-1)), 1 << precision)
    assert np.bincount(found, minlength=len(weights)).tolist() == weights


@pytest.mark.parametrize("impossible", [0, 1, 3])
def test_word_table_of_full_precision_at_every_bound(impossible: int) -> None:
    """Also where the last outcomes never come, and their bounds do not fit a word."""
    weights = [1, 0, 2**62, 3, 2**63 - 2**62, 0, 1, 0]
    weights.append(2**64 - sum(weights))
    weights += [0] * impossible
    table = WordTable(weights, 64)
    bounds = list(accumulate(weights))
    words = sorted({w % 2**64 for bound in bounds for w in (bound - 1, bound, bound + 1)})
    found = table.draw(Stream(np.array(words, dtype=np.uint64)), len(words))
    assert found.tolist() == [bisect_right(bounds, word) for word in words]


def test_word_table_of_a_certain_outcome() -> None:
    for weights in ([2**64], [0, 2**64, 0]):
        found = WordTable(weights, 64).draw(SeededBits(1), 100)
        assert set(found.tolist()) == {weights.index(2**64)}


@pytest.mark.parametrize("weights", [[1, 2], [4, 1], []])
def test_word_table_must_use_all_words(weights: list[int]) -> None:
    with pytest.raises(ValueError, match="must sum"):
        WordTable(weights, 2)


# Tables of flips


@pytest.mark.parametrize(
    ("precision", "chances"),
    [
        (3, [5]),
        (4, [0, 16, 3]),
        (4, [7, 7, 7]),
        (5, [1, 31, 32]),
        (7, [100, 3]),
        (8, [77, 77]),
        (8, [255, 1]),
        (1, [0, 1, 2]),
    ],
)
def test_flip_table_over_all_planes(precision: int, chances: list[int]) -> None:
    """Lane i's digits spell i, so every combination of all rows' numbers comes up once."""
    columns = len(chances)
    total = 1 << (precision * columns)
    width = max(total // 64, 1)
    table = FlipTable(chances, precision)
    source = Stream(*planes(columns, precision))
    flips = BitColumns(table.draw(source, slice(0, columns), width), total).to_matrix()
    assert len(source.left) == 0
    assert flips.sum(axis=0).tolist() == [
        chance << (precision * (columns - 1)) for chance in chances
    ]
    # Independent: the number of lanes in which all rows flip is the product.
    assert flips.all(axis=1).sum() == np.prod(chances)


def reference_flips(
    bits: BitSource, chances: Sequence[int], precision: int, width: int
) -> NDArray[np.uint64]:
    """The same comparison lane by lane in plain Python, reading the same words.

    Until the eighth digit all words are read; then only those with an unsettled lane.
    """
    words = [(row, at) for row in range(len(chances)) for at in range(width)]
    flips = dict.fromkeys(words, 0)
    unsettled = {word: set(range(64)) for word in words}
    for row, at in words:
        if chances[row] == 1 << precision:
            flips[row, at], unsettled[row, at] = (1 << 64) - 1, set()
    asked = words
    for place in range(precision):
        planes_read = bits.words(len(asked))
        for (row, at), plane in zip(asked, planes_read.tolist(), strict=True):
            digit = (chances[row] >> (precision - 1 - place)) & 1
            for lane in list(unsettled[row, at]):
                drawn = (plane >> lane) & 1
                if drawn != digit:
                    unsettled[row, at].discard(lane)
                    flips[row, at] |= int(drawn < digit) << lane
        if place + 1 >= 8:
            asked = [word for word in asked if unsettled[word]]
            if not asked:
                break
    return np.array([flips[word] for word in words], dtype=np.uint64).reshape(len(chances), width)


class Counting:
    """A source that remembers how many words were asked for in each call."""

    secure = False

    def __init__(self, inner: BitSource) -> None:
        self.inner, self.calls = inner, list[int]()

    def words(self, count: int) -> NDArray[np.uint64]:
        self.calls.append(count)
        return self.inner.words(count)


CHANCES = {
    "the same": [2**63 // 3] * 4,
    "all different": [1, 2**63 - 1, 2**62, 2**64 // 5, 2**64 - 1],
    "certain and never": [2**64, 0, 2**63, 12345],
    "ends in ones": [2**20 - 1, (2**20 - 1) << 44],
}


@pytest.mark.parametrize("name", CHANCES)
@pytest.mark.parametrize("width", [1, 3, 40])
def test_flips_are_those_of_a_plain_reading_of_the_same_words(name: str, width: int) -> None:
    chances = CHANCES[name]
    ours, theirs = Counting(SeededBits(width)), Counting(SeededBits(width))
    drawn = FlipTable(chances, 64).draw(ours, slice(0, len(chances)), width)
    assert np.array_equal(drawn, reference_flips(theirs, chances, 64, width))
    assert ours.calls == theirs.calls
    if width == 40:
        assert len(ours.calls) > 8
        assert ours.calls[-1] < ours.calls[0], "settled words have dropped out"


class Stubborn:
    """Planes that agree with a chance to its last digit in one lane of every word."""

    secure = False

    def __init__(self, chance: int, last: int) -> None:
        self.digits = [(chance >> (63 - j)) & 1 for j in range(63)] + [last]
        self.noise = SeededBits(11)

    def words(self, count: int) -> NDArray[np.uint64]:
        digit = self.digits.pop(0)
        free = self.noise.words(count) & np.uint64((1 << 64) - 2)
        return free | np.uint64(digit)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("chance", [2**63 - 1, 2**64 // 5 | 1, 12345])
def test_the_sixty_fourth_digit_decides_where_all_others_agree(chance: int, last: int) -> None:
    """A lane whose number is the chance itself must not flip; one below it must."""
    drawn = FlipTable([chance, chance], 64).draw(Stubborn(chance, last), slice(0, 2), 3)
    assert (drawn & np.uint64(1)).tolist() == [[int(last < (chance & 1))] * 3] * 2


def test_rows_of_a_flip_table_are_its_own() -> None:
    chances = CHANCES["all different"]
    table = FlipTable(chances, 64)
    part = table.draw(SeededBits(9), slice(2, 4), 5)
    assert np.array_equal(part, reference_flips(SeededBits(9), chances[2:4], 64, 5))
