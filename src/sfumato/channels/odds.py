"""The exact check of a channel's odds against E; close cases are decided in integers.

Logarithms in floats only say which odds need a closer look. Whatever comes near its bound is
decided in integers, against certified bounds of e^E, and the pair that spends most of its E is
remembered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.exact import at_most_exp, exp_bounds, far_below_exp, log
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.distance import CappedLineMetric, LineMetric

Method = Literal["all pairs, exactly", "by structure", "not checked"]

_MOST_PROBLEMS = 5
_FAST_BITS = 160


@dataclass(frozen=True, slots=True)
class Bound:
    """The most that odds may be: e^E, or 1 + E between grid points behind stochastic rounding."""

    e: Fraction
    linear: bool = False

    @property
    def log(self) -> float:
        """Its logarithm."""
        return math.log1p(float(self.e)) if self.linear else float(self.e)

    def allows(self, more: int, less: int) -> bool:
        """Whether more/less is within the bound, decided exactly.

        Args:
            more: Words at one cell.
            less: Words at the other.
        """
        if self.linear:
            return more * self.e.denominator <= less * (self.e.denominator + self.e.numerator)
        if not less:
            return more == 0
        if far_below_exp(more, less, self.e):
            return True
        low, _ = exp_bounds(self.e, _FAST_BITS)
        if (more << _FAST_BITS) <= less * low:
            return True
        return at_most_exp(Fraction(more, less), self.e)

    def share(self, ratio: Fraction) -> float:
        """How much of E these odds spend."""
        return float((ratio - 1) / self.e) if self.linear else log(ratio) / float(self.e)


@dataclass(slots=True)
class Findings:
    """What a check has found so far.

    Attributes:
        spent: The largest share of its E that any pair spends.
        pair: The two cells of that pair; None if no pair has a finite E.
        log_ratio: Log odds of that pair's most telling output.
        allowed: What these may be.
        method: How it was checked.
        pairs: Ordered pairs of cells that were compared, or that follow from those compared.
        problems: All that is wrong, in words.
    """

    spent: float = 0.0
    pair: tuple[int, int] | None = None
    log_ratio: float = 0.0
    allowed: float = math.inf
    method: Method = "not checked"
    pairs: int = 0
    problems: list[str] = field(default_factory=list)

    def by_structure(self, pairs: int) -> None:
        """Note that the check went by structure, over this many ordered pairs."""
        self.method, self.pairs = "by structure", pairs

    def merge(self, other: Findings, cells: Sequence[int]) -> None:
        """Add what was found of some of the cells.

        Args:
            other: What was found; its cells are numbered from 0.
            cells: Which cells these are.
        """
        self.problems += other.problems
        self.pairs += other.pairs
        if other.pair is not None and (other.spent > self.spent or self.pair is None):
            first, second = other.pair
            self.pair, self.spent = (cells[first], cells[second]), other.spent
            self.log_ratio, self.allowed = other.log_ratio, other.allowed

    def rough(self, pair: tuple[int, int], log_ratio: float, bound: Bound) -> None:
        """Take odds that are certainly within their bound, to the accuracy of a float.

        Args:
            pair: The two cells.
            log_ratio: Their log odds.
            bound: What the odds may be.
        """
        share = math.expm1(log_ratio) / float(bound.e) if bound.linear else log_ratio / bound.log
        if share > self.spent or self.pair is None:
            self.pair, self.spent = pair, max(share, 0.0)
            self.log_ratio, self.allowed = max(log_ratio, 0.0), bound.log

    def exact(self, pair: tuple[int, int], more: int, less: int, bound: Bound) -> None:
        """Take odds near or beyond their bound, and decide in integers.

        Args:
            pair: The two cells.
            more: Words of an output at the first cell.
            less: Words of the same output at the second cell.
            bound: What the odds more/less may be.
        """
        ratio = Fraction(more, less) if less else None
        share = math.inf if ratio is None else bound.share(ratio)
        if bound.allows(more, less):
            share = min(share, 1.0)  # a float may round up what integers have decided
        else:
            share = max(share, math.nextafter(1.0, 2.0))
            if len(self.problems) < _MOST_PROBLEMS:
                excess = "infinitely" if ratio is None else f"by {share - 1:.1e} of E"
                self.problems.append(
                    f"the odds of cell {pair[0]} against cell {pair[1]} exceed their bound "
                    f"e^{bound.log:.12g} {excess}"
                )
        if share > self.spent or self.pair is None:
            self.pair, self.spent, self.allowed = pair, share, bound.log
            self.log_ratio = math.inf if ratio is None else log(ratio)


def row_problems(rows: Sequence[Sequence[int]], total: int, size: int) -> Iterator[str]:
    """What keeps words from being a law: a missing or negative entry, or a row of another sum.

    Args:
        rows: Words, one row per cell and one column per output.
        total: What every row must sum to.
        size: The number of cells.
    """
    if len(rows) != size:
        yield f"the table has {len(rows)} rows for {size} cells"
    for x, row in enumerate(rows):
        if len(row) != len(rows[0]):
            yield f"the row of cell {x} has {len(row)} outputs, the first has {len(rows[0])}"
        if min(row) < 0:
            yield f"the row of cell {x} has a negative number of words"
        if sum(row) != total:
            yield f"the row of cell {x} sums to {sum(row)} words, not to {total}"


def compare_all(rows: Sequence[Sequence[int]], metric: CellMetric, found: Findings) -> None:
    """Compare every ordered pair of cells, output by output.

    Args:
        rows: Words, one row per cell and one column per output.
        metric: E between cells.
        found: What is found is added here.
    """
    law = _Law(rows)
    for x in range(metric.size):
        limited = {
            y: Bound(e)
            for y in range(metric.size)
            if y != x and (e := metric.exact(x, y)) is not None
        }
        found.pairs += metric.size - 1 - len(limited)
        if limited:
            law.compare(x, list(limited), list(limited.values()), found)


def compare_grid_points(
    rows: Sequence[Sequence[int]], metric: LineMetric | CappedLineMetric, found: Findings
) -> None:
    """Compare neighbouring grid points behind stochastic rounding, whose odds may be 1 + E.

    Args:
        rows: Words, one row per grid point and one column per output.
        metric: E between grid points.
        found: What is found is added here.
    """
    found.method = "by structure"
    law = _Law(rows)
    for x, step in enumerate(metric.steps):
        law.compare(x, [x + 1], [Bound(step, linear=True)], found)
        law.compare(x + 1, [x], [Bound(step, linear=True)], found)
    if isinstance(metric, CappedLineMetric):
        # Between grid points chances are averages: the cap on grid points is one on all.
        compare_all(rows, metric, found)


class _Law:
    """A table of words, and their logarithms with the most these can err."""

    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        self.rows = rows
        self.logs, self.slack = _logs_of(rows)
        self.has_zeros = bool(np.isneginf(self.logs).any())

    def compare(
        self, x: int, others: Sequence[int], bounds: Sequence[Bound], found: Findings
    ) -> None:
        """The odds of cell x against some others, for every output."""
        found.pairs += len(others)
        with np.errstate(invalid="ignore"):
            gap = self.logs[x] - self.logs[others]
        if self.has_zeros:  # nobody puts it out: nothing to compare
            gap[np.isnan(gap)] = -math.inf
        worst = gap.max(axis=1)
        for place, (y, bound) in enumerate(zip(others, bounds, strict=True)):
            limit = bound.log * (1 - 2.0**-50) - self.slack
            if worst[place] <= limit:
                found.rough((x, y), float(worst[place]), bound)
                continue
            more, less = 0, 1
            for output in np.flatnonzero(gap[place] > limit).tolist():
                a, b = self.rows[x][output], self.rows[y][output]
                if a * less > more * b:
                    more, less = a, b
            found.exact((x, y), more, less, bound)


def compare_consecutive(
    words: Sequence[int], cell: Callable[[int], int], bound: Bound, found: Findings
) -> None:
    """Compare each of some words with the next, where that is what the next cell has of an output.

    Args:
        words: Words of one output at consecutive cells, in either direction.
        cell: The lower of the two cells, given the place of the first word.
        bound: What the odds of neighbours may be.
        found: What is found is added here.
    """
    (logs,), slack = _logs_of([words])
    with np.errstate(invalid="ignore"):
        gap = np.nan_to_num(np.abs(np.diff(logs)), nan=0.0, posinf=math.inf)
    limit = bound.log * (1 - 2.0**-50) - slack
    for k in np.flatnonzero(gap > limit).tolist():
        more, less = max(words[k : k + 2]), min(words[k : k + 2])
        found.exact((cell(k), cell(k) + 1), more, less, bound)
    if gap.size and not np.any(gap > limit):
        k = int(gap.argmax())
        found.rough((cell(k), cell(k) + 1), float(gap[k]), bound)


def _logs_of(rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.float64], float]:
    """Logarithms of words of any number, and the most that a difference of two can err.

    Reading a number as a float, its logarithm (with ln 2 times the exponent added beyond 2^1024)
    and the difference err by less than 8 units in the last place of the largest logarithm.
    """
    logs = np.array([[math.log(word) if word else -math.inf for word in row] for row in rows])
    return logs, 8 * float(logs.max(initial=1.0)) * 2.0**-52
