"""Reading uploads: a batch becomes rows of id and report, and a list of what is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sfumato.collect.packing import Bytes, id_list, unpack
from sfumato.device.wire import (
    HEADER_BYTES,
    ID_BYTES,
    ReportLayout,
    WireError,
    id_error,
    read_header,
)
from sfumato.service.published import Published
from sfumato.service.refusals import RefusedError
from sfumato.service.stores.base import Run

#: How many days ahead a batch may expire at most; ids are kept as long.
MOST_DAYS = 366


@dataclass(frozen=True, slots=True)
class Upload:
    """The reports of one batch that can be stored.

    Attributes:
        study: The study's number.
        expires: The day on which the batch expires.
        step: How many bytes a row takes: an id and a report.
        data: The rows, one after another.
        refused: The places and codes of reports that are refused.
    """

    study: int
    expires: int
    step: int
    data: bytes
    refused: list[dict[str, Any]] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many reports can be stored."""
        return len(self.data) // self.step

    def ids(self) -> list[bytes]:
        """The ids, in their order."""
        if len(self.data) == self.step:
            return [self.data[:ID_BYTES]]
        rows = np.frombuffer(self.data, dtype=np.uint8).reshape(-1, self.step)
        return id_list(np.ascontiguousarray(rows[:, :ID_BYTES]))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an upload.

    Attributes:
        accepted: How many reports were stored now.
        repeated: How many were known to have been stored before.
        refused: The places and codes of those that were refused, in the order of the batch.
    """

    accepted: int
    repeated: int
    refused: list[dict[str, Any]]

    @property
    def status(self) -> int:
        """The status of HTTP."""
        return 207 if self.refused else 202

    def to_dict(self) -> dict[str, Any]:
        """The answer's JSON."""
        return {"accepted": self.accepted, "repeated": self.repeated, "refused": self.refused}


def longest(study: Published, most: int) -> int:
    """How many bytes the body of an upload may have.

    Args:
        study: The study.
        most: How many reports a batch may have.
    """
    return HEADER_BYTES + most * (ID_BYTES + study.layout.size)


def too_long(most: int) -> RefusedError:
    """The refusal of a batch with more reports than are taken."""
    return RefusedError(
        413,
        "size",
        f"a batch may have at most {most:,} reports here; send several",
        more={"most": most},
    )


def first_day(run: Run, today: int) -> int:
    """The day before which batches have expired: ids up to then may have been deleted.

    Args:
        run: A transaction.
        today: Today, by this computer's clock, which may have gone backwards.
    """
    return max(today, run.fact("purged"))


def expired(expires: int) -> RefusedError:
    """The refusal of a batch whose day has passed."""
    return RefusedError(
        410,
        "expired",
        f"the batch expired on day {expires} since 1970-01-01 and can no longer count; drop it",
    )


def read_upload(data: bytes, study: Published, first: int, today: int, most: int) -> Upload:
    """Read the body of an upload.

    Args:
        data: The body.
        study: The study it was sent to.
        first: Batches that expire before this day are refused.
        today: Today.
        most: How many reports a batch may have.

    Raises:
        WireError: If the batch is damaged; nothing of it is to be stored.
        RefusedError: If it has expired, expires too late, or has too many reports.
    """
    layout = study.layout
    header = read_header(data, layout.size, study.fingerprint)
    if header.expires < first:
        raise expired(header.expires)
    if header.expires > today + MOST_DAYS:
        raise RefusedError(
            400,
            "clock",
            f"the batch expires more than {MOST_DAYS} days ahead, and a client sets 30; set the "
            "device's clock right",
        )
    if header.count > most:
        raise too_long(most)
    body, step = data[HEADER_BYTES:], ID_BYTES + layout.size
    if header.count == 1:
        damage = _damage(layout, body[ID_BYTES:], 0)
        kept = b"" if damage else body
        return Upload(study.number, header.expires, step, kept, damage)
    found = Upload(study.number, header.expires, step, body)
    if len(set(found.ids())) < header.count:
        raise id_error()
    rows = np.frombuffer(body, dtype=np.uint8).reshape(header.count, step)
    refused = _refused(rows, study)
    if not refused:
        return found
    rows = np.delete(rows, [one["place"] for one in refused], axis=0)
    return Upload(study.number, header.expires, step, rows.tobytes(), refused)


def _refused(rows: Bytes, study: Published) -> list[dict[str, Any]]:
    """Which reports of a batch are damaged."""
    reports = np.ascontiguousarray(rows[:, ID_BYTES:])
    held = study.study
    try:
        unpack(reports, held.fingerprint, held.columns, held.layouts)
    except WireError:
        layout = study.layout
        return [one for k, row in enumerate(reports) for one in _damage(layout, row.tobytes(), k)]
    return []


def _damage(layout: ReportLayout, report: bytes, place: int) -> list[dict[str, Any]]:
    """What is wrong with one report, if anything."""
    try:
        layout.check(report, place)
    except WireError as error:
        return [{"place": place, "code": error.code}]
    return []
