"""The inverse of planning: how many people, or which ε, give a wanted standard error."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from numpy.typing import ArrayLike

from sfumato.errors import StudyError, shown
from sfumato.metrics.base import Metric, Sum
from sfumato.planning.expected_error import (
    Method,
    checked_method,
    checked_people,
    exact_error,
    own,
    typical_of,
)
from sfumato.planning.simulate import simulate
from sfumato.planning.variances import prior_of
from sfumato.study.axis import Axis
from sfumato.study.study import Study
from sfumato.verbs import RUNS

Question = str | Mapping[str, Any]
PriorLike = str | ArrayLike | Mapping[str, ArrayLike]

MOST_PEOPLE = 10**12
#: Reports of many bits are simulated person by person: this takes minutes.
MOST_PEOPLE_OF_BITS = 10**5
LEAST_EPSILON, MOST_EPSILON = 1e-4, 64.0
_DIGITS = 4
# Likelihood answers: errors are simulated anew for each number of people, so they jump. The search
# ends within one percent, and takes there the first of a few numbers that come near what is wanted.
_CLOSE, _NEAR, _TRIES = 1.01, 0.95, 12


def people_for(
    study: Study,
    wanted: float,
    question: Question | None = None,
    *,
    prior: PriorLike = "flat",
    method: Method = "unbiased",
    runs: int = RUNS,
    seed: int = 0,
) -> int:
    """How many people give a wanted standard error, as a share of all people.

    The error is the one that `Study.expected_error` states for the same question, method, runs and
    seed: with this many people it is at most what is wanted.

    Args:
        study: The study.
        wanted: The standard error of the share, such as 0.01 for one percent.
        question: What is asked; left out, random ranges of the block where their error is largest.
        prior: Where people are expected to be.
        method: "unbiased" gives the smallest number of people. "likelihood" errors are simulated,
            and people are found to within one percent.
        runs: Number of tallies to simulate for likelihood answers.
        seed: For the simulation.

    Raises:
        StudyError: If no number of people up to 10^12 is enough; with reports of many bits and
            likelihood answers, up to 10^5.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
        >>> people_for(study, 0.01, "age=18..30")
        7707
    """
    goal = _Goal(_checked_share(wanted), question, prior, method, runs, seed)
    goal.check(study)
    one = goal.exactly().error(study, 1)
    exact = max(1, math.ceil((one / goal.share) ** 2 * (1 - 1e-12)))
    if method == "unbiased":
        _refuse_people(goal.share, f"{exact:,}", exact > MOST_PEOPLE)
        return exact
    bits = any(block.channel.layout.kind == "bits" for block in study.blocks)
    most = MOST_PEOPLE_OF_BITS if bits else MOST_PEOPLE
    found = _smallest(
        lambda people: goal.over(study, round(people)), exact // 16, (1, most), math.ceil, _CLOSE
    )
    _refuse_people(goal.share, f"more than {most:,}", found is None)
    return round(found or 0)


def epsilon_for(
    make: Callable[[float], Study] | Study | Axis,
    n: int,
    wanted: float,
    question: Question | None = None,
    *,
    prior: PriorLike = "flat",
    method: Method = "unbiased",
    runs: int = RUNS,
    seed: int = 0,
) -> float:
    """The smallest ε, to four digits, with which n people give a wanted standard error.

    The error is the one that `Study.expected_error` states for the same question, method, runs and
    seed: with this ε it is at most what is wanted.

    Args:
        make: A function from ε to a study; or an axis, whose ε is searched; or a study, and then
            the factor by which all its ε must be multiplied is found instead.
        n: Number of people.
        wanted: The standard error of the share, such as 0.01 for one percent.
        question: What is asked; left out, random ranges of the block where their error is largest.
        prior: Where people are expected to be.
        method: The decoder. "likelihood" errors are simulated, and ε is found to within one
            percent.
        runs: Number of tallies to simulate for likelihood answers.
        seed: For the simulation.

    Raises:
        StudyError: If no ε up to 64 is enough.

    Example:
        >>> import sfumato as sf
        >>> age = sf.integers("age", 0, 99, protect=sf.Distance(1))
        >>> epsilon_for(age, 10_000, 0.01, "age=18..30")
        0.4659
    """
    people = checked_people(n)
    goal = _Goal(_checked_share(wanted), question, prior, method, runs, seed)
    build = _maker(make)
    goal.check(build(1.0))

    def smallest(goal: _Goal, guess: float, close: float) -> float | None:
        return _smallest(
            lambda epsilon: goal.over(build(epsilon), people),
            guess,
            (LEAST_EPSILON, MOST_EPSILON),
            _round_up,
            close,
        )

    found = smallest(goal.exactly(), 1.0, 1.0)
    if method == "likelihood":
        found = smallest(goal, found or MOST_EPSILON, _CLOSE)
    if found is None:
        raise StudyError(
            f"even epsilon={MOST_EPSILON:g} gives {people:,} people a larger standard error than "
            f"{goal.share:g}; ask more people, or allow a larger error"
        )
    return found


def scaled(study: Study, factor: float) -> Study:
    """The study with every ε multiplied, and channels chosen anew where the planner chose them.

    Args:
        study: The study.
        factor: What each group's ε is multiplied by.
    """
    by = Fraction(repr(factor))
    parts = [
        replace(
            part,
            protect=_scaled_metric(part.statement, by),
            channel=None if reason else part.channel,
        )
        for part, reason in zip(study.parts, study.reasons, strict=True)
    ]
    return Study(study.name, parts, people=study.people)


def _maker(make: Callable[[float], Study] | Study | Axis) -> Callable[[float], Study]:
    """A function from ε, or from the factor of all ε, to a study."""
    if isinstance(make, Study):
        held = make
        return lambda factor: scaled(held, factor)
    if isinstance(make, Axis):
        axis = make
        if not hasattr(axis.protect, "epsilon"):
            kind = type(axis.protect).__name__
            raise StudyError(
                f"axis {axis.name!r} is protected by {kind}, which has no epsilon to search for; "
                "give a function from epsilon to a study"
            )

        def build(epsilon: float) -> Study:
            protect = replace(axis.protect, epsilon=epsilon)  # type: ignore[type-var]
            return Study(axis.name, [replace(axis, protect=protect)])

        return build
    if not callable(make):
        raise StudyError(
            "epsilon_for needs an axis, a study, or a function from epsilon to a study, got "
            f"{type(make).__name__}"
        )
    return make


def _scaled_metric(metric: Metric, by: Fraction) -> Metric:
    """A statement with its ε multiplied."""
    if isinstance(metric, Sum):
        return Sum(tuple(_scaled_metric(part, by) for part in metric.parts))
    if not hasattr(metric, "epsilon"):
        raise StudyError(
            f"{type(metric).__name__} has no epsilon to multiply; give a function from epsilon to "
            "a study"
        )
    result: Metric = replace(metric, epsilon=metric.epsilon * by)  # type: ignore[type-var]
    return result


@dataclass(frozen=True, slots=True)
class _Goal:
    """A wanted error, and how the error is found that must not exceed it."""

    share: float
    question: Question | None
    prior: PriorLike
    method: Method
    runs: int
    seed: int

    def check(self, study: Study) -> None:
        """Refuse what no study of this kind can be asked."""
        checked_method(self.method, prior_of(study, self.prior))

    def exactly(self) -> _Goal:
        """The same for unbiased answers, whose error needs no simulation."""
        return replace(self, method="unbiased")

    def over(self, study: Study, n: int) -> float:
        """The error over the wanted one: at most 1 is enough."""
        return self.error(study, n) / self.share

    def error(self, study: Study, n: int) -> float:
        """The largest standard error of the questions, as a share."""
        held = prior_of(study, self.prior)
        if self.question is not None:
            asked = own(study, [self.question])
        else:
            asked = [typical_of(study, block.axes) for block in study.blocks]
        if self.method == "unbiased":
            found = [exact_error(study, one, held, n) for one in asked]
        else:
            found = [
                simulate(study, [one.workloads], held, n, runs=self.runs, seed=self.seed)[0]
                for one in asked
            ]
        return max(error.stderr for error in found) / n


def _smallest(
    over: Callable[[float], float],
    guess: float,
    limits: tuple[float, float],
    rounded: Callable[[float], float],
    close: float,
) -> float | None:
    """The smallest rounded number that is enough, to within a factor; None if there is none."""
    least, most = limits
    low = high = min(max(guess, least), most)
    found = over(high)
    if found <= 1:
        while low == high:
            if high == least:
                return least
            low = max(rounded(high / 4), least)
            if (there := over(low)) <= 1:
                high, found = low, there
    else:
        while low == high:
            if high == most:
                return None
            high = min(rounded(low * 4), most)
            if (found := over(high)) > 1:
                low = high
    while high / low > close:
        middle = rounded(math.sqrt(low * high))
        if not low < middle < high:
            return high
        there = over(middle)
        low, high, found = (low, middle, there) if there <= 1 else (middle, high, found)
    best = (found, high)
    tries = {rounded(high * (1 - k / _TRIES * (1 - 1 / close))) for k in range(1, _TRIES)}
    for one in sorted(tries - {low, high}, reverse=True):
        if best[0] >= _NEAR:
            break
        if (there := over(one)) <= 1:
            best = max(best, (there, one))
    return best[1]


def _refuse_people(share: float, needed: str, refused: bool) -> None:
    """Say how many people a wanted error would need, where they are too many."""
    if refused:
        raise StudyError(
            f"a standard error of {share:g} would need {needed} people; allow a larger error or a "
            "larger epsilon"
        )


def _checked_share(wanted: float) -> float:
    """A share strictly between nothing and everybody."""
    if isinstance(wanted, bool) or not isinstance(wanted, (int, float)) or not 1e-9 <= wanted < 1:
        raise StudyError(
            "the wanted standard error must be a share between 0 and 1, at least 1e-9, got "
            f"{shown(wanted)}; write 0.01 for one percent"
        )
    return float(wanted)


def _round_up(epsilon: float) -> float:
    """Round up to four digits."""
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - _DIGITS + 1)
    return float(f"{math.ceil(epsilon / unit) * unit:.{_DIGITS}g}")
