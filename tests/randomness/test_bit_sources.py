"""Sources of bits: they never repeat by accident."""

from __future__ import annotations

import copy
import hashlib
import multiprocessing
import os
import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import StudyError
from sfumato.randomness.bits import BitSource, SecureBits, SeededBits


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


def test_a_seeded_stream_is_aes_in_counter_mode() -> None:
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


THREADS, CALLS, EACH = 8, 12, 20_000  # more words per call than a block of the keystream


def drawn_by_threads(source: BitSource) -> list[np.ndarray]:
    """What several threads draw from one source, call by call."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(source.words, [EACH] * (THREADS * CALLS)))


def repeats(drawn: list[np.ndarray]) -> bool:
    """Whether a word was given out twice; 2 million fair ones are all distinct but for 1e-7."""
    words = np.sort(np.concatenate(drawn))
    return bool(np.any(words[1:] == words[:-1]))


def test_threads_that_share_a_secure_source_never_get_the_same_word() -> None:
    assert not repeats(drawn_by_threads(SecureBits()))


def test_threads_that_share_a_seeded_source_share_its_stream() -> None:
    """Every call gets a piece of the one stream, and together they get all of it."""
    drawn = drawn_by_threads(SeededBits(5))
    stream = SeededBits(5).words(THREADS * CALLS * EACH).reshape(-1, EACH)
    assert {part.tobytes() for part in drawn} == {part.tobytes() for part in stream}


def test_a_source_that_threads_can_confuse_is_found() -> None:
    """The twin: a position read and moved on in two steps."""

    class Unlocked:
        secure = False
        stream = SeededBits(5).words(THREADS * CALLS * EACH)
        position = 0

        def words(self, count: int) -> np.ndarray:
            start = self.position
            time.sleep(1e-4)
            self.position = start + count
            return self.stream[start : start + count]

    assert repeats(drawn_by_threads(Unlocked()))
