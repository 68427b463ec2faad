"""Real numbers in bins, or rounded at random to the points of a grid."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import lcm
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.domains.base import (
    Ordered,
    Span,
    bin_weights,
    check_size,
    exact_text,
    number_text,
    one_cell,
)
from sfumato.domains.columns import finish, read_numbers
from sfumato.domains.parsing import bound_number, parse_number
from sfumato.errors import StudyError, shown
from sfumato.exact import nearest_float, rational, to_plain

STOCHASTIC_BITS = 20
_LEAST_SPAN = Fraction(1, 10**300)


@dataclass(frozen=True, slots=True)
class Reals(Ordered):
    """Real numbers from low to high, cut into bins; the last bin is closed.

    Build one with `equal_bins` or `from_edges`: edges at equal distances give the same domain
    either way. With ``rounding="stochastic"`` the cells are the edges themselves, and a value
    between two of them is rounded to one at random, later, by the channel.

    Args:
        low: The smallest value.
        high: The largest value.
        bins: Number of bins, at least 2; with stochastic rounding, where 1 bin has 2 ends, 1.
        cuts: All edges where the bins are unequal, else empty.
        rounding: None, or "stochastic".

    Raises:
        StudyError: If the edges do not rise, are too few, or too near for floating point.

    Example:
        >>> import pyarrow as pa
        >>> income = Reals.equal_bins(0, 200_000, 64)
        >>> income.read(pa.array([0.0, 3125.0, 200_000.0]), axis="income", clip=False).tolist()
        [0, 1, 63]
        >>> income.labels()[0], income.spacing
        ('0..3125', Fraction(3125, 1))
    """

    low: Fraction
    high: Fraction
    bins: int
    cuts: tuple[Fraction, ...] = ()
    rounding: Literal["stochastic"] | None = None

    kind: ClassVar[str] = "reals"

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", rational(self.low, "low"))
        object.__setattr__(self, "high", rational(self.high, "high"))
        if not isinstance(self.rounding, str | None) or self.rounding not in (None, "stochastic"):
            raise StudyError(
                f"rounding must be None or 'stochastic', got rounding={shown(self.rounding)}"
            )
        bins = rational(self.bins, "bins")
        least = 1 if self.rounding else 2
        if bins.denominator != 1 or bins < least:
            remedy = "" if self.rounding or bins != 1 else "; one bin needs rounding='stochastic'"
            raise StudyError(
                f"bins must be a whole number of at least {least}, got "
                f"bins={shown(self.bins)}{remedy}"
            )
        object.__setattr__(self, "bins", int(bins))
        if self.low >= self.high:
            raise StudyError(
                f"low must be below high, got low={to_plain(self.low)}, high={to_plain(self.high)}"
            )
        check_size(self.size, "reals", "take more bins")
        self._check_cuts()
        # Within these spans no difference of two edges overflows or vanishes.
        spanned = _LEAST_SPAN <= self.high - self.low <= 1 / _LEAST_SPAN
        cuts = _float_cuts(self)
        if not (spanned and np.all(np.isfinite(cuts)) and np.all(cuts[1:] > cuts[:-1])):
            raise StudyError(
                f"{self.bins} bins from low={to_plain(self.low)} to high={to_plain(self.high)} "
                "must be distinct floating-point numbers; take fewer bins or other units"
            )

    def _check_cuts(self) -> None:
        """Require that given edges agree with the bounds and rise."""
        cuts = tuple(rational(cut, "edges") for cut in self.cuts)
        if not cuts:
            object.__setattr__(self, "cuts", cuts)
            return
        for number, (left, right) in enumerate(pairwise(cuts), start=1):
            if left >= right:
                raise StudyError(
                    f"edges must rise, but edge {number} is {to_plain(left)} and edge "
                    f"{number + 1} is {to_plain(right)}"
                )
        if (cuts[0], cuts[-1], len(cuts)) != (self.low, self.high, self.bins + 1):
            raise StudyError("cuts must hold all edges, from low to high; build with from_edges")
        width = (self.high - self.low) / self.bins
        equal = all(cut == self.low + k * width for k, cut in enumerate(cuts))
        # One domain, one form: equal bins never carry their edges.
        object.__setattr__(self, "cuts", () if equal else cuts)

    @classmethod
    def equal_bins(
        cls, low: Any, high: Any, bins: int, *, rounding: Literal["stochastic"] | None = None
    ) -> Reals:
        """Bins of equal width between two bounds.

        Args:
            low: The smallest value.
            high: The largest value.
            bins: How many bins.
            rounding: None, or "stochastic".

        Example:
            >>> Reals.equal_bins(0, 1, 4).edges().tolist()
            [0.0, 0.25, 0.5, 0.75, 1.0]
        """
        return cls(low, high, bins, (), rounding)

    @classmethod
    def from_edges(
        cls, edges: Iterable[Any], *, rounding: Literal["stochastic"] | None = None
    ) -> Reals:
        """Bins between the given edges, which must rise.

        Args:
            edges: All edges, the two ends included.
            rounding: None, or "stochastic".

        Example:
            >>> Reals.from_edges([0, 10, 100, 1000]).labels()
            ['0..10', '10..100', '100..1000']
        """
        if isinstance(edges, str) or not isinstance(edges, Iterable):
            raise StudyError(f"edges must be a list of numbers, got edges={shown(edges)}")
        try:
            cuts = tuple(rational(edge, "edges") for edge in edges)
        except TypeError:  # an array without dimensions
            raise StudyError(f"edges must be a list of numbers, got {shown(edges)}") from None
        least = 1 if rounding else 2
        if len(cuts) <= least:
            bins = "1 bin" if rounding else "2 bins"
            raise StudyError(
                f"edges must be at least {least + 1}, for {bins}, got {len(cuts)} of them"
            )
        return cls(min(cuts[0], cuts[-1]), max(cuts), len(cuts) - 1, cuts, rounding)

    @property
    def size(self) -> int:
        """Number of bins, or of grid points with stochastic rounding."""
        return self.bins + (self.rounding is not None)

    @property
    def ordered(self) -> bool:
        """Bins lie in a row."""
        return True

    @property
    def spacing(self) -> Fraction | None:
        """Distance of neighbouring bin centres (or grid points) where all are equal."""
        if not self.cuts:
            return (self.high - self.low) / self.bins
        places = self.positions()
        first = places[1] - places[0]
        equal = all(right - left == first for left, right in pairwise(places))
        return first if equal else None

    @property
    def rounding_bits(self) -> int:
        """Bits of the place between two grid points."""
        return STOCHASTIC_BITS if self.rounding else 0

    def positions(self) -> tuple[Fraction, ...]:
        """Centre of each bin, or each grid point."""
        points = self.cuts or tuple(
            self.low + k * (self.high - self.low) / self.bins for k in range(self.bins + 1)
        )
        if self.rounding:
            return points
        return tuple((left + right) / 2 for left, right in pairwise(points))

    def length(self, quantity: object, what: str) -> Fraction:
        """A number, exactly.

        Args:
            quantity: A number, or a duration as text.
            what: What it is called in a message.
        """
        return rational(quantity, what)

    def read(self, column: Any, *, axis: str, clip: bool) -> NDArray[np.int64]:
        """Bin of each value, or its place on the fine grid; −1 where missing.

        A value that equals an edge belongs to the bin above it. Columns in less than double
        precision are compared with edges in their own precision, so that 0.7 meets the edge 0.7.

        Args:
            column: Numbers of any type, or text that spells them.
            axis: Name of the axis, for messages.
            clip: Whether values out of range move to the nearest end.

        Raises:
            DataError: If a value is out of range or no number; rows are named.
        """
        rule = f"numbers from {number_text(self.low)} to {number_text(self.high)}"
        values, missing = read_numbers(column, axis=axis, rule=rule, whole=False)
        edges = self._edges_like(values)
        values = values.astype(edges.dtype, copy=False)
        inside = np.clip(values, edges[0], edges[-1])
        codes = self._bins_of(inside, edges)
        if self.rounding:
            cuts = _float_cuts(self)
            share = (inside.astype(np.float64) - cuts[codes]) / (cuts[codes + 1] - cuts[codes])
            fine = np.rint(np.clip(share, 0.0, 1.0) * 2**STOCHASTIC_BITS)
            codes = (codes << STOCHASTIC_BITS) + fine.astype(np.int64)
        return finish(codes, inside != values, missing, axis=axis, rule=rule, clip=clip)

    def _edges_like(self, values: NDArray[Any]) -> NDArray[np.floating[Any]]:
        """The edges in the precision of the values, if they stay apart in it."""
        edges = _float_cuts(self)
        if values.dtype.kind == "f" and values.dtype.itemsize < 8:
            with np.errstate(over="ignore"):
                coarse = edges.astype(values.dtype)
            if np.all(np.isfinite(coarse)) and np.all(np.diff(coarse) > 0):
                return coarse
        return edges

    def _bins_of(
        self, values: NDArray[np.floating[Any]], edges: NDArray[np.floating[Any]]
    ) -> NDArray[np.int64]:
        """Bin of each value within the bounds, as the edges have it."""
        if self.cuts:
            return np.searchsorted(edges[1:-1], values, side="right").astype(np.int64)
        # Arithmetic is several times faster than a search; the edges have the last word.
        scale = self.bins / (float(edges[-1]) - float(edges[0]))
        codes = ((values.astype(np.float64) - float(edges[0])) * scale).astype(np.int64)
        np.clip(codes, 0, self.bins - 1, out=codes)
        lower, upper = edges[:-1].copy(), edges[1:].copy()
        upper[-1] = np.inf
        codes -= values < lower[codes]
        codes += values >= upper[codes]
        astray = (values < lower[codes]) | (values >= upper[codes])
        if astray.any():
            codes[astray] = np.searchsorted(edges[1:-1], values[astray], side="right")
        return codes

    def float_cuts(self) -> NDArray[np.float64]:
        """The edges, each rounded once to the nearest double."""
        return _float_cuts(self)

    def labels(self) -> list[str]:
        """Bins as "0..3125", grid points as numbers."""
        points = [number_text(rational(edge, "edge")) for edge in _float_cuts(self).tolist()]
        if self.rounding:
            return points
        return [f"{left}..{right}" for left, right in pairwise(points)]

    def edges(self) -> NDArray[np.float64]:
        """Edges of the bins; around grid points, the half-way points and the two ends."""
        cuts = _float_cuts(self)
        if not self.rounding:
            return cuts.copy()
        return np.concatenate([cuts[:1], cuts[:-1] + np.diff(cuts) / 2, cuts[-1:]])

    def numbers(self) -> NDArray[np.float64]:
        """Centre of each bin, or each grid point."""
        cuts = _float_cuts(self)
        return cuts.copy() if self.rounding else cuts[:-1] + np.diff(cuts) / 2

    def place(self, value: object, *, axis: str, upper: bool = False) -> Fraction:
        """A bound as an exact number; infinity is beyond the end.

        Args:
            value: A number.
            axis: Name of the axis, for messages.
            upper: Whether it is the upper bound of an interval.
        """
        return bound_number(value, self.low - 1, self.high + 1, axis=axis)

    def _bounds(self) -> tuple[Fraction, Fraction]:
        """The smallest and the largest value."""
        return self.low, self.high

    def _shown(self) -> tuple[str, str]:
        """The same for messages."""
        return number_text(self.low), number_text(self.high)

    def weigh(self, span: Span) -> tuple[NDArray[np.float64], bool]:
        """Share of each bin in the span, as if people were spread evenly in it.

        With stochastic rounding: the share of each grid point's hat function. An interval of a
        single number means the bin that holds it, or the nearest grid point.

        Example:
            >>> weights, cut = Reals.equal_bins(0, 4, 4).interval(1, 2.5, axis="hours")
            >>> weights.tolist(), cut
            ([0.0, 1.0, 0.5, 0.0], True)
        """
        below, above = span
        cuts = _float_cuts(self)
        if below is not None and below == above:
            return self._point(float(below), cuts), False
        start = cuts[0] if below is None else float(max(below, self.low))
        end = cuts[-1] if above is None else float(min(above, self.high))
        return (_hat_weights if self.rounding else bin_weights)(cuts, start, end)

    def _point(self, number: float, cuts: NDArray[np.float64]) -> NDArray[np.float64]:
        """The bin that holds a number, or the grid point nearest to it."""
        borders = cuts[:-1] + np.diff(cuts) / 2 if self.rounding else cuts[1:-1]
        return one_cell(self.size, bisect_right(borders, number))

    def parse(self, text: str, *, axis: str) -> Fraction:
        """A number of the question language.

        Args:
            text: As written.
            axis: Name of the axis, for messages.
        """
        return parse_number(text, axis=axis)

    def write(self, place: Fraction) -> str:
        """A number of the question language, exactly."""
        return exact_text(place)

    def to_dict(self) -> dict[str, Any]:
        """Kind, bounds and bins, or all edges where bins are unequal."""
        data: dict[str, Any] = {"kind": self.kind}
        if self.cuts:
            data["edges"] = [to_plain(cut) for cut in self.cuts]
        else:
            data |= {"low": to_plain(self.low), "high": to_plain(self.high), "bins": self.bins}
        return data | ({"rounding": self.rounding} if self.rounding else {})


@lru_cache(maxsize=16)
def _float_cuts(domain: Reals) -> NDArray[np.float64]:
    """The edges, each rounded once to the nearest float."""
    if domain.cuts:
        cuts = np.array([nearest_float(cut) for cut in domain.cuts])
    else:
        width = (domain.high - domain.low) / domain.bins
        below = lcm(domain.low.denominator, width.denominator)
        first, step = int(domain.low * below), int(width * below)
        reach = max(abs(first), abs(first + step * domain.bins), below)
        if reach < 2**53:
            # A quotient of two exact doubles is correctly rounded.
            cuts = (first + step * np.arange(domain.bins + 1, dtype=np.int64)) / float(below)
        else:
            steps = range(domain.bins + 1)
            cuts = np.array([nearest_float(Fraction(first + step * k, below)) for k in steps])
    cuts.setflags(write=False)
    return cuts


def _hat_weights(
    points: NDArray[np.float64], low: float, high: float
) -> tuple[NDArray[np.float64], bool]:
    """Share of each grid point's hat function between low and high, and whether one was cut."""
    widths = np.diff(points)
    left, right = np.append(0.0, widths), np.append(widths, 0.0)

    def area_below(end: float) -> NDArray[np.float64]:
        share = np.clip((end - points[:-1]) / widths, 0.0, 1.0)
        rising, falling = np.append(0.0, share), np.append(share, 0.0)
        area: NDArray[np.float64] = left * rising**2 / 2 + right * (falling - falling**2 / 2)
        return area

    weights = np.clip((area_below(high) - area_below(low)) / ((left + right) / 2), 0.0, 1.0)
    cut = bool(np.any((weights > 0.0) & (weights < 1.0)))
    return weights, cut or not weights.any()
