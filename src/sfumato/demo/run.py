"""A first look: an invented town, from the question to the answer, with the truth beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.base import Choice
from sfumato.channels.thermometer import Thermometer
from sfumato.collect.tally import Tally
from sfumato.demo.town import QUESTIONS, People, make_town
from sfumato.errors import StudyError
from sfumato.estimation.answers import Answer, Answers
from sfumato.estimation.estimate import Estimate
from sfumato.files import write_whole
from sfumato.metrics.distance import Distance
from sfumato.randomness.bits import BitSource, SecureBits, SeededBits
from sfumato.study.axis import reals
from sfumato.study.reports import Reports
from sfumato.study.study import Study

__all__ = ["DemoResult", "DemoRow", "Sample", "draw_picture", "make_study", "make_town", "run"]

PICTURE_SEED = 1
Progress = Callable[[str, float], None]

#: Three people whose reports are shown next to their values.
SHOWN = (("A", 23.4, 18.0), ("B", 41.8, 37.5), ("C", 58.1, 66.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRow:
    """One question: the truth, the answer, and the published mechanism's answer.

    Args:
        question: In plain words.
        ask: How it is asked in Python, of an estimate `est`.
        unit: "people", "share", "years" or "minutes".
        truth: Counted directly from the invented people.
        answer: Found from reports alone.
        published: The same question under the same guarantee by the mechanism as published.
    """

    question: str
    ask: str
    unit: str
    truth: float
    answer: Answer
    published: Answer

    @property
    def holds(self) -> bool:
        """Whether the interval holds the truth."""
        return self.answer.low <= self.truth <= self.answer.high

    @property
    def ratio(self) -> float:
        """How many times larger the published mechanism's standard error is."""
        return self.published.stderr / self.answer.stderr if self.answer.stderr else float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One invented person and what a collector receives; the report is a bin on each axis."""

    name: str
    age: float
    minutes: float
    report: tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """What a run gave, and where its page is."""

    study: Study
    tally: Tally
    rows: tuple[DemoRow, ...]
    samples: tuple[Sample, ...]
    page: Path


def make_study(*, channel: Choice | None = None) -> Study:
    """Age and minutes to work, protected by distance: next to each other, hardly told apart.

    Example:
        >>> round(make_study().guarantee.between({"age": 31}, {"age": 41}), 9)
        2.0
    """
    return Study(
        "commute",
        axes=[
            reals("age", 15, 80, bins=13, protect=Distance(epsilon=1, per=5)),
            reals("minutes", 0, 100, bins=20, protect=Distance(epsilon=1, per=5)),
        ],
        channel=channel,
    )


def run(
    out: str | Path,
    *,
    people: int = 100_000,
    seed: int | None = None,
    progress: Progress | None = None,
) -> DemoResult:
    """Ask an invented town, and write study.toml, tally.parquet and the page index.html.

    The town is the same every time. Its reports are drawn from the operating system's secure
    source, so they differ from run to run, unless a seed is given.

    Args:
        out: A folder, made if need be.
        people: How many live in the town.
        seed: For repeatable reports.
        progress: Told what is being done and how much of all is behind, from 0 to 1.

    Raises:
        StudyError: If there are no people.
        PlotsMissingError: If plotly is not installed.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result = run(folder, people=2_000, seed=1)
        ...     print(result.tally.n, result.page.name, len(result.rows))
        2000 index.html 12
    """
    from sfumato.demo import page
    from sfumato.plots import style

    tell = progress or (lambda _what, _share: None)
    tell("making a town", 0.0)
    library = style.library()
    town = make_town(_checked(people))
    bits = SecureBits() if seed is None else SeededBits(seed)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)

    study = make_study()
    tell("perturbing every answer", 0.1)
    tally = study.tally(study.encode(town, bits=bits))
    samples = _samples(study, bits)
    tell("perturbing them by the published mechanism", 0.25)
    other = make_study(channel=Thermometer(variant="published"))
    published = other.tally(other.encode(town, bits=bits)).estimate("unbiased")
    tell("asking questions", 0.4)
    estimate = tally.estimate("unbiased")
    rows = tuple(_row(place, estimate, published, town) for place in range(len(QUESTIONS)))
    tell("drawing the page", 0.6)
    result = DemoResult(
        study=study, tally=tally, rows=rows, samples=samples, page=folder / "index.html"
    )
    text = page.render(result, pictures(estimate, town), library)
    tell("writing files", 0.9)
    study.save(folder / "study.toml")
    tally.save(folder / "tally.parquet")
    write_whole(result.page, lambda file: file.write_text(text, encoding="utf-8"))
    tell("done", 1.0)
    return result


def pictures(estimate: Estimate, town: People) -> dict[str, tuple[Answers, NDArray[np.float64]]]:
    """The pictures of the page by name: answers, and the truth in the same cells."""
    age, minutes = estimate.histogram("age"), estimate.histogram("minutes")
    cdf, heat = estimate.cdf("minutes"), estimate.heatmap("age", "minutes")
    by_age = np.histogram(town["age"], age.edges)[0]
    by_minutes = np.histogram(town["minutes"], minutes.edges)[0]
    by_both = np.histogram2d(town["age"], town["minutes"], heat.edges)[0]
    return {
        "age": (age, by_age.astype(np.float64)),
        "minutes": (minutes, by_minutes.astype(np.float64)),
        "cdf": (cdf, np.cumsum(by_minutes) / max(by_minutes.sum(), 1)),
        "heat": (heat, by_both),
    }


def draw_picture(path: str | Path, *, people: int = 100_000, seed: int = PICTURE_SEED) -> None:
    """Draw the picture of the read-me: a histogram and a heat map, each with the truth."""
    from sfumato.demo import picture

    town = make_town(_checked(people))
    estimate = make_study().simulate(town, seed=seed).estimate("unbiased")
    picture.save(pictures(estimate, town), path)


def _checked(people: int) -> int:
    """A number of people that a town can have."""
    if people < 1:
        raise StudyError(f"a town needs at least one person, got people={people}")
    return people


def _row(place: int, estimate: Estimate, published: Estimate, town: People) -> DemoRow:
    """One question asked of both estimates and counted in the town."""
    asked = QUESTIONS[place]
    return DemoRow(
        question=asked.words,
        ask=asked.code,
        unit=asked.unit,
        truth=asked.count(town),
        answer=asked.ask(estimate),
        published=asked.ask(published),
    )


def _samples(study: Study, bits: BitSource) -> tuple[Sample, ...]:
    """What three people's devices would send."""
    _, ages, minutes = zip(*SHOWN, strict=True)
    reports: Reports = study.encode({"age": list(ages), "minutes": list(minutes)}, bits=bits)
    sent = [
        [axis.labels()[int(symbol)] for symbol in np.asarray(column)]
        for axis, column in zip(study.axes, reports.outputs, strict=True)
    ]
    return tuple(
        Sample(name=name, age=age, minutes=spent, report=(sent[0][place], sent[1][place]))
        for place, (name, age, spent) in enumerate(SHOWN)
    )
