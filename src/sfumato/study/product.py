"""Independent channels, one an axis: guarantees add over axes, and functions multiply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sfumato.arrays import Cells, Floats, Layout, Outputs
from sfumato.bitcolumns import BitColumns
from sfumato.channels.base import Channel
from sfumato.collect.statistics import BitReports, SymbolCounts
from sfumato.randomness.bits import BitSource


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """A record is perturbed axis by axis.

    Guarantee:
        E((x_d), (x'_d)) = Σ_d E_d(x_d, x'_d) (sequential composition; Xiang et al. 2020).
    """

    id: ClassVar[str] = "product"
    channels: tuple[Channel, ...]

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """How each axis' output is written."""
        return tuple(channel.layout for channel in self.channels)

    def encode(self, codes: Sequence[Cells], bits: BitSource) -> tuple[Outputs, ...]:
        """Perturb records given as one column of codes an axis."""
        return self.perturb(self.cells(codes), bits)

    def cells(self, codes: Sequence[Cells]) -> Sequence[Cells]:
        """What each channel takes: here its axis' own codes."""
        return codes

    def perturb(self, cells: Sequence[Cells], bits: BitSource) -> tuple[Outputs, ...]:
        """Perturb columns of cells, channel after channel."""
        pairs = zip(self.channels, cells, strict=True)
        return tuple(channel.encode(column, bits) for channel, column in pairs)

    def tally(
        self, outputs: Sequence[Outputs], weights: Floats | None = None
    ) -> SymbolCounts | BitReports:
        """Reduce outputs to the smallest thing that can answer; `weights` are one a report."""
        symbols = [column for column in outputs if not isinstance(column, BitColumns)]
        if len(symbols) == len(outputs):
            return SymbolCounts.of(self.layouts, symbols, weights, len(outputs[0]))
        return BitReports(self.layouts, tuple(outputs), len(outputs[0]), weights)

    def merge(self, parts: Sequence[SymbolCounts | BitReports]) -> SymbolCounts | BitReports:
        """Add statistics pairwise, so that every report is copied only a few times."""
        found = list(parts) or [self.empty()]
        while len(found) > 1:
            pairs = zip(found[::2], found[1::2], strict=False)
            # All parts are of one kind: the layouts decide it.
            added = [a + b for a, b in pairs]  # type: ignore[operator]
            found = added + ([found[-1]] if len(found) % 2 else [])
        return found[0]

    def empty(self) -> SymbolCounts | BitReports:
        """The tally of nobody."""
        return self.tally(self.no_outputs())

    def no_outputs(self) -> list[Outputs]:
        """What nobody sends."""
        return [
            np.zeros(0, dtype=np.int64)
            if layout.kind == "symbols"
            else BitColumns(np.zeros((layout.count, 0), dtype=np.uint64), 0)
            for layout in self.layouts
        ]
