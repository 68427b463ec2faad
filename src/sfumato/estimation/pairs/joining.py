"""Answers about three axes or more, from tables of two: the flattest table that has them all.

Nobody reports on three axes, so reports cannot tell how three axes interact beyond their pairs. The
table of largest entropy with the given tables of pairs has no such interaction (iterative
proportional fitting). It is fitted over few groups of cells per axis: those that the question asks
about, split further where there are people.

References:
    Zhang2018 (CALM), Yang2020 (HDG), which fit one group inside and one outside per axis.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.errors import QuestionError

Groups = NDArray[np.intp]

#: Cells of a fitted table, up to which groups are split further.
FINE = 1300
#: Most cells of a fitted table.
MOST_CELLS = 1 << 16
_FEW = 8  # groups where the weights of a question have more values than that
_MOST_STEPS = 300
_STILL = 1e-7
_LEAST = 1e-300


def groups_of(
    weights: Sequence[Floats], laws: Sequence[Floats], ordered: Sequence[bool]
) -> list[Groups]:
    """The group of every cell, for each axis: cells of one group have (nearly) the same weight.

    Args:
        weights: Of the question, one vector per axis.
        laws: The shares of the cells of each axis.
        ordered: Which axes have neighbours.
    """
    count = len(weights)
    runs = 3**count <= MOST_CELLS
    found = [
        _by_weight(w, law, runs=runs and o)
        for w, law, o in zip(weights, laws, ordered, strict=True)
    ]
    if math.prod(int(g.max()) + 1 for g in found) > MOST_CELLS:
        raise QuestionError(
            f"a question about {count} axes at once needs a table of more than {MOST_CELLS:,} "
            "groups of cells; ask about fewer axes at once"
        )
    most = max(2, int(FINE ** (1 / count)))
    return [
        _split(g, law, most) if o else g for g, law, o in zip(found, laws, ordered, strict=True)
    ]


def _by_weight(weights: Floats, law: Floats, *, runs: bool) -> Groups:
    """Cells of equal weight together, neighbours only if `runs`; or a few groups of neighbours."""
    values, place = np.unique(weights, return_inverse=True)
    if len(values) > _FEW:
        ranks = np.argsort(np.argsort(weights, kind="stable"), kind="stable")
        order = np.argsort(ranks)
        mass = np.cumsum(law[order]) - law[order] / 2
        found = np.empty(len(weights), dtype=np.intp)
        found[order] = np.minimum((mass * _FEW).astype(np.intp), _FEW - 1)
        return _numbered(found)
    if not runs:
        return _numbered(place.astype(np.intp))
    steps = np.append(0, np.diff(place) != 0)
    return np.cumsum(steps).astype(np.intp)


def _numbered(groups: Groups) -> Groups:
    """Groups numbered from 0 without gaps."""
    _, found = np.unique(groups, return_inverse=True)
    return found.astype(np.intp)


def _split(groups: Groups, law: Floats, most: int) -> Groups:
    """Split the groups with the most people in two, until there are enough."""
    found = groups.copy()
    while (count := int(found.max()) + 1) < most:
        mass = np.bincount(found, law)
        sizes = np.bincount(found)
        mass[sizes < 2] = -1.0
        largest = int(np.argmax(mass))
        if mass[largest] <= 0:
            break
        cells = np.flatnonzero(found == largest)
        upto = np.cumsum(law[cells])
        cut = int(np.searchsorted(upto, upto[-1] / 2)) + 1
        found[cells[min(cut, len(cells) - 1) :]] = count
    return found


def grouped(table: Floats, rows: Groups, columns: Groups) -> Floats:
    """A table summed over groups of rows and columns.

    Args:
        table: The shares.
        rows: The group of every row.
        columns: The group of every column.
    """
    shape = (int(rows.max()) + 1, int(columns.max()) + 1)
    flat = (rows[:, None] * shape[1] + columns).ravel()
    found: Floats = np.bincount(flat, table.ravel(), math.prod(shape)).astype(np.float64)
    return found.reshape(shape)


def joined(pairs: Mapping[tuple[int, int], Floats], shape: Sequence[int]) -> Floats:
    """The table of largest entropy whose tables of two axes are given.

    Args:
        pairs: By two axes, their table.
        shape: Cells along every axis.
    """
    table = np.full(tuple(shape), 1 / math.prod(shape))
    others = {pair: tuple(axis for axis in range(len(shape)) if axis not in pair) for pair in pairs}
    for _ in range(_MOST_STEPS):
        worst = 0.0
        for pair, wanted in pairs.items():
            sums = table.sum(axis=others[pair])
            worst = max(worst, float(np.abs(sums - wanted).sum()))
            table = table * np.expand_dims(wanted / np.maximum(sums, _LEAST), others[pair])
        if worst < _STILL:
            break
    return table


def nearest_pairs(table: Floats, function: Floats) -> dict[tuple[int, int], Floats]:
    """The sum of functions of two axes each that is nearest to a function of all.

    Where a joined table changes with its pairs, the mean of the function changes as that of this
    sum, which is read from the pairs alone.

    Args:
        table: The joined table: weights of the squares that are least.
        function: A function of its cells.
    """
    shape = table.shape
    columns, sizes = [], {}
    for pair in itertools.combinations(range(len(shape)), 2):
        a, b = pair
        sizes[pair] = (shape[a], shape[b])
        place = np.indices(shape)
        code = (place[a] * shape[b] + place[b]).ravel()
        columns.append(np.eye(shape[a] * shape[b])[code])
    design = np.concatenate(columns, axis=1)
    mass = table.ravel()
    gram = design.T @ (mass[:, None] * design)
    wanted = design.T @ (mass * function.ravel())
    scale = 1 / np.sqrt(np.maximum(np.diag(gram), _LEAST))
    inverse = np.linalg.pinv(scale[:, None] * gram * scale, rcond=1e-9, hermitian=True)
    found = scale * (inverse @ (scale * wanted))
    result, start = {}, 0
    for pair, size in sizes.items():
        result[pair] = found[start : start + math.prod(size)].reshape(size)
        start += math.prod(size)
    return result
