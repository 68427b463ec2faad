"""The tables and pictures of the page on speed that several measurements share a section of.

`python -m benchmarks.speed_page` writes them from `results/bench`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import accumulating, engines, files, many, streams, sweeps
from benchmarks.pages import refilled
from benchmarks.recording import FOLDER

PAGE = Path("docs/speed.md")
#: The tables that each measurement fills.
TABLES: dict[str, Callable[[Sequence[dict[str, Any]]], dict[str, str]]] = {
    "files": files.page_tables,
    "engines": engines.page_tables,
    "accumulating": accumulating.page_tables,
    "streams": streams.page_tables,
    "many": many.page_tables,
    "sweeps": sweeps.page_tables,
}
#: The pictures, and who draws them.
PICTURES = {"files": (files.PICTURE, files.draw), "sweeps": (sweeps.PICTURE, sweeps.draw)}


def recorded(name: str) -> list[dict[str, Any]]:
    """The figures of a measurement."""
    held = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    figures: list[dict[str, Any]] = held["figures"]
    return figures


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    for name, tables in TABLES.items():
        text = refilled(text, tables(recorded(name)))
    PAGE.write_text(text, encoding="utf-8")
    for name, (picture, draw) in PICTURES.items():
        draw(recorded(name), picture)
