"""What every engine does: tally the reports in files, and encode the people in files."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from sfumato.collect.engines.encoding import encode_files
from sfumato.collect.engines.tallying import tally_files
from sfumato.collect.engines.workers import Seen, Workers
from sfumato.collect.stores import Paths, find_files
from sfumato.collect.tally import Tally
from sfumato.study.study import Study
from sfumato.verbs import WhatToKeep


class Engine(Workers):
    """Where files are read: by threads of this process, on Dask or on Spark.

    `sf.engines.local()`, `sf.engines.dask(...)` and `sf.engines.spark(...)` make one. All give the
    same tally of the same files, bit for bit. In a `with` block, an engine that started a cluster
    of its own ends it.
    """

    def close(self) -> None:
        """End what this engine started."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def tally(
        self,
        study: Study,
        paths: Paths,
        *,
        keep: WhatToKeep = "reports",
        skip_damaged: bool = False,
        seen: Seen | None = None,
    ) -> Tally:
        """The tally of the reports in files, of any kind that `sfumato tally` takes.

        Only paths travel to the workers, and only tallies come back. They merge on the workers, so
        that this process holds few of them.

        Args:
            study: The study.
            paths: Files, as paths, patterns such as ``reports/*.parquet``, or URLs of object
                stores (``s3://``, ``gs://``, ``hdfs://``).
            keep: What the tally keeps, as in `Study.accumulator`.
            skip_damaged: Leave damaged files out, which every answer then says.
            seen: Told how many reports have been tallied, and how many there are.

        Raises:
            MismatchError: If a file belongs to another study; before any work.
            FormatError: If a file is damaged; it is named.
            EngineError: If the engine or a store fails.

        Example:
            >>> import sfumato as sf
            >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
            >>> study.encode({"age": [31, 42]}).save("monday.parquet")
            >>> study.encode({"age": [77]}).save("tuesday.parquet")
            >>> sf.engines.local().tally(study, "*day.parquet").n
            3
        """
        found = study.accumulator(keep)
        files = find_files(paths)
        found.merge(
            tally_files(self, found, files, skip_damaged=skip_damaged, seen=seen or _unseen)
        )
        return found.freeze()

    def encode(
        self,
        study: Study,
        people: Paths,
        out: str | Path,
        *,
        seen: Seen | None = None,
    ) -> int:
        r"""Perturb the people in files into a folder of reports, one file for each part of a file.

        The noise is drawn by the workers, from the operating system's secure source. A file of
        reports is written whole or not at all. If a worker is lost and its task is repeated, the
        first file that was complete stays, so that nobody has two reports in the folder. If
        anything is refused, all files of this call are removed again.

        Args:
            study: The study.
            people: Files that end in .csv, .csv.gz or .parquet, as for `tally`.
            out: A folder or the URL of one, which is new or empty.
            seen: Told how many files have been written, and how many there will be.

        Returns:
            How many people were encoded.

        Raises:
            DataError: If a value does not fit; the file and its rows are named, values never.
            EngineError: If the engine or a store fails, or the folder is not empty.

        Example:
            >>> import sfumato as sf
            >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
            >>> from pathlib import Path
            >>> _ = Path("people.csv").write_text("age\n31\n42\n77\n")
            >>> sf.engines.local().encode(study, "people.csv", "reports")
            3
            >>> sf.engines.local().tally(study, "reports/*.parquet").n
            3
        """
        return encode_files(self, study, find_files(people), str(out), seen=seen or _unseen)


def _unseen(done: int, total: int) -> None:
    """Tell nobody."""
