"""Array types, output layouts and chunk sizes, defined once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.bitcolumns import BitColumns

Floats: TypeAlias = NDArray[np.float64]

Cells = NDArray[np.integer[Any]]
Outputs: TypeAlias = NDArray[np.integer[Any]] | BitColumns

DENSE_CELLS = 4096  # beyond this many cells no matrix of cells by outputs is built
PEOPLE_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class Layout:
    """How an output is written: one of `count` symbols, or `count` bits."""

    kind: Literal["symbols", "bits"]
    count: int

    @property
    def features(self) -> int:
        """Length of a coefficient vector: one per symbol, or the constant and one per bit."""
        return self.count if self.kind == "symbols" else self.count + 1


#: The most entries of a matrix of reports by cells that likelihood decoding builds.
MOST_ROW_ENTRIES = 1 << 26
_MOST_OUTPUTS = 1 << 18
_MANY_OUTPUTS = 1 << 22


def most_outputs(cells: int) -> int:
    """The largest number of distinct outputs that likelihood decoding handles for these cells.

    It allows for the 16 outputs per cell of hierarchies.
    """
    return max(_MOST_OUTPUTS, 4 * cells, min(16 * cells, _MANY_OUTPUTS))


def join_outputs(layout: Layout, parts: Sequence[Outputs]) -> Outputs:
    """Concatenate the outputs of one block over groups of people.

    Args:
        layout: How an output is written.
        parts: The outputs of each group of people.
    """
    if layout.kind == "bits":
        packed = [part for part in parts if isinstance(part, BitColumns)]
        return BitColumns.concatenate(packed, layout.count)
    return np.concatenate([part for part in parts if not isinstance(part, BitColumns)])


def no_outputs(layouts: Sequence[Layout]) -> list[Outputs]:
    """The outputs of no people: an empty column per block."""
    return [
        np.zeros(0, dtype=np.int64)
        if layout.kind == "symbols"
        else BitColumns(np.zeros((layout.count, 0), dtype=np.uint64), 0)
        for layout in layouts
    ]
