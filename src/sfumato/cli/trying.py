"""Commands for trying things out: simulate, demo."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from sfumato.cli import people, showing
from sfumato.cli.asking import Method, answer_all, answers_document, opened, show_answers
from sfumato.cli.collecting import add_up
from sfumato.cli.commands import CommandError
from sfumato.cli.files import AsJson, Force, StudyFile, load_study, target
from sfumato.collect.tally import Tally
from sfumato.domains.reading import read_numbers
from sfumato.domains.tables import read_table
from sfumato.errors import DataError, TooLargeError, rows
from sfumato.randomness.bits import SeededBits
from sfumato.study.axis import Axis
from sfumato.study.study import Study
from sfumato.text import format_to

if TYPE_CHECKING:
    from sfumato.demo.page import DemoRow


_MOST_CELLS = 1 << 26
_DEMO_FILES = ("study.toml", "tally.parquet", "index.html")


def simulate(
    study: StudyFile,
    seed: Annotated[int, typer.Option(help="Any whole number; the same one repeats the run.")],
    table: Annotated[
        Path | None,
        typer.Argument(metavar="INPUT", help="People's values, .csv, .csv.gz or .parquet."),
    ] = None,
    counts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Instead of INPUT: a column for each axis, and a column count."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File for the tally, .parquet.")] = None,
    ask: Annotated[
        list[str] | None, typer.Option(metavar="QUESTION", help="Ask right away; repeatable.")
    ] = None,
    method: Method = "likelihood",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Encode and tally in one step with repeatable noise, for experiments.

    Nothing that comes out protects anybody: use it on made-up or public data.
    """
    loaded = load_study(study)
    if (table is None) == (counts is None):
        raise CommandError("name either a file of people or --counts FILE, one of the two")
    if out is None and not ask:
        raise CommandError("say what the result is for: --out TALLY.parquet, or --ask QUESTION")
    if out is not None:
        given = tuple(path for path in (study, table, counts) if path is not None)
        target(out, "tally", ".parquet", force=force, inputs=given)
    made = (
        _simulate_people(loaded, table, seed)
        if table is not None
        else loaded.simulate_counts(read_counts(loaded, counts), seed=seed)
    )
    with opened(made, method) as estimate:
        answers = answer_all(estimate, ask or [])
    if out is not None:
        made.save(out)
    written = {"file": None if out is None else str(out), "seed": seed}
    if as_json:
        showing.show_json({**written, **answers_document(estimate, answers)})
        return
    if ask:
        show_answers(estimate, ask, answers)
    if out is not None:
        showing.say(f"Simulated {made.n:,} reports of study {loaded.name!r} into {out}.")


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for what it makes.")] = Path(
        "sfumato-demo"
    ),
    number: Annotated[
        int, typer.Option("--people", metavar="N", help="How many made-up people.")
    ] = 100_000,
    seed: Annotated[int | None, typer.Option(help="Repeatable noise.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Run a whole study on made-up people, and compare the answers with the truth."""
    from sfumato.demo import run as story

    if number < 1:
        raise CommandError(f"--people must be a positive whole number, got {number}")
    _refuse_used(out, force)
    with showing.progress("making a town") as seen:
        result = story.run(
            out,
            people=number,
            seed=seed,
            progress=lambda doing, share: seen(share, 1.0, doing),
        )
    if as_json:
        rows = [
            {"question": row.question, "truth": row.truth, "answer": row.answer.to_dict()}
            for row in result.rows
        ]
        showing.show_json({"people": number, "seed": seed, "rows": rows, "page": str(result.page)})
        return
    showing.stdout().print(_compared(result.rows))
    held = sum(row.holds for row in result.rows)
    showing.say(f"{held} of {len(result.rows)} intervals hold the truth.")
    showing.say(f"All of it, with pictures: {result.page}")


def _refuse_used(folder: Path, force: bool) -> None:
    """Refuse a folder with files of the same names, which may be somebody's own."""
    used = [name for name in _DEMO_FILES if (folder / name).exists()]
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"cannot write into {str(folder)!r}: it is a file; name a folder")
    if used and not force:
        raise CommandError(
            f"{str(folder / used[0])!r} is there already; name another folder with --out, or "
            "replace its files with --force"
        )


def _compared(rows: Sequence[DemoRow]) -> Table:
    """Truth and answer side by side."""
    interval = showing.level_text(rows[0].answer.level)
    shown = showing.table(
        "question", "truth", "answer", interval, right=("truth", "answer", interval)
    )
    for row in rows:
        answer = row.answer
        cells = (
            row.question,
            format_to(row.truth, answer.stderr),
            str(answer),
            showing.between(answer.low, answer.high, answer.stderr),
        )
        shown.add_row(*(Text(cell) for cell in cells))
    return shown


def _simulate_people(study: Study, path: Path, seed: int) -> Tally:
    """The tally that the people in a file would have sent."""
    with showing.progress(f"Simulating {path.name}") as seen:
        parts = people.encode_file(study, path, SeededBits(seed), seen)
        return add_up(study, (study.tally(part) for part in parts))


def read_counts(study: Study, path: Path | None) -> NDArray[np.int64]:
    """A true histogram over all cells, from a file with one row a combination of values."""
    assert path is not None  # noqa: S101
    if math.prod(study.shape) > _MOST_CELLS:
        raise TooLargeError(
            f"the study has {' × '.join(map(str, study.shape))} cells, and --counts works up to "
            f"{_MOST_CELLS:,}; list the people one a row and name that file instead"
        )
    names = [axis.name for axis in study.axes]
    column = "count"
    while column in names:
        column += "_"
    table = read_table(path, [*names, column])
    cells = [_cells(axis, table.column(axis.name)) for axis in study.axes]
    counts = np.zeros(study.shape, dtype=np.int64)
    np.add.at(counts, tuple(cells), _whole_counts(table.column(column), column))
    return counts


def _cells(axis: Axis, column: Any) -> NDArray[np.int64]:
    """The cell of each row; with stochastic rounding, the grid point it must lie on."""
    codes = axis.codes(column)
    bits = axis.domain.rounding_bits
    between = np.flatnonzero(codes & ((1 << bits) - 1))
    if between.size:
        raise DataError(
            f"axis {axis.name!r} is rounded to a grid, and counts are of its points, but "
            f"{rows((between + 1).tolist())} lies between two; list the people one a row instead"
        )
    return codes >> bits


def _whole_counts(column: Any, name: str) -> NDArray[np.int64]:
    """How many people each row stands for."""
    rule = "whole numbers of people, zero or more"
    numbers, missing = read_numbers(column, axis=name, rule=rule, whole=True)
    bad = np.flatnonzero(missing | (numbers < 0) | (numbers > 2**53))
    if bad.size:
        raise DataError(
            f"column {name!r} takes {rule}, and {rows((bad + 1).tolist())} "
            f"{'has' if bad.size == 1 else 'have'} none; correct the file"
        )
    return numbers.astype(np.int64)
