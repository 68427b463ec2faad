"""Every channel that fits an axis, under every decoder, side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sfumato.channels.base import Channel, Choice
from sfumato.channels.registry import REGISTRY
from sfumato.channels.searched.extremal import Extremal
from sfumato.channels.searched.matrix_response import MatrixResponse
from sfumato.errors import StudyError, TooLargeError
from sfumato.metrics.cells import TableMetric
from sfumato.planning.expected_error import (
    RUNS,
    Planned,
    checked_method,
    checked_people,
    exact_error,
    typical_of,
    typical_of_records,
)
from sfumato.planning.priors import Prior, prior_of
from sfumato.planning.records import is_whole
from sfumato.planning.simulate import Simulated, simulate
from sfumato.text import format_to, percent, text_table

if TYPE_CHECKING:
    from sfumato.study.study import Study


METHODS = ("unbiased", "likelihood")
#: Bits of all simulated reports, over all runs, that a channel not in use is decoded from.
MOST_BITS = 1 << 26
_MOST_CODED = 256  # cells for which the rates of a code are found within seconds
#: What is said of a channel that a longer search would make surer.
SHORT_SEARCH = "after a short search; smaller after the whole"
COLUMNS = ("question", "channel", "answers", "standard error", "share", "report", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """One channel on one axis under one decoder.

    Attributes:
        axis: Name of the axis.
        question: What is asked: a random range, or one cell where there is no order.
        channel: The channel's id.
        method: The decoder.
        stderr: Standard error in people, NaN where it cannot be found.
        share: The same as a share of all people.
        bits: Length of a report.
        chosen: Whether the study uses this channel.
        best: Whether it has the smallest error on its axis under its decoder.
        how: "exact" or "simulated".
        note: Why there is no error, or what would make it smaller.
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
            format_to(self.stderr, self.stderr) if found else "–",
            percent(self.share) if found else "–",
            f"{self.bits:,} bit{'s' if self.bits != 1 else ''}",
            ", ".join([*marks, *([self.note] if self.note else [])]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The channels that fit each axis of a study, with the error to expect of each.

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

    def __str__(self) -> str:
        head = f"Study {self.study!r}: {self.n:,} people, prior {self.prior}."
        return "\n".join([head, "", *text_table(COLUMNS, [row.cells() for row in self.rows])])

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
    """What `Study.compare` does."""
    people = checked_people(n)
    held = prior_of(study, prior)
    for method in methods:
        checked_method(method, held)
    work = [
        (*candidate, method)
        for group in _candidates(study, held)
        for method in methods
        for candidate in group
    ]
    rows: list[ComparisonRow] = []
    for done, (option, asked, chosen, alone, method) in enumerate(work):
        rows.append(_row(option, asked, chosen, method, alone, people, runs, seed))
        if progress is not None:
            progress((done + 1) / len(work))
    return Comparison(study=study.name, n=people, prior=held.text, rows=tuple(_mark_best(rows)))


def _candidates(study: Study, prior: Prior) -> list[list[tuple[Study, Planned, bool, Prior]]]:
    """By axis, or for whole records: other studies, what to ask of each, which one is in use."""
    if is_whole(study):
        found = _fitting_records(study)
        return [
            [
                (o, typical_of_records(o), o.blocks[0].choice == study.blocks[0].choice, prior)
                for o in found
            ]
        ]
    groups = []
    for place in range(len(study.axes)):
        alone = Prior((prior.laws[place],), None, prior.worst, prior.text)
        groups.append(
            [
                (
                    option,
                    typical_of(option, 0),
                    option.blocks[0].choice == study.blocks[place].choice,
                    alone,
                )
                for option in fitting(study, place)
            ]
        )
    return groups


def _fitting_records(study: Study) -> list[Study]:
    """The study under every mechanism that fits it."""
    (part,) = study.parts
    found = []
    for choice in _choices(study.blocks[0].choice):
        try:
            made = type(study)(study.name, [replace(part, channel=choice)])
        except (StudyError, TooLargeError):
            continue
        found.append(made)
    return found


def fitting(study: Study, place: int) -> list[Study]:
    """The study with each channel that fits one of its axes put there; that axis comes alone."""
    part = study.parts[place]
    found = []
    for choice in [*_choices(study.blocks[place].choice), *_searched(study, place)]:
        try:
            made = type(study)(study.name, [replace(part, channel=choice)])
        except (StudyError, TooLargeError):
            continue
        found.append(made)
    return found


def _choices(own: Choice) -> list[Choice]:
    """All registered channels that need no options nor minutes, and the one in use with its own."""
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
    """Channels made for E, where E is kept as a table; searched for a second or two each."""
    axis, metric = study.axes[place], study.schema.groups[place].metric
    held = study.blocks[place].choice
    if not isinstance(metric, TableMetric) or metric.size < 3:
        return []
    rows, asked = ("prefix", "ranges") if axis.domain.ordered else ("identity", "cells")
    found: list[Choice] = []
    if not isinstance(held, MatrixResponse) and metric.size <= _MOST_CODED:
        found.append(MatrixResponse(rows, workload=asked))
    if not isinstance(held, Extremal):
        quick = Extremal(asked).quickly(metric)
        found += [] if quick is None else [quick]
    return found


def _row(
    option: Study,
    asked: Planned,
    chosen: bool,
    method: str,
    prior: Prior,
    n: int,
    runs: int,
    seed: int,
) -> ComparisonRow:
    """The error of one channel, or one mechanism for whole records, under one decoder."""
    (block,) = option.blocks
    channel, choice = block.channel, block.choice
    note = SHORT_SEARCH if isinstance(choice, Extremal) and not chosen else ""
    try:
        if method == "unbiased":
            error = Simulated(exact_error(option, asked, prior, n), None, "exact")
        else:
            _refuse_many_bits(channel, n * max(runs, 1), chosen)
            axes = tuple(asked.workloads)
            lists = [[asked.workloads[axis] for axis in axes]]
            error = simulate(option, axes, lists, prior, n, runs=max(runs, 1), seed=seed)[0]
    except TooLargeError:
        error, note = Simulated(math.nan, None, "simulated"), "too many reports to decode"
    return ComparisonRow(
        axis=" × ".join(axis.name for axis in option.axes),
        question=asked.text,
        channel=_name(choice),
        method=method,
        stderr=error.stderr,
        share=error.stderr / n,
        bits=_bits(channel),
        chosen=chosen,
        best=False,
        how=error.how,
        note=note,
    )


def _refuse_many_bits(channel: Channel, reports: int, chosen: bool) -> None:
    """Refuse to decode bits for minutes only to compare them: such reports are decoded singly."""
    if not chosen and channel.layout.kind == "bits" and channel.layout.count * reports > MOST_BITS:
        raise TooLargeError("too many bits to decode for a comparison")


def _mark_best(rows: Sequence[ComparisonRow]) -> list[ComparisonRow]:
    """Mark the smallest error of each axis and decoder."""
    best: dict[tuple[str, str], float] = {}
    for row in rows:
        key = (row.axis, row.method)
        if math.isfinite(row.stderr):
            best[key] = min(best.get(key, math.inf), row.stderr)
    return [replace(row, best=row.stderr == best.get((row.axis, row.method))) for row in rows]


def _name(choice: Choice) -> str:
    """A channel's id with its options."""
    held = {name: value for name, value in choice.options().items() if name != "table"}
    options = ", ".join(str(value) for value in held.values())
    return f"{choice.id} ({options})" if options else choice.id


def _bits(channel: Channel) -> int:
    """Bits of a report."""
    count = channel.layout.count
    return count if channel.layout.kind == "bits" else int(np.ceil(np.log2(count)))
