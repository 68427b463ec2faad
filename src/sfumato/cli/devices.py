"""Commands around devices: program, pack, unpack."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli import showing
from sfumato.cli.commands import CommandError
from sfumato.cli.options import AsJson, Force, StudyFile, load_study, suffix, target
from sfumato.exact import nearest_float
from sfumato.files import write_whole
from sfumato.study.reports import Reports
from sfumato.text import odds


def program(
    study: StudyFile,
    out: Annotated[Path, typer.Option(help="File for the device program, .json.")],
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Compile a study for devices: one JSON file with all that encoding a record needs.

    Bundle the file with the app, and pin its digest: a client runs no other program.
    """
    loaded = load_study(study)
    target(out, "device program", ".json", force=force, inputs=(study,))
    compiled = loaded.device_program()
    text = compiled.to_text()
    write_whole(out, lambda file: file.write_text(text, encoding="utf-8"))
    if as_json:
        showing.show_json(
            {
                "file": str(out),
                "digest": compiled.digest,
                "study": loaded.name,
                "fingerprint": loaded.fingerprint,
                "bytes": len(text.encode()),
                "report_bytes": compiled.report_size,
                "most": None if compiled.most is None else str(compiled.most),
            }
        )
        return
    size = compiled.report_size
    showing.say(f"Wrote the device program of study {loaded.name!r} into {out}.")
    showing.say(f"A report has {size:,} {'byte' if size == 1 else 'bytes'}.")
    most = "without bound"
    if compiled.most is not None:
        e = nearest_float(compiled.most)
        most = f"at most {odds(e)} likelier from one person than from any other (E = {e:g})"
    showing.say(f"A report is {most}.")
    showing.say(f"Digest to pin: {compiled.digest}")


def pack(
    study: StudyFile,
    reports: Annotated[Path, typer.Argument(metavar="REPORTS", help="Reports, .parquet.")],
    out: Annotated[Path, typer.Option(help="File for the bytes, .sfmr.")],
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write reports as bytes, in the fewest whole bytes per report."""
    loaded = load_study(study)
    suffix(reports, "reports", ".parquet")
    target(out, "bytes", ".sfmr", force=force, inputs=(study, reports))
    found = Reports.load(reports)
    loaded.refuse_other(found.fingerprint, repr(str(reports)))
    data = found.to_bytes()
    write_whole(out, lambda file: file.write_bytes(data))
    _said(out, len(found), len(data), loaded.name, as_json, "Packed")


def unpack(
    study: StudyFile,
    data: Annotated[
        Path, typer.Argument(metavar="BYTES", help="Packed reports, or a batch as devices send it.")
    ],
    out: Annotated[Path, typer.Option(help="File for the reports, .parquet.")],
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Read bytes of reports back; the ids of a batch are left behind."""
    loaded = load_study(study)
    target(out, "reports", ".parquet", force=force, inputs=(study, data))
    raw = _read(data)
    found = Reports.from_bytes(raw, loaded)
    found.save(out)
    _said(out, len(found), len(raw), loaded.name, as_json, "Unpacked")


def _read(path: Path) -> bytes:
    """The bytes of a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise CommandError(f"cannot read {str(path)!r}: {error.strerror}") from None


def _said(out: Path, count: int, size: int, name: str, as_json: bool, done: str) -> None:
    """What was done."""
    if as_json:
        showing.show_json({"file": str(out), "reports": count, "bytes": size, "study": name})
    else:
        showing.say(f"{done} {count:,} reports of study {name!r}, {size:,} bytes, into {out}.")
