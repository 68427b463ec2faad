"""A study's file, read back part by part; what is damaged is named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NoReturn

from sfumato.channels.registry import choice_from_dict
from sfumato.domains.registry import domain_from_dict
from sfumato.errors import FormatError
from sfumato.metrics.registry import metric_from_dict
from sfumato.study.axis import Axis

KNOWN_ENTRIES = {"format", "name", "people", "fingerprint", "protect", "mechanism", "axes"}


def digest(data: Mapping[str, Any]) -> str:
    """The SHA-256 of entries, however they are laid out."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def refuse_claim(claimed: object, data: Mapping[str, Any], what: str) -> NoReturn:
    """Say why a file's fingerprint is not that of its entries."""
    if claimed == digest(_unrevised(data)):
        raise FormatError(
            f"{what} was made by an older sfumato, with a channel whose reports mean something "
            "else here; read them with the version they were made by, or remove the line "
            "'fingerprint' to begin a new study"
        )
    raise FormatError(
        f"{what} has been changed since it was saved: its fingerprint does not match. If the "
        "change is meant, it is a new study: remove the line 'fingerprint'"
    )


def _unrevised(data: Any) -> Any:
    """Entries as they were when every channel had its first revision, which files leave out."""
    if isinstance(data, Mapping):
        return {key: _unrevised(held) for key, held in data.items() if key != "revision"}
    return [_unrevised(held) for held in data] if isinstance(data, list) else data


def table_of(data: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    """An entry of the whole study that must be a table with a kind."""
    held = data[part]
    if not isinstance(held, Mapping) or not isinstance(held.get("kind"), str):
        raise FormatError(f"{part!r} of the study must be a table with a kind")
    return held


def axes_from_list(data: Any) -> list[Axis]:
    """All axes as a file holds them."""
    if not isinstance(data, list) or not all(isinstance(axis, Mapping) for axis in data):
        raise FormatError("'axes' must be a list of tables, [[axes]]")
    return [_axis_from_dict(axis) for axis in data]


def _axis_from_dict(data: Mapping[str, Any]) -> Axis:
    """An axis as a file holds it."""
    known = {"name", "optional", "outside", "unit", "domain", "protect", "channel"}
    unknown = sorted(set(data) - known)
    missing = sorted({"name", "domain"} - set(data))
    if unknown or missing:
        problem = f"unknown entries {unknown}" if unknown else f"no entry {missing[0]!r}"
        raise FormatError(f"axis {data.get('name', '?')!r} has {problem}")
    if not isinstance(data.get("optional", False), bool):
        raise FormatError(f"'optional' of axis {data['name']!r} must be true or false")
    for part in ("domain", "protect", "channel"):
        kind = data[part].get("kind") if isinstance(data.get(part), Mapping) else None
        if part in data and not isinstance(kind, str):
            raise FormatError(f"{part!r} of axis {data['name']!r} must be a table with a kind")
    return Axis(
        name=data["name"],
        domain=domain_from_dict(data["domain"]),
        protect=metric_from_dict(data["protect"]) if "protect" in data else None,
        channel=choice_from_dict(data["channel"]) if "channel" in data else None,
        optional=data.get("optional", False),
        outside=data.get("outside"),
        unit=str(data.get("unit", "")),
    )
