"""The default channel of every metric, against a list of all that could serve it, by exact error.

A case is a metric, a number of cells, ε and typical questions: random ranges of an ordered axis,
single cells of another. The candidates are listed here one by one, whatever the planner tries: the
channels made for E, those made for simpler metrics E' <= E (one ε, lines with caps, blocks), codes
of flipped bits, and rows found by search. Errors are exact, of unbiased answers, for people spread
evenly; beyond 256 cells they are those of some random questions. Beside them stand the mechanisms
of Xiang et al. 2020 (§3: Laplace noise on a strategy; §4: the thermometer as published) and of
Acharya et al. 2020 (Hadamard response by context).

Where the planner chooses a channel for likelihood answers (`Distance` at small ε, `Uniform`), the
row is that of the channel it would choose for unbiased ones, and says so.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

import sfumato as sf
from benchmarks.recording import Measurement, progress
from sfumato.channels.choice import Choice, described
from sfumato.errors import SfumatoError
from sfumato.metrics.base import Metric
from sfumato.metrics.distance import AsideMetric, CappedLineMetric, LineMetric
from sfumato.metrics.grids import shapes_of
from sfumato.metrics.labelled import BlockMetric, HighLowMetric
from sfumato.metrics.recognise import blocks_of
from sfumato.metrics.uniform import UniformMetric
from sfumato.planning.expected_error import typical_of
from sfumato.reproduction.matrix_mechanism import MatrixMechanism
from sfumato.study.choose import choose_channel

PEOPLE = 10_000
MOST_SEARCHED, MOST_CODED = 128, 128
MOST_TYPICAL, ASKED = 256, 40  # cells up to which all typical questions are asked; how many beyond
MOST_CAPPED = 1_024  # cells of a table of E, from which caps of lines are taken
WORST = 1.10


def labels(size: int) -> list[str]:
    """Names of cells."""
    return [f"l{cell}" for cell in range(size)]


@dataclass(frozen=True)
class Case:
    """A metric on an axis.

    Args:
        name: What it is called.
        axis: The axis with its guarantee.
    """

    name: str
    axis: sf.Axis

    @cached_property
    def asked(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Some random ranges, or some cells, sensitive ones and others; and their shares."""
        rng = np.random.default_rng(14)
        values, size = self.axis.domain.size, self.axis.size
        cells = np.arange(size)
        if self.axis.domain.ordered:
            ends = np.sort(rng.integers(0, values + 1, (ASKED, 2)))
            ends = ends[ends[:, 0] < ends[:, 1]]
            rows = (ends[:, :1] <= cells) & (cells < ends[:, 1:])
            return rows.astype(np.float64), np.full(len(rows), 1 / len(rows))
        metric = self.study.schema.groups[0].metric
        high = metric.sensitive if isinstance(metric, HighLowMetric) else cells < 0
        chosen, shares = [], []
        for kind in (high, ~high):
            held = np.flatnonzero(kind)
            some = rng.choice(held, min(len(held), ASKED), replace=False)
            chosen.append(some)
            shares.append(np.full(len(some), len(held) / size / max(1, len(some))))
        picked = np.concatenate(chosen)
        return (cells == picked[:, None]).astype(np.float64), np.concatenate(shares)

    @cached_property
    def study(self) -> sf.Study:
        """With the default channel."""
        return sf.Study("case", [self.axis])

    @cached_property
    def chosen(self) -> tuple[Choice, bool]:
        """What is judged by the error of unbiased answers, and whether it is the default."""
        metric = self.study.schema.groups[0].metric
        default = self.study.blocks[0].choice
        if not isinstance(metric, UniformMetric | LineMetric):
            return default, True
        ordered = (self.axis.domain.ordered,)
        choice = choose_channel(metric, ordered=ordered, method="unbiased").choice
        return choice, choice == default

    def error(self, choice: Choice) -> float | None:
        """The standard error with a channel; None if it cannot serve the case."""
        try:
            made = sf.Study("case", [replace(self.axis, channel=choice)])
        except SfumatoError:
            return None
        if self.axis.size > MOST_TYPICAL:
            rows, shares = self.asked
            spread = made.channels[0].second_moment(rows) - rows**2
            return math.sqrt(PEOPLE * float(shares @ spread.mean(axis=1)))
        asked = typical_of(made, (0,)).text
        return made.expected_error(PEOPLE)[asked].stderr

    def candidates(self) -> Iterator[Choice]:
        """All channels that could serve the case, by name."""
        metric = self.study.schema.groups[0].metric
        ordered = self.axis.domain.ordered
        uniform = _uniform(ordered)
        if isinstance(metric, UniformMetric):
            yield from uniform
            return
        if isinstance(metric, LineMetric | CappedLineMetric):
            yield from (sf.Geometric(), sf.Thermometer())
        if isinstance(metric, BlockMetric | HighLowMetric):
            yield sf.Hadamard()
        if isinstance(metric, HighLowMetric):
            yield from (sf.Extended(choice) for choice in uniform)
        if isinstance(metric, AsideMetric):
            yield sf.Extended(sf.Geometric())
            reaches = [metric.size * 9 // 10 >> k for k in range(7)]
            for reach, gap, parts in itertools.product(reaches, (1, 2), (2, 4, 6, 8)):
                if reach:
                    yield sf.Extended(sf.Rakes(reach, gap, Fraction(parts, 8)))
        if not ordered:
            yield from (sf.Product(shape) for shape in shapes_of(metric.size))
        if len(list(blocks_of(metric))) > 1:
            yield from (sf.PerBlock(choice) for choice in (*uniform, sf.Geometric(), sf.Binary()))
            yield from (sf.PerBlock(sf.Stricter("uniform", choice)) for choice in uniform)
            yield sf.PerBlock(sf.Extremal("ranges" if ordered else "cells"))
        yield from (sf.Stricter("uniform", choice) for choice in uniform)
        yield from (sf.Stricter("line", choice) for choice in (sf.Geometric(), sf.Thermometer()))
        caps = [float(metric.cap)] if isinstance(metric, CappedLineMetric) else []
        if not caps and metric.size <= MOST_CAPPED:
            caps = sorted({float(e) for e in np.unique(metric.matrix()) if 0 < e < math.inf})
        for cap in caps if len(caps) <= 8 else [*caps[:: len(caps) // 8], caps[-1]]:
            yield sf.Stricter("line", sf.Geometric(), Fraction(cap).limit_denominator(1000))
        if metric.size <= MOST_CAPPED:
            yield sf.Exponential()
        asked = "ranges" if ordered else "cells"
        if metric.size <= MOST_CODED and not isinstance(metric, LineMetric):
            for strategy in ("identity", "prefix", "hierarchical"):
                yield sf.MatrixResponse(strategy, workload=asked)
        if metric.size <= MOST_SEARCHED and not _is_equal_line(metric):
            yield sf.Extremal(asked)

    def published(self) -> tuple[str, float] | None:
        """The papers' own mechanism for the case, and its error."""
        metric = self.study.schema.groups[0].metric
        if isinstance(metric, BlockMetric | HighLowMetric):
            found = self.error(sf.Hadamard())
            return None if found is None else ("Acharya", found)
        if isinstance(metric, LineMetric):
            found = self.error(sf.Thermometer(variant="published"))
            return None if found is None else ("Xiang §4", found)
        if metric.size > MOST_CODED or not np.isfinite(metric.matrix()).all():
            return None
        asked = typical_of(self.study, (0,)).workloads[0]
        made = MatrixMechanism(metric, "prefix" if self.axis.domain.ordered else "identity", asked)
        return "Xiang §3", math.sqrt(made.total_error(PEOPLE) / asked.questions)


def _is_equal_line(metric: Any) -> bool:
    """Whether it is plain distance, which has channels of its own."""
    return isinstance(metric, LineMetric) and metric.equal_step is not None


def _uniform(ordered: bool) -> tuple[Choice, ...]:
    """Channels under one ε."""
    common = (sf.KaryResponse(), sf.Hadamard(), sf.OUE(), sf.OLH(), sf.HRR())
    if not ordered:
        return common
    trees = [sf.Hierarchical(b, "best", "optimised") for b in (2, 4, 8)]
    return (*common, sf.Comb(), *trees, sf.HaarHRR())


def _named(size: int, protect: Metric) -> sf.Axis:
    return sf.categories("x", labels(size), protect=protect)


def _numbers(size: int, protect: Metric, **more: Any) -> sf.Axis:
    return sf.integers("x", 0, size - 1, protect=protect, **more)


def _matrix(size: int, seed: int, *, lopsided: bool = False) -> sf.Matrix:
    """Random distances, closed by the metric itself."""
    rng = np.random.default_rng(seed)
    entries = rng.uniform(0.3, 3.0, (size, size)).round(2)
    if not lopsided:
        entries = np.minimum(entries, entries.T)
    np.fill_diagonal(entries, 0.0)
    return sf.Matrix(entries)


def _one_way(size: int, sensitive: int, epsilon: float) -> sf.Matrix:
    """A matrix that is high-low."""
    entries = np.full((size, size), math.inf)
    entries[:sensitive] = epsilon
    np.fill_diagonal(entries, 0.0)
    return sf.Matrix(entries)


def _uneven(size: int) -> sf.Matrix:
    """Farther one way than the other."""
    away = np.abs(np.subtract.outer(np.arange(size), np.arange(size))) * 0.5
    return sf.Matrix(away + np.triu(np.full((size, size), 0.3), 1))


def _towns(size: int, seed: int, epsilon: float) -> sf.Points:
    places = np.random.default_rng(seed).uniform(0, 6, (size, 2)).round(3)
    return sf.Points(epsilon, at=dict(zip(labels(size), map(tuple, places.tolist()), strict=True)))


def _graph(edges: list[tuple[int, int]], epsilon: float) -> sf.PolicyGraph:
    return sf.PolicyGraph(epsilon, [(f"l{a}", f"l{b}") for a, b in edges])


def _path(size: int, start: int = 0) -> list[tuple[int, int]]:
    return list(itertools.pairwise(range(start, start + size)))


def _split(size: int, block: int) -> list[list[str]]:
    names = labels(size)
    return [names[start : start + block] for start in range(0, size, block)]


def cases() -> Iterator[Case]:
    """At least sixty."""
    for size, sensitive, eps in ((100, 10, 1), (100, 1, 1), (20, 5, 0.5), (20, 5, 2), (8, 2, 1)):
        name = f"SensitiveSet({eps}), {sensitive} of {size}"
        yield Case(name, _named(size, sf.SensitiveSet(eps, labels(sensitive))))
    for size, reach, eps in ((100, 10, 1), (50, 5, 0.5), (20, 3, 2), (40, 20, 1)):
        yield Case(f"Within({eps}, {reach}), {size}", _numbers(size, sf.Within(eps, reach)))
    graphs = {
        "path of 100": (100, _path(100), 0.5),
        "ring of 12": (12, [*_path(12), (11, 0)], 1),
        "ring of 24": (24, [*_path(24), (23, 0)], 0.5),
        "tree of 15": (15, [((k - 1) // 2, k) for k in range(1, 15)], 1),
        "star of 10": (10, [(0, k) for k in range(1, 10)], 1),
        "complete 8": (8, list(itertools.combinations(range(8), 2)), 1),
        "path and clique": (15, [*_path(10), *itertools.combinations(range(10, 15), 2)], 1),
        "two paths": (40, [*_path(20), *_path(20, 20)], 0.5),
    }
    for name, (size, edges, eps) in graphs.items():
        yield Case(f"PolicyGraph({eps}), {name}", _named(size, _graph(edges, eps)))
    line = sf.PolicyGraph(0.5, [(k, k + 1) for k in range(99)])
    yield Case("PolicyGraph(0.5), path of 100, ranges", _numbers(100, line))
    for size, block, eps in (
        (8, 2, 1),
        (8, 2, 4),
        (8, 4, 2),
        (8, 4, 4),
        (40, 10, 0.5),
        (40, 10, 3),
    ):
        protect = sf.Blocks(eps, _split(size, block))
        yield Case(f"Blocks({eps}), {block} of {size}", _named(size, protect))
    for block, eps in ((16, 1), (16, 3), (32, 0.5)):
        parts = [range(start, start + block) for start in range(0, 64, block)]
        yield Case(f"Blocks({eps}), {block} of 64, ranges", _numbers(64, sf.Blocks(eps, parts)))
    uneven = sf.Blocks(2, [["l0"], labels(3)[1:], labels(8)[3:], labels(24)[8:]])
    yield Case("Blocks(2), 1 to 16 of 24", _named(24, uneven))
    for size, sensitive, eps in (
        (8, 1, 1),
        (8, 4, 4),
        (8, 4, 1),
        (8, 1, 4),
        (30, 10, 2),
        (100, 10, 1),
    ):
        protect = sf.HighLow(eps, labels(sensitive))
        yield Case(f"HighLow({eps}), {sensitive} of {size}", _named(size, protect))
    for eps in (1, 3):
        yield Case(f"HighLow({eps}), 16 of 32, ranges", _numbers(32, sf.HighLow(eps, range(16))))
    yield Case("Matrix, high-low 3 of 8", _named(8, _one_way(8, 3, 1)))
    yield Case("Matrix, farther one way, 8", _named(8, _uneven(8)))
    yield Case("Matrix, farther one way, 20", _named(20, _uneven(20)))
    for seed, lopsided in ((1, False), (2, False), (3, True), (4, True)):
        said = "lopsided" if lopsided else "random"
        protect = _matrix(10, seed, lopsided=lopsided)
        yield Case(f"Matrix, {said} {seed}, 10", _named(10, protect))
    for size, eps in ((6, 1), (12, 1), (24, 0.5), (64, 1)):
        yield Case(f"Points({eps}), {size}", _named(size, _towns(size, size, eps)))
    for rows, columns, eps in ((5, 5, 1), (8, 8, 2), (12, 16, 1)):
        cells = labels(rows * columns)
        at = {cell: divmod(place, columns) for place, cell in enumerate(cells)}
        protect = sf.Points(eps, at=at)
        yield Case(f"Points({eps}), {rows} × {columns}", _named(rows * columns, protect))
    for size, eps in ((100, 0.5), (100, 0.2), (64, 1), (256, 1), (8, 0.1), (16, 1)):
        yield Case(f"Distance({eps}), {size}", _numbers(size, sf.Distance(eps)))
    for size, eps, cap in ((100, 0.5, 3), (50, 1, 2), (20, 1, 1.5), (64, 0.2, 1)):
        protect = sf.Distance(eps, cap=cap)
        yield Case(f"Distance({eps}, cap={cap}), {size}", _numbers(size, protect))
    doubling = [0.0, *(2.0**k for k in range(10))]
    for eps, cap in ((0.1, None), (0.3, None), (1, None), (0.3, 2), (1, 3)):
        said = f"Distance({eps}{f', cap={cap}' if cap else ''}), unequal bins"
        yield Case(said, sf.reals("x", edges=doubling, protect=sf.Distance(eps, cap=cap)))
    for size, eps, aside in ((100, 0.5, 50), (40, 0.3, 20), (100, 0.5, 10), (10, 1, 3)):
        protect = sf.Distance(eps, no_answer=aside)
        said = f"Distance({eps}, no_answer={aside}), {size}, optional"
        yield Case(said, _numbers(size, protect, optional=True))
    for size, eps in ((4, 1), (40, 1), (100, 0.5)):
        yield Case(f"Uniform({eps}), {size}", _named(size, sf.Uniform(eps)))
    for size, eps in ((16, 1), (64, 0.5), (256, 1), (256, 3)):
        yield Case(f"Uniform({eps}), {size}, ranges", _numbers(size, sf.Uniform(eps)))


def large_cases() -> Iterator[Case]:
    """Beyond 256 cells."""
    for size, parts in (
        (5_000, [2_500] * 2),
        (820, list(range(1, 41))),
        (3_240, list(range(1, 81))),
    ):
        ends = [0, *itertools.accumulate(parts)]
        protect = sf.Blocks(1, [range(a, b) for a, b in itertools.pairwise(ends)])
        said = f"{len(parts)} blocks of {size:,}"
        yield Case(f"Blocks(1), {said}, ranges", _numbers(size, protect))
    for eps, size, block in ((1, 600, 2), (2, 900, 30)):
        protect = sf.Blocks(eps, _split(size, block))
        yield Case(f"Blocks({eps}), {block} of {size}", _named(size, protect))
    for size, sensitive in ((5_000, 2_500), (1_000, 500), (5_000, 200)):
        protect = sf.HighLow(1, range(sensitive))
        yield Case(f"HighLow(1), {sensitive:,} of {size:,}, ranges", _numbers(size, protect))
    for size, sensitive in ((5_000, 5), (3_000, 300)):
        protect = sf.HighLow(1, labels(sensitive))
        yield Case(f"HighLow(1), {sensitive} of {size:,}", _named(size, protect))
    for size, step, cap in ((5_000, "1/2", "3"), (5_000, "1/1000", "1/2"), (600, "1/5", "4")):
        protect = sf.Distance(step, cap=cap)
        yield Case(f"Distance({step}, cap={cap}), {size:,}", _numbers(size, protect))
    for size, step, aside in (
        (1_000, "1/2", 12),
        (1_000, "1/2", 8),
        (1_000, "1/2", 4),
        (5_000, "1", 1),
    ):
        protect = sf.Distance(step, no_answer=aside)
        said = f"Distance({step}, no_answer={aside}), {size:,}, optional"
        yield Case(said, _numbers(size, protect, optional=True))
    yield Case("Within(1, 30), 600", _numbers(600, sf.Within(1, 30)))
    ring = [*_path(400), (399, 0)]
    yield Case("PolicyGraph(0.5), ring of 400", _named(400, _graph(ring, 0.5)))
    yield Case("Points(1), 400", _named(400, _towns(400, 400, 1)))
    yield Case("SensitiveSet(1), 10 of 400", _named(400, sf.SensitiveSet(1, labels(10))))
    yield Case("Uniform(1), 5,000, ranges", _numbers(5_000, sf.Uniform(1)))


def judged(case: Case) -> dict[str, Any]:
    """The error of the default over that of the best candidate, and over the papers' own."""
    choice, is_default = case.chosen
    mine = case.error(choice)
    assert mine is not None, case.name
    tried = [(case.error(choice), described(choice)) for choice in case.candidates()]
    errors = [(error, name) for error, name in tried if error is not None]
    least, best = min(errors)
    own = case.published()
    return {
        "case": case.name,
        "questions": "ranges" if case.axis.domain.ordered else "cells",
        "channel": described(choice),
        "is the default": is_default,
        "standard error": mine,
        "best candidate": best,
        "candidates": len(errors),
        "over the best": mine / least,
        "paper": own[0] if own else "",
        "over the paper's": mine / own[1] if own else math.nan,
    }


def every_case() -> Iterator[Case]:
    """Small and large."""
    yield from cases()
    yield from large_cases()


def measure(chosen: Callable[[], Iterator[Case]] = every_case) -> Measurement:
    """Every case."""
    rows = []
    for case in chosen():
        progress(case.name)
        rows.append(judged(case))
    worst = max(rows, key=lambda row: row["over the best"])
    papers = [row["over the paper's"] for row in rows if row["paper"]]
    return Measurement(
        f"{len(rows)} metrics, {PEOPLE:,} people, unbiased answers, exact",
        rows,
        [
            f"over the best candidate: at most {worst['over the best']:.3f} ({worst['case']})",
            f"over the papers' own mechanisms ({len(papers)} cases): at most {max(papers):.3f}",
        ],
    )
