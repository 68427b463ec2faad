"""Which rows to measure, with how much noise, and how questions are read from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.arrays import Floats
from sfumato.central.margins import Margin
from sfumato.central.measuring import Measurements
from sfumato.errors import StudyError, TooLargeError
from sfumato.noise.allocate import Allocation, allocate, check
from sfumato.noise.search import search_gram
from sfumato.noise.strategies import FIXED, over_axes, telling
from sfumato.questions.lattice import Lattice
from sfumato.questions.reconstruction import Reader
from sfumato.questions.workload import Workload

if TYPE_CHECKING:
    from sfumato.study.axis import Axis


QUESTIONS, BEST = "questions", "best"
NAMES = (QUESTIONS, *FIXED, "searched", BEST)
MOST_READ = 1 << 24
MOST_SEARCHED = 256
_ROUNDS = 8
_SETTLED = 1e-4
_LITTLE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Measurements, and how to read questions from them.

    Attributes:
        measurements: The rows and their noise.
        reading: A row a question and a column a measurement, and one more, the last, for the number
            of people; None where the questions themselves are measured.
        variances: The variance of every question.
        name: The strategy in words.
        allocation: How the noise was allocated; None where a search did it.
        bent: Whether the rows that are measured stand in for slightly different questions.
    """

    measurements: Measurements
    reading: Floats | None
    variances: Floats
    name: str
    allocation: Allocation | None
    bent: bool = False

    def answers(self, noisy: Floats, n: int) -> Floats:
        """The questions, read from noisy measurements."""
        if self.reading is None:
            return noisy
        known = np.append(np.nan_to_num(noisy), float(n))
        return np.asarray(self.reading @ known)

    def reaches(self, level: float) -> Floats:
        """Half-widths of the questions' intervals, from the exact law of their noise."""
        if self.reading is None:
            return self.measurements.own_reaches(level)
        return self.measurements.reaches(self.reading[:, :-1], level)


def themselves(margin: Margin, weights: Floats, method: str) -> Design:
    """The questions themselves, each with its own noise."""
    lattice = Lattice.of(margin.workload)
    # By the workload, which knows what its questions are called.
    found = allocate(
        margin.workload, margin.edges, weights=weights, method=method, cells=margin.names
    )
    measured = Measurements(lattice, found.step_rates)
    return Design(measured, None, measured.variances, "the questions themselves", found)


def fixed(
    margin: Margin, strategy: str | Workload, axes: Sequence[Axis], weights: Floats, method: str
) -> Design:
    """Rows of a strategy; noise and reading by turns until neither changes.

    For given noise the best reading is weighted least squares, for given reading the best noise is
    an allocation with the squares of what is read from each row: neither turn raises the error.
    """
    rows = strategy if isinstance(strategy, Workload) else over_axes(strategy, axes)
    if rows.cells != margin.workload.cells:
        raise StudyError(
            f"a strategy must have one column for each of {margin.workload.cells} cells, got "
            f"{rows.cells}"
        )
    if margin.workload.questions * rows.questions > MOST_READ:
        raise TooLargeError(
            f"{margin.workload.questions:,} questions read from {rows.questions:,} rows are more "
            f"than {MOST_READ:,} numbers: ask fewer questions, or leave out the strategy"
        )
    lattice = Lattice.of(rows)
    name = strategy if isinstance(strategy, str) else "a given strategy"
    counts: Floats = np.ones(len(lattice))
    best, least = None, np.inf
    for _ in range(_ROUNDS):
        found = allocate(lattice, margin.edges, weights=counts, method=method, cells=margin.names)
        measured = Measurements(lattice, found.step_rates)
        design = _read(margin.workload, measured, name, found)
        total = float(weights @ design.variances)
        if total >= least * (1 - _SETTLED):
            break
        best, least = design, total
        if method != "exact" or design.reading is None:
            break
        counts = weights @ design.reading[:, :-1] ** 2
        counts = np.maximum(counts, _LITTLE * max(float(counts.max(initial=0.0)), 1e-300))
    if best is None:
        raise StudyError(f"strategy {name!r} answers these questions with no finite error")
    return best


def searched(margin: Margin, axes: Sequence[Axis], weights: Floats) -> Design:
    """Rows chosen for these questions and distances, among theirs and those of all strategies."""
    if margin.workload.cells > MOST_SEARCHED:
        raise TooLargeError(
            f"strategy='searched' looks among rows over at most {MOST_SEARCHED:,} cells, and there "
            f"are {margin.workload.cells:,}: name a strategy, or ask about fewer axes"
        )
    candidates = [telling(over_axes(name, axes).dense()) for name in FIXED]
    if np.all(weights == weights[0]) and margin.workload.questions > MOST_SEARCHED:
        gram = margin.workload.gram()
    else:
        held = margin.workload.dense()
        gram = held.T @ (weights[:, None] * held)
        candidates.insert(0, telling(held[:MOST_SEARCHED]))
    best = search_gram(gram, margin.edges, candidates).best
    lattice = Lattice.of(best.rows)
    kept = check(lattice, margin.edges, best.rates)
    if not kept:
        raise StudyError("the strategy that was found does not keep the guarantee: name one")
    steps = tuple(
        None if rate is None else rate * unit
        for rate, unit in zip(best.rates, lattice.units, strict=True)
    )
    return _read(margin.workload, Measurements(lattice, steps), "a searched strategy", None)


def _read(
    workload: Workload, measured: Measurements, name: str, found: Allocation | None
) -> Design:
    """How to read questions from measurements, and the error that is left."""
    reader = Reader.of(measured.lattice, measured.variances, known_total=True)
    reading = reader.matrix(workload)
    reading[np.abs(reading) < 1e-12 * np.abs(reading).max(initial=1.0)] = 0.0
    noise = np.where(np.isfinite(measured.variances), measured.variances, 0.0)
    return Design(measured, reading, reading[:, :-1] ** 2 @ noise, name, found)
