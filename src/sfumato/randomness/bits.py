"""Sources of random words: the operating system's secure generator, or a seed.

Whatever a device draws is decided by one K-bit random word against a table of integers. The table
is the law: guarantees are proved for it, and estimators read their probabilities from it.

A source may be shared by threads: no word is given out twice.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from itertools import chain, count
from typing import Protocol, runtime_checkable

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from sfumato.errors import StudyError, shown
from sfumato.exact import whole

Words = NDArray[np.uint64]

WORD_BITS = 64
_BLOCK = 1 << 17  # bytes of keystream per call: larger blocks fall out of the cache
_ZEROS = bytes(_BLOCK)
_FEW = 32


@runtime_checkable
class BitSource(Protocol):
    """Where random words come from; all sources are interchangeable."""

    secure: bool

    def words(self, count: int) -> Words:
        """The next `count` independent, uniform 64-bit words."""
        ...


def word_source(bits: BitSource | None) -> BitSource:
    """The source that was given; left out, the operating system's secure one.

    Raises:
        StudyError: If it is no source of random words.
    """
    if bits is None:
        return SecureBits()
    if not isinstance(bits, BitSource) or isinstance(bits, type):
        raise StudyError(
            "bits must be a source of random words, SecureBits() or SeededBits(seed), got "
            f"{type(bits).__name__}; leave it out for the secure one"
        )
    return bits


def words_of(source: BitSource) -> Callable[[], int]:
    """Words of a source one at a time; it is asked for a few at once, and none is given twice."""
    return chain.from_iterable(source.words(_FEW).tolist() for _ in count()).__next__


class _Keystream:
    """AES-256 in counter mode over zeros: uniform words at several gigabytes per second."""

    secure = False

    def __init__(self, key: bytes, nonce: bytes) -> None:
        self._cipher = Cipher(algorithms.AES(key), modes.CTR(nonce)).encryptor()
        self._lock = threading.Lock()  # a cipher refuses to be used by two threads at once

    def words(self, count: int) -> Words:
        """The next `count` words of the stream, the same on every platform."""
        out = np.empty(count, dtype="<u8")
        view = out.view(np.uint8).data
        with self._lock:
            for start in range(0, len(view), _BLOCK):
                part = view[start : start + _BLOCK]
                self._cipher.update_into(_ZEROS[: len(part)], part)
        return out.astype(np.uint64, copy=False)


class SecureBits(_Keystream):
    """Random words keyed from the operating system's secure generator: what devices use.

    A forked process would repeat its parent's stream, so a source refuses to work in any process
    but its own; `Study.encode` makes a fresh one for every call. Threads may share a source.

    Example:
        >>> len(SecureBits().words(3))
        3
    """

    secure = True

    def __init__(self) -> None:
        super().__init__(os.urandom(32), os.urandom(16))
        self._process = os.getpid()

    def words(self, count: int) -> Words:
        """The next `count` words, which nobody can predict."""
        if os.getpid() != self._process:
            raise StudyError(
                "this SecureBits belongs to another process and would repeat its noise; "
                "make a new SecureBits() in each process"
            )
        return super().words(count)

    def __reduce__(self) -> str:
        raise StudyError("SecureBits cannot be copied: a copy would repeat its noise; make another")


class SeededBits(_Keystream):
    """Repeatable random words for experiments; never for people's data.

    Threads that share a source take its words in the order in which they happen to ask. For results
    that can be repeated, give each thread a source with a seed of its own.

    Args:
        seed: Any integer; the same seed gives the same words everywhere.

    Example:
        >>> [int(word) >> 48 for word in SeededBits(7).words(2)]
        [63142, 35411]
    """

    def __init__(self, seed: int) -> None:
        number = whole(seed)
        if number is None:
            raise StudyError(f"seed must be an integer, got {type(seed).__name__}")
        if number.bit_length() > 1 << 10:
            raise StudyError(f"seed must have at most 1,024 bits, got {shown(seed)}")
        digest = hashlib.sha512(f"sfumato seeded bits {number}".encode()).digest()
        super().__init__(digest[:32], digest[32:48])
