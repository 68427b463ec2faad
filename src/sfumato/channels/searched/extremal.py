"""The extremal channel: a small error on a workload, under any metric on up to 256 cells.

P(y | x) = θ_y·q_y(x), with rows q_y that are log-linear with slopes ±E. Which rows are best for a
workload is found by a search (`searched/extreme_rows.py`). The study file holds the logarithms of
the rows and the shares, both rounded. One more output, the blank, takes what rounding leaves over.

Guarantee:
    Every pair of cells is checked in integers when the words are counted: for each output, those
    of one cell are at most e^E times those of the other.

Estimator:
    Weighted least squares (`channels/least_squares.py`), unbiased.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from sfumato.arrays import Floats
from sfumato.channels.choice import Trial, uniform_trials
from sfumato.channels.code import Code, RowProducts, Value
from sfumato.channels.least_squares import LeastSquaresChannel, TableChannel
from sfumato.channels.odds import Findings, compare_all
from sfumato.channels.searched import extreme_rows
from sfumato.channels.searched.codec import OutputRows
from sfumato.channels.searched.settling import (
    OWN,
    Progress,
    SearchedChoice,
    checked_workload,
    gram_of,
    written,
)
from sfumato.channels.searched.shares import coarse, in_units, level
from sfumato.errors import StudyError
from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.distance import LineMetric
from sfumato.metrics.labelled import HighLowMetric

_METHOD = 3  # raised when the search changes, so that no older result is taken from the cache
_SLACK_BITS = 12  # logarithms are shortened by this part, so that rounding stays within E
_ROUGH_BITS, _SHARE_BITS = 12, 26  # of shares before and after they are made level
_FLOOR_BITS = 22  # outputs are mixed with a fixed law by this part, so that none is too rare
_LEAST_E = 2.0**-12
_FAR = 12.0  # cells this far apart are told apart for sure but for 1 in 160,000: no need for more


@dataclass(frozen=True, slots=True)
class Extremal(SearchedChoice):
    """Choose a channel made for a workload; it fits any metric, with infinite entries or without.

    It fits up to 256 cells and is never worse on its workload than the exponential channel; with
    places on a map its variance is often 10 to 40 times smaller. Making a study searches for the
    rows: less than a second for 24 cells, about two for 64 or 128, and eight for 256. They are kept
    in the study and its file, and in a cache on this machine. The same search gives the same rows
    on every machine, but for very rare numbers that lie within a rounding error of a boundary.

    Args:
        workload: Which questions should have a small error: "cells", "ranges", "prefixes", or a
            matrix of weights, one row per question and one column per cell.
        table: The rows and shares, as `settled` writes them; leave it out.

    Example:
        >>> import sfumato as sf
        >>> towns = sf.Points(1, at={"Ash": (0, 0), "Birch": (1, 0), "Cedar": (0, 2)})
        >>> names = ["Ash", "Birch", "Cedar"]
        >>> both = [
        ...     sf.Study("towns", [sf.categories("town", names, protect=towns, channel=channel)])
        ...     for channel in (sf.Extremal(), sf.Exponential())
        ... ]
        >>> made, usual = (s.expected_error(1_000, "town=Ash").rows[-1].stderr for s in both)
        >>> made < 0.5 * usual
        True
        >>> both[0].channels[0].gap < 0.01
        True
    """

    id: ClassVar[str] = "extremal"
    revision: ClassVar[int] = 2
    table_type: ClassVar[type[OutputRows]] = OutputRows
    workload: str | ArrayLike = "cells"
    table: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Check what can be checked before the axis is known."""
        object.__setattr__(self, "workload", checked_workload(self.workload, self.table))
        if self.table is not None:
            OutputRows.from_text(self.table)

    @property
    def title(self) -> str:
        """What `explain` calls it."""
        return "the extremal channel, found by search,"

    def misfit(self, metric: CellMetric) -> str | None:
        """It needs distances that are not too small, and not too many cells."""
        problem = self._too_large(metric.size)
        if problem is not None:
            return problem
        distance = metric.matrix()
        between = distance[~np.eye(metric.size, dtype=bool)]
        if between.min() < _LEAST_E:
            return (
                f"E must be at least 2^-12 for all pairs, got {between.min():.2g}; merge cells, or "
                "use Exponential()"
            )
        return self._other_cells(metric.size, workload=self.workload)

    def _too_large(self, size: int) -> str | None:
        """Beyond 256 cells the search for rows would take minutes."""
        if size <= OutputRows.MOST_CELLS:
            return None
        return (
            f"the search for its rows is too long for {size} cells; the limit is "
            f"{OutputRows.MOST_CELLS}. Use Exponential(), or wider cells"
        )

    def _search_key(self, metric: CellMetric) -> Iterator[bytes]:
        """The distances as far as they matter, and the workload."""
        gram, distance = self._problem(metric)
        yield f"{_METHOD} {metric.size} ".encode()
        yield np.ascontiguousarray([distance, gram], dtype="<f8").tobytes()

    def _search(self, metric: CellMetric, progress: Progress | None) -> OutputRows:
        """Rows and shares by generating rows."""
        gram, distance = self._problem(metric)
        return _in_integers(extreme_rows.fit(gram, distance, progress=progress), distance)

    def _problem(self, metric: CellMetric) -> tuple[Floats, Floats]:
        """G of the workload, and the distances as far as they matter."""
        return gram_of(self.workload, metric.size), np.minimum(metric.matrix(), _FAR)

    def _with_table(self, metric: CellMetric, table: str) -> Self:
        """This choice with its rows."""
        return type(self)(self.workload if isinstance(self.workload, str) else OWN, table)

    def bind(
        self, metric: CellMetric, *, precision: int = 64, resolution: int = 0
    ) -> ExtremalChannel:
        """Find the rows if need be, count their words and check them.

        Args:
            metric: E between the cells.
            precision: How many bits of a random word take part.
            resolution: Bits of a value's place between two cells; 0 without stochastic rounding.
        """
        rows = OutputRows.from_text(self._table_for(metric, resolution))
        return ExtremalChannel(metric=metric, rows=rows, precision=precision)

    def options(self) -> dict[str, Any]:
        """The workload, and the rows once they are found."""
        found: dict[str, Any] = {"workload": written(self.workload)}
        if self.table is not None:
            found["table"] = self.table
        return found

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """Metrics of several kinds, asymmetric ones too; workloads by name and by matrix."""
        questions = [[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]]
        uneven = TableMetric(np.array([[0, 3, 2], [1, 0, 2], [4, 2, 0]]), 3, 3)
        ring = [[min((i - j) % 4, (j - i) % 4) for j in range(4)] for i in range(4)]
        # More than 64 different logarithms; turning rows round keeps Σ θ_y q_y the same for all.
        rows = [(0, -101 * k, 101 * k - 8190) for k in range(40)]
        turned = np.array([row[k:] + row[:k] for row in rows for k in range(3)], dtype=np.int32)
        spelled = OutputRows(turned, 13, np.full(len(turned), 11 / 1024), 0.0).to_text()
        return (
            Trial(choice=cls(), metric=uneven),
            *uniform_trials(cls(table=spelled), (3,)),
            Trial(choice=cls(), metric=HighLowMetric(Fraction(1), np.array([True, False, False]))),
            Trial(choice=cls("ranges"), metric=LineMetric((Fraction(1, 2), Fraction(2)))),
            Trial(choice=cls(), metric=TableMetric(np.array(ring), 2, 4)),
            *uniform_trials(cls(questions), (3,)),
            *uniform_trials(cls(), (), (2, 2)),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class ExtremalChannel(LeastSquaresChannel, TableChannel):
    """One symbol per row, and a last one for the blank."""

    id: ClassVar[str] = "extremal"
    metric: CellMetric
    rows: OutputRows = field(repr=False)
    precision: int = 64
    table: tuple[tuple[int, ...], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Round to words, check every pair, and try to read."""
        words = self._counted()
        found = Findings()
        whole = min(min(row) for row in words) > 0
        if whole:
            compare_all(words, self.metric, found)
        if not whole or found.problems:
            raise StudyError(
                "the table of this extremal channel does not keep the metric in words of "
                f"{self.precision} bits; make the study again, or use Exponential()"
            )
        object.__setattr__(self, "table", tuple(tuple(row) for row in words))
        self._reading  # noqa: B018 - refuses rows that do not tell all cells apart

    @cached_property
    def _products(self) -> RowProducts:
        """The rule of the words, mixed with a uniform choice, so that no output is too rare.

        The same rare event for all cells puts it out: E is kept.
        """
        return self.rows.products(self.precision, floor_bits(self.precision))

    def _counted(self) -> list[list[int]]:
        """Words of every cell, the blank last."""
        return self._products.rows()

    def device_code(self, code: Code, cell: Value) -> Value:
        """The rule travels, not its words.

        Args:
            code: Where instructions are added.
            cell: The cell.
        """
        return code.row_of_products(self._products, cell)

    @property
    def gap(self) -> float:
        """How far the mean square is above the least there can be, relatively.

        As far as the search could tell: it looks for rows from thousands of starts, and may
        overlook one.
        """
        return self.rows.gap


def floor_bits(precision: int) -> int:
    """The binary part of all words that is the same for all cells and outputs."""
    return min(_FLOOR_BITS, precision // 3)


def _in_integers(found: extreme_rows.Found, distance: Floats) -> OutputRows:
    """Logarithms in units that are fine enough for the smallest E, and shares to match.

    The largest logarithm of every row is 0, so that rows consist of a few sums of E. Shares are
    rounded roughly, which removes the rounding errors of the search, then made level from numbers
    that all machines share, and rounded again. What that may leave of Σ θ_y q_y = 1, less than
    2^-25, must be small beside the blank: the blank gets 2^-23/E, for the smallest E.
    """
    least = float(distance[~np.eye(len(distance), dtype=bool)].min())
    unit = max(0, math.ceil(_SLACK_BITS + 1 - math.log2(least)))
    tops = found.logs.max(axis=1, keepdims=True)
    logs = in_units((found.logs - tops) * (1 - 2.0**-_SLACK_BITS), unit).astype(np.int32)
    exact = np.exp(np.ldexp(logs.astype(np.float64), -unit))
    shares = level(exact, coarse(found.shares * np.exp(tops[:, 0]), _ROUGH_BITS))
    blank = 2.0 ** (3 - _SHARE_BITS) / min(least, 1.0)
    gap = found.value / found.bound - 1 if found.bound else math.inf
    return OutputRows(logs, unit, coarse((1 - blank) * shares, _SHARE_BITS), round(gap, 4))
