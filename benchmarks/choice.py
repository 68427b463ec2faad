"""Geometric or thermometer: the error of likelihood answers, by cells, ε and people.

Populations are pooled: the mean square over all ranges, over four shapes of population. Each point
is measured until the standard error of its log ratio is `SURE`, or the ratio is far from 1.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sfumato as sf
from benchmarks.pages import digits, markdown, refilled
from benchmarks.recording import FOLDER, Measurement, progress
from sfumato.channels.choice import Choice
from sfumato.estimation.likelihood import LikelihoodEstimate
from sfumato.study.choose import choose_channel, enough_people

Floats = NDArray[np.float64]
Point = tuple[int, int, float, int]  # axes, cells, ε²·m, people

SIZES = (4, 8, 12, 16, 24, 32)
CURVES = (0.1, 0.4, 1.2, 2.5)  # ε²·m; unbiased errors cross at about 1.8
PEOPLE = (300, 1_000, 3_000, 10_000, 100_000)
TWO_AXES = ((6, 0.4, 1_000), (6, 0.4, 30_000), (12, 0.4, 1_000), (12, 0.4, 30_000), (8, 2.5, 3_000))
SURE = 0.03
EVEN = math.log(1.1)
FEWEST = 12
SECONDS = {"near": 40.0, "far": 6.0}  # a point, by how far from where the choice changes
CHANNELS: dict[str, Choice] = {"geometric": sf.Geometric(), "thermometer": sf.Thermometer()}


def two_bumps(size: int) -> Floats:
    """A high and a low hill on a plain."""
    x = np.arange(size) / size
    near = 0.6 * np.exp(-0.5 * ((x - 0.35) / 0.08) ** 2) / 0.08
    far = 0.3 * np.exp(-0.5 * ((x - 0.7) / 0.05) ** 2) / 0.05
    return near + far + 0.25


POPULATIONS: dict[str, Callable[[int, np.random.Generator], Floats]] = {
    "flat": lambda size, _: np.ones(size),
    "slope": lambda size, _: np.arange(1.0, size + 1),
    "bumps": lambda size, _: two_bumps(size),
    "spikes": lambda size, rng: rng.permutation(1 / np.arange(1.0, size + 1) ** 1.1),
}


def line_study(size: int, epsilon: float, channel: Choice, *, axes: int = 1) -> sf.Study:
    """A study of equal axes, all with the same channel.

    Args:
        size: Cells of each axis.
        epsilon: ε per cell.
        channel: The channel.
        axes: How many axes.
    """
    protect = sf.Distance(epsilon)
    made = [sf.integers(n, 0, size - 1, protect=protect, channel=channel) for n in "abc"[:axes]]
    return sf.Study("choice", made)


@dataclass(frozen=True)
class Ratio:
    """The thermometer's error over the geometric channel's: its logarithm, and how sure that is."""

    log: float
    stderr: float
    rounds: int

    @classmethod
    def of(cls, squares: Floats) -> Ratio:
        """From squared errors, one row a round, then channels, then populations."""
        rounds, _, kinds = squares.shape
        mean = squares.mean(axis=(0, 2))
        spread = squares.var(axis=0, ddof=1).sum(axis=1) / (rounds * kinds**2)
        half = float(np.sqrt(np.sum(spread / mean**2))) / 2
        return cls(float(np.log(mean[1] / mean[0])) / 2, half, rounds)

    def regret(self, chosen: str) -> float:
        """How many times larger the chosen channel's error is than the better one's."""
        return math.exp(max(0.0, self.log if chosen == "thermometer" else -self.log))

    @property
    def settled(self) -> bool:
        """Whether more rounds would tell little."""
        return self.stderr < SURE or abs(self.log) - 4 * self.stderr > EVEN


def rounds(size: int, epsilon: float, n: int, *, seed: int, axes: int = 1) -> Iterator[Floats]:
    """Squared errors, one round after another: a row per channel, a column per population.

    Args:
        size: Cells of each axis.
        epsilon: ε per cell.
        n: People per round.
        seed: The first seed.
        axes: How many axes.
    """
    studies = [line_study(size, epsilon, channel, axes=axes) for channel in CHANNELS.values()]
    rng = np.random.default_rng([seed, axes, size, n, round(epsilon * 1_000_000)])
    while True:
        found = np.empty((len(studies), len(POPULATIONS)))
        for column, make in enumerate(POPULATIONS.values()):
            sides = [make(size, rng) for _ in range(axes)]
            joint = sides[0] if axes == 1 else np.multiply.outer(*sides)
            counts = rng.multinomial(n, (joint / joint.sum()).ravel()).reshape(joint.shape)
            for row, study in enumerate(studies):
                tally = study.simulate_counts(counts, seed=int(rng.integers(1 << 62)))
                estimate = tally.estimate("likelihood")
                assert isinstance(estimate, LikelihoodEstimate)
                off = estimate.decoder(tuple(range(axes))).counts() - counts
                found[row, column] = mean_square_of_ranges(off) / n**2
        yield found


def measured(size: int, epsilon: float, n: int, *, count: int, seed: int, axes: int = 1) -> Ratio:
    """The ratio from a given number of rounds.

    Args:
        size: Cells of each axis.
        epsilon: ε per cell.
        n: People per round.
        count: How many rounds.
        seed: The first seed.
        axes: How many axes.
    """
    several = rounds(size, epsilon, n, seed=seed, axes=axes)
    return Ratio.of(np.array([next(several) for _ in range(count)]))


def settled(several: Iterable[Floats], seconds: float) -> Ratio:
    """The ratio from as many rounds as it needs, within a time limit.

    Args:
        several: Squared errors of one round after another.
        seconds: The time limit.
    """
    start, seen = time.process_time(), []
    for found in several:
        seen.append(found)
        late = time.process_time() - start > seconds
        if len(seen) >= FEWEST or (late and len(seen) > 3):
            ratio = Ratio.of(np.array(seen))
            if ratio.settled or late:
                return ratio
    raise AssertionError("rounds never end")


def mean_square_of_ranges(off: Floats) -> float:
    """The mean over all ranges of the squared sum of errors inside, exactly."""
    total = off
    for axis in range(off.ndim):
        start = np.zeros_like(np.take(total, [0], axis=axis))
        total = np.cumsum(np.concatenate([start, total], axis=axis), axis=axis)
    form = total
    pairs = 1.0
    for axis in range(off.ndim):
        ends = total.shape[axis]
        # Σ_{a<b} (F_b − F_a)² is the quadratic form of ends·I − 1.
        form = ends * form - form.sum(axis=axis, keepdims=True)
        pairs *= ends * (ends - 1) / 2
    return float(np.sum(total * form) / pairs)


def grid() -> list[Point]:
    """One axis everywhere, two axes at a few points."""
    one = [(1, m, curve, n) for n in PEOPLE for m in SIZES for curve in CURVES]
    return [*one, *((2, *rest) for rest in TWO_AXES)]


def epsilon_at(size: int, curve: float) -> float:
    """The ε of a point, to six digits as a study would have it.

    Args:
        size: Number of cells m.
        curve: ε²·m.
    """
    return round(math.sqrt(curve / size), 6)


def find(point: Point) -> Ratio:
    """Measure one point."""
    axes, size, curve, n = point
    several = rounds(size, epsilon_at(size, curve), n, seed=3, axes=axes)
    near = curve < 1.8 and 1 / 8 < n / enough_people(epsilon_at(size, curve), size) < 8
    return settled(several, SECONDS["near" if near else "far"])


def row(point: Point, found: Ratio) -> dict[str, Any]:
    """A point with the planner's choice there, when told the number of people.

    Args:
        point: Cells, ε, people and axes.
        found: What was measured there.
    """
    axes, size, curve, n = point
    metric = sf.integers("a", 0, size - 1, protect=sf.Distance(epsilon_at(size, curve))).metric()
    chosen = choose_channel(metric, people=n)[0].id
    ratio = math.exp(found.log)
    return {
        "axes": axes,
        "m": size,
        "ε²·m": curve,
        "people": n,
        "thermometer/geometric": ratio,
        "standard error": found.stderr * ratio,
        "rounds": found.rounds,
        "chosen": chosen,
        "regret": found.regret(chosen),
    }


def report(rows: list[dict[str, Any]]) -> Measurement:
    """The rows under their title."""
    return Measurement(
        "likelihood answers from thermometer reports over those from geometric ones",
        rows,
        [
            "Root mean square errors over all ranges, pooled over four populations: "
            f"{', '.join(POPULATIONS)}. A round is one of each, with fresh people and noise; a "
            f"point has rounds until its logarithm is sure to {SURE} or 4 standard errors beyond "
            "a tenth from even, or its time is up. Regret: the chosen channel over the better."
        ],
    )


def measure() -> Measurement:
    """The whole grid."""
    rows = []
    for point in grid():
        progress("axes {}, m = {}, ε²·m = {}, n = {:,}".format(*point))
        rows.append(row(point, find(point)))
    return report(rows)


# The page

PAGE = Path("docs/mathematics.md")
SHOWN = 0.4


def with_table(page: str, figures: Sequence[dict[str, Any]]) -> str:
    """The page with the ratios at one ε²·m: cells by rows, people by columns.

    Args:
        page: Its text.
        figures: The recorded rows.
    """
    ratios = {
        (row["m"], row["people"]): _cell(row)
        for row in figures
        if (row["axes"], row["ε²·m"]) == (1, SHOWN)
    }
    head = ["m", *(f"n = {n:,}" for n in PEOPLE)]
    rows = [[str(m), *(ratios[m, n] for n in PEOPLE)] for m in SIZES]
    return refilled(page, {"thermometer over geometric": markdown(head, rows)})


def _cell(row: dict[str, Any]) -> str:
    """A ratio and its standard error, bold where the thermometer is chosen."""
    text = f"{digits(row['thermometer/geometric'])} ± {row['standard error']:.2f}"
    return f"**{text}**" if row["chosen"] == "thermometer" else text


if __name__ == "__main__":
    held = json.loads((FOLDER / "choice.json").read_text(encoding="utf-8"))["figures"]
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), held), encoding="utf-8")
