"""Parameters that several commands share, and checks of the files that they name."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.commands import CommandError
from sfumato.domains.tables import TableForm
from sfumato.errors import StudyError, shown
from sfumato.exact import nearest_float, rational
from sfumato.study.study import Study

_MOST_DIGITS = 20


def whole_number(given: Any) -> int:
    """A whole number of an option, as people write it.

    Raises:
        typer.BadParameter: If it is none, or has more than 20 digits.
    """
    number = _number(given)
    if number.denominator != 1 or abs(number) >= 10**_MOST_DIGITS:
        raise typer.BadParameter(
            f"a whole number of at most {_MOST_DIGITS} digits is expected, got {shown(given)}"
        )
    return int(number)


def real_number(given: Any) -> float:
    """A number of an option, as people write it: 0.25, 1e-3 or 1/4.

    Raises:
        typer.BadParameter: If it is none, or not finite.
    """
    return nearest_float(_number(given))


def _number(given: Any) -> Fraction:
    """A number, or the error of an option that is none."""
    try:
        return rational(given, "number")
    except StudyError:
        raise typer.BadParameter(
            f"a number such as 10, 0.25 or 1/4 is expected, got {shown(given)}"
        ) from None


StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="Study file, .toml.")]
TallyFile = Annotated[
    Path,
    typer.Argument(
        metavar="TALLY",
        help="Tally file, .parquet, or reports, .parquet or .sfmr; - reads standard input.",
    ),
]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV instead.")]
Delimiter = Annotated[
    str | None,
    typer.Option(metavar="LETTER", help="CSV: what stands between cells; 'tab' is a tab."),
]
Encoding = Annotated[
    str | None, typer.Option(metavar="NAME", help="CSV: its encoding, such as latin-1.")
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        "--na", metavar="TEXT", help="CSV: what stands for no answer, such as NA; repeatable."
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="OLD=NEW", help="A column of the file under the name of an axis; repeatable."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that exists.")]
Level = Annotated[
    float,
    typer.Option(
        parser=real_number, metavar="SHARE", help="How often intervals contain the truth."
    ),
]
KeepSums = Annotated[
    bool,
    typer.Option(
        "--sums",
        help="Keep sums for each axis by itself: small, for unbiased answers about one axis.",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        parser=whole_number,
        metavar="N",
        help="Repeatable noise, for experiments only: it protects nobody.",
    ),
]
Plot = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Draw it: .png, .svg, .pdf or .html.")
]
PLOTS = (".png", ".svg", ".pdf", ".html")


def table_form(
    delimiter: str | None,
    encoding: str | None,
    missing: list[str] | None,
    columns: list[str] | None,
) -> TableForm:
    """How a file of people is written, by the options that say so.

    Args:
        delimiter: What stands between cells.
        encoding: The encoding.
        missing: What stands for no answer.
        columns: Renamed columns, OLD=NEW.
    """
    renamed: dict[str, str] = {}
    for one in columns or ():
        old, equals, new = one.rpartition("=")
        if not (old and equals and new) or old in renamed:
            raise CommandError(f"--columns takes OLD=NEW, each column once, got {shown(one)}")
        renamed[old] = new
    return TableForm(
        delimiter="," if delimiter is None else {"tab": "\t"}.get(delimiter, delimiter),
        encoding=encoding or "utf-8",
        missing=tuple(missing or ()),
        columns=renamed,
    )


def one_form(as_json: bool, as_csv: bool) -> None:
    """Refuse both forms at once: standard output has one document.

    Args:
        as_json: Whether --json is given.
        as_csv: Whether --csv is given.
    """
    if as_json and as_csv:
        raise CommandError("--json and --csv do not go together; leave one of them out")


def load_study(path: Path) -> Study:
    """The study in a file."""
    suffix(path, "study", ".toml")
    return Study.load(path)


def suffix(path: Path, what: str, *endings: str) -> None:
    """Refuse a file whose name does not have the right ending.

    Args:
        path: The file.
        what: What it is called in a message.
        endings: Those allowed.
    """
    if not path.name.lower().endswith(endings):
        wanted = " or ".join(endings)
        raise CommandError(f"a {what} file must end in {wanted}, got {str(path)!r}")


def target(
    path: Path, what: str, *endings: str, force: bool, inputs: tuple[Path, ...] = ()
) -> None:
    """Refuse a file that cannot or should not be written, before any work is done.

    Args:
        path: The file.
        what: What it is called in a message.
        endings: Those allowed.
        force: Whether a file that exists may be replaced.
        inputs: Files that are read, and so must not be written.
    """
    suffix(path, what, *endings)
    if path.is_dir():
        raise CommandError(f"cannot write {str(path)!r}: it is a folder; name a file")
    if not path.parent.is_dir():
        raise CommandError(
            f"cannot write {str(path)!r}: there is no folder {str(path.parent)!r}; make it first"
        )
    if any(path.exists() and given.exists() and path.samefile(given) for given in inputs):
        raise CommandError(f"{str(path)!r} is also an input; write to another file")
    if path.exists() and not force:
        raise CommandError(f"{str(path)!r} exists; name another file, or replace it with --force")
