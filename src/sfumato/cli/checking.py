"""The command that checks a tally for reports that no population explains: check."""

from __future__ import annotations

from typing import Annotated

import typer

from sfumato.auditing.poisoning import SIGNIFICANCE
from sfumato.auditing.poisoning import check as check_tally
from sfumato.cli import showing
from sfumato.cli.collecting import load_tally
from sfumato.cli.options import AsJson, StudyFile, TallyFile, load_study, real_number


def check(
    study: StudyFile,
    tally: TallyFile,
    significance: Annotated[
        float,
        typer.Option(
            parser=real_number,
            metavar="SHARE",
            help="How often honest clients may give an alarm, at most.",
        ),
    ] = SIGNIFICANCE,
    as_json: AsJson = False,
) -> None:
    """Check whether any population explains the reports of a tally; exit code 1 if none does.

    What honest clients send is known, whoever they are. Reports that are too unlike that cannot all
    come from honest clients. Attacks that look like a population are not found: it says which.
    """
    found = check_tally(load_tally(tally, load_study(study)), significance=significance)  # type: ignore[arg-type]  # it refuses weights
    if as_json:
        showing.show_json(found.to_dict())
    else:
        for line in str(found).splitlines():
            showing.say(line)
    if found.alarm:
        raise typer.Exit(1)
