"""Studies of every kind to plan, and how far a choice of channel is from the best."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from helpers_statistics import exact_variance
from numpy.typing import ArrayLike, NDArray

import sfumato as sf
from sfumato.channels.choice import Choice
from sfumato.study.axis import Together
from sfumato.study.choose import choose_channel

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:  # for the benchmarks, whose populations are measured here again
    sys.path.insert(0, str(ROOT))

from benchmarks.choice import CHANNELS, Ratio, line_study, two_bumps  # noqa: E402

Floats = NDArray[np.float64]
WITHIN = math.log(1.10)


def chosen_id(size: int, epsilon: float, method: str, people: int | None = None) -> str:
    """The id of the channel that the planner gives a line."""
    metric = sf.integers("a", 0, size - 1, protect=sf.Distance(epsilon)).metric()
    return choose_channel(metric, method=method, people=people)[0].id


def unbiased_regret(size: int, epsilon: float, axes: int, name: str) -> float:
    """Error of random ranges over all axes together, over the best of all mixes of channels."""
    from sfumato.planning.variances import Terms, prior_of, variance
    from sfumato.questions.lines import Ranges

    def error(chosen: str) -> float:
        channel = CHANNELS[chosen if chosen in CHANNELS else chosen_id(size, epsilon, chosen)]
        study = line_study(size, epsilon, channel, axes=axes)
        terms = Terms.mean(study.channels[0], [Ranges(size)])
        return math.sqrt(
            variance(prior_of(study, "flat"), {(axis,): terms for axis in range(axes)})
        )

    return error(name) / min(error("geometric"), error("thermometer"))


def near_the_best(ratio: Ratio, chosen: str, errors: float = 4) -> bool:
    """Whether the chosen channel is within a tenth of the better, but for some standard errors."""
    return math.log(ratio.regret(chosen)) <= WITHIN + errors * ratio.stderr


def linear_ratio(size: int, epsilon: float, n: int) -> Ratio:
    """What the best linear answers would make of it: a theory of the choice, without a draw.

    Shares vary around flat with the mean covariance of the four populations (the smooth ones also
    back to front), and a report tells of them what it does of a flat population.
    """
    spread = _covariance(size)
    logs = []
    for information in (_geometric_information, _thermometer_information):
        told = n * information(size, epsilon)
        left = spread @ np.linalg.inv(np.eye(size) + told @ spread)
        below = np.tri(size + 1, size, -1)
        ends = below @ left @ below.T
        logs.append(math.log((size + 1) * np.trace(ends) - ends.sum()))
    return Ratio((logs[1] - logs[0]) / 2, 0.0, 0)


def _covariance(size: int) -> Floats:
    slope, spikes = np.arange(1.0, size + 1), 1 / np.arange(1.0, size + 1) ** 1.1
    total = np.var(spikes / spikes.sum(), ddof=1) * (np.eye(size) - 1 / size)
    for shape in (slope, slope[::-1], two_bumps(size), two_bumps(size)[::-1]):
        off = shape / shape.sum() - 1 / size
        total += np.outer(off, off) / 2
    return total / 4


def _geometric_information(size: int, epsilon: float) -> Floats:
    law = line_study(size, epsilon, sf.Geometric()).channels[0].likelihood()
    return (law / law.mean(axis=0)) @ law.T


def _thermometer_information(size: int, epsilon: float) -> Floats:
    """Of the bits' means and covariances; higher moments tell little where ε is small."""
    shrink = math.tanh(epsilon / 2)
    below = np.arange(size)[:, None] <= np.arange(size - 1)
    means = np.hstack([np.ones((size, 1)), np.where(below, shrink, -shrink)])
    second = means.T @ means / size
    np.fill_diagonal(second, 1.0)
    found: Floats = means @ np.linalg.solve(second, means.T)
    return found


# Studies to plan

DISTANCE = sf.Distance(0.8)


def line(name: str, size: int, channel: Any, **options: Any) -> sf.Axis:
    return sf.integers(name, 0, size - 1, protect=DISTANCE, channel=channel, **options)


def label(name: str, size: int, channel: Any) -> sf.Axis:
    labels = [f"{name}{k}" for k in range(size)]
    return sf.categories(name, labels, protect=sf.Uniform(1.2), channel=channel)


def plane(channel: Choice | None = None) -> Together:
    """Two axes under one guarantee."""
    axes = [sf.integers("a", 0, 3), sf.integers("b", 0, 2)]
    return sf.together(axes, protect=sf.Uniform(1.5), channel=channel)


STUDIES: dict[str, Callable[[], sf.Study]] = {
    "geometric": lambda: sf.Study("s", [line("a", 9, sf.Geometric())]),
    "thermometer": lambda: sf.Study("s", [line("a", 9, sf.Thermometer())]),
    "published": lambda: sf.Study("s", [line("a", 9, sf.Thermometer("published"))]),
    "kary": lambda: sf.Study("s", [label("a", 5, sf.KaryResponse())]),
    "exponential": lambda: sf.Study("s", [line("a", 6, sf.Exponential())]),
    "two": lambda: sf.Study("s", [line("a", 7, sf.Geometric()), line("b", 5, sf.Thermometer())]),
    "three": lambda: sf.Study(
        "s",
        [
            line("a", 5, sf.Geometric()),
            line("b", 4, sf.Thermometer()),
            label("c", 3, sf.KaryResponse()),
        ],
    ),
    "records": lambda: sf.Study(
        "s",
        [sf.integers("a", 0, 3), sf.integers("b", 0, 2)],
        protect=sf.Uniform(1.5),
        channel=sf.Comb(),
    ),
    "mixed": lambda: sf.Study("s", [plane(), line("c", 5, sf.Geometric())]),
    "mixed bits": lambda: sf.Study(
        "s", [line("c", 4, sf.Thermometer()), plane(sf.HRR()), label("d", 3, sf.KaryResponse())]
    ),
}
QUESTIONS = {
    "kary": "a=a1|a2",
    "two": "a=2..4, b=1..3",
    "three": "a=1..3, b=1..2, c=c0|c2",
    "records": "a=1..2, b=0..1",
    "mixed": "a=1..2, b=1..2, c=1..3",
    "mixed bits": "b=0..1, c=1..2",
}


def people_of(study: sf.Study, count: int, seed: int) -> list[np.ndarray[Any, Any]]:
    """Cells of people who lean towards the low end, axes correlated."""
    rng = np.random.default_rng(seed)
    lean = rng.beta(2, 3, count)
    cells = []
    for size in study.shape:
        cells.append(
            np.minimum(((0.7 * lean + 0.3 * rng.random(count)) * size).astype(int), size - 1)
        )
    return cells


def exact_variance_of(study: sf.Study, asked: Sequence[Floats | None], counts: ArrayLike) -> float:
    """The variance of one question by brute force over all cells, block by block."""
    people = np.asarray(counts).reshape([block.size for block in study.blocks])
    return exact_variance(study.channels, [b.weights(asked) for b in study.blocks], people)


# Studies whose metric is a context of Acharya et al. 2020

K = 60
CONTEXTS = {
    "uniform": sf.Uniform(1),
    "blocks": sf.Blocks(1, [range(1), range(1, 9), range(9, 25), range(25, 40), range(40, K)]),
    "high-low": sf.HighLow(1, range(5, 20)),
}


def context_study(kind: str, **more: Any) -> sf.Study:
    axis = sf.integers("x", 0, K - 1, protect=CONTEXTS[kind], channel=sf.Hadamard(), **more)
    return sf.Study("s", [axis])


def zipf(size: int) -> Floats:
    law = 1 / np.arange(1, size + 1)
    return law / law.sum()
