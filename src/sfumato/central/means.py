"""Averages over people of functions of single axes; no histogram of all cells is needed.

Kamalaruban et al. 2020, Appendix C: a person who moves from u to v changes the average of q by
(q(u) − q(v))/n. Guarantees of groups of axes add, so averages share E only with those of the same
group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from sfumato.arrays import Floats
from sfumato.central.designs import bend_one, refuse_bias
from sfumato.central.measurements import Measurements, checked_weights, worst_bias
from sfumato.central.mechanism import Counts, Expected, FromMargins, Outcome, question_answers
from sfumato.central.space import Space, cell_names
from sfumato.checks import several
from sfumato.errors import StudyError, near
from sfumato.estimation.intervals import normal_quantile
from sfumato.noise.allocate import allocate
from sfumato.questions.lattice import Lattice
from sfumato.questions.workload import as_dense
from sfumato.randomness.bits import BitSource
from sfumato.study.axis import Axis

#: An axis for the mean of its own values, or an axis and a function of one value or a list by cell.
Function: TypeAlias = "str | tuple[str, Callable[[Any], float] | Sequence[float]]"

_MOST_BENT = 2048
_LEAST_ROOT = Fraction(1, 10**6)
CENTRED = "values of {} are read as the centres of their bins"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Part:
    """The functions of one axis."""

    axis: int
    places: tuple[int, ...]
    rows: Floats
    measurements: Measurements


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedMeans(FromMargins):
    """Averages with their noise, ready for a table."""

    labels: tuple[str, ...]
    parts: tuple[_Part, ...]
    unit: str
    notes: tuple[str, ...]

    @property
    def margins(self) -> tuple[tuple[int, ...], ...]:
        """One histogram per axis."""
        return tuple((part.axis,) for part in self.parts)

    def _gather(self, values: Sequence[Floats]) -> Floats:
        """Numbers by part in the order of the labels, divided by the number of people."""
        found = np.zeros(len(self.labels))
        for part, held in zip(self.parts, values, strict=True):
            found[list(part.places)] = held / self.n
        return found

    @cached_property
    def _off(self) -> tuple[Floats, Floats]:
        """What to add to each average, and how far it may then be off, beside its noise."""
        pairs = []
        for part in self.parts:
            dense = as_dense(part.measurements.lattice.matrix())
            exact = part.measurements.lattice.is_exact and np.array_equal(dense, part.rows)
            none = np.zeros(len(part.rows))
            pairs.append((none, none) if exact else worst_bias(part.rows, dense, self.n))
        return self._gather([a for a, _ in pairs]), self._gather([b for _, b in pairs])

    @property
    def _limits(self) -> tuple[Floats, Floats]:
        """The least and the largest value of each function."""
        low = self._gather([part.rows.min(axis=1) * self.n for part in self.parts])
        return low, self._gather([part.rows.max(axis=1) * self.n for part in self.parts])

    @cached_property
    def stderr(self) -> Floats:
        """Root of the variance, plus the square of the bias where there may be one."""
        spread = self._gather([np.sqrt(part.measurements.variances) for part in self.parts])
        return np.hypot(spread, self._off[1])

    @cached_property
    def reach(self) -> Floats:
        """Half the width of each interval."""
        noise = self._gather([part.measurements.own_reaches(self.level) for part in self.parts])
        return noise + self._off[1]

    def expected(self) -> Expected:
        """The error of each average: exact, and the same whatever the data are."""
        return Expected(
            labels=self.labels,
            stderr=self.stderr,
            reach=self.reach,
            level=self.level,
            unit=self.unit,
        )

    def run_margins(self, counts: Sequence[Counts], bits: BitSource) -> Outcome:
        """Answer from the people in each cell of each axis.

        Args:
            counts: One histogram per part.
            bits: Where randomness comes from.
        """
        noisy = [
            part.measurements.draw(held, bits)
            for part, held in zip(self.parts, counts, strict=True)
        ]
        answers = question_answers(
            self.labels,
            self._gather(noisy) + self._off[0],
            self.stderr,
            n=self.n,
            reach=self.reach,
            limits=self._limits,
            level=self.level,
            method="laplace",
            unit=self.unit,
            notes=self.notes,
        )
        return Outcome(answers=answers, details={"axes": len(self.parts)})


@dataclass(frozen=True, eq=False)
class Means:
    """Averages over people of functions of their values, with discrete Laplace noise.

    Guarantee:
        d-private for d = what is spent, checked in exact arithmetic for every pair of cells of
        every axis. Functions of one axis share its distances. So do functions of axes that are
        together under one guarantee; those of other axes need not, since guarantees add.

    Estimator:
        Unbiased for the values as cells hold them, unless `bias` is "optimised".

    Args:
        functions: Names of axes, for the mean of each; or by label an axis, or an axis with a
            function of its value (None stands for no answer) or a list with one number per cell.
        weights: How much each average's variance counts; left out, one over the square of the
            range of its function.
        allocation: How noise is shared out on an axis: "exact", "equal", "shared" or "psa".
        bias: "optimised" bends functions that are alone on their axis where that saves more noise
            than it costs (problem (14)), with the bias counted in the error.
        level: Share of intervals that hold the truth.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
        >>> means = sf.central.Means({"mean age": "age", "adults": ("age", lambda age: age >= 18)})
        >>> prepared = means.prepare(sf.central.Space(study, "1/5"), n=10_000)
        >>> print(dict(zip(prepared.labels, prepared.stderr.round(5).tolist())))
        {'mean age': 0.03168, 'adults': 0.00148}

    References:
        Kamalaruban et al. 2020, Appendix C.
    """

    functions: Sequence[str] | Mapping[str, Function] | str
    _: KW_ONLY
    weights: Sequence[float] | None = None
    allocation: str = "exact"
    bias: Literal["none", "optimised"] = "none"
    level: float = 0.95

    def __post_init__(self) -> None:
        """Refuse unknown options."""
        if not self.named:
            raise StudyError("means must have a function, got none: name an axis")
        refuse_bias(self.bias)
        normal_quantile(self.level)

    @property
    def named(self) -> dict[str, Function]:
        """The functions by label."""
        listed = [self.functions] if isinstance(self.functions, str) else self.functions
        if isinstance(listed, Mapping):
            return {str(label): function for label, function in listed.items()}
        return {f"mean of {axis}": axis for axis in several(listed, "functions")}

    def describe(self) -> str:
        """The mechanism in a few words."""
        shown = ", ".join(repr(label) for label in list(self.named)[:3])
        more = len(self.named) - 3
        return f"Laplace noise on averages: {shown}{f' and {more} more' if more > 0 else ''}"

    def prepare(self, space: Space, n: int) -> PreparedMeans:
        """Choose the noise.

        Args:
            space: The cells, and the distances that this release may spend.
            n: Number of people.

        Raises:
            StudyError: If an axis is unknown or has no numbers, or a function tells cells apart at
                distance 0.
        """
        axes = space.schema.axes
        rows, owners, notes = [], [], []
        for label, function in self.named.items():
            axis, values = _values(axes, label, function)
            if np.ptp(values) and self.bias == "none":
                space.refuse_unpaid([axis], f"{label!r} is about")
            owners.append(axis)
            rows.append(values)
            if axes[axis].domain.kind == "reals" and not _has_function(function):
                notes.append(CENTRED.format(axes[axis].name))
        spans = np.array([float(np.ptp(row)) or 1.0 for row in rows])
        given = checked_weights(self.weights, len(rows))
        weights = given if self.weights is not None else given / spans**2
        parts, costs = [], []
        for axis in sorted(set(owners)):
            places = tuple(k for k, owner in enumerate(owners) if owner == axis)
            held = np.array([rows[k] for k in places])
            part, cost = self._part(space, axis, places, held, weights[list(places)], n)
            parts.append(part)
            costs.append(cost)
        for group in space.groups:  # axes under one guarantee share it
            among = [k for k, part in enumerate(parts) if part.axis in group.axes]
            if len(among) > 1:
                shared = _share_out([parts[k] for k in among], [costs[k] for k in among])
                for k, part in zip(among, shared, strict=True):
                    parts[k] = part
        for part in parts:
            part.measurements.check(n)
        units = {
            "" if _has_function(function) else axes[owner].unit
            for owner, function in zip(owners, self.named.values(), strict=True)
        }
        return PreparedMeans(
            labels=tuple(self.named),
            parts=tuple(parts),
            shape=space.shape,
            n=n,
            level=self.level,
            unit=units.pop() if len(units) == 1 else "",
            notes=tuple(dict.fromkeys(notes)),
        )

    def _part(
        self,
        space: Space,
        axis: int,
        places: tuple[int, ...],
        rows: Floats,
        weights: Floats,
        n: int,
    ) -> tuple[_Part, float]:
        """The functions of one axis with their noise, and Σ weight·scale²."""
        edges = space.margin_edges((axis,))
        names = cell_names([space.schema.axes[axis]])
        measured = rows
        if self.bias == "optimised" and len(rows) == 1 and edges.size <= _MOST_BENT:
            measured = bend_one(rows[0], edges.distances(), n).rows
        lattice = Lattice.of(measured)
        found = allocate(lattice, edges, weights=weights, method=self.allocation, cells=names)
        part = _Part(
            axis=axis,
            places=places,
            rows=rows,
            measurements=Measurements(lattice, found.step_rates),
        )
        return part, float(found.objective)


def _share_out(parts: list[_Part], costs: list[float]) -> list[_Part]:
    """Let axes share one E: each gets a share in proportion to the cube root of its cost.

    The error of an axis is its cost over the square of its share, and these shares minimise
    Σ cost/share².
    """
    top = max(costs)
    # A share must not be so small that it is rounded to nothing.
    roots = [
        max(Fraction((cost / top) ** (1 / 3)).limit_denominator(10**6), _LEAST_ROOT)
        if cost
        else Fraction(0)
        for cost in costs
    ]
    total = sum(roots, Fraction(0))
    shared = []
    for part, root in zip(parts, roots, strict=True):
        share = root / total if total else Fraction(1)
        rates = tuple(None if r is None else r * share for r in part.measurements.rates)
        held = Measurements(part.measurements.lattice, rates)
        shared.append(replace(part, measurements=held))
    return shared


def _has_function(function: Any) -> bool:
    """Whether a function is given beside the axis, by its values or as Python code."""
    return isinstance(function, tuple)


def _values(axes: Sequence[Axis], label: str, function: Function) -> tuple[int, Floats]:
    """The axis of a function, and its value at every cell of it."""
    if isinstance(function, tuple) and len(function) == 2:
        name, given = function
    elif isinstance(function, str):
        name, given = function, None
    else:
        raise StudyError(
            f"{label!r} must be an axis, or an axis with a function such as ('age', f), got "
            f"{type(function).__name__}"
        )
    known = [axis.name for axis in axes]
    if name not in known:
        raise StudyError(f"the study has no axis {name!r}: {near(str(name), known)}")
    place = known.index(name)
    return place, _of_cells(axes[place], label, given)


def _of_cells(axis: Axis, label: str, given: Any) -> Floats:
    """A function's value at every cell of an axis."""
    numbers = axis.domain.numbers()
    if given is None:
        if numbers is None:
            raise StudyError(
                f"{label!r}: axis {axis.name!r} has no numbers to take the mean of; give a "
                f"function of its values, as in ({axis.name!r}, lambda value: ...)"
            )
        if axis.optional:
            raise StudyError(
                f"{label!r}: axis {axis.name!r} is optional, so say what no answer counts as, with "
                f"a function as in ({axis.name!r}, lambda value: 0 if value is None else value)"
            )
        return numbers
    if callable(given):
        cells: list[Any] = list(axis.domain.labels() if numbers is None else numbers.tolist())
        held = [given(value) for value in ([*cells, None] if axis.optional else cells)]
    else:
        held = list(given)
    try:
        found = np.array(held, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.full(0, np.nan)
    if found.shape != (axis.size,) or not np.isfinite(found).all():
        raise StudyError(
            f"{label!r} must give one finite number for each of the {axis.size} cells of axis "
            f"{axis.name!r}"
        )
    return found
