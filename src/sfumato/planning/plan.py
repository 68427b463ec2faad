"""Plans: tables of the expected error of each question."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from sfumato.errors import QuestionError, near
from sfumato.estimation.answers import normal_quantile
from sfumato.text import format_to, percent, text_table
from sfumato.verbs import PlanVerbs


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
        how: "exact", "simulated" (the root mean square error over seeded tallies), or "reported"
            (the standard error that the answers would state).
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
class Plan(PlanVerbs):
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
            f"{format_to(row.stderr, row.stderr)}{unit}",
            share,
            f"± {format_to(reach, reach)}",
            *((told,) if self.method == "likelihood" else ()),
            row.channel,
        )

    def columns(self) -> tuple[str, ...]:
        """Names of the table's columns."""
        told = ("as reported",) if self.method == "likelihood" else ()
        interval = f"{100 * self.level:.6g}% interval"
        return ("question", "standard error", "share", interval, *told, "channel")

    def caption(self) -> str:
        """The caption: people, method, population, and how errors were found."""
        return (
            f"{self.n:,} people, {self.method} answers, {_PRIORS.get(self.prior, self.prior)}; "
            f"errors are {_HOW[self.rows[0].how] if self.rows else ''}."
        )

    def __str__(self) -> str:
        lines = text_table(self.columns(), [self.cells(row) for row in self.rows])
        return "\n".join([f"Study {self.study!r}: {self.caption()}", "", *lines, *self.notes])

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


_PRIORS = {
    "flat": "people spread evenly",
    "worst": "the worst population for each question",
    "given": "people spread as given",
}
_HOW = {
    "exact": "exact",
    "simulated": "root mean squares over simulated tallies",
    "reported": "those the answers would report",
}
