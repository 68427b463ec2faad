"""How a command fails: one clear line, exit code 2, and nothing half done."""

from __future__ import annotations

import json
from typing import Any

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from sfumato.errors import SfumatoError


class CommandError(SfumatoError, ValueError):
    """A command that cannot be carried out as it was written."""


class Commands(TyperGroup):
    """Turns every refusal into one line, or into one JSON document where --json is given."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; anything but a refusal passes through."""
        as_json = "--json" in [*getattr(ctx, "_protected_args", []), *ctx.args]
        try:
            return super().invoke(ctx)
        except SfumatoError as error:
            message = str(error)
        except BrokenPipeError:
            raise
        except OSError as error:
            place = f" {str(error.filename)!r}" if error.filename else ""
            message = f"cannot use the file{place}: {error.strerror or 'unknown cause'}"
        except typer.TyperException as error:
            if not as_json:
                raise
            message = error.format_message()
        _refuse(" ".join(message.splitlines()), as_json=as_json)
        raise typer.Exit(2)


def _refuse(message: str, *, as_json: bool) -> None:
    """Say what is wrong, where the caller looks for it."""
    if as_json:
        typer.echo(json.dumps({"error": message}, ensure_ascii=False))
    else:
        line = Text.assemble(("error:", "bold red"), " ", message)
        Console(stderr=True, highlight=False).print(line, soft_wrap=True)
