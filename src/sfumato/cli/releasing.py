"""Commands of a trusted curator: release, ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato import central
from sfumato.cli import showing
from sfumato.cli.asking import check_plot, draw_answers
from sfumato.cli.commands import CommandError
from sfumato.cli.options import (
    AsJson,
    Columns,
    Delimiter,
    Encoding,
    Force,
    Level,
    Missing,
    Plot,
    Seed,
    StudyFile,
    load_study,
    suffix,
    table_form,
    target,
    whole_number,
)
from sfumato.cli.people import read_people
from sfumato.domains.tables import TableForm
from sfumato.errors import StudyError, near, shown
from sfumato.exact import positive
from sfumato.questions.language import split, unquoted
from sfumato.randomness.bits import SecureBits, SeededBits
from sfumato.study.study import Study
from sfumato.text import interval_name

MECHANISMS = ("laplace", "mwem")
ACTIONS = ("new", "show")
_SHOWN = 30
_MOST_KEY = 4096  # bytes
_SPEND = "--spend is a share above 0 such as 1/4, or one for each axis such as age=1/4,sex=1/8"


def release(
    study: StudyFile,
    table: Annotated[
        Path,
        typer.Argument(
            metavar="TABLE", help="People's values, .csv, .csv.gz or .parquet; - reads CSV."
        ),
    ],
    spend: Annotated[
        str,
        typer.Option(
            metavar="SHARE", help="Share of the study's E, such as 1/4; by axis: age=1/4,sex=1/8."
        ),
    ],
    ledger: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the cost is entered, .ledger.")
    ] = None,
    ask: Annotated[
        list[str] | None,
        typer.Option(metavar="QUESTION", help='Such as "age=18..30, sex=f"; repeatable.'),
    ] = None,
    workload: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORDS",
            help='Many questions: "ranges of age", "cells of sex", "marginal age, sex", "2-way".',
        ),
    ] = None,
    mean: Annotated[
        list[str] | None, typer.Option(metavar="AXIS", help="The mean of an axis; repeatable.")
    ] = None,
    mechanism: Annotated[
        str, typer.Option(metavar="laplace|mwem", help="How answers are made.")
    ] = "laplace",
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="For laplace, what is measured: questions, identity, prefix, hierarchical, haar, "
            "searched or best; left out, the best.",
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            parser=whole_number, metavar="N", help="For mwem: how many questions are measured."
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="What you call the table: the ledger then takes no other name."),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A secret of 16 bytes or more, kept outside the ledger: the ledger then takes no "
            "other table.",
        ),
    ] = None,
    level: Level = 0.95,
    plan: Annotated[
        bool, typer.Option("--plan", help="Compare all mechanisms, and release nothing.")
    ] = False,
    seed: Seed = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    missing: Missing = None,
    columns: Columns = None,
    out: Annotated[Path | None, typer.Option(help="File for the release, .json.")] = None,
    plot: Plot = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Answer questions about a whole table that you hold, and enter the cost in a ledger.

    The guarantee is the study's own E, times the share that is spent; how many people there are is
    public. A release that the ledger cannot cover is refused before anything is computed from the
    table; from the moment it is entered, its cost is spent. Only axes that are asked about are
    charged.
    """
    loaded, form = load_study(study), table_form(delimiter, encoding, missing, columns)
    asked = [*(ask or []), *(workload or [])]
    made = _mechanism(mechanism, asked, mean or [], strategy, rounds, level)
    share = _spend(spend)
    if out is not None:
        target(out, "release", ".json", force=force, inputs=(study, table))
    check_plot(plot, force)
    if plan and (out or plot):
        raise CommandError("--plan releases nothing to write or draw; leave out --out and --plot")
    if plan:
        _show_plan(loaded, asked, _read(loaded, table, form).n, share, level, as_json)
        return
    if ledger is None:
        raise CommandError(
            "a release must be entered in a ledger; name it with --ledger FILE, after "
            "'sfumato ledger new FILE STUDY'"
        )
    book = _load(ledger)
    book.refuse_other(loaded)
    if seed is not None:
        showing.warn(
            f"--seed {seed} makes the noise known to anyone who knows the seed: "
            "this release protects nobody; use it for experiments only"
        )
    bits = SecureBits() if seed is None else SeededBits(seed)
    people = _read(loaded, table, form, name, key)
    found = central.release(people, made, spend=share, ledger=book, bits=bits)
    # Shown before it is written: what is paid for must not be lost with a full disk.
    if as_json:
        left = {"remaining": book.to_dict()["remaining"]}
        files = {"file": out, "plot": plot}
        named = {name: str(path) for name, path in files.items() if path is not None}
        showing.show_json(found.to_dict() | left | named)
    else:
        _show(found, book)
    if out is not None:
        found.save(out)
        if not as_json:
            showing.say(f"Written to {out}.")
    drawn = draw_answers(found.answers, plot)
    if drawn and not as_json:
        showing.say(f"Drawn in {drawn['plot']}.")


def ledger(
    action: Annotated[str, typer.Argument(metavar="new|show", help="Begin a ledger, or show it.")],
    file: Annotated[Path, typer.Argument(metavar="LEDGER", help="The ledger's file, .ledger.")],
    study: Annotated[
        Path | None, typer.Argument(metavar="[STUDY]", help="For new: the study file, .toml.")
    ] = None,
    total: Annotated[
        str, typer.Option(metavar="TIMES", help="For new: how many times E may be spent in all.")
    ] = "1",
    as_json: AsJson = False,
) -> None:
    """Begin the ledger of a table, or show what has been spent and what is left.

    One table has one ledger: a second one for the same people would spend their E twice.
    """
    if action not in ACTIONS:
        raise CommandError(f"unknown action {action!r} for a ledger: {near(action, ACTIONS)}")
    if action == "new":
        if study is None:
            raise CommandError("a new ledger needs a study: sfumato ledger new LEDGER STUDY")
        suffix(file, "ledger", ".ledger")
        book = central.Ledger.create(file, load_study(study), total)
    else:
        book = _load(file)
    if as_json:
        showing.show_json({"file": str(file), **book.to_dict()})
        return
    for line in str(book).splitlines():
        showing.say(line)
    if action == "new":
        showing.say(f"Written to {file}.")


def _load(file: Path) -> central.Ledger:
    """The ledger in a file."""
    suffix(file, "ledger", ".ledger")
    return central.Ledger.load(file)


def _read(
    study: Study, path: Path, form: TableForm, name: str | None = None, key: Path | None = None
) -> central.Data:
    """A whole table of people."""
    secret = None if key is None else _secret(key)
    names = [axis.name for axis in study.axes]
    with showing.progress(f"Reading {path.name}") as seen:
        table = read_people(path, names, seen, form)
        return central.Data(study, table, name=name, key=secret)


def _secret(file: Path) -> bytes:
    """The key in a file."""
    try:
        with file.open("rb") as held:
            found = held.read(_MOST_KEY + 1)
    except OSError as error:
        raise CommandError(f"cannot read the key {str(file)!r}: {error.strerror}") from None
    if len(found) > _MOST_KEY:
        raise CommandError(
            f"the key {str(file)!r} has more than {_MOST_KEY} bytes; name the file of the key"
        )
    return found


def _mechanism(
    name: str,
    asked: list[str],
    means: list[str],
    strategy: str | None,
    rounds: int | None,
    level: float,
) -> central.Mechanism:
    """The mechanism that the options describe."""
    if name not in MECHANISMS:
        raise CommandError(f"unknown mechanism {name!r}: {near(name, MECHANISMS)}")
    if bool(asked) == bool(means):
        raise CommandError(
            'ask something, with --ask "age=18..30" or --workload "ranges of age", or for the mean '
            "of an axis with --mean AXIS alone"
        )
    unfit: dict[str, bool] = {
        "--strategy is for laplace with questions": strategy is not None
        and (name != "laplace" or bool(means)),
        "--rounds is for mwem": rounds is not None and name != "mwem",
        "--mean is for laplace": bool(means) and name != "laplace",
    }
    for message, wrong in unfit.items():
        if wrong:
            raise CommandError(f"{message} only; leave it out")
    if means:
        return central.Means(means, level=level)
    if name == "mwem":
        return central.MWEM(asked, rounds, variant="replayed", check="1/10", level=level)
    return central.Laplace(asked, strategy or "best", level=level)


def _spend(text: str) -> str | dict[str, str]:
    """What may be spent: one share, or one an axis."""
    parts = [split(part, "=") for part in split(text, ",")]
    if any(len(sides) != (2 if "=" in text else 1) or not sides[0].strip() for sides in parts):
        raise CommandError(f"{_SPEND}, got {shown(text)}")
    try:
        shares = [str(positive(sides[-1].strip(), "share")) for sides in parts]
    except StudyError:
        raise CommandError(f"{_SPEND}, got {shown(text)}") from None
    if "=" not in text:
        return shares[0]
    found = dict(zip((unquoted(sides[0]) for sides in parts), shares, strict=True))
    if len(found) < len(parts):
        raise CommandError(f"--spend must name each axis once, got {shown(text)}")
    return found


def _show(found: central.Release, book: central.Ledger) -> None:
    """A release as a table, and what it cost."""
    answers = [found[place] for place in range(min(len(found), _SHOWN))]
    made = showing.table(
        "question", "answer", interval_name(found.answers.level), right=("answer",)
    )
    for answer in answers:
        error = answer.stderr if answer.stderr == answer.stderr else (answer.high - answer.low) / 2
        made.add_row(
            showing.literal(answer.question),
            showing.literal(found.shown(answer)),
            showing.literal(showing.between(answer.low, answer.high, error)),
        )
    showing.stdout().print(made)
    if len(found) > _SHOWN:
        showing.say(f"… and {len(found) - _SHOWN:,} more; --out and --json have them all.")
    showing.say(f"{found.mechanism}; {found.n:,} people of study {found.study!r}.")
    for note in found.answers.notes:
        showing.say(f"Note: {note}.")
    showing.say(f"Spent {found.spent}, entry {found.entry} of {book.path}.")
    showing.say(str(book).splitlines()[-1])


def _show_plan(
    study: Study,
    asked: list[str],
    n: int,
    spend: str | dict[str, str],
    level: float,
    as_json: bool,
) -> None:
    """All mechanisms side by side."""
    if not asked:
        raise CommandError("--plan compares mechanisms for questions; add --ask or --workload")
    with showing.progress("planning") as seen:
        found = central.plan(
            study, asked, n, spend, level=level, progress=lambda share: seen(share, 1.0)
        )
    if as_json:
        showing.show_json(found.to_dict())
        return
    columns = found.columns()
    made = showing.table(*columns, right=columns[1:4])
    for option in found:
        made.add_row(*(showing.literal(cell) for cell in found.cells(option)))
    showing.stdout().print(made)
    showing.say(f"Study {found.study!r}: {found.caption()}")
