"""Sources of bits that never repeat by accident, and samplers whose law is their table."""

from __future__ import annotations

import copy
import hashlib
import multiprocessing
import os
import pickle
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from helpers_channels import Stream, all_words, planes
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sfumato.bitcolumns import BitColumns
from sfumato.errors import StudyError
from sfumato.randomness.bits import BitSource, SecureBits, SeededBits
from sfumato.randomness.tables import FlipTable, WordTable, leading

# Sources


def exit_code_of_child(source: SecureBits) -> int:
    """What a forked child finds: 3 if refused with the remedy, 4 if it gets words."""
    # Only the child leaves by os._exit, so that nothing of the test session runs twice.
    child = os.fork()
    if child == 0:
        code = 5
        try:
            source.words(1)
            code = 4
        except StudyError as refusal:
            code = 3 if "make a new SecureBits()" in str(refusal) else 6
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes fork")
def test_secure_bits_refuse_to_work_in_a_forked_process() -> None:
    source = SecureBits()
    source.words(5)
    assert exit_code_of_child(source) == 3
    assert len(source.words(5)) == 5, "the parent goes on"


def _first_words(_: int) -> list[int]:
    return SecureBits().words(4).tolist()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes fork")
def test_processes_that_make_their_own_source_draw_different_words() -> None:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        drawn = [tuple(words) for words in pool.map(_first_words, range(6))]
    # Two of six equal by accident: 15 pairs at 2^-256 each.
    assert len(set(drawn)) == 6


@pytest.mark.parametrize("attempt", [pickle.dumps, copy.copy, copy.deepcopy])
def test_secure_bits_cannot_be_copied(attempt: object) -> None:
    assert callable(attempt)
    with pytest.raises(StudyError, match="a copy would repeat its noise"):
        attempt(SecureBits())


def test_secure_sources_differ_and_say_that_they_are_secure() -> None:
    one, other = SecureBits(), SecureBits()
    assert one.secure
    assert other.secure
    assert not SeededBits(1).secure
    assert isinstance(one, BitSource)
    assert isinstance(SeededBits(1), BitSource)
    # Equal by accident: 2^-256.
    assert one.words(4).tolist() != other.words(4).tolist()
    assert one.words(4).tolist() != one.words(4).tolist()


def test_seeded_streams_repeat_and_seeds_differ() -> None:
    assert SeededBits(7).words(100).tolist() == SeededBits(np.int64(7)).words(100).tolist()
    firsts = {int(SeededBits(seed).words(1)[0]) for seed in (*range(-50, 50), 10**30)}
    assert len(firsts) == 101


def test_a_seeded_stream_is_aes_of_a_counter_for_good() -> None:
    """Published numbers depend on these words: they must be the same in every version."""
    digest = hashlib.sha512(b"sfumato seeded bits 2024").digest()
    key, start = digest[:32], int.from_bytes(digest[32:48], "big")
    block = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    stream = b"".join(block.update((start + k).to_bytes(16, "big")) for k in range(3))
    words = SeededBits(2024).words(6)
    assert words.astype("<u8").tobytes() == stream
    assert words[:2].tolist() == [2879678658241165670, 877415259669364604]


@given(st.lists(st.integers(0, 40_000), max_size=6))
def test_streams_do_not_depend_on_how_draws_are_cut(cuts: list[int]) -> None:
    """A block of the keystream is 16,384 words, so that cuts fall inside and across blocks."""
    whole = SeededBits(3).words(sum(cuts))
    source = SeededBits(3)
    parts = [source.words(count) for count in cuts]
    assert np.array_equal(np.concatenate([np.zeros(0, dtype=np.uint64), *parts]), whole)
    assert all(part.dtype == np.uint64 for part in parts)


@pytest.mark.parametrize("seed", [True, 1.0, "7", None])
def test_seeds_are_integers(seed: object) -> None:
    with pytest.raises(StudyError, match="seed must be an integer"):
        SeededBits(seed)  # type: ignore[arg-type]


def test_words_are_whole_words() -> None:
    """Every bit is set half of the time: 64 counts of 2^20 fair coins, each within 6 sigma.

    Seeded, so it passes always or never; a fair source fails with chance 64 × 2e-9.
    """
    count = 1 << 20
    bits = np.unpackbits(SeededBits(1).words(count).view(np.uint8).reshape(count, 8), axis=1)
    assert np.all(np.abs(bits.sum(axis=0, dtype=np.int64) - count / 2) < 6 * (count / 4) ** 0.5)


def test_leading_bits() -> None:
    words = np.array([0, 1 << 63, (1 << 64) - 1, 5], dtype=np.uint64)
    assert leading(words, 64).tolist() == words.tolist()
    assert leading(words, 1).tolist() == [0, 1, 1, 0]
    assert leading(words, 3).tolist() == [0, 4, 7, 0]


# Tables of words


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
