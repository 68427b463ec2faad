"""What commands print: one JSON document, or tables and lines for people; progress on stderr."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from sfumato.estimation.answers import Answer
from sfumato.text import format_to

# How much of how much is done.
Seen = Callable[..., None]

_WIDTH_IN_FILES = 140
_EIGHTHS = " ▏▎▍▌▋▊▉"


def stdout() -> Console:
    """Where results go; into a file or pipe in lines wide enough for tables."""
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDTH_IN_FILES
    return console


def show_json(document: dict[str, Any]) -> None:
    """Print one JSON document and nothing else."""
    typer.echo(json.dumps(_plain(document), ensure_ascii=False, indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    """A value that JSON can hold: infinity as text, as an infinite E is one, and NaN as null."""
    if isinstance(value, dict):
        return {str(key): _plain(held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(held) for held in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def say(line: str) -> None:
    """Print one line, unbroken."""
    stdout().print(Text(line), soft_wrap=True)


def warn(line: str) -> None:
    """Print one line on stderr that nobody should overlook."""
    text = Text.assemble(("warning:", "bold yellow"), " ", line)
    Console(stderr=True, highlight=False).print(text, soft_wrap=True)


@contextmanager
def progress(doing: str) -> Iterator[Seen]:
    """A bar on stderr, if that is a terminal, fed with how much of how much is done."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
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
    """An empty table; columns in `right` hold numbers."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        made.add_column(
            column, justify="right" if column in right else "left", overflow="fold", no_wrap=False
        )
    return made


def between(low: float, high: float, stderr: float) -> str:
    """An interval, rounded like its answer."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f"{format_to(low, stderr)} to {format_to(high, stderr)}"


def level_text(level: float) -> str:
    """The name of an interval, such as "95% interval"."""
    return f"{level * 100:.6g}% interval"


def answers_table(asked: Sequence[str], answers: Sequence[Answer]) -> Table:
    """One row an answer: question, answer, interval, notes."""
    interval = level_text(answers[0].level)
    with_notes = any(answer.notes for answer in answers)
    columns = ["question", "answer", interval, *(["notes"] if with_notes else [])]
    made = table(*columns, right=("answer", interval))
    for text, answer in zip(asked, answers, strict=True):
        cells = [text, str(answer), between(answer.low, answer.high, answer.stderr)]
        cells += ["; ".join(answer.notes)] if with_notes else []
        made.add_row(*(Text(cell) for cell in cells))
    return made


def bar(share: float, width: int, *, ascii_only: bool) -> str:
    """A bar of blocks, an eighth of a letter fine; nothing for shares of 0 or less.

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
