"""The interview of `sfumato new`: each axis becomes the text that a flag would hold."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import typer

from sfumato.channels.choice import REGISTRY
from sfumato.cli.language import FORMS, PUNCTUATION, parse_axes, parse_axis, parse_protection
from sfumato.errors import SfumatoError, near
from sfumato.metrics.uniform import Uniform
from sfumato.questions.tokens import quoted
from sfumato.study.axis import Axis, Together

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


def ask_whole() -> Uniform:
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
        number = answer.replace(",", "")
        if number.isdecimal() and int(number):
            return int(number)
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
