"""Rows to measure: of fixed strategies, and around every cell."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sfumato.arrays import Floats
from sfumato.errors import StudyError, near
from sfumato.metrics.edges import Edges
from sfumato.questions.lattice import Lattice
from sfumato.questions.lines import Identity, Prefixes
from sfumato.questions.trees import Haar, Hierarchy
from sfumato.questions.workload import Workload

FIXED = ("identity", "prefix", "hierarchical", "haar")


def rows_of(name: str, size: int, branching: int = 2) -> Floats:
    """The rows of a fixed strategy, without those that are the same for all cells.

    Example:
        >>> rows_of("prefix", 3).tolist()
        [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    kinds: dict[str, Callable[[], Workload]] = {
        "identity": lambda: Identity(size),
        "prefix": lambda: Prefixes(size),
        "hierarchical": lambda: Hierarchy(size, branching),
        "haar": lambda: Haar(size),
    }
    if name not in kinds:
        raise StudyError(
            f"strategy must be known or a matrix, got strategy={name!r}: {near(name, kinds)}"
        )
    return telling(kinds[name]().dense())


def balls(edges: Edges, most: int = 1024) -> Floats:
    """Cells within each distance of each cell: what prefixes are on a line, for any E.

    Example:
        >>> from fractions import Fraction
        >>> from sfumato.metrics.distance import LineMetric
        >>> from sfumato.metrics.edges import edges_of
        >>> balls(edges_of(LineMetric.equal(Fraction(1), 3))).tolist()
        [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0]]
    """
    distance = edges.distances()
    each = max(1, most // edges.size)
    found = []
    for row in distance:
        levels = np.unique(row[np.isfinite(row)])
        if len(levels) > each:  # the cell alone is at hand anyway; small ones say most
            levels = levels[np.unique(np.geomspace(2, len(levels), each).astype(int)) - 1]
        found.append(row <= levels[:, None])
    return distinct(telling(np.concatenate(found).astype(np.float64)))


def telling(rows: Floats) -> Floats:
    """Rows that are not the same for all cells."""
    result: Floats = rows[np.ptp(rows, axis=1) > 0]
    return result


def canonical(rows: Floats) -> Floats:
    """Rows up to what the number of people tells anyway: shifted, scaled and turned."""
    moved = rows - rows[:, :1]
    first = moved[np.arange(len(rows)), (moved != 0).argmax(axis=1)]
    result: Floats = moved / first[:, None] + 0.0
    return result


def distinct(rows: Floats) -> Floats:
    """Rows without those that say the same as an earlier one."""
    _, places = np.unique(canonical(rows), axis=0, return_index=True)
    return rows[np.sort(places)]


def units_of(lattice: Lattice) -> Floats:
    """The lattice's unit of every row, as doubles."""
    return np.array([float(unit) for unit in lattice.units])


def dense(lattice: Lattice) -> Floats:
    """The coefficients of a lattice, all written out."""
    matrix = lattice.matrix()
    return np.asarray(matrix.toarray() if lattice.is_sparse else matrix, dtype=np.float64)
