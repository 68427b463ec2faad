"""Tables found by search, and the text form in which a study file holds them.

Devices have no solvers and no time to search, so the study file holds what was found. The text is
compressed and in base 64; reading it back checks everything that later steps rely on.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import struct
import zlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.channels.code import RowProducts
from sfumato.errors import StudyError
from sfumato.exact import exp_minus_floor
from sfumato.text import DIGITS

_SETS, _ROWS, _CODE = b"sets1", b"rows1", b"code1"
_SETS_HEAD, _ROWS_HEAD = struct.Struct("<5sHH"), struct.Struct("<5sHHbd")
_CODE_HEAD = struct.Struct("<5sI")
_MOST_JSON = 1 << 20
_DIGIT = 6  # binary digits of one of `DIGITS`


class Table(ABC):
    """What a search has found: outputs for a number of cells, which can be written as text."""

    __slots__ = ()
    what: ClassVar[str]  # the channel, as messages call it

    @property
    @abstractmethod
    def cells(self) -> int:
        """For how many cells it is."""

    @abstractmethod
    def _to_bytes(self) -> bytes:
        """The format of this kind of table."""

    @classmethod
    @abstractmethod
    def _from_bytes(cls, data: bytes) -> Self | None:
        """Read it back; None if it is damaged."""

    @classmethod
    @abstractmethod
    def _most_bytes(cls) -> int:
        """More than this is never unpacked."""

    def to_text(self) -> str:
        """The table as text for a file."""
        # The highest level would take ten times as long, and save a twentieth.
        return base64.b64encode(zlib.compress(self._to_bytes(), 7)).decode("ascii")

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read a table back.

        Raises:
            StudyError: If the text is damaged.
        """
        found = None
        try:
            reader = zlib.decompressobj()
            data = reader.decompress(base64.b64decode(text, validate=True), cls._most_bytes())
            found = cls._from_bytes(data) if reader.eof else None
        except (TypeError, ValueError, binascii.Error, zlib.error, struct.error):
            pass
        if found is None:
            raise StudyError(f"the table of {cls.what} is damaged; make the study again")
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Sets(Table):
    """Outputs as sets of cells with weights: P(y | x) is the weight, times e^ε if x is in the set.

    Attributes:
        members: Whether a cell is in a set: one row per output, one column per cell.
        weights: One per output, in any unit.
    """

    what: ClassVar[str] = "an optimised channel"
    MOST_CELLS: ClassVar[int] = 256
    MOST_OUTPUTS: ClassVar[int] = 4096
    members: NDArray[np.bool_]
    weights: Floats

    @property
    def cells(self) -> int:
        """For how many cells it is."""
        return int(self.members.shape[1])

    def table(self, odds: float) -> Floats:
        """P(y | x) up to rounding, one row per cell; rows may differ a little in their sums."""
        table = self.weights * np.where(self.members.T, odds, 1.0)
        scaled: Floats = table / table.sum(axis=1).max()
        return scaled

    def _to_bytes(self) -> bytes:
        """The weights in 32 bits each, the largest first, then one bit per set and cell."""
        scaled = np.rint(self.weights / self.weights.max() * (2**32 - 1))
        scaled = np.maximum(scaled, 1).astype("<u4")
        order = np.argsort(scaled, kind="stable")[::-1]
        head = _SETS_HEAD.pack(_SETS, len(order), self.cells)
        body: bytes = scaled[order].tobytes() + np.packbits(self.members[order]).tobytes()
        return head + body

    @classmethod
    def _from_bytes(cls, data: bytes) -> Self | None:
        form, outputs, cells = _SETS_HEAD.unpack_from(data)
        start = _SETS_HEAD.size + 4 * outputs
        if form != _SETS or len(data) != start + -(-outputs * cells // 8):
            return None
        weights = np.frombuffer(data, dtype="<u4", count=outputs, offset=_SETS_HEAD.size)
        packed = np.frombuffer(data, dtype=np.uint8, offset=start)
        members = np.unpackbits(packed, count=outputs * cells).reshape(outputs, cells)
        if outputs < cells or not 2 <= cells <= cls.MOST_CELLS or not weights.all():
            return None
        return cls(members.astype(np.bool_), weights.astype(np.float64))

    @classmethod
    def _most_bytes(cls) -> int:
        return _SETS_HEAD.size + cls.MOST_OUTPUTS * (4 + cls.MOST_CELLS // 8)


@dataclass(frozen=True, slots=True, eq=False)
class OutputRows(Table):
    """Outputs as rows with shares: P(y | x) is the share times e to the row's logarithm.

    Attributes:
        logs: Integers in units of 2^-unit, one row per output and one column per cell.
        unit: How fine the integers are.
        shares: One per output; Σ share·e^log is 1 for every cell but for rounding.
        gap: How far the mean square is above the bound that the search found, relatively.
    """

    what: ClassVar[str] = "an extremal channel"
    MOST_CELLS: ClassVar[int] = 256
    MOST_OUTPUTS: ClassVar[int] = 4096
    logs: NDArray[np.int32]
    unit: int
    shares: Floats
    gap: float

    @property
    def cells(self) -> int:
        """For how many cells it is."""
        return int(self.logs.shape[1])

    def products(self, precision: int, floor: int) -> RowProducts:
        """The law in whole numbers: shares times table entries of e^log, and what is always added.

        Up to 64 different logarithms have an entry each. More are spelled in digits of six bits,
        each with a table of its own.

        Args:
            precision: Words are counted out of 2^precision.
            floor: A 2^floor-th part of the words is the same for all cells and outputs.

        Raises:
            StudyError: If a logarithm is above 0.
        """
        down = -self.logs.astype(np.int64)
        if down.min() < 0:
            raise StudyError(
                "the table of this extremal channel does not keep the metric: a logarithm is above "
                "0; make the study again"
            )
        kinds, place = np.unique(down, return_inverse=True)
        if len(kinds) <= len(DIGITS):
            digits = place.reshape(*down.shape, 1)
            exponents = [kinds.tolist()]
        else:
            starts = range(0, int(down.max()).bit_length(), _DIGIT)
            digits = np.stack([(down >> start) % len(DIGITS) for start in starts], axis=-1)
            exponents = [[digit << start for digit in range(len(DIGITS))] for start in starts]
        unit = Fraction(1, 1 << self.unit)
        factors = [[exp_minus_floor(each * unit) for each in table] for table in exponents]
        exact = [Fraction(share) for share in self.shares.tolist()]
        common = math.lcm(*(share.denominator for share in exact))  # a power of two
        return RowProducts(
            bits=precision,
            base=((1 << precision) >> floor) // (len(exact) + 1),
            # A floor-th part of the words is taken from all outputs alike.
            shares=[int(share * common) * ((1 << floor) - 1) for share in exact],
            factors=factors,
            shift=common.bit_length() - 1 + floor + 64 * len(factors) - precision,
            digits=digits,
        )

    def _to_bytes(self) -> bytes:
        """Shares as floats, then the logarithms, all first bytes, all second ones and so on."""
        head = _ROWS_HEAD.pack(_ROWS, len(self.logs), self.cells, self.unit, self.gap)
        # Bytes of the same weight are similar, and compress well side by side.
        planes = (
            np.ascontiguousarray(self.logs, dtype="<i4").view(np.uint8).reshape(-1, 4).T.tobytes()
        )
        return head + self.shares.astype("<f8").tobytes() + planes

    @classmethod
    def _from_bytes(cls, data: bytes) -> Self | None:
        form, outputs, cells, unit, gap = _ROWS_HEAD.unpack_from(data)
        start = _ROWS_HEAD.size + 8 * outputs
        if form != _ROWS or len(data) != start + 4 * outputs * cells or unit < 0:
            return None
        if not 2 <= cells <= cls.MOST_CELLS or not cells <= outputs <= cls.MOST_OUTPUTS:
            return None
        shares = np.frombuffer(data, dtype="<f8", count=outputs, offset=_ROWS_HEAD.size)
        planes = np.frombuffer(data, dtype=np.uint8, offset=start)
        logs = np.ascontiguousarray(planes.reshape(4, -1).T).view("<i4").reshape(outputs, cells)
        high = np.ldexp(float(np.abs(logs.astype(np.int64)).max()), -unit)
        if not (np.isfinite(shares).all() and (shares > 0).all() and shares.max() <= 1):
            return None
        if not high < 600:
            return None
        return cls(logs.astype(np.int32), unit, shares.astype(np.float64), float(gap))

    @classmethod
    def _most_bytes(cls) -> int:
        return _ROWS_HEAD.size + cls.MOST_OUTPUTS * (8 + 4 * cls.MOST_CELLS)


@dataclass(frozen=True, slots=True, eq=False)
class Code(Table):
    """The bits of every cell's code, and the rate of each bit: the E that it spends.

    Attributes:
        members: Whether the bit is a one: one row per bit, one column per cell.
        rates: The logarithm of each bit's odds; None for a bit that is sent as it is.
    """

    what: ClassVar[str] = "a matrix response"
    MOST_CELLS: ClassVar[int] = 1024
    MOST_BITS: ClassVar[int] = 8192
    members: NDArray[np.bool_]
    rates: tuple[Fraction | None, ...]

    @property
    def cells(self) -> int:
        """For how many cells it is."""
        return int(self.members.shape[1])

    def spent(self, first: int, second: int) -> Fraction | None:
        """Σ of the rates of the bits that differ between two cells; None if it is infinite.

        Args:
            first: A cell.
            second: Another.
        """
        total = Fraction(0)
        for bit in np.flatnonzero(self.members[:, first] != self.members[:, second]).tolist():
            rate = self.rates[bit]
            if rate is None:
                return None
            total += rate
        return total

    def _to_bytes(self) -> bytes:
        """Rates as whole numbers over one denominator, in JSON, then one bit per bit and cell."""
        common = math.lcm(*(rate.denominator for rate in self.rates if rate is not None))
        whole = [-1 if rate is None else int(rate * common) for rate in self.rates]
        head = json.dumps([self.cells, common, whole], separators=(",", ":")).encode()
        return _CODE_HEAD.pack(_CODE, len(head)) + head + np.packbits(self.members).tobytes()

    @classmethod
    def _from_bytes(cls, data: bytes) -> Self | None:
        form, length = _CODE_HEAD.unpack_from(data)
        start = _CODE_HEAD.size + length
        cells, common, whole = json.loads(data[_CODE_HEAD.size : start])
        numbers = [cells, common, *whole]
        good = all(isinstance(n, int) and not isinstance(n, bool) for n in numbers)
        if not good or form != _CODE or length > _MOST_JSON:
            return None
        size = len(whole) * cells
        packed = np.frombuffer(data, dtype=np.uint8, offset=start)
        fits = 2 <= cells <= cls.MOST_CELLS and 1 <= len(whole) <= cls.MOST_BITS and common > 0
        if not fits or min(whole) < -1 or 0 in whole or len(packed) != -(-size // 8):
            return None
        members = np.unpackbits(packed, count=size).reshape(len(whole), cells).astype(np.bool_)
        return cls(members, tuple(None if n < 0 else Fraction(n, common) for n in whole))

    @classmethod
    def _most_bytes(cls) -> int:
        return _CODE_HEAD.size + _MOST_JSON + cls.MOST_BITS * cls.MOST_CELLS // 8
