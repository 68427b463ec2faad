"""Figures made again, kept as JSON with the command, the date and the commit of every part."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.pages import refilled
from benchmarks.recording import origin

MADE = "made by"


def held(path: Path) -> dict[str, Any]:
    """What was recorded before, if anything."""
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return record


def stamp(record: dict[str, Any], part: str, command: str) -> None:
    """Record how and when a part was made.

    Args:
        record: The results.
        part: Name of the part.
        command: The command that made it.
    """
    record[MADE] = {**record.get(MADE, {}), part: origin(command)}


def keep(
    path: Path,
    record: Mapping[str, Any],
    page: Path | None = None,
    tables: Callable[[Mapping[str, Any]], Mapping[str, str]] | None = None,
) -> None:
    """Write the record, and the tables of a page that has a place for each of them.

    Args:
        path: The JSON file.
        record: The results.
        page: The page, if there is one.
        tables: Gives the tables by name, from the record.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if page is None or tables is None or not page.exists():
        return
    text, made = page.read_text(encoding="utf-8"), tables(record)
    if all(f"<!-- {name} -->" in text for name in made):
        page.write_text(refilled(text, made), encoding="utf-8")
