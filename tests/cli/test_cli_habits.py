"""Habits of people at a terminal: pipes, CSV of all kinds, plain characters, completion."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import sfumato as sf
from sfumato.cli import app
from sfumato.text import use_plain_characters

AGE = sf.integers("age", 0, 99, protect=sf.Distance(1), optional=False)
CITY = sf.categories("city", ["Zürich", "Genève"], protect=sf.Uniform(2), optional=True)
SOURCE = str(Path(sf.__file__).parent.parent)
ODD = "Age;town\n31;Zürich\n42;NA\n55;Genève\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    sf.Study("town", [AGE, CITY]).save("town.toml")
    Path("odd.csv").write_text(ODD, encoding="latin-1")
    return tmp_path


def run(*words: str, given: bytes | None = None) -> Result:
    return CliRunner().invoke(app, [*words], input=given)


def told(*words: str) -> str:
    done = run(*words)
    assert done.exit_code == 2, done.output
    return " ".join(done.output.split())


FORM = ("--delimiter", ";", "--encoding", "latin-1", "--na", "NA")
NAMES = ("--columns", "Age=age", "--columns", "town=city")


@pytest.mark.parametrize("table", ["odd.csv", "-"])
def test_odd_files_are_read_as_people_say(table: str) -> None:
    data = Path("odd.csv").read_bytes() if table == "-" else None
    seeded = ("--seed", "1", "--out", "odd.parquet")
    done = run("encode", "town.toml", table, *FORM, *NAMES, *seeded, given=data)
    assert done.exit_code == 0, done.output
    people = {"age": [31, 42, 55], "city": ["Zürich", None, "Genève"]}
    study = sf.Study.load("town.toml")
    assert sf.Reports.load("odd.parquet") == study.encode(people, bits=sf.SeededBits(1))


def test_every_command_that_reads_people_takes_them() -> None:
    done = run(
        "simulate", "town.toml", "odd.csv", *FORM, *NAMES, "--seed", "1", "--ask", "age=..50"
    )
    assert done.exit_code == 0, done.output
    done = run(
        "release",
        "town.toml",
        "odd.csv",
        *FORM,
        *NAMES,
        "--spend",
        "1",
        "--plan",
        "--ask",
        "age=..50",
    )
    assert done.exit_code == 0, done.output


def test_what_is_odd_is_named_with_the_option_that_helps() -> None:
    out = ("--out", "r.parquet")
    odd = ("encode", "town.toml", "odd.csv", *out, "--encoding", "latin-1")
    assert "--delimiter ';'" in told(*odd, *NAMES)
    Path("tabs.csv").write_text("age\tcity\n31\tZürich\n", encoding="utf-8")
    assert "--delimiter tab" in told("encode", "town.toml", "tabs.csv", *out)
    done = run("encode", "town.toml", "tabs.csv", "--out", "t.parquet", "--delimiter", "tab")
    assert done.exit_code == 0, done.output
    Path("case.csv").write_text("AGE, city\n31,Zürich\n", encoding="utf-8")
    assert "--columns AGE=age" in told("encode", "town.toml", "case.csv", *out)
    Path("space.csv").write_text("age, city\n31,Zürich\n", encoding="utf-8")
    assert "--columns ' city=city'" in told(
        "encode", "town.toml", "space.csv", "--out", "c.parquet"
    )
    Path("old.csv").write_text("age,city\n31,Zürich\n", encoding="latin-1")
    for words in (("old.csv",), ("-",)):
        given = Path("old.csv").read_bytes()
        done = run("encode", "town.toml", *words, "--out", "c.parquet", given=given)
        assert (done.exit_code, "Zürich" in done.output) == (2, False)
    assert "--encoding latin-1" in told("encode", "town.toml", "old.csv", "--out", "c.parquet")
    secret = Path("headless.csv")
    secret.write_text("31;Zürich\n42;Genève\n", encoding="utf-8")
    assert "Zürich" not in told("encode", "town.toml", "headless.csv", "--out", "c.parquet")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--delimiter", ";;"), "must be one character"),
        (("--encoding", "klingon"), "an encoding must be a known one"),
        (("--columns", "Age"), "--columns takes OLD=NEW"),
        (("--columns", "Age=agee"), "did you mean 'age'"),
        (("--columns", "a=age", "--columns", "b=age"), "'age' twice"),
        (("--engine", "local", "--na", "NA"), "--engine reads files as they are"),
    ],
)
def test_forms_that_cannot_be_are_refused(words: tuple[str, ...], message: str) -> None:
    assert message in told("encode", "town.toml", "odd.csv", "--out", "r.parquet", *words)


def test_reports_are_asked_as_tallies_are_from_files_and_pipes() -> None:
    study = sf.Study.load("town.toml")
    people = {"age": [31, 42, 55] * 50, "city": ["Zürich", None, "Genève"] * 50}
    reports = study.encode(people, bits=sf.SeededBits(1))
    reports.save("reports.parquet")
    study.tally(reports).save("tally.parquet")
    Path("reports.sfmr").write_bytes(reports.to_bytes())
    asked = ("age=18..40", "--method", "unbiased", "--csv")
    wanted = run("ask", "town.toml", "tally.parquet", *asked)
    assert wanted.exit_code == 0, wanted.output
    for name in ("reports.parquet", "reports.sfmr", "tally.parquet"):
        assert run("ask", "town.toml", name, *asked).output == wanted.output
        piped = run("ask", "town.toml", "-", *asked, given=Path(name).read_bytes())
        assert piped.output == wanted.output
    (row,) = csv.DictReader(io.StringIO(wanted.output))
    answer = study.tally(reports).estimate("unbiased").count("age=18..40")
    assert (row["question"], float(row["value"])) == ("age=18..40", float(answer))
    assert run("ask", "town.toml", "-", *asked, given=b"nonsense").exit_code == 2


def test_every_table_is_csv_if_asked(folder: Path) -> None:
    sf.Study.load("town.toml").simulate({"age": [31], "city": ["Zürich"]}, seed=1).save("t.parquet")
    for words, column in (
        (("quantile", "town.toml", "t.parquet", "age"), "value"),
        (("histogram", "town.toml", "t.parquet", "city"), "city"),
        (("heatmap", "town.toml", "t.parquet", "age", "city", "--bins", "3"), "stderr"),
        (("plan", "town.toml", "--people", "100"), "standard error"),
        (("compare", "town.toml", "--people", "100", "--method", "unbiased"), "channel"),
    ):
        done = run(*words, "--csv")
        assert done.exit_code == 0, done.output
        assert column in next(csv.reader(io.StringIO(done.output)))
        assert "do not go together" in told(*words, "--csv", "--json")


def test_answers_are_drawn(folder: Path) -> None:
    sf.Study.load("town.toml").simulate({"age": [31], "city": ["Zürich"]}, seed=1).save("t.parquet")
    done = run("ask", "town.toml", "t.parquet", "age=18..40", "age=50..", "--plot", "a.svg")
    assert (done.exit_code, Path("a.svg").exists()) == (0, True), done.output


def shell(*words: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    code = "from sfumato.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": SOURCE, **environment},
        check=False,
    )


@pytest.mark.slow
def test_a_terminal_of_few_characters_gets_plain_ones() -> None:
    for words in (
        ("explain", "town.toml"),
        ("plan", "town.toml", "--people", "100"),
        ("--help",),
        ("explain", "tö.toml"),
    ):
        done = shell(*words, PYTHONIOENCODING="ascii")
        assert b"Traceback" not in done.stderr
        assert done.stdout.isascii()
        assert done.stderr.isascii()
    assert b"+/-" in shell("plan", "town.toml", "--people", "9", PYTHONIOENCODING="ascii").stdout
    found = shell("explain", "town.toml", "--json", PYTHONIOENCODING="ascii")
    assert json.loads(found.stdout)["axes"][1]["name"] == "city"


def test_plain_characters_lose_nothing() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    use_plain_characters(stream)
    stream.write("1 ± 2 – Zürich … ≤ 🙂")
    stream.flush()
    assert raw.getvalue() == b"1 +/- 2 - Z\\xfcrich ... <= \\U0001f642"


@pytest.mark.slow
def test_shells_complete_commands_and_options() -> None:
    asked = {**os.environ, "PYTHONPATH": SOURCE, "_SFUMATO_COMPLETE": "complete_bash"}
    # The name of the variable follows that of the program.
    code = "import sys; sys.argv[0] = 'sfumato'; from sfumato.cli import main; main()"
    for line, place, wanted in (
        ("sfumato comp", "1", "compare"),
        ("sfumato plan --pe", "2", "--people"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": SOURCE,
                **asked,
                "COMP_WORDS": line,
                "COMP_CWORD": place,
            },
            check=False,
        )
        assert done.stdout.split() == [wanted], done.stderr
