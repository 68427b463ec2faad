"""Xiang et al. 2020: boxes by the thermometer, simulated, and the growth of costs and errors.

The simulation draws every person's report with the published code and reads all cells at once: a
cell's estimate is a product over axes of functions of one person's bits, summed over people. Sums
over a box of these are the estimates of ranges.

The paper's bound is compared with the measured error and with the exact expectation. As a bound for
a single cell or box it fails for D >= 2, since its proof adds variances of correlated observations;
on average over cells and random ranges of Zipf data it is above the error, as the paper says.

Growth is an exponent p: an error or a cost y grows as x^p if p = Δ ln y / Δ ln x. Errors are exact,
so their exponents are too; times are processor times of this machine.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import sfumato as sf
from sfumato.arrays import Floats
from sfumato.channels.choice import Choice
from sfumato.channels.thermometer import Thermometer
from sfumato.extras import need
from sfumato.metrics.distance import LineMetric
from sfumato.metrics.uniform import UniformMetric
from sfumato.plots import style
from sfumato.randomness.bits import SeededBits
from sfumato.reproduction.exhibits import Data, Finding, Rows, Run, shown, table
from sfumato.reproduction.haney import EdgeRanges, middle_box, published_rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELLS = 10
PEOPLE = 1_000
ZIPF = 1.1
EPSILONS = ("0.5", "1", "1.5", "2", "2.5", "3")
RANGES = 100
REPEATS = 3

GRIDS = tuple((axes, cells, "1/2") for axes, cells in ((1, 64), (2, 16), (2, 64), (3, 16)))
SMALL = Fraction(1, 100)  # ε so small that only its least power counts
TOLERANCE = 0.25


# The simulation


def zipf(cells: int = CELLS) -> Floats:
    """The share of people in each cell of an axis: Zipf's law with exponent 1.1."""
    share = np.arange(1, cells + 1, dtype=np.float64) ** -ZIPF
    result: Floats = share / share.sum()
    return result


def random_boxes(axes: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Boxes between two uniform ends on every axis: shape (boxes, axes, 2), both ends included.

    Args:
        axes: D.
        count: How many.
        rng: Where they are drawn from.
    """
    return np.sort(rng.integers(0, CELLS, (count, axes, 2)), axis=-1)


def moments(epsilon: str, held: Floats, low: Sequence[int], high: Sequence[int]) -> Floats:
    """E[f²] of intervals on one axis, averaged over people, for the published code.

    Args:
        epsilon: ε of one step.
        held: The share of people in each cell.
        low: The first cell of each interval.
        high: The last one.
    """
    s = (math.exp(float(epsilon)) + 1) / (math.exp(float(epsilon)) - 1)
    inside = np.append(0.0, held.cumsum())
    share = inside[np.asarray(high) + 1] - inside[np.asarray(low)]
    full = (np.asarray(low) == 0) & (np.asarray(high) == len(held) - 1)
    result: Floats = np.where(full, s**2, (s**2 - 1) / 2 + share)
    return result


def all_cells(
    people: NDArray[np.int64], epsilon: str, bits: SeededBits
) -> tuple[Floats, NDArray[np.int64]]:
    """The estimates of all cells from one report of everybody, and the truth.

    Args:
        people: The cell of each person, one row per person and one column per axis.
        epsilon: ε of one step.
        bits: Where the noise comes from.
    """
    axes = people.shape[1]
    channel = Thermometer("published").bind(LineMetric.equal(Fraction(epsilon), CELLS))
    halves: list[Floats] = [np.ones((len(people), 1)), np.ones((len(people), 1))]
    for axis in range(axes):
        outputs = channel.encode(people[:, axis], bits)
        read = np.stack([channel.functional(row)(outputs) for row in np.eye(CELLS)], axis=1)
        side = 0 if axis < axes // 2 else 1
        halves[side] = (halves[side][:, :, None] * read[:, None, :]).reshape(len(people), -1)
    shape = (CELLS,) * axes
    truth = np.zeros(shape, dtype=np.int64)
    np.add.at(truth, tuple(people.T), 1)
    return (halves[0].T @ halves[1]).reshape(shape), truth


def box_sums(cells: Floats, boxes: NDArray[np.int64]) -> Floats:
    """The sum over each box, by prefix sums.

    Args:
        cells: A number per cell.
        boxes: As `random_boxes` gives them.
    """
    before = cells
    for axis in range(cells.ndim):
        pad = [(1, 0) if d == axis else (0, 0) for d in range(cells.ndim)]
        before = np.pad(before.cumsum(axis=axis), pad)
    total = np.zeros(len(boxes))
    for corner in itertools.product((0, 1), repeat=cells.ndim):
        ends = tuple(boxes[:, d, c] + c for d, c in enumerate(corner))
        total += (-1.0) ** (cells.ndim - sum(corner)) * before[ends]
    return total


def point(axes: int, epsilon: str, repeats: int, seed: int, people: int = PEOPLE) -> dict[str, Any]:
    """Squared errors for one D and ε: measured, expected, and the paper's bound.

    Args:
        axes: D.
        epsilon: ε of one step.
        repeats: How often everybody reports.
        seed: Where all randomness starts.
        people: Number of people.
    """
    rng = np.random.default_rng([seed, axes, *map(ord, epsilon)])
    law = zipf()
    measured: list[tuple[float, float]] = []
    exact: list[tuple[float, float]] = []
    for _ in range(repeats):
        cells = rng.choice(CELLS, (people, axes), p=law)
        boxes = random_boxes(axes, RANGES, rng)
        bits = SeededBits(int(rng.integers(1 << 32)))
        found, truth = all_cells(cells, epsilon, bits)
        off = box_sums(found, boxes) - box_sums(truth.astype(np.float64), boxes)
        measured.append((float(np.mean((found - truth) ** 2)), float(np.mean(off**2))))
        exact.append(_expected(truth, epsilon, boxes))
    single, ranges = np.mean(measured, axis=0).tolist()
    expected = np.mean(exact, axis=0).tolist()
    return {
        "D": axes,
        "epsilon": float(epsilon),
        "single values, measured": single,
        "single values, expected": expected[0],
        "ranges, measured": ranges,
        "ranges, expected": expected[1],
        "bound": sf.bounds.xiang_theorem_2(epsilon, people, axes, as_printed=True),
    }


def _expected(
    truth: NDArray[np.int64], epsilon: str, boxes: NDArray[np.int64]
) -> tuple[float, float]:
    """Exact mean squared errors over all cells, and over boxes, for these people."""
    axes, people = truth.ndim, int(truth.sum())
    s = (math.exp(float(epsilon)) + 1) / (math.exp(float(epsilon)) - 1)
    # Summed over the cells of an axis, everybody is inside one of them and outside the others.
    row = (s**2 - 1) / 2 * CELLS + 1
    single = people * (row**axes - 1) / CELLS**axes
    total = np.zeros(len(boxes))
    where = np.argwhere(truth)
    held = truth[tuple(where.T)]
    full = (boxes[..., 0] == 0) & (boxes[..., 1] == CELLS - 1)
    for place, box in enumerate(boxes):
        inside = (where >= box[:, 0]) & (where <= box[:, 1])
        each = np.where(full[place], s**2, (s**2 - 1) / 2 + inside).prod(axis=1)
        total[place] = held @ (each - inside.all(axis=1))
    return single, float(total.mean())


def simulated(dimensions: Sequence[int]) -> Callable[[Run], Data]:
    """Makes a figure with these numbers of axes.

    Args:
        dimensions: The values of D.
    """

    def make(run: Run) -> Data:
        epsilons = EPSILONS[1::2] if run.quick else EPSILONS
        repeats = 1 if run.quick else REPEATS
        points = []
        cases = list(itertools.product(dimensions, epsilons))
        for done, (axes, epsilon) in enumerate(cases):
            run.seen(done / len(cases))
            points.append(point(axes, epsilon, repeats, run.seed))
        return {"people": PEOPLE, "cells": CELLS, "repeats": repeats, "points": points}

    return make


def below_the_bound(data: Data) -> list[Finding]:
    """The largest errors over the bound, for each D."""
    found = []
    for axes in dict.fromkeys(row["D"] for row in data["points"]):
        rows = [row for row in data["points"] if row["D"] == axes]
        for asked in ("single values", "ranges"):
            exact = max(row[f"{asked}, expected"] / row["bound"] for row in rows)
            seen = max(row[f"{asked}, measured"] / row["bound"] for row in rows)
            found.append(
                Finding(
                    what=f"D = {axes}: squared error of {asked} over the bound, at most",
                    ours=exact,
                    printed="below 1",
                    high=1 + 1e-9,
                    tolerance="the paper's statement; ours is the exact expectation",
                    note=f"{seen:.3g} as measured" + (_FULL if exact > 1 + 1e-9 else ""),
                )
            )
    return [*found, _as_expected(data["points"])]


_FULL = "; the published code pays twice the bound for a range over a full axis"


def _as_expected(points: Sequence[dict[str, Any]]) -> Finding:
    """Whether the simulation has the errors that the exact formula gives."""
    ratios = np.array(
        [
            row[f"{asked}, measured"] / row[f"{asked}, expected"]
            for row in points
            for asked in ("single values", "ranges")
        ]
    )
    error = float(ratios.std(ddof=1) / np.sqrt(len(ratios)))
    return Finding(
        what="measured over expected, mean over all points",
        ours=float(ratios.mean()),
        printed="1, by our exact formula",
        low=1 - 4 * error,
        high=1 + 4 * error,
        tolerance="four standard errors of the mean",
        aim=1.0,
        error=error,
    )


def rows_of_points(data: Data) -> Rows:
    """All points."""
    return table(data["points"])


def draw_points(data: Data) -> Figure:
    """Errors and the bound by ε, one panel per D."""
    dimensions = list(dict.fromkeys(row["D"] for row in data["points"]))
    made = need("matplotlib.figure").Figure(
        figsize=(3.2 * max(len(dimensions), 2), 3.4), layout="constrained"
    )
    panels = made.subplots(1, len(dimensions), squeeze=False)[0]
    for panel, axes in zip(panels, dimensions, strict=True):
        rows = [row for row in data["points"] if row["D"] == axes]
        across = [row["epsilon"] for row in rows]
        panel.plot(across, [r["bound"] for r in rows], "-", color=style.INK, label="paper's bound")
        for asked, colour in (("ranges", style.TRUTH), ("single values", style.ESTIMATE)):
            panel.plot(across, [r[f"{asked}, expected"] for r in rows], "-", lw=1, color=colour)
            measured = [r[f"{asked}, measured"] for r in rows]
            panel.plot(across, measured, "o", ms=4, color=colour, label=f"{asked}, measured")
        panel.set(yscale="log", xlabel="ε", title=f"D = {axes}")
    panels[0].set_ylabel("mean squared error (lines: exact)")
    panels[0].legend(frameon=False, fontsize=8)
    result: Figure = made
    return result


# Table 1: what a collector's three ways cost


def _fastest(work: Callable[[], object], repeat: int) -> float:
    """Processor seconds of the fastest of some runs."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return max(min(times), 1e-9)


def growth(x: Sequence[float], y: Sequence[float]) -> float:
    """The exponent p of y = c·x^p, by least squares on logarithms.

    Args:
        x: What is varied.
        y: What grows with it.

    Example:
        >>> round(growth([1, 2, 4], [3, 12, 48]), 6)
        2.0
    """
    a, b = np.log(np.asarray(x, dtype=np.float64)), np.log(np.asarray(y, dtype=np.float64))
    return float(np.polyfit(a, b, 1)[0])


def costs(run: Run) -> Data:
    """Space and time of the three ways, for several sizes."""
    repeat = 3
    rng = np.random.default_rng(run.seed)
    rows: dict[str, list[list[float]]] = {}

    def study(cells: int, axes: int = 2) -> sf.Study:
        protect, choice = sf.Distance(1), sf.Thermometer("published")
        made = [
            sf.integers(f"x{d}", 0, cells - 1, protect=protect, channel=choice) for d in range(axes)
        ]
        return sf.Study("costs", made)

    def tallied(cells: int, people: int, axes: int = 2) -> sf.Tally:
        values = {f"x{d}": rng.integers(0, cells, people) for d in range(axes)}
        return study(cells, axes).simulate(values, seed=run.seed)

    def note(name: str, x: float, y: float) -> None:
        rows.setdefault(name, []).append([x, y])

    people = 20_000 if run.quick else 400_000
    for cells in (32, 64, 128):
        table_of = np.cumsum(np.cumsum(rng.normal(size=(cells, cells)), axis=0), axis=1)
        note("prefix sums: numbers kept, by m", cells, table_of.size)
        corners = rng.integers(0, cells // 2, (20_000, 4))
        corners[:, 2:] += cells // 2

        def answer(at: Any = corners, held: Any = table_of) -> Any:
            a, b, c, d = at.T
            return held[c, d] - held[a, d] - held[c, b] + held[a, b]

        note("prefix sums: time of a query, by m", cells, _fastest(answer, 9))
    for side in (256, 512, 1024):
        cells_ = rng.normal(size=(side, side))
        note("single values: time of a query, by |R|", side**2, _fastest(cells_.sum, 15))
    for count in (people, 4 * people, 16 * people):
        tally = tallied(32, count)
        estimate = tally.estimate("unbiased")
        note("on the fly: bytes kept, by n", count, _kept(tally))
        ask = {"x0": (3, 20), "x1": (5, 17)}
        seconds = _fastest(partial(estimate.count, ask), repeat)
        note("on the fly: time of a query, by n", count, seconds)
    for cells in (32, 64, 128):
        tally = tallied(cells, people)
        note("on the fly: bytes kept, by m", cells, _kept(tally))
        estimate = tally.estimate("unbiased")
        ask = {"x0": (3, cells - 5), "x1": (5, cells - 3)}
        seconds = _fastest(partial(estimate.count, ask), repeat)
        note("on the fly: time of a query, by |R|", cells**2, seconds)
    for count in (people // 4, people, 4 * people):
        tally = tallied(16, count)
        seconds = _fastest(partial(_every_cell, tally), repeat)
        note("preprocessing: time, by n", count, seconds)
    return {"series": rows}


def _every_cell(tally: sf.Tally) -> object:
    """The estimates of all cells."""
    return sf.distribution(tally.estimate("unbiased"))


def _kept(tally: sf.Tally) -> float:
    """Bytes of the reports that a tally keeps."""
    columns: Any = tally.statistic
    return float(sum(column.words.nbytes for column in columns.columns))


#: What Table 1 says: the exponent, and how far a time may stray from it.
COSTS: dict[str, tuple[float, str, float]] = {
    "prefix sums: numbers kept, by m": (2.0, "O(m^D), D = 2", 0.01),
    "prefix sums: time of a query, by m": (0.0, "O(2^D)", 0.4),
    "single values: time of a query, by |R|": (1.0, "O(|R|)", 0.4),
    "preprocessing: time, by n": (1.0, "O(max(D·m^D·n, (2m)^D))", 0.5),
    "on the fly: bytes kept, by n": (1.0, "O(D·m·n)", 0.1),
    "on the fly: bytes kept, by m": (1.0, "O(D·m·n)", 0.1),
    "on the fly: time of a query, by n": (1.0, "O(max(D·m^D·n, 2^D·|R|))", 0.5),
    "on the fly: time of a query, by |R|": (1.0, "O(max(D·m^D·n, 2^D·|R|))", 0.5),
}


def costs_found(data: Data) -> list[Finding]:
    """Exponents, which may be smaller than those of the paper: then a bound was not reached."""
    found = []
    for name, (printed, formula, slack) in COSTS.items():
        x, y = np.array(data["series"][name]).T
        ours = growth(x, y)
        found.append(
            Finding(
                what=f"{name}: exponent",
                ours=ours,
                printed=f"{printed:g}, from {formula}",
                high=printed + slack,
                tolerance=f"an upper bound; {slack:g} more for caches, and for what grows slower",
                note="" if ours > printed - slack else _FASTER.get(name, "slower growth"),
            )
        )
    return found


_FASTER = {
    "on the fly: time of a query, by |R|": "the library reads only the bits at the ends of a range",
    "preprocessing: time, by n": "the part that does not depend on n still counts",
}


def costs_rows(data: Data) -> Rows:
    """All measurements."""
    rows = [[name, shown(x), shown(y)] for name, held in data["series"].items() for x, y in held]
    return ["what", "size", "numbers, bytes or seconds"], rows


def draw_costs(data: Data) -> Figure:
    """Costs by size, relative to the smallest."""
    made = need("matplotlib.figure").Figure(figsize=(7.2, 4), layout="constrained")
    panel = made.subplots()
    for name, held in data["series"].items():
        x, y = np.array(held).T
        panel.plot(x / x[0], y / y[0], "o-", ms=4, lw=1.2, label=name)
    panel.set(xscale="log", yscale="log", xlabel="size, smallest = 1", ylabel="cost, smallest = 1")
    panel.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    result: Figure = made
    return result


# Table 2: errors by method


def errors_row(axes: int, cells: int, epsilon: str, people: int = 10_000) -> dict[str, Any]:
    """Standard errors of one box, all but the outermost cells: Table 2, exactly.

    Args:
        axes: D.
        cells: m, the cells of every axis.
        epsilon: ε per step.
        people: Number of people, spread evenly.
    """
    shape = (cells,) * axes
    box = middle_box(shape)
    protect = sf.Distance(epsilon)
    choices: dict[str, Choice | None] = {
        "thermometer, published": sf.Thermometer("published"),
        "default": None,
    }
    errors = {}
    for name, choice in choices.items():
        names = [f"x{axis}" for axis in range(axes)]
        made = [sf.integers(n, 0, cells - 1, protect=protect, channel=choice) for n in names]
        asked = dict(zip(names, box, strict=True))
        found = sf.Study("table", made).expected_error(people, asked)
        errors[name] = found.rows[-1].stderr
    haney = EdgeRanges(Fraction(epsilon), shape, (box,))
    return {
        "axes": axes,
        "cells": cells,
        "epsilon": epsilon,
        **errors,
        "Haney et al., extended": float(np.sqrt(people * haney.variance()[0])),
        "its printed rate": published_rate(people, axes, cells, float(Fraction(epsilon))) ** 0.5,
    }


def thermometer_variance(
    epsilon: Fraction, cells: int, axes: int, *, prefix: bool = False
) -> float:
    """One person's variance of the middle box (or of half the axis), people spread evenly.

    Args:
        epsilon: ε of one step.
        cells: m.
        axes: D.
        prefix: Whether the range is the first half of the axis.
    """
    channel = Thermometer("published").bind(LineMetric.equal(epsilon, cells))
    row = _row(cells, prefix=prefix)
    moment = float(np.mean(channel.second_moment(row[None])[0]))
    return moment**axes - float(row.mean()) ** axes


def haney_variance(epsilon: Fraction, cells: int, axes: int) -> float:
    """The same by the method of Haney et al., extended.

    Args:
        epsilon: ε of one step.
        cells: m.
        axes: D.
    """
    shape = (cells,) * axes
    return float(EdgeRanges(epsilon, shape, (middle_box(shape),)).variance()[0])


def tree_variance(epsilon: Fraction, cells: int, axes: int, *, prefix: bool = False) -> float:
    """The same under plain ε-LDP by a binary tree whose largest nodes are summed.

    Args:
        epsilon: ε of the whole report.
        cells: m.
        axes: D.
        prefix: Whether the range is the first half of the axis and a bit.
    """
    choice = sf.Hierarchical(2, "hrr", consistency=False)
    row = _row(cells, prefix=prefix)
    if axes == 1:
        channel = choice.bind(UniformMetric(epsilon, cells))
        weights = row
    else:
        metric = UniformMetric(epsilon, cells**axes)
        channel = choice.bind_grid(metric, (cells,) * axes, (True,) * axes)
        weights = np.multiply.outer(row, row).ravel()
    return float(np.mean(channel.second_moment(weights[None])[0]) - weights.mean())


def _row(cells: int, *, prefix: bool) -> Floats:
    """All cells but the outermost two, or two thirds of the axis, whose end cuts every node."""
    row = np.ones(cells)
    if prefix:
        row[(2 * cells) // 3 :] = 0
    else:
        row[[0, -1]] = 0
    return row


def errors(run: Run) -> Data:
    """Standard errors beside each other, and variances for their exponents."""
    lines = [1 << k for k in range(6, 13 if run.quick else 17, 2)]
    grids = [1 << k for k in range(3, 6 if run.quick else 8)]
    series: dict[str, list[list[float]]] = {}
    for name, method in (
        ("ε-LDP trees", tree_variance),
        ("Haney et al., extended", haney_variance),
        ("thermometer", thermometer_variance),
    ):
        run.seen(0.2 * len(series))
        for axes, sizes in ((1, lines), (2, grids)):
            series[f"{name}, D = {axes}, by log m"] = [
                [math.log2(m), method(Fraction(1), m, axes)] for m in sizes
            ]
        axes = 2
        series[f"{name}, D = {axes}, by 1/ε"] = [
            [float(1 / e), method(e, 16, axes)] for e in (SMALL, SMALL / 2)
        ]
    for name, quantile in (("ε-LDP trees", tree_variance), ("thermometer", thermometer_variance)):
        series[f"{name}, quantile, by log m"] = [
            [math.log2(m), quantile(Fraction(1), m, 1, prefix=True) ** 0.5] for m in lines
        ]
    shown_ = GRIDS[:2] if run.quick else GRIDS
    return {"series": series, "standard errors": [errors_row(*held) for held in shown_]}


#: Exponents in Table 2, where they are printed, and what is wrong with some of them.
ERRORS: dict[str, tuple[float, str, str]] = {
    "ε-LDP trees, D = 1, by log m": (
        1.0,
        "O(n·log m/ε²)",
        "the text derives log² m (§3.3), and so do we: the table has a slip",
    ),
    "Haney et al., extended, D = 1, by log m": (0.0, "O(n/ε²)", ""),
    "thermometer, D = 1, by log m": (0.0, "O(n/ε²)", ""),
    "ε-LDP trees, D = 2, by log m": (4.0, "O(n·(log m)^(D + D_R)/ε²), D = 2", ""),
    "Haney et al., extended, D = 2, by log m": (
        2.0,
        "O(n·D·(log m)^(2(D−1))/ε²), D = 2",
        "no mechanism is given for this rate; the one of Haney et al., reported by everybody, has "
        "(log m)^(3(D−1))",
    ),
    "thermometer, D = 2, by log m": (0.0, "O(n·(2/ε)^2D·2^−D_R)", ""),
    "ε-LDP trees, D = 2, by 1/ε": (2.0, "1/ε²", ""),
    "Haney et al., extended, D = 2, by 1/ε": (2.0, "1/ε²", ""),
    "thermometer, D = 2, by 1/ε": (4.0, "1/ε^2D, D = 2", ""),
    "ε-LDP trees, quantile, by log m": (1.0, "O(log m·√(log log m)/(ε·√n))", ""),
    "thermometer, quantile, by log m": (0.0, "O(√(log log m)/(ε·√n))", ""),
}


def errors_found(data: Data) -> list[Finding]:
    """Exponents beside those of Table 2, from the two largest sizes."""
    found = []
    for name, (printed, formula, note) in ERRORS.items():
        x, y = np.array(data["series"][name])[-2:].T
        ours = growth(x, y)
        found.append(
            Finding(
                what=f"{name}: exponent",
                ours=ours,
                printed=f"{printed:g}, from {formula}",
                low=printed - 2 * TOLERANCE * max(1.0, printed),
                high=printed + TOLERANCE * max(1.0, printed),
                tolerance="a quarter above and half below, as a rate holds for large m only",
                note=note,
            )
        )
    return found


def errors_rows(data: Data) -> Rows:
    """Standard errors of the middle box by all methods."""
    return table(data["standard errors"])


def draw_errors(data: Data) -> Figure:
    """Variances by log m, for one and two axes."""
    made = need("matplotlib.figure").Figure(figsize=(9, 3.8), layout="constrained")
    panels = made.subplots(1, 2)
    colours = {
        "ε-LDP trees": style.FAINT,
        "Haney et al., extended": style.TRUTH,
        "thermometer": style.ESTIMATE,
    }
    for panel, axes in zip(panels, (1, 2), strict=True):
        for name, colour in colours.items():
            x, y = np.array(data["series"][f"{name}, D = {axes}, by log m"]).T
            panel.plot(x, y, "o-", ms=4, color=colour, label=name)
        panel.set(
            yscale="log", xlabel="log2 m", title=f"D = {axes}", ylabel="variance per person, ε = 1"
        )
    panels[0].legend(frameon=False, fontsize=8)
    result: Figure = made
    return result
