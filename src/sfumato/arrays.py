"""Array types, output layouts and chunk sizes, defined once."""

from __future__ import annotations

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
        """Length of a coefficient vector: one a symbol, or the constant and one a bit."""
        return self.count if self.kind == "symbols" else self.count + 1
