"""What tests of the central model share: studies, all tables of few people, and exact laws."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sfumato as sf
from sfumato.central.data import Data
from sfumato.central.ledger import Ledger
from sfumato.central.measurements import Measurements
from sfumato.central.small_database import small_databases
from sfumato.central.space import Space
from sfumato.exact import at_most_exp, exp_bounds

Counts = NDArray[np.int64]
Law = list[tuple[Fraction, Fraction]]

_BITS = 256

LABELS = ["a", "b", "c", "d"]


def one_axis(protect: Any, *, ordered: bool = False) -> sf.Study:
    """One axis of four labels, or of five numbers."""
    if ordered:
        return sf.Study("one", [sf.integers("x", 0, 4, protect=protect)])
    return sf.Study("one", [sf.categories("x", LABELS, protect=protect)])


def two_axes() -> sf.Study:
    """An ordered axis and one without order."""
    return sf.Study(
        "two",
        [
            sf.integers("age", 0, 5, protect=sf.Distance("1/2")),
            sf.categories("mode", ["car", "bus", "bike"], protect=sf.Uniform("3/4")),
        ],
    )


UNEVEN = [[0 if i == j else 1 + (i + 2 * j) % 3 for j in range(4)] for i in range(4)]
STUDIES = {
    "distance": one_axis(sf.Distance("2/3"), ordered=True),
    "capped": one_axis(sf.Distance("2/3", cap="3/2"), ordered=True),
    "uniform": one_axis(sf.Uniform(1)),
    "blocks": one_axis(sf.Blocks(1, [LABELS[:2], LABELS[2:]])),
    "high-low": one_axis(sf.HighLow(1, sensitive=LABELS[:1])),
    "matrix": one_axis(sf.Matrix(UNEVEN)),
    "two": two_axes(),
    "optional": sf.Study(
        "optional",
        [
            sf.integers("age", 0, 3, protect=sf.Distance("1/2", no_answer=2), optional=True),
            sf.categories("mode", ["car", "bus"], protect=sf.Uniform("3/4")),
        ],
    ),
    "joint": sf.Study(
        "joint", [sf.integers("x", 0, 3), sf.integers("y", 0, 1)], protect=sf.Uniform(1)
    ),
    "together": sf.Study(
        "together",
        [
            sf.together([sf.integers("x", 0, 2), sf.integers("y", 0, 1)], protect=sf.Uniform(1)),
            sf.integers("age", 0, 2, protect=sf.Distance("1/2")),
        ],
    ),
}

SURVEY = sf.Study(
    "two",
    [
        sf.integers("age", 0, 9, protect=sf.Distance("1/2")),
        sf.categories("sex", ["f", "m"], protect=sf.Uniform(1)),
    ],
)
JOINT = sf.Study("joint", [sf.integers("x", 0, 3), sf.integers("y", 0, 1)], protect=sf.Uniform(1))
PEOPLE = Data(SURVEY, {"age": [1, 2, 3] * 10, "sex": ["f", "m", "m"] * 10})


def line(size: int, epsilon: object, share: object = 1) -> Space:
    """Cells in a row under a distance."""
    axis = sf.integers("x", 0, size - 1, protect=sf.Distance(epsilon))  # type: ignore[arg-type]
    return Space(sf.Study("line", [axis]), share)  # type: ignore[arg-type]


def flat(size: int, epsilon: object, share: object = 1) -> Space:
    """Cells that are all equally far apart."""
    names = [f"c{k}" for k in range(size)]
    axis = sf.categories("x", names, protect=sf.Uniform(epsilon))  # type: ignore[arg-type]
    return Space(sf.Study("flat", [axis]), share)  # type: ignore[arg-type]


def tables(cells: int, people: int) -> list[Counts]:
    """All histograms of a number of people."""
    return list(small_databases(cells, people))


def moves(counts: Counts) -> Iterator[tuple[int, int, Counts]]:
    """Every table in which one person is elsewhere: from, to, and the table."""
    for i, j in itertools.permutations(range(len(counts)), 2):
        if counts[i]:
            moved = counts.copy()
            moved[i] -= 1
            moved[j] += 1
            yield i, j, moved


def law_of(exponents: Sequence[Fraction]) -> Law:
    """Bounds on e^x_i/Σ e^x_j, within 2^-200 of each other."""
    least = min(exponents)
    bounds = [exp_bounds(Fraction(x) - least, _BITS) for x in exponents]
    low, high = (sum(bound[side] for bound in bounds) for side in (0, 1))
    return [(Fraction(a, high), Fraction(b, low)) for a, b in bounds]


def keeps(law: Law, other: Law, distance: Fraction | None) -> bool:
    """Whether no outcome's odds differ by more than e^distance, decided in integers."""
    if distance is None:
        return True
    return all(
        at_most_exp(a[1] / b[0], distance) and at_most_exp(b[1] / a[0], distance)
        for a, b in zip(law, other, strict=True)
    )


def worst_log_ratio(law: Law, other: Law) -> float:
    """The largest difference of log odds."""
    return max(abs(math.log(a[0]) - math.log(b[0])) for a, b in zip(law, other, strict=True))


def table_distances(space: Space, everyone: Sequence[Counts]) -> NDArray[np.float64]:
    """The distance between any two tables: the shortest way of moving one person at a time."""
    place = {tuple(counts.tolist()): number for number, counts in enumerate(everyone)}
    found = np.full((len(everyone), len(everyone)), np.inf)
    np.fill_diagonal(found, 0.0)
    for number, counts in enumerate(everyone):
        for i, j, moved in moves(counts):
            distance = space.exact(i, j)
            if distance is not None:
                found[number, place[tuple(moved.tolist())]] = float(distance)
    for between in range(len(everyone)):
        found = np.minimum(found, found[:, [between]] + found[[between]])
    return found


def told_apart(measured: Measurements, i: int, j: int) -> Fraction | None:
    """Σ rate·|steps|: by how much a person who moves from i to j can change the odds, exactly."""
    total = Fraction(0)
    for k, rate in enumerate(measured.rates):
        row = measured.lattice.row(k)
        apart = abs(int(row[i]) - int(row[j]))
        if apart and rate is None:
            return None
        total += (rate or Fraction(0)) * apart
    return total


def book(folder: Path, study: sf.Study = SURVEY) -> Ledger:
    """A new ledger."""
    return Ledger.create(folder / "a.ledger", study)
