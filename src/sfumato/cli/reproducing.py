"""The command reproduce: the figures and tables of the papers, made again and compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli import showing
from sfumato.cli.commands import CommandError
from sfumato.cli.options import AsJson, Force, target, whole_number
from sfumato.extras import need
from sfumato.files import write_whole
from sfumato.reproduction import page, running
from sfumato.reproduction.exhibits import Run, chosen
from sfumato.reproduction.table import EXHIBITS, PAPERS

_SEED = 2020


def reproduce(
    paper: Annotated[
        str | None, typer.Argument(help=f"One of {', '.join(PAPERS)}; all by default.")
    ] = None,
    figure: Annotated[
        str | None,
        typer.Option(metavar="N", help='One figure, such as 4, or a table, such as "table 1".'),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller and fewer runs: all of it in a minute.")
    ] = False,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder with the real data sets.")
    ] = None,
    seed: Annotated[
        int,
        typer.Option(parser=whole_number, metavar="N", help="Where all randomness starts."),
    ] = _SEED,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Make again what an earlier run has kept.")
    ] = False,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="The report with all plots and values, .html.")
    ] = Path("reproduction.html"),
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Make the figures and tables of the four papers again, and compare them with print.

    One line per comparison: ours, the paper's, the difference and a verdict. Results are kept
    between runs. Figures on real data need --data; without a file they are left out.
    """
    if not 0 <= seed < 1 << 32:
        raise CommandError(f"--seed must be a whole number from 0 to {(1 << 32) - 1:,}, got {seed}")
    if data is not None and not data.is_dir():
        raise CommandError(f"--data must name a folder, got {str(data)!r}")
    exhibits = chosen(EXHIBITS, paper, figure)
    target(out, "report", ".html", force=force)
    need("matplotlib")  # before the work, not after it
    run = Run(quick=quick, seed=seed, folder=data)
    results: list[running.Made] = []
    with showing.progress("reproducing") as seen:
        for held in running.made(
            exhibits, run, fresh=fresh, seen=lambda share, name: seen(share, 1.0, name)
        ):
            results.append(held)
    told = running.document(results, run, _command(paper, figure, run))
    caption = f"{told['command']}, sfumato {told['version']}, {told['date']}, seed {seed}"
    text = page.page(results, caption)
    write_whole(out, lambda file: file.write_text(text, encoding="utf-8"))
    if as_json:
        showing.show_json({**told, "file": str(out)})
        return
    _show(results)
    showing.say(page.counts(results))
    showing.say(f"All plots and values: {out}")


def _command(paper: str | None, figure: str | None, run: Run) -> str:
    """The command that repeats a run."""
    parts = ["sfumato reproduce", paper or ""]
    parts += [f'--figure "{figure}"' if figure else "", "--quick" if run.quick else ""]
    parts += ["--data DIR" if run.folder else ""]
    parts += [f"--seed {run.seed}" if run.seed != _SEED else ""]
    return " ".join(filter(None, parts))


def _show(results: Sequence[running.Made]) -> None:
    """One table per paper; a warning for what was left out."""
    for paper in dict.fromkeys(held.exhibit.paper for held in results):
        here = [held for held in results if held.exhibit.paper == paper]
        showing.say(PAPERS[paper])
        made = showing.table("", *page.FINDINGS, right=("ours", "difference"))
        for held in here:
            name = held.exhibit.name
            for finding in held.findings:
                row = [showing.literal(name), *map(showing.literal, page.cells(finding))]
                row[-1].stylize("green" if finding.agrees else "bold red")
                made.add_row(*row)
                name = ""
        if made.row_count:
            showing.stdout().print(made)
        for held in here:
            if held.data is None:
                showing.warn(f"{held.exhibit.name} is left out: {held.left_out}")
