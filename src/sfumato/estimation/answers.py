"""Answers: estimates with standard errors and confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.errors import MismatchError, QuestionError, shown
from sfumato.estimation.intervals import (
    Estimated,
    Limits,
    around,
    cut,
    normal_quantile,
    ratio_ends,
)
from sfumato.questions.language import Question
from sfumato.text import escape, format_to, visible
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


@dataclass(frozen=True, slots=True)
class Answer:
    """One number with its standard error and confidence interval.

    `stderr` covers the perturbation alone, unless the question said population=True. Sums,
    differences and ratios of answers from one estimate take their covariance into account.

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
        >>> print(Answer(value=12_343.2, stderr=211.7, n=100_000))
        12,340 ± 210
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

    def __float__(self) -> float:
        return self.value

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

    def __sub__(self, other: Answer) -> Answer:
        return self._combine(other, -1.0, "−")

    def __add__(self, other: Answer) -> Answer:
        return self._combine(other, 1.0, "+")

    def __truediv__(self, other: Answer | float) -> Answer:
        if not isinstance(other, Answer):
            return self * (1 / other)
        mine, theirs = self._linear(other)
        return mine.ratio(theirs, level=self.level)

    def __mul__(self, factor: float) -> Answer:
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
        )

    __rmul__ = __mul__

    def _combine(self, other: Answer, sign: float, symbol: str) -> Answer:
        """The sum of this answer and a multiple of another from the same estimate."""
        mine, theirs = self._linear(other)
        text = f"({self.question}) {symbol} ({other.question})"
        notes = tuple(dict.fromkeys(self.notes + other.notes))
        joint = mine.add(theirs.scale(sign))
        return replace(joint.answer(level=self.level, notes=notes), question=text)

    def _linear(self, other: Answer) -> tuple[Combination, Combination]:
        """Both answers as combinations of questions; refused where their covariance is unknown."""
        if self.combination is None or other.combination is None:
            raise QuestionError(
                "these answers do not carry their covariance: one is a ratio, which is not a sum "
                "of counts (combine the counts first, then divide), or was computed by a collector "
                "(ask it for the difference)"
            )
        if self.combination.source is not other.combination.source:
            raise MismatchError(
                "these answers come from different estimates, so their covariance is not known; "
                "ask both of one estimate, or use sfumato.difference(a, b, independent=True)"
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


@dataclass(frozen=True, slots=True)
class Combination:
    """A linear combination of questions, Σ factor·question, put to one estimate.

    Args:
        source: The estimate.
        terms: Pairs of a factor and a question.
        population: Whether variances include the sampling of people.
    """

    source: Moments
    terms: Terms
    population: bool

    def scale(self, factor: float) -> Combination:
        """Multiply all factors by a number."""
        return replace(self, terms=tuple((factor * f, q) for f, q in self.terms))

    def add(self, other: Combination) -> Combination:
        """The sum of both combinations."""
        return replace(self, terms=self.terms + other.terms)

    def moments(self, beside: Terms = ()) -> Estimated[float]:
        """The sum, answered from the same decoding as the questions in `beside`."""
        found = self.source.moments(self.terms, population=self.population, beside=beside)
        return found._replace(variance=max(found.variance, 0.0))

    @property
    def limits(self) -> tuple[float, float]:
        """What the truth cannot be below or above, by the weights that a person can have."""
        whole = self.source.most(self.population)
        spans = [_times(question.span, factor) for factor, question in self.terms]
        low, high = (sum(ends) for ends in zip(*spans, strict=True))
        return low and low * whole, high and high * whole

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
        return way(self._less(other, ratio).terms, population=self.population)


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
    per axis of that shape (for one axis, the entry itself).

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
    errors: JointErrors | None = field(default=None, repr=False)
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
        table = self._table(most)
        head = "".join(f"<th>{escape(name)}</th>" for name in table.column_names)
        body = "".join(
            "<tr>"
            + "".join(
                f"<td>{escape(value) if isinstance(value, str) else f'{value:,.6g}'}</td>"
                for value in row.values()
            )
            + "</tr>"
            for row in table.to_pylist()
        )
        more = f"<p>… {self.values.size - most} more</p>" if self.values.size > most else ""
        notes = f"<p><small>{escape('; '.join(self.notes))}</small></p>" if self.notes else ""
        return f"<table><tr>{head}</tr>{body}</table>{more}{notes}"
