"""Codes of bits with a rate each, and the text in which files hold them."""

from __future__ import annotations

import base64
import binascii
import json
import math
import zlib
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import StudyError

MOST_CELLS = 1024
MOST_BITS = 8192

_FORMAT = b"code1"
_MOST_HEAD = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """What every cell's bits are, and how far each may be told from its flip.

    Attributes:
        members: One row a bit, one column a cell: whether the bit is a one there.
        rates: The logarithm of each bit's odds; None for a bit that is sent as it is.
    """

    members: NDArray[np.bool_]
    rates: tuple[Fraction | None, ...]

    def spent(self, first: int, second: int) -> Fraction | None:
        """Σ of the rates of the bits that differ between two cells; None if it is infinite."""
        total = Fraction(0)
        for bit in np.flatnonzero(self.members[:, first] != self.members[:, second]).tolist():
            rate = self.rates[bit]
            if rate is None:
                return None
            total += rate
        return total


def code_to_text(code: Code) -> str:
    """Bits and rates as text for a file: rates as whole numbers over one denominator."""
    common = math.lcm(*(rate.denominator for rate in code.rates if rate is not None))
    whole = [-1 if rate is None else int(rate * common) for rate in code.rates]
    head = json.dumps([code.members.shape[1], common, whole], separators=(",", ":")).encode()
    body = _FORMAT + len(head).to_bytes(4, "little") + head + np.packbits(code.members).tobytes()
    return base64.b64encode(zlib.compress(body, 9)).decode("ascii")


def code_from_text(text: str) -> Code:
    """Read bits and rates back.

    Raises:
        StudyError: If the text is damaged.
    """
    damaged = StudyError("the table of a matrix response is damaged; make the study anew")
    start = len(_FORMAT) + 4
    try:
        reader = zlib.decompressobj()
        raw = base64.b64decode(text, validate=True)
        data = reader.decompress(raw, start + _MOST_HEAD + MOST_BITS * MOST_CELLS // 8)
        length = int.from_bytes(data[len(_FORMAT) : start], "little")
        cells, common, whole = json.loads(data[start : start + length])
        numbers = [cells, common, *whole]
        good = all(isinstance(n, int) and not isinstance(n, bool) for n in numbers)
    except (TypeError, ValueError, binascii.Error, zlib.error):
        raise damaged from None
    if not good or not reader.eof or data[: len(_FORMAT)] != _FORMAT or length > _MOST_HEAD:
        raise damaged
    size = len(whole) * cells
    packed = np.frombuffer(data, dtype=np.uint8, offset=start + length)
    fits = 2 <= cells <= MOST_CELLS and 1 <= len(whole) <= MOST_BITS and common > 0
    if not fits or min(whole) < -1 or 0 in whole or len(packed) != -(-size // 8):
        raise damaged
    members = np.unpackbits(packed, count=size).reshape(len(whole), cells).astype(np.bool_)
    return Code(members, tuple(None if n < 0 else Fraction(n, common) for n in whole))
