"""The reference pages, made from docstrings and from the help of the command line, and the map.

`python -m tests.regenerate_docs` rewrites them; `test_docs.py` fails while they are out of date.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import typer.rich_utils
from typer.testing import CliRunner

import sfumato
from benchmarks.imports import OWN as SOURCE
from benchmarks.imports import modules
from benchmarks.pages import refilled
from sfumato.cli import app
from sfumato.cli.language import FORMS, PARTS

DOCS = Path(__file__).resolve().parent.parent / "docs"
WIDTH = 96
ANSI = re.compile(r"\x1b\[[0-9;]*m")
HEADINGS = {
    "study": "Studies",
    "axis": "Axes",
    "geography": "Axes",
    "metrics": "Metrics",
    "channels": "Channels",
    "planning": "Planning",
    "guarantee": "Guarantee and audit",
    "error_region": "Guarantee and audit",
    "auditing": "Guarantee and audit",
    "reports": "Reports and tallies",
    "tally": "Reports and tallies",
    "estimation": "Estimates and answers",
    "randomness": "Randomness",
    "errors": "Errors",
    "allocation": "Linear questions",
    "mechanisms": "Linear questions",
}
#: Modules whose own names are public too, each with a section of its own.
MODULES = {
    "sfumato.central": "The curator's side, `sfumato.central`",
    "sfumato.central.accuracy": "The paper's bounds, `sfumato.central.accuracy`",
    "sfumato.questions": "Workloads, `sfumato.questions`",
}
OTHER = "Other"
# What other parts of the package call; the how-to on channels shows where they come in.
INNER = {"bind", "codes", "covariance_of", "misfit", "options", "refuse_other", "value_of"}
INNER |= {"bind_grid", "settled", "statement", "with_outside", "meaning"}
INNER |= {"refuse_unpaid", "margin_edges", "reserve", "settle", "marginal", "shown"}

API_HEAD = """\
# API

Every public name of the package `sfumato` and of its modules `central` and `questions`, one line
each; `help(sfumato.Study)` and the like say more. This page is generated:
`python -m tests.regenerate_docs` writes it anew.
"""

COMMANDS_HEAD = """\
# Command line

One command a verb. Every command takes `--json`, which prints one JSON document to standard output
and nothing else there. A refusal is one line, `error: …` (with `--json` the document
`{"error": "…"}`), and exit code 2; nothing is left half written. `sfumato audit` exits with 1 if a
guarantee does not hold. This page is generated: `python -m tests.regenerate_docs` writes it anew.
"""

AXIS_HEAD = """\
## An axis in one line

`--axis` takes a name, a colon, the kind of values, and parts in any order, separated by commas.
Names and labels that contain `,`, `:`, `|` or quotes are put in quotes.

Any metric can be named by its kind, as study files name it, with its options joined by spaces:
`protect sensitive_set epsilon=1 sensitive=ill|injured`. A list of one ends in `|`. A metric whose
options are tables or lists of lists is stated in Python, and the study saved. Metrics and channels
of your own are known after `sfumato --import MODULE`.

A channel may have options, joined by spaces: `channel hierarchical branching=2 oracle=hrr`. Values
of a list are joined by `|`, as in `levels=1/2|1/4|1/4`; true and false are written so.
`--channel` takes the same words without `channel`. With `--protect "uniform EPSILON"`, one
guarantee for whole records, axes have neither protection nor channel.
"""

QUESTION_TEXT = """\
## A question in one line

Conditions on several axes are joined by commas, all of which must hold: `age=18..30,
region=north|south`. On one axis, `a..b` is an interval with both ends, `a..` and `..b` are open, a
single value is a point, `|` joins choices, and `no answer` is a choice on an optional axis. Names
and labels that contain `,`, `=`, `|` or `.` are put in quotes. `Estimate.count` reads the same.
"""


def pages() -> dict[Path, str]:
    """Every generated page and what it should hold."""
    return {
        DOCS / "reference" / "api.md": api(),
        DOCS / "reference" / "command-line.md": command_line(),
        DOCS / "architecture.md": architecture(),
    }


# Modules


def architecture() -> str:
    """The page with the layers as the linter reads them, and a map of every module."""
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    return refilled(page, {"layers": layers(), "map": module_map()})


def layers() -> str:
    """The layers of the package, the highest first."""
    settings = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))
    rows = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    shown = [re.sub(r"\w+", lambda found: f"`{found[0]}`", row) for row in rows]
    return "\n".join(f"1. {row.replace(' : ', ', ')}" for row in shown)


def module_map() -> str:
    """Every package, and what each of its modules says that it is."""
    said = {}
    for name, file in modules(SOURCE).items():
        doc = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        said[name] = " ".join(doc.split("\n\n")[0].split())
    packages = {name for name, file in modules(SOURCE).items() if file.name == "__init__.py"}
    lines = []
    for name in sorted(packages):
        if name != "sfumato":
            lines += ["", f"**`{_path(name)}/`** {said[name]}", ""]
        inside = [n for n in said if n.rpartition(".")[0] == name and n not in packages]
        lines += [f"- `{_path(n)}.py`: {said[n]}" for n in sorted(inside)]
    return "\n".join(lines)


def _path(name: str) -> str:
    """The file of a module, below the package."""
    return name.removeprefix("sfumato.").replace(".", "/")


# Names


def api() -> str:
    """All public names under the heading of the module they come from."""
    sections: dict[str, list[str]] = {heading: [] for heading in [*HEADINGS.values(), OTHER]}
    for name, value in _public(sfumato):
        sections[_heading(name)].append(_entry(name, value))
    for path, heading in MODULES.items():
        module = importlib.import_module(path)
        entries = [_entry(name, value) for name, value in _public(module)]
        sections[heading] = [f"{_first_line(module)}\n", *entries]
    parts = [f"## {heading}\n\n" + "\n".join(lines) for heading, lines in sections.items() if lines]
    return "\n".join([API_HEAD, "\n\n".join(parts)]) + "\n"


def _public(module: ModuleType) -> list[tuple[str, Any]]:
    """What a module gives, classes before functions; modules have sections of their own."""
    named = [(name, getattr(module, name)) for name in module.__all__]
    kept = [pair for pair in named if not inspect.ismodule(pair[1])]
    return sorted(kept, key=lambda pair: (pair[0][0].islower(), pair[0]))


def _heading(name: str) -> str:
    """Where a name belongs, by the module that defines it."""
    parts = str(getattr(getattr(sfumato, name), "__module__", "")).split(".")
    return HEADINGS.get(parts[1] if len(parts) > 1 else "", OTHER)


def _entry(name: str, value: Any) -> str:
    """A name, how it is called, its line, and for a class its members."""
    if not callable(value) or (inspect.isclass(value) and issubclass(value, BaseException)):
        return f"- `{name}`: {_first_line(value)}"
    called = "" if getattr(value, "_is_protocol", False) else _signature(value)
    lines = [f"- `{name}{called}`: {_first_line(value)}"]
    if inspect.isclass(value):
        lines += [f"    - `{shown}`: {line}" for shown, line in _members(value)]
    return "\n".join(lines)


def _members(kind: type) -> Iterator[tuple[str, str]]:
    """Public methods and properties that a class defines itself and says something about."""
    for name, value in vars(kind).items():
        plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if name.startswith("_") or name in INNER or not inspect.getdoc(plain):
            continue
        if isinstance(plain, property) or hasattr(plain, "func"):
            yield name, _first_line(plain)
        elif inspect.isfunction(plain):
            yield f"{name}{_signature(plain, drop_first=plain is value)}", _first_line(plain)


def _signature(value: Callable[..., Any], *, drop_first: bool = False) -> str:
    """Parameters with their defaults, without types."""
    parameters = list(inspect.signature(value).parameters.values())
    if drop_first or (parameters and parameters[0].name in ("self", "cls")):
        parameters = parameters[1:]
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    return str(inspect.Signature(bare)).replace("<factory>", "{}")


def _first_line(value: object) -> str:
    """The first sentence of a docstring, on one line."""
    text = inspect.getdoc(value) or ""
    return " ".join(text.split("\n\n")[0].split())


# Commands


def command_line() -> str:
    """The help of every command as a terminal of fixed width shows it."""
    parts = [COMMANDS_HEAD, f"```text\n{shown_help()}\n```\n"]
    parts += [f"## {name}\n\n```text\n{shown_help(name)}\n```\n" for name in command_names()]
    forms = [f"| {kind} | `{_cell(form)}` |" for kind, form in FORMS.items()]
    options = [f"| `{_cell(form)}` |" for form in PARTS.values()]
    kinds = "\n".join(["| Kind | Written |", "|---|---|", *forms])
    more = "\n".join(["| Parts |", "|---|", *options])
    return "\n".join([*parts, AXIS_HEAD, kinds, "", more, "", QUESTION_TEXT])


def command_names() -> list[str]:
    """Every command, in the order of the help."""
    return [str(command.name) for command in app.registered_commands]


def shown_help(*command: str) -> str:
    """What --help prints, without colours."""
    # Both are read from the environment when typer is imported, and CI systems set them.
    plain = mock.patch.multiple(typer.rich_utils, MAX_WIDTH=WIDTH, FORCE_TERMINAL=False)
    with plain:
        environment = {"COLUMNS": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb"}
        result = CliRunner().invoke(
            app, [*command, "--help"], env=environment, prog_name="sfumato", color=False
        )
    lines = [line.rstrip() for line in ANSI.sub("", result.output).splitlines()]
    return "\n".join(lines).strip("\n")


def _cell(text: str) -> str:
    """Text for a cell of a table."""
    return text.replace("|", "\\|")


if __name__ == "__main__":
    for path, text in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(DOCS.parent))
