"""Commands that ask a tally: ask, quantile, histogram, heatmap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from sfumato.cli import showing
from sfumato.cli.collecting import load_tally
from sfumato.cli.commands import CommandError
from sfumato.cli.options import (
    PLOTS,
    AsCsv,
    AsJson,
    Force,
    Level,
    Plot,
    StudyFile,
    TallyFile,
    load_study,
    one_form,
    real_number,
    target,
    whole_number,
)
from sfumato.collect.tally import Tally
from sfumato.collect.weighted import WeightedTally
from sfumato.estimation.answers import Answer, Answers
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.rows import MOST_ROWS
from sfumato.extras import need
from sfumato.files import write_whole
from sfumato.plots import still
from sfumato.text import interval_name

_GROUPS = 20  # of a histogram that has too many cells to be listed

Where = Annotated[
    str | None, typer.Option(metavar="QUESTION", help="Count only people who satisfy this as well.")
]
Fraction = Annotated[bool, typer.Option("--fraction", help="Shares instead of people.")]
Population = Annotated[
    bool,
    typer.Option(
        "--population", help="Count the sampling of people in the errors too, not only the noise."
    ),
]
Method = Annotated[
    str,
    typer.Option(
        metavar="METHOD",
        help="auto: likelihood if it takes at most --seconds, else unbiased; likelihood: the most "
        "accurate as a rule; unbiased: assumes nothing.",
    ),
]
Seconds = Annotated[
    float,
    typer.Option(
        parser=real_number,
        metavar="N",
        help="With --method auto, the most processor seconds that decoding may take, as counted "
        "beforehand.",
    ),
]
Keep = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Keep what is decoded in this file, .parquet, and use what is kept there already.",
    ),
]


@contextmanager
def opened(
    tally: Tally | WeightedTally, method: str, seconds: float, keep: Path | None = None
) -> Iterator[Estimate]:
    """An estimate from a tally, with a progress bar while a grid is decoded.

    Ctrl-C ends the decoding, not the command: the answers are unbiased then.

    Args:
        tally: The tally.
        method: How answers are found, "auto", "likelihood" or "unbiased".
        seconds: The most that decoding may take, with "auto".
        keep: The file in which to keep what is decoded, if any.
    """
    saved = keep if keep is not None and keep.exists() else None
    with showing.progress("decoding the reports (Ctrl-C: unbiased answers)") as seen:
        estimate = tally.estimate(
            method, seconds=seconds, saved=saved, progress=lambda share: seen(share, 1.0)
        )
        before = estimate.decodings
        yield estimate
    if keep is not None and estimate.decodings > before:
        estimate.save(keep)


def check_keep(keep: Path | None, method: str, *inputs: Path) -> None:
    """Refuse a file that nothing can be kept in, before any work is done.

    Args:
        keep: The file, if one was named.
        method: How answers are found.
        inputs: Files that are read, and so must not be written.
    """
    if keep is not None:
        target(keep, "estimate", ".parquet", force=True, inputs=inputs)
        if method == "unbiased":
            raise CommandError(
                "--keep keeps what is decoded, and --method unbiased decodes nothing; leave one of "
                "them out"
            )


def ask(
    study: StudyFile,
    tally: TallyFile,
    questions: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUESTION", help='Such as "age=18..30, region=north|south".'),
    ] = None,
    where: Where = None,
    fraction: Annotated[
        bool,
        typer.Option("--fraction", help="Shares instead of people; with --where, of those people."),
    ] = False,
    mean: Annotated[
        list[str] | None, typer.Option(metavar="AXIS", help="The mean of an axis; repeatable.")
    ] = None,
    total: Annotated[
        list[str] | None, typer.Option(metavar="AXIS", help="The sum of an axis; repeatable.")
    ] = None,
    level: Level = 0.95,
    population: Population = False,
    method: Method = "auto",
    seconds: Seconds = 3.0,
    keep: Keep = None,
    plot: Plot = None,
    force: Force = False,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Ask how many people satisfy conditions, and get answers with their error.

    Conditions on several axes are joined by commas; on one axis, a..b is an interval with both
    ends, a.. and ..b are open, | joins choices, and 'no answer' is a choice on an optional axis.
    """
    one_form(as_json, as_csv)
    check_plot(plot, force)
    if not questions and not mean and not total:
        raise CommandError(
            'nothing is asked; add a question such as "age=18..30", --mean AXIS or --total AXIS'
        )
    check_keep(keep, method, study, tally)
    common: dict[str, Any] = {"where": where, "level": level, "population": population}
    with opened(load_tally(tally, load_study(study)), method, seconds, keep) as estimate:
        answers = answer_all(estimate, questions or [], fraction=fraction, **common)
        answers += [estimate.mean(axis, **common) for axis in mean or []]
        answers += [estimate.total(axis, **common) for axis in total or []]
    asked = [*(questions or []), *(f"mean of {axis}" for axis in mean or [])]
    asked += [f"total of {axis}" for axis in total or []]
    drawn = draw_answers(listed(asked, answers), plot) if plot else {}
    if as_json:
        showing.show_json({**answers_document(estimate, answers), **drawn})
        return
    if as_csv:
        typer.echo(listed(asked, answers).to_csv(), nl=False)
        return
    show_answers(estimate, asked, answers)
    if drawn:
        showing.say(f"Drawn in {plot}.")
    if where:
        showing.say(f"Among people with {where}.")


def quantile(
    study: StudyFile,
    tally: TallyFile,
    axis: Annotated[str, typer.Argument(metavar="AXIS", help="Axis to show.")],
    shares: Annotated[
        list[float] | None,
        typer.Argument(
            parser=real_number, metavar="SHARE", help="Such as 0.1 0.5 0.9; left out, quartiles."
        ),
    ] = None,
    where: Where = None,
    level: Level = 0.95,
    population: Population = False,
    method: Method = "auto",
    seconds: Seconds = 3.0,
    keep: Keep = None,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Show below which value given shares of people lie, in the axis' own units."""
    one_form(as_json, as_csv)
    check_keep(keep, method, study, tally)
    with opened(load_tally(tally, load_study(study)), method, seconds, keep) as estimate:
        answers = [
            estimate.quantile(axis, share, where=where, level=level, population=population)
            for share in shares or [0.25, 0.5, 0.75]
        ]
    found = [answer for answer in answers if isinstance(answer, Answer)]
    if as_json:
        showing.show_json(answers_document(estimate, found))
        return
    if as_csv:
        names = [f"{share * 100:g}%" for share in shares or [0.25, 0.5, 0.75]]
        typer.echo(listed(names, found).to_csv(), nl=False)
        return
    interval = interval_name(level)
    made = showing.table("share", axis, right=("share",))
    for share, answer in zip(shares or [0.25, 0.5, 0.75], found, strict=True):
        made.add_row(f"{share * 100:g}%", showing.literal(str(answer)))
    showing.stdout().print(made)
    method_used = ", ".join(dict.fromkeys(answer.method for answer in found))
    showing.say(f"In brackets the {interval}. From {estimate.n:,} reports; {method_used}.")
    for note in dict.fromkeys(note for answer in found for note in answer.notes):
        showing.say(f"Note: {note}.")
    if where:
        showing.say(f"Among people with {where}.")


def histogram(
    study: StudyFile,
    tally: TallyFile,
    axis: Annotated[str, typer.Argument(metavar="AXIS", help="Axis to show.")],
    where: Where = None,
    bins: Annotated[
        int | None,
        typer.Option(
            parser=whole_number, metavar="N", help="Join neighbouring cells into N groups."
        ),
    ] = None,
    fraction: Fraction = False,
    level: Level = 0.95,
    population: Population = False,
    method: Method = "auto",
    seconds: Seconds = 3.0,
    keep: Keep = None,
    plot: Plot = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write every cell with its error: .csv or .parquet."),
    ] = None,
    force: Force = False,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Show how many people are in each cell of an axis.

    A histogram of more than 4,096 cells is shown in groups of cells; --bins chooses them, --out and
    --json have every cell.
    """
    one_form(as_json, as_csv)
    check_plot(plot, force)
    check_keep(keep, method, study, tally)
    if out is not None:
        target(out, "table", ".csv", ".parquet", force=force, inputs=(study, tally))
    asked: dict[str, Any] = {"where": where, "fraction": fraction, "level": level}
    with opened(load_tally(tally, load_study(study)), method, seconds, keep) as estimate:
        found = estimate.histogram(axis, bins=bins, population=population, **asked)
    drawn = draw_answers(found, plot)
    if out is not None:
        write_whole(out, partial(_write_table, found, out.suffix))
        drawn["out"] = str(out)
    if as_json:
        showing.show_json({**_document(estimate, found), **drawn})
        return
    if as_csv:
        typer.echo(found.to_csv(), nl=False)
        return
    many = len(found) > MOST_ROWS
    if many:
        found = estimate.histogram(axis, bins=_GROUPS, population=population, **asked)
    showing.stdout().print(showing.bars(found, showing.stdout()))
    if many:
        showing.say("Cells are shown in groups; --bins chooses them, --out has every cell.")
    _caption(estimate, found, drawn)


def heatmap(
    study: StudyFile,
    tally: TallyFile,
    first: Annotated[str, typer.Argument(metavar="AXIS", help="Axis down the side.")],
    second: Annotated[str, typer.Argument(metavar="AXIS", help="Axis along the top.")],
    where: Where = None,
    bins: Annotated[
        list[int] | None,
        typer.Option(
            parser=whole_number,
            metavar="N",
            help="Groups of cells on both axes; give it twice for each.",
        ),
    ] = None,
    fraction: Fraction = False,
    level: Level = 0.95,
    population: Population = False,
    method: Method = "auto",
    seconds: Seconds = 3.0,
    keep: Keep = None,
    plot: Plot = None,
    force: Force = False,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Show how many people are in each pair of cells of two axes.

    A map that is too wide for the terminal is shown in shades, and in groups of cells if need be;
    --bins chooses the groups, --plot and --json have every cell.
    """
    one_form(as_json, as_csv)
    check_plot(plot, force)
    check_keep(keep, method, study, tally)
    if bins and len(bins) > 2:
        raise CommandError(f"--bins is given once or twice, got it {len(bins)} times")
    pair: tuple[int | None, int | None] = (bins[0], bins[-1]) if bins else (None, None)

    def found(estimate: Estimate, groups: tuple[int | None, int | None]) -> Answers:
        return estimate.heatmap(
            first,
            second,
            where=where,
            bins=groups,
            fraction=fraction,
            level=level,
            population=population,
        )

    with opened(load_tally(tally, load_study(study)), method, seconds, keep) as estimate:
        whole = found(estimate, pair)
    drawn = draw_answers(whole, plot)
    if as_json:
        showing.show_json({**_document(estimate, whole), **drawn})
        return
    if as_csv:
        typer.echo(whole.to_csv(), nl=False)
        return
    console = showing.stdout()
    groups = showing.fitting(whole, console)
    shown = found(estimate, groups) if groups else whole
    console.print(showing.grid(shown, console))
    if groups:
        showing.say("Cells are shown in groups to fit; --bins chooses them, --plot draws them all.")
    _caption(estimate, shown, drawn)


def answer_all(
    estimate: Estimate, questions: Sequence[str], *, fraction: bool = False, **common: Any
) -> list[Answer]:
    """One answer per question.

    Args:
        estimate: What is asked.
        questions: In the question language.
        fraction: Whether to answer with shares instead of people.
        common: Options of every question.
    """
    put = estimate.fraction if fraction else estimate.count
    return [put(question, **common) for question in questions]


def listed(asked: Sequence[str], answers: Sequence[Answer]) -> Answers:
    """Answers to several questions as one list, for a picture or a table.

    Args:
        asked: The questions.
        answers: Their answers, in the same order.
    """
    ends = [np.array([getattr(one, end) for one in answers]) for end in ("low", "high")]
    return Answers(
        values=np.array([one.value for one in answers]),
        stderr=np.array([one.stderr for one in answers]),
        n=answers[0].n,
        kind="linear",
        axes=("question",),
        all_labels=(list(asked),),
        all_edges=(None,),
        level=answers[0].level,
        method=", ".join(dict.fromkeys(one.method for one in answers)),
        notes=tuple(dict.fromkeys(note for one in answers for note in one.notes)),
        bounds=(ends[0], ends[1]),
    )


def answers_document(estimate: Estimate, answers: Sequence[Answer]) -> dict[str, Any]:
    """Answers for JSON.

    Args:
        estimate: What they were asked of.
        answers: The answers.
    """
    return {
        "study": estimate.study.name,
        "reports": estimate.n,
        "answers": [answer.to_dict() for answer in answers],
    }


def show_answers(estimate: Estimate, asked: Sequence[str], answers: Sequence[Answer]) -> None:
    """Print answers as a table, and what they come from.

    Args:
        estimate: What was asked.
        asked: The questions.
        answers: Their answers, in the same order.
    """
    showing.stdout().print(showing.answers_table(asked, answers))
    source = f"From {estimate.n:,} reports of study {estimate.study.name!r}"
    showing.say(f"{source}; ± is one standard error.")


def _document(estimate: Estimate, found: Answers) -> dict[str, Any]:
    """Many answers for JSON."""
    return {"study": estimate.study.name, **found.to_dict()}


def _write_table(found: Answers, suffix: str, path: Path) -> None:
    """Write one row per answer."""
    if suffix == ".csv":
        path.write_text(found.to_csv() or "", encoding="utf-8", newline="")
    else:
        import pyarrow.parquet as pq

        pq.write_table(found.to_arrow(), path, compression="zstd")


def check_plot(plot: Path | None, force: bool) -> None:
    """Refuse a picture that cannot be drawn, before any work is done.

    Args:
        plot: Its file, if one was named.
        force: Whether a file that exists may be replaced.
    """
    if plot is not None:
        target(plot, "picture", *PLOTS, force=force)
        need("plotly.offline" if plot.suffix == ".html" else "matplotlib.figure")


def draw_answers(found: Answers, plot: Path | None) -> dict[str, str]:
    """Draw a picture, if one is asked for.

    Args:
        found: What it shows.
        plot: Its file, if one was named.

    Returns:
        The file's name under "plot", or nothing.
    """
    if plot is None:
        return {}
    still.save(found, plot)
    return {"plot": str(plot)}


def _caption(estimate: Estimate, found: Answers, drawn: dict[str, str]) -> None:
    """What the numbers are, below them."""
    if found.question:
        of_all = ", as shares of all people" if found.unit == "fraction" else ""
        showing.say(f"Among people with {found.question}{of_all}.")
    source = f"From {estimate.n:,} reports of study {estimate.study.name!r}"
    showing.say(f"{source}; ± is one standard error.")
    for note in found.notes:
        showing.say(f"Note: {note}.")
    if "plot" in drawn:
        showing.say(f"Drawn in {drawn['plot']}.")
    if "out" in drawn:
        showing.say(f"Written to {drawn['out']}.")
