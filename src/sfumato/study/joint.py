"""One channel for whole records: the grid of all axes is its cells, and one ε holds for all of it.

Guarantee:
    E = ε between any two records, however many axes they differ on. Axes are not perturbed one by
    one, so ε is not divided among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sfumato.arrays import Cells
from sfumato.study.product import Product

COLUMN = "record"


@dataclass(frozen=True, slots=True, eq=False)
class Joint(Product):
    """A record is one cell of the grid, perturbed by the only channel there is."""

    id: ClassVar[str] = "joint"
    shape: tuple[int, ...] = ()

    def cells(self, codes: Sequence[Cells]) -> list[Cells]:
        """The cell of the grid, flat in C order."""
        return [np.ravel_multi_index(tuple(codes), self.shape)]
