"""Figures 4 and 5 of Cormode et al. 2019 the way they were computed, which is not as the text says.

``python -m benchmarks.cormode_as_run`` writes results/soak/cormode.json and the
tables of docs/plain-ldp.md. It needs a C++ compiler with GCC's standard library (g++).

The authors' program (https://gitlab.com/Tejasvk/RangeQueries) differs from the text of the paper:

1. Every level of a tree draws its noise from a random engine of its own, and all of these engines
   start where an engine starts by itself: levels that should have independent noise begin with the
   same random numbers, in every run. After some nodes a draw is rejected on one level and not on
   another, and they go apart.
2. Stage 1 of the consistency counts heights from 0 at the leaves, so that parents of leaves learn
   nothing from them, and it moves the root away from 1.
3. A range has two cells or more, and so has a prefix.
4. A figure is the mean over five runs of root mean squared errors.
5. Cauchy data outside the domain on the left come back in as their absolute values.
6. A step between starts of ranges can be set for any domain, and is set for D = 2^16 in another
   figure, though the text says that there all ranges were asked. What it was for Figure 4 is not
   kept. A step of 2^7 has 2^9 starts, as many as the text has for D = 2^17.

Here all of this is done again, with code of our own but for the engine and its binomials, which are
GCC's. HaarHRR draws its noise person by person, where equal starts do no harm, and has no stages;
its columns are those of the text. The twin, the same with engines that start apart,
shows what point 1 alone does.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks import records
from benchmarks.pages import markdown
from sfumato.reproduction import cormode
from sfumato.reproduction.cormode_printed import EPSILONS, NAMES, PEOPLE, SIZES, column

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Noise = Callable[[float, Sequence[Counts], Sequence[int]], list[Counts]]

RESULTS = Path("results/soak/cormode.json")
PAGE = Path("docs/plain-ldp.md")
SOURCE = Path(__file__).parent / "levels.cpp"
RUNS = {SIZES[0]: 200, SIZES[1]: 25}
STEPS = {SIZES[0]: (1,), SIZES[1]: (1, 1 << 7, 1 << 8, 1 << 11)}
TREES = tuple(int(name.removeprefix("HH_")) for name in NAMES if name.startswith("HH_"))


@contextmanager
def compiled() -> Iterator[tuple[Noise, str]]:
    """Noise by GCC's generators: chance of a flip, people and starts by level → noisy counts.

    Beside it, what the compiler says of itself.
    """
    name = os.environ.get("CXX", "c++")
    compiler = shutil.which(name)
    if compiler is None:
        raise SystemExit(f"no C++ compiler {name!r} here: install g++, or name yours by CXX=...")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "levels"
        build: list[str | Path] = [compiler, "-O2", "-std=c++14", SOURCE, "-o", program]
        subprocess.run(build, check=True)
        told = subprocess.run([compiler, "--version"], check=True, capture_output=True, text=True)
        version = told.stdout.splitlines()[0]

        def noise(flipped: float, people: Sequence[Counts], starts: Sequence[int]) -> list[Counts]:
            given = b"".join(
                np.concatenate([[len(here), start], here]).astype(np.uint32).tobytes()
                for here, start in zip(people, starts, strict=True)
            )
            asked: list[str | Path] = [program, repr(flipped)]
            run = subprocess.run(asked, input=given, check=True, stdout=subprocess.PIPE)
            found = np.frombuffer(run.stdout, dtype=np.uint32).astype(np.int64)
            return np.split(found, np.cumsum([len(here) for here in people])[:-1])

        yield noise, version


def folded_cauchy(size: int) -> Floats:
    """The share of people in each cell: absolute values; those still outside are drawn again."""
    cdf = stats.cauchy(0.4 * size, size / 10).cdf
    edges = np.arange(size + 1)
    share = np.diff(cdf(edges)) - np.diff(cdf(-edges))
    result: Floats = share / share.sum()
    return result


def consistent(levels: Sequence[Floats], leaf: int) -> Floats:
    """The two stages of Section 4.5: readings of nodes by level, from the root → cells.

    Args:
        levels: The first has one entry, each other one B times as many as the one before.
        leaf: The height of leaves; 1 makes it least squares but for the root, the program has 0.
    """
    b, last = len(levels[1]), len(levels) - 1
    weighed = list(levels)
    for place in range(last - 1, -1, -1):
        i = last - place + leaf
        own = (b**i - b ** (i - 1)) / (b**i - 1)
        weighed[place] = own * levels[place] + (1 - own) * weighed[place + 1].reshape(-1, b).sum(1)
    final = weighed[0]
    for here in weighed[1:]:
        children = here.reshape(-1, b)
        final = (children + (final - children.sum(1))[:, None] / b).ravel()
    return final


def run(
    b: int, law: Floats, epsilon: float, rng: np.random.Generator, noise: Noise, *, alike: bool
) -> Floats:
    """The errors of all prefixes, from none to all of the cells, in one run.

    Args:
        b: Children of a node.
        law: The chances of cells.
        epsilon: ε.
        rng: Draws people and their levels, and the starts of the engines unless `alike`.
        noise: Noisy counts of levels.
        alike: Whether all engines have the default start, as in the program.
    """
    height = round(math.log(len(law), b))
    flipped = np.float32(1 / (1 + math.exp(epsilon)))
    people = [rng.multinomial(n, law) for n in rng.multinomial(PEOPLE, [1 / height] * height)]
    nodes = [here.reshape(b**level, -1).sum(1) for level, here in enumerate(people, start=1)]
    starts = [0] * height if alike else rng.integers(1, 1 << 31, height).tolist()
    told = noise(float(flipped), nodes, starts)
    read = [
        (t / here.sum() - flipped) / (0.5 - flipped) for t, here in zip(told, nodes, strict=True)
    ]
    error = consistent([np.ones(1), *read], leaf=0) - np.sum(people, axis=0) / PEOPLE
    return np.append(0.0, error.cumsum())


def figures(error: Floats, steps: Sequence[int]) -> dict[str, float]:
    """Root mean squared errors × 1000 of prefixes, and of ranges with spaced starts.

    Args:
        error: The error of each prefix.
        steps: Distances between the starts of ranges.
    """
    size = len(error) - 1
    later, squares = (np.append(e[::-1].cumsum()[::-1], 0) for e in (error, error**2))
    mean = {"all prefixes": squares[2] / (size - 1)}
    for step in steps:
        starts = np.arange(0, size - 1, step)
        e, ends = error[starts], size - 1 - starts
        over = squares[starts + 2] - 2 * e * later[starts + 2] + ends * e**2
        said = "all ranges" if step == 1 else f"ranges from every {step} cells"
        mean[said] = over.sum() / ends.sum()
    return {said: 1000 * math.sqrt(value) for said, value in mean.items()}


def columns(b: int, size: int, noise: Noise, *, alike: bool, runs: int) -> list[dict[str, Any]]:
    """All columns of one tree beside the printed ones, with the spread of five runs.

    Args:
        b: Number of children per node.
        size: Number of cells.
        noise: Gives noisy counts of levels.
        alike: Whether all random engines start alike, as in the authors' program.
        runs: Number of runs.
    """
    law, cells = folded_cauchy(size), []
    for place, epsilon in enumerate(EPSILONS):
        seeds = [[2019, b, size, place, number] for number in range(runs)]
        errors = (
            run(b, law, float(epsilon), np.random.default_rng(seed), noise, alike=alike)
            for seed in seeds
        )
        cells.append([figures(error, STEPS[size]) for error in errors])
    result = []
    for said in cells[0][0]:
        each = np.array([[figure[said] for figure in cell] for cell in cells])
        mean = each.mean(axis=1)
        stray = each.std(axis=1, ddof=1) / mean
        held = column("prefixes" if "prefixes" in said else "ranges", said, size, f"HH_{b}", mean)
        ratio = np.array(held["printed"]) / mean
        error = float(np.linalg.norm(stray * math.sqrt(1 / 5 + 1 / runs))) / len(ratio)
        result.append(
            {
                **held,
                "levels start": "alike" if alike else "apart",
                "runs": runs,
                "standard deviation of a run": [round(float(s), 4) for s in stray],
                "mean printed/ours": round(float(ratio.mean()), 4),
                "standard error of that, five runs": round(error, 4),
            }
        )
    return result


# By the text, and the tables of the page


def by_text() -> list[dict[str, Any]]:
    """Expected errors at 2^8 and 2^16, for the questions that may have been asked."""
    small, large = SIZES
    asked = [
        ("ranges", "all ranges", small, cormode.Queries.ranges(small)),
        ("prefixes", "all prefixes", small, cormode.Queries.prefixes(small)),
        ("ranges", "all ranges", large, cormode.Queries.ranges(large, cormode.STRIDE)),
        ("prefixes", "all prefixes", large, cormode.Queries.prefixes(large, cormode.STRIDE)),
    ]
    for step in STEPS[large][1:]:
        queries = cormode.Queries.spaced(large, step, cormode.STRIDE)
        asked.append(("ranges", f"ranges from every {step} cells", large, queries))
    columns = []
    for kind, said, size, queries in asked:
        ours = cormode.expected(size, cormode.cauchy(size), queries)
        columns += [column(kind, said, size, name, ours[name]) for name in NAMES]
    return columns


# What is asked as the text says it, and as the program seems to have done it.
SHOWN = {
    "ranges at 2^8": ("all ranges", "all ranges", 1 << 8),
    "ranges at 2^16": ("all ranges", "ranges from every 128 cells", 1 << 16),
    "prefixes at 2^8": ("all prefixes", "all prefixes", 1 << 8),
    "prefixes at 2^16": ("all prefixes", "all prefixes", 1 << 16),
}


def as_run(record: dict[str, Any], said: str, size: int, start: str) -> list[dict[str, Any]]:
    """The columns of trees with a given start of the engines, and HaarHRR's, in the order of NAMES.

    Args:
        record: The results.
        said: The questions.
        size: Number of cells.
        start: How the engines of the levels start.
    """
    found = [c for c in record.get("as run", []) if c["levels start"] == start] + [
        c for c in record["columns"] if c["method"] == "HaarHRR"
    ]
    return [c for c in found if (c["queries"], c["D"]) == (said, size)]


def tables(record: dict[str, Any]) -> dict[str, str]:
    """The tables of the page: by the text, by the program, and as printed."""
    result = {}
    for name, (text, program, size) in SHOWN.items():
        by_text = [c for c in record["columns"] if (c["queries"], c["D"]) == (text, size)]
        run = as_run(record, program, size, "alike")
        pairs = list(zip(by_text, run, strict=True))
        rows = [
            [
                epsilon,
                *(
                    f"{t['expected'][k]:.3f} / {r['expected'][k]:.3f} / {t['printed'][k]:.3f}"
                    for t, r in pairs
                ),
            ]
            for k, epsilon in enumerate(EPSILONS)
        ]
        for what, key, sign in (
            ("ours over printed", "mean ours/printed", "+"),
            ("off by", "mean |ours/printed - 1|", ""),
        ):
            less = 1 if sign else 0
            both = [[100 * (c[key] - less) for c in pair] for pair in pairs]
            rows.append([what, *(f"{t:{sign}.1f} % / {r:{sign}.1f} %" for t, r in both)])
        result[name] = markdown(["ε", *NAMES], rows)
    result["levels apart"] = apart(record)
    return result


def apart(record: dict[str, Any]) -> str:
    """The distance of the printed values from the program, with engines started alike and apart."""
    rows = []
    for name, (_, program, size) in SHOWN.items():
        for start in ("alike", "apart"):
            held = as_run(record, program, size, start)[: len(NAMES) - 1]
            key = "standard error of that, five runs"
            cells = [f"{c['mean printed/ours']:.2f} ± {c[key]:.2f}" for c in held]
            rows.append([name, start, *cells])
    return markdown(["printed over ours", "levels start", *NAMES[:-1]], rows)


def write(record: dict[str, Any], part: str, command: str) -> None:
    """Write the results, how this part was made, and the tables of the page.

    Args:
        record: The results.
        part: The part that was made.
        command: The command that made it.
    """
    records.stamp(record, part, command)
    records.keep(RESULTS, record, PAGE, tables)


def main() -> None:
    """Simulate, and add the results to the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs; keeps nothing")
    quick = parser.parse_args().quick
    record = records.held(RESULTS)
    record["columns"] = by_text()
    found: list[dict[str, Any]] = []
    with compiled() as (noise, version):
        for size, b, alike in ((s, b, a) for s in SIZES for b in TREES for a in (True, False)):
            runs = RUNS[size] // (10 if quick else 1)
            found += columns(b, size, noise, alike=alike, runs=runs)
            for held in found[-len(STEPS[size]) - 1 :]:
                print(
                    f"2^{size.bit_length() - 1} HH_{b} {held['queries']}, {held['levels start']}:",
                    f"printed/ours {held['mean printed/ours']:.3f}",
                    f"± {held['standard error of that, five runs']:.3f}",
                    flush=True,
                )
    record["as run"], record["compiler"] = found, version
    if not quick:
        write(record, "as run", "python -m benchmarks.cormode_as_run")


if __name__ == "__main__":
    main()
