"""Reading study files (TOML); errors name the part that is damaged."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from sfumato.channels.choice import Choice, as_saved, choice_from_dict
from sfumato.domains.registry import domain_from_dict
from sfumato.errors import FormatError, SfumatoError, shown
from sfumato.files import as_path
from sfumato.metrics.base import Metric
from sfumato.metrics.registry import metric_from_dict
from sfumato.metrics.uniform import Uniform
from sfumato.study.axis import Axis, Together
from sfumato.study.schema import FORMAT, MOST_BYTES, Schema, arrange, digest, refuse_large

_MOST_ENTRIES = 50_000  # keys and tables of a study file
_MOST_PARTS = 8  # of a dotted key, as in axes.protect.at
# Strings and comments of TOML; what is not closed runs to the end of the line or file.
_ASIDE = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:"""|\Z)'
    r"|'''(?:[^']++|'(?!''))*+(?:'''|\Z)"
    r'|"(?:[^"\\\n]++|\\.)*+(?:"|\n|\Z)'
    r"|'[^'\n]*+(?:'|\n|\Z)|#[^\n]*+",
    re.DOTALL,
)
_ENTRY = re.compile(r"=|^[ \t]*+\[[^],\n]*+\]", re.MULTILINE)
_LONG_KEY = re.compile(rf"(?<![\w\"-])(?:[\w\"-]++[ \t]*+\.[ \t]*+){{{_MOST_PARTS}}}", re.ASCII)

KNOWN_ENTRIES = {
    "format",
    "name",
    "people",
    "fingerprint",
    "protect",
    "mechanism",
    "together",
    "axes",
}


def refuse_claim(claimed: object, data: Mapping[str, Any], what: str) -> NoReturn:
    """Raise the error for a file whose fingerprint does not match its entries.

    Args:
        claimed: The fingerprint that the file states.
        data: The entries as this version writes them.
        what: What messages call the file.

    Raises:
        FormatError: Always; it says whether the file is older or has been edited.
    """
    if claimed == digest(_unrevised(data)):
        raise FormatError(
            f"{what} was made by an older sfumato, with a channel whose reports mean something "
            "else here; read them with the version that made them, or remove the line "
            "'fingerprint' to begin a new study"
        )
    raise FormatError(
        f"{what} has been changed since it was saved: its fingerprint does not match. If the "
        "change is meant, it is a new study: remove the line 'fingerprint'"
    )


def _unrevised(data: Any) -> Any:
    """The entries without channel revisions, as files of the first revision were written."""
    if isinstance(data, Mapping):
        return {key: _unrevised(held) for key, held in data.items() if key != "revision"}
    return [_unrevised(held) for held in data] if isinstance(data, list) else data


@dataclass(frozen=True, slots=True)
class Held:
    """The content of a study file, as arguments for `Study`.

    Args:
        name: The study's name.
        axes: The axes, in groups where they share a guarantee.
        protect: The guarantee for all axes together, if the file states one.
        channel: The channel of whole records, if the file states one.
        people: About how many people will answer, if the file states it.
        fingerprint: The fingerprint that the file states, if any.
        entries: The entries that the fingerprint is a digest of.
    """

    name: str
    axes: list[Axis | Together]
    protect: Metric | None
    channel: Choice | None
    people: int | None
    fingerprint: str | None
    entries: dict[str, Any]


def read_file(path: str | Path) -> str:
    """The text of a study file."""
    file = as_path(path)
    what = shown(str(file))
    try:
        with file.open("rb") as opened:
            held = opened.read(MOST_BYTES + 1)
        refuse_large(len(held), what)
        return held.decode("utf-8")
    except FileNotFoundError:
        raise FormatError(f"there is no study file {what}; check the path") from None
    except (OSError, UnicodeError):
        raise FormatError(f"{what} is not a readable study file") from None


def from_toml(text: str, what: str) -> Held:
    """Read the text of a study file; a damaged or newer one is refused.

    Args:
        text: The text of the file (TOML).
        what: What messages call it.
    """
    data = _parsed(text, what)
    version = data.get("format")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise FormatError(f"{what} does not say its format; a study file has format = {FORMAT}")
    if version > FORMAT:
        raise FormatError(
            f"{what} has format {shown(version)}, newer than this package's {FORMAT}; update "
            "sfumato"
        )
    unknown = sorted(set(data) - KNOWN_ENTRIES)
    if unknown:
        raise FormatError(f"{what} has unknown entries: {', '.join(map(shown, unknown[:5]))}")
    meant = as_saved(data) if "fingerprint" in data else data
    with damaged(what):
        held = Held(
            name=data.get("name", ""),
            axes=_grouped(_axes_from_list(meant.get("axes", [])), meant.get("together", [])),
            protect=metric_from_dict(_table_of(data, "protect")) if "protect" in data else None,
            channel=(
                choice_from_dict(_table_of(meant, "mechanism")) if "mechanism" in data else None
            ),
            people=data.get("people"),
            fingerprint=data.get("fingerprint"),
            entries={key: data[key] for key in data if key not in ("people", "fingerprint")},
        )
        if held.channel is not None and not isinstance(held.protect, Uniform):
            raise FormatError(
                "'mechanism' perturbs whole records and needs one guarantee for them, a table "
                "'protect' of kind 'uniform' beside it; leave it out, or give the axes a 'channel'"
            )
        return held


def _parsed(text: str, what: str) -> dict[str, Any]:
    """The entries of a study file, refused before its shape could take long to read."""
    if not isinstance(text, str):
        raise FormatError(f"{what} must be a text, got {type(text).__name__}")
    refuse_large(len(text), what)
    bare = _ASIDE.sub('""', text)
    if _LONG_KEY.search(bare) or sum(1 for _ in _ENTRY.finditer(bare)) > _MOST_ENTRIES:
        raise FormatError(
            f"{what} is no study file: it has more than {_MOST_ENTRIES:,} entries, or one named by "
            f"more than {_MOST_PARTS} words"
        )
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise FormatError(f"{what} is no study file: its entries are nested too deeply") from None
    except ValueError as error:  # TOMLDecodeError, or a number of too many digits
        raise FormatError(f"{what} is not valid TOML: {error}") from None


@contextmanager
def damaged(what: str) -> Iterator[None]:
    """Turn any error of this package into a FormatError saying that the file is damaged."""
    try:
        yield
    except SfumatoError as error:
        raise FormatError(f"{what} is damaged: {error}") from None


def schema_from_toml(text: str, *, what: str = "the study") -> tuple[Schema, str | None]:
    """Read the schema of a study file and its fingerprint, without building any channel.

    Args:
        text: The text of the file.
        what: What messages call it.

    Returns:
        The schema, and the fingerprint of the whole study; None where the file states none.

    Raises:
        FormatError: If the file is damaged, newer, or changed since it was saved.
    """
    held = from_toml(text, what)
    if held.fingerprint is not None and held.fingerprint != digest(held.entries):
        refuse_claim(held.fingerprint, held.entries, what)
    with damaged(what):
        return Schema(held.name, arrange(held.axes, protect=held.protect)), held.fingerprint


def _grouped(axes: list[Axis], groups: Any) -> list[Axis | Together]:
    """Axes, with those under one guarantee joined into a `Together`."""
    if not isinstance(groups, list) or not all(isinstance(held, Mapping) for held in groups):
        raise FormatError("'together' must be a list of tables, [[together]]")
    names = [axis.name for axis in axes]
    found: dict[int, Axis | Together] = dict(enumerate(axes))
    for data in groups:
        members = data.get("axes")
        if not isinstance(members, list) or set(data) - {"axes", "protect", "channel"}:
            raise FormatError("a table of 'together' must have only axes, protect and channel")
        places = [names.index(name) for name in members if name in names]
        neighbours = list(range(min(places, default=0), min(places, default=0) + len(members)))
        if len(members) < 2 or places != neighbours:
            raise FormatError(
                f"'together' must name two or more neighbouring axes in their order, got "
                f"{shown(members)}"
            )
        whole = Together(
            axes=tuple(axes[place] for place in places),
            protect=metric_from_dict(_table_of(data, "protect")) if "protect" in data else None,
            channel=choice_from_dict(_table_of(data, "channel")) if "channel" in data else None,
        )
        if any(place not in found or isinstance(found[place], Together) for place in places):
            raise FormatError("an axis appears in two tables of 'together'; leave out one of them")
        found[places[0]] = whole
        for place in places[1:]:
            del found[place]
    return [found[place] for place in sorted(found)]


def _table_of(data: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    """An entry that must be a table with a kind, such as the guarantee of a group of axes."""
    held = data[part]
    if not isinstance(held, Mapping) or not isinstance(held.get("kind"), str):
        raise FormatError(f"{part!r} of the study must be a table with a kind")
    return held


def _axes_from_list(data: Any) -> list[Axis]:
    """All axes from their entries in a file."""
    if not isinstance(data, list) or not all(isinstance(axis, Mapping) for axis in data):
        raise FormatError("'axes' must be a list of tables, [[axes]]")
    return [axis_from_dict(axis) for axis in data]


def axis_from_dict(data: Mapping[str, Any]) -> Axis:
    """An axis from its entries in a file; unknown and missing ones are refused.

    Example:
        >>> axis_from_dict(
        ...     {"name": "age", "domain": {"kind": "integers", "low": 0, "high": 99}}
        ... ).size
        100
    """
    known = {"name", "optional", "outside", "unit", "domain", "protect", "channel"}
    unknown = sorted(set(data) - known)
    missing = sorted({"name", "domain"} - set(data))
    if unknown or missing:
        problem = f"unknown entries {unknown}" if unknown else f"no entry {missing[0]!r}"
        raise FormatError(
            f"axis {data.get('name', '?')!r} has {problem}; an axis has a name and a domain, and "
            "may have optional, outside, unit, protect and channel"
        )
    if not isinstance(data.get("optional", False), bool):
        raise FormatError(f"'optional' of axis {data['name']!r} must be true or false")
    for part in ("domain", "protect", "channel"):
        kind = data[part].get("kind") if isinstance(data.get(part), Mapping) else None
        if part in data and not isinstance(kind, str):
            raise FormatError(f"{part!r} of axis {data['name']!r} must be a table with a kind")
    try:
        domain = domain_from_dict(data["domain"])
        protect = metric_from_dict(data["protect"]) if "protect" in data else None
        channel = choice_from_dict(data["channel"]) if "channel" in data else None
    except SfumatoError as error:
        raise FormatError(f"axis {data['name']!r}: {error}") from None
    return Axis(
        name=data["name"],
        domain=domain,
        protect=protect,
        channel=channel,
        optional=data.get("optional", False),
        outside=data.get("outside"),
        unit=data.get("unit", ""),
    )
