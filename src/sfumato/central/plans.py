"""Plans of releases: mechanisms and strategies compared before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.central.designs import QUESTIONS
from sfumato.central.laplace import Laplace
from sfumato.central.mechanism import Mechanism
from sfumato.central.multiplicative_weights import MWEM
from sfumato.central.space import Space
from sfumato.central.spend import Spending
from sfumato.checks import whole
from sfumato.errors import QuestionError, SfumatoError, near
from sfumato.noise.strategies import FIXED
from sfumato.study.schema import Schema
from sfumato.study.study import Study
from sfumato.text import Tabled, TableText, format_to, interval_name

THEMSELVES = "the questions themselves"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOption:
    """The error to expect of one way to make a release.

    Attributes:
        name: The mechanism and strategy in words.
        mechanism: The mechanism itself, ready for `release`.
        stderr: Root of the mean squared error over the questions; NaN where only a bound is known.
        largest: The largest standard error of a question.
        reach: The largest half-width of an interval.
        how: "exact", or the theorem that bounds the error.
        problem: Why it cannot be done, if it cannot.
    """

    name: str
    mechanism: Mechanism
    stderr: float = math.nan
    largest: float = math.nan
    reach: float = math.nan
    how: str = ""
    problem: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "name": self.name,
            "stderr": self.stderr,
            "largest": self.largest,
            "reach": self.reach,
            "how": self.how,
            "problem": self.problem,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePlan(Tabled):
    """Ways to answer the same questions at the same cost, the best first.

    Attributes:
        study: Name of the study.
        questions: How many questions there are.
        n: Number of people.
        spend: What the release may spend, in words.
        level: Share of intervals that hold the truth.
        options: The ways, those with the least error first.

    Example:
        >>> import sfumato as sf
        >>> study = sf.Study("ages", [sf.integers("age", 0, 15, protect=sf.Distance(0.5))])
        >>> plan = sf.central.plan(study, "ranges of age", n=1000, spend="1/5")
        >>> plan.best.name
        'Laplace, prefix'
    """

    study: str
    questions: int
    n: int
    spend: str
    level: float
    options: tuple[ReleaseOption, ...]

    @property
    def best(self) -> ReleaseOption:
        """The option with the least error."""
        return self.options[0]

    def __len__(self) -> int:
        return len(self.options)

    def __iter__(self) -> Iterator[ReleaseOption]:
        return iter(self.options)

    def __getitem__(self, name: str) -> ReleaseOption:
        for option in self.options:
            if option.name == name:
                return option
        known = [option.name for option in self.options]
        raise QuestionError(f"the plan has no option {name!r}: {near(name, known)}")

    def columns(self) -> tuple[str, ...]:
        """Names of the table's columns."""
        interval = interval_name(self.level)
        return ("mechanism", "standard error", "largest", interval, "how")

    def cells(self, option: ReleaseOption) -> tuple[str, ...]:
        """A row of the table."""
        if option.problem:
            return (option.name, "–", "–", "–", option.problem)
        shown = ["–" if math.isnan(x) else format_to(x, x) for x in (option.stderr, option.largest)]
        reach = f"± {format_to(option.reach, option.reach)}"
        return (option.name, *shown, reach, option.how)

    def caption(self) -> str:
        """What the numbers are."""
        return (
            f"{self.questions:,} questions about {self.n:,} people, spending {self.spend}; errors "
            "in people: root of the mean square, the largest, and the largest interval."
        )

    def table_text(self) -> TableText:
        """The table that shows it."""
        rows = [self.cells(option) for option in self.options]
        return TableText(f"Study {self.study!r}: {self.caption()}", self.columns(), rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "study": self.study,
            "questions": self.questions,
            "people": self.n,
            "spend": self.spend,
            "level": self.level,
            "options": [option.to_dict() for option in self.options],
        }


def plan(
    study: Study | Schema,
    questions: str | Mapping[str, Any] | Sequence[Any],
    n: int,
    spend: Spending,
    *,
    level: float = 0.95,
    progress: Callable[[float], None] | None = None,
) -> ReleasePlan:
    """The error to expect of every mechanism and strategy, for the same questions and cost.

    Args:
        study: What is protected, and how well.
        questions: In the study's own language.
        n: Number of people.
        spend: What the release may spend, as in `release`.
        level: Share of intervals that hold the truth.
        progress: Called with the share done.

    Returns:
        The options, those with the least error first; those that cannot be done say why.
    """
    n = whole(n, "n", least=1)
    space = Space(study, spend)
    workload = space.workload(questions)
    known = candidates(
        questions,
        level,
        ordered=any(space.schema.axes[axis].domain.ordered for axis in workload.asked_axes),
    )
    options: list[ReleaseOption] = []
    for place, (name, mechanism) in enumerate(known.items(), start=1):
        options.append(_option(name, mechanism, space, int(n)))
        if progress is not None:
            progress(place / len(known))
    options.sort(key=_rank)
    return ReleasePlan(
        study=space.schema.name,
        questions=workload.questions,
        n=int(n),
        spend=str(space.spend),
        level=level,
        options=tuple(options),
    )


def candidates(
    questions: Any, level: float = 0.95, *, ordered: bool = True
) -> dict[str, Mechanism]:
    """Every mechanism that may answer, by name.

    Args:
        questions: In the study's own language, or a workload.
        level: Share of intervals that hold the truth.
        ordered: Whether an axis has an order; if none has, every strategy measures cell by cell.
    """
    found: dict[str, Mechanism] = {
        f"Laplace, {THEMSELVES}{said}": Laplace(
            questions, QUESTIONS, allocation=allocation, level=level
        )
        for said, allocation in (("", "exact"), (", equal noise", "equal"), (", PSA", "psa"))
    }
    for strategy in FIXED if ordered else FIXED[:1]:
        found[f"Laplace, {strategy}"] = Laplace(questions, strategy, level=level)
    found["MWEM"] = MWEM(questions, level=level)
    return found


def _option(name: str, mechanism: Mechanism, space: Space, n: int) -> ReleaseOption:
    """What to expect of one mechanism, or why it cannot be done."""
    try:
        expected = mechanism.prepare(space, n).expected()
    except SfumatoError as error:
        return ReleaseOption(name=name, mechanism=mechanism, problem=str(error).split(";")[0])
    return ReleaseOption(
        name=name,
        mechanism=mechanism,
        stderr=expected.total,
        largest=float(expected.stderr.max()),
        reach=float(expected.reach.max()),
        how=expected.how,
    )


def _rank(option: ReleaseOption) -> tuple[bool, bool, float]:
    """Exact errors first, then bounds, then what cannot be done."""
    bound_only = math.isnan(option.stderr)
    return bool(option.problem), bound_only, option.reach if bound_only else option.stderr
