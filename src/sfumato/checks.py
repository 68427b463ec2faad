"""Checks of arguments: what breaks a rule is refused by name, with the value as far as it helps."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from sfumato.arrays import Floats
from sfumato.errors import SfumatoError, StudyError, shown


def one_of(
    value: Any, name: str, options: Iterable[str], *, error: type[SfumatoError] = StudyError
) -> str:
    """A word that must be one of several.

    Args:
        value: The argument.
        name: What messages call it.
        options: The words.
        error: What to raise.

    Example:
        >>> one_of("auto", "via", ["auto", "direct"])
        'auto'
    """
    known = list(options)
    if not isinstance(value, str) or value not in known:
        words = ", ".join(map(repr, known[:-1])) + f" or {known[-1]!r}"
        raise error(f"{name} must be {words}, got {name}={shown(value)}")
    return value


def whole(
    value: Any,
    name: str,
    *,
    least: int = 0,
    most: int = 1 << 53,
    error: type[SfumatoError] = StudyError,
) -> int:
    """A whole number within bounds.

    Args:
        value: The argument.
        name: What messages call it.
        least: The least it may be.
        most: The most it may be.
        error: What to raise.

    Example:
        >>> whole(7, "bins", least=1)
        7
    """
    number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not number or not least <= value <= most:
        large = f" and at most {most:,}" if number and value > most else ""
        raise error(
            f"{name} must be a whole number of at least {least}{large}, got {name}={shown(value)}"
        )
    return int(value)


def is_number(value: Any) -> bool:
    """Whether an argument is one finite real number.

    Example:
        >>> is_number(0.5), is_number(True), is_number("0.5"), is_number(float("nan"))
        (True, False, False, False)
    """
    if isinstance(value, (bool, np.bool_)):
        return False
    if not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # beyond all doubles
        return False


def several(value: Any, name: str, *, error: type[SfumatoError] = StudyError) -> list[Any]:
    """The entries of a list, a tuple or anything else that has some.

    Args:
        value: The argument.
        name: What messages call it.
        error: What to raise.

    Example:
        >>> several(("age", "mode"), "axes")
        ['age', 'mode']
    """
    try:
        return [*value]
    except TypeError:
        raise error(f"{name} must be a list, got {shown(value)}") from None


def numbers(
    values: Any, name: str, rule: str = "numbers", *, error: type[SfumatoError] = StudyError
) -> Floats:
    """Numbers as an array of doubles, finite or not.

    Args:
        values: The argument.
        name: What messages call it.
        rule: What they must be.
        error: What to raise.

    Example:
        >>> numbers([1, 2.5], "weights").tolist()
        [1.0, 2.5]
    """
    try:
        given = np.asarray(values)
        if given.dtype.kind not in "biuf" and (given.dtype.kind != "O" or given.ndim == 0):
            raise TypeError
        return given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise error(f"{name} must be {rule}, got {shown(values)}; convert them first") from None
