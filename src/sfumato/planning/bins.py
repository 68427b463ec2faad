"""The number of bins of a real axis, a question that Xiang et al. 2020 (§4.2) leave open.

More bins mean less rounding, but ε per bin shrinks with their width and the perturbation grows. For
ranges with any real ends both errors are known, given the distribution of people: a cut bin is
prorated, so its error comes from how unevenly people lie in it, and from chance. `plan_bins` adds
up both for each number of bins on a geometric grid.

A range is F(v) − F(u) with F(u) the weights of "below u", which are linear in u within a bin. With
B any quadratic form of the weights and u, v independent, the mean over ranges is
2·(mean of B(F(u)) − B(mean of F)), and over a bin from F to F + e it is (B(F) + B(F+e))/2 − B(e)/6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sfumato.arrays import Floats
from sfumato.channels.base import Channel
from sfumato.domains.reals import Reals
from sfumato.errors import StudyError
from sfumato.estimation.likelihood import LikelihoodEstimate
from sfumato.exact import rational
from sfumato.metrics.base import Metric
from sfumato.planning.expected_error import Method, checked_people
from sfumato.study.axis import Axis
from sfumato.study.study import Study
from sfumato.text import Tabled, TableText, format_to, percent

Number = float | Fraction

#: Steps of ×1.5 and ×1.33 in turn: 2, 3, 4, 6, 8, 12, …
GRID = tuple(sorted({2**k for k in range(1, 11)} | {3 * 2**k for k in range(9)}))
MOST_BINS_DECODED = 192
FINE = 1 << 13  # points at which the distribution of people is written down
PLACES = 256  # positions at which ranges of one width are asked
_HILL = 0.25
_TOPS = (0.3, 0.47, 0.66)
RUNS = 2  # simulated tallies per distribution of people


@dataclass(frozen=True, slots=True, kw_only=True)
class BinRow:
    """The expected errors with one number of bins, as shares of all people.

    Attributes:
        bins: Number of bins.
        width: Width of a bin in the axis' units.
        epsilon: E between neighbouring bins.
        channel: The channel that the study would choose.
        perturbation: Standard error from the noise, root mean square over ranges.
        rounding: Error from prorating cut bins, root mean square over ranges.
        total: Root of the sum of both squares.
    """

    bins: int
    width: float
    epsilon: float
    channel: str
    perturbation: float
    rounding: float
    total: float

    def cells(self, *, best: bool) -> tuple[str, ...]:
        """A row of the table."""
        return (
            str(self.bins),
            f"{self.width:.6g}",
            f"{self.epsilon:.3g}",
            percent(self.perturbation),
            percent(self.rounding),
            percent(self.total),
            f"{self.channel}{', recommended' if best else ''}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BinPlan(Tabled):
    """The recommended number of bins, and the errors from which it follows."""

    low: float
    high: float
    n: int
    method: str
    prior: str
    typical_width: float | None
    rows: tuple[BinRow, ...]

    @property
    def best(self) -> BinRow:
        """The row with the smallest total error."""
        return min(self.rows, key=lambda row: row.total)

    @property
    def bins(self) -> int:
        """The recommended number of bins."""
        return self.best.bins

    def __iter__(self) -> Iterator[BinRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def columns(self) -> tuple[str, ...]:
        """Names of the table's columns."""
        return ("bins", "width", "E per bin", "noise", "rounding", "total", "channel")

    def table_text(self) -> TableText:
        """The table that shows it."""
        wide = "with any ends" if self.typical_width is None else f"of width {self.typical_width:g}"
        head = (
            f"{self.bins} bins from {self.low:g} to {self.high:g}: with {self.n:,} people and "
            f"{self.method} answers, ranges {wide} have an error of "
            f"{format_to(self.best.total * self.n, self.best.total * self.n)} people."
        )
        rows = [row.cells(best=row is self.best) for row in self.rows]
        return TableText(head, self.columns(), rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "bins": self.bins,
            "low": self.low,
            "high": self.high,
            "people": self.n,
            "method": self.method,
            "prior": self.prior,
            "typical_width": self.typical_width,
            "rows": [asdict(row) for row in self.rows],
        }


def plan_bins(
    low: Number,
    high: Number,
    protect: Metric,
    n: int,
    *,
    typical_width: float | None = None,
    prior: str | ArrayLike = "hills",
    method: Method = "unbiased",
    grid: tuple[int, ...] = GRID,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> BinPlan:
    """Recommend a number of equal bins for a real axis.

    Args:
        low: The smallest value.
        high: The largest value.
        protect: How values are protected, such as Distance(1.0, per=10_000).
        n: Number of people.
        typical_width: The width of typical ranges, anywhere on the axis; left out, ranges have
            any two ends.
        prior: The distribution of people. "hills": half of them spread evenly, half on a triangular
            hill whose base is a quarter of the axis, the mean over three places of its top. "flat":
            spread evenly, so that prorating is wrong only by chance. Or a histogram over equal
            parts of the axis, read as straight lines between the middles of its parts.
        method: "unbiased" is exact; "likelihood" is simulated, up to 192 bins, and leaves out
            numbers of bins whose rounding error alone exceeds the best total.
        grid: The numbers of bins to try.
        seed: For the simulation.
        progress: Called with the share done.

    Example:
        >>> import sfumato as sf
        >>> plan_bins(0, 200_000, sf.Distance(1.0, per=10_000), 100_000).bins
        32
    """
    people = checked_people(n)
    start, end = float(rational(low, "low")), float(rational(high, "high"))
    width = _checked_width(typical_width, start, end)
    if method not in ("unbiased", "likelihood"):
        raise StudyError(f"method must be 'unbiased' or 'likelihood', got method={method!r}")
    laws, name = fine_laws(prior)
    rows: list[BinRow] = []
    # From fine to coarse: once rounding alone is worse than the best, simulating more is useless.
    for done, bins in enumerate(sorted(grid, reverse=True)):
        if method == "likelihood" and bins > MOST_BINS_DECODED:
            continue
        rough = float(np.mean([prorating(law, bins, people, width) for law in laws]))
        if method == "likelihood" and rows and math.sqrt(rough) > min(row.total for row in rows):
            break
        axis = Axis(name="value", domain=Reals.equal_bins(low, high, bins), protect=protect)
        study = Study("bins", [axis], people=people)
        if method == "unbiased":
            variances = [perturbation(study.blocks[0].channel, law, width) / people for law in laws]
            noise = float(np.mean(variances))
        else:
            squares = [_simulated(study, law, bins, people, width, seed) for law in laws]
            noise = max(float(np.mean(squares)) - rough, 0.0)
        rows.append(
            BinRow(
                bins=bins,
                width=(end - start) / bins,
                epsilon=study.schema.groups[0].metric.between(0, 1),
                channel=study.blocks[0].choice.id,
                perturbation=math.sqrt(noise),
                rounding=math.sqrt(rough),
                total=math.sqrt(noise + rough),
            )
        )
        if progress is not None:
            progress((done + 1) / len(grid))
    return BinPlan(
        low=start,
        high=end,
        n=people,
        method=method,
        prior=name,
        typical_width=typical_width,
        rows=tuple(reversed(rows)),
    )


def fine_laws(prior: str | ArrayLike) -> tuple[list[Floats], str]:
    """The distributions of people over fine points, whose errors are averaged, and their name."""
    at = (np.arange(FINE) + 0.5) / FINE
    if isinstance(prior, str):
        if prior == "flat":
            return [np.full(FINE, 1.0 / FINE)], "flat"
        if prior != "hills":
            raise StudyError(f"prior must be 'hills', 'flat' or a histogram, got prior={prior!r}")
        hills = [np.maximum(0.0, 1 - np.abs(at - top) / (_HILL / 2)) for top in _TOPS]
        return [0.5 / FINE + 0.5 * hill / hill.sum() for hill in hills], "hills"
    given = np.asarray(prior, dtype=np.float64)
    if given.ndim != 1 or not given.size:
        raise StudyError(f"prior must be a row of numbers, got shape {given.shape}")
    if not np.isfinite(given).all() or (given < 0).any() or not given.sum() > 0:
        raise StudyError("prior must hold finite numbers, zero or more and not all zero")
    middles = (np.arange(given.size) + 0.5) / given.size
    law = np.interp(at, middles, given)
    return [law / law.sum()], "given"


def perturbation(channel: Channel, law: Floats, width: float | None) -> float:
    """Variance, per person, from the noise: the mean over ranges with real ends.

    Args:
        channel: The channel of the bins.
        law: The distribution of people over fine points.
        width: Width of the ranges as a share of the axis; None for any two ends.
    """
    bins = channel.size
    people = binned(law, bins)
    if width is not None:
        rows = _bin_ranges(bins, width)
        return float(np.mean((channel.second_moment(rows) - rows**2) @ people))
    below = np.tri(bins + 1, bins, -1)
    unit = np.eye(bins)
    middle = 1 - (np.arange(bins) + 0.5) / bins

    def spread(rows: Floats) -> Floats:
        result: Floats = (channel.second_moment(rows) - rows**2) @ people
        return result

    edges, cells = spread(below), spread(unit)
    mean = np.mean((edges[:-1] + edges[1:]) / 2 - cells / 6)
    return float(2 * (mean - spread(middle)))


def prorating(law: Floats, bins: int, n: int, width: float | None) -> float:
    """Mean square error of the share in a range that comes from prorating cut bins.

    With G the share of people below a point, and G' the same with people spread evenly within bins,
    the error of a range is the difference of G' − G at its ends. In a bin that holds a share p of n
    people, a share θ of them below the end, their number has the variance n·p·θ·(1 − θ).

    Args:
        law: The distribution of people over fine points.
        bins: Number of bins.
        n: Number of people.
        width: Width of the ranges as a share of the axis; None for any two ends.
    """
    upto = np.concatenate([[0.0], np.cumsum(law)])
    at = np.linspace(0.0, bins, len(upto))
    held = np.minimum(at.astype(np.int64), bins - 1)
    edges = np.interp(np.arange(bins + 1) / bins, np.linspace(0, 1, len(upto)), upto)
    inside = np.diff(edges)[held]
    off = upto - (edges[held] + inside * (at - held))
    part = np.clip((upto - edges[held]) / np.maximum(inside, 1e-300), 0.0, 1.0)
    chance = inside * part * (1 - part) / n
    if width is None:
        # Independent ends: the mean of (b − a)² is twice the variance.
        return float(2 * np.var(off) + 2 * np.mean(chance))
    low, high = _real_ends(width)
    grid = np.linspace(0, 1, len(upto))
    shift = np.interp(high, grid, off) - np.interp(low, grid, off)
    luck = np.interp(high, grid, chance) + np.interp(low, grid, chance)
    return float(np.mean(shift**2 + luck))


def binned(law: Floats, bins: int) -> Floats:
    """The share of people in each bin.

    Args:
        law: The distribution of people over fine points.
        bins: Number of equal bins.
    """
    upto = np.concatenate([[0.0], np.cumsum(law)])
    return np.diff(np.interp(np.arange(bins + 1) / bins, np.linspace(0, 1, len(upto)), upto))


def _simulated(
    study: Study, law: Floats, bins: int, n: int, width: float | None, seed: int
) -> float:
    """Mean square error of likelihood answers to real ranges, as shares, over a few tallies."""
    rng = np.random.Generator(np.random.PCG64(seed))
    low, high = _real_ends(width) if width is not None else np.sort(rng.random((2, PLACES)), axis=0)
    rows = _below_real(high, bins) - _below_real(low, bins)
    grid = np.linspace(0, 1, FINE + 1)
    total = 0.0
    for _ in range(RUNS):
        fine = rng.multinomial(n, law)
        upto = np.concatenate([[0], np.cumsum(fine)])
        edges = np.interp(np.arange(bins + 1) / bins, grid, upto)
        counts = np.diff(np.round(edges).astype(np.int64))
        tally = study.simulate_counts(counts, seed=int(rng.integers(1 << 62)))
        estimate = tally.estimate(method="likelihood")
        assert isinstance(estimate, LikelihoodEstimate)  # noqa: S101
        answers = rows @ estimate.decoder((0,)).counts()
        truth = np.interp(high, grid, upto) - np.interp(low, grid, upto)
        total += float(np.mean((answers - truth) ** 2)) / n**2 / RUNS
    return total


def _real_ends(width: float) -> tuple[Floats, Floats]:
    """Both ends of ranges of one width at evenly spaced places, as shares of the axis."""
    low = (np.arange(PLACES) + 0.5) / PLACES * (1 - width)
    return low, low + width


def _bin_ranges(bins: int, width: float) -> Floats:
    """Ranges of one width as weights on bins, cut bins prorated."""
    low, high = _real_ends(width)
    return _below_real(high, bins) - _below_real(low, bins)


def _below_real(ends: Floats, bins: int) -> Floats:
    """Weights of "below u" for places u given as shares of the axis."""
    return np.clip(ends[:, None] * bins - np.arange(bins), 0.0, 1.0)


def _checked_width(width: float | None, low: float, high: float) -> float | None:
    """The typical width as a share of the axis."""
    if width is None:
        return None
    if not 0 < width <= high - low:
        raise StudyError(
            f"typical_width must be positive and at most the axis' {high - low:g}, "
            f"got typical_width={width}"
        )
    return float(width) / (high - low)
