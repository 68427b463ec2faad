"""The table of settings in which intervals must hold, and how coverage is measured.

`python tests/helpers_coverage.py --runs 400 [part of a name ...]` prints the figures of every
setting: coverage of the 95 % intervals, and their mean half-width, before they are cut at 0..n, in
units of 1.96·RMSE.

The dominant, the median and the emptiest cell are judged separately, never on average. Coverage
must be at least LEAST; the mean half-width at most WIDEST × 1.96 × RMSE, except for cells that are
as empty as the emptiest, where a likelihood estimate is close to zero in every run. Whose RMSE it
is, `Setting.is_determined` says.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from helpers_statistics import Floats, zipf
from numpy.typing import NDArray
from scipy.stats import binom

import sfumato as sf
from sfumato.estimation.estimate import Estimate

LEVEL, LEAST, WIDEST = 0.95, 0.93, 1.3
METHODS = ("likelihood", "unbiased")


@dataclass(frozen=True)
class Setting:
    """A known population, and the cells of an axis whose intervals are watched.

    Args:
        name: What is special about it.
        axis: The axis, the only one of the study.
        counts: People in every cell.
        more: Cells to watch besides the dominant, the median and the emptiest.
        is_determined: Whether the reports determine the dominant and the median cell better than a
            prior does. Then widths count in units of the error of the answers themselves;
            otherwise in units of the error of unbiased answers, since a likelihood estimate is then
            closer to the truth than any interval that holds for every population.
    """

    name: str
    axis: sf.Axis
    counts: NDArray[np.int64]
    more: Mapping[str, int] = field(default_factory=dict)
    is_determined: bool = False

    @cached_property
    def study(self) -> sf.Study:
        """The study."""
        return sf.Study("coverage", [self.axis])

    @cached_property
    def cells(self) -> dict[str, int]:
        """The cells to watch, by name."""
        order = np.argsort(-self.counts, kind="stable")
        named = {"dominant": order[0], "median": order[len(order) // 2], "emptiest": order[-1]}
        return {name: int(cell) for name, cell in {**named, **self.more}.items()}

    @cached_property
    def truth(self) -> Floats:
        """People in each of the cells watched."""
        return self.counts[list(self.cells.values())].astype(np.float64)

    def is_judged_by_width(self, name: str) -> bool:
        """Whether the width of a cell's intervals counts: not if it is as empty as the emptiest."""
        return bool(self.counts[self.cells[name]] > self.counts.min())

    def ask(self, estimate: Estimate) -> tuple[Floats, Floats, Floats]:
        """Values, and both ends of the intervals before they are cut at 0..n."""
        found = estimate.histogram(self.axis.name, level=LEVEL)
        places = list(self.cells.values())
        low, high = found.uncut
        return found.values[places], low[places], high[places]

    def tally(self, seed: int) -> sf.Tally:
        """The reports of one run."""
        return self.study.simulate_counts(self.counts, seed=seed)


Ask = Callable[[Estimate], sf.Answer]


@dataclass(frozen=True)
class Questions:
    """A known population, and questions about it whose intervals are watched.

    Args:
        name: What is special about it.
        study: The study.
        counts: People in every cell.
        asked: By name, how to ask, and the truth.
        by_coverage: Names of questions judged by coverage only: those whose intervals have no end
            in some runs, or leave room for another population.
        people: The people themselves, where the counts do not say all about them.
        weights: Their public weights, if any.
    """

    name: str
    study: sf.Study
    counts: NDArray[np.int64]
    asked: Mapping[str, tuple[Ask, float]]
    by_coverage: tuple[str, ...] = ()
    people: Mapping[str, Any] | None = None
    weights: Floats | None = None
    is_determined: bool = False

    @property
    def cells(self) -> Sequence[str]:
        """Names of the questions."""
        return list(self.asked)

    @cached_property
    def truth(self) -> Floats:
        """The true answers."""
        return np.array([truth for _, truth in self.asked.values()])

    def is_judged_by_width(self, name: str) -> bool:
        """Whether the width of the intervals of a question counts."""
        return name not in self.by_coverage

    def ask(self, estimate: Estimate) -> tuple[Floats, Floats, Floats]:
        """Values, and both ends of the intervals before they are cut at their limits."""
        answers = [ask(estimate) for ask, _ in self.asked.values()]
        low, high = np.array([answer.uncut for answer in answers]).T
        return np.array([answer.value for answer in answers]), low, high

    def tally(self, seed: int) -> Any:
        """The reports of one run."""
        if self.people is None:
            return self.study.simulate_counts(self.counts, seed=seed)
        reports = self.study.encode(self.people, bits=sf.SeededBits(seed))
        return self.study.tally(reports, weights=self.weights)


@dataclass(frozen=True)
class Figures:
    """What many runs of one question have shown.

    Args:
        runs: Number of runs.
        hits: Number of intervals that hold the truth.
        half: Mean half-width of the intervals before they are cut.
        rmse: Root mean squared error of the values.
        rmse_error: Standard error of `rmse`.
        bias: Mean error of the values.
        judged_by_width: Whether the half-width counts.
    """

    runs: int
    hits: int
    half: float
    rmse: float
    rmse_error: float
    bias: float
    judged_by_width: bool = True

    @classmethod
    def of(
        cls, truth: float, values: Floats, low: Floats, high: Floats, *, judged_by_width: bool
    ) -> Figures:
        """The figures of runs, with one entry per run in each array."""
        squares = (values - truth) ** 2
        rmse = math.sqrt(float(squares.mean()))
        spread = float(squares.std()) / math.sqrt(len(squares))
        return cls(
            runs=len(values),
            hits=int(np.sum((low <= truth) & (truth <= high))),
            half=float(np.mean(high - low)) / 2,
            rmse=rmse,
            rmse_error=spread / (2 * rmse) if rmse else 0.0,
            bias=float(np.mean(values) - truth),
            judged_by_width=judged_by_width,
        )

    @property
    def covered(self) -> float:
        """The share of intervals that hold the truth."""
        return self.hits / self.runs

    @property
    def width(self) -> float:
        """Mean half-width in units of 1.96·RMSE."""
        return self.half / (1.96 * self.rmse) if self.rmse else math.inf

    def too_low(self, significance: float) -> bool:
        """Whether so few hits would be rarer than `significance` at a coverage of LEAST."""
        return bool(binom.cdf(self.hits, self.runs, LEAST) < significance)

    def too_wide(self, deviations: float) -> bool:
        """Whether the width is above WIDEST by more than some standard errors of the RMSE."""
        slack = 1 + deviations * self.rmse_error / self.rmse if self.rmse else 1.0
        return self.judged_by_width and self.width > WIDEST * slack

    def record(self) -> dict[str, float]:
        """The figures as plain numbers."""
        return {
            "runs": self.runs,
            "covered": round(self.covered, 4),
            "half-width": round(self.half, 4),
            "rmse": round(self.rmse, 4),
            "width": round(self.width, 3) if self.rmse else 0.0,
            "bias": round(self.bias, 4),
        }


def measure(
    setting: Setting | Questions, method: str, *, runs: int, seed: int, scale: float = 1.0
) -> dict[str, Figures]:
    """Ask the same people again and again, each time with fresh noise.

    Args:
        setting: What to measure.
        method: "likelihood" or "unbiased".
        runs: Number of collections.
        seed: The seed of the first; the others follow.
        scale: Factor on the half-widths, to prove that intervals too short are found.
    """
    seeds = np.random.SeedSequence(seed).generate_state(runs, np.uint64)
    asked = [setting.ask(setting.tally(int(one)).estimate(method)) for one in seeds]
    values, low, high = (np.array(part) for part in zip(*asked, strict=True))
    low, high = values - scale * (values - low), values + scale * (high - values)
    return {
        name: Figures.of(
            setting.truth[place],
            values[:, place],
            low[:, place],
            high[:, place],
            judged_by_width=setting.is_judged_by_width(name),
        )
        for place, name in enumerate(setting.cells)
    }


def _people(n: int, share: Floats) -> NDArray[np.int64]:
    """n people spread in proportion to shares, rounded down, the rest in the largest cell."""
    counts = np.floor(n * share / share.sum()).astype(np.int64)
    counts[np.argmax(counts)] += n - counts.sum()
    return counts


def _bumps(size: int) -> Floats:
    """Two smooth bumps on a small floor."""
    x = (np.arange(size) + 0.5) / size
    humps = 0.6 * np.exp(-(((x - 0.35) / 0.1) ** 2)) + 0.3 * np.exp(-(((x - 0.7) / 0.07) ** 2))
    result: Floats = humps + 0.02
    return result


def _heaped(size: int) -> Floats:
    """A smooth bump, with half of the people at multiples of five."""
    share = _bumps(size)
    heaps = np.where(np.arange(size) % 5 == 0, share, 0.0)
    result: Floats = share / share.sum() + heaps / heaps.sum()
    return result


def _one(size: int, cell: int = 0) -> Floats:
    """Everyone in one cell."""
    return np.eye(size)[cell]


def _labels(size: int) -> list[str]:
    return [f"label {number}" for number in range(size)]


def _integers(size: int, protect: Any, **options: Any) -> sf.Axis:
    return sf.integers("x", 0, size - 1, protect=protect, **options)


def _categories(size: int, protect: Any, **options: Any) -> sf.Axis:
    return sf.categories("x", _labels(size), protect=protect, **options)


def _blocks(size: int, of: int, epsilon: float) -> sf.Blocks:
    labels = _labels(size)
    return sf.Blocks(epsilon, [labels[start : start + of] for start in range(0, size, of)])


def _high_low(size: int, low: int, epsilon: float) -> sf.HighLow:
    """All labels but the first few are sensitive."""
    return sf.HighLow(epsilon, _labels(size)[low:])


_TENTH = {"tenth": 9}


def _determined(name: str, axis: sf.Axis, counts: Any) -> Setting:
    return Setting(name, axis, np.asarray(counts), is_determined=True)


def _spiky(size: int) -> Floats:
    """Very unequal cells in no order."""
    result: Floats = np.random.default_rng(5).dirichlet(np.full(size, 0.3)) + 0.002
    return result


DETERMINED = [
    # Ordered axes.
    _determined("40 on a line", _integers(5, sf.Distance(4.0)), [4, 8, 14, 9, 5]),
    _determined(
        "200 on a line", _integers(10, sf.Distance(2.0)), [60, 10, 40, 5, 30, 5, 25, 10, 10, 5]
    ),
    _determined("2,000 on a line", _integers(20, sf.Distance(1.5)), _people(2_000, _spiky(20))),
    _determined("50,000 on a line", _integers(50, sf.Distance(1.0)), _people(50_000, _spiky(50))),
    _determined("50,000 heaped", _integers(60, sf.Distance(2.0)), _people(50_000, _heaped(60))),
    # Unordered axes.
    _determined("40 alike", _categories(4, sf.Uniform(4.0)), _people(40, zipf(4))),
    _determined("1,000 alike", _categories(5, sf.Uniform(2.0)), _people(1_000, zipf(5))),
    _determined("50,000 alike", _categories(20, sf.Uniform(2.0)), _people(50_000, zipf(20))),
    _determined("200 in blocks", _categories(6, _blocks(6, 3, 3.0)), _people(200, zipf(6))),
    _determined(
        "50,000 in blocks", _categories(60, _blocks(60, 10, 2.0)), _people(50_000, zipf(60))
    ),
    _determined("60 high and low", _categories(5, _high_low(5, 3, 3.0)), [5, 10, 3, 24, 18]),
    _determined(
        "5,000 high and low",
        _categories(10, _high_low(10, 5, 3.0)),
        [2_000, 1_000, 800, 600, 500, 60, 20, 10, 10, 0],
    ),
    _determined(
        "50,000 high and low", _categories(30, _high_low(30, 10, 2.0)), _people(50_000, zipf(30))
    ),
]

SETTINGS = [
    # Ordered axes.
    Setting("distance, 40 people", _integers(20, sf.Distance(0.5)), _people(40, _bumps(20))),
    Setting(
        "distance, everyone in one of 50",
        _integers(50, sf.Distance(1.0)),
        _people(1_000, _one(50, 20)),
    ),
    Setting("distance, heaped", _integers(60, sf.Distance(0.5)), _people(5_000, _heaped(60))),
    Setting("distance, smooth", _integers(100, sf.Distance(0.2)), _people(50_000, _bumps(100))),
    Setting("uniform on a line", _integers(32, sf.Uniform(2.0)), _people(3_000, _bumps(32))),
    # Unordered axes.
    Setting("uniform, 40 people", _categories(5, sf.Uniform(2.0)), _people(40, zipf(5))),
    Setting(
        "uniform, everyone in one of 50",
        _categories(50, sf.Uniform(1.0)),
        _people(1_000, _one(50)),
    ),
    Setting(
        "uniform, Zipf over 20",
        _categories(20, sf.Uniform(1.0)),
        _people(50_000, zipf(20)),
        _TENTH,
    ),
    Setting("blocks, 200 people", _categories(12, _blocks(12, 4, 1.5)), _people(200, zipf(12))),
    Setting(
        "blocks, Zipf over 500",
        _categories(500, _blocks(500, 50, 1.0)),
        _people(20_000, zipf(500)),
        _TENTH,
    ),
    Setting(
        "high-low, 60 people, three with a rare label",
        _categories(6, _high_low(6, 3, 1.0)),
        np.array([25, 20, 10, 3, 2, 0]),
        {"rare": 3},
    ),
    Setting(
        "high-low, rare label of 60",
        _categories(10, _high_low(10, 5, 1.0)),
        np.array([2_000, 1_000, 800, 600, 500, 60, 20, 10, 10, 0]),
        {"rare": 5},
    ),
    Setting(
        "high-low, Zipf over 30",
        _categories(30, _high_low(30, 10, 2.0)),
        _people(50_000, zipf(30)),
        _TENTH,
    ),
]


def _conditional(people: int, others: int, place: str, epsilons: tuple[float, float]) -> Questions:
    """Means and shares among few people; `place` says where on the axis they are."""
    size, (near, far) = 20, epsilons
    axes = [
        sf.integers("x", 0, size - 1, protect=sf.Distance(near)),
        sf.categories("group", ["few", "many"], protect=sf.Uniform(far)),
    ]
    x = np.arange(size)
    spread = {"spread": np.ones(size), "low": _one(size, 1), "high": _one(size, size - 2)}[place]
    few, many = _people(people, spread), _people(others, np.exp(-(((x - 8) / 4) ** 2)))
    if place == "spread":
        few = np.bincount(np.arange(people) * size // people, minlength=size)
    inside = float(few[10:].sum()) / people
    where = "group=few"
    sure = far >= 3 and not (people == 10 and others == 300)  # a divisor well above zero
    asked: dict[str, tuple[Ask, float]] = {
        "mean": (lambda est: est.mean("x", where=where), float(few @ x) / people),
        "share": (lambda est: est.fraction("x=10..", where=where), inside),
        "ratio": (lambda est: est.count("x=10..", where=where) / est.count(where), inside),
    }
    return Questions(
        f"{people} of {people + others} in the condition, {place}, ε = {near:g} and {far:g}",
        sf.Study("few", axes),
        np.stack([few, many], axis=1),
        asked,
        by_coverage=() if sure else tuple(asked),
    )


FEW = [
    _conditional(10, 300, "low", (2.0, 1.5)),
    _conditional(10, 300, "high", (1.0, 3.0)),
    _conditional(10, 30, "spread", (1.0, 4.0)),
    _conditional(25, 300, "low", (2.0, 1.5)),
    _conditional(25, 300, "spread", (1.0, 3.0)),
    _conditional(50, 300, "high", (2.0, 1.5)),
    _conditional(50, 300, "spread", (0.5, 4.0)),
]


def _rounded(name: str, values: Floats) -> Questions:
    """Ranges whose ends lie on the grid of an axis with stochastic rounding."""
    pay = sf.reals("pay", 0, 100, bins=10, rounding="stochastic", protect=sf.Distance(2, per=10))
    inside = (values >= 20) & (values <= 50)
    asked: dict[str, tuple[Ask, float]] = {
        "count": (lambda est: est.count(pay=(20, 50)), float(inside.sum())),
        "share": (lambda est: est.fraction(pay=(20, 50)), float(inside.mean())),
        "off the grid": (
            lambda est: est.count(pay=(12, 37)),
            float(np.sum(abs(values - 24.5) <= 12.5)),
        ),
    }
    return Questions(
        f"stochastic rounding, {name}",
        sf.Study("rounded", [pay]),
        np.array([len(values)]),
        asked,
        by_coverage=tuple(asked),
        people={"pay": values},
    )


def _heavy(heaviest: float) -> Questions:
    """One person weighs as much as many others together."""
    study = sf.Study("weights", [_categories(4, sf.Uniform(2.0))])
    people = [_labels(4)[cell] for cell in [0] * 100 + [1] * 60 + [2] * 30 + [3] * 10]
    weights = np.ones(len(people))
    weights[0] = heaviest
    totals = {"dominant": (0, 99 + heaviest), "median": (2, 30.0), "emptiest": (3, 10.0)}

    def ask(cell: int) -> Ask:
        return lambda est: est.count(x=f"label {cell}")

    return Questions(
        f"a weight of {heaviest:g} among 200",
        study,
        np.array([len(people)]),
        {name: (ask(cell), truth) for name, (cell, truth) in totals.items()},
        # Other cells have room for a person who is elsewhere; one who weighs as much as all
        # others together leaves errors far from normal.
        by_coverage=("median", "emptiest", *(["dominant"] if heaviest > 15 else [])),
        people={"x": people},
        weights=weights,
    )


ROUNDED = [
    _rounded("people at grid points", np.repeat([10.0, 20, 30, 50, 70], [200, 300, 200, 250, 50])),
    _rounded("people between grid points", np.repeat([15.0, 25, 45, 55], [200, 300, 200, 300])),
    _rounded("people spread evenly", np.linspace(0, 100, 1_000)),
]
WEIGHTED = [_heavy(5.0), _heavy(15.0), _heavy(50.0)]

ALL: Sequence[Setting | Questions] = (*DETERMINED, *SETTINGS, *FEW, *ROUNDED, *WEIGHTED)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures of settings."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names of settings; left out, all")
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    given = parser.parse_args(arguments)
    for setting in ALL:
        if given.names and not any(part in setting.name for part in given.names):
            continue
        print(f"{setting.name}: {setting.study.channels[0].id}, n = {setting.counts.sum():,}")
        for method in given.methods if setting not in WEIGHTED else ["unbiased"]:
            figures = measure(setting, method, runs=given.runs, seed=given.seed)
            for place, (name, one) in enumerate(figures.items()):
                bad = " <-- coverage" if one.covered < LEAST else ""
                bad += " <-- width" if one.too_wide(0) else ""
                print(
                    f"  {method:<10} {name:<9} {setting.truth[place]:>8,.6g} "
                    f"covered {100 * one.covered:5.1f}  width {one.width:5.2f}  "
                    f"rmse {one.rmse:9.4g}  bias {one.bias:+9.3g}{bad}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
