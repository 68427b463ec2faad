"""Every channel with every metric that fits it, and what exact tests of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

import sfumato as sf
from sfumato.bitcolumns import LANES, BitColumns
from sfumato.channels.base import Channel
from sfumato.channels.choice import Choice
from sfumato.channels.searched.codec import Sets
from sfumato.exact import at_most_exp
from sfumato.metrics.cells import CellMetric
from sfumato.study.axis import Axis

Epsilon = Fraction
Rows = Sequence[Sequence[int]]

EPSILONS = tuple(Fraction(text) for text in ("0.01", "0.1", "1/3", "0.5", "1", "3"))
TIGHT = 1 - Fraction(1, 1 << 30)

GEOMETRIC, KARY, EXPONENTIAL = sf.Geometric(), sf.KaryResponse(), sf.Exponential()
OUE, OLH, HRR, HADAMARD = sf.OUE(), sf.OLH(), sf.HRR(), sf.Hadamard()
SQUARE_WAVE, WIDE_WAVE = sf.SquareWave(), sf.SquareWave(width=1)


@dataclass(frozen=True)
class AnySets(Choice):
    """The optimised channel with sets and weights that nobody would choose, at any size.

    Rows differ widely, so that the blank has much to make up for; nothing is searched for.
    """

    id: ClassVar[str] = sf.Optimised.id

    def misfit(self, metric: CellMetric) -> str | None:
        return sf.Optimised().misfit(metric)

    def bind(self, metric: CellMetric, *, precision: int = 64, resolution: int = 0) -> Channel:
        rng = np.random.default_rng(metric.size)
        single = np.eye(metric.size, dtype=np.bool_)
        members = np.concatenate([single, rng.random((metric.size, metric.size)) < 0.5])
        weights = rng.integers(1, 20, len(members)).astype(np.float64)
        table = Sets(members, weights).to_text()
        return sf.Optimised(table=table).bind(metric, precision=precision, resolution=resolution)


ANY_SETS = AnySets()
HAAR, HIERARCHY, PAIRS = sf.HaarHRR(), sf.Hierarchical(), sf.Hierarchical(2, "hrr")
THIRDS = sf.Hierarchical(3, "grr", levels="optimised")
BY_LEVELS = (HAAR, HIERARCHY, PAIRS, THIRDS)
THERMOMETER, PUBLISHED = sf.Thermometer(), sf.Thermometer(variant="published")
CELL_BITS, PREFIX_BITS = sf.MatrixResponse("identity"), sf.MatrixResponse("prefix")


def labels(size: int) -> list[str]:
    """As many category labels."""
    return [f"c{k}" for k in range(size)]


def _categories(size: int, protect: sf.Matrix | sf.Uniform) -> Axis:
    return sf.categories("x", labels(size), protect=protect)


def _integers(size: int, eps: Epsilon) -> Axis:
    return sf.integers("x", -3, size - 4, protect=sf.Distance(eps))


def _dates(size: int, eps: Epsilon) -> Axis:
    end = np.datetime64("2024-01-01") + 7 * size - 1
    protect = sf.Distance(eps, per="1 week")
    return sf.dates("x", "2024-01-01", str(end), step="1 week", protect=protect)


def _equal_bins(size: int, eps: Epsilon) -> Axis:
    return sf.reals("x", 0, 1, bins=size, protect=sf.Distance(eps, per=Fraction(1, size)))


def _unequal_bins(size: int, eps: Epsilon) -> Axis:
    edges = [k + k * k / 8 for k in range(size + 1)]
    return sf.reals("x", edges=edges, protect=sf.Distance(eps, per=2))


def _capped(size: int, eps: Epsilon) -> Axis:
    """A cap that binds: below one step for two cells, at a third of the axis for many."""
    return sf.integers("x", 0, size - 1, protect=sf.Distance(eps, cap=eps * Fraction(size, 3)))


def _capped_unequal_bins(size: int, eps: Epsilon) -> Axis:
    edges = [k + k * k / 8 for k in range(size + 1)]
    return sf.reals("x", edges=edges, protect=sf.Distance(eps, per=2, cap=eps))


def _capped_optional(size: int, eps: Epsilon) -> Axis:
    protect = sf.Distance(eps, no_answer=2, cap=3 * eps)
    return sf.integers("x", 0, max(size - 2, 1), protect=protect, optional=True)


def _optional_distance(size: int, eps: Epsilon) -> Axis:
    protect = sf.Distance(eps, no_answer=2)
    return sf.integers("x", 0, max(size - 2, 1), protect=protect, optional=True)


def _optional_uniform(size: int, eps: Epsilon) -> Axis:
    return sf.categories("x", labels(max(size - 1, 2)), protect=sf.Uniform(eps), optional=True)


def _blocks(size: int, eps: Epsilon) -> Axis:
    names = labels(size)
    parts = [part for part in (names[:1], names[1:4], names[4:]) if part]
    return _categories(size, sf.Blocks(eps, parts))


def _high_low(size: int, eps: Epsilon) -> Axis:
    return _categories(size, sf.HighLow(eps, labels(size)[::3]))


def _sensitive(size: int, eps: Epsilon) -> Axis:
    return _categories(size, sf.SensitiveSet(eps, labels(size)[:1]))


def _graph(size: int, eps: Epsilon) -> Axis:
    """A path of growing weights, a chord, and for larger sizes a cell that nobody touches."""
    names = labels(size)
    joined = names[:-1] if size > 3 else names
    path = pairwise(joined)
    edges: list[tuple[object, ...]] = [(a, b, Fraction(k, 2)) for k, (a, b) in enumerate(path, 1)]
    edges.append((joined[0], joined[-1], 2))
    return _categories(size, sf.PolicyGraph(eps, edges))


def _points(norm: float) -> Callable[[int, Epsilon], Axis]:
    def build(size: int, eps: Epsilon) -> Axis:
        at = {label: (k % 4, k // 4 + k % 3) for k, label in enumerate(labels(size))}
        return _categories(size, sf.Points(eps, per=2, at=at, norm=norm))

    return build


def _within(size: int, eps: Epsilon) -> Axis:
    """Steps of two along a line of numbers."""
    return sf.integers("x", 0, size - 1, protect=sf.Within(eps, 2))


def _matrix(size: int, eps: Epsilon) -> Axis:
    """Asymmetric, with infinite entries: the first cell may be told from the last, not back."""
    values: list[list[object]] = [
        [0 if i == j else eps * (1 + abs(i - j) % 3 + (i > j)) for j in range(size)]
        for i in range(size)
    ]
    for i in range(1, size):
        values[i][0] = float("inf")
    return _categories(size, sf.Matrix(values))


def _line_sum(size: int, eps: Epsilon) -> Axis:
    protect = sf.Distance(eps) + sf.Distance(eps / 3)
    return sf.integers("x", 0, size - 1, protect=protect)


def _mixed_sum(size: int, eps: Epsilon) -> Axis:
    return sf.integers("x", 0, size - 1, protect=sf.Distance(eps / 2) + sf.Uniform(eps))


def _uniform(size: int, eps: Epsilon) -> Axis:
    return _categories(size, sf.Uniform(eps))


BUILDERS: dict[str, tuple[Callable[[int, Epsilon], Axis], tuple[Choice, ...]]] = {
    "integers": (_integers, (GEOMETRIC, THERMOMETER, PUBLISHED, EXPONENTIAL, PREFIX_BITS)),
    "distance, capped": (_capped, (GEOMETRIC, EXPONENTIAL)),
    "dates": (_dates, (GEOMETRIC, THERMOMETER)),
    "equal bins": (_equal_bins, (GEOMETRIC, THERMOMETER)),
    "unequal bins": (_unequal_bins, (THERMOMETER, PUBLISHED, EXPONENTIAL, PREFIX_BITS)),
    "sum along a line": (_line_sum, (GEOMETRIC, THERMOMETER)),
    "capped": (_capped, (GEOMETRIC, EXPONENTIAL)),
    "capped, unequal bins": (_capped_unequal_bins, (EXPONENTIAL,)),
    "capped, optional": (_capped_optional, (EXPONENTIAL,)),
    "distance, optional": (_optional_distance, (EXPONENTIAL,)),
    "uniform": (
        _uniform,
        (
            KARY,
            EXPONENTIAL,
            OUE,
            OLH,
            HRR,
            HADAMARD,
            SQUARE_WAVE,
            WIDE_WAVE,
            ANY_SETS,
            CELL_BITS,
            *BY_LEVELS,
        ),
    ),
    "uniform, optional": (
        _optional_uniform,
        (KARY, EXPONENTIAL, OUE, OLH, HRR, HADAMARD, SQUARE_WAVE, *BY_LEVELS),
    ),
    "blocks": (_blocks, (EXPONENTIAL, HADAMARD, CELL_BITS)),
    "high-low": (_high_low, (EXPONENTIAL, HADAMARD, CELL_BITS)),
    "sensitive set": (_sensitive, (EXPONENTIAL,)),
    "policy graph": (_graph, (EXPONENTIAL, CELL_BITS)),
    "points, L1": (_points(1), (EXPONENTIAL,)),
    "points, L2": (_points(2), (EXPONENTIAL,)),
    "points, Linf": (_points(float("inf")), (EXPONENTIAL,)),
    "within": (_within, (EXPONENTIAL,)),
    "matrix": (_matrix, (EXPONENTIAL, CELL_BITS)),
    "mixed sum": (_mixed_sum, (EXPONENTIAL,)),
}


@dataclass(frozen=True)
class Case:
    """A kind of axis with a channel that fits it."""

    kind: str
    choice: Choice

    def __str__(self) -> str:
        options = {"variant": "exact", **self.choice.options()}
        variant = ", ".join(str(value) for value in options.values() if value)
        return f"{self.kind}: {self.choice.id}" + ("" if variant == "exact" else f" {variant}")

    def axis(self, size: int, eps: Epsilon) -> Axis:
        """The axis of this kind."""
        return BUILDERS[self.kind][0](size, eps)

    def channel(self, size: int, eps: Epsilon, *, precision: int = 64) -> Channel:
        """The channel bound to it."""
        return self.choice.bind(self.axis(size, eps).metric(), precision=precision)


CASES = tuple(Case(kind, choice) for kind, (_, choices) in BUILDERS.items() for choice in choices)


def worst_odds(rows: Rows, x: int, y: int) -> tuple[int, int]:
    """The largest odds of cell x against cell y over all outputs, exactly: more over less."""
    more, less = 0, 1
    for a, b in zip(rows[x], rows[y], strict=True):
        if a * less > more * b:
            more, less = a, b
    return more, less


def exceeding_pair(rows: Rows, metric: CellMetric) -> tuple[int, int] | None:
    """The first ordered pair whose odds exceed e^E for some output, decided exactly."""
    for x in range(metric.size):
        for y in range(metric.size):
            e = metric.exact(x, y)
            if x == y or e is None:
                continue
            more, less = worst_odds(rows, x, y)
            if less == 0 or not at_most_exp(Fraction(more, less), e):
                return x, y
    return None


def is_tight(rows: Rows, metric: CellMetric) -> bool:
    """Whether some pair of neighbouring numbers is told apart by nearly all of its E."""
    for x in range(metric.size - 1):
        e = metric.exact(x, x + 1)
        if e is not None and not at_most_exp(Fraction(*worst_odds(rows, x, x + 1)), TIGHT * e):
            return True
    return False


class Stream:
    """A bit source that gives the words it was handed, one after the other."""

    secure = False

    def __init__(self, *words: NDArray[np.uint64]) -> None:
        self.left = np.concatenate(words)

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next words; asking for more than there are is a failure."""
        assert count <= len(self.left), "the sampler wants more words than it should"
        found, self.left = self.left[:count], self.left[count:]
        return found.copy()


def all_words(precision: int, *, junk: int = 0) -> NDArray[np.uint64]:
    """Every pattern of leading bits once, with any bits below them."""
    spare = np.uint64(64 - precision)
    low = np.uint64(junk & ((1 << (64 - precision)) - 1))
    return (np.arange(1 << precision, dtype=np.uint64) << spare) | low


def planes(columns: int, precision: int) -> Iterator[NDArray[np.uint64]]:
    """Words for packed flips: lane i's digits, over columns and places, spell the number i.

    One array a binary digit, all words of column 0 first: the order in which `FlipTable` asks.
    """
    lane = np.arange(1 << (columns * precision), dtype=np.int64)
    for digit in range(precision):
        bits = np.stack([(lane >> (k * precision + digit)) & 1 for k in range(columns)], axis=1)
        yield BitColumns.from_matrix(bits.astype(np.bool_)).words.ravel()


def patterns(columns: BitColumns) -> NDArray[np.int64]:
    """Each person's bits as a number, bit 0 lowest: the order of a likelihood's columns."""
    return columns.to_matrix() @ (1 << np.arange(columns.width, dtype=np.int64))


assert LANES == 64
