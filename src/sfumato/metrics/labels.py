"""Labels that metrics name: read as text, compared with the labels of the axis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.domains.base import NO_ANSWER, Domain
from sfumato.errors import StudyError, near
from sfumato.metrics.cells import refuse_large_table


def label_of(value: object) -> str:
    """The name under which a value is known: its text, or "no answer"."""
    return NO_ANSWER if value is None else str(value)


def several(items: Any, what: str) -> list[Any]:
    """A list of one item or more; a single text is refused.

    Args:
        items: What was given.
        what: What it is called in a message.
    """
    if isinstance(items, str) or not isinstance(items, Iterable):
        raise StudyError(f"{what} must be a list, got {items!r}: write [{items!r}]")
    found = list(items)
    if not found:
        raise StudyError(f"{what} must not be empty, got {items!r}: name at least one")
    return found


def read_labels(labels: Any, what: str) -> tuple[str, ...]:
    """Labels as text.

    Args:
        labels: What was given.
        what: What it is called in a message.
    """
    return tuple(label_of(label) for label in several(labels, what))


def distinct(labels: Sequence[str], what: str) -> tuple[str, ...]:
    """The labels, refused if one comes twice.

    Args:
        labels: Labels as text.
        what: What it is called in a message.
    """
    seen: set[str] = set()
    for label in labels:
        if label in seen:
            raise StudyError(f"{what} must name each label once, got {label!r} twice: drop one")
        seen.add(label)
    return tuple(labels)


def known(value: object, labels: Collection[str], what: str) -> str:
    """The label of a value, refused if the statement does not name it.

    Args:
        value: The value.
        labels: Labels that the statement names.
        what: What it is called in a message.
    """
    label = label_of(value)
    if label not in labels:
        raise StudyError(f"{what} must name the label, got {label!r}: {near(label, labels)}")
    return label


def cell_names(domain: Domain, *, optional: bool, table: bool = True) -> list[str]:
    """The label of every cell, refused before a table of them would be too large.

    Args:
        domain: What the values of the axis may be.
        optional: Whether "no answer" is one more cell, the last.
        table: Whether a table of all pairs is going to be built.
    """
    if table:
        refuse_large_table(domain.size + optional)
    names = [*domain.labels(), *([NO_ANSWER] if optional else [])]
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise StudyError(
            f"labels of one axis must differ, got {twice!r} twice: rename one"
            + (" (an optional axis has a 'no answer' cell of its own)" if optional else "")
        )
    return names


def inside(labels: Iterable[str], names: Sequence[str], what: str) -> None:
    """Refuse a label that the axis does not have.

    Args:
        labels: Labels that a statement names.
        names: Labels of the axis.
        what: What it is called in a message.
    """
    there = set(names)
    for label in labels:
        if label not in there:
            extra = "; set optional=True to have it" if label == NO_ANSWER else ""
            raise StudyError(
                f"{what} must name labels of the axis, got {label!r}: {near(label, names)}{extra}"
            )


def cover(names: Sequence[str], labels: Collection[str], what: str, remedy: str) -> None:
    """Refuse labels that the axis does not have, and cells that are not mentioned.

    Args:
        names: Labels of the axis.
        labels: Labels that a statement names.
        what: What it is called in a message.
        remedy: What to do about a cell that is not mentioned.
    """
    inside(labels, names, what)
    missing = [name for name in names if name not in labels]
    if missing:
        raise StudyError(f"{what} must mention every cell, got none of {some(missing)}: {remedy}")


def marked(names: Sequence[str], sensitive: Collection[str]) -> NDArray[np.bool_]:
    """Which cells are sensitive.

    Args:
        names: Labels of the axis.
        sensitive: Labels that are sensitive.
    """
    inside(sensitive, names, "sensitive")
    chosen = set(sensitive)
    return np.array([name in chosen for name in names])


def some(labels: Sequence[str]) -> str:
    """The first few labels, for a sentence."""
    shown = ", ".join(repr(label) for label in labels[:5])
    return shown + (f" and {len(labels) - 5} more" if len(labels) > 5 else "")
