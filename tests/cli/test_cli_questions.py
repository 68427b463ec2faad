"""Tallies that keep sums for some questions, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli import app

RUN = CliRunner()
QUESTION = "age=30..45, hour=..2"


@pytest.fixture
def study(tmp_path: Path) -> sf.Study:
    """A study whose axes send bits, with two files of reports."""
    axes = [
        sf.integers(name, 0, last, protect=sf.Distance(2), channel=sf.Thermometer())
        for name, last in (("age", 99), ("hour", 23))
    ]
    made = sf.Study("ages", axes)
    made.save(tmp_path / "study.toml")
    for number in (1, 2):
        reports = made.encode({"age": [31, 42, 77] * number, "hour": [1, 2, 3] * number})
        reports.save(tmp_path / f"{number}.parquet")
    return made


def ran(tmp_path: Path, *words: str, code: int = 0) -> str:
    """What a command prints; files are those of the folder."""
    files = (".toml", ".parquet")
    found = RUN.invoke(app, [str(tmp_path / w) if w.endswith(files) else w for w in words])
    assert found.exit_code == code, found.output
    return found.stdout if code == 0 else " ".join(found.stderr.split())


@pytest.mark.slow
def test_a_tally_of_questions_answers_them(tmp_path: Path, study: sf.Study) -> None:
    files = ["tally", "study.toml", "1.parquet", "2.parquet", "--out"]
    asked = ["--question", QUESTION, "--question", "marginal hour"]
    assert "Tallied 9 reports" in ran(tmp_path, *files, "some.parquet", *asked)
    ran(tmp_path, *files, "all.parquet")
    found = json.loads(ran(tmp_path, "ask", "study.toml", "some.parquet", QUESTION, "--json"))
    wanted = sf.Tally.load(tmp_path / "all.parquet", study).estimate("unbiased").count(QUESTION)
    assert found["answers"][0]["value"] == wanted.value
    assert found["answers"][0]["stderr"] == wanted.stderr
    assert ran(tmp_path, "histogram", "study.toml", "some.parquet", "hour")
    said = ran(tmp_path, "ask", "study.toml", "some.parquet", "age=31, hour=1", code=2)
    assert "named beforehand" in said


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--question", "age=1", "--sums"], "--sums does not go with --question"),
        (["--question", "size=1"], "has no axis 'size'"),
        (["--question", "marginal size"], "there is no axis 'size'"),
        (["--question", "age=1", "--weights", "age"], "--question does not go with weights"),
    ],
)
def test_what_cannot_be_kept_is_refused(
    tmp_path: Path, study: sf.Study, words: list[str], problem: str
) -> None:
    said = ran(tmp_path, "tally", "study.toml", "1.parquet", *words, "--out", "t.parquet", code=2)
    assert problem in said
    assert not (tmp_path / "t.parquet").exists()
