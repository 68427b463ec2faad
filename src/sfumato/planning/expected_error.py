"""The expected error of typical questions and of the user's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sfumato.errors import StudyError
from sfumato.estimation.answers import normal_quantile
from sfumato.planning.plan import Plan, PlanRow
from sfumato.planning.priors import Prior, prior_of
from sfumato.planning.simulate import ExpectedError, simulate
from sfumato.planning.variances import mean_variance
from sfumato.questions.language import weights
from sfumato.questions.typical import cells, deciles, ranges
from sfumato.questions.workload import Given, Workload
from sfumato.study.axis import Axis
from sfumato.study.study import Study
from sfumato.verbs import RUNS

Method = Literal["unbiased", "likelihood"]
Questions = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]
Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """Questions of one kind: one workload per axis, joined by "and".

    `factor` turns an error per person into one of `unit`: 1 for people.
    """

    text: str
    kind: str
    workloads: dict[int, Workload]
    unit: str = "people"
    factor: float = 1.0


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
    return Plan(study=study.name, n=people, prior=held.text, method=method, level=level, rows=rows)


def typical(study: Study, prior: Prior) -> list[Planned]:
    """Random ranges, deciles, cells and means of every axis, and ranges over two axes.

    Args:
        study: The study.
        prior: Where people are expected to be; deciles and means are theirs.
    """
    asked: list[Planned] = []
    ordered = [place for place, axis in enumerate(study.axes) if axis.domain.ordered]
    for place, axis in enumerate(study.axes):
        values, size, name = axis.domain.size, axis.size, axis.name
        if axis.domain.ordered:
            every = ranges(values, size)
            asked.append(Planned(f"{name}: a random range", "range", {place: every}))
            tenths = deciles(prior.laws[place], values)
            asked.append(Planned(f"{name}: at or below a decile", "decile", {place: tenths}))
        asked.append(Planned(f"{name}: one cell", "cell", {place: cells(values, size)}))
        asked += _mean(axis, place, prior)
    for pair in combinations(ordered, 2):
        names = " × ".join(study.axes[place].name for place in pair)
        both: dict[int, Workload] = {
            place: ranges(study.axes[place].domain.size, study.axes[place].size) for place in pair
        }
        asked.append(Planned(f"{names}: a random range of both", "range", both))
    return asked


def typical_of(study: Study, axes: Sequence[int]) -> Planned:
    """The questions by which the channels of a block are compared: random ranges of all its axes.

    Args:
        study: The study.
        axes: The axes of the block; one without an order is asked about single cells.
    """
    held = {place: study.axes[place] for place in axes}
    workloads: dict[int, Workload] = {
        place: (ranges if axis.domain.ordered else cells)(axis.domain.size, axis.size)
        for place, axis in held.items()
    }
    kind = "range" if any(axis.domain.ordered for axis in held.values()) else "cell"
    several = f"a random {kind} of all"
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
    given = [questions] if isinstance(questions, (str, Mapping)) else list(questions)
    asked = []
    for question in given:
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
    found = mean_variance(study.blocks, asked.workloads, prior)
    return ExpectedError(math.sqrt(n * max(found, 0.0)), None, "exact")


def _sent_by(study: Study, asked: Planned) -> str:
    """The channels that a question rests on."""
    used = [b for b in study.blocks if not asked.workloads.keys().isdisjoint(b.axes)]
    return ", ".join(block.choice.id for block in used)


def checked_people(n: Any) -> int:
    """A whole number of people, at least one."""
    if isinstance(n, (bool, np.bool_)) or not isinstance(n, (int, float, np.number)):
        raise StudyError(f"n must be a whole number of people, got {type(n).__name__}")
    if not math.isfinite(n) or n != math.floor(n):
        raise StudyError(f"n must be a whole number of people, got n={n}")
    if n < 1:
        raise StudyError(f"a plan needs at least one person, got n={int(n)}")
    return int(n)


def checked_method(method: str, prior: Prior) -> None:
    """Refuse unknown decoders, and likelihood answers for the worst population.

    Args:
        method: "unbiased" or "likelihood".
        prior: Where people are expected to be.
    """
    if method not in ("unbiased", "likelihood"):
        raise StudyError(f"method must be 'unbiased' or 'likelihood', got method={method!r}")
    if method == "likelihood" and prior.worst:
        raise StudyError(
            "prior='worst' is known for unbiased answers only; give a histogram to likelihood "
            "answers, or use method='unbiased'"
        )


def _mean(axis: Axis, place: int, prior: Prior) -> list[Planned]:
    """The mean of an axis that has numbers, among those who answer, to first order."""
    numbers = axis.domain.numbers()
    if numbers is None:
        return []
    answered = np.append(np.ones(axis.domain.size), np.zeros(int(axis.optional)))
    law = prior.laws[place] * answered
    share = float(law.sum())
    if not share:
        return []
    full = np.append(numbers, np.zeros(int(axis.optional)))
    off = (full - float(law @ full) / share) * answered
    unit = axis.unit or f"of {axis.name}"
    return [Planned(f"{axis.name}: mean", "mean", {place: Given(off[None])}, unit, 1.0 / share)]


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
        errors = simulate(study, lists, prior, n, runs=runs, seed=seed, progress=seen)
        found |= dict(zip(members, errors, strict=True))
    return [found[number] for number in range(len(asked))]


def _scaled(value: float | None, factor: float) -> float | None:
    """A number times a factor, where there is one."""
    return None if value is None else value * factor
