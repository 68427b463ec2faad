"""Accumulators: tallies that grow in place, at a cost in proportion to what is added.

Reports wait until there are enough of them to be counted at once: in place in a table of all
combinations of symbols, where these are few; else counted parts are merged when they are of like
size, so that each is copied a few times only, and all of them together take at most twice the
memory of the largest.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa

from sfumato.arrays import BitColumns, Layout, Outputs, join_outputs, no_outputs, take_people
from sfumato.checks import one_of
from sfumato.collect.block_sums import (
    AnyStatistic,
    Kept,
    is_sum,
    kept_by,
    narrowed,
    reduced,
    sums_error,
)
from sfumato.collect.counting import Table
from sfumato.collect.packing import (
    batch_from_bytes,
    header,
    id_list,
    layout_of,
    reports_from_bytes,
    unpack,
)
from sfumato.collect.parquet import parquet_bytes
from sfumato.collect.statistics import BitReports, SymbolCounts, is_dense, merged
from sfumato.collect.tally import Tally, checked_part, in_parts, joined_notes, refuse_many
from sfumato.collect.tally_files import Held, read_tally, tally_table
from sfumato.collect.term_sums import refuse_large
from sfumato.device.wire import HEADER_BYTES, ID_BYTES, Buffer, as_bytes, read_header
from sfumato.device.wire import MAGIC as BATCH_MAGIC
from sfumato.errors import MismatchError, StudyError
from sfumato.study.reports import Reports
from sfumato.study.study import Study
from sfumato.verbs import SomeReports

#: What an accumulator keeps.
Keep = Literal["reports", "sums"]
KEEPS = ("reports", "sums")
_AT_ONCE = 1 << 16
_MANY_AT_ONCE = 1 << 20  # where each column is read for many terms


class Accumulator:
    """A tally in the making, to which reports are added as they come.

    `Study.accumulator()` makes one. It knows the study's fingerprint and how reports are written,
    and its bytes hold nothing else of the study, so that partial results are small.

    Args:
        fingerprint: The study's fingerprint.
        columns: Names of the columns of reports, one per block.
        layouts: How each block's output is written.
        keep: "reports": all that answers can be computed from. "sums": sums for each block by
            itself, whose size does not depend on the number of reports; they give the same
            unbiased answers about one axis, and no others. Or the terms that some questions need,
            from `estimation.asked.terms_for`.
        study: The study, which `freeze` needs.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
        >>> reports = study.encode({"age": [31, 42, 77]})
        >>> first, second = study.accumulator(), study.accumulator()
        >>> first.add(reports[:1])
        >>> second.add(reports[1:].to_bytes())
        >>> first.merge(Accumulator.from_bytes(second.to_bytes()))
        >>> first.freeze() == study.tally(reports)
        True
    """

    def __init__(
        self,
        fingerprint: str,
        columns: tuple[str, ...],
        layouts: tuple[Layout, ...],
        keep: Kept = "reports",
        study: Study | None = None,
    ) -> None:
        if isinstance(keep, tuple):
            refuse_large(layouts, keep)
        else:
            one_of(keep, "keep", KEEPS)
        self.fingerprint = fingerprint
        self.columns = columns
        self.layouts = layouts
        # Counts of the symbols of one block are sums already.
        self.keep: Kept = "reports" if keep == "sums" and is_sum(layouts) else keep
        self._at_once = _MANY_AT_ONCE if isinstance(keep, tuple) else _AT_ONCE
        self.notes: tuple[str, ...] = ()
        self._study = study
        self._parts: list[AnyStatistic] = []
        self._table: Table | None = None
        self._outputs: list[tuple[Outputs, ...]] = []  # of reports that wait
        self._rows: list[bytes] = []  # of single reports that wait
        self._waiting = 0
        self._counted = 0
        self._ids: set[bytes] = set()
        self._layout = layout_of(layouts)
        self._single = header(fingerprint, 1)

    @property
    def n(self) -> int:
        """Number of reports."""
        return self._counted + self._waiting

    def __len__(self) -> int:
        return self.n

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<accumulator of {self.n:,} reports of study {self.fingerprint[:12]}>"

    def refuse_other(self, fingerprint: str, what: str) -> None:
        """Refuse what belongs to another study.

        Args:
            fingerprint: The fingerprint found in reports or a file.
            what: What messages call them.
        """
        if fingerprint != self.fingerprint:
            if self._study is not None:
                self._study.refuse_other(fingerprint, what)
            raise MismatchError(
                f"{what} belongs to study {fingerprint[:12]}, not to {self.fingerprint[:12]}; use "
                "the study file it was made with"
            )

    def add(self, reports: Reports | Buffer | pa.Table | pa.RecordBatch) -> None:
        """Add reports; whatever is damaged or of another study is refused, and nothing is added.

        A report that came in a batch counts once, however often its id is added: devices send
        batches again when they do not know whether they arrived. The accumulator remembers the ids
        while it is in memory, at about 100 bytes each; they reach neither its bytes nor a tally.

        Args:
            reports: Reports, their Arrow table or record batch, what `Reports.to_bytes` writes, or
                a batch as a device sends it.
        """
        if not isinstance(reports, bytes | bytearray | memoryview):
            self._wait(checked_part(self, reports).outputs)
            return
        data = as_bytes(reports)
        if data[: len(self._single)] == self._single:
            self._wait_single(data[len(self._single) :])
        elif data[:4] == BATCH_MAGIC:
            self._add_batch(data)
        else:
            self._wait(reports_from_bytes(data, self).outputs)

    def _add_batch(self, data: bytes) -> None:
        """Add the reports of a batch whose ids are new."""
        if read_header(data, self._layout.size, self.fingerprint).count == 1:
            found = data[HEADER_BYTES : HEADER_BYTES + ID_BYTES]
            if found not in self._ids:
                self._wait_single(data[HEADER_BYTES + ID_BYTES :])
                self._ids.add(found)
            return
        reports, rows, _ = batch_from_bytes(data, self)
        ids = id_list(rows)
        if self._ids.isdisjoint(ids):
            self._wait(reports.outputs)
        else:
            new = [place for place, held in enumerate(ids) if held not in self._ids]
            if new:
                self._wait(tuple(take_people(column, np.array(new)) for column in reports.outputs))
        self._ids.update(ids)

    def _wait_single(self, report: bytes) -> None:
        """Let one report wait until it is counted, once its bytes are those of one."""
        self._layout.check(report)
        refuse_many(self.n + 1)
        self._rows.append(report)
        self._waiting += 1
        if self._waiting >= self._at_once:
            self._count()

    def _wait(self, outputs: tuple[Outputs, ...]) -> None:
        """Let reports wait until they are counted."""
        refuse_many(self.n + len(outputs[0]))
        self._outputs.append(outputs)
        self._waiting += len(outputs[0])
        if self._waiting >= self._at_once:
            self._count()

    def _count(self) -> None:
        """Count the reports that wait."""
        if self._rows:
            raw = np.frombuffer(b"".join(self._rows), dtype=np.uint8)
            rows = raw.reshape(len(self._rows), self._layout.size)
            found = unpack(rows, self.fingerprint, self.columns, self.layouts)
            self._outputs.append(found.outputs)
        if self._waiting:
            columns = zip(self.layouts, *self._outputs, strict=True)
            joined = [
                parts[0] if len(parts) == 1 else join_outputs(layout, parts)
                for layout, *parts in columns
            ]
            if self._is_table():
                self._table = self._table or Table(tuple(held.count for held in self.layouts))
                self._table.add([column for column in joined if not isinstance(column, BitColumns)])
            else:
                self._put(reduced(self.layouts, joined, self.keep))
            self._counted += self._waiting
        self._outputs, self._rows, self._waiting = [], [], 0

    def _is_table(self) -> bool:
        """Whether the reports that wait are counted in a table of all combinations."""
        symbols = self.keep == "reports" and all(held.kind == "symbols" for held in self.layouts)
        return symbols and (self._table is not None or is_dense(self.layouts, self._waiting))

    def _put(self, part: AnyStatistic) -> None:
        """Put a counted part beside the others, and merge those of like size."""
        self._parts.append(part)
        while len(self._parts) > 1 and _size(self._parts[-2]) <= 2 * _size(self._parts[-1]):
            self._parts[-2:] = [merged(self._parts[-2:])]

    def merge(self, other: Accumulator | Tally) -> None:
        """Add all reports of another accumulator, or of a tally, which stays as it is.

        Args:
            other: An accumulator or a tally of the same study.

        Raises:
            MismatchError: If it belongs to another study, keeps sums where this one keeps reports,
                or counted a report with an id that this one has counted too.
        """
        if not isinstance(other, Accumulator | Tally):
            raise StudyError(f"merge() takes an accumulator or a tally, got {type(other).__name__}")
        ids = other._ids if isinstance(other, Accumulator) else set[bytes]()
        twice = len(self._ids & ids)
        if twice:
            raise MismatchError(
                f"{twice:,} reports with the same ids were added to both, and would count twice; "
                "add all batches to one accumulator, which counts each report once"
            )
        self.merge_held(other.held, "the other one")
        self._ids |= ids

    def merge_held(self, held: Held, what: str) -> None:
        """Add what a file of a tally holds.

        Args:
            held: What it holds.
            what: What messages call it.
        """
        self.refuse_other(held.fingerprint, what)
        part = held.statistic
        if (held.columns, part.layouts) != (self.columns, self.layouts):
            raise MismatchError(f"{what} writes reports otherwise; make it again")
        refuse_many(self.n + part.count)
        part = narrowed(part, self.keep, what)
        self._count()
        self._put(part)
        self._counted += part.count
        self.notes = joined_notes(self.notes, held.notes)

    def refuse_sums(self, what: str) -> None:
        """Refuse sums, unless sums are kept here too.

        Args:
            what: What messages call them.
        """
        if self.keep != "sums":
            raise sums_error(what)

    @property
    def held(self) -> Held:
        """What has been added, as one statistic."""
        self._count()
        if self._table is not None:
            self._put(SymbolCounts.of_dense(self.layouts, self._table.people()))
            self._table = None
        if not self._parts:
            self._parts = [reduced(self.layouts, no_outputs(self.layouts), self.keep)]
        while len(self._parts) > 1:
            self._parts[-2:] = [merged(self._parts[-2:])]
        return Held(self.fingerprint, self.columns, self._parts[0], self.notes)

    def freeze(self) -> Tally:
        """The tally of all reports so far; more can be added afterwards."""
        if self._study is None:
            raise StudyError(
                "this accumulator was read from bytes and does not know its study; merge it into "
                "study.accumulator(), and freeze that one"
            )
        return Tally(self._study, self.held.statistic, self.notes)

    def to_bytes(self) -> bytes:
        """The bytes of the tally of all reports so far; they name the study by its fingerprint."""
        return parquet_bytes(tally_table(self.held))

    @classmethod
    def from_bytes(cls, data: Buffer) -> Accumulator:
        """Read what `to_bytes` of an accumulator or of a tally gave; it must not know its study.

        Raises:
            FormatError: If the bytes are damaged, newer, or hold something else.
        """
        found = read_tally(pa.py_buffer(as_bytes(data)))
        keep = kept_by(found.statistic)
        made = cls(found.fingerprint, found.columns, found.statistic.layouts, keep)
        made._put(found.statistic)
        made._counted = found.statistic.count
        made.notes = found.notes
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as bytes, without the study."""
        return Accumulator.from_bytes, (self.to_bytes(),)


def _size(part: AnyStatistic) -> int:
    """How many rows a counted part takes."""
    if isinstance(part, SymbolCounts):
        return len(part.people)
    return part.count if isinstance(part, BitReports) else 1


def tally_of(study: Study, reports: SomeReports, keep: Keep = "reports") -> Tally:
    """Reduce reports of a study to a tally, part by part.

    Args:
        study: The study that the reports belong to.
        reports: Reports, their Arrow table or bytes, or several of these.
        keep: What the tally keeps.
    """
    found = accumulator_of(study, keep)
    for part in in_parts(reports):
        found.add(part)
    return found.freeze()


def accumulator_of(study: Study, keep: Kept = "reports") -> Accumulator:
    """An empty accumulator of a study.

    Args:
        study: The study.
        keep: What the tally keeps.
    """
    return Accumulator(study.fingerprint, study.columns, study.layouts, keep, study)
