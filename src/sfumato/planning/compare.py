"""Comparison of all channels that fit a block of axes, under each decoder."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sfumato.channels.base import Channel
from sfumato.channels.choice import REGISTRY, Choice, described
from sfumato.channels.pairs import Pairs, many_pairs
from sfumato.channels.searched.extremal import Extremal
from sfumato.channels.searched.matrix_response import MatrixResponse
from sfumato.errors import StudyError, TooLargeError
from sfumato.metrics.cells import TableMetric
from sfumato.metrics.distance import AsideMetric
from sfumato.planning.expected_error import (
    MARKS,
    PRIORS,
    Planned,
    checked_method,
    checked_people,
    exact_error,
    told,
    typical_of,
)
from sfumato.planning.pairs import simulate_pairs
from sfumato.planning.simulate import ExpectedError, simulate
from sfumato.planning.variances import Prior, prior_of
from sfumato.study.study import Study
from sfumato.text import Tabled, TableText, format_to, percent
from sfumato.verbs import RUNS

METHODS = ("unbiased", "likelihood")
#: Bits of all simulated reports, over all runs, that a channel not in use is decoded from.
MOST_BITS = 1 << 26
_MOST_CODED, _MOST_ROWS = 256, 128  # cells for which rates and rows are found within seconds
_PAIR = 2  # axes
COLUMNS = ("question", "channel", "answers", "standard error", "share", "report", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """One channel on one block of axes under one decoder.

    Attributes:
        axis: Name of the axis, or of the axes of the block.
        question: What is asked: a random range, or one cell where there is no order.
        channel: The channel's id.
        method: The decoder.
        stderr: Standard error in people, NaN where it cannot be found.
        share: The same as a share of all people.
        bits: Length of a report.
        chosen: Whether the study uses this channel.
        best: Whether it has the smallest error on its block under its decoder.
        how: How the error was found: see `PlanRow`.
        note: Why there is no error.
    """

    axis: str
    question: str
    channel: str
    method: str
    stderr: float
    share: float
    bits: int
    chosen: bool
    best: bool
    how: str
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; a missing number is None."""
        found = math.isfinite(self.stderr)
        return {
            "axis": self.axis,
            "question": self.question,
            "channel": self.channel,
            "method": self.method,
            "stderr": self.stderr if found else None,
            "share": self.share if found else None,
            "report_bits": self.bits,
            "chosen": self.chosen,
            "best": self.best,
            "how": self.how,
            "note": self.note,
        }

    def cells(self) -> tuple[str, ...]:
        """A row of the table."""
        marks = [word for word, on in (("chosen", self.chosen), ("best", self.best)) if on]
        found = math.isfinite(self.stderr)
        return (
            self.question,
            self.channel,
            self.method,
            f"{MARKS.get(self.how, '')}{format_to(self.stderr, self.stderr)}" if found else "–",
            percent(self.share) if found else "–",
            f"{self.bits:,} bit{'s' if self.bits != 1 else ''}",
            ", ".join([*marks, *([self.note] if self.note else [])]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Tabled):
    """The channels that fit each block of a study, with the expected error of each.

    Attributes:
        study: Name of the study.
        n: Number of people.
        prior: The assumed population: "flat", "worst" or "given".
        rows: One row per block, decoder and channel.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
        >>> found = study.compare(100_000, methods=["unbiased"])
        >>> [(row.channel, round(row.stderr), row.best) for row in found]
        [('geometric', 273, True), ('thermometer', 876, False), ('exponential', 1002, False)]
    """

    study: str
    n: int
    prior: str
    rows: tuple[ComparisonRow, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[ComparisonRow]:
        return iter(self.rows)

    def caption(self) -> str:
        """The caption: people, population, and how errors were found."""
        found = [
            f"{method} {words}"
            for method in dict.fromkeys(row.method for row in self.rows)
            for words in told({row.how for row in self.rows if row.method == method})
        ]
        return f"{'; '.join([f'{self.n:,} people, {PRIORS[self.prior]}', *found])}."

    def table_text(self) -> TableText:
        """The table that shows it."""
        rows = [row.cells() for row in self.rows]
        return TableText(f"Study {self.study!r}: {self.caption()}", COLUMNS, rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "study": self.study,
            "people": self.n,
            "prior": self.prior,
            "rows": [row.to_dict() for row in self.rows],
        }


def compare(
    study: Study,
    n: int,
    *,
    prior: str | ArrayLike | Mapping[str, ArrayLike] = "flat",
    methods: Sequence[str] = METHODS,
    runs: int = RUNS,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Comparison:
    """The expected error of every channel that fits: see `Study.compare`.

    Args:
        study: The study.
        n: Number of people.
        prior: "flat", "worst", a histogram over all cells, or histograms by axis name.
        methods: The decoders.
        runs: Number of tallies to simulate for likelihood answers.
        seed: For the simulation.
        progress: Called with the share done.
    """
    people = checked_people(n)
    held = prior_of(study, prior)
    for method in methods:
        checked_method(method, held)
    work = [
        (option, method)
        for options in (_options(study, place, held) for place in range(len(study.blocks)))
        for method in methods
        for option in options
    ]
    rows: list[ComparisonRow] = []
    for done, (option, method) in enumerate(work):
        rows.append(_row(option, method, people, runs, seed))
        if progress is not None:
            progress((done + 1) / len(work))
    return Comparison(study=study.name, n=people, prior=held.text, rows=tuple(_mark_best(rows)))


@dataclass(frozen=True, slots=True, eq=False)
class _Option:
    """One channel on one block: a study of that block alone, what to ask of it, and its prior."""

    study: Study
    asked: Planned
    chosen: bool
    prior: Prior


def _options(study: Study, place: int, prior: Prior) -> list[_Option]:
    """Every channel that fits one block."""
    block = study.blocks[place]
    alone = prior.on(block.axes)
    used = Study(study.name, [replace(study.parts[place], channel=block.choice)])
    asked = typical_of(used, range(len(used.axes)))  # the same of all channels
    found: list[_Option] = []
    for choice in [*_choices(block.choice), *_searched(study, place)]:
        try:
            made = Study(study.name, [replace(study.parts[place], channel=choice)])
        except (StudyError, TooLargeError):
            continue
        (own,) = made.blocks
        read = many_pairs(own.channel) and len(asked.workloads) <= _PAIR
        if isinstance(own.choice, Pairs) and not read and own.choice != block.choice:
            continue  # of one pair it is that pair's own channel, and it reads at most two axes
        if any(option.study.blocks[0].choice == own.choice for option in found):
            continue  # the same with an option that was left out
        found.append(_Option(made, asked, own.choice == block.choice, alone))
    return found


def _choices(own: Choice) -> list[Choice]:
    """All registered channels that need neither options nor minutes, and the one in use."""
    found = []
    for kind in REGISTRY.values():
        if kind.slow:
            continue
        try:
            found.append(kind())
        except TypeError:
            continue
    return found if own in found else [own, *found]


def _searched(study: Study, place: int) -> list[Choice]:
    """Channels searched for E, where E is kept as a table; a second or two each."""
    block, metric = study.blocks[place], study.schema.groups[place].metric
    if not isinstance(metric, TableMetric | AsideMetric) or metric.size < 3:
        return []
    ordered = len(block.axes) == 1 and study.axes[block.axes[0]].domain.ordered
    rows, asked = ("prefix", "ranges") if ordered else ("identity", "cells")
    found: list[Choice] = []
    if not isinstance(block.choice, MatrixResponse) and metric.size <= _MOST_CODED:
        found.append(MatrixResponse(rows, workload=asked))
    if not isinstance(block.choice, Extremal) and metric.size <= _MOST_ROWS:
        found.append(Extremal(asked))
    return found


def _row(option: _Option, method: str, n: int, runs: int, seed: int) -> ComparisonRow:
    """The error of one channel on one block under one decoder."""
    (block,) = option.study.blocks
    asked, chosen, note = option.asked, option.chosen, ""
    try:
        if method == "unbiased":
            error = exact_error(option.study, asked, option.prior, n)
        else:
            tries = max(runs, 1)
            _refuse_many_bits(block.channel, n * tries, chosen)
            find = simulate_pairs if many_pairs(block.channel) else simulate
            error = find(option.study, [asked.workloads], option.prior, n, runs=tries, seed=seed)[0]
    except TooLargeError:
        error, note = ExpectedError(math.nan, None, "simulated"), "too many reports to decode"
    return ComparisonRow(
        axis=" × ".join(axis.name for axis in option.study.axes),
        question=asked.text,
        channel=described(block.choice),
        method=method,
        stderr=error.stderr,
        share=error.stderr / n,
        bits=_bits(block.channel),
        chosen=chosen,
        best=False,
        how=error.how,
        note=note,
    )


def _refuse_many_bits(channel: Channel, reports: int, chosen: bool) -> None:
    """Refuse to decode many bits for minutes: such reports are decoded one by one."""
    if not chosen and channel.layout.kind == "bits" and channel.layout.count * reports > MOST_BITS:
        raise TooLargeError("too many bits to decode for a comparison")


def _mark_best(rows: Sequence[ComparisonRow]) -> list[ComparisonRow]:
    """Mark the smallest error of each block and decoder."""
    best: dict[tuple[str, str], float] = {}
    for row in rows:
        key = (row.axis, row.method)
        if math.isfinite(row.stderr):
            best[key] = min(best.get(key, math.inf), row.stderr)
    return [replace(row, best=row.stderr == best.get((row.axis, row.method))) for row in rows]


def _bits(channel: Channel) -> int:
    """Bits of a report."""
    count = channel.layout.count
    return count if channel.layout.kind == "bits" else int(np.ceil(np.log2(count)))
