"""Strategies: which rows to measure, and the noise and the reading that fit some questions.

A strategy A is a set of linear rows. They are measured with noise, and the questions W = B·A are
read from them. Fixed strategies have names. For given rows, `fit` alternates between the noise that
is best for a reading B and the reading that is best for the noise, as in the matrix mechanism of
Xiang et al. 2020, §3 (docs/mathematics.md, "Matrix mechanism").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from sfumato.arrays import Floats
from sfumato.errors import SfumatoError, StudyError, near
from sfumato.metrics.edges import Edges
from sfumato.noise.allocate import allocate
from sfumato.questions.language import AxisLike
from sfumato.questions.lattice import Lattice
from sfumato.questions.lines import Identity, Prefixes
from sfumato.questions.products import Kronecker
from sfumato.questions.reconstruction import Reader
from sfumato.questions.trees import Haar, Hierarchy
from sfumato.questions.workload import Given, Workload, as_dense

FIXED = ("identity", "prefix", "hierarchical", "haar")

ROUGH = 1e-3  # tolerance, and change at which turns end, while rows are still being chosen

_ROUNDS = 40  # of alternation, at most
_SETTLED = 1e-6  # relative change at which turns end
_EXACT = 1e-8  # tolerance of the allocation that is used
_FURTHEST = 2.0  # steps further than a turn goes by itself
_USELESS = 1e-4  # share of the error below which a row says too little to be kept
_LOST = 1e-10  # share of the questions' squares that may be rounding
_LEAST_NOISE = 1e-300
_LEAST_WEIGHT = 1e-8  # relative: with less the solver has trouble


def strategy(name: str, values: int, *, size: int | None = None, branching: int = 2) -> Workload:
    """A fixed strategy over the cells of one axis.

    Args:
        name: One of "identity", "prefix", "hierarchical" and "haar".
        values: Number of cells that hold values.
        size: Number of all cells, "no answer" included; `values` by default. A cell beyond the
            values gets a row of its own.
        branching: Children per node, for "hierarchical".

    Raises:
        StudyError: If there is no strategy of that name.
    """
    size = values if size is None else size
    kinds: dict[str, Callable[[], Workload]] = {
        "identity": lambda: Identity(size),
        "prefix": lambda: Prefixes(values, size=size),
        "hierarchical": lambda: Hierarchy(values, branching, size=size),
        "haar": lambda: Haar(values, size=size),
    }
    if name not in kinds:
        raise StudyError(
            f"strategy must be known or a matrix, got strategy={name!r}: {near(name, kinds)}"
        )
    made = kinds[name]()
    if size == values or name == "identity":
        return made
    aside = sparse.csr_array(([1.0], ([0], [size - 1])), shape=(1, size))
    return Given(sparse.vstack([made.sparse(), aside], format="csr"))


def rows_of(name: str, size: int, branching: int = 2) -> Floats:
    """The rows of a fixed strategy as a matrix, without those that are the same for all cells.

    Args:
        name: The strategy's name.
        size: Number of cells.
        branching: Children per node, for "hierarchical".

    Example:
        >>> rows_of("prefix", 3).tolist()
        [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    return telling(strategy(name, size, branching=branching).dense())


def over_axes(name: str, axes: Sequence[AxisLike]) -> Workload:
    """Every combination of the rows of a fixed strategy on each axis.

    Args:
        name: The strategy's name; an axis without an order is measured cell by cell.
        axes: The axes, in order.
    """
    factors = [
        strategy(name, axis.domain.size, size=axis.size)
        if axis.domain.ordered and axis.domain.size > 1
        else Identity(axis.size)
        for axis in axes
    ]
    return factors[0] if len(factors) == 1 else Kronecker(factors)


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


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """Rows with the rates and the reading that suit some questions.

    Attributes:
        lattice: The strategy A, one row a measurement and one column a cell.
        rates: 1/scale of every row's noise, exact; None where it needs none.
        noise: The variance of each row's noise, for one report.
        error: Σ over all questions of the variance of one report's answer.
        squares: Σ over all questions of B², for every row.
    """

    lattice: Lattice
    rates: tuple[Fraction | None, ...]
    noise: Floats
    error: float
    squares: Floats

    @property
    def rows(self) -> Floats:
        """The strategy as a matrix of doubles."""
        return as_dense(self.lattice.matrix())

    @property
    def speed(self) -> Floats:
        """Rates as doubles, infinite where there is no noise."""
        return np.array([math.inf if rate is None else float(rate) for rate in self.rates])


def variances(rates: Floats, units: Floats, *, bits: bool) -> Floats:
    """The variance of every row's noise: flips of bits, or discrete Laplace noise on a lattice.

    Args:
        rates: 1/scale, infinite where there is no noise.
        units: The lattice's unit of every row.
        bits: Whether rows are bits that are flipped, which has half the variance.
    """
    with np.errstate(over="ignore"):
        found: Floats = units**2 / (4 * np.sinh(rates * units / 2) ** 2)
    return np.maximum(found * (1 if bits else 2), np.where(np.isinf(rates), 0.0, _LEAST_NOISE))


def fit(
    rows: Lattice | ArrayLike,
    gram: Floats,
    edges: Edges,
    *,
    bits: bool = False,
    start: Floats | None = None,
    method: str = "exact",
) -> Fitted:
    """Rates and reading for given rows, by turns until neither changes.

    Args:
        rows: The strategy A.
        gram: WᵀW of the questions.
        edges: E, as the pairs that imply all.
        bits: Whether rows are bits, flipped.
        start: Importance of every row to begin with; left out, as if all had the same noise.
        method: How rates are allocated; only "exact" takes turns.

    Raises:
        StudyError: If the rows do not tell all cells apart.
    """
    lattice = Lattice.of(rows)
    weights = squares_of(lattice, np.ones(len(lattice)), gram) if start is None else start
    found = turns(lattice, weights, Task(gram, edges, bits, method, _EXACT, _SETTLED))
    if found is None:
        raise SfumatoError("no rates were found for this strategy: its rows are too unlike")
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What all turns have in common, and how exactly they are taken."""

    gram: Floats
    edges: Edges
    bits: bool
    method: str = "exact"
    tolerance: float = ROUGH
    settled: float = ROUGH
    drop: bool = False


def turns(lattice: Lattice, weights: Floats, task: Task) -> Fitted | None:
    """Rates for weights, a reading for rates, weights for the reading, and so on; the best of all.

    Where the error falls the next weights go further in the same direction, since rows that are of
    no use lose their weight slowly.
    """
    best: Fitted | None = None
    further = 0.0
    for _ in range(_ROUNDS if task.method == "exact" else 1):
        given = np.maximum(weights, _LEAST_WEIGHT * weights.max())
        try:
            found = _round(lattice, given, task)
        except StudyError:
            if best is None:
                raise
            break  # too many rows fell out
        if found is None:
            break
        fell = best is None or found.error < best.error * (1 - task.settled)
        if best is None or found.error < best.error:
            best = found
        if not fell and not further:
            break
        further = min(_FURTHEST, 1.5 * further + 0.25) if fell else 0.0
        steps = found.speed * units_of(lattice)
        now = found.squares * _steepness(steps)
        now = np.maximum(now, _LEAST_WEIGHT * now.max())
        change = np.log(now / given)
        weights = now * np.exp(further * (change - change.mean()))
        if task.drop:
            useful = (found.squares * found.noise > _USELESS * found.error) | np.isinf(found.speed)
            lattice, weights = lattice.select(np.flatnonzero(useful)), weights[useful]
    return best


def _round(lattice: Lattice, weights: Floats, task: Task) -> Fitted | None:
    """Rates for given weights, and the reading for those; None where the solver fails."""
    try:
        rates = allocate(
            lattice, task.edges, weights=weights, method=task.method, tolerance=task.tolerance
        ).rates
    except SfumatoError as error:
        if isinstance(error, StudyError):
            raise
        return None
    speed = np.array([math.inf if rate is None else float(rate) for rate in rates])
    noise = variances(speed, units_of(lattice), bits=task.bits)
    squares = squares_of(lattice, noise, task.gram)
    return Fitted(lattice, rates, noise, float(squares @ noise), squares)


def squares_of(rows: Lattice | Floats, noise: Floats, gram: Floats) -> Floats:
    """Σ over all questions of B², for every row: how much the noise of each matters.

    Raises:
        StudyError: If the rows cannot express the questions.
    """
    reader = Reader.of(rows, noise, known_total=True)
    inner = reader.basis.T @ gram @ reader.basis
    if np.trace(inner) < (1 - _LOST) * np.trace(gram):
        raise StudyError("the strategy cannot express some of the questions; add rows to it")
    read = reader.reading[:, :-1]
    result: Floats = np.einsum("rk,rk->k", read, inner @ read)
    return np.maximum(result, 0.0)


def _steepness(steps: Floats) -> Floats:
    """How much faster the noise falls with its rate than 1/rate² does, relative to that.

    The allocation lowers Σ w_k/u_k², while noise on a lattice has the variance 1/4sinh²(u/2) up to
    a factor: with the weight times x³·cosh(x/2)/(8·sinh³(x/2)), x = rate·unit, both have the same
    slope, so that what settles is best for the noise there is.
    """
    x = np.minimum(steps, 60.0) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        slope = x**3 * np.cosh(x) / np.sinh(x) ** 3
    result: Floats = np.where(x < 1e-4, 1.0, slope)
    return result
