"""The command sql: the query goes out, its result comes back."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli import app

RUN = CliRunner()


@pytest.fixture
def study(tmp_path: Path) -> sf.Study:
    """A study with two tables of reports."""
    axes = [
        sf.integers("age", 0, 99, protect=sf.Distance(0.5)),
        sf.integers("hour", 0, 23, protect=sf.Distance(0.5), channel=sf.Thermometer()),
    ]
    made = sf.Study("ages", axes)
    made.save(tmp_path / "study.toml")
    made.encode({"age": [31, 42, 77], "hour": [1, 2, 3]}).save(tmp_path / "reports.parquet")
    return made


def ran(tmp_path: Path, *words: str, code: int = 0) -> str:
    """What a command prints; paths are those of the folder."""
    found = RUN.invoke(app, [str(tmp_path / w) if "." in w else w for w in words])
    assert found.exit_code == code, found.output
    return found.stdout if code == 0 else " ".join(found.stderr.split())


@pytest.mark.parametrize("sums", [[], ["--sums"]])
def test_a_query_and_its_result_are_a_tally(
    tmp_path: Path, study: sf.Study, sums: list[str]
) -> None:
    asked = ["sql", "study.toml", "--dialect", "duckdb", "--table", "reports.parquet", *sums]
    duckdb.sql(ran(tmp_path, *asked)).write_parquet(str(tmp_path / "result.parquet"))
    said = ran(tmp_path, "sql", "study.toml", "--result", "result.parquet", "--out", "t.parquet")
    assert "Tallied 3 reports" in said
    ran(tmp_path, "tally", "study.toml", "reports.parquet", "--out", "same.parquet", *sums)
    assert (tmp_path / "t.parquet").read_bytes() == (tmp_path / "same.parquet").read_bytes()
    again = ["sql", "study.toml", "--result", "result.parquet", "--out", "t.parquet"]
    assert "exists" in ran(tmp_path, *again, code=2)
    found = json.loads(ran(tmp_path, *again, "--force", "--json"))
    assert found["reports"] == 3


def test_a_query_is_one_json_document(tmp_path: Path, study: sf.Study) -> None:
    found = json.loads(ran(tmp_path, "sql", "study.toml", "--dialect", "spark", "--json"))
    assert found["query"] == study.sql("spark")
    assert found["fingerprint"] == study.fingerprint


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--dialect", "oracle"], "dialect must be"),
        (["--dialect", "duckdb", "--form", "json"], "form must be"),
        (["--dialect", "duckdb", "--table", "a; b"], "table must be the name"),
        ([], "--dialect"),
        (["--dialect", "duckdb", "--out", "t.parquet"], "--out goes with --result"),
        (["--result", "reports.parquet"], "--result needs --out"),
        (["--result", "reports.parquet", "--sums", "--out", "t.parquet"], "leave --dialect"),
        (["--result", "reports.parquet", "--out", "t.parquet"], "columns of a query"),
        (["--result", "study.toml", "--out", "t.parquet"], "must end in .parquet"),
        (["--result", "none.parquet", "--out", "t.parquet"], "there is no file"),
        (["--result", "damaged.parquet", "--out", "t.parquet"], "damaged"),
    ],
)
def test_what_cannot_be_done_is_refused(
    tmp_path: Path, study: sf.Study, words: list[str], problem: str
) -> None:
    data = (tmp_path / "reports.parquet").read_bytes()
    (tmp_path / "damaged.parquet").write_bytes(data[:40] + bytes(20) + data[60:])
    assert problem in ran(tmp_path, "sql", "study.toml", *words, code=2)
    assert not (tmp_path / "t.parquet").exists()
