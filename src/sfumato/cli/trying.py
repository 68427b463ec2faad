"""Commands for trying things out: simulate, demo."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.table import Table

from sfumato.cli import people, showing
from sfumato.cli.asking import Method, Seconds, answer_all, answers_document, opened, show_answers
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
    table_form,
    target,
    whole_number,
)
from sfumato.cli.people import read_counts
from sfumato.collect.tally import Tally
from sfumato.demo import run as demo_run
from sfumato.demo.collecting import PEOPLE, Running
from sfumato.demo.results import Collected, DemoRow
from sfumato.domains.tables import TableForm
from sfumato.randomness.bits import SeededBits
from sfumato.study.study import Study
from sfumato.text import format_to, interval_name

_MOST_DEMO = 10_000_000
_DEMO_FILES = ("study.toml", "tally.parquet", "index.html")


def simulate(
    study: StudyFile,
    seed: Annotated[
        int,
        typer.Option(
            parser=whole_number,
            metavar="N",
            help="Any whole number; the same one repeats the run.",
        ),
    ],
    table: Annotated[
        Path | None,
        typer.Argument(
            metavar="INPUT", help="People's values, .csv, .csv.gz or .parquet; - reads CSV."
        ),
    ] = None,
    counts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Instead of INPUT: a column for each axis, and a column count."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File for the tally, .parquet.")] = None,
    ask: Annotated[
        list[str] | None, typer.Option(metavar="QUESTION", help="Ask right away; repeatable.")
    ] = None,
    method: Method = "auto",
    seconds: Seconds = 3.0,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    missing: Missing = None,
    columns: Columns = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Encode and tally in one step with repeatable noise, for experiments.

    Nothing that comes out protects anybody: use it on made-up or public data.
    """
    loaded = load_study(study)
    if (table is None) == (counts is None):
        raise CommandError("name either a file of people or --counts FILE, one of the two")
    if out is None and not ask:
        raise CommandError("say what the result is for: --out TALLY.parquet, or --ask QUESTION")
    if out is not None:
        given = tuple(path for path in (study, table, counts) if path is not None)
        target(out, "tally", ".parquet", force=force, inputs=given)
    if table is not None:
        form = table_form(delimiter, encoding, missing, columns)
        made = _simulate_people(loaded, table, seed, form)
    else:
        made = loaded.simulate_counts(read_counts(loaded, cast("Path", counts)), seed=seed)
    with opened(made, method, seconds) as estimate:
        answers = answer_all(estimate, ask or [])
    if out is not None:
        made.save(out)
    written = {"file": None if out is None else str(out), "seed": seed}
    if as_json:
        showing.show_json({**written, **answers_document(estimate, answers)})
        return
    if ask:
        show_answers(estimate, ask, answers)
    if out is not None:
        showing.say(f"Simulated {made.n:,} reports of study {loaded.name!r} into {out}.")


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for what it makes.")] = Path(
        "sfumato-demo"
    ),
    number: Annotated[
        int,
        typer.Option("--people", parser=whole_number, metavar="N", help="How many made-up people."),
    ] = 100_000,
    seed: Annotated[
        int | None, typer.Option(parser=whole_number, metavar="N", help="Repeatable noise.")
    ] = None,
    collector: Annotated[
        bool,
        typer.Option(
            "--collector/--no-collector",
            help="Whether 20,000 of them also report to a collector over HTTP.",
        ),
    ] = True,
    stay: Annotated[
        bool, typer.Option("--stay", help="Leave the collector on until Ctrl-C, to look at it.")
    ] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Run a whole study on made-up people, and compare the answers with the truth.

    Some of them report to a collector on this computer, which is asked and stopped. A seed does not
    repeat their reports.
    """
    if not 1 <= number <= _MOST_DEMO:
        raise CommandError(
            f"--people must be a whole number from 1 to {_MOST_DEMO:,}, got {number}"
        )
    if stay and not collector:
        raise CommandError("--stay leaves the collector on, and --no-collector has none: drop one")
    _refuse_used(out, force)
    with showing.progress("making a town") as seen:
        result = demo_run.run(
            out,
            people=number,
            seed=seed,
            progress=lambda doing, share: seen(share, 1.0, doing),
            report=min(number, PEOPLE) if collector else 0,
            visit=_stay if stay else None,
        )
    if as_json:
        rows = [
            {"question": row.question, "truth": row.truth, "answer": row.answer.to_dict()}
            for row in result.rows
        ]
        told = {"people": number, "seed": seed, "rows": rows, "page": str(result.page)}
        showing.show_json({**told, "collector": _document(result.collected)})
        return
    showing.stdout().print(_compared(result.rows))
    held = sum(row.holds for row in result.rows)
    showing.say(f"{held} of {len(result.rows)} intervals hold the truth.")
    if isinstance(result.collected, str):
        showing.say(f"No collector was run: {result.collected}.")
    elif result.collected is not None:
        found = result.collected
        right = sum(row.holds for row in found.rows)
        showing.say(
            f"{found.people:,} people also reported to a collector over HTTP, in "
            f"{found.seconds:.1f} seconds; {right} of {len(found.rows)} of its intervals hold the "
            "truth. It has stopped; 'sfumato demo --stay' leaves it on."
        )
    showing.say(f"All of it, with pictures: {result.page}")


def _stay(running: Running) -> None:
    """Leave a collector on until Ctrl-C."""
    showing.say(f"The collector runs at {running.url}, until Ctrl-C. An administrator's token:")
    typer.echo(running.token)
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()


def _document(collected: Collected | str | None) -> dict[str, Any]:
    """What came of a collector, for JSON."""
    if not isinstance(collected, Collected):
        return {"reports": 0, "reason": collected}
    return {
        "reports": collected.people,
        "seconds": collected.seconds,
        "rows": [
            {"asked": row.ask, "truth": row.truth, "answer": row.answer.to_dict()}
            for row in collected.rows
        ],
    }


def _refuse_used(folder: Path, force: bool) -> None:
    """Refuse a folder with files of the same names, which may be somebody's own."""
    used = [name for name in _DEMO_FILES if (folder / name).exists()]
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"cannot write into {str(folder)!r}: it is a file; name a folder")
    if used and not force:
        raise CommandError(
            f"{str(folder / used[0])!r} exists; name another folder with --out, or "
            "replace its files with --force"
        )


def _compared(rows: Sequence[DemoRow]) -> Table:
    """Truth and answer side by side."""
    interval = interval_name(rows[0].answer.level)
    shown = showing.table(
        "question", "truth", "answer", interval, right=("truth", "answer", interval)
    )
    for row in rows:
        answer = row.answer
        cells = (
            row.question,
            format_to(row.truth, answer.stderr),
            str(answer),
            showing.between(answer.low, answer.high, answer.stderr),
        )
        shown.add_row(*(showing.literal(cell) for cell in cells))
    return shown


def _simulate_people(study: Study, path: Path, seed: int, form: TableForm) -> Tally:
    """The tally that the people in a file would have sent."""
    with showing.progress(f"Simulating {path.name}") as seen:
        parts = people.encode_file(study, path, SeededBits(seed), seen, form)
        return study.tally(parts)
