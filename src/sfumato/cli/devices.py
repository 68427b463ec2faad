"""Commands around devices: program, send, pack, unpack."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli import people, showing
from sfumato.cli.commands import CommandError
from sfumato.cli.options import (
    AsJson,
    Columns,
    Delimiter,
    Encoding,
    Force,
    Missing,
    StudyFile,
    load_study,
    real_number,
    suffix,
    table_form,
    target,
)
from sfumato.device.client import Client, Made, Sent
from sfumato.device.program import Program
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


def send(
    study: Annotated[
        Path,
        typer.Argument(metavar="STUDY", help="Study file, .toml, or its device program, .json."),
    ],
    table: Annotated[
        Path,
        typer.Argument(
            metavar="INPUT", help="People's values, .csv or .csv.gz; - reads standard input."
        ),
    ],
    url: Annotated[str, typer.Option(metavar="URL", help="Where the collector's routes begin.")],
    folder: Annotated[
        Path, typer.Option(help="Where reports, queue and ledger are kept; made if not there.")
    ],
    round_: Annotated[
        str, typer.Option("--round", metavar="NAME", help="What this round is called.")
    ] = "",
    person: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Who a row is about; without it, its row number."),
    ] = None,
    limit: Annotated[
        str | None,
        typer.Option(metavar="E", help="The most that a person may spend in all rounds together."),
    ] = None,
    digest: Annotated[
        str | None,
        typer.Option(metavar="HEX", help="The digest that a device program must have."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File with the collector's token, or $SFUMATO_TOKEN."),
    ] = None,
    wait: Annotated[
        float,
        typer.Option(
            parser=real_number, metavar="SECONDS", help="How long to try again after a failure."
        ),
    ] = 0.0,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    missing: Missing = None,
    columns: Columns = None,
    as_json: AsJson = False,
) -> None:
    """Report for every person in a file, and send the reports to a collector.

    Each row is one person. Only the reports are sent, never a value or who a person is. The whole
    file is checked before anybody is charged. The folder remembers every report: running the
    command again with the same round makes none twice, and sends what still waits.

    Without --person a row number stands for the person, so every round needs the same people in the
    same rows. The exit code is 1 if a report waits, is refused or has expired.
    """
    if wait < 0:
        raise CommandError(f"--wait must be zero or more seconds, got {wait:g}")
    if not people.is_stream(table):
        suffix(table, "people's", ".csv", ".csv.gz")
    form = table_form(delimiter, encoding, missing, columns)
    program = _program(study, digest)
    if person in {axis.name for axis in program.axes}:
        raise CommandError(
            f"--person must not name an axis of the study, got {person!r}: values must not be kept "
            "in the folder; name another column"
        )
    token = _token(token_file)
    with showing.progress(f"Reading {table.name}") as seen:
        records = people.read_records(program, table, person, seen, form)
    with Client(
        program, url, folder=folder, digest=program.digest, limit=limit, token=token
    ) as client:
        with showing.progress("Making reports") as seen:
            made = client.report_all(records, round=round_, seen=seen)
        if not as_json:
            _say_made(made, program.name)
        with showing.progress("Sending"):
            sent = client.send(wait=wait)
    if as_json:
        showing.show_json(
            {
                "study": program.name,
                "fingerprint": program.fingerprint,
                "round": round_,
                "people": len(records),
                "made": made.made,
                "remembered": made.remembered,
                "accepted": sent.accepted,
                "repeated": sent.repeated,
                "refused": sent.refused,
                "expired": sent.expired,
                "waiting": sent.waiting,
                "retry_after": sent.retry_after,
                "reason": sent.reason,
            }
        )
    else:
        _say_sent(sent)
    if sent.waiting or sent.refused or sent.expired:
        raise typer.Exit(1)


def _program(path: Path, digest: str | None) -> Program:
    """The device program of a study file, or the one in a file, which has the pinned digest."""
    suffix(path, "study or device program", ".toml", ".json")
    if path.name.lower().endswith(".toml"):
        text: str | bytes = load_study(path).device_program().to_text()
    elif digest is None:
        raise CommandError(
            "a device program must have the digest that was pinned, and none is given; add "
            "--digest, which 'sfumato program' states"
        )
    else:
        text = _read(path)
    return Program.read(text, digest=digest)


def _token(path: Path | None) -> str | None:
    """The collector's token, from a file or the environment; it is never shown."""
    if path is None:
        return os.environ.get("SFUMATO_TOKEN")
    try:
        return _read(path).decode("ascii").strip()
    except UnicodeDecodeError:
        raise CommandError(
            f"a token must be a text of printable ASCII characters, and {str(path)!r} holds "
            "others; correct the file"
        ) from None


def _say_made(made: Made, name: str) -> None:
    """What was made."""
    before = f"; {made.remembered:,} had been made before" if made.remembered else ""
    showing.say(f"Made {_reports(made.made)} of study {name!r}{before}.")


def _say_sent(sent: Sent) -> None:
    """What was sent, and when to try again."""
    if sent == Sent():
        showing.say("Nothing waits to be sent.")
        return
    showing.say(f"The collector has stored {_reports(sent.accepted)}.")
    for count, what in (
        (sent.repeated, "had been stored before"),
        (sent.refused, "refused for good"),
        (sent.expired, "expired, and can no longer count"),
    ):
        if count:
            showing.say(f"{_reports(count)} {what}.")
    if sent.retry_after is not None:
        showing.say(
            f"{_reports(sent.waiting)} waiting: {sent.reason}. Run the command again in "
            f"{_count(math.ceil(sent.retry_after), 'second')} or later."
        )


def _reports(count: int) -> str:
    """How many reports, in words."""
    return _count(count, "report")


def _count(count: int, what: str) -> str:
    """How many of something, in words."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


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
