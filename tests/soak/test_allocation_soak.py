"""Allocations of fresh workloads under fresh metrics of every kind and any scale: `make soak`.

Nothing here is statistical: every pair is checked in rational arithmetic, straight from the
definition, and every gap is proved.
"""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.errors import StudyError
from sfumato.exact import rational
from sfumato.metrics.distance import LineMetric
from sfumato.metrics.edges import Cliques, Edges
from sfumato.metrics.labelled import BlockMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.noise.allocate import Allocation, allocate, check

pytestmark = pytest.mark.soak

Rows = NDArray[Any]
Pairs = dict[tuple[int, int], Fraction]  # what is not listed may be told apart

CASES = 1_350
TOLERANCE = 1e-7
ROUNDED = 4e-9  # of the total variance, by rounding rates down to 30 bits: 2·2^-29
PUBLISHED = ("psa", "shared", "equal")


def _table(d: Rows) -> Pairs:
    """The finite entries of a square array, in both directions."""
    pairs = itertools.permutations(range(len(d)), 2)
    return {(i, j): rational(d[i, j], "d") for i, j in pairs if np.isfinite(d[i, j])}


def _array(rng: np.random.Generator, cells: int, kind: str) -> Rows:
    """Distances of one kind: points, asymmetric with infinities, a graph, or with zeros."""
    if kind == "points":
        places = rng.uniform(0, 100, (cells, 2))
        return np.asarray(np.sqrt(((places[:, None] - places) ** 2).sum(axis=-1)))
    if kind == "asymmetric":
        d = rng.choice([0.1, 0.3, 1.0, 2.0, 7.0, np.inf], (cells, cells))
    elif kind == "graph":
        d = np.where(rng.random((cells, cells)) < 2 / cells, rng.uniform(0.5, 2), np.inf)
    elif kind == "far apart":
        d = 10.0 ** rng.integers(-7, 7, (cells, cells))
    else:
        marks = rng.integers(0, max(2, cells // 2), cells)
        places = rng.integers(1, 9, max(2, cells // 2)).cumsum()
        d = np.abs(places[marks][:, None] - places[marks]).astype(float)
    np.fill_diagonal(d, 0)
    return d


def _metric(rng: np.random.Generator, cells: int, kind: str) -> tuple[Any, Pairs]:
    """A metric, and what it says of pairs, by other means."""
    if kind == "line":
        gaps = [Fraction(int(n), int(m)) for n, m in rng.integers(1, 99, (cells - 1, 2))]
        return LineMetric(gaps), {(i, i + 1): gap for i, gap in enumerate(gaps)}
    length = Fraction(int(rng.integers(1, 99)), 17)
    if kind == "uniform":
        pairs = itertools.combinations(range(cells), 2)
        return UniformMetric(length, cells), dict.fromkeys(pairs, length)
    marks = rng.integers(0, 3, cells)
    pairs = itertools.combinations(range(cells), 2)
    near = {(i, j): length for i, j in pairs if marks[i] == marks[j]}
    if kind == "blocks":
        return BlockMetric(length, np.unique(marks, return_inverse=True)[1]), near
    ends = rng.integers(0, cells, (cells, 2))
    ends = ends[ends[:, 0] != ends[:, 1]]
    long = [Fraction(int(n), 7) for n in rng.integers(1, 40, len(ends))]
    said = dict(near)
    for (i, j), most in zip(ends.tolist(), long, strict=True):
        pair = (min(i, j), max(i, j))
        said[pair] = min(most, said.get(pair, most))
    return Edges(
        ends[:, 0], ends[:, 1], long, cells, [Cliques(marks.astype(np.intp), length)]
    ), said


ARRAYS = ("points", "asymmetric", "graph", "far apart", "zeros")
KINDS = (*ARRAYS, "line", "uniform", "blocks", "groups")


def _queries(rng: np.random.Generator, cells: int) -> Rows:
    """Rows of one of several kinds, each perhaps of another size."""
    count = int(rng.integers(1, 9))
    kind = rng.integers(0, 4)
    if kind == 0:
        rows: Rows = rng.integers(0, 2, (count, cells)).astype(float)
    elif kind == 1:
        rows = rng.integers(-9, 10, (count, cells)).astype(float)
    elif kind == 2:
        rows = rng.uniform(-1, 1, (count, cells))
    else:
        rows = np.where(rng.random((count, cells)) < 0.2, rng.integers(1, 4, (count, cells)), 0.0)
    if rng.random() < 0.4:
        rows = rows * 10.0 ** rng.integers(-12, 13, (count, 1))
    return rows


def _merged(rows: Rows, pairs: Pairs) -> Rows:
    """Rows that do not tell apart what is at distance 0, by way of others or not."""
    mark = np.arange(rows.shape[1])
    for (i, j), length in pairs.items():
        if not length:
            mark[mark == mark[i]] = mark[j]
    return rows[:, mark]


def _spent(rows: list[list[Fraction]], rates: Any, i: int, j: int) -> Fraction | None:
    """Σ_k u_k·|Q_ki − Q_kj| in rationals; None if a row tells them apart without noise."""
    total = Fraction(0)
    for row, rate in zip(rows, rates, strict=True):
        apart = abs(row[i] - row[j])
        if apart and rate is None:
            return None
        total += (rate or Fraction(0)) * apart
    return total


def _holds(rows: Rows, rates: Any, pairs: Pairs) -> bool:
    """Whether every pair keeps its distance, for binary numbers and for the decimals they print."""
    for read in (Fraction, lambda x: Fraction(repr(x))):
        exact = [[read(x) for x in row] for row in rows.tolist()]
        spent = ((_spent(exact, rates, *pair), length) for pair, length in pairs.items())
        if not all(total is not None and total <= length for total, length in spent):
            return False
    return True


def _louder(found: Allocation, kind: str) -> list[Fraction | None]:
    """All rates a millionth higher; more where small distances among large ones are rounded."""
    times = 1 + Fraction(1, 100 if kind == "far apart" else 1_000_000)
    return [rate and rate * times for rate in found.rates]


@pytest.mark.parametrize("kind", KINDS)
def test_every_pair_holds_and_nothing_published_is_better(
    kind: str, seed: int, record_property: Callable[[str, Any], None]
) -> None:
    """The twin: rates a millionth higher do not hold, as some pair spends nearly all it may."""
    worst, ratios, seen = 0.0, [], collections.Counter[str]()
    for case in range(CASES // len(KINDS)):
        rng = np.random.default_rng([seed, case])
        cells = int(rng.integers(2, 16))
        if kind in ARRAYS:
            metric: Any = _array(rng, cells, kind)
            if kind != "far apart" and rng.random() < 0.4:
                metric = metric * 10.0 ** rng.choice([-12, -5, 5, 12])
            pairs = _table(metric)
        else:
            metric, pairs = _metric(rng, cells, kind)
        rows = _queries(rng, cells)
        weights = 10.0 ** rng.uniform(-6, 6, len(rows)) if rng.random() < 0.3 else None
        merged = _merged(rows, pairs)
        if not np.array_equal(rows, merged):
            seen["told apart at distance 0"] += 1
            with pytest.raises(StudyError, match="distance 0"):
                allocate(rows, metric)
        found = allocate(merged, metric, weights=weights, tolerance=TOLERANCE)
        assert check(merged, metric, found.rates), case
        assert _holds(merged, found.rates, pairs), case
        assert found.gap is not None
        worst = max(worst, found.gap)
        assert found.gap <= TOLERANCE + ROUNDED, case
        if any(found.rates):
            seen["with noise"] += 1
            assert not check(merged, metric, _louder(found, kind)), case
            assert not _holds(merged, _louder(found, kind), pairs), case
        for method in PUBLISHED:
            other = allocate(merged, metric, weights=weights, method=method)
            assert _holds(merged, other.rates, pairs), (case, method)
            assert found.objective <= other.objective * (1 + TOLERANCE + ROUNDED), (case, method)
            if found.objective:
                ratios.append(other.objective / found.objective)
    record_property("largest proved gap", worst)
    record_property("cases", dict(seen))
    record_property(
        "objective of published over exact", round(math.exp(np.mean(np.log(ratios))), 3)
    )
    assert seen["with noise"] > CASES // len(KINDS) // 4
