"""The command that compares: guarantees of several studies, or the channels that fit one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import showing
from sfumato.cli.asking import check_plot
from sfumato.cli.commands import CommandError
from sfumato.cli.options import AsCsv, AsJson, Force, Plot, load_study, one_form
from sfumato.cli.planning import People, PriorOption, Runs, read_prior, share_of
from sfumato.planning.compare import METHODS
from sfumato.planning.guarantees import compare_guarantees
from sfumato.study.study import Study
from sfumato.verbs import RUNS


def compare(
    studies: Annotated[
        list[Path], typer.Argument(metavar="STUDY...", help="Study files, .toml: one or more.")
    ],
    number: People,
    ask: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUESTION",
            help='Several studies: also your own question, such as "age=18..30"; repeatable.',
        ),
    ] = None,
    prior: PriorOption = "flat",
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="unbiased|likelihood",
            help="One study: one way of answering only; repeatable.",
        ),
    ] = None,
    runs: Runs = RUNS,
    plot: Plot = None,
    force: Force = False,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Compare the guarantees of several studies, or the channels that fit one study.

    Several studies: how well the same pairs of people are hidden, and the error of the same
    questions, side by side. Studies that ask the same with different guarantees are compared best.

    One study: all channels that fit each axis, by the error of typical questions. These are random
    ranges, or single cells on axes without an order. Where whole records are protected together,
    the channels that fit them are compared.
    """
    one_form(as_json, as_csv)
    several = len(studies) > 1
    odd = [("--method", method)] if several else [("--ask", ask), ("--plot", plot)]
    for option, given in odd:
        if given:
            instead = "one study" if several else "several studies"
            raise CommandError(f"{option} goes with {instead}, got {len(studies)}; leave it out")
    check_plot(plot, force)
    loaded = [load_study(path) for path in studies]
    found: Any
    with showing.progress("comparing") as seen:
        if several:
            found = compare_guarantees(
                loaded,
                number,
                ask,
                prior=_common_prior(loaded, prior),
                names=_names(studies, loaded),
            )
        else:
            (study,) = loaded
            found = study.compare(
                number,
                prior=read_prior(study, prior),
                methods=method or METHODS,
                runs=runs,
                progress=share_of(seen),
            )
    if plot is not None:
        found.save_plot(plot)
    if as_json:
        showing.show_json(found.to_dict() | ({"plot": str(plot)} if plot else {}))
        return
    if as_csv:
        showing.show_csv(found)
        return
    showing.show_tabled(found)
    if plot is not None:
        showing.say(f"Drawn in {plot}.")


def _common_prior(studies: list[Study], given: str) -> Any:
    """A prior by name: counts are of the cells of one study."""
    if given not in ("flat", "worst"):
        raise CommandError(
            f"--prior of several studies must be flat or worst, got {given!r}; counts are of the "
            "cells of one study"
        )
    return read_prior(studies[0], given)


def _names(paths: list[Path], studies: list[Study]) -> list[str]:
    """What the studies are called: by their files where two have one name."""
    names = [study.name for study in studies]
    if len(set(names)) == len(names):
        return names
    files = [path.stem for path in paths]
    return files if len(set(files)) == len(files) else [str(path) for path in paths]
