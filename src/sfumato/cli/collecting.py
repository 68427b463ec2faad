"""Commands of the device and the collector: encode, tally."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.parquet as pq
import typer

from sfumato.cli import people, showing
from sfumato.cli.commands import CommandError
from sfumato.cli.options import AsJson, Force, Seed, StudyFile, load_study, suffix, target
from sfumato.cli.showing import Seen
from sfumato.collect import parquet as wire
from sfumato.collect.tally import Tally
from sfumato.errors import FormatError
from sfumato.files import write_whole
from sfumato.randomness.bits import SecureBits, SeededBits
from sfumato.study.reports import Reports
from sfumato.study.study import Study

_REPORTS_AT_ONCE = 1 << 20


def encode(
    study: StudyFile,
    table: Annotated[
        Path, typer.Argument(metavar="INPUT", help="People's values, .csv, .csv.gz or .parquet.")
    ],
    out: Annotated[Path, typer.Option(help="File for the reports, .parquet.")],
    seed: Seed = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Perturb people's values: only the reports may leave the device.

    The file needs a column for every axis of the study; others are not read.
    """
    loaded = load_study(study)
    target(out, "reports", ".parquet", force=force, inputs=(study, table))
    if seed is not None:
        showing.warn(
            f"--seed {seed} makes the noise known to anyone who knows the seed: "
            "these reports protect nobody; use them for experiments only"
        )
    bits = SecureBits() if seed is None else SeededBits(seed)
    # The shape of a report does not depend on whose it is: an empty table shows it.
    names = [axis.name for axis in loaded.axes]
    schema = loaded.encode({name: pa.array([], pa.string()) for name in names}).to_arrow().schema
    count = 0

    def write(file: Path) -> None:
        nonlocal count
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for reports in people.encode_file(loaded, table, bits, seen):
                writer.write_table(reports.to_arrow())
                count += len(reports)

    with showing.progress(f"Encoding {table.name}") as seen:
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
        showing.say(f"Encoded {count:,} people of study {loaded.name!r} into {out}.")


def tally(
    study: StudyFile,
    inputs: Annotated[
        list[Path], typer.Argument(metavar="REPORTS", help="Reports or tallies, .parquet.")
    ],
    out: Annotated[Path, typer.Option(help="File for the tally, .parquet.")],
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Reduce reports to what answers need; tallies among the files are added."""
    loaded = load_study(study)
    target(out, "tally", ".parquet", force=force, inputs=(study,))
    _check_inputs(inputs)
    with showing.progress("Tallying") as seen:
        total = add_up(loaded, _parts(loaded, inputs, seen))
    total.save(out)
    if as_json:
        showing.show_json(
            {
                "file": str(out),
                "reports": total.n,
                "inputs": len(inputs),
                "study": loaded.name,
                "fingerprint": loaded.fingerprint,
            }
        )
    else:
        showing.say(f"Tallied {total.n:,} reports of study {loaded.name!r} into {out}.")


def add_up(study: Study, parts: Iterator[Tally]) -> Tally:
    """The sum of tallies, merged in pairs of like size so that each is copied a few times only.

    Args:
        study: Whose tallies they are.
        parts: The tallies.
    """
    held: list[Tally] = []
    for part in parts:
        held.append(part)
        while len(held) > 1 and held[-2].n <= held[-1].n:
            held[-2:] = [held[-2] + held[-1]]
    return sum(reversed(held), study.empty_tally())


def load_tally(path: Path, study: Study) -> Tally:
    """The tally in a file.

    Args:
        path: The file.
        study: Whose tally it must be.
    """
    suffix(path, "tally", ".parquet")
    return Tally.load(path, study)


def _check_inputs(inputs: Sequence[Path]) -> None:
    """Refuse a file that is not there, or one named twice: its people would count twice."""
    seen: set[Path] = set()
    for path in inputs:
        suffix(path, "reports or tally", ".parquet")
        if not path.is_file():
            raise FormatError(f"there is no file {str(path)!r}; check the path")
        if path.resolve() in seen:
            raise CommandError(
                f"{str(path)!r} is named twice, so its people would count twice; name it once"
            )
        seen.add(path.resolve())


def _parts(study: Study, inputs: Sequence[Path], seen: Seen) -> Iterator[Tally]:
    """Tallies of every file, a bounded number of reports at a time."""
    total = sum(path.stat().st_size for path in inputs)
    done = 0
    for path in inputs:
        size = path.stat().st_size
        with wire.open_parquet(path) as file:
            rows = max(file.metadata.num_rows, 1)
            read = 0
            if _is_tally(file.schema_arrow):
                yield Tally.load(path, study)
            else:
                for reports in _reports(study, file, path):
                    yield study.tally(reports)
                    read += len(reports)
                    seen(done + size * read // rows, total)
        done += size
        seen(done, total)


def _is_tally(schema: pa.Schema) -> bool:
    """Whether a file says that it holds a tally."""
    try:
        wire.read_head(schema, "tally", "the file")
    except FormatError:
        return False
    return True


def _reports(study: Study, file: pq.ParquetFile, path: Path) -> Iterator[Reports]:
    """The reports in a file, which must be of this study."""
    what, schema = repr(str(path)), file.schema_arrow
    study.refuse_other(Reports.from_arrow(schema.empty_table(), what=what).fingerprint, what)
    for part in wire.read_parts(file, path, study.columns, _REPORTS_AT_ONCE):
        yield Reports.from_arrow(part, what=what)
