"""Guarantees side by side: what several studies hide, and the error of the same questions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from sfumato.errors import SfumatoError, StudyError
from sfumato.planning.expected_error import MARKS, PRIORS, checked_people, expected_error
from sfumato.study.examples import pairs
from sfumato.study.study import Study
from sfumato.text import Tabled, TableText, format_to, odds, percent
from sfumato.verbs import GuaranteesVerbs

ANY_TWO = "Any two people, whatever they answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuaranteeRow:
    """One line of a comparison: a pair of people, or a question.

    Attributes:
        what: The two people, or the question, in words.
        kind: "odds": the values are E between the two people, larger of both directions. "error":
            they are standard errors, in `unit`.
        values: One value per study; None where the study cannot say.
        shares: For an error in people, the same as shares of all people.
        unit: What errors count.
        marks: For each error, how it was found: see `PlanRow`.
    """

    what: str
    kind: str
    values: tuple[float | None, ...]
    shares: tuple[float | None, ...] = ()
    unit: str = ""
    marks: tuple[str, ...] = ()

    def cells(self) -> tuple[str, ...]:
        """A row of the table."""
        return (self.what, *map(self._cell, range(len(self.values))))

    def _cell(self, k: int) -> str:
        """The value of one study in words."""
        value = self.values[k]
        if value is None:
            return "–"
        if self.kind == "odds":
            return odds(value)
        share = self.shares[k] if self.shares else None
        shown = f"{format_to(value, value)} {self.unit}" if share is None else percent(share)
        return f"{MARKS.get(self.marks[k], '')}{shown}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; what is infinite is the text "inf"."""
        values = [str(v) if v is not None and math.isinf(v) else v for v in self.values]
        kept = {"what": self.what, "kind": self.kind, "values": values}
        return kept | ({"unit": self.unit, "how": list(self.marks)} if self.kind == "error" else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantees(Tabled, GuaranteesVerbs):
    """Several studies side by side: the odds between the same people, the error of each question.

    Attributes:
        names: What the studies are called, all different.
        n: Number of people.
        prior: The assumed population: "flat", "worst" or "given".
        rows: One row per pair of people, and per question.

    Example:
        >>> import sfumato as sf
        >>> near = sf.Study("near", [sf.integers("age", 0, 99, protect=sf.Distance(0.5))])
        >>> plain = sf.Study("plain", [sf.integers("age", 0, 99, protect=sf.Uniform(1))])
        >>> found = sf.compare_guarantees([near, plain], 100_000)
        >>> found["Two people whose age differs by 1"].values
        (0.5, 1.0)
        >>> [round(error) for error in found["age: a random range"].values]
        [273, 1373]
    """

    names: tuple[str, ...]
    n: int
    prior: str
    rows: tuple[GuaranteeRow, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[GuaranteeRow]:
        return iter(self.rows)

    def __getitem__(self, what: str) -> GuaranteeRow:
        found = [row for row in self.rows if row.what == what]
        if not found:
            raise StudyError(f"the comparison has no row {what!r}; print it to see those there are")
        return found[0]

    def caption(self) -> str:
        """What the numbers are."""
        return (
            f"{self.n:,} people, unbiased answers, {PRIORS[self.prior]}. Of two people: how many "
            "times likelier a report may be from one than from the other. Of a question: its "
            "standard error."
        )

    def table_text(self) -> TableText:
        """The table that shows it."""
        rows = [row.cells() for row in self.rows]
        return TableText(self.caption(), ("", *self.names), rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "studies": list(self.names),
            "people": self.n,
            "prior": self.prior,
            "rows": [row.to_dict() for row in self.rows],
        }


def compare_guarantees(
    studies: Sequence[Study],
    n: int,
    questions: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | None = None,
    *,
    prior: str | ArrayLike | Mapping[str, ArrayLike] = "flat",
    names: Sequence[str] | None = None,
) -> Guarantees:
    """Compare what studies promise, and the errors to expect of the same questions.

    Pairs of people are those that explain the first study; a study that does not ask what they
    differ in says nothing about them.

    Args:
        studies: Two studies or more, with axes of the same names.
        n: Number of people.
        questions: Your own questions, as text or by axis, beside the typical ones.
        prior: Where people are, as in `Study.expected_error`.
        names: What to call the studies; left out, by their own names.

    Raises:
        StudyError: If there are fewer than two studies, or two of one name.
    """
    people = checked_people(n)
    called = tuple(study.name for study in studies) if names is None else tuple(names)
    if len(studies) < 2 or len(called) != len(studies):
        raise StudyError(f"two studies or more can be compared, got {len(studies)}; name another")
    if len(set(called)) < len(called):
        twice = next(name for name in called if called.count(name) > 1)
        raise StudyError(
            f"studies that are compared need different names, got {twice!r} twice; rename one"
        )
    rows = [
        GuaranteeRow(
            what=pair.words,
            kind="odds",
            values=tuple(_between(study, pair.first, pair.second) for study in studies),
        )
        for pair in pairs(studies[0].schema)
    ]
    ends = [[group.metric.largest() for group in study.schema.groups] for study in studies]
    totals = [math.inf if None in each else float(sum(e for e in each if e)) for each in ends]
    rows.append(GuaranteeRow(what=ANY_TWO, kind="odds", values=tuple(totals)))
    plans = [expected_error(study, people, questions, prior=prior) for study in studies]
    for text in dict.fromkeys(row.question for plan in plans for row in plan):
        found = [next((row for row in plan if row.question == text), None) for plan in plans]
        there = [row for row in found if row is not None]
        rows.append(
            GuaranteeRow(
                what=text,
                kind="error",
                values=tuple(None if row is None else row.stderr for row in found),
                shares=()
                if any(row.share is None for row in there)
                else tuple(None if row is None else row.share for row in found),
                unit=there[0].unit,
                marks=tuple("" if row is None else row.how for row in found),
            )
        )
    return Guarantees(names=called, n=people, prior=plans[0].prior, rows=tuple(rows))


def _between(study: Study, first: Mapping[str, Any], second: Mapping[str, Any]) -> float | None:
    """E between two people, the larger of both directions; None where the study cannot say."""
    if not first.keys() <= {axis.name for axis in study.axes}:
        return None
    try:
        guarantee = study.guarantee
        return max(guarantee.between(first, second), guarantee.between(second, first))
    except SfumatoError:
        return None
