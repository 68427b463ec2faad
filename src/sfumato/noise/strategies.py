"""Strategies: which rows to measure, with the noise and the decoding that fit the questions.

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

ROUGH = 1e-3  # tolerance, and change at which to stop, while rows are still being chosen

_ROUNDS = 40  # of alternation, at most
_SETTLED = 1e-6  # relative change of the error at which alternation stops
_EXACT = 1e-8  # tolerance of the final allocation
_FURTHEST = 2.0  # largest extrapolation, in steps of the alternation
_USELESS = 1e-4  # share of the error below which a row is dropped
_LOST = 1e-10  # share of the questions' squares that counts as rounding
_LEAST_NOISE = 1e-300
_LEAST_WEIGHT = 1e-8  # relative to the largest: the solver is unstable with smaller ones


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
    """Balls: the cells within each distance of each cell. On a line these include the prefixes.

    Args:
        edges: E, as pairs that imply all.
        most: Largest number of rows, roughly; at least one per cell.

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
        if len(levels) > each:  # more small radii than large ones, without the cell alone
            levels = levels[np.unique(np.geomspace(2, len(levels), each).astype(int)) - 1]
        found.append(row <= levels[:, None])
    return distinct(telling(np.concatenate(found).astype(np.float64)))


def telling(rows: Floats) -> Floats:
    """Rows that are not the same for all cells."""
    result: Floats = rows[np.ptp(rows, axis=1) > 0]
    return result


def canonical(rows: Floats) -> Floats:
    """Rows in a form shared by all that are equal up to a constant, a factor and a sign.

    With the number of people known, such rows give the same information.
    """
    moved = rows - rows[:, :1]
    first = moved[np.arange(len(rows)), (moved != 0).argmax(axis=1)]
    result: Floats = moved / first[:, None] + 0.0
    return result


def distinct(rows: Floats) -> Floats:
    """Rows without those that give the same information as an earlier one."""
    _, places = np.unique(canonical(rows), axis=0, return_index=True)
    return rows[np.sort(places)]


def units_of(lattice: Lattice) -> Floats:
    """The unit of each row of a lattice, as doubles."""
    return np.array([float(unit) for unit in lattice.units])


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A strategy with the rates and the reading that fit some questions.

    Attributes:
        lattice: The strategy A, one row per measurement and one column per cell.
        rates: 1/scale of the noise on each row, exact; None where no noise is needed.
        noise: The variance of the noise on each row, for one report.
        error: The sum over all questions of the variance of one report's answer.
        squares: Σ_q B_qk², over all questions q, for each row k.
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
    """The variance of the noise on each row: flipped bits, or discrete Laplace noise on a lattice.

    Discrete Laplace noise at rate u on a lattice of unit h has variance h²/(2·sinh²(u·h/2)); a bit
    flipped with odds e^u and read without bias has half of that (docs/mathematics.md, "Bits").

    Args:
        rates: 1/scale, infinite where there is no noise.
        units: The lattice unit of each row.
        bits: Whether the rows are bits that are flipped.
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
    """Rates and reading for given rows, alternately until neither changes.

    Args:
        rows: The strategy A.
        gram: WᵀW of the questions.
        edges: E, as pairs that imply all.
        bits: Whether the rows are bits that are flipped.
        start: Initial weight of each row; by default the weights if all rows had the same noise.
        method: How rates are allocated; only "exact" alternates.

    Raises:
        StudyError: If the rows cannot express the questions.
    """
    lattice = Lattice.of(rows)
    weights = squares_of(lattice, np.ones(len(lattice)), gram) if start is None else start
    found = turns(lattice, weights, Task(gram, edges, bits, method, _EXACT, _SETTLED))
    if found is None:
        raise SfumatoError(
            "no rates were found for this strategy: its rows differ too much in size"
        )
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """The questions, the metric and the accuracy of an alternation."""

    gram: Floats
    edges: Edges
    bits: bool
    method: str = "exact"
    tolerance: float = ROUGH
    settled: float = ROUGH
    drop: bool = False


def turns(lattice: Lattice, weights: Floats, task: Task) -> Fitted | None:
    """Alternate: rates for weights, a reading for rates, weights for the reading; keep the best.

    For given weights w_k the allocation minimises Σ_k w_k/u_k²; for given noise the reading B is
    weighted least squares, and w_k = Σ_q B_qk² (corrected by `_steepness`) for the next allocation.
    While the error falls, the step in log w is extrapolated, because useless rows lose their weight
    slowly.

    Args:
        lattice: The rows.
        weights: The initial weight of each row.
        task: Questions, metric and accuracy.

    Returns:
        The best rates and reading; None where the solver fails at once.
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
            break  # too many rows were dropped
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
    """Σ_q B_qk² over all questions q, for each row k: how much the noise of the row matters.

    Args:
        rows: The strategy.
        noise: The variance of the noise on each row.
        gram: WᵀW of the questions.

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
    """The slope of the lattice noise's variance in its rate, relative to that of 1/rate².

    The allocation minimises Σ w_k/u_k², but noise on a lattice has variance ∝ 1/sinh²(u/2). With
    weights multiplied by z³·cosh(z)/sinh³(z), z = rate·unit/2, both have the same derivative, so a
    fixed point of the alternation is optimal for the noise on the lattice.
    """
    x = np.minimum(steps, 60.0) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        slope = x**3 * np.cosh(x) / np.sinh(x) ** 3
    result: Floats = np.where(x < 1e-4, 1.0, slope)
    return result
