"""Commands for writing a study and seeing what it promises: new, explain, audit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from sfumato.auditing.audit import audit as audit_study
from sfumato.channels.choice import Choice
from sfumato.channels.registry import choice_to_dict
from sfumato.cli import interview, showing
from sfumato.cli.commands import CommandError
from sfumato.cli.language import PROTECTION, parse_axis, parse_choice, parse_protection
from sfumato.cli.options import AsJson, Force, StudyFile, load_study, target
from sfumato.metrics.uniform import Uniform, UniformMetric
from sfumato.study.axis import Axis, Together
from sfumato.study.choose import checked_expected
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
    protect: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help='One guarantee for whole records, "uniform EPSILON"; axes then state none.',
        ),
    ] = "",
    mechanism: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="With --protect: how whole records are perturbed; left out, chosen for you.",
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

    A channel, mechanism or metric may have options, such as hierarchical branching=2 oracle=hrr;
    values of a list are joined by |.
    """
    target(file, "study", ".toml", force=force)
    expected = checked_expected(people)
    if as_json and not axis:
        raise CommandError("--json asks no questions; describe every axis with --axis")
    shared = parse_protection(protect) if protect else None
    choice = parse_choice(mechanism, "mechanism") if mechanism else None
    if choice and not shared:
        raise CommandError(
            f"--mechanism perturbs whole records and needs one guarantee for them: add --protect "
            f"{PROTECTION!r}, or name the channel of an axis with 'channel NAME'"
        )
    if axis:
        called = name or file.stem
        axes = [parse_axis(text, shared=shared is not None) for text in axis]
    else:
        called = name or interview.ask_name(file.stem)
        shared = shared or interview.ask_shared()
        axes = interview.ask_axes(shared=shared is not None)
        expected = expected or interview.ask_people()
    study = _made(called, axes, shared, choice, expected)
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


def _made(
    name: str,
    axes: Sequence[Axis],
    shared: Uniform | None,
    choice: Choice | None,
    people: int | None,
) -> Study:
    """The study, with a bar while channels that take long are searched for."""
    with showing.progress("searching for the channel") as seen:

        def told(share: float) -> None:
            seen(share, 1.0)

        found = [
            replace(
                axis, channel=axis.channel.settled(Together.alone(axis).metric(), progress=told)
            )
            if axis.channel is not None and axis.protect is not None and axis.channel.slow
            else axis
            for axis in axes
        ]
        if choice is not None and choice.slow and shared is not None:
            cells = UniformMetric(shared.epsilon, math.prod(axis.size for axis in axes))
            choice = choice.settled(cells, progress=told)
    return Study(name, found, protect=shared, channel=choice, people=people)


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
            cells = (row.axis, row.channel, row.spent, row.tightest, row.method)
            verdict = Text("yes", "green") if row.holds else Text("NO", "bold red")
            made.add_row(*(Text(_cell(cell)) for cell in cells), verdict)
        showing.stdout().print(made)
        showing.say("The guarantee holds." if found.holds else "The guarantee does NOT hold.")
    if not found.holds:
        raise typer.Exit(1)


def _described(study: Study) -> dict[str, Any]:
    """A study for JSON; what is said for whole records stands above the axes."""
    whole = study.parts[0] if len(study.parts) == 1 and len(study.axes) > 1 else None
    return {
        "name": study.name,
        "people": study.people,
        "fingerprint": study.fingerprint,
        "protect": None if whole is None else whole.statement.to_dict(),
        "channel": None if whole is None else choice_to_dict(study.blocks[0].choice),
        "reason": "" if whole is None else study.reasons[0],
        "axes": [
            {
                "name": axis.name,
                "kind": axis.domain.kind,
                "cells": axis.size,
                "optional": axis.optional,
                "outside": axis.outside,
                "unit": axis.unit,
                **_alone(study, place),
            }
            for place, axis in enumerate(study.axes)
        ],
    }


def _cell(value: object) -> str:
    """A number or word of the audit, short enough for a table."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _alone(study: Study, place: int) -> dict[str, Any]:
    """Guarantee and channel of an axis by itself; blank where it stands together with others."""
    for part, block, reason in zip(study.parts, study.blocks, study.reasons, strict=True):
        if block.axes == (place,):
            return {
                "protect": part.statement.to_dict(),
                "channel": choice_to_dict(block.choice),
                "reason": reason,
            }
    return {"protect": None, "channel": None, "reason": ""}
