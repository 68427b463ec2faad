"""The study by question and answer: every axis is put together as the line a flag would hold."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import typer

from sfumato.channels.registry import REGISTRY
from sfumato.cli.language import FORMS, PUNCTUATION, parse_axis, parse_protection
from sfumato.errors import SfumatoError, near
from sfumato.metrics.uniform import Uniform
from sfumato.questions.tokens import quoted
from sfumato.study.axis import Axis

_KINDS = {
    "integers": "whole numbers, such as ages",
    "reals": "numbers in bins, such as incomes",
    "dates": "days, or runs of days",
    "times": "times of day, or moments",
    "categories": "one of a list of labels",
}


def ask_name(default: str) -> str:
    """What the study is called."""
    return _ask("Name of the study", default=default)


def ask_shared() -> Uniform | None:
    """One guarantee for whole records, or None where every axis states its own."""
    _tell("\neach: every axis is protected by itself. whole: any two records are hidden alike.")
    if _choose("Protection", ["each", "whole"], default="each") == "each":
        return None
    while True:
        line = f"uniform {_ask('Epsilon for any two records, such as 1')}"
        try:
            shared = parse_protection(line)
        except SfumatoError as error:
            _tell(f"  That does not work: {error}")
        else:
            _tell(f"As a flag: --protect {shlex.quote(line)}")
            return shared


def ask_axes(*, shared: bool = False) -> list[Axis]:
    """One axis after another, until the person has no more; at least one.

    Args:
        shared: Whether one guarantee holds for all axes, so that nobody asks for theirs.
    """
    axes: list[Axis] = []
    _tell("\nAn axis is one thing that people are asked. What may its values be?")
    for kind, meaning in _KINDS.items():
        _tell(f"  {kind:<11} {meaning}")
    while True:
        _tell(f"\nAxis {len(axes) + 1}" + (" (leave the name empty to finish)" if axes else ""))
        name = _ask("  Name", default="" if axes else None)
        if not name:
            return axes
        if any(axis.name == name for axis in axes):
            _tell(f"  There is an axis {name!r} already; names must differ.")
            continue
        line = f"{quoted(name, PUNCTUATION)}: {_ask_parts(shared)}"
        try:
            axes.append(parse_axis(line, shared=shared))
        except SfumatoError as error:
            _tell(f"  That does not work: {error}\n  Please try this axis again.")
        else:
            _tell(f"  As a flag: --axis {shlex.quote(line)}")


def ask_people() -> int | None:
    """About how many people will answer, or None; asked for until it is a number."""
    while True:
        answer = _ask("\nAbout how many people will answer (empty if nobody knows)", default="")
        if not answer:
            return None
        number = answer.replace(",", "")
        if number.isdecimal() and int(number):
            return int(number)
        _tell(f"  {answer!r} is no number of people; write digits, such as 10000.")


def _ask_parts(shared: bool) -> str:
    """The rest of an axis' line."""
    kind = _choose("  Kind", list(FORMS), default="integers")
    parts = [f"{kind} {_ask_values(kind)}"]
    protection = "uniform"
    if kind != "categories" and not shared:
        _tell("  distance: near values are hidden best. uniform: all values are hidden alike.")
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
    step = _ask("  Step of a cell, such as " + ("1 week" if kind == "dates" else "15 min"))
    return f"{low}..{high} by {step}"


def _ask_protection(kind: str, protection: str) -> str:
    """How strongly, as the line says it; epsilon has no default on purpose."""
    if protection == "uniform":
        return f"uniform {_ask('  Epsilon for any two values, such as 1')}"
    unit = {"dates": "1 day", "times": "1 hour"}.get(kind, "1")
    per = _ask("  Epsilon is counted per distance of", default=unit)
    return f"distance {_ask(f'  Epsilon for two values {per} apart, such as 0.2')} per {per}"


def _choose(question: str, options: Sequence[str], *, default: str) -> str:
    """One of a few words, asked for until it is one."""
    while True:
        answer = _ask(f"{question} ({', '.join(options)})", default=default)
        if answer in options:
            return answer
        _tell(f"  {answer!r} is not among them: {near(answer, options)}")


def _ask(question: str, default: str | None = None) -> str:
    """A line from the person, without surrounding space."""
    shown = bool(default)
    return str(typer.prompt(question, default=default, show_default=shown, err=True)).strip()


def _tell(line: str) -> None:
    """A line for the person; stdout is kept for the result."""
    typer.echo(line, err=True)
