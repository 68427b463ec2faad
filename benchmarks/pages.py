"""Recorded figures as tables of a page, between marks that say which table stands there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_MARKED = "<!-- {0} -->\n{1}\n<!-- end of {0} -->"


def digits(value: float) -> str:
    """Three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table.

    Args:
        head: The headings.
        rows: The cells as text.
    """
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def refilled(page: str, tables: Mapping[str, str]) -> str:
    """The page with these tables between their marks.

    Args:
        page: Its text.
        tables: The tables by the name in their marks.
    """
    for name, table in tables.items():
        marked = re.escape(_MARKED.format(name, "@")).replace("@", ".*")
        filled = _MARKED.format(name, table)
        page, found = re.subn(marked, lambda _, text=filled: text, page, flags=re.DOTALL)
        assert found == 1, f"the page has no place for {name}"
    return page
