"""What a study may say about E: the common form, distance, uniform, sums, and whole records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from sfumato.errors import StudyError
from sfumato.exact import positive, to_plain
from sfumato.metrics.cells import CellMetric, UniformMetric, add_cells, table
from sfumato.metrics.labels import NO_ANSWER, cell_names, label_of
from sfumato.metrics.lines import LineMetric, capped_line
from sfumato.metrics.norms import distance_table, read_order, share_of_axis
from sfumato.metrics.quantities import Number, Quantity, gap, length, plain, ratio, read_quantity

if TYPE_CHECKING:
    from sfumato.domains.base import Domain


@runtime_checkable
class Metric(Protocol):
    """A statement of E in the words of its axis; `bind` turns it into numbers between cells.

    Statements add: two reports about one value spend the sum of their guarantees.

    Example:
        >>> (Distance(epsilon=0.1) + Uniform(epsilon=1)).between(20, 25)
        1.5
    """

    __slots__ = ()
    kind: ClassVar[str]

    def between(self, x: Any, y: Any) -> float:
        """E(x, y) for two values as people write them; None stands for no answer."""

    def bind(self, domain: Domain, *, optional: bool) -> CellMetric:
        """E between the cells of a domain, with "no answer" as the last cell if optional."""

    def describe(self) -> str:
        """The statement in plain words."""

    def to_dict(self) -> dict[str, Any]:
        """The statement as a file holds it, exactly; `metric_from_dict` reads it back."""

    def __add__(self, other: Metric) -> Sum:
        """Both statements together."""
        if not isinstance(other, Metric):
            return NotImplemented
        return Sum([self, other])

    def __repr__(self) -> str:
        """The call that makes this statement."""
        options = {key: value for key, value in self.to_dict().items() if key != "kind"}
        inside = ", ".join(f"{key}={value!r}" for key, value in options.items())
        return f"{type(self).__name__}({inside})"


def set_fields(statement: Metric, **fields: object) -> None:
    """Fill a frozen statement while it is being made."""
    for name, value in fields.items():
        object.__setattr__(statement, name, value)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Distance(Metric):
    """E grows with the distance: ε·|a − b|/per, so near values hide among each other.

    With a cap it grows no further: E = min(ε·|a − b|/per, cap), and no pair of values, however far
    apart, is ever told apart by more than e^cap.

    Args:
        epsilon: E for two values that are `per` apart.
        per: Unit of distance, in the axis' own units; a duration such as "7 days" on dates.
        no_answer: Distance of "no answer" from every value, required on an optional axis. Values
            more than twice as far apart are then nearer by way of it.
        cap: The most E may be for any pair, in the same units as E.

    Raises:
        StudyError: If a number is not positive and finite.

    Example:
        >>> Distance(epsilon=0.2, per=10).between(20, 70)
        1.0
        >>> Distance(epsilon=0.2, cap=3).between(20, 70)
        3.0
    """

    kind: ClassVar[str] = "distance"
    epsilon: Fraction
    per: Fraction | str
    no_answer: Fraction | str | None
    cap: Fraction | None

    def __init__(
        self,
        epsilon: Number,
        per: Quantity = 1,
        no_answer: Quantity | None = None,
        *,
        cap: Number | None = None,
    ) -> None:
        """Read the numbers exactly."""
        set_fields(
            self,
            epsilon=positive(epsilon, "epsilon"),
            per=read_quantity(per, "per"),
            no_answer=None if no_answer is None else read_quantity(no_answer, "no_answer"),
            cap=None if cap is None else positive(cap, "cap"),
        )

    def between(self, x: Any, y: Any) -> float:
        """E(x, y) for two numbers, dates or times; None stands for no answer."""
        missing = [
            value is None or (isinstance(value, str) and value == NO_ANSWER) for value in (x, y)
        ]
        if not any(missing):
            return self._within_cap(self.epsilon * gap(x, y, self.per))
        if all(missing):
            return 0.0
        if self.no_answer is None:
            raise StudyError(_NO_ANSWER_NEEDED)
        return self._within_cap(self.epsilon * ratio(self.no_answer, self.per))

    def _within_cap(self, e: Fraction) -> float:
        """E as far as the cap lets it grow."""
        return float(e if self.cap is None else min(e, self.cap))

    def bind(self, domain: Domain, *, optional: bool) -> CellMetric:
        """Cells on a line; with "no answer", a table."""
        if not domain.ordered:
            raise StudyError(
                f"Distance needs an axis with distances, and {domain.kind} have none: use Uniform, "
                f"Blocks, PolicyGraph, Points (labels at places) or Matrix"
            )
        rate = self.epsilon / length(domain, self.per, "per")
        if optional:
            return self._bind_with_no_answer(domain, rate)
        if domain.spacing is not None:
            line = LineMetric.equal(rate * domain.spacing, domain.size)
        else:
            line = LineMetric([rate * (b - a) for a, b in pairwise(domain.positions())])
        return line if self.cap is None else capped_line(line, self.cap)

    def _bind_with_no_answer(self, domain: Domain, rate: Fraction) -> CellMetric:
        """The line, and one more cell at the stated distance from all of it."""
        if self.no_answer is None:
            raise StudyError(_NO_ANSWER_NEEDED)
        names = cell_names(domain, optional=True)
        aside = rate * length(domain, self.no_answer, "no_answer")
        line, denominator, _ = distance_table([(place,) for place in domain.positions()], rate, 1)
        limit = aside if self.cap is None else self.cap
        common = math.lcm(denominator, aside.denominator, limit.denominator)
        numerators = np.full((len(names), len(names)), int(aside * common), dtype=object)
        numerators[:-1, :-1] = line * (common // denominator)
        numerators[-1, -1] = 0
        if self.cap is not None:
            numerators = np.minimum(numerators, int(limit * common))
        return table(numerators, common, names=names)

    def describe(self) -> str:
        """The statement in plain words."""
        per = "" if self.per == 1 else f" / {plain(self.per)}"
        aside = self.no_answer
        extra = "" if aside is None else f"; no answer lies {plain(aside)} from every value"
        most = "" if self.cap is None else f", at most {to_plain(self.cap)}"
        return f"E = {to_plain(self.epsilon)} · distance{per}{most}{extra}"

    def to_dict(self) -> dict[str, Any]:
        """The statement as a file holds it, exactly."""
        data: dict[str, Any] = {"kind": self.kind, "epsilon": to_plain(self.epsilon)}
        if self.per != 1:
            data["per"] = plain(self.per)
        if self.no_answer is not None:
            data["no_answer"] = plain(self.no_answer)
        if self.cap is not None:
            data["cap"] = to_plain(self.cap)
        return data


_NO_ANSWER_NEEDED = (
    "Distance on an optional axis must say how far 'no answer' lies from the values, got "
    "no_answer=None: give no_answer in the units of the axis, such as half its length"
)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Uniform(Metric):
    """E is ε for any two values: ordinary local differential privacy.

    Example:
        >>> Uniform(epsilon=1).between("north", "south")
        1.0
    """

    kind: ClassVar[str] = "uniform"
    epsilon: Fraction

    def __init__(self, epsilon: Number) -> None:
        """Read the number exactly."""
        set_fields(self, epsilon=positive(epsilon, "epsilon"))

    def between(self, x: Any, y: Any) -> float:
        """E(x, y)."""
        return 0.0 if x == y or label_of(x) == label_of(y) else float(self.epsilon)

    def bind(self, domain: Domain, *, optional: bool) -> UniformMetric:
        """E between cells, "no answer" like any other."""
        return UniformMetric(self.epsilon, domain.size + optional)

    def describe(self) -> str:
        """The statement in plain words."""
        return f"E = {to_plain(self.epsilon)} for any two values"

    def to_dict(self) -> dict[str, Any]:
        """The statement as a file holds it, exactly."""
        return {"kind": self.kind, "epsilon": to_plain(self.epsilon)}


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Sum(Metric):
    """Several statements about one value at once (composition: Xiang et al. 2020, Prop. 5).

    Example:
        >>> Sum([Uniform(epsilon=1), Uniform(epsilon=0.5)]).between("a", "b")
        1.5
    """

    kind: ClassVar[str] = "sum"
    parts: tuple[Metric, ...]

    def __init__(self, parts: Sequence[Metric]) -> None:
        """Take one statement or more; sums inside are opened."""
        flat: list[Metric] = []
        for part in parts:
            if not isinstance(part, Metric):
                raise StudyError(
                    f"parts must be metrics such as Uniform(epsilon=1), got {type(part).__name__}"
                )
            flat.extend(part.parts if isinstance(part, Sum) else [part])
        if not flat:
            raise StudyError("parts must hold at least one metric, got none")
        set_fields(self, parts=tuple(flat))

    def between(self, x: Any, y: Any) -> float:
        """E(x, y), the sum over the parts."""
        return math.fsum(part.between(x, y) for part in self.parts)

    def bind(self, domain: Domain, *, optional: bool) -> CellMetric:
        """The sum of the bound parts."""
        bound = [part.bind(domain, optional=optional) for part in self.parts]
        simple = all(isinstance(part, type(bound[0])) for part in bound) and isinstance(
            bound[0], LineMetric | UniformMetric
        )
        return add_cells(bound, names=[] if simple else cell_names(domain, optional=optional))

    def describe(self) -> str:
        """The statement in plain words."""
        return ", plus ".join(part.describe() for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """The statement as a file holds it, exactly."""
        return {"kind": self.kind, "parts": [part.to_dict() for part in self.parts]}

    def __repr__(self) -> str:
        """The call that makes this statement."""
        return f"Sum(parts={list(self.parts)!r})"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Lp(Metric):
    """E between whole records: ε times their L^p distance over all axes, over `per`.

    Guarantee:
        An L1 guarantee with ε' on each of D axes is an L^p guarantee with D^(1 − 1/p)·ε', since
        the L1 norm is at most that factor times the L^p norm (Hölder). `per_axis` gives the
        largest such ε', rounded down.

    Args:
        epsilon: E for two records that are `per` apart.
        p: Order of the norm, a number of at least 1, or inf.
        per: Unit of distance, the same on every axis.

    Example:
        >>> Lp(epsilon=1, p=2).between((0, 0), (3, 4)), Lp(epsilon=1, p=2).per_axis(4)
        (5.0, Distance(epsilon=0.5))
    """

    kind: ClassVar[str] = "lp"
    epsilon: Fraction
    p: Fraction | float
    per: Fraction | str

    def __init__(self, epsilon: Number, p: Number, per: Quantity = 1) -> None:
        """Read the numbers exactly."""
        set_fields(
            self,
            epsilon=positive(epsilon, "epsilon"),
            p=read_order(p, "p"),
            per=read_quantity(per, "per"),
        )

    def per_axis(self, axes: int) -> Distance:
        """The distance guarantee of each axis from which this one follows."""
        if isinstance(axes, bool) or not isinstance(axes, int) or axes < 1:
            raise StudyError(f"axes must be a whole number of at least 1, got axes={axes!r}")
        share = share_of_axis(self.epsilon, self.p, axes)
        if not share:
            raise StudyError(
                f"epsilon={to_plain(self.epsilon)} spread over {axes} axes is below 2^-40: raise it"
            )
        return Distance(share, self.per)

    def between(self, x: Sequence[Any], y: Sequence[Any]) -> float:
        """E(x, y) for two records, given as sequences of numbers, dates or times."""
        if len(x) != len(y):
            raise StudyError(f"records must have the same axes, got {len(x)} and {len(y)} values")
        apart = [gap(a, b, self.per) for a, b in zip(x, y, strict=True)]
        ends = [[Fraction(0)] * len(apart), apart]
        numerators, denominator, _ = distance_table(ends, self.epsilon, self.p)
        return float(Fraction(numerators[0, 1], denominator))

    def bind(self, domain: Domain, *, optional: bool) -> CellMetric:
        """Refused: one axis alone does not know how many there are."""
        raise StudyError(
            "Lp speaks about whole records, not one axis: give it to the study, or bind "
            "per_axis(number of axes), or use Distance on this axis"
        )

    def describe(self) -> str:
        """The statement in plain words."""
        per = "" if self.per == 1 else f" / {plain(self.per)}"
        order = "inf" if self.p == math.inf else to_plain(Fraction(self.p))
        return f"E = {to_plain(self.epsilon)} · L{order} distance of the records{per}"

    def to_dict(self) -> dict[str, Any]:
        """The statement as a file holds it, exactly."""
        order = self.p if isinstance(self.p, float) else to_plain(self.p)
        data = {"kind": self.kind, "epsilon": to_plain(self.epsilon), "p": order}
        return data if self.per == 1 else {**data, "per": plain(self.per)}
