"""How far scores and answers move when one person does, and so how much noise is enough, exactly.

A number that changes by at most Δ(i, j) when one person goes from cell i to cell j may be used at
the rate min d(i, j)/Δ(i, j). Every Δ here keeps the triangle inequality, so the pairs of `Edges`
imply all others. Doubles only find the pairs that may bind; rationals decide among them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.errors import StudyError, TooLargeError
from sfumato.metrics.edges import Edges
from sfumato.noise.problem import Problem, caps, read_problem
from sfumato.questions.lattice import Lattice

Integers = NDArray[np.int64]

_NEAR = 1 - 2.0**-40  # ratios of doubles this close may be in either order
_ENTRIES = 1 << 22  # of a table worked on at once


def alone(
    lattice: Lattice,
    edges: Edges,
    names: Sequence[str] | None = None,
    cells: Sequence[str] | None = None,
) -> list[Fraction | None]:
    """The largest rate 1/c each query could have if it were the only one: min d(i,j)/|q_i − q_j|.

    Args:
        lattice: The queries.
        edges: The distances.
        names: What to call a query in an error.
        cells: What to call a cell.

    Returns:
        A rational a query; None where no pair at a finite distance tells cells apart.

    Raises:
        StudyError: If a query tells apart two cells at distance 0.

    Example:
        >>> edges = Edges([0, 1], [1, 2], [Fraction(1, 2), Fraction(1, 3)], 3)
        >>> alone(Lattice.of([[0, 1, 2], [1, 1, 0], [1, 1, 1]]), edges)
        [Fraction(1, 3), Fraction(1, 3), None]
    """
    problem = read_problem(lattice, edges, names, cells)
    edges = problem.edges
    with np.errstate(divide="ignore"):
        near = _NEAR / caps(problem)[0]  # steps over distance, of the pairs that may bind
    best: list[Fraction | None] = [None] * problem.queries

    def offer(query: int, steps: int, length: Fraction) -> None:
        rate, known = length / steps, best[query]
        best[query] = rate if known is None or rate < known else known

    for _, _, lengths, found in problem.listed():
        apart = dense(found)
        distinct, which = np.unique(lengths, return_inverse=True)
        real = distinct.astype(np.float64)[which] * float(edges.unit)
        pairs, queries = np.nonzero((apart >= real[:, None] * near) & (apart > 0))
        rows = np.stack([queries, apart[pairs, queries], which[pairs]], axis=1)
        for query, steps, place in np.unique(rows, axis=0).tolist():
            offer(query, steps, int(distinct[place]) * edges.unit)
    for group in edges.groups:
        for query, steps in enumerate(_spread(problem, group.marks).tolist()):
            if steps:
                offer(query, steps, group.length)
    return [
        None if rate is None else rate / unit
        for rate, unit in zip(best, lattice.units, strict=True)
    ]


def _spread(problem: Problem, marks: NDArray[np.intp]) -> Integers:
    """The largest difference of every query between cells of one mark."""
    order = np.argsort(marks, kind="stable")
    starts = np.flatnonzero(np.diff(marks[order], prepend=-1))
    spread = np.zeros(problem.queries, dtype=np.int64)
    width = max(1, _ENTRIES // len(order))
    for first in range(0, problem.queries, width):
        part = slice(first, first + width)
        some = dense(problem.steps[:, part])[order]
        high, low = np.maximum.reduceat(some, starts), np.minimum.reduceat(some, starts)
        spread[part] = (high - low).max(axis=0)
    return spread


def least_rate(
    edges: Edges,
    cost: Callable[[NDArray[np.intp], NDArray[np.intp]], Sequence[int] | Integers],
    pairs: int = 1 << 14,
    cells: Sequence[str] | None = None,
) -> Fraction | None:
    """The largest rate at which a cost of every pair keeps its distance: min d(i,j)/cost(i,j).

    Args:
        edges: The distances.
        cost: Whole numbers for many pairs at once, which keep the triangle inequality.
        pairs: How many pairs at once.
        cells: What to call a cell in an error.

    Returns:
        A rational; None where no pair at a finite distance has a cost.

    Raises:
        StudyError: If a pair at distance 0 has a cost.

    Example:
        >>> edges = Edges([0, 1], [1, 2], [Fraction(1, 2), Fraction(1, 3)], 3)
        >>> least_rate(edges, lambda i, j: (i + j).tolist())
        Fraction(1, 9)
    """
    listed = edges.listed()
    best: Fraction | None = None
    for first, second, lengths in listed.chunks(pairs):
        most: dict[int, int] = {}
        costs = np.asarray(cost(first, second)).tolist()
        for place, (length, spent) in enumerate(zip(lengths.tolist(), costs, strict=True)):
            if spent > most.get(length, 0):
                most[length] = spent
                if length == 0:
                    _refuse_zero(int(first[place]), int(second[place]), cells)
        for length, spent in most.items():
            rate = int(length) * listed.unit / int(spent)
            best = rate if best is None or rate < best else best
    return best


def _refuse_zero(i: int, j: int, cells: Sequence[str] | None) -> None:
    """Refuse scores that tell apart what must look the same."""
    names = [f"cell {cell}" if cells is None else repr(cells[cell]) for cell in (i, j)]
    raise StudyError(
        f"{names[0]} and {names[1]} are at distance 0, so nothing may tell them apart, but the "
        "scores do: give both the same scores, or a distance above 0"
    )


def dense(matrix: Any) -> Integers:
    """Whole numbers as an array, whether they were sparse or not."""
    held = matrix.toarray() if hasattr(matrix, "toarray") else matrix
    return np.asarray(held, dtype=np.int64)


def common_steps(lattice: Lattice) -> tuple[Any, Fraction]:
    """All queries in whole steps of one unit: the steps as a matrix, and the unit.

    Raises:
        TooLargeError: If the units of the rows differ too much for whole numbers of 64 bits.
    """
    below = math.lcm(*(unit.denominator for unit in lattice.units))
    whole = [int(unit * below) for unit in lattice.units]
    unit = Fraction(math.gcd(*whole), below)
    times = [int(size / unit) for size in lattice.units]
    largest = int(np.abs(lattice.steps).max()) if lattice.steps.size else 0
    if max(times) * max(1, largest) >= 1 << 44:
        raise TooLargeError(
            "the coefficients of these questions have no common unit of at most 2^44 steps: round "
            "them, or put them on a lattice with a granularity"
        )
    if all(factor == 1 for factor in times):
        return lattice.steps, unit
    factors = np.array(times, dtype=np.int64)
    if lattice.is_sparse:
        return sparse.csr_array(sparse.diags_array(factors, dtype=np.int64) @ lattice.steps), unit
    return lattice.steps * factors[:, None], unit
