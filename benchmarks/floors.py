"""The physical floor of encode and tally: the random bytes alone, and one pass over the outputs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

import sfumato as sf
from benchmarks.recording import seconds
from sfumato.arrays import BitColumns
from sfumato.randomness.bits import Words

_FEW = 64_000  # people whose random words are counted
_AT_ONCE = 1 << 24  # bytes of os.urandom per call


class Counted:
    """The secure source, which also counts the words that it gives out."""

    secure = True

    def __init__(self) -> None:
        self._bits = sf.SecureBits()
        self.drawn = 0

    def words(self, count: int) -> Words:
        """The next words."""
        self.drawn += count
        return self._bits.words(count)


@dataclass(frozen=True)
class Floor:
    """Processor seconds that no implementation can do without.

    Attributes:
        random_bytes: Random bytes that `encode` draws per person.
        urandom: Seconds for as many bytes of os.urandom.
        one_pass: Seconds for one popcount over packed bits, or one np.bincount over symbols.
    """

    random_bytes: float
    urandom: float
    one_pass: float

    @property
    def together(self) -> float:
        """Both."""
        return self.urandom + self.one_pass


def floor_of(study: sf.Study, values: Any, reports: sf.Reports) -> Floor:
    """The floor of encoding these values and tallying these reports.

    Args:
        study: A study with one block.
        values: People's values, as for `encode`.
        reports: Their reports.
    """
    counted = Counted()
    few = {name: values[name][:_FEW] for name in (axis.name for axis in study.axes)}
    people = len(study.encode(few, bits=counted))
    each = 8 * counted.drawn / people
    wanted = round(each * len(reports))
    sizes = [_AT_ONCE] * (wanted // _AT_ONCE) + [wanted % _AT_ONCE]
    urandom, _ = seconds(lambda: [len(os.urandom(size)) for size in sizes], repeat=3)
    (output,) = reports.outputs
    if isinstance(output, BitColumns):
        one_pass, _ = seconds(lambda: np.bitwise_count(output.words).sum(), repeat=3)
    else:
        count = study.layouts[0].count
        one_pass, _ = seconds(lambda: np.bincount(output, minlength=count), repeat=3)
    return Floor(each, urandom, one_pass)
