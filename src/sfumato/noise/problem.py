"""The allocation problem: queries on a lattice, and the pairs of cells that constrain them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import cdist

from sfumato.arrays import Floats
from sfumato.errors import StudyError, TooLargeError
from sfumato.metrics.closure import Indices
from sfumato.metrics.edges import Cliques, Edges, as_floats
from sfumato.questions.workload import is_sparse

_DENSE = 0.2  # share of entries above which a sparse matrix is kept in full
_ENTRIES = 1 << 22  # of a table worked on at once
_MOST_ENTRIES = 1 << 28
_FARTHEST = 1 << 52  # steps of which differences are exact as doubles


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Minimise Σ w_k/u_k² subject to Σ_k u_k·|Q_ki − Q_kj| ≤ d_ij for every pair.

    Args:
        steps: Whole numbers below 2^52, stored as doubles, dense or as a `csr_array`, of shape
            (cells, queries): Q_ki is steps[i, k] times unit k.
        units: The lattice step of each query.
        edges: Pairs of cells whose constraints imply all others.
        names: Names of the queries, for error messages.
        cells: Names of the cells, for error messages.
    """

    steps: Any
    units: tuple[Fraction, ...]
    edges: Edges
    names: Sequence[str] | None = None
    cells: Sequence[str] | None = None

    @property
    def queries(self) -> int:
        """Number of queries."""
        return len(self.units)

    @property
    def width(self) -> int:
        """The number of queries that differ on a pair: at most, or on average if sparse."""
        if not is_sparse(self.steps):
            return self.queries
        return 1 + 2 * int(self.steps.nnz) // int(self.steps.shape[0])

    def only(self, chosen: Indices) -> Problem:
        """The same problem with some of the queries."""
        if len(chosen) == self.queries:
            return self
        names = None if self.names is None else [self.names[k] for k in chosen]
        units = tuple(self.units[k] for k in chosen)
        return Problem(self.steps[:, chosen], units, self.edges, names, self.cells)

    def query(self, k: int) -> str:
        """The name of a query, for error messages."""
        return f"query {k}" if self.names is None else f"query {self.names[k]!r}"

    def cell(self, i: int) -> str:
        """The name of a cell, for error messages."""
        return f"cell {i}" if self.cells is None else repr(self.cells[i])

    def differences(self, first: Indices, second: Indices) -> Any:
        """|steps of one cell − steps of the other|, exact, of shape (pairs, queries).

        Args:
            first: The first cell of each pair.
            second: The second cell of each pair.
        """
        return abs(self.steps[first] - self.steps[second])

    def listed(self) -> Iterator[tuple[Indices, Indices, NDArray[Any], Any]]:
        """The listed pairs with their lengths and differences, in blocks of limited size."""
        for first, second, lengths in self.edges.chunks(max(64, _ENTRIES // self.width)):
            yield first, second, lengths, self.differences(first, second)

    def spread(self, cells: Indices) -> Floats:
        """The largest difference of each query between any two of some cells."""
        some = self.steps[cells]
        return as_row(some.max(axis=0)) - as_row(some.min(axis=0))


def as_row(values: Any) -> Floats:
    """A dense row from one that may be sparse."""
    full = values.toarray() if is_sparse(values) else values
    found: Floats = np.asarray(full, dtype=np.float64).reshape(-1)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Weighted:
    """Steps times rates, for Σ_k v_k·|steps_ki − steps_kj| between any two cells.

    Where every step is 0 or 1, |a − b| = a + b − 2ab, so the sums are one matrix product.

    Args:
        values: Steps times rates, of shape (cells, queries); centred if `plain` is None.
        plain: The steps, if all are 0 or 1.
        sums: For each row, the sum of the absolute values.
    """

    values: Any
    plain: Any | None
    sums: Floats

    @classmethod
    def of(cls, problem: Problem, rates: Floats) -> Weighted:
        """Multiply the steps of a problem by rates.

        Args:
            problem: The problem.
            rates: The rate per step of each query.
        """
        steps = problem.steps
        if steps.min() >= 0 and steps.max() <= 1:
            if is_sparse(steps):
                values = sparse.csr_array(steps @ sparse.diags_array(rates))
            else:
                values = steps * rates
            return cls(values, steps, steps @ rates)
        if is_sparse(steps):
            if math.prod(steps.shape) > _MOST_ENTRIES:
                raise TooLargeError(
                    f"{steps.shape[1]:,} queries on {steps.shape[0]:,} cells that are all near "
                    f"each other are beyond this path: use fewer, or coefficients of 0 and 1"
                )
            steps = steps.toarray()
        middle = np.floor((steps.max(axis=0) + steps.min(axis=0)) / 2)
        centred = steps - middle
        return cls(centred * rates, None, np.abs(centred) @ rates)

    def tiles(self, clique: Cliques) -> Iterator[tuple[Indices, Indices, Floats]]:
        """The sums between the cells of a clique, block by block; each pair at least once."""
        for cells in clique.members():
            values = self.values[cells]
            plain = None if self.plain is None else self.plain[cells]
            sums = self.sums[cells]
            rows = max(1, _ENTRIES // len(cells))
            for start in range(0, len(cells), rows):
                part = slice(start, start + rows)
                if plain is None:
                    apart = cdist(values[part], values[start:], "cityblock")
                else:
                    both = values[part] @ plain[start:].T
                    shared = both.toarray() if is_sparse(both) else both
                    apart = sums[part, None] + sums[start:] - 2 * shared
                yield cells[part], cells[start:], np.asarray(apart)


def read_problem(
    lattice: Any, edges: Edges, names: Sequence[str] | None, cells: Sequence[str] | None
) -> Problem:
    """The problem of a lattice of queries with the distances between its cells.

    Args:
        lattice: The queries.
        edges: The distances.
        names: Names of the queries, for error messages.
        cells: Names of the cells, for error messages.

    Raises:
        StudyError: If they are about different numbers of cells.
        TooLargeError: If a query has more than 2^52 steps.
    """
    steps = lattice.steps
    if steps.shape[1] != edges.size:
        raise StudyError(
            f"queries and distances must be about the same cells, got {steps.shape[1]} and "
            f"{edges.size} of them"
        )
    if max(abs(int(steps.max())), abs(int(steps.min()))) > _FARTHEST:
        raise TooLargeError("queries have more than 2^52 steps: give a coarser granularity")
    turned: Any = steps.T.astype(np.float64)
    if is_sparse(turned):
        turned = sparse.csr_array(turned)
        turned.eliminate_zeros()
        if turned.nnz > _DENSE * math.prod(turned.shape):
            turned = turned.toarray()
    else:
        turned = np.ascontiguousarray(turned)
        if turned.size > _ENTRIES >> 6 and np.count_nonzero(turned) < _DENSE / 4 * turned.size:
            turned = sparse.csr_array(turned)
    return Problem(turned, tuple(lattice.units), edges.zeros_listed(), names, cells)


def caps(problem: Problem) -> tuple[Floats, Indices, Indices]:
    """The largest rate per step that each query could have alone, and the pair that limits it.

    For one query it is the minimum over pairs of d_ij/|Q_i − Q_j| (Kamalaruban et al. 2020, §4.1).
    It is infinite where the query does not distinguish any two cells at a finite distance.

    Raises:
        StudyError: If a query distinguishes two cells at distance 0.
    """
    most = np.zeros(problem.queries)  # the largest difference over distance
    first = np.zeros(problem.queries, dtype=np.intp)
    second = first.copy()

    def raise_to(top: Floats, i: Indices, j: Indices) -> None:
        """Update the maxima."""
        better = top > most
        most[better], first[better], second[better] = top[better], i[better], j[better]

    for i, j, lengths, apart in problem.listed():
        zero = np.flatnonzero(lengths == 0)
        if len(zero):
            _refuse_zeros(problem, i[zero], j[zero], apart[zero])
        # Cells at distance 0 do not differ on any query, so any positive length will do.
        d = np.where(lengths == 0, 1.0, as_floats(lengths, problem.edges.unit))
        if is_sparse(apart):
            ratio = sparse.csc_array(sparse.diags_array(1 / d) @ apart)
            where = np.asarray(ratio.argmax(axis=0)).reshape(-1)
            raise_to(as_row(ratio.max(axis=0)), i[where], j[where])
        else:
            ratio = apart / d[:, None]
            where = ratio.argmax(axis=0)
            raise_to(ratio[where, np.arange(problem.queries)], i[where], j[where])
    for clique in problem.edges.cliques:
        for members in clique.members():
            some = problem.steps[members]
            if is_sparse(some):
                some = sparse.csc_array(some)
            high, low = (
                as_row(find(axis=0)).astype(np.intp) for find in (some.argmax, some.argmin)
            )
            top = (as_row(some.max(axis=0)) - as_row(some.min(axis=0))) / float(clique.length)
            raise_to(top, members[high], members[low])
    with np.errstate(divide="ignore"):
        return 1 / most, first, second


def _refuse_zeros(problem: Problem, first: Indices, second: Indices, apart: Any) -> None:
    """Refuse a query that distinguishes cells at distance 0."""
    rows, columns = apart.nonzero()
    if len(rows):
        i, j, k = int(first[rows[0]]), int(second[rows[0]]), int(columns[0])
        raise StudyError(
            f"{problem.cell(i)} and {problem.cell(j)} are at distance 0, so no answer may tell "
            f"them apart, but {problem.query(k)} does: give both the same coefficient, or a "
            f"distance above 0"
        )
