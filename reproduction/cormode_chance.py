"""How far the printed figures of Cormode et al. 2019 stray by chance, and other readings.

``python -m reproduction.cormode_chance`` adds to results/soak/cormode.json what chance makes of the
printed columns, and what four other readings would give; run it after reproduction.cormode.

A run's mean squared error is zᵀQz with normal z, so its mean is tr Q and its variance 2·tr Q²: few
directions carry most of it, as neighbouring ranges err together. A printed figure is the root of
the mean of five runs, and a column has eight of them, with draws of their own.

On a whole tree least squares is diagonal by levels: contrasts between the children of a node at
level l are known with precision Λ = Σ p·(cells of a node) over the levels below it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigs

from reproduction import records
from reproduction.cormode import (
    EPSILONS,
    NAMES,
    PEOPLE,
    PRINTED,
    RESULTS,
    SIZES,
    STRIDE,
    Queries,
    cauchy,
    expected,
    write,
)

Floats = NDArray[np.float64]

RUNS = 5  # as the paper says of its bars
DIRECTIONS = 40  # of the largest spread; the rest is bounded by the last of them
SHOWN = ("all ranges", "all prefixes", "ranges from every 256 cells")


@dataclass(frozen=True)
class Noise:
    """The covariance of all cells' errors, N times: HH_B by OUE, or HaarHRR; never as a table."""

    name: str
    law: Floats
    epsilon: float

    @property
    def branching(self) -> int:
        """Children of a node."""
        return 2 if self.name == "HaarHRR" else int(self.name.removeprefix("HH_"))

    def runs(self) -> list[int]:
        """Cells of a node, by level from the root."""
        found = [len(self.law)]
        while found[-1] > 1:
            found.append(found[-1] // self.branching)
        return found

    def smooth(self, w: Floats, precision: Floats) -> Floats:
        """Contrasts of every level over its precision."""
        result, runs = np.zeros_like(w), self.runs()
        above = np.broadcast_to(w.mean(), w.shape)
        for run, known in zip(runs[1:], precision, strict=True):
            here = np.repeat(w.reshape(-1, run).mean(axis=1), run)
            result += (here - above) / known
            above = here
        return result

    def times(self, w: Floats) -> Floats:
        """Covariance times weights of cells."""
        runs = np.array(self.runs())
        chance = 1 / (len(runs) - 1)
        middle = w - w.mean()
        odds = math.exp(self.epsilon)
        if self.name == "HaarHRR":
            found = self.smooth(w, chance * runs[:-1]) * ((odds + 1) / (odds - 1)) ** 2
        else:
            v = 4 * odds / (odds - 1) ** 2
            precision = chance * runs[1:][::-1].cumsum()[::-1]
            once = self.smooth(w, precision)
            spread = np.zeros_like(w)
            for run in runs[1:].tolist():
                share = self.law.reshape(-1, run).sum(axis=1)
                each = once.reshape(-1, run).sum(axis=1)
                spread += chance * np.repeat((v + 2 * share) * each, run)
            found = self.smooth(spread, precision)
        own = self.law * middle
        result: Floats = found - (own - own.mean())
        return result

    def of_prefixes(self, v: Floats) -> Floats:
        """The same for errors of prefixes, from none to all of the cells."""
        cells = np.cumsum(v[:0:-1])[::-1]
        return np.append(0.0, np.cumsum(self.times(cells)))


def mean_square(queries: Queries, size: int) -> Callable[[Floats], Floats]:
    """The matrix M for which eᵀMe is the mean squared error over questions, as an operator."""
    starts, ends = np.zeros(size + 1), np.zeros(size + 1)
    starts[queries.starts], ends[queries.ends] = 1, 1

    def earlier(x: Floats) -> Floats:
        return np.cumsum(x) - x

    def later(x: Floats) -> Floats:
        return earlier(x[::-1])[::-1]

    pairs = ends * earlier(starts) + starts * later(ends)
    count = float(ends @ earlier(starts))

    def apply(e: Floats) -> Floats:
        result: Floats = (pairs * e - ends * earlier(starts * e) - starts * later(ends * e)) / count
        return result

    return apply


def stray(noise: Noise, queries: Queries, mean: float | None = None) -> tuple[float, float]:
    """The spread of one run's mean squared error in parts of it, and at most what that lacks.

    Of large domains the mean, N times, is to be given; of small ones it is found as well.
    """
    size = len(noise.law)
    square = mean_square(queries, size)

    def work(v: Floats) -> Floats:
        return square(noise.of_prefixes(v.ravel()))

    if mean is None:
        table = np.array([work(row) for row in np.eye(size + 1)])
        return math.sqrt(2 * float(np.sum(table * table.T))) / float(np.trace(table)), 0.0
    operator = LinearOperator((size + 1, size + 1), matvec=work, dtype=np.float64)
    start = np.random.default_rng(1).normal(size=size + 1)
    found = eigs(operator, DIRECTIONS, v0=start, tol=1e-6, return_eigenvectors=False)
    values = np.sort(found.real)
    squares, rest = float(values @ values), max(mean - float(values.sum()), 0.0)
    last, count = float(values[0]), len(values)
    falls = 1 + last * count / rest if rest else math.inf  # the rest as last·(count/k)^falls
    tail = last**2 * count / (2 * falls - 1) if rest else 0.0
    return math.sqrt(2 * (squares + tail)) / mean, last * rest / (2 * squares)


# The columns


def asked(said: str, size: int) -> Queries:
    """The questions of a table by their name in the record."""
    if said == "all prefixes":
        return Queries.prefixes(size)
    if said == "all ranges":
        return Queries.ranges(size)
    return Queries.spaced(size, int(said.removeprefix("ranges from every ").split()[0]))


def column(held: dict[str, Any]) -> dict[str, Any]:
    """What chance makes of one printed column, if five runs, or one, were printed.

    The mean of printed/ours over the column has a standard error of its own; their scatter about
    that mean, a sum of squares over what is expected of it, should be near 1.
    """
    size, law = held["D"], cauchy(held["D"])
    queries, spreads = asked(held["queries"], size), []
    for epsilon, ours in zip(EPSILONS, held["expected"], strict=True):
        mean = None if size == SIZES[0] else PEOPLE * (ours / 1000) ** 2
        spreads.append(stray(Noise(held["method"], law, float(epsilon)), queries, mean))
    one = np.array([spread for spread, _ in spreads]) / 2  # of a root, half as much in parts of it
    ratios = np.array(held["printed"]) / np.array(held["expected"])
    error = one / math.sqrt(RUNS)
    column_error = float(np.linalg.norm(error)) / len(error)
    about = float(np.sum(((ratios - ratios.mean()) / error) ** 2)) / (len(error) - 1)
    away = (float(ratios.mean()) - 1) / column_error
    return {
        "queries": held["queries"],
        "D": size,
        "method": held["method"],
        "mean printed/ours": round(float(ratios.mean()), 4),
        "standard error of a cell, one run": [round(float(value), 4) for value in one],
        "standard error of a cell, five runs": [round(float(value), 4) for value in error],
        "standard error of the column, five runs": round(column_error, 4),
        "standard errors away, five runs": round(away, 2),
        "standard errors away, one run": round(away / math.sqrt(RUNS), 2),
        "scatter over expected, five runs": round(about, 2),
        "tail left out, at most": round(max(lacks for _, lacks in spreads), 3),
    }


# Other readings of the text


def two_stages(levels: list[Floats], *, root: str = "known", early: bool = False) -> list[Floats]:
    """Section 4.5 on readings of nodes, levels from the root: weighed, then made to add up.

    Args:
        levels: For each level, one row a node.
        root: "known" is what the library does; "read" lets the root be moved by its children as any
            other node is, "open" takes it from them alone.
        early: Whether a parent is taken as of Stage 1, as the line below the formula says.
    """
    b, height = len(levels[1]) // len(levels[0]), len(levels)
    weighed = [level.copy() for level in levels]
    for place in range(height - 2, -1, -1):
        i = height - place
        own = (b**i - b ** (i - 1)) / (b**i - 1)
        if place == 0:
            own = {"known": 1.0, "read": own, "open": 0.0}[root]
        below = weighed[place + 1].reshape(len(levels[place]), b, -1).sum(axis=1)
        weighed[place] = own * levels[place] + (1 - own) * below
    final = [weighed[0]]
    for here in weighed[1:]:
        above = weighed[len(final) - 1] if early else final[-1]
        split = here.reshape(len(above), b, -1)
        lacking = (above - split.sum(axis=1)) / b
        final.append((split + lacking[:, None]).reshape(here.shape))
    return final


def largest_nodes(first: int, end: int, b: int, height: int) -> list[tuple[int, int]]:
    """The B-adic parts of a range: level and place of each."""
    result = []
    while first < end:
        level, run = height - 1, 1
        while level > 0 and first % (run * b) == 0 and first + run * b <= end:
            level, run = level - 1, run * b
        result.append((level, first // run))
        first += run
    return result


def reading(b: int, size: int, **how: Any) -> dict[str, float]:
    """Root mean squares over all ranges and all prefixes, of noise alike in all nodes."""
    sizes = [b**level for level in range(round(math.log(size, b)) + 1)]
    starts = np.cumsum([0, *sizes])
    noise = np.eye(starts[-1])
    noise[0] = 0.0  # the number of people is known
    final = two_stages([noise[a:z] for a, z in pairwise(starts)], **how)
    sums: dict[str, list[float]] = {"ranges": [], "prefixes": []}
    for first in range(size):
        for end in range(first + 1, size + 1):
            nodes = largest_nodes(first, end, b, len(sizes))
            total = np.sum([final[level][place] for level, place in nodes], axis=0)
            sums["ranges"].append(float(total @ total))
            if first == 0:
                sums["prefixes"].append(sums["ranges"][-1])
    return {name: math.sqrt(float(np.mean(values))) for name, values in sums.items()}


READINGS: dict[str, dict[str, Any]] = {
    "the root moved by its children": {"root": "read"},
    "the root from its children alone": {"root": "open"},
    "parents as of Stage 1": {"early": True},
    "parents as of Stage 1, the root moved": {"early": True, "root": "read"},
}


def readings(columns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean printed/ours at 2^8 under each, and at both sizes if prefixes began at the second cell.

    As large ε weighs people's own shares a little, ours are scaled by what a reading makes of equal
    noise. None of these is in the text as a whole; they were looked for after the table was seen.
    """
    held = {(c["D"], c["queries"], c["method"]): c for c in columns}
    result = []
    for said, how in READINGS.items():
        for name in NAMES[:3]:
            b = int(name.removeprefix("HH_"))
            plain, other = reading(b, SIZES[0]), reading(b, SIZES[0], **how)
            for what in plain:
                ratio = held[SIZES[0], f"all {what}", name]["mean printed/ours"]
                result.append(_line(said, SIZES[0], what, name, ratio * plain[what] / other[what]))
    for size in SIZES:
        ends = np.arange(2, size + 1, 1 if size == SIZES[0] else STRIDE)
        ours = expected(size, cauchy(size), Queries(np.ones(1, dtype=np.int64), ends))
        for place, name in enumerate(NAMES):
            printed = np.array([row[place] for row in PRINTED["prefixes"][size]])
            ratio = float(np.mean(printed / np.array(ours[name])))
            result.append(_line("from the second cell", size, "prefixes", name, ratio))
    return result


def _line(said: str, size: int, what: str, name: str, ratio: float) -> dict[str, Any]:
    return {
        "reading": said,
        "D": size,
        "queries": f"all {what}",
        "method": name,
        "mean printed/ours": round(ratio, 3),
    }


def main() -> None:
    """Compute, and add to the record."""
    record = records.held(RESULTS)
    shown = [c for c in record["columns"] if c["queries"] in SHOWN]
    record["by chance"] = []
    for held in shown:
        record["by chance"].append(column(held))
        print(record["by chance"][-1], flush=True)
    record["other readings"] = readings(record["by chance"])
    write(record, "by chance and other readings", "python -m reproduction.cormode_chance")


if __name__ == "__main__":
    main()
