"""One tree of errors; a message names the thing, the rule, the value and the remedy.

A person's value never appears in a message: where data is at fault, row numbers stand for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from typing import Any


class SfumatoError(Exception):
    """Anything this package refuses to do."""


class StudyError(SfumatoError, ValueError):
    """A study, axis, metric or channel that cannot be what it says."""


class DataError(SfumatoError, ValueError):
    """A table that does not fit its study; rows are numbered from 1, values are never shown."""


class QuestionError(SfumatoError, ValueError):
    """A question that the study cannot be asked."""


class MismatchError(SfumatoError, ValueError):
    """Reports, tallies or answers that belong to another study."""


class FormatError(SfumatoError, ValueError):
    """A file that is damaged, newer than this package, or not one of ours."""


class LedgerError(SfumatoError, ValueError):
    """A release that the ledger does not allow: what is left of E would not cover it."""


class StoreError(SfumatoError):
    """What a device keeps cannot be written or read, or its clock contradicts it."""


class UploadError(SfumatoError):
    """A collector that cannot be reached by this address, or that refuses what it is sent."""


class CollectorError(SfumatoError):
    """A collector that gives no answer to a question, or refuses it.

    Args:
        message: What is wrong, with the collector's own sentence.
        status: The status of HTTP; 0 if there was no answer.
        code: The collector's code, or "unreachable", "wait" or "strange".
    """

    def __init__(self, message: str, status: int, code: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class EngineError(SfumatoError):
    """A cluster or object store that cannot be reached, or whose work failed."""


class MissingExtraError(SfumatoError, ImportError):
    """A library that is not installed; the message names the extra that brings it."""


class TooLargeError(SfumatoError, ValueError):
    """Work whose size, stated in the message, is beyond what this path can do."""


_SCALARS = (str, bytes, float, complex, Decimal, date, time, timedelta, type(None))
_LONGEST = 80


def shown(value: Any) -> str:
    """A parameter for a message: one value as Python writes it, cut if long; others by their type.

    Example:
        >>> shown("north"), shown(0.5), shown([1, 2]), shown(10**5000)
        ("'north'", '0.5', 'a list', 'a whole number of about 5000 digits')
        >>> shown("1" * 1000_000)
        "'111111111111111111111111111111111111111...11111111111111111111111111111111111111'"
    """
    if isinstance(value, (int, Fraction)):
        size = max(abs(value.numerator), value.denominator).bit_length()
        if size > 200:  # Python refuses to write out more than 4,300 digits
            kind = "whole number" if isinstance(value, int) else "fraction"
            return f"a {kind} of about {int(size * math.log10(2))} digits"
        return str(value)
    if not isinstance(value, _SCALARS) and not hasattr(value, "dtype"):
        return f"a {type(value).__name__}"
    if getattr(value, "shape", ()):
        return f"an array of shape {value.shape}"
    text = repr(value)
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]}...{text[-half + 1 :]}"


def near(name: str, options: Iterable[str]) -> str:
    """The words that point from an unknown name to what there is.

    Args:
        name: The unknown name.
        options: The names there are.

    Example:
        >>> near("regoin", ["age", "region"])
        "did you mean 'region'? Available are 'age', 'region'"
        >>> near("sex", ["age", "region"])
        "available are 'age', 'region'"
    """
    known = [str(option) for option in options]
    close = get_close_matches(str(name)[:100], known, n=1)
    start = f"did you mean {close[0]!r}? Available" if close else "available"
    verb = "is" if len(known) == 1 else "are"
    shown = ", ".join(repr(option) for option in known[:12])
    more = f" and {len(known) - 12} more" if len(known) > 12 else ""
    return f"{start} {verb} {shown}{more}"


def rows(numbers: Sequence[int], *, most: int = 5) -> str:
    """Row numbers for a message, the first few of them.

    Args:
        numbers: Row numbers, counted from 1.
        most: How many of them to show.

    Example:
        >>> rows([3]), rows([3, 8, 9, 12, 15, 20, 21])
        ('row 3', 'rows 3, 8, 9, 12, 15 and 2 more')
    """
    shown = ", ".join(str(number) for number in numbers[:most])
    more = f" and {len(numbers) - most} more" if len(numbers) > most else ""
    return f"row{'s' if len(numbers) > 1 else ''} {shown}{more}"
