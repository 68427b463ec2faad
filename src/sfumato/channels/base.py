"""What every channel offers: encode, likelihood, functional, second moment, and its own check.

A *choice* such as ``Geometric()`` carries options only. Bound to the cells and the metric of an
axis it becomes a *channel*: a fixed table of integers from which both ends derive everything.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import DENSE_CELLS, BitColumns, Cells, Floats, Layout, Outputs
from sfumato.channels.code import Code, Value, runs
from sfumato.channels.geometric_noise import NoiseLine
from sfumato.channels.odds import Bound, Findings, compare_all, compare_grid_points, row_problems
from sfumato.channels.rounding import rounding_excess
from sfumato.errors import StudyError, TooLargeError
from sfumato.metrics.cells import MOST_TABLE_CELLS, CellMetric
from sfumato.metrics.distance import CappedLineMetric, LineMetric
from sfumato.metrics.stricter import is_within
from sfumato.metrics.uniform import UniformMetric
from sfumato.randomness.bits import WORD_BITS, BitSource
from sfumato.randomness.draws import Steps

FEW_RATIOS = 1 << 21  # cells² × outputs up to which channels with a structure go pair by pair

MOST_ENTRIES = 1 << 27  # of a matrix of cells by outputs

_NEXT_TO_NOTHING = 1e-4  # of the variance of those who are counted
_ROUNDING = 1e-9  # of the range of a reading: values that are as close as this are the same

_ENTRIES_AT_ONCE = 1 << 17  # of coefficients: what stays in nearer memory is faster
_MOMENTS_AT_ONCE = 1 << 18  # small enough to stay in the processor's cache


@dataclass(frozen=True, slots=True, eq=False)
class Functional:
    """A function f of a channel's output, by its coefficients.

    Attributes:
        layout: How an output is written.
        coefficients: For symbols, the value of f at each. For bits, the constant and then one
            coefficient per bit, each bit read as +1 or −1.
    """

    layout: Layout
    coefficients: Floats

    def __call__(self, outputs: Outputs) -> Floats:
        """The value of f at each person's output."""
        if isinstance(outputs, BitColumns) != (self.layout.kind == "bits"):
            raise TypeError(f"this function takes {self.layout.kind}")
        if not isinstance(outputs, BitColumns):
            return self.coefficients[outputs]
        total = np.full(len(outputs), self.coefficients[0])
        for column in np.flatnonzero(self.coefficients[1:]):
            part = BitColumns(outputs.words[column : column + 1], len(outputs)).to_matrix()[:, 0]
            total += np.where(part, 1.0, -1.0) * self.coefficients[column + 1]
        return total

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        """The value of f at every output, in the order of the likelihood's columns."""
        if self.layout.kind == "symbols":
            return np.array(self.coefficients, dtype=dtype)
        constant, slopes = self.coefficients[0], self.coefficients[1:]
        return np.array(constant + signs(len(slopes)) @ slopes, dtype=dtype)


class Channel(ABC):
    """The perturbation of one block: cells 0..size−1 in, one symbol or one row of bits out.

    Guarantee:
        For all cells x, x' and every output y, P(y | x) <= e^E(x, x') P(y | x') with E the metric,
        for the integer tables that the sampler really uses.

    A new channel derives from `SymbolChannel` or `BitChannel` and writes four things:

    - `encode`: draw an output for each person's cell, from a source of random bits;
    - `words`: the exact law of `encode`, as whole numbers of random words;
    - `coefficients`: the unbiased reading, for any weights on the cells;
    - `outputs`, if it has other symbols than cells; `width`, if it sends bits.

    A channel of bits also writes `product_coefficients`, `second_moment` and `report_likelihood`,
    since its outputs are too many to be listed.

    All else follows, and `functional`, `sums` and `check` are never overridden. Where structure
    makes it faster, a family overrides `likelihood`, `expect`, `mix`, `second_moment`, `gather`,
    `products`, `all_squares` with `all_peaks`, `envelope` or `report_likelihood`. One whose
    `encode` does more than to compare one word per person with bounds lists its draws in `steps`.
    To be checked beyond `most_ratios`, or more strictly than by what it shows, it writes
    `worst_ratio`, `sampler_problems`, `law_problems` or `check_structure`.

    Attributes:
        metric: E between cells.
        precision: How many bits of a random word take part.
        resolution: Bits of a value's place between two cells, where values are rounded to cells at
            random before they are perturbed; 0 where they are not.
        tightness: Some pair is told apart by at least this share of its E; 0: nothing is claimed.
        most_ratios: Up to how many odds (cells² × outputs) `check` compares them one by one.
    """

    id: ClassVar[str]
    most_ratios: ClassVar[int] = 1 << 24
    metric: CellMetric
    precision: int
    resolution: int = 0
    tightness: float = 0.0

    # What a family must write.

    @abstractmethod
    def encode(self, cells: Cells, bits: BitSource) -> Outputs:
        """Perturb cells: one output per person.

        Args:
            cells: One cell per person; with `resolution`, times 2^resolution and more in between.
            bits: Where randomness comes from.
        """

    @abstractmethod
    def words(self) -> tuple[list[list[int]], int]:
        """The exact law: word counts, one row per cell and one column per output, and their total.

        Patterns of bits are read with bit 0 lowest.
        """

    @abstractmethod
    def coefficients(self, weights: Floats) -> Floats:
        """Coefficients of a function f of the output with E[f | x] = weights[x].

        Args:
            weights: One weight per cell along the last axis; any axes before it stay.

        Returns:
            For symbols, the value of f at each. For bits, the constant and one coefficient per bit.
        """

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """How an output is written."""

    @abstractmethod
    def product_coefficients(self, w: Floats, v: Floats) -> Floats:
        """Coefficients of a function of the output whose mean at x is E[f_w · f_v | x].

        Args:
            w: Weights, one per cell along the last axis.
            v: Other weights, of the same shape.
        """

    @abstractmethod
    def second_moment(self, weights: ArrayLike) -> Floats:
        """E[f² | x] for every cell x, where f is `functional(weights)`."""

    @abstractmethod
    def report_likelihood(self, outputs: Outputs) -> Floats:
        """P(report | cell) up to a factor per report: one row per report, one column per cell."""

    # What follows.

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.metric.size

    @property
    def rounds(self) -> bool:
        """Whether values are rounded at random before they are perturbed."""
        return self.resolution > 0

    @property
    def linear(self) -> bool:
        """Whether the coefficients of a sum of weights are the sum of theirs."""
        return True

    def functional(self, weights: ArrayLike) -> Functional:
        """A function f of the output with E[f | x] = weights[x]."""
        return Functional(self.layout, self.coefficients(as_weights(weights, self.size)))

    def likelihood(self) -> Floats:
        """P(output | cell) as a matrix: one row per cell, one column per output."""
        rows, total = self.words()
        return np.array([[word / total for word in row] for row in rows])

    def expect(self, table: Floats) -> Floats:
        """E[g(output) | x] for every cell x, for a function g of the output along the last axis."""
        return table @ self.likelihood().T

    def mix(self, law: Floats) -> Floats:
        """The law of the output for a law of cells, along the last axis."""
        return law @ self.likelihood()

    def gather(self, profile: Floats) -> Floats:
        """The transpose of `coefficients`, along the last axis: w·gather(N) is N·coefficients(w).

        From the sums of a tally by feature it makes the unbiased histogram of cells in one go.
        """
        found = np.empty((*profile.shape[:-1], self.size))
        for rows in self.batches(self.size):
            unit = np.eye(rows.stop - rows.start, self.size, rows.start)
            found[..., rows] = profile @ self.coefficients(unit).T
        return found

    def sums(self, profile: Floats, weights: Floats) -> Floats:
        """Σ of `coefficients(weights)` over a profile, one per row of weights, by few transforms.

        Args:
            profile: Sums by feature along the last axis; any axes before it stay where they are.
            weights: One row per question, one column per cell.
        """
        if self.linear and profile.size <= len(weights) * profile.shape[-1]:
            return self.gather(profile) @ weights.T
        found = np.empty((*profile.shape[:-1], len(weights)))
        for rows in self.batches(len(weights)):
            found[..., rows] = profile @ self.coefficients(weights[rows]).T
        return found

    def products(self, profile: Floats, w: Floats, v: Floats) -> Floats:
        """Σ of `product_coefficients(w, v)` over a profile, one per row of w.

        Args:
            profile: Sums by feature along the last axis; any axes before it stay where they are.
            w: One row per question, one column per cell.
            v: The same rows, or a single row for all of them.
        """
        found = np.empty((*profile.shape[:-1], len(w)))
        for rows in self.batches(len(w)):
            part = self.product_coefficients(w[rows], v[rows] if v.ndim > 1 else v)
            found[..., rows] = profile @ part.T
        return found

    def squares(self, profile: Floats, rows: Floats) -> tuple[Floats, Floats]:
        """Σ of f² over a profile, and E[f² | x] of every cell, for every row of weights.

        Args:
            profile: Sums by feature.
            rows: One row of weights per question.
        """
        return self.products(profile, rows, rows), self.second_moment(rows)

    def all_squares(self, profile: Floats, *, upto: bool) -> Floats:
        """Σ of f² over a profile, where f reads every single cell x, or every prefix 0..x.

        A family that knows E[f² | x] may sum it over the gathered cells: the mean is the same.

        Args:
            profile: Sums by feature along the last axis; any axes before it stay where they are.
            upto: Whether rows are prefixes 0..x rather than single cells x.
        """
        self._refuse_all()
        found = np.empty((*profile.shape[:-1], self.size))
        for rows in self.batches(self.size):
            w = rows_between(self.size, rows, upto=upto)
            found[..., rows] = self.products(profile, w, w)
        return found

    def all_peaks(self, *, upto: bool) -> tuple[Floats, Floats]:
        """The largest E[f² | x] of every single cell or prefix, and the squared weight there.

        Args:
            upto: Whether rows are prefixes 0..x rather than single cells x.
        """
        self._refuse_all()
        parts = [
            self.peaks(rows_between(self.size, rows, upto=upto)) for rows in self.batches(self.size)
        ]
        top, at = map(np.concatenate, zip(*parts, strict=True))
        return top, at

    def _refuse_all(self) -> None:
        """Refuse errors of all cells where they would be computed one by one."""
        if self.size > DENSE_CELLS:
            raise TooLargeError(
                f"the {self.id} channel has no formula for the errors of all {self.size} cells, "
                f"and computes them one by one up to {DENSE_CELLS} cells; ask for groups of cells "
                f"with bins={DENSE_CELLS} or fewer"
            )

    def peaks(self, rows: Floats, *, lean: bool = False) -> tuple[Floats, Floats]:
        """The largest E[f² | x] of every row of weights, and the squared weight at that cell.

        Args:
            rows: One row of weights per question.
            lean: Add `leaning` to the first, as intervals need it.
        """
        top, at = np.empty(len(rows)), np.empty(len(rows))
        at_once = max(1, _MOMENTS_AT_ONCE // self.size)
        for start in range(0, len(rows), at_once):
            part = slice(start, start + at_once)
            moments = self.second_moment(rows[part])
            worst = np.argmax(moments, axis=-1)[:, None]
            top[part] = np.take_along_axis(moments, worst, axis=-1)[:, 0]
            if lean:
                top[part] += leaning(moments, rows[part])
            at[part] = np.take_along_axis(rows[part], worst, axis=-1)[:, 0] ** 2
        return top, at

    def two_values(self, rows: Floats) -> tuple[Floats, Floats]:
        """The two values of f for every row of weights; zeros if f has more than two.

        A sum over people of an f with two values moves in steps, by their difference.

        Args:
            rows: One row of weights per question.
        """
        found = np.zeros((2, len(rows)))
        for part in self.batches(len(rows)):
            read = self.coefficients(rows[part])
            if self.layout.kind == "bits":
                slopes = np.abs(read[:, 1:])
                reach = slopes.max(axis=-1)
                two = np.sum(slopes > _ROUNDING * reach[:, None], axis=-1) == 1
                low, high = read[:, 0] - reach, read[:, 0] + reach
            else:
                low, high = read.min(axis=-1), read.max(axis=-1)
                inside = np.minimum(read - low[:, None], high[:, None] - read)
                two = np.all(inside <= _ROUNDING * (high - low)[:, None], axis=-1)
            found[:, part] = np.where(two, (low, high), 0.0)
        return found[0], found[1]

    def batches(self, count: int) -> Iterator[slice]:
        """Rows to work on at once, so that memory is bounded."""
        at_once = max(1, _ENTRIES_AT_ONCE // max(self.layout.features, self.size))
        for start in range(0, count, at_once):
            yield slice(start, min(start + at_once, count))

    def rounding_excess(self, w: Floats, v: Floats) -> Floats:
        """The most that random rounding can add to w·v beyond the product of the means.

        Args:
            w: Weights, one per cell along the last axis.
            v: Other weights, of a shape that can be broadcast.
        """
        if self.rounds:
            return rounding_excess(w, v)
        return np.zeros(np.broadcast_shapes(w.shape, v.shape))

    def flip_spread(self, weights: Floats) -> Floats:
        """Bits only: the standard deviation of each bit in f, along the last axis.

        Readings of w and v have the covariance spread(w)·spread(v) at every cell, and in addition
        what `own_spread` says of the person's own cell.
        """
        raise TypeError("only channels that send bits have flips")

    def own_spread(self, weights: Floats) -> tuple[Floats, ...]:
        """Bits only: what a person's own cell adds to the standard deviation of f there.

        There may be several, all independent: at cell x the covariance of two readings is larger by
        the sum of the products of their entries at x. None at all if the variance of the bits is
        the same at every cell.
        """
        return ()

    # The channel checks itself.

    def steps(self, cells: NDArray[np.int64]) -> Steps | None:
        """What `encode` does, step by step, for the audit that drives it with scripted words.

        It yields the draws of a report in the order in which `encode` asks for random words, is
        sent their outcomes, and returns the outputs. Outcomes come by the tables from which the
        law is derived, not by those that `encode` looks up. None: `encode` takes one word per
        person, and the audit finds its boundaries by itself.

        Args:
            cells: As `encode` takes them.
        """
        return None

    def device_code(self, code: Code, cell: Value) -> Value:
        """The instructions by which a device perturbs one cell; their result.

        They take the draws of `steps`, in the same order. Left out, they are one table of words
        per cell, which few cells can afford; a family writes what is shorter.

        Args:
            code: Where instructions are added.
            cell: The cell, as `encode` takes it.
        """
        rows, total = self.words()
        precision = total.bit_length() - 1
        if self.rounds or total != 1 << precision or precision > WORD_BITS:
            raise StudyError(
                f"the {self.id} channel writes no code for devices; add `device_code` to its class"
            )
        return code.row(map(runs, rows), precision, cell)

    def alike(self) -> Sequence[NDArray[np.intp]] | None:
        """Groups of cells whose reports take the same draws; None where all cells do.

        The audit asks for the `steps` of one group at a time.
        """
        return None

    def kept(self, metric: CellMetric) -> CellMetric:
        """The stricter metric that this channel was made for, if it is E or below; otherwise E.

        E' <= E for all pairs, exactly decided: a channel that keeps E' keeps E.

        Args:
            metric: E between cells.
        """
        return self.metric if is_within(self.metric, metric) else metric

    def check(self, metric: CellMetric) -> Findings:
        """Check exactly that no output tells more than E allows.

        Up to `most_ratios` odds are compared one by one, in integers; beyond, `check_structure`
        decides.

        Args:
            metric: E between cells, which is not taken from the channel itself.
        """
        found = Findings()
        if self.size != metric.size:
            found.problems.append(f"the channel has {self.size} cells, the axis {metric.size}")
        elif self.rounds and not isinstance(metric, LineMetric | CappedLineMetric | UniformMetric):
            found.problems.append(
                "values between grid points need a distance along a line, or one ε for all pairs"
            )
        else:
            found.problems += self.sampler_problems()
        if found.problems:
            return found
        outputs = self.layout.count if self.layout.kind == "symbols" else 2**self.layout.count
        law = None
        if self.size**2 * outputs <= self.most_ratios:
            with contextlib.suppress(TooLargeError):
                law = self.words()
        if law is None:
            self.check_structure(self.kept(metric), found)
            return found
        rows, total = law
        found.problems += row_problems(rows, total, metric.size)
        found.problems += self.law_problems(rows)
        if found.problems:
            return found
        if self.rounds and isinstance(metric, LineMetric | CappedLineMetric):
            compare_grid_points(rows, metric, found)
        else:  # with one ε for all pairs, values between grid points keep what grid points keep
            found.method = "all pairs, exactly"
            compare_all(rows, metric, found)
        return found

    def sampler_problems(self) -> Iterator[str]:
        """Differences between the tables that `encode` uses and those shown, in words."""
        return iter(())

    def law_problems(self, rows: Sequence[Sequence[int]]) -> Iterator[str]:
        """Differences between the law of `words` and that of the sampler's table, in words."""
        return iter(())

    def worst_ratio(self) -> Fraction | None:
        """Largest odds between neighbouring cells by structure alone, if the table shows it."""
        return None

    def check_structure(self, metric: CellMetric, found: Findings) -> None:
        """Check E by the structure of the law, where the odds are too many to be compared.

        Along a line E adds up, so neighbours decide; under one ε all pairs have the same bound. So
        `worst_ratio` is enough there. A family that can show more overrides this.

        Args:
            metric: E between cells.
            found: What is found is added here.
        """
        worst = self.worst_ratio()
        # What neighbours on a line show says nothing of all pairs.
        along = isinstance(metric, UniformMetric) and not isinstance(self.metric, UniformMetric)
        if worst is None or along or not isinstance(metric, LineMetric | UniformMetric):
            found.problems.append(
                f"the {self.id} channel of {metric.size} cells is too large to be checked pair by "
                "pair, and it shows no structure; use fewer cells"
            )
            return
        least = min(metric.steps) if isinstance(metric, LineMetric) else metric.epsilon
        bound = Bound(least, linear=self.rounds and isinstance(metric, LineMetric))
        found.exact((0, 1), worst.numerator, worst.denominator, bound)
        found.by_structure(2 * (metric.size - 1))


class SymbolChannel(Channel):
    """A channel whose output is one of `outputs` symbols."""

    @property
    def outputs(self) -> int:
        """Number of output symbols."""
        return self.size

    @property
    def layout(self) -> Layout:
        """One whole number below `outputs`."""
        return Layout("symbols", self.outputs)

    def report_likelihood(self, outputs: Outputs) -> Floats:
        """Columns of the likelihood matrix, one per report."""
        return self.likelihood().T[as_symbols(outputs)]

    def product_coefficients(self, w: Floats, v: Floats) -> Floats:
        """The product itself: it is a function of the symbol.

        Args:
            w: Weights on the cells, along the last axis.
            v: Weights of the other factor.
        """
        read = self.coefficients(w)
        return read * (read if v is w else self.coefficients(v))

    def products(self, profile: Floats, w: Floats, v: Floats) -> Floats:
        """Squares row by row; a single row for all is a factor of the profile.

        Args:
            profile: Sums by feature along the last axis.
            w: One row of weights per question.
            v: The other factor: as many rows, or one row for all.
        """
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

    def noise_line(self) -> NoiseLine | None:
        """The law as geometric noise on a line, if it is that; None otherwise."""
        return None

    def transfer(self) -> Floats | None:
        """How much information about every cosine over the cells passes, where that is known.

        One number h between 0 and 1 per product of cosines along the axes, of the shape of the
        grid: with n people spread evenly over m cells, reports have the information (n/m)·h about
        the logarithms of the cells' shares along it. None: it must be measured.
        """
        return None

    #: Whether `even_information` is fast.
    knows_even_information: ClassVar[bool] = False

    def even_information(self, values: Floats) -> Floats:
        """Q·diag(1/q̄)·Qᵀ·v along the last axis, with q̄ the outputs of people spread evenly.

        Args:
            values: v, one entry per cell.
        """
        even = self.mix(np.full(self.size, 1 / self.size))
        return self.expect(self.mix(values) / even)

    #: Whether outputs are the cells of a grid of several axes, so that both can be `grouped`.
    moves_cells: ClassVar[bool] = False

    def grouped(self, groups: tuple[int, ...]) -> Floats:
        """P(group of outputs | group of cells), cells of a group being equally likely.

        Args:
            groups: How many neighbouring cells of every axis are joined.
        """
        raise NotImplementedError(f"the outputs of the {self.id} channel are not cells of a grid")

    def joined(self) -> NDArray[np.intp] | None:
        """The first symbols of runs that decoding may join at little loss; None: joins nothing.

        Joining is for speed alone: a run's likelihood is the sum of its symbols'.
        """
        return None

    def joined_likelihood(self, starts: NDArray[np.intp]) -> Floats:
        """P(run | cell) as a matrix, for runs that begin at `starts`."""
        result: Floats = np.add.reduceat(self.likelihood(), starts, axis=1)
        return result

    def envelope(self) -> tuple[list[tuple[int, int]], int]:
        """The most and the least words that any cell gives each output, and the total of a row."""
        if self.size > MOST_TABLE_CELLS:
            raise TooLargeError(
                f"the {self.id} channel lists its words to be extended, for at most "
                f"{MOST_TABLE_CELLS} cells, and there are {self.size}: use fewer cells, or "
                "KaryResponse() or Geometric() inside"
            )
        rows, total = self.words()
        return [(max(column), min(column)) for column in zip(*rows, strict=True)], total

    def symbol_type(self) -> np.dtype[Any]:
        """The smallest unsigned type that holds an output."""
        return np.min_scalar_type(self.outputs - 1)


def rows_between(size: int, rows: slice, *, upto: bool) -> Floats:
    """Weights of some single cells, or of some prefixes: one row each.

    Args:
        size: Number of cells.
        rows: Which of them.
        upto: Whether rows are prefixes 0..x rather than single cells x.

    Example:
        >>> rows_between(3, slice(1, 3), upto=True)
        array([[1., 1., 0.],
               [1., 1., 1.]])
    """
    make = np.tri if upto else np.eye
    return make(rows.stop - rows.start, size, rows.start)


def leaning(moments: Floats, weights: Floats) -> Floats:
    """Half the square of what one who is counted adds to the variance, if others add nothing.

    Where only those who are counted add noise, the estimated variance falls and rises with the
    estimate itself, as that of a binomial share does. An interval that leaves room for four more
    people then also needs room for z²/2 of this square (Wilson1927 moves the middle instead).

    Args:
        moments: E[f² | x], one row per question and one column per cell.
        weights: The weights of the questions, of the same shape.
    """
    own = moments - weights**2
    ends = weights.max(axis=-1, keepdims=True), weights.min(axis=-1, keepdims=True)
    counted = weights > (ends[0] + ends[1]) / 2
    least = np.where(counted, own, np.inf).min(axis=-1)
    most = np.where(counted, -np.inf, own).max(axis=-1)
    alone = np.isfinite(least) & (most <= _NEXT_TO_NOTHING * least)
    result: Floats = np.where(alone, least, 0.0) ** 2 / 2
    return result


def as_weights(weights: ArrayLike, size: int) -> Floats:
    """Weights as floats, one per cell along the last axis.

    Args:
        weights: What was given.
        size: The number of cells.
    """
    array = np.asarray(weights, dtype=np.float64)
    if array.shape[-1:] != (size,):
        raise ValueError(f"weights must have one entry for each of {size} cells, got {array.shape}")
    return array


def as_symbols(outputs: Outputs) -> NDArray[np.int64]:
    """Outputs that must be symbols, as whole numbers."""
    if isinstance(outputs, BitColumns):
        raise TypeError("the outputs of this channel are symbols")
    return np.asarray(outputs, dtype=np.int64)


def with_known_total(sums: Floats, total: Floats) -> Floats:
    """Readings of cells, where the mean of the weights is read from the number of people.

    The transpose of f = c + g(w − c): all cells together count everybody, whatever g reads.

    Args:
        sums: What g reads of every cell, along the last axis.
        total: The number of people.
    """
    left = total - sums.sum(axis=-1)
    result: Floats = sums + left[..., None] / sums.shape[-1]
    return result


def claimed_tightness(odds: Fraction, precision: int) -> float:
    """The share of E that some pair certainly spends: all but 2^-30 where 64-bit words allow it.

    Rounding a chance to words costs about odds/2^64 of the odds, to be compared with E itself.

    Args:
        odds: What the odds should be.
        precision: How many bits of a random word take part.
    """
    if precision < WORD_BITS or odds > 1 << 30 or odds - 1 < Fraction(1, 1 << 28):
        return 0.0
    return 1 - 2.0**-30


def refuse_dense(size: int, what: str) -> None:
    """Refuse to build a cells-by-outputs matrix beyond the stated size.

    Args:
        size: The number of cells.
        what: What the matrix is, for the message.
    """
    if size > DENSE_CELLS:
        raise TooLargeError(
            f"{what} of {size} cells would need {size}² entries; the limit is {DENSE_CELLS} cells. "
            "Use functional() and second_moment(), which need no matrix"
        )


def refuse_entries(size: int, outputs: int) -> None:
    """Refuse to build a cells-by-outputs matrix that has too many cells or entries.

    Args:
        size: The number of cells.
        outputs: The number of outputs.
    """
    if size > DENSE_CELLS or size * outputs > MOST_ENTRIES:
        raise TooLargeError(
            f"the likelihood of {size} cells would need {size} × {outputs} entries; the limit is "
            f"{DENSE_CELLS} cells and {MOST_ENTRIES} entries. Use functional() and "
            "second_moment(), which need no matrix"
        )


def signs(width: int) -> Floats:
    """All 2^width patterns of `width` bits as rows of +1 and -1, bit 0 changing fastest."""
    patterns = np.arange(1 << width)[:, None] >> np.arange(width)
    return np.where(patterns & 1, 1.0, -1.0)
