"""What a privacy officer needs to know of a study, gathered from the study, its audit and plans."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sfumato.auditing.audit import audit
from sfumato.checks import whole
from sfumato.errors import StudyError, TooLargeError
from sfumato.metrics.base import Metric
from sfumato.metrics.distance import Distance
from sfumato.metrics.ground import Ground
from sfumato.metrics.lp import Lp
from sfumato.metrics.uniform import Uniform
from sfumato.planning.expected_error import expected_error
from sfumato.planning.guarantees import compare_guarantees
from sfumato.signoff.page import Far, Signoff
from sfumato.study.examples import hazes, pairs
from sfumato.study.schema import Group
from sfumato.study.study import Study
from sfumato.text import odds

PEOPLE = 10_000  # for errors, where nobody says how many
#: Beyond these odds two people count as far: a guess between them is right 99 % of the time.
FAR_ODDS = 100
#: The cap that is suggested: odds of 20.
CAP = 3
_REPEATS = (1, 2, 7, 30, 365)
_MOST_CAPPED = 256  # cells of an axis for which the channel under a cap is found within seconds
_PLAIN = (1, 4)  # ε of ordinary local DP to compare with


def signoff(
    study: Study,
    n: int | None = None,
    questions: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | None = None,
    *,
    repeats: int | None = None,
) -> Signoff:
    """Gather all of it: see `Study.report`.

    Args:
        study: The study.
        n: Number of people; left out, the study's own, or 10,000.
        questions: Your own questions.
        repeats: How many reports one person sends at most.
    """
    people = n if n is not None else study.people
    found = expected_error(study, PEOPLE if people is None else people, questions)
    own = () if repeats is None else (whole(repeats, "repeats", least=1),)
    largest = [group.metric.largest() for group in study.schema.groups]
    far = [
        _far(study, place, e)
        for place, e in enumerate(largest)
        if e is None or e > math.log(FAR_ODDS)
    ]
    columns = {"this study": study, **dict(_others(study, [place for place, _ in far]))}
    return Signoff(
        study=study,
        n=found.n,
        assumed=people is None,
        audit=audit(study),
        pairs=tuple(pairs(study.schema)),
        hazes=tuple(hazes(study.schema)),
        far=tuple(one for _, one in far),
        total=math.inf if None in largest else float(sum(e for e in largest if e is not None)),
        repeats=tuple(sorted({*_REPEATS, *own})),
        plan=found,
        others=compare_guarantees(list(columns.values()), found.n, questions, names=list(columns)),
    )


def _far(study: Study, place: int, largest: Fraction | None) -> tuple[int, Far]:
    """What to say of a group whose far pairs can be told apart."""
    group = study.schema.groups[place]
    names = tuple(study.schema.axes[axis].name for axis in group.axes)
    e = math.inf if largest is None else float(largest)
    return place, Far(axes=names, e=e, advice=_advice(group, e))


def _advice(group: Group, e: float) -> str:
    """What to do so that no two people can be told apart."""
    statement = group.protect
    if isinstance(statement, Distance | Lp | Ground) and statement.cap is None:
        kind = type(statement).__name__
        line = ", on the command line 'cap 3'" if isinstance(statement, Distance) else ""
        return (
            f"If this must not be, add a cap: {kind}(..., cap={CAP}){line} limits the odds between "
            f"any two people to {odds(CAP)}. The table of other guarantees shows what that costs."
        )
    if isinstance(statement, Uniform):
        return f"If this must not be, choose a smaller ε: with ε = {CAP} the odds are {odds(CAP)}."
    if math.isinf(e):
        return (
            f"The guarantee says so on purpose ({statement.describe()}). If it must not be, choose "
            "one that is finite for all pairs, such as Uniform, or Distance with a cap."
        )
    return f"If this must not be, choose a smaller ε in {statement.describe()!r}."


def _others(study: Study, far: Sequence[int]) -> Iterator[tuple[str, Study]]:
    """The same axes under other guarantees: with a cap on far pairs, and as ordinary local DP."""
    capped = {
        place: _capped(study.parts[place].statement)
        for place in far
        if math.prod(study.blocks[place].shape) <= _MOST_CAPPED
    }
    if any(metric is not None for metric in capped.values()):
        yield from _made(f"with a cap of {CAP}", study, capped)
    for epsilon in _PLAIN:
        every: dict[int, Metric | None] = dict.fromkeys(range(len(study.parts)), Uniform(epsilon))
        yield from _made(f"ordinary local DP, ε = {epsilon}", study, every)


def _capped(statement: Metric) -> Metric | None:
    """The same guarantee with a cap, where it takes one."""
    if isinstance(statement, Distance):
        return Distance(statement.epsilon, statement.per, no_answer=statement.no_answer, cap=CAP)
    if isinstance(statement, Lp):
        return Lp(statement.epsilon, statement.p, statement.per, cap=CAP)
    if isinstance(statement, Ground):
        return Ground(statement.epsilon, statement.per, cap=CAP)
    return None


def _made(
    name: str, study: Study, metrics: Mapping[int, Metric | None]
) -> Iterator[tuple[str, Study]]:
    """The study under other guarantees, unless there is none such."""
    parts = [
        part if metrics.get(place) is None else replace(part, protect=metrics[place], channel=None)
        for place, part in enumerate(study.parts)
    ]
    try:
        yield name, Study(study.name, parts, people=study.people)
    except (StudyError, TooLargeError):
        return
