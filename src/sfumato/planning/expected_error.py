"""The error of typical questions, and of the user's own, before anybody is asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sfumato.errors import StudyError
from sfumato.estimation.answers import normal_quantile
from sfumato.planning.plan import Plan, PlanRow
from sfumato.planning.priors import Prior, prior_of
from sfumato.planning.records import is_whole, record_variance
from sfumato.planning.simulate import Simulated, simulate
from sfumato.planning.variances import Terms, variance
from sfumato.questions.language import weights
from sfumato.questions.typical import cells, deciles, ranges
from sfumato.questions.workload import Given, Workload

if TYPE_CHECKING:
    from sfumato.study.axis import Axis
    from sfumato.study.study import Study


Method = Literal["unbiased", "likelihood"]
Questions = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]
Progress = Callable[[float], None]

RUNS = 20


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
    """What `Study.expected_error` does."""
    people = checked_people(n)
    normal_quantile(level)
    held = prior_of(study, prior)
    checked_method(method, held)
    asked = [*typical(study, held), *own(study, questions)]
    if method == "likelihood":
        found = _by_simulation(study, asked, held, people, runs, seed, progress)
    else:
        found = [Simulated(exact_error(study, one, held, people), None, "exact") for one in asked]
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
    """Random ranges, deciles, cells and means of every axis, and ranges over two axes."""
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


def typical_of_records(study: Study) -> Planned:
    """What stands for whole records when mechanisms are compared: the same of all axes at once."""
    parts = [typical_of(study, place) for place in range(len(study.axes))]
    names = " × ".join(axis.name for axis in study.axes)
    kind = "range" if any(part.kind == "range" for part in parts) else "cell"
    workloads = {place: part.workloads[place] for place, part in enumerate(parts)}
    return Planned(f"{names}: a random {kind} of all", kind, workloads)


def typical_of(study: Study, place: int) -> Planned:
    """What stands for an axis when channels are compared: ranges, or cells without an order."""
    axis = study.axes[place]
    values, size = axis.domain.size, axis.size
    if axis.domain.ordered:
        return Planned(f"{axis.name}: a random range", "range", {place: ranges(values, size)})
    return Planned(f"{axis.name}: one cell", "cell", {place: cells(values, size)})


def own(study: Study, questions: Questions | None) -> list[Planned]:
    """The user's own questions."""
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


def exact_error(study: Study, asked: Planned, prior: Prior, n: int) -> float:
    """The standard error of unbiased answers, in people; over many questions, the mean square."""
    if is_whole(study):
        return math.sqrt(n * max(record_variance(study, asked.workloads, prior), 0.0))
    terms = {
        axis: Terms.mean(study.channels[axis], workload)
        for axis, workload in asked.workloads.items()
    }
    return math.sqrt(n * max(variance(prior, terms), 0.0))


def _sent_by(study: Study, asked: Planned) -> str:
    """The channels that a question rests on."""
    used = [block for block in study.blocks if set(block.axes) & set(asked.workloads)]
    return ", ".join(block.choice.id for block in used)


def checked_people(n: Any) -> int:
    """A number of people, refused where there is nobody to plan for."""
    if isinstance(n, (bool, np.bool_)) or not isinstance(n, (int, float, np.number)):
        raise StudyError(f"n must be a whole number of people, got {type(n).__name__}")
    if not math.isfinite(n) or n != math.floor(n):
        raise StudyError(f"n must be a whole number of people, got n={n}")
    if n < 1:
        raise StudyError(f"a plan needs at least one person, got n={int(n)}")
    return int(n)


def checked_method(method: str, prior: Prior) -> None:
    """Refuse unknown decoders, and the one whose worst case nobody knows."""
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
) -> list[Simulated]:
    """Likelihood errors: each set of axes is decoded once a run, for all questions about it."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for number, one in enumerate(asked):
        groups.setdefault(tuple(sorted(one.workloads)), []).append(number)
    found: dict[int, Simulated] = {}
    for place, (axes, members) in enumerate(groups.items()):

        def seen(share: float, done: int = place) -> None:
            if progress is not None:
                progress((done + share) / len(groups))

        lists = [[asked[k].workloads[axis] for axis in axes] for k in members]
        errors = simulate(study, axes, lists, prior, n, runs=runs, seed=seed, progress=seen)
        found |= dict(zip(members, errors, strict=True))
    return [found[number] for number in range(len(asked))]


def _scaled(value: float | None, factor: float) -> float | None:
    """A number times a factor, where there is one."""
    return None if value is None else value * factor
