"""The command that predicts errors: plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from sfumato.cli import showing
from sfumato.cli.commands import CommandError
from sfumato.cli.options import (
    PLOTS,
    AsCsv,
    AsJson,
    Force,
    Level,
    Plot,
    StudyFile,
    load_study,
    one_form,
    real_number,
    target,
    whole_number,
)
from sfumato.cli.people import read_counts
from sfumato.domains.reals import Reals
from sfumato.errors import StudyError
from sfumato.metrics.distance import Distance
from sfumato.planning.bins import BinPlan, plan_bins
from sfumato.planning.expected_error import typical_of
from sfumato.planning.inverse import epsilon_for, people_for
from sfumato.study.study import Study
from sfumato.text import percent
from sfumato.verbs import RUNS

People = Annotated[
    int,
    typer.Option("--people", parser=whole_number, metavar="N", help="How many people will answer."),
]
PriorOption = Annotated[
    str,
    typer.Option(
        metavar="flat|worst|FILE",
        help="Where people are: evenly, as bad as can be, or a .csv or .parquet file with a "
        "column for each axis and a column count.",
    ),
]
Runs = Annotated[
    int,
    typer.Option(
        parser=whole_number, metavar="N", help="Tallies to simulate for likelihood answers."
    ),
]


def plan(
    study: StudyFile,
    number: People,
    ask: Annotated[
        list[str] | None,
        typer.Option(metavar="QUESTION", help='Your own, such as "age=18..30"; repeatable.'),
    ] = None,
    prior: PriorOption = "flat",
    method: Annotated[
        str, typer.Option(metavar="unbiased|likelihood", help="How answers will be found.")
    ] = "unbiased",
    want: Annotated[
        float | None,
        typer.Option(
            parser=real_number,
            metavar="SHARE",
            help="A standard error that is wanted, such as 0.01: how many people, or how much "
            "more epsilon, it takes.",
        ),
    ] = None,
    level: Level = 0.95,
    runs: Runs = RUNS,
    plot: Plot = None,
    force: Force = False,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Say how large errors will be, before anybody is asked.

    Unbiased answers are planned exactly. Likelihood answers are planned by simulation, beside the
    error that the answers would report. For axes of real numbers in equal bins, the number of bins
    with the smallest error is recommended.
    """
    one_form(as_json, as_csv)
    if plot is not None:
        target(plot, "picture", *PLOTS, force=force)
    loaded = load_study(study)
    given = read_prior(loaded, prior)
    options: dict[str, Any] = {"prior": given, "method": method, "runs": runs}
    with showing.progress("planning") as seen:
        found = loaded.expected_error(number, ask, level=level, progress=share_of(seen), **options)
    wanted = [] if want is None else _wanted(loaded, number, want, ask, options)
    bins = _bins(loaded, number)
    if plot is not None:
        found.save_plot(plot)
    if as_json:
        document = found.to_dict() | {
            "wanted": wanted,
            "bins": {name: part.to_dict() | {"now": now} for name, now, part in bins},
        }
        showing.show_json(document | ({"plot": str(plot)} if plot else {}))
        return
    if as_csv:
        showing.show_csv(found)
        return
    showing.show_tabled(found)
    for line in wanted:
        rows = [line["question"]] if ask else _typical(loaded)
        showing.say(_wanted_line(line, rows, number))
    for name, now, part in bins:
        showing.say(_bins_line(name, now, part))
    if plot is not None:
        showing.say(f"Drawn in {plot}.")


def read_prior(study: Study, given: str) -> str | NDArray[np.int64]:
    """A prior by name, or the counts in a file.

    Args:
        study: The study.
        given: As the option has it.
    """
    if given in ("flat", "worst"):
        return given
    if not given.lower().endswith((".csv", ".csv.gz", ".parquet")):
        raise CommandError(
            f"--prior must be flat, worst or a .csv or .parquet file of counts, got {given!r}"
        )
    return read_counts(study, Path(given))


def share_of(seen: showing.Seen) -> Callable[[float], None]:
    """Progress by share, on a bar that wants how much of how much.

    Args:
        seen: The bar.
    """
    return lambda share: seen(share, 1.0)


def _wanted(
    study: Study, n: int, want: float, ask: list[str] | None, options: dict[str, Any]
) -> list[dict[str, Any]]:
    """For each question, how many people, or by what factor more ε, give the wanted error.

    Without questions the errors that must not exceed it are those of each block: rows of the table.
    """
    asked: list[tuple[str, str | None]] = [(one, one) for one in ask or ()]
    asked = asked or [(" and ".join(_typical(study)), None)]
    lines = []
    with showing.progress("searching") as seen:
        for done, (text, question) in enumerate(asked):
            seen(2 * done, 2 * len(asked))
            people = people_for(study, want, question, **options)
            seen(2 * done + 1, 2 * len(asked))
            try:
                factor: float | None = epsilon_for(study, n, want, question, **options)
            except StudyError:
                factor = None
            epsilons = {name: epsilon * (factor or 0) for name, epsilon in _epsilons(study).items()}
            lines.append(
                {
                    "question": text,
                    "share": want,
                    "people": people,
                    "epsilon_factor": factor,
                    "epsilon": None if factor is None else epsilons,
                }
            )
    return lines


def _typical(study: Study) -> list[str]:
    """The row of each block whose error is followed."""
    return [typical_of(study, block.axes).text for block in study.blocks]


def _epsilons(study: Study) -> dict[str, float]:
    """Every ε of a study by the name of its axis, or the one of whole records."""
    return {
        block.column: float(group.protect.epsilon)
        for block, group in zip(study.blocks, study.schema.groups, strict=True)
        if hasattr(group.protect, "epsilon")
    }


def _wanted_line(line: dict[str, Any], rows: list[str], n: int) -> str:
    """What a wanted error takes, in words."""
    named = " and ".join(map(repr, rows))
    head = (
        f"For a standard error of at most {percent(line['share'])} in "
        f"the row{'s' if len(rows) > 1 else ''} {named} (column share): "
    )
    people = f"{line['people']:,} people"
    if line["epsilon"] is None:
        return f"{head}{people}; with {n:,} people no epsilon is enough."
    each = ", ".join(f"{name} {value:.4g}" for name, value in line["epsilon"].items())
    factor = line["epsilon_factor"]
    return f"{head}{people}; or {n:,} people with every epsilon times {factor:.4g} ({each})."


def _bins(study: Study, n: int) -> list[tuple[str, int, BinPlan]]:
    """For each real axis in equal bins, how many it has and how many would be best."""
    found = []
    for part in study.parts:
        axis, protect = part.axes[0], part.statement
        domain = axis.domain
        if not isinstance(domain, Reals) or not isinstance(protect, Distance) or axis.optional:
            continue
        if not domain.cuts and not domain.rounding:
            made = plan_bins(domain.low, domain.high, protect, n)
            found.append((axis.name, domain.size, made))
    return found


def _bins_line(name: str, now: int, part: BinPlan) -> str:
    """What is recommended for an axis, in words."""
    least = min(part, key=lambda row: abs(row.bins - now))
    return (
        f"Bins of {name}: {now} now; {part.bins} would be best for unbiased answers to random "
        f"ranges, with an error of {percent(part.best.total)}, rounding included, if half of the "
        "people are on a hill a quarter of the axis wide "
        f"({percent(least.total)} with {least.bins})."
    )
