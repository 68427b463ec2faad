"""Designs: which rows to measure, with how much noise, and how questions are read from them.

The rows are the questions themselves, those of a strategy, or questions bent so as to need less
noise. Bent rows follow Kamalaruban et al. 2020, problem (6), which measures P = c ⊙ Q′ in the place
of Q. Over n people in any cells the answer is then off by at most n·δ, δ = max |P − Q| (the paper
bounds it by the Euclidean norm, which is larger), and the noise has variance 2c²: the sum
n²δ² + 2c² is minimised. The number of people is public, so a constant added to a row costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import minimize_scalar

from sfumato.arrays import Floats
from sfumato.central.measurements import Measurements, worst_bias
from sfumato.central.space import Margin
from sfumato.checks import one_of
from sfumato.errors import StudyError, TooLargeError
from sfumato.metrics.edges import Edges
from sfumato.noise.allocate import Allocation, allocate, check
from sfumato.noise.search import search_gram
from sfumato.noise.strategies import FIXED, over_axes, telling
from sfumato.questions.lattice import Lattice
from sfumato.questions.reconstruction import Reader
from sfumato.questions.workload import Workload, as_dense

QUESTIONS, BEST, SEARCHED = "questions", "best", "searched"
NAMES = (QUESTIONS, *FIXED, SEARCHED, BEST)
_MOST_READ = 1 << 24  # numbers of a reading
_MOST_SEARCHED = 256  # cells over which rows are searched
_MOST_COMPARED = 128  # cells up to which strategies are tried unasked: a second or so
_MOST_READ_FROM = 256  # the same where questions are many: some seconds, where they take minutes
_MANY = 4  # questions per cell beyond which they are many
_MOST_BENT = 1 << 24  # entries of the matrix of bent questions
_MOST_BENT_CELLS = 2048
_MOST_TERMS = 1 << 22  # questions × pairs of cells that are compared while bending
_ROUNDS = 8
_SETTLED = 1e-4  # relative gain below which turns stop
_LITTLE = 1e-9  # the least weight of a row that is hardly read
_EQUAL = 1e-9  # relative difference of errors that rounding alone may make


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Measurements, and how to read questions from them.

    Attributes:
        measurements: The rows and their noise.
        reading: One row per question and one column per measurement, and a last column for the
            number of people; None where the questions themselves are measured.
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
        """The questions, read from noisy measurements.

        Args:
            noisy: The measurements; NaN where nothing is measured.
            n: Number of people.
        """
        if self.reading is None:
            return noisy
        known = np.append(np.nan_to_num(noisy), float(n))
        return np.asarray(self.reading @ known)

    def reaches(self, level: float) -> Floats:
        """Half-widths of the questions' intervals, from the exact law of their noise."""
        if self.reading is None:
            return self.measurements.own_reaches(level)
        return self.measurements.reaches(self.reading[:, :-1], level)

    def bias(self, asked: Workload, n: int) -> tuple[Floats, Floats]:
        """What to add to each answer, and how far it may then be off, beside its noise.

        Args:
            asked: The questions.
            n: Number of people.
        """
        lattice = self.measurements.lattice
        shift, bias = np.zeros(asked.questions), np.zeros(asked.questions)
        if self.reading is None and (self.bent or not lattice.is_exact):
            for part, rows in asked.chunks():
                held = lattice.select(np.arange(part.start, part.stop))
                shift[part], bias[part] = worst_bias(rows, as_dense(held.matrix()), n)
        return shift, bias


def themselves(asked: Margin, weights: Floats, method: str) -> Design:
    """The questions themselves, each with its own noise.

    Args:
        asked: The questions.
        weights: How much each question's variance counts.
        method: How noise is allocated.
    """
    lattice = Lattice.of(asked.workload)
    found = allocate(lattice, asked.edges, weights=weights, method=method, cells=asked.names)
    measured = Measurements(lattice, found.step_rates)
    return Design(measured, None, measured.variances, "the questions themselves", found)


def fixed(asked: Margin, strategy: str | Workload, weights: Floats, method: str) -> Design:
    """Rows of a strategy; noise and reading are improved in turns until neither changes.

    For given noise the best reading is weighted least squares; for a given reading the best noise
    is an allocation weighted by the squares of what is read from each row. Neither turn raises the
    error.

    Args:
        asked: The questions.
        strategy: The name of a strategy, or its rows.
        weights: How much each question's variance counts.
        method: How noise is allocated.
    """
    rows = strategy if isinstance(strategy, Workload) else over_axes(strategy, asked.own)
    if rows.cells != asked.workload.cells:
        raise StudyError(
            f"a strategy must have one column for each of {asked.workload.cells} cells, got "
            f"{rows.cells}"
        )
    if asked.workload.questions * rows.questions > _MOST_READ:
        raise TooLargeError(
            f"{asked.workload.questions:,} questions read from {rows.questions:,} rows are more "
            f"than {_MOST_READ:,} numbers: ask fewer questions, or leave out the strategy"
        )
    lattice = Lattice.of(rows)
    name = strategy if isinstance(strategy, str) else "a given strategy"
    counts: Floats = np.ones(len(lattice))
    best, least = None, np.inf
    for _ in range(_ROUNDS):
        found = allocate(lattice, asked.edges, weights=counts, method=method, cells=asked.names)
        measured = Measurements(lattice, found.step_rates)
        design = _read(asked.workload, measured, name, found)
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


def searched(asked: Margin, weights: Floats) -> Design:
    """Rows chosen for these questions and distances, among theirs and those of all strategies.

    Args:
        asked: The questions.
        weights: How much each question's variance counts.
    """
    if asked.workload.cells > _MOST_SEARCHED:
        raise TooLargeError(
            f"strategy='searched' looks among rows over at most {_MOST_SEARCHED:,} cells, and "
            f"there are {asked.workload.cells:,}: name a strategy, or ask about fewer axes"
        )
    candidates = [telling(over_axes(name, asked.own).dense()) for name in FIXED]
    if np.all(weights == weights[0]) and asked.workload.questions > _MOST_SEARCHED:
        gram = asked.workload.gram()
    else:
        held = asked.workload.dense()
        gram = held.T @ (weights[:, None] * held)
        candidates.insert(0, telling(held[:_MOST_SEARCHED]))
    best = search_gram(gram, asked.edges, candidates).best
    lattice = Lattice.of(best.rows)
    if not check(lattice, asked.edges, best.rates):
        raise StudyError("the strategy that was found does not keep the guarantee: name one")
    steps = tuple(
        None if rate is None else rate * unit
        for rate, unit in zip(best.rates, lattice.units, strict=True)
    )
    return _read(asked.workload, Measurements(lattice, steps), "a searched strategy", None)


def _read(
    workload: Workload, measured: Measurements, name: str, found: Allocation | None
) -> Design:
    """How to read questions from measurements, and the error that is left."""
    reader = Reader.of(measured.lattice, measured.variances, known_total=True)
    reading = reader.matrix(workload)
    reading[np.abs(reading) < 1e-12 * np.abs(reading).max(initial=1.0)] = 0.0
    noise = np.where(np.isfinite(measured.variances), measured.variances, 0.0)
    return Design(measured, reading, reading[:, :-1] ** 2 @ noise, name, found)


def best_design(asked: Margin, weights: Floats, method: str) -> Design:
    """The design of least total error: the questions themselves, or a strategy if cells are few.

    A single question whose coefficients take two values, such as a range, is measured itself. Read
    from rows A as r·A at rates u, its variance is Σ_k 2·r_k²/u_k² where noise is continuous. By
    itself it could have the rate min_ij d(i, j)/|q_i − q_j| ≥ min_k u_k/|r_k|, since
    d(i, j) ≥ Σ_k u_k·|A_ki − A_kj|: its own variance is at most the largest term of that sum. With
    more values its lattice may be finer than that of the rows, whose noise can then be less.

    Args:
        asked: The questions.
        weights: How much each question's variance counts.
        method: How noise is allocated.
    """
    cells, questions = asked.workload.cells, asked.workload.questions
    # Many questions about few cells take long to measure, and are better read from fewer rows.
    many = questions > _MANY * cells and cells <= _MOST_READ_FROM
    itself = partial(themselves, asked, weights, method)
    if not many and (cells > _MOST_COMPARED or _is_one_range(asked.workload)):
        return itself()
    tried: list[Callable[[], Design]] = [] if many else [itself]
    tried += [partial(fixed, asked, name, weights, method) for name in FIXED]
    found: list[Design] = []
    refused: list[StudyError | TooLargeError] = []
    for make in tried:
        try:
            found.append(make())
        except (StudyError, TooLargeError) as error:
            refused.append(error)
    if not found and many:  # too many to be read from anything
        return itself()
    if not found:
        raise refused[0]
    errors = [float(weights @ design.variances) for design in found]
    # Rounding must not decide: of equals the first is taken, the questions themselves before all.
    least = min(errors) * (1 + _EQUAL)
    return next(design for design, error in zip(found, errors, strict=True) if error <= least)


def _is_one_range(workload: Workload) -> bool:
    """Whether there is a single question, whose coefficients take at most two values."""
    return workload.questions == 1 and len(np.unique(workload.dense())) <= 2


# ---- bent questions ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Bent:
    """Rows to measure instead of the given ones.

    Attributes:
        rows: The rows P, shape (questions, cells).
        scales: The scale of the noise on each, before it is certified.
        objective: Σ w·(n²δ² + 2c²).
    """

    rows: Floats
    scales: Floats
    objective: float


def refuse_bias(bias: str) -> None:
    """Refuse an unknown way to treat bias."""
    one_of(bias, "bias", ("none", "optimised"))


def bent_design(asked: Margin, weights: Floats, n: int, method: str) -> Design:
    """Rows that are slightly wrong, if they have the smaller error.

    Args:
        asked: The questions.
        weights: How much each question's squared error counts.
        n: Number of people.
        method: How noise is allocated.
    """
    if asked.workload.questions * asked.workload.cells > _MOST_BENT:
        raise TooLargeError(
            f"bias='optimised' needs the matrix of {asked.workload.questions:,} questions × "
            f"{asked.workload.cells:,} cells, beyond {_MOST_BENT:,} entries: use bias='none'"
        )
    rows = asked.workload.dense()
    plain: Design | None = None
    scales: Floats = np.ones(len(rows))
    try:
        plain = themselves(asked, weights, method)
        scales = np.sqrt(plain.variances / 2)
    except StudyError:
        if len(rows) > 1:
            raise
    bent = bend(rows, asked.edges, n, weights, scales)
    lattice = Lattice.of(bent.rows)
    found = allocate(lattice, asked.edges, weights=weights, method=method, cells=asked.names)
    measured = Measurements(lattice, found.step_rates)
    design = Design(measured, None, measured.variances, "bent questions", found, bent=True)
    if plain is None:
        return design
    _, bias = worst_bias(rows, as_dense(lattice.matrix()), n)
    better = float(weights @ (measured.variances + bias**2)) < float(weights @ plain.variances)
    return design if better else plain


def bend(rows: Floats, edges: Edges, n: int, weights: Floats, scales: Floats) -> Bent:
    """The rows and scales with the least worst-case squared error.

    Args:
        rows: The questions Q, shape (questions, cells).
        edges: The distances.
        n: Number of people.
        weights: How much each question counts.
        scales: Scales of noise under which Q itself is private.

    Raises:
        TooLargeError: If there are too many cells or questions.
    """
    if edges.size > _MOST_BENT_CELLS:
        raise TooLargeError(
            f"bias='optimised' compares all pairs of {edges.size:,} cells, for at most "
            f"{_MOST_BENT_CELLS:,}: use coarser bins, fewer axes, or bias='none'"
        )
    if len(rows) == 1:
        return bend_one(rows[0], edges.distances(), n, float(weights[0]))
    return _bend_many(rows, edges, n, weights, scales)


def bend_one(row: Floats, distances: Floats, n: int, weight: float = 1.0) -> Bent:
    """Bend one question, exactly: the error is a convex function of one number, the scale c.

    The nearest row that is c-Lipschitz lies δ(c) = max_ij (|q_i − q_j| − c·d_ij)/2 away, and
    min_j (q_j + c·d_ij) + δ is one such (McShane); δ is convex in c.

    Args:
        row: The question q.
        distances: All distances d, infinite where nothing is promised.
        n: Number of people.
        weight: How much the squared error counts.

    Example:
        >>> steep = np.array([0.0, 0.0, 1.0])
        >>> line = np.abs(np.subtract.outer(np.arange(3.0), np.arange(3.0)))
        >>> bent = bend_one(steep, line, n=2)
        >>> bent.rows.round(3), bent.scales.round(3)
        (array([[0.333, 0.333, 0.667]]), array([0.333]))
    """
    apart = np.abs(np.subtract.outer(row, row))
    finite = np.isfinite(distances)
    near, length = apart[finite], distances[finite]

    def off(c: float) -> float:
        return max(0.0, float((near - c * length).max(initial=0.0)) / 2)

    def cost(c: float) -> float:
        return float(weight * (n**2 * off(c) ** 2 + 2 * c**2))

    told = length > 0
    most = float((near[told] / length[told]).max(initial=0.0))
    if most == 0.0:
        return Bent(_lipschitz(row, distances, 0.0, off(0.0)), np.zeros(1), cost(0.0))
    found = minimize_scalar(cost, bounds=(0.0, most), method="bounded", options={"xatol": 1e-10})
    c = min((most, float(found.x)), key=cost)
    return Bent(_lipschitz(row, distances, c, off(c)), np.array([c]), cost(c))


def _lipschitz(row: Floats, distances: Floats, c: float, off: float) -> Floats:
    """The row at most `off` away that moves by at most c times the distance."""
    reach = np.where(np.isfinite(distances), c * np.where(np.isfinite(distances), distances, 0), 0)
    held = np.where(np.isfinite(distances), row[None, :] + reach, math.inf)
    return np.asarray(held.min(axis=1) + off)[None, :]


def _bend_many(rows: Floats, edges: Edges, n: int, weights: Floats, scales: Floats) -> Bent:
    """Bend several questions: in turns each in what the others leave, then all scales at once.

    What is left is closed under shortest paths, as a row keeps to it exactly when it keeps to its
    closure; then each turn is one convex problem and none raises the objective.
    """
    if len(rows) * edges.size**2 > _MOST_TERMS:
        raise TooLargeError(
            f"bias='optimised' for {len(rows)} questions over {edges.size} cells compares "
            f"{len(rows) * edges.size**2:,} differences, for at most {_MOST_TERMS:,}: ask fewer "
            "questions, or use bias='none'"
        )
    distances = edges.distances()
    bent, c = rows.copy(), scales.copy()
    best = Bent(bent.copy(), c.copy(), _cost(rows, bent, c, n, weights))
    for _ in range(_ROUNDS):
        for k in range(len(rows)):
            others = [_told(bent[j], c[j]) for j in range(len(rows)) if j != k]
            left = _closed(np.maximum(distances - sum(others), 0.0))
            one = bend_one(rows[k], left, n)
            bent[k], c[k] = one.rows[0], one.scales[0]
        c = allocate(Lattice.of(bent), edges, weights=weights).scales
        value = _cost(rows, bent, c, n, weights)
        if not value < best.objective * (1 - _SETTLED):
            break
        best = Bent(bent.copy(), c.copy(), value)
    return best


def _cost(rows: Floats, bent: Floats, c: Floats, n: int, weights: Floats) -> float:
    """Σ w·(n²δ² + 2c²)."""
    off = np.ptp(bent - rows, axis=1) / 2
    return float(weights @ (n**2 * off**2 + 2 * c**2))


def _told(row: Floats, c: float) -> Floats:
    """How well a noisy row tells each pair of cells apart."""
    apart: Floats = np.abs(np.subtract.outer(row, row))
    return apart / c if c > 0 else np.zeros_like(apart)


def _closed(distances: Floats) -> Floats:
    """Shortest paths, where zeros are distances too."""
    held = distances.copy()
    for k in range(len(held)):
        np.minimum(held, held[:, k, None] + held[None, k, :], out=held)
    return held
