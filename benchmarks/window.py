"""The window family against its two ends, by best linear and by likelihood decoding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.recording import Measurement, progress
from sfumato.estimation.decoding.evidence import fit_by_evidence
from sfumato.estimation.decoding.mixture import RowMixture
from sfumato.estimation.decoding.posterior import Decoder

Floats = NDArray[np.float64]

EPSILONS = (0.1, 0.2, 0.3, 0.5, 1.0)
SIZES = (32, 64)
PEOPLE = 100_000
RANGES = 500
REPEATS = 3
DECODED_SIZE = 64


@dataclass(frozen=True)
class Windows:
    """A window [a, a + length] near the value, and noisy thermometer bits inside it.

    Length 0 is the geometric channel; a length of size − 1 or more, with the window held still, the
    thermometer. Windows wholly outside to one side have proportional likelihoods and are one.
    """

    size: int
    epsilon: float
    length: int

    @property
    def starts(self) -> NDArray[np.int64]:
        """The first cell of every window; the first and last stand for all beyond."""
        return np.arange(-self.length, self.size)

    @cached_property
    def chances(self) -> Floats:
        """P(window | cell), one row per cell."""
        alpha = math.exp(-self.epsilon)
        x, a = np.arange(self.size)[:, None], self.starts
        apart = np.maximum(np.maximum(a - x, x - a - self.length), 0)
        law = alpha**apart / (self.length + 1 + 2 * alpha / (1 - alpha))
        law[:, [0, -1]] /= 1 - alpha
        return law

    def thresholds(self, start: int) -> NDArray[np.int64]:
        """Thresholds of the bits that say anything: inside the window and inside the axis."""
        return np.arange(max(start, 0), min(start + self.length, self.size - 1))

    def information(self) -> Floats:
        """G of the best function that is affine in each window's bits, all cells equally common.

        A function f with E[f | x] = w[x] and the least mean of f² has that mean at w·G⁻¹·w.
        """
        shrink = math.tanh(self.epsilon / 2)
        cells = np.arange(self.size)
        total = np.zeros((self.size, self.size))
        for column, start in enumerate(self.starts):
            total += _block(self.chances[:, column], cells, self.thresholds(start), shrink)
        return total

    def reports(self, cells: NDArray[np.int64], rng: np.random.Generator) -> Floats:
        """P(report | cell) up to a factor, for one random report per person.

        Args:
            cells: Everybody's cell.
            rng: Where reports are drawn from.
        """
        bounds = np.cumsum(self.chances, axis=1)[cells]
        column = (rng.random(len(cells))[:, None] > bounds[:, :-1]).sum(axis=1)
        start = self.starts[column][:, None]
        threshold = np.arange(self.size - 1)
        inside = (start <= threshold) & (threshold < start + self.length)
        return _log_odds(self.chances.T[column], cells, inside, self.epsilon, rng)


@dataclass(frozen=True)
class Thermometer:
    """All bits, always: the other end of the family."""

    size: int
    epsilon: float

    def information(self) -> Floats:
        """As for windows, with one that covers all."""
        cells = np.arange(self.size)
        return _block(np.ones(self.size), cells, cells[:-1], math.tanh(self.epsilon / 2))

    def reports(self, cells: NDArray[np.int64], rng: np.random.Generator) -> Floats:
        """P(report | cell) up to a factor, for one random report per person.

        Args:
            cells: Everybody's cell.
            rng: Where reports are drawn from.
        """
        inside = np.ones((len(cells), self.size - 1), dtype=bool)
        return _log_odds(np.ones((1, self.size)), cells, inside, self.epsilon, rng)


def _block(
    chance: Floats, cells: NDArray[np.int64], thresholds: NDArray[np.int64], shrink: float
) -> Floats:
    """M·S⁻¹·Mᵀ of one window: M the means of 1 and its bits, S their second moments."""
    means = np.ones((len(cells), 1 + len(thresholds)))
    means[:, 1:] = np.where(cells[:, None] <= thresholds, shrink, -shrink)
    weighed = means * chance[:, None]
    second = means.T @ weighed / len(cells)
    second[np.diag_indices(len(second))] = chance.mean()
    return weighed @ np.linalg.solve(second, weighed.T)


def _log_odds(
    chances: Floats,
    cells: NDArray[np.int64],
    inside: NDArray[np.bool_],
    epsilon: float,
    rng: np.random.Generator,
) -> Floats:
    """Likelihood rows from the windows' chances and freshly drawn bits."""
    threshold = np.arange(inside.shape[1])
    bits = (cells[:, None] <= threshold) ^ (rng.random(inside.shape) < 1 / (1 + math.exp(epsilon)))
    step = np.where(inside, np.where(bits, -epsilon, epsilon), 0.0)
    rows = np.zeros((len(cells), inside.shape[1] + 1))
    np.cumsum(step, axis=1, out=rows[:, 1:])
    rows += np.log(chances)
    return np.exp(rows - rows.max(axis=1, keepdims=True))


def family(size: int, epsilon: float) -> dict[str, Windows | Thermometer]:
    """The two ends and the window between them.

    Args:
        size: How many cells.
        epsilon: ε per cell.
    """
    return {
        "geometric": Windows(size, epsilon, 0),
        "thermometer": Thermometer(size, epsilon),
        "window": Windows(size, epsilon, round(2 / epsilon)),
    }


def random_ranges(size: int, rng: np.random.Generator) -> Floats:
    """Ranges between two uniform ends, as rows of weights.

    Args:
        size: How many cells.
        rng: Where they are drawn from.
    """
    ends = np.sort(rng.integers(0, size, (RANGES, 2)), axis=1)
    cells = np.arange(size)
    return ((ends[:, :1] <= cells) & (cells <= ends[:, 1:])).astype(np.float64)


def two_bumps(size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """60 % normal(35, 8), 30 % normal(70, 5), 10 % uniform on 0..99, scaled to the axis.

    Args:
        size: How many cells.
        rng: Where people are drawn from.
    """
    which = rng.random(PEOPLE)
    values = np.where(
        which < 0.6,
        rng.normal(35, 8, PEOPLE),
        np.where(which < 0.9, rng.normal(70, 5, PEOPLE), rng.integers(0, 100, PEOPLE)),
    )
    return np.clip(values * size / 100, 0, size - 1).astype(np.int64)


def linear_rows() -> list[dict[str, Any]]:
    """Exact variance per person over random ranges, all cells equally common."""
    rows = []
    for size in SIZES:
        w = random_ranges(size, np.random.default_rng(size))
        for epsilon in EPSILONS:
            found = {}
            for name, channel in family(size, epsilon).items():
                second = np.sum(w * np.linalg.solve(channel.information(), w.T).T, axis=1)
                found[name] = float(np.mean(second - w.mean(axis=1)))
            rows.append(_row("linear: variance a person", size, epsilon, found))
    return rows


def likelihood_rows() -> list[dict[str, Any]]:
    """RMSE of range fractions × 1000 by the library's likelihood decoding, over fresh people."""
    rows = []
    for epsilon in EPSILONS:
        seen: dict[str, list[tuple[float, float]]] = {}
        for seed in range(REPEATS):
            progress(f"likelihood, ε = {epsilon}, repeat {seed + 1}")
            rng = np.random.default_rng([seed, round(1000 * epsilon)])
            cells = two_bumps(DECODED_SIZE, rng)
            w = random_ranges(DECODED_SIZE, rng)
            truth = w @ np.bincount(cells, minlength=DECODED_SIZE)
            for name, channel in family(DECODED_SIZE, epsilon).items():
                value, variance = _decoded(channel.reports(cells, rng), w)
                pair = float(np.mean((value - truth) ** 2)), float(np.mean(variance))
                seen.setdefault(name, []).append(pair)
        scale = 1000 / PEOPLE
        mean = {name: scale * np.sqrt(np.mean(pairs, axis=0)) for name, pairs in seen.items()}
        for place, kind in enumerate(("RMSE × 1000", "expected RMSE × 1000")):
            found = {name: float(pair[place]) for name, pair in mean.items()}
            rows.append(_row(f"likelihood: {kind}", DECODED_SIZE, epsilon, found))
    return rows


def _decoded(reports: Floats, w: Floats) -> tuple[Floats, Floats]:
    """Counts of ranges that the library reads from these reports, and the variance it expects."""
    counts: Floats = np.ones(len(reports))
    first = reports[:1000]
    if len(np.unique(first, axis=0)) < len(first) // 4:  # few distinct reports: join the equal ones
        reports, joined = np.unique(reports, axis=0, return_counts=True)
        counts = joined.astype(np.float64)
    mixture = RowMixture((reports.shape[1],), counts, reports)
    return Decoder(fit_by_evidence(mixture, [True])).moments(w)


def _row(kind: str, size: int, epsilon: float, found: dict[str, float]) -> dict[str, Any]:
    """The figures side by side, and the window against the better end."""
    ratio = found["window"] / min(found["geometric"], found["thermometer"])
    return {"decoding": kind, "m": size, "ε": epsilon, **found, "window/better end": ratio}


def measure() -> Measurement:
    """Both ways of decoding, the same guarantee throughout."""
    return Measurement(
        f"windows of length 2/ε against geometric and thermometer, {RANGES} random ranges",
        [*linear_rows(), *likelihood_rows()],
        [
            "linear: exact, all cells equally common, best function affine in each window's bits. "
            f"likelihood: {PEOPLE:,} people in two bumps, {REPEATS} repeats; 'expected' is what "
            "the decoder itself expects, and varies less between repeats."
        ],
    )
