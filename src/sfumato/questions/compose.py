"""From questions in a study's own words to one workload.

Single questions are written as `Estimate.count` reads them. Some words stand for many questions:
``identity``, ``total``, ``cells of age``, ``prefixes of age``, ``ranges of age``, ``marginal age,
sex``, ``2-way``. Commas join conditions on different axes here too: ``ranges of age, cells of
region, sex=f``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from sfumato.errors import QuestionError, near, shown
from sfumato.questions.language import (
    AxisLike,
    Question,
    find,
    refuse_long,
    split,
    unquoted,
    weights,
)
from sfumato.questions.lines import AxisWords, Identity, Prefixes, Ranges, Total
from sfumato.questions.products import Asked, Kronecker, KWay, Marginals, Stacked
from sfumato.questions.workload import Given, Workload, is_sparse

KINDS = ("cells", "prefixes", "ranges")
_FORMS = (
    "identity, total, cells of AXIS, prefixes of AXIS, ranges of AXIS, marginal AXIS, AXIS, "
    "2-way, or a question such as age=18..30"
)
_MARGINAL = re.compile(r"marginals?\s+(?:of\s+)?")
_MANY = re.compile(rf"\s*({'|'.join(KINDS)})\s+of\s+")
_WAY = re.compile(r"([0-9]{1,9})-way")


class HasAxes(Protocol):
    """A study, as far as questions go."""

    @property
    def axes(self) -> Sequence[AxisLike]:
        """Its axes, in order."""


def parse(study: HasAxes, questions: Any) -> Workload:
    """A workload over all cells of a study, labelled in its own words.

    Args:
        study: The study whose cells are asked about.
        questions: One of these, or a list of them in any mixture: a question as text or as a
            mapping from axes; words for many questions: "identity" (every cell), "total",
            "cells of age", "prefixes of age", "ranges of age", "marginal age, sex", "2-way", and
            conditions joined by commas, as in "ranges of age, sex=f"; a `Workload` or a matrix
            with one column per cell.

    Returns:
        The questions in the order given. Ranges and prefixes leave "no answer" out; cells and
        marginals count it.

    Raises:
        QuestionError: If a question cannot be read, or asks about an axis or value that the study
            does not have.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study(
        ...     "small",
        ...     axes=[
        ...         sf.integers("age", 18, 21, protect=sf.Distance(epsilon=0.5)),
        ...         sf.categories("sex", ["f", "m"], protect=sf.Uniform(epsilon=1)),
        ...     ],
        ... )
        >>> workload = sf.questions.parse(study, ["age=18..19, sex=f", "ranges of age", "2-way"])
        >>> workload.shape, workload.labels[0], workload.labels[2], workload.labels[-1]
        ((19, 8), 'age=18..19, sex=f', 'age=18..19', 'age=21, sex=m')
    """
    axes = study.axes
    single = isinstance(questions, (str, Mapping, Workload, np.ndarray)) or is_sparse(questions)
    listed: Iterable[Any] = [questions] if single else _checked_list(questions)
    parts: list[Workload] = []
    run: list[Question] = []  # single questions that follow each other are answered together
    for asked in listed:
        read = _read(axes, asked)
        if isinstance(read, Question):
            run.append(read)
            continue
        parts += [Asked(run, _shape(axes)), read] if run else [read]
        run = []
    parts += [Asked(run, _shape(axes))] if run else []
    if not parts:
        raise QuestionError(f"a workload needs at least one question, got none; write {_FORMS}")
    return parts[0] if len(parts) == 1 else Stacked(parts)


def _checked_list(questions: Any) -> list[Any]:
    """A list of questions."""
    try:
        return [*questions]
    except TypeError:
        raise QuestionError(
            f"questions must be a list, got {shown(questions)}; write {_FORMS}"
        ) from None


def _read(axes: Sequence[AxisLike], asked: Any) -> Question | Workload:
    """One question, or many of them, in any of their forms."""
    if isinstance(asked, str):
        return _read_text(axes, asked.strip())
    if isinstance(asked, Mapping):
        return weights(axes, asked)
    shape = _shape(axes)
    if isinstance(asked, Workload):
        if asked.shape_of_cells != shape and asked.shape_of_cells != (int(np.prod(shape)),):
            raise QuestionError(
                f"a workload must ask about {' × '.join(map(str, shape))} cells, got one about "
                f"{' × '.join(map(str, asked.shape_of_cells))}"
            )
        return asked
    matrix = isinstance(asked, (list, tuple)) or hasattr(asked, "__array__")
    if not is_sparse(asked) and not matrix:
        raise QuestionError(
            "a question must be a text, a mapping from axes, a workload or a matrix, got "
            f"{type(asked).__name__}; write {_FORMS}"
        )
    return Given(asked, shape_of_cells=shape)


def _read_text(axes: Sequence[AxisLike], text: str) -> Question | Workload:
    """One question as text, or words for many."""
    refuse_long(text)
    names = marginal_axes(text)
    clauses = _clauses(text) if text and names is None else []
    if names is None and all(kind is None and _is_condition(clause) for kind, clause in clauses):
        return weights(axes, text)
    shape, words = _shape(axes), [AxisWords(axis) for axis in axes]
    if text == "total":
        return Marginals(shape, [()], words=words)
    if text == "identity":
        return Marginals(shape, [tuple(range(len(axes)))], words=words)
    if way := _WAY.fullmatch(text):
        count = int(way[1])
        if not 1 <= count <= len(axes):
            raise QuestionError(
                f"the study has {len(axes)} axes, so there is no {text!r}; ask for 1-way to "
                f"{len(axes)}-way"
            )
        return KWay(shape, count, words=words)
    if names is None:
        return _product(axes, text, clauses, words)
    places = [_place(axes, name) for name in names]
    if len(set(places)) < len(places):
        raise QuestionError(f"a marginal must name each axis once, got {shown(text)}")
    return Marginals(shape, [tuple(places)], words=words)


def _is_condition(clause: str) -> bool:
    """Whether a part of a text says which values are asked for."""
    return len(split(clause, "=")) > 1


def marginal_axes(text: str) -> list[str] | None:
    """The axes of a marginal in words, such as "marginal age, sex"; None if it is none."""
    head = _MARGINAL.match(text)
    if not head:
        return None
    names = split(text[head.end() :], ",")
    return None if any(map(_is_condition, names)) else [unquoted(name) for name in names]


def _clauses(text: str) -> list[tuple[str | None, str]]:
    """Parts of a text between commas, each with its kind: None, or cells, prefixes, ranges."""
    found: list[tuple[str | None, str]] = []
    start: int | None = 0
    while start is not None:
        head = _MANY.match(text, start)
        end = find(text, ",", head.end() if head else start)
        clause = text[head.end() if head else start : end]
        if head and _is_condition(clause):  # an axis that is called so
            head, end = None, find(text, ",", start)
            clause = text[start:end]
        found.append((head[1] if head else None, clause))
        start = None if end is None else end + 1
    return found


def _product(
    axes: Sequence[AxisLike],
    text: str,
    clauses: Sequence[tuple[str | None, str]],
    words: Sequence[AxisWords],
) -> Workload:
    """Conditions and words for many questions, on different axes."""
    factors: dict[int, Workload] = {}
    for kind, clause in clauses:
        if kind is not None:
            place = _place(axes, unquoted(clause))
            factor = _kind(axes[place], kind, words[place])
        elif _is_condition(clause):
            place, factor = _condition(axes, clause)
        else:
            head, _, tail = clause.strip().partition(" of ")
            hint = f" ({near(head, KINDS)})" if tail else ""
            raise QuestionError(
                f"{shown(clause.strip())} cannot be read as a question{hint}; write {_FORMS}"
            )
        if place in factors:
            name = axes[place].name
            raise QuestionError(f"axis {name!r} must be mentioned once, got {shown(text)}")
        factors[place] = factor
    return Kronecker([factors.get(place, Total(axis.size)) for place, axis in enumerate(axes)])


def _condition(axes: Sequence[AxisLike], clause: str) -> tuple[int, Workload]:
    """One condition on one axis, as a workload of a single question about it."""
    question = weights(axes, clause)
    (place,) = (d for d, w in enumerate(question.weights) if w is not None)
    alone = Question((question.weights[place],), question.prorated, question.text)
    return place, Asked([alone], (axes[place].size,))


def _kind(axis: AxisLike, kind: str, words: AxisWords) -> Workload:
    """Many questions about one axis."""
    if kind == "cells":
        return Identity(axis.size, words=words)
    if not axis.domain.ordered:
        raise QuestionError(
            f"axis {axis.name!r} has no order, so there are no {kind} of it; ask for cells of it"
        )
    values = axis.domain.size
    if kind == "prefixes":
        return Prefixes(values, size=axis.size, words=words)
    return Ranges(values, size=axis.size, words=words)


def _place(axes: Sequence[AxisLike], name: str) -> int:
    """The number of an axis."""
    names = [axis.name for axis in axes]
    if name not in names:
        raise QuestionError(f"the study has no axis {shown(name)}: {near(name, names)}")
    return names.index(name)


def _shape(axes: Sequence[AxisLike]) -> tuple[int, ...]:
    """Cells of every axis."""
    return tuple(axis.size for axis in axes)
