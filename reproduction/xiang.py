"""Figure 1(b) and Table 2 of Xiang et al. 2020, their ranges of §3.3, and strategies by search.

``python -m reproduction.xiang`` finds the best scales for every size of S in Figure 1(b) (100
values, 10,000 people, ε = 1), those of prefixes for all ranges, and how much a search among rows
gains over the best fixed strategy. Results go to results/soak/xiang.json, the picture to
docs/images. ``--only figure table`` makes some of it anew.

E_S is ε where one of two values is in S and 2ε elsewhere. The paper's plain ε-LDP mechanism is
histogram encoding: Laplace noise of scale 2/ε on every cell, 8nm/ε² in all. Beside the published
noise on the reals stand the exact noise on a lattice, and flips of bits (`MatrixResponse`), which
have half of that. By symmetry S and the rest have one scale each, and the optimum is
2n·(|S|^(1/3) + (m − |S|)^(1/3))³/ε² up to |S| = m/2, from where on nothing is gained.

Table 2 gives rates for one box under E = ε·‖x − x'‖_1. Part "table" has exact errors beside them:
of the thermometer as published, of the extension of Haney et al. 2015 (`reproduction/haney.py`),
and of the library's default, for people spread evenly.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import sfumato as sf
from reproduction import records
from reproduction.haney import EdgeRanges, middle_box, published_rate
from reproduction.matrix_mechanism import MatrixMechanism
from sfumato.channels.choice import Choice
from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.distance import CappedLineMetric, LineMetric
from sfumato.metrics.edges import edges_of
from sfumato.metrics.uniform import UniformMetric
from sfumato.noise.search import search
from sfumato.noise.strategies import fit, rows_of, variances

RESULTS = Path("results/soak/xiang.json")
PICTURE = Path("docs/images/xiang-figure-1.png")

CELLS = 100
PEOPLE = 10_000
EPSILON = Fraction(1)
LINES = ((8, "1"), (32, "1/2"), (100, "1"), (256, "1/5"))
SEARCHED = 32
GRIDS = tuple((axes, cells, "1/2") for axes, cells in ((1, 64), (2, 16), (2, 64), (3, 16)))
SEED = 2020


def sensitive(inside: int, cells: int = CELLS, epsilon: Fraction = EPSILON) -> CellMetric:
    """E_S, where S is the first `inside` values; if these are all, it is plain ε-LDP.

    Args:
        inside: Size of S.
        cells: Number of cells.
        epsilon: ε.
    """
    halves = np.full((cells, cells), 2)
    halves[:inside] = halves[:, :inside] = 1
    np.fill_diagonal(halves, 0)
    return TableMetric(halves * epsilon.numerator, epsilon.denominator, cells)


def plain_error(cells: int = CELLS, people: int = PEOPLE, epsilon: Fraction = EPSILON) -> float:
    """The total error of histogram encoding under plain ε-LDP: scale 2/ε on each cell.

    Args:
        cells: Number of cells.
        people: Number of people.
        epsilon: ε.
    """
    return float(8 * people * cells / epsilon**2)


def best_error(
    inside: int, cells: int = CELLS, people: int = PEOPLE, epsilon: Fraction = EPSILON
) -> float:
    """The least total error under E_S, in closed form.

    Args:
        inside: Size of S.
        cells: Number of cells.
        people: Number of people.
        epsilon: ε.
    """
    if 2 * inside >= cells:
        return plain_error(cells, people, epsilon)
    return float(2 * people * (np.cbrt(inside) + np.cbrt(cells - inside)) ** 3 / epsilon**2)


def figure_row(inside: int, cells: int = CELLS, people: int = PEOPLE) -> dict[str, Any]:
    """One point of Figure 1(b).

    Args:
        inside: Size of S.
        cells: Number of cells.
        people: Number of people.
    """
    metric = sensitive(inside, cells)
    found = sf.allocate(np.eye(cells), metric)
    scales = found.scales
    published = 2 * people * float(np.sum(scales**2))
    lattice = people * float(variances(1 / scales, np.ones(cells), bits=False).sum())
    plain = plain_error(cells, people)
    return {
        "sensitive": inside,
        "published": published,
        "plain": plain,
        "ratio": published / plain,
        "on a lattice": lattice,
        "gap": found.gap,
        "pairs": found.pairs,
        "constraints": found.constraints,
    }


def bits_row(inside: int, cells: int = CELLS, people: int = PEOPLE) -> dict[str, Any]:
    """The same with flipped bits and a known number of people.

    Args:
        inside: Size of S.
        cells: Number of cells.
        people: Number of people.
    """
    fitted = fit(
        rows_of("identity", cells),
        np.eye(cells),
        edges_of(sensitive(inside, cells)),
        bits=True,
    )
    return {
        "sensitive": inside,
        "flips": people * fitted.error,
        "ratio": people * fitted.error / plain_error(cells, people),
    }


def ranges_row(cells: int, epsilon: str, people: int = PEOPLE) -> dict[str, Any]:
    """All ranges from prefixes: the scales that the solver finds, and the total error.

    Args:
        cells: Number of cells.
        epsilon: ε per cell, as text.
        people: Number of people.
    """
    step = Fraction(epsilon)
    metric = LineMetric.equal(step, cells)
    # The paper's L_m, with the last row that everybody shares.
    mechanism = MatrixMechanism(metric, sf.questions.Prefixes(cells), sf.questions.Ranges(cells))
    fitted = fit(
        rows_of("prefix", cells),
        sf.questions.Ranges(cells).gram(),
        edges_of(metric),
        bits=True,
    )
    formula = 2 * people * cells * (cells - 1) / step**2
    return {
        "cells": cells,
        "epsilon": epsilon,
        "scales": sorted(set(mechanism.scales[:-1].tolist())),
        "last scale": float(mechanism.scales[-1]),
        "published": mechanism.published_error(people),
        "formula": float(formula),
        "on a lattice": mechanism.total_error(people),
        "flips": people * fitted.error,
    }


def table_row(axes: int, cells: int, epsilon: str, people: int = PEOPLE) -> dict[str, Any]:
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


def searches(cells: int = SEARCHED) -> dict[str, tuple[CellMetric, sf.questions.Workload]]:
    """Metrics and questions for which a strategy is searched."""
    half = Fraction(1, 2)
    names = [f"place {k}" for k in range(cells)]
    at = np.random.default_rng(SEED).uniform(0, 4, (cells, 2)).round(3).tolist()
    places = sf.Points(1, at=dict(zip(names, map(tuple, at), strict=True)))
    ring = [(names[k], names[(k + 1) % cells]) for k in range(cells)]
    points = sf.categories("x", names, protect=places).metric()
    circle = sf.categories("x", names, protect=sf.PolicyGraph(half, ring)).metric()
    every, ranges = sf.questions.Identity(cells), sf.questions.Ranges(cells)
    return {
        "distance, ranges": (LineMetric.equal(half, cells), ranges),
        "distance capped at 2, ranges": (
            CappedLineMetric(LineMetric.equal(half, cells), Fraction(2)),
            ranges,
        ),
        "uniform, ranges": (UniformMetric(Fraction(1), cells), ranges),
        "E_S, cells": (sensitive(cells // 10, cells), every),
        "points in the plane, cells": (points, every),
        "a ring, ranges": (circle, ranges),
    }


def search_row(name: str, metric: CellMetric, asked: sf.questions.Workload) -> dict[str, Any]:
    """The error per person of flipped bits, for fixed strategies and the one found.

    Args:
        name: Name of the case.
        metric: E.
        asked: The questions.
    """
    start = time.process_time()
    found = search(asked, metric, bits=True)
    return {
        "case": name,
        "cells": metric.size,
        "fixed": found.fixed,
        "searched": found.best.error,
        "gain": found.gain,
        "rows": len(found.best.rates),
        "seconds": round(time.process_time() - start, 1),
    }


def draw(figure: Sequence[dict[str, Any]], bits: Sequence[dict[str, Any]]) -> Figure:
    """Figure 1(b), with flipped bits beside it.

    Args:
        figure: The points of the figure.
        bits: The points of flipped bits.
    """
    picture = Figure(figsize=(6.4, 4), layout="constrained")
    axes = picture.subplots()
    sizes = [row["sensitive"] for row in figure]
    axes.plot(sizes, [row["plain"] for row in figure], color="#888888", label="plain ε, published")
    axes.plot(sizes, [row["published"] for row in figure], color="#0b5c8a", label="E_S, published")
    axes.plot(
        [row["sensitive"] for row in bits],
        [row["flips"] for row in bits],
        "o-",
        color="#c8642a",
        label="E_S, flipped bits",
    )
    axes.set(xlabel="values in S", ylabel="total expected squared error", ylim=(0, None))
    axes.legend(frameon=False)
    return picture


PARTS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "figure": lambda: [figure_row(inside) for inside in range(1, CELLS + 1)],
    "bits": lambda: [bits_row(inside) for inside in (1, 2, 5, *range(10, CELLS + 1, 10))],
    "table": lambda: [table_row(*grid) for grid in GRIDS],
    "ranges": lambda: [ranges_row(*line) for line in LINES],
    "search": lambda: [search_row(name, *case) for name, case in searches().items()],
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute the parts that were asked for, and keep the rest."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m reproduction.xiang")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    asked = parser.parse_args(arguments)
    held = records.held(RESULTS)
    for name in asked.only:
        held[name] = PARTS[name]()
        records.stamp(held, name, f"python -m reproduction.xiang --only {name}")
        print(name)
        for row in held[name]:
            print("  ", row)
    records.keep(RESULTS, held)
    if "figure" in held and "bits" in held:
        draw(held["figure"], held["bits"]).savefig(PICTURE, dpi=150)


if __name__ == "__main__":
    main()
