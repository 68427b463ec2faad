"""Quantiles of ordered axes, with confidence intervals in the axis' own units.

Estimator:
    The cumulative share F̂ at the end of every cell is made monotone by isotonic regression between
    its exact ends 0 and 1, weighted by 1/variance. The quantile is in the first cell with
    F̂ >= q, by linear interpolation inside a bin. Larger q never give smaller values.

    The interval inverts the test of F(t) = q at every cell, |F̂(t) − q| <= z·se(t), with se the
    error before the regression: for independent Gaussian errors isotonic regression makes no
    cell's error larger (Kelly1989). The cell of the true quantile is x with
    F(x − 1) < q <= F(x), so it is left out only if q is rejected at x from above or at x − 1
    from below: together no more often than the level allows. Nothing is known within a cell, so
    intervals consist of whole cells. A quantile is not a sum over people: it has an interval, and
    no standard error.

    Beyond 2,048 cells the crossings of q and of the ends of its tests are found by bisection, and
    unbiased estimates beyond 4,096 read all of F̂ and its errors at once, by formula.

    Under a condition the error is that of count(t) − q·base, whose mean is zero where F(t) = q.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.checks import is_number
from sfumato.domains.base import Domain
from sfumato.errors import QuestionError, TooLargeError, shown
from sfumato.estimation.answers import NO_REPORTS, UNSURE_DIVISOR, Answer, Answers, Told
from sfumato.estimation.groups import groups
from sfumato.estimation.intervals import around, normal_quantile
from sfumato.estimation.rows import Bins, Curve, Rows, Ruler
from sfumato.estimation.source import Ask, Source, mentioned
from sfumato.questions.language import Question
from sfumato.study.axis import Axis

#: count(t) − q·base at cell number t, and the ends of its interval.
Gap: TypeAlias = Callable[[int], tuple[float, float, float]]

MOST_CELLS = 2048  # beyond this many cells quantiles are searched for by bisection
BISECTED = "found by bisection"
TIMED = ("dates", "times")
_TIE = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """The cells of an ordered axis that a condition leaves, and the CDF over them.

    Args:
        estimate: The estimate.
        axis: The axis.
        place: Its position in the study.
        base: The condition, with an answer on the axis.
        cells: Numbers of the cells that the condition leaves.
        weights: The weight of every cell of the axis, zero where it is left out.
        ruler: The values of these cells.
        population: Whether errors include the sampling of people.
    """

    estimate: Source
    axis: Axis
    place: int
    base: Question
    cells: NDArray[np.int64]
    weights: Floats
    ruler: Ruler
    population: bool

    @classmethod
    def of(cls, estimate: Source, axis: str, where: Ask, population: bool) -> Line:
        """The cells of an axis under a condition; "no answer" is left out.

        Args:
            estimate: The estimate.
            axis: Name of the axis, which must be ordered.
            where: Conditions on the people, as text or a dict by axis.
            population: Whether errors include the sampling of people.
        """
        place = estimate._place(axis)
        held = estimate.study.axes[place]
        if not held.domain.ordered:
            raise QuestionError(f"axis {axis!r} has no order, so no quantiles; ask for histogram()")
        asked = estimate._ask(None, where, {})
        limit = asked.weights[place]
        weights = np.ones(held.size) if limit is None else limit.copy()
        weights[held.domain.size :] = 0.0
        cells = np.flatnonzero(weights)
        if not len(cells):
            raise QuestionError(
                f"quantiles of {axis!r} need people with an answer, and the condition leaves none; "
                "change where=..."
            )
        part = None if np.all(weights == 1.0) else weights
        base = replace(asked, weights=(*asked.weights[:place], part, *asked.weights[place + 1 :]))
        ruler = Ruler.of(held.domain).within(cells)
        return cls(estimate, held, place, base, cells, weights, ruler, population)

    def upto(self, cells: NDArray[np.int64]) -> Floats:
        """Weights of the people at or below each of the given cells."""
        below = cells[:, None] >= np.arange(self.axis.size)
        result: Floats = below * self.weights
        return result

    def curve(self) -> Curve:
        """All cumulative counts at once."""
        rows = {self.place: Rows(self.upto(self.cells), [], None)}
        return self.estimate.share_moments(self.base, rows, population=self.population)

    def whole_curve(self) -> Curve | None:
        """All cumulative counts of a large axis by formula; None where there is none."""
        every = self.estimate._every_cell(self.place, self.weights, True)
        if every is None or not self.estimate.has_curves(self.axes):
            return None
        rows = {self.place: Rows(every, [], None)}
        with contextlib.suppress(TooLargeError):
            return self.estimate.share_moments(self.base, rows, population=self.population)
        return None

    def gap(self, q: float, z: float) -> Gap:
        """A cached function: count(t) − q·base at cell number t, and the ends of its interval.

        Args:
            q: The share.
            z: Standard errors each way.
        """
        known: dict[int, tuple[float, float, float]] = {}

        def at(number: int) -> tuple[float, float, float]:
            if number not in known:
                w = self.upto(self.cells[number : number + 1])[0]
                changed = (
                    *self.base.weights[: self.place],
                    w,
                    *self.base.weights[self.place + 1 :],
                )
                terms = ((1.0, replace(self.base, weights=changed)), (-q, self.base))
                found = self.estimate.moments(terms, population=self.population)
                reach = z * math.sqrt(max(found.variance, 0.0))
                known[number] = (found.value, *around(found.value, found.centre, reach))
            return known[number]

        return at

    @property
    def axes(self) -> set[int]:
        """Positions of the axis and of those in the condition."""
        return {self.place, *mentioned([self.base])}

    def told(self) -> Told:
        """How it is answered: all cumulative counts at once, or one after another."""
        cells = len(self.cells)
        return self.estimate.told_about(self.axes, cells if cells <= MOST_CELLS else 1)

    def base_value(self) -> float:
        """The estimated number of people that the condition leaves."""
        return self.estimate.moments(((1.0, self.base),), population=self.population).value

    @property
    def text(self) -> str:
        """The axis and the condition in words."""
        return self.axis.name + (f" where {self.base.text}" if self.base.text else "")


@dataclass(frozen=True, slots=True)
class _Found:
    """A quantile and its interval, in base units."""

    value: float
    low: float
    high: float


_NOTHING = _Found(math.nan, math.nan, math.nan)


class Quantiles(Source):
    """Quantiles of ordered axes."""

    @overload
    def quantile(
        self,
        axis: str,
        q: float,
        *,
        where: Ask = None,
        level: float = 0.95,
        population: bool = False,
    ) -> Answer: ...

    @overload
    def quantile(
        self,
        axis: str,
        q: Sequence[float] | Floats,
        *,
        where: Ask = None,
        level: float = 0.95,
        population: bool = False,
    ) -> Answers: ...

    def quantile(
        self,
        axis: str,
        q: float | Sequence[float] | Floats,
        *,
        where: Ask = None,
        level: float = 0.95,
        population: bool = False,
    ) -> Answer | Answers:
        """The value that a share q of people is at or below, among those who answered.

        Several q give several answers, never falling as q rises. The interval is found by testing
        every cell; `stderr` is NaN. Dates are in days and times in seconds, since 1970-01-01 or
        midnight, and are spelled out in `written` and in labels.

        Args:
            axis: An axis with an order.
            q: One share from 0 to 1, or several.
            where: Conditions on the people, as text or a dict by axis.
            level: Confidence level of the intervals.
            population: Add the variance of sampling people from a population.

        Example:
            >>> import sfumato as sf
            >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
            >>> tally = study.simulate({"age": list(range(100)) * 100}, seed=1)
            >>> print(tally.estimate(method="unbiased").quantile("age", 0.5))
            50 (48 to 51)
        """
        shares, single = _shares(q)
        normal_quantile(level)
        line = Line.of(self, axis, where, population)
        found, notes = _find(line, shares, level)
        if single:
            return _single(line, shares[0], found[0], level, notes)
        return _several(line, shares, found, level, notes)

    @overload
    def median(
        self,
        axis: str,
        *,
        by: str,
        bins: Bins = None,
        where: Ask = None,
        level: float = 0.95,
        population: bool = False,
    ) -> Answers: ...

    @overload
    def median(
        self, axis: str, *, where: Ask = None, level: float = 0.95, population: bool = False
    ) -> Answer: ...

    def median(
        self,
        axis: str,
        *,
        where: Ask = None,
        level: float = 0.95,
        population: bool = False,
        by: str | None = None,
        bins: Bins = None,
    ) -> Answer | Answers:
        """The value that half of the people are at or below: `quantile` with q = 0.5.

        Args:
            axis: An axis with an order.
            where: Conditions on the people, as text or a dict by axis.
            level: Confidence level of the intervals.
            population: Add the variance of sampling people from a population.
            by: An axis: one answer for each of its cells, about the people in it.
            bins: With `by`, groups of its cells, as in `histogram`.

        Example:
            >>> import sfumato as sf
            >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
            >>> tally = study.simulate({"age": list(range(100)) * 100}, seed=1)
            >>> print(tally.estimate(method="unbiased").median("age"))
            50 (48 to 51)
        """

        def ask(who: Ask) -> Answer:
            return self.quantile(axis, 0.5, where=who, level=level, population=population)

        if by is None and bins is None:
            return ask(where)
        return groups(self, self._grouped(by), ask, where=where, bins=bins)


def _find(line: Line, shares: list[float], level: float) -> tuple[list[_Found], tuple[str, ...]]:
    """Every quantile with its interval, and notes for the reader."""
    if not line.estimate.n:
        return [_NOTHING] * len(shares), (NO_REPORTS,)
    notes = line.estimate._cut_notes(line.base.prorated)
    if len(line.cells) > MOST_CELLS:
        z, whole = normal_quantile(level), line.whole_curve()
        base = line.base_value() if whole is None else whole.base
        found = [
            _bisect(line, q, base, line.gap(q, z) if whole is None else _gap(whole, q, z))
            for q in shares
        ]
        return found, (*line.told().notes, *notes, BISECTED)
    curve = line.curve()
    notes = line.told().notes + notes
    if not curve.base > 4 * math.sqrt(max(curve.spread, 0.0)):
        notes = (*notes, UNSURE_DIVISOR)
    rising = curve.monotone() if curve.base > 0 else None
    return [_read(line.ruler, curve, rising, share, level) for share in shares], notes


def _read(ruler: Ruler, curve: Curve, rising: Floats | None, q: float, level: float) -> _Found:
    """Read the monotone shares at q, and invert the tests around it."""
    if rising is None:
        return _Found(math.nan, float(ruler.lows[0]), float(ruler.highs[-1]))
    reach = normal_quantile(level) * curve.error(q)[:-1] / curve.base
    middle = curve.middle()
    least, most = around(rising[:-1], None if middle is None else middle[:-1], reach)
    # The last share is one and the share before the first is zero: neither needs a test.
    first = int(np.argmax(np.append(most >= q - _TIE, True)))
    last = len(reach) - int(np.argmax(np.append((least <= q + _TIE)[::-1], True)))
    low, high = float(ruler.lows[first]), float(ruler.highs[last])
    cell = int(np.searchsorted(rising, max(q - _TIE, _TIE)))
    before = float(rising[cell - 1]) if cell else 0.0
    value = ruler.value(cell, (q - before) / (float(rising[cell]) - before))
    return _Found(value, min(low, value), max(high, value))


def _gap(curve: Curve, q: float, z: float) -> Gap:
    """What `Line.gap` returns, read from all cumulative counts."""

    def at(number: int) -> tuple[float, float, float]:
        value = float(curve.counts[number]) - q * curve.base
        reach = z * curve.error_at(number, q)
        return value, value - reach, value + reach

    return at


def _bisect(line: Line, q: float, base: float, at: Gap) -> _Found:
    """A crossing of q, and crossings of the two ends of its test, by bisection.

    Xiang et al. 2020, §4.4, with one correction: the share is exactly 0 below the first cell and 1
    at the last, where the paper reads a noisy last bit; so there is always a crossing.
    """
    size, ruler = len(line.cells), line.ruler
    tie = _TIE * abs(base)
    cell = _crossing(lambda t: at(t)[0] >= (-tie if q else tie), size)
    first = _crossing(lambda t: at(t)[2] >= -tie, size)
    last = _crossing(lambda t: at(t)[1] > tie, size)
    before = at(cell - 1)[0] if cell else -q * base
    after = at(cell)[0] if cell < size - 1 else (1 - q) * base
    value = ruler.value(cell, -before / (after - before) if after > before else 0.0)
    low, high = float(ruler.lows[first]), float(ruler.highs[last])
    return _Found(value, min(low, value), max(high, value))


def _crossing(reached: Callable[[int], bool], size: int) -> int:
    """The first cell at which the CDF reaches the level, by bisection.

    The level counts as not reached before the first cell, and as reached at the last.
    """
    left, right = -1, size - 1
    while right - left > 1:
        middle = (left + right) // 2
        left, right = (left, middle) if reached(middle) else (middle, right)
    return right


def _shares(q: Any) -> tuple[list[float], bool]:
    """The shares asked for, checked, and whether it was a single one."""
    several = isinstance(q, (list, tuple, range)) or (isinstance(q, np.ndarray) and q.ndim > 0)
    given: Sequence[Any] = list(q) if several else [q]
    if not given:
        raise QuestionError("quantile needs at least one share q between 0 and 1, got none")
    for share in given:
        number = is_number(share) or isinstance(share, Fraction)
        if not number or not 0 <= share <= 1:
            raise QuestionError(
                f"a quantile's share must be a number from 0 to 1, such as 0.5 for the median, "
                f"got q={shown(share)}"
            )
    return [float(share) for share in given], not several


def _single(line: Line, q: float, found: _Found, level: float, notes: tuple[str, ...]) -> Answer:
    """One quantile as an answer; dates and times are also written out."""
    places = (found.value, found.low, found.high)
    spelled = line.axis.domain.kind in TIMED and not math.isnan(found.value)
    return Answer(
        value=found.value,
        stderr=math.nan,
        n=line.estimate.n,
        level=level,
        method=line.told().method,
        notes=notes,
        question=f"{_percent(q)} quantile of {line.text}",
        bounds=(found.low, found.high),
        written=tuple(_written(line.axis.domain, x) for x in places) if spelled else None,
    )


def _several(
    line: Line, shares: list[float], found: list[_Found], level: float, notes: tuple[str, ...]
) -> Answers:
    """Several quantiles as answers; labels contain dates and times in words."""
    axis, names = line.axis, [_percent(share) for share in shares]
    if axis.domain.kind in TIMED:
        names = [
            name if math.isnan(one.value) else f"{name} ({_written(axis.domain, one.value)})"
            for name, one in zip(names, found, strict=True)
        ]
    return Answers(
        values=np.array([one.value for one in found]),
        stderr=np.full(len(found), math.nan),
        n=line.estimate.n,
        kind="quantile",
        axes=(axis.name,),
        all_labels=(names,),
        all_edges=(None,),
        level=level,
        method=line.told().method,
        notes=notes,
        unit=axis.unit or axis.name,
        question=f"quantiles of {line.text}",
        units=(axis.unit,),
        bounds=(np.array([one.low for one in found]), np.array([one.high for one in found])),
    )


def _percent(q: float) -> str:
    """A share as a label."""
    return f"{100 * q:.6g}%"


def _written(domain: Domain, place: float) -> str:
    """A date, or a time to the second, as the axis writes it."""
    return domain.write(Fraction(round(place)))
