"""Sums over people by the cheapest way: over the tally, over the grid, or by a summed-area table.

Xiang et al. 2020 (Table 1) list three ways to keep the reports; `Sums` offers all of them. By
default it works directly on the tally and builds the summed-area table once the work already done
directly would have paid for it, so it costs at most twice as much as the better choice in
hindsight.
"""

from __future__ import annotations

from sfumato.collect.grids import LOOK_UP_COST, Grid, PrefixGrid, build_grid, grid_size
from sfumato.collect.statistics import MOST_GRID, BitReports, Statistic, SymbolCounts, Vectors
from sfumato.errors import StudyError

WAYS = ("auto", "direct", "cells", "prefix")


class Sums:
    """Sums of products over people, by the way asked for or the cheapest.

    Args:
        statistic: The reports.
        via: "direct", "cells", "prefix" or "auto".
    """

    def __init__(self, statistic: SymbolCounts | BitReports, via: str) -> None:
        if via not in WAYS:
            raise StudyError(f"via must be one of {', '.join(WAYS)}; got via={via!r}")
        self.statistic = statistic
        self.via = via
        self._grid: Grid | None = None
        self._prefix: PrefixGrid | None = None
        self._spent = 0.0

    def sum(self, vectors: Vectors) -> float:
        """Sum over people of the product over axes."""
        return self._choose(vectors).sum(vectors)

    def _choose(self, vectors: Vectors) -> Statistic:
        """The statistic or table from which to compute this sum."""
        if self.via == "cells":
            return self._cells()
        if self.via == "prefix":
            return self._summed()
        if self.via == "direct":
            return self.statistic
        direct = self.statistic.cost(vectors)
        if self._prefix is None:
            self._spent += direct
            if not self._affordable() or self._spent < self._build_cost():
                return self.statistic
        if direct <= LOOK_UP_COST:  # no table can be cheaper
            return self.statistic
        table = self._summed()
        return table if table.cost(vectors) < direct else self.statistic

    def _affordable(self) -> bool:
        """Whether the table is small enough to be built."""
        return grid_size(self.statistic.layouts) <= MOST_GRID // 4

    def _build_cost(self) -> float:
        """Memory accesses for building the summed-area table."""
        axes = list(range(len(self.statistic.layouts)))
        return self.statistic.profile_cost(axes) + 3.0 * grid_size(self.statistic.layouts)

    def _cells(self) -> Grid:
        """The grid of single values, built once."""
        if self._grid is None:
            self._grid = build_grid(self.statistic)
        return self._grid

    def _summed(self) -> PrefixGrid:
        """The summed-area table, built once."""
        if self._prefix is None:
            self._prefix = PrefixGrid.of(self._cells())
        return self._prefix
