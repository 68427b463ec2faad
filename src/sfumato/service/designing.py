"""Designing a study: what it promises and what error to expect, for the page that asks for it.

The work is bounded: few axes of few cells, guarantees whose channel is found quickly, and one
simulated survey per axis. Nothing is stored.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.channels.choice import described
from sfumato.checks import whole
from sfumato.errors import shown
from sfumato.estimation.intervals import normal_quantile
from sfumato.questions.language import quoted
from sfumato.service.refusals import RefusedError
from sfumato.study.axis import Axis
from sfumato.study.files import axis_from_dict
from sfumato.study.guarantee import explain_axis
from sfumato.study.study import Study
from sfumato.text import is_writable

MOST_AXES = 6
MOST_CELLS = 256
MOST_PEOPLE = 10**9
MOST_LETTERS = 100  # of a name or unit
#: More people than these are not simulated: the exact errors of fewer are scaled instead.
MOST_SIMULATED = 10**6

_GROUPS = 20  # of an example histogram
_SECONDS = 1.0  # of decoding, as counted beforehand
_LEVEL = 0.95
_PUNCTUATION = ",:|"  # of the language of axes, in which a unit has no quotes
_ENTRIES = {"name", "people", "axes"}
_GUARANTEES = ("distance", "uniform")  # whose channels are found quickly


def design(given: object) -> dict[str, Any]:
    """What a study promises, what errors to expect, and how to write it down.

    Args:
        given: An object with "name", "people" (a number) and "axes", a list of the tables that a
            study file holds, without channels.

    Returns:
        The study file, the same as Python and as a command; the guarantee in words; and for each
        axis its channel, the reason for it, and an example histogram with the error to expect.

    Raises:
        RefusedError: If it is no such object, or asks for too much work.
        StudyError: If there is no such study.

    Example:
        >>> age = {
        ...     "name": "age",
        ...     "domain": {"kind": "integers", "low": 0, "high": 99},
        ...     "protect": {"kind": "distance", "epsilon": 0.2},
        ... }
        >>> found = design({"name": "ages", "people": 10_000, "axes": [age]})
        >>> print(found["command"].partition("--axis ")[2])
        'age: integers 0..99, distance 0.2'
    """
    name, people, axes = _read(given)
    study = Study(name, axes, people=people)
    return {
        "name": study.name,
        "people": people,
        "fingerprint": study.fingerprint,
        "explanation": study.explain(),
        "axes": [_described(study, place) for place in range(len(study.axes))],
        "study": study.to_toml(),
        "python": as_python(study),
        "command": as_command(study),
    }


def _read(given: object) -> tuple[str, int, list[Axis]]:
    """The name, the number of people and the axes, none too large."""
    if not isinstance(given, Mapping) or set(given) != _ENTRIES:
        raise _refused("a design must be a JSON object with name, people and axes, nothing else")
    name, people, tables = given["name"], whole(given["people"], "people", least=1), given["axes"]
    if people > MOST_PEOPLE:
        raise _refused(f"people must be at most {MOST_PEOPLE:,}, got {shown(people)}")
    if not isinstance(tables, list) or not 1 <= len(tables) <= MOST_AXES:
        raise _refused(f"a design must have a list of 1 to {MOST_AXES} axes")
    _plain(name, "the name of the study")
    return name, people, [_axis(table) for table in tables]


def _axis(table: object) -> Axis:
    """An axis, small enough to be designed here."""
    if not isinstance(table, Mapping) or "channel" in table:
        raise _refused("an axis must be a JSON object as in a study file, without a channel")
    _plain(table.get("name"), "the name of an axis")
    domain, protect = table.get("domain"), table.get("protect")
    for what, held, kinds in (("domain", domain, None), ("protect", protect, _GUARANTEES)):
        kind = held.get("kind") if isinstance(held, Mapping) else None
        if not isinstance(kind, str) or (kinds is not None and kind not in kinds):
            named = "" if kinds is None else f": {' or '.join(kinds)}"
            raise _refused(f"axis {table['name']!r} needs {what} of a known kind{named}")
    assert isinstance(domain, Mapping)  # noqa: S101 - it was checked in the loop
    bins = domain.get("bins", 1)
    if not isinstance(bins, int) or bins > MOST_CELLS:  # many take long to make
        raise _large(table["name"])
    axis = axis_from_dict(table)
    if axis.size > MOST_CELLS:
        raise _large(axis.name)
    _plain(axis.unit, "a unit", least=0)
    if quoted(axis.unit, _PUNCTUATION) != axis.unit and axis.unit:
        raise _refused(f"a unit must be a word without , : | and quotes, got {shown(axis.unit)}")
    return axis


def _plain(text: object, what: str, least: int = 1) -> None:
    """Refuse what no page and no command could show on a line."""
    if not isinstance(text, str) or not least <= len(text) <= MOST_LETTERS:
        raise _refused(f"{what} must be a text of {least} to {MOST_LETTERS} letters")
    if not (is_writable(text) and text.isprintable() and text == text.strip()):
        raise _refused(f"{what} must have printable letters, and no space around it")


def _refused(message: str) -> RefusedError:
    """The refusal of what is no design."""
    return RefusedError(400, "design", message)


def _large(name: object) -> RefusedError:
    """The refusal of an axis of too many cells."""
    return _refused(
        f"axis {shown(name)} may have at most {MOST_CELLS} cells here; choose wider cells, or use "
        "'sfumato new', which has no such limit"
    )


# What it promises, and the errors to expect


def _described(study: Study, place: int) -> dict[str, Any]:
    """An axis: its guarantee in words, its channel, and an example of its answers."""
    axis, block = study.axes[place], study.blocks[place]
    group = study.schema.groups[place]
    first, *more = explain_axis(axis, group.protect, group.metric)
    layout = block.channel.layout
    return {
        "name": axis.name,
        "cells": axis.size,
        "unit": axis.unit,
        "guarantee": first,
        "words": more,
        "channel": block.choice.title or described(block.choice),
        "reason": study.reasons[place],
        "sends": f"one of {layout.count:,} symbols"
        if layout.kind == "symbols"
        else f"{layout.count} bits",
        "example": _example(study, place),
    }


def _example(study: Study, place: int) -> dict[str, Any]:
    """A histogram of invented people, with the interval that answers about them would have.

    Beyond a million people answers are taken to be unbiased, whose errors grow with the root of the
    number of people.
    """
    axis, people = study.axes[place], study.people or 1
    drawn = min(people, MOST_SIMULATED)
    shares = example_shares(axis)
    truth = _counts(shares, people)
    alone = Study(study.name, [study.parts[place]], people=study.people)
    tally = alone.simulate_counts(_counts(shares, drawn), seed=0)
    estimate = tally.estimate("auto" if drawn == people else "unbiased", seconds=_SECONDS)
    bins = min(_GROUPS, axis.domain.size)
    found = estimate.histogram(axis.name, bins=bins, level=_LEVEL)
    low, high = found.ends(normal_quantile(_LEVEL))
    reach = (high - low) / 2 * math.sqrt(people / drawn)
    groups = np.array_split(np.arange(axis.domain.size), bins)
    groups += [np.array([axis.domain.size])] if axis.optional else []
    count = np.array([truth[group].sum() for group in groups])
    return {
        "labels": found.labels,
        "people": count.tolist(),
        "low": np.maximum(count - reach, 0).tolist(),
        "high": np.minimum(count + reach, people).tolist(),
        "level": _LEVEL,
        "method": found.method,
        "reach": float(np.sqrt(np.mean(reach**2))),
    }


def _counts(shares: Floats, people: int) -> NDArray[np.int64]:
    """People in each cell, as near to their shares as whole people can be, and none left over."""
    upto = np.round(np.cumsum(np.append(0.0, shares)) * people)
    return np.diff(upto).astype(np.int64)


def example_shares(axis: Axis) -> Floats:
    """Shares of invented people on every cell of an axis: two humps, or ever fewer on labels.

    Args:
        axis: The axis.
    """
    size = axis.domain.size
    at: NDArray[np.float64] = (np.arange(size) + 0.5) / size
    if axis.domain.ordered:
        law = np.exp(-(((at - 0.38) / 0.15) ** 2) / 2) + 0.4 * np.exp(-(((at - 0.75) / 0.08) ** 2))
    else:
        law = 1 / (1.5 + np.arange(size))
    law = law / law.sum()
    return np.append(0.94 * law, 0.06) if axis.optional else law


# The same as Python and as a command


def as_python(study: Study) -> str:
    """Python that makes this study.

    Args:
        study: A study of integers, reals, dates, times and categories, each protected by distance
            or uniformly.
    """
    axes = "".join(f"        {_python_axis(axis)},\n" for axis in study.axes)
    file = repr(f"{_file(study.name)}.toml")
    return (
        f"import sfumato as sf\n\nstudy = sf.Study(\n    {study.name!r},\n"
        f"    axes=[\n{axes}    ],\n"
        f"    people={study.people},\n)\nprint(study.explain())\nstudy.save({file})\n"
    )


def _python_axis(axis: Axis) -> str:
    """An axis in Python."""
    held = axis.domain.to_dict()
    words = [repr(axis.name)]
    words += [f"{key}={value!r}" for key, value in held.items() if key != "kind"]
    words.append(f"protect=sf.{axis.protect!r}")
    words += ["optional=True"] if axis.optional else []
    words += ["outside='clip'"] if axis.outside == "clip" else []
    words += [f"unit={axis.unit!r}"] if axis.unit else []
    return f"sf.{axis.domain.kind}({', '.join(words)})"


def as_command(study: Study) -> str:
    """The command that writes this study.

    Args:
        study: As for `as_python`.
    """
    words = ["sfumato", "new", f"{_file(study.name)}.toml", "--name", study.name]
    words += ["--people", str(study.people)]
    for axis in study.axes:
        words += ["--axis", _line(axis)]
    return shlex.join(words)


def _line(axis: Axis) -> str:
    """An axis in the language of the command line."""
    parts = [f"{axis.domain.kind} {_values(axis.domain.to_dict())}"]
    held = {} if axis.protect is None else axis.protect.to_dict()
    parts.append(f"{held['kind']} {held['epsilon']}")
    parts[-1] += f" per {held['per']}" if "per" in held else ""
    parts += [f"cap {held['cap']}"] if "cap" in held else []
    parts += ["optional"] if axis.optional else []
    parts += [f"no answer at {held['no_answer']}"] if "no_answer" in held else []
    parts += ["rounding stochastic"] if axis.domain.rounding_bits else []
    parts += ["clip"] if axis.outside == "clip" else []
    parts += [f"unit {axis.unit}"] if axis.unit else []
    return f"{quoted(axis.name, _PUNCTUATION)}: {', '.join(parts)}"


def _values(held: Mapping[str, Any]) -> str:
    """What a value may be, in the language of the command line."""
    if "labels" in held:
        return "|".join(quoted(label, _PUNCTUATION) for label in held["labels"])
    if "edges" in held:
        return f"edges {'|'.join(map(str, held['edges']))}"
    if "start" in held:
        return f"{held['start']}..{held['end']} by {held['step']}"
    return f"{held['low']}..{held['high']}" + (f" in {held['bins']}" if "bins" in held else "")


def _file(name: str) -> str:
    """A name for the study's file, without letters that a shell or a disk would not take."""
    kept = "".join(letter if letter.isalnum() else "-" for letter in name.lower())
    return kept.strip("-")[:40] or "study"
