"""Xiang et al. 2020: Figure 1(b), and the scales of their ranges in §3.3.

Figure 1(b) has the best scales for every size of S: 100 values, 10,000 people, ε = 1. E_S is ε
where one of two values is in S and 2ε elsewhere. The paper's plain ε-LDP mechanism is histogram
encoding: Laplace noise of scale 2/ε on every cell, 8nm/ε² in all. Beside the published noise on the
reals stand the exact noise on a lattice, and flips of bits (`MatrixResponse`), which have half of
that. By symmetry S and the rest have one scale each, and the optimum is
2n·(|S|^(1/3) + (m − |S|)^(1/3))³/ε² up to |S| = m/2, from where on nothing is gained.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

import sfumato as sf
from sfumato.extras import need
from sfumato.metrics.cells import CellMetric, TableMetric
from sfumato.metrics.distance import LineMetric
from sfumato.metrics.edges import edges_of
from sfumato.noise.strategies import fit, rows_of, variances
from sfumato.plots import style
from sfumato.reproduction.exhibits import Data, Finding, Rows, Run, number, table
from sfumato.reproduction.matrix_mechanism import MatrixMechanism

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELLS = 100
PEOPLE = 10_000
EPSILON = Fraction(1)
LINES = ((8, "1"), (32, "1/2"), (100, "1"), (256, "1/5"))
EVERY = {True: 10, False: 1}  # sizes of S, by whether the run is quick


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


def figure_1b(run: Run) -> Data:
    """All sizes of S, and the scales of ranges."""
    sizes = [1, *range(EVERY[run.quick], CELLS + 1, EVERY[run.quick])]
    figure = []
    for inside in dict.fromkeys(sizes):
        run.seen(inside / CELLS)
        figure.append(figure_row(inside))
    flipped = (10, 100) if run.quick else (1, 2, 5, *range(10, CELLS + 1, 10))
    bits = [bits_row(inside) for inside in flipped]
    return {"figure": figure, "bits": bits}


def ranges(run: Run) -> Data:
    """The scales of prefixes for several lines."""
    return {"ranges": [ranges_row(*line) for line in (LINES[:2] if run.quick else LINES)]}


def figure_1b_found(data: Data) -> list[Finding]:
    """What the text says of the curve, which has no printed numbers."""
    ratio = {row["sensitive"]: row["ratio"] for row in data["figure"]}
    plain = data["figure"][0]["plain"]
    closed = max(abs(row["published"] / best_error(row["sensitive"]) - 1) for row in data["figure"])
    why = "the paper's formula, 8nm/ε²"
    return [
        number("total error of plain ε-LDP", plain, 8 * PEOPLE * CELLS, within=1e-9, why=why),
        Finding(
            what="error under E_S over plain ε-LDP, |S| = 10",
            ours=ratio[10],
            printed="better",
            high=0.9,
            tolerance="at least a tenth less, to count as better in a plot",
        ),
        Finding(
            what="error under E_S over plain ε-LDP, |S| = 40",
            ours=ratio[40],
            printed="almost the same",
            low=0.95,
            high=1.0,
            tolerance="within a twentieth, to look the same in a plot",
        ),
        Finding(
            what="solver over closed form, largest relative difference",
            ours=closed,
            printed="the optimum of problem (2)",
            high=1e-6,
            tolerance="the accuracy to which the problem is solved",
        ),
    ]


def ranges_found(data: Data) -> list[Finding]:
    """Scales and the total error, as §3.3 derives them."""
    found = []
    for row in data["ranges"]:
        at = f"m = {row['cells']}, ε = {row['epsilon']}"
        why = "the paper's formula; the problem is solved to 1e-7"
        scale = float(1 / Fraction(row["epsilon"]))
        found += [
            number(
                f"{at}: s of all but the last row", max(row["scales"]), scale, within=1e-6, why=why
            ),
            number(f"{at}: total error", row["published"], row["formula"], within=1e-6, why=why),
        ]
    return found


def figure_1b_rows(data: Data) -> Rows:
    """All sizes of S."""
    return table([{k: v for k, v in row.items() if k != "gap"} for row in data["figure"]])


def ranges_rows(data: Data) -> Rows:
    """All lines."""
    return table(data["ranges"])


def draw(data: Data) -> Figure:
    """Figure 1(b), with flipped bits beside it."""
    picture = need("matplotlib.figure").Figure(figsize=(6.4, 4), layout="constrained")
    axes = picture.subplots()
    figure, bits = data["figure"], data["bits"]
    sizes = [row["sensitive"] for row in figure]
    axes.plot(
        sizes, [row["plain"] for row in figure], color=style.FAINT, label="plain ε, published"
    )
    axes.plot(sizes, [r["published"] for r in figure], color=style.ESTIMATE, label="E_S, published")
    axes.plot(
        [row["sensitive"] for row in bits],
        [row["flips"] for row in bits],
        "o-",
        ms=4,
        color=style.TRUTH,
        label="E_S, flipped bits (ours)",
    )
    axes.set(xlabel="values in S", ylabel="total expected squared error", ylim=(0, None))
    axes.legend(frameon=False)
    result: Figure = picture
    return result
