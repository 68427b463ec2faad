"""The search for a strategy: the best rows to measure for given questions under a metric.

Alternating between rates and reading (`strategies.turns`) drives the weight of useless rows to 0,
so that it selects among many rows. The problem is not convex: it is started from several places,
and the result is never worse than the best fixed strategy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from sfumato.arrays import Floats
from sfumato.errors import StudyError
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.edges import Edges, read_edges
from sfumato.noise.strategies import (
    FIXED,
    Fitted,
    Task,
    balls,
    canonical,
    distinct,
    fit,
    rows_of,
    squares_of,
    turns,
)
from sfumato.questions.lattice import Lattice
from sfumato.questions.workload import Workload, as_dense

Progress = Callable[[float], None]

CANDIDATES = (*FIXED, "balls")
MOST_CANDIDATES = 1024

_MOST_LISTED = 1 << 14  # pairs up to which all are given to the solver at once
_STARTS = 4  # starting points of the selection; the first has the same noise on all rows
_SEED = 6  # of the other starting points


@dataclass(frozen=True, slots=True, eq=False)
class Searched:
    """The best strategy found, and the errors of the fixed ones.

    Attributes:
        best: Rows and rates.
        fixed: The error of each fixed strategy that can answer the questions.
    """

    best: Fitted
    fixed: dict[str, float]

    @property
    def gain(self) -> float:
        """The error of the best fixed strategy that can answer, divided by the error found."""
        least = min(self.fixed.values(), default=math.inf)
        return least / self.best.error if self.best.error else 1.0


def search(
    questions: Workload | ArrayLike,
    distances: Edges | CellMetric,
    candidates: Sequence[str | ArrayLike] = CANDIDATES,
    *,
    bits: bool = False,
    progress: Progress | None = None,
) -> Searched:
    """Search for a strategy for some questions under a metric, and compare it with the fixed ones.

    Args:
        questions: What will be asked: a workload, or a matrix of weights.
        distances: E.
        candidates: The sources of rows: names of fixed strategies, "balls", and matrices.
        bits: Whether rows are bits that are flipped, rather than numbers with discrete Laplace
            noise.
        progress: Called with the share of the work done.

    Example:
        >>> from fractions import Fraction
        >>> from sfumato.metrics.distance import CappedLineMetric
        >>> from sfumato.metrics.distance import LineMetric
        >>> from sfumato.questions import Ranges
        >>> metric = CappedLineMetric(LineMetric.equal(Fraction(1, 2), 5), Fraction(3, 2))
        >>> found = search(Ranges(5), metric, bits=True)
        >>> found.gain > 1.1
        True
    """
    gram = questions.gram() if isinstance(questions, Workload) else _gram(questions)
    return search_gram(gram, read_edges(distances), candidates, bits=bits, progress=progress)


def search_gram(
    gram: Floats,
    edges: Edges,
    candidates: Sequence[str | ArrayLike] = CANDIDATES,
    *,
    bits: bool = False,
    progress: Progress | None = None,
) -> Searched:
    """The same from the Gram matrix of the questions.

    Args:
        gram: WᵀW.
        edges: E, as pairs that imply all.
        candidates: As in `search`.
        bits: As in `search`.
        progress: As in `search`.
    """
    if edges.pairs <= _MOST_LISTED:
        edges = edges.listed()
    parts = _parts(edges, candidates, bits)
    every = Lattice.of(distinct(np.concatenate(list(parts.values()))))
    task = Task(gram, edges, bits)
    alone = [(name, rows) for name, rows in parts.items() if name != "balls"]
    work, fixed = len(alone) + _STARTS + 1, {}
    found: list[Fitted] = []
    for done, (name, rows) in enumerate(alone):
        _tell(progress, done / work)
        try:
            found.append(fit(rows, gram, edges, bits=bits))
        except StudyError:
            continue  # it cannot answer alone, but its rows may still be useful
        fixed[name] = found[-1].error
    draw = np.random.Generator(np.random.PCG64(_SEED))
    even = squares_of(every, np.ones(len(every)), gram)
    for start in range(_STARTS):
        _tell(progress, (len(alone) + start) / work)
        mixed = even if not start else np.exp(draw.normal(size=len(every)))
        chosen = _chosen(every, mixed, task)
        found += [chosen] if chosen else []
    _tell(progress, 1 - 1 / work)
    best = min(found, key=lambda one: one.error)
    wider = _widened(best, every, task)
    wide = fit(wider.lattice, gram, edges, bits=bits, start=wider.squares)
    _tell(progress, 1.0)
    return Searched(min(best, wide, key=lambda one: one.error), fixed)


def _parts(edges: Edges, candidates: Sequence[str | ArrayLike], bits: bool) -> dict[str, Floats]:
    """The candidate rows, by source."""
    parts: dict[str, Floats] = {}
    for place, candidate in enumerate(candidates):
        if not isinstance(candidate, str):
            parts[f"given {place}"] = as_dense(Lattice.of(candidate).matrix())
        elif candidate != "balls" and not (bits and candidate == "haar"):
            parts[candidate] = rows_of(candidate, edges.size)
    if "balls" in [name for name in candidates if isinstance(name, str)]:
        room = MOST_CANDIDATES - sum(map(len, parts.values()))
        parts["balls"] = balls(edges, max(room, edges.size))
    return parts


def _chosen(rows: Lattice, start: Floats, task: Task) -> Fitted | None:
    """The rows that are left after those of little use have been dropped."""
    return turns(rows, start, replace(task, drop=True))


def _widened(best: Fitted, every: Lattice, task: Task) -> Fitted:
    """Start again from the best rows so far, with a little weight on all others."""
    squares = dict(zip(map(bytes, canonical(best.rows)), best.squares.tolist(), strict=True))
    little = float(np.median(best.squares)) / 4
    start = [squares.get(key, little) for key in map(bytes, canonical(as_dense(every.matrix())))]
    found = _chosen(every, np.array(start), task)
    return found if found and found.error < best.error else best


def _gram(questions: ArrayLike) -> Floats:
    """WᵀW of a matrix."""
    matrix = np.asarray(questions, dtype=np.float64)
    if matrix.ndim != 2 or not matrix.size or not np.isfinite(matrix).all():
        raise StudyError(
            "questions must be a workload or a matrix of finite weights, one row per question and "
            f"one column per cell, got shape {matrix.shape}"
        )
    result: Floats = np.matmul(matrix.T, matrix)
    return result


def _tell(progress: Progress | None, share: float) -> None:
    """Report progress."""
    if progress is not None:
        progress(share)
