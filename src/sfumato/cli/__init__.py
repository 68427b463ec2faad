"""The command line: one command per verb, in the order in which a study uses them."""

from __future__ import annotations

from typing import Annotated

import typer

from sfumato import __version__
from sfumato.cli.commands import COMMANDS, Commands

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


for _name, _command in COMMANDS.items():
    # Only the name and the line are listed: `Commands` loads the function when it is needed.
    app.command(_name, help=_command.summary, rich_help_panel=_command.panel)(lambda: None)


def main() -> None:
    """Run the command line."""
    app(prog_name="sfumato")
