"""Geo-indistinguishability for labels at places, and Blowfish thresholds on distance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.domains.base import NO_ANSWER, Domain
from sfumato.errors import StudyError, shown
from sfumato.exact import nearest_float, positive, rational, to_plain
from sfumato.metrics.base import Metric, set_fields
from sfumato.metrics.cells import ROUNDED, TableMetric, table
from sfumato.metrics.closure import close_integers
from sfumato.metrics.norms import distance_table, read_order
from sfumato.metrics.words import (
    Number,
    Quantity,
    cell_names,
    cover,
    distinct,
    gap,
    known,
    label_of,
    length,
    plain,
    read_quantity,
    several,
)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Points(Metric):
    """E = ε · distance / per between labels at places: geo-indistinguishability.

    Distances that are irrational are rounded down, to multiples of 2^-40.

    Args:
        epsilon: E for two places that are `per` apart.
        per: Unit of distance.
        at: Coordinates of every label, any number of them, the same for all.
        norm: 2 for straight lines, 1, inf, or any p of at least 1.

    Example:
        >>> towns = Points(epsilon=0.1, per=10, at={"a": (0, 0), "b": (30, 40)})
        >>> towns.between("a", "b")
        0.5
    """

    kind: ClassVar[str] = "points"
    epsilon: Fraction
    per: Fraction
    at: tuple[tuple[str, tuple[Fraction, ...]], ...]
    norm: Fraction | float

    def __init__(
        self,
        epsilon: Number,
        per: Number = 1,
        *,
        at: Mapping[Any, Sequence[Number]] | Iterable[tuple[Any, Sequence[Number]]],
        norm: Number = 2,
    ) -> None:
        """Read the numbers exactly and the labels as text."""
        items = at.items() if isinstance(at, Mapping) else at
        places = tuple(_read_place(item) for item in several(items, "at"))
        distinct([label for label, _ in places], "at")
        label, first = places[0]
        for other, where in places:
            if len(where) != len(first):
                raise StudyError(
                    f"at must give every label as many coordinates, got {len(first)} for "
                    f"{label!r} and {len(where)} for {other!r}"
                )
        set_fields(
            self,
            epsilon=positive(epsilon, "epsilon"),
            per=positive(per, "per"),
            at=places,
            norm=read_order(norm, "norm"),
        )

    def between(self, x: Any, y: Any) -> float:
        """E(x, y) for two labels.

        Args:
            x: One value as people write it.
            y: The other.
        """
        places = dict(self.at)
        pair = [places[known(value, places, "at")] for value in (x, y)]
        numerators, denominator, _ = distance_table(pair, self.epsilon / self.per, self.norm)
        return float(Fraction(numerators[0, 1], denominator))

    def bind(self, domain: Domain, *, optional: bool) -> TableMetric:
        """E between cells; every cell must have a place.

        Args:
            domain: What the values of the axis may be.
            optional: Whether "no answer" is one more cell, the last.
        """
        names = cell_names(domain, optional=optional)
        places = dict(self.at)
        cover(names, places, "at", "give each a place")
        there = [places[name] for name in names]
        values, denominator, rounded = distance_table(there, self.epsilon / self.per, self.norm)
        refuse_same_place(names, there)
        notes = (ROUNDED,) if rounded else ()
        return table(values, denominator, names=names, notes=notes)

    def describe(self) -> str:
        """The statement in plain words."""
        per = "" if self.per == 1 else f" / {to_plain(self.per)}"
        order = "inf" if self.norm == math.inf else to_plain(Fraction(self.norm))
        return f"E = {to_plain(self.epsilon)} · L{order} distance of {len(self.at)} places{per}"

    def to_dict(self) -> dict[str, Any]:
        """The statement as a file holds it, exactly."""
        data: dict[str, Any] = {"kind": self.kind, "epsilon": to_plain(self.epsilon)}
        if self.per != 1:
            data["per"] = to_plain(self.per)
        data["norm"] = self.norm if isinstance(self.norm, float) else to_plain(self.norm)
        data["at"] = {label: [to_plain(c) for c in where] for label, where in self.at}
        return data


def _read_place(item: Any) -> tuple[str, tuple[Fraction, ...]]:
    """A label and its coordinates, exactly; a single number is a place on a line."""
    if not isinstance(item, (list, tuple)) or len(item) != 2:
        raise StudyError(
            f"at must give every label its coordinates, {{label: (x, y)}}, got {shown(item)}"
        )
    label, where = label_of(item[0]), item[1]
    where = where.ravel() if isinstance(where, np.ndarray) else where
    numbers = list(where) if isinstance(where, (list, tuple, np.ndarray)) else [where]
    if not numbers:
        raise StudyError(f"at must give coordinates for every label, got none for {shown(label)}")
    return label, tuple(rational(number, f"a coordinate of {label!r}") for number in numbers)


def refuse_same_place(names: Sequence[str], places: Sequence[tuple[Fraction, ...]]) -> None:
    """Refuse two labels at one place, before rounding could hide why E is 0.

    Args:
        names: Label of every place.
        places: Coordinates of every place.
    """
    first: dict[tuple[Fraction, ...], str] = {}
    for name, place in zip(names, places, strict=True):
        if place in first:
            raise StudyError(
                f"at must give different places, got one for {first[place]!r} and {name!r}: these "
                f"two could never be told apart, so merge them into one cell"
            )
        first[place] = name


Beyond = Literal["steps", "smooth"]


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Within(Metric):
    """Blowfish threshold: E is ε for any two values at most `reach` apart; beyond, as stated.

    Beyond that distance, "steps" counts the fewest steps of that length which lead from one value
    to the other through values between: E is ε per step, and infinite where no path leads. "smooth"
    lets E grow with the distance instead, ε·distance/reach.

    A threshold alone, ε within and infinite beyond, breaks the triangle inequality: values in
    between give the far ones away less than it says. Its closure under steps is what it means.

    Args:
        epsilon: E for two different values at most `reach` apart.
        reach: How far apart two values may be, in the axis' own units; a duration on dates.
        beyond: "steps" or "smooth".
        at: Coordinates of every label, where the axis has no distances of its own.
        norm: With `at`, 2 for straight lines, 1, inf, or any p of at least 1.

    References:
        Kamalaruban et al. 2020, §4.4, from Blowfish privacy.

    Example:
        >>> Within(epsilon=1, reach=10).between(20, 29), Within(epsilon=1, reach=10).between(20, 45)
        (1.0, 3.0)
        >>> Within(epsilon=1, reach=10, beyond="smooth").between(20, 45)
        2.5
    """

    kind: ClassVar[str] = "within"
    epsilon: Fraction
    reach: Fraction | str
    beyond: Beyond
    at: Points | None

    def __init__(
        self,
        epsilon: Number,
        reach: Quantity,
        *,
        beyond: Beyond = "steps",
        at: Mapping[Any, Sequence[Number]] | Iterable[tuple[Any, Sequence[Number]]] | None = None,
        norm: Number = 2,
    ) -> None:
        """Read the numbers exactly and the labels as text."""
        if beyond not in ("steps", "smooth"):
            raise StudyError(f"beyond must be 'steps' or 'smooth', got beyond={shown(beyond)}")
        set_fields(
            self,
            epsilon=positive(epsilon, "epsilon"),
            reach=read_quantity(reach, "reach"),
            beyond=beyond,
            at=None if at is None else Points(1, at=at, norm=norm),
        )

    def between(self, x: Any, y: Any) -> float:
        """E(x, y): for labels on paths through the other labels, for numbers through any numbers.

        Args:
            x: One value as people write it.
            y: The other.
        """
        if self.at is not None:
            names = [label for label, _ in self.at.at]
            i, j = (names.index(known(value, names, "at")) for value in (x, y))
            return self._table(names, [place for _, place in self.at.at], self._reach()).between(
                i, j
            )
        steps = gap(x, y, self.reach)
        if not steps:
            return 0.0
        if self.beyond == "smooth":
            return nearest_float(self.epsilon * (steps if steps > 1 else 1))
        return nearest_float(self.epsilon * math.ceil(steps))

    def bind(self, domain: Domain, *, optional: bool) -> TableMetric:
        """E between cells; "no answer" needs a place like any label.

        Args:
            domain: What the values of the axis may be.
            optional: Whether "no answer" is one more cell, the last.
        """
        names = cell_names(domain, optional=optional)
        if self.at is not None:
            places = dict(self.at.at)
            cover(names, places, "at", "give each a place")
            return self._table(names, [places[name] for name in names], self._reach())
        if not domain.ordered:
            raise StudyError(
                f"Within needs distances, and {domain.kind} have none: give every label its place, "
                "at={label: (x, y), …}"
            )
        if optional:
            raise StudyError(
                f"Within says nothing about {NO_ANSWER!r} on an optional axis: use "
                "Distance(..., no_answer=...), PolicyGraph or Matrix"
            )
        reach = length(domain, self.reach, "reach")
        return self._table(names, [(place,) for place in domain.positions()], reach)

    def _reach(self) -> Fraction:
        """The reach as a plain number, which places need."""
        if isinstance(self.reach, str):
            raise StudyError(
                f"reach must be a number where labels have places, got reach={self.reach!r}"
            )
        return self.reach

    def _table(
        self, names: Sequence[str], places: Sequence[tuple[Fraction, ...]], reach: Fraction
    ) -> TableMetric:
        """E of all pairs; a distance that is rounded down makes a pair no less protected."""
        refuse_same_place(names, places)
        norm = Fraction(1) if self.at is None else self.at.norm
        apart, denominator, rounded = distance_table(places, 1 / reach, norm)
        near = apart <= denominator
        if not bool((near & ~np.eye(len(names), dtype=bool)).any()):
            raise StudyError(
                f"reach must join some two cells, got reach={plain(self.reach)!r}, which is less "
                "than any two are apart: nothing would be protected. Use a longer reach"
            )
        notes: tuple[str, ...] = ()
        if self.beyond == "steps":
            numerators = close_integers(np.where(near, 1, -1) - np.eye(len(names), dtype=np.int64))
            numerators = numerators.astype(object)
            denominator = 1
            alone = int(np.count_nonzero(near.sum(axis=1) == 1))
            if alone:
                notes = (f"unprotected: {alone} of {len(names)} cells have none within reach",)
        else:
            numerators = _at_least_one(apart, denominator)
            notes = (ROUNDED,) if rounded else ()
        values = np.where(numerators < 0, -1, numerators * self.epsilon.numerator)
        return table(values, denominator * self.epsilon.denominator, names=names, notes=notes)

    def describe(self) -> str:
        """The statement in plain words."""
        e, reach = to_plain(self.epsilon), plain(self.reach)
        places = "" if self.at is None else f" of {len(self.at.at)} places"
        if self.beyond == "smooth":
            return f"E = {e} within a distance{places} of {reach}, {e} · distance / {reach} beyond"
        return f"E = {e} per step of at most {reach}{places}, through any values between"

    def to_dict(self) -> dict[str, Any]:
        """The statement as a file holds it, exactly."""
        data: dict[str, Any] = {"kind": self.kind, "epsilon": to_plain(self.epsilon)}
        data["reach"] = plain(self.reach)
        if self.beyond != "steps":
            data["beyond"] = self.beyond
        if self.at is not None:
            places = self.at.to_dict()
            data |= {"norm": places["norm"], "at": places["at"]}
        return data


def _at_least_one(apart: NDArray[np.object_], denominator: int) -> NDArray[np.object_]:
    """Distances over the reach, at least 1 between different cells."""
    lifted = np.maximum(apart, denominator)
    np.fill_diagonal(lifted, 0)
    return lifted
