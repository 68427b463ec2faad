"""The settings file of `sfumato serve`: TOML with one key per option."""

from __future__ import annotations

import tomllib
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import typer

from sfumato.cli.commands import CommandError
from sfumato.errors import near, shown

_WORDS = {
    str: "a text in quotes",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list of texts",
}
#: What each key holds; it is named as its option, with _ for -.
KEYS: dict[str, type] = {
    "store": str,
    "publish": list,
    "minimum": int,
    "host": str,
    "port": int,
    "proxy": str,
    "upload_token": bool,
    "most_reports": int,
    "rate": float,
    "access_log": bool,
}


def read_settings(path: Path) -> dict[str, Any]:
    """The settings in a file; folders and files in it are relative to its own folder.

    Args:
        path: The file.

    Raises:
        CommandError: If it cannot be read, or has a key that is unknown or of another kind.
    """
    try:
        held = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise CommandError(f"the settings file {str(path)!r} is not valid TOML: {error}") from None
    for key, value in held.items():
        if key not in KEYS:
            raise CommandError(
                f"the settings file {str(path)!r} has an unknown key {key!r}; {near(key, KEYS)}"
            )
        if not _fits(value, KEYS[key]):
            raise CommandError(
                f"{key} in the settings file {str(path)!r} must be {_WORDS[KEYS[key]]}, got a "
                f"{type(value).__name__}"
            )
    if "publish" in held:
        held["publish"] = [str(path.parent / one) for one in held["publish"]]
    if "store" in held and "://" not in held["store"]:
        held["store"] = str(path.parent / held["store"])
    return held


def _fits(value: Any, kind: type) -> bool:
    """Whether a value is of the kind that a key holds."""
    if kind is list:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is kind


def read_proxies(text: str) -> list[str]:
    """The addresses and networks of proxies, which are believed to say for whom they ask.

    Args:
        text: Addresses or networks, joined by commas; an empty text names none.

    Raises:
        CommandError: If one is neither.
    """
    found = [one.strip() for one in text.split(",") if one.strip()]
    for one in found:
        try:
            ip_network(one)
        except ValueError:
            raise CommandError(
                f"--proxy takes addresses and networks such as 10.0.0.2 or 10.0.0.0/24, joined by "
                f"commas, got {shown(one)}"
            ) from None
    return found


def use_settings(context: typer.Context, path: Path | None) -> Path | None:
    """Let a settings file say what neither options nor the environment say.

    Args:
        context: The context of the command.
        path: The file, if one is named.
    """
    if path is not None:
        context.default_map = read_settings(path)
    return path


def sources(context: typer.Context) -> dict[str, str]:
    """Where the value of each setting comes from: an option, the environment, the file or nowhere.

    Args:
        context: The context of the command.
    """
    words = {"COMMANDLINE": "option", "ENVIRONMENT": "environment", "DEFAULT_MAP": "file"}
    found = {key: context.get_parameter_source(key) for key in KEYS}
    return {
        key: words.get("" if source is None else source.name, "default")
        for key, source in found.items()
    }
