"""The command bench: what every step of a study costs on this machine, with made-up people."""

from __future__ import annotations

import contextlib
import time
import tracemalloc
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated, TypeVar

import numpy as np
import pyarrow as pa
import typer

from sfumato.cli import showing
from sfumato.cli.commands import CommandError
from sfumato.cli.options import AsJson, StudyFile, load_study, real_number, whole_number
from sfumato.collect.packing import layout_of, pack, unpack
from sfumato.collect.tally import Tally
from sfumato.domains.base import Domain
from sfumato.errors import TooLargeError
from sfumato.estimation.answers import Answers
from sfumato.study.study import Study

STEPS = ("encode", "pack", "unpack", "tally", "answer", "decode")
PER_REPORT = STEPS[:4]  # the time of the others hardly depends on the number of people
_METHODS = {"answer": "unbiased", "decode": "auto"}

_FEWEST = 10_000
_MOST = 10_000_000
_WARM_UP = 100  # people: modules are loaded, and what is made once per study is made
_RUNS = 3

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The cost of one step.

    Attributes:
        people: Number of people.
        step: One of `STEPS`.
        seconds: Processor seconds of the fastest run; None if the step was refused.
        peak: The most bytes that the step held at once, its result included; None if the step
            was refused, or its memory not measured.
        method: How an answer was found.
        note: Why it was found so, or why there is none.
    """

    people: int
    step: str
    seconds: float | None
    peak: int | None
    method: str = ""
    note: str = ""

    @property
    def rate(self) -> float | None:
        """Reports per processor second, for steps that handle one report after another."""
        if self.seconds is None or self.step not in PER_REPORT:
            return None
        return self.people / self.seconds


def warm_up(study: Study) -> None:
    """Do every step once, so that nothing that happens only once is measured."""
    tally = study.tally(study.encode(made_up(study, _WARM_UP)))
    for method in _METHODS.values():
        with contextlib.suppress(TooLargeError):
            _histogram(tally, method, study.axes[0].name)


def measured(
    study: Study, number: int, *, runs: int = _RUNS, traced: Collection[str] = STEPS
) -> Iterator[Step]:
    """Every step from values to answers, in order.

    `answer` is the unbiased histogram of the first axis, and `decode` the one that
    `tally.estimate()` gives by default.

    Args:
        study: The study.
        number: How many made-up people, spread evenly.
        runs: Timed runs, of which the fastest counts; answers are timed once.
        traced: Steps whose memory is measured too, by one more run.
    """
    values = made_up(study, number)
    timed = partial(_timed, number=number, traced=traced)
    step, reports = timed("encode", lambda: study.encode(values), runs)
    yield step
    step, packed = timed("pack", lambda: pack(reports), runs)
    yield step
    wire = (packed, study.fingerprint, study.columns, study.layouts)
    yield timed("unpack", lambda: unpack(*wire), runs)[0]
    step, tally = timed("tally", lambda: study.tally(reports), runs)
    yield step
    for name, method in _METHODS.items():
        ask = partial(_histogram, tally, method, study.axes[0].name)
        try:
            step, found = timed(name, ask, 1)
        except TooLargeError as error:
            yield Step(people=number, step=name, seconds=None, peak=None, note=str(error))
            continue
        yield replace(step, method=found.method, note="; ".join(found.notes))


def _histogram(tally: Tally, method: str, axis: str) -> Answers:
    """The first answer to a question about every cell of an axis."""
    return tally.estimate(method).histogram(axis)


def _timed(
    name: str, work: Callable[[], Result], runs: int, *, number: int, traced: Collection[str]
) -> tuple[Step, Result]:
    """The cost of some work, and its result."""
    peak = None
    if name in traced:
        tracemalloc.start()
        try:
            work()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    times = []
    for _ in range(runs):
        start = time.process_time()
        result = work()
        times.append(time.process_time() - start)
    best = max(min(times), 1e-9)  # the clock may not have moved
    return Step(people=number, step=name, seconds=best, peak=peak), result


def made_up(study: Study, number: int) -> pa.Table:
    """Values of made-up people, spread evenly over the cells of every axis.

    Args:
        study: The study.
        number: How many people.
    """
    rng = np.random.default_rng(0)
    return pa.table(
        {
            axis.name: _cell_values(axis.domain).take(
                pa.array(rng.integers(0, axis.domain.size, number))
            )
            for axis in study.axes
        }
    )


def _cell_values(domain: Domain) -> pa.Array:
    """A value for every cell, as a table of people would have it."""
    numbers = domain.numbers()
    if numbers is not None:
        return pa.array(numbers.astype(np.int64) if domain.kind == "integers" else numbers)
    if domain.kind in ("dates", "times"):
        return pa.array([domain.write(place) for place in domain.positions()])
    return pa.array(domain.labels())


def bench(
    study: StudyFile,
    number: Annotated[
        int,
        typer.Option(
            "--people", parser=whole_number, metavar="N", help="The largest number of people."
        ),
    ] = 1_000_000,
    seconds: Annotated[
        float,
        typer.Option(
            parser=real_number,
            metavar="SECONDS",
            help="Leave out numbers of people that would take longer than this in all.",
        ),
    ] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Measure what every step of a study costs on this machine, with made-up people.

    From 10,000 people in steps of ten: encode, pack, unpack and tally with their rates, then the
    unbiased histogram of the first axis ("answer") and the one found by default ("decode").
    """
    if not 1 <= number <= _MOST:
        raise CommandError(f"--people must be a whole number from 1 to {_MOST:,}, got {number}")
    if not seconds > 0:
        raise CommandError(f"--seconds must be positive, got {seconds:g}")
    loaded = load_study(study)
    sizes = _sizes(number)
    rows: list[Step] = []
    with showing.progress("warming up") as seen:
        warm_up(loaded)
        start = time.monotonic()
        for place, size in enumerate(sizes):
            took = {}
            last = time.monotonic()
            for done, step in enumerate(measured(loaded, size), 1):
                rows.append(step)
                now = time.monotonic()
                took[step.step], last = now - last, now
                seen(len(STEPS) * place + done, len(STEPS) * len(sizes), f"{size:,} people")
            if size < number and last + _next(took, sizes[place + 1] / size) > start + seconds:
                sizes = sizes[: place + 1]
                break
    stopped = sizes[-1] < number
    width = layout_of(loaded.layouts).size
    if as_json:
        showing.show_json(
            {
                "study": loaded.name,
                "bytes_per_report": width,
                "stopped": stopped,
                "rows": [asdict(step) | {"reports_per_second": step.rate} for step in rows],
            }
        )
        return
    columns = ("people", "step", "processor seconds", "reports per second", "peak memory", "found")
    made = showing.table(*columns, right=(columns[0], *columns[2:5]))
    for step in rows:
        made.add_row(*(showing.literal(cell) for cell in _cells(step)))
        if step.step == STEPS[-1]:
            made.add_section()
    showing.stdout().print(made)
    showing.say(f"Study {loaded.name!r}: {width} {'byte' if width == 1 else 'bytes'} per report.")
    if stopped:
        showing.say(
            f"Stopped at {sizes[-1]:,} people: the next size would take longer than "
            f"{seconds:g} seconds in all; allow more with --seconds."
        )


def _next(took: Mapping[str, float], factor: float) -> float:
    """How long all steps will take with more people.

    Args:
        took: How long each took.
        factor: How many times as many people.
    """
    return sum(held * (factor if step in PER_REPORT else 1) for step, held in took.items())


def _sizes(most: int) -> list[int]:
    """Numbers of people: powers of ten below the largest, and the largest itself."""
    sizes = []
    size = _FEWEST
    while size < most:
        sizes.append(size)
        size *= 10
    return [*sizes, most]


def _cells(step: Step) -> tuple[str, ...]:
    """A row of the table."""
    return (
        f"{step.people:,}",
        step.step,
        "" if step.seconds is None else f"{step.seconds:#.3g}",
        "" if step.rate is None else f"{float(f'{step.rate:.3g}'):,.0f}",
        "" if step.peak is None else f"{step.peak / 2**20:,.1f} MiB",
        step.note or step.method,
    )
