"""The language of questions: which people to count, as conditions on axes.

A question is a conjunction over axes; on each axis it is a union of closed intervals, points,
labels and "no answer". As text: ``age=18..30|65.., region=north|'St. Gallen'``.

The tokenizer serves every small language here: questions, axes on the command line, shares. Words
are separated by punctuation such as ``,`` ``=`` ``|`` ``:`` and ``..``. A word that contains some
is put in single or double quotes; a quote inside it is doubled.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.domains.base import NO_ANSWER, Domain, Span
from sfumato.errors import QuestionError, near, shown

QUOTES = "'\""


def split(text: str, separator: str, *, after_space: bool = False) -> list[str]:
    """The pieces of a text between separators, except inside quotes.

    Args:
        text: What is cut.
        separator: What stands between the pieces, such as "," or "..".
        after_space: Whether a quote may open after white space, as in "categories 'a, b'|c". It
            always may at the beginning and after punctuation; elsewhere it is an apostrophe.

    Raises:
        QuestionError: If a quote is not closed.

    Example:
        >>> split("region='a, b'|c, age=18", ",")
        ["region='a, b'|c", ' age=18']
    """
    pieces, start = [], 0
    while (end := find(text, separator, start, after_space=after_space)) is not None:
        pieces.append(text[start:end])
        start = end + len(separator)
    return [*pieces, text[start:]]


def find(text: str, separator: str, start: int = 0, *, after_space: bool = False) -> int | None:
    """Where the next separator outside quotes is; None if there is none.

    Args:
        text: What is cut.
        separator: What stands between the pieces.
        start: Where the piece begins.
        after_space: As in `split`.

    Raises:
        QuestionError: If a quote is not closed.

    Example:
        >>> find("'a, b', c", ",")
        6
    """
    quote, past = "", start
    for found in _marks(separator).finditer(text, start):
        mark, place = found[0], found.start()
        if place < past:  # the second of two quotes that stand for one
            continue
        if quote and mark == quote:
            past = place + 2 if text.startswith(quote, place + 1) else past
            quote = quote if place < past else ""
        elif not quote and mark == separator:
            return place
        elif not quote and _opens(text, start, place, after_space):
            quote = mark
    if quote:
        raise QuestionError(
            f"a quote must be closed, and one {quote} in {shown(text.strip())} is not"
        )
    return None


@cache
def _marks(separator: str) -> re.Pattern[str]:
    """Quotes and a separator."""
    return re.compile(f"['\"]|{re.escape(separator)}")


def _opens(text: str, start: int, place: int, after_space: bool) -> bool:
    """Whether a quote at a place opens a word, rather than being an apostrophe."""
    last = place - 1  # of what comes before, without white space
    while last >= start and text[last].isspace():
        last -= 1
    if last < start or (after_space and last < place - 1):
        return True
    return text[last] in ",=|:" or text.startswith("..", max(start, last - 1), last + 1)


def unquoted(piece: str) -> str:
    """A word without the white space around it and without its quotes.

    Raises:
        QuestionError: If something follows the closing quote.

    Example:
        >>> unquoted(" 'rock ''n'' roll' ")
        "rock 'n' roll"
    """
    word = piece.strip()
    if not word or word[0] not in QUOTES:
        return word
    quote, inner = word[0], word[1:-1]
    if len(word) < 2 or word[-1] != quote or quote in inner.replace(quote * 2, ""):
        raise QuestionError(
            f"a quoted word must end at its quote, got {shown(word)}; double a quote inside it"
        )
    return inner.replace(quote * 2, quote)


def quoted(word: str, special: str = ",=|.") -> str:
    """A word in quotes if it needs them, so that `unquoted` gives it back.

    Args:
        word: A name or label.
        special: The punctuation of the language it is for.

    Example:
        >>> quoted("north"), quoted("a, b"), quoted("it's")
        ('north', "'a, b'", "'it''s'")
    """
    if word and word == word.strip() and not set(word) & {*special, *QUOTES}:
        return word
    return "'" + word.replace("'", "''") + "'"


_FORM = "write a question as age=18..30, region=north|south"
_MOST_LETTERS = 1_000_000  # of a question as text
_MOST_WEIGHTS = 1 << 30  # cells times intervals of one question: about a second of work


def refuse_long(text: str) -> None:
    """Refuse a question that is too long to be one."""
    if len(text) > _MOST_LETTERS:
        raise QuestionError(
            f"a question may have at most {_MOST_LETTERS:,} characters, got {len(text):,}; "
            "ask several"
        )


class AxisLike(Protocol):
    """What a question needs to know about an axis; "no answer" is its last cell."""

    @property
    def name(self) -> str:
        """Name of the axis."""

    @property
    def domain(self) -> Domain:
        """What its values may be."""

    @property
    def optional(self) -> bool:
        """Whether people may give no answer."""

    @property
    def size(self) -> int:
        """Number of cells, "no answer" included."""


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A conjunctive question, as weights on the cells of each axis.

    Attributes:
        weights: For each axis, the weight of each of its cells, in [0, 1]; None for an axis that
            is not mentioned, where everyone counts, "no answer" included.
        prorated: Names of the axes on which the question cuts a bin.
        text: The question in canonical form; read again, it gives the same weights.
    """

    weights: tuple[NDArray[np.float64] | None, ...]
    prorated: tuple[str, ...]
    text: str

    @property
    def span(self) -> tuple[float, float]:
        """The least and the largest weight of a person; in a cut bin, from 0 to 1."""
        low = high = 1.0
        for w in self.weights:
            if w is not None:
                ends = (float(np.min(w)), float(np.max(w)), *((0.0, 1.0) if self.prorated else ()))
                products = [a * b for a in (low, high) for b in (min(ends), max(ends))]
                low, high = min(products), max(products)
        return low, high


def weights(
    axes: Sequence[AxisLike], text: str | Mapping[str, Any] | None = None, /, **by_axis: Any
) -> Question:
    """Turn a question into weights on the cells of each axis.

    Args:
        axes: The axes of the study, in order.
        text: A question as text, or a mapping from axis names to what is asked of them.
        **by_axis: For an axis a point or label, an interval ``(low, high)`` with None for an
            open end, None for "no answer", or a set or list of these.

    Raises:
        QuestionError: If an axis is unknown or mentioned twice, or what is asked of it does not
            fit its domain.

    Example:
        >>> from types import SimpleNamespace
        >>> from sfumato.domains.integers import Integers
        >>> age = SimpleNamespace(name="age", domain=Integers(0, 4), optional=True, size=6)
        >>> question = weights([age], age=(1, 3))
        >>> question.text, question.weights[0].tolist()
        ('age=1..3', [0.0, 1.0, 1.0, 1.0, 0.0, 0.0])
        >>> weights([age], "age=..1|no answer").weights[0].tolist()
        [1.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    """
    known = {axis.name: axis for axis in axes}
    asked: dict[str, list[Any]] = {}
    for name, wanted in [*_clauses(text, known), *by_axis.items()]:
        if name in asked:
            raise QuestionError(
                f"axis {name!r} must be mentioned once, got it twice; join what is asked of it "
                "with | or in a set"
            )
        asked[_axis(name, known).name] = _listed(name, wanted)
    vectors: list[NDArray[np.float64] | None] = []
    prorated: list[str] = []
    clauses: list[str] = []
    for axis in axes:
        if axis.name not in asked:
            vectors.append(None)
            continue
        union = _Union.of(axis, asked[axis.name])
        vector, cut = union.weigh()
        vectors.append(vector)
        prorated += [axis.name] if cut else []
        clauses.append(f"{quoted(axis.name)}={union.text()}")
    return Question(tuple(vectors), tuple(prorated), ", ".join(clauses))


@dataclass(slots=True)
class _Union:
    """The conditions on one axis: a union of spans in base units, labels and "no answer"."""

    axis: AxisLike
    spans: list[Span] = field(default_factory=list)
    labels: set[int] = field(default_factory=set)
    unanswered: bool = False

    @classmethod
    def of(cls, axis: AxisLike, wanted: Iterable[Any]) -> _Union:
        """Check every choice against the axis, and join intervals that overlap."""
        union = cls(axis)
        for choice in wanted:
            union._add(choice)
        points = sorted({span for span in union.spans if _is_point(span)})
        union.spans = _joined([span for span in union.spans if not _is_point(span)]) + points
        return union

    def _add(self, choice: Any) -> None:
        """Add one interval, point, label or "no answer"."""
        name, domain = self.axis.name, self.axis.domain
        if choice is None or (isinstance(choice, str) and choice == NO_ANSWER):
            if not self.axis.optional:
                raise QuestionError(
                    f"axis {name!r} is not optional, so everyone has answered; ask without "
                    f"{NO_ANSWER!r}, or with an open interval such as (None, 30)"
                )
            self.unanswered = True
        elif domain.ordered:
            ends = _ends(name, choice) if isinstance(choice, tuple) else (choice, choice)
            self.spans.append(domain.span(*ends, axis=name))
        elif isinstance(choice, tuple):
            domain.span(*_ends(name, choice), axis=name)
            self.labels.update(range(domain.size))
        else:
            self.labels.add(domain.cell_of(choice, axis=name))

    def weigh(self) -> tuple[NDArray[np.float64], bool]:
        """Weights of the axis' cells, and whether a bin was cut."""
        domain = self.axis.domain
        if len(self.spans) * domain.size > _MOST_WEIGHTS:
            raise QuestionError(
                f"axis {self.axis.name!r} has {domain.size:,} cells, too many to ask for "
                f"{len(self.spans):,} intervals and points at once: join neighbours to intervals"
            )
        total, cut = np.zeros(domain.size), False
        for span in self.spans:
            part, was_cut = domain.weigh(span)
            # Joined spans are disjoint, so their shares of a bin add up; a point is a whole cell.
            total = np.maximum(total, part) if _is_point(span) else np.minimum(total + part, 1.0)
            cut = cut or was_cut
        total[sorted(self.labels)] = 1.0
        if self.axis.optional:
            total = np.append(total, float(self.unanswered))
        total.setflags(write=False)
        return total, cut

    def text(self) -> str:
        """The union in canonical form."""
        domain = self.axis.domain
        choices = []
        for span in self.spans:
            ends = ["" if end is None else domain.write(end) for end in span]
            choices.append(ends[0] if _is_point(span) else "..".join(ends))
        if self.labels and len(self.labels) == domain.size:
            choices.append("..")
        elif self.labels:
            names = domain.labels()
            choices += [quoted(names[cell]) for cell in sorted(self.labels)]
        return "|".join(choices + [NO_ANSWER] * self.unanswered)


def _is_point(span: Span) -> bool:
    """Whether a span is a single place."""
    return span[0] is not None and span[0] == span[1]


def _joined(spans: list[Span]) -> list[Span]:
    """The same set of places as disjoint spans, in order."""
    joined: list[Span] = []
    for low, high in sorted(spans, key=lambda span: _key(span[0], -math.inf)):
        if joined and _key(low, -math.inf) <= _key(joined[-1][1], math.inf):
            before_low, before_high = joined[-1]
            ends = (before_high, high)
            last = None if None in ends else max(end for end in ends if end is not None)
            joined[-1] = (before_low, last)
        else:
            joined.append((low, high))
    return joined


def _key(end: Fraction | None, infinity: float) -> Fraction | float:
    """An end of a span for comparison."""
    return infinity if end is None else end


def _ends(name: str, choice: tuple[Any, ...]) -> tuple[Any, Any]:
    """Both ends of an interval; an infinite end on its own side is an open one."""
    if len(choice) != 2:
        raise QuestionError(
            f"an interval on axis {name!r} must have two ends, got {len(choice)}; write "
            "(low, high), or a list for several values"
        )
    low, high = choice
    if isinstance(low, (float, np.floating)) and low == -math.inf:
        low = None
    if isinstance(high, (float, np.floating)) and high == math.inf:
        high = None
    return low, high


def _axis(name: str, known: Mapping[str, AxisLike]) -> AxisLike:
    """The axis of that name."""
    if name not in known:
        raise QuestionError(f"the study has no axis {shown(name)}: {near(str(name), known)}")
    return known[name]


def _listed(name: str, wanted: Any) -> list[Any]:
    """What is asked of an axis, as a list of choices."""
    if isinstance(wanted, np.ndarray):
        wanted = list(wanted.ravel())
    choices = list(wanted) if isinstance(wanted, (set, frozenset, list)) else [wanted]
    if not choices:
        raise QuestionError(f"axis {name!r} must be asked for something, got an empty set")
    return choices


def _clauses(
    text: str | Mapping[str, Any] | None, known: Mapping[str, AxisLike]
) -> list[tuple[str, Any]]:
    """Axis names and what is asked of them."""
    if text is None or (isinstance(text, str) and not text.strip()):
        return []
    if isinstance(text, Mapping):
        return list(text.items())
    if not isinstance(text, str):
        raise QuestionError(
            f"a question must be a text or a mapping, got {type(text).__name__}; {_FORM}"
        )
    refuse_long(text)
    found: list[tuple[str, Any]] = []
    for clause in split(text, ","):
        sides = split(clause, "=")
        if len(sides) != 2:
            raise QuestionError(
                f"each part of a question must have one =, got {shown(clause.strip())}; {_FORM}, "
                "and quote names and labels that contain , = or |"
            )
        name = unquoted(sides[0])
        axis = _axis(name, known)
        found.append((name, [_choice(axis, piece.strip()) for piece in split(sides[1], "|")]))
    return found


def _choice(axis: AxisLike, piece: str) -> Any:
    """One choice of a union: an interval as a tuple, None for "no answer", else a value."""
    if not piece:
        raise QuestionError(f"axis {axis.name!r} must be asked for something, got nothing; {_FORM}")
    domain = axis.domain
    if piece[0] in QUOTES and not domain.ordered:
        return unquoted(piece)
    if piece == NO_ANSWER:
        return None
    if not domain.ordered:
        # Labels know no intervals, so a label such as 18..30 needs no quotes.
        return (None, None) if piece == ".." else piece
    ends = [unquoted(end) for end in split(piece, "..")]
    if len(ends) > 2:
        raise QuestionError(
            f"an interval on axis {axis.name!r} must have two ends, got {shown(piece)}; write "
            "low..high"
        )
    values = [domain.parse(end, axis=axis.name) if end else None for end in ends]
    return values[0] if len(values) == 1 else tuple(values)
