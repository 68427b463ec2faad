"""Commands for writing a study (by flags or interview) and seeing what it promises."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from sfumato.auditing.audit import audit as audit_study
from sfumato.auditing.report import ENDINGS
from sfumato.channels.choice import REGISTRY, Choice, choice_to_dict
from sfumato.cli import showing
from sfumato.cli.commands import CommandError
from sfumato.cli.language import (
    FORMS,
    PUNCTUATION,
    parse_axes,
    parse_axis,
    parse_choice,
    parse_protection,
)
from sfumato.cli.options import AsJson, Force, StudyFile, load_study, target, whole_number
from sfumato.errors import SfumatoError, near
from sfumato.metrics.base import Metric
from sfumato.questions.language import quoted
from sfumato.study.axis import Axis, Together
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
            parser=whole_number,
            metavar="N",
            help="About how many people will answer; helps to choose channels.",
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
    list are joined by |, and lists in a list by ||, as in blocks epsilon=1 blocks=ash|elm||fir|oak.
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
        called = name or ask_name(file.stem)
        scope = "whole" if shared else ask_scope()
        if scope == "whole":
            shared = shared or ask_whole()
        axes = ask_axes(scope)
        expected = expected or ask_people()
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


def audit(
    study: StudyFile,
    sample: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Also draw N reports of each block at random, such as 1000000."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a report too: a page, .html, or .json."),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Check exactly that a study keeps its promise; exit code 1 if it does not."""
    if out is not None:
        target(out, "report", *ENDINGS, force=force, inputs=(study,))
    found = audit_study(load_study(study), sample=sample)
    if out is not None:
        found.save(out)
    if as_json:
        showing.show_json(found.to_dict())
    else:
        made = showing.table("axis", "channel", "spent", "tightest", "method", "driven", "holds")
        for row in found.axes:
            pair = "–" if row.tightest is None else " and ".join(row.tightest)
            cells = (row.axis, row.channel, row.spent, pair, row.method, row.driven)
            verdict = Text("yes", "green") if row.holds else Text("NO", "bold red")
            made.add_row(*(showing.literal(_cell(cell)) for cell in cells), verdict)
        showing.stdout().print(made)
        for row in found.axes:
            for note in (*row.problems, *([] if row.sample is None else [str(row.sample)])):
                showing.say(f"{row.axis}: {note}")
        showing.say("The guarantee holds." if found.holds else "The guarantee does NOT hold.")
        if out is not None:
            showing.say(f"Written to {out}.")
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


_KINDS = {
    "integers": "whole numbers, such as ages",
    "reals": "numbers in bins, such as incomes",
    "dates": "days, or periods of several days",
    "times": "times of day, or dates with times",
    "categories": "one of a list of labels",
}


def ask_name(default: str) -> str:
    """What the study is called."""
    return _ask("Name of the study", default=default)


def ask_scope() -> str:
    """What one guarantee covers: "each" axis, "whole" records, or "some" axes together."""
    _tell("\neach: every axis has a guarantee of its own, and they add up.")
    _tell("whole: one guarantee for whole records.")
    _tell("some: one guarantee for some of the axes together; the others have their own.")
    return _choose("Protection", ["each", "whole", "some"], default="each")


def ask_whole() -> Metric:
    """One guarantee for whole records."""
    line = _ask_uniform("any two records")
    _tell(f"As a flag: --protect {shlex.quote(line)}")
    return parse_protection(line)


def ask_axes(scope: str = "each") -> list[Axis | Together]:
    """One axis after another, until the person has no more; at least one.

    Args:
        scope: As `ask_scope` gives it. Axes under one guarantee are not asked for theirs.
    """
    lines: dict[str, str] = {}
    joined: list[str] = []
    _tell("\nAn axis is one thing that people are asked. What may its values be?")
    for kind, meaning in _KINDS.items():
        _tell(f"  {kind:<11} {meaning}")
    while True:
        _tell(f"\nAxis {len(lines) + 1}" + (" (leave the name empty to finish)" if lines else ""))
        name = _ask("  Name", default="" if lines else None)
        if not name:
            break
        if name in lines:
            _tell(f"  There is already an axis {name!r}; names must differ.")
            continue
        inside = scope == "whole" or (
            scope == "some"
            and typer.confirm(
                "  Does it belong to the axes under one guarantee?", default=True, err=True
            )
        )
        line = f"{quoted(name, PUNCTUATION)}: {_ask_parts(inside)}"
        try:
            parse_axis(line, shared=inside)
        except SfumatoError as error:
            _tell(f"  That does not work: {error}\n  Please try this axis again.")
        else:
            _tell(f"  As a flag: --axis {shlex.quote(line)}")
            lines[name] = line
            joined += [quoted(name, PUNCTUATION)] if inside else []
    together = []
    if scope == "some" and len(joined) > 1:
        names = ", ".join(joined)
        _tell(f"\nUnder one guarantee: {names}.")
        together = [f"{names}: {_ask_uniform('any two combinations of their values')}"]
        _tell(f"As a flag: --together {shlex.quote(together[0])}")
    return parse_axes(list(lines.values()), together, shared=scope == "whole")


def ask_people() -> int | None:
    """About how many people will answer, or None; asked for until it is a number."""
    while True:
        answer = _ask("\nAbout how many people will answer (leave empty if unknown)", default="")
        if not answer:
            return None
        try:
            return checked_expected(whole_number(answer.replace(",", "")))
        except (SfumatoError, typer.BadParameter):
            _tell(f"  {answer!r} is not a number of people; write digits, such as 10000.")


def _ask_parts(shared: bool) -> str:
    """The rest of an axis' line."""
    kind = _choose("  Kind", list(FORMS), default="integers")
    parts = [f"{kind} {_ask_values(kind)}"]
    protection = "uniform"
    if kind != "categories" and not shared:
        _tell("  distance: near values are hidden best. uniform: all values are hidden equally.")
        protection = _choose("  Protection", ["distance", "uniform"], default="distance")
    if not shared:
        parts.append(_ask_protection(kind, protection))
    if typer.confirm("  May people leave it unanswered?", default=False, err=True):
        parts.append("optional")
        if protection == "distance":
            parts.append(f"no answer at {_ask('  How far is no answer from every value')}")
    if kind != "categories" and typer.confirm(
        "  Move values out of bounds to the nearest end (else they are refused)?",
        default=False,
        err=True,
    ):
        parts.append("clip")
    if shared:
        return ", ".join(parts)
    channel = _choose("  Channel", ["automatic", *REGISTRY], default="automatic")
    return ", ".join(parts + ([] if channel == "automatic" else [f"channel {channel}"]))


def _ask_values(kind: str) -> str:
    """What a value may be, as the line says it."""
    if kind == "categories":
        labels = _ask("  Labels, separated by |, such as north|south")
        return "|".join(quoted(label.strip(), PUNCTUATION) for label in labels.split("|"))
    example = {"dates": "2024-01-01", "times": "00:00"}.get(kind, "0")
    last = {"dates": "2024-12-29", "times": "24:00"}.get(kind, "99")
    low = _ask(f"  First value, such as {example}")
    high = _ask(f"  Last value, such as {last}")
    if kind == "integers":
        return f"{low}..{high}"
    if kind == "reals":
        return f"{low}..{high} in {_ask('  Number of bins, such as 64')}"
    step = _ask("  Length of a cell, such as " + ("1 week" if kind == "dates" else "15 min"))
    return f"{low}..{high} by {step}"


def _ask_protection(kind: str, protection: str) -> str:
    """How strongly, as the line says it; epsilon has no default on purpose."""
    if protection == "uniform":
        return f"uniform {_ask('  Epsilon for any two values, such as 1')}"
    unit = {"dates": "1 day", "times": "1 hour"}.get(kind, "1")
    per = _ask("  Epsilon is counted per distance of", default=unit)
    return f"distance {_ask(f'  Epsilon for two values {per} apart, such as 0.2')} per {per}"


def _ask_uniform(pair: str) -> str:
    """One guarantee for several axes as a flag says it, asked for until it is one."""
    while True:
        line = f"uniform {_ask(f'Epsilon for {pair}, such as 1')}"
        try:
            parse_protection(line)
        except SfumatoError as error:
            _tell(f"  That does not work: {error}")
        else:
            return line


def _choose(question: str, options: Sequence[str], *, default: str) -> str:
    """One of a few words, asked for until it is one."""
    while True:
        answer = _ask(f"{question} ({', '.join(options)})", default=default)
        if answer in options:
            return answer
        _tell(f"  {answer!r} is not one of the choices: {near(answer, options)}")


def _ask(question: str, default: str | None = None) -> str:
    """A line from the person, without surrounding space."""
    shown = bool(default)
    return str(typer.prompt(question, default=default, show_default=shown, err=True)).strip()


def _tell(line: str) -> None:
    """A line for the person; stdout is kept for the result."""
    typer.echo(line, err=True)
