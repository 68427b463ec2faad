"""Ranges of two, three and four of many attributes under one ε, beside two other methods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, norm

import sfumato as sf
from benchmarks.hdg import Hdg
from benchmarks.recording import Measurement, progress

SIZE = 64
AXES = (4, 6, 8)
PEOPLE = (100_000, 1_000_000)
EPSILONS = (0.5, 1.0, 2.0)
WAYS = (2, 3, 4)
QUESTIONS = 30
FEW = 10  # questions of which many need all reports again
CORRELATION = 0.8
#: The margins of the Gaussian copula, by axis.
SHAPES = ((2, 5), (5, 2), (2, 2), (1, 3), (0.7, 0.7), (8, 3), (1, 1), (3, 8))

Codes = NDArray[np.int64]
Range = dict[int, tuple[int, int]]


@dataclass(frozen=True)
class Crowd:
    """People whose attributes are correlated."""

    codes: Codes
    questions: dict[int, list[Range]]
    truth: dict[int, NDArray[np.float64]]


def measure() -> Measurement:
    """All populations, numbers of attributes and people, and ε."""
    rows = list(_rows())
    return Measurement(
        f"ranges of several of many attributes of {SIZE} cells under one epsilon: RMSE of shares",
        rows,
        [
            f"Each row: {QUESTIONS} random ranges (both ends uniform) of random attributes. "
            "'pairs' is sf.Study(..., protect=Uniform(epsilon), people=n) as planned, with "
            "likelihood answers. 'hdg' is benchmarks/hdg.py, our own implementation of Yang et "
            "al. 2020. 'independent' reports every attribute by itself with epsilon/D, by the "
            "channel that the planner chooses, with unbiased answers cut at 0 and 1 "
            f"({FEW} of the questions).",
            "'laplace': multivariate normal, correlation 0.8, times the root of an exponential "
            "variable, four standard deviations each way on the axis; 'copula': a Gaussian copula "
            "with different beta margins. 'covered' is the share of 95 % intervals "
            "that hold the truth; those about three attributes or more allow for the perturbation "
            "alone.",
        ],
    )


def _rows() -> Iterator[dict[str, Any]]:
    """One row per population, size, ε and number of attributes asked about."""
    for people in PEOPLE:
        for count in AXES:
            for kind in ("laplace", "copula"):
                crowd = _crowd(kind, people, count)
                for epsilon in EPSILONS:
                    progress(f"{kind}, {count} attributes, {people:,} people, epsilon {epsilon}")
                    yield from _compared(kind, crowd, epsilon)


def _compared(kind: str, crowd: Crowd, epsilon: float) -> Iterator[dict[str, Any]]:
    """Three methods on one crowd."""
    people, count = crowd.codes.shape
    names = [f"a{k}" for k in range(count)]
    table = {name: crowd.codes[:, k] for k, name in enumerate(names)}
    study = sf.Study(
        "attributes",
        [sf.integers(name, 0, SIZE - 1) for name in names],
        protect=sf.Uniform(epsilon),
        people=people,
    )
    estimate = study.simulate(table, seed=1).estimate()
    grids = Hdg(crowd.codes, SIZE, epsilon, np.random.default_rng(2))
    alone = _Independent(crowd.codes, epsilon / count)
    for ways in (1, *WAYS):
        asked, true = crowd.questions[ways], crowd.truth[ways]
        found = [estimate.count({names[a]: r for a, r in q.items()}) for q in asked]
        held = [
            answer.low <= share * people <= answer.high
            for answer, share in zip(found, true, strict=True)
        ]
        ours = _rmse([answer.value / people for answer in found], true)
        others = {
            "hdg": _rmse([grids.share(q) for q in asked], true) if ways > 1 else None,
            "independent": _rmse([alone.share(q) for q in asked[:FEW]], true[:FEW]),
        }
        yield {
            "population": kind,
            "attributes": count,
            "people": people,
            "epsilon": epsilon,
            "ways": ways,
            "pairs": ours,
            **others,
            "hdg / pairs": None if others["hdg"] is None else others["hdg"] / ours,
            "covered": float(np.mean(held)),
        }


class _Independent:
    """Every attribute by itself, with a share of ε each."""

    def __init__(self, codes: Codes, epsilon: float) -> None:
        axis = sf.integers("a", 0, SIZE - 1, protect=sf.Uniform(epsilon))
        self._channel: Any = sf.Study("alone", [axis]).channels[0]
        self._sent = [
            np.asarray(self._channel.encode(column, sf.SeededBits(place)))
            for place, column in enumerate(codes.T)
        ]

    def share(self, ranges: Range) -> float:
        """The unbiased share of people within ranges, cut to what is possible."""
        product: Any = 1.0
        for axis, (low, high) in ranges.items():
            weights = np.zeros(SIZE)
            weights[low : high + 1] = 1
            product = product * self._channel.coefficients(weights)[self._sent[axis]]
        return float(np.clip(np.mean(product), 0, 1))


def _crowd(kind: str, people: int, count: int) -> Crowd:
    """People, with questions about them and the true answers."""
    rng = np.random.default_rng(count)
    shared = rng.normal(size=(people, 1)) * np.sqrt(CORRELATION)
    values = rng.normal(size=(people, count)) * np.sqrt(1 - CORRELATION) + shared
    if kind == "copula":
        below = norm.cdf(values)
        places = np.stack([beta(*SHAPES[k]).ppf(below[:, k]) for k in range(count)], axis=1)
    else:
        if kind == "laplace":
            values = values * np.sqrt(rng.exponential(size=(people, 1)))
        places = (values + 4) / 8
    codes = np.clip((places * SIZE).astype(np.int64), 0, SIZE - 1)
    questions = {
        ways: [
            {
                axis: (int(low), int(high))
                for axis in sorted(rng.choice(count, ways, replace=False).tolist())
                for low, high in [np.sort(rng.integers(0, SIZE, 2))]
            }
            for _ in range(QUESTIONS)
        ]
        for ways in (1, *WAYS)
    }
    truth = {
        ways: np.array([_true(codes, question) for question in asked])
        for ways, asked in questions.items()
    }
    return Crowd(codes, questions, truth)


def _true(codes: Codes, ranges: Range) -> float:
    """The true share of people within ranges."""
    inside = np.ones(len(codes), dtype=bool)
    for axis, (low, high) in ranges.items():
        inside &= (codes[:, axis] >= low) & (codes[:, axis] <= high)
    return float(inside.mean())


def _rmse(found: list[float], true: NDArray[np.float64]) -> float:
    """The root mean squared error."""
    return float(np.sqrt(np.mean((np.array(found) - true) ** 2)))
