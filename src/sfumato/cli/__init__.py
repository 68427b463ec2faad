"""The command line: one command a verb, in the order in which a study is lived through."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from sfumato import __version__
from sfumato.cli import asking, collecting, designing, planning, releasing, trying
from sfumato.cli.examples import EXAMPLES
from sfumato.cli.failing import Commands

__all__ = ["app", "main"]

app = typer.Typer(
    name="sfumato",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="New here? [bold]sfumato demo[/bold] runs everything once on made-up people.",
)


def _show_version(asked: bool) -> None:
    """Print the version and stop."""
    if asked:
        typer.echo(f"sfumato {__version__}")
        raise typer.Exit


@app.callback()
def _sfumato(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
) -> None:
    """Private counting: near values melt together, far ones stay apart, the picture is sharp."""


def _add(panel: str, command: Callable[..., Any]) -> None:
    """Make a command known under its function's name, with examples below its help."""
    lines = [f"  {line}" for line in EXAMPLES[command.__name__]]
    # Paragraphs on one line each: the terminal decides where they break.
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    app.command(
        command.__name__,
        help="\n\n".join(" ".join(text.split()) for text in paragraphs),
        epilog="\n".join(["[bold]Examples[/bold]", *lines]),
        rich_help_panel=panel,
    )(command)


for _panel, _commands in {
    "Write a study": (
        designing.new,
        designing.explain,
        planning.plan,
        planning.compare,
        designing.audit,
    ),
    "Collect": (collecting.encode, collecting.tally),
    "Ask": (asking.ask, asking.quantile, asking.histogram, asking.heatmap),
    "Release from a whole table": (releasing.release, releasing.ledger),
    "Try it out": (trying.simulate, trying.demo),
}.items():
    for _command in _commands:
        _add(_panel, _command)


def main() -> None:
    """Run the command line."""
    app(prog_name="sfumato")
