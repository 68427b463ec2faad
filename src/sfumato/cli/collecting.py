"""Commands of the device and the collector: encode, tally."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
import typer

from sfumato.arrays import Floats
from sfumato.cli import people, showing
from sfumato.cli.commands import CommandError
from sfumato.cli.options import (
    AsJson,
    Columns,
    Delimiter,
    Encoding,
    Force,
    KeepSums,
    Missing,
    Seed,
    StudyFile,
    load_study,
    suffix,
    table_form,
    target,
)
from sfumato.cli.showing import Seen
from sfumato.collect import parquet as wire
from sfumato.collect.accumulator import Accumulator
from sfumato.collect.engines import choose as engines
from sfumato.collect.engines.choose import FORMS
from sfumato.collect.engines.journal import Journal
from sfumato.collect.engines.tallying import tally_files
from sfumato.collect.people import reports_writer
from sfumato.collect.stores import find_files, is_url, refuse_missing
from sfumato.collect.tally import Tally
from sfumato.collect.weighted import WeightedTally
from sfumato.domains.tables import PLAIN, TableForm
from sfumato.errors import EngineError, FormatError
from sfumato.files import write_whole
from sfumato.randomness.bits import SecureBits, SeededBits
from sfumato.study.reports import Reports
from sfumato.study.study import Study

_REPORTS_AT_ONCE = 1 << 20


def encode(
    study: StudyFile,
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT",
            help="People's values, .csv, .csv.gz or .parquet; - reads CSV from standard input.",
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            help="File for the reports, .parquet; - writes Parquet to standard output. With "
            "--engine, a new folder for files of reports."
        ),
    ],
    engine: Annotated[
        str | None, typer.Option(metavar="ENGINE", help=f"Encode many files: {FORMS}.")
    ] = None,
    seed: Seed = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    missing: Missing = None,
    columns: Columns = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Perturb people's values: only the reports may leave the device.

    The input needs a column for every axis of the study; others are not read. It is read and
    written in parts, so it may be larger than the memory. A file is written whole or not at all. If
    standard output gets the reports, an error leaves a stream without its end, which no reader of
    Parquet takes for a whole one, and the exit code is not 0.

    With --engine, several files are encoded in parts, by threads or on a cluster whose workers draw
    the noise. Each part becomes one file of reports in a new folder. Files may be URLs, such as
    s3://bucket/people/*.parquet, and so may the folder.
    """
    loaded, form = load_study(study), table_form(delimiter, encoding, missing, columns)
    if engine is not None:
        if form != PLAIN:
            raise CommandError(
                "--engine reads files as they are; leave --delimiter, --encoding, --na and "
                "--columns out, or encode file by file"
            )
        if seed is not None:
            raise CommandError("--seed does not go with --engine, whose workers draw secure noise")
        _encode_files(loaded, tables, out, engine, as_json)
        return
    if len(tables) > 1 or is_url(tables[0]) or is_url(out):
        raise CommandError(
            "several files, and URLs, are encoded into a folder: name an engine, such as "
            "--engine local"
        )
    _encode_file(loaded, study, Path(tables[0]), Path(out), form, seed, force, as_json)


def _encode_files(study: Study, tables: Sequence[str], out: str, name: str, as_json: bool) -> None:
    """Encode files into a folder by an engine."""
    with engines.named(name) as engine, showing.progress("Encoding", unit="files") as seen:
        count = engine.encode(study, tables, out, seen=seen)
    if as_json:
        showing.show_json(
            {
                "folder": out,
                "people": count,
                "study": study.name,
                "fingerprint": study.fingerprint,
            }
        )
    else:
        showing.say(f"Encoded {count:,} people of study {study.name!r} into {out}.")


def _encode_file(
    loaded: Study,
    study: Path,
    table: Path,
    out: Path,
    form: TableForm,
    seed: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Encode a file or standard input into one file or standard output."""
    streamed = people.is_stream(out)
    if streamed:
        _check_stdout(as_json)
    else:
        target(out, "reports", ".parquet", force=force, inputs=(study, table))
    if seed is not None:
        showing.warn(
            f"--seed {seed} makes the noise known to anyone who knows the seed: "
            "these reports protect nobody; use them for experiments only"
        )
    bits = SecureBits() if seed is None else SeededBits(seed)
    count = 0
    what = "standard input" if people.is_stream(table) else table.name

    def write(file: Path | _Outlet) -> None:
        nonlocal count
        with reports_writer(loaded, file) as writer:
            try:
                for reports in people.encode_file(loaded, table, bits, seen, form):
                    writer.write_table(reports.to_arrow())
                    count += len(reports)
                    if people.is_stream(table):
                        seen(0, 0, f"Encoding {what}: {count:,} people")
            except BaseException:
                if isinstance(file, _Outlet):
                    file.is_cut = True
                raise

    with showing.progress(f"Encoding {what}") as seen:
        if streamed:
            write(_Outlet())
        else:
            write_whole(out, write)
    if as_json:
        showing.show_json(
            {
                "file": str(out),
                "people": count,
                "study": loaded.name,
                "fingerprint": loaded.fingerprint,
                "seed": seed,
            }
        )
    else:
        say = showing.note if streamed else showing.say
        place = "standard output" if streamed else out
        say(f"Encoded {count:,} people of study {loaded.name!r} into {place}.")


def _check_stdout(as_json: bool) -> None:
    """Refuse reports on a standard output that is for something else."""
    if as_json:
        raise CommandError("--json prints on standard output, where --out - puts the reports")
    if sys.stdout.isatty():
        raise CommandError("--out - writes bytes, and this is a terminal; name a file, or add a |")


class _Outlet(io.RawIOBase):
    """Standard output, on which nothing more appears once it is cut: not the end of a file either.

    A writer of Parquet writes the end of the file whenever it is closed, also after an error.
    """

    is_cut = False

    def writable(self) -> bool:
        """It is written to."""
        return True

    def write(self, data: Any) -> int:
        """Write bytes, unless it is cut."""
        if not self.is_cut:
            try:
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
            except BrokenPipeError:
                self.is_cut = True
                raise CommandError(
                    "standard output was closed before all reports were written"
                ) from None
            except OSError as error:
                self.is_cut = True
                raise CommandError(
                    f"cannot write to standard output: {error.strerror}; what it has lacks its "
                    "end, so that no reader takes it for whole. Make room and run the command again"
                ) from None
        return len(memoryview(data).cast("B"))


def tally(
    study: StudyFile,
    reports: Annotated[
        list[str],
        typer.Argument(
            metavar="REPORTS",
            help="Reports or tallies, .parquet; packed reports; batches as devices send them; URLs "
            "and patterns of these, such as s3://bucket/reports/*.parquet.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="File for the tally, .parquet.")],
    sums: KeepSums = False,
    question: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUESTION",
            help="Keep sums for this question or marginal alone; may be repeated.",
        ),
    ] = None,
    skip_damaged: Annotated[
        bool,
        typer.Option("--skip-damaged", help="Leave damaged files out; every answer will say so."),
    ] = False,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Public weights: this column, of the reports' files or of --weights-from.",
        ),
    ] = None,
    weights_from: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Weights in the order of all reports, .csv, .csv.gz or .parquet.",
        ),
    ] = None,
    engine: Annotated[
        str, typer.Option(metavar="ENGINE", help=f"Who reads the files: {FORMS}.")
    ] = "local",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Reduce reports to what answers need; tallies among the files are added.

    Files are read in parts, on all processors, so they may be larger than the memory. All of them
    are looked at before any work starts. What is done is kept beside the output, in a file that
    ends in .journal: if the command is stopped, run it again and it goes on from there.

    If an axis sends bits, the tally keeps all reports, or with --sums only how many had each bit
    set. Sums give the same unbiased answers about one axis, and none about several.

    With --question the tally keeps sums that answer these questions, also about several axes, and
    marginals such as "marginal age, mode"; its size does not depend on the number of reports.

    With --engine the files are read by the workers of a Dask or Spark cluster, which must find them
    by the same paths or URLs. The tally is the same.

    With --weights every report counts as often as its weight says. Weights are public: a number
    that must be hidden is an axis of the study, and its sum is asked for with 'ask --total'.
    """
    loaded = load_study(study)
    target(out, "tally", ".parquet", force=force, inputs=(study,))
    inputs = find_files(reports)
    for path in inputs:
        refuse_missing(path)
    weighted = _is_weighted(inputs, weights, weights_from)
    if sums and question:
        raise CommandError("--sums does not go with --question; leave one of them out")
    if weighted and (sums or question or skip_damaged):
        option = "--sums" if sums else "--question" if question else "--skip-damaged"
        raise CommandError(f"{option} does not go with weights; leave one of them out")
    if weighted and (engine != "local" or any(map(is_url, inputs))):
        raise CommandError("weights need files of this machine, and no --engine but 'local'")
    total: Tally | WeightedTally
    if weighted:
        with showing.progress("Tallying") as seen:
            paths = list(map(Path, inputs))
            given = _Weights(loaded, paths, weights, weights_from)
            total = _add_up(_parts(loaded, paths, seen, given), loaded.tally([], weights=[]))
        total.save(out)
    else:
        keep: Any = question or ("sums" if sums else "reports")
        total = _tally_files(loaded.accumulator(keep=keep), inputs, out, skip_damaged, engine)
    if as_json:
        showing.show_json(
            {
                "file": str(out),
                "reports": total.n,
                **({"weight": total.weight} if isinstance(total, WeightedTally) else {}),
                "inputs": len(inputs),
                "study": loaded.name,
                "fingerprint": loaded.fingerprint,
                **({"notes": list(total.notes)} if isinstance(total, Tally) else {}),
            }
        )
    else:
        heavy = f", of weight {total.weight:,.6g}," if isinstance(total, WeightedTally) else ""
        showing.say(f"Tallied {total.n:,} reports{heavy} of study {loaded.name!r} into {out}.")


def _tally_files(
    found: Accumulator, inputs: Sequence[str], out: Path, skip_damaged: bool, name: str
) -> Tally:
    """Tally files without weights into a file, and remove the journal once that is safe."""
    with engines.named(name) as engine, showing.progress("Tallying", unit="reports") as seen:
        # Files that a cluster reads are not read once more here for their digests.
        journal = Journal(out.with_name(f"{out.name}.journal"), digest=engine.are_here)
        try:
            part = tally_files(
                engine,
                found,
                inputs,
                skip_damaged=skip_damaged,
                journal=journal,
                seen=seen,
                say=showing.note,
            )
        except EngineError as error:
            raise EngineError(f"{error}; {_kept(journal, inputs)}") from None
    found.merge(part)
    total = found.freeze()
    try:
        total.save(out)
    except OSError as error:
        raise CommandError(
            f"cannot write {str(out)!r}: {error.strerror}; a file that was there is as it was. "
            f"Make room and run the command again: {_kept(journal, inputs)}"
        ) from None
    journal.remove()
    for note in total.notes:
        showing.warn(note)
    return total


def _kept(journal: Journal, inputs: Sequence[str]) -> str:
    """What is kept of a run that failed."""
    if not journal.files:
        return "the same command starts over"
    return (
        f"{len(journal.files):,} of {len(inputs):,} files are kept in {str(journal.path)!r}, and "
        "the same command goes on from there"
    )


def _add_up(parts: Iterator[WeightedTally], empty: WeightedTally) -> WeightedTally:
    """The sum of tallies, merged in pairs of like size so that each is copied a few times only.

    Args:
        parts: The tallies.
        empty: The tally of nobody, the sum of none.
    """
    held: list[WeightedTally] = []
    for part in parts:
        held.append(part)
        while len(held) > 1 and held[-2].n <= held[-1].n:
            held[-2:] = [held[-2] + held[-1]]
    return sum(reversed(held), empty)


def load_tally(path: Path, study: Study) -> Tally | WeightedTally:
    """The tally in a file, with or without weights; reports are tallied.

    Args:
        path: The file; "-" is standard input.
        study: Whose tally it must be.
    """
    is_stream = people.is_stream(path)
    if not is_stream:
        suffix(path, "tally or reports", ".parquet", ".sfmr")
    elif sys.stdin.isatty():
        raise CommandError("- reads standard input, and this is a terminal; name a file, or use |")
    packed = None
    if is_stream or path.suffix.lower() == ".sfmr":
        packed = sys.stdin.buffer.read() if is_stream else path.read_bytes()
        if packed[:4] != b"PAR1":
            return study.tally(Reports.from_bytes(packed, study))
    source: Any = path if packed is None else pa.py_buffer(packed)
    with wire.open_parquet(source) as file:
        kind = wire.kind_of(file.schema_arrow)
        if kind == "reports":
            return study.tally(_reports(study, file, path))
    if packed is not None:
        if kind == "weighted tally":
            raise CommandError("a weighted tally is read from a file, not from standard input")
        return Tally.from_bytes(packed, study)
    return WeightedTally.load(path, study) if kind == "weighted tally" else Tally.load(path, study)


def _is_weighted(inputs: Sequence[str], weights: str | None, weights_from: Path | None) -> bool:
    """Whether the result is a weighted tally; files that cannot be added to one are refused."""
    if weights_from is not None and weights is None:
        raise CommandError("--weights-from needs --weights COLUMN, the column that holds them")
    kinds = {path: _kind(path) for path in inputs}
    if weights is None and "weighted tally" not in kinds.values():
        return False
    if weights is not None and "reports" not in kinds.values():
        raise CommandError(
            "--weights weighs reports, and no file holds reports in Parquet; name the files of the "
            "reports, or leave --weights out"
        )
    for path, kind in kinds.items():
        if kind == "weighted tally":
            continue
        if kind != "reports":
            held = "a tally" if str(kind).startswith("tally") else "no reports in Parquet"
            raise CommandError(
                f"{path!r} holds {held} without weights, and its reports can no longer be "
                "weighed; name the files of the reports instead"
            )
        if weights is None:
            raise CommandError(
                f"{path!r} holds reports, which have no weights to go with the weighted "
                "tallies; add --weights COLUMN"
            )
    return True


def _kind(path: str | Path) -> str | None:
    """What a file says that it holds; None if that cannot be read."""
    try:
        with wire.open_parquet(path) as file:
            return wire.kind_of(file.schema_arrow)
    except FormatError:
        return None


class _Weights:
    """The weights of the reports in each file."""

    def __init__(
        self, study: Study, inputs: Sequence[Path], column: str | None, held: Path | None
    ) -> None:
        """Read the weights that all files share, and refuse a wrong number of them."""
        self.column, self.rest = column, None
        if column is None:
            return
        if held is not None:
            self.rest = people.read_weights(held, column)
            paths = [path for path in inputs if _kind(path) == "reports"]
            reports = sum(pq.read_metadata(path).num_rows for path in paths)
            if len(self.rest) != reports:
                raise CommandError(
                    f"--weights-from must have one row per report, and {str(held)!r} has "
                    f"{len(self.rest):,} rows for {reports:,} reports"
                )
        elif column in study.columns:
            raise CommandError(
                f"column {column!r} holds the reports themselves; --weights needs a column of "
                "public weights"
            )

    def of(self, path: Path, reports: int) -> Floats:
        """The weights of the reports in the next file.

        Args:
            path: The file.
            reports: How many reports it holds.
        """
        if self.rest is None:
            return people.read_weights(path, str(self.column))
        found, self.rest = self.rest[:reports], self.rest[reports:]
        return found


def _parts(
    study: Study, inputs: Sequence[Path], seen: Seen, weights: _Weights
) -> Iterator[WeightedTally]:
    """Weighted tallies of every file, a bounded number of reports at a time."""
    total = sum(path.stat().st_size for path in inputs)
    done = 0
    for path in inputs:
        size = path.stat().st_size
        with wire.open_parquet(path) as file:
            rows, read = file.metadata.num_rows, 0
            if wire.kind_of(file.schema_arrow) == "weighted tally":
                yield WeightedTally.load(path, study)
            else:
                own = None
                for reports in _reports(study, file, path):
                    own = weights.of(path, rows) if own is None else own
                    yield study.tally(reports, weights=own[read : read + len(reports)])
                    read += len(reports)
                    seen(done + size * read // max(rows, 1), total)
        done += size
        seen(done, total)


def _reports(study: Study, file: pq.ParquetFile, path: Path) -> Iterator[Reports]:
    """The reports in a file, which must be of this study."""
    what, schema = repr(str(path)), file.schema_arrow
    study.refuse_other(Reports.from_arrow(schema.empty_table(), what=what).fingerprint, what)
    for part in wire.read_parts(file, path, study.columns, _REPORTS_AT_ONCE):
        yield Reports.from_arrow(part, what=what)
