"""Outputs as weighted sets of cells, and the text in which a study file holds them."""

from __future__ import annotations

import base64
import binascii
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.errors import StudyError

MOST_CELLS = 256
MOST_OUTPUTS = 4096

_FORMAT = b"sets1"
_HEAD = len(_FORMAT) + 4


@dataclass(frozen=True, slots=True, eq=False)
class Sets:
    """Outputs as sets of cells with weights: P(y | x) is the weight, times e^ε if x is in the set.

    Attributes:
        members: One row an output, one column a cell.
        weights: One an output, in any unit.
    """

    members: NDArray[np.bool_]
    weights: Floats

    def table(self, odds: float) -> Floats:
        """Q up to rounding, one row a cell; rows may differ a little in their sums."""
        table = self.weights * np.where(self.members.T, odds, 1.0)
        scaled: Floats = table / table.sum(axis=1).max()
        return scaled


def sets_to_text(sets: Sets) -> str:
    """Sets and weights as text for a file: the weights in 32 bits each, one bit a cell and set."""
    scaled = np.rint(sets.weights / sets.weights.max() * (2**32 - 1))
    scaled = np.maximum(scaled, 1).astype("<u4")
    order = np.argsort(scaled, kind="stable")[::-1]
    members = sets.members[order]
    head = _FORMAT + len(order).to_bytes(2, "little") + members.shape[1].to_bytes(2, "little")
    body = scaled[order].tobytes() + np.packbits(members).tobytes()
    return base64.b64encode(zlib.compress(head + body, 9)).decode("ascii")


def sets_from_text(text: str) -> Sets:
    """Read sets and weights back.

    Raises:
        StudyError: If the text is damaged.
    """
    most = _HEAD + 4 * MOST_OUTPUTS + MOST_OUTPUTS * MOST_CELLS // 8
    try:
        reader = zlib.decompressobj()
        data = reader.decompress(base64.b64decode(text, validate=True), most)
    except (TypeError, ValueError, binascii.Error, zlib.error):
        data, reader = b"", None
    outputs = int.from_bytes(data[_HEAD - 4 : _HEAD - 2], "little")
    cells = int.from_bytes(data[_HEAD - 2 : _HEAD], "little")
    length = _HEAD + 4 * outputs + -(-outputs * cells // 8)
    if reader is None or not reader.eof or data[: len(_FORMAT)] != _FORMAT or len(data) != length:
        raise StudyError("the table of an optimised channel is damaged; make the study anew")
    weights = np.frombuffer(data, dtype="<u4", count=outputs, offset=_HEAD).astype(np.float64)
    packed = np.frombuffer(data, dtype=np.uint8, offset=_HEAD + 4 * outputs)
    members = np.unpackbits(packed, count=outputs * cells).reshape(outputs, cells)
    if outputs < cells or not 2 <= cells <= MOST_CELLS or not weights.all():
        raise StudyError("the table of an optimised channel is damaged; make the study anew")
    return Sets(members.astype(np.bool_), weights)
