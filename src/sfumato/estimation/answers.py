"""Answers: estimates with standard errors and confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats, alike
from sfumato.checks import is_number
from sfumato.errors import MismatchError, QuestionError, near, shown
from sfumato.estimation.intervals import (
    Estimated,
    Limits,
    around,
    cut,
    normal_quantile,
    ratio_ends,
)
from sfumato.files import to_csv
from sfumato.questions.language import Question, quoted
from sfumato.text import escape, format_to, html_table, interval_name, visible
from sfumato.verbs import AnswersVerbs

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


Terms: TypeAlias = tuple[tuple[float, Question], ...]

NO_REPORTS = "no reports"
PRORATED = "a bin of {} is cut: its share is prorated"
ROUNDED = "people within a grid step of an end on {} are read as if they were spread evenly"
EITHER_SIDE = "the interval leaves room for all of these people on either side of the end"
UNSURE_DIVISOR = "the divisor is not clearly above zero: rely on the interval, not on ±"


def _times(ends: tuple[float, float], factor: float) -> tuple[float, float]:
    """Both ends of an interval times a number, in order."""
    low, high = sorted(end * factor if end else 0.0 for end in ends)
    return low, high


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Answer:
    """One number with its standard error and confidence interval.

    It adds, subtracts and divides like a number: sums, differences and ratios of answers from one
    estimate take their covariance into account, and where it is not known they are refused.
    `float`, `int`, `round` and a format such as ``f"{answer:.1f}"`` give the value alone.

    `stderr` covers the perturbation alone, unless the question said population=True.

    Args:
        value: The estimate.
        stderr: Its standard error, or that of `centre`; NaN for a quantile.
        n: Number of reports, or of people (see `counted`).
        level: Confidence level of the interval from `low` to `high`.
        method: The estimator, such as "unbiased" or "likelihood".
        notes: What to know about the answer, such as a prorated bin.
        question: The question in words.
        combination: The linear combination of questions answered, for covariances; None for a
            ratio.
        centre: The middle of the interval where that is not the value: the unbiased answer, whose
            interval is extended to contain the value.
        room: A standard error beside `stderr` that the interval allows for: that of a few people
            more.
        bounds: The interval where it is not centre ± z·stderr, as for a quantile or a ratio.
        limits: What the truth cannot be below or above, such as 0 and n for a count. The interval
            ends there; the value may lie outside.
        written: Value, low and high as the axis writes them, where they are dates or times.
        counted: What `n` counts: "reports", or "people" for a release in the central model.

    Example:
        >>> answer = Answer(value=12_343.2, stderr=211.7, n=100_000)
        >>> print(answer, answer + 1_000, f"{answer:.1f}")
        12,340 ± 210 13,340 ± 210 12343.2
    """

    value: float
    stderr: float
    n: int
    level: float = 0.95
    method: str = "unbiased"
    notes: tuple[str, ...] = ()
    question: str = ""
    combination: Combination | None = field(default=None, repr=False, compare=False)
    centre: float | None = field(default=None, repr=False)
    room: float = field(default=0.0, repr=False)
    bounds: tuple[float, float] | None = None
    limits: tuple[float, float] | None = field(default=None, repr=False)
    written: tuple[str, ...] | None = None
    counted: str = "reports"

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return float(cut(self.value, self.uncut[0], self.limits))

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return float(cut(self.value, self.uncut[1], self.limits))

    @property
    def uncut(self) -> tuple[float, float]:
        """Both ends of the interval before it is cut at `limits`."""
        if self.bounds is not None:
            return self.bounds
        reach = normal_quantile(self.level) * math.hypot(self.stderr, self.room)
        low, high = around(self.value, self.centre, reach)
        return float(low), float(high)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Answer) and alike(self, other)

    def __hash__(self) -> int:
        return hash((self.question, self.n, self.level, self.method))

    def __float__(self) -> float:
        return self.value

    def __int__(self) -> int:
        return int(self._finite())

    def __round__(self, digits: int | None = None) -> float:
        return round(self._finite(), digits)

    def _finite(self) -> float:
        """The value, which a whole number is made of."""
        if not math.isfinite(self.value):
            raise QuestionError(
                f"this answer has no value to round, since it says: {self}; look at its interval"
            )
        return self.value

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else str(self)

    def __repr__(self) -> str:
        asked = f" to {self.question!r}" if self.question else ""
        return f"<answer {self}{asked}>"

    def __str__(self) -> str:
        if math.isnan(self.value):
            return NO_REPORTS
        if self.bounds is not None and math.isnan(self.stderr):
            value, low, high = self._shown()
            return f"{value} ({low} to {high})"
        return f"{format_to(self.value, self.stderr)} ± {format_to(self.stderr, self.stderr)}"

    def _shown(self) -> tuple[str, ...]:
        """Value and interval in words."""
        if self.written is not None:
            return self.written
        numbers = (self.value, self.low, self.high)
        error = (self.high - self.low) / 2 if math.isnan(self.stderr) else self.stderr
        whole = math.isnan(self.stderr) and all(number % 1 == 0 for number in numbers)
        return tuple(format_to(number, 0.0 if whole else error) for number in numbers)

    def __add__(self, other: Answer | float) -> Answer:
        if isinstance(other, Answer):
            return self._combine(other, 1.0, "+")
        return self._plus(float(other)) if is_number(other) else NotImplemented

    __radd__ = __add__  # so that `sum` can start from 0

    def __sub__(self, other: Answer | float) -> Answer:
        if isinstance(other, Answer):
            return self._combine(other, -1.0, "−")
        return self._plus(-float(other)) if is_number(other) else NotImplemented

    def __rsub__(self, other: float) -> Answer:
        return (-self)._plus(float(other)) if is_number(other) else NotImplemented

    def __neg__(self) -> Answer:
        return replace(self * -1.0, question=f"−({self.question})")

    def _plus(self, number: float) -> Answer:
        """The answer plus a number that is known exactly."""
        if not number:
            return self

        def moved(ends: tuple[float, float] | None) -> tuple[float, float] | None:
            return ends and (ends[0] + number, ends[1] + number)

        return replace(
            self,
            value=self.value + number,
            combination=self.combination and self.combination.plus(number),
            centre=None if self.centre is None else self.centre + number,
            bounds=moved(self.bounds),
            limits=moved(self.limits),
            written=None,
            question=f"{_left(self.question)} {'−' if number < 0 else '+'} {abs(number):g}",
        )

    def __truediv__(self, other: Answer | float) -> Answer:
        if not isinstance(other, Answer):
            return self * (1 / other) if is_number(other) else NotImplemented
        mine, theirs = self._linear(other)
        found = mine.ratio(theirs, level=self.level)
        return replace(found, question=f"{_left(self.question)} / ({other.question})")

    def __mul__(self, factor: float) -> Answer:
        if not is_number(factor):
            return NotImplemented
        combination = self.combination.scale(factor) if self.combination else None
        return replace(
            self,
            value=self.value * factor,
            stderr=self.stderr * abs(factor),
            room=self.room * abs(factor),
            combination=combination,
            centre=None if self.centre is None else self.centre * factor,
            bounds=self.bounds and _times(self.bounds, factor),
            limits=self.limits and _times(self.limits, factor),
            written=None,
            question=f"{factor:g} · {_left(self.question)}",
        )

    __rmul__ = __mul__

    def _combine(self, other: Answer, sign: float, symbol: str) -> Answer:
        """The sum of this answer and a multiple of another from the same estimate."""
        mine, theirs = self._linear(other)
        text = f"{_left(self.question)} {symbol} ({other.question})"
        notes = tuple(dict.fromkeys(self.notes + other.notes))
        joint = mine.add(theirs.scale(sign))
        return replace(joint.answer(level=self.level, notes=notes), question=text)

    def _linear(self, other: Answer) -> tuple[Combination, Combination]:
        """Both answers as combinations of questions; refused where their covariance is unknown."""
        if self.combination is None or other.combination is None:
            raise QuestionError(
                "these answers do not carry their covariance, so the error of a sum is not known: "
                "one is a ratio, which is not a sum of counts (combine the counts first, then "
                "divide), a quantile, or was computed elsewhere (ask a collector for the "
                "difference, and a release for the sum as a question of its own)"
            )
        if self.combination.source is not other.combination.source:
            raise MismatchError(
                "these answers come from different estimates, so their covariance is not known; "
                "ask both of one estimate (tallies of different people add: tally_a + tally_b), or "
                "use sfumato.difference(a, b, independent=True)"
            )
        if self.combination.population != other.combination.population:
            raise QuestionError(
                "one answer has population=True and the other not; ask both with the same setting"
            )
        return self.combination, other.combination

    def to_dict(self) -> dict[str, Any]:
        """The plain numbers, for JSON; a missing number is None."""

        def number(x: float) -> float | None:
            return x if math.isfinite(x) else None

        return {
            "question": self.question,
            "value": number(self.value),
            "stderr": number(self.stderr),
            "low": number(self.low),
            "high": number(self.high),
            "level": self.level,
            "method": self.method,
            "n": self.n,
            "notes": list(self.notes),
        } | ({} if self.written is None else {"written": list(self.written)})

    def _repr_html_(self) -> str:
        """HTML for notebooks."""
        _, low, high = self._shown()
        notes = f"<br><small>{escape('; '.join(self.notes))}</small>" if self.notes else ""
        return (
            f"<b>{escape(str(self))}</b> "
            f"<small>({self.level:.0%}: {low} to {high}; {self.n:,} {self.counted})</small>{notes}"
        )


def _left(question: str) -> str:
    """A question on the left of a sign; a sum goes on without more brackets."""
    return question if question.startswith(("(", "−(")) else f"({question})"


class Told(NamedTuple):
    """How a question is answered.

    Args:
        method: The estimator, such as "unbiased" or "likelihood".
        notes: Why it is not the one that was to be expected.
    """

    method: str
    notes: tuple[str, ...] = ()


class Moments(Protocol):
    """An estimate, as far as answers need it: values and variances of sums over people."""

    def told(self, terms: Terms) -> Told:
        """How a sum of questions is answered."""
        ...

    @property
    def n(self) -> int:
        """Number of reports."""
        ...

    def most(self, population: bool) -> float:
        """The number of people, or their total weight; infinite where it is not known."""
        ...

    def moments(
        self, terms: Terms, *, population: bool = False, beside: Terms = ()
    ) -> Estimated[float]:
        """Estimate Σ factor·(sum of a question's weights over people).

        Args:
            terms: Pairs of a factor and a question.
            population: Add the variance of sampling people from a population.
            beside: Questions that must be answered from the same decoding, but are not added.
        """
        ...

    @property
    def ways(self) -> Sequence[Callable[..., Estimated[float]]]:
        """The ways of reading sums, each to be called as `moments` is, which takes the best.

        The best may change over between sums that differ little: their variances are then no
        quadratic form, as those read in one way are.
        """
        ...


class JointErrors(Protocol):
    """The joint errors of many answers."""

    @property
    def whole(self) -> float:
        """Number of people, or their total weight."""
        ...

    def covariance(self) -> Floats | None:
        """Covariance matrix of all answers, up to a factor; None where only variances are known."""
        ...

    def ends(self, z: float) -> tuple[Floats, Floats] | None:
        """Intervals of z standard errors each way where they are not symmetric, as of ratios."""
        ...

    def one(self, place: int) -> Combination | None:
        """One of the answers as a combination of questions; None where it is none."""
        ...


@dataclass(frozen=True, slots=True)
class Combination:
    """A linear combination of questions, Σ factor·question, put to one estimate.

    Args:
        source: The estimate.
        terms: Pairs of a factor and a question.
        population: Whether variances include the sampling of people.
        constant: A number that is known exactly, to be added.
    """

    source: Moments
    terms: Terms
    population: bool
    constant: float = 0.0

    def scale(self, factor: float) -> Combination:
        """Multiply all factors by a number."""
        terms = tuple((factor * f, q) for f, q in self.terms)
        return replace(self, terms=terms, constant=factor * self.constant)

    def add(self, other: Combination) -> Combination:
        """The sum of both combinations."""
        terms, constant = self.terms + other.terms, self.constant + other.constant
        return replace(self, terms=terms, constant=constant)

    def plus(self, number: float) -> Combination:
        """The combination plus a number that is known exactly."""
        return replace(self, constant=self.constant + number)

    def _shifted(self, found: Estimated[float]) -> Estimated[float]:
        """What the terms give, plus the constant."""
        shift = self.constant
        return found._replace(value=found.value + shift, centre=found.centre + shift)

    def moments(self, beside: Terms = ()) -> Estimated[float]:
        """The sum, answered from the same decoding as the questions in `beside`."""
        found = self.source.moments(self.terms, population=self.population, beside=beside)
        return self._shifted(found._replace(variance=max(found.variance, 0.0)))

    @property
    def limits(self) -> tuple[float, float]:
        """What the truth cannot be below or above, by the weights that a person can have."""
        whole = self.source.most(self.population)
        spans = [_times(question.span, factor) for factor, question in self.terms]
        low, high = (sum(ends) for ends in zip(*spans, strict=True))
        shift = self.constant
        return (low and low * whole) + shift, (high and high * whole) + shift

    def answer(self, *, level: float, notes: tuple[str, ...] = ()) -> Answer:
        """The combination as an answer with its standard error.

        Args:
            level: Confidence level of the interval.
            notes: Notes for the answer.
        """
        value, variance, centre, allowance = self.moments()
        told = self.source.told(self.terms)
        return Answer(
            value=value,
            stderr=math.sqrt(variance),
            room=math.sqrt(max(allowance, 0.0)),
            centre=None if centre == value else centre,
            n=self.source.n,
            level=level,
            method=told.method,
            notes=tuple(dict.fromkeys(notes + told.notes)),
            combination=self,
            limits=self.limits,
        )

    def ratio(
        self, other: Combination, *, level: float, limits: tuple[float, float] | None = None
    ) -> Answer:
        """The ratio of two combinations, with Fieller's interval.

        Its standard error is by the delta method: Var(a/b) ≈ Var(a − (a/b)·b) / b², which includes
        their covariance.

        Args:
            other: The divisor.
            level: Confidence level of the interval.
            limits: What the ratio cannot be below or above; left out, zero for ratios of counts.
        """
        if limits is None and min(*self.limits, *other.limits) >= 0:
            limits = (0.0, math.inf)
        top = self.moments(beside=other.terms).value
        divisor = other.moments(beside=self.terms)
        bottom, spread = divisor.value, divisor.variance
        notes = (UNSURE_DIVISOR,) if bottom < 4 * math.sqrt(spread) else ()
        value, stderr, bounds = math.nan, math.inf, (-math.inf, math.inf)
        if bottom and not math.isnan(bottom):
            value = top / bottom
            stderr = math.sqrt(self._less(other, value).moments().variance) / abs(bottom)
            ways = [partial(self._read, other, way) for way in self.source.ways]
            bounds = ratio_ends(ways, value, stderr, normal_quantile(level))
        told = self.source.told(self.terms + other.terms)
        return Answer(
            value=value,
            stderr=stderr,
            n=self.source.n,
            level=level,
            method=told.method,
            notes=notes + told.notes,
            bounds=bounds,
            limits=limits,
        )

    def _less(self, other: Combination, ratio: float) -> Combination:
        """This combination less a multiple of another one."""
        return self.add(other.scale(-ratio))

    def _read(
        self, other: Combination, way: Callable[..., Estimated[float]], ratio: float
    ) -> Estimated[float]:
        """This combination less a multiple of another one, read in one way."""
        less = self._less(other, ratio)
        return less._shifted(way(less.terms, population=self.population))


def difference(a: Answer, b: Answer, *, independent: bool) -> Answer:
    """Subtract answers about different people; their variances add.

    Args:
        a: An answer.
        b: The answer to subtract, from a tally of other people.
        independent: Must be True: the caller states that no report is in both tallies.
    """
    if independent is not True:
        raise MismatchError(
            "difference() is for answers about different people; pass independent=True, "
            "or subtract answers of one estimate with a - b"
        )
    for one in (a, b):
        if not isinstance(one, Answer):
            raise QuestionError(
                f"difference() takes two answers, such as those of est.count(), got {shown(one)}"
            )
    limits = None
    if a.limits is not None and b.limits is not None:
        limits = (a.limits[0] - b.limits[1], a.limits[1] - b.limits[0])
    value, bounds = a.value - b.value, None
    if a.bounds is not None or b.bounds is not None:
        # The squares of the distances from estimate to end add (Zou and Donner, 2008).
        (low, high), (least, most) = a.uncut, b.uncut
        down = math.hypot(a.value - low, most - b.value)
        bounds = (value - down, value + math.hypot(high - a.value, b.value - least))
    return Answer(
        value=value,
        bounds=bounds,
        stderr=math.hypot(a.stderr, b.stderr),
        room=math.hypot(a.room, b.room),
        n=a.n + b.n,
        level=a.level,
        method=a.method if a.method == b.method else f"{a.method}, {b.method}",
        notes=tuple(dict.fromkeys(a.notes + b.notes)),
        question=f"({a.question}) − ({b.question})",
        limits=limits,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Answers(AnswersVerbs):
    """An array of numbers with their errors: a histogram, CDF, heat map or list of questions.

    `values`, `stderr`, `low` and `high` have the same shape; `labels` and `edges` have one entry
    per axis of that shape (for one axis, the entry itself). Each answer is also an `Answer`, by its
    label or position: ``found["Lisbon"]``, ``found[0]``, ``for answer in found``; of a heat map,
    ``found["18", "Lisbon"]``, and ``found["18"]`` is a row.

    Args:
        values: The estimates.
        stderr: Their standard errors; NaN for quantiles.
        n: Number of reports, or of people (see `counted`).
        kind: "histogram", "cdf", "heatmap", "linear" or "quantile".
        axes: Name of every axis of the arrays.
        all_labels: For each axis, the names of its cells.
        all_edges: For each axis, the edges of its cells for plotting; None if they have none.
        level: Confidence level of the intervals from `low` to `high`.
        method: The estimator, such as "unbiased" or "likelihood".
        notes: What to know about the answers, such as a prorated bin.
        unit: What values count: "people", "weight", "fraction", or the unit of the axis.
        question: The condition in words.
        units: For each axis, the unit of its values.
        centres: The middles of the intervals where these are not the values: unbiased answers,
            whose intervals are extended to contain the values.
        room: Standard errors beside `stderr` that the intervals allow for: those of a few people
            more.
        bounds: Intervals that are not centre ± z·stderr: those of quantiles, ratios and bands.
        limits: What the truth cannot be below or above, such as 0 and n for counts, for all answers
            or one for each. Intervals end there; values may lie outside.
        errors: The joint errors, for `band`.
        steps: Post-processing steps in order: see `sfumato.estimation.consistency`.
        counted: What `n` counts: "reports", or "people" for a release in the central model.
    """

    values: Floats
    stderr: Floats
    n: int
    kind: str
    axes: tuple[str, ...]
    all_labels: tuple[list[str], ...]
    all_edges: tuple[NDArray[Any] | None, ...]
    level: float = 0.95
    method: str = "unbiased"
    notes: tuple[str, ...] = ()
    unit: str = "people"
    question: str = ""
    units: tuple[str, ...] = ()
    centres: Floats | None = field(default=None, repr=False)
    room: Floats | float = field(default=0.0, repr=False)
    bounds: tuple[Floats, Floats] | None = field(default=None, repr=False)
    limits: Limits | None = field(default=None, repr=False)
    errors: JointErrors | None = field(default=None, repr=False, compare=False)
    steps: tuple[str, ...] = ()
    counted: str = "reports"

    @property
    def low(self) -> Floats:
        """Lower ends of the intervals."""
        found: Floats = cut(self.values, self.uncut[0], self.limits)
        return found

    @property
    def high(self) -> Floats:
        """Upper ends of the intervals."""
        found: Floats = cut(self.values, self.uncut[1], self.limits)
        return found

    @property
    def uncut(self) -> tuple[Floats, Floats]:
        """Both ends of the intervals before they are cut at `limits`."""
        if self.bounds is not None:
            return self.bounds
        return self.ends(normal_quantile(self.level))

    def ends(self, z: float) -> tuple[Floats, Floats]:
        """Both ends of intervals of z standard errors each way, where they are not `bounds`."""
        reach = z * np.hypot(self.stderr, self.room)
        found: tuple[Floats, Floats] = around(self.values, self.centres, reach)
        return found

    @property
    def labels(self) -> Any:
        """Names of the cells: a list, or one list per axis."""
        return self.all_labels[0] if len(self.all_labels) == 1 else self.all_labels

    @property
    def edges(self) -> Any:
        """Edges of the cells for plotting: an array or None, or one of these per axis."""
        return self.all_edges[0] if len(self.all_edges) == 1 else self.all_edges

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return (self._at(place) for place in range(len(self)))

    def __getitem__(self, which: int | str | slice | tuple[int | str, ...]) -> Any:
        if isinstance(which, slice):
            return [self._at(place) for place in range(len(self))[which]]
        if isinstance(which, tuple):
            if not 1 <= len(which) <= self.values.ndim:
                raise QuestionError(
                    f"these answers are found by {self.values.ndim} labels or positions, one per "
                    f"axis ({', '.join(self.axes)}), got {len(which)}"
                )
            first, *others = which
            return self[first][tuple(others)] if others else self[first]
        names = self.all_labels[0]
        if isinstance(which, str):
            if which not in names:
                raise QuestionError(
                    f"there is no answer for {self.axes[0]} {which!r}: {near(which, names)}"
                )
            return self._at(names.index(which))
        try:
            return self._at(range(len(self))[which])
        except TypeError:
            raise QuestionError(
                f"answers are found by label, such as {names[0] if names else ''!r}, or by "
                f"position, got {shown(which)}"
            ) from None

    def _at(self, place: int) -> Answer | Answers:
        """One answer; of several axes, the answers in one row."""
        label = self.all_labels[0][place]
        whole = (None,) * (self.values.ndim - 1)

        def part(held: Any) -> Any:
            return held[place] if np.ndim(held) else held

        both = self.bounds and tuple(map(part, self.bounds))
        ends = self.limits and tuple(map(part, self.limits))
        if whole:
            return replace(
                self,
                values=self.values[place],
                stderr=self.stderr[place],
                kind="histogram" if len(whole) == 1 else self.kind,
                axes=self.axes[1:],
                all_labels=self.all_labels[1:],
                all_edges=self.all_edges[1:],
                units=self.units[1:],
                question=self._asked(label),
                centres=None if self.centres is None else self.centres[place],
                room=part(self.room),
                bounds=both,
                limits=ends,
                errors=None,
            )
        known = None if self.errors is None or self.steps else self.errors.one(place)
        return Answer(
            value=float(self.values[place]),
            stderr=float(self.stderr[place]),
            n=self.n,
            level=self.level,
            method=self.method,
            notes=self.notes,
            question=self._asked(label),
            combination=known,
            centre=None if self.centres is None else float(self.centres[place]),
            room=float(part(self.room)),
            bounds=both and (float(both[0]), float(both[1])),
            limits=ends and (float(ends[0]), float(ends[1])),
            counted=self.counted,
        )

    def _asked(self, label: str) -> str:
        """What is asked about the part with a label."""
        if self.kind == "linear":
            return label
        if self.kind == "quantile":
            return f"{label} of {self.question.removeprefix('quantiles of ')}"
        own = f"{quoted(self.axes[0])}{'<=' if self.kind == 'cdf' else '='}{quoted(label, ',=|')}"
        return ", ".join(part for part in (self.question, own) if part)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Answers) and alike(self, other)

    def __hash__(self) -> int:
        return hash((self.kind, self.axes, self.question, self.n, self.method))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        return np.array(self.values, dtype=dtype)

    def __repr__(self) -> str:
        size = " × ".join(str(s) for s in self.values.shape)
        source = f"{size} answers from {self.n:,} {self.counted}"
        return f"<{self.kind} of {visible(', '.join(self.axes))}: {source}>"

    def to_arrow(self) -> pa.Table:
        """An Arrow table with one row per answer."""
        return self._table(self.values.size)

    def _table(self, most: int) -> pa.Table:
        """The first answers as an Arrow table."""
        import pyarrow as pa

        count = min(most, self.values.size)
        places = np.unravel_index(np.arange(count), self.values.shape)
        columns: dict[str, Any] = {
            name: pa.array([labels[i] for i in place.tolist()], type=pa.string())
            for name, labels, place in zip(self.axes, self.all_labels, places, strict=True)
        }
        for name in ("values", "stderr", "low", "high"):
            key = name.removesuffix("s") if name == "values" else name
            columns[key if key not in columns else f"{key}_"] = getattr(self, name).ravel()[:count]
        return pa.table(columns)

    def to_csv(self, path: str | Path | None = None) -> str | None:
        """One row per answer as CSV: written to a file, or returned as text without one.

        Args:
            path: The file.
        """
        return to_csv(self.to_arrow(), path)

    def to_pandas(self) -> pd.DataFrame:
        """A DataFrame with one row per answer; needs pandas."""
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, for JSON; a missing number is None, and a date is a text."""

        def numbers(array: Floats) -> Any:
            plain = array.astype(object)
            plain[~np.isfinite(array)] = None
            return plain.tolist()

        def ends(array: NDArray[Any] | None) -> Any:
            if array is None:
                return None
            return (array.astype(str) if array.dtype.kind == "M" else array).tolist()

        return {
            "kind": self.kind,
            "axes": list(self.axes),
            "unit": self.unit,
            "units": list(self.units),
            "question": self.question,
            "labels": [list(labels) for labels in self.all_labels],
            "edges": [ends(edges) for edges in self.all_edges],
            "values": numbers(self.values),
            "stderr": numbers(self.stderr),
            "low": numbers(self.low),
            "high": numbers(self.high),
            "level": self.level,
            "method": self.method,
            "n": self.n,
            "notes": list(self.notes),
        } | ({"steps": list(self.steps)} if self.steps else {})

    def _repr_html_(self) -> str:
        """HTML for notebooks: the first rows as a table."""
        most = 20
        rows = [self._cells(place) for place in range(min(most, self.values.size))]
        made = html_table((*self.axes, self.unit or "answer", interval_name(self.level)), rows)
        more = f"<p>… {self.values.size - most:,} more</p>" if self.values.size > most else ""
        notes = f"<p><small>{escape('; '.join(self.notes))}</small></p>" if self.notes else ""
        return f"{made}{more}{notes}"

    def _cells(self, place: int) -> tuple[str, ...]:
        """Labels, answer and interval of one answer, as a table shows them."""
        at = np.unravel_index(place, self.values.shape)
        found = self[tuple(map(int, at))]
        labels = [names[k] for names, k in zip(self.all_labels, at, strict=True)]
        low, high = found._shown()[1:]
        return (*labels, str(found), f"{low} to {high}")
