"""The command that writes the report for a privacy officer: report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli import showing
from sfumato.cli.options import AsJson, Force, StudyFile, load_study, target, whole_number
from sfumato.signoff.page import ENDINGS


def report(
    study: StudyFile,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="The report: a page, .html, which prints well; or .json."
        ),
    ],
    people: Annotated[
        int | None,
        typer.Option(
            parser=whole_number,
            metavar="N",
            help="How many people will answer; left out, as the study says, or 10,000.",
        ),
    ] = None,
    ask: Annotated[
        list[str] | None,
        typer.Option(metavar="QUESTION", help='Your own, such as "age=18..30"; repeatable.'),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(
            parser=whole_number,
            metavar="N",
            help="How many reports one person sends at most, to add up what they reveal.",
        ),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the report that a privacy officer signs: guarantee, audit, errors, alternatives.

    One page of summary, then the details: the guarantee in words, odds and pictures; the total over
    a record and over repeated reports; pairs of people that can be told apart, and what to do about
    it; the exact audit; the error to expect; and the same questions under other guarantees. For a
    PDF, open the page in a browser and print it. Exit code 1 if the guarantee does not hold.
    """
    target(out, "report", *ENDINGS, force=force, inputs=(study,))
    loaded = load_study(study)
    with showing.progress("auditing and planning"):
        found = loaded.report(people, ask, repeats=repeats)
    found.save(out)
    if as_json:
        showing.show_json({**found.to_dict(), "out": str(out)})
    else:
        showing.say(str(found.audit).splitlines()[0])
        for one in found.far:
            showing.say(f"Far pairs of {' and '.join(one.axes)} can be told apart. {one.advice}")
        showing.say(f"Written to {out}; for a PDF, open it in a browser and print it.")
    if not found.audit.holds:
        raise typer.Exit(1)
