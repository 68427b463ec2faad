"""The demo: a study of an invented town, from reports to answers, with the truth beside them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.choice import Choice
from sfumato.channels.thermometer import Thermometer
from sfumato.demo.collecting import Running, collect
from sfumato.demo.page import render
from sfumato.demo.results import Collected, DemoResult, DemoRow, Sample
from sfumato.demo.town import QUESTIONS, People, make_town
from sfumato.errors import MissingExtraError, StudyError
from sfumato.estimation.answers import Answers
from sfumato.estimation.estimate import Estimate
from sfumato.extras import need
from sfumato.files import write_whole
from sfumato.metrics.distance import Distance
from sfumato.plots import still, style
from sfumato.plots.style import FAINT, INK
from sfumato.randomness.bits import BitSource, SecureBits, SeededBits
from sfumato.study.axis import reals
from sfumato.study.reports import Reports
from sfumato.study.study import Study

PICTURE_SEED = 1
Progress = Callable[[str, float], None]

#: Three people whose reports are shown next to their values.
SHOWN = (("A", 23.4, 18.0), ("B", 41.8, 37.5), ("C", 58.1, 66.0))


def make_study(*, channel: Choice | None = None) -> Study:
    """The demo's study: age and minutes to work, both protected by distance.

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
    report: int = 0,
    visit: Callable[[Running], object] | None = None,
) -> DemoResult:
    """Ask an invented town, and write study.toml, tally.parquet and the page index.html.

    The town is the same every time. Its reports are drawn from the operating system's secure
    source, so they differ from run to run, unless a seed is given.

    Args:
        out: The folder, created if it does not exist.
        people: How many live in the town.
        seed: For repeatable reports.
        progress: Called with what is being done and the share of the work done, from 0 to 1.
        report: How many of them also report to a collector over HTTP, without regard to the seed.
        visit: Called with the collector before it is stopped.

    Raises:
        StudyError: If there are no people.
        MissingExtraError: If plotly is not installed.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result = run(folder, people=2_000, seed=1)
        ...     print(result.tally.n, result.page.name, len(result.rows))
        2000 index.html 12
    """
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
    tell("perturbing them as first published", 0.25)
    other = make_study(channel=Thermometer(variant="published"))
    published = other.tally(other.encode(town, bits=bits)).estimate("unbiased")
    tell("asking questions", 0.4)
    estimate = tally.estimate("unbiased")
    rows = tuple(_row(place, estimate, published, town) for place in range(len(QUESTIONS)))
    collected: Collected | str | None = None
    if report:
        tell("reporting to a collector", 0.5)
        some = {name: values[:report] for name, values in town.items()}
        try:
            collected = collect(
                study,
                some,
                seen=lambda done, of: tell("reporting to a collector", 0.5 + 0.3 * done / of),
                visit=visit,
            )
        except MissingExtraError as error:
            collected = str(error)
    tell("drawing the page", 0.8)
    result = DemoResult(
        study=study,
        tally=tally,
        rows=rows,
        samples=samples,
        page=folder / "index.html",
        collected=collected,
    )
    text = render(result, pictures(estimate, town), library)
    tell("writing files", 0.9)
    study.save(folder / "study.toml")
    tally.save(folder / "tally.parquet")
    write_whole(result.page, lambda file: file.write_text(text, encoding="utf-8"))
    tell("done", 1.0)
    return result


def pictures(estimate: Estimate, town: People) -> dict[str, tuple[Answers, NDArray[np.float64]]]:
    """The pictures of the page by name: answers, and the truth in the same cells.

    Args:
        estimate: Gives the answers.
        town: Gives the truth.
    """
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
    """Draw the picture of the read-me as PNG: a histogram and a heat map, each with the truth.

    Args:
        path: The file.
        people: How many live in the town.
        seed: For the reports.
    """
    town = make_town(_checked(people))
    estimate = make_study().simulate(town, seed=seed).estimate("unbiased")
    drawn = pictures(estimate, town)
    made = need("matplotlib.figure").Figure(figsize=(11.0, 3.7), layout="constrained")
    panels = made.subplots(1, 3, width_ratios=[1.35, 1, 1])
    answers, truth = drawn["age"]
    still.draw(panels[0], answers, truth)
    level = f"{100 * answers.level:.6g}%"
    panels[0].legend(loc="upper right", frameon=False, fontsize=9, labelcolor=INK)
    panels[0].set_title(f"{answers.n:,} reports, {level} intervals", fontsize=10, color=INK)

    answers, truth = drawn["heat"]
    limits = style.reach(answers.values, truth)
    stops = style.colours(*limits)
    for axes, name, values in zip(
        panels[1:], ("estimate", "truth"), (answers.values, truth), strict=True
    ):
        mesh = still.heat(axes, answers, values, limits=limits, stops=stops, most=7)
        axes.set_title(name, fontsize=10, color=INK)
    panels[2].set_ylabel("")
    panels[2].tick_params(labelleft=False)
    still.colour_bar(made, mesh, panels[1:], answers)
    made.supxlabel(
        "No exact age or travel time was collected.", x=0.01, ha="left", fontsize=9, color=FAINT
    )
    write_whole(path, partial(made.savefig, format="png", dpi=100, metadata={"Software": None}))


def _checked(people: int) -> int:
    """Refuse a town without people."""
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
