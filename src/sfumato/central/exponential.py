"""The exponential mechanism: choose one of several candidates, better ones more likely.

It needs the largest rate at which scores may be used. A number that changes by at most Δ(i, j) when
one person moves from cell i to cell j may be used at the rate min d(i, j)/Δ(i, j). Every Δ here
keeps the triangle inequality, so the pairs of `Edges` imply all others. Doubles only find the pairs
that may bind; rationals decide among them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.central.accuracy import worst_shortfall
from sfumato.central.mechanism import Counts, Expected, FromMargins, Outcome, question_answers
from sfumato.central.space import Questions, Space
from sfumato.checks import several
from sfumato.errors import StudyError, TooLargeError
from sfumato.estimation.intervals import normal_quantile
from sfumato.exact import rational
from sfumato.metrics.edges import Edges
from sfumato.noise.problem import Problem, caps, read_problem
from sfumato.questions.lattice import Lattice
from sfumato.questions.workload import Given, Workload
from sfumato.randomness.bits import BitSource
from sfumato.randomness.exponential import choose_by_exp, choose_by_scores

_NEAR = 1 - 2.0**-40  # ratios of doubles this close may be in either order
_MOST_ENTRIES = 1 << 28  # pairs × candidates whose ranges are looked at one by one
_CHUNK = 1 << 22  # entries of a table worked on at once

Integers = NDArray[np.int64]
Scorer = Callable[[Counts], Sequence[Any]]


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedExponential(FromMargins):
    """Candidates and how strongly scores count, ready for a table.

    Attributes:
        candidates: What may be chosen.
        rate: A candidate is chosen with chance ∝ e^(rate·score); None where no noise is needed.
        axes: Numbers of the axes that the scores are about.
        steps: Scores of every cell in whole steps, where they are linear.
        unit: Size of a step.
        scorer: What gives the scores, where they are not linear.
        off: How far a score may be off by the rounding of its weights.
    """

    candidates: tuple[str, ...]
    rate: Fraction | None
    axes: tuple[int, ...]
    steps: Any = None
    unit: Fraction = Fraction(1)
    scorer: Scorer | None = None
    off: float = 0.0

    @property
    def margins(self) -> tuple[tuple[int, ...], ...]:
        """The one histogram that is needed."""
        return (self.axes,)

    @property
    def shortfall(self) -> float:
        """How far below the best the chosen score is at most, with the chance `level`."""
        if self.rate is None:
            return 2 * self.off
        found = worst_shortfall(len(self.candidates), float(self.rate), delta=1 - self.level)
        return found + 2 * self.off

    def expected(self) -> Expected:
        """How far below the best the chosen score may be."""
        return Expected(
            labels=("score of the choice, below the best",),
            stderr=np.array([math.nan]),
            reach=np.array([self.shortfall]),
            level=self.level,
            unit="score",
            how="worst case over all tables",
        )

    def scores(self, counts: Counts) -> Integers | list[Fraction]:
        """Scores in whole steps of `unit`, or as rationals; private, never to be shown."""
        if self.scorer is None:
            return np.asarray(self.steps @ counts, dtype=np.int64)
        found = self.scorer(counts)
        if len(found) != len(self.candidates):
            raise StudyError(
                f"scores must be one for each of {len(self.candidates)} candidates, got "
                f"{len(found)}"
            )
        try:
            return [rational(score, "score") for score in found]
        except StudyError:  # which would name a private value
            raise StudyError("scores must be finite numbers, and some are not") from None

    def run_margins(self, counts: Sequence[Counts], bits: BitSource) -> Outcome:
        """Choose from the people in each cell of the axes that the scores are about.

        Args:
            counts: One histogram, that of these axes.
            bits: Where randomness comes from.
        """
        scores = self.scores(counts[0])
        if self.rate is None:
            chosen = max(range(len(scores)), key=scores.__getitem__)
        elif isinstance(scores, list):
            chosen = choose_by_exp([self.rate * score for score in scores], bits)
        else:
            chosen = choose_by_scores(scores, self.rate * self.unit, bits)
        name = self.candidates[chosen]
        answers = question_answers(
            [f"score of {name!r}, below the best"],
            np.zeros(1),
            np.array([math.nan]),
            n=self.n,
            bounds=(np.zeros(1), np.array([self.shortfall])),
            level=self.level,
            method="exponential",
            unit="score",
        )
        rate = None if self.rate is None else float(self.rate)
        return Outcome(answers=answers, details={"chosen": name, "number": chosen, "rate": rate})


@dataclass(frozen=True, eq=False)
class Exponential:
    """The exponential mechanism: choose a candidate with chance ∝ e^(rate·score), exactly.

    Guarantee:
        d-private for d = what is spent. When a person moves from cell i to cell j, linear scores
        move by s_rj − s_ri, and the odds of any choice by at most the rate times the range of
        these moves over the candidates: the rate is the largest that keeps every d(i, j), in exact
        arithmetic. Theorem 3 of the paper has twice the largest move in place of the range, which
        is never smaller. With a function for the scores the guarantee rests on the sensitivity
        that is stated for it.

    Args:
        candidates: What may be chosen.
        scores: How good each candidate is: questions in the study's own language, whose counts
            are the scores; a matrix with one row per candidate and one column per cell; or a
            function that takes the people in each cell, flat in C order, and gives one number per
            candidate.
        sensitivity: For a function only: how much any score can change when one person moves from
            cell i to cell j: a number, or a function of i and j.
        level: Chance with which the chosen score is at most the stated shortfall below the best.

    Raises:
        StudyError: If candidates and scores do not match.

    Example:
        >>> import sfumato as sf
        >>> modes = sf.categories("mode", ["car", "bus", "bike"], protect=sf.Uniform(1))
        >>> study = sf.Study("modes", [modes])
        >>> favourite = Exponential(["car", "bus", "bike"], ["mode=car", "mode=bus", "mode=bike"])
        >>> prepared = favourite.prepare(sf.central.Space(study, "1/2"), n=1000)
        >>> prepared.rate, round(prepared.shortfall, 1)
        (Fraction(1, 4), 14.6)

    References:
        Kamalaruban et al. 2020, section 3.2; Dong, Durfee, Rogers 2020 on ranges.
    """

    candidates: Sequence[str]
    scores: Questions | Scorer
    _: KW_ONLY
    sensitivity: Any = None
    level: float = 0.95

    def __post_init__(self) -> None:
        """Refuse candidates and scores that do not fit."""
        names = tuple(map(str, several(self.candidates, "candidates")))
        if not names:
            raise StudyError("there must be at least one candidate to choose from, got none")
        if len(set(names)) < len(names):
            raise StudyError("candidates must have different names, got one of them twice")
        function = callable(self.scores) and not isinstance(self.scores, Workload)
        if function and self.sensitivity is None:
            raise StudyError(
                "a function for the scores needs sensitivity: how much any score can change when "
                "one person moves from cell i to cell j, a number or a function of i and j"
            )
        if not function and self.sensitivity is not None:
            raise StudyError("sensitivity is for a function only: that of linear scores is known")
        normal_quantile(self.level)
        object.__setattr__(self, "candidates", names)

    def describe(self) -> str:
        """The mechanism in a few words."""
        shown = ", ".join(repr(name) for name in self.candidates[:3])
        more = f" and {len(self.candidates) - 3} more" if len(self.candidates) > 3 else ""
        return f"Exponential choice among {shown}{more}"

    def prepare(self, space: Space, n: int) -> PreparedExponential:
        """Find the rate from the scores' weights, or from the stated sensitivity.

        Args:
            space: The cells, and the distances that this release may spend.
            n: Number of people.

        Raises:
            StudyError: If scores and candidates differ in number, or scores tell apart cells at
                distance 0.
        """
        names = tuple(self.candidates)
        if callable(self.scores) and not isinstance(self.scores, Workload):
            return PreparedExponential(
                candidates=names,
                n=n,
                level=self.level,
                rate=_stated_rate(space.edges, self.sensitivity),
                shape=space.shape,
                axes=tuple(range(len(space.shape))),
                scorer=self.scores,
            )
        asked = space.margin(_questions(self.scores))
        if asked.workload.questions != len(names):
            raise StudyError(
                f"scores must be one for each of {len(names)} candidates, got "
                f"{asked.workload.questions}"
            )
        lattice = Lattice.of(asked.workload)
        steps, unit = common_steps(lattice)
        if int(abs(steps).max()) * n >= 1 << 62:
            raise TooLargeError(
                f"scores of {n:,} people do not fit whole numbers of 64 bits: use coarser weights"
            )
        return PreparedExponential(
            candidates=names,
            n=n,
            level=self.level,
            rate=_linear_rate(lattice, asked.edges, names, asked.names),
            shape=space.shape,
            axes=asked.axes,
            steps=steps,
            unit=unit,
            off=n * float(lattice.off.max()),
        )


def _questions(scores: Any) -> Any:
    """A matrix as a workload; anything else as it is."""
    empty = isinstance(scores, (list, tuple)) and not scores
    if empty or isinstance(scores, (str, Mapping, Workload)):
        return scores
    in_words = isinstance(scores, (list, tuple)) and isinstance(scores[0], (str, Mapping))
    return scores if in_words else Given(scores)


def _linear_rate(
    lattice: Lattice, edges: Edges, names: Sequence[str], cells: Sequence[str] | None
) -> Fraction | None:
    """The largest rate for linear scores."""
    if edges.pairs * len(names) > _MOST_ENTRIES:
        rates = [rate for rate in alone(lattice, edges, names, cells) if rate is not None]
        return min(rates) / 2 if rates else None
    steps, unit = common_steps(lattice)
    by_cell = np.ascontiguousarray(dense(steps).T)

    def ranges(first: NDArray[np.intp], second: NDArray[np.intp]) -> Integers:
        moves = by_cell[second] - by_cell[first]
        return np.asarray(moves.max(axis=1) - moves.min(axis=1), dtype=np.int64)

    found = least_rate(edges, ranges, max(1, _CHUNK // len(names)), cells)
    return None if found is None else found / unit


def _stated_rate(edges: Edges, sensitivity: Any) -> Fraction | None:
    """The largest rate for scores whose moves are bounded pair by pair: min d/(2·bound)."""
    listed = edges.listed()
    best: Fraction | None = None
    for i, j, length in zip(listed.first, listed.second, listed.lengths, strict=True):
        ways = ((int(i), int(j)), (int(j), int(i)))
        stated = [sensitivity(*way) if callable(sensitivity) else sensitivity for way in ways]
        read = [rational(one, "sensitivity") for one in stated]
        most, given = max(read), stated[read.index(max(read))]
        if min(read) < 0:
            raise StudyError(
                f"sensitivity must be 0 or more, got sensitivity={stated[read.index(min(read))]!r}"
            )
        if most and not length:
            raise StudyError(
                f"cells {i} and {j} are at distance 0, so sensitivity must be 0 for them, got "
                f"{given!r}"
            )
        if most:
            rate = length / (2 * most)
            best = rate if best is None or rate < best else best
    return best


# ---- rates -------------------------------------------------------------------------------------


def alone(
    lattice: Lattice,
    edges: Edges,
    names: Sequence[str] | None = None,
    cells: Sequence[str] | None = None,
) -> list[Fraction | None]:
    """The largest rate 1/c each query could have if it were the only one: min d(i,j)/|q_i − q_j|.

    Args:
        lattice: The queries.
        edges: The distances.
        names: What to call a query in an error.
        cells: What to call a cell.

    Returns:
        One rational per query; None where no pair at a finite distance tells cells apart.

    Raises:
        StudyError: If a query tells apart two cells at distance 0.

    Example:
        >>> edges = Edges([0, 1], [1, 2], [Fraction(1, 2), Fraction(1, 3)], 3)
        >>> alone(Lattice.of([[0, 1, 2], [1, 1, 0], [1, 1, 1]]), edges)
        [Fraction(1, 3), Fraction(1, 3), None]
    """
    problem = read_problem(lattice, edges, names, cells)
    edges = problem.edges
    with np.errstate(divide="ignore"):
        near = _NEAR / caps(problem)[0]  # steps over distance, of the pairs that may bind
    best: list[Fraction | None] = [None] * problem.queries

    def offer(query: int, steps: int, length: Fraction) -> None:
        rate, known = length / steps, best[query]
        best[query] = rate if known is None or rate < known else known

    for _, _, lengths, found in problem.listed():
        apart = dense(found)
        distinct, which = np.unique(lengths, return_inverse=True)
        real = distinct.astype(np.float64)[which] * float(edges.unit)
        pairs, queries = np.nonzero((apart >= real[:, None] * near) & (apart > 0))
        rows = np.stack([queries, apart[pairs, queries], which[pairs]], axis=1)
        for query, steps, place in np.unique(rows, axis=0).tolist():
            offer(query, steps, int(distinct[place]) * edges.unit)
    for clique in edges.cliques:
        for query, steps in enumerate(_spread(problem, clique.marks).tolist()):
            if steps:
                offer(query, steps, clique.length)
    return [
        None if rate is None else rate / unit
        for rate, unit in zip(best, lattice.units, strict=True)
    ]


def _spread(problem: Problem, marks: NDArray[np.intp]) -> Integers:
    """The largest difference of every query between cells of one mark."""
    order = np.argsort(marks, kind="stable")
    starts = np.flatnonzero(np.diff(marks[order], prepend=-1))
    spread = np.zeros(problem.queries, dtype=np.int64)
    width = max(1, _CHUNK // len(order))
    for first in range(0, problem.queries, width):
        part = slice(first, first + width)
        some = dense(problem.steps[:, part])[order]
        high, low = np.maximum.reduceat(some, starts), np.minimum.reduceat(some, starts)
        spread[part] = (high - low).max(axis=0)
    return spread


def least_rate(
    edges: Edges,
    cost: Callable[[NDArray[np.intp], NDArray[np.intp]], Sequence[int] | Integers],
    pairs: int = 1 << 14,
    cells: Sequence[str] | None = None,
) -> Fraction | None:
    """The largest rate at which a cost of every pair keeps its distance: min d(i,j)/cost(i,j).

    Args:
        edges: The distances.
        cost: Whole numbers for many pairs at once, which keep the triangle inequality.
        pairs: How many pairs at once.
        cells: What to call a cell in an error.

    Returns:
        A rational; None where no pair at a finite distance has a cost.

    Raises:
        StudyError: If a pair at distance 0 has a cost.

    Example:
        >>> edges = Edges([0, 1], [1, 2], [Fraction(1, 2), Fraction(1, 3)], 3)
        >>> least_rate(edges, lambda i, j: (i + j).tolist())
        Fraction(1, 9)
    """
    listed = edges.listed()
    best: Fraction | None = None
    for first, second, lengths in listed.chunks(pairs):
        most: dict[int, int] = {}
        costs = np.asarray(cost(first, second)).tolist()
        for place, (length, spent) in enumerate(zip(lengths.tolist(), costs, strict=True)):
            if spent > most.get(length, 0):
                most[length] = spent
                if length == 0:
                    _refuse_zero(int(first[place]), int(second[place]), cells)
        for length, spent in most.items():
            rate = int(length) * listed.unit / int(spent)
            best = rate if best is None or rate < best else best
    return best


def _refuse_zero(i: int, j: int, cells: Sequence[str] | None) -> None:
    """Refuse scores that differ between cells at distance 0."""
    names = [f"cell {cell}" if cells is None else repr(cells[cell]) for cell in (i, j)]
    raise StudyError(
        f"{names[0]} and {names[1]} are at distance 0, so nothing may tell them apart, but the "
        "scores do: give both the same scores, or a distance above 0"
    )


def dense(matrix: Any) -> Integers:
    """Whole numbers as an array, whether they were sparse or not."""
    held = matrix.toarray() if hasattr(matrix, "toarray") else matrix
    return np.asarray(held, dtype=np.int64)


def common_steps(lattice: Lattice) -> tuple[Any, Fraction]:
    """All queries in whole steps of one unit: the steps as a matrix, and the unit.

    Args:
        lattice: The queries, each in steps of its own.

    Raises:
        TooLargeError: If the units of the rows differ too much for whole numbers of 64 bits.
    """
    below = math.lcm(*(unit.denominator for unit in lattice.units))
    whole = [int(unit * below) for unit in lattice.units]
    unit = Fraction(math.gcd(*whole), below)
    times = [int(size / unit) for size in lattice.units]
    largest = int(np.abs(lattice.steps).max()) if lattice.steps.size else 0
    if max(times) * max(1, largest) >= 1 << 44:
        raise TooLargeError(
            "the coefficients of these questions have no common unit of at most 2^44 steps: round "
            "them, or put them on a lattice with a granularity"
        )
    if all(factor == 1 for factor in times):
        return lattice.steps, unit
    factors = np.array(times, dtype=np.int64)
    if lattice.is_sparse:
        return sparse.csr_array(sparse.diags_array(factors, dtype=np.int64) @ lattice.steps), unit
    return lattice.steps * factors[:, None], unit
