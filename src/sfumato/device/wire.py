"""The wire format: reports and batches of reports as bytes, with a strict reader.

It needs the standard library only, since devices import it. The format is specified in "The wire
format" in the documentation; `sfumato.collect.packing` reads and writes the same bytes for many
reports at once.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from sfumato.errors import FormatError, shown

#: The media type of a batch.
MEDIA_TYPE = "application/vnd.sfumato.batch.v1"
MAGIC = b"SFMB"
VERSION = 1
ID_BYTES = 16
#: The most reports of a batch.
MOST_REPORTS = 1 << 20
#: Bytes before the first report of a batch: magic, version, fingerprint, count, day of expiry.
HEADER_BYTES = 45
_FINGERPRINT = slice(5, 37)
_DAYS = 1 << 32

Code = Literal["magic", "version", "study", "length", "count", "symbol", "padding", "id"]
Buffer = bytes | bytearray | memoryview


class WireError(FormatError):
    """Bytes that are no reports or batch of this study, with the code that a collector answers.

    Args:
        code: What is wrong, as in the table of "The wire format".
        message: The same in words; it shows nothing of a report.
        place: The place of the report at fault, counted from 0, if it is one.
    """

    def __init__(self, code: Code, message: str, place: int | None = None) -> None:
        super().__init__(message)
        self.code: Code = code
        self.place = place


@dataclass(frozen=True)
class ReportLayout:
    """The bytes of one report: its symbols as one number in mixed radix, then its bits.

    Args:
        blocks: For each block "symbols" or "bits", and how many there are.

    Example:
        >>> layout = ReportLayout((("symbols", 100), ("bits", 3), ("symbols", 5)))
        >>> layout.size, layout.pack([31, 0b110, 4]).hex()
        (3, '9f0006')
        >>> layout.unpack(bytes.fromhex("9f0006"))
        (31, 6, 4)
    """

    blocks: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        for kind, count in self.blocks:
            if kind not in ("symbols", "bits") or type(count) is not int or count < 1:
                raise FormatError(
                    "a block of a report must be 'symbols' or 'bits' and a count of at least 1, "
                    f"got {shown(kind)} and {shown(count)}"
                )

    @cached_property
    def combinations(self) -> int:
        """How many combinations of symbols there are."""
        return math.prod(count for kind, count in self.blocks if kind == "symbols")

    @cached_property
    def bits(self) -> int:
        """How many bits a report has beside its symbols."""
        return sum(count for kind, count in self.blocks if kind == "bits")

    @cached_property
    def symbol_bytes(self) -> int:
        """How many bytes the symbols take."""
        return ((self.combinations - 1).bit_length() + 7) // 8

    @cached_property
    def size(self) -> int:
        """How many bytes a report takes."""
        return self.symbol_bytes + (self.bits + 7) // 8

    def pack(self, results: Sequence[int]) -> bytes:
        """Write one report.

        Args:
            results: The result of each block: a symbol, or bits as one number, bit 0 the lowest.

        Raises:
            WireError: If there is not one result per block, or one is out of its bounds.
        """
        if len(results) != len(self.blocks):
            raise WireError(
                "length",
                f"a report must have {len(self.blocks)} results, one per block, got {len(results)}",
            )
        number, row, at = 0, 0, 0
        for (kind, count), result in zip(self.blocks, results, strict=True):
            if kind == "symbols":
                if not 0 <= result < count:
                    raise WireError("symbol", _symbol_rule(count))
                number = number * count + result
            else:
                if not 0 <= result < 1 << count:
                    raise WireError("padding", f"a result of {count} bits must have no others set")
                row |= result << at
                at += count
        symbols = number.to_bytes(self.symbol_bytes, "little")
        return symbols + row.to_bytes(self.size - self.symbol_bytes, "little")

    def unpack(self, data: Buffer) -> tuple[int, ...]:
        """Read one report: the result of each block, as `pack` takes them.

        Raises:
            WireError: If `pack` would not have written these bytes.
        """
        number, row = self._read(as_bytes(data))
        found: list[int] = []
        for kind, count in reversed(self.blocks):
            if kind == "symbols":
                number, symbol = divmod(number, count)
                found.append(symbol)
        symbols = iter(reversed(found))
        results = []
        for kind, count in self.blocks:
            if kind == "symbols":
                results.append(next(symbols))
            else:
                results.append(row & ((1 << count) - 1))
                row >>= count
        return tuple(results)

    def check(self, data: bytes, place: int | None = None) -> None:
        """Refuse bytes that `pack` would not have written.

        Args:
            data: The bytes of one report.
            place: Its place in a batch.
        """
        self._read(data, place)

    def _read(self, data: bytes, place: int | None = None) -> tuple[int, int]:
        """The number of the symbols, and the row of bits."""
        if len(data) != self.size:
            raise WireError(
                "length", f"a report of this study must have {self.size} bytes, got {len(data)}"
            )
        number = int.from_bytes(data[: self.symbol_bytes], "little")
        if number >= self.combinations:
            raise symbol_error(place)
        row = int.from_bytes(data[self.symbol_bytes :], "little")
        if row >> self.bits:
            raise padding_error(place)
        return number, row


@dataclass(frozen=True)
class Batch:
    r"""Reports of one study with their ids, as a client sends them.

    Args:
        fingerprint: The study's fingerprint, 64 hexadecimal digits.
        expires: The day on which the batch expires, counted from 1970-01-01.
        ids: A random id of 16 bytes for each report.
        reports: The bytes of each report.

    Example:
        >>> batch = Batch("ab" * 32, 20_000, (bytes(16),), (b"\x07",))
        >>> data = batch.to_bytes()
        >>> len(data), Batch.from_bytes(data, ReportLayout((("symbols", 100),))) == batch
        (62, True)
    """

    fingerprint: str
    expires: int
    ids: tuple[bytes, ...]
    reports: tuple[bytes, ...]

    def to_bytes(self) -> bytes:
        """The bytes of the batch.

        Raises:
            WireError: If a reader would refuse them.
        """
        fingerprint = fingerprint_bytes(self.fingerprint)
        if type(self.expires) is not int or not 0 <= self.expires < _DAYS:
            raise FormatError(
                f"the day on which a batch expires must be a whole number from 0 to {_DAYS - 1}, "
                f"got expires={shown(self.expires)}"
            )
        count = len(self.reports)
        check_count(count)
        if len(self.ids) != count or any(len(held) != ID_BYTES for held in self.ids):
            raise WireError("id", f"each of the {count} reports must have an id of 16 bytes")
        _check_ids(self.ids)
        if len({len(report) for report in self.reports}) > 1:
            raise WireError("length", "all reports of a batch must have the same number of bytes")
        header = MAGIC + bytes([VERSION]) + fingerprint
        header += count.to_bytes(4, "little") + self.expires.to_bytes(4, "little")
        pairs = zip(self.ids, self.reports, strict=True)
        return header + b"".join(part for pair in pairs for part in pair)

    @classmethod
    def from_bytes(
        cls, data: Buffer, layout: ReportLayout, fingerprint: str | None = None
    ) -> Batch:
        """Read a batch; whatever `to_bytes` would not have written is refused.

        Args:
            data: The bytes.
            layout: The layout of the study's reports.
            fingerprint: The study's fingerprint; None takes any study with this layout.

        Raises:
            WireError: If the bytes are refused; its `code` says why.
        """
        held = as_bytes(data)
        header = read_header(held, layout.size, fingerprint)
        step = ID_BYTES + layout.size
        starts = range(HEADER_BYTES, len(held), step)
        ids = tuple(held[start : start + ID_BYTES] for start in starts)
        reports = tuple(held[start + ID_BYTES : start + step] for start in starts)
        _check_ids(ids)
        for place, report in enumerate(reports):
            layout.check(report, place)
        return cls(header.fingerprint, header.expires, ids, reports)


@dataclass(frozen=True)
class Header:
    """What the header of a batch says: the study, how many reports follow, the day of expiry."""

    fingerprint: str
    count: int
    expires: int


def read_header(data: bytes, size: int, fingerprint: str | None = None) -> Header:
    """Read the header of a batch, and refuse a batch whose length does not fit it.

    Args:
        data: The bytes of the whole batch.
        size: How many bytes a report takes.
        fingerprint: The study's fingerprint; None takes any study.
    """
    count = batch_count(data, fingerprint)
    check_length(len(data), HEADER_BYTES + count * (ID_BYTES + size), "a batch", count)
    return Header(data[_FINGERPRINT].hex(), count, int.from_bytes(data[41:45], "little"))


def batch_count(front: bytes, fingerprint: str | None = None) -> int:
    """How many reports a batch has, once its header is that of a batch.

    Args:
        front: The bytes of the batch, or the first `HEADER_BYTES` of them.
        fingerprint: The study's fingerprint; None takes any study.
    """
    found = read_front(front, MAGIC, HEADER_BYTES, "a batch")
    if fingerprint is not None and found != fingerprint:
        raise WireError(
            "study",
            f"the batch belongs to study {found[:12]}, not to {fingerprint[:12]}; send it to the "
            "collector of its own study",
        )
    count = int.from_bytes(front[37:41], "little")
    check_count(count)
    return count


def read_front(data: bytes, magic: bytes, header: int, what: str) -> str:
    """The fingerprint at the start of bytes, once magic and version are right.

    Args:
        data: The bytes.
        magic: The four bytes they must start with.
        header: How many bytes the whole header takes.
        what: What messages call them.
    """
    if data[:4] != magic:
        raise WireError(
            "magic", f"these are not the bytes of {what}: they must start with {magic.decode()}"
        )
    if len(data) > 4 and data[4] != VERSION:
        raise WireError(
            "version",
            f"{what} must have version {VERSION}, got version {data[4]}; update sfumato if it is "
            "newer",
        )
    if len(data) < header:
        raise WireError(
            "length", f"{what} must have a header of {header} bytes, got {len(data)} bytes in all"
        )
    return data[_FINGERPRINT].hex()


def check_count(count: int) -> None:
    """Refuse a batch without reports, or with too many."""
    if not 1 <= count <= MOST_REPORTS:
        raise WireError(
            "count",
            f"a batch must have 1 to {MOST_REPORTS:,} reports, got {count:,}; "
            + ("send none" if count == 0 else "send several batches"),
        )


def check_length(found: int, wanted: int, what: str, count: int) -> None:
    """Refuse bytes that are not as many as their header says.

    Args:
        found: How many there are.
        wanted: How many there should be.
        what: What messages call them.
        count: How many reports the header states.
    """
    if found != wanted:
        raise WireError(
            "length",
            f"{what} of {count:,} reports of this study must have {wanted:,} bytes, got "
            f"{found:,}; it was cut, or something was added: give all of it and nothing else",
        )


def symbol_error(place: int | None) -> WireError:
    """The refusal of a report whose number is no combination of symbols."""
    return WireError("symbol", f"{_report(place)} must hold a combination of symbols", place)


def padding_error(place: int | None) -> WireError:
    """The refusal of a report with a bit set after its last one."""
    return WireError("padding", f"{_report(place)} must have zeros after its last bit", place)


def id_error() -> WireError:
    """The refusal of a batch in which an id occurs twice."""
    return WireError("id", "all ids of a batch must differ, and some occur twice; send each once")


def _report(place: int | None) -> str:
    """A report by its place, in a message."""
    return "a report" if place is None else f"report {place + 1}"


def _symbol_rule(count: int) -> str:
    return f"a symbol must be a number from 0 to {count - 1}, and one is not"


def _check_ids(ids: Sequence[bytes]) -> None:
    """Refuse ids that occur twice."""
    if len(set(ids)) < len(ids):
        raise id_error()


def fingerprint_bytes(fingerprint: str) -> bytes:
    """The 32 bytes of a fingerprint, from its 64 hexadecimal digits in lower case."""
    digits = set(string.digits + "abcdef")
    if not isinstance(fingerprint, str) or len(fingerprint) != 64 or set(fingerprint) - digits:
        raise FormatError(
            "the fingerprint of a study must have 64 hexadecimal digits in lower case, got "
            f"{shown(fingerprint)}"
        )
    return bytes.fromhex(fingerprint)


def as_bytes(data: Buffer) -> bytes:
    """The bytes themselves; what is no bytes is refused."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise WireError("magic", f"reports must be read from bytes, got {shown(data)}")
    return data if isinstance(data, bytes) else bytes(data)
