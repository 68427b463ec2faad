"""Reports: the perturbed records that devices send and collectors receive."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sfumato.arrays import Layout, Outputs, alike, join_outputs
from sfumato.checks import several
from sfumato.errors import DataError, MismatchError
from sfumato.verbs import ReportsVerbs


@dataclass(frozen=True, slots=True, eq=False)
class Reports(ReportsVerbs):
    """Perturbed records of one study, with `len`, slices, `+`, `==`, Arrow and Parquet.

    Args:
        fingerprint: The study's fingerprint.
        names: Names of the columns, one per block.
        layouts: How each block's output is written.
        outputs: The outputs of each block: symbols, or packed bits.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
        >>> reports = study.encode({"age": [31, 42, 77]})
        >>> len(reports), len(reports[1:]), reports.to_arrow().column_names
        (3, 2, ['age'])
    """

    fingerprint: str
    names: tuple[str, ...]
    layouts: tuple[Layout, ...]
    outputs: tuple[Outputs, ...]

    def __len__(self) -> int:
        return len(self.outputs[0])

    def __getitem__(self, rows: slice) -> Reports:
        if not isinstance(rows, slice):
            raise TypeError("reports are taken by slices, such as reports[:100]")
        part = tuple(column[rows] for column in self.outputs)
        return Reports(self.fingerprint, self.names, self.layouts, part)

    def __add__(self, other: Reports) -> Reports:
        return Reports.join([self, other])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reports) and alike(self, other)

    def __hash__(self) -> int:
        return hash((self.fingerprint, len(self)))

    def __repr__(self) -> str:
        noun = "report" if len(self) == 1 else "reports"
        return f"<{len(self):,} {noun} of study {self.fingerprint[:12]}>"

    @classmethod
    def join(cls, parts: Iterable[Reports]) -> Reports:
        """Concatenate reports of one study."""
        found = several(parts, "parts", error=DataError)
        if not found or not all(isinstance(part, Reports) for part in found):
            raise DataError("join() takes one or more Reports, got something else or none")
        for part in found[1:]:
            if part.fingerprint != found[0].fingerprint:
                raise MismatchError(
                    f"these reports belong to different studies ({found[0].fingerprint[:12]} and "
                    f"{part.fingerprint[:12]}); tally each with its own"
                )
        first = found[0]
        outputs = tuple(
            join_outputs(layout, [part.outputs[d] for part in found])
            for d, layout in enumerate(first.layouts)
        )
        return cls(first.fingerprint, first.names, first.layouts, outputs)
