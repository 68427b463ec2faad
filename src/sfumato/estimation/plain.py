"""Answers from plain values, as `to_dict` wrote them: what a collector answered over HTTP."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.errors import FormatError, QuestionError
from sfumato.estimation.answers import Answer, Answers


class Elsewhere:
    """The joint errors of answers that were computed elsewhere: they stayed there."""

    @property
    def whole(self) -> float:
        """Refused: it is not known here."""
        raise _elsewhere()

    def covariance(self) -> Floats | None:
        """Refused: it is not known here."""
        raise _elsewhere()

    def ends(self, z: float) -> tuple[Floats, Floats] | None:
        """Refused: they are not known here."""
        raise _elsewhere()

    def one(self, place: int) -> None:
        """None: the covariance of one answer with others is not known here."""


def _elsewhere() -> QuestionError:
    return QuestionError(
        "these answers were computed elsewhere, and their joint errors stayed there; ask there for "
        "what needs them, as with band=True"
    )


def answer_from_dict(held: Mapping[str, Any]) -> Answer:
    """One answer from what its `to_dict` gave.

    Its covariance with other answers is not in it: ask for a difference where the tally is.

    Raises:
        FormatError: If it is no such dict.

    Example:
        >>> made = answer_from_dict(Answer(value=12_343.2, stderr=211.7, n=100_000).to_dict())
        >>> print(made, made.n)
        12,340 ± 210 100000
    """
    try:
        written = held.get("written")
        return Answer(
            value=_number(held["value"], math.nan),
            stderr=_number(held["stderr"], math.nan),
            n=int(held["n"]),
            level=float(held["level"]),
            method=str(held["method"]),
            notes=tuple(map(str, held["notes"])),
            question=str(held["question"]),
            bounds=(_number(held["low"], -math.inf), _number(held["high"], math.inf)),
            written=None if written is None else tuple(map(str, written)),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise _damaged("answer") from None


def answers_from_dict(held: Mapping[str, Any]) -> Answers:
    """Many answers from what their `to_dict` gave.

    Raises:
        FormatError: If it is no such dict.
    """
    try:
        values = _numbers(held["values"], math.nan)
        stderr, low, high = (
            _numbers(held[name], missing)
            for name, missing in (("stderr", math.nan), ("low", -math.inf), ("high", math.inf))
        )
        axes = tuple(map(str, held["axes"]))
        labels = tuple([str(label) for label in names] for names in held["labels"])
        edges = tuple(map(_edges, held["edges"]))
        sizes = tuple(map(len, labels))
        if not {values.shape, stderr.shape, low.shape, high.shape} == {sizes} or not (
            len(axes) == len(labels) == len(edges)
        ):
            raise ValueError
        return Answers(
            values=values,
            stderr=stderr,
            n=int(held["n"]),
            kind=str(held["kind"]),
            axes=axes,
            all_labels=labels,
            all_edges=edges,
            level=float(held["level"]),
            method=str(held["method"]),
            notes=tuple(map(str, held["notes"])),
            unit=str(held["unit"]),
            question=str(held["question"]),
            units=tuple(map(str, held["units"])),
            bounds=(low, high),
            errors=Elsewhere(),
            steps=tuple(map(str, held.get("steps", ()))),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise _damaged("list of answers") from None


def _number(held: Any, missing: float) -> float:
    """A number, or what stands for a missing one."""
    return missing if held is None else float(held)


def _numbers(held: Any, missing: float) -> Floats:
    """An array of numbers, or of what stands for a missing one."""
    found = np.array(held, dtype=np.float64)  # which reads None as NaN
    return np.where(np.isnan(found), missing, found)


def _edges(held: Any) -> NDArray[Any] | None:
    """Edges of cells: numbers, or dates and times as text."""
    if held is None:
        return None
    return np.array(held, dtype="datetime64" if isinstance(held[0], str) else np.float64)


def _damaged(what: str) -> FormatError:
    return FormatError(f"this is no {what} as to_dict() writes it; ask again")
