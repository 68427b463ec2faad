"""A channel, a mechanism or a metric in a few words: ``hierarchical branching=2 oracle=hrr``.

A name, then options as NAME=VALUE; values of a list are joined by |.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import Any

from sfumato.channels.base import Choice
from sfumato.channels.registry import REGISTRY, choice_from_dict
from sfumato.cli.commands import CommandError
from sfumato.errors import near
from sfumato.metrics.base import Metric
from sfumato.metrics.registry import REGISTRY as METRICS
from sfumato.metrics.registry import metric_from_dict
from sfumato.metrics.uniform import Uniform

CHOICE = "NAME [OPTION=VALUE ...]"
PROTECTION = "uniform EPSILON"

_TRUTH = {"true": True, "false": False}


def parse_choice(text: str, what: str) -> Choice:
    """Read a channel or mechanism by name and options.

    Args:
        text: Such as ``hierarchical branching=2``.
        what: What it is called in a message.

    Raises:
        CommandError: If there is no such name or option.
        StudyError: If an option has a value that it cannot have.

    Example:
        >>> parse_choice("hierarchical branching=2 levels=1/2|1/4|1/4", "mechanism").options()
        {'branching': 2, 'levels': ['1/2', '1/4', '1/4']}
    """
    given = _words(text, what, REGISTRY)
    for name in given:
        if name != "kind":
            _refuse_unknown(name, given["kind"], what)
    return choice_from_dict(given)


def parse_metric(text: str) -> Metric:
    """Read a metric by kind and options; a kind that its module registered is known as well.

    Args:
        text: Such as ``within epsilon=1 reach=10``.

    Raises:
        CommandError: If there is no such kind, or an option is not written as one.
        StudyError: If an option is unknown or missing, or has a value that it cannot have.

    Example:
        >>> parse_metric("sensitive_set epsilon=1/2 sensitive=ill|injured")
        SensitiveSet(epsilon=0.5, sensitive=['ill', 'injured'])
    """
    return metric_from_dict(_words(text, "metric", METRICS))


def _words(text: str, what: str, known: Iterable[str]) -> dict[str, Any]:
    """A kind and its options, as a study file would hold them."""
    words = text.split()
    kind, given = (words[0], words[1:]) if words else ("", [])
    if kind not in (kinds := list(known)):
        raise CommandError(f"unknown {what} {kind!r}: {near(kind, kinds)}")
    options: dict[str, Any] = {"kind": kind}
    for word in given:
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise CommandError(f"{what} {kind!r}: write OPTION=VALUE, without spaces, got {word!r}")
        if name in options:
            raise CommandError(f"{what} {kind!r} may say {name!r} once, got it twice; drop one")
        options[name] = _value(value)
    return options


def parse_protection(text: str) -> Uniform:
    """Read the one guarantee of a whole study.

    Example:
        >>> parse_protection("uniform 1/2")
        Uniform(epsilon=0.5)
    """
    read = re.fullmatch(r"uniform\s+(\S+)", text.strip())
    if read is None:
        raise CommandError(
            f"one guarantee for whole records is written {PROTECTION!r}, got {text!r}; for other "
            "metrics let every axis state its own"
        )
    return Uniform(read[1])


def _refuse_unknown(name: str, kind: str, what: str) -> None:
    """Refuse an option that the choice does not have."""
    choice = REGISTRY[kind]
    if not dataclasses.is_dataclass(choice):
        return
    known = [field.name for field in dataclasses.fields(choice)]
    if not known:
        raise CommandError(f"{what} {kind!r} takes no options, got {name!r}; drop it")
    if name not in known:
        raise CommandError(f"{what} {kind!r} has no option {name!r}: {near(name, known)}")


def _value(text: str) -> Any:
    """A whole number, true or false, a list, or a word; "a|" is a list of one."""
    if "|" in text:
        return text.removesuffix("|").split("|")
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    return _TRUTH.get(text, text)
