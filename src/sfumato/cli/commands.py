"""The table of commands: the module, a one-line summary and examples of each.

A command's module is loaded when the command runs or shows its own help. The list of all commands
needs the table alone, which keeps `sfumato --help` fast.
"""

from __future__ import annotations

import inspect
import json
import sys
import textwrap
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from sfumato.errors import SfumatoError
from sfumato.extras import missing
from sfumato.files import FULL
from sfumato.text import is_unicode, visible

_LONGEST = 2_000  # letters of a message


class CommandError(SfumatoError, ValueError):
    """A command that cannot be carried out as it was written."""


@dataclass(frozen=True)
class Command:
    """A command before it is loaded.

    Attributes:
        panel: The heading under which the help lists it.
        module: The module of this package that has a function of the command's name.
        summary: The first paragraph of that function's docstring.
        examples: Lines for a shell, shown below its help.
    """

    panel: str
    module: str
    summary: str
    examples: str


COMMANDS: dict[str, Command] = {
    "new": Command(
        "Write a study",
        "designing",
        "Write a study: what is asked, and how strongly every answer is protected.",
        r"""
sfumato new commute.toml
sfumato new commute.toml \
  --axis "age: integers 0..99, distance 0.2" \
  --axis "income: reals 0..200000 in 64, distance 1 per 10000" \
  --axis "region: categories north|south|east, uniform 1, optional" \
  --axis "visit: dates 2024-01-01..2024-12-29 by 1 week, distance 1 per week" \
  --axis "pickup: times 00:00..24:00 by 15 min, distance 1 per hour"
sfumato new rating.toml --axis "rating: integers 1..8, distance 0.3" --people 1000
sfumato new trips.toml --protect "uniform 1" --channel "hierarchical branching=2" \
  --axis "hour: integers 0..23" --axis "zone: integers 0..63"
sfumato new seats.toml --axis "row: integers 0..7" --axis "seat: integers 0..7" \
  --together "row, seat: uniform 1" --axis "age: integers 0..99, distance 0.2"
""",
    ),
    "explain": Command(
        "Write a study",
        "designing",
        "Say in plain words what a study promises to each person.",
        r"""
sfumato explain commute.toml
sfumato explain commute.toml --json
""",
    ),
    "plan": Command(
        "Write a study",
        "planning",
        "Say how large errors will be, before anybody is asked.",
        r"""
sfumato plan commute.toml --people 100000
sfumato plan commute.toml --people 100000 --ask "age=18..30" --want 0.005
sfumato plan commute.toml --people 100000 --prior counts.csv --plot plan.png
sfumato plan commute.toml --people 10000 --method likelihood
""",
    ),
    "compare": Command(
        "Write a study",
        "comparing",
        "Compare the guarantees of several studies, or the channels that fit one study.",
        r"""
sfumato compare near.toml plain.toml --people 100000
sfumato compare near.toml plain.toml --people 100000 --ask "age=18..30" --plot sides.png
sfumato compare commute.toml --people 100000 --method unbiased
sfumato compare commute.toml --people 10000 --json
""",
    ),
    "report": Command(
        "Write a study",
        "reporting",
        "Write the report that a privacy officer signs: guarantee, audit, errors, alternatives.",
        r"""
sfumato report commute.toml --out commute.html
sfumato report commute.toml --out commute.html --people 100000 --ask "age=18..30" --repeats 12
""",
    ),
    "audit": Command(
        "Write a study",
        "designing",
        "Check exactly that a study keeps its promise; exit code 1 if it does not.",
        r"""
sfumato audit commute.toml
sfumato audit commute.toml --sample 1000000 --out audit.html
""",
    ),
    "encode": Command(
        "Collect",
        "collecting",
        "Perturb people's values: only the reports may leave the device.",
        r"""
sfumato encode commute.toml people.csv --out reports.parquet
sfumato encode commute.toml people.csv.gz --out reports.parquet --force
zcat people.csv.gz | sfumato encode commute.toml - --out - > reports.parquet
sfumato encode commute.toml "s3://bucket/people/*.parquet" --engine dask --out s3://bucket/reports
""",
    ),
    "program": Command(
        "Collect",
        "devices",
        "Compile a study for devices: one JSON file with all that encoding a record needs.",
        r"""
sfumato program commute.toml --out commute.program.json
sfumato program commute.toml --out commute.program.json --force --json
""",
    ),
    "send": Command(
        "Collect",
        "devices",
        "Report for every person in a file, and send the reports to a collector.",
        r"""
sfumato send commute.toml people.csv --url https://collector.example --folder reports \
  --round 2026-11 --person name
sfumato send commute.program.json people.csv --digest "$DIGEST" --limit 50 --wait 60 \
  --url https://collector.example --folder reports --round 2026-11 --token-file token
""",
    ),
    "pack": Command(
        "Collect",
        "devices",
        "Write reports as bytes, in the fewest whole bytes per report.",
        r"""
sfumato pack commute.toml reports.parquet --out reports.sfmr
""",
    ),
    "unpack": Command(
        "Collect",
        "devices",
        "Read bytes of reports back; the ids of a batch are left behind.",
        r"""
sfumato unpack commute.toml reports.sfmr --out reports.parquet
sfumato unpack commute.toml batch.bin --out reports.parquet --force
""",
    ),
    "tally": Command(
        "Collect",
        "collecting",
        "Reduce reports to what answers need; tallies among the files are added.",
        r"""
sfumato tally commute.toml monday.parquet tuesday.parquet --out tally.parquet
sfumato tally commute.toml tally.parquet wednesday.parquet --out all.parquet
sfumato tally commute.toml reports/*.parquet --skip-damaged --out tally.parquet
sfumato tally commute.toml packed.sfmr uploads/*.batch --sums --out sums.parquet
sfumato tally commute.toml reports/*.parquet --question "age=18..30, mode=bus" --out asked.parquet
sfumato tally commute.toml "s3://bucket/reports/*.parquet" --engine spark --out tally.parquet
sfumato tally commute.toml monday.parquet --weights weight --weights-from people.csv --out w.parquet
""",
    ),
    "sql": Command(
        "Collect",
        "querying",
        "Print the SQL query that tallies reports in a database, or read its result.",
        r"""
sfumato sql commute.toml --dialect duckdb --table 'reports/*.parquet'
sfumato sql commute.toml --dialect bigquery --table archive.reports --sums
sfumato sql commute.toml --dialect postgres --form bytes
sfumato sql commute.toml --result counted.parquet --out tally.parquet
""",
    ),
    "check": Command(
        "Collect",
        "checking",
        "Check whether any population explains the reports of a tally; exit code 1 if none does.",
        r"""
sfumato check commute.toml tally.parquet
sfumato check commute.toml tally.parquet --significance 1/1000 --json
""",
    ),
    "ask": Command(
        "Ask",
        "asking",
        "Ask how many people satisfy conditions, and get answers with their error.",
        r"""
sfumato ask commute.toml tally.parquet "age=18..30, region=north|south"
sfumato ask commute.toml tally.parquet "age=65.." --where region=north --fraction
sfumato ask commute.toml tally.parquet --mean income --level 0.99
sfumato ask commute.toml tally.parquet --total income --where region=north
sfumato ask commute.toml tally.parquet "age=18..30" --seconds 60 --keep decoded.parquet
""",
    ),
    "quantile": Command(
        "Ask",
        "asking",
        "Show below which value given shares of people lie, in the axis' own units.",
        r"""
sfumato quantile commute.toml tally.parquet age
sfumato quantile commute.toml tally.parquet age 0.1 0.5 0.9 --where region=north
""",
    ),
    "histogram": Command(
        "Ask",
        "asking",
        "Show how many people are in each cell of an axis.",
        r"""
sfumato histogram commute.toml tally.parquet age --bins 10
sfumato histogram commute.toml tally.parquet age --plot age.html
sfumato histogram commute.toml tally.parquet age --out ages.csv
""",
    ),
    "heatmap": Command(
        "Ask",
        "asking",
        "Show how many people are in each pair of cells of two axes.",
        r"""
sfumato heatmap commute.toml tally.parquet age region --bins 10
sfumato heatmap commute.toml tally.parquet age income --plot map.png
""",
    ),
    "serve": Command(
        "Run a collector",
        "serving",
        "Run a collector: take reports over HTTP, tally them and answer questions.",
        r"""
sfumato serve collector --publish commute.toml
sfumato serve collector --host 0.0.0.0 --port 8080 --upload-token
SFUMATO_STORE=postgresql://collector@db.example/sfumato sfumato serve --check
""",
    ),
    "token": Command(
        "Run a collector",
        "serving",
        "Create a token for a collector, list its tokens, or revoke one.",
        r"""
sfumato token create Ann --role analyst --store collector
sfumato token list --store collector
sfumato token revoke Ann --store collector
""",
    ),
    "backup": Command(
        "Run a collector",
        "serving",
        "Back up a collector while it runs, or restore a backup into an empty one.",
        r"""
sfumato backup create monday.sqlite --store collector
sfumato backup restore monday.sqlite --store new-collector
""",
    ),
    "export": Command(
        "Run a collector",
        "serving",
        "Take the tally, the reports or the log of questions out of a collector.",
        r"""
sfumato export tally commute.toml --out tally.parquet --store collector
sfumato export reports 3f0c9a61 --out reports.parquet --store collector
sfumato export questions --out questions.jsonl --store collector
""",
    ),
    "release": Command(
        "Release from a whole table",
        "releasing",
        "Answer questions about a whole table that you hold, and enter the cost in a ledger.",
        r"""
sfumato release commute.toml people.csv --ledger commute.ledger --spend 1/4 \
  --ask "age=18..30" --ask "age=65.., region=north"
sfumato release commute.toml people.csv --ledger commute.ledger --spend age=1/8 \
  --workload "ranges of age" --strategy prefix --out ages.json
sfumato release commute.toml people.csv --ledger commute.ledger --spend 1/8 --mean age
sfumato release commute.toml people.csv --spend 1/4 --workload "2-way" --plan
""",
    ),
    "ledger": Command(
        "Release from a whole table",
        "releasing",
        "Begin the ledger of a table, or show what has been spent and what is left.",
        r"""
sfumato ledger new commute.ledger commute.toml
sfumato ledger new commute.ledger commute.toml --total 2
sfumato ledger show commute.ledger
""",
    ),
    "simulate": Command(
        "Try it out",
        "trying",
        "Encode and tally in one step with repeatable noise, for experiments.",
        r"""
sfumato simulate commute.toml people.csv --seed 7 --out tally.parquet
sfumato simulate commute.toml --counts counts.csv --seed 7 --ask "age=18..30"
""",
    ),
    "bench": Command(
        "Try it out",
        "benching",
        "Measure what every step of a study costs on this machine, with made-up people.",
        r"""
sfumato bench commute.toml
sfumato bench commute.toml --people 10000000 --seconds 300
sfumato bench commute.toml --people 10000 --json
""",
    ),
    "reproduce": Command(
        "Try it out",
        "reproducing",
        "Make the figures and tables of the four papers again, and compare them with print.",
        r"""
sfumato reproduce --quick
sfumato reproduce cormode --figure 6
sfumato reproduce --data datasets --out report.html
""",
    ),
    "demo": Command(
        "Try it out",
        "trying",
        "Run a whole study on made-up people, and compare the answers with the truth.",
        r"""
sfumato demo
sfumato demo --out tour --people 20000 --seed 7
""",
    ),
}


def load(name: str) -> Any:
    """A command, with all of its parameters and examples below its help."""
    command = COMMANDS[name]
    function = getattr(import_module(f"sfumato.cli.{command.module}"), name)
    # Paragraphs on one line each: the terminal decides where they break.
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    app = typer.Typer(add_completion=False, rich_markup_mode="rich")
    app.command(
        name,
        help="\n\n".join(" ".join(text.split()) for text in paragraphs),
        epilog="\n".join(
            ["[bold]Examples[/bold]", textwrap.indent(command.examples.strip(), "  ")]
        ),
    )(function)
    return typer.main.get_command(app)


class Commands(TyperGroup):
    """The commands of the table, loaded one at a time; their refusals take one line.

    Where --json is given, a refusal is one JSON document.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find a command by its name, and load it.

        Args:
            ctx: The context of the whole command line.
            args: The command's name and what follows it.
        """
        name, found, rest = super().resolve_command(ctx, args)
        return name, found if name is None else load(name), rest

    def invoke(self, ctx: Any) -> Any:
        """Run a command; anything but a refusal passes through."""
        as_json = "--json" in [*getattr(ctx, "_protected_args", []), *ctx.args]
        try:
            return super().invoke(ctx)
        except SfumatoError as error:
            message = str(error)
        except ModuleNotFoundError as error:
            told = missing(error)
            if told is None:
                raise
            message = str(told)
        except BrokenPipeError:
            raise
        except OSError as error:
            place = f" {str(error.filename)!r}" if error.filename else ""
            message = f"cannot use the file{place}: {error.strerror or 'unknown cause'}"
            if error.errno in FULL:
                message += (
                    "; nothing of this run is there, and a file of that name is as it was. Make "
                    "room and run the command again"
                )
        except typer.TyperException as error:
            if not as_json:
                raise
            message = error.format_message()
        _refuse(" ".join(message.splitlines()), as_json=as_json)
        raise typer.Exit(2)


def _refuse(message: str, *, as_json: bool) -> None:
    """Say what is wrong, where the caller looks for it."""
    if len(message) > _LONGEST:  # it quotes a long argument
        message = f"{message[: _LONGEST // 2]} … {message[-_LONGEST // 2 :]}"
    if as_json:
        plain = not is_unicode(sys.stdout)
        typer.echo(json.dumps({"error": visible(message)}, ensure_ascii=plain))
        return
    from rich.console import Console
    from rich.text import Text

    line = Text.assemble(("error:", "bold red"), " ", visible(message))
    Console(stderr=True, highlight=False).print(line, soft_wrap=True)
