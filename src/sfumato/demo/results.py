"""What a run of the demo gives: questions with the truth and the answer, and what devices sent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sfumato.collect.tally import Tally
from sfumato.estimation.answers import Answer
from sfumato.study.study import Study


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One question: the truth and the answer.

    Args:
        question: In plain words.
        ask: How it is asked in Python, of an estimate `est` or of a collector.
        unit: "people", "share", "years" or "minutes".
        truth: Counted directly from the invented people.
        answer: Found from reports alone.
    """

    question: str
    ask: str
    unit: str
    truth: float
    answer: Answer

    @property
    def holds(self) -> bool:
        """Whether the interval holds the truth."""
        return self.answer.low <= self.truth <= self.answer.high


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRow(Row):
    """One question, also answered through the channel as published.

    Args:
        published: The answer through the channel as first published, under the same guarantee.
    """

    published: Answer

    @property
    def ratio(self) -> float:
        """How many times larger the standard error of the published channel is."""
        return self.published.stderr / self.answer.stderr if self.answer.stderr else float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One invented person and what a collector receives: a bin on each axis."""

    name: str
    age: float
    minutes: float
    report: tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What came of a collector that people reported to over HTTP.

    Args:
        url: Where the collector ran.
        people: How many reports it has stored.
        seconds: How long sending them took.
        rows: The questions, each with the truth about those who have reported.
    """

    url: str
    people: int
    seconds: float
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """The results of a run, and the path of its page.

    Args:
        study: The study.
        tally: The tally of all reports.
        rows: The questions.
        samples: What some devices sent.
        page: The page.
        collected: What came of a collector, or why there was none; None if none was wanted.
    """

    study: Study
    tally: Tally
    rows: tuple[DemoRow, ...]
    samples: tuple[Sample, ...]
    page: Path
    collected: Collected | str | None = None
