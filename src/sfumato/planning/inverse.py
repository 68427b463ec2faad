"""The inverse of planning: how many people, or which ε, give a wanted standard error."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from numpy.typing import ArrayLike

from sfumato.errors import StudyError
from sfumato.metrics.base import Metric, Sum
from sfumato.planning.expected_error import (
    Method,
    Planned,
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

Question = str | Mapping[str, Any]
PriorLike = str | ArrayLike | Mapping[str, ArrayLike]

MOST_PEOPLE = 10**12
LEAST_EPSILON, MOST_EPSILON = 1e-4, 64.0
_DIGITS = 4
_CLOSE = 1.01  # likelihood answers: people are found to one percent


def people_for(
    study: Study,
    wanted: float,
    question: Question | None = None,
    *,
    prior: PriorLike = "flat",
    method: Method = "unbiased",
) -> int:
    """How many people give a wanted standard error, as a share of all people.

    Args:
        study: The study.
        wanted: The standard error of the share, such as 0.01 for one percent.
        question: What is asked; left out, random ranges of the block where their error is largest.
        prior: Where people are expected to be.
        method: "unbiased" is exact: the smallest number of people. "likelihood" goes by the error
            that the answers would state, to within one percent.

    Raises:
        StudyError: If no number of people up to 10^12 is enough.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
        >>> people_for(study, 0.01, "age=18..30")
        7707
    """
    share = _checked_share(wanted)
    if method == "unbiased":
        one = _share_error(study, 1, question, prior, method)
        people = max(1, math.ceil((one / share) ** 2 * (1 - 1e-12)))
    else:
        people = _search_people(study, share, question, prior)
    if people > MOST_PEOPLE:
        raise StudyError(
            f"a standard error of {share:g} would need {people:,} people; allow a larger error or "
            "a larger epsilon"
        )
    return people


def epsilon_for(
    make: Callable[[float], Study] | Study | Axis,
    n: int,
    wanted: float,
    question: Question | None = None,
    *,
    prior: PriorLike = "flat",
    method: Method = "unbiased",
) -> float:
    """The smallest ε, to four digits, with which n people give a wanted standard error.

    Args:
        make: A function from ε to a study; or an axis, whose ε is searched; or a study, and then
            the factor by which all its ε must be multiplied is found instead.
        n: Number of people.
        wanted: The standard error of the share, such as 0.01 for one percent.
        question: What is asked; left out, random ranges of the block where their error is largest.
        prior: Where people are expected to be.
        method: The decoder; "likelihood" goes by the error that the answers would state.

    Raises:
        StudyError: If no ε up to 64 is enough.

    Example:
        >>> import sfumato as sf
        >>> age = sf.integers("age", 0, 99, protect=sf.Distance(1))
        >>> epsilon_for(age, 10_000, 0.01, "age=18..30")
        0.4659
    """
    people, share = checked_people(n), _checked_share(wanted)
    build = _maker(make)

    def enough(epsilon: float) -> bool:
        return _share_error(build(epsilon), people, question, prior, method) <= share

    if enough(LEAST_EPSILON):
        return LEAST_EPSILON
    if not enough(MOST_EPSILON):
        raise StudyError(
            f"even epsilon={MOST_EPSILON:g} gives {people:,} people a larger standard error than "
            f"{share:g}; ask more people, or allow a larger error"
        )
    low, high = LEAST_EPSILON, MOST_EPSILON
    while high / low > 1 + 10.0 ** -(_DIGITS + 1):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    found = _round_up(high)
    below = _round_up(low * (1 - 10.0**-_DIGITS))
    return below if below < found and enough(below) else found


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


def _share_error(
    study: Study, n: int, question: Question | None, prior: PriorLike, method: Method
) -> float:
    """The largest standard error of the questions, as a share."""
    held = prior_of(study, prior)
    checked_method(method, held)
    asked = _asked(study, question)
    if method == "unbiased":
        found = [exact_error(study, one, held, n) for one in asked]
    else:
        found = [simulate(study, [one.workloads], held, n, runs=0, seed=0)[0] for one in asked]
    return max(error.stderr for error in found) / n


def _asked(study: Study, question: Question | None) -> list[Planned]:
    """The user's question, or what is typical of every block."""
    if question is not None:
        return own(study, [question])
    return [typical_of(study, block.axes) for block in study.blocks]


def _search_people(study: Study, share: float, question: Question | None, prior: PriorLike) -> int:
    """Multiply by four until there are enough people, then bisect."""

    def enough(people: int) -> bool:
        return _share_error(study, people, question, prior, "likelihood") <= share

    high = 1
    while high <= MOST_PEOPLE and not enough(high):
        high *= 4
    low = high // 4
    while high > low + 1 and high / max(low, 1) > _CLOSE:
        middle = max(low + 1, min(high - 1, round(math.sqrt(max(low, 1) * high))))
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _checked_share(wanted: float) -> float:
    """A share strictly between nothing and everybody."""
    if isinstance(wanted, bool) or not isinstance(wanted, (int, float)) or not 0 < wanted < 1:
        raise StudyError(
            f"the wanted standard error must be a share between 0 and 1, got {wanted!r}; "
            "write 0.01 for one percent"
        )
    return float(wanted)


def _round_up(epsilon: float) -> float:
    """Round up to four digits."""
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - _DIGITS + 1)
    return float(f"{math.ceil(epsilon / unit) * unit:.{_DIGITS}g}")
