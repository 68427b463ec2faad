"""What commands print: one JSON document, or tables, bars and lines; progress goes to stderr."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from sfumato.estimation.answers import NO_REPORTS, Answer, Answers
from sfumato.text import Tabled, format_to, interval_name, is_unicode, visible, visible_json

# Called with the amount done, the total, and what is being done.
Seen = Callable[..., None]

_WIDTH_IN_FILES = 140
_EIGHTHS = " ▏▎▍▌▋▊▉"
_SHADES = "░▒▓█"
_ASCII_SHADES = ".:*#"
_UNSURE = "·"
_MOST_BAR = 40
_MOST_ROWS = 40
_GROUPS = 12


def stdout() -> Console:
    """The console for results; lines in a file or pipe are wide enough for tables."""
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDTH_IN_FILES
    return console


def show_json(document: dict[str, Any]) -> None:
    """Print one JSON document and nothing else."""
    text = json.dumps(
        _plain(document), ensure_ascii=not is_unicode(sys.stdout), indent=2, allow_nan=False
    )
    typer.echo(visible_json(text))


def _plain(value: Any) -> Any:
    """The value in a form that JSON can hold: infinity as text, NaN as null."""
    if isinstance(value, dict):
        return {str(key): _plain(held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(held) for held in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def say(line: str) -> None:
    """Print one line, unbroken."""
    stdout().print(literal(line), soft_wrap=True)


def literal(text: str, style: str = "") -> Text:
    """Text for a terminal as it is: neither markup nor control characters mean anything in it.

    Args:
        text: What to show.
        style: How to show all of it.
    """
    return Text(visible(text), style)


def warn(line: str) -> None:
    """Print a warning on stderr, in one line."""
    text = Text.assemble(("warning:", "bold yellow"), " ", visible(line))
    Console(stderr=True, highlight=False).print(text, soft_wrap=True)


def note(line: str) -> None:
    """Print what is worth knowing on stderr, in one line."""
    Console(stderr=True, highlight=False).print(visible(line), markup=False, soft_wrap=True)


class _Rate(ProgressColumn):
    """How much is done per second."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: Task) -> Text:
        """The rate so far; nothing at the start."""
        return Text(f"{task.speed:,.0f} {self.unit}/s" if task.speed else "")


@contextmanager
def progress(doing: str, unit: str | None = None) -> Iterator[Seen]:
    """Show a progress bar on stderr if that is a terminal; call what it yields to move it.

    Args:
        doing: What is being done.
        unit: What is counted, to show the rate.
    """
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        *([_Rate(unit)] if unit else []),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task(doing, total=None)

        def seen(done: float, total: float, now: str = doing) -> None:
            bar.update(task, completed=done, total=total or 1, description=now)

        yield seen


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    """An empty table.

    Args:
        columns: The headings.
        right: Those of columns that hold numbers, which are aligned to the right.
    """
    made = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        made.add_column(
            literal(column),
            justify="right" if column in right else "left",
            overflow="fold",
            no_wrap=False,
        )
    return made


def show_tabled(found: Tabled) -> None:
    """Print what is shown as a table: the table, the line that says what it is, and notes.

    Args:
        found: A plan, a comparison or the like.
    """
    head, columns, rows, tail = found.table_text()
    words = [any(row[k][:1].isalpha() for row in rows) for k in range(len(columns))]
    right = [name for name, word in zip(columns, words, strict=True) if not word]
    made = table(*columns, right=right)
    for row in rows:
        made.add_row(*map(literal, row))
    stdout().print(made)
    for line in (head, *filter(None, tail)):
        say(line)


def show_csv(found: Tabled) -> None:
    """Print the same table as CSV, with its cells as they are shown.

    Args:
        found: A plan, a comparison or the like.
    """
    _, columns, rows, _ = found.table_text()
    held = io.StringIO()
    writer = csv.writer(held, lineterminator="\n")
    writer.writerows([columns, *rows])
    typer.echo(held.getvalue(), nl=False)


def between(low: float, high: float, stderr: float) -> str:
    """An interval, rounded like its answer; nothing if it has no bounds.

    Args:
        low: The lower bound.
        high: The upper bound.
        stderr: The standard error, which says how many digits to show.
    """
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f"{format_to(low, stderr)} to {format_to(high, stderr)}"


def answers_table(asked: Sequence[str], answers: Sequence[Answer]) -> Table:
    """A table with one row per answer: question, answer, interval, notes.

    Args:
        asked: The questions.
        answers: Their answers, in the same order.
    """
    interval = interval_name(answers[0].level)
    with_notes = any(answer.notes for answer in answers)
    columns = ["question", "answer", interval, *(["notes"] if with_notes else [])]
    made = table(*columns, right=("answer", interval))
    for text, answer in zip(asked, answers, strict=True):
        cells = [text, str(answer), between(answer.low, answer.high, answer.stderr)]
        cells += ["; ".join(answer.notes)] if with_notes else []
        made.add_row(*(literal(cell) for cell in cells))
    return made


def bar(share: float, width: int, *, ascii_only: bool) -> str:
    """A bar of blocks, to an eighth of a character; empty for a share of 0 or less.

    Args:
        share: How much of the width to fill, up to 1.
        width: Characters of a full bar.
        ascii_only: Whether to draw with # alone.

    Example:
        >>> bar(0.5, 4, ascii_only=True), bar(0.65625, 4, ascii_only=False)
        ('##', '██▋')
    """
    if not share > 0:
        return ""
    if ascii_only:
        return "#" * round(share * width)
    whole, part = divmod(round(share * width * 8), 8)
    return "█" * whole + (_EIGHTHS[part] if part else "")


def bars(found: Answers, console: Console) -> Table:
    """A histogram as a table with one row per cell: its name, a bar, the answer and its interval.

    Args:
        found: The answers on one axis.
        console: Where it is shown, which limits its width.
    """
    interval = interval_name(found.level)
    made = table(found.axes[0], "", found.unit, interval, right=(found.unit, interval))
    made.columns[1].no_wrap = True
    top = np.nanmax(found.values, initial=0.0)
    width = max(8, min(_MOST_BAR, console.width // 3))
    for label, value, stderr, low, high in zip(
        found.labels, found.values, found.stderr, found.low, found.high, strict=True
    ):
        length = bar(value / top if top > 0 else 0.0, width, ascii_only=_ascii_only(console))
        cells = (_number(value, stderr), between(low, high, stderr))
        made.add_row(literal(label), literal(length, "cyan"), *(literal(cell) for cell in cells))
    return made


def fitting(found: Answers, console: Console) -> tuple[int | None, int | None] | None:
    """How many groups of cells to show on each axis so that the map fits; None if it fits as it is.

    Args:
        found: The answers on two axes.
        console: Where they are shown.
    """
    rows, columns = found.values.shape
    room = (console.width - _label_width(found)) // 2
    if rows <= _MOST_ROWS and (_has_room(found, console) or columns <= room):
        return None
    # Fewer groups than would fit: the larger a cell, the clearer it stands out of the noise.
    return min(rows, _GROUPS), min(columns, _GROUPS, max(room, 2))


def grid(found: Answers, console: Console) -> Table:
    """A heat map as a table of numbers if there is room, else in shades.

    Args:
        found: The answers on two axes.
        console: Where they are shown.
    """
    return _numbers(found) if _has_room(found, console) else _shades(found, console)


def _numbers(found: Answers) -> Table:
    """A table with one number per cell."""
    labels = found.all_labels[1]
    made = table(" × ".join(found.axes), *labels, right=labels)
    for label, values, errors in zip(found.all_labels[0], found.values, found.stderr, strict=True):
        cells = [_number(v, s) for v, s in zip(values, errors, strict=True)]
        made.add_row(literal(label), *(literal(cell) for cell in cells))
    return made


def _shades(found: Answers, console: Console) -> Table:
    """A shade per cell, two characters wide; cells not clearly above 0 are left blank."""
    shades = _ASCII_SHADES if _ascii_only(console) else _SHADES
    unsure = " " if _ascii_only(console) else _UNSURE
    top = float(np.nanmax(found.values, initial=0.0)) or 1.0
    labels = found.all_labels[1]
    made = table(found.axes[0], f"{found.axes[1]} from {labels[0]} to {labels[-1]}")
    made.columns[1].no_wrap = True
    made.caption = literal(f"darkest: {_top(found, top)}; {unsure!r}: not clearly above 0")
    for label, values, lows in zip(found.all_labels[0], found.values, found.low, strict=True):
        letters = [
            shades[min(int(value / top * len(shades)), len(shades) - 1)] if low > 0 else unsure
            for value, low in zip(values.tolist(), lows.tolist(), strict=True)
        ]
        made.add_row(literal(label), literal("".join(letter * 2 for letter in letters)))
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
    """Characters that the first column takes."""
    return max(len(" × ".join(found.axes)), *map(len, found.all_labels[0])) + 3


def _number(value: float, stderr: float) -> str:
    """An answer with its error."""
    if math.isnan(value):
        return NO_REPORTS
    return f"{format_to(value, stderr)} ± {format_to(stderr, stderr)}"


def _ascii_only(console: Console) -> bool:
    """Whether the terminal cannot show block characters."""
    return bool(console.options.ascii_only)
