"""Figures 4 and 5 of Cormode et al. 2019: errors of ranges and prefixes, beside the printed ones.

``python -m reproduction.cormode`` computes what every cell should be on average, for D = 2^8 and
2^16 cells and N = 2^26 people; with ``--simulate 0.2 1.0`` it also asks 2^26 simulated people, once
for each of these ε. Results go to results/soak/cormode.json, and as tables to docs/plain-ldp.md.

The figures print root mean squared errors × 1000, though they say mean squared errors. Data are
"sampled from Cauchy distributions" whose parameters are not printed; here the centre is 0.4·D, the
scale D/10, and whoever falls outside is left out. That matters little: at D = 2^8 no figure would
move by more than 2 % if everybody were in one cell, and by next to nothing for small ε.
The paper's HH_B send unary codes (OUE). Its hash-based twin (OLH), which the library uses in a
hierarchy, has the same variance where g = e^ε + 1 is a prime, and nearly so elsewhere; both stand
in the results.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import sfumato as sf
from benchmarks.pages import markdown
from reproduction import records
from sfumato.channels import HaarChannel, HierarchicalChannel
from sfumato.channels.trees import least_parts
from sfumato.metrics import UniformMetric

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Cells = dict[str, list[float]]

RESULTS = Path("results/soak/cormode.json")
PAGE = Path("docs/plain-ldp.md")
PEOPLE = 1 << 26
SIZES = (1 << 8, 1 << 16)
EPSILONS = ("0.2", "0.4", "0.6", "0.8", "1.0", "1.1", "1.2", "1.4")
STRIDE = 37  # at 2^16, so many cells between places where ranges end: odd, so all nodes are cut
STEPS = (1 << 6, 1 << 8, 1 << 10, 1 << 12)
ROWS_AT_ONCE = 64
CHOICES: dict[str, sf.Hierarchical | sf.HaarHRR] = {
    "HH_2": sf.Hierarchical(2),
    "HH_4": sf.Hierarchical(4),
    "HH_16": sf.Hierarchical(16),
    "HaarHRR": sf.HaarHRR(),
}
NAMES = tuple(CHOICES)
PAGE_TABLES = (
    "all ranges at 2^8",
    "all prefixes at 2^8",
    "all ranges at 2^16",
    "ranges from every 256 cells at 2^16",
    "all prefixes at 2^16",
)

# As printed, by figure and D: one row an ε, in the order of NAMES.
PRINTED: dict[str, dict[int, list[list[float]]]] = {
    "ranges": {
        1 << 8: [
            [4.269, 4.037, 4.176, 3.684],
            [2.024, 2.193, 2.590, 1.831],
            [1.388, 1.341, 1.535, 1.278],
            [1.002, 0.950, 1.130, 0.987],
            [0.844, 0.744, 0.844, 0.811],
            [0.722, 0.667, 0.820, 0.748],
            [0.684, 0.658, 0.642, 0.732],
            [0.571, 0.542, 0.592, 0.601],
        ],
        1 << 16: [
            [6.745, 7.129, 8.692, 6.666],
            [3.616, 3.424, 4.648, 3.526],
            [2.333, 2.360, 2.793, 2.342],
            [1.644, 1.728, 2.075, 1.711],
            [1.356, 1.377, 1.642, 1.484],
            [1.303, 1.270, 1.597, 1.345],
            [1.090, 1.140, 1.433, 1.201],
            [0.922, 0.995, 1.158, 1.130],
        ],
    },
    "prefixes": {
        1 << 8: [
            [4.306, 2.968, 4.282, 2.857],
            [1.859, 1.439, 1.828, 1.377],
            [1.366, 0.957, 1.758, 1.031],
            [0.937, 0.778, 0.896, 0.758],
            [0.802, 0.561, 0.637, 0.613],
            [0.684, 0.533, 0.666, 0.626],
            [0.658, 0.437, 0.670, 0.568],
            [0.573, 0.420, 0.478, 0.494],
        ],
        1 << 16: [
            [7.701, 6.172, 7.014, 5.870],
            [3.266, 3.101, 3.744, 2.880],
            [2.402, 2.176, 2.426, 2.018],
            [1.663, 1.503, 1.834, 1.511],
            [1.338, 1.220, 1.426, 1.244],
            [1.202, 1.051, 1.259, 1.120],
            [1.080, 0.978, 1.147, 1.054],
            [0.973, 0.848, 0.981, 0.973],
        ],
    },
}


def cauchy(size: int) -> Floats:
    """Shares of the cells."""
    share = np.diff(stats.cauchy(0.4 * size, size / 10).cdf(np.arange(size + 1)))
    result: Floats = share / share.sum()
    return result


def bound(name: str, size: int, epsilon: str) -> HierarchicalChannel | HaarChannel:
    """The channel of one column."""
    return CHOICES[name].bind(UniformMetric(Fraction(epsilon), size))


# What to expect


@dataclass(frozen=True)
class Queries:
    """Ranges from any of some starts up to any later one of some ends, weighed alike."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    @classmethod
    def prefixes(cls, size: int, stride: int = 1) -> Queries:
        """All that begin at the first cell."""
        return cls(np.zeros(1, dtype=np.int64), np.arange(1, size + 1, stride))

    @classmethod
    def ranges(cls, size: int, stride: int = 1) -> Queries:
        """All there are, or those that begin and end at every so many cells."""
        places = np.arange(0, size + 1, stride)
        return cls(places, places)

    @classmethod
    def spaced(cls, size: int, step: int, stride: int = 1) -> Queries:
        """Those that begin at multiples of a step, wherever they end."""
        return cls(np.arange(0, size, step), np.arange(1, size + 1, stride))


class Moments:
    """Means over questions, for all ε at once: what is read from a node does not depend on ε.

    A range is the difference of two prefixes. Going from the last place to the first, sums over all
    ends so far give the sum of (end − start)² for a start without going through the ends again.

    Attributes:
        squares: Σ over levels of Σb²/p, where b is what is read from a node.
        own: The same with each node counted by the share of people in it.
        between: The mean of (w(x) − c)² over people, c the share of cells: it is not noise.
    """

    def __init__(self, channel: Any, law: Floats, queries: Queries) -> None:
        size = channel.size
        places = np.union1d(queries.starts, queries.ends)[::-1]
        starts, ends = np.isin(places, queries.starts), np.isin(places, queries.ends)
        before: NDArray[np.int64] = np.cumsum(ends) - ends  # ends that come later on the axis
        first: dict[Any, Floats] = {}
        second: dict[Any, Floats] = {}
        self.squares: float = 0.0
        self.own: float = 0.0
        for here in range(0, len(places), ROWS_AT_ONCE):
            rows = np.arange(size) < places[here : here + ROWS_AT_ONCE, None]
            parts = channel.node_parts(rows.astype(np.float64))[1]
            for part, chance in zip(channel.parts, channel.chances, strict=True):
                b = parts[part.levels]
                share = np.add.reduceat(law, np.arange(0, size, size // b.shape[1]))
                one = first.setdefault(part.levels, np.zeros(b.shape[1]))
                two = second.setdefault(part.levels, np.zeros(b.shape[1]))
                for row, place in zip(b, range(here, len(places)), strict=False):
                    if starts[place] and before[place]:
                        gap = two - 2 * row * one + before[place] * row**2
                        self.squares += float(gap.sum()) / chance
                        self.own += float(gap @ share) / chance
                    if ends[place]:
                        one += row
                        two += row**2
        count = int(before[starts].sum())
        self.squares /= count
        self.own /= count
        self.between: float = self._between(law, places, starts, ends) / count

    @staticmethod
    def _between(law: Floats, places: NDArray[np.int64], starts: Flags, ends: Flags) -> float:
        """Σ over questions of T − 2cT + c², T the share of people and c that of cells."""
        held, cells = np.append(0.0, law.cumsum())[places], places / len(law)
        total = 0.0
        for place in np.flatnonzero(starts):
            later = np.flatnonzero(ends[:place])
            t, c = held[later] - held[place], cells[later] - cells[place]
            total += float(np.sum(t - 2 * c * t + c**2))
        return total

    def root_not_pinned(self, channel: HierarchicalChannel, queries: Queries) -> float:
        """What Σb²/p grows by if the root is an unknown too, to be found from the levels below it.

        On a whole tree the mean of the weights, c at each of D cells, is then read with variance
        c²·D/λ, λ = Σ p·(cells of a node).
        """
        runs = np.array(channel.trees[0].runs[1:])
        places = queries.ends[queries.ends > 0] / channel.size
        return float(np.mean(places**2) * channel.size / (np.array(channel.chances) @ runs))

    def unary(self, epsilon: float) -> float:
        """N times the mean squared error by OUE: E[(f − c)²] = Σ (V·Σb² + 2·b(x)²)/p."""
        v = 4 * math.exp(epsilon) / (math.exp(epsilon) - 1) ** 2
        return v * self.squares + 2 * self.own - self.between

    def haar(self, epsilon: float) -> float:
        """N times the mean squared error of HaarHRR: E[(f − c)²] = Σ s²·Σβ²/p."""
        s = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
        return s**2 * self.squares - self.between


def expected(size: int, law: Floats, queries: Queries) -> Cells:
    """Root mean squared error × 1000 of every cell: HH_B with OUE, as in the paper, and HaarHRR."""
    result: Cells = {}
    for name in NAMES:
        moments = Moments(bound(name, size, "1.0"), law, queries)
        read = moments.haar if name == "HaarHRR" else moments.unary
        result[name] = [_rmse(read(float(epsilon)) / PEOPLE) for epsilon in EPSILONS]
    return result


def exact(name: str, size: int, epsilon: str, law: Floats) -> dict[str, tuple[float, float]]:
    """From the channel's own table: the error × 1000, and how far one run strays, in parts of it.

    The errors of all prefixes have a covariance matrix Σ; with M the matrix of the mean square over
    the questions, one run's mean squared error has mean tr(MΣ) and variance 2·tr((MΣ)²).
    """
    channel = bound(name, size, epsilon)
    each = channel.coefficients(np.eye(size))
    spread = np.zeros((size + 1, size + 1))
    noise = (each * channel.mix(law)) @ each.T - np.diag(law)
    spread[1:, 1:] = noise.cumsum(0).cumsum(1) / PEOPLE
    n = size + 1
    pairs = (n * np.eye(n) - 1) / (n * (n - 1) / 2)
    result = {}
    for asked, both in (("ranges", pairs @ spread), ("prefixes", spread / size)):
        mean = float(np.trace(both))
        stray = math.sqrt(2 * float(np.sum(both * both.T))) / mean
        result[asked] = (_rmse(mean), stray / 2)
    return result


def _rmse(mean_square: float) -> float:
    return 1000 * math.sqrt(mean_square)


# Simulated people


def simulate(name: str, size: int, epsilon: str, seed: int) -> dict[str, float]:
    """2^26 people, each encoded by the channel: error × 1000 over all ranges and prefixes."""
    channel = bound(name, size, epsilon)
    people = np.random.default_rng(seed).multinomial(PEOPLE, cauchy(size))
    before = np.append(0, people.cumsum())
    counts = np.zeros(channel.outputs)
    bits = sf.SeededBits(seed)
    at_once = 1 << 20
    for start in range(0, PEOPLE, at_once):
        place = np.arange(start, min(start + at_once, PEOPLE))
        cells = np.searchsorted(before, place, side="right") - 1
        counts += np.bincount(channel.encode(cells, bits), minlength=channel.outputs)
    error = np.append(0.0, (cell_estimates(channel, counts) - people).cumsum()) / PEOPLE
    n = len(error)
    return {
        "ranges": _rmse(2 / (n - 1) * float(error @ error - error.sum() ** 2 / n)),
        "prefixes": _rmse(float(np.mean(error[1:] ** 2))),
    }


def cell_estimates(channel: HierarchicalChannel | HaarChannel, counts: Floats) -> Floats:
    """Unbiased counts of all cells at once, on whole trees: `coefficients` the other way round.

    An oracle reads parts b with mean zero as κ·Σ_v b_v·P(y | v), so Σ_y counts·P(y | v) says what
    is known of node v; least squares is its own transpose.
    """
    total: Floats = np.full(channel.size, counts.sum() / channel.size)
    chances, starts = channel.chances, channel.starts
    if isinstance(channel, HaarChannel):
        for number, haar in enumerate(channel.parts):
            here = counts[starts[number] : starts[number + 1]]
            factor = haar.inner.scale**2 * haar.outputs / (chances[number] * haar.cells_of_node)
            total += factor * (haar.expect(here) - here.mean())
        return total
    pulled = np.zeros(channel.size)
    for number, box in enumerate(channel.parts):
        found = box.expect(counts[starts[number] : starts[number + 1]])
        factor = channel.level_precision[box.levels] * _kappa(box.inner) / chances[number]
        pulled += factor * (found - found.mean())
    precision = channel.level_precision[1:].tolist()
    _, parts = least_parts(channel.trees[0], precision, pulled[None, :])
    total += parts[-1][0] / precision[-1]
    return total


def _kappa(inner: Any) -> float:
    """κ: by what an oracle's chances become its reading."""
    b = np.zeros(inner.size)
    b[0], b[-1] = 1.0, -1.0
    mixed, read = inner.mix(b), inner.coefficients(b)
    at = int(np.argmax(np.abs(mixed)))
    return float(read[at] / mixed[at])


# Putting together


def off(ours: Sequence[float], printed: Sequence[float]) -> float:
    """The mean of |ours/printed − 1| down a column."""
    return float(np.mean(np.abs(np.array(ours) / np.array(printed) - 1)))


def columns_of(asked: str, said: str, size: int, ours: Cells) -> list[dict[str, Any]]:
    """Every cell of one table beside the printed one, by column."""
    columns = []
    for place, name in enumerate(NAMES):
        printed = [row[place] for row in PRINTED[asked][size]]
        columns.append(
            {
                "figure": 4 if asked == "ranges" else 5,
                "queries": said,
                "D": size,
                "method": name,
                "epsilon": [float(epsilon) for epsilon in EPSILONS],
                "printed": printed,
                "expected": [round(value, 4) for value in ours[name]],
                "mean |ours/printed - 1|": round(off(ours[name], printed), 4),
                "mean ours/printed": round(float(np.mean(np.array(ours[name]) / printed)), 4),
            }
        )
    return columns


def conclusions(ours: Cells) -> dict[str, str]:
    """The best method at each ε."""
    return {
        epsilon: min(NAMES, key=lambda name: ours[name][place])
        for place, epsilon in enumerate(EPSILONS)
    }


def computed() -> dict[str, Any]:
    """All that needs no simulation."""
    small, large = SIZES
    tables_: list[tuple[str, str, int, Queries]] = [
        ("ranges", "all ranges", small, Queries.ranges(small)),
        ("prefixes", "all prefixes", small, Queries.prefixes(small)),
        ("ranges", "all ranges", large, Queries.ranges(large, STRIDE)),
        ("prefixes", "all prefixes", large, Queries.prefixes(large, STRIDE)),
    ]
    for step in STEPS:
        queries = Queries.spaced(large, step, STRIDE)
        tables_.append(("ranges", f"ranges from every {step} cells", large, queries))
    columns, best = [], []
    for asked, said, size, queries in tables_:
        ours = expected(size, cauchy(size), queries)
        columns += columns_of(asked, said, size, ours)
        best.append({"queries": said, "D": size, "best": conclusions(ours)})
    return {
        "people": PEOPLE,
        "figures": "root mean squared error × 1000",
        "columns": columns,
        "best": best,
        "prefixes, if the root were not pinned": [
            column for size in SIZES for column in not_pinned(size)
        ],
        "by the channels' own tables, D = 256": own_tables(small),
    }


def not_pinned(size: int) -> list[dict[str, Any]]:
    """Prefixes of HH_B without the number of people at the root: not what the text describes."""
    queries = Queries.prefixes(size, 1 if size == SIZES[0] else STRIDE)
    result = []
    for place, name in enumerate(NAMES[:3]):
        channel = bound(name, size, "1.0")
        moments = Moments(channel, cauchy(size), queries)
        if isinstance(channel, HierarchicalChannel):
            moments.squares += moments.root_not_pinned(channel, queries)
        ours = [_rmse(moments.unary(float(epsilon)) / PEOPLE) for epsilon in EPSILONS]
        printed = [row[place] for row in PRINTED["prefixes"][size]]
        result.append(
            {
                "D": size,
                "method": name,
                "expected": [round(value, 4) for value in ours],
                "mean |ours/printed - 1|": round(off(ours, printed), 4),
                "mean ours/printed": round(float(np.mean(np.array(ours) / printed)), 4),
            }
        )
    return result


def own_tables(size: int) -> list[dict[str, Any]]:
    """Columns from the library's channels, and what chance alone would make of them.

    If the printed values come from as many runs as stated, a normal figure strays by √(2/π) of its
    standard deviation on average.
    """
    law, result = cauchy(size), []
    for place, name in enumerate(NAMES):
        cells = [exact(name, size, epsilon, law) for epsilon in EPSILONS]
        for asked in PRINTED:
            ours = [cell[asked][0] for cell in cells]
            strays = float(np.mean([cell[asked][1] for cell in cells])) * math.sqrt(2 / math.pi)
            printed = [row[place] for row in PRINTED[asked][size]]
            result.append(
                {
                    "queries": f"all {asked}",
                    "method": name,
                    "expected": [round(value, 4) for value in ours],
                    "mean |ours/printed - 1|": round(off(ours, printed), 4),
                    "by chance, if one run was printed": round(strays, 4),
                    "by chance, if the mean of five was": round(strays / math.sqrt(5), 4),
                }
            )
    return result


def tables(record: dict[str, Any]) -> dict[str, str]:
    """For the page: each table, ours beside the printed value."""
    result = {}
    for held in record["best"]:
        said, size = held["queries"], held["D"]
        columns = [c for c in record["columns"] if (c["queries"], c["D"]) == (said, size)]
        rows = [
            [
                f"{epsilon:g}",
                *(f"{c['expected'][k]:.3f} / {c['printed'][k]:.3f}" for c in columns),
            ]
            for k, epsilon in enumerate(columns[0]["epsilon"])
        ]
        rows.append(["off by", *(f"{100 * c['mean |ours/printed - 1|']:.1f} %" for c in columns)])
        rows += chances(record.get("by chance", []), said, size)
        name = f"{said} at 2^{size.bit_length() - 1}"
        result[name] = markdown(["ε", *NAMES], rows)
    return {name: result[name] for name in PAGE_TABLES}


def chances(held: Sequence[dict[str, Any]], said: str, size: int) -> list[list[str]]:
    """How far the printed columns are above ours, and how far chance takes them."""
    here = [c for c in held if (c["queries"], c["D"]) == (said, size)]
    if not here:
        return []
    above = [f"{100 * (c['mean printed/ours'] - 1):+.1f} %" for c in here]
    error = [f"{100 * c['standard error of the column, five runs']:.1f} %" for c in here]
    away = [f"{c['standard errors away, five runs']:+.1f}" for c in here]
    return [["printed, above ours", *above], ["standard error", *error], ["so many of it", *away]]


def main() -> None:
    """Compute, perhaps simulate, and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulate", nargs="*", default=[], choices=EPSILONS, metavar="EPSILON")
    parser.add_argument("--size", nargs="*", type=int, default=list(SIZES), choices=SIZES)
    parser.add_argument("--seed", type=int, default=2019)
    asked = parser.parse_args()
    if asked.simulate:
        record = records.held(RESULTS)
    else:
        record, old = computed(), records.held(RESULTS)
        for kept in ("simulated", "by chance", "other readings"):  # made by themselves
            record[kept] = old.get(kept, [])
        record[records.MADE] = old.get(records.MADE, {})
        write(record, "figures", "python -m reproduction.cormode")
    for size, epsilon, name in product(asked.size, asked.simulate, NAMES):
        # Every cell of the tables has draws of its own.
        seed = 1000 * asked.seed + 10 * EPSILONS.index(epsilon) + NAMES.index(name)
        key = {"D": size, "method": name, "epsilon": float(epsilon), "seed": seed}
        found = simulate(name, size, epsilon, seed)
        record["simulated"] = [
            *(s for s in record["simulated"] if any(s[k] != v for k, v in key.items())),
            {**key, **{k: round(v, 4) for k, v in found.items()}},
        ]
        write(record, "simulated", "python -m reproduction.cormode --simulate EPSILON")
        print(key, found, flush=True)


def write(record: dict[str, Any], part: str, command: str) -> None:
    """The figures, how this part of them was made, and the tables of the page."""
    record["simulated"].sort(key=lambda s: (s["D"], NAMES.index(s["method"]), s["epsilon"]))
    records.stamp(record, part, command)
    records.keep(RESULTS, record, PAGE, tables)


if __name__ == "__main__":
    main()
