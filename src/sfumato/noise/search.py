"""The best rows among many for some questions under a metric."""

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

_MOST_LISTED = 1 << 14  # pairs that are handed to the solver at once
_STARTS = 4  # places from which rows are chosen, the first with all alike
_SEED = 6  # of the others


@dataclass(frozen=True, slots=True, eq=False)
class Searched:
    """The best strategy found, beside the fixed ones.

    Attributes:
        best: Rows and rates.
        fixed: The error of every fixed strategy that can answer.
    """

    best: Fitted
    fixed: dict[str, float]

    @property
    def gain(self) -> float:
        """By which factor the error is below that of the best fixed strategy, if any can answer."""
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
    """The best strategy found for some questions under a metric, beside the fixed ones.

    Args:
        questions: What will be asked: a workload, or a matrix of weights.
        distances: E.
        candidates: Where rows are taken from: names of fixed strategies, "balls", and matrices.
        bits: Whether rows must be 0 or 1 and are flipped, or have discrete Laplace noise.
        progress: Called with the share done.

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
    """The same from the Gram matrix of the questions."""
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
            continue  # this one alone cannot answer: its rows may still be of use
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
    """Rows to choose from, by where they come from."""
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
    """The rows that are left when those of little use fall out."""
    return turns(rows, start, replace(task, drop=True))


def _widened(best: Fitted, every: Lattice, task: Task) -> Fitted:
    """Begin once more with the best rows so far and all others, these with little weight."""
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
            "questions must be a workload or a matrix of finite weights, one row a question and "
            f"one column a cell, got shape {matrix.shape}"
        )
    result: Floats = np.matmul(matrix.T, matrix)
    return result


def _tell(progress: Progress | None, share: float) -> None:
    """Tell how far it is."""
    if progress is not None:
        progress(share)
