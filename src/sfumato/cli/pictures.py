"""Histograms and heat maps in letters, for the terminal."""

from __future__ import annotations

import math

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sfumato.cli.showing import bar, between, level_text, table
from sfumato.estimation.answers import NO_REPORTS, Answers
from sfumato.text import format_to

_SHADES = "░▒▓█"
_ASCII_SHADES = ".:*#"
_UNSURE = "·"
_MOST_BAR = 40
_MOST_ROWS = 40
_GROUPS = 12


def bars(found: Answers, console: Console) -> Table:
    """One row a cell: its name, a bar, the answer and its interval."""
    interval = level_text(found.level)
    made = table(found.axes[0], "", found.unit, interval, right=(found.unit, interval))
    made.columns[1].no_wrap = True
    top = np.nanmax(found.values, initial=0.0)
    width = max(8, min(_MOST_BAR, console.width // 3))
    for label, value, stderr, low, high in zip(
        found.labels, found.values, found.stderr, found.low, found.high, strict=True
    ):
        length = bar(value / top if top > 0 else 0.0, width, ascii_only=_ascii_only(console))
        cells = (_number(value, stderr), between(low, high, stderr))
        made.add_row(Text(label), Text(length, "cyan"), *(Text(cell) for cell in cells))
    return made


def fitting(found: Answers, console: Console) -> tuple[int | None, int | None] | None:
    """Into how many groups the cells of both axes go to fit the terminal; None if they fit."""
    rows, columns = found.values.shape
    room = (console.width - _label_width(found)) // 2
    if rows <= _MOST_ROWS and (_has_room(found, console) or columns <= room):
        return None
    # Fewer groups than would fit: the larger a cell, the clearer it stands out of the noise.
    return min(rows, _GROUPS), min(columns, _GROUPS, max(room, 2))


def grid(found: Answers, console: Console) -> Table:
    """Two axes as a table of numbers if there is room, else in shades."""
    return _numbers(found) if _has_room(found, console) else _shades(found, console)


def _numbers(found: Answers) -> Table:
    """An answer a cell."""
    labels = found.all_labels[1]
    made = table(" × ".join(found.axes), *labels, right=labels)
    for label, values, errors in zip(found.all_labels[0], found.values, found.stderr, strict=True):
        cells = [_number(v, s) for v, s in zip(values, errors, strict=True)]
        made.add_row(Text(label), *(Text(cell) for cell in cells))
    return made


def _shades(found: Answers, console: Console) -> Table:
    """A shade a cell, two letters wide; noise that looks like people is left out."""
    shades = _ASCII_SHADES if _ascii_only(console) else _SHADES
    unsure = " " if _ascii_only(console) else _UNSURE
    top = float(np.nanmax(found.values, initial=0.0)) or 1.0
    labels = found.all_labels[1]
    made = table(found.axes[0], f"{found.axes[1]} from {labels[0]} to {labels[-1]}")
    made.columns[1].no_wrap = True
    made.caption = f"darkest: {_top(found, top)}; {unsure!r}: not clearly above 0"
    for label, values, lows in zip(found.all_labels[0], found.values, found.low, strict=True):
        letters = [
            shades[min(int(value / top * len(shades)), len(shades) - 1)] if low > 0 else unsure
            for value, low in zip(values.tolist(), lows.tolist(), strict=True)
        ]
        made.add_row(Text(label), Text("".join(letter * 2 for letter in letters)))
    return made


def _top(found: Answers, top: float) -> str:
    """The largest answer, for the legend."""
    if not np.isfinite(found.values).any():
        return NO_REPORTS
    place = np.unravel_index(np.nanargmax(found.values), found.values.shape)
    return f"{format_to(top, float(found.stderr[place]))} {found.unit}"


def _has_room(found: Answers, console: Console) -> bool:
    """Whether a table of numbers is narrow enough."""
    widths = [
        max(len(label), *(len(_number(v, s)) for v, s in zip(column, errors, strict=True)))
        for label, column, errors in zip(
            found.all_labels[1], found.values.T, found.stderr.T, strict=True
        )
    ]
    return _label_width(found) + sum(width + 2 for width in widths) <= console.width


def _label_width(found: Answers) -> int:
    """Letters that the first column takes."""
    return max(len(" × ".join(found.axes)), *map(len, found.all_labels[0])) + 3


def _number(value: float, stderr: float) -> str:
    """An answer with its error."""
    if math.isnan(value):
        return NO_REPORTS
    return f"{format_to(value, stderr)} ± {format_to(stderr, stderr)}"


def _ascii_only(console: Console) -> bool:
    """Whether the terminal knows no blocks."""
    return bool(console.options.ascii_only)
