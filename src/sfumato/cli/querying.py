"""The command of warehouses: sql."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import showing
from sfumato.cli.commands import CommandError
from sfumato.cli.options import AsJson, Force, KeepSums, StudyFile, load_study, suffix, target
from sfumato.collect import parquet
from sfumato.collect.engines.sql import DIALECTS, FORMS
from sfumato.collect.tally import Tally


def sql(
    study: StudyFile,
    dialect: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"{', '.join(DIALECTS[:-1])} or {DIALECTS[-1]}."),
    ] = None,
    table: Annotated[
        str,
        typer.Option(
            metavar="TABLE",
            help="The table of reports, as the database names it; for DuckDB also .parquet files.",
        ),
    ] = "reports",
    form: Annotated[
        str,
        typer.Option(
            metavar="FORM",
            help=f"{FORMS[0]}: as in our Parquet files. {FORMS[1]}: packed reports, in a column "
            "called report.",
        ),
    ] = "columns",
    sums: KeepSums = False,
    result: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Read the result of the query instead, .parquet."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="With --result: file for the tally, .parquet.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Print the SQL query that tallies reports in a database, or read its result.

    Run the query where the reports are, and save all columns and rows of its result as Parquet.
    With --result that file becomes a tally, the same as 'sfumato tally' makes of the reports. It is
    checked: another study's result is refused, and so is one that was cut or changed.

    If an axis sends bits, the result has a row for every distinct report; with --sums it has one
    for every bit.
    """
    loaded = load_study(study)
    if result is not None:
        if dialect is not None or sums:
            raise CommandError("--result is read as it is; leave --dialect and --sums out")
        if out is None:
            raise CommandError("--result needs --out, the file for the tally")
        suffix(result, "result", ".parquet")
        target(out, "tally", ".parquet", force=force, inputs=(study, result))
        total = Tally.from_arrow(loaded, parquet.read_any(result))
        total.save(out)
        if as_json:
            showing.show_json(
                {
                    "file": str(out),
                    "reports": total.n,
                    "study": loaded.name,
                    "fingerprint": loaded.fingerprint,
                }
            )
        else:
            showing.say(f"Tallied {total.n:,} reports of study {loaded.name!r} into {out}.")
        return
    if dialect is None:
        raise CommandError("name the database with --dialect, or a --result to read")
    if out is not None:
        raise CommandError("--out goes with --result; a query is printed")
    chosen: Any = {"form": form, "keep": "sums" if sums else "reports"}
    text = loaded.sql(dialect, table=table, **chosen)  # type: ignore[arg-type]  # it checks the word
    if as_json:
        showing.show_json({"dialect": dialect, "query": text, "fingerprint": loaded.fingerprint})
    else:
        typer.echo(text)
