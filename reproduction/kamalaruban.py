"""Figures 2 to 5 of Kamalaruban et al. 2020: how much a metric saves a curator in noise.

``python -m reproduction.kamalaruban`` draws Figures 2(b–d), 4 and 5: 50 places at random in a
square of side 100, 1,000 single queries, and 1 to 10 queries together under the paper's three
strategies and the exact optimum. ``--data FOLDER`` makes Figure 3 instead, from us_cities.csv
there. What is not made anew stays as recorded in results/soak/kamalaruban.json; tables go to
docs/central.md and pictures to docs/images.

The improvement factor is the paper's: the scale of ordinary Laplace noise at ε = the smallest
distance, over the scale under the metric; of several queries, the geometric mean.

What the paper leaves open: its 50 places are drawn here from seed 2020, coordinates and random
coefficients have four decimals, and the axis of Figure 4 is ε = 0.2 to 2. The threshold of Figures
4 and 5 is closed under shortest paths first, as it breaks the triangle inequality.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, ScalarFormatter
from numpy.typing import NDArray

import sfumato as sf
from benchmarks.pages import digits, markdown
from reproduction import records
from sfumato.metrics.base import Metric
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.edges import Edges, edges_of

Floats = NDArray[np.float64]

RESULTS = Path("results/soak/kamalaruban.json")
PAGE = Path("docs/central.md")
PICTURES = Path("docs/images")
DATA = "us_cities.csv"

SEED = 2020
CELLS = 50
SINGLE = 1000
MATRICES = 100
MOST = 10
METHODS = ("equal", "shared", "psa", "exact")
NAMES = ("strategy 1", "strategy 2", "strategy 3", "exact optimum")
REACHES = (2, 4, 8, 16)
EPSILONS = (0.2, 0.5, 1.0, 2.0)
PRINTED_ELEVATION = 202
COLOURS = ("#c8642a", "#c9a227", "#3f8f5f", "#0b5c8a")


def places(cells: int = CELLS, seed: int = SEED) -> dict[str, tuple[float, float]]:
    """Random places in a square of side 100.

    Args:
        cells: Number of places.
        seed: Seed of the randomness.
    """
    found = np.random.default_rng(seed).uniform(0, 100, (cells, 2)).round(4)
    return {f"place {i}": (float(x), float(y)) for i, (x, y) in enumerate(found)}


def metric_of(protect: Metric, labels: Sequence[str]) -> CellMetric:
    """The metric between cells that a guarantee states.

    Args:
        protect: The guarantee.
        labels: Names of the cells.
    """
    return sf.categories("place", list(labels), protect=protect).metric()


def shortest(edges: Edges) -> float:
    """The smallest distance between two cells: the ε that ordinary privacy would need."""
    return float(min(edges.lengths))


def coefficients(rng: np.random.Generator, shape: tuple[int, ...], binary: bool) -> Floats:
    """Random queries: numbers between 0 and 1, or zeros and ones.

    Args:
        rng: Where they are drawn from.
        shape: Number of queries and of cells.
        binary: Whether they are zeros and ones.
    """
    if binary:
        return rng.integers(0, 2, shape).astype(np.float64)
    return rng.uniform(0, 1, shape).round(4)


def sensitivity(queries: Floats) -> float:
    """The largest L1 distance between the answers for two values of one record."""
    pairs = np.abs(queries[:, :, None] - queries[:, None, :]).sum(axis=0)
    return float(pairs.max())


def improvement(queries: Floats, epsilon: float, scales: Floats) -> float:
    """The paper's factor: the ordinary scale over the scales found, as a geometric mean.

    Args:
        queries: The queries.
        epsilon: ε of the ordinary noise.
        scales: The scales found.
    """
    return float(np.exp(np.mean(np.log(sensitivity(queries) / epsilon / scales))))


# Figure 2


def single(
    edges: Edges, epsilon: float, count: int = SINGLE, seed: int = SEED, cells: int = CELLS
) -> list[float]:
    """Improvement factors of random single queries.

    Args:
        edges: The distances.
        epsilon: ε of the ordinary noise.
        count: Number of queries.
        seed: Seed of the randomness.
        cells: Number of cells.
    """
    rng = np.random.default_rng([seed, 1])
    found = []
    for _ in range(count):
        query = coefficients(rng, (1, cells), binary=False)
        found.append(improvement(query, epsilon, sf.allocate(query, edges).scales))
    return found


def together(
    edges: Edges, k: int, binary: bool, count: int = MATRICES, seed: int = SEED, cells: int = CELLS
) -> dict[str, Any]:
    """K random queries at once: factors and sums of squares, by strategy.

    Args:
        edges: The distances.
        k: Number of queries.
        binary: Whether coefficients are zeros and ones.
        count: Number of random matrices.
        seed: Seed of the randomness.
        cells: Number of cells.
    """
    rng = np.random.default_rng([seed, 2 + binary, k])
    factors: dict[str, list[float]] = {name: [] for name in NAMES}
    squares: dict[str, list[float]] = {name: [] for name in NAMES}
    for _ in range(count):
        queries = coefficients(rng, (k, cells), binary)
        for name, method in zip(NAMES, METHODS, strict=True):
            found = sf.allocate(queries, edges, method=method)
            factors[name].append(improvement(queries, shortest(edges), found.scales))
            squares[name].append(found.objective)
    over = np.array(squares["strategy 3"]) / np.array(squares["exact optimum"])
    return {
        "k": k,
        "binary": binary,
        "matrices": count,
        "factor": {name: round(float(np.mean(found)), 4) for name, found in factors.items()},
        "strategy 3 over optimum": {
            "least": round(float(over.min()), 6),
            "mean": round(float(over.mean()), 4),
            "most": round(float(over.max()), 4),
        },
    }


def figure_2(count: int = SINGLE, matrices: int = MATRICES, most: int = MOST) -> dict[str, Any]:
    """The histogram and both panels of curves.

    Args:
        count: Number of single queries.
        matrices: Number of random matrices per number of queries.
        most: Largest number of queries at once.
    """
    at = places()
    edges = edges_of(metric_of(sf.Points(1, at=at), list(at)))
    return {
        "smallest distance": round(shortest(edges), 4),
        "single": [round(f, 4) for f in single(edges, shortest(edges), count)],
        "together": [
            together(edges, k, binary, matrices)
            for binary in (False, True)
            for k in range(1, most + 1)
        ],
    }


# Figure 3


def cities(folder: Path) -> list[dict[str, str]]:
    """All cities of the file whose elevation is known."""
    with (folder / DATA).open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row["elevation_m"]]


def figure_3(rows: Sequence[dict[str, str]], count: int = SINGLE) -> dict[str, Any]:
    """Random queries over cities, and the mean elevation of a resident.

    Args:
        rows: The cities.
        count: Number of random queries.
    """
    names = [f"{i} {row['name']}" for i, row in enumerate(rows)]
    at = {name: (row["lat"], row["lon"]) for name, row in zip(names, rows, strict=True)}
    edges = edges_of(metric_of(sf.Points(1, at=at), names))
    epsilon = shortest(edges)
    factors = single(edges, epsilon, count, cells=len(rows))
    height = np.array([[float(row["elevation_m"]) for row in rows]])
    found = sf.allocate(height, edges)
    i, j = found.binding[0]
    without = np.delete(height, i, axis=1), np.delete(np.array(list(at.values())), i, axis=0)
    again = {f"{k}": (row[0], row[1]) for k, row in enumerate(without[1].tolist())}
    spared = edges_of(metric_of(sf.Points(1, at=again), list(again)))
    return {
        "cities": len(rows),
        "smallest distance": round(epsilon, 6),
        "factors": [round(f, 4) for f in factors],
        "elevation": round(improvement(height, epsilon, found.scales), 2),
        "decided by": [rows[i]["name"], rows[j]["name"]],
        "apart in metres": abs(float(height[0, i] - height[0, j])),
        "without the first": round(
            improvement(height, epsilon, sf.allocate(without[0], spared).scales), 2
        ),
    }


# Figures 4 and 5


def blowfish(count: int = SINGLE) -> list[dict[str, Any]]:
    """Mean error and factors under both forms of a threshold, at ε = 1; errors scale as 1/ε."""
    at = places()
    rng = np.random.default_rng([SEED, 4])
    queries = [coefficients(rng, (1, CELLS), binary=False) for _ in range(count)]
    plain = np.array([sensitivity(query) for query in queries])  # scale of ε = 1
    rows = []
    for form, beyond in (("threshold", "steps"), ("smooth", "smooth")):
        for reach in REACHES:
            protect = sf.Within(1, reach, beyond=beyond, at=at)
            metric = metric_of(protect, list(at))
            edges = edges_of(metric)
            scales = np.array([sf.allocate(query, edges).scales[0] for query in queries])
            finite = np.isfinite(metric.matrix())
            rows.append(
                {
                    "form": form,
                    "reach": reach,
                    "pairs within reach": int(_within(at, reach)),
                    "finite pairs": int((finite.sum() - len(at)) // 2),
                    "mean error": round(float(np.sqrt(2) * scales.mean()), 5),
                    "ordinary error": round(float(np.sqrt(2) * plain.mean()), 5),
                    "factors": [round(float(f), 4) for f in plain / scales],
                }
            )
    return rows


def _within(at: dict[str, tuple[float, float]], reach: float) -> int:
    """The number of pairs of places at most a given distance apart."""
    there = np.array(list(at.values()))
    apart = np.sqrt(((there[:, None] - there[None]) ** 2).sum(axis=-1))
    return int(np.count_nonzero(np.triu(apart <= reach, 1)))


# Pictures and tables


def _histograms(
    figure: Figure, panels: Sequence[Any], series: Sequence[tuple[str, Sequence[float]]]
) -> None:
    """One histogram per panel."""
    for panel, (title, values) in zip(panels, series, strict=True):
        panel.hist(values, bins=40, color="#0b5c8a")
        panel.axvline(float(np.mean(values)), color="#c8642a")
        panel.set_title(f"{title}: mean {np.mean(values):.2f}", fontsize=10)
        panel.set_xlabel("improvement factor")
        panel.set_ylabel("queries")


def picture_2(record: dict[str, Any]) -> Figure:
    """Histogram of single queries, and the curves of several."""
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    panels: Any = figure.subplots(1, 3)
    _histograms(figure, panels[:1], [("single queries", record["single"])])
    for panel, binary in zip(panels[1:], (False, True), strict=True):
        rows = [row for row in record["together"] if row["binary"] == binary]
        for name, colour in zip(NAMES, COLOURS, strict=True):
            panel.plot(
                [row["k"] for row in rows],
                [row["factor"][name] for row in rows],
                marker="o",
                color=colour,
                label=name,
            )
        panel.set_title("coefficients 0 or 1" if binary else "coefficients in [0, 1]", fontsize=10)
        panel.set_xlabel("queries together")
        panel.set_ylabel("improvement factor")
        panel.legend(fontsize=8)
    return figure


def picture_3(record: dict[str, Any]) -> Figure:
    """Histogram over cities."""
    figure = Figure(figsize=(5, 3.6), layout="constrained")
    panel: Any = figure.subplots()
    _histograms(figure, [panel], [(f"{record['cities']} US cities", record["factors"])])
    return figure


def picture_4(rows: Sequence[dict[str, Any]]) -> Figure:
    """Mean error by ε, and the distribution of factors, for each reach."""
    figure = Figure(figsize=(10, 7), layout="constrained")
    grid: Any = figure.subplots(2, 2)
    for column, form in enumerate(("threshold", "smooth")):
        held = [row for row in rows if row["form"] == form]
        errors, factors = grid[0, column], grid[1, column]
        for row, colour in zip(held, COLOURS, strict=True):
            label = f"reach {row['reach']}"
            errors.plot(
                EPSILONS, [row["mean error"] / e for e in EPSILONS], color=colour, label=label
            )
            factors.hist(
                np.log10(row["factors"]), bins=40, histtype="step", color=colour, label=label
            )
        errors.plot(
            EPSILONS,
            [held[0]["ordinary error"] / e for e in EPSILONS],
            color="#2b2b2b",
            linestyle="--",
            label="ordinary ε",
        )
        errors.set_title(form, fontsize=10)
        errors.set_xlabel("ε")
        errors.set_ylabel("mean RMSE of a query")
        errors.set_xscale("log")
        errors.set_yscale("log")
        errors.set_xticks(EPSILONS, [str(e) for e in EPSILONS])
        errors.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        errors.yaxis.set_major_formatter(ScalarFormatter())
        errors.minorticks_off()
        factors.set_xlabel("log10 of the improvement factor, ε = 1")
        factors.set_ylabel("queries")
        errors.legend(fontsize=8)
        factors.legend(fontsize=8)
    return figure


def _of_several(rows: Sequence[dict[str, Any]]) -> str:
    """Factors by number of queries."""
    head = ["queries", "coefficients", *NAMES, "strategy 3 over optimum, mean (most)"]
    lines = []
    for row in rows:
        over = row["strategy 3 over optimum"]
        lines.append(
            [
                str(row["k"]),
                "0 or 1" if row["binary"] else "[0, 1]",
                *(f"{row['factor'][name]:.2f}" for name in NAMES),
                f"{over['mean']:.2f} ({over['most']:.2f})",
            ]
        )
    return markdown(head, lines)


def _of_thresholds(rows: Sequence[dict[str, Any]]) -> str:
    """Mean error and factors by reach."""
    head = ["form", "reach", "pairs within", "mean RMSE", "ordinary RMSE", "median factor"]
    lines = [
        [
            row["form"],
            str(row["reach"]),
            str(row["pairs within reach"]),
            digits(row["mean error"]),
            digits(row["ordinary error"]),
            digits(float(np.median(row["factors"]))),
        ]
        for row in rows
    ]
    return markdown(head, lines)


def _of_cities(found: dict[str, Any]) -> str:
    """Figure 3 beside the printed values."""
    factors = np.array(found["factors"])
    lines = [
        ["cities", f"{found['cities']}", "741"],
        ["mean factor of random queries", f"{factors.mean():.2f}", "between 2 and 3"],
        ["largest factor", f"{factors.max():.2f}", "more than 7.5"],
        ["factor of the mean elevation", f"{found['elevation']:.0f}", f"{PRINTED_ELEVATION}"],
    ]
    return markdown(["", "here", "printed"], lines)


def tables(record: Mapping[str, Any]) -> dict[str, str]:
    """The tables of the page, from the record."""
    makers: dict[str, tuple[str, Callable[[Any], str]]] = {
        "several queries": ("figure 2", lambda found: _of_several(found["together"])),
        "cities": ("figure 3", _of_cities),
        "thresholds": ("figures 4 and 5", _of_thresholds),
    }
    return {name: make(record[key]) for name, (key, make) in makers.items() if key in record}


def main() -> None:
    """Draw the figures, or read the data and make Figure 3, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help=f"folder with {DATA}, for Figure 3")
    asked = parser.parse_args()
    record = records.held(RESULTS)
    if asked.data is None:
        record["figure 2"] = figure_2()
        picture_2(record["figure 2"]).savefig(PICTURES / "kamalaruban-figure-2.png", dpi=100)
        record["figures 4 and 5"] = blowfish()
        picture_4(record["figures 4 and 5"]).savefig(PICTURES / "kamalaruban-figure-4.png", dpi=100)
        records.stamp(record, "figures 2, 4 and 5", "python -m reproduction.kamalaruban")
    else:
        record["figure 3"] = figure_3(cities(asked.data))
        picture_3(record["figure 3"]).savefig(PICTURES / "kamalaruban-figure-3.png", dpi=100)
        records.stamp(record, "figure 3", "python -m reproduction.kamalaruban --data FOLDER")
    records.keep(RESULTS, record, PAGE, tables)


if __name__ == "__main__":
    main()
