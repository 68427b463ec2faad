"""Tallies: the collector's state. Tallies of one study can be added; others are refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.collect.block_sums import AnyStatistic, kept_by
from sfumato.collect.packing import Form, reports_from_bytes
from sfumato.collect.parquet import (
    MOST_PEOPLE,
    Source,
    parquet_bytes,
    reports_from_arrow,
    write_parquet,
)
from sfumato.collect.query_results import statistic_from_result
from sfumato.collect.statistics import merged
from sfumato.collect.tally_files import Held, read_tally, tally_table
from sfumato.errors import DataError, FormatError, MismatchError, StudyError, TooLargeError, shown
from sfumato.study.reports import Reports
from sfumato.study.study import Study
from sfumato.verbs import SomeReports, TallyVerbs


@dataclass(frozen=True, slots=True, eq=False)
class Tally(TallyVerbs):
    """Reports of one study, reduced to a statistic from which answers are computed.

    Args:
        study: The study.
        statistic: Counts of symbols, or the reports themselves if some are bits; or sums for each
            block by itself.
        notes: What to know about the tally, such as files that were left out; every answer says it.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
        >>> first, second = study.simulate({"age": [31] * 50}, seed=1), study.empty_tally()
        >>> (first + second) == first
        True
    """

    study: Study
    statistic: AnyStatistic
    notes: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """Number of reports."""
        return self.statistic.count

    def __len__(self) -> int:
        return self.n

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<tally of {self.n:,} reports of study {self.study.name!r}>"

    def __add__(self, other: Tally) -> Tally:
        if not isinstance(other, Tally):
            return NotImplemented
        if other.study.fingerprint != self.study.fingerprint:
            raise MismatchError(
                f"a tally of study {other.study.name!r} ({other.study.fingerprint[:12]}) cannot be "
                f"added to one of {self.study.name!r} ({self.study.fingerprint[:12]}): "
                "only tallies of one study add up"
            )
        refuse_many(self.n + other.n)
        if kept_by(self.statistic) != kept_by(other.statistic):
            raise MismatchError(
                "one of these tallies keeps sums and the other reports, or other sums, so they do "
                'not add up; merge both into study.accumulator(keep="sums")'
            )
        statistic = merged([self.statistic, other.statistic])
        return Tally(self.study, statistic, joined_notes(self.notes, other.notes))

    def __radd__(self, other: object) -> Tally:
        """Let `sum(tallies)` start from 0."""
        return self if other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Tally)
            and self.study.fingerprint == other.study.fingerprint
            and self.statistic == other.statistic
            and self.notes == other.notes
        )

    __hash__ = None  # type: ignore[assignment]

    def save(self, path: str | Path) -> None:
        """Write a Parquet file."""
        write_parquet(tally_table(self.held), path)

    def to_bytes(self) -> bytes:
        """The bytes of the Parquet file that `save` writes, for a database or a message.

        Example:
            >>> import sfumato as sf
            >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
            >>> tally = study.simulate({"age": [31] * 50}, seed=1)
            >>> Tally.from_bytes(tally.to_bytes(), study) == tally
            True
        """
        return parquet_bytes(tally_table(self.held))

    @property
    def held(self) -> Held:
        """What a file of the tally holds."""
        return Held(self.study.fingerprint, self.study.columns, self.statistic, self.notes)

    @classmethod
    def load(cls, path: str | Path, study: Study) -> Tally:
        """Read a Parquet file; a tally of another study is refused.

        Args:
            path: A file written by `save`.
            study: The study that the tally belongs to.

        Raises:
            FormatError: If the file is missing, damaged, newer, or holds something else.
            MismatchError: If it holds a tally of another study.
        """
        return cls._read(path, study)

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview, study: Study) -> Tally:
        """Read what `to_bytes` gave, or the bytes of a file, as strictly as `load` does.

        Args:
            data: The bytes.
            study: The study that the tally belongs to.

        Raises:
            FormatError: If the bytes are damaged, newer, or hold something else.
            MismatchError: If they hold a tally of another study.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise FormatError(f"a tally must be read from bytes, got {shown(data)}")
        return cls._read(pa.py_buffer(bytes(data)), study)

    @classmethod
    def from_arrow(cls, study: Study, table: pa.Table) -> Tally:
        """Read the result of a query that `Study.sql` wrote; it is checked row by row.

        Args:
            study: The study whose query was run.
            table: All columns and rows of the result, in any order.

        Raises:
            FormatError: If columns are missing or unknown, or hold what no query gives.
            MismatchError: If it is the result of another study's query.
            TooLargeError: If the reports that it stands for are too many to be kept.
        """
        _check_study(study)
        return cls(study, statistic_from_result(study, table))

    @classmethod
    def _read(cls, source: Source, study: Study) -> Tally:
        """The tally in a Parquet file, wherever that is."""
        _check_study(study)
        found = read_tally(source, study)
        return cls(study, found.statistic, found.notes)


def _check_study(study: Study) -> None:
    """Refuse what is no study."""
    if not isinstance(study, Study):
        raise StudyError(f"study must be a Study, got {type(study).__name__}; load it first")


def sends_bits(study: Study) -> bool:
    """Whether some block of a study sends bits, so that its tallies keep all reports."""
    _check_study(study)
    return any(layout.kind == "bits" for layout in study.layouts)


def refuse_many(people: int) -> None:
    """Refuse more people than a tally can count."""
    if people > MOST_PEOPLE:
        raise TooLargeError(
            f"a tally counts at most {MOST_PEOPLE:,} people, and these are {people:,}; check where "
            "they come from"
        )


def joined_notes(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """The notes of a sum of two tallies, in an order that does not depend on theirs.

    Args:
        first: The notes of one.
        second: Those of the other.
    """
    return tuple(sorted({*first, *second}))


def in_parts(reports: SomeReports) -> Iterator[Any]:
    """Parts of reports, one after another: they may be more than the memory holds at once.

    Args:
        reports: Reports, their Arrow table or bytes, or several of these.
    """
    if isinstance(reports, (Reports, pa.Table, pa.RecordBatch, bytes, bytearray, memoryview)):
        return iter([reports])
    try:
        return iter(reports)
    except TypeError:
        raise _no_reports(reports) from None


def checked_part(form: Form, part: Any) -> Reports:
    """Reports, which must be of a study.

    Args:
        form: The study, or what else knows its reports.
        part: Reports, their Arrow table or record batch, or their bytes.
    """
    if isinstance(part, (bytes, bytearray, memoryview)):
        return reports_from_bytes(part, form)
    held = pa.Table.from_batches([part]) if isinstance(part, pa.RecordBatch) else part
    held = reports_from_arrow(held, "the table") if isinstance(held, pa.Table) else held
    if not isinstance(held, Reports):
        raise _no_reports(held)
    form.refuse_other(held.fingerprint, "this set of reports")
    if (held.names, held.layouts) != (form.columns, form.layouts):
        raise FormatError("these reports have damaged metadata; encode them again")
    return held


def _no_reports(found: Any) -> DataError:
    return DataError(
        f"a tally takes Reports, their Arrow tables or their bytes, got {type(found).__name__}"
    )
