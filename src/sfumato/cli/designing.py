"""Commands for writing a study and seeing what it promises: new, explain, audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from sfumato.auditing.audit import audit as audit_study
from sfumato.channels.choice import Choice, choice_to_dict
from sfumato.cli import interview, showing
from sfumato.cli.commands import CommandError
from sfumato.cli.language import parse_axes, parse_choice, parse_protection
from sfumato.cli.options import AsJson, Force, StudyFile, load_study, target
from sfumato.study.axis import Together
from sfumato.study.choose import checked_expected
from sfumato.study.schema import arrange
from sfumato.study.study import Study


def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Study file to write, .toml.")],
    name: Annotated[str, typer.Option(help="Name of the study; left out, the file's.")] = "",
    axis: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT", help="An axis; may be repeated. Left out, you are asked step by step."
        ),
    ] = None,
    together: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help='Axes under one guarantee, such as "row, column: uniform 1"; they state none. '
            "May be repeated.",
        ),
    ] = None,
    protect: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help='One guarantee for whole records, "uniform EPSILON"; axes then state none.',
        ),
    ] = "",
    channel: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="The channel of whole records, or of every axis that names none; left out, chosen "
            "for you.",
        ),
    ] = "",
    people: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="About how many people will answer; helps to choose channels."
        ),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a study: what is asked, and how strongly every answer is protected.

    An axis is written as a name, a colon, the kind of its values and parts in any order: distance
    EPSILON per LENGTH, uniform EPSILON, protect METRIC, optional, no answer at LENGTH, channel
    NAME, rounding stochastic, clip, unit WORD. Epsilon has no default.

    A channel or metric may have options, such as hierarchical branching=2 oracle=hrr; values of a
    list are joined by |.
    """
    target(file, "study", ".toml", force=force)
    expected = checked_expected(people)
    if not axis and (as_json or together):
        odd = "--json asks no questions" if as_json else "--together names axes"
        raise CommandError(f"{odd}; describe every axis with --axis")
    shared = parse_protection(protect) if protect else None
    choice = parse_choice(channel, "channel") if channel else None
    if axis:
        called = name or file.stem
        axes = parse_axes(axis, together or [], shared=shared is not None)
    else:
        called = name or interview.ask_name(file.stem)
        scope = "whole" if shared else interview.ask_scope()
        if scope == "whole":
            shared = shared or interview.ask_whole()
        axes = interview.ask_axes(scope)
        expected = expected or interview.ask_people()
    study = _made(called, arrange(axes, protect=shared), choice, expected)
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


def _made(name: str, parts: Sequence[Together], choice: Choice | None, people: int | None) -> Study:
    """The study, with a bar while channels that take long are searched for."""
    with showing.progress("searching for the channel") as seen:
        found = []
        for part in parts:
            channel = part.channel or choice
            if channel is not None and channel.slow:
                channel = channel.settled(part.metric(), progress=lambda share: seen(share, 1.0))
            found.append(replace(part, channel=channel))
    return Study(name, found, people=people)


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
    found = audit_study(load_study(study))
    if as_json:
        showing.show_json(found.to_dict())
    else:
        made = showing.table("axis", "channel", "spent", "tightest", "method", "holds")
        for row in found.axes:
            pair = "–" if row.tightest is None else " and ".join(row.tightest)
            cells = (row.axis, row.channel, row.spent, pair, row.method)
            verdict = Text("yes", "green") if row.holds else Text("NO", "bold red")
            made.add_row(*(Text(_cell(cell)) for cell in cells), verdict)
        showing.stdout().print(made)
        showing.say("The guarantee holds." if found.holds else "The guarantee does NOT hold.")
    if not found.holds:
        raise typer.Exit(1)


def _described(study: Study) -> dict[str, Any]:
    """A study for JSON.

    A single axis states its guarantee and its channel, a group states them under "together",
    and whole records at the top.
    """
    said = {
        block.axes: {
            "protect": part.statement.to_dict(),
            "channel": choice_to_dict(block.choice),
            "reason": reason,
        }
        for part, block, reason in zip(study.parts, study.blocks, study.reasons, strict=True)
    }
    nothing = {"protect": None, "channel": None, "reason": ""}
    every = tuple(range(len(study.axes)))
    groups = {axes: words for axes, words in said.items() if len(axes) > 1}
    return {
        "name": study.name,
        "people": study.people,
        "fingerprint": study.fingerprint,
        **groups.pop(every, nothing),
        "together": [
            {"axes": [study.axes[place].name for place in axes], **words}
            for axes, words in groups.items()
        ],
        "axes": [
            {
                "name": axis.name,
                "kind": axis.domain.kind,
                "cells": axis.size,
                "optional": axis.optional,
                "outside": axis.outside,
                "unit": axis.unit,
                **said.get((place,), nothing),
            }
            for place, axis in enumerate(study.axes)
        ],
    }


def _cell(value: object) -> str:
    """A number or word of the audit, short enough for a table."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
