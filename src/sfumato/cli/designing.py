"""Commands for writing a study and seeing what it promises: new, explain, audit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from sfumato import Study
from sfumato.channels import choice_to_dict
from sfumato.cli import interview, showing
from sfumato.cli.axis_language import parse_axis
from sfumato.cli.failing import CommandError
from sfumato.cli.files import AsJson, Force, StudyFile, load_study, target


def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Study file to write, .toml.")],
    name: Annotated[str, typer.Option(help="Name of the study; left out, the file's.")] = "",
    axis: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT", help="An axis; may be repeated. Left out, you are asked step by step."
        ),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a study: what is asked, and how strongly every answer is protected.

    An axis is written as a name, a colon, the kind of its values and parts in any order: distance
    EPSILON per LENGTH, uniform EPSILON, optional, no answer at LENGTH, channel NAME, rounding
    stochastic, clip, unit WORD. Epsilon has no default.
    """
    target(file, "study", ".toml", force=force)
    if as_json and not axis:
        raise CommandError("--json asks no questions; describe every axis with --axis")
    if axis:
        study = Study(name or file.stem, [parse_axis(text) for text in axis])
    else:
        study = Study(name or interview.ask_name(file.stem), interview.ask_axes())
    text = study.explain()
    if not as_json:
        typer.echo(f"{text}\n")
    if not axis and not typer.confirm(f"Write this to {file}?", default=True, err=True):
        raise typer.Exit(1)
    study.save(file)
    if as_json:
        showing.show_json({"file": str(file), **_described(study)})
    else:
        showing.say(f"Written to {file}.")


def explain(study: StudyFile, as_json: AsJson = False) -> None:
    """Say in plain words what a study promises to each person."""
    loaded = load_study(study)
    text = loaded.explain()
    if as_json:
        showing.show_json({**_described(loaded), "text": text})
    else:
        typer.echo(text)


def audit(study: StudyFile, as_json: AsJson = False) -> None:
    """Check exactly that a study keeps its promise; exit code 1 if it does not."""
    loaded = load_study(study)
    from sfumato.auditing import audit as check

    found = check(loaded)
    if as_json:
        showing.show_json(found.to_dict())
    else:
        made = showing.table("axis", "channel", "spent", "tightest", "method", "holds")
        for row in found.axes:
            cells = (row.axis, row.channel, row.spent, row.tightest, row.method)
            verdict = Text("yes", "green") if row.holds else Text("NO", "bold red")
            made.add_row(*(Text(_cell(cell)) for cell in cells), verdict)
        showing.stdout().print(made)
        showing.say("The guarantee holds." if found.holds else "The guarantee does NOT hold.")
    if not found.holds:
        raise typer.Exit(1)


def _described(study: Study) -> dict[str, Any]:
    """A study for JSON."""
    return {
        "name": study.name,
        "fingerprint": study.fingerprint,
        "axes": [
            {
                "name": axis.name,
                "kind": axis.domain.kind,
                "cells": axis.size,
                "optional": axis.optional,
                "outside": axis.outside,
                "unit": axis.unit,
                "protect": axis.statement.to_dict(),
                "channel": choice_to_dict(axis.choice),
                "reason": reason,
            }
            for axis, reason in zip(study.axes, study.reasons, strict=True)
        ],
    }


def _cell(value: object) -> str:
    """A number or word of the audit, short enough for a table."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
