"""L^p distances of whole records, and the distance of each axis from which they follow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sfumato.domains.base import Domain
from sfumato.errors import StudyError, shown
from sfumato.exact import positive, to_plain
from sfumato.metrics.base import Metric, set_fields
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.distance import Distance
from sfumato.metrics.norm_grids import ORDERS, NormGridMetric
from sfumato.metrics.norms import distance_table, read_order, share_of_axis
from sfumato.metrics.words import Number, Quantity, gap, length, plain, read_quantity


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Lp(Metric):
    """E between whole records: ε times their L^p distance over all axes, over `per`.

    Guarantee:
        An L1 guarantee with ε' on each of D axes is an L^p guarantee with D^(1 − 1/p)·ε', since
        the L1 norm is at most that factor times the L^p norm (Hölder). `per_axis` gives the
        largest such ε', rounded down.

        Axes that go `together` need no such factor: one channel keeps the L^p distance itself, for
        p = 1, 2 and infinity.

    Args:
        epsilon: E for two records that are `per` apart.
        p: Order of the norm, a number of at least 1, or inf.
        per: Unit of distance, the same on every axis.
        cap: The most E may be for any pair; for axes that go `together`.

    Example:
        >>> Lp(epsilon=1, p=2).between((0, 0), (3, 4)), Lp(epsilon=1, p=2).per_axis(4)
        (5.0, Distance(epsilon=0.5))
        >>> Lp(epsilon=1, p=2, cap=3).between((0, 0), (3, 4))
        3.0
    """

    kind: ClassVar[str] = "lp"
    epsilon: Fraction
    p: Fraction | float
    per: Fraction | str
    cap: Fraction | None

    def __init__(
        self, epsilon: Number, p: Number, per: Quantity = 1, *, cap: Number | None = None
    ) -> None:
        """Read the numbers exactly."""
        set_fields(
            self,
            epsilon=positive(epsilon, "epsilon"),
            p=read_order(p, "p"),
            per=read_quantity(per, "per"),
            cap=None if cap is None else positive(cap, "cap"),
        )

    def per_axis(self, axes: int) -> Distance:
        """The distance guarantee of each axis from which this one follows."""
        if isinstance(axes, bool) or not isinstance(axes, int) or axes < 1:
            raise StudyError(f"axes must be a whole number of at least 1, got axes={shown(axes)}")
        if self.cap is not None:
            raise StudyError(
                f"a cap holds for whole records, got cap={to_plain(self.cap)} on axes of their "
                "own: put them together([...], protect=Lp(...)), or leave out cap"
            )
        share = share_of_axis(self.epsilon, self.p, axes)
        if not share:
            raise StudyError(
                f"epsilon={to_plain(self.epsilon)} spread over {axes} axes is below 2^-40: raise it"
            )
        return Distance(share, self.per)

    def between(self, x: Sequence[Any], y: Sequence[Any]) -> float:
        """E(x, y) for two records, given as sequences of numbers, dates or times.

        Args:
            x: One record as a sequence of values.
            y: The other.
        """
        if not all(isinstance(record, (list, tuple)) or np.ndim(record) == 1 for record in (x, y)):
            raise StudyError(
                "records must be lists of values, one per axis, got "
                f"{type(x).__name__} and {type(y).__name__}"
            )
        if len(x) != len(y):
            raise StudyError(f"records must have the same axes, got {len(x)} and {len(y)} values")
        apart = [gap(a, b, self.per) for a, b in zip(x, y, strict=True)]
        ends = [[Fraction(0)] * len(apart), apart]
        numerators, denominator, _ = distance_table(ends, self.epsilon, self.p)
        e = Fraction(numerators[0, 1], denominator)
        return float(e if self.cap is None else min(e, self.cap))

    def bind(self, domain: Domain, *, optional: bool) -> CellMetric:
        """Refused: the metric speaks about whole records, not about one axis.

        Args:
            domain: What the values of the axis may be.
            optional: Whether "no answer" is one more cell, the last.
        """
        raise StudyError(
            "Lp speaks about whole records, not one axis: give it to the study, or bind "
            "per_axis(number of axes), or use Distance on this axis"
        )

    def bind_together(self, domains: Sequence[Domain]) -> NormGridMetric:
        """E between combinations of the cells of several ordered axes, in C order."""
        if self.p not in ORDERS:
            raise StudyError(
                f"axes together take Lp with p = 1, 2 or inf, got p={to_plain(Fraction(self.p))}: "
                "state p=2, which is stricter than a smaller p, or give it to the study"
            )
        steps = []
        for domain in domains:
            spacing = domain.spacing if domain.ordered else None
            if spacing is None:
                raise StudyError(
                    f"Lp on axes together needs ordered axes with equally spaced cells, and one "
                    f"has {domain.kind} of other widths or without order: use equal bins"
                )
            steps.append(self.epsilon * spacing / length(domain, self.per, "per"))
        shape = tuple(domain.size for domain in domains)
        return NormGridMetric(shape=shape, steps=tuple(steps), order=self.p, cap=self.cap)

    def describe(self) -> str:
        """The statement in plain words."""
        most = "" if self.cap is None else f", at most {to_plain(self.cap)}"
        per = "" if self.per == 1 else f" / {plain(self.per)}"
        order = "inf" if self.p == math.inf else to_plain(Fraction(self.p))
        return f"E = {to_plain(self.epsilon)} · L{order} distance of the records{per}{most}"

    def to_dict(self) -> dict[str, Any]:
        """The statement as a file holds it, exactly."""
        order = self.p if isinstance(self.p, float) else to_plain(self.p)
        data: dict[str, Any] = {"kind": self.kind, "epsilon": to_plain(self.epsilon), "p": order}
        if self.per != 1:
            data["per"] = plain(self.per)
        if self.cap is not None:
            data["cap"] = to_plain(self.cap)
        return data
