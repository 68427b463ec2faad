"""The command line: one command per verb, in the order in which a study uses them."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated

import typer

from sfumato import __version__
from sfumato.cli.commands import COMMANDS, CommandError, Commands
from sfumato.errors import shown
from sfumato.text import use_plain_characters

__all__ = ["app", "main"]

app = typer.Typer(
    name="sfumato",
    cls=Commands,
    no_args_is_help=True,
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
    modules: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODULE",
            envvar="SFUMATO_IMPORT",
            help="Import a Python module that registers your own metrics or channels; may be "
            "repeated.",
        ),
    ] = None,
) -> None:
    """Private counting: near values melt together, far ones stay apart, the picture is sharp."""
    for module in modules or []:
        _import(module)


def _import(module: str) -> None:
    """Import a module by name, also from the current folder, as `python -m` does."""
    if not all(part.isidentifier() for part in module.split(".")):
        raise CommandError(f"--import takes the name of a Python module, got {shown(module)}")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise CommandError(
            f"--import found no module {module!r} here or among the installed ones; give the name "
            "of a Python module, without .py"
        ) from None


for _name, _command in COMMANDS.items():
    # Only the name and the line are listed: `Commands` loads the function when it is needed.
    app.command(_name, help=_command.summary, rich_help_panel=_command.panel)(lambda: None)


def main() -> None:
    """Run the command line."""
    use_plain_characters(sys.stdout, sys.stderr)
    app(prog_name="sfumato")
