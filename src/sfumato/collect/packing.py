"""Many reports as bytes at once: the wire format with NumPy.

Both ways do what `sfumato.device.wire` does for one report, and refuse the same bytes for the same
reasons. "The wire format" in the documentation specifies them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import BitColumns, Layout, Outputs
from sfumato.device.wire import (
    HEADER_BYTES,
    ID_BYTES,
    Buffer,
    ReportLayout,
    WireError,
    as_bytes,
    check_length,
    fingerprint_bytes,
    id_error,
    padding_error,
    read_front,
    read_header,
    symbol_error,
)
from sfumato.device.wire import MAGIC as BATCH_MAGIC
from sfumato.device.wire import VERSION as WIRE_VERSION
from sfumato.study.reports import Reports

MAGIC = b"SFMR"
#: Bytes before the first packed report: magic, version, fingerprint, count in eight bytes.
HEADER = 45
_AT_ONCE = 1 << 16
_WORD = 1 << 64

Bytes = NDArray[np.uint8]


class Form(Protocol):
    """What reading the reports of a study needs; a study is one, and so is an accumulator."""

    @property
    def fingerprint(self) -> str:
        """The study's fingerprint."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of reports, one per block."""
        ...

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """How each block's output is written."""
        ...

    def refuse_other(self, fingerprint: str, what: str) -> None:
        """Refuse what belongs to another study.

        Args:
            fingerprint: The fingerprint found in reports or a file.
            what: What messages call them.
        """
        ...


def layout_of(layouts: Sequence[Layout]) -> ReportLayout:
    """How a report of these blocks is written."""
    return ReportLayout(tuple((layout.kind, layout.count) for layout in layouts))


def pack(reports: Reports) -> Bytes:
    """The bytes of every report, one row per report."""
    layout = layout_of(reports.layouts)
    out = np.empty((len(reports), layout.size), dtype=np.uint8)
    for start in range(0, len(reports), _AT_ONCE):
        part = reports[start : start + _AT_ONCE]
        rows = out[start : start + len(part)]
        rows[:, : layout.symbol_bytes] = _symbols(part, layout)
        rows[:, layout.symbol_bytes :] = _bits(part)
    return out


def _symbols(reports: Reports, layout: ReportLayout) -> Bytes:
    """The number of all symbols of each report, lowest byte first."""
    columns = [
        (held.count, column)
        for held, column in zip(reports.layouts, reports.outputs, strict=True)
        if not isinstance(column, BitColumns)
    ]
    size = layout.symbol_bytes
    if layout.combinations > _WORD:
        numbers = [0] * len(reports)
        for count, column in columns:
            pairs = zip(numbers, column.tolist(), strict=True)
            numbers = [number * count + symbol for number, symbol in pairs]
        raw = b"".join(number.to_bytes(size, "little") for number in numbers)
        return np.frombuffer(raw, dtype=np.uint8).reshape(len(reports), size)
    number = np.zeros(len(reports), dtype="<u8")
    for count, column in columns:
        number *= np.uint64(count)
        number += column.astype(np.uint64)
    return number.view(np.uint8).reshape(-1, 8)[:, :size]


def _bits(reports: Reports) -> Bytes:
    """The bits of all blocks of each report, in one row."""
    columns = [column for column in reports.outputs if isinstance(column, BitColumns)]
    if not columns:
        return np.zeros((len(reports), 0), dtype=np.uint8)
    if len(columns) == 1:
        return columns[0].to_rows()
    matrix = np.concatenate([column.to_matrix() for column in columns], axis=1)
    return np.packbits(matrix, axis=1, bitorder="little")


def unpack(
    rows: Bytes, fingerprint: str, names: Sequence[str], layouts: Sequence[Layout]
) -> Reports:
    """Reports from their bytes; what no client would have written is refused.

    Args:
        rows: One row of bytes per report.
        fingerprint: The study's fingerprint.
        names: The columns of reports.
        layouts: How each block's output is written.

    Raises:
        WireError: If a number is beyond the last combination of symbols, or padding is not zero.
    """
    layout = layout_of(layouts)
    if rows.shape[1] != layout.size:
        raise WireError("length", f"a report must have {layout.size} bytes, got {rows.shape[1]}")
    parts = [
        Reports(fingerprint, tuple(names), tuple(layouts), _outputs(part, layouts, layout, start))
        for start in range(0, max(len(rows), 1), _AT_ONCE)
        for part in (rows[start : start + _AT_ONCE],)
    ]
    return parts[0] if len(parts) == 1 else Reports.join(parts)


def _outputs(
    rows: Bytes, layouts: Sequence[Layout], layout: ReportLayout, start: int
) -> tuple[Outputs, ...]:
    """The outputs of all blocks."""
    try:
        symbols = _read_symbols(rows[:, : layout.symbol_bytes], layouts, layout, start)
    except WireError as error:
        before = rows[: (error.place or 0) - start, layout.symbol_bytes :]
        _read_bits(before, layouts, layout, start)  # the first report at fault is named
        raise
    bits = _read_bits(rows[:, layout.symbol_bytes :], layouts, layout, start)
    kinds = {"symbols": iter(symbols), "bits": iter(bits)}
    return tuple(next(kinds[held.kind]) for held in layouts)


def _read_symbols(
    rows: Bytes, layouts: Sequence[Layout], layout: ReportLayout, start: int
) -> list[Outputs]:
    """The symbols of every block."""
    counts = [held.count for held in layouts if held.kind == "symbols"]
    if layout.combinations > _WORD:
        numbers = [int.from_bytes(row.tobytes(), "little") for row in rows]
        beyond = [place for place, number in enumerate(numbers) if number >= layout.combinations]
        if beyond:
            raise symbol_error(start + beyond[0])
        found = []
        for count in reversed(counts):
            pairs = [divmod(number, count) for number in numbers]
            numbers = [number for number, _ in pairs]
            found.append(np.array([symbol for _, symbol in pairs], dtype=_type(count)))
        return list(reversed(found))
    padded = np.zeros((len(rows), 8), dtype=np.uint8)
    padded[:, : rows.shape[1]] = rows
    number = padded.view("<u8")[:, 0].astype(np.uint64, copy=False)
    if layout.combinations < _WORD:
        wrong = np.flatnonzero(number >= np.uint64(layout.combinations))
        if wrong.size:
            raise symbol_error(start + int(wrong[0]))
    parts: list[Outputs] = []
    for count in reversed(counts):
        if len(parts) == len(counts) - 1:
            parts.append(number.astype(_type(count)))
            break
        above = number // np.uint64(count)
        parts.append((number - above * np.uint64(count)).astype(_type(count)))
        number = above
    return list(reversed(parts))


def _read_bits(
    rows: Bytes, layouts: Sequence[Layout], layout: ReportLayout, start: int
) -> list[Outputs]:
    """The bits of every block."""
    widths = [held.count for held in layouts if held.kind == "bits"]
    if not widths:
        return []
    spare = 8 * rows.shape[1] - layout.bits
    wrong = np.flatnonzero(rows[:, -1] >> (8 - spare)) if spare else np.zeros(0, dtype=np.intp)
    if wrong.size:
        raise padding_error(start + int(wrong[0]))
    if len(widths) == 1:
        return [BitColumns.from_rows(np.ascontiguousarray(rows), widths[0])]
    matrix = np.unpackbits(rows, axis=1, count=layout.bits, bitorder="little").astype(np.bool_)
    ends = np.cumsum(widths)[:-1]
    return [BitColumns.from_matrix(part) for part in np.split(matrix, ends, axis=1)]


def _type(count: int) -> np.dtype[Any]:
    """The smallest type of symbols below the count."""
    return np.min_scalar_type(count - 1)


def reports_to_bytes(reports: Reports) -> bytes:
    """All reports back to back, behind a header that names the study and their number."""
    return header(reports.fingerprint, len(reports)) + pack(reports).tobytes()


def header(fingerprint: str, count: int) -> bytes:
    """What stands before packed reports.

    Args:
        fingerprint: The study's fingerprint.
        count: How many reports follow.
    """
    head = MAGIC + bytes([WIRE_VERSION]) + fingerprint_bytes(fingerprint)
    return head + count.to_bytes(8, "little")


def reports_from_bytes(data: Buffer, study: Form) -> Reports:
    """Read what `reports_to_bytes` or a client wrote; anything else is refused.

    Args:
        data: Packed reports, or a batch; the ids of a batch are left behind.
        study: The study they belong to.

    Raises:
        WireError: If the bytes are damaged or newer, or a batch of another study.
        MismatchError: If they are packed reports of another study.
    """
    held = as_bytes(data)
    if held[:4] == BATCH_MAGIC:
        return batch_from_bytes(held, study)[0]
    count = packed_count(held, len(held), study, "this set of packed reports")
    rows = np.frombuffer(held, dtype=np.uint8, offset=HEADER).reshape(
        count, layout_of(study.layouts).size
    )
    return unpack(rows, study.fingerprint, study.columns, study.layouts)


def packed_count(front: bytes, length: int, study: Form, what: str) -> int:
    """How many packed reports there are, once their header and their length fit.

    Args:
        front: Their bytes, or the first `HEADER` of them.
        length: How many bytes there are in all.
        study: The study they must belong to.
        what: What messages call them.
    """
    study.refuse_other(read_front(front, MAGIC, HEADER, "packed reports"), what)
    count = int.from_bytes(front[37:HEADER], "little")
    check_length(length, HEADER + count * layout_of(study.layouts).size, "a file", count)
    return count


def batch_from_bytes(data: Buffer, study: Form) -> tuple[Reports, Bytes, int]:
    """The reports of a batch, their ids (one row each), and the day on which it expires.

    Args:
        data: The bytes of a batch.
        study: The study it must belong to.

    Raises:
        WireError: For the reasons that "The wire format" in the documentation lists.
    """
    held = as_bytes(data)
    size = layout_of(study.layouts).size
    header = read_header(held, size, study.fingerprint)
    rows = np.frombuffer(held, dtype=np.uint8, offset=HEADER_BYTES)
    rows = rows.reshape(header.count, ID_BYTES + size)
    ids = np.ascontiguousarray(rows[:, :ID_BYTES])
    if len(set(id_list(ids))) < header.count:
        raise id_error()
    reports = unpack(rows[:, ID_BYTES:], header.fingerprint, study.columns, study.layouts)
    return reports, ids, header.expires


def id_list(ids: Bytes) -> list[bytes]:
    """The ids of reports as bytes, from an array with one row each."""
    found: list[bytes] = ids.view(f"V{ID_BYTES}")[:, 0].tolist()
    return found
