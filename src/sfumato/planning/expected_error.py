"""The expected error of typical questions and of the user's own, as a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sfumato.channels.pairs import many_pairs
from sfumato.checks import is_number, one_of
from sfumato.errors import QuestionError, StudyError, near, shown
from sfumato.estimation.intervals import normal_quantile
from sfumato.planning.pairs import pairs_error, simulate_pairs
from sfumato.planning.simulate import ExpectedError, simulate
from sfumato.planning.variances import Prior, mean_terms, prior_of, variance
from sfumato.questions.language import weights
from sfumato.questions.lines import Ranges
from sfumato.questions.typical import cells, deciles
from sfumato.questions.workload import Given, Workload
from sfumato.study.study import Study
from sfumato.text import Tabled, TableText, format_to, interval_name, percent
from sfumato.verbs import RUNS, PlanVerbs


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """The expected error of one question, or the root mean square over many of one kind.

    Attributes:
        question: What is asked.
        kind: "range", "decile", "cell", "mean" or "asked".
        axes: Names of the axes it is about.
        stderr: The standard error in people, or in `unit` for a mean. Over many questions, the
            root mean square.
        share: The same as a share of all people; None for a mean.
        unit: What `stderr` counts.
        channel: The channels that its axes go through.
        how: "exact"; "sampled" (the root mean square over a sample of the questions); "bound" (the
            largest, wherever values lie between grid points); "first order" (of a ratio);
            "simulated" (the root mean square error over seeded tallies); or "reported" (the
            standard error that the answers would state).
        reported: For likelihood answers, the standard error that they would state.
    """

    question: str
    kind: str
    axes: tuple[str, ...]
    stderr: float
    share: float | None
    unit: str
    channel: str
    how: str
    reported: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "axes": list(self.axes)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Tabled, PlanVerbs):
    """The expected errors of a study with a given number of people.

    Attributes:
        study: Name of the study.
        n: Number of people.
        prior: The assumed population: "flat", "worst" or "given".
        method: The decoder: "unbiased" or "likelihood".
        level: Level of the intervals.
        rows: One row per question.
        notes: Remarks below the table.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
        >>> plan = study.expected_error(100_000, ["age=18..30"])
        >>> row = plan["age=18..30"]
        >>> round(row.stderr), row.how
        (278, 'exact')
    """

    study: str
    n: int
    prior: str
    method: str
    level: float
    rows: tuple[PlanRow, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[PlanRow]:
        return iter(self.rows)

    def __getitem__(self, question: str) -> PlanRow:
        for row in self.rows:
            if row.question == question:
                return row
        known = [row.question for row in self.rows]
        raise QuestionError(f"the plan has no question {question!r}: {near(question, known)}")

    def reach(self, row: PlanRow) -> float:
        """Half the width of a row's interval at the plan's level."""
        return normal_quantile(self.level) * row.stderr

    def cells(self, row: PlanRow) -> tuple[str, ...]:
        """A row of the table; `columns` names the cells."""
        unit = f" {row.unit}".rstrip()
        share = "" if row.share is None else percent(row.share)
        told = "" if row.reported is None else f"{format_to(row.reported, row.reported)}{unit}"
        reach = self.reach(row)
        return (
            row.question,
            f"{MARKS.get(row.how, '')}{format_to(row.stderr, row.stderr)}{unit}",
            share,
            f"± {format_to(reach, reach)}",
            *((told,) if self.method == "likelihood" else ()),
            row.channel,
        )

    def columns(self) -> tuple[str, ...]:
        """Names of the table's columns."""
        told = ("as reported",) if self.method == "likelihood" else ()
        interval = interval_name(self.level)
        return ("question", "standard error", "share", interval, *told, "channel")

    def caption(self) -> str:
        """The caption: people, method, population, and how errors were found."""
        head = f"{self.n:,} people, {self.method} answers, {PRIORS[self.prior]}"
        return f"{'; '.join([head, *told({row.how for row in self.rows})])}."

    def table_text(self) -> TableText:
        """The table that shows it."""
        rows = [self.cells(row) for row in self.rows]
        return TableText(
            f"Study {self.study!r}: {self.caption()}", self.columns(), rows, self.notes
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "study": self.study,
            "people": self.n,
            "prior": self.prior,
            "method": self.method,
            "level": self.level,
            "rows": [{**row.to_dict(), "reach": self.reach(row)} for row in self.rows],
            "notes": list(self.notes),
        }


PRIORS = {
    "flat": "people spread evenly",
    "worst": "the worst population for each row",
    "given": "people spread as given",
}
_HOW = {
    "exact": "errors are exact",
    "sampled": "errors marked ≈ are root mean squares over a sample of the questions",
    "bound": "errors marked ≤ are upper bounds, wherever values lie between grid points",
    "first order": "errors marked ~ are exact to first order",
    "simulated": "errors are root mean squares over simulated tallies",
    "reported": "errors are those the answers would report",
}
MARKS = {"sampled": "≈ ", "bound": "≤ ", "first order": "~ "}


def told(hows: Collection[str]) -> list[str]:
    """How errors were found, in words."""
    return [words for how, words in _HOW.items() if how in hows]


Method = Literal["unbiased", "likelihood"]
Questions = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]
Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """Questions of one kind: one workload per axis, joined by "and".

    `factor` turns an error per person into one of `unit`: 1 for people. A `ratio` is read to first
    order.
    """

    text: str
    kind: str
    workloads: dict[int, Workload]
    unit: str = "people"
    factor: float = 1.0
    ratio: bool = False


def expected_error(
    study: Study,
    n: int,
    questions: Questions | None = None,
    *,
    prior: str | ArrayLike | Mapping[str, ArrayLike] = "flat",
    method: Method = "unbiased",
    level: float = 0.95,
    runs: int = RUNS,
    seed: int = 0,
    progress: Progress | None = None,
) -> Plan:
    """The expected error of typical questions and your own: see `Study.expected_error`.

    Args:
        study: The study.
        n: Number of people.
        questions: Your own, as text or by axis.
        prior: "flat", "worst", a histogram over all cells, or histograms by axis name.
        method: "unbiased" or "likelihood".
        level: Level of the intervals.
        runs: Number of tallies to simulate for likelihood answers.
        seed: For the simulation.
        progress: Called with the share done.
    """
    people = checked_people(n)
    normal_quantile(level)
    held = prior_of(study, prior)
    checked_method(method, held)
    asked = [*typical(study, held), *own(study, questions)]
    if method == "likelihood":
        found = _by_simulation(study, asked, held, people, runs, seed, progress)
    else:
        found = [exact_error(study, one, held, people) for one in asked]
    rows = tuple(
        PlanRow(
            question=one.text,
            kind=one.kind,
            axes=tuple(study.axes[axis].name for axis in sorted(one.workloads)),
            stderr=one.factor * error.stderr / (people if one.kind == "mean" else 1),
            share=None if one.kind == "mean" else error.stderr / people,
            unit=one.unit,
            channel=_sent_by(study, one),
            how=error.how,
            reported=_scaled(error.reported, one.factor / (people if one.kind == "mean" else 1)),
        )
        for one, error in zip(asked, found, strict=True)
    )
    gaps = [(axis.name, _unknown_mean(study, k, held)) for k, axis in enumerate(study.axes)]
    return Plan(
        study=study.name,
        n=people,
        prior=held.text,
        method=method,
        level=level,
        rows=rows,
        notes=tuple(f"The error of the mean of {name} {why}." for name, why in gaps if why),
    )


def typical(study: Study, prior: Prior) -> list[Planned]:
    """Random ranges, deciles, cells and means of every axis, ranges of two axes, and of each block.

    Args:
        study: The study.
        prior: Where people are expected to be; deciles and means are theirs.
    """
    asked: list[Planned] = []
    ordered = [place for place, axis in enumerate(study.axes) if axis.domain.ordered]
    for place, axis in enumerate(study.axes):
        values, size, name = axis.domain.size, axis.size, axis.name
        if axis.domain.ordered:
            every = Ranges(values, size=size)
            asked.append(Planned(f"{name}: a random range", "range", {place: every}))
            tenths = deciles(prior.laws[place], values)
            asked.append(Planned(f"{name}: at or below a decile", "decile", {place: tenths}))
        asked.append(Planned(f"{name}: one cell", "cell", {place: cells(values, size)}))
        asked += _mean(study, place, prior)
    for pair in combinations(ordered, 2):
        names = " × ".join(study.axes[place].name for place in pair)
        both: dict[int, Workload] = {
            place: Ranges(study.axes[place].domain.size, size=study.axes[place].size)
            for place in pair
        }
        asked.append(Planned(f"{names}: a random range of both", "range", both))
    blocks = [typical_of(study, block.axes) for block in study.blocks]
    known = {one.text for one in asked}
    return [*asked, *(one for one in blocks if one.text not in known)]


def typical_of(study: Study, axes: Sequence[int]) -> Planned:
    """The questions by which a block is judged, here as in `compare` and for a wanted error.

    They are random ranges of all its axes together.

    Args:
        study: The study.
        axes: The axes of the block; one without an order is asked about single cells.
    """
    if len(axes) > 2 and any(map(many_pairs, study.channels)):
        axes = axes[:2]  # what people report on
    held = {place: study.axes[place] for place in axes}
    workloads: dict[int, Workload] = {
        place: Ranges(axis.domain.size, size=axis.size)
        if axis.domain.ordered
        else cells(axis.domain.size, axis.size)
        for place, axis in held.items()
    }
    kind = "range" if any(axis.domain.ordered for axis in held.values()) else "cell"
    several = f"a random {kind} of {'both' if len(held) == 2 else 'all'}"
    alone = "a random range" if kind == "range" else "one cell"
    names = " × ".join(axis.name for axis in held.values())
    return Planned(f"{names}: {alone if len(held) == 1 else several}", kind, workloads)


def own(study: Study, questions: Questions | None) -> list[Planned]:
    """The user's own questions, one workload per axis that they ask about.

    Args:
        study: The study.
        questions: Text, or ranges by axis; one or several of them.
    """
    if questions is None:
        return []
    if isinstance(questions, (str, Mapping)) or not isinstance(questions, Sequence):
        questions = [questions]
    asked = []
    for question in questions:
        read = weights(study.axes, question)
        text = question if isinstance(question, str) else read.text
        lists: dict[int, Workload] = {
            place: Given(w[None]) for place, w in enumerate(read.weights) if w is not None
        }
        asked.append(Planned(text, "asked", lists))
    return asked


def exact_error(study: Study, asked: Planned, prior: Prior, n: int) -> ExpectedError:
    """The standard error of unbiased answers; over many questions, the root mean square.

    Args:
        study: The study.
        asked: The questions.
        prior: Where people are expected to be.
        n: Number of people.
    """
    if any(map(many_pairs, study.channels)):
        return pairs_error(study, asked.workloads, prior, n)
    terms = mean_terms(study.blocks, asked.workloads)
    if not all(part.whole for part in terms.values()):
        how = "sampled"
    elif any(part.excess.any() for part in terms.values()):
        how = "bound"
    else:
        how = "first order" if asked.ratio else "exact"
    return ExpectedError(math.sqrt(n * max(variance(prior, terms), 0.0)), None, how)


def _sent_by(study: Study, asked: Planned) -> str:
    """The channels that a question rests on."""
    used = [b for b in study.blocks if not asked.workloads.keys().isdisjoint(b.axes)]
    return ", ".join(block.choice.id for block in used)


def checked_people(n: Any) -> int:
    """A whole number of people, at least one."""
    if isinstance(n, (bool, np.bool_)) or not isinstance(n, (int, float, np.number)):
        raise StudyError(f"n must be a whole number of people, got {type(n).__name__}")
    if not is_number(n) or n != math.floor(n):
        raise StudyError(f"n must be a whole number of people, got n={shown(n)}")
    if n < 1:
        raise StudyError(f"a plan needs at least one person, got n={shown(n)}")
    return int(n)


def checked_method(method: str, prior: Prior) -> None:
    """Refuse unknown decoders, and likelihood answers for the worst population.

    Args:
        method: "unbiased" or "likelihood".
        prior: Where people are expected to be.
    """
    one_of(method, "method", ("unbiased", "likelihood"))
    if method == "likelihood" and prior.worst:
        raise StudyError(
            "prior='worst' is known for unbiased answers only; give a histogram to likelihood "
            "answers, or use method='unbiased'"
        )


def _mean(study: Study, place: int, prior: Prior) -> list[Planned]:
    """The mean of an axis that has numbers, among those who answer.

    Where everybody answers it is a sum over a known number of people; otherwise a ratio, which to
    first order is a sum of distances from the mean.
    """
    axis = study.axes[place]
    numbers = axis.domain.numbers()
    if numbers is None or _unknown_mean(study, place, prior):
        return []
    unit = axis.unit or f"of {axis.name}"
    text, kind = f"{axis.name}: mean", "mean"
    if not axis.optional:
        return [Planned(text, kind, {place: Given(numbers[None])}, unit)]
    law = prior.laws[place][:-1]
    share = float(law.sum())
    off = np.append(numbers - float(law @ numbers) / share, 0.0)
    return [Planned(text, kind, {place: Given(off[None])}, unit, 1.0 / share, ratio=True)]


def _unknown_mean(study: Study, place: int, prior: Prior) -> str:
    """Why the error of a mean is not known; empty where it is."""
    axis = study.axes[place]
    if not axis.optional or axis.domain.numbers() is None:
        return ""
    if prior.worst:
        return "has no bound, since in the worst population hardly anybody answers"
    if not prior.laws[place][:-1].any():
        return "is not defined, since nobody answers in the given population"
    if any(place in block.axes and not block.channel.linear for block in study.blocks):
        return "is not known: the sum and the number of answers are read from different nodes"
    return ""


def _by_simulation(
    study: Study,
    asked: Sequence[Planned],
    prior: Prior,
    n: int,
    runs: int,
    seed: int,
    progress: Progress | None,
) -> list[ExpectedError]:
    """Errors of likelihood answers: questions about the same axes are decoded together."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for number, one in enumerate(asked):
        groups.setdefault(tuple(sorted(one.workloads)), []).append(number)
    found: dict[int, ExpectedError] = {}
    for place, members in enumerate(groups.values()):

        def seen(share: float, done: int = place) -> None:
            if progress is not None:
                progress((done + share) / len(groups))

        lists = [asked[k].workloads for k in members]
        find = simulate_pairs if any(map(many_pairs, study.channels)) else simulate
        errors = find(study, lists, prior, n, runs=runs, seed=seed, progress=seen)
        found |= dict(zip(members, errors, strict=True))
    return [found[number] for number in range(len(asked))]


def _scaled(value: float | None, factor: float) -> float | None:
    """A number times a factor, where there is one."""
    return None if value is None else value * factor
