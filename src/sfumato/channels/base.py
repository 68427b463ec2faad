"""What every channel offers: encode, likelihood, functional, second moment.

A *choice* such as ``Geometric()`` carries options only. Bound to the cells and the metric of an
axis it becomes a *channel*: a fixed table of integers from which both ends derive everything.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import DENSE_CELLS, Cells, Floats, Layout, Outputs
from sfumato.bitcolumns import BitColumns
from sfumato.errors import StudyError, TooLargeError
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import WORD_BITS, BitSource

_ENTRIES_AT_ONCE = 1 << 17  # of coefficients: what stays in nearer memory is faster


@dataclass(frozen=True, slots=True, eq=False)
class SymbolFunctional:
    """A function of one output symbol, as its table of values."""

    values: Floats

    def __call__(self, outputs: Outputs) -> Floats:
        """The value at each person's symbol."""
        if isinstance(outputs, BitColumns):
            raise TypeError("a symbol functional takes symbols")
        return self.values[outputs]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        return np.array(self.values, dtype=dtype)


@dataclass(frozen=True, slots=True, eq=False)
class BitFunctional:
    """An affine function of an output's bits, each read as +1 or -1."""

    constant: float
    coefficients: Floats

    def __call__(self, outputs: Outputs) -> Floats:
        """The value at each person's bits."""
        if not isinstance(outputs, BitColumns):
            raise TypeError("a bit functional takes packed bits")
        total = np.full(len(outputs), self.constant)
        for column in np.flatnonzero(self.coefficients):
            part = BitColumns(outputs.words[column : column + 1], len(outputs)).to_matrix()[:, 0]
            total += np.where(part, 1.0, -1.0) * self.coefficients[column]
        return total

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        """The value at every pattern of bits, in the order of the likelihood's columns."""
        return np.array(
            self.constant + signs(len(self.coefficients)) @ self.coefficients, dtype=dtype
        )


Functional: TypeAlias = SymbolFunctional | BitFunctional


class Channel(ABC):
    """One axis' perturbation: cells 0..size-1 in, symbols or bits out.

    Guarantee:
        For all cells x, x' and every output y, P(y | x) <= e^E(x, x') P(y | x') with E the metric,
        for the integer tables the sampler really uses.
    """

    id: ClassVar[str]
    metric: CellMetric
    precision: int

    #: Some pair is told apart by at least this share of its E; 0 where nothing is claimed.
    tightness: float = 0.0

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.metric.size

    @abstractmethod
    def encode(self, cells: Cells, bits: BitSource) -> Outputs:
        """Perturb cells, one output a person, chunk by chunk."""

    @abstractmethod
    def words(self) -> tuple[list[list[int]], int]:
        """The exact law: word counts, one row a cell and one column an output, and their total."""

    @abstractmethod
    def likelihood(self) -> Floats:
        """P(output | cell) as a matrix, one row a cell, one column an output."""

    @abstractmethod
    def functional(self, weights: ArrayLike) -> Functional:
        """A function f of the output with E[f | x] = weights[x]."""

    @abstractmethod
    def second_moment(self, weights: ArrayLike) -> Floats:
        """E[f² | x] for every cell x, where f is `functional(weights)`."""

    @abstractmethod
    def coefficients(self, weights: Floats) -> Floats:
        """`functional` of many weights at once along the last axis, as plain arrays.

        Symbols: the values of f, one an output. Bits: the constant, then one coefficient a bit.
        """

    @abstractmethod
    def product_coefficients(self, w: Floats, v: Floats) -> Floats:
        """Coefficients of a function of the output whose mean at x is E[f_w · f_v | x]."""

    @property
    def linear(self) -> bool:
        """Whether coefficients of a sum of weights are the sum of theirs."""
        return True

    def gather(self, profile: Floats) -> Floats:
        """The transpose of `coefficients`, along the last axis: w·gather(N) is N·coefficients(w).

        Of a tally's sums by feature it makes the unbiased histogram of cells, all in one go.
        """
        found = np.empty((*profile.shape[:-1], self.size))
        for rows in self.batches(self.size):
            unit = np.eye(rows.stop - rows.start, self.size, rows.start)
            found[..., rows] = profile @ self.coefficients(unit).T
        return found

    def sums(self, profile: Floats, weights: Floats) -> Floats:
        """Σ of `coefficients(weights)` over a profile, one a row of weights, by few transforms.

        Args:
            profile: Sums by feature along the last axis; any axes before it stay where they are.
            weights: One row a question, one column a cell.
        """
        if self.linear and profile.size <= len(weights) * profile.shape[-1]:
            return self.gather(profile) @ weights.T
        found = np.empty((*profile.shape[:-1], len(weights)))
        for rows in self.batches(len(weights)):
            found[..., rows] = profile @ self.coefficients(weights[rows]).T
        return found

    def products(self, profile: Floats, w: Floats, v: Floats) -> Floats:
        """Σ of `product_coefficients(w, v)` over a profile, one a row of w.

        Args:
            profile: Sums by feature along the last axis; any axes before it stay where they are.
            w: One row a question, one column a cell.
            v: The same rows, or a single row for all of them.
        """
        found = np.empty((*profile.shape[:-1], len(w)))
        for rows in self.batches(len(w)):
            part = self.product_coefficients(w[rows], v[rows] if v.ndim > 1 else v)
            found[..., rows] = profile @ part.T
        return found

    def batches(self, count: int) -> Iterator[slice]:
        """Rows to work on at once, so that memory is bounded."""
        at_once = max(1, _ENTRIES_AT_ONCE // max(self.layout.features, self.size))
        for start in range(0, count, at_once):
            yield slice(start, min(start + at_once, count))

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """How an output is written."""

    @abstractmethod
    def report_likelihood(self, outputs: Outputs) -> Floats:
        """P(report | cell) up to a factor a report, one row a report and one column a cell."""

    @abstractmethod
    def expect(self, table: Floats) -> Floats:
        """E[g(output) | x] for every cell x, for a function g of the symbol along the last axis."""

    @abstractmethod
    def mix(self, law: Floats) -> Floats:
        """The law of the output symbol for a law of cells, along the last axis."""

    def flip_spread(self, weights: Floats) -> Floats:
        """Bits only: each bit's standard deviation in f, along the last axis.

        Bits are independent: readings of w and v have the covariance spread(w)·spread(v) whatever
        the cell, and `own_spread(w)·own_spread(v)` at the cell itself in addition.
        """
        raise TypeError("only channels that send bits have flips")

    def own_spread(self, weights: Floats) -> Floats | None:
        """Bits only: what a person's own cell adds to f's standard deviation there, along the axis.

        None where bits vary alike whatever the cell.
        """
        return None

    @property
    def rounds(self) -> bool:
        """Whether values are rounded at random before they are perturbed."""
        return False

    def rounding_excess(self, w: Floats, v: Floats) -> Floats:
        """The most that random rounding can add to w·v beyond the product of the means."""
        return np.zeros(np.broadcast_shapes(w.shape, v.shape))

    def worst_ratio(self) -> Fraction | None:
        """Largest odds between neighbouring cells by structure alone, where the table shows it."""
        return None


class SymbolChannel(Channel):
    """A channel whose output is one of `outputs` symbols."""

    @property
    def outputs(self) -> int:
        """Number of output symbols."""
        return self.size

    def expect(self, table: Floats) -> Floats:
        """Sum over the outputs; a channel with structure does better."""
        return table @ self.likelihood().T

    def mix(self, law: Floats) -> Floats:
        """Sum over the cells; a channel with structure does better."""
        return law @ self.likelihood()

    def report_likelihood(self, outputs: Outputs) -> Floats:
        """Columns of the likelihood matrix, one a report."""
        if isinstance(outputs, BitColumns):
            raise TypeError("this channel puts out symbols")
        return self.likelihood().T[outputs]

    def functional(self, weights: ArrayLike) -> SymbolFunctional:
        """The only function of the output symbol with mean weights[x] at every cell x."""
        return SymbolFunctional(self.coefficients(as_weights(weights, self.size)))

    def product_coefficients(self, w: Floats, v: Floats) -> Floats:
        """The product itself: it is a function of the symbol."""
        read = self.coefficients(w)
        return read * (read if v is w else self.coefficients(v))

    def products(self, profile: Floats, w: Floats, v: Floats) -> Floats:
        """Squares row by row; one row for all is a factor of the profile."""
        if v.ndim == 1:
            return self.sums(profile * self.coefficients(v), w)
        if v is not w:
            return super().products(profile, w, v)
        found = np.empty((*profile.shape[:-1], len(w)))
        for rows in self.batches(len(w)):
            found[..., rows] = profile @ (self.coefficients(w[rows]) ** 2).T
        return found

    def second_moment(self, weights: ArrayLike) -> Floats:
        """E[f² | x] by summation over the outputs, a few questions at a time."""
        w = as_weights(weights, self.size)
        flat = w.reshape(-1, self.size)
        result = np.empty_like(flat)
        for rows in self.batches(len(flat)):
            result[rows] = self.expect(self.coefficients(flat[rows]) ** 2)
        return result.reshape(w.shape)

    @property
    def layout(self) -> Layout:
        """One whole number below `outputs`."""
        return Layout("symbols", self.outputs)

    def joined(self) -> NDArray[np.intp] | None:
        """Where runs of symbols begin that decoding may join at little loss; None: each by itself.

        Joining is for speed alone: a run's likelihood is the sum of its symbols'.
        """
        return None

    def joined_likelihood(self, starts: NDArray[np.intp]) -> Floats:
        """P(run | cell) as a matrix, for runs that begin at `starts`."""
        result: Floats = np.add.reduceat(self.likelihood(), starts, axis=1)
        return result

    def symbol_type(self) -> np.dtype[Any]:
        """The smallest unsigned type that holds an output."""
        return np.min_scalar_type(self.outputs - 1)


class Choice(ABC):
    """A channel by name and options, before it meets an axis."""

    id: ClassVar[str]

    #: Goes up when the same options come to mean other reports. It is part of a study's
    #: fingerprint, so that reports made before are refused and not misread.
    revision: ClassVar[int] = 1

    #: Whether settling it may take minutes: nobody compares such a channel unasked.
    slow: ClassVar[bool] = False

    @abstractmethod
    def misfit(self, metric: CellMetric) -> str | None:
        """Why this channel cannot serve the metric, or None if it can."""

    @abstractmethod
    def bind(self, metric: CellMetric, *, precision: int = 64, rounded: bool = False) -> Channel:
        """The channel for these cells; `rounded` if values arrive by stochastic rounding."""

    def bind_grid(
        self, metric: UniformMetric, shape: tuple[int, ...], ordered: tuple[bool, ...]
    ) -> Channel:
        """The channel for whole records: cells of the grid of all axes, flat in C order.

        Args:
            metric: One ε for any two cells of the grid.
            shape: Cells along every axis.
            ordered: Which axes have neighbours; channels that know no neighbours do not ask.
        """
        return self.bind(metric)

    def settled(
        self, metric: CellMetric, *, progress: Callable[[float], None] | None = None
    ) -> Choice:
        """The choice as a study holds it, with all that another machine might find differently.

        Nearly all channels follow from their options alone, and are settled as they are. Those that
        search for long tell `progress` the share done.
        """
        return self

    def options(self) -> dict[str, Any]:
        """Options that differ from none, for files."""
        return {}

    @classmethod
    def trials(cls) -> tuple[Trial, ...]:
        """What the contract tests try this channel with: every variant, on a few cells each."""
        raise NotImplementedError(f"{cls.__name__} declares no trials")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A choice with the cells it is to be tried on, few enough to list its whole law.

    Attributes:
        choice: The channel with its options.
        metric: E between the cells.
        shape: Cells along every axis, where the channel perturbs records of several axes.
        ordered: Which of these axes have neighbours.
        rounded: Whether values arrive by stochastic rounding.
        spends: The share of its E by which some pair must be told apart: less would be wasteful.
    """

    choice: Choice
    metric: CellMetric
    shape: tuple[int, ...] | None = None
    ordered: tuple[bool, ...] | None = None
    rounded: bool = False
    spends: float = 0.99

    def bind(self, *, precision: int = 64) -> Channel:
        """The channel proper; a grid is always bound with words of 64 bits."""
        if self.shape is None or self.ordered is None:
            return self.choice.bind(self.metric, precision=precision, rounded=self.rounded)
        if not isinstance(self.metric, UniformMetric):
            raise TypeError("a trial on a grid needs one ε for all pairs of its cells")
        return self.choice.bind_grid(self.metric, self.shape, self.ordered)


def uniform_trials(
    choice: Choice, sizes: Sequence[int], *shapes: tuple[int, ...], epsilon: str = "1"
) -> tuple[Trial, ...]:
    """Trials under one ε for all pairs: single axes, then grids of ordered and other axes.

    Args:
        choice: The channel with its options.
        sizes: Cells of each single axis.
        *shapes: Cells along every axis of each grid; the last axis has no neighbours.
        epsilon: E between any two cells.
    """
    eps = Fraction(epsilon)
    single = [Trial(choice=choice, metric=UniformMetric(eps, size)) for size in sizes]
    grids = [
        Trial(
            choice=choice,
            metric=UniformMetric(eps, math.prod(shape)),
            shape=shape,
            ordered=(*[True] * (len(shape) - 1), False),
        )
        for shape in shapes
    ]
    return (*single, *grids)


def as_weights(weights: ArrayLike, size: int) -> Floats:
    """Weights as floats, one a cell."""
    array = np.asarray(weights, dtype=np.float64)
    if array.shape[-1:] != (size,):
        raise ValueError(f"weights must have one entry for each of {size} cells, got {array.shape}")
    return array


def with_known_total(sums: Floats, total: Floats) -> Floats:
    """What cells get of a reading that leaves the mean of the weights to the number of people.

    The transpose of f = c + g(w − c): cells together count everybody, whatever g reads of them.
    """
    left = total - sums.sum(axis=-1)
    result: Floats = sums + left[..., None] / sums.shape[-1]
    return result


def claimed_tightness(odds: Fraction, precision: int) -> float:
    """The share of E that some pair surely spends: all but 2^-30 where 64-bit words allow it.

    Rounding a chance to words costs about odds/2^64 of the odds, to be compared with E itself.
    """
    if precision < WORD_BITS or odds > 1 << 30 or odds - 1 < Fraction(1, 1 << 28):
        return 0.0
    return 1 - 2.0**-30


def needs_uniform(metric: CellMetric) -> str | None:
    """Why a channel that treats all pairs alike cannot serve a metric, or None if it can."""
    return None if isinstance(metric, UniformMetric) else "it needs protect=Uniform(...)"


def needs_grid(metric: CellMetric, shape: Sequence[int], ordered: Sequence[bool]) -> None:
    """Refuse a shape and an order that do not speak of the metric's cells."""
    if math.prod(shape) != metric.size or len(shape) != len(ordered) or min(shape) < 1:
        raise ValueError(f"a grid of shape {tuple(shape)} does not have {metric.size} cells")


def uniform_fitted(choice: Choice, metric: CellMetric, rounded: bool) -> UniformMetric:
    """The metric, if it treats all pairs alike and the choice can serve it; refused otherwise."""
    problem = choice.misfit(metric) or needs_uniform(metric)
    if problem or rounded or not isinstance(metric, UniformMetric):
        name = type(choice).__name__
        raise StudyError(f"{name} does not fit this axis: {problem or 'it cannot round'}")
    return metric


def refuse_dense(size: int, what: str) -> None:
    """Refuse to build a cells-by-outputs matrix beyond the stated size."""
    if size > DENSE_CELLS:
        raise TooLargeError(
            f"{what} of {size} cells would need {size}² entries; the limit is {DENSE_CELLS} cells. "
            "Use functional() and second_moment(), which need no matrix"
        )


def signs(width: int) -> Floats:
    """All 2^width patterns of `width` bits as rows of +1 and -1, bit 0 changing fastest."""
    patterns = np.arange(1 << width)[:, None] >> np.arange(width)
    return np.where(patterns & 1, 1.0, -1.0)
