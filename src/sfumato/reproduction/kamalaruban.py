"""Kamalaruban et al. 2020, Figures 2 to 5: how much a metric saves a curator in noise.

50 places at random in a square of side 100, 1,000 single queries, and 1 to 10 queries together
under the paper's three strategies and the exact optimum; and US cities in Figure 3.

The improvement factor is the paper's: the scale of ordinary Laplace noise at ε = the smallest
distance, over the scale under the metric; of several queries, the geometric mean.

What the paper leaves open: its 50 places are drawn here from a seed, coordinates and random
coefficients have four decimals, and the axis of Figure 4 is ε = 0.2 to 2. The threshold of Figures
4 and 5 is closed under shortest paths first, as it breaks the triangle inequality.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import sfumato as sf
from sfumato.arrays import Floats
from sfumato.extras import need
from sfumato.metrics.base import Metric
from sfumato.metrics.cells import CellMetric
from sfumato.metrics.edges import Edges, edges_of
from sfumato.reproduction.exhibits import Data, Finding, ReproductionError, Rows, Run, number, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


def figure_2(
    count: int = SINGLE, matrices: int = MATRICES, most: int = MOST, seed: int = SEED
) -> dict[str, Any]:
    """The histogram and both panels of curves.

    Args:
        count: Number of single queries.
        matrices: Number of random matrices per number of queries.
        most: Largest number of queries at once.
        seed: Seed of the randomness.
    """
    at = places(seed=seed)
    edges = edges_of(metric_of(sf.Points(1, at=at), list(at)))
    return {
        "smallest distance": round(shortest(edges), 4),
        "single": [round(f, 4) for f in single(edges, shortest(edges), count, seed)],
        "together": [
            together(edges, k, binary, matrices, seed)
            for binary in (False, True)
            for k in range(1, most + 1)
        ],
    }


# Figure 3


def cities(folder: Path) -> list[dict[str, str]]:
    """All cities of the file whose elevation is known."""
    try:
        with (folder / DATA).open(encoding="utf-8", newline="") as file:
            return [row for row in csv.DictReader(file) if row["elevation_m"]]
    except (OSError, KeyError, ValueError) as error:
        raise ReproductionError(
            f"cannot read {DATA!r} in the folder of data: it needs the columns name, lat, lon and "
            f"elevation_m ({error})"
        ) from None


def figure_3(
    rows: Sequence[dict[str, str]], count: int = SINGLE, seed: int = SEED
) -> dict[str, Any]:
    """Random queries over cities, and the mean elevation of a resident.

    Args:
        rows: The cities.
        count: Number of random queries.
        seed: Seed of the randomness.
    """
    names = [f"{i} {row['name']}" for i, row in enumerate(rows)]
    at = {name: (row["lat"], row["lon"]) for name, row in zip(names, rows, strict=True)}
    edges = edges_of(metric_of(sf.Points(1, at=at), names))
    epsilon = shortest(edges)
    factors = single(edges, epsilon, count, seed, cells=len(rows))
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


def blowfish(count: int = SINGLE, seed: int = SEED) -> list[dict[str, Any]]:
    """Mean error and factors under both forms of a threshold, at ε = 1; errors scale as 1/ε.

    Args:
        count: Number of random queries.
        seed: Seed of the randomness.
    """
    at = places(seed=seed)
    rng = np.random.default_rng([seed, 4])
    queries = [coefficients(rng, (1, CELLS), binary=False) for _ in range(count)]
    plain = np.array([sensitivity(query) for query in queries])  # scale of ε = 1
    rows = []
    forms: tuple[tuple[str, Literal["steps", "smooth"]], ...]
    forms = (("threshold", "steps"), ("smooth", "smooth"))
    for form, beyond in forms:
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
    figure: Figure = need("matplotlib.figure").Figure(figsize=(12, 3.6), layout="constrained")
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
    figure: Figure = need("matplotlib.figure").Figure(figsize=(5, 3.6), layout="constrained")
    panel: Any = figure.subplots()
    _histograms(figure, [panel], [(f"{record['cities']} US cities", record["factors"])])
    return figure


def picture_4(rows: Sequence[dict[str, Any]]) -> Figure:
    """Mean error by ε, and the distribution of factors, for each reach."""
    figure: Figure = need("matplotlib.figure").Figure(figsize=(10, 7), layout="constrained")
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
        ticker = need("matplotlib.ticker")
        errors.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        errors.yaxis.set_major_formatter(ticker.ScalarFormatter())
        errors.minorticks_off()
        factors.set_xlabel("log10 of the improvement factor, ε = 1")
        factors.set_ylabel("queries")
        errors.legend(fontsize=8)
        factors.legend(fontsize=8)
    return figure


# The exhibits


def make_figure_2(run: Run) -> Data:
    """The histogram and both panels of curves."""
    found = figure_2(100, 10, 4, run.seed) if run.quick else figure_2(seed=run.seed)
    return {**found, "places": list(places(seed=run.seed).values())}


def figure_2_found(data: Data) -> list[Finding]:
    """What the text says of the plots, which have no printed numbers."""
    several = [row for row in data["together"] if row["k"] > 1]
    binary = [row for row in several if row["binary"]]
    third = min(
        row["factor"]["strategy 3"] / max(row["factor"][name] for name in NAMES[:2])
        for row in several
    )
    over = min(row["strategy 3 over optimum"]["least"] for row in data["together"])
    return [
        Finding(
            what="(b) improvement factor of single queries, mean",
            ours=float(np.mean(data["single"])),
            printed="significant improvement",
            low=1.5,
            tolerance="one and a half, to count as significant",
        ),
        Finding(
            what="(c), (d) strategy 3 over the better of strategies 1 and 2, least",
            ours=third,
            printed="strategy 3 outperforms the others",
            low=1.0,
            tolerance="the paper's statement, for 2 or more queries",
        ),
        Finding(
            what="(d) factor of strategy 1, most, 3 or more queries of 0 and 1",
            ours=max(row["factor"]["strategy 1"] for row in binary if row["k"] > 2),
            printed="below 1.5",
            high=1.5,
            tolerance="the paper's statement",
            note="1.9 and 1.7 for one query and two",
        ),
        Finding(
            what="sum of squared scales: strategy 3 over the exact optimum, least",
            ours=over,
            printed="not stated: the optimum is ours",
            low=1 - 1e-5,
            tolerance="the accuracy of the optimum",
        ),
    ]


def figure_2_rows(data: Data) -> Rows:
    """Factors by number of queries."""
    head = ["queries", "coefficients", *NAMES]
    rows = [
        [
            str(row["k"]),
            "0 or 1" if row["binary"] else "[0, 1]",
            *(f"{row['factor'][name]:.2f}" for name in NAMES),
        ]
        for row in data["together"]
    ]
    return head, rows


def make_figure_3(run: Run) -> Data:
    """Random queries over cities."""
    assert run.folder is not None  # noqa: S101 (the runner has looked)
    return figure_3(cities(run.folder), 50 if run.quick else SINGLE, run.seed)


def figure_3_found(data: Data) -> list[Finding]:
    """The numbers in the text."""
    factors = np.array(data["factors"])
    edition = f"another edition of the data: {data['cities']} cities in place of 741"
    return [
        number("cities above 50,000 people", data["cities"], 741, within=0.05, why=edition),
        Finding(
            what="mean improvement factor of random queries",
            ours=float(factors.mean()),
            printed="between 2 and 3",
            low=2.0,
            high=3.0,
            tolerance="the paper's statement",
        ),
        Finding(
            what="largest factor",
            ours=float(factors.max()),
            printed="some above 7.5",
            low=7.5,
            tolerance="the paper's statement",
            note=f"of {len(factors):,} random queries on {data['cities']} cities",
        ),
        number(
            "factor of the mean elevation of a resident",
            data["elevation"],
            PRINTED_ELEVATION,
            within=0.25,
            why="elevations come from another source",
            note=f"it hangs on one pair, {' and '.join(data['decided by'])}, "
            f"{data['apart in metres']:.0f} m apart in height; without the first it is "
            f"{data['without the first']:.0f}",
        ),
    ]


def figure_3_rows(data: Data) -> Rows:
    """What is shown, in numbers."""
    kept = ("cities", "smallest distance", "elevation", "without the first")
    return table([{name: data[name] for name in kept}])


def make_blowfish(run: Run) -> Data:
    """Both forms of a threshold, for every reach."""
    return {"rows": blowfish(60 if run.quick else SINGLE, run.seed)}


def _forms(data: Data) -> dict[str, list[dict[str, Any]]]:
    """The rows of each form, by reach."""
    return {
        form: [row for row in data["rows"] if row["form"] == form]
        for form in ("threshold", "smooth")
    }


def figure_4_found(data: Data) -> list[Finding]:
    """What the text says of the errors."""
    forms = _forms(data)
    growth = min(
        b["mean error"] / a["mean error"] for rows in forms.values() for a, b in pairwise(rows)
    )
    pairs = list(zip(forms["smooth"], forms["threshold"], strict=True))
    smooth = [a["mean error"] / b["mean error"] for a, b in pairs]
    return [
        Finding(
            what="error at a longer reach over that at the next shorter, least",
            ours=growth,
            printed="the higher the threshold, the higher the error",
            low=1.0,
            tolerance="the paper's statement",
        ),
        Finding(
            what="error of the smooth form over the threshold's, least",
            ours=min(smooth),
            printed="the smooth form has a higher error",
            low=1.0,
            tolerance="the paper's statement",
        ),
        Finding(
            what="the same, most",
            ours=max(smooth),
            printed="roughly the same",
            high=2.0,
            tolerance="a factor of two on the figure's logarithmic axis",
            note=""
            if max(smooth) <= 2
            else "our threshold is closed under shortest paths, which only shortens distances; the "
            "places differ too",
        ),
    ]


def figure_5_found(data: Data) -> list[Finding]:
    """What the text says of the factors."""
    found = []
    forms = _forms(data)
    for row in data["rows"]:
        found.append(
            Finding(
                what=f"{row['form']}, reach {row['reach']}: least factor",
                ours=min(row["factors"]),
                printed="never worse than ordinary noise",
                low=1 - 1e-4,
                tolerance="four digits are kept",
            )
        )
    first = [float(np.median(rows[0]["factors"])) for rows in forms.values()]
    found.append(
        Finding(
            what="reach 2: median factor of the threshold over that of the smooth form",
            ours=first[0] / first[1],
            printed="the threshold's is better",
            low=1.0,
            tolerance="the paper's statement",
        )
    )
    last = [math.log10(float(np.median(rows[-1]["factors"]))) for rows in forms.values()]
    found.append(
        Finding(
            what="reach 16: distance of the median factors of both forms, in powers of ten",
            ours=abs(last[0] - last[1]),
            printed="closer to each other for higher thresholds",
            high=abs(math.log10(first[0] / first[1])),
            tolerance="closer than at reach 2",
        )
    )
    return found


def blowfish_rows(data: Data) -> Rows:
    """Mean errors and median factors by reach."""
    head = ["form", "reach", "pairs within", "mean RMSE, ε = 1", "ordinary RMSE", "median factor"]
    rows = [
        [
            row["form"],
            str(row["reach"]),
            str(row["pairs within reach"]),
            f"{row['mean error']:.3g}",
            f"{row['ordinary error']:.3g}",
            f"{np.median(row['factors']):.3g}",
        ]
        for row in data["rows"]
    ]
    return head, rows


def draw_blowfish(data: Data) -> Figure:
    """Errors above, factors below."""
    return picture_4(data["rows"])
