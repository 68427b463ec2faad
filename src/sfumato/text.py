"""Names, numbers and tables as plain text."""

from __future__ import annotations

import codecs
import html
import math
import re
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from sfumato.errors import StudyError, shown

MOST_LETTERS = 1_000  # of a name, label or unit
# Control characters, breaks of lines and paragraphs, and marks that turn the direction of writing
# round: a terminal would take them for commands.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_HALVES = re.compile("[\ud800-\udfff]")


#: Digits of numbers below 64 in device programs.
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def refuse_name(text: str, what: str) -> None:
    """Refuse a name, label or unit that no file can hold; any other is shown as it is.

    Args:
        text: The name, label or unit.
        what: What it is called in a message.

    Raises:
        StudyError: If it is too long, or holds half of a character (a surrogate).
    """
    if len(text) > MOST_LETTERS:
        raise StudyError(
            f"{what} may have at most {MOST_LETTERS:,} characters, got {len(text):,}: {shown(text)}"
        )
    if not is_writable(text):
        raise StudyError(f"{what} must be text that UTF-8 can write, got {shown(text)}")


def is_writable(text: str) -> bool:
    """Whether UTF-8 can write a text: it holds no half of a character (a surrogate)."""
    return _HALVES.search(text) is None


def visible(text: str) -> str:
    r"""A line for people: characters that would not be seen are written as Python writes them.

    Names and labels may hold any text. What shows them passes them through here, and escapes the
    markup of its own language, so that nothing in them is taken for a command.

    Example:
        >>> visible("a\x1b[31mb")
        'a\\x1b[31mb'
    """
    return _UNSEEN.sub(lambda found: repr(found[0])[1:-1], text)


#: What stands for a character where it cannot be shown.
_PLAIN = {
    "±": "+/-", "–": "-", "—": "-", "−": "-", "…": "...", "×": "x", "·": "*", "ε": "epsilon",
    "≈": "~", "≤": "<=", "≥": ">=", "²": "^2", "→": "->", "\u2019": "'", "∞": "inf",
}  # fmt: skip


def is_unicode(stream: Any) -> bool:
    """Whether a stream of text shows all characters."""
    return "utf" in str(getattr(stream, "encoding", "utf-8")).lower()


def use_plain_characters(*streams: Any) -> None:
    """Let streams that show few characters write others in plain ones instead of failing.

    Args:
        streams: Such as standard output.
    """
    codecs.register_error("plain", _plain)
    codecs.register(_plain_codec)
    for stream in streams:
        if not is_unicode(stream) and hasattr(stream, "reconfigure"):
            is_ascii = codecs.lookup(stream.encoding).name == "ascii"
            stream.reconfigure(encoding="plain" if is_ascii else stream.encoding, errors="plain")


def _plain_codec(name: str) -> codecs.CodecInfo | None:
    """ASCII by another name: click takes a stream of that name for a mistake, and writes UTF-8."""
    if name != "plain":
        return None
    known = codecs.lookup("ascii")
    return codecs.CodecInfo(
        known.encode,
        known.decode,
        known.streamreader,
        known.streamwriter,
        known.incrementalencoder,
        known.incrementaldecoder,
        name="plain",
    )


def _plain(error: UnicodeError) -> tuple[str, int]:
    """What stands for characters that a stream cannot show: plain ones, or their code."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    there = error.object[error.start : error.end]
    shown = "".join(_PLAIN.get(letter, ascii(letter)[1:-1]) for letter in there)
    return shown, error.end


def visible_json(text: str) -> str:
    """A JSON document with the same characters escaped as JSON writes them; it means the same."""
    written = (
        _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", line) for line in text.split("\n")
    )
    return "\n".join(written)


def escape(text: str) -> str:
    """A line for a page: `visible`, and nothing in it is markup.

    Example:
        >>> escape("<b> & more")
        '&lt;b&gt; &amp; more'
    """
    return html.escape(visible(text))


def format_to(value: float, error: float) -> str:
    """A number rounded to two significant digits of its error, with thousands separated.

    Args:
        value: The number.
        error: Its standard error; 0 or an infinite one leaves up to six decimals.

    Example:
        >>> format_to(12_343.2, 211.7), format_to(0.12345, 0.0021), format_to(3.0, 0.0)
        ('12,340', '0.1235', '3')
    """
    if not math.isfinite(value):
        return str(value)
    if error > 0 and math.isfinite(error):
        decimals = 1 - math.floor(math.log10(float(f"{error:.1e}")))  # 0.999 is 1.0
    else:
        decimals = 0 if value == round(value) else 6
    rounded = round(value, decimals)
    return f"{rounded + 0.0:,.{max(decimals, 0)}f}"


def percent(share: float) -> str:
    """A share as a percentage to two significant digits.

    Example:
        >>> percent(0.0021234), percent(0.5), percent(0.009999)
        ('0.21%', '50%', '1.0%')
    """
    return f"{format_to(100 * share, 100 * share)}%"


def text_table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Lines of a table; columns of numbers are aligned to the right.

    Args:
        columns: Names of the columns.
        rows: The cells, one tuple per row.
    """
    table = [tuple(map(visible, row)) for row in (columns, *rows)]
    columns, *rows = table
    widths = [max(len(row[k]) for row in table) for k in range(len(columns))]
    words = [any(row[k][:1].isalpha() for row in rows) for k in range(len(columns))]

    def line(row: tuple[str, ...]) -> str:
        parts = [
            cell.ljust(width) if word else cell.rjust(width)
            for cell, width, word in zip(row, widths, words, strict=True)
        ]
        return "  ".join(parts).rstrip()

    return [line(columns), "  ".join("-" * width for width in widths), *map(line, rows)]


class TableText(NamedTuple):
    """A table with a line above it and lines below, before it is text or HTML.

    Args:
        head: The line above.
        columns: Names of the columns.
        rows: The cells, one tuple per row.
        tail: The lines below.
    """

    head: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    tail: tuple[str, ...] = ()


class Tabled(ABC):
    """What is shown as a table: as text by `print`, and as HTML in notebooks."""

    __slots__ = ()

    @abstractmethod
    def table_text(self) -> TableText:
        """The table that shows it."""

    def __str__(self) -> str:
        head, columns, rows, tail = self.table_text()
        return "\n".join([visible(head), "", *text_table(columns, rows), *map(visible, tail)])

    def _repr_html_(self) -> str:
        """HTML for notebooks."""
        head, columns, rows, tail = self.table_text()
        small = "<br>".join(escape(line) for line in tail if line)
        below = f"<p><small>{small}</small></p>" if small else ""
        return f"<p>{escape(head)}</p>{html_table(columns, rows)}{below}"


def html_table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """The same table for a notebook or a page.

    Args:
        columns: Names of the columns.
        rows: The cells, one tuple per row.

    Example:
        >>> html_table(("age",), [("<18",)])
        '<table><tr><th>age</th></tr><tr><td>&lt;18</td></tr></table>'
    """

    def line(tag: str, row: tuple[str, ...]) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in row)}</tr>"

    return f"<table>{line('th', columns)}{''.join(line('td', row) for row in rows)}</table>"


def interval_name(level: float) -> str:
    """The name of an interval.

    Example:
        >>> interval_name(0.95)
        '95% interval'
    """
    return f"{level * 100:.6g}% interval"


def odds(e: float) -> str:
    """The factor e^E in words.

    Example:
        >>> odds(1.0), odds(0.05), odds(30.0)
        ('2.7 times', '1.05 times', '10^13 times')
    """
    if math.isinf(e):
        return "any number of times"
    if e > 690:
        return "practically any number of times"
    ratio = math.exp(e)
    if ratio < 1.1:
        return f"{ratio:.3g} times"
    if ratio < 10:
        return f"{ratio:.2g} times"
    if ratio < 1e6:
        return f"{float(f'{ratio:.2g}'):,.0f} times"
    if ratio < 1e9:
        return f"{ratio / 1e6:,.0f} million times"
    return f"10^{round(math.log10(ratio))} times"
