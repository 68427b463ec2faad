"""Queries as they are given: the lattice that stands for them, and how far they are off it.

The solver takes whole steps below 2^52. Queries that need more are rounded, so that different
coefficients stay different. A float is rounded too: it may be read as the decimal that prints it or
as the binary number that it is. Both errors are known exactly, and `slack` is what they can add to
the share of a distance that any pair of cells spends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.errors import QuestionError
from sfumato.exact import rational
from sfumato.metrics.edges import Edges
from sfumato.questions.lattice import MOST_STEPS, Integers, Lattice, matrix_of
from sfumato.questions.workload import is_sparse

_FINEST = 1 << 50  # steps of a row that is rounded


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """Queries on a lattice, up to a constant on each, and how far off it they are.

    Attributes:
        lattice: What stands for the queries.
        off: For each query the largest difference of a coefficient from the lattice, exactly.
    """

    lattice: Lattice
    off: tuple[Fraction, ...]

    @classmethod
    def of(cls, queries: Any) -> Given:
        """Read queries; a `Lattice` stands for itself.

        Args:
            queries: A `Lattice`, a `Workload`, or a matrix with one row per query.

        Raises:
            QuestionError: If they are not a matrix of finite numbers.
        """
        if isinstance(queries, Lattice):
            return cls(queries, (Fraction(0),) * len(queries))
        matrix = matrix_of(queries)
        held = is_sparse(matrix)
        parts = [_part(matrix, k) for k in range(matrix.shape[0])]
        if all(map(_is_whole, parts)):
            return cls.of(Lattice.of(matrix))
        steps, units, off = zip(*(_row(part, k, held) for k, part in enumerate(parts)), strict=True)
        whole: Any = np.array(steps) if not held else matrix.astype(np.int64)
        if held:
            whole.data[:] = np.concatenate([row[:-1] for row in steps])
        return cls(Lattice(whole, units, np.zeros(len(units))), off)


def slack(rates: Sequence[Fraction | None], off: Sequence[Fraction], edges: Edges) -> Fraction:
    """How many times as much as on the lattice any pair can spend, at most.

    Each query differs by up to twice `off` more than on the lattice, whatever the pair, and no pair
    has less than the shortest distance to spend.

    Args:
        rates: 1/scale of the noise on each query; None where there is none.
        off: How far each query is off the lattice.
        edges: The pairs of cells that imply all others.
    """
    more = 2 * sum((u * e for u, e in zip(rates, off, strict=True) if u and e), Fraction(0))
    least = edges.shortest
    return 1 + more / least if more and least else Fraction(1)


def _part(matrix: Any, number: int) -> Any:
    """The coefficients of a row; of a sparse one those that are stored, and a 0 for all others."""
    if not is_sparse(matrix):
        return matrix[number]
    return np.append(matrix.data[matrix.indptr[number] : matrix.indptr[number + 1]], 0)


def _is_whole(row: Any) -> bool:
    """Whether a row holds whole numbers that lie on a lattice as they are."""
    if row.dtype == object:
        return False
    return bool((np.abs(row) <= MOST_STEPS).all() and (row == np.rint(row)).all())


def _row(row: Any, number: int, held: bool) -> tuple[Integers, Fraction, Fraction]:
    """Steps and unit of a row, and how far it is off them; where 0 is `held`, it has 0 steps."""
    if row.dtype.kind == "f" and not np.isfinite(row).all():
        raise QuestionError(f"queries must hold finite numbers; row {number} does not")
    kinds = list(dict.fromkeys(row.tolist()))
    exact = [rational(kind, f"row {number}") for kind in kinds]
    below = math.lcm(*(value.denominator for value in exact))
    whole = [value.numerator * (below // value.denominator) for value in exact]
    low, high = min(whole), max(whole)
    base, unit, parts = 0, math.gcd(*whole) or below, 1  # a step is unit/parts, over `below`
    if max(high, -low) > MOST_STEPS * unit:
        base = 0 if held else low
        unit = math.gcd(*(value - base for value in whole)) or below
        if high - low > _FINEST * unit:
            unit, parts = high - low, _FINEST
    places = {value: (2 * (value - base) * parts + unit) // (2 * unit) for value in whole}
    _spread(places, base)
    apart = max(abs((value - base) * parts - place * unit) for value, place in places.items())
    off = Fraction(apart, parts * below) + _misread(kinds, whole, below)
    found = {kind: places[value] for kind, value in zip(kinds, whole, strict=True)}
    steps = np.array([found[kind] for kind in row.tolist()], dtype=np.int64)
    return steps, Fraction(unit, parts * below), off


def _spread(places: dict[int, int], base: int) -> None:
    """Keep different numbers different: move those that share a step on, away from the base."""
    for side in (1, -1):
        last = 0
        for value in sorted((v for v in places if side * v > side * base), key=lambda v: side * v):
            places[value] = side * max(side * places[value], last + 1)
            last = side * places[value]


def _misread(kinds: list[Any], whole: list[int], below: int) -> Fraction:
    """The largest difference between a float and the decimal that prints it, over `below`."""
    read = [
        (kind.as_integer_ratio(), value)
        for kind, value in zip(kinds, whole, strict=True)
        if isinstance(kind, float)
    ]
    finest = max((binary[1] for binary, _ in read), default=1)  # a power of 2, as all of them are
    worst = max(
        (abs(n * (finest // power) * below - value * finest) for (n, power), value in read),
        default=0,
    )
    return Fraction(worst, finest * below)
