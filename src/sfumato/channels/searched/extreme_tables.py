"""Outputs as rows with shares, and the text in which a study file holds them."""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.errors import StudyError

MOST_CELLS = 64
MOST_OUTPUTS = 4096

_FORMAT = b"rows1"
_HEAD = struct.Struct("<5sHHbd")


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Outputs as rows with shares: P(y | x) is the share times e to the row's logarithm.

    Attributes:
        logs: Integers, one row an output and one column a cell, in units of 2^-unit.
        unit: How fine the integers are.
        shares: One an output; Σ share·e^log is 1 for every cell but for rounding.
        gap: How far the mean square is above the bound that the search found, relatively.
    """

    logs: NDArray[np.int32]
    unit: int
    shares: Floats
    gap: float

    @property
    def law(self) -> Floats:
        """P(y | x) before rounding to words, one row a cell."""
        return (np.exp(np.ldexp(self.logs.astype(np.float64), -self.unit)).T) * self.shares


def rows_to_text(rows: Rows) -> str:
    """Rows and shares as text for a file."""
    outputs, cells = rows.logs.shape
    head = _HEAD.pack(_FORMAT, outputs, cells, rows.unit, rows.gap)
    # Bytes of one weight side by side are alike, and pack well.
    planes = rows.logs.astype("<i4").view(np.uint8).reshape(-1, 4).T.tobytes()
    body = rows.shares.astype("<f8").tobytes() + planes
    return base64.b64encode(zlib.compress(head + body, 9)).decode("ascii")


def rows_from_text(text: str) -> Rows:
    """Read rows and shares back.

    Raises:
        StudyError: If the text is damaged.
    """
    most = _HEAD.size + MOST_OUTPUTS * (8 + 4 * MOST_CELLS)
    damaged = StudyError("the table of an extremal channel is damaged; make the study anew")
    try:
        reader = zlib.decompressobj()
        data = reader.decompress(base64.b64decode(text, validate=True), most)
        form, outputs, cells, unit, gap = _HEAD.unpack_from(data)
    except (TypeError, ValueError, binascii.Error, zlib.error, struct.error):
        raise damaged from None
    length = _HEAD.size + outputs * (8 + 4 * cells)
    if form != _FORMAT or not reader.eof or len(data) != length or unit < 0:
        raise damaged
    if not 2 <= cells <= MOST_CELLS or not cells <= outputs <= MOST_OUTPUTS:
        raise damaged
    shares = np.frombuffer(data, dtype="<f8", count=outputs, offset=_HEAD.size)
    planes = np.frombuffer(data, dtype=np.uint8, offset=_HEAD.size + 8 * outputs)
    logs = np.ascontiguousarray(planes.reshape(4, -1).T).view("<i4").reshape(outputs, cells)
    high = np.ldexp(float(np.abs(logs.astype(np.int64)).max()), -unit)
    if not (np.isfinite(shares).all() and (shares > 0).all() and shares.max() <= 1 and high < 600):
        raise damaged
    return Rows(logs.astype(np.int32), unit, shares.astype(np.float64), float(gap))
