"""Formatting of numbers and tables as plain text."""

from __future__ import annotations

import math


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
    table = [columns, *rows]
    widths = [max(len(row[k]) for row in table) for k in range(len(columns))]
    words = [any(row[k][:1].isalpha() for row in rows) for k in range(len(columns))]

    def line(row: tuple[str, ...]) -> str:
        parts = [
            cell.ljust(width) if word else cell.rjust(width)
            for cell, width, word in zip(row, widths, words, strict=True)
        ]
        return "  ".join(parts).rstrip()

    return [line(columns), "  ".join("-" * width for width in widths), *map(line, rows)]
