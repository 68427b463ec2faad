"""The language in which the command line describes axes, channels and guarantees.

An axis is one line, ``age: integers 0..99, distance 0.2, clip``: a name, a colon, the kind of its
values, then parts in any order. A channel is a name with options, ``hierarchical branching=2
oracle=hrr``; the values of a list are joined by |, and lists in a list by ||. A metric is written
in the same way, ``blocks epsilon=1 blocks=ash|elm||fir|oak``; places are labels with coordinates,
``at=Leith:3:4|Govan:0:1``, and + adds metrics. Values with spaces or punctuation are quoted.
Whatever is not understood is refused, with a list of what would be.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sfumato.channels.choice import REGISTRY, Choice, choice_from_dict
from sfumato.cli.commands import CommandError
from sfumato.domains.registry import domain_from_dict
from sfumato.errors import StudyError, TooLargeError, near
from sfumato.metrics.base import Metric, Sum
from sfumato.metrics.distance import Distance
from sfumato.metrics.registry import REGISTRY as METRICS
from sfumato.metrics.registry import metric_from_dict
from sfumato.metrics.uniform import Uniform
from sfumato.questions.language import split, unquoted
from sfumato.study.axis import Axis, Together
from sfumato.study.axis import together as make_together
from sfumato.study.blocks import bound

CHOICE = "NAME [OPTION=VALUE ...]"
PROTECTION = "uniform EPSILON"
TOGETHER = "NAME, NAME: uniform EPSILON[, channel NAME]"
FORM = "write an axis as 'age: integers 0..99, distance 0.2'"
FORMS = {
    "integers": "integers LOW..HIGH",
    "reals": "reals LOW..HIGH in BINS, or reals edges A|B|C",
    "dates": "dates START..END [by STEP]",
    "times": "times START..END by STEP",
    "categories": "categories LABEL|LABEL|...",
}
PARTS = {
    "distance": "distance EPSILON [per LENGTH]",
    "cap": "cap E",
    "uniform": "uniform EPSILON",
    "protect": f"protect {CHOICE}",
    "optional": "optional",
    "no": "no answer at LENGTH",
    "channel": f"channel {CHOICE}",
    "rounding": "rounding stochastic",
    "clip": "clip",
    "unit": "unit WORD",
}
_PATTERNS = {
    "distance": re.compile(r"distance\s+(\S+)(?:\s+per\s+(\S.*))?"),
    "cap": re.compile(r"cap\s+(\S+)"),
    "uniform": re.compile(r"uniform\s+(\S+)"),
    "protect": re.compile(r"protect\s+(\S.*)"),
    "optional": re.compile(r"optional"),
    "no": re.compile(r"no\s+answer\s+at\s+(\S.*)"),
    "channel": re.compile(r"channel\s+(\S.*)"),
    "rounding": re.compile(r"rounding\s+(stochastic)"),
    "clip": re.compile(r"clip"),
    "unit": re.compile(r"unit\s+(\S.*)"),
}
PUNCTUATION = ",:|"  # of an axis: names and labels that contain some are quoted
_TRUTH = {"true": True, "false": False}

Found = Mapping[str, "re.Match[str]"]


def parse_axis(text: str, *, shared: bool = False) -> Axis:
    """Read one axis.

    Args:
        text: The line.
        shared: Whether the study states one guarantee for all axes, so that this one need not.

    Raises:
        CommandError: If a part is unknown, missing, given twice or does not go with another.
        StudyError: If a number, bound or label is one that no axis can have.
        TooLargeError: If the axis has too many cells for its channel.

    Example:
        >>> axis = parse_axis("income: reals 0..200000 in 64, distance 1 per 10000")
        >>> axis.name, axis.size, axis.protect
        ('income', 64, Distance(epsilon=1, per=10000))
    """
    head, *rest = split(text, ":", after_space=True)
    name = unquoted(head)
    if not rest or not name:
        raise CommandError(f"an axis needs a name, a colon and its kind, got {text!r}; {FORM}")
    first, *others = [part.strip() for part in split(":".join(rest), ",", after_space=True)]
    try:
        described = _domain(name, first)
        found = _parts(name, others)
        _refuse_odd_pairs(name, described["kind"], found, shared)
        if "rounding" in found:
            described["rounding"] = found["rounding"][1]
        axis = Axis(
            name=name,
            domain=domain_from_dict(described),
            protect=_protection(found),
            channel=_channel(found),
            optional="optional" in found,
            outside="clip" if "clip" in found else None,
            unit=found["unit"][1] if "unit" in found else "",
        )
        _check_fit(axis)
    except (CommandError, StudyError, TooLargeError) as error:
        start = f"axis {name!r}"
        message = str(error)
        raise type(error)(message if message.startswith(start) else f"{start}: {message}") from None
    return axis


def parse_axes(
    texts: Sequence[str], together: Sequence[str] = (), *, shared: bool = False
) -> list[Axis | Together]:
    """Read all axes, and put those under one guarantee together, where the first of them stands.

    Args:
        texts: A line for each axis.
        together: A line for each group, such as ``row, column: uniform 1``.
        shared: Whether the study states one guarantee for all axes.

    Raises:
        CommandError: If a group names an axis that does not exist or is in another group.

    Example:
        >>> lines = [
        ...     "row: integers 0..7",
        ...     "age: integers 0..99, distance 0.2",
        ...     "seat: integers 0..7",
        ... ]
        >>> place, age = parse_axes(lines, ["row, seat: uniform 1"])
        >>> [axis.name for axis in place.axes], place.protect, age.name
        (['row', 'seat'], Uniform(epsilon=1), 'age')
    """
    groups = [_group(line) for line in together]
    grouped = [name for names, _, _ in groups for name in names]
    known = [unquoted(split(text, ":", after_space=True)[0]) for text in texts]
    for name in grouped:
        if name not in known:
            raise CommandError(
                f"--together names {name!r}, which is not an axis: {near(name, known)}"
            )
        if grouped.count(name) > 1:
            raise CommandError(f"--together may name axis {name!r} once, got it twice; drop one")
    axes: dict[str, Axis] = {}
    for name, text in zip(known, texts, strict=True):
        if name in axes:
            raise CommandError(f"two axes are called {name!r}; names must differ")
        axes[name] = parse_axis(text, shared=shared or name in grouped)
    made: list[Axis | Together] = []
    for name, axis in axes.items():
        if name not in grouped:
            made.append(axis)
        made += [
            make_together([axes[each] for each in names], protect=protect, channel=channel)
            for names, protect, channel in groups
            if name == names[0]
        ]
    return made


def _group(text: str) -> tuple[list[str], Metric, Choice | None]:
    """The axes of a group, their guarantee and their channel."""
    head, *rest = split(text, ":", after_space=True)
    names = [unquoted(name) for name in split(head, ",")]
    first, *others = [part.strip() for part in split(":".join(rest), ",", after_space=True)]
    named = [_PATTERNS["channel"].fullmatch(part) for part in others]
    if not rest or len(names) < 2 or not all(names) or len(named) > 1 or not all(named):
        raise CommandError(f"--together is written {TOGETHER!r}, got {text!r}")
    choice = parse_choice(named[0][1], "channel") if named and named[0] else None
    return names, parse_protection(first), choice


def _check_fit(axis: Axis) -> None:
    """Whether metric and channel fit, where the axis has its own; a slow channel is built later."""
    if axis.protect is None:
        return
    part = Together.alone(axis)
    metric = part.metric()
    if axis.channel is not None and (not axis.channel.slow or axis.channel.misfit(metric)):
        bound(part, axis.channel, metric)


def _domain(name: str, part: str) -> dict[str, Any]:
    """What a value may be, in the form of a study file."""
    kind, _, rest = part.partition(" ")
    if kind not in FORMS:
        raise CommandError(
            f"axis {name!r}: after the colon comes the kind of its values, got {part!r}: "
            f"{near(kind, FORMS)}"
        )
    found = _DOMAINS[kind](rest.strip())
    if found is None:
        raise CommandError(f"axis {name!r}: write {FORMS[kind]}, got {part!r}")
    return {"kind": kind, **found}


def _integers(rest: str) -> dict[str, Any] | None:
    """Both bounds."""
    ends = _ends(rest)
    return ends and {"low": ends[0], "high": ends[1]}


def _reals(rest: str) -> dict[str, Any] | None:
    """Bounds and the number of bins, or all edges."""
    listed = re.fullmatch(r"edges\s+(\S.*)", rest)
    if listed:
        return {"edges": [edge.strip() for edge in listed[1].split("|")]}
    spanned = re.fullmatch(r"(.+?) in (\S+)(?: bins)?", " ".join(rest.split()))
    ends = _ends(spanned[1]) if spanned else None
    return ends and spanned and {"low": ends[0], "high": ends[1], "bins": spanned[2]}


def _steps(rest: str) -> dict[str, Any] | None:
    """Start, end and step; the step of dates may be left out."""
    stepped = re.fullmatch(r"(.+?)(?: by (.+))?", " ".join(rest.split()))
    ends = _ends(stepped[1]) if stepped else None
    if not stepped or not ends:
        return None
    step = {"step": stepped[2]} if stepped[2] else {}
    return {"start": ends[0], "end": ends[1], **step}


def _times(rest: str) -> dict[str, Any] | None:
    """Start, end and step, none left out."""
    found = _steps(rest)
    return found if found and "step" in found else None


def _categories(rest: str) -> dict[str, Any] | None:
    """All labels."""
    return (
        {"labels": [unquoted(label) for label in split(rest, "|", after_space=True)]}
        if rest
        else None
    )


_DOMAINS: dict[str, Callable[[str], dict[str, Any] | None]] = {
    "integers": _integers,
    "reals": _reals,
    "dates": _steps,
    "times": _times,
    "categories": _categories,
}


def _ends(text: str) -> tuple[str, str] | None:
    """Both ends of low..high, or None if it is not that."""
    low, dots, high = (piece.strip() for piece in text.partition(".."))
    return (low, high) if low and dots and high and ".." not in high else None


def _parts(name: str, parts: list[str]) -> Found:
    """What follows the kind, by its first word."""
    found: dict[str, re.Match[str]] = {}
    for part in parts:
        word = part.split(" ", 1)[0]
        if word not in PARTS:
            digits = "; write numbers without thousands separators" if word.isdigit() else ""
            options = ", ".join(PARTS.values())
            raise CommandError(
                f"axis {name!r} has an unknown part {part!r}; parts are: {options}{digits}"
            )
        read = _PATTERNS[word].fullmatch(part)
        if read is None:
            raise CommandError(f"axis {name!r}: write {PARTS[word]!r}, got {part!r}")
        if word in found:
            raise CommandError(f"axis {name!r} may say {word!r} once, got it twice; drop one")
        found[word] = read
    return found


def _refuse_odd_pairs(name: str, kind: str, found: Found, shared: bool) -> None:
    """Refuse parts that contradict each other or the kind."""
    stated = [f"{word!r}" for word in ("distance", "uniform", "protect") if word in found]
    if len(stated) > 1:
        problem = f"is protected twice; keep {' or '.join(stated)}"
    elif not stated and not shared:
        fitting = PARTS["uniform" if kind == "categories" else "distance"]
        problem = f"says nothing about protection, and there is no default; add {fitting!r}"
    elif "no" in found and ("optional" not in found or "distance" not in found):
        problem = "says 'no answer at', which goes with 'optional' and 'distance' only; drop it"
    elif "distance" in found and "optional" in found and "no" not in found:
        problem = (
            "is optional, so it must say how far 'no answer' lies from every value; add "
            "'no answer at LENGTH', such as half the length of the axis"
        )
    elif "cap" in found and "distance" not in found:
        problem = "says 'cap', which goes with 'distance' only; drop it"
    elif "rounding" in found and kind != "reals":
        problem = f"holds {kind}, and only reals are rounded; drop 'rounding stochastic'"
    elif "unit" in found and kind not in ("integers", "reals"):
        problem = f"holds {kind}, which have no unit of their own; drop 'unit'"
    elif "clip" in found and kind == "categories":
        problem = "holds categories, which have no ends to clip to; drop 'clip'"
    else:
        return
    raise CommandError(f"axis {name!r} {problem}")


def _protection(found: Found) -> Metric | None:
    """The metric that the parts describe, if they do."""
    if "uniform" in found:
        return Uniform(found["uniform"][1])
    if "protect" in found:
        return parse_metric(found["protect"][1])
    if "distance" not in found:
        return None
    epsilon, per = found["distance"].groups()
    no_answer = found["no"][1] if "no" in found else None
    cap = found["cap"][1] if "cap" in found else None
    return Distance(epsilon, 1 if per is None else per, no_answer=no_answer, cap=cap)


def _channel(found: Found) -> Choice | None:
    """The channel that the parts name, if they do."""
    return parse_choice(found["channel"][1], "channel") if "channel" in found else None


def parse_choice(text: str, what: str) -> Choice:
    """Read a channel by name and options.

    Args:
        text: Such as ``hierarchical branching=2``.
        what: What it is called in a message.

    Raises:
        CommandError: If there is no such name or option.
        StudyError: If an option has a value that it cannot have.

    Example:
        >>> parse_choice("hierarchical branching=2 levels=1/2|1/4|1/4", "channel").options()
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
        >>> parse_metric("blocks epsilon=1 blocks=ash|birch||cedar|elm")
        Blocks(epsilon=1, blocks=[['ash', 'birch'], ['cedar', 'elm']])
        >>> parse_metric("points epsilon=1 at=low:0|mid:1|high:3 + uniform epsilon=1").between(
        ...     "low", "high"
        ... )
        4.0
    """
    parts = [
        metric_from_dict(_metric(part.strip())) for part in split(text, " + ", after_space=True)
    ]
    return parts[0] if len(parts) == 1 else Sum(parts)


def _metric(text: str) -> dict[str, Any]:
    """A metric as a study file would hold it; one label where a list is wanted is a list of it."""
    found = _words(text, "metric", METRICS)
    for name, parameter in inspect.signature(METRICS[found["kind"]]).parameters.items():
        value = found.get(name)
        if parameter.annotation == "Iterable[object]" and isinstance(value, (str, int)):
            found[name] = [value]
    return found


def _words(text: str, what: str, known: Iterable[str]) -> dict[str, Any]:
    """A kind and its options, as a study file would hold them."""
    words = [word for word in split(text, " ", after_space=True) if word.strip()]
    kind, given = (words[0], words[1:]) if words else ("", [])
    if kind not in (kinds := list(known)):
        raise CommandError(f"unknown {what} {kind!r}: {near(kind, kinds)}")
    options: dict[str, Any] = {"kind": kind}
    for word in given:
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise CommandError(
                f"{what} {kind!r}: write OPTION=VALUE, without spaces, got {word!r}; put quotes "
                "around a value that has some"
            )
        if name in options:
            raise CommandError(f"{what} {kind!r} may say {name!r} once, got it twice; drop one")
        options[name] = _places(value) if name == "at" else _value(value)
    return options


def parse_protection(text: str) -> Metric:
    """Read one guarantee for several axes or for whole records.

    Example:
        >>> parse_protection("uniform 1/2"), parse_protection("lp epsilon=1 p=2 per=10")
        (Uniform(epsilon=0.5), Lp(epsilon=1, p=2, per=10))
    """
    read = re.fullmatch(r"uniform\s+([^\s=]+)", text.strip())
    if read is not None:
        return Uniform(read[1])
    if text.split(" ", 1)[0] not in METRICS or "=" not in text:
        raise CommandError(
            f"one guarantee for several axes is written {PROTECTION!r}, or as a metric such as "
            f"'lp epsilon=1 p=2', got {text!r}; for other metrics let every axis state its own"
        )
    return parse_metric(text)


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
    """A whole number, true or false, a list, a list of lists, or a word; "a|" is a list of one."""
    lists = split(text, "||")
    if len(lists) > 1:
        return [_listed(part) for part in (lists if lists[-1] else lists[:-1])]
    if len(split(text, "|")) > 1:
        return _listed(text)
    if re.fullmatch(r"-?[0-9]{1,18}", text):
        return int(text)
    return _TRUTH.get(text, unquoted(text))


def _listed(text: str) -> list[str]:
    """The words between |; one at the end does not count."""
    found = [unquoted(word) for word in split(text, "|")]
    return found if found[-1] else found[:-1]


def _places(text: str) -> dict[str, list[str]]:
    """Labels with their coordinates."""
    places: dict[str, list[str]] = {}
    for one in split(text, "|"):
        label, *where = split(one, ":")
        if not where or not all(where) or unquoted(label) in places:
            raise CommandError(
                "places are written at=LABEL:X|LABEL:X or at=LABEL:X:Y|..., each label once, got "
                f"{one!r}"
            )
        places[unquoted(label)] = where
    return places
