"""Cormode et al. 2019, Figures 3 to 6: branching, ε, prefixes, and the centralised comparison.

All figures are expected errors, from exact variances; nothing is drawn at random. Where there are
too many ranges, they begin at evenly spaced cells, as in the paper, and end at evenly spaced ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

import sfumato as sf
from sfumato.arrays import Floats
from sfumato.extras import need
from sfumato.metrics.uniform import UniformMetric
from sfumato.reproduction.cormode import STRIDE, Queries, cauchy, expected
from sfumato.reproduction.cormode_printed import EPSILONS, NAMES, PEOPLE, PRINTED, column
from sfumato.reproduction.exhibits import Data, Finding, Rows, Run, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = tuple(PRINTED["ranges"])
#: How far apart ranges begin, where the paper does not ask all of them. Of 2^20 and 2^22 it says
#: so; that it asked fewer at 2^16 too follows from its program and its figures.
STEPS = {1 << 8: 1, 1 << 16: 1 << 7, 1 << 20: 1 << 14, 1 << 22: 1 << 17}
ENDS = 64  # per start, at 2^20 and 2^22
WITHIN = 0.10
COLOURS = ("#2b2b2b", "#c8642a", "#c9a227", "#0b5c8a")


# Figures 4 and 5


def by_epsilon(asked: str) -> Callable[[Run], Data]:
    """Makes Figure 4 or 5.

    Args:
        asked: "ranges" or "prefixes".
    """

    def make(run: Run) -> Data:
        columns: list[dict[str, Any]] = []
        sizes = SIZES[:1] if run.quick else SIZES
        for place, size in enumerate(sizes):
            run.seen(place / len(sizes))
            stride = 1 if size == SIZES[0] else STRIDE if size == SIZES[1] else size // ENDS - 1
            if asked == "prefixes":
                queries, said = Queries.prefixes(size, stride), "all prefixes"
            elif STEPS[size] == 1:
                queries, said = Queries.ranges(size), "all ranges"
            else:
                queries = Queries.spaced(size, STEPS[size], stride)
                said = f"ranges from every {STEPS[size]:,} cells"
            names = NAMES if size < SIZES[-1] else tuple(n for n in NAMES if n != "HH_16")
            ours = expected(size, cauchy(size), queries, names)
            columns += [column(asked, said, size, name, ours[name]) for name in names]
        return {"people": PEOPLE, "columns": columns}

    return make


def _power(size: int) -> str:
    """A number of cells as a power of two."""
    return f"2^{size.bit_length() - 1}"


def by_epsilon_found(data: Data) -> list[Finding]:
    """Every column's mean of ours over printed, and which methods are best."""
    found = []
    for held in data["columns"]:
        ours = np.array(held["expected"])
        printed = np.array(held["printed"])
        ratio = float(np.mean(ours / printed))
        note = f"cell by cell off by {100 * held['mean |ours/printed - 1|']:.1f} %"
        if abs(ratio - 1) > WITHIN:
            note += _WHY["large" if held["D"] > 1 << 16 else "small"]
        found.append(
            Finding(
                what=f"D = {_power(held['D'])}, {held['method']}, {held['queries']}: "
                "ours over printed, mean over ε",
                ours=ratio,
                printed="1",
                low=1 - WITHIN,
                high=1 + WITHIN,
                tolerance="±10 %: a figure is a mean of five runs, and the mean of a column has a "
                "standard error of 1 to 5 % (measured); so two to ten of these",
                aim=1.0,
                note=note,
            )
        )
    small = [held for held in data["columns"] if held["D"] == SIZES[0]]
    for epsilon, wanted in (("0.2", True), ("1.4", False)):
        place = EPSILONS.index(epsilon)
        haar = next(held["expected"][place] for held in small if held["method"] == "HaarHRR")
        best = min(held["expected"][place] for held in small if held["method"] != "HaarHRR")
        found.append(
            Finding(
                what=f"D = 2^8, ε = {epsilon}: HaarHRR over the best tree",
                ours=haar / best,
                printed="HaarHRR is best" if wanted else "a tree is best",
                low=0.0 if wanted else 1.0,
                high=1.0 if wanted else math.inf,
                tolerance="the paper's statement",
            )
        )
    return found


_WHY = {
    "small": "; the authors' program starts the random engines of all levels alike, which makes "
    "their noise dependent: with that, print is within 4 % (plain-ldp page)",
    "large": "; print levels off at large ε, where noise does not: what added to it is not stated",
}


def by_epsilon_rows(data: Data) -> Rows:
    """Ours and printed, cell by cell."""
    head = ["D", "ε", *(f"{name}: ours / printed" for name in NAMES)]
    rows = []
    for size in dict.fromkeys(held["D"] for held in data["columns"]):
        columns = {held["method"]: held for held in data["columns"] if held["D"] == size}
        for place, epsilon in enumerate(EPSILONS):
            cells = [
                f"{columns[name]['expected'][place]:.3f} / {columns[name]['printed'][place]:.3f}"
                if name in columns
                else ""
                for name in NAMES
            ]
            rows.append([_power(size), epsilon, *cells])
    return head, rows


def draw_by_epsilon(data: Data) -> Figure:
    """One panel per D: lines are expected, dots printed."""
    sizes = list(dict.fromkeys(held["D"] for held in data["columns"]))
    made = need("matplotlib.figure").Figure(
        figsize=(3.4 * max(2, len(sizes)), 3.6), layout="constrained"
    )
    panels = made.subplots(1, len(sizes), squeeze=False)[0]
    for panel, size in zip(panels, sizes, strict=True):
        for held in (c for c in data["columns"] if c["D"] == size):
            colour = COLOURS[NAMES.index(held["method"])]
            panel.plot(held["epsilon"], held["expected"], color=colour, label=held["method"])
            panel.plot(held["epsilon"], held["printed"], "o", ms=4, color=colour)
        panel.set(title=f"D = {_power(size)}", xlabel="ε", yscale="log")
    panels[0].set_ylabel("RMSE × 1000 (dots: printed)")
    panels[0].legend(frameon=False, fontsize=8)
    result: Figure = made
    return result


# Figure 3: branching and length of range

FIGURE_3_EPSILON = "1.1"
LENGTHS = {
    1 << 8: (1, 16, 64, 128, 192),
    1 << 16: (1, 1 << 8, 1 << 11, 1 << 14, 1 << 15),
    1 << 22: (1, 1 << 11, 1 << 16, 1 << 20, 1 << 21),
}
BRANCHINGS = {1 << 8: (2, 4, 16), 1 << 16: (2, 4, 16, 256), 1 << 22: (2, 4, 128, 2048)}
STARTS = 32
#: Methods, by the flag whether levels are read together.
TREES = {"TreeOUE": False, "TreeOUECI": True}


def _mean_squares(channel: Any, law: Floats, length: int, epsilon: float) -> tuple[float, float]:
    """N times the mean squared error of ranges of one length, by OUE (or HRR) at the nodes.

    Args:
        channel: A tree bound to its cells.
        law: Share of people in each cell.
        length: Cells of a range.
        epsilon: ε.

    Returns:
        The mean, for OUE and for HRR.
    """
    size = channel.size
    count = min(STARTS if size <= 1 << 16 else STARTS // 4, size - length + 1)
    starts = np.unique(np.linspace(0, size - length, count).astype(int))
    v = 4 * math.exp(epsilon) / (math.exp(epsilon) - 1) ** 2
    cells = np.arange(size)
    at_once = max(1, min(STARTS, (1 << 22) // size))
    oue = hrr = 0.0
    for here in range(0, len(starts), at_once):
        ends = starts[here : here + at_once, None]
        rows = ((cells >= ends) & (cells < ends + length)).astype(np.float64)
        parts = channel.node_parts(rows)[1]
        squares = own = 0.0
        for part, chance in zip(channel.parts, channel.chances, strict=True):
            b = parts[part.levels]
            share = np.add.reduceat(law, np.arange(0, size, size // b.shape[1]))
            squares += float((b**2).sum()) / chance
            own += float((b**2 @ share).sum()) / chance
        held = rows @ law
        between = float(np.sum(held - 2 * length / size * held + (length / size) ** 2))
        oue += v * squares + 2 * own - between
        hrr += (v + 1) * squares - between
    return oue / len(starts), hrr / len(starts)


def figure_3(run: Run) -> Data:
    """Mean squared errors by D, length and method."""
    rows = []
    epsilon = float(FIGURE_3_EPSILON)
    v = 4 * math.exp(epsilon) / (math.exp(epsilon) - 1) ** 2
    sizes = list(LENGTHS)[:1] if run.quick else list(LENGTHS)
    for place, size in enumerate(sizes):
        law = cauchy(size)
        metric = UniformMetric(Fraction(FIGURE_3_EPSILON), size)
        for step, length in enumerate(LENGTHS[size]):
            run.seen((place + step / len(LENGTHS[size])) / len(sizes))
            row: dict[str, Any] = {"D": size, "r": length}
            # Unbiased counts of cells are nearly independent: their variances add up.
            row["flat OUE"] = v * length / PEOPLE
            haar = sf.HaarHRR().bind(metric)
            row["HaarHRR"] = _mean_squares(haar, law, length, epsilon)[1] / PEOPLE
            for branching in BRANCHINGS[size]:
                for name, together in TREES.items():
                    choice = sf.Hierarchical(branching, "hrr", consistency=together)
                    oue, hrr = _mean_squares(choice.bind(metric), law, length, epsilon)
                    row[f"{name}, B = {branching}"] = oue / PEOPLE
                    row[f"{name.replace('OUE', 'HRR')}, B = {branching}"] = hrr / PEOPLE
            rows.append(row)
    return {"rows": rows, "epsilon": epsilon}


def _trees(row: dict[str, Any], name: str) -> dict[int, float]:
    """The errors of one kind of tree by branching."""
    return {
        int(key.rpartition(" ")[2]): value
        for key, value in row.items()
        if key.startswith(f"{name}, ")
    }


def figure_3_found(data: Data) -> list[Finding]:
    """What the text says of the plots, which have no printed numbers."""
    statement = "the paper's statement"
    gains, long_gains, found = [], [], []
    for row in data["rows"]:
        for oracle in ("OUE", "HRR"):
            plain, together = _trees(row, f"Tree{oracle}"), _trees(row, f"Tree{oracle}CI")
            here = [plain[b] / together[b] for b in plain]
            gains += here
            if row["r"] >= row["D"] // 8:
                long_gains += here
    found.append(
        Finding(
            what="consistency: error without over error with it, least",
            ours=min(gains),
            printed="never increases the error",
            low=1 - 1e-9,
            tolerance=statement,
        )
    )
    found.append(
        Finding(
            what="consistency: the same, largest over long ranges",
            ours=max(long_gains),
            printed="two to four times",
            low=2.0,
            tolerance=f"{statement} of many cases",
        )
    )
    for size in dict.fromkeys(row["D"] for row in data["rows"]):
        rows = [row for row in data["rows"] if row["D"] == size]
        best = [
            min(
                *_trees(row, "TreeOUECI").values(),
                *_trees(row, "TreeHRRCI").values(),
                row["HaarHRR"],
            )
            for row in rows
        ]
        found.append(
            Finding(
                what=f"D = {_power(size)}, r = 1: flat OUE over the best other method",
                ours=rows[0]["flat OUE"] / best[0],
                printed="competitive",
                high=1.0,
                tolerance=statement,
            )
        )
        if size == max(LENGTHS):
            found.append(
                Finding(
                    what=f"D = {_power(size)}, r = {_power(rows[-1]['r'])}: "
                    "flat OUE over the best other method",
                    ours=rows[-1]["flat OUE"] / best[-1],
                    printed="at least 16",
                    low=16.0,
                    tolerance=statement,
                )
            )
        middle = next(row for row in rows[1:] if 0.001 <= row["r"] / size <= 0.1)
        trees = _trees(middle, "TreeOUECI")
        found.append(
            Finding(
                what=f"D = {_power(size)}, r = {middle['r']:,}: HaarHRR over the best tree",
                ours=middle["HaarHRR"] / min(trees.values()),
                printed="best or equal best",
                high=1.1,
                tolerance=f"{statement}; a tenth more looks equal in a plot",
            )
        )
    for row in data["rows"]:
        if row["D"] == 1 << 16 and row["r"] == 1 << 14:
            trees = _trees(row, "TreeOUECI")
            found.append(
                Finding(
                    what="D = 2^16, r = 2^14: branching with the smallest error",
                    ours=float(min(trees, key=trees.__getitem__)),
                    printed="4, 8 or 16",
                    low=4,
                    high=16,
                    tolerance=statement,
                    note=f"B = 2 and 4 differ by {100 * abs(trees[2] / trees[4] - 1):.1f} %",
                )
            )
    return found


def figure_3_rows(data: Data) -> Rows:
    """All errors: squares, as in the figure."""
    head = ["D", "r", "method", "mean squared error"]
    rows = [
        [_power(row["D"]), f"{row['r']:,}", name, f"{value:.3g}"]
        for row in data["rows"]
        for name, value in row.items()
        if name not in ("D", "r")
    ]
    return head, rows


def draw_figure_3(data: Data) -> Figure:
    """A panel per D and length: errors by branching."""
    sizes = list(dict.fromkeys(row["D"] for row in data["rows"]))
    made = need("matplotlib.figure").Figure(figsize=(12, 2.6 * len(sizes)), layout="constrained")
    grid = made.subplots(len(sizes), len(LENGTHS[sizes[0]]), squeeze=False)
    looks = {
        "TreeOUE": (COLOURS[1], ":"),
        "TreeOUECI": (COLOURS[1], "-"),
        "TreeHRR": (COLOURS[2], ":"),
        "TreeHRRCI": (COLOURS[2], "-"),
    }
    for panels, size in zip(grid, sizes, strict=True):
        for panel, row in zip(panels, [r for r in data["rows"] if r["D"] == size], strict=True):
            for name, (colour, line) in looks.items():
                held = _trees(row, name)
                panel.plot(
                    list(held), list(held.values()), line, marker=".", color=colour, label=name
                )
            panel.plot([2], [row["HaarHRR"]], "*", ms=9, color=COLOURS[3], label="HaarHRR")
            panel.plot([size], [row["flat OUE"]], "s", ms=5, color=COLOURS[0], label="flat OUE")
            panel.set(xscale="log", yscale="log", title=f"D = {_power(size)}, r = {row['r']:,}")
            panel.title.set_fontsize(9)
            panel.tick_params(labelsize=7)
            panel.minorticks_off()
        panels[0].set_ylabel("mean squared error")
    for panel in grid[-1]:
        panel.set_xlabel("branching B")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    made.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False, fontsize=8)
    result: Figure = made
    return result


# Figure 6: the centralised case

CENTRAL: dict[str, dict[int, float]] = {
    "Wavelet": {256: 221.62, 512: 306.31, 1024: 410.29, 2048: 536.32},
    "HH_16": {256: 79.23, 512: 164.48, 1024: 185.94, 2048: 213.87},
    "HH_2": {256: 220.06, 512: 305.54, 1024: 409.48, 2048: 535.63},
}


def tree_gram(size: int, branching: int) -> tuple[Floats, int]:
    """AᵀA of all nodes below the root, and how many levels they have; the last nodes may be cut.

    Args:
        size: Number of cells.
        branching: Children of a node.
    """
    gram, levels, run = np.zeros((size, size)), 0, 1
    while run < size:
        node = np.arange(size) // run
        gram += node[:, None] == node[None]
        levels, run = levels + 1, run * branching
    return gram, levels


def mean_over_ranges(covariance: Floats) -> float:
    """The mean variance over all ranges, from the covariance of the cells.

    Args:
        covariance: Of the estimates of cells.
    """
    size = len(covariance)
    spread = np.zeros((size + 1, size + 1))
    spread[1:, 1:] = covariance.cumsum(0).cumsum(1)
    n = size + 1
    total = n * float(np.trace(spread)) - float(spread.sum())
    return total / (n * (n - 1) / 2)


def haar_gram(size: int) -> Floats:
    """AᵀA of the weighted Haar coefficients whose L1 sensitivity is one (Privelet).

    Args:
        size: Number of cells, a power of two.
    """
    height = size.bit_length() - 1
    gram = np.full((size, size), 1.0)  # the average of all cells, times the number of cells
    run = 2
    while run <= size:
        node, half = np.arange(size) // run, (np.arange(size) // (run // 2)) % 2
        same = (node[:, None] == node[None]).astype(np.float64)
        sign = np.where(half[:, None] == half[None], 1.0, -1.0)
        gram += same * sign
        run *= 2
    return gram / (height + 1) ** 2


def figure_6(run: Run) -> Data:
    """Mean variances over all ranges under ε-DP for ε = 1, by exact least squares."""
    sizes = [256, 512] if run.quick else list(CENTRAL["HH_2"])
    rows = []
    for place, size in enumerate(sizes):
        run.seen(place / len(sizes))
        for branching in (16, 2):
            gram, levels = tree_gram(size, branching)
            covariance: Floats = 2 * levels**2 * np.linalg.inv(gram).astype(np.float64)
            rows.append(
                {"D": size, "method": f"HH_{branching}", "variance": mean_over_ranges(covariance)}
            )
        covariance = 2 * np.linalg.inv(haar_gram(size)).astype(np.float64)
        rows.append({"D": size, "method": "Wavelet", "variance": mean_over_ranges(covariance)})
    return {"rows": rows}


def figure_6_found(data: Data) -> list[Finding]:
    """Every printed variance."""
    why = "both are exact; other choices at the root and of cut nodes change a few percent"
    return [
        number(
            f"D = {row['D']}, {row['method']}: mean variance over all ranges",
            row["variance"],
            CENTRAL[row["method"]][row["D"]],
            within=0.05,
            why=why,
        )
        for row in data["rows"]
    ]


def figure_6_rows(data: Data) -> Rows:
    """Ours and printed, and the ratios that the figure shows below."""
    held = {(row["D"], row["method"]): row["variance"] for row in data["rows"]}
    rows = []
    for size in dict.fromkeys(row["D"] for row in data["rows"]):
        ours = [held[size, name] for name in CENTRAL]
        printed = [CENTRAL[name][size] for name in CENTRAL]
        cells = [f"{a:.2f} / {b:.2f}" for a, b in zip(ours, printed, strict=True)]
        ratio = [f"{v[0] / v[1]:.3f}" for v in (ours, printed)]
        rows.append([f"{size:,}", *cells, " / ".join(ratio)])
    return ["D", *(f"{name}: ours / printed" for name in CENTRAL), "Wavelet over HH_16"], rows


def draw_figure_6(data: Data) -> Figure:
    """Variances by D: lines are ours, dots printed."""
    made = need("matplotlib.figure").Figure(figsize=(5.6, 3.8), layout="constrained")
    panel = made.subplots()
    for name, colour in zip(CENTRAL, COLOURS[1:], strict=True):
        rows = [row for row in data["rows"] if row["method"] == name]
        panel.plot([r["D"] for r in rows], [r["variance"] for r in rows], color=colour, label=name)
        panel.plot(list(CENTRAL[name]), list(CENTRAL[name].values()), "o", ms=4, color=colour)
    panel.set(
        xscale="log", xlabel="D", ylabel="mean variance, ε = 1 (dots: printed)", ylim=(0, None)
    )
    panel.set_xticks(list(CENTRAL["HH_2"]), [str(size) for size in CENTRAL["HH_2"]])
    panel.minorticks_off()
    panel.legend(frameon=False, fontsize=9)
    result: Figure = made
    return result
